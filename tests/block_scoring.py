"""Runs scored as one block, and in blocks of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from verism import api
from verism.store import Run
from verism.store import blocks as store_blocks


def _outcome(run: Run, **rules: Any) -> tuple[bytes, Any, Any]:
    api.score(run, rules=rules)
    return _scored(run)


def _scored(run: Run) -> tuple[bytes, Any, Any]:
    scored = api.open_run(run.path)
    return (run.path / "scores.json").read_bytes(), scored.verdicts(), scored.manifest.scoring.remarks


def assert_equal_in_blocks(
    run: Run, monkeypatch: pytest.MonkeyPatch, *, sizes: Sequence[int] = (5, 1), **rules: Any
) -> bytes:
    """Scores, verdicts and remarks are equal to the last bit for blocks of any size. Returns the scores.

    Args:
        run: the run, with more images than a block has; scored as one block already where no rules are given.
        monkeypatch: for the size of blocks.
        sizes: images in a block.
        rules: of the scoring.
    """
    scores, verdicts, remarks = _outcome(run, **rules) if rules else _scored(run)
    assert len(run.keys("images")) > max(sizes)
    for size in sizes:
        with monkeypatch.context() as patched:
            patched.setattr(store_blocks, "BLOCK", size)
            again = _outcome(run, **rules)
        assert again[0] == scores
        assert again[1].equals(verdicts)
        assert again[2] == remarks
    return scores
