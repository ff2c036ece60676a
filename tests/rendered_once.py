"""Images of the simulator, remembered: most tests of runs render the scenes that other tests have rendered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import wraps
from threading import Lock
from typing import Any

import numpy as np
import pytest

from verism.simulator.portraits import PeopleRenderer
from verism.simulator.scene_renderer import SceneRenderer

__all__ = ["rendering_once"]

BYTES = 2**28


class Memory:
    """What was rendered last, as far as it fits; everybody gets a copy of their own."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Hashable, Any] = OrderedDict()
        self.bytes = 0
        self.lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        with self.lock:
            found = self.kept.pop(key, None)
            if found is not None:
                self.kept[key] = found
        if found is None:
            found = make()
            with self.lock:
                self.bytes += size_of(found) - size_of(self.kept.pop(key, None))
                self.kept[key] = found
                while self.bytes > BYTES:
                    self.bytes -= size_of(self.kept.popitem(last=False)[1])
        return replace(found, **dict(arrays_of(found, copied=True)))


def arrays_of(rendered: Any, *, copied: bool = False) -> Iterator[tuple[str, np.ndarray]]:
    for field in fields(rendered):
        value = getattr(rendered, field.name)
        if isinstance(value, np.ndarray):
            yield field.name, value.copy() if copied else value


def size_of(rendered: Any) -> int:
    return 0 if rendered is None else sum(array.nbytes for _, array in arrays_of(rendered))


MEMORY = Memory()


@contextmanager
def rendering_once() -> Iterator[None]:
    """Within it, the same scene of the same renderer is rendered once; what fails is tried again each time."""
    scene, person = SceneRenderer.render, PeopleRenderer.render

    @wraps(scene)
    def of_scene(self: SceneRenderer, asked: Any) -> Any:
        # The catalogue itself is in the key, so that it stays, and no other one gets its place in memory.
        return MEMORY.get((self.size, self.min_visible, Same(self.catalogue), asked), lambda: scene(self, asked))

    @wraps(person)
    def of_person(self: PeopleRenderer, **asked: Any) -> Any:
        key = (self.name, *((k, frozenset(v) if k == "worn" else v) for k, v in sorted(asked.items())))
        return MEMORY.get(key, lambda: person(self, **asked))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SceneRenderer, "render", of_scene)
        patched.setattr(PeopleRenderer, "render", of_person)
        yield


class Same:
    """A thing in a key: equal to itself alone."""

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)
