"""Commands of verism in processes that may be killed, starved, or watched.

A command started anew takes longer to import its modules than to do a small job. So most are forked from a process
that has imported them and done nothing else: no thread of a library is running that a fork would lose. Some are started
anew all the same (``cold``), since users start them so.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

__all__ = ["Aim", "Done", "Limits", "called", "cold", "forked", "points", "preload", "started"]

TIMEOUT_S = 120.0
GIB = 1 << 30
MAIN = "from verism.cli.main import main; main()"
MODULES = (
    *("verism.cli.main", "verism.api", "verism.registry", "verism.annotation.votes", "verism.report_kit.comparison"),
    *("verism.suites.paintskills.suite", "verism.suites.quality.suite", "verism.suites.alignment.suite"),
    *("verism.generators.scripted", "verism.generators.builtin", "verism.generators.folder"),
    *("verism.generators.command", "verism.generators.openai_images"),
    *("verism.judges.detection.builtin", "verism.judges.features.builtin", "verism.simulator.scene_renderer"),
    *("verism.simulator.parallel_renderer", "verism.simulator.portraits", "verism.pipeline.local"),
    *("polars", "onnxruntime", "scipy.stats", "scipy.special", "PIL.Image", "jinja2", "yaml", "tenacity", "httpx"),
)
WRITING = os.O_WRONLY | os.O_RDWR
CHANGING = {"os.rename", "os.remove", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}


@dataclass(frozen=True)
class Limits:
    """What a command may use: bytes of address space, and bytes of one file. None: as much as this process."""

    memory: int | None = None
    file: int | None = None

    def apply(self) -> None:
        for kind, value in ((resource.RLIMIT_AS, self.memory), (resource.RLIMIT_FSIZE, self.file)):
            if value is not None:
                resource.setrlimit(kind, (value, value))


@dataclass(frozen=True)
class Aim:
    """A moment: just before the ``point``-th change of a file or folder (from 0), of those that ``points`` counts."""

    point: int


@dataclass(frozen=True)
class Done:
    """A command that ended.

    Attributes:
        code: exit code; below 0, the signal that ended it; None: it was not over in time, and killed.
        out: standard output.
        err: standard error.
        seconds: how long it ran.
        result: what a function returned, of ``called``; the number of changes, of ``points``.
    """

    code: int | None
    out: str
    err: str
    seconds: float
    result: Any = None

    @property
    def said(self) -> str:
        """Everything it printed."""
        return self.out + self.err


def preload() -> None:
    """Import what commands need, and nothing that starts a thread of Python's."""
    for name in MODULES:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # children do not copy these pages when they collect


# -------------------------------------------------------------------------------------------------------------- forked
def forked(
    words: Sequence[object],
    *,
    cwd: Path,
    timeout: float = TIMEOUT_S,
    kill: float | Aim | None = None,
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """``verism WORDS`` in a fork of this process.

    Args:
        words: the command.
        cwd: folder it runs in, and whose changes ``Aim`` counts.
        timeout: seconds, after which it is killed.
        kill: when it kills itself or is killed with SIGKILL: after so many seconds, or at a moment.
        limits: what it may use.
        environment: variables that change.
    """

    def job() -> None:
        if isinstance(kill, Aim):
            _watch(cwd, partial(_die_at, kill.point))
        _command(words)

    after = kill if isinstance(kill, float) else None
    return _fork(job, cwd=cwd, timeout=timeout, kill_after=after, limits=limits, environment=environment)


def points(words: Sequence[object], *, cwd: Path) -> Done:
    """``verism WORDS`` undisturbed; ``result`` is how many changes of files and folders it made below ``cwd``."""
    counter = count()

    def job() -> None:
        _watch(cwd, lambda _: next(counter))
        try:
            _command(words)
        finally:
            _answer(next(counter))

    return _fork(job, cwd=cwd)


def called(function: Callable[..., Any], *arguments: Any, cwd: Path, timeout: float = TIMEOUT_S) -> Done:
    """A function in a fork of this process; ``result`` is what it returned, as JSON has it. Its errors are printed."""
    return _fork(lambda: _answer(function(*arguments)), cwd=cwd, timeout=timeout)


def _die_at(point: int, number: int) -> None:
    if number == point:
        os.kill(os.getpid(), signal.SIGKILL)


def _command(words: Sequence[object]) -> None:
    from verism.cli.main import main

    sys.argv = ["verism", *(str(word) for word in words)]
    main()


def _watch(root: Path, note: Callable[[int], object]) -> None:
    """Call ``note`` with 0, 1, 2 ... before each change of a file or folder below ``root``."""
    changes = count()
    inside = str(root)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & WRITING:
                return
        elif event in CHANGING:
            path = arguments[0]
        else:
            return
        if isinstance(path, str | bytes | os.PathLike):
            name = os.fsdecode(path)
            if not os.path.isabs(name) or name.startswith(inside):
                note(next(changes))

    sys.addaudithook(hook)


def _answer(value: Any) -> None:
    Path(os.environ["VERISM_FAULTS_ANSWER"]).write_text(json.dumps(value), encoding="utf-8")


def _fork(
    job: Callable[[], None],
    *,
    cwd: Path,
    timeout: float = TIMEOUT_S,
    kill_after: float | None = None,
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
) -> Done:
    with tempfile.TemporaryDirectory(prefix="verism-faults-") as name:
        out, err, answer = Path(name, "out"), Path(name, "err"), Path(name, "answer")
        sys.stdout.flush()
        sys.stderr.flush()
        begun = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _child(job, out, err, answer, cwd, limits, environment or {})
        code = _wait(pid, begun, timeout, kill_after)
        seconds = time.monotonic() - begun
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what it started does not outlive it
        result = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() and answer.stat().st_size else None
        return Done(code, _text(out), _text(err), seconds, result)


def _child(
    job: Callable[[], None],
    out: Path,
    err: Path,
    answer: Path,
    cwd: Path,
    limits: Limits | None,
    environment: Mapping[str, str],
) -> None:
    """The forked process; never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number, target, flags in ((0, Path(os.devnull), os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
            os.dup2(os.open(target, flags | os.O_CREAT, 0o600), number)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115 as long as the process
            for number, mode, errors in ((0, "r", "strict"), (1, "w", "strict"), (2, "w", "backslashreplace"))
        )
        os.environ.update({"VERISM_FAULTS_ANSWER": str(answer), **environment})
        os.chdir(cwd)
        if limits is not None:
            limits.apply()
        try:
            job()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        except BaseException:
            traceback.print_exc()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
    finally:
        os._exit(code)


def _wait(pid: int, begun: float, timeout: float, kill_after: float | None) -> int | None:
    over = False
    pause = 0.001
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return None if over else os.waitstatus_to_exitcode(status)
        waited = time.monotonic() - begun
        if waited > timeout:
            over = True
        if over or (kill_after is not None and waited >= kill_after):
            os.kill(pid, signal.SIGKILL)
        pause = min(pause * 1.3, 0.02)
        left = timeout - waited if kill_after is None else kill_after - waited
        time.sleep(max(0.0005, min(pause, left)))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="backslashreplace") if path.exists() else ""


# ---------------------------------------------------------------------------------------------------------------- cold
def started(words: Sequence[object], *, cwd: Path, err: Path, limits: Limits | None = None) -> subprocess.Popen[bytes]:
    """``verism WORDS`` in an interpreter of its own, still running; what it prints goes to the file ``err``."""
    with err.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", MAIN, *(str(word) for word in words)],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=limits.apply if limits else None,
        )


def cold(
    words: Sequence[object],
    *,
    cwd: Path,
    timeout: float = TIMEOUT_S,
    kill: float | None = None,
    limits: Limits | None = None,
) -> Done:
    """``verism WORDS`` in an interpreter of its own; arguments as of ``forked``."""
    with tempfile.TemporaryDirectory(prefix="verism-faults-") as name:
        log = Path(name, "log")
        begun = time.monotonic()
        process = started(words, cwd=cwd, err=log, limits=limits)
        code: int | None
        try:
            code = process.wait(timeout if kill is None else kill)
        except subprocess.TimeoutExpired:
            process.kill()
            code = None if kill is None else process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return Done(code, "", _text(log), time.monotonic() - begun)
