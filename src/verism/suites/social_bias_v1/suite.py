"""Social bias as the first version of the paper measures it, as a suite: what is asked, what CLIP sees, votes, scores.

Source: Cho, Zala and Bansal 2022, arXiv:2202.04053v1, Sec. 4.4 and 5.3, and the authors' code of February 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from verism.cards import JudgeCard, shipped_cards
from verism.errors import UsageError
from verism.locations import location
from verism.records import (
    EmbeddingNeed,
    Need,
    Observed,
    Prompt,
    RatingTask,
    Score,
    SkinToneNeed,
    UserImage,
)
from verism.suites.base import (
    LIMIT,
    N_IMAGES,
    SEED,
    Demo,
    Layout,
    MetricSpec,
    Option,
    Pairing,
    Row,
    Rule,
    Suite,
    SuiteInfo,
)
from verism.suites.prompt_lists import choose
from verism.suites.social_bias.adjustment import Confusion, card_from, card_record, find_confusion, judge_of, listed
from verism.suites.social_bias.metrics import METRICS, OF_TARGET, SHORT_TABLE, axis_pairings
from verism.suites.social_bias.studies import TONE
from verism.suites.social_bias.suite import LIMITS
from verism.suites.social_bias.targets import target_of_rule
from verism.suites.social_bias_v1.comparison import as_study
from verism.suites.social_bias_v1.demo import DEMOS
from verism.suites.social_bias_v1.people import Labels, are_labels, labels_of_ratings, rating_tasks, read_labels
from verism.suites.social_bias_v1.prompts import choose_wording, list_user_images, make_prompts, read_user_images
from verism.suites.social_bias_v1.scoring import vote_scores
from verism.suites.social_bias_v1.votes import LOGIT_SCALE, tone_rows, vote_rows, whole_images
from verism.suites.social_bias_v1.words import Axis, axes_from_record, read_words, released_words
from verism.suites.verdict_table import VerdictRows, shown_images

if TYPE_CHECKING:
    import polars as pl

    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = ["SocialBiasV1"]

PROTOCOLS_HERE = ("released", "revised")
RESAMPLES = 2_000
UNSURE_BAND = 0.1  # 0.6 and 0.4 are the closest two classes may be
PUBLISHED_CLIP = ("ViT-B/32", "ViT-B-32", "clip-vit-base-patch32")
PUBLISHED_IMAGES = 9
RELEASED_LIST = "released"


@dataclass(frozen=True, kw_only=True, eq=False)
class SocialBiasV1(Suite):
    """Neutral prompts, and the classes that CLIP gives the people in their images.

    Make one with ``SocialBiasV1.make``.

    Attributes:
        list_name: of the list of words.
        n_listed: how many it has.
        wording: see ``words``.
        axes: what is perceived, with the texts of the classifier.
        prompt_list: the prompts.
        user_images: None if a model is to make the images.
        info: name, title, question, protocols and limits, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        layout: layout of its tables.
        named_judges_only: True: no judge observes that the user did not name.
        in_blocks: large runs are scored block by block, see ``Suite``.
        whole_prompts: no block holds a part of a prompt's images, see ``Suite``.
    """

    list_name: str
    n_listed: int
    wording: str
    axes: tuple[Axis, ...]
    prompt_list: tuple[Prompt, ...]
    user_images: tuple[UserImage, ...] | None = None

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="social_bias_v1",
        title="Social bias, first version",
        question="Which people does a model show where the prompt leaves it open, by one vote per prompt?",
        summary="first version of 2022: 145 neutral prompts, perceived gender and race by CLIP, one vote per prompt",
        protocols={
            "revised": "Every image has its own class, or none if the two most probable ones are close. Deviations "
            "are means over prompts. Use it to compare models.",
            "released": "The mean probability over the images of a prompt gives one vote per prompt, however close. "
            "Deviations are of all votes together.",
            "paper": "Not computed: only the code says how nine images become one vote.",
        },
        limits=LIMITS,
        citation="Cho, Zala & Bansal 2022, DALL-Eval, arXiv:2202.04053v1, section 5",
    )
    published: ClassVar[Mapping[str, str]] = {"dalleval": "verism.suites.social_bias_v1.published:dalleval"}
    judge_roles: ClassVar[tuple[str, ...]] = ("clip", "skin_tone")
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option("images", Path, help="Images to evaluate: a folder of the released layout, or a table."),
        Option("prompts", Path, help="Your own word list (.yaml, .csv ...).", default="released"),
        Option(
            "wording",
            str,
            choices=("released", "revised"),
            help="Articles in the prompts: released (those of November 2022) or revised (always a).",
        ),
        replace(LIMIT, help="Number of prompts, sampled at random by --seed."),
        replace(SEED, help="Seed of images, prompt sampling and resampling."),
        replace(N_IMAGES, default="9"),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "protocols", str, PROTOCOLS_HERE, many=True, choices=PROTOCOLS_HERE, metrics=(), help="Protocols to apply."
        ),
        Rule(
            "unsure",
            float,
            UNSURE_BAND,
            low=0,
            high=0.5,
            help="Half the difference of the two highest class probabilities below which an answer is unsure.",
        ),
        Rule(
            "logit_scale",
            float,
            LOGIT_SCALE,
            low=1e-6,
            high=1e6,
            help="Factor of the classifier's cosines before softmax.",
        ),
        Rule(
            "target",
            dict,
            optional=True,
            file=True,
            flag="--target",
            affects="scores",
            metrics=OF_TARGET,
            help="Shares to compare with (.csv: word, group, share).",
        ),
        Rule(
            "cards",
            dict,
            many=True,
            file=True,
            affects="scores",
            metrics=(),
            help="Judge cards to use before the built-in ones.",
        ),
        Rule(
            "labels",
            dict,
            file=True,
            flag="--labels",
            affects="scores",
            about_images=True,
            help="Labels by annotators: a file (.csv), stored with the run.",
        ),
        Rule("n_resamples", int, RESAMPLES, low=1, affects="scores", metrics=(), help="Resamples for intervals."),
        Rule("resampling_seed", int, 0, low=0, affects="scores", metrics=(), help="Seed of resampling."),
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "bias": (
                "mad",
                "axis_mean",
                "class_share",
                "reference_deviation",
            )
        }
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    layout: ClassVar[Layout] = Layout(
        detail=("word", "category"),
        rows=(*SHORT_TABLE, Row("class_share", ("axis", "class"), {"axis": TONE})),
        caveats={"axis=race": "by CLIP: hardly agrees with people"},
    )
    in_blocks: ClassVar[bool] = True
    whole_prompts: ClassVar[bool] = True  # their images vote together
    # Faces, which another judge would look for unasked, are not what is measured here.
    named_judges_only: ClassVar[bool] = True

    @property
    def cards(self) -> tuple[JudgeCard, ...]:
        """Judge cards that were named, before those that come with verism."""
        return tuple(card_from(card) for card in self.rule("cards"))

    @property
    def labels(self) -> Labels:
        """Labels by annotators."""
        labels: Labels = self.rule("labels")
        return labels

    @property
    def has_labels(self) -> bool:
        """Whether annotators' labels decide, so that no judge is needed."""
        return bool(self.labels)

    @property
    def protocols(self) -> tuple[str, ...]:
        """Protocols to apply, in their usual order."""
        return tuple(name for name in PROTOCOLS_HERE if name in self.rule("protocols"))

    def all_pairings(self) -> Sequence[Pairing]:
        """Shares of classes, image by image."""
        return axis_pairings({axis.name: axis.classes for axis in self.axes})

    # ---------------------------------------------------------------------------------------------- what is asked
    def prompts(self) -> Sequence[Prompt]:
        return self.prompt_list

    def needs(self) -> Sequence[Need]:
        """Vectors of images and of the classifier's texts; and tones of skin. Either may be left out."""
        texts = tuple(dict.fromkeys(prompt for axis in self.axes for prompt in axis.prompts))
        return (EmbeddingNeed(texts=texts, optional=True), SkinToneNeed(optional=True))

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        from verism.suites.social_bias.report import bias_sections

        return bias_sections(evidence)

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and needs."""
        return {
            "words": self.list_name,
            "n_words": self.n_listed,
            "wording": self.wording,
            "axes": [axis.record() for axis in self.axes],
        }

    def default_of(self, rule: Rule) -> Any:
        """The value of a rule that nobody changed."""
        return {} if rule.name == "labels" else super().default_of(rule)

    def check_rule(self, rule: Rule, value: Any) -> Any:
        """A value of a rule; labels, targets and cards may be files, whose content is kept.

        Raises:
            UsageError: a file that cannot be read, or a value that does not fit.
        """
        if rule.name == "labels":
            if isinstance(value, str | PurePath):
                value = read_labels(location(value), self.axes, self.prompt_list)
            elif not are_labels(value):
                raise UsageError(f"{self.name}: the rule labels is a file; got {value!r}")
            return {unit: {axis: dict(members) for axis, members in by.items()} for unit, by in value.items()}
        if rule.name == "target":
            return target_of_rule(value, as_study(self.name, self.axes, self.prompt_list))
        if rule.name == "cards":
            return [card_record(card_from(card)) for card in listed(value)]
        checked = rule.check(value)
        if rule.name == "protocols" and not checked:
            raise UsageError(f"{self.name}: name at least one protocol of {', '.join(PROTOCOLS_HERE)}")
        return checked

    # ------------------------------------------------------------------------------------------ verdicts and scores
    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """What is perceived in each image, and the vote of each prompt: see ``votes``."""
        rows = VerdictRows()
        images = shown_images(observed)
        tables = observed.observations
        if "embeddings" in tables:
            vote_rows(
                rows,
                images,
                self.axes,
                tables["embeddings"],
                tables["text_embeddings"],
                protocols=self.protocols,
                unsure=self.rule("unsure"),
                logit_scale=self.rule("logit_scale"),
            )
        if "skin_tones" in tables and "released" in self.protocols and whole_images(tables["skin_tones"]):
            tone_rows(rows, images, tables["skin_tones"])
        return rows.table()

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite, in a fixed order; see ``scoring.vote_scores``."""
        return vote_scores(
            self.name,
            self.axes,
            observed.prompts,
            verdicts,
            self.labels,
            protocols=self.protocols,
            targets=self.rule("target") or {},
            confusions=self._confusions(observed),
            n_resamples=self.rule("n_resamples"),
            seed=self.rule("resampling_seed"),
        )

    # ------------------------------------------------------------------------------------------------------ people
    def rating_tasks(self) -> Sequence[RatingTask]:
        """Questions to people about all images of a prompt: see ``people.rating_tasks``."""
        return rating_tasks(self.axes)

    def labels_of_ratings(self, ratings: pl.DataFrame, tasks: Mapping[str, RatingTask]) -> Labels:
        """People's answers as the rule ``labels``: see ``people.labels_of_ratings``."""
        return labels_of_ratings(ratings, tasks, self.axes, self.prompt_list)

    def _confusions(self, observed: Observed) -> dict[str, Confusion]:
        """How the judge errs, by axis: from the first card of exactly this judge that has the axis' classes."""
        judge, cards = judge_of(observed, "embeddings"), (*self.cards, *shipped_cards())
        results = {a.name: find_confusion(cards, judge, a.name, "revised", a.classes) for a in self.axes}
        return {name: confusion for name, confusion in results.items() if confusion is not None}

    def answers(self, scores: Sequence[Score]) -> Sequence[str]:
        """How far from even each axis is, and where most.

        Args:
            scores: all of a run, as judged.
        """
        from verism.suites.social_bias.answers import bias_answers

        return bias_answers(scores, "word") or super().answers(scores)

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
        if skin is not None and not whole_images(skin):
            lines.append(
                "tone: left out, as the published baseline is of whole images and not of faces; it takes the judge "
                "picture:colour=rule"
            )
        elif skin is not None:
            lines.append(
                "tone: by a fixed colour rule, which of the ten swatches lets 4 to 7 pass and no other, and takes wood "
                "or sand for skin; shares of tones are shares of what it lets through"
            )
        counts = self.known_counts(observed)
        if len(observed.prompts) < self.n_listed:
            lines.append(f"{len(observed.prompts)} of the {self.n_listed} prompts of the list were asked")
        # Prompts without any image are in no block.
        absent = len(observed.prompts) - counts["prompts"]
        if few := counts["few"] + absent:
            lines.append(
                f"prompts with fewer usable images than the published {PUBLISHED_IMAGES}, or than were asked for: "
                f"{few}; {counts['none'] + absent} of them have no vote, the others vote with fewer images"
            )
        if alike := counts["alike"]:
            lines.append(
                f"prompts with the same image more than once: {alike}; a model must draw at random, or nine images "
                "say no more than one"
            )
        return lines

    def counts(self, observed: Observed) -> Mapping[str, int]:
        """Prompts with few usable images, without any, and with the same image more than once."""
        least = PUBLISHED_IMAGES if self.list_name == RELEASED_LIST else 1
        usable: dict[str, list[str]] = {}
        for row in observed.images.iter_rows(named=True):
            members = usable.setdefault(row["prompt_id"], [])
            if row["state"] == "ok":
                members.append(row["sha256"] or row["image_id"])
        wanted = {p: max(least, observed.prompts[p].n_images) for p in usable}
        return {
            "prompts": len(usable),
            "few": sum(len(members) < wanted[p] for p, members in usable.items()),
            "none": sum(not members for members in usable.values()),
            "alike": sum(len(set(members)) < len(members) for members in usable.values()),
        }

    # -------------------------------------------------------------------------------------------------------- making
    @classmethod
    def build(
        cls,
        *,
        images: Path | None = None,
        prompts: Path | None = None,
        wording: str | None = None,
        limit: int | None = None,
        seed: int = 0,
        n_images: int | None = None,
    ) -> Self:
        """The suite over the list of words, or over those that images answer.

        Args:
            images: images that exist, a folder of the released layout or a table (see ``prompts.read_user_images``);
                prompts that have images are asked. None: a model is asked all prompts.
            prompts: None for the paper's list, or a list of your own (see ``words``).
            wording: ``released``, always "a", or ``revised``, with the articles of November 2022. By default the
                former; for a folder of images, that which its folders are named in.
            limit: at most so many prompts, drawn at random.
            seed: of that draw, and of the resampling behind intervals.
            n_images: images per prompt, by default nine; of given images, as many as there are.

        Raises:
            UsageError: something does not exist or does not fit.
        """
        words = released_words() if prompts is None else read_words(location(prompts))
        chosen = choose_wording(location(images or ""), words, wording) if images or wording else words.wordings[0]
        listed = list(words.words)
        result = None
        if images is not None:
            result = read_user_images(location(images), words, chosen)
            there = {prompt_id for prompt_id, _ in result}
            listed = [word for word in listed if word.prompt_id in there]
            if n_images is None:
                n_images = 1 + max(index for _, index in result)
        kept = choose(listed, [word.prompt_id for word in listed], limit, seed)
        each = words.n_images if n_images is None else n_images
        made = tuple(make_prompts(cls.info.name, kept, chosen, each))
        user_images = None if result is None else tuple(b for b in list_user_images(result, made) if b.index < each)
        suite = cls(
            list_name=words.name,
            n_listed=len(words.words),
            wording=chosen,
            axes=words.axes,
            prompt_list=made,
            user_images=user_images,
        )
        return suite.with_rules(resampling_seed=seed)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite of a stored run: its axes are in the run's settings."""
        return cls(
            list_name=str(settings["words"]),
            n_listed=int(settings["n_words"]),
            wording=str(settings["wording"]),
            axes=axes_from_record(settings["axes"], where="the axes of the run"),
            prompt_list=tuple(prompts),
        )
