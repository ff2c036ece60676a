"""An Inception-v3 of real size whose weights follow from a formula: the same numbers on every machine, no download."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from verism.judges.features.inception_network import Edition, Inception


def hashed_uniform(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers in [-1, 1) from whole-number arithmetic on their positions: exact, and of no generator's making."""
    mask = np.uint64(0xFFFFFFFF)
    x = (np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(seed * 0x9E3779B9 + 1)) & mask
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & mask
    x ^= x >> np.uint64(16)
    return (x.astype(np.float64) / 2**31 - 1).reshape(shape)


def formula_weights(edition: Edition) -> dict[str, torch.Tensor]:
    """Every tensor of the network, in its own order: of a size that keeps signals alive through all 94 convolutions."""
    weights: dict[str, torch.Tensor] = {}
    with torch.device("meta"):
        expected = Inception(edition).state_dict()
    for number, (name, tensor) in enumerate(expected.items()):
        noise = hashed_uniform(tuple(tensor.shape), number)
        if name.endswith("num_batches_tracked"):
            value = np.zeros(())
        elif tensor.ndim > 1:  # uniform on +-sqrt(6 / inputs): deviation sqrt(2 / inputs), right before a ReLU
            value = noise * math.sqrt(6 / math.prod(tensor.shape[1:]))
        elif name.endswith(("running_var", "bn.weight")):
            value = 1 + 0.3 * noise
        else:
            value = 0.2 * noise
        weights[name] = torch.from_numpy(value).to(tensor.dtype)
    return weights


def random_inception(folder: Path, edition: Edition, *, suffix: str = ".safetensors") -> Path:
    """A file of these weights as users have them, about 95 MB: ``.safetensors`` or ``.pth``."""
    path = folder / f"formula-{edition}{suffix}"
    weights = formula_weights(edition)
    if suffix == ".safetensors":
        save_file(weights, path)
    else:
        torch.save(weights, path)
    return path


def formula_image(height: int, width: int, seed: int = 0) -> np.ndarray:
    """An image with structure and noise, RGB uint8, exact everywhere: whole numbers only."""
    y, x = np.mgrid[:height, :width]
    noise = ((hashed_uniform((height, width, 3), 7919 + seed) + 1) * 32).astype(np.int64)
    channels = [x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), ((x // 8 + y // 8) % 2) * 200]
    return np.clip(np.stack(channels, axis=-1) + noise - 32, 0, 255).astype(np.uint8)
