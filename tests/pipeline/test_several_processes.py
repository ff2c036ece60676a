"""Several processes on one run directory: rows, files, boxes and verdicts speak of one image, and readers are safe."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
from fakes import PixelJudge, found_in

from verism.imaging import read_image
from verism.manifest import RunSettings
from verism.pipeline.local import make_requests, run_images
from verism.pipeline.scoring import score_run
from verism.records import Request, Result
from verism.store import Run, verify

TESTS = Path(__file__).parents[1]

# Every process makes other images of the same prompts: an object at a place of chance, and waits for chance.
WORKER = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
import numpy as np
from fakes import PixelJudge
from verism.pipeline import local
from verism.pipeline.scoring import score_run
from verism.records import Result
from verism.store import Run
from verism.suites.paintskills.suite import PaintSkills

local.BATCH = 4
rng = np.random.default_rng()

class Chance:
    name = "chance"

    def generate(self, requests):
        for request in requests:
            pixels = rng.integers(0, 100, (64, 64, 3), dtype=np.uint8)
            x, y = rng.integers(0, 48, 2)
            pixels[y : y + 16, x : x + 16] = 1, 0, 200
            time.sleep(rng.random() * 0.01)
            yield Result(image_id=request.image_id, state="ok", pixels=pixels)

run = Run.open(Path({run!r}))
suite = PaintSkills.reopen({{}}, run.prompts())
judge = PixelJudge()
time.sleep(max(0, {start} - time.time()))
local.run_images(run, local.make_requests(run.prompts(), 5), Chance(), [(judge, n) for n in suite.needs()])
score_run(run, suite, judges={{"detector": judge.name}})
"""


def started(script: str, **values: object) -> subprocess.Popen[str]:
    code = textwrap.dedent(script).format(tests=str(TESTS), **values)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What the processes printed, once all have ended well."""
    answers = [process.communicate(timeout=300) for process in processes]
    for process, (_, errors) in zip(processes, answers, strict=True):
        assert process.returncode == 0, errors
    return [output for output, _ in answers]


def check_bound(run: Run, judge: str) -> None:
    """Every row names the image that lies there, and the boxes are of this image."""
    rows = run.read("images")
    boxes = run.read("detections", judge)
    assert boxes.group_by("image_id").len()["len"].to_list() == [2] * rows.height
    for row in rows.iter_rows(named=True):
        image = read_image(run.resolve(row["path"]))
        assert image.sha256 == row["sha256"]
        assert row["sha256"][:16] in row["path"]
        assert image.pixels is not None
        ((_, _, seen),) = found_in(image.pixels)
        own = boxes.filter((pl.col("image_id") == row["image_id"]) & (pl.col("query") == 0))
        assert own.select("x0", "y0", "x1", "y1").row(0) == tuple(float(v) for v in seen)


def test_several_processes_and_a_generator_of_chance_keep_one_image_each(tmp_path, suite, prompts):
    import time

    run = Run.start(tmp_path / "run", RunSettings(suite=suite.name, seed=5))
    many = list(prompts)
    run.write_prompts(many)
    start = time.time() + 2.0  # when all have loaded their libraries
    finished([started(WORKER, run=str(run.path), start=start) for _ in range(3)])
    assert run.read("images")["image_id"].to_list() == sorted(r.image_id for r in make_requests(many, 5))
    check_bound(run, "pixel-judge@1")
    found = verify(run.path)
    assert all(f.problem in ("leftover", "outdated") for f in found.findings)
    # The verdicts are those of the images that count.
    before = run.verdicts()
    score_run(run, suite, judges={"detector": "pixel-judge@1"})
    assert found.is_whole <= before.equals(run.verdicts())
    assert verify(run.path).is_whole


def test_an_image_that_another_process_kept_meanwhile_is_not_judged_and_its_file_goes(tmp_path, suite, prompts):
    import numpy as np

    run = Run.start(tmp_path / "run", RunSettings(suite=suite.name, seed=5))
    run.write_prompts(prompts)
    requests = make_requests(prompts, 5)

    class At:
        name = "at"

        def __init__(self, x: int, before=lambda: None) -> None:
            self.x, self.before = x, before

        def generate(self, asked: list[Request]):
            for number, request in enumerate(asked):
                if number == 0:
                    self.before()
                pixels = np.random.default_rng(number).integers(0, 100, (64, 64, 3), dtype=np.uint8)
                pixels[8:24, self.x : self.x + 16] = 1, 0, 200
                yield Result(image_id=request.image_id, state="ok", pixels=pixels)

    other = Run.open(run.path)
    first, second = PixelJudge(), PixelJudge()
    # The other process does everything after this one has asked what is there, and before its first image is made.
    meanwhile = At(30, lambda: run_images(other, requests, At(4), [(first, need) for need in suite.needs()]))
    run_images(run, requests, meanwhile, [(second, need) for need in suite.needs()])
    assert len(first.seen) == 12
    assert second.seen == []
    check_bound(run, first.name)
    assert set(run.read("detections", first.name).filter(pl.col("query") == 0)["x0"]) == {4.0}
    assert verify(run.path).findings == ()


def test_two_rows_about_one_image_leave_observations_of_the_one_that_counts(tmp_path, suite, prompts):
    """Two processes that keep an image in the same moment, before either can know of the other."""
    from verism.records import frame

    run = Run.start(tmp_path / "run", RunSettings(suite=suite.name, seed=5))
    run.write_prompts(prompts)
    for version in range(8):
        for number in range(6):
            png = f"image {number} version {version}".encode()
            digest = hashlib.sha256(png).hexdigest()
            row = {"image_id": f"p{number}", "prompt_id": f"p{number}", "index": 0, "state": "ok", "note": ""}
            row |= {"path": run.write_image(f"p{number}", png), "sha256": digest}
            box = {"image_id": f"p{number}", "judge": "j", "query": 0, "score": 0.5, "class_scores": [], "x0": version}
            run.append("detections", frame("detections", [box]), "j", images={f"p{number}": digest})
            run.append("images", frame("images", [row]))
            if (version + number) % 5 == 4:
                run.compact("images")
                run.compact("detections", "j")
    for _ in range(2):
        counted = {row["image_id"]: row["sha256"] for row in run.read("images").iter_rows(named=True)}
        boxes = run.read("detections", "j")
        assert boxes.height == len(counted) == 6
        for image_id, x0 in boxes.select("image_id", "x0").iter_rows():
            png = f"image {image_id[1:]} version {x0:.0f}".encode()
            assert hashlib.sha256(png).hexdigest() == counted[image_id]
        run.compact("images")
        run.compact("detections", "j")


# Appends rows of its own, and at times puts all parts into one or scores, while others read.
BUSY = """
import sys, time
from pathlib import Path
import polars as pl
from verism.records import Score, frame
from verism.store import Run

kind, number, until = {kind!r}, {number}, {until}
run = Run.open(Path({run!r}))

def rows(k):
    ids = [f"{{kind}}{{number}}-{{k}}-{{n}}" for n in range(5)]
    plain = {{"index": 0, "state": "ok", "note": ""}}
    return ids, frame("images", [plain | {{"image_id": i, "prompt_id": i, "sha256": i * 9}} for i in ids])

def boxes(ids):
    plain = {{"judge": "j", "class_scores": []}}
    return frame("detections", [plain | {{"image_id": i, "query": q}} for i in ids for q in (-1, 0)])

def scored(k):
    verdict = {{"image_id": "a", "prompt_id": "a", "protocol": "revised", "value": 1.0, "reason": "r"}}
    score = Score(suite="s", metric="m", protocol="revised", value=k, ci_low=0, ci_high=k, n_used=1, n_unusable=0)
    run.write_scoring(verdicts=frame("verdicts", [verdict | {{"rule": str(k)}}]), scores=[score])

done, k = [], 0
while time.time() < until or k < 5:
    k += 1
    if kind == "append":
        ids, table = rows(k)
        run.append("detections", boxes(ids), "j", images={{i: i * 9 for i in ids}})
        run.append("images", table)
        done += ids
    elif kind == "compact":
        run.compact("images")
        run.compact("detections", "j")
        scored(k)
    else:
        fresh = Run.open(Path({run!r}))
        before = fresh.keys("images")
        assert fresh.judges("detections") in ([], ["j"])
        there = fresh.keys("detections", "j")
        assert before <= there, len(before - there)  # boxes are written before the rows of their images
        assert fresh.read("detections", "j").group_by("image_id").len()["len"].unique().to_list() in ([], [2])
        assert before <= set(fresh.read("images")["image_id"])
        if fresh.is_scored:
            pinned = fresh.pinned()
            assert pinned.verdicts()["rule"].to_list() == [str(int(pinned.scores()[0].value))]
print(k, *done)
"""


def test_readers_beside_writers_and_compacting_ones_meet_no_error(tmp_path, suite):
    import time

    run = Run.start(tmp_path / "run", RunSettings(suite=suite.name))
    kinds = ["append", "append", "compact", "compact", "read", "read"]
    until = time.time() + 2.5
    answers = finished(
        [started(BUSY, run=str(run.path), kind=kind, number=n, until=until) for n, kind in enumerate(kinds)]
    )
    written = {name for kind, answer in zip(kinds, answers) if kind == "append" for name in answer.split()[1:]}
    assert len(written) >= 50
    assert run.keys("images") == written
    assert run.read("images").height == len(written)
    assert run.read("detections", "j").height == 2 * len(written)
    run.compact("images")
    run.compact("detections", "j")
    assert run.read("detections", "j").height == 2 * len(written)
