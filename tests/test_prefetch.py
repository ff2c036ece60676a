"""Bounded look-ahead."""

from collections.abc import Iterator

import pytest

from verism.prefetch import prefetch


def counting(n: int, started: list[int]) -> Iterator[int]:
    for i in range(n):
        started.append(i)
        yield i


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_prefetch_taken_one_by_one_starts_no_more_than_allowed(ahead: int):
    started: list[int] = []
    for position, item in enumerate(prefetch(counting(10, started), ahead)):
        assert item == position
        assert len(started) == min(10, position + 1 + ahead)
    assert started == list(range(10))


def test_prefetch_of_an_item_to_be_flushed_yields_all_before_starting_another():
    started: list[int] = []
    seen = [(item, len(started)) for item in prefetch(counting(6, started), 2, flush=lambda i: i in (1, 4))]
    # 0 and 1 are flushed when 1 has started; 2 waits for 4 started, which flushes 3 and itself; 5 is what is left.
    assert seen == [(0, 2), (1, 2), (2, 5), (3, 5), (4, 5), (5, 6)]


def test_prefetch_of_nothing_yields_nothing():
    assert list(prefetch([], 3)) == []
