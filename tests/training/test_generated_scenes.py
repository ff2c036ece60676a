"""Images of train prompts by the built-in generator: boxes, masks and colours of their objects."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verism.generators.layered import Description, Placed, compose, compose_with_owners
from verism.judges.detection.decode import box_iou
from verism.suites.paintskills.vocabulary import COLORS
from verism.training.generated_scenes import crowded, generate_train_scenes, shown_color
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
    assert [name for name in COLORS if shown_color(pixels, name) == name] == [color]
    assert {shown_color(pixels, name) for name in (*COLORS, None)} == {color}


def test_a_color_that_little_of_an_object_shows_is_not_its_color():
    pixels = np.array([PAINT["red"]] * 25 + [(20, 20, 20)] * 75)
    assert shown_color(pixels, "red") is None
    assert shown_color(np.array([PAINT["red"]] * 40 + [PAINT["blue"]] * 60), "red") is None


@pytest.mark.parametrize(
    ("rgb", "shown"),
    [
        ((60, 170, 200), "blue"),  # of a bird that was asked for in white
        ((235, 110, 90), "red"),
        ((230, 130, 30), None),  # orange
        ((40, 190, 170), None),  # turquoise
        ((210, 20, 120), None),  # magenta
        ((120, 70, 50), None),  # brown
        ((225, 150, 170), None),  # pink
        ((100, 100, 100), None),  # grey
    ],
)
def test_a_color_that_was_not_asked_for_is_known_where_it_is_clear(rgb: tuple[int, int, int], shown: str | None):
    pixels = np.array([rgb] * 60 + [(20, 20, 20)] * 40)
    assert shown_color(pixels, "white") == shown
    assert shown_color(pixels) == shown


def test_a_color_that_was_asked_for_may_be_weaker():
    dark_red = np.array([(120, 70, 50)] * 40 + [(30, 30, 30)] * 60)
    assert shown_color(dark_red, "red") == "red"
    assert shown_color(dark_red) is None


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


def test_objects_that_are_moved_together_touch_and_stay_in_the_image():
    rng = np.random.default_rng(3)
    for _ in range(200):
        sides = rng.uniform(0.1, 0.5, 4).tolist()
        objects = tuple(
            Placed(label=f"{k}", x=float(rng.uniform(side / 2, 1 - side / 2)), y=0.5, side=side, codes=(k,))
            for k, side in enumerate(sides)
        )
        before = Description(background="room", codes=(1, 2), objects=objects)
        after = crowded(before, rng)
        assert (after.background, after.codes, after.objects[0]) == ("room", (1, 2), objects[0])
        for k, (old, new) in enumerate(zip(objects, after.objects, strict=True)):
            assert (old.label, old.side, old.codes) == (new.label, new.side, new.codes)
            assert new.side / 2 <= new.x <= 1 - new.side / 2
            assert new.side / 2 <= new.y <= 1 - new.side / 2 or k == 0
            near = [
                max(abs(new.x - other.x), abs(new.y - other.y)) < (new.side + other.side) / 2
                for other in after.objects[:k]
            ]
            assert k == 0 or any(near)


def test_most_images_of_several_objects_show_them_together_and_each_by_two_fifths(tmp_path: Path):
    generate_train_scenes(tmp_path, suite="paintskills_v1", count=16, seed=6, size=96)
    arrays = load_scene_arrays([tmp_path], tmp_path / "cache", size=96)
    assert {len(target.labels) for target in arrays.targets} >= {1, 2}
    overlaps = [
        (box_iou(target.boxes, target.boxes) - np.eye(len(target.boxes))).max() > 0
        for target in arrays.targets
        if len(target.boxes) > 1
    ]
    assert np.mean(overlaps) > 0.4
    assert any("human" in scene["text"] or "bike" in scene["text"] for scene in _scenes(tmp_path))


def _scenes(root: Path) -> list[dict]:
    return [s for file in sorted(root.rglob("*_train.json")) for s in json.loads(file.read_text()).get("data", [])]


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
