"""The renderer leaves out only rays that cannot matter, and computes many rays as it computes one."""

from __future__ import annotations

import numpy as np
import pytest

from verism.records import Scene, SceneObject
from verism.simulator import renderer
from verism.simulator.renderer import SUBPIXELS, Camera, Placed, render
from verism.simulator.scene_renderer import SceneRenderer
from verism.simulator.shapes import box
from verism.simulator.surroundings import Surroundings

SIZE = 96
PLACES = ["empty", "beach", "city_plaza", "tiled_hall", "living_room", "forest_clearing"]


def asked(background: str, relation: str | None) -> Scene:
    objects = [SceneObject(shape=label, label=label) for label in ("chair", "dog")]
    if relation is not None:
        objects[1] = SceneObject(shape="dog", label="dog", relation=relation)
    return Scene(
        scene_id="s", skill="spatial", split="val", text="", background=background, objects=tuple(objects), seed=11
    )


@pytest.mark.parametrize("relation", [None, "above_0"], ids=["standing", "hanging"])
@pytest.mark.parametrize("background", PLACES)
def test_rays_left_out_change_no_pixel(background, relation, monkeypatch):
    scene = asked(background, relation)
    image = SceneRenderer(SIZE).render(scene)
    monkeypatch.setattr(renderer, "_in_view", lambda _corners, _camera, size: np.ones(size * size, bool))
    monkeypatch.setattr(renderer, "_may_be_shaded", lambda _corners, _to_sun, x, _y: np.ones(len(x), bool))
    with_all_rays = SceneRenderer(SIZE).render(scene)
    np.testing.assert_array_equal(image.pixels, with_all_rays.pixels)
    np.testing.assert_array_equal(image.mask, with_all_rays.mask)


def test_rays_are_left_out_where_nothing_stands():
    corners = renderer._corners([(0, box((1, 1, 1), (0, 0, 0.5))), (0, box((1, 1, 1), (0, 0, 1.5)))])
    assert corners.shape == (1, 8, 3)
    assert corners.reshape(-1, 3).max(axis=0).tolist() == [0.5, 0.5, 2.0]
    camera = Camera(position=(0.0, -8.0, 1.0), target=(0.0, 0.0, 1.0), fov=60.0)
    inside = renderer._in_view(corners, camera, 64).reshape(64, 64)
    assert inside[32, 32]
    assert not inside[:, :16].any()
    assert inside.mean() < 0.2
    shaded = renderer._may_be_shaded(
        corners, np.array([0.6, 0.0, 0.8]), np.array([0.0, -1.9, -2.2, 0.7]), np.array([0.0, 0.0, 0.0, 0.0])
    )
    assert shaded.tolist() == [True, True, False, False]  # 2 m of height, shadow 1.5 m towards -x, from x = -0.5


def test_what_reaches_behind_the_camera_may_be_anywhere():
    corners = renderer._corners([(renderer.SCENERY, box((1, 20, 1)))])
    camera = Camera(position=(0.0, -8.0, 1.0), target=(0.0, 0.0, 1.0))
    assert renderer._in_view(corners, camera, 16).all()


def test_each_piece_of_scenery_has_its_own_box():
    walls = [(renderer.SCENERY, box((1, 1, 1), (x, 9, 0))) for x in (-5, 5)]
    assert renderer._corners(walls).shape == (2, 8, 3)


def test_rays_of_a_grid_are_the_rays_of_its_points():
    camera = Camera(position=(1.0, -5.0, 2.0), target=(0.0, 0.5, 0.7), fov=41.0, roll=1.5)
    dx, dy = SUBPIXELS[0]
    grid = np.arange(8)
    rows, cols = np.divmod(np.arange(64), 8)
    of_grid = camera._directions((grid + dx) / 8, (grid[:, None] + dy) / 8).reshape(3, 64)
    of_points = camera.rays((cols + dx) / 8, (rows + dy) / 8)
    assert of_points.dtype == np.float32
    np.testing.assert_array_equal(of_grid.T, of_points)
    # Each meets the image where it came from.
    at = camera.project(np.asarray(camera.position) + 3.0 * of_points.astype(np.float64))
    np.testing.assert_allclose(at[:, 0], (cols + dx) / 8, atol=1e-6)
    np.testing.assert_allclose(at[:, 1], (rows + dy) / 8, atol=1e-6)


def test_frames_are_perpendicular_unit_vectors():
    rng = np.random.default_rng(2)
    normal = rng.standard_normal((3, 50)).astype(np.float32)
    normal[:, 0] = 0, 0, -1
    normal /= np.linalg.norm(normal, axis=0)
    tangent, bitangent = renderer._frames(normal)
    basis = np.stack([tangent, bitangent, normal]).astype(np.float64)
    products = np.einsum("ikn,jkn->nij", basis, basis)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(3), (50, 3, 3)), atol=1e-5)


def test_nothing_at_all_is_all_sky():
    def sky(directions: np.ndarray) -> np.ndarray:
        return np.full((len(directions), 3), 0.25, np.float32)

    place = Surroundings(sky=sky, ground=None, sun_direction=(0.0, 0.0, 1.0), sun=(1.0, 1.0, 1.0))
    camera = Camera(position=(0.0, -5.0, 1.0), target=(0.0, 0.0, 1.0))
    image = render([], place, camera, 64)
    assert not image.mask.any()
    assert len(np.unique(image.pixels)) == 1


def test_mask_numbers_are_those_of_the_items():
    from verism.simulator.model import Material, Model

    def sky(directions: np.ndarray) -> np.ndarray:
        return np.full((len(directions), 3), 0.25, np.float32)

    place = Surroundings(sky=sky, ground=None, sun_direction=(0.0, 0.0, 1.0), sun=(1.0, 1.0, 1.0))
    items = [Placed(Model.of([(box((1, 1, 1), (x, 0, 1)), Material((0.5, 0.5, 0.5)))]), np.eye(4)) for x in (-1.5, 1.5)]
    image = render(items, place, Camera(position=(0.0, -8.0, 1.0), target=(0.0, 0.0, 1.0)), 64)
    assert image.pixels.flags.c_contiguous
    assert set(np.unique(image.mask[:, :32])) == {0, 1}
    assert set(np.unique(image.mask[:, 32:])) == {0, 2}
