"""Precision, recall, density and coverage of runs by approximate neighbours: a rule, with the error beside each."""

from __future__ import annotations

import math
import shutil

import pytest
from test_stored_runs import RUNS

import verism
from verism.metrics.manifold import _approximate
from verism.report_kit.comparability import Comparability

NAMES = ("precision", "recall", "density", "coverage")


def found(scores):
    return {
        (s.metric, s.protocol, tuple(sorted(s.group.items()))): s
        for s in scores
        if s.metric in (*NAMES, "approximation_error")
    }


@pytest.mark.parametrize("name", ["quality", "geography"])
def test_rule_approximate_states_the_error_of_each_number(name, tmp_path, monkeypatch):
    path = tmp_path / name
    shutil.copytree(RUNS / name, path)
    exact = found(verism.score(path))
    assert not any(metric == "approximation_error" for metric, *_ in exact)
    verdicts = verism.open_run(path).verdicts().select("image_id", "rule", "detail", "value")

    # Sets of one cell are searched everywhere: the numbers are exact, and the errors 0.
    complete = found(verism.score(path, rules={"approximate": True}))
    for key, score in exact.items():
        other = complete[key]
        assert math.isnan(score.value) == math.isnan(other.value)
        assert math.isnan(score.value) or other.value == pytest.approx(score.value, abs=1e-9)
        assert math.isnan(other.ci_low)
        assert math.isnan(other.ci_high)
        if not math.isnan(score.value):
            assert complete["approximation_error", key[1], tuple(sorted([*key[2], ("of", key[0])]))].value == 0
    run = verism.open_run(path)
    assert run.verdicts().select("image_id", "rule", "value").equals(verdicts.select("image_id", "rule", "value"))
    assert any("approximate neighbours, of which" in line for line in run.manifest.scoring.remarks)
    report = tmp_path / "report.html"
    run.report(report)
    assert "error of approximate neighbours" in report.read_text(encoding="utf-8")

    # Another run, scored before there was the rule, had exact numbers.
    before = tmp_path / "before"
    shutil.copytree(RUNS / name, before)
    old = verism.open_run(before)
    assert "approximate" not in old.manifest.scoring.rules
    kept = run.presentation()
    reasons = Comparability(run, old, (kept, kept)).reasons
    (reason,) = [reason for reason in reasons if "approximate" in reason.text]
    assert set(NAMES) <= set(reason.metrics)
    assert not any("approximate" in r.text for r in Comparability(old, old.pinned(), (kept, kept)).reasons)

    # In small cells some neighbours are not found, and the errors say how much that may matter.
    monkeypatch.setattr(_approximate, "CELL", 2)
    monkeypatch.setattr(_approximate, "PROBES", 2)
    rough = found(verism.score(path, rules={"approximate": True}))
    differences = 0
    for key, score in exact.items():
        if not math.isnan(score.value):
            error = rough["approximation_error", key[1], tuple(sorted([*key[2], ("of", key[0])]))].value
            assert error > 0
            assert abs(rough[key].value - score.value) <= 2 * error  # as in tests/metrics/test_manifold.py
            differences += rough[key].value != score.value
    assert differences
