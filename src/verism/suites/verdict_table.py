"""The images of a run as rules see them, and the table of verdicts built row by row: one for all suites."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verism.records import TABLES, Observed, Prompt, schema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["NOT_OBSERVED", "ShownImage", "VerdictRows", "image_problem", "in_order_of", "shown_images"]

NOT_OBSERVED = "not looked at"


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ShownImage:
    """An image that a run asked for.

    Attributes:
        image_id: its id in the run.
        prompt: what it was asked to show.
        index: which image of its prompt it is, from 0.
        problem: why no rule can decide about it, in words; None if rules can.
    """

    image_id: str
    prompt: Prompt
    index: int
    problem: str | None


def image_problem(state: str, note: str | None, *, observed: bool = True) -> str | None:
    """Why no rule can decide about an image, in words; None if rules can.

    Args:
        state: of the image: ``ok``, ``missing``, ``refused``, ``failed`` ...
        note: what is known of the reason.
        observed: whether the judge in question has an observation of it.

    >>> image_problem("failed", "out of memory"), image_problem("ok", None), image_problem("ok", None, observed=False)
    ('image failed: out of memory', None, 'not looked at')
    """
    if state == "ok" and observed:
        return None
    reason = NOT_OBSERVED if state == "ok" else f"image {state}"
    return f"{reason}: {note}" if note else reason


def shown_images(observed: Observed, judged: Collection[str] | None = None) -> list[ShownImage]:
    """All images asked for, in the order of the prompts and their indices.

    Args:
        observed: a run.
        judged: ids of the images that the judge in question observed; None: whether it did makes no difference here.
    """
    position = {prompt_id: number for number, prompt_id in enumerate(observed.prompts)}
    rows = observed.images.iter_rows(named=True)
    return [
        ShownImage(
            image_id=row["image_id"],
            prompt=observed.prompts[row["prompt_id"]],
            index=row["index"],
            problem=image_problem(row["state"], row["note"], observed=judged is None or row["image_id"] in judged),
        )
        for row in sorted(rows, key=lambda row: (position[row["prompt_id"]], row["index"]))
    ]


def in_order_of(prompt_ids: Sequence[str]) -> Callable[[pl.Series], pl.Series]:
    """A ``Suite.block_key`` that brings images in the order of their prompts.

    Args:
        prompt_ids: of all prompts, in their order.
    """
    place = {prompt_id: f"{number:09}#" for number, prompt_id in enumerate(prompt_ids)}

    def key(image_ids: pl.Series) -> pl.Series:
        import polars as pl

        return pl.Series([place[image_id.rpartition("#")[0]] for image_id in image_ids.to_list()], dtype=pl.String)

    return key


WIDTH = len(TABLES["verdicts"])
CHUNK = 65_536  # rows of verdicts held as Python objects, which take several times the memory of a table's
as_json = json.JSONEncoder(ensure_ascii=False).encode  # one encoder: json.dumps makes a new one for each row


class VerdictRows:
    """The table ``verdicts``: a run may have millions of rows."""

    def __init__(self) -> None:
        self._cells: list[Any] = []  # of one row after the other
        self._tables: list[pl.DataFrame] = []

    def add(
        self,
        image: ShownImage,
        protocol: str,
        rule: str,
        value: float | None,
        reason: str,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """A decision about an image of the run.

        Args:
            image: the image.
            protocol: ``released``, ``paper`` or ``revised``.
            rule: the name of the rule.
            value: what the rule decided; None where it cannot, and ``reason`` says why.
            reason: in words.
            detail: what the decision rests on, JSON-serialisable, for the report and for evidence.
        """
        self.add_row(image.image_id, image.prompt.prompt_id, protocol, rule, value, reason, detail)

    def add_row(
        self,
        image_id: str,
        prompt_id: str,
        protocol: str,
        rule: str,
        value: float | None,
        reason: str,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """A decision about an image by its ids; ``prompt_id`` is empty for real images. Else as for ``add``."""
        text = None if detail is None else as_json(dict(detail)) if detail else "{}"
        self._cells += (image_id, prompt_id, protocol, rule, value, reason, text)
        if len(self._cells) >= CHUNK * WIDTH:
            self._flush()

    def _flush(self) -> None:
        import polars as pl

        series = []
        for place, (name, dtype) in enumerate(schema("verdicts").items()):
            column = self._cells[place::WIDTH]
            if dtype != pl.String:
                series.append(pl.Series(name, column, dtype=dtype))
                continue
            # Ids and reasons stand in many rows each: those that are equal share their bytes.
            number = {text: row for row, text in enumerate(dict.fromkeys(column))}
            rows = pl.Series([number[text] for text in column], dtype=pl.UInt32)
            series.append(pl.Series(name, list(number), dtype=dtype).gather(rows))
        self._tables.append(pl.DataFrame(series))
        self._cells = []

    def table(self) -> pl.DataFrame:
        """The rows as table ``verdicts``."""
        import polars as pl

        if not self._tables or self._cells:
            self._flush()
        return self._tables[0] if len(self._tables) == 1 else pl.concat(self._tables)
