"""The Python interface as a notebook and a training loop use it."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from fakes import PixelJudge, PixelRenderer

import verism
from verism.errors import UsageError, VerismError
from verism.generators.function import FunctionGenerator
from verism.generators.scripted import ScriptedGenerator
from verism.store import Run
from verism.suites.paintskills.suite import PaintSkills

ASKED = {"skills": ["object"], "limit": 6}


def paint(prompt: str, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, len(prompt)]).integers(0, 200, (16, 16, 3), dtype=np.uint8)


def test_evaluate_callable_as_model_is_asked_by_prompt_and_seed(tmp_path):
    asked = []

    def model(prompt: str, seed: int) -> np.ndarray:
        asked.append((prompt, seed))
        return paint(prompt, seed)

    run = verism.evaluate("paintskills", model=model, detector=PixelJudge(), out=tmp_path / "run", **ASKED)
    rows = run.read("images").sort("image_id")
    assert rows["state"].to_list() == ["ok"] * 6
    texts = {p.prompt_id: p.text for p in run.prompts()}
    assert sorted(asked) == sorted((texts[r["prompt_id"]], r["seed"]) for r in rows.iter_rows(named=True))


def test_evaluate_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"a callable \(prompt, seed\) -> image; got int"):
        verism.evaluate("paintskills", model=3, detector=PixelJudge(), out=tmp_path / "run", **ASKED)  # type: ignore[arg-type]


class Closing(FunctionGenerator):
    closed = 0

    def close(self) -> None:
        self.closed += 1


class ClosingJudge(PixelJudge):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_evaluate_generator_and_judge_passed_in_serve_two_suites_and_stay_open(tmp_path):
    model, judge = Closing(paint, name="mine"), ClosingJudge()
    for number, suite in enumerate(("paintskills", "paintskills_v1")):
        run = verism.evaluate(suite, model=model, judges={"detector": judge}, out=tmp_path / str(number), **ASKED)
        assert run.read("images")["state"].to_list() == ["ok"] * 6
    assert (model.closed, judge.closed) == (0, 0)


def test_function_generator_broken_in_its_second_run_is_stopped(tmp_path):
    works = True

    def model(prompt: str, seed: int) -> np.ndarray:
        if not works:
            raise RuntimeError("the weights are gone")
        return paint(prompt, seed)

    generator = FunctionGenerator(model, name="mine")
    verism.evaluate("paintskills", model=generator, detector=PixelJudge(), out=tmp_path / "a", **ASKED)
    works = False
    with pytest.raises(VerismError, match="the weights are gone"):
        verism.evaluate("paintskills", model=generator, detector=PixelJudge(), out=tmp_path / "b", **ASKED)


def test_evaluate_without_out_is_a_temporary_run():
    run = verism.evaluate("paintskills", model=paint, detector=PixelJudge(), **ASKED)
    folder = run.path
    assert folder.is_dir()
    assert run.frame().height > 0
    del run
    gc.collect()
    assert not folder.exists()


def test_evaluate_finished_run_again_says_that_nothing_was_generated(tmp_path, capsys):
    options = {"model": FunctionGenerator(paint, name="step 1000"), "detector": PixelJudge(), "out": tmp_path / "run"}
    verism.evaluate("paintskills", **options, **ASKED)
    assert "nothing was generated" not in capsys.readouterr().err
    verism.evaluate("paintskills", **options, **ASKED)
    assert "nothing was generated" in capsys.readouterr().err
    collected: list[str] = []
    verism.evaluate("paintskills", **options, **ASKED, on_summary=collected.append)
    assert "step 1000" in next(line for line in collected if "nothing was generated" in line)


@pytest.mark.parametrize("options", [{}, {"share": True}, {"shard": "1/1"}])
def test_evaluate_images_that_lack_observations_says_what_was_missing_and_is_made(tmp_path, options):
    out, model = tmp_path / "run", FunctionGenerator(paint, name="step 1000")
    verism.generate("paintskills", model=model, out=out, **ASKED)
    told: list[str] = []

    def again(judge: str) -> str:
        verism.evaluate(
            "paintskills",
            model=model,
            detector=PixelJudge(name=judge),
            out=out,
            on_summary=told.append,
            **ASKED,
            **options,
        )
        (line,) = [each for each in told if "nothing was generated" in each]
        told.clear()
        return line.removeprefix(f"nothing was generated: {out} holds all images of step 1000 already; ")

    run = Run.open(out)
    run.resettle(replace(run.manifest.settings, judges={"detector": "a@1"}))  # as processes that share a run need it
    assert again("a@1") == "what was missing has been made: 6 observations by a@1"
    run = Run.open(out)
    run.forget("detections", run.read("images")["image_id"].to_list()[:2], "a@1")
    assert again("a@1") == "what was missing has been made: 2 observations by a@1"
    assert again("a@1") == "name another out (or another model) for new ones"


def test_evaluate_suite_object_gives_the_scores_of_its_name(tmp_path):
    by_name = verism.evaluate("paintskills", model=paint, detector=PixelJudge(), out=tmp_path / "a", seed=4, **ASKED)
    suite = PaintSkills.make({**ASKED, "seed": 4})
    by_object = verism.evaluate(suite, model=paint, detector=PixelJudge(), out=tmp_path / "b")
    assert by_object.frame().equals(by_name.frame())
    with pytest.raises(UsageError, match="paintskills is made already; limit must be given where it is made"):
        verism.evaluate(suite, model=paint, detector=PixelJudge(), out=tmp_path / "c", limit=3)


def test_evaluate_unknown_role_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no role 'detectr'; judges have the roles detector"):
        verism.evaluate("paintskills", model=paint, judges={"detectr": PixelJudge()}, out=tmp_path / "a", **ASKED)


def test_plan_says_what_would_be_judged(tmp_path):
    planned = verism.plan("paintskills", model=paint, detector=PixelJudge(), **ASKED)
    assert (planned.images, planned.judgements) == (6, {"detector": 6})
    assert planned.rules["threshold_revised"] == 0.5
    out = tmp_path / "run"
    before = verism.evaluate("paintskills", model=paint, detector=PixelJudge(), out=out, **ASKED)
    again = verism.plan("paintskills", model=paint, detector=PixelJudge(), out=out, **ASKED)
    assert (again.images_done, again.judgements) == (6, {"detector": 0})
    assert (again.images_before, again.images) == (6, 6)
    larger = verism.plan("paintskills", model=paint, detector=PixelJudge(), out=out, **{**ASKED, "limit": 8})
    assert (larger.images_before, larger.images, larger.images_done) == (6, 8, 6)
    with pytest.raises(UsageError, match="A run grows but does not shrink"):
        verism.plan("paintskills", model=paint, detector=PixelJudge(), out=out, **{**ASKED, "limit": 4})
    with pytest.raises(UsageError, match="seed: 0 there, 9 now"):
        verism.plan("paintskills", model=paint, detector=PixelJudge(), out=out, **ASKED, seed=9)
    assert verism.open_run(out).manifest == before.manifest


def test_run_answers_in_a_notebook(tmp_path):
    suite = PaintSkills.make({"limit": 12, "seed": 5})
    renderer = PixelRenderer(tuple(suite.classes), suite.colors)
    scripted = ScriptedGenerator(renderer, classes=suite.classes, colors=suite.colors, error=0.5)
    run = verism.evaluate(suite, model=scripted, detector=PixelJudge(), out=tmp_path / "run")
    metrics = run.metrics()
    assert next(iter(metrics)) == "mean_accuracy"
    assert set(metrics) == {"mean_accuracy", *(f"accuracy/skill={s}" for s in ("object", "count", "spatial"))}
    frame = run.frame()
    assert isinstance(frame, pl.DataFrame)
    assert {"skill", "metric", "value", "ci_low"} <= set(frame.columns)
    failures = run.failures()
    wrong = run.verdicts().filter((pl.col("rule") == "accuracy") & (pl.col("protocol") == "revised"))
    assert set(failures["image_id"]) == set(wrong.filter(pl.col("value") == 0)["image_id"])
    assert {"path", "prompt", "reason", "skill"} <= set(failures.columns)
    assert "paintskills" in repr(run)
    assert "<table>" in run._repr_html_()
    page = run.report()
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
