"""What a file of Python consists of, for tests of the code itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["statements"]


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement of a tree, at any depth, and no expression: those are nine tenths of ``ast.walk``.

    Args:
        tree: a module, or any statement.
    """
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for node in getattr(tree, name, ()):
            if isinstance(node, ast.stmt):
                yield node
            yield from statements(node)
