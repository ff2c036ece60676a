"""Plans as they are read: pairs, precedence of settings, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from verism.errors import UsageError
from verism.plans import Plan

PLAN = """title: Two models
variables: {n: 6}
defaults: {seed: 3, limit: "${n}", size: 64, judges: {detector: truth, vqa: truth}}
models:
  good: scripted:error=0.0
  bad: {model: "scripted:error=0.5", size: 96}
  ours: {images: "images/{suite}"}
references:
  perfect: {model: oracle}
suites:
  paintskills: {skill: [object, count], rules: {spatial_margin: 0.3}}
  bias: {suite: social_bias, n_images: 2, limit: 4}
include:
  - {model: bad, suite: paintskills, limit: 12}
exclude:
  - {model: ours, suite: bias}
  - {model: perfect, suite: b*}
"""


def read(tmp_path: Path, text: str = PLAN, **variables: object) -> Plan:
    file = tmp_path / "plan.yaml"
    file.write_text(text, encoding="utf-8")
    return Plan.read(file, variables)


def test_pairs_are_models_times_suites_less_what_is_excluded(tmp_path):
    plan = read(tmp_path)

    assert [(p.model, p.column) for p in plan.pairs] == [
        ("good", "paintskills"),
        ("good", "bias"),
        ("bad", "paintskills"),
        ("bad", "bias"),
        ("ours", "paintskills"),
        ("perfect", "paintskills"),
    ]
    assert plan.models == ("good", "bad", "ours")
    assert [p.reference for p in plan.pairs] == [False] * 5 + [True]
    assert len({p.name for p in plan.pairs}) == 6


def test_settings_of_defaults_suite_model_and_include_in_this_order(tmp_path):
    pairs = {(p.model, p.column): p for p in read(tmp_path).pairs}
    good, bad, bias = pairs["good", "paintskills"], pairs["bad", "paintskills"], pairs["good", "bias"]

    assert good.options == {"seed": 3, "limit": 6, "skills": ["object", "count"]}
    assert bad.options["limit"] == 12
    assert (good.run, bad.run) == ({"size": 64}, {"size": 96})
    assert good.rules == {"spatial_margin": 0.3}
    assert bias.options == {"seed": 3, "limit": 4, "n_images": 2}
    assert bias.suite == "social_bias"
    assert pairs["ours", "paintskills"].value == "images/paintskills"


def test_defaults_reach_only_who_has_a_use_for_them(tmp_path):
    pairs = {(p.model, p.column): p for p in read(tmp_path).pairs}

    assert pairs["good", "paintskills"].usual_judges == {"detector": "truth"}
    assert pairs["good", "bias"].usual_judges == {"vqa": "truth"}
    assert "spatial_margin" not in pairs["good", "bias"].rules


def test_variables_can_be_set_by_the_caller(tmp_path):
    assert read(tmp_path, n=9).pairs[0].options["limit"] == 9


def test_a_plan_from_python_is_that_of_the_file(tmp_path):
    made = Plan.make(
        title="Two models",
        models={
            "good": "scripted:error=0.0",
            "bad": {"model": "scripted:error=0.5", "size": 96},
            "ours": {"images": "images/{suite}"},
        },
        references={"perfect": {"model": "oracle"}},
        suites={
            "paintskills": {"skill": ["object", "count"], "rules": {"spatial_margin": 0.3}},
            "bias": {"suite": "social_bias", "n_images": 2, "limit": 4},
        },
        defaults={"seed": 3, "limit": 6, "size": 64, "judges": {"detector": "truth", "vqa": "truth"}},
        include=[{"model": "bad", "suite": "paintskills", "limit": 12}],
        exclude=[{"model": "ours", "suite": "bias"}, {"model": "perfect", "suite": "b*"}],
    )
    assert made.record() == read(tmp_path).record()


def test_settings_hash_changes_with_anything_that_decides_a_run(tmp_path):
    one = {p.name: p.settings_hash() for p in read(tmp_path).pairs}
    other = {
        p.name: p.settings_hash()
        for p in read(tmp_path, PLAN.replace("spatial_margin: 0.3", "spatial_margin: 0.4")).pairs
    }

    changed = {name for name in one if one[name] != other[name]}
    assert changed == {name for name in one if name.endswith("paintskills")}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: Two", "titel: Two", "line 1: unknown key 'titel' of a plan. Did you mean title?"),
        ("seed: 3,", "sed: 3,", "line 3: no suite of the plan has an option 'sed'. Did you mean seed?"),
        ("vqa: truth}", "vqaa: truth}", "line 3: no role 'vqaa'. Did you mean vqa?"),
        ("size: 64", "size: many", "line 3: size is a whole number"),
        ("size: 96", "sise: 96", "line 6: no suite of the plan has an option 'sise'. Did you mean size"),
        ("skill: [", "skil: [", "line 11: suite paintskills has no option 'skil'. Did you mean skill"),
        ("n_images: 2", "n_images: 0", "line 12: n_images is a whole number, between 1 and 10000; got 0"),
        ("spatial_margin: 0.3", "spatial_margin: x", "line 11: spatial_margin is a number"),
        ("spatial_margin: 0.3", "spacial_margin: 0.3", "no rule 'spacial_margin'. Did you mean spatial_margin?"),
        (
            "suite: social_bias,",
            "suite: social_bais,",
            "line 12: unknown suite 'social_bais'. Did you mean social_bias",
        ),
        ("n_images: 2, limit", "per_cell: 2, limit", "line 12: suite social_bias has no option 'per_cell'"),
        (
            "{model: bad, suite: paintskills,",
            "{model: badd, suite: paintskills,",
            "line 14: model 'badd' is none of the plan",
        ),
        ("{model: ours, suite: bias}", "{model: ours, suite: bais}", "line 16: suite 'bais' is none of the plan"),
        ('{images: "images/{suite}"}', "{images: a, model: b}", "line 7: 'ours' needs one of model, images, scores"),
        ('{images: "images/{suite}"}', "3", "line 7: 'ours': model is a name"),
        ("  perfect: {", "  good: {", "line 9: 'good' is a model already"),
    ],
)
def test_what_no_run_would_take_is_refused_with_line_and_nearest_name(tmp_path, old, new, message):
    assert old in PLAN
    with pytest.raises(UsageError) as refused:
        read(tmp_path, PLAN.replace(old, new, 1))
    assert message in str(refused.value)
    assert str(tmp_path / "plan.yaml") in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a plan is a mapping with models and suites"),
        ("models: [builtin]\n", "a plan needs suites"),
        ("models: [builtin, builtin]\nsuites: [paintskills]\n", "line 1: 'builtin' is there twice"),
        (
            "models: [builtin]\nsuites: [paintskills]\nexclude: [{model: builtin}]\n",
            "no pair of a model and a suite left",
        ),
        ("models: [builtin]\nsuites: [paintskills]\ninclude: {}\nexclude: {a: 1}\n", "exclude is a list of pairs"),
        ("models: {a: {scores: s.csv, size: 3}}\nsuites: [paintskills]\n", "scores of 'a' are only shown: no settings"),
    ],
)
def test_plans_that_cannot_be_are_refused(tmp_path, text, message):
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert message in str(refused.value)


def test_two_pairs_never_share_a_run_directory():
    with pytest.raises(UsageError, match="would share the run directory"):
        Plan.make(
            models={"a-b": "builtin", "a": "oracle"},
            suites={"c": {"suite": "paintskills"}, "b-c": {"suite": "paintskills"}},
        )
