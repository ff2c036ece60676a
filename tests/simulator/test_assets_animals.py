from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from verism.simulator.assets.animals import ASSETS
from verism.simulator.model import Model

SEEDS = range(4)
STATES_OF_ASSETS = [pytest.param(asset.label, state) for asset in ASSETS for state in asset.states]
CASES = [pytest.param(asset.label, state, seed) for asset in ASSETS for state in asset.states for seed in SEEDS]
cases = pytest.mark.parametrize(("label", "state", "seed"), CASES)


@lru_cache
def built(label: str, state: str, seed: int) -> Model:
    return build(label, state, seed)


def build(label: str, state: str, seed: int) -> Model:
    return {asset.label: asset for asset in ASSETS}[label].build(np.random.default_rng(seed), state)


def face_vectors(triangles: np.ndarray) -> np.ndarray:
    """Face normals whose length is twice the face's area."""
    corners = triangles.astype(np.float64)
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def signed_volume(triangles: np.ndarray) -> float:
    """Volume enclosed, about the middle of the mesh: negative where faces look inwards."""
    corners = triangles.astype(np.float64) - triangles.reshape(-1, 3).mean(axis=0)
    return float(np.einsum("fi,fi->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6)


@cases
def test_a_seed_gives_the_same_model(label: str, state: str, seed: int) -> None:
    first, second = built(label, state, seed), build(label, state, seed)
    assert [part.material for part in first.parts] == [part.material for part in second.parts]
    for a, b in zip(first.parts, second.parts, strict=True):
        np.testing.assert_array_equal(a.mesh.triangles, b.mesh.triangles)


@pytest.mark.parametrize(("label", "state"), STATES_OF_ASSETS)
def test_seeds_give_different_models(label: str, state: str) -> None:
    extents = {tuple(np.round(np.subtract(*built(label, state, seed).bounds), 6)) for seed in SEEDS}
    assert len(extents) == len(SEEDS)


@cases
def test_model_is_finite_and_stands_on_the_ground(label: str, state: str, seed: int) -> None:
    model = built(label, state, seed)
    for part in model.parts:
        assert np.isfinite(part.mesh.triangles).all()
        assert np.isfinite(part.mesh.normals).all()
    assert model.bounds[0][2] == pytest.approx(0.0, abs=1e-4)


@cases
def test_triangle_count_is_within_budget(label: str, state: str, seed: int) -> None:
    assert 500 <= sum(len(part.mesh) for part in built(label, state, seed).parts) <= 9000


@cases
def test_normals_are_unit_and_look_outwards(label: str, state: str, seed: int) -> None:
    for part in built(label, state, seed).parts:
        np.testing.assert_allclose(np.linalg.norm(part.mesh.normals, axis=2), 1.0, atol=1e-3)
        along = np.einsum("fi,fki->fk", face_vectors(part.mesh.triangles), part.mesh.normals.astype(np.float64))
        assert along.mean() > 0
        assert (along > 0).mean() > 0.9  # skirts and tails may fold where they bend sharply
        assert signed_volume(part.mesh.triangles) > 0


@cases
def test_a_good_share_of_the_surface_takes_paint(label: str, state: str, seed: int) -> None:
    model = built(label, state, seed)
    area = [np.linalg.norm(face_vectors(part.mesh.triangles), axis=1).sum() for part in model.parts]
    painted = sum(a for a, part in zip(area, model.parts, strict=True) if part.material.paintable)
    assert painted / sum(area) > 0.25


@cases
def test_colours_are_in_range(label: str, state: str, seed: int) -> None:
    for part in built(label, state, seed).parts:
        second = part.material.pattern.color if part.material.pattern else part.material.color
        assert all(0 <= channel <= 1 for channel in (*part.material.color, *second))


def test_views_are_ranges_of_at_most_a_turn() -> None:
    for asset in ASSETS:
        assert all(low < high for low, high in asset.views)
        assert sum(high - low for low, high in asset.views) <= 360


def test_classes_and_states() -> None:
    states = {asset.label: asset.states for asset in ASSETS}
    assert states == {"dog": ("standing", "sitting"), "bear": ("standing", "upright"), "bird": ("flying", "perched")}


@pytest.mark.parametrize("seed", SEEDS)
def test_poses_change_the_outline(seed: int) -> None:
    def extent(label: str, state: str) -> np.ndarray:
        low, high = built(label, state, seed).bounds
        return high - low

    assert extent("bear", "upright")[2] > 1.2 * extent("bear", "upright")[0]
    assert extent("bear", "standing")[0] > 1.2 * extent("bear", "standing")[2]
    assert extent("bird", "flying")[1] > 0.9 * extent("bird", "flying")[2]  # wings
    # A bear is much bulkier than a dog: width over height.
    assert extent("bear", "standing")[1] / extent("bear", "standing")[2] > 0.6
    assert extent("dog", "standing")[1] / extent("dog", "standing")[2] < 0.6
