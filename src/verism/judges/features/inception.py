"""Inception-v3 features, in PyTorch alone: those of the torchvision weights, and those of the FID.

::

    verism run geography --images G --reference R --features inception:inception_v3_google-0cc3c7bd.pth
    verism run quality --images G --reference R --features "fid-inception:FILE?preprocessing=clean"

Weights come from a file you have; which files these are, and where they are published, is in docs/models/features.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, Batches, Execution, check_choice, pick_device, pick_dtype
from verism.judges.features import preprocessing
from verism.judges.features.inception_network import Edition
from verism.judges.features.judge import FeatureJudge, feature_name
from verism.judges.features.weights import checked_sha256, fill, located, read_tensors

if TYPE_CHECKING:
    import torch

    from verism.judges.features.inception_network import Inception
    from verism.records import LoadedImage

__all__ = ["LAYERS", "InceptionFeatures", "Weights", "fid_features", "inception_features", "load_inception"]

Layer = Literal["pool", "logits", "logits_unbiased"]
LAYERS: tuple[Layer, ...] = get_args(Layer)
"""What is taken as features: the 2048 spatial means, the last layer, or the last layer without its bias.

The Inception score as published uses the last: the graph it was computed with had no bias at hand.
"""

_KINDS: Mapping[Edition, tuple[str, Mapping[str, preprocessing.Preparation]]] = {
    "imagenet": ("inception", preprocessing.IMAGENET),
    "fid": ("fid-inception", preprocessing.FID),
}


def load_inception(path: Path, edition: Edition) -> Inception:
    """The network with the weights of a file, in evaluation mode.

    The auxiliary classifier of the ImageNet file (``AuxLogits``) is left out: only training uses it.

    Raises:
        UsageError: the file is none of weights, or weights are missing, left over or of another shape.
        MissingExtra: PyTorch is not installed.
    """
    weights = read_tensors(path)
    import torch

    from verism.judges.features.inception_network import CLASSES, Inception

    hint = ""
    last = weights.get("fc.bias")
    for other, classes in CLASSES.items():
        if other != edition and last is not None and last.shape == (classes,):
            hint = f" Its last layer has {classes} outputs: it is a file for {_KINDS[other][0]}:FILE."
    with torch.device("meta"):  # random numbers for weights that are replaced take a second
        network = Inception(edition)
    fill(
        network,
        weights,
        source=path.name,
        unused=lambda key: edition == "imagenet" and key.startswith("AuxLogits."),
        hint=hint,
    )
    return network.eval().requires_grad_(False)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Which file of weights is meant.

    Attributes:
        revision: branch, tag or commit of a file on the Hugging Face Hub.
        sha256: expected SHA-256 of the file, or its first digits, at least eight.
    """

    revision: str | None = None
    sha256: str | None = None


def inception_features(
    path: str,
    *,
    preprocessing: Literal["digin", "dalleval", "torchvision"] = "digin",
    layer: Layer = "pool",
    weights: Weights = Weights(),
    execution: Execution = Execution(batch_size=16),
    cache: Path | None = None,
) -> InceptionFeatures:
    """Features of torchvision's ImageNet Inception-v3, ``transform_input`` off.

    Args:
        path: weights in the layout of ``inception_v3_google-0cc3c7bd.pth``: a ``.pth`` or ``.safetensors`` file, or
            ``hf://OWNER/REPOSITORY/FILE``.
        preprocessing: image preprocessing, to 299 x 299 pixels. ``digin``: centre square, Pillow bilinear.
            ``dalleval``: no crop, Pillow bilinear, with the network's input transform. ``torchvision``: shorter side to
            342, centre crop, as the weights were evaluated.
        layer: layer of the features. ``pool``: 2048 spatial means. ``logits``: the 1000 class logits.
            ``logits_unbiased``: the logits without the layer's bias.
        weights: which file is meant.
        execution: how the network is run. ``dtype`` is that of the convolutions; what follows is always float32.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only.
    Raises:
        UsageError, MissingExtra: as ``InceptionFeatures``.
    """
    return InceptionFeatures(
        "imagenet", path, preprocessing=preprocessing, layer=layer, weights=weights, execution=execution, cache=cache
    )


def fid_features(
    path: str,
    *,
    preprocessing: Literal["fid", "fid-256", "pytorch-fid", "clean", "crop"] = "fid",
    layer: Layer = "pool",
    weights: Weights = Weights(),
    execution: Execution = Execution(batch_size=16),
    cache: Path | None = None,
) -> InceptionFeatures:
    """Features of the network of the FID (2015), as ported to PyTorch.

    Args:
        path: weights in the layout of ``pt_inception-2015-12-05-6726825d.pth``: a ``.pth`` or ``.safetensors`` file, or
            ``hf://OWNER/REPOSITORY/FILE``.
        preprocessing: image preprocessing, to 299 x 299 pixels. ``fid``: TensorFlow 1's bilinear without crop or
            smoothing. ``fid-256``: first to 256 x 256, Pillow bicubic. ``pytorch-fid``: PyTorch's bilinear. ``clean``:
            Pillow bicubic, smoothed (clean-fid). ``crop``: centre square, Pillow bilinear.
        layer: layer of the features. ``pool``: 2048 spatial means. ``logits``: the 1008 class logits.
            ``logits_unbiased``: the logits without the layer's bias, as in the published Inception score.
        weights: which file is meant.
        execution: how the network is run. ``dtype`` is that of the convolutions; what follows is always float32.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only.
    Raises:
        UsageError, MissingExtra: as ``InceptionFeatures``.
    """
    return InceptionFeatures(
        "fid", path, preprocessing=preprocessing, layer=layer, weights=weights, execution=execution, cache=cache
    )


class InceptionFeatures(FeatureJudge):
    """A feature judge with an Inception-v3; made by ``inception_features`` and ``fid_features``.

    Args:
        edition: ``imagenet`` (torchvision's weights) or ``fid``.
        path: file of weights, see ``weights.located``.
        preprocessing: a name of ``preparing.IMAGENET`` or ``preparing.FID``.
        layer: one of ``LAYERS``.
        weights: which file is meant.
        execution: how the network is run.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only.
    Raises:
        UsageError: no such file, other content than expected, weights that do not fit, an unknown option.
        MissingExtra: PyTorch is not installed.
    """

    def __init__(
        self,
        edition: Edition,
        path: str | Path,
        *,
        preprocessing: str,
        layer: Layer,
        weights: Weights,
        execution: Execution,
        cache: Path | None,
    ) -> None:
        kind, preparations = _KINDS[edition]
        check_choice("layer", layer, LAYERS)
        if preprocessing not in preparations:
            text = "; ".join(f"{name}: {way.meaning}" for name, way in preparations.items())
            raise UsageError(f"{kind} has no preprocessing={preprocessing}. It has {text}")
        file = located(path, revision=weights.revision)
        torch = require("torch", extra=EXTRA, purpose="Inception features")
        digest = checked_sha256(file, expected=weights.sha256)
        network = load_inception(file, edition)
        last = network.fc
        self._device = pick_device(execution.device)
        self._dtype = pick_dtype(execution.dtype)
        self._batches = Batches(execution.batch_size, self._device)
        self._prepare = preparations[preprocessing]
        self._weight = None if layer == "pool" else last.weight.to(self._device)
        self._bias = last.bias.to(self._device) if layer == "logits" else None
        network.fuse()
        # Channels last: the layout in which convolutions are fastest on processors and on GPUs with tensor cores.
        network.to(self._device, self._dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._network = network
        super().__init__(
            name=feature_name(
                kind,
                digest[:12],
                preprocessing=preprocessing,
                layer=None if layer == "pool" else layer,
                dtype=execution.dtype,
            ),
            dim=last.in_features if layer == "pool" else last.out_features,
            compute=self._look,
            cache=cache,
        )

    def _look(self, images: Sequence[LoadedImage]) -> NDArray[np.float32]:
        import torch
        from torch.nn import functional

        def prepare(image: LoadedImage) -> Mapping[str, torch.Tensor]:
            return {"pixels": torch.from_numpy(self._prepare(image.pixels))}

        def step(_: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> Sequence[NDArray[np.float32]]:
            pixels = inputs["pixels"].to(dtype=self._dtype, memory_format=torch.channels_last)
            result = self._network(pixels)
            if self._weight is not None:
                result = functional.linear(result, self._weight, self._bias)
            return list(result.cpu().numpy())

        return np.stack(self._batches.run(images, prepare, step))
