"""Defaults of options: from the environment, and from a ``verism.toml`` or ``[tool.verism]`` of a ``pyproject.toml``.

An option on the command line goes first, then the environment, then the file, then the option's own default. In the
file, options stand by their long names, at the top for all commands, in ``[run]`` for all of ``verism run``, in
``[run.SUITE]`` for one suite; the closest goes first. In the environment: ``VERISM_RUN_SUITE_DEVICE``,
``VERISM_RUN_DEVICE``, ``VERISM_DEVICE``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import click

from verism.errors import UsageError
from verism.locations import beside
from verism.specs import did_you_mean
from verism.terminal import PREPARE, LazyCommand, PathType, say

__all__ = ["Defaults", "Setting", "find_file", "install"]

FILE, PROJECT = "verism.toml", "pyproject.toml"
PREFIX = "VERISM_"
CONFIG = f"{PREFIX}CONFIG"  # names another file; empty: none
# Set for programs that verism starts; not taken for the options of these names.
RESERVED = ("OUT", "PROTOCOL")
LIMITS = f"{PREFIX}LIMIT_"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A default, and where it is from.

    Attributes:
        command: words of the commands it is for; empty for all.
        key: the option's long name with underscores.
        value: as written.
        source: the file, or the variable of the environment.
    """

    command: tuple[str, ...]
    key: str
    value: Any
    source: str


@dataclass(frozen=True)
class Defaults:
    """What a file says.

    Attributes:
        file: the file; None where there is none.
        values: its content; tables are commands.
    """

    file: Path | None
    values: Mapping[str, Any]

    def of_command(self, words: Sequence[str], options: Mapping[str, click.Option]) -> dict[str, Setting]:
        """What applies to a command, by key.

        Args:
            words: of the command, without ``verism``.
            options: of the command, by key.
        """
        found: dict[str, Setting] = {}
        table: Mapping[str, Any] = self.values
        for depth in range(len(words) + 1):
            for name, value in table.items():
                key = name.replace("-", "_")
                if not isinstance(value, Mapping) and key in options:
                    found[key] = Setting(command=tuple(words[:depth]), key=key, value=value, source=str(self.file))
            if depth == len(words):
                break
            inner = {name.replace("-", "_"): value for name, value in table.items() if isinstance(value, Mapping)}
            table = inner.get(words[depth].replace("-", "_"), {})
        return found

    def settings(self) -> Iterator[Setting]:
        """All that the file says."""
        yield from _flat(self.values, (), str(self.file))

    def check(self, root: click.Group) -> None:
        """Refuse what no command has.

        Args:
            root: the command ``verism``.

        Raises:
            UsageError: an unknown option or command, with a near name.
        """
        for setting in self.settings():
            where = f"[{'.'.join(setting.command)}]" if setting.command else "the top"
            command = _command(root, setting.command)
            if command is None:
                near = did_you_mean(setting.command[0], root.list_commands(click.Context(root)))
                raise UsageError(f"{self.file}: {where} is no command of verism.{near}")
            known = set(_keys(command))
            if setting.key not in known:
                raise UsageError(
                    f"{self.file}: no option {setting.key!r} at {where}.{did_you_mean(setting.key, known)} "
                    f"See: verism {' '.join([*setting.command, '--help'])}"
                )


def _flat(table: Mapping[str, Any], command: tuple[str, ...], source: str) -> Iterator[Setting]:
    for name, value in table.items():
        key = name.replace("-", "_")
        if isinstance(value, Mapping):
            yield from _flat(value, (*command, key), source)
        else:
            yield Setting(command=command, key=key, value=value, source=source)


def _command(root: click.Command, words: Sequence[str]) -> click.Command | None:
    command: click.Command | None = root
    for word in words:
        if not isinstance(command, click.Group):
            return None
        context = click.Context(command)
        names = {name.replace("-", "_"): name for name in command.list_commands(context)}
        command = command.get_command(context, names[word]) if word in names else None
        if isinstance(command, LazyCommand):
            command = command.loaded()
    return command


def _keys(command: click.Command) -> Iterator[str]:
    """Keys of the options of a command, and of all below it."""
    if isinstance(command, LazyCommand):
        command = command.loaded()
    yield from options_of(command)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _keys(inner)


def options_of(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by key, as the file and the environment name them."""
    return {
        opt.removeprefix("--").replace("-", "_"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for opt in parameter.opts
        if opt.startswith("--")
    }


def find_file(folder: Path) -> Defaults:
    """The nearest file of defaults, upwards from a folder; ``VERISM_CONFIG`` names another, or none if it is empty.

    Args:
        folder: where to begin.

    Raises:
        UsageError: the file cannot be read as TOML.
    """
    named = os.environ.get(CONFIG)
    if named is not None:
        return Defaults(Path(named), _read(Path(named))) if named else Defaults(None, {})
    for parent in (folder, *folder.parents):
        if (parent / FILE).is_file():
            return Defaults(parent / FILE, _read(parent / FILE))
        if (parent / PROJECT).is_file():
            try:
                tool = _read(parent / PROJECT).get("tool", {})
            except UsageError:  # a matter of other programs
                continue
            if isinstance(tool, Mapping) and isinstance(tool.get("verism"), Mapping):
                return Defaults(parent / PROJECT, tool["verism"])
    return Defaults(None, {})


def _read(file: Path) -> dict[str, Any]:
    try:
        state = file.stat()
        return _parsed(file.absolute(), state.st_mtime_ns, state.st_size)
    except (OSError, ValueError) as err:
        raise UsageError(f"{file}: cannot be read as TOML: {err}") from err


@lru_cache(maxsize=8)
def _parsed(file: Path, _changed: int, _size: int) -> dict[str, Any]:
    """What a file says; read once for all commands of a process, for as long as it does not change."""
    return tomllib.loads(file.read_text(encoding="utf-8"))


def environment_names(words: Sequence[str], key: str) -> list[str]:
    """Variables that an option takes its default from, the closest first.

    Args:
        words: of the command, without ``verism``.
        key: of the option.

    >>> environment_names(["run", "quality"], "device")
    ['VERISM_RUN_QUALITY_DEVICE', 'VERISM_RUN_DEVICE', 'VERISM_DEVICE']
    """
    upper = [word.upper().replace("-", "_") for word in words]
    names = [PREFIX + "_".join([*upper[:depth], key.upper()]) for depth in range(len(upper), -1, -1)]
    return [name for name in names if name not in {PREFIX + reserved for reserved in RESERVED}]


def unknown_variables(root: click.Group) -> list[tuple[str, str]]:
    """Variables of the environment that look like defaults and name no option, with a hint.

    Args:
        root: the command ``verism``.
    """
    known = {CONFIG, *(PREFIX + name for name in RESERVED)}
    for key in options_of(root):
        known.add(PREFIX + key.upper())

    def walk(command: click.Command, words: list[str]) -> None:
        if isinstance(command, LazyCommand):
            command = command.loaded()
        for key in options_of(command):
            known.update(environment_names(words, key))
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                if inner is not None:
                    walk(inner, [*words, name])

    walk(root, [])
    odd = [name for name in os.environ if name.startswith(PREFIX) and not name.startswith(LIMITS) and name not in known]
    return [(name, did_you_mean(name, known).strip()) for name in sorted(odd)]


def install(context: click.Context, root: click.Group) -> None:
    """Let the commands below a context take defaults from the environment and the file.

    Args:
        context: of ``verism``.
        root: the command ``verism``.
    """
    defaults = find_file(Path.cwd())

    def prepare(ctx: click.Context, name: str, command: click.Command, args: Sequence[str]) -> None:
        if isinstance(command, LazyCommand):
            command = command.loaded()
        if isinstance(command, click.Group):
            return
        words = [*_words(ctx), name]
        options = options_of(command)
        for key, option in options.items():
            option.envvar = environment_names(words, key)
        given = defaults.of_command(words, options)
        tables = {key.replace("-", "_") for key, value in defaults.values.items() if isinstance(value, Mapping)}
        top = {
            command.replace("-", "_") for command in root.commands
        }  # those of packages are loaded by the check alone
        if _unmatched(defaults.values, words, options) or tables - top:
            defaults.check(root)  # of other commands, or of none
        ctx.default_map = {name: {options[key].name: _value(options[key], s) for key, s in given.items()}}
        used = [f"{key}={s.value}" for key, s in given.items() if not _is_given(options[key], key, words, args)]
        if used:
            say(f"defaults from {defaults.file}: {', '.join(used)}")

    context.meta[PREPARE] = prepare


def _words(ctx: click.Context) -> list[str]:
    words = []
    at: click.Context | None = ctx
    while at is not None and at.parent is not None:
        words.append(str(at.info_name))
        at = at.parent
    return words[::-1]


def _unmatched(values: Mapping[str, Any], words: Sequence[str], options: Mapping[str, click.Option]) -> bool:
    """Whether a file says something on the way to a command that the command has no option for."""
    table: Mapping[str, Any] = values
    for depth in range(len(words) + 1):
        names = {name.replace("-", "_"): value for name, value in table.items()}
        if any(key not in options and not isinstance(value, Mapping) for key, value in names.items()):
            return True
        if depth == len(words):
            return False
        inner = names.get(words[depth].replace("-", "_"), {})
        table = inner if isinstance(inner, Mapping) else {}
    return False


def _is_given(option: click.Option, key: str, words: Sequence[str], args: Sequence[str]) -> bool:
    """Whether an option is on the command line or in the environment."""
    written = {arg.partition("=")[0] for arg in args}
    names = environment_names(words, key)
    return bool(written & {*option.opts, *option.secondary_opts}) or any(os.environ.get(name) for name in names)


def _value(option: click.Option, setting: Setting) -> Any:
    """A value of the file as click takes it; paths count from the file's folder."""
    if option.multiple:
        several = setting.value if isinstance(setting.value, list) else [setting.value]
        return tuple(str(value) for value in several)
    if isinstance(option.type, PathType) and isinstance(setting.value, str):
        return str(beside(Path(setting.source).parent, setting.value))
    if isinstance(setting.value, list):
        return ",".join(map(str, setting.value))
    return setting.value if option.is_flag else str(setting.value)
