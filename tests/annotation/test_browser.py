"""The page for raters, in a real browser: answered by keys alone, by two at once, and with the server killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from annotation_runs import make_run
from browsing import CHROMIUM, browsing, serving
from PIL import Image

from verism.annotation.sampling import draw_items
from verism.annotation.tasks import PREFERENCE, general_tasks
from verism.annotation.votes import Item, Study, VoteStore
from verism.records import RatingTask
from verism.store import Run

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
HUMAN, ALIGNMENT = general_tasks()
HOSTILE = '<img src=x onerror="window.bad=1"><script>window.bad=1</script>{{7*7}}\'"&'
OBJECTS = ("person", "dog", "airplane", "bicycle", "car", "stop sign", "bus", "Café table", "none of these")
LIST = RatingTask(name="object", question="What does it show?", kind="list", options=OBJECTS)
COUNT = RatingTask(
    name="count",
    question="How many?",
    kind="choice",
    options=(*map(str, range(8)), "8 or more"),
    help="Count every one that you can recognise.",
)
TONE = RatingTask(
    name="tone",
    question="Which tone is nearest?",
    kind="tone",
    options=(*map(str, range(1, 11)), "cannot tell"),
    unsure=("cannot tell",),
)
GRID = RatingTask(
    name="grid",
    question="Who is most prominent in these images of “{prompt}”?",
    kind="choice",
    unit="prompt",
    options=("men", "women", "cannot tell"),
    unsure=("cannot tell",),
)


# ------------------------------------------------------------------------------------------------- browser and server
@pytest.fixture(scope="module")
def chromium():
    with browsing() as browser:
        yield browser
        Rater.idle.clear()


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """Two runs of the same prompts with nine images each, to copy."""
    folder = tmp_path_factory.mktemp("template")
    for name, seed in (("one", 10), ("two", 200)):
        make_run(folder / name, limit=4, n_images=9, seed=seed)
    return folder


@pytest.fixture
def runs(template, tmp_path) -> list[Run]:
    return [Run.open(shutil.copytree(template / name, tmp_path / name)) for name in ("one", "two")]


def study(runs: list[Run], tasks, *, per_task: int | None = None, items=None, **more) -> VoteStore:
    if items is None:
        items = [i for t in tasks for i in draw_items(runs if t.kind == "pair" else runs[:1], t, per_cell=per_task)]
    made = Study(tasks=tuple(tasks), items=tuple(items), runs=tuple(str(run.path) for run in runs), **more)
    return VoteStore.create(runs[0].path.parent / "study.sqlite", made)


class Rater:
    """Somebody at a browser of their own, who only has a keyboard.

    Pages that earlier ones left, ``idle``, are taken again, as a new one takes longer than most tests.
    """

    idle: ClassVar[list[Any]] = []

    def __init__(self, browser, address: str, name: str | None = None, **options) -> None:
        self.options = options
        self.page = self.idle.pop() if self.idle and not options else browser.new_context(**options).new_page()
        self.context = self.page.context
        self.page.set_default_timeout(15_000)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.listeners = {
            "pageerror": lambda error: self.errors.append(str(error)),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, listener in self.listeners.items():
            self.page.on(event, listener)
        self.page.goto(address)
        if name is not None:
            self.page.wait_for_selector("#name")
            self.keys(*name, "Enter")

    def close(self) -> None:
        """Leave, with nothing that the next one could be known by."""
        if self.options or len(self.context.pages) != 1 or self.page.is_closed():
            self.context.close()
            return
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)
        self.page.unroute_all()
        self.page.evaluate("try { localStorage.clear(); sessionStorage.clear(); } catch {}")
        self.page.goto("about:blank")
        self.context.clear_cookies()
        self.idle.append(self.page)

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def item(self) -> int:
        """The position on the screen, once it may be answered."""
        return int(self.page.wait_for_selector("section.ready").get_attribute("data-position"))

    def gone(self, position: int) -> None:
        self.page.wait_for_selector(f'section[data-position="{position}"]', state="detached")

    def answer(self, *keys: str) -> int:
        """Answer what is on the screen, and wait until the server has confirmed it."""
        position = self.item()
        self.keys(*keys)
        self.gone(position)
        return position

    def phase(self, name: str) -> str:
        """Wait for a phase of the page; gives its text."""
        self.page.wait_for_selector(f'body[data-phase="{name}"]')
        return self.page.inner_text("#main")

    def focused(self) -> str | None:
        return self.page.evaluate("document.activeElement.dataset.value || document.activeElement.id || null")


def answers(store: VoteStore) -> dict[str, str | None]:
    return dict(store.ratings().select("task", "answer").iter_rows())


# ------------------------------------------------------------------------------------------------------------ the keys
def test_every_kind_of_question_is_answered_by_keys_alone(chromium, runs):
    other = replace(TONE, name="tone again")
    scale = replace(ALIGNMENT, name="scale again")
    tasks = (LIST, COUNT, ALIGNMENT, scale, TONE, other, GRID, PREFERENCE)
    store = study(runs, tasks, per_task=1)
    with serving(store) as address:
        ann = Rater(chromium, address, "Ann")
        ann.answer(*"cafe", "Enter")  # accents and case do not matter
        ann.answer("8")
        ann.answer("4")
        ann.item()
        ann.keys("ArrowDown", "ArrowDown")
        assert ann.focused() == "2"
        ann.answer("Enter")
        ann.answer("0")
        ann.answer("c")
        assert len(ann.page.query_selector_all(".frame.there")) == 9 * (ann.item() is not None)
        assert ann.page.inner_text("h1 em") == store_prompt(runs[0], store, "grid")
        ann.answer("ArrowUp", "ArrowUp", "Enter")  # from the last one up: women
        position = ann.item()
        ann.keys("ArrowRight")
        assert ann.focused() == "right"
        ann.answer("Enter")
        assert "8 answers" in ann.phase("done")
        assert ann.errors == []
        assert all(url.startswith((address, f"blob:{address}")) for url in ann.requests)
        ann.close()
    side = "first" if store.swapped(store.raters()[0], position) else "second"
    assert answers(store) == {
        "object": "Café table", "count": "8 or more", "alignment": "4", "scale again": "2", "tone": "10",
        "tone again": "cannot tell", "grid": "women", "preference": side,
    }  # fmt: skip
    assert all(0 < seconds < 15 for seconds in store.ratings()["seconds"])


def store_prompt(run: Run, store: VoteStore, task: str) -> str:
    """The prompt of the first item of a task."""
    item = next(i for i in store.study.items if i.task == task)
    prompt_id = dict(run.read("images").select("image_id", "prompt_id").iter_rows())[item.images[0][1]]
    return next(p.text for p in run.prompts() if p.prompt_id == prompt_id)


def test_a_long_list_is_searched_and_keeps_none_of_these_in_reach(chromium, runs):
    store = study(runs, [LIST], per_task=4)
    with serving(store) as address:
        ann = Rater(chromium, address, "Ann")
        ann.item()
        assert ann.focused() == "typed"
        ann.keys("Enter")  # nothing is marked: nothing is answered
        ann.keys(*"ca")
        shown = ann.page.locator("[role=option]").all_inner_texts()
        assert shown == ["car", "Café table", "none of these"]
        assert ann.page.locator("[aria-selected=true]").inner_text() == "car"
        marked = ann.page.get_attribute("#typed", "aria-activedescendant")
        assert ann.page.locator(f"#{marked}").inner_text() == "car"
        ann.answer("ArrowDown", "Enter")
        assert ann.page.locator("[role=option]").count() == len(OBJECTS)
        ann.answer(*"sign", "Enter")  # the beginning of a later word
        ann.item()
        ann.keys(*"zebra", "Enter")  # no such option: Enter takes none
        assert "Nothing like that" in ann.page.inner_text(".typed [role=status]")
        ann.keys("ArrowDown")
        ann.answer("Enter")
        ann.item()
        ann.keys("u", "s", "?")  # letters are letters in the field
        assert ann.page.input_value("#typed") == "us?"
        assert ann.page.is_visible("#typing")  # the footer says that its keys work outside the field
        ann.answer("Escape", "Escape", "s")  # Esc empties the field, then leaves it: s skips
        ann.phase("done")
        ann.close()
    answers = sorted(store.ratings()["answer"].to_list(), key=str)
    assert answers == ["Café table", None, "none of these", "stop sign"]


def test_one_press_answers_one_question_and_none_before_its_image_is_there(chromium, runs):
    store = study(runs, [COUNT], per_task=4)
    with serving(store) as address:
        ann = Rater(chromium, address)
        held: list[Any] = []
        released = False
        ann.page.route("**/pictures/**", lambda route: route.continue_() if released else held.append(route))
        ann.page.wait_for_selector("#name")
        ann.keys(*"Ann", "Enter")
        ann.page.wait_for_selector("section.question")
        ann.keys("3")  # too early
        assert store.ratings().height == 0
        released = True
        for route in held:
            route.continue_()
        position = ann.item()
        assert held
        assert store.ratings().height == 0
        ann.page.keyboard.down("3")
        ann.gone(position)
        ann.item()
        ann.page.keyboard.down("3")  # still held down when the next question is there
        ann.page.wait_for_timeout(200)
        ann.page.keyboard.up("3")
        ann.item()
        assert store.ratings().height == 1
        ann.close()


def test_the_next_image_is_there_before_it_is_asked_for(chromium, runs):
    store = study(runs, [COUNT], per_task=3)
    with serving(store) as address:
        ann = Rater(chromium, address, "Ann")
        ann.item()
        ann.page.wait_for_timeout(300)
        assert any(url.endswith("/pictures/1/0") for url in ann.requests)
        ann.answer("1")
        ann.item()
        ann.page.wait_for_timeout(200)
        fetched = Counter(url.rpartition("/pictures/")[2] for url in ann.requests if "/pictures/" in url)
        assert fetched == {"0/0": 1, "1/0": 1, "2/0": 1}
        ann.close()


def test_the_time_stands_still_while_the_page_is_hidden(chromium, runs):
    store = study(runs, [COUNT], per_task=2)
    hide = (
        "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange')); }"
    )
    with serving(store) as address:
        ann = Rater(chromium, address, "Ann")
        ann.item()
        ann.page.evaluate(hide, True)
        ann.page.wait_for_timeout(900)
        ann.page.evaluate(hide, False)
        ann.answer("1")
        ann.item()
        ann.page.wait_for_timeout(900)
        ann.answer("2")
        ann.close()
    seconds = dict(store.ratings().select("answer", "seconds").iter_rows())
    assert seconds["1"] < 0.8
    assert seconds["2"] >= 0.9


def test_images_are_enlarged_and_the_keys_are_explained(chromium, runs):
    store = study(runs, [GRID], per_task=1)
    with serving(store) as address:
        ann = Rater(chromium, address, "Ann")
        ann.item()
        ann.keys("z", "ArrowRight", "ArrowRight")
        assert ann.page.get_attribute("#large-picture", "alt") == "Picture 3 of 9"
        ann.keys("1")  # not an answer while the image is in the way
        ann.keys("z")
        assert not ann.page.locator("#large").is_visible()
        ann.keys("?", "1", "s")
        assert ann.page.locator("#keys").is_visible()
        ann.keys("Escape")
        assert not ann.page.locator("#keys").is_visible()
        assert store.ratings().height == 0
        ann.answer("1")
        ann.close()


# ------------------------------------------------------------------------------------------- going back, going on
def test_undo_shows_the_earlier_answer_and_a_reload_the_same_question(chromium, runs):
    store = study(runs, [COUNT], per_task=4)
    with serving(store) as address:
        ann = Rater(chromium, address, "Ann")
        first, second = ann.answer("1"), ann.answer("2")
        third = ann.item()
        ann.page.reload()
        assert ann.item() == third
        ann.keys("Backspace")
        ann.gone(third)
        assert ann.item() == second
        assert ann.page.get_attribute("[aria-current=true]", "data-value") == "2"
        assert ann.focused() == "2"
        ann.keys("u")
        ann.gone(second)
        assert ann.item() == first
        assert store.ratings().height == 0
        ann.page.reload()
        assert ann.item() == first
        ann.answer("Escape", "5")
        assert store.ratings()["answer"].to_list() == ["5"]
        for _ in range(3):
            ann.answer("0")
        ann.phase("done")
        ann.keys("u")  # also from the last page
        ann.item()
        assert store.ratings().height == 3
        ann.close()


def test_two_raters_at_once_never_get_an_item_too_often(chromium, runs):
    store = study(runs, [COUNT], items=draw_items(runs[:1], COUNT, per_cell=8), overlap=1)
    with serving(store) as address:
        both = [Rater(chromium, address, name) for name in ("Ann", "Bob")]
        seen = []
        for _ in range(4):
            positions = [rater.item() for rater in both]
            assert positions[0] != positions[1]
            seen += positions
            for rater in both:
                rater.keys("3")
            for rater, position in zip(both, positions, strict=True):
                rater.gone(position)
        assert sorted(seen) == list(range(8))
        for rater in both:
            rater.phase("done") if rater is both[1] else rater.page.wait_for_selector("h1")
            rater.close()
    assert Counter(store.ratings()["rater"]) == {"Ann": 4, "Bob": 4}
    assert len(set(store.ratings()["item"])) == 8


def test_another_person_at_the_same_browser_answers_under_their_own_name(chromium, runs):
    store = study(runs, [COUNT], per_task=2, overlap=2)
    with serving(store) as address:
        ann = Rater(chromium, address, "Ann")
        ann.answer("1")
        ann.item()
        ann.page.click("#leave")
        ann.page.wait_for_selector("#name")
        ann.keys(*"Bob", "Enter")
        ann.answer("2")
        ann.close()
    assert dict(store.ratings().select("rater", "answer").iter_rows()) == {"Ann": "1", "Bob": "2"}


def test_who_passes_the_qualification_is_told_and_who_fails_is_told_why(chromium, runs):
    items = draw_items(runs[:1], COUNT, per_cell=4)
    items[:2] = [replace(item, check="qualification", right="2") for item in items[:2]]
    store = study(runs, [COUNT], items=items)
    with serving(store) as address:
        ann, bob = Rater(chromium, address, "Ann"), Rater(chromium, address, "Bob")
        assert ann.item() is not None
        assert ann.page.inner_text(".badge") == "Qualification, 1 of 2"
        ann.answer("2")
        ann.answer("2")
        assert "2 of 2 answers were right" in ann.phase("qualified")
        ann.keys("Enter")
        ann.answer("5")
        assert ann.page.locator(".badge").count() == 0
        bob.answer("3")
        bob.answer("2")
        assert "1 of 2 qualification questions right, 80% needed" in bob.phase("barred")
        bob.page.reload()
        bob.phase("barred")
        for rater in (ann, bob):
            assert rater.errors == []
            rater.close()
    assert store.ratings().filter(store.ratings()["check"].is_null())["rater"].to_list() == ["Ann"]


# ------------------------------------------------------------------------------------------------------- killed servers
class Killable:
    """The page of a study as a process of its own, always on the same port."""

    def __init__(self, store: VoteStore) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.code = (
            "from pathlib import Path; from verism.annotation.server import serve; "
            "from verism.annotation.votes import VoteStore; "
            f"serve(VoteStore.open(Path({str(store.path)!r})), [], host='127.0.0.1', port={self.port}, tokens=False)"
        )
        self.process: subprocess.Popen | None = None

    def start(self) -> str:
        self.process = subprocess.Popen([sys.executable, "-c", self.code], stderr=subprocess.PIPE, text=True)
        assert f":{self.port}/" in self.process.stderr.readline()
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process.stderr.close()
            self.process = None


def test_a_killed_server_loses_nothing_and_the_page_goes_on_when_it_is_back(chromium, runs):
    store = study(runs, [COUNT], per_task=12)
    server = Killable(store)
    try:
        ann = Rater(chromium, server.start(), "Ann")
        confirmed = [ann.answer("1"), ann.answer("2")]
        last = ann.item()
        server.kill()
        ann.keys("7")
        ann.page.wait_for_selector("#unsaved", state="visible")
        assert "Not saved yet" in ann.page.inner_text("#unsaved")
        assert store.ratings().height == len(confirmed)  # it is not there, and the page says so
        ann.keys("1", "u", "s")  # nothing more may be answered meanwhile
        server.start()
        ann.gone(last)
        assert not ann.page.locator("#unsaved").is_visible()
        assert sorted(store.ratings()["answer"]) == ["1", "2", "7"]
        # Killed while answers come: what was confirmed is there, and one more at most.
        ann.item()
        for _ in range(3):
            ann.keys("3")
            ann.page.wait_for_timeout(30)
        counted = int(ann.page.inner_text("#own-text").split()[0])
        server.kill()
        kept = store.ratings().height
        assert counted <= kept <= counted + 1
        server.start()
        ann.item()
        while ann.page.get_attribute("body", "data-phase") == "item":
            position = ann.item()
            ann.keys("4")
            ann.gone(position)
            ann.page.wait_for_selector("section.ready, body[data-phase=done]")
        assert store.ratings().height == 12 == len(set(store.ratings()["item"]))
        ann.close()
    finally:
        server.kill()


def test_an_answer_that_was_not_sent_is_sent_when_the_page_is_opened_again(chromium, runs):
    store = study(runs, [COUNT], per_task=3)
    server = Killable(store)
    try:
        address = server.start()
        ann = Rater(chromium, address, "Ann")
        last = ann.item()
        server.kill()
        ann.keys("7")
        ann.page.wait_for_selector("#unsaved", state="visible")
        ann.page.close(run_before_unload=False)
        server.start()
        page = ann.context.new_page()
        page.goto(address)
        page.wait_for_selector(f'section.ready:not([data-position="{last}"])')
        assert store.ratings()["answer"].to_list() == ["7"]
        # And under nobody else's name: Bob takes over at the same browser before it is sent.
        server.kill()
        page.keyboard.press("6")
        page.wait_for_selector("#unsaved", state="visible")
        ann.context.clear_cookies()
        server.start()
        for name in ("Bob", "Ann"):
            page.wait_for_selector("#name")
            assert not page.locator("#unsaved").is_visible()
            page.keyboard.type(name)
            page.keyboard.press("Enter")
            if name == "Bob":
                page.wait_for_selector("section.ready")
                page.keyboard.press("5")
                page.wait_for_selector("#own-text:text-is('1 of 2')")
                page.click("#leave")
        page.wait_for_selector("#own-text:text-is('2 of 2')")
        rows = store.ratings().select("rater", "answer").sort("answer").rows()
        assert rows == [("Bob", "5"), ("Ann", "6"), ("Ann", "7")]
        ann.close()
    finally:
        server.kill()


# ---------------------------------------------------------------------------------------------------- who may see what
def test_only_a_right_token_shows_anything_and_it_leaves_the_address(chromium, runs):
    store = study(runs, [COUNT], per_task=2)
    _, token = store.add_rater("Ann")
    with serving(store, tokens=True) as address:
        stranger = Rater(chromium, f"{address}/?token=wrong")
        assert "Open the link you were sent" in stranger.phase("link")
        assert stranger.page.query_selector_all("img[src^=blob]") == []
        assert not any("/pictures/" in url for url in stranger.requests)
        ann = Rater(chromium, f"{address}/?token={token}")
        ann.answer("1")
        assert ann.page.url == f"{address}/"
        assert ann.page.evaluate("document.cookie") == ""
        assert not ann.page.locator("#leave").is_visible()
        # A link in another site's page: the strict cookie is not sent with the first request, and yet it works.
        with elsewhere(f'<a id="go" href="{address}/?token={token}">the study</a>') as other:
            mail = Rater(chromium, other)
            mail.page.click("#go")
            mail.answer("2")
            assert mail.page.url == f"{address}/"
            mail.close()
        for rater in (stranger, ann):
            rater.close()
    assert store.ratings()["rater"].to_list() == ["Ann", "Ann"]


@contextmanager
def elsewhere(html: str):
    """A page of somebody else, on another port and name of this machine."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def test_another_page_can_neither_vote_nor_look(chromium, runs):
    """A form whose fields spell JSON, scripts with and without CORS, and images, from the raters' own browser."""
    store = study(runs, [COUNT], per_task=2)
    with serving(store) as address:
        ann = Rater(chromium, address, "Ann")
        position = ann.item()
        ticket = ann.page.evaluate("state.item.ticket")
        vote = json.dumps({"position": position, "ticket": ticket, "answer": "3"})
        attack = f"""<form id="f" method="post" action="{address}/api/vote" enctype="text/plain">
            <input name='{vote[:-1]}, "x": "' value='"}}'></form><iframe id="inside" src="{address}/"></iframe>
            <img id="stolen" src="{address}/pictures/{position}/0">
            <script>window.tried = Promise.allSettled([
              fetch("{address}/api/vote", {{method: "POST", mode: "no-cors", credentials: "include", body: '{vote}'}}),
              fetch("{address}/api/vote", {{method: "POST", credentials: "include", body: '{vote}',
                headers: {{"Content-Type": "application/json", "X-Verism": "1"}}}}),
              fetch("{address}/api/state", {{credentials: "include"}}),
            ]).then((all) => all.map((one) => one.status + (one.value ? one.value.type : "")));</script>"""
        for host in ("localhost", "127.0.0.1"):  # another site, and another port of the same one
            with elsewhere(attack) as other:
                evil = ann.context.new_page()
                evil.goto(other.replace("localhost", host))
                assert evil.evaluate("tried") in (
                    ["fulfilledopaque", "rejected", "rejected"],
                    ["rejected", "rejected", "rejected"],
                )
                assert evil.evaluate("document.getElementById('stolen').naturalWidth") == 0
                with evil.expect_navigation():
                    evil.evaluate("document.getElementById('f').submit()")
                assert "Only the page itself" in evil.inner_text("body")
                evil.close()
        assert store.ratings().height == 0
        ann.answer("5")
        ann.close()
    assert store.ratings()["answer"].to_list() == ["5"]


def test_text_of_a_study_is_text(chromium, runs):
    task = RatingTask(
        name=HOSTILE, question=f"{HOSTILE} {{prompt}}", kind="choice", options=(HOSTILE, "no"), help=HOSTILE,
        examples={"no": HOSTILE},
    )  # fmt: skip
    listed = replace(LIST, name="list", options=(HOSTILE, "b"), examples={"b": HOSTILE})
    store = study(runs, [task, listed], per_task=1)
    with serving(store) as address:
        ann = Rater(chromium, address)
        ann.page.wait_for_selector("#name")
        ann.page.keyboard.insert_text("<b>Ann</b>")
        ann.keys("Enter")
        ann.item()
        assert ann.page.inner_text("h1").startswith(HOSTILE)
        assert HOSTILE in ann.page.inner_text("button.answer")
        assert ann.page.inner_text("#rater-name") == "<b>Ann</b>"
        ann.answer("1")
        ann.item()
        assert HOSTILE in ann.page.inner_text("#choices")
        ann.answer("ArrowDown", "Enter")
        ann.phase("done")
        assert ann.page.evaluate("window.bad") is None
        assert ann.page.locator("script").count() == 1
        assert ann.errors == []
        ann.close()
    assert set(answers(store).values()) == {HOSTILE}


# ------------------------------------------------------------------------------------------------- for everybody to use
CHECK_PAGE = """() => {
  const found = [];
  const visible = (e) => e.checkVisibility();
  const name = (e) => (e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.innerText).join(" ")) ||
    e.innerText || e.alt || "").trim();
  for (const e of document.querySelectorAll("button, input, [role=option], progress")) {
    if (visible(e) && !name(e)) found.push("no name: " + e.outerHTML);
  }
  for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) found.push("no alt: " + e.outerHTML);
  if ([...document.querySelectorAll("h1")].filter(visible).length !== 1) found.push("not one h1");
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby], [aria-controls]"))
    for (const a of ["aria-labelledby", "aria-describedby", "aria-controls"])
      if (e.getAttribute(a) && !document.getElementById(e.getAttribute(a))) found.push("leads nowhere: " + a);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) found.push("an id twice");
  if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the window");
  const light = (c) => c.map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const numbers = (c) => c.match(/[\\d.]+/g).map(Number);
  for (const e of document.querySelectorAll("h1, h1 em, p, label, button, .label, small, kbd, [role=option], #said")) {
    if (!visible(e) || !e.innerText.trim() || e.disabled || e.closest(":disabled")) continue;
    let behind = e;
    while (behind && numbers(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
    const [a, b] = [getComputedStyle(e).color, getComputedStyle(behind).backgroundColor].map(numbers)
      .map((c) => light(c.slice(0, 3)) + .05).sort((x, y) => x - y);
    if (b / a < 4.5) found.push("contrast " + (b / a).toFixed(2) + ": " + e.outerHTML.slice(0, 80));
  }
  return found;
}"""


REACHED = """() => {
  const e = document.activeElement, seen = "reached" in e.dataset;
  e.dataset.reached = "";
  return [e.dataset.value || e.id || null, e === document.body || parseFloat(getComputedStyle(e).outlineWidth), seen];
}"""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_names_labels_contrast_focus_and_width_on_every_page(chromium, runs, tmp_path, scheme, width):
    Image.fromarray(np.full((9, 9, 3), 99, np.uint8)).save(tmp_path / "yes.png")
    shown = replace(HUMAN, examples={"human": str(tmp_path / "yes.png"), "not human": "nobody is there"})
    tasks = (LIST, COUNT, ALIGNMENT, TONE, shown, GRID, PREFERENCE)
    store = study(runs, tasks, per_task=1)
    with serving(store) as address:
        ann = Rater(chromium, address, viewport={"width": width, "height": 740}, color_scheme=scheme)
        ann.page.wait_for_selector("#name")
        assert ann.page.evaluate(CHECK_PAGE) == []
        ann.keys(*"Ann", "Enter")
        for task in tasks:
            ann.item()
            assert ann.page.evaluate(CHECK_PAGE) == [], task.name
            assert ann.page.evaluate("document.documentElement.lang") == "en"
            ground = ann.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (ground == "rgb(244, 244, 243)") == (scheme == "light" or task.kind == "tone")
            reached = []
            ann.page.evaluate("for (const e of document.querySelectorAll('[data-reached]')) delete e.dataset.reached")
            for _ in range(30):
                ann.keys("Tab")
                name, outline, seen = ann.page.evaluate(REACHED)
                if seen:  # once round the page
                    break
                reached.append(name)
                assert outline, reached
            values = ann.page.evaluate("state.item.options.map((o) => o.value)")
            assert set(reached) >= ({"typed"} if task.kind == "list" else set(values)) | {"skip", "zoom", "help"}
            if task.kind == "pair":
                left, right = (frame.bounding_box() for frame in ann.page.query_selector_all(".frame"))
                for side in ("y", "width", "height"):
                    assert left[side] == pytest.approx(right[side], abs=0.1)
            ann.page.evaluate("document.getElementById('question').focus()")
            ann.answer("s")
        ann.phase("done")
        assert ann.page.evaluate(CHECK_PAGE) == []
        ann.keys("?")
        assert ann.page.evaluate(CHECK_PAGE) == []
        ann.close()
    assert store.ratings()["answer"].to_list() == [None] * len(tasks)


def test_an_image_that_is_gone_can_be_skipped_and_not_judged(chromium, runs):
    items = draw_items(runs[:1], COUNT, per_cell=2)
    gone = items[0].images[0][1]
    paths = dict(runs[0].read("images").select("image_id", "path").iter_rows())
    runs[0].resolve(paths[gone]).unlink()
    store = study(runs, [COUNT], items=[Item(item=i.item, task=i.task, images=i.images) for i in items])
    with serving(store) as address:
        ann = Rater(chromium, address, "Ann")
        ann.page.wait_for_selector(".gone")
        assert "cannot be shown" in ann.page.inner_text(".pictures")
        ann.keys("3")
        ann.page.wait_for_timeout(100)
        assert store.ratings().height == 0
        ann.keys("s")
        ann.answer("3")
        ann.phase("done")
        ann.close()
    assert dict(store.ratings().select("item", "answer").iter_rows())[items[0].item] is None
