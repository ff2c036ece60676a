"""Precision, recall, density and coverage: speed and memory beside the ``prdc`` package and a bare matrix product.

    python benchmarks/manifold.py                           10,000 against 10,000 points, D = 2048, k = 3
    python benchmarks/manifold.py --points 30000 --alone    without the package, which needs more than 10 GB there
    python benchmarks/manifold.py --growth                  time and memory at 5,000 to 40,000 points
    python benchmarks/manifold.py --intervals               how often 95 % intervals hold the truth (three minutes)

Every measurement runs in a process of its own; they take turns, and the shortest time counts. What intervals cost is
the median of the ratios of single turns, and the ratio of processor times, which a busy machine hardly changes. Memory
is the peak of the process beyond what it held with both feature sets made and all libraries loaded. Read the ratios:
seconds differ between machines. The peer is installed by ``pip install --no-deps prdc==0.2`` next to scikit-learn.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import statistics
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
LIMITS = {"precision+coverage": 10.0, "all four": 3.0, "product": 1.2, "intervals": 1.5, "memory": 20.0}


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


def with_intervals(real: np.ndarray, generated: np.ndarray) -> Callable[[], object]:
    from verism.metrics.manifold import PRDC, half_samples

    prompts = np.arange(len(generated)) // 4

    def run() -> object:
        halves = half_samples(real, generated, K, seed=0, clusters=prompts)
        return {name: halves.interval(name) for name in PRDC._fields}

    return run


def package(real: np.ndarray, generated: np.ndarray) -> Callable[[], object]:
    from prdc import compute_prdc

    def run() -> object:
        with contextlib.redirect_stdout(sys.stderr):  # it prints
            return {name: float(value) for name, value in compute_prdc(real, generated, K).items()}

    return run


JOBS = {
    "product": bare_product,
    "two": two_numbers,
    "four": four_numbers,
    "intervals": with_intervals,
    "package": package,
}


def measure(job: str, points: int) -> None:
    """Print seconds, peak MiB beyond the start, and what came out, as JSON."""
    real, generated = features(points)
    JOBS[job](real[:64], generated[:64])()  # libraries load, threads start
    bare_product(real[:1024], generated[:1024])()
    before = peak_mib()
    run = JOBS[job](real, generated)
    start, busy = time.perf_counter(), time.process_time()
    result = run()
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    print(json.dumps({"seconds": seconds, "busy": busy, "mib": peak_mib() - before, "result": result}))


# ---------------------------------------------------------------------- the comparison
def in_turns(jobs: list[str], points: int, repeats: int) -> dict[str, dict[str, Any]]:
    """Shortest time and smallest peak of each job, and its times turn by turn."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for job in jobs:
            command = [sys.executable, __file__, "--job", job, "--points", str(points)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            parsed = json.loads(done.stdout)
            old = best.setdefault(job, {**parsed, "turns": []})
            best[job] = {
                **parsed,
                "seconds": min(old["seconds"], parsed["seconds"]),
                "busy": min(old["busy"], parsed["busy"]),
                "mib": min(old["mib"], parsed["mib"]),
                "turns": [*old["turns"], parsed["seconds"]],
            }
    return best


def line(what: str, found: dict[str, Any], note: str = "") -> str:
    return f"{what:<42} {found['seconds']:>8.2f} s {found['mib']:>8.0f} MiB  {note}"


def verdict(ratio: float, limit: float, at_least: bool) -> str:
    kept = ratio >= limit if at_least else ratio <= limit
    return f"{ratio:.2f} ({'within' if kept else 'MISSES'} the target of {limit:g})"


def compare(points: int, repeats: int, alone: bool) -> None:
    jobs = ["product", "two", "four", "intervals"] + ([] if alone else ["package"])
    result = in_turns(jobs, points, repeats)
    times = {job: float(result[job]["seconds"]) for job in jobs}
    print(f"{points:,} real, {points:,} generated points, D = {DIM}, k = {K}, {os.cpu_count()} cores")
    print(line("matrix product alone, float32", result["product"]))
    note = "product x " + verdict(times["two"] / times["product"], LIMITS["product"], at_least=False)
    print(line("precision and coverage, radii at hand", result["two"], note))
    print(line("all four", result["four"], f"product x {times['four'] / times['product']:.2f}"))
    pairs = zip(result["intervals"]["turns"], result["four"]["turns"], strict=True)
    cost = statistics.median(whole / alone_ for whole, alone_ in pairs)
    busy = result["intervals"]["busy"] / result["four"]["busy"]
    note = f"all four x {verdict(cost, LIMITS['intervals'], at_least=False)}; processor time x {busy:.2f}"
    print(line("all four with intervals", result["intervals"], note))
    print("values", result["four"]["result"])
    if not alone:
        memory = float(result["package"]["mib"]) / max(float(result["two"]["mib"]), float(result["four"]["mib"]))
        print(line("prdc package", result["package"]))
        print("values", result["package"]["result"])
        two, four = (times["package"] / times[job] for job in ("two", "four"))
        print("speed-up, precision and coverage:", verdict(two, LIMITS["precision+coverage"], at_least=True))
        print("speed-up, all four:", verdict(four, LIMITS["all four"], at_least=True))
        busy = result["package"]["busy"] / result["intervals"]["busy"]
        speed = times["package"] / times["intervals"]
        print(f"speed-up, all four with intervals: {speed:.2f}; in processor time {busy:.2f}")
        print("memory, prdc package over ours:", verdict(memory, LIMITS["memory"], at_least=True))


def growth(repeats: int) -> None:
    for points in GROWTH:
        for job, what in (
            ("two", "precision and coverage, radii at hand"),
            ("four", "all four"),
            ("intervals", "all four with intervals"),
        ):
            print(line(f"{what}, {points:,}", in_turns([job], points, repeats)[job]), flush=True)


# ---------------------------------------------------------------------- intervals
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def gaussian(dim: int, shift: float, scale: float = 1.0) -> Draw:
    return lambda rng, n: (rng.standard_normal((n, dim)), rng.standard_normal((n, dim)) * scale + shift)


CENTRES = np.random.default_rng(7).standard_normal((10, 16)) * 2


def clusters(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    real = CENTRES[rng.integers(0, 10, n)] + rng.standard_normal((n, 16))
    return real, CENTRES[rng.integers(0, 7, n)] + rng.standard_normal((n, 16)) * 0.8


MAP, BEND = (np.random.default_rng(s).standard_normal(shape) for s, shape in ((99, (6, 32)), (98, (32, 32))))


def surface(latent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points on a curved surface of 6 dimensions in 32, and a little beside it."""
    return np.sin(np.tanh(latent @ MAP) @ BEND / 3) + 0.1 * rng.standard_normal((len(latent), 32))


# Share of the prompts that a model cannot follow, and how far off its images then are.
FAILED = {"failed": (0.15, 0.0), "mostly failed": (0.9, 3.0)}


def of_prompts(rng: np.random.Generator, sizes: list[int], icc: float, kind: str) -> tuple[np.ndarray, ...]:
    """150 real points on the surface, generated ones of prompts with that intraclass correlation, and their prompts."""
    real, prompt = rng.standard_normal((150, 6)), np.repeat(np.arange(len(sizes)), sizes)
    latent = math.sqrt(icc) * rng.standard_normal((len(sizes), 6))[prompt]
    latent += math.sqrt(1 - icc) * rng.standard_normal((len(prompt), 6))
    if kind == "kinds":  # the model knows two of five
        real = CENTRES[rng.integers(0, 5, 150), :6] + 0.5 * real
        latent = CENTRES[rng.integers(0, 2, len(sizes))[prompt], :6] + 0.5 * latent
    latent = latent * (0.7 if kind == "narrower" else 1) + (0.5 if kind == "moved" else 0)
    generated = surface(latent, rng)
    if kind in FAILED:
        share, offset = FAILED[kind]
        failed = (rng.random(len(sizes)) < share)[prompt, None]
        generated += np.where(failed, offset + 0.5 * rng.standard_normal(generated.shape), 0)
    return surface(real, rng), generated, prompt


def intervals(repetitions: int) -> None:
    """How often nominal 95 % intervals hold the mean of the estimates over all repetitions."""
    from verism.metrics.manifold import PRDC, HalfSamples, half_samples

    def held(runs: list[HalfSamples]) -> str:
        shares = []
        for metric in PRDC._fields:
            truth = float(np.mean([getattr(run.values, metric) for run in runs]))
            ends = [run.interval(metric) for run in runs]
            shares.append(np.mean([e.low - 1e-9 <= truth <= e.high + 1e-9 for e in ends]))
        return "".join(f"  {100 * share:>6.1f} %" for share in shares)

    single: list[tuple[str, Draw, int]] = [
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
    print(f"{'':<37}" + "".join(f"  {name:>8}" for name in PRDC._fields))
    for number, (name, draw, n) in enumerate(single):
        rng = np.random.default_rng([11, number])
        print(f"{name:<37}" + held([half_samples(*draw(rng, n), K, seed=i) for i in range(repetitions)]), flush=True)
    ten = [10] * 15
    prompts: list[tuple[str, list[int], float, str]] = [
        ("15 prompts of 10, icc .2", ten, 0.2, "equal"),
        ("15 prompts of 10, icc .5", ten, 0.5, "equal"),
        ("15 prompts of 10, icc 1", ten, 1.0, "equal"),
        ("the same at .5, moved", ten, 0.5, "moved"),
        ("the same at .5, narrower", ten, 0.5, "narrower"),
        ("the same at .5, two kinds of five", ten, 0.5, "kinds"),
        ("the same at .5, some failed", ten, 0.5, "failed"),
        ("30 prompts of 5, icc .8", [5] * 30, 0.8, "equal"),
        ("40 prompts of 4, icc .5", [4] * 40, 0.5, "equal"),
        ("6 prompts of 25, icc .5", [25] * 6, 0.5, "equal"),
        ("15 prompts of 1 to 20, icc .5", [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 15, 16, 16, 18, 20], 0.5, "equal"),
        ("15 prompts of 10, nine in ten failed", ten, 0.5, "mostly failed"),
    ]
    print("\nwhole prompts in a half, and below as if each image had a prompt of its own")
    for number, (name, sizes, icc, kind) in enumerate(prompts):
        rng = np.random.default_rng([13, number])
        draws = [of_prompts(rng, sizes, icc, kind) for _ in range(repetitions)]
        whole = [half_samples(x, y, K, seed=i, clusters=prompt) for i, (x, y, prompt) in enumerate(draws)]
        alone = [half_samples(x, y, K, seed=i) for i, (x, y, _) in enumerate(draws)]
        widths = [np.mean([np.ptp(r.interval("coverage")[1:]) for r in runs]) for runs in (whole, alone)]
        note = f"  coverage's interval x {widths[0] / widths[1]:.2f}"
        print(f"{name:<37}" + held(whole) + note, f"{'':<37}" + held(alone), sep="\n", flush=True)


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
