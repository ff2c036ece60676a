"""CIDEr as the COCO caption toolkit computes it, which is CIDEr-D without stemming."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from verism.metrics.captions.ngrams import MAX_ORDER, CaptionNgrams, NgramTable, find_rows

__all__ = ["SIGMA", "cider"]

SIGMA = 6.0  # words; width of the length penalty
_SCALE = 10.0

Floats = NDArray[np.float64]


def cider(ngrams: CaptionNgrams) -> Floats:
    """CIDEr of each of N captions; the corpus value is their mean.

    Captions become vectors of n-gram counts times ``log(N) - log(max(1, images with a reference that has it))``. For
    each order 1 to 4 and each reference: their cosine, in which a candidate's n-gram counts at most as much as the
    reference's, times ``exp(-d**2 / (2 SIGMA**2))``, where d is the difference in length. The score is ten times the
    mean over orders and references.

    The weights come from the references of these N images, so the score of one caption depends on the others in the
    set: values of sets of different size or content cannot be compared, and a single image scores 0.

    Returns:
        Shape (N,), in [0, 10].
    Source: Vedantam et al. 2015, arXiv:1411.5726, Eq. 1-4, with the clipping and length penalty of CIDEr-D (Sec. 7).
        We follow pycocoevalcap 1.2 (cider_scorer.py) where it differs: n-grams are not stemmed; lengths are numbers of
        bigrams, one less than words, but 0 for a caption of none.
    """
    n = ngrams.n_images
    if n == 0:
        return np.zeros(0)
    bigrams = (np.maximum(0, ngrams.candidate_length - 1), np.maximum(0, ngrams.reference_length - 1))
    difference = bigrams[0][ngrams.image] - bigrams[1]
    penalty = np.exp(-(difference**2) / (2 * SIGMA**2))
    total = np.zeros(len(ngrams.image))
    for order, (candidates, references) in enumerate(zip(ngrams.candidates, ngrams.references, strict=True)):
        size = ngrams.n_grams[order]
        owner = ngrams.image[references.caption]
        keys = np.sort(owner * size + references.gram)
        new = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        frequency = np.bincount(keys[new] % max(size, 1), minlength=size)  # images with a reference that has it
        rarity = np.log(n) - np.log(np.maximum(1, frequency))
        candidate_weights, candidate_norm = _weigh(candidates, rarity, n)
        reference_weights, reference_norm = _weigh(references, rarity, len(ngrams.image))
        rows, matched = find_rows(candidates.caption * size + candidates.gram, owner * size + references.gram)
        common = np.minimum(candidate_weights[rows[matched]], reference_weights[matched]) * reference_weights[matched]
        products = np.bincount(references.caption[matched], weights=common, minlength=len(ngrams.image))
        norms = candidate_norm[ngrams.image] * reference_norm
        total += np.divide(products, norms, out=np.zeros(len(norms)), where=norms > 0)
    total *= penalty * (_SCALE / MAX_ORDER)
    scores: Floats = np.bincount(ngrams.image, weights=total, minlength=n) / np.bincount(ngrams.image, minlength=n)
    return scores


def _weigh(table: NgramTable, rarity: Floats, n_captions: int) -> tuple[Floats, Floats]:
    """The weight of each row of a table, and the Euclidean norm of each caption, shape (n_captions,)."""
    weights = table.times * rarity[table.gram]
    return weights, np.sqrt(np.bincount(table.caption, weights=weights**2, minlength=n_captions))
