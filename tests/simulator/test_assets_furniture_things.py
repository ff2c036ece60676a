from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from embreex import rtcore_scene
from embreex.mesh_construction import TriangleMesh

from verism.simulator.assets import furniture, things
from verism.simulator.model import Model

ASSETS = {asset.label: asset for asset in (*furniture.ASSETS, *things.ASSETS)}
SEEDS = range(3)
STATES = [pytest.param(asset.label, state) for asset in ASSETS.values() for state in asset.states]
CASES = [
    pytest.param(asset.label, state, seed) for asset in ASSETS.values() for state in asset.states for seed in SEEDS
]
cases = pytest.mark.parametrize(("label", "state", "seed"), CASES)


def build(label: str, state: str, seed: int) -> Model:
    return ASSETS[label].build(np.random.default_rng(seed), state)


@lru_cache
def built(label: str, state: str, seed: int) -> Model:
    return build(label, state, seed)


def face_vectors(triangles: np.ndarray) -> np.ndarray:
    """Face normals whose length is twice the face's area."""
    corners = triangles.astype(np.float64)
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def paintable_share(model: Model, yaw: float) -> float:
    """Share of the model's picture that takes paint, seen from a little above at the given yaw (parallel rays)."""
    scene = rtcore_scene.EmbreeScene()
    TriangleMesh(scene, np.ascontiguousarray(np.concatenate([p.mesh.triangles for p in model.parts])))
    paintable = np.repeat([p.material.paintable for p in model.parts], [len(p.mesh) for p in model.parts])
    low, high = model.bounds
    centre, reach = (low + high) / 2, float(np.linalg.norm(high - low)) / 2
    # The camera looks along +y where yaw is 0; turning the model by yaw is turning the camera by -yaw.
    turn, pitch = math.radians(90 - yaw), math.radians(15)
    forward = np.array([math.cos(turn) * math.cos(pitch), math.sin(turn) * math.cos(pitch), -math.sin(pitch)])
    right = np.array([math.sin(turn), -math.cos(turn), 0.0])
    up = np.cross(right, forward)
    u, v = (a.ravel()[:, None] for a in np.meshgrid(np.linspace(-reach, reach, 40), np.linspace(-reach, reach, 40)))
    origin = (centre - 3 * reach * forward + u * right + v * up).astype(np.float32)
    direction = np.broadcast_to(forward, origin.shape).astype(np.float32)
    hit = scene.run(origin, np.ascontiguousarray(direction), query="INTERSECT")
    return float(paintable[hit[hit >= 0]].mean())


def test_classes_and_states() -> None:
    assert {label: asset.states for label, asset in ASSETS.items()} == {
        **dict.fromkeys(("chair", "dining table", "bench", "bed", "potted plant"), ("default",)),
        **dict.fromkeys(("backpack", "suitcase", "fire hydrant", "stop sign", "traffic light"), ("default",)),
        "umbrella": ("open", "closed"),
    }


@cases
def test_a_seed_gives_the_same_model(label: str, state: str, seed: int) -> None:
    first, second = built(label, state, seed), build(label, state, seed)
    assert [part.material for part in first.parts] == [part.material for part in second.parts]
    for a, b in zip(first.parts, second.parts, strict=True):
        np.testing.assert_array_equal(a.mesh.triangles, b.mesh.triangles)


@pytest.mark.parametrize(("label", "state"), STATES)
def test_seeds_give_different_models(label: str, state: str) -> None:
    extents = {tuple(np.round(np.subtract(*built(label, state, seed).bounds), 6)) for seed in SEEDS}
    assert len(extents) == len(SEEDS)


@cases
def test_model_is_finite_stands_on_the_ground_and_keeps_to_the_budget(label: str, state: str, seed: int) -> None:
    model = built(label, state, seed)
    for part in model.parts:
        assert np.isfinite(part.mesh.triangles).all()
    assert model.bounds[0][2] == pytest.approx(0.0, abs=1e-5)
    assert 300 <= sum(len(part.mesh) for part in model.parts) <= 9000


@cases
def test_normals_are_unit_and_look_outwards(label: str, state: str, seed: int) -> None:
    for part in built(label, state, seed).parts:
        np.testing.assert_allclose(np.linalg.norm(part.mesh.normals, axis=2), 1.0, atol=1e-3)
        along = np.einsum("fi,fki->fk", face_vectors(part.mesh.triangles), part.mesh.normals.astype(np.float64))
        assert along.mean() > 0
        assert (along >= 0).mean() > 0.9


@cases
def test_paint_covers_a_good_part_of_what_is_seen(label: str, state: str, seed: int) -> None:
    model, views = built(label, state, seed), ASSETS[label].views
    # Yaws inside the recognisable ranges; 0.25 on the whole, and never next to nothing.
    yaws = [low + f * (high - low) for low, high in views for f in (0.3, 0.8)]
    shares = [paintable_share(model, yaw) for yaw in yaws]
    assert np.mean(shares) > 0.25
    assert min(shares) > 0.1


@cases
def test_paint_reaches_the_model_and_leaves_the_rest(label: str, state: str, seed: int) -> None:
    model = built(label, state, seed)
    painted = model.painted((0.5, 0.0, 0.5))
    changed = [a.material != b.material for a, b in zip(model.parts, painted.parts, strict=True)]
    assert any(changed)
    assert not all(changed)


@cases
def test_colours_are_in_range(label: str, state: str, seed: int) -> None:
    for part in built(label, state, seed).parts:
        second = part.material.pattern.color if part.material.pattern else part.material.color
        assert all(0 <= channel <= 1 for channel in (*part.material.color, *second))


def test_views_are_ranges_of_at_most_a_turn() -> None:
    for asset in ASSETS.values():
        assert all(low < high for low, high in asset.views)
        assert sum(high - low for low, high in asset.views) <= 360


@pytest.mark.parametrize("seed", SEEDS)
def test_proportions_keep_alike_classes_apart(seed: int) -> None:
    def extent(label: str, state: str = "default") -> np.ndarray:
        low, high = built(label, state, seed).bounds
        return high - low

    # A chair is taller than wide, a bench at least 1.4 times as wide as high.
    assert extent("chair")[2] > extent("chair")[1]
    assert extent("bench")[1] > 1.4 * extent("bench")[2]
    # A closed umbrella is a stick, an open one is wide.
    assert extent("umbrella", "closed")[2] > 1.7 * extent("umbrella", "closed")[:2].max()
    assert extent("umbrella", "open")[:2].max() > 0.8 * extent("umbrella", "open")[2]


def test_an_unknown_umbrella_state_is_refused() -> None:
    with pytest.raises(ValueError, match="'half' is not known; use 'open' or 'closed'"):
        build("umbrella", "half", 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_lamp_of_a_signal_head_is_lit(seed: int) -> None:
    lamps = [part for part in built("traffic light", "default", seed).parts if part.material.emission > 0]
    # One per head: one head, or two at a right angle.
    assert len(lamps) in (1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_stop_letters_stand_before_a_dark_backing(seed: int) -> None:
    # White letters on a plate painted white would vanish; each is drawn over a wider dark stroke.
    parts = built("stop sign", "default", seed).parts
    plate = next(p for p in parts if p.material.paintable)
    front = float(plate.mesh.bounds[1][0])
    ahead = sorted((p for p in parts if float(p.mesh.bounds[0][0]) > front), key=lambda p: float(p.mesh.bounds[1][0]))
    backing, letters = ahead[-2:]
    assert sum(backing.material.color) < 1.0
    assert sum(letters.material.color) > 2.5
    assert (backing.mesh.bounds[1] - backing.mesh.bounds[0])[1] > (letters.mesh.bounds[1] - letters.mesh.bounds[0])[1]
    assert (letters.mesh.normals[..., 0] > 0.99).all()  # they look the way the sign faces
