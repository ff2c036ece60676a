"""TIFA as a suite: the user's copy of its questions with choices, one image per caption, any VQA model."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from verism.records import Score
from verism.statistics.intervals import Interval
from verism.suites.base import SHARE, Demo, Layout, MetricSpec, Option, Pairing, Row, Rule, SuiteInfo
from verism.suites.prompt_lists import check_unaltered
from verism.suites.questions.asked import AskedPrompt
from verism.suites.questions.metrics import question_metrics
from verism.suites.questions.scenes import scene_prompts
from verism.suites.questions.scoring import NOTHING, JudgedImage, Number, Tally, image_value
from verism.suites.questions.suite import QuestionSuite, question_options
from verism.suites.questions.switches import AnswerTest, Switches, switch_rules
from verism.suites.tifa.benchmark import EXPECTED, alterations, read_image_map, read_questions
from verism.suites.tifa.demo import DEMOS

__all__ = ["TIFA"]

PAPER = "Hu et al. 2023, TIFA, arXiv:2303.11897"
REVISED = Switches(dependency="none")
TESTS: tuple[AnswerTest, ...] = ("read", "choice", "nearest", "probability")


@dataclass(frozen=True, kw_only=True, eq=False)
class TIFA(QuestionSuite):
    """The questions of the released file, or our own about rendered scenes.

    Attributes:
        presets: the switches of each protocol.
        headline: name of the main number.
        info: name, title, question, protocols and limits, see ``Suite``.
        commands: commands of its own for the command line, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and questions, see ``Option``.
        rules: what changes scores without new images or answers, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
    """

    presets: ClassVar[Mapping[str, Switches]] = {
        "revised": REVISED,
        "released": Switches(answer_test="nearest", dependency="none", when_missing="refused"),
    }
    headline: ClassVar[str] = "tifa_score"

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="tifa",
        title="TIFA",
        question="How many questions about a caption are answered correctly from the image?",
        summary="4,081 captions, 25,000 questions with choices of 12 types (ICCV 2023); from your copy of the data",
        protocols={
            "revised": "A reply counts as the choice that it names, with strict parsing; any other is no answer, and "
            "counted. Use it to compare models and judges.",
            "released": "The released code: a reply that differs from all choices is mapped to the choice with the "
            "nearest sentence embedding. Needs a judge that embeds sentences. Use it to compare with "
            "published numbers.",
        },
        limits=(
            "The agreement with people that paper and README call Spearman's is Pearson's: verism reproduce tifa.",
            "Questions made by another language model are another benchmark.",
            "The published spread (tifa_stdev) is that of captions, not the error of the mean.",
        ),
        citation=PAPER,
    )
    published: ClassVar[Mapping[str, str]] = {"tifa": "verism.suites.tifa.published:tifa"}
    commands: ClassVar[Mapping[str, str]] = {"tifa": "verism.suites.tifa.cli:tifa"}
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = question_options(
        "Your copy of tifa_v1.0_question_answers.json; without it, verism's prompts about rendered scenes.",
        suffix="as the judge words it",
        n_images=1,
        grids=False,
    )
    rules: ClassVar[tuple[Rule, ...]] = switch_rules(REVISED, tests=TESTS)
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({"alignment": ("tifa_score",)})
    metrics: ClassVar[tuple[MetricSpec, ...]] = (
        *question_metrics("tifa_score", title="TIFA score", source=f"{PAPER}; released evaluation"),
        MetricSpec(
            "tifa_stdev",
            title="spread over images",
            meaning="Sample standard deviation of the scores of images, not the standard error of their mean.",
            scale=SHARE,
            better=None,
            source="released evaluation",
            compare="never",
            judges=("vqa",),
        ),
    )
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="questions", metric="tifa_score", facet="prompt_source", by_prompt=True),
    )
    layout: ClassVar[Layout] = Layout(
        rows=(Row("tifa_score"), Row("tifa_stdev"), Row("category_score", ("category",)), Row("answered")),
        detail=("prompt_source",),
        names={"prompt_source": "source of the captions", "category": "type of element"},
    )

    @classmethod
    def read(cls, path: Path | None, *, own: bool) -> tuple[Sequence[AskedPrompt], Mapping[str, Any]]:
        """The captions of the user's copy, or our own prompts about rendered scenes.

        Args:
            path: the file; None: our own prompts.
            own: whether a file is meant to differ from the released one.

        Raises:
            UsageError: a file that is not the released one, and ``own`` does not say that this is meant.
        """
        if path is None:
            return scene_prompts(choices=True), {"scenes": True}
        prompts = read_questions(path)
        altered = alterations(prompts)
        check_unaltered(path, altered, EXPECTED, own=own)
        return prompts, {"altered": altered}

    @classmethod
    def assemble(cls, every: Sequence[AskedPrompt], source: Mapping[str, Any], **options: Any) -> Self:
        """As of every suite of questions; ``images`` may be the released object of path by caption id.

        Args:
            every: all prompts.
            source: what they are.
            **options: see the base.
        """
        images = options.get("images")
        if images is None or images.suffix.lower() != ".json":
            return super().assemble(every, source, **options)
        made = super().assemble(every, source, **{**options, "images": None})
        return made._with(found=tuple(read_image_map(images, made.asked)))

    def rows(self, protocol: str, images: Sequence[JudgedImage]) -> Sequence[Any]:
        """The score of each image, whose spread is a number; None where it has none.

        Args:
            protocol: under which the images were judged.
            images: all images of some prompts.
        """
        switches = self.switches(protocol)
        return [image_value(image, switches) for image in images]

    def _scores(self, protocol: str, tally: Tally) -> list[Score]:
        values = [value for value in tally.rows if value is not None]
        interval = Interval(statistics.stdev(values), NOTHING.low, NOTHING.high) if len(values) > 1 else NOTHING
        spread = Number(interval, len(values), len(tally.rows) - len(values))
        return [*super()._scores(protocol, tally), self._score("tifa_stdev", protocol, {}, spread)]
