"""The images a report shows: a balanced sample, each with what was decided about it, boxes and reasons.

Of thousands of images a report can hold some hundred. They are drawn without regard to anything but what was decided:
those that are wrong (or stand out) and unusable ones have the larger share, because there is more to learn from them,
and within each outcome groups take turns. The draw is a function of the run alone, so a report made twice is the same.

Suites whose images belong together (pairs of terms, runs side by side) make ``Tile`` and ``Gallery`` themselves; all of
them are shown by the same template.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from markupsafe import Markup, escape

from verism.parquet import slices
from verism.records import DetectionNeed, FacetValue, Prompt, SegmentationNeed
from verism.report_kit.evidence import Evidence, union
from verism.report_kit.figures import part
from verism.report_kit.outcomes import within
from verism.report_kit.section import Section
from verism.report_kit.svg import GLYPH_WIDTH, trimmed
from verism.report_kit.words import UNDEFINED
from verism.store import TRUTH, Run

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "OUTCOMES",
    "Choice",
    "Gallery",
    "GallerySettings",
    "Line",
    "Outcome",
    "Shot",
    "Tile",
    "boxes_of",
    "collect",
    "even_shares",
    "gallery_section",
    "image_boxes",
    "image_data",
    "image_gallery",
    "pick",
    "shuffled",
    "turns",
]

Outcome = Literal["right", "wrong", "unusable"]
OUTCOMES: tuple[Outcome, ...] = ("wrong", "unusable", "right")
SHARES: Mapping[Outcome, float] = {"wrong": 0.5, "unusable": 0.2, "right": 0.3}
DECIDED: Mapping[Outcome, str] = {"wrong": "wrong", "unusable": "unusable", "right": "right"}
GRADED: Mapping[Outcome, str] = {"wrong": "stands out", "unusable": "unusable", "right": "unremarkable"}

NOTHING = Markup("")
DEFAULT_THRESHOLD = 0.5
MAX_BOXES = 30  # drawn per image; with more, nothing of the image would be seen
JPEG_QUALITY = 82
LOWEST = 0.1  # share of a similarity's values that counts as standing out
LINES = 6  # decisions shown per image and protocol
MOST_FILTERS, MOST_VALUES = 3, 200
WITHIN = ("prompt_id", "within")
WITHIN_ENDS = ("rule", "within", "low", "high")


# --------------------------------------------------------------------------------------------------------------------
# What is shown
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, eq=False)
class Shot:
    """One image of a tile.

    Attributes:
        image_id: within the run; empty where there is none.
        asked: its prompt.
        source: the image as a data URI, or None; then ``missing`` says in words why there is nothing to see.
        missing: why there is no image.
        note: what the run says about the image (how it was read, why it was refused).
        boxes: drawn over the image; None for none.
        seen: what the boxes are, in words, for those who do not see them.
        words: HTML below the image, where several images of a tile each have their own.
    """

    image_id: str
    asked: str
    source: str | None
    missing: str
    note: str
    boxes: Markup | None = None
    seen: str = ""
    words: Markup = NOTHING


@dataclass(frozen=True, kw_only=True, eq=False)
class Tile:
    """A tile of the gallery.

    Attributes:
        run: number of the run; None where the images are of several.
        asked: the prompt.
        shots: the images.
        outcomes: by protocol, what the tile can be filtered by first.
        facets: by name of a filter, the values that fit.
        classes: by protocol, the values of the filter that changes with the protocol.
        words: HTML below the images.
        meta: small print: group, ids.
    """

    run: int | None
    asked: str
    shots: tuple[Shot, ...]
    outcomes: Mapping[str, Sequence[str]]
    facets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    words: Markup = NOTHING
    meta: Sequence[str] = ()


@dataclass(frozen=True)
class Choice:
    """An entry of the first filter.

    Attributes:
        value: in ``Tile.outcomes``.
        name: as it is written.
        css: class of its colour.
    """

    value: str
    name: str
    css: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Gallery:
    """Tiles with their filters.

    Attributes:
        tiles: in order.
        intro: what is shown, and how it was chosen.
        outcomes: entries of the first filter.
        legend: of the first filter.
        filters: name and values of the others.
        classes: of the filter that changes with the protocol: groups of values.
        boxes: whether boxes can be switched off.
        key: HTML that explains boxes and colours.
        css: how tiles are laid out: empty, ``pairs``, ``couples`` or ``rows``.
        what: what a tile is, plural.
    """

    tiles: Sequence[Tile]
    intro: str
    outcomes: Sequence[Choice] = ()
    legend: str = "Verdict"
    filters: Sequence[tuple[str, Sequence[str]]] = ()
    classes: Sequence[tuple[str, Sequence[str]]] = ()
    boxes: bool = False
    key: Markup = NOTHING
    css: str = ""
    what: str = "images"


def gallery_section(evidence: Evidence, gallery: Gallery, *, title: str = "Images", generic: bool = False) -> Section:
    """The gallery as a section of the page.

    Args:
        evidence: what the report is made of.
        gallery: what it shows.
        title: of the section.
        generic: whether it can be made of any suite's runs.
    """
    n_images = sum(len(run.ids("images")) for run in evidence.runs)
    shown = sum(bool(shot.image_id) for tile in gallery.tiles for shot in tile.shots)
    body = part(evidence, "gallery.html.j2", gallery=gallery, n_shown=shown, n_images=n_images)
    return Section(title=title, id="gallery", nav="Images", body=body, generic=generic)


# --------------------------------------------------------------------------------------------------------------------
# Images of any suite, by what was decided about each
# --------------------------------------------------------------------------------------------------------------------
def _no_or_yes(rule: str) -> tuple[str, str]:
    del rule
    return "no", "yes"


def _labels(prompt: Prompt) -> Sequence[str]:
    return tuple(prompt.spec.get("labels", ()))


def calibrated_threshold(run: Run) -> float:
    """Confidence from which boxes are drawn: the detector's own calibrated one, or 0.5."""
    source = boxes_of(run)
    return float(run.manifest.scoring.thresholds.get(source[1] if source else "", DEFAULT_THRESHOLD))


@dataclass(frozen=True, kw_only=True)
class GallerySettings:
    """What a suite knows better than the kit.

    Attributes:
        filters: by name, the facets of prompts that it looks at; the first two also decide which groups take turns.
            None: the first facets of the prompts.
        within: facet within whose values the lowest tenth of a similarity stands out; empty: all images.
        answers: by rule, what 0 and 1 are called.
        labels: labels of the boxes that a prompt asks for.
        threshold: confidence from which boxes are drawn.
        intro: how the images were chosen, after how many there are; empty for what holds for any suite.
    """

    filters: Mapping[str, Sequence[str]] | None = None
    within: str = ""
    answers: Callable[[str], tuple[str, str]] = _no_or_yes
    labels: Callable[[Prompt], Sequence[str]] = _labels
    threshold: Callable[[Run], float] = calibrated_threshold
    intro: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One decision about an image.

    Attributes:
        rule: in words; empty where there is only one.
        shown: the value in words.
        reason: in words.
        outcome: of this decision.
        counts: whether the image's outcome rests on it.
        graded: whether the value is one on a scale.
    """

    rule: str
    shown: str
    reason: str
    outcome: Outcome
    counts: bool = True
    graded: bool = False


def image_gallery(evidence: Evidence, settings: GallerySettings | None = None) -> Section:
    """A sample of images with what was decided about each, for any suite.

    Args:
        evidence: what the report is made of.
        settings: what the suite knows better.
    """
    settings = settings or GallerySettings()
    filters = _filters(evidence) if settings.filters is None else settings.filters
    tiles = collect(evidence, settings)
    decided = any(pairing.right_or_wrong for p in evidence.presentations for pairing in p.pairings)
    names = DECIDED if decided else GRADED
    with_boxes = any(tile.shots[0].boxes is not None for tile in tiles)
    key = Markup("")
    if with_boxes:
        above = " or ".join(map(str, dict.fromkeys(settings.threshold(run) for run in evidence.runs)))
        key = Markup(
            '<span class="swatch wanted"></span>asked for <span class="swatch other"></span>not asked for; boxes above '
            "{}, the threshold of the {} protocol"
        ).format(above, evidence.main)
    results = {name: sorted(union(tile.facets.get(name, ()) for tile in tiles)) for name in filters}
    chosen = (
        "wrong and unusable ones first"
        if decided
        else "first those that stand out: a decision went against them, or they are in the lowest tenth of a similarity"
    )
    words = {o: "those that stand out" if names[o] == "stands out" else f"{names[o]} ones" for o in OUTCOMES}
    places = ", ".join(f"{SHARES[o]:.0%} {words[o]}" for o in OUTCOMES)
    intro = settings.intro or (
        f"{chosen} (by the {evidence.main} protocol). Of a large run this is a sample: {places}, where there are so "
        "many, spread over groups and drawn by a hash of the id. Shares of this gallery are not those of the run."
    )
    gallery = Gallery(
        tiles=tiles,
        intro=intro,
        outcomes=[Choice(o, names[o], o) for o in OUTCOMES],
        filters=[(name, values) for name, values in results.items() if len(values) > 1],
        boxes=with_boxes,
        key=key,
        css="pairs" if any("nearest" in tile.words for tile in tiles) else "",
    )
    return gallery_section(evidence, gallery, generic=True)


def _filters(evidence: Evidence) -> dict[str, Sequence[str]]:
    """The facets of prompts that tell images apart: that of the suite first."""
    values: dict[str, set[str]] = {}
    for run in evidence.runs:
        for prompt in run.prompts():
            for name, value in prompt.facets.items():
                if value is not None:
                    values.setdefault(name, set()).add(str(value))
    useful = [name for name, result in values.items() if 2 <= len(result) <= MOST_VALUES]
    useful.sort(key=lambda name: name != evidence.vocabulary.facet)
    return {evidence.vocabulary.facet_name(name): (name,) for name in useful[:MOST_FILTERS]}


def collect(evidence: Evidence, settings: GallerySettings) -> list[Tile]:
    """The sample of all runs: at most ``evidence.gallery`` images, by outcome under the first protocol.

    Args:
        evidence: what the report is made of.
        settings: what the suite knows better.
    """
    results = [_Images(evidence, number, settings) for number in range(len(evidence.runs))]
    tiles: list[tuple[int, Tile]] = []
    for images, share in zip(results, even_shares([i.n_images for i in results], evidence.gallery), strict=True):
        tiles += images.tiles(share)
    # Over all runs by outcome, then as they were drawn: images of the same outcome lie together.
    return [tile for _, tile in sorted(tiles, key=lambda pair: pair[0])]


class _Images:
    """The images of a run that a gallery may show, with what was decided about those that it does.

    All images are gone through block by block. Of each outcome and group, no more are remembered than the gallery has
    places; and the rows of an image are only read once it has one.
    """

    def __init__(self, evidence: Evidence, number: int, settings: GallerySettings) -> None:
        self.evidence, self.number, self.settings = evidence, number, settings
        self.run = evidence.runs[number]
        self.pairings = evidence.presentations[number].pairings
        self.filters = _filters(evidence) if settings.filters is None else settings.filters
        self.decisive = {pairing.rule for pairing in self.pairings if pairing.right_or_wrong}
        self.prompts = {p.prompt_id: p for p in self.run.prompts()}
        self.verdicts = self.run.scan_verdicts()
        self.ends = {} if self.decisive else self._lowest()
        self.rows: dict[str, dict[str, Any]] = {}
        self.reference: dict[str, dict[str, Any]] = {}
        self.nearest: dict[str, tuple[float, str]] = {}
        self.lines: dict[str, dict[str, list[Line]]] = {}
        self.n_images = 0
        self.order = self._draw(evidence.gallery)

    def _facets_of(self, prompt_id: str) -> Mapping[str, FacetValue]:
        prompt = self.prompts.get(prompt_id)
        return {} if prompt is None else prompt.facets

    def _facets(self, image_id: str) -> Mapping[str, FacetValue]:
        return self._facets_of(self.rows[image_id]["prompt_id"])

    def _within(self, prompt_id: str) -> str:
        return str(self._facets_of(prompt_id).get(self.settings.within, ""))

    # ------------------------------------------------------------------------------------------------- decisions
    def _of_rules(self, verdicts: pl.LazyFrame | None = None) -> pl.LazyFrame:
        """The verdicts that the gallery rests on, of all or of some."""
        import polars as pl

        every = self.verdicts if verdicts is None else verdicts
        rows = every.filter(pl.col("prompt_id") != "")  # others are of real images
        return rows.filter(pl.col("rule").is_in(sorted(self.decisive))) if self.decisive else rows

    def _decisions(self, image_ids: Sequence[str]) -> dict[str, dict[str, list[Line]]]:
        import polars as pl

        subset = self._of_rules().filter(pl.col("image_id").is_in(list(image_ids))).collect()
        where = {pairing.rule: pairing.where for pairing in self.pairings}
        lines: dict[str, dict[str, list[Line]]] = {}
        columns = subset.select("image_id", "protocol", "rule", "value", "reason", "detail")
        for image_id, protocol, rule, value, reason, result in columns.iter_rows():
            detail = _detail(result)
            if detail.get("nearest") is not None and protocol == self.evidence.main:
                near = (float(detail["distance"]), str(detail["nearest"]))
                self.nearest[image_id] = min(near, self.nearest.get(image_id, near))
            end = self.ends.get((protocol, rule, self._within(self.rows[image_id]["prompt_id"])))
            lines.setdefault(image_id, {}).setdefault(protocol, []).append(
                Line(
                    rule="" if len(self.decisive) == 1 else rule.replace("_", " "),
                    shown=self._shown(rule, value, end is not None),
                    reason=reason or "",
                    outcome=_outcome(value, end),
                    counts=all(str(detail.get(k)) == v for k, v in where.get(rule, {}).items()),
                    graded=end is not None,
                )
            )
        for by in lines.values():
            for members in by.values():
                members.sort(key=_place)
        return lines

    def _shown(self, rule: str, value: float | None, graded: bool) -> str:
        if len(self.decisive) == 1:
            return DECIDED[_outcome(value, None)]
        if value is None:
            return UNDEFINED
        words = ("wrong", "right") if rule in self.decisive else self.settings.answers(rule)
        return f"{value:.3f}" if graded else words[int(value >= 0.5)]

    def _withins(self) -> pl.LazyFrame:
        """By prompt, the group within whose values a similarity stands out."""
        import polars as pl

        ids = list(self.prompts)
        return pl.LazyFrame(
            {"prompt_id": ids, "within": [self._within(i) for i in ids]}, schema=dict.fromkeys(WITHIN, pl.String)
        )

    def _lowest(self) -> dict[tuple[str, str, str], tuple[float, float]]:
        """Up to which value a similarity stands out, and its highest: by protocol, rule and group."""
        import polars as pl

        known = self._of_rules().filter(pl.col("value").is_not_null())
        is_graded = pl.col("value").is_not_null() & ~pl.col("value").is_in([0.0, 1.0])
        graded = (
            self._of_rules(rows).filter(is_graded).select("protocol", "rule").unique().collect()
            for rows in slices(self.verdicts)
        )
        rules = pl.concat(graded).unique()
        ends: dict[tuple[str, str, str], tuple[float, float]] = {}
        for protocol, rule in rules.select("protocol", "rule").sort("protocol", "rule").iter_rows():
            values = (
                known.filter((pl.col("protocol") == protocol) & (pl.col("rule") == rule))
                .join(self._withins(), on="prompt_id", how="left")
                .select(pl.col("within").fill_null(""), "value")
                .collect(engine="streaming")
            )
            for (group,), of_group in values.group_by("within"):
                numbers = of_group["value"].to_numpy()
                # The highest never stands out: where most images tie, the lowest tenth would be nearly all of them.
                ends[protocol, rule, str(group)] = (float(np.quantile(numbers, LOWEST)), float(numbers.max()))
        return ends

    def _main_outcomes(self, images: pl.DataFrame) -> Iterator[tuple[str, str, Outcome, bool]]:
        """Of each image of a block: id, prompt, outcome under the first protocol, and whether it was refused.

        It is refused if a yes or no decision went against it: that says more than a low similarity.
        """
        import polars as pl

        main, names = self.evidence.main, ["image_id", "prompt_id", "rule", "value", "detail"]
        block = within(images["image_id"])
        rows = self._of_rules().filter((pl.col("protocol") == main) & block).select(names).collect()
        conditions = {pairing.rule: pairing.where for pairing in self.pairings if pairing.where}
        if conditions:
            counts = [
                all(str(_detail(text).get(k)) == v for k, v in conditions.get(rule, {}).items())
                for rule, text in rows.select("rule", "detail").iter_rows()
            ]
            rows = rows.filter(pl.Series(counts, dtype=pl.Boolean))
        of_main = [(rule, within, *end) for (protocol, rule, within), end in self.ends.items() if protocol == main]
        types = (pl.String, pl.String, pl.Float64, pl.Float64)
        ends = pl.DataFrame(of_main, schema=dict(zip(WITHIN_ENDS, types, strict=True)), orient="row")
        rows = rows.join(self._withins().collect(), on="prompt_id", how="left").with_columns(
            pl.col("within").fill_null("")
        )
        rows = rows.join(ends, on=["rule", "within"], how="left")
        value, graded = pl.col("value").fill_nan(-np.inf), pl.col("low").is_not_null()
        low = (value <= pl.col("low")) & (value < pl.col("high"))
        wrong = pl.when(graded).then(low).otherwise(value < 0.5)
        by_rule = rows.group_by("image_id", "rule").agg(
            wrong.any().alias("any_wrong"),
            (~wrong).any().alias("any_right"),
            (wrong & ~graded).any().alias("plain_wrong"),
            (~wrong & ~graded).any().alias("plain_right"),
        )
        by_image = by_rule.group_by("image_id").agg(
            (pl.col("any_wrong") & ~pl.col("any_right")).any().alias("wrong"),
            pl.col("any_right").any().alias("right"),
            (pl.col("plain_wrong") & ~pl.col("plain_right")).any().alias("refused"),
        )
        found = images.select("image_id", "prompt_id").join(by_image, on="image_id", how="left", maintain_order="left")
        for image_id, prompt_id, is_wrong, is_right, is_refused in found.iter_rows():
            yield image_id, prompt_id, "wrong" if is_wrong else "right" if is_right else "unusable", bool(is_refused)

    def _counted(self, image_id: str, protocol: str) -> dict[str, list[Line]]:
        """Decisions that count, by rule."""
        by_rule: dict[str, list[Line]] = {}
        for line in self.lines.get(image_id, {}).get(protocol, ()):
            if line.counts:
                by_rule.setdefault(line.rule, []).append(line)
        return by_rule

    def outcome(self, image_id: str, protocol: str) -> Outcome:
        """Wrong if a rule went against the image; of several decisions of one rule, if none was for it."""
        results = [
            _of_rule([line.outcome for line in members]) for members in self._counted(image_id, protocol).values()
        ]
        return "wrong" if "wrong" in results else "right" if "right" in results else "unusable"

    # ------------------------------------------------------------------------------------------------ which images
    def _draw(self, most: int) -> dict[Outcome, list[str]]:
        """Images by outcome, each list so that every beginning of it is spread over the first groups, then others.

        Args:
            most: how many of each list are wanted; of a single group no more are remembered either.
        """
        if most == 0:
            self.n_images = len(self.run.ids("images"))
            return {outcome: [] for outcome in OUTCOMES}
        facets = [names[0] for names in self.filters.values()]
        groups: dict[Outcome, dict[str, dict[str, list[tuple[bool, str, str]]]]] = {o: {} for o in OUTCOMES}
        with self.run.blocks({}, columns=["image_id", "prompt_id"]) as blocks:
            for images, _ in blocks:
                self.n_images += images.height
                for image_id, prompt_id, outcome, refused in self._main_outcomes(images) if images.height else ():
                    subset = self._facets_of(prompt_id)
                    first, second = (str(subset.get(facets[k])) if k < len(facets) else "" for k in (0, 1))
                    drawn = groups[outcome].setdefault(first, {}).setdefault(second, [])
                    drawn.append((not refused, shuffled(image_id), image_id))
                    if len(drawn) > 2 * most:
                        drawn.sort()
                        del drawn[most:]
        return {
            outcome: turns(
                [
                    spread(
                        name,
                        {part: [image_id for *_, image_id in drawn] for part, drawn in by.items()},
                        {image_id for drawn in by.values() for plain, _, image_id in drawn if not plain}.__contains__,
                    )
                    for name, by in result.items()
                ]
            )
            for outcome, result in groups.items()
        }

    def tiles(self, share: int) -> Iterator[tuple[int, Tile]]:
        """The images that are shown, with the place of their outcome."""
        chosen = pick(self.order, share)
        self.rows = {row["image_id"]: row for row in self.run.read("images", keys=chosen).iter_rows(named=True)}
        self.lines = self._decisions(chosen)
        near = sorted({real for _, real in self.nearest.values()})
        if near:
            real = self.run.read("reference", keys=near)
            self.reference = {row["image_id"]: row for row in real.iter_rows(named=True)}
        boxes = _boxes(self.run, chosen, self.settings.threshold(self.run))
        for image_id in chosen:
            outcomes = {p: self.outcome(image_id, p) for p in self.evidence.protocols}
            place = OUTCOMES.index(outcomes[self.evidence.main])
            yield place, self._tile(image_id, outcomes, boxes.get(image_id, []))

    def _tile(self, image_id: str, outcomes: Mapping[str, Outcome], boxes: Sequence[_Box]) -> Tile:
        row = self.rows[image_id]
        prompt = self.prompts.get(row["prompt_id"])
        source, size, missing = image_data(self.run, row, self.evidence.embed_pixels)
        labels = self.settings.labels(prompt) if prompt else ()
        drawn = [(*corners, text, not labels or label in labels) for corners, text, label in boxes]
        facets = self._facets(image_id)
        asked = (prompt.text if prompt else "") or image_id
        lines = {p: self.lines.get(image_id, {}).get(p, []) for p in self.evidence.protocols}
        names = self.evidence.vocabulary
        filters = {
            name: list(dict.fromkeys(names.value_name(f, facets[f]) for f in members if facets.get(f) is not None))
            for name, members in self.filters.items()
        }
        first = next(iter(filters.values()), [])
        split = [names.value_name(f, facets[f]) for f in sorted(names.split) if facets.get(f) is not None]
        return Tile(
            run=self.number,
            asked=asked,
            shots=(
                Shot(
                    image_id=image_id,
                    asked=asked,
                    source=source,
                    missing=missing,
                    note=row["note"] or "",
                    boxes=image_boxes(width=row["width"] or size[0], height=row["height"] or size[1], boxes=drawn)
                    if source
                    else None,
                    seen=f" Boxes: {', '.join(text for _, text, _ in boxes) or 'none'}." if boxes else "",
                ),
            ),
            outcomes={p: [outcome] for p, outcome in outcomes.items()},
            facets=filters,
            words=part(
                self.evidence,
                "decisions.html.j2",
                lines={p: _most_telling(result) for p, result in lines.items()},
                more={p: max(0, len(result) - LINES) for p, result in lines.items()},
                neighbour=self._neighbour(image_id),
            ),
            meta=[*dict.fromkeys([*first[:1], *split]), image_id],
        )

    def _neighbour(self, image_id: str) -> dict[str, Any] | None:
        """The real image nearest to a generated one, if it was looked for."""
        if image_id not in self.nearest:
            return None
        distance, real = self.nearest[image_id]
        row = self.reference.get(real)
        source, missing = None, "known by its features alone"
        if row is not None and row["path"] is not None:
            source, _, missing = image_data(self.run, row, self.evidence.embed_pixels)
        return {"image_id": real, "distance": distance, "source": source, "missing": missing}


def _detail(text: str | None) -> dict[str, Any]:
    """What a decision rests on, as a verdict keeps it."""
    detail = json.loads(text) if text else {}
    return detail if isinstance(detail, dict) else {}


def _outcome(value: float | None, end: tuple[float, float] | None) -> Outcome:
    if value is None:
        return "unusable"
    if end is None:
        return "right" if value >= 0.5 else "wrong"
    return "wrong" if value <= end[0] and value < end[1] else "right"


def _of_rule(found: Sequence[Outcome]) -> Outcome:
    return "right" if "right" in found else "wrong" if "wrong" in found else "unusable"


def _place(line: Line) -> tuple[bool, list[tuple[int, str]], str]:
    """Where a decision stands: those that count first, then by name, ``question 2`` before ``question 10``."""
    words = [(int(word), "") if word.isdecimal() else (0, word) for word in line.rule.split()]
    return not line.counts, words, line.reason


def _most_telling(lines: Sequence[Line]) -> list[Line]:
    """As many decisions as are shown, in their order; of more, those that went against the image stay."""
    kept = sorted(range(len(lines)), key=lambda k: (lines[k].outcome != "wrong", k))[:LINES]
    return [lines[k] for k in sorted(kept)]


# --------------------------------------------------------------------------------------------------------------------
# The draw
# --------------------------------------------------------------------------------------------------------------------
def spread(name: str, by_group: Mapping[str, Sequence[str]], first: Callable[[str], bool] | None = None) -> list[str]:
    """Images of one group, its parts in turn. Their order is shuffled, or short galleries would hold airplanes only.

    Args:
        name: of the group.
        by_group: images by part.
        first: says which images come first in their part.
    """
    names = sorted(by_group, key=lambda part: shuffled(f"{name}/{part}"))
    chosen = first or (lambda _: False)
    return turns([sorted(by_group[part], key=lambda i: (not chosen(i), shuffled(i))) for part in names])


def shuffled(text: str) -> str:
    """Sorting by this is a shuffle that is the same everywhere; equal ids of two runs keep equal places."""
    return hashlib.sha256(text.encode()).hexdigest()


def turns(queues: Sequence[Sequence[str]]) -> list[str]:
    """One of each in turn until all are empty."""
    longest = max(map(len, queues), default=0)
    return [queue[k] for k in range(longest) for queue in queues if k < len(queue)]


def even_shares(sizes: Sequence[int], total: int) -> list[int]:
    """``total`` dealt out evenly, none getting more than it can use."""
    shares = [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda k: (sizes[k], k))  # the smallest first: what they leave, others get
    for index, k in enumerate(order):
        left = total - sum(shares)
        shares[k] = min(sizes[k], -(-left // (len(order) - index)))
    return shares


def pick(order: Mapping[Outcome, Sequence[str]], total: int) -> list[str]:
    """The first images of every outcome, by ``SHARES``; what one outcome cannot use goes to the others in turn."""
    wanted = {outcome: min(math.ceil(SHARES[outcome] * total), len(order[outcome])) for outcome in OUTCOMES}
    for outcome in reversed(OUTCOMES):  # rounding up may have promised an image or two too many
        wanted[outcome] -= min(wanted[outcome], max(0, sum(wanted.values()) - total))
    for outcome in OUTCOMES:
        wanted[outcome] += min(len(order[outcome]) - wanted[outcome], total - sum(wanted.values()))
    return [image for outcome in OUTCOMES for image in order[outcome][: wanted[outcome]]]


# --------------------------------------------------------------------------------------------------------------------
# Images and boxes
# --------------------------------------------------------------------------------------------------------------------
_Box = tuple[tuple[float, float, float, float], str, str | None]


def boxes_of(run: Run) -> tuple[str, str] | None:
    """The table and the judge whose boxes the verdicts of a run rest on; the ground truth if nobody else looked.

    A run may hold several judges' observations: it names the one that it was scored with.
    """
    for need in (DetectionNeed, SegmentationNeed):
        names = run.judges(need.table)
        named = run.judge(need.role)
        if named in names:
            return need.table, str(named)
        if names:
            return need.table, names[0]
        if run.has_truth(need.table):
            return need.table, TRUTH
    return None


def _boxes(run: Run, chosen: Sequence[str], threshold: float) -> dict[str, list[_Box]]:
    """Boxes above the threshold per image, most confident first: corners, text, label."""
    import polars as pl

    source = boxes_of(run)
    if source is None or not chosen:
        return {}
    table, judge = source
    number = "query" if table == DetectionNeed.table else "segment"
    rows = (
        run.read(table, judge, keys=chosen)
        .filter((pl.col(number) >= 0) & (pl.col("score") > threshold))
        .sort("image_id", "score", number, descending=[False, True, False])
        .select("image_id", "x0", "y0", "x1", "y1", "label", "raw_label", "color", "score")
    )
    results: dict[str, list[_Box]] = {}
    for image_id, x0, y0, x1, y1, label, raw, color, score in rows.iter_rows():
        kept = results.setdefault(image_id, [])
        if len(kept) < MAX_BOXES and None not in (x0, y0, x1, y1):
            answer = " ".join(filter(None, (color, label or raw or "other object")))
            kept.append(((x0, y0, x1, y1), f"{answer} {score:.2f}", label))
    return results


def image_boxes(
    *, width: int, height: int, boxes: Sequence[tuple[float, float, float, float, str, bool]]
) -> Markup | None:
    """Boxes to lay over an image, in its own pixels; None if there is nothing to draw.

    Args:
        width: of the image.
        height: of the image.
        boxes: ``(x0, y0, x1, y1, text, wanted)`` in pixels; ``wanted`` says whether the prompt asks for such an object.
    """
    if not boxes or width < 1 or height < 1:
        return None
    size = max(width, height) / 20
    outlines, tags = [], []
    for x0, y0, x1, y1, words, wanted in boxes:
        if not all(map(math.isfinite, (x0, y0, x1, y1))):
            continue
        a, b = min(max(x0, 0.0), width), min(max(y0, 0.0), height)
        c, d = min(max(x1, a), width), min(max(y1, b), height)
        tag_width = len(words) * size * GLYPH_WIDTH + size * 0.5
        # The tag sits on the box, or inside it at the upper edge of the image; never beyond the right edge.
        tag_x = max(0.0, min(a, width - tag_width))
        tag_y = b - size * 1.25 if b >= size * 1.25 else b
        css = "wanted" if wanted else "other"
        outlines.append(
            f'<rect class="outline {css}" x="{trimmed(a)}" y="{trimmed(b)}" '
            f'width="{trimmed(c - a)}" height="{trimmed(d - b)}"/>'
        )
        tags.append(
            f'<g class="tag {css}"><rect x="{trimmed(tag_x)}" y="{trimmed(tag_y)}" width="{trimmed(tag_width)}" '
            f'height="{trimmed(size * 1.25)}"/>'
            f'<text x="{trimmed(tag_x + size * 0.25)}" y="{trimmed(tag_y + size * 0.94)}">{escape(words)}</text></g>'
        )
    parts = [*outlines, *reversed(tags)]  # where tags overlap, the most confident one stays readable
    return Markup(
        f'<svg class="boxes" viewBox="0 0 {width} {height}" style="font-size:{trimmed(size)}px" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )


def image_data(run: Run, row: Mapping[str, Any], embed_pixels: int) -> tuple[str | None, tuple[int, int], str]:
    """An image as a data URI, its size, and why there is none.

    Args:
        run: that it is of.
        row: of the table ``images`` or ``reference``.
        embed_pixels: longer side at most, in pixels.
    """
    if row["path"] is None:
        return None, (1, 1), row["state"]
    try:
        read = run.load_image(row)
    except ValueError:  # no file can have this name
        return None, (1, 1), f"{row['state']}; its file name is not valid here"
    if read.pixels is not None and row["sha256"] not in (None, read.sha256):
        return None, (1, 1), f"{row['state']} when the run was made; its file was changed since, and is not shown"
    if read.pixels is None:
        now = f"{row['state']} when the run was made, now {read.state}" if row["state"] == "ok" else row["state"]
        return None, (1, 1), f"{now}: {read.note}" if read.note else now
    from PIL import Image as PilImage

    image = PilImage.fromarray(read.pixels)
    size = image.size
    image.thumbnail((embed_pixels, embed_pixels), PilImage.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=JPEG_QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii"), size, ""
