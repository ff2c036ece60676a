"""The board's page in a real browser: sorting, filters, its figure, links, and both widths and schemes."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs

import pytest
from browsing import CHROMIUM, broken_words, browsing, faults_of, too_small, until

import verism
from verism.plans import Plan, run_plan
from verism.plans.board import make_board
from verism.plans.board_page import board_page
from verism.report_kit.page import write_page

pytest.importorskip("playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
HOSTILE = '<img src=x onerror="window.bad=1"><script>window.bad=1</script>'
MODELS = ("fair", "good", "poor")


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    plan = Plan.make(
        title=HOSTILE,
        models={"fair": "scripted:error=0.3", "good": "scripted:error=0.0", "poor": "scripted:error=0.9"},
        references={"perfect": {"model": "oracle"}},
        suites={
            "paintskills": {"skills": ["object", "count"], "limit": 24, "detector": "truth"},
            "second": {"suite": "paintskills", "skills": ["object"], "limit": 8, "detector": "truth"},
        },
        exclude=[{"model": "perfect", "suite": "second"}],
        defaults={"size": 64, "seed": 3},
    )
    run_plan(plan, folder / "P")
    run = folder / "P" / "runs" / "good-paintskills"
    verism.report(run, out=run / "report")
    return folder / "P"


@pytest.fixture(scope="module")
def link(plan_folder: Path) -> str:
    board = make_board([plan_folder], relative_to=plan_folder)
    return write_page(board_page(board), plan_folder / "board.html").resolve().as_uri()


@pytest.fixture(scope="module")
def chromium():
    with browsing() as browser:
        yield browser


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 1280, "height": 850})
    opened = context.new_page()
    opened.errors = []
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    yield opened
    assert opened.errors == []
    context.close()


def rows(page) -> list[str]:
    shown = "[...document.querySelectorAll('table.board tbody tr')].filter((r) => r.checkVisibility())"
    return page.evaluate(f"{shown}.map((r) => r.dataset.model)")


def test_columns_sort_best_first_then_worst_first_and_the_address_keeps_it(page, link):
    page.goto(link)
    assert rows(page) == [*MODELS, "perfect"]
    head = page.locator("th[data-suite]", has_text="accuracy, object").first
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    best_first = rows(page)
    assert [m for m in best_first if m != "perfect"] == ["good", "fair", "poor"]
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [m for m in rows(page) if m != "perfect"] == ["poor", "fair", "good"]
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert rows(page)[0] == "poor"
    page.get_by_role("button", name="model").click()
    assert rows(page) == ["fair", "good", "perfect", "poor"]


def test_row_without_a_value_comes_last_either_way(page, link):
    page.goto(link)
    button = page.locator("th[data-suite='second']").first.get_by_role("button")
    for _ in range(2):
        button.click()
        assert rows(page)[-1] == "perfect"


def test_filters_choose_rows_and_suites_and_the_address_keeps_them(page, link):
    page.goto(link)
    page.fill("#search", "oo")
    assert rows(page) == ["good", "poor"]
    assert page.inner_text("#shown") == "2 of 4 rows"
    page.uncheck("input[name=suite][value=second]")
    assert not page.locator("td[data-suite=second]").first.is_visible()
    assert page.locator("tr[data-model=good] td[data-suite=paintskills]").first.is_visible()
    page.fill("#search", "")
    page.uncheck("#references")
    assert rows(page) == list(MODELS)
    assert parse_qs(page.url.partition("#")[2])["hide"] == ["second"]
    page.reload()
    assert rows(page) == list(MODELS)
    assert not page.is_checked("input[name=suite][value=second]")


def test_links_to_reports_open_them(page, link):
    page.goto(link)
    assert page.locator("tr[data-model=fair] a").count() == 0
    page.click("tr[data-model=good] a")
    until(page, "document.title.includes('report') || document.querySelector('h1') !== null")
    assert page.url.endswith("runs/good-paintskills/report/index.html")
    assert "PaintSkills" in page.inner_text("body")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_page_fits_its_window_and_can_be_read_and_reached(chromium, link, scheme, width):
    context = chromium.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme)
    page = context.new_page()
    page.goto(link)
    # A number that is undefined is called so.
    assert [fault for fault in faults_of(page) if fault != "words of JavaScript"] == []
    assert too_small(page) == []
    assert "\n".join(broken_words(page)) == ""
    assert page.evaluate("window.bad") is None
    assert HOSTILE in page.inner_text("h1")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
        assert page.evaluate(
            "(() => { const s = getComputedStyle(document.activeElement);"
            "return document.activeElement === document.body || parseFloat(s.outlineWidth) > 0 })()"
        )
    assert {"search", "references", "sort", "scroll", "win-column", "x-column", "y-column"} <= reached
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_names_in_the_figure_are_inside_it_legible_and_apart(chromium, link, width):
    context = chromium.new_context(viewport={"width": width, "height": 850})
    page = context.new_page()
    page.goto(link)
    assert page.locator("#pareto-plot .name").count() == 4
    found = page.evaluate(
        """() => {
          const plot = document.querySelector("#pareto-plot svg").getBoundingClientRect();
          const texts = [...document.querySelectorAll("#pareto-plot text")];
          const boxes = texts.map((t) => [t.textContent, t.getBoundingClientRect()]);
          const found = [];
          for (const [name, b] of boxes) {
            const inside = b.left >= plot.left - 1 && b.right <= plot.right + 1 && b.top >= plot.top - 1 &&
              b.bottom <= plot.bottom + 1;
            if (!inside) found.push("outside: " + name);
            if (Math.min(b.height, b.width) < 11 && name.length > 1) found.push("small: " + name);
          }
          const meet = (a, b) => a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 4 &&
            b.top < a.bottom - 4;
          boxes.forEach(([name, a], n) => boxes.slice(n + 1).forEach(([other, b]) => {
            if (meet(a, b)) found.push(name + " over " + other);
          }));
          return found;
        }"""
    )
    assert found == []
    context.close()
