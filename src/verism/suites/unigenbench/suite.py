"""UniGenBench as a suite: the user's prompts, a question for each test point, four images each, any VQA model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from verism.suites.base import Demo, Layout, MetricSpec, Option, Pairing, Row, Rule, SuiteInfo
from verism.suites.prompt_lists import check_unaltered
from verism.suites.questions.asked import AskedPrompt
from verism.suites.questions.metrics import question_metrics
from verism.suites.questions.scenes import scene_prompts
from verism.suites.questions.suite import QuestionSuite, question_options
from verism.suites.questions.switches import AnswerTest, Switches, switch_rules
from verism.suites.unigenbench.benchmark import EXPECTED, alterations, read_points
from verism.suites.unigenbench.demo import DEMOS

__all__ = ["UniGenBench"]

PAPER = "UniGenBench++ 2025, arXiv:2508.20751"
REVISED = Switches(dependency="none")
TESTS: tuple[AnswerTest, ...] = ("read", "zero_one", "plain_yes", "probability")


@dataclass(frozen=True, kw_only=True, eq=False)
class UniGenBench(QuestionSuite):
    """The test points of the released file, or our own questions about rendered scenes.

    Attributes:
        presets: the switches of each protocol.
        headline: name of the main number.
        grouped_by: facets of questions.
        released_suffix: none to hold ours against, as the released judges are asked about all points at once.
        usual_images: images per prompt.
        info: name, title, question, protocols and limits, see ``Suite``.
        commands: commands of its own for the command line, see ``Suite``.
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
        "released": Switches(dependency="none", average_over="questions", when_missing="image_dropped"),
    }
    headline: ClassVar[str] = "unigenbench_score"
    grouped_by: ClassVar[tuple[str, ...]] = ("category", "subcategory")
    released_suffix: ClassVar[str | None] = None
    usual_images: ClassVar[int] = 4

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="unigenbench",
        title="UniGenBench",
        question="How many of a prompt's test points do the images show?",
        summary="600 prompts, 1,813 test points of 27 kinds, four images each; from your copy of the data (CC BY 4.0)",
        protocols={
            "revised": "Mean over prompts of the share of satisfied test points; missing answers are counted. Use it "
            "to compare models and judges.",
            "released": "The released arithmetic: test points are pooled, by dimension and in all, and images without "
            "a result are skipped. Comparable with published numbers only for answers of the released judges, which "
            "see all points of a prompt at once.",
        },
        limits=(
            "Every point is asked by itself in words of ours; the released judges see all points of a prompt at once.",
            "Dimensions have very different numbers of test points.",
        ),
        citation=PAPER,
    )
    commands: ClassVar[Mapping[str, str]] = {"unigenbench": "verism.suites.unigenbench.cli:unigenbench"}
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = question_options(
        "Your copy of test_prompts_en.csv; without it, verism's prompts about rendered scenes.",
        suffix="as the judge words it",
        n_images=4,
    )
    rules: ClassVar[tuple[Rule, ...]] = switch_rules(REVISED, tests=TESTS)
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({"alignment": ("unigenbench_score",)})
    metrics: ClassVar[tuple[MetricSpec, ...]] = question_metrics(
        "unigenbench_score", title="test points met", source=f"{PAPER}; released evaluation"
    )
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="questions", metric="unigenbench_score", facet="prompt_source", by_prompt=True),
    )
    layout: ClassVar[Layout] = Layout(
        rows=(Row("unigenbench_score"), Row("category_score", ("category",)), Row("answered")),
        detail=("subcategory", "prompt_source"),
        names={"category": "dimension", "subcategory": "kind of test point"},
    )

    @classmethod
    def read(cls, path: Path | None, *, own: bool) -> tuple[Sequence[AskedPrompt], Mapping[str, Any]]:
        """The prompts of the user's copy, or our own about rendered scenes.

        Args:
            path: the file; None: our own prompts.
            own: whether a file is meant to differ from the released English one.

        Raises:
            UsageError: a file that is not the released one, and ``own`` does not say that this is meant.
        """
        if path is None:
            return scene_prompts(), {"scenes": True}
        prompts = read_points(path)
        altered = alterations(prompts)
        check_unaltered(path, altered, EXPECTED, own=own)
        return prompts, {"altered": altered}
