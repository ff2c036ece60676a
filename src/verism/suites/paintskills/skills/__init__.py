"""The skills of PaintSkills, one file each.

A new skill is one module with a ``Skill`` (below) and one line in ``SKILLS``; versions name the skills they have.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from verism.records import ProtocolName, SceneObject
from verism.suites.paintskills.boxes import Boxes, Decision, Expected, Thresholds
from verism.suites.paintskills.vocabulary import Version

__all__ = ["SKILLS", "Cell", "Skill", "skill"]

Cell = Mapping[str, Any]


class Skill(Protocol):
    """One skill: its cells, its scenes, its prompts' words, its rules."""

    @property
    def name(self) -> str: ...

    @property
    def breakdowns(self) -> tuple[str, ...]:
        """Facets worth a breakdown of their own."""
        ...

    def cells(self, version: Version) -> Iterator[Cell]:
        """Every combination of factors, in the published order; keys are facets, values are labels or numbers."""
        ...

    def objects(self, cell: Cell, version: Version) -> Sequence[SceneObject]:
        """What the scene of a cell holds."""
        ...

    def words(self, cell: Cell, version: Version) -> Mapping[str, str]:
        """What the placeholders of this skill's templates stand for."""
        ...

    def decide(self, protocol: ProtocolName, expected: Expected, boxes: Boxes, at: Thresholds) -> Sequence[Decision]:
        """The decisions about one image; the first is ``accuracy``."""
        ...

    def truth_key(self, expected: Expected) -> Hashable:
        """Equal for two prompts exactly if a perfect image of one is right for the other."""
        ...


def _registry() -> dict[str, Skill]:
    from verism.suites.paintskills.skills import color, count, object_, spatial

    skills: tuple[Skill, ...] = (
        object_.ObjectSkill(),
        count.CountSkill(),
        color.ColorSkill(),
        spatial.SpatialSkill(),
    )
    return {s.name: s for s in skills}


SKILLS: dict[str, Skill] = _registry()


def skill(name: str) -> Skill:
    """The skill of that name.

    Raises:
        ValueError: no such skill.
    """
    if name not in SKILLS:
        raise ValueError(f"unknown skill {name!r}; choose from {sorted(SKILLS)}")
    return SKILLS[name]
