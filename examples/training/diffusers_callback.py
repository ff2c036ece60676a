"""Evaluation inside a training loop of diffusers and accelerate, such as diffusers' train_text_to_image.py.

    callback = AccelerateCallback(evaluator, accelerator, lambda: pipeline_of(accelerator.unwrap_model(unet)))
    for batch in loader:
        ...
        if accelerator.sync_gradients:
            global_step += 1
            callback(global_step)

Nothing of diffusers or accelerate is imported: what is called is a pipeline's ``__call__``, and of the accelerator
``is_main_process``, ``wait_for_everyone`` and ``log``.
"""

import contextlib


class AccelerateCallback:
    """Evaluates when it is due, on the main process, while the others wait.

    Args:
        evaluator: a ``verism.CheckpointEvaluator``.
        accelerator: of accelerate.
        make_pipeline: returns the pipeline with the weights as they are now.
        **settings: of the pipeline's call: num_inference_steps, guidance_scale ...
    """

    def __init__(self, evaluator, accelerator, make_pipeline, **settings):
        self.evaluator, self.accelerator, self.make_pipeline, self.settings = (
            evaluator,
            accelerator,
            make_pipeline,
            settings,
        )

    def __call__(self, step):
        if step % self.evaluator.every or step == 0:  # the same on all processes, whose histories differ
            return None
        self.accelerator.wait_for_everyone()
        found = None
        if self.accelerator.is_main_process:
            pipeline = self.make_pipeline()
            with evaluating(modules_of(pipeline)):
                found = self.evaluator.evaluate(step, generator_of(pipeline, **self.settings))
            self.accelerator.print(found.summary())
            self.accelerator.log({f"verism/{found.score.metric}": found.score.value}, step=step)
        self.accelerator.wait_for_everyone()
        return found


def generator_of(pipeline, device="cpu", **settings):
    """generate(prompt, seed) with a generator of its own, so that the random state of the training stays as it is."""

    def generate(prompt, seed):
        import torch

        generator = torch.Generator(device).manual_seed(seed % 2**63)
        with torch.no_grad():
            return pipeline(prompt, generator=generator, **settings).images[0]

    return generate


def modules_of(pipeline):
    """The networks of a pipeline."""
    return [part for part in getattr(pipeline, "components", {}).values() if hasattr(part, "training")]


@contextlib.contextmanager
def evaluating(modules):
    """Networks in evaluation mode, and afterwards each as it was."""
    before = [(module, module.training) for module in modules]
    for module, _ in before:
        module.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.train(training)
