"""Features of CLIP and DINOv2 models from the Hugging Face hub or a local folder, by ``transformers``.

::

    verism run geography --images G --reference R --features dinov2:facebook/dinov2-large
    verism run quality --images G --reference R --features "clip:ViT-L/14?preprocessing=squash"

Source: Radford et al. 2021, arXiv:2103.00020 (CLIP); Oquab et al. 2023, arXiv:2304.07193 (DINOv2); Stein et al. 2023,
arXiv:2306.04675, for DINOv2's features in set metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, require
from verism.judges.batching import (
    EXTRA,
    Batches,
    check_choice,
    judge_name,
    pick_device,
    pick_dtype,
)
from verism.judges.embedding.clip import PRESETS, Preprocessing
from verism.judges.features.judge import FeatureJudge
from verism.judges.hub import (
    HubOptions,
    WholeImage,
    identity,
    load_config,
    load_image_processor,
    load_model,
    source_name,
)

if TYPE_CHECKING:
    import torch

    from verism.records import LoadedImage

__all__ = ["TransformersFeatures", "clip_features", "dinov2_features"]

ClipLayer = Literal["projection", "pooled"]
Dinov2Layer = Literal["cls", "patches"]


def clip_features(
    id_or_path: str,
    *,
    layer: ClipLayer = "projection",
    preprocessing: Preprocessing = "model",
    hub: HubOptions = HubOptions(batch_size=32),
    cache: Path | None = None,
) -> TransformersFeatures:
    """Features of a CLIP-like model.

    Args:
        id_or_path: model id on the Hugging Face Hub, a folder with ``config.json``, weights and preprocessing settings,
            or a name such as ``ViT-B/32``.
        layer: layer of the features. ``projection``: the embedding shared with texts. ``pooled``: the vector before the
            projection.
        preprocessing: image preprocessing. ``model``: the checkpoint's own; most crop the longer side. ``squash``: the
            whole image, resized to the model's square, aspect ratio ignored.
        hub: which edition of the model, and how it is run.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only.
    Raises:
        UsageError, MissingExtra: as ``TransformersFeatures``.
    """
    source = PRESETS.get(id_or_path, id_or_path)
    return TransformersFeatures("clip", source, layer=layer, preprocessing=preprocessing, hub=hub, cache=cache)


def dinov2_features(
    id_or_path: str,
    *,
    layer: Dinov2Layer = "cls",
    preprocessing: Preprocessing = "model",
    hub: HubOptions = HubOptions(batch_size=32),
    cache: Path | None = None,
) -> TransformersFeatures:
    """Features of a DINOv2.

    Args:
        id_or_path: model id on the Hugging Face Hub, such as ``facebook/dinov2-large``, or a folder with
            ``config.json``, weights and preprocessing settings.
        layer: layer of the features. ``cls``: the class token after the last normalisation. ``patches``: the mean of
            the patch tokens.
        preprocessing: image preprocessing. ``model``: the checkpoint's own; most crop the longer side. ``squash``: the
            whole image, resized to the model's square, aspect ratio ignored.
        hub: which edition of the model, and how it is run.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only.
    Raises:
        UsageError, MissingExtra: as ``TransformersFeatures``.
    """
    return TransformersFeatures("dinov2", id_or_path, layer=layer, preprocessing=preprocessing, hub=hub, cache=cache)


class TransformersFeatures(FeatureJudge):
    """A feature judge with a model loaded by ``transformers``; made by ``clip_features`` and ``dinov2_features``.

    Args:
        kind: ``clip`` or ``dinov2``.
        id_or_path: repository on the hub, or a folder with ``config.json``, weights and preprocessing settings.
        layer: what is taken as features.
        preprocessing: how an image becomes the network's input.
        hub: which edition of the model, and how it is run.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only.
    Raises:
        UsageError: no such model, one of another kind, incomplete weights, or an unknown option.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    def __init__(
        self,
        kind: Literal["clip", "dinov2"],
        id_or_path: str,
        *,
        layer: ClipLayer | Dinov2Layer,
        preprocessing: Preprocessing,
        hub: HubOptions,
        cache: Path | None,
    ) -> None:
        check_choice("layer", layer, get_args(ClipLayer if kind == "clip" else Dinov2Layer))
        check_choice("preprocessing", preprocessing, get_args(Preprocessing))
        self._layer = layer
        where = hub.where(id_or_path)
        transformers = require("transformers", extra=EXTRA, purpose=f"features of {kind}:{id_or_path}")
        self._device = pick_device(hub.device)
        self._dtype = pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)

        config = load_config(id_or_path, where)
        if kind == "dinov2" and not str(config.model_type).startswith("dino"):
            raise UsageError(
                f"{id_or_path!r} is a model of type {config.model_type!r}, not a DINOv2; CLIP-like models are named "
                f"clip:{id_or_path}"
            )
        self._model = load_model(transformers.AutoModel, id_or_path, where, self._dtype, self._device)
        if kind == "clip" and not (hasattr(self._model, "get_image_features") and hasattr(self._model, "vision_model")):
            raise UsageError(
                f"{id_or_path!r} is a model of type {config.model_type!r}, which has no vectors of images in a space "
                f"shared with texts. Name a CLIP-like model, such as {', '.join(PRESETS)}; a DINOv2 is named "
                f"dinov2:{id_or_path}"
            )
        # Before the patches come the class token and, in newer models, registers that stand for no place.
        self._leading = 1 + int(getattr(config, "num_register_tokens", 0) or 0)
        self._images = WholeImage(load_image_processor(id_or_path, config, where), squash=preprocessing == "squash")
        weights = identity(self._model, id_or_path)
        super().__init__(
            name=judge_name(
                kind,
                source_name(id_or_path),
                weights,
                preprocessing=preprocessing,
                layer=self._layer,
                dtype=hub.named_dtype,
            ),
            dim=self._width(config),
            compute=self._look,
            # Where the weights could not be told, another run's vectors may be those of others.
            cache=None if weights == "unknown" else cache,
        )

    def _width(self, config: Any) -> int:
        vision = getattr(config, "vision_config", config)
        projected = getattr(config, "projection_dim", None)
        return int(projected if self._layer == "projection" and projected else vision.hidden_size)

    def _look(self, images: Sequence[LoadedImage]) -> NDArray[np.float32]:
        return np.stack(self._batches.run(images, self._inputs, self._step))

    def _inputs(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        return {"pixel_values": self._images.prepare(image.pixels)["pixel_values"]}

    def _step(self, _: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> Sequence[NDArray[np.float32]]:
        pixels = inputs["pixel_values"].to(self._dtype)
        if self._layer == "projection":
            output = self._model.get_image_features(pixel_values=pixels)
            # Recent versions of transformers wrap the vectors in a record.
            result = getattr(output, "pooler_output", output)
        elif self._layer == "pooled":
            result = self._model.vision_model(pixel_values=pixels).pooler_output
        elif self._layer == "cls":
            result = self._model(pixel_values=pixels).last_hidden_state[:, 0]
        else:
            result = self._model(pixel_values=pixels).last_hidden_state[:, self._leading :].mean(dim=1)
        return list(result.float().cpu().numpy())
