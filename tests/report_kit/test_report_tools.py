"""What makes a report usable elsewhere: LaTeX, the command that repeats a run, curves, overview, no user folders."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from browsing import CHROMIUM, broken_words, browsing, faults_of, too_small
from measure_runs import score
from page_reading import Page, plain, report, write_report
from report_runs import build_run

from verism import api
from verism.records import Score
from verism.report_kit.curves import curve, numbered, run_numbers
from verism.report_kit.evidence import RunDifference
from verism.report_kit.figures import with_code
from verism.report_kit.local_paths import LocalPaths
from verism.report_kit.repetition import command_of
from verism.report_kit.tables import difference_words, latex, latex_table
from verism.report_kit.words import number, percent
from verism.store import Run
from verism.suites.paintskills.suite import PaintSkills


# --------------------------------------------------------------------------------------------------------------- LaTeX
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50 % of a_b & c", r"50 \% of a\_b \& c"),
        ("{x} #1 $2 ~ ^", r"\{x\} \#1 \$2 \textasciitilde{} \textasciicircum{}"),
        (r"C:\runs", r"C:\textbackslash{}runs"),
        ("<0.001 | >", r"\textless{}0.001 \textbar{} \textgreater{}"),
        ("[1, 2]", "{}[1, 2]"),  # else an option of the line break above
        ("– −1", "-- $-$1"),
        ("two\nlines", "two lines"),
    ],
)
def test_latex_is_set_as_it_is(text, expected):
    assert latex(text) == expected


def object_accuracy(run: Run) -> Score:
    return next(
        s for s in run.scores() if (s.metric, s.protocol, s.group) == ("accuracy", "revised", {"skill": "object"})
    )


def test_latex_table_has_rules_intervals_and_counts(make_run):
    run = make_run("50%_best", skills=("object",), limit=12)
    found = latex_table([run])
    lines = [line.strip() for line in found.splitlines()]
    assert [lines.count(rf"\{rule}rule") for rule in ("top", "mid", "bottom")] == [1, 1, 1]
    assert r"50\%\_best" in found
    mean = object_accuracy(run)
    assert f"{100 * mean.value:.1f} [{100 * mean.ci_low:.1f}, {100 * mean.ci_high:.1f}]" in found
    assert "12 / 0" in found
    columns = {line.count(" & ") for line in lines if line.endswith(r"\\")}
    assert columns == {3}  # run, object, mean, used / unusable
    assert found.count("{") == found.count("}")


# ------------------------------------------------------------------------------------------------------------- folders
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("images:/home/ann/pictures/list.csv", "images:…/list.csv"),
        ("verism score /home/ann/runs/a --rule k=5", "verism score …/a --rule k=5"),
        (r"C:\Users\Ann\x.onnx and file:///home/ann/y", r"…/x.onnx and …/y"),
        ("https://host.example/v1/images and 1/2 and/or a/b", "https://host.example/v1/images and 1/2 and/or a/b"),
    ],
)
def test_folders_of_users_are_taken_out(text, expected):
    assert LocalPaths().without_folders(text) == expected


def test_known_folders_may_have_spaces():
    assert LocalPaths(["/home/Ann Smith/mine"]).without_folders("in /home/Ann Smith/mine/a b.csv") == "in …/a b.csv"
    assert LocalPaths(["/"]).without_known("/etc") == "/etc"


def test_a_page_has_no_folders_of_the_user(make_run, tmp_path):
    run = make_run("a", skills=("object",), limit=2, generator="images:/home/ann/my-pictures/list.csv")
    page = report([run], tmp_path / "out")
    assert "ann" not in re.findall(r"\w+", plain(page.source))
    assert "…/list.csv" in page.source
    assert str(tmp_path) not in page.source


# ------------------------------------------------------------------------------------------------------------- command
def with_call(run: Run, **call) -> Run:
    known = {"command": "evaluate", "suite": "paintskills", "model": "builtin", "images": None, "judges": {}}
    run.note_call({**known, "options": {}, "suite_options": {}, "folder": "/home/ann", "python": [], **call})
    return Run.open(run.path)


def test_command_repeats_the_run(make_run):
    run = with_call(
        make_run("a", skills=("object",), limit=2),
        model="command:./paint.py --style 'oil paint'",
        judges={"detector": "truth"},
        suite_options={"skills": ["object", "count"], "limit": 2},
        options={"size": 128, "processes": 4, "device": "cuda"},
    )
    assert command_of(run, PaintSkills.standard(skills=("object",), limit=2)) == (
        "verism run paintskills --model " + shlex.quote("command:./paint.py --style 'oil paint'") + " --detector truth "
        "--skill object --skill count --limit 2 --size 128"
    )


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("openai:m?api_key=sk-abcdef123456", "sk-"),
        ("command:./p --token abcdef", "abcdef"),
        ("command:./p --api-key=abcdef", "abcdef"),
        ("openai:m?base_url=https://me:secret9@host/v1", "secret9"),
    ],
)
def test_command_never_shows_a_key(make_run, model, shown):
    run = with_call(make_run("a", skills=("object",), limit=2), model=model)
    assert shown not in command_of(run)
    assert "[hidden]" in command_of(run)


def test_command_names_files_without_their_folders_and_python_objects_have_none(make_run):
    run = make_run("a", skills=("object",), limit=2)
    assert command_of(run) == ""  # of a run that does not say how it was made
    images = with_call(run, model=None, images="/home/ann/pictures/list.csv")
    assert command_of(images) == "verism run paintskills --images list.csv"
    assert command_of(with_call(make_run("b", skills=("object",), limit=2), python=["model"])) == ""


# -------------------------------------------------------------------------------------------------------------- curves
def test_numbers_of_names_are_found_and_order_runs(make_run):
    assert run_numbers(["step-999", "step-10000"]) == ("step", [999, 10000])
    assert run_numbers(["sd15-step-1", "sd15-step-2"]) == ("step", [1, 2])
    assert run_numbers(["a1b1", "a2b2"]) is None  # two numbers differ
    assert run_numbers(["a", "b"]) is None
    assert run_numbers(["x-1"]) is None
    runs = [make_run(name, skills=("object",), limit=2) for name in ("s-1000", "s-2000", "s-999")]
    assert [run.path.name for run in numbered(runs)] == ["s-999", "s-1000", "s-2000"]


def test_points_of_a_curve_lie_at_their_numbers():
    scores = [score("accuracy", value, value - 0.1, value + 0.1) for value in (0.3, 0.5, 0.4)] + [None]
    drawn = curve(at=[0, 100, 50, 75], scores=scores, names="abcd", x_name="step", unit="%", label="x")
    root = ElementTree.fromstring(drawn)
    dots = [c.attrib["cx"] for c in root.iter("circle")]
    assert dots == ["0%", "50%", "100%"]  # in their order, without the one that is missing
    joined = [(e.attrib["x1"], e.attrib["x2"]) for e in root.iter("line") if e.attrib["class"] == "path"]
    assert joined == [("0%", "50%"), ("50%", "100%")]
    heights = [float(c.attrib["cy"]) for c in root.iter("circle")]
    assert heights[0] > heights[1] > heights[2]  # 0.3, 0.4, 0.5


# ------------------------------------------------------------------------------------------------- order, words, folds
def test_the_answer_comes_first_and_the_method_last(make_run, tmp_path):
    page = report([make_run("a", errors=True)], tmp_path)
    places = [page.source.index(mark) for mark in ('class="answer"', 'id="results"', 'id="gallery"', 'id="method"')]
    assert places == sorted(places)
    assert page.source.index('id="method"') < page.source.index('id="provenance"')


def test_groups_of_few_images_are_folded(make_run, tmp_path):
    page = report([make_run("a", skills=("object",), limit=12)], tmp_path)
    section = page.section("breakdowns")
    folded = re.findall(r'<details class="few"><summary>(\d+) groups? of fewer than 5 images</summary>', section)
    assert folded
    assert "plot amounts" not in section.partition('<details class="few">')[0]


def test_back_ticks_are_code_and_text_stays_text():
    assert with_code("run `a <b>` now") == "run <code>a &lt;b&gt;</code> now"
    assert with_code("a ` b") == "a ` b"


# ------------------------------------------------------------------------------------------------------------- numbers
def test_a_share_reads_the_same_whatever_its_last_bit():
    mean = float(np.full(3, 1 / 3) @ [1.0, 0.9375, 0.875])  # of three skills; 15 of 16 as a mean of 48 images
    assert mean != 0.9375
    assert number(mean, "share") == number(0.9375, "share") == percent(mean) == "93.8"


# ------------------------------------------------------------------------------------------------------------ baseline
def test_differences_to_the_baseline_in_words():
    test = RunDifference(difference=0.031, ci_low=0.002, ci_high=0.06, p=0.038, unit="share")
    assert difference_words(test) == "+3.1 [+0.2, +6.0], p = 0.038"
    assert difference_words(replace(test, p=0.0001)) == "+3.1 [+0.2, +6.0], p <0.001"
    assert difference_words(replace(test, difference=math.nan)) == difference_words(None) == ""


def test_runs_are_tested_against_the_baseline(make_run, tmp_path):
    weak, strong = make_run("weak", skill_level=0.2), make_run("strong", skill_level=1.0)
    page = Page(api.report(weak, strong, out=tmp_path / "out", baseline=strong, gallery=0).read_text(encoding="utf-8"))
    (mean,) = [row for row in api.compare(strong, weak) if not row.group]
    words = difference_words(RunDifference(difference=mean.difference, ci_low=mean.ci_low, ci_high=mean.ci_high,
                                p=mean.p_value, unit=mean.unit))  # fmt: skip
    assert words.startswith("−")
    assert words in plain(page.section("results"))
    first, second = [plain(found) for found in re.findall(r'<p class="answer">.*?</p>', page.source, re.S)]
    assert f"Against strong, mean accuracy: {words}" in second  # the page begins with it
    assert "Against" not in first
    assert page.source.index(">strong<") < page.source.index(">weak<")
    without = Page(api.report(weak, strong, out=tmp_path / "b", tests=False, gallery=0).read_text(encoding="utf-8"))
    assert 'class="tested' not in without.source


# ------------------------------------------------------------------------------------------------------------ overview
def test_runs_of_several_suites_have_an_overview(make_run, geography_run, tmp_path):
    paint = make_run("m-paint", limit=12)
    file = api.report(paint, geography_run, out=tmp_path / "over", gallery=0)
    page = Page(file.read_text(encoding="utf-8"))
    links = [a["href"] for a in page.all("a") if str(a["href"]).endswith(".html")]
    assert links == ["paintskills.html", "geography.html"]
    for link in links:
        part = (file.parent / link).read_text(encoding="utf-8")
        assert 'href="index.html"' in part
    mean = object_accuracy(paint)
    assert f"{100 * mean.value:.1f} [{100 * mean.ci_low:.1f}, {100 * mean.ci_high:.1f}]" in plain(page.source)
    mean = next(s for s in paint.scores() if s.metric == "mean_accuracy" and s.protocol == "revised")
    assert f"Mean accuracy {100 * mean.value:.1f} %" in plain(page.source.partition('class="answer"')[2])


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_overview_fits_a_phone(make_run, geography_run, tmp_path):
    pytest.importorskip("playwright")
    file = api.report(make_run("m-paint", limit=12), geography_run, out=tmp_path / "over", gallery=0)
    with browsing() as browser:
        page = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark").new_page()
        page.goto(file.resolve().as_uri())
        assert faults_of(page) == []
        assert too_small(page) == []
        assert "\n".join(broken_words(page)) == ""


# ------------------------------------------------------------------------------------------------------- in the browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_tables_sort_and_the_address_keeps_filters(tmp_path):
    pytest.importorskip("playwright")
    runs = [build_run(tmp_path / f"m-{n}", skill_level=level, limit=12) for n, level in ((1, 0.9), (2, 0.1), (3, 0.5))]
    address = write_report(runs, tmp_path / "out", gallery=12).resolve().as_uri()
    order = "[...document.querySelectorAll('table.headline:not([hidden]) tbody')].find((b) => b.checkVisibility())"
    names = f"[...({order}).rows].map((r) => r.cells[0].innerText.trim())"
    with browsing() as browser:
        page = browser.new_context(viewport={"width": 390, "height": 800}).new_page()
        page.goto(address)
        before = page.evaluate(names)
        head = page.locator("table.headline:visible th.mean")
        head.get_by_role("button").focus()
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        rising = page.evaluate(names)
        assert (rising[0], rising[-1]) == ("m-2", before[-1])  # what needs no skill stays at the end
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        assert page.evaluate(names)[0] == "m-1"
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") is None
        assert page.evaluate(names) == before
        page.select_option("select[name=run]", "1")
        page.fill("input[type=search]", "a")
        shown = page.inner_text("#gallery-count")
        assert "run=1" in page.url
        again = page.url
        page.goto("about:blank")
        page.goto(again)
        assert page.input_value("select[name=run]") == "1"
        assert page.inner_text("#gallery-count") == shown
        assert [fault for fault in faults_of(page) if fault != "words of JavaScript"] == []
        assert too_small(page) == []
        assert "\n".join(broken_words(page)) == ""
