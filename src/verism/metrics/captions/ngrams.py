"""N-grams of captions as arrays: counted once, for BLEU and for CIDEr."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_ORDER", "CaptionNgrams", "NgramTable", "count_ngrams"]

MAX_ORDER = 4

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class NgramTable:
    """How often each n-gram of one order stands in each caption: one row per caption and n-gram, sorted by both.

    Attributes:
        caption: number of the caption, shape (M,).
        gram: number of the n-gram, shape (M,).
        times: >= 1, shape (M,).
    """

    caption: Ints
    gram: Ints
    times: Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class CaptionNgrams:
    """The n-grams of N candidates, one per image, and of their R references in all.

    Attributes:
        candidates: per order 1 .. 4, a table whose captions are images 0 .. N-1.
        references: per order, a table whose captions are references 0 .. R-1.
        n_grams: per order, the number of different n-grams; tables share their numbering, which is alphabetical, so
            that n-grams of a caption have the same order whatever other captions there are.
        words: the different words, in alphabetical order: the n-grams of order 1.
        parts: of each n-gram of order 2, 3 and 4, the number of the n-gram before its last word, and of that word.
        candidate_length: words, shape (N,).
        reference_length: words, shape (R,).
        image: the image each reference belongs to, shape (R,), ascending, every image at least once.
    """

    candidates: tuple[NgramTable, ...]
    references: tuple[NgramTable, ...]
    n_grams: tuple[int, ...]
    words: tuple[str, ...]
    parts: tuple[tuple[Ints, Ints], ...]
    candidate_length: Ints
    reference_length: Ints
    image: Ints

    @property
    def n_images(self) -> int:
        return len(self.candidate_length)


def count_ngrams(candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> CaptionNgrams:
    """Count the n-grams of orders 1 to 4.

    Args:
        candidates: the words of the caption of each image.
        references: for each image, in the same order, its references: the words of each, at least one.
    Raises:
        ValueError: unequal numbers of images, or an image without references.
    """
    if len(candidates) != len(references):
        raise ValueError(f"need references for each candidate; got {len(candidates)} and {len(references)}")
    per_image = np.array([len(several) for several in references], dtype=np.int64)
    if not per_image.all():
        raise ValueError(f"every candidate needs a reference; number {int(np.argmin(per_image))} has none")
    captions = [*candidates, *chain.from_iterable(references)]
    lengths = np.array([len(words) for words in captions], dtype=np.int64)
    vocabulary = {word: number for number, word in enumerate(sorted(set(chain.from_iterable(captions))))}
    words = np.fromiter(map(vocabulary.__getitem__, chain.from_iterable(captions)), np.int64, int(lengths.sum()))
    caption = np.repeat(np.arange(len(captions)), lengths)

    n_images = len(candidates)
    gram, tables, sizes, parts = words, [], [], []
    for order in range(1, MAX_ORDER + 1):
        if order > 1:
            # An n-gram is an (n-1)-gram and the word after it, if that is still of the same caption.
            ends = np.arange(order - 1, len(words))
            inside = caption[ends] == caption[ends - order + 1]
            keys = gram[: len(ends)] * len(vocabulary) + words[ends]
            gram = np.full(len(ends), -1)
            different, places = np.unique(keys[inside], return_inverse=True)
            gram[inside] = places.reshape(-1)
            parts.append(np.divmod(different, max(len(vocabulary), 1)))
        n_grams = int(gram.max(initial=-1)) + 1
        here = gram >= 0
        keys, times = np.unique(caption[: len(gram)][here] * n_grams + gram[here], return_counts=True)
        row_caption, row_gram = np.divmod(keys, max(n_grams, 1))
        split = int(np.searchsorted(row_caption, n_images))
        tables.append(
            (
                NgramTable(caption=row_caption[:split], gram=row_gram[:split], times=times[:split]),
                NgramTable(caption=row_caption[split:] - n_images, gram=row_gram[split:], times=times[split:]),
            )
        )
        sizes.append(n_grams)
    return CaptionNgrams(
        candidates=tuple(candidate for candidate, _ in tables),
        references=tuple(reference for _, reference in tables),
        n_grams=tuple(sizes),
        words=tuple(vocabulary),
        parts=tuple(parts),
        candidate_length=lengths[:n_images],
        reference_length=lengths[n_images:],
        image=np.repeat(np.arange(n_images), per_image),
    )


def find_rows(table_keys: Ints, keys: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Where each key stands in the ascending ``table_keys``, and whether it does at all (the row is then valid)."""
    if not len(table_keys):
        return np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.bool_)
    rows = np.minimum(np.searchsorted(table_keys, keys), len(table_keys) - 1)
    return rows, table_keys[rows] == keys
