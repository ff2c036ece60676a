"""Every file of a run, damaged in every way, before every reader.

A reader must say the same scores as before, or refuse in words that name the run; never other scores, and no traceback.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fault_campaigns.commands import Done, forked
from fault_campaigns.runs import judged
from fault_campaigns.trials import Job, Outcome, Setting, Site, Trial, worst

NAME = "damage"
PARTS = 18  # jobs of the full setting
READERS = ("report", "score", "compare", "page")
SCORE_READERS = ("report", "score")  # whose output is compared with that of the undamaged run


def flipped(data: bytes, bits: int, rng: random.Random) -> bytes:
    """The data with some bits turned."""
    changed = bytearray(data)
    for place in rng.sample(range(len(data) * 8), min(bits, len(data) * 8)):
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def _zeroed(data: bytes, rng: random.Random) -> bytes:
    begin = rng.randrange(len(data))
    size = min(len(data) - begin, rng.choice((1, 16, 512)))
    return data[:begin] + bytes(size) + data[begin + size :]


def _swapped(data: bytes, rng: random.Random) -> bytes:
    begin, size = rng.randrange(len(data)), rng.choice((4, 64))
    return data[:begin] + data[begin + size :] + data[begin : begin + size]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "1 bit flipped": lambda data, rng: flipped(data, 1, rng),
    "1 bit flipped elsewhere": lambda data, rng: flipped(data, 1, rng),
    "2 bits flipped": lambda data, rng: flipped(data, 2, rng),
    "8 bits flipped": lambda data, rng: flipped(data, 8, rng),
    "cut by a byte": lambda data, _: data[:-1],
    "cut in the middle": lambda data, rng: data[: rng.randrange(1, max(2, len(data)))],
    "longer by a byte": lambda data, _: data + b"\n",
    "longer by half": lambda data, _: data + data[: len(data) // 2],
    "empty": lambda *_: b"",
    "all zeros": lambda data, _: bytes(len(data)),
    "zeros inside": _zeroed,
    "two parts exchanged": _swapped,
    "text": lambda *_: b"<!DOCTYPE html><title>502 Bad Gateway</title>",
    "gone": lambda *_: None,
}
FOREIGN = "another run's"


def jobs(setting: Setting) -> list[Job]:
    """The pairs of a file and a way to damage it, dealt out to jobs."""
    if setting.quick:
        return [Job(NAME, damage, (1, 150, 3), 6)]
    return [Job(NAME, damage, (part, PARTS, None), 20) for part in range(PARTS)]


def damage(site: Site, part: int, parts: int, at_most: int | None) -> Iterator[Trial]:
    """Damage files of two runs, one of rendered images with ground truth and one of a user's images."""
    other = _other(site)
    calm = {name: _calm(site, name) for name in ("rendered", "mine")}
    pairs = [
        (name, file, way)
        for name in calm
        for file in sorted(p.relative_to(site.templates / name) for p in _files(site.templates / name))
        for way in (*DAMAGES, FOREIGN)
    ]
    random.Random(f"{site.setting.seed} pairs").shuffle(pairs)
    for name, file, way in pairs[part::parts][:at_most]:
        run = site.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(site.templates / name, run)
        if not _harm(run / file, way, other / file, site.rng):
            continue
        outcome, detail = worst(_readings(site, run, file, calm[name]))
        yield Trial(campaign=NAME, name=f"{name}/{file.as_posix()}, {way}", outcome=outcome, detail=detail, files=1)


def _calm(site: Site, name: str) -> dict[str, str]:
    """What the readers of scores say of an undamaged run; each on a copy, as ``score`` writes."""
    run = site.folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(site.templates / name, run)
    return {reader: _read(site, run, reader).out for reader in SCORE_READERS}


def _readings(site: Site, run: Path, file: Path, calm: Mapping[str, str]) -> Iterator[tuple[Outcome, str]]:
    """Ask one reader after the other; ``score`` comes late, since it writes."""
    for reader in READERS:
        done = _read(site, run, reader)
        yield judged(done)
        if done.code == 0 and done.out != calm.get(reader, done.out):
            yield "silent", f"{reader}: other scores: {_change(done.out, calm[reader])}"
        if done.code != 0 and not _tells(done, run, file):
            yield "silent", f"{reader}: exit code {done.code}, and nothing says where: {done.said[-200:]}"
        if reader == "report":
            yield from _verified(site, run, calm[reader])


def _verified(site: Site, run: Path, calm: str) -> Iterator[tuple[Outcome, str]]:
    """``verism verify`` finds the damage, and repairs it or says what it cannot; where there is such a command."""
    from verism.cli.main import cli

    if "verify" not in cli.commands:
        return
    found = forked(["verify", run], cwd=site.folder)
    yield judged(found)
    if found.code == 0:
        yield "silent", f"verify: whole; {found.out[-200:]}"
    copy = site.folder / "copy" / run.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    shutil.copytree(run, copy)
    repaired = forked(["verify", copy, "--repair"], cwd=site.folder)
    yield judged(repaired)
    done = _read(site, copy, "report")
    yield judged(done)
    if repaired.code == 0 and (done.code != 0 or done.out != calm):
        yield "silent", f"verify --repair: done, and then {_change(done.out, calm) or done.said[-200:]}"
    if repaired.code != 0 and done.code == 0 and done.out != calm:
        yield "silent", f"verify --repair: not done, and then other scores: {_change(done.out, calm)}"


def _read(site: Site, run: Path, reader: str) -> Done:
    words: dict[str, list[object]] = {
        "report": ["report", run, "--json"],
        "score": ["score", run, "--json"],
        "compare": ["compare", run, site.templates / run.name if run.name != "run" else site.templates / "mine"],
        "page": ["report", run, "--out", site.folder / "page.html"],
    }
    done = forked(words[reader], cwd=site.folder)
    if reader in SCORE_READERS:  # names of runs are not part of the scores
        return Done(done.code, _scores(done.out), done.err, done.seconds)
    return done


def _scores(out: str) -> str:
    try:
        document = json.loads(out)
    except ValueError:
        return out
    scores = document if isinstance(document, list) else next(iter(document.values()), None)
    return json.dumps(
        [{k: v for k, v in row.items() if k != "run"} for row in scores] if scores else document, indent=1
    )


def _change(now: str, before: str) -> str:
    for a, b in zip(now.splitlines(), before.splitlines(), strict=False):
        if a != b:
            return f"{a.strip()} in place of {b.strip()}"
    return "" if now == before else f"{len(now)} characters in place of {len(before)}"


def _tells(done: Done, run: Path, file: Path) -> bool:
    """Whether an error names the file, or at least the run."""
    return any(name in done.said for name in (file.name, str(run)))


def _harm(path: Path, way: str, foreign: Path, rng: random.Random) -> bool:
    """Damage a file; False where that changes nothing."""
    data = path.read_bytes()
    if way == FOREIGN:
        twins = [foreign] if foreign.is_file() else sorted(foreign.parent.glob(f"*{path.suffix}"))
        changed = twins[0].read_bytes() if twins else None
        if changed is None:
            return False
    else:
        changed = DAMAGES[way](data, rng)
    if changed == data or (path.suffix == ".json" and changed is not None and _same_json(changed, data)):
        return False
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)
    return True


def _same_json(changed: bytes, data: bytes) -> bool:
    """Whether only spaces and line ends of a JSON file differ, which say nothing."""
    try:
        return bool(json.loads(changed) == json.loads(data))
    except ValueError:
        return False


def _other(site: Site) -> Path:
    """A run of the same shape with other content, as a source of foreign files."""
    other = site.folder / "other"
    words = ["run", "paintskills", "--model", "scripted:error=0.9", "--processes", "1", "--size", "64", "--limit", "6"]
    forked([*words, "--seed", "6", "--detector", "builtin", "--threads", "1", "--out", other], cwd=site.folder)
    return other


def _files(run: Path) -> Iterator[Path]:
    return (path for path in run.rglob("*") if path.is_file())
