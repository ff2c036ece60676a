"""Evaluation as a callback of Lightning.

    import lightning

    class Evaluation(EvaluationCallback, lightning.Callback): ...

    trainer = lightning.Trainer(callbacks=[Evaluation(evaluator, make_generator)])

Lightning is not imported here: it wants its own base class, which the line above adds.
"""


class EvaluationCallback:
    """Evaluates after the batch that makes a step due, on the first process, while the others wait.

    Args:
        evaluator: a ``verism.CheckpointEvaluator``.
        make_generator: given the LightningModule, returns ``generate(prompt, seed)``.
    """

    def __init__(self, evaluator, make_generator):
        super().__init__()
        self.evaluator, self.make_generator, self.last_step = evaluator, make_generator, 0

    def on_train_batch_end(self, trainer, pl_module, *args, **kwargs):  # noqa: ARG002
        step = trainer.global_step
        # With accumulated gradients several batches end at one step.
        if step == self.last_step or step % self.evaluator.every:
            return
        self.last_step = step
        if trainer.is_global_zero:
            training = pl_module.training
            pl_module.eval()
            try:
                found = self.evaluator.evaluate(step, self.make_generator(pl_module))
            finally:
                pl_module.train(training)
            if trainer.logger is not None:
                trainer.logger.log_metrics({f"verism/{found.score.metric}": found.score.value}, step=step)
        trainer.strategy.barrier("verism")

    def on_fit_end(self, trainer, pl_module):  # noqa: ARG002
        self.evaluator.close()
