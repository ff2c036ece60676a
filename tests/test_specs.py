"""What suites say of themselves can be kept as JSON and read back."""

import json

import pytest

from verism.errors import UsageError
from verism.specs import Presentation, check_value, did_you_mean
from verism.suites.catalogue import SUITES, suite_class


@pytest.mark.parametrize("name", SUITES)
def test_presentation_written_as_json_is_read_back_equal(name):
    suite = suite_class(name)
    answer = Presentation(info=suite.info, metrics=suite.metrics, pairings=suite.pairings, layout=suite.layout)
    assert Presentation.of_record(json.loads(json.dumps(answer.record(), allow_nan=False))) == answer


def test_presentation_of_a_later_version_is_read_without_its_new_fields():
    suite = suite_class("paintskills")
    answer = Presentation(info=suite.info, metrics=suite.metrics, pairings=suite.pairings, layout=suite.layout)
    record = json.loads(json.dumps(answer.record()))
    record["new"] = record["info"]["new"] = record["metrics"][0]["new"] = record["pairings"][0]["new"] = 1
    record["metrics"][0]["scale"]["new"] = record["layout"]["new"] = 1
    assert Presentation.of_record(record) == answer
    with pytest.raises(KeyError):
        Presentation.of_record({"info": record["info"]})


def test_metric_of_an_unknown_name_is_none():
    suite = suite_class("paintskills")
    answer = Presentation(info=suite.info, metrics=suite.metrics)
    assert answer.metric("accuracy") is not None
    assert answer.metric("nothing") is None


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [(int, " 7 ", 7), (int, 7.0, 7), (float, "1e-3", 0.001), (float, 1, 1.0), (bool, "Yes", True), (bool, 0, False)],
)
def test_check_value_text_becomes_its_type(kind, value, kept):
    checked = check_value("x", kind, value)
    assert checked == kept
    assert type(checked) is type(kept)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, 1.5), (int, True), (int, "1.5"), (float, "inf"), (float, None), (bool, 2), (dict, [1]), (str, 1)],
)
def test_check_value_of_another_type_is_refused(kind, value):
    with pytest.raises(UsageError, match=r"^x is "):
        check_value("x", kind, value)


def test_did_you_mean_is_silent_without_a_near_name():
    assert did_you_mean("threshhold", ["threshold", "k"]) == " Did you mean threshold?"
    assert did_you_mean("zzz", ["threshold", "k"]) == ""
