"""The command that repeats a run, from what the run keeps of how it was made: to be copied into a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, ClassVar, Protocol

from verism.records import option_of
from verism.services.redaction import HIDDEN, Redactor
from verism.specs import Option, Rule
from verism.store import Run
from verism.systems import quoted

__all__ = ["Declared", "command_of"]

SIZE = 256  # of rendered images, unless another is asked for
# What programs of users may be given on their command lines, besides what any redactor knows for a key.
OPTIONS = re.compile(r"(--?[\w-]*(?:key|token|secret|password|auth)[\w-]*[=\s]+)(?!\$)\S+", re.IGNORECASE)
USERS = re.compile(r"(?<=://)[^/\s@]+@")  # user and password of an address
LONGEST = 10_000  # letters of a word


class Declared(Protocol):
    """What the command line of a suite is made from: a suite."""

    options: ClassVar[Any]
    rules: ClassVar[Any]

    def default_of(self, rule: Rule) -> Any:
        """The value of a rule that nobody changed, as plain JSON."""


def command_of(run: Run, suite: Declared | None = None) -> str:
    """The command line that makes the same prompts, images and observations again, and scores them alike.

    Absolute paths are shortened to the names of files, and whatever looks like a key is left out.

    Args:
        run: the run.
        suite: its suite, which knows how its options are written and which values its rules have by default; None:
            options are written by their names, and rules are left out.

    Returns:
        Empty where the run does not say how it was made, or was made from Python with objects that have no name.
    """
    call = next((c for c in run.manifest.calls if c.get("command") == "evaluate"), None)
    if call is None or call.get("python") or not call.get("suite"):
        return ""
    declared: Mapping[str, Option] = {} if suite is None else {o.name: o for o in suite.options}
    words = ["verism", "run", str(call["suite"])]
    for name in ("model", "images"):
        if call.get(name):
            words += [f"--{name}", _shown(call[name])]
    for role, judge in dict(call.get("judges", {})).items():
        words += [option_of(role), _shown(judge)]
    for name, value in dict(call.get("suite_options", {})).items():
        words += _words_of(declared[name].command_line if name in declared else _flag(name), value)
    words += _common(dict(call.get("options", {})))
    for name, value in _rules(run, suite):
        words += ["--rule", f"{name}={value}"]
    return " ".join(quoted(word) for word in words)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _words_of(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag, str(value).lower()]
    if isinstance(value, list | tuple):
        return [word for each in value for word in (flag, _shown(each))]
    return [flag, _shown(value)]


def _common(options: Mapping[str, Any]) -> list[str]:
    """Options of every suite that change images or observations; processes, devices and caches change none."""
    words = ["--shuffle"] if options.get("shuffle") else []
    if options.get("size") not in (None, SIZE):
        words += ["--size", str(options["size"])]
    for name in ("assets", "base_url"):
        if options.get(name):
            words += [_flag(name), _shown(options[name])]
    return words


def _rules(run: Run, suite: Declared | None) -> Iterator[tuple[str, str]]:
    """Rules that differ from their defaults, and that no judge brought along."""
    scoring = run.manifest.scoring
    if suite is None:
        return
    for rule in suite.rules:
        value = scoring.rules.get(rule.name)
        if (
            value is None
            or _plain(value) == _plain(suite.default_of(rule))
            or rule.about_images
            or isinstance(value, Mapping)
        ):
            continue
        if rule.calibrated_by and value in scoring.thresholds.values():
            continue
        several = isinstance(value, list | tuple)
        if several and any(isinstance(item, Mapping | list | tuple) for item in value):
            continue
        yield rule.name, ",".join(map(_shown, value)) if several else _shown(value)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    """A value as a word: without folders of the machine, and without anything that looks like a key."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    kind, colon, rest = text.partition(":")
    if _absolute(text):
        text = PurePath(text).name or text
    elif colon and _absolute(rest) and not rest.startswith("//"):
        name, mark, options = rest.partition("?")
        text = f"{kind}:{PurePath(name).name}{mark}{options}"
    text = USERS.sub(f"{HIDDEN}@", OPTIONS.sub(rf"\1{HIDDEN}", text))
    return Redactor()(text, LONGEST)


def _absolute(text: str) -> bool:
    return text.startswith(("/", "~/")) or bool(re.match(r"[A-Za-z]:[\\/]", text))
