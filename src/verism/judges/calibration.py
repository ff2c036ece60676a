"""How judges of a role are held against images whose content is known, for judge cards."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from verism.errors import UsageError
from verism.records import Need

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CALIBRATIONS", "Calibration", "Reading", "calibration_of"]


class Reading(NamedTuple):
    """What a judge's observations of an image mean under a protocol.

    Attributes:
        image_id: the image.
        task: what was asked, as in judge cards.
        protocol: by whose rules the observations are read.
        predicted: the class; None where nothing usable was observed.
    """

    image_id: str
    task: str
    protocol: str
    predicted: str | None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How judges of a role are calibrated.

    Attributes:
        need: what is asked of the judge; its role enters the card.
        tasks: by task, its classes in the order of the card; each is a column of the table of truth.
        facets: further columns of that table by whose values tables are made besides, with the name on the card.
        read: from ids of images and the observations of all of them to what they mean.
    """

    need: Need
    tasks: Mapping[str, Sequence[str]]
    read: Callable[[Sequence[str], pl.DataFrame], Iterable[Reading]]
    facets: Mapping[str, str]


CALIBRATIONS: Mapping[str, str] = {"skin_tone": "verism.judges.skin_tone.calibration:CALIBRATION"}  # by role


def calibration_of(role: str) -> Calibration:
    """How judges of a role are calibrated.

    Raises:
        UsageError: nobody has said so for this role.
    """
    if role not in CALIBRATIONS:
        raise UsageError(f"{role!r}: without a run there are only cards of {', '.join(CALIBRATIONS)}")
    module, _, attribute = CALIBRATIONS[role].partition(":")
    calibration = getattr(importlib.import_module(module), attribute)
    assert isinstance(calibration, Calibration)
    return calibration
