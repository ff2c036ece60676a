"""The embedder that comes with the package: two towers trained on rendered scenes and dressed people, no PyTorch.

It knows the words of its vocabulary and nothing else. Unknown words are named, in the run's record and at its end, and
words for women and men are all read as *person*: it does not perceive gender.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.judges.batching import check_batch_size, judge_name
from verism.judges.embedding.embedder_files import ImageTower, TextTower
from verism.judges.embedding.region_rows import region_rows
from verism.judges.embedding.vocabulary import LONGEST, words_of
from verism.judges.vector_cache import VectorCache, cached_rows, pixels_key, text_key
from verism.records import EmbeddingNeed, vector_rows

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["BuiltinEmbedder"]

_FOREIGN = 5  # texts without a known word that a line names
_NAMED = 40  # unknown words that a line names; the others are counted


class BuiltinEmbedder:
    """Vectors of images and texts by the built-in embedder.

    Its name holds the hash of both files.

    Attributes:
        name: as every row has it.

    Args:
        folder: folder written by ``verism train embedder``; None: the packaged files.
        threads: CPU threads of onnxruntime; None: one per core.
        batch_size: images per batch. Vectors do not depend on it.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only.

    Raises:
        UsageError: there are no such files, or they are none of ours.
    """

    role = EmbeddingNeed.role

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        threads: int | None = None,
        batch_size: int = 16,
        cache: Path | None = None,
    ) -> None:
        self._images = ImageTower(folder, threads=threads, batch_size=check_batch_size(batch_size))
        self._texts = TextTower(folder, threads=threads)
        self.name = judge_name("builtin", "embedder", f"{self._images.sha256[:12]}+{self._texts.sha256[:6]}")
        self._cache = VectorCache(self.name, cache)
        self.start_run()

    def start_run(self) -> None:
        """Forget the texts that ``remarks`` tells of: they were another run's."""
        self._unknown: dict[str, int] = {}
        self._foreign: list[str] = []  # texts of unknown words alone
        self._cut = 0
        self._n_texts: set[str] = set()

    def check(self, need: EmbeddingNeed) -> None:
        """Refuse texts that all say the same to it: those that name people by gender or origin alone, say.

        Raises:
            UsageError: no text has a word that names something it can see.
        """
        if not isinstance(need, EmbeddingNeed):
            raise UsageError(f"{self.name} compares images and texts; it cannot serve a need of {type(need).__name__}")
        if need.texts and not any(self._names_something(text) for text in need.texts):
            shown = " / ".join(repr(text) for text in need.texts[:2])
            raise UsageError(
                f"the built-in embedder knows none of what these {len(need.texts)} texts name ({shown}); words for "
                "women and men are all read as person, for it perceives no gender. It knows rendered objects, colours, "
                "places and clothes (docs/models/builtin-embedder.md); use a CLIP model for these"
            )

    def _names_something(self, text: str) -> bool:
        """Whether a text has a word for something to be seen; what stands before *person* is none: "a white person"."""
        words = words_of(text, self._texts.vocabulary.known)
        return any(a in self._texts.content and b != "person" for a, b in zip(words, [*words[1:], ""], strict=True))

    def observe(self, images: Sequence[LoadedImage], need: EmbeddingNeed) -> pl.DataFrame | Mapping[str, pl.DataFrame]:
        """The vectors of images of any sizes, as table ``embeddings``; and of objects, if the need asks about them."""
        vectors = self._vectors(images)
        rows = vector_rows("embeddings", [image.image_id for image in images], self.name, vectors)
        if not need.regions:
            return rows
        return {"embeddings": rows, "region_embeddings": region_rows(self.name, images, need, self._vectors)}

    def embed_texts(self, texts: Sequence[str]) -> pl.DataFrame:
        """The vectors of texts, as table ``text_embeddings``, one row per distinct text, in order of appearance.

        Words it does not know are one and the same token; ``remarks`` names them.
        """
        distinct = list(dict.fromkeys(texts))
        for text in distinct:
            if text in self._n_texts:
                continue
            self._n_texts.add(text)
            for word in self._texts.vocabulary.unknown(text):
                self._unknown[word] = self._unknown.get(word, 0) + 1
            if self._texts.vocabulary.is_foreign(text):
                self._foreign.append(text)
            self._cut += len(self._texts.vocabulary.tokens(text)) > LONGEST

        def compute(positions: list[int]) -> NDArray[np.float32]:
            return self._texts.embed([distinct[k] for k in positions])

        vectors = cached_rows(self._cache, [text_key(text) for text in distinct], compute)
        return vector_rows("text_embeddings", distinct, self.name, vectors)

    def _vectors(self, images: Sequence[LoadedImage]) -> NDArray[np.float32]:
        """A vector for each image, shape (N, D); equal images are computed once."""

        def compute(positions: list[int]) -> NDArray[np.float32]:
            return self._images.look([images[k].pixels for k in positions]).vectors

        return cached_rows(self._cache, [pixels_key(image.pixels) for image in images], compute)

    def remarks(self) -> Sequence[str]:
        """For the run's record: words of its texts that mean nothing to it, and texts that were cut."""
        lines = []
        if self._unknown:
            often = sorted(self._unknown, key=lambda word: (-self._unknown[word], word))
            more = f" and {len(often) - _NAMED} more" if len(often) > _NAMED else ""
            lines.append(
                f"{self.name} does not know {len(often)} word{'s' * (len(often) > 1)} of {len(self._n_texts):,} texts, "
                f"so no number depends on them: {', '.join(often[:_NAMED])}{more}"
            )
        if self._foreign:
            named = ", ".join(repr(text) for text in self._foreign[:_FOREIGN])
            more = f" and {len(self._foreign) - _FOREIGN:,} more" if len(self._foreign) > _FOREIGN else ""
            lines.append(
                f"{self.name} knows no word of {len(self._foreign):,} of {len(self._n_texts):,} texts, so that "
                f"similarities to them mean nothing, and count all the same: {named}{more}"
            )
        if self._cut:
            lines.append(f"{self.name} reads {LONGEST - 1} words of a text; {self._cut:,} texts are longer, and cut")
        return lines

    def summary(self) -> Sequence[str]:
        """After a run: as ``remarks``."""
        return self.remarks()
