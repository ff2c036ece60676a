"""Gender presentation differences as a suite: what is asked, what must be observed, evidence, scores.

Source: Zhang et al. 2023, arXiv:2302.03675.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from verism.errors import UsageError
from verism.locations import location
from verism.records import (
    AnswerNeed,
    EmbeddingNeed,
    Estimand,
    Need,
    Observed,
    Prompt,
    Question,
    RatingTask,
    Score,
    UserImage,
)
from verism.suites.base import (
    LIMIT,
    N_IMAGES,
    SEED,
    Demo,
    JudgeBench,
    Layout,
    MetricSpec,
    Option,
    Pairing,
    Rule,
    Suite,
    SuiteInfo,
)
from verism.suites.gender_presentation.demo import DEMOS
from verism.suites.gender_presentation.evidence import (
    ESTIMATORS,
    AttributeRows,
    Labels,
    answer_rows,
    embedding_rows,
    label_rows,
    released_classifiers_there,
)
from verism.suites.gender_presentation.human_labels import (
    RULE,
    frequency_estimands,
    graded_rules,
    labels_of_ratings,
    rating_tasks,
)
from verism.suites.gender_presentation.judged_images import judge_scores
from verism.suites.gender_presentation.labels import labels_by_prompt, read_labels
from verism.suites.gender_presentation.metrics import METRICS, PAIRINGS
from verism.suites.gender_presentation.prompts import chosen_indices, make_prompts
from verism.suites.gender_presentation.scoring import presentation_scores
from verism.suites.gender_presentation.studies import (
    SETTINGS,
    SettingName,
    Study,
    read_study,
    standard_study,
    study_from_record,
)
from verism.suites.gender_presentation.user_images import list_user_images, read_user_images
from verism.suites.verdict_table import shown_images

if TYPE_CHECKING:
    import polars as pl

    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = ["GenderPresentation"]

RESAMPLES = 2_000

# Clothes of rendered people that judges are held against: often enough worn, and often enough not.
BENCH_WEARS = (
    "boots:0.3,slippers:0.3,dress:0.25/0,suit:0.2,jeans:0.25,shorts:0.3,slacks:0.3,skirt:0.5/0,shirt:0.5,jacket:0.5,"
    "tie:0.5,hat:0.4,mask:0.3,gloves:0.3"
)
BENCH_OPTIONS = {"settings": ["neutral"], "n_images": 5}  # of each image all attributes are asked


@dataclass(frozen=True, kw_only=True, eq=False)
class GenderPresentation(Suite):
    """Prompts that differ in nothing but the group of people, and what is perceived in their images.

    Make one with ``GenderPresentation.make``.

    Attributes:
        study: terms, contexts, attributes and their wording.
        prompt_list: the prompts.
        seeds: see ``prompts.make_prompts``.
        user_images: None if a model is to make the images.
        folder_model: whose images were given, by the name of their folder; chooses among labels of several models.
        info: name, title, question, protocols and limits, see ``Suite``.
        published: published figures that can be recomputed, see ``Suite``.
        judge_roles: roles of the judges it may ask.
        benches: how judges are held against rendered images, see ``JudgeBench``.
        demos: what it shows offline, see ``Demo``.
        options: what decides prompts and needs, see ``Option``.
        rules: what changes verdicts or scores without new images, see ``Rule``.
        aspects: its metrics by what they are about.
        metrics: every metric that its scores may have.
        pairings: how two runs are compared image by image.
        layout: layout of its tables.
        in_blocks: large runs are scored block by block, see ``Suite``.
        lists_images: images without a counterpart are remarked upon, see ``Suite``.
        commands: commands of its own for the command line, see ``Suite``.
    """

    study: Study
    prompt_list: tuple[Prompt, ...]
    seeds: str = "paired"
    user_images: tuple[UserImage, ...] | None = None
    folder_model: str | None = None

    info: ClassVar[SuiteInfo] = SuiteInfo(
        name="gender_presentation",
        title="Gender presentation differences",
        question="Which clothes does a model show on people, and how much do they differ by gender term?",
        summary="clothes shown on women and men (GEP): 15 attributes, 16 contexts; your own terms by a study file",
        protocols={
            "revised": "CLS: deterministic classifiers, whose values are degrees that do not saturate on images, not "
            "frequencies. Use it to compare models.",
            "released": "CLS: the mean of ten classifiers, fitted by ten seeds as in the authors' published code. "
            "Similarities, answers and votes are the same.",
            "paper": "Not computed: where its text differs from the published code (the classifiers' learning rate), "
            "it cannot have given the published numbers.",
        },
        limits=(
            "A difference is one between images, as perceived by a judge. It says nothing of people, and nothing of "
            "who anybody in an image is.",
            "Scales of estimators differ by design: compare orders and signs between estimators, and sizes within one.",
            "Automatic judges learnt from images and captions with differences of their own, and may perceive the same "
            "clothes less or more readily depending on who wears them. That error is part of every number and of no "
            "interval.",
            "The attributes are a list of clothes: other differences (pose, body, place, what hands hold) are not "
            "measured.",
        ),
        citation="Zhang et al. 2023, Auditing Gender Presentation Differences in Text-to-Image Models, "
        "arXiv:2302.03675",
    )
    published: ClassVar[Mapping[str, str]] = {"gep": "verism.suites.gender_presentation.published:gep"}
    judge_roles: ClassVar[tuple[str, ...]] = ("clip", "vqa")
    benches: ClassVar[tuple[JudgeBench, ...]] = (
        JudgeBench(
            roles=("vqa",),
            model=f"people:wears={BENCH_WEARS}",
            options=BENCH_OPTIONS,
            images_per_prompt=5,
            by=("gender",),
        ),
    )
    demos: ClassVar[tuple[Demo, ...]] = DEMOS
    options: ClassVar[tuple[Option, ...]] = (
        Option("images", Path, help="Images to evaluate: a folder of the released layout, or a table."),
        Option(
            "study", str, help="Another study: released, occupations, or a file (.yaml, .json).", default="released"
        ),
        Option(
            "settings",
            str,
            many=True,
            commas=True,
            flag="--setting",
            help="Form of the prompts: neutral or explicit; repeatable.",
            default="those of the study",
        ),
        Option("folder_model", str, help="Model whose images count, where the folder has several models side by side."),
        Option(
            "seeds",
            str,
            choices=("paired", "released"),
            help="Noise seeds of the images: the same for all groups, or as released.",
            default="paired",
        ),
        replace(LIMIT, help="Number of prompts over all groups."),
        replace(SEED, help="Seed of the images and of the resampling behind intervals."),
        N_IMAGES,
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("reference", str, help="Reference text of the estimator CC, in place of the study's."),
        Rule("estimators", str, ESTIMATORS, many=True, choices=ESTIMATORS, metrics=(), help="Estimators to compute."),
        Rule(
            "labels",
            dict,
            file=True,
            flag="--labels",
            about_images=True,
            help="Labels by annotators: a file (.csv), stored with the run.",
        ),
        Rule(
            "n_resamples",
            int,
            RESAMPLES,
            low=1,
            affects="scores",
            metrics=(),
            help="Resamples for intervals and tests.",
        ),
        Rule("resampling_seed", int, 0, low=0, affects="scores", metrics=(), help="Seed of resampling."),
    )
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "bias": (
                "gep",
                "gep_score",
                "frequency",
            )
        }
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = METRICS
    pairings: ClassVar[tuple[Pairing, ...]] = PAIRINGS
    layout: ClassVar[Layout] = Layout(detail=("attribute", "context"))
    in_blocks: ClassVar[bool] = True
    lists_images: ClassVar[bool] = True
    commands: ClassVar[Mapping[str, str]] = {"gep": "verism.suites.gender_presentation.cli:gep"}

    @property
    def estimators(self) -> tuple[str, ...]:
        """Estimators to compute, in their usual order."""
        return tuple(name for name in ESTIMATORS if name in self.rule("estimators"))

    @property
    def labels(self) -> Labels:
        """Labels by annotators, by prompt."""
        labels: Labels = self.rule("labels")
        return labels

    @property
    def has_labels(self) -> bool:
        """Whether annotators' labels decide, so that no judge is needed."""
        return bool(self.labels)

    # ---------------------------------------------------------------------------------------------- what is asked
    def prompts(self) -> Sequence[Prompt]:
        return self.prompt_list

    def needs(self) -> Sequence[Need]:
        """Vectors of images and of all texts the estimators use; answers about attributes. Both may be left out."""
        study = self.study
        texts = [a.query for a in study.attributes] + [*study.references, self.rule("reference")]
        texts += [sentence for part in study.sentences() for sentence in part]
        texts += [p.text for p in self.prompt_list]
        by_name = {a.name: Question(text=study.question_about(a)) for a in study.attributes}
        everything = tuple(by_name.values())
        questions = {
            p.prompt_id: everything if p.facets["attribute"] is None else (by_name[str(p.facets["attribute"])],)
            for p in self.prompt_list
        }
        return (
            EmbeddingNeed(texts=tuple(dict.fromkeys(texts)), optional=True),
            AnswerNeed(questions=questions, optional=True),
        )

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        """Its part of the report."""
        from verism.suites.gender_presentation.report import presentation_sections

        return presentation_sections(evidence)

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and needs."""
        present = {p.facets["setting"] for p in self.prompt_list}
        return {
            "study": self.study.record(),
            "prompt_settings": [s for s in SETTINGS if s in present],
            "seeds": self.seeds,
            "folder_model": self.folder_model,
        }

    def default_of(self, rule: Rule) -> Any:
        """The value of a rule that nobody changed; the reference text is the study's."""
        if rule.name == "reference":
            return self.study.references[0]
        return {} if rule.name == "labels" else super().default_of(rule)

    def check_rule(self, rule: Rule, value: Any) -> Any:
        """A value of a rule; labels may be a file, whose content is kept.

        Raises:
            UsageError: labels that cannot be read, or a value that does not fit.
        """
        if rule.name != "labels":
            return rule.check(value)
        if isinstance(value, str | PurePath):
            value = self._labels_of(location(value))
        elif not _are_labels(value):
            raise UsageError(f"{self.name}: the rule labels is a file; got {value!r}")
        return {prompt: dict(members) for prompt, members in value.items()}

    def _labels_of(self, source: Path) -> Labels:
        models = {label.image.model for label in read_labels(source, self.study)}
        mask = self.folder_model if len(models) > 1 and self.folder_model in models else None
        return labels_by_prompt(source, self.study, self.prompt_list, model=mask)

    # ------------------------------------------------------------------------------------------ verdicts and scores
    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """What is perceived in each image; table ``verdicts``.

        A row for each image, attribute it is judged for, and estimator, whose name is the rule; ``detail`` has
        ``attribute``, ``setting``, ``gender`` and ``estimator``. Values: ``human`` and ``VQA`` 0 or 1, ``CLS`` what
        its classifier gives, in [0, 1], ``C`` and ``CC`` cosines. And ``clipscore``, 100 times the cosine of an
        image with its prompt.
        """
        images = shown_images(observed)
        tables = observed.observations
        rows = AttributeRows()
        if self.labels and "human" in self.estimators:
            label_rows(rows, images, self.study, self.labels)
        if "embeddings" in tables:
            embedding_rows(
                rows,
                images,
                self.study,
                tables["embeddings"],
                tables["text_embeddings"],
                reference=self.rule("reference"),
                estimators=self.estimators,
            )
        if "answers" in tables and "VQA" in self.estimators:
            answer_rows(rows, images, self.study, tables["answers"])
        return rows.table()

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite, in a fixed order; see ``docs/suites/gender_presentation.md``."""
        scores = presentation_scores(
            self.name,
            self.study,
            observed.prompts,
            verdicts,
            n_resamples=self.rule("n_resamples"),
            seed=self.rule("resampling_seed"),
        )
        return [*scores, *judge_scores(self.name, self.study, observed.prompts, verdicts)]

    # ------------------------------------------------------------------------------------------------------ people
    def rating_tasks(self) -> Sequence[RatingTask]:
        """Questions to people, one for each attribute."""
        return rating_tasks(self.study)

    def graded_rules(self) -> Mapping[str, Sequence[str]]:
        """Estimators whose numbers can be held against people's yes and no."""
        return graded_rules()

    def labels_of_ratings(self, ratings: pl.DataFrame, tasks: Mapping[str, RatingTask]) -> Labels:
        """People's answers as the rule ``labels``: see ``people.labels_of_ratings``."""
        return labels_of_ratings(ratings, tasks, self.prompt_list)

    def estimands(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Estimand]:
        """Frequencies by ``VQA`` and their differences: see ``people.frequency_estimands``."""
        replies = verdicts.filter(verdicts["rule"] == RULE)
        scores = presentation_scores(
            self.name,
            self.study,
            observed.prompts,
            replies,
            n_resamples=self.rule("n_resamples"),
            seed=self.rule("resampling_seed"),
        )
        return frequency_estimands(self.study, observed.prompts, replies, scores)

    def answers(self, scores: Sequence[Score]) -> Sequence[str]:
        """The GEP score beside chance, and the attribute that differs most.

        Args:
            scores: all of a run, as judged.
        """
        from verism.suites.gender_presentation.answers import presentation_answers

        return presentation_answers(scores) or super().answers(scores)

    def remarks(self, observed: Observed) -> list[str]:
        """Lines without which the scores could be misread."""
        lines = []
        if "embeddings" in observed.observations and "CLS" in self.estimators and not released_classifiers_there():
            lines.append("CLS as released was not computed: its classifiers are scikit-learn's, which is not installed")
        lines += _uneven(self.study, observed)
        return lines

    # -------------------------------------------------------------------------------------------------------- making
    @classmethod
    def build(
        cls,
        *,
        images: Path | None = None,
        study: str | None = None,
        settings: Sequence[str] | None = None,
        folder_model: str | None = None,
        seeds: str = "paired",
        limit: int | None = None,
        seed: int = 0,
        n_images: int | None = None,
    ) -> Self:
        """The suite over a study's prompts, or over those that images answer.

        Args:
            images: images that exist, a folder of the released layout or a table (see ``brought.read_user_images``);
                prompts that have images of at least one group are asked, of every group. None: a model is asked all.
            study: ``released`` (the paper's), ``occupations``, or a file of your own (see ``studies``).
            settings: ``neutral``, ``explicit``, or both. By default those of the study.
            folder_model: whose images count, where folders of several models lie side by side.
            seeds: ``paired`` or ``released`` (see ``prompts.make_prompts``).
            limit: at most so many prompts over all groups.
            seed: of the resampling behind intervals.
            n_images: images per prompt, by default the study's number; of given images, as many as there are.

        Raises:
            UsageError: something does not exist or does not fit.
        """
        chosen = standard_study("released") if study is None else read_study(location(study))
        asked = _settings(settings, chosen)
        user_images: tuple[UserImage, ...] | None = None
        if images is not None:
            result, folder_model = read_user_images(images, chosen, folder_model)
            indices = chosen_indices(chosen, asked, limit, among={index for _, index, _ in result})
            if not indices:
                raise UsageError(f"{images}: none of its {len(result):,} images answers a prompt that was asked for")
            kept = {key: path for key, path in result.items() if key[1] in set(indices)}
            if n_images is None:
                n_images = 1 + max(number for _, _, number in kept)
            user_images = tuple(list_user_images({k: p for k, p in kept.items() if k[2] < n_images}, chosen))
        elif folder_model is not None:
            raise UsageError("folder_model chooses among folders of images; give --images DIR with it")
        else:
            indices = chosen_indices(chosen, asked, limit)
        prompts = make_prompts(cls.info.name, chosen, indices, n_images=n_images, seeds=seeds)
        suite = cls(
            study=chosen,
            prompt_list=tuple(prompts),
            seeds=seeds,
            user_images=user_images,
            folder_model=folder_model,
        )
        return suite.with_rules(resampling_seed=seed)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite of a stored run: its study is in the run's settings."""
        return cls(
            study=study_from_record(settings["study"], where="the study of the run"),
            prompt_list=tuple(prompts),
            seeds=str(settings.get("seeds", "paired")),
            folder_model=settings.get("folder_model"),
        )


def _uneven(study: Study, observed: Observed) -> list[str]:
    """A line if the groups do not have the same images to compare."""
    import polars as pl

    facets = pl.DataFrame(
        {
            "prompt_id": list(observed.prompts),
            "place": [int(p.spec["index"]) for p in observed.prompts.values()],
            "group": [str(p.facets["gender"]) for p in observed.prompts.values()],
        },
        schema={"prompt_id": pl.String, "place": pl.Int64, "group": pl.String},
    )
    usable = observed.images.lazy().filter(pl.col("state") == "ok").join(facets.lazy(), on="prompt_id")
    of_place = usable.group_by("place", "index").agg(pl.col("group").unique())
    groups = len(study.groups)
    counted = of_place.filter(pl.col("group").list.len() < groups).explode("group").group_by("group").len()
    found = dict(counted.collect().iter_rows())
    alone = {group.name: found.get(group.name, 0) for group in study.groups}
    if not any(alone.values()):
        return []
    listed = ", ".join(f"{n:,} of {name}" for name, n in alone.items() if n)
    return [f"images without a counterpart of the same prompt and number in every other group: {listed}"]


def _settings(given: str | Sequence[str] | None, study: Study) -> tuple[SettingName, ...]:
    if given is None:
        return study.settings
    names = given.replace(" ", "").split(",") if isinstance(given, str) else list(given)
    if foreign := [n for n in names if n not in study.settings]:
        raise UsageError(f"the study {study.name!r} has no setting {foreign[0]!r}; it has {', '.join(study.settings)}")
    return tuple(s for s in study.settings if s in names)


def _are_labels(value: Any) -> bool:
    """Whether something is what was read from a file before."""
    return isinstance(value, Mapping) and all(
        isinstance(members, Mapping)
        and all(isinstance(marks, str) and set(marks) <= set("01-") for marks in members.values())
        for members in value.values()
    )
