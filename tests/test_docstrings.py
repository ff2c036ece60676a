"""Docstrings: a section that names arguments or fields names all of them, each on a line of its own."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from source_code import statements

SOURCE = Path(__file__).parents[1] / "src" / "verism"
PACKAGES = (  # those that are held to it
    "generators",
    "judges",
    "metrics",
    "statistics",
    "suites",
    "simulator",
    "annotation",
    "viewer",
    "pipeline",
    "report_kit",
    "services",
    "training",
    "trackers",
    "exports",
)
MODULES = "modules"  # stands for the single modules beside the packages, held to it too


@dataclass(frozen=True)
class Definition:
    """A public function or class: where it is, its docstring, the section's entries, and the names it should have."""

    where: str
    doc: str
    entries: list[str] | None
    expected: list[str]


@cache
def definitions(package: str) -> list[Definition]:
    paths = SOURCE.glob("*.py") if package == MODULES else (SOURCE / package).rglob("*.py")
    return [
        Definition(
            f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}",
            ast.get_docstring(node) or "",
            section(node),
            expected_names(node),
        )
        for path in sorted(paths)
        for node in statements(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
    ]


def expected_names(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    if isinstance(node, ast.ClassDef):
        names = [field.target.id for field in node.body if isinstance(field, ast.AnnAssign)]  # type: ignore[union-attr]
        return [name for name in names or instance_attributes(node) if not name.startswith("_")]
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in every if argument is not None and argument.arg not in ("self", "cls")]


def instance_attributes(node: ast.ClassDef) -> list[str]:
    """What ``__init__`` of a class without declared fields sets on ``self``."""
    init = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    stored = [part for function in init for part in ast.walk(function) if isinstance(part, ast.Attribute)]
    of_self = [part for part in stored if isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self"]
    return list(dict.fromkeys(part.attr for part in of_self))


def section(node: ast.FunctionDef | ast.ClassDef) -> list[str] | None:
    """Entries of ``Args:`` (of a class: ``Attributes:``), what precedes the colon; None without such a section."""
    head = "Attributes:" if isinstance(node, ast.ClassDef) else "Args:"
    _, result, rest = (ast.get_docstring(node) or "").partition(f"\n{head}\n")
    if not result:
        return None
    lines = re.split(r"(?m)^(?=\S)", rest)[0].splitlines()
    return [line.partition(":")[0].strip().lstrip("*") for line in lines if re.match(r" {4}\S", line)]


@pytest.mark.parametrize("package", [*PACKAGES, MODULES])
def test_argument_section_names_each_argument_once_on_its_own_line(package):
    wrong = {
        found.where: sorted(set(found.entries) ^ set(found.expected))
        for found in definitions(package)
        if found.entries is not None and sorted(found.entries) != sorted(found.expected)
    }
    assert not wrong


@pytest.mark.parametrize("package", [*PACKAGES, MODULES])
def test_argument_sections_hold_no_second_argument_on_a_line(package):
    wrong = []
    for found in definitions(package):
        names = "|".join(map(re.escape, found.expected))
        if found.entries is not None and names:
            wrong += [
                f"{found.where}: {line.strip()}"
                for line in found.doc.splitlines()
                if re.match(rf" {{4,}}\S.*[.;] ({names})(, ({names}))*: ", line)
            ]
    assert not wrong


def test_sections_are_found_where_they_are():
    found = {p: sum(one.entries is not None for one in definitions(p)) for p in [*PACKAGES, MODULES]}
    assert min(found.values()) > 10, found
    assert min(found["metrics"], found["statistics"]) > 20, found
