"""A scored run as trackers log it: flat names of metrics, settings without secrets, files to keep beside them."""

from __future__ import annotations

import base64
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from verism.errors import UsageError
from verism.files import write_json, write_whole
from verism.records import STATES, Score, content_hash
from verism.report_kit.evidence import Evidence
from verism.report_kit.gallery import OUTCOMES, GallerySettings, Outcome, collect, pick
from verism.report_kit.page import write_report
from verism.report_kit.tables import csv_table, markdown_table
from verism.services.redaction import HIDDEN, Redactor
from verism.specs import Presentation
from verism.store import Run
from verism.suites.catalogue import installed_suite, presentation_of

__all__ = ["Chosen", "Evaluation", "SampleImage", "redact"]

Chosen = Literal["all", "headline"]
MAX_TEXT = 500  # characters of a setting; what all trackers take
SAMPLE_PIXELS = 384  # longer side of a sample image
REPORT_IMAGES = 60

_SECRET_NAME = re.compile(r"(?i)(?:api_?key|token|secret|password|passwd|credential)")
_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")  # user and password of an address


def redact(text: str, limit: int = MAX_TEXT) -> str:
    """A text on one line without keys, passwords and logins of addresses.

    Args:
        text: the text.
        limit: characters at most.
    """
    secrets = [value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= 4]
    return Redactor(secrets)(_LOGIN.sub(f"{HIDDEN}@", text), limit)


@dataclass(frozen=True, kw_only=True)
class SampleImage:
    """An image of the sample that a tracker shows.

    Attributes:
        image_id: id in the run.
        prompt: text it was made for.
        outcome: ``right``, ``wrong`` or ``unusable`` under the first protocol; empty where nothing was decided.
        jpeg: content of a JPEG file, reduced to ``SAMPLE_PIXELS``.
    """

    image_id: str
    prompt: str
    outcome: str
    jpeg: bytes

    @property
    def caption(self) -> str:
        """Prompt and outcome in a line."""
        return f"{self.prompt} [{self.outcome}]" if self.outcome else self.prompt


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """A scored run, and which state of the model it is of.

    Attributes:
        run: the run, with the scoring that counted when it was told.
        name: what is evaluated: trackers keep evaluations of one name in one run of theirs. Empty: the run directory's.
        step: optimizer steps the model was trained for; None if unknown.
        checkpoint: name of the checkpoint; empty if it has none.
    """

    run: Run
    name: str = ""
    step: int | None = None
    checkpoint: str = ""

    @property
    def title(self) -> str:
        """``name``, or the name of the run directory."""
        return self.name or self.run.path.absolute().name

    @property
    def suite(self) -> str:
        """Name of the suite."""
        return self.run.suite_name

    @cached_property
    def presentation(self) -> Presentation:
        """What the suite says of itself."""
        return presentation_of(self.run)

    # ----------------------------------------------------------------------------------------------------- numbers
    def metrics(self, chosen: Chosen = "all") -> dict[str, float]:
        """Numbers by name: ``SUITE/METRIC``, then ``/FACET=VALUE`` of groups.

        Scores of other protocols than the first have ``/PROTOCOL`` after the suite, adjusted ones ``/adjusted=KIND`` at
        their end. Below each name lie ``/ci_low`` and ``/ci_high``, ``/n_used`` and ``/n_unusable``. Undefined numbers
        are left out. ``SUITE/images/STATE`` counts the images that are ok, refused, failed, missing and blank.

        Args:
            chosen: ``all`` scores, or only the ``headline`` ones.
        """
        scores = self.run.headlines(self.presentation) if chosen == "headline" else self.run.scores()
        numbers: dict[str, float] = {}
        for score in scores:
            name = self.score_name(score)
            entries = {"": score.value, "/ci_low": score.ci_low, "/ci_high": score.ci_high}
            counts = {"/n_used": score.n_used, "/n_unusable": score.n_unusable}
            numbers |= {name + end: float(v) for end, v in {**entries, **counts}.items() if math.isfinite(v)}
        return numbers | {f"{self.suite}/images/{state}": float(n) for state, n in self.image_counts().items()}

    def headline_names(self) -> list[str]:
        """Names, as in ``metrics``, of the few numbers that answer the suite's question."""
        return [self.score_name(score) for score in self.run.headlines(self.presentation)]

    def score_name(self, score: Score) -> str:
        """The name of a score in ``metrics``; where a facet has the values ``a/b`` and ``a_b``, the first gets a hash.

        Args:
            score: a score of the run.
        """
        parts = self._parts(score)
        name = _joined(parts)
        if name in self._shared_names and any("/" in part for part in parts):
            return f"{name}-{content_hash(parts)[:8]}"
        return name

    @cached_property
    def _shared_names(self) -> Set[str]:
        """Names that several scores would have."""
        return {
            name for name, n in Counter(_joined(self._parts(score)) for score in self.run.scores()).items() if n > 1
        }

    def _parts(self, score: Score) -> list[str]:
        protocols = list(self.presentation.info.protocols)
        parts = [self.suite, *([score.protocol] if score.protocol != (protocols or ["revised"])[0] else [])]
        parts += [score.metric, *(f"{facet}={value}" for facet, value in score.group.items())]
        return parts + ([f"adjusted={score.adjusted}"] if score.adjusted else [])

    def image_counts(self) -> dict[str, int]:
        """Number of images by state, zeros included."""
        import polars as pl

        counted = self.run.scan("images").group_by("state").agg(pl.len()).collect()
        return dict.fromkeys(map(str, STATES), 0) | dict(counted.iter_rows())

    # ---------------------------------------------------------------------------------------------------- settings
    def params(self) -> dict[str, str]:
        """Settings of the run by name, as text of at most ``MAX_TEXT`` characters, without secrets.

        Names begin with the suite, so that runs of several suites can be logged together.
        """
        settings, scoring = self.run.manifest.settings, self.run.manifest.scoring
        known: dict[str, Any] = {
            "generator": settings.generator,
            "judges": dict(settings.judges) | dict(scoring.judges),
            "seed": settings.seed,
            "settings": dict(settings.suite_settings),
            "rules": dict(scoring.rules),
            "prompts_hash": settings.prompts,
            "reference": settings.reference,
            "protocol": next(iter(self.presentation.info.protocols), ""),
            "verism": self.run.manifest.environment.verism,
            "run": str(self.run.path),
        }
        flat = dict(_flat(known, self.suite))
        return {name: HIDDEN if _is_secret(name) else redact(text) for name, text in flat.items() if text}

    # ------------------------------------------------------------------------------------------------------- files
    def sample(self, n_images: int) -> list[SampleImage]:
        """Some images as the report's gallery draws them: wrong and unusable ones first, spread over groups.

        Args:
            n_images: how many at most.
        """
        if n_images < 1:
            return []
        # Twice as many are drawn: the gallery also shows places of images that do not exist.
        evidence = Evidence.of([self.run], [self.presentation], gallery=2 * n_images, embed_pixels=SAMPLE_PIXELS)
        decides = any(pairing.right_or_wrong for pairing in self.presentation.pairings)
        shown: dict[Outcome, dict[str, SampleImage]] = {outcome: {} for outcome in OUTCOMES}
        for tile in collect(evidence, GallerySettings()):
            shot = tile.shots[0]
            (outcome,) = (o for o in OUTCOMES if o in tile.outcomes[evidence.main])
            if shot.source is not None:
                jpeg = base64.b64decode(shot.source.partition(",")[2])
                shown[outcome][shot.image_id] = SampleImage(
                    image_id=shot.image_id, prompt=shot.asked, outcome=outcome if decides else "", jpeg=jpeg
                )
        chosen = pick({outcome: list(images) for outcome, images in shown.items()}, n_images)
        every = {image_id: image for images in shown.values() for image_id, image in images.items()}
        return [every[image_id] for image_id in chosen]

    def table(self) -> str:
        """The main table in Markdown."""
        return markdown_table([self.run], [self.presentation])

    def write_files(self, folder: Path, *, n_images: int, report: bool) -> list[tuple[Path, SampleImage]]:
        """Write what trackers keep as artifacts: scores, settings, report, sample images with their list.

        Args:
            folder: where to; made if need be.
            n_images: sample images at most.
            report: write the report as well.

        Returns:
            The sample images with their files.
        """
        write_whole(folder / "scores.csv", csv_table([self.run], [self.presentation]))
        write_json(
            folder / "settings.json",
            {"name": self.title, "step": self.step, "checkpoint": self.checkpoint, **self.params()},
        )
        if report:
            write_report(
                [self.run],
                folder / "report.html",
                suites=[installed_suite(self.run)],
                presentations=[self.presentation],
                gallery=REPORT_IMAGES,
            )
        written = []
        for n, image in enumerate(self.sample(n_images)):
            name = f"images/{n:03d}{f'-{image.outcome}' if image.outcome else ''}.jpg"
            write_whole(folder / name, image.jpeg)
            written.append((folder / name, image))
        if written:
            listed = [
                {
                    "file": file.relative_to(folder).as_posix(),
                    "image_id": image.image_id,
                    "prompt": image.prompt,
                    "verdict": image.outcome,
                }
                for file, image in written
            ]
            write_json(folder / "images.json", listed)
        return written

    @property
    def folder(self) -> str:
        """Where files of this evaluation lie among those of others: ``SUITE``, or ``SUITE/step-00001000``."""
        return self.suite if self.step is None else f"{self.suite}/step-{self.step:08d}"


def _joined(parts: Sequence[str]) -> str:
    return "/".join(part.replace("/", "_") for part in parts)


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _flat(member, f"{name}/{key}")
    else:
        yield (
            name,
            "" if value is None else ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value),
        )


def _is_secret(name: str) -> bool:
    last = name.rpartition("/")[2]
    return bool(_SECRET_NAME.search(last)) and not last.endswith("_env")  # which names an environment variable


def check_sizes(images: int) -> int:
    """The number of sample images that was asked for.

    Args:
        images: how many.

    Raises:
        UsageError: a number below 0.
    """
    if images < 0:
        raise UsageError(f"images is the number of sample images, 0 or more; got {images}")
    return images
