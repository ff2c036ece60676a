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
from typing import TYPE_CHECKING, Any

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
    resized,
)
from verism.judges.embedding.clip import PRESETS
from verism.judges.features.judge import FeatureJudge
from verism.judges.hub import identity, load_config, load_image_processor, load_model, source_name

if TYPE_CHECKING:
    import torch

    from verism.records import LoadedImage

__all__ = ["LAYERS", "HubFeatures", "clip_features", "dinov2_features"]

LAYERS: Mapping[str, tuple[str, ...]] = {"clip": ("projection", "pooled"), "dinov2": ("cls", "patches")}
"""What is taken as features, the usual choice first.

CLIP: the vector in the space shared with texts, or the one before the projection into it. DINOv2: the class token after
the last normalisation, or the mean of the patches' tokens.
"""


def clip_features(id_or_path: str, **options: Any) -> HubFeatures:
    """Features of a CLIP-like model: a repository, a folder, or a name such as ``ViT-B/32``.

    Args:
        options: of ``HubFeatures``.
    """
    return HubFeatures("clip", PRESETS.get(id_or_path, id_or_path), **options)


def dinov2_features(id_or_path: str, **options: Any) -> HubFeatures:
    """Features of a DINOv2: a repository such as ``facebook/dinov2-large``, or a folder.

    Args:
        options: of ``HubFeatures``.
    """
    return HubFeatures("dinov2", id_or_path, **options)


class HubFeatures(FeatureJudge):
    """A feature judge with a model loaded by ``transformers``.

    Args:
        kind: ``clip`` or ``dinov2``.
        id_or_path: repository on the hub, or a folder with ``config.json``, weights and preprocessing settings.
        layer: one of ``LAYERS[kind]``; None: the first.
        preprocessing: ``model``: as the checkpoint's own processor does; most cut the longer side. ``squash``: the
            whole picture, brought to the model's square with its aspect ignored.
        revision: branch, tag or commit on the hub.
        device: ``cuda``, ``cpu`` ...; the GPU if there is one.
        dtype: ``float32``, ``float16`` or ``bfloat16``.
        batch_size: pictures at once; halved when the GPU's memory runs out. Vectors do not depend on it.
        local_files_only: never ask the hub.
        cache: folder where vectors are kept between runs; None: while the judge lives.
    Raises:
        UsageError: no such model, one of another kind, incomplete weights, or an unknown option.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    def __init__(
        self,
        kind: str,
        id_or_path: str,
        *,
        layer: str | None = None,
        preprocessing: str = "model",
        revision: str | None = None,
        device: str | None = None,
        dtype: str = "float32",
        batch_size: int = 32,
        local_files_only: bool = False,
        cache: Path | None = None,
    ) -> None:
        self._layer = layer or LAYERS[kind][0]
        check_choice("layer", self._layer, LAYERS[kind])
        check_choice("preprocessing", preprocessing, ("model", "squash"))
        transformers = require("transformers", extra=EXTRA, purpose=f"features of {kind}:{id_or_path}")
        self._device = pick_device(device)
        self._dtype = pick_dtype(dtype)
        self._batches = Batches(batch_size, self._device)
        hub = {"revision": revision, "local_files_only": local_files_only}

        config = load_config(id_or_path, hub)
        if kind == "dinov2" and not str(config.model_type).startswith("dino"):
            raise UsageError(
                f"{id_or_path!r} is a model of type {config.model_type!r}, not a DINOv2; CLIP-like models are named "
                f"clip:{id_or_path}"
            )
        self._model = load_model(transformers.AutoModel, id_or_path, hub, self._dtype, self._device)
        if kind == "clip" and not (hasattr(self._model, "get_image_features") and hasattr(self._model, "vision_model")):
            raise UsageError(
                f"{id_or_path!r} is a model of type {config.model_type!r}, which has no vectors of pictures in a space "
                f"shared with texts. Name a CLIP-like model, such as {', '.join(PRESETS)}; a DINOv2 is named "
                f"dinov2:{id_or_path}"
            )
        # Before the patches come the class token and, in newer models, registers that stand for no place.
        self._leading = 1 + int(getattr(config, "num_register_tokens", 0) or 0)
        self._processor = load_image_processor(id_or_path, config, hub)
        self._side = _input_size(self._processor) if preprocessing == "squash" else None
        weights = identity(self._model, id_or_path)
        super().__init__(
            name=judge_name(
                kind,
                source_name(id_or_path),
                weights,
                preprocessing=preprocessing,
                layer=self._layer,
                dtype=None if dtype == "float32" else dtype,
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
        from PIL import Image

        pixels = image.pixels
        steps: dict[str, bool] = {}
        if self._side is not None:
            resample = getattr(self._processor, "resample", None)
            pixels = resized(pixels, width=self._side[0], height=self._side[1], resample=resample)
            # Many processors would enlarge this again before they cut it: DINOv2's makes 256 of 224.
            steps = {"do_resize": False, "do_center_crop": False}
        # As a Pillow picture: from an array, a picture three pixels high would be taken for channels first.
        picture = Image.fromarray(np.ascontiguousarray(pixels))
        batch = self._processor(images=[picture], return_tensors="pt", **steps)
        return {"pixel_values": batch["pixel_values"][0]}

    def _step(self, _: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> Sequence[NDArray[np.float32]]:
        pixels = inputs["pixel_values"].to(self._dtype)
        if self._layer == "projection":
            output = self._model.get_image_features(pixel_values=pixels)
            # Recent versions of transformers wrap the vectors in a record.
            found = getattr(output, "pooler_output", output)
        elif self._layer == "pooled":
            found = self._model.vision_model(pixel_values=pixels).pooler_output
        elif self._layer == "cls":
            found = self._model(pixel_values=pixels).last_hidden_state[:, 0]
        else:
            found = self._model(pixel_values=pixels).last_hidden_state[:, self._leading :].mean(dim=1)
        return list(found.float().cpu().numpy())


def _input_size(processor: Any) -> tuple[int, int]:
    """Width and height of what a processor makes of every picture."""
    of = "crop_size" if getattr(processor, "do_center_crop", False) else "size"
    size = getattr(processor, of, None)
    height, width = getattr(size, "height", None), getattr(size, "width", None)
    if not height or not width:
        raise UsageError(
            "preprocessing=squash needs a model that takes pictures of one size, and this one's settings name none "
            f"({of}={size}). Use preprocessing=model."
        )
    return int(width), int(height)
