"""The votes of a study: who sees what when, that nothing is lost, and nothing counts twice."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from verism.annotation.votes import LEASE, Item, Study, VoteStore
from verism.errors import UsageError
from verism.records import RatingTask

COLOUR = RatingTask(name="colour", question="?", kind="choice", options=("red", "blue", "?"), unsure=("?",))
BETTER = RatingTask(name="better", question="?", kind="pair", options=("first", "second", "tie"), unit="pair")


def items(n: int, **more) -> list[Item]:
    return [Item(item=f"p{i}", task="colour", images=((0, f"p{i}"),), **more) for i in range(n)]


def check(name: str, kind: str, right: str = "red") -> Item:
    return Item(item=name, task="colour", images=((0, name),), check=kind, right=right)


def make(path: Path, its, **more) -> VoteStore:
    return VoteStore.create(path / "study.sqlite", Study(tasks=(COLOUR,), items=tuple(its), runs=("/run",), **more))


def answer_all(store: VoteStore, name: str, answer="red", most: int = 1000) -> list[int]:
    rater = store.named_rater(name)
    seen = []
    while len(seen) < most and (shown := store.next_item(rater)) is not None:
        seen.append(shown.position)
        response = answer(shown) if callable(answer) else answer
        store.vote(rater, shown.position, response, seconds=1.5)
    return seen


def test_every_item_is_given_to_as_many_raters_as_asked_for_and_to_none_twice(tmp_path):
    store = make(tmp_path, items(7), overlap=2)
    seen = {name: answer_all(store, name) for name in ("Ann", "Bob", "Cem")}
    assert Counter(p for positions in seen.values() for p in positions) == dict.fromkeys(range(7), 2)
    assert all(len(set(positions)) == len(positions) for positions in seen.values())
    assert seen["Cem"] == []  # Ann and Bob did all of it


def test_items_with_fewer_votes_come_first_in_the_order_of_the_study(tmp_path):
    store = make(tmp_path, items(4), overlap=3)
    assert answer_all(store, "Ann", most=2) == [0, 1]
    assert answer_all(store, "Bob") == [2, 3, 0, 1]


def test_an_item_somebody_looks_at_is_lent_to_them_and_comes_back_when_they_leave(tmp_path):
    store = make(tmp_path, items(1))
    ann, bob = store.named_rater("Ann"), store.named_rater("Bob")
    assert store.next_item(ann, now=0.0).position == 0
    assert store.next_item(ann, now=1.0).position == 0  # a reloaded page shows the same
    assert store.next_item(bob, now=2.0) is None
    assert store.next_item(bob, now=LEASE + 1.5).position == 0
    store.vote(ann, 0, "red")  # who comes back late may still answer
    assert store.ratings().height == 1


def test_qualification_comes_first_and_bars_who_fails(tmp_path):
    store = make(tmp_path, [*items(2), check("q1", "qualification"), check("q2", "qualification")], qualification=0.8)
    assert answer_all(store, "good", "red", most=3) == [2, 3, 0]
    assert answer_all(store, "bad", "blue") == [2, 3]
    barred = {r.name: r.barred for r in store.raters()}
    assert barred["good"] is None
    assert "0 of 2" in barred["bad"]
    bad = next(r for r in store.raters() if r.name == "bad")
    with pytest.raises(UsageError, match="may not vote"):
        store.vote(bad, 0, "red")
    assert store.undo(bad) is None


def test_an_attention_check_comes_after_as_many_items_as_set(tmp_path):
    store = make(tmp_path, [*items(6), check("a1", "attention"), check("a2", "attention")], attention_every=2)
    assert answer_all(store, "Ann") == [0, 1, 6, 2, 3, 7, 4, 5]


def test_gold_goes_to_everybody_and_counts_right_and_wrong(tmp_path):
    store = make(tmp_path, [check("g", "gold", "blue"), *items(2)], overlap=1)
    answer_all(store, "Ann", lambda shown: "blue" if shown.position == 0 else "red")
    answer_all(store, "Bob", "red")
    progress = {r.name: store.progress(r) for r in store.raters()}
    assert (progress["Ann"].checked, progress["Ann"].right) == (1, 1)
    assert (progress["Bob"].checked, progress["Bob"].right) == (1, 0)
    assert progress["Ann"].votes == progress["Ann"].wanted == 2  # without the checks
    assert store.ratings().filter(store.ratings()["check"] == "gold").height == 2


def test_gold_is_spread_for_whoever_comes_later_too(tmp_path):
    # Six items and two gold ones: one after each rater's second item (1.5 rounded up), one after their fifth (4.5).
    store = make(tmp_path, [*items(3), check("g1", "gold"), *items(6)[3:], check("g2", "gold")], overlap=2)
    for name in ("Ann", "Bob"):
        assert answer_all(store, name) == [0, 1, 3, 2, 4, 5, 7, 6]
    ann = make(tmp_path / "again", [*items(3), check("g1", "gold")]).named_rater("Ann")
    other = VoteStore.open(tmp_path / "again" / "study.sqlite")
    assert [other.ahead(ann, position) for position in (0, 1)] == [1, 0]
    other.vote(ann, 0, "red")
    assert other.ahead(ann, 1) == 3  # what will come next is told as it will be


def test_undo_shows_the_last_item_again_and_the_new_answer_replaces_the_old(tmp_path):
    store = make(tmp_path, items(3))
    ann = store.named_rater("Ann")
    answer_all(store, "Ann", most=2)
    shown = store.undo(ann)
    assert (shown.position, shown.previous) == (1, "red")
    assert store.ratings().height == 1
    store.vote(ann, 1, "blue")
    assert dict(store.ratings().select("item", "answer").iter_rows()) == {"p0": "red", "p1": "blue"}
    with sqlite3.connect(store.path) as connection:  # what was taken back stays on record
        assert connection.execute("SELECT count(*) FROM votes").fetchone()[0] == 3


def test_a_second_vote_on_an_item_replaces_the_first(tmp_path):
    store = make(tmp_path, items(1))
    ann = store.named_rater("Ann")
    store.vote(ann, 0, "red")
    store.vote(ann, 0, None)
    assert store.ratings()["answer"].to_list() == [None]


def test_tokens_open_the_study_to_their_rater_alone_and_are_not_kept(tmp_path):
    store = make(tmp_path, items(1))
    ann, token = store.add_rater("Ann")
    _, other = store.add_rater("Bob")
    assert store.rater_of_token(token).name == "Ann"
    assert store.rater_of_token(other).name == "Bob"
    assert store.rater_of_token("x" + token) is None
    assert token.encode() not in b"".join(p.read_bytes() for p in tmp_path.iterdir())
    with pytest.raises(UsageError, match="already"):
        store.add_rater(" Ann ")
    assert ann.id == store.named_rater("Ann").id


def test_a_workers_hash_is_the_same_in_a_study_and_another_in_the_next(tmp_path):
    (tmp_path / "b").mkdir()
    one, two = make(tmp_path, items(1)), make(tmp_path / "b", items(1))
    assert one.anonymous("A1B2C3") == VoteStore.open(one.path).anonymous("A1B2C3") != two.anonymous("A1B2C3")
    assert "A1B2C3" not in one.anonymous("A1B2C3")


def test_sides_of_a_pair_are_drawn_by_lot_and_stay(tmp_path):
    pairs = [Item(item=f"a{i}|b{i}", task="better", images=((0, f"a{i}"), (1, f"b{i}"))) for i in range(200)]
    study = Study(tasks=(BETTER,), items=tuple(pairs), runs=("/a", "/b"))
    store = VoteStore.create(tmp_path / "s.sqlite", study)
    ann, bob = store.named_rater("Ann"), store.named_rater("Bob")
    sides = [store.swapped(ann, i) for i in range(200)]
    assert sides == [VoteStore.open(store.path).swapped(ann, i) for i in range(200)]
    assert 70 < sum(sides) < 130  # within 4 standard errors of a half
    assert sides != [store.swapped(bob, i) for i in range(200)]


@pytest.mark.parametrize("name", ["", "  ", "x" * 81, "a\nb\x00"])
def test_names_are_printable_and_short(tmp_path, name):
    with pytest.raises(UsageError, match="name"):
        make(tmp_path, items(1)).named_rater(name)


def test_answers_and_items_that_are_none_are_refused(tmp_path):
    store = make(tmp_path, items(1))
    ann = store.named_rater("Ann")
    with pytest.raises(UsageError, match="no answer"):
        store.vote(ann, 0, "green")
    with pytest.raises(UsageError, match="no item 1"):
        store.vote(ann, 1, "red")
    assert store.ratings().height == 0


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (Study(tasks=(COLOUR,), items=(), runs=("/r",)), "needs items"),
        (Study(tasks=(COLOUR,), items=tuple(items(2)), runs=("/r",), overlap=0), "overlap"),
        (Study(tasks=(COLOUR,), items=(items(1)[0], items(1)[0]), runs=("/r",)), "twice"),
        (Study(tasks=(BETTER,), items=tuple(items(1)), runs=("/r",)), "of task 'colour'"),
        (Study(tasks=(COLOUR,), items=(check("q", "gold", "green"),), runs=("/r",)), "'green'"),
        (Study(tasks=(COLOUR,), items=tuple(items(1, right="red")), runs=("/r",)), "known answer"),
        (Study(tasks=(COLOUR,), items=(Item(item="x", task="colour", images=((1, "x"),)),), runs=("/r",)), "run"),
    ],
)
def test_studies_that_cannot_be_are_refused_and_leave_no_file(tmp_path, study, message):
    with pytest.raises(UsageError, match=message):
        VoteStore.create(tmp_path / "s.sqlite", study)
    assert list(tmp_path.iterdir()) == []


def test_a_study_is_never_written_over_and_other_files_are_no_studies(tmp_path):
    store = make(tmp_path, items(1))
    with pytest.raises(UsageError, match="exists already"):
        make(tmp_path, items(2))
    assert len(VoteStore.open(store.path).study.items) == 1
    (tmp_path / "no.sqlite").write_bytes(b"hello" * 100)
    with pytest.raises(UsageError, match="not a study"):
        VoteStore.open(tmp_path / "no.sqlite")
    with pytest.raises(UsageError, match="no study there"):
        VoteStore.open(tmp_path / "none.sqlite")


def test_a_study_reads_back_as_it_was_made(tmp_path):
    task = RatingTask(
        name="t", question="{prompt}?", kind="scale", options=("1", "2"), level="ordinal", key={"skill": "count"},
        examples={"1": "bad"}, only={"skill": ("count", "object")},
    )  # fmt: skip
    item = Item(item="p", task="t", images=((0, "p"), (0, "q")), cell='{"skill": "count"}')
    study = Study(tasks=(task,), items=(item,), runs=("/a",), overlap=3, seed=7, title="T", settings={"by": "skill"})
    assert VoteStore.create(tmp_path / "s.sqlite", study).study == study


def test_raters_side_by_side_lose_and_repeat_nothing(tmp_path):
    store = make(tmp_path, items(60), overlap=2)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda name: answer_all(VoteStore.open(store.path), name), ["A", "B", "C", "D"]))
    votes = store.ratings()
    assert votes.height == sum(map(len, done))
    assert votes.select("item", "rater").is_unique().all()
    assert set(votes["item"].value_counts()["count"]) == {2}


def vote_for_ever(path: str, told: str) -> None:
    store = VoteStore.open(Path(path))
    rater = store.named_rater("Ann")
    with Path(told).open("a", encoding="utf-8") as log:
        while (shown := store.next_item(rater)) is not None:
            store.vote(rater, shown.position, "red")
            log.write(f"{shown.item.item}\n")
            log.flush()


def test_a_vote_that_was_told_to_be_safe_survives_a_kill(tmp_path):
    store = make(tmp_path, items(5000))
    worker = multiprocessing.get_context("spawn").Process(
        target=vote_for_ever, args=(str(store.path), str(tmp_path / "told"))
    )
    worker.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and store.progress().votes < 30:
        time.sleep(0.02)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    text = (tmp_path / "told").read_text().splitlines()
    kept = set(VoteStore.open(store.path).ratings()["item"])
    assert len(text) >= 25
    assert set(text) <= kept
    assert len(kept) <= len(text) + 1  # the one that was kept and not yet told
