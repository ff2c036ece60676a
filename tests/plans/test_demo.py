"""The demonstration of all suites: what each declares, the plan made of it, and a small one that really runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace

import numpy as np
import pytest
from commands import verism

from verism.errors import UsageError
from verism.plans.board import make_board
from verism.plans.board_text import latex_board, markdown_board
from verism.plans.demo import DemoPart, demo_parts, demo_plan, write_demo_files
from verism.records import Scene, roles
from verism.specs import Demo
from verism.suites.base import Suite
from verism.suites.catalogue import SUITES, suite_class

# What comes with verism and needs no network, no further package and no weights of others.
MODELS = re.compile(r"(builtin|scripted|oracle|people)\b")
JUDGES = re.compile(r"(truth|builtin|boxes:builtin|picture)\b")


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_shows_something_with_what_comes_with_verism(name: str):
    suite = suite_class(name)
    assert suite.demos
    assert [demo.variant for demo in suite.demos].count("") == 1
    for demo in suite.demos:
        assert demo.shows.endswith(".")
        assert all(MODELS.match(model) for model in (*demo.models.values(), *demo.references.values()))
        judges = {role: judge for role, judge in demo.settings.items() if role in roles()}
        assert judges
        assert all(JUDGES.match(judge) for judge in judges.values())
        if demo.settings.get("correct"):
            assert suite.estimands is not Suite.estimands
        uses_files = "{files}" in str(demo.settings)
        assert uses_files == bool(demo.files)
        if demo.files:
            assert resolve_name(demo.files).__doc__


def test_the_plan_has_every_suite_and_takes_all_settings(tmp_path: Path):
    parts = demo_parts()
    plan = demo_plan(parts, tmp_path)
    assert {pair.suite for pair in plan.pairs} == set(SUITES) | {p.suite for p in parts if p.demo}
    shown = {(name, part.name) for part in parts if part.demo for name in (*part.demo.models, *part.demo.references)}
    assert {(pair.model, pair.column) for pair in plan.pairs} == shown
    assert {pair.options["seed"] for pair in plan.pairs} == {11}
    few = demo_plan(parts, tmp_path, limit=3)
    least = {part.name: part.demo.least for part in parts if part.demo}
    assert all(pair.options.get("limit", 3) == max(3, least[pair.column]) for pair in few.pairs)


def part(name: str, **models: str) -> DemoPart:
    demo = Demo(models=models, settings={"detector": "truth"}, shows="Nothing.")
    return DemoPart(suite="paintskills", name=name, demo=demo)


def test_one_name_for_two_models_is_refused(tmp_path: Path):
    parts = [part("one", careful="scripted:error=0.1"), part("two", careful="scripted:error=0.2")]
    with pytest.raises(UsageError, match="calls another model 'careful' than others do"):
        demo_plan(parts, tmp_path)


def test_suites_without_a_demonstration_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(suite_class("tifa"), "demos", ())
    (silent,) = demo_parts(["tifa"])
    assert silent.demo is None
    assert silent.left_out == ("it declares nothing to be shown offline",)
    with pytest.raises(UsageError, match="none of these suites shows anything offline"):
        demo_plan([silent], tmp_path)
    with pytest.raises(UsageError, match="unknown suite 'tiffa'"):
        demo_parts(["tiffa"])


def test_files_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (alignment,) = demo_parts(["alignment"])
    written: list[Path] = []

    def broken(folder: Path, renderer: object) -> None:
        del renderer
        (folder / "prompts.txt").write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr("verism.suites.alignment.demo.write_examples", broken)
    with pytest.raises(OSError, match="no space left"):
        write_demo_files([alignment], tmp_path)
    assert not (tmp_path / "alignment").exists()
    monkeypatch.undo()
    write_demo_files([alignment], tmp_path)
    lines = (tmp_path / "alignment" / "prompts.txt").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 24
    monkeypatch.setattr("verism.suites.alignment.demo.write_examples", lambda folder, _: written.append(folder))
    write_demo_files([alignment], tmp_path)
    assert written == []  # what is there is kept


@pytest.mark.parametrize("name", [name for name in SUITES if any(demo.files for demo in suite_class(name).demos)])
def test_example_files_are_read_by_their_suite(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Flat:
        """Renders nothing but its background: what is read is the table, not the images."""

        def render_all(self, scenes: Sequence[Scene]) -> Iterator[SimpleNamespace]:
            return (SimpleNamespace(pixels=np.full((64, 64, 3), n, np.uint8)) for n, _ in enumerate(scenes))

    monkeypatch.setattr("verism.plans.demo.make_renderer", lambda _: Flat())
    parts = [p for p in demo_parts([name]) if p.demo and p.demo.files]
    write_demo_files(parts, tmp_path, size=64)
    for pair in {pair.column: pair for pair in demo_plan(parts, tmp_path).pairs}.values():
        assert len(pair.make_suite().prompts()) >= 3


def test_all_runs_resumes_and_ends_with_a_board_that_links_every_report(tmp_path: Path):
    out = tmp_path / "D"
    words = ("demo", "--all", "--suite", "dsg", "--suite", "alignment", "--limit", 3, "--jobs", 1, "--out", out)
    done = verism(*words)
    assert done.exit_code == 0, done.stderr
    for text in (
        "dsg_builtin",
        "careless",
        "What each column shows:",
        "Not shown offline:",
        "alignment: captions of COCO",
    ):
        assert text in done.stdout
    assert "[6/6] " in done.stderr
    page = (out / "board.html").read_text(encoding="utf-8")
    links = set(re.findall(r'href="(plan/runs/[^"]+)"', page))
    assert len(links) == 6
    assert all((out / link).is_file() for link in links)
    board = make_board([out / "plan"])
    [key] = [column.key for column in board.columns if column.suite == "dsg_builtin"]
    cell = next(row.cells[key] for row in board.rows if row.cells[key].state == "ok")
    assert 0 < cell.coverage < 1  # the built-in judge answers only what it was tried on
    assert re.fullmatch(r"questions answered: \d\d?\.\d % \(\d+ of \d+\)", cell.left_out)
    tables = (page, markdown_board(board), latex_board(board).replace(r"\%", "%"), board.csv(), done.stdout)
    assert all(cell.left_out in text for text in tables)
    again = verism(*words)
    assert again.exit_code == 0, again.stderr
    assert again.stderr.count("was done") == 6
    assert again.stdout == done.stdout
    with pytest.raises(UsageError, match="--suite is for --all"):
        verism("demo", "--suite", "dsg", "--out", out)
