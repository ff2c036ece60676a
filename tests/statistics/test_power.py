"""How many prompts see a drop: against published formulas, by simulation, and back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from verism.statistics import (
    Spread,
    drop_seen,
    non_inferiority,
    power_of_drop,
    prompts_needed,
    spread_of_pairs,
    spread_of_run,
)


def test_without_a_margin_it_is_the_formula_of_connor():
    # (z_a sqrt(d) + z_b sqrt(d - delta**2))**2 / delta**2 pairs, Connor 1987; the step of the exact test adds some.
    d, delta = 0.1, 0.02
    pairs = (norm.ppf(0.95) * math.sqrt(d) + norm.ppf(0.8) * math.sqrt(d - delta**2)) ** 2 / delta**2
    assert pairs == pytest.approx(1543, abs=1)
    needed = prompts_needed(delta, Spread(discordance=d))
    assert needed == pytest.approx(pairs + 2 / delta, abs=2)


@pytest.mark.parametrize("power", [0.8, 0.9])
@pytest.mark.parametrize(
    ("drop", "margin", "discordance", "images", "correlation"),
    [(0.1, 0.0, 0.3, 1, 0.0), (0.1, 0.02, 0.2, 4, 0.4), (0.05, 0.02, 0.06, 1, 0.0), (0.1, 0.0, 0.2, 9, 0.2)],
)
def test_as_many_drops_are_seen_as_planned(power, drop, margin, discordance, images, correlation):
    prompts = prompts_needed(
        drop, Spread(discordance=discordance, correlation=correlation), power=power, margin=margin,
        images_per_prompt=images,
    )  # fmt: skip
    rng, runs, seen = np.random.default_rng(2), 200, 0
    clusters = np.repeat(np.arange(prompts), images)
    for _ in range(runs):
        u = np.where(
            rng.random((prompts, images)) < math.sqrt(correlation),
            rng.random((prompts, 1)),
            rng.random((prompts, images)),
        ).ravel()
        lost, gained = u < (discordance + drop) / 2, u > 1 - (discordance - drop) / 2
        seen += non_inferiority(~gained, ~lost, clusters, margin=margin, seed=0, n_resamples=1).p_exceeds <= 0.05
    # Three standard errors of the simulation, and three points for the approximation.
    assert seen / runs == pytest.approx(power, abs=3 * math.sqrt(power * (1 - power) / runs) + 0.03)


def test_numbers_are_planned_by_their_deviation():
    # (1.645 + 0.8416)**2 / 0.2**2 = 154.6 of the normal test; Student's t and the allowed skewness take some more.
    needed = prompts_needed(0.2, Spread(deviation=1.0))
    assert 155 <= needed <= 165


def test_the_drop_that_is_seen_is_the_one_that_was_planned_for():
    spread = Spread(discordance=0.3, correlation=0.2)
    n = prompts_needed(0.06, spread, margin=0.01, images_per_prompt=4, power=0.9)
    assert drop_seen(n, spread, margin=0.01, images_per_prompt=4, power=0.9) == pytest.approx(0.06, rel=0.01)
    assert math.isnan(drop_seen(2, spread))  # two prompts see nothing


def test_more_power_tests_and_correlation_take_more_prompts():
    spread = Spread(discordance=0.2)
    plain = prompts_needed(0.05, spread)
    assert plain < prompts_needed(0.05, spread, power=0.9)
    assert plain < prompts_needed(0.05, spread, n_tests=4)
    assert plain < prompts_needed(0.05, spread, alpha=0.01)
    assert plain < prompts_needed(0.05, spread, margin=0.02)
    alike = Spread(discordance=0.2, correlation=0.5)
    four, four_alike = (prompts_needed(0.05, s, images_per_prompt=4) for s in (spread, alike))
    assert four < four_alike < plain
    assert power_of_drop(0.05, plain, spread) >= 0.8 > power_of_drop(0.05, plain - 1, spread)


def test_spread_of_pairs_worked_by_hand():
    # Differences 1 1 | 0 0 | -1 -1 | 0 0 of prompts of two: 4 of 8 differ, and those of a prompt are the same.
    base, new = [1, 1, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]
    spread = spread_of_pairs(base, new, np.repeat(np.arange(4), 2))
    assert spread == Spread(discordance=0.5, correlation=1.0)
    # One each: 1 0 | 1 0 | -1 0 ...: means within prompts vary less than images do.
    mixed = spread_of_pairs([1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 1])
    assert mixed == Spread(discordance=0.5, correlation=0.0)
    assert spread_of_pairs([1, 0], [1, 0], [0, 1]) is None
    numbers = spread_of_pairs([0.2, 0.4, 0.9], [0.1, 0.1, 0.9], [0, 1, 2])
    assert numbers is not None
    assert numbers.deviation == pytest.approx(np.std([0.1, 0.3, 0.0], ddof=1))


def test_spread_of_a_run_is_that_of_two_images_of_a_prompt():
    rng = np.random.default_rng(0)
    chance = rng.choice([0.95, 0.3], 4000)
    clusters = np.repeat(np.arange(4000), 4)
    base, new = (rng.random(16000) < chance[clusters] for _ in range(2))
    alone, pair = spread_of_run(base, clusters), spread_of_pairs(base, new, clusters)
    assert alone is not None
    assert pair is not None
    assert alone.discordance == pytest.approx(pair.discordance, abs=0.01)
    # With one image a prompt: as two independent sets, 2 p (1 - p).
    single = spread_of_run([1, 1, 1, 0], [0, 1, 2, 3])
    assert single == Spread(discordance=2 * 0.75 * 0.25)
    assert spread_of_run([1, 1], [0, 1]) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prompts_needed(0.02, Spread(discordance=0.1), margin=0.02), "only a drop above the margin"),
        (lambda: prompts_needed(0.2, Spread(discordance=0.1)), "needs as many images to differ"),
        (lambda: prompts_needed(0.02, Spread(discordance=0.1), power=1.0), "power must lie"),
        (lambda: prompts_needed(1e-6, Spread(discordance=0.5)), "more than 10,000,000 prompts"),
        (lambda: Spread(), "either the discordance"),
        (lambda: Spread(discordance=1.5), "discordance must lie"),
        (lambda: Spread(deviation=0.0), "deviation must be"),
        (lambda: Spread(discordance=0.5, correlation=2.0), "correlation must lie"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
