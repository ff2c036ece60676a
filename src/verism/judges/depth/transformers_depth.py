"""Depth estimators from the Hugging Face hub or a local folder: DPT, Depth Anything, ZoeDepth, GLPN and others.

verism run compbench --images DIR --depth Intel/dpt-hybrid-midas
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import (
    EXTRA,
    Batches,
    check_choice,
    judge_name,
    normalised,
    pick_device,
    pick_dtype,
    resized,
)
from verism.judges.depth.maps import Larger, depth_table
from verism.judges.hub import HubOptions, identity, load_config, load_image_processor, load_model, source_name
from verism.records import DepthNeed

if TYPE_CHECKING:
    import polars as pl
    import torch

    from verism.records import LoadedImage

__all__ = ["TransformersDepth"]

Preparation = Literal["model", "released"]
RELEASED_PX = 480
RELEASED_MEAN = RELEASED_STD = (0.5, 0.5, 0.5)
DISTANCES = ("glpn", "zoedepth")  # families whose numbers are metres; others give inverse depth


class TransformersDepth:
    """A depth estimator loaded with ``transformers``.

    Args:
        id_or_path: model id on the Hugging Face Hub, or a folder with ``config.json`` and weights.
        preprocessing: image preprocessing. ``model``: the checkpoint's own. ``released``: 480 x 480 pixels, aspect
            ratio ignored, bicubic, scaled to [-1, 1], as T2I-CompBench++ does for MiDaS's DPT.
        larger: meaning of larger model outputs. ``auto``: ``far`` for models of metric distances (GLPN, ZoeDepth,
            metric Depth Anything), else ``near``.
        hub: which edition of the model, and how it is run.
    Raises:
        UsageError: no such model, no depth estimator, or incomplete weights.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = DepthNeed.role

    def __init__(
        self,
        id_or_path: str,
        *,
        preprocessing: Preparation = "model",
        larger: Literal["auto", "near", "far"] = "auto",
        hub: HubOptions = HubOptions(batch_size=4),
    ) -> None:
        check_choice("preprocessing", preprocessing, ("model", "released"))
        check_choice("larger", larger, ("auto", "near", "far"))
        where = hub.where(id_or_path)
        transformers = require("transformers", extra=EXTRA, purpose="a depth estimator from the Hugging Face hub")
        from transformers.models.auto import modeling_auto

        self._device = pick_device(hub.device)
        self._dtype = pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        config = load_config(id_or_path, where)
        if config.model_type not in modeling_auto.MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES:
            raise UsageError(
                f"{id_or_path!r} is a model of type {config.model_type!r}, which estimates no depth. Wanted is, for "
                "example, DPT (Intel/dpt-hybrid-midas) or Depth Anything."
            )
        metric = config.model_type in DISTANCES or getattr(config, "depth_estimation_type", "") == "metric"
        self._larger: Larger = ("far" if metric else "near") if larger == "auto" else larger
        self._model = load_model(transformers.AutoModelForDepthEstimation, id_or_path, where, self._dtype, self._device)
        own = preprocessing == "model"
        self._processor = load_image_processor(id_or_path, config, where) if own else None
        self.name = judge_name(
            "depth",
            source_name(id_or_path),
            identity(self._model, id_or_path),
            preprocessing=preprocessing,
            larger=self._larger,
            dtype=hub.named_dtype,
        )

    def observe(self, images: Sequence[LoadedImage], need: DepthNeed) -> pl.DataFrame:
        """The depth maps of images of any sizes, as table ``depths``.

        Raises:
            VerismError: a map that holds numbers that are not finite.
        """
        del need

        def step(_: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[np.ndarray]:
            output = self._model(pixel_values=inputs["pixel_values"].to(self._dtype))
            return list(output.predicted_depth.float().cpu().numpy())

        maps = self._batches.run(images, self._prepare, step)
        if self._larger == "far":  # a head may give 0 where it knows nothing
            maps = [np.maximum(values, 1e-6) for values in maps]
        return depth_table([image.image_id for image in images], maps, self.name, self._larger)

    def _prepare(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        import torch

        if self._processor is not None:
            from PIL import Image

            shown = Image.fromarray(np.ascontiguousarray(image.pixels))
            return {"pixel_values": self._processor(images=[shown], return_tensors="pt")["pixel_values"][0]}
        from PIL import Image

        bicubic = int(Image.Resampling.BICUBIC)
        pixels = resized(image.pixels, width=RELEASED_PX, height=RELEASED_PX, resample=bicubic)
        return {"pixel_values": torch.from_numpy(normalised(pixels, mean=RELEASED_MEAN, std=RELEASED_STD))}
