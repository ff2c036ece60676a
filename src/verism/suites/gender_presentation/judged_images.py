"""From a run to what its judges are judged by: rows of labels and estimates, and variants of the estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.metrics.presentation.estimators import (
    calibrated_estimates,
    cosine_estimates,
    fit_released,
    fit_revised,
)
from verism.metrics.presentation.judge_agreement import JudgedImages, judge_estimator
from verism.records import PROTOCOLS, Prompt, Score, vectors_of
from verism.statistics.intervals import Interval
from verism.suites.gender_presentation.studies import Study

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "TextVectors",
    "judge_scores",
    "judged_by",
    "judged_variants",
    "labels_of_marks",
    "labels_of_verdicts",
    "variants",
]

Floats = NDArray[np.float64]
TextVectors = Callable[[Sequence[str]], NDArray[Any]]
"""Vectors of texts, as the model gives them: (T, D)."""


def _table(verdicts: pl.DataFrame | pl.LazyFrame, rule: str, protocol: str) -> pl.LazyFrame:
    """The verdicts of one estimator with its attribute, setting and gender as columns."""
    import polars as pl

    chosen = verdicts.lazy().filter((pl.col("rule") == rule) & (pl.col("protocol") == protocol))
    names = ("attribute", "setting", "gender")
    detail = [pl.col("detail").str.json_path_match(f"$.{name}").alias(name) for name in names]
    return chosen.select("image_id", "prompt_id", "value", *detail)


def labels_of_verdicts(verdicts: pl.DataFrame | pl.LazyFrame, protocol: str) -> dict[tuple[str, str], float]:
    """What people saw, by image and attribute, from the verdicts ``human`` of a run; empty if it has none."""
    import polars as pl

    rows = _table(verdicts, "human", protocol).filter(pl.col("value").is_not_null())
    labelled = rows.select("image_id", "attribute", "value").collect(engine="streaming")
    return {(image, attribute): float(value) for image, attribute, value in labelled.iter_rows()}


def labels_of_marks(images: pl.DataFrame, labels: Mapping[str, Mapping[str, str]]) -> dict[tuple[str, str], float]:
    """The same from marks by prompt (``labels.labels_by_prompt``)."""
    results = {}
    for image, prompt, number in images.select("image_id", "prompt_id", "index").iter_rows():
        for attribute, marks in labels.get(prompt, {}).items():
            if number < len(marks) and marks[number] != "-":
                results[image, attribute] = float(marks[number])
    return results


def judged_by(
    verdicts: pl.DataFrame | pl.LazyFrame,
    prompts: Mapping[str, Prompt],
    labels: Mapping[tuple[str, str], float],
    *,
    estimator: str,
    protocol: str,
) -> JudgedImages | None:
    """The images of a run as people and one estimator see them; None if the run has no such verdicts.

    Args:
        verdicts: table ``verdicts`` of the run.
        prompts: of the run, by prompt id.
        labels: 0 or 1 by image and attribute.
        estimator: name of the rule, such as ``CLS``.
        protocol: name of the protocol whose verdicts are used.
    """
    rows = _table(verdicts, estimator, protocol).collect()
    if rows.is_empty():
        return None
    images, attributes = rows["image_id"].to_list(), rows["attribute"].to_list()
    return JudgedImages(
        images=images,
        attributes=attributes,
        settings=rows["setting"].to_list(),
        genders=rows["gender"].to_list(),
        prompts=[_place(prompts[prompt_id]) for prompt_id in rows["prompt_id"].to_list()],
        labels=[labels.get(key, np.nan) for key in zip(images, attributes, strict=True)],
        estimates=rows["value"].cast(float).fill_null(np.nan).to_numpy(),
    )


def judge_scores(
    suite: str, study: Study, prompts: Mapping[str, Prompt], verdicts: pl.DataFrame | pl.LazyFrame
) -> list[Score]:
    """How good each estimator of a run is, where people labelled its images; nothing where they did not.

    ``judge_tau``, ``judge_mcc``, ``judge_pearson`` by {estimator, setting}: agreement of its vector with people's.
    ``judge_auc`` by {estimator} and {estimator, attribute}: how well it tells images that show an attribute from
    those that do not, over all settings. The artificial sets are in ``verism gep judge``.
    """
    if len(study.groups) != 2:
        return []
    scores: list[Score] = []
    for protocol in PROTOCOLS:
        labels = labels_of_verdicts(verdicts, protocol)
        for estimator in ("C", "CC", "CLS", "VQA") if labels else ():
            judged = judged_by(verdicts, prompts, labels, estimator=estimator, protocol=protocol)
            if judged is None:
                continue
            report = judge_estimator(
                judged,
                genders=(study.groups[0].name, study.groups[1].name),
                attributes=[a.name for a in study.attributes],
                protocol="released" if protocol == "released" else "revised",
                scales=(),
            )

            def add(
                metric: str, value: Interval, used: int, unusable: int, unit: str,
                *, protocol: str = protocol, estimator: str = estimator, **more: str,
            ) -> None:  # fmt: skip
                scores.append(
                    Score(
                        suite=suite, metric=metric, protocol=protocol, value=value.value, ci_low=value.low,
                        ci_high=value.high, n_used=used, n_unusable=unusable, unit=unit,
                        group={"estimator": estimator, **more},
                    )
                )  # fmt: skip

            for setting, members in report.vectors.items():
                result = members.agreement
                for metric, value in (("tau", result.tau), ("mcc", result.mcc), ("pearson", result.pearson)):
                    add(f"judge_{metric}", value, result.n_used, result.n_unusable, "correlation", setting=setting)
            add("judge_auc", report.auc.mean, report.n_used, report.n_unusable, "share")
            for attribute, area in report.auc.groups.items():
                n = area.n_positive + area.n_negative
                add("judge_auc", Interval(area.value, area.low, area.high), n, 0, "share", attribute=attribute)
    return scores


def _place(prompt: Prompt) -> str:
    """The same for the prompts of all groups that differ in nothing but the group."""
    return str(prompt.spec["index"])


# ------------------------------------------------------------------------------------------------------------ variants
def variants(
    study: Study,
    image_vectors: NDArray[Any],
    text_vectors: TextVectors,
    *,
    negatives: Sequence[str] = (),
    contexts: Sequence[str] = (),
    references: Sequence[str] = (),
    released: bool = True,
) -> dict[str, Floats]:
    """Estimates of the classifiers and of variants of them, and of cosines with several reference texts (Tables 8, 9).

    Args:
        study: attributes and sentences.
        image_vectors: shape (N, D).
        text_vectors: function that returns the vectors of texts.
        negatives: sentences in place of those without an attribute, such as captions at random; left out if empty.
        contexts: scenes in place of the study's; left out if empty.
        references: what cosines are calibrated by, beside the study's own.
        released: classifiers as released, of ten seeds, needing scikit-learn; else the revised ones, which have no
            seeds and hence no variant without an ensemble.
    Returns:
        By name of the variant, shape (N, A), attributes in the order of the study. The first is the default.
    """

    def fitted(texts: Sequence[Sequence[str]], **more: Any) -> Floats:
        without = text_vectors(texts[0])
        with_it = np.stack([text_vectors(part) for part in texts[1:]])
        fit: Callable[..., Any] = fit_released if released else fit_revised
        classifiers = fit(with_it, without, **more)
        result: Floats = classifiers.probabilities(image_vectors)
        return result

    sentences = study.sentences()
    estimate = {"CLS": fitted(sentences)}
    if released:
        estimate["CLS, no ensemble"] = fitted(sentences, seeds=(0,))
    terms = {group.term.casefold() for group in study.groups}
    gendered = tuple(person for person in study.people if person.casefold() in terms)
    if 0 < len(gendered) < len(study.people):
        # The revised classifiers are calibrated by leaving out contexts: so many sentences in a row share one.
        more = {} if released else {"contexts": np.repeat(np.arange(len(study.scenes)), len(gendered))}
        estimate["CLS, people of the groups only"] = fitted(replace(study, people=gendered).sentences(), **more)
    if negatives:
        estimate["CLS, other negatives"] = fitted([tuple(negatives), *sentences[1:]])
    if contexts:
        more = {} if released else {"contexts": np.repeat(np.arange(len(contexts)), len(study.people))}
        estimate["CLS, other contexts"] = fitted(replace(study, scenes=tuple(contexts)).sentences(), **more)
    queries = text_vectors([attribute.query for attribute in study.attributes])
    estimate["C"] = cosine_estimates(image_vectors, queries)
    for text in dict.fromkeys([*study.references, *references]):
        name = f"CC, reference {text!r}"
        estimate[name] = calibrated_estimates(image_vectors, queries, text_vectors([text])[0])
    return estimate


def judged_variants(
    study: Study,
    prompts: Mapping[str, Prompt],
    images: pl.DataFrame,
    embeddings: pl.DataFrame,
    labels: Mapping[tuple[str, str], float],
    text_vectors: TextVectors,
    **options: Any,
) -> dict[str, JudgedImages]:
    """The labelled images of a run as each variant of the estimators sees them.

    Args:
        study: attributes and sentences.
        prompts: of the run, by prompt id.
        images: table ``images`` of the run.
        embeddings: table ``embeddings`` of the run, of one judge.
        labels: 0 or 1 by image and attribute.
        text_vectors: function that returns the vectors of texts.
        options: see ``variants``.
    Raises:
        UsageError: no labelled image has a vector.
    """
    row_of = {image: row for row, image in enumerate(embeddings["image_id"].to_list())}
    usable = images.filter(images["state"] == "ok")
    prompt_of = dict(usable.select("image_id", "prompt_id").iter_rows())
    index_of = {attribute.name: number for number, attribute in enumerate(study.attributes)}
    kept = [
        (image, attribute, value)
        for (image, attribute), value in labels.items()
        if image in prompt_of and image in row_of and attribute in index_of
    ]
    if not kept:
        raise UsageError("no labelled image of the run has a vector; run it with --clip, and check the labels")
    names = list(dict.fromkeys(image for image, _, _ in kept))
    number = {image: n for n, image in enumerate(names)}
    vectors = vectors_of(embeddings["vector"])[[row_of[image] for image in names]].astype(np.float64)
    rows = np.array([number[image] for image, _, _ in kept])
    columns = np.array([index_of[attribute] for _, attribute, _ in kept])
    of_row = [prompts[prompt_of[image]] for image, _, _ in kept]
    common = JudgedImages(
        images=[image for image, _, _ in kept],
        attributes=[attribute for _, attribute, _ in kept],
        settings=[str(p.facets["setting"]) for p in of_row],
        genders=[str(p.facets["gender"]) for p in of_row],
        prompts=[_place(p) for p in of_row],
        labels=[value for _, _, value in kept],
        estimates=np.zeros(len(kept)),
    )
    return {
        name: replace(common, estimates=estimates[rows, columns])
        for name, estimates in variants(study, vectors, text_vectors, **options).items()
    }
