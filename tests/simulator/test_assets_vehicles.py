"""Vehicles: what every model must hold, whatever its seed."""

from functools import cache

import numpy as np
import pytest

from verism.simulator.assets.vehicles import ASSETS, Arch, Station, Zone, _body, _cylinder, _rod
from verism.simulator.model import Asset, Model
from verism.simulator.renderer import _scene
from verism.simulator.shapes import Mesh, cylinder

SEEDS = (0, 1)
CASES = [pytest.param(asset, state, id=f"{asset.label}-{state}") for asset in ASSETS for state in asset.states]


@cache
def build(asset: Asset, state: str, seed: int) -> Model:
    return asset.build(np.random.default_rng(seed), state)


def area(mesh: Mesh) -> float:
    t = mesh.triangles.astype(float)
    return float(np.linalg.norm(np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]), axis=1).sum() / 2)


def test_the_classes_are_the_suites():
    labels = [asset.label for asset in ASSETS]
    assert labels == ["airplane", "bicycle", "boat", "bus", "car", "skateboard", "train", "van"]


@pytest.mark.parametrize(("asset", "state"), CASES)
def test_models_are_sound(asset, state):
    for seed in SEEDS:
        model = build(asset, state, seed)
        triangles = np.concatenate([p.mesh.triangles for p in model.parts]).astype(float)
        normals = np.concatenate([p.mesh.normals for p in model.parts]).astype(float)
        assert np.isfinite(triangles).all()
        assert np.isfinite(normals).all()
        assert 500 <= len(triangles) <= 9000
        low, high = model.bounds
        assert low[2] == pytest.approx(0, abs=0.004 * float((high - low).max()))
        assert np.linalg.norm(normals, axis=2) == pytest.approx(1, abs=1e-3)
        face = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
        agreement = np.einsum("fi,fi->f", face, normals.mean(axis=1))
        # Weighted by area: slivers at creases may have any smoothed normal, and nobody sees them.
        assert agreement.clip(max=0).sum() >= -0.01 * np.abs(agreement).sum()
        for material in (p.material for p in model.parts):
            assert all(0 <= c <= 1 for c in material.color)


@pytest.mark.parametrize(("asset", "state"), CASES)
def test_a_seed_decides_everything(asset, state):
    def shape(model: Model) -> tuple[bytes, ...]:
        return tuple(p.mesh.triangles.tobytes() + repr(p.material).encode() for p in model.parts)

    again = asset.build(np.random.default_rng(0), state)
    assert shape(again) == shape(build(asset, state, 0))
    assert shape(again) != shape(build(asset, state, 1))


@pytest.mark.parametrize(("asset", "state"), CASES)
def test_paint_covers_what_one_sees(asset, state):
    # Parallel rays from three sides and a little from above: the share of hits on body work is the visible share.
    hits = np.concatenate([paintable_hits(build(asset, state, seed), (20, 110, 200)) for seed in SEEDS])
    assert hits.mean() > 0.25


def paintable_hits(model: Model, yaws: tuple[float, ...]) -> np.ndarray:
    """For each ray that meets the model, whether it meets paint, bool (N,)."""
    scene = _scene(np.concatenate([p.mesh.triangles for p in model.parts]))
    paint = np.repeat([p.material.paintable for p in model.parts], [len(p.mesh) for p in model.parts])
    low, high = model.bounds
    reach = float(np.linalg.norm(high - low))
    u, v = np.meshgrid(np.linspace(-0.5, 0.5, 48), np.linspace(-0.5, 0.5, 48))
    results = []
    for turn in np.radians(yaws):
        towards = np.array([np.cos(turn) * 0.96, np.sin(turn) * 0.96, -0.28])
        right = np.array([np.sin(turn), -np.cos(turn), 0.0])
        plane = u.reshape(-1, 1) * right + v.reshape(-1, 1) * np.cross(right, towards)
        origin = (low + high) / 2 + plane * reach - towards * 2 * reach
        rays = np.broadcast_to(towards, origin.shape)
        face = scene.run(origin.astype(np.float32), rays.astype(np.float32), query="INTERSECT")
        results.append(paint[face[face >= 0]])
    return np.concatenate(results)


@pytest.mark.parametrize("asset", ASSETS, ids=lambda a: a.label)
def test_views_are_ranges_within_a_turn(asset):
    assert asset.views
    assert all(0 <= a < b <= 360 for a, b in asset.views)
    assert 0.5 < asset.size < 1.5


STATIONS = [Station(-2, 0.3, 1.0, 1.0, 0.95, 1.6, 0.8), Station(2, 0.3, 1.0, 1.0, 0.95, 1.6, 0.8)]


def test_body_of_even_stations_is_a_prism_with_closed_ends():
    meshes = _body(STATIONS)
    # The caps and the floor close the skin: the surface's directed areas cancel.
    t = np.concatenate([m.triangles for m in meshes.values()]).astype(float)
    total = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]).sum(axis=0)
    assert total == pytest.approx([0, 0, 0], abs=1e-4)
    # The floor lies between the sills: 4 m long, 2 * 0.955 * 1.0 m wide.
    assert area(meshes["under"]) == pytest.approx(4 * 2 * 0.955, rel=1e-5)
    assert float(meshes["front"].normals[:, 0, 0].min()) == pytest.approx(1)
    assert float(meshes["rear"].normals[:, 0, 0].max()) == pytest.approx(-1)


def test_a_body_reaches_its_outermost_stations_whatever_their_digits():
    ends = (-1.23456789, 4.3076605166)
    meshes = _body([STATIONS[0]._replace(x=ends[0]), STATIONS[1]._replace(x=ends[1])], [Zone("a", -9, 9, 5, 6)])
    for name in ("body", "a"):
        low, high = meshes[name].bounds
        assert (low[0], high[0]) == pytest.approx(ends, abs=1e-6)


def test_zones_cut_the_skin_where_they_say():
    meshes = _body(
        STATIONS, [Zone("door", -0.5, 0.7, 1, 4, -1), Zone("flap", -1, 0, 1, 4, 1), Zone("pane", 0, 1, 5, 6)]
    )
    low, high = meshes["door"].bounds
    assert (low[0], high[0]) == pytest.approx((-0.5, 0.7))
    assert high[1] < 0  # the right side only
    assert meshes["flap"].bounds[0][1] > 0  # the left one only
    low, high = meshes["pane"].bounds
    assert low[1] == pytest.approx(-high[1])
    assert 1.0 < low[2] < high[2] < 1.6


def test_an_arch_lifts_the_sill_over_its_wheel():
    under = _body(STATIONS, arches=[Arch(0.5, 0.3, 0.4)])["under"]
    heights = under.triangles.reshape(-1, 3)
    assert heights[:, 2].max() == pytest.approx(0.7, abs=1e-4)  # 0.3 + 0.4, at the arch's crown
    assert heights[np.abs(heights[:, 0] - 0.5) > 0.41][:, 2] == pytest.approx(0.3)


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_copied_cylinders_equal_made_ones(axis):
    ours, theirs = _cylinder(0.3, 1.2, 12, axis=axis), cylinder(0.3, 1.2, 12, axis=axis)
    assert np.allclose(ours.bounds, theirs.bounds, atol=0.02)
    assert area(ours) == pytest.approx(area(theirs), rel=1e-5)
    assert np.einsum("fi,fki->fk", ours.triangles.mean(axis=1), ours.normals).min() > 0


@pytest.mark.parametrize("end", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.5), (0.1, 0.0, 2.0)])
def test_a_rod_reaches_from_point_to_point(end):
    rod = _rod([(0.0, 0.0, 0.0), end], 0.05)
    axis = np.array(end) / np.linalg.norm(end)
    points = rod.triangles.reshape(-1, 3)
    ends = np.sort(points @ axis)
    assert np.linalg.norm(np.cross(points, axis), axis=1).max() == pytest.approx(0.05, rel=1e-4)
    assert ends[[0, -1]] == pytest.approx([0, np.linalg.norm(end)], abs=1e-5)
    assert np.einsum("fi,fki->fk", rod.triangles.mean(axis=1) - np.array(end) / 2, rod.normals).min() > 0
