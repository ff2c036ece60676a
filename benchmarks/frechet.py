"""The Fréchet distance beside the usual ways to compute it: read the ratios, seconds differ between machines.

    python benchmarks/frechet.py                      2048 features, all routes in turn, memory, growth
    python benchmarks/frechet.py --dim 512 --repeats 5 --json

``ours``: ``frechet_distance``, Cholesky and symmetric eigenvalues without vectors. It may take a fifth of the time of
the general eigenvalues and a tenth of that of SciPy's matrix root, and has to agree with them to 1e-6.
``eigvals (numpy)``: eigenvalues of the product of both covariances, as torch-fidelity 0.4 does.
``eigvals (torch)``: the same in PyTorch, as torchmetrics 1.9 does.
``sqrtm (scipy)``: a general matrix root, as pytorch-fid and the TTUR authors do.
``torch-fidelity``, ``torchmetrics``: their own functions, where they can be imported (see ``benchmarks/peers``).

Routes take turns, so that a busy moment of the machine hits all of them. Beside the seconds of the clock stand those of
the processors: they hold on a busy machine with one thread (``OMP_NUM_THREADS=1``). Peak memory is that of one call in
a process of its own, beyond the two covariances it is given. ``moments`` is mean and covariance of N images from
float32 features, in batches; ``few`` the whole distance of N images, fewer than features.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Measured, peak_mib
from numpy.typing import NDArray

from verism.metrics.frechet import FeatureMoments, frechet_distance, frechet_from_features

LIMITS = {"eigvals (numpy)": 5.0, "eigvals (torch)": 5.0, "sqrtm (scipy)": 10.0}
GOAL_DIM = 2048  # goals are for this size: fixed costs weigh more below
TOLERANCE = 1e-6

Floats = NDArray[np.float64]
Route = Callable[[Floats, Floats, Floats, Floats], float]


def with_numpy(mean_a: Floats, cov_a: Floats, mean_b: Floats, cov_b: Floats) -> float:
    roots = np.sqrt(np.linalg.eigvals(cov_a @ cov_b).astype(np.complex128)).real.sum()
    step = mean_a - mean_b
    return float(step @ step + np.trace(cov_a) + np.trace(cov_b) - 2 * roots)


def with_torch(mean_a: Floats, cov_a: Floats, mean_b: Floats, cov_b: Floats) -> float:
    import torch

    a, b, step = torch.from_numpy(cov_a), torch.from_numpy(cov_b), torch.from_numpy(mean_a - mean_b)
    return float(step @ step + a.trace() + b.trace() - 2 * torch.linalg.eigvals(a @ b).sqrt().real.sum())


def with_scipy(mean_a: Floats, cov_a: Floats, mean_b: Floats, cov_b: Floats) -> float:
    from scipy.linalg import sqrtm

    step = mean_a - mean_b
    return float(step @ step + np.trace(cov_a) + np.trace(cov_b) - 2 * np.trace(sqrtm(cov_a @ cov_b)).real)


def with_torch_fidelity(mean_a: Floats, cov_a: Floats, mean_b: Floats, cov_b: Floats) -> float:
    from torch_fidelity.metric_fid import KEY_METRIC_FID, fid_statistics_to_metric

    result = fid_statistics_to_metric({"mu": mean_a, "sigma": cov_a}, {"mu": mean_b, "sigma": cov_b}, False)
    return float(result[KEY_METRIC_FID])


def with_torchmetrics(mean_a: Floats, cov_a: Floats, mean_b: Floats, cov_b: Floats) -> float:
    import torch
    from torchmetrics.image.fid import _compute_fid

    return float(_compute_fid(*(torch.from_numpy(part) for part in (mean_a, cov_a, mean_b, cov_b))))


ROUTES: dict[str, Route] = {
    "ours": frechet_distance,
    "eigvals (numpy)": with_numpy,
    "eigvals (torch)": with_torch,
    "sqrtm (scipy)": with_scipy,
    "torch-fidelity": with_torch_fidelity,
    "torchmetrics": with_torchmetrics,
}
NEEDS = {
    "eigvals (torch)": "torch",
    "torch-fidelity": "torch_fidelity.metric_fid",
    "torchmetrics": "torchmetrics.image",
}


def importable() -> tuple[list[str], list[str]]:
    """Routes that can run here, and those that cannot."""
    import importlib

    usable, missing = [], []
    for name in ROUTES:
        try:
            if name in NEEDS:
                if name in ("torch-fidelity", "torchmetrics"):
                    _stub_torchvision()
                importlib.import_module(NEEDS[name])
        except (ImportError, RuntimeError):  # RuntimeError: a torchvision built for another torch
            missing.append(name)
        else:
            usable.append(name)
    return usable, missing


def _stub_torchvision() -> None:
    sys.path.insert(0, str(Path(__file__).parent / "peers"))
    from torchvision_stub import import_torchvision

    import_torchvision()


def features(n: int, dim: int, seed: int) -> NDArray[np.float32]:
    """Rectified mixtures of a few hundred hidden numbers and noise, whose weights are a little different for each seed.

    Covariances of such features have full rank, a few large directions, and do not commute: where they do, general
    eigenvalues come several times as fast as they ever do for images.
    """
    rng = np.random.default_rng(seed)
    hidden = max(1, dim // 8)
    falling = np.logspace(0.6, -1.4, hidden, dtype=np.float32)[:, None] / 16
    shared = np.random.default_rng(1).standard_normal((hidden, dim), dtype=np.float32)
    subset = rng.standard_normal((hidden, dim), dtype=np.float32)
    mixed = rng.standard_normal((n, hidden), dtype=np.float32) @ ((shared + 0.3 * subset) * falling)
    mixed += 0.3 * rng.standard_normal((n, dim), dtype=np.float32) - np.float32(0.2)
    return np.maximum(mixed, 0, out=mixed)


def peak_memory(route: str, folder: Path) -> float:
    """MiB that one call adds to the peak of a process which holds the covariances."""
    command = [sys.executable, __file__, "--child", route, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1])


def _child(route: str, folder: Path) -> None:
    if route in ("torch-fidelity", "torchmetrics"):
        _stub_torchvision()
    values = [np.load(folder / f"{name}.npy") for name in ("mean_a", "cov_a", "mean_b", "cov_b")]
    small = [part[:16] if part.ndim == 1 else part[:16, :16].copy() for part in values]
    ROUTES[route](*small)  # libraries are loaded before the measurement
    before = peak_mib()
    ROUTES[route](*values)
    print(peak_mib() - before)


def benchmark_routes(dim: int, images: int, repeats: int, wanted: Sequence[str]) -> Iterator[Measured]:
    present: list[Floats] = []
    for seed in (2, 3):
        moments = FeatureMoments.of(features(images, dim, seed))
        present += [moments.mean, moments.covariance]
    usable, missing = importable()
    usable = [name for name in usable if name == "ours" or name in wanted]
    times, processor = dict.fromkeys(usable, math.inf), dict.fromkeys(usable, math.inf)
    values = {}
    for name in usable:  # libraries are loaded before the measurement
        ROUTES[name](np.zeros(8), np.eye(8), np.zeros(8), np.eye(8))
    for _ in range(repeats):
        for name in usable:
            start, worked = time.perf_counter(), time.process_time()
            values[name] = ROUTES[name](*present)
            times[name] = min(times[name], time.perf_counter() - start)
            processor[name] = min(processor[name], time.process_time() - worked)
    for name in usable:
        difference = abs(values[name] / values["ours"] - 1)
        limit = LIMITS.get(name) if dim >= GOAL_DIM else None
        note = f"value {values[name]:.9g}, differs by {difference:.1e}"
        if difference > TOLERANCE:
            note += f" TOO MUCH, at most {TOLERANCE:g}"
        if limit is not None:
            met = times[name] >= limit * times["ours"]
            note += f"; goal x {limit:g} {'met' if met else 'MISSED'}"
        yield Measured("time", name, times[name], "s", times[name] / times["ours"], note)
    for name in usable:
        yield Measured("processor", name, processor[name], "s", processor[name] / processor["ours"])
    for name in missing:
        yield Measured("time", name, math.nan, "s", math.nan, "cannot be imported here")
    with tempfile.TemporaryDirectory() as folder:
        for name, part in zip(("mean_a", "cov_a", "mean_b", "cov_b"), present, strict=True):
            np.save(Path(folder) / f"{name}.npy", part)
        ours = peak_memory("ours", Path(folder))
        for name in usable:
            used = ours if name == "ours" else peak_memory(name, Path(folder))
            yield Measured("memory", name, used, "MiB", used / ours)


def benchmark_growth(dim: int, sizes: Sequence[int]) -> Iterator[Measured]:
    first = math.nan
    pool = features(max(sizes), dim, 5)
    for n in sizes:
        start = time.perf_counter()
        FeatureMoments.of(pool[:n])
        took = time.perf_counter() - start
        first = took if math.isnan(first) else first
        yield Measured("moments", f"N = {n:,}", took, "s", took / first, "against the first line")
    few, other = pool[: dim // 4], pool[dim // 4 : dim // 2]
    start = time.perf_counter()
    frechet_from_features(few, other)
    took = time.perf_counter() - start
    yield Measured("few", f"N = M = {dim // 4:,}", took, "s", took / first, "against the first line of moments")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=2048, help="features")
    parser.add_argument("--images", type=int, default=10_000, help="of each side")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--route", dest="routes", action="append", choices=list(ROUTES), help="only these, and ours")
    parser.add_argument("--growth", type=int, nargs="*", default=[5000, 10_000, 20_000, 40_000])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=list(ROUTES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child, options.folder)
        return 0
    lines = []
    for line in itertools.chain(
        benchmark_routes(options.dim, options.images, options.repeats, options.routes or list(ROUTES)),
        benchmark_growth(options.dim, options.growth) if options.growth else (),
    ):
        lines.append(line)
        if not options.json:
            print(line.line(), flush=True)
    if options.json:
        records: list[dict[str, Any]] = [
            {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(line).items()}
            for line in lines
        ]
        print(json.dumps(records, indent=1))
    return int(any("MISSED" in line.note or "TOO MUCH" in line.note for line in lines))


if __name__ == "__main__":
    sys.exit(main())
