"""Runs of measures for the tests of their page: a few coloured images, and runs whose scores are made by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verism.imaging import encode_png
from verism.manifest import RunSettings, Scoring
from verism.records import Prompt, Score, frame
from verism.store import Run

OBJECTS, REGIONS = ("red", "green"), ("North", "South")
PER_CELL = 6
TINTS: Mapping[str, Sequence[int]] = {"red": (200, 40, 40), "green": (40, 180, 40)}


def score(
    metric: str, value: float, low: float = math.nan, high: float = math.nan, *, group: Any = (), **more: Any
) -> Score:
    """A score of 40 images under the revised protocol."""
    described: dict[str, Any] = {
        "suite": "made",
        "protocol": "revised",
        "n_used": 40,
        "n_unusable": 0,
        "unit": "share",
    } | more
    return Score(metric=metric, value=value, ci_low=low, ci_high=high, group=dict(group), **described)


def write_images(folder: Path, *, shift: int = 0, seed: int = 0, regions: Sequence[str] = REGIONS) -> Path:
    """``PER_CELL`` images of each object and region, and the table that lists them.

    Args:
        shift: how much brighter the images of South are than those of North are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    lines = ["file_path,object,region"]
    for name in OBJECTS:
        for region in regions:
            for number in range(PER_CELL):
                light = (shift if region == "South" else 0) + rng.integers(-25, 25, 3)
                mean = np.clip(np.array(TINTS[name]) + light, 20, 235)
                pixels = np.clip(mean + rng.integers(-15, 15, (12, 12, 3)), 0, 255).astype(np.uint8)
                file = f"{name}-{region}-{number}.png"
                (folder / file).write_bytes(encode_png(pixels))
                lines.append(f"{file},{name},{region}")
    (folder / "list.csv").write_text("\n".join(lines) + "\n")
    return folder / "list.csv"


def make_measured_run(
    path: Path,
    scores: Sequence[Score],
    *,
    suite: str = "quality",
    generator: str = "images:fake",
    images: Sequence[Mapping[str, Any]] = (),
    verdicts: Sequence[Mapping[str, Any]] = (),
    prompts: Sequence[Prompt] = (),
    remarks: Sequence[str] = (),
) -> Run:
    """A run without any judge, whose scores and verdicts are given."""
    run = Run.start(path, RunSettings(suite=suite, generator=generator), scoring=Scoring(remarks=tuple(remarks)))
    listed = prompts or [Prompt(prompt_id="p", suite=suite, text="a dog", facets={"region": "North", "object": "dog"})]
    run.write_prompts(list(listed))
    run.append("images", frame("images", list(images)))
    run.write_verdicts(frame("verdicts", list(verdicts)))
    run.write_scores(list(scores))
    return run


def image(image_id: str, prompt_id: str = "p", **more: Any) -> dict[str, Any]:
    """A row of the table ``images``: an image that is in order, if not said otherwise."""
    row = {"image_id": image_id, "prompt_id": prompt_id, "index": 0, "seed": 0, "state": "ok", "note": ""}
    return row | more


def verdict(image_id: str, rule: str, value: float | None, *, prompt_id: str = "p", **more: Any) -> dict[str, Any]:
    """A row of the table ``verdicts``."""
    row: dict[str, Any] = {"image_id": image_id, "prompt_id": prompt_id, "protocol": "revised", "rule": rule}
    return row | {"value": value, "reason": "", "detail": None} | more
