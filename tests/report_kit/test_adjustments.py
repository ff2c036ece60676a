"""Numbers with the judge's error taken out stand beside those as judged, and never in their place."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from measure_runs import image, score, verdict
from page_reading import evidence_of, plain, report

from verism.cards import JudgeCard, Measured, write_card
from verism.errors import UsageError
from verism.pipeline.comparison import compare_scores
from verism.report_kit import tables
from verism.report_kit.adjustments import adjusted_by, adjusted_rows, adjustment_notes, as_judged
from verism.report_kit.card_page import card_line, card_text, confusion_map, view_of, write_card_page
from verism.report_kit.comparison import comparison_table
from verism.report_kit.evidence import Lookup
from verism.report_kit.judges import UNMEASURED, judge_panels
from verism.report_kit.tables import columns_of
from verism.store import Run

HOSTILE = "<script>alert(1)</script>"
JUDGE = "fake-detector@1"


def freed(run: Run, *, kind: str = "human", by: float = 0.111, note: str = "", **how) -> Run:
    """Every accuracy once more, ``by`` higher, as taken from 40 answers worth 90."""
    scores = run.scores()
    extra = [
        replace(s, adjusted=kind, value=s.value + by, ci_low=s.value, ci_high=s.value + 2 * by)
        for s in scores
        if s.metric in ("accuracy", "mean_accuracy") and set(s.group) <= {"skill"}
    ]
    run.write_scores([*scores, *extra])
    described = {
        "method": "prediction-powered",
        "source": "people",
        "n_labels": 40,
        "effective_n": 90.0,
        "trust": 0.5,
    } | how
    run.write_adjustments(
        [
            {
                "metric": s.metric,
                "protocol": s.protocol,
                "group": dict(s.group),
                "adjusted": kind,
                "note": note,
                **described,
            }
            for s in extra
        ]
    )
    return run


def card(judge: str = JUDGE, *, counts=((90, 10), (20, 80)), role: str = "detector", **more) -> JudgeCard:
    measured = Measured(task="accuracy", protocol="revised", labels=("wrong", "right"), counts=counts, **more)
    return JudgeCard(
        judge=judge,
        role=role,
        kind="rendered",
        ground_truth="200 rendered images",
        measured=(measured,),
        made={"seed": 1},
    )


# -------------------------------------------------------------------------------------------------------------- tables
def test_every_lookup_finds_the_number_as_judged(make_run):
    run = make_run("model-a")
    before = columns_of(evidence_of([run]))
    judged = {c: before.cell(0, c, "revised") for c in before.columns}
    after = columns_of(evidence_of([freed(run)]))
    assert after.evidence.scores == before.evidence.scores
    for column, score_of in judged.items():
        assert after.cell(0, column, "revised") == score_of
        human = after.cell(0, column, "revised", "human")
        assert human is not None
        assert human.value == pytest.approx(score_of.value + 0.111)
        assert before.cell(0, column, "revised", "human") is None
    assert as_judged(run.scores()) == before.evidence.scores[0]


def test_terminal_and_markdown_have_a_row_of_their_own(make_run):
    run = make_run("model-a", skill_level=0.5)
    plain_table = tables.terminal_table([run]).splitlines()
    freed(run)
    lines = tables.terminal_table([run]).splitlines()
    assert lines[2].split()[:3] == plain_table[2].split()[:3]  # the row as judged did not change
    assert lines[3].startswith("model-a, adjusted by human labels  ")
    mean = Lookup(run.scores()).get("mean_accuracy", "revised")
    assert f"{100 * (mean.value + 0.111):.1f}" in lines[3]
    assert "Adjusted for judge error" in lines[-1]
    assert not any("adjusted by" in line for line in plain_table)
    markdown = tables.markdown_table([run])
    assert "| model-a, adjusted by human labels |" in markdown
    assert "Adjusted for judge error" in markdown


def test_adjusted_rows_say_how_many_images_were_used_and_unusable(make_run):
    run = freed(make_run("model-a", states={0: "refused"}))
    tables_of = (tables.terminal_table([run]).splitlines()[2:4], tables.markdown_table([run]).splitlines()[2:4])
    for judged, adjusted in tables_of:
        assert judged.rstrip(" |").endswith("11 / 1")
        assert adjusted.rstrip(" |").endswith("11 / 1")
    run.write_scores([s for s in run.scores() if not (s.adjusted and s.metric == "accuracy")])
    assert tables.markdown_table([run]).splitlines()[3].endswith("| 8 / 1 |")  # of the mean, over three skills


def test_csv_and_json_say_which_numbers_are_adjusted(make_run):
    run = freed(make_run("model-a"), kind="rendered")
    rows = list(csv.DictReader(io.StringIO(tables.csv_table([run]))))
    assert list(rows[0])[:5] == ["run", "suite", "metric", "protocol", "adjusted"]
    accuracies = [r for r in rows if r["metric"] == "mean_accuracy" and r["protocol"] == "revised"]
    assert [r["adjusted"] for r in accuracies] == ["", "rendered"]
    assert float(accuracies[1]["value"]) == pytest.approx(float(accuracies[0]["value"]) + 0.111)
    assert {r["adjusted"] for r in tables.json_report([run])} == {"", "rendered"}


def test_measures_have_rows_of_their_own(measured_run):
    as_is = score("clipscore_cosine", 0.3, 0.28, 0.32)
    run = measured_run(
        "a", [replace(as_is, value=0.25, ci_low=0.2, ci_high=0.3, adjusted="human"), as_is], suite="alignment"
    )
    lines = tables.terminal_table([run]).splitlines()
    assert lines[2].split()[0] == "clipscore_cosine"
    assert "30.0 [28.0" in lines[2]
    assert lines[3].startswith("clipscore_cosine, adjusted by human labels")
    assert "25.0 [20.0" in lines[3]
    one = measured_run("b", [as_is], suite="alignment")
    both = tables.terminal_table([one, run]).splitlines()
    assert both[2].count("30.0 [28.0") == 2
    assert both[3].split()[-5:] == ["-", "25.0", "[20.0,", "30.0]", "(40)"]  # the other run has no such number


def test_only_like_is_compared_with_like(measured_run):
    as_is = score("clipscore_cosine", 0.3, 0.28, 0.32)
    other = replace(as_is, value=0.4, ci_low=0.38, ci_high=0.42)
    people = replace(as_is, value=0.9, ci_low=0.8, ci_high=1.0, adjusted="human")
    a = measured_run("a", [as_is, people])
    [only] = compare_scores(a, measured_run("b", [other]))
    assert (only.value_a, only.value_b, only.adjusted) == (0.3, 0.4, "")
    rendered = replace(people, adjusted="rendered")
    [still] = compare_scores(a, measured_run("c", [other, rendered]))
    assert still.adjusted == ""
    plain_one, freed_one = compare_scores(a, measured_run("d", [other, replace(people, value=0.95)]))
    assert (plain_one.adjusted, plain_one.value_a) == ("", 0.3)
    assert (freed_one.adjusted, freed_one.value_a, freed_one.value_b) == ("human", 0.9, 0.95)
    # Both tests of one group would be one family, were it not for what they are adjusted by.
    grouped = {"group": {"region": "North"}}
    a, b = (
        measured_run(name, [replace(as_is, value=v, **grouped), replace(people, value=v, ci_low=v - 0.1, **grouped)])
        for name, v in (("e", 0.3), ("f", 0.32))
    )
    assert all(d.p_holm == d.p_value for d in compare_scores(a, b, by="region"))
    text = comparison_table([d.record() for d in (plain_one, freed_one)], a="A", b="B")
    assert "clipscore_cosine, adjusted by human labels" in text
    assert "40 + 40" in text  # and not the 80 of both, as if an image of A were paired with one of B


def test_rows_of_the_report_hold_everything_about_a_correction(make_run):
    run = freed(make_run("model-a"), note="few labels")
    rows = adjusted_rows(evidence_of([run]))["revised"]
    assert rows[0].measure == "mean accuracy" or rows[0].group == "all"
    assert len(rows) == 5
    row = rows[0]
    assert (row.labels, row.effective, row.gain, row.trust, row.note) == ("40", "90", "2.25", "0.50", "few labels")
    assert (row.by, row.method, row.source) == ("human labels", "prediction-powered", "people")
    assert row.judged != row.adjusted
    assert row.interval.startswith("[")
    without = freed(make_run("model-b"), n_labels=200, effective_n=None, trust=None, kind="rendered")
    [first, *_] = adjusted_rows(evidence_of([without]))["revised"]
    assert (first.labels, first.effective, first.gain, first.trust) == ("200", "", "", "")
    assert adjusted_rows(evidence_of([make_run("model-c")])) == {"released": [], "paper": [], "revised": []}
    assert [adjusted_by(k) for k in ("", "human")] == ["", ", adjusted by human labels"]


def test_the_way_of_a_correction_is_told_in_a_line(make_run):
    assert adjustment_notes(make_run("model-c")) == []
    first, second = adjustment_notes(freed(make_run("model-a"), note="few labels"))
    assert first == (
        "15 numbers adjusted by human labels: prediction-powered, people; 40 labels, worth 2.2 times as many"
    )
    assert second == "few labels"
    card_only = freed(make_run("model-b"), kind="rendered", method="judge card", effective_n=None, source="a card")
    assert adjustment_notes(card_only) == ["15 numbers adjusted by rendered images: judge card, a card; 40 labels"]


def test_numbers_without_a_value_are_counted_and_a_note_says_of_which_numbers_it_is(make_run, monkeypatch):
    run = freed(make_run("model-a"))
    records = [
        {**r, "value": None, "note": "saturated"} if n in (1, 3, 4) else r for n, r in enumerate(run.adjustments())
    ]
    monkeypatch.setattr(Run, "adjustments", lambda _: records)
    first, second = adjustment_notes(run)
    assert first.startswith("15 numbers adjusted by human labels (3 of them undefined): prediction-powered, people")
    one, other = (
        ", ".join([r["metric"], *map(str, r["group"].values()), r["protocol"]]) for r in (records[1], records[3])
    )
    assert second == f"{one}; {other} and 1 more: saturated"


# --------------------------------------------------------------------------------------------------------------- pages
def test_paintskills_shows_both_and_figures_only_what_was_judged(make_run, tmp_path):
    before = report([make_run("model-a", skill_level=0.5)], tmp_path / "before.html", gallery=0)
    run = freed(Run.open(tmp_path / "model-a"), note=HOSTILE)
    page = report([run], tmp_path / "after.html", gallery=0)
    section = plain(page.section("judge-adjusted"))
    assert "Adjusted for judge error" in section
    assert "people" in section
    assert "2.25" in section
    assert HOSTILE not in page.source.partition('id="numbers"')[0]
    results = plain(page.section("results"))
    assert "model-a adjusted by human labels" in results
    mean = Lookup(run.scores()).get("mean_accuracy", "revised")
    assert f"{100 * (mean.value + 0.111):.1f}" in results
    # Figures, breakdowns and protocols know nothing of it.
    for name in ("parts", "breakdowns", "protocols", "judge"):
        assert page.section(name) == before.section(name)
    assert "<figure" in page.section("results")
    figures = [p.section("results").partition("<figure>")[2] for p in (before, page)]
    assert figures[0] == figures[1]
    assert 'id="judge-adjusted"' not in before.source
    assert 'href="#judge-adjusted"' not in before.source
    assert 'href="#judge-adjusted"' in page.source


def test_measures_page_shows_both(measured_run, tmp_path):
    as_is = [score("clipscore_cosine", v, v - 0.01, v + 0.01, group={"region": r}) for v, r in ((0.3, "N"), (0.2, "S"))]
    more = {
        "images": [image("p#0")],
        "verdicts": [verdict("p#0", "clipscore", 0.3)],
    }
    before = report([measured_run("one/a", as_is, **more)], tmp_path / "before.html")
    human = [replace(s, value=s.value + 0.5, adjusted="human") for s in as_is]
    page = report([measured_run("two/a", [*as_is, *human], **more)], tmp_path / "after.html")
    assert "30.0 [29.0, 31.0] 80.0" in plain(page.section("judge-adjusted"))
    for name in ("results", "groups", "protocols"):
        assert page.section(name) == before.section(name), name


def test_a_judge_without_card_is_named_loudly(make_run, tmp_path):
    page = report([make_run("model-a")], tmp_path / "r.html", gallery=0)
    section = page.section("judge-cards")
    assert JUDGE in plain(section)
    assert UNMEASURED in plain(section)
    assert 'class="caution"' in section
    assert 'href="#judge-cards"' in page.source


@pytest.mark.parametrize("where", ["given", "in the run"])
def test_a_judges_card_is_shown_in_a_line_and_in_detail(make_run, tmp_path, where):
    run = make_run("model-a")
    values = [card()] if where == "given" else []
    if where == "in the run":
        write_card(card(), run.path / "cards" / "mine.json")
    page = report([run], tmp_path / "r.html", gallery=0, cards=[*values, card("another@2")])
    section = page.section("judge-cards")
    result = plain(section)
    assert UNMEASURED not in result
    # 170 of 200 right; of 100 right ones 80 found, of 100 wrong ones 90 not claimed.
    assert "200 rendered images" in result
    assert "85.0 [" in result
    assert "sensitivity for “right” 80.0 [" in result
    assert "specificity 90.0 [" in result
    assert "another@2" not in result
    ids = {attrs["id"] for _, attrs in page.elements if attrs.get("id")}
    links = {a["href"] for a in page.all("a") if a.get("href", "").startswith("#")}
    assert {link.removeprefix("#") for link in links} <= ids
    assert len(ids) == len([1 for _, attrs in page.elements if attrs.get("id")])  # no id twice


def test_a_broken_card_in_a_run_is_an_error(make_run, tmp_path):
    run = make_run("model-a")
    (run.path / "cards").mkdir()
    (run.path / "cards" / "bad.json").write_text("{}")
    with pytest.raises(UsageError, match=r"bad\.json"):
        report([run], tmp_path / "r.html", gallery=0)


def test_judges_of_several_runs_are_listed_once(make_run):
    runs = [make_run("model-a"), make_run("model-b"), make_run("model-c", judge="other@2")]
    panels = judge_panels(runs, [card("other@2")])
    assert [(p.name, list(p.runs), bool(p.cards), p.missing) for p in panels] == [
        (JUDGE, [0, 1], False, UNMEASURED),
        ("other@2", [2], True, ""),
    ]
    counted = judge_panels([make_run("model-d", errors=True)])[0]
    assert counted.missing == UNMEASURED
    assert "counted on this page" in counted.beside


# --------------------------------------------------------------------------------------------------------------- cards
def test_a_card_in_words_by_hand():
    c = card(unusable=(0, 7), scores=((0, 0.1), (0, 0.6), (1, 0.5), (1, 0.9)))
    view = view_of(c)
    [table] = view.main
    assert (table.n, table.unusable, table.group) == (200, 7, "all")
    wrong, right = table.rows
    assert (wrong.n, right.n, right.unusable) == (100, 100, 7)
    assert wrong.found.startswith("90.0 [")
    assert wrong.not_claimed.startswith("80.0 [")  # 20 of 100 right ones were claimed to be wrong
    assert table.auc.startswith("0.750 [")  # of four pairs, 0.9 > 0.1, 0.9 > 0.6, 0.5 > 0.1, and 0.5 < 0.6
    assert "7 unusable" in card_line(c)
    text = card_text(c)
    assert "truly" in text
    assert "AUC 0.750" in text
    assert "seed: 1" in text


def test_classes_without_items_are_undefined_and_rare_ones_named():
    view = view_of(card(counts=((5, 0), (0, 0))))
    [table] = view.main
    assert table.rows[1].found == "–"
    assert any("Fewer than 30 items of wrong, right" in limit for limit in view.limits)


def test_many_classes_have_a_range():
    m = Measured(task="tone", protocol="paper", labels=("1", "2", "3"), counts=((8, 2, 0), (0, 5, 5), (0, 0, 0)))
    c = replace(card(), measured=(m,))
    assert "classes found in 50 to 80 %" in card_line(c)
    assert "tone, paper protocol: 65.0 [" in card_line(c)


def test_tables_of_several_keys_are_told_together():
    m = card().measured[0]
    both = tuple(replace(m, group={"skill": s}) for s in ("count", "object"))
    c = replace(card(), measured=(*both, replace(m, group={"skill": "count", "object": "dog"})))
    assert "85.0 [" in card_line(c)
    assert "of 400 items" in card_line(c)
    view = view_of(c)
    assert [t.group for t in view.main] == ["skill count", "skill object"]
    assert [t.group for t in view.finer] == ["skill count, object dog"]


def test_the_map_writes_every_count():
    svg = str(confusion_map(card(unusable=(0, 7)).measured[0]))
    for count in ("90", "10", "20", "80", "7"):
        assert f">{count}<" in svg
    assert svg.count("diagonal") == 2
    assert "truly right, judged wrong: 20 of 107, 18.7 %" in svg


def test_a_page_of_a_card_needs_nothing_else_and_escapes(tmp_path: Path):
    path = write_card_page([replace(card(judge=HOSTILE), ground_truth=HOSTILE)], tmp_path / "card.html")
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "&lt;script&gt;" in text
    assert write_card_page([card(), card("other@2")], tmp_path / "two.html").read_text().count("<section>") == 2


def test_nothing_is_written_as_zero_where_nothing_is_known(make_run):
    run = freed(make_run("model-a"), by=math.nan)
    row = adjusted_rows(evidence_of([run]))["revised"][0]
    assert row.adjusted == "–"
    assert row.interval == ""
