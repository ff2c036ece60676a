"""Detectors with a fixed set of classes from the Hugging Face hub or a local folder.

DETR, Conditional and Deformable DETR, YOLOS, RT-DETR, D-FINE, RF-DETR, LW-DETR and whatever else the installed
``transformers`` loads as an object detector; and Mask2Former and MaskFormer, whose boxes are drawn around their masks::

    verism run paintskills --images DIR --detector transformers:PekingU/rtdetr_r50vd

Every query is reported with the raw confidence of every class; thresholds belong to a suite's rules. Images are
prepared with Pillow and NumPy alone: ``torchvision`` is neither needed nor used, so results do not depend on it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import (
    EXTRA,
    Batches,
    Preprocessing,
    check_choice,
    judge_name,
    pick_device,
    pick_dtype,
    released_input,
)
from verism.judges.detection.boxes import ImageBoxes, corners, detection_table
from verism.judges.detection.names import map_labels, missing_lines
from verism.judges.hub import HubOptions, identity, load_config, load_image_processor, load_model, source_name
from verism.options import Spelling
from verism.records import DetectionNeed

if TYPE_CHECKING:
    import polars as pl
    import torch

    from verism.records import LoadedImage

__all__ = ["TransformersDetector", "class_probabilities", "mask_boxes"]

_MASK_MODELS = ("mask2former", "maskformer")
_QUERIES_AT_ONCE = 16  # masks enlarged at a time: 16 of 1333 x 800 pixels take 68 MB


class TransformersDetector:
    """A detector with a fixed set of classes, loaded with ``transformers``.

    Args:
        id_or_path: model id on the Hugging Face Hub, or a folder with ``config.json``, weights and
            ``preprocessor_config.json``.
        preprocessing: image preprocessing. ``model``: the checkpoint's own. ``released``: that of the released
            PaintSkills evaluation (exactly 800 x 800 pixels, aspect ratio ignored).
        min_score: lowest confidence of a kept box, in [0, 1]; the released rules need 0, which keeps all.
        aliases: maps a class name of the detector to a class of the suite: ``alias.bike=bicycle``. Common synonyms are
            known.
        hub: which edition of the model, and how it is run.
    Raises:
        UsageError: no such model, no detector, incomplete weights, or preprocessing that needs ``torchvision``.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = DetectionNeed.role

    def __init__(
        self,
        id_or_path: str,
        *,
        preprocessing: Preprocessing = "model",
        min_score: float = 0.0,
        aliases: Annotated[Mapping[str, str] | None, Spelling("alias")] = None,
        hub: HubOptions = HubOptions(),
    ) -> None:
        check_choice("preprocessing", preprocessing, ("model", "released"))
        where = hub.where(id_or_path)
        transformers = require("transformers", extra=EXTRA, purpose="a detector from the Hugging Face hub")
        from transformers.models.auto import modeling_auto

        self._device = pick_device(hub.device)
        self._dtype = pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        self._aliases = dict(aliases or {})
        self._min_score = min_score

        config = load_config(id_or_path, where)
        if config.model_type in modeling_auto.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES:
            loader = transformers.AutoModelForObjectDetection
        elif config.model_type in _MASK_MODELS:
            loader = transformers.AutoModelForUniversalSegmentation
        elif config.model_type in modeling_auto.MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES:
            raise UsageError(
                f"{id_or_path!r} ({config.model_type}) finds classes by their text; use open-vocabulary:{id_or_path}"
            )
        else:
            raise UsageError(f"{id_or_path!r} is a model of type {config.model_type!r}, which is no object detector")
        self._model = load_model(loader, id_or_path, where, self._dtype, self._device)
        self._accepts_mask = "pixel_mask" in inspect.signature(self._model.forward).parameters
        self._missing: tuple[Sequence[str], Sequence[str]] = ((), ())
        self._labels: dict[int, str] = {int(i): str(label) for i, label in self._model.config.id2label.items()}
        self._prepare_pixels = (
            _released_inputs if preprocessing == "released" else _ModelInputs(id_or_path, config, where)
        )
        self.name = judge_name(
            "transformers",
            source_name(id_or_path),
            identity(self._model, id_or_path),
            preprocessing=preprocessing,
            dtype=hub.named_dtype,
            min_score=min_score or None,
            aliases=",".join(f"{a}={b}" for a, b in sorted(self._aliases.items())) or None,
        )

    def check(self, need: DetectionNeed) -> None:
        """Raise UsageError if a class of the need has no counterpart among the detector's classes, or two share one."""
        found = map_labels(self._labels, need.classes, self._aliases, partial=need.partial)
        self._missing = (found.missing, need.classes)

    def summary(self) -> Sequence[str]:
        """After a run: classes that the detector does not have."""
        return missing_lines(*self._missing)

    def observe(self, images: Sequence[LoadedImage], need: DetectionNeed) -> pl.DataFrame:
        """All queries of all images, as table ``detections``; colours are not judged.

        Raises:
            UsageError: a class of the need has no counterpart among the detector's classes, or two share one.
        """
        label_map = map_labels(self._labels, need.classes, self._aliases, partial=need.partial)

        def step(images: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[ImageBoxes]:
            output = self._model(**{**inputs, "pixel_values": inputs["pixel_values"].to(self._dtype)})
            masks = hasattr(output, "masks_queries_logits")
            logits = output.class_queries_logits if masks else output.logits
            focal = bool(getattr(self._model.config, "use_focal_loss", True))
            scores = class_probabilities(logits.float(), n_labels=len(self._labels), focal=focal).cpu().numpy()
            results = []
            for i, image in enumerate(images):
                height, width = image.pixels.shape[:2]
                queries = None
                of_image = scores[i]
                if masks:
                    boxes, queries = self._mask_boxes(output.masks_queries_logits[i], inputs, i, width, height)
                    of_image = of_image[queries]
                else:
                    boxes = corners(output.pred_boxes[i].float().cpu().numpy(), width=width, height=height)
                best = of_image.argmax(axis=1)
                results.append(
                    ImageBoxes(
                        image_id=image.image_id,
                        width=width,
                        height=height,
                        boxes=boxes,
                        class_scores=label_map.class_scores(of_image),
                        labels=label_map.suite_index(best),
                        raw_labels=[self._labels[int(k)] for k in best],
                        scores=of_image[np.arange(len(best)), best],
                        queries=queries,
                    )
                )
            return results

        boxes_of_images = self._batches.run(images, self._inputs, step)
        return detection_table(boxes_of_images, judge=self.name, need=need, min_score=self._min_score)

    def _inputs(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        inputs = self._prepare_pixels(image.pixels)
        return {name: value for name, value in inputs.items() if name == "pixel_values" or self._accepts_mask}

    @staticmethod
    def _mask_boxes(
        logits: torch.Tensor, inputs: Mapping[str, torch.Tensor], i: int, width: int, height: int
    ) -> tuple[np.ndarray, np.ndarray]:
        padded = inputs["pixel_values"].shape[-2:]
        valid = (padded[0], padded[1])
        if "pixel_mask" in inputs:
            mask = inputs["pixel_mask"][i].bool()
            valid = (int(mask.any(dim=1).sum()), int(mask.any(dim=0).sum()))
        return mask_boxes(logits, padded=(padded[0], padded[1]), valid=valid, width=width, height=height)


def class_probabilities(logits: torch.Tensor, *, n_labels: int, focal: bool = True) -> torch.Tensor:
    """Confidence of every class from a detector's class logits, as the kind of its head asks.

    One column more than classes: a softmax whose last class is "no object" (DETR, YOLOS, Mask2Former). That column is
    dropped *without* renormalising: a query that sees nothing has small confidences, as the released PaintSkills rules
    expect. As many columns as classes: independent sigmoids (Deformable DETR, RT-DETR, D-FINE, RF-DETR ...), or, where
    the configuration says ``use_focal_loss=False``, a softmax whose last class is unused.

    Args:
        logits: shape (..., L + 1) or (..., L).
        n_labels: L.
        focal: the configuration's ``use_focal_loss``.
    Returns:
        In [0, 1], shape (..., L).
    """
    columns = logits.shape[-1]
    if columns == n_labels + 1:
        return logits.softmax(-1)[..., :-1]
    if columns != n_labels:
        raise UsageError(
            f"the detector's head has {columns} columns and its configuration {n_labels} class names; there must be as "
            "many, or one more for 'no object'. Correct id2label in config.json."
        )
    if focal:
        return logits.sigmoid()
    probabilities = logits.softmax(-1).clone()
    probabilities[..., -1] = 0
    return probabilities


def mask_boxes(
    logits: torch.Tensor, *, padded: tuple[int, int], valid: tuple[int, int], width: int, height: int
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes around masks: the pixels whose probability exceeds one half.

    Args:
        logits: one mask per query, at the network's own resolution, shape (Q, h, w).
        padded: height and width of the network's input, in pixels.
        valid: height and width of its upper left part that holds the image, in pixels.
        width: of the image, in pixels.
        height: of the image, in pixels.
    Returns:
        Boxes in pixels, shape (N, 4), and the numbers of the queries they belong to, shape (N,); queries whose mask is
        empty have no box.
    """
    import torch

    spans = []
    for part in torch.split(logits.float(), _QUERIES_AT_ONCE):
        large = torch.nn.functional.interpolate(part[None], size=padded, mode="bilinear", align_corners=False)[0]
        inside = large[:, : valid[0], : valid[1]] > 0  # a logit of 0 is a probability of one half
        for dim in (1, 2):  # columns, then rows, in which the mask has any pixel
            line = inside.any(dim=dim)
            first = line.int().argmax(dim=1)
            last = line.shape[1] - line.flip(1).int().argmax(dim=1)
            spans.append(torch.stack([first, last, line.any(dim=1).int()], dim=1))
    columns, rows = torch.cat(spans[0::2]).cpu().numpy(), torch.cat(spans[1::2]).cpu().numpy()
    queries = np.flatnonzero(columns[:, 2])
    boxes = np.stack([columns[:, 0], rows[:, 0], columns[:, 1], rows[:, 1]], axis=1)[queries].astype(np.float32)
    scale = np.array([width / valid[1], height / valid[0]] * 2, dtype=np.float32)
    return boxes * scale, queries


# --------------------------------------------------------------------------------------------------------------------
# Preprocessing
# --------------------------------------------------------------------------------------------------------------------
def _released_inputs(pixels: np.ndarray) -> dict[str, torch.Tensor]:
    import torch

    return {"pixel_values": torch.from_numpy(released_input(pixels))}


class _ModelInputs:
    """An image as the checkpoint's own image processor prepares it, in its Pillow edition, or ours if it has none."""

    def __init__(self, id_or_path: str, config: Any, hub: Mapping[str, Any]) -> None:
        self._processor = load_image_processor(id_or_path, config, hub)

    def __call__(self, pixels: np.ndarray) -> dict[str, torch.Tensor]:
        from PIL import Image

        # As a Pillow image: from an array, an image three pixels high would be taken for channels first.
        batch = self._processor(images=[Image.fromarray(np.ascontiguousarray(pixels))], return_tensors="pt")
        return {name: batch[name][0] for name in ("pixel_values", "pixel_mask") if name in batch}


# --------------------------------------------------------------------------------------------------------------------
# Loading
# --------------------------------------------------------------------------------------------------------------------
