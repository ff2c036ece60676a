"""A paired comparison as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verism.report_kit.adjustments import adjusted_by
from verism.report_kit.coverage import PARTIAL
from verism.report_kit.words import number

__all__ = ["comparison_table"]

LISTED = 8  # rows whose left-out parts are listed below a table
PAIRED_NOTE = (
    "Over images judged in both runs. The interval leaves 0 out exactly where p < 0.05; "
    "* p (Holm) < 0.05 within its protocol, of a mean p < 0.05."
)
INDEPENDENT_NOTE = (
    "* p (Holm) < 0.05 over the groups of its measure and protocol. Rows of two numbers (A + B) take the runs for "
    "independent: where they share real images or prompts, intervals are somewhat too wide."
)


def comparison_table(records: Sequence[Mapping[str, Any]], *, a: str, b: str) -> str:
    """Rows of ``Difference.record()`` as aligned text; shares in points, stars where Holm's p is below 0.05.

    What is undefined is called so, and the reasons stand below the table.

    A number in brackets behind a difference is that of the reason, listed below, why it should not be made. A dagger
    marks a value that leaves out what was not answered.

    Args:
        records: the rows.
        a: name of the baseline.
        b: name of the other run.
    """
    paired = all(r["method"] == "paired" for r in records)
    metrics = {r["metric"] for r in records if r["group"]}
    # Of paired rows of a single metric, the name of the metric is only needed where the row has no group.
    named = not paired or len(metrics) > 1
    reasons = list(dict.fromkeys(text for r in records for text in r["reasons"]))
    header = [
        "protocol",
        *(["measure"] if named else []),
        "group",
        "A",
        "B",
        "B - A",
        *(["not comparable"] if reasons else []),
        "95 % interval",
        "p",
        "p (Holm)",
    ]
    header += ["pairs", "unpaired"] if paired else ["n", "unit"]
    rows = [
        [
            r["protocol"],
            *([_measure(r) + adjusted_by(r["adjusted"])] if named else []),
            ", ".join(f"{v}" for v in r["group"].values()) or ("all" if named else r["metric"].replace("_", " ")),
            *(_value(r[f"value_{run}"], r["unit"]) + PARTIAL * bool(r[f"left_out_{run}"]) for run in "ab"),
            _change(r["difference"], r["unit"]) + (" *" if r["p_holm"] is not None and r["p_holm"] < 0.05 else "  "),
            *([" ".join(f"[{reasons.index(text) + 1}]" for text in r["reasons"])] if reasons else []),
            _interval(r),
            _p(r["p_value"]),
            _p(r["p_holm"]) if r["group"] else "",
            *([f"{r['n_pairs']:,}", f"{r['n_unpaired']:,}"] if paired else [_images(r), _unit(r["unit"])]),
        ]
        for r in records
    ]
    words = header.index("A")
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    lines = [f"A = {a}", f"B = {b}", ""]
    for row in [header, *rows]:
        cells = [c.ljust(w) if k < words else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    if reasons:
        lines += ["", "Not comparable, as these differ:", *(f"[{n}] {text}" for n, text in enumerate(reasons, 1))]
    lines += _by_reason(records, "undefined", "Undefined:")
    lines += _by_reason(records, "not_paired", "Not paired image by image, but compared by the intervals of both runs:")
    lines += _left_out(records)
    lines += ["", PAIRED_NOTE if paired else INDEPENDENT_NOTE]
    return "\n".join(lines)


def _left_out(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the marked values leave out, by row."""
    partial = [r for r in records if r["left_out_a"] or r["left_out_b"]]
    if not partial:
        return []
    lines = ["", f"{PARTIAL} Without unanswered questions and images that have no usable answer, in A and in B:"]
    for r in partial[:LISTED]:
        lines.append(f"  {_row_name(r)}: {r['left_out_a'] or 'nothing'} | {r['left_out_b'] or 'nothing'}")
    more = len(partial) - LISTED
    return [*lines, f"  and {more:,} more rows: --json has them"] if more > 0 else lines


def _by_reason(records: Sequence[Mapping[str, Any]], field: str, title: str) -> list[str]:
    """The reasons in a field of the rows, below a title; rows with one reason share a line."""
    rows: dict[str, list[str]] = {}
    for r in records:
        if r[field]:
            rows.setdefault(r[field], []).append(_row_name(r))
    return ["", title, *(f"  {_listed(names)}: {why}" for why, names in rows.items())] if rows else []


def _listed(names: Sequence[str]) -> str:
    more = len(names) - LISTED
    return "; ".join(names[:LISTED]) + (f" and {more:,} more rows" if more > 0 else "")


def _row_name(record: Mapping[str, Any]) -> str:
    return ", ".join([record["protocol"], _measure(record), *(f"{v}" for v in record["group"].values())])


def _interval(record: Mapping[str, Any]) -> str:
    if record["ci_low"] is None or record["ci_high"] is None:
        return "undefined"
    return f"{_change(record['ci_low'], record['unit'])} to {_change(record['ci_high'], record['unit'])}"


def _measure(record: Mapping[str, Any]) -> str:
    """The metric's name, or its label where that says what it was made from."""
    return str(record["label"] if "(" in record["label"] else record["metric"])


def _images(record: Mapping[str, Any]) -> str:
    """How many images, or answers, a row rests on: in pairs, or of each run by itself."""
    if record["method"] == "paired":
        unpaired = f", {record['n_unpaired']:,} unpaired" if record["n_unpaired"] else ""
        return f"{record['n_pairs']:,} pairs{unpaired}"
    return f"{record['n_a']:,} + {record['n_b']:,}"


def _value(value: float | None, unit: str) -> str:
    return "-" if value is None else number(value, unit)


def _change(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{round(100 * value, 9) + 0.0:+.1f}" if unit == "share" else f"{value:+.3g}"  # + 0.0: no minus zero


def _unit(unit: str) -> str:
    return "%" if unit == "share" else unit


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"
