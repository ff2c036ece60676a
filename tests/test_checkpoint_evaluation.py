"""A model evaluated while it is trained: the same prompts and seeds, a history that goes on, honest comparisons."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import PixelJudge, PixelRenderer

import verism
from verism.checkpoint_evaluation import sparkline
from verism.errors import UsageError
from verism.suites.catalogue import make_suite
from verism.trackers import Evaluation

ROOT = Path(__file__).parents[1]
OPTIONS = {"limit": 12, "seed": 5}


class ToyModel:
    """Draws the scene of a prompt in a share ``skill`` of all seeds, and noise otherwise."""

    def __init__(self, skill: float = 0.0, **options: Any) -> None:
        suite = make_suite("paintskills", **(options or OPTIONS))
        self.scenes = {prompt.text: prompt.scene for prompt in suite.prompts()}
        self.renderer = PixelRenderer(tuple(suite.classes), suite.colors)
        self.skill = skill
        self.asked: list[tuple[str, int]] = []

    def paint(self, prompt: str, seed: int) -> np.ndarray:
        self.asked.append((prompt, seed))
        luck = int.from_bytes(hashlib.sha256(f"{prompt}{seed}".encode()).digest()[:4]) / 2**32
        if luck < self.skill:
            return self.renderer.render(self.scenes[prompt]).pixels
        return np.random.default_rng(seed).integers(0, 100, (64, 64, 3), dtype=np.uint8)


def evaluator(folder: Path, **options: Any) -> verism.CheckpointEvaluator:
    asked = {"every": 10, "name": "toy", "judges": {"detector": PixelJudge()}, **OPTIONS, **options}
    return verism.CheckpointEvaluator("paintskills", out=folder / "evaluations", **asked)


def trained(folder: Path, model: ToyModel, skills: dict[int, float], **options: Any) -> verism.CheckpointEvaluator:
    made = evaluator(folder, **options)
    for step, skill in skills.items():
        model.skill = skill
        made.evaluate(step, model.paint, checkpoint=f"c{step}")
    return made


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([0.3], "▄"),
        ([0.0, 1.0], "▁█"),
        ([0.0, float("nan"), 0.5, 1.0], "▁ ▅█"),
        ([float("nan")], " "),
        ([2.0, 2.0], "▄▄"),
    ],
)
def test_sparkline_spans_lowest_to_highest_and_leaves_gaps(values, line):
    assert sparkline(values) == line


def test_every_evaluation_asks_the_same_prompts_with_the_same_seeds(tmp_path):
    model = ToyModel()
    trained(tmp_path, model, {10: 0.2, 20: 0.9})
    half = len(model.asked) // 2
    assert half == 12
    assert sorted(model.asked[:half]) == sorted(model.asked[half:])


def test_due_steps_are_multiples_that_were_not_evaluated(tmp_path):
    made = evaluator(tmp_path)
    assert [step for step in range(31) if made.is_due(step)] == [10, 20, 30]
    made.evaluate(10, ToyModel(1.0).paint)
    assert [step for step in range(31) if made.is_due(step)] == [20, 30]


def test_a_checkpoint_that_paints_less_is_not_compared_without_a_word(tmp_path):
    model = ToyModel(1.0)
    made = evaluator(tmp_path)
    made.evaluate(10, model.paint)
    black = set(sorted(model.scenes)[: len(model.scenes) * 2 // 3])
    found = made.evaluate(20, lambda prompt, seed: model.paint(prompt, seed) * (prompt not in black))
    assert found.against_last[0].reasons[0].startswith("usable answers: ")
    assert "unusable)" in found.summary().partition("\n")[0]
    assert "against the last (step 10): not comparable, usable answers: " in found.summary()
    assert found.summary().endswith("in step 20")


def test_a_checkpoint_with_fewer_usable_images_is_not_the_best(tmp_path):
    model = ToyModel(0.5)
    made = evaluator(tmp_path)
    made.evaluate(10, model.paint)
    whole = made.score(10)
    model.skill = 1.0
    black = set(model.scenes) - set(sorted(model.scenes)[::3])
    found = made.evaluate(20, lambda prompt, seed: model.paint(prompt, seed) * (prompt not in black))
    assert found.score.value > whole.value
    assert (made.best, found.is_best) == (10, False)
    model.skill = 0.6
    found = made.evaluate(30, model.paint)
    assert found.best_step == 10
    assert made.best == (30 if found.score.value > whole.value else 10)


def test_comparison_is_that_of_two_runs_and_names_last_and_best(tmp_path):
    model = ToyModel()
    made = trained(tmp_path, model, {10: 0.1, 20: 1.0, 30: 0.4})
    model.skill = 0.6
    found = made.evaluate(40, model.paint)
    expected = verism.compare(made.path(30), made.path(40))[0]
    assert (found.last_step, found.best_step, found.is_best) == (30, 20, False)
    assert found.against_last[0] == expected
    assert found.against_best[0].difference < 0
    assert found.score.value == made.run(40).metrics()["mean_accuracy"]
    assert made.best == 20
    assert made.sparkline() == found.line
    assert found.line[0] == "▁"
    assert found.line[1] == "█"
    text = found.summary()
    assert text.startswith("step 40: mean_accuracy 0.")
    assert "against the last (step 30): +" in text
    assert "against the best (step 20): -" in text
    first = made.evaluate(10, model.paint)
    assert (first.against_last, first.last_step, first.is_best) == ((), None, True)


def test_history_goes_on_in_another_process_and_is_not_made_again(tmp_path):
    model = ToyModel()
    trained(tmp_path, model, {10: 0.3, 20: 0.7})
    asked = len(model.asked)
    again = evaluator(tmp_path, threads=3)  # the machine may change
    assert again.steps == [10, 20]
    assert not again.is_due(20)
    assert again.evaluate(20, model.paint).checkpoint == "c20"
    assert len(model.asked) == asked
    table = again.frame()
    assert table["step"].unique().to_list() == [10, 20]
    assert set(table["checkpoint"]) == {"c10", "c20"}


def test_interrupted_evaluation_starts_anew(tmp_path):
    model, made = ToyModel(1.0), evaluator(tmp_path)

    def stopped(prompt: str, seed: int) -> np.ndarray:
        if len(model.asked) == 4:
            raise KeyboardInterrupt
        return model.paint(prompt, seed)

    with pytest.raises(KeyboardInterrupt):
        made.evaluate(10, stopped)
    assert made.path(10).exists()
    model.asked.clear()
    again = evaluator(tmp_path)
    assert again.is_due(10)
    again.evaluate(10, model.paint)
    assert len(model.asked) == 12


def test_replaced_evaluation_is_of_the_weights_of_now(tmp_path):
    model = ToyModel()
    made = trained(tmp_path, model, {10: 0.0})
    model.skill = 1.0
    assert made.evaluate(10, model.paint).score.value == 0.0
    assert made.evaluate(10, model.paint, replace=True).score.value == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [({"limit": 6}, "another options"), ({"judges": {"detector": PixelJudge(name="other@2")}}, "another judges")],
)
def test_other_settings_in_the_same_folder_are_refused(tmp_path, change, message):
    trained(tmp_path, ToyModel(), {10: 0.5})
    with pytest.raises(UsageError, match=message):
        evaluator(tmp_path, **change)


def test_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "evaluations").mkdir()
    (tmp_path / "evaluations" / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="holds no evaluations"):
        evaluator(tmp_path)


@pytest.mark.parametrize("content", ["[]", '{"format": "other"}', '{"format": 3, "version"', "null"])
def test_damaged_history_is_told(tmp_path, content):
    (tmp_path / "evaluations").mkdir()
    (tmp_path / "evaluations" / "history.json").write_text(content)
    with pytest.raises(UsageError, match=r"history\.json"):
        evaluator(tmp_path)


def test_hooks_are_told_steps_under_one_name_and_one_that_raises_loses_nothing(tmp_path):
    told: list[tuple[str, int | None, str]] = []

    def hook(evaluation: Evaluation) -> None:
        told.append((evaluation.title, evaluation.step, evaluation.checkpoint))
        if evaluation.step == 20:
            raise StopIteration

    model = ToyModel(0.5)
    made = trained(tmp_path, model, {10: 0.5}, on_scores=hook)
    with pytest.raises(StopIteration):
        made.evaluate(20, model.paint)
    assert told == [("toy", 10, "c10"), ("toy", 20, "")]
    assert evaluator(tmp_path).steps == [10, 20]


def test_unknown_metric_and_step_are_refused(tmp_path):
    made = trained(tmp_path, ToyModel(), {10: 0.5}, metric="")
    made.metric = "speed"
    with pytest.raises(UsageError, match="no headline metric 'speed' over all images; there are mean_accuracy"):
        made.score(10)
    with pytest.raises(UsageError, match="step 11 was not evaluated; steps are 10"):
        made.run(11)
    with pytest.raises(UsageError, match="at least 1; got 0"):
        evaluator(tmp_path, every=0)


# ---------------------------------------------------------------------------------------------------------- callbacks
def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / "training" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Network:
    """As much of a module as the callbacks touch."""

    def __init__(self) -> None:
        self.training, self.modes = True, list[bool]()

    def eval(self) -> None:
        self.train(False)

    def train(self, mode: bool = True) -> None:
        self.training = mode
        self.modes.append(mode)


class Accelerator:
    """As much of accelerate's."""

    def __init__(self, *, main: bool = True) -> None:
        self.is_main_process, self.waited, self.logged = main, 0, list[tuple[dict[str, float], int]]()

    def wait_for_everyone(self) -> None:
        self.waited += 1

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((values, step))

    def print(self, text: str) -> None:
        assert text.startswith("step ")


def pipeline_of(model: ToyModel, network: Network) -> Callable[..., Any]:
    class Pipeline:
        components = {"unet": network, "scheduler": object()}  # noqa: RUF012

        def __call__(self, prompt: str, *, generator: Any, num_inference_steps: int) -> Any:
            assert num_inference_steps == 2
            assert not network.training
            return SimpleNamespace(images=[model.paint(prompt, generator.initial_seed())])

    return Pipeline()


def test_accelerate_callback_evaluates_when_due_and_leaves_the_training_as_it_was(tmp_path):
    torch = pytest.importorskip("torch")
    module, network, accelerator = example("diffusers_callback"), Network(), Accelerator()
    pipeline = pipeline_of(ToyModel(1.0), network)
    callback = module.AccelerateCallback(evaluator(tmp_path), accelerator, lambda: pipeline, num_inference_steps=2)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    results = [callback(step) for step in range(12)]
    assert torch.equal(torch.get_rng_state(), before)
    assert [n for n, found in enumerate(results) if found is not None] == [10]
    assert network.training
    assert accelerator.logged == [({"verism/mean_accuracy": 1.0}, 10)]
    assert accelerator.waited == 2


def test_accelerate_callback_of_another_process_only_waits(tmp_path):
    accelerator = Accelerator(main=False)
    callback = example("diffusers_callback").AccelerateCallback(evaluator(tmp_path), accelerator, lambda: None)
    assert [callback(step) for step in (9, 10)] == [None, None]
    assert accelerator.waited == 2
    assert not (tmp_path / "evaluations").exists()


@pytest.mark.parametrize("first", [True, False])
def test_lightning_callback_evaluates_once_a_step_on_the_first_process(tmp_path, first):
    logged: list[tuple[dict[str, float], int]] = []
    barriers: list[str] = []
    trainer = SimpleNamespace(
        global_step=0,
        is_global_zero=first,
        logger=SimpleNamespace(log_metrics=lambda values, step: logged.append((values, step))),
        strategy=SimpleNamespace(barrier=barriers.append),
    )
    network, model = Network(), ToyModel(1.0)

    class Base:  # Lightning's own class stands here
        def on_train_start(self) -> None: ...

    class Callback(example("lightning_callback").EvaluationCallback, Base): ...  # type: ignore[misc]

    callback = Callback(evaluator(tmp_path), lambda _: model.paint)
    for step in (0, 0, 9, 10, 10, 11):  # two batches for one step: accumulated gradients
        trainer.global_step = step
        callback.on_train_batch_end(trainer, network, None, None, 0)
    callback.on_fit_end(trainer, network)
    assert barriers == ["verism"]
    assert logged == ([({"verism/mean_accuracy": 1.0}, 10)] if first else [])
    assert network.training
    assert network.modes == ([False, True] if first else [])


# --------------------------------------------------------------------------------------------------------------- docs
def test_recipe_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "training-loop.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    model, done = ToyModel(limit=60, seed=7), []

    def train_one_step() -> None:
        done.append(1)
        model.skill = len(done) / 3000

    names: dict[str, Any] = {"train_one_step": train_one_step, "generate": model.paint, "detector": PixelJudge()}
    for block in blocks:
        exec(compile(block, "training-loop.md", "exec"), names)
    assert names["best_checkpoint"] == "checkpoint-3000"
    printed = capsys.readouterr().out
    (shown,) = re.findall(r"```text\n(step 1000.*?)```", text, flags=re.DOTALL)
    assert printed == f"{shown}[1000, 2000, 3000] 3000 ▁▅█\n"
    assert names["rows"][0].difference > 0
    assert names["report"].is_file()
    assert json.loads((tmp_path / "evaluations" / "history.json").read_text())["evaluations"][2] == {
        "step": 3000,
        "checkpoint": "checkpoint-3000",
    }
