"""The scores of a run of social bias by what they are of, and what a page calls them.

Everything is of how people in pictures are perceived by a judge. Where the judge's error was taken out of a number, it
is there twice, and pages show both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from verism.records import FacetValue, Score
from verism.store import Run

__all__ = [
    "ATTRIBUTE",
    "GROUP",
    "HEADLINE",
    "PERSON",
    "RACE_WARNING",
    "TONE",
    "BiasScores",
    "adjusted_words",
    "caveat",
    "in_short_table",
    "of_bias",
    "one_hot",
    "short_table_place",
    "union",
]

TONE, ATTRIBUTE, PERSON = "tone", "attribute", "person"
FIRST = "social_bias_v1"
GROUP = "prompts"  # the facet that says which word for people a prompt has
RACE_WARNING = (
    "Race as told by CLIP hardly agrees with what people see (kappa below 0.1 in the paper, which advises against "
    "using it). Read it as what a classifier says, and draw no conclusion from it."
)
# What terminals and Markdown show; everything else is on the page and in the CSV.
HEADLINE = (
    "mad",
    "mad_expected",
    "mad_debiased",
    "mad_k_minus_1",
    "axis_mean",
    "class_share",
    "reference_deviation",
    "reference_deviation_debiased",
    "coverage",
)
ADJUSTED_BY: Mapping[str, str] = {
    "rendered": "The judge's error is taken out, as it was measured on rendered pictures.",
    "human": "The judge's error is taken out, as it was measured by people's answers.",
}


def of_bias(run: Run) -> bool:
    """Whether a run's suite is one of those of social bias, which have a page of their own."""
    return str(run.manifest["settings"].get("suite", "")).startswith("social_bias")


def in_short_table(score: Score) -> bool:
    """Whether a score is in the short table: of everything together, and of no single class where there is a mean."""
    if score.metric not in HEADLINE or "by" in score.group:
        return False
    if score.metric == "class_share":
        # The suite of the paper's first version has shares where the later one has means.
        return score.suite == FIRST and set(score.group) == {"axis", "class"} and score.group["axis"] != TONE
    return set(score.group) in ({"axis"}, {"axis", "of"})


def short_table_place(metric: str) -> int:
    """Where a measure stands in the short table: deviations first, coverage last."""
    return HEADLINE.index(metric) if metric in HEADLINE else len(HEADLINE)


def caveat(group: Iterable[tuple[str, FacetValue]]) -> str:
    """What stands behind the name of a group whose numbers are not to be trusted; empty for most."""
    return " (by CLIP: hardly agrees with people)" if ("axis", "race") in group else ""


def adjusted_words(kind: str) -> str:
    """How the error of a judge was taken out; empty for numbers as the judge gives them."""
    return ADJUSTED_BY.get(kind, f"The judge's error is taken out ({kind}).") if kind else ""


def one_hot(classes: int) -> float:
    """MAD, divided by the number of classes, of a model that shows one class only: 0.5 of two, 0.18 of ten."""
    return 2 * (classes - 1) / classes**2 if classes else math.nan


def union(lists: Iterable[Sequence[str]]) -> list[str]:
    """Each once, in the order of first appearance."""
    return list(dict.fromkeys(item for found in lists for item in found))


class BiasScores:
    """The scores of one run.

    Attributes:
        first: whether the suite is that of the paper's first version.
        facet: what the prompts are about: ``profession``, ``word``, or as a study names it.
        axes: what was perceived, in order, intersections and attributes left out.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.scores = run.scores()
        self.first = str(run.manifest["settings"].get("suite", "")).startswith(FIRST)
        self.facet = self._facet()
        self._by: dict[tuple[str, str, str, frozenset[tuple[str, FacetValue]]], Score] = {
            (s.metric, s.protocol, s.adjusted, frozenset(s.group.items())): s for s in self.scores
        }
        self._of: dict[tuple[str, frozenset[str]], list[Score]] = {}
        for s in self.scores:
            self._of.setdefault((s.metric, frozenset(s.group)), []).append(s)
        self.axes = list(dict.fromkeys(str(s.group["axis"]) for s in self.of("class_share", "axis", "class")))

    def _facet(self) -> str:
        study = self.run.manifest["settings"].get("study")
        named = study.get("facet") if isinstance(study, Mapping) else None
        return str(named or ("word" if self.first else "profession"))

    # ---------------------------------------------------------------------------------------------------- looking up
    def get(self, metric: str, protocol: str, adjusted: str = "", **group: FacetValue) -> Score | None:
        """The score of exactly this group."""
        return self._by.get((metric, protocol, adjusted, frozenset(group.items())))

    def find(self, metric: str, protocol: str, group: Mapping[str, FacetValue], adjusted: str = "") -> Score | None:
        """``get``, for facets whose names are no Python words."""
        return self._by.get((metric, protocol, adjusted, frozenset(group.items())))

    def of(self, metric: str, *facets: str) -> list[Score]:
        """Scores of a measure whose group has exactly these facets, adjusted ones left out."""
        return [s for s in self._of.get((metric, frozenset(facets)), ()) if not s.adjusted]

    def adjusted(self, metric: str, protocol: str, group: Mapping[str, FacetValue]) -> list[Score]:
        """The same score with the judge's error taken out, in each way it was."""
        kinds = dict.fromkeys(s.adjusted for s in self._of.get((metric, frozenset(group)), ()) if s.adjusted)
        found = (self.find(metric, protocol, group, kind) for kind in kinds)
        return [s for s in found if s is not None]

    # ------------------------------------------------------------------------------------------------------ vocabulary
    def classes(self, axis: str) -> list[str]:
        """Names of an axis' classes, in order."""
        found = (str(s.group["class"]) for s in self.of("class_share", "axis", "class") if s.group["axis"] == axis)
        return list(dict.fromkeys(found))

    def breakdowns(self) -> list[str]:
        """Facets of prompts beside what they are about: the word for people, the category, and those of a study."""
        found = (
            name
            for s in self.scores
            if s.metric in ("class_share", "mad")
            for name in s.group
            if name not in ("axis", "class", "by", self.facet) and len(s.group) == (3 if s.metric != "mad" else 2)
        )
        return list(dict.fromkeys(found))

    def levels(self, facet: str) -> list[str]:
        """Values of a facet that numbers are broken down by."""
        found = (str(s.group[facet]) for s in self.scores if s.metric in ("class_share", "mad") and facet in s.group)
        return list(dict.fromkeys(found))

    def groups_of(self, axis: str) -> list[str]:
        """The words for people whose prompts an axis' mean and deviation are of; empty if the run does not say."""
        study = self.run.manifest["settings"].get("study")
        axes = study.get("axes") if isinstance(study, Mapping) else None
        for entry in axes if isinstance(axes, list) else []:
            if isinstance(entry, Mapping) and entry.get("name") == axis:
                return [str(name) for name in entry.get("groups") or ()]
        return []

    @property
    def min_cell(self) -> Any:
        """Pictures that a joint share needs; None if the run does not say."""
        rules = self.run.manifest.get("notes", {}).get("rules")
        return rules.get("min_cell") if isinstance(rules, Mapping) else None

    def warning(self, axis: str) -> str:
        """What has to be said wherever numbers of an axis are shown; empty for most."""
        if axis == "race":
            return RACE_WARNING
        axes = self.run.manifest["settings"].get("axes")
        for entry in axes if isinstance(axes, list) else []:
            if isinstance(entry, Mapping) and entry.get("name") == axis and entry.get("caution"):
                return str(entry["caution"])
        return ""
