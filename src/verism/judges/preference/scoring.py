"""What preference scorers share: rows of their table, texts that are cut, batches of images with their texts."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from verism.errors import UsageError, VerismError
from verism.records import PreferenceNeed, frame

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["Judged", "ModelScorer", "TextTokens", "load_tokenizer", "text_of"]


class Judged(NamedTuple):
    """What a scorer says of an image.

    Attributes:
        score: on the scorer's own scale, higher for better.
        deviation: standard deviation that it gives its score; None where it gives none.
    """

    score: float
    deviation: float | None = None


def text_of(image: LoadedImage, need: PreferenceNeed) -> str:
    """The text that an image is to be a picture of.

    Args:
        image: the image.
        need: with the texts by prompt id.

    Raises:
        VerismError: the need has no text of this image's prompt.
    """
    if image.prompt_id not in need.texts:
        raise VerismError(f"image {image.image_id!r}: the need has no text of prompt {image.prompt_id!r}")
    return need.texts[image.prompt_id]


class ModelScorer(ABC):
    """A scorer that runs a network here: looks at images with their texts and fills table ``preference_scores``.

    Attributes:
        role: which need it fills.
        name: kind, weights with a hash of their content or their commit, and every option that changes a score.
    """

    role: ClassVar[str] = PreferenceNeed.role
    name: str
    _texts: TextTokens

    @abstractmethod
    def judge_pairs(self, images: Sequence[LoadedImage], texts: Sequence[str]) -> Sequence[Judged]:
        """A score for each image with its text.

        Args:
            images: N images of any sizes.
            texts: the text of each.
        """

    def observe(self, images: Sequence[LoadedImage], need: PreferenceNeed) -> pl.DataFrame:
        """One row per image, as table ``preference_scores``.

        Args:
            images: images of any sizes.
            need: with the text of each prompt.

        Raises:
            VerismError: a score is not finite, as ``float16`` gives where numbers grow too large.
        """
        texts = [text_of(image, need) for image in images]
        cut = self._texts.note_cut(texts)
        judged = self.judge_pairs(images, texts)
        broken = [i.image_id for i, j in zip(images, judged, strict=True) if not math.isfinite(j.score)]
        if broken:
            raise VerismError(
                f"{self.name}: {len(broken)} score(s) are infinite or NaN, such as that of {broken[0]!r}. Use "
                "dtype='bfloat16' or 'float32'; if it was, the weights are damaged."
            )
        return frame(
            need.table,
            [
                {
                    "image_id": image.image_id,
                    "judge": self.name,
                    "score": each.score,
                    "deviation": each.deviation,
                    "text_cut": text in cut,
                }
                for image, text, each in zip(images, texts, judged, strict=True)
            ],
        )

    def summary(self) -> Sequence[str]:
        """After a run: how many texts were cut, if any."""
        return self._texts.summary()


class TextTokens:
    """Token numbers of texts, cut at their end where they are longer than the model reads, and which were.

    Args:
        tokenizer: of the checkpoint.
        limit: tokens that the model reads, the opening and closing ones among them, at least 3.
    """

    def __init__(self, tokenizer: Any, limit: int) -> None:
        self._tokenizer, self._limit = tokenizer, limit
        self._lengths: dict[str, int] = {}
        self._cut: dict[str, None] = {}

    def __call__(self, text: str) -> Mapping[str, Any]:
        """Inputs of the text network without the batch axis; nothing is padded.

        Args:
            text: the text.
        """
        tokens = self._tokenizer([text], truncation=True, max_length=self._limit, return_tensors="pt")
        return {name: tokens[name][0] for name in ("input_ids", "attention_mask") if name in tokens}

    def note_cut(self, texts: Sequence[str]) -> frozenset[str]:
        """Those of the texts that are longer than the model reads; the first are told by a warning.

        Args:
            texts: the texts.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._lengths]
        if new:
            ids = self._tokenizer(new, verbose=False)["input_ids"]
            self._lengths |= {text: len(each) for text, each in zip(new, ids, strict=True)}
        cut = {text: None for text in new if self._lengths[text] > self._limit}
        if cut and not self._cut:
            warnings.warn(self._told(cut), stacklevel=3)
        self._cut |= cut
        return frozenset(text for text in texts if self._lengths[text] > self._limit)

    def summary(self) -> Sequence[str]:
        """A line on the texts that were cut, if any."""
        return [self._told(self._cut)] if self._cut else []

    def _told(self, cut: Mapping[str, None]) -> str:
        return (
            f"{len(cut)} prompt(s) were cut to the {self._limit} tokens the scorer reads; what stands behind them does "
            f"not enter the scores. The first: {next(iter(cut))!r:.200}"
        )


def load_tokenizer(source: str, where: Mapping[str, Any]) -> Any:
    """The tokenizer of a repository or folder.

    Args:
        source: repository on the hub, or a folder.
        where: as ``HubOptions.where`` gives it.

    Raises:
        UsageError: there is none, or one that knows no words.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(source, **where)
    except (ImportError, OSError, ValueError) as err:
        raise UsageError(
            f"cannot load the tokenizer of {source!r}: expected tokenizer.json, or the files its kind has, beside the "
            f"weights. It says: {' '.join(str(err).split())[:400]}"
        ) from err
    if len(tokenizer) <= len(set(tokenizer.all_special_tokens)):
        raise UsageError(f"cannot load the tokenizer of {source!r}: it knows no words. Put tokenizer.json beside it.")
    return tokenizer
