"""Imbalance at few pictures a prompt: estimators of the mean MAD, and how often 95 % intervals hold the truth.

    python benchmarks/imbalance.py                     everything below (about three minutes)
    python benchmarks/imbalance.py --part prompts      estimators and intervals of the mean over prompts
    python benchmarks/imbalance.py --part pooled       of all pictures together
    python benchmarks/imbalance.py --part judge        shares, means and MADs adjusted for the judge's error
    python benchmarks/imbalance.py --runs 400          more runs (default 200; a quarter of it for ten classes)

Prompts have nine pictures: 84 prompts and two classes, or 252 prompts and ten. "miss low" is the share of runs in which
the interval lies above the truth, "miss high" in which it lies below; both should be 2.5 %, where the truth is 0 only
"miss low" can happen and should be 5 % at most.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln
from scipy.stats import beta

from verism.metrics import _mixture
from verism.metrics.imbalance import adjusted_prompt_mad, pooled_mad, prompt_mad
from verism.statistics.misclassification import adjusted_mad, adjusted_mean, adjusted_shares

N = 9
SLACK = 1e-6


# ----------------------------------------------------------------------------------------------------------- the worlds
def world(name: str, rng: np.random.Generator, prompts: int, k: int) -> np.ndarray:
    """True shares of every prompt, (prompts, k)."""
    uniform, corners = np.full(k, 1 / k), np.eye(k)[rng.integers(0, k, prompts)]
    if name == "unbiased":
        return np.tile(uniform, (prompts, 1))
    if name == "all alike, tilted by 0.2":
        return np.tile(0.8 * uniform + 0.2 * np.eye(k)[0], (prompts, 1))
    if name == "each tilted by 0.4":
        return 0.6 * uniform + 0.4 * corners
    if name == "half unbiased, half one-hot":
        return np.where(rng.random((prompts, 1)) < 0.5, uniform, corners)
    if name == "one-hot":
        return corners
    return rng.dirichlet(np.full(k, {"uniform on the simplex": 1.0, "Dirichlet(5)": 5.0}[name]), prompts)


WORLDS = [
    "unbiased",
    "all alike, tilted by 0.2",
    "each tilted by 0.4",
    "Dirichlet(5)",
    "uniform on the simplex",
    "half unbiased, half one-hot",
    "one-hot",
]


def truth(name: str, k: int) -> float:
    """Mean MAD of the world, not of the prompts drawn from it."""
    shares = world(name, np.random.default_rng(99), 400_000, k)
    return float(np.abs(shares - 1 / k).mean())


# ----------------------------------------------------------------------------------------------------- other estimators
def subtracted(c: np.ndarray) -> float:
    """Square root of the unbiased estimate of the squared deviation, per class."""
    p, t = c / N, 1 / c.shape[1]
    return float(np.sqrt(np.maximum(0, np.mean((p - t) ** 2 - p * (1 - p) / (N - 1), axis=0))).mean())


def unshrunk(c: np.ndarray) -> float:
    """The mixture estimate as it is."""
    classes = 1 if c.shape[1] == 2 else c.shape[1]
    x = c[:, :classes].astype(float)
    fitted = _mixture.mixture(x, np.full(len(c), float(N)), np.full(x.shape, 1 / c.shape[1]), (1.0, 1.0))
    return float(fitted.distance(fitted.fit(np.zeros(classes))).mean())


def beta_mixture(c: np.ndarray) -> float:
    """Beta-binomial by maximum likelihood, per class."""
    t, x, total = 1 / c.shape[1], np.arange(N + 1), []
    for k in range(1 if c.shape[1] == 2 else c.shape[1]):
        seen = np.bincount(c[:, k], minlength=N + 1)

        def loss(q: np.ndarray, seen: np.ndarray = seen) -> float:
            a, b = np.exp(np.clip(q, -6, 8))
            return -float((seen * (betaln(x + a, N - x + b) - betaln(a, b))).sum())

        starts = [np.log([s * t, s * (1 - t)]) for s in (2, 50)]
        found = (minimize(loss, s, method="Nelder-Mead", options={"maxiter": 120}) for s in starts)
        a, b = np.exp(np.clip(min(found, key=lambda r: r.fun).x, -6, 8))
        mean = a / (a + b)
        total.append(2 * t * beta.cdf(t, a, b) - t + mean - 2 * mean * beta.cdf(t, a + 1, b))
    return float(np.mean(total))


OTHERS = {"mixture": unshrunk, "subtracted": subtracted, "beta": beta_mixture}


# ------------------------------------------------------------------------------------------------------------ the parts
def over_prompts(runs: int) -> None:
    for k, prompts, n_runs in ((2, 84, runs), (10, 252, max(1, runs // 4))):
        print(f"\nmean over {prompts} prompts x {N} pictures, {k} classes, {n_runs} runs: mean estimate (RMSE)")
        names = ["plain", *OTHERS, "debiased"]
        print(f"{'true shares':<28} {'truth':>6} " + " ".join(f"{n:>15}" for n in names) + "   miss low high  width")
        for name in WORLDS:
            rng, goal, rows, missed = np.random.default_rng(1), truth(name, k), [], []
            for _ in range(n_runs):
                c = rng.multinomial(N, world(name, rng, prompts, k))
                told = prompt_mad(c, n_resamples=100)
                rows.append([told.value, *(other(c) for other in OTHERS.values()), told.debiased])
                low, high = told.debiased_low, told.debiased_high
                missed.append((low > goal + SLACK, high < goal - SLACK, high - low))
            table = np.array(rows)
            error = np.sqrt(np.mean((table - goal) ** 2, axis=0))
            shown = " ".join(f"{m:7.4f} ({e:.4f})" for m, e in zip(table.mean(axis=0), error, strict=True))
            low, high, width = np.mean(missed, axis=0)
            print(f"{name:<28} {goal:6.4f} {shown}  {low:8.3f} {high:.3f} {width:6.4f}", flush=True)


def together(runs: int) -> None:
    print(f"\nall pictures together, {runs} runs")
    print(f"{'true shares':<44} {'truth':>6}  miss low  high  width")
    for k, prompts in ((2, 84), (10, 252)):
        uniform = np.full(k, 1 / k)
        ramp = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
        for name, mean, spread in (
            ("unbiased", uniform, None),
            ("unbiased on the whole, prompts differ", uniform, 2.0),
            ("one class at +0.1, prompts differ", 0.9 * uniform + 0.1 * np.eye(k)[0], 2.0),
            ("shares 1 : 2 : ..., prompts differ", ramp, 3.0),
        ):
            goal, rng, missed = float(np.abs(mean - 1 / k).mean()), np.random.default_rng(2), []
            for _ in range(runs):
                shares = np.tile(mean, (prompts, 1)) if spread is None else rng.dirichlet(mean * spread, prompts)
                told = pooled_mad(rng.multinomial(N, shares), n_resamples=500)
                missed.append((told.low > goal + SLACK, told.high < goal - SLACK, told.high - told.low))
            low, high, width = np.mean(missed, axis=0)
            print(f"K={k:<3} {name:<39} {goal:6.4f}  {low:8.3f} {high:.3f} {width:6.4f}", flush=True)


def adjusted(runs: int) -> None:
    two = np.array([[0.90, 0.10], [0.06, 0.94]])
    ten = np.exp(-1.5 * np.abs(np.subtract.outer(np.arange(10), np.arange(10))))
    ten /= ten.sum(axis=1, keepdims=True)
    bell = np.array([3, 5, 10, 20, 30, 20, 6, 3, 2, 1]) / 100
    print(
        "\nerrors of the judge measured on 100 items a class (two classes) or 60 (ten): share of runs with truth inside"
    )
    print(f"{'true shares':<40} {'runs':>5} {'shares, mean (least)':>21} {'mean':>6} {'pooled MAD':>11}")
    for name, table, items, shares, spread, prompts in (
        ("0.5, 0.5", two, 100, np.array([0.5, 0.5]), None, 84),
        ("0.5, 0.5, prompts differ", two, 100, np.array([0.5, 0.5]), 2.0, 84),
        ("0.2, 0.8", two, 100, np.array([0.2, 0.8]), None, 84),
        ("0.97, 0.03, prompts differ", two, 100, np.array([0.97, 0.03]), 2.0, 84),
        ("1, 0", two, 100, np.array([1.0, 0.0]), None, 84),
        ("ten classes, equal", ten, 60, np.full(10, 0.1), None, 252),
        ("ten classes, bell, prompts differ", ten, 60, bell, 5.0, 252),
    ):
        rng, k = np.random.default_rng(3), len(shares)
        n_runs, inside = runs if k == 2 else max(1, runs // 2), []
        goal, values = np.abs(shares - 1 / k).mean(), np.arange(k)
        for seed in range(n_runs):
            seen = np.stack([rng.multinomial(items, row) for row in table])
            each = np.tile(shares, (prompts, 1)) if spread is None else rng.dirichlet(shares * spread, prompts)
            said = rng.multinomial(N, each @ table)
            options = {"observed_by_cluster": said, "n_resamples": 400, "seed": seed}
            s = adjusted_shares(None, seen, **options)
            m, d = adjusted_mean(None, seen, values, **options), adjusted_mad(None, seen, **options)
            at = ((s.low - SLACK <= shares) & (shares <= s.high + SLACK)).astype(float)
            middle = shares @ values
            inside.append([*at, m.low - SLACK <= middle <= m.high + SLACK, d.low - SLACK <= goal <= d.high + SLACK])
        *each_share, mean, pooled = np.mean(inside, axis=0)
        shown = f"{np.mean(each_share):>12.3f} ({min(each_share):.3f}) {mean:>6.3f} {pooled:>11.3f}"
        print(f"{name:<40} {n_runs:>5} {shown}", flush=True)
    print(f"\nmean over 84 prompts of the MAD of true shares, two classes, same judge, {runs // 2} runs")
    print(f"{'true shares':<28} {'truth':>6} {'as judged':>9} {'debiased':>9} {'adjusted':>9}  miss low  high  width")
    for name in WORLDS:
        rng, goal, rows = np.random.default_rng(4), truth(name, 2), []
        for _ in range(runs // 2):
            seen = np.stack([rng.multinomial(100, row) for row in two])
            said = rng.multinomial(N, world(name, rng, 84, 2) @ two)
            plain, told = prompt_mad(said, n_resamples=100), adjusted_prompt_mad(said, seen)
            missed = told.low > goal + SLACK, told.high < goal - SLACK
            rows.append((plain.value, plain.debiased, told.value, *missed, told.high - told.low))
        a, b, c, low, high, width = np.mean(rows, axis=0)
        print(f"{name:<28} {goal:6.4f} {a:9.4f} {b:9.4f} {c:9.4f}  {low:8.3f} {high:.3f} {width:6.4f}", flush=True)


PARTS = {"prompts": over_prompts, "pooled": together, "judge": adjusted}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    for part, run in PARTS.items():
        if arguments.part in (None, part):
            start = time.process_time()
            run(arguments.runs)
            print(f"({time.process_time() - start:.0f} s of processor time)")
