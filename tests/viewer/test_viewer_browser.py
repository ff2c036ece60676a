"""The viewer in a real browser: links, filters, keys, two runs, hostile text, and both widths and schemes."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from browsing import CHROMIUM, browsing, faults_of, serving_app, too_small, until
from report_runs import build_run

from verism.store import Run

pytest.importorskip("fastapi")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
HOSTILE = '<img src=x onerror="window.bad=1"><script>window.bad=1</script>{{7*7}}\'"&'


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    from verism.viewer.server import create_app

    folder = tmp_path_factory.mktemp("runs")
    build_run(folder / "a" / "strong", skill_level=0.8, limit=60, states={3: "refused"}, truth=True)
    build_run(folder / "a" / "weak", skill_level=0.3, limit=60)
    build_run(
        folder / "hostile", limit=40, text=HOSTILE, generator=HOSTILE, states=dict.fromkeys(range(0, 40, 3), "refused")
    )
    plan = folder / "plan"
    for model in ("strong", "weak"):
        shutil.copytree(folder / "a" / model, plan / "runs" / f"{model}-paintskills")
    pairs = [
        {"model": m, "suite": "paintskills", "column": "paintskills", "reference": False} for m in ("strong", "weak")
    ]
    record = {
        "format": "verism-plan", "version": 1, "title": HOSTILE, "pairs": pairs,
        "rows": [{"name": pair["model"], "reference": False} for pair in pairs],
        "columns": [{"name": "paintskills", "suite": "paintskills"}],
    }  # fmt: skip
    (plan / "plan.json").write_text(json.dumps(record), encoding="utf-8")
    (plan / "status").mkdir()
    for name, state in (("strong", "done"), ("weak", "failed")):
        kept = {"pair": f"{name}-paintskills", "model": name, "suite": "paintskills", "state": state, "reason": HOSTILE}
        (plan / "status" / f"{name}-paintskills.json").write_text(json.dumps(kept), encoding="utf-8")
    report = folder / "a" / "strong" / "report" / "index.html"
    report.parent.mkdir()
    report.write_text("<!doctype html><h1>Report</h1>", encoding="utf-8")
    (folder / "broken").mkdir()
    (folder / "broken" / "manifest.json").write_text("{", encoding="utf-8")
    page = (
        "<!doctype html><h1>Board</h1><script>fetch('/api/runs').then(() => document.title = 'read',"
        "() => document.title = 'refused')</script><a id='again' href='board.html'>again</a>"
        "<a id='report' href='a/strong/report/index.html'>report</a>"
    )
    (folder / "board.html").write_text(page, encoding="utf-8")
    with serving_app(create_app(folder)) as served:
        yield served


@pytest.fixture(scope="module")
def chromium():
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def opened(chromium):
    """One page for all tests: a context of its own takes longer than most tests."""
    made = chromium.new_context().new_page()
    made.errors = []
    made.on("pageerror", lambda error: made.errors.append(str(error)))
    yield made
    made.context.close()


@pytest.fixture
def page(opened):
    opened.set_viewport_size({"width": 1280, "height": 850})
    yield opened
    assert opened.errors == []
    for other in opened.context.pages:
        if other is not opened:
            other.close()


def show(page, address, link, ready="h1"):
    page.goto("about:blank")
    page.goto(f"{address}/#{link}")
    page.wait_for_selector(ready)


def test_list_is_searched_and_filtered_and_the_address_keeps_it(page, address):
    show(page, address, "/", ".runs .name")
    assert page.locator(".runs > li").count() == 6
    assert "is damaged" in page.inner_text(".runs")
    page.keyboard.press("/")
    page.keyboard.type("a/weak")
    until(page, "document.querySelectorAll('.runs > li').length === 1")
    assert "q=a%2Fweak" in page.url
    page.reload()
    page.wait_for_selector(".runs .name")
    assert page.locator(".runs .name").all_inner_texts() == ["a/weak"]


def test_run_at_work_moves_on_in_the_list_without_a_reload(page, tmp_path):
    from verism.viewer.server import create_app

    done = build_run(tmp_path / "done", limit=12)
    run = Run.start(tmp_path / "runs" / "new", done.manifest.settings)
    run.write_prompts(done.prompts())
    images = done.read("images")
    run.append("images", images.head(4))
    with serving_app(create_app(tmp_path / "runs")) as address:
        show(page, address, "/", ".runs .name")
        assert "Generating, running" in page.inner_text(".runs")
        assert "4 of 12 images" in page.inner_text(".runs")
        page.keyboard.press("/")
        run.append("images", images.tail(8))
        until(page, "document.querySelector('.runs').innerText.includes('12 of 12 images')")
        assert page.evaluate("document.activeElement.id") == "search"
        shutil.copytree(done.path, tmp_path / "runs" / "second")
        until(page, "document.querySelectorAll('.runs > li').length === 2")


def test_from_the_list_to_a_board_and_from_its_row_to_the_run(page, address):
    show(page, address, "/", ".plans .name")
    assert page.inner_text(".plans .name") == HOSTILE
    assert "1 of 2 runs done, 1 failed" in page.inner_text(".plans")
    assert f"weak-paintskills failed: {HOSTILE}" in page.inner_text(".plans")
    with page.context.expect_page() as opened:
        page.click(".plans .name")
    board = opened.value
    board.wait_for_selector("table.board")
    assert board.evaluate("window.bad") is None
    assert HOSTILE in board.inner_text("h1")
    board.get_by_role("button", name="mean accuracy").click()
    assert board.locator("th[aria-sort=descending]").count() == 1
    board.click("tr[data-model=strong] a")
    board.wait_for_selector("table.scores")
    assert board.inner_text("h1") == "plan/runs/strong-paintskills"


def test_labels_of_boxes_stay_inside_the_image(page, address):
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 850})
        show(page, address, "/images?run=a%2Fstrong&boxes=1", "svg.boxes text")
        outside = page.evaluate(
            """() => [...document.querySelectorAll("svg.boxes")].flatMap((svg) => {
              const frame = svg.getBoundingClientRect();
              return [...svg.querySelectorAll("text")].filter((t) => {
                const b = t.getBoundingClientRect();
                return b.left < frame.left - 2 || b.right > frame.right + 2 || b.top < frame.top - 3;
              }).map((t) => t.textContent);
            })"""
        )
        assert outside == []


def test_from_a_score_to_why_an_image_is_wrong_by_keys_alone(page, address):
    show(page, address, "/run?run=a%2Fstrong", "table")
    page.get_by_role("link", name="What is wrong").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".gallery .tile")
    total = int(re.search(r"of (\d+)", page.inner_text(".pager")).group(1))
    assert set(page.locator(".gallery .badge").all_inner_texts()) == {"Wrong"}
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("[...document.querySelectorAll('.tile')].indexOf(document.activeElement)") == 1
    page.keyboard.press("Enter")
    page.wait_for_selector("#why")
    assert page.inner_text("#why") == "Why it is wrong"
    assert "expected" in page.inner_text(".why.wrong")
    assert f"2 of {total}" in page.inner_text("main")
    assert page.locator("svg.boxes rect").count() > 0
    page.keyboard.press("b")
    assert not page.locator("svg.boxes").first.is_visible()
    page.keyboard.press("b")
    page.keyboard.press("ArrowLeft")
    until(page, "document.body.innerText.includes('1 of ')")
    page.keyboard.press("Escape")
    page.wait_for_selector(".gallery .tile")
    assert "outcome=wrong" in page.url
    page.keyboard.press("Escape")
    page.wait_for_selector("table")
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()


def test_filters_and_pages_are_in_the_address_and_back_works(page, address):
    show(page, address, "/images?run=a%2Fstrong", "#outcome")
    assert "1 to 48 of 60" in page.inner_text(".pager")
    page.keyboard.press("ArrowRight")
    until(page, "document.body.innerText.includes('49 to 60 of 60')")
    page.go_back()
    until(page, "document.body.innerText.includes('1 to 48 of 60')")
    page.select_option("#outcome", "unusable")
    until(page, "document.body.innerText.includes('1 to 1 of 1')")
    assert "refused" in page.inner_text(".gallery")
    assert "outcome=unusable" in page.url
    page.fill("#search", "nothing fits this")
    until(page, "document.body.innerText.includes('No image fits')")
    assert page.evaluate("document.activeElement.id") == "search"
    assert "q=nothing" in page.url


def test_two_runs_side_by_side_with_the_most_different_first(page, address):
    show(page, address, "/", ".runs .name")
    button = page.get_by_role("button", name="Compare two runs")
    assert button.is_disabled()
    for name in ("a/strong", "a/weak"):
        page.get_by_label(f"Choose {name} to compare").check()
    button.click()
    page.wait_for_selector(".pair")
    assert page.locator(".pair").first.locator(".badge").all_inner_texts() in (["Right", "Wrong"], ["Wrong", "Right"])
    page.select_option("#show", "second")
    until(page, "location.hash.includes('show=second')")
    show(page, address, "/compare?a=a%2Fstrong&b=hostile", ".banner.error, .pair")


def test_text_of_runs_is_text_and_pages_found_can_read_nothing(page, address):
    for link, ready in (
        ("/", ".runs .name"), ("/run?run=hostile", "table"), ("/images?run=hostile&boxes=1", ".gallery .tile"),
        ("/run?run=%3Cimg%20src%3Dx%20onerror%3D%22window.bad%3D1%22%3E", ".banner.error"),
    ):  # fmt: skip
        show(page, address, link, ready)
        page.wait_for_timeout(50)
        assert page.evaluate("window.bad") is None
        assert page.locator("script").count() == 1
    show(page, address, "/images?run=hostile", ".gallery .tile")
    assert HOSTILE in page.inner_text(".gallery")
    page.goto(f"{address}/pages/board.html")
    until(page, "document.title !== ''")
    assert page.title() == "refused"
    page.click("#again")
    page.wait_for_selector("h1")
    assert page.inner_text("h1") == "Board"
    page.click("#report")
    until(page, "document.querySelector('h1')?.innerText === 'Report'")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390), ("light", 320)])
def test_names_labels_contrast_focus_and_width_on_every_view(page, address, scheme, width):
    page.set_viewport_size({"width": width, "height": 850})
    page.emulate_media(color_scheme=scheme)
    for link, ready in (
        ("/", ".runs .name"),
        ("/run?run=a%2Fstrong", "table"),
        ("/run?run=broken", ".banner"),
        ("/images?run=a%2Fstrong&boxes=1", "#outcome"),
        ("/image?run=a%2Fstrong&outcome=wrong&id=count_val_00452%230", "h1"),
        ("/compare?a=a%2Fstrong&b=a%2Fweak", ".pair"),
    ):
        show(page, address, link, ready)
        page.wait_for_timeout(300)
        assert faults_of(page) == [], link
        assert too_small(page) == [], link
        for _ in range(12 if width != 320 else 0):  # the outline depends on the scheme alone
            page.keyboard.press("Tab")
            assert page.evaluate(
                "(() => { const s = getComputedStyle(document.activeElement);"
                "return document.activeElement === document.body || parseFloat(s.outlineWidth) > 0 })()"
            )
    page.keyboard.press("?")
    assert faults_of(page) == []
    page.emulate_media(color_scheme="light")
