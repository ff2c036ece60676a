"""Images and texts as vectors of one space: CLIP, SigLIP and whatever else ``transformers`` loads of that kind.

``--clip ViT-B/32`` is the model of most papers, ``--clip ID_OR_PATH`` any other::

    verism run geography --images DIR --clip openai/clip-vit-base-patch32

Vectors are the model's own, out of its projections and not normalised; cosines and their scales belong to the metrics.
Images are prepared with Pillow as the checkpoint's settings say, ``torchvision`` is neither needed nor used. Nothing
is padded for a neighbour's sake, so a vector does not depend on what it was computed with.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, VerismError, require
from verism.judges.batching import (
    EXTRA,
    Batches,
    check_choice,
    judge_name,
    pick_device,
    pick_dtype,
)
from verism.judges.embedding.region_rows import region_rows
from verism.judges.hub import (
    HubOptions,
    WholeImage,
    identity,
    load_config,
    load_image_processor,
    load_model,
    source_name,
)
from verism.judges.vector_cache import VectorCache, cached_rows, pixels_key, text_key
from verism.records import EmbeddingNeed, vector_rows

if TYPE_CHECKING:
    import polars as pl
    import torch

    from verism.records import LoadedImage

__all__ = ["PRESETS", "ClipJudge", "Preprocessing"]

Preprocessing = Literal["model", "squash"]
Vectors = NDArray[np.float32]

PRESETS: Mapping[str, str] = {
    "ViT-B/32": "openai/clip-vit-base-patch32",  # DIG In, DALL-Eval, Hessel et al. 2021
    "ViT-L/14": "openai/clip-vit-large-patch14",
    "ViT-L/14-DataComp.XL": "laion/CLIP-ViT-L-14-DataComp.XL-s13B-b90K",  # EvalGIM
}
"""Short names of the models papers use, and their repositories on the Hugging Face hub."""

# Trained on lower-case texts filled up to the full length, without a mask: their filling takes part.
_SIGLIP = ("siglip", "siglip2")


class ClipJudge:
    """Vectors of images and texts by a model with two towers, loaded with ``transformers``.

    Its name holds everything that changes a vector: repository (or folder) with its commit (or the hash of its
    content), preprocessing and, unless float32, precision. Batch size and device are not in it.

    Args:
        id_or_path: ``ViT-B/32``, ``ViT-L/14``, ``ViT-L/14-DataComp.XL``, a model id on the Hugging Face Hub, or a
            folder with ``config.json``, weights, tokenizer and preprocessing settings.
        preprocessing: image preprocessing. ``model``: the checkpoint's own; most crop the longer side, so the edges of
            images that are not square are never seen. ``squash``: the whole image, resized to the model's square,
            aspect ratio ignored.
        hub: which edition of the model, and how it is run.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only. Within a run, equal images
            and texts are always computed once.
    Raises:
        UsageError: no such model, one without vectors of both images and texts, incomplete weights, a tokenizer that
            needs a library that is not installed, or preprocessing the model cannot have.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = EmbeddingNeed.role

    def __init__(
        self,
        id_or_path: str,
        *,
        preprocessing: Preprocessing = "model",
        hub: HubOptions = HubOptions(batch_size=32),
        cache: Path | None = None,
    ) -> None:
        check_choice("preprocessing", preprocessing, get_args(Preprocessing))
        source = PRESETS.get(id_or_path, id_or_path)
        where = hub.where(source)
        transformers = require("transformers", extra=EXTRA, purpose="vectors of images and texts")
        self._device = pick_device(hub.device)
        self._dtype = pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)

        config = load_config(source, where)
        self._model = load_model(transformers.AutoModel, source, where, self._dtype, self._device)
        missing = [name for name in ("get_image_features", "get_text_features") if not hasattr(self._model, name)]
        if missing:
            raise UsageError(
                f"{source!r} is a model of type {config.model_type!r}, which does not give vectors of both images "
                f"and texts. Name a CLIP-like model, such as {', '.join(PRESETS)} or google/siglip-base-patch16-224."
            )
        self._texts = _Texts(source, self._model, _load_tokenizer(transformers, source, where))
        self._images = WholeImage(load_image_processor(source, config, where), squash=preprocessing == "squash")
        self._accepted = inspect.signature(self._model.get_image_features).parameters
        weights = identity(self._model, source)
        self.name = judge_name(
            "clip",
            source_name(source),
            weights,
            preprocessing=preprocessing,
            dtype=hub.named_dtype,
        )
        # Where the weights could not be told, another run's vectors may be those of others.
        self._cache = VectorCache(self.name, None if weights == "unknown" else cache)

    def observe(self, images: Sequence[LoadedImage], need: EmbeddingNeed) -> pl.DataFrame | Mapping[str, pl.DataFrame]:
        """The vectors of images of any sizes, as table ``embeddings``, one row per image.

        The need's texts are left to ``embed_texts``: they are the same for all images. A need that asks about objects
        gets their vectors, too, as table ``region_embeddings``; both tables are then given by name.

        Raises:
            VerismError: a vector is not finite, as ``float16`` gives where numbers grow too large.
        """
        vectors = self._vectors(images)
        rows = vector_rows("embeddings", [image.image_id for image in images], self.name, vectors)
        if not need.regions:
            return rows
        return {"embeddings": rows, "region_embeddings": region_rows(self.name, images, need, self._vectors)}

    def _vectors(self, images: Sequence[LoadedImage]) -> Vectors:
        """A vector for each image, shape (N, D); equal images are computed once."""

        def compute(positions: list[int]) -> Vectors:
            chosen = [images[i] for i in positions]
            result = self._batches.run(chosen, self._image_inputs, self._image_step)
            return self._checked(np.stack(result), [image.image_id for image in chosen])

        return cached_rows(self._cache, [pixels_key(image.pixels) for image in images], compute)

    def embed_texts(self, texts: Sequence[str]) -> pl.DataFrame:
        """The vectors of texts, as table ``text_embeddings``, one row per distinct text, in order of appearance.

        Texts longer than the model reads are cut at their end; a warning and ``summary`` say how many.

        Raises:
            VerismError: as ``observe``.
        """
        distinct = list(dict.fromkeys(texts))
        self._texts.count_cut(distinct)

        def compute(positions: list[int]) -> Vectors:
            missing = [distinct[i] for i in positions]
            return self._checked(np.stack(self._batches.run(missing, self._texts.prepare, self._text_step)), missing)

        vectors = cached_rows(self._cache, [text_key(text) for text in distinct], compute)
        return vector_rows("text_embeddings", distinct, self.name, vectors)

    def summary(self) -> Sequence[str]:
        """A line on the texts that were cut, if any."""
        return self._texts.summary()

    def _image_inputs(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        inputs = self._images.prepare(image.pixels)
        return {name: value for name, value in inputs.items() if name in self._accepted}

    def _image_step(self, _: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[Vectors]:
        inputs = {**inputs, "pixel_values": inputs["pixel_values"].to(self._dtype)}
        return _rows(self._model.get_image_features(**inputs))

    def _text_step(self, _: Sequence[str], inputs: dict[str, torch.Tensor]) -> list[Vectors]:
        return _rows(self._model.get_text_features(**inputs))

    def _checked(self, vectors: Vectors, names: Sequence[str]) -> Vectors:
        if broken := [name for name, row in zip(names, vectors, strict=True) if not np.isfinite(row).all()]:
            raise VerismError(
                f"{self.name}: {len(broken)} vector(s) hold infinite numbers or NaN, such as that of {broken[0]!r}. "
                "Use dtype='bfloat16' or 'float32'; if it was, the weights are damaged."
            )
        return vectors


class _Texts:
    """Network inputs of one text, as its family was trained, and a count of the texts that were cut."""

    def __init__(self, source: str, model: Any, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._accepted = set(inspect.signature(model.get_text_features).parameters)
        self._siglip = model.config.model_type in _SIGLIP
        if self._siglip:
            self._accepted.discard("attention_mask")
        config = getattr(model.config, "text_config", model.config)
        positions = getattr(config, "max_position_embeddings", None)
        if positions is None:
            raise UsageError(f"{source!r} has no text_config.max_position_embeddings, the length of text it reads")
        if "roberta" in str(config.model_type):  # counts positions from behind the number of the filling token
            positions -= int(config.pad_token_id) + 1
        self._limit = min(int(positions), int(tokenizer.model_max_length))
        self._cut: dict[str, None] = {}

    def prepare(self, text: str) -> Mapping[str, torch.Tensor]:
        tokens = self._tokenizer(
            [self._worded(text)],
            padding="max_length" if self._siglip else False,
            truncation=True,
            max_length=self._limit,
            return_tensors="pt",
        )
        return {name: value[0] for name, value in tokens.items() if name in self._accepted}

    def count_cut(self, texts: Sequence[str]) -> None:
        """Note, and tell by a warning, which of these texts are longer than the model reads."""
        if not texts:
            return
        lengths = [len(ids) for ids in self._tokenizer([self._worded(t) for t in texts], verbose=False)["input_ids"]]
        new = {t: None for t, n in zip(texts, lengths, strict=True) if n > self._limit and t not in self._cut}
        self._cut |= new
        if new:
            warnings.warn(self._told(new), stacklevel=3)

    def _worded(self, text: str) -> str:
        return text.lower() if self._siglip else text

    def summary(self) -> Sequence[str]:
        return [self._told(self._cut)] if self._cut else []

    def _told(self, cut: Mapping[str, None]) -> str:
        return (
            f"{len(cut)} text(s) were cut to the {self._limit} tokens the model reads; their vectors do not know how "
            f"they end. The first: {next(iter(cut))!r}"
        )


def _load_tokenizer(transformers: Any, source: str, hub: Mapping[str, Any]) -> Any:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **hub)
    except ImportError as err:
        raise UsageError(
            f"the tokenizer of {source!r} needs a library that is not installed. Checkpoints of the first SigLIP need "
            f"pip install sentencepiece. It says: {' '.join(str(err).split())[:200]}"
        ) from err
    except (OSError, ValueError) as err:
        raise UsageError(
            f"cannot load the tokenizer of {source!r}: expected tokenizer.json, or the files its kind has, beside the "
            f"weights. It says: {' '.join(str(err).split())[:400]}"
        ) from err
    # Where the files are missing, transformers may make a tokenizer to which every word is unknown, and says nothing.
    if len(tokenizer) <= len(set(tokenizer.all_special_tokens)):
        raise UsageError(
            f"cannot load the tokenizer of {source!r}: it knows no words. Put tokenizer.json, or the vocabulary files "
            "of its kind, beside the weights."
        )
    return tokenizer


def _rows(output: Any) -> list[Vectors]:
    """The vectors of a batch, float32, from a tensor or from the record recent versions of ``transformers`` give."""
    vectors = getattr(output, "pooler_output", output)
    if getattr(vectors, "ndim", None) != 2:
        raise UsageError(
            "this model gives several vectors per image or text, which cannot be compared by a cosine; name a "
            f"CLIP-like model, such as {', '.join(PRESETS)}"
        )
    return list(vectors.float().cpu().numpy())
