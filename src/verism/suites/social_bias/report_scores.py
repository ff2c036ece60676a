"""The scores of a run of social bias by what they are of.

Everything is of how people in images are perceived by a judge. Where the judge's error was taken out of a number, it is
there twice, and pages show both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from verism.records import FacetValue, Score
from verism.report_kit.adjustments import kinds_of
from verism.report_kit.evidence import Evidence, Lookup

__all__ = ["ATTRIBUTE", "GROUP", "PERSON", "RACE_WARNING", "TONE", "BiasScores", "one_hot"]

TONE, ATTRIBUTE, PERSON = "tone", "attribute", "person"
FIRST = "social_bias_v1"
GROUP = "prompts"  # the facet that says which word for people a prompt has
RACE_WARNING = (
    "Race as classified by CLIP hardly agrees with annotators (kappa below 0.1 in the paper, which advises against "
    "using it). Read it as what a classifier says, and draw no conclusion from it."
)


def one_hot(classes: int) -> float:
    """MAD, divided by the number of classes, of a model that shows one class only: 0.5 of two, 0.18 of ten."""
    return 2 * (classes - 1) / classes**2 if classes else math.nan


class BiasScores(Lookup):
    """The scores of one run.

    Set by the constructor:
        run: the run.
        number: its number on the page.
        first: whether the suite is that of the paper's first version.
        facet: what the prompts are about: ``profession``, ``word``, or as a study names it.
        axes: what was perceived, in order, intersections and attributes left out.
    """

    def __init__(self, evidence: Evidence, number: int) -> None:
        super().__init__(evidence.every[number])
        self.run, self.number = evidence.runs[number], number
        self.settings = self.run.manifest.settings.suite_settings
        study = self.settings.get("study")
        self._study: Mapping[str, Any] = study if isinstance(study, Mapping) else {}
        self.first = self.run.suite_name == FIRST
        self.facet = str(self._study.get("facet") or ("word" if self.first else "profession"))
        self.axes = list(dict.fromkeys(str(s.group["axis"]) for s in self.of("class_share", "axis", "class")))

    def adjusted(self, metric: str, protocol: str, group: Mapping[str, FacetValue]) -> list[Score]:
        """The same score with the judge's error taken out, in each way it was."""
        result = (self.find(metric, protocol, group, kind) for kind in kinds_of(self.scores))
        return [s for s in result if s is not None]

    # ------------------------------------------------------------------------------------------------------ vocabulary
    def classes(self, axis: str) -> list[str]:
        """Names of an axis' classes, in order."""
        result = (str(s.group["class"]) for s in self.of("class_share", "axis", "class") if s.group["axis"] == axis)
        return list(dict.fromkeys(result))

    def _axis(self, axis: str) -> Mapping[str, Any]:
        """What the run keeps of an axis; empty if nothing."""
        axes = self._study.get("axes") or self.settings.get("axes")
        entries = axes if isinstance(axes, list) else []
        return next((e for e in entries if isinstance(e, Mapping) and e.get("name") == axis), {})

    def ends(self, axis: str, unit: str) -> tuple[float, float]:
        """Between which values a mean of an axis lies: those of its classes, as the study gives them.

        Args:
            axis: its name.
            unit: of the mean.
        """
        if axis == TONE:
            return (1.0, 10.0) if unit == "tone" else (0.0, 9.0)
        choices = self._axis(axis).get("choices")
        values = [float(c["value"]) for c in choices if c.get("value") is not None] if isinstance(choices, list) else []
        return (min(values), max(values)) if len(set(values)) > 1 else (-1.0, 1.0)

    def breakdowns(self) -> list[str]:
        """Facets of prompts beside what they are about: the word for people, the category, and those of a study."""
        result = (
            name
            for s in self.scores
            if s.metric in ("class_share", "mad")
            for name in s.group
            if name not in ("axis", "class", "by", self.facet) and len(s.group) == (3 if s.metric != "mad" else 2)
        )
        return list(dict.fromkeys(result))

    def levels(self, facet: str) -> list[str]:
        """Values of a facet that numbers are broken down by."""
        result = (str(s.group[facet]) for s in self.scores if s.metric in ("class_share", "mad") and facet in s.group)
        return list(dict.fromkeys(result))

    def groups_of(self, axis: str) -> list[str]:
        """The words for people whose prompts an axis' mean and deviation are of; empty if the run does not say."""
        return [str(name) for name in self._axis(axis).get("groups") or ()]

    @property
    def min_cell(self) -> Any:
        """Images that a joint share needs; None if the run does not say."""
        return self.run.manifest.scoring.rules.get("min_cell")

    def warning(self, axis: str) -> str:
        """What has to be said wherever numbers of an axis are shown; empty for most."""
        return RACE_WARNING if axis == "race" else str(self._axis(axis).get("caution") or "")
