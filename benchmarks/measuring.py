"""What the benchmarks share: a line of a result, jobs in turn, and the peak memory of a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Measured", "best_of", "least_processor_time", "peak_mib"]


@dataclass(frozen=True)
class Measured:
    """One line: a number with its unit, and how it relates to the peer of its section (1.0 is the peer itself)."""

    section: str
    what: str
    value: float
    unit: str
    ratio: float
    note: str = ""

    def line(self) -> str:
        return f"{self.section:<9} {self.what:<44} {self.value:>12.3f} {self.unit:<18} x {self.ratio:<8.2f} {self.note}"


def best_of(repeats: int, *jobs: Callable[[], object]) -> list[float]:
    """Shortest wall time of each job. Jobs take turns, so that a busy moment of the machine hits all of them."""
    best = [float("inf")] * len(jobs)
    for _ in range(repeats):
        for number, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def least_processor_time(repeats: int, *jobs: Callable[[], object]) -> list[float]:
    """Least processor time of each job, of all threads together; other programs change it less than wall time."""
    least = [float("inf")] * len(jobs)
    for _ in range(repeats):
        for number, job in enumerate(jobs):
            start = time.process_time()
            job()
            least[number] = min(least[number], time.process_time() - start)
    return least


def peak_mib() -> float:
    """Largest resident size of this process so far; unlike ru_maxrss, without that of the process it was started by."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not tell the peak memory of a process")
