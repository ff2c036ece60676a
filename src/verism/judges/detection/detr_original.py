"""Detectors of the original DETR code, which the PaintSkills authors used: one file of weights, loaded strictly.

The released PaintSkills detector (ResNet-101-DC5, COCO's 91 classes) and the official DETR checkpoints::

    verism run paintskills --images DIR --detector detr:paintskills_detr_r101_dc5.pth

The network bears the parameter names of the original code, so a weight that is missing or left over is an error and not
a silent random number.

Source: Carion et al. 2020, "End-to-End Object Detection with Transformers", arXiv:2005.12872; Cho et al. 2023,
arXiv:2202.04053 (ResNet-101-DC5 with COCO's classes; the first version's ResNet-50 with 21 classes and a colour head).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from verism.errors import UsageError, require
from verism.judges.batching import (
    EXTRA,
    Batches,
    Execution,
    Preprocessing,
    check_choice,
    content_id,
    judge_name,
    normalised,
    pick_device,
    pick_dtype,
    released_input,
    resized,
    shortest_side_size,
)
from verism.judges.detection.boxes import ImageBoxes, corners, detection_table
from verism.judges.detection.names import (
    COCO91,
    PAINTSKILLS_V1,
    PAINTSKILLS_V1_COLORS,
    LabelMap,
    map_labels,
    missing_lines,
)
from verism.options import Spelling
from verism.records import DetectionNeed

if TYPE_CHECKING:
    import polars as pl
    import torch

    from verism.judges.detection.detr_network import Detr, DetrShape
    from verism.records import LoadedImage

__all__ = ["CLASS_SETS", "OriginalDetr", "load_detr", "read_checkpoint"]

ClassSet = Literal["coco91", "paintskills-v1"]
CLASS_SETS: dict[str, tuple[str, ...]] = {"coco91": COCO91, "paintskills-v1": PAINTSKILLS_V1}


# --------------------------------------------------------------------------------------------------------------------
# Checkpoints
# --------------------------------------------------------------------------------------------------------------------
def read_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    """Weights by the original parameter names, from ``.pth`` (flat, or under ``model``) or ``.safetensors``.

    Nothing but tensors and plain settings is ever unpickled. The names of a model trained on several GPUs lose their
    ``module.`` prefix; batch-normalisation counters are left out, as the original code does.

    Raises:
        UsageError: no such file, or one that holds something else.
    """
    if not path.is_file():
        raise UsageError(f"no DETR checkpoint at {str(path)!r}; give the path of a .pth or .safetensors file")
    torch = require("torch", extra=EXTRA, purpose="a DETR checkpoint")
    content: Any
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        content = load_file(path)
    else:
        try:
            # The original training code saves its command line next to the weights.
            with torch.serialization.safe_globals([argparse.Namespace]):
                content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as err:  # unpickling a foreign file can fail in any way
            raise UsageError(f"cannot read {str(path)!r} as a PyTorch checkpoint of plain tensors: {err}") from err
    if isinstance(content, Mapping) and isinstance(content.get("model"), Mapping):
        content = content["model"]
    if not isinstance(content, Mapping) or not all(isinstance(v, torch.Tensor) for v in content.values()):
        raise UsageError(
            f"{str(path)!r} is no DETR checkpoint: expected a dictionary of tensors, flat or under the key 'model'"
        )
    return {
        str(key).removeprefix("module."): value
        for key, value in content.items()
        if not str(key).endswith("num_batches_tracked")
    }


def _rename_color_head(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Call the colour head ``color_embed``, whatever the checkpoint calls it: its name was never published."""
    d_model = weights["query_embed.weight"].shape[1]
    heads = [
        key.removesuffix(".weight")
        for key, value in weights.items()
        if "color" in key.lower() and key.endswith(".weight") and value.ndim == 2 and value.shape[1] == d_model
    ]
    if len(heads) != 1:
        return weights  # none, or several: the strict load names what is left over
    return {
        f"color_embed.{key.removeprefix(heads[0] + '.')}" if key.startswith(heads[0] + ".") else key: value
        for key, value in weights.items()
    }


def _infer_shape(weights: Mapping[str, torch.Tensor], *, dilation: bool, heads: int, source: str) -> DetrShape:
    """The sizes of the network that fits the weights. Dilation and heads leave no trace in them."""

    from verism.judges.detection.detr_network import DetrShape

    def count(pattern: str) -> int:
        match = [int(m.group(1)) for key in weights if (m := re.match(pattern, key))]
        return max(match) + 1 if match else 0

    def size(key: str, axis: int = 0) -> int:
        if key not in weights:
            raise UsageError(
                f"{source!r} is no checkpoint of the original DETR code: it has no {key!r}. Its first names are "
                f"{', '.join(list(weights)[:5])}. Checkpoints of transformers load as transformers:ID_OR_PATH."
            )
        return weights[key].shape[axis]

    blocks = tuple(count(rf"backbone\.0\.body\.layer{stage}\.(\d+)\.") for stage in range(1, 5))
    return DetrShape(
        blocks=(blocks[0], blocks[1], blocks[2], blocks[3]),
        width=size("backbone.0.body.conv1.weight"),
        dilation=dilation,
        d_model=size("query_embed.weight", 1),
        heads=heads,
        feedforward=size("transformer.encoder.layers.0.linear1.weight"),
        encoder_layers=count(r"transformer\.encoder\.layers\.(\d+)\."),
        decoder_layers=count(r"transformer\.decoder\.layers\.(\d+)\."),
        queries=size("query_embed.weight"),
        classes=size("class_embed.weight") - 1,
        colors=size("color_embed.weight") - 1 if "color_embed.weight" in weights else 0,
    )


def load_detr(path: Path, *, dilation: bool, heads: int = 8) -> Detr:
    """The network a checkpoint is made for, with its weights, in evaluation mode.

    Raises:
        UsageError: weights are missing, left over, or of another shape.
    """
    weights = read_checkpoint(path)
    import torch

    from verism.judges.detection.detr_network import Detr

    if "query_embed.weight" in weights:
        weights = _rename_color_head(weights)
    shape = _infer_shape(weights, dilation=dilation, heads=heads, source=path.name)
    with torch.device("meta"):
        model = Detr(shape)
    expected = model.state_dict()
    missing = sorted(set(expected) - set(weights))
    unexpected = sorted(set(weights) - set(expected))
    other = sorted(
        f"{key} {tuple(weights[key].shape)} instead of {tuple(value.shape)}"
        for key, value in expected.items()
        if key in weights and weights[key].shape != value.shape
    )
    if missing or unexpected or other:
        parts = [
            f"{len(keys)} {what}: {', '.join(keys[:8])}{' ...' if len(keys) > 8 else ''}"
            for what, keys in (("missing", missing), ("unexpected", unexpected), ("of another shape", other))
            if keys
        ]
        raise UsageError(
            f"the weights in {path.name!r} do not fit a DETR with post-normalisation, and guessing would give "
            f"boxes that only look real; {'; '.join(parts)}"
        )
    model.load_state_dict({key: value.float() for key, value in weights.items()}, assign=True)
    return model.eval()


# --------------------------------------------------------------------------------------------------------------------
# The judge
# --------------------------------------------------------------------------------------------------------------------
class OriginalDetr:
    """A detector saved by the original DETR code.

    Args:
        path: ``.pth`` or ``.safetensors`` file.
        classes: class names: ``coco91`` (class id = COCO's category id), ``paintskills-v1`` (21 classes), or a list in
            the order of the head, with ``N/A`` for unused ones and without "no object".
        dilation: dilated stage 4 ("DC5"), which the weights do not show; None: yes if the file name contains ``dc5``.
        preprocessing: image preprocessing. ``released``: exactly 800 x 800 pixels, aspect ratio ignored, as in the
            PaintSkills evaluation. ``model``: shorter side 800 pixels, longer side at most 1333, as in DETR.
        colors: outputs of the colour head, without "none"; ignored without such a head. Default: PaintSkills' six.
        min_score: lowest confidence of a kept box, in [0, 1]; the released rules need 0, which keeps all.
        aliases: maps a class name of the detector to a class of the suite: ``alias.bike=bicycle``. Common synonyms are
            known.
        execution: how the network is run.
    Raises:
        UsageError: weights do not fit the network, or the head has another number of classes or colours than named.
    """

    role = DetectionNeed.role

    def __init__(
        self,
        path: str | Path,
        *,
        classes: ClassSet | Sequence[str] = "coco91",
        dilation: bool | None = None,
        preprocessing: Preprocessing = "released",
        colors: Sequence[str] = PAINTSKILLS_V1_COLORS,
        min_score: float = 0.0,
        aliases: Annotated[Mapping[str, str] | None, Spelling("alias")] = None,
        execution: Execution = Execution(batch_size=4),
    ) -> None:
        check_choice("preprocessing", preprocessing, ("model", "released"))
        if isinstance(classes, str):
            check_choice("classes", classes, tuple(CLASS_SETS))
            classes = CLASS_SETS[classes]
        path = Path(path)
        dilation = "dc5" in path.name.lower() if dilation is None else dilation
        self._device = pick_device(execution.device)
        self._dtype = pick_dtype(execution.dtype)
        self._batches = Batches(execution.batch_size, self._device)
        self._model = load_detr(path, dilation=dilation).to(device=self._device, dtype=self._dtype)
        self._preprocessing = preprocessing
        self._aliases = dict(aliases or {})
        self._min_score = min_score

        shape = self._model.shape
        if len(classes) != shape.classes:
            known = ", ".join(f"{name!r} has {len(names)}" for name, names in CLASS_SETS.items())
            raise UsageError(
                f"{path.name!r} has a head of {shape.classes} classes besides 'no object', but {len(classes)} are "
                f"named. Give the right set ({known}) or a list of {shape.classes} names."
            )
        if shape.colors and len(colors) != shape.colors:
            raise UsageError(
                f"{path.name!r} has a head of {shape.colors} colours besides 'none', but {len(colors)} are named: "
                f"{', '.join(colors)}. Name them in the order of the head."
            )
        self._labels = dict(enumerate(classes))
        self._missing: tuple[Sequence[str], Sequence[str]] = ((), ())
        self._colors = tuple(colors) if shape.colors else ()
        self.name = judge_name(
            "detr",
            path.name,
            content_id(path),
            preprocessing=preprocessing,
            dilation="dc5" if dilation else "none",
            classes=None if tuple(classes) == COCO91 else f"{len(classes)}:{classes[0]}..{classes[-1]}",
            colors=",".join(self._colors) or None,
            dtype=execution.named_dtype,
            min_score=min_score or None,
            aliases=",".join(f"{a}={b}" for a, b in sorted(self._aliases.items())) or None,
        )

    def check(self, need: DetectionNeed) -> None:
        """Raise UsageError if a class or colour of the need has no counterpart in the detector, or two share one."""
        found = map_labels(self._labels, need.classes, self._aliases, partial=need.partial)
        self._missing = (found.missing, need.classes)
        self._map_colors(need.colors)

    def summary(self) -> Sequence[str]:
        """After a run: classes that the detector does not have."""
        return missing_lines(*self._missing)

    def observe(self, images: Sequence[LoadedImage], need: DetectionNeed) -> pl.DataFrame:
        """All queries of all images, as table ``detections``, with colours if the checkpoint has the head for them.

        Confidences are a softmax over classes and "no object" (colours and "none"), the last column dropped without
        renormalising.

        Raises:
            UsageError: a class or colour of the need has no counterpart in the detector, or two share one.
        """
        label_map = map_labels(self._labels, need.classes, self._aliases, partial=need.partial)
        color_map = self._map_colors(need.colors)

        def step(images: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[ImageBoxes]:
            logits, boxes, color_logits = self._model(inputs["pixel_values"].to(self._dtype))
            scores = logits.float().softmax(-1)[..., :-1].cpu().numpy()
            shares = boxes.float().cpu().numpy()
            colors = None if color_logits is None else color_logits.float().softmax(-1)[..., :-1].cpu().numpy()
            results = []
            for i, image in enumerate(images):
                height, width = image.pixels.shape[:2]
                best = scores[i].argmax(axis=1)
                results.append(
                    ImageBoxes(
                        image_id=image.image_id,
                        width=width,
                        height=height,
                        boxes=corners(shares[i], width=width, height=height),
                        class_scores=label_map.class_scores(scores[i]),
                        labels=label_map.suite_index(best),
                        raw_labels=[self._labels[int(k)] for k in best],
                        scores=scores[i].max(axis=1),
                        color_scores=None if color_map is None or colors is None else color_map.class_scores(colors[i]),
                    )
                )
            return results

        boxes_of_images = self._batches.run(images, self._inputs, step)
        return detection_table(boxes_of_images, judge=self.name, need=need, min_score=self._min_score)

    def _map_colors(self, wanted: Sequence[str]) -> LabelMap | None:
        if not wanted or not self._colors:
            return None
        if unknown := sorted(set(wanted) - set(self._colors)):
            raise UsageError(
                f"the colour head of {self.name!r} tells {', '.join(self._colors)}, but not {', '.join(unknown)}; if "
                "its outputs have other names, give them with colors=[...]"
            )
        return LabelMap(classes=tuple(wanted), members=tuple((self._colors.index(color),) for color in wanted))

    def _inputs(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        import torch

        if self._preprocessing == "released":
            return {"pixel_values": torch.from_numpy(released_input(image.pixels))}
        height, width = image.pixels.shape[:2]
        width, height = shortest_side_size(width, height, shortest=800, longest=1333)
        return {"pixel_values": torch.from_numpy(normalised(resized(image.pixels, width=width, height=height)))}
