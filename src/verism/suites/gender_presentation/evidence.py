"""What judges and people perceive in each image, attribute by attribute: rows of verdicts.

=========  ======================================================================================================
``C``      cosine of the image's vector and that of the attribute's name
``CC``     the same, less the cosine with a reference text
``CLS``    value in [0, 1] of a classifier that learnt from sentences with and without the attribute: a probability
           under ``released``, a degree under ``revised``
``VQA``    reply to "Is the person wearing ...?"
``human``  labels
=========  ======================================================================================================

Images of neutral prompts are judged for every attribute, those of explicit prompts for their own one alone.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.metrics.presentation.estimators import (
    ClothesClassifiers,
    calibrated_estimates,
    cosine_estimates,
    fit_released,
    fit_revised,
)
from verism.records import vectors_of
from verism.suites.gender_presentation.studies import Attribute, Study
from verism.suites.verdict_table import NOT_OBSERVED, ShownImage, VerdictRows

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "ESTIMATORS",
    "AttributeRows",
    "Labels",
    "answer_rows",
    "embedding_rows",
    "judged_for",
    "label_rows",
]

ESTIMATORS = ("human", "C", "CC", "CLS", "VQA")

Labels = Mapping[str, Mapping[str, str]]
"""By prompt, then by attribute, a character for each image: ``1`` seen, ``0`` not seen, ``-`` not labelled."""


def judged_for(image: ShownImage, study: Study) -> list[tuple[int, Attribute]]:
    """The attributes an image is judged for, with their numbers."""
    subset = image.prompt.facets["attribute"]
    return [(n, a) for n, a in enumerate(study.attributes) if subset is None or a.name == subset]


class AttributeRows:
    """The table ``verdicts`` with what every row of this suite has: setting, gender, attribute, estimator."""

    def __init__(self) -> None:
        self._rows = VerdictRows()

    def add(
        self,
        image: ShownImage,
        protocol: str,
        rule: str,
        value: float | None,
        reason: str,
        attribute: Attribute | None = None,
        **more: Any,
    ) -> None:
        facets = image.prompt.facets
        detail = {"setting": facets["setting"], "gender": facets["gender"], **more}
        if attribute is not None:
            detail |= {"attribute": attribute.name, "estimator": rule}
        self._rows.add(image, protocol, rule, value, reason, detail)

    def table(self) -> pl.DataFrame:
        return self._rows.table()


# ------------------------------------------------------------------------------------------------------------- vectors
class _Vectors:
    """Vectors of images and texts, by what they belong to."""

    def __init__(self, images: Sequence[ShownImage], embeddings: pl.DataFrame, text_embeddings: pl.DataFrame) -> None:
        of_image = {image_id: row for row, image_id in enumerate(embeddings["image_id"].to_list())}
        seen = vectors_of(embeddings["vector"]).astype(np.float64)
        self._texts = vectors_of(text_embeddings["vector"]).astype(np.float64)
        self._row = {text: row for row, text in enumerate(text_embeddings["text"].to_list())}
        self.problems: list[str | None] = []
        self.images = np.full((len(images), self._texts.shape[1]), np.nan)
        for number, image in enumerate(images):
            problem = image.problem
            if problem is None and image.image_id not in of_image:
                problem = NOT_OBSERVED
            if problem is None:
                vector = seen[of_image[image.image_id]]
                length = float(np.linalg.norm(vector))
                if length > 0 and math.isfinite(length):
                    self.images[number] = vector / length
                else:
                    problem = "the vector has no direction"
            self.problems.append(problem)

    def of(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Vectors of texts, as the model gave them, shape (T, D)."""
        if missing := [text for text in texts if text not in self._row]:
            raise UsageError(
                f"{len(missing)} texts have no vector, such as {missing[0]!r}: the judge has not seen the texts of "
                "this run. Let it look again: verism observe"
            )
        return self._texts[[self._row[text] for text in texts]]


def embedding_rows(
    rows: AttributeRows,
    images: Sequence[ShownImage],
    study: Study,
    embeddings: pl.DataFrame,
    text_embeddings: pl.DataFrame,
    *,
    reference: str,
    estimators: Sequence[str],
) -> None:
    """Rows of ``C``, ``CC`` and ``CLS`` under ``released`` and ``revised``, and of ``clipscore`` (100 x cosine)."""
    if not images:
        return
    vectors = _Vectors(images, embeddings, text_embeddings)
    usable = np.array([problem is None for problem in vectors.problems])
    for protocol in ("revised", "released"):
        for rule in estimators:
            values = _estimates(vectors, usable, study, protocol, rule, reference)
            if values is None:
                continue
            for number, image in enumerate(images):
                for a, attribute in judged_for(image, study):
                    problem = vectors.problems[number]
                    if problem is not None:
                        rows.add(image, protocol, rule, None, problem, attribute)
                        continue
                    value = float(values[number, a])
                    rows.add(image, protocol, rule, value, _said(rule, value, attribute, reference), attribute)
    texts = list(dict.fromkeys(p.prompt.text for p in images))
    row_of = {text: n for n, text in enumerate(texts)}
    subset = _normalised(vectors.of(texts))[[row_of[p.prompt.text] for p in images]]
    near = 100.0 * np.einsum("nd,nd->n", vectors.images, subset)
    for protocol in ("revised", "released"):
        for image, problem, value in zip(images, vectors.problems, near.tolist(), strict=True):
            if problem is None:
                rows.add(image, protocol, "clipscore", value, f"100 x cosine with: {image.prompt.text}")
            else:
                rows.add(image, protocol, "clipscore", None, problem)


def _normalised(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(lengths > 0):
        raise UsageError("a text has a vector of length 0, which has no direction; use another --clip")
    return vectors / lengths


def _estimates(
    vectors: _Vectors, usable: NDArray[np.bool_], study: Study, protocol: str, rule: str, reference: str
) -> NDArray[np.float64] | None:
    """Values of all images and attributes, shape (N, A); None for what is no estimate of vectors.

    Rows of images that cannot be used are NaN.
    """
    queries = [a.query for a in study.attributes]
    images = vectors.images[usable]
    if rule == "C":
        result = cosine_estimates(images, vectors.of(queries))
    elif rule == "CC":
        result = calibrated_estimates(images, vectors.of(queries), vectors.of([reference])[0])
    elif rule == "CLS" and (protocol == "revised" or released_classifiers_there()):
        result = _classifiers(vectors, study, protocol).probabilities(images)
    else:
        return None
    values = np.full((len(usable), len(queries)), np.nan)
    values[usable] = result
    return values


def _said(rule: str, value: float, attribute: Attribute, reference: str) -> str:
    if rule == "C":
        return f"cosine {value:.4f} with: {attribute.query}"
    if rule == "CC":
        return f"cosine with {attribute.query!r}: {value:+.4f} over that with {reference!r}"
    return f"classifier gives {value:.3f} for: {attribute.phrase}"


def _classifiers(vectors: _Vectors, study: Study, protocol: str) -> ClothesClassifiers:
    parts = study.sentences()
    negatives, positives = vectors.of(parts[0]), np.stack([vectors.of(part) for part in parts[1:]])
    scenes = np.repeat(np.arange(len(study.scenes)), len(parts[0]) // len(study.scenes))
    try:
        return _fitted(protocol, positives.shape, positives.tobytes(), negatives.tobytes(), tuple(scenes.tolist()))
    except ValueError as err:
        raise UsageError(f"the classifiers of {study.name!r} cannot be fitted: {err}") from err


@lru_cache(maxsize=2)  # of both protocols: a run that is scored in blocks asks with every block
def _fitted(
    protocol: str, shape: tuple[int, int, int], positives: bytes, negatives: bytes, scenes: tuple[int, ...]
) -> ClothesClassifiers:
    """The classifiers of vectors of sentences, given as the bytes of doubles."""
    with_it = np.frombuffer(positives).reshape(shape)
    without = np.frombuffer(negatives).reshape(-1, shape[2])
    if protocol == "released":
        return fit_released(with_it, without)
    return fit_revised(with_it, without, contexts=np.array(scenes))


def released_classifiers_there() -> bool:
    """Whether the released classifiers can be fitted: they are scikit-learn's."""
    return importlib.util.find_spec("sklearn") is not None


# ----------------------------------------------------------------------------------------------------- answers, labels
def answer_rows(rows: AttributeRows, images: Sequence[ShownImage], study: Study, answers: pl.DataFrame) -> None:
    """Rows of ``VQA``: 1 for yes, 0 for no; ``detail`` has the probability of yes where the model tells it."""
    options = {(row["image_id"], row["question"]): row for row in answers.iter_rows(named=True)}
    for image in images:
        for _, attribute in judged_for(image, study):
            question = study.question_about(attribute)
            answer = options.get((image.image_id, question))
            value, probability = None, None
            if image.problem is not None:
                reason = image.problem
            elif answer is None or answer["answer"] is None:
                reason = f"{question} Not answered"
            else:
                value = {"yes": 1.0, "no": 0.0}.get(answer["value"])
                probability = answer["probability"]
                reason = f"{question} The judge answered {answer['answer']!r}"
                if value is None:
                    reason += ", which is neither yes nor no"
            rows.add(image, "revised", "VQA", value, reason, attribute, probability=probability)


def label_rows(rows: AttributeRows, images: Sequence[ShownImage], study: Study, labels: Labels) -> None:
    """Rows of ``human`` under ``released`` and ``revised``. Of images without a label nobody knows anything."""
    for protocol in ("revised", "released"):
        for image in images:
            of_prompt = labels.get(image.prompt.prompt_id, {})
            for _, attribute in judged_for(image, study):
                marks = of_prompt.get(attribute.name, "")
                mark = marks[image.index] if image.index < len(marks) else "-"
                if image.problem is not None:
                    rows.add(image, protocol, "human", None, image.problem, attribute)
                elif mark == "-":
                    rows.add(image, protocol, "human", None, "not labelled", attribute)
                else:
                    seen = "labelled as seen" if mark == "1" else "labelled as not seen"
                    rows.add(image, protocol, "human", float(mark), f"{seen}: {attribute.phrase}", attribute)
