"""Cascades: found on a drawn face, the same at any place in a run, and quiet where there is nothing."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from verism.errors import MissingExtra, UsageError
from verism.judges.skin_tone.cascade import PASSES, CascadeFaces, _as_seen

pytest.importorskip("cv2")


@pytest.fixture(scope="module")
def portrait() -> SimpleNamespace:
    """A rendered portrait of a light face, seen from the front, with its truth."""
    from verism.simulator.assets.heads import draw_face
    from verism.simulator.portraits import Light, Shot, render_portrait
    from verism.simulator.wardrobe import dressed_person

    rng = np.random.default_rng(3)
    spec = dressed_person(rng, set(), skin_tone=4, pose="relaxed", hair="short", figure="straight")
    light = Light(
        source="soft", cast="neutral", level="normal", azimuth_deg=20.0, elevation_deg=40.0, temperature_k=6504.0,
        intensity=1.0, ambient=0.8,
    )  # fmt: skip
    shot = Shot(yaw_deg=0.0, pitch_deg=0.0, roll_deg=0.0, focal_mm=60.0, face_share=0.5, place="photo_studio")
    rendered = render_portrait(spec, draw_face(rng), light, shot, 192, seed=4)
    return SimpleNamespace(pixels=rendered.pixels, box=np.array(rendered.box), landmarks=rendered.landmarks)


@pytest.fixture(scope="module")
def finder() -> CascadeFaces:
    return CascadeFaces()


def test_a_rendered_face_is_found_where_it_is(finder, portrait):
    face = finder.find(portrait.pixels)[0]
    middle = (face.box[:2] + face.box[2:]) / 2
    assert not face.side_view
    assert face.score >= 5
    assert face.landmarks is None
    assert face.yaw_deg is None
    assert face.box_style == "square"
    # Between eyes and mouth, and as wide as a face.
    assert np.abs(middle - portrait.landmarks[[0, 1, 3, 4]].mean(axis=0)).max() < 0.2 * face.side
    assert face.side == pytest.approx(portrait.box[2] - portrait.box[0], rel=0.35)


def test_large_images_are_searched_small_and_answered_in_their_own_pixels(portrait):
    large = np.repeat(np.repeat(portrait.pixels, 4, axis=0), 4, axis=1)
    small = CascadeFaces(max_side=192).find(portrait.pixels)[0]
    assert CascadeFaces(max_side=192).find(large)[0].box == pytest.approx(small.box * 4, abs=1e-9)


def test_a_face_turned_to_the_side_is_found_in_its_mirror_image_too(finder, portrait):
    there = finder.find(portrait.pixels)[0].box
    back = finder.find(np.ascontiguousarray(portrait.pixels[:, ::-1]))[0].box
    assert back == pytest.approx(np.array([192 - there[2], there[1], 192 - there[0], there[3]]), abs=12)


class Says:
    """A cascade that says a box for every bright column it finds in the first row."""

    def getOriginalWindowSize(self):  # noqa: N802
        return (20, 20)

    def detectMultiScale2(self, grey, *, scaleFactor, minNeighbors):  # noqa: N802, N803, ARG002
        results = [(int(x), 30, 40, 40) for x in np.flatnonzero(grey[0] == 255)]
        return (np.array(results), np.full(len(results), 7)) if results else ((), ())


def test_profiles_of_both_sides_are_told_in_pixels_of_the_image():
    finder = CascadeFaces()
    finder._profile = Says()
    pixels = np.zeros((100, 200, 3), dtype=np.uint8)
    pixels[0, 20] = 255
    # As it is: from 20 to 60. In the mirror the mark is at 199 - 20 = 179, so the box ends at 200 - 179 = 21.
    faces = finder.find(pixels)
    assert sorted((f.box.tolist(), f.side_view, f.score) for f in faces) == [
        ([-19.0, 30.0, 21.0, 70.0], True, 7.0),
        ([20.0, 30.0, 60.0, 70.0], True, 7.0),
    ]
    assert CascadeFaces(profiles=False).find(pixels) == []


def test_a_face_seen_from_the_front_and_the_side_counts_as_frontal():
    finder = CascadeFaces(passes=["plain"])
    finder._frontal = finder._profile = Says()
    pixels = np.zeros((100, 200, 3), dtype=np.uint8)
    pixels[0, 80] = 255
    frontal = [f for f in finder.find(pixels) if not f.side_view]
    assert [f.box.tolist() for f in frontal] == [[80.0, 30.0, 120.0, 70.0]]
    assert [80.0, 30.0, 120.0, 70.0] not in [f.box.tolist() for f in finder.find(pixels) if f.side_view]


@pytest.mark.parametrize("shape", [(1, 1), (1, 400), (19, 19), (24, 3), (700, 30)])
def test_images_of_any_size_are_looked_at(finder, shape):
    rng = np.random.default_rng(0)
    assert isinstance(finder.find(rng.integers(0, 256, (*shape, 3), dtype=np.uint8)), list)


def test_nothing_is_found_in_a_flat_image(finder):
    assert finder.find(np.full((200, 200, 3), 128, dtype=np.uint8)) == []


def test_the_passes():
    grey = np.array([[0, 50, 85, 200]], dtype=np.uint8)
    assert [_as_seen(grey, name).tolist() for name in PASSES] == [
        [[0, 50, 85, 200]],
        [[0, 150, 255, 255]],
        [[255, 205, 170, 55]],
    ]


def test_the_name_tells_what_changes_the_result(finder):
    assert finder.name.startswith("cascade:frontalface_alt2@")
    assert finder.name.endswith(" passes=plain+bright+negative")
    other = CascadeFaces(passes=["negative", "plain"], profiles=False, min_neighbors=3, scale_factor=1.2, max_side=100)
    assert other.name.endswith(" passes=plain+negative profiles=no min_neighbors=3 scale_factor=1.2 max_side=100")
    assert other.name.split()[0] != finder.name.split()[0]  # one file less


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passes": ["plain", "red"]}, "passes must be of plain, bright, negative, joined by \\+; got red"),
        ({"passes": []}, "passes must name at least one"),
        ({"min_neighbors": 0}, "min_neighbors must be at least 1, not 0"),
        ({"scale_factor": 1.0}, "scale_factor must be above 1 and at most 2, not 1.0"),
        ({"max_side": 10}, "max_side must be at least 64 pixels, not 10"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        CascadeFaces(**options)


def test_opencv_without_cascades_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(__version__="5.0.0"))
    with pytest.raises(MissingExtra, match=r"OpenCV 5.0.0 has no cascades any more.*pip install 'verism\[faces\]'"):
        CascadeFaces()


def test_no_opencv_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtra, match=r"needs 'cv2'. Install it with: pip install 'verism\[faces\]'"):
        CascadeFaces()
