"""What a number leaves out, in words: worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from verism.records import Score
from verism.report_kit import words
from verism.report_kit.answers import headline_answers
from verism.report_kit.coverage import coverage_of, share_answered
from verism.report_kit.evidence import Vocabulary
from verism.specs import Presentation, SuiteInfo
from verism.suites.questions.metrics import question_metrics

METRICS = question_metrics("dsg_score", title="DSG score", source="")
SPEC = METRICS[0]
INFO = SuiteInfo(name="dsg", title="DSG", question="", summary="", protocols={"revised": ""})
SCORE = Score(
    suite="dsg", metric="dsg_score", protocol="revised", value=0.5, ci_low=0.4, ci_high=0.6, n_used=23, n_unusable=1
)
ANSWERED = replace(SCORE, metric="answered", value=55 / 137, n_used=137, n_unusable=82)


def test_coverage_part_of_the_questions_answered_is_named_beside_unusable_images():
    found = coverage_of(SCORE, [SCORE, ANSWERED], SPEC)
    assert (found.share, found.left_out) == (55 / 137, "questions answered: 40.1 % (55 of 137); 1 of 24 unusable")


def test_coverage_everything_answered_leaves_nothing_out():
    whole = replace(SCORE, n_unusable=0)
    found = coverage_of(whole, [whole, replace(ANSWERED, value=1.0)], SPEC)
    assert (found.share, found.left_out) == (1.0, "")


def test_coverage_nearly_all_is_not_rounded_to_all():
    nearly = replace(ANSWERED, value=0.99996, n_used=25_000, n_unusable=1)
    assert coverage_of(SCORE, [nearly], SPEC).answered == "questions answered: over 99.9 % (24,999 of 25,000)"


@pytest.mark.parametrize(
    ("value", "used", "unusable", "expected"),
    [
        pytest.param(17 / 41, 41, 24, "41.5 % (17 of 41)", id="all questions enter the share"),
        pytest.param(17 / 41, 17, 24, "41.5 % (17 of 41)", id="only those with an answer are counted as used"),
        pytest.param(0.4146, 30, 5, "41.5 %", id="a share of something else has no counts"),
        pytest.param(0.41459, 0, 0, "41.5 %", id="not counted"),
    ],
)
def test_share_of_answers_is_rounded_as_its_row_is_and_names_its_counts(value, used, unusable, expected):
    score = replace(ANSWERED, value=value, n_used=used, n_unusable=unusable, unit="share")
    assert share_answered(score) == expected
    assert expected.startswith(f"{words.value(score)} %")


def test_row_of_answers_says_how_many_of_the_questions_were_answered():
    score = replace(ANSWERED, value=17 / 41, ci_low=0.3, ci_high=0.5, n_used=41, n_unusable=24, unit="share")
    assert words.cell(score, of_answers=True) == "41.5 [30.0, 50.0] (17 of 41 answered)"
    assert words.cell(SCORE) == "0.500 [0.400, 0.600] (23 used, 1 unusable)"
    vocabulary = Vocabulary([Presentation(info=INFO, metrics=METRICS)])
    assert [vocabulary.is_of_answers(name) for name in ("answered", "dsg_score")] == [True, False]


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
    scores = [replace(SCORE, unit="share"), ANSWERED]
    [sentence] = headline_answers(Presentation(info=INFO, metrics=METRICS), scores)
    assert sentence == "DSG score 50.0 % [40.0, 60.0] (23 images, 1 unusable; questions answered: 40.1 % (55 of 137))."
