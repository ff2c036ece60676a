"""The base of suites that ask a judge prepared questions about images: DPG-Bench, DSG, TIFA and their kind.

A benchmark says in its own folder which file it reads, which switches each of its protocols has, and what its questions
are grouped by. Everything else is the same for all of them and stands here.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from verism.errors import UsageError
from verism.records import (
    AnswerNeed,
    FacetValue,
    Need,
    Observed,
    Prompt,
    RatingTask,
    Score,
    UserImage,
)
from verism.specs import Presentation
from verism.statistics.intervals import Interval, clustered_average
from verism.suites.base import LIMIT, N_IMAGES, SEED, Option, Suite
from verism.suites.prompt_lists import choose
from verism.suites.questions.asked import AskedPrompt, AskedQuestion, as_spec, questions_of
from verism.suites.questions.images import folder_images
from verism.suites.questions.report import question_sections
from verism.suites.questions.scenes import COLOURS, scene_classes
from verism.suites.questions.scoring import (
    JudgedImage,
    Key,
    Mean,
    Number,
    Tally,
    answer_share,
    category_mean,
    counted_images,
    image_value,
    judged_values,
    overall_mean,
)
from verism.suites.questions.switches import Reply, Switches, own_value, with_values
from verism.suites.token_probabilities import TOKENS, first_tokens
from verism.suites.verdict_table import ShownImage, VerdictRows, shown_images

if TYPE_CHECKING:
    import polars as pl

    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section


class _OfPrompt(Protocol):
    """An image, by whatever is known of it."""

    @property
    def prompt_id(self) -> str: ...


T = TypeVar("T", bound=_OfPrompt)

__all__ = ["JUDGES_OWN", "NO_SUFFIX", "QuestionSuite", "question_options"]

JUDGES_OWN, NO_SUFFIX = "judge", "none"  # values of the option suffix that stand for something
SWITCHES = " Switches: "  # stands before them in the meaning of a protocol
TRUTH = "truth"  # judge of ground truth
SPELLED = ("yes", "Yes")  # tests of answers that take one spelling alone
NEAREST = "answer_similarities"  # table of a judge that embeds sentences


def question_options(
    prompts: str, *, suffix: str, n_images: int, grids: bool = True, named_by_model: bool = False
) -> tuple[Option, ...]:
    """The options that suites of questions share.

    Args:
        prompts: help of the option that names the user's file.
        suffix: in words, what stands behind a question by default.
        n_images: images per prompt by default.
        grids: whether images may come as grids of 2 x 2.
        named_by_model: whether the names of images may end in that of a model.
    """
    options = [
        Option("prompts_file", Path, flag="--prompts", help=prompts),
        Option("own", bool, help="Accept a file other than the released one.", default="false"),
        Option("images", Path, help="Images named by prompt id, in a folder, or any list."),
    ]
    if grids:
        options.append(
            Option("grid", bool, help="Read each file as a grid of 2 x 2 images of its prompt.", default="false")
        )
    if named_by_model:
        options.append(Option("image_model", str, help="Model name in file names ID_MODEL, as released."))
    return (
        *options,
        Option(
            "suffix",
            str,
            help=f"Text after each question; {NO_SUFFIX}: the bare question; {JUDGES_OWN}: the judge's own wording.",
            default=suffix,
        ),
        replace(LIMIT, help="Number of prompts, sampled by seed."),
        SEED,
        replace(N_IMAGES, default=str(n_images)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class QuestionSuite(Suite):
    """Prompts with questions, from a file of the user or of our own making.

    Attributes:
        asked: the prompts with their questions, in order.
        suffix: text behind each question; empty: none; None: as the judge words it.
        n_images: images per prompt.
        source: what the prompts are: where they come from, how they differ from the released ones, plain JSON.
        found: images of a folder that the suite matched itself; None for others.
        presets: the switches of each protocol, by name.
        headline: name of the main number.
        grouped_by: facets of questions, by which categories are made.
        prompt_facets: facets of prompts, by each of which the main number is broken down.
        usual_suffix: the suffix where the user names none.
        released_suffix: what the released code writes behind a question; empty: nothing.
        usual_images: images per prompt where the user names no number.
        judge_roles: roles of the judges it may ask.
        judged_by: by what else than their words prompts are judged, see ``Suite``.
        in_blocks: large runs are scored block by block, see ``Suite``.
        whole_prompts: no block holds a part of a prompt's images, see ``Suite``.
    """

    asked: tuple[AskedPrompt, ...]
    suffix: str | None = None
    n_images: int = 1
    source: Mapping[str, Any]
    found: tuple[UserImage, ...] | None = None

    presets: ClassVar[Mapping[str, Switches]]
    headline: ClassVar[str]
    grouped_by: ClassVar[tuple[str, ...]] = ("category",)
    prompt_facets: ClassVar[tuple[str, ...]] = ("prompt_source",)
    usual_suffix: ClassVar[str | None] = None
    released_suffix: ClassVar[str | None] = ""
    usual_images: ClassVar[int] = 1
    judge_roles: ClassVar[tuple[str, ...]] = ("vqa",)
    judged_by: ClassVar[Mapping[str, str]] = MappingProxyType({"questions": AnswerNeed.role})
    in_blocks: ClassVar[bool] = True
    whole_prompts: ClassVar[bool] = True

    # -------------------------------------------------------------------------------------------------------- making
    @classmethod
    @abstractmethod
    def read(cls, path: Path | None, *, own: bool) -> tuple[Sequence[AskedPrompt], Mapping[str, Any]]:
        """The prompts of a file, and what they are (``source``).

        Args:
            path: the user's copy of the released file; None if none was named.
            own: whether the file is meant to differ from the released one.

        Raises:
            UsageError: no such file, or another one than released that is not meant to be so.
        """

    @classmethod
    def build(cls, *arguments: Any, prompts_file: Path | None = None, own: bool = False, **options: Any) -> Self:
        """The suite with the prompts of a file; see ``assemble``.

        Args:
            *arguments: none are given.
            prompts_file: the user's copy of the released file; None: as the benchmark has it.
            own: whether the file is meant to differ from the released one.
            **options: of ``assemble``.
        """
        del arguments
        every, source = cls.read(prompts_file, own=own)
        return cls.assemble(every, source, **options)

    @classmethod
    def assemble(
        cls,
        every: Sequence[AskedPrompt],
        source: Mapping[str, Any],
        *,
        images: Path | None = None,
        grid: bool = False,
        image_model: str = "",
        suffix: str | None = None,
        limit: int | None = None,
        seed: int = 0,
        n_images: int | None = None,
    ) -> Self:
        """The suite with some of these prompts.

        Args:
            every: all prompts of a file.
            source: what they are, see the class.
            images: folder of images that exist, or a list.
            grid: whether each file of the folder is a grid of 2 x 2.
            image_model: what the names of images end in.
            suffix: as the option of this name; None: the benchmark's usual one.
            limit: prompts in all; None for all.
            seed: of which prompts a limit keeps.
            n_images: images per prompt; None: as many as the folder has, or the usual number.

        Raises:
            UsageError: a grid without a folder of images, or two files of one image.
        """
        chosen = tuple(choose(every, [p.prompt_id for p in every], limit, seed))
        found = None
        if images is not None and images.is_dir():
            found = tuple(cls.matched(images, chosen, grid=grid, model=image_model))
            if not found:
                tail = f"_{image_model}" if image_model else ""
                raise UsageError(
                    f"{images}: no image is named after any of the {len(chosen):,} prompts; expected names such as "
                    f"{chosen[0].prompt_id}{tail}.png"
                )
            n_images = n_images or max(image.index + 1 for image in found)
        elif grid:
            raise UsageError("--grid true needs a folder of grids: --images DIR")
        words = {None: cls.usual_suffix, JUDGES_OWN: None, NO_SUFFIX: ""}
        return cls(
            asked=chosen,
            source=dict(source),
            suffix=words.get(suffix, suffix),
            n_images=n_images or cls.usual_images,
            found=found,
        )

    @classmethod
    def matched(cls, folder: Path, prompts: Sequence[AskedPrompt], *, grid: bool, model: str) -> Sequence[UserImage]:
        """The images of a folder, by the prompts they are named after.

        Args:
            folder: the folder.
            prompts: whose images are wanted.
            grid: whether each file is a grid of 2 x 2.
            model: what the names of images end in; empty for nothing.

        Raises:
            UsageError: two files of one image.
        """
        return folder_images(folder, [p.prompt_id for p in prompts], grid=grid, model=model)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite whose prompts a run stored; they hold all it needs to know."""
        asked = tuple(
            AskedPrompt(
                prompt_id=p.prompt_id,
                text=p.text,
                questions=questions_of(p.spec),
                facets=p.facets,
                scene=p.scene,
                first_row_lost=bool(p.spec.get("first_row_lost")),
                notes=p.spec.get("notes") or {},
            )
            for p in prompts
        )
        return cls(
            asked=asked,
            suffix=settings.get("suffix"),
            n_images=max((p.n_images for p in prompts), default=cls.usual_images),
            source=dict(settings.get("source") or {}),
        )

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and questions; where images lie does not."""
        kept = {name: value for name, value in self.made_with.items() if name in ("limit", "seed")}
        return {**kept, "suffix": self.suffix, "source": dict(self.source)}

    @property
    def compared_settings(self) -> Sequence[str]:
        """What stands behind the questions changes the answers."""
        return ("suffix",)

    @property
    def user_images(self) -> Sequence[UserImage] | None:  # type: ignore[override]
        """Images of a folder; None for others, which are matched by their names."""
        return self.found

    @property
    def classes(self) -> Mapping[str, str]:
        """Classes of the scenes that show the prompts, if there are any."""
        return scene_classes() if any(p.scene is not None for p in self.asked) else {}

    @property
    def colors(self) -> Sequence[str]:
        """Colours of those scenes."""
        return COLOURS if any(p.scene is not None for p in self.asked) else ()

    def prompts(self) -> Sequence[Prompt]:
        return [
            Prompt(
                prompt_id=p.prompt_id,
                suite=self.name,
                text=p.text,
                facets=dict(p.facets),
                spec={
                    "questions": as_spec(p.questions),
                    **({"first_row_lost": True} if p.first_row_lost else {}),
                    **({"notes": dict(p.notes)} if p.notes else {}),
                },
                n_images=self.n_images,
                scene=p.scene,
            )
            for p in self.asked
        ]

    def needs(self) -> Sequence[Need]:
        """Answers to the questions of each prompt; one that is there twice is asked once."""
        return (
            AnswerNeed(
                questions={
                    p.prompt_id: tuple(dict.fromkeys(q.question(self.suffix) for q in p.questions)) for p in self.asked
                }
            ),
        )

    # -------------------------------------------------------------------------------------------------------- switches
    @property
    def main_metric(self) -> str:
        """Name of its main number: ``headline``, unless that depends on the prompts."""
        return self.headline

    def switches(self, protocol: str) -> Switches:
        """The switches of a protocol; those of ``revised`` as the rules have them.

        Args:
            protocol: its name.
        """
        preset = self.presets[protocol]
        return with_values(preset, self.all_rules()) if protocol == "revised" else preset

    def presentation(self) -> Presentation:
        """As of any suite, with the switches of each protocol in its meaning."""
        made = super().presentation()
        meanings = {
            name: text + SWITCHES + self.switches(name).words(suffix=self.suffix, images=str(self.n_images)) + "."
            for name, text in made.info.protocols.items()
        }
        return replace(made, info=replace(made.info, protocols=meanings))

    # -------------------------------------------------------------------------------------------------------- verdicts
    def replies(self, observed: Observed) -> dict[tuple[str, str], Reply]:
        """What the judge replied, by image and question as it was asked.

        Args:
            observed: a run.
        """
        nearest: dict[tuple[str, str], tuple[float, str]] = {}
        table = observed.observations.get(NEAREST)
        if table is not None:
            for image_id, question, choice, cosine in table.select(
                "image_id", "question", "choice", "cosine"
            ).iter_rows():
                best = nearest.get((image_id, question))
                if best is None or cosine > best[0]:  # the first of equals wins, as released
                    nearest[image_id, question] = (cosine, choice)
        tokens = first_tokens(observed.observations.get(TOKENS))
        return {
            (row["image_id"], row["question"]): Reply(
                text=row["answer"],
                value=row["value"],
                probability=row["probability"],
                nearest=nearest.get((row["image_id"], row["question"]), (0.0, None))[1],
                tokens=tokens.get((row["image_id"], row["question"]), {}),
                truth=row["judge"] == TRUTH,
            )
            for row in observed.observations[AnswerNeed.table].iter_rows(named=True)
            if row["question"] is not None
        }

    def judged(self, observed: Observed) -> dict[str, list[tuple[ShownImage, JudgedImage, dict[str, Reply]]]]:
        """Every image under every protocol: as it was shown, what its questions count, and the replies.

        Args:
            observed: a run.

        Raises:
            UsageError: no VQA model observed it.
        """
        answers = observed.observations.get(AnswerNeed.table)
        if answers is None:
            raise UsageError(
                f"{self.name} needs a VQA model; this run has {sorted(observed.observations) or 'nothing'}"
            )
        replies = self.replies(observed)
        asked = {p.prompt_id: p for p in self.asked}
        made: dict[str, list[tuple[ShownImage, JudgedImage, dict[str, Reply]]]] = {p: [] for p in self.info.protocols}
        for image in shown_images(observed, judged=set(answers["image_id"].to_list())):
            prompt = asked[image.prompt.prompt_id]
            of_image = {
                q.name: replies.get((image.image_id, q.question(self.suffix).text), Reply()) for q in prompt.questions
            }
            for protocol, rows in made.items():
                rows.append((image, self._judged(image, prompt, of_image, self.switches(protocol)), of_image))
        return made

    @staticmethod
    def _judged(
        image: ShownImage, prompt: AskedPrompt, replies: Mapping[str, Reply], switches: Switches
    ) -> JudgedImage:
        own: dict[str, float | None] = {
            q.name: None if image.problem else own_value(q, replies[q.name], switches.answer_test)
            for q in prompt.questions
        }
        values, lost = judged_values(prompt.questions, own, switches, first_row=prompt.first_row_lost)
        return JudgedImage(
            image_id=image.image_id,
            prompt_id=prompt.prompt_id,
            index=image.index,
            own=own,
            values=values,
            problem=image.problem or "",
            lost=lost,
            weights={q.name: q.weight for q in prompt.questions if q.weight != 1.0},
        )

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """Every question about every image, and the share of them that is right; table ``verdicts``."""
        rows = VerdictRows()
        asked = {p.prompt_id: p for p in self.asked}
        judged = self.judged(observed)
        for protocol, images in judged.items():
            switches = self.switches(protocol)
            for image, made, replies in images:
                prompt = asked[made.prompt_id]
                for number, question in enumerate(prompt.questions, start=1):
                    counted = None if made.problem else made.values.get(question.name)
                    reason = made.problem or _reason(question, replies[question.name], made)
                    detail = {"name": question.name, "own": made.own[question.name]}
                    rows.add(image, protocol, f"question_{number}", counted, reason, detail)
                value = None if made.lost else image_value(made, switches)
                rows.add(image, protocol, "questions", value, made.problem or _summary(made))
        return rows.table()

    # -------------------------------------------------------------------------------------------------------- scores
    def tally(self, observed: Observed, verdicts: pl.DataFrame) -> Mapping[str, Tally]:
        """Sums by prompt of all that is averaged, by protocol.

        Args:
            observed: a block of images, or all of them.
            verdicts: not needed.
        """
        del verdicts
        rank = {prompt_id: number for number, prompt_id in enumerate(sorted(observed.prompts))}
        made = {}
        for protocol, rows in self.judged(observed).items():
            images = [image for _, image, _ in rows]
            made[protocol] = Tally(
                means={key: mean.coded(rank) for key, mean in self.means(protocol, images).items()},
                n_incomplete=sum(bool(image.problem) or None in image.own.values() for image in images),
                rows=self.rows(protocol, images),
            )
        return made

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """The main number with its bound and breakdown, categories, and how many questions were answered."""
        tallies = self.known_tallies(observed, verdicts)
        scores: list[Score] = []
        for protocol in self.info.protocols:
            scores += self._scores(protocol, Tally.joined([tally[protocol] for tally in tallies]))
        return scores

    def means(self, protocol: str, images: Sequence[JudgedImage]) -> dict[Key, Mean]:
        """All that is averaged over some images, in the order of scores; the same keys for any images.

        Args:
            protocol: under which the images were judged.
            images: all images of some prompts.
        """
        switches = self.switches(protocol)
        means: dict[Key, Mean] = {(self.main_metric, "", ""): self.overall(images, switches)}
        for facet in self.prompt_facets:
            for value, members in self._by_facet(images, facet).items():
                means[self.main_metric, facet, value] = self.overall(members, switches)
        wrong = replace(switches, when_missing="zero")
        bounded = [self._again(image, wrong) for image in images]
        means[self.bound_metric, "", ""] = self.overall(bounded, wrong)
        if switches.dependency != "none" and any(q.parents for p in self.asked for q in p.questions):
            alone = replace(switches, dependency="none")
            free = [self._again(image, alone) for image in images]
            means[f"{self.main_metric}_alone", "", ""] = self.overall(free, alone)
        counted = counted_images(images, switches)
        for facet in self.grouped_by:
            for value, questions in self._categories(facet).items():
                for metric, gated in (("category_score", False), ("category_score_gated", True)):
                    mean = category_mean(images, questions, switches, gated=gated, counted=counted)
                    means[metric, facet, value] = mean
        counts = {p.prompt_id: len(p.questions) for p in self.asked}
        means["answered", "", ""] = answer_share(images, counts, switches)
        return means

    def rows(self, protocol: str, images: Sequence[JudgedImage]) -> Sequence[Any]:
        """What is kept of each image for numbers that are no means.

        Args:
            protocol: under which the images were judged.
            images: all images of some prompts.
        """
        del protocol, images
        return ()

    @property
    def bound_metric(self) -> str:
        """Name of the main number if unusable answers were wrong ones."""
        return f"{self.main_metric}_if_unusable_wrong"

    def _scores(self, protocol: str, tally: Tally) -> list[Score]:
        main = tally.means[self.main_metric, "", ""]
        scores = []
        for (metric, facet, value), mean in tally.means.items():
            if metric == self.bound_metric:
                if tally.n_incomplete:
                    bound = Number(mean.interval, mean.n_used, main.n_unusable)
                    scores.append(self._score(metric, protocol, {}, bound))
            elif metric != self.main_metric or not facet or mean.n_images:
                scores.append(self._score(metric, protocol, {facet: value} if facet else {}, mean))
        return scores

    def overall(self, images: Sequence[JudgedImage], switches: Switches) -> Mean:
        """The main number of a set of images.

        Args:
            images: all that were asked for, also missing ones.
            switches: over what is averaged, and what becomes of what is missing.
        """
        return overall_mean(images, switches)

    def _again(self, image: JudgedImage, switches: Switches) -> JudgedImage:
        """An image under other switches."""
        prompt = self._by_id[image.prompt_id]
        values, lost = judged_values(prompt.questions, image.own, switches, first_row=prompt.first_row_lost)
        return replace(image, values=values, lost=lost)

    @property
    def _by_id(self) -> Mapping[str, AskedPrompt]:
        known = self.__dict__.get("_prompts_by_id")
        if known is None:
            known = {p.prompt_id: p for p in self.asked}
            object.__setattr__(self, "_prompts_by_id", known)
        return known

    def _by_facet(self, images: Sequence[T], facet: str) -> dict[FacetValue, list[T]]:
        """Images by a facet of their prompts; a value without images is there, too."""
        values = dict.fromkeys(prompt.facets.get(facet) for prompt in self.asked)
        groups: dict[FacetValue, list[T]] = {value: [] for value in values if value is not None}
        for image in images:
            value = self._by_id[image.prompt_id].facets.get(facet)
            if value is not None:
                groups[value].append(image)
        return groups

    def _categories(self, facet: str) -> Mapping[FacetValue, Mapping[str, Sequence[str]]]:
        """Names of the questions of each value of a facet of questions, by prompt."""
        cache: dict[str, dict[FacetValue, dict[str, list[str]]]] = self.__dict__.get("_questions_by_category") or {}
        if facet not in cache:
            cache[facet] = {}
            for prompt in self.asked:
                for question in prompt.questions:
                    if (value := question.groups.get(facet)) is not None:
                        cache[facet].setdefault(value, {}).setdefault(prompt.prompt_id, []).append(question.name)
            object.__setattr__(self, "_questions_by_category", cache)
        return cache[facet]

    def _score(self, metric: str, protocol: str, group: Mapping[str, FacetValue], mean: Mean | Number) -> Score:
        return Score(
            suite=self.name,
            metric=metric,
            protocol=protocol,
            group=dict(group),
            value=mean.interval.value,
            ci_low=mean.interval.low,
            ci_high=mean.interval.high,
            n_used=mean.n_used,
            n_unusable=mean.n_unusable,
        )

    def judged_rules(self) -> Sequence[str]:
        """Images, and every question about them."""
        most = max((len(p.questions) for p in self.asked), default=0)
        return ["questions", *(f"question_{number}" for number in range(1, most + 1))]

    def judge_errors(self, observed: Observed, verdicts: pl.DataFrame, true_verdicts: pl.DataFrame) -> Sequence[Score]:
        """The true score of rendered images, and how often the judge errs about single questions."""
        del observed
        true_images = {row["image_id"] for row in true_verdicts.iter_rows(named=True) if row["rule"] == "questions"}
        truth = _own_answers(true_verdicts, "revised")
        means = [
            (row["prompt_id"], row["value"])
            for row in true_verdicts.iter_rows(named=True)
            if row["protocol"] == "revised" and row["rule"] == "questions" and row["value"] is not None
        ]
        scores = [
            self._score(
                "true_score",
                "revised",
                {},
                Number(_average(means), len(means), len(true_images) - len(means)),
            )
        ]
        prompts = dict(true_verdicts.select("image_id", "prompt_id").iter_rows())
        for protocol in self.info.protocols:
            judged = _own_answers(verdicts, protocol)
            both = [(key, judged.get(key), true) for key, true in truth.items() if true is not None]
            for metric, is_right in (("judge_false_yes", False), ("judge_false_no", True)):
                of_kind = [(key, value) for key, value, true in both if (true > 0.5) == is_right]
                errors = [
                    (prompts[image_id], float((value > 0.5) != is_right))
                    for (image_id, _), value in of_kind
                    if value is not None
                ]
                if of_kind:
                    number = Number(_average(errors), len(errors), len(of_kind) - len(errors))
                    scores.append(self._score(metric, protocol, {}, number))
        return scores

    # -------------------------------------------------------------------------------------------------------- remarks
    def remarks(self, observed: Observed) -> Sequence[str]:
        """What keeps numbers from being compared with published ones, and the switches behind each number."""
        answers = observed.observations.get(AnswerNeed.table)
        judge = "" if answers is None or answers.is_empty() else str(answers["judge"][0])
        lines = []
        if self.source.get("scenes"):
            lines.append("the prompts are of our own making, for rendered scenes, and not the benchmark's")
        elif self.suffix != self.released_suffix:
            asked = "the bare question, --suffix none" if self.released_suffix == "" else repr(self.released_suffix)
            lines.append(
                f"questions were put otherwise than released ({asked}): released numbers are not comparable with "
                "published ones"
            )
        if altered := self.source.get("altered"):
            lines.append(f"the prompts are not the released ones: {altered}")
        if defects := self.source.get("defects"):
            lines.append(f"dependencies of the file with defects: {defects}; mended under revised")
        if answers is not None:
            counts = self.known_counts(observed)
            lines += [] if judge == TRUTH else self._answer_remarks(counts)
            lines += self._choice_remarks(counts)
        return lines + [
            f"{protocol}: {self.switches(protocol).words(suffix=self.suffix, images=str(self.n_images), judge=judge)}"
            for protocol in self.info.protocols
        ]

    def counts(self, observed: Observed) -> Mapping[str, int]:
        """Questions, those without a reply, and the kinds of replies that protocols take for different things."""
        answers = observed.observations.get(AnswerNeed.table)
        if answers is None:
            return {}
        asked = answers.filter(answers["question"].is_not_null())
        meant = asked.filter(asked["value"] == "yes")["answer"]
        return {
            "asked": asked.height,
            "without_reply": int(asked["answer"].is_null().sum()),
            "unread": asked.filter(asked["answer"].is_not_null() & asked["value"].is_null()).height,
            **{f"not_spelled_{word}": int((meant != word).sum()) for word in SPELLED},
            "unmatched": self._unmatched(observed),
        }

    def _unmatched(self, observed: Observed) -> int:
        """Replies to questions with choices that are none of them, and that no judge embedded."""
        choices = {q.question(self.suffix).text: q.choices for p in self.asked for q in p.questions if q.choices}
        if not choices or not self._by_nearest:
            return 0
        return sum(
            reply.text is not None and reply.text not in choices[question] and reply.nearest is None
            for (_, question), reply in self.replies(observed).items()
            if question in choices
        )

    @property
    def _by_nearest(self) -> list[str]:
        """Protocols that match replies to the nearest choice."""
        return [p for p in self.info.protocols if self.switches(p).answer_test == "nearest"]

    def _choice_remarks(self, counts: Mapping[str, int]) -> list[str]:
        """What becomes of replies to questions with choices that are none of them."""
        if not counts["unmatched"]:
            return []
        return [
            f"{counts['unmatched']:,} replies are none of the choices, and no judge embedded them: "
            f"{', '.join(self._by_nearest)} cannot match; put --vqa nearest:SENTENCE_MODEL?vqa=NAME around the judge"
        ]

    def _answer_remarks(self, counts: Mapping[str, int]) -> list[str]:
        """What kinds of replies there are that protocols take for different things."""
        asked, without, unread = counts["asked"], counts["without_reply"], counts["unread"]
        lines = [f"{without:,} of {asked:,} questions have no reply"] if without else []
        if unread:
            lines.append(f"{unread:,} of {asked:,} replies could not be read as an answer")
        for protocol in self.info.protocols:
            word = self.switches(protocol).answer_test
            if word in SPELLED and (meant := counts[f"not_spelled_{word}"]):
                lines.append(
                    f"{meant:,} replies mean yes and are not spelled {word!r}: {protocol} takes them for wrong"
                )
        return lines

    # -------------------------------------------------------------------------------------------------------- people
    def rating_tasks(self) -> Sequence[RatingTask]:
        """How far an image shows its prompt, on the scale of the published studies."""
        return [
            RatingTask(
                name="consistency",
                question="How consistent is the image with the text: {prompt}?",
                kind="scale",
                options=("1", "2", "3", "4", "5"),
                rule="questions",
                level="ordinal",
                help="1: not at all; 5: everything that the text says is there, as it says.",
            )
        ]

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        return question_sections(evidence)


def _reason(question: AskedQuestion, reply: Reply, image: JudgedImage) -> str:
    """Why a question counts what it counts, in words."""
    written = "no reply" if reply.text is None else repr(reply.text)
    text = f"{question.text} expected {question.expected}, got {written}"
    if image.lost:
        return f"{text}; the released code loses the whole prompt"
    if question.name not in image.values:
        return f"{text}; the released code loses this question"
    own, value = image.own[question.name], image.values[question.name]
    if own is not None and value is not None and value < own:
        text += f"; counts 0, as it depends on {', '.join(question.parents)}"
    elif own is not None and value is None:
        text += f"; not decided, as it depends on {', '.join(question.parents)}"
    return text


def _summary(image: JudgedImage) -> str:
    if image.lost:
        return "the released code loses this prompt"
    usable = [value for value in image.values.values() if value is not None]
    unusable = len(image.values) - len(usable)
    return f"{sum(usable):g} of {len(image.values)} questions right" + (f", {unusable} unusable" if unusable else "")


def _own_answers(verdicts: pl.DataFrame, protocol: str) -> dict[tuple[str, str], float | None]:
    """How far each question's own answer is right, by image and name of the question."""
    import polars as pl

    rows = verdicts.filter((pl.col("protocol") == protocol) & pl.col("rule").str.starts_with("question_"))
    found = {}
    for image_id, detail in rows.select("image_id", "detail").iter_rows():
        record = json.loads(detail)
        found[image_id, record["name"]] = record["own"]
    return found


def _average(rows: Sequence[tuple[str, float]]) -> Interval:
    return clustered_average([value for _, value in rows], np.array([prompt for prompt, _ in rows]), bounds=(0.0, 1.0))
