"""Commands and published figures that suites add, those of other packages included."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from types import ModuleType

import click
import pytest

from verism.published import Check, Writer
from verism.suites import catalogue
from verism.suites.paintskills.suite import PaintSkills

Verism = Callable[..., tuple[int, str, str]]


@click.command()
@click.pass_obj
def count(services: object) -> None:
    """Count shapes."""
    click.echo(f"served: {hasattr(services, 'make_judge')}")


@click.group()
def shapes() -> None:
    """All about shapes."""


shapes.add_command(count)


def figures() -> list[Check]:
    """Shapes, published."""
    writer = Writer("Shapes")
    writer.number("Table 1", "sides of a square", "4", 4)
    return writer.checks


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with a suite ``shapes`` that is only there once it is imported."""

    class Shapes(PaintSkills):
        info = PaintSkills.info.__class__(**{**vars(PaintSkills.info), "name": "shapes"})
        commands = {"shapes": "shapes_plugin:shapes", "data shapes": "shapes_plugin:count"}  # noqa: RUF012
        published = {"squares": "shapes_plugin:figures"}  # noqa: RUF012

    module = ModuleType("shapes_plugin")
    vars(module).update(Shapes=Shapes, shapes=shapes, count=count, figures=figures)
    point = metadata.EntryPoint("shapes", "shapes_plugin:Shapes", catalogue.GROUP)
    monkeypatch.setattr("verism.plugins.entry_points", lambda **_: [point])
    monkeypatch.setitem(sys.modules, "shapes_plugin", module)
    return module


@pytest.mark.usefixtures("plugin")
def test_commands_of_a_plugin_are_listed_and_run_with_the_services(in_process: Verism) -> None:
    assert "All about shapes." in in_process("--help")[1]
    assert in_process("shapes", "count") == (0, "served: True\n", "")
    assert "Count shapes." in in_process("data", "--help")[1]
    assert in_process("data", "shapes") == (0, "served: True\n", "")


@pytest.mark.usefixtures("plugin")
def test_published_figures_of_a_plugin_are_reproduced(in_process: Verism) -> None:
    assert "Shapes, published." in in_process("reproduce", "--help")[1]
    code, out, _ = in_process("reproduce", "squares")
    assert code == 0
    assert "sides of a square" in out


def test_a_plugin_that_cannot_be_loaded_does_not_disturb_other_commands(
    in_process: Verism, plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(plugin, "Shapes")
    code, out, err = in_process("--help")
    assert (code, err) == (0, "")
    assert "gep" in out
    assert in_process("reproduce", "--help")[0] == 0


@pytest.mark.usefixtures("plugin")
def test_plugins_are_not_loaded_for_commands_of_verism(in_process: Verism, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} was loaded")

    monkeypatch.setattr(catalogue, "suite_class", refuse)
    assert in_process("gep", "judge", "--help")[0] == 0
    assert in_process("data", "check", "--help")[0] == 0
    assert in_process("scenes", "render", "--help")[0] == 0


def test_a_misspelt_command_of_a_suite_is_recognised(in_process: Verism) -> None:
    code, _, err = in_process("data", "chek")
    assert code == 2
    assert "Did you mean check?" in err


def test_scenes_of_a_suite_without_scenes_are_refused(in_process: Verism, tmp_path: object) -> None:
    code, _, err = in_process("scenes", "render", "geography", "--out", tmp_path)
    assert code == 2
    assert "no scenes of 'geography' can be rendered; there are those of paintskills, paintskills_v1" in err
