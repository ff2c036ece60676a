"""What the command line says of errors that are no mistake of verism: a full disk, too little memory, a damaged file.

Readers tell of the content of files themselves (``files``, ``arrays``, ``parquet``, ``imaging``). What is left comes
from the machine, or from a file that no reader of ours knows of, and is told here: in one line that names the file and
says what to do.
"""

from __future__ import annotations

import errno
import os

from verism.errors import UsageError, VerismError
from verism.files import USAGE_ERRNOS

__all__ = ["explain"]

AGAIN = "finished work is kept; repeat the command to continue"
REMOTE = (
    "check the network, and the endpoint, region and credentials that the environment names (AWS_..., GOOGLE_..., "
    f"AZURE_...); {AGAIN}"
)
_ADVICE = {
    errno.ENOSPC: f"the disk is full: make room; {AGAIN}",
    errno.EDQUOT: f"your quota of the disk is used up: make room; {AGAIN}",
    errno.EFBIG: "the file is larger than is allowed there",
    errno.EIO: "the disk cannot be read or written: check it, or copy the files elsewhere",
    errno.EMFILE: "too many files are open: raise the limit with `ulimit -n 4096`",
    errno.ENFILE: "the machine has too many files open: close other programs",
    errno.ENOMEM: "there is not enough memory: close other programs, or ask for less at a time",
    errno.EACCES: "you may not: check its permissions, or choose another place",
    errno.EPERM: "you may not: check its permissions, or choose another place",
    errno.EROFS: "it can only be read: choose another place",
    errno.ENOENT: "check the name, and that no other program removes it meanwhile",
    errno.ENOTDIR: "a part of the path is a file: choose another place",
    errno.EISDIR: "it is a folder: name a file",
    errno.EEXIST: "it is in the way: remove it, or choose another place",
    errno.ENAMETOOLONG: "the name is too long: choose a shorter one",
    errno.EINVAL: "it cannot be used so: name an ordinary file or folder",
    errno.ELOOP: "its links lead in a circle",
}


def explain(err: BaseException) -> VerismError | None:
    """The error to show in place of one, or None: it is a mistake of ours, and its traceback is needed.

    Args:
        err: what ended a command.
    Returns:
        A ``UsageError`` (exit code 2) if the command must be called otherwise, another ``VerismError`` (exit code 1) if
        the machine or a file is at fault.
    """
    if isinstance(err, VerismError):
        return err
    kind, module = type(err).__name__, type(err).__module__.partition(".")[0]
    text = _line(str(err))
    if isinstance(err, MemoryError) or kind == "OutOfMemoryError":
        wanted = f" ({text})" if text else ""
        return VerismError(
            f"there is not enough memory{wanted}: close other programs, or ask for less at a time (smaller files, "
            f"--limit, --threads, batch=1 behind the name of a judge); {AGAIN}"
        )
    if isinstance(err, RecursionError):
        return VerismError("a file or value is nested too deeply to be worked with; flatten it")
    if isinstance(err, UnicodeEncodeError) and err.reason == "surrogates not allowed":
        near = ascii(err.object[max(0, err.start - 30) : err.end + 30])
        return UsageError(
            f"the text {near} holds bytes that are no character of UTF-8: rename the file, or correct the text, so "
            "that it is UTF-8"
        )
    if isinstance(err, OSError) and err.errno is not None:
        place = next((os.fsdecode(name) for name in (err.filename2, err.filename) if isinstance(name, str | bytes)), "")
        advice = REMOTE if "://" in place and err.errno in (errno.EIO, errno.EACCES) else _ADVICE.get(err.errno)
        explanation = f"{err.strerror or text}{f'. {_sentence(advice)}' if advice else ''}"
        return (UsageError if err.errno in USAGE_ERRNOS else VerismError)(f"{ascii_path(place)}{explanation}")
    if module in ("polars", "pyo3_runtime"):
        full = "os error 28" in text or "No space left" in text
        advice = (
            _sentence(_ADVICE[errno.ENOSPC])
            if full
            else "A file of the run is damaged; find it with: verism verify RUN"
        )
        return VerismError(f"a table cannot be read or written: {text}. {advice}")
    if module == "sqlite3":
        full = "full" in text
        advice = (
            _sentence(_ADVICE[errno.ENOSPC]) if full else "The study may be damaged, or another program writes to it"
        )
        return VerismError(f"a study cannot be read or written: {text}. {advice}")
    return None


def ascii_path(place: str) -> str:
    """A path for the start of a message; bytes that are no text are written as escapes."""
    return f"{place.encode('utf-8', 'backslashreplace').decode()}: " if place else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(text: str) -> str:
    """The first line of a message, of at most 300 characters."""
    return text.strip().partition("\n")[0][:300].rstrip(". ")
