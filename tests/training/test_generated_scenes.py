"""Images of train prompts by the built-in generator: boxes, masks and colours of their objects."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verism.generators.layered import Placed, compose, compose_with_owners
from verism.suites.paintskills.vocabulary import COLORS
from verism.training.generated_scenes import generate_train_scenes, shows_color
from verism.training.scene_arrays import extent, load_scene_arrays

PAINT = {
    "red": (200, 20, 20),
    "blue": (30, 40, 200),
    "yellow": (220, 190, 30),
    "white": (220, 220, 225),
    "purple": (130, 20, 150),
    "green": (20, 130, 30),
}


@pytest.mark.parametrize("color", COLORS)
def test_a_paint_has_its_own_name_and_no_other(color: str):
    dark = tuple(v // 2 + 25 for v in PAINT[color])
    pixels = np.array([PAINT[color]] * 50 + [dark] * 10 + [(20, 20, 20)] * 40)
    assert [name for name in COLORS if shows_color(pixels, name)] == [color]


def test_a_color_that_little_of_an_object_shows_is_not_its_color():
    pixels = np.array([PAINT["red"]] * 25 + [(20, 20, 20)] * 75)
    assert not shows_color(pixels, "red")
    assert not shows_color(np.array([PAINT["red"]] * 40 + [PAINT["blue"]] * 60), "red")


def test_owners_are_what_is_seen_of_layers():
    # Two opaque squares without shadow; the second stands lower and hides part of the first.
    figures = np.zeros((2, 8, 8, 5), dtype=np.float32)
    figures[..., 3] = 1
    figures[0, ..., 0], figures[1, ..., 2] = 1, 1
    objects = [Placed(label="a", x=0.4, y=0.4, side=0.4, codes=()), Placed(label="b", x=0.6, y=0.6, side=0.4, codes=())]
    scenery = np.full((4, 4, 3), 0.5, dtype=np.float32)
    pixels, owners, alone = compose_with_owners(scenery, figures, objects, 40, 1.0)
    np.testing.assert_array_equal(pixels, compose(scenery, figures, objects, 40, 1.0))
    assert extent(owners == 2) == (16, 16, 32, 32)
    assert extent(owners == 1) == (8, 8, 24, 24)
    np.testing.assert_array_equal(alone, [256, 256])
    assert (owners == 1).sum() == 256 - 64
    assert (pixels[owners == 1] == (255, 0, 0)).all()
    assert (pixels[owners == 2] == (0, 0, 255)).all()


def test_generated_images_are_a_data_set(tmp_path: Path):
    lines: list[str] = []
    generate_train_scenes(tmp_path / "P", count=8, seed=5, size=128, say=lines.append)
    arrays = load_scene_arrays([tmp_path / "P"], tmp_path / "cache", size=128)
    assert sorted(set(arrays.skills)) == ["color", "count", "object", "spatial"]
    assert set(arrays.splits) == {"train"}
    assert arrays.masks is not None
    for i, target in enumerate(arrays.targets):
        assert len(target.labels) >= 1
        for k, box in enumerate(target.boxes.tolist()):
            assert extent(arrays.masks[i] == k + 1) == tuple(box)
    texts = json.loads((tmp_path / "P" / "spatial" / "scenes" / "spatial_train.json").read_text())["data"]
    assert all(len(scene["objects"]) == 2 for scene in texts)
    files = sorted((tmp_path / "P").rglob("*.png"))
    assert Image.open(files[0]).size == (128, 128)
    before = {f: f.stat().st_mtime_ns for f in files}
    generate_train_scenes(tmp_path / "P", count=8, seed=5, size=128, say=lines.append)
    assert {f: f.stat().st_mtime_ns for f in sorted((tmp_path / "P").rglob("*.png"))} == before
    assert sum("generating" in line for line in lines) == 4
