"""What the files of this folder share: arithmetic in float32 or by one thread, a few rendered scenes, their layers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from float_arithmetic import in_float32

from verism.simulator.scene_renderer import SceneRenderer
from verism.suites.paintskills.rendering import render_scenes
from verism.suites.paintskills.suite import PaintSkills
from verism.training.scene_layers import Layers, load_layers


@pytest.fixture
def float32() -> Iterator[None]:
    with in_float32():
        yield


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums of the same order whatever the number of cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve train scenes with masks, small."""
    root = tmp_path_factory.mktemp("scenes")
    suite = PaintSkills.standard(skills=("object", "count", "spatial"), split="train", limit=12, seed=3)
    painter = SceneRenderer(96)
    assert render_scenes(root, suite.version, suite.scenes, painter, 96, seed=3, masks=True) == 0
    return root


@pytest.fixture(scope="session")
def layers(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Layers:
    return load_layers([scenes], tmp_path_factory.mktemp("cache"))
