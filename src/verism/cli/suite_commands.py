"""Commands that take a suite first, and groups to which suites add commands of their own.

``verism run --help`` lists the suites; ``verism run SUITE --help`` shows what that suite takes and nothing of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from verism.cli.common import GroupedCommand, in_section
from verism.errors import UsageError
from verism.manifest import canonical_suite_name
from verism.specs import Option, Rule, did_you_mean
from verism.suites.base import Suite
from verism.suites.catalogue import SUITES, commands, plugin_commands, suite_class, suite_entries
from verism.terminal import Group, LazyCommand, PathType, prepared

__all__ = ["SuiteCommands", "SuiteGroup", "suite_options"]

# Options that every command of a suite takes from its caller and not from the suite.
IMAGES = "images"


class SuiteCommands(click.Group):
    """A group whose commands are the suites, built-in and from other packages."""

    def __init__(
        self,
        name: str,
        callback: Callable[..., None],
        common: Callable[[type[Suite]], Sequence[click.Parameter]],
        *,
        about: str,
        examples: str,
        arguments: Sequence[click.Argument] = (),
        argument_of: str = "",
        beside: Mapping[str, click.Command] | None = None,
    ) -> None:
        """A group of commands.

        Args:
            name: of the group.
            callback: called with the name of the suite as ``suite``, and every option by its name.
            common: given the suite, options besides those of the suite.
            about: what the command does, for every suite's help.
            examples: lines of examples, for the help of the group.
            arguments: of every command, after the suite.
            argument_of: name of an option of suites that is an argument here; suites without it are left out.
            beside: by name, commands that are of no suite.
        """
        super().__init__(
            name=name,
            help=f"{about}\n\n\b\n{examples}",
            subcommand_metavar=" ".join(["SUITE", *(a.human_readable_name for a in arguments), "[OPTIONS]"]),
            short_help=about.partition("\n")[0],
            context_settings={"ignore_unknown_options": True},  # resolve_command says what to do about them
        )
        self.about = about
        self.run_suite = callback
        self.common = common
        self.arguments = list(arguments)
        self.argument_of = argument_of
        self.beside = dict(beside or {})

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*self.beside, *(name for name in suite_entries() if self._takes(name))]

    def _takes(self, name: str) -> bool:
        if not self.argument_of:
            return True
        try:
            suite = suite_class(name)
        except UsageError:  # a plug-in that cannot be loaded; whoever names it is told why
            return False
        return any(option.name == self.argument_of for option in suite.options)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        entries = suite_entries()
        for name in self.list_commands(ctx):
            if name in self.beside:
                rows.append((name, self.beside[name].get_short_help_str(90)))
                continue
            entry = entries[name]
            summary = entry.summary
            if not summary:
                try:
                    summary = f"{suite_class(name).info.summary} ({entry.package})"
                except UsageError as err:
                    summary = str(err)
            rows.append((name, summary))
        with formatter.section(f"Suites (options of one: {ctx.command_path} SUITE --help)"):
            formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in self.beside:
            return self.beside[cmd_name]
        suite = suite_class(cmd_name)
        name = suite.info.name

        def call(**options: Any) -> None:
            self.run_suite(suite=name, **options)

        command = GroupedCommand(
            name,
            callback=call,
            params=[*self.arguments, *suite_options(suite, without=self.argument_of), *self.common(suite)],
            help=f"{suite.info.question}\n\n{self.about}\n\n{suite.info.citation}",
            context_settings={"max_content_width": 110},
        )
        command.more_help = {
            f"Rules of {name}": [(f"  {rule.name}", f"{rule.help}{_default_of(rule)}") for rule in suite.rules]
        }
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        first = args[0] if args else ""
        name = canonical_suite_name(first)
        usage = " ".join([ctx.command_path, "SUITE", *(a.human_readable_name for a in self.arguments)])
        if first.startswith("-"):
            raise click.UsageError(f"name the suite first: {usage} {first} ...", ctx)
        if first not in self.beside and not (name in SUITES and self._takes(name)):
            known = [name for name in self.list_commands(ctx) if name not in self.beside]
            if name not in known:
                there_are = f"{did_you_mean(name, known)} There are: {', '.join(known)}"
                raise UsageError(f"unknown suite {first!r}.{there_are}; use: {usage}")
        return prepared(ctx, super().resolve_command(ctx, args))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of suites with their summaries; none is loaded for it."""
        entries = suite_entries()
        summaries = {name: self.beside[name].get_short_help_str() for name in self.beside}
        summaries |= {name: entry.summary for name, entry in entries.items()}
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=summaries.get(name)) for name in names] or super().shell_complete(
            ctx, incomplete
        )


class SuiteGroup(Group):
    """A group to which suites add the commands they declare; each is imported when it is called.

    Suites of other packages are only loaded for a name that is not known without them, and for the help.
    """

    def __init__(self, *arguments: Any, path: str = "", **settings: Any) -> None:
        """A group of commands.

        Args:
            *arguments: of ``click.Group``.
            path: names of the group and of those above it but for the first, ``scenes``; empty for the first.
            **settings: of ``click.Group``.
        """
        super().__init__(*arguments, **settings)
        self.path = path.split()

    def list_commands(self, ctx: click.Context) -> list[str]:
        subset = super().list_commands(ctx)
        return [*subset, *(name for name in self._added({**commands(), **plugin_commands()}) if name not in subset)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        subset = super().get_command(ctx, cmd_name)
        if subset is not None:
            return subset
        location = self._added(commands()).get(cmd_name) or self._added(plugin_commands()).get(cmd_name)
        return LazyCommand(cmd_name, location) if location else None

    def _added(self, declared: Mapping[str, str]) -> dict[str, str]:
        """Location by name, of the commands declared for this group."""
        paths = {tuple(path.split()): location for path, location in declared.items()}
        return {path[-1]: location for path, location in paths.items() if list(path[:-1]) == self.path}


def suite_options(suite: type[Suite], *, without: str = "") -> list[click.Parameter]:
    """Options of a suite, and its rules that have an option of their own, for the command line.

    Args:
        suite: the suite.
        without: name of an option to leave out.
    """
    left_out = (IMAGES, without)
    options = [_parameter(option, option.command_line) for option in suite.options if option.name not in left_out]
    flagged = [_parameter(rule, rule.flag) for rule in suite.rules if rule.flag]
    return in_section(f"Options of {suite.info.name}", [*options, *flagged])


def _default_of(rule: Rule) -> str:
    default = ",".join(map(str, rule.default)) if isinstance(rule.default, tuple) else rule.default
    return "" if default in (None, "") else f"  [default: {default}]"


def _parameter(spec: Option | Rule, flag: str) -> click.Option:
    default = spec.default if isinstance(spec, Option) else ""
    return click.Option(
        [flag, spec.name],
        type=_type_of(spec),
        multiple=spec.many and not spec.commas,
        help=spec.help + (f"  [default: {default}]" if default else ""),
    )


def _type_of(spec: Option | Rule) -> click.ParamType[Any]:
    if spec.choices and not spec.commas:
        return click.Choice(list(spec.choices))
    if isinstance(spec, Rule) and spec.file:
        return PathType()
    if spec.type is int and not spec.commas:
        low, high = (None if end is None else int(end) for end in (spec.low, spec.high))
        return click.IntRange(low, high)
    if spec.type is float and not spec.commas:
        return click.FloatRange(spec.low, spec.high)
    if spec.type is bool:
        return click.BOOL
    return PathType() if spec.type is Path else click.STRING
