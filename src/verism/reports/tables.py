"""Scores of several runs as rows that can be compared: for papers (Markdown), spreadsheets (CSV), programs (JSON) and
terminals.

Numbers are only looked up and written here; they were computed when the run was scored. Shares are written in per cent
with their 95 % interval, always beside the number of pictures that entered them and of those that could not. A value
that is undefined is written as a dash, never as 0.
"""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from verism.errors import UsageError
from verism.records import PROTOCOLS, FacetValue, Score
from verism.reports.adjustments import as_adjusted, as_judged, corrected_by, kinds_of
from verism.store import Run, score_records

__all__ = [
    "MEAN",
    "UNDEFINED",
    "Headline",
    "Numbers",
    "csv_table",
    "difference",
    "headline",
    "interval",
    "json_report",
    "markdown_table",
    "percent",
    "run_names",
    "skills_based",
    "terminal_table",
]

UNDEFINED = "–"
MEASURES_NOTE = (
    "Value, 95 % interval and, in brackets, how many answers it rests on. More, in detail: verism report RUN, or --csv."
)
MEAN = "mean"  # name of the column of the mean over skills

GroupKey = frozenset[tuple[str, FacetValue]]


# --------------------------------------------------------------------------------------------------------------------
# Looking numbers up
# --------------------------------------------------------------------------------------------------------------------
class Numbers:
    """The scores of one run, by metric, protocol and group.

    Attributes:
        scores: as the run keeps them, without those that are adjusted. suites: names of their suites, usually one.
        skills: skills with an accuracy, in the suite's order.
        adjusted: by kind of truth, the scores with the judge's error taken out.
    """

    def __init__(self, scores: Sequence[Score]) -> None:
        self.adjusted: dict[str, Numbers] = {kind: Numbers.of_kind(scores, kind) for kind in kinds_of(scores)}
        scores = as_judged(scores)
        self.scores = tuple(scores)
        self.suites = tuple(dict.fromkeys(s.suite for s in scores))
        self._by_key: dict[tuple[str, str, GroupKey], Score] = {
            (s.metric, s.protocol, frozenset(s.group.items())): s for s in scores
        }
        self.skills = tuple(
            dict.fromkeys(str(s.group["skill"]) for s in scores if s.metric == "accuracy" and set(s.group) == {"skill"})
        )

    @staticmethod
    def of_kind(scores: Sequence[Score], kind: str) -> Numbers:
        """The scores adjusted by this kind of truth, to be looked up like those as judged."""
        return Numbers([replace(s, adjusted="") for s in as_adjusted(scores, kind)])

    def get(self, metric: str, protocol: str, **group: FacetValue) -> Score | None:
        """The score of exactly this group, or None if the run has none."""
        return self._by_key.get((metric, protocol, frozenset(group.items())))

    def cell(self, column: str, protocol: str) -> Score | None:
        """The headline score of a skill, or of ``MEAN``."""
        if column == MEAN:
            return self.get("mean_accuracy", protocol)
        return self.get("accuracy", protocol, skill=column)

    def facets(self, skill: str) -> list[str]:
        """Facets by which the accuracy of a skill is broken down, in the order of the scores."""
        found = (
            name
            for s in self.scores
            if s.metric == "accuracy" and len(s.group) == 2 and s.group.get("skill") == skill
            for name in s.group
            if name != "skill"
        )
        return list(dict.fromkeys(found))

    def levels(self, skill: str, facet: str) -> list[FacetValue]:
        """Values of a facet that have an accuracy of their own."""
        found = (
            s.group[facet]
            for s in self.scores
            if s.metric == "accuracy" and set(s.group) == {"skill", facet} and s.group["skill"] == skill
        )
        return list(dict.fromkeys(found))

    def rules(self, skill: str) -> list[str]:
        """Rules of a skill besides its accuracy: the metrics that have the name of a verdict's rule."""
        found = (
            s.metric
            for s in self.scores
            if set(s.group) == {"skill"} and s.group["skill"] == skill and s.metric.startswith(("right_", "only_"))
        )
        return list(dict.fromkeys(found))


@dataclass(frozen=True, kw_only=True, eq=False)
class Headline:
    """The first table: one row per run, one column per skill and one for the mean.

    Attributes:
        names: of the runs, made different where folders share a name.
        numbers: scores of each run, in the same order.
        columns: skills in the suites' order, then ``MEAN``.
        shuffled: rows (label, value by column) of what shuffled pictures would get under a perfect judge; one row if
            all runs ask the same, otherwise one per run. A value is missing where the run does not give it.
        mean_of: per run, the skills that its mean is over.
    """

    names: tuple[str, ...]
    numbers: tuple[Numbers, ...]
    columns: tuple[str, ...]
    shuffled: tuple[tuple[str, Mapping[str, float]], ...]
    mean_of: tuple[tuple[str, ...], ...]


def headline(runs: Sequence[Run]) -> Headline:
    """What the headline table of these runs holds.

    Raises:
        UsageError: no runs.
        VerismError: a run has no scores yet.
    """
    if not runs:
        raise UsageError("a report needs at least one run, got none")
    numbers = tuple(Numbers(run.scores()) for run in runs)
    names = tuple(run_names(runs))
    skills = tuple(dict.fromkeys(skill for n in numbers for skill in n.skills))
    mean_of = tuple(_skills_of_mean(n) for n in numbers)
    expected = [_shuffled(n, skills_of_mean) for n, skills_of_mean in zip(numbers, mean_of)]
    label = "shuffled pictures (theory)"
    shuffled: tuple[tuple[str, Mapping[str, float]], ...]
    if all(e == expected[0] for e in expected):
        shuffled = ((label, expected[0]),) if expected[0] else ()
    else:
        shuffled = tuple((f"{label}, prompts of {name}", e) for name, e in zip(names, expected) if e)
    return Headline(names=names, numbers=numbers, columns=(*skills, MEAN), shuffled=shuffled, mean_of=mean_of)


def _shuffled(numbers: Numbers, mean_of: Sequence[str]) -> dict[str, float]:
    found = {s: numbers.get("shuffled_expectation", "corrected", skill=s) for s in numbers.skills}
    values = {skill: score.value for skill, score in found.items() if score is not None}
    if mean_of and all(skill in values for skill in mean_of):
        values[MEAN] = math.fsum(values[skill] for skill in mean_of) / len(mean_of)
    return values


def _skills_of_mean(numbers: Numbers) -> tuple[str, ...]:
    """The skills of the published mean: optional ones (colour in the second version) are scored but not in it."""
    from verism.suites.paintskills.vocabulary import VERSIONS

    published = [VERSIONS[suite].skills for suite in numbers.suites if suite in VERSIONS]
    if not published:
        return numbers.skills
    return tuple(skill for skill in numbers.skills if skill in published[0])


def run_names(runs: Sequence[Run]) -> list[str]:
    """One name per run, all different: the folder's, with its parent's where folders share a name."""
    paths = [run.path.resolve() for run in runs]
    names = [path.name for path in paths]
    often = Counter(names)
    names = [f"{path.parent.name}/{name}" if often[name] > 1 else name for name, path in zip(names, paths)]
    seen: Counter[str] = Counter()
    unlike = []
    for name in names:
        seen[name] += 1
        unlike.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unlike


def skills_based(run: Run) -> bool:
    """Whether a run's suite is made of skills (PaintSkills), or of measures by group (all others)."""
    return str(run.manifest["settings"].get("suite", "paintskills")).startswith("paintskills")


# --------------------------------------------------------------------------------------------------------------------
# Numbers in words
# --------------------------------------------------------------------------------------------------------------------
def percent(share: float | None) -> str:
    """A share as per cent with one decimal, without the sign: ``84.2``; a dash if undefined."""
    return UNDEFINED if share is None or math.isnan(share) else f"{100 * share:.1f}"


def interval(score: Score | None) -> str:
    """The 95 % interval in per cent, ``[80.1, 87.9]``; empty if there is none."""
    if score is None or math.isnan(score.ci_low) or math.isnan(score.ci_high):
        return ""
    return f"[{100 * score.ci_low:.1f}, {100 * score.ci_high:.1f}]"


def difference(value: float | None, reference: float | None) -> str:
    """``value - reference`` in percentage points with its sign, ``+1.2``, ``−0.4``, ``0.0``; a dash if undefined."""
    if value is None or reference is None or math.isnan(value) or math.isnan(reference):
        return UNDEFINED
    points = round(100 * (value - reference), 1)
    return "0.0" if points == 0 else f"{points:+.1f}".replace("-", "−")


# --------------------------------------------------------------------------------------------------------------------
# Tables as text
# --------------------------------------------------------------------------------------------------------------------
def _check_protocol(protocol: str) -> None:
    if protocol not in PROTOCOLS:
        raise UsageError(f"unknown protocol {protocol!r}; choose from {list(PROTOCOLS)}")


def _cell_text(score: Score | None) -> str:
    if score is None:
        return UNDEFINED
    return f"{percent(score.value)} {interval(score)}".rstrip()


def _total(numbers: Numbers, protocol: str) -> tuple[int, int]:
    """Pictures used and unusable over all skills, those outside the mean included."""
    found = [numbers.cell(skill, protocol) for skill in numbers.skills]
    return sum(s.n_used for s in found if s), sum(s.n_unusable for s in found if s)


def _rows(table: Headline, protocol: str) -> tuple[list[str], list[list[str]]]:
    """Header and body of the headline table as text; the last column says how many pictures were used and unusable."""
    header = ["run", *table.columns, "used / unusable"]
    body = []
    for name, numbers in zip(table.names, table.numbers):
        used, unusable = _total(numbers, protocol)
        body.append([name, *(_cell_text(numbers.cell(c, protocol)) for c in table.columns), f"{used} / {unusable}"])
        for kind, adjusted in numbers.adjusted.items():
            cells = [adjusted.cell(c, protocol) for c in table.columns]
            if any(cells):
                body.append([name + corrected_by(kind), *map(_cell_text, cells), UNDEFINED])
    for label, values in table.shuffled:
        body.append([label, *(percent(values.get(c)) for c in table.columns), UNDEFINED])
    return header, body


def _corrected_note(table: Headline) -> str:
    """What rows with the judge's error taken out are; empty if there is none."""
    if not any(numbers.adjusted for numbers in table.numbers):
        return ""
    return " Corrected: with the judge's error taken out; how, is in the report and in adjustments.json of the run."


def markdown_table(runs: Sequence[Run], *, protocol: str = "corrected") -> str:
    """The headline table in Markdown (GitHub's tables), with a caption that says how to read it.

    Raises:
        UsageError: no runs, or an unknown protocol.
        VerismError: a run has no scores yet.
    """
    _check_protocol(protocol)
    if runs and not any(map(skills_based, runs)):
        return _measures_markdown(runs, protocol)
    table = headline(runs)
    header, body = _rows(table, protocol)
    suites = ", ".join(dict.fromkeys(suite for n in table.numbers for suite in n.suites))
    lines = [
        "| " + " | ".join(map(_markdown, header)) + " |",
        "|" + "|".join([":--", *["--:"] * (len(header) - 1)]) + "|",
        *("| " + " | ".join([_markdown(row[0]), *row[1:]]) + " |" for row in body),
        "",
        _markdown(
            f"Accuracy in per cent with 95 % intervals clustered by prompt; suite {suites}, protocol {protocol}. "
            f"Unusable pictures are not part of the values.{_corrected_note(table)}"
        ),
    ]
    return "\n".join(lines) + "\n"


def _measures_markdown(runs: Sequence[Run], protocol: str) -> str:
    from verism.reports.measures import headline_rows

    header, body = headline_rows(runs, protocol)
    suites = ", ".join(dict.fromkeys(str(run.manifest["settings"]["suite"]) for run in runs))
    lines = [
        "| " + " | ".join(map(_markdown, header)) + " |",
        "|" + "|".join([":--", ":--", ":--", *["--:"] * (len(header) - 3)]) + "|",
        *("| " + " | ".join([*map(_markdown, row[:3]), *row[3:]]) + " |" for row in body),
        "",
        _markdown(f"Suite {suites}, protocol {protocol}. {MEASURES_NOTE}"),
    ]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    """Text as Markdown that shows it as it is. Underscores within words are left alone: they mean nothing there."""
    text = " ".join(_printable(text).split())
    return re.sub(r"[\\|`*<>\[\]&#~]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", text)


def csv_table(runs: Sequence[Run]) -> str:
    """Every score of every run, one line each; facets are columns. Shares are left as shares, undefined is empty.

    A text that a spreadsheet would take for a formula gets an apostrophe in front; programs had better read the JSON.

    Raises:
        UsageError: no runs.
        VerismError: a run has no scores yet.
    """
    records = json_report(runs)
    facets = list(dict.fromkeys(name for record in records for name in record["group"]))
    plain = [name for name in records[0] if name != "group"] if records else []
    first = [name for name in plain if name in ("run", "suite", "metric", "protocol", "adjusted")]
    columns = [*first, *facets, *(name for name in plain if name not in first)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([_spreadsheet(name) for name in columns])
    for record in records:
        flat = {**record["group"], **{name: record[name] for name in plain}}
        writer.writerow([_spreadsheet(flat.get(name)) for name in columns])
    return buffer.getvalue()


def _spreadsheet(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return value


def json_report(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Every score of every run as a plain record, with the name of its ``run``; undefined numbers are None.

    Raises:
        UsageError: no runs.
        VerismError: a run has no scores yet.
    """
    if not runs:
        raise UsageError("a report needs at least one run, got none")
    return [
        {"run": name, **record} for name, run in zip(run_names(runs), runs) for record in score_records(run.scores())
    ]


def terminal_table(runs: Sequence[Run], protocol: str = "corrected") -> str:
    """The headline table in aligned columns of plain ASCII; control characters in names do not reach the terminal.

    Raises:
        UsageError: no runs, or an unknown protocol.
        VerismError: a run has no scores yet.
    """
    _check_protocol(protocol)
    left = 1  # columns of words
    if runs and not any(map(skills_based, runs)):
        from verism.reports.measures import headline_rows

        header, body = headline_rows(runs, protocol)
        left, note = 3, f"protocol {protocol}; {MEASURES_NOTE[0].lower()}{MEASURES_NOTE[1:]}"
    else:
        table = headline(runs)
        header, body = _rows(table, protocol)
        note = f"accuracy in % [95 % interval], protocol {protocol}; unusable pictures are not part of the values"
        note += _corrected_note(table).replace(" Corrected", "; corrected").removesuffix(".")
    rows = [[_ascii(cell) for cell in row] for row in (header, *body)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        return "  ".join(cells).rstrip()

    lines = [
        line(rows[0]),
        "  ".join("-" * width for width in widths),
        *map(line, rows[1:]),
        note,
    ]
    return "\n".join(lines) + "\n"


def _printable(text: str) -> str:
    """Text without control characters (terminal escapes among them), which become visible question marks."""
    return "".join("?" if unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n" else c for c in text)


def _ascii(text: str) -> str:
    plain = " ".join(_printable(text).split()).replace(UNDEFINED, "-").replace("−", "-")
    return plain.encode("ascii", "backslashreplace").decode("ascii")
