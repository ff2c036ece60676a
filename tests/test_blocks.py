"""Tables block by block, and ids as hashes: the same rows and the same answers as of all at once, in bounded memory."""

import tracemalloc
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.manifest import RunSettings
from verism.records import frame
from verism.store import IdSet, Run
from verism.store import blocks as store_blocks
from verism.store.ids import DIGEST, digests

IDS = [f"p{number:02d}#{index}" for number in range(13) for index in range(3)]
TEXTS = st.sets(st.text(max_size=4), max_size=12)


@given(TEXTS, TEXTS, TEXTS)
def test_a_set_of_ids_answers_as_a_set_of_texts(a, b, asked):
    one, other = IdSet(a), IdSet(b)
    for found, expected in ((one, a), (one | other, a | b), (one - other, a - b)):
        assert len(found) == len(expected)
        assert dict(zip(asked, found.holds(asked), strict=True)) == {text: text in expected for text in asked}
        assert all(text in found for text in expected)


def test_ids_whose_hashes_end_in_zero_are_told_apart():
    # numpy drops zero bytes at the end of a text: so it must be of both sides of every comparison.
    zero = next(str(n) for n in range(10_000) if len(bytes(digests([str(n)])[0])) < DIGEST)
    other = next(str(n) for n in range(10_000) if str(n) != zero)
    ids = IdSet([zero])
    assert zero in ids
    assert other not in ids
    assert len(ids | IdSet([other])) == 2


def test_ids_take_sixteen_bytes_each_however_long_they_are():
    held = []
    for count in (2_000, 8_000):
        ids = [f"a long name of an image that many suites give to theirs {number}" for number in range(count)]
        tracemalloc.start()
        made = IdSet(ids)
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert len(made) == count
    assert held[1] - held[0] < 1.1 * DIGEST * 6_000


def image_rows(*ids: str, sha: str = "a", state: str = "ok") -> pl.DataFrame:
    rows = [
        {"image_id": i, "prompt_id": i[:3], "index": 0, "state": state, "note": sha, "sha256": sha * 64} for i in ids
    ]
    return frame("images", rows)


def boxes(*ids: str, label: str = "dog") -> pl.DataFrame:
    rows = [
        {"image_id": i, "judge": "j@1", "query": q, "score": 0.5, "label": label, "class_scores": [0.5]}
        for i in ids
        for q in (-1, 0, 1)
    ]
    return frame("detections", rows)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of which two workers did some images both, unlike each other; and one was seen before it was made anew."""
    run = Run.start(tmp_path / "run", RunSettings(suite="paintskills"))
    shuffled = sorted(IDS, key=lambda name: name[::-1])
    for start in range(0, len(IDS), 5):
        some = shuffled[start : start + 5]
        shas = dict.fromkeys(some, "a" * 64)
        run.append("images", image_rows(*some))
        run.append("detections", boxes(*some), "j@1", images=shas)
    twice = ["p03#1", "p07#2", "p12#2"]
    run.append("images", image_rows(*twice, sha="b"))
    run.append("detections", boxes(*twice, label="cat"), "j@1", images=dict.fromkeys(twice, "b" * 64))
    run.append("detections", boxes("p05#0", label="bird"), "j@1", images={"p05#0": "c" * 64})  # of no image that counts
    run.append("images", image_rows("p98#0", "p99#0", state="failed"))
    return run


@pytest.mark.parametrize("size", [1, 2, 7, 16, 1000])
@pytest.mark.parametrize("held", [0, 2**25])
def test_blocks_of_any_size_hold_the_rows_of_the_tables_in_their_order(run, size, held, monkeypatch):
    monkeypatch.setattr(store_blocks, "HELD_BYTES", held)
    whole = run.read("images"), run.read("detections", "j@1")
    assert "bird" not in whole[1]["label"].to_list()
    with run.blocks({"detections": "j@1"}, size=size) as blocks:
        for _ in range(2):  # as often as one likes
            found = list(blocks)
            assert pl.concat([images for images, _ in found]).equals(whole[0])
            assert pl.concat([tables["detections"] for _, tables in found]).equals(whole[1])
        assert len(found) == len(blocks)
        if size < 16:
            assert max(images.height for images, _ in found) <= size
            assert all(set(t["detections"]["image_id"]) <= set(images["image_id"]) for images, t in found)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("columns", [["image_id", "state"], ["sha256"]])
def test_blocks_of_some_columns_hold_what_the_table_says_of_images_that_two_workers_did(run, size, columns):
    with run.blocks({}, size=size, columns=columns) as blocks:
        found = pl.concat([images for images, _ in blocks])
    assert found.equals(run.read("images").select(columns))


def test_blocks_are_of_the_size_asked_for_however_small_parts_are(tmp_path, monkeypatch):
    monkeypatch.setattr("verism.store.run.SAMPLED", 8)
    run = Run.start(tmp_path / "run", RunSettings(suite="paintskills"))
    for start in range(0, 320, 4):
        run.append("images", image_rows(*(f"p{number:03d}#0" for number in range(start, start + 4))))
    with run.blocks({}, size=64) as blocks:
        sizes = [images.height for images, _ in blocks]
    assert len(sizes) == 5  # about 64 images each: which id is looked at depends on the names of parts
    assert sum(sizes) == 320


def test_blocks_are_read_anew_when_another_worker_puts_parts_together(run, monkeypatch):
    whole, deal, done = run.read("detections", "j@1"), store_blocks.Dealer.deal, []

    def compacting(self, table, rows):
        deal(self, table, rows)
        if not done and table == "detections":
            done.append(Run.open(run.path).compact("detections", "j@1"))

    monkeypatch.setattr(store_blocks.Dealer, "deal", compacting)
    with run.blocks({"detections": "j@1"}, size=7) as blocks:
        found = pl.concat([tables["detections"] for _, tables in blocks])
    assert done
    assert found.equals(whole)


def test_a_run_without_images_is_one_empty_block(tmp_path):
    run = Run.start(tmp_path / "run", RunSettings(suite="paintskills"))
    with run.blocks({"detections": "j@1"}, size=3) as blocks:
        ((images, tables),) = blocks
    assert images.is_empty()
    assert tables["detections"].is_empty()


def test_dealt_rows_leave_no_files_behind(run, tmp_path, monkeypatch):
    monkeypatch.setattr(store_blocks, "HELD_BYTES", 0)
    monkeypatch.setattr(store_blocks.tempfile, "tempdir", str(tmp_path))
    with run.blocks({"detections": "j@1"}, size=7) as blocks:
        assert any(tmp_path.glob("verism-blocks-*/*.arrow"))
        next(iter(blocks))
    assert not any(tmp_path.glob("verism-blocks-*"))


def test_images_that_were_passed_are_not_read_and_later_ones_are(run, monkeypatch):
    seen: set[str] = set()
    with monkeypatch.context() as patch:
        patch.setattr(Run, "checked", lambda *_: pytest.fail("a part was read"))
        run.pass_images(seen)
    assert run.images_since(seen) == {}
    Run.open(run.path).append("images", image_rows("p77#0", sha="f"))  # by another process
    assert run.images_since(seen) == {"p77#0": "f" * 64}
    fresh: set[str] = set()
    run.compact("images")
    run.pass_images(fresh)
    assert run.images_since(fresh) == {}


@pytest.mark.parametrize("compacted", [False, True])
def test_ids_are_those_of_keys(run, compacted):
    if compacted:
        run.compact("images")
        run.compact("detections", "j@1")
    for table, judge in (("images", None), ("detections", "j@1")):
        keys, ids = run.keys(table, judge), run.ids(table, judge)
        assert len(ids) == len(keys)
        assert all(key in ids for key in keys)
    assert "p98#0" not in run.ids("detections", "j@1")


def test_ids_of_parts_that_are_known_are_not_read_again(run, monkeypatch):
    before = run.ids("images")
    with monkeypatch.context() as patch:
        patch.setattr(Run, "_parsed", lambda *_: pytest.fail("a part was read"))
        assert run.ids("images") is before
    Run.open(run.path).append("images", image_rows("p77#0"))  # by another process
    assert "p77#0" not in before
    assert "p77#0" in run.ids("images")
    run.forget("images", ["p77#0"])
    assert "p77#0" not in run.ids("images")
    assert len(run.ids("images")) == len(before)


def test_prompts_of_some_images_are_those_of_the_table(run):
    whole = dict(run.read("images").select("image_id", "prompt_id").iter_rows())
    asked = ["p12#2", "p03#1", "p03#1", "not there"]
    assert run.prompts_of(asked) == {name: whole[name] for name in asked[:2]}
    assert run.prompts_of([]) == {}


def test_forgetting_images_of_large_parts_puts_none_of_them_together(run, monkeypatch):
    whole = run.read("images")
    largest = max(path.stat().st_size for path in run.path.glob("images/part-*.parquet"))
    monkeypatch.setattr("verism.store.run.PART_BYTES", largest + 1)  # all are just below the size of a whole one
    seen, written = [], Run._write_part
    monkeypatch.setattr(Run, "_write_part", lambda *args, **kw: seen.append(kw["replaced"]) or written(*args, **kw))
    forgotten = ["p00#0", "p04#2", "p08#1", "p11#0"]
    run.forget("images", forgotten)
    assert len(seen) > 1
    assert {len(replaced) for replaced in seen} == {1}
    assert run.read("images").equals(whole.filter(~pl.col("image_id").is_in(forgotten)))


def test_rows_of_some_images_are_read_without_those_of_others(run, monkeypatch):
    whole = run.read("detections", "j@1")
    parsed, sizes = Run._parsed, []

    def counting(*args, **kwargs):
        rows = parsed(*args, **kwargs)
        sizes.append(rows.height)
        return rows

    monkeypatch.setattr(Run, "_parsed", counting)
    chosen = ["p03#1", "p05#0"]
    found = run.read("detections", "j@1", keys=chosen)
    assert found.equals(whole.filter(pl.col("image_id").is_in(chosen)))
    assert max(sizes) <= 3 * len(chosen)  # three boxes an image, and of the list of images no other rows
    assert sum(sizes) <= 4 * 3 * len(chosen)


def test_observations_of_images_that_do_not_count_are_no_ids(run):
    run.forget("images", ["p00#0"])
    run.append("images", image_rows("p00#0", sha="d"))
    assert "p00#0" not in run.keys("detections", "j@1")
    assert "p00#0" not in run.ids("detections", "j@1")


def test_unusable_images_are_those_that_are_not_ok(run):
    assert run.unusable()["image_id"].to_list() == ["p98#0", "p99#0"]
    assert run.unusable().equals(run.read("images").filter(pl.col("state") != "ok"))


def test_a_failed_image_that_another_worker_made_counts_once(run):
    run.append("images", image_rows("p98#0", sha="e"))
    assert run.unusable().equals(run.read("images").filter(pl.col("state") != "ok"))
    assert sum(run.image_summary().states.values()) == len(run.read("images"))


def test_rows_of_unknown_images_are_found(run):
    run.append("detections", boxes("x#0", "a#0"), "j@1")
    assert run.unknown("detections", "j@1", run.ids("images")) == ["a#0", "x#0"]


@pytest.mark.parametrize("size", [3, 1000])
def test_summary_of_images_hashes_what_a_list_of_all_would(run, size, monkeypatch):
    from verism.records import content_hash

    monkeypatch.setattr(store_blocks, "BLOCK", size)
    rows = run.read("images").select("image_id", "state", "sha256").rows()
    summary = run.image_summary()
    assert summary.digest == content_hash([list(row) for row in rows])
    assert summary.states == {"ok": len(IDS), "failed": 2}
    assert summary.n_hashed == len(rows)
