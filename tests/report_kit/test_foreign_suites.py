"""Suites from elsewhere: a page with their own question, protocols, facets and limits, with and without them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest
from earlier_runs import as_earlier_version
from measure_runs import image
from page_reading import HOSTILE, Page, facets, outcomes, plain

from verism.errors import UsageError
from verism.manifest import RunSettings, Scoring
from verism.records import Observed, Prompt, frame
from verism.report_kit.evidence import Evidence
from verism.report_kit.generic import generic_sections
from verism.report_kit.page import write_report
from verism.report_kit.section import Section, store_sections, stored_sections, table_section
from verism.report_kit.tables import json_report, markdown_table, terminal_table
from verism.store import Run
from verism.suites.base import (
    JUDGE_ERROR_METRICS,
    SHARE,
    Layout,
    MetricSpec,
    Pairing,
    Suite,
    SuiteInfo,
    complete_scores,
)

TASKS = ("counting", "position")
JUDGE = "blobs@1"
# By task and number: right, wrong or unusable.
VALUES = {"counting": (1.0, 1.0, 1.0, 0.0), "position": (1.0, 0.0, 0.0, None)}


class GenLike(Suite):
    """A suite with a facet, metrics and a protocol that no suite of verism has."""

    info: ClassVar = SuiteInfo(
        name="gen_like",
        title="GenLike",
        question="Is what was asked for there?",
        summary="two tasks",
        protocols={"geneval": "Every object must be found."},
        limits=("Only two tasks are asked.",),
    )
    metrics = (
        MetricSpec("task_score", title="task score", meaning="Share of images as asked.", scale=SHARE, better="higher",
                   headline=True, source="section 3 of nobody", compare="paired"),
        MetricSpec("overall", title="overall score", meaning="Mean over the tasks.", scale=SHARE, better="higher"),
        *JUDGE_ERROR_METRICS,
    )  # fmt: skip
    pairings = (Pairing(rule="correct", metric="task_score", facet="task", mean="overall", right_or_wrong=True),)

    def prompts(self) -> Sequence[Prompt]:
        return [
            Prompt(prompt_id=f"{task}_{n}", suite="gen_like", text=f"{task} {n}", facets={"n": n % 2, "task": task})
            for task in TASKS
            for n in range(4)
        ]

    def needs(self):
        return ()

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        rows = [
            {
                "image_id": f"{p.prompt_id}#0",
                "prompt_id": p.prompt_id,
                "protocol": "geneval",
                "rule": "correct",
                "value": VALUES[p.facets["task"]][int(p.prompt_id[-1])],
                "reason": "not found" if p.prompt_id.endswith("3") else "found",
                "detail": None,
            }
            for p in observed.prompts.values()
        ]
        return frame("verdicts", rows)


class InColumns(GenLike):
    layout = Layout(kind="columns", metric="task_score", facet="task", mean="overall")


class WithTable(GenLike):
    def sections(self, evidence: Evidence) -> Sequence[Section]:
        results, *others = generic_sections(evidence)
        return [results, table_section("Asked & done", ["run", "prompts"], [[HOSTILE, "8"]]), *others]


def make_run(path: Path, suite: Suite, *, truth: bool = False) -> Run:
    """A scored run of such a suite."""
    settings = RunSettings(suite=suite.name, generator="rectangles")
    run = Run.start(path, settings, scoring=Scoring(judges={"detector": JUDGE}, thresholds={JUDGE: 0.3}))
    run.write_prompts(suite.prompts())
    ids = [f"{p.prompt_id}#0" for p in suite.prompts()]
    run.append("images", frame("images", [image(i, i.partition("#")[0]) for i in ids]))
    observed = Observed(prompts={p.prompt_id: p for p in suite.prompts()}, images=run.read("images"), observations={})
    verdicts = suite.verdicts(observed)
    scores = list(suite.scores(observed, verdicts))
    if truth:
        scores += suite.judge_errors(observed, verdicts, verdicts.with_columns(value=pl.lit(1.0)))
    run.write_verdicts(verdicts)
    run.write_scores(complete_scores(suite, scores))
    run.write_presentation(suite.presentation())
    return run


def page_of(runs: Sequence[Run], out: Path, suite: Suite | None) -> Page:
    return Page(write_report(runs, out, suites=[suite] * len(runs)).read_text(encoding="utf-8"))


def test_a_foreign_suites_page_speaks_of_itself_alone(tmp_path):
    page = page_of([make_run(tmp_path / "mine", GenLike())], tmp_path / "out", GenLike())
    text = plain(page.source.partition("<body>")[2].partition('id="numbers"')[0])
    for entry in ("mine on GenLike", "Is what was asked for there?", "Every object must be found.",
                "Only two tasks are asked.", "Share of images as asked. section 3 of nobody"):  # fmt: skip
        assert entry in text, entry
    for foreign in ("DALL-Eval", "skill", "released", "revised protocol", "PaintSkills"):
        assert foreign not in text, foreign
    assert page.all("html")[0]["data-protocol"] == "geneval"
    assert ':root[data-protocol="geneval"] [data-p]:not([data-p="geneval"])' in page.source


def test_numbers_of_a_foreign_suite_are_on_its_page(tmp_path):
    run = make_run(tmp_path / "mine", GenLike())
    page = page_of([run], tmp_path / "out", GenLike())
    results = plain(page.section("results"))
    # 3 of 4 and 1 of 3 images are right; the mean over tasks is (0.75 + 0.333) / 2.
    assert "overall score ↑ higher is better 54.2" in results
    assert "counting 75.0" in results
    assert "task score by task" in plain(page.section("groups"))
    assert "position, mine: 33.3" in page.section("groups")
    assert "what the choice of protocol changes" not in page.source.lower()  # there is one protocol
    assert json.loads(page.source.partition('id="numbers">')[2].partition("</script>")[0])["scores"] == json_report(
        [run]
    )


def test_the_gallery_of_a_foreign_suite_has_its_outcomes_and_facets(tmp_path):
    page = page_of([make_run(tmp_path / "mine", GenLike())], tmp_path / "out", GenLike())
    tiles = page.all("article")
    assert sorted(outcomes(t, "geneval")[0] for t in tiles) == ["right"] * 4 + ["unusable"] + ["wrong"] * 3
    assert [s.get("data-facet") for s in page.all("select")] == ["task", "n"]
    assert {facets(t)["task"][0] for t in tiles} == set(TASKS)
    assert "wrong not found" in plain(page.section("gallery"))


def test_columns_and_judge_errors_work_for_any_facet(tmp_path):
    page = page_of([make_run(tmp_path / "mine", InColumns(), truth=True)], tmp_path / "out", InColumns())
    assert (
        plain(page.section("results").partition("<thead>")[2].partition("</thead>")[0]) == "run counting position mean"
    )
    judge = plain(page.section("judge"))
    # All images are right in truth: of them, 1 of 4 and 2 of 3 were rejected; and none wrong could be accepted.
    assert "counting – 0 used 25.0" in judge
    assert "position – 0 used · 1 unusable 66.7" in judge
    assert "−25.0" in judge


def test_tables_of_text_use_the_suites_first_protocol(tmp_path):
    run = make_run(tmp_path / "mine", InColumns())
    assert markdown_table([run]).splitlines()[0] == "| run | counting | position | mean | used / unusable |"
    assert "protocol geneval" in terminal_table([run])
    assert "| mine | 75.0 [" in markdown_table([run])
    assert "| 6 / 1 |" not in markdown_table([run])
    assert markdown_table([run]).splitlines()[2].endswith("| 7 / 1 |")
    with pytest.raises(UsageError, match="unknown protocol 'revised'; these runs have geneval"):
        terminal_table([run], protocol="revised")


def test_a_stored_run_has_its_page_without_its_suite(tmp_path):
    run = make_run(tmp_path / "mine", WithTable())
    with_suite = page_of([run], tmp_path / "with", WithTable())
    assert "Asked &amp; done" in with_suite.source
    store_sections(run, WithTable().sections(Evidence.of([run], gallery=0)))
    page = page_of([Run.open(run.path)], tmp_path / "without", None)
    assert page.source == with_suite.source
    ids = [attrs.get("id") for attrs in page.all("section")]
    assert ids[:3] == ["results", "own-asked-done", "groups"]
    kept = stored_sections(run)
    assert [s.generic for s in kept[:3]] == [True, False, True]
    assert kept[0].body == ""
    assert "<script>window.bad" not in kept[1].body


def test_stored_sections_of_several_runs_stand_one_by_one(tmp_path):
    runs = [make_run(tmp_path / name, WithTable()) for name in ("one", "two")]
    for run in runs:
        store_sections(run, WithTable().sections(Evidence.of([run], gallery=0)))
    page = page_of(runs, tmp_path / "out", None)
    ids = [str(attrs["id"]) for attrs in page.all("section")]
    assert [i for i in ids if i.startswith("own-")] == ["own-asked-done-1", "own-asked-done-2"]
    assert "Asked &amp; done: two" in page.source
    assert len(ids) == len(set(ids))


def test_without_suite_and_stored_sections_there_is_the_page_of_any_suite(tmp_path):
    run = as_earlier_version(make_run(tmp_path / "mine", GenLike()))
    (run.path / "presentation.json").unlink()
    page = page_of([run], tmp_path / "out", None)
    assert "task score" in plain(page.section("results"))
    assert "54.2" in plain(page.section("results"))
    (run.path / "sections.json").write_text("{")
    with pytest.raises(UsageError, match=r"sections\.json is damaged"):
        page_of([run], tmp_path / "out", None)


def test_a_table_with_a_missing_cell_is_refused():
    with pytest.raises(ValueError, match="needs 2 cells"):
        table_section("Prompts asked", ["run", "prompts"], [["only one"]])
    assert table_section("Prompts asked!", ["run"], [["a"]], note="<b>").id == "own-prompts-asked"
    assert "&lt;b&gt;" in table_section("Prompts asked!", ["run"], [["a"]], note="<b>").body


def test_names_of_protocols_cannot_leave_the_style(tmp_path):
    class Hostile(GenLike):
        info = SuiteInfo(name="gen_like", title="x", question="x", summary="x", protocols={'"]</style><b>': "x"})

    page = page_of([make_run(tmp_path / "mine", Hostile())], tmp_path / "out", Hostile())
    assert "b" not in {tag for tag, _ in page.elements[: page.elements.index(("body", {}))]}
    assert page.source.count("</style>") == 1
