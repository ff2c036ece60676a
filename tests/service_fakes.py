"""What tests of services share: time that only waiting moves, and options given flat."""

import threading
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from verism.services.retry import Clock


class FakeClock(Clock):
    """Time that only waiting moves.

    Attributes:
        time: seconds.
        waits: every wait, in seconds.
        nap_s: real seconds that each wait takes, in which other workers run.
    """

    def __init__(self, time: float = 1000.0, nap_s: float = 0.0005) -> None:
        self.time, self.nap_s, self.waits = time, nap_s, list[float]()
        self._lock = threading.Lock()

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float, halt: threading.Event) -> None:
        halt.wait(self.nap_s)
        with self._lock:
            self.waits.append(seconds)
            self.time += seconds


def grouped(groups: Mapping[str, type], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the parameter that takes them: those of a group's fields as that dataclass, the others as they are."""
    rest, made = dict(options), {}
    for name, cls in groups.items():
        made[name] = cls(**{f.name: rest.pop(f.name) for f in fields(cls) if f.name in rest})
    return rest | made
