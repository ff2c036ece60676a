"""Random numbers and pixels of a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class OwnNoise(Exception):
    """A batch whose images share random numbers."""

    def __str__(self) -> str:
        return "the pipeline or its scheduler draws noise that no generator of an image controls"


@contextlib.contextmanager
def global_noise(torch: Any, device: Any, seed: int) -> Iterator[list[str]]:
    """Seed torch's global generators for a while, and put them back; the list tells those that were drawn from."""
    banks = {"cpu": torch.random}
    if device.type in ("cuda", "mps"):
        banks[device.type] = getattr(torch, device.type)
    index_of = {"cuda": (device,)}  # the only one of several of its kind

    def states() -> dict[str, Any]:
        return {name: bank.get_rng_state(*index_of.get(name, ())) for name, bank in banks.items()}

    def put_back(kept: Mapping[str, Any]) -> None:
        for name, bank in banks.items():
            bank.set_rng_state(kept[name], *index_of.get(name, ()))

    before = states()
    torch.manual_seed(seed)
    seeded = states()
    touched: list[str] = []
    try:
        yield touched
        touched += [name for name, state in states().items() if not torch.equal(state, seeded[name])]
    finally:
        put_back(before)


def look_alike(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether images are the same up to the rounding of a GPU that adds in any order: 2 levels of 255."""
    pairs = [(to_pixels(a), to_pixels(b)) for a, b in zip(first, second, strict=True)]
    return all(
        a is not None and b is not None and int(np.abs(a.astype(int) - b.astype(int)).max()) <= 2 for a, b in pairs
    )


def to_pixels(image: Any) -> NDArray[np.uint8] | None:
    """A pipeline's image, floats in [0, 1] of shape (H, W, 3) or a Pillow image, as 8 bits; None if not finite."""
    if hasattr(image, "convert"):
        return np.asarray(image.convert("RGB"), dtype=np.uint8)
    values = np.asarray(image, dtype=np.float32)
    if not np.isfinite(values).all():
        return None
    # Rounded as diffusers itself does for Pillow images.
    return np.ascontiguousarray((np.clip(values, 0, 1) * 255).round().astype(np.uint8))
