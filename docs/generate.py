"""Generate the parts of the documentation that come from declarations in the code.

python docs/generate.py             write the generated pages and the generated parts of others
python docs/generate.py --check     write nothing; exit 1 if a page is stale
"""

from __future__ import annotations

import argparse
import ast
import csv
import html
import importlib
import inspect
import io
import pkgutil
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

import verism
from verism.cli.listing import option_listing
from verism.cli.main import cli
from verism.cli.suite_commands import SuiteCommands
from verism.limits import LIMITS, MAX_SEED
from verism.manifest import Environment, Manifest, RunSettings, Scoring
from verism.records import NEEDS, TABLES, option_of
from verism.registry import GENERATORS, JUDGES, TRACKERS
from verism.specs import MetricSpec, Option, Rule, Scale
from verism.suites.base import Suite
from verism.suites.catalogue import SUITES, suite_class
from verism.terminal import LazyCommand

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "metrics-and-rules.md"
METRICS_CSV = DOCS / "metrics-and-rules.csv"
EXTENDING = DOCS / "extending.md"
TABLES_PAGE = DOCS / "tables.md"
LIMITS_PAGE = DOCS / "limits.md"
README = DOCS.parent / "README.md"
QUESTIONS = (
    (
        "Do images show the objects, numbers, colours and relations of their prompts?",
        ("paintskills", "paintskills_v1", "geneval", "geneval2", "compbench"),
    ),
    (
        "How much of a prompt, short or dense, do images show?",
        ("dsg", "tifa", "dpg_bench", "genai_bench", "oneig_alignment", "unigenbench", "alignment"),
    ),
    ("Does the model have the world knowledge that a prompt requires?", ("wise",)),
    ("Do images show the requested text, letter by letter?", ("text_rendering",)),
    ("Are images as realistic and diverse as real ones?", ("quality",)),
    ("Which images do models of human preference prefer?", ("preference",)),
    (
        "Are images equally realistic, diverse and consistent for every region of the world?",
        ("geography", "geography_dollarstreet"),
    ),
    (
        "Which people and which clothes does a model show where the prompt leaves it open?",
        ("social_bias", "social_bias_v1", "gender_presentation"),
    ),
    ("How often are images of prompts that invite it unsafe?", ("unsafe_content",)),
)
SUITES_PAGE = DOCS / "suites" / "index.md"
COMMANDS = DOCS / "reference" / "cli.md"
KINDS = DOCS / "reference" / "models-and-judges.md"
PYTHON = DOCS / "reference" / "python.md"
PYTHON_MODULES = {
    "python-metrics.md": (
        "Python: metrics",
        "Pure functions of arrays, with NumPy and SciPy alone. [Metrics of sets, captions and embeddings]"
        "(../metrics.md) explains them; `verism metrics` computes them from files.",
        "verism.metrics",
    ),
    "python-statistics.md": (
        "Python: statistics",
        "Intervals, paired tests, agreement and adjustment for judge error: pure functions of arrays. "
        "[Statistics](../statistics.md) says which is used where.",
        "verism.statistics",
    ),
    "python-suites.md": (
        "Python: suites and plug-ins",
        "What a suite, a judge or a generator of another package is made of. [Extending verism](../extending.md) walks "
        "through an example.",
        "verism.suites.base verism.specs verism.records",
    ),
}
FORMATS = DOCS / "reference" / "file-formats.md"
EXAMPLE = DOCS.parent / "examples" / "plugin"

HEAD = """\
# Metrics, rules and options

The declarations of every suite: [metrics](#metrics), [protocols](#protocols), [rules](#rules) and
[options](#options). `python docs/generate.py` writes this page from `src/verism/suites/`.
[Extending verism](extending.md) explains the records.
"""

TABLES_HEAD = """\
# Tables

The parquet tables of a [run directory](runs.md). Tables are long: one row per fact, joined by id and never by position.
`null` means "no usable answer". `python docs/generate.py` writes this page from `src/verism/records.py`.
"""

METRICS = """\
## Metrics

* **Bold**: headline metrics, which answer the suite's question; `run.metrics()` returns them.
* **range**: smallest and largest possible value, and the unit. "by score": each score carries its own unit.
  ↑: higher is better; ↓: lower is better.
* **compared**: how `verism compare` compares two runs. *paired*: image by image; *independent*: by both intervals; a
  dash: not compared. *equal n*: the expected value depends on the number of images, so other numbers are refused.
* Metrics with one meaning share a line.

[metrics-and-rules.csv](metrics-and-rules.csv) has one row per suite and metric, with the titles that reports print.
"""

RULES = """\
## Rules

Rules change verdicts or scores without new images or observations. Set them with `--rule NAME=VALUE` of `verism run`
and `verism score`, or with the option in brackets. "detector's own" is a threshold supplied by the judge. Rules that
affect only *scores* leave verdicts, and therefore judge cards, unchanged.
"""

OPTIONS = """\
## Options

Options decide the prompts and observations. A run is resumed only with the same options. In Python they are keyword
arguments of `verism.evaluate`; on the command line, `n_images` is `--n-images` unless the table names another option.
"""

COMMANDS_HEAD = """\
# Commands

Every command of `verism` with its examples and options, as in `verism COMMAND --help`. Results go to standard output,
progress and messages to standard error. Exit code 0: done. 1: finished, but images are missing or failed, or an error
that is explained stopped the command. 2: wrong usage. `python docs/generate.py` writes this page.

## Common options

Options of several commands; each command names those it has.
"""

KINDS_HEAD = """\
# Models, judges and trackers

What `--model`, the options of the judges and `--track` take, as `KIND:ARGUMENT?NAME=VALUE&NAME=VALUE`, and the options
of every kind. `verism list models KIND`, `verism list judges KIND` and `verism list trackers KIND` print the same.
`python docs/generate.py` writes this page. In a shell, quote names that contain `?`, `&` or `{`.
"""

PYTHON_HEAD = """\
# Python

The public interface, `import verism`. Heavy libraries load on first use. Suites, metrics and statistics have pages of
their own: [suites and plug-ins](python-suites.md), [metrics](python-metrics.md), [statistics](python-statistics.md).
`python docs/generate.py` writes this page.
"""

DASH = "–"


def page() -> str:
    """The whole page."""
    suites = [suite_class(name) for name in SUITES]
    parts = [
        HEAD,
        METRICS,
        '<div class="meanings" markdown>\n',
        table(["suite", "metric", "meaning", "range", "compared", "source"], metric_rows(suites)),
        "</div>\n",
        "## Protocols\n\nCompare models by the first protocol of a suite.\n",
        table(
            ["suite", "protocol", "what it does"],
            merged(suites, [(s, (f"`{p}`", text)) for s in suites for p, text in s.info.protocols.items()]),
        ),
        RULES,
        table(
            ["suite", "rule", "values", "default", "affects", "meaning"],
            merged(suites, [(suite, rule_row(rule)) for suite in suites for rule in suite.rules]),
        ),
        OPTIONS,
        table(
            ["suite", "option", "values", "default", "meaning"],
            merged(suites, [(suite, option_row(option)) for suite in suites for option in suite.options]),
        ),
    ]
    return "\n".join(parts)


def metric_rows(suites: Sequence[type[Suite]]) -> list[tuple[str, ...]]:
    """A line for every meaning: the suites, their metrics of that meaning, and what these have in common.

    A line has metrics that all its suites have, or one metric of each suite ("one each, in this order").
    """
    of_rest: dict[tuple[str, ...], dict[tuple[str, ...], list[MetricSpec]]] = {}  # metrics by the suites that have them
    for spec, members in merged_specs(suites):
        of_rest.setdefault((spec.meaning, *metric_cells(spec)), {}).setdefault(members, []).append(spec)
    rows = []
    for rest, of_members in of_rest.items():
        own = {m: specs for m, specs in of_members.items() if len(m) == len(specs) == 1}
        shared = {m: specs for m, specs in of_members.items() if m not in own}
        rows += [metric_line(m, specs, rest) for m, specs in shared.items()]
        if own:
            members = tuple(name for (name,) in own)
            rows.append(metric_line(members, [spec for (spec,) in own.values()], rest, each=len(members) > 1))
    return rows


def metric_line(
    members: Sequence[str], specs: Sequence[MetricSpec], rest: tuple[str, ...], *, each: bool = False
) -> tuple[str, ...]:
    """Cells of a line of the table of metrics; ``each``: whether the suites have one metric each."""
    names = [f"**`{spec.name}`**" if spec.headline else f"`{spec.name}`" for spec in specs]
    source = "; ".join(dict.fromkeys(spec.source for spec in specs if spec.source)) or DASH
    metric = ", ".join(names) + (" (one each, in this order)" if each else "")
    return ", ".join(f"`{name}`" for name in members), metric, *rest, source


def merged_specs(suites: Sequence[type[Suite]]) -> list[tuple[MetricSpec, tuple[str, ...]]]:
    """Every metric with the suites that declare it alike, titles and sources aside, where the first of them has it."""
    members: dict[tuple[Any, ...], list[tuple[str, MetricSpec]]] = {}
    for suite in suites:
        for spec in suite.metrics:
            key = (spec.name, spec.headline, spec.meaning, *metric_cells(spec))
            members.setdefault(key, []).append((suite.info.name, spec))
    order = {name: n for n, name in enumerate(SUITES)}
    result = []
    for found in sorted(members.values(), key=lambda entries: order[entries[0][0]]):
        source = "; ".join(dict.fromkeys(spec.source for _, spec in found if spec.source))
        result.append((replace(found[0][1], source=source), tuple(name for name, _ in found)))
    return result


def metric_cells(spec: MetricSpec) -> tuple[str, str]:
    """Range with direction, and how the metric is compared."""
    arrow = {"higher": " ↑", "lower": " ↓"}.get(spec.better or "", "")
    compared = DASH if spec.compare == "never" else spec.compare + (", equal n" if spec.depends_on_n else "")
    return scale_text(spec.scale) + arrow, compared


def metrics_csv() -> str:
    """One row per suite and metric, as a CSV file."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["suite", "metric", "title", "meaning", "unit", "low", "high", "better", "headline", "compared", "source"]
    )
    for name in SUITES:
        for spec in suite_class(name).metrics:
            scale = spec.scale or Scale("")
            ends = ["" if end is None else f"{end:g}" for end in (scale.low, scale.high)]
            compared = metric_cells(spec)[1].replace(DASH, "never")
            row = [name, spec.name, spec.title, spec.meaning, scale.unit, *ends, spec.better]
            writer.writerow([*row, "yes" if spec.headline else "no", compared, spec.source])
    return stream.getvalue()


def rule_row(rule: Rule) -> tuple[str, ...]:
    """A rule without its suite."""
    affects = rule.affects + (f" of `{rule.protocol}`" if rule.protocol else "")
    return (
        f"`{rule.name}`" + (f" (`{rule.flag}`)" if rule.flag else ""),
        values_text(rule) + (", or none" if rule.optional else ""),
        f"{rule.calibrated_by}'s own, or {rule.default}" if rule.calibrated_by else default_text(rule.default),
        affects,
        rule.help,
    )


def option_row(option: Option) -> tuple[str, ...]:
    """An option without its suite."""
    usual = f"--{option.name.replace('_', '-')}"
    return (
        f"`{option.name}`" + (f" (`{option.command_line}`)" if option.command_line != usual else ""),
        values_text(option),
        option.default or DASH,
        option.help,
    )


def scale_text(scale: Scale | None) -> str:
    """Range and unit of a metric.

    >>> scale_text(Scale("share", 0.0, 1.0, "%")), scale_text(Scale("cosine", -1.0, 1.0)), scale_text(None)
    ('0 to 1, share', '−1 to 1, cosine', 'by score')
    """
    if scale is None:
        return "by score"
    low, high = (None if end is None else f"{end:g}".replace("-", "−") for end in (scale.low, scale.high))
    ends = {
        (True, True): f"{low} to {high}",
        (True, False): f"{low} or more",
        (False, True): f"{high} or less",
        (False, False): "any",
    }
    unit = scale.title if scale.title.isalpha() else scale.unit  # the unit that scores keep, or its word
    return f"{ends[low is not None, high is not None]}, {unit}"


def values_text(spec: Option | Rule) -> str:
    """What may be given.

    >>> values_text(Option("k", int, low=1, help="")), values_text(Rule("by", str, many=True, help=""))
    ('whole number from 1', 'text; several')
    """
    words = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        Path: "path",
        dict: "JSON object",
    }
    result = ", ".join(f"`{choice}`" for choice in spec.choices) or words[spec.type]
    high = None if spec.high is None or spec.high >= MAX_SEED else spec.high  # the largest that fits: no news
    if spec.low is not None and high is not None:
        result += f" from {spec.low:g} to {high:g}"
    elif spec.low is not None:
        result += f" from {spec.low:g}"
    elif high is not None:
        result += f" to {high:g}"
    if isinstance(spec, Rule) and spec.file:
        result += ", or a file"
    return f"{result}; several" if spec.many else result


def default_text(value: Any) -> str:
    """A default as it would be written."""
    if value is None or value == ():
        return DASH
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def merged(suites: Sequence[type[Suite]], rows: Iterable[tuple[type[Suite], tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Rows with the names of their suites; what several suites have alike stands once, where the first has it."""
    names: dict[tuple[str, ...], list[str]] = {}
    for suite, row in rows:
        names.setdefault(row, []).append(suite.info.name)
    order = {suite.info.name: n for n, suite in enumerate(suites)}
    listed = sorted(names.items(), key=lambda item: order[item[1][0]])
    return [(", ".join(f"`{name}`" for name in members), *row) for row, members in listed]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(map(cell_text, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def cell_text(text: str) -> str:
    """A cell without bars that would end it: in code as an entity, as not every Markdown reader unescapes them there.

    >>> cell_text("`--gpus all|N`: a|b")
    '<code>--gpus all&#124;N</code>: a\\\\|b'
    """

    def code(found: re.Match[str]) -> str:
        return f"<code>{html.escape(found[1], quote=False).replace('|', '&#124;')}</code>"

    return re.sub(r"`([^`]*\|[^`]*)`", code, text).replace("|", r"\|")


def with_blocks(text: str) -> str:
    """A page with its marked blocks as the example has them now."""

    def block(found: re.Match[str]) -> str:
        (path,) = (p for p in EXAMPLE.rglob(found["file"]) if "build" not in p.parts)
        source = path.read_text(encoding="utf-8")
        code = excerpt(source, found["names"].split()) if path.suffix == ".py" else from_line(source, found["names"])
        return f"{found['head']}{code}```\n"

    pattern = r"(?P<head><!-- example: (?P<file>\S+) (?P<names>[^\n]+) -->\n```\w+\n).*?```\n"
    return re.sub(pattern, block, text, flags=re.DOTALL)


def excerpt(source: str, names: Sequence[str]) -> str:
    """The lines from the first of some definitions to the last, without the indentation they share.

    Args:
        source: of a module.
        names: ``function``, ``Class``, ``CONSTANT`` or ``Class.member``.

    Raises:
        KeyError: no such definition.
    """
    spans = definitions(ast.parse(source))
    first, last = spans[names[0]][0], spans[names[-1]][1]
    return textwrap.dedent("".join(source.splitlines(keepends=True)[first - 1 : last]))


def definitions(tree: ast.Module | ast.ClassDef, prefix: str = "") -> dict[str, tuple[int, int]]:
    """First and last line of every definition of a module and of its classes, by name."""
    spans: dict[str, tuple[int, int]] = {}
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        for name in names:
            spans[prefix + name] = (node.lineno, node.end_lineno or node.lineno)
        if isinstance(node, ast.ClassDef):
            spans |= definitions(node, f"{node.name}.")
    return spans


def from_line(source: str, words: str) -> str:
    """The text from the first line that begins with some words."""
    return source[re.search(f"^{re.escape(words)}", source, flags=re.MULTILINE).start() :]  # type: ignore[union-attr]


def tables_page() -> str:
    """The page of all tables with their columns."""
    parts = [
        f"## {name}\n\n" + table(["column", "type", "meaning"], [(f"`{c.name}`", c.dtype, c.meaning) for c in columns])
        for name, columns in TABLES.items()
    ]
    return "\n".join([TABLES_HEAD, *parts])


def between(text: str, name: str, content: str) -> str:
    """A page with other content between two marks, ``<!-- name -->`` and ``<!-- /name -->``.

    Args:
        text: the page as it is.
        name: of the marks.
        content: Markdown that ends with a line break.

    Raises:
        ValueError: the page has no such marks.
    """
    head, start, rest = text.partition(f"<!-- {name} -->\n")
    _, end, tail = rest.partition(f"<!-- /{name} -->")
    if not (start and end):
        raise ValueError(f"no marks <!-- {name} --> ... <!-- /{name} -->")
    return "".join([head, start, content, end, tail])


# --------------------------------------------------------------------------------------------------------------------
# Suites
# --------------------------------------------------------------------------------------------------------------------
def suite_page(name: str) -> str:
    """File in ``docs/suites`` of the page about a suite: its own, or that of the suite it is an edition of."""
    pages_there = {path.stem for path in SUITES_PAGE.parent.glob("*.md")} - {"index"}
    return max((stem for stem in pages_there if name == stem or name.startswith(f"{stem}_")), key=len) + ".md"


def suites_table() -> str:
    """What each suite asks and contains, with a link to its page."""
    infos = [suite_class(name).info for name in SUITES]
    rows = [(f"[`{info.name}`]({suite_page(info.name)})", info.question, info.summary) for info in infos]
    return table(["suite", "asks", "contains"], rows)


def suites_by_question() -> str:
    """The suites in groups of similar questions, with links from the README."""
    if wrong := set(SUITES) ^ {name for _, names in QUESTIONS for name in names}:
        raise ValueError(f"QUESTIONS and the catalogue of suites differ in {', '.join(sorted(wrong))}")
    linked = [
        (question, ", ".join(f"[`{name}`](docs/suites/{suite_page(name)})" for name in names))
        for question, names in QUESTIONS
    ]
    return table(["question", "suites"], linked)


def suites_details() -> str:
    """Judges, headline metrics and source of each suite."""
    rows = []
    for name in SUITES:
        suite = suite_class(name)
        rows.append(
            (
                f"[`{name}`]({suite_page(name)})",
                ", ".join(f"`{option_of(role)}`" for role in suite.judge_roles) or DASH,
                ", ".join(f"`{spec.name}`" for spec in suite.metrics if spec.headline) or DASH,
                ", ".join(f"`{protocol}`" for protocol in suite.info.protocols),
                suite.info.citation or DASH,
            )
        )
    return table(["suite", "judges", "headline metrics", "protocols", "source"], rows)


# --------------------------------------------------------------------------------------------------------------------
# Commands
# --------------------------------------------------------------------------------------------------------------------
def commands_page() -> str:
    """Every command with its help, its examples and its options; options of many commands in a table of their own."""
    context = click.Context(cli, info_name="verism")
    parts: list[str | Options] = [help_text(cli)]
    for name in cli.list_commands(context):
        parts += command_parts(found(cli, name, context), context, name, 2)
    tables = [part for part in parts if isinstance(part, Options)]
    counted = Counter(row for one in tables for row in {row for rows in one.sections.values() for row in rows})
    usual: dict[str, tuple[str, str]] = {}  # the most frequent wording of an option
    for row, times in counted.most_common():
        if times >= COMMON_FROM:
            usual.setdefault(row[0].partition(" ")[0].strip("`"), row)
    common = set(usual.values())
    head, *rest = texts_of(parts, common)
    shown = table(["option", "meaning"], sorted(common))
    return "\n".join([COMMANDS_HEAD, shown, "## verism\n", head, *rest])


COMMON_FROM = 3  # commands that have an option in the same words


class Options(NamedTuple):
    """The options of a command: option and meaning, by the section of the help."""

    sections: dict[str, list[tuple[str, str]]]


def texts_of(parts: Iterable[str | Options], common: Collection[tuple[str, str]]) -> Iterator[str]:
    """The parts of the page as text: options as tables, without the common ones, which are named."""
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        shared = []
        for title, rows in part.sections.items():
            own = [row for row in rows if row not in common]
            shared += [row[0].partition(" ")[0].strip("`") for row in rows if row in common]
            if own:
                yield table([title.lower(), "meaning"], own)
        if shared:
            names = ", ".join(f"`{name}`" for name in shared)
            yield wrapped(f"[Common options](#common-options): {names}.")


def found(group: click.Group, name: str, context: click.Context) -> click.Command:
    """A command of a group, loaded."""
    command = group.get_command(context, name)
    assert command is not None, name
    return command.loaded() if isinstance(command, LazyCommand) else command


def command_parts(command: click.Command, parent: click.Context, name: str, level: int) -> Iterator[str | Options]:
    """The sections of a command and of those below it."""
    context = click.Context(command, info_name=name, parent=parent)
    below = []
    if isinstance(command, click.Group) and not isinstance(command, SuiteCommands):
        below = [(each, found(command, each, context)) for each in command.list_commands(context)]
    usage = re.sub(r"\s+", " ", " ".join([context.command_path, *command.collect_usage_pieces(context)]))
    yield f"{'#' * level} {context.command_path}\n"
    yield help_text(command, known="\n".join(each.help or "" for _, each in below))
    if not usage.endswith(("[OPTIONS]", "COMMAND [ARGS]...")) or isinstance(command, SuiteCommands):
        yield f"```text\n{usage}\n```\n"
    if isinstance(command, SuiteCommands):
        yield from suite_command_parts(command, context)
        return
    if command.params:
        yield options_of(command, context)
    alike = [options_of(each, click.Context(each, info_name=n, parent=context)) for n, each in below]
    if len(alike) > 1 and all(one == alike[0] for one in alike):
        rows = []
        for each, member in below:
            paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(member.help or ""))
            text = " ".join(" ".join(p.split()) for p in paragraphs if not p.startswith("\b"))
            rows.append((f"`{context.command_path} {each}`", prose(text)))
        yield table(["command", "what it does"], rows)
        yield "Each has these options:\n"
        yield alike[0]
        return
    for each, member in below:
        yield from command_parts(member, context, each, level + 1)


def suite_command_parts(command: SuiteCommands, context: click.Context) -> Iterator[str | Options]:
    """What a command that takes a suite first has for every suite, and where the rest is."""
    for name in command.beside:
        yield from command_parts(found(command, name, context), context, name, 3)
    suites = [name for name in command.list_commands(context) if name in SUITES]
    shared = found(command, suites[0], context)
    of_the_suite = {f"Options of {suites[0]}", f"Rules of {suites[0]}"}
    others = [p for p in shared.params if getattr(p, "section", "") not in of_the_suite]
    yield wrapped(
        f"Suites add [options](../metrics-and-rules.md#options) and [rules](../metrics-and-rules.md#rules) of "
        f"their own: `{context.command_path} SUITE --help`. For all suites:"
    )
    if any(p.name == "rules" for p in shared.params):
        others += [p for p in shared.params if p.name in ("threshold", "rules")]
    roles = [p for p in others if isinstance(p, click.Option) and p.hidden and p.name in NEEDS]
    for parameter in roles:  # hidden for suites that have no use for them
        parameter.hidden = False
    yield options_of(shared, context, others, of_rules="rules")


def options_of(
    command: click.Command,
    context: click.Context,
    parameters: Sequence[click.Parameter] | None = None,
    of_rules: str = "",
) -> Options:
    """Options of a command by the section of its help; ``of_rules`` is the title of the section of a suite's rules."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.params if parameters is None else parameters:
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            title = getattr(parameter, "section", "Options")
            title = of_rules if of_rules and title.startswith("Rules of ") else title
            sections.setdefault(title, []).append((f"`{record[0].replace(' RANGE', '')}`", prose(record[1])))
    return Options(sections)


def help_text(command: click.Command, known: str = "") -> str:
    """The help of a command: paragraphs, and its examples as blocks of code.

    Args:
        command: the command.
        known: text whose lines are left out of the examples: the help of the commands below it.
    """
    there = {line.strip() for line in known.splitlines()}
    parts = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        first, _, rest = paragraph.partition("\n")
        if first.strip() == "\b":
            lines = [line for line in textwrap.dedent(rest).splitlines() if line.strip() not in there]
            if lines:
                kind = "bash" if all(re.match(r"verism |  ", line) for line in lines) else "text"
                text = "\n".join(lines)
                parts.append(f"```{kind}\n{text}\n```\n")
        else:
            parts.append(wrapped(prose(" ".join(paragraph.split()))))
    return "\n".join(parts)


def wrapped(text: str) -> str:
    """A paragraph in lines of 120 columns, with a line break at its end."""
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)) + "\n"


def remark(match: re.Match[str]) -> str:
    """What click says of an option in brackets, as sentences.

    >>> re.sub(REMARKS, remark, "Images shown.  [default: 120; x>=0]")
    'Images shown. Default: 120. At least 0.'
    """
    sentences = []
    for part in match["parts"].split("; "):
        span = re.fullmatch(r"(?:(?P<low>[-\d.]+)<=?)?x(?:(?P<sign>[<>]=?)(?P<end>[-\d.]+))?", part)
        if part == "required":
            sentences.append("Required.")
        elif part.startswith("default: "):
            sentences.append(f"Default: {part.removeprefix('default: ')}.")
        elif span is None:
            return match[0]
        elif len(span["end"]) > 9:
            continue  # the largest number that fits: no news
        elif span["low"] and span["end"]:
            sentences.append(f"{span['low']} to {span['end']}.")
        else:
            words = {"<=": "At most", ">=": "At least", "<": "Below", ">": "Above"}
            sentences.append(f"{words[span['sign']]} {span['end']}.")
    return " " + " ".join(sentences)


REMARKS = re.compile(r"\s*\[(?P<parts>(?:default: |required|[-\d.]*<?=?x[<>]).*?)\](?=\s|$)")


def prose(text: str) -> str:
    """Text of the terminal as Markdown: commands, options, paths and placeholders as code, nothing as markup."""
    text = re.sub(r"\s+", " ", REMARKS.sub(remark, text))
    text = re.sub(r"(?<![\w`<-])(--[a-z][a-z-]+)", r"`\1`", text)
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([<>*_\[\]])", r"\\\1", p) for p in parts).strip()


# --------------------------------------------------------------------------------------------------------------------
# Python
# --------------------------------------------------------------------------------------------------------------------
def python_page() -> str:
    """What is public, each with the first sentence of its docstring; the site shows the docstrings below them."""
    homes: dict[str, str] = {**verism._HOMES}
    rows, parts = [], []
    for name in verism.__all__:
        value = getattr(verism, name)
        if inspect.ismodule(value) or name.startswith("__"):
            continue
        home = f"{homes.get(name, value.__module__)}.{name}"
        summary = inspect.cleandoc(value.__doc__ or "").partition("\n")[0]
        rows.append((f"`verism.{name}`", prose(summary.replace("``", "`"))))
        parts.append(f"::: {home}\n")
    return "\n".join([PYTHON_HEAD, table(["name", "what it is"], rows), *parts])


def modules_page(title: str, about: str, names: str) -> str:
    """A page that the site fills with the docstrings of modules.

    Args:
        title: of the page.
        about: a paragraph.
        names: modules, or one package whose public modules are shown.
    """
    modules = names.split()
    if len(modules) == 1:
        package = importlib.import_module(modules[0])
        below = pkgutil.walk_packages(package.__path__, f"{modules[0]}.")
        public = sorted(m.name for m in below if not any(part.startswith("_") for part in m.name.split(".")))
        modules = [name for name in public if inspect.cleandoc(importlib.import_module(name).__doc__ or "")]
    parts = [f"## {name}\n\n::: {name}\n    options:\n      show_root_heading: false\n" for name in modules]
    return "\n".join([f"# {title}\n", wrapped(f"{about} `python docs/generate.py` writes this page."), *parts])


# --------------------------------------------------------------------------------------------------------------------
# Files of a run
# --------------------------------------------------------------------------------------------------------------------
def manifest_fields() -> str:
    """The fields of the manifest, as the docstrings of its records have them."""
    parts = []
    for title, cls in (("", Manifest), ("settings", RunSettings), ("scoring", Scoring), ("environment", Environment)):
        rows = [(f"`{title}.{name}`" if title else f"`{name}`", text) for name, text in attributes(cls).items()]
        parts.append(table(["field", "meaning"], rows))
    return "\n".join(parts)


def attributes(cls: type) -> dict[str, str]:
    """What the docstring of a class says of its attributes, by name."""
    _, _, listed = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")
    listed = textwrap.dedent(listed.partition("\n\n")[0])
    entries = re.findall(r"^(\w+): (.*(?:\n +.*)*)", listed, flags=re.MULTILINE)
    return {name: " ".join(text.replace("``", "`").split()) for name, text in entries}


# --------------------------------------------------------------------------------------------------------------------
# Terms
# --------------------------------------------------------------------------------------------------------------------
def kinds_page() -> str:
    """Every kind of model, judge and tracker with its options; what kinds of a section share stands once."""
    parts = [KINDS_HEAD, *kind_parts("Models", "models", GENERATORS, "--model")]
    for role, kinds in JUDGES.items():
        option = option_of(role)
        parts += kind_parts(f"Judges: {option.strip('-')}", "judges", kinds, option)
    return "\n".join([*parts, *kind_parts("Trackers", "trackers", TRACKERS, "--track")])


def kind_parts(title: str, what: str, kinds: Iterable[str], flag: str) -> list[str]:
    """A section of the page of kinds: what each kind takes behind its colon, then the options.

    Args:
        title: of the section.
        what: ``models``, ``judges`` or ``trackers``.
        kinds: names of the kinds.
        flag: option of the command line behind which they stand.
    """
    arguments: list[tuple[str, str, str]] = []
    owners: dict[tuple[str, str, str, str], list[str]] = {}
    for kind in kinds:
        names = (kind, f"{flag} {kind}")
        (record,) = (each for each in option_listing(what, kind) if each["name"] in names)
        argument = record["argument"]
        behind = f"{kind_name(argument)}: {meaning_of(argument)}" if argument else DASH
        arguments.append((f"`{kind}`", prose(record["description"]), behind))
        for option in record["options"]:
            row = (f"`{option['name']}`", plain_type(option["type"]), kind_default(option), meaning_of(option))
            owners.setdefault(row, []).append(kind)
        if record["passes_on"]:
            owners.setdefault(("any other", DASH, DASH, "Passed on unchanged."), []).append(kind)
    parts = [f"## {title}\n", f"`{flag}`\n", table(["kind", "what it is", "argument"], arguments)]
    if owners:
        listed = [(", ".join(f"`{kind}`" for kind in members), *row) for row, members in owners.items()]
        parts.append(table(["kind", "option", "values", "default", "meaning"], listed))
    return parts


def kind_name(option: Mapping[str, Any]) -> str:
    """The placeholder of an argument."""
    return f"`{str(option['name']).upper()}`"


def meaning_of(option: Mapping[str, Any]) -> str:
    """The help of an option of a kind."""
    return prose(str(option["help"]))


def kind_default(option: Mapping[str, Any]) -> str:
    """The default of an option of a kind, where it has one."""
    default = option["default"]
    unset = default in ("", "none") and default not in option["choices"]
    return "required" if default is None else DASH if unset else prose(str(default))


def plain_type(text: str) -> str:
    """What an option takes, without articles.

    >>> plain_type("a whole number or none"), plain_type("one of model, released")
    ('whole number', '`model`, `released`')
    """
    kept = text.removesuffix(" or none").removeprefix("a ").removeprefix("an ")
    if kept.startswith("one of "):
        choices = kept.removeprefix("one of ").removesuffix(", several with +").split(", ")
        return ", ".join(f"`{choice}`" for choice in choices) + (", several with +" if "several" in kept else "")
    return prose(kept)


def limits_table() -> str:
    """Limits and the environment variables that change them."""
    rows = [
        (
            "fixed" if limit.fixed else f"`{limit.variable}`",
            f"{limit.default:,} {limit.unit}" if limit.default else f"half the memory, in {limit.unit}",
            limit.meaning,
        )
        for limit in LIMITS
    ]
    return table(["environment variable", "default", "bounds"], rows)


def pages() -> dict[Path, str]:
    """Every page as it would be written."""
    texts = {path: path.read_text(encoding="utf-8") for path in (EXTENDING, LIMITS_PAGE, README, SUITES_PAGE, FORMATS)}
    return {
        PAGE: page(),
        METRICS_CSV: metrics_csv(),
        COMMANDS: commands_page(),
        KINDS: kinds_page(),
        PYTHON: python_page(),
        **{PYTHON.with_name(name): modules_page(*parts) for name, parts in PYTHON_MODULES.items()},
        EXTENDING: with_blocks(texts[EXTENDING]),
        TABLES_PAGE: tables_page(),
        LIMITS_PAGE: between(texts[LIMITS_PAGE], "limits", limits_table()),
        README: between(texts[README], "suites", suites_by_question()),
        SUITES_PAGE: between(between(texts[SUITES_PAGE], "suites", suites_table()), "details", suites_details()),
        FORMATS: between(texts[FORMATS], "manifest", manifest_fields()),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Write what of the documentation is made from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    check = parser.parse_args().check
    for path, text in pages().items():
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} is stale; run: python docs/generate.py")


if __name__ == "__main__":
    main()
