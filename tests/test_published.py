"""Verdicts: every kind comes out where it should, and a mistake of ours cannot hide behind a known difference."""

from __future__ import annotations

import csv
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from verism.errors import UsageError
from verism.published import (
    Known,
    Verdict,
    Writer,
    as_records,
    as_text,
    half_unit,
    in_order,
    is_multiple,
    of_table,
    read_published,
    undocumented,
)
from verism.suites.catalogue import SUITES, published_checks, published_figures, suite_class

PAPERS = (
    "gep",
    "dalleval",
    "digin",
    "geneval",
    "dpg",
    "dsg",
    "tifa",
    "genai",
    "wise",
    "preference",
    "compbench",
    "cvtg",
    "longtext",
)


def verdict(printed: str, value: float, slack: float = 0.0, known: Known | None = None) -> Verdict:
    writer = Writer("paper")
    writer.number("Table 1", "quantity", printed, value, slack=slack, known=known)
    return writer.checks[0].verdict


@pytest.mark.parametrize(
    ("printed", "half"),
    [("0.35", 0.005), ("0.350", 0.0005), ("15", 0.5), ("4.47e-2", 5e-5), ("-0.1", 0.05), ("1.000", 5e-4)],
)
def test_half_of_the_last_printed_place(printed: str, half: float) -> None:
    assert half_unit(printed) == pytest.approx(half, rel=1e-12)


@pytest.mark.parametrize("printed", ["", "0.4 %", "nan", "inf"])
def test_what_is_no_number_has_no_last_place(printed: str) -> None:
    with pytest.raises(ValueError, match="as printed"):
        half_unit(printed)


def test_a_half_agrees_both_ways() -> None:
    # 6/80 = 0.075 prints as 0.07 or as 0.08; in binary 0.075 - 0.07 is a little more than 0.005.
    assert verdict("0.07", 0.075) is verdict("0.08", 0.075) is Verdict.AGREES


def test_the_last_digit_decides() -> None:
    assert verdict("0.467", 7 / 15) is Verdict.AGREES
    assert verdict("0.466", 7 / 15) is Verdict.DISAGREES


def test_rounded_input_widens_the_tolerance_and_is_named() -> None:
    assert verdict("24.7", 24.6333, slack=0.05) is Verdict.ROUNDING
    assert verdict("24.7", 24.5999, slack=0.05) is Verdict.DISAGREES


def test_a_known_difference_holds_only_for_the_value_that_is_known() -> None:
    known = Known(value="32.7", why="other judgements")
    assert verdict("30.7", 32.6667, known=known) is Verdict.MISPRINT
    assert verdict("30.7", 31.9, known=known) is Verdict.DISAGREES  # differs, but otherwise
    assert verdict("30.7", 30.7, known=known) is Verdict.DISAGREES  # agrees, though it is said not to


def test_known_words() -> None:
    writer = Writer("paper")
    known = Known(value="with a tie", why="so in the release")
    for ours in ("with a tie", "in a tie", "a tie"):
        writer.words("text", "prompt", "in a tie", ours, known=known)
    writer.words("text", "ranks", "1 2", "1 2")
    writer.words("text", "ranks", "1 2", "2 1")
    assert [c.verdict for c in writer.checks] == [
        Verdict.MISPRINT,
        Verdict.DISAGREES,
        Verdict.DISAGREES,
        Verdict.AGREES,
        Verdict.DISAGREES,
    ]
    assert len(undocumented(writer.checks)) == 3


def test_statements_and_what_cannot_be_had() -> None:
    writer = Writer("paper")
    writer.holds("text", "two is more than one", 2 > 1)
    writer.holds("text", "one is more than two", 1 > 2)
    writer.impossible("text", "score", "0.81", "needs the labels")
    yes, no, gone = writer.checks
    assert (yes.verdict, no.verdict, gone.verdict) == (Verdict.AGREES, Verdict.DISAGREES, Verdict.IMPOSSIBLE)
    assert (gone.published, gone.recomputed, gone.why) == (0.81, None, "needs the labels")


def test_tables_are_found_by_number_and_name() -> None:
    writer = Writer("DALL-Eval v1")
    for table in ("Table 10", "Table 3", "text", "Table 13"):
        writer.holds(table, "x", True)
    assert [c.table for c in in_order([writer.checks])] == ["Table 3", "Table 10", "Table 13", "text"]
    for wanted in ("3", "Table 3", "v1 3", "DALL-Eval v1, Table 3"):
        assert [c.table for c in of_table(writer.checks, wanted)] == ["Table 3"]
    for wanted in ("4", "", "ICCV 3"):
        with pytest.raises(ValueError, match="there are: DALL-Eval v1 Table 10, DALL-Eval v1 Table 3"):
            of_table(writer.checks, wanted)


def test_text_gives_a_reason_once_in_a_table_and_counts_verdicts() -> None:
    writer = Writer("paper")
    known = Known(value="2", why="off by one, always")
    writer.number("Table 1", "first", "1", 2, known=known)
    writer.number("Table 1", "second", "1", 2, known=known)
    writer.number("Table 1", "third", "1", 1)
    text = as_text(writer.checks)
    assert text.count("off by one, always") == 1
    assert text.endswith("3 figures: 1 agrees, 2 known misprint")
    assert "third" in text
    assert "third" not in as_text(writer.checks, differences=True)


def test_records_have_the_documented_keys() -> None:
    writer = Writer("paper")
    writer.number("Table 1", "first", "1.50", 1.5)
    assert as_records(writer.checks) == [
        {
            "paper": "paper",
            "table": "Table 1",
            "quantity": "first",
            "published": 1.5,
            "recomputed": 1.5,
            "tolerance": pytest.approx(0.005),
            "verdict": "agrees",
            "why": "",
        }
    ]


@pytest.mark.parametrize("paper", PAPERS)
def test_everything_is_as_documented(paper: str) -> None:
    report = published_checks(paper)
    assert undocumented(report) == []
    assert len(report) > 30
    lines = [(c.paper, c.table, c.quantity) for c in report]
    assert len(set(lines)) == len(lines), "a line names what it is about, so no two are alike"
    for check in report:
        assert check.why or check.verdict is Verdict.AGREES, check


def test_the_documented_counts_are_those_of_the_commands() -> None:
    docs = Path(__file__).parents[1] / "docs"
    rows = list(csv.DictReader((docs / "reproduce.csv").read_text(encoding="utf-8").splitlines()))
    results = {paper: Counter(check.verdict for check in published_checks(paper)) for paper in PAPERS}
    assert rows == [
        {"verdict": v.value} | {paper: str(verdicts[v]) for paper, verdicts in results.items()} for v in Verdict
    ]
    page = (docs / "reproduce.md").read_text(encoding="utf-8")
    assert all(f"\n| {v.value} | " in page for v in Verdict)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_that_agrees_is_held_to_its_tolerance(paper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved away from print by a little more than is allowed, each of them disagrees."""
    honest = Writer.number

    def moved(self: Writer, table: str, quantity: str, printed: str, value: float, **rest: Any) -> None:
        allowed = rest.get("tolerance") or half_unit(printed)
        gap = allowed * 1.001 + rest.get("slack", 0.0) + 1e-8
        honest(self, table, quantity, printed, float(printed) + (gap if value >= float(printed) else -gap), **rest)

    before = {
        (c.table, c.quantity)
        for c in published_checks(paper)
        if c.verdict is Verdict.AGREES and c.tolerance is not None
    }
    monkeypatch.setattr(Writer, "number", moved)
    after = {(c.table, c.quantity) for c in undocumented(published_checks(paper))}
    assert before <= after


@pytest.mark.parametrize("name", SUITES)
def test_catalogue_entry_declares_what_its_class_declares(name: str) -> None:
    suite, entry = suite_class(name), SUITES[name]
    # A version of another suite has its declarations from there; the entry of one of the two is enough.
    inherited = next((SUITES[base.info.name] for base in suite.__mro__[1:] if "info" in vars(base)), None)
    for declared, listed, above in (
        (suite.published, entry.published, inherited and inherited.published),
        (suite.commands, entry.commands, inherited and inherited.commands),
    ):
        assert dict(declared) == dict(listed or above or {})


def test_published_checks_of_an_unknown_paper_are_refused() -> None:
    with pytest.raises(UsageError, match="no figures of 'gpe'"):
        published_checks("gpe")


def test_every_paper_is_one_that_a_suite_declares() -> None:
    assert set(published_figures()) == set(PAPERS)


def test_in_order_of_several_suites_keeps_papers_numbers_and_places() -> None:
    first, late, other = Writer("v2"), Writer("v2", place=1), Writer("v2")
    for writer, table in ((first, "Table 9"), (first, "text"), (late, "README"), (other, "Table 10"), (other, "code")):
        writer.holds(table, "x", True)
    older = Writer("v1")
    older.holds("Table 1", "x", True)
    result = in_order([late.checks, first.checks, older.checks, other.checks])
    assert [(c.paper, c.table) for c in result] == [
        ("v2", "Table 9"),
        ("v2", "Table 10"),
        ("v2", "text"),
        ("v2", "code"),
        ("v2", "README"),
        ("v1", "Table 1"),
    ]


def test_is_multiple_allows_half_of_the_last_place() -> None:
    assert is_multiple("66.7", Fraction(100, 150))
    assert not is_multiple("66.3", Fraction(100, 150))


@pytest.mark.parametrize(
    ("paper", "name"), [("gep", "frequencies"), ("dalleval", "results"), ("digin", "evalgim_regions")]
)
def test_published_files_say_where_they_are_from(paper: str, name: str) -> None:
    from importlib import resources

    text = resources.files("verism").joinpath(f"data/published/{paper}/{name}.csv").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert "arXiv:" in text.partition("\n")[0]
    rows = read_published(paper, name)
    assert all(None not in row and None not in row.values() for row in rows)
