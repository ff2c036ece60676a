"""The house around the code: what packaging, documents and the command line say of each other must be true."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from source_code import statements

import verism
from verism.cli.main import cli
from verism.manifest import canonical_suite_name
from verism.options import build
from verism.records import TABLES, Result, frame
from verism.registry import BARE, GENERATORS, JUDGES, Spec
from verism.suites.catalogue import SUITES
from verism.terminal import LazyCommand

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TEXT = {"", ".cfg", ".cff", ".css", ".csv", ".html", ".j2", ".js", ".json", ".md", ".py", ".toml", ".txt", ".yaml"}


def document_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def project_files() -> list[Path]:
    """Every file that belongs to the project: tracked or about to be."""
    if (ROOT / ".git").exists():
        done = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True, text=True,
        )  # fmt: skip
        files = [ROOT / name for name in done.stdout.split("\0") if name]
    else:  # a source distribution
        files = [
            p for top in ("src", "tests", "docs", "benchmarks", "examples", "tools") for p in (ROOT / top).rglob("*")
        ]
        files += list(ROOT.iterdir())
    return sorted(p for p in files if p.is_file() and p.suffix != ".pyc")


def source_files() -> list[Path]:
    return sorted((ROOT / "src" / "verism").rglob("*.py"))


# --------------------------------------------------------------------------------------------------------------------
# Packaging
# --------------------------------------------------------------------------------------------------------------------
def all_requirements() -> list[str]:
    extras = [r for group in EXTRAS.values() for r in group]
    return [r for r in (*PROJECT["project"]["dependencies"], *extras) if not r.startswith("verism")]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line.strip() and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==\S+", line) for line in wanted), wanted
    return {canonical(line.split("==")[0]): line.split("==")[1] for line in wanted}


def test_extras_named_in_messages_exist():
    named: dict[str, str] = {}
    for path in [*source_files(), *DOCUMENTS]:
        text = path.read_text(encoding="utf-8")
        for pattern in (r"\bextra=\"([a-z]+)\"", r"\bEXTRA = \"([a-z]+)\"", r"(?:verism|\.)\[([a-z,]+)\]'"):
            for matches in re.findall(pattern, text):
                named.update({extra: document_id(path) for extra in matches.split(",")})
    assert {"models", "train"} <= set(named)
    unknown = {extra: where for extra, where in named.items() if extra not in EXTRAS}
    assert not unknown, f"pyproject.toml has no such extra: {unknown}"


def test_doctor_names_what_is_declared():
    from verism.cli.doctor import MODULES

    core = {canonical(re.split(r"[<>=!~ \[]", r)[0]) for r in PROJECT["project"]["dependencies"]}
    for _, package, extra, _ in MODULES:
        declared = core if extra is None else {canonical(re.split(r"[<>=!~ \[]", r)[0]) for r in EXTRAS[extra]}
        assert canonical(package) in declared, f"the doctor says {package} comes with {extra or 'the core'}"


def test_nothing_brings_torchvision():
    # A torchvision that does not fit torch makes transformers fail to import; these all depend on it.
    forbidden = {"torchvision", "timm", "open-clip-torch", "torch-fidelity", "clean-fid", "pytorch-fid"}
    names = {canonical(re.split(r"[<>=!~ \[]", r)[0]) for r in all_requirements()}
    assert not names & forbidden
    assert not set(pins()) & forbidden


PEERS = {"cleanfid": ["clean-fid"], "torch_fidelity": ["torch-fidelity"]}  # modules that are not installed here


@cache
def providers() -> dict[str, list[str]]:
    """Which distributions bring each module; seconds of work, as it reads the lists of files of all of them."""
    return dict(metadata.packages_distributions())


def imported_by(path: Path) -> Iterator[str]:
    """Top-level modules that a file imports, anywhere in it."""
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "tools"])
def test_everything_imported_is_declared(folder):
    # Beside the standard library, and what lies in the tests' own folders.
    local = {p.stem for p in (ROOT / folder).rglob("*.py")} | {"verism", "tiny_inception", "tiny_vision_language"}
    local |= {p.parent.name for p in (ROOT / folder).rglob("__init__.py")} | {p.stem for p in ROOT.glob("tools/*.py")}
    declared = {canonical(re.split(r"[<>=!~ \[]", r)[0]) for r in all_requirements()}
    # Peers and the tools of a release live in environments of their own.
    others = {"benchmarks": "benchmarks/peers/requirements.txt", "tools": "tools/release-requirements.txt"}
    if folder in others:
        named = (ROOT / others[folder]).read_text(encoding="utf-8").splitlines()
        declared |= {canonical(re.split(r"[<>=!~ \[]", r)[0]) for r in named if r and not r.startswith("#")}
    missing = {
        f"{document_id(path)}: {module}"
        for path in (ROOT / folder).rglob("*.py")
        for module in set(imported_by(path)) - set(sys.stdlib_module_names) - local
        if not {canonical(d) for d in providers().get(module, PEERS.get(module, [module]))} & declared
    }
    assert not missing


def test_requirements_are_pinned_by_versions_that_satisfy_them():
    from packaging.requirements import Requirement

    for text in all_requirements():
        requirement = Requirement(text)
        version = pins().get(canonical(requirement.name))
        assert version is not None, f"constraints.txt does not pin {requirement.name}"
        assert requirement.specifier.contains(version), f"constraints.txt pins {requirement.name}=={version}: {text}"


def test_the_makefile_installs_the_pinned_torch_first():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rule = makefile[makefile.index("\n$(DEV):") :]
    assert rule.index("$(TORCH)") < rule.index("'.[dev]'")
    assert "torch" in pins()


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "Makefile", ".ci/run"])
def test_no_package_source_is_named(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"^\[project\.urls\]\n(?:\w+ = .*\n)+", "", text, flags=re.MULTILINE)  # addresses of its own
    assert not re.findall(r"\w+://\S+|--(?:extra-)?index-url|--find-links", text)


def test_the_version_has_one_home():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert "version" not in PROJECT["project"]
    home = PROJECT["tool"]["hatch"]["version"]["path"]
    assert f'"{verism.__version__}"' in (ROOT / home).read_text(encoding="utf-8")
    elsewhere = [p for p in source_files() if f'"{verism.__version__}"' in p.read_text(encoding="utf-8")]
    assert [document_id(p) for p in elsewhere] == [home]
    # People copy the citation as it stands, so it cannot read the version from there.
    assert f"\nversion: {verism.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_folder_of_code_is_a_package():
    # Folders without __init__.py are invisible to the checker of imports.
    folders = {p.parent for p in source_files()}
    assert not [document_id(f) for f in folders if not (f / "__init__.py").exists()]


def test_torchvision_is_absent():
    assert importlib.util.find_spec("torchvision") is None


# --------------------------------------------------------------------------------------------------------------------
# Text
# --------------------------------------------------------------------------------------------------------------------
def test_no_file_names_a_place_outside_the_project():
    # Written in pieces, so that this file does not hold them itself.
    forbidden = ["../" + "shared", "/" + "work/", "/" + "opt/", "/" + "root/", "/tmp/" + "bash"]
    results = []
    for path in project_files():
        if path.suffix in TEXT:
            text = path.read_text(encoding="utf-8")
            results += [f"{document_id(path)}: {word}" for word in forbidden if word in text]
            results += [
                f"{document_id(path)}: {m}" for m in re.findall(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b", text)
            ]
    assert not results


@pytest.mark.parametrize("path", DOCUMENTS, ids=document_id)
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{document_id(path)} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), flags=re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in anchors, f"{document_id(path)} links to {target}"


def tables_as_markdown() -> str:
    parts = []
    for name, columns in TABLES.items():
        rows = [f"| `{c.name}` | {c.dtype} | {c.meaning.replace('|', chr(92) + '|')} |" for c in columns]
        parts.append("\n".join([f"## {name}", "", "| column | type | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def test_page_of_tables_shows_them_as_they_are():
    text = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    assert text[text.index("## ") :].strip() == tables_as_markdown(), "run: python docs/generate.py"


# --------------------------------------------------------------------------------------------------------------------
# Commands
# --------------------------------------------------------------------------------------------------------------------
def commands_of(text: str) -> Iterator[list[str]]:
    """``verism ...`` lines of a text as lists of words, without comments; backslashes join lines."""
    for line in text.replace("\\\n", " ").splitlines():
        if re.match(r"\s*(?:\.venv/bin/)?verism\s", line):
            line = re.sub(r"\s{2,}\(.*\)$", "", line)  # a remark in the help text of a command
            words = shlex.split(line, comments=True)
            ends = [place for place, word in enumerate(words) if word in (">", ">>")]
            yield words[1 : ends[0]] if ends else words[1:]


@cache
def commands_and_options() -> tuple[dict[tuple[str, ...], Any], frozenset[str]]:
    """Every command by its words, and every option that any of them has."""
    commands = dict(all_commands())
    names = {name for c in commands.values() for p in c.params for name in (*p.opts, *p.secondary_opts)}
    return commands, frozenset(names | {"--help"})  # click's own


def all_commands(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(command, LazyCommand):
        command = command.loaded()
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None, (*path, name)
            yield from all_commands(sub, (*path, name))


def check_command(words: list[str]) -> None:
    """Whether a command line would be understood: commands, options, choices, number of arguments, names of things."""
    command: click.Command = cli
    context = click.Context(cli, info_name="verism")
    rest = list(words)
    while isinstance(command, click.Group):
        assert rest, f"verism {' '.join(words)}: which command?"
        result = command.get_command(context, rest[0])
        assert result is not None, f"verism {' '.join(words)}: there is no command {rest[0]!r}"
        command = result.loaded() if isinstance(result, LazyCommand) else result
        rest = rest[1:]
    try:
        parsed = command.make_context(command.name, rest, parent=context).params
    except click.ClickException as err:
        pytest.fail(f"verism {' '.join(words)}: {err.format_message()}")
    if "suite" in parsed:
        assert canonical_suite_name(parsed["suite"]) in SUITES, f"verism {' '.join(words)}"
    for option, known in (("model", GENERATORS), *JUDGES.items()):
        if "suite" in parsed and parsed.get(option) and option not in BARE:
            assert Spec.parse(parsed[option]).kind in known, f"verism {' '.join(words)}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=document_id)
def test_commands_in_documents_exist(path):
    for block in re.findall(r"```bash\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL):
        for words in commands_of(block):
            check_command(words)


@pytest.mark.parametrize("path", DOCUMENTS, ids=document_id)
def test_commands_and_options_in_running_text_exist(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    commands, options = commands_and_options()
    for code in re.findall(r"`([^`]+)`", text):
        words = code.split()
        if words[:1] == ["python"]:
            continue  # a program's own options
        if words[:1] == ["verism"] and len(words) > 1 and words[1].islower():
            assert (words[1],) in commands, f"{document_id(path)}: {code}"
            if isinstance(commands[(words[1],)], click.Group) and len(words) > 2 and words[2].islower():
                assert tuple(words[1:3]) in commands, f"{document_id(path)}: {code}"
        for option in re.findall(r"(?<!\S)(--[a-z][a-z-]*)", code):
            assert option in options, f"{document_id(path)}: {code}"


def test_commands_in_help_texts_exist():
    helped = [words for _, c in all_commands() for words in commands_of(c.help or "")]
    assert len(helped) > 10
    for words in helped:
        check_command(words)


def test_a_wrong_command_is_seen():
    with pytest.raises(pytest.fail.Exception, match="No such option"):
        check_command(["run", "paintskills", "--imagse", "x"])
    with pytest.raises(AssertionError, match="no command"):
        check_command(["evaluate"])


def test_make_targets_in_documents_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    for path in DOCUMENTS:
        named = re.findall(r"(?:^|`)make ([a-z-]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert set(named) <= targets, document_id(path)


def test_files_that_are_begun_first_exist():
    conftest = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    named = re.findall(r'^    "(\S+\.py)",$', conftest, flags=re.MULTILINE)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_ci_runs_make_test():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")


# --------------------------------------------------------------------------------------------------------------------
# Python in documents
# --------------------------------------------------------------------------------------------------------------------
def python_blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=document_id)
def test_python_in_documents_names_what_exists(path):
    for block in python_blocks(path):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("verism"):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, name.name) for name in node.names), ast.unparse(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "verism":
                assert hasattr(verism, node.attr), ast.unparse(node)


class Grey:
    """Returns a grey image for every prompt, and refuses dogs.

    Args:
        level: grey level of the lower half, 0 to 255.
        size: width and height in pixels; the run's own size, if it sets one.
    """

    def __init__(self, *, level: int = 128, size: int = 64) -> None:
        self.level, self.size = level, size
        self.name = f"grey-1?level={level}&size={size}"  # weights and settings: it enters the manifest

    def generate(self, requests):
        for r in requests:  # r.prompt.text, r.seed, r.index
            if "dog" in r.prompt.text:
                yield Result(image_id=r.image_id, state="refused", note="no dogs")
            else:
                pixels = np.full((self.size, self.size, 3), self.level, np.uint8)
                pixels[: self.size // 2] = r.seed % 100  # one flat colour would count as blank
                yield Result(image_id=r.image_id, state="ok", pixels=pixels)


class Blind:
    """Detects nothing. One row with query -1 records that an image was processed."""

    role = "detector"  # `roles = ("clip", "features")` for several
    name = "blind-1"

    def observe(self, images, need):
        row = {"judge": self.name, "query": -1}
        return frame(need.table, [{"image_id": image.image_id, **row} for image in images])


def test_classes_of_the_documented_shape_are_a_generator_and_a_judge(tmp_path):
    run = verism.evaluate(
        "paintskills",
        model=build(Grey),
        detector=build(Blind),
        out=tmp_path / "run",
        skills=["object"],
        limit=15,
    )
    # One prompt for each of 15 classes; the renderer refuses dogs, and the judge finds nothing in the others.
    assert sorted(run.read("images")["state"].to_list()) == ["ok"] * 14 + ["refused"]
    scores = [s for s in run.scores() if s.metric == "accuracy" and s.protocol == "revised"]
    (score,) = [s for s in scores if s.group == {"skill": "object"}]
    assert (score.value, score.n_used, score.n_unusable) == (0.0, 14, 1)
