"""Inception score: hand-worked, against the printed formula, and intervals that hold what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from verism.metrics import inception_score as module
from verism.metrics.inception_score import inception_score


def logits(n, classes, seed, *, sure=3.0):
    return sure * np.random.default_rng(seed).standard_normal((n, classes))


def by_definition(z, splits):
    """exp(mean KL) of consecutive parts, as the released code of Salimans et al. computes it, with SciPy's softmax."""
    p, log_p = softmax(z, axis=1), log_softmax(z, axis=1)
    scores = []
    for i in range(splits):
        part = slice(i * len(z) // splits, (i + 1) * len(z) // splits)
        q = p[part].mean(axis=0)
        scores.append(np.exp(np.mean(np.sum(p[part] * (log_p[part] - np.log(q)), axis=1))))
    return np.mean(scores), np.std(scores)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([[1, 0, 0], [0, 1, 0], [0, 0, 1]], 3.0, id="certain and varied: the number of classes"),
        pytest.param([[1, 0, 0], [1, 0, 0]], 1.0, id="always the same"),
        pytest.param([[1 / 3, 1 / 3, 1 / 3]] * 2, 1.0, id="never certain"),
        # p(y) = (1/2, 1/2); KL of each = 3/4 ln(3/2) + 1/4 ln(1/2)
        pytest.param([[0.75, 0.25], [0.25, 0.75]], 1.5**0.75 * 0.5**0.25, id="in between"),
    ],
)
def test_hand_worked(rows, expected):
    got = inception_score(rows, kind="probabilities", splits=1)
    assert got.value == pytest.approx(expected)
    assert (got.mean, got.std) == (pytest.approx(expected), 0.0)


@pytest.mark.parametrize("rows", [7, 64])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_predictions_are_read_a_part_at_a_time(rows, kind, monkeypatch):
    z = logits(1_000, 9, 3).astype(np.float32)
    values = z if kind == "logits" else softmax(z.astype(np.float64), axis=1)
    whole = inception_score(values, kind=kind, splits=3)
    monkeypatch.setattr(module, "CHUNK_ROWS", rows)
    most = []
    for name in ("_from_logits", "_from_probabilities"):
        read = getattr(module, name)
        monkeypatch.setattr(module, name, lambda part, read=read: most.append(len(part)) or read(part))
    assert inception_score(values, kind=kind, splits=3) == pytest.approx(whole, rel=1e-13)
    assert max(most) == rows


def test_splits_are_consecutive_parts_in_the_order_given():
    # Each half shows one class only and scores 1; together they show two.
    rows = [[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3
    got = inception_score(rows, kind="probabilities", splits=2)
    assert (got.mean, got.value) == (pytest.approx(1.0), pytest.approx(2.0))


@pytest.mark.parametrize(("n", "splits"), [(100, 10), (97, 10), (10, 10), (50, 1), (50, 7)])
def test_equals_the_released_formula(n, splits):
    z = logits(n, 20, n)
    got = inception_score(z, kind="logits", splits=splits)
    assert (got.mean, got.std) == pytest.approx(by_definition(z, splits), rel=1e-12, abs=1e-14)
    same = inception_score(softmax(z, axis=1), kind="probabilities", splits=splits)
    np.testing.assert_allclose(same, got, rtol=1e-10, atol=1e-14)


def test_large_logits_neither_overflow_nor_lose_the_tail():
    z = logits(60, 30, 1, sure=400.0)
    got = inception_score(z + 1e4, kind="logits", splits=3)
    p = softmax(z, axis=1)
    assert np.isfinite(got).all()
    assert got.value == pytest.approx(inception_score(p, kind="probabilities", splits=3).value, rel=1e-9)


def test_float32_and_order():
    z = logits(200, 50, 2)
    got = inception_score(z, kind="logits")
    assert inception_score(z.astype(np.float32), kind="logits").mean == pytest.approx(got.mean, rel=1e-6)
    shuffled = inception_score(z[np.random.default_rng(0).permutation(200)], kind="logits")
    assert shuffled.value == pytest.approx(got.value, rel=1e-12)
    assert (shuffled.low, shuffled.high) == pytest.approx((got.low, got.high), rel=1e-12)


@pytest.mark.parametrize("per_prompt", [1, 8])
def test_intervals_hold_the_expected_score_at_this_number_of_images(per_prompt):
    def draw(seed):
        rng = np.random.default_rng(seed)
        prompts = np.repeat(np.arange(400 // per_prompt), per_prompt)
        sure = rng.gamma(2.0, 1.0, 400 // per_prompt)[prompts]
        z = rng.standard_normal((400 // per_prompt, 10))[prompts] + 0.2 * rng.standard_normal((400, 10))
        return 2 * sure[:, None] * z, prompts

    expected = np.mean([inception_score(draw(s)[0], kind="logits", splits=1).value for s in range(10_000, 10_500)])

    def coverage(clustered):
        held = 0
        for seed in range(200):
            z, prompts = draw(seed)
            got = inception_score(z, kind="logits", splits=1, clusters=prompts if clustered else None)
            held += got.low <= expected <= got.high
        return held / 200

    assert coverage(True) >= 0.9
    if per_prompt > 1:
        assert coverage(False) < 0.75


def test_a_single_prompt_has_no_interval():
    got = inception_score(logits(5, 3, 0), kind="logits", splits=1, clusters=[7] * 5)
    assert math.isnan(got.low)
    assert not math.isnan(got.value)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([[2.0, -1.0]] * 10, {"kind": "probabilities"}, "Are they logits"),
        ([[0.5, 0.2]] * 10, {"kind": "probabilities"}, "sums from 0.7 to 0.7"),
        ([[np.nan, 1.0]] * 10, {"kind": "probabilities"}, "rows of sum 1"),
        ([[np.nan, 1.0]] * 10, {"kind": "logits"}, "logits must be finite"),
        ([1.0, 2.0], {"kind": "logits"}, r"got \(2,\)"),
        (np.zeros((0, 4)), {"kind": "logits"}, r"neither 0; got \(0, 4\)"),
        ([[1.0, 2.0]] * 4, {"kind": "logits"}, r"splits must lie in 1 .. 4, the images; got 10"),
        ([[1.0, 2.0]] * 10, {"kind": "log"}, "kind must be"),
        ([[1.0, 2.0]] * 10, {"kind": "logits", "clusters": [1]}, "one label for each of the 10"),
    ],
)
def test_bad_input_says_what_was_expected(rows, options, message):
    with pytest.raises(ValueError, match=message):
        inception_score(rows, **options)
