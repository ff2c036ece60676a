"""Everything about one estimator at once: what enters, what is left out and counted, and that order does not matter."""

import math
from dataclasses import replace

import numpy as np
import pytest

from verism.metrics.presentation.judge_agreement import JudgedImages, judge_estimator, judge_models

GENDERS = ("woman", "man")


def images(n=40, attributes=("hat", "tie"), settings=("neutral", "explicit"), seed=0):
    """n images of each gender, attribute and setting; the judge is right up to a little noise."""
    rng = np.random.default_rng(seed)
    rows = [(s, a, g, i) for s in settings for a in attributes for g in GENDERS for i in range(n)]
    labels = rng.integers(0, 2, len(rows)).astype(float)
    return JudgedImages(
        images=[f"{s}/{g}/{a if s == 'explicit' else ''}{i}" for s, a, g, i in rows],
        attributes=[a for _, a, _, _ in rows],
        settings=[s for s, _, _, _ in rows],
        genders=[g for _, _, g, _ in rows],
        prompts=[f"{s}{i // 5}" for s, _, _, i in rows],
        labels=labels,
        estimates=labels + 0.1 * rng.normal(size=len(rows)),
    )


def test_what_has_no_answer_or_no_label_is_left_out_on_both_sides_and_counted():
    judged = images()
    estimates, labels = np.array(judged.estimates), np.array(judged.labels)
    estimates[:7] = math.nan
    labels[7:10] = math.nan
    report = judge_estimator(
        replace(judged, estimates=estimates, labels=labels), genders=GENDERS, attributes=("tie", "hat"), group_size=30
    )
    assert (report.n_used, report.n_unusable, report.n_unlabelled) == (310, 7, 3)
    neutral = report.vectors["neutral"]
    assert neutral.attributes == ("tie", "hat")
    # Rows 0 to 39: hats of women, of which 10 to 39 are left; rows 40 to 79: hats of men.
    assert neutral.human[1] == pytest.approx(labels[10:40].mean() - labels[40:80].mean())
    assert neutral.automatic[1] == pytest.approx(estimates[10:40].mean() - estimates[40:80].mean())
    assert neutral.human_score == pytest.approx(np.abs(neutral.human).mean())
    assert report.auc.groups["hat"].n_positive + report.auc.groups["hat"].n_negative == 150
    assert report.artificial.n_sets == len(report.sets) == len(report.set_estimates) == 4 * 10 * 2


def test_rows_in_any_order_give_the_same_report():
    judged = images()
    order = np.random.default_rng(1).permutation(len(judged.labels))
    shuffled = JudgedImages(**{name: [values[i] for i in order] for name, values in vars(judged).items()})
    kwargs = {"genders": GENDERS, "attributes": ("hat", "tie"), "group_size": 30}
    one, two = (judge_estimator(rows, **kwargs).record() for rows in (judged, shuffled))
    assert repr(one) == repr(two)


def test_swapped_genders_change_the_sign_of_vectors_and_no_auc():
    judged = images()
    one = judge_estimator(judged, genders=GENDERS, group_size=30)
    two = judge_estimator(judged, genders=("man", "woman"), group_size=30)
    for setting in ("neutral", "explicit"):
        assert two.vectors[setting].human == pytest.approx(-one.vectors[setting].human)
        assert two.vectors[setting].automatic_score == pytest.approx(one.vectors[setting].automatic_score)
        assert two.vectors[setting].agreement.tau.value == one.vectors[setting].agreement.tau.value
    assert two.auc == one.auc
    other = judge_estimator(judged, genders=("woman", "nobody"), group_size=30)
    assert np.isnan(other.vectors["neutral"].human).all()
    assert math.isnan(other.vectors["neutral"].agreement.tau.value)
    assert other.artificial is None


def test_yes_or_no_judges_tie_where_people_do():
    judged = images()
    copied = judge_estimator(replace(judged, estimates=judged.labels), genders=GENDERS, group_size=30)
    assert np.array_equal(copied.vectors["neutral"].automatic, copied.vectors["neutral"].human)
    assert copied.artificial.overall.tau.value == pytest.approx(1.0)


def test_conventions_go_with_the_protocol():
    judged = images()
    for protocol, zeros in (("released", "positive"), ("revised", "left_out")):
        report = judge_estimator(judged, genders=GENDERS, protocol=protocol, group_size=30)
        assert report.vectors["neutral"].agreement.zeros == zeros
        assert report.artificial.overall.zeros == zeros


def test_several_models():
    reports = {
        name: judge_estimator(images(seed=seed), genders=GENDERS, group_size=30)
        for seed, name in enumerate(("one", "two"))
    }
    models = judge_models(reports)
    assert models.entries == (("one", "neutral"), ("one", "explicit"), ("two", "neutral"), ("two", "explicit"))
    assert models.mixed.n_used == 160
    assert sum(pair.pairs for pair in models.pairs.values()) == 160 * 159 // 2
    with pytest.raises(ValueError, match="reports of one protocol"):
        judge_models({"one": reports["one"], "two": replace(reports["two"], protocol="released")})


def test_bad_input_is_named():
    judged = images()
    with pytest.raises(ValueError, match="one entry per row"):
        judge_estimator(replace(judged, genders=["woman"]), genders=GENDERS)
    with pytest.raises(ValueError, match=r"labels must be 0, 1 or NaN; got 0\.5"):
        judge_estimator(replace(judged, labels=np.full(len(judged.labels), 0.5)), genders=GENDERS)
