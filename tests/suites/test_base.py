"""What suites declare is checked in one place, and what they leave out has defaults that work."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from verism.errors import UsageError, VerismError
from verism.records import DetectionNeed, Observed, Prompt, Score, frame
from verism.specs import COUNT, SHARE, MetricSpec, Option, Pairing, Rule, SuiteInfo
from verism.suites.base import LIMIT, Suite, complete_scores
from verism.suites.catalogue import make_suite, suite_class

INFO = SuiteInfo(
    name="dice",
    title="Dice",
    question="Do dice show what was asked?",
    summary="dice",
    protocols={"revised": "All images."},
)


def spec(name: str, **changes) -> MetricSpec:
    return MetricSpec(name, **({"title": name, "meaning": name, "scale": SHARE, "better": "higher"} | changes))


@dataclass(frozen=True, kw_only=True)
class Dice(Suite):
    """Two kinds of dice, some prompts of each."""

    limit: int = 6
    faces: tuple[str, ...] = ()
    folder: Path | None = None
    sharp: bool = False
    kind: str = "plain"

    info: ClassVar[SuiteInfo] = INFO
    options: ClassVar[tuple[Option, ...]] = (
        LIMIT,
        Option("faces", str, many=True, commas=True, help="Faces."),
        Option("folder", Path, help="A folder."),
        Option("sharp", bool, help="Sharp corners."),
        Option("kind", str, choices=("plain", "loaded"), help="Which dice."),
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("threshold", float, 0.5, low=0, high=1, calibrated_by="detector", help="Confidence threshold."),
        Rule("reference", str, None, optional=True, choices=("a", "b"), help="Compared with."),
        Rule("names", str, ("x", "y"), many=True, help="Names."),
    )
    metrics: ClassVar[tuple[MetricSpec, ...]] = (
        spec("accuracy"),
        spec("mean_accuracy", headline=True),
        spec("count", scale=COUNT, better=None),
        spec("free", scale=None, better="lower"),
        spec("judge_false_accept", better="lower"),
        spec("judge_false_reject", better="lower"),
        spec("true_accuracy"),
    )
    pairings: ClassVar[tuple[Pairing, ...]] = (
        Pairing(rule="right", metric="accuracy", facet="colour", mean="mean_accuracy", right_or_wrong=True),
    )

    def prompts(self):
        colours = ["red", "red", "red", "red", "blue", "blue"]
        return [
            Prompt(prompt_id=f"p{n}", suite="dice", text=f"{c} {n}", facets={"colour": c})
            for n, c in enumerate(colours[: self.limit])
        ]

    def needs(self):
        return (DetectionNeed(classes=("die",), colors=()),)

    def verdicts(self, observed):
        raise NotImplementedError


def verdict_rows(values, protocol="revised"):
    rows = [
        {"image_id": f"p{n}#0", "prompt_id": f"p{n}", "protocol": protocol, "rule": "right", "value": v, "reason": ""}
        for n, v in enumerate(values)
    ]
    return frame("verdicts", rows)


def asked(suite) -> Observed:
    return Observed(prompts={p.prompt_id: p for p in suite.prompts()}, images=frame("images", []), observations={})


# ------------------------------------------------------------------------------------------------------------- options
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"limit": "4"}, {"limit": 4}),
        ({"limit": 4.0}, {"limit": 4}),
        ({"faces": "one, two"}, {"faces": ["one", "two"]}),
        ({"faces": ("one",)}, {"faces": ["one"]}),
        ({"folder": "somewhere"}, {"folder": Path("somewhere")}),
        ({"sharp": "no"}, {"sharp": False}),
        ({"kind": "loaded", "limit": None, "faces": ()}, {"kind": "loaded"}),
    ],
)
def test_make_options_are_of_their_declared_type(given, kept):
    suite = Dice.make(given)
    assert {name: getattr(suite, name) for name in kept} == kept
    assert {name: type(getattr(suite, name)) for name in kept} == {name: type(v) for name, v in kept.items()}
    assert Dice.reopen(suite.settings(), suite.prompts()) == suite


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limit": 0}, "limit is a whole number, at least 1; got 0"),
        ({"limit": 2.5}, "limit is a whole number, at least 1; got 2.5"),
        ({"limit": True}, "limit is a whole number"),
        ({"limit": "many"}, "limit is a whole number"),
        ({"faces": [3]}, "faces is text; got 3"),
        ({"folder": 3}, "folder is a path; got 3"),
        ({"sharp": "perhaps"}, "sharp is true or false; got 'perhaps'"),
        ({"kind": "loded"}, "kind is one of plain, loaded; got 'loded'. Did you mean loaded?"),
        ({"limits": 3}, "suite dice does not take limits; .* Did you mean limit?"),
    ],
)
def test_make_options_that_do_not_fit_are_refused_by_name(given, message):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        Dice.make(given)


def test_make_takes_rules_too_and_checks_them():
    assert Dice.make({"threshold": "0.25", "limit": 2}).rule("threshold") == 0.25
    with pytest.raises(UsageError, match="threshold is a number, between 0 and 1; got 2"):
        Dice.make({"threshold": 2})


@pytest.mark.parametrize("spelling", ["paintskills_v1", "paintskills-v1"])
def test_suites_are_found_with_hyphens_and_underscores(spelling):
    assert make_suite(spelling, limit=3).name == "paintskills_v1"


def test_an_unknown_suite_is_refused_with_near_names():
    with pytest.raises(UsageError, match=r"unknown suite 'geografy'\. Did you mean geography"):
        suite_class("geografy")


# --------------------------------------------------------------------------------------------------------------- rules
def test_with_rules_keeps_what_was_changed_and_leaves_the_first_suite_alone():
    suite = Dice.make({})
    assert suite.all_rules() == {"threshold": 0.5, "reference": None, "names": ["x", "y"]}
    changed = suite.with_rules(threshold="0.75").with_rules(names="u,v", reference="b")
    assert changed.all_rules() == {"threshold": 0.75, "reference": "b", "names": ["u", "v"]}
    assert changed.with_rules(reference=None).rule("reference") is None
    assert suite.rule("threshold") == 0.5
    # Ground truth has no detector whose confidence would count; other rules stay as they are.
    assert changed.for_truth().all_rules() == {"threshold": 0.5, "reference": "b", "names": ["u", "v"]}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"threshold": 1.5}, "threshold is a number, between 0 and 1; got 1.5"),
        ({"threshold": float("nan")}, "threshold is a number"),
        ({"threshold": None}, "threshold is a number"),
        ({"reference": "c"}, "reference is one of a, b; got 'c'"),
        ({"treshold": 0.5}, r"dice has no rule 'treshold'; its rules are .* Did you mean threshold\?"),
    ],
)
def test_with_rules_that_do_not_fit_are_refused_by_name(rules, message):
    with pytest.raises(UsageError, match=message):
        Dice.make({}).with_rules(**rules)


# -------------------------------------------------------------------------------------------------------------- scores
def score(metric: str, **changes) -> Score:
    values = {"suite": "dice", "protocol": "revised", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n_used": 4}
    return Score(**({**values, "metric": metric, "n_unusable": 0, "group": {}} | changes))


def test_complete_scores_fills_in_unit_and_direction():
    done = complete_scores(Dice.make({}), [score("accuracy"), score("count"), score("free", unit="mm")])
    assert [(s.unit, s.higher_is_better) for s in done] == [("share", True), (COUNT.unit, None), ("mm", False)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (score("acuracy"), r"gives a score 'acuracy' that it does not declare.* Did you mean accuracy or"),
        (score("accuracy", unit="ratio"), "a score 'accuracy' has unit 'ratio'; its metric declares share"),
        (score("free"), "a score 'free' has unit ''; its metric declares none"),
    ],
)
def test_complete_scores_refuses_what_contradicts_the_declared_metric(wrong, message):
    with pytest.raises(VerismError, match=message):
        complete_scores(Dice.make({}), [wrong])


def found_in(scores):
    return {(s.metric, *s.group.values()): s for s in scores}


def test_default_scores_are_means_of_groups_and_their_plain_mean():
    suite = Dice.make({})
    # red: 3 of 4 right; blue: 0 of 1, the other unusable. The mean of groups is 0.375, that of images would be 3 / 5.
    scores = found_in(suite.scores(asked(suite), verdict_rows([1, 1, 1, 0, 0, None])))
    assert set(scores) == {("accuracy", "red"), ("accuracy", "blue"), ("mean_accuracy",)}
    red, blue, mean = scores["accuracy", "red"], scores["accuracy", "blue"], scores["mean_accuracy",]
    assert (red.value, red.n_used, red.n_unusable) == (0.75, 4, 0)
    assert (blue.value, blue.n_used, blue.n_unusable) == (0.0, 1, 1)
    assert (mean.value, mean.n_used, mean.n_unusable) == (0.375, 5, 1)
    assert red.ci_low < 0.75 < red.ci_high


def test_default_scores_without_a_facet_are_one_mean_over_all_images():
    class Plain(Dice):
        pairings = (Pairing(rule="right", metric="accuracy"),)

    suite = Plain.make({})
    (only,) = suite.scores(asked(suite), verdict_rows([1, 1, 1, 0, 0, None]))
    assert (only.metric, only.group, only.value, only.n_used, only.n_unusable) == ("accuracy", {}, 0.6, 5, 1)


def test_default_mean_over_chosen_groups_is_undefined_if_one_of_them_is():
    class Chosen(Dice):
        pairings = (replace(Dice.pairings[0], groups=("red",)),)

    suite = Chosen.make({})
    assert found_in(suite.scores(asked(suite), verdict_rows([1, 1, 1, 0, 0, 0])))["mean_accuracy",].value == 0.75
    every = Dice.make({})
    assert math.isnan(
        found_in(every.scores(asked(every), verdict_rows([1, 1, 1, 0, None, None])))["mean_accuracy",].value
    )


def test_default_judge_errors_are_told_by_any_facet():
    suite = Dice.make({})
    # By the truth images 0 to 2 and 4 are right; the judge accepts 3, which is wrong, and rejects 2.
    judged, truth = verdict_rows([1, 1, 0, 1, 1, 0]), verdict_rows([1, 1, 1, 0, 1, 0])
    scores = found_in(suite.judge_errors(asked(suite), judged, truth))
    assert scores["true_accuracy", "red"].value == 0.75
    assert (scores["judge_false_accept", "red"].value, scores["judge_false_accept", "red"].n_used) == (1.0, 1)
    assert scores["judge_false_reject", "red"].value == pytest.approx(1 / 3)
    assert scores["judge_false_reject", "blue"].value == 0.0
    assert {s.group.get("colour") for s in scores.values()} >= {"red", "blue"}
