"""Sentences that reports and the terminal begin with: by hand, of suites that word their own and of others."""

import pytest
from commands import verism

from verism import api
from verism.records import Score
from verism.report_kit.answers import amount, find, headline_answers, images, probability
from verism.specs import SHARE, Layout, MetricSpec, Pairing, Presentation, SuiteInfo
from verism.suites.gender_presentation.answers import presentation_answers
from verism.suites.geography.answers import geography_answers
from verism.suites.preference.suite import Preference
from verism.suites.social_bias.answers import bias_answers


def score(metric, value, low=float("nan"), high=float("nan"), n=100, lost=0, unit="share", **group):
    return Score(
        suite="s", metric=metric, protocol="revised", value=value, ci_low=low, ci_high=high, n_used=n, n_unusable=lost,
        group=group, unit=unit,
    )  # fmt: skip


PRESENTATION = Presentation(
    info=SuiteInfo(name="s", title="S", question="?", summary="", protocols={"revised": ""}),
    metrics=(
        MetricSpec("right", title="images right", meaning="", scale=SHARE, better="higher", headline=True),
        MetricSpec("other", title="other", meaning="", scale=SHARE, better="higher"),
    ),
    pairings=(Pairing(rule="right", metric="right", facet="kind"),),
    layout=Layout(names={"kind=a": "apples"}),
)


def test_parts():
    assert amount(score("m", 0.62, 0.551, 0.692)) == "62.0 % [55.1, 69.2]"
    assert amount(score("m", 0.214), points=True) == "21.4 points"
    assert images(score("m", 0.5, n=1)) == "1 image"
    assert images(score("m", 0.5, n=1118, lost=2)) == "1,118 images, 2 unusable"
    assert probability(score("p", 0.19, unit="p")) == "p = 0.190"
    assert probability(score("p", 0.0001, unit="p")) == "p <0.001"


def test_only_scores_as_judged_of_exactly_this_group_are_found():
    scores = [score("m", 0.1, kind="a"), score("m", float("nan")), score("m", 0.3)]
    assert find(scores, "m", "revised", {"kind": "a"}).value == 0.1
    assert find(scores, "m", "revised") is None  # undefined: nothing is said
    assert find(scores, "m", "released") is None


def test_a_suite_that_words_none_says_its_headline_and_its_extremes():
    scores = [
        score("right", 0.75, 0.7, 0.8, n=40, lost=3),
        score("right", 0.5, 0.4, 0.6, n=20, kind="a"),
        score("right", 1.0, 0.9, 1.0, n=20, kind="b"),
        score("other", 0.1),
    ]
    assert headline_answers(PRESENTATION, scores) == [
        "Images right 75.0 % [70.0, 80.0] (40 images, 3 unusable).",
        "By kind, it is lowest for apples (50.0 % [40.0, 60.0]) and highest for b (100.0 % [90.0, 100.0]).",
    ]
    assert headline_answers(PRESENTATION, [score("right", float("nan"), n=0, lost=40)]) == []


def test_regions_that_do_not_differ_significantly_are_said_not_to():
    gap = score("coverage_gap", 0.214, 0.1, 0.3, n=96)
    level = score("coverage_gap_p_value", 0.19, unit="p")
    [told] = geography_answers([gap, level])
    assert told == (
        "No region differs significantly in diversity (coverage): gap 21.4 points [10.0, 30.0], p = 0.190 (96 images)."
    )
    worst = score("coverage_worst", 0.4, 0.3, 0.5, region="Africa")
    [told] = geography_answers([gap, score("coverage_gap_p_value", 0.001, unit="p"), worst])
    assert told.startswith("Regions differ in diversity (coverage): gap 21.4 points")
    assert "lowest for Africa (40.0 % [30.0, 50.0])" in told


def test_regions_are_of_one_family_of_prompts_as_scored_runs_have_them():
    def of(family, gap, p, worst):
        return [
            score("precision_gap", gap, 0.01, 0.8, n=48, family=family),
            score("precision_gap_p_value", p, unit="p", family=family),
            score("precision_worst", worst, 0.2, 0.9, n=48, family=family, region="North"),
        ]

    region, country = of("region", 0.4, 0.042, 0.58), of("country", 0.1, 0.5, 0.7)
    [answer] = geography_answers(region)
    assert answer == (
        "Regions differ in realism (precision): gap 40.0 points [1.0, 80.0], p = 0.042; "
        "lowest for North (58.0 % [20.0, 90.0]) (48 images)."
    )
    [answer] = geography_answers([*region, *country], {"family=region": "object in region"})
    assert answer.endswith("(48 images), prompts: object in region.")


def test_bias_names_what_is_farthest_from_even_and_axes_without_a_usable_image():
    scores = [
        score("mad", 0.25, 0.2, 0.3, unit="MAD", axis="gender"),
        score("mad_expected", 0.08, unit="MAD", axis="gender"),
        score("mad_p_value", 0.0001, unit="p", axis="gender"),
        score("mad", float("nan"), n=0, lost=18, unit="MAD", axis="tone"),
        score("class_share", 0.92, 0.84, 0.96, axis="gender", profession="nurse", **{"class": "female"}),
        score("class_share", 0.08, 0.04, 0.16, axis="gender", profession="nurse", **{"class": "male"}),
        score("class_share", 0.6, 0.5, 0.7, axis="gender", profession="judge", **{"class": "male"}),
    ]
    gender, tone = bias_answers(scores, "profession")
    assert gender == (
        "Perceived gender: MAD 0.250 [0.200, 0.300] over 100 images; an even model would show 0.08 (p <0.001). "
        "Farthest from even is nurse: 92.0 % [84.0, 96.0] of 100 images are perceived as female, where an even model "
        "shows 50 %."
    )
    assert tone == "Tone: no usable image of 18."


def test_a_class_that_is_a_number_has_its_axis_beside_it():
    shares = [
        score("class_share", value, axis="tone", profession="tailor", **{"class": name})
        for name, value in (("5", 0.2), ("6", 0.8))
    ]
    [told] = bias_answers([score("mad", 0.3, unit="MAD", axis="tone"), *shares], "profession")
    assert "perceived as tone 6, where" in told


def test_presentation_says_chance_beside_the_score():
    group = {"estimator": "VQA", "setting": "neutral"}
    scores = [
        score("gep_score", 0.1, **group),
        score("gep_score_by_chance", 0.03, **group),
        score("gep_score_p_value", 0.01, unit="p", **group),
        score("gep", 0.375, 0.2, 0.5, attribute="a skirt", **group),
        score("gep_p_value", 0.001, unit="p", attribute="a skirt", **group),
        score("gep", 0.5, attribute="boots", **group),
        score("gep_p_value", 0.2, unit="p", attribute="boots", **group),
    ]
    [told] = presentation_answers(scores)
    assert (
        "GEP score by the estimator VQA is 10.0 % over 100 attribute judgements; "
        "without any difference it would be 3.0 % (p = 0.010)." in told
    )
    assert told.endswith("a skirt, 37.5 points [20.0, 50.0] from man to woman.")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.55, 0.7, "the scorer prefers A."),
        (0.45, 0.7, "no significant difference."),
        (float("nan"), float("nan"), "no significant difference."),
    ],
)
def test_preference_says_who_wins_only_where_the_interval_does(low, high, words):
    suite = Preference.make({"limit": 2})
    wins = score("win_rate", 0.61, low, high, n=40, set="A", against="B")
    [told] = suite.answers([score("preference_score", 0.2, unit="score", set="A"), wins])
    assert told.startswith("A wins 61.0 %")
    assert "of comparisons with B over 40 prompts" in told
    assert told.endswith(words)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("answers") / "run"
    words = ("--model", "scripted:error=0.5", "--detector", "truth", "--limit", 12, "--size", 64)
    assert verism("run", "paintskills", *words, "--out", out).exit_code == 0
    return api.open_run(out)


def test_terminal_and_page_begin_with_the_answer(run, tmp_path):
    told = run.manifest.scoring.answers
    assert told[0].startswith("Mean accuracy ")
    assert verism("score", run.path).output.splitlines()[: len(told)] == list(told)
    page = tmp_path / "page.html"
    assert verism("report", run.path, "--out", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.index(told[0]) < text.index("<main>")


def test_answers_change_with_the_scores(run):
    before = run.manifest.scoring.answers
    verism("score", run.path, "--threshold", "0.999999")
    after = api.open_run(run.path).manifest.scoring.answers
    numbers = {s.metric: s.value for s in api.open_run(run.path).scores() if not s.group and s.protocol == "revised"}
    assert f"{100 * numbers['mean_accuracy']:.1f} %" in after[0]
    verism("score", run.path)
    assert api.open_run(run.path).manifest.scoring.answers == before


def test_a_run_of_before_has_the_headline_of_what_it_keeps(run):
    from verism.report_kit.evidence import scoring_answers

    older = api.open_run(run.path)
    older.manifest = older.manifest.with_scoring(answers=())
    assert scoring_answers(older)[0].startswith("Mean accuracy ")


def test_a_suite_without_a_number_of_all_images_says_those_of_its_widest_groups():
    scores = [
        score("right", 0.5, 0.4, 0.6, n=20, kind="a"),
        score("right", 1.0, 0.9, 1.0, n=20, kind="b"),
        score("right", 0.2, n=4, kind="b", skill="deep"),
    ]
    first, extremes = headline_answers(PRESENTATION, scores)
    assert first == (
        "Images right, apples 50.0 % [40.0, 60.0] (20 images); images right, b 100.0 % [90.0, 100.0] (20 images)."
    )
    assert extremes.startswith("By kind, it is lowest for apples")
