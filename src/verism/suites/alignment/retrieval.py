"""Images judged by their vectors and those of the texts: CLIPScore on its named scales, and R-precision.

==============  =====================================================================================================
``revised``   cosines; the expectation over all pools of different texts, equals ranked fairly
``released``    DALL-Eval's script: raw dot products, 99 other captions drawn with replacement, five repeats, seed 10
==============  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError
from verism.metrics.retrieval import cosine, r_precision
from verism.records import Score, vectors_of
from verism.suites.alignment.image_groups import Groups, mean_score, verdict
from verism.suites.verdict_table import NOT_OBSERVED, ShownImage

if TYPE_CHECKING:
    import polars as pl

__all__ = ["POOL", "retrieval_scores", "retrieval_verdicts"]

POOL = 100
REPEATS, SEED = 5, 10
# Scales of the cosine in use; see ``metrics.retrieval.clipscore``. The second is of negative cosines 0.
SCALES = ("cosine", "x100", "hessel")


def retrieval_verdicts(
    images: Sequence[ShownImage],
    texts: Sequence[str],
    embeddings: pl.DataFrame,
    text_embeddings: pl.DataFrame,
    pool: int,
) -> list[dict[str, Any]]:
    """``clipscore``: the cosine with the own text; ``r_precision``: the chance, in [0, 1], that it comes first.

    Args:
        images: the images to judge.
        texts: of all prompts, in their order, equal ones as often as they are: what pools are drawn from.
        embeddings: table of image vectors, one row per image with ``image_id`` and ``vector`` (D,).
        text_embeddings: table of text vectors, one row per text with ``text`` and ``vector`` (D,).
        pool: size of a pool, the own text among them.
    """
    row_of_text = {text: row for row, text in enumerate(text_embeddings["text"].to_list())}
    if missing := [text for text in texts if text not in row_of_text]:
        raise UsageError(
            f"{len(set(missing))} texts have no vector, such as {missing[0]!r}: the judge has not seen the texts of "
            "this run. Let it look again: verism observe"
        )
    text_vectors = vectors_of(text_embeddings["vector"])[[row_of_text[text] for text in texts]]
    index_of = {text: row for row, text in reversed(list(enumerate(texts)))}
    subset = np.array([index_of[p.prompt.text] for p in images], dtype=np.intp)
    of_image = {image_id: row for row, image_id in enumerate(embeddings["image_id"].to_list())}
    seen = vectors_of(embeddings["vector"])
    image_vectors = np.full((len(images), text_vectors.shape[1]), np.nan, dtype=np.float32)
    for number, image in enumerate(images):
        if image.problem is None and image.image_id in of_image:
            image_vectors[number] = seen[of_image[image.image_id]]
    rows: list[dict[str, Any]] = []
    if not images:
        return rows
    near = cosine(image_vectors, text_vectors[subset])
    for image, value in zip(images, near.tolist(), strict=True):
        reason = f"cosine {value:.4f} with: {image.prompt.text}"
        rows.append(_row(image, "revised", "clipscore", value, reason, of_image))
    different = len(np.unique(text_vectors, axis=0))  # texts that were cut to the same words have the same vector
    for protocol in ("revised", "released"):
        if protocol == "revised" and different < pool:
            why = f"{different} different texts are too few for pools of {pool}; lower the rule `pool`"
            rows += [verdict(p, protocol, "r_precision", None, p.problem or why) for p in images]
            continue
        try:
            result = r_precision(
                image_vectors,
                text_vectors,
                positive=subset,
                protocol="released" if protocol == "released" else "revised",
                pool=pool,
                repeats=REPEATS,
                seed=SEED,
            )
        except ValueError as err:
            raise UsageError(f"R-precision: {err}") from err
        for image, chance in zip(images, result.per_image.tolist(), strict=True):
            reason = (
                f"its text comes first among {pool} with probability {chance:.3f}"
                if protocol == "revised"
                else f"its text comes first in {chance:.0%} of {REPEATS} draws of {pool - 1} others"
            )
            rows.append(_row(image, protocol, "r_precision", chance, reason, of_image))
    return rows


def _row(
    image: ShownImage, protocol: str, rule: str, value: float, reason: str, seen: Mapping[str, int]
) -> dict[str, Any]:
    if value == value:
        return verdict(image, protocol, rule, value, reason)
    why = NOT_OBSERVED if image.image_id not in seen else "the vector has no direction"
    return verdict(image, protocol, rule, None, image.problem or why)


def retrieval_scores(suite: str, verdicts: pl.DataFrame, images: Sequence[ShownImage], groups: Groups) -> list[Score]:
    """``clipscore_cosine``, ``_x100`` and ``_hessel``, and ``r_precision`` in both protocols."""
    values: dict[tuple[str, str], dict[str, float | None]] = {}
    for row in verdicts.iter_rows(named=True):
        if row["rule"] in ("clipscore", "r_precision"):
            values.setdefault((row["rule"], row["protocol"]), {})[row["image_id"]] = row["value"]
    scores: list[Score] = []
    for (rule, protocol), by_image in sorted(values.items()):
        for group, chosen in groups:
            members = [images[i] for i in chosen]
            results = [by_image[m.image_id] for m in members]
            ids = [m.prompt.prompt_id for m in members]
            if rule == "r_precision":
                scores.append(mean_score(suite, rule, protocol, results, ids, group=group))
                continue
            positive = [None if v is None else max(v, 0.0) for v in results]
            for scale, of_scale, times in zip(SCALES, (results, results, positive), (1.0, 100.0, 2.5), strict=True):
                scores.append(
                    mean_score(
                        suite, f"clipscore_{scale}", protocol, of_scale, ids, group=group, unit=scale, scale=times
                    )
                )
    return scores
