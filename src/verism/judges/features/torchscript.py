"""Features of a network saved as TorchScript, such as NVIDIA's ``inception-2015-12-05.pt``.

::

    verism run quality --images G --reference R --features "torchscript:inception-2015-12-05.pt?sha256=HEX"

Such a file is a program as much as weights. It is run only if its SHA-256 is given, so that no other one ever is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, Batches, pick_device
from verism.judges.features.judge import FeatureJudge, feature_name
from verism.judges.features.weights import checked_sha256

if TYPE_CHECKING:
    import torch

    from verism.records import LoadedImage

__all__ = ["TorchScriptFeatures"]

_PROBE_PX = 64
_SHA256_DIGITS = 64


class TorchScriptFeatures(FeatureJudge):
    """A feature judge with a TorchScript file that resizes and scales images by itself.

    The network is called as ``network(pixels, return_features=True)``, pixels being uint8 of shape (N, 3, H, W) at the
    images' own size, and answers with shape (N, D).

    Args:
        path: TorchScript file, usually ``.pt``.
        sha256: expected SHA-256 of the file, 64 hexadecimal digits.
        device: PyTorch device: ``cuda``, ``cuda:1``, ``cpu`` ... Default: the GPU if there is one.
        batch_size: images per batch; halved when GPU memory runs out.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only.
    Raises:
        UsageError: no such file, its SHA-256 is not given or another one, or it is no such network.
        MissingExtra: PyTorch is not installed.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        sha256: str | None = None,
        device: str | None = None,
        batch_size: int = 16,
        cache: Path | None = None,
    ) -> None:
        path = Path(path)
        digest = checked_sha256(path, expected=sha256)
        if sha256 is None or len(sha256) != _SHA256_DIGITS:
            raise UsageError(
                f"{path.name!r} is a program, and is run only when its whole SHA-256 is given. If you trust the file "
                f"and its source says the same number, write torchscript:{path}?sha256={digest}"
            )
        torch = require("torch", extra=EXTRA, purpose="TorchScript features")
        self._device = pick_device(device)
        self._batches = Batches(batch_size, self._device)
        try:
            self._network: Any = torch.jit.load(str(path), map_location=self._device).eval()
            probe = torch.zeros((1, 3, _PROBE_PX, _PROBE_PX), dtype=torch.uint8, device=self._device)
            with torch.inference_mode():
                shape = tuple(self._network(probe, return_features=True).shape)
        except Exception as err:  # a foreign file can fail in any way
            raise UsageError(
                f"{path.name!r} is no TorchScript network that answers network(pixels, return_features=True): "
                f"{type(err).__name__}: {' '.join(str(err).split())[:300]}"
            ) from err
        if len(shape) != 2:
            raise UsageError(f"{path.name!r} answers with shape {shape} for one image; expected (1, D)")
        super().__init__(name=feature_name("torchscript", digest[:12]), dim=shape[1], compute=self._look, cache=cache)

    def _look(self, images: Sequence[LoadedImage]) -> NDArray[np.float32]:
        return np.stack(self._batches.run(images, self._inputs, self._step))

    def _inputs(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        import torch

        return {"pixels": torch.from_numpy(np.ascontiguousarray(image.pixels.transpose(2, 0, 1)))}

    def _step(self, _: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> Sequence[NDArray[np.float32]]:
        return list(self._network(inputs["pixels"], return_features=True).float().cpu().numpy())
