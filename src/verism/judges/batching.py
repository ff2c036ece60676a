"""What judges that run on PyTorch share: device and precision, preprocessing, batches, and the identity of weights.

Only images whose network input has the same size share a batch, so nothing is ever padded for a neighbour's sake and
the result for an image does not depend on the images beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from verism.errors import UsageError, VerismError
from verism.inference import pick_device, pick_dtype

if TYPE_CHECKING:
    import torch

__all__ = [
    "EXTRA",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Batches",
    "Dtype",
    "Execution",
    "Preprocessing",
    "content_id",
    "normalised",
    "pick_device",
    "pick_dtype",
    "released_input",
    "resized",
]

EXTRA = "models"
"""The extra of the package that brings torch and transformers."""

Preprocessing = Literal["model", "released"]
Dtype = Literal["float32", "float16", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a model is run by PyTorch.

    Attributes:
        device: PyTorch device: ``cuda``, ``cuda:1``, ``cpu`` ... Default: the GPU if there is one.
        dtype: floating-point type of the computation.
        batch_size: images (or texts) per batch; halved when GPU memory runs out.
    """

    device: str | None = None
    dtype: Dtype = "float32"
    batch_size: int = 8

    @property
    def named_dtype(self) -> str | None:
        """The type as a judge's name has it: None for the usual one."""
        return None if self.dtype == "float32" else self.dtype


IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

RELEASED_SIZE_PX = 800  # both sides, whatever the aspect: the authors' PaintSkills evaluation does so

T = TypeVar("T")  # what is judged: images, or texts
R = TypeVar("R")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise UsageError unless an option has one of its values."""
    if value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def check_batch_size(batch_size: int) -> int:
    """The batch size, or UsageError if it is not positive."""
    if batch_size < 1:
        raise UsageError(f"batch_size must be at least 1, not {batch_size}")
    return batch_size


# --------------------------------------------------------------------------------------------------------------------
# Preprocessing
# --------------------------------------------------------------------------------------------------------------------
def resized(pixels: np.ndarray, *, width: int, height: int, resample: int | None = None) -> np.ndarray:
    """An image at another size, aspect ignored, with Pillow's filters (bilinear unless told).

    Args:
        pixels: RGB, shape (H, W, 3), uint8.
        width: of the result, in pixels, at least 1.
        height: of the result, in pixels, at least 1.
        resample: number of one of Pillow's filters, a member of ``Image.Resampling``; None: bilinear.
    Returns:
        Shape (height, width, 3), uint8.
    """
    from PIL import Image

    method = Image.Resampling.BILINEAR if resample is None else Image.Resampling(resample)
    return np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize((width, height), method))


def normalised(
    pixels: np.ndarray,
    *,
    scale: float = 1 / 255,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
) -> np.ndarray:
    """(pixels * scale - mean) / std with channels first: (H, W, 3) to float32 (3, H, W)."""
    values = pixels.astype(np.float32) * np.float32(scale)
    values -= np.asarray(mean, dtype=np.float32)
    values /= np.asarray(std, dtype=np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def released_input(pixels: np.ndarray) -> np.ndarray:
    """The network input of the authors' PaintSkills evaluation, shape (3, 800, 800), float32.

    Resized to exactly 800 x 800 with the aspect ignored (Pillow, bilinear), to [0, 1], less ImageNet's mean, over its
    deviation; no padding. Source: released evaluation code of Cho et al. 2023, arXiv:2202.04053.
    """
    return normalised(resized(pixels, width=RELEASED_SIZE_PX, height=RELEASED_SIZE_PX))


def shortest_side_size(width: int, height: int, *, shortest: int, longest: int | None) -> tuple[int, int]:
    """Width and height with the shorter side at ``shortest``, or less so that the longer stays within ``longest``.

    Fractions are cut off, as the original DETR's transforms do.
    """
    if longest is not None and max(width, height) / min(width, height) * shortest > longest:
        shortest = round(longest * min(width, height) / max(width, height))
    if width < height:
        return shortest, int(shortest * height / width)
    return int(shortest * width / height), shortest


# --------------------------------------------------------------------------------------------------------------------
# Batches
# --------------------------------------------------------------------------------------------------------------------
class Batches:
    """Runs a model over images (or texts) in batches of equal input size; out of memory, the batch is halved.

    ``size`` is the largest batch; once halved it stays so, as the next images would fail again.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        self.size = check_batch_size(size)
        self.device = device

    def run(
        self,
        images: Sequence[T],
        prepare: Callable[[T], Mapping[str, torch.Tensor]],
        step: Callable[[Sequence[T], dict[str, torch.Tensor]], Sequence[R]],
    ) -> list[R]:
        """One result per image, in the order of the images.

        Args:
            images: N images, of whatever type ``prepare`` and ``step`` take.
            prepare: network inputs of one image, by name, without the batch axis.
            step: results of some images, given their inputs stacked on the device.
        """
        results: dict[int, R] = {}
        waiting: dict[tuple[tuple[str, tuple[int, ...]], ...], list[tuple[int, Mapping[str, torch.Tensor]]]] = {}
        for i, image in enumerate(images):
            inputs = prepare(image)
            shapes = tuple((name, tuple(value.shape)) for name, value in inputs.items())
            queue = waiting.setdefault(shapes, [])
            queue.append((i, inputs))
            if len(queue) >= self.size:
                self._flush(images, waiting.pop(shapes), step, results)
        for queue in waiting.values():
            self._flush(images, queue, step, results)
        return [results[i] for i in range(len(images))]

    def _flush(
        self,
        images: Sequence[T],
        queue: Sequence[tuple[int, Mapping[str, torch.Tensor]]],
        step: Callable[[Sequence[T], dict[str, torch.Tensor]], Sequence[R]],
        results: dict[int, R],
    ) -> None:
        import torch

        done = 0
        while done < len(queue):
            part = queue[done : done + self.size]
            out_of_memory: str | None = None
            try:
                names = part[0][1]
                stacked = {name: torch.stack([inputs[name] for _, inputs in part]).to(self.device) for name in names}
                with torch.inference_mode():
                    found_value = step([images[i] for i, _ in part], stacked)
            except torch.OutOfMemoryError as err:
                # Kept as text: the traceback would hold the tensors that have to go before the next try.
                out_of_memory = str(err)
            if out_of_memory is not None:
                if len(part) == 1:
                    raise VerismError(
                        "the GPU's memory does not hold a single image. Use dtype='bfloat16', device='cpu', or a "
                        f"smaller model. PyTorch says: {out_of_memory}"
                    )
                self.size = len(part) // 2
                torch.cuda.empty_cache()
                continue
            results.update({i: result for (i, _), result in zip(part, found_value, strict=True)})
            done += len(part)


# --------------------------------------------------------------------------------------------------------------------
# Identity
# --------------------------------------------------------------------------------------------------------------------
def content_id(path: Path) -> str:
    """Twelve hexadecimal digits that stand for a file, or for a folder's weights and settings, by content."""
    if path.is_dir():
        # .model: vocabularies of SentencePiece; .jinja: how chat models word a question
        kinds = {".safetensors", ".bin", ".json", ".txt", ".model", ".jinja"}
        files = sorted(p for p in path.iterdir() if p.is_file() and p.suffix in kinds)
    else:
        files = [path]
    digest = hashlib.sha256()
    for file in files:
        if path.is_dir():
            digest.update(file.name.encode() + b"\0")
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:12]


def judge_name(kind: str, source: str, identity: str, **options: Any) -> str:
    """Name of a judge: its kind, weights, their revision, and every option that changes the result."""
    text = "".join(f" {name}={value}" for name, value in options.items() if value is not None)
    return f"{kind}:{source}@{identity}{text}"
