"""What the suites cover of HEIM's aspects: declared with metrics they have, and what is left out is said."""

import json

import pytest
from commands import verism

from verism.suites.aspects import ASPECTS, coverage_of_aspects
from verism.suites.catalogue import SUITES, suite_class


@pytest.mark.parametrize("name", SUITES)
def test_suites_name_known_aspects_and_their_own_metrics(name):
    suite = suite_class(name)
    assert set(suite.aspects) <= set(ASPECTS)
    for metrics in suite.aspects.values():
        assert metrics
        assert set(metrics) <= {metric.name for metric in suite.metrics}


def test_every_aspect_is_covered_or_said_to_be_missing_and_never_both():
    found = coverage_of_aspects((name, suite_class(name).aspects) for name in SUITES)
    assert [each.aspect for each in found] == list(ASPECTS)
    assert len(found) == 12
    for each in found:
        assert bool(each.suites) != bool(each.missing), each.aspect
        assert bool(each.suites) != bool(ASPECTS[each.aspect].missing), each.aspect


def test_an_aspect_that_a_plug_in_covers_is_missing_no_more():
    found = {each.aspect: each for each in coverage_of_aspects([("mine", {"toxicity": ("nsfw_share",)})])}
    assert found["toxicity"].suites == {"mine": ("nsfw_share",)}
    assert not found["toxicity"].missing
    assert found["alignment"].missing == "no suite"


def test_list_aspects():
    text = verism("list", "aspects").output
    assert "bias            which people does the model show where the text leaves it open?" in text
    assert "social_bias: mad, " in text
    assert "preference: preference_score, win_rate" in text
    assert "not covered: no suite, and no detector of watermarks" in text
    records = json.loads(verism("list", "aspects", "--json").output)
    covered = [record["aspect"] for record in records if record["suites"]]
    assert f"{len(covered)} of 12 aspects of HEIM" in text
    expected = {"alignment", "quality", "aesthetics", "reasoning", "knowledge", "bias", "toxicity", "fairness"}
    assert expected == set(covered)
