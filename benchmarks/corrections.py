"""Rates with the judge's error taken out: how often intervals hold the truth, and how wide they are.

    python benchmarks/corrections.py                 2,000 simulated runs per row (about a minute)
    python benchmarks/corrections.py --runs 500

120 prompts of four images whose chances differ by prompt (Beta, intraclass correlation 0.2); a judge looks at all of
them, people at a random part; a card of the judge has 300 other items of each class. "judge alone" is the interval of
the judge's own rate, clustered by prompt. Widths are means, as ratios to that of people's answers alone.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from verism.statistics.misclassification import adjusted_mean
from verism.statistics.prediction_powered import ppi_mean

PROMPTS, EACH, CARD = 120, 4, 300
JUDGES = ((0.5, 0.9, 0.9), (0.3, 0.95, 0.7), (0.3, 0.8, 0.8), (0.15, 0.99, 0.85), (0.05, 0.9, 0.98), (0.5, 0.5, 0.5))


def one(rng: np.random.Generator, share: float, rates: tuple[float, float], labels: int, by_card: bool) -> list[float]:
    chance = rng.beta(share * 4, (1 - share) * 4, PROMPTS)
    truth = rng.random((PROMPTS, EACH)) < chance[:, None]
    u = rng.random(truth.shape)
    judged = np.where(truth, u < rates[0], u > rates[1]).astype(float)
    seen = np.full(truth.size, math.nan)
    chosen = rng.choice(truth.size, labels, replace=False)
    seen[chosen] = truth.ravel()[chosen]
    result = ppi_mean(judged.ravel(), seen, clusters=np.repeat(np.arange(PROMPTS), EACH), bounds=(0, 1))
    means = judged.mean(axis=1)
    alone = 1.96 * means.std(ddof=1) / math.sqrt(PROMPTS)
    collected = [
        result.low <= share <= result.high,
        result.labels_only.low <= share <= result.labels_only.high,
        abs(means.mean() - share) <= alone,
        result.high - result.low,
        result.labels_only.high - result.labels_only.low,
        math.nan,
        math.nan,
    ]
    if by_card and sum(rates) > 1.01:
        hits = (rng.binomial(CARD, rates[0]), rng.binomial(CARD, rates[1]))
        table = [[hits[1], CARD - hits[1]], [CARD - hits[0], hits[0]]]
        predicted = np.stack([EACH - judged.sum(axis=1), judged.sum(axis=1)], axis=1)
        card = adjusted_mean(None, table, [0, 1], observed_by_cluster=predicted)
        collected[5:] = [card.low <= share <= card.high, card.high - card.low]
    return collected


WHOLE = ((0.9, 6), (0.9, 12), (0.9, 20), (0.9, 40), (0.97, 12), (0.97, 20), (0.5, 20), (0.1, 12))


def whole_prompts(share: float, labelled: int, runs: int, *, together: bool) -> None:
    """84 prompts of nine images, of which some are labelled whole; images of a prompt are alike (correlation 1/3).

    The judge is wrong about one image in ten, or (``together``) about all images of one prompt in ten.
    """
    rng = np.random.default_rng([int(share * 100), labelled, together])
    prompts, each = 84, 9
    clusters = np.repeat(np.arange(prompts), each)
    rows = []
    for _ in range(runs):
        chance = rng.beta(2 * share, 2 * (1 - share), prompts)
        truth = (rng.random(clusters.size) < chance[clusters]).astype(float)
        wrong = (rng.random(prompts) < 0.1)[clusters] if together else rng.random(clusters.size) < 0.1
        asked = np.isin(clusters, rng.choice(prompts, labelled, replace=False))
        judged = np.where(wrong, 1 - truth, truth)
        result = ppi_mean(judged, np.where(asked, truth, math.nan), clusters=clusters, bounds=(0, 1))
        alone = result.labels_only
        rows.append(
            (result.low <= share <= result.high, alone.low <= share <= alone.high, result.high - result.low,
             alone.high - alone.low)
        )  # fmt: skip
    held, held_alone, width, width_alone = np.mean(np.array(rows, dtype=float), axis=0)
    print(
        f"{share:>12.3g} {labelled:>12} {'prompts' if together else 'images':>12} {held:>12.3f} {held_alone:>12.3f} | "
        f"{width:>9.3f} {width_alone:>12.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    heads = ("share", "found", "not claimed", "labels", "adjusted", "labels alone", "judge alone", "by card")
    print("coverage of nominal 95 % intervals" + " " * 26 + "| width / labels alone")
    print(" ".join(f"{head:>12}" for head in heads) + " | adjusted    by card")
    for share, result, spared in JUDGES:
        for labels in (40, 120, 240):
            rng = np.random.default_rng([int(share * 100), int(result * 100), labels])
            rows = np.array(
                [one(rng, share, (result, spared), labels, by_card=n < max(100, runs // 10)) for n in range(runs)],
                dtype=float,
            )
            mean = [float(np.nanmean(c)) if not np.isnan(c).all() else math.nan for c in rows.T]
            numbers = [share, result, spared, labels, mean[0], mean[1], mean[2], mean[5]]
            print(
                " ".join(f"{x:>12.3g}" for x in numbers) + f" | {mean[3] / mean[4]:>9.2f} {mean[6] / mean[4]:>10.2f}",
                flush=True,
            )
    print("\ncoverage where whole prompts of nine images are labelled" + " " * 13 + "| mean width")
    heads = ("share", "labelled", "judge errs by", "adjusted", "labels alone")
    print(" ".join(f"{head:>12}" for head in heads) + " |  adjusted labels alone")
    for share, labelled in WHOLE:
        for together in (False, True):
            whole_prompts(share, labelled, runs, together=together)


if __name__ == "__main__":
    main()
