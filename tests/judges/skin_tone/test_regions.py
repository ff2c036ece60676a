"""Cheeks and forehead: in place for every kind of landmark, and on skin of rendered portraits."""

from __future__ import annotations

import numpy as np
import pytest

from verism.judges.skin_tone.faces import Face, estimated_yaw
from verism.judges.skin_tone.regions import TYPICAL, _fill, region_polygons, skin_region

POINTS = np.array([[80.0, 80], [120, 80], [100, 105], [86, 130], [114, 130]])
BOX = np.array([55.0, 30, 145, 160])


def sixty_eight() -> np.ndarray:
    """A schematic frontal face with the five points of ``POINTS``."""
    marks = np.zeros((68, 2))
    angle = np.linspace(np.pi, 0, 17)
    marks[:17] = np.stack([100 + 43 * np.cos(angle), 85 + 72 * np.sin(angle)], axis=1)
    marks[17:22] = np.stack([np.linspace(64, 92, 5), [68, 64, 62, 63, 66]], axis=1)
    marks[22:27] = (200, 0) + marks[17:22][::-1] * (-1, 1)
    marks[27:31] = [(100, y) for y in (80, 88, 97, 105)]
    marks[31:36] = [(x, 110) for x in (91, 95, 100, 105, 109)]
    marks[36:42] = POINTS[0] + np.array([(-9, 0), (-4, -4), (4, -4), (9, 0), (4, 4), (-4, 4)])
    marks[42:48] = marks[36:42] + np.array([40, 0])
    marks[48:60] = [(100 - 14 * np.cos(t), 130 - 6 * np.sin(t)) for t in np.linspace(0, 2 * np.pi, 12, endpoint=False)]
    marks[60:] = (100, 130)
    return marks


def test_a_polygon_is_filled_where_centres_of_pixels_lie_within():
    mask = np.zeros((6, 6), dtype=bool)
    # Columns 1.0 to 3.4 hold the centres 1.5 and 2.5, rows 1.6 to 4.0 the centres 2.5 and 3.5.
    _fill(mask, np.array([(1.0, 1.6), (3.4, 1.6), (3.4, 4.0), (1.0, 4.0)]))
    assert np.argwhere(mask).tolist() == [[2, 1], [2, 2], [3, 1], [3, 2]]


def test_polygons_beyond_the_image_are_cut_off():
    mask = np.zeros((4, 4), dtype=bool)
    _fill(mask, np.array([(-5.0, -5), (2, -5), (2, 2), (-5, 2)]))
    assert mask.sum() == 4
    _fill(mask, np.array([(10.0, 10), (20, 10), (20, 20)]))
    assert mask.sum() == 4


@pytest.mark.parametrize(
    "face",
    [
        pytest.param(Face(box=BOX, landmarks=POINTS), id="5"),
        pytest.param(Face(box=BOX, landmarks=sixty_eight()), id="68"),
        pytest.param(Face(box=BOX), id="box"),
        pytest.param(Face(box=np.array([50.0, 40, 150, 140]), box_style="square"), id="square"),
    ],
)
def test_cheeks_lie_below_the_eyes_and_above_the_mouth_and_beside_the_nose(face):
    outlines = region_polygons(face)
    assert list(outlines) == ["left cheek", "right cheek", "forehead"]
    for name, x in (("left cheek", (58, 90)), ("right cheek", (110, 142))):
        cheek = outlines[name]
        assert cheek[:, 0].min() > x[0]
        assert cheek[:, 0].max() < x[1]
        assert cheek[:, 1].min() > 88  # under the lids
        assert cheek[:, 1].max() < 128  # over the corners of the mouth
    forehead = outlines["forehead"]
    assert forehead[:, 1].max() < 64  # over the brows
    assert forehead[:, 1].min() > 30
    mask = skin_region(face, (200, 200))
    # Mirrored about x = 100, pixel k to pixel 199 - k.
    assert (mask == mask[:, ::-1]).mean() > 0.998
    assert mask.sum() > 300


def test_regions_move_and_grow_with_the_face():
    small = skin_region(Face(box=BOX, landmarks=POINTS), (200, 200))
    large = skin_region(Face(box=BOX * 2, landmarks=POINTS * 2), (400, 400))
    assert large.sum() == pytest.approx(4 * small.sum(), rel=0.05)
    moved = skin_region(Face(box=BOX, landmarks=POINTS + np.array([10, 20])), (220, 210))
    assert (moved[20:, 10:] == small).all()


def test_a_tilted_face_has_a_tilted_region():
    turn = np.array([[0.0, 1], [-1, 0]])  # a quarter turn: the face looks as if lying down
    lying = (POINTS - 100) @ turn + 100
    upright = region_polygons(Face(box=BOX, landmarks=POINTS))
    for name, outline in region_polygons(Face(box=BOX, landmarks=lying)).items():
        assert outline == pytest.approx((upright[name] - 100) @ turn + 100)


@pytest.mark.parametrize(("shift", "left_out"), [(8.0, "right cheek"), (-8.0, "left cheek")])
def test_a_cheek_that_is_turned_away_is_left_out(shift, left_out):
    # The nose 0.2 of the eyes' distance off the midline: atan(2 x 0.2 / 0.9) = 24 degrees.
    marks = POINTS + np.array([(0, 0), (0, 0), (shift, 0), (0, 0), (0, 0)])
    assert abs(estimated_yaw(marks)) == pytest.approx(24, abs=0.1)
    assert left_out not in region_polygons(Face(box=BOX, landmarks=marks))
    assert len(region_polygons(Face(box=BOX, landmarks=marks))) == 2


def test_parts_can_be_chosen():
    face = Face(box=BOX, landmarks=POINTS)
    cheeks, forehead = skin_region(face, (200, 200), ["cheeks"]), skin_region(face, (200, 200), ["forehead"])
    assert not (cheeks & forehead).any()
    assert ((cheeks | forehead) == skin_region(face, (200, 200))).all()
    with pytest.raises(ValueError, match="parts of a face are cheeks, forehead; got nose"):
        region_polygons(face, ["nose"])


def test_a_whole_image_is_all_region():
    assert skin_region(Face(box=np.array([0.0, 0, 7, 5]), box_style="picture"), (5, 7)).all()


def test_typical_points_are_symmetric():
    for points in TYPICAL.values():
        mirrored = (np.asarray(points) * (-1, 1) + (1, 0))[[1, 0, 2, 4, 3]]
        assert mirrored == pytest.approx(np.asarray(points))


@pytest.mark.parametrize("yaw", [-35.0, 0.0, 35.0])
def test_cheeks_of_rendered_portraits_are_skin(yaw):
    from verism.simulator.assets.heads import draw_face
    from verism.simulator.portraits import Shot, draw_light, render_portrait
    from verism.simulator.wardrobe import dressed_person

    rng = np.random.default_rng(8)
    spec = dressed_person(rng, {"glasses"}, skin_tone=7, pose="relaxed", hair="long", figure="curved")
    shot = Shot(yaw_deg=yaw, pitch_deg=5.0, roll_deg=3.0, focal_mm=50.0, face_share=0.5, place="photo_studio")
    portrait = render_portrait(spec, draw_face(rng), draw_light(rng), shot, 128, seed=2)
    face = Face(box=np.array(portrait.box), landmarks=portrait.landmarks)
    cheeks = skin_region(face, portrait.skin.shape, ["cheeks"])
    assert cheeks.sum() > 30
    assert portrait.skin[cheeks].mean() > 0.97
