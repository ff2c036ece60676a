"""Scores with the judge's error taken out, as reports show them: beside those as judged, never in their place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verism.records import Score
from verism.report_kit import words
from verism.store import Run

if TYPE_CHECKING:
    from verism.report_kit.evidence import Evidence

__all__ = [
    "AdjustedRow",
    "adjusted_by",
    "adjusted_rows",
    "adjustment_notes",
    "as_adjusted",
    "as_judged",
    "kinds_of",
]

BY = {
    "human": "adjusted by human labels",
    "rendered": "adjusted by rendered images",
    "model": "adjusted by a model's labels",
}
# A card whose images were not found to be like those of the run: every output that shows the number says so.
BY |= {f"{kind}-unmatched": f"{text}, NOT found to be of images like these" for kind, text in BY.items()}
NAMED = 2  # numbers that a note names before it counts them


def as_judged(scores: Iterable[Score]) -> list[Score]:
    """The scores as the judges' answers give them: what every table, figure and comparison is made of."""
    return [s for s in scores if not s.adjusted]


def as_adjusted(scores: Iterable[Score], kind: str) -> list[Score]:
    """The scores that were adjusted by this kind of truth (``human``, ``rendered``, ``model``, and ``-unmatched``)."""
    return [s for s in scores if s.adjusted == kind]


def kinds_of(scores: Iterable[Score]) -> list[str]:
    """The kinds of truth by which scores were adjusted; empty for none."""
    return list(dict.fromkeys(s.adjusted for s in scores if s.adjusted))


def adjusted_by(kind: str) -> str:
    """What is said behind the name of an adjusted number, with its comma; empty for numbers as judged."""
    return f", {BY.get(kind, f'adjusted by {kind}')}" if kind else ""


@dataclass(frozen=True, kw_only=True)
class AdjustedRow:
    """A number with the judge's error taken out, beside the one as judged, in words.

    Attributes:
        run: its place among the runs of the report.
        measure: the metric's title.
        group: what it is restricted to.
        unit: of the value.
        judged: as the judge's answers give it.
        judged_interval: its interval.
        adjusted: with the error taken out.
        interval: its interval.
        by: by which truth.
        method: how; suites that take cards as a rule keep no record of it.
        source: whose answers, or which card.
        labels: answers of annotators, or items of the card.
        effective: answers of annotators alone that would give as narrow an interval.
        gain: ``effective`` over ``labels``; empty where there is no such number.
        trust: in the judge, 0 to 1.
        note: what to mind, or why there is no value.
    """

    run: int
    measure: str
    group: str
    unit: str
    judged: str
    judged_interval: str
    adjusted: str
    interval: str
    by: str
    method: str
    source: str
    labels: str
    effective: str
    gain: str
    trust: str
    note: str


def adjusted_rows(evidence: Evidence) -> dict[str, list[AdjustedRow]]:
    """By protocol: every adjusted number of these runs, those of the whole before those of groups."""
    results: dict[str, list[tuple[int, AdjustedRow]]] = {protocol: [] for protocol in evidence.protocols}
    for number, (run, scores) in enumerate(zip(evidence.runs, evidence.every, strict=True)):
        judged = {_key(s.metric, s.protocol, s.group): s for s in as_judged(scores)}
        how = {(*_key(r["metric"], r["protocol"], r["group"]), r["adjusted"]): r for r in run.adjustments()}
        for score in scores:
            if score.adjusted:
                key = _key(score.metric, score.protocol, score.group)
                row = _row(evidence, number, score, judged.get(key), how.get((*key, score.adjusted), {}))
                results[score.protocol].append((len(score.group), row))
    return {p: [row for _, row in sorted(members, key=lambda r: r[0])] for p, members in results.items()}


def adjustment_notes(run: Run) -> list[str]:
    """How a run's numbers were adjusted, in a line for each way, and what to mind; empty if none was."""
    ways: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for record in run.adjustments():
        ways.setdefault((record["adjusted"], record["method"], record["source"]), []).append(record)
    lines = []
    for (kind, method, source), records in ways.items():
        gains = [
            r["effective_n"] / r["n_labels"] for r in records if r.get("effective_n") is not None and r["n_labels"]
        ]
        labels = sorted({r["n_labels"] for r in records})
        text = f"{labels[0]:,}" if len(labels) == 1 else f"{labels[0]:,} to {labels[-1]:,}"
        shown = list(dict.fromkeys(f"{gain:.1f}" for gain in (min(gains), max(gains)))) if gains else []
        worth = f", worth {' to '.join(shown)} times as many" if gains else ""
        n = f"{len(records):,} number{'' if len(records) == 1 else 's'}"
        unknown = sum(r.get("value", 0) is None for r in records)
        undefined = f" ({unknown:,} of them undefined)" if unknown else ""
        lines.append(f"{n}{adjusted_by(kind).replace(',', '')}{undefined}: {method}, {source}; {text} labels{worth}")
    notes: dict[str, list[str]] = {}
    every = [record for members in ways.values() for record in members]
    for record in every:
        if record.get("note"):
            named = ", ".join(map(str, (record["metric"], *record["group"].values(), record["protocol"])))
            notes.setdefault(record["note"], []).append(named)
    return lines + [note if len(of) == len(every) else f"{_first(of)}: {note}" for note, of in notes.items()]


def _first(names: Sequence[str]) -> str:
    """The first names of a list, and how many there are besides."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return "; ".join(names[:NAMED]) + more


def _key(metric: str, protocol: str, group: Mapping[str, Any]) -> tuple[str, str, str]:
    return metric, protocol, json.dumps(dict(group), sort_keys=True)


def _row(evidence: Evidence, run: int, score: Score, judged: Score | None, how: Mapping[str, Any]) -> AdjustedRow:
    n_labels, effective = how.get("n_labels"), how.get("effective_n")
    gain = effective / n_labels if n_labels and effective is not None else math.nan
    trust = how.get("trust")
    names = evidence.vocabulary
    return AdjustedRow(
        run=run,
        measure=names.title(score.metric),
        group=names.group_name((score.metric, tuple(score.group.items()))),
        unit=names.unit(score.unit),
        judged=words.value(judged),
        judged_interval=words.interval(judged),
        adjusted=words.value(score),
        interval=words.interval(score),
        by=BY.get(score.adjusted, score.adjusted).removeprefix("adjusted by "),
        method=str(how.get("method", "judge card, by the suite's own rules")),
        source=str(how.get("source", "")),
        labels="" if n_labels is None else f"{n_labels:,}",
        effective="" if effective is None else f"{effective:,.0f}",
        gain="" if math.isnan(gain) else f"{gain:.2f}",
        trust="" if trust is None else f"{trust:.2f}",
        note=str(how.get("note", "")),
    )
