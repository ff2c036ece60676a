"""A paired comparison as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["comparison_table"]


def comparison_table(records: Sequence[Mapping[str, Any]], *, a: str, b: str) -> str:
    """Rows of ``Difference.record()`` as aligned text; differences in points, stars where Holm's p is below 0.05."""
    header = ["protocol", "group", "A", "B", "B - A", "95 % interval", "p", "p (Holm)", "pairs", "unpaired"]
    rows = [
        [
            r["protocol"],
            ", ".join(f"{v}" for v in r["group"].values()) or "mean",
            _percent(r["value_a"]),
            _percent(r["value_b"]),
            _points(r["difference"]) + (" *" if r["p_holm"] is not None and r["p_holm"] < 0.05 else "  "),
            f"{_points(r['ci_low'])} to {_points(r['ci_high'])}",
            _p(r["p_value"]),
            _p(r["p_holm"]) if r["group"] else "",
            f"{r['n_pairs']:,}",
            f"{r['n_unpaired']:,}",
        ]
        for r in records
    ]
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    lines = [f"A = {a}", f"B = {b}", ""]
    for row in [header, *rows]:
        cells = [c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    lines += [
        "",
        "* p (Holm) < 0.05 within its protocol; for the mean, p < 0.05. Accuracies over pictures judged in both.",
    ]
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _points(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:+.1f}"


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"
