"""Generate the parts of the documentation that come from declarations in the code.

python docs/generate.py             write the generated pages and the generated parts of others
python docs/generate.py --check     write nothing; exit 1 if a page is stale
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from verism.limits import LIMITS
from verism.records import TABLES
from verism.specs import MetricSpec, Option, Rule, Scale
from verism.suites.base import Suite
from verism.suites.catalogue import SUITES, suite_class

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "metrics-and-rules.md"
EXTENDING = DOCS / "extending.md"
TABLES_PAGE = DOCS / "tables.md"
LIMITS_PAGE = DOCS / "limits.md"
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

* **range and unit**: the smallest and largest possible value. "by score": each score carries its own unit.
* **better**: whether higher or lower values are better; a dash where neither is.
* **headline**: the metrics that answer the suite's question; `run.metrics()` returns them.
* **compared**: how `verism compare` compares two runs. *paired*: image by image; *independent*: by both intervals; a
  dash: not compared. *equal n*: the expected value depends on the number of images, so other numbers are refused.
"""

RULES = """\
## Rules

Rules change verdicts or scores without new images or observations. Set them with `--rule NAME=VALUE` of `verism run`
and `verism score`, or with the listed option. "detector's own" is a threshold supplied by the judge. Rules that affect
only *scores* leave verdicts, and therefore judge cards, unchanged.
"""

OPTIONS = """\
## Options

Options decide the prompts and observations. A run is resumed only with the same options. In Python they are keyword
arguments of `verism.evaluate`.
"""

DASH = "–"


def page() -> str:
    """The whole page."""
    suites = [suite_class(name) for name in SUITES]
    parts = [
        HEAD,
        METRICS,
        table(
            ["suite", "metric", "title", "meaning", "range and unit", "better", "headline", "compared", "source"],
            merged(suites, [(suite, metric_row(spec)) for suite in suites for spec in suite.metrics]),
        ),
        "## Protocols\n\nCompare models by the first protocol of a suite.\n",
        table(
            ["suite", "protocol", "what it does"],
            merged(suites, [(s, (f"`{p}`", text)) for s in suites for p, text in s.info.protocols.items()]),
        ),
        RULES,
        table(
            ["suite", "rule", "values", "default", "affects", "own option", "meaning"],
            merged(suites, [(suite, rule_row(rule)) for suite in suites for rule in suite.rules]),
        ),
        OPTIONS,
        table(
            ["suite", "option", "on the command line", "values", "default", "meaning"],
            merged(suites, [(suite, option_row(option)) for suite in suites for option in suite.options]),
        ),
    ]
    return "\n".join(parts)


def metric_row(spec: MetricSpec) -> tuple[str, ...]:
    """A metric without its suite."""
    return (
        f"`{spec.name}`",
        spec.title,
        spec.meaning,
        scale_text(spec.scale),
        spec.better or DASH,
        "yes" if spec.headline else "",
        DASH if spec.compare == "never" else spec.compare + (", equal n" if spec.depends_on_n else ""),
        spec.source or DASH,
    )


def rule_row(rule: Rule) -> tuple[str, ...]:
    """A rule without its suite."""
    affects = rule.affects + (f" of `{rule.protocol}`" if rule.protocol else "")
    return (
        f"`{rule.name}`",
        values_text(rule) + (", or none" if rule.optional else ""),
        f"{rule.calibrated_by}'s own, or {rule.default}" if rule.calibrated_by else default_text(rule.default),
        affects,
        f"`{rule.flag}`" if rule.flag else DASH,
        rule.help,
    )


def option_row(option: Option) -> tuple[str, ...]:
    """An option without its suite."""
    return (
        f"`{option.name}`",
        f"`{option.command_line}`",
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
    return f"{ends[low is not None, high is not None]}, {scale.unit}"


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
    if spec.low is not None and spec.high is not None:
        result += f" from {spec.low:g} to {spec.high:g}"
    elif spec.low is not None:
        result += f" from {spec.low:g}"
    elif spec.high is not None:
        result += f" to {spec.high:g}"
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
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


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


def with_limits(text: str) -> str:
    """The page of limits with their table between its marks.

    Args:
        text: the page as it is.
    """
    head, _, rest = text.partition("<!-- limits -->\n")
    _, mark, tail = rest.partition("<!-- /limits -->")
    rows = [
        (
            "fixed" if limit.fixed else f"`{limit.variable}`",
            f"{limit.default:,} {limit.unit}" if limit.default else f"half the memory, in {limit.unit}",
            limit.meaning,
        )
        for limit in LIMITS
    ]
    return f"{head}<!-- limits -->\n{table(['environment variable', 'default', 'bounds'], rows)}{mark}{tail}"


def pages() -> dict[Path, str]:
    """Every page as it would be written."""
    return {
        PAGE: page(),
        EXTENDING: with_blocks(EXTENDING.read_text(encoding="utf-8")),
        TABLES_PAGE: tables_page(),
        LIMITS_PAGE: with_limits(LIMITS_PAGE.read_text(encoding="utf-8")),
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
