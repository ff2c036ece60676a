"""Meshes made in code: closed, the right size, and looking outwards."""

import math

import numpy as np
import pytest

from verism.simulator.shapes import (
    Mesh,
    _ear_clip,
    _shared,
    box,
    capsule,
    cone,
    cylinder,
    ellipsoid,
    extrude,
    frustum,
    lathe,
    merge,
    plate,
    rotation_matrix,
    rounded_box,
    rounded_polygon,
    sphere,
    spline,
    torus,
    tube,
)


def area_vectors(mesh: Mesh) -> np.ndarray:
    t = mesh.triangles.astype(np.float64)
    return np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) / 2


def volume(mesh: Mesh) -> float:
    """Enclosed volume, positive if the surface looks outwards."""
    t = mesh.triangles.astype(np.float64)
    return float(np.einsum("fi,fi->", t[:, 0], np.cross(t[:, 1], t[:, 2])) / 6)


def polygon_area(sides: int, radius: float) -> float:
    """Of a regular polygon in a circle."""
    return sides / 2 * radius**2 * math.sin(2 * math.pi / sides)


L_SHAPE = [(0, 0), (3, 0), (3, 1), (1, 1), (1, 2), (0, 2)]  # 3 + 1 = 4
BALL = 4 / 3 * math.pi
DISC = polygon_area(20, 0.5)

# mesh, volume, relative tolerance (polygons that only approach a round shape stay inside it)
SOLIDS = {
    "box": (box((1, 2, 3), (5, 6, 7)), 6.0, 1e-6),
    "rounded box": (
        # core 0.6 x 1.6 x 2.6, six slabs of 0.2, twelve quarter cylinders, one ball
        rounded_box((1, 2, 3), 0.2, (1, 1, 1), segments=8),
        0.6 * 1.6 * 2.6 + 0.4 * (0.6 * 1.6 + 1.6 * 2.6 + 2.6 * 0.6) + math.pi * 0.04 * (0.6 + 1.6 + 2.6) + BALL * 0.008,
        0.01,
    ),
    "rounded box, all radius": (rounded_box((1, 1, 1), 9.0, segments=8), BALL / 8, 0.03),
    "cylinder z": (cylinder(0.5, 2.0), DISC * 2, 1e-5),
    "cylinder x": (cylinder(0.5, 2.0, axis="x"), DISC * 2, 1e-5),
    "cylinder y": (cylinder(0.5, 2.0, axis="y"), DISC * 2, 1e-5),
    "frustum": (frustum(1.0, 0.5, 3.0), polygon_area(20, 1) * 3 * (1 + 0.5 + 0.25) / 3, 1e-5),
    "cone": (cone(1.0, 3.0), polygon_area(20, 1), 1e-5),
    "upturned cone": (frustum(0.0, 1.0, 3.0), polygon_area(20, 1), 1e-5),
    "sphere": (sphere(2.0, (1, 0, 0), segments=48), BALL * 8, 0.01),
    "ellipsoid": (ellipsoid((1, 2, 0.5), (3, 0, 0), segments=48), BALL, 0.01),
    "torus": (torus(2.0, 0.5, segments=64, sides=32), 2 * math.pi**2 * 2 * 0.25, 0.01),
    "half torus": (torus(2.0, 0.5, segments=64, sides=32, arc=180), math.pi**2 * 2 * 0.25, 0.01),
    "lathe": (lathe([(0, 0), (1, 0), (1, 0), (1, 2), (1, 2), (0, 2)]), polygon_area(24, 1) * 2, 1e-5),
    "extruded L": (extrude(L_SHAPE, 0.5), 2.0, 1e-6),
    "extruded L, other way round": (extrude(L_SHAPE[::-1], 0.5), 2.0, 1e-6),
    "pipe": (tube([(0, 0, 0), (1, 0, 0), (4, 0, 0)], 0.5), polygon_area(12, 0.5) * 4, 1e-5),
    "pipe upwards": (tube([(0, 0, 0), (0, 0, 4)], 0.5), polygon_area(12, 0.5) * 4, 1e-5),
    "elliptical pipe": (tube([(0, 0, 0), (4, 0, 0)], [(0.5, 1.0)] * 2), polygon_area(12, 1) * 0.5 * 4, 1e-5),
    "pipe with round ends": (
        tube([(0, 0, 0), (4, 0, 0)], 0.5, sides=48, round_ends=True),
        math.pi * 0.25 * 4 + BALL / 8,
        0.03,
    ),
    "capsule": (capsule((0, 0, 1), (0, 3, 1), 0.5), polygon_area(12, 0.5) * 3 + BALL / 8, 0.05),
}
CASES = [pytest.param(*case, id=name) for name, case in SOLIDS.items()]


@pytest.mark.parametrize(("mesh", "expected", "tolerance"), CASES)
def test_solids_have_their_volume_and_look_outwards(mesh, expected, tolerance):
    assert volume(mesh) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(("mesh", "expected", "tolerance"), CASES)
def test_solids_are_closed(mesh, expected, tolerance):  # noqa: ARG001
    # The area vectors of a closed surface cancel; a missing cap or a triangle turned round leaves something over.
    vectors = area_vectors(mesh)
    assert np.abs(vectors.sum(axis=0)).max() < 1e-4 * np.abs(vectors).sum()


@pytest.mark.parametrize(("mesh", "expected", "tolerance"), CASES)
def test_normals_are_unit_and_on_the_front_side(mesh, expected, tolerance):  # noqa: ARG001
    assert np.linalg.norm(mesh.normals, axis=2) == pytest.approx(1, abs=1e-5)
    facing = np.einsum("fi,fki->fk", area_vectors(mesh), mesh.normals)
    assert facing.min() > -1e-6
    assert mesh.triangles.dtype == mesh.normals.dtype == np.float32


def test_round_shapes_have_the_normals_of_the_true_surface():
    ball = sphere(2.0, (1, 2, 3))
    np.testing.assert_allclose(ball.normals, (ball.triangles - np.float32([1, 2, 3])) / 2, atol=1e-5)
    radii = np.array([1.0, 2.0, 0.5])
    gradient = ellipsoid(radii).triangles / radii**2
    np.testing.assert_allclose(
        ellipsoid(radii).normals, gradient / np.linalg.norm(gradient, axis=2, keepdims=True), atol=1e-4
    )


def test_a_plate_looks_up():
    sheet = plate(2, 3)
    np.testing.assert_allclose(area_vectors(sheet).sum(axis=0), (0, 0, 6), atol=1e-6)
    assert (sheet.normals == (0, 0, 1)).all()


# ----------------------------------------------------------------------------------------------------------- transforms
def test_any_affine_map_keeps_normals_outwards_and_scales_the_volume():
    rng = np.random.default_rng(0)
    shape = merge([rounded_box((1, 2, 1), 0.2), cone(0.5, 1.0).moved(z=3)])
    turned = 0
    for _ in range(30):
        matrix = np.hstack([rng.normal(size=(3, 3)), rng.normal(size=(3, 1))])
        determinant = np.linalg.det(matrix[:, :3])
        turned += determinant < 0
        moved = shape.transformed(matrix)
        assert volume(moved) == pytest.approx(abs(determinant) * volume(shape), rel=1e-3, abs=1e-4)
        # Normals go with the inverse transpose: then what was perpendicular, and what was in front, stays so.
        expected = shape.normals @ np.linalg.inv(matrix[:, :3])
        expected /= np.linalg.norm(expected, axis=2, keepdims=True)
        np.testing.assert_allclose(moved.normals, expected[:, ::-1] if determinant < 0 else expected, atol=2e-4)
    assert 5 < turned < 25  # both hands were tried


def test_sheared_normals_stay_perpendicular():
    # A shear of the plate's plane: z = x / 2. Its normal is (-1, 0, 2) / sqrt 5, not the sheared vector (0, 0, 1).
    sheared = plate(1, 1).transformed([[1, 0, 0, 0], [0, 1, 0, 0], [0.5, 0, 1, 0]])
    np.testing.assert_allclose(sheared.normals, np.broadcast_to(np.array([-1, 0, 2]) / 5**0.5, (2, 3, 3)), atol=1e-6)


def test_flattened_shapes_keep_normals():
    flat = sphere(1.0).scaled(1, 1, 0)
    assert np.isfinite(flat.normals).all()
    assert np.abs(flat.triangles[..., 2]).max() == 0


def test_mirrors_and_twins():
    leg = cylinder(0.1, 1.0).moved(x=1, y=2, z=3)
    other = leg.mirrored("y")
    np.testing.assert_allclose(other.bounds[0], (0.9, -2.1, 2.5), atol=1e-5)
    assert volume(other) == pytest.approx(volume(leg))
    assert len(leg.with_twin()) == 2 * len(leg)
    assert volume(leg.with_twin("x")) == pytest.approx(2 * volume(leg), rel=1e-4)
    assert volume(box((1, 1, 1)).scaled(-2)) == pytest.approx(8)


def test_rotations_are_right_handed():
    np.testing.assert_allclose(rotation_matrix((0, 0, 2), 90) @ (1, 0, 0), (0, 1, 0), atol=1e-12)
    np.testing.assert_allclose(rotation_matrix((1, 0, 0), 90) @ (0, 1, 0), (0, 0, 1), atol=1e-12)
    turned = box((2, 1, 1), (1, 0, 0)).rotated("z", 90, about=(1, 0, 0))
    np.testing.assert_allclose(turned.bounds, ((0.5, -1, -0.5), (1.5, 1, 0.5)), atol=1e-6)
    oblique = rotation_matrix((1, 2, 3), 77)
    np.testing.assert_allclose(oblique @ oblique.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(oblique @ (1, 2, 3), (1, 2, 3), atol=1e-12)


def test_points_that_coincide_share_a_number():
    points = np.array([[0.5, 0, 1], [0.25, 2, 1], [0.5, -0.0, 1], [0.5, 0, 2], [0.25, 2, 1]])
    numbers = _shared(points)
    expected = np.unique(points, axis=0, return_inverse=True)[1].ravel()
    assert ((numbers[:, None] == numbers) == (expected[:, None] == expected)).all()
    assert sorted(set(numbers.tolist())) == [0, 1, 2]


def test_merging_nothing_gives_nothing():
    assert len(merge([])) == 0


# ------------------------------------------------------------------------------------------------------- flat shapes
def star(rng: np.random.Generator, corners: int) -> np.ndarray:
    """A simple polygon, mostly concave, counter-clockwise."""
    angle = np.sort(rng.uniform(0, 2 * math.pi, corners))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) * rng.uniform(0.2, 1.0, (corners, 1))


def comb(teeth: int) -> np.ndarray:
    points = [(2 * teeth, -1.0), (2 * teeth, 0.0)]
    for k in reversed(range(teeth)):
        points += [(2 * k + 1, 3.0), (2 * k, 0.0)]
    return np.array([(0.0, -1.0), *points])


def spiral() -> np.ndarray:
    turn = np.linspace(0, 5 * math.pi, 24)
    outer = np.stack([(1 + turn) * np.cos(turn), (1 + turn) * np.sin(turn)], axis=1)
    inner = np.stack([(0.4 + turn) * np.cos(turn), (0.4 + turn) * np.sin(turn)], axis=1)
    return np.concatenate([outer, inner[::-1]])


def with_midpoints(p: np.ndarray) -> np.ndarray:
    return np.stack([p, (p + np.roll(p, -1, axis=0)) / 2], axis=1).reshape(-1, 2)


POLYGONS = {f"star {k}": star(np.random.default_rng(k), 4 + k) for k in range(25)}
POLYGONS |= {"comb": comb(8), "spiral": spiral(), "L": np.array(L_SHAPE, float)}
POLYGONS |= {f"{name} with midpoints": with_midpoints(p) for name, p in list(POLYGONS.items())}


@pytest.mark.parametrize("polygon", [pytest.param(p, id=name) for name, p in POLYGONS.items()])
def test_ears_cover_the_polygon_once(polygon):
    q = np.roll(polygon, -1, axis=0)
    area = np.sum(polygon[:, 0] * q[:, 1] - q[:, 0] * polygon[:, 1]) / 2
    if area < 0:
        polygon, area = polygon[::-1], -area
    t = polygon[_ear_clip(polygon)]
    u, v = t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]
    signed = (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) / 2
    assert signed.min() >= -1e-12  # none turned over
    assert signed.sum() == pytest.approx(area, rel=1e-9)  # so none overlap, and nothing is left out
    assert volume(extrude(polygon, 2.0)) == pytest.approx(2 * area, rel=1e-4)


def test_rounded_rectangles():
    p = rounded_polygon(4, 2, 0.5, segments=40)
    q = np.roll(p, -1, axis=0)
    assert np.sum(p[:, 0] * q[:, 1] - q[:, 0] * p[:, 1]) / 2 == pytest.approx(8 - (4 - math.pi) * 0.25, rel=1e-3)
    np.testing.assert_allclose([p.min(axis=0), p.max(axis=0)], [(-2, -1), (2, 1)])


def test_splines_pass_through_their_points():
    points = np.array([(0, 0, 0, 1), (1, 2, 0, 0.5), (3, 1, 1, 0.2), (4, 0, 0, 1.0)], float)
    np.testing.assert_allclose(spline(points, 31)[::10], points, atol=1e-12)
    straight = spline([(0.0, 0.0), (3.0, 6.0)], 4)
    np.testing.assert_allclose(straight, [(0, 0), (1, 2), (2, 4), (3, 6)], atol=1e-12)
