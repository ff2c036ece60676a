"""The pictures behind measures: those that stand out, beside the real pictures they are nearest to.

A picture stands out if it lies outside the manifold of real pictures, got a question wrong, or is in the lowest tenth
of a similarity (of its object, where there are objects: the pictures DIG In's consistency indicator rests on). The
sample is a function of the run alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from verism.errors import UsageError
from verism.records import PROTOCOLS
from verism.reports.gallery import OUTCOMES, Outcome, even_shares, pick, picture_data, shuffled, turns
from verism.store import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["OUTCOME_NAMES", "Evidence", "Line", "Neighbour", "collect_evidence"]

OUTCOME_NAMES: Mapping[Outcome, str] = {"wrong": "stands out", "unusable": "unusable", "right": "unremarkable"}
LOWEST = 0.1  # share of a similarity's values that counts as standing out
LINES = 6  # decisions shown per picture and protocol


@dataclass(frozen=True, kw_only=True)
class Line:
    """One decision about a picture: its rule, value (None: no usable one) and reason."""

    rule: str
    value: float | None
    reason: str
    outcome: Outcome

    @property
    def shown(self) -> str:
        if self.value is None:
            return "–"
        return {0.0: "no", 1.0: "yes"}.get(self.value, f"{self.value:.3f}")


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
        outcomes, lines: by protocol.
        source: the picture as a data URI, or None; then ``missing`` says why.
        neighbour: the nearest real picture, if it was looked for.
    """

    run: int
    image_id: str
    asked: str
    group: str
    objects: tuple[str, ...]
    outcomes: Mapping[str, Outcome]
    lines: Mapping[str, Sequence[Line]]
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
    ) -> tuple[dict[str, dict[str, list[Line]]], dict[str, tuple[str, float]]]:
        import polars as pl

        own = verdicts.filter(pl.col("image_id").is_in(list(self.rows)))
        limits = self._limits(own)
        lines: dict[str, dict[str, list[Line]]] = {}
        nearest: dict[str, tuple[str, float]] = {}
        columns = own.select("image_id", "protocol", "rule", "value", "reason", "detail")
        for image_id, protocol, rule, value, reason, detail in columns.iter_rows():
            lowest = limits.get((protocol, rule, self._object(image_id)), 0.0)  # 0: of yes and no, no stands out
            outcome: Outcome = "unusable" if value is None else "wrong" if value <= lowest else "right"
            line = Line(rule=rule.replace("_", " "), value=value, reason=reason or "", outcome=outcome)
            lines.setdefault(image_id, {}).setdefault(protocol, []).append(line)
            if image_id not in nearest and detail is not None and '"nearest"' in detail:
                told = json.loads(detail)
                nearest[image_id] = (str(told["nearest"]), float(told["distance"]))
        return lines, nearest

    def _limits(self, own: pl.DataFrame) -> dict[tuple[str, str, str], float]:
        """Below which value a similarity stands out: by protocol, rule and object."""
        values: dict[tuple[str, str, str], list[float]] = {}
        for image_id, protocol, rule, value in own.select("image_id", "protocol", "rule", "value").iter_rows():
            if value is not None:
                values.setdefault((protocol, rule, self._object(image_id)), []).append(value)
        graded = {(protocol, rule) for (protocol, rule, _), found in values.items() if set(found) - {0.0, 1.0}}
        return {key: float(np.quantile(np.array(found), LOWEST)) for key, found in values.items() if key[:2] in graded}

    def _object(self, image_id: str) -> str:
        prompt = self.prompts.get(self.rows[image_id]["prompt_id"])
        return "" if prompt is None else str(prompt.facets.get("object", ""))

    def _group(self, image_id: str) -> str:
        prompt = self.prompts.get(self.rows[image_id]["prompt_id"])
        facets = {} if prompt is None else prompt.facets
        named = facets.get("region") or next((v for v in facets.values() if v is not None), "")
        return str(named)

    def _outcomes(self, image_id: str) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        for protocol in PROTOCOLS:
            found = {line.outcome for line in self.lines.get(image_id, {}).get(protocol, ())}
            outcomes[protocol] = "wrong" if "wrong" in found else "right" if "right" in found else "unusable"
        return outcomes

    def tiles(self, number: int, share: int, embed_pixels: int) -> list[Evidence]:
        outcomes = {image_id: self._outcomes(image_id) for image_id in self.rows}
        groups: dict[Outcome, dict[tuple[str, str], list[str]]] = {outcome: {} for outcome in OUTCOMES}
        for image_id, of in outcomes.items():
            place = (self._group(image_id), self._object(image_id))
            groups[of["corrected"]].setdefault(place, []).append(image_id)
        order = {
            outcome: turns(
                [
                    sorted(groups[outcome][p], key=shuffled)
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
        name = self._object(image_id)
        return Evidence(
            run=number,
            image_id=image_id,
            asked=(prompt.text if prompt else "") or image_id,
            group=self._group(image_id),
            objects=(name,) if name else (),
            outcomes=outcomes,
            lines={p: self.lines.get(image_id, {}).get(p, [])[:LINES] for p in PROTOCOLS},
            source=source,
            missing=missing,
            note=row["note"] or "",
            neighbour=self._neighbour(image_id, embed_pixels),
        )

    def _neighbour(self, image_id: str, embed_pixels: int) -> Neighbour | None:
        if image_id not in self.nearest:
            return None
        real, distance = self.nearest[image_id]
        row = self.real.get(real)
        if row is None or row["path"] is None:
            return Neighbour(image_id=real, distance=distance, source=None, missing="known by its features alone")
        source, _, missing = picture_data(self.run, row, embed_pixels)
        return Neighbour(image_id=real, distance=distance, source=source, missing=missing)
