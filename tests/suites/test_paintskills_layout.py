"""The published file layout: written, read back, and read in the authors' own form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from verism.errors import UsageError
from verism.suites.paintskills.layout import (
    boxes_path,
    image_path,
    read_boxes,
    read_scenes,
    scenes_path,
    skills_in,
    write_boxes,
    write_metadata,
    write_scenes,
)
from verism.suites.paintskills.scenes import build_scenes, expected_of, spread
from verism.suites.paintskills.suite import PaintSkills
from verism.suites.paintskills.vocabulary import VERSIONS

V1, V2 = VERSIONS["paintskills-v1"], VERSIONS["paintskills"]


def write(root: Path, skill: str, data: Any, split: str = "val") -> Path:
    path = scenes_path(root, skill, split)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps({"data": data}), encoding="utf-8")
    return path


def authors_object(shape: str, **changes: Any) -> dict[str, Any]:
    """An object as the authors' files write it."""
    record = {"id": 0, "shape": shape, "color": "plain", "relation": None, "scale": 9.31, "texture": "plain"}
    return {**record, "rotation": None, "state": None, **changes}


def authors_scene(number: int, *objects: dict[str, Any], skill: str = "object", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"{skill}_val_{number:05d}",
        "scene": "HDR-KirbyCove",
        "text": "a photo of something",
        "skill": skill,
        "split": "val",
        "objects": list(objects),
        **changes,
    }


# --------------------------------------------------------------------------------------------------------- round trip
@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_scenes_come_back_as_they_were(tmp_path, name):
    v = VERSIONS[name]
    skills = (*v.skills, *v.optional_skills)
    scenes = [s for skill in skills for s in spread(build_scenes(v, skill, "val", seed=7), 12)]
    turned = replace(
        scenes[0].objects[0], rotation=(0.0, 90.0, -12.5), state="walking", shape="humanJosh", label="person"
    )
    scenes[0] = replace(scenes[0], objects=(turned,))
    write_scenes(tmp_path, scenes)
    assert skills_in(tmp_path, "val") == sorted(skills)
    assert read_scenes(tmp_path, v, "val", skills) == scenes
    assert read_scenes(tmp_path, v, "val", ["count"]) == [s for s in scenes if s.skill == "count"]


def test_paths_are_the_published_ones(tmp_path):
    assert scenes_path(tmp_path, "count", "train") == tmp_path / "count/scenes/count_train.json"
    assert boxes_path(tmp_path, "count", "val") == tmp_path / "count/count_val_bounding_boxes.json"
    assert image_path(tmp_path, "count", "count_val_00017") == tmp_path / "count/images/image_count_val_00017.png"


def test_scene_file_has_the_published_keys(tmp_path):
    write_scenes(tmp_path, build_scenes(V1, "spatial", "val")[:1])
    (record,) = json.loads(scenes_path(tmp_path, "spatial", "val").read_text())["data"]
    assert record.keys() - {"seed"} == {"id", "scene", "text", "skill", "split", "objects"}
    assert record["id"] == "spatial_val_00000"
    assert record["scene"] == "empty"
    assert [o["id"] for o in record["objects"]] == [0, 1]
    assert [o["relation"] for o in record["objects"]] == [None, "left_0"]
    published = {"id", "shape", "coconame", "color", "relation", "scale", "texture", "rotation", "state"}
    assert all(o.keys() == published for o in record["objects"])


def test_metadata_orders_classes_by_id(tmp_path):
    write_metadata(tmp_path / "new", V1, {"dog": ("standing",)})
    data = json.loads((tmp_path / "new/metadata.json").read_text())
    assert data["Shape"][:3] == ["human", "airplane", "bike"]
    assert len(data["Shape"]) == 21
    assert data["Color"] == ["red", "blue", "yellow", "white", "purple", "green"]
    assert data["Relation"] == ["left", "right", "above", "below"]
    assert data["State"] == {"dog": ["standing"]}


# ---------------------------------------------------------------------------------------------------- the authors' form
def test_scenes_in_the_authors_form(tmp_path):
    write(
        tmp_path,
        "object",
        [
            authors_scene(0, authors_object("humanSophie", state="sitting"), answer="human", questionId=3),
            authors_scene(1, authors_object("humanJosh", coconame="person", scale=14.11)),
            authors_scene(2, authors_object("fireHydrant", coconame="fire hydrant", rotation=[0, 45, 0])),
            authors_scene(3, authors_object("cat")),
            authors_scene(4, authors_object("wineGlass")),
            authors_scene(5, authors_object("wineGlass", coconame="wine glass", material="glass")),
            authors_scene(6, {"shape": "dog"}),
        ],
    )
    scenes = read_scenes(tmp_path, V2, "val")
    assert [s.objects[0].label for s in scenes] == [
        "person",
        "person",
        "fire hydrant",
        "cat",
        "wine glass",
        "wine glass",
        "dog",
    ]
    assert [s.objects[0].shape for s in scenes[:3]] == ["humanSophie", "humanJosh", "fireHydrant"]
    assert [s.objects[0].rotation for s in scenes[:3]] == [None, None, (0.0, 45.0, 0.0)]
    assert scenes[0].objects[0].state == "sitting"
    assert (scenes[0].background, scenes[0].text) == ("HDR-KirbyCove", "a photo of something")
    # Their scales are in units of their models.
    assert {o.scale for s in scenes for o in s.objects} == {1.0}
    # Their files hold no seeds; every scene still gets one of its own, the same each time.
    assert len({s.seed for s in scenes}) == len(scenes)
    assert read_scenes(tmp_path, V2, "val") == scenes
    suite = PaintSkills.from_folder(tmp_path)
    assert suite.labels == (*V2.labels, "cat", "wine glass")
    assert suite.classes["wine glass"] == "wineGlass"


def test_train_and_val_of_the_authors_share_no_seed(tmp_path):
    write(tmp_path, "object", [authors_scene(0, authors_object("dog"))])
    write(
        tmp_path, "object", [authors_scene(0, authors_object("dog"), id="object_train_00000", split="train")], "train"
    )
    assert read_scenes(tmp_path, V2, "val")[0].seed != read_scenes(tmp_path, V2, "train")[0].seed


def test_relations_of_the_authors_belong_to_the_second_object(tmp_path):
    objects = authors_object("bus"), authors_object("dog", id=1, relation="above_0")
    write(tmp_path, "spatial", [authors_scene(42, *objects, skill="spatial")])
    (scene,) = read_scenes(tmp_path, V1, "val")
    expected = expected_of(scene)
    assert (expected.labels, expected.relation) == (("bus", "dog"), "above")


def test_skill_and_split_may_be_left_to_the_file_name(tmp_path):
    record = authors_scene(0, authors_object("dog"))
    del record["skill"], record["split"]
    write(tmp_path, "object", [record])
    (scene,) = read_scenes(tmp_path, V2, "val")
    assert (scene.skill, scene.split) == ("object", "val")


def test_files_of_other_names_are_no_scene_files(tmp_path):
    """Such as the translated prompts kept beside the scenes."""
    write(tmp_path, "object", [authors_scene(0, authors_object("dog"))])
    (tmp_path / "object/scenes/copy_val.json").write_text("{}")
    (tmp_path / "other/scenes").mkdir(parents=True)
    (tmp_path / "other/scenes/copy_val.json").write_text("{}")
    assert skills_in(tmp_path, "val") == ["object"]
    assert len(read_scenes(tmp_path, V2, "val")) == 1


# -------------------------------------------------------------------------------------------------------------- boxes
@pytest.mark.parametrize(
    ("version", "ids"),
    [
        # v1: position in Shape; the ICCV version: COCO ids, as its detector kept the head of COCO.
        (V1, {"human": 0, "humanJosh": 0, "airplane": 1, "fireHydrant": 8, "dog": 4}),
        (V2, {"human": 1, "humanJosh": 1, "airplane": 5, "fireHydrant": 11, "dog": 18}),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_boxes_come_back_under_the_published_category_ids(tmp_path, version, ids):
    scenes = build_scenes(version, "object", "val")[: len(ids)]
    labels = {c.shape: c.label for c in version.classes} | {"humanJosh": "person"}
    scenes = [
        replace(s, objects=(replace(s.objects[0], shape=shape, label=labels[shape]),))
        for s, shape in zip(scenes, ids, strict=True)
    ]
    boxes = {s.scene_id: np.array([[10, 20, 14.5, 60]], dtype=np.float32) for s in scenes}
    boxes[scenes[1].scene_id] += 1
    write_boxes(tmp_path, version, "object", "val", scenes, boxes, 720)
    data = json.loads(boxes_path(tmp_path, "object", "val").read_text())
    assert [a["category_id"] for a in data["annotations"]] == list(ids.values())
    assert {c["name"]: c["id"] for c in data["categories"]}.items() >= {
        "humanSophie": ids["human"],
        "dog": ids["dog"],
    }.items()
    assert len(data["categories"]) == len(version.classes)
    first = data["annotations"][0]
    assert first["bbox"] == [10, 20, 4.5, 40]
    assert (first["area"], first["iscrowd"], first["image_id"]) == (180, 0, 0)
    assert data["images"][3] == {"file_name": "image_object_val_00003.png", "height": 720, "width": 720, "id": 3}
    read = read_boxes(tmp_path, "object", "val")
    assert read.keys() == boxes.keys()
    for scene_id, expected in boxes.items():
        assert read[scene_id].dtype == np.float32
        np.testing.assert_allclose(read[scene_id], expected)


def test_boxes_keep_the_order_of_the_objects_and_name_new_classes(tmp_path):
    (scene,) = build_scenes(V2, "count", "val")[15 * 2 : 15 * 2 + 1]
    cats = replace(scene, objects=tuple(replace(o, shape="cat", label="cat") for o in scene.objects))
    boxes = np.array([[300, 0, 310, 9], [0, 0, 5, 5], [100, 1, 120, 8]], dtype=np.float32)
    write_boxes(tmp_path, V2, "count", "val", [cats], {cats.scene_id: boxes}, 64)
    np.testing.assert_array_equal(read_boxes(tmp_path, "count", "val")[cats.scene_id], boxes)
    data = json.loads(boxes_path(tmp_path, "count", "val").read_text())
    (category,) = {a["category_id"] for a in data["annotations"]}
    assert category > 91
    assert {"id": category, "name": "cat", "label": "cat"} in data["categories"]


def test_an_image_without_boxes_has_none(tmp_path):
    path = boxes_path(tmp_path, "object", "val")
    path.parent.mkdir(parents=True)
    path.write_text(
        json.dumps(
            {"images": [{"file_name": "image_object_val_00002.png", "id": 2}], "annotations": [], "categories": []}
        )
    )
    assert read_boxes(tmp_path, "object", "val")["object_val_00002"].shape == (0, 4)


# ---------------------------------------------------------------------------------------------------------- bad input
DOG = authors_object("dog")


@pytest.mark.parametrize(
    ("skill", "record", "message"),
    [
        ("object", {**authors_scene(3, DOG), "id": None}, "'number 0'.*key 'id' is missing"),
        (
            "object",
            {k: v for k, v in authors_scene(3, DOG).items() if k != "text"},
            "'object_val_00003'.*key 'text' is",
        ),
        ("object", authors_scene(3, DOG, scene=7), "'object_val_00003'.*key 'scene': expected str, got 7"),
        ("object", authors_scene(3, DOG, objects={}), "'object_val_00003'.*key 'objects': expected list"),
        ("object", authors_scene(3), "'object_val_00003'.*key 'objects': the list is empty"),
        ("object", authors_scene(3, "dog"), "'object_val_00003'.*object 0.*expected a JSON object with key 'shape'"),
        ("object", authors_scene(3, {"color": "red"}), "'object_val_00003'.*object 0.*key 'shape' is missing"),
        ("object", authors_scene(3, {**DOG, "shape": 5}), "key 'shape': expected str, got 5"),
        ("object", authors_scene(3, {**DOG, "scale": "big"}), "key 'scale': expected int or float, got 'big'"),
        ("object", authors_scene(3, {**DOG, "rotation": [1, 2]}), "key 'rotation': expected null or three angles"),
        ("object", authors_scene(3, {**DOG, "rotation": 5}), "key 'rotation': expected list, got 5"),
        ("object", authors_scene(3, DOG, seed="x"), "'object_val_00003'.*key 'seed': expected int, got 'x'"),
        ("object", "dog", "'number 0'.*expected a JSON object"),
        (
            "spatial",
            authors_scene(3, DOG, {**DOG, "relation": "under_0"}, skill="spatial"),
            "'spatial_val_00003'.*object 1.*key 'relation': 'under_0'; expected .*left_0",
        ),
        (
            "spatial",
            authors_scene(3, {**DOG, "relation": "left_0"}, DOG, skill="spatial"),
            "object 0.*key 'relation': 'left_0'; expected null for object 0",
        ),
        ("spatial", authors_scene(3, DOG, DOG, skill="spatial"), "key 'objects': a spatial scene needs two"),
        ("spatial", authors_scene(3, DOG, skill="spatial"), "key 'objects': a spatial scene needs two"),
        (
            "count",
            authors_scene(3, DOG, authors_object("bus"), skill="count"),
            r"key 'objects': a count scene needs one class, got \['bus', 'dog'\]",
        ),
        ("color", authors_scene(3, DOG, skill="color"), "key 'color': 'plain'; a colour scene needs one of red"),
    ],
)
def test_a_bad_scene_is_named_with_file_and_key(tmp_path, skill, record, message):
    path = write(tmp_path, skill, [record])
    with pytest.raises(UsageError, match=message) as caught:
        read_scenes(tmp_path, V2, "val")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"data": null}', '{"data": {"id": 1}}', "3"])
def test_a_file_that_is_no_scene_file(tmp_path, content):
    path = write(tmp_path, "object", content)
    with pytest.raises(
        UsageError, match=r"is no scene file: expected a JSON object with a list `data`|is not JSON: .*expected scenes"
    ) as caught:
        read_scenes(tmp_path, V2, "val")
    assert str(path) in str(caught.value)


def test_a_scene_file_that_is_not_utf8(tmp_path):
    write(tmp_path, "object", "").write_bytes(b'{"data": ["\xff"]}')
    with pytest.raises(UsageError, match=r"cannot be read as UTF-8 text: .*expected scenes"):
        read_scenes(tmp_path, V2, "val")


def test_missing_files_say_what_was_expected(tmp_path):
    with pytest.raises(UsageError, match=r"no PaintSkills scenes in .*expected \{skill\}/scenes/\{skill\}_val.json"):
        read_scenes(tmp_path, V2, "val")
    write(tmp_path, "object", [authors_scene(0, DOG)])
    with pytest.raises(
        UsageError, match=r"no scenes of skill 'count'.*count_val.json does not exist; found \['object'\]"
    ):
        read_scenes(tmp_path, V2, "val", ["count"])
    with pytest.raises(UsageError, match=r"object_val_bounding_boxes.json does not exist"):
        read_boxes(tmp_path, "object", "val")


def test_a_scene_id_may_occur_once(tmp_path):
    write(tmp_path, "object", [authors_scene(0, DOG), authors_scene(0, DOG)])
    with pytest.raises(UsageError, match="'object_val_00000' occurs twice"):
        read_scenes(tmp_path, V2, "val")


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        '{"images": [{"id": 1}], "annotations": []}',
        '{"images": [{"id": 1, "file_name": "image_a.png"}], "annotations": [{"image_id": 2, "bbox": [1, 2, 3, 4]}]}',
        '{"images": [{"id": 1, "file_name": "image_a.png"}], "annotations": [{"image_id": 1, "bbox": [1, 2, 3]}]}',
    ],
)
def test_a_file_that_is_no_box_file(tmp_path, content):
    path = boxes_path(tmp_path, "object", "val")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(
        UsageError, match=r"is no bounding-box file in the published form|is not JSON: .*expected bounding boxes"
    ) as caught:
        read_boxes(tmp_path, "object", "val")
    assert str(path) in str(caught.value)
