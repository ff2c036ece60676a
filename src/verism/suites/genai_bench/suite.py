"""GenAI-Bench as a suite: VQAScore of the user's prompts with any judge that tells probabilities, beside people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from verism.errors import UsageError
from verism.metrics.best_of_several import expected_pick
from verism.records import AnswerNeed, Observed, Prompt, SceneFact, Score, UserImage
from verism.specs import PROBABILITY, SHARE
from verism.statistics.intervals import Interval, clustered_mean
from verism.suites.base import Demo, Layout, MetricSpec, Option, Pairing, Row, Rule, Scale, SuiteInfo
from verism.suites.genai_bench.benchmark import (
    EXPECTED,
    EXPECTED_SKILLS,
    LEVELS,
    SKILLS,
    WORDINGS,
    alterations,
    asked_prompt,
    read_prompts,
    read_skills,
    skill_alterations,
)
from verism.suites.genai_bench.demo import DEMOS
from verism.suites.genai_bench.ratings import HIGHEST, LOWEST, mean_rating, on_scale, read_ratings
from verism.suites.prompt_lists import check_unaltered
from verism.suites.questions.agreement import agreement_with_people
from verism.suites.questions.asked import AskedPrompt
from verism.suites.questions.metrics import question_metrics
from verism.suites.questions.scenes import scene_prompts
from verism.suites.questions.scoring import NOTHING, JudgedImage, Key, Mean, Number, Tally, image_value, overall_mean
from verism.suites.questions.suite import TRUTH, QuestionSuite, question_options
from verism.suites.questions.switches import AnswerTest, Reply, Switches, switch_rules
from verism.suites.token_probabilities import TOKENS

__all__ = ["GenAIBench"]

T = TypeVar("T", bound="JudgedImage | _Rated")
PAPER = "Lin et al. 2024, arXiv:2404.01291; Li et al. 2024, arXiv:2406.13743"
REVISED = Switches(answer_test="probability", dependency="none")
TESTS: tuple[AnswerTest, ...] = ("probability", "probability_share", "spelled_probability", "root_probability", "read")
RETURNS = ("probability", "root")
RATING = Scale("rating", float(LOWEST), float(HIGHEST))
CORRELATION = Scale("correlation", -1.0, 1.0)
FEW = 3  # images to pick from, beside all there are, as the paper's table has it
SCENE_SKILLS = {"color": "attribute", "spatial": "spatial relation", "count": "counting"}
WITHOUT = ("vqascore_alone", "category_score", "category_score_gated")


def _shared_metrics() -> tuple[MetricSpec, ...]:
    """Those of any suite of questions that make sense for one question, in units of a probability."""
    made = []
    for spec in question_metrics("vqascore", title="VQAScore", source=PAPER):
        if spec.name in WITHOUT:
            continue
        if spec.name == "vqascore":
            meaning = (
                "Mean over prompts of the mean over their images of the probability that the judge answers yes to "
                "whether the image shows the prompt. Two judges, two wordings or two scales give two different numbers."
            )
            spec = replace(spec, meaning=meaning, scale=PROBABILITY)
        elif spec.name.startswith("vqascore") or spec.name == "true_score":
            spec = replace(spec, scale=PROBABILITY)
        made.append(spec)
    return tuple(made)


def _people_metrics() -> tuple[MetricSpec, ...]:
    """What the ratings of people give."""
    pairs = "Deutsch et al. 2023, arXiv:2305.14324; " + PAPER

    def of_judge(name: str, title: str, meaning: str, scale: Scale, source: str, **more: Any) -> MetricSpec:
        options = {"better": "higher", "compare": "never", **more}
        return MetricSpec(name, title=title, meaning=meaning, scale=scale, source=source, **options)

    return (
        MetricSpec(
            "human_rating",
            title="human rating",
            meaning="Mean over prompts of the mean rating of their images, 1 (does not match at all) to 5 (matches "
            "exactly). Under revised, ratings off the scale are left out and counted.",
            scale=RATING,
            better="higher",
            source=PAPER,
        ),
        of_judge("human_pearson", "Pearson correlation with human ratings",
                 "Correlation of scores and mean ratings over images.", CORRELATION, PAPER),
        of_judge("human_kendall", "Kendall's tau-b with human ratings",
                 "Rank correlation of scores and mean ratings over images, ties taken into account.",
                 CORRELATION, PAPER),
        of_judge("human_pairwise", "pairwise accuracy against human ratings",
                 "Share of all pairs of images that scores order as people do; pairs that people tie count where the "
                 "scores differ by at most a threshold, which is the best one on these images.", SHARE, pairs,
                 baseline="human_tied_pairs"),
        of_judge("human_pairwise_held_out", "pairwise accuracy, held-out threshold",
                 "The same with the threshold chosen on the other half of the prompts.", SHARE, "derived from " + pairs,
                 baseline="human_tied_pairs"),
        of_judge("human_tied_pairs", "pairs tied by human ratings",
                 "Share of pairs with equal mean ratings: what a constant score earns.", SHARE, pairs, better=None),
        of_judge("picked_rating", "human rating of the judge's pick", "Mean rating of the image with the highest "
                 "score among so many of a prompt, over all ways to draw them.", RATING,
                 "Li et al. 2024, arXiv:2406.13743, Table 3", baseline="random_rating"),
        of_judge("random_rating", "human rating of a random image", "Mean rating of the images of the same prompts.",
                 RATING, "Li et al. 2024, arXiv:2406.13743, Table 3"),
        of_judge("oracle_rating", "human rating of the best-rated image", "Mean rating of the image that people rate "
                 "highest among so many of a prompt.", RATING, "Li et al. 2024, arXiv:2406.13743, Table 3"),
        of_judge("pick_gain", "gain by the judge's pick", "Rating of the judge's pick less that of any image.",
                 Scale("rating difference", LOWEST - HIGHEST, HIGHEST - LOWEST), "derived from the two"),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class GenAIBench(QuestionSuite):
    """One question about each prompt of the released file, or about our own rendered scenes.

    Attributes:
        wording: family of judges whose question is put, see ``WORDINGS``.
        judge_returns: what the probabilities of the judge are: ``probability``, or ``root`` of it, as the released
            CLIP-FlanT5 returns.
        presets: the switches of each protocol.
        headline: name of the main number.
        grouped_by: facets of questions.
        prompt_facets: facets of prompts.
        usual_suffix: nothing stands behind the question.
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

    wording: str = "vlm"
    judge_returns: str = "probability"

    presets: ClassVar[Mapping[str, Switches]] = {
        "revised": REVISED,
        "paper": Switches(answer_test="spelled_probability", dependency="none"),
        "released": Switches(answer_test="root_probability", dependency="none", when_missing="zero"),
    }
    headline: ClassVar[str] = "vqascore"
    grouped_by: ClassVar[tuple[str, ...]] = ()
    prompt_facets: ClassVar[tuple[str, ...]] = ("skill_level",)
    usual_suffix: ClassVar[str | None] = ""

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="genai_bench",
        title="GenAI-Bench",
        question="How probable is it, by a VQA model, that an image shows its prompt?",
        summary="VQAScore on 1,600 designers' prompts with skills and people's ratings; from your copy of the data",
        protocols={
            "revised": "P(yes) over all spellings of yes; missing answers are counted and excluded. Use it to "
            "compare models with one judge.",
            "paper": "P(Yes) of the one spelling in the paper's formula.",
            "released": "Its square root, as the released CLIP-FlanT5 returns; a failed call or a missing image is "
            "0. Use it to compare with published numbers of that judge.",
        },
        limits=(
            "Numbers of two judges, wordings or scales are not comparable: 0.25 is 0.50 under released.",
            "Judges are weak at negation, many objects and small details; on negation published scores are about 0.5 "
            "for every model.",
            "The tie threshold of pairwise accuracy is chosen on the same data; the held-out value stands beside it.",
            "Of ties a constant score earns their share, not one half.",
        ),
        citation=PAPER,
    )
    commands: ClassVar[Mapping[str, str]] = {"genai": "verism.suites.genai_bench.cli:genai"}
    published: ClassVar[Mapping[str, str]] = {"genai": "verism.suites.genai_bench.published:genai"}
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        *(
            option
            for option in question_options(
                "Your copy of genai_image.json; without it, verism's prompts about rendered scenes.",
                suffix="none",
                n_images=1,
                grids=False,
                named_by_model=True,
            )
            if option.name != "suffix"
        ),
        Option(
            "skills_file",
            Path,
            flag="--skills",
            help="Your copy of genai_skills.json; by default the one beside the prompts, if there is one.",
        ),
        Option(
            "human",
            Path,
            help="Human ratings, 1 to 5, by prompt id or by ID_NUMBER; or genai_image.json with --human-model.",
        ),
        Option("human_model", str, help="Key of the model in genai_image.json whose images these are."),
        Option("wording", str, help="Family of judges whose wording is used.", choices=tuple(WORDINGS), default="vlm"),
        Option(
            "judge_returns",
            str,
            help="Scale of the judge's probabilities: of yes, or its root, as by the released CLIP-FlanT5.",
            choices=RETURNS,
            default="probability",
        ),
    )
    rules: ClassVar[tuple[Rule, ...]] = tuple(
        rule
        for rule in switch_rules(REVISED, tests=TESTS)
        if rule.name in ("answer_test", "when_missing", "images_counted")
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({"alignment": ("vqascore",)})
    metrics: ClassVar[tuple[MetricSpec, ...]] = (*_shared_metrics(), *_people_metrics())
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="questions", metric="vqascore", facet="skill_level", scale=PROBABILITY, by_prompt=True),
    )
    layout: ClassVar[Layout] = Layout(
        rows=(
            Row("vqascore"),
            Row("vqascore", ("skill_level",)),
            Row("human_rating"),
            Row("human_pairwise"),
            Row("human_pearson"),
            Row("human_kendall"),
            Row("picked_rating", ("picked_from",)),
            Row("pick_gain", ("picked_from",)),
            Row("answered"),
        ),
        detail=("skill",),
        names={"skill_level": "level of the prompts", "picked_from": "images to pick from"},
    )

    # -------------------------------------------------------------------------------------------------------- making
    @classmethod
    def read(cls, path: Path | None, *, own: bool) -> tuple[Sequence[AskedPrompt], Mapping[str, Any]]:
        """The prompts of the user's copy without skills, or our own; see ``build``.

        Args:
            path: the file; None: our own prompts.
            own: whether a file is meant to differ from the released one.

        Raises:
            UsageError: a file that is not the released one, and ``own`` does not say that this is meant.
        """
        return cls._read(path, own=own, skills_file=None, wording="vlm")

    @classmethod
    def _read(
        cls, path: Path | None, *, own: bool, skills_file: Path | None, wording: str
    ) -> tuple[Sequence[AskedPrompt], Mapping[str, Any]]:
        words = WORDINGS[wording]
        if path is None:
            return [_about_scene(prompt, wording) for prompt in scene_prompts()], {"scenes": True}
        read = read_prompts(path)
        check_unaltered(path, alterations(read), EXPECTED, own=own)
        beside = path.with_name("genai_skills.json")
        skills_file = skills_file or (beside if beside.is_file() else None)
        skills = {} if skills_file is None else read_skills(skills_file)
        if skills_file is not None:
            check_unaltered(skills_file, skill_alterations(skills), EXPECTED_SKILLS, own=own)
        of_number: dict[int, list[str]] = {}
        for by_level in SKILLS.values():
            for name in by_level:
                for number in skills.get(name, ()):
                    of_number.setdefault(number, []).append(name)
        prompts = [
            asked_prompt(
                prompt_id,
                text,
                of_number.get(int(prompt_id), []) if prompt_id.isdigit() else [],
                words,
                tagged=bool(skills),
            )
            for prompt_id, text in read.prompts.items()
        ]
        altered = alterations(read) or (skill_alterations(skills) if skills else "")
        return prompts, {"sha256": read.digest, "altered": altered}

    @classmethod
    def build(
        cls,
        *arguments: Any,
        prompts_file: Path | None = None,
        own: bool = False,
        skills_file: Path | None = None,
        human: Path | None = None,
        human_model: str = "",
        wording: str = "vlm",
        judge_returns: str = "probability",
        **options: Any,
    ) -> Self:
        """The suite with the prompts of a file, and people's ratings if there are any.

        Args:
            *arguments: none are given.
            prompts_file: the user's copy; None: our own prompts.
            own: whether the files are meant to differ from the released ones.
            skills_file: skills of the prompts; None: beside the prompts, if there.
            human: ratings of people.
            human_model: key of the model in a file of ratings of several.
            wording: family of judges whose question is put.
            judge_returns: what the judge's probabilities are.
            **options: of ``assemble``.

        Raises:
            UsageError: files that are not the released ones, or ratings of other images.
        """
        del arguments
        if skills_file is not None and prompts_file is None:
            raise UsageError(f"{skills_file} has skills of the released prompts; name these, too: --prompts FILE")
        if human_model and human is None:
            raise UsageError("--human-model selects ratings in a file; name the file, too: --human FILE")
        every, source = cls._read(prompts_file, own=own, skills_file=skills_file, wording=wording)
        if human is not None:
            rated: dict[str, dict[str, list[float]]] = {}
            for (prompt_id, index), values in read_ratings(human, [p.prompt_id for p in every], human_model).items():
                rated.setdefault(prompt_id, {})[str(index)] = list(values)
            every = [
                replace(p, notes={**p.notes, "ratings": rated[p.prompt_id]}) if p.prompt_id in rated else p
                for p in every
            ]
        made = cls.assemble(every, source, **options)
        return made._with(wording=wording, judge_returns=judge_returns)

    @classmethod
    def matched(cls, folder: Path, prompts: Sequence[AskedPrompt], *, grid: bool, model: str) -> Sequence[UserImage]:
        """Images of the released layout, ``{model}/{id}.jpeg``, or named by prompt id.

        Args:
            folder: the folder.
            prompts: whose images are wanted.
            grid: not used here.
            model: name of the folder of a model, or what the names of images end in.

        Raises:
            UsageError: two files of one image.
        """
        if model and (folder / model).is_dir():
            return super().matched(folder / model, prompts, grid=grid, model="")
        return super().matched(folder, prompts, grid=grid, model=model)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite whose prompts a run stored, with the wording they were asked in."""
        made = super().reopen(settings, prompts)
        return made._with(wording=settings["wording"], judge_returns=settings["judge_returns"])

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and questions, and what the judge's numbers are."""
        return {**super().settings(), "wording": self.wording, "judge_returns": self.judge_returns}

    @property
    def compared_settings(self) -> Sequence[str]:
        """The wording of the question changes the answers."""
        return ("wording", "judge_returns")

    # -------------------------------------------------------------------------------------------------------- scores
    def replies(self, observed: Observed) -> dict[tuple[str, str], Reply]:
        """Replies with probabilities, whichever the judge returns.

        Args:
            observed: a run.
        """
        found = super().replies(observed)
        if self.judge_returns == "probability":
            return found
        return {
            key: reply if reply.probability is None or reply.truth else replace(reply, probability=reply.probability**2)
            for key, reply in found.items()
        }

    def means(self, protocol: str, images: Sequence[JudgedImage]) -> dict[Key, Mean]:
        """As of every suite of questions, and by skill.

        Args:
            protocol: under which the images were judged.
            images: all images of some prompts.
        """
        switches = self.switches(protocol)
        means = super().means(protocol, images)
        for skill, members in self._by_skill(images).items():
            means[self.main_metric, "skill", skill] = overall_mean(members, switches)
        return means

    def rows(self, protocol: str, images: Sequence[JudgedImage]) -> Sequence[_Rated]:
        """Scores and ratings of images, where there are ratings.

        Args:
            protocol: under which the images were judged.
            images: all images of some prompts.
        """
        if not any(p.notes.get("ratings") for p in self.asked):
            return ()
        switches = self.switches(protocol)
        limit = switches.images_counted
        return [
            _Rated(
                prompt_id=image.prompt_id,
                index=image.index,
                value=image_value(image, switches) if limit is None or image.index < limit else None,
                rating=self._rating(protocol, image),
            )
            for image in images
        ]

    def _scores(self, protocol: str, tally: Tally) -> list[Score]:
        scores = super()._scores(protocol, tally)
        rows: Sequence[_Rated] = tally.rows
        if not rows:
            return scores
        groups: list[tuple[dict[str, Any], Sequence[_Rated]]] = [({}, rows)]
        groups += [
            ({"skill_level": level}, some) for level, some in self._by_facet(rows, "skill_level").items() if some
        ]
        groups += [({"skill": skill}, some) for skill, some in self._by_skill(rows).items() if some]
        for group, members in groups:
            scores += self._with_people(protocol, group, members)
        scores += self._picks(protocol, rows)
        return scores

    def _by_skill(self, images: Sequence[T]) -> dict[str, list[T]]:
        """Images by skill of their prompts, which may have several; in the benchmark's order, some without images."""
        asked = {skill for prompt in self.asked for skill in prompt.notes.get("skills", ())}
        return {
            skill: [i for i in images if skill in self._by_id[i.prompt_id].notes.get("skills", ())]
            for by_level in SKILLS.values()
            for skill in by_level
            if skill in asked
        }

    def _rating(self, protocol: str, image: JudgedImage) -> float | None:
        ratings = self._by_id[image.prompt_id].notes.get("ratings", {}).get(str(image.index), ())
        return mean_rating(ratings, all_as_they_are=protocol != "revised")

    def _with_people(self, protocol: str, group: Mapping[str, Any], images: Sequence[_Rated]) -> list[Score]:
        """People's mean rating, and how far the scores agree with it."""
        rated = [(image.prompt_id, image.rating) for image in images if image.rating is not None]
        if not rated:
            return []
        # The released figures keep ratings off the scale, so theirs has no bounds.
        bounds = (float(LOWEST), float(HIGHEST)) if protocol == "revised" else None
        mean = Number(_by_prompt(rated, bounds=bounds), len(rated), len(images) - len(rated))
        scores = [self._score("human_rating", protocol, group, mean)]
        both = _with_both(images)
        if len(both) < 2:
            return scores
        found = agreement_with_people(
            {(str(image.index), image.prompt_id): value for image, value, _ in both},
            {(str(image.index), image.prompt_id): [rating] for image, _, rating in both},
        )
        pairs = found.pairwise
        numbers: dict[str, Interval] = {
            "human_pearson": Interval(*found.pearson),
            "human_kendall": Interval(*found.kendall),
            "human_pairwise": Interval(pairs.value, pairs.low, pairs.high),
            "human_pairwise_held_out": _alone(pairs.cross_fitted),
            "human_tied_pairs": _alone(pairs.n_tied / pairs.n_pairs),
        }
        n_unusable = len(images) - len(both)
        scores += [
            self._score(name, protocol, group, Number(interval, len(both), n_unusable))
            for name, interval in numbers.items()
        ]
        return scores

    def _picks(self, protocol: str, images: Sequence[_Rated]) -> list[Score]:
        """What picking the best-scored of several images of a prompt gains by people's ratings."""
        by_prompt: dict[str, list[tuple[float, float]]] = {}
        for image, value, rating in _with_both(images):
            by_prompt.setdefault(image.prompt_id, []).append((value, rating))
        if self.n_images < 2 or not by_prompt:
            return []
        picks: dict[str, Callable[[list[float], list[float], int], float]] = {
            "picked_rating": expected_pick,
            "random_rating": lambda scores, ratings, _: expected_pick(scores, ratings, 1),
            "oracle_rating": lambda _, ratings, k: expected_pick(ratings, ratings, k),
        }
        n_prompts = len({image.prompt_id for image in images})
        scores = []
        for k in sorted({FEW, self.n_images}):
            # A prompt with fewer usable images than k would make the pick easier to get wrong; it is left out, counted.
            enough = {prompt: rows for prompt, rows in by_prompt.items() if len(rows) >= k}
            if k > self.n_images or not enough:
                continue
            values = {
                name: {
                    prompt: pick([score for score, _ in rows], [rating for _, rating in rows], k)
                    for prompt, rows in enough.items()
                }
                for name, pick in picks.items()
            }
            values["pick_gain"] = {
                prompt: value - values["random_rating"][prompt] for prompt, value in values["picked_rating"].items()
            }
            for name, of_prompts in values.items():
                interval = _by_prompt(list(of_prompts.items()), bounds=None)
                mean = Number(interval, len(enough), n_prompts - len(enough))
                scores.append(self._score(name, protocol, {"picked_from": k}, mean))
        return scores

    # -------------------------------------------------------------------------------------------------------- remarks
    def counts(self, observed: Observed) -> Mapping[str, int]:
        """As of every suite of questions, and answers without a probability."""
        counts = dict(super().counts(observed))
        answers = observed.observations.get(AnswerNeed.table)
        if answers is not None:
            asked = answers.filter(answers["question"].is_not_null())
            counts["without_probability"] = int(asked["probability"].is_null().sum())
        return counts

    def remarks(self, observed: Observed) -> Sequence[str]:
        """The scale of the probabilities, ratings that cannot be, and prompts without a skill."""
        lines = list(super().remarks(observed))
        answers = observed.observations.get(AnswerNeed.table)
        judge = "" if answers is None or answers.is_empty() else str(answers["judge"][0])
        lines.append(f"wording of the question: {self.wording}; the judge returns: {self.judge_returns}")
        if judge != TRUTH and answers is not None:
            counts = self.known_counts(observed)
            asked, without = counts["asked"], counts["without_probability"]
            if without:
                lines.append(
                    f"the judge gave no probability for {without:,} of {asked:,} answers: they have no VQAScore"
                )
            if observed.observations.get(TOKENS) is None:
                lines.append(
                    "the judge gives no probabilities of single spellings: paper and released take that of yes in any "
                    "spelling, and probability_share has no values"
                )
        slips = [
            f"{prompt.prompt_id} image {index}: {', '.join(f'{value:g}' for value in ratings)}"
            for prompt in self.asked
            for index, ratings in sorted(prompt.notes.get("ratings", {}).items())
            if on_scale(ratings).impossible
        ]
        if slips:
            lines.append(
                f"ratings off the scale of {LOWEST} to {HIGHEST} (left out under revised, kept under the others): "
                + "; ".join(slips[:10])
            )
        untagged = [p.prompt_id for p in self.asked if p.facets.get("skill_level") == LEVELS[-1]]
        if untagged:
            lines.append(f"{len(untagged):,} prompts have no skill: {', '.join(untagged[:10])}")
        return lines


def _about_scene(prompt: AskedPrompt, wording: str) -> AskedPrompt:
    """Our own prompt with the one question instead of several; it is right where all of them are."""
    parts = tuple(q.fact for q in prompt.questions if q.fact is not None)
    skill = prompt.scene.skill if prompt.scene is not None else ""
    return asked_prompt(
        prompt.prompt_id,
        prompt.text,
        [SCENE_SKILLS[skill]] if skill in SCENE_SKILLS else [],
        WORDINGS[wording],
        fact=SceneFact(asks="all", parts=parts),
        scene=prompt.scene,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rated:
    """An image with its score and people's mean rating; None for one that there is not."""

    prompt_id: str
    index: int
    value: float | None
    rating: float | None


def _with_both(images: Sequence[_Rated]) -> list[tuple[_Rated, float, float]]:
    """Images with a score and a rating, and both."""
    return [(i, i.value, i.rating) for i in images if i.value is not None and i.rating is not None]


def _by_prompt(rows: Sequence[tuple[str, float]], *, bounds: tuple[float, float] | None) -> Interval:
    """Mean over prompts of the mean of their values, with its interval."""
    groups: dict[str, list[float]] = {}
    for prompt, value in rows:
        groups.setdefault(prompt, []).append(value)
    means = [sum(values) / len(values) for values in groups.values()]
    return clustered_mean(means, np.array(list(groups)), bounds=bounds)


def _alone(value: float) -> Interval:
    return Interval(value, NOTHING.low, NOTHING.high)
