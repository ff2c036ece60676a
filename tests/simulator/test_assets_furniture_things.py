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
CASES = [pytest.param(asset.label, state) for asset in ASSETS.values() for state in asset.states]
cases = pytest.mark.parametrize(("label", "state"), CASES)


@lru_cache
def built(label: str, state: str, seed: int) -> Model:
    return ASSETS[label].build(np.random.default_rng(seed), state)


def paintable_share(model: Model, yaw: float) -> float:
    """Share of the model's image that takes paint, seen from a little above at the given yaw (parallel rays)."""
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
def test_paint_covers_a_good_part_of_what_is_seen(label: str, state: str) -> None:
    # Yaws inside the recognisable ranges; 0.25 on the whole, and never next to nothing.
    yaws = [low + f * (high - low) for low, high in ASSETS[label].views for f in (0.3, 0.8)]
    for seed in SEEDS:
        shares = [paintable_share(built(label, state, seed), yaw) for yaw in yaws]
        assert np.mean(shares) > 0.25
        assert min(shares) > 0.1


@cases
def test_paint_reaches_the_model_and_leaves_the_rest(label: str, state: str) -> None:
    model = built(label, state, 0)
    painted = model.painted((0.5, 0.0, 0.5))
    changed = [a.material != b.material for a, b in zip(model.parts, painted.parts, strict=True)]
    assert any(changed)
    assert not all(changed)


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
        built("umbrella", "half", 0)


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
