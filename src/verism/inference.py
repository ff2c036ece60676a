"""Networks that come as ONNX files, on the processor by onnxruntime."""

from __future__ import annotations

from typing import Any

from verism.errors import UsageError

__all__ = ["onnx_session"]


def onnx_session(content: bytes, threads: int | None) -> Any:
    """A session of onnxruntime, used by one caller at a time.

    Args:
        content: of the file.
        threads: within one batch; ``None`` leaves the choice to onnxruntime (one per core).

    Raises:
        UsageError: fewer than one thread.
        Exception: it is no network; onnxruntime's own errors share no public base class.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.inter_op_num_threads = 1
    if threads is not None:
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        options.intra_op_num_threads = threads
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
