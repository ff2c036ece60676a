"""What the released code of DPG-Bench does to category scores when several processes share the work.

Each process goes through its own set of category names while lists are exchanged between processes. The order of a set
of strings differs from process to process, so the lists that are joined at one step are of different categories. The
overall score does not pass this way. The mixture depends on random hashes: it cannot be computed again, only imitated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["joined_lists"]


def joined_lists(
    parts: Sequence[Mapping[str, Sequence[float]]], orders: Sequence[Sequence[str]]
) -> dict[str, list[float]]:
    """The answers that each category gets when several processes exchange their lists step by step.

    Args:
        parts: by process, the answers of each category.
        orders: by process, the order in which it goes through the categories.

    Returns:
        By the name that the first process has at each step, the lists of all processes at this step, joined.

    Raises:
        ValueError: a process that goes through other categories than the first.

    >>> parts = [{"count": [0], "global": [1, 1]}, {"count": [0], "global": [1, 1]}]
    >>> joined_lists(parts, [["count", "global"], ["count", "global"]])
    {'count': [0, 0], 'global': [1, 1, 1, 1]}
    >>> joined_lists(parts, [["count", "global"], ["global", "count"]])
    {'count': [0, 1, 1], 'global': [1, 1, 0]}
    """
    if any(sorted(order) != sorted(orders[0]) for order in orders):
        raise ValueError("all processes must go through the same categories")
    return {
        order_of_step[0]: [
            value for part, name in zip(parts, order_of_step, strict=True) for value in part.get(name, ())
        ]
        for order_of_step in zip(*orders, strict=True)
    }
