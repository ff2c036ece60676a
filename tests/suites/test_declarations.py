"""Every suite says of itself what reports, comparisons and the command line need to know."""

import json
from pathlib import Path

import polars as pl
import pytest

from verism.manifest import canonical_suite_name
from verism.renames import metric_name
from verism.suites.base import Suite
from verism.suites.catalogue import SUITES, suite_class

STORED = Path(__file__).parents[1] / "regressions"
RENAMED = {("social_bias", "coverage"): "usable_share", ("social_bias_v1", "coverage"): "usable_share"}


@pytest.fixture(params=SUITES)
def declared(request) -> type[Suite]:
    return suite_class(request.param)


def stored_metrics() -> set[tuple[str, str]]:
    result = set()
    for file in STORED.glob("runs/*/scores.parquet"):
        for suite, metric in pl.read_parquet(file, columns=["suite", "metric"]).unique().iter_rows():
            suite = canonical_suite_name(suite)
            result.add((suite, metric_name(RENAMED.get((suite, metric), metric))))
    return result


@pytest.mark.parametrize("suite", sorted({suite for suite, _ in stored_metrics()}))
def test_every_stored_metric_is_declared(suite):
    metrics = {metric for members, metric in stored_metrics() if members == suite}
    assert len(metrics) >= 3
    assert metrics - {spec.name for spec in suite_class(suite).metrics} == set()


def test_names_are_unique_and_headlines_exist(declared):
    for specs in (declared.metrics, declared.rules, declared.options):
        names = [spec.name for spec in specs]
        assert len(names) == len(set(names))
    assert any(spec.headline for spec in declared.metrics)


def test_the_protocol_to_compare_models_with_comes_first(declared):
    assert next(iter(declared.info.protocols)) == "revised"
    assert all(meaning.endswith(".") for meaning in declared.info.protocols.values())


def test_options_rules_and_metrics_are_explained(declared):
    for spec in (*declared.options, *declared.rules):
        assert len(spec.help) > 5, spec.name
        assert spec.help.endswith("."), spec.name
    for metric in declared.metrics:
        assert all((metric.title, metric.source, len(metric.meaning) > 10)), metric.name
    assert declared.info.question.endswith("?")
    assert all((declared.info.title, declared.info.citation, declared.info.limits))


def test_defaults_of_rules_pass_their_own_checks(declared):
    suite_default = {rule.name: rule.default for rule in declared.rules}
    for rule in declared.rules:
        if rule.default is not None:
            kept = rule.check(list(rule.default) if rule.many else rule.default)
            assert kept == (list(rule.default) if rule.many else rule.default), rule.name
    json.dumps(suite_default)


def test_pairings_and_layout_name_declared_metrics(declared):
    known = {spec.name: spec for spec in declared.metrics}
    for pairing in declared.pairings:
        assert known[pairing.metric].compare == "paired", pairing.metric
        assert not pairing.mean or known[pairing.mean].compare == "paired", pairing.mean
        assert known[pairing.metric].scale in (None, pairing.scale)  # None: differs from score to score
    layout = declared.layout
    named = {layout.metric, layout.mean, layout.reference, *(row.metric for row in layout.rows)} - {""}
    assert named <= set(known)
    assert layout.kind != "columns" or (layout.metric and layout.facet)


def test_the_name_in_the_catalogue_is_the_suites_own():
    for name in SUITES:
        assert suite_class(name).info.name == name
        assert suite_class(name).info.summary == SUITES[name].summary
