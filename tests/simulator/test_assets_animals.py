from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from verism.simulator.assets.animals import ASSETS
from verism.simulator.model import Model

SEEDS = range(4)


@lru_cache
def built(label: str, state: str, seed: int) -> Model:
    return {asset.label: asset for asset in ASSETS}[label].build(np.random.default_rng(seed), state)


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
