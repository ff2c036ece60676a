"""How often the 95 % intervals that verism prints hold the truth, and how wide they are.

    python benchmarks/coverage.py                        all intervals (ten to twenty minutes of one core)
    python benchmarks/coverage.py --only ppi --only mad  those whose number, function or world contains it
    python benchmarks/coverage.py --runs 4000 --jobs 8   more simulated runs, several processes
    python benchmarks/coverage.py --write                also write docs/coverage.csv and its summary in coverage.md
    python benchmarks/coverage.py --quick                three runs of each: that everything works

Every design draws data from a world whose answer is known, again and again, and counts how often the interval holds it.
The worlds differ from those of the tests, on which some of the intervals were tuned. Images of a prompt are alike
because each repeats the one before it with a given chance ("repeats"), because prompts are of three kinds, easy,
middling and hopeless ("kinds"), or because they share a part of their features. Features are curved sheets with heavy
tails.

A truth is a number that the world has. Where the documents say that an interval is for the expected value at these
numbers of images (Fréchet distance, precision, consistency, ...), it is the mean of five times as many further draws.
Slow intervals get a part of the runs, and bootstraps 400 resamples.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from verism.metrics.captions.scores import caption_scores
from verism.metrics.frechet import (
    FeatureMoments,
    FeatureStatistics,
    fid_infinity,
    frechet_distance,
    frechet_from_features,
    frechet_interval,
)
from verism.metrics.imbalance import adjusted_prompt_mad, joint_shares, pooled_mad, prompt_mad
from verism.metrics.inception_score import inception_score
from verism.metrics.kernel import kid
from verism.metrics.manifold import half_samples, prdc
from verism.metrics.presentation.evaluation import (
    auc_by_group,
    presentation_ratio,
    roc_auc,
    sign_mcc,
    vector_agreement,
)
from verism.metrics.presentation.gep import vector_with_intervals
from verism.metrics.retrieval import consistency, cosine, mean_clipscore, percentile_10, r_precision
from verism.statistics import (
    Interval,
    adjusted_mean,
    adjusted_shares,
    auc,
    bradley_terry,
    cluster_bootstrap,
    cluster_bootstrap_mean,
    clustered_mean,
    clustered_proportion,
    cohen_kappa,
    confusion,
    fleiss_kappa,
    independent_non_inferiority,
    kendall_over_models,
    kendall_tau_b,
    krippendorff_alpha,
    mcc,
    mean_of_independent,
    non_inferiority,
    paired_difference,
    pairwise_accuracy,
    pearson,
    percent_agreement,
    phi,
    ppi_mean,
    ppi_sum,
    rank_agreement,
    rogan_gladen,
    spearman,
    spearman_over_models,
    wilson,
)
from verism.statistics.agreement import rating_counts
from verism.statistics.association import kendall_tau, pearson_r, roc_area, spearman_rho
from verism.statistics.disparity import gap, ratio, worst
from verism.statistics.intervals import clustered_average
from verism.statistics.misclassification import adjusted_mad
from verism.statistics.prediction_powered import LabelledMean
from verism.statistics.ranking import Ranking, rank_models

RUNS = 2000
RESAMPLES = 400
FURTHER = 5  # times as many draws for a truth that is an expected value
PAGE = Path(__file__).resolve().parents[1] / "docs" / "coverage.md"
START, END = "<!-- coverage.py: start -->", "<!-- coverage.py: end -->"

Rng = np.random.Generator
Floats = np.ndarray
Ends = tuple[float, float]
Draw = Callable[[Rng], Mapping[str, Ends]]


@dataclass(frozen=True)
class Design:
    """A world, and the intervals that are made of each draw from it.

    Attributes:
        name: the number that is printed, unless ``draw`` names several.
        function: what makes its interval.
        world: the data in words.
        draw: one simulated run: the ends of an interval per number.
        truth: what they should hold.
        values: one simulated run without intervals, for numbers whose truth is their expected value.
        part: of the runs that are asked for.
    """

    name: str
    function: str
    world: str
    draw: Draw
    truth: Callable[[], Mapping[str, float]] | None = None
    values: Callable[[Rng], Mapping[str, float]] | None = None
    part: float = 1.0


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: the number.
        function: of the design.
        world: of the design.
        runs: simulated runs that gave an interval.
        undefined: those that gave none.
        held: of ``runs``, how many hold the truth.
        above: how many lie above it.
        width: mean width.
    """

    name: str
    function: str
    world: str
    runs: int
    undefined: int
    held: int
    above: int
    width: float

    def cells(self) -> tuple[str, ...]:
        share = wilson(self.held, self.runs)
        below = self.runs - self.held - self.above
        missed = " / ".join(_percent(n / self.runs if self.runs else math.nan) for n in (self.above, below))
        held = f"{_percent(share.value)} [{_percent(share.low)}, {_percent(share.high)}]"
        runs = f"{self.runs:,}" + (f" ({self.undefined:,} without)" if self.undefined else "")
        return self.name, self.function, self.world, held, missed, f"{self.width:.3g}", runs

    def record(self) -> tuple[str, ...]:
        """The row of the CSV file, shares in per cent."""
        share = wilson(self.held, self.runs)
        missed = [n / self.runs if self.runs else math.nan for n in (self.above, self.runs - self.held - self.above)]
        shares = [_percent(each) for each in (share.value, share.low, share.high, *missed)]
        return self.name, self.function, self.world, *shares, f"{self.width:.3g}", f"{self.runs}", f"{self.undefined}"


COLUMNS = ("number", "function", "world", "coverage", "low", "high", "above", "below", "width", "runs", "undefined")


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.1f}"


def ends(interval: object) -> Ends:
    return interval.low, interval.high  # type: ignore[attr-defined]


# --------------------------------------------------------------------------------------------------- worlds of verdicts
def repeats(rng: Rng, prompts: int, each: int, p: float, stay: float) -> Floats:
    """0 or 1, shape (prompts, each): an image is as the one before it with chance ``stay``, else drawn anew."""
    right = rng.random((prompts, each)) < p
    kept = rng.random((prompts, each)) < stay
    for image in range(1, each):
        right[:, image] = np.where(kept[:, image], right[:, image - 1], right[:, image])
    return right.astype(float)


KINDS = np.array([0.98, 0.6, 0.05])  # chance of a right image of an easy, a middling and a hopeless prompt
MIX = np.array([0.6, 0.3, 0.1])
KINDS_MEAN = float(KINDS @ MIX)


def kinds(rng: Rng, sizes: Floats) -> tuple[Floats, Floats]:
    """0 or 1 per image, and its prompt; prompt i has sizes[i] images and is of a kind."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    chance = KINDS[rng.choice(3, len(sizes), p=MIX)]
    return (rng.random(len(clusters)) < chance[clusters]).astype(float), clusters


def asked(prompts: int, each: int) -> str:
    return f"{prompts} prompts of {each}" if each > 1 else f"{prompts} prompts"


def listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def labels_of(prompts: int, each: int) -> Floats:
    return np.repeat(np.arange(prompts), each)


def proportions() -> Iterator[Design]:
    name = "share", "clustered_proportion"

    def repeated(rng: Rng, prompts: int, each: int, p: float, stay: float) -> dict[str, Ends]:
        values = repeats(rng, prompts, each, p, stay).ravel()
        return {"": ends(clustered_proportion(values, labels_of(prompts, each)))}

    for prompts, each, p, stay in (
        (60, 4, 0.7, 0.5),
        (30, 9, 0.95, 0.8),
        (84, 9, 0.02, 0.3),
        (12, 10, 0.85, 1.0),
        (100, 1, 0.9, 0.0),
        (10, 1, 0.99, 0.0),
        (10, 1, 0.9, 0.0),
    ):
        alike = f", repeats {stay:g}" if each > 1 else ""
        yield Design(
            *name,
            f"{asked(prompts, each)}, share {p:g}{alike}",
            partial(repeated, prompts=prompts, each=each, p=p, stay=stay),
            partial(dict, {"": p}),
        )

    def of_kinds(rng: Rng, prompts: int, largest: int) -> dict[str, Ends]:
        return {"": ends(clustered_proportion(*kinds(rng, rng.integers(1, largest + 1, prompts))))}

    for prompts in (15, 80):
        yield Design(
            *name,
            f"{prompts} prompts of 1 to 9, three kinds",
            partial(of_kinds, prompts=prompts, largest=9),
            partial(dict, {"": KINDS_MEAN}),
        )

    def cells(rng: Rng) -> dict[str, Ends]:
        values, clusters = repeats(rng, 60, 6, 0.3, 0.6).ravel(), labels_of(60, 6)
        other = np.where(rng.random(360) < 0.25, "x", "y")
        found = joint_shares({"a": np.where(values == 1, "p", "q").tolist(), "b": other.tolist()}, clusters.tolist())
        return {"": ends(found[0])}

    yield Design(
        "share of an intersection",
        "joint_shares",
        "60 prompts of 6, share 0.075, repeats 0.6",
        cells,
        partial(dict, {"": 0.075}),
        part=0.5,
    )


def means_of_skills() -> Iterator[Design]:
    def draw(rng: Rng, shares: Sequence[float], each: int) -> dict[str, Ends]:
        single = [
            clustered_proportion(repeats(rng, prompts, each, p, 0.5).ravel(), labels_of(prompts, each))
            for prompts, p in zip((40, 100, 70), shares, strict=True)
        ]
        return {"": ends(mean_of_independent(single))}

    for shares, each in (((0.95, 0.6, 0.3), 3), ((0.99, 0.97, 0.9), 1), ((0.99, 0.97, 0.9), 4)):
        yield Design(
            "mean over skills",
            "mean_of_independent",
            f"40, 100, 70 prompts of {each}, shares {listed(shares)}, repeats 0.5",
            partial(draw, shares=shares, each=each),
            partial(dict, {"": float(np.mean(shares))}),
        )


def differences() -> Iterator[Design]:
    def verdicts(rng: Rng, prompts: int, each: int, other: Floats) -> dict[str, Ends]:
        kind, clusters = rng.choice(3, prompts, p=MIX), labels_of(prompts, each)
        a = rng.random(prompts * each) < KINDS[kind][clusters]
        b = rng.random(prompts * each) < other[kind][clusters]
        return {"": ends(paired_difference(a, b, clusters, seed=rng, n_resamples=RESAMPLES))}

    clear, slight = np.array([0.95, 0.8, 0.3]), np.array([0.98, 0.65, 0.1])
    for prompts, each, other in ((40, 1, clear), (100, 4, clear), (12, 9, clear), (100, 4, slight), (40, 1, KINDS)):
        goal = float((other - KINDS) @ MIX)
        yield Design(
            "difference of paired runs",
            "paired_difference",
            f"verdicts, {asked(prompts, each)}, three kinds, difference {goal:.2g}",
            partial(verdicts, prompts=prompts, each=each, other=other),
            partial(dict, {"": goal}),
        )

    def measured(rng: Rng, prompts: int) -> dict[str, Ends]:
        clusters = labels_of(prompts, 4)
        a = rng.gamma(2.0, 1.0, prompts)[clusters] + rng.gamma(1.0, 1.0, prompts * 4)
        b = a + rng.exponential(0.5, prompts)[clusters] - rng.exponential(0.2, prompts * 4)
        return {"": ends(paired_difference(a, b, clusters, seed=rng, n_resamples=RESAMPLES))}

    for prompts in (12, 100):
        yield Design(
            "difference of paired runs",
            "paired_difference",
            f"skewed values, {prompts} prompts of 4, difference 0.3",
            partial(measured, prompts=prompts),
            partial(dict, {"": 0.3}),
        )

    def apart(rng: Rng) -> dict[str, Ends]:
        a = clustered_proportion(repeats(rng, 40, 4, 0.9, 0.5).ravel(), labels_of(40, 4))
        b = clustered_proportion(repeats(rng, 80, 2, 0.75, 0.5).ravel(), labels_of(80, 2))
        result = mean_of_independent([b, Interval(-a.value, -a.high, -a.low)])
        return {"": (2 * result.low, 2 * result.high)}

    yield Design(
        "difference of other runs",
        "mean_of_independent",
        "40 prompts of 4 and 80 of 2, shares 0.9 and 0.75",
        apart,
        partial(dict, {"": -0.15}),
    )


def drops() -> Iterator[Design]:
    """Drops of a gate, each end one-sided at 97.5 %."""

    def verdicts(rng: Rng, prompts: int, each: int, other: Floats) -> dict[str, Ends]:
        kind, clusters = rng.choice(3, prompts, p=MIX), labels_of(prompts, each)
        base, new = (rng.random(prompts * each) < chance[kind][clusters] for chance in (KINDS, other))
        found = non_inferiority(base, new, clusters, margin=0.02, seed=0, alpha=0.025, n_resamples=RESAMPLES)
        return {"": ends(found)}

    for prompts, each, other in ((40, 1, KINDS), (100, 4, np.array([0.93, 0.55, 0.05])), (12, 9, KINDS)):
        goal = float((KINDS - other) @ MIX)
        yield Design(
            "drop of a paired run",
            "non_inferiority",
            f"verdicts, {asked(prompts, each)}, three kinds, drop {goal:.2g}",
            partial(verdicts, prompts=prompts, each=each, other=other),
            partial(dict, {"": goal}),
        )

    def measured(rng: Rng, prompts: int) -> dict[str, Ends]:
        clusters = labels_of(prompts, 4)
        base = rng.gamma(2.0, 1.0, prompts)[clusters] + rng.gamma(1.0, 1.0, prompts * 4)
        new = base + rng.exponential(0.5, prompts)[clusters] - rng.exponential(0.2, prompts * 4)
        found = non_inferiority(base, new, clusters, margin=0.1, seed=0, alpha=0.025, n_resamples=RESAMPLES)
        return {"": ends(found)}

    for prompts in (12, 100):
        yield Design(
            "drop of a paired run",
            "non_inferiority",
            f"skewed values, {prompts} prompts of 4, drop -0.3",
            partial(measured, prompts=prompts),
            partial(dict, {"": -0.3}),
        )

    def apart(rng: Rng) -> dict[str, Ends]:
        base = clustered_proportion(repeats(rng, 40, 4, 0.9, 0.5).ravel(), labels_of(40, 4))
        new = clustered_proportion(repeats(rng, 80, 2, 0.75, 0.5).ravel(), labels_of(80, 2))
        return {"": ends(independent_non_inferiority(base, new, margin=0.02, alpha=0.025))}

    yield Design(
        "drop of another run",
        "independent_non_inferiority",
        "40 prompts of 4 and 80 of 2, shares 0.9 and 0.75, drop 0.15",
        apart,
        partial(dict, {"": 0.15}),
    )


def ranks() -> Iterator[Design]:
    """Ranks of models by tests of every pair: of models that do not differ, and of models a step apart."""

    def ranking(rng: Rng, shares: Sequence[float], prompts: int, each: int) -> Ranking:
        clusters, hard = labels_of(prompts, each), rng.normal(0.0, 0.15, prompts)
        verdicts = [rng.random(prompts * each) < np.clip(p + hard, 0, 1)[clusters] for p in shares]
        m = len(shares)
        difference, p_value = np.zeros((m, m)), np.full((m, m), math.nan)
        for i, j in itertools.combinations(range(m), 2):
            pair = paired_difference(verdicts[i], verdicts[j], clusters, seed=rng, n_resamples=RESAMPLES)
            difference[i, j], difference[j, i] = pair.difference, -pair.difference
            p_value[i, j] = p_value[j, i] = pair.p_value
        return rank_models([float(v.mean()) for v in verdicts], difference, p_value)

    def equal(rng: Rng, prompts: int, each: int) -> dict[str, Ends]:
        # Each of equal models may be called any rank: what all their intervals have in common must hold 1 and M.
        result = ranking(rng, [0.6] * 8, prompts, each)
        common = float(result.low.max()), float(result.high.min())
        return {"first rank, of all equal models": common, "last rank, of all equal models": common}

    def ladder(rng: Rng, prompts: int, each: int) -> dict[str, Ends]:
        result = ranking(rng, [0.8, 0.7, 0.6, 0.5, 0.4], prompts, each)
        return {"rank of the third of five": (float(result.low[2]), float(result.high[2]))}

    for prompts, each in ((30, 1), (40, 9)):
        yield Design(
            "",
            "rank_models",
            f"8 models of share 0.6, {asked(prompts, each)}",
            partial(equal, prompts=prompts, each=each),
            partial(dict, {"first rank, of all equal models": 1.0, "last rank, of all equal models": 8.0}),
            part=0.25,
        )
        yield Design(
            "",
            "rank_models",
            f"5 models of shares 0.8 to 0.4, {asked(prompts, each)}",
            partial(ladder, prompts=prompts, each=each),
            partial(dict, {"rank of the third of five": 3.0}),
            part=0.25,
        )


# ---------------------------------------------------------------------------------------------------------- judge error
def human_labels() -> Iterator[Design]:
    """Whole prompts labelled, or images of many prompts; the judge errs by image, or on whole prompts."""

    def draw(
        rng: Rng, prompts: int, each: int, p: float, stay: float, labels: int, whole: bool, by_prompt: bool
    ) -> dict[str, Ends]:
        truth, clusters = repeats(rng, prompts, each, p, stay).ravel(), labels_of(prompts, each)
        wrong = (rng.random(prompts) < 0.12)[clusters] if by_prompt else rng.random(len(truth)) < 0.12
        judged = np.where(wrong, 1 - truth, truth)
        if whole:
            seen_by_people = np.isin(clusters, rng.choice(prompts, labels, replace=False))
        else:
            seen_by_people = np.isin(np.arange(len(truth)), rng.choice(len(truth), labels, replace=False))
        seen = np.where(seen_by_people, truth, math.nan)
        result = ppi_mean(judged, seen, clusters=clusters, bounds=(0, 1))
        return {"": ends(result), "human labels alone": ends(result.labels_only)}

    name = "share adjusted by human labels", "ppi_mean"
    for p, labels in ((0.9, 6), (0.9, 12), (0.9, 20), (0.9, 40), (0.97, 12), (0.97, 20), (0.5, 20)):
        for by_prompt in (False, True):
            yield Design(
                *name,
                f"{labels} of 84 prompts of 9 labelled, share {p:g}, repeats 0.6, judge errs by "
                f"{'prompt' if by_prompt else 'image'}",
                partial(draw, prompts=84, each=9, p=p, stay=0.6, labels=labels, whole=True, by_prompt=by_prompt),
                partial(dict, {"": p, "human labels alone": p}),
            )
    for p, prompts, each, labels in (
        (0.9, 40, 9, 60),
        (0.1, 40, 9, 60),
        (0.9, 120, 4, 40),
        (0.5, 120, 4, 120),
        (0.1, 120, 4, 240),
        (0.97, 120, 4, 120),
    ):
        yield Design(
            *name,
            f"{labels} images of {prompts} prompts of {each} labelled, share {p:g}, repeats 0.6",
            partial(draw, prompts=prompts, each=each, p=p, stay=0.6, labels=labels, whole=False, by_prompt=False),
            partial(dict, {"": p, "human labels alone": p}),
        )

    def skills(rng: Rng) -> dict[str, Ends]:
        parts = []
        for number, p in enumerate((0.9, 0.6)):
            truth = repeats(rng, 60, 4, p, 0.5).ravel()
            judged = np.where(rng.random(240) < 0.1, 1 - truth, truth)
            seen = np.where(rng.random(240) < 0.25, truth, math.nan)
            parts.append(LabelledMean(judged, seen, clusters=labels_of(60, 4) + 1000 * number, coefficient=0.5))
        return {"": ends(ppi_sum(parts, bounds=(0, 1)))}

    yield Design(
        "mean over skills, so adjusted",
        "ppi_sum",
        "a quarter of 60 prompts of 4 of two skills, shares 0.9 and 0.6",
        skills,
        partial(dict, {"": 0.75}),
    )


BLURRED = np.array([[0.8, 0.18, 0.02], [0.15, 0.7, 0.15], [0.02, 0.18, 0.8]])


def cards() -> Iterator[Design]:
    def shares(rng: Rng, k: int, mix: Floats, prompts: int, items: int) -> dict[str, Ends]:
        rates = np.array([[0.85, 0.15], [0.05, 0.95]]) if k == 2 else BLURRED
        # A prompt has one class that half of its images show; the others are drawn anew.
        main = rng.choice(k, prompts, p=mix)
        own = rng.random((prompts, 6)) < 0.5
        true = np.where(own, main[:, None], rng.choice(k, (prompts, 6), p=mix))
        u = rng.random(true.shape)[..., None]
        judged = (u > np.cumsum(rates, axis=1)[true]).sum(axis=-1).clip(0, k - 1)
        counts = np.stack([(judged == c).sum(axis=1) for c in range(k)], axis=1)
        card = np.stack([rng.multinomial(items, row) for row in rates])
        fitted = adjusted_shares(None, card, observed_by_cluster=counts)
        mean = adjusted_mean(None, card, np.arange(k), observed_by_cluster=counts)
        found = {f"share {c + 1}": (float(fitted.low[c]), float(fitted.high[c])) for c in range(k)}
        found["mean value"] = ends(mean)
        if k == 2:
            found["pooled MAD"] = ends(adjusted_mad(None, card, observed_by_cluster=counts))
        return found

    for mix, prompts, items in (((0.3, 0.7), 40, 80), ((0.95, 0.05), 80, 60), ((0.2, 0.5, 0.3), 60, 60)):
        k, weights = len(mix), np.array(mix)
        truth = {f"share {c + 1}": float(weights[c]) for c in range(k)} | {"mean value": float(weights @ np.arange(k))}
        if k == 2:
            truth["pooled MAD"] = deviation(weights)
        yield Design(
            "adjusted by a card",
            "adjusted_shares, adjusted_mean, adjusted_mad",
            f"{prompts} prompts of 6, shares {listed(mix)}, {items} items a class",
            partial(shares, k=k, mix=weights, prompts=prompts, items=items),
            partial(dict, truth),
            part=0.4,
        )

    def corrected(rng: Rng, p: float) -> dict[str, Ends]:
        known = repeats(rng, 60, 3, 0.5, 0.4).ravel()
        seen = repeats(rng, 50, 4, p, 0.6).ravel()

        def judge(truth: Floats) -> Floats:
            return np.where(rng.random(len(truth)) < np.where(truth == 1, 0.1, 0.2), 1 - truth, truth)

        card = confusion(known, judge(known), clusters=labels_of(60, 3))
        rate = clustered_proportion(judge(seen), labels_of(50, 4))
        result = rogan_gladen(rate, card.sensitivity, card.specificity)
        return {"": ends(result), "false accept": ends(card.false_accept), "false reject": ends(card.false_reject)}

    for p in (0.6, 0.95):
        yield Design(
            "rate adjusted for judge error",
            "rogan_gladen, confusion",
            f"50 prompts of 4, share {p:g}, repeats 0.6; judge measured on 60 prompts of 3",
            partial(corrected, p=p),
            partial(dict, {"": p, "false accept": 0.2, "false reject": 0.1}),
        )


# ------------------------------------------------------------------------------------------------------------ imbalance
def triangular(rng: Rng, prompts: int) -> Floats:
    first = rng.triangular(0.1, 0.5, 0.9, prompts)
    return np.stack([first, 1 - first], axis=1)


def three_sorts(rng: Rng, prompts: int) -> Floats:
    first = np.array([0.5, 0.3, 0.95])[rng.choice(3, prompts, p=[0.5, 0.3, 0.2])]
    return np.stack([first, 1 - first], axis=1)


def rarely_one_hot(rng: Rng, prompts: int) -> Floats:
    first = np.where(rng.random(prompts) < 0.1, rng.integers(0, 2, prompts), 0.5)
    return np.stack([first, 1 - first], axis=1)


def one_hot(rng: Rng, prompts: int) -> Floats:
    return np.eye(2)[rng.integers(0, 2, prompts)]


def fair(_: Rng, prompts: int) -> Floats:
    return np.full((prompts, 2), 0.5)


def five_tones(rng: Rng, prompts: int) -> Floats:
    """Half of each prompt's images are of one or two tones of its own."""
    own = np.eye(5)[rng.integers(0, 5, (2, prompts))].mean(axis=0)
    return 0.5 * own + 0.5 * np.array([0.1, 0.2, 0.4, 0.2, 0.1])


def deviation(shares: Floats) -> float:
    """Mean over prompts of the mean absolute deviation from equal shares, written anew."""
    return float(np.abs(shares - 1 / shares.shape[-1]).mean())


def imbalances() -> Iterator[Design]:
    def draw(rng: Rng, shares: Callable[[Rng, int], Floats], prompts: int, each: int) -> dict[str, Ends]:
        counts = rng.multinomial(each, shares(rng, prompts))
        result = prompt_mad(counts, n_resamples=RESAMPLES)
        return {
            "mean MAD": (result.low, result.high),
            "mean MAD, debiased": (result.debiased_low, result.debiased_high),
        }

    def expected(rng: Rng, shares: Callable[[Rng, int], Floats], prompts: int, each: int) -> dict[str, float]:
        return {"mean MAD": deviation(rng.multinomial(each, shares(rng, prompts)) / each)}

    def exact(shares: Callable[[Rng, int], Floats]) -> dict[str, float]:
        return {"mean MAD, debiased": deviation(shares(np.random.default_rng(9), 200_000))}

    def together(rng: Rng, shares: Callable[[Rng, int], Floats], prompts: int, each: int) -> dict[str, Ends]:
        return {"": ends(pooled_mad(rng.multinomial(each, shares(rng, prompts)), n_resamples=RESAMPLES))}

    def pooled(shares: Callable[[Rng, int], Floats]) -> dict[str, float]:
        return {"": deviation(shares(np.random.default_rng(9), 200_000).mean(axis=0))}

    worlds = (
        ("fair", fair),
        ("triangular shares", triangular),
        ("three sorts of prompts", three_sorts),
        ("one in ten one-hot", rarely_one_hot),
        ("one-hot", one_hot),
        ("five tones", five_tones),
    )
    for words, shares in worlds:
        options = {"shares": shares, "prompts": 60, "each": 8}
        yield Design(
            "mean MAD over prompts",
            "prompt_mad",
            f"60 prompts of 8, {words}",
            partial(draw, **options),
            partial(exact, shares),
            partial(expected, **options),
            part=0.4,
        )
    for words, shares in (worlds[2], worlds[5]):
        yield Design(
            "MAD of all images",
            "pooled_mad",
            f"60 prompts of 8, {words}",
            partial(together, shares=shares, prompts=60, each=8),
            partial(pooled, shares),
            part=0.5,
        )

    def adjusted(rng: Rng) -> dict[str, Ends]:
        first = three_sorts(rng, 60)[:, 0]
        judged = rng.binomial(8, first * 0.92 + (1 - first) * 0.06)
        card = [rng.multinomial(100, [0.92, 0.08]), rng.multinomial(100, [0.06, 0.94])]
        return {"": ends(adjusted_prompt_mad(np.stack([judged, 8 - judged], axis=1), card))}

    yield Design(
        "mean MAD adjusted by a card",
        "adjusted_prompt_mad",
        "60 prompts of 8, three sorts of prompts, 100 items a class",
        adjusted,
        lambda: {"": exact(three_sorts)["mean MAD, debiased"]},
        part=0.2,
    )


# ------------------------------------------------------------------------------------------------------------------ GEP
ATTRIBUTES = 8


def shown(rng: Rng, strength: float, contexts: int, each: int) -> Floats:
    """0 or 1, shape (2 groups, contexts, images, attributes): contexts move attributes, alike for both groups."""
    base = np.linspace(0.05, 0.6, ATTRIBUTES)
    tilt = strength * np.linspace(-1, 1, ATTRIBUTES) * (np.arange(ATTRIBUTES) % 2)
    moved = rng.uniform(0.5, 1.5, (contexts, ATTRIBUTES))
    chance = np.clip(moved * base + np.array([0.5, -0.5])[:, None, None] * tilt, 0, 1)
    return (rng.random((2, contexts, each, ATTRIBUTES)) < chance[:, :, None]).astype(float)


@cache
def shown_truth(strength: float) -> dict[str, float]:
    vector = np.subtract(*shown(np.random.default_rng(9), strength, 40_000, 20).mean(axis=(1, 2)))
    if strength == 0:
        vector = np.zeros(ATTRIBUTES)
    return {
        "GEP score": float(np.abs(vector).mean()),
        "GEP, rare attribute": float(vector[1]),
        "GEP, common attribute": float(vector[-1]),
    }


def presentations() -> Iterator[Design]:
    def draw(rng: Rng, strength: float, contexts: int, each: int) -> dict[str, Ends]:
        values = shown(rng, strength, contexts, each)
        group, context, _, attribute = (axis.ravel() for axis in np.indices(values.shape))
        result = vector_with_intervals(values.ravel(), group, attribute, context, n_resamples=RESAMPLES)
        pair = result.pairs[0]
        return {
            "GEP score": ends(result.score),
            "GEP, rare attribute": (float(pair.low[1]), float(pair.high[1])),
            "GEP, common attribute": (float(pair.low[-1]), float(pair.high[-1])),
        }

    for words, strength, contexts in (("no", 0.0, 16), ("a little", 0.1, 16), ("much", 0.4, 16), ("a little", 0.1, 40)):
        yield Design(
            "GEP",
            "vector_with_intervals",
            f"{contexts} contexts of 5, {ATTRIBUTES} attributes, {words} difference",
            partial(draw, strength=strength, contexts=contexts, each=5),
            partial(shown_truth, strength),
            part=0.4,
        )


# ------------------------------------------------------------------------------------------------------------- features
DIM, LATENT = 24, 5
_FIXED = np.random.default_rng(20)
BEND, SPREAD = _FIXED.normal(size=(LATENT, 12)), _FIXED.normal(size=(12, DIM))


def features(rng: Rng, prompts: int, each: int = 1, *, alike: float = 0.0, moved: float = 0.0) -> Floats:
    """Points of a curved sheet in DIM dimensions, with heavy tails. Images of a prompt share a part of their place."""
    shared = rng.standard_t(6, (prompts, LATENT))[labels_of(prompts, each)]
    place = math.sqrt(alike) * shared + math.sqrt(1 - alike) * rng.standard_t(6, (prompts * each, LATENT)) + moved
    sheet = np.tanh(0.7 * place @ BEND) @ SPREAD
    tails = rng.standard_t(4, (prompts * each, DIM))
    return 0.3 * sheet + 0.1 * tails


def set_metrics() -> Iterator[Design]:
    def pair(rng: Rng, prompts: int, each: int, moved: float, alike: float) -> tuple[Floats, Floats]:
        return features(rng, prompts * each), features(rng, prompts, each, alike=alike, moved=moved)

    sets = ((150, 1, 0.0, 0.0), (150, 1, 0.4, 0.0), (30, 5, 0.2, 0.8), (15, 10, 0.2, 0.5))

    def halves(rng: Rng, each: int, prompts: int, **options: float) -> dict[str, Ends]:
        real, generated = pair(rng, prompts, each, **options)
        labels = labels_of(prompts, each) if each > 1 else None
        result = half_samples(real, generated, 5, seed=0, clusters=labels)
        return {m: ends(result.interval(m)) for m in ("precision", "recall", "density", "coverage")}

    def numbers(rng: Rng, **options: float) -> dict[str, float]:
        return prdc(*pair(rng, **options), 5)._asdict()

    def distance(rng: Rng, prompts: int, each: int, **options: float) -> dict[str, Ends]:
        real, generated = pair(rng, prompts, each, **options)
        labels = labels_of(prompts, each)
        return {
            "Fréchet distance": ends(frechet_interval(real, generated, clusters=labels)),
            "kernel distance": ends(kid(real, generated, clusters=labels)),
        }

    def distances(rng: Rng, **options: float) -> dict[str, float]:
        real, generated = pair(rng, **options)
        return {
            "Fréchet distance": frechet_from_features(real, generated).value,
            "kernel distance": kid(real, generated).value,
        }

    for prompts, each, moved, alike in sets:
        options = {"prompts": prompts, "each": each, "moved": moved, "alike": alike}
        words = f"{prompts * each} real, {asked(prompts, each)}, moved by {moved:g}" + (
            f", prompts share {alike:g}" if each > 1 else ""
        )
        yield Design(
            "",
            "half_samples",
            words,
            partial(halves, **options),
            values=partial(numbers, **options),
            part=0.1,
        )
        yield Design(
            "",
            "frechet_interval, kid",
            words,
            partial(distance, **options),
            values=partial(distances, **options),
            part=0.1,
        )

    def extrapolated(rng: Rng) -> dict[str, Ends]:
        return {
            "": ends(
                fid_infinity(_reference(), features(rng, 100, 6, alike=0.3, moved=0.3), clusters=labels_of(100, 6))
            )
        }

    def at_infinity() -> dict[str, float]:
        reference = _reference()
        moments, rng = FeatureMoments(DIM), np.random.default_rng(9)
        for _ in range(10):
            moments.update(features(rng, 5_000, 6, alike=0.3, moved=0.3))
        return {"": frechet_distance(reference.mean, reference.covariance, moments.mean, moments.covariance)}

    yield Design(
        "extrapolated Fréchet distance",
        "fid_infinity",
        "fixed reference, 100 prompts of 6, moved by 0.3, prompts share 0.3",
        extrapolated,
        at_infinity,
        part=0.1,
    )

    def inception(rng: Rng) -> Floats:
        return 2 * features(rng, 60, 4, alike=0.6)[:, :10]

    yield Design(
        "inception score",
        "inception_score",
        "60 prompts of 4, ten classes, prompts share 0.6",
        lambda rng: {"": ends(inception_score(inception(rng), kind="logits", clusters=labels_of(60, 4)))},
        values=lambda rng: {"": inception_score(inception(rng), kind="logits").value},
    )


@cache
def _reference() -> FeatureStatistics:
    return FeatureMoments.of(features(np.random.default_rng(8), 4_000)).statistics()


# ----------------------------------------------------------------------------------------------------- images and texts
def scores_of_prompts(rng: Rng, prompts: int, each: int) -> Floats:
    """Skewed cosines, shape (prompts * each,): good prompts crowd at the upper end. Their mean is 0.25."""
    of_prompt = 0.33 - rng.gamma(2.0, 0.02, prompts)
    return of_prompt[labels_of(prompts, each)] - rng.gamma(1.5, 0.02, prompts * each) - 0.01


def graded() -> Iterator[Design]:
    for prompts, each in ((10, 4), (12, 4), (16, 4), (24, 9), (29, 4), (100, 2)):
        goal = 0.33 - 0.04 - 0.03 - 0.01

        def mean(rng: Rng, prompts: int = prompts, each: int = each) -> dict[str, Ends]:
            values, clusters = scores_of_prompts(rng, prompts, each), labels_of(prompts, each)
            return {
                "mean, BCa": ends(cluster_bootstrap_mean(values, clusters, seed=rng, n_resamples=RESAMPLES)),
                "mean, Student": ends(clustered_mean(values, clusters)),
            }

        yield Design(
            "mean of graded values",
            "cluster_bootstrap_mean, clustered_mean",
            f"{prompts} prompts of {each}, skewed",
            mean,
            partial(dict, {"mean, BCa": goal, "mean, Student": goal}),
            part=0.5,
        )

    def thirds(rng: Rng) -> dict[str, Ends]:
        right = np.stack([repeats(rng, 40, 4, p, 0.5).ravel() for p in (0.9, 0.7, 0.6)])
        return {"": ends(clustered_average(right.mean(axis=0), labels_of(40, 4)))}

    yield Design(
        "question score",
        "clustered_average",
        "40 prompts of 4, three questions each",
        thirds,
        partial(dict, {"": 2.2 / 3}),
    )

    def vectors(rng: Rng, prompts: int, each: int, noise: float) -> tuple[Floats, Floats]:
        texts = rng.standard_t(5, (prompts, 16))
        images = texts[labels_of(prompts, each)] + noise * rng.standard_t(5, (prompts * each, 16))
        return images, texts

    def clip(rng: Rng) -> dict[str, Ends]:
        images, texts = vectors(rng, 40, 4, 1.0)
        return {"": ends(mean_clipscore(images, texts[labels_of(40, 4)], clusters=labels_of(40, 4)))}

    def clip_value(rng: Rng) -> dict[str, float]:
        images, texts = vectors(rng, 400, 4, 1.0)
        return {"": float(np.nanmean(cosine(images, texts[labels_of(400, 4)])))}

    yield Design("CLIPScore", "mean_clipscore", "40 prompts of 4", clip, values=clip_value, part=0.4)

    def retrieved(rng: Rng) -> dict[str, Ends]:
        images, texts = vectors(rng, 120, 2, 2.0)
        return {"": ends(r_precision(images, texts, positive=labels_of(120, 2), pool=50))}

    def retrieved_value(rng: Rng) -> dict[str, float]:
        images, texts = vectors(rng, 120, 2, 2.0)
        return {"": r_precision(images, texts, positive=labels_of(120, 2), pool=50).value}

    yield Design("R-precision", "r_precision", "120 texts of 2, pool 50", retrieved, values=retrieved_value, part=0.05)


def consistencies() -> Iterator[Design]:
    def scores(rng: Rng, objects: int, each: int) -> Floats:
        """Skewed, with a tail of images that miss their object."""
        good = 0.3 - rng.gamma(2.0, 0.015, (objects, each))
        return np.where(rng.random((objects, each)) < 0.05, good - 0.1, good)

    def draw(rng: Rng, objects: int, each: int) -> dict[str, Ends]:
        values = scores(rng, objects, each).ravel()
        return {"": ends(consistency(values, labels_of(objects, each).tolist(), seed=rng, n_resamples=RESAMPLES))}

    def value(rng: Rng, objects: int, each: int) -> dict[str, float]:
        return {"": float(np.mean([percentile_10(row) for row in scores(rng, objects, each)]))}

    for objects, each in ((1, 20), (5, 10), (27, 10), (5, 30), (27, 30), (5, 180)):
        yield Design(
            "consistency",
            "consistency",
            f"{objects} object{'s' if objects > 1 else ''} of {each} images, skewed, one in twenty misses",
            partial(draw, objects=objects, each=each),
            values=partial(value, objects=objects, each=each),
        )


WORDS = np.array([f"w{n}" for n in range(60)])
ZIPF = 1 / np.arange(1, 61)
ZIPF = ZIPF / ZIPF.sum()


def captions() -> Iterator[Design]:
    metrics = ("bleu_4", "rouge_l", "cider")

    def texts(rng: Rng, images: int) -> tuple[dict[int, list[str]], dict[int, str]]:
        references, candidates = {}, {}
        for image in range(images):
            topic = rng.choice(60, 10, p=ZIPF)
            kept = rng.uniform(0.3, 0.95)  # some images are captioned well, others badly

            def caption(share: float, topic: Floats = topic) -> str:
                other = rng.choice(60, 10, p=ZIPF)
                chosen = np.where(rng.random(10) < share, topic, other)[: rng.integers(7, 11)]
                return " ".join(WORDS[chosen])

            references[image] = [caption(0.8) for _ in range(3)]
            candidates[image] = caption(kept)
        return references, candidates

    def draw(rng: Rng) -> dict[str, Ends]:
        found = caption_scores(*texts(rng, 80), metrics=metrics, tokenizer="none", n_resamples=RESAMPLES)
        return {name: ends(interval) for name, interval in found.values.items()}

    def value(rng: Rng) -> dict[str, float]:
        found = caption_scores(*texts(rng, 80), metrics=metrics, tokenizer="none", n_resamples=1)
        return {name: interval.value for name, interval in found.values.items()}

    yield Design("", "caption_scores", "80 images, three references", draw, values=value, part=0.1)


# ------------------------------------------------------------------------------------------------- groups and agreement
def disparities() -> Iterator[Design]:
    def draw(rng: Rng, shares: Sequence[float]) -> dict[str, Ends]:
        found = [
            clustered_proportion(repeats(rng, 40, 4, p, 0.5).ravel(), labels_of(40, 4), confidence=0.6826894921370859)
            for p in shares
        ]
        values, errors = [i.value for i in found], [(i.high - i.low) / 2 for i in found]
        options = {"seed": rng, "n_draws": 2000}
        return {
            "worst group": ends(worst(values, errors, limits=(0, 1), **options).interval),
            "gap": ends(gap(values, errors, largest=1, **options).interval),
            "ratio": ends(ratio(values, errors, **options)),
        }

    for shares in ((0.7, 0.7, 0.7, 0.7, 0.7), (0.9, 0.8, 0.7, 0.6, 0.5), (0.95, 0.6)):
        truth = {"worst group": min(shares), "gap": max(shares) - min(shares), "ratio": min(shares) / max(shares)}
        yield Design(
            "",
            "worst, gap, ratio",
            f"groups of 40 prompts of 4, shares {listed(shares)}",
            partial(draw, shares=shares),
            partial(dict, truth),
            part=0.2,
        )


def ratings(rng: Rng, prompts: int, each: int) -> tuple[Floats, Floats]:
    """Of three raters, 1 to 4, shape (3, images), and the prompt of each. Raters differ in how strict they are."""
    clusters = labels_of(prompts, each)
    quality = 0.6 * rng.laplace(size=prompts)[clusters] + rng.uniform(-1.5, 1.5, len(clusters))
    strict = np.array([-0.2, 0.0, 0.3])[:, None]
    noisy = quality + strict + 0.5 * rng.laplace(size=(3, len(clusters)))
    return 1.0 + np.digitize(noisy, [-1.0, 0.0, 1.0]), clusters


def agreements(rng: Rng, prompts: int, each: int, n_resamples: int) -> dict[str, Interval]:
    values, clusters = ratings(rng, prompts, each)
    first, second = values[:2]
    options = {"clusters": clusters, "n_resamples": n_resamples}
    counts = rating_counts(values).counts
    return {
        "krippendorff_alpha, nominal": krippendorff_alpha(values, **options),
        "krippendorff_alpha, interval": krippendorff_alpha(values, level="interval", **options),
        "fleiss_kappa": fleiss_kappa(counts, **options),
        "percent_agreement": percent_agreement(values, **options),
        "cohen_kappa": cohen_kappa(first, second, **options),
        "mcc": mcc(first, second, **options),
        "phi": phi(first > 2, second > 2, **options),
        "auc": auc(first, second > 2, **options),
        "pearson": pearson(first, second, **options),
        "spearman": spearman(first, second, **options),
        "kendall_tau_b": kendall_tau_b(first, second, **options),
    }


def raters() -> Iterator[Design]:
    def draw(rng: Rng, prompts: int, each: int) -> dict[str, Ends]:
        return {name: ends(value) for name, value in agreements(rng, prompts, each, RESAMPLES).items()}

    def truth() -> dict[str, float]:
        many = [agreements(np.random.default_rng([9, n]), 2_000, 3, 0) for n in range(3)]
        return {name: float(np.mean([one[name].value for one in many])) for name in many[0]}

    for prompts, each in ((25, 4), (100, 2)):
        yield Design(
            "",
            "agreement, association",
            f"three raters, {prompts} prompts of {each}, four grades",
            partial(draw, prompts=prompts, each=each),
            truth,
            part=0.03,
        )

    def median(rng: Rng) -> dict[str, Ends]:
        values, clusters = scores_of_prompts(rng, 50, 3), labels_of(50, 3)
        found = cluster_bootstrap(
            lambda v: float(np.quantile(v, 0.25)), values, clusters=clusters, seed=rng, n_resamples=RESAMPLES
        )
        return {"": ends(found)}

    def quartile() -> dict[str, float]:
        return {"": float(np.quantile(scores_of_prompts(np.random.default_rng(9), 200_000, 3), 0.25))}

    yield Design("lower quartile", "cluster_bootstrap", "50 prompts of 3, skewed", median, quartile, part=0.2)


def rated_images(rng: Rng, prompts: int, each: int) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Scores of a metric, mean ratings of three people, and the prompt of each image."""
    values, clusters = ratings(rng, prompts, each)
    return values.mean(axis=0) + 0.8 * rng.laplace(size=len(clusters)), np.round(values.mean(axis=0), 6), clusters


def suites_of_models(rng: Rng, models: int) -> tuple[Floats, Floats]:
    """Values of models on two suites that have a skill in common: long tails, and noise of the prompts."""
    common = rng.standard_t(4, models)
    first, second = (common + rng.laplace(size=models) + 0.3 * rng.normal(size=models) for _ in range(2))
    return first, second


def models_in_general() -> Iterator[Design]:
    """Rank agreement of two suites: of these models, and over models, which are a sample."""

    def draw(rng: Rng, models: int, function: Callable[..., Interval]) -> dict[str, Ends]:
        return {"": ends(function(*suites_of_models(rng, models)))}

    def truth(coefficient: Callable[[Floats, Floats], float]) -> dict[str, float]:
        draws = [suites_of_models(np.random.default_rng([9, n]), 3_000) for n in range(3)]
        return {"": float(np.mean([coefficient(a, b) for a, b in draws]))}

    true = (np.array([0.9, 0.6, 0.5, 0.45, 0.1]), np.array([0.8, 0.7, 0.75, 0.3, 0.35]))

    def told(values: Floats, error: float) -> NDArray[np.int8]:
        """Wins by tests of normal values, adjusted by Holm within one suite, at half the level."""
        distance = np.abs(values[:, None] - values[None, :]) / (error * math.sqrt(2))
        p = np.array([[math.erfc(z / math.sqrt(2)) for z in row] for row in distance])
        return rank_models(values, -np.subtract.outer(values, values), p, alpha=0.025).wins

    def these(rng: Rng, error: float) -> dict[str, Ends]:
        seen = [values + error * rng.normal(size=len(values)) for values in true]
        found = rank_agreement(*seen, *(told(values, error) for values in seen))
        return {"": (found.low, found.high), "Spearman of these models": (found.rho_low, found.rho_high)}

    for error in (0.05, 0.02):
        world = f"five models, two suites, errors of {error}"
        yield Design("tau of these models", "rank_agreement", world, partial(these, error=error),
                     lambda: {"": kendall_tau(*true), "Spearman of these models": spearman_rho(*true)})  # fmt: skip
    for name, function, coefficient in (
        ("tau in general", kendall_over_models, kendall_tau),
        ("Spearman in general", spearman_over_models, spearman_rho),
    ):
        for models in (6, 10, 25):
            world = f"two suites with a skill in common, {models} models"
            yield Design(name, function.__name__, world, partial(draw, models=models, function=function),
                         partial(truth, coefficient))  # fmt: skip


def pairs() -> Iterator[Design]:
    """Pairs ordered as people do, the threshold of ties chosen on the same images."""

    def value(rng: Rng, prompts: int, each: int) -> dict[str, float]:
        scores, people, clusters = rated_images(rng, prompts, each)
        return {"": pairwise_accuracy(scores, people, clusters=clusters).value}

    def draw(rng: Rng, prompts: int, each: int) -> dict[str, Ends]:
        scores, people, clusters = rated_images(rng, prompts, each)
        return {"": ends(Interval(*pairwise_accuracy(scores, people, clusters=clusters)[:3]))}

    for prompts, each in ((25, 4), (100, 2)):
        yield Design(
            "pairs as people",
            "pairwise_accuracy",
            f"mean of three raters, {prompts} prompts of {each}",
            partial(draw, prompts=prompts, each=each),
            values=partial(value, prompts=prompts, each=each),
            part=0.3,
        )


STRENGTHS = (0.8, 0.1, -0.9)  # log odds, mean 0


def contests(rng: Rng, prompts: int) -> Floats:
    """Wins by prompt between three sides by their strengths; a fifth of the comparisons end in ties."""
    s = np.array(STRENGTHS)
    chance = 1 / (1 + np.exp(s[None, :] - s[:, None]))
    upper = np.triu(np.ones((3, 3)), 1)
    # A tie is drawn where the model's chances say so half, so that half wins keep their expected value.
    tied = rng.random((prompts, 3, 3)) < 0.2
    won = np.where(tied, chance, rng.random((prompts, 3, 3)) < chance) * upper
    lost = (upper - won).transpose(0, 2, 1)
    return won + lost


def strengths() -> Iterator[Design]:
    """Bradley-Terry strengths of three sides."""

    def draw(rng: Rng, prompts: int) -> dict[str, Ends]:
        found = bradley_terry(contests(rng, prompts), n_resamples=RESAMPLES, seed=rng)
        return {f"side {i + 1}": (low, high) for i, (low, high) in enumerate(zip(found.low, found.high, strict=True))}

    def truth() -> dict[str, float]:
        return {f"side {i + 1}": value for i, value in enumerate(STRENGTHS)}

    for prompts in (30, 100):
        yield Design(
            "strength",
            "bradley_terry",
            f"{prompts} prompts, three sides",
            partial(draw, prompts=prompts),
            truth,
            part=0.5,
        )


def judged(rng: Rng, prompts: int, each: int) -> tuple[Floats, ...]:
    """Labels, estimates, gender and prompt of images, and the attribute: three of them, ever harder to see."""
    shape = (3, prompts, each)
    label = np.stack([repeats(rng, prompts, each, p, 0.5) for p in (0.3, 0.5, 0.4)])
    first = rng.random(shape[1:]) < 0.5
    strength = np.array([2.0, 1.2, 0.7])[:, None, None]
    estimate = strength * label + 0.3 * label * first + 0.4 * rng.laplace(size=(1, prompts, 1)) + rng.gumbel(size=shape)
    prompt = np.broadcast_to(np.arange(prompts)[:, None], shape)
    attribute = np.broadcast_to(np.array(["a", "b", "c"])[:, None, None], shape)
    return tuple(np.ravel(x) for x in (label, estimate, np.broadcast_to(first, shape), prompt, attribute))


def presentation_judges() -> Iterator[Design]:
    def draw(rng: Rng, prompts: int, each: int) -> dict[str, Ends]:
        label, estimate, first, prompt, attribute = judged(rng, prompts, each)
        one = attribute == "b"
        options = {"clusters": prompt[one]}
        ratio_of_gaps = presentation_ratio(label[one], estimate[one], first[one], **options)
        table = auc_by_group(attribute.tolist(), label, estimate, clusters=prompt)
        return {
            "AUC": ends(roc_auc(label[one], estimate[one], **options)),
            "mean AUC": ends(table.mean),
            "ratio of differences": ends(ratio_of_gaps.ratio),
        }

    def truth() -> dict[str, float]:
        label, estimate, first, _, attribute = judged(np.random.default_rng(9), 40_000, 5)
        areas = [roc_area(estimate[attribute == a], label[attribute == a]) for a in "abc"]
        one = attribute == "b"
        shown = [estimate[one & (label == 1) & (first == f)].mean() for f in (True, False)]
        both = estimate[one & (label == 1)].mean() - estimate[one & (label == 0)].mean()
        found = {"AUC": areas[1], "mean AUC": np.mean(areas), "ratio of differences": (shown[0] - shown[1]) / both}
        return {name: float(value) for name, value in found.items()}

    for prompts, each in ((16, 5), (60, 3)):
        yield Design(
            "",
            "roc_auc, auc_by_group, presentation_ratio",
            f"{prompts} prompts of {each}, three attributes",
            partial(draw, prompts=prompts, each=each),
            truth,
            part=0.2,
        )

    def vectors(rng: Rng, n: int) -> tuple[Floats, Floats]:
        reference = 0.1 * rng.laplace(size=n)
        return reference + 0.08 * rng.standard_t(5, n), reference

    def correlations(rng: Rng) -> dict[str, Ends]:
        found = vector_agreement(*vectors(rng, 30))
        return {"tau of vectors": ends(found.tau), "MCC of signs": ends(found.mcc), "r of vectors": ends(found.pearson)}

    def exact() -> dict[str, float]:
        a, b = vectors(np.random.default_rng(9), 1_000_000)
        tau = float(np.mean([kendall_tau(x, y) for x, y in zip(np.split(a, 500), np.split(b, 500), strict=True)]))
        return {"tau of vectors": tau, "MCC of signs": sign_mcc(a, b).mcc, "r of vectors": pearson_r(a, b)}

    yield Design("", "vector_agreement", "30 attributes, long tails", correlations, exact, part=0.2)


GROUPS = (
    proportions,
    means_of_skills,
    differences,
    drops,
    ranks,
    human_labels,
    cards,
    imbalances,
    presentations,
    set_metrics,
    graded,
    consistencies,
    captions,
    disparities,
    raters,
    pairs,
    strengths,
    models_in_general,
    presentation_judges,
)


# -------------------------------------------------------------------------------------------------------------- running
def designs(only: Sequence[str] = ()) -> list[Design]:
    """All designs, or those whose number, function or world contains one of these words (case does not matter)."""
    every = [design for group in GROUPS for design in group()]
    wanted = [word.lower() for word in only]
    chosen = [d for d in every if not wanted or any(w in f"{d.name} {d.function} {d.world}".lower() for w in wanted)]
    if not chosen:
        raise SystemExit(
            f"no interval has to do with {' or '.join(only)}; there are {sorted({d.function for d in every})}"
        )
    return chosen


def measured(design: Design, runs: int, seed: int) -> list[Row]:
    """The rows of a design: one for each number it gives an interval of."""
    own = zlib.crc32(f"{design.function} {design.world}".encode())
    n = max(1, round(runs * design.part)) if runs > 3 else runs
    truth = dict(design.truth()) if design.truth else {}
    if design.values is not None:
        further = [design.values(np.random.default_rng([seed, own, 1, i])) for i in range(FURTHER * n)]
        truth |= {name: float(np.mean([one[name] for one in further])) for name in further[0]}
    found = [design.draw(np.random.default_rng([seed, own, 0, i])) for i in range(n)]
    rows = []
    for name in found[0]:
        both = np.array([one[name] for one in found], dtype=float)
        given = both[~np.isnan(both).any(axis=1)]
        # What a design knows exactly may be missed by rounding alone.
        slack = 1e-12 * max(1.0, abs(truth[name]))
        above, below = given[:, 0] > truth[name] + slack, given[:, 1] < truth[name] - slack
        held = int(np.count_nonzero(~above & ~below))
        width = float(np.mean(given[:, 1] - given[:, 0])) if len(given) else math.nan
        counts = len(given), n - len(given), held, int(np.count_nonzero(above))
        rows.append(Row(name or design.name, design.function, design.world, *counts, width))
    return rows


def _measured_at(at: int, only: Sequence[str], runs: int, seed: int) -> list[Row]:
    return measured(designs(only)[at], runs, seed)  # designs hold functions that cannot be sent to another process


def summary(records: Sequence[Mapping[str, str]]) -> str:
    """A table with a line for each function: its numbers and the world in which coverage is lowest.

    Args:
        records: rows of the CSV file.
    """
    by_function: dict[str, list[Mapping[str, str]]] = {}
    for record in records:
        if record["coverage"] != "-":  # no run gave an interval
            by_function.setdefault(record["function"], []).append(record)
    lines = [("function", "numbers", "rows", "coverage, %", "lowest for")]
    for function, rows in by_function.items():
        numbers = list(dict.fromkeys(row["number"] for row in rows))
        lowest = min(rows, key=lambda row: float(row["coverage"]))
        highest = max(float(row["coverage"]) for row in rows)
        span = f"{lowest['coverage']} [{lowest['low']}, {lowest['high']}]"
        span += f" to {highest:.1f}" if len(rows) > 1 else ""
        where = f"{lowest['number']}: {lowest['world']}" if len(numbers) > 1 else lowest["world"]
        names = "`, `".join(function.split(", "))
        lines.append((f"`{names}`", "; ".join(numbers), str(len(rows)), span, where))
    lines.insert(1, ("---",) * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(rows: Sequence[Row], command: str, page: Path = PAGE) -> None:
    """Write all rows to the CSV file beside the page, and a summary between the marks of the page.

    Args:
        rows: of all designs.
        command: that made them.
        page: the page; the CSV file has its name.
    """
    text = page.read_text(encoding="utf-8")
    records = [dict(zip(COLUMNS, row.record(), strict=True)) for row in rows]
    csv_file = page.with_suffix(".csv")
    made = f"Made by `{command}`; [all {len(rows)} rows]({csv_file.name}), shares in per cent."
    block = f"{START}\n{made}\n\n{summary(records)}\n{END}"
    changed, n = re.subn(f"{re.escape(START)}.*?{re.escape(END)}", lambda _: block, text, flags=re.DOTALL)
    if n != 1:
        raise SystemExit(f"{page} must have the marks {START} and {END} once")
    with csv_file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    page.write_text(changed, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated runs of the quick intervals")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="part of a number, a function or a world"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quick", action="store_true", help="three runs of each")
    parser.add_argument("--write", action="store_true", help="write docs/coverage.csv, and its summary in the page")
    options = parser.parse_args(arguments)
    if options.runs < 1 or options.jobs < 1:
        parser.error("--runs and --jobs must be at least 1")
    if options.write and (options.quick or options.only):
        parser.error("--write needs all intervals: leave out --quick and --only")
    runs = 3 if options.quick else options.runs
    chosen, rows, start = designs(options.only), [], time.perf_counter()
    job = partial(_measured_at, only=options.only, runs=runs, seed=options.seed)
    with ProcessPoolExecutor(options.jobs) as pool:
        results = pool.map(job, range(len(chosen))) if options.jobs > 1 else map(job, range(len(chosen)))
        for found in results:
            for row in found:
                print(" | ".join(row.cells()), flush=True)
            rows += found
    print(f"{len(rows)} rows, {time.perf_counter() - start:.0f} s")
    if options.write:
        seed = f" --seed {options.seed}" if options.seed else ""
        write(rows, f"python benchmarks/coverage.py --write --runs {runs}{seed}")


if __name__ == "__main__":
    main()
