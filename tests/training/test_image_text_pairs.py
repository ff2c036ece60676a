"""Pairs of images and prompts: reading the published layout, the nested fraction, and what is refused."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from verism.errors import UsageError
from verism.records import Scene
from verism.suites.paintskills.layout import image_path, scenes_path, write_metadata, write_scenes
from verism.suites.paintskills.scenes import build_scenes, empty_scenes, facets_of
from verism.suites.paintskills.vocabulary import VERSIONS
from verism.training.image_text_pairs import Pair, image_text_pairs, nested_share
from verism.training.scene_arrays import IncompleteScenesError
from verism.training.settings import SceneChoice

V2 = VERSIONS["paintskills"]


def few(skill: str, n: int, *, split: str = "train", seed: int = 0) -> list[Scene]:
    return build_scenes(V2, skill, split, seed=seed)[:n]  # type: ignore[arg-type]


def data_set(root: Path, scenes: list[Scene], *, folder: str = "images") -> Path:
    write_metadata(root, V2)
    write_scenes(root, scenes)
    for scene in scenes:
        path = image_path(root, scene.skill, scene.scene_id)
        path = path.parent.with_name(folder) / path.name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (len(path.name), 0, 0)).save(path)
    return root


def cell(scene: Scene) -> tuple[object, ...]:
    return tuple(v for k, v in facets_of(scene).items() if k != "background")


# ------------------------------------------------------------------------------------------------------------- reading
def test_pairs_of_a_rendered_data_set(tmp_path: Path) -> None:
    scenes = few("object", 3) + few("spatial", 2)
    root = data_set(tmp_path / "d", [*scenes, *few("object", 4, split="val"), *empty_scenes(V2, "train", 2)])
    pairs = image_text_pairs([root])
    assert pairs == [
        Pair(image=image_path(root, s.skill, s.scene_id), text=s.text, skill=s.skill, scene_id=s.scene_id)
        for s in scenes
    ]
    assert pairs[0].scene_id == "object_train_00000"
    assert [p.skill for p in image_text_pairs([root], SceneChoice(skills=("spatial",)))] == ["spatial"] * 2


def test_images_of_the_authors_data_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    root = data_set(tmp_path / "d", few("count", 2), folder="train_images")
    (root / "count" / "images").mkdir()  # as after `verism scenes render --split val` into the same folder
    assert [p.image.parent.name for p in image_text_pairs([root])] == ["train_images"] * 2


def test_data_without_our_keys_are_read(tmp_path: Path) -> None:
    root = data_set(tmp_path / "d", few("count", 2))
    (root / "metadata.json").write_text('{"Shape": ["human"]}')
    path = scenes_path(root, "count", "train")
    data = json.loads(path.read_text())
    for record in data["data"]:
        del record["seed"]
    path.write_text(json.dumps(data))
    assert [p.text for p in image_text_pairs([root])] == [s.text for s in few("count", 2)]


def test_several_folders_count_each_for_itself(tmp_path: Path) -> None:
    a = data_set(tmp_path / "a", few("object", 20))
    b = data_set(tmp_path / "b", few("object", 30, seed=1))
    assert Counter(p.image.parents[2].name for p in image_text_pairs([a, b], SceneChoice(fraction=0.5))) == {
        "a": 10,
        "b": 15,
    }


# ------------------------------------------------------------------------------------------------------------ fraction
@pytest.mark.parametrize("skill", ["object", "count", "spatial"])
def test_smaller_shares_lie_within_larger_ones_and_cover_every_cell_evenly(skill: str) -> None:
    scenes = build_scenes(V2, skill, "train")
    shares = [nested_share(scenes, f, seed=3) for f in (0.01, 0.05, 0.1, 0.5)]
    # Published sizes (ICCV): 23,250 object, 21,600 count and 13,500 spatial scenes. 1 % of 23,250 is 232.5, rounded up.
    assert [len(s) for s in shares] == {
        "object": [233, 1163, 2325, 11625], "count": [216, 1080, 2160, 10800], "spatial": [135, 675, 1350, 6750],
    }[skill]  # fmt: skip
    ids = [{s.scene_id for s in share} for share in shares]
    assert ids[0] < ids[1] < ids[2] < ids[3]  # 135 and 675 spatial scenes are parts of one round, of 900 cells
    n_cells = len(set(map(cell, scenes)))
    for share in shares:
        counts = Counter(map(cell, share))
        assert max(counts.values()) - min(counts.values() if len(counts) == n_cells else [0]) <= 1
        # Single factors are even too where not every cell can have a scene.
        objects = Counter(s.objects[0].label for s in share)
        assert len(objects) == 15
        assert max(objects.values()) - min(objects.values()) <= 3
    assert shares[1] == sorted(shares[1], key=lambda s: s.scene_id)


def test_shares_depend_on_the_seed_and_nothing_else() -> None:
    scenes = few("object", 400)
    assert nested_share(scenes, 0.1, seed=1) == nested_share(list(scenes), 0.1, seed=1)
    assert nested_share(scenes, 0.1, seed=1) != nested_share(scenes, 0.1, seed=2)
    assert nested_share(scenes, 1.0) == scenes
    assert nested_share([], 0.5) == []
    assert len(nested_share(scenes[:3], 0.01)) == 1  # never none


def test_uneven_cells_are_levelled() -> None:
    # 30 airplanes and 5 bicycles: of 0.4 x 35 = 14, all 5 bicycles and 9 airplanes.
    objects = few("object", 600)
    plane, bicycle = (
        [s for s in objects if s.objects[0].label == label][:n] for label, n in (("airplane", 30), ("bicycle", 5))
    )
    share = nested_share(plane + bicycle, 0.4)
    assert Counter(s.objects[0].label for s in share) == {"airplane": 9, "bicycle": 5}


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, 10, math.nan])
def test_a_fraction_out_of_range_is_refused(fraction: float) -> None:
    with pytest.raises(UsageError, match=r"fraction must lie in \(0, 1\]"):
        nested_share(few("object", 3), fraction)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="seed must be at least 0, got -1"):
        nested_share(few("object", 3), 0.5, seed=-1)


# ------------------------------------------------------------------------------------------------------ what is refused
@pytest.mark.parametrize("split", ["val", "test"])
def test_the_test_split_is_never_learnt_from(tmp_path: Path, split: str) -> None:
    root = data_set(tmp_path / "d", few("object", 3, split="val"))
    with pytest.raises(UsageError, match=f"on the split 'train', not '{split}'"):
        image_text_pairs([root], split=split)
    # Nor under another name: the file of the test scenes in the place of that of the train scenes.
    scenes_path(root, "object", "val").rename(scenes_path(root, "object", "train"))
    with pytest.raises(UsageError, match=r"'object_val_00000' \(split 'val'\) is not of the split 'train'"):
        image_text_pairs([root])
    write_scenes(root, [replace(s, split="train") for s in few("object", 3, split="val")])
    with pytest.raises(UsageError, match=r"'object_val_00000' \(split 'train'\) is not of the split 'train'"):
        image_text_pairs([root])


def test_missing_images_are_named(tmp_path: Path) -> None:
    root = data_set(tmp_path / "d", few("object", 4))
    for scene in few("object", 4)[1:3]:
        image_path(root, "object", scene.scene_id).unlink()
    with pytest.raises(IncompleteScenesError, match=r"4 scenes.* 2 images are missing, image_object_train_00001\.png"):
        image_text_pairs([root])


def test_wrong_folders_skills_and_repetitions_are_refused(tmp_path: Path) -> None:
    root = data_set(tmp_path / "a", few("object", 3))
    with pytest.raises(UsageError, match="no folder"):
        image_text_pairs([])
    with pytest.raises(UsageError, match="no PaintSkills scenes"):
        image_text_pairs([tmp_path / "nowhere"])
    with pytest.raises(UsageError, match="no train scenes of count in"):
        image_text_pairs([root], SceneChoice(skills=("object", "count")))
    for wrong in ((), ("empty",)):
        with pytest.raises(UsageError, match="skills: expected some of"):
            image_text_pairs([root], SceneChoice(skills=wrong))
    with pytest.raises(UsageError, match=r"'object_train_00000' is the same in .* would count twice"):
        image_text_pairs([root, data_set(tmp_path / "b", few("object", 1))])
    only_empty = data_set(tmp_path / "e", empty_scenes(V2, "train", 2))
    with pytest.raises(UsageError, match="no train scenes with a prompt"):
        image_text_pairs([only_empty])
    wordless = data_set(tmp_path / "w", [replace(few("object", 1)[0], text=" ")])
    with pytest.raises(UsageError, match="has no text"):
        image_text_pairs([wordless])
