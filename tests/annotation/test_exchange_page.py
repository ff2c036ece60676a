"""The page that collects answers without a server, and the template of Mechanical Turk, in a real browser."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from annotation_runs import make_run
from browsing import CHROMIUM, browsing

from verism.annotation.exchange import export_study, import_ratings
from verism.annotation.exchange.material import item_keys, swapped
from verism.annotation.ratings import study_path
from verism.annotation.sampling import draw_items
from verism.annotation.tasks import PREFERENCE
from verism.annotation.votes import Study, VoteStore
from verism.records import RatingTask

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

HOSTILE = '<img src=x onerror="window.hurt = 1">'
SEEN = RatingTask(
    name="seen",
    question=f"Is it there? {HOSTILE}</script>",
    kind="choice",
    options=("yes", "no", HOSTILE),
    help=HOSTILE,
)
COUNT = RatingTask(name="count", question="How many?", kind="choice", options=("0", "1", "2 or more"))
NAMED = RatingTask(name="named", question="What?", kind="list", options=("a dog", "a cat", "None"))
TONE = RatingTask(name="tone", question="Tone?", kind="tone", options=(*map(str, range(1, 11)), "cannot tell"))


@pytest.fixture(scope="module")
def browser():
    with browsing() as started:
        yield started


@pytest.fixture
def context(browser):
    made = browser.new_context(accept_downloads=True)
    made.set_default_timeout(10_000)
    yield made
    made.close()


def opened(context, url: str):
    """A page whose errors fail the test."""
    page = context.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    page.goto(url)
    return page


def study(tmp_path: Path, tasks=(SEEN, COUNT, NAMED, TONE, PREFERENCE)) -> tuple[VoteStore, list]:
    runs = [make_run(tmp_path / name, limit=3, seed=i) for i, name in enumerate(("one", "two"))]
    items = [item for task in tasks for item in draw_items(runs, task, per_cell=1)]
    paths = tuple(str(run.path) for run in runs)
    return VoteStore.create(study_path(runs[0]), Study(tasks=tasks, items=tuple(items), runs=paths, seed=4)), runs


def saved(page, button: str, target: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    path = target / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_a_study_is_answered_by_keyboard_from_a_file_and_comes_back_as_votes(context, tmp_path):
    store, runs = study(tmp_path)
    out = tmp_path / "out"
    export_study(store, runs, "bundle", out)
    page = opened(context, (out / "index.html").as_uri())
    page.keyboard.type("  Ann   Other ")
    page.keyboard.press("Enter")
    count = page.locator("#count")
    assert count.inner_text() == "0 of 9"
    assert page.locator("#question").inner_text() == SEEN.question
    page.wait_for_function("[...document.querySelectorAll('#pictures img')].every((i) => i.naturalWidth === 24)")
    page.keyboard.press("2")  # seen: no
    page.keyboard.press("3")  # seen: the hostile option
    page.keyboard.press("u")  # taken back
    assert page.locator('#options [aria-pressed="true"]').get_attribute("data-option") == HOSTILE
    page.keyboard.press("1")  # and yes
    page.keyboard.press("0")  # count: the answer's own number
    page.keyboard.press("s")  # skipped
    assert count.inner_text() == "4 of 9"
    page.close()  # whoever comes back goes on where they were
    page = opened(context, (out / "index.html").as_uri() + "?rater=Ann%20Other")
    assert page.locator("#count").inner_text() == "4 of 9"
    page.keyboard.type("a bird")
    page.keyboard.press("Enter")
    assert page.locator("#count").inner_text() == "4 of 9"  # none of the list
    for _ in "a bird":
        page.keyboard.press("Backspace")
    page.keyboard.type("A CAT")
    page.keyboard.press("Enter")
    page.keyboard.type("None")
    page.keyboard.press("Enter")
    assert page.locator(".swatch").count() == 10
    page.keyboard.press("0")  # tone 10
    page.keyboard.press("c")  # cannot tell
    page.keyboard.press("ArrowRight")  # preference
    assert page.locator("#done").is_visible()
    assert page.errors == []
    assert page.evaluate("window.hurt") is None
    answers = saved(page, "Save answers", tmp_path)
    put = import_ratings(store, answers)
    assert (put.n_votes, put.n_raters, put.skipped) == (9, 1, ())
    right = "first" if swapped(store, len(store.study.items) - 1) else "second"
    by_task = {}
    for item, task, answer in sorted(
        store.ratings().select("item", "task", "answer").iter_rows(),
        key=lambda row: [i.item for i in store.study.items].index(row[0]),
    ):
        by_task.setdefault(task, []).append(answer)
        assert item
    assert by_task == {
        "seen": ["no", "yes"], "count": ["0", None], "named": ["a cat", "None"],
        "tone": ["10", "cannot tell"], "preference": [right],
    }  # fmt: skip
    assert store.ratings()["seconds"].is_between(0, 60).all()
    assert set(store.ratings()["rater"]) == {store.anonymous("Ann Other")}
    table = import_ratings(store, saved(page, "Save as a table", tmp_path))
    assert (table.n_votes, table.n_unchanged, table.skipped) == (0, 9, ())  # the same answers, told another way


def test_two_people_at_one_browser_do_not_mix(context, tmp_path):
    store, runs = study(tmp_path, (COUNT,))
    export_study(store, runs, "bundle", tmp_path / "out")
    url = (tmp_path / "out" / "index.html").as_uri()
    page = opened(context, f"{url}?rater=Ann")
    page.keyboard.press("1")
    page.locator("#count", has_text="1 of 2").wait_for()
    page = opened(context, f"{url}?rater=Bob")
    assert page.locator("#count").inner_text() == "0 of 2"
    page.locator('[data-option="2 or more"]').click()
    page.locator("#count", has_text="1 of 2").wait_for()
    page = opened(context, f"{url}?rater=Ann")
    for _ in range(20):  # what one page keeps may reach another's process a moment later
        if page.locator("#count").inner_text() == "1 of 2":
            break
        page.wait_for_timeout(200)
        page.reload()
    record = json.loads(saved(page, "Save answers", tmp_path).read_text())
    assert (record["rater"], [row["answer"] for row in record["answers"]]) == ("Ann", ["1"])


def test_a_browser_that_keeps_nothing_says_so(context, tmp_path):
    store, runs = study(tmp_path, (COUNT,))
    export_study(store, runs, "bundle", tmp_path / "out")
    context.add_init_script("Storage.prototype.setItem = () => { throw new Error('full'); };")
    page = opened(context, (tmp_path / "out" / "index.html").as_uri() + "?rater=Ann")
    assert "save your answers before" in page.locator("#warning").inner_text()
    page.keyboard.press("1")
    assert page.locator("#count").inner_text() == "1 of 2"


def filled(template: Path, number: int) -> tuple[str, dict[str, str]]:
    """The task that a worker sees: variables are put in as they are."""
    page = template.read_text(encoding="utf-8")
    row = list(csv.DictReader(io.StringIO(template.with_suffix(".csv").read_text(), newline="")))[number]
    for column, cell in row.items():
        page = page.replace(f"${{{column}}}", cell)
    assert "${" not in page
    return page, row


@pytest.mark.parametrize("form", [True, False])
def test_a_task_of_mechanical_turk_is_answered_in_its_frame_and_comes_back_as_votes(context, tmp_path, form):
    store, runs = study(tmp_path, (SEEN, replace(SEEN, name="b"), replace(SEEN, name="c")))  # six items, one layout
    written = export_study(
        store, runs, "mturk", tmp_path / "out", image_url="https://pictures.example/{name}", items_per_hit=4
    )
    template = next(path for path in written if path.suffix == ".html")
    task, row = filled(template, 1)
    site = "https://www.mturk.com/mturk/externalSubmit"
    if form:  # as the requester's site puts it
        task = f'<form method="post" action="{site}">{task}<button>Submit</button></form>'
    sent = []

    def answer(route):
        request = route.request
        if request.method == "POST":
            sent.append(dict(parse_qsl(request.post_data)))
        if "frame.example" in request.url:
            route.fulfill(content_type="text/html", body=task)
        elif "outer.example" in request.url:
            sandbox = "allow-scripts allow-same-origin allow-forms"
            source = "https://frame.example/?assignmentId=A1&amp;turkSubmitTo=https%3A%2F%2Fwww.mturk.com"
            route.fulfill(content_type="text/html", body=f'<iframe sandbox="{sandbox}" src="{source}"></iframe>')
        elif "pictures.example" in request.url:
            name = request.url.rpartition("/")[2]
            route.fulfill(content_type="image/png", body=(tmp_path / "out" / "pictures" / name).read_bytes())
        else:
            route.fulfill(content_type="text/html", body="ok")

    context.route("**/*", answer)
    page = opened(context, "https://outer.example/")
    frame = page.frame_locator("iframe")
    frame.get_by_role("button", name="Submit").wait_for()
    assert frame.locator("fieldset").count() == 2  # of four in the template
    assert frame.locator("legend").first.inner_text() == f"1. {SEEN.question}"
    assert frame.locator("img").count() == 2
    frame.get_by_role("button", name="Submit").click()
    assert sent == []  # nothing without answers
    frame.locator("input[name=q0]").nth(1).focus()
    page.keyboard.press("Space")
    frame.locator("input[name=q1]").nth(2).check()
    frame.get_by_role("button", name="Submit").click()
    page.wait_for_timeout(300)
    assert page.errors == []
    (answers,) = sent
    assert answers.get("assignmentId") == (None if form else "A1")
    results = {"WorkerId": "W", "AssignmentStatus": "Submitted", "WorkTimeInSeconds": "9"}
    results |= {f"Input.{column}": cell for column, cell in row.items()}
    results |= {f"Answer.{name}": value for name, value in answers.items() if name != "assignmentId"}
    with (tmp_path / "batch.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(results))
        writer.writeheader()
        writer.writerow(results)
    put = import_ratings(store, tmp_path / "batch.csv")
    assert (put.n_votes, put.skipped) == (2, ())
    assert store.ratings()["task"].to_list() == ["c", "c"]
    asked = [store.study.items[item_keys(store)[row[f"item{i}"]]].item for i in range(2)]
    assert dict(store.ratings().select("item", "answer").iter_rows()) == dict(zip(asked, ["no", HOSTILE], strict=True))
