"""Commands that take a suite first: each shows the options of that suite, and those common to all.

``verism run --help`` lists the suites; ``verism run SUITE --help`` shows what that suite takes and nothing of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from verism.cli.common import GroupedCommand, in_section
from verism.errors import UsageError
from verism.manifest import canonical_suite_name
from verism.specs import Option, Rule, did_you_mean
from verism.suites.base import Suite
from verism.suites.catalogue import suite_class, suite_entries

__all__ = ["SuiteCommands", "suite_options"]

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
    ) -> None:
        """A group of commands.

        Args:
            name: of the group.
            callback: called with the name of the suite as ``suite``, and every option by its name.
            common: given the suite, options besides those of the suite.
            about: what the command does, for every suite's help.
            examples: lines of examples, for the help of the group.
            arguments: of every command, after the suite.
        """
        super().__init__(
            name=name,
            help=f"{about}\n\n\b\n{examples}",
            subcommand_metavar="SUITE [OPTIONS]",
            short_help=about.partition("\n")[0],
        )
        self.about = about
        self.run_suite = callback
        self.common = common
        self.arguments = list(arguments)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(suite_entries())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        rows = []
        for name, entry in suite_entries().items():
            summary = entry.summary
            if not summary:
                try:
                    summary = f"{suite_class(name).info.summary} ({entry.package})"
                except UsageError as err:
                    summary = str(err)
            rows.append((name, summary))
        with formatter.section(f"Suites (options of one: verism {self.name} SUITE --help)"):
            formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        suite = suite_class(cmd_name)
        name = suite.info.name

        def call(**options: Any) -> None:
            self.run_suite(suite=name, **options)

        command = GroupedCommand(
            name,
            callback=call,
            params=[*self.arguments, *suite_options(suite), *self.common(suite)],
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
        known = suite_entries()
        if first.startswith("-"):
            raise click.UsageError(f"name the suite first: verism {self.name} SUITE {first} ...", ctx)
        if canonical_suite_name(first) not in known:
            raise UsageError(
                f"unknown suite {first!r}.{did_you_mean(canonical_suite_name(first), known)} There are: "
                f"{', '.join(known)}"
            )
        return super().resolve_command(ctx, args)


def suite_options(suite: type[Suite]) -> list[click.Parameter]:
    """Options of a suite, and its rules that have an option of their own, for the command line."""
    options = [_parameter(option, option.command_line) for option in suite.options if option.name != IMAGES]
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
        return click.Path(path_type=Path)
    if spec.type is int and not spec.commas:
        low, high = (None if end is None else int(end) for end in (spec.low, spec.high))
        return click.IntRange(low, high)
    if spec.type is float and not spec.commas:
        return click.FloatRange(spec.low, spec.high)
    if spec.type is bool:
        return click.BOOL
    return click.Path(path_type=Path) if spec.type is Path else click.STRING
