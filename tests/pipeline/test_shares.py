"""Processes that share a run do each image once, whoever is killed, and end in the scores of one process."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from share_runs import LIMIT, evaluate, images_made, standard_suite
from storage import SERVICES, storage_server

import verism
from verism.errors import UsageError
from verism.locations import location
from verism.pipeline.leases import FOLDER, LeasedShares
from verism.pipeline.local import make_requests
from verism.pipeline.shares import BLOCK_SIZES, Shard, block_size, blocks_of
from verism.store import Run, verify

TESTS = Path(__file__).parents[1]
LETTERS = [f"item-{n:02d}" for n in range(40)]
BLOCK = BLOCK_SIZES[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The run of one process, which is not to be changed."""
    return evaluate(tmp_path_factory.mktemp("alone") / "run").path


@pytest.fixture(scope="module")
def alone(whole) -> bytes:
    """The scores of one process."""
    return (whole / "scores.json").read_bytes()


def every_image() -> list[str]:
    return sorted(r.image_id for r in make_requests(standard_suite().prompts(), 5))


# ------------------------------------------------------------------------------------------------------ static shares
def test_shards_together_are_everything_and_differ_by_one_at_most():
    shards = []
    for index in (1, 2, 3):
        with Shard(index, 3).claims("images", LETTERS, key=str, done=lambda: set(LETTERS[:5])) as claims:
            shards.append([item for claim in claims for item in claim.items])
    assert sorted(chain(*shards)) == LETTERS[5:]
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3"])
def test_a_shard_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="expected I/N"):
        Shard.parse(text)


def test_two_shards_make_each_image_once_and_end_in_the_scores_of_one_process(tmp_path, alone):
    (tmp_path / "log").mkdir()
    told: list[str] = []
    first = evaluate(tmp_path / "run", tmp_path / "log", shard="1/2", on_summary=told.append)
    assert first.unfinished == {"images": LIMIT // 2}
    assert not first.is_scored
    assert "share 1/2" in told[-1]
    assert "24 images" in told[-1]
    # Its rules and judges are kept, so that nobody needs the judge to score the run.
    assert first.stored_scoring().scoring.judges == {"detector": "pixel-judge@1"}
    second = evaluate(tmp_path / "run", tmp_path / "log", shard="2/2")
    assert second.unfinished == {}
    assert (tmp_path / "run" / "scores.json").read_bytes() == alone
    assert Counter(images_made(tmp_path / "log")) == Counter(every_image())
    verism.score(tmp_path / "run")
    assert (tmp_path / "run" / "scores.json").read_bytes() == alone
    assert len(list((tmp_path / "run" / "images").glob("part-*"))) == 1  # put together by the last one


def test_a_score_of_a_run_that_is_not_finished_says_so(tmp_path):
    run = evaluate(tmp_path / "run", shard="1/2")
    verism.score(run)
    assert any("24 of its images are not there yet" in line for line in run.manifest.scoring.remarks)


def test_whatever_shows_the_numbers_of_a_run_that_is_not_finished_says_so(tmp_path, whole):
    from commands import verism as command

    from verism.plans.board import make_board

    part, whole = evaluate(tmp_path / "part", shard="1/2").path, shutil.copytree(whole, tmp_path / "whole")
    verism.score(part)
    said = f"note: {part}: the run is not finished: 24 of its images are not there yet\n"
    for form in ("--markdown", "--latex", "--csv", "--json"):
        assert command("report", whole, part, form).stderr == said
    for form in ((), ("--json",)):
        assert said in command("compare", whole, part, *form).stderr
    cells = {row.name: list(row.cells.values()) for row in make_board([tmp_path]).rows}
    left_out = [{(cell.left_out, cell.coverage) for cell in row} for row in cells.values()]
    assert sorted(left_out, key=str) == [
        {("", 1.0)},
        {("the run is not finished: 24 of its images are not there yet", None)},
    ]


def test_options_that_contradict_each_other_are_refused(tmp_path):
    with pytest.raises(UsageError, match="--shard or --share, not both"):
        evaluate(tmp_path / "run", shard="1/2", share=True)
    with pytest.raises(UsageError, match="--retry is for a process that works alone"):
        evaluate(tmp_path / "run", share=True, retry=True)
    with pytest.raises(UsageError, match="--out is missing"):
        evaluate(None, share=True)


def refusal(out: Path, this: str, there: str, now: str) -> str:
    return (
        f"{out} is scored by other rules than this process with {this} was given:\n"
        f"  threshold_revised: {there} there, {now} now\n"
        "Give the same --threshold and --rule to all processes that share a run. Images and observations do not depend "
        "on them; for scores by these ones, when all is done: "
        f"verism score {out} --rule threshold_revised={now}"
    )


@pytest.mark.parametrize(
    ("first", "other", "this"),
    [
        ({"shard": "1/2", "threshold": 0.4}, {"shard": "2/2", "threshold": 0.6}, "--shard 2/2"),
        ({"shard": "1/2", "threshold": 0.4}, {"share": True, "rules": {"threshold_revised": 0.6}}, "--share"),
        ({"share": True, "threshold": 0.4}, {"share": True, "threshold": 0.6}, "--share"),  # when all is done
        ({"threshold": 0.4}, {"share": True, "threshold": 0.6, "limit": LIMIT + 8}, "--share"),  # and is to grow
    ],
)
def test_a_process_with_other_rules_is_refused_before_it_makes_an_image(tmp_path, first, other, this):
    out, log = tmp_path / "run", tmp_path / "log"
    log.mkdir()
    evaluate(out, **first)
    before = Run.open(out).stored_scoring()
    with pytest.raises(UsageError) as err:
        evaluate(out, log, **other)
    assert str(err.value) == refusal(out, this, "0.4", "0.6")
    assert images_made(log) == []
    assert Run.open(out).stored_scoring() == before
    # Scored as the message says, the run has these rules, and goes on with them.
    verism.score(out, rules={"threshold_revised": 0.6})
    scored = evaluate(out, **other | {"shard": None, "share": True})
    assert scored.unfinished == {}
    assert scored.manifest.scoring.rules["threshold_revised"] == 0.6


def test_one_process_gives_a_finished_run_another_threshold(tmp_path):
    for threshold in (0.4, 0.6):
        run = evaluate(tmp_path / "run", threshold=threshold)
        assert run.manifest.scoring.rules["threshold_revised"] == threshold


def test_a_run_that_is_scored_by_other_rules_meanwhile_keeps_them(tmp_path):
    out = tmp_path / "run"
    evaluate(out, shard="1/2", threshold=0.4)

    class Meanwhile(Shard):
        def turn(self, what):
            verism.score(out, threshold=0.6)
            return super().turn(what)

    with pytest.raises(UsageError) as err:
        evaluate(out, shard=Meanwhile(2, 2), threshold=0.4)
    assert str(err.value) == refusal(out, "--shard 2/2", "0.6", "0.4")
    run = Run.open(out)
    assert run.manifest.scoring.rules["threshold_revised"] == 0.6
    assert run.ids("images").holds(every_image()).all()  # nothing of what it was asked for is lost


def test_of_processes_that_begin_a_run_at_once_those_with_the_rules_of_one_go_on(tmp_path):
    thresholds = [0.3, 0.4, 0.5, 0.6]
    ready = threading.Barrier(len(thresholds))

    class Together(Shard):
        def agree(self, own, wanted):  # judges are asked for before a process begins the run
            if wanted:
                ready.wait(timeout=60)
            return super().agree(own, wanted)

    refused: list[str] = []

    def process(index: int, threshold: float) -> None:
        try:
            evaluate(tmp_path / "run", shard=Together(index, len(thresholds)), threshold=threshold)
        except UsageError as err:
            refused.append(str(err))

    threads = [threading.Thread(target=process, args=each) for each in enumerate(thresholds, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = Run.open(tmp_path / "run").manifest.scoring.rules["threshold_revised"]
    assert len(refused) == len(thresholds) - 1
    assert [line for line in refused if f"threshold_revised: {kept} there" not in line] == []


def test_another_judge_observes_by_shares(tmp_path, whole):
    from fakes import PixelJudge

    for folder, shards in (("one", [None]), ("two", ["1/2", "2/2"])):
        run = Run.open(shutil.copytree(whole, tmp_path / folder))
        judges = [PixelJudge(name="other@1", wrong=lambda image_id: image_id.endswith("1#0")) for _ in shards]
        scores = [verism.observe(run, judge, shard=shard) for judge, shard in zip(judges, shards, strict=True)]
        assert [bool(s) for s in scores] == [False] * (len(shards) - 1) + [True]
        assert sorted(chain(*(judge.seen for judge in judges))) == every_image()
    assert (tmp_path / "one" / "scores.json").read_bytes() == (tmp_path / "two" / "scores.json").read_bytes()


# ------------------------------------------------------------------------------------------------------------- leases
@pytest.fixture(params=["disk", *SERVICES])
def root(request, tmp_path, monkeypatch):
    """A run directory for leases."""
    if request.param == "disk":
        yield tmp_path
    else:
        with storage_server(request.param, monkeypatch, tmp_path) as server:
            yield location(f"{server.root}/run")


def taken(shares: LeasedShares, done: set[str], *, finish: bool = True, most: int = 99) -> list[str]:
    """What a process claims, and does at once."""
    items: list[str] = []
    with shares.claims("stage", LETTERS, key=str, done=lambda: set(done)) as claims:
        for claim in claims:
            if claim is None:
                break
            items += claim.items
            if finish:
                done |= set(claim.items)
                claim.advance(len(claim.items))
            most -= 1
            if not most:
                break
    return items


def test_blocks_cover_all_items_whatever_their_number():
    for count in (0, 1, 7, 8, 9, 1000, 30_000, 1_000_000):
        blocks = blocks_of(range(count))
        assert [n for block in blocks for n in block] == list(range(count))
        assert BLOCK_SIZES[0] <= block_size(count) <= BLOCK_SIZES[1]


def test_two_owners_never_have_one_block(root):
    done: set[str] = set()
    with (
        LeasedShares(root, poll=0.01) as a,
        LeasedShares(root, poll=0.01) as b,
        a.claims("stage", LETTERS, key=str, done=lambda: done) as of_a,
        b.claims("stage", LETTERS, key=str, done=lambda: done) as of_b,
    ):
        claims = [next(of_a), next(of_b), next(of_a), next(of_b), next(of_a)]
        assert next(of_b) is None  # all are taken, and some by itself: it must not wait
        for claim in claims:
            claim.advance(len(claim.items))
        assert list(of_a) == list(of_b) == []
    assert sorted(item for claim in claims for item in claim.items) == LETTERS


def test_what_is_left_unfinished_is_taken_at_once_and_what_is_done_is_not(root):
    done: set[str] = set()
    with LeasedShares(root, poll=0.01) as a, LeasedShares(root, poll=0.01) as b:
        first = taken(a, done, most=1)
        given_up = taken(a, set(done), finish=False, most=1)
        rest = taken(b, done)
    assert sorted(first + rest) == LETTERS
    assert set(given_up) <= set(rest)


def test_a_mark_that_the_tables_do_not_bear_out_is_done_again(root):
    with LeasedShares(root, poll=0.01) as a:
        assert sorted(taken(a, set())) == LETTERS
    lost = set(LETTERS[BLOCK : 2 * BLOCK])
    with LeasedShares(root, poll=0.01) as b:
        assert set(taken(b, set(LETTERS) - lost)) == lost


def test_a_silent_owner_is_waited_for_and_then_relieved(root, monkeypatch):
    monkeypatch.setattr("verism.pipeline.leases._is_gone", lambda _: False)  # as on another machine
    silent, other = LeasedShares(root, expiry=1e6), LeasedShares(root, expiry=0.3, poll=0.02)
    with silent.claims("stage", LETTERS, key=str, done=set) as claims, other:
        held = next(claims)
        began = time.monotonic()
        assert sorted(taken(other, set())) == LETTERS
        assert time.monotonic() - began > 0.3
        assert held is not None


def test_an_owner_that_is_heard_of_is_not_relieved(tmp_path, monkeypatch):
    monkeypatch.setattr("verism.pipeline.leases._is_gone", lambda _: False)
    done: set[str] = set()
    with (
        LeasedShares(tmp_path, expiry=0.6) as slow,
        LeasedShares(tmp_path, expiry=0.6, poll=0.02) as other,
        slow.claims("stage", LETTERS, key=str, done=set) as claims,
    ):
        held = next(claims)
        timer = threading.Timer(2.0, lambda: held.advance(len(held.items)))
        timer.start()
        assert not set(taken(other, done)) & set(held.items)
        assert held.left == 0  # it was waited for
        timer.join()


def test_an_owner_that_ended_on_this_machine_is_relieved_at_once(tmp_path):
    code = f"""
import os
from pathlib import Path
from verism.pipeline.leases import LeasedShares
items = {LETTERS!r}
with LeasedShares(Path({str(tmp_path)!r})).claims("stage", items, key=str, done=set) as claims:
    next(claims)
    os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert list((tmp_path / FOLDER / "stage-40-8").glob("*.json"))
    with LeasedShares(tmp_path, poll=0.01) as other:
        assert sorted(taken(other, set())) == LETTERS


def test_a_turn_is_one_process_s_at_a_time(tmp_path):
    at_it, most = [], []

    def worker() -> None:
        with LeasedShares(tmp_path, poll=0.005) as shares, shares.turn("scores"):
            at_it.append(1)
            most.append(len(at_it))
            time.sleep(0.02)
            at_it.pop()

    threads = [threading.Thread(target=worker) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 5


# ---------------------------------------------------------------------------------------------------------- processes
def started(out: Path, log: Path, **options: object) -> subprocess.Popen[str]:
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
from share_runs import evaluate
evaluate(Path({str(out)!r}), Path({str(log)!r}), seconds=0.02, **{options!r})
"""
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


def test_processes_that_share_a_run_and_are_killed_end_in_the_scores_of_one(tmp_path, alone):
    log = tmp_path / "log"
    log.mkdir()
    rng = random.Random(3)
    processes = [started(tmp_path / "run", log, share=True) for _ in range(2)]
    deadline = time.monotonic() + 60
    while len(images_made(log)) < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    victim = processes.pop(rng.randrange(2))
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    processes.append(started(tmp_path / "run", log, share=True))
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert (tmp_path / "run" / "scores.json").read_bytes() == alone
    run = Run.open(tmp_path / "run")
    assert run.read("images")["image_id"].to_list() == every_image()
    assert verify(run.path).is_whole
    assert not (tmp_path / "run" / FOLDER).exists()
    times = Counter(images_made(log))
    assert set(times) == set(every_image())
    # Made twice is at most what the victim had claimed, and the others work on no block of each other.
    assert sum(times.values()) - len(times) <= 2 * BLOCK
