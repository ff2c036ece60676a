"""Instance segmenters from the Hugging Face hub or a local folder: Mask2Former, MaskFormer, DETR with masks.

What comes after the network is written out here, as the evaluation code of GenEval has it from mmdet 2.27, because the
library's own post-processing does something else (another threshold, masks enlarged by nearest neighbours, one class
for each query, pixels that two objects share given to one)::

    verism run geneval --images DIR --segmenter transformers:facebook/mask2former-swin-small-coco-instance

The released way of preparing images is the default (``preprocessing=released``): both sides enlarged or reduced to fit
1333 x 800, bilinear, filled up with grey to multiples of 32. ``preprocessing=model`` does what the checkpoint's own
image processor does (many square everything to 384 x 384).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import (
    EXTRA,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Batches,
    check_choice,
    judge_name,
    normalised,
    pick_device,
    pick_dtype,
)
from verism.judges.detection.names import LabelMap, map_labels
from verism.judges.hub import HubOptions, identity, load_config, load_image_processor, load_model, source_name
from verism.judges.segmentation.objects import FoundObject, segment_table
from verism.options import Spelling
from verism.records import SegmentationNeed

if TYPE_CHECKING:
    import polars as pl
    import torch

    from verism.records import LoadedImage

__all__ = ["TransformersSegmenter", "best_pairs", "full_size_logits", "mask_quality", "released_size", "tight_box"]

Preparation = Literal["released", "model"]
LONG_EDGE_PX, SHORT_EDGE_PX, MULTIPLE_PX = 1333, 800, 32
FILLING = 128  # grey of the filling, before normalisation
PAIRS = 100  # (query, class) pairs of an image that are kept
MASKS_AT_ONCE = 8  # enlarged to the image's size at a time: 8 of 1024 x 1024 pixels take 32 MB
# Others are told their task in words (OneFormer), or cut and fill images in ways of their own (EoMT).
SUPPORTED = ("mask2former", "maskformer", "detr")


class TransformersSegmenter:
    """A segmenter with a fixed set of classes, loaded with ``transformers``.

    Args:
        id_or_path: model id on the Hugging Face Hub, or a folder with ``config.json`` and weights.
        preprocessing: image preprocessing. ``released``: resized to fit 1333 x 800 pixels, as for GenEval's detector.
            ``model``: the checkpoint's own.
        min_score: lowest confidence of a kept object, in [0, 1]. Thresholds of rules cannot go below it.
        pairs: number of (query, class) pairs per image to examine, the most probable first.
        aliases: maps a class name of the segmenter to a class of the suite: ``alias.bike=bicycle``. Common synonyms are
            known.
        hub: which edition of the model, and how it is run.
    Raises:
        UsageError: no such model, no segmenter, or incomplete weights.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = SegmentationNeed.role

    def __init__(
        self,
        id_or_path: str,
        *,
        preprocessing: Preparation = "released",
        min_score: float = 0.3,
        pairs: int = PAIRS,
        aliases: Annotated[Mapping[str, str] | None, Spelling("alias")] = None,
        hub: HubOptions = HubOptions(batch_size=1),
    ) -> None:
        check_choice("preprocessing", preprocessing, ("released", "model"))
        where = hub.where(id_or_path)
        transformers = require("transformers", extra=EXTRA, purpose="a segmenter from the Hugging Face hub")
        from transformers.models.auto import modeling_auto

        if pairs < 1:
            raise UsageError(f"pairs must be at least 1, not {pairs}")
        if not 0 <= min_score <= 1:
            raise UsageError(f"min_score lies between 0 and 1, not at {min_score}")
        self._device = pick_device(hub.device)
        self._dtype = pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        self._min_score, self._pairs, self._aliases = min_score, pairs, dict(aliases or {})
        config = load_config(id_or_path, where)
        if config.model_type not in SUPPORTED:
            hint = (
                f"; for its boxes alone use boxes:{id_or_path}"
                if config.model_type in modeling_auto.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES
                else ""
            )
            raise UsageError(
                f"{id_or_path!r} is a model of type {config.model_type!r}, which gives no masks of objects here{hint}. "
                f"There are {', '.join(SUPPORTED)}."
            )
        loader = transformers.AutoModelForUniversalSegmentation
        self._model = load_model(loader, id_or_path, where, self._dtype, self._device)
        self._labels: dict[int, str] = {int(i): str(label) for i, label in self._model.config.id2label.items()}
        own = preprocessing == "model"
        self._processor = load_image_processor(id_or_path, config, where) if own else None
        self.name = judge_name(
            "segmenter",
            source_name(id_or_path),
            identity(self._model, id_or_path),
            preprocessing=preprocessing,
            dtype=hub.named_dtype,
            min_score=min_score,
            pairs=None if pairs == PAIRS else pairs,
            aliases=",".join(f"{a}={b}" for a, b in sorted(self._aliases.items())) or None,
        )

    def check(self, need: SegmentationNeed) -> None:
        """Raise UsageError if a class of the need has no counterpart among the segmenter's, or two share one."""
        map_labels(self._labels, need.classes, self._aliases)

    def observe(self, images: Sequence[LoadedImage], need: SegmentationNeed) -> pl.DataFrame:
        """The objects of images of any sizes, as table ``segments``.

        Raises:
            UsageError: as ``check``.
        """
        label_map = map_labels(self._labels, need.classes, self._aliases)

        def step(shown: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[list[FoundObject]]:
            output = self._model(pixel_values=inputs["pixel_values"].to(self._dtype))
            classes = getattr(output, "class_queries_logits", None)
            masks = getattr(output, "masks_queries_logits", None)
            if classes is None:  # DETR with masks
                classes, masks = output.logits, output.pred_masks
            assert masks is not None
            padded = (inputs["pixel_values"].shape[-2], inputs["pixel_values"].shape[-1])
            return [
                self._objects(classes[i], masks[i], padded, inputs["valid"][i], image.pixels.shape[:2], label_map, need)
                for i, image in enumerate(shown)
            ]

        found = self._batches.run(images, self._prepare, step)
        return segment_table(images, found, self.name, need)

    def _prepare(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        """The network's input, and height and width of its upper left part that holds the image."""
        import torch

        if self._processor is not None:
            from PIL import Image

            shown = Image.fromarray(np.ascontiguousarray(image.pixels))
            batch = self._processor(images=[shown], return_tensors="pt")
            pixels = batch["pixel_values"][0]
            valid = torch.tensor(pixels.shape[-2:])
            if "pixel_mask" in batch:
                mask = batch["pixel_mask"][0].bool()
                valid = torch.stack([mask.any(dim=1).sum(), mask.any(dim=0).sum()])
            return {"pixel_values": pixels, "valid": valid}
        height, width = image.pixels.shape[:2]
        new_height, new_width = released_size(height, width)
        values = torch.from_numpy(np.ascontiguousarray(image.pixels.transpose(2, 0, 1))).float()[None]
        if (new_height, new_width) != (height, width):
            size = (new_height, new_width)
            values = torch.nn.functional.interpolate(values, size=size, mode="bilinear", align_corners=False)
            values = values.round()  # the released code resizes 8-bit numbers
        down, across = -new_height % MULTIPLE_PX, -new_width % MULTIPLE_PX
        values = torch.nn.functional.pad(values, (0, across, 0, down), value=float(FILLING))
        pixels = normalised(values[0].permute(1, 2, 0).numpy(), mean=IMAGENET_MEAN, std=IMAGENET_STD)
        return {"pixel_values": torch.from_numpy(pixels), "valid": torch.tensor([new_height, new_width])}

    def _objects(
        self,
        classes: torch.Tensor,
        masks: torch.Tensor,
        padded: tuple[int, int],
        valid: torch.Tensor,
        size: Sequence[int],
        label_map: LabelMap,
        need: SegmentationNeed,
    ) -> list[FoundObject]:
        """The objects of one image.

        Args:
            classes: logits by query and class, shape (Q, L + 1).
            masks: logits by query, shape (Q, h, w).
            padded: height and width of the network's input.
            valid: height and width of the part that holds the image.
            size: height and width of the image.
            label_map: the need's classes by those of the network.
            need: what is asked.
        """
        numbers = best_pairs(classes, len(self._labels), self._pairs)
        kept = [(p, q, c) for p, q, c in numbers if p >= self._min_score]  # the quality of a mask is 1 at most
        queries = list(dict.fromkeys(q for _, q, _ in kept))
        known: dict[int, tuple[np.ndarray, float]] = {}
        part = (int(valid[0]), int(valid[1]))
        for start in range(0, len(queries), MASKS_AT_ONCE):
            some = queries[start : start + MASKS_AT_ONCE]
            large = full_size_logits(masks[some].float(), padded, part, (int(size[0]), int(size[1])))
            quality = mask_quality(large)
            inside = (large > 0).cpu().numpy()
            known |= {q: (inside[k], float(quality[k])) for k, q in enumerate(some)}
        objects = []
        for probability, query, number in kept:
            mask, quality_of = known[query]
            score = probability * quality_of
            if score < self._min_score:
                continue
            index = int(label_map.suite_index(np.array([number]))[0])
            objects.append(
                FoundObject(
                    query=query,
                    label=None if index < 0 else need.classes[index],
                    raw_label=self._labels[number],
                    score=score,
                    box=tight_box(mask),
                    mask=mask,
                )
            )
        return objects


def released_size(height: int, width: int) -> tuple[int, int]:
    """Height and width of an image that was made to fit 1333 x 800, its aspect kept.

    >>> released_size(1024, 1024), released_size(512, 1024)
    ((800, 800), (667, 1333))
    """
    scale = min(LONG_EDGE_PX / max(height, width), SHORT_EDGE_PX / min(height, width))
    return max(int(height * scale + 0.5), 1), max(int(width * scale + 0.5), 1)


def best_pairs(logits: torch.Tensor, n_labels: int, most: int) -> list[tuple[float, int, int]]:
    """The most probable pairs of query and class: probability, query, class. One query can be in several.

    Args:
        logits: by query, class and, last, no object: shape (Q, L + 1).
        n_labels: L.
        most: pairs to keep.

    Raises:
        UsageError: a head of another width.
    """
    if logits.shape[-1] != n_labels + 1:
        raise UsageError(
            f"the segmenter's head has {logits.shape[-1]} columns and its configuration {n_labels} class names; there "
            "must be one more, for 'no object'. Correct id2label in config.json."
        )
    shares = logits.float().softmax(-1)[:, :-1]  # the column of no object is dropped, the others stay as they are
    values, places = shares.flatten().topk(min(most, shares.numel()))
    return [(v, p // n_labels, p % n_labels) for v, p in zip(values.tolist(), places.tolist(), strict=True)]


def full_size_logits(
    logits: torch.Tensor, padded: tuple[int, int], valid: tuple[int, int], size: tuple[int, int]
) -> torch.Tensor:
    """Mask logits at the size of the image: enlarged to the network's input, cut to what holds the image, resized.

    Args:
        logits: at the network's own resolution, shape (N, h, w).
        padded: height and width of the network's input.
        valid: height and width of its upper left part that holds the image.
        size: height and width of the image.
    """
    import torch

    resize = torch.nn.functional.interpolate
    large = resize(logits[None], size=padded, mode="bilinear", align_corners=False)
    large = large[:, :, : valid[0], : valid[1]]
    return resize(large, size=size, mode="bilinear", align_corners=False)[0]


def mask_quality(logits: torch.Tensor) -> torch.Tensor:
    """Mean probability inside each mask, shape (N,); 0 for an empty one.

    Args:
        logits: at the size of the image, shape (N, H, W); a mask is where they are above 0.
    """
    inside = logits > 0
    return (logits.sigmoid() * inside).flatten(1).sum(1) / (inside.flatten(1).sum(1) + 1e-6)


def tight_box(mask: np.ndarray) -> tuple[int, int, int, int]:
    """The tight box around a mask, (x0, y0, x1, y1), right and lower edges exclusive; zeros for an empty one.

    Args:
        mask: shape (H, W).
    """
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if not len(columns):
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
