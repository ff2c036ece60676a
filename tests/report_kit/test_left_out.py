"""What a number leaves out, in words: worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from verism.records import Score
from verism.report_kit.answers import headline_answers
from verism.report_kit.coverage import coverage_of
from verism.specs import Presentation, SuiteInfo
from verism.suites.questions.metrics import question_metrics

METRICS = question_metrics("dsg_score", title="DSG score", source="")
SPEC = METRICS[0]
SCORE = Score(
    suite="dsg", metric="dsg_score", protocol="revised", value=0.5, ci_low=0.4, ci_high=0.6, n_used=23, n_unusable=1
)
ANSWERED = replace(SCORE, metric="answered", value=0.4014, n_used=137, n_unusable=82)


def test_coverage_part_of_the_questions_answered_is_named_beside_unusable_images():
    found = coverage_of(SCORE, [SCORE, ANSWERED], SPEC)
    assert (found.share, found.left_out) == (0.4014, "questions answered: 40.1 %; 1 of 24 unusable")


def test_coverage_everything_answered_leaves_nothing_out():
    whole = replace(SCORE, n_unusable=0)
    found = coverage_of(whole, [whole, replace(ANSWERED, value=1.0)], SPEC)
    assert (found.share, found.left_out) == (1.0, "")


def test_coverage_nearly_all_is_not_rounded_to_all():
    assert coverage_of(SCORE, [replace(ANSWERED, value=0.99996)], SPEC).answered == "questions answered: 99.9 %"


@pytest.mark.parametrize(
    "other",
    [
        replace(ANSWERED, protocol="released"),
        replace(ANSWERED, group={"category": "entity"}),
        replace(ANSWERED, adjusted="rendered"),
        replace(ANSWERED, value=math.nan),
    ],
)
def test_coverage_answers_of_something_else_say_nothing(other):
    found = coverage_of(SCORE, [other], SPEC)
    assert (found.share, found.left_out) == (23 / 24, "1 of 24 unusable")


def test_coverage_without_counts_is_unknown():
    found = coverage_of(replace(SCORE, n_used=0, n_unusable=0), [], None)
    assert math.isnan(found.share)
    assert found.left_out == ""


def test_headline_answers_name_the_part_that_was_answered():
    info = SuiteInfo(name="dsg", title="DSG", question="", summary="", protocols={"revised": ""})
    scores = [replace(SCORE, unit="share"), ANSWERED]
    [sentence] = headline_answers(Presentation(info=info, metrics=METRICS), scores)
    assert sentence == "DSG score 50.0 % [40.0, 60.0] (23 images, 1 unusable; questions answered: 40.1 %)."
