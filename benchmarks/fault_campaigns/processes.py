"""Several processes on one run directory: what a run says is of the images that lie there, and readers see it whole."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

from fault_campaigns.commands import called, forked, started
from fault_campaigns.runs import PROMPTS, contents, differences
from fault_campaigns.trials import Job, Outcome, Setting, Site, Trial, traceback_in, worst

NAME = "processes"
WAIT_S = 150.0

# A program that answers every request with another image, however often it is asked: a class of objects would show
# nothing here, so it is patches of chance, of which the detector makes boxes of chance.
CHANCE = """
import json, os, random, struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
lot = random.SystemRandom()
for line in sys.stdin:
    request = json.loads(line)
    color, other, edge = lot.randbytes(3), lot.randbytes(3), lot.randrange(8, 56)
    rows = b"".join(b"\\0" + color * edge + other * (64 - edge) for _ in range(64))
    png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    with open(request["path"], "wb") as file:
        file.write(png)
    print(json.dumps({"image_id": request["image_id"]}), flush=True)
"""


def jobs(setting: Setting) -> list[Job]:
    """Runs that two to four processes share, and scorings beside readers."""
    if setting.quick:
        return [Job(NAME, read_beside, (2, 4), 6)]
    made = [Job(NAME, share_chance, (number, 2 + number % 3), 15) for number in range(6)]
    made += [Job(NAME, share_images, (number, 2 + number % 3), 10) for number in range(3)]
    return made + [Job(NAME, read_beside, (number, 30), 15) for number in range(4)]


def share_chance(site: Site, number: int, processes: int) -> Iterator[Trial]:
    """Several processes with a generator that does not repeat itself."""
    program = site.folder / "chance.py"
    program.write_text(CHANCE)
    out = site.folder / "run"
    words = ["run", "paintskills", "--model", f"command:{sys.executable} {program}", "--limit", "24", "--seed", "5"]
    words += ["--detector", "builtin", "--threads", "1", "--out", str(out)]
    ended = _together(site, words, processes)
    outcome, detail = worst([*ended, _of_the_run(site, out, 24)])
    name = f"{processes} processes, a generator of chance, {number}"
    yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail)


def share_images(site: Site, number: int, processes: int) -> Iterator[Trial]:
    """Several processes with a user's images: the same scores as of one."""
    out = site.folder / "run"
    words = ["run", "paintskills", "--images", str(site.templates / "pictures"), *PROMPTS, "--detector", "builtin"]
    words += ["--threads", "1", "--out", str(out)]
    ended = _together(site, words, processes)
    unlike = differences(contents(out), contents(site.templates / "mine"))
    found: list[tuple[Outcome, str]] = [*ended, ("silent", unlike) if unlike else ("survived", "")]
    outcome, detail = worst(found)
    yield Trial(campaign=NAME, name=f"{processes} processes, images, {number}", outcome=outcome, detail=detail)


def read_beside(site: Site, number: int, reads: int) -> Iterator[Trial]:
    """Readers while another process scores by one threshold and another in turn, and puts tables together."""
    run = site.folder / "run"
    shutil.copytree(site.templates / "mine", run)
    states = []
    for threshold in ("0.2", "0.8"):
        forked(["score", run, "--threshold", threshold], cwd=site.folder)
        states.append(forked(["report", run, "--json"], cwd=site.folder).out)
    writers = [_loop(site, run, seconds=600.0) for _ in range(1 + number % 2)]
    try:
        for read in range(reads):
            done = forked(["report", run, "--json"], cwd=site.folder)
            found: list[tuple[Outcome, str]] = [("survived", "")]
            if said := traceback_in(done.said):
                found.append(("traceback", said))
            elif done.code != 0:
                found.append(("lost", f"exit code {done.code}: {done.said[-300:]}"))
            elif len(writers) == 1 and done.out not in states:
                found.append(("silent", "scores of neither scoring"))
            outcome, detail = worst(found)
            name = f"reader {number}, {read}, beside {len(writers)} that score"
            yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail)
        fallen = [w for w in writers if w.poll() is not None]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    logs = "".join(path.read_text(errors="replace") for path in site.folder.glob("loop-*.log"))
    broken: list[tuple[Outcome, str]] = [("traceback", traceback_in(logs))] if traceback_in(logs) else []
    if fallen:
        broken.append(("lost", f"a process that scores ended: {logs[-300:]}"))
    outcome, detail = worst(broken)
    yield Trial(campaign=NAME, name=f"writers of reader {number}", outcome=outcome, detail=detail)


LOOP = """
import sys, time
from pathlib import Path
from verism import api
from verism.store import Run
end = time.monotonic() + float(sys.argv[2])
turn = 0
while time.monotonic() < end:
    turn += 1
    run = Run.open(Path(sys.argv[1]))
    rows = run.read("images")
    for part in range(3):
        run.append("images", rows[part::3])
    run.compact("images")
    api.score(Path(sys.argv[1]), threshold=(0.2, 0.8)[turn % 2])
"""


def _loop(site: Site, run: Path, *, seconds: float) -> Popen[bytes]:
    log = site.folder / f"loop-{time.monotonic_ns()}.log"
    with log.open("wb") as file:
        return Popen([sys.executable, "-c", LOOP, str(run), str(seconds)], cwd=site.folder, stdout=file, stderr=file)


def _together(site: Site, words: list[str], processes: int) -> list[tuple[Outcome, str]]:
    """Start a command several times at once, and wait for all."""
    logs = [site.folder / f"log-{number}" for number in range(processes)]
    running = [started(words, cwd=site.folder, err=log) for log in logs]
    end = time.monotonic() + WAIT_S
    found: list[tuple[Outcome, str]] = []
    for process, log in zip(running, logs, strict=True):
        try:
            code = process.wait(max(0.1, end - time.monotonic()))
        except Exception:
            process.kill()
            process.wait()
            found.append(("lost", f"not over after {WAIT_S:.0f} s"))
            continue
        said = log.read_text(errors="replace")
        if back := traceback_in(said):
            found.append(("traceback", back))
        elif code != 0:
            found.append(("lost", f"exit code {code}: {said[-300:]}"))
    return found


def _of_the_run(site: Site, out: Path, images: int) -> tuple[Outcome, str]:
    state = contents(out)
    if "broken" in state or "refused" in state:
        return "lost", str(state)[:300]
    if len(state["images"]) != images:
        return "lost", f"{len(state['images'])} of {images} images"
    if state["faults"]:
        return "silent", "; ".join(state["faults"])[:300]
    done = called(_foreign_boxes, out, cwd=site.folder)
    if done.result is None:
        return "traceback", traceback_in(done.said) or done.said[-200:]
    return ("silent", f"boxes are not of the images that lie there: {done.result}") if done.result else ("survived", "")


def _foreign_boxes(path: Path) -> list[str]:
    """Images whose boxes are not those that the detector finds in their files."""
    from verism.imaging import read_image
    from verism.judges.detection.builtin import BuiltinDetector
    from verism.records import DetectionNeed, LoadedImage
    from verism.store import Run
    from verism.suites.paintskills.suite import PaintSkills

    run = Run.open(path)
    detector = BuiltinDetector(threads=1)
    (need,) = PaintSkills.standard(limit=24, seed=5).needs()
    assert isinstance(need, DetectionNeed)
    stored: dict[str, list[Any]] = {}
    for row in run.read("detections", run.judges("detections")[0]).iter_rows(named=True):
        stored.setdefault(row["image_id"], []).append(json.dumps(row, default=str))
    wrong = []
    for row in run.read("images").iter_rows(named=True):
        pixels = read_image(run.resolve(row["path"])).pixels
        if pixels is None:
            continue
        image = LoadedImage(image_id=row["image_id"], prompt_id=row["prompt_id"], pixels=pixels)
        names = set(json.loads(stored[row["image_id"]][0])) if row["image_id"] in stored else set()
        found = detector.observe([image], need).iter_rows(named=True)
        now = [json.dumps({k: v for k, v in box.items() if k in names or not names}, default=str) for box in found]
        if sorted(now) != sorted(stored.get(row["image_id"], [])):
            wrong.append(row["image_id"])
    return wrong
