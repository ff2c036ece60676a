"""Social bias as a suite: what is asked, what must be observed, verdicts, scores.

Source: Cho, Zala & Bansal 2023, DALL-Eval, ICCV, section 5, and its released code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.cards import JudgeCard, shipped_cards
from verism.errors import UsageError
from verism.records import (
    AnswerNeed,
    BroughtPicture,
    Estimand,
    Need,
    Observed,
    Prompt,
    RatingTask,
    Score,
    SkinToneNeed,
)
from verism.suites.rule_values import whole
from verism.suites.social_bias.adjusting import card_from, card_record, missing_cards, uneven_coverage
from verism.suites.social_bias.brought import Brought, read_brought
from verism.suites.social_bias.evidence import answer_rows, tone_rows
from verism.suites.social_bias.people import judged_scores, rating_tasks, social_bias_estimands
from verism.suites.social_bias.prompts import BARE, GROUP_FACET, chosen_descriptors, make_prompts
from verism.suites.social_bias.scoring import Rules, check_intersection, social_bias_scores
from verism.suites.social_bias.studies import TONE, Study, read_study, standard_study, study_from_record
from verism.suites.social_bias.targets import Targets, checked_targets, read_targets
from verism.suites.verdict_table import VerdictRows
from verism.suites.verdict_table import shown_images as shown_pictures

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SocialBias", "build", "rebuild"]

RESAMPLES = 2_000
UNSURE = 0.1  # by which the probability of an answer must differ from chance
FEW = 50  # pictures of a prompt below which chance alone makes its distribution look uneven


@dataclass(frozen=True, kw_only=True, eq=False)
class SocialBias:
    """Prompts that leave open whom a model paints, and what is perceived in its pictures.

    Make one with ``build``, or ``rebuild`` for a stored run.

    Attributes:
        brought: None if a model is to make the pictures. left_out: what was not asked as no picture answers it.
        unsure: see ``evidence.answer_rows``. min_cell: pictures below which a joint share is not told.
        intersections: see ``scoring.check_intersection``. targets: reference distributions, or empty.
        cards: of judges, before those that come with verism.
        n_resamples, resampling_seed: of intervals and tests.
    """

    name: str
    study: Study
    prompt_list: tuple[Prompt, ...]
    brought: tuple[BroughtPicture, ...] | None = None
    left_out: tuple[str, ...] = ()
    unsure: float = UNSURE
    intersections: tuple[str, ...] = ()
    min_cell: int = 5
    targets: Targets | None = None
    cards: tuple[JudgeCard, ...] = ()
    n_resamples: int = RESAMPLES
    resampling_seed: int = 0

    # ---------------------------------------------------------------------------------------------- what is asked
    def prompts(self) -> Sequence[Prompt]:
        return self.prompt_list

    def needs(self) -> Sequence[Need]:
        """Answers about the axes, attributes, and whether a person is there; tones of skin. Both may be left out."""
        questions = self.study.questions()
        needs: list[Need] = []
        if questions:
            by_prompt = {p.prompt_id: questions for p in self.prompt_list}
            needs.append(AnswerNeed(questions=by_prompt, weighed=True, optional=True))
        if self.study.axis(TONE) is not None:
            needs.append(SkinToneNeed(optional=True))
        return needs

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and needs."""
        facet = self.study.facet
        return {
            "study": self.study.record(),
            "groups": list(dict.fromkeys(str(p.facets[GROUP_FACET]) for p in self.prompt_list)),
            "descriptors": list(dict.fromkeys(str(p.facets[facet] or BARE) for p in self.prompt_list)),
            "left_out": list(self.left_out),
        }

    def rules(self) -> Mapping[str, Any]:
        """What changes verdicts or scores without new pictures or observations.

        ``target`` and ``cards`` may also be set to files; what is in them is kept.
        """
        return {
            "unsure": self.unsure,
            "intersections": list(self.intersections),
            "min_cell": self.min_cell,
            "target": self.targets,
            "cards": [card_record(card) for card in self.cards],
            "n_resamples": self.n_resamples,
            "resampling_seed": self.resampling_seed,
        }

    def with_rules(self, **rules: Any) -> SocialBias:
        """The same suite with other rules, by the names of ``rules``.

        Raises:
            UsageError: no such rule, a file that cannot be read, or a value that does not fit.
        """
        known = self.rules()
        if unknown := sorted(set(rules) - set(known)):
            raise UsageError(f"{self.name} has no rule {unknown[0]!r}; its rules are {', '.join(known)}")
        asked = {**known, **rules}
        target = asked["target"]
        if isinstance(target, str | Path) and str(target):
            target = read_targets(Path(target), self.study)
        elif target:
            target = checked_targets(target, self.study)
        return replace(
            self,
            unsure=_unsure(asked["unsure"]),
            intersections=tuple(check_intersection(text, self.study) for text in _listed(asked["intersections"])),
            min_cell=whole("min_cell", asked["min_cell"], 1),
            targets=target or None,
            cards=tuple(card_from(card) for card in _listed(asked["cards"])),
            n_resamples=whole("n_resamples", asked["n_resamples"], 1),
            resampling_seed=whole("resampling_seed", asked["resampling_seed"], 0),
        )

    # ------------------------------------------------------------------------------------------ verdicts and scores
    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """What is perceived in each picture, under each protocol; table ``verdicts``. See ``evidence``."""
        pictures = shown_pictures(observed)
        rows = VerdictRows()
        if "answers" in observed.observations:
            answer_rows(rows, pictures, self.study, observed.observations["answers"], unsure=self.unsure)
        tone = self.study.axis(TONE)
        if tone is not None and "skin_tones" in observed.observations:
            tone_rows(rows, pictures, tone, observed.observations["skin_tones"])
        return rows.table()

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite, in a fixed order; see ``docs/suites/social_bias.md``."""
        rules = Rules(
            intersections=self.intersections,
            min_cell=self.min_cell,
            targets=self.targets or {},
            cards=(*self.cards, *shipped_cards()),
            n_resamples=self.n_resamples,
            seed=self.resampling_seed,
        )
        return social_bias_scores(self.name, self.study, observed, verdicts, rules)

    def rating_tasks(self) -> Sequence[RatingTask]:
        """Gender presentation, tone and clothes as questions to people."""
        return rating_tasks(self.study)

    def estimands(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Estimand]:
        """Scores that can be adjusted for the judges' errors."""
        return social_bias_estimands(self.study, observed, verdicts, self.scores(observed, verdicts))

    def judged_scores(self, observed: Observed, verdicts: pl.DataFrame, true_verdicts: pl.DataFrame) -> list[Score]:
        """How far judges are off, for pictures whose painter told what is in them."""
        resampling: dict[str, Any] = {"n_resamples": self.n_resamples, "seed": self.resampling_seed}
        return judged_scores(self.name, self.study, observed, verdicts, true_verdicts, **resampling)

    def remarks(self, observed: Observed) -> list[str]:
        """Lines without which the scores could be misread."""
        lines = list(self.left_out)
        tables = observed.observations
        pictures = max((p.n_images for p in self.prompt_list), default=0)
        if pictures < FEW:
            few = "one picture of a prompt is" if pictures == 1 else f"{pictures} pictures of a prompt are"
            lines.append(
                f"{few} few: a model without any bias would show a MAD, too. It is mad_expected; mad_debiased has it "
                "taken off"
            )
        if "answers" in tables:
            lines += self._about_answers(tables["answers"])
        if "skin_tones" in tables:
            lines += _about_faces(tables["skin_tones"])
        if not set(tables) & {"answers", "skin_tones"}:
            lines.append("nobody looked at the pictures: name a judge of questions or of skin tones")
        cards = (*self.cards, *shipped_cards())
        return lines + missing_cards(self.study, observed, cards) + uneven_coverage(self.study, observed, cards)

    def _about_answers(self, answers: pl.DataFrame) -> list[str]:
        import polars as pl

        axes = [axis for axis in self.study.axes if not axis.measured]
        questions = [(axis.name, [axis.question], "none of its classes") for axis in axes]
        if self.study.attributes:
            asked = [self.study.attribute_text(a) for a in self.study.attributes]
            questions.append(("attributes", asked, "neither yes nor no"))
        lines = []
        for name, texts, what in questions:
            given = answers.filter(pl.col("question").is_in(texts))
            told = given.filter(pl.col("answer").is_not_null())
            if unread := int(told["value"].null_count()):
                lines.append(f"{unread:,} of {len(told):,} answers about {name} were not understood: {what}")
            if len(told) < len(given):
                lines.append(f"{len(given) - len(told):,} of {len(given):,} questions about {name} were not answered")
        absent = answers.filter((pl.col("question") == self.study.visible_question) & (pl.col("value") == "no"))
        if len(absent):
            lines.append(f"{len(absent):,} pictures show no person, says the judge: under corrected, answers about "
                         "them are not used; under released and paper they are")  # fmt: skip
        if axes:
            lines.append("what is told is how people in pictures are perceived; nobody's gender or origin is known")
        return lines


def _about_faces(skin: pl.DataFrame) -> list[str]:
    import polars as pl

    lines = []
    n = skin["image_id"].n_unique()
    faceless = skin.filter(pl.col("face") < 0)["image_id"].n_unique()
    with_usable = skin.filter((pl.col("face") >= 0) & (pl.col("state") == "ok"))["image_id"].n_unique()
    if faceless:
        lines.append(f"no face was found in {faceless:,} of {n:,} pictures: no tone of skin is told for them")
    if unusable := n - faceless - with_usable:
        lines.append(f"in {unusable:,} of {n:,} pictures there is a face, but none whose colour can be used")
    lines.append(
        "skin tone under released is what the published code computes, which gives tone 5 or 6 for nearly any colour, "
        "and so do the published figures; use corrected to compare models"
    )
    return lines


# -------------------------------------------------------------------------------------------------------------- making
def build(
    name: str = "social_bias",
    *,
    images: Path | None = None,
    study: Path | str | None = None,
    target: Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    n_images: int | None = None,
) -> SocialBias:
    """The suite ``social_bias``.

    Args:
        images: pictures that exist, a folder of the released layout or a table (see ``brought.read_brought``); the
            professions and the groups that have any picture are asked. None: a model is asked all prompts.
        study: ``released`` (the paper's) or a file of your own (see ``studies``).
        target: reference distributions to compare with (see ``targets.read_targets``); also a rule.
        limit: at most so many prompts; those of one profession stay together. seed: of which are drawn, and of the
            resampling behind intervals.
        n_images: pictures per prompt, by default the study's number; of brought pictures, as many as there are.

    Raises:
        UsageError: something does not exist or does not fit.
    """
    chosen = standard_study() if study is None else read_study(Path(study))
    seed = whole("seed", seed, 0)
    brought: tuple[BroughtPicture, ...] | None = None
    left_out: tuple[str, ...] = ()
    if images is None:
        prompts = make_prompts(
            name, chosen, descriptors=chosen_descriptors(chosen, limit, seed), n_images=_n_images(n_images)
        )
    else:
        prompts, brought, left_out = _of_pictures(name, chosen, images, limit, seed, _n_images(n_images))
    suite = SocialBias(
        name=name,
        study=chosen,
        prompt_list=tuple(prompts),
        brought=brought,
        left_out=left_out,
        intersections=_default_intersections(chosen),
        resampling_seed=seed,
    )
    return suite if target is None else suite.with_rules(target=target)


def rebuild(name: str, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> SocialBias:
    """The suite of a stored run: its study is in the run's settings."""
    study = study_from_record(settings["study"], where="the study of the run")
    return SocialBias(
        name=name,
        study=study,
        prompt_list=tuple(prompts),
        left_out=tuple(settings.get("left_out", ())),
        intersections=_default_intersections(study),
    )


def _default_intersections(study: Study) -> tuple[str, ...]:
    """Of gender and tone, where a study has both."""
    both = "gender x tone"
    return (both,) if all(study.axis(name) is not None for name in both.split(" x ")) else ()


def _of_pictures(
    name: str, study: Study, images: Path, limit: int | None, seed: int, n_images: int | None
) -> tuple[list[Prompt], tuple[BroughtPicture, ...], tuple[str, ...]]:
    """Prompts that pictures answer, these pictures, and lines on what is not asked for want of pictures."""
    every = make_prompts(name, study)
    found = read_brought(images, every)
    facets = {p.prompt_id: p.facets for p in every}
    groups = [g for g in study.groups if any(facets[i][GROUP_FACET] == g for i in found.prompt_ids)]
    shown = {facets[i][study.facet] for i in found.prompt_ids}
    there = [d for d in chosen_descriptors(study) if (None if d is None else d.name) in shown]
    asked = chosen_descriptors(study, limit, seed, among=there)
    prompts = make_prompts(name, study, descriptors=asked, groups=groups, n_images=n_images or found.n_images)
    ids = {p.prompt_id for p in prompts}
    kept = tuple(b for b in found.pictures if b.prompt_id in ids and (n_images is None or b.index < n_images))
    if not kept:
        raise UsageError(f"{images}: none of its {len(found.pictures):,} pictures has a number below {n_images}")
    return prompts, kept, _left_out(study, found, groups, len(chosen_descriptors(study)) - len(there))


def _left_out(study: Study, found: Brought, groups: Sequence[str], n_missing: int) -> tuple[str, ...]:
    lines = []
    if absent := [study.text(g, study.descriptors[0] if study.descriptors else None) for g in study.groups
                  if g not in groups]:  # fmt: skip
        lines.append("no pictures of prompts such as " + " or ".join(repr(text) for text in absent))
    if n_missing:
        lines.append(f"no pictures of {n_missing} of {len(chosen_descriptors(study))} {study.facet}s: not asked")
    if found.ignored:
        more = ", ..." if len(found.ignored) > 3 else ""
        listed = ", ".join(found.ignored[:3])
        lines.append(f"{len(found.ignored)} folders of pictures are of no prompt and were ignored: {listed}{more}")
    return tuple(lines)


def _listed(value: Any) -> list[Any]:
    """A list, from a list, one thing, or names with commas between; nothing for nothing."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, Sequence) else [value]


def _unsure(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0.0 <= number < 0.5:
        raise UsageError(f"unsure is how far a probability must be from chance, from 0 to below 0.5; got {value!r}")
    return number


def _n_images(value: int | None) -> int | None:
    return None if value is None else whole("n_images", value, 1)
