"""Images judged by their vectors and those of the texts: CLIPScore on its named scales, and R-precision.

==============  =====================================================================================================
``revised``   cosines; the expectation over all pools of different texts, equals ranked fairly
``released``    DALL-Eval's script: raw dot products, 99 other captions drawn with replacement, five repeats, seed 10
==============  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.metrics.retrieval import cosine, r_precision
from verism.records import Score, vectors_of
from verism.suites.alignment.image_groups import Groups, Listed, by_image, mean_score, verdict
from verism.suites.verdict_table import NOT_OBSERVED, ShownImage

if TYPE_CHECKING:
    import polars as pl

__all__ = ["POOL", "RetrievalTally", "Retrieved", "Texts", "retrieval_scores", "retrieval_tally", "retrieval_verdicts"]

POOL = 100
REPEATS, SEED = 5, 10
# Scales of the cosine in use; see ``metrics.retrieval.clipscore``. The second is of negative cosines 0.
SCALES = ("cosine", "x100", "hessel")


class Texts:
    """The texts of all prompts and their vectors, by the judge of a run."""

    def __init__(self, texts: Sequence[str], text_embeddings: pl.DataFrame) -> None:
        """Texts with their vectors.

        Args:
            texts: of all prompts, in their order, equal ones as often as they are: what pools are drawn from.
            text_embeddings: table of text vectors, one row per text with ``text`` and ``vector`` (D,).

        Raises:
            UsageError: a text has no vector.
        """
        row_of_text = {text: row for row, text in enumerate(text_embeddings["text"].to_list())}
        if missing := [text for text in texts if text not in row_of_text]:
            raise UsageError(
                f"{len(set(missing))} texts have no vector, such as {missing[0]!r}: the judge has not seen the texts "
                "of this run. Let it look again: verism observe"
            )
        self.vectors = vectors_of(text_embeddings["vector"])[[row_of_text[text] for text in texts]]
        self._index_of = {text: row for row, text in reversed(list(enumerate(texts)))}

    def rows(self, images: Sequence[ShownImage]) -> NDArray[np.intp]:
        """Row of each image's own text, shape (N,)."""
        return np.array([self._index_of[image.prompt.text] for image in images], dtype=np.intp)

    def image_vectors(self, images: Sequence[ShownImage], embeddings: pl.DataFrame) -> NDArray[np.float32]:
        """The vector of each image, NaN for none, shape (N, D).

        Args:
            images: some of a run, or all.
            embeddings: table of image vectors, one row per image with ``image_id`` and ``vector`` (D,).
        """
        of_image = {image_id: row for row, image_id in enumerate(embeddings["image_id"].to_list())}
        seen = vectors_of(embeddings["vector"])
        found = np.full((len(images), self.vectors.shape[1]), np.nan, dtype=np.float32)
        for number, image in enumerate(images):
            if image.problem is None and image.image_id in of_image:
                found[number] = seen[of_image[image.image_id]]
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Retrieved:
    """The texts of a run, and how its images are retrieved among them.

    Attributes:
        texts: of all prompts.
        pool: size of a pool.
        n_different: different texts.
        first: number of the first image of each prompt, by the id of the prompt; images count in the order of the
            prompts and their indices.
        chances: by protocol, the chance of each image that its text comes first, NaN where it has no vector, shape
            (N,); without protocols that have too few texts.
    """

    texts: Texts
    pool: int
    n_different: int
    first: Mapping[str, int]
    chances: Mapping[str, NDArray[np.float64]]

    @property
    def too_few(self) -> str:
        """Why a protocol has no chances; empty if all of them have."""
        if self.n_different >= self.pool:
            return ""
        return f"{self.n_different} different texts are too few for pools of {self.pool}; lower the rule `pool`"

    @classmethod
    def of(
        cls, texts: Texts, vectors: NDArray[np.float32], rows: NDArray[np.intp], first: Mapping[str, int], pool: int
    ) -> Retrieved:
        """R-precision of all images of a run.

        Args:
            texts: of all prompts.
            vectors: of the images, NaN for none, shape (N, D); they are gone through in tiles, and may lie in a file.
            rows: row of each image's own text, shape (N,).
            first: see ``Retrieved``.
            pool: size of a pool, the own text among them.

        Raises:
            UsageError: vectors that do not fit.
        """
        # Texts that were cut to the same words have the same vector.
        n_different = len(np.unique(texts.vectors, axis=0))
        chances = {}
        for protocol in ("revised", "released"):
            if protocol == "revised" and n_different < pool:
                continue
            try:
                result = r_precision(
                    vectors,
                    texts.vectors,
                    positive=rows,
                    protocol="released" if protocol == "released" else "revised",
                    pool=pool,
                    repeats=REPEATS,
                    seed=SEED,
                )
            except ValueError as err:
                raise UsageError(f"R-precision: {err}") from err
            chances[protocol] = result.per_image
        return cls(texts=texts, pool=pool, n_different=n_different, first=first, chances=chances)


def retrieval_verdicts(
    images: Sequence[ShownImage], embeddings: pl.DataFrame, retrieved: Retrieved
) -> list[dict[str, Any]]:
    """``clipscore``: the cosine with the own text; ``r_precision``: the chance, in [0, 1], that it comes first.

    Args:
        images: all of a run, or those of prompts that follow each other.
        embeddings: table of image vectors, one row per image with ``image_id`` and ``vector`` (D,).
        retrieved: of all images.
    """
    rows: list[dict[str, Any]] = []
    if not images:
        return rows
    seen = set(embeddings["image_id"].to_list())
    texts, pool = retrieved.texts, retrieved.pool
    near = cosine(texts.image_vectors(images, embeddings), texts.vectors[texts.rows(images)])
    for image, value in zip(images, near.tolist(), strict=True):
        reason = f"cosine {value:.4f} with: {image.prompt.text}"
        rows.append(_row(image, "revised", "clipscore", value, reason, seen))
    start = retrieved.first[images[0].prompt.prompt_id]
    for protocol in ("revised", "released"):
        if protocol not in retrieved.chances:
            rows += [verdict(p, protocol, "r_precision", None, p.problem or retrieved.too_few) for p in images]
            continue
        chances = retrieved.chances[protocol][start : start + len(images)]
        for image, chance in zip(images, chances.tolist(), strict=True):
            reason = (
                f"its text comes first among {pool} with probability {chance:.3f}"
                if protocol == "revised"
                else f"its text comes first in {chance:.0%} of {REPEATS} draws of {pool - 1} others"
            )
            rows.append(_row(image, protocol, "r_precision", chance, reason, seen))
    return rows


def _row(
    image: ShownImage, protocol: str, rule: str, value: float, reason: str, seen: Collection[str]
) -> dict[str, Any]:
    if value == value:
        return verdict(image, protocol, rule, value, reason)
    why = NOT_OBSERVED if image.image_id not in seen else "the vector has no direction"
    return verdict(image, protocol, rule, None, image.problem or why)


RetrievalTally = Mapping[tuple[str, str], NDArray[np.float64]]


def retrieval_tally(images: Sequence[ShownImage], verdicts: pl.DataFrame) -> RetrievalTally:
    """The values of some images by rule and protocol, each shape (N,), NaN for none.

    Args:
        images: some of a run, or all.
        verdicts: about them.
    """
    rules = (("clipscore", "revised"), ("r_precision", "released"), ("r_precision", "revised"))
    return {(rule, protocol): by_image(images, verdicts, protocol, rule) for rule, protocol in rules}


def retrieval_scores(suite: str, listed: Listed, tallies: Sequence[RetrievalTally], groups: Groups) -> list[Score]:
    """``clipscore_cosine``, ``_x100`` and ``_hessel``, and ``r_precision`` in both protocols.

    Args:
        suite: its name.
        listed: the images.
        tallies: of all parts of them, one at least.
        groups: of the images.
    """
    clusters = listed.clusters()
    scores: list[Score] = []
    for rule, protocol in tallies[0]:
        values = np.concatenate([tally[rule, protocol] for tally in tallies])
        for group, chosen in groups:
            results, of = values[chosen], clusters[chosen]
            if rule == "r_precision":
                scores.append(mean_score(suite, rule, protocol, results, of, group=group))
                continue
            positive = np.where(results < 0.0, 0.0, results)  # NaN stays
            for scale, of_scale, times in zip(SCALES, (results, results, positive), (1.0, 100.0, 2.5), strict=True):
                scores.append(
                    mean_score(
                        suite, f"clipscore_{scale}", protocol, of_scale, of, group=group, unit=scale, scale=times
                    )
                )
    return scores
