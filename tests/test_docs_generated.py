"""Pages of the documentation that are made from what suites declare are those that would be made today."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from verism.suites.catalogue import SUITES, suite_class

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_those_that_would_be_written(generate):
    stale = [path.name for path, text in generate.pages().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, "run: python docs/generate.py"


def test_page_names_every_metric_rule_and_option_of_every_suite(generate):
    rows = [line.split(" | ") for line in generate.page().splitlines() if line.startswith("| `")]
    result = {(suite.strip("|` "), row[1].strip("` ")) for row in rows for suite in row[0].split(", ")}
    declared = {
        (name, each.name if hasattr(each, "name") else each)
        for name in SUITES
        for suite in [suite_class(name)]
        for each in (*suite.metrics, *suite.rules, *suite.options, *suite.info.protocols)
    }
    assert result == declared
