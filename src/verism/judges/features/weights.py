"""Files of weights: read without running anything in them, checked by content, loaded strictly."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA

if TYPE_CHECKING:
    import torch

__all__ = ["HUB", "checked_sha256", "fill", "located", "read_tensors"]

HUB = "hf://"
_COUNTERS = "num_batches_tracked"  # of batch normalisation; training alone reads them, older files lack them


def located(place: str | Path, *, revision: str | None = None) -> Path:
    """The file of weights: a path, or ``hf://OWNER/REPOSITORY/FILE`` for one of the Hugging Face hub.

    A file of the hub is downloaded once, into the hub library's own cache. Which file it is, its SHA-256 tells.

    Raises:
        UsageError: an address without a file, or one that cannot be fetched.
        MissingExtra: the hub library is not installed.
    """
    if not str(place).startswith(HUB):
        if revision is not None:
            raise UsageError(f"revision={revision} is for files of the hub ({HUB}OWNER/REPOSITORY/FILE), not {place}")
        return Path(place)
    parts = str(place).removeprefix(HUB).split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise UsageError(f"{place}: a file of the hub is written {HUB}OWNER/REPOSITORY/FILE")
    hub = require("huggingface_hub", extra=EXTRA, purpose="weights from the Hugging Face hub")
    try:
        return Path(hub.hf_hub_download(f"{parts[0]}/{parts[1]}", parts[2], revision=revision))
    except Exception as err:  # the library has a dozen, of several families, for what may go wrong on the way
        raise UsageError(f"{place} cannot be fetched: {str(err).strip().splitlines()[0]}") from err


def checked_sha256(path: Path, *, expected: str | None) -> str:
    """SHA-256 of a file's bytes, 64 hexadecimal digits.

    Files of the PyTorch hub carry the first eight digits in their names (``inception_v3_google-0cc3c7bd.pth``); these
    are checked, too.

    Args:
        path: the file.
        expected: the hexadecimal digits it must begin with, 8 to 64; None: any.
    Raises:
        UsageError: no such file, or another content than expected.
    """
    if not path.is_file():
        raise UsageError(f"no file of weights at {str(path)!r}; give the path of a .pth, .pt or .safetensors file")
    if expected is not None and not re.fullmatch("[0-9a-fA-F]{8,64}", expected):
        raise UsageError(f"sha256 must be 8 to 64 hexadecimal digits, not {expected!r}")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if expected is not None and not digest.startswith(expected.lower()):
        raise UsageError(f"{path.name!r} has sha256 {digest}, expected {expected.lower()}: it is another file")
    named = re.search(r"-([0-9a-f]{8})\.pth$", path.name)
    if named and not digest.startswith(named.group(1)):
        raise UsageError(
            f"{path.name!r} has sha256 {digest}, which its own name says begins with {named.group(1)}: it is damaged "
            "or "
            "incomplete. Download it again; or rename it, if it is meant to be another file."
        )
    return digest


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name from ``.safetensors``, or from PyTorch's own format with nothing but tensors unpickled.

    Raises:
        UsageError: no such file, or one that holds something else.
        MissingExtra: PyTorch is not installed.
    """
    torch = require("torch", extra=EXTRA, purpose="reading weights")
    content: Any
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as err:  # a foreign file can fail in any way
        raise UsageError(
            f"cannot read {str(path)!r} as plain tensors ({type(err).__name__}: {' '.join(str(err).split())[:300]}). "
            "Expected a state dictionary in .pth or .safetensors; a TorchScript file is read as torchscript:FILE."
        ) from err
    if not isinstance(content, Mapping) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise UsageError(f"{str(path)!r} holds no plain dictionary of tensors; save the model's state_dict()")
    return {str(key): value for key, value in content.items()}


def fill(
    network: torch.nn.Module,
    weights: Mapping[str, torch.Tensor],
    *,
    source: str,
    unused: Callable[[str], bool] = lambda _: False,
    hint: str = "",
) -> None:
    """Give a network its weights, as float32; counters of batch normalisation may be absent.

    Args:
        network: gets the weights, in place; may be on the device "meta", where making it costs nothing.
        weights: tensors by their names in the network's ``state_dict``.
        source: where the weights come from, for messages.
        unused: whether a name in the file is known to be of no use to this network.
        hint: text that is put behind the message of an error.
    Raises:
        UsageError: weights are missing, left over, or of another shape; the names are told.
    """
    import torch

    expected = network.state_dict()
    missing = sorted(key for key in expected if key not in weights and not key.endswith(_COUNTERS))
    unexpected = sorted(key for key in weights if key not in expected and not unused(key))
    other = sorted(
        f"{key} {tuple(weights[key].shape)} instead of {tuple(value.shape)}"
        for key, value in expected.items()
        if key in weights and weights[key].shape != value.shape
    )
    if missing or unexpected or other:
        parts = [
            f"{len(keys)} {what}: {', '.join(keys[:6])}{' ...' if len(keys) > 6 else ''}"
            for what, keys in (("missing", missing), ("unexpected", unexpected), ("of another shape", other))
            if keys
        ]
        raise UsageError(f"the weights in {source!r} do not fit the network; {'; '.join(parts)}.{hint}")
    network.load_state_dict(
        {
            key: torch.zeros(value.shape, dtype=value.dtype)
            if key not in weights
            else weights[key].to(value.dtype, copy=True)
            for key, value in expected.items()
        },
        assign=True,
    )
