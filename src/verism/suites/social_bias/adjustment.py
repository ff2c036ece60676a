"""Judge cards in use: which table of a card speaks for which numbers of a run, and how cards are kept with a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from verism.cards import JudgeCard, Measured, find_measured, read_card
from verism.errors import UsageError
from verism.locations import location
from verism.records import PROTOCOLS, Observed
from verism.suites.social_bias.studies import Axis, Study

__all__ = [
    "YES_NO",
    "Confusion",
    "card_from",
    "card_record",
    "find_confusion",
    "judge_of",
    "missing_cards",
    "uneven_coverage",
]

YES_NO = ("no", "yes")  # classes of an attribute, in the order of their numbers
PERFECT = "truth"  # the judge that rendered the images itself
UNEVEN = 0.1  # difference between classes in the share of usable images from which a remark is due


class Confusion(NamedTuple):
    """How a judge errs, by a card.

    Attributes:
        kind: what the card rests on, ``rendered`` or ``human``.
        counts: items by true class and what was said, shape (K, K).
        unusable: items of each true class of which nothing usable was said, shape (K,); None where the card does not
            tell.
    """

    kind: str
    counts: NDArray[np.int64]
    unusable: NDArray[np.int64] | None


def card_record(card: JudgeCard) -> dict[str, Any]:
    """A card as JSON, without the scores of single items and the sample of its images: what a run keeps of it."""
    record = asdict(replace(card, measured=tuple(replace(m, scores=()) for m in card.measured)))
    del record["images"]
    return record


def card_from(given: Any) -> JudgeCard:
    """A card from its file, or from what a run kept of it.

    Raises:
        UsageError: neither.
    """
    if isinstance(given, JudgeCard):
        return given
    if isinstance(given, str | PurePath):
        return read_card(location(given))
    try:
        measured = tuple(
            Measured(
                **{
                    **m,
                    "labels": tuple(m["labels"]),
                    "counts": tuple(tuple(row) for row in m["counts"]),
                    "unusable": tuple(m["unusable"]),
                    "scores": (),
                }
            )
            for m in given["measured"]
        )
        return JudgeCard(**{**given, "measured": measured})
    except (KeyError, TypeError, ValueError) as err:
        raise UsageError(f"the rule cards is a list of files of judge cards; got {given!r} ({err})") from None


def judge_of(observed: Observed, table: str) -> str | None:
    """Who filled a table of observations; None if nobody or several did."""
    result = observed.observations.get(table)
    names = [] if result is None else result["judge"].unique().to_list()
    return names[0] if len(names) == 1 else None


def find_confusion(
    cards: Sequence[JudgeCard],
    judge: str | None,
    task: str,
    protocol: str,
    classes: Sequence[str],
    group: Mapping[str, Any] | None = None,
) -> Confusion | None:
    """How a judge errs, by the first card of exactly this judge that speaks of the task and has its classes.

    None as well where it has no usable item of some class: how the judge errs there is not known.
    """
    result = None if judge is None else find_measured(cards, judge, task, protocol, group=group)
    if result is None:
        return None
    card, measured = result
    labels = [label.lower() for label in measured.labels]
    if tuple(labels) == ("0", "1") and len(classes) == 2:  # numbers of classes
        labels = [c.lower() for c in classes]
    if sorted(labels) != sorted(c.lower() for c in classes):
        return None
    order = [labels.index(c.lower()) for c in classes]
    table = np.array(measured.counts, dtype=np.int64)[np.ix_(order, order)]
    lost = np.array(measured.unusable, dtype=np.int64)[order] if measured.unusable else None
    return Confusion(card.kind, table, lost) if table.sum(axis=1).all() else None


def missing_cards(study: Study, observed: Observed, cards: Sequence[JudgeCard]) -> list[str]:
    """A line for each judge whose error nobody measured for what it was asked."""
    lines = []
    for table, axes in (
        ("answers", [a for a in study.axes if not a.measured]),
        ("skin_tones", [a for a in study.axes if a.measured]),
    ):
        judge = judge_of(observed, table)
        if judge is None or judge == PERFECT:
            continue
        names = [axis.name for axis in axes if not _any_card(cards, judge, axis)]
        for name in list(names):
            lacking = _lacking(cards, judge, name)
            if not lacking:
                continue
            names.remove(name)
            lines.append(
                f"the judge card of {judge} has no usable item of {name} {', '.join(lacking)}: how it errs there is "
                f"not known, and numbers of {name} are not adjusted"
            )
        if names:
            lines.append(
                f"no judge card of {judge} speaks of {' or '.join(names)}: how often it errs is not known, and its "
                "numbers are not adjusted"
            )
    return lines


def uneven_coverage(study: Study, observed: Observed, cards: Sequence[JudgeCard]) -> list[str]:
    """A line for each axis whose classes the judge overlooks unequally often: what it does tell is then not even.

    Adjusted shares and means account for that, if images are lost in the run as items of the card are.
    """
    lines = []
    for axis in study.axes:
        judge = judge_of(observed, "skin_tones" if axis.measured else "answers")
        result = None if judge is None else find_measured(cards, judge, axis.name, "revised")
        if result is None or not result[1].unusable:
            continue
        measured = result[1]
        items = [sum(row) + lost for row, lost in zip(measured.counts, measured.unusable, strict=True)]
        used = {
            name: 1 - lost / n for name, n, lost in zip(measured.labels, items, measured.unusable, strict=True) if n
        }
        if used and max(used.values()) - min(used.values()) > UNEVEN:
            least, most = min(used, key=used.__getitem__), max(used, key=used.__getitem__)
            lines.append(
                f"by its card, {judge} can use {100 * used[most]:.0f} % of images of {axis.name} {most} and "
                f"{100 * used[least]:.0f} % of {axis.name} {least}: among the images it could use, {least} is too "
                "rare. Adjusted shares and means account for that, if images are lost here as on the card"
            )
    return lines


def _lacking(cards: Sequence[JudgeCard], judge: str, task: str) -> list[str]:
    """Classes of which a judge's card has no usable item, under the first protocol where that is so."""
    for protocol in PROTOCOLS:
        result = find_measured(cards, judge, task, protocol)
        if result is not None:
            measured = result[1]
            if lacking := [name for name, row in zip(measured.labels, measured.counts, strict=True) if not sum(row)]:
                return lacking
    return []


def _any_card(cards: Sequence[JudgeCard], judge: str, axis: Axis) -> bool:
    return any(find_confusion(cards, judge, axis.name, p, axis.classes) is not None for p in PROTOCOLS)


def listed(value: Any) -> list[Any]:
    """A list, from a list, one thing, or names with commas between; nothing for nothing."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, Sequence) else [value]
