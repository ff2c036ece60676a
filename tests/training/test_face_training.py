"""Rendered faces to learn from, what is measured of a finder and an estimator, and a short training of the latter."""

from __future__ import annotations

import json
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest

from verism.errors import UsageError
from verism.judges.skin_tone.faces import Face
from verism.training import face_examples
from verism.training.face_evaluation import (
    Searched,
    TonePredictions,
    equal_shares,
    evaluate_finder,
    evaluate_tones,
    search,
    threshold_for,
)
from verism.training.face_examples import FaceExamples, FaceFacts, ImageFacts, load_faces, render_faces
from verism.training.scene_arrays import StackedImages


def facts(*faces: tuple[tuple[float, ...], int], kind: str = "portrait", **light: str) -> ImageFacts:
    return ImageFacts(kind=kind, faces=tuple(FaceFacts(box=box, tone=tone) for box, tone in faces), **light)


# ----------------------------------------------------------------------------------------------------------- examples
@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("faces")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(face_examples, "CHUNK", 5)
        render_faces(out, 10, seed=3, size=64)
    return out


def test_examples_are_the_same_however_many_follow(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(face_examples, "CHUNK", 5)
    render_faces(tmp_path, 5, seed=3, size=64)
    first, all_of_them = load_faces([tmp_path]), load_faces([folder])
    assert (len(first), len(all_of_them)) == (5, 10)
    assert list(first.facts) == list(all_of_them.facts)[:5]
    assert list(first.names) == list(all_of_them.names)[:5]
    for k in range(5):
        assert np.array_equal(first.images[k], all_of_them.images[k])


def test_boxes_lie_in_the_images_and_images_without_faces_have_none(folder):
    examples = load_faces([folder])
    for known in examples.facts:
        assert (known.kind == "faceless") == (not known.faces) or known.kind == "group"
        for face in known.faces:
            x0, y0, x1, y1 = face.box
            assert 0 <= x0 < x1 <= 64
            assert 0 <= y0 < y1 <= 64
            assert 1 <= face.tone <= 10
    arrays = examples.scene_arrays(96)
    assert all(arrays.images[k].shape == (96, 96, 3) for k in range(len(arrays)))
    assert all(
        np.allclose(target.boxes, [[1.5 * v for v in face.box] for face in known.faces])
        for target, known in zip(arrays.targets, examples.facts, strict=True)
        if known.faces
    )
    assert [len(t.boxes) for t in arrays.targets] == [len(known.faces) for known in examples.facts]
    assert all((t.labels == 0).all() and (t.colors == -1).all() for t in arrays.targets)


def test_chunks_that_are_there_are_kept(folder, monkeypatch):
    monkeypatch.setattr(face_examples, "CHUNK", 5)
    monkeypatch.setattr(face_examples, "_render_chunk", lambda *_: pytest.fail("rendered again"))
    assert render_faces(folder, 10, seed=3, size=64) == folder


def test_folders_that_do_not_go_together_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no examples in"):
        load_faces([tmp_path])
    with pytest.raises(UsageError, match="count=0"):
        render_faces(tmp_path, 0, seed=0)
    (tmp_path / "faces_0_0000.json").write_text("[]")
    np.save(tmp_path / "faces_0_0000.npy", np.zeros((1, 8, 8, 3), np.uint8))
    with pytest.raises(UsageError, match="0 records for 1 images"):
        load_faces([tmp_path])


# --------------------------------------------------------------------------------------------------------- evaluation
class Scripted:
    """Finds the same faces in every image."""

    def __init__(self, *faces: Face) -> None:
        self.faces = list(faces)

    def find(self, _):
        return self.faces


def examples_of(*known: ImageFacts) -> FaceExamples:
    images = StackedImages([np.zeros((len(known), 8, 8, 3), np.uint8)])
    return FaceExamples(images=images, facts=known, names=[str(k) for k in range(len(known))])


def test_a_face_is_found_once_and_other_boxes_are_false():
    box = (10.0, 10.0, 30.0, 40.0)
    finder = Scripted(
        Face(box=np.array(box), score=0.6),
        Face(box=np.array(box) + 1, score=0.9),  # the surer of two boxes on one face finds it
        Face(box=np.array([50.0, 50.0, 60.0, 60.0]), score=0.4),
    )
    (seen,) = search(finder, examples_of(facts((box, 3), ((100.0, 0.0, 120.0, 30.0), 4))), [0])
    assert seen.scores.tolist() == [0.9, -1.0]
    assert sorted(seen.false.tolist()) == [0.4, 0.6]
    assert seen.misplaced.tolist() == []
    # Half the height beside it: a third of the union is shared, so the face is missed and the box misplaced.
    (seen,) = search(
        Scripted(Face(box=np.array([10.0, 25.0, 30.0, 55.0]), score=0.7)), examples_of(facts((box, 3))), [0]
    )
    assert (seen.scores.tolist(), seen.false.tolist(), seen.misplaced.tolist()) == ([-1.0], [], [0.7])


def test_the_threshold_is_the_lowest_with_few_false_boxes():
    searched = [Searched(facts(), np.zeros(0), np.array([0.1 * k])) for k in range(1, 9)]
    # Of eight images with one false box each, of scores 0.1 to 0.8, one may stay: above 0.7.
    assert threshold_for(searched, false_per_image=1 / 8) == pytest.approx(0.71)
    assert threshold_for([], false_per_image=0.01) == 0.05
    # With a face of score 0.5 in each image, errors are fewest from 0.41 to 0.5: four false boxes.
    faces = [replace(s, scores=np.array([0.5])) for s in searched]
    assert threshold_for(faces) == pytest.approx(0.41)


def test_recall_by_hand():
    tall, small = (0.0, 0.0, 20.0, 30.0), (0.0, 0.0, 8.0, 10.0)
    searched = [
        Searched(facts((tall, 1)), np.array([0.9]), np.zeros(0)),
        Searched(facts((tall, 1)), np.array([0.3]), np.array([0.8])),
        Searched(facts((tall, 2)), np.array([0.7]), np.zeros(0)),
        Searched(facts((small, 2)), np.array([-1.0]), np.zeros(0)),
    ]
    result = evaluate_finder(searched, 0.5, smallest=16)
    assert result["recall"]["share"] == pytest.approx(2 / 3)
    assert (result["by_tone"]["1"]["n"], result["by_tone"]["1"]["share"]) == (2, 0.5)
    assert result["by_tone"]["2"]["share"] == 1
    assert result["by_height"]["0-12"]["share"] == 0
    assert result["false_per_image"] == 0.25


def test_equal_and_unequal_shares_are_told_apart():
    even = {str(k): [True] * 97 + [False] * 3 for k in range(5)}
    assert equal_shares(even)["p"] > 0.9
    assert equal_shares(even)["smallest_pair_p"] == pytest.approx(1)
    odd = even | {"dark": [True] * 80 + [False] * 20}
    result = equal_shares(odd)
    assert result["p"] < 0.001
    assert "dark" in result["pair"]
    # Fisher's exact test of 3 and 20 misses in 100 each, all tables no more probable than this one; fifteen pairs.
    ways = [comb(100, k) * comb(100, 23 - k) for k in range(24)]
    p = sum(w for w in ways if w <= ways[3]) / comb(200, 23)
    assert result["smallest_pair_p"] == pytest.approx(15 * p, rel=1e-6)
    assert np.isnan(equal_shares({"a": [True], "b": [True]})["p"])


def test_tones_by_hand():
    chances = np.full((3, 10), 0.02)
    for row, said in enumerate((4, 5, 9)):
        chances[row, said - 1] = 0.82
    known = [(facts(light="soft", level="dim"), FaceFacts(box=(0, 0, 20, 30), tone=tone)) for tone in (4, 4, 4)]
    result = evaluate_tones(TonePredictions(chances, known))
    assert (result["exact"], result["within_one"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert result["mean_error"] == pytest.approx(2)  # (0 + 1 + 5) / 3
    assert result["table"][3] == [0, 0, 0, 1, 1, 0, 0, 0, 1, 0]
    assert result["by_level"]["dim"]["n"] == 3
    # 82 % sure and right once in three times.
    assert result["calibration_error"] == pytest.approx(0.82 - 1 / 3)


def test_the_temperature_makes_an_overconfident_estimator_modest():
    rng = np.random.default_rng(1)
    true = rng.integers(1, 11, 2000)
    said = np.where(rng.random(2000) < 0.6, true, rng.integers(1, 11, 2000))
    chances = np.full((2000, 10), 0.002)
    chances[np.arange(2000), said - 1] = 0.982
    known = [(facts(), FaceFacts(box=(0, 0, 20, 30), tone=int(t))) for t in true]
    predictions = TonePredictions(chances, known)
    assert predictions.best_temperature() > 1.3
    even = replace(predictions, chances=np.full((2000, 10), 0.1))
    assert 0.3 <= even.best_temperature() <= 3


# ----------------------------------------------------------------------------------------------------------- training
def test_an_estimator_is_trained_exported_and_measured(folder, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    from verism.judges.skin_tone.builtin import BuiltinTones
    from verism.training.settings import FACE_RENDERING, SkinToneConfig
    from verism.training.skin_tone import FILE, train_and_export

    config = SkinToneConfig(steps=2, width=0.2, face=32, scene=16, batch_size=4, workers=1, held_out=0.4)
    lines: list[str] = []
    result = train_and_export([folder], tmp_path, config, rendering=replace(FACE_RENDERING, test=0), say=lines.append)
    assert json.loads(lines[0])["event"] == "start"
    assert result["held_out"]["faces"] > 0
    tones = BuiltinTones(tmp_path / FILE)
    assert tones.card["steps"] == 2
    assert tones.card["held_out"]["faces"] == result["held_out"]["faces"]
    chances = tones.estimate(np.zeros((40, 40, 3), np.uint8), [Face(box=np.array([5.0, 5.0, 25.0, 30.0]))])
    assert chances.shape == (1, 10)
    assert chances.sum() == pytest.approx(1, abs=1e-5)
    with pytest.raises(UsageError, match="multiple of 16"):
        train_and_export([folder], tmp_path, replace(config, face=40), rendering=replace(FACE_RENDERING, test=0))
