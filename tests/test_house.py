"""Who may know what: general code asks a suite what it needs to know, and never names one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import verism
from verism.suites.catalogue import SUITES, suite_class

HOUSE = Path(verism.__file__).parent
GENERAL = (
    "api.py",
    "cli",
    "pipeline",
    "report_kit",
    "registry.py",
    "annotation",
    "viewer",
    "training",
    "store",
    "plans",
    "trackers",
    "exports",
    "checkpoint_evaluation.py",
)
# Words of a suite that are also words of general code, where they mean something general.
GENERAL_WORDS = frozenset(
    {
        "labels",  # annotators' labels of any suite
        "object",  # JSON objects
        "attribute",
        "category",
        "text",
        "count",
        "color",  # column of the table of detections
        "person",
        "class",
        "reference",  # real images of any suite
        "target",
        "cards",  # judge cards
        "k",
        "pool",
        "splits",
        "protocols",
        "human",  # a kind of judge card, and of correction
        "captions",
        "unsure",
        "setting",
        "n_resamples",  # argument of every bootstrap
        "per_cell",  # images drawn for annotators, in each cell
        "clipscore",  # functions of verism.metrics
        "questions",
        "frequency",  # columns of the tables that `verism metrics` reads
        "gender",
        "task",  # column of ratings and of judge cards
        "position",  # of an item in a list
        "preference",  # of annotators, between two images
    }
)
MEASURES_OF_AGREEMENT = ("annotation/judge_agreement.py", "cli/agreement.py")  # accuracy is one of them
TRAINS_ON_PAINTSKILLS = ("training",)  # its data are scenes of PaintSkills


def general_files() -> Iterator[Path]:
    for name in GENERAL:
        path = HOUSE / name
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def words_of_suites() -> set[str]:
    """Names of suites, their options, rules and verdicts, as general code would write them."""
    words = set(SUITES) | {name.replace("_", "-") for name in SUITES}
    for name in SUITES:
        suite = suite_class(name)
        words |= {rule.name for rule in suite.rules}
        for pairing in suite.pairings:
            words |= {pairing.facet, pairing.rule, pairing.metric, *pairing.split, *pairing.key, *pairing.groups}
        words |= {suite.layout.facet, suite.layout.mean, suite.layout.reference, *suite.layout.detail}
    return words - GENERAL_WORDS - {""}


def findings(path: Path, words: set[str]) -> list[str]:
    """Where a file names something of a suite, looks into one, or imports one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.relative_to(HOUSE).as_posix() in MEASURES_OF_AGREEMENT:
        words = words - {"accuracy"}
    paintskills = path.relative_to(HOUSE).parts[0] in TRAINS_ON_PAINTSKILLS
    results, name = [], path.relative_to(HOUSE)

    def note(node: ast.AST, what: str) -> None:
        results.append(f"{name}:{getattr(node, 'lineno', 0)} {what}")

    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words and not paintskills:
            note(node, f"names {node.value!r}")
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("verism.suites."):
            suite = node.module.split(".")[2]
            if suite in SUITES and not (paintskills and suite == "paintskills"):
                note(node, f"imports the suite {suite}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            first = node.args[0]
            if isinstance(first, ast.Name) and "suite" in first.id:
                note(node, f"probes a suite by {node.func.id}")
        if isinstance(node, ast.arg) and node.arg.endswith("suite") and ast.unparse(node.annotation or node) == "Any":
            note(node, "takes a suite as Any")
        reads_text = isinstance(node, ast.Attribute) and node.attr in ("startswith", "partition", "endswith")
        if reads_text and "suite" in ast.unparse(node.value):
            note(node, f"reads a suite's name by {node.attr}")
    return results


def test_general_code_names_no_suite():
    words = words_of_suites()
    assert {"paintskills", "social_bias", "threshold_revised", "accuracy", "skill", "region"} <= words
    assert [line for path in general_files() for line in findings(path, words)] == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('rules["threshold_revised"]', "names 'threshold_revised'"),
        ("from verism.suites.geography.suite import Geography", "imports the suite geography"),
        ('getattr(suite, "labels", None)', "probes a suite by getattr"),
        ("def f(suite: Any): ...", "takes a suite as Any"),
        ('run.suite_name.startswith("x")', "reads a suite's name by startswith"),
    ],
)
def test_findings_tell_what_is_wrong(tmp_path, monkeypatch, code, message):
    monkeypatch.setattr("test_house.HOUSE", tmp_path)
    file = tmp_path / "api.py"
    file.write_text(code + "\n", encoding="utf-8")
    (line,) = findings(file, words_of_suites())
    assert line == f"api.py:1 {message}"
