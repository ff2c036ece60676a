"""Programs as models: real processes that behave well, badly, and not at all."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fakes import rows_of
from PIL import Image as PilImage

import verism
from verism.errors import UsageError, VerismError
from verism.generators import command
from verism.generators.command import CommandGenerator, refuse_secret, split_options
from verism.records import Prompt, Request, frame

ROOT = Path(__file__).resolve().parents[2]

# Every program writes its process id and those of its children into a file, so that each test sees that they are gone.
HEAD = """
import hashlib, json, os, signal, subprocess, sys, time
HERE = os.path.dirname(os.path.abspath(__file__))
def remember(pid):
    with open(os.path.join(HERE, "pids"), "a") as file:
        file.write("%d\\n" % pid)
remember(os.getpid())
def life():
    # 1 in the first process of this program, 2 in the second ...
    return sum(1 for line in open(os.path.join(HERE, "pids")))
def log(text):
    with open(os.path.join(HERE, "log"), "a") as file:
        file.write(str(text) + "\\n")
def paint(request, path=None):
    # 8 x 4 pixels that depend on prompt and seed alone, in a format that needs no library
    seed = "%s/%d" % (request["prompt"], request["seed"])
    pixels = b"".join(hashlib.sha256(("%d/%s" % (i, seed)).encode()).digest() for i in range(3))
    with open(path or request["path"], "wb") as file:
        file.write(b"P6 8 4 255\\n" + pixels)
def say(**answer):
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
def requests():
    for line in iter(sys.stdin.readline, ""):
        yield json.loads(line)
"""

GOOD = """
for r in requests():
    paint(r)
    say(image_id=r["image_id"])
"""


def pixels_of(prompt: str, seed: int) -> np.ndarray:
    data = b"".join(hashlib.sha256(f"{i}/{prompt}/{seed}".encode()).digest() for i in range(3))
    return np.frombuffer(data, np.uint8).reshape(4, 8, 3)


def asked(*texts: str) -> list[Request]:
    return [
        Request(
            image_id=f"p_{k}#0",
            prompt=Prompt(prompt_id=f"p_{k}", suite="s", text=text),
            index=0,
            seed=1000 + k,
        )
        for k, text in enumerate(texts)
    ]


def numbered(count: int) -> list[Request]:
    return asked(*(f"prompt {k}" for k in range(count)))


def gone(pid: int) -> bool:
    """Whether there is no such process, not even a zombie that nobody has waited for."""
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        # A grandchild that was killed belongs to the init process, which may take its time to bury it.
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and status.read_text(encoding="utf-8").rpartition(")")[2].split()[:2] == ["Z", "1"]:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def program(tmp_path):
    """Makes generators of programs; afterwards closes them and sees that nothing of them is left."""
    made = []

    def make(body: str, *, flags: str = "-S -E", **options) -> CommandGenerator:
        (tmp_path / "program.py").write_text(HEAD + body, encoding="utf-8")
        # -S -E: starts in a third of the time
        made.append(CommandGenerator(f"{sys.executable} {flags} {tmp_path / 'program.py'}", **options))
        return made[-1]

    yield make
    folders = [Path(g._folder.name) for g in made if g._folder is not None]
    for generator in made:
        generator.close()
    assert not [f for f in folders if f.exists()]
    pids = tmp_path / "pids"
    left = [pid for pid in (pids.read_text().split() if pids.exists() else []) if not gone(int(pid))]
    assert not left, f"processes are left: {left}"


def check(requests, results, *, but=()) -> None:
    """Every image is there, in order, and the right one; but for the numbers in ``but``, which failed."""
    assert [r.image_id for r in results] == [r.image_id for r in requests]
    for number, (request, result) in enumerate(zip(requests, results, strict=True)):
        if number in but:
            assert (result.state, result.pixels) == ("failed", None), number
        else:
            assert result.state == "ok", (number, result.note)
            np.testing.assert_array_equal(result.pixels, pixels_of(request.prompt.text, request.seed))


def lives(tmp_path) -> int:
    return len((tmp_path / "pids").read_text().split())


# --------------------------------------------------------------------------------------------------------------------
# Programs that behave
# --------------------------------------------------------------------------------------------------------------------
def test_images_come_in_order_and_nothing_is_left(program, tmp_path):
    generator = program(
        """
say(name="painter", version="2", steps=30)
for r in requests():
    log(json.dumps([r, os.environ["VERISM_PROTOCOL"], os.environ["VERISM_OUT"]]))
    paint(r)
    say(image_id=r["image_id"])
log("end of input")
"""
    )
    requests = numbered(5)
    results = list(generator.generate(requests))
    check(requests, results)
    assert all(r.seeded and r.note == "" and r.path is None for r in results)
    *rows, end = (tmp_path / "log").read_text().splitlines()
    assert end == "end of input"
    assert not os.listdir(generator.out)
    for request, row in zip(requests, rows, strict=True):
        result, version, out = json.loads(row)
        path = Path(result.pop("path"))
        assert (path.parent, path.suffix, version) == (Path(out), ".png", "1")
        assert result == {
            "image_id": request.image_id,
            "prompt_id": request.prompt.prompt_id,
            "prompt": request.prompt.text,
            "index": 0,
            "seed": request.seed,
        }
    assert generator.describe()["reported"] == {"name": "painter", "version": "2", "steps": 30}
    assert generator.starts == 1
    assert generator.summary() == []


def test_it_can_be_asked_again(program):
    generator = program(GOOD)
    for _ in range(2):
        check(numbered(2), list(generator.generate(numbered(2))))
    assert list(generator.generate([])) == []
    assert generator.starts == 2


def test_answers_in_another_order(program):
    generator = program(
        """
hands = []
for r in requests():
    hands.append(r)
    if len(hands) == 5:
        for r in reversed(hands):
            paint(r)
            say(image_id=r["image_id"])
        hands = []
""",
        ahead=5,
    )
    check(numbered(20), list(generator.generate(numbered(20))))
    assert generator.starts == 1


@pytest.mark.parametrize(("ahead", "most"), [(1, 1), (4, 4), (32, 12)])
def test_so_many_are_in_its_hands(program, tmp_path, ahead, most):
    # The program waits until nothing more comes, so it sees all that it is given at once.
    generator = program(
        """
import select
while True:
    data = b""
    while not data.endswith(b"\\n") or select.select([0], [], [], 0.1)[0]:
        new = os.read(0, 1 << 16)
        data += new
        if not new:
            break
    batch = [json.loads(line) for line in data.splitlines()]
    if not batch:
        break
    log(len(batch))
    for r in batch:
        paint(r)
        sys.stdout.write(json.dumps({"image_id": r["image_id"]}) + "\\n")
    sys.stdout.flush()
""",
        ahead=ahead,
    )
    requests = numbered(12 if ahead > 1 else 3)
    check(requests, list(generator.generate(requests)))
    sizes = [int(n) for n in (tmp_path / "log").read_text().split()]
    assert max(sizes) == most
    assert sum(sizes) == len(requests)


def test_it_is_not_asked_for_more_than_is_wanted(program, tmp_path):
    generator = program(GOOD.replace("paint(r)", "paint(r); log(r['image_id'])"), ahead=2)
    results = generator.generate(numbered(500))
    for _ in range(3):
        next(results)
    time.sleep(0.3)
    # 3 handed on, and at most 4 * ahead asked for beyond these
    assert len((tmp_path / "log").read_text().split()) <= 3 + 8
    results.close()


def test_the_first_may_be_the_last(program):
    # It keeps the first request until there are no more. All others wait for it, in files and not in memory.
    generator = program(
        """
first = None
for r in requests():
    if first is None:
        first = r
    else:
        paint(r)
        say(image_id=r["image_id"])
paint(first)
say(image_id=first["image_id"])
""",
        ahead=8,
    )
    requests = numbered(30)
    check(requests, list(generator.generate(requests)))


def test_a_slow_first_image_holds_the_others_up(program, tmp_path):
    # Else all images of a run might lie in the temporary directory at once. 4 * ahead = 8, the first included.
    generator = program(
        """
import select
sys.stdin = os.fdopen(0, "rb", buffering=0)  # or requests would wait unseen in a buffer
rest = map(json.loads, iter(sys.stdin.readline, b""))
first, count = next(rest), 1
while select.select([0], [], [], 0.4)[0]:
    r = next(rest)
    count += 1
    paint(r)
    say(image_id=r["image_id"])
log(count)
paint(first)
say(image_id=first["image_id"])
for r in rest:
    paint(r)
    say(image_id=r["image_id"])
""",
        ahead=2,
    )
    requests = numbered(40)
    check(requests, list(generator.generate(requests)))
    assert int((tmp_path / "log").read_text()) == 8


def test_a_program_of_one_image_is_started_for_each(program, tmp_path):
    generator = program('r = next(requests()); paint(r); say(image_id=r["image_id"])', ahead=1, restarts=0)
    check(numbered(4), list(generator.generate(numbered(4))))
    assert lives(tmp_path) == 4
    assert generator.summary() == ["program.py was started 4 times"]


def test_any_text_is_a_prompt(program):
    texts = [
        "ein Fuß im Schnee",
        "два кота",
        "一只狗",
        "👩‍🔬 & «π»",
        'quotes " and \\',
        "line\nend\u2028s",
        "\ud800",
        " ",
    ]
    generator = program('for r in requests():\n    say(image_id=r["image_id"], state="refused", note=r["prompt"])')
    results = list(generator.generate(asked(*texts)))
    # Half a character goes to the program as it is; what comes back is stored, and half characters cannot be.
    assert [r.note for r in results] == [t.replace("\ud800", "?") for t in texts]


def test_a_python_program_need_not_flush(program, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    # Its answers would wait in a buffer, and verism for them. (-E would make it deaf to the environment.)
    body = 'for r in requests():\n    paint(r)\n    print(json.dumps({"image_id": r["image_id"]}))'
    check(numbered(4), list(program(body, flags="-S", ahead=2).generate(numbered(4))))


def test_long_prompts_fill_no_pipe(program):
    # 2 MB of requests to a program that first writes 3 MB to each output: a pipe holds 64 KB.
    generator = program(
        """
sys.stderr.write("noise " * 500000)
sys.stdout.write(("more " * 500 + "noise\\n") * 1200)
sys.stdout.flush()
for r in requests():
    sys.stdout.write(("noise " * 500 + "\\n") * 30)
    sys.stderr.write("noise\\n" * 10000)
    paint(r)
    say(image_id=r["image_id"])
"""
    )
    requests = asked(*(f"{k} dogs " * 12000 for k in range(20)))
    check(requests, list(generator.generate(requests)))


def test_notes_refusals_and_seeds_are_kept(program):
    generator = program(
        """
for r in requests():
    if r["prompt"] == "bad":
        say(image_id=r["image_id"], state="refused", note="not that")
    elif r["prompt"] == "hard":
        say(image_id=r["image_id"], state="failed")
    elif r["prompt"] == "odd":
        say(image_id=r["image_id"], state="done")
    else:
        paint(r)
        say(image_id=r["image_id"], state="ok", note="upscaled", seeded=False, elsewhere=[1])
"""
    )
    results = list(generator.generate(asked("bad", "hard", "odd", "good")))
    assert [(r.state, r.note) for r in results] == [
        ("refused", "not that"),
        ("failed", "the program gave no reason"),
        ("failed", "the program answered with state 'done'; expected ok, refused or failed"),
        ("ok", "upscaled"),
    ]
    assert [r.seeded for r in results] == [True, True, True, False]


# --------------------------------------------------------------------------------------------------------------------
# What it prints
# --------------------------------------------------------------------------------------------------------------------
def test_what_is_no_answer_goes_to_standard_error(program, capsys):
    generator = program(
        """
print("loading weights ...")
print({"steps": 3})
print(json.dumps({"progress": 0.5}))
sys.stderr.write("50%\\r100%\\n")
sys.stdout.buffer.write(b"\\xff\\xfe latin\\n")
"""
        + GOOD
    )
    check(numbered(2), list(generator.generate(numbered(2))))
    out, err = capsys.readouterr()
    assert out == ""
    for text in ("loading weights ...", "{'steps': 3}", '{"progress": 0.5}', "50%\r100%\n", "\ufffd\ufffd latin"):
        assert err.count(text) == 1, text
    assert err.count("program.py prints to standard output, where answers belong") == 1


def test_a_broken_answer_fails_its_image(program):
    generator = program(
        """
for r in requests():
    if r["prompt"] == "prompt 1":
        print('{"image_id": "%s", "path": "x.png' % r["image_id"], flush=True)
    else:
        paint(r)
        say(image_id=r["image_id"])
"""
    )
    results = list(generator.generate(numbered(4)))
    check(numbered(4), results, but={1})
    assert "a line that is no JSON" in results[1].note
    assert '"path": "x.png' in results[1].note
    assert generator.starts == 1


def test_a_broken_answer_of_nobody_knows_whom(program, capsys):
    # Half an id: said aloud; when the program has ended the image is asked for again.
    generator = program(
        """
for r in requests():
    if r["prompt"] == "prompt 1" and life() == 1:
        print('{"image_id": "p_', flush=True)
    else:
        paint(r)
        say(image_id=r["image_id"])
"""
    )
    check(numbered(4), list(generator.generate(numbered(4))))
    assert generator.starts == 2
    assert "answered with a line that is no JSON (Unterminated string" in capsys.readouterr().err


def test_the_first_of_two_answers_counts(program, capsys):
    generator = program(
        """
for r in requests():
    paint(r)
    say(image_id=r["image_id"])
    say(image_id=r["image_id"], state="failed")
"""
    )
    check(numbered(3), list(generator.generate(numbered(3))))
    assert "answered twice for 'p_0#0'; the first answer counts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"image_id": "p_0", "path": "x.png"}, r"answered for image_id 'p_0', which it was not asked for; .* 'p_0#0'"),
        ({"image_id": 0}, r"answered for image_id 0, which it was not asked for"),
        ({"image_id": None}, r"image_id None"),
        ({"image_id": "p_3#0"}, r"answered for 'p_3#0' before it was asked for it"),
        ({"path": "x.png"}, r"program.py answered without image_id: \{\"path\": \"x.png\"\}"),
        ({"state": "refused"}, r"answered without image_id"),
    ],
)
def test_answers_to_what_was_not_asked(program, line, message):
    generator = program(f"next(requests())\nsay(**{line!r})\ntime.sleep(60)", ahead=2)
    with pytest.raises(VerismError, match=message):
        list(generator.generate(numbered(4)))


def test_silence_is_explained(program, capsys, monkeypatch):
    # It waits for a batch of three, and never gets more than two at once.
    monkeypatch.setattr(command, "SILENCE_S", 0.3)
    generator = program("hands = [next(requests()) for _ in range(3)]", ahead=2)
    threading.Timer(1.0, generator.close).start()
    with pytest.raises(VerismError, match="was closed while images were waited for"):
        list(generator.generate(numbered(3)))
    answer = capsys.readouterr().err
    assert answer.count("no answer from program.py in 0 s.") == 1
    assert "starting it again" not in answer
    assert "flush its standard output" in answer
    assert "more than ahead=2 requests" in answer


# --------------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------------
def test_files_that_are_no_images_fail(program, tmp_path):
    generator = program(
        """
answers = {
    "missing": {}, "text": {}, "empty": {}, "folder": {"path": HERE}, "number": {"path": 5}, "nul": {"path": "a\\0b"},
    "pipe": {"path": os.path.join(HERE, "pipe")}, "long": {"path": "x" * 5000}, "nothing": {"path": ""},
}
os.mkfifo(os.path.join(HERE, "pipe"))
for r in requests():
    if r["prompt"] in ("text", "empty"):
        with open(r["path"], "w") as file:
            file.write("hello" if r["prompt"] == "text" else "")
    say(image_id=r["image_id"], **answers[r["prompt"]])
"""
    )
    texts = ["missing", "text", "empty", "folder", "number", "nul", "pipe", "long", "nothing"]
    results = list(generator.generate(asked(*texts)))
    assert [r.state for r in results] == ["failed"] * len(texts)
    notes = dict(zip(texts, (r.note for r in results), strict=True))
    assert notes["missing"].startswith("no such file: 000001.png (")
    assert "not an image file" in notes["text"]
    assert notes["empty"] == "empty file (0 bytes)"
    assert notes["folder"] == f"{tmp_path}: not a file"
    assert notes["pipe"] == f"{tmp_path / 'pipe'}: not a file"
    assert notes["number"] == "the program answered with path 5"
    assert "cannot be opened" in notes["long"]


def test_a_flat_image_is_left_to_the_run(program):
    # The run files it as blank, as it does for every other model.
    generator = program(
        """
for r in requests():
    with open(r["path"], "wb") as file:
        file.write(b"P6 2 2 255\\n" + bytes(12))
    say(image_id=r["image_id"])
"""
    )
    (result,) = generator.generate(numbered(1))
    assert (result.state, result.note) == ("ok", "")
    assert result.pixels is not None
    assert result.pixels.shape == (2, 2, 3)


def test_paths_count_from_the_directory_of_images(program, tmp_path):
    # Relative ones; ones elsewhere are read and left alone, also behind a link.
    generator = program(
        """
os.mkdir(os.path.join(HERE, "mine"))
os.symlink(os.path.join(HERE, "mine"), os.path.join(os.environ["VERISM_OUT"], "link"))
os.mkdir(os.path.join(os.environ["VERISM_OUT"], "sub"))
paths = ["one.ppm", "sub/../two.ppm", os.path.join(HERE, "mine", "three.ppm"), "link/four.ppm"]
os.chdir("/")
for r, path in zip(requests(), paths):
    paint(r, os.path.join(os.environ["VERISM_OUT"], path))
    say(image_id=r["image_id"], path=path)
"""
    )
    requests = numbered(4)
    check(requests, list(generator.generate(requests)))
    assert sorted(os.listdir(generator.out)) == ["link", "sub"]
    assert sorted(os.listdir(tmp_path / "mine")) == ["four.ppm", "three.ppm"]


ONE_FILE = """
for r in requests():
    paint(r, os.path.join(HERE, "out.ppm"))
    say(image_id=r["image_id"], path=os.path.join(HERE, "out.ppm"))
"""


def test_one_file_for_all_images_is_refused(program):
    with pytest.raises(VerismError, match=r"one file, .*out.ppm, for 'p_0#0' and for 'p_1#0'.* add \?ahead=1"):
        list(program(ONE_FILE).generate(numbered(3)))


def test_one_file_for_all_images_one_at_a_time(program):
    check(numbered(6), list(program(ONE_FILE, ahead=1).generate(numbered(6))))


def test_a_collection_may_answer_twice_with_one_file(program, tmp_path):
    old = tmp_path / "old.png"
    PilImage.fromarray(pixels_of("dog", 1)).save(old)
    os.utime(old, (1e9, 1e9))
    body = 'for r in requests():\n    say(image_id=r["image_id"], path=os.path.join(HERE, "old.png"))'
    for result in program(body).generate(asked("dog", "dog")):
        np.testing.assert_array_equal(result.pixels, pixels_of("dog", 1))
    assert old.exists()


# --------------------------------------------------------------------------------------------------------------------
# Programs that die
# --------------------------------------------------------------------------------------------------------------------
def test_it_is_started_again_where_it_died(program, tmp_path):
    generator = program(
        """
for n, r in enumerate(requests()):
    log(r["image_id"])
    if n == 4 and life() < 3:
        sys.exit(3)
    paint(r)
    say(image_id=r["image_id"])
""",
        ahead=4,
        restarts=0,
    )
    # Lives: 0-3 and death at 4; 4-7 and death at 8; 8-11. Each has answered, so no restart is in vain.
    check(numbered(12), list(generator.generate(numbered(12))))
    assert lives(tmp_path) == 3
    rendered = (tmp_path / "log").read_text().split()
    assert len(rendered) == 12 + 2  # only what it died over was begun twice


@pytest.mark.parametrize("position", [0, 1, 5, 11])
def test_it_dies_over_one_image(program, position):
    # In batches of four, so that the culprit is seldom the first in its hands: the others must not suffer.
    generator = program(
        f"""
hands = []
for r in requests():
    hands.append(r)
    if any(r["prompt"] == "prompt {position}" for r in hands):
        sys.stderr.write("about to fall\\n  segmentation \\n")
        os.kill(os.getpid(), signal.SIGSEGV)
    if len(hands) >= 1 + 3 * (life() == 1):
        for r in hands:
            paint(r)
            say(image_id=r["image_id"])
        hands = []
""",
        ahead=4,
    )
    results = list(generator.generate(numbered(12)))
    check(numbered(12), results, but={position})
    note = results[position].note
    assert note.startswith("the program ended (killed by SIGSEGV) over this image; last on its standard error: ")
    assert note.endswith("about to fall | segmentation")
    # Ended over a batch, over the image alone, and over it alone again; the very first is first in its hands already
    # in the batch. After the last one there is nothing to start the program for.
    assert generator.starts == (3 if position in (0, 11) else 4)
    assert generator.summary()[1] == "1 images were given up because program.py died or hung over them"


def test_it_dies_over_the_only_image(program):
    (result,) = program("next(requests()); sys.exit(5)").generate(numbered(1))
    assert result.state == "failed"
    assert "exit status 5" in result.note
    assert "it wrote nothing to standard error" in result.note


@pytest.mark.parametrize("restarts", [0, 2])
def test_it_never_answers(program, tmp_path, restarts):
    body = 'import sys\nfor k in range(30): sys.stderr.write("line %d\\n" % k)\nraise RuntimeError("no weights")'
    results = program(body, restarts=restarts).generate(numbered(8))
    with pytest.raises(
        VerismError, match=r"exit status 1\), (once|3 times in a row) without an answer; it has"
    ) as error:
        next(results)  # nothing is handed on before
    assert str(error.value).endswith("RuntimeError: no weights")
    assert "line 29" in str(error.value)
    assert "line 20" not in str(error.value)
    assert lives(tmp_path) == restarts + 1


def test_it_breaks_for_good_half_way(program):
    # From the third image on every process dies. Those given up meanwhile are not reported as failed.
    generator = program(
        """
n = life()
for r in requests():
    if n > 1 or r["prompt"] == "prompt 2":
        sys.exit(9)
    paint(r)
    say(image_id=r["image_id"])
"""
    )
    results = generator.generate(numbered(20))
    check(numbered(2), [next(results), next(results)])
    with pytest.raises(VerismError, match="5 images in a row could not be had"):
        next(results)


def test_restarts_count_only_in_a_row(program, tmp_path):
    # Nothing in lives 1 and 3, two images in life 2. The third image was first in two ends in a row.
    body = GOOD.replace(
        "paint(r)", "if life() in (1, 3) or (life() == 2 and r['seed'] == 1002): sys.exit(1)\n    paint(r)"
    )
    check(numbered(5), list(program(body, restarts=1).generate(numbered(5))), but={2})
    assert lives(tmp_path) == 4


def test_a_program_of_full_batches_dies(program, monkeypatch):
    # It would wait for ever when asked one at a time; after a while it is asked for all again.
    monkeypatch.setattr(command, "SILENCE_S", 0.5)
    body = """
rest = requests()
while hands := [r for _, r in zip(range(3), rest)]:
    if life() == 1:
        sys.exit(1)
    for r in hands:
        paint(r)
        say(image_id=r["image_id"])
"""
    check(numbered(9), list(program(body, ahead=4).generate(numbered(9))))


def test_it_ends_well_without_having_answered_all(program, tmp_path):
    # As after a crash that was caught: exit status 0, and an image forgotten.
    generator = program(
        GOOD.replace("    paint(r)", '    if r["prompt"] == "prompt 2" and life() == 1: continue\n    paint(r)')
    )
    check(numbered(5), list(generator.generate(numbered(5))))
    assert lives(tmp_path) == 2


def test_it_stops_talking_but_lives_on(program, monkeypatch):
    monkeypatch.setattr(command, "TERMINATE_S", 0.2)
    generator = program("os.close(1)\ntime.sleep(60)", restarts=1)
    with pytest.raises(VerismError, match="killed by SIGKILL"):
        list(generator.generate(numbered(3)))


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("ahead", [1, 32])
def test_it_does_not_listen(program, ahead):
    # Standard input closed after the first request: what is written then breaks the pipe.
    body = 'r = next(requests())\nos.close(0)\npaint(r)\nsay(image_id=r["image_id"])\ntime.sleep(0.2)'
    check(numbered(3), list(program(body, ahead=ahead).generate(numbered(3))))


def test_children_left_behind_are_ended(program):
    # A child that holds the outputs open must neither be waited for nor be left.
    body = """
child = subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(60)"])
remember(child.pid)
"""
    started = time.monotonic()
    check(numbered(2), list(program(body + GOOD).generate(numbered(2))))
    assert time.monotonic() - started < 5


# --------------------------------------------------------------------------------------------------------------------
# Programs that hang, and ends from outside
# --------------------------------------------------------------------------------------------------------------------
def test_it_hangs_over_one_image(program, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "TERMINATE_S", 0.3)
    generator = program(
        """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for r in requests():
    if r["prompt"] == "prompt 1":
        log("hangs")
        child = subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(60)"])
        remember(child.pid)
        child.wait()
    paint(r)
    say(image_id=r["image_id"])
""",
        timeout=1.0,
    )
    results = list(generator.generate(numbered(5)))
    check(numbered(5), results, but={1})
    assert results[1].note.startswith("the program gave no answer in 1 s and was killed over this image")
    # Once with others in its hands, once alone: only then is it known.
    assert (tmp_path / "log").read_text().split() == ["hangs"] * 2


def test_it_hangs_over_the_only_image(program):
    generator = program("time.sleep(60)", timeout=0.4)
    (result,) = generator.generate(numbered(1))
    assert result.note.startswith("the program gave no answer in 0.4 s and was killed over this image")
    assert generator.starts == 1


def test_it_hangs_from_the_beginning(program, tmp_path):
    generator = program('sys.stderr.write("compiling\\n")\ntime.sleep(60)', timeout=0.4, restarts=1)
    with pytest.raises(VerismError, match=r"no answer in 0.4 s and was killed, 2 times in a row .* raise the timeout"):
        list(generator.generate(numbered(3)))
    assert lives(tmp_path) == 2


@pytest.mark.parametrize("ahead", [2, 32])
def test_slow_but_steady_is_no_hanging(program, ahead):
    # Each within the time, all together not; and the time in which nobody asked does not count.
    body = GOOD.replace("paint(r)", "paint(r); time.sleep(0.15)")
    generator = program(body, timeout=1.2, ahead=ahead)
    results = generator.generate(numbered(14))
    first = [next(results), next(results)]
    time.sleep(1.3)
    check(numbered(14), first + list(results))
    assert generator.starts == 1


def test_closing_ends_it_at_once(program, tmp_path):
    generator = program(
        """
child = subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(60)"])
remember(child.pid)
"""
        + GOOD.replace("    say", "    time.sleep(60 * (r['prompt'] != 'prompt 0'))\n    say")
    )
    results = generator.generate(numbered(5))
    check(numbered(1), [next(results)])
    out, started = generator.out, time.monotonic()
    generator.close()
    assert time.monotonic() - started < 2
    assert not out.exists()
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    with pytest.raises(VerismError, match="was closed"):
        next(results)
    generator.close()


def test_leaving_the_loop_ends_it(program, tmp_path):
    for _ in program(GOOD).generate(numbered(50)):
        break
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_an_interrupt_ends_it(tmp_path):
    (tmp_path / "program.py").write_text(HEAD + "for r in requests():\n    log(1)\n    time.sleep(60)")
    (tmp_path / "outer.py").write_text(
        f"""
import sys
from verism.generators.command import CommandGenerator
from verism.records import Prompt, Request, frame
generator = CommandGenerator("{sys.executable} -S -E {tmp_path}/program.py")
open("{tmp_path}/out", "w").write(str(generator.out))
list(generator.generate([Request(image_id="a", prompt=Prompt(prompt_id="a", suite="s", text="t"), index=0, seed=0)]))
"""
    )
    outer = subprocess.Popen([sys.executable, tmp_path / "outer.py"], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 15
    while not (tmp_path / "log").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    started = time.monotonic()
    outer.send_signal(signal.SIGINT)
    _, err = outer.communicate(timeout=10)
    assert time.monotonic() - started < 3
    assert b"KeyboardInterrupt" in err
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    assert not Path((tmp_path / "out").read_text()).exists()


# --------------------------------------------------------------------------------------------------------------------
# Starting it, naming it
# --------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(text: str | bytes, name: str = "paint", mode: int = 0o755) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    return make


@pytest.mark.parametrize(
    ("content", "mode", "text", "message"),
    [
        (None, 0, "./paint", r"\./paint: no such file"),
        (None, 0, "no-such-program-here", r"no such program on the PATH\. A program in this directory is written"),
        (b"#!/bin/sh\n", 0o644, "./paint", r"\./paint is not executable\. Use chmod \+x \./paint"),
        (b"#!/usr/bin/pyton3 -u\n", 0o755, "./paint", r"begins with '#!/usr/bin/pyton3 -u', and there is no such int"),
        (b"#!/bin/sh\r\n", 0o755, "./paint", r"Unix line ends"),
        (b"print('hello')\n", 0o755, "./paint", r"\./paint is no program; a script begins with"),
        (b"", 0o755, "./paint 'a", r"cannot be split into words: No closing quotation"),
        (b"", 0o755, " ", r"name a program"),
    ],
)  # fmt: skip
def test_programs_that_cannot_be_started(script, content, mode, text, message):
    if content is not None:
        script(content, mode=mode)
    if mode == 0o644 and os.access("paint", os.X_OK):
        pytest.skip("this user may execute everything")
    with pytest.raises(UsageError, match=message):
        list(CommandGenerator(text).generate(numbered(1)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ahead": 0}, "ahead must be at least 1, got 0"),
        ({"timeout": 0.0}, "timeout must be a positive number of seconds, got 0.0"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"restarts": -1}, "restarts must be 0 or more, got -1"),
        ({"cwd": "nowhere"}, "cwd=nowhere: no such directory"),
    ],
)
def test_options_out_of_range(script, options, message):
    script("")
    with pytest.raises(UsageError, match=message):
        CommandGenerator("./paint", **options)


def test_two_requests_of_one_id(program):
    with pytest.raises(VerismError, match="two requests with the same image_id"):
        list(program(GOOD).generate([*numbered(2), *numbered(1)]))


def test_the_name_knows_the_files_and_not_the_pace(script):
    script("#!/bin/sh\n")
    name = CommandGenerator("./paint --steps 30").name
    assert name.startswith("command:./paint --steps 30@")
    assert CommandGenerator("./paint --steps 30", ahead=3, timeout=9, restarts=7).name == name
    script("#!/bin/sh\nexit\n")
    assert CommandGenerator("./paint --steps 30").name != name
    # A script behind an interpreter counts, the interpreter does not; nor does a program on the PATH.
    script("1", "a.py")
    by_script = CommandGenerator(f"{sys.executable} a.py --config=b.json")
    assert list(by_script.files) == ["a.py"]
    assert by_script.label == "a.py"
    script("{}", "b.json")
    assert list(CommandGenerator(f"{sys.executable} a.py --config=b.json").files) == ["a.py", "b.json"]
    assert CommandGenerator("sh -c 'exit 1'").name == "command:sh -c 'exit 1'"


def test_it_starts_where_it_is_told(script, tmp_path):
    (tmp_path / "models").mkdir()
    script('#!/bin/sh\nread line\npwd >&2\necho "$1" >&2\nexit 7\n', "models/paint")
    generator = CommandGenerator("./paint {out}", cwd="models")
    assert generator.name.startswith("command:./paint {out}?cwd=models@")
    (result,) = generator.generate(numbered(1))
    assert result.note.endswith(
        f"exit status 7) over this image; last on its standard error: {tmp_path}/models | {generator.out}"
    )
    generator.close()


def test_a_huge_file_is_hashed_by_size_and_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "WHOLE_FILE", 3 << 20)
    path = tmp_path / "weights"
    hashes = set()
    for size, position in [
        (4 << 20, None),
        ((4 << 20) + 1, None),
        (4 << 20, 0),
        (4 << 20, (4 << 20) - 1),
        (4 << 20, 2 << 20),
    ]:
        data = bytearray(size)
        if position is not None:
            data[position] = 1
        path.write_bytes(data)
        hashes.add(command._content_of(path))
    assert len(hashes) == 4  # not seen: a change in the middle


@pytest.mark.parametrize(
    ("text", "command_line", "options"),
    [
        ("./paint", "./paint", {}),
        ("./paint --x=1?ahead=8&timeout=30", "./paint --x=1", {"ahead": "8", "timeout": "30"}),
        ("./paint --ask 'why?'", "./paint --ask 'why?'", {}),
        ("./paint http://h/?q=1", "./paint http://h/?q=1", {}),
        ("./paint http://h/?q=1?cwd=a b", "./paint http://h/?q=1", {"cwd": "a b"}),
        ("./paint?ahead=8&steps=3", "./paint?ahead=8&steps=3", {}),
    ],
)
def test_options_behind_a_command(text, command_line, options):
    assert split_options(text) == (command_line, options)


@pytest.mark.parametrize("words", [["--api-key=abc"], ["-e", "HF_TOKEN=hf_1"], ["--token", "hf_1"], ["--Password=a=b"]])
def test_secrets_are_refused(words):
    with pytest.raises(UsageError, match="looks like a secret") as error:
        refuse_secret(words, "command")
    assert "hf_1" not in str(error.value)
    with pytest.raises(UsageError, match="looks like a secret"):
        CommandGenerator(" ".join(["./paint", *words]))


@pytest.mark.parametrize(
    "words", [["-e", "HF_TOKEN"], ["--max-token=77"], ["--token", "--x"], ["--tokens=a"], ["token"]]
)
def test_what_only_looks_like_a_secret(words):
    made = CommandGenerator(" ".join([sys.executable, *words]))
    assert made.words == [sys.executable, *words]


# --------------------------------------------------------------------------------------------------------------------
# In a run
# --------------------------------------------------------------------------------------------------------------------
class BlindJudge:
    name = "blind"

    def observe(self, images, need):
        return frame("detections", [row for image in images for row in rows_of(image.image_id, self.name, need, ())])


def test_a_program_is_evaluated(program, tmp_path):
    body = GOOD.replace("r in requests():", "r in requests():\n    if 'dog' in r['prompt']: sys.exit(4)")
    run = verism.evaluate(
        "paintskills",
        model=program("say(name='toy', version=3)\n" + body),
        detector=BlindJudge(),
        out=tmp_path / "run",
        skills=["object"],
        limit=15,
    )
    images = run.read("images")
    assert sorted(images["state"].to_list()) == ["failed"] + ["ok"] * 14
    (note,) = images.filter(images["state"] == "failed")["note"].to_list()
    assert note.startswith("the program ended (exit status 4) over this image")
    for row in images.filter(images["state"] == "ok").iter_rows(named=True):
        text = next(p.text for p in run.prompts() if p.prompt_id == row["prompt_id"])
        np.testing.assert_array_equal(np.asarray(PilImage.open(run.resolve(row["path"]))), pixels_of(text, row["seed"]))
    assert '"reported": {"name": "toy", "version": 3}' in json.dumps(run.manifest.record())


# --------------------------------------------------------------------------------------------------------------------
# examples/serve.py
# --------------------------------------------------------------------------------------------------------------------
SERVE = f"""
sys.path.insert(0, {str(ROOT / "examples")!r})
from serve import Refused, seed_all, serve
"""


def test_the_example_serves(program, tmp_path, capsys):
    generator = program(
        SERVE
        + """
class Image:
    def __init__(self, request): self.request = request
    def save(self, path): paint(self.request, path)
def work(requests):
    log(len(requests))
    print("from Python")
    os.system("echo from a child")
    if requests[0]["prompt"] == "raise": raise ValueError("cannot: %r" % requests[0]["prompt"])
    if any(r["prompt"] == "refuse" for r in requests): raise Refused("not that")
    paint(requests[0])
    made = {"path": requests[0]["path"], "why": Refused("because"), "error": OSError("disk"), "number": 5}
    return [made.get(r["prompt"]) or Image(r) for r in requests]
serve(work, batch=4, name="toy")
"""
    )
    texts = ["path", "image", "image", "image", "why", "error", "number", "image", "image", "refuse", "raise", "image"]
    results = list(generator.generate(asked(*texts)))
    check([r for r, t in zip(asked(*texts), texts, strict=True) if t in ("path", "image")],
          [r for r, t in zip(results, texts, strict=True) if t in ("path", "image")])  # fmt: skip
    assert {t: (r.state, r.note) for t, r in zip(texts, results, strict=True) if r.state != "ok"} == {
        "why": ("refused", "because"),
        "error": ("failed", "OSError: disk"),
        "number": ("failed", "TypeError: paint() returned int; expected a PIL image or a path"),
        "refuse": ("refused", "not that"),
        "raise": ("failed", "ValueError: cannot: 'raise'"),
    }
    # Three batches of four; the third is tried again one by one.
    assert (tmp_path / "log").read_text().split() == ["4", "4", "4", "1", "1", "1", "1"]
    assert generator.describe()["reported"] == {"name": "toy", "python": sys.version.split()[0]}
    assert "prints to standard output" not in capsys.readouterr().err
    assert all(r.seeded for r in results)


def test_the_example_takes_what_there_is(program, tmp_path):
    # Batches of eight from four at once: it must not wait for more. And it says that it has no use for seeds.
    generator = program(
        SERVE + "def work(rs):\n    log(len(rs))\n    [paint(r) for r in rs]\n    return [r['path'] for r in rs]\n"
        "work.seeded = False\nserve(work, batch=8)",
        ahead=4,
    )
    results = list(generator.generate(numbered(9)))
    check(numbered(9), results)
    assert not any(r.seeded for r in results)
    assert max(int(n) for n in (tmp_path / "log").read_text().split()) == 4


def test_the_example_can_be_tried_by_hand(tmp_path):
    (tmp_path / "program.py").write_text(HEAD + SERVE + "serve(lambda rs: [paint(r) or r['path'] for r in rs])")
    done = subprocess.run(
        [sys.executable, "-S", "-E", tmp_path / "program.py"],
        input='{"prompt": "a dog", "seed": 1}\n\n{"prompt": "a cat"}\nnonsense\n',
        env={"TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a["image_id"] for a in answers] == ["0", "2"]
    np.testing.assert_array_equal(np.asarray(PilImage.open(answers[0]["path"])), pixels_of("a dog", 1))
    assert "not a request, one JSON object per line: nonsense" in done.stderr


def test_the_example_seeds_what_there_is():
    done = subprocess.run(
        [sys.executable, "-c", "import random, numpy, serve\nfor s in (7, 7, 2**40):\n    serve.seed_all(s)\n"
         "    print(random.random(), numpy.random.random())"],
        cwd=ROOT / "examples", env={"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, second, third = done.stdout.splitlines()
    assert first == second != third


def test_the_example_is_python_3_6():
    import ast

    source = (ROOT / "examples" / "serve.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 6))
    imported = {n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
    assert imported - set(sys.stdlib_module_names) == {"torch"}  # inside the function for those who have it


# --------------------------------------------------------------------------------------------------- endless output
@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{"epoch": 1, "loss": 0.5}', id="foreign JSON"),
        pytest.param("Loading weights", id="words"),
        pytest.param("[" * 3000, id="brackets"),
    ],
)
def test_command_generator_endless_output_without_answers_is_ended(program, monkeypatch, capfd, line):
    monkeypatch.setenv("VERISM_LIMIT_PROGRAM_BYTES", "200000")
    endless = f"request = next(requests())\nwhile True:\n    sys.stdout.write({line + chr(10)!r})\n"
    with pytest.raises(VerismError, match="printed more than 200,000 bytes on standard output without an answer"):
        list(program(endless).generate(asked("a")))
    # What was passed on is bounded, too: the lines read ahead and what the pipe held.
    assert len(capfd.readouterr().err) < 2_000_000


def test_command_generator_output_between_answers_is_no_flood(program, monkeypatch):
    monkeypatch.setenv("VERISM_LIMIT_PROGRAM_BYTES", "20000")
    chatty = "for r in requests():\n    print('x' * 15000)\n    paint(r)\n    say(image_id=r['image_id'])\n"
    assert [r.state for r in program(chatty).generate(asked("a", "b", "c"))] == ["ok"] * 3


def test_command_generator_endless_repeated_answers_are_ended(program):
    repeats = "r = next(requests())\npaint(r)\nwhile True:\n    say(image_id=r['image_id'])\n"
    with pytest.raises(VerismError, match="answered 1,000 times in a row for images it had answered for before"):
        list(program(repeats).generate(asked("a", "b")))


def test_command_generator_chatter_does_not_put_off_the_timeout(program):
    chatter = "for r in requests():\n    while True:\n        say(epoch=1)\n        time.sleep(0.02)\n"
    with pytest.raises(VerismError, match=r"gave no answer in 0\.5 s and was killed"):
        list(program(chatter, timeout=0.5, restarts=0).generate(asked("a")))


def test_command_generator_escape_codes_do_not_reach_the_terminal(program, capfd):
    codes = "\x1b]0;title\x07\x1b[2J\x1b[1;31mred\x1b[0m\x9bdone\r\u202eback"
    prints = f"    print({codes!r})\n    sys.stderr.write({codes + chr(10)!r})\n"
    body = f"for r in requests():\n{prints}    paint(r)\n    say(image_id=r['image_id'])\n"
    (result,) = program(body, flags="-S -X utf8").generate(asked("a"))
    assert result.state == "ok"
    err = capfd.readouterr().err
    assert err.count("red") == 2
    assert "\\u202eback" in err
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(err)
