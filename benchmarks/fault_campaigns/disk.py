"""A disk that fills up while a command writes: an error in words, and once there is room the same command ends well."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fault_campaigns.commands import Done, Limits, forked
from fault_campaigns.kills import SUBJECTS, Subject, _files, _fresh, _state, _unlike, _words
from fault_campaigns.runs import judged
from fault_campaigns.trials import Job, Outcome, Setting, Site, Skipped, Trial, worst

NAME = "disk"
SIZE = 64 << 20  # bytes of the file system
ROOM = (0, 4096, 12_288, 24_576, 40_960, 65_536, 131_072)  # bytes left on it
# Bytes of the largest file that is allowed; with none at all what the command says could not be kept, either.
FILES = (200, 2000, 6000, 20_000)


def jobs(setting: Setting) -> list[Job]:
    """Every command that writes, with a full disk and with a limit on the size of files."""
    from verism.cli.main import cli

    made = []
    for number, subject in enumerate(SUBJECTS):
        if subject.words[0] in cli.commands and (not setting.quick or subject.name == "score"):
            made.append(Job(NAME, full, (number,), 10 * subject.seconds))
            made.append(Job(NAME, small_files, (number,), 8 * subject.seconds))
    return made


def full(site: Site, number: int) -> Iterator[Trial | Skipped]:
    """Write to a small file system that is nearly full."""
    subject = SUBJECTS[number]
    with _tmpfs(site.folder / "disk") as why:
        if why:
            yield Skipped(NAME, f"no small file system: {why}")
            return
        disk = site.folder / "disk"
        expected = _expected(site, subject, disk)
        for room in ROOM[2:3] if site.setting.quick else ROOM:
            out = _begin(site, subject, disk)
            _fill(disk, room)
            stopped = forked(_words(site, subject, out), cwd=disk)
            (disk / "filler").unlink()
            yield _trial(site, subject, disk, f"{room:,} bytes left", stopped, expected)


def small_files(site: Site, number: int) -> Iterator[Trial | Skipped]:
    """Write where files may only have a certain size."""
    subject = SUBJECTS[number]
    disk = site.folder / "disk"
    disk.mkdir()
    expected = _expected(site, subject, disk)
    for size in FILES[1:2] if site.setting.quick else FILES:
        out = _begin(site, subject, disk)
        stopped = forked(_words(site, subject, out), cwd=disk, limits=Limits(file=size))
        yield _trial(site, subject, disk, f"files of at most {size:,} bytes", stopped, expected)


def _expected(site: Site, subject: Subject, disk: Path) -> Any:
    out = _begin(site, subject, disk)
    forked(_words(site, subject, out), cwd=disk)
    return _state(subject, out)


def _begin(site: Site, subject: Subject, disk: Path) -> Path:
    return _fresh(Site(site.setting, disk, site.rng), subject, "undisturbed")


def _trial(site: Site, subject: Subject, disk: Path, how: str, stopped: Done, expected: Any) -> Trial:
    out = disk / "undisturbed"
    outcome, detail = worst(_checks(site, subject, disk, out, stopped, expected))
    return Trial(campaign=NAME, name=f"{subject.name}, {how}", outcome=outcome, detail=detail)


def _checks(
    site: Site, subject: Subject, disk: Path, out: Path, stopped: Done, expected: Any
) -> Iterator[tuple[Outcome, str]]:
    yield judged(stopped)
    if stopped.code == 0:
        # There was room enough.
        if found := _unlike(subject, _state(subject, out), expected):
            yield "silent", f"exit code 0, and {found}"
        return
    if not stopped.said.strip():
        yield "silent", f"exit code {stopped.code} without a word"
    if subject.result == "files":
        for name, digest in _files(out).items():
            if digest != expected.get(name):
                yield "lost", f"{name} is half written"
    again = forked(_words(site, subject, out), cwd=disk)
    yield judged(again)
    if again.code != 0 and not subject.again and again.said.strip():
        return
    if again.code != 0:
        yield "lost", f"with room, exit code {again.code}: {again.said[-300:]}"
    elif found := _unlike(subject, _state(subject, out), expected):
        yield "silent", f"with room, {found}"


def _fill(disk: Path, room: int) -> None:
    """Fill a file system but for so many bytes."""
    free = shutil.disk_usage(disk).free
    with (disk / "filler").open("wb") as file:
        file.write(bytes(max(0, free - room)))


@contextmanager
def _tmpfs(place: Path) -> Iterator[str]:
    """A small file system at a place; yields why there is none, or nothing."""
    place.mkdir()
    if os.geteuid() != 0:
        yield "only root may mount one"
        return
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        yield mounted.stderr.strip() or "mount failed"
        return
    try:
        yield ""
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)
