"""The page of what judges can be trusted with keeps the rows of real judges, and its CSV files all rows."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from benchmark_modules import benchmark

from verism.judge_bench.words import RULE

ROOT = Path(__file__).resolve().parents[2]
TEXT = f"""About.

* baseline: blind cannot be trusted with count.
* builtin can be trusted with count.
* baseline: blind is correct more often than builtin, in points: tone by 5.

{RULE}

### Tasks

| judge | task | items |
|---|---|---|
| baseline: blind | count | 4 |
| builtin | count \\| color | 4 |

### Groups

| judge | groups by | right |
|---|---|---|
| builtin | size | – |

Remarks of the judges:

* builtin: slow
"""


@pytest.fixture(scope="module")
def judges():
    with benchmark("judges") as module:
        yield module


def test_section_of_a_role_keeps_rows_of_real_judges_and_files_keep_all(judges):
    text, files = judges.shortened("detector", TEXT)
    assert text.startswith("\n## `detector`\n\nAbout.\n\n* builtin can be trusted")
    assert "cannot be trusted" not in text
    assert "blind is correct more often" in text  # where a baseline is better than a judge, the page says so
    assert RULE not in text  # once, in the head
    assert "| builtin | count \\| color | 4 |" in text
    assert "| baseline: blind |" not in text
    assert "### Groups" not in text
    assert text.endswith("Remarks of the judges:\n\n* builtin: slow\n")
    assert {name: list(csv.reader(rows.splitlines())) for name, rows in files.items()} == {
        "detector-tasks.csv": [
            ["judge", "task", "items"],
            ["baseline: blind", "count", "4"],
            ["builtin", "count | color", "4"],
        ],
        "detector-groups.csv": [["judge", "groups by", "right"], ["builtin", "size", "–"]],
    }
    assert all(f"(judge-tables/{name})" in text for name in files)


def test_files_of_the_page_hold_its_rows(judges):
    page = judges.PAGE.read_text(encoding="utf-8")
    for part in judges.PARTS:
        path = judges.TABLES / f"{part.role}-tasks.csv"
        assert f"(judge-tables/{path.name})" in page
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        for row in rows:
            line = "| " + " | ".join(row.values()) + " |"
            assert (line in page) == (not row["judge"].startswith(judges.BASELINE))
