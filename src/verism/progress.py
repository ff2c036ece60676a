"""A line on stderr while long work runs: how much is done, how fast, how long it will take. Quiet off a terminal."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

__all__ = ["Progress", "Working"]

INTERVAL_S = 0.2
WORKING_S = 2.0


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
        self._stream = stream or sys.stderr
        self._show = self._stream.isatty() if show is None else show
        self._before, self._start, self._last = done, time.monotonic(), 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._show:
            self._stream.write(f"\r\x1b[K{self.line()}\n")
            self._stream.flush()

    def advance(self, units: int = 1) -> None:
        """Some more units are done."""
        self.done += units
        now = time.monotonic()
        if self._show and now - self._last >= INTERVAL_S:
            self._last = now
            self._stream.write(f"\r\x1b[K{self.line()}")
            self._stream.flush()

    def line(self) -> str:
        """The line as text."""
        elapsed = time.monotonic() - self._start
        fresh = self.done - self._before
        text = f"{self.label} {self.done:,}/{self.total:,}"
        if fresh > 0 and elapsed > 0:
            rate = fresh / elapsed
            text += f"  {rate:.1f}/s"
            if self.done < self.total:
                text += f"  {_clock((self.total - self.done) / rate)} left"
            else:
                text += f"  {_clock(elapsed)}"
        return text


class Working:
    """Tells on a terminal, every few seconds, for how long something of unknown length has been going on."""

    def __init__(self, label: str, *, stream: TextIO | None = None, show: bool | None = None) -> None:
        self.label = label
        self._stream = stream or sys.stderr
        self._show = self._stream.isatty() if show is None else show
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
