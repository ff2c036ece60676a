"""R-precision of 30,000 images, beside a plain loop over them: read the ratios, seconds differ between machines.

    python benchmarks/retrieval.py
    python benchmarks/retrieval.py --images 5000 --dim 768 --json

``loop`` is the released way, written plainly: for each repeat and image draw 99 texts, one product of 100 rows in
PyTorch, the first maximum. It is timed on some of the images, and multiplied. ``released`` gives the same number,
draw for draw; ``revised`` is the exact expectation over all pools, for which the loop has no counterpart at all;
``ranks`` gives the rank of each text among all. Every job runs in a process of its own: peak memory is what it takes on
top of the vectors, which are 2 x N x D x 4 bytes.

Seconds are of the clock, and of the processor (all threads): the latter hold on a busy machine, too, if the number of
threads is 1 (``OMP_NUM_THREADS=1``), as threads that wait for each other count as busy.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from measuring import peak_mib

from verism.metrics.retrieval import r_precision, ranks

POOL, REPEATS, SEED = 100, 5, 10
LOOPED = 2_000  # images the loop is timed on


@dataclass(frozen=True)
class Measured:
    """One job: its number, its seconds, how many times faster than the loop, and memory on top of the vectors."""

    job: str
    value: float
    clock_s: float
    clock_speedup: float
    processor_s: float
    processor_speedup: float
    peak_mb: float
    note: str = ""

    def line(self) -> str:
        return (
            f"{self.job:<10} {self.value:>7.4f}   clock {self.clock_s:>7.2f} s x {self.clock_speedup:<6.2f} processor "
            f"{self.processor_s:>7.2f} s x {self.processor_speedup:<6.2f} {self.peak_mb:>6.0f} MB  {self.note}"
        )


def vectors(n: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and texts of unequal lengths that agree about as well as those of the papers."""
    rng = np.random.default_rng(0)
    texts = rng.standard_normal((n, dim), dtype=np.float32) * rng.uniform(0.8, 1.2, size=(n, 1)).astype(np.float32)
    images = rng.standard_normal((n, dim), dtype=np.float32)
    images += np.float32(2.6 / dim**0.5) * texts
    return images, texts


def loop(images: np.ndarray, texts: np.ndarray) -> tuple[float, float]:
    """The value over the first images, and the share of the work that was."""
    import torch

    some = min(LOOPED, len(images))
    image_vectors, captions = torch.from_numpy(images), torch.from_numpy(texts)
    stream = random.Random(SEED)
    right = 0
    for _ in range(REPEATS):
        for i in range(some):
            drawn = stream.choices(range(len(texts)), k=POOL - 1)
            right += int((captions[[i, *drawn]] @ image_vectors[i]).argmax()) == 0
    return right / some / REPEATS, some / len(images)


def released(images: np.ndarray, texts: np.ndarray) -> tuple[float, float]:
    estimate = r_precision(images, texts, protocol="released", pool=POOL, repeats=REPEATS, seed=SEED)
    return estimate.value, 1.0


def revised(images: np.ndarray, texts: np.ndarray) -> tuple[float, float]:
    return r_precision(images, texts, pool=POOL).value, 1.0


def all_ranks(images: np.ndarray, texts: np.ndarray) -> tuple[float, float]:
    return float(np.mean(ranks(images, texts).better == 0)), 1.0


JOBS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[float, float]]] = {
    "loop": loop,
    "released": released,
    "revised": revised,
    "ranks": all_ranks,
}


def measure(job: str, n: int, dim: int) -> tuple[float, float, float, float, float]:
    """Value, seconds of clock and processor, share of the work and memory of one job, in this process."""
    images, texts = vectors(n, dim)
    JOBS[job](images[:200], texts[:200])  # libraries are loaded, threads started
    before = peak_mib()
    clock, processor = time.perf_counter(), time.process_time()
    value, share = JOBS[job](images, texts)
    return value, time.perf_counter() - clock, time.process_time() - processor, share, peak_mib() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=30_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    options = parser.parse_args()
    results: list[Measured] = []
    for job in JOBS:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            value, clock, processor, share, peak = process.apply(measure, (job, options.images, options.dim))
        note = "" if share == 1 else f"{clock:.2f} s for {share:.1%} of the images, multiplied"
        clock, processor = clock / share, processor / share
        peer = results[0] if results else None
        results.append(
            Measured(
                job=job,
                value=value,
                clock_s=clock,
                clock_speedup=peer.clock_s / clock if peer else 1.0,
                processor_s=processor,
                processor_speedup=peer.processor_s / processor if peer else 1.0,
                peak_mb=peak,
                note=note,
            )
        )
        if not options.json:
            print(results[-1].line(), flush=True)
    if options.json:
        print(json.dumps([asdict(row) for row in results], indent=1))


if __name__ == "__main__":
    main()
