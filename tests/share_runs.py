"""An evaluation that several processes can share: quick, the same wherever it runs, with a log of who made what."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from fakes import PixelJudge, PixelRenderer

import verism
from verism.generators.scripted import ScriptedGenerator
from verism.records import Request, Result
from verism.suites.paintskills.suite import PaintSkills

LIMIT = 48


def standard_suite(limit: int = LIMIT) -> PaintSkills:
    return PaintSkills.standard(limit=limit, seed=5)


class LoggedGenerator:
    """Renders what is asked, wrong now and then, and notes every image with its process in a folder."""

    def __init__(self, log: Path | str | None = None, *, seconds: float | str = 0.0, limit: int = LIMIT) -> None:
        suite = standard_suite(limit)
        self.inner = ScriptedGenerator(
            PixelRenderer(tuple(suite.classes), suite.colors), classes=suite.classes, colors=suite.colors, error=0.3
        )
        self.name = self.inner.name
        self.log, self.seconds = None if log is None else Path(log), float(seconds)

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for result in self.inner.generate(requests):
            time.sleep(self.seconds)
            if self.log is not None:
                with (self.log / f"{os.getpid()}.txt").open("a") as file:
                    file.write(f"{result.image_id}\n")
            yield result


def made_by(log: Path) -> dict[str, list[str]]:
    """Ids of the images that each process made."""
    return {file.stem: file.read_text().split() for file in sorted(log.glob("*.txt"))}


def images_made(log: Path) -> list[str]:
    """Ids of all images that were made, as often as they were."""
    return list(chain(*made_by(log).values()))


def evaluate(
    out: Path | str | None, log: Path | None = None, *, seconds: float = 0.0, limit: int = LIMIT, **options: Any
) -> Any:
    """The evaluation."""
    return verism.evaluate(
        standard_suite(limit),
        model=LoggedGenerator(log, seconds=seconds, limit=limit),
        detector=PixelJudge(wrong=lambda image_id: hash_of(image_id) % 7 == 0),
        out=out,
        **{"on_summary": lambda _: None, **options},
    )


def hash_of(text: str) -> int:
    import hashlib

    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
