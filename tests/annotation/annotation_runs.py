"""Small runs for the tests of human evaluation: PaintSkills prompts, plain images, no judge needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from verism.imaging import encode_png
from verism.manifest import RunSettings
from verism.records import Estimand, Need, Observed, Prompt, frame, make_image_id
from verism.specs import SuiteInfo
from verism.store import Run
from verism.suites.base import Suite
from verism.suites.catalogue import make_suite

if TYPE_CHECKING:
    import polars as pl


class PlainSuite(Suite):
    """A suite with these estimands and graded rules, and nothing else."""

    info = SuiteInfo(name="plain", title="Plain", question="?", summary="", protocols={"revised": ""})

    def __init__(self, *estimands: Estimand, graded: Mapping[str, Sequence[str]] | None = None) -> None:
        self._estimands = estimands
        self._graded = graded or {}

    def prompts(self) -> Sequence[Prompt]:
        return ()

    def needs(self) -> Sequence[Need]:
        return ()

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        del observed
        return frame("verdicts", [])

    def estimands(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Estimand]:
        del observed, verdicts
        return self._estimands

    def graded_rules(self) -> Mapping[str, Sequence[str]]:
        return self._graded


def make_run(path: Path, *, limit: int = 12, n_images: int = 1, skip: int = 0, seed: int = 0) -> Run:
    """A run of PaintSkills with plain images and verdicts of nobody; the first ``skip`` images are missing."""
    suite = make_suite("paintskills", limit=limit, n_images=n_images)
    run = Run.start(path, RunSettings(suite="paintskills", suite_settings=suite.settings(), seed=seed))
    run.write_prompts(suite.prompts())
    rows = []
    for number, prompt in enumerate(suite.prompts()):
        for index in range(n_images):
            image_id = make_image_id(prompt.prompt_id, index)
            row = {"image_id": image_id, "prompt_id": prompt.prompt_id, "index": index, "seed": 0, "state": "missing"}
            if number >= skip:
                pixels = np.full((24, 24, 3), (number * 17 % 256, 90, seed % 256), np.uint8)
                pixels[:12] = 200
                stored = run.write_image(image_id, encode_png(pixels))
                row |= {"state": "ok", "path": stored, "width": 24, "height": 24}
            rows.append(row)
    run.append("images", frame("images", rows))
    return run
