"""What every model of an animal, a person, furniture and a thing must hold, whatever its state and seed."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from verism.simulator.assets import animals, furniture, people, things
from verism.simulator.model import Asset, Model

SEEDS = range(3)
ROUND = (*animals.ASSETS, *people.ASSETS)  # bodies of closed meshes; furniture and things have open sheets
ASSETS = (*ROUND, *furniture.ASSETS, *things.ASSETS)


def each_state(assets: tuple[Asset, ...]) -> pytest.MarkDecorator:
    rows = [pytest.param(asset, state, id=f"{asset.label}-{state}") for asset in assets for state in asset.states]
    return pytest.mark.parametrize(("asset", "state"), rows)


@cache
def built(asset: Asset, state: str) -> list[Model]:
    return [asset.build(np.random.default_rng(seed), state) for seed in SEEDS]


def face_vectors(triangles: np.ndarray) -> np.ndarray:
    """Face normals whose length is twice the face's area."""
    corners = triangles.astype(np.float64)
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def signed_volume(triangles: np.ndarray) -> float:
    """Volume enclosed, about the middle of the mesh: negative where faces look inwards."""
    corners = triangles.astype(np.float64) - triangles.reshape(-1, 3).mean(axis=0)
    return float(np.einsum("fi,fi->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6)


@each_state(ASSETS)
def test_asset_built_twice_from_a_seed_is_the_same(asset: Asset, state: str) -> None:
    for seed, first in zip(SEEDS, built(asset, state), strict=True):
        second = asset.build(np.random.default_rng(seed), state)
        assert [part.material for part in first.parts] == [part.material for part in second.parts]
        for a, b in zip(first.parts, second.parts, strict=True):
            np.testing.assert_array_equal(a.mesh.triangles, b.mesh.triangles)


@each_state(ASSETS)
def test_asset_of_another_seed_has_another_extent(asset: Asset, state: str) -> None:
    extents = {tuple(np.round(np.subtract(*model.bounds), 6)) for model in built(asset, state)}
    assert len(extents) == len(SEEDS)


@each_state(ASSETS)
def test_asset_is_finite_stands_on_the_ground_and_keeps_to_the_budget(asset: Asset, state: str) -> None:
    for model in built(asset, state):
        for part in model.parts:
            assert np.isfinite(part.mesh.triangles).all()
            assert np.isfinite(part.mesh.normals).all()
        assert model.bounds[0][2] == pytest.approx(0.0, abs=1e-4 if asset in ROUND else 1e-5)
        assert (500 if asset in ROUND else 300) <= sum(len(part.mesh) for part in model.parts) <= 9000


@each_state(ASSETS)
def test_asset_normals_are_unit_and_look_outwards(asset: Asset, state: str) -> None:
    for part in (part for model in built(asset, state) for part in model.parts):
        np.testing.assert_allclose(np.linalg.norm(part.mesh.normals, axis=2), 1.0, atol=1e-3)
        along = np.einsum("fi,fki->fk", face_vectors(part.mesh.triangles), part.mesh.normals.astype(np.float64))
        assert along.mean() > 0
        if asset in ROUND:
            assert (along > 0).mean() > 0.9  # skirts and tails may fold where they bend sharply
            assert signed_volume(part.mesh.triangles) > 0
        else:
            assert (along >= 0).mean() > 0.9


@each_state(ROUND)
def test_asset_surface_takes_paint_on_a_quarter(asset: Asset, state: str) -> None:
    for model in built(asset, state):
        area = [np.linalg.norm(face_vectors(part.mesh.triangles), axis=1).sum() for part in model.parts]
        painted = sum(a for a, part in zip(area, model.parts, strict=True) if part.material.paintable)
        assert painted / sum(area) > 0.25


@each_state(ASSETS)
def test_asset_colours_are_in_range(asset: Asset, state: str) -> None:
    for part in (part for model in built(asset, state) for part in model.parts):
        second = part.material.pattern.color if part.material.pattern else part.material.color
        assert all(0 <= channel <= 1 for channel in (*part.material.color, *second))


@pytest.mark.parametrize("asset", ASSETS, ids=lambda asset: asset.label)
def test_asset_views_are_ranges_of_at_most_a_turn(asset: Asset) -> None:
    assert all(low < high for low, high in asset.views)
    assert sum(high - low for low, high in asset.views) <= 360
