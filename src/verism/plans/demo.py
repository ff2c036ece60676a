"""The demonstration of all suites: a plan made of what each suite declares that it can show offline (``Suite.demos``).

Everything in it comes with verism: generators, renderers of known truth, judges. Suites whose prompts or images may not
come along write small examples of their own, in the released layout.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from verism.errors import UsageError
from verism.options import Context
from verism.plans.board import Board
from verism.plans.board_text import adjusted_words, number_words
from verism.plans.plan import Plan
from verism.records import Renderer
from verism.registry import make_renderer
from verism.report_kit import words
from verism.specs import Demo
from verism.suites.catalogue import suite_class, suite_entries

__all__ = ["DemoPart", "demo_parts", "demo_plan", "demo_table", "write_demo_files"]

TITLE = "Everything offline: a demonstration"


@dataclass(frozen=True, kw_only=True)
class DemoPart:
    """A column of the demonstration, or a suite that shows nothing.

    Attributes:
        suite: name of the suite.
        name: name of the column: the suite's, with the variant behind it if there is one.
        demo: what it shows; None for nothing.
        reason: why it shows nothing.
    """

    suite: str
    name: str
    demo: Demo | None
    reason: str = ""

    @property
    def left_out(self) -> tuple[str, ...]:
        """What of the suite is not shown, and why; a sentence each."""
        return (self.reason,) if self.demo is None else self.demo.left_out


def demo_parts(only: Sequence[str] = ()) -> list[DemoPart]:
    """What every installed suite shows, in the order of ``verism list suites``.

    Args:
        only: names of suites; empty for all.

    Raises:
        UsageError: a suite that does not exist.
    """
    names = [suite_class(name).info.name for name in only] or list(suite_entries())
    parts = []
    for name in dict.fromkeys(names):
        try:
            demos = suite_class(name).demos
        except UsageError as err:  # a package that is installed and cannot be loaded
            parts.append(DemoPart(suite=name, name=name, demo=None, reason=str(err)))
            continue
        for demo in demos:
            column = f"{name}_{demo.variant}" if demo.variant else name
            parts.append(DemoPart(suite=name, name=column, demo=demo))
        if not demos:
            parts.append(DemoPart(suite=name, name=name, demo=None, reason="it declares nothing to be shown offline"))
    return parts


def write_demo_files(parts: Iterable[DemoPart], folder: Path, *, size: int = 128) -> None:
    """Write the example files of the parts that have any, each into a folder of its name; what is there is kept.

    Args:
        parts: of the demonstration.
        folder: where to.
        size: width and height of rendered images, pixels.
    """
    missing = [p for p in parts if p.demo is not None and p.demo.files and not (folder / p.name).is_dir()]
    if not missing:
        return
    with ExitStack() as at_end:

        @cache
        def renderer() -> Renderer:
            made = make_renderer(Context(size=size))
            at_end.callback(getattr(made, "close", lambda: None))
            return made

        for part in missing:
            assert part.demo is not None
            unfinished = folder / f"{part.name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            resolve_name(part.demo.files)(unfinished, renderer)
            unfinished.rename(folder / part.name)


def demo_plan(parts: Iterable[DemoPart], files: Path, *, limit: int | None = None, seed: int = 11) -> Plan:
    """The plan of the demonstration.

    Args:
        parts: of the demonstration; those that show nothing are left out.
        files: the folder of ``write_demo_files``.
        limit: prompts of each suite at most; None for the suites' own numbers.
        seed: of prompts and images.

    Raises:
        UsageError: nothing to show, two suites that mean other models by one name, or settings that no run takes.
    """
    models: dict[str, str] = {}
    references: dict[str, str] = {}
    suites: dict[str, dict[str, Any]] = {}
    shown: dict[str, set[str]] = {}
    for part in parts:
        if part.demo is None:
            continue
        for rows, named in ((models, part.demo.models), (references, part.demo.references)):
            for name, value in named.items():
                if {**models, **references}.get(name, value) != value:
                    raise UsageError(f"the demonstration of {part.suite} calls another model {name!r} than others do")
                rows[name] = value
        settings = _filled(part.demo.settings, str((files / part.name).absolute()))
        takes_limit = any(option.name == "limit" for option in suite_class(part.suite).options)
        if limit is not None and takes_limit:
            settings["limit"] = max(part.demo.least, min(limit, settings.get("limit", limit)))
        suites[part.name] = {"suite": part.suite, **settings}
        shown[part.name] = {*part.demo.models, *part.demo.references}
    if not suites:
        raise UsageError("none of these suites shows anything offline")
    exclude = [
        {"model": model, "suite": suite}
        for model in (*models, *references)
        for suite in suites
        if model not in shown[suite]
    ]
    return Plan.make(
        title=TITLE, models=models, references=references, suites=suites, defaults={"seed": seed}, exclude=exclude
    )


def _filled(settings: Mapping[str, Any], files: str) -> dict[str, Any]:
    """Settings with the folder of their files."""

    def fill(value: Any) -> Any:
        return value.replace("{files}", files) if isinstance(value, str) else value

    return {name: fill(value) for name, value in settings.items()}


# -------------------------------------------------------------------------------------------------------------- result
def demo_table(board: Board, suites: Sequence[str]) -> str:
    """The first headline metric of each suite, a line for each model: as judged, and with the judge's error taken out.

    Args:
        board: of the demonstration's runs.
        suites: names of its columns of suites; those without a number on the board are named, too.
    """
    head = ("suite", "metric", "model", "as judged", "95 % interval", "n", "without the judge's error", "left out")
    lines: list[tuple[str, ...]] = [head]
    seen: set[str] = set()
    for column in board.columns:
        if column.suite in seen:
            continue
        seen.add(column.suite)
        unit = "%" if column.unit == "share" else column.unit
        first = (column.suite, f"{column.label} ({unit})")
        for row in board.rows:
            cell = row.cells[column.key]
            if cell.state == "excluded":
                continue
            judged = ("undefined", "") if cell.score is None else (words.value(cell.score), words.interval(cell.score))
            n = number_words(cell).removeprefix("n = ")
            lines.append((*first, row.name, *judged, n, adjusted_words(cell), cell.left_out))
            first = ("", "")
    for name in dict.fromkeys(suites):
        if name not in seen:
            lines.append((name, "no headline number without other judges; see its reports", *[""] * (len(head) - 2)))
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    return "\n".join("  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip() for line in lines)
