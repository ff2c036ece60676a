"""The colour rule, on plain colours and on rendered objects of seeds that its calibration never used."""

import numpy as np
import pytest

from verism.metrics.named_colours import COLORS, PROTOTYPES, color_shares, dominant_color
from verism.records import Scene, SceneObject
from verism.simulator.scene_renderer import SceneRenderer

PLAIN = {
    "red": (210, 20, 20), "orange": (240, 130, 20), "yellow": (250, 225, 30), "green": (20, 140, 40),
    "blue": (20, 40, 210), "purple": (120, 20, 140), "pink": (245, 130, 175), "brown": (100, 60, 35),
    "black": (15, 15, 15), "white": (245, 245, 245),
}  # fmt: skip


@pytest.mark.parametrize("color", COLORS)
def test_plain_colour_is_named(color):
    pixels = np.tile(np.array(PLAIN[color], dtype=np.uint8), (50, 1))
    shares = color_shares(pixels)
    assert shares[COLORS.index(color)] == 1.0
    assert dominant_color(shares, COLORS) == color


@pytest.mark.parametrize("color", COLORS)
def test_painted_objects_in_several_lights_are_named(color):
    named = []
    for number, (label, place) in enumerate(
        [("car", "meadow"), ("suitcase", "living_room"), ("solid", "beach"), ("bicycle", "city_plaza")]
    ):
        obj = SceneObject(shape="solid:ball", label=label, color=color)
        seed = 77_000 + number  # calibration: benchmarks/colour_rule.py, seeds from 10^11 on
        scene = Scene(
            scene_id="s", skill="color", split="val", text="", background=place, objects=(obj,), seed=seed
        )  # fmt: skip
        rendered = SceneRenderer(96).render(scene)
        named.append(dominant_color(color_shares(rendered.pixels[rendered.mask == 1]), COLORS))
    assert named.count(color) >= 3, named


def test_shares_of_colours_not_asked_about_are_left_out():
    pixels = np.array([PLAIN["red"]] * 3 + [PLAIN["blue"]], dtype=np.uint8)
    assert color_shares(pixels, ("blue", "green")).tolist() == [0.25, 0.0]
    assert color_shares(pixels, ("red",)).tolist() == [0.75]


def test_nothing_has_no_colour():
    assert color_shares(np.zeros((0, 3)), ("red", "blue")).tolist() == [0.0, 0.0]
    assert dominant_color([0.0, 0.0], ("red", "blue")) is None
    assert dominant_color([], ()) is None


def test_many_pixels_are_thinned_out_evenly():
    pixels = np.repeat(np.array([PLAIN["red"], PLAIN["blue"]], dtype=np.uint8), 30_000, axis=0)
    assert color_shares(pixels, ("red", "blue")) == pytest.approx([0.5, 0.5], abs=1e-3)


def test_unknown_colours_and_shapes_are_refused():
    with pytest.raises(ValueError, match=r"unknown colours \['mauve'\]"):
        color_shares(np.zeros((2, 3)), ("mauve",))
    with pytest.raises(ValueError, match=r"shape \(N, 3\)"):
        color_shares(np.zeros((2, 2, 3)))


def test_every_colour_has_prototypes():
    assert set(PROTOTYPES) == set(COLORS)
    assert all(len(centre) == 3 for centres in PROTOTYPES.values() for centre in centres)
