"""The list that ``verism scorings`` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from verism.errors import UsageError
from verism.store import Run

__all__ = ["scoring_records", "scoring_table"]


def scoring_records(run: Run) -> list[dict[str, Any]]:
    """The scorings a run keeps as plain JSON, the oldest first.

    Args:
        run: the run.

    Raises:
        UsageError: it has none.
    """
    kept = run.scorings()
    if not kept:
        raise UsageError(f"{run.path} has no scores yet")
    counting = run.stored_scoring()
    current = None if counting is None or counting.folder is None else counting.folder.name
    previous = "" if counting is None else counting.previous
    records = []
    for stored in kept:
        folder = "" if stored.folder is None else stored.folder.name
        records.append(
            {
                "name": stored.name,
                "counts": folder == current,
                "undo": folder == previous,
                "created": stored.created,
                "rules": dict(stored.scoring.rules),
                "judges": dict(stored.scoring.judges),
                "corrected_by": stored.scoring.adjustment.get("correct") or "",
                "answer": next(iter(stored.scoring.answers), ""),
            }
        )
    return records


def scoring_table(records: Sequence[Mapping[str, Any]]) -> str:
    """The scorings as text: what counts, and which rules differ between them.

    Args:
        records: as ``scoring_records`` gives them.
    """
    rules = list(dict.fromkeys(rule for record in records for rule in record["rules"]))
    differing = [rule for rule in rules if len({json.dumps(record["rules"].get(rule)) for record in records}) > 1]
    several_judges = len({json.dumps(record["judges"], sort_keys=True) for record in records}) > 1
    lines = []
    for record in records:
        state = "counts" if record["counts"] else "undo" if record["undo"] else ""
        words = [f"{rule}={json.dumps(record['rules'].get(rule))}" for rule in differing]
        words += [f"{role}: {judge}" for role, judge in record["judges"].items()] if several_judges else []
        words += [f"corrected by {record['corrected_by']}"] if record["corrected_by"] else []
        words += [record["answer"]] if record["answer"] else []
        lines.append([record["name"] or "-", state, record["created"][:16].replace("T", " "), "; ".join(words)])
    widths = [max(len(line[k]) for line in lines) for k in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]).rstrip()
        for line in lines
    )
