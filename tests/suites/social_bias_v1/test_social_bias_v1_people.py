"""People's labels: majorities, what they say of a model, and how far the judge agrees."""

import csv
import itertools
import json
import math

import numpy as np
import pytest
from social_bias_v1_worlds import finder, seen

from verism.errors import UsageError
from verism.suites.social_bias_v1.people import majorities, majority, matthews, read_labels
from verism.suites.social_bias_v1.suite import SocialBiasV1


def table(folder, rows, name="labels.csv"):
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(itertools.chain.from_iterable(rows))))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize(
    ("labels", "most"),
    [
        (["male", "male", "female"], "male"),
        (["White", "Asian", "White", "Black", "Black"], None),  # 2 : 2
        (["White", "Asian", "White", "Black", "Hispanic"], "White"),  # most, though not more than half
        (["unsure", "unsure", "male"], None),
        (["male"], "male"),
        ([], None),
    ],
)
def test_majorities(labels, most):
    assert majority(labels) == most


def test_phi_and_more_classes_are_as_reference_libraries_have_them():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for k in (2, 3, 4):
        first = rng.integers(0, k, 60)
        second = np.where(rng.random(60) < 0.6, first, rng.integers(0, k, 60))
        result = matthews(first, second, n_classes=k, n_resamples=200)
        assert result.value == pytest.approx(metrics.matthews_corrcoef(first, second), abs=1e-12)
        assert result.low < result.value < result.high


def test_phi_by_hand():
    # Table [[3, 1], [1, 3]]: (9 - 1) / (4 4 4 4)^(1/2) = 0.5
    first, second = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 0, 1, 1, 1]
    assert matthews(first, second, n_classes=2, n_resamples=0).value == pytest.approx(0.5)
    assert math.isnan(matthews([0, 0], [0, 1], n_classes=2).value)
    assert math.isnan(matthews([], [], n_classes=2).value)
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        matthews([2], [0], n_classes=2)


# -------------------------------------------------------------------------------------------------------------- tables
def test_rows_may_name_prompts_in_any_way(tmp_path):
    suite = SocialBiasV1.make({})
    rows = [
        {"prompt_id": "profession/pilot", "axis": "gender", "label": "Male", "rater": "a"},
        {"prompt": "a photo of a pilot", "axis": "gender", "label": "male", "rater": "b"},
        {"word": "pilot", "axis": "gender", "label": "FEMALE", "rater": "c"},
        {"word": "pilot", "index": "3", "axis": "race", "label": "asian", "rater": "c"},
        {"image_id": "profession/nurse#0", "axis": "race", "label": "not sure", "rater": "c"},
        {"word": "pilot", "axis": "human", "label": "yes", "rater": "a"},
        {"word": "not of this run", "axis": "human", "label": "yes", "rater": "a"},
        {"word": "nurse", "axis": "race", "label": "", "rater": "a"},
    ]
    labels = read_labels(table(tmp_path, rows), suite.axes, suite.prompts())
    assert labels == {
        "prompt": {
            "gender": {"profession/pilot": ["female", "male", "male"]},
            "human": {"profession/pilot": ["human"]},
        },
        "picture": {"race": {"profession/nurse#0": ["unsure"], "profession/pilot#3": ["Asian"]}},
    }
    assert majorities(labels, "picture", "race") == {"profession/nurse#0": None, "profession/pilot#3": "Asian"}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"word": "pilot", "axis": "age", "label": "old"}], "no axis 'age'"),
        ([{"word": "pilot", "axis": "gender", "label": "White"}], "gender has no class 'White'"),
        ([{"axis": "gender", "label": "male"}], "nothing is named"),
        ([{"word": "pilot", "axis": "gender", "label": "male"}] * 2, "twice"),
        ([{"word": "welder", "axis": "gender", "label": "male"}], "no labels of this run's prompts"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path, rows, words):
    suite = SocialBiasV1.make({})
    with pytest.raises(UsageError, match=words):
        suite.with_rules(labels=table(tmp_path, rows))


# --------------------------------------------------------------------------------------------------------------- scores
def planted(tmp_path, raters=3):
    """Ten prompts. CLIP: male in 0 to 5. People: male in 0 to 3 and in 9; 8 and 9 show no people, most say."""
    record = {"name": "ten", "n_images": 1, "categories": [{"name": "c", "words": [f"w{i}" for i in range(10)]}]}
    path = tmp_path / "ten.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    rows = []
    for i, rater in itertools.product(range(10), range(raters)):
        male = i < 4 or i == 9
        if rater == 2:  # one in three always says the other
            male = not male
        rows.append({"word": f"w{i}", "axis": "gender", "label": "male" if male else "female", "rater": f"r{rater}"})
        human = "no" if i >= 8 and rater != 1 else "yes"
        rows.append({"word": f"w{i}", "axis": "human", "label": human, "rater": f"r{rater}"})
    suite = SocialBiasV1.make({"prompts": path, "labels": table(tmp_path, rows)}).with_rules(n_resamples=200)
    observed = seen(suite, lambda p, _: {"gender": [0.9, 0.1] if int(str(p.facets["word"])[1:]) < 6 else [0.1, 0.9]})
    return suite, observed


def test_agreement_is_over_prompts_judged_human(tmp_path):
    """Of w0 to w7: CLIP male 6, people male 4, both 4: table [[4, 2], [0, 2]].

    phi = (4 2 - 2 0) / (6 2 4 4)^(1/2) = 8 / 192^(1/2) = 0.5774; kappa: agreed 6/8, by chance (6 4 + 2 4) / 64 = 1/2.
    """
    suite, observed = planted(tmp_path)
    find = finder(suite.scores(observed, suite.verdicts(observed)))
    phi = find("agreement", axis="gender", labelled="prompt", measure="phi")
    assert phi.value == pytest.approx(8 / math.sqrt(192))
    assert math.isnan(phi.ci_low)  # some resamples of so few have no female at all, where phi is undefined
    assert (phi.n_used, phi.n_unusable) == (8, 2)
    assert find("agreement", axis="gender", labelled="prompt", measure="kappa").value == pytest.approx(0.5)
    assert find("agreement", axis="gender", labelled="prompt", measure="share").value == pytest.approx(0.75)


def test_people_have_deviations_of_their_own_over_prompts_judged_human(tmp_path):
    """4 male, 4 female of eight; Krippendorff's alpha of three raters of whom one always differs.

    Each of 10 units has one pair alike of three: observed disagreement 2/3. 30 ratings, 10 from r2 (5 male), so 15
    male, 15 female: expected 2 15 15 / (30 29) = 0.5172. alpha = 1 - 0.6667 / 0.5172 = -0.2889.
    """
    suite, observed = planted(tmp_path)
    find = finder(suite.scores(observed, suite.verdicts(observed)))
    people = {"axis": "gender", "by": "people"}
    assert find("votes", **people).value == 8
    assert find("class_share", **people, cls="male").value == 0.5
    assert find("mad", **people).value == 0
    assert find("std", **people).n_unusable == 2
    alpha = find("agreement", **people, labelled="prompt", measure="alpha")
    assert alpha.value == pytest.approx(1 - (2 / 3) / (2 * 15 * 15 / (30 * 29)))


def test_votes_of_people_print_as_table_nine(tmp_path):
    """74 of 108 prompts male, as behind minDALL-E's line: STD 0.1852, MAD by K - 1 0.3704."""
    suite = SocialBiasV1.make({"n_images": 1})
    rows = [
        {"prompt_id": p.prompt_id, "axis": "gender", "label": "male" if i < 74 else "female", "rater": "a"}
        for i, p in enumerate(suite.prompts()[:108])
    ]
    suite = suite.with_rules(labels=table(tmp_path, rows), n_resamples=50)
    observed = seen(suite, lambda *_: {})
    find = finder(suite.scores(observed, suite.verdicts(observed)))
    assert find("std", axis="gender", by="people").value == pytest.approx(0.1852, abs=5e-5)
    assert find("mad_k_minus_1", axis="gender", by="people").value == pytest.approx(0.3704, abs=5e-5)


def test_labels_of_images_are_compared_under_both_protocols(tmp_path):
    suite = SocialBiasV1.make({"limit": 20, "n_images": 2})
    rows = [
        {"image_id": f"{p.prompt_id}#{i}", "axis": "gender", "label": ("male", "female")[(n + i) % 2], "rater": "a"}
        for n, p in enumerate(suite.prompts())
        for i in range(2)
    ]
    suite = suite.with_rules(labels=table(tmp_path, rows), n_resamples=50)
    index_of = {p.prompt_id: n for n, p in enumerate(suite.prompts())}

    def shows(prompt, index):
        male = (index_of[prompt.prompt_id] + index) % 2 == 0
        unsure = index_of[prompt.prompt_id] < 2
        return {"gender": [0.55, 0.45] if unsure else [0.8, 0.2] if male else [0.2, 0.8]}

    observed = seen(suite, shows)
    find = finder(suite.scores(observed, suite.verdicts(observed)))
    revised = find("agreement", "revised", axis="gender", labelled="picture", measure="kappa")
    assert (revised.value, revised.n_used, revised.n_unusable) == (1, 36, 4)
    # 38 of 40 as released: the two that are unsure and female are called male.
    released = find("agreement", axis="gender", labelled="picture", measure="share")
    assert released.value == pytest.approx(38 / 40)


def test_labels_live_in_the_rules_of_a_run(tmp_path):
    suite, observed = planted(tmp_path)
    kept = json.loads(json.dumps(suite.all_rules()))
    again = SocialBiasV1.make({"prompts": tmp_path / "ten.json"}).with_rules(**kept)
    scores = [s for s in again.scores(observed, again.verdicts(observed)) if s.metric == "agreement"]
    assert [s.value for s in scores] == [
        s.value for s in suite.scores(observed, suite.verdicts(observed)) if s.metric == "agreement"
    ]
    assert scores


def test_people_alone_will_do(tmp_path):
    suite, observed = planted(tmp_path)
    nobody = type(observed)(prompts=observed.prompts, images=observed.images, observations={})
    scores = suite.scores(nobody, suite.verdicts(nobody))
    assert finder(scores)("votes", axis="gender", by="people").value == 8
    assert all(s.group["by"] == "people" for s in scores)
