"""Large runs are scored, shown and compared block by block: the same to the last bit, no more than a block held."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from fakes import PixelJudge

from verism import parquet
from verism.manifest import RunSettings
from verism.pipeline import comparison
from verism.pipeline.comparison import compare_images
from verism.pipeline.local import make_requests, run_images
from verism.pipeline.scoring import score_run, truth_estimands
from verism.records import Observed
from verism.report_kit.evidence import Evidence
from verism.report_kit.gallery import GallerySettings, _Images, collect
from verism.store import Run, scorings
from verism.store import blocks as store_blocks
from verism.suites.paintskills.suite import PaintSkills

SIZES = [1, 5, 30]


class ColourBlindAtFirst(PixelJudge):
    """Sees a colour in the image of the last id alone, and nothing in the first that is asked for a colour.

    That it judges colours, so that nothing there is wrong and not unusable, the block of the first cannot know.
    """

    def observe(self, images, need):
        rows = super().observe(images, need)
        rows = rows.filter((pl.col("image_id") != self.first) | (pl.col("query") < 0))
        return rows.with_columns(
            pl.when(pl.col("image_id") == self.last).then(pl.col("color")).otherwise(None).alias("color")
        )


@pytest.fixture
def make(tmp_path: Path, scripted):
    def make(name: str, suite: PaintSkills, judge=None, error: float = 0.4) -> Run:
        run = Run.start(tmp_path / name, RunSettings(suite=suite.name))
        run.write_prompts(suite.prompts())
        judge = judge or PixelJudge()
        if isinstance(judge, ColourBlindAtFirst):
            asked = list(make_requests(run.prompts(), 1))
            judge.first = min(r.image_id for r in asked if r.prompt.facets["skill"] == "color")
            judge.last = max(r.image_id for r in asked)
        run_images(run, make_requests(run.prompts(), 1), scripted(error), [(judge, n) for n in suite.needs()])
        score_run(run, suite, judges={"detector": judge.name})
        return run

    return make


def outcome(run: Run) -> tuple[bytes, pl.DataFrame]:
    return (run.path / "scores.json").read_bytes(), run.verdicts()


@pytest.mark.parametrize("judge", [PixelJudge, ColourBlindAtFirst])
def test_blocks_of_any_size_give_the_same_scores_and_verdicts(make, suite, judge, monkeypatch):
    run = make("run", suite, judge())
    scores, verdicts = outcome(run)
    assert b"judge_false_accept" in scores  # the ground truth goes the same way
    assert b'"color"' in scores
    for size in SIZES:
        monkeypatch.setattr(store_blocks, "BLOCK", size)
        score_run(run, suite)
        again = outcome(run)
        assert again[0] == scores
        assert again[1].equals(verdicts)
        assert run.scan_verdicts().collect().equals(verdicts)


def test_no_more_than_a_block_of_images_is_decided_upon_at_a_time(make, suite, monkeypatch):
    run = make("run", suite)
    seen: list[int] = []
    decide = PaintSkills.verdicts

    def counted(self, observed: Observed) -> pl.DataFrame:
        seen.append(max(observed.images.height, observed.observations["detections"]["image_id"].n_unique()))
        return decide(self, observed)

    monkeypatch.setattr(PaintSkills, "verdicts", counted)
    for size in SIZES:
        monkeypatch.setattr(store_blocks, "BLOCK", size)
        seen.clear()
        score_run(run, suite)
        assert max(seen) <= size
        assert sum(seen) == 2 * len(run.keys("images"))  # by the judge and by the ground truth


def test_suites_that_are_not_scored_in_blocks_see_all_images(make, suite, monkeypatch):
    run = make("run", suite)
    scores, _ = outcome(run)
    monkeypatch.setattr(store_blocks, "BLOCK", 5)
    monkeypatch.setattr(PaintSkills, "scored_in_blocks", lambda _: False)
    monkeypatch.setattr("verism.pipeline.scoring._in_blocks", lambda *_: pytest.fail("scored in blocks"))
    score_run(run, suite)
    assert outcome(run)[0] == scores


def test_what_images_truly_show_is_the_same_in_blocks_of_any_size(make, suite, monkeypatch):
    run = make("run", suite, ColourBlindAtFirst())
    whole = truth_estimands(run, suite)
    assert repr(whole) == repr(truth_estimands(make("other", suite), suite))  # whatever the judge sees
    assert sum(len(part.image_ids) for estimand in whole for part in estimand.parts)
    few = [size for size in SIZES if size < len(run.keys("images"))]
    for size in sorted(SIZES, reverse=True):
        monkeypatch.setattr(store_blocks, "BLOCK", size)
        if size in few:
            monkeypatch.setattr(Run, "read", lambda *_, **__: pytest.fail("a whole table was read"))
        assert repr(truth_estimands(run, suite)) == repr(whole)
    assert few


def test_a_large_file_of_verdicts_is_not_read_to_keep_it(make, suite, monkeypatch):
    run = make("run", suite)
    _, verdicts = outcome(run)
    monkeypatch.setattr(scorings, "HELD_BYTES", 0)
    pinned = run.pinned()
    assert pinned.verdicts_hash() == run.verdicts_hash() != ""  # as of the file it was copied from
    held = pinned._pinned.contents[scorings.VERDICTS]
    assert isinstance(held, Path)
    score_run(run, suite.with_rules(threshold_revised=1.0))  # somebody else scores it meanwhile
    score_run(run, suite.with_rules(threshold_revised=1.0))
    assert not run.verdicts().equals(verdicts)
    assert pinned.verdicts_hash() != run.verdicts_hash()
    assert pinned.verdicts().equals(verdicts)
    assert pinned.scan_verdicts().collect().equals(verdicts)
    run.write_scoring(adjustments=[])  # the others stay, by way of files
    assert Run.open(run.path).verdicts().equals(run.verdicts())
    del pinned
    assert not held.exists()


def test_galleries_show_the_same_images_however_large_blocks_are(make, suite, monkeypatch):
    run = make("run", suite, error=0.9)
    evidence = Evidence.of([run], [suite.presentation()], gallery=10_000, embed_pixels=16)
    everything = collect(evidence, GallerySettings(filters={}))
    of_outcome = [t.shots[0].image_id for t in everything if t.outcomes["revised"] == ["wrong"]]
    for size, gallery in product(SIZES, (0, 1, 5, 10_000)):
        evidence = replace(evidence, gallery=gallery)
        monkeypatch.setattr(store_blocks, "BLOCK", size)
        monkeypatch.setattr(parquet, "ROWS", size)
        shown = collect(evidence, GallerySettings(filters={}))
        assert len(shown) == min(gallery, len(run.keys("images")))
        wrong = [t.shots[0].image_id for t in shown if t.outcomes["revised"] == ["wrong"]]
        assert wrong == of_outcome[: len(wrong)]  # of one group the first by the hash of the id
        assert wrong or not gallery


def test_a_gallery_holds_the_rows_of_the_images_that_it_shows_alone(make, suite):
    run = make("run", suite)
    images = _Images(Evidence.of([run], [suite.presentation()], gallery=3, embed_pixels=16), 0, GallerySettings())
    assert images.n_images == len(run.keys("images"))
    assert len(list(images.tiles(3))) == len(images.rows) == len(images.lines) == 3
    groups = 4 * len({p.facets["skill"] for p in run.prompts()})
    assert max(len(ids) for ids in images.order.values()) <= 2 * 3 * groups * 16


def test_ranges_of_any_size_give_the_same_comparison(make, suite, monkeypatch):
    a, b = make("a", suite), make("b", suite, error=0.1)
    whole = {by: compare_images(a, b, suite.pairings, by=by) for by in (None, "object")}
    assert all(any(row.difference for row in rows) for rows in whole.values())
    for size in (1, 7, 40):
        monkeypatch.setattr(comparison, "ROWS", size)
        assert comparison._protocols(a.scan_verdicts()) == set(a.verdicts()["protocol"])
        monkeypatch.setattr(parquet, "ROWS", size)
        assert comparison._protocols(a.scan_verdicts()) == set(a.verdicts()["protocol"])
        for by, rows in whole.items():
            assert [repr(row) for row in compare_images(a, b, suite.pairings, by=by)] == [repr(row) for row in rows]
        monkeypatch.undo()
