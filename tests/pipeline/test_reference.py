"""Real images beside a run's own, and texts beside images: looked at once, resumed, never silently left out."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import ColourFeatures, ColourWords

from verism.errors import UsageError, VerismError
from verism.imaging import encode_png
from verism.manifest import RunSettings
from verism.pipeline import reference as stage
from verism.pipeline.local import observe_texts
from verism.pipeline.reference import observe_reference, reference_set, take_in_reference
from verism.records import ReferenceImage, ReferenceSet, empty_table
from verism.store import Run


def pixels_of(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 255, (8, 6, 3), dtype=np.uint8)


@pytest.fixture
def images(tmp_path) -> ReferenceSet:
    """Five that can be read, one that is not there, one that is blank, one that is cut short."""
    results = []
    for number in range(5):
        (tmp_path / f"{number}.png").write_bytes(encode_png(pixels_of(number)))
    (tmp_path / "blank.png").write_bytes(encode_png(np.full((8, 8, 3), 9, np.uint8)))
    (tmp_path / "cut.png").write_bytes(encode_png(pixels_of(9))[:50])
    for name in ("0", "1", "2", "3", "4", "gone", "blank", "cut"):
        facets = {"region": "Africa" if name < "3" else "Europe"}
        results.append(ReferenceImage(image_id=f"real/{name}", path=str(tmp_path / f"{name}.png"), facets=facets))
    return ReferenceSet(source="here", images=tuple(results))


@pytest.fixture
def run(tmp_path) -> Run:
    return Run.start(tmp_path / "run", RunSettings(suite="quality"))


def test_every_image_keeps_its_place_and_those_that_can_be_read_are_looked_at(run, images):
    judge = ColourFeatures()
    result = take_in_reference(run, images, judge)
    rows = {row["image_id"]: row for row in run.read("reference").iter_rows(named=True)}
    assert [rows[p.image_id]["state"] for p in images.images] == ["ok"] * 5 + ["missing", "blank", "failed"]
    assert rows["real/0"]["facets"] == '{"region": "Africa"}'
    assert len(rows["real/0"]["sha256"]) == 64
    assert [line.split(":")[0] for line in result] == ["real/blank", "real/cut", "real/gone"]
    vectors = run.read("reference_features", judge.name)
    assert vectors["image_id"].to_list() == [f"real/{n}" for n in range(5)]
    expected = pixels_of(3).reshape(-1, 3).mean(axis=0) / 255
    assert vectors["vector"].to_list()[3] == pytest.approx(expected.tolist(), abs=1e-6)


def test_nothing_is_looked_at_twice_and_a_second_judge_only_looks(run, images):
    first, second = ColourFeatures(), ColourFeatures("other@1")
    take_in_reference(run, images, first)
    take_in_reference(run, images, first)
    assert len(first.seen) == 5
    observe_reference(run, second)
    assert sorted(second.seen) == sorted(first.seen)
    assert set(run.judges("reference_features")) == {"mean-colour@1", "other@1"}


def test_a_killed_run_goes_on_with_the_images_that_are_left(run, images, monkeypatch):
    monkeypatch.setattr(stage, "BATCH", 2)

    class Dies(ColourFeatures):
        def observe(self, images, need):
            if len(self.seen) >= 2:
                raise KeyboardInterrupt
            return super().observe(images, need)

    with pytest.raises(KeyboardInterrupt):
        take_in_reference(run, images, Dies())
    assert run.read("reference").height == 2
    judge = ColourFeatures()
    take_in_reference(run, images, judge)
    assert judge.seen == ["real/2", "real/3", "real/4"]
    assert run.read("reference").height == 8


def test_a_file_that_changed_since_is_refused(run, images):
    take_in_reference(run, images, ColourFeatures())
    first = images.images[0].path
    assert first is not None
    with open(first, "wb") as file:
        file.write(encode_png(pixels_of(77)))
    with pytest.raises(VerismError, match=r"real/0 .* is not what it was when the run took it in: its content changed"):
        observe_reference(run, ColourFeatures("other@1"))


def test_features_made_before_are_used_and_those_of_another_judge_refused(run, images, tmp_path):
    judge = ColourFeatures()
    take_in_reference(run, images, judge)
    shared = reference_set(run, judge.name, "shared")
    assert [p.image_id for p in shared.images] == [f"real/{n}" for n in range(5)]
    other = Run.start(tmp_path / "other", RunSettings(suite="quality"))
    fresh = ColourFeatures()
    assert take_in_reference(other, shared, fresh) == []
    take_in_reference(other, shared, fresh)
    assert fresh.seen == []
    assert other.read("reference_features", judge.name).equals(run.read("reference_features", judge.name))
    third = Run.start(tmp_path / "third", RunSettings(suite="quality"))
    with pytest.raises(UsageError, match="holds features by mean-colour@1, and the images would be seen by other@1"):
        take_in_reference(third, shared, ColourFeatures("other@1"))


def test_the_set_is_known_by_its_images(images):
    moved = replace(images, source="elsewhere")
    fewer = replace(images, images=images.images[1:])
    assert images.identity() == moved.identity()
    assert images.identity() != fewer.identity()


def test_texts_are_embedded_once(run):
    judge = ColourWords()
    observe_texts(run, ["a red cup", "a green cup", "a red cup"], judge)
    observe_texts(run, ["a blue cup", "a red cup"], judge)
    assert judge.read == ["a red cup", "a green cup", "a blue cup"]
    table = run.read("text_embeddings", judge.name)
    assert table["text"].to_list() == ["a blue cup", "a green cup", "a red cup"]
    assert table["vector"].to_list()[2] == [1.0, 0.0, 0.0]


def test_a_judge_that_skips_a_text_is_refused(run):
    class Skips(ColourWords):
        def embed_texts(self, texts):  # noqa: ARG002
            return empty_table("text_embeddings")

    with pytest.raises(VerismError, match="did not embed the texts it was given"):
        observe_texts(run, ["a cup"], Skips())
