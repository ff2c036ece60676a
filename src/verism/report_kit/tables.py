"""Scores of several runs as rows that can be compared: for pages, papers (Markdown), spreadsheets (CSV), programs
(JSON) and terminals.

Numbers are only looked up and written here; they were computed when the run was scored. The suites' ``Layout``
gives their arrangement, their ``MetricSpec`` their titles.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verism.characters import visible
from verism.errors import UsageError
from verism.files import csv_text
from verism.records import Score
from verism.report_kit import words
from verism.report_kit.adjustments import adjusted_by, kinds_of
from verism.report_kit.evidence import Evidence, Key, RunDifference, shares_page, union
from verism.report_kit.plots import LEVEL
from verism.report_kit.words import UNDEFINED
from verism.specs import Layout, Presentation
from verism.store import Run, score_records

__all__ = [
    "COMPANIONS",
    "MEAN",
    "Cell",
    "Columns",
    "JudgeErrors",
    "ProtocolRow",
    "ScoreRow",
    "columns_of",
    "companion_of",
    "csv_table",
    "difference_words",
    "in_first_table",
    "json_report",
    "judge_errors",
    "latex",
    "latex_table",
    "markdown_table",
    "protocol_rows",
    "score_rows",
    "sharing",
    "terminal_table",
]

MEAN = "mean"  # name of the column of the mean
# By end of a metric's name, what it says of the metric without it: written beside that, not in rows of their own.
COMPANIONS = {"_by_chance": "by chance", "_debiased": "debiased", "_p_value": "p"}
ROWS_NOTE = "Value [95 % interval] (number of answers). More detail: verism report RUN, or --csv."
ROWS_CAPTION = "Value, 95 % interval and, in brackets, number of answers."
JUDGE_METRICS = ("judge_false_accept", "judge_false_reject", "true_accuracy")


# ------------------------------------------------------------------------------------------------------ rows of scores
@dataclass(frozen=True, kw_only=True)
class Cell:
    """A score as a table shows it.

    Attributes:
        value: in words.
        interval: in words; empty without one.
        counts: how many images it rests on, and which group was found.
        beside: further numbers about it, in words.
        adjusted: the same with the judge's error taken out: by which truth, value, interval.
        marks: numbers of the reasons why it cannot be held against the first run's (``Evidence.reasons``).
        tested: its difference to the first run's and the p-value, in words; empty where they were not compared.
        differs: whether that p-value is below 0.05.
    """

    value: str = UNDEFINED
    interval: str = ""
    counts: str = ""
    beside: str = ""
    adjusted: tuple[tuple[str, str, str], ...] = ()
    marks: tuple[int, ...] = ()
    tested: str = ""
    differs: bool = False


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """A metric and group, with a cell per run.

    Attributes:
        key: what it is of.
        metric: the metric's title, with features and numbers of images where they matter.
        better: ``higher``, ``lower``, or empty.
        group: in words.
        unit: as written.
        cells: one per run.
    """

    key: Key
    metric: str
    better: str
    group: str
    unit: str
    cells: Sequence[Cell]


def cell_of(evidence: Evidence, run: int, score: Score | None, beside: str = "", *, adjusted: bool = False) -> Cell:
    """A score as a cell.

    Args:
        evidence: what the report is made of.
        run: number of the score's run.
        score: as judged; None for none.
        beside: further numbers about it, in words.
        adjusted: whether the same without the judge's error is shown below it.
    """
    if score is None:
        return Cell()
    used = f"{score.n_used:,} used" if words.counts(score) else ""
    if used and evidence.vocabulary.is_of_answers(score.metric):
        used = words.counts(score, of_answers=True)
    elif used and score.n_unusable:
        used += f" · {score.n_unusable:,} unusable"
    answered = evidence.answered(run, score)
    freed = evidence.adjusted(run, score) if adjusted else []
    return Cell(
        value=words.minus(words.value(score)),
        interval=words.minus(words.interval(score)),
        counts=" · ".join(filter(None, (evidence.vocabulary.found_group(score), used, answered))),
        beside=beside,
        adjusted=tuple((s.adjusted, words.minus(words.value(s)), words.minus(words.interval(s))) for s in freed),
        marks=evidence.marks(run, score),
        tested=difference_words(evidence.tested(run, score)),
        differs=(test := evidence.tested(run, score)) is not None and test.p < LEVEL,
    )


def difference_words(test: RunDifference | None) -> str:
    """A difference to the baseline and its p-value in words: ``+3.1 [0.2, 6.0], p = 0.038``; empty for none.

    Args:
        test: the comparison.
    """
    if test is None or math.isnan(test.difference):
        return ""
    ends = [words.signed(end, test.unit) for end in (test.ci_low, test.ci_high) if not math.isnan(end)]
    p = words.number(test.p, "p")
    p_value = "" if math.isnan(test.p) else f"p {p}" if p.startswith("<") else f"p = {p}"
    interval = f" [{', '.join(ends)}]" if ends else ""
    return ", ".join(filter(None, (words.signed(test.difference, test.unit) + interval, p_value)))


def score_rows(
    evidence: Evidence,
    protocol: str,
    chosen: Callable[[Score], bool],
    *,
    beside: Mapping[str, str] | None = None,
    order: Callable[[Key], int] | None = None,
    adjusted: bool = False,
) -> list[ScoreRow]:
    """Some scores as rows: those of one metric together.

    Args:
        evidence: what the report is made of.
        protocol: of the scores.
        chosen: says whether a score has a row.
        beside: by end of a metric's name, what scores of the same group and such a metric say about it, in words.
        order: places rows of one metric; None: as the scores come.
        adjusted: whether cells also hold the score with the judge's error taken out.
    """
    names = evidence.vocabulary
    ends = dict(beside or {})
    columns = evidence.columns(protocol)
    keys = [key for column in columns for key, s in column.items() if chosen(s)]
    rows = []
    for key in _ordered(names.by_metric(keys), order):
        results = [column.get(key) for column in columns]
        one = next(s for s in results if s is not None)
        cells = []
        for n, score in enumerate(results):
            more = [(label, columns[n].get((key[0] + end, key[1]))) for end, label in ends.items()]
            text = " · ".join(f"{label}\u00a0{words.value(s)}" for label, s in more if s is not None)
            cells.append(cell_of(evidence, n, score, text, adjusted=adjusted))
        rows.append(
            ScoreRow(
                key=key,
                metric=evidence.label(one),
                better=_better(evidence, one),
                group=names.group_name(key) + names.caveat(key[1]),
                unit=names.unit(one.unit),
                cells=cells,
            )
        )
    return rows


def _ordered(keys: Sequence[Key], order: Callable[[Key], int] | None) -> list[Key]:
    """Rows of each metric as ``order`` places them; metrics stay where they are."""
    if order is None:
        return list(keys)
    metrics = {metric: n for n, metric in enumerate(dict.fromkeys(metric for metric, _ in keys))}
    return sorted(keys, key=lambda key: (metrics[key[0]], order(key)))


def _better(evidence: Evidence, score: Score) -> str:
    """The better direction, as the metric's spec says, or the score itself without a spec."""
    spec = evidence.vocabulary.spec(score.metric)
    if spec is not None:
        return spec.better or ""
    return {True: "higher", False: "lower", None: ""}[score.higher_is_better]


@dataclass(frozen=True, kw_only=True)
class ProtocolRow:
    """A score under several protocols.

    Attributes:
        run: number of the run.
        metric: the metric's title.
        group: in words.
        values: by protocol.
        deltas: by protocol but the main one: how far it is from that.
    """

    run: int
    metric: str
    group: str
    values: Mapping[str, str]
    deltas: Mapping[str, str]


def protocol_rows(evidence: Evidence, chosen: Callable[[Score], bool]) -> list[ProtocolRow]:
    """Where scores were made under several protocols: their values, and differences to the first protocol.

    Args:
        evidence: what the report is made of.
        chosen: says whether a score has a row.
    """
    names = evidence.vocabulary
    rows = []
    for number, members in enumerate(evidence.scores):
        values: dict[Key, dict[str, Score]] = {}
        for s in filter(chosen, members):
            values.setdefault(names.key_of(s), {})[s.protocol] = s
        for key, by in values.items():
            if len(by) > 1:
                rows.append(
                    ProtocolRow(
                        run=number,
                        metric=names.title(key[0]),
                        group=names.group_name(key) + names.caveat(key[1]),
                        values={p: words.minus(words.value(by.get(p))) for p in evidence.protocols},
                        deltas={
                            p: words.delta(by.get(p), by.get(evidence.main))
                            for p in evidence.protocols
                            if p != evidence.main
                        },
                    )
                )
    return rows


def companion_of(evidence: Evidence, score: Score) -> str:
    """Name of the metric beside whose value a score is written, if these runs have it; empty for most.

    Args:
        evidence: what the report is made of.
        score: any score.
    """
    metric = next((score.metric.removesuffix(end) for end in COMPANIONS if score.metric.endswith(end)), "")
    return metric if metric and any(s.metric == metric for members in evidence.scores for s in members) else ""


def in_first_table(presentation: Presentation, score: Score) -> bool:
    """Whether a suite's first table in text has a score.

    Args:
        presentation: what the suite says of itself.
        score: a score of a run of it.
    """
    layout = presentation.layout
    if not layout.rows:
        headline = {spec.name + end for spec in presentation.metrics if spec.headline for end in ("", *COMPANIONS)}
        return not set(score.group) & set(layout.detail) and (not headline or score.metric in headline)
    return any(
        score.metric == row.metric
        and set(score.group) == set(row.facets)
        and not any(str(score.group.get(facet)) == value for facet, value in row.leave_out.items())
        for row in layout.rows
    )


# ---------------------------------------------------------------------------------------------------------- the columns
@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """A row for each run, a column for each value of a facet, then the mean.

    Attributes:
        evidence: what it was made from.
        layout: metric, facet and mean.
        values: values of the facet, as scores have them.
        titles: of the columns.
        reference: rows (label, value by column) of what needs no skill; one if all runs have the same, else one per
            run. A value is missing where the run does not give it.
        mean_of: per run, the values that its mean is over.
    """

    evidence: Evidence
    layout: Layout
    values: tuple[str, ...]
    titles: tuple[str, ...]
    reference: tuple[tuple[str, Mapping[str, float]], ...]
    mean_of: tuple[tuple[str, ...], ...]

    def cell(self, run: int, column: str, protocol: str, adjusted: str = "") -> Score | None:
        """The score of a run in a column (a value of the facet, or ``MEAN``)."""
        metric, group = (self.layout.mean, {}) if column == MEAN else (self.layout.metric, {self.layout.facet: column})
        return self.evidence.lookups[run].find(metric, protocol, group, adjusted)

    @property
    def columns(self) -> tuple[str, ...]:
        """The facet's values, then ``MEAN`` if the suite has such a mean."""
        return (*self.values, *([MEAN] if self.layout.mean else []))


def columns_of(evidence: Evidence) -> Columns:
    """The table of columns of runs whose suites lay their scores out so."""
    layout = evidence.presentations[0].layout
    results = [
        [str(s.group[layout.facet]) for s in members.of(layout.metric, layout.facet)] for members in evidence.lookups
    ]
    values = tuple(union(results))
    names = evidence.vocabulary
    mean_of = tuple(
        _of_mean(p, list(dict.fromkeys(entry))) for p, entry in zip(evidence.presentations, results, strict=True)
    )
    expected = [_reference(evidence, n, layout, mean_of[n]) for n in range(len(evidence.runs))]
    label = names.title(layout.reference) if layout.reference else ""
    reference: tuple[tuple[str, Mapping[str, float]], ...]
    merged = {column: value for e in expected for column, value in e.items()}
    if all(merged[column] == value for e in expected for column, value in e.items()):
        reference = ((label, merged),) if merged else ()
    else:
        reference = tuple((f"{label}, prompts of {n}", e) for n, e in zip(evidence.names, expected) if e)
    titles = (*(names.value_name(layout.facet, v) for v in values), *([MEAN] if layout.mean else []))
    return Columns(evidence=evidence, layout=layout, values=values, titles=titles, reference=reference, mean_of=mean_of)


def _of_mean(presentation: Presentation, values: Sequence[str]) -> tuple[str, ...]:
    """The values that a suite's mean is over; others are scored but not part of it."""
    published = _published(presentation)
    return tuple(v for v in values if not published or v in published)


def _published(presentation: Presentation) -> tuple[str, ...]:
    """The values that a suite names for its mean; empty for all."""
    layout = presentation.layout
    groups = [p.groups for p in presentation.pairings if (p.metric, p.mean) == (layout.metric, layout.mean)]
    return next(filter(None, groups), ())


def _reference(evidence: Evidence, run: int, layout: Layout, mean_of: Sequence[str]) -> dict[str, float]:
    if not layout.reference:
        return {}
    scores = [s for s in evidence.lookups[run].of(layout.reference, layout.facet) if s.protocol == evidence.main]
    values = {str(s.group[layout.facet]): s.value for s in scores}
    complete = set(values) >= {*mean_of, *_published(evidence.presentations[run])}
    if mean_of and layout.mean and complete:  # as the mean itself, which a run of some of the groups has not
        values[MEAN] = math.fsum(values[v] for v in mean_of) / len(mean_of)
    return values


# ------------------------------------------------------------------------------------------------ errors of the judges
@dataclass(frozen=True, kw_only=True)
class JudgeErrors:
    """How a judge errs on the images of one group.

    Attributes:
        run: number of the run.
        group: in words.
        errors: false accepts, false rejects, true accuracy.
        measured: as judged.
        gap: measured minus true, in words.
    """

    run: int
    group: str
    errors: Sequence[Score | None]
    measured: Score | None
    gap: str


def judge_errors(evidence: Evidence, protocol: str) -> list[JudgeErrors]:
    """Errors of judges where the ground truth is known, by run and group.

    Args:
        evidence: what the report is made of.
        protocol: of the scores.
    """
    rows = []
    for number, members in enumerate(evidence.scores):
        groups = list(
            dict.fromkeys(
                tuple(s.group.items()) for s in members if s.metric in JUDGE_METRICS and s.protocol == protocol
            )
        )
        metrics = [
            q.metric for q in evidence.presentations[number].pairings if q.right_or_wrong
        ]  # what the judge measured
        for group in groups:
            errors = [evidence.lookups[number].find(m, protocol, dict(group)) for m in JUDGE_METRICS]
            measured = next(
                (s for m in metrics if (s := evidence.lookups[number].find(m, protocol, dict(group))) is not None), None
            )
            gap = words.delta(measured, errors[2])
            name = evidence.vocabulary.group_name(("", group))
            rows.append(JudgeErrors(run=number, group=name, errors=errors, measured=measured, gap=gap))
    return rows


# --------------------------------------------------------------------------------------------------------------------
# Tables as text
# --------------------------------------------------------------------------------------------------------------------
def _text_evidence(
    runs: Sequence[Run], presentations: Sequence[Presentation] | None, protocol: str
) -> tuple[Evidence, str]:
    """What a table of text is made from, and its protocol.

    Raises:
        UsageError: no runs, runs of suites that have no table in common, or an unknown protocol.
    """
    evidence = Evidence.of(runs, presentations, gallery=0)
    if not shares_page(evidence.presentations):
        suites = " and ".join(union([p.info.name] for p in evidence.presentations))
        raise UsageError(f"runs of {suites} have no table in common; give them one by one, or ask for --csv or --json")
    chosen = protocol or evidence.main
    if chosen not in evidence.protocols:
        raise UsageError(f"unknown protocol {protocol!r}; these runs have {', '.join(evidence.protocols) or 'none'}")
    return evidence, chosen


def _column_rows(table: Columns, protocol: str) -> tuple[list[str], list[list[str]]]:
    """Header and body as text; the last column says how many images were used and unusable."""
    evidence = table.evidence
    header = ["run", *table.values, *([MEAN] if table.layout.mean else []), "used / unusable"]
    body = []
    for n, name in enumerate(evidence.names):
        for kind in ("", *kinds_of(evidence.every[n])):
            cells = {c: table.cell(n, c, protocol, kind) for c in table.columns}
            if kind and not any(cells.values()):
                continue
            single = [score for c, score in cells.items() if score is not None and c in table.values]
            counted = single or [score for score in cells.values() if score is not None]  # the mean alone
            used = f"{sum(s.n_used for s in counted)} / {sum(s.n_unusable for s in counted)}" if counted else UNDEFINED
            body.append([name + adjusted_by(kind), *(_marked(evidence, n, s) for s in cells.values()), used])
    for label, values in table.reference:
        body.append([label, *(words.percent(values.get(c)) for c in table.columns), UNDEFINED])
    return header, body


def _marked(evidence: Evidence, run: int, score: Score | None, text: str | None = None) -> str:
    """A score in words (by default value and interval), and the marks of why it cannot be compared."""
    marks = "".join(f"[{number}]" for number in evidence.marks(run, score))
    plain = f"{words.value(score)} {words.interval(score)}".rstrip() if text is None else text
    return f"{plain} {marks}" if marks else plain


def _mark_notes(evidence: Evidence, body: Sequence[Sequence[str]]) -> list[str]:
    """The marks that a table bears, explained."""
    marks = {number for row in body for cell in row for number in re.findall(r"\[(\d+)\]", cell)}
    return [
        f"[{number}] not comparable with {evidence.names[0]}: {reason.text}"
        for number, reason in enumerate(evidence.reasons, 1)
        if str(number) in marks
    ]


def _metric_rows(
    evidence: Evidence, protocol: str, *, full: bool = False, titles: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Header and body of a row for each metric and group; adjusted numbers have a row of their own below.

    Metrics have their titles, or the names that commands take.
    """
    names = evidence.vocabulary
    columns = [
        {
            (names.key_of(s), s.adjusted): s
            for s in members
            if s.protocol == protocol
            and (not names.is_detail(s) if full else in_first_table(evidence.presentations[n], s))
        }
        for n, members in enumerate(evidence.every)
    ]
    if not full and not any(columns):  # none of the headline metrics was measured
        return _metric_rows(evidence, protocol, full=True, titles=titles)
    order = names.by_metric(key for column in columns for key, _ in column)
    listed = [row.metric for p in evidence.presentations for row in p.layout.rows]
    order.sort(key=lambda key: listed.index(key[0]) if key[0] in listed else len(listed))
    kinds = ["", *sorted({kind for column in columns for _, kind in column if kind})]
    keys = [(key, kind) for key in order for kind in kinds if any((key, kind) in column for column in columns)]
    if not keys and any(evidence.every):
        raise UsageError(f"these runs have no scores under the protocol {protocol}")
    body = []
    for key, kind in keys:
        scores = [column.get((key, kind)) for column in columns]
        one = next(s for s in scores if s is not None)
        unit = "%" if one.unit == "share" else one.unit
        results = [
            _marked(
                evidence,
                n,
                s,
                words.cell(
                    s,
                    "" if s is None else names.found_group(s),
                    evidence.answered(n, s),
                    of_answers=names.is_of_answers(key[0]),
                ),
            )
            for n, s in enumerate(scores)
        ]
        body.append(
            [
                evidence.label(one, None if titles else one.metric) + adjusted_by(kind),
                names.group_name(key) + names.caveat(key[1]),
                unit,
                *results,
            ]
        )
    return ["metric", "group", "unit", *(evidence.names if len(evidence.runs) > 1 else ["value"])], body


def _text_table(evidence: Evidence, protocol: str, *, titles: bool) -> tuple[list[str], list[list[str]], int, str]:
    """Header, body, how many columns are words, and how to read it."""
    suites = ", ".join(union([p.info.name] for p in evidence.presentations))
    if evidence.presentations[0].layout.kind == "rows":
        header, body = _metric_rows(evidence, protocol, titles=titles)
        return header, body, 3, f"Suite {suites}, protocol {protocol}. {ROWS_NOTE}"
    table = columns_of(evidence)
    header, body = _column_rows(table, protocol)
    title = evidence.vocabulary.title(table.layout.metric)
    note = (
        f"{title[:1].upper()}{title[1:]} in per cent with 95 % intervals clustered by prompt; suite {suites}, "
        f"protocol {protocol}. Unusable images are not part of the values."
    )
    if any(kinds_of(members) for members in evidence.every):
        note += " Adjusted for judge error: the report and adjustments.json of the run say how."
    return header, body, 1, note


def markdown_table(
    runs: Sequence[Run], presentations: Sequence[Presentation] | None = None, *, protocol: str = ""
) -> str:
    """The first table in Markdown (GitHub's tables), with a caption that says how to read it.

    Args:
        runs: scored runs of one suite.
        presentations: of the suite of each run; None: as the runs keep them.
        protocol: of the scores; empty for the one to compare models with.

    Raises:
        UsageError: no runs, runs of suites that have no table in common, or an unknown protocol.
        VerismError: a run has no scores yet.
    """
    evidence, chosen = _text_evidence(runs, presentations, protocol)
    header, body, n_words, note = _text_table(evidence, chosen, titles=True)
    lines = [
        "| " + " | ".join(map(_markdown, header)) + " |",
        "|" + "|".join([*[":--"] * n_words, *["--:"] * (len(header) - n_words)]) + "|",
        *("| " + " | ".join([*map(_markdown, row[:n_words]), *row[n_words:]]) + " |" for row in body),
        "",
        _markdown(note),
        *(line for text in _mark_notes(evidence, body) for line in ("", _markdown(text))),
    ]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    """Text as Markdown that shows it as it is. Underscores within words are left alone: they mean nothing there."""
    text = " ".join(_printable(text).split())
    return re.sub(r"[\\|`*<>\[\]&#~]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", text)


def terminal_table(
    runs: Sequence[Run],
    presentations: Sequence[Presentation] | None = None,
    *,
    protocol: str = "",
    encoding: str = "ascii",
) -> str:
    """The first table in aligned columns; control characters in names do not reach the terminal.

    Args:
        runs: scored runs of one suite.
        presentations: of the suite of each run; None: as the runs keep them.
        protocol: of the scores; empty for the one to compare models with.
        encoding: of the terminal; what it does not have is written as escapes.

    Raises:
        UsageError: no runs, runs of suites that have no table in common, or an unknown protocol.
        VerismError: a run has no scores yet.
    """
    evidence, chosen = _text_evidence(runs, presentations, protocol)
    header, body, n_words, note = _text_table(evidence, chosen, titles=False)
    if evidence.presentations[0].layout.kind == "rows" and not _has_accents(encoding):
        body = [[_unaccented(label), *row] for label, *row in body]
    rows = [[_encodable(cell, encoding) for cell in row] for row in (header, *body)]
    widths = [max(_columns(row[k]) for row in rows) for k in range(len(header))]

    def line(row: Sequence[str]) -> str:
        gaps = [" " * (width - _columns(cell)) for cell, width in zip(row, widths, strict=True)]
        aligned = [c + gap if k < n_words else gap + c for k, (c, gap) in enumerate(zip(row, gaps, strict=True))]
        return "  ".join(aligned).rstrip()

    lines = [line(rows[0]), "  ".join("-" * width for width in widths), *map(line, rows[1:])]
    lines += [_encodable(text, encoding) for text in (note, *_mark_notes(evidence, body))]
    return "\n".join(lines) + "\n"


def latex_table(runs: Sequence[Run], presentations: Sequence[Presentation] | None = None, *, protocol: str = "") -> str:
    """The first table in LaTeX, with the rules of the package booktabs, intervals, numbers of images, and a caption.

    Args:
        runs: scored runs of one suite.
        presentations: of the suite of each run; None: as the runs keep them.
        protocol: of the scores; empty for the one to compare models with.

    Raises:
        UsageError: no runs, runs of suites that have no table in common, or an unknown protocol.
        VerismError: a run has no scores yet.
    """
    evidence, chosen = _text_evidence(runs, presentations, protocol)
    header, body, n_words, note = _text_table(evidence, chosen, titles=True)
    label = re.sub(r"[^a-z0-9]+", "-", "-".join(union([p.info.name] for p in evidence.presentations)).lower())
    caption = " ".join([note.replace(ROWS_NOTE, ROWS_CAPTION), *_mark_notes(evidence, body)])
    lines = [
        "% \\usepackage{booktabs}",
        "\\begin{table}[t]",
        "  \\centering",
        f"  \\caption{{{latex(caption)}}}",
        f"  \\label{{tab:{label}}}",
        f"  \\begin{{tabular}}{{{'l' * n_words}{'r' * (len(header) - n_words)}}}",
        "    \\toprule",
        f"    {' & '.join(map(latex, header))} \\\\",
        "    \\midrule",
        *(f"    {' & '.join(map(latex, row))} \\\\" for row in body),
        "    \\bottomrule",
        "  \\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    UNDEFINED: "--",
    "−": "$-$",
    "\u00a0": "~",
} | {character: f"\\{character}" for character in "&%$#_{}"}


def latex(text: str) -> str:
    r"""Text as LaTeX that sets it as it is: ``a_b`` becomes ``a\_b``.

    A bracket or a star at its beginning would be taken for an option of the line above; braces before it prevent that.

    Args:
        text: on one line.
    """
    plain = " ".join(_printable(text).split())
    escaped = "".join(LATEX.get(character, character) for character in plain)
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def sharing(presentations: Sequence[Presentation]) -> list[list[int]]:
    """Positions of runs, those that belong into one table together.

    Args:
        presentations: of the suite of each run.
    """
    groups: list[list[int]] = []
    for number, presentation in enumerate(presentations):
        for group in groups:
            if shares_page([presentations[group[0]], presentation]):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _printable(text: str) -> str:
    """Text without control characters (terminal escapes among them), which become visible question marks.

    Characters that turn the direction of writing are written as escapes.
    """
    shown = "".join("?" if unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n" else c for c in text)
    return visible(shown)


def _has_accents(encoding: str) -> bool:
    """Whether a terminal can write the letters that names of metrics have."""
    try:
        "é".encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _unaccented(text: str) -> str:
    """Letters without their accents: of the names of metrics, which nobody has to copy."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def _encodable(text: str, encoding: str) -> str:
    plain = " ".join(_printable(text).split()).replace(UNDEFINED, "-").replace("−", "-")
    return plain.encode(encoding, "backslashreplace").decode(encoding)


def _columns(text: str) -> int:
    """Columns that a text takes in a terminal."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)


def csv_table(runs: Sequence[Run], presentations: Sequence[Presentation] | None = None, *, raw: bool = False) -> str:
    """Every score of every run, one line each; facets are columns. Shares are left as shares, undefined is empty.

    The column ``label`` names the metric with features and numbers of images where they matter; ``cautions`` says why
    a number cannot be held against that of the first run.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.

    Args:
        runs: scored runs, of any suites.
        presentations: of the suite of each run; None: as the runs keep them.
        raw: whether texts stay as they are, for programs.

    Raises:
        UsageError: no runs.
        VerismError: a run has no scores yet.
    """
    records = [{**r, "cautions": "; ".join(r["cautions"])} for r in json_report(runs, presentations)]
    facets = list(dict.fromkeys(name for record in records for name in record["group"]))
    plain = [name for name in records[0] if name != "group"] if records else []
    first = [name for name in plain if name in ("run", "suite", "metric", "label", "protocol", "adjusted")]
    columns = [*first, *facets, *(name for name in plain if name not in first)]
    flat = ({**record["group"], **{name: record[name] for name in plain}} for record in records)
    return csv_text(columns, ([row.get(name) for name in columns] for row in flat), raw=raw)


def json_report(runs: Sequence[Run], presentations: Sequence[Presentation] | None = None) -> list[dict[str, Any]]:
    """Every score of every run as a plain record, with the name of its ``run``; undefined numbers are None.

    ``label`` is the title of the metric, with features and numbers of images where they matter; ``cautions`` are the
    reasons why a number cannot be held against that of the first run.

    Args:
        runs: scored runs, of any suites.
        presentations: of the suite of each run; None: as the runs keep them.

    Raises:
        UsageError: no runs.
        VerismError: a run has no scores yet.
    """
    evidence = Evidence.of(runs, presentations, gallery=0)
    records = []
    for n, (name, run) in enumerate(zip(evidence.names, evidence.runs, strict=True)):
        alone = Evidence.of([run], [evidence.presentations[n]], gallery=0)
        for score, record in zip(evidence.every[n], score_records(evidence.every[n]), strict=True):
            label, cautions = alone.label(score), evidence.cautions(n, score)
            records.append({"run": name, **record, "label": label, "cautions": cautions})
    return records
