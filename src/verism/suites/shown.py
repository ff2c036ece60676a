"""The pictures of a run as rules see them, and the table of verdicts built row by row: shared by suites."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verism.records import Observed, Prompt, schema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Shown", "VerdictRows", "shown_pictures"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """A picture of the run, the ``index``-th of its prompt. ``problem`` says why it cannot be used; None if it can."""

    image_id: str
    prompt: Prompt
    index: int
    problem: str | None


def shown_pictures(observed: Observed) -> list[Shown]:
    """All pictures asked for, in the order of the prompts."""
    place = {prompt_id: number for number, prompt_id in enumerate(observed.prompts)}
    shown = []
    rows = observed.images.iter_rows(named=True)
    for row in sorted(rows, key=lambda row: (place[row["prompt_id"]], row["index"])):
        problem = None
        if row["state"] != "ok":
            problem = f"picture {row['state']}" + (f": {row['note']}" if row["note"] else "")
        prompt = observed.prompts[row["prompt_id"]]
        shown.append(Shown(image_id=row["image_id"], prompt=prompt, index=row["index"], problem=problem))
    return shown


class VerdictRows:
    """The table ``verdicts``, column by column: a run may have a hundred thousand rows."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in schema("verdicts")}

    def add(
        self, picture: Shown, protocol: str, rule: str, value: float | None, reason: str, detail: Mapping[str, Any]
    ) -> None:
        entries = (picture.image_id, picture.prompt.prompt_id, protocol, rule, value, reason, json.dumps(detail))
        for column, entry in zip(self._columns.values(), entries, strict=True):
            column.append(entry)

    def table(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(self._columns, schema=schema("verdicts"))
