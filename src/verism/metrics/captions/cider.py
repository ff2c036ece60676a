"""CIDEr as the COCO caption toolkit computes it, which is CIDEr-D without stemming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from verism.metrics.captions.ngrams import MAX_ORDER, CaptionNgrams, Ints, NgramTable, count_ngrams, find_rows

__all__ = ["SIGMA", "DocumentFrequencies", "cider"]

SIGMA = 6.0  # words; width of the length penalty
_SCALE = 10.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class DocumentFrequencies:
    """How many images of a set have a reference with each n-gram, so that CIDEr can be computed of some at a time.

    Attributes:
        n_images: images of the set.
        words: number of each word of the references.
        keys: per order 2 to 4, of each n-gram of the references the number of the n-gram before its last word times
            the number of words, plus that of its last word; ascending.
        images: per order 1 to 4, images with a reference that has the n-gram.
    """

    n_images: int
    words: Mapping[str, int]
    keys: tuple[Ints, ...]
    images: tuple[Floats, ...]

    @classmethod
    def of(cls, references: Sequence[Sequence[Sequence[str]]], n_images: Sequence[int]) -> DocumentFrequencies:
        """The frequencies of a set.

        Args:
            references: for each prompt, the words of its references, at least one.
            n_images: images of each prompt, which all have its references.
        """
        ngrams = count_ngrams([[]] * len(references), references)
        times = np.asarray(n_images, dtype=np.float64)
        return cls(
            n_images=int(times.sum()),
            words={word: number for number, word in enumerate(ngrams.words)},
            keys=tuple(before * len(ngrams.words) + last for before, last in ngrams.parts),
            images=tuple(_frequency(ngrams, order, times) for order in range(MAX_ORDER)),
        )

    def among(self, ngrams: CaptionNgrams) -> list[Floats]:
        """By order, the frequency of each n-gram of some captions; 0 where no reference of the set has it."""
        number = np.array([self.words.get(word, -1) for word in ngrams.words], dtype=np.int64)
        known = number >= 0
        found = [np.where(known, self.images[0][number] if len(self.words) else 0.0, 0.0)]
        of_word = number
        for (before, last), keys, images in zip(ngrams.parts, self.keys, self.images[1:], strict=True):
            rows, there = find_rows(keys, number[before] * len(self.words) + of_word[last])
            there &= (number[before] >= 0) & (of_word[last] >= 0)
            number = np.where(there, rows, -1)
            found.append(np.where(there, images[rows] if len(images) else 0.0, 0.0))
        return found


def _frequency(ngrams: CaptionNgrams, order: int, times: Floats | None = None) -> Floats:
    """Images with a reference that has each n-gram of an order, the first of which is 0; each as often as it says."""
    references, size = ngrams.references[order], ngrams.n_grams[order]
    keys = np.sort(ngrams.image[references.caption] * size + references.gram)
    new = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    image, gram = np.divmod(keys[new], max(size, 1))
    return np.bincount(gram, weights=None if times is None else times[image], minlength=size).astype(np.float64)


def cider(ngrams: CaptionNgrams, frequencies: DocumentFrequencies | None = None) -> Floats:
    """CIDEr of each of N captions; the corpus value is their mean.

    Captions become vectors of n-gram counts times ``log(N) - log(max(1, images with a reference that has it))``. For
    each order 1 to 4 and each reference: their cosine, in which a candidate's n-gram counts at most as much as the
    reference's, times ``exp(-d**2 / (2 SIGMA**2))``, where d is the difference in length. The score is ten times the
    mean over orders and references.

    The weights come from the references of these N images, so the score of one caption depends on the others in the
    set: values of sets of different size or content cannot be compared, and a single image scores 0.

    Args:
        ngrams: of these images.
        frequencies: of the set that they are part of; None: they are all of it. Values are equal to the last bit.

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
    n_set = n if frequencies is None else frequencies.n_images
    if frequencies is None:
        frequency = [_frequency(ngrams, order) for order in range(MAX_ORDER)]
    else:
        frequency = frequencies.among(ngrams)
    for order, (candidates, references) in enumerate(zip(ngrams.candidates, ngrams.references, strict=True)):
        size = ngrams.n_grams[order]
        owner = ngrams.image[references.caption]
        rarity = np.log(n_set) - np.log(np.maximum(1.0, frequency[order]))
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
