"""What a campaign reports: trials and what came of them, and the table of a whole run."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

__all__ = [
    "OUTCOMES",
    "Job",
    "Outcome",
    "Setting",
    "Site",
    "Skipped",
    "Trial",
    "spread",
    "table",
    "traceback_in",
    "worst",
]

Outcome = Literal["survived", "lost", "silent", "traceback"]
OUTCOMES: tuple[Outcome, ...] = ("survived", "lost", "silent", "traceback")

# Python's, those of threads and of interpreters that end, and panics of Rust (polars).
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\)|^Fatal Python error|panicked at |Exception ignored in", re.M
)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One thing that was tried.

    Attributes:
        campaign: whose it is.
        name: what was tried, enough to find it again with the same seed.
        outcome: ``survived``: the result of an undisturbed command, or an error in words; ``lost``: something that was
            there is gone or doubled, a command did not end, or the same command does not mend it; ``silent``: other
            numbers, or a fault that no word tells of; ``traceback``: an error of the program, shown as one.
        detail: for all but ``survived``, what was seen.
        kills: processes killed.
        files: files given or damaged.
    """

    campaign: str
    name: str
    outcome: Outcome
    detail: str = ""
    kills: int = 0
    files: int = 0


@dataclass(frozen=True)
class Skipped:
    """What could not be tried on this machine, and why."""

    campaign: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all campaigns are told.

    Attributes:
        work: a folder for everything that is written.
        quick: a few trials of each kind, in seconds.
        seed: of everything that is drawn.
    """

    work: Path
    quick: bool
    seed: int

    @property
    def templates(self) -> Path:
        """Runs and images that jobs copy."""
        return self.work / "templates"


@dataclass(frozen=True)
class Site:
    """Where a job works, and by which lot."""

    setting: Setting
    folder: Path
    rng: random.Random = field(compare=False)

    @property
    def templates(self) -> Path:
        return self.setting.templates


class Job(NamedTuple):
    """Part of a campaign, done by one worker process: ``function(site, *arguments)``.

    Attributes:
        campaign: whose it is.
        function: at the top of a module, so that another process finds it.
        arguments: plain values.
        cost: about how many seconds it takes; the longest begin first.
    """

    campaign: str
    function: Callable[..., Iterable[Trial | Skipped]]
    arguments: tuple[Any, ...] = ()
    cost: float = 1.0


def traceback_in(text: str) -> str:
    """The last lines of a traceback in what a command printed; empty if there is none."""
    found = _TRACEBACK.search(text)
    if found is None:
        return ""
    lines = [line for line in text[found.start() :].splitlines() if line.strip()]
    return " | ".join(lines[-3:])[:400]


def worst(outcomes: Iterable[tuple[Outcome, str]]) -> tuple[Outcome, str]:
    """The gravest of several outcomes with its detail; ``survived`` for none."""
    order = {"survived": 0, "traceback": 1, "lost": 2, "silent": 3}
    return max(outcomes, key=lambda found: order[found[0]], default=("survived", ""))


def spread(count: int, wanted: int, rng: random.Random) -> list[int]:
    """Numbers below ``count``, ``wanted`` of them: all in turn as often as it takes, and the rest by lot."""
    rounds, rest = divmod(wanted, count) if count else (0, 0)
    return sorted(list(range(count)) * rounds + rng.sample(range(count), rest))


def table(trials: Sequence[Trial], skipped: Sequence[Skipped], seconds: dict[str, float]) -> str:
    """The table of a run, in Markdown.

    Args:
        trials: all that were done.
        skipped: what could not be tried.
        seconds: time of each campaign's jobs, added up over the worker processes.
    """
    campaigns = list(dict.fromkeys([*(t.campaign for t in trials), *(s.campaign for s in skipped)]))
    lines = [
        "| campaign | tried | kills | files | survived | lost | silent | tracebacks | s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in [*campaigns, "**all**"]:
        chosen = [t for t in trials if name in (t.campaign, "**all**")]
        counts = [sum(t.outcome == outcome for t in chosen) for outcome in OUTCOMES]
        took = sum(seconds.values()) if name == "**all**" else seconds.get(name, 0.0)
        numbers = [len(chosen), sum(t.kills for t in chosen), sum(t.files for t in chosen), *counts, round(took)]
        lines.append(f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    lines += [f"\nskipped: {s.campaign}: {s.why}" for s in skipped]
    return "\n".join(lines)
