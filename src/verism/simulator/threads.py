"""One thread for the arithmetic of the renderer: its matrices are small, and threads of BLAS that wait cost a core."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["single_threaded"]

P = ParamSpec("P")
R = TypeVar("R")


@lru_cache(maxsize=1)
def _controller() -> Any:
    """What sets the threads of the libraries that are loaded; finding them takes milliseconds, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def single_threaded(function: Callable[P, R]) -> Callable[P, R]:
    """The function with BLAS on one thread while it runs; what others set before is theirs again afterwards.

    Args:
        function: whose products of matrices are too small to gain from several threads.
    """

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
