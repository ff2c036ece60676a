"""What PyTorch, diffusers and transformers say and hold: log lines, memory, versions."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from verism.errors import require

EXTRA = "generate"
PURPOSE = "a text-to-image model from the Hugging Face hub"
_DERIVED = ("position_ids", "inv_freq", "num_batches_tracked")  # follow from the configuration; seldom saved


def out_of_memory(err: BaseException) -> bool:
    """Whether memory ran out: on a GPU, or on the processor, where torch says it only in words."""
    torch = require("torch", extra=EXTRA, purpose=PURPOSE)
    if isinstance(err, torch.OutOfMemoryError | MemoryError):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")
    return isinstance(err, RuntimeError) and any(w in str(err).lower() for w in words)


def free_memory(device: Any) -> None:
    import gc

    torch = require("torch", extra=EXTRA, purpose=PURPOSE)
    gc.collect()  # pipelines hold tensors in reference cycles
    if device.type in ("cuda", "mps"):
        getattr(torch, device.type).empty_cache()


def first_line(err: BaseException) -> str:
    text = " ".join(str(err).split())
    return text if len(text) <= 300 else f"{text[:297]}..."


@contextlib.contextmanager
def overheard() -> Iterator[list[str]]:
    """Keep the libraries' log lines and progress bars off the terminal for a while; the lines are in the list."""
    lines: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(re.sub(r"\x1b\[[0-9;]*m", "", record.getMessage()))  # without colours

    switches = [
        require(f"{library}.utils.logging", extra=EXTRA, purpose=PURPOSE) for library in ("diffusers", "transformers")
    ]
    loggers = [logging.getLogger(name) for name in ("diffusers", "transformers", "huggingface_hub")]
    kept = [(one, one.handlers, one.level, one.propagate) for one in loggers]
    bars = [one for one in switches if one.is_progress_bar_enabled()]
    ear = Ear()
    try:
        for one in loggers:
            one.handlers, one.propagate = [ear], False
            one.setLevel(logging.WARNING)
        for switch in bars:
            switch.disable_progress_bar()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield lines
    finally:
        for one, handlers, level, propagate in kept:
            one.handlers, one.propagate = handlers, propagate
            one.setLevel(level)
        for switch in bars:
            switch.enable_progress_bar()


def made_up(lines: Sequence[str]) -> list[str]:
    """Names of weights that no file held: transformers and diffusers fill them with random numbers and only log it.

    Args:
        lines: what the libraries logged while they loaded.
    """
    names: list[str] = []
    for line in lines:
        names += re.findall(r"^(\S+)\s*\|\s*MISSING\b", line, re.MULTILINE)  # rows of transformers' report
        if "newly initialized" in line and (listed := re.search(r"newly initialized[^\[]*\[(.*?)\]", line, re.DOTALL)):
            names += re.findall(r"'([^']+)'", listed.group(1))
    return [name for name in names if not name.endswith(_DERIVED)]


def versions() -> dict[str, str]:
    from importlib import metadata

    results = {}
    for name in ("diffusers", "torch", "transformers", "accelerate", "peft", "safetensors", "huggingface_hub"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            results[name] = metadata.version(name)
    return results


def device_name(device: Any) -> str | None:
    torch = require("torch", extra=EXTRA, purpose=PURPOSE)
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
