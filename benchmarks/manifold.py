"""Precision, recall, density and coverage: speed and memory beside the ``prdc`` package and a bare matrix product.

    python benchmarks/manifold.py                           10,000 against 10,000 points, D = 2048, k = 3
    python benchmarks/manifold.py --points 30000 --alone    without the package, which needs more than 10 GB there
    python benchmarks/manifold.py --growth                  time and memory at 5,000 to 40,000 points
    python benchmarks/manifold.py --intervals               how often 95 % intervals hold the truth (minutes)

Every measurement runs in a process of its own; they take turns, and the shortest time counts. Memory is the peak of the
process beyond what it held with both feature sets made and all libraries loaded. Read the ratios: seconds differ
between machines. The peer is installed by ``pip install --no-deps prdc==0.2`` next to scikit-learn.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measuring import peak_mib

K = 3
DIM = 2048
PRODUCT_ROWS = 2048
GROWTH = (5_000, 10_000, 20_000, 40_000)
LIMITS = {"precision+coverage": 10.0, "all four": 3.0, "product": 1.2, "memory": 20.0}


def features(points: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    real = rng.standard_normal((points, DIM), dtype=np.float32)
    return real, rng.standard_normal((points, DIM), dtype=np.float32)


# ---------------------------------------------------------------------- inside a measuring process
def bare_product(real: np.ndarray, generated: np.ndarray) -> Callable[[], object]:
    out = np.empty((min(PRODUCT_ROWS, len(real)), len(generated)), np.float32)

    def run() -> None:
        for start in range(0, len(real), PRODUCT_ROWS):
            rows = real[start : start + PRODUCT_ROWS]
            np.matmul(rows, generated.T, out=out[: len(rows)])

    return run


def two_numbers(real: np.ndarray, generated: np.ndarray) -> Callable[[], object]:
    from verism.metrics.manifold import knn_radii, precision_coverage

    radii = knn_radii(real, K)  # of a reference set: computed once, not timed, but its memory counts
    return lambda: precision_coverage(real, generated, K, real_radii=radii)._asdict()


def four_numbers(real: np.ndarray, generated: np.ndarray) -> Callable[[], object]:
    from verism.metrics.manifold import prdc

    return lambda: prdc(real, generated, K)._asdict()


def package(real: np.ndarray, generated: np.ndarray) -> Callable[[], object]:
    from prdc import compute_prdc

    def run() -> object:
        with contextlib.redirect_stdout(sys.stderr):  # it prints
            return {name: float(value) for name, value in compute_prdc(real, generated, K).items()}

    return run


JOBS = {"product": bare_product, "two": two_numbers, "four": four_numbers, "package": package}


def measure(job: str, points: int) -> None:
    """Print seconds, peak MiB beyond the start, and what came out, as JSON."""
    real, generated = features(points)
    JOBS[job](real[:64], generated[:64])()  # libraries load, threads start
    bare_product(real[:1024], generated[:1024])()
    before = peak_mib()
    run = JOBS[job](real, generated)
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "mib": peak_mib() - before, "result": result}))


# ---------------------------------------------------------------------- the comparison
def in_turns(jobs: list[str], points: int, repeats: int) -> dict[str, dict[str, Any]]:
    """Shortest time and smallest peak of each job."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for job in jobs:
            command = [sys.executable, __file__, "--job", job, "--points", str(points)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            parsed = json.loads(done.stdout)
            old = best.setdefault(job, parsed)
            best[job] = {
                **parsed,
                "seconds": min(old["seconds"], parsed["seconds"]),
                "mib": min(old["mib"], parsed["mib"]),
            }
    return best


def line(what: str, found: dict[str, Any], note: str = "") -> str:
    return f"{what:<42} {found['seconds']:>8.2f} s {found['mib']:>8.0f} MiB  {note}"


def verdict(ratio: float, limit: float, at_least: bool) -> str:
    kept = ratio >= limit if at_least else ratio <= limit
    return f"{ratio:.2f} ({'within' if kept else 'MISSES'} the target of {limit:g})"


def compare(points: int, repeats: int, alone: bool) -> None:
    jobs = ["product", "two", "four"] + ([] if alone else ["package"])
    result = in_turns(jobs, points, repeats)
    times = {job: float(result[job]["seconds"]) for job in jobs}
    print(f"{points:,} real, {points:,} generated points, D = {DIM}, k = {K}, {os.cpu_count()} cores")
    print(line("matrix product alone, float32", result["product"]))
    note = "product x " + verdict(times["two"] / times["product"], LIMITS["product"], at_least=False)
    print(line("precision and coverage, radii at hand", result["two"], note))
    print(line("all four", result["four"], f"product x {times['four'] / times['product']:.2f}"))
    print("values", result["four"]["result"])
    if not alone:
        memory = float(result["package"]["mib"]) / max(float(result["two"]["mib"]), float(result["four"]["mib"]))
        print(line("prdc package", result["package"]))
        print("values", result["package"]["result"])
        two, four = (times["package"] / times[job] for job in ("two", "four"))
        print("speed-up, precision and coverage:", verdict(two, LIMITS["precision+coverage"], at_least=True))
        print("speed-up, all four:", verdict(four, LIMITS["all four"], at_least=True))
        print("memory, prdc package over ours:", verdict(memory, LIMITS["memory"], at_least=True))


def growth(repeats: int) -> None:
    for points in GROWTH:
        for job, what in (("two", "precision and coverage, radii at hand"), ("four", "all four")):
            print(line(f"{what}, {points:,}", in_turns([job], points, repeats)[job]), flush=True)


# ---------------------------------------------------------------------- intervals
def intervals(repetitions: int) -> None:
    """How often nominal 95 % intervals hold the mean of the estimates over all repetitions."""
    from verism.metrics.manifold import PRDC, half_samples

    def gaussian(dim: int, shift: float, scale: float = 1.0) -> Callable[[np.random.Generator, int], tuple]:
        return lambda rng, n: (rng.standard_normal((n, dim)), rng.standard_normal((n, dim)) * scale + shift)

    centres = np.random.default_rng(7).standard_normal((10, 16)) * 2

    def clusters(rng: np.random.Generator, n: int) -> tuple:
        real = centres[rng.integers(0, 10, n)] + rng.standard_normal((n, 16))
        return real, centres[rng.integers(0, 7, n)] + rng.standard_normal((n, 16)) * 0.8

    cases = [
        ("equal", gaussian(64, 0.0), 180),
        ("moved by 0.25 in every direction", gaussian(64, 0.25), 180),
        ("moved by 0.6", gaussian(64, 0.6), 180),
        ("moved by 1: hardly any overlap", gaussian(64, 1.0), 180),
        ("narrower, 0.7 times as wide", gaussian(64, 0.0, 0.7), 180),
        ("equal, 8 dimensions", gaussian(8, 0.0), 180),
        ("7 of 10 clusters, 16 dimensions", clusters, 180),
        ("equal, 500 + 500 points", gaussian(64, 0.0), 500),
        ("moved by 0.25, 500 + 500 points", gaussian(64, 0.25), 500),
    ]
    for number, (name, draw, n) in enumerate(cases):
        rng = np.random.default_rng([11, number])
        runs = [half_samples(*draw(rng, n), K, seed=i) for i in range(repetitions)]
        held = []
        for metric in PRDC._fields:
            truth = float(np.mean([getattr(run.values, metric) for run in runs]))
            ends = [run.interval(metric) for run in runs]
            held.append(np.mean([e.low - 1e-9 <= truth <= e.high + 1e-9 for e in ends]))
        print(f"{name:<37}" + "".join(f"  {100 * share:>6.1f} %" for share in held), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="without the prdc package")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--intervals", action="store_true")
    parser.add_argument("--repetitions", type=int, default=400, help="of each case of --intervals")
    parser.add_argument("--job", choices=tuple(JOBS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        measure(options.job, options.points)
    elif options.intervals:
        intervals(options.repetitions)
    elif options.growth:
        growth(options.repeats)
    elif not options.alone and importlib.util.find_spec("prdc") is None:
        parser.error("the peer is missing: pip install --no-deps prdc==0.2 (and scikit-learn), or use --alone")
    else:
        compare(options.points, options.repeats, options.alone)


if __name__ == "__main__":
    main()
