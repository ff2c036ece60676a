"""People among themselves, judges beside people, and preferences, on tables small enough to be worked by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from annotation_runs import PlainSuite, make_run

from verism.annotation.agreement import agreement_report, answer_value, rated_values
from verism.annotation.judge_agreement import (
    Predicted,
    graded_report,
    judge_report,
    predicted_classes,
    predicted_prompt_classes,
)
from verism.annotation.preference import preference_report
from verism.annotation.ratings import Ratings, ratings_of
from verism.annotation.tasks import PREFERENCE, general_tasks
from verism.annotation.votes import Item, Study, VoteStore
from verism.records import Estimand, EstimandPart, Observed, Prompt, RatingTask, Score, frame

YES_NO = RatingTask(
    name="any", question="?", kind="choice", options=("yes", "no", "?"), unsure=("?",), rule="seen", key={"of": "x"}
)
SCALE = general_tasks()[1]
TONE = RatingTask(
    name="tone",
    question="?",
    kind="tone",
    options=(*map(str, range(1, 11)), "?"),
    unsure=("?",),
    rule="tone",
    level="ordinal",
)


def rows(task, given, *, checks=()):
    """Ratings: ``given`` has a line for each rater, an answer per item; ``-`` for skipped, ``.`` for not asked."""
    made = []
    for rater, line in given.items():
        for number, answer in enumerate(line.split()):
            if answer != ".":
                item = f"p{number}#0" if task.unit != "prompt" else f"p{number}"
                made.append(
                    {
                        "item": item,
                        "task": task.name,
                        "rater": rater,
                        "answer": None if answer == "-" else answer,
                        "seconds": 2.0 + number,
                        "check": "gold" if number in checks else None,
                        "source": "browser",
                    }
                )
    return frame("ratings", made)


def world(n=12, facets=lambda _: {}):
    prompts = {f"p{i}": Prompt(prompt_id=f"p{i}", suite="s", text=str(i), facets=facets(i)) for i in range(n)}
    images = frame(
        "images", [{"image_id": f"p{i}#0", "prompt_id": f"p{i}", "index": 0, "state": "ok"} for i in range(n)]
    )
    return Observed(prompts=prompts, images=images, observations={})


class FakeRun:
    """As much of a run as the report reads."""

    name = "fake"

    def __init__(self, observed, verdicts=()):
        self.observed, self.table = observed, frame("verdicts", list(verdicts))

    def prompts_of(self, images):
        rows = dict(self.observed.images.select("image_id", "prompt_id").iter_rows())
        return {image: rows[image] for image in images if image in rows}

    def prompts(self):
        return list(self.observed.prompts.values())

    def verdicts(self):
        return self.table


def report(task, given, *, verdicts=(), suite=None, judged=True, checks=(), observed=None, **more):
    more.setdefault("n_resamples", 200)  # values are by hand; intervals have tests of their own
    observed = world() if observed is None else observed
    table = rows(task, given, checks=checks) if isinstance(given, dict) else given
    ratings = Ratings(table=table, tasks={task.name: task})
    run = FakeRun(observed, verdicts)
    result = agreement_report(
        run, suite or PlainSuite(), ratings, (observed, run.verdicts()) if judged else None, **more
    )
    return result["tasks"].get(task.name)


def estimand(said, rule="seen", key=None, protocol="revised"):
    names = tuple(said)
    part = EstimandPart(
        coefficient=1.0,
        image_ids=names,
        clusters=tuple(name.split("#")[0] for name in names),
        predicted=tuple(said.values()),
        weights=(1 / len(names),) * len(names),
        key={"of": "x"} if key is None else key,
    )
    score = Score(
        suite="s", metric="m", protocol=protocol, value=0.5, ci_low=0, ci_high=1, n_used=len(names), n_unusable=0
    )
    return Estimand(score=score, rule=rule, role="vqa", worth={"yes": 1.0, "no": 0.0}, parts=(part,))


def verdict(item, value, rule="seen", protocol="revised", **detail):
    return {
        "image_id": item,
        "prompt_id": item.split("#")[0],
        "protocol": protocol,
        "rule": rule,
        "value": value,
        "detail": json.dumps(detail),
    }


# -------------------------------------------------------------------------------------------------------------- people
def test_people_among_themselves_by_hand():
    # Four items, two raters: yes/yes, yes/no, no/no, no/no. Alike in 3 of 4. Alpha: 8 ratings, 3 yes and 5 no; observed
    # disagreement 2/8, expected 2*3*5/(8*7) = 30/56; alpha = 1 - (1/4)/(15/28) = 8/15. Fleiss: chance (3/8)^2+(5/8)^2
    # = 34/64; (3/4 - 34/64) / (30/64) = 7/15. Cohen: A 2 yes of 4, B 1 of 4: chance 2/16 + 6/16 = 1/2; (3/4-1/2)*2=1/2.
    result = report(YES_NO, {"A": "yes yes no no", "B": "yes no no no"})["people"]
    assert (result["items"], result["raters"], result["answers"]) == (4, 2, 8)
    assert result["percent_agreement"]["value"] == 0.75
    assert result["krippendorff_alpha"]["value"] == pytest.approx(8 / 15)
    assert result["krippendorff_alpha"]["level"] == "nominal"
    assert result["fleiss_kappa"]["value"] == pytest.approx(7 / 15)
    (pair,) = result["pairs"]
    assert (pair["raters"], pair["items"]) == (["A", "B"], 4)
    assert pair["cohen_kappa"]["value"] == pytest.approx(0.5)
    assert pair["phi"]["value"] == pair["mcc"]["value"] == pytest.approx((1 * 2 - 1 * 0) / math.sqrt(2 * 2 * 1 * 3))
    assert result["majority"] == {"shares": {"yes": 1 / 3, "no": 2 / 3}, "ties": 1, "without_an_answer": 0}
    assert result["seconds_median"] == 3.5
    assert "mean" not in result


def test_unsure_and_skipped_are_counted_and_no_answers():
    result = report(YES_NO, {"A": "yes ? no -", "B": "yes yes no no", "C": "? ? no ."})["people"]
    assert (result["answers"], result["cannot_tell"], result["skipped"]) == (7, 3, 1)
    assert result["percent_agreement"]["value"] == 1.0
    assert result["percent_agreement"]["items"] == 2  # the others have one answer
    assert "fleiss_kappa" not in result  # two answers on the first item, three on the third
    alone = {entry["rater"]: entry for entry in result["raters_alone"]}
    assert (alone["A"]["answers"], alone["A"]["cannot_tell"], alone["A"]["compared"]) == (2, 1, 2)
    assert alone["C"]["answers"] == 1


def test_checks_are_no_part_of_the_agreement():
    with_checks = report(YES_NO, {"A": "yes yes no no", "B": "no no no no"}, checks=(0, 1))["people"]
    assert (with_checks["items"], with_checks["checks"]) == (2, 4)
    assert with_checks["percent_agreement"]["value"] == 1.0
    nothing = report(YES_NO, {"A": "yes"}, checks=(0,))["people"]
    assert (nothing["items"], nothing["answers"]) == (0, 0)
    assert math.isnan(nothing["krippendorff_alpha"]["value"])
    assert nothing["majority"]["shares"] == {}


def test_one_rater_has_nobody_to_agree_with():
    result = report(YES_NO, {"A": "yes no yes"})["people"]
    assert math.isnan(result["percent_agreement"]["value"])
    assert math.isnan(result["krippendorff_alpha"]["value"])
    assert "fleiss_kappa" not in result
    assert result["pairs"] == []
    assert math.isnan(result["raters_alone"][0]["with_majority_of_others"])
    assert result["majority"]["shares"] == {"yes": 2 / 3, "no": 1 / 3}


def test_a_task_nobody_answered_is_left_out():
    assert report(YES_NO, {}) is None


def test_a_rater_who_is_alone_against_the_others_is_found():
    result = report(YES_NO, {"A": "yes yes no no", "B": "yes yes no no", "odd": "no no yes no"})["people"]
    by = {entry["rater"]: entry["with_majority_of_others"] for entry in result["raters_alone"]}
    assert by["odd"] == 0.25  # of A and B
    assert by["A"] == 1.0  # where B and odd agree: the last item alone
    assert next(entry for entry in result["raters_alone"] if entry["rater"] == "A")["compared"] == 1


def test_names_and_order_of_raters_and_rows_change_nothing():
    options = {"A": "yes yes no no yes", "B": "yes no no ? yes", "C": "no yes no no -"}
    first = report(YES_NO, options)["people"]
    renamed = {"z": options["A"], "m": options["C"], "a": options["B"]}
    other = report(YES_NO, rows(YES_NO, renamed).sample(fraction=1.0, shuffle=True, seed=1))["people"]
    same = ("answers", "percent_agreement", "krippendorff_alpha", "majority", "cannot_tell", "seconds_median")
    for name in same:
        assert str(first[name]) == str(other[name]), name
    assert sorted(p["cohen_kappa"]["value"] for p in first["pairs"]) == pytest.approx(
        sorted(p["cohen_kappa"]["value"] for p in other["pairs"])
    )


def test_intervals_resample_prompts_and_can_be_left_out():
    options = {"A": "yes yes no no yes no", "B": "yes no no yes yes no"}
    with_interval = report(YES_NO, options, n_resamples=200, seed=3)["people"]["percent_agreement"]
    assert with_interval["low"] < with_interval["value"] < with_interval["high"]
    without = report(YES_NO, options, n_resamples=0)["people"]["percent_agreement"]
    assert math.isnan(without["low"])
    assert without["value"] == with_interval["value"]


# ------------------------------------------------------------------------------------------------- scales and tones
def test_tones_are_ordered_and_near_is_told():
    # Pairs 3/4, 5/5, 9/2: one apart, none, seven apart: 2 of 3 within one. Mean of means (3.5 + 5 + 5.5) / 3 = 14/3.
    result = report(TONE, {"A": "3 5 9 ?", "B": "4 5 2 7"})["people"]
    assert result["krippendorff_alpha"]["level"] == "ordinal"
    assert result["within_one"]["value"] == pytest.approx(2 / 3)
    assert result["mean"]["value"] == pytest.approx((3.5 + 5 + 5.5 + 7) / 4)
    (pair,) = result["pairs"]
    assert pair["within_one"]["value"] == pytest.approx(2 / 3)
    # Orders 3, 5, 9 and 4, 5, 2: one pair agrees, two do not: tau = -1/3.
    assert pair["kendall_tau_b"]["value"] == pytest.approx(-1 / 3)
    assert list(result["majority"]["shares"]) == ["5", "7"]


def test_a_scale_of_words_counts_by_place():
    task = RatingTask(
        name="w", question="?", kind="scale", options=("bad", "fair", "good", "?"), unsure=("?",), level="ordinal"
    )
    assert [answer_value(task, answer) for answer in ("bad", "good")] == [1.0, 3.0]
    result = report(task, {"A": "bad good fair", "B": "bad good good"})["people"]
    assert result["majority"]["shares"] == {"bad": 0.5, "good": 0.5}
    assert result["mean"]["value"] == pytest.approx((1 + 3 + 2.5) / 3)
    assert result["krippendorff_alpha"]["value"] > 0


def test_a_judge_by_degrees_beside_a_scale():
    # Mean ratings 1, 2, 4.5, 5 against 0.1, 0.3, 0.2, 0.9: of six pairs five agree: tau (5 - 1) / 6.
    options = {"A": "1 2 4 5", "B": "1 2 5 5"}
    collected = [verdict(f"p{i}#0", v, rule="clipscore") for i, v in enumerate((0.1, 0.3, 0.2, 0.9))]
    suite = PlainSuite(graded={"alignment": ("clipscore",)})
    result = report(SCALE, options, verdicts=collected, suite=suite)["graded"]["clipscore"]["revised"]
    assert result["kendall_tau_b"]["value"] == pytest.approx(4 / 6)
    assert result["spearman"]["value"] == pytest.approx(1 - 6 * 2 / (4 * 15))
    expected = np.corrcoef([1, 2, 4.5, 5], [0.1, 0.3, 0.2, 0.9])[0, 1]
    assert result["pearson"]["value"] == pytest.approx(expected)
    assert (result["items"], result["without_verdict"]) == (4, 0)
    assert "within_one" not in result  # a cosine is on another scale
    assert "graded" not in report(SCALE, options, verdicts=collected)  # a suite that does not say so
    assert "graded" not in report(SCALE, options, verdicts=collected, suite=suite, judged=False)


def test_a_judge_of_tones_beside_people():
    # Means 3.5, 5, 8; the judge says 4, 6, 10 and nothing of the last: within one 2 of 3, on average 3.5/3 too dark.
    collected = [verdict(f"p{i}#0", v, rule="tone") for i, v in enumerate((4, 6, 10, None))]
    result = report(TONE, {"A": "3 5 8 2", "B": "4 5 ? 2"}, verdicts=collected)["graded"]["tone"]["revised"]
    assert result["within_one"]["value"] == pytest.approx(2 / 3)
    assert result["mean_difference"]["value"] == pytest.approx(3.5 / 3)
    assert (result["items"], result["without_verdict"]) == (3, 1)


def test_tones_of_a_grid_are_held_against_the_mean_of_its_images():
    task = RatingTask(**{**vars(TONE), "unit": "prompt"})
    collected = [verdict(f"p{i}#{n}", v, rule="tone") for i in range(3) for n, v in enumerate((i + 1, i + 4))]
    result = report(task, {"A": "3 4 9"}, verdicts=collected)["graded"]["tone"]["revised"]
    # Means of images 2.5, 3.5, 4.5; people 3, 4, 9: -0.5, -0.5, -4.5.
    assert result["mean_difference"]["value"] == pytest.approx(-5.5 / 3)
    assert result["kendall_tau_b"]["value"] == 1.0


@pytest.mark.parametrize("options", [("yes", "no"), ("no", "yes"), ("human", "not human")])
def test_the_area_is_of_yes_or_the_first_answer(options):
    # Positive items have 0.9 and 0.4, the others 0.5 and 0.1: 3 of 4 pairs in order.
    positive = "yes" if "yes" in options else "human"
    negative = next(o for o in options if o != positive)
    task = RatingTask(name="t", question="?", kind="choice", options=(*options, "?"), unsure=("?",), rule="r")
    table = rows(YES_NO, {"A": "yes yes no no ?"}).with_columns(task=np.array(["t"] * 5))
    table = table.with_columns(answer=table["answer"].replace({"yes": positive, "no": negative}))
    collected = [verdict(f"p{i}#0", v, rule="degree") for i, v in enumerate((0.9, 0.4, 0.5, 0.1, 0.2))]
    suite = PlainSuite(graded={"r": ("degree",)})
    result = report(task, table, verdicts=collected, suite=suite)["graded"]["degree"]["revised"]
    assert result["auc"]["value"] == 0.75
    assert result["auc"]["positive"] == positive
    assert result["items"] == 4


def test_degrees_are_of_the_tasks_own_key():
    collected = [verdict(f"p{i}#0", i / 4, rule="degree", of=members) for i in range(4) for members in ("x",)]
    collected += [verdict(f"p{i}#0", -i, rule="degree", of="y") for i in range(4)]
    suite = PlainSuite(graded={"seen": ("degree",)})
    result = report(YES_NO, {"A": "no no yes yes"}, verdicts=collected, suite=suite)
    assert result["graded"]["degree"]["revised"]["auc"]["value"] == 1.0


def test_values_of_people_leave_out_ties_and_tasks_of_many_classes():
    table = rows(YES_NO, {"A": "yes yes no ?", "B": "yes no no ?"})
    assert rated_values(YES_NO, table) == {"p0#0": 1.0, "p2#0": 0.0}
    many = RatingTask(name="any", question="?", kind="choice", options=("yes", "no", "?"))
    assert rated_values(many, table) == {}
    assert rated_values(SCALE, rows(SCALE, {"A": "1 5", "B": "2 -"}, checks=())) == {"p0#0": 1.5, "p1#0": 5.0}


def test_degrees_group_by_group():
    observed = world(facets=lambda i: {"half": "first" if i < 3 else "second"})
    rated = {f"p{i}#0": float(v) for i, v in enumerate((1, 2, 3, 1, 2, 3))}
    values = {f"p{i}#0": float(v) for i, v in enumerate((1, 2, 3, 3, 2, 1))}
    result = graded_report(values, SCALE, rated, observed, by=("half",), n_resamples=0)
    assert result["groups"]["half"]["first"]["kendall_tau_b"]["value"] == 1.0
    assert result["groups"]["half"]["second"]["kendall_tau_b"]["value"] == -1.0


# -------------------------------------------------------------------------------------------------------------- judges
def test_a_judge_beside_the_majority_by_hand():
    true = {f"p{i}#0": v for i, v in enumerate(["yes", "yes", "yes", "yes", "no", "no"])}
    answer = {f"p{i}#0": v for i, v in enumerate(["yes", "yes", "yes", "no", "yes", "no"])} | {"p9#0": "yes"}
    result = judge_report(Predicted(classes=answer), true | {"p11#0": "no"}, world(), n_resamples=0)
    assert result["labels"] == ["no", "yes"]
    assert result["confusion"] == [[1, 1], [1, 3]]  # true by said
    assert (result["items"], result["without_verdict"]) == (6, 1)
    assert result["accuracy"]["value"] == pytest.approx(4 / 6)
    assert result["classes"]["yes"]["found"]["value"] == 0.75  # sensitivity
    assert result["classes"]["yes"]["not_claimed"]["value"] == 0.5  # specificity
    assert result["classes"]["no"]["found"]["value"] == 0.5
    assert result["phi"]["value"] == result["mcc"]["value"] == pytest.approx((3 * 1 - 1 * 1) / math.sqrt(4 * 4 * 2 * 2))


def test_a_judge_that_is_worse_for_one_group_is_found():
    observed = world(80, facets=lambda i: {"group": "a" if i % 2 else "b"})
    true = {f"p{i}#0": "yes" if i % 4 < 2 else "no" for i in range(80)}
    # In b every second yes is missed; in a nothing.
    answers = {item: "no" if i % 2 == 0 and i % 8 == 0 else answer for i, (item, answer) in enumerate(true.items())}
    groups = judge_report(Predicted(classes=answers), true, observed, by=("group",), n_resamples=0)["groups"]["group"]
    assert groups["a"]["classes"]["yes"]["found"]["value"] == 1.0
    assert groups["b"]["classes"]["yes"]["found"]["value"] == 0.5
    assert groups["b"]["classes"]["yes"]["found"]["high"] < groups["a"]["classes"]["yes"]["found"]["low"]
    assert groups["b"]["classes"]["yes"]["not_claimed"]["value"] == 1.0
    assert groups["a"]["items"] == groups["b"]["items"] == 40


def test_judges_are_held_against_the_verdicts_of_the_tasks_key_alone():
    right = {f"p{i}#0": v for i, v in enumerate(["yes", "no", "yes"])}
    wrong = {item: "no" if v == "yes" else "yes" for item, v in right.items()}
    suite = PlainSuite(estimand(right), estimand(wrong, key={"of": "y"}), estimand(wrong, rule="other"))
    result = report(YES_NO, {"A": "yes no yes", "B": "yes no yes"}, suite=suite)["judges"]
    assert list(result) == ["revised"]
    assert result["revised"]["accuracy"]["value"] == 1.0


def test_probabilities_are_of_yes_and_the_area_is_the_right_way_round():
    # A judge of yes and no tells P(yes): high where people say yes. The area is 1, whatever it made of it.
    p_yes = {f"p{i}#0": p for i, p in enumerate((0.9, 0.45, 0.3, 0.1))}
    answers = {item: "yes" if p > 0.5 else "no" for item, p in p_yes.items()}
    suite = PlainSuite(estimand(answers))
    collected = [verdict(item, float(answers[item] == "yes"), of="x", probability=p) for item, p in p_yes.items()]
    result = report(YES_NO, {"A": "yes yes no no"}, verdicts=collected, suite=suite)["judges"]["revised"]
    assert result["auc"]["value"] == 1.0
    assert result["auc"]["positive"] == "yes"
    assert result["confusion"] == [[2, 0], [1, 1]]
    predicted = predicted_classes([estimand(answers)], frame("verdicts", collected))["seen", "revised", '{"of": "x"}']
    # Of the predicted class.
    assert predicted.probabilities == pytest.approx({"p0#0": 0.9, "p1#0": 0.55, "p2#0": 0.7, "p3#0": 0.9})


def test_probabilities_of_other_classes_are_of_the_class_said():
    answer = {f"p{i}#0": v for i, v in enumerate(["man", "man", "woman", "woman"])}
    suite = PlainSuite(estimand(answer, key={}))
    collected = [verdict(item, 1.0, probability=p) for item, p in zip(answer, (0.6, 0.9, 0.9, 0.6), strict=True)]
    task = RatingTask(name="g", question="?", kind="choice", options=("man", "woman"), rule="seen")
    table = rows(YES_NO, {"A": "w m w m"}).with_columns(task=np.array(["g"] * 4))
    table = table.with_columns(answer=table["answer"].replace({"w": "woman", "m": "man"}))
    # P(woman) 0.4, 0.1, 0.9, 0.6; people woman, man, woman, man: 0.4 > 0.1, 0.4 < 0.6, 0.9 > both: 3 of 4.
    result = report(task, table, verdicts=collected, suite=suite)["judges"]["revised"]["auc"]
    assert (result["value"], result["positive"]) == (0.75, "woman")


def test_the_vote_of_a_grid_is_held_against_its_raters():
    task = RatingTask(
        name="gender", question="?", kind="choice", options=("male", "female"), unit="prompt", rule="gender"
    )
    votes = {"p0": "male", "p1": "female", "p2": "male"}
    collected = [
        verdict(f"{p}#{n}", 0.0, "gender", "released", prompt_class=v, prompt_probabilities={v: 0.8})
        for p, v in votes.items()
        for n in range(3)
    ]
    collected.append(verdict("p3#0", None, "gender", "released", **{"class": None}))
    predicted = predicted_prompt_classes(frame("verdicts", collected))["gender", "released", "{}"]
    assert predicted.classes == votes
    assert predicted.probabilities == dict.fromkeys(votes, 0.8)
    table = rows(task, {"A": "male female female male", "B": "male female female male"})
    result = report(task, table, verdicts=collected)["judges"]["released"]
    assert result["confusion"] == [[1, 1], [0, 1]]  # female, male
    assert (result["items"], result["without_verdict"]) == (3, 1)


# ---------------------------------------------------------------------------------------------------------- preference
def test_preferences_by_hand():
    # Six prompts, one vote each: five for the first, one tie. Sign flips of five ones: p = 2 / 32.
    table = rows(PREFERENCE, {"A": "first first first first first tie -"})
    result = preference_report(("a", "b"), table, {})
    assert result["votes"] == {"first": 5, "second": 0, "tie": 1}
    assert result["shares"]["first"]["value"] == pytest.approx(5 / 6)
    assert result["of_decided"]["value"] == 1.0
    assert result["difference"]["value"] == pytest.approx(5 / 6)
    assert result["difference"]["p_value"] == pytest.approx(2 / 32)
    assert result["prompts"] == {"first": 5, "second": 0, "even": 1}


def test_many_votes_on_one_prompt_are_not_many_prompts():
    line = " ".join(["first"] * 12)
    many = preference_report(("a", "b"), rows(PREFERENCE, {"A": line}), {})
    one = preference_report(("a", "b"), rows(PREFERENCE, {"A": line}), {f"p{i}#0": "p" for i in range(12)})
    assert many["difference"]["p_value"] == pytest.approx(2 / 2**12)
    assert one["difference"]["p_value"] == 1.0
    assert one["shares"]["first"]["low"] < many["shares"]["first"]["low"]


def test_swapped_runs_swap_the_answer_and_checks_do_not_count():
    value = rows(PREFERENCE, {"A": "first second first tie first", "B": "first first second tie first"}, checks=(0,))
    turned = value.with_columns(answer=value["answer"].replace({"first": "second", "second": "first"}))
    one, other = preference_report(("a", "b"), value, {}), preference_report(("b", "a"), turned, {})
    assert one["votes"] == {"first": 4, "second": 2, "tie": 2}
    assert one["difference"]["value"] == -other["difference"]["value"]
    assert one["difference"]["p_value"] == other["difference"]["p_value"]
    assert one["prompts"] == {"first": 1, "second": 0, "even": 3}


def test_no_votes_have_no_preference():
    result = preference_report(("a", "b"), rows(PREFERENCE, {"A": "- -"}), {})
    assert result["votes"] == {"first": 0, "second": 0, "tie": 0}
    assert all(math.isnan(result["shares"][name]["value"]) for name in ("first", "second", "tie"))
    assert math.isnan(result["difference"]["p_value"])


def test_two_comparisons_of_one_run_are_kept_apart(tmp_path):
    runs = [make_run(tmp_path / name, limit=3) for name in ("mine", "b", "c")]
    image = runs[0].read("images")["image_id"][0]
    for number, answer in ((1, "first"), (2, "second")):
        item = Item(item=f"{image}|{image}", task="preference", images=((0, image), (1, image)))
        paths = (str(runs[0].path), str(runs[number].path))
        store = VoteStore.create(
            runs[0].path / "annotation" / f"s{number}.sqlite", Study(tasks=(PREFERENCE,), items=(item,), runs=paths)
        )
        store.vote(store.named_rater("A"), 0, answer)
    ratings = ratings_of(runs[0])
    assert set(ratings.comparisons) == {("mine", "b"), ("mine", "c")}
    tasks = agreement_report(runs[0], PlainSuite(), ratings, None, n_resamples=0)["tasks"]
    assert tasks["preference: mine or b"]["preference"]["votes"]["first"] == 1
    assert tasks["preference: mine or c"]["preference"]["votes"]["second"] == 1
