"""The page's server: who may see and do what, and what its replies give away."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from annotation_runs import make_run
from PIL import Image, PngImagePlugin

from verism.annotation.routes import WRONG_TOKENS, WRONG_WITHIN_S, Guesses
from verism.annotation.sampling import draw_items
from verism.annotation.server import create_app, serve
from verism.annotation.tasks import PREFERENCE, general_tasks
from verism.annotation.views import filled, keys_for
from verism.annotation.votes import Item, Study, VoteStore
from verism.errors import UsageError, VerismError
from verism.metrics.colour import MONK_RGB
from verism.records import Prompt, RatingTask
from verism.store import Run

TestClient = pytest.importorskip("fastapi.testclient").TestClient
HUMAN, ALIGNMENT = general_tasks()
TEMPLATE: dict[str, Path] = {}  # a run to copy: making one takes longer than most of these tests
SELF = {"x-verism": "1", "sec-fetch-site": "same-origin"}


@pytest.fixture(scope="module", autouse=True)
def _template(tmp_path_factory):
    TEMPLATE["run"] = make_run(tmp_path_factory.mktemp("template") / "run").path


def study(tmp_path: Path, *, tasks=(HUMAN,), run=None, items=None, **more) -> tuple[VoteStore, list]:
    if run is None:
        run = Run.open(shutil.copytree(TEMPLATE["run"], tmp_path / "run"))
    if items is None:
        items = [item for task in tasks for item in draw_items([run], task, per_cell=None)]
    made = Study(tasks=tuple(tasks), items=tuple(items), runs=(str(run.path),), **more)
    return VoteStore.create(tmp_path / "study.sqlite", made), [run]


def browser(store, runs, *, tokens=False, url="http://127.0.0.1:8765", **more) -> TestClient:
    client = TestClient(create_app(store, runs, tokens=tokens, **more), base_url=url)
    client.headers.update(SELF)
    return client


def join(client: TestClient, name="Ann") -> dict:
    reply = client.post("/api/join", json={"name": name})
    assert reply.status_code == 200
    return reply.json()


def vote(client, state: dict, answer, **more):
    item = state["item"]
    record = {"position": item["position"], "ticket": item["ticket"], "answer": answer, "seconds": 1.25}
    return client.post("/api/vote", json=record | more)


def pixels(reply) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(reply.content)))


# ------------------------------------------------------------------------------------------------------- local raters
def test_a_rater_gives_a_name_and_answers_until_nothing_is_left(tmp_path):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    assert client.get("/api/state").json() == {"phase": "name"}
    state = join(client)
    for n in range(len(store.study.items)):
        assert (state["phase"], state["progress"]["answered"]) == ("item", n)
        state = vote(client, state, "not human").json()
    assert state["phase"] == "done"
    assert state["item"] is None
    table = store.ratings()
    assert table.height == len(store.study.items) == state["progress"]["votes"]
    assert set(table["rater"]) == {"Ann"}
    assert set(table["seconds"]) == {1.25}
    assert set(table["source"]) == {"browser"}


def test_a_name_goes_on_where_it_stopped_also_after_the_server_was_started_again(tmp_path):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    state = vote(client, join(client), "human").json()
    again = browser(VoteStore.open(store.path), runs)
    again.cookies = client.cookies
    assert again.get("/api/state").json() == state  # the same item, and the same cookie is good
    assert join(browser(store, runs), "Ann")["item"]["position"] == state["item"]["position"]


@pytest.mark.parametrize("name", ["", "   ", "x" * 81, "a\nb\x00", None, 7, "\ud800"])
def test_names_that_cannot_be_used_are_refused_and_nobody_joins(tmp_path, name):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    body = json.dumps({"name": name})
    reply = client.post("/api/join", content=body, headers={"content-type": "application/json"})
    assert reply.status_code in (400, 422)
    assert reply.json()["error"]
    assert store.raters() == []


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites_and_cannot_be_made_up(tmp_path):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    reply = client.post("/api/join", json={"name": "Ann"})
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    name, value = next(iter(client.cookies.items()))
    number, _, signed = value.partition(".")
    store.named_rater("Bob")
    altered = signed[:-1] + ("1" if signed.endswith("0") else "0")
    for forged in (f"2.{signed}", f"{number}.", number, f"{number}.{altered}", "x", "1.é", "²." + signed):
        other = browser(store, runs)
        reply = other.get("/api/state", headers={"cookie": f"{name}={forged}".encode()})
        assert reply.json() == {"phase": "name"}, forged
        assert other.get("/pictures/0/0", headers={"cookie": f"{name}={forged}".encode()}).status_code == 401
    tokens = browser(store, runs, tokens=True)  # a name's cookie is no token
    tokens.cookies = client.cookies
    assert tokens.get("/api/state").status_code == 401


def test_two_studies_on_one_machine_have_cookies_of_their_own(tmp_path):
    """Cookies know no ports: with one name, opening the second study would end the first."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    clients = [browser(*study(tmp_path / name)) for name in "ab"]
    for client in clients:
        join(client)
    assert len({next(iter(client.cookies)) for client in clients}) == 2


def test_leaving_forgets_who_it_was(tmp_path):
    client = browser(*study(tmp_path))
    join(client)
    assert client.post("/api/leave", json={}).status_code == 200
    assert client.get("/api/state").json() == {"phase": "name"}


# ------------------------------------------------------------------------------------------------------------- tokens
def test_a_token_opens_the_study_and_leaves_the_address(tmp_path):
    store, runs = study(tmp_path)
    _, token = store.add_rater("Ann")
    client = browser(store, runs, tokens=True)
    reply = client.get(f"/?token={token}", follow_redirects=False, headers={"sec-fetch-site": "cross-site"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert token not in cookie
    assert client.get("/").status_code == 200
    state = client.get("/api/state").json()
    assert (state["rater"], state["phase"], state["local"]) == ("Ann", "item", False)


@pytest.mark.parametrize("token", ["", "wrong", "' OR 1=1 --", "%00", "%ff"])
def test_without_a_right_token_there_is_no_image_and_no_data(tmp_path, token):
    store, runs = study(tmp_path)
    store.add_rater("Ann")
    client = browser(store, runs, tokens=True)
    refused = client.get(f"/?token={token}", follow_redirects=False)
    assert refused.status_code == 403
    assert "Open the link you were sent" in refused.text
    assert client.get("/").status_code == 401
    assert "Open the link you were sent" in client.get("/").text
    for path in ("/api/state", "/pictures/0/0", "/examples/0/0"):
        reply = client.get(path)
        assert reply.status_code == 401, path
        assert "question" not in reply.text
    for path in ("/api/vote", "/api/undo"):
        assert client.post(path, json={"position": 0, "ticket": "", "answer": "human"}).status_code == 401
    assert client.post("/api/join", json={"name": "Ann"}).status_code == 403
    assert store.ratings().height == 0


def test_others_are_only_let_in_with_tokens(tmp_path):
    store, runs = study(tmp_path)
    with pytest.raises(UsageError, match="with tokens"):
        serve(store, runs, host="0.0.0.0", port=0, open_browser=False, tokens=False)
    with pytest.raises(UsageError, match="no address of this machine"):
        serve(store, runs, host="no.such.host.invalid", port=0, open_browser=False, tokens=True)


# ------------------------------------------------------------------------------------------- requests of other pages
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},  # another server on this machine
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"x-verism": None},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"host": "evil.example:8765"},
    ],
)
def test_a_vote_that_another_page_sends_is_refused(tmp_path, headers):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    state = join(client)
    body = {"position": 0, "ticket": state["item"]["ticket"], "answer": "human", "seconds": 1}
    usual = {**SELF, "content-type": "application/json", "origin": "http://127.0.0.1:8765"}
    sent = {name: value for name, value in (usual | headers).items() if value is not None}
    del client.headers["x-verism"]
    assert client.post("/api/vote", content=json.dumps(body), headers=sent).status_code in (403, 421)
    assert store.ratings().height == 0
    assert client.post("/api/vote", content=json.dumps(body), headers=usual).status_code == 200
    assert store.ratings().height == 1


def test_a_request_says_how_long_it_is_and_is_not_long(tmp_path):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    join(client)
    assert client.post("/api/vote", json={"answer": "x" * 20_000}).status_code == 413
    chunks = client.post("/api/vote", content=iter([b"{}"]), headers={"content-type": "application/json"})
    assert chunks.status_code == 413


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[", "192.168.1.7"])
def test_names_that_lead_here_without_being_ours_are_refused(tmp_path, host):
    """DNS rebinding: the attacker's own name comes to lead to 127.0.0.1, and the browser thinks it is their site."""
    client = browser(*study(tmp_path))
    for path in ("/", "/api/state", "/app.js"):
        assert client.get(path, headers={"host": host}).status_code in (400, 421)


def test_the_host_that_is_served_is_answered_and_its_addresses_too(tmp_path):
    store, runs = study(tmp_path)
    for ours in ("localhost:1", "127.0.0.1", "[::1]:8765", "LOCALHOST", "127.0.0.1:8765"):
        assert browser(store, runs).get("/", headers={"host": ours}).status_code == 200, ours
    named = browser(store, runs, hosts=["Lab.example"])
    assert named.get("/", headers={"host": "lab.example:80"}).status_code == 200
    assert named.get("/", headers={"host": "192.168.1.7"}).status_code == 421
    everywhere = browser(store, runs, hosts=["0.0.0.0"])
    assert everywhere.get("/", headers={"host": "192.168.1.7:8765"}).status_code == 200
    assert everywhere.get("/", headers={"host": "evil.example"}).status_code == 421


def test_other_sites_cannot_show_the_images_or_the_page_in_a_frame(tmp_path):
    client = browser(*study(tmp_path))
    join(client)
    assert client.get("/pictures/0/0").status_code == 200
    for path in ("/pictures/0/0", "/api/state", "/app.js"):
        for site in ("cross-site", "same-site"):
            assert client.get(path, headers={"sec-fetch-site": site}).status_code == 403
    for path in ("/", "/app.js", "/pictures/0/0", "/nothing", "/api/state"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
    for path in ("/docs", "/openapi.json", "/redoc"):
        assert client.get(path).status_code == 404


# ------------------------------------------------------------------------------------------------------------- images
def test_an_image_is_what_the_judges_are_given_without_what_its_file_tells(tmp_path):
    run = make_run(tmp_path / "run", limit=2)
    path = run.resolve(run.read("images")["path"][0])
    plain = np.asarray(Image.open(path))
    result = PngImagePlugin.PngInfo()
    result.add_text("parameters", "secret prompt, model sd-1.4")
    Image.fromarray(plain).save(path, pnginfo=result)
    item = Item(item="x", task="human", images=((0, run.read("images")["image_id"][0]),))
    client = browser(*study(tmp_path, run=run, items=[item]))
    join(client)
    reply = client.get("/pictures/0/0")
    assert reply.headers["content-type"] == "image/png"
    np.testing.assert_array_equal(pixels(reply), plain)
    assert b"secret" not in reply.content
    assert not {"etag", "last-modified", "content-disposition"} & set(reply.headers)


@pytest.mark.parametrize(
    "path",
    [
        "/pictures/0/1", "/pictures/-1/0", "/pictures/0/-1", "/pictures/999/0", "/pictures/a/b", "/pictures/0/0/x",
        "/pictures/0/..%2f..%2fmanifest.json", "/pictures/..%2f..%2fmanifest.json/0", "/..%2fmanifest.json",
        "/%2e%2e/%2e%2e/etc/passwd", "/images/x.png", "/server.py", "/index.html", "/web/app.js", "/%2fetc%2fpasswd",
        "/examples/0/0", "/pictures/9999999999999999999999999/0", "/app.js%00",
    ],
)  # fmt: skip
def test_nothing_but_the_studys_own_images_is_served(tmp_path, path):
    client = browser(*study(tmp_path))
    join(client)
    reply = client.get(path)
    assert reply.status_code in (404, 422)
    assert b"root:" not in reply.content
    assert b"settings" not in reply.content


def test_an_image_that_is_gone_is_said_to_be_gone(tmp_path):
    store, runs = study(tmp_path)
    for path in (tmp_path / "run" / "images").glob("*.png"):
        path.unlink()
    client = browser(store, runs)
    join(client)
    assert client.get("/pictures/0/0").status_code == 404


def test_an_image_that_a_task_names_as_an_example_is_shown_and_no_other_file(tmp_path):
    Image.new("RGB", (3, 2), (9, 8, 7)).save(tmp_path / "skirt.png")
    (tmp_path / "secret.png").write_text("root:x:0:0")
    task = RatingTask(
        name="skirt",
        question="A skirt?",
        kind="choice",
        options=("yes", "no", "maybe", "?"),
        examples={"yes": str(tmp_path / "skirt.png"), "no": str(tmp_path / "secret.png"), "maybe": "it is covered"},
    )
    client = browser(*study(tmp_path, tasks=[task]))
    options = join(client)["item"]["options"]
    assert [(o["note"], o["example"]) for o in options] == [
        ("", "examples/0/0"), ("", "examples/0/1"), ("it is covered", None), ("", None),
    ]  # fmt: skip
    assert pixels(client.get("/examples/0/0"))[0, 0].tolist() == [9, 8, 7]
    assert str(tmp_path) not in client.get("/api/state").text
    for path in ("/examples/0/1", "/examples/0/2", "/examples/1/0", "/examples/0/9"):
        assert client.get(path).status_code == 404
        assert b"root" not in client.get(path).content


def two_runs(tmp_path: Path) -> tuple[VoteStore, list]:
    runs = [make_run(tmp_path / "model-a", seed=10), make_run(tmp_path / "model-b", seed=200)]
    items = draw_items(runs, PREFERENCE, per_cell=None)
    made = Study(tasks=(PREFERENCE,), items=tuple(items), runs=tuple(str(run.path) for run in runs))
    return VoteStore.create(tmp_path / "study.sqlite", made), runs


def test_a_pair_is_blind_and_its_answer_is_that_of_the_image_on_that_side(tmp_path):
    """Blue of an image's lower half is its run's seed: 10 of the first, 200 of the second."""
    store, runs = two_runs(tmp_path)
    client = browser(store, runs)
    state = join(client)
    first_on_the_left = []
    while state["phase"] == "item":
        assert not re.search(r"model|first|second|swapped|image_id|run\b", json.dumps(state["item"]))
        position = state["item"]["position"]
        left, right = (pixels(client.get(f"/pictures/{position}/{side}"))[-1, 0, 2] for side in (0, 1))
        assert {int(left), int(right)} == {10, 200}
        first_on_the_left.append(left == 10)
        state = vote(client, state, "left" if left == 10 else "right").json()  # always the first run's
    assert set(store.ratings()["answer"]) == {"first"}
    assert 0 < sum(first_on_the_left) < len(first_on_the_left)  # sides are drawn by lot


def test_a_pairs_own_answers_are_none_of_the_pages_and_an_answer_taken_back_is_shown_on_its_side(tmp_path):
    store, runs = two_runs(tmp_path)
    client = browser(store, runs)
    state = join(client)
    for answer in ("first", "second", "nonsense"):
        assert vote(client, state, answer).status_code == 422
    for answer in ("left", "right", "tie"):
        vote(client, state, answer)
        back = client.post("/api/undo", json={"position": client.get("/api/state").json()["item"]["position"]}).json()
        assert (back["item"]["position"], back["item"]["previous"]) == (state["item"]["position"], answer)


def test_the_runs_may_be_named_in_any_order_left_out_or_moved(tmp_path):
    store, runs = two_runs(tmp_path)
    images = {}
    moved = tmp_path / "elsewhere"
    for case, value in (("reversed", runs[::-1]), ("one", runs[:1]), ("moved", None)):
        if value is None:
            runs[1].path.rename(moved)
            value = [type(runs[1]).open(moved), runs[0]]
        client = browser(store, value)
        join(client)
        images[case] = client.get("/pictures/0/0").content
    assert len(set(images.values())) == 1
    moved.rename(tmp_path / "away")
    with pytest.raises(UsageError, match="there is no run; name where it is now"):
        create_app(store, runs[:1], tokens=False)


def test_images_of_another_run_are_none_of_this_study(tmp_path):
    store, _ = study(tmp_path, items=[Item(item="x", task="human", images=((0, "of-another-run"),))])
    with pytest.raises(UsageError, match="none of the images"):
        create_app(store, [], tokens=False)


# ------------------------------------------------------------------------------------------------ voting, taking back
def test_the_same_vote_sent_again_counts_once_and_leaves_one_row(tmp_path):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    state = join(client)
    replies = [vote(client, state, "human", seconds=2.345).json() for _ in range(3)]
    assert replies[0] == replies[1] == replies[2]
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("SELECT count(*), sum(undone IS NULL) FROM votes").fetchone() == (1, 1)
    vote(client, state, "not human", seconds=2.345)  # another answer is a correction
    assert store.ratings()["answer"].to_list() == ["not human"]


def test_nobody_answers_what_they_were_not_asked(tmp_path):
    store, runs = study(tmp_path)
    ann, bob = browser(store, runs), browser(store, runs)
    state, other = join(ann), join(bob, "Bob")
    subset = {"answer": "human", "seconds": 1}
    for position, ticket in (
        (other["item"]["position"], other["item"]["ticket"]),  # Bob's
        (state["item"]["position"] + 5, state["item"]["ticket"]),
        (state["item"]["position"], ""),
        (state["item"]["position"], "é\ud800"),
        (-1, state["item"]["ticket"]),
        (10**30, state["item"]["ticket"]),
    ):
        body = json.dumps(subset | {"position": position, "ticket": ticket})
        reply = ann.post("/api/vote", content=body, headers={"content-type": "application/json"})
        assert reply.status_code == 403
    assert store.ratings().height == 0


@pytest.mark.parametrize(
    "record",
    [[], "x", {}, {"answer": 3}, {"position": "0"}, {"position": True}, {"ticket": None}, {"answer": ["human"]}],
)
def test_votes_of_another_shape_are_refused(tmp_path, record):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    item = join(client)["item"]
    usual = {"position": item["position"], "ticket": item["ticket"], "answer": "human"}
    sent = usual | record if isinstance(record, dict) and record else record
    assert client.post("/api/vote", json=sent).status_code == 400
    assert client.post("/api/vote", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert store.ratings().height == 0


@pytest.mark.parametrize(
    ("sent", "kept"), [("null", None), ("NaN", None), ("1e9", None), ("-1", None), ('"3"', None), ("2", 2.0)]
)
def test_a_time_that_cannot_be_is_no_time(tmp_path, sent, kept):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    item = join(client)["item"]
    body = f'{{"position": {item["position"]}, "ticket": "{item["ticket"]}", "answer": "human", "seconds": {sent}}}'
    reply = client.post("/api/vote", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 200
    assert store.ratings()["seconds"].to_list() == [kept]


def test_a_skip_is_a_vote_without_an_answer(tmp_path):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    assert vote(client, join(client), None).json()["progress"]["answered"] == 1
    assert store.ratings()["answer"].to_list() == [None]


def test_undo_takes_back_one_vote_however_often_it_is_sent(tmp_path):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    state = join(client)
    for answer in ("human", "not human"):
        state = vote(client, state, answer).json()
    on_screen = {"position": state["item"]["position"]}
    back = client.post("/api/undo", json=on_screen).json()
    assert (back["undone"], back["item"]["previous"], back["progress"]["answered"]) == (True, "not human", 1)
    again = client.post("/api/undo", json=on_screen).json()  # the reply to the first was lost
    assert (again["undone"], again["item"]["position"]) == (False, back["item"]["position"])
    assert store.ratings().height == 1
    more = client.post("/api/undo", json={"position": back["item"]["position"]}).json()
    assert (more["undone"], more["item"]["previous"], store.ratings().height) == (True, "human", 0)
    none = client.post("/api/undo", json={"position": more["item"]["position"]}).json()
    assert none["undone"] is False


def test_what_comes_next_is_foretold_and_nothing_is_lent_by_it(tmp_path):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    state = join(client)
    ahead = state["ahead"]
    assert join(browser(store, runs), "Bob")["item"]["position"] == ahead["position"]  # still free for Bob
    nxt = vote(client, state, "human").json()
    assert nxt["item"]["position"] == ahead["position"] + 1
    foretold = nxt["ahead"]["position"]
    assert vote(client, nxt, "human").json()["item"]["position"] == foretold


# ---------------------------------------------------------------------------------------------------- checks, the bar
def with_qualification(tmp_path, **more):
    run = Run.open(shutil.copytree(TEMPLATE["run"], tmp_path / "run"))
    items = draw_items([run], HUMAN, per_cell=None)
    kinds = ["qualification", "qualification", "gold", "attention"]
    items[:4] = [replace(i, check=kind, right="not human") for i, kind in zip(items, kinds)]
    return study(tmp_path, run=run, items=items, **more)


def test_the_qualification_is_named_and_other_checks_look_like_everything_else(tmp_path):
    store, runs = with_qualification(tmp_path, attention_every=2)
    client = browser(store, runs)
    state = join(client)
    assert state["qualification"] == {"asked": 2, "given": 0, "right": None}
    keys = set(state["item"])
    named = []
    while state["phase"] == "item":
        assert set(state["item"]) == keys
        assert not re.search("gold|attention|check|right", json.dumps(state["item"]))
        named.append(state["item"]["qualifying"])
        if sum(named) == 1:
            assert state["qualification"]["right"] is None  # nobody learns which one was wrong
        state = vote(client, state, "not human").json()
    assert named == [True, True] + [False] * (len(store.study.items) - 2)
    assert state["qualification"] == {"asked": 2, "given": 2, "right": 2}


def test_who_fails_the_qualification_sees_nothing_more(tmp_path):
    store, runs = with_qualification(tmp_path)
    client = browser(store, runs)
    state = join(client)
    late = state
    for _ in range(2):
        state = vote(client, state, "human").json()
    assert state["phase"] == "barred"
    assert "0 of 2" in state["why"]
    assert (state["item"], state["ahead"]) == (None, None)
    assert client.get("/pictures/4/0").status_code == 403
    assert vote(client, late, "not human").status_code == 422
    assert join(browser(store, runs), "Ann")["phase"] == "barred"


def test_while_others_look_at_the_last_items_a_rater_waits_and_is_not_done(tmp_path):
    run = make_run(tmp_path / "run", limit=1)
    item = draw_items([run], HUMAN, per_cell=None)[0]
    store, runs = study(tmp_path, run=run, items=[item])
    ann, bob = browser(store, runs), browser(store, runs)
    state = join(ann)
    assert join(bob, "Bob")["phase"] == "waiting"
    vote(ann, state, "human")
    assert bob.get("/api/state").json()["phase"] == "done"


# ---------------------------------------------------------------------------------------------------- what it is asked
def test_what_turns_the_direction_of_writing_is_shown_and_turns_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("verism.annotation.views.filled", lambda *_: [("\u202egnp.exe\u202c", True)])
    store, runs = study(tmp_path, tasks=[ALIGNMENT])
    assert join(browser(store, runs))["item"]["question"] == [[r"\u202egnp.exe\u202c", True]]


def test_placeholders_are_filled_with_the_prompts_own_words_and_nothing_else(tmp_path):
    prompt = Prompt(prompt_id="p", suite="s", text="a {object} <b>", facets={"object": "dog", "n": 3})
    assert filled("{prompt}: {n} {object}s", prompt) == [
        ("a {object} <b>", True), (": ", False), ("3", True), (" ", False), ("dog", True), ("s", False),
    ]  # fmt: skip
    assert filled("{prompt.__class__} {0} {} {", prompt) == [("{prompt.__class__} {0} {} {", False)]
    assert filled("{prompt}?", None) == [("{prompt}?", False)]
    store, runs = study(tmp_path, tasks=[ALIGNMENT])
    client = browser(store, runs)
    item = join(client)["item"]
    prompts = {p.prompt_id: p.text for p in runs[0].prompts()}
    prompt_of = dict(runs[0].read("images").select("image_id", "prompt_id").iter_rows())
    shown = store.study.items[item["position"]].images[0][1]
    assert [text for text, is_filled in item["question"] if is_filled] == [prompts[prompt_of[shown]]]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["yes", "no"], "12"),
        (["1", "2", "3", "4", "5"], "12345"),
        ([*map(str, range(8)), "8 or more"], "012345678"),
        ([*map(str, range(1, 11)), "cannot tell", "no person"], "1234567890cn"),
        (list("ABCDEFGHIJK"), "123456789jk"),
        (["1 or 2", "1 exactly", "3"], "123"),
        (["one", "us"] * 5, "123456789a"),  # u and s are commands
        ([*map(str, range(40, 50)), "z"], [*"123456789", "a", "b"]),
    ],
)
def test_every_answer_has_a_key_of_its_own(options, keys):
    got = keys_for(options)
    assert got == list(keys)
    assert len(set(got)) == len(got)


def test_tones_have_the_colours_of_the_scale(tmp_path):
    task = RatingTask(name="t", question="?", kind="tone", options=(*map(str, range(1, 11)), "?"), unsure=("?",))
    options = join(browser(*study(tmp_path, tasks=[task])))["item"]["options"]
    assert [o["swatch"] for o in options[:-1]] == ["#" + bytes(rgb.astype(np.uint8)).hex() for rgb in MONK_RGB]
    assert options[-1]["swatch"] is None
    assert options[0]["swatch"] == "#f6ede4"


# ---------------------------------------------------------------------------------------------------------- the server
def test_a_port_that_is_taken_is_named_with_what_to_do(tmp_path):
    store, runs = study(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(VerismError, match=f"port {port} .*another --port, or 0"):
            serve(store, runs, host="127.0.0.1", port=port, open_browser=False, tokens=False)


def test_it_prints_where_it_is_and_ends_cleanly_on_ctrl_c(tmp_path):
    from urllib.request import urlopen

    store, _ = study(tmp_path)
    code = (
        "from pathlib import Path; from verism.annotation.server import serve; "
        "from verism.annotation.votes import VoteStore; "
        f"serve(VoteStore.open(Path({str(store.path)!r})), [], host='127.0.0.1', port=0, tokens=False); print('ended')"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first = server.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", first)[0]
        with urlopen(address) as reply:
            assert reply.status == 200
        time.sleep(0.1)
        os.kill(server.pid, signal.SIGINT)
        out, err = server.communicate(timeout=20)
    finally:
        server.kill()
    assert (server.returncode, out, err) == (0, "ended\n", "")


def test_the_page_loads_nothing_from_elsewhere():
    web = Path(__file__).parents[2] / "src" / "verism" / "annotation" / "web"
    assert {p.name for p in web.iterdir()} == {"index.html", "app.js", "style.css", "icon.svg"}
    for path in web.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(", text), path.name
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", (web / "app.js").read_text())
    assert not re.search(r"<script(?! src)|\son\w+=|<style|\sstyle=", (web / "index.html").read_text())


# ------------------------------------------------------------------------------------------------------ hostile bodies
NINES = "9" * 400
HOSTILE = [
    pytest.param("[" * 16_000, id="brackets"),
    pytest.param('{"a":' * 3_000, id="objects"),
    pytest.param(f'{{"position": {NINES}, "ticket": "t", "answer": null, "seconds": 1}}', id="position"),
    pytest.param(f'{{"position": 0, "ticket": "t", "answer": null, "seconds": {NINES}}}', id="seconds"),
    pytest.param(f'{{"position": {"9" * 5000}}}', id="more digits than Python reads"),
    pytest.param('{"position": 1e999, "ticket": "t", "answer": null}', id="infinite"),
    pytest.param('{"position": 9223372036854775808, "ticket": "t", "answer": null}', id="beyond 64 bits"),
    pytest.param('{"position": 0, "ticket": "\\ud800", "answer": "\\udfff"}', id="half characters"),
]


@pytest.mark.parametrize("body", HOSTILE)
@pytest.mark.parametrize("path", ["/api/vote", "/api/undo", "/api/join"])
def test_hostile_bodies_are_refused_and_nothing_is_kept(tmp_path, path, body):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    join(client)
    reply = client.post(path, content=body, headers={"content-type": "application/json"})
    harmless = path == "/api/undo" and reply.status_code == 200 and reply.json()["undone"] is False
    assert harmless or 400 <= reply.status_code < 500
    assert store.ratings().height == 0


@pytest.mark.parametrize("seconds", [NINES[:300], "NaN", "Infinity", "-5", "1e300"])
def test_votes_with_impossible_times_are_kept_without_them(tmp_path, seconds):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    item = join(client)["item"]
    body = f'{{"position": {item["position"]}, "ticket": "{item["ticket"]}", "answer": "human", "seconds": {seconds}}}'
    assert client.post("/api/vote", content=body, headers={"content-type": "application/json"}).status_code == 200
    assert store.ratings()["seconds"].to_list() == [None]


@pytest.mark.parametrize(
    "path", [f"/pictures/{NINES}/0", f"/pictures/0/{NINES}", "/pictures/-1/0", f"/examples/0/{NINES}"]
)
def test_hostile_numbers_in_addresses_are_refused(tmp_path, path):
    store, runs = study(tmp_path)
    client = browser(store, runs)
    join(client)
    assert 400 <= client.get(path).status_code < 500


def test_guesses_of_tokens_are_held_up_and_nobody_else(tmp_path):
    store, runs = study(tmp_path)
    _, token = store.add_rater("Ann")
    client = browser(store, runs, tokens=True)
    statuses = [client.get(f"/?token=guess{n}").status_code for n in range(WRONG_TOKENS + 5)]
    assert statuses == [403] * WRONG_TOKENS + [429] * 5
    assert client.get(f"/?token={token}").status_code == 429  # or guessing would go on unseen
    client.app.state.site.guesses._clock = lambda: time.monotonic() + WRONG_WITHIN_S + 1
    assert client.get(f"/?token={token}", follow_redirects=False).status_code == 303


def test_guesses_from_other_addresses_are_counted_apart():
    now = 0.0
    guesses = Guesses(lambda: now)
    for _ in range(WRONG_TOKENS):
        guesses.wrong("10.0.0.1")
    assert not guesses.allowed("10.0.0.1")
    assert guesses.allowed("10.0.0.2")
    now = WRONG_WITHIN_S + 0.1
    assert guesses.allowed("10.0.0.1")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_study_is_its_owners_alone(tmp_path):
    store, _ = study(tmp_path)
    store.add_rater("Ann")
    assert [oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("study.sqlite*")] == ["0o600"]
