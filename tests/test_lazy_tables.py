"""Tables of runs by lazy queries: the same rows as reading them whole, whatever was written twice."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from verism.manifest import RunSettings
from verism.records import frame
from verism.store import Run


def images(*ids: str, note: str) -> pl.DataFrame:
    return frame("images", [{"image_id": i, "prompt_id": i, "index": 0, "state": "ok", "note": note} for i in ids])


def boxes(*ids: str, n: int) -> pl.DataFrame:
    rows = [{"image_id": i, "judge": "j@1", "query": q, "score": n / 10} for i in ids for q in range(-1, n)]
    return frame("detections", rows)


@pytest.fixture
def run(tmp_path) -> Run:
    """Images and boxes in parts of which several hold the same image."""
    run = Run.start(tmp_path / "run=a*", RunSettings(suite="s", generator="g"))
    for number, ids in enumerate((("c", "d", "e"), ("a", "b", "c"), ("a", "e", "f"))):
        run.append("images", images(*ids, note=str(number)))
        run.append("detections", boxes(*ids, n=number), "j@1")
    return run


@pytest.mark.parametrize(("table", "judge"), [("images", None), ("detections", "j@1")])
def test_scan_gives_the_rows_that_read_gives(run, table, judge):
    whole = run.read(table, judge)
    order = [c for c in ("image_id", "query") if c in whole.columns]
    assert_frame_equal(run.scan(table, judge).collect().sort(order), whole.sort(order))
    for keys in ([], ["a"], ["c", "e", "nothing"]):
        some = run.scan(table, judge, keys=keys).collect().sort(order)
        assert_frame_equal(some, whole.filter(pl.col("image_id").is_in(keys)).sort(order))
    run.compact(table, judge)
    assert_frame_equal(run.scan(table, judge).collect(), whole)


def test_scan_of_what_is_not_there_is_empty_and_of_former_protocols_has_todays_name(run):
    assert run.scan("verdicts").collect().height == run.scan("detections", "other").collect().height == 0
    row = {"image_id": "a", "prompt_id": "a", "protocol": "corrected", "rule": "r", "value": 1.0, "reason": ""}
    run.write_verdicts(frame("verdicts", [row, row | {"protocol": "paper"}]))
    assert run.scan("verdicts").collect()["protocol"].to_list() == run.verdicts()["protocol"].to_list()
    assert run.scan("verdicts").filter(pl.col("protocol") == "revised").collect().height == 1
