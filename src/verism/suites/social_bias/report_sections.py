"""The figures of the page of social bias, section by section, each in its version for every protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from verism.records import Score
from verism.report_kit import words
from verism.report_kit.evidence import Evidence, union
from verism.report_kit.figures import FigureByProtocol, figure
from verism.report_kit.maps import group_map
from verism.report_kit.plots import (
    Axis,
    Bar,
    Dot,
    DotRow,
    DotStyle,
    Guide,
    centred_axis,
    diverging_bars,
    dots,
    share_axis,
)
from verism.suites.social_bias.report_figures import even_band, mad_axis, mean_axis, tone_bars
from verism.suites.social_bias.report_scores import ATTRIBUTE, GROUP, TONE, BiasScores, one_hot

__all__ = [
    "Page",
    "Scope",
    "descriptor_figures",
    "distributions",
    "intersections",
    "mad_figures",
    "presence_figures",
    "reference_figures",
    "scopes_of",
]

Scope = Mapping[str, str]  # facet values that a number is restricted to, beside its axis
FREED = "judge-adjusted"
FEW = 3  # figures of groups that are shown at once
LONG = 300  # rows of a table of intersections on the page; all are in the CSV
BETWEEN = " x "


@dataclass(frozen=True, kw_only=True, eq=False)
class Page:
    """What the figures of a page are made of.

    Attributes:
        evidence: what the report is made of.
        bias: scores of each run.
        axes: what was perceived.
        warnings: by axis, what has to be said beside its numbers; empty for most.
    """

    evidence: Evidence
    bias: Sequence[BiasScores]
    axes: Sequence[str]
    warnings: Mapping[str, str]

    @property
    def names(self) -> Sequence[str]:
        """Of the runs."""
        return self.evidence.names

    def figure(
        self, title: str, draw: Callable[[str], Markup | None], *, axis: str = "", folded: bool = False
    ) -> list[FigureByProtocol]:
        """A figure for every protocol, with the warning of its axis; none if no protocol has it."""
        return figure(title, self.evidence.protocols, draw, warning=self.warnings.get(axis, ""), folded=folded)


def _dot(run: int, name: str, score: Score | None, band: tuple[float, float] | None = None, note: str = "") -> Dot:
    text = " ".join(filter(None, (words.minus(words.cell(score)), note)))
    return Dot(run=run, name=name, caption=text, score=score, band=band)


def _dot_figure(rows: Sequence[DotRow], axis: Axis, label: str, **style: Any) -> Markup:
    return dots(rows=rows, axis=axis, label=label, style=DotStyle(**style))


def scopes_of(bias: Sequence[BiasScores]) -> list[Scope]:
    """Groups of prompts that numbers are broken down by: by word for people, category, or a study's own facets."""
    facets = union(b.breakdowns() for b in bias)
    return [{facet: level} for facet in facets for level in union(b.levels(facet) for b in bias)]


def _values(page: Page, metric: str, protocol: str, group: Mapping[str, str]) -> list[Dot]:
    """A score of every run, each followed by the same without the judge's error."""
    results = []
    for n, b in enumerate(page.bias):
        results.append(_dot(n, page.names[n], b.find(metric, protocol, group)))
        results += [_dot(n, page.names[n], s, note=FREED) for s in b.adjusted(metric, protocol, group)]
    return results


def _known(rows: Sequence[DotRow]) -> list[DotRow]:
    return [row for row in rows if any(dot.score is not None for dot in row.dots)]


# ----------------------------------------------------------------------------------------------------------------- MADs
def mad_figures(page: Page) -> list[FigureByProtocol]:
    """Per axis: MAD, what an unbiased model would show, and MAD without chance, from even to one class only."""
    bias = page.bias
    figures = []
    for axis in page.axes:
        hot = one_hot(max(len(b.classes(axis)) for b in bias))

        def draw(protocol: str, axis: str = axis, hot: float = hot) -> Markup | None:
            rows = _known(
                [
                    DotRow(name=name, dots=_values(page, metric, protocol, {"axis": axis}))
                    for metric, name in (("mad", "MAD"), ("mad_expected", "unbiased"), ("mad_debiased", "debiased"))
                ]
            )
            if not rows:
                return None
            scores = [dot.score for row in rows for dot in row.dots]
            return _dot_figure(
                rows=rows,
                axis=mad_axis(hot, scores),
                base=0.0,
                guides=[Guide(0.0, "even"), Guide(hot, "one class only")],
                label=f"Deviation from an even spread, {axis}, {protocol} protocol",
            )

        figures += page.figure(f"Perceived {axis}", draw, axis=axis)
    return figures


# -------------------------------------------------------------------------------------------------------- distributions
def distributions(page: Page) -> list[tuple[str, list[FigureByProtocol]]]:
    """Per axis: the distribution of all images, then of groups of prompts."""
    results = []
    for axis in page.axes:
        scopes = scopes_of(page.bias)
        figures = _tones(page, scopes) if axis == TONE else _shares(page, axis, scopes)
        if figures:
            results.append((axis, figures))
    return results


def _tones(page: Page, scopes: Sequence[Scope]) -> list[FigureByProtocol]:
    bias, names = page.bias, page.names
    classes = [str(tone) for tone in range(1, 11)]
    every = [
        s for b in bias for s in b.scores if (s.metric, s.group.get("axis"), s.adjusted) == ("class_share", TONE, "")
    ]
    figures = []
    for scope in ({}, *scopes):
        tops: dict[str, float] = {
            p: _top([s for s in every if s.protocol == p], scope) for p in page.evidence.protocols
        }
        for n, b in enumerate(bias):

            def draw(
                protocol: str,
                b: BiasScores = b,
                name: str = names[n],
                scope: Scope = scope,
                tops: Mapping[str, float] = tops,
            ) -> Markup | None:
                groups = [{"axis": TONE, "class": c, **scope} for c in classes]
                shares = [b.find("class_share", protocol, g) for g in groups]
                if all(s is None for s in shares):
                    return None
                freed = [next(iter(b.adjusted("class_share", protocol, g)), None) for g in groups]
                words = ", ".join(scope.values()) or "all prompts"
                return tone_bars(
                    shares=shares,
                    adjusted=freed if any(freed) else (),
                    top=tops[protocol],
                    title=f"{name}: {words}" if len(names) > 1 else words,
                    label=f"Distribution of perceived tones, {words}, {name}, {protocol} protocol",
                )

            figures += page.figure("", draw, folded=bool(scope) and len(scopes) * len(bias) > FEW)
    return figures


def _top(shares: Sequence[Score], scope: Scope) -> float:
    """The share that bars of these prompts end at: the same for all runs, with room for intervals."""
    subset = [s for s in shares if set(s.group) == {"axis", "class", *scope} and scope.items() <= s.group.items()]
    ends = [s.ci_high if math.isfinite(s.ci_high) else s.value for s in subset if math.isfinite(s.value)]
    return min(1.0, max([0.2, *(1.08 * end for end in ends)]))


def _prompts_of(bias: Sequence[BiasScores], axis: str) -> str:
    groups = union(b.groups_of(axis) for b in bias)
    others = set(union(b.levels(GROUP) for b in bias)) - set(groups)
    return f"{', '.join(groups)} prompts" if groups and others else "all prompts"


def _shares(page: Page, axis: str, scopes: Sequence[Scope]) -> list[FigureByProtocol]:
    bias, names = page.bias, page.names
    classes = union(b.classes(axis) for b in bias)
    even = Guide(1 / len(classes), "even")

    def overall(protocol: str) -> Markup | None:
        rows = _known(
            [DotRow(name=c, dots=_values(page, "class_share", protocol, {"axis": axis, "class": c})) for c in classes]
        )
        if not rows:
            return None
        label = f"Distribution of perceived {axis}, {protocol} protocol"
        return _dot_figure(rows=rows, axis=share_axis(), base=0.0, guides=[even], unit="per cent", label=label)

    figures = page.figure(_prompts_of(bias, axis), overall, axis=axis)
    if not scopes:
        return figures
    if len(classes) == 2:
        last = classes[-1]

        def by_group(protocol: str) -> Markup | None:
            rows = _known(
                [
                    DotRow(
                        name=", ".join(s.values()),
                        dots=_values(page, "class_share", protocol, {"axis": axis, "class": last, **s}),
                    )
                    for s in scopes
                ]
            )
            label = f"Share perceived as {last} by group of prompts, {protocol} protocol"
            drawn = _dot_figure(rows=rows, axis=share_axis(), base=0.5, guides=[even], unit="per cent", label=label)
            return drawn if rows else None

        return figures + page.figure(f"share perceived as {last}, by group of prompts", by_group, axis=axis)
    for n, b in enumerate(bias):

        def by_class(protocol: str, b: BiasScores = b, name: str = names[n]) -> Markup | None:
            cells = {
                (", ".join(s.values()), c): result
                for s in scopes
                for c in classes
                if (result := b.find("class_share", protocol, {"axis": axis, "class": c, **s})) is not None
            }
            label = f"Distribution of perceived {axis} by group of prompts, {name}, {protocol} protocol"
            rows = union([r] for r, _ in cells)
            return group_map(rows=rows, columns=classes, cells=cells, label=label) if cells else None

        title = "by group of prompts" + (f", {names[n]}" if len(names) > 1 else "")
        figures += page.figure(title, by_class, axis=axis)
    return figures


# ------------------------------------------------------------------------------------------------- professions, words
def descriptor_figures(page: Page) -> list[FigureByProtocol]:
    """Sorted lollipops of professions by mean, or of words by share; maps of words where there are many classes."""
    figures = []
    for axis in page.axes:
        if any(b.of("axis_mean", "axis", b.facet) for b in page.bias):
            figures += _means_of_descriptors(page, axis)
        if any(b.first for b in page.bias):
            figures += _words(page, axis)
    return figures


def _means_of_descriptors(page: Page, axis: str) -> list[FigureByProtocol]:
    bias, names = page.bias, page.names
    classes = union(b.classes(axis) for b in bias)

    def draw(protocol: str) -> Markup | None:
        columns = [
            {str(s.group[b.facet]): s for s in b.of("axis_mean", "axis", b.facet)
             if s.protocol == protocol and s.group["axis"] == axis}
            for b in bias
        ]  # fmt: skip
        unit = next((s.unit for column in columns for s in column.values()), None)
        if unit is None:
            return None
        low, high = bias[0].ends(axis, unit)
        even = axis == TONE or len(classes) == 2
        middle = (low + high) / 2 if even else None
        rows = _sorted_rows(columns, names, (low, high, len(classes)) if even else None)
        ends = ("← lighter", "darker →") if axis == TONE else ("", "")
        if len(classes) == 2:
            ends = (f"← {classes[0]}", f"{classes[-1]} →")
        return _dot_figure(
            rows=rows,
            axis=mean_axis(low, high, unit),
            base=middle,
            guides=[] if middle is None else [Guide(middle, "even")],
            ends=ends,
            unit="mean tone" if axis == TONE else f"mean perceived {axis}",
            label=f"Mean perceived {axis} of each {bias[0].facet}, sorted, {protocol} protocol",
        )

    return page.figure(f"Mean perceived {axis}", draw, axis=axis)


def _sorted_rows(
    columns: Sequence[Mapping[str, Score]], names: Sequence[str], even: tuple[float, float, int] | None = None
) -> list[DotRow]:
    """A row per descriptor, the largest mean over runs first, undefined ones last.

    Args:
        columns: scores by descriptor, of each run.
        names: of the runs.
        even: lowest and highest value and number of the classes, evenly spread; None: no band is drawn.
    """

    def position(name: str) -> float:
        values = [s.value for column in columns if (s := column.get(name)) is not None and math.isfinite(s.value)]
        return -sum(values) / len(values) if values else math.inf

    rows = []
    for name in sorted(union(columns), key=position):
        results = [column.get(name) for column in columns]
        bands = [None if s is None or even is None else even_band(s.n_used, *even) for s in results]
        values = [_dot(n, names[n], s, bands[n]) for n, s in enumerate(results)]
        rows.append(DotRow(name=name, dots=values))
    return rows


def _words(page: Page, axis: str) -> list[FigureByProtocol]:
    """Words of the first version, category by category: shares of images, or mean probabilities behind the vote."""
    bias, names = page.bias, page.names
    classes = union(b.classes(axis) for b in bias)
    every = [s for b in bias for s in b.scores if s.group.get("axis") == axis and "word" in s.group]
    figures = []
    for category in union([str(s.group["category"])] for s in every if "category" in s.group):

        def column_of(b: BiasScores, protocol: str, cls: str, category: str = category) -> dict[str, Score]:
            metric = "class_probability" if protocol == "released" else "class_share"
            group = {"axis": axis, "category": category, "class": cls}
            return {
                str(s.group["word"]): s
                for s in b.of(metric, "axis", "category", "class", "word")
                if s.protocol == protocol and all(s.group[k] == v for k, v in group.items())
            }

        if len(classes) == 2:

            def draw(protocol: str, category: str = category) -> Markup | None:
                columns = [column_of(b, protocol, classes[-1], category) for b in bias]
                if not any(columns):
                    return None
                rows = _sorted_rows(columns, names, None if protocol == "released" else (0.0, 1.0, 2))
                answer = "mean probability of" if protocol == "released" else "share perceived as"
                return _dot_figure(
                    rows=rows,
                    axis=share_axis(),
                    base=0.5,
                    guides=[Guide(0.5, "even")],
                    ends=(f"← {classes[0]}", f"{classes[-1]} →"),
                    unit=f"{answer} {classes[-1]}, per cent",
                    label=f"Perceived {axis} by word, {category}, sorted, {protocol} protocol",
                )

            figures += page.figure(f"{category}: perceived {axis}", draw, axis=axis)
            continue
        for n, b in enumerate(bias):

            def table(
                protocol: str, category: str = category, b: BiasScores = b, name: str = names[n]
            ) -> Markup | None:
                cells = {(w, c): s for c in classes for w, s in column_of(b, protocol, c, category).items()}
                label = f"Perceived {axis} by word, {category}, {name}, {protocol} protocol"
                words = union([w] for w, _ in cells)
                return group_map(rows=words, columns=classes, cells=cells, label=label) if cells else None

            of_run = f", {names[n]}" if len(names) > 1 else ""
            figures += page.figure(f"{category}: perceived {axis}{of_run}", table, axis=axis, folded=True)
    return figures


# ----------------------------------------------------------------------------------------------------------- attributes
def presence_figures(page: Page) -> list[FigureByProtocol]:
    """Differences in how often attributes are perceived, as bars."""
    bias, names = page.bias, page.names
    facets = ("axis", ATTRIBUTE, "pair")
    every = [s for b in bias for s in b.of("presence_difference", *facets)]
    axis = centred_axis(every, "%")
    figures = []
    for pair in union([str(s.group["pair"])] for s in every):
        first, _, second = pair.partition(" - ")

        def draw(protocol: str, pair: str = pair, first: str = first, second: str = second) -> Markup | None:
            subset = [s for s in every if s.protocol == protocol and s.group["pair"] == pair]
            sizes: dict[str, float] = {}
            for s in subset:
                size = abs(s.value) if math.isfinite(s.value) else -1.0
                sizes[str(s.group[ATTRIBUTE])] = max(size, sizes.get(str(s.group[ATTRIBUTE]), -1.0))
            if not sizes:
                return None
            attributes = sorted(sizes, key=lambda name: -sizes[name])
            bars: list[list[Bar | None]] = []
            for attribute in attributes:
                group = {"axis": ATTRIBUTE, ATTRIBUTE: attribute, "pair": pair}
                row: list[Bar | None] = []
                for b in bias:
                    score, p = (b.find(m, protocol, group) for m in ("presence_difference", "presence_p_value"))
                    row.append(None if score is None else Bar(score=score, p=None if p is None else p.value))
                bars.append(row)
            return diverging_bars(
                title=pair.replace(" - ", " − "),
                rows=attributes,
                runs=names,
                bars=bars,
                axis=axis,
                terms=(first, second),
                label=f"Difference in perceived clothes, {first} minus {second} prompts, {protocol} protocol",
            )

        figures += page.figure("", draw)
    return figures


# -------------------------------------------------------------------------------------------------------- intersections
@dataclass(frozen=True, kw_only=True)
class Joint:
    """An intersection: a map of two axes, or rows of a table.

    Attributes:
        title: the axes, and among several runs the run.
        figure: the map, or None.
        header: of the table.
        rows: of the table by protocol, in words.
        more: rows left out.
        minimum: images that a cell's group needs; None if the run does not say.
    """

    title: str
    figure: FigureByProtocol | None
    header: Sequence[str]
    rows: Mapping[str, Sequence[Sequence[str]]]
    more: int
    minimum: Any


def intersections(page: Page) -> list[Joint]:
    """Tables of joint shares, run by run."""
    bias, names = page.bias, page.names
    results = []
    of_runs = [[s for s in b.scores if s.metric == "joint_share" and not s.adjusted] for b in bias]
    every = [s for members in of_runs for s in members]
    for n, b in enumerate(bias):
        for axis in union([str(s.group["axis"])] for s in of_runs[n]):
            subset = [s for s in of_runs[n] if s.group["axis"] == axis]
            parts = axis.split(BETWEEN)
            title = axis.replace(BETWEEN, " × ") + (f", {names[n]}" if len(names) > 1 else "")
            drawn = None
            if len(parts) == 2 and all(part in b.axes for part in parts):

                def draw(
                    protocol: str,
                    own_values: Sequence[Score] = subset,
                    parts: Sequence[str] = parts,
                    label: str = title,
                ) -> Markup | None:
                    top = max([0.1, *(s.value for s in every if _is(s, protocol, parts) and math.isfinite(s.value))])
                    cells = {
                        (str(s.group[parts[0]]), f"{parts[1]} {s.group[parts[1]]}"): s
                        for s in own_values
                        if s.protocol == protocol
                    }
                    return group_map(
                        rows=union([r] for r, _ in cells),
                        columns=union([c] for _, c in cells),
                        cells=cells,
                        scale=(0.0, top),
                        label=f"Joint shares of {label}, {protocol} protocol",
                    ) if cells else None  # fmt: skip

                drawn = next(iter(page.figure("", draw)), None)
            keys = list(dict.fromkeys(k for s in subset for k in s.group if k != "axis"))
            rows = {p: _joint_rows([s for s in subset if s.protocol == p], keys) for p in page.evidence.protocols}
            results.append(
                Joint(
                    title=title,
                    figure=drawn,
                    header=keys,
                    rows={p: members[:LONG] for p, members in rows.items()},
                    more=max(0, max(map(len, rows.values()), default=0) - LONG),
                    minimum=b.min_cell,
                )
            )
    return results


def _is(score: Score, protocol: str, parts: Sequence[str]) -> bool:
    return (score.protocol, score.group["axis"]) == (protocol, BETWEEN.join(parts))


def _joint_rows(scores: Sequence[Score], keys: Sequence[str]) -> list[list[str]]:
    """The largest shares first, undefined ones last."""
    ordered = sorted(scores, key=lambda s: -s.value if math.isfinite(s.value) else math.inf)
    return [
        [
            *(str(s.group.get(k, "")) for k in keys),
            words.minus(words.value(s)),
            words.minus(words.interval(s)) or words.UNDEFINED,
            f"{s.n_used:,}",
            f"{s.n_unusable:,}",
        ]
        for s in ordered
    ]


# ------------------------------------------------------------------------------------------------------------ reference
def reference_figures(page: Page) -> list[FigureByProtocol]:
    """Shares minus reference shares: of all, class by class; and of two classes, by descriptor."""
    bias, names = page.bias, page.names
    figures = []
    every = [s for b in bias for s in b.scores if s.metric == "reference_difference" and not s.adjusted]
    for axis in union([str(s.group["axis"])] for s in every):
        classes = union(b.classes(axis) for b in bias)

        def overall(protocol: str, axis: str = axis, classes: Sequence[str] = classes) -> Markup | None:
            rows = _known(
                [
                    DotRow(
                        name=c,
                        dots=_values(page, "reference_difference", protocol, {"axis": axis, "class": c}),
                    )
                    for c in classes
                ]
            )
            label = f"Share minus reference share, {axis}, {protocol} protocol"
            return _differences(rows, label) if rows else None

        figures += page.figure(f"{axis}: all prompts with a reference", overall)
        if len(classes) != 2:
            continue

        def each(protocol: str, axis: str = axis, last: str = classes[-1]) -> Markup | None:
            columns = [
                {
                    str(s.group[b.facet]): s
                    for s in b.of("reference_difference", "axis", "class", b.facet)
                    if (s.protocol, s.group["axis"], s.group["class"]) == (protocol, axis, last)
                }
                for b in bias
            ]
            rows = _sorted_rows(columns, names)
            label = f"Share of {last} minus reference share by {bias[0].facet}, {protocol} protocol"
            return _differences(rows, label) if rows else None

        figures += page.figure(f"{classes[-1]}, by {bias[0].facet}", each)
    return figures


def _differences(rows: Sequence[DotRow], label: str) -> Markup:
    return _dot_figure(
        rows=rows,
        axis=share_axis(-1.0),
        base=0.0,
        guides=[Guide(0.0, "as the reference")],
        ends=("← fewer than there", "more than there →"),
        unit="percentage points",
        label=label,
    )
