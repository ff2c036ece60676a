"""The seeded defects of ``tests/mutations.py`` still apply to the source."""

from __future__ import annotations

import pytest
from mutations import DEFECTS, ROOT


@pytest.mark.parametrize("name", DEFECTS)
def test_a_seeded_defect_names_one_line_and_existing_tests(name):
    defect = DEFECTS[name]
    source = (ROOT / "src" / "verism" / defect.path).read_text("utf-8")
    assert source.count(defect.right) == 1
    assert [test for test in defect.tests if not (ROOT / "tests" / test).exists()] == []
