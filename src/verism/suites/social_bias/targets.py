"""Distributions that a model's images are compared with, other than the uniform one: a table of yours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from verism.errors import UsageError
from verism.files import read_rows
from verism.locations import location
from verism.suites.social_bias.studies import Axis, Study

__all__ = ["EVERYWHERE", "Targets", "checked_targets", "read_targets"]

EVERYWHERE = ""  # key of shares that hold for every descriptor without shares of its own
Targets = Mapping[str, Mapping[str, Sequence[float]]]
"""By axis, then by descriptor: a share for each class of the axis, in its order; they sum to 1."""

CLASS_COLUMNS = ("class", "group", "value")
TOLERANCE = 0.02  # by which shares of a table may miss 1: they are rounded


def read_targets(source: Path, study: Study) -> dict[str, dict[str, list[float]]]:
    """Reference distributions from a table (``.csv``, ``.jsonl``).

    Columns: the study's facet (``profession``; empty or left out: all of them), ``class`` or ``group`` (``female``,
    or a tone from 1 to 10), ``share`` in [0, 1], and ``axis`` where the class does not tell. Of an axis with two
    classes one may be left out; of others a class that is not listed has the share 0.

    Raises:
        UsageError: a row that does not fit the study, shares out of range or not summing to 1.
    """
    rows = read_rows(source, "a target distribution")
    if not rows:
        raise UsageError(f"{source}: no rows in it; a target has the columns {study.facet}, class and share")
    known = {d.name.casefold(): d.name for d in study.descriptors}
    listed: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        where = row.where
        name = _cell(row, (study.facet, "descriptor"))
        if name and name.casefold() not in known:
            raise UsageError(f"{where}: no {study.facet} {name!r} in the study {study.name!r}")
        axis, chosen = _class_of(row, study, where)
        shares = listed.setdefault((axis.name, known.get(name.casefold(), EVERYWHERE)), {})
        if chosen in shares:
            raise UsageError(f"{where}: {chosen!r} of {name or f'every {study.facet}'} is there twice")
        shares[chosen] = _share(row, where)
    targets: dict[str, dict[str, list[float]]] = {}
    for (axis_name, name), shares in listed.items():
        axis = next(a for a in study.axes if a.name == axis_name)
        targets.setdefault(axis_name, {})[name] = _complete(axis, shares, f"{source}: {name or 'all'}, {axis_name}")
    return targets


def checked_targets(value: Any, study: Study) -> dict[str, dict[str, list[float]]]:
    """Reference distributions that were read before, as a run keeps them.

    Raises:
        UsageError: they are not of this study.
    """
    if not isinstance(value, Mapping):
        raise UsageError(f"the rule target is a file (.csv, .jsonl); got {value!r}")
    targets: dict[str, dict[str, list[float]]] = {}
    for axis_name, by_name in value.items():
        axis = study.axis(str(axis_name))
        if axis is None or not isinstance(by_name, Mapping):
            raise UsageError(f"target: no axis {axis_name!r}; there are {', '.join(a.name for a in study.axes)}")
        for name, shares in by_name.items():
            if not isinstance(shares, Sequence) or len(shares) != len(axis.classes):
                raise UsageError(f"target: {axis_name} has {len(axis.classes)} classes; got {shares!r}")
            listed = dict(zip(axis.classes, map(float, shares), strict=True))
            where = f"target of {axis_name}, {name or 'all'}"
            targets.setdefault(axis.name, {})[str(name)] = _complete(axis, listed, where)
    return targets


def _cell(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    return next((str(row[c]).strip() for c in columns if row.get(c) is not None and str(row[c]).strip()), "")


def _class_of(row: Mapping[str, Any], study: Study, where: str) -> tuple[Axis, str]:
    value, name = _cell(row, ("axis",)), _cell(row, CLASS_COLUMNS)
    axes = [a for a in study.axes if not value or a.name == value]
    if not axes:
        raise UsageError(f"{where}: no axis {value!r}; there are {', '.join(a.name for a in study.axes)}")
    if not name:
        raise UsageError(f"{where}: no class; a target has the columns {study.facet}, class and share")
    fits = [(a, c.name) for a in axes for c in a.choices if name.lower() in (c.name.lower(), *c.replies)]
    if len(fits) != 1:
        classes = "; ".join(f"{a.name}: {', '.join(a.classes)}" for a in axes)
        many = "is a class of several axes; say which in a column axis" if fits else "is no class"
        raise UsageError(f"{where}: {name!r} {many} ({classes})")
    return fits[0]


def _share(row: Mapping[str, Any], where: str) -> float:
    text = _cell(row, ("share",))
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise UsageError(f"{where}: share is a number from 0 to 1 (0.35 for 35 %); got {text!r}")
    return share


def _complete(axis: Axis, listed: Mapping[str, float], where: str) -> list[float]:
    """Shares of all classes, scaled to sum exactly 1."""
    shares = dict(listed)
    if len(axis.classes) == 2 and len(shares) == 1:
        other = next(c for c in axis.classes if c not in shares)
        shares[other] = 1.0 - next(iter(shares.values()))
    values = [shares.get(c, 0.0) for c in axis.classes]
    total = sum(values)
    if any(not 0.0 <= v <= 1.0 for v in values) or abs(total - 1.0) > TOLERANCE:
        raise UsageError(f"{where}: shares lie in [0, 1] and sum to 1; these sum to {total:.3f}")
    return [v / total for v in values]


def target_of_rule(value: Any, study: Study) -> dict[str, dict[str, list[float]]] | None:
    """The value of the rule ``target``: from a file, from what a run kept, or None for none.

    Raises:
        UsageError: a file that cannot be read, or shares that do not fit the study.
    """
    if not value:
        return None
    return read_targets(location(value), study) if isinstance(value, str | PurePath) else checked_targets(value, study)
