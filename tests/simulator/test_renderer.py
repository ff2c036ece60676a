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


def test_shared_corners_give_the_triangles_back():
    triangles = box((1, 2, 3)).triangles
    points, corners = renderer._shared_corners(triangles)
    assert len(points) == 8
    np.testing.assert_array_equal(points[corners], triangles)


def test_shared_corners_with_equal_keys_stay_apart(monkeypatch):
    triangles = box((1, 2, 3)).triangles
    monkeypatch.setattr(renderer, "MIXERS", np.zeros((3, 1), np.uint64))
    points, corners = renderer._shared_corners(triangles)
    assert len(points) == 3 * len(triangles)
    np.testing.assert_array_equal(points[corners], triangles)


def test_unscaled_rays_are_the_rays_before_scaling():
    camera = Camera(position=(1.0, -5.0, 2.0), target=(0.0, 0.5, 0.7), fov=41.0, roll=1.5)
    grid = (np.arange(8) + 0.375) / 8
    rays, length = camera._unscaled(grid, grid[:, None])
    np.testing.assert_allclose(np.linalg.norm(rays, axis=0), length, rtol=1e-6)
    of_grid = camera._directions(grid, grid[:, None]).reshape(3, 64)
    np.testing.assert_allclose(rays / length, of_grid, atol=1e-6)


def _skyline(directions: np.ndarray) -> np.ndarray:
    """A sky whose colour changes smoothly along the horizon."""
    turn = np.arctan2(directions[:, 0], directions[:, 1])
    return np.stack([1 + np.sin(turn), 1 + np.cos(3 * turn), np.full(len(turn), 0.5)], axis=1).astype(np.float32)


@pytest.mark.parametrize("turn", [0.0, 90.0, 180.0], ids=["ahead", "aside", "back"])
def test_mist_is_the_sky_over_the_horizon_wherever_the_camera_looks(turn):
    place = Surroundings(sky=_skyline, ground=None, sun_direction=(0.0, 0.0, 1.0), sun=(1.0, 1.0, 1.0))
    angle = np.radians(turn)
    camera = Camera(position=(0.0, 0.0, 1.5), target=(5 * np.sin(angle), 5 * np.cos(angle), 0.0), fov=50.0)
    grid = (np.arange(32) + 0.5) / 32
    rays, _ = camera._unscaled(grid, grid[:, None])
    level = np.stack([rays[0], rays[1], 0.002 * np.hypot(rays[0], rays[1])])
    # Ahead, the sky is looked up in 128 columns over 50 degrees: half a column is 0.0034 radians, by the slope of 3.
    np.testing.assert_allclose(renderer._mist(place, rays).T, _skyline(level.T), atol=0.013)


def test_tone_curve_follows_the_standard_and_keeps_highlights():
    linear_light = np.linspace(0, 0.7, 5000, dtype=np.float32)
    srgb = np.where(linear_light <= 0.0031308, 12.92 * linear_light, 1.055 * linear_light ** (1 / 2.4) - 0.055)
    shown = renderer._tone(linear_light).astype(float)
    assert np.abs(shown - srgb * 255).max() < 0.61  # half a level, and a step of the table
    bright = renderer._tone(np.array([0.7, 1.0, 3.0, 1e6], np.float32)).tolist()
    assert bright == sorted(bright)
    assert bright[-1] == 255


def test_tile_sums_are_the_sums_of_tiles():
    image = np.random.default_rng(0).integers(0, 5, (9, 7)).astype(np.uint8)
    expected = [[image[y : y + 4, x : x + 4].sum() for x in range(4)] for y in range(6)]
    assert renderer._tile_sums(image).tolist() == expected


def test_uneven_pixels_are_those_of_items_that_differ_from_a_neighbour_or_between_samples():
    kinds = np.full((2, 8, 8), 1, np.int16)
    kinds[:, 2:6, 2:6] = 3
    seen = np.full((2, 3, 8, 8), 0.4, np.float32)
    seen[0, 1, 3, 3] = 0.5  # beside it: four pixels of the item
    seen[1, 2, 5, 5] = 0.3
    seen[0, :, 0, 0] = 0.9  # no item
    uneven = renderer._uneven(kinds.reshape(2, 64), seen.reshape(2, 3, 64), 8).reshape(8, 8)
    assert sorted(map(tuple, np.argwhere(uneven).tolist())) == [(2, 3), (3, 2), (3, 3), (3, 4), (4, 3), (5, 5)]


def _evenly_lit(ground: bool = True) -> Surroundings:
    def sky(directions: np.ndarray) -> np.ndarray:
        return np.full((len(directions), 3), 0.5, np.float32)

    def grey(places: np.ndarray) -> np.ndarray:
        return np.full((len(places), 3), 0.4, np.float32)

    return Surroundings(
        sky=sky, ground=grey if ground else None, sun_direction=(0.6, 0.0, 0.8), sun=(2.0, 2.0, 2.0), haze=1e6
    )


def _grey_box(size: tuple[float, float, float], center: tuple[float, float, float]) -> Placed:
    from verism.simulator.model import Material, Model

    return Placed(Model.of([(box(size, center), Material((0.5, 0.5, 0.5), roughness=1.0))]), np.eye(4))


def test_what_lies_flat_on_the_ground_hides_it_without_holes():
    from verism.simulator.model import Material, Model
    from verism.simulator.shapes import plate

    flat = Placed(Model.of([(plate(2, 2), Material((0.9, 0.1, 0.1)))]), np.eye(4))
    camera = Camera(position=(0.0, -6.0, 2.0), target=(0.0, 0.0, 0.0))
    mask = render([flat], _evenly_lit(), camera, 64).mask
    corners = camera.project(np.array([[x, y, 0.0] for x in (-1, 1) for y in (-1, 1)]))[:, :2] * 64
    low, high = corners.min(axis=0), corners.max(axis=0)
    for row in range(int(low[1]) + 2, int(high[1]) - 1):
        covered = np.flatnonzero(mask[row])
        assert len(covered) == covered[-1] - covered[0] + 1
        assert len(covered) > 0.6 * (high[0] - low[0])


def test_a_box_on_the_ground_casts_a_shadow_and_dims_the_sky_beside_it():
    camera = Camera(position=(0.0, -8.0, 3.0), target=(0.0, 0.0, 0.4), fov=40.0)
    image = render([_grey_box((1, 1, 1), (0, 0, 0.5))], _evenly_lit(), camera, 128)
    empty = render([], _evenly_lit(), camera, 128)

    def at(x: float, y: float) -> tuple[int, int]:
        u, v, _ = camera.project(np.array([[x, y, 0.0]]))[0]
        return int(v * 128), int(u * 128)

    # The light comes from +x: the shadow of 1 m falls 0.75 m towards -x.
    shadow, lit_side, far = at(-0.9, 0.0), at(0.62, 0.0), at(2.6, 0.0)
    assert image.pixels[shadow][0] < 0.75 * empty.pixels[shadow][0]
    assert 0.75 * empty.pixels[lit_side][0] < image.pixels[lit_side][0] < empty.pixels[lit_side][0]
    assert image.pixels[far][0] == empty.pixels[far][0]


def test_even_surfaces_take_two_samples_and_borders_four(monkeypatch):
    camera = Camera(position=(0.0, -8.0, 3.0), target=(0.0, 0.0, 0.4), fov=40.0)
    cast = renderer._cast
    rays: list[int] = []

    def counted(stage, x, y, in_view):
        rays.append(len(in_view))
        return cast(stage, x, y, in_view)

    monkeypatch.setattr(renderer, "_cast", counted)
    image = render([_grey_box((3, 1, 2), (0, 0, 1))], _evenly_lit(), camera, 128)
    assert rays[:2] == [128 * 128] * 2
    assert 0 < rays[2] == rays[3] < 0.6 * (image.mask > 0).sum()
