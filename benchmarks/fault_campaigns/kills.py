"""``kill -9`` of every command that writes, at random moments and just before each change of a file.

After a kill a reader must find the state of before or that of after, or be refused in words; and the same command must
then end in what an undisturbed one gives.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_campaigns.commands import Aim, Done, cold, forked, points
from fault_campaigns.runs import DETECTOR, PROMPTS, SIZE, contents, differences, judged
from fault_campaigns.trials import Job, Outcome, Setting, Site, Skipped, Trial, spread, traceback_in, worst

NAME = "kills"
COLD = 0.06  # of the kills at random moments, those of commands started anew


@dataclass(frozen=True)
class Subject:
    """A command that writes.

    Attributes:
        name: for the table.
        words: the command; ``{out}`` is what it writes, ``{templates}`` the folder of templates.
        kills: at the full setting.
        seconds: about how long one trial takes.
        start: template that ``{out}`` is a copy of; None: it is not there yet.
        result: what ``{out}`` is: a ``run``, a run with a ``study`` and its export, ``files`` (one, or a folder of
            them), or a damaged run that is to be repaired (``repair``).
        again: whether the same command may be called again on what is there; otherwise it is to refuse that in words,
            and is called again without.
    """

    name: str
    words: tuple[str, ...]
    kills: int
    seconds: float
    start: str | None = None
    result: str = "run"
    again: bool = True


PICTURES = ("--images", "{templates}/pictures")
SUBJECTS = (
    Subject("run --images", ("run", "paintskills", *PICTURES, *PROMPTS, *DETECTOR, "--out", "{out}"), 90, 1.5),
    Subject(
        "run --model scripted",
        ("run", "paintskills", "--model", "scripted", "--processes", "1", *SIZE, *PROMPTS, *DETECTOR, "--out", "{out}"),
        50,
        3,
    ),
    Subject(
        "run --model builtin",
        ("run", "paintskills", "--model", "builtin:threads=1", *SIZE, "--limit", "2", *DETECTOR, "--out", "{out}"),
        30,
        3,
    ),
    Subject("score", ("score", "{out}", "--threshold", "0.7"), 110, 0.7, start="mine"),
    Subject(
        "observe", ("observe", "{out}", "--detector", "builtin:min_score=0.3", "--threads", "1"), 60, 1, start="mine"
    ),
    Subject("report", ("report", "{templates}/mine", "--out", "{out}"), 30, 1, result="files"),
    Subject(
        "annotate --export",
        ("annotate", "{out}", "--task", "count", "--per-cell", "2", "--export", "table", "--to", "{out}-export"),
        40,
        0.7,
        start="mine",
        result="study",
        again=False,
    ),
    Subject(
        "scenes render",
        ("scenes", "render", "paintskills", "--limit", "3", *SIZE, "--processes", "1", "--out", "{out}"),
        25,
        2,
        result="files",
    ),
    Subject(
        "scenes portraits",
        ("scenes", "portraits", "--count", "3", *SIZE, "--out", "{out}"),
        15,
        2,
        result="files",
        again=False,
    ),
    Subject(
        "data reference",
        ("data", "reference", "quality", "{templates}/pictures", "--features", "builtin", "--out", "{out}.npz"),
        30,
        1,
        result="files",
    ),
    Subject(
        "judge card",
        ("judge", "card", "{templates}/rendered", "--from", "truth", "--out", "{out}.json"),
        20,
        0.5,
        result="files",
    ),
    Subject("verify --repair", ("verify", "{out}", "--repair"), 30, 1, start="mine", result="repair"),
)


def jobs(setting: Setting) -> list[Job]:
    """One job for each part of each command's kills; quick: a few of the cheapest."""
    from verism.cli.main import cli

    made = []
    for number, subject in enumerate(SUBJECTS):
        if subject.words[0] not in cli.commands:
            continue
        if setting.quick:
            if subject.name in ("score", "run --images"):
                made.append(Job(NAME, kill, (number, 0, 1, 2), 5))
            continue
        parts = max(1, round(subject.kills * subject.seconds / 20))
        for part in range(parts):
            wanted = subject.kills * (part + 1) // parts - subject.kills * part // parts
            made.append(Job(NAME, kill, (number, part, parts, wanted), wanted * subject.seconds))
    return made


def kill(site: Site, number: int, part: int, parts: int, wanted: int) -> Iterator[Trial | Skipped]:
    """Kill a command ``wanted`` times: two thirds just before a change of a file, the others at random."""
    subject = SUBJECTS[number]
    calm = _fresh(site, subject, "undisturbed")
    words = _words(site, subject, calm)
    before = _state(subject, calm)
    # The same folder for all, as some results name it.
    done = points(words, cwd=site.folder)
    if done.code != 0:
        yield Trial(campaign=NAME, name=f"{subject.name}, undisturbed", outcome="lost", detail=done.said[-400:])
        return
    after = _state(subject, calm)
    second = _fresh(site, subject, "undisturbed")
    forked(words, cwd=site.folder)
    if (varies := _unlike(subject, _state(subject, second), after)) != "":
        yield Skipped(NAME, f"{subject.name} does not repeat itself, and cannot be compared: {varies}")
        return
    total = done.result
    # The parts of one command share its moments, so that together they meet as many as they can.
    own = range(part, total, parts)
    moments: list[Aim | float] = [Aim(own[place]) for place in spread(len(own), max(1, wanted * 2 // 3), site.rng)]
    moments += [site.rng.uniform(0.01, done.seconds) for _ in range(wanted - len(moments))]
    for moment in moments:
        out = _fresh(site, subject, "undisturbed")
        if isinstance(moment, float) and site.rng.random() < COLD:
            killed = cold(words, cwd=site.folder, kill=moment + site.rng.uniform(0.5, 1.5))
        else:
            killed = forked(words, cwd=site.folder, kill=moment)
        when = f"before change {moment.point} of {total}" if isinstance(moment, Aim) else f"after {moment:.3f} s"
        outcome, detail = worst(_checks(site, subject, words, out, killed, before, after))
        yield Trial(campaign=NAME, name=f"{subject.name}, killed {when}", outcome=outcome, detail=detail, kills=1)


def _checks(
    site: Site, subject: Subject, words: list[str], out: Path, killed: Done, before: Any, after: Any
) -> Iterator[tuple[Outcome, str]]:
    if found := traceback_in(killed.said):
        yield "traceback", found
    between = _state(subject, out)
    yield _between(subject, between, before, after)
    again = forked(words, cwd=site.folder)
    yield judged(again)
    if again.code != 0 and not subject.again and again.said.strip():
        _remove(out.with_name(f"{out.name}-export") if subject.result == "study" else out)
        again = forked(words, cwd=site.folder)
        yield judged(again)
    if again.code != 0:
        yield "lost", f"the same command again: exit code {again.code}: {again.said[-300:]}"
        return
    if found := _unlike(subject, _state(subject, out), after):
        gone = found.startswith(("refused", "broken"))
        yield "lost" if gone else "silent", f"after the same command again: {found}"


def _between(subject: Subject, between: Any, before: Any, after: Any) -> tuple[Outcome, str]:
    """What a reader sees right after the kill: the state of before, that of after, or a refusal."""
    if subject.result == "files":
        for name, digest in between.items():
            if digest not in (before.get(name), after.get(name)):
                return "lost", f"{name} is half written"
        return "survived", ""
    if "broken" in between:
        return "traceback", between["broken"]
    if "refused" in between:
        # Of a run that had scores, they stay readable, unless it was damaged on purpose.
        gone = "refused" not in before and "refused" not in after
        return ("lost", f"not readable after the kill: {between['refused']}"[:400]) if gone else ("survived", "")
    states = [state["scoring"] for state in (before, after) if "scoring" in state]
    if between["scoring"] not in states:
        return "silent", "a reader sees a scoring that is neither the one before nor the one after"
    return "survived", ""


# ------------------------------------------------------------------------------------------------------------ states
def _fresh(site: Site, subject: Subject, name: str) -> Path:
    out = site.folder / name
    _remove(out)
    if subject.start is not None:
        shutil.copytree(site.templates / subject.start, out)
    if subject.result == "repair":
        scores = sorted([*out.glob("scorings/*/scores.parquet"), *out.glob("scores.parquet")])
        boxes = sorted(out.glob("observations/*/*/part-*.parquet"))
        scores[0].write_bytes(scores[0].read_bytes()[:-20])
        boxes[0].unlink()
    return out


def _remove(out: Path) -> None:
    for path in (out, out.with_name(f"{out.name}-export"), *out.parent.glob(f"{out.name}.*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _words(site: Site, subject: Subject, out: Path) -> list[str]:
    return [word.format(out=out, templates=site.templates) for word in subject.words]


def _state(subject: Subject, out: Path) -> Any:
    if subject.result == "files":
        return _files(out)
    state = contents(out)
    if subject.result == "study":
        export = _files(out.with_name(f"{out.name}-export"))
        # Names of exported pictures are drawn by a key of the study, so that raters learn nothing from them.
        state["study"] = sorted(digest for name, digest in export.items() if name.endswith(".png"))
    return state


def _files(out: Path) -> dict[str, str]:
    """Hash by name of every file that is no temporary one, of all that begins with the name of ``out``."""
    found = {}
    for path in sorted(out.parent.glob(f"{out.name}*")):
        files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if p.is_file()]
        for file in files:
            name = file.relative_to(out.parent).as_posix()
            if not any(part.startswith(".") or ".parts" in part for part in name.split("/")):
                found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def _unlike(subject: Subject, now: Any, expected: Any) -> str:
    if subject.result == "files":
        names = sorted({*now, *expected})
        return ", ".join(name for name in names if now.get(name) != expected.get(name))[:300]
    if subject.result == "study" and now.get("study") != expected.get("study"):
        return f"another export: {len(now.get('study', []))} in place of {len(expected['study'])} pictures, or others"
    return differences(now, expected)
