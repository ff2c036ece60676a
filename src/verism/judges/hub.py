"""Models of the Hugging Face hub, or of a local folder, as every judge loads them: whole, and without torchvision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError
from verism.judges.batching import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Execution,
    content_id,
    normalised,
    resized,
    shortest_side_size,
)
from verism.services.hub import HUB_ID, local_files_only, not_reached

if TYPE_CHECKING:
    import torch

__all__ = [
    "HubOptions",
    "SimpleProcessor",
    "WholeImage",
    "identity",
    "load_config",
    "load_image_processor",
    "load_model",
    "source_name",
]

# Left out of checkpoints without loss: counters and tables that follow from the configuration.
_DERIVED = ("num_batches_tracked", "position_ids", "relative_position_index")


@dataclass(frozen=True, kw_only=True)
class HubOptions(Execution):
    """Which edition of a model of the Hugging Face hub is loaded, and how it is run.

    Attributes:
        revision: branch, tag or commit on the Hugging Face Hub.
        local_files_only: use local files only, and never connect to the Hugging Face Hub.
    """

    revision: str | None = None
    local_files_only: bool = False

    def where(self, id_or_path: str) -> dict[str, Any]:
        """What ``from_pretrained`` is told: not to ask the hub, either, where it cannot be reached.

        Call it before torch or transformers is imported: a model that cannot be had fails at once.

        Args:
            id_or_path: the model.

        Raises:
            UsageError: the hub cannot be reached, and the model is not in its cache.
        """
        return {
            "revision": self.revision,
            "local_files_only": local_files_only(id_or_path, wanted=self.local_files_only),
        }


def load_config(id_or_path: str, hub: Mapping[str, Any]) -> Any:
    """The checkpoint's configuration.

    Raises:
        UsageError: there is none, or ``transformers`` does not know the kind of model.
    """
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(id_or_path, **hub)
    except (OSError, ValueError) as err:
        if hub.get("local_files_only") and not Path(id_or_path).exists() and HUB_ID.fullmatch(id_or_path):
            raise UsageError(not_reached(id_or_path)) from err
        raise UsageError(
            f"cannot load {id_or_path!r}: expected a repository of the Hugging Face hub, or a folder with config.json "
            f"and weights that the installed transformers knows. It says: {_first_lines(err)}"
        ) from err


def load_image_processor(id_or_path: str, config: Any, hub: Mapping[str, Any]) -> Any:
    """The checkpoint's image processor in its Pillow edition, or ``SimpleProcessor`` where it has none.

    Raises:
        UsageError: the checkpoint has no preprocessing file, or one that only ``torchvision`` can follow.
    """
    from transformers import AutoImageProcessor
    from transformers.image_processing_backends import PilBackend
    from transformers.models.auto.image_processing_auto import get_image_processor_config

    auto: Any = AutoImageProcessor  # not annotated in every version
    settings: dict[str, Any] = get_image_processor_config(id_or_path, **hub)
    if not settings:
        raise UsageError(
            f"{id_or_path!r} has no preprocessor_config.json, so how to prepare images for it is unknown. Add the "
            "file of the model it was made from, or choose preprocessing='released'."
        )
    try:
        processor = auto.from_pretrained(id_or_path, backend="pil", config=config, **hub)
    except (ValueError, ImportError):  # no edition for Pillow, and torchvision is not installed
        processor = None
    # Where the named processor has no edition for Pillow, transformers quietly takes the usual one of the family.
    named = settings.get("image_processor_type") or settings.get("feature_extractor_type") or ""
    wanted = str(named).replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast").removesuffix("Pil")
    if isinstance(processor, PilBackend) and wanted in ("", type(processor).__name__.removesuffix("Pil")):
        return processor
    return SimpleProcessor(settings, source=id_or_path)


class SimpleProcessor:
    """Resizes, rescales and normalises as a ``preprocessor_config.json`` says, without ``torchvision``.

    For checkpoints whose image processor exists for ``torchvision`` only (RF-DETR). That one resizes the image as
    floating-point numbers without smoothing, and so do we for it; others are resized with Pillow.

    Raises:
        UsageError: the settings ask for more than these steps.
    """

    _UNUSED = ("do_convert_rgb", "do_convert_annotations", "do_resize", "do_rescale", "do_normalize", "do_pad")

    def __init__(self, settings: Mapping[str, Any], *, source: str) -> None:
        kind = str(settings.get("image_processor_type", "image processor"))
        other = [name for name, on in settings.items() if name.startswith("do_") and on and name not in self._UNUSED]
        if settings.get("do_pad") and settings.get("pad_size"):
            other.append("pad_size")
        size = settings.get("size") if settings.get("do_resize", True) else {}
        if isinstance(size, int):
            size = {"height": size, "width": size}
        sides = set(size or {})
        if other or size is None or sides not in ({"height", "width"}, {"shortest_edge", "longest_edge"}, set()):
            raise UsageError(
                f"{source!r} prepares images with {kind}, which exists for torchvision only, and its settings "
                f"({', '.join(other) or f'size={size}'}) go beyond resizing to height and width or to shortest_edge "
                "and longest_edge, rescaling and normalising. Choose preprocessing='released' or another checkpoint."
            )
        self._size: dict[str, int] = dict(size)
        self._smooth = not kind.startswith("RfDetr")
        self._resample = settings.get("resample")
        self._scale = float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 1.0
        normalise = settings.get("do_normalize", True)
        self._mean = tuple(settings.get("image_mean", IMAGENET_MEAN)) if normalise else (0.0,) * 3
        self._std = tuple(settings.get("image_std", IMAGENET_STD)) if normalise else (1.0,) * 3

    def __call__(self, *, images: Sequence[Any], **_: Any) -> dict[str, torch.Tensor]:
        """Images of one size as ``pixel_values``, float32, shape (N, 3, height, width)."""
        import torch

        prepared = []
        for image in images:
            pixels = np.asarray(image)
            width, height = self._target(pixels.shape[1], pixels.shape[0])
            if (width, height) == (pixels.shape[1], pixels.shape[0]):
                values = normalised(pixels, scale=self._scale, mean=self._mean, std=self._std)
            elif self._smooth:
                pixels = resized(pixels, width=width, height=height, resample=self._resample)
                values = normalised(pixels, scale=self._scale, mean=self._mean, std=self._std)
            else:
                raw = torch.from_numpy(normalised(pixels, scale=self._scale, mean=self._mean, std=self._std))
                # Resizing and normalising may change places: both are linear, and weights of resizing add up to 1.
                values = torch.nn.functional.interpolate(
                    raw[None], size=(height, width), mode="bilinear", align_corners=False
                )[0].numpy()
            prepared.append(torch.from_numpy(values))
        return {"pixel_values": torch.stack(prepared)}

    def _target(self, width: int, height: int) -> tuple[int, int]:
        if "height" in self._size:
            return self._size["width"], self._size["height"]
        if "shortest_edge" in self._size:
            shortest, longest = self._size["shortest_edge"], self._size["longest_edge"]
            return shortest_side_size(width, height, shortest=shortest, longest=longest)
        return width, height


class WholeImage:
    """Network inputs of one image by a checkpoint's image processor.

    Args:
        processor: of ``load_image_processor``.
        squash: bring the whole image to the model's square, its aspect ignored, instead of cutting the longer side.

    Raises:
        UsageError: ``squash`` for a model that takes no images of one size.
    """

    def __init__(self, processor: Any, *, squash: bool) -> None:
        self._processor = processor
        self._side: tuple[int, int] | None = None
        if squash:
            owner = "crop_size" if getattr(processor, "do_center_crop", False) else "size"
            size = getattr(processor, owner, None)
            height, width = getattr(size, "height", None), getattr(size, "width", None)
            if not height or not width:
                raise UsageError(
                    "preprocessing=squash needs a model that takes images of one size, and this one's settings name "
                    f"none ({owner}={size}). Use preprocessing=model."
                )
            self._side = (int(width), int(height))

    def prepare(self, pixels: np.ndarray) -> dict[str, torch.Tensor]:
        """The inputs by name, without the batch axis.

        Args:
            pixels: RGB, shape (H, W, 3), uint8.
        """
        from PIL import Image

        left_out: dict[str, bool] = {}
        if self._side is not None:
            resample = getattr(self._processor, "resample", None)
            pixels = resized(pixels, width=self._side[0], height=self._side[1], resample=resample)
            # Otherwise one that enlarges before it cuts (256, then 224) would cut the borders after all.
            left_out = {"do_resize": False, "do_center_crop": False}
        # As a Pillow image: from an array, an image three pixels high would be taken for channels first.
        image = Image.fromarray(np.ascontiguousarray(pixels))
        batch = self._processor(images=[image], return_tensors="pt", **left_out)
        return {name: value[0] for name, value in batch.items()}


def load_model(loader: Any, id_or_path: str, hub: Mapping[str, Any], dtype: torch.dtype, device: torch.device) -> Any:
    """The model in evaluation mode, with every weight from the checkpoint.

    Raises:
        UsageError: weights are missing from the checkpoint, or the model needs a library that is not installed.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()  # runs have a line of their own
    try:
        model, loading_info = loader.from_pretrained(id_or_path, dtype=dtype, output_loading_info=True, **hub)
    except ImportError as err:
        raise UsageError(
            f"{id_or_path!r} needs a library that is not installed (DETR checkpoints with a 'timm' backbone do). "
            "Choose a revision without it (facebook/detr-resnet-50 and -101 have revision='no_timm'), a detector that "
            "needs none (RT-DETR, D-FINE), or the original .pth file as detr:FILE. It says: "
            f"{_first_lines(err)}"
        ) from err
    except (OSError, ValueError) as err:
        raise UsageError(f"cannot load the weights of {id_or_path!r}: {_first_lines(err)}") from err
    # transformers fills what is missing with random numbers and only logs it; boxes would be noise that looks real.
    missing = sorted(key for key in loading_info["missing_keys"] if not key.endswith(_DERIVED))
    mismatched = sorted(str(key) for key in loading_info["mismatched_keys"])
    if missing or mismatched:
        raise UsageError(
            f"the weights of {id_or_path!r} are incomplete: {len(missing)} missing ({', '.join(missing[:5])}), "
            f"{len(mismatched)} of another shape ({', '.join(mismatched[:5])}). Use a checkpoint trained for this "
            "use (for detection: not a pretrained trunk)."
        )
    return model.to(device).eval()


def identity(model: Any, id_or_path: str) -> str:
    """The hub's commit, or for a local folder a hash of its weights and settings; twelve digits."""
    path = Path(id_or_path)
    if path.is_dir():
        return content_id(path)
    commit = getattr(model.config, "_commit_hash", None)
    return str(commit)[:12] if commit else "unknown"


def source_name(id_or_path: str) -> str:
    """A repository's id, or a local folder's own name, as paths differ between machines."""
    path = Path(id_or_path)
    return path.resolve().name if path.exists() else id_or_path


def _first_lines(err: BaseException) -> str:
    return " ".join(str(err).split())[:400]
