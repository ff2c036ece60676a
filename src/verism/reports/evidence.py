"""The pictures behind measures: those that stand out, beside the real pictures they are nearest to.

A picture stands out if it lies outside the manifold of real pictures (of every region it is compared with, all objects
together), got a question wrong, or is in the lowest tenth of a similarity (of its object, where there are objects: the
pictures DIG In's consistency indicator rests on). The sample is a function of the run alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from verism.errors import UsageError
from verism.records import PROTOCOLS, FacetValue
from verism.reports.gallery import OUTCOMES, Outcome, even_shares, pick, picture_data, shuffled, turns
from verism.reports.measures import prompt_form
from verism.reports.tables import UNDEFINED
from verism.store import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["OUTCOME_NAMES", "Evidence", "Line", "Neighbour", "collect_evidence"]

OUTCOME_NAMES: Mapping[Outcome, str] = {"wrong": "stands out", "unusable": "unusable", "right": "unremarkable"}
LOWEST = 0.1  # share of a similarity's values that counts as standing out
LINES = 6  # decisions shown per picture and protocol
INSIDE = "inside"  # the rule of suites that compare with a manifold of real pictures


@dataclass(frozen=True, kw_only=True)
class Line:
    """One decision about a picture.

    Attributes:
        rule: in words. value: None for no usable one. reason: in words.
        outcome: of this decision. counts: whether the picture's outcome rests on it.
        graded: whether the value is one on a scale; otherwise it is a yes (1) or a no (0).
    """

    rule: str
    value: float | None
    reason: str
    outcome: Outcome
    counts: bool = True
    graded: bool = False

    @property
    def shown(self) -> str:
        if self.value is None:
            return UNDEFINED
        if self.graded:
            return f"{self.value:.3f}"
        words = ("wrong", "right") if self.rule.startswith("question ") else ("no", "yes")
        return words[int(self.value)]


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """The real picture nearest to a generated one."""

    image_id: str
    distance: float
    source: str | None
    missing: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """One picture of the gallery.

    Attributes:
        run: number of the run. image_id: within the run. asked: the prompt.
        group: what the gallery can be filtered by (region, or the first facet). objects: objects it is about.
        form: what its prompt looks like, where the suite has several families of prompts.
        outcomes, lines: by protocol. more: how many decisions are left out, by protocol.
        source: the picture as a data URI, or None; then ``missing`` says why.
        neighbour: the nearest real picture, if it was looked for.
    """

    run: int
    image_id: str
    asked: str
    group: str
    objects: tuple[str, ...]
    form: str
    outcomes: Mapping[str, Outcome]
    lines: Mapping[str, Sequence[Line]]
    more: Mapping[str, int]
    source: str | None
    missing: str
    note: str
    neighbour: Neighbour | None


def collect_evidence(runs: Sequence[Run], *, gallery: int, embed_pixels: int) -> list[Evidence]:
    """The sample of all runs: at most ``gallery`` pictures, no side longer than ``embed_pixels``.

    Raises:
        UsageError: a negative number of pictures, or a size that shows nothing.
    """
    if gallery < 0:
        raise UsageError(f"gallery must be 0 (no pictures) or more, got {gallery}")
    if not 16 <= embed_pixels <= 4096:
        raise UsageError(f"embed_pixels must be between 16 and 4096, got {embed_pixels}")
    found = [_Pictures(run) for run in runs]
    tiles: list[Evidence] = []
    for number, share in enumerate(even_shares([len(p.rows) for p in found], gallery)):
        tiles += found[number].tiles(number, share, embed_pixels)
    return sorted(tiles, key=lambda tile: OUTCOMES.index(tile.outcomes["corrected"]))


class _Pictures:
    """All pictures of a run with what was decided about them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.prompts = {p.prompt_id: p for p in run.prompts()}
        self.rows = {row["image_id"]: row for row in run.read("images").sort("image_id").iter_rows(named=True)}
        self.real = {row["image_id"]: row for row in run.read("reference").iter_rows(named=True)}
        self.lines, self.nearest = self._decisions(run.verdicts())

    def _decisions(
        self, verdicts: pl.DataFrame
    ) -> tuple[dict[str, dict[str, list[Line]]], dict[str, tuple[float, str]]]:
        import polars as pl

        own = verdicts.filter(pl.col("image_id").is_in(list(self.rows)))
        limits = self._limits(own)
        lines: dict[str, dict[str, list[Line]]] = {}
        nearest: dict[str, tuple[float, str]] = {}
        columns = own.select("image_id", "protocol", "rule", "value", "reason", "detail")
        for image_id, protocol, rule, value, reason, detail in columns.iter_rows():
            low = limits.get((protocol, rule, self._object(image_id)), (0.0, math.inf))  # of yes and no, no stands out
            outcome: Outcome = "unusable"
            if value is not None:
                outcome = "wrong" if value <= low[0] and value < low[1] else "right"
            told = json.loads(detail) if rule == INSIDE and detail else {}
            if told.get("nearest") is not None and protocol == "corrected":
                found = (float(told["distance"]), str(told["nearest"]))
                nearest[image_id] = min(found, nearest.get(image_id, found))
            line = Line(
                rule=rule.replace("_", " "),
                value=value,
                reason=reason or "",
                outcome=outcome,
                counts=told.get("level") != "object-region",
                graded=(protocol, rule, self._object(image_id)) in limits,
            )
            lines.setdefault(image_id, {}).setdefault(protocol, []).append(line)
        for by in lines.values():
            for of in by.values():
                of.sort(key=_place)
        return lines, nearest

    def _limits(self, own: pl.DataFrame) -> dict[tuple[str, str, str], tuple[float, float]]:
        """Up to which value a similarity stands out, and its highest: by protocol, rule and object."""
        values: dict[tuple[str, str, str], list[float]] = {}
        for image_id, protocol, rule, value in own.select("image_id", "protocol", "rule", "value").iter_rows():
            if value is not None:
                values.setdefault((protocol, rule, self._object(image_id)), []).append(value)
        graded = {(protocol, rule) for (protocol, rule, _), found in values.items() if set(found) - {0.0, 1.0}}
        # The highest never stands out: where most pictures tie, the lowest tenth would be nearly all of them.
        return {
            key: (float(np.quantile(np.array(found), LOWEST)), max(found))
            for key, found in values.items()
            if key[:2] in graded
        }

    def _object(self, image_id: str) -> str:
        prompt = self.prompts.get(self.rows[image_id]["prompt_id"])
        return "" if prompt is None else str(prompt.facets.get("object", ""))

    def _facets(self, image_id: str) -> Mapping[str, FacetValue]:
        prompt = self.prompts.get(self.rows[image_id]["prompt_id"])
        return {} if prompt is None else prompt.facets

    def _group(self, image_id: str) -> str:
        facets = self._facets(image_id)
        others = (v for k, v in facets.items() if k not in ("family", "object") and v is not None)
        return str(facets.get("region") or next(others, ""))

    def _outcome(self, image_id: str, protocol: str) -> Outcome:
        """Wrong if one decision is; outside the manifold only if inside none of those compared with."""
        counted = [line for line in self.lines.get(image_id, {}).get(protocol, ()) if line.counts]
        inside = [line.outcome for line in counted if line.rule == INSIDE]
        others = [line.outcome for line in counted if line.rule != INSIDE]
        if "wrong" in others or ("wrong" in inside and "right" not in inside):
            return "wrong"
        return "right" if "right" in inside or "right" in others else "unusable"

    def _outside(self, image_id: str) -> bool:
        """Whether a yes or no decision went against a picture: that says more than a low similarity."""
        counted = [line for line in self.lines.get(image_id, {}).get("corrected", ()) if line.counts]
        inside = [line.value for line in counted if line.rule == INSIDE]
        no = any(line.outcome == "wrong" and not line.graded for line in counted if line.rule != INSIDE)
        return no or (0.0 in inside and 1.0 not in inside)

    def tiles(self, number: int, share: int, embed_pixels: int) -> list[Evidence]:
        outcomes: dict[str, dict[str, Outcome]] = {
            image_id: {p: self._outcome(image_id, p) for p in PROTOCOLS} for image_id in self.rows
        }
        groups: dict[Outcome, dict[tuple[str, str], list[str]]] = {outcome: {} for outcome in OUTCOMES}
        for image_id, of in outcomes.items():
            place = (self._group(image_id), self._object(image_id))
            groups[of["corrected"]].setdefault(place, []).append(image_id)
        order = {
            outcome: turns(
                [
                    sorted(groups[outcome][p], key=lambda image_id: (not self._outside(image_id), shuffled(image_id)))
                    for p in sorted(groups[outcome], key=lambda p: shuffled("/".join(p)))
                ]
            )
            for outcome in OUTCOMES
        }
        return [self._tile(number, image_id, outcomes[image_id], embed_pixels) for image_id in pick(order, share)]

    def _tile(self, number: int, image_id: str, outcomes: Mapping[str, Outcome], embed_pixels: int) -> Evidence:
        row = self.rows[image_id]
        prompt = self.prompts.get(row["prompt_id"])
        source, _, missing = picture_data(self.run, row, embed_pixels)
        name, facets = self._object(image_id), self._facets(image_id)
        lines = {p: self.lines.get(image_id, {}).get(p, []) for p in PROTOCOLS}
        return Evidence(
            run=number,
            image_id=image_id,
            asked=(prompt.text if prompt else "") or image_id,
            group=self._group(image_id),
            objects=(name,) if name else (),
            form=prompt_form(str(facets["family"])) if facets.get("family") else "",
            outcomes=outcomes,
            lines={p: _told_first(found) for p, found in lines.items()},
            more={p: max(0, len(found) - LINES) for p, found in lines.items()},
            source=source,
            missing=missing,
            note=row["note"] or "",
            neighbour=self._neighbour(image_id, embed_pixels),
        )

    def _neighbour(self, image_id: str, embed_pixels: int) -> Neighbour | None:
        if image_id not in self.nearest:
            return None
        distance, real = self.nearest[image_id]
        row = self.real.get(real)
        if row is None or row["path"] is None:
            return Neighbour(image_id=real, distance=distance, source=None, missing="known by its features alone")
        source, _, missing = picture_data(self.run, row, embed_pixels)
        return Neighbour(image_id=real, distance=distance, source=source, missing=missing)


def _place(line: Line) -> tuple[bool, list[tuple[int, str]], str]:
    """Where a decision stands: those that count first, then by name, ``question 2`` before ``question 10``."""
    words = [(int(word), "") if word.isdecimal() else (0, word) for word in line.rule.split()]
    return not line.counts, words, line.reason


def _told_first(lines: Sequence[Line]) -> list[Line]:
    """As many decisions as are shown, in their order; of more, those that went against the picture stay."""
    kept = sorted(range(len(lines)), key=lambda k: (lines[k].outcome != "wrong", k))[:LINES]
    return [lines[k] for k in sorted(kept)]
