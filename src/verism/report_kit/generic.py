"""Sections that suit any suite: results, breakdowns, errors of the judge, images, and what the protocols change.

They are made from scores, verdicts, and what the suite says of itself; suites with more to show put them beside
sections of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from verism.records import FacetValue, Score
from verism.report_kit import tables
from verism.report_kit.adjustments import adjusted_by, kinds_of
from verism.report_kit.evidence import Evidence, Key, union
from verism.report_kit.figures import FigureByProtocol, figure, part
from verism.report_kit.gallery import GallerySettings, image_gallery
from verism.report_kit.plots import facet_bars, group_dots, interval_plot
from verism.report_kit.section import Section

__all__ = [
    "ResultSettings",
    "breakdown_section",
    "figures_part",
    "first_scores",
    "generic_sections",
    "group_section",
    "headline_rows",
    "judge_section",
    "method_section",
    "protocol_section",
    "results_section",
    "table_part",
]

NOTHING = Markup("")
FEW = 5  # images: the intervals of groups with fewer reach over most of the axis
BASELINE = "equal distributions or chance would give"


def generic_sections(evidence: Evidence, *, gallery: GallerySettings | None = None) -> list[Section]:
    """The page that suits any suite.

    Args:
        evidence: what the report is made of.
        gallery: what the suite knows better about its images.
    """
    result = (
        results_section(evidence),
        breakdown_section(evidence) if _in_columns(evidence) else group_section(evidence),
        judge_section(evidence),
        image_gallery(evidence, gallery),
        protocol_section(evidence),
    )
    return [section for section in result if section is not None]


def _in_columns(evidence: Evidence) -> bool:
    return all(p.layout.kind == "columns" for p in evidence.presentations)


def table_part(evidence: Evidence, rows: Mapping[str, Sequence[tables.ScoreRow]], caption: str) -> Markup:
    """A table of scores in its version for every protocol.

    Args:
        evidence: what the report is made of.
        rows: by protocol.
        caption: above it; the protocol is added.
    """
    return part(evidence, "table.html.j2", rows=rows, caption=caption)


def figures_part(
    evidence: Evidence, figures: Sequence[FigureByProtocol], *, css: str = "grid", level: int = 3
) -> Markup:
    """Figures beside each other, folded ones behind a summary.

    Args:
        evidence: what the report is made of.
        figures: in order.
        css: how they are laid out: ``grid``, ``grid wide``, ``grid maps``, ``flow`` or ``stack``.
        level: of the headings above them.
    """
    return part(evidence, "figures.html.j2", figures=figures, css=css, level=level)


# ------------------------------------------------------------------------------------------------------------- results
@dataclass(frozen=True, kw_only=True, eq=False)
class ResultSettings:
    """What a suite changes in the section of results.

    Attributes:
        chosen: says which scores the first table has; None: those of all images.
        beside: by end of a metric's name, what its scores say below those of the metric.
        order: places the rows of one metric; None: as the scores come.
        bound: of columns, a metric written below each value, and what it is: ``("accuracy_if_...", "if ...")``.
        note: how to read the table, after what holds for any.
        more: HTML below the table.
    """

    chosen: Callable[[Score], bool] | None = None
    beside: Mapping[str, str] | None = None
    order: Callable[[Key], int] | None = None
    bound: tuple[str, str] = ("", "")
    note: str = ""
    more: Markup = NOTHING


def results_section(evidence: Evidence, settings: ResultSettings | None = None) -> Section:
    """The first table: the few numbers that answer the suite's question, and behind a summary all others.

    Args:
        evidence: what the report is made of.
        settings: what the suite changes.
    """
    settings = settings or ResultSettings()
    values: dict[str, Any] = {"settings": settings}
    if _in_columns(evidence):
        table = tables.columns_of(evidence)
        kinds = [kinds_of(members) for members in evidence.every]
        body = part(
            evidence,
            "columns.html.j2",
            table=table,
            kinds=kinds,
            adjusted_by=adjusted_by,
            plots={p: _headline_plot(table, p) for p in evidence.protocols},
            mean_note=_mean_note(table),
            **values,
        )
    else:
        body = part(evidence, "results.html.j2", **_rows_of_results(evidence, settings), **values)
    return Section(title="Results", id="results", body=body, generic=True)


def _rows_of_results(evidence: Evidence, settings: ResultSettings) -> dict[str, Any]:
    """By protocol, rows of the first table, of all numbers over all images, and of single groups."""
    names = evidence.vocabulary

    def summary(s: Score) -> bool:
        return not names.is_detail(s) and names.is_summary(s)

    def answers(s: Score) -> bool:
        return summary(s) and evidence.is_headline(s) and not tables.companion_of(evidence, s)

    # A suite that says what belongs into the table has the rest elsewhere on the page.
    chosen = settings.chosen or (answers if any(answers(s) for of_run in evidence.scores for s in of_run) else summary)
    beside = tables.COMPANIONS if settings.beside is None else settings.beside
    tables_of: dict[str, dict[str, Sequence[tables.ScoreRow]]] = {"rows": {}, "others": {}, "by_group": {}}
    for p in evidence.protocols:
        first = tables.score_rows(evidence, p, chosen, beside=beside, order=settings.order)
        every = tables.score_rows(evidence, p, summary) if settings.chosen is None else []
        tables_of["rows"][p] = first
        tables_of["others"][p] = every if len(every) > len(first) else []
        tables_of["by_group"][p] = (
            tables.score_rows(evidence, p, lambda s: not names.is_detail(s) and not names.is_summary(s))
            if settings.chosen is None
            else []
        )
    return tables_of


def method_section(evidence: Evidence, reading: Markup = NOTHING) -> Section:
    """What the protocols do and what the metrics mean: for the end of the page.

    Args:
        evidence: what the report is made of.
        reading: HTML of the suite, on how its numbers come about.
    """
    body = part(evidence, "method.html.j2", reading=reading, glossary=_glossary(evidence))
    return Section(
        title="How these numbers are made",
        id="method",
        nav="Method",
        body=body,
        by_protocol=False,
        generic=not reading,
        place="method",
    )


def headline_rows(evidence: Evidence) -> Sequence[tables.ScoreRow]:
    """The few numbers that answer the suite's question, under the protocol to compare models with.

    Args:
        evidence: what the page is made of.
    """
    if not _in_columns(evidence):
        rows = _rows_of_results(evidence, ResultSettings())["rows"][evidence.main]
        # Of a suite whose headline metrics have groups alone, those of the first table.
        return rows or tables.score_rows(
            evidence,
            evidence.main,
            lambda s: evidence.is_headline(s) and any(tables.in_first_table(p, s) for p in evidence.presentations),
            beside=tables.COMPANIONS,
        )
    return tables.score_rows(evidence, evidence.main, first_scores(evidence))


def _glossary(evidence: Evidence) -> list[tuple[str, str, str]]:
    """Title, meaning and source of every metric that these runs have."""
    result = dict.fromkeys(s.metric for members in evidence.scores for s in members)
    specs = [spec for metric in result if (spec := evidence.vocabulary.spec(metric)) is not None]
    return [(spec.title, spec.meaning, spec.source) for spec in specs]


def _headline_plot(table: tables.Columns, protocol: str) -> Markup:
    names = table.evidence.names
    reference = table.reference[0] if len(table.reference) == 1 else ("", {})
    titles = dict(zip(table.columns, table.titles, strict=True))
    title = table.evidence.vocabulary.title(table.layout.metric)
    return interval_plot(
        rows=names,
        columns=table.titles,
        cells=[[table.cell(n, column, protocol) for column in table.columns] for n in range(len(names))],
        reference={titles[c]: v for c, v in reference[1].items()},
        reference_name=reference[0],
        label=f"{title} of every run by {table.evidence.vocabulary.facet_name(table.layout.facet)} with 95 % "
        f"intervals, protocol {protocol}; numbers: table above",
    )


def _mean_note(table: tables.Columns) -> str:
    """Which groups the mean is over, if it is not all of them."""
    left_out = [v for v in table.values if not any(v in members for members in table.mean_of)]
    if not left_out or not table.layout.mean:
        return ""
    name, facet = table.evidence.vocabulary.value_name, table.layout.facet
    inside = ", ".join(name(facet, v) for v in union(table.mean_of))
    others = ", ".join(name(facet, v) for v in left_out)
    return f"The mean is over {inside}; {others} is optional and not part of it."


# ---------------------------------------------------------------------------------------------------------- breakdowns
def group_section(evidence: Evidence) -> Section | None:
    """For every metric that is broken down by one facet, its values by group; None without any."""
    names = evidence.vocabulary
    facets: dict[tuple[str, str, tuple[tuple[str, FacetValue], ...]], None] = {}
    for members in evidence.scores:
        for s in members:
            facet, spec = names.level_facet(s), names.spec(s.metric)
            if facet is not None and (spec is None or spec.compare != "never"):
                facets.setdefault((s.metric, facet, _split(evidence, s)), None)
    figures = []
    for metric, facet, split in facets:
        form = "".join(f", {names.value_name(*item)}" for item in split)
        title = f"{names.title(metric)} by {names.facet_name(facet)}{form}"

        def draw(
            protocol: str,
            metric: str = metric,
            facet: str = facet,
            split: tuple[tuple[str, FacetValue], ...] = split,
            title: str = title,
        ) -> Markup | None:
            return _group_figure(evidence, metric, facet, split, f"{title}, protocol {protocol}", protocol)

        figures += figure(title, evidence.protocols, draw)
    if not figures:
        return None
    baselines = {spec.baseline for p in evidence.presentations for spec in p.metrics if spec.baseline}
    body = part(
        evidence,
        "groups.html.j2",
        figures=figures,
        dashed=any(s.metric in baselines for members in evidence.scores for s in members),
        p_values=any(s.unit == "p" for members in evidence.scores for s in members),
    )
    return Section(title="By group", id="groups", body=body, generic=True)


def _split(evidence: Evidence, score: Score) -> tuple[tuple[str, FacetValue], ...]:
    return tuple((k, v) for k, v in score.group.items() if k in evidence.vocabulary.split)


def _group_figure(
    evidence: Evidence,
    metric: str,
    facet: str,
    split: tuple[tuple[str, FacetValue], ...],
    label: str,
    protocol: str,
) -> Markup | None:
    names = evidence.vocabulary

    def owner(found: Sequence[Score], wanted: str) -> dict[str, Score]:
        return {
            names.value_name(facet, s.group[facet]): s
            for s in found
            if (s.metric, s.protocol) == (wanted, protocol)
            and names.level_facet(s) == facet
            and _split(evidence, s) == split
        }

    columns = [owner(result, metric) for result in evidence.scores]
    levels = union(columns)
    if len(levels) < 2:
        return None
    spec = names.spec(metric)
    known = [owner(result, spec.baseline) if spec and spec.baseline else {} for result in evidence.scores]
    unit = next(s.unit for column in columns for s in column.values())
    return _folding_few(
        levels,
        [[column.get(level) for column in columns] for level in levels],
        lambda shown, cells: group_dots(
            levels=shown,
            rows=evidence.names,
            cells=cells,
            baselines=[[k.get(level) for k in known] for level in shown],
            unit=names.unit(unit),
            baseline=BASELINE,
            label=label,
        ),
    )


def _folding_few(
    levels: Sequence[str],
    cells: Sequence[Sequence[Score | None]],
    draw: Callable[[Sequence[str], Sequence[Sequence[Score | None]]], Markup],
) -> Markup:
    """A figure of groups, those with fewer than ``FEW`` images in every run behind a summary.

    Args:
        levels: names of the groups.
        cells: scores, shape (groups, runs).
        draw: draws some of the groups.
    """

    def few(row: Sequence[Score | None]) -> bool:
        return all(s is None or 0 < s.n_used + s.n_unusable < FEW for s in row) and any(row)

    folded = [k for k, row in enumerate(cells) if few(row)]
    shown = [k for k in range(len(levels)) if k not in folded]
    figure = draw([levels[k] for k in shown], [cells[k] for k in shown]) if shown else NOTHING
    if not folded:
        return figure
    groups = f"{len(folded)} group{'' if len(folded) == 1 else 's'}"
    return Markup('{}<details class="few"><summary>{} of fewer than {} images</summary>{}</details>').format(
        figure, groups, FEW, draw([levels[k] for k in folded], [cells[k] for k in folded])
    )


def breakdown_section(evidence: Evidence) -> Section | None:
    """Of scores in columns: for every column, the metric by every other facet; None without any."""
    names, table = evidence.vocabulary, tables.columns_of(evidence)
    metric, main = table.layout.metric, table.layout.facet
    results = []
    for value in table.values:
        facets: dict[str, dict[FacetValue, None]] = {}
        for members in evidence.scores:
            for s in members:
                if s.metric == metric and len(s.group) == 2 and str(s.group.get(main)) == value:
                    other = next(name for name in s.group if name != main)
                    facets.setdefault(other, {}).setdefault(s.group[other], None)
        figures: list[FigureByProtocol] = []
        for facet, of_facet in facets.items():
            levels = sorted(of_facet, key=lambda v: (0, float(v), "") if isinstance(v, int | float) else (1, 0, str(v)))

            def draw(
                protocol: str, value: str = value, facet: str = facet, levels: Sequence[FacetValue] = levels
            ) -> Markup:
                title = f"{names.title(metric)} by {names.facet_name(facet)}"
                return _folding_few(
                    [names.value_name(facet, v).replace("_", " ") for v in levels],
                    [
                        [members.find(metric, protocol, {main: value, facet: v}) for members in evidence.lookups]
                        for v in levels
                    ],
                    lambda shown, cells: facet_bars(
                        levels=shown,
                        rows=evidence.names,
                        cells=cells,
                        label=f"{title}, {names.facet_name(main)} {names.value_name(main, value)}, protocol {protocol}",
                    ),
                )

            figures += figure(f"by {names.facet_name(facet)}", evidence.protocols, draw)
        if figures:
            results.append((names.value_name(main, value), figures))
    if not results:
        return None
    body = part(evidence, "breakdowns.html.j2", breakdowns=results)
    return Section(title="Breakdowns", id="breakdowns", body=body, generic=True)


# -------------------------------------------------------------------------------------------------- judges, protocols
def judge_section(evidence: Evidence) -> Section | None:
    """How judges err where the ground truth is known; None of suites that call nothing right or wrong."""
    if not any(pairing.right_or_wrong for p in evidence.presentations for pairing in p.pairings):
        return None
    rows = {p: tables.judge_errors(evidence, p) for p in evidence.protocols}
    known = {row.run for members in rows.values() for row in members}
    without = [n for n in range(len(evidence.runs)) if n not in known]
    body = part(evidence, "judge_errors.html.j2", rows=rows, any_rows=any(rows.values()), without=without)
    return Section(title="How far the judge can be trusted", id="judge", nav="Judge errors", body=body, generic=True)


def protocol_section(
    evidence: Evidence, chosen: Callable[[Score], bool] | None = None, *, intro: Markup | None = None
) -> Section | None:
    """What the choice of protocol changes; None where there is no choice.

    Args:
        evidence: what the report is made of.
        chosen: says which scores are compared; None: those of the first table.
        intro: HTML above the table.
    """
    if len(evidence.protocols) < 2:
        return None
    rows = tables.protocol_rows(evidence, chosen or first_scores(evidence))
    body = part(evidence, "protocols.html.j2", rows=rows, intro=intro or Markup(""))
    return Section(
        title="What the choice of protocol changes",
        id="protocols",
        nav="Protocols",
        body=body,
        by_protocol=False,
        generic=True,
        place="method",
    )


def first_scores(evidence: Evidence) -> Callable[[Score], bool]:
    """Scores of the first table: of columns, those of its cells; else of all images where there are such numbers.

    Args:
        evidence: what the page is made of.
    """
    names = evidence.vocabulary
    if _in_columns(evidence):
        layout = evidence.presentations[0].layout
        cells = ((layout.metric, {layout.facet}), (layout.mean, set[str]()))
        return lambda s: (s.metric, set(s.group)) in cells
    summaries = any(names.is_summary(s) and not names.is_detail(s) for members in evidence.scores for s in members)
    return lambda s: not names.is_detail(s) and names.is_summary(s) == summaries
