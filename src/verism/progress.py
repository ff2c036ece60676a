"""How far long work is: a line on standard error that is written anew, or off a terminal a line every half minute.

All lines also go to the logger ``verism``, every half minute.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from types import TracebackType
from typing import TextIO

__all__ = ["Progress", "Working", "be_quiet"]

INTERVAL_S = 0.2  # on a terminal
LINE_S = 30.0  # off a terminal, and in a log
WORKING_S = 2.0
LOG = logging.getLogger("verism")


class _Shown:
    quiet = False


def be_quiet(quiet: bool) -> None:
    """Whether progress is shown nowhere but in the log; for the whole process.

    Args:
        quiet: whether it is.
    """
    _Shown.quiet = quiet


class Progress:
    """Counts units of work.

    Args:
        label: what is being done. total: units in all. done: units finished before (a resumed run); they do not count
            towards the rate. stream: where to write; standard error by default. show: whether to; by default only if
            the stream is a terminal.
    """

    def __init__(
        self, label: str, total: int, *, done: int = 0, stream: TextIO | None = None, show: bool | None = None
    ) -> None:
        self.label, self.total, self.done = label, total, done
        self.arrived = 0  # units that are there and not finished yet
        self._stream = stream or sys.stderr
        self._show = not _Shown.quiet if show is None else show
        self._terminal = show is True or self._stream.isatty()
        self._before, self._start, self._last = done, time.monotonic(), 0.0
        self._line = self._start  # when the last line off a terminal was due
        self._written = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal and self._show:
            self._put(f"\r\x1b[K{self.line()}\n")
        elif self._written:
            self._put_line()

    def arrive(self, units: int = 1) -> None:
        """Some more units are there: they count, though they are not finished yet."""
        self.arrived += units
        self._tell()

    def advance(self, units: int = 1) -> None:
        """Some more units are done; those that arrived first."""
        self.done += units
        self.arrived = max(0, self.arrived - units)
        self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        if self._terminal and self._show and now - self._last >= INTERVAL_S:
            self._last = now
            self._put(f"\r\x1b[K{self.line()}")
        if now - self._line >= LINE_S:
            self._line = now
            self._put_line()

    def _put_line(self) -> None:
        LOG.info(self.line())
        if self._show and not self._terminal:
            self._written = True
            self._put(f"{self.line()}\n")

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def line(self) -> str:
        """The line as text."""
        elapsed = time.monotonic() - self._start
        count = min(self.done + self.arrived, max(self.total, self.done))
        fresh = count - self._before
        text = f"{self.label} {count:,}/{self.total:,}"
        if fresh > 0 and elapsed > 0:
            rate = fresh / elapsed
            text += f"  {rate:.1f}/s" if rate >= 0.95 else f"  {1 / rate:.1f} s each"
            if count < self.total:
                text += f"  {_clock((self.total - count) / rate)} left"
            else:
                text += f"  {_clock(elapsed)}"
        return text


class Working:
    """Tells on a terminal, every few seconds, for how long something of unknown length has been going on."""

    def __init__(self, label: str, *, stream: TextIO | None = None, show: bool | None = None) -> None:
        self.label = label
        self._stream = stream or sys.stderr
        self._show = self._stream.isatty() and not _Shown.quiet if show is None else show
        self._over = threading.Event()
        self._teller = threading.Thread(target=self._tell, name="verism-progress", daemon=True)
        self._start = time.monotonic()

    def __enter__(self) -> Working:
        self._start = time.monotonic()
        if self._show:
            self._teller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._show:
            self._teller.join()
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _tell(self) -> None:
        while not self._over.wait(WORKING_S):
            self._stream.write(f"\r\x1b[K{self.label}, {_clock(time.monotonic() - self._start)}")
            self._stream.flush()


def _clock(seconds: float) -> str:
    full = round(seconds)
    if full < 60:
        return f"{full} s"
    return f"{full // 60}:{full % 60:02d} min" if full < 3600 else f"{full // 3600}:{full % 3600 // 60:02d} h"
