"""Gender presentation differences: speed and quality of the classifiers, and how often intervals hold the truth.

    python benchmarks/presentation.py                   speed: released, one fit for all groups, revised
    python benchmarks/presentation.py --quality         AUC, sign and rank of the planted differences, five worlds
    python benchmarks/presentation.py --intervals       how often 95 % intervals hold the planted values (minutes)

Embeddings are synthetic, as wide as those of CLIP ViT-L/14: a sentence is a person, a context and an attribute;
images lie apart from sentences, show the same contents weaker, in a direction somewhat different, and much else.
Seconds are of processor time, as other work on the machine does not count then; read their ratios. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import kendalltau, rankdata
from sklearn.linear_model import SGDClassifier

from verism.metrics.presentation import (
    calibrated_estimates,
    cosine_estimates,
    fit_released,
    fit_revised,
    vector_with_intervals,
)

WIDTH, ATTRIBUTES, CONTEXTS, IMAGES = 768, 15, 16, 5
LIMITS = {"one fit for all groups": 1.7, "revised": 10.0}
WORLDS = {
    "as above": {},
    "noisier images": {"noise": 1.2},
    "attributes shown otherwise": {"turned": 1.0},
    "noisier sentences": {"sentence_noise": 0.6},
    "weaker contents": {"gain": 0.3},
}


class World(NamedTuple):
    positives: np.ndarray  # (A, 48, D)
    negatives: np.ndarray  # (48, D)
    images: np.ndarray  # (2 * 80, D), first group first
    labels: np.ndarray  # (2 * 80, A)
    queries: np.ndarray  # (A, D)
    reference: np.ndarray  # (D,)


def world(
    seed: int, *, noise: float = 0.7, turned: float = 0.5, sentence_noise: float = 0.25, gain: float = 0.6
) -> World:
    rng = np.random.default_rng(seed)

    def random(*shape: int) -> np.ndarray:
        return rng.standard_normal((*shape, WIDTH)) / np.sqrt(WIDTH)

    clothes, attributes = random() * 0.3, random(ATTRIBUTES) * 0.6
    attributes = attributes + clothes
    contexts, people = random(CONTEXTS) * 0.9, random(3) * 0.5
    of_texts, of_images = random() * 1.5, random() * 1.5
    negatives = of_texts + contexts[:, None] + people + sentence_noise * random(CONTEXTS, 3)
    positives = of_texts + contexts[:, None] + people + attributes[:, None, None]
    positives = positives + sentence_noise * random(ATTRIBUTES, CONTEXTS, 3)
    shown = attributes + turned * 0.6 * random(ATTRIBUTES)
    planted = rng.permutation(np.concatenate([np.linspace(-0.4, 0.4, 11), np.zeros(4)]))
    base = rng.uniform(0.2, 0.5, ATTRIBUTES)
    images, labels = [], []
    for group, sign in enumerate((1, -1)):
        label = rng.random((CONTEXTS, IMAGES, ATTRIBUTES)) < np.clip(base + sign * planted / 2, 0, 1)
        contents = 0.7 * contexts[:, None] + people[group] + label @ shown / 1.5
        images.append((of_images + gain * contents + noise * random(CONTEXTS, IMAGES)).reshape(-1, WIDTH))
        labels.append(label.reshape(-1, ATTRIBUTES))
    return World(
        positives=positives.reshape(ATTRIBUTES, -1, WIDTH),
        negatives=negatives.reshape(-1, WIDTH),
        images=np.concatenate(images),
        labels=np.concatenate(labels),
        queries=of_texts + attributes + 0.2 * random(ATTRIBUTES),
        reference=of_texts + 0.3 * random(),
    )


# ------------------------------------------------------------------------------------------------------------- speed
def unit(vectors: np.ndarray) -> np.ndarray:
    vectors = vectors.astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def released_procedure(made: World) -> np.ndarray:
    """The published way: for each group, attribute and seed a fit of its own. Mean probabilities, (2 * 80, A)."""
    positives, negatives, images = unit(made.positives), unit(made.negatives), unit(made.images)
    target = np.repeat([0, 1], len(negatives))
    predicted = np.zeros((len(images), ATTRIBUTES))
    for rows in np.split(np.arange(len(images)), 2):
        for seed in range(10):
            for a in range(ATTRIBUTES):
                classifier = SGDClassifier(
                    loss="log_loss",
                    max_iter=5000,
                    tol=1e-3,
                    early_stopping=True,
                    validation_fraction=0.1,
                    random_state=seed,
                ).fit(np.concatenate([negatives, positives[a]]), target)
                predicted[rows, a] += classifier.predict_proba(images[rows])[:, 1] / 10
    return predicted


def speed(repeats: int) -> bool:
    made = world(0)
    ways: dict[str, Callable[[], np.ndarray]] = {
        "released, one fit per group": lambda: released_procedure(made),
        "one fit for all groups": lambda: fit_released(made.positives, made.negatives).probabilities(made.images),
        "revised": lambda: fit_revised(made.positives, made.negatives).probabilities(made.images),
    }
    seconds = dict.fromkeys(ways, np.inf)
    described = {}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.process_time()
            described[name] = way()
            seconds[name] = min(seconds[name], time.process_time() - start)
    slow = seconds["released, one fit per group"]
    fine = True
    for name, taken in seconds.items():
        limit = LIMITS.get(name)
        print(f"{name:<30} {taken:>8.3f} s {slow / taken:>7.1f}x" + (f"   at least {limit}x" if limit else ""))
        fine &= limit is None or slow / taken >= limit
    apart = np.abs(described["released, one fit per group"] - described["one fit for all groups"]).max()
    print(f"probabilities, released against one fit for all groups: at most {apart:.1e} apart (float32 products)")
    return fine and bool(apart < 1e-6)


# ----------------------------------------------------------------------------------------------------------- quality
def auc(estimates: np.ndarray, labels: np.ndarray) -> float:
    n_with = int(labels.sum())
    ranks = rankdata(estimates)[labels].sum() - n_with * (n_with + 1) / 2
    return float(ranks / (n_with * (len(labels) - n_with)))


def quality(repeats: int) -> bool:
    print(f"{repeats} worlds each; differences of labels beyond 0.1 count for the sign\n")
    print(f"{'world':<28} {'estimator':<10} {'AUC':>6} {'tau':>6} {'sign':>6}")
    fine = True
    for name, options in WORLDS.items():
        results: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(repeats):
            made = world(seed, **options)
            estimates = {
                "C": cosine_estimates(made.images, made.queries),
                "CC": calibrated_estimates(made.images, made.queries, made.reference),
                "released": fit_released(made.positives, made.negatives).probabilities(made.images),
                "revised": fit_revised(made.positives, made.negatives).probabilities(made.images),
            }
            half = len(made.labels) // 2
            truth = made.labels[:half].mean(axis=0) - made.labels[half:].mean(axis=0)
            clear = np.abs(truth) > 0.1
            for estimator, result in estimates.items():
                vector = result[:half].mean(axis=0) - result[half:].mean(axis=0)
                results.setdefault(estimator, []).append(
                    (
                        float(np.mean([auc(result[:, a], made.labels[:, a]) for a in range(ATTRIBUTES)])),
                        float(kendalltau(vector, truth).statistic),
                        float(np.mean(np.sign(vector[clear]) == np.sign(truth[clear]))),
                    )
                )
        means = {estimator: np.mean(numbers, axis=0) for estimator, numbers in results.items()}
        for estimator, (area, tau, sign) in means.items():
            print(f"{name:<28} {estimator:<10} {area:>6.3f} {tau:>6.3f} {sign:>6.3f}")
        fine &= bool(np.all(means["revised"] >= means["released"] - 1e-3))
    return fine


# --------------------------------------------------------------------------------------------------------- intervals
def planted_values(
    rng: np.random.Generator, vector: np.ndarray, base: np.ndarray, *, labels: bool, explicit: bool
) -> np.ndarray:
    """Values (2, 16, 5, 15) whose expected difference between groups is exactly ``vector``."""
    room = np.minimum(base, 1 - base) - np.abs(vector) / 2
    # Effects of a prompt that both groups share, and of one that they do not; images of all attributes or of one.
    shape = (CONTEXTS, ATTRIBUTES)
    common, subset = rng.uniform(-0.6, 0.6, shape), rng.uniform(-0.4, 0.4, (2, *shape))
    if not explicit:  # the same images for all attributes: part of the effects is theirs together
        common = (common + rng.uniform(-0.6, 0.6, (CONTEXTS, 1))) / 2
    signs = np.array([0.5, -0.5])[:, None, None]
    mean = base + signs * vector + room * (common + subset)
    mean = np.broadcast_to(mean[:, :, None], (2, CONTEXTS, IMAGES, ATTRIBUTES))
    return (rng.random(mean.shape) < mean).astype(float) if labels else mean + rng.normal(0, 0.05, mean.shape)


def intervals(repeats: int) -> bool:
    vectors = {
        "none": np.zeros(ATTRIBUTES),
        "some": np.array([0.3, -0.2, 0.15, -0.1, 0.1, 0.05, -0.05, 0.03, 0, 0, 0, 0, 0, 0, 0]),
        "all": np.linspace(0.1, 0.35, ATTRIBUTES) * np.where(np.arange(ATTRIBUTES) % 2, 1, -1),
    }
    shape = (2, CONTEXTS, IMAGES, ATTRIBUTES)
    group, context, _, attribute = np.indices(shape)
    print(f"{repeats} repetitions each, 2 x 16 prompts, 5 images; score: share of intervals that hold the true one\n")
    head = f"{'values':<13} {'setting':<9} {'planted':<8} {'entries':>8} {'worst':>7} {'score':>7}"
    print(head + f" {'true':>7} {'raw':>7} {'revised':>10} {'by chance':>10} {'false':>7}")
    fine = True
    for kind, base in (("labels", 0.3), ("rare labels", 0.06), ("estimates", 0.3)):
        for explicit in (False, True):
            for name, planted in vectors.items():
                vector = planted * (0.25 if kind == "rare labels" else 1.0)
                held, scores, false = [], [], []
                for seed in range(repeats):
                    values = planted_values(
                        np.random.default_rng(seed),
                        vector,
                        np.full(ATTRIBUTES, base),
                        labels=kind != "estimates",
                        explicit=explicit,
                    )
                    cluster = context + CONTEXTS * attribute if explicit else context
                    result = vector_with_intervals(
                        values.ravel(), group.ravel(), attribute.ravel(), cluster.ravel(), seed=seed, n_resamples=500
                    )
                    pair = result.pairs[0]
                    held.append((pair.low <= vector) & (vector <= pair.high))
                    true = float(np.abs(vector).mean())
                    scores.append((pair.score.low <= true <= pair.score.high, *pair.score))
                    false.append(bool(np.any(pair.p_adjusted[vector == 0] <= 0.05)) if np.any(vector == 0) else False)
                entries = np.mean(held, axis=0)
                score = np.mean(scores, axis=0)
                print(
                    f"{kind:<13} {'explicit' if explicit else 'neutral':<9} {name:<8} {entries.mean():>8.3f} "
                    f"{entries[np.abs(entries - 0.95).argmax()]:>7.3f} {score[0]:>7.3f} {true:>7.4f} {score[1]:>7.4f} "
                    f"{score[4]:>10.4f} {score[5]:>10.4f} {np.mean(false):>7.3f}",
                    flush=True,
                )
                if kind != "rare labels":
                    fine &= bool(0.93 <= entries.mean() <= 0.97)
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quality", action="store_true", help="of the estimators on planted differences")
    which.add_argument("--intervals", action="store_true", help="share of intervals that hold the planted values")
    parser.add_argument("--repeats", type=int, help="default: 3 for speed, 10 for quality, 200 for intervals")
    value = parser.parse_args()
    if value.intervals:
        fine = intervals(value.repeats or 200)
    elif value.quality:
        fine = quality(value.repeats or 10)
    else:
        fine = speed(value.repeats or 3)
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
