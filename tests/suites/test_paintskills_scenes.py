"""Scenes and words of PaintSkills against the published lists, sizes and orders.

Sources: arXiv:2202.04053v1 (four skills, 21 classes), the ICCV 2023 version (three skills, 15 classes), and the
metadata and configuration files released with them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache

import pytest

from verism.records import Scene
from verism.suites.paintskills import scenes as scenes_module
from verism.suites.paintskills.scenes import (
    build_scenes,
    expected_of,
    facets_of,
    factor_counts,
    prompt_of,
    sample_scenes,
    scene_seed,
    split_of,
    spread,
)
from verism.suites.paintskills.vocabulary import VERSIONS, class_of_shape, plural, version, with_article

V1, V2 = VERSIONS["paintskills-v1"], VERSIONS["paintskills"]

# The 21 classes of v1 in the order of their ids: name in scene files, name in prompts, COCO name, COCO id.
V1_CLASSES = """
human/human/person/1 airplane/airplane/airplane/5 bike/bike/bicycle/2 bus/bus/bus/6 dog/dog/dog/18 boat/boat/boat/9
van/van/car/3 train/train/train/7 fireHydrant/fire_hydrant/fire_hydrant/11 stopSign/stop_sign/stop_sign/13
backpack/backpack/backpack/27 chair/chair/chair/62 diningTable/dining_table/dining_table/67
skateboard/skateboard/skateboard/41 bench/bench/bench/15 suitcase/suitcase/suitcase/33
trafficLight/traffic_light/traffic_light/10 bird/bird/bird/16 bear/bear/bear/23 bed/bed/bed/65
pottedPlant/potted_plant/potted_plant/64
"""
V1_NAMES = [entry.replace("_", " ").split("/") for entry in V1_CLASSES.split()]
V1_NOUNS = [prompt for _, prompt, _, _ in V1_NAMES]
# Order of the released metadata; appendix A.1 of arXiv v1 prints maroon for white.
V1_COLORS = ["red", "blue", "yellow", "white", "purple", "green"]
V1_PHRASES = {"left": "left to", "right": "right to", "above": "above", "below": "below"}

# Of the fifteen classes of the ICCV version, those named in the paper, and their COCO ids.
V2_STATED = {"person": 1, "dog": 18, "airplane": 5, "bicycle": 2, "car": 3, "umbrella": 28}
V2_PROBABLE = {"suitcase": 33, "stop sign": 13}


# -------------------------------------------------------------------------------------------------------------- sizes
@dataclass(frozen=True)
class Summary:
    """What is left of a set of scenes: full training sets are too many to keep."""

    n: int
    cells: Mapping[tuple[Hashable, ...], int]
    texts: Mapping[tuple[Hashable, ...], int]
    backgrounds: Mapping[str, int]
    seeds: frozenset[int]
    ids_in_order: bool


@cache
def summary(name: str, skill: str, split: str) -> Summary:
    scenes = build_scenes(VERSIONS[name], skill, split)
    (cells,) = factor_counts(scenes).values()
    return Summary(
        n=len(scenes),
        cells=cells,
        texts=Counter(
            (s.text, *(o.label for o in s.objects), s.objects[-1].relation, s.objects[0].color) for s in scenes
        ),
        backgrounds=Counter(s.background for s in scenes),
        seeds=frozenset(s.seed for s in scenes),
        ids_in_order=all(
            (s.scene_id, s.skill, s.split) == (f"{skill}_{split}_{i:05d}", skill, split) for i, s in enumerate(scenes)
        ),
    )


# Published numbers of scenes, and the factors they are made of.
SIZES = [
    ("paintskills-v1", "object", 21, 21_000, 1_050),
    ("paintskills-v1", "count", 21 * 4, 25_200, 2_520),
    ("paintskills-v1", "color", 21 * 6, 25_200, 2_520),
    # The paper prints 28,244 for train, a misprint: 21 x 21 x 4 x 16 = 28,224.
    ("paintskills-v1", "spatial", 21 * 21 * 4, 28_224, 3_528),
    ("paintskills", "object", 15, 23_250, 2_325),
    ("paintskills", "count", 15 * 4, 21_600, 2_160),
    ("paintskills", "spatial", 15 * 15 * 4, 13_500, 2_700),
    # Not published: the ICCV version has no colours. 15 x 6 cells, two templates.
    ("paintskills", "color", 15 * 6, 18_000, 1_800),
]


@pytest.mark.parametrize(("name", "skill", "cells", "train", "val"), SIZES, ids=[f"{s[0]}-{s[1]}" for s in SIZES])
def test_published_sizes_with_every_cell_equally_often(name, skill, cells, train, val):
    n_templates = len(VERSIONS[name].templates[skill])
    for split, n in (("train", train), ("val", val)):
        result = summary(name, skill, split)
        assert result.n == n
        assert len(result.cells) == cells
        assert set(result.cells.values()) == {n // cells}
        # Each template equally often in each cell.
        assert len(result.texts) == cells * n_templates
        assert set(result.texts.values()) == {n // cells // n_templates}
        assert len(result.backgrounds) == len(VERSIONS[name].backgrounds)
        assert max(result.backgrounds.values()) - min(result.backgrounds.values()) <= 1
        assert result.ids_in_order
        assert len(result.seeds) == n
    assert not summary(name, skill, "train").seeds & summary(name, skill, "val").seeds


def test_versions_have_the_published_skills():
    assert V1.skills == ("object", "count", "color", "spatial")
    assert V1.optional_skills == ()
    assert V2.skills == ("object", "count", "spatial")
    assert V2.optional_skills == ("color",)


def test_spatial_holds_all_ordered_pairs_and_equal_classes():
    cells = summary("paintskills-v1", "spatial", "val").cells
    labels = V1.labels
    assert set(cells) == set(itertools.product(labels, labels, ("left", "right", "above", "below")))


# ----------------------------------------------------------------------------------------------------------------- v1
def test_v1_classes_in_the_order_of_their_ids():
    assert [c.shape for c in V1.classes] == [shape for shape, _, _, _ in V1_NAMES]
    assert [c.prompt for c in V1.classes] == V1_NOUNS
    assert [c.coco_id for c in V1.classes] == [int(coco_id) for _, _, _, coco_id in V1_NAMES]
    # Labels are COCO's names, but for the van, which COCO files under car.
    assert [{"van": "car"}.get(c.label, c.label) for c in V1.classes] == [coco for _, _, coco, _ in V1_NAMES]
    # The only poses the v1 simulator used.
    states = {c.shape: c.state for c in V1.classes if c.state is not None}
    assert states == {"human": "sitting", "dog": "standing", "bird": "flying", "bear": "standing"}


@cache
def v1_val(skill: str) -> list[Scene]:
    return build_scenes(V1, skill, "val")


# Enumeration: template, repeat, then the factor, then the class (for pairs A, then B); no article, digits, no plural.
@pytest.mark.parametrize(
    ("skill", "repeats", "texts"),
    [
        ("object", 50, [f"a photo of {a}" for a in V1_NOUNS]),
        ("count", 30, [f"a photo of {n} {a}" for n in (1, 2, 3, 4) for a in V1_NOUNS]),
        ("color", 20, [f"a photo of {c} {a}" for c in V1_COLORS for a in V1_NOUNS]),
        (
            "spatial",
            2,
            [
                f"a photo of {a} and {b}; {b} is {r} {a}"
                for r in V1_PHRASES.values()
                for a in V1_NOUNS
                for b in V1_NOUNS
            ],
        ),
    ],
)
def test_v1_prompts_exactly_and_in_order(skill, repeats, texts):
    assert [s.text for s in v1_val(skill)] == texts * repeats


def test_v1_prompts_read_as_published():
    # Index of the first repeat: count value 2 is row 1, airplane column 1; fire hydrant is class 8.
    assert v1_val("count")[1 * 21 + 1].text == "a photo of 2 airplane"
    assert v1_val("object")[8].text == "a photo of fire hydrant"
    # Relation above is row 2; A = bus (3), B = dog (4).
    scene = v1_val("spatial")[2 * 441 + 3 * 21 + 4]
    assert scene.text == "a photo of bus and dog; dog is above bus"
    assert [(o.shape, o.relation) for o in scene.objects] == [("bus", None), ("dog", "above_0")]
    assert scene.scene_id == f"spatial_val_{2 * 441 + 3 * 21 + 4:05d}"
    assert {s.background for s in v1_val("spatial")} == {"empty"}


def test_v1_scenes_show_what_their_prompts_say():
    scene = v1_val("count")[3 * 21 + 0]
    assert scene.text == "a photo of 4 human"
    assert [o.shape for o in scene.objects] == ["human"] * 4
    assert all(o.state == "sitting" and o.color == "plain" for o in scene.objects)
    scene = v1_val("color")[4 * 21 + 2]
    assert scene.text == "a photo of purple bike"
    assert [(o.shape, o.label, o.color, o.texture) for o in scene.objects] == [("bike", "bicycle", "purple", "pure")]


# --------------------------------------------------------------------------------------------------------------- ICCV
def test_v2_classes():
    coco = {c.label: c.coco_id for c in V2.classes}
    assert len(coco) == len(V2.classes) == 15
    assert coco.items() >= (V2_STATED | V2_PROBABLE).items()
    # The released map of names could not look these up.
    assert not {"van", "diningTable"} & {c.shape for c in V2.classes}
    # The others are classes of v1, with the same COCO ids.
    v1 = {coco_name: int(coco_id) for _, _, coco_name, coco_id in V1_NAMES}
    assert coco.items() <= (v1 | V2_STATED).items()
    assert all(c.prompt == c.label for c in V2.classes)
    assert len(set(V2.backgrounds)) == len(V2.backgrounds) == 13


# Examples printed in the ICCV paper and in the released scene files.
@pytest.mark.parametrize(
    ("skill", "text"),
    [
        ("object", "bicycle"),
        ("object", "a dog"),
        ("object", "a photo of dog"),
        ("count", "1 person"),
        ("count", "3 dogs"),
        ("count", "2 bicycles"),
        ("count", "a photo of 4 buses"),
        ("spatial", "dog is left to bus"),
        ("spatial", "there are 2 objects. one is dog and the other is bus; the bus is right to the dog"),
    ],
)
def test_v2_prompts_that_are_known(skill, text):
    scenes = [s for s in build_scenes(V2, skill, "val") if s.text == text]
    assert scenes
    expected = expected_of(scenes[0])
    if skill == "count":
        assert len(expected.labels) == int(next(c for c in text if c.isdigit()))
    if text.startswith("dog is left"):
        assert (expected.labels, expected.relation) == (("bus", "dog"), "left")
    if text.startswith("there are"):
        assert (expected.labels, expected.relation) == (("dog", "bus"), "right")


@pytest.mark.parametrize(
    ("noun", "many"),
    [("dog", "dogs"), ("bus", "buses"), ("bench", "benches"), ("person", "persons"), ("fire hydrant", "fire hydrants")],
)
def test_plural(noun, many):
    assert plural(noun) == many


@pytest.mark.parametrize("words", ["a dog", "an airplane", "an umbrella", "a unicorn", "a bus", "a stop sign"])
def test_with_article(words):
    assert with_article(words.partition(" ")[2]) == words


# -------------------------------------------------------------------------------------------------------------- seeds
def test_another_seed_asks_the_same_prompts_of_other_images():
    zero, one = build_scenes(V2, "spatial", "val", seed=0), build_scenes(V2, "spatial", "val", seed=1)
    assert [(s.scene_id, s.text) for s in zero] == [(s.scene_id, s.text) for s in one]
    assert [expected_of(s) for s in zero] == [expected_of(s) for s in one]
    assert not {s.seed for s in zero} & {s.seed for s in one}
    assert [s.background for s in zero] != [s.background for s in one]
    assert zero == build_scenes(V2, "spatial", "val", seed=0)


def test_versions_and_skills_share_no_seeds():
    val = [summary(name, skill, "val") for name, skill, *_ in SIZES]
    assert len(frozenset().union(*(s.seeds for s in val))) == sum(s.n for s in val)


def test_scene_seed_fits_a_signed_column():
    seeds = [scene_seed("paintskills", f"object_val_{i:05d}", seed) for i in range(200) for seed in (0, 1, -1)]
    assert len(set(seeds)) == 600
    assert all(0 <= s < 2**63 for s in seeds)
    # The same on every machine and in every release: it decides which images are rendered.
    assert scene_seed("paintskills", "object_val_00000", 0) == 8550554465162564076


def test_scales_are_near_the_usual_size():
    scales = [o.scale for s in build_scenes(V2, "count", "val") for o in s.objects]
    assert 0.85 <= min(scales) < 0.86
    assert 1.14 < max(scales) <= 1.15
    assert len(set(scales)) > 1000


# ------------------------------------------------------------------------------------------------------------- spread
@pytest.mark.parametrize("limit", [1, 7, 37, 60, 100])
@pytest.mark.parametrize("skill", ["object", "count", "spatial", "color"])
def test_spread_is_balanced_in_every_margin(skill, limit):
    scenes = build_scenes(V2, skill, "val")
    chosen = spread(scenes, limit, seed=3)
    assert len(chosen) == limit
    positions = [scenes.index(s) for s in chosen[:5]]
    assert positions == sorted(positions)
    for facet in facets_of(scenes[0]):
        levels = Counter({facets_of(s)[facet]: 0 for s in scenes})
        levels.update(facets_of(s)[facet] for s in chosen)
        assert max(levels.values()) - min(levels.values()) <= 1, (facet, levels)


def test_spread_is_deterministic_and_seeded():
    scenes = build_scenes(V2, "count", "val")
    assert spread(scenes, 40, seed=1) == spread(scenes, 40, seed=1)
    assert spread(scenes, 40, seed=1) != spread(scenes, 40, seed=2)
    assert spread(scenes, None) == spread(scenes, len(scenes)) == spread(scenes, 10**6) == scenes


@pytest.mark.parametrize("limit", [1, 7, 40, None, 10**6])
@pytest.mark.parametrize("skill", ["object", "count", "spatial", "color"])
def test_sample_of_scenes_is_what_spread_takes_of_all(skill, limit):
    whole = build_scenes(V2, skill, "val", seed=3)
    assert sample_scenes(V2, skill, "val", limit, seed=3) == spread(whole, limit, seed=3)


def test_sample_of_scenes_builds_no_others(monkeypatch):
    built = []
    scene_of = scenes_module._Design.scene
    monkeypatch.setattr(scenes_module._Design, "scene", lambda design, i: built.append(i) or scene_of(design, i))
    assert len(sample_scenes(V2, "object", "train", 5)) == 5
    assert len(built) == 5


def test_sample_of_scenes_refuses_what_build_scenes_refuses():
    with pytest.raises(ValueError, match="has no skill 'text'"):
        sample_scenes(V2, "text", "val", 3)
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        sample_scenes(V2, "object", "val", 0)


@pytest.mark.parametrize("limit", [0, -3])
def test_spread_refuses_less_than_one(limit):
    with pytest.raises(ValueError, match=f"limit must be at least 1, got {limit}"):
        spread(build_scenes(V2, "object", "val")[:20], limit)


# ------------------------------------------------------------------------------------------------- prompts and facets
def test_prompt_of_a_scene():
    scene = v1_val("spatial")[2 * 441 + 3 * 21 + 2]
    prompt = prompt_of(scene, "paintskills-v1", n_images=3)
    assert (prompt.prompt_id, prompt.text, prompt.n_images) == (scene.scene_id, scene.text, 3)
    assert prompt.facets == {
        "skill": "spatial",
        "object": "bus",
        "object_b": "bicycle",
        "relation": "above",
        "background": "empty",
    }
    assert prompt.spec == {"labels": ["bus", "bicycle"], "relation": "above", "color": None}
    assert facets_of(v1_val("count")[3 * 21])["count"] == 4
    assert facets_of(v1_val("color")[0])["color"] == "red"
    assert prompt_of(v1_val("color")[0], "paintskills-v1").spec["color"] == "red"


@pytest.mark.parametrize(
    ("shape", "coco_name", "label"),
    [
        ("humanSophie", None, "person"),
        ("humanJosh", "person", "person"),
        ("bike", None, "bicycle"),
        ("fireHydrant", None, "fire hydrant"),
        ("cat", None, "cat"),
        ("wineGlass", None, "wine glass"),
        ("wineGlass", "wine glass", "wine glass"),
        ("moggy", "cat", "cat"),
    ],
)
def test_class_of_shape(shape, coco_name, label):
    assert class_of_shape(shape, {c.shape: c for c in V2.classes}, coco_name).label == label
    assert class_of_shape(shape, {}, coco_name).label == label


# ---------------------------------------------------------------------------------------------------------- bad input
def test_unknown_names_are_answered_with_the_known_ones():
    assert (split_of("test"), split_of("val"), split_of("train")) == ("val", "val", "train")
    with pytest.raises(ValueError, match="unknown split 'dev'; choose train, val or test"):
        split_of("dev")
    with pytest.raises(
        ValueError, match=r"unknown PaintSkills version 'v3'; choose from \['paintskills', 'paintskills-v1"
    ):
        version("v3")
    with pytest.raises(
        ValueError, match=r"paintskills has no skill 'text'; it has \['object', 'count', 'spatial', 'color"
    ):
        build_scenes(V2, "text", "val")
