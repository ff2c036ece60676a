"""Set metrics beside torch-fidelity, torchmetrics and prdc on the same features: the differences, and the time.

    PYTHONPATH=src python benchmarks/peers/parity.py [--images 3000] [--dim 512] [--json]

Runs in the environment of this folder (see README.md). Exit status 1 if a difference exceeds its tolerance.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torchvision_stub import import_torchvision


@dataclass(frozen=True)
class Compared:
    """One number from verism and from a peer."""

    metric: str
    peer: str
    ours: float
    theirs: float
    tolerance: float  # of the relative difference; infinite where definitions differ and the line is for information
    ours_s: float
    theirs_s: float
    note: str = ""

    @property
    def difference(self) -> float:
        return abs(self.ours - self.theirs) / max(abs(self.ours), abs(self.theirs), 1e-300)

    @property
    def ok(self) -> bool:
        return self.difference <= self.tolerance

    def line(self) -> str:
        verdict = "" if self.ok else f"DIFFERS, at most {self.tolerance:g}"
        return (
            f"{self.metric:<22} {self.peer:<15} {self.ours:>14.9g} {self.theirs:>14.9g}  off by {self.difference:.1e}"
            f"   {self.theirs_s:>8.3f} s, ours {self.ours_s:.3f} s  {self.note} {verdict}"
        )


def timed(job: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    value = job()
    return value, time.perf_counter() - start


def features(n: int, dim: int, seed: int) -> NDArray[np.float32]:
    """Like pooled activations: not below 0, correlated, of very different spread."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(7).standard_normal((dim, dim)) / np.sqrt(1 + np.arange(dim))[:, None]
    shift = 0.02 * rng.standard_normal(dim)
    return np.abs(0.3 * rng.standard_normal((n, dim)) @ mix + 0.3 + shift).astype(np.float32)


def compare(images: int, dim: int) -> list[Compared]:
    import_torchvision()
    import torch
    from prdc import compute_prdc
    from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
    from torch_fidelity.metric_isc import isc_features_to_metric
    from torch_fidelity.metric_kid import kid_features_to_metric
    from torch_fidelity.metric_prc import prc_features_to_metric
    from torchmetrics.image.fid import FrechetInceptionDistance
    from torchmetrics.image.kid import poly_mmd

    from verism.metrics.frechet import frechet_from_features
    from verism.metrics.inception_score import inception_score
    from verism.metrics.kernel import kid, kid_subsets
    from verism.metrics.manifold import prdc

    real, generated = features(images, dim, 1), features(images + 200, dim, 2)
    tensors = torch.from_numpy(real), torch.from_numpy(generated)
    lines: list[Compared] = []

    def add(metric: str, peer: str, tolerance: float, ours: Any, theirs: Any, note: str = "") -> None:
        (a, a_s), (b, b_s) = ours, theirs
        lines.append(Compared(metric, peer, float(a), float(b), tolerance, a_s, b_s, note))

    # -------------------------------------------------------------------------------------------------- FID
    def fidelity_fid() -> float:
        doubles = [fid_features_to_statistics(t.double()) for t in tensors]
        return float(fid_statistics_to_metric(*doubles, False)["frechet_inception_distance"])

    def torchmetrics_fid(dtype: torch.dtype) -> float:
        class Given(torch.nn.Module):
            """Hands the features on: images are never looked at."""

            num_features = dim

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x

        metric = FrechetInceptionDistance(feature=Given(), normalize=True, input_img_size=(dim,))
        metric.set_dtype(dtype)
        metric.used_custom_model = True
        for tensor, is_real in zip(tensors, (True, False), strict=True):
            for batch in tensor.split(500):
                metric.update(batch.to(dtype), real=is_real)
        return float(metric.compute())

    fid = timed(lambda: frechet_from_features(real, generated).value)
    add("fid", "torch-fidelity", 1e-6, fid, timed(fidelity_fid))
    add("fid", "torchmetrics", 1e-6, fid, timed(lambda: torchmetrics_fid(torch.float64)), "set_dtype(float64)")
    loose = timed(lambda: torchmetrics_fid(torch.float32))
    add("fid", "torchmetrics", np.inf, fid, loose, "its float32 default, for information")

    # -------------------------------------------------------------------------------------------------- KID
    size = min(1000, images // 2)
    options = {"kid_subsets": 20, "kid_subset_size": size, "rng_seed": 2020, "verbose": False}
    theirs, seconds = timed(lambda: kid_features_to_metric(*(t.double() for t in tensors), **options))
    ours, ours_s = timed(
        lambda: kid_subsets(
            real.astype(np.float64), generated, subsets=20, subset_size=size, seed=np.random.RandomState(2020)
        )
    )
    for name, value in (("mean", ours.mean), ("std", ours.std)):
        their = theirs[f"kernel_inception_distance_{name}"]
        add(f"kid {name}, 20 x {size}", "torch-fidelity", 1e-8, (value, ours_s), (their, seconds))
    equal = min(len(real), len(generated))
    full = timed(lambda: poly_mmd(tensors[0][:equal].double(), tensors[1][:equal].double()))
    unbiased = timed(lambda: kid(real[:equal].astype(np.float64), generated[:equal]).value)
    add("kid, all images", "torchmetrics", 1e-8, unbiased, full, "ours with its interval")
    single = timed(lambda: kid(real[:equal], generated[:equal]).value)
    add("kid, float32", "torchmetrics", 1e-3, single, full, "ours in float32 tiles, theirs in float64")

    # -------------------------------------------------------------------------------------------------- Inception score
    logits = 3 * np.random.default_rng(4).standard_normal((images, 1008)).astype(np.float32)
    theirs, seconds = timed(lambda: isc_features_to_metric(torch.from_numpy(logits), splits=10, shuffle=False))
    score, ours_s = timed(lambda: inception_score(logits, kind="logits", splits=10))
    for name, value in (("mean", score.mean), ("std", score.std)):
        add(f"is {name}", "torch-fidelity", 1e-8, (value, ours_s), (theirs[f"inception_score_{name}"], seconds))

    # -------------------------------------------------------------------------------------------------- manifolds
    few = min(images, 2000)
    a, b = real[:few], generated[:few]
    theirs, seconds = timed(lambda: compute_prdc(a.astype(np.float64), b.astype(np.float64), nearest_k=3))
    mine, ours_s = timed(lambda: prdc(a, b, 3))
    for name in ("precision", "recall", "density", "coverage"):
        add(name, "prdc", 1e-12, (getattr(mine, name), ours_s), (theirs[name], seconds), "k = 3")
    options = {"prc_neighborhood": 3, "prc_batch_size": 1000, "save_cpu_ram": True, "verbose": False}
    doubles = torch.from_numpy(b).double(), torch.from_numpy(a).double()
    theirs, seconds = timed(lambda: prc_features_to_metric(*doubles, **options))
    mine, ours_s = timed(lambda: prdc(a, b, 3, strict=False))
    for name in ("precision", "recall"):
        add(f"{name}, <=", "torch-fidelity", 1e-6, (getattr(mine, name), ours_s), (theirs[name], seconds), "k = 3")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lines = compare(options.images, options.dim)
    if options.json:
        records = [asdict(line) | {"difference": line.difference, "ok": line.ok} for line in lines]
        for record in records:
            record["tolerance"] = None if np.isinf(record["tolerance"]) else record["tolerance"]
        print(json.dumps(records, indent=1))
    else:
        for line in lines:
            print(line.line())
    return int(not all(line.ok for line in lines))


if __name__ == "__main__":
    sys.exit(main())
