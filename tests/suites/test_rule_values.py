"""Whole numbers as rules and options give them."""

import pytest

from verism.errors import UsageError
from verism.suites.rule_values import whole


def test_numbers_and_texts_of_whole_numbers():
    assert [whole("n", value, 0) for value in (3, "3", " 3 ", 3.0, 0)] == [3, 3, 3, 3, 0]


@pytest.mark.parametrize("value", [0, -1, 2.5, "2.5", "many", "", None, True, float("nan"), float("inf"), [3]])
def test_everything_else_is_refused_by_name(value):
    with pytest.raises(UsageError, match="n is a whole number, at least 1; got"):
        whole("n", value, 1)
