"""Docstrings: a section that names arguments or fields names all of them, each on a line of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "verism"
PACKAGES = ("generators", "judges", "metrics", "statistics", "suites")  # those that are held to it


def definitions(package: str) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    for path in sorted((SOURCE / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}", node


def expected_names(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    if isinstance(node, ast.ClassDef):
        return [field.target.id for field in node.body if isinstance(field, ast.AnnAssign)]  # type: ignore[union-attr]
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in every if argument is not None and argument.arg not in ("self", "cls")]


def section(node: ast.FunctionDef | ast.ClassDef) -> list[str] | None:
    """Entries of ``Args:`` (of a class: ``Attributes:``), what precedes the colon; None without such a section."""
    head = "Attributes:" if isinstance(node, ast.ClassDef) else "Args:"
    _, result, rest = (ast.get_docstring(node) or "").partition(f"\n{head}\n")
    if not result:
        return None
    lines = re.split(r"(?m)^(?=\S)", rest)[0].splitlines()
    return [line.partition(":")[0].strip().lstrip("*") for line in lines if re.match(r" {4}\S", line)]


@pytest.mark.parametrize("package", PACKAGES)
def test_argument_section_names_each_argument_once_on_its_own_line(package):
    wrong = {}
    for where, node in definitions(package):
        entries = section(node)
        if entries is not None and sorted(entries) != sorted(expected_names(node)):
            wrong[where] = sorted(set(entries) ^ set(expected_names(node)))
    assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_argument_sections_hold_no_second_argument_on_a_line(package):
    wrong = []
    for where, node in definitions(package):
        names = "|".join(map(re.escape, expected_names(node)))
        if section(node) is not None and names:
            wrong += [
                f"{where}: {line.strip()}"
                for line in (ast.get_docstring(node) or "").splitlines()
                if re.match(rf" {{4,}}\S.*[.;] ({names})(, ({names}))*: ", line)
            ]
    assert not wrong


def test_sections_are_found_where_they_are():
    assert all(sum(section(node) is not None for _, node in definitions(package)) > 10 for package in PACKAGES)
