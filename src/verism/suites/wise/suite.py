"""WISE as a suite: the user's prompts of one edition, one image each, any VLM judge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, cast

from verism.errors import UsageError
from verism.records import AnswerNeed, FacetValue, Observed, Prompt
from verism.statistics.intervals import Interval, mean_of_independent
from verism.suites.base import SHARE, Demo, Layout, MetricSpec, Option, Pairing, Row, Rule, Scale, SuiteInfo
from verism.suites.prompt_lists import check_unaltered
from verism.suites.questions.asked import AskedPrompt
from verism.suites.questions.metrics import question_metrics
from verism.suites.questions.scoring import NOTHING, JudgedImage, Key, Mean, overall_mean
from verism.suites.questions.suite import QuestionSuite, question_options
from verism.suites.questions.switches import AnswerTest, Reply, Switches, own_value, switch_rules
from verism.suites.wise.benchmark import (
    CATEGORIES,
    EXPECTED,
    LEVELS,
    Edition,
    alterations,
    edition_of,
    our_wording,
    read_prompts,
    read_wording,
)
from verism.suites.wise.demo import DEMOS
from verism.suites.wise.own_prompts import own_prompts

__all__ = ["Wise"]

PAPER = "Niu et al. 2025, arXiv:2503.07265"
LEGACY_SCALE = Scale("wiscore", 0.0, None)  # the released parser of the legacy edition takes any digit
# The main number by edition: the two have one name outside, ids and names of images in common, and are incompatible.
MAIN: Mapping[Edition, str] = {"verified": "wiscore_verified", "legacy": "wiscore_legacy"}
MEANINGS: Mapping[Edition, str] = {
    "verified": "Mean of the categories, weighted by their prompts, of the share of images judged right.",
    "legacy": "Mean of the categories, weighted by their prompts, of the mean over prompts of (0.7 consistency + 0.2 "
    "realism + 0.1 aesthetic quality) / 2.",
}
# By edition: how a reply is read, strictly and as released.
READ: Mapping[Edition, tuple[AnswerTest, AnswerTest]] = {
    "verified": ("score_line", "score_line"),
    "legacy": ("level", "digit"),
}
SCALES: Mapping[Edition, Scale] = {"verified": SHARE, "legacy": LEGACY_SCALE}
LEVEL_MEAN = "level_mean_legacy"
REVISED = Switches(answer_test="score_line", dependency="none", when_missing="image_dropped")
RELEASED = Switches(answer_test="score_line", dependency="none", when_missing="refused")
SHARED = ("answered", "true_score", "judge_false_yes", "judge_false_no")


def _metrics() -> tuple[MetricSpec, ...]:
    made = []
    for edition, name in MAIN.items():
        for spec in question_metrics(name, title=f"WiScore ({edition} edition)", source=PAPER):
            if spec.name == name:
                meaning = f"{MEANINGS[edition]} Not comparable with the other edition's WiScore."
                made.append(replace(spec, meaning=meaning, scale=SCALES[edition]))
            elif spec.name == f"{name}_if_unusable_wrong":
                made.append(replace(spec, scale=SCALES[edition]))
    made += [spec for spec in question_metrics("", title="WiScore", source=PAPER) if spec.name in SHARED]
    made.append(
        MetricSpec(
            LEVEL_MEAN,
            title="mean level (legacy edition)",
            meaning="Mean over prompts of one of the three scores of the legacy edition, over its highest level 2.",
            scale=LEGACY_SCALE,
            better="higher",
            source=PAPER,
            judges=("vqa",),
        )
    )
    return tuple(made)


@dataclass(frozen=True, kw_only=True)
class MeanOverCategories(Mean):
    """The mean of categories of prompts, each weighted by its prompts that were asked.

    Attributes:
        parts: the mean of each category; one without images does not count.
        weights: prompts of each category.
        n_used: images that entered it, over all categories.
        n_unusable: those that did not.
    """

    parts: Mapping[FacetValue, Mean]
    weights: Mapping[FacetValue, int]
    n_used: int = field(init=False)
    n_unusable: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_used", sum(part.n_used for part in self.parts.values()))
        object.__setattr__(self, "n_unusable", sum(part.n_unusable for part in self.parts.values()))

    @property
    def interval(self) -> Interval:
        """Mean and ends; NaN where undefined."""
        kept = {category: weight for category, weight in self.weights.items() if weight}
        intervals = [self.parts[category].interval for category in kept]
        if not kept or any(math.isnan(interval.value) for interval in intervals):
            # A category without a number leaves none in all: the others do not stand for it.
            return NOTHING
        weights = [float(weight) for weight in kept.values()]
        if all(not math.isnan(end) for interval in intervals for end in interval):
            return mean_of_independent(intervals, weights)
        total = sum(weights)
        value = sum(w * interval.value for w, interval in zip(weights, intervals, strict=True)) / total
        return Interval(value, NOTHING.low, NOTHING.high)

    def coded(self, rank: Mapping[str, int]) -> Self:
        """As of any mean, see ``Mean``."""
        return replace(self, parts={category: part.coded(rank) for category, part in self.parts.items()})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """As of any mean, see ``Mean``."""
        return cls(
            parts={c: Mean.joined([part.parts[c] for part in parts]) for c in parts[0].parts},
            weights={c: sum(part.weights[c] for part in parts) for c in parts[0].parts},
            n_images=sum(part.n_images for part in parts),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Wise(QuestionSuite):
    """The prompts of one edition, or our own about things that the simulator renders.

    Attributes:
        edition: ``verified`` (19 April 2026 and later: right or wrong) or ``legacy`` (before: three scores).
        wording_source: whose words the judge is asked in: ``ours``, or name and hash of a file.
        presets: the switches of each protocol, of the verified edition.
        headline: name of the main number.
        grouped_by: facets of questions.
        prompt_facets: facets of prompts.
        usual_suffix: nothing stands behind the question.
        info: name, title, question, protocols and limits, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and questions, see ``Option``.
        rules: what changes scores without new images or answers, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
    """

    edition: Edition = "verified"
    wording_source: str = "ours"

    presets: ClassVar[Mapping[str, Switches]] = {"revised": REVISED, "released": RELEASED}
    headline: ClassVar[str] = MAIN["verified"]
    grouped_by: ClassVar[tuple[str, ...]] = ()
    prompt_facets: ClassVar[tuple[str, ...]] = ("knowledge", "subcategory")
    usual_suffix: ClassVar[str | None] = ""

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="wise",
        title="WISE",
        question="Does the model have the world knowledge that a prompt requires?",
        summary="1,000 prompts on culture, time, space, biology, physics, chemistry; two editions; from your copy",
        protocols={
            "revised": "Strict parsing of replies; images without a usable reply are counted and excluded. Use it to "
            "compare models and judges.",
            "released": "The released arithmetic: no number with a missing image or reply; in the legacy edition any "
            "digit counts as a level.",
        },
        limits=(
            "The two editions share ids, file names of images and the name WiScore, and their numbers cannot be "
            "compared; runs of different editions are refused.",
            "A judge can only check facts that it knows, and may accept images of facts that it does not know.",
            "Published numbers come from named judges and the released words; ours are other words unless you bring "
            "the released ones.",
        ),
        citation=PAPER,
    )
    published: ClassVar[Mapping[str, str]] = {"wise": "verism.suites.wise.published:wise"}
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        *(
            option
            for option in question_options(
                "Your copy of the prompts: a JSON file, or the folder of an edition; without it, verism's prompts.",
                suffix="none",
                n_images=1,
                grids=False,
            )
            if option.name != "suffix"
        ),
        Option(
            "edition",
            str,
            help="Edition of the prompts; by default from the file names.",
            choices=tuple(CATEGORIES),
        ),
        Option(
            "instructions",
            Path,
            help="Wording with {prompt} and {explanation}; by default verism's.",
        ),
    )
    rules: ClassVar[tuple[Rule, ...]] = tuple(
        rule for rule in switch_rules(REVISED, tests=("score_line",)) if rule.name in ("when_missing", "images_counted")
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({"knowledge": tuple(MAIN.values())})
    metrics: ClassVar[tuple[MetricSpec, ...]] = _metrics()
    pairings: ClassVar[tuple[Pairing, ...]] = tuple(
        Pairing(rule="questions", metric=name, facet="knowledge", scale=SCALES[edition], by_prompt=True)
        for edition, name in MAIN.items()
    )
    layout: ClassVar[Layout] = Layout(
        rows=(
            *(Row(name, facets) for name in MAIN.values() for facets in ((), ("knowledge",))),
            Row(LEVEL_MEAN, ("judged_by",)),
            Row("answered"),
        ),
        detail=("subcategory",),
        names={"knowledge": "category", "judged_by": "score of the judge"},
    )

    # -------------------------------------------------------------------------------------------------------- making
    @classmethod
    def read(cls, path: Path | None, *, own: bool) -> tuple[Sequence[AskedPrompt], Mapping[str, Any]]:
        """The prompts of a file whose name tells its edition; see ``build`` for others.

        Args:
            path: the file; None: our own prompts.
            own: whether a file is meant to differ from the released one.

        Raises:
            UsageError: an unknown edition, or a file that is not the released one and not meant to differ.
        """
        return cls._read(path, own=own, edition=None, instructions=None)[0:2]

    @classmethod
    def _read(
        cls, path: Path | None, *, own: bool, edition: Edition | None, instructions: Path | None
    ) -> tuple[Sequence[AskedPrompt], Mapping[str, Any], Edition, str]:
        if path is None:
            if edition == "legacy":
                raise UsageError("our own prompts are right or wrong, as in the verified edition; name --prompts FILE")
            wording = our_wording("verified") if instructions is None else read_wording(instructions)
            return own_prompts(wording), {"scenes": True}, "verified", wording.source
        named = edition_of(path) if path.exists() else None
        if edition is None and named is None:
            raise UsageError(
                f"{path}: its name does not show the edition, and ids and names are the same in both; give "
                "--edition verified or --edition legacy"
            )
        if edition is not None and named is not None and edition != named:
            raise UsageError(f"{path} is of the {named} edition by its name, and --edition says {edition}")
        known = edition or named or "verified"
        wording = our_wording(known) if instructions is None else read_wording(instructions)
        prompts, digest = read_prompts(path, known, wording)
        altered = alterations(prompts, known)
        check_unaltered(path, altered, EXPECTED, own=own)
        return prompts, {"sha256": digest, "altered": altered}, known, wording.source

    @classmethod
    def build(
        cls,
        *arguments: Any,
        prompts_file: Path | None = None,
        own: bool = False,
        edition: str | None = None,
        instructions: Path | None = None,
        **options: Any,
    ) -> Self:
        """The suite with the prompts of one edition.

        Args:
            *arguments: none are given.
            prompts_file: the user's copy, a file or a folder; None: our own prompts.
            own: whether it is meant to differ from the released one.
            edition: ``verified`` or ``legacy``; None: as the names of the files tell.
            instructions: words in which a judge is asked; None: ours.
            **options: of ``assemble``.

        Raises:
            UsageError: an edition that is not known, or files that are not the released ones.
        """
        del arguments
        every, source, known, wording = cls._read(
            prompts_file, own=own, edition=cast("Edition | None", edition), instructions=instructions
        )
        return cls.assemble(every, source, **options)._with(edition=known, wording_source=wording)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite whose prompts a run stored, with its edition."""
        made = super().reopen(settings, prompts)
        return made._with(edition=settings["edition"], wording_source=settings["wording"])

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and questions: the edition, and whose words the judge is asked in."""
        return {**super().settings(), "edition": self.edition, "wording": self.wording_source}

    @property
    def compared_settings(self) -> Sequence[str]:
        """Numbers of two editions, or of two wordings, are not comparable."""
        return ("edition", "wording")

    @property
    def main_metric(self) -> str:
        """WiScore, under the name of its edition."""
        return MAIN[self.edition]

    def all_pairings(self) -> Sequence[Pairing]:
        """How two runs are compared image by image: by the WiScore of their edition."""
        return [pairing for pairing in self.pairings if pairing.metric == self.main_metric]

    def switches(self, protocol: str) -> Switches:
        """The switches of a protocol; how a reply is read is the edition's.

        Args:
            protocol: its name.
        """
        strict, released = READ[self.edition]
        return replace(super().switches(protocol), answer_test=strict if protocol == "revised" else released)

    # -------------------------------------------------------------------------------------------------------- scores
    def overall(self, images: Sequence[JudgedImage], switches: Switches) -> Mean:
        """The categories' means, weighted by the prompts asked of each: what is missing does not shift the weights.

        Args:
            images: all that were asked for, also missing ones.
            switches: what becomes of what is missing.
        """
        members: dict[FacetValue, list[JudgedImage]] = {p.facets.get("knowledge"): [] for p in self.asked}
        for image in images:
            members[self._by_id[image.prompt_id].facets.get("knowledge")].append(image)
        return MeanOverCategories(
            parts={category: overall_mean(some, switches) for category, some in members.items()},
            weights={category: len({image.prompt_id for image in some}) for category, some in members.items()},
            n_images=len(images),
        )

    def means(self, protocol: str, images: Sequence[JudgedImage]) -> dict[Key, Mean]:
        """As of every suite of questions; of the legacy edition also that of each level.

        Args:
            protocol: under which the images were judged.
            images: all images of some prompts.
        """
        means = super().means(protocol, images)
        if self.edition == "legacy":
            switches = self.switches(protocol)
            for name in LEVELS:
                of_level = [replace(image, values={name: image.values.get(name)}, own={name: image.own.get(name)})
                            for image in images]  # fmt: skip
                means[LEVEL_MEAN, "judged_by", name] = self.overall(of_level, switches)
        return means

    # -------------------------------------------------------------------------------------------------------- remarks
    def counts(self, observed: Observed) -> Mapping[str, int]:
        """Requests, those without a reply, and replies that could not be read."""
        counts = dict(super().counts(observed))
        answers = observed.observations.get(AnswerNeed.table)
        if answers is not None:
            asked = answers.filter(answers["question"].is_not_null())
            questions = self.asked[0].questions if self.asked else ()
            test = READ[self.edition][0]
            replies = [Reply(text=text) for text in asked["answer"].drop_nulls().to_list()]
            counts["unread"] = sum(any(own_value(q, reply, test) is None for q in questions) for reply in replies)
        return counts

    def _answer_remarks(self, counts: Mapping[str, int]) -> list[str]:
        """Replies that there are not, and those that could not be read."""
        asked, without, unread = counts["asked"], counts["without_reply"], counts["unread"]
        lines = [f"{without:,} of {asked:,} requests have no reply"] if without else []
        if unread:
            lines.append(
                f"{unread:,} of {asked - without:,} replies could not be read; where they were cut off, allow longer "
                "ones (--vqa 'NAME?max_new_tokens=500', of services max_tokens)"
            )
        return lines

    def remarks(self, observed: Observed) -> Sequence[str]:
        """The edition, the wording, and replies that could not be read."""
        lines = [f"edition: {self.edition}; words in which the judge is asked: {self.wording_source}"]
        lines += super().remarks(observed)
        if self.wording_source == "ours" and not self.source.get("scenes"):
            lines.append("the judge is asked in words of ours: not comparable with published numbers (--instructions)")
        return lines
