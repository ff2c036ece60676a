"""Pages of the documentation that are made from what suites declare are those that would be made today."""

from __future__ import annotations

import csv
import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from verism.cards import read_card
from verism.pipeline.calibration import summary
from verism.registry import GENERATORS, JUDGES, TRACKER, TRACKERS, kinds
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


def named(row: list[str]) -> list[tuple[str, str]]:
    """Suites and names of a line: every suite with every name, or each suite with the name at its place."""
    suites = [suite.strip("|` ") for suite in row[0].split(", ")]
    own, _, each = row[1].partition(" (")
    names = [name.strip("*` ") for name in own.split(", ")]
    if each == "one each, in this order)":
        return list(zip(suites, names, strict=True))
    return [(suite, name) for suite in suites for name in names]


def test_page_names_every_metric_rule_and_option_of_every_suite(generate):
    rows = [line.split(" | ") for line in generate.page().splitlines() if line.startswith("| `")]
    result = Counter(pair for row in rows for pair in named(row))
    declared = Counter(
        (name, each.name if hasattr(each, "name") else each)
        for name in SUITES
        for suite in [suite_class(name)]
        for each in (*suite.metrics, *suite.rules, *suite.options, *suite.info.protocols)
    )
    assert result == declared


def test_a_line_of_metrics_has_what_each_of_them_declares(generate):
    lines = {pair: row for row in generate.metric_rows([suite_class(n) for n in SUITES]) for pair in named(list(row))}
    for name in SUITES:
        for spec in suite_class(name).metrics:
            row = lines[name, spec.name]
            assert row[2:5] == (spec.meaning, *generate.metric_cells(spec))
            assert (f"**`{spec.name}`**" in row[1]) == spec.headline
            assert spec.source in row[5]


def test_file_of_metrics_has_a_row_for_each(generate):
    rows = list(csv.DictReader(generate.metrics_csv().splitlines()))
    declared = [(name, spec.name) for name in SUITES for spec in suite_class(name).metrics]
    assert [(row["suite"], row["metric"]) for row in rows] == declared
    fid = next(row for row in rows if row["metric"] == "fid")
    assert (fid["low"], fid["high"], fid["better"], fid["compared"]) == ("0", "", "lower", "independent, equal n")


def test_page_of_kinds_has_every_option_of_every_kind(generate):
    _, *sections = generate.kinds_page().split("\n## ")
    rows = [line.split(" | ") for section in sections for line in section.splitlines() if line.startswith("| `")]
    shown = Counter(
        (kind.strip("|` "), row[1].strip("`")) for row in rows if len(row) == 5 for kind in row[0].split(", ")
    )
    tables = [GENERATORS, *JUDGES.values(), TRACKERS]
    options = [("models", None), *(("judges", role) for role in JUDGES), ("trackers", TRACKER)]
    declared: Counter[tuple[str, str]] = Counter()
    for table, (_, role) in zip(tables, options, strict=True):
        for kind in (each for each in kinds(role, broken=[]) if each.name in table):
            signature = kind.signature(role)
            declared.update((kind.name, option.written) for option in signature.options)
            declared.update([(kind.name, "any other")] * signature.passes_on)
    assert len(declared) > 100
    assert shown == declared


def test_groups_of_skin_tone_are_those_of_the_packaged_card():
    # The columns of `cascade` are of a card that is not packaged; docs/skin-tone.md has its command.
    path = ROOT / "src" / "verism" / "data" / "cards" / "skin_tone-builtin.json"
    measured = {
        " ".join(*each.group.items()): summary(each)
        for each in read_card(path).measured
        if each.protocol == "revised" and each.group
    }
    rows = list(csv.DictReader((ROOT / "docs" / "skin-tone-groups.csv").read_text(encoding="utf-8").splitlines()))
    assert list(rows[0]) == [
        *("group", "images", "builtin_exact", "builtin_within_one", "builtin_mean_error", "builtin_unusable"),
        *("cascade_exact", "cascade_within_one", "cascade_unusable"),
    ]
    assert {row["group"]: int(row["images"]) for row in rows} == {name: s.n for name, s in measured.items()}
    for row in rows:
        s = measured[row["group"]]
        shares = (s.exact, s.within_one, s.unusable)
        printed = (row["builtin_exact"], row["builtin_within_one"], row["builtin_unusable"])
        assert printed == tuple(f"{100 * share:.1f}" for share in shares), row["group"]
        assert row["builtin_mean_error"] == f"{s.bias:.2f}", row["group"]
