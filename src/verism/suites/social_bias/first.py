"""Social bias as the first version of the paper measures it, as a suite: what is asked, what CLIP sees, votes, scores.

Source: Cho, Zala and Bansal 2022, arXiv:2202.04053v1, Sec. 4.4 and 5.3, and the authors' code of February 2022.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from verism.cards import JudgeCard, shipped_cards
from verism.errors import UsageError
from verism.records import (
    BroughtPicture,
    EmbeddingNeed,
    Need,
    Observed,
    Prompt,
    RatingTask,
    Score,
    SkinToneNeed,
)
from verism.suites.prompt_lists import choose
from verism.suites.rule_values import whole
from verism.suites.social_bias.adjusting import Confusion, card_from, card_record, find_confusion, judge_of
from verism.suites.social_bias.first_comparing import as_study
from verism.suites.social_bias.first_people import Labels, are_labels, labels_of_ratings, rating_tasks, read_labels
from verism.suites.social_bias.first_prompts import brought_pictures, choose_wording, make_prompts, read_brought
from verism.suites.social_bias.first_scores import first_scores
from verism.suites.social_bias.first_votes import LOGIT_SCALE, tone_rows, vote_rows, whole_pictures
from verism.suites.social_bias.first_words import Axis, axes_from_record, read_words, released_words
from verism.suites.social_bias.targets import Targets, checked_targets, read_targets
from verism.suites.verdict_table import VerdictRows
from verism.suites.verdict_table import shown_images as shown_pictures

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FirstSocialBias", "build", "rebuild"]

PROTOCOLS_HERE = ("released", "corrected")
RESAMPLES = 2_000
UNSURE_BAND = 0.1  # 0.6 and 0.4 are the closest two classes may be
PUBLISHED_CLIP = ("ViT-B/32", "ViT-B-32", "clip-vit-base-patch32")
PUBLISHED_PICTURES = 9
RELEASED_LIST = "released"


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstSocialBias:
    """Neutral prompts, and the gender and race that a classifier perceives in their pictures.

    Make one with ``build``, or ``rebuild`` for a stored run.

    Attributes:
        list_name, n_listed: of the list of words, and how many it has. wording: see ``first_words``.
        brought: None if a model is to make the pictures.
        protocols: which rules are applied. unsure, logit_scale: see ``first_votes``. labels: of people.
        targets: reference distributions. cards: of judges, before those that come with verism.
        n_resamples, resampling_seed: of intervals.
    """

    name: str
    list_name: str
    n_listed: int
    wording: str
    axes: tuple[Axis, ...]
    prompt_list: tuple[Prompt, ...]
    brought: tuple[BroughtPicture, ...] | None = None
    protocols: tuple[str, ...] = PROTOCOLS_HERE
    unsure: float = UNSURE_BAND
    logit_scale: float = LOGIT_SCALE
    labels: Labels = field(default_factory=dict)
    targets: Targets | None = None
    cards: tuple[JudgeCard, ...] = ()
    n_resamples: int = RESAMPLES
    resampling_seed: int = 0
    only_named_judges: ClassVar[bool] = (
        True  # faces, which another judge would look for unasked, are not what is measured here
    )

    # ---------------------------------------------------------------------------------------------- what is asked
    def prompts(self) -> Sequence[Prompt]:
        return self.prompt_list

    def needs(self) -> Sequence[Need]:
        """Vectors of pictures and of the classifier's texts; and tones of skin. Either may be left out."""
        texts = tuple(dict.fromkeys(prompt for axis in self.axes for prompt in axis.prompts))
        return (EmbeddingNeed(texts=texts, optional=True), SkinToneNeed(optional=True))

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and needs."""
        return {
            "words": self.list_name,
            "n_words": self.n_listed,
            "wording": self.wording,
            "axes": [axis.record() for axis in self.axes],
        }

    def rules(self) -> Mapping[str, Any]:
        """What changes verdicts or scores without new pictures or observations.

        ``labels``, ``target`` and ``cards`` may also be set to files (see ``first_people.read_labels``,
        ``targets.read_targets``, ``verism.cards``); what is in them is kept.
        """
        return {
            "protocols": list(self.protocols),
            "unsure": self.unsure,
            "logit_scale": self.logit_scale,
            "target": self.targets,
            "cards": [card_record(card) for card in self.cards],
            "labels": {unit: {axis: dict(of) for axis, of in by.items()} for unit, by in self.labels.items()},
            "n_resamples": self.n_resamples,
            "resampling_seed": self.resampling_seed,
        }

    def with_rules(self, **rules: Any) -> FirstSocialBias:
        """The same suite with other rules, by the names of ``rules``.

        Raises:
            UsageError: no such rule, labels that cannot be read, or numbers out of range.
        """
        known = self.rules()
        if unknown := sorted(set(rules) - set(known)):
            raise UsageError(f"{self.name} has no rule {unknown[0]!r}; its rules are {', '.join(known)}")
        asked = {**known, **rules}
        names = asked["protocols"]
        names = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
        if not names or (foreign := [n for n in names if n not in PROTOCOLS_HERE]):
            what = foreign[0] if names else ""
            raise UsageError(f"{self.name} has no protocol {what!r}; there are {', '.join(PROTOCOLS_HERE)}")
        labels = asked["labels"]
        if isinstance(labels, str | Path):
            labels = read_labels(Path(labels), self.axes, self.prompt_list)
        elif not are_labels(labels):
            raise UsageError(f"{self.name}: the rule labels is a file; got {labels!r}")
        target, cards = asked["target"], asked["cards"]
        words = as_study(self.name, self.axes, self.prompt_list)
        if isinstance(target, str | Path) and str(target):
            target = read_targets(Path(target), words)
        elif target:
            target = checked_targets(target, words)
        if isinstance(cards, str | Path):
            cards = [part for part in str(cards).split(",") if part]
        return replace(
            self,
            targets=target or None,
            cards=tuple(card_from(card) for card in cards or ()),
            protocols=tuple(p for p in PROTOCOLS_HERE if p in names),
            unsure=_number("unsure", asked["unsure"], 0.0, 0.5),
            logit_scale=_number("logit_scale", asked["logit_scale"], 1e-6, 1e6),
            labels=labels,
            n_resamples=whole("n_resamples", asked["n_resamples"], 1),
            resampling_seed=whole("resampling_seed", asked["resampling_seed"], 0),
        )

    # ------------------------------------------------------------------------------------------ verdicts and scores
    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """What is perceived in each picture, and the vote of each prompt: see ``first_votes``."""
        rows = VerdictRows()
        pictures = shown_pictures(observed)
        tables = observed.observations
        if "embeddings" in tables:
            vote_rows(
                rows,
                pictures,
                self.axes,
                tables["embeddings"],
                tables["text_embeddings"],
                protocols=self.protocols,
                unsure=self.unsure,
                logit_scale=self.logit_scale,
            )
        if "skin_tones" in tables and "released" in self.protocols and whole_pictures(tables["skin_tones"]):
            tone_rows(rows, pictures, tables["skin_tones"])
        return rows.table()

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite, in a fixed order; see ``first_scores.first_scores``."""
        return first_scores(
            self.name,
            self.axes,
            observed.prompts,
            verdicts,
            self.labels,
            protocols=self.protocols,
            targets=self.targets or {},
            confusions=self._confusions(observed),
            n_resamples=self.n_resamples,
            seed=self.resampling_seed,
        )

    # ------------------------------------------------------------------------------------------------------ people
    def rating_tasks(self) -> Sequence[RatingTask]:
        """Questions to people about all pictures of a prompt: see ``first_people.rating_tasks``."""
        return rating_tasks(self.axes)

    def labels_of_ratings(self, ratings: pl.DataFrame, tasks: Mapping[str, RatingTask]) -> Labels:
        """People's answers as the rule ``labels``: see ``first_people.labels_of_ratings``."""
        return labels_of_ratings(ratings, tasks, self.axes, self.prompt_list)

    def _confusions(self, observed: Observed) -> dict[str, Confusion]:
        """How the judge errs, by axis: from the first card of exactly this judge that has the axis' classes."""
        judge, cards = judge_of(observed, "embeddings"), (*self.cards, *shipped_cards())
        found = {a.name: find_confusion(cards, judge, a.name, "corrected", a.classes) for a in self.axes}
        return {name: confusion for name, confusion in found.items() if confusion is not None}

    def remarks(self, observed: Observed) -> list[str]:
        """Lines without which the scores could be misread."""
        lines = [f"{axis.name}: {axis.caution}" for axis in self.axes if axis.caution]
        embeddings = observed.observations.get("embeddings")
        if embeddings is not None:
            judges = embeddings["judge"].unique().to_list()
            if unknown := [a.name for a in self.axes if a.name not in self._confusions(observed)]:
                lines.append(
                    f"no judge card of {' or '.join(judges)} speaks of {' or '.join(unknown)}: how often it errs is "
                    "not known, and its numbers are not adjusted"
                )
            if self.list_name == RELEASED_LIST and not any(name in j for j in judges for name in PUBLISHED_CLIP):
                lines.append("the published numbers are of CLIP ViT-B/32; another judge's are not comparable with them")
        skin = observed.observations.get("skin_tones")
        if skin is not None and not whole_pictures(skin):
            lines.append(
                "tone: left out, as the published baseline is of whole pictures and not of faces; it takes the judge "
                "picture:colour=rule"
            )
        elif skin is not None:
            lines.append(
                "tone: by a fixed colour rule, which of the ten swatches lets 4 to 7 pass and no other, and takes wood "
                "or sand for skin; shares of tones are shares of what it lets through"
            )
        lines += _how_many(observed, self.n_listed, PUBLISHED_PICTURES if self.list_name == RELEASED_LIST else 1)
        return lines


def _how_many(observed: Observed, n_listed: int, least: int) -> list[str]:
    """Lines on prompts that are missing, have few pictures, or the same one several times."""
    lines = []
    if len(observed.prompts) < n_listed:
        lines.append(f"{len(observed.prompts)} of the {n_listed} prompts of the list were asked")
    usable: dict[str, list[str]] = {prompt_id: [] for prompt_id in observed.prompts}
    for row in observed.images.iter_rows(named=True):
        if row["state"] == "ok":
            usable[row["prompt_id"]].append(row["sha256"] or row["image_id"])
    few = {p: len(of) for p, of in usable.items() if len(of) < max(least, observed.prompts[p].n_images)}
    if few:
        lines.append(
            f"prompts with fewer usable pictures than the published {PUBLISHED_PICTURES}, or than were asked for: "
            f"{len(few)}; the votes of {sum(n == 0 for n in few.values())} are missing, the others rest on less"
        )
    if alike := sum(len(set(of)) < len(of) for of in usable.values()):
        lines.append(
            f"prompts with the same picture more than once: {alike}; a model must draw at random, or nine pictures "
            "say no more than one"
        )
    return lines


# -------------------------------------------------------------------------------------------------------------- making
def build(
    name: str = "social_bias_v1",
    *,
    images: Path | None = None,
    prompts: Path | str | None = None,
    wording: str | None = None,
    labels: Path | None = None,
    target: Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    n_images: int | None = None,
) -> FirstSocialBias:
    """The suite ``social_bias_v1``.

    Args:
        images: pictures that exist, a folder of the released layout or a table (see ``first_prompts.read_brought``);
            prompts that have pictures are asked. None: a model is asked all prompts.
        prompts: ``released`` (the paper's), or a list of your own (see ``first_words``).
        wording: ``released``, always "a", or ``revised``, with the articles of November 2022. By default the former;
            for a folder of pictures, that which its folders are named in.
        labels: what people saw in the pictures (see ``first_people.read_labels``).
        target: reference distributions to compare with (see ``targets.read_targets``, whose facet is ``word``).
        limit: at most so many prompts, drawn at random. seed: of that, and of the resampling behind intervals.
        n_images: pictures per prompt, by default nine; of brought pictures, as many as there are.

    Raises:
        UsageError: something does not exist or does not fit.
    """
    words = released_words() if prompts is None else read_words(Path(prompts))
    chosen = choose_wording(Path(images or ""), words, wording) if images or wording else words.wordings[0]
    listed = list(words.words)
    found = None
    if images is not None:
        found = read_brought(Path(images), words, chosen)
        there = {prompt_id for prompt_id, _ in found}
        listed = [word for word in listed if word.prompt_id in there]
        if n_images is None:
            n_images = 1 + max(index for _, index in found)
    kept = choose(listed, [word.prompt_id for word in listed], limit, seed)
    each = whole("n_images", words.n_images if n_images is None else n_images, 1)
    made = tuple(make_prompts(name, kept, chosen, each))
    brought = None if found is None else tuple(b for b in brought_pictures(found, made) if b.index < each)
    suite = FirstSocialBias(
        name=name,
        list_name=words.name,
        n_listed=len(words.words),
        wording=chosen,
        axes=words.axes,
        prompt_list=made,
        brought=brought,
        resampling_seed=whole("seed", seed, 0),
    )
    given = {name: path for name, path in (("labels", labels), ("target", target)) if path is not None}
    return suite.with_rules(**given) if given else suite


def rebuild(name: str, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> FirstSocialBias:
    """The suite of a stored run: its axes are in the run's settings."""
    return FirstSocialBias(
        name=name,
        list_name=str(settings["words"]),
        n_listed=int(settings["n_words"]),
        wording=str(settings["wording"]),
        axes=axes_from_record(settings["axes"], where="the axes of the run"),
        prompt_list=tuple(prompts),
    )


def _number(name: str, value: Any, least: float, most: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number <= most:
        raise UsageError(f"{name} is a number from {least:g} to {most:g}; got {value!r}")
    return number
