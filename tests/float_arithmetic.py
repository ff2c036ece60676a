"""Arithmetic that does not depend on the processor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch


@contextmanager
def in_float32() -> Iterator[None]:
    """Networks compute in float32 where they would in bfloat16.

    bfloat16 keeps 8 bits, and its sums differ from processor to processor; where a processor has no instructions for
    it, it is also ten times slower. What a test asserts about arithmetic should not depend on that.
    """
    with pytest.MonkeyPatch.context() as patch:
        usual = torch.autocast
        patch.setattr(torch, "autocast", lambda device_type, *_, **__: usual(device_type, enabled=False))
        yield
