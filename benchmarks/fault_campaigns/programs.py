"""``command:`` programs that flood, hang, lie and die: a state for every image, bounded time and memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from fault_campaigns.commands import GIB, Done, Limits, called, forked
from fault_campaigns.runs import judged
from fault_campaigns.services import _states
from fault_campaigns.trials import Job, Outcome, Setting, Site, Trial, worst

NAME = "programs"
IMAGES = 3
WAIT_S = 60.0
MEMORY = 4 * GIB

PNG = """
import json, os, struct, sys, time, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(n=16):
    row = lambda y: bytes((x * 7 % 256, y * 5 % 256, 99)[k] for x in range(n) for k in range(3))
    rows = b"".join(b"\\0" + row(y) for y in range(n))
    return (b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
def requests():
    for line in sys.stdin:
        yield json.loads(line)
def save(request, data=None):
    with open(request["path"], "wb") as file:
        file.write(png() if data is None else data)
def say(record):
    print(record if isinstance(record, str) else json.dumps(record), flush=True)
"""
# What follows in each program; `r` is a request.
PROGRAMS = {
    "dies at once": "sys.exit(3)",
    "dies without a word after one": "r = next(requests()); save(r); say({'image_id': r['image_id']}); os._exit(0)",
    "killed in the middle": "r = next(requests()); os.kill(os.getpid(), 9)",
    "says nothing": "[None for r in requests()]; time.sleep(300)",
    "hangs and ignores signals": "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(300)",
    "closes its output": "os.close(1); time.sleep(300)",
    "closes its input": "os.close(0); time.sleep(300)",
    "leaves a child that holds the pipes": "os.fork() or time.sleep(300); sys.exit(0)",
    "floods standard output": "while True: os.write(1, b'noise ' * 10000 + b'\\n')",
    "floods standard error": "while True: os.write(2, b'noise ' * 10000 + b'\\n')",
    "a line without an end": "while True: os.write(1, b'x' * 65536)",
    "an answer without an end": "os.write(1, b'{\"image_id\": \"')\nwhile True: os.write(1, b'x' * 65536)",
    "foreign JSON for ever": "while True: say({'step': 1, 'loss': 0.5})",
    "foreign answers for ever": "while True: say({'image_id': 'nobody asked#0'})",
    "the same answer for ever": "r = next(requests()); save(r)\nwhile True: say({'image_id': r['image_id']})",
    "no JSON": "for r in requests(): say('{\"image_id\": ')",
    "a list": "for r in requests(): say([r['image_id']])",
    "deep JSON": "for r in requests(): say('{\"image_id\": ' + '[' * 100000)",
    "digits": "for r in requests(): say('{\"image_id\": ' + '9' * 100000 + '}')",
    "NaN": "for r in requests(): say('{\"image_id\": NaN}')",
    "half of a pair": 'for r in requests(): say(\'{"image_id": "\\\\ud800", "note": "\\\\udfff"}\')',
    "no UTF-8": 'for r in requests(): os.write(1, b\'{"image_id": "\\xff"}\\n\')',
    "a file that is not there": "for r in requests(): say({'image_id': r['image_id']})",
    "another's file": "for r in requests(): say({'image_id': r['image_id'], 'path': '/etc/passwd'})",
    "a way out": "for r in requests(): say({'image_id': r['image_id'], 'path': '../../../../etc/passwd'})",
    "a device": "for r in requests(): say({'image_id': r['image_id'], 'path': '/dev/zero'})",
    "a pipe": "for r in requests(): os.mkfifo(r['path']); say({'image_id': r['image_id']})",
    "a folder": "for r in requests(): os.mkdir(r['path']); say({'image_id': r['image_id']})",
    "a sparse file": (
        "for r in requests():\n save(r, b'')\n os.truncate(r['path'], 100 << 30)\n say({'image_id': r['image_id']})"
    ),
    "an empty file": "for r in requests(): save(r, b''); say({'image_id': r['image_id']})",
    "a web page": "for r in requests(): save(r, b'<html>'); say({'image_id': r['image_id']})",
    "EPS": "for r in requests(): save(r, b'%!PS-Adobe-3.0 EPSF-3.0\\nshowpage'); say({'image_id': r['image_id']})",
    "a bomb": (
        "b = (b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 50000, 50000, 8, 2, 0, 0, 0))"
        " + chunk(b'IDAT', zlib.compress(bytes(1 << 20))) + chunk(b'IEND', b''))\n"
        "for r in requests(): save(r, b); say({'image_id': r['image_id']})"
    ),
    "a state of its own": "for r in requests(): say({'image_id': r['image_id'], 'state': 'wonderful'})",
    "refuses without a reason": "for r in requests(): say({'image_id': r['image_id'], 'state': 'refused'})",
    "a note of a megabyte": ("for r in requests(): save(r); say({'image_id': r['image_id'], 'note': 'x' * 900000})"),
    "escape codes": (
        "sys.stderr.write('\\x1b]0;title\\x07\\x1b[2J\\n'); say('\\x1b[31mred')\n"
        "for r in requests(): save(r); say({'image_id': r['image_id'], 'note': '\\x1b[2J'})"
    ),
    "answers of other types": (
        "for r in requests(): save(r); say({'image_id': [7], 'path': 7, 'state': {}, 'note': []})"
    ),
    "a head of nonsense": (
        "say({'name': '\\x1b[2J' + 'n' * 5000, 'x': [[1]]})\n"
        "for r in requests(): save(r); say({'image_id': r['image_id']})"
    ),
    "the temporary folder removed": (
        "import shutil; shutil.rmtree(os.environ['VERISM_OUT'])\nfor r in requests(): say({'image_id': r['image_id']})"
    ),
    "a file in the run": (
        "f = os.path.join(os.environ['FAULTS_RUN'], 'images'); os.makedirs(f, exist_ok=True)\n"
        "open(os.path.join(f, 'part-0000000000000000.parquet'), 'wb').write(b'no')\n"
        "for r in requests(): save(r); say({'image_id': r['image_id']})"
    ),
}


def jobs(setting: Setting) -> list[Job]:
    """The programs, dealt out."""
    names = list(PROGRAMS)
    if setting.quick:
        return [Job(NAME, misbehave, (["no JSON", "a device"],), 6)]
    return [Job(NAME, misbehave, (names[part::8],), 25) for part in range(8)]


def misbehave(site: Site, names: list[str]) -> Iterator[Trial]:
    """A run with each program."""
    for number, name in enumerate(names):
        program, out = site.folder / f"program-{number}.py", site.folder / f"run-{number}"
        program.write_text(PNG + PROGRAMS[name] + "\n")
        words = ["run", "paintskills", "--model", f"command:{sys.executable} {program}?timeout=3&restarts=1"]
        words += ["--limit", str(IMAGES), "--seed", "5", "--detector", "builtin", "--threads", "1", "--out", str(out)]
        done = forked(
            words,
            cwd=site.folder,
            timeout=WAIT_S,
            limits=Limits(memory=MEMORY),
            environment={"FAULTS_RUN": str(out)},
        )
        outcome, detail = worst(_checks(site, out, name, done))
        yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail)


def _checks(site: Site, out: Path, name: str, done: Done) -> Iterator[tuple[Outcome, str]]:
    yield judged(done)
    if "\x1b" in done.said:
        yield "silent", "escape codes of the program reach the terminal"
    if done.code not in (None, 0, 1, 2):
        yield "lost", f"exit code {done.code}: {done.said[-200:]}"
    if done.code in (1, 2) and not done.said.strip():
        yield "silent", f"exit code {done.code} without a word"
    if done.code == 0:
        found = called(_states, out, cwd=site.folder)
        yield judged(found)
        states = found.result or []
        if len(states) != IMAGES:
            yield "lost", f"exit code 0 and these images: {states}"[:300]
        elif any(state != "ok" and not note for state, note in states):
            yield "silent", f"images without a reason: {states}"[:300]
        elif name in ("another's file", "a way out", "a device", "a bomb", "EPS") and any(s == "ok" for s, _ in states):
            yield "silent", f"taken for an image: {states}"[:300]
