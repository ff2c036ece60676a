"""The alignment part of OneIG-Benchmark as a suite: the user's prompts and questions, grids of four, any VQA model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from verism.errors import UsageError
from verism.records import UserImage
from verism.suites.base import Demo, Layout, MetricSpec, Option, Pairing, Row, Rule, SuiteInfo
from verism.suites.oneig_alignment.benchmark import (
    CLASSES,
    EXPECTED,
    alterations,
    asked_prompts,
    class_images,
    read_prompts,
    read_questions,
)
from verism.suites.oneig_alignment.demo import DEMOS
from verism.suites.prompt_lists import check_unaltered
from verism.suites.questions.asked import AskedPrompt
from verism.suites.questions.metrics import question_metrics
from verism.suites.questions.scenes import scene_prompts
from verism.suites.questions.suite import QuestionSuite, question_options
from verism.suites.questions.switches import AnswerTest, Switches, switch_rules

__all__ = ["OneIGAlignment"]

PAPER = "OneIG-Bench 2025, arXiv:2506.07977"
SUFFIX = ". Please answer 'Yes' or 'No' only."
REVISED = Switches(dependency="plain")
TESTS: tuple[AnswerTest, ...] = ("read", "Yes", "yes", "plain_yes", "probability")


@dataclass(frozen=True, kw_only=True, eq=False)
class OneIGAlignment(QuestionSuite):
    """The questions of the released files, or our own about rendered scenes.

    Attributes:
        presets: the switches of each protocol.
        headline: name of the main number.
        usual_suffix: the released words behind a question.
        released_suffix: the same.
        usual_images: images per prompt.
        info: name, title, question, protocols and limits, see ``Suite``.
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
        "released": Switches(answer_test="Yes", dependency="plain", when_missing="image_dropped", graph="released"),
    }
    headline: ClassVar[str] = "oneig_alignment"
    usual_suffix: ClassVar[str | None] = SUFFIX
    released_suffix: ClassVar[str | None] = SUFFIX
    usual_images: ClassVar[int] = 4

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="oneig_alignment",
        title="OneIG alignment",
        question="How much of prompts for anime, portraits and objects do the images show?",
        summary="695 prompts, 11,231 questions with dependencies, four images each; from your copy of the data",
        protocols={
            "revised": "Strict parsing of replies; missing and black images are counted. Use it to compare models "
            "and judges.",
            "released": "The authors' code: only the bare word Yes is correct, black cells and missing grids are "
            "excluded. Use it to compare with published numbers.",
        },
        limits=(
            "The alignment part alone: text, reasoning, style and diversity are other measurements.",
            "Dropping black cells raises the score of a model that refuses.",
        ),
        citation=PAPER,
    )
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option("questions_dir", Path, flag="--questions", help="Your copy of the folder Q_D with the questions."),
        Option("language", str, choices=("en", "zh"), help="Language of the questions.", default="en"),
        *question_options(
            "Your copy of OneIG-Bench.csv; without it, verism's prompts about rendered scenes.",
            suffix=repr(SUFFIX),
            n_images=4,
            named_by_model=True,
        ),
    )
    rules: ClassVar[tuple[Rule, ...]] = switch_rules(REVISED, tests=TESTS)
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({"alignment": ("oneig_alignment",)})
    metrics: ClassVar[tuple[MetricSpec, ...]] = question_metrics(
        "oneig_alignment", title="alignment", source=f"{PAPER}; released evaluation"
    )
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="questions", metric="oneig_alignment", facet="prompt_source", by_prompt=True),
    )
    layout: ClassVar[Layout] = Layout(
        rows=(Row("oneig_alignment"), Row("oneig_alignment", ("prompt_source",)), Row("answered")),
        detail=("category",),
        names={"prompt_source": "class of prompts"},
    )

    @classmethod
    def read(cls, path: Path | None, *, own: bool) -> tuple[Sequence[AskedPrompt], Mapping[str, Any]]:
        """Our own prompts about rendered scenes; the user's copy takes two files, see ``build``.

        Args:
            path: the list of prompts.
            own: whether the files are meant to differ from the released ones.

        Raises:
            UsageError: a list without questions.
        """
        del own
        if path is not None:
            raise UsageError(
                f"{path} has prompts and no questions; name them, too: --questions Q_D. Expected {EXPECTED}"
            )
        return scene_prompts(), {"scenes": True}

    @classmethod
    def build(
        cls,
        *arguments: Any,
        prompts_file: Path | None = None,
        own: bool = False,
        questions_dir: Path | None = None,
        language: str = "en",
        **options: Any,
    ) -> Self:
        """The suite with the prompts and questions of the user's copy.

        Args:
            *arguments: none are given.
            prompts_file: the list of prompts.
            own: whether the files are meant to differ from the released ones.
            questions_dir: folder with a file of questions for each class; those that are not there are left out.
            language: ``en`` or ``zh``: of the questions.
            **options: of ``assemble``.

        Raises:
            UsageError: one of the two without the other, or files that are not the released ones.
        """
        del arguments
        if questions_dir is None:
            return cls.assemble(*cls.read(prompts_file, own=own), **options)
        if prompts_file is None:
            raise UsageError(f"{questions_dir} has questions and no prompts; name them, too: --prompts FILE")
        ending = ".json" if language == "en" else f"_{language}.json"
        files = {name: questions_dir / f"{name}{ending}" for name in CLASSES}
        there = {name: file for name, file in files.items() if file.is_file()}
        if not there:
            raise UsageError(
                f"{questions_dir}: none of {', '.join(f.name for f in files.values())}. Expected {EXPECTED}"
            )
        read = {name: read_questions(file) for name, file in there.items()}
        prompts = asked_prompts(read_prompts(prompts_file), {name: asked for name, (asked, _) in read.items()})
        altered = alterations(prompts) if language == "en" else "questions in another language than the counted ones"
        check_unaltered(questions_dir, altered, EXPECTED, own=own)
        mended = sum(n for _, n in read.values())
        source = {"altered": altered, "defects": f"{mended} dependencies" if mended else "", "language": language}
        return cls.assemble(prompts, source, **options)

    @classmethod
    def matched(cls, folder: Path, prompts: Sequence[AskedPrompt], *, grid: bool, model: str) -> Sequence[UserImage]:
        """Images in the released layout, or named by prompt id.

        Args:
            folder: the folder.
            prompts: whose images are wanted.
            grid: whether each file is a grid of 2 x 2.
            model: name of the folder of a model below that of a class.

        Raises:
            UsageError: two files of one image.
        """
        if any((folder / name).is_dir() for name in CLASSES):
            return class_images(folder, prompts, grid=grid, model=model)
        return super().matched(folder, prompts, grid=grid, model=model)
