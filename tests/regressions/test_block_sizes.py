"""Stored runs of every suite scored in blocks of 1, of 7, and of all images: equal scores, verdicts and remarks.

Verdicts that are counted are counted in slices of as many rows.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from test_stored_runs import NAMES, RUNS

import verism
from verism import parquet
from verism.store import blocks as store_blocks
from verism.suites.catalogue import stored_suite


def outcome(path: Path) -> tuple[bytes, pl.DataFrame, Any]:
    """What a scoring leaves: the bytes of its scores, its verdicts, and what it remarks."""
    run = verism.open_run(path)
    resampled = any(rule.name == "n_resamples" for rule in stored_suite(run).rules)
    verism.score(path, rules={"n_resamples": 20} if resampled else None)  # blocks come before the resamples
    run = verism.open_run(path)
    return (path / "scores.json").read_bytes(), run.verdicts(), run.manifest.scoring.remarks


@pytest.mark.parametrize("name", NAMES)
def test_stored_runs_scored_in_blocks_of_any_size_are_equal(name, tmp_path, monkeypatch):
    path = tmp_path / name
    shutil.copytree(RUNS / name, path)
    monkeypatch.chdir(path)  # the published statistics of quality_statistics are named relative to their run
    run = verism.open_run(path)
    if not stored_suite(run).scored_in_blocks():
        pytest.skip(f"{run.suite_name} is scored with all its vectors, which are read from files")
    whole = outcome(path)
    assert len(run.keys("images")) > 7
    for size in (7, 1):
        monkeypatch.setattr(store_blocks, "BLOCK", size)
        monkeypatch.setattr(parquet, "ROWS", 3 * size)
        scores, verdicts, remarks = outcome(path)
        assert scores == whole[0]
        assert verdicts.equals(whole[1])
        assert remarks == whole[2]
