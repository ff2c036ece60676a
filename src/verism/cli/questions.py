"""``verism questions``: what judges elsewhere must answer about the images of a suite, or of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from verism.characters import visible
from verism.cli.common import RAW_HELP, given, in_section
from verism.cli.suite_commands import SuiteCommands
from verism.locations import location
from verism.manifest import canonical_suite_name
from verism.records import declaring_option, option_of, roles
from verism.store import Run
from verism.suites.base import Suite
from verism.suites.catalogue import make_suite, stored_suite, suite_entries
from verism.terminal import prepared, say

__all__ = ["questions"]


def _put_questions(suite: Suite, run: Run | None, role: str | None, as_json: bool, raw: bool) -> None:
    from verism.exports.questions import answerable_roles, question_table

    table = question_table(suite, role=role, run=run)
    if as_json:
        for line in table.json_lines():
            click.echo(line)
    else:
        text = table.csv(raw=raw)
        click.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
    others = "".join(f"; also: --role {other}" for other in answerable_roles(suite) if other != table.role)
    say(
        f"{len(table.rows):,} rows about {table.n_images:,} images; filled in, they are read by "
        f"{option_of(table.role)} results:FILE{others}. Name who answers, so that runs with files of one judge can be "
        f"compared: {declaring_option(table.role)}"
    )


def _output() -> list[click.Parameter]:
    return in_section(
        "Output",
        [
            click.Option(
                ["--role"],
                type=click.Choice(roles()),
                help="Role whose questions to print.  [default: vqa if asked, else the first that files can answer]",
            ),
            click.Option(["--json", "as_json"], is_flag=True, help="Print JSON lines instead of CSV."),
            click.Option(["--raw"], is_flag=True, help=RAW_HELP),
        ],
    )


def _of_suite(suite: str, role: str | None, as_json: bool, raw: bool, **options: Any) -> None:
    _put_questions(make_suite(suite, **given(options)), None, role, as_json, raw)


class _QuestionCommands(SuiteCommands):
    """Of a suite by its name, or of a run by its directory."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if not _is_directory(cmd_name):
            return super().get_command(ctx, cmd_name)

        def call(role: str | None, as_json: bool, raw: bool) -> None:
            run = Run.open(location(cmd_name))
            _put_questions(stored_suite(run), run, role, as_json, raw)

        about = "What judges elsewhere must answer about the usable images of a run."
        return click.Command(cmd_name, callback=call, params=_output(), help=about)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and _is_directory(args[0]):
            return prepared(ctx, (args[0], self.get_command(ctx, args[0]), args[1:]))
        return super().resolve_command(ctx, args)


def _is_directory(name: str) -> bool:
    """Whether a name is that of a directory and no suite's."""
    known = name.startswith("-") or canonical_suite_name(name) in suite_entries()
    return not known and (len(Path(name).parts) > 1 or Path(name).is_dir())


questions = _QuestionCommands(
    "questions",
    _of_suite,
    lambda suite: _output(),  # noqa: ARG005
    about="Print the questions about the images of a run or of a suite, for judges elsewhere.\n\nFill in the last "
    "column or columns, then read the answers with results:FILE, as in: verism observe RUN --vqa results:FILE. Choices "
    "are a JSON list, empty for yes and no. An empty answer is none, and is counted. "
    "With results:FILE?judge=NAME, runs whose files are by one judge can be compared. --role asks for another role's "
    "questions: captions, texts, scores, boxes (a row for each), depth maps (a .npy file for each image).",
    examples="""verism questions runs/bias > questions.csv
verism observe runs/bias --vqa results:questions.csv
verism questions runs/align --role captioner --json > captions.jsonl
verism questions dsg --prompts dsg-1k-anns.csv > questions.csv
verism questions tifa --limit 20 --json > questions.jsonl""",
)
