"""Tables as text: the same numbers everywhere, undefined ones as a dash, names that cannot do harm."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import pytest
from page_reading import evidence_of

from verism.errors import UsageError
from verism.records import Score
from verism.report_kit import tables, words
from verism.report_kit.evidence import Lookup, run_names
from verism.store import score_records

NAN = math.nan


def score(value: float, low: float = math.nan, high: float = math.nan, **group: object) -> Score:
    return Score(
        suite="paintskills",
        metric="accuracy",
        protocol="revised",
        value=value,
        ci_low=low,
        ci_high=high,
        n_used=8,
        n_unusable=2,
        group=group,
        unit="share",
    )


def test_shares_are_written_in_per_cent_and_undefined_is_a_dash():
    assert words.percent(0.8416) == "84.2"
    assert words.percent(0.0) == "0.0"
    assert words.percent(math.nan) == words.percent(None) == "–"
    assert words.interval(score(0.5, 0.2512, 0.7488)) == "[25.1, 74.9]"
    assert words.interval(score(math.nan)) == words.interval(None) == ""


@pytest.mark.parametrize(
    ("value", "reference", "points"),
    [
        pytest.param(0.80, 0.75, "+5.0", id="more"),
        pytest.param(0.75, 0.80, "−5.0", id="less, with a real minus sign"),
        pytest.param(0.8001, 0.8004, "0.0", id="less than can be shown is no signed zero"),
        pytest.param(math.nan, 0.8, "–", id="undefined"),
        pytest.param(0.8, None, "–", id="missing"),
    ],
)
def test_differences_are_in_points(value, reference, points):
    assert words.signed(NAN if reference is None else value - reference, "share") == points


def test_numbers_are_found_by_their_exact_group():
    numbers = Lookup(
        [score(0.1, skill="object"), score(0.2, skill="object", object="dog"), score(0.3, skill="count", count=2)]
    )
    assert [s.value for s in numbers.of("accuracy", "skill")] == [0.1]
    assert numbers.get("accuracy", "revised", skill="object").value == 0.1
    assert numbers.get("accuracy", "revised", object="dog", skill="object").value == 0.2
    assert numbers.get("accuracy", "released", skill="object") is None
    assert numbers.find("accuracy", "revised", {"skill": "count", "count": 2}).value == 0.3
    assert numbers.find("accuracy", "revised", {"skill": "object"}, "human") is None


@pytest.fixture
def two(make_run):
    return [make_run("model_a", states={0: "refused"}), make_run("b | <i>x")]


def test_markdown_holds_every_headline_number_and_what_was_unusable(two):
    text = tables.markdown_table(two)
    header, rule, first, second, shuffled, *_ = text.splitlines()
    assert header == "| run | object | count | spatial | color | mean | used / unusable |"
    assert rule.count("|") == header.count("|")
    table = tables.columns_of(evidence_of(two))
    for column in ("object", "count", "spatial", "color", "mean"):
        result = table.cell(0, column, "revised")
        assert f"{100 * result.value:.1f} [{100 * result.ci_low:.1f}, {100 * result.ci_high:.1f}]" in first
    assert first.startswith("| model_a |")
    assert first.endswith("| 11 / 1 |")
    # A name is shown as it is: neither a further column nor markup.
    assert second.startswith(r"| b \| \<i\>x |")
    assert shuffled.startswith("| chance level (images shuffled) |")
    assert "protocol revised" in text
    assert "protocol released" in tables.markdown_table(two, protocol="released")


def test_shuffled_mean_is_over_the_published_skills_only(two):
    # 3 prompts a skill: object, count and spatial are in the mean of the second version, colour is not.
    table = tables.columns_of(evidence_of(two))
    ((label, values),) = table.reference
    assert label == "chance level (images shuffled)"
    assert table.mean_of == (("object", "count", "spatial"),) * 2
    assert values["mean"] == pytest.approx((values["object"] + values["count"] + values["spatial"]) / 3)


def test_runs_of_few_and_of_many_prompts_share_the_shuffled_row(make_run):
    runs = [make_run("a", skills=("object",), limit=4), make_run("b", skills=("object", "count"), limit=8)]
    ((label, values),) = tables.columns_of(evidence_of(runs)).reference
    assert label == "chance level (images shuffled)"
    assert values == pytest.approx({"object": 1 / 15, "count": 1 / 60})


def test_runs_whose_chance_differs_get_a_shuffled_row_each(make_run):
    runs = [make_run("a", skills=("object",), limit=4), make_run("b", skills=("object",), limit=8)]
    chance = "shuffled_expectation"
    runs[1].write_scores([replace(s, value=0.5) if s.metric == chance else s for s in runs[1].scores()])
    labels = [label for label, _ in tables.columns_of(evidence_of(runs)).reference]
    assert labels == ["chance level (images shuffled), prompts of a", "chance level (images shuffled), prompts of b"]


def test_csv_and_json_hold_every_score(two):
    records = tables.json_report(two)
    assert [r["run"] for r in records[:1]] == ["model_a"]
    assert [{k: v for k, v in r.items() if k not in ("run", "label", "cautions")} for r in records] == [
        record for run in two for record in score_records(run.scores())
    ]
    json.dumps(records, allow_nan=False)
    rows = list(csv.DictReader(io.StringIO(tables.csv_table(two))))
    assert len(rows) == len(records)
    for row, record in zip(rows, records):
        assert row["metric"] == record["metric"]
        assert row["value"] == ("" if record["value"] is None else repr(record["value"]))
        for facet, value in record["group"].items():
            assert row[facet] == str(value)


def test_csv_does_not_start_formulas(make_run):
    text = tables.csv_table([make_run("=HYPERLINK(x)", skills=("object",), limit=2)])
    assert "\n'=HYPERLINK(x)," in text
    assert "\n=HYPERLINK" not in text


def test_terminal_table_is_aligned_ascii_and_tells_the_terminal_nothing(make_run):
    text = tables.terminal_table([make_run("\x1brot\x07é", states={0: "blank"}), make_run("plain")])
    assert text.isascii()
    assert "\x1b" not in text
    assert "\x07" not in text
    header, rule, first, second, shuffled, _ = text.splitlines()
    assert {len(header), len(rule), len(first), len(second), len(shuffled)} == {len(rule)}
    assert first.startswith(r"?rot?\xe9")
    assert first.endswith("11 / 1")
    assert shuffled.endswith(" -")


def test_without_a_usable_image_there_is_a_dash_and_no_zero(make_run):
    run = make_run("nothing", states=dict.fromkeys(range(12), "refused"))
    row = tables.markdown_table([run]).splitlines()[2]
    assert row == "| nothing | – | – | – | – | – | 0 / 12 |"
    assert {r["value"] for r in tables.json_report([run]) if r["metric"] == "accuracy"} == {None}
    line = tables.terminal_table([run]).splitlines()[2]
    assert line.split() == ["nothing", "-", "-", "-", "-", "-", "0", "/", "12"]


def test_runs_with_one_folder_name_are_told_apart(make_run):
    runs = [make_run(f"{p}/run", skills=("object",), limit=2) for p in ("a", "b")]
    assert run_names(runs) == ["a/run", "b/run"]
    assert run_names([runs[0], runs[0]]) == ["a/run", "a/run (2)"]


def test_bad_requests_are_refused(make_run):
    for make in (tables.markdown_table, tables.csv_table, tables.json_report, tables.terminal_table):
        with pytest.raises(UsageError, match="at least one run"):
            make([])
    with pytest.raises(UsageError, match="unknown protocol 'other'; these runs have"):
        tables.terminal_table([make_run(skills=("object",), limit=1)], protocol="other")
