"""DSG-1k as a suite: the user's copy of its questions, one image per prompt, any VQA model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from verism.suites.base import Demo, Layout, MetricSpec, Option, Pairing, Row, Rule, SuiteInfo
from verism.suites.dsg.benchmark import EXPECTED, alterations, read_file
from verism.suites.dsg.demo import DEMOS
from verism.suites.prompt_lists import check_unaltered
from verism.suites.questions.asked import AskedPrompt
from verism.suites.questions.metrics import question_metrics
from verism.suites.questions.scenes import scene_prompts
from verism.suites.questions.suite import QuestionSuite, question_options
from verism.suites.questions.switches import AnswerTest, Switches, switch_rules

__all__ = ["DSG"]

PAPER = "Cho et al. 2024, Davidsonian Scene Graph, arXiv:2310.18235"
REVISED = Switches(dependency="plain")
RELEASED = Switches(answer_test="yes", dependency="plain", when_missing="refused", graph="released")
PSEUDOCODE = Switches(answer_test="yes", dependency="cascading", when_missing="refused", graph="released")
TESTS: tuple[AnswerTest, ...] = ("read", "yes", "Yes", "plain_yes", "probability")


@dataclass(frozen=True, kw_only=True, eq=False)
class DSG(QuestionSuite):
    """The questions of the released file, or our own about rendered scenes.

    Attributes:
        presets: the switches of each protocol.
        headline: name of the main number.
        grouped_by: facets of questions.
        prompt_facets: facets of prompts.
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

    presets: ClassVar[Mapping[str, Switches]] = {"revised": REVISED, "released": RELEASED, "paper": PSEUDOCODE}
    headline: ClassVar[str] = "dsg_score"
    grouped_by: ClassVar[tuple[str, ...]] = ("category", "subcategory")
    prompt_facets: ClassVar[tuple[str, ...]] = ("report_column", "prompt_source")

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="dsg",
        title="DSG-1k",
        question="How many of a prompt's facts do the images show?",
        summary="1,060 prompts of ten sets, 8,182 questions with dependencies (ICLR 2024); from your copy of the data",
        protocols={
            "revised": "Strict parsing of replies; defective dependencies are repaired one by one, and missing "
            "answers are counted. Use it to compare models and judges.",
            "released": "The released library: only the bare word yes is correct, a question counts 0 if a parent's "
            "own answer is not yes, and one unreadable cell removes all dependencies of its prompt. Use "
            "it to compare with published numbers.",
            "paper": "The pseudo-code of the release: the same, but zeros are inherited by dependent questions.",
        },
        limits=(
            "A VQA model flatters: in the paper it finds 80.5 % where people find 59.1 %.",
            "Questions about rendered text and style are answered like people's in 14 to 25 % of cases only.",
            "Negated prompts are asked about as if they were not negated.",
            "Judges that reply Yes, or with a sentence, fail the released test of an answer.",
        ),
        citation=PAPER,
    )
    commands: ClassVar[Mapping[str, str]] = {"dsg": "verism.suites.dsg.cli:dsg"}
    published: ClassVar[Mapping[str, str]] = {"dsg": "verism.suites.dsg.published:dsg"}
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = question_options(
        "Your copy of dsg-1k-anns.csv; without it, verism's prompts about rendered scenes.",
        suffix="as the judge words it",
        n_images=1,
        grids=False,
        named_by_model=True,
    )
    rules: ClassVar[tuple[Rule, ...]] = switch_rules(REVISED, tests=TESTS)
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({"alignment": ("dsg_score",)})
    metrics: ClassVar[tuple[MetricSpec, ...]] = question_metrics(
        "dsg_score", title="DSG score", source=f"{PAPER}; released library"
    )
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="questions", metric="dsg_score", facet="prompt_source", by_prompt=True),
    )
    layout: ClassVar[Layout] = Layout(
        rows=(
            Row("dsg_score"),
            Row("dsg_score", ("report_column",)),
            Row("category_score", ("category",)),
            Row("answered"),
        ),
        detail=("subcategory", "prompt_source"),
        names={
            "prompt_source": "source of the prompts",
            "report_column": "column of the paper",
            "subcategory": "detailed category",
        },
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
