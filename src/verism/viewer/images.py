"""The images of a run: filtered, ordered and paged by lazy queries, so that a run may have any number of them.

A choice of images is made from the few columns it needs and gives ids alone; everything else is read for the images of
one page. What an image was called is decided as the report's gallery does: wrong if a rule went against it; of several
decisions of one rule, if none was for it.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from verism.errors import UsageError
from verism.records import TABLES
from verism.report_kit.evidence import Vocabulary
from verism.report_kit.gallery import calibrated_threshold
from verism.report_kit.outcomes import image_outcomes
from verism.specs import Presentation
from verism.store import Run
from verism.viewer.library import NotFoundError, fingerprint, observing, presentation_for, reading

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Cache", "ImageTable", "Query"]

Outcome = Literal["right", "wrong", "unusable", "undecided"]
Order = Literal["id", "value", "-value"]
MAX_BOXES = 60  # of one judge in an image; most confident first
MAX_ROWS = 400  # observations of one judge about an image
MAX_VALUES = 300  # of a facet that are offered as a choice
MAX_REASONS = 60
SELECTIONS = 12  # kept for the next page


@dataclass(frozen=True, kw_only=True)
class Query:
    """Which images, in which order. Empty fields choose nothing.

    Attributes:
        protocol: whose verdicts count; empty for the first.
        rule: only images with verdicts of this rule.
        outcome: ``right``, ``wrong``, ``unusable`` (no usable answer) or ``undecided`` (no verdict).
        reason: part of the reason of a verdict.
        judge: ``TABLE/NAME``: only images this judge observed; with ``!`` before it, only those it did not.
        state: state of the image.
        text: part of the prompt, of the image's id, of its note or of a reason.
        facets: facets of the prompts and their values, as text.
        order: by id, or by the mean value of the rule's verdicts, rising (``value``) or falling (``-value``).
    """

    protocol: str = ""
    rule: str = ""
    outcome: str = ""
    reason: str = ""
    judge: str = ""
    state: str = ""
    text: str = ""
    facets: tuple[tuple[str, str], ...] = ()
    order: str = "id"


class Cache:
    """Image tables of runs, as long as their files stay the same."""

    def __init__(self, size: int = 8) -> None:
        """An empty cache.

        Args:
            size: how many runs are kept.
        """
        self._size = size
        self._tables: OrderedDict[str, tuple[Any, ImageTable]] = OrderedDict()
        self._lock = threading.Lock()

    def table(self, run: Run) -> ImageTable:
        """The images of a run.

        Args:
            run: the run.
        """
        now = fingerprint(run)
        key = str(run.path)
        with self._lock:
            known = self._tables.pop(key, None)
            table = known[1] if known is not None and known[0] == now else ImageTable(run)
            self._tables[key] = (now, table)
            while len(self._tables) > self._size:
                self._tables.popitem(last=False)
            return table


class ImageTable:
    """The images of one run as they are now."""

    def __init__(self, run: Run) -> None:
        """Nothing is read yet.

        Args:
            run: the run.
        """
        self.run = run
        self._chosen: OrderedDict[Query, pl.Series] = OrderedDict()
        self._files: dict[str, tuple[str | None, str | None]] = {}
        self._lock = threading.Lock()

    @cached_property
    def presentation(self) -> Presentation:
        """What the suite says of itself."""
        with reading(self.run):
            return presentation_for(self.run)

    @cached_property
    def decisive(self) -> frozenset[str]:
        """Rules whose verdicts say that an image is right or wrong."""
        return frozenset(p.rule for p in self.presentation.pairings if p.right_or_wrong)

    @cached_property
    def rules(self) -> list[dict[str, Any]]:
        """Rules by protocol: number of verdicts, of those without a usable answer, of zeros and ones, and the range."""
        import polars as pl

        value = pl.col("value")
        with reading(self.run):
            rows = (
                self._verdicts()
                .group_by("protocol", "rule")
                .agg(
                    pl.len().alias("verdicts"),
                    value.null_count().alias("unusable"),
                    (value == 0).sum().alias("zeros"),
                    (value == 1).sum().alias("ones"),
                    value.min().alias("low"),
                    value.max().alias("high"),
                )
                .sort("protocol", "rule")
                .collect()
            )
        return [
            row
            | {
                "binary": row["zeros"] + row["ones"] + row["unusable"] == row["verdicts"],
                "right_or_wrong": row["rule"] in self.decisive,
            }
            for row in rows.iter_rows(named=True)
        ]

    @cached_property
    def protocols(self) -> list[str]:
        """Protocols with verdicts; that to compare models with comes first."""
        there = [row["protocol"] for row in self.rules]
        declared = [name for name in self.presentation.info.protocols if name in there]
        return list(dict.fromkeys([*declared, *there]))

    @cached_property
    def prompts(self) -> pl.DataFrame:
        """Prompts with a column ``facet:NAME`` of text for each facet."""
        import polars as pl

        with reading(self.run):
            prompts = self.run.scan("prompts").select("prompt_id", "text", "facets").collect()
            distinct = prompts["facets"].unique(maintain_order=True)
            parsed = [json.loads(text) for text in distinct.to_list()]
            names = list(dict.fromkeys(name for facets in parsed for name in facets))
            columns = {
                f"facet:{name}": pl.Series([_text(f.get(name)) for f in parsed], dtype=pl.String) for name in names
            }
            wide = pl.DataFrame({"facets": distinct, **columns})
            return prompts.join(wide, on="facets", how="left", maintain_order="left")

    @cached_property
    def _facet_values(self) -> frozenset[tuple[str, str]]:
        columns = [column for column in self.prompts.columns if column.startswith("facet:")]
        return frozenset(
            (column.removeprefix("facet:"), value)
            for column in columns
            for value in self.prompts[column].drop_nulls().unique()
        )

    def has_facet(self, name: str, value: str) -> bool:
        """Whether a prompt has this facet: groups of scores may be of something else, such as a class perceived.

        Args:
            name: name of the facet.
            value: its value as text.
        """
        return (name, value) in self._facet_values

    def _verdicts(self) -> pl.LazyFrame:
        import polars as pl

        # Verdicts without a prompt are of real images.
        return self.run.scan("verdicts").filter(pl.col("prompt_id") != "")

    # ------------------------------------------------------------------------------------------------------ choices
    def filters(self) -> dict[str, Any]:
        """What can be chosen: facets with their values and numbers of prompts, rules, reasons, judges, states."""
        import polars as pl

        vocabulary = Vocabulary([self.presentation])
        prompts = self.prompts
        facets = []
        for column in prompts.columns:
            if column.startswith("facet:"):
                name = column.removeprefix("facet:")
                counts = prompts.get_column(column).drop_nulls().value_counts(sort=True, name="prompts")
                values = [
                    {"value": v, "name": vocabulary.value_name(name, v), "prompts": n}
                    for v, n in counts.head(MAX_VALUES).iter_rows()
                ]
                facets.append(
                    {
                        "facet": name,
                        "name": vocabulary.facet_name(name),
                        "values": sorted(values, key=lambda v: str(v["name"])),
                        "more": max(0, counts.height - MAX_VALUES),
                    }
                )
        with reading(self.run):
            reasons = (
                self._verdicts()
                .filter((pl.col("reason") != "") & (pl.col("value").is_null() | (pl.col("value") < 0.5)))
                .group_by("reason")
                .agg(pl.col("image_id").n_unique().alias("images"))
                .sort("images", "reason", descending=[True, False])
                .head(MAX_REASONS)
                .collect()
            )
            states = self.run.scan("images").group_by("state").len().sort("state").collect()
        return {
            "facets": facets,
            "protocols": self.protocols,
            "meanings": dict(self.presentation.info.protocols),
            "rules": self.rules,
            "right_or_wrong": bool(self.decisive & {row["rule"] for row in self.rules}),
            "reasons": list(reasons.iter_rows(named=True)),
            "judges": [f"{table}/{judge}" for table, judge in observing(self.run)],
            "states": dict(states.iter_rows()),
        }

    def checked(self, query: Query) -> Query:
        """A query whose names are those of this run.

        Args:
            query: as it was asked.
        Raises:
            UsageError: a protocol, rule, outcome, judge, facet or order that the run does not have.
        """
        query = replace(query, protocol=query.protocol or next(iter(self.protocols), ""))
        facets = {c.removeprefix("facet:") for c in self.prompts.columns if c.startswith("facet:")}
        judges = {f"{table}/{judge}" for table, judge in observing(self.run)} if query.judge else set()
        for what, value, known in (
            ("protocol", query.protocol, {*self.protocols, ""}),
            ("rule", query.rule, {row["rule"] for row in self.rules} | {""}),
            ("outcome", query.outcome, {*get_args(Outcome), ""}),
            ("order", query.order, set(get_args(Order))),
            ("judge", query.judge.removeprefix("!"), judges | {""}),
            *(("facet", name, facets) for name, _ in query.facets),
        ):
            if value not in known:
                raise UsageError(
                    f"this run has no {what} {value!r}; it has {', '.join(sorted(known - {''})) or 'none'}"
                )
        if query.order != "id" and not query.rule:
            raise UsageError("images are ordered by the value of a rule: choose a rule")
        if query.outcome and not query.rule and not self.decisive:
            raise UsageError("no rule of this run decides whether an image is right or wrong: choose a rule")
        return query

    def select(self, query: Query) -> pl.Series:
        """Ids of the images of a query, in order.

        Args:
            query: which images.
        Raises:
            UsageError: the query names what the run does not have.
            DamagedRunError: a table cannot be read.
        """
        query = self.checked(query)
        with self._lock:
            known = self._chosen.get(query)
        if known is not None:
            return known
        with reading(self.run):
            ids = self._select(query).collect()["image_id"]
        with self._lock:
            self._chosen[query] = ids
            while len(self._chosen) > SELECTIONS:
                self._chosen.popitem(last=False)
        return ids

    def _select(self, query: Query) -> pl.LazyFrame:
        import polars as pl

        images = self.run.scan("images").select("image_id", "prompt_id", "state", "note")
        if query.state:
            images = images.filter(pl.col("state") == query.state)
        if query.facets:
            prompts = self.prompts.lazy()
            for name, value in query.facets:
                prompts = prompts.filter(pl.col(f"facet:{name}") == value)
            images = images.join(prompts.select("prompt_id"), on="prompt_id", how="semi")
        if query.judge:
            table, _, judge = query.judge.removeprefix("!").partition("/")
            observed = self.run.scan(table, judge).select("image_id").unique()
            images = images.join(observed, on="image_id", how="anti" if query.judge.startswith("!") else "semi")
        verdicts = self._verdicts().filter(pl.col("protocol") == query.protocol)
        if query.rule:
            verdicts = verdicts.filter(pl.col("rule") == query.rule)
        if query.rule or query.reason:
            hits = verdicts if not query.reason else verdicts.filter(_contains("reason", query.reason))
            images = images.join(hits.select("image_id").unique(), on="image_id", how="semi")
        if query.text:
            prompts = self.prompts.lazy().select("prompt_id", "text")
            reasons = verdicts.filter(_contains("reason", query.text)).select("image_id").unique()
            hit = pl.any_horizontal(
                _contains("text", query.text),
                _contains("image_id", query.text),
                _contains("note", query.text),
                pl.col("in_reason").fill_null(value=False),
            )
            images = (
                images.join(prompts, on="prompt_id", how="left")
                .join(reasons.with_columns(in_reason=pl.lit(value=True)), on="image_id", how="left")
                .filter(hit)
            )
        if query.outcome:
            outcomes = image_outcomes(verdicts, self.presentation, protocol=query.protocol, rule=query.rule)
            images = images.join(outcomes, on="image_id", how="left").filter(
                pl.col("outcome").fill_null("undecided") == query.outcome
            )
        if query.order == "id":
            return images.select("image_id").sort("image_id")
        values = verdicts.group_by("image_id").agg(pl.col("value").mean().alias("by"))
        images = images.select("image_id").join(values, on="image_id", how="left")
        return images.sort("by", "image_id", descending=[query.order == "-value", False], nulls_last=True).select(
            "image_id"
        )

    # ---------------------------------------------------------------------------------------------------- one page
    def rows(
        self, ids: Sequence[str], *, protocol: str = "", rule: str = "", boxes: bool = False
    ) -> list[dict[str, Any]]:
        """What a page shows of some images, in their order.

        Args:
            ids: the images.
            protocol: whose verdicts; empty for the first.
            rule: whose verdicts come first, and decide the outcome if they say right or wrong; empty for all that do.
            boxes: whether boxes come along.
        """
        import polars as pl

        protocol = protocol or next(iter(self.protocols), "")
        with reading(self.run):
            images = {row["image_id"]: row for row in self.run.scan("images", keys=ids).collect().iter_rows(named=True)}
            verdicts = self.run.scan("verdicts", keys=ids).filter(pl.col("protocol") == protocol)
            decided = rule in self.decisive if rule else bool(self.decisive)
            counted = image_outcomes(verdicts, self.presentation, protocol=protocol, rule=rule)
            outcomes = dict(counted.collect().iter_rows()) if decided else {}
            decisions = self._decisions(verdicts)
            prompts = {
                row["prompt_id"]: row
                for row in self.prompts.filter(
                    pl.col("prompt_id").is_in([r["prompt_id"] for r in images.values()])
                ).iter_rows(named=True)
            }
            drawn = self._observed(ids, boxes_only=True) if boxes else {}
        for row in images.values():
            self._files[row["image_id"]] = (row["path"], row["sha256"])
        found = []
        for image_id in ids:
            if image_id not in images:  # gone since the query
                continue
            row = images[image_id]
            prompt = prompts.get(row["prompt_id"], {"text": "", "facets": "{}"})
            found.append(
                {
                    **{k: row[k] for k in ("image_id", "prompt_id", "index", "state", "note", "width", "height")},
                    "prompt": prompt["text"],
                    "facets": json.loads(prompt["facets"]),
                    "version": (row["sha256"] or "")[:16],
                    "has_file": row["path"] is not None,
                    "outcome": outcomes.get(image_id, "undecided" if decided else ""),
                    "verdicts": sorted(decisions.get(image_id, []), key=lambda row: bool(rule) and row["rule"] != rule),
                    "boxes": drawn.get(image_id, []),
                }
            )
        return found

    def _decisions(self, verdicts: pl.LazyFrame) -> dict[str, list[dict[str, Any]]]:
        columns = ("image_id", "protocol", "rule", "value", "reason", "detail")
        found: dict[str, list[dict[str, Any]]] = {}
        for row in verdicts.select(columns).collect().iter_rows(named=True):
            image_id = row.pop("image_id")
            value = row["value"]
            decides = row["rule"] in self.decisive
            row["says"] = (
                "unusable" if value is None else ("right" if value >= 0.5 else "wrong") if decides else "value"
            )
            row["decides"] = decides
            row["detail"] = _json(row["detail"])
            found.setdefault(image_id, []).append(row)
        # What went against the image comes first: it is what a reader looks for.
        place = {"wrong": 0, "unusable": 1, "right": 2, "value": 3}
        for rows in found.values():
            rows.sort(key=lambda r: (not r["decides"], place[r["says"]], r["rule"]))
        return found

    def _observed(self, ids: Sequence[str], *, boxes_only: bool) -> dict[str, list[dict[str, Any]]]:
        """By image, what each judge observed: rows of its table without vectors, and boxes where it has any."""
        threshold = calibrated_threshold(self.run)
        found: dict[str, list[dict[str, Any]]] = {}
        for table, judge in observing(self.run):
            columns = TABLES[table]
            has_boxes = {"x0", "y0", "x1", "y1"} <= {c.name for c in columns}
            if boxes_only and not has_boxes:
                continue
            names = [c.name for c in columns if not c.dtype.startswith("list")]
            if [c for c in names if c not in ("image_id", "judge")] == []:  # vectors alone
                continue
            rows = self.run.scan(table, judge, keys=ids).select(names).collect()
            if has_boxes:
                rows = rows.sort("image_id", "score", descending=[False, True], nulls_last=True, maintain_order=True)
            by: dict[str, list[dict[str, Any]]] = {}
            for row in rows.iter_rows(named=True):
                by.setdefault(row.pop("image_id"), []).append(row)
            for image_id, members in by.items():
                own = [{k: _number(v) for k, v in m.items() if k != "judge"} for m in members]
                found.setdefault(image_id, []).append(
                    {
                        "table": table,
                        "judge": judge,
                        "boxes": [_box(m, threshold) for m in own if m.get("x0") is not None][:MAX_BOXES],
                        "threshold": threshold if table == "detections" else None,
                        "rows": [] if boxes_only else own[:MAX_ROWS],
                        "more": max(0, len(own) - MAX_ROWS),
                    }
                )
        return found

    # --------------------------------------------------------------------------------------------------- one image
    def detail(self, image_id: str) -> dict[str, Any]:
        """All that is known of an image.

        Args:
            image_id: its id.
        Raises:
            NotFoundError: the run has no such image.
        """
        import polars as pl

        rows = self.rows([image_id])
        if not rows:
            raise NotFoundError(f"{self.run.path} has no image {image_id!r}")
        with reading(self.run):
            image = self.run.scan("images", keys=[image_id]).collect().row(0, named=True)
            verdicts = self._decisions(self.run.scan("verdicts", keys=[image_id]))
            prompt = self.run.scan("prompts", keys=[image["prompt_id"]]).select("spec").collect()
            observed = self._observed([image_id], boxes_only=False)
            siblings = (
                self.run.scan("images").filter(pl.col("prompt_id") == image["prompt_id"]).select("image_id")
                .sort("image_id").head(64).collect()["image_id"].to_list()
            )  # fmt: skip
        by_protocol: dict[str, list[dict[str, Any]]] = {name: [] for name in self.protocols}
        for row in verdicts.get(image_id, []):
            by_protocol.setdefault(row["protocol"], []).append(row)
        return rows[0] | {
            "seed": image["seed"],
            "path": image["path"],
            "sha256": image["sha256"],
            "file": self._file_state(image_id),
            "spec": _json(prompt["spec"][0]) if prompt.height else None,
            "by_protocol": by_protocol,
            "observed": observed.get(image_id, []),
            "siblings": siblings,
        }

    def _file_state(self, image_id: str) -> str:
        """``same``, ``changed`` since the run was made, ``gone``, or empty where there never was a file or a hash."""
        _, expected = self._files.get(image_id, (None, None))
        try:
            data = self.content(image_id)
        except NotFoundError:
            return "" if self._files.get(image_id, (None,))[0] is None else "gone"
        return "" if not expected else "same" if hashlib.sha256(data).hexdigest() == expected else "changed"

    def content(self, image_id: str) -> bytes:
        """The bytes of an image's file, as the run's own table names it.

        Args:
            image_id: its id.
        Raises:
            NotFoundError: no such image, or no file that the run may name: relative paths stay in the run, and only
                regular files are read.
        """
        if image_id not in self._files:
            with reading(self.run):
                found = self.run.scan("images", keys=[image_id]).select("path", "sha256").collect()
            if not found.height:
                raise NotFoundError(f"{self.run.path} has no image {image_id!r}")
            self._files[image_id] = found.row(0)
        stored, expected = self._files[image_id]
        if stored is None:
            raise NotFoundError(f"{image_id} has no file")
        path = self.run.resolve(stored)
        try:
            inside = path.is_absolute() and stored == str(path)
            if not inside and not path.resolve().is_relative_to(self.run.path.resolve()):
                raise NotFoundError(f"the run names {stored!r}, which lies outside of it")
            return self.run.image_bytes({"path": stored, "sha256": expected})
        except FileNotFoundError as err:
            raise NotFoundError(f"the file of {image_id} is gone") from err
        except (OSError, ValueError) as err:  # ValueError: a name no file can have
            raise NotFoundError(f"the file of {image_id} cannot be read: {err}") from err


def _contains(column: str, part: str) -> pl.Expr:
    import polars as pl

    found = pl.col(column).str.to_lowercase().str.contains(part.lower(), literal=True)
    return found.fill_null(value=False)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _json(text: str | None) -> Any:
    try:
        return None if not text else json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _number(value: Any) -> Any:
    """A value that JSON has: numbers that are none become null."""
    return None if isinstance(value, float) and (value != value or abs(value) == float("inf")) else value


def _box(row: Mapping[str, Any], threshold: float) -> dict[str, Any]:
    """A box with its words.

    Args:
        row: of a table with corners.
        threshold: confidence from which a detector's box counts.
    """
    if "label" in row:
        name = " ".join(filter(None, (row.get("color"), row["label"] or row.get("raw_label") or "other object")))
        counts = row["score"] is not None and row["score"] > threshold
    else:
        tone = row.get("tone")
        name = f"face {row.get('face', 0)}" + (f", tone {tone}" if tone is not None else f", {row.get('state', '')}")
        counts = row.get("state") == "ok"
    return {**{k: row[k] for k in ("x0", "y0", "x1", "y1")}, "name": name, "score": row.get("score"), "counts": counts}
