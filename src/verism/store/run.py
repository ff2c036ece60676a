"""A run directory: opening, prompts, tables in parts, images, scorings; see ``verism.store``."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from html import escape
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar

from verism.errors import DamagedRun, UsageError, VerismError
from verism.files import json_bytes, read_regular, write_json, write_new, write_whole
from verism.limits import IMAGE_BYTES
from verism.locations import RemotePath, is_file, is_remote, location, names_in
from verism.manifest import STORAGES, Manifest, RunSettings, Scoring
from verism.records import (
    TABLES,
    Prompt,
    Scene,
    SceneObject,
    SceneText,
    Score,
    canonical_json,
    empty_table,
    frame,
    option_of,
    schema,
    with_later_columns,
)
from verism.renames import FORMER as FORMER_PROTOCOL
from verism.renames import metric_name, protocol_name
from verism.shards import member_of
from verism.specs import Presentation, did_you_mean
from verism.store import blocks, scorings
from verism.store.blocks import SAMPLED, BlockKey, Dealer, ImageBlocks, bounds_of
from verism.store.ids import IdSet, PathsByHash, digests
from verism.store.ledger import Ledger, is_authentic, part_name, sha256
from verism.store.scorings import GoneScoring, StoredScoring, current_scoring, kept_scorings, write_scoring
from verism.systems import quoted

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from verism.imaging import ReadImage

__all__ = [
    "BOUND",
    "MANIFEST",
    "PROMPTS",
    "TRUTH",
    "Run",
    "SettingsChanged",
    "is_run",
    "key_of",
    "score_records",
    "slug",
]

T = TypeVar("T")
TRUTH = "truth"  # the judge who rendered the image
MANIFEST, PROMPTS = "manifest.json", "prompts.parquet"
PART_BYTES = 2**22  # parts are put together up to this size, so that no step needs more memory than a few of them,
PART_ROWS = 2**17  # or up to so many rows, of tables of which little is left when they are compressed
READ_ATTEMPTS = 100  # of a table whose parts other workers put together meanwhile, once with each attempt
BOUND = "image_sha256"  # column of observations, in files alone: the image that was looked at
BOUND_DIGITS = 16  # of the image's SHA-256
LIST_COLUMNS = ["image_id", "state", "path", "sha256", "note"]  # of lists of images: which row counts, of which image
PART = "part"  # column while parts are put together: in which of them a row stands
LISTS = {"reference_features": "reference", "text_embeddings": None, "ratings": None}  # where images of a table stand


_OWN = r"^(images/[^/]+|shards/[^/]+/[^/]+)$"  # paths of images that lie in the run


class SettingsChanged(UsageError):
    """A run directory exists, made with other settings; the message names each difference."""


Extent = Literal["same", "more", "fewer", "other"]


def is_run(path: Path) -> bool:
    """Whether a folder is a run directory.

    Args:
        path: any path, also one that does not exist.
    """
    return (path / MANIFEST).is_file() and (path / PROMPTS).is_file()


class ImageSummary(NamedTuple):
    """The images of a run in short.

    Attributes:
        states: number of images by state.
        digest: ``content_hash`` of id, state and SHA-256 of each, sorted by id.
        n_hashed: how many have a SHA-256.
    """

    states: Mapping[str, int]
    digest: str
    n_hashed: int


class Run:
    """One run directory. Make one with ``Run.start`` (new or resumed) or ``Run.open`` (finished or not)."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._kept: list[Any] = []  # what must live as long as the run: the folder of a temporary one
        self._ledger: Ledger | None = None
        self._pinned: StoredScoring | None = None
        self._chosen = False  # whether it is pinned to a scoring that was asked for by its name
        # By run: parts of its table of images when an image was not found; paths of its own images, and all paths.
        self._moved: dict[Path, tuple[frozenset[str], PathsByHash, IdSet]] = {}
        self._since: tuple[set[str], Sequence[str], int] | None = None  # how far images_since got, and with which set
        self._keys_of_parts: dict[str, frozenset[str]] = {}  # by path, of the parts that read_few looked into
        # By list of images: paths of its parts, the ids in them, and how many rows they have.
        self._ids_of_lists: dict[str, tuple[frozenset[str], IdSet, int]] = {}

    def keep(self, item: Any) -> None:
        """Hold something for as long as the run is used: the folder of a temporary run, say."""
        self._kept.append(item)

    def __repr__(self) -> str:
        words = [f"suite {self.suite_name}"]
        if self.is_scored:
            words += [f"{name} {value:.4g}" for name, value in self.metrics().items()][:3]
        else:
            words.append("not scored yet")
        return f"<Run {self.path}: {', '.join(words)}>"

    def _repr_html_(self) -> str:
        """The headline numbers as a table, for notebooks."""
        if not self.is_scored:
            return f"<p>{escape(repr(self))}</p>"
        rows = "".join(f"<tr><td>{escape(k)}</td><td>{v:.4g}</td></tr>" for k, v in self.metrics().items())
        title = escape(f"{self.path} on {self.suite_name}")
        return f"<table><caption>{title}</caption><tr><th>metric</th><th>value</th></tr>{rows}</table>"

    # ---------------------------------------------------------------------------------------------------- opening
    @classmethod
    def start(
        cls,
        path: Path,
        settings: RunSettings,
        *,
        scoring: Scoring | None = None,
        plugins: Mapping[str, str] | None = None,
        images_as: str | None = None,
    ) -> Self:
        """A new run with these settings, or the run that is there if its settings are the same.

        Args:
            path: the run directory.
            settings: what decides prompts, images and observations.
            scoring: how scores will be made, if it is known already; a run that is there keeps what it knows of it.
            plugins: versions by package, of suite, generator and judges that do not come with verism.
            images_as: how images that the run makes are kept, ``files`` or ``shards``; None: as the run that is there
                keeps them, and in files if there is none.

        Raises:
            SettingsChanged: the directory holds a run with other settings, or one that keeps its images otherwise.
            UsageError: the directory holds something else; or ``images_as`` is neither.
        """
        if images_as not in (None, *STORAGES):
            raise UsageError(f"images_as: expected {' or '.join(STORAGES)}, got {images_as!r}")
        again = partial(cls.start, path, settings, scoring=scoring, plugins=plugins, images_as=images_as)
        if (path / MANIFEST).exists():
            run = cls.open(path)
            run.refuse_other(settings, images_as)
            if scoring is not None:
                run.expect_scoring(scoring)
            return run
        # A start that was killed may have left the manifest's temporary file.
        if path.exists() and (not path.is_dir() or any(p.suffix != ".tmp" for p in path.iterdir())):
            if (path / MANIFEST).exists():
                return again()  # another process began it just now
            raise UsageError(f"{path} exists and is not a run directory; choose another --out")
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path, Manifest.new(settings, plugins=plugins, images_as=images_as or STORAGES[0]))
        if not write_new(path / MANIFEST, json_bytes(run.manifest.record(scoring=False))):
            return again()
        if scoring is not None:
            run.expect_scoring(scoring)
        return run

    def refuse_other(self, settings: RunSettings, images_as: str | None = None) -> None:
        """Refuse to go on with other settings than the run has.

        Args:
            settings: asked for now.
            images_as: how images are to be kept; None: as the run keeps them.

        Raises:
            SettingsChanged: the run has others, or keeps its images otherwise.
        """
        if differences := self.manifest.settings.differences(settings):
            listed = "\n".join(f"  {name}: {old!r} there, {new!r} now" for name, old, new in differences)
            hint = "Use the same settings, or another --out."
            if all(name.startswith("judges.") for name, _, _ in differences):
                role = differences[0][0].partition(".")[2]
                hint = (
                    f"To score its images by another judge: verism observe {quoted(self.path)} {option_of(role)} NAME. "
                    "Or use the same settings, or another --out."
                )
            raise SettingsChanged(f"{self.path} holds a run with other settings:\n{listed}\n{hint}")
        if images_as not in (None, self.manifest.images_as):
            raise SettingsChanged(
                f"{self.path} keeps its images as {self.manifest.images_as}, not as {images_as}. Leave out "
                f"--images-as, or convert the run first: verism compact {quoted(self.path)} --images-as {images_as}"
            )

    @classmethod
    def open(cls, path: Path | str, *, scoring: bool = True) -> Self:
        """A run directory that exists.

        Args:
            path: the run directory.
            scoring: whether the scoring that counts is read; without it a run whose scoring is damaged can be opened.

        Raises:
            UsageError: it is not one, or of a schema this version does not read.
            DamagedRun: its manifest or its scoring is not what was written.
        """
        path = location(path)
        file = path / MANIFEST
        if not file.is_file():
            missing = f"it has no {MANIFEST}" if path.is_dir() else "there is nothing of this name"
            raise UsageError(f"{path} is not a run directory: {missing}. Make one with: verism run")
        try:
            run = cls(path, Manifest.of_record(json.loads(file.read_bytes().decode())))
        except UsageError as err:
            raise UsageError(f"{path} has {err}") from err
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:  # ValueError: also no UTF-8
            raise DamagedRun.of(path, file, str(err) if str(err).startswith("its ") else repr(err)) from err
        return run._with_current_scoring() if scoring else run

    def _with_current_scoring(self) -> Self:
        """The run, its manifest with the scoring that counts now."""
        if self.manifest.uid:
            made = self._of_scoring(lambda stored: Scoring() if stored is None else stored.scoring)
            self.manifest = replace(self.manifest, scoring=made)
        return self

    def _write_manifest(self) -> None:
        write_json(self.path / MANIFEST, self.manifest.record(scoring=False))

    def note_generator(self, details: Mapping[str, Any]) -> None:
        """Keep what the generator says of itself beside its name."""
        self._adopt()
        self.manifest = self.manifest.with_generator(details)
        self._write_manifest()

    def note_judge(self, judge: str, remarks: Sequence[str]) -> None:
        """Keep lines of a judge without which what it said could be misread.

        Args:
            judge: its full name.
            remarks: the lines; lines that were noted before and are none of these stay.
        """
        self._adopt()
        known = self.manifest.judge_remarks.get(judge, ())
        lines = (*known, *(line for line in remarks if line not in known))
        if lines != known:
            self.manifest = self.manifest.with_judge_remarks(judge, lines)
            self._write_manifest()

    def note_images(self, remarks: Sequence[str]) -> None:
        """Keep which of the user's images are not part of the run, and why.

        Args:
            remarks: lines, in place of those that were noted before.
        """
        if tuple(remarks) != self.manifest.image_remarks:
            self._adopt()
            self.manifest = self.manifest.with_image_remarks(remarks)
            self._write_manifest()

    def note_call(self, call: Mapping[str, Any]) -> None:
        """Keep a call that makes images or observations, so that what is lost can be made again.

        Args:
            call: plain JSON.
        """
        self._adopt()
        noted = self.manifest.with_call(call)
        if noted is not self.manifest:
            self.manifest = noted
            self._write_manifest()

    def note_images_as(self, images_as: str) -> None:
        """Keep how images are kept that are made from now on.

        Args:
            images_as: ``files`` or ``shards``.
        """
        self._adopt()
        self.manifest = replace(self.manifest, images_as=images_as)
        self._write_manifest()

    # ----------------------------------------------------------------------------------------------------- ledger
    @property
    def ledger(self) -> Ledger | None:
        """Which files belong to the run; None for a run of an earlier version, whose files nobody can check."""
        if self._ledger is None and self.manifest.uid:
            self._ledger = Ledger(self.path, self.manifest.uid)
        return self._ledger

    def _adopt(self) -> Ledger:
        """The ledger to write to; a run of an earlier version gets one, with all files that are there now."""
        if self.ledger is not None:
            return self.ledger
        current = type(self).open(self.path)
        if not current.manifest.uid:  # else another process was quicker
            manifest = self.manifest.adopted()
            ledger = Ledger(self.path, manifest.uid)
            parts = [*self.path.glob("*/part-*.parquet"), *self.path.glob("observations/*/*/part-*.parquet")]
            prompts = self.path / PROMPTS
            files = [*sorted(parts), *([prompts] if prompts.exists() else [])]
            ledger.add({p.relative_to(self.path).as_posix(): sha256(p.read_bytes()) for p in files})
            before = self._earlier_scoring()
            if before is not None:
                write_scoring(before.changed({}), None)
            current.manifest = manifest
            current._write_manifest()  # last: from now on it is a run of this version
            for name in scorings.FILES:
                if name != scorings.SCORES_JSON:
                    (self.path / name).unlink(missing_ok=True)
        self.manifest = current.manifest
        self._with_current_scoring()
        self._ledger = Ledger(self.path, self.manifest.uid)
        return self._ledger

    def checked(self, path: str, hashes: Iterable[str] | None) -> bytes:
        """The content of a file of the run.

        Args:
            path: in the run, with ``/``.
            hashes: those it may have; None for a part that its own name speaks for.

        Raises:
            DamagedRun: it is another.
            FileNotFoundError: it is gone.
        """
        file = self.path / path
        data = file.read_bytes()
        if hashes is None:
            folder, _, name = path.rpartition("/")
            if self.ledger is not None and not is_authentic(self.ledger.uid, folder, name, data):
                raise DamagedRun.of(self.path, file, "it is no file that this run wrote")
        elif sha256(data) not in hashes:
            raise DamagedRun.of(self.path, file, "its content is not what was written")
        return data

    # --------------------------------------------------------------------------------------------------- scorings
    def _earlier_scoring(self) -> StoredScoring | None:
        """The scoring of a run of an earlier version, whose files lie beside the others; None without any."""
        hashes = {name: None for name in scorings.FILES if (self.path / name).exists()}
        if not hashes and self.manifest.scoring == Scoring():
            return None
        return StoredScoring(run=self.path, scoring=self.manifest.scoring, hashes=hashes)

    def stored_scoring(self) -> StoredScoring | None:
        """The files of the scoring that counts, or of the one this object holds on to; None before the first."""
        if self._pinned is not None:
            return self._pinned
        return current_scoring(self.path) if self.manifest.uid else self._earlier_scoring()

    def _of_scoring(self, read: Callable[[StoredScoring | None], T]) -> T:
        """What ``read`` makes of the scoring that counts; read anew if others took its place meanwhile."""
        for attempt in range(READ_ATTEMPTS):
            try:
                return read(self.stored_scoring())
            except GoneScoring:
                if attempt == READ_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _scoring_content(self, name: str) -> bytes | None:
        return self._of_scoring(lambda stored: stored.read(name) if stored is not None and name in stored else None)

    def _scoring_json(self, name: str) -> Any:
        data = self._scoring_content(name)
        try:
            return None if data is None else json.loads(data)
        except (ValueError, RecursionError) as err:
            raise DamagedRun.of(self.path, self.scoring_file(name), f"it is not JSON: {err}") from err

    def pinned(self) -> Self:
        """The run with the scoring that counts now: whoever scores it meanwhile does not change what is read.

        Raises:
            DamagedRun: a file of the scoring is not what was written.
        """
        pinned = copy.copy(self)
        pinned._pinned = self._of_scoring(lambda stored: stored and stored.changed({}))
        if pinned._pinned is not None:
            pinned.manifest = replace(self.manifest, scoring=pinned._pinned.scoring)
        return pinned

    @property
    def is_scored(self) -> bool:
        """Whether there are scores."""
        return self._of_scoring(lambda stored: stored is not None and scorings.SCORES in stored)

    @property
    def has_verdicts(self) -> bool:
        """Whether there are verdicts."""
        return self._of_scoring(lambda stored: stored is not None and scorings.VERDICTS in stored)

    def inputs(self) -> dict[str, str]:
        """Hashes of the tables as they are now, by folder; empty for runs of earlier versions."""
        return {} if self.ledger is None else self.ledger.listing().states()

    def outdated(self) -> list[str]:
        """Tables that changed since the scores were made from them, by folder."""
        inputs = self._of_scoring(lambda s: s.inputs if s is not None and scorings.SCORES in s else {})
        now = self.inputs() if inputs else {}
        return [folder for folder, state in sorted(inputs.items()) if now.get(folder) != state]

    def with_scoring(
        self,
        *,
        verdicts: pl.DataFrame | Path | None = None,
        scores: Sequence[Score] | None = None,
        adjustments: Sequence[Mapping[str, Any]] | None = None,
        presentation: Presentation | None = None,
        sections: Sequence[Mapping[str, Any]] | None = None,
        scoring: Scoring | None = None,
        inputs: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Self:
        """The run as it would be with another scoring, which is held in memory; ``keep_scoring`` writes it.

        What is not given stays as it is in the scoring that counts.

        Args:
            verdicts: table ``verdicts``; or a parquet file of it, sorted, that stays until the scoring is written.
            scores: all numbers.
            adjustments: how scores were adjusted for judges' errors (``pipeline.correction``); empty for none.
            presentation: what the run's suite says of itself, for reports and comparisons without it.
            sections: sections of the suite as plain JSON, for reports where it is not installed; empty for none.
            scoring: rules, judges and remarks.
            inputs: the tables it was made from, as ``inputs`` gave them before they were read.
            name: by which the scoring is kept; empty for none.
        """
        contents: dict[str, bytes | Path | None] = {}
        if verdicts is not None:
            content = verdicts if isinstance(verdicts, Path) else _parquet(sorted_verdicts(verdicts))
            contents[scorings.VERDICTS] = content
        if scores is not None:
            contents[scorings.SCORES] = _parquet(frame("scores", [_score_row(s) for s in scores]))
            contents[scorings.SCORES_JSON] = json_bytes(score_records(scores))
        if adjustments is not None:
            contents[scorings.ADJUSTMENTS] = json_bytes(list(adjustments)) if adjustments else None
        if presentation is not None:
            contents[scorings.PRESENTATION] = json_bytes(presentation.record())
        if sections is not None:
            contents[scorings.SECTIONS] = json_bytes(list(sections)) if sections else None
        before = self.stored_scoring() or StoredScoring(run=self.path, scoring=Scoring())
        fields: dict[str, Any] = {"scoring": self.manifest.scoring if scoring is None else scoring}
        if inputs is not None:
            fields["inputs"] = dict(inputs)
        if name is not None:
            fields["name"] = name
        draft = copy.copy(self)
        draft._pinned = before.changed(contents, **fields)
        draft.manifest = replace(self.manifest, scoring=fields["scoring"])
        return draft

    def keep_scoring(self, draft: Run) -> None:
        """Write a scoring: from one moment to the next it counts, as a whole.

        Args:
            draft: what ``with_scoring`` gave.
        """
        assert draft._pinned is not None
        self._adopt()
        write_scoring(draft._pinned, self._of_scoring(lambda stored: stored))
        self.manifest = replace(self.manifest, scoring=draft.manifest.scoring)
        self._pinned = None

    def write_scoring(self, **parts: Any) -> None:
        """Write a scoring that differs from the one that counts.

        Args:
            **parts: arguments of ``with_scoring``.
        """
        self._adopt()
        self.keep_scoring(self.with_scoring(**parts))

    def expect_scoring(self, scoring: Scoring) -> None:
        """Keep how the run will be scored, unless that is known: of several processes that say so at once, one counts.

        Args:
            scoring: rules and judges; other judges take the place of those that never led to a score.
        """
        self._adopt()
        known = self._of_scoring(lambda stored: stored)
        if known is None:
            write_scoring(StoredScoring(run=self.path, scoring=scoring), None, unless_there=True)
            self._with_current_scoring()
        elif not self.is_scored and known.scoring.judges != scoring.judges:
            self.write_scoring(scoring=scoring)
        else:  # another process may have said so since the run was opened
            self._with_current_scoring()

    def scorings(self) -> list[StoredScoring]:
        """The scorings the run keeps, the oldest first: those with a name, the one that counts, the one before it."""
        return [] if self.ledger is None else kept_scorings(self.path)

    def named_scoring(self, name: str) -> StoredScoring:
        """A scoring by its name.

        Args:
            name: as ``verism score --name`` gave it.

        Raises:
            UsageError: there is none of that name.
        """
        kept = {stored.name: stored for stored in self.scorings() if stored.name}
        if name not in kept:
            there = f"it has {', '.join(sorted(kept))}" if kept else "none of its scorings has a name"
            raise UsageError(f"{self.path} has no scoring {name!r}.{did_you_mean(name, kept)} {_sentence(there)}")
        return kept[name]

    def with_named_scoring(self, name: str) -> Self:
        """The run to read from, with the verdicts, scores and rules of a scoring that is kept by its name.

        Args:
            name: of the scoring.

        Raises:
            UsageError: there is none of that name.
        """
        stored = self.named_scoring(name)
        chosen = copy.copy(self)
        chosen._chosen = True
        chosen._pinned = stored.changed({}, name=name)
        chosen.manifest = replace(self.manifest, scoring=stored.scoring)
        return chosen

    def restore_scoring(self, name: str | None = None) -> None:
        """Let a scoring count again: the one before the one that counts now, or one that is kept by its name.

        Called twice without a name, it ends where it began.

        Args:
            name: of the scoring; None: the one before.

        Raises:
            UsageError: there is none.
        """
        current = self._of_scoring(lambda stored: stored)
        if current is None or current.folder is None:
            raise UsageError(f"{self.path} has no scores yet")
        if name is not None:
            wanted = self.named_scoring(name)
        else:
            before = [stored for stored in self.scorings() if stored.folder and stored.folder.name == current.previous]
            if not before:
                raise UsageError(f"{self.path} has no scoring before this one: nothing to undo")
            wanted = before[0]
        if wanted.folder != current.folder:
            scorings.point_to(wanted, current)
        self._pinned = None
        self.manifest = replace(self.manifest, scoring=wanted.scoring)

    @property
    def scoring_name(self) -> str:
        """Name of the scoring that was chosen or counts; empty if it has none."""
        return self._of_scoring(lambda stored: "" if stored is None else stored.name)

    def note_scoring(self, **changes: Any) -> None:
        """Keep how the scores were made.

        Args:
            **changes: fields of ``manifest.Scoring``; those not named stay.
        """
        self.write_scoring(scoring=self.manifest.with_scoring(**changes).scoring)

    def scoring_file(self, name: str) -> Path:
        """Where a file of the scoring that counts lies, as ``verdicts.parquet``.

        Args:
            name: of the file.

        Raises:
            VerismError: there is no such file.
        """
        stored = self.stored_scoring()
        if stored is None or name not in stored:
            raise VerismError(f"{self.path} has no {name}")
        return stored.path(name)

    @property
    def suite_name(self) -> str:
        """Name of the suite the run was made with."""
        return self.manifest.settings.suite

    def presentation(self) -> Presentation | None:
        """What the run's suite says of itself, as kept at the last scoring; None for runs of earlier versions."""
        record = self._scoring_json(scorings.PRESENTATION)
        if record is None:
            return None
        try:
            return Presentation.of_record(record)
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise DamagedRun.of(self.path, self.scoring_file(scorings.PRESENTATION), repr(err)) from err

    def write_presentation(self, presentation: Presentation) -> None:
        """Keep what the run's suite says of itself, for reports and comparisons without it."""
        self.write_scoring(presentation=presentation)

    def sections(self) -> list[dict[str, Any]] | None:
        """The suite's own sections as plain JSON, as kept at the last scoring; None if it kept none."""
        records: list[dict[str, Any]] | None = self._scoring_json(scorings.SECTIONS)
        return records

    @property
    def name(self) -> str:
        """Name of the directory, and of a scoring that was chosen by its name."""
        chosen = self._pinned.name if self._pinned is not None and self._chosen else ""
        return f"{self.path.name}@{chosen}" if chosen else self.path.name

    # ---------------------------------------------------------------------------------------------------- prompts
    def write_prompts(self, prompts: Sequence[Prompt]) -> None:
        """The prompts of the run, once; they are part of what a resumed run must share."""
        if (self.path / PROMPTS).exists():
            return
        self._write_prompts(prompts)

    def _write_prompts(self, prompts: Sequence[Prompt]) -> None:
        data = _parquet(frame("prompts", [_prompt_row(p) for p in prompts]))
        # Named before it is there: its name says nothing of its content.
        self._adopt().add({PROMPTS: sha256(data)})
        write_whole(self.path / PROMPTS, data)

    def extent(self, prompts: Sequence[Prompt]) -> Extent:
        """How prompts relate to those of the run.

        Args:
            prompts: that are asked for now.

        Returns:
            ``more``: all of the run, unchanged, and others, or more images of some; ``fewer``: the reverse; ``same``;
            ``other``: some are changed, or there is more and less at once, or the run has no prompts yet.
        """
        if not (self.path / PROMPTS).exists():
            return "other"

        def rows(each: Sequence[Prompt]) -> dict[str, tuple[int, dict[str, Any]]]:
            plain = (_prompt_row(prompt) for prompt in each)
            return {row["prompt_id"]: (row.pop("n_images"), row) for row in plain}

        before, now = rows(self.prompts()), rows(prompts)
        if any(before[key][1] != now[key][1] for key in before.keys() & now.keys()):
            return "other"
        more = any(key not in before or number > before[key][0] for key, (number, _) in now.items())
        fewer = any(key not in now or number > now[key][0] for key, (number, _) in before.items())
        return "other" if more and fewer else "more" if more else "fewer" if fewer else "same"

    def resettle(self, settings: RunSettings, prompts: Sequence[Prompt] | None = None) -> None:
        """Go on with other settings: more prompts, or judges in place of those that never led to a score.

        Prompts come first: stopped between the two, the same call goes on.

        Args:
            settings: from now on.
            prompts: all prompts, if there are more than before.
        """
        self._adopt()
        if prompts is not None:
            self._write_prompts(prompts)
        self.manifest = self.manifest.with_settings(settings)
        self._write_manifest()

    def prompts(self) -> list[Prompt]:
        """The prompts, in the suite's order.

        Raises:
            VerismError: the run has none yet.
            DamagedRun: they are not those that were written.
        """
        path = self.path / PROMPTS
        if not path.exists():
            raise VerismError(f"{self.path}: the run was stopped before its prompts were written; run it again")
        hashes = None if self.ledger is None else self.ledger.listing().hashes.get(PROMPTS, frozenset())
        data = path.read_bytes() if hashes is None else self.checked(PROMPTS, hashes)
        return [_prompt_from(row) for row in self._parsed(path, data).iter_rows(named=True)]

    # ------------------------------------------------------------------------------------------------------ parts
    def _folder(self, table: str, judge: str | None) -> str:
        """Where the parts of a table lie, in the run."""
        if table in ("images", "reference"):
            return table
        if judge is None:
            raise ValueError(f"table {table!r} is kept per judge")
        return f"observations/{table}/{slug(judge)}"

    def append(
        self,
        table: str,
        rows: pl.DataFrame,
        judge: str | None = None,
        *,
        images: Mapping[str, str | None] | None = None,
    ) -> Path | None:
        """Add one part, and return it (None for no rows).

        Args:
            table: name of the table.
            rows: rows with the table's columns.
            judge: whose rows they are, for observations.
            images: SHA-256 of the images that the rows speak of, by id: the rows count for these very images and no
                other. None, and images that are not named: for whatever image has the id.

        Raises:
            ValueError: columns other than the table's.
        """
        import polars as pl

        if rows.schema != schema(table):
            raise ValueError(f"table {table!r} has columns {schema(table)}, got {dict(rows.schema)}")
        if rows.height == 0:
            return None
        if images is not None and _listing_of(table) is not None:
            bound = {image: digest and digest[:BOUND_DIGITS] for image, digest in images.items()}
            ids = rows[key_of(table)].to_list()
            rows = rows.with_columns(pl.Series(BOUND, [bound.get(image) for image in ids], dtype=pl.String))
        return self.path / self._write_part(self._folder(table, judge), rows)

    def _write_part(
        self, folder: str, rows: pl.DataFrame, *, replaced: Sequence[str] = (), same_rows: bool = False
    ) -> str:
        ledger = self._adopt()
        data = _parquet(rows)
        path = f"{folder}/{part_name(ledger.uid, folder, data)}"
        write_whole(self.path / path, data)
        if same_rows:
            ledger.add({path: sha256(data)}, sources={path: replaced})
        else:
            ledger.add({path: sha256(data)}, replaced=replaced)
        return path

    def read(
        self,
        table: str,
        judge: str | None = None,
        *,
        keys: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """A whole table, sorted by its key (image or text); ``images`` or the observations of one judge.

        Of an image that several workers did, one row counts, the same for every reader, and observations count that
        looked at this image and no other.

        Args:
            table: name of the table.
            judge: of observations; None for others.
            keys: images (or texts) whose rows are wanted, no others are held in memory; None for all.
            columns: only these, in this order; None for all.

        Raises:
            DamagedRun: a file of the table is gone, altered or foreign.
        """
        key = key_of(table)
        wanted = list(schema(table)) if columns is None else list(dict.fromkeys([key, *columns]))
        needed = None if columns is None else [*wanted, BOUND]
        rows = self._rows(table, judge, needed, keys=keys)
        if needed is not None and _is_list(table) and rows[PART].n_unique() > 1 and rows[key].is_duplicated().any():
            # What two workers wrote is told apart by more than what is asked for.
            rows = self._rows(table, judge, list(dict.fromkeys([*needed, *LIST_COLUMNS])), keys=keys)
        listing = _listing_of(table)
        listed = None if listing is None else (lambda: self._listed_images(listing, keys=keys))
        rows = self._distinct(table, self._counted(table, rows, listed=listed), [key]).select(wanted)
        # Stable within an image: parts keep the judge's order of boxes. One part is in order already.
        rows = rows if rows[key].is_sorted() else rows.sort(key, maintain_order=True)
        return rows if columns is None else rows.select(list(columns))

    def read_few(self, table: str, judge: str | None, keys: Collection[str]) -> pl.DataFrame:
        """Observations of some images, as ``read`` gives them, without opening parts that have nothing of them.

        For who asks again and again while the table grows: each part's keys are read once and remembered.

        Args:
            table: of observations.
            judge: whose.
            keys: the images (or texts).

        Raises:
            DamagedRun: a file of the table is gone, altered or foreign.
        """
        import polars as pl

        for attempt in range(READ_ATTEMPTS):
            try:
                rows = self._rows(table, judge, paths=self._parts_with(table, judge, keys), keys=list(keys))
                listing = _listing_of(table)
                if listing is not None and rows.height:
                    listed = self._listed_images(listing, paths=self._parts_with(listing, None, keys))
                    rows = self._counted(table, rows, listed=lambda listed=listed: listed)  # type: ignore[misc]
                rows = self._distinct(table, rows, [key_of(table)]).select(list(schema(table)))
                return rows.sort(pl.col(key_of(table)), maintain_order=True)
            except FileNotFoundError:  # put together with others between the two looks
                if attempt == READ_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def first_row(self, table: str, judge: str) -> pl.DataFrame:
        """One row of a table, whichever, or none: who the judge is, say, without reading the table.

        Args:
            table: of observations.
            judge: whose.
        """
        rows = self._each_part(self._folder(table, judge), None, lambda part: part.head(1), most=1)
        return rows[0].select(list(schema(table))) if rows else empty_table(table)

    def _parts_with(self, table: str, judge: str | None, keys: Collection[str]) -> list[str]:
        """Paths of the parts of a table that have rows of any of these keys."""
        folder, key, wanted = self._folder(table, judge), key_of(table), frozenset(keys)
        counting = self._part_paths(folder)
        for path in counting.keys() - self._keys_of_parts.keys():
            (ids,) = self._each_part(folder, [key], lambda part: frozenset(part[key].to_list()), paths=[path])
            self._keys_of_parts[path] = ids
        return [path for path in counting if not wanted.isdisjoint(self._keys_of_parts[path])]

    def prompts_of(self, images: Iterable[str]) -> dict[str, str]:
        """The id of the prompt of some images, by image; those that the run does not have are left out.

        Args:
            images: ids of the images; no others are held in memory.
        """
        columns = ["image_id", "prompt_id"]
        return dict(self.read("images", keys=list(dict.fromkeys(images)), columns=columns).iter_rows())

    def keys(self, table: str, judge: str | None = None) -> set[str]:
        """The images (or texts) a table has rows of, without reading what it says of them."""
        key = key_of(table)
        if _listing_of(table) is None:
            return set(self._rows(table, judge, [key])[key].to_list())
        return set(self._counted(table, self._rows(table, judge, [key, BOUND]))[key].to_list())

    def ids(self, table: str, judge: str | None = None) -> IdSet:
        """As ``keys``, part by part and in 16 bytes for each: one can ask for an id, and not for all of them.

        Args:
            table: name of the table.
            judge: of observations; None for others.
        """
        key, folder, listing = key_of(table), self._folder(table, judge), _listing_of(table)
        if _is_list(table):
            return self._listed_ids(table)[0]
        if listing is None:
            return IdSet.of_digests(self._each_part(folder, [key], lambda rows: digests(rows[key])))
        listed = self._listed_pairs(listing)

        def counted(rows: pl.DataFrame) -> NDArray[np.bytes_]:
            found = digests(rows[key])
            if BOUND not in rows.columns or not rows[BOUND].count():
                return found
            chosen: NDArray[np.bool_] = listed.holds(_pair_texts(rows, key)) | rows[BOUND].is_null().to_numpy()
            return found[chosen]

        return IdSet.of_digests(self._each_part(folder, [key, BOUND], lambda rows: counted(rows.unique())))

    def _listed_ids(self, table: str) -> tuple[IdSet, int]:
        """The ids of a list of images, and how many rows it has: more than ids where two workers did an image.

        Parts never change: as long as the same ones count, they are not read again.
        """
        folder = self._folder(table, None)
        paths = frozenset(self._part_paths(folder))
        known = self._ids_of_lists.get(table)
        if known is None or known[0] != paths:
            hashes = self._each_part(folder, ["image_id"], lambda rows: digests(rows["image_id"]))
            known = paths, IdSet.of_digests(hashes), sum(map(len, hashes))
            if frozenset(self._part_paths(folder)) == paths:  # else they are of other parts
                self._ids_of_lists[table] = known
        return known[1], known[2]

    def _listed_pairs(self, table: str) -> IdSet:
        """Which image, by id and hash, each row of a list of images stands for."""
        columns = ["image_id", "sha256"]
        rows = _digits("sha256")
        parts = self._each_part(
            self._folder(table, None), columns, lambda part: digests(_pair_texts(part.with_columns(rows), "image_id"))
        )
        if sum(map(len, parts)) == len(self.ids(table)):
            return IdSet.of_digests(parts)
        return IdSet(_pair_texts(self._listed_images(table), "image_id"))  # two workers did one: one of them counts

    def unusable(self, table: str = "images") -> pl.DataFrame:
        """The rows of images that are missing, failed, refused or cannot be used, sorted by id.

        Args:
            table: ``images`` or ``reference``.
        """
        import polars as pl

        key, not_ok = key_of(table), pl.col("state") != "ok"
        rows = self._rows(table, None, filters=[not_ok])
        ids, n_rows = self._listed_ids(table)
        if n_rows != len(ids):  # two workers did one: one of them counts, and it may be another
            return self.read(table, keys=rows[key].unique().to_list()).filter(not_ok)
        return rows.select(list(schema(table))).sort(key, maintain_order=True)

    def count_notes(self, text: str) -> tuple[int, int]:
        """How many images have notes that hold a text, and how many have a note at all.

        Args:
            text: what is looked for.
        """
        import polars as pl

        held = self.take_images(
            ["note"],
            lambda rows: (rows.filter(pl.col("note").str.contains(text, literal=True)).height, rows["note"].count()),
        )
        return sum(n for n, _ in held), sum(n for _, n in held)

    def take_images(self, columns: list[str], take: Callable[[pl.DataFrame], T]) -> list[T]:
        """What is wanted of each part of ``images``, of which one is in memory at a time.

        An image that two workers did has two rows there; ``blocks`` leaves one out.

        Args:
            columns: only these.
            take: gives it.
        """
        return self._each_part("images", columns, take)

    def image_summary(self) -> ImageSummary:
        """How many images there are by state, and a hash of them all."""
        states: Counter[str] = Counter()
        n_hashed = 0
        hashed = hashlib.sha256(b"[")
        with self.blocks({}, columns=["image_id", "state", "sha256"]) as blocks:
            for images, _ in blocks:
                rows = images.rows()
                if rows:  # as ``content_hash`` of all rows as one list
                    text = canonical_json([list(row) for row in rows])[1:-1]
                    hashed.update((f",{text}" if states else text).encode())
                states.update(state for _, state, _ in rows)
                n_hashed += sum(digest is not None for *_, digest in rows)
        hashed.update(b"]")
        return ImageSummary(dict(states), hashed.hexdigest(), n_hashed)

    def unknown(self, table: str, judge: str | None, known: IdSet) -> list[str]:
        """Images (or texts) that a table speaks of and others do not know, sorted.

        Args:
            table: name of the table.
            judge: of observations; None for others.
            known: those that are known.
        """
        key = key_of(table)

        def foreign(rows: pl.DataFrame) -> list[str]:
            ids = rows[key].unique()
            return ids.filter(~known.holds(ids)).to_list()

        found = {name for part in self._each_part(self._folder(table, judge), [key], foreign) for name in part}
        counting = self.ids(table, judge) if found else IdSet()
        return sorted(name for name in found if name in counting)

    def images_since(self, seen: set[str]) -> dict[str, str | None]:
        """SHA-256 by id of the images in parts that were added since the last call, by any process.

        With one and the same set, each call costs as much as what was added, however large the run has grown.

        Args:
            seen: names of the parts that were seen before, empty at first; those seen now are added.
        """
        rows = self.image_rows_since(seen, ["image_id", "sha256"])
        return dict(rows.select("image_id", "sha256").iter_rows())

    def pass_images(self, seen: set[str]) -> None:
        """Take all images that are there as seen, without reading what parts say: see ``images_since``.

        Args:
            seen: names of the parts that were seen before; those that are there now are added.
        """
        arrivals = self._adopt().arrivals()
        for path in arrivals.paths:
            folder, _, name = path.rpartition("/")
            if folder == "images" and path not in arrivals.replaced:
                seen.add(name)
        self._since = (seen, arrivals.paths, len(arrivals.paths))

    def image_rows_since(self, seen: set[str], columns: list[str] | None = None) -> pl.DataFrame:
        """Rows of images in parts that were added since the last call, by any process, as they were written.

        Args:
            seen: names of the parts that were seen before, empty at first; those seen now are added.
            columns: of the rows; None for all.
        """
        import polars as pl

        found = [empty_table("images").select(columns or pl.all())]
        ledger = self._adopt()
        for attempt in range(READ_ATTEMPTS):
            arrivals = ledger.arrivals()
            ours = self._since is not None and self._since[0] is seen and self._since[1] is arrivals.paths
            start = self._since[2] if ours and self._since is not None else 0
            stop, again = len(arrivals.paths), False
            for path in arrivals.paths[start:stop]:
                folder, _, name = path.rpartition("/")
                if folder != "images" or name in seen or path in arrivals.replaced:
                    continue
                try:
                    data = self.checked(path, arrivals.hashes[path])
                except FileNotFoundError:  # put together with others meanwhile, which the ledger says by now
                    again = True
                    continue
                found.append(self._parsed(self.path / path, data, columns).select(found[0].columns))
                seen.add(name)
            if not again or attempt == READ_ATTEMPTS - 1:
                self._since = (seen, arrivals.paths, stop)
                break
        return pl.concat(found)

    def _listed_images(
        self, table: str, *, paths: Sequence[str] | None = None, keys: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Id of each image, and the digits of its hash that observations name.

        Args:
            table: the list of images.
            paths: of the parts wanted; None for all.
            keys: images that are wanted; None for all.
        """

        digits = _digits("sha256")
        columns = ["image_id", "sha256"]
        listed = self._rows(table, None, columns, paths=paths, keys=keys).select("image_id", digits)
        if listed["image_id"].is_duplicated().any():  # written by two workers: one of them counts
            rows = self._distinct(table, self._rows(table, None, LIST_COLUMNS, paths=paths, keys=keys), ["image_id"])
            listed = rows.select("image_id", digits)
        return listed

    def _distinct(self, table: str, rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
        """Rows without those that two workers wrote: of an image one, of observations those of one part.

        Args:
            table: name of the table.
            rows: its rows, with the number of their part.
            by: columns that say what rows are about.
        """
        import polars as pl

        if rows[PART].n_unique() < 2:
            return rows
        if not _is_list(table):
            return rows.filter(pl.col(PART) == pl.col(PART).min().over(by))
        double = rows.filter(pl.struct(by).is_duplicated())
        if double.is_empty():
            return rows
        # The same row for all readers, whatever the order of parts, and whatever its state.
        rank = pl.Series("rank", [_rank(row) for row in double.iter_rows(named=True)])
        kept = double.with_columns(rank).sort("rank", maintain_order=True)
        kept = kept.unique(by, keep="first", maintain_order=True).select(rows.columns)
        return pl.concat([rows.filter(~pl.struct(by).is_duplicated()), kept])

    def _counted(
        self,
        table: str,
        rows: pl.DataFrame,
        *,
        listed: Callable[[], pl.DataFrame] | None = None,
    ) -> pl.DataFrame:
        """Observations of the images as they are listed.

        Args:
            table: of observations; others stay as they are.
            rows: its rows.
            listed: what gives the list of images, for callers that ask several times; None: it is read.
        """
        import polars as pl

        listing = _listing_of(table)
        if listing is None or rows.is_empty() or rows[BOUND].null_count() == rows.height:
            return rows
        images = self._listed_images(listing) if listed is None else listed()
        listed_as = images.select("image_id", pl.col(BOUND).alias("listed"))
        bound = rows.select("image_id", BOUND).join(listed_as, on="image_id", how="left", maintain_order="left")
        kept = pl.col(BOUND).is_null() | (pl.col(BOUND) == pl.col("listed"))
        mask = bound.select(kept.fill_null(value=False)).to_series()
        return rows if mask.all() else rows.filter(mask)  # nearly always all: no second copy of a large table

    @contextmanager
    def blocks(
        self,
        observations: Mapping[str, str],
        *,
        size: int | None = None,
        images: str = "images",
        columns: Sequence[str] | None = None,
        whole_prompts: bool = False,
        key: BlockKey | None = None,
    ) -> Iterator[ImageBlocks]:
        """Images sorted by id, some thousands at a time, with all that judges said of them.

        The rows are those of ``read``, in the same order. No more than a block, or a part, is in memory at a time;
        a table of several blocks is dealt into files of a temporary folder before (``store.blocks``). Tables about
        texts and not images come as a whole with every block.

        Args:
            observations: name of a judge by table.
            size: images of a block, about; None: ``BLOCK``.
            images: the table that lists the images: ``images``, or ``reference`` for real ones.
            columns: of that table, only these, ``sha256`` among them where there are ``observations``; None for all.
            whole_prompts: whether all images of a prompt are in one block.
            key: what orders images into blocks, from their ids; None: the ids. Prompts are told apart by it, too.

        Yields:
            The blocks, of which there is one at least.

        Raises:
            DamagedRun: a file of a table is gone, altered or foreign.
        """
        import polars as pl

        size = size or blocks.BLOCK
        step = min(SAMPLED, max(1, size // SAMPLED))
        n_seen = 0

        def begin() -> None:
            nonlocal n_seen
            n_seen = 0

        def sample(rows: pl.DataFrame) -> pl.Series:
            nonlocal n_seen
            offset, n_seen = -n_seen % step, n_seen + rows.height
            # As a list: a selection would keep the texts of all rows in memory.
            ids = pl.Series(rows["image_id"].gather_every(step, offset).to_list(), dtype=pl.String)
            return ids if key is None else key(ids)

        sampled = self._each_part(images, ["image_id"], sample, begin=begin)
        bounds = pl.Series(dtype=pl.String)
        if sampled:
            bounds = bounds_of(pl.concat(sampled), step, size, whole_prompts=whole_prompts)
        if bounds.is_empty():
            yield ImageBlocks(
                1,
                lambda _: (
                    self.read(images, columns=columns),
                    {table: self.read(table, name) for table, name in observations.items()},
                ),
            )
            return
        of_texts = {table: name for table, name in observations.items() if _listing_of(table) is None}
        whole = {table: self.read(table, name) for table, name in of_texts.items()}
        of_images = {table: name for table, name in observations.items() if table not in of_texts}
        with Dealer(bounds, key) as dealer:
            self._deal(dealer, images, None, None if columns is None else list(dict.fromkeys(["image_id", *columns])))
            for table, judge in of_images.items():
                self._deal(dealer, table, judge)

            def read(number: int) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
                if columns is None:
                    listed = self._read_dealt(dealer, number, images, None)
                else:
                    listed = self._read_some(dealer, number, images, columns)
                return listed, {table: self._read_dealt(dealer, number, table, listed) for table in of_images} | whole

            yield ImageBlocks(len(dealer), read)

    def map_vectors(
        self, table: str, judge: str, folder: Path, *, uneven: bool = False
    ) -> tuple[pl.DataFrame, NDArray[np.float32]]:
        """Vectors of a judge as an array in a file, and the table's rows without them.

        Args:
            table: ``features`` or ``reference_features``.
            judge: full name of the judge.
            folder: for the file; it must stay as long as the array is used.
            uneven: whether vectors may be missing or of several lengths: then those that are not as long as most are
                NaN.

        Returns:
            The rows sorted by image, their column ``vector`` empty; and the vectors in their order, shape (N, D).

        Raises:
            VerismError: vectors that are missing or of several lengths, unless they may be ``uneven``.
        """
        import numpy as np
        import polars as pl

        from verism.records import vectors_of

        path, rows, dim = folder / f"{table}.f32", [], 0
        with path.open("wb") as file, self.blocks({table: judge}, images=_listing_of(table) or "images") as blocks:
            lengths: Counter[int] = Counter()
            for _, tables in blocks if uneven else ():
                lengths.update(tables[table]["vector"].list.len().drop_nulls().to_list())
            usual = max(lengths, key=lambda length: (lengths[length], length), default=0)
            for _, tables in blocks:
                vectors = tables[table]["vector"]
                if uneven:
                    nothing = pl.Series([[None] * usual], dtype=vectors.dtype)
                    vectors = vectors.zip_with(vectors.list.len().fill_null(-1) == usual, nothing)
                if usual or not uneven:
                    some = vectors_of(vectors).astype(np.float32, copy=False)
                else:
                    some = np.zeros((0, 0), np.float32)
                if len(some) and dim not in (0, some.shape[1]):
                    raise VerismError(f"vectors of one judge must be of one size; got lengths {[dim, some.shape[1]]}")
                dim = some.shape[1] or dim
                some.tofile(file)
                rows.append(tables[table].with_columns(pl.lit(None, schema(table)["vector"]).alias("vector")))
        found = pl.concat(rows)
        if not dim:
            return found, np.zeros((found.height, 0), np.float32)
        return found, np.memmap(path, np.float32, "r", shape=(found.height, dim))

    def _deal(self, dealer: Dealer, table: str, judge: str | None, columns: list[str] | None = None) -> None:
        numbers = count()

        def begin() -> None:
            nonlocal numbers
            numbers = count()
            dealer.begin(table)

        self._each_part(
            self._folder(table, judge),
            columns,
            lambda rows: dealer.deal(table, _numbered(table, rows, next(numbers))),
            begin=begin,
        )

    def _read_dealt(self, dealer: Dealer, number: int, table: str, images: pl.DataFrame | None) -> pl.DataFrame:
        rows = dealer.take(table, number, lambda: _numbered(table, empty_table(table), 0))
        if images is not None:
            listed = images.select("image_id", _digits("sha256"))
            rows = self._counted(table, rows, listed=lambda: listed)
        key = key_of(table)
        rows = self._distinct(table, rows, [key]).select(list(schema(table)))
        return rows if rows[key].is_sorted() else rows.sort(key, maintain_order=True)

    def _read_some(self, dealer: Dealer, number: int, table: str, columns: Sequence[str]) -> pl.DataFrame:
        """Some columns of a list of images, of which no others were dealt."""
        import polars as pl

        rows = dealer.take(table, number, lambda: _numbered(table, empty_table(table), 0))
        rows = rows.select(list(dict.fromkeys(["image_id", *columns])))
        double = rows["image_id"].is_duplicated()
        if double.any():  # what two workers wrote is told apart by more than these columns
            kept = self.read(table, keys=rows["image_id"].filter(double).unique().to_list())
            rows = pl.concat([rows.filter(~double), kept.select(rows.columns)])
        return rows.sort("image_id").select(columns)

    def _rows(
        self,
        table: str,
        judge: str | None,
        columns: list[str] | None = None,
        *,
        paths: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        filters: Sequence[pl.Expr] = (),
    ) -> pl.DataFrame:
        """All rows of all parts, with the number of their part, and the image they speak of where a table has any.

        Args:
            table: name of the table.
            judge: of observations.
            columns: only these; None for all.
            paths: of the parts wanted, all of which must be there; None for those that count.
            keys: images (or texts) whose rows are wanted; None for all.
            filters: which rows are wanted besides.
        """
        import polars as pl

        wanted = [*filters, *([] if keys is None else [pl.col(key_of(table)).is_in(list(keys))])]
        folder = self._folder(table, judge)
        # Thousands of tables without rows would take more memory than those with some.
        parts = self._each_part(
            folder, columns, lambda rows: rows if rows.height else None, filters=wanted, paths=paths
        )
        kept = [(number, rows) for number, rows in enumerate(parts) if rows is not None]
        if not kept:
            read = empty_table(table)
            kept = [(0, read if columns is None else read.select([c for c in columns if c in read.columns]))]
        return pl.concat([_numbered(table, rows, number) for number, rows in kept])

    def scan(self, table: str, judge: str | None = None, *, keys: Sequence[str] | None = None) -> pl.LazyFrame:
        """A table without reading all of it, for looking at runs: hashes of its files are not checked (``verify``).

        Args:
            table: ``prompts``, ``images``, ``reference``, ``verdicts``, or observations.
            judge: of observations; None for others.
            keys: images (or texts) whose rows are wanted; None for all.
        Returns:
            The query; a table that is not there yet is empty. Of a table in several parts, the rows wanted are read
            at once, part by part. Files that are damaged raise what polars raises when rows are collected.
        """
        import polars as pl

        key = key_of(table)
        parts: list[Any]
        if table == "verdicts" and self._pinned is not None:  # which is held in memory
            held = scorings.VERDICTS in self._pinned
            parts = [self._pinned.source(scorings.VERDICTS)] if held else []
        elif table in ("prompts", "verdicts"):
            prompts = self.path / "prompts.parquet"
            there = prompts.exists() if table == "prompts" else self.has_verdicts
            parts = [prompts if table == "prompts" else self.scoring_file(scorings.VERDICTS)] if there else []
        else:
            parts = [self.path / part for part in self._part_paths(self._folder(table, judge))]
        if not parts:
            return empty_table(table).lazy()
        if len(parts) > 1:
            rows = self.read(table, judge, keys=keys).lazy()
        else:
            source = parts[0]
            if isinstance(source, RemotePath):
                source = io.BytesIO(source.read_bytes())
            rows = with_later_columns(table, pl.scan_parquet(source, glob=False, hive_partitioning=False))
        rows = rows.drop(BOUND, strict=False)
        if keys is not None:
            rows = rows.filter(pl.col(key).is_in(list(keys)))
        if table == "verdicts":
            rows = rows.with_columns(pl.col("protocol").replace({FORMER_PROTOCOL: protocol_name(FORMER_PROTOCOL)}))
        return rows

    def _parts(
        self,
        folder: str,
        columns: list[str] | None = None,
        *,
        paths: Sequence[str] | None = None,
        most: int | None = None,
    ) -> list[pl.DataFrame]:
        """The parts of a table that count now; see ``_each_part``.

        Args:
            folder: where they lie in the run.
            columns: only these; None for all.
            paths: of the parts wanted, all of which must be there; None for those that count.
            most: only so many of the first; None for all.
        """
        return self._each_part(folder, columns, _itself, paths=paths, most=most)

    def _each_part(
        self,
        folder: str,
        columns: list[str] | None,
        take: Callable[[pl.DataFrame], T],
        *,
        filters: Sequence[pl.Expr] = (),
        paths: Sequence[str] | None = None,
        most: int | None = None,
        begin: Callable[[], object] = lambda: None,
    ) -> list[T]:
        """What is wanted of each part of a table, all of one moment, in the order of their names.

        One part is in memory as a whole at a time.

        Args:
            folder: where they lie in the run.
            columns: only these; None for all.
            take: what is kept of each.
            filters: which rows are kept.
            paths: of the parts wanted, all of which must be there; None for those that count.
            most: only so many of the first; None for all.
            begin: called before the first part, and again where reading begins anew.

        Raises:
            DamagedRun: a part is gone, altered or foreign.
            FileNotFoundError: one of ``paths`` does not count any more.
        """
        table = folder.removeprefix("observations/").partition("/")[0]
        for attempt in range(READ_ATTEMPTS):
            counting = self._part_paths(folder)
            if paths is not None:
                if any(path not in counting for path in paths):
                    raise FileNotFoundError(folder)
                counting = {path: counting[path] for path in sorted(paths)}
            try:
                begin()
                parts = []
                for path, hashes in list(counting.items())[:most]:
                    rows = self._parsed(self.path / path, self._part(path, hashes), columns, filters)
                    parts.append(take(with_later_columns(table, rows, columns)))
                return parts
            except FileNotFoundError as err:
                # Gone since the ledger was read: another worker put parts together, and the ledger says so now.
                gone = location(str(err.filename))
                path = f"{folder}/{gone.name}"
                if attempt == READ_ATTEMPTS - 1 or (self.ledger is not None and path in self.ledger.listing().hashes):
                    raise DamagedRun.of(self.path, gone, "it is gone") from None
        raise AssertionError("unreachable")

    def _part_paths(self, folder: str) -> dict[str, frozenset[str] | None]:
        """Paths of the parts that count, with the hashes that each may have; None: its name must speak for it."""
        there = {name for name in names_in(self.path / folder, "part-") if name.endswith(".parquet")}
        if self.ledger is None:
            return {f"{folder}/{name}": None for name in sorted(there)}
        listing = self.ledger.listing()
        listed = listing.inside(folder)
        names = listed.keys() | {name for name in there if f"{folder}/{name}" not in listing.replaced}
        return {f"{folder}/{name}": listed.get(name) for name in sorted(names)}

    def _part(self, path: str, hashes: frozenset[str] | None) -> bytes:
        try:
            return self.checked(path, hashes)
        except FileNotFoundError:
            raise
        except OSError as err:
            raise DamagedRun.of(self.path, self.path / path, f"it cannot be read: {err.strerror or err}") from err

    def _parsed(
        self, file: Path, data: bytes, columns: list[str] | None = None, filters: Sequence[pl.Expr] = ()
    ) -> pl.DataFrame:
        """A table of the run out of the bytes of its file, with those of the columns and rows that are wanted."""
        import polars as pl

        try:
            if columns is not None:
                present = pl.read_parquet_schema(io.BytesIO(data))
                columns = [name for name in columns if name in present]
            if filters:  # rows that are not wanted are never in memory with all of their columns
                rows = pl.scan_parquet(io.BytesIO(data)).filter(*filters)
                return (rows if columns is None else rows.select(columns)).collect()
            return pl.read_parquet(io.BytesIO(data), columns=columns)
        except Exception as err:  # of many kinds, from files of earlier versions that nobody could check
            raise DamagedRun.of(self.path, file, f"it is no table: {err}") from err

    def compact(self, table: str, judge: str | None = None) -> None:
        """Put small parts together. Killed half-way it leaves both, which read the same.

        A part that has reached half of ``PART_BYTES`` is never written again because others were added. Parts that were
        put together are removed once the ledger says so: who finds one gone looks there again.
        """
        folder = self._folder(table, judge)
        paths = self._part_paths(folder)
        for path in [path for path, hashes in paths.items() if hashes is None and self.ledger is not None]:
            # Of a writer that was killed before it could name it, or is about to; gone if others replaced it since.
            with suppress(FileNotFoundError):
                self._adopt().add({path: sha256(self.checked(path, None))})
        if len(paths) > 1:
            sizes = self._sizes(folder)
            small = {path for path in paths if sizes.get(path, 0) < PART_BYTES // 2}
            groups = [group for group in self._grouped(small, sizes) if len(group) > 1]
            self._replace(table, judge, groups, same_rows=True)

    def forget(self, table: str, keys: Sequence[str], judge: str | None = None) -> None:
        """Drop the rows of these images (or texts), so that they are done again; only parts that have any change."""
        import polars as pl

        folder, key = self._folder(table, judge), pl.col(key_of(table))
        held: dict[str, bool] = {}
        for _ in range(READ_ATTEMPTS):
            there = list(self._part_paths(folder))
            try:
                for path in (path for path in there if path not in held):
                    wanted = [key.is_in(list(keys))]
                    rows = self._each_part(folder, [key_of(table)], _itself, filters=wanted, paths=[path])
                    held[path] = not rows[0].is_empty()
                changed, sizes = {path for path in there if held[path]}, self._sizes(folder)
                large = {path for path in changed if sizes.get(path, 0) >= PART_BYTES // 2}
                groups = [*([path] for path in sorted(large)), *self._grouped(changed - large, sizes)]
                self._replace(table, judge, groups, without=keys)
                break
            except FileNotFoundError:  # put together with others meanwhile
                continue

    def _sizes(self, folder: str) -> dict[str, int]:
        """Bytes of the parts that are there, by path; a share of ``PART_BYTES`` at least as theirs of ``PART_ROWS``."""
        sizes = {}
        for path in (self.path / folder).glob("part-*.parquet"):
            with suppress(FileNotFoundError):
                size = path.stat().st_size
                if size < PART_BYTES and not is_remote(path):
                    size = max(size, -(-_rows_of(path) * PART_BYTES // PART_ROWS))
                sizes[f"{folder}/{path.name}"] = size
        return sizes

    def _grouped(self, paths: Collection[str], sizes: Mapping[str, int]) -> list[list[str]]:
        """Parts that may become one, in the order in which they were added, as far as it is known."""
        listed = [] if self.ledger is None else [path for path in self.ledger.listing().hashes if path in paths]
        groups: list[list[str]] = []
        size = PART_BYTES
        for path in [*listed, *sorted(set(paths) - set(listed))]:
            if size >= PART_BYTES:
                groups.append([])
                size = 0
            groups[-1].append(path)
            size += sizes.get(path, 0)
        return groups

    def _replace(
        self,
        table: str,
        judge: str | None,
        groups: Sequence[Sequence[str]],
        *,
        without: Sequence[str] = (),
        same_rows: bool = False,
    ) -> None:
        """Write the rows that count of each group of parts as one part, in their place.

        Args:
            table: name of the table.
            judge: of observations.
            groups: paths of the parts.
            without: images (or texts) whose rows go.
            same_rows: whether no row that counts changes.

        Raises:
            FileNotFoundError: rows are to go, and others replaced one of the parts meanwhile.
        """
        import polars as pl

        folder, key = self._folder(table, judge), key_of(table)
        ledger = self._adopt()
        listed: list[tuple[IdSet, IdSet]] = []

        def images() -> tuple[IdSet, IdSet]:
            if not listed:
                listing = str(_listing_of(table))
                listed.append((self._listed_pairs(listing), self.ids(listing)))
            return listed[0]

        of_one = [key] if _listing_of(table) is None else [key, BOUND]
        for group in groups:
            try:
                rows = self._rows(table, judge, paths=group)
            except FileNotFoundError:
                if same_rows:  # others put them together
                    continue
                raise
            rows = _not_superseded(table, self._distinct(table, rows, of_one), images)
            rows = rows.filter(~pl.col(key).is_in(list(without))).drop(PART)
            rows = rows if rows[key].is_sorted() else rows.sort(key, maintain_order=True)
            if rows.height:
                self._write_part(folder, rows, replaced=group, same_rows=same_rows)
            else:
                ledger.add(replaced=group)
            del rows  # before the next are read
            for path in group:
                (self.path / path).unlink(missing_ok=True)

    def judges(self, table: str) -> list[str]:
        """Names of the judges with observations in a table, without the renderer's ground truth."""
        names = []
        for folder in sorted((self.path / "observations" / table).glob("*")):
            if folder.name != TRUTH:
                names += [
                    str(rows["judge"][0])
                    for rows in self._parts(folder.relative_to(self.path).as_posix(), ["judge"], most=1)
                ]
        return names

    def judge(self, role: str) -> str | None:
        """Whose observations the scores were made from, for a role such as ``detector``; None if nobody's."""
        return self.manifest.scoring.judges.get(role)

    def has_truth(self, table: str) -> bool:
        """Whether the renderer's ground truth was kept."""
        return bool(self._part_paths(self._folder(table, TRUTH)))

    # ----------------------------------------------------------------------------------------------------- images
    def image_path(self, image_id: str, sha256: str) -> Path:
        """The file of an image the run made. Its hash is part of the name: no other image ever takes its place.

        Args:
            image_id: id of the image.
            sha256: of the file's bytes.
        """
        return self.path / "images" / f"{slug(image_id)}-{sha256[:BOUND_DIGITS]}.png"

    def write_image(self, image_id: str, png: bytes) -> str:
        """Store an image in a file; returns its path relative to the run."""
        path = self.image_path(image_id, sha256(png))
        # Not synced one by one: a row names the hash, so a file that is gone or cut short after a crash shows.
        write_whole(path, png, sync=False)
        return path.relative_to(self.path).as_posix()

    def resolve(self, path: str) -> Path:
        """The place behind the ``path`` column of ``images``: a file, or one in a shard.

        ``verism.files`` and ``verism.imaging`` read both. To read an image of the run, see ``image_bytes`` and
        ``load_image``, which find it wherever it was put since the row was read.
        """
        place = location(path)
        return place if place.is_absolute() else self.path / path

    def image_bytes(self, row: Mapping[str, Any]) -> bytes:
        """The content of an image's file.

        Args:
            row: of ``images``, ``reference`` or ``failures``: its ``path``, which is not null, and ``sha256``.

        Raises:
            OSError, ValueError: it cannot be read; FileNotFoundError: it is gone.
        """
        try:
            return read_regular(self.resolve(row["path"]), IMAGE_BYTES)
        except FileNotFoundError:
            now = self._moved_to(row)
            if now is None:
                raise
            return read_regular(now, IMAGE_BYTES)

    def load_image(self, row: Mapping[str, Any]) -> ReadImage:
        """An image, decoded.

        Args:
            row: as for ``image_bytes``.
        """
        from verism.imaging import read_image

        read = read_image(self.resolve(row["path"]))
        if read.state == "missing" and (now := self._moved_to(row)) is not None:
            return read_image(now)
        return read

    def _moved_to(self, row: Mapping[str, Any]) -> Path | None:
        """Where an image lies that is not where a row says; None if nobody knows.

        Shards that were put together are gone, and so are files that were put into shards: the table of the run that
        made them, be it this one or another, says where they are now.

        Args:
            row: as for ``image_bytes``.
        """
        place = self.resolve(row["path"])
        member = member_of(place)
        root = (place if member is None else member.shard).parent.parent
        digest = row.get("sha256")
        if digest is None or not is_file(root / MANIFEST):
            return None
        try:
            run = self if root == self.path else Run.open(root, scoring=False)
            parts = frozenset(run._part_paths("images"))
            if self._moved.get(root, (None,))[0] != parts:  # else the table is what it was when it was read last
                self._moved[root] = parts, *run._image_places()
        except VerismError:
            return None
        _, by_hash, listed = self._moved[root]
        if row["path"].removeprefix(f"{root}/") in listed:  # it should lie there still, and is gone
            return None
        path = by_hash.get(digest)
        return None if path is None else run.resolve(path)

    def _image_places(self) -> tuple[PathsByHash, IdSet]:
        """Where the images lie that the run made, by hash; and the paths of all."""
        import polars as pl

        own: list[tuple[list[str], pl.Series]] = []
        paths: list[NDArray[np.bytes_]] = []
        with self.blocks({}, columns=["image_id", "sha256", "path"]) as found:
            for images, _ in found:
                rows = images.drop_nulls("path").drop_nulls("sha256")
                paths.append(digests(rows["path"]))
                rows = rows.filter(pl.col("path").str.contains(_OWN))
                own.append((rows["sha256"].to_list(), rows["path"]))
        return PathsByHash(own), IdSet.of_digests(paths)

    # ------------------------------------------------------------------------------------------- verdicts, scores
    def write_verdicts(self, verdicts: pl.DataFrame) -> None:
        """Put other verdicts in place of those that count; see ``write_scoring``."""
        self.write_scoring(verdicts=verdicts)

    def verdicts(self) -> pl.DataFrame:
        """Table ``verdicts``.

        Raises:
            VerismError: the run has none yet.
            DamagedRun: they are not those that were written.
        """
        import polars as pl

        data = self._scoring_content(scorings.VERDICTS)
        if data is None:
            raise VerismError(
                f"{self.path} has no verdicts yet; finish it with the same `verism run`, or: verism score"
            )
        verdicts = self._parsed(self.scoring_file(scorings.VERDICTS), data)
        return verdicts.with_columns(pl.col("protocol").replace({FORMER_PROTOCOL: protocol_name(FORMER_PROTOCOL)}))

    def scan_verdicts(self) -> pl.LazyFrame:
        """Table ``verdicts`` without reading all of it at once; its hash is checked before.

        Raises:
            VerismError: the run has none yet.
            DamagedRun: they are not those that were written.
        """
        import polars as pl

        def source(stored: StoredScoring | None) -> Path | io.BytesIO | None:
            return stored.source(scorings.VERDICTS) if stored is not None and scorings.VERDICTS in stored else None

        found = self._of_scoring(source)
        if found is None:
            raise VerismError(
                f"{self.path} has no verdicts yet; finish it with the same `verism run`, or: verism score"
            )
        rows = pl.scan_parquet(found, glob=False, hive_partitioning=False)
        return rows.with_columns(pl.col("protocol").replace({FORMER_PROTOCOL: protocol_name(FORMER_PROTOCOL)}))

    def verdicts_hash(self) -> str:
        """SHA-256 of the file of verdicts; empty where it is not known, as of verdicts in memory."""
        return self._of_scoring(lambda stored: (stored and stored.hashes.get(scorings.VERDICTS)) or "")

    def write_scores(self, scores: Sequence[Score]) -> None:
        """Put other scores in place of those that count; see ``write_scoring``."""
        self.write_scoring(scores=scores)

    def write_adjustments(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Keep how scores were adjusted for judges' errors (``pipeline.correction``); replaces earlier ones."""
        self.write_scoring(adjustments=records)

    def adjustments(self) -> list[dict[str, Any]]:
        """How the scores that have ``adjusted`` came about; empty if none has."""
        records: list[dict[str, Any]] = self._scoring_json(scorings.ADJUSTMENTS) or []
        names = {"protocol": protocol_name, "metric": metric_name}
        return [record | {k: name(record[k]) for k, name in names.items() if k in record} for record in records]

    def scores(self) -> list[Score]:
        """All numbers of the run.

        Raises:
            VerismError: the run has none yet.
            DamagedRun: they are not those that were written.
        """
        data = self._scoring_content(scorings.SCORES)
        if data is None:
            raise VerismError(f"{self.path} has no scores yet; finish it with the same `verism run`, or: verism score")
        scores = []
        for row in self._parsed(self.scoring_file(scorings.SCORES), data).iter_rows(named=True):
            numbers = {k: float("nan") if row[k] is None else row[k] for k in ("value", "ci_low", "ci_high")}
            names = {"protocol": protocol_name(row["protocol"]), "metric": metric_name(row["metric"])}
            scores.append(Score(**{**row, **numbers, **names, "group": json.loads(row["group"])}))
        return scores

    # ------------------------------------------------------------------------------------------------ for notebooks
    def metrics(self) -> dict[str, float]:
        """The headline numbers, flat: ``{"mean_accuracy": 0.81, "accuracy/skill=count": 0.7, ...}``.

        They are those the suite declares as headlines, as judged, under its first protocol, over all images and by
        group, but not of facets with many values. NaN where undefined. Runs scored by earlier versions do not say
        which numbers those are: then, all of the ``revised`` protocol without a group.

        Raises:
            VerismError: the run has no scores yet.
        """
        return {_flat_name(s): s.value for s in self.headlines()}

    def headlines(self, presentation: Presentation | None = None) -> list[Score]:
        """The scores behind ``metrics``, with their intervals and counts; fewest facets first.

        Args:
            presentation: of the suite; None: as the run keeps it.
        Raises:
            VerismError: the run has no scores yet.
        """
        presentation = presentation or self.presentation()
        scores = [s for s in self.scores() if not s.adjusted]
        if presentation is None:
            return [s for s in scores if s.protocol == "revised" and not s.group]
        headlines = {spec.name for spec in presentation.metrics if spec.headline}
        protocol = next(iter(presentation.info.protocols), "revised")
        detail = set(presentation.layout.detail)
        compared = {presentation.layout.facet} if presentation.layout.facet else None
        chosen = [
            s
            for s in scores
            if s.metric in headlines
            and s.protocol == protocol
            and not detail & set(s.group)
            and (compared is None or set(s.group) <= compared)
        ]
        return sorted(chosen, key=lambda s: len(s.group))

    def frame(self) -> pl.DataFrame:
        """All scores as a table with a column for each facet; ``.to_pandas()`` for pandas.

        Raises:
            VerismError: the run has no scores yet.
        """
        import polars as pl

        scores = self.scores()
        facets = list(dict.fromkeys(facet for s in scores for facet in s.group))
        columns: dict[str, list[Any]] = {
            "suite": [s.suite for s in scores],
            "metric": [s.metric for s in scores],
            "protocol": [s.protocol for s in scores],
            "adjusted": [s.adjusted for s in scores],
        }
        columns |= {facet: [s.group.get(facet) for s in scores] for facet in facets}
        for name in ("value", "ci_low", "ci_high", "n_used", "n_unusable", "unit", "higher_is_better"):
            columns[name if name not in facets else f"score_{name}"] = [getattr(s, name) for s in scores]
        return pl.DataFrame(columns, strict=False)

    def failures(self) -> pl.DataFrame:
        """Images that are missing, unusable, or judged wrong, with the reason.

        Columns: ``image_id``, ``path`` (absolute, null without a file; ``image_bytes`` reads it, also from a shard),
        ``prompt_id``, ``prompt``, ``state``, ``rule`` (empty for images without a usable verdict at all), ``value``,
        ``reason``, and a column for each facet.

        Raises:
            VerismError: the run has no verdicts yet.
        """
        import polars as pl

        presentation = self.presentation()
        protocol = "revised" if presentation is None else next(iter(presentation.info.protocols), "revised")
        rules = [p.rule for p in presentation.pairings if p.right_or_wrong] if presentation is not None else []
        prompts = {p.prompt_id: p for p in self.prompts()}
        images = {row["image_id"]: row for row in self.read("images").iter_rows(named=True)}
        rows: list[dict[str, Any]] = []
        for image in images.values():
            if image["state"] != "ok":
                rows.append({"image_id": image["image_id"], "rule": "", "value": None, "reason": image["note"] or ""})
        verdicts = self.verdicts().filter(pl.col("protocol") == protocol)
        for verdict in verdicts.iter_rows(named=True):
            at_fault = verdict["value"] is None or (verdict["rule"] in rules and verdict["value"] == 0)
            known = images.get(verdict["image_id"])
            if at_fault and known is not None and known["state"] == "ok" and (not rules or verdict["rule"] in rules):
                rows.append({name: verdict[name] for name in ("image_id", "rule", "value", "reason")})
        facets = list(dict.fromkeys(facet for p in prompts.values() for facet in p.facets))
        for row in rows:
            image = images[row["image_id"]]
            prompt = prompts[image["prompt_id"]]
            row |= {
                "path": None if image["path"] is None else str(self.resolve(image["path"]).absolute()),
                "prompt_id": prompt.prompt_id,
                "prompt": prompt.text,
                "state": image["state"],
            }
            row |= {facet: prompt.facets.get(facet) for facet in facets if facet not in row}
        first = ["image_id", "path", "prompt_id", "prompt", "state", "rule", "value", "reason"]
        names = [*first, *(facet for facet in facets if facet not in first)]
        return pl.DataFrame({name: [row.get(name) for row in rows] for name in names}, strict=False)


def _rows_of(path: Path) -> int:
    """Number of rows of a part, by its last bytes; 0 where these do not say it, which reading it will tell."""
    import polars as pl

    try:
        return int(pl.scan_parquet(path, glob=False, hive_partitioning=False).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError):
        return 0


def _numbered(table: str, rows: pl.DataFrame, number: int) -> pl.DataFrame:
    """Rows of a part with its number, and with the image they speak of where the table has any."""
    import polars as pl

    more = [pl.lit(number, dtype=pl.Int32).alias(PART)]
    if _listing_of(table) is not None and BOUND not in rows.columns:
        more.insert(0, pl.lit(None, dtype=pl.String).alias(BOUND))
    return rows.with_columns(more)


def sorted_verdicts(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Table ``verdicts`` in the order in which it is kept.

    Args:
        verdicts: in any order.
    """
    return verdicts.sort("image_id", "protocol", "rule", "detail", maintain_order=True)


def _not_superseded(table: str, rows: pl.DataFrame, listed: Callable[[], tuple[IdSet, IdSet]]) -> pl.DataFrame:
    """Observations without those of images that are listed as others; those of images not listed yet stay.

    Args:
        table: of observations; others stay as they are.
        rows: its rows.
        listed: gives which image each row of the list stands for, by id and hash, and the ids.
    """
    import polars as pl

    if _listing_of(table) is None or rows.is_empty() or rows[BOUND].null_count() == rows.height:
        return rows
    pairs, ids = listed()
    kept = rows[BOUND].is_null().to_numpy() | pairs.holds(_pair_texts(rows, "image_id")) | ~ids.holds(rows["image_id"])
    return rows if kept.all() else rows.filter(pl.Series(kept))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _itself(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


def _digits(column: str) -> pl.Expr:
    """The digits of a SHA-256 that observations name, as column ``BOUND``.

    Args:
        column: that holds the hash.
    """
    import polars as pl

    return pl.col(column).str.head(BOUND_DIGITS).alias(BOUND)


def _pair_texts(rows: pl.DataFrame, key: str) -> Iterator[str]:
    """Id and digits of the hash of each row, as one text; a row without a hash equals no row that has one."""
    return (f"{image}\n{'-' if digits is None else digits}" for image, digits in rows.select(key, BOUND).iter_rows())


def _parquet(rows: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    rows.write_parquet(buffer, compression="zstd", compression_level=3)
    return buffer.getvalue()


def _score_row(score: Score) -> dict[str, Any]:
    finite = {k: _finite(getattr(score, k)) for k in ("value", "ci_low", "ci_high")}
    return {**vars(score), "group": json.dumps(dict(score.group))} | finite


def _is_list(table: str) -> bool:
    """Whether a table lists images, and says nothing about what they show."""
    return table in ("images", "reference")


def _listing_of(table: str) -> str | None:
    """The table that lists the images another one speaks of; None if it speaks of none, or lists them itself."""
    return None if _is_list(table) else LISTS.get(table, "images")


def _rank(row: Mapping[str, Any]) -> str:
    """By which one of two rows about an image is chosen: a hash, so that it favours no state.

    The path decides between rows of the same bytes, which two workers put into shards of their own.
    """
    words = f"{row['image_id']}/{row['state']}/{row['note']}"
    return f"{row['sha256'] or hashlib.sha256(words.encode()).hexdigest()} {row['path'] or ''}"


def score_records(scores: Iterable[Score]) -> list[dict[str, Any]]:
    """Scores as plain JSON records; undefined numbers are null, because JSON has no NaN."""
    return [
        {
            "suite": s.suite,
            "metric": s.metric,
            "protocol": s.protocol,
            "group": dict(s.group),
            "value": _finite(s.value),
            "ci_low": _finite(s.ci_low),
            "ci_high": _finite(s.ci_high),
            "n_used": s.n_used,
            "n_unusable": s.n_unusable,
            "unit": s.unit,
            "higher_is_better": s.higher_is_better,
            "adjusted": s.adjusted,
        }
        for s in scores
    ]


def key_of(table: str) -> str:
    """The column that says whose row it is: an image's id, or a text."""
    return TABLES[table][0].name


def slug(name: str) -> str:
    """A file name for any id: readable, and unlike any other id's even where characters had to go."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80] or "x"
    if readable == name:
        return readable
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _flat_name(score: Score) -> str:
    """The name of a score in a flat record, as trackers have it: ``accuracy/skill=count``."""
    return "/".join([score.metric, *(f"{facet}={value}" for facet, value in score.group.items())])


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None


def _prompt_row(prompt: Prompt) -> dict[str, Any]:
    return {
        "prompt_id": prompt.prompt_id,
        "suite": prompt.suite,
        "text": prompt.text,
        "facets": json.dumps(dict(prompt.facets), ensure_ascii=False),
        "spec": json.dumps(dict(prompt.spec), ensure_ascii=False),
        "scene": None if prompt.scene is None else json.dumps(_scene_record(prompt.scene), ensure_ascii=False),
        "n_images": prompt.n_images,
    }


def _scene_record(scene: Scene) -> dict[str, Any]:
    """A scene as JSON keeps it; one without texts as before there were any, so that its hash stays."""
    record = asdict(scene)
    if not scene.texts:
        del record["texts"]
    return record


def _prompt_from(row: Mapping[str, Any]) -> Prompt:
    scene = None
    if row["scene"] is not None:
        raw = json.loads(row["scene"])
        objects = tuple(
            SceneObject(**{**o, "rotation": None if o["rotation"] is None else tuple(o["rotation"])})
            for o in raw["objects"]
        )
        texts = tuple(SceneText(**text) for text in raw.get("texts", ()))
        scene = Scene(**{**raw, "objects": objects, "texts": texts})
    return Prompt(
        prompt_id=row["prompt_id"],
        suite=row["suite"],
        text=row["text"],
        facets=json.loads(row["facets"]),
        spec=json.loads(row["spec"]),
        n_images=row["n_images"],
        scene=scene,
    )
