"""Gates over two runs: rows, limits, verdicts and refusals, worked by hand."""

from __future__ import annotations

import json
import math
import weakref
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import verism
from verism import api
from verism.errors import UsageError
from verism.manifest import RunSettings
from verism.pipeline import comparison
from verism.pipeline.gate import Gate
from verism.records import Prompt, Score, frame
from verism.report_kit.gate import gate_junit, gate_plan_table, gate_table, refusal_junit
from verism.store import Run

SKILLS = ("object", "count", "spatial")


def score(
    metric: str, value: float, low: float, high: float, *, suite: str = "quality", unit: str = "distance"
) -> Score:
    return Score(
        suite=suite, metric=metric, protocol="revised", value=value, ci_low=low, ci_high=high, n_used=100,
        n_unusable=0, unit=unit,
    )  # fmt: skip


def make(path, verdicts: dict[str, list[float | None]], *, suite="paintskills", rule="accuracy", scores=()) -> Run:
    """A run whose n-th prompt of a skill was right (1), wrong (0) or without an answer (None)."""
    run = Run.start(path, RunSettings(suite=suite))
    asked = {f"{skill}_{n}": (skill, value) for skill, values in verdicts.items() for n, value in enumerate(values)}
    run.write_prompts(
        [
            Prompt(prompt_id=i, suite=suite, text=i, facets={"skill": skill}, spec={"k": 1})
            for i, (skill, _) in asked.items()
        ]
    )
    rows = [
        {"image_id": f"{i}#0", "prompt_id": i, "protocol": "revised", "rule": rule, "value": value, "reason": ""}
        for i, (_, value) in asked.items()
    ]
    run.write_verdicts(frame("verdicts", rows))
    found = [[value for value in values if value is not None] for values in verdicts.values()]
    of_skills = sum(sum(values) / len(values) for values in found if values) / len(found)
    mean = score("mean_accuracy", of_skills, 0.8, 1.0, suite=suite, unit="share")  # defined for all skills together
    run.write_scores([mean] if set(verdicts) == set(SKILLS) else list(scores))
    return run


@pytest.fixture
def pair(tmp_path):
    """Of 30 prompts each: object loses none, count loses 12 of 30, spatial loses 2 and gains 1."""
    base = make(tmp_path / "base", {"object": [1] * 30, "count": [1] * 30, "spatial": [1, 1, 0] + [1] * 27})
    new = make(tmp_path / "new", {"object": [1] * 30, "count": [0] * 12 + [1] * 18, "spatial": [0, 0, 1] + [1] * 27})
    return base, new


def by_group(gate: Gate) -> dict[str, object]:
    return {str(next(iter(row.group.values()), row.metric)): row for row in gate.rows}


@pytest.mark.parametrize("ask", ["gate", "plan_gate", "compare"])
def test_pairs_of_one_row_are_held_at_a_time(ask, pair, monkeypatch):
    made, made_before = comparison._paired, []

    def paired(*args):
        assert all(values() is None for values in made_before)
        values = made(*args)
        made_before.append(weakref.ref(values.a))
        return values

    monkeypatch.setattr(comparison, "_paired", paired)
    getattr(api, ask)(*pair, **{"gate": {"max_drop": 2}, "plan_gate": {"drop": 2}, "compare": {}}[ask])
    assert len(made_before) == 4


def test_rows_verdicts_and_holm(pair):
    gate = api.gate(*pair, max_drop=2)
    rows = by_group(gate)
    assert set(rows) == {"object", "count", "spatial", "mean_accuracy"}
    assert [rows[name].drop for name in ("object", "count", "spatial")] == pytest.approx([0.0, 0.4, 1 / 30])
    assert (rows["count"].base, rows["count"].new, rows["count"].max_drop) == (1.0, pytest.approx(0.6), 0.02)
    assert {name: row.verdict for name, row in rows.items()} == {
        "count": "exceeds", "object": "undecided", "spatial": "undecided", "mean_accuracy": "exceeds",
    }  # fmt: skip
    # Holm: the smallest of four p-values counts four times, the second three times.
    ranked = sorted(row.p_value for row in gate.rows)
    assert sorted(row.p_holm for row in gate.rows)[0] == pytest.approx(4 * ranked[0])
    assert rows["mean_accuracy"].drop == pytest.approx((0 + 0.4 + 1 / 30) / 3)
    assert not gate.passed
    assert {row.verdict for row in gate.failing} == {"exceeds"}


def test_the_runs_the_other_way_round_pass(pair):
    gate = api.gate(pair[1], pair[0], max_drop=2)
    assert gate.passed
    assert by_group(gate)["count"].verdict == "within"


def test_a_large_limit_passes_and_shows_it(pair):
    gate = api.gate(*pair, max_drop=70, require="shown")
    assert gate.passed
    assert {row.verdict for row in gate.rows} == {"within"}


def test_what_cannot_be_told_fails_only_where_proof_is_required(pair):
    asked = {"max_drop": 5, "metrics": ["mean_accuracy"]}
    same = pair[0], make(pair[0].path.parent / "same", {s: [1] * 29 + [0] for s in SKILLS})
    assert api.gate(*same, **asked).passed
    strict = api.gate(*same, **asked, require="shown")
    assert not strict.passed
    assert [row.verdict for row in strict.failing] == ["undecided"]
    assert gate_table(strict.record()).startswith("FAIL: not every drop is shown to be within the limit")


def test_metrics_and_limits_of_their_own(pair):
    gate = api.gate(*pair, max_drop={"": 2, "accuracy": 50}, metrics=["accuracy", "mean_accuracy"])
    limits = {(row.metric, row.max_drop) for row in gate.rows}
    assert limits == {("accuracy", 0.5), ("mean_accuracy", 0.02)}
    assert [row.metric for row in gate.failing] == ["mean_accuracy"]


def test_missing_images_are_counted_by_run(tmp_path):
    base = make(tmp_path / "base", {"object": [1, None, 1, None, 1, 1]})
    new = make(tmp_path / "new", {"object": [1, 1, None, None, None, 1]})
    gate = api.gate(base, new, max_drop=2, metrics=["accuracy"])
    (row,) = gate.rows
    assert (row.n_pairs, row.only_base, row.only_new, row.neither) == (2, 2, 1, 1)
    assert "4 of 6 images are not paired and not tested (accuracy, object)" in gate_table(gate.record())
    assert "no usable answer in NEW for 2, in BASE for 1, in neither for 1" in gate_table(gate.record())


def test_a_group_without_pairs_is_not_tested_and_said(tmp_path):
    base = make(tmp_path / "base", {"object": [1] * 5, "count": [1, 1]})
    new = make(tmp_path / "new", {"object": [1] * 5, "count": [None, None]})
    gate = api.gate(base, new, max_drop=2, metrics=["accuracy"])
    rows = by_group(gate)
    assert rows["count"].verdict == "untested"
    assert gate.passed
    assert not api.gate(base, new, max_drop=2, metrics=["accuracy"], require="shown").passed
    assert "not tested" in gate_table(gate.record())
    none = make(tmp_path / "none", {"object": [None] * 5, "count": [None, None]})
    with pytest.raises(UsageError, match="no image has a usable answer in both"):
        api.gate(base, none, max_drop=2)


def test_a_run_against_itself_drops_by_exactly_nothing(pair):
    gate = api.gate(pair[0], pair[0], max_drop=0)
    assert {(row.drop, row.verdict, row.method) for row in gate.rows} == {(0.0, "within", "identical")}


def test_metrics_without_images_are_tested_by_their_intervals_and_say_so(tmp_path):
    base = make(tmp_path / "base", {"x": [1]}, suite="quality", rule="none", scores=[score("fid", 20.0, 18.0, 22.0)])
    new = make(tmp_path / "new", {"x": [1]}, suite="quality", rule="none", scores=[score("fid", 30.0, 28.0, 32.0)])
    gate = api.gate(base, new, metrics=["fid"], max_drop={"fid": 5})
    (row,) = gate.rows
    # Lower is better: up by 10, where 5 is allowed. Standard error sqrt(2) * 2 / 1.96 = 1.443; z = 5 / 1.443 = 3.465.
    assert (row.drop, row.method, row.better, row.verdict) == (10.0, "intervals", "lower", "exceeds")
    assert row.p_value == pytest.approx(0.000265, rel=0.01)
    assert "taken for independent" in gate_table(gate.record())
    assert api.gate(base, new, metrics=["fid"], max_drop={"fid": 15}, require="shown").passed
    assert api.gate(new, base, metrics=["fid"], max_drop=1, require="shown").passed  # asked for by name: in its unit
    # Unasked, a limit in points is none for a distance.
    with pytest.raises(
        UsageError, match=r"fid is measured in distance: give it a limit of its own, --max-drop fid=VALUE"
    ):
        api.gate(base, new, max_drop=2)


def test_a_group_without_an_interval_is_not_tested_and_said(tmp_path):
    whole = score("fid", 20.0, 18.0, 22.0)
    one = replace(whole, group={"region": "Asia"}, ci_low=math.nan, ci_high=math.nan)
    base, new = (
        make(tmp_path / name, {"x": [1]}, suite="quality", rule="none", scores=[whole, one]) for name in ("a", "b")
    )
    gate = api.gate(base, new, metrics=["fid"], max_drop=5)
    assert [row.group for row in gate.rows] == [{}, {"region": "Asia"}]
    make(tmp_path / "c", {"x": [1]}, suite="quality", rule="none", scores=[replace(whole, value=21.0), one])
    untested = api.gate(base, tmp_path / "c", metrics=["fid"], max_drop=5).rows[1]
    assert untested.verdict == "untested"
    make(tmp_path / "d", {"x": [1]}, suite="quality", rule="none", scores=[one])
    with pytest.raises(UsageError, match="fid is not in both runs"):
        api.gate(base, tmp_path / "d", metrics=["fid"], max_drop=5)


def test_headline_metrics_that_cannot_be_tested_are_listed(tmp_path):
    runs = [
        make(tmp_path / name, {"x": [1.0] * 8}, suite="quality", rule="inside", scores=[score("fid", 20.0, 18.0, 22.0)])
        for name in ("base", "new")
    ]
    gate = api.gate(*runs, max_drop=50)
    assert [row.metric for row in gate.rows] == ["precision"]
    why = {each.metric: each.why for each in gate.untested}
    assert "limit of its own" in why["fid"]
    assert "is not in both runs" in why["coverage"]
    assert "not tested: " + why["fid"] in gate_table(gate.record())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": ["acuracy"]}, r"no metric 'acuracy'. Did you mean accuracy"),
        ({"metrics": ["judge_false_accept"]}, "has no values of single images"),
        ({"max_drop": -1}, "a number of at least 0"),
        ({"max_drop": math.nan}, "a number of at least 0"),
        ({"max_drop": 100}, "no drop could exceed it"),
        ({"max_drop": {"acuracy": 2}}, "no metric 'acuracy'"),
        ({"max_drop": {"accuracy": 2}, "metrics": ["mean_accuracy"]}, "give it a limit of its own"),
        ({"alpha": 0.6}, "alpha must lie"),
        ({"by": "color"}, "no prompt has the facet 'color'"),
        ({"protocol": "papre"}, "no protocol 'papre'"),
    ],
)
def test_wrong_questions_are_refused(pair, changes, message):
    with pytest.raises(UsageError, match=message):
        api.gate(*pair, **{"max_drop": 2, **changes})


def test_metrics_without_a_direction_are_refused(pair):
    with pytest.raises(UsageError, match="count_found has no direction"):
        api.gate(*pair, max_drop=2, metrics=["count_found"])


def test_runs_that_are_not_comparable_are_refused_with_the_reasons(tmp_path, pair):
    other = make(tmp_path / "other", {"object": [1] * 30})
    with pytest.raises(UsageError, match="not comparable") as refusal:
        api.gate(pair[0], other, max_drop=2)
    assert "other prompts" in str(refusal.value)
    anyway = api.gate(pair[0], other, max_drop=2, anyway=True)
    assert all("other prompts" in row.reasons[0] for row in anyway.rows if row.n_pairs)
    assert "[1] other prompts" in gate_table(anyway.record())
    with pytest.raises(UsageError, match="measure different things"):
        api.gate(pair[0], make(tmp_path / "quality", {"x": [1]}, suite="quality"), max_drop=2)


def test_record_is_plain_json(pair):
    record = api.gate(*pair, max_drop=2).record()
    assert json.loads(json.dumps(record, allow_nan=False))["passed"] is False
    assert verism.gate is api.gate


# ---------------------------------------------------------------------------------------------------------------- JUnit
def test_junit_has_a_case_for_every_row_and_counts_them(pair):
    gate = api.gate(*pair, max_drop=2)
    root = ElementTree.fromstring(gate_junit(gate.record()))
    (suite,) = root.findall("testsuite")
    cases = suite.findall("testcase")
    assert (root.tag, suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("testsuites", "4", "2", "0")
    assert sorted(case.get("name") for case in cases) == [
        "accuracy [skill=count]", "accuracy [skill=object]", "accuracy [skill=spatial]", "mean_accuracy",
    ]  # fmt: skip
    assert {case.get("classname") for case in cases} == {"gate.paintskills"}
    failed = {
        case.get("name"): case.find("failure").get("message") for case in cases if case.find("failure") is not None
    }
    assert set(failed) == {"accuracy [skill=count]", "mean_accuracy"}
    assert "drop +40.0" in failed["accuracy [skill=count]"]
    strict = ElementTree.fromstring(gate_junit(api.gate(*pair, max_drop=2, require="shown").record()))
    assert strict.get("failures") == "4"


def test_junit_of_untested_and_refused(tmp_path):
    base = make(tmp_path / "base", {"object": [1] * 5, "count": [1]})
    new = make(tmp_path / "new", {"object": [1] * 5, "count": [None]})
    root = ElementTree.fromstring(gate_junit(api.gate(base, new, max_drop=2, metrics=["accuracy"]).record()))
    assert (root.get("tests"), root.get("skipped"), root.get("failures")) == ("3", "2", "0")
    refused = ElementTree.fromstring(refusal_junit("not comparable:\n  <seed> & \x1b[31m other"))
    assert (refused.get("errors"), refused.get("tests")) == ("1", "1")
    assert "<seed> &" in refused.find("testsuite/testcase/error").text


def test_names_that_xml_has_no_letters_for_are_escaped(pair):
    gate = api.gate(*pair, max_drop=2)
    odd = replace(gate, rows=(replace(gate.rows[0], group={"skill": 'a\x00\x1b"<&\ud800\uffff'}),))
    root = ElementTree.fromstring(gate_junit(odd.record()).encode("utf-8"))
    (case,) = root.iter("testcase")
    assert '"<&' in case.get("name")
    assert not set("\x00\x1b\ud800\uffff") & set(case.get("name"))


# ------------------------------------------------------------------------------------------------------------- planning
def test_a_pair_of_runs_is_a_pilot(pair):
    plans = api.plan_gate(*pair, drop=50, max_drop=2, images_per_prompt=[4])
    count = next(p for p in plans if p.group == {"skill": "count"} and p.images_per_prompt == 1)
    assert (count.discordance, count.basis, count.n_prompts) == (0.5, "pair", 30)  # 0.4 observed, but half of them drop
    assert count.prompts["80"] < count.prompts["90"] < 60
    assert set(count.seen) == {"80", "90"}
    nothing = next(p for p in plans if p.group == {"skill": "object"})
    assert (nothing.discordance, nothing.prompts) == (None, {"80": None, "90": None})
    table = gate_plan_table([p.record() for p in plans])
    assert table.startswith("To see a drop of 50 points where 2 points is allowed:")
    assert "nothing" in table


def test_one_run_is_a_pilot_too(pair):
    plans = api.plan_gate(pair[1], drop=5, metrics=["mean_accuracy"])
    (plan,) = plans
    # 14 of 90 wrong: 2 * 14/90 * 76/90 would differ between two independent runs.
    assert plan.discordance == pytest.approx(2 * 14 * 76 / 90**2)
    assert "From one run" in gate_plan_table([plan.record()])


def test_numbers_alone_are_enough():
    (plan,) = api.plan_gate(drop=2, discordance=0.1, power=[0.8])
    assert plan.prompts == {"80": 1643}
    (independent,) = api.plan_gate(drop=2, share=0.8, power=[0.8])
    assert independent.discordance == pytest.approx(0.8 * 0.22 + 0.78 * 0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "--drop is missing"),
        ({"drop": 2}, "name a pilot run"),
        ({"drop": 2, "max_drop": 2, "share": 0.5}, "only drops above --max-drop"),
        ({"drop": 60, "share": 0.5}, "cannot drop by 60 points"),
        ({"drop": 2, "share": 0.5, "by": "skill"}, "those of a run"),
        ({"drop": 2, "share": 0.5, "max_drop": {"fid": 1}}, "a metric of a run"),
    ],
)
def test_plans_without_sense_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        api.plan_gate(**arguments)


def test_numbers_beside_runs_are_refused(pair):
    with pytest.raises(UsageError, match="share is taken from the runs"):
        api.plan_gate(pair[0], drop=2, share=0.5)
    alike = make(pair[0].path.parent / "alike", {"object": [1] * 5})
    with pytest.raises(UsageError, match="has values that differ"):
        api.plan_gate(alike, drop=2)
