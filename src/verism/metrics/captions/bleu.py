"""BLEU-1 to BLEU-4 with several references, as the COCO caption toolkit computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.metrics.captions.ngrams import MAX_ORDER, CaptionNgrams, find_rows

__all__ = ["BREVITIES", "BleuCounts", "Brevity", "bleu", "bleu_counts"]

Brevity = Literal["closest", "shortest", "average"]
BREVITIES: tuple[Brevity, ...] = get_args(Brevity)

# The toolkit's guards against division by zero (bleu_scorer.py: tiny, small). They show in the scores of single
# captions: without any matching 4-gram BLEU-4 is about 1e-4, not 0.
_TINY, _SMALL = 1e-15, 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class BleuCounts:
    """What BLEU depends on, of each image; sums over images give the corpus value.

    Attributes:
        matched: n-grams that the references confirm, each at most as often as in the one reference that has it most
            often, shape (..., 4).
        proposed: n-grams of the candidate, shape (..., 4).
        length: words of the candidate, shape (...).
        reference_length: words it should have had, shape (...).
    """

    matched: NDArray[np.float64]
    proposed: NDArray[np.float64]
    length: NDArray[np.float64]
    reference_length: NDArray[np.float64]


def bleu_counts(ngrams: CaptionNgrams, *, brevity: Brevity = "closest") -> BleuCounts:
    """Matched and proposed n-grams and lengths of each of N images.

    Args:
        ngrams: candidates and references.
        brevity: the reference length a candidate is held to: ``closest`` to its own, the shorter of two equally close
            ones (the toolkit's choice); ``shortest``; or the ``average``.
    Raises:
        ValueError: an unknown ``brevity``.
    """
    if brevity not in BREVITIES:
        raise ValueError(f"brevity must be one of {list(BREVITIES)}; got {brevity!r}")
    n = ngrams.n_images
    matched = np.zeros((n, MAX_ORDER))
    for order, (candidates, references) in enumerate(zip(ngrams.candidates, ngrams.references, strict=True)):
        size = ngrams.n_grams[order]
        keys = ngrams.image[references.caption] * size + references.gram
        by_key = np.lexsort((references.times, keys))
        keys, times = keys[by_key], references.times[by_key]
        last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]  # of equal keys, the one with most occurrences
        keys, most = keys[last], times[last]
        rows, is_match = find_rows(keys, candidates.caption * size + candidates.gram)
        confirmed = np.minimum(candidates.times[is_match], most[rows[is_match]])
        matched[:, order] = np.bincount(candidates.caption[is_match], weights=confirmed, minlength=n)

    length = ngrams.candidate_length
    starts = np.searchsorted(ngrams.image, np.arange(n))
    lengths = ngrams.reference_length
    if not n:
        target = np.zeros(0)
    elif brevity == "closest":
        # One number to order by distance first, then by length.
        span = int(lengths.max()) + 1
        distance = np.abs(lengths - length[ngrams.image])
        target = np.minimum.reduceat(distance * span + lengths, starts) % span
    elif brevity == "shortest":
        target = np.minimum.reduceat(lengths, starts)
    else:
        target = np.add.reduceat(lengths, starts) / np.bincount(ngrams.image, minlength=n)
    return BleuCounts(
        matched=matched,
        proposed=np.maximum(0, length[:, None] - np.arange(MAX_ORDER)).astype(np.float64),
        length=length.astype(np.float64),
        reference_length=np.asarray(target, dtype=np.float64),
    )


def bleu(counts: BleuCounts) -> NDArray[np.float64]:
    """BLEU-1 to BLEU-4 of counts: of single captions, or of a corpus whose counts were added up beforehand.

    Returns:
        Shape (..., 4), in [0, 1]: the geometric mean of the precisions of orders 1 to n, times the brevity penalty.
    Source: Papineni et al. 2002, ACL, Sec. 2, with the guards of pycocoevalcap 1.2 (bleu_scorer.py) against empty
        captions and orders without a match, no other smoothing.
    """
    precisions = (counts.matched + _TINY) / (counts.proposed + _SMALL)
    orders = np.arange(1, MAX_ORDER + 1)
    means: NDArray[np.float64] = np.cumprod(precisions, axis=-1) ** (1.0 / orders)
    ratio = (counts.length + _TINY) / (counts.reference_length + _SMALL)
    penalty = np.exp(np.minimum(0.0, 1.0 - 1.0 / ratio))
    return means * penalty[..., None]
