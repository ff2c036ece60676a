"""Reference distributions, and numbers without the judge's measured error."""

import json
import math

import pytest
from social_bias_v1_worlds import JUDGE, finder, seen

from verism.cards import JudgeCard, Measured, write_card
from verism.errors import UsageError
from verism.suites.social_bias_v1.suite import SocialBiasV1


def ten(tmp_path, images=1):
    record = {"name": "ten", "n_images": images, "categories": [{"name": "c", "words": [f"w{i}" for i in range(10)]}]}
    path = tmp_path / "ten.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    return SocialBiasV1.make({"prompts": path}).with_rules(n_resamples=200)


def six_male(prompt, _index):
    return {"gender": [0.9, 0.1] if int(str(prompt.facets["word"])[1:]) < 6 else [0.1, 0.9]}


def table(tmp_path, text):
    path = tmp_path / "target.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_votes_beside_a_share_for_all_words_and_for_one(tmp_path):
    """6 of 10 male against 0.6: nothing. With w0 0.1 and the others 0.7: the goal is (0.1 + 9 0.7) / 10 = 0.64."""
    suite = ten(tmp_path)
    observed = seen(suite, six_male)
    for text, apart in (
        ("class,share\nmale,0.6\n", 0.0),
        ("class,share,word\nmale,0.7,\nmale,0.1,w0\nfemale,0.9,w0\n", 0.04),
    ):
        chosen = suite.with_rules(target=table(tmp_path, text))
        find = finder(chosen.scores(observed, chosen.verdicts(observed)))
        score = find("reference_deviation", axis="gender")
        assert score.value == pytest.approx(apart, abs=1e-12)
        assert score.ci_low <= score.value <= score.ci_high
        assert find("reference_deviation_expected", axis="gender").value > 0.05
        again = suite.with_rules(**json.loads(json.dumps(chosen.all_rules())))
        assert again.all_rules() == chosen.all_rules()


def test_images_are_compared_prompt_by_prompt(tmp_path):
    """Each word has one class alone, and the goal is one half: 1/2 from it, though all images together are near."""
    suite = ten(tmp_path, images=4).with_rules(target=table(tmp_path, "class,share\nmale,0.5\n"))
    observed = seen(suite, six_male)
    find = finder(suite.scores(observed, suite.verdicts(observed)))
    assert find("reference_deviation", "revised", axis="gender").value == pytest.approx(0.5)
    assert find("reference_deviation_debiased", "revised", axis="gender").value == pytest.approx(0.5, abs=0.05)
    assert find("reference_deviation", axis="gender").value == pytest.approx(0.1)
    assert not any(s.group["axis"] == "race" for s in suite.scores(observed, suite.verdicts(observed))
                   if s.metric == "reference_deviation")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [("class,share\nmale,1.5\n", "share is a number"), ("class,share\nyoung,0.5\n", "'young' is no class"),
     ("class,share,word\nmale,0.5,welder\n", "no word 'welder'")],
)  # fmt: skip
def test_targets_that_do_not_fit(tmp_path, text, words):
    with pytest.raises(UsageError, match=words):
        ten(tmp_path).with_rules(target=table(tmp_path, text))


def card(judge=JUDGE, kind="rendered", labels=("male", "female"), counts=((90, 10), (30, 70))):
    measured = Measured(task="gender", protocol="revised", labels=labels, counts=counts)
    return JudgeCard(judge=judge, role="clip", kind=kind, ground_truth="made for a test", measured=(measured,))


def test_shares_without_the_judges_error(tmp_path):
    """It says male of 90 % of men and 30 % of women, and of 60 % of the images: (0.6 - 0.3) / (0.9 - 0.3) = 1/2."""
    path = tmp_path / "card.json"
    write_card(card(), path)
    suite = ten(tmp_path).with_rules(cards=str(path))
    observed = seen(suite, six_male)
    scores = suite.scores(observed, suite.verdicts(observed))
    adjusted = finder([s for s in scores if s.adjusted == "rendered"])
    share = adjusted("class_share", "revised", axis="gender", cls="male")
    assert share.value == pytest.approx(0.5, abs=1e-6)
    assert share.ci_low < 0.5 < share.ci_high
    assert adjusted("pooled_mad", "revised", axis="gender").value == pytest.approx(0, abs=1e-6)
    assert not math.isnan(adjusted("mad_debiased", "revised", axis="gender").value)
    assert finder([s for s in scores if not s.adjusted])(
        "class_share", "revised", axis="gender", cls="male"
    ).value == pytest.approx(0.6)
    lines = " ".join(suite.remarks(observed))
    assert "speaks of race" in lines
    again = suite.with_rules(**json.loads(json.dumps(suite.all_rules())))
    assert again.cards == suite.cards


def test_the_order_of_classes_in_a_card_does_not_matter(tmp_path):
    turned = card(labels=("female", "male"), counts=((70, 30), (10, 90)))
    observed = seen(ten(tmp_path), six_male)
    values = []
    for one in (card(), turned):
        suite = ten(tmp_path).with_rules(cards=[one])
        scores = [s for s in suite.scores(observed, suite.verdicts(observed)) if s.adjusted]
        values.append([s.value for s in scores])
    assert values[0] == pytest.approx(values[1])


def test_a_card_of_another_judge_says_nothing(tmp_path):
    suite = ten(tmp_path).with_rules(cards=[card(judge="another")])
    observed = seen(suite, six_male)
    assert not any(s.adjusted for s in suite.scores(observed, suite.verdicts(observed)))
    assert "speaks of gender or race" in " ".join(suite.remarks(observed))
    with pytest.raises(UsageError):
        suite.with_rules(cards=str(tmp_path / "none.json"))
    with pytest.raises(UsageError, match="cards"):
        suite.with_rules(cards=[3])
