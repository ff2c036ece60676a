"""Judging the judges of presentation differences: the published numbers, reference libraries, properties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import matthews_corrcoef, roc_auc_score

from verism.metrics.presentation.evaluation import (
    PAIR_TYPES,
    auc_by_group,
    count_differences,
    pair_counts,
    presentation_ratio,
    released_classifier_auc,
    roc_auc,
    score_agreement,
    sign_mcc,
    tau_by_pair_type,
    vector_agreement,
)
from verism.statistics.association import kendall_tau, pearson_r

# Stable Diffusion, neutral prompts: images of 80 that show the attribute by majority of three (arXiv:2302.03675,
# Table 11 times 80; exact in the authors' release), and the CLS vector the release prints with three digits. In the
# paper's order: boots, slippers, jeans, shorts, slacks, dress, skirt, suit, shirt, uniform, jacket, hat, tie, mask and
# gloves.
WOMEN = [5, 1, 9, 12, 7, 7, 5, 0, 3, 0, 25, 6, 0, 2, 8]
MEN = [3, 4, 16, 14, 18, 0, 1, 13, 14, 1, 31, 9, 6, 2, 11]
CLS = [
    -3.77e-3, -6.04e-3, -2.23e-2, 1.25e-4, -9.78e-2, 1.23e-1, 1.38e-1, -8.88e-2, -4.40e-2, -2.48e-2, -5.42e-2, -3.84e-3,
    -6.21e-2, -2.57e-3, 1.26e-4,
]  # fmt: skip


# ------------------------------------------------------------------------------------------------- published numbers
@pytest.mark.parametrize(
    ("ties", "tau"),
    [
        # The release prints 0.6377481392176932: differences of floats, where 1/80 from other frequencies is no tie.
        pytest.param("floats", 0.6377481392176932, id="released"),
        pytest.param("counts", 0.64409405, id="exact"),
    ],
)
def test_tau_of_stable_diffusion_neutral(ties, tau):
    vector = count_differences(WOMEN, MEN, 80, 80, ties=ties)
    assert kendall_tau(CLS, vector) == pytest.approx(tau, abs=5e-9)


def test_mcc_and_pearson_of_stable_diffusion_neutral():
    vector = count_differences(WOMEN, MEN, 80, 80)
    # Release: 0.318182 (7/22) and 0.86993. Mask is 2/80 in both: the one zero, counted as positive.
    assert sign_mcc(CLS, vector, zeros="positive") == (pytest.approx(0.31818182), 15, 1)
    assert pearson_r(CLS, vector) == pytest.approx(0.86993, abs=5e-6)
    agreement = vector_agreement(CLS, vector, zeros="positive")
    assert (agreement.n_used, agreement.n_zero, agreement.n_unusable) == (15, 1, 0)
    for interval in (agreement.tau, agreement.mcc, agreement.pearson):
        assert -1 < interval.low < interval.value < interval.high < 1


TABLE_6 = {  # arXiv:2302.03675, Table 6: CogView2, DALL-E 2, Stable Diffusion, neutral and then explicit
    "human": (0.02, 0.05, 0.07, 0.18, 0.12, 0.14),
    "C": (5.15e-3, 5.06e-3, 4.80e-3, 9.81e-3, 9.76e-3, 7.08e-3),
    "CC": (4.49e-3, 5.68e-3, 4.77e-3, 1.10e-2, 1.04e-2, 6.58e-3),
    "CLS": (3.79e-2, 4.26e-2, 4.47e-2, 9.25e-2, 5.18e-2, 6.32e-2),
}


@pytest.mark.parametrize(
    ("method", "tau", "ranks"),
    [("C", 7 / 15, [3, 2, 1, 6, 5, 4]), ("CC", 11 / 15, [1, 3, 2, 6, 5, 4]), ("CLS", 1, [1, 2, 3, 6, 4, 5])],
)
def test_ranks_and_tau_of_table_6(method, tau, ranks):
    result = score_agreement(TABLE_6[method], TABLE_6["human"])
    assert result.tau == pytest.approx(tau)  # the paper truncates 7/15 to 0.466
    assert result.ranks_automatic.tolist() == ranks
    assert result.ranks_reference.tolist() == [1, 2, 3, 6, 4, 5]


def test_pair_types_are_as_many_as_in_table_21():
    # 30 sets of each attribute for CogView2 and 40 for the other two models: 1,650.
    attributes = np.concatenate([np.tile(np.arange(15), n) for n in (30, 40, 40)])
    models = np.repeat(["CogView2", "DALLE-2", "Stable Diffusion"], [450, 600, 600])
    rng = np.random.default_rng(0)
    x = rng.normal(size=1650)
    result = tau_by_pair_type(x, x + rng.normal(size=1650), attributes=attributes, models=models)
    assert [result[name].pairs for name in PAIR_TYPES] == [29_925, 430_500, 60_000, 840_000]


# ------------------------------------------------------------------------------------------------------------------ tau
numbers = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=40)


@settings(max_examples=80)
@given(numbers)
def test_tau_is_scipys(pairs):
    x, y = np.array(pairs, dtype=float).T
    assert kendall_tau(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, nan_ok=True)
    assert kendall_tau(y, x) == pytest.approx(kendall_tau(x, y), nan_ok=True)
    assert kendall_tau(-x, y) == pytest.approx(-kendall_tau(x, y), nan_ok=True)


def test_tau_by_hand_and_of_many():
    # Pairs of (1,1) (2,3) (3,2) (3,4): five comparable on x; 1-2 1-3 1-4 2-4 agree, 2-3 does not, 3-4 is tied on x.
    assert pair_counts([1, 2, 3, 3], [1, 3, 2, 4]) == (6, 3, 1, 0)
    assert pair_counts([1, 1, 1], [1, 2, 3]) == (3, 0, 3, 0)
    assert pair_counts([], []) == (0, 0, 0, 0)
    assert kendall_tau([1, 2, 3, 3], [1, 3, 2, 4]) == pytest.approx(3 / math.sqrt(5 * 6))
    rng = np.random.default_rng(1)
    x = rng.normal(size=3000)
    y = np.round(x + rng.normal(size=3000), 1)
    assert kendall_tau(x, y) == pytest.approx(stats.kendalltau(x, y).statistic)
    assert math.isnan(kendall_tau([1, 1], [1, 2]))
    assert math.isnan(kendall_tau([], []))


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("ab"), st.sampled_from("xyz")),
        min_size=2, max_size=25,
    )
)  # fmt: skip
def test_tau_by_pair_type_is_that_over_the_pairs_one_by_one(rows):
    x, y = np.array([r[:2] for r in rows], dtype=float).T
    result = tau_by_pair_type(x, y, attributes=[r[2] for r in rows], models=[r[3] for r in rows])
    sums = {name: np.zeros(4) for name in PAIR_TYPES}
    for i in range(len(rows)):
        for j in range(i):
            a = "same" if rows[i][2] == rows[j][2] else "different"
            m = "same" if rows[i][3] == rows[j][3] else "different"
            dx, dy = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
            sums[f"{a}_attribute_{m}_model"] += (1, dx * dy, dx != 0, dy != 0)
    for name, (pairs, balance, free_x, free_y) in sums.items():
        assert result[name].pairs == pairs
        expected = balance / math.sqrt(free_x * free_y) if free_x * free_y else math.nan
        assert result[name].tau == pytest.approx(expected, nan_ok=True)


def test_ties_of_counts_are_ties_and_those_of_floats_may_not_be():
    first, second = [2, 7], [1, 6]
    assert len(set(count_differences(first, second, 80, 80).tolist())) == 1
    assert len(set(count_differences(first, second, 80, 80, ties="floats").tolist())) == 2
    assert math.isnan(count_differences([0, 1], [0, 1], [0, 2], 4)[0])
    with pytest.raises(ValueError, match="between 0 and the number of images"):
        count_differences([5], [1], 4, 4)
    with pytest.raises(ValueError, match="ties must be one of"):
        count_differences([1], [1], 4, 4, ties="exact")


# ------------------------------------------------------------------------------------------------------------------ mcc
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(-1, 1)), min_size=1, max_size=30))
def test_mcc_is_scikit_learns_wherever_it_is_defined(pairs):
    a, b = np.array(pairs).T
    kept = (a != 0) & (b != 0)
    sides = {
        "positive": (np.where(a < 0, -1, 1), np.where(b < 0, -1, 1)),
        "own_class": (a, b),
        "left_out": (a[kept], b[kept]),
    }
    for zeros, (x, y) in sides.items():
        result = sign_mcc(a * 0.1, b * 7.0, zeros=zeros)
        assert result.n_zero == np.count_nonzero(~kept)
        assert result.n_used == len(x)
        if len(set(x.tolist())) < 2 or len(set(y.tolist())) < 2:
            assert math.isnan(result.mcc)  # scikit-learn: 0
        else:
            assert result.mcc == pytest.approx(matthews_corrcoef(x, y))


def test_conventions_for_zeros_differ_by_name():
    automatic, human = [0.1, 0.2, -0.1, -0.2, 0.3], [0.1, 0.2, -0.1, 0.0, 0.0]
    # positive: table [[3, 0], [1, 1]], hence (3 * 1 - 0) / sqrt(4 * 1 * 3 * 2).
    assert sign_mcc(automatic, human, zeros="positive").mcc == pytest.approx(3 / math.sqrt(24))
    assert sign_mcc(automatic, human, zeros="left_out") == (1.0, 3, 2)
    with pytest.raises(ValueError, match="zeros must be one of"):
        sign_mcc(automatic, human, zeros="negative")


# -------------------------------------------------------------------------------------------------------------- vectors
def test_intervals_of_vector_agreement_cover():
    # Kendall's tau of a bivariate normal with correlation r is 2/pi * arcsin(r).
    rng = np.random.default_rng(2)
    r, inside = 0.7, np.zeros(2)
    for _ in range(200):
        x = rng.normal(size=15)
        result = vector_agreement(x, r * x + math.sqrt(1 - r * r) * rng.normal(size=15))
        inside += [
            result.tau.low <= 2 / math.pi * math.asin(r) <= result.tau.high,
            result.pearson.low <= r <= result.pearson.high,
        ]
    assert (inside >= 178).all()  # 190 of 200 expected; few attributes make the jackknife a little short
    assert (inside <= 199).all()


def test_unknown_entries_are_left_out_and_counted():
    result = vector_agreement([0.1, math.nan, 0.3, -0.2], [0.2, 0.1, math.nan, -0.1])
    assert (result.n_used, result.n_unusable) == (2, 2)
    assert result.tau.value == 1
    assert math.isnan(result.tau.low)
    nothing = vector_agreement([math.nan], [0.0])
    assert math.isnan(nothing.tau.value)
    assert math.isnan(nothing.mcc.value)


def test_a_constant_off_the_vector_moves_the_signs_only():
    # Neutral prompts: CC is C minus one number.
    rng = np.random.default_rng(3)
    human, c = rng.normal(size=15), rng.normal(size=15)
    a, b = vector_agreement(c, human), vector_agreement(c - 0.4, human)
    assert a.tau == b.tau
    assert a.pearson.value == pytest.approx(b.pearson.value)
    assert a.mcc.value != b.mcc.value


# ------------------------------------------------------------------------------------------------------------------ auc
def delong_error(labels, estimates):
    """The formula of the paper, pair by pair."""
    x, y = estimates[labels == 1], estimates[labels == 0]
    psi = (x[:, None] > y).astype(float) + 0.5 * (x[:, None] == y)
    return math.sqrt(psi.mean(axis=1).var(ddof=1) / len(x) + psi.mean(axis=0).var(ddof=1) / len(y))


def test_auc_is_scikit_learns_and_its_interval_delongs():
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 200)
    estimates = np.round(labels + rng.normal(size=200), 1)
    estimate = roc_auc(labels, estimates)
    assert estimate.value == pytest.approx(roc_auc_score(labels, estimates))
    half = stats.t.ppf(0.975, 199) * delong_error(labels, estimates) / (estimate.value * (1 - estimate.value))
    middle = math.log(estimate.value / (1 - estimate.value))
    assert estimate.low == pytest.approx(1 / (1 + math.exp(half - middle)))
    assert estimate.high == pytest.approx(1 / (1 + math.exp(-half - middle)))
    assert estimate[3:] == (labels.sum(), 200 - labels.sum())


def test_auc_of_one_has_a_width_and_of_one_kind_none():
    estimate = roc_auc([0] * 20 + [1] * 10, np.arange(30))
    assert (estimate.value, estimate.high) == (1, 1)
    assert 0.8 < estimate.low < 0.95
    turned = roc_auc([1] * 20 + [0] * 10, np.arange(30))
    assert (turned.value, turned.low) == (0, 0)
    assert turned.high == pytest.approx(1 - estimate.low)
    assert math.isnan(roc_auc([1, 1], [0.1, 0.2]).value)
    assert math.isnan(roc_auc([], []).value)
    assert roc_auc([0, 1], [0.5, 0.5]).value == 0.5


def test_auc_intervals_cover_with_images_of_prompts():
    # Estimate: label + effect of the prompt + noise. Difference of two images of different prompts: N(1, 2 * 1.25).
    truth = stats.norm.cdf(1 / math.sqrt(2 * 1.25))
    rng = np.random.default_rng(5)
    together = alone = 0
    for _ in range(150):
        prompts = np.repeat(np.arange(32), 5)
        labels = np.repeat(rng.integers(0, 2, 32), 5)
        estimates = labels + np.repeat(rng.normal(size=32), 5) + 0.5 * rng.normal(size=160)
        estimate = roc_auc(labels, estimates, clusters=prompts)
        together += estimate.low <= truth <= estimate.high
        estimate = roc_auc(labels, estimates)
        alone += estimate.low <= truth <= estimate.high
    assert 135 <= together <= 149  # 142.5 expected
    assert alone < 110


def test_auc_by_group_and_the_mean():
    rng = np.random.default_rng(6)
    groups = np.repeat(["tie", "hat", "mask"], 60)
    labels = np.concatenate([rng.integers(0, 2, 120), np.zeros(60)])
    estimates = labels + rng.normal(size=180)
    table = auc_by_group(groups.tolist(), labels, estimates, order=("hat",))
    assert list(table.groups) == ["hat", "tie", "mask"]
    assert math.isnan(table.groups["mask"].value)
    assert table.n_undefined == 1
    singles = [table.groups[g].value for g in ("tie", "hat")]
    assert table.mean.value == pytest.approx(np.mean(singles))
    assert table.groups["tie"] == roc_auc(labels[:60], estimates[:60])
    # Independent images: half the root of the sum of squared errors.
    errors = [delong_error(labels[s], estimates[s]) for s in (slice(0, 60), slice(60, 120))]
    half = stats.t.ppf(0.975, 179) * math.hypot(*errors) / 2
    slope = table.mean.value * (1 - table.mean.value)
    width = math.log(table.mean.high / (1 - table.mean.high)) - math.log(table.mean.value / (1 - table.mean.value))
    assert width == pytest.approx(half / slope, rel=1e-6)


def test_released_pooling_gives_aucs_of_one_gender_each():
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 2, (2, 160))
    probabilities = rng.random((2, 10, 160)) + 0.3 * labels[:, None]
    estimate = released_classifier_auc(labels, probabilities)
    assert len(estimate) == 10
    # The first piece: men, seeds 0 and 1; the last: women, seeds 8 and 9.
    men = roc_auc_score(np.tile(labels[1], 2), probabilities[1, :2].ravel())
    women = roc_auc_score(np.tile(labels[0], 2), probabilities[0, 8:].ravel())
    assert estimate[0] == pytest.approx(men)
    assert estimate[-1] == pytest.approx(women)
    with pytest.raises(ValueError, match=r"shape \(2, S, N\)"):
        released_classifier_auc(labels, probabilities[:, :, :9])


# ---------------------------------------------------------------------------------------------------------------- ratio
def test_ratio_by_hand():
    labels = [1, 1, 1, 1, 0, 0]
    estimates = [0.30, 0.32, 0.29, 0.31, 0.20, 0.20]
    # Shown: women 0.31, men 0.30: 0.01. With 0.305, without 0.20: 0.105.
    result = presentation_ratio(labels, estimates, [1, 1, 0, 0, 1, 0])
    assert result.by_gender == pytest.approx(0.01)
    assert result.by_label == pytest.approx(0.105)
    assert result.ratio.value == pytest.approx(0.01 / 0.105)
    assert result.ratio.low < result.ratio.value < result.ratio.high
    assert math.isnan(presentation_ratio([1, 0], [0.3, 0.2], [1, 1]).ratio.value)


# ------------------------------------------------------------------------------------------------------------ bad input
def test_bad_input_is_named():
    with pytest.raises(ValueError, match="one length"):
        kendall_tau([1, 2], [1])
    with pytest.raises(ValueError, match="1 of 2 entries are NaN"):
        pearson_r([1, math.nan], [1, 2])
    with pytest.raises(ValueError, match="labels must be 0 or 1; got 2"):
        roc_auc([0, 2], [0.1, 0.2])
    with pytest.raises(ValueError, match="one label for each of the 2 values"):
        roc_auc([0, 1], [0.1, 0.2], clusters=[1])
    with pytest.raises(ValueError, match="one entry for each of the 2 images"):
        presentation_ratio([0, 1], [0.1, 0.2], [True])
    with pytest.raises(ValueError, match="one group for each of the 2 rows"):
        auc_by_group(["a"], [0, 1], [0.1, 0.2])
    with pytest.raises(ValueError, match="one-dimensional and of one length"):
        vector_agreement([1], [1, 2])
