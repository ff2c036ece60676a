"""Where networks run and in which numbers (PyTorch), and networks that come as ONNX files (onnxruntime, on the CPU)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from verism.errors import UsageError, require

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    Singles: TypeAlias = NDArray[np.float32]

__all__ = ["DTYPES", "float32_product", "onnx_session", "pick_device", "pick_dtype"]

DTYPES = ("float32", "float16", "bfloat16")


def pick_device(
    device: str | None,
    *,
    allow_mps: bool = False,
    extra: str = "models",
    purpose: str = "a model from a hub",
) -> torch.device:
    """The named device, once it has been seen to work; otherwise the best one there is.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:1``, ``mps`` ...; ``None`` or ``auto``: a GPU if there is one, else the CPU.
        allow_mps: whether an Apple GPU counts as one. Judges leave it out: what they measure should not change with it.
        extra: of the package, brings torch; for the message where it is missing.
        purpose: what torch is needed for; for the same message.

    Raises:
        MissingExtra: torch is not installed.
        UsageError: there is no such device, it is not in this machine, or this torch was built without it.
    """
    require("torch", extra=extra, purpose=purpose)
    import torch

    if device is None or device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if allow_mps and torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen)
    except (RuntimeError, AssertionError) as err:  # no device by its name, not there, or torch was built without it
        why = str(err).splitlines()[0].rstrip(".")
        raise UsageError(f"cannot compute on device {device!r}: {why}; try cpu, or auto") from err
    return chosen


def pick_dtype(dtype: str, *, extra: str = "models", purpose: str = "a model from a hub") -> torch.dtype:
    """The torch type of a name in ``DTYPES``.

    Args:
        dtype: ``float32``, ``float16`` or ``bfloat16``.
        extra: of the package, brings torch; for the message where it is missing.
        purpose: what torch is needed for; for the same message.

    Raises:
        MissingExtra: torch is not installed.
        UsageError: another name.
    """
    require("torch", extra=extra, purpose=purpose)
    import torch

    if dtype not in DTYPES:
        raise UsageError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    chosen: torch.dtype = getattr(torch, dtype)
    return chosen


def onnx_session(content: bytes, threads: int | None) -> Any:
    """A session of onnxruntime, used by one caller at a time.

    Args:
        content: content of the ONNX file.
        threads: within one batch; ``None`` leaves the choice to onnxruntime (one per core).

    Raises:
        UsageError: fewer than one thread.
        Exception: it is no network; onnxruntime's own errors share no public base class.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.inter_op_num_threads = 1
    # Threads of onnxruntime that wait for work would otherwise keep their cores busy, which those that decode the next
    # images need: the network alone is hardly faster so, and all else much slower.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if threads is not None:
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        options.intra_op_num_threads = threads
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def float32_product(device: str | None) -> Callable[[Singles, Singles, Singles], None]:
    """Matrix products by PyTorch, in full float32: what ``metrics.manifold.products_by`` takes.

    Args:
        device: as for ``pick_device``.

    Returns:
        A function of ``x`` (n, D), ``y`` (m, D) and ``out`` (n, m), all float32, that fills ``out`` with ``x @ y.T``.

    Raises:
        MissingExtra, UsageError: as ``pick_device``.
    """
    chosen = pick_device(device, extra="models", purpose="matrix products on a GPU")
    import numpy as np
    import torch

    def multiply(x: Singles, y: Singles, out: Singles) -> None:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # others may have allowed TF32
        try:
            a, b = (torch.from_numpy(np.ascontiguousarray(points)).to(chosen) for points in (x, y))
            torch.from_numpy(out).copy_(a @ b.T)
        finally:
            torch.set_float32_matmul_precision(before)

    return multiply
