"""DPG-Bench as a suite: the user's copy of its questions, grids of four or single images, any VQA model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from verism.suites.base import Demo, Layout, MetricSpec, Option, Pairing, Row, Rule, SuiteInfo
from verism.suites.dpg_bench.benchmark import EXPECTED, alterations, read_file
from verism.suites.dpg_bench.demo import DEMOS
from verism.suites.prompt_lists import check_unaltered
from verism.suites.questions.asked import AskedPrompt
from verism.suites.questions.metrics import question_metrics
from verism.suites.questions.scenes import scene_prompts
from verism.suites.questions.suite import QuestionSuite, question_options
from verism.suites.questions.switches import AnswerTest, Switches, switch_rules

__all__ = ["DPGBench"]

PAPER = "Hu et al. 2024, ELLA, arXiv:2403.05135"
REVISED = Switches(dependency="cascading")
TESTS: tuple[AnswerTest, ...] = ("read", "yes", "Yes", "plain_yes", "probability")


@dataclass(frozen=True, kw_only=True, eq=False)
class DPGBench(QuestionSuite):
    """The questions of the released file, or our own about rendered scenes.

    Attributes:
        presets: the switches of each protocol.
        headline: name of the main number.
        grouped_by: facets of questions.
        usual_images: images per prompt.
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

    presets: ClassVar[Mapping[str, Switches]] = {
        "revised": REVISED,
        "released": Switches(
            answer_test="yes",
            dependency="cascading",
            when_missing="prompt_dropped",
            graph="released",
            category_images="last",
            first_row="lost",
        ),
        "paper": Switches(answer_test="yes", dependency="cascading", when_missing="prompt_dropped", graph="released"),
    }
    headline: ClassVar[str] = "dpg_score"
    grouped_by: ClassVar[tuple[str, ...]] = ("category", "subcategory")
    usual_images: ClassVar[int] = 4

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="dpg_bench",
        title="DPG-Bench",
        question="How much of a dense prompt of about 67 words do the images show?",
        summary="1,065 dense prompts, 14,000 questions with dependencies, four images each; from your copy of the data",
        protocols={
            "revised": "Strict parsing of replies; every row and all images count, and missing answers are counted. "
            "Use it to compare models and judges.",
            "released": "The authors' code in one process: only the bare word yes is correct, the first row of the "
            "file is lost, categories are those of the last image, and a prompt whose file fails is "
            "excluded. Use it to compare with published overall scores.",
            "paper": "What the text of the publication says where it differs from the code: all rows and all images.",
        },
        limits=(
            "Published category columns are mostly mixtures of several categories and are no targets: verism "
            "reproduce dpg.",
            "Differences below one point between reports of one model are noise of judge, seeds and rewritten prompts.",
            "The published judge (mPLUG-large) runs on no current library; another judge is another protocol.",
            "No correlation with people was published.",
        ),
        citation=PAPER,
    )
    published: ClassVar[Mapping[str, str]] = {"dpg": "verism.suites.dpg_bench.published:dpg"}
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = question_options(
        "Your copy of dpg_bench.csv; without it, verism's prompts about rendered scenes.",
        suffix="as the judge words it",
        n_images=4,
    )
    rules: ClassVar[tuple[Rule, ...]] = switch_rules(REVISED, tests=TESTS)
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({"alignment": ("dpg_score",)})
    metrics: ClassVar[tuple[MetricSpec, ...]] = question_metrics(
        "dpg_score", title="DPG score", source=f"{PAPER}; released evaluation"
    )
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="questions", metric="dpg_score", facet="prompt_source", by_prompt=True),
    )
    layout: ClassVar[Layout] = Layout(
        rows=(Row("dpg_score"), Row("category_score", ("category",)), Row("answered")),
        detail=("subcategory", "prompt_source"),
        names={"prompt_source": "source of the prompts", "subcategory": "detailed category"},
    )

    @classmethod
    def read(cls, path: Path | None, *, own: bool) -> tuple[Sequence[AskedPrompt], Mapping[str, Any]]:
        """The prompts of the user's copy, or our own about rendered scenes.

        Args:
            path: the file; None: our own prompts.
            own: whether a file is meant to differ from the released one.

        Raises:
            UsageError: a file that is not the released one, and ``own`` does not say that this is meant.
        """
        if path is None:
            return scene_prompts(), {"scenes": True}
        read = read_file(path)
        altered = alterations(read)
        check_unaltered(path, altered, EXPECTED, own=own)
        return read.prompts, {"sha256": read.digest, "altered": altered, "defects": read.defect_words()}
