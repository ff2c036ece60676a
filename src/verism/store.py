"""The only reader and writer of run directories.

::

    RUN/
      manifest.json        what was asked, with which versions; written first
      prompts.parquet
      images/              images the run made; user images stay where they are
      images/part-*.parquet
      reference/part-*.parquet   the real images compared with, if any; they stay where they are
      observations/<table>/<judge>/part-*.parquet
      verdicts.parquet  scores.parquet  scores.json  adjustments.json
      presentation.json    what the suite says of itself, for reports without it

Tables that grow are written in parts, each whole or not at all (temporary name, fsync, rename), so a killed run loses
at most the batch in flight, and several workers may write side by side. Readers put parts together by id: the order of
writing never matters, and an image that two workers did counts once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from verism.errors import UsageError, VerismError
from verism.files import write_json, write_whole
from verism.manifest import SCHEMA_VERSION, Manifest, RunSettings, Scoring
from verism.records import TABLES, Prompt, Scene, SceneObject, Score, empty_table, frame, schema
from verism.renames import metric_name, protocol_name
from verism.specs import Presentation

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SCHEMA_VERSION", "TRUTH", "Run", "RunSettings", "Scoring", "SettingsChanged", "score_records"]

TRUTH = "truth"  # the judge who rendered the image
READ_ATTEMPTS = 5  # of a table whose parts another worker is putting together


class SettingsChanged(UsageError):
    """A run directory exists, made with other settings; the message names each difference."""


class Run:
    """One run directory. Make one with ``Run.start`` (new or resumed) or ``Run.open`` (finished or not)."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._kept: list[Any] = []  # what must live as long as the run: the folder of a temporary one

    def keep(self, item: Any) -> None:
        """Hold something for as long as the run is used: the folder of a temporary run, say."""
        self._kept.append(item)

    def __repr__(self) -> str:
        words = [f"suite {self.suite_name}"]
        if (self.path / "scores.parquet").exists():
            words += [f"{name} {value:.4g}" for name, value in self.metrics().items()][:3]
        else:
            words.append("not scored yet")
        return f"<Run {self.path}: {', '.join(words)}>"

    def _repr_html_(self) -> str:
        """The headline numbers as a table, for notebooks."""
        if not (self.path / "scores.parquet").exists():
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
    ) -> Self:
        """A new run with these settings, or the run that is there if its settings are the same.

        Args:
            path: the run directory.
            settings: what decides prompts, images and observations.
            scoring: how scores are made, if it is known already.
            plugins: versions by package, of suite, generator and judges that do not come with verism.

        Raises:
            SettingsChanged: the directory holds a run with other settings.
            UsageError: the directory holds something else.
        """
        if (path / "manifest.json").exists():
            run = cls.open(path)
            if differences := run.manifest.settings.differences(settings):
                listed = "\n".join(f"  {name}: {old!r} there, {new!r} now" for name, old, new in differences)
                raise SettingsChanged(
                    f"{path} holds a run with other settings:\n{listed}\nUse the same settings, or another --out."
                )
            return run
        # A start that was killed may have left the manifest's temporary file.
        if path.exists() and (not path.is_dir() or any(p.suffix != ".tmp" for p in path.iterdir())):
            raise UsageError(f"{path} exists and is not a run directory; choose another --out")
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path, Manifest.new(settings, scoring=scoring, plugins=plugins))
        run._write_manifest()
        return run

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """A run directory that exists.

        Raises:
            UsageError: it is not one, or of a schema this version does not read.
        """
        path = Path(path)
        file = path / "manifest.json"
        if not file.is_file():
            raise UsageError(f"{path} is not a run directory: it has no manifest.json. Make one with: verism run")
        try:
            return cls(path, Manifest.of_record(json.loads(file.read_text(encoding="utf-8"))))
        except UsageError as err:
            raise UsageError(f"{path} has {err}") from err
        except (ValueError, KeyError, TypeError, AttributeError) as err:  # ValueError: neither JSON nor UTF-8
            raise UsageError(f"{file} is damaged: {err!r}") from err

    def _write_manifest(self) -> None:
        write_json(self.path / "manifest.json", self.manifest.record())

    def note_scoring(self, **changes: Any) -> None:
        """Keep how the scores were made.

        Args:
            **changes: fields of ``manifest.Scoring``; those not named stay.
        """
        self.manifest = self.manifest.with_scoring(**changes)
        self._write_manifest()

    def note_generator(self, details: Mapping[str, Any]) -> None:
        """Keep what the generator says of itself beside its name."""
        self.manifest = self.manifest.with_generator(details)
        self._write_manifest()

    @property
    def suite_name(self) -> str:
        """Name of the suite the run was made with."""
        return self.manifest.settings.suite

    def presentation(self) -> Presentation | None:
        """What the run's suite says of itself, as kept at the last scoring; None for runs of earlier versions."""
        path = self.path / "presentation.json"
        if not path.exists():
            return None
        try:
            return Presentation.of_record(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError) as err:
            raise UsageError(f"{path} is damaged: {err!r}; write it anew with: verism score {self.path}") from err

    def write_presentation(self, presentation: Presentation) -> None:
        """Keep what the run's suite says of itself, for reports and comparisons without it."""
        write_json(self.path / "presentation.json", presentation.record())

    @property
    def name(self) -> str:
        return self.path.name

    # ---------------------------------------------------------------------------------------------------- prompts
    def write_prompts(self, prompts: Sequence[Prompt]) -> None:
        """The prompts of the run, once; they are part of what a resumed run must share."""
        if not (self.path / "prompts.parquet").exists():
            self._write_table(self.path / "prompts.parquet", frame("prompts", [_prompt_row(p) for p in prompts]))

    def prompts(self) -> list[Prompt]:
        """The prompts, in the suite's order.

        Raises:
            VerismError: the run has none yet.
        """
        import polars as pl

        path = self.path / "prompts.parquet"
        if not path.exists():
            raise VerismError(f"{self.path}: the run was stopped before its prompts were written; run it again")
        return [_prompt_from(row) for row in pl.read_parquet(path, glob=False).iter_rows(named=True)]

    # ------------------------------------------------------------------------------------------------------ parts
    def _folder(self, table: str, judge: str | None) -> Path:
        if table in ("images", "reference"):
            return self.path / table
        if judge is None:
            raise ValueError(f"table {table!r} is kept per judge")
        return self.path / "observations" / table / slug(judge)

    def append(self, table: str, rows: pl.DataFrame, judge: str | None = None) -> Path | None:
        """Add one part, and return it (None for no rows).

        Its name comes from its keys (image ids, or texts), so writing the same batch again replaces it.

        Raises:
            ValueError: columns other than the table's.
        """
        if rows.schema != schema(table):
            raise ValueError(f"table {table!r} has columns {schema(table)}, got {dict(rows.schema)}")
        if rows.height == 0:
            return None
        keys = sorted(set(rows[key_of(table)].to_list()))
        digest = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]
        path = self._folder(table, judge) / f"part-{digest}.parquet"
        self._write_table(path, rows)
        return path

    def read(self, table: str, judge: str | None = None) -> pl.DataFrame:
        """A whole table, sorted by its key (image or text); ``images`` or the observations of one judge."""
        import polars as pl

        key = key_of(table)
        tables = self._read_parts(table, judge)
        if not tables:
            return empty_table(table)
        frames = []
        seen: pl.Series | None = None
        for rows in tables:
            if seen is not None:
                rows = rows.filter(~pl.col(key).is_in(seen.implode()))
            seen = rows[key].unique() if seen is None else pl.concat([seen, rows[key].unique()])
            frames.append(rows)
        # Stable within an image: parts keep the judge's order of boxes.
        return pl.concat(frames).sort(key, maintain_order=True)

    def keys(self, table: str, judge: str | None = None) -> set[str]:
        """The images (or texts) a table has rows of, without reading what it says of them."""
        key = key_of(table)
        return {value for part in self._read_parts(table, judge, [key]) for value in part[key].to_list()}

    def _read_parts(self, table: str, judge: str | None, columns: list[str] | None = None) -> list[pl.DataFrame]:
        import polars as pl

        for attempt in range(READ_ATTEMPTS):
            try:
                parts = sorted(self._folder(table, judge).glob("part-*.parquet"))
                return [pl.read_parquet(p, glob=False, columns=columns) for p in parts]
            except FileNotFoundError:
                # Another worker put the parts together in between; the whole was there before its parts went.
                if attempt == READ_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def compact(self, table: str, judge: str | None = None) -> None:
        """Put all parts into one. Killed half-way it leaves both, which read the same."""
        parts = sorted(self._folder(table, judge).glob("part-*.parquet"))
        if len(parts) > 1:
            self._replace(parts, self.append(table, self.read(table, judge), judge))

    def forget(self, table: str, keys: Sequence[str], judge: str | None = None) -> None:
        """Drop the rows of these images (or texts), so that they are done again."""
        import polars as pl

        parts = sorted(self._folder(table, judge).glob("part-*.parquet"))
        kept = self.read(table, judge).filter(~pl.col(key_of(table)).is_in(list(keys)))
        if parts:
            self._replace(parts, self.append(table, kept, judge))

    @staticmethod
    def _replace(parts: Sequence[Path], new: Path | None) -> None:
        for part in parts:
            if part != new:
                part.unlink(missing_ok=True)

    def judges(self, table: str) -> list[str]:
        """Names of the judges with observations in a table, without the renderer's ground truth."""
        import polars as pl

        names = []
        for folder in sorted((self.path / "observations" / table).glob("*")):
            part = next(iter(sorted(folder.glob("part-*.parquet"))), None)
            if part is not None and folder.name != TRUTH:
                names.append(str(pl.read_parquet(part, glob=False, columns=["judge"], n_rows=1)["judge"][0]))
        return names

    def judge(self, role: str) -> str | None:
        """Whose observations the scores were made from, for a role such as ``detector``; None if nobody's."""
        return self.manifest.scoring.judges.get(role)

    def has_truth(self, table: str) -> bool:
        """Whether the renderer's ground truth was kept."""
        return any(self._folder(table, TRUTH).glob("part-*.parquet"))

    # ----------------------------------------------------------------------------------------------------- images
    def image_path(self, image_id: str) -> Path:
        """Where the run keeps an image it made."""
        return self.path / "images" / f"{slug(image_id)}.png"

    def write_image(self, image_id: str, png: bytes) -> str:
        """Store an image; returns its path relative to the run."""
        path = self.image_path(image_id)
        # Not synced one by one: a row names the hash, so a file that is gone or cut short after a crash shows.
        write_whole(path, png, sync=False)
        return path.relative_to(self.path).as_posix()

    def resolve(self, path: str) -> Path:
        """The file behind the ``path`` column of ``images``."""
        return Path(path) if Path(path).is_absolute() else self.path / path

    # ------------------------------------------------------------------------------------------- verdicts, scores
    def write_verdicts(self, verdicts: pl.DataFrame) -> None:
        self._write_table(self.path / "verdicts.parquet", verdicts.sort("image_id", "protocol", "rule", "detail"))

    def verdicts(self) -> pl.DataFrame:
        """Table ``verdicts``.

        Raises:
            VerismError: the run has none yet.
        """
        import polars as pl

        path = self.path / "verdicts.parquet"
        if not path.exists():
            raise VerismError(
                f"{self.path} has no verdicts yet; finish it with the same `verism run`, or: verism score"
            )
        verdicts = pl.read_parquet(path, glob=False)
        return verdicts.with_columns(pl.col("protocol").map_elements(protocol_name, return_dtype=pl.String))

    def write_scores(self, scores: Sequence[Score]) -> None:
        rows = [
            {**asdict(s), "group": json.dumps(dict(s.group))}
            | {k: _finite(getattr(s, k)) for k in ("value", "ci_low", "ci_high")}
            for s in scores
        ]
        self._write_table(self.path / "scores.parquet", frame("scores", rows))
        write_json(self.path / "scores.json", score_records(scores))

    def write_adjustments(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Keep how scores were adjusted for judges' errors (``pipeline.correction``); replaces earlier ones."""
        path = self.path / "adjustments.json"
        if records:
            write_json(path, list(records))
        else:
            path.unlink(missing_ok=True)

    def adjustments(self) -> list[dict[str, Any]]:
        """How the scores that have ``adjusted`` came about; empty if none has."""
        path = self.path / "adjustments.json"
        records: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        names = {"protocol": protocol_name, "metric": metric_name}
        return [record | {k: name(record[k]) for k, name in names.items() if k in record} for record in records]

    def scores(self) -> list[Score]:
        """All numbers of the run.

        Raises:
            VerismError: the run has none yet.
        """
        import polars as pl

        path = self.path / "scores.parquet"
        if not path.exists():
            raise VerismError(f"{self.path} has no scores yet; finish it with the same `verism run`, or: verism score")
        scores = []
        for row in pl.read_parquet(path, glob=False).iter_rows(named=True):
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
        presentation = self.presentation()
        scores = [s for s in self.scores() if not s.adjusted]
        if presentation is None:
            return {s.metric: s.value for s in scores if s.protocol == "revised" and not s.group}
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
        return {_flat_name(s): s.value for s in sorted(chosen, key=lambda s: len(s.group))}

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

        Columns: ``image_id``, ``path`` (absolute, null without a file), ``prompt_id``, ``prompt``, ``state``, ``rule``
        (empty for images without a usable verdict at all), ``value``, ``reason``, and a column for each facet.

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

    def _write_table(self, path: Path, rows: pl.DataFrame) -> None:
        import io

        buffer = io.BytesIO()
        rows.write_parquet(buffer, compression="zstd", compression_level=3)
        write_whole(path, buffer.getvalue())


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
        "scene": None if prompt.scene is None else json.dumps(asdict(prompt.scene), ensure_ascii=False),
        "n_images": prompt.n_images,
    }


def _prompt_from(row: Mapping[str, Any]) -> Prompt:
    scene = None
    if row["scene"] is not None:
        raw = json.loads(row["scene"])
        objects = tuple(
            SceneObject(**{**o, "rotation": None if o["rotation"] is None else tuple(o["rotation"])})
            for o in raw["objects"]
        )
        scene = Scene(**{**raw, "objects": objects})
    return Prompt(
        prompt_id=row["prompt_id"],
        suite=row["suite"],
        text=row["text"],
        facets=json.loads(row["facets"]),
        spec=json.loads(row["spec"]),
        n_images=row["n_images"],
        scene=scene,
    )
