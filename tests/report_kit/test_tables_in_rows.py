"""Numbers in words, and the first table of suites whose scores are rows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from measure_runs import score
from page_reading import evidence_of, presentation_of

from verism.errors import UsageError
from verism.report_kit import words
from verism.report_kit.evidence import Evidence, Vocabulary
from verism.report_kit.tables import _metric_rows, csv_table, json_report, markdown_table, terminal_table

NAN = math.nan


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        pytest.param(0.8333, "share", "83.3", id="share"),
        pytest.param(0.0, "share", "0.0", id="a share of nothing is measured"),
        pytest.param(NAN, "share", "–", id="undefined"),
        pytest.param(NAN, "cosine", "–", id="undefined cosine"),
        pytest.param(0.25432, "cosine", "0.254", id="cosine"),
        pytest.param(-0.0412, "cosine", "-0.0412", id="negative"),
        pytest.param(12.3456, "distance", "12.35", id="FID"),
        pytest.param(0.000424, "distance", "0.000424", id="KID"),
        pytest.param(123456.7, "distance", "123,457", id="large"),
        pytest.param(30.0, "pictures", "30", id="images are whole"),
        pytest.param(1.1, "ratio", "1.10", id="ratio"),
        pytest.param(0.0004, "p", "<0.001", id="small p"),
        pytest.param(0.0412, "p", "0.041", id="p"),
        pytest.param(math.inf, "distance", "inf", id="infinite"),
    ],
)
def test_numbers(value, unit, written):
    assert words.number(value, unit) == written


def test_ends_of_an_interval_have_the_decimals_of_its_value():
    # The largest of the three decides: 1.305 has four digits with three decimals, so 0.901 and 0.497 get three, too.
    fid = score("fid", 0.90144, 0.49721, 1.30491, unit="distance")
    assert words.cell(fid) == "0.901 [0.497, 1.305] (40)"
    kid = score("kid", 0.000424, -0.000409, 0.00126, unit="distance")
    assert words.cell(kid) == "0.00042 [-0.00041, 0.00126] (40)"
    assert words.cell(score("kid", 0.5, -0.000001, 1.0, unit="ratio")) == "0.50 [0.00, 1.00] (40)"


def test_what_is_computed_has_no_interval_and_what_is_counted_no_images():
    expected = score("expected_coverage", 0.4, 0.4, 0.4, higher_is_better=None)
    assert words.cell(expected) == "40.0 (40)"
    assert words.cell(replace(expected, higher_is_better=True)) == "40.0 [40.0, 40.0] (40)"
    assert words.cell(score("pictures_per_cell", 30.0, unit="pictures", n_used=0)) == "30"
    assert words.cell(score("precision", NAN, n_used=0, n_unusable=12)) == "– (0 used, 12 unusable)"
    assert words.cell(score("precision", NAN, n_used=0)) == "– (0)"
    assert words.cell(None) == "–"


def test_worst_groups_of_all_runs_share_a_row(measured_run):
    worst = {"family": "region", "region": "South"}
    a = measured_run("a", [score("precision_worst", 0.5, 0.4, 0.6, group=worst)], suite="geography")
    other = score("precision_worst", 0.7, 0.6, 0.8, group={**worst, "region": "North"})
    b = measured_run("b", [other], suite="geography")
    header, rows = _metric_rows(evidence_of([a, b]), "revised")
    assert header == ["metric", "group", "unit", "a", "b"]
    assert rows == [
        [
            "precision_worst",
            "object in region",
            "%",
            "50.0 [40.0, 60.0] (40) South",
            "70.0 [60.0, 80.0] (40) North",
        ]
    ]


def test_single_objects_are_not_in_the_first_table(measured_run):
    run = measured_run(
        "a",
        [
            score("precision", 0.111, group={"region": "South"}),
            score("precision", 0.222, group={"object": "dog", "region": "South"}),
            score("precision", 0.333, group={"object": "cup"}),
        ],
        suite="geography",
    )
    _, rows = _metric_rows(evidence_of([run]), "revised")
    assert [row[1:] for row in rows] == [["South", "%", "11.1 (40)"]]


def test_terminal_and_markdown_tables(measured_run):
    scores = [
        score("fid", 12.3456, 11.0, 14.0, unit="distance", higher_is_better=False),
        score("fid", NAN, group={"region": "S|*ü\x1b[2J"}, unit="distance", n_used=0, n_unusable=3),
        score("fid", 13.0, protocol="paper", unit="distance"),
    ]
    run = measured_run("a", scores)
    terminal = terminal_table([run])
    lines = terminal.splitlines()
    assert lines[0].split() == ["metric", "group", "unit", "value"]
    assert lines[2].endswith("12.35 [11.00, 14.00] (40)")
    assert lines[3].endswith("- (0 used, 3 unusable)")
    assert terminal.isascii()
    assert "\x1b" not in terminal
    assert "13" not in terminal
    markdown = markdown_table([run]).splitlines()
    assert markdown[0] == "| metric | group | unit | value |"
    assert markdown[2] == "| fid | all | distance | 12.35 [11.00, 14.00] (40) |"
    assert markdown[3].startswith(r"| fid | S\|\*ü?\[2J | distance | – (0 used, 3 unusable) |")
    assert "protocol revised" in markdown[-1]
    assert "| fid | all | distance | 13.00 (40) |" in markdown_table([run], protocol="paper")


def test_a_table_of_several_runs_has_a_dash_for_what_one_lacks(measured_run):
    a = measured_run("a", [score("fid", 12.0, unit="distance")])
    b = measured_run("b", [score("kid", 0.5, unit="distance")])
    _, rows = _metric_rows(evidence_of([a, b]), "revised")
    assert [row[3:] for row in rows] == [["12.00 (40)", "–"], ["–", "0.500 (40)"]]


def test_what_has_no_table_is_refused(measured_run):
    with pytest.raises(UsageError, match="at least one run"):
        Evidence.of([])
    run = measured_run("a", [score("fid", 12.0)])
    with pytest.raises(UsageError, match="no scores under the protocol released"):
        terminal_table([run], [presentation_of(run)], protocol="released")
    with pytest.raises(UsageError, match="unknown protocol"):
        terminal_table([run], [presentation_of(run)], protocol="mine")


def test_metrics_are_called_as_their_specs_say_and_others_by_their_name(measured_run, geography_run):
    names = Vocabulary([presentation_of(geography_run)])
    assert names.title("precision_gap_p_value") == "precision, gap, p-value"
    assert names.title("object_region_coverage") == "coverage, mean of objects"
    assert names.title("of_another_suite_worst") == "of another suite worst"
    assert names.unit("share") == "%"
    assert names.unit("furlongs") == "furlongs"
    # A number that no suite declares any more has its row, under its own name.
    old = measured_run("old", [score("coverage", 0.5, group={"axis": "tone", "of": "faces"})], suite="social_bias")
    assert "coverage" in terminal_table([old])


def test_runs_of_suites_without_a_table_in_common_are_refused(measured_run, make_run):
    runs = [measured_run("a", [score("fid", 12.0)]), make_run("b", skills=("object",), limit=2)]
    presentations = [presentation_of(run) for run in runs]
    for table in (markdown_table, terminal_table):
        with pytest.raises(UsageError, match="runs of quality and paintskills have no table in common"):
            table(runs, presentations)
    # Records and lines of a spreadsheet say of which suite they are.
    assert {r["suite"] for r in json_report(runs)} == {"made", "paintskills"}
    assert "\na,made,fid,revised" in csv_table(runs)


def test_suite_scored_under_other_protocols_alone_has_a_table_of_the_first_that_is_there(measured_run):
    run = measured_run("a", [score("fid", 1.25, protocol="paper", unit="distance")])
    text = terminal_table([run], [presentation_of(run)])
    assert "1.25" in text
    assert "protocol paper" in text
    assert "1.25" in markdown_table([run], [presentation_of(run)])
