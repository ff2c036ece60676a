"""Gender presentation differences as a suite: what is asked, what must be observed, evidence, scores.

Source: Zhang et al. 2023, arXiv:2302.03675.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.records import (
    AnswerNeed,
    BroughtPicture,
    EmbeddingNeed,
    Estimand,
    Need,
    Observed,
    Prompt,
    Question,
    RatingTask,
    Score,
)
from verism.suites.gender_presentation.brought import brought_pictures, read_brought
from verism.suites.gender_presentation.evidence import (
    ESTIMATORS,
    AttributeRows,
    Labels,
    answer_rows,
    embedding_rows,
    label_rows,
    released_classifiers_there,
)
from verism.suites.gender_presentation.judged import judge_scores
from verism.suites.gender_presentation.labels import labels_by_prompt, read_labels
from verism.suites.gender_presentation.people import (
    RULE,
    frequency_estimands,
    graded_rules,
    labels_of_ratings,
    rating_tasks,
)
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
from verism.suites.rule_values import whole
from verism.suites.verdict_table import shown_images as shown_pictures

if TYPE_CHECKING:
    import polars as pl

__all__ = ["GenderPresentation", "build", "rebuild"]

RESAMPLES = 2_000


@dataclass(frozen=True, kw_only=True, eq=False)
class GenderPresentation:
    """Prompts that differ in nothing but the group of people, and what is perceived in their pictures.

    Make one with ``build``, or ``rebuild`` for a stored run.

    Attributes:
        seeds: see ``prompts.make_prompts``. brought: None if a model is to make the pictures.
        folder_model: whose pictures were brought, by the name of their folder; chooses among labels of several models.
        reference_text: text that ``CC`` is calibrated by. estimators: which are computed. labels: of people.
        n_resamples, resampling_seed: of intervals and tests.
    """

    name: str
    study: Study
    prompt_list: tuple[Prompt, ...]
    seeds: str = "paired"
    brought: tuple[BroughtPicture, ...] | None = None
    folder_model: str | None = None
    reference_text: str = "an object"
    estimators: tuple[str, ...] = ESTIMATORS
    labels: Labels = field(default_factory=dict)
    n_resamples: int = RESAMPLES
    resampling_seed: int = 0

    # ---------------------------------------------------------------------------------------------- what is asked
    def prompts(self) -> Sequence[Prompt]:
        return self.prompt_list

    def needs(self) -> Sequence[Need]:
        """Vectors of pictures and of all texts the estimators use; answers about attributes. Both may be left out."""
        study = self.study
        texts = [a.query for a in study.attributes] + [*study.references, self.reference_text]
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

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and needs."""
        present = {p.facets["setting"] for p in self.prompt_list}
        return {
            "study": self.study.record(),
            "prompt_settings": [s for s in SETTINGS if s in present],
            "seeds": self.seeds,
            "folder_model": self.folder_model,
        }

    def rules(self) -> Mapping[str, Any]:
        """What changes verdicts or scores without new pictures or observations.

        ``labels`` may also be set to a file (see ``labels.read_labels``); what is in it is kept.
        """
        return {
            "reference": self.reference_text,
            "estimators": list(self.estimators),
            "labels": {prompt: dict(of) for prompt, of in self.labels.items()},
            "n_resamples": self.n_resamples,
            "resampling_seed": self.resampling_seed,
        }

    def with_rules(self, **rules: Any) -> GenderPresentation:
        """The same suite with other rules, by the names of ``rules``.

        Raises:
            UsageError: no such rule or estimator, labels that cannot be read, or numbers out of range.
        """
        known = self.rules()
        if unknown := sorted(set(rules) - set(known)):
            raise UsageError(f"{self.name} has no rule {unknown[0]!r}; its rules are {', '.join(known)}")
        asked = {**known, **rules}
        names = asked["estimators"]
        names = tuple(names.replace(" ", "").split(",")) if isinstance(names, str) else tuple(names)
        if foreign := [n for n in names if n not in ESTIMATORS]:
            raise UsageError(f"{self.name} has no estimator {foreign[0]!r}; there are {', '.join(ESTIMATORS)}")
        labels = asked["labels"]
        if isinstance(labels, str | Path):
            labels = self._labels_of(Path(labels))
        elif not _are_labels(labels):
            raise UsageError(f"{self.name}: the rule labels is a file; got {labels!r}")
        return replace(
            self,
            reference_text=str(asked["reference"]),
            estimators=tuple(n for n in ESTIMATORS if n in names),
            labels=labels,
            n_resamples=whole("n_resamples", asked["n_resamples"], 1),
            resampling_seed=whole("resampling_seed", asked["resampling_seed"], 0),
        )

    def _labels_of(self, source: Path) -> Labels:
        models = {label.picture.model for label in read_labels(source, self.study)}
        own = self.folder_model if len(models) > 1 and self.folder_model in models else None
        return labels_by_prompt(source, self.study, self.prompt_list, model=own)

    # ------------------------------------------------------------------------------------------ verdicts and scores
    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """What is perceived in each picture; table ``verdicts``.

        A row for each picture, attribute it is judged for, and estimator, whose name is the rule; ``detail`` has
        ``attribute``, ``setting``, ``gender`` and ``estimator``. Values: ``human`` and ``VQA`` 0 or 1, ``CLS`` what
        its classifier gives, in [0, 1], ``C`` and ``CC`` cosines. And ``clipscore``, 100 times the cosine of a
        picture with its prompt.
        """
        pictures = shown_pictures(observed)
        tables = observed.observations
        rows = AttributeRows()
        if self.labels and "human" in self.estimators:
            label_rows(rows, pictures, self.study, self.labels)
        if "embeddings" in tables:
            embedding_rows(
                rows,
                pictures,
                self.study,
                tables["embeddings"],
                tables["text_embeddings"],
                reference=self.reference_text,
                estimators=self.estimators,
            )
        if "answers" in tables and "VQA" in self.estimators:
            answer_rows(rows, pictures, self.study, tables["answers"])
        return rows.table()

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite, in a fixed order; see ``docs/suites/gender_presentation.md``."""
        scores = presentation_scores(
            self.name,
            self.study,
            observed.prompts,
            verdicts,
            n_resamples=self.n_resamples,
            seed=self.resampling_seed,
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
            n_resamples=self.n_resamples,
            seed=self.resampling_seed,
        )
        return frequency_estimands(self.study, observed.prompts, replies, scores)

    def remarks(self, observed: Observed) -> list[str]:
        """Lines without which the scores could be misread."""
        lines = []
        if "embeddings" in observed.observations and "CLS" in self.estimators and not released_classifiers_there():
            lines.append("CLS as released was not computed: its classifiers are scikit-learn's, which is not installed")
        lines += _uneven(self.study, observed)
        return lines


def _uneven(study: Study, observed: Observed) -> list[str]:
    """A line if the groups do not have the same pictures to compare."""
    usable: dict[str, set[tuple[int, int]]] = {group.name: set() for group in study.groups}
    asked: dict[str, set[tuple[int, int]]] = {group.name: set() for group in study.groups}
    for row in observed.images.iter_rows(named=True):
        prompt = observed.prompts[row["prompt_id"]]
        place = (int(prompt.spec["index"]), int(row["index"]))
        asked[str(prompt.facets["gender"])].add(place)
        if row["state"] == "ok":
            usable[str(prompt.facets["gender"])].add(place)
    everywhere = set.intersection(*usable.values())
    alone = {name: len(of - everywhere) for name, of in usable.items()}
    if not any(alone.values()):
        return []
    listed = ", ".join(f"{n:,} of {name}" for name, n in alone.items() if n)
    return [f"pictures without a counterpart of the same prompt and number in every other group: {listed}"]


# -------------------------------------------------------------------------------------------------------------- making
def build(
    name: str = "gender_presentation",
    *,
    images: Path | None = None,
    study: Path | str | None = None,
    settings: str | Sequence[str] | None = None,
    labels: Path | None = None,
    folder_model: str | None = None,
    seeds: str = "paired",
    limit: int | None = None,
    seed: int = 0,
    n_images: int | None = None,
) -> GenderPresentation:
    """The suite ``gender_presentation``.

    Args:
        images: pictures that exist, a folder of the released layout or a table (see ``brought.read_brought``); prompts
            that have pictures of at least one group are asked, of every group. None: a model is asked all prompts.
        study: ``released`` (the paper's), ``occupations``, or a file of your own (see ``studies``).
        settings: ``neutral``, ``explicit``, or both, as names or with a comma. By default those of the study.
        labels: what people saw in the pictures (see ``labels.read_labels``).
        folder_model: whose pictures count, where folders of several models lie side by side.
        seeds: ``paired`` or ``released`` (see ``prompts.make_prompts``).
        limit: at most so many prompts over all groups. seed: of the resampling behind intervals.
        n_images: pictures per prompt, by default the study's number; of brought pictures, as many as there are.

    Raises:
        UsageError: something does not exist or does not fit.
    """
    chosen = standard_study("released") if study is None else read_study(Path(study))
    asked = _settings(settings, chosen)
    brought: tuple[BroughtPicture, ...] | None = None
    if images is not None:
        found, folder_model = read_brought(images, chosen, folder_model)
        indices = chosen_indices(chosen, asked, limit, among={index for _, index, _ in found})
        if not indices:
            raise UsageError(f"{images}: none of its {len(found):,} pictures answers a prompt that was asked for")
        kept = {key: path for key, path in found.items() if key[1] in set(indices)}
        if n_images is None:
            n_images = 1 + max(number for _, _, number in kept)
        brought = tuple(brought_pictures({k: p for k, p in kept.items() if k[2] < n_images}, chosen))
    elif folder_model is not None:
        raise UsageError("folder_model chooses among folders of pictures; give --images DIR with it")
    else:
        indices = chosen_indices(chosen, asked, limit)
    prompts = make_prompts(name, chosen, indices, n_images=n_images, seeds=seeds)
    suite = GenderPresentation(
        name=name,
        study=chosen,
        prompt_list=tuple(prompts),
        seeds=seeds,
        brought=brought,
        folder_model=folder_model,
        reference_text=chosen.references[0],
        resampling_seed=whole("seed", seed, 0),
    )
    return suite if labels is None else suite.with_rules(labels=labels)


def rebuild(name: str, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> GenderPresentation:
    """The suite of a stored run: its study is in the run's settings."""
    study = study_from_record(settings["study"], where="the study of the run")
    return GenderPresentation(
        name=name,
        study=study,
        prompt_list=tuple(prompts),
        seeds=str(settings.get("seeds", "paired")),
        folder_model=settings.get("folder_model"),
        reference_text=study.references[0],
    )


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
        isinstance(of, Mapping) and all(isinstance(marks, str) and set(marks) <= set("01-") for marks in of.values())
        for of in value.values()
    )
