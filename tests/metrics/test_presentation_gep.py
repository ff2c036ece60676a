"""Frequencies, vectors and scores: worked by hand, as fractions, by context, and from what cannot be judged."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from verism.metrics.presentation import (
    Presentation,
    context_scores,
    exact_frequencies,
    exact_pairs,
    exact_score,
    exact_vector,
    frequencies,
    gep,
    gep_score,
    gep_vector,
    largest_gap,
    prompt_major,
    vector_with_intervals,
)
from verism.statistics import holm, paired_difference

SHAPE = (2, 16, 5, 4)  # groups, contexts, images, attributes
GROUP, CONTEXT, _, ATTRIBUTE = (index.ravel() for index in np.indices(SHAPE))
NAMES = np.array(["woman", "man"])[GROUP]


def told(values: NDArray[np.float64], **options: object) -> Presentation:
    """Of the neutral setting: all attributes are judged on the same images."""
    return vector_with_intervals(values.ravel(), NAMES, ATTRIBUTE, CONTEXT, n_resamples=200, **options)


def labels(seed: int = 0, first: float = 0.5, second: float = 0.3) -> NDArray[np.float64]:
    share = np.array([first, second])[:, None, None, None]
    return (np.random.default_rng(seed).random(SHAPE) < share).astype(float)


# --------------------------------------------------------------------------------------------------------- by hand
def test_vector_and_score_by_hand():
    # dress: 2/4 - 1/4 = 0.25; tie: 0/4 - 3/4 = -0.75; mean of 0.25 and 0.75 is 0.5.
    values = [1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0]
    groups = ["woman"] * 4 + ["man"] * 4 + ["woman"] * 4 + ["man"] * 4
    result = frequencies(values, groups, ["dress"] * 8 + ["tie"] * 8)
    assert (result.groups, result.attributes) == (("woman", "man"), ("dress", "tie"))
    np.testing.assert_array_equal(result.values, [[0.5, 0.0], [0.25, 0.75]])
    vector = gep_vector(*result.values)
    np.testing.assert_array_equal(vector, [0.25, -0.75])
    assert gep_score(vector) == 0.5


def test_counts_of_eighty_images_give_exact_scores():
    # 9/80 - 11/80 = -2/80, 1/80 - 0 = 1/80, 40/80 - 40/80 = 0; mean (2 + 1 + 0) / 80 / 3 = 1/80.
    first, second = ([Fraction(k, 80) for k in counts] for counts in ((9, 1, 40), (11, 0, 40)))
    vector = exact_vector(first, second)
    assert vector == (Fraction(-1, 40), Fraction(1, 80), Fraction(0))
    assert exact_score(vector) == Fraction(1, 80)
    assert gep_score(gep_vector([float(f) for f in first], [float(f) for f in second])) == pytest.approx(1 / 80)


def test_equal_differences_are_equal_as_fractions_only():
    exact = exact_frequencies(
        [1] * 9 + [0] * 71 + [1] * 8 + [0] * 72 + [1] * 47 + [0] * 33 + [1] * 46 + [0] * 34,
        (["woman"] * 80 + ["man"] * 80) * 2,
        ["hat"] * 160 + ["tie"] * 160,
    )
    hat, tie = exact_vector(list(exact["woman"].values()), list(exact["man"].values()))
    assert hat == tie == Fraction(1, 80)
    assert 9 / 80 - 8 / 80 != 47 / 80 - 46 / 80


def test_largest_gap_of_two_groups_is_the_absolute_vector():
    f = np.random.default_rng(0).random((2, 6))
    np.testing.assert_array_equal(largest_gap(f), np.abs(gep_vector(*f)))
    np.testing.assert_array_equal(largest_gap([[0.5], [0.25], [1.0]]), [0.75])


def test_a_image_made_for_one_attribute_does_not_count_for_another():
    result = frequencies([1, 1, 0], ["w", "w", "w"], ["hat", "hat", "tie"])
    np.testing.assert_array_equal(result.values, [[1.0, 0.0]])
    np.testing.assert_array_equal(result.n_used, [[2, 1]])


def test_what_cannot_be_judged_is_counted_and_left_out():
    result = frequencies([1, np.nan, 0, np.nan], ["w", "w", "m", "m"], ["hat", "hat", "hat", "tie"])
    np.testing.assert_array_equal(result.values, [[1.0, np.nan], [0.0, np.nan]])
    np.testing.assert_array_equal(result.n_used, [[1, 0], [1, 0]])
    np.testing.assert_array_equal(result.n_unusable, [[1, 0], [0, 1]])
    assert exact_frequencies([1, np.nan], ["w", "w"], ["hat", "tie"]) == {"w": {"hat": Fraction(1), "tie": None}}
    assert np.isnan(gep_score([0.5, np.nan]))


# ------------------------------------------------------------------------------------------------------------- contexts
def test_images_are_grouped_by_prompt_not_by_number():
    flat = np.repeat(np.arange(16), 5)  # 0_0, 0_1, ..., 0_4, 1_0, ...: the prompt of each image
    np.testing.assert_array_equal(prompt_major(flat, 5), np.repeat(np.arange(16)[:, None], 5, axis=1))
    # The published routine takes the array as 5 x 16 and so mixes contexts.
    assert len(np.unique(flat.reshape(5, 16)[:, 0])) == 5
    with pytest.raises(ValueError, match="5 images of every prompt"):
        prompt_major(flat[:-1], 5)


def test_score_of_a_context_by_hand():
    # Context a: hat 1 - 0, tie 0 - 0.5: mean of 1 and 0.5. Context b: nothing differs.
    rows = [("a", "w", "hat", 1), ("a", "w", "hat", 1), ("a", "m", "hat", 0), ("a", "m", "hat", 0)]
    rows += [("a", "w", "tie", 0), ("a", "w", "tie", 0), ("a", "m", "tie", 1), ("a", "m", "tie", 0)]
    rows += [("b", g, a, 1) for g in "wm" for a in ("hat", "tie")]
    contexts, groups, attributes, values = zip(*rows)
    result = context_scores(values, groups, attributes, contexts, seed=1, n_resamples=3_000)
    assert result.contexts == ("a", "b")
    np.testing.assert_array_equal(result.values, [0.75, 0.0])
    np.testing.assert_array_equal(result.n_used, [8, 4])
    # By chance, hat: 6 deals of 1 1 0 0 to two and two, of which 2 differ by 1 and 4 by 0: 1/3; tie: always by 0.5.
    np.testing.assert_allclose(result.by_chance, [(1 / 3 + 1 / 2) / 2, 0.0], atol=0.01)


def test_mean_over_contexts_is_at_least_the_score_of_all():
    values = labels()
    by_context = context_scores(values.ravel(), NAMES, ATTRIBUTE, CONTEXT, n_resamples=20)
    assert by_context.values.mean() >= told(values).score.value
    np.testing.assert_allclose(by_context.values[3], np.abs(values[0, 3].mean(0) - values[1, 3].mean(0)).mean())


def test_a_context_without_a_usable_image_of_a_group_has_no_score():
    result = context_scores([1, np.nan, 1, 0], ["w", "m", "w", "m"], ["hat"] * 4, ["a", "a", "b", "b"], n_resamples=5)
    np.testing.assert_array_equal(result.values, [np.nan, 1.0])
    np.testing.assert_array_equal(result.n_unusable, [1, 0])


# ----------------------------------------------------------------------------------------------------------- properties
def test_swapping_the_genders_turns_signs_and_keeps_the_score():
    values = labels()
    one = told(values)
    other = told(values, group_order=["man", "woman"])
    assert (other.pairs[0].first, other.pairs[0].second) == ("man", "woman")
    np.testing.assert_array_equal(other.pairs[0].vector, -one.pairs[0].vector)
    np.testing.assert_allclose(other.pairs[0].low, -one.pairs[0].high, atol=1e-12)
    np.testing.assert_array_equal(other.pairs[0].p_value, one.pairs[0].p_value)
    np.testing.assert_allclose(other.score[:4], one.score[:4], atol=1e-9)


@pytest.mark.parametrize("kind", ["labels", "estimates"])
def test_order_of_rows_does_not_matter(kind):
    values = labels() if kind == "labels" else np.random.default_rng(1).normal(0.2, 0.05, SHAPE)
    one = told(values)
    order = np.random.default_rng(2).permutation(values.size)
    other = vector_with_intervals(
        values.ravel()[order],
        NAMES[order],
        ATTRIBUTE[order],
        CONTEXT[order],
        group_order=["woman", "man"],
        attribute_order=range(4),
        n_resamples=200,
    )
    assert other.score == one.score
    for name in ("vector", "low", "high", "p_value", "p_adjusted"):
        np.testing.assert_array_equal(getattr(other.pairs[0], name), getattr(one.pairs[0], name))
    np.testing.assert_array_equal(other.frequency_low, one.frequency_low)


def test_same_seed_same_result_and_all_ends_in_place():
    values = labels()
    one, again = told(values, seed=3), told(values, seed=3)
    assert one.score == again.score
    pair = one.pairs[0]
    assert np.all((pair.low < pair.vector) & (pair.vector < pair.high))
    assert one.score.low <= one.score.debiased <= one.score.high
    assert one.score.low <= one.score.value <= one.score.high
    assert np.all((one.frequency_low < one.frequencies.values) & (one.frequencies.values < one.frequency_high))
    wider = told(values, seed=3, confidence=0.99).pairs[0]
    assert np.all((wider.low < pair.low) & (wider.high > pair.high))


def test_tests_are_sign_flips_of_prompt_pairs_with_holm():
    values = labels(4, 0.4, 0.3)
    pair = told(values).pairs[0]
    expected = [
        paired_difference(values[1, :, :, a].ravel(), values[0, :, :, a].ravel(), np.repeat(np.arange(16), 5), seed=0)
        for a in range(4)
    ]
    np.testing.assert_allclose(pair.p_value, [e.p_value for e in expected], rtol=1e-12)
    np.testing.assert_array_equal(pair.p_adjusted, holm(pair.p_value))
    np.testing.assert_array_equal(pair.n_clusters, [16] * 4)


def test_values_of_a_prompt_pair_stay_together():
    # Each context has its own level, 0 or 1 for both groups: pairs do not differ, so there is no spread between them.
    values = np.broadcast_to((np.arange(16) % 2)[None, :, None, None], SHAPE) + 0.01 * labels()
    alone = np.random.default_rng(0).permuted(values.reshape(2, 80, 4), axis=1).reshape(SHAPE)
    together, apart = told(values).pairs[0], told(alone).pairs[0]
    assert np.all(together.high - together.low < 0.01)
    assert np.all(apart.high - apart.low > 0.1)


def test_in_the_explicit_setting_each_attribute_is_resampled_for_itself():
    values = np.random.default_rng(0).normal(0.0, 0.1, SHAPE)
    values[..., 1:] = values[..., :1]  # attributes that vary together: independent only if prompts are
    joint = vector_with_intervals(values.ravel(), NAMES, ATTRIBUTE, CONTEXT, n_resamples=2_000)
    single = vector_with_intervals(values.ravel(), NAMES, ATTRIBUTE, CONTEXT + 16 * ATTRIBUTE, n_resamples=2_000)
    np.testing.assert_array_equal(joint.pairs[0].low, single.pairs[0].low)
    assert joint.score.value == single.score.value
    assert joint.score.high - joint.score.low > 1.3 * (single.score.high - single.score.low)


def test_an_attribute_with_few_prompts_is_never_lost_from_a_resample():
    values = labels()
    keep = (ATTRIBUTE > 0) | (CONTEXT < 2)  # two prompt pairs for the first attribute, sixteen for the others
    clusters = CONTEXT + 16 * ATTRIBUTE
    estimate = vector_with_intervals(
        values.ravel()[keep], NAMES[keep], ATTRIBUTE[keep], clusters[keep], n_resamples=500
    )
    assert np.isfinite(estimate.score).all()
    np.testing.assert_array_equal(estimate.pairs[0].n_clusters, [2, 16, 16, 16])


def test_an_attribute_that_never_varies_does_not_spoil_the_score():
    values = np.random.default_rng(0).normal(0.5, 0.1, SHAPE)
    values[..., 0] = [[[0.7]], [[0.3]]]  # 0.4 apart in every context, but for rounding of the sums
    result = told(values)
    assert result.score.low <= result.score.value <= result.score.high
    assert result.score.low >= 0.099  # 0.4 / 4 is certain
    assert result.score.high < 0.15


def test_three_groups_give_all_pairs_and_the_largest_gap():
    rng = np.random.default_rng(0)
    shape = (3, 16, 5, 4)
    group, context, _, attribute = (index.ravel() for index in np.indices(shape))
    values = (rng.random(shape) < np.array([0.6, 0.3, 0.3])[:, None, None, None]).astype(float)
    estimate = vector_with_intervals(values.ravel(), group, attribute, context, n_resamples=500)
    assert [(p.first, p.second) for p in estimate.pairs] == [(0, 1), (0, 2), (1, 2)]
    f = estimate.frequencies.values
    assert estimate.score.value == pytest.approx(np.mean(f.max(axis=0) - f.min(axis=0)))
    assert estimate.score.low > 0
    assert estimate.pairs[2].score.low == 0
    np.testing.assert_array_equal(
        np.concatenate([p.p_adjusted for p in estimate.pairs]),
        holm(np.concatenate([p.p_value for p in estimate.pairs])),
    )
    # The pair of two groups is what these two alone would give, but for Holm's number of tests.
    keep = group < 2
    alone = vector_with_intervals(values.ravel()[keep], group[keep], attribute[keep], context[keep], n_resamples=500)
    np.testing.assert_array_equal(alone.pairs[0].low, estimate.pairs[0].low)
    np.testing.assert_array_equal(alone.pairs[0].p_value, estimate.pairs[0].p_value)


# ----------------------------------------------------------------------------------------------------------- degenerate
def test_nobody_wears_it_has_a_width_too():
    result = told(np.zeros(SHAPE))
    pair = result.pairs[0]
    # Two imaginary matches of 80 + 2: Student's t of 15 degrees of freedom, 2.1314 * sqrt(2) / 82 = 0.03676.
    np.testing.assert_allclose([pair.low, pair.high], [[-0.03676] * 4, [0.03676] * 4], atol=1e-5)
    np.testing.assert_array_equal(pair.p_value, [1.0] * 4)
    assert (result.score.value, result.score.by_chance, result.score.p_value) == (0.0, 0.0, 1.0)
    assert np.isnan(result.score.low)


def test_always_against_never():
    values = np.zeros(SHAPE)
    values[0] = 1
    result = told(values)
    np.testing.assert_array_equal(result.pairs[0].vector, [1.0] * 4)
    np.testing.assert_array_equal(result.pairs[0].high, [1.0] * 4)
    assert np.all((result.pairs[0].low > 0.9) & (result.pairs[0].low < 1.0))
    np.testing.assert_allclose(result.pairs[0].p_value, 2 / 2**16)  # all sixteen signs alike, or all turned
    assert result.score.value == 1.0


def test_equal_estimates_and_a_single_prompt_have_no_interval():
    values = np.full(SHAPE, 0.25)
    assert np.isnan(told(values).pairs[0].low).all()
    one_prompt = vector_with_intervals([0.1, 0.2], ["w", "m"], ["hat", "hat"], [0, 0], n_resamples=10)
    assert np.isnan([one_prompt.pairs[0].low[0], one_prompt.score.low]).all()
    assert one_prompt.score.value == pytest.approx(0.1)
    one_label = vector_with_intervals([1, 0], ["w", "m"], ["hat", "hat"], [0, 0], n_resamples=10)
    assert np.isnan(one_label.pairs[0].low[0])


def test_missing_images_leave_the_rest_usable():
    values = labels()
    values[0, 3, :2] = np.nan
    values[1, 7] = np.nan
    result = told(values)
    pair = result.pairs[0]
    np.testing.assert_allclose(pair.vector, np.nanmean(values[0], (0, 1)) - np.nanmean(values[1], (0, 1)))
    np.testing.assert_array_equal(pair.n_clusters, [15] * 4)
    np.testing.assert_array_equal(result.frequencies.n_unusable, [[2] * 4, [5] * 4])
    assert np.all((pair.low < pair.vector) & (pair.vector < pair.high))
    values[1, :, :, 2] = np.nan
    gone = told(values)
    assert np.isnan([gone.pairs[0].vector[2], gone.pairs[0].low[2], gone.pairs[0].p_value[2], gone.score.value]).all()
    assert np.isfinite(gone.pairs[0].p_adjusted[[0, 1, 3]]).all()


def test_unequal_numbers_of_images_are_no_difference_in_themselves():
    # Half of the contexts show the attribute always, the others never, alike for both groups; one group lacks images.
    values = np.zeros(SHAPE)
    values[:, :8] = 1
    values[1, :8, 1:] = np.nan
    pair = told(values).pairs[0]
    np.testing.assert_allclose(pair.vector, 40 / 80 - 8 / 48)
    np.testing.assert_array_equal(pair.p_value, [1.0] * 4)


# ------------------------------------------------------------------------------------------------------------ bad input
@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: gep_vector([0.1], [0.1, 0.2]), r"shape \(A,\) twice"),
        (lambda: gep_score([]), "at least one entry"),
        (lambda: largest_gap([[0.1, 0.2]]), "at least two groups"),
        (lambda: exact_vector([Fraction(1)], []), "got 1 and 0"),
        (lambda: exact_score([]), "got none"),
        (lambda: exact_frequencies([0.5], ["w"], ["hat"]), "labels 0 and 1"),
        (lambda: frequencies([np.inf], ["w"], ["hat"]), "infinite"),
        (lambda: frequencies([[1.0]], ["w"], ["hat"]), r"shape \(N,\)"),
        (lambda: frequencies([1, 0], ["w"], ["hat", "hat"]), "groups must name one for each of the 2"),
        (lambda: frequencies([1], ["w"], ["hat"], group_order=["man"]), "'w', which is not among"),
        (lambda: frequencies([1], ["w"], ["hat"], group_order=["w", "w"]), "list each once"),
        (lambda: vector_with_intervals([1], ["w"], ["hat"], [0]), "at least two groups"),
        (lambda: vector_with_intervals([1, 0], ["w", "m"], ["a", "a"], [0]), "one label for each of the 2"),
        (lambda: vector_with_intervals([1, 0], ["w", "m"], ["a", "a"], [0, 0], confidence=1.0), "confidence"),
        (lambda: vector_with_intervals([1, 0], ["w", "m"], ["a", "a"], [0, 0], n_resamples=0), "n_resamples"),
        (lambda: context_scores([1], ["w"], ["hat"], [0]), "at least two groups"),
    ],
)
def test_bad_input_is_refused(call, part):
    with pytest.raises(ValueError, match=part):
        call()


def test_groups_that_vary_alike_have_a_score_without_an_interval():
    # Boots in the same contexts for both, a dress on every woman: frequencies vary by context, differences do not.
    contexts = np.repeat(np.arange(6), 4)
    groups = np.tile(np.repeat(["woman", "man"], 2), 6)
    boots = (contexts < 2).astype(float)
    dress = (groups == "woman").astype(float)
    estimate = vector_with_intervals(
        np.concatenate([boots, dress]),
        np.tile(groups, 2),
        np.repeat(["boots", "dress"], 24),
        np.tile(contexts, 2),
        n_resamples=50,
    )
    assert estimate.score.value == pytest.approx(0.5)
    assert math.isnan(estimate.score.low)


def test_exact_pairs_of_three_groups_have_vectors_scores_and_the_largest_gap():
    thirds = {name: {"hat": Fraction(n, 3), "tie": Fraction(0)} for name, n in (("a", 1), ("b", 3), ("c", 0))}
    pairs = exact_pairs(thirds)
    assert [pair.groups for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [pair.vector["hat"] for pair in pairs] == [Fraction(-2, 3), Fraction(1, 3), Fraction(1)]
    assert [pair.score for pair in pairs] == [Fraction(1, 3), Fraction(1, 6), Fraction(1, 2)]
    assert {pair.largest_gap for pair in pairs} == {Fraction(1, 2)}
    assert exact_pairs({name: thirds[name] for name in "ab"})[0].largest_gap is None
    with pytest.raises(ValueError, match="'b' has others than 'a'"):
        exact_pairs({"a": {"hat": Fraction(1)}, "b": {"tie": Fraction(1)}})


def test_a_gap_that_noise_explains_is_exactly_zero():
    # The difference of two equal squares, of which rounding may leave something.
    rng = np.random.default_rng(0)
    frequency, deviations = rng.random((2, 200)), rng.normal(0, 0.1, (20, 2, 200))
    family = gep._Family(frequency, deviations)
    last = -(family.gaps**2) / family.variance
    gaps = [family.true_gaps(t)[k] for k, t in enumerate(last)]
    assert gaps == [0.0] * 200
    assert (family.true_gaps(0.0) == family.gaps).all()
