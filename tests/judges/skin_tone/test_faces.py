"""Faces: their order, which way they look, and which of two boxes goes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.judges.skin_tone.faces import NOSE_PROTRUSION, Face, estimated_yaw, five_points, largest_first, suppressed

FRONTAL = np.array([[40.0, 50], [60, 50], [50, 62], [43, 72], [57, 72]])


def face(*box: float, score: float | None = None) -> Face:
    return Face(box=np.array(box, dtype=float), score=score)


def turned(yaw_deg: float, roll_deg: float = 0.0, scale: float = 10.0) -> np.ndarray:
    """Landmarks of a head with eyes 2 apart and a nose ``NOSE_PROTRUSION`` before them, seen from far away."""
    points = np.array([[-1, -1, 0], [1, -1, 0], [0, 0.2, NOSE_PROTRUSION], [-0.6, 1, 0], [0.6, 1, 0]])
    a, b = np.radians(yaw_deg), np.radians(roll_deg)
    x = points[:, 0] * np.cos(a) + points[:, 2] * np.sin(a)
    flat = np.stack([x, points[:, 1]], axis=1)
    turn = np.array([[np.cos(b), np.sin(b)], [-np.sin(b), np.cos(b)]])
    return flat @ turn * scale + 100


@given(st.floats(-75, 75), st.floats(-60, 60), st.floats(3, 200))
def test_yaw_of_a_head_seen_from_far_away_is_exact_whatever_its_tilt_and_size(yaw, roll, scale):
    assert estimated_yaw(turned(yaw, roll, scale)) == pytest.approx(yaw, abs=1e-6)


def test_yaw_is_a_right_angle_where_one_eye_hides_behind_the_nose():
    assert estimated_yaw(turned(89)) == 90.0
    assert estimated_yaw(turned(-89)) == -90.0


def test_yaw_of_the_mirror_image_has_the_other_sign():
    points = turned(20, 5)
    mirrored = (points * (-1, 1) + (300, 0))[[1, 0, 2, 4, 3]]
    assert estimated_yaw(mirrored) == pytest.approx(-estimated_yaw(points))


def test_yaw_of_coinciding_landmarks_is_a_profile_and_no_crash():
    assert abs(estimated_yaw(np.full((5, 2), 7.0))) == 90.0


def test_five_points_of_68_are_eye_centres_nose_tip_and_mouth_corners():
    points = np.zeros((68, 2))
    points[36:42] = [(1, 1), (2, 0), (3, 0), (4, 1), (3, 2), (2, 2)]  # means: 15 / 6 and 6 / 6
    points[42:48] = points[36:42] + np.array([10, 0])
    points[30], points[48], points[54] = (8, 5), (4, 9), (12, 9)
    assert five_points(points).tolist() == [[2.5, 1], [12.5, 1], [8, 5], [4, 9], [12, 9]]
    with pytest.raises(ValueError, match=r"shape \(5, 2\) or \(68, 2\), got \(6, 2\)"):
        five_points(np.zeros((6, 2)))


def test_faces_come_by_area_then_score_then_place():
    small, sure, unsure, right = face(0, 0, 5, 5), face(9, 0, 19, 10, score=0.9), face(0, 0, 10, 10), face(2, 0, 12, 10)
    ordered = largest_first([small, right, unsure, sure])
    assert [f.box[0] for f in ordered] == [9, 0, 2, 0]
    assert ordered[-1] is small


def test_of_two_boxes_of_one_face_the_surer_stays():
    # The first two share 8 x 10 of 120: 0.667; the third touches neither by more than 2 x 10 of 180: 0.111.
    boxes = np.array([[0, 0, 10, 10], [2, 0, 12, 10], [10, 0, 20, 10]], dtype=float)
    assert suppressed(boxes, np.array([0.5, 0.9, 0.4]), 0.3).tolist() == [1, 2]
    assert suppressed(boxes, np.array([0.5, 0.9, 0.4]), 0.7).tolist() == [1, 0, 2]
    assert suppressed(boxes[:0], np.zeros(0), 0.3).tolist() == []


def test_equally_sure_boxes_stay_in_their_order():
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10]], dtype=float)
    assert suppressed(boxes, np.array([0.5, 0.5]), 0.3).tolist() == [0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"box": np.zeros(3)}, "four finite numbers"),
        ({"box": np.array([0, 0, np.nan, 1])}, "four finite numbers"),
        ({"box": np.array([5.0, 0, 5, 9])}, "with an area"),
        ({"box": np.array([0.0, 0, 5, 9]), "landmarks": np.zeros((7, 2))}, r"shape \(5, 2\) or \(68, 2\)"),
        ({"box": np.array([0.0, 0, 5, 9]), "landmarks": np.full((5, 2), np.inf)}, "finite numbers"),
    ],
)
def test_what_is_no_face_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Face(**arguments)


def test_side_and_area():
    assert (face(10, 20, 30, 50).side, face(10, 20, 30, 50).area) == (20, 600)
