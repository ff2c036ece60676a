"""Small finished runs, made without generator or detector."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import ColourFeatures, ColourWords
from measure_runs import make_measured_run, write_images
from PIL import Image, ImageDraw

from verism.api import evaluate
from verism.imaging import encode_png
from verism.manifest import RunSettings, Scoring
from verism.records import Observed, Prompt, Score, frame, make_image_id
from verism.store import Run
from verism.suites.base import complete_scores
from verism.suites.paintskills.suite import PaintSkills

MakeRun = Callable[..., Run]
PALETTE = {"red": "#c33", "blue": "#36c", "yellow": "#ec3", "white": "#eee", "purple": "#84b", "green": "#3a5"}
PLACES = {"left": (24, 78), "right": (132, 78), "above": (78, 18), "below": (78, 138)}


def _unit(*parts: object) -> float:
    """A number in [0, 1) that depends on its arguments alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big") / 2**48


def _corners(prompt: Prompt, swap: bool) -> list[tuple[int, int]]:
    relation = prompt.facets.get("relation")
    if relation is not None:
        there = PLACES[str(relation)]
        corners = [(156 - there[0], 156 - there[1]), there]
        return corners[::-1] if swap else corners
    n = len(prompt.spec["labels"])
    return [(20 + 48 * k, 60 + 24 * (k % 2)) for k in range(n)]


@lru_cache
def standard(skills: tuple[str, ...], limit: int) -> PaintSkills:
    """Choosing a few among thousands of scenes takes longer than all the rest."""
    return PaintSkills.standard(skills=skills, limit=limit)


def build_run(
    path: Path,
    *,
    skill_level: float = 0.8,
    limit: int = 12,
    skills: Sequence[str] = ("object", "count", "spatial", "color"),
    states: Mapping[int, str] | None = None,
    generator: Any = "images:fake",
    judge: str | None = "fake-detector@1",
    note: str = "",
    text: str | None = None,
    errors: bool = False,
    truth: bool = False,
    foreign: float = 0.0,
) -> Run:
    """A run whose images show what was asked with probability ``skill_level``, seen by a detector without error.

    ``states`` gives images by number another state than ok; ``text`` replaces every prompt's; ``foreign`` is the
    share of images with a bird of confidence 0.65, which only some rules mind.
    """
    suite = standard(tuple(skills), limit)
    prompts = [p if text is None else replace(p, text=text) for p in suite.prompts()]
    settings = RunSettings(suite=suite.name, suite_settings={"limit": limit}, generator=generator)
    judges = {} if judge is None else {"detector": judge}
    run = Run.start(path, settings, scoring=Scoring(rules=suite.all_rules(), judges=judges))
    run.write_prompts(prompts)
    images, boxes = [], []
    for number, prompt in enumerate(prompts):
        image_id = make_image_id(prompt.prompt_id, 0)
        state = (states or {}).get(number, "ok")
        row: dict[str, Any] = {
            "image_id": image_id,
            "prompt_id": prompt.prompt_id,
            "index": 0,
            "seed": number,
            "state": state,
        }
        if state != "ok":
            images.append(row | {"note": note})
            continue
        right = _unit(path.name, image_id) < skill_level
        labels = list(prompt.spec["labels"])
        if not right and prompt.facets["skill"] in ("object", "color"):
            labels[0] = "chair" if labels[0] != "chair" else "dog"
        if not right and prompt.facets["skill"] == "count":
            labels = labels[:-1]
        swap = not right
        image = Image.new("RGB", (240, 240), "#b9c7d2")
        draw = ImageDraw.Draw(image)
        draw.rectangle((0, 150, 240, 240), fill="#8a9a78")
        boxes.append({"image_id": image_id, "judge": judge, "query": -1})
        places = [(label, corner, 0.9) for label, corner in zip(labels, _corners(prompt, swap))]
        if _unit("foreign", path.name, image_id) < foreign:
            places.append(("bird", (170, 10), 0.65))
        for query, (label, (x, y), score) in enumerate(places):
            color = prompt.spec["color"]
            draw.rounded_rectangle((x, y, x + 60, y + 76), 10, fill=PALETTE[color] if color else "#667")
            class_scores = [0.01] * len(suite.labels)
            class_scores[suite.labels.index(label)] = score
            boxes.append(
                {
                    "image_id": image_id,
                    "judge": judge,
                    "query": query,
                    "label": label,
                    "raw_label": label,
                    "score": score,
                    "x0": x,
                    "y0": y,
                    "x1": x + 61,
                    "y1": y + 77,
                    "class_scores": class_scores,
                    "color": color,
                    "color_scores": [],
                }
            )
        png = encode_png(np.asarray(image))
        images.append(
            row
            | {
                "path": run.write_image(image_id, png),
                "sha256": hashlib.sha256(png).hexdigest(),
                "width": 240,
                "height": 240,
                "note": "",
            }
        )
    run.append("images", frame("images", images))
    if judge is not None:
        run.append("detections", frame("detections", boxes), judge)
        if truth:
            run.append("detections", frame("detections", [{**b, "judge": "truth"} for b in boxes]), "truth")
    score_run(run, suite, prompts, frame("detections", boxes), errors=errors)
    return run


def score_run(run: Run, suite: PaintSkills, prompts: Sequence[Prompt], boxes: Any, *, errors: bool = False) -> None:
    """Verdicts and scores; with ``errors`` also rows on the judge's own, of made-up values."""
    images = run.read("images")
    observed = Observed(prompts={p.prompt_id: p for p in prompts}, images=images, observations={"detections": boxes})
    verdicts = suite.verdicts(observed)
    run.write_verdicts(verdicts)
    scores = list(suite.scores(observed, verdicts))
    if errors:
        for base in [s for s in scores if s.metric == "accuracy" and set(s.group) == {"skill"}]:
            for metric, value in (
                ("judge_false_accept", 0.123),
                ("judge_false_reject", 0.045),
                ("true_accuracy", 0.678),
            ):
                made: Score = replace(base, metric=metric, value=value, ci_low=value - 0.04, ci_high=value + 0.04)
                scores.append(made)
    run.write_scores(complete_scores(suite, scores))
    run.write_presentation(suite.presentation())


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """``built(name, **options)``: the run of ``build_run``, which is not to be changed; the same is built once."""
    known: dict[str, Run] = {}

    def build(name: str, **options: Any) -> Run:
        key = repr((name, sorted(options.items())))
        if key not in known:
            known[key] = build_run(tmp_path_factory.mktemp("built") / name, **options)
        return known[key]

    return build


@pytest.fixture
def make_run(tmp_path: Path, built: MakeRun) -> MakeRun:
    """``make_run(name, **options)``: a run of one's own, see ``build_run``."""

    def make(name: str = "model-a", **options: Any) -> Run:
        shutil.copytree(built(name, **options).path, tmp_path / name)
        return Run.open(tmp_path / name)

    return make


@pytest.fixture
def measured_run(tmp_path: Path) -> MakeRun:
    """``measured_run(name, scores, **options)``: see ``make_measured_run``."""

    def make(name: str, scores: Sequence[Score] = (), **options: Any) -> Run:
        return make_measured_run(tmp_path / name, scores, **options)

    return make


@pytest.fixture(scope="session")
def geography_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """A model like the real images, and one whose images of South are too bright."""
    folder = tmp_path_factory.mktemp("world")
    real = write_images(folder / "real", seed=1)
    runs = []
    for name, shift in (("fair", 0), ("bright", 90)):
        runs.append(
            evaluate(
                "geography",
                images=write_images(folder / f"{name}-pictures", shift=shift, seed=2),
                reference=real,
                judges={"features": ColourFeatures(), "clip": ColourWords()},
                out=folder / name,
            )
        )
    return runs[0], runs[1]


@pytest.fixture
def geography_run(geography_runs: tuple[Run, Run]) -> Run:
    """The model whose images of South are too bright. Tests that change it work on a copy."""
    return geography_runs[1]
