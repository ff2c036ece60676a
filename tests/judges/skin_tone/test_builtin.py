"""The built-in finder and estimator: what they see, what the shipped files do on a few heads, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from verism.errors import UsageError
from verism.judges.batching import judge_name
from verism.judges.skin_tone.builtin import BuiltinFaces, BuiltinTones, face_square, tone_inputs
from verism.judges.skin_tone.faces import Face
from verism.judges.skin_tone.judge import SkinSettings, SkinToneJudge
from verism.records import LoadedImage, SkinToneNeed
from verism.registry import Context, make_judge


@pytest.fixture(scope="module")
def finder() -> BuiltinFaces:
    return BuiltinFaces(threads=1)


@pytest.fixture(scope="module")
def heads() -> list[SimpleNamespace]:
    """A light, a middle and a dark head from the front in plain light, with their truth."""
    from verism.simulator.assets.heads import FaceShape
    from verism.simulator.portraits import Light, Shot, render_portrait
    from verism.simulator.wardrobe import dressed_person

    light = Light(
        source="soft", cast="neutral", level="normal", azimuth_deg=20.0, elevation_deg=40.0, temperature_k=6504.0,
        intensity=0.95, ambient=0.85, everywhere=True,
    )  # fmt: skip
    shot = Shot(yaw_deg=5.0, pitch_deg=0.0, roll_deg=0.0, focal_mm=70.0, face_share=0.42, place="living_room")
    made = []
    for tone in (1, 5, 9):
        spec = dressed_person(np.random.default_rng(tone), {"shirt"}, skin_tone=tone, pose="relaxed", hair="short")
        seen = render_portrait(replace(spec, facial_hair="none"), FaceShape(), light, shot, 160, seed=tone)
        made.append(SimpleNamespace(pixels=seen.pixels, box=np.array(seen.box), tone=tone))
    return made


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two boxes."""
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    shared = float(np.prod(np.clip(high - low, 0, None)))
    return shared / (float(np.prod(a[2:] - a[:2])) + float(np.prod(b[2:] - b[:2])) - shared)


# ------------------------------------------------------------------------------------------------------------- finder
def test_rendered_heads_of_all_tones_are_found_where_they_are(finder, heads):
    for head in heads:
        (face,) = finder.find(head.pixels)
        assert overlap(face.box, head.box) > 0.5
        assert 0 < face.score <= 1
        assert face.landmarks is None


def test_faces_of_a_larger_image_are_told_in_its_own_pixels(finder, heads):
    large = np.repeat(np.repeat(heads[1].pixels, 3, axis=0), 3, axis=1)
    (face,) = finder.find(large)
    assert overlap(face.box, heads[1].box * 3) > 0.5


def test_two_faces_side_by_side_are_two(finder, heads):
    pair = np.concatenate([heads[0].pixels, heads[2].pixels], axis=1)
    faces = finder.find(pair)
    assert len(faces) == 2
    assert faces[0].area >= faces[1].area


def test_plain_images_have_no_face(finder):
    noise = np.random.default_rng(0).integers(0, 256, (96, 128, 3)).astype(np.uint8)
    for image in (np.zeros((64, 64, 3), np.uint8), np.full((300, 200, 3), 127, np.uint8), noise):
        assert finder.find(image) == []


# ------------------------------------------------------------------------------------------------------------- inputs
def test_what_lies_beyond_the_image_is_grey():
    image = np.full((10, 10, 3), 200, np.uint8)
    # A box in the corner: the square reaches from -5 to 15 in both directions.
    square = face_square(image, np.array([0.0, 0.0, 10.0, 10.0]), 20, 2.0)
    assert (square[5:15, 5:15] == 200).all()
    assert (square[:4] == 127).all()
    assert (square[:, -4:] == 127).all()


def test_the_square_is_about_the_face_with_its_longer_side():
    image = np.zeros((40, 40, 3), np.uint8)
    image[10:30, 15:25] = 255  # a box of 10 x 20, so a square of 20 about (20, 20)
    square = face_square(image, np.array([15.0, 10.0, 25.0, 30.0]), 20, 1.0)
    assert (square[:, 5:15] == 255).all()
    assert not square[:, :5].any()


def test_every_face_comes_with_the_whole_image(heads):
    faces, scenes = tone_inputs(heads[0].pixels, [heads[0].box, heads[0].box], face=32, scene=16, context=1.5)
    assert faces.shape == (2, 32, 32, 3)
    assert scenes.shape == (2, 16, 16, 3)
    assert np.array_equal(scenes[0], scenes[1])


# ---------------------------------------------------------------------------------------------------------- estimator
def test_tones_of_plain_heads_are_right_within_one(heads):
    tones = BuiltinTones(threads=1)
    for head in heads:
        (chances,) = tones.estimate(head.pixels, [Face(box=head.box)])
        assert chances.sum() == pytest.approx(1, abs=1e-5)
        assert abs(int(chances.argmax()) + 1 - head.tone) <= 1


def test_an_estimate_does_not_depend_on_the_other_faces(heads):
    tones = BuiltinTones(threads=1)
    head, other = Face(box=heads[1].box), Face(box=np.array([0.0, 0.0, 40.0, 50.0]))
    alone, together = tones.estimate(heads[1].pixels, [head]), tones.estimate(heads[1].pixels, [other, head])
    assert together[1] == pytest.approx(alone[0], abs=1e-5)
    assert tones.estimate(heads[1].pixels, []).shape == (0, 10)


# -------------------------------------------------------------------------------------------------------------- judge
def test_the_judge_tells_the_estimators_tone_and_the_published_ones_of_the_pixels(heads):
    judge = make_judge("builtin", Context(), "skin_tone")
    plain = make_judge("builtin:colour=pixels", Context(), "skin_tone")
    image = LoadedImage(image_id="a", prompt_id="p", pixels=heads[1].pixels)
    row, by_pixels = (j.observe([image], SkinToneNeed()).row(0, named=True) for j in (judge, plain))
    assert row["state"] == "ok"
    assert abs(row["tone"] - 5) <= 1
    assert f"tone {row['tone']} with a probability of {row['tone_probability']:.2f}" in row["note"]
    assert 0.1 < row["tone_probability"] <= 1
    for column in ("tone_by_ita", "released_tone", "rgb_tone", "red", "ita_deg", "x0"):
        assert row[column] == by_pixels[column]
    assert by_pixels["tone_probability"] is None
    assert by_pixels["note"] is None or "probability" not in by_pixels["note"]


def test_black_and_white_images_have_no_usable_tone(heads):
    grey = np.repeat(heads[1].pixels.mean(axis=2, keepdims=True), 3, axis=2).astype(np.uint8)
    judge = make_judge("builtin", Context(), "skin_tone")
    row = judge.observe([LoadedImage(image_id="a", prompt_id="p", pixels=grey)], SkinToneNeed()).row(0, named=True)
    assert row["state"] in ("grey", "no_face")


def test_the_name_holds_both_files():
    judge = make_judge("builtin", Context(), "skin_tone")
    assert judge.name.startswith("builtin:faces@")
    assert "estimated:skin-tone@" in judge.name
    assert "estimated" not in make_judge("builtin:colour=pixels", Context(), "skin_tone").name
    assert judge_name("estimated", "skin-tone", "x" * 12).split("@")[0] in judge.name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("builtin:nowhere.onnx", "nowhere.onnx"),
        ("builtin:estimator=nowhere.onnx", "nowhere.onnx"),
        ("builtin:colour=pixels&estimator=x.onnx", "leave out one of the two"),
        ("cascade:colour=estimated", "built-in estimator"),
        ("builtin:min_score=2", "min_score"),
    ],
)
def test_what_cannot_be_is_refused(name, message):
    if name.startswith("cascade"):
        pytest.importorskip("cv2")
    with pytest.raises(UsageError, match=message):
        make_judge(name, Context(), "skin_tone")


def test_files_of_another_kind_are_refused(tmp_path: Path):
    from importlib import resources

    objects = Path(str(resources.files("verism.judges.detection"))) / "data" / "paintskills_detector.onnx"
    with pytest.raises(UsageError, match="no file of `verism train faces`"):
        BuiltinFaces(objects)
    (tmp_path / "x.onnx").write_bytes(b"not a network")
    with pytest.raises(UsageError, match="no estimator written by"):
        BuiltinTones(tmp_path / "x.onnx")
    with pytest.raises(UsageError, match="no estimator written by"):
        BuiltinTones(objects)


def test_settings_that_exclude_each_other_are_refused():
    class Nobody:
        name = "nobody"

        def find(self, _):
            return []

    class Even:
        name = "even"

        def estimate(self, _, faces):
            return np.full((len(faces), 10), 0.1)

    with pytest.raises(UsageError, match="colour=estimated"):
        SkinToneJudge(Nobody(), SkinSettings(colour="pixels"), tones=Even())
    with pytest.raises(UsageError, match="colour=estimated"):
        SkinToneJudge(Nobody(), SkinSettings(colour="estimated"))
