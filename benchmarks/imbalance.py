"""Imbalance at few images a prompt: estimators of the mean MAD, and how often 95 % intervals hold the truth.

    python benchmarks/imbalance.py                     everything below (about three minutes)
    python benchmarks/imbalance.py --part prompts      estimators and intervals of the mean over prompts
    python benchmarks/imbalance.py --part pooled       of all images together
    python benchmarks/imbalance.py --part judge        shares, means and two-class MADs adjusted for the judge's error
    python benchmarks/imbalance.py --part means        intervals of a mean tone over few professions
    python benchmarks/imbalance.py --runs 400          more runs (default 200; a quarter of it for ten classes)

Prompts have nine images: 84 prompts and two classes, or 252 prompts and ten, unless the table says otherwise. "miss
low" is the share of runs in which the interval lies above the truth, "miss high" in which it lies below; both should
be 2.5 %, where the truth is 0 only "miss low" can happen and should be 5 % at most.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln
from scipy.stats import beta

from verism.metrics import _mixture
from verism.metrics.imbalance import adjusted_prompt_mad, pooled_mad, prompt_mad
from verism.statistics._common import cluster_totals, ratio_variance, student_quantile
from verism.statistics.intervals import cluster_bootstrap_mean
from verism.statistics.misclassification import FittedShares, fit_shares

N = 9
SLACK = 1e-12


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
    if name == "one in ten one-hot":
        return np.where(rng.random((prompts, 1)) < 0.9, uniform, corners)
    if name == "one-hot":
        return corners
    return rng.dirichlet(
        np.full(k, {"uniform on the simplex": 1.0, "Dirichlet(5)": 5.0, "Dirichlet(10)": 10.0}[name]), prompts
    )


WORLDS = [
    "unbiased",
    "all alike, tilted by 0.2",
    "each tilted by 0.4",
    "Dirichlet(5)",
    "Dirichlet(10)",
    "uniform on the simplex",
    "half unbiased, half one-hot",
    "one in ten one-hot",
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
        result = (minimize(loss, s, method="Nelder-Mead", options={"maxiter": 120}) for s in starts)
        a, b = np.exp(np.clip(min(result, key=lambda r: r.fun).x, -6, 8))
        mean = a / (a + b)
        total.append(2 * t * beta.cdf(t, a, b) - t + mean - 2 * mean * beta.cdf(t, a + 1, b))
    return float(np.mean(total))


OTHERS = {"mixture": unshrunk, "subtracted": subtracted, "beta": beta_mixture}


# ------------------------------------------------------------------------------------------------------------ the parts
def over_prompts(runs: int) -> None:
    for k, prompts, n_runs in ((2, 84, runs), (10, 252, max(1, runs // 4))):
        print(f"\nmean over {prompts} prompts x {N} images, {k} classes, {n_runs} runs: mean estimate (RMSE)")
        names = ["plain", *OTHERS, "debiased"]
        print(f"{'true shares':<28} {'truth':>6} " + " ".join(f"{n:>15}" for n in names) + "   miss low high  width")
        for name in WORLDS:
            rng, goal, rows, missed = np.random.default_rng(1), truth(name, k), [], []
            for _ in range(n_runs):
                c = rng.multinomial(N, world(name, rng, prompts, k))
                result = prompt_mad(c, n_resamples=100)
                rows.append([result.value, *(other(c) for other in OTHERS.values()), result.debiased])
                low, high = result.debiased_low, result.debiased_high
                missed.append((low > goal + SLACK, high < goal - SLACK, high - low))
            table = np.array(rows)
            error = np.sqrt(np.mean((table - goal) ** 2, axis=0))
            shown = " ".join(f"{m:7.4f} ({e:.4f})" for m, e in zip(table.mean(axis=0), error, strict=True))
            low, high, width = np.mean(missed, axis=0)
            print(f"{name:<28} {goal:6.4f} {shown}  {low:8.3f} {high:.3f} {width:6.4f}", flush=True)


def together(runs: int) -> None:
    print(f"\nall images together, {runs} runs")
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
                result = pooled_mad(rng.multinomial(N, shares), n_resamples=500)
                missed.append((result.low > goal + SLACK, result.high < goal - SLACK, result.high - result.low))
            low, high, width = np.mean(missed, axis=0)
            print(f"K={k:<3} {name:<39} {goal:6.4f}  {low:8.3f} {high:.3f} {width:6.4f}", flush=True)


TWO = np.array([[0.90, 0.10], [0.06, 0.94]])
# Right in 60 %, and mostly one class too far.
BLURRED = 0.6 * np.eye(10) + 0.32 * np.eye(10, k=1) + 0.08 * np.eye(10, k=-1)
BLURRED[0, 0], BLURRED[9, 9] = 0.68, 0.92
FEW = np.array([0, 3, 0, 5, 0, 2, 0, 0, 0, 0]) / 10
BELL = np.array([3, 5, 10, 20, 30, 20, 6, 3, 2, 1]) / 100
EVEN = np.full(10, 0.1)
FOUND = np.array([0.83, 0.95, 0.95, 0.92, 0.92, 0.90, 0.70, 0.63, 0.58, 0.42])  # faces that are found, by tone
# Name, true shares, items of a class on the card, prompts, images of a prompt, spread of prompts, what is usable.
# Spread: None, all alike; 0, all images of a prompt are of one class; else of a Dirichlet distribution.
JUDGED = [
    ("0.5, 0.5", np.array([0.5, 0.5]), 100, 84, 9, None, None),
    ("0.5, 0.5, prompts differ", np.array([0.5, 0.5]), 100, 84, 9, 2.0, None),
    ("0.2, 0.8", np.array([0.2, 0.8]), 100, 84, 9, None, None),
    ("0.2, 0.8, few of all", np.array([0.2, 0.8]), 10, 24, 9, None, None),
    ("0.2, 0.8, prompts agree", np.array([0.2, 0.8]), 100, 24, 9, 0, None),
    ("0.97, 0.03, prompts differ", np.array([0.97, 0.03]), 100, 84, 9, 2.0, None),
    ("1, 0", np.array([1.0, 0.0]), 100, 84, 9, None, None),
    ("0.3, 0.7, half of the second lost", np.array([0.3, 0.7]), 100, 84, 9, None, np.array([0.95, 0.5])),
    ("three tones", FEW, 3, 24, 9, None, None),
    ("three tones", FEW, 15, 7, 4, None, None),
    ("three tones", FEW, 15, 24, 9, None, None),
    ("three tones", FEW, 60, 24, 9, None, None),
    ("three tones", FEW, 60, 84, 9, None, None),
    ("three tones", FEW, 200, 84, 9, None, None),
    ("three tones, prompts agree", FEW, 60, 24, 9, 0, None),
    ("equal", EVEN, 60, 84, 9, None, None),
    ("equal, prompts agree", EVEN, 15, 24, 9, 0, None),
    ("bell, prompts differ", BELL, 60, 84, 9, 5.0, None),
    ("three tones, faces lost", FEW, 60, 84, 9, None, FOUND),
    ("equal, faces lost", EVEN, 60, 84, 9, None, FOUND),
]


def one_judged(rng: np.random.Generator, case: tuple) -> tuple[FittedShares, np.ndarray]:
    """Shares fitted to a run and a card, both drawn; and the true shares."""
    _, shares, items, prompts, images, spread, usable = case
    k = len(shares)
    result = np.ones(k) if usable is None else usable
    rates = np.column_stack([(TWO if k == 2 else BLURRED) * result[:, None], 1 - result])
    while True:
        card = np.stack([rng.multinomial(items, row) for row in rates])
        if card[:, :-1].sum(axis=1).all():
            break
    if spread == 0:
        each = np.eye(k)[rng.choice(k, prompts, p=shares)]
    else:
        each = np.tile(shares, (prompts, 1)) if spread is None else rng.dirichlet(shares * spread, prompts)
    answer = rng.multinomial(images, each @ rates)[:, :-1]
    lost = card[:, -1] if usable is not None else None
    return fit_shares(None, card[:, :-1], observed_by_cluster=answer, unusable=lost), shares


def adjusted(runs: int) -> None:
    print("\nerror of the judge taken out: share of runs with the truth inside, mean width; classes that are there")
    print(
        f"{'true shares':<34} {'items':>5} {'images':>8} {'runs':>4} {'shares':>6} {'least':>5} {'width':>5} "
        f"{'absent':>6} {'mean':>5} {'width':>5} {'MAD':>5} {'s/fit':>6}"
    )
    for case in JUDGED:
        rng, n_runs, rows = np.random.default_rng(3), runs if len(case[1]) == 2 else max(1, runs // 4), []
        start = time.process_time()
        for _ in range(n_runs):
            fitted, shares = one_judged(rng, case)
            values = np.arange(1, len(shares) + 1)
            s, m = fitted.shares(), fitted.mean(values)
            at = ((s.low - SLACK <= shares) & (shares <= s.high + SLACK)).astype(float)
            there, middle, deviation = shares > 0, shares @ values, math.nan
            if len(shares) == 2:
                d = fitted.mad()
                deviation = float(d.low - SLACK <= abs(shares[0] - 0.5) <= d.high + SLACK)
            absent = at[~there].mean() if not there.all() else math.nan
            mask = m.low - SLACK <= middle <= m.high + SLACK
            rows.append([*at[there], (s.high - s.low)[there].mean(), absent, mask, m.high - m.low, deviation])
        *each, width, absent, mean, mean_width, pooled = np.mean(rows, axis=0)
        name, _, items, prompts, images, *_ = case
        print(
            f"{name:<34} {items:>5} {f'{prompts}x{images}':>8} {n_runs:>4} {np.mean(each):>6.3f} {min(each):>5.3f} "
            f"{width:>5.3f} {absent:>6.3f} {mean:>5.3f} {mean_width:>5.3f} {pooled:>5.3f} "
            f"{(time.process_time() - start) / n_runs:>6.2f}",
            flush=True,
        )
    print(f"\nmean over 84 prompts of the MAD of true shares, two classes, same judge, {runs // 2} runs")
    print(f"{'true shares':<28} {'truth':>6} {'as judged':>9} {'debiased':>9} {'adjusted':>9}  miss low  high  width")
    for name in WORLDS:
        rng, goal, rows = np.random.default_rng(4), truth(name, 2), []
        for _ in range(runs // 2):
            seen = np.stack([rng.multinomial(100, row) for row in TWO])
            answer = rng.multinomial(N, world(name, rng, 84, 2) @ TWO)
            plain, result = prompt_mad(answer, n_resamples=100), adjusted_prompt_mad(answer, seen)
            missed = result.low > goal + SLACK, result.high < goal - SLACK
            rows.append((plain.value, plain.debiased, result.value, *missed, result.high - result.low))
        a, b, c, low, high, width = np.mean(rows, axis=0)
        print(f"{name:<28} {goal:6.4f} {a:9.4f} {b:9.4f} {c:9.4f}  {low:8.3f} {high:.3f} {width:6.4f}", flush=True)


def means(runs: int) -> None:
    """Mean tone of nine images of each of some professions: Student's t over professions, and BCa."""
    light = np.array([0, 3, 3, 2, 1, 1, 0, 0, 0, 0]) / 10
    mixed = np.array([0, 2, 2, 2, 2, 1, 1, 0, 0, 0]) / 10
    odd = np.array([9, 1, 0, 0, 0, 0, 0, 0, 0, 0]) / 10
    worlds = (
        ("two kinds of professions", [(0.5, light), (0.5, mixed)]),
        ("all tones alike", [(1.0, EVEN)]),
        ("each of one tone", list(zip(light, np.eye(10), strict=True))),
        ("one in ten of another kind", [(0.9, odd), (0.1, np.eye(10)[9])]),
    )
    print(f"\nmean tone, {4 * runs} runs: share with the truth inside, and mean width")
    print(f"{'professions':<28} {'n':>3} {'t':>6} {'width':>6} {'BCa':>6} {'width':>6}")
    for n in (24, 84):
        for name, kinds in worlds:
            rng, rows, tones = np.random.default_rng(5), [], np.arange(1.0, 11)
            weights, shares = np.array([w for w, _ in kinds]), np.stack([s for _, s in kinds])
            truth = float(weights @ shares @ tones)
            for seed in range(4 * runs):
                counts = rng.multinomial(N, shares[rng.choice(len(kinds), n, p=weights)])
                values, clusters = np.repeat(np.tile(tones, n), counts.ravel()), np.repeat(np.arange(n), N)
                totals = cluster_totals(values, clusters)
                value, half = values.mean(), student_quantile(n - 1, 0.975) * math.sqrt(ratio_variance(totals))
                _, low, high = cluster_bootstrap_mean(values, clusters, seed=seed, n_resamples=400)
                rows.append((abs(value - truth) <= half, 2 * half, low <= truth <= high, high - low))
            a, b, c, d = np.mean(np.array(rows, dtype=float), axis=0)
            print(f"{name:<28} {n:>3} {a:>6.3f} {b:>6.3f} {c:>6.3f} {d:>6.3f}", flush=True)


PARTS = {"prompts": over_prompts, "pooled": together, "judge": adjusted, "means": means}

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
