"""What differs between operating systems: the only module that asks which one it is.

POSIX systems (Linux, macOS) let an open file be replaced or removed, tell processes by signals and groups, and have one
way to quote a word. Windows has none of these. ``tests/test_systems.py`` finds uses of system calls elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

__all__ = [
    "WINDOWS",
    "address_space_bytes",
    "end_group",
    "end_with_parent",
    "move_into_place",
    "move_unless_there",
    "own_group",
    "physical_memory_bytes",
    "process_is_gone",
    "quoted",
    "split_command",
    "write_text_of_any_language",
]

WINDOWS = os.name == "nt"
PATIENCE_S = 5.0  # for a reader to close a file that is to be replaced: readers of ours read whole files
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES, errno.EINVAL, errno.ENOSYS}


# --------------------------------------------------------------------------------------------------------------- files
def move_into_place(source: Path, target: Path, *, patience: float | None = None) -> None:
    """Give a file the name of another, which it replaces at once: readers see the old or the new one.

    Windows refuses that while anybody has the old file open, so it is tried again for a while.

    Args:
        source: the file.
        target: its name to be, in the same folder.
        patience: seconds of trying again where the system refuses; None: as the system is, 5 or none.

    Raises:
        OSError: it cannot be.
    """
    until = time.monotonic() + (patience if patience is not None else PATIENCE_S if WINDOWS else 0.0)
    pause = 0.01
    while True:
        try:
            source.replace(target)
            return
        except PermissionError:
            if time.monotonic() >= until or target.is_dir():
                raise
            time.sleep(pause)
            pause = min(2 * pause, 0.25)


def move_unless_there(source: Path, target: Path) -> None:
    """Give a file another name, unless a file has it: of several that try at once, one succeeds.

    Args:
        source: the file; where it stays, the caller removes it.
        target: its name to be, on the same file system.

    Raises:
        FileExistsError: there is one.
        OSError: it cannot be.
    """
    if WINDOWS:
        source.rename(target)  # which never replaces a file there, on file systems without links, too
        return
    try:
        os.link(source, target)
    except OSError as err:
        if err.errno not in NO_LINKS:
            raise
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from err
        source.replace(target)  # a file system without hard links: two at once are not told apart


# ----------------------------------------------------------------------------------------------------------- processes
def own_group() -> dict[str, Any]:
    """Arguments of ``subprocess.Popen`` for a process whose children can be ended with it.

    Ctrl-C in the terminal does not reach it: it is ended by us.
    """
    if WINDOWS:
        import subprocess

        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return {"start_new_session": True}


def end_group(process: subprocess.Popen[Any], *, at_once: bool) -> None:
    """End a process that was started with ``own_group``, and its children.

    Args:
        process: the process; one that has ended is no error, and its children are ended where the system knows them.
        at_once: kill it; else ask it to end. Windows cannot ask, and always kills.
    """
    if WINDOWS:
        import subprocess

        words = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
        with contextlib.suppress(OSError):
            process.kill()  # where there is no taskkill
        return
    # All gone; macOS says "not permitted" of a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL if at_once else signal.SIGTERM)


def end_with_parent() -> None:
    """Let this process, started by ``multiprocessing``, end when the one that started it has ended, however it did.

    A pool's processes wait for work and would do so forever: nothing tells them of a SIGTERM or a SIGKILL.
    """
    import multiprocessing
    import threading

    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)  # what is half written has a temporary name, and nobody is there to hear of it

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


def process_is_gone(pid: int) -> bool:
    """Whether a process of this machine has certainly ended; False where the system does not say.

    Args:
        pid: its number.
    """
    if WINDOWS:  # which has no harmless signal
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


# -------------------------------------------------------------------------------------------------------------- memory
def physical_memory_bytes() -> int | None:
    """Memory of the machine; None where the system does not say."""
    if WINDOWS:
        return _windows_memory()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def address_space_bytes() -> int | None:
    """What ``ulimit -v`` leaves to this process; None without a limit."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return limit if limit > 0 else None
    return None


def _windows_memory() -> int | None:
    import ctypes

    class Status(ctypes.Structure):  # MEMORYSTATUSEX of sysinfoapi.h
        _fields_ = (
            ("dwLength", ctypes.c_ulong),
            ("dwMemoryLoad", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("ullTotalPhys", "ullAvailPhys", "ullTotalPageFile")),
            *((name, ctypes.c_ulonglong) for name in ("ullAvailPageFile", "ullTotalVirtual", "ullAvailVirtual")),
            ("ullAvailExtendedVirtual", ctypes.c_ulonglong),
        )

    status = Status(dwLength=ctypes.sizeof(Status))
    windll = getattr(ctypes, "windll", None)
    if windll is None or not windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.ullTotalPhys)


# ------------------------------------------------------------------------------------------------------- words and text
def quoted(word: object) -> str:
    """A word of a command line as the system's shell takes it, quoted if need be.

    Args:
        word: a path or a text.
    """
    if WINDOWS:
        import subprocess

        return subprocess.list2cmdline([str(word)])
    return shlex.quote(str(word))


def split_command(text: str) -> list[str]:
    r"""The words of a command line. On Windows a backslash is one: it stands in paths.

    Args:
        text: the command line.

    Raises:
        ValueError: a quotation mark is not closed.
    """
    words = shlex.shlex(text, posix=True, punctuation_chars=False)
    words.whitespace_split = True
    words.commenters = ""
    if WINDOWS:
        words.escape = ""
        words.quotes = '"'
    return list(words)


def write_text_of_any_language() -> None:
    """Have standard output take every character, whatever the code page.

    Into a file or pipe it is written as UTF-8, as all our files are; a terminal gets an escape for what it cannot show.
    ``PYTHONIOENCODING`` is obeyed.
    """
    if os.environ.get("PYTHONIOENCODING"):
        return
    for stream in (sys.stdout, sys.stderr):
        change: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if change is None or (stream.encoding or "").lower().replace("-", "") == "utf8":
            continue
        if stream.isatty():
            change(errors="backslashreplace")
        else:
            change(encoding="utf-8")
