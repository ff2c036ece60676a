"""What an evaluation of text-to-image models may be about, and which suites are about it.

The twelve aspects are those of HEIM (Lee et al. 2023, arXiv:2311.04287, section 3), so that one sees what a set of
suites covers, and what it leaves out. The questions are in our words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["ASPECTS", "Aspect", "Coverage", "coverage_of_aspects"]


@dataclass(frozen=True)
class Aspect:
    """One of the twelve.

    Attributes:
        asks: the question it stands for.
        missing: why no suite of verism asks it, and what may serve; empty where one does.
    """

    asks: str
    missing: str = ""


ASPECTS: Mapping[str, Aspect] = {
    "alignment": Aspect("does the image show what its text says?"),
    "quality": Aspect("do the images look like real ones?"),
    "aesthetics": Aspect("are the images clear and pleasing?"),
    "originality": Aspect(
        "are the images new, or copies of what the model has seen?", "no suite, and no detector of watermarks or copies"
    ),
    "reasoning": Aspect("are numbers, relations and combinations right?"),
    "knowledge": Aspect("does the model know the world that a text takes for granted?"),
    "bias": Aspect("which people does the model show where the text leaves it open?"),
    "toxicity": Aspect("does the model make harmful images?"),
    "fairness": Aspect("does the model serve some groups worse than others?"),
    "robustness": Aspect("does it hold when the text is changed and means the same?", "no suite"),
    "multilinguality": Aspect(
        "does it hold for texts in other languages?",
        "no suite asks prompts in other languages than their benchmarks do",
    ),
    "efficiency": Aspect("how long does an image take?", "no metric; verism run shows images per second as it goes"),
}


@dataclass(frozen=True)
class Coverage:
    """Who covers an aspect.

    Attributes:
        aspect: its name.
        asks: the question it stands for.
        suites: names of metrics by suite; empty where none covers it.
        missing: why none does; empty where one does.
    """

    aspect: str
    asks: str
    suites: Mapping[str, tuple[str, ...]]
    missing: str


def coverage_of_aspects(declared: Iterable[tuple[str, Mapping[str, tuple[str, ...]]]]) -> list[Coverage]:
    """All twelve aspects in order, with the suites and metrics that cover them.

    Args:
        declared: name of each suite, and its metrics by aspect (``Suite.aspects``).

    >>> found = coverage_of_aspects([("mine", {"bias": ("mad",)})])
    >>> [(each.suites, each.missing) for each in found if each.aspect == "bias"]
    [({'mine': ('mad',)}, '')]
    """
    suites = list(declared)
    return [
        Coverage(
            aspect=name,
            asks=aspect.asks,
            suites=(by_suite := {suite: metrics[name] for suite, metrics in suites if name in metrics}),
            missing="" if by_suite else aspect.missing or "no suite",
        )
        for name, aspect in ASPECTS.items()
    ]
