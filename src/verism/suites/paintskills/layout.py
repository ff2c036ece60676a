"""The published file layout of PaintSkills, written and read.

::

    {root}/metadata.json
    {root}/{skill}/scenes/{skill}_{train|val}.json
    {root}/{skill}/images/image_{scene_id}.png          (or train_images/, val_images/)
    {root}/{skill}/{skill}_{train|val}_bounding_boxes.json

Files of ours carry a few more keys (``label``, ``seed``); readers of the published layout ignore them, and we read
files without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.records import Scene, SceneObject
from verism.suites.paintskills.vocabulary import COLORS, RELATIONS, ObjectClass, Version, class_of_shape

__all__ = [
    "boxes_path",
    "image_path",
    "read_boxes",
    "read_scenes",
    "scenes_path",
    "skills_in",
    "write_boxes",
    "write_metadata",
    "write_scenes",
]


def scenes_path(root: Path, skill: str, split: str) -> Path:
    """Where the scene file lies."""
    return root / skill / "scenes" / f"{skill}_{split}.json"


def boxes_path(root: Path, skill: str, split: str) -> Path:
    """Where the box file lies."""
    return root / skill / f"{skill}_{split}_bounding_boxes.json"


def image_path(root: Path, skill: str, scene_id: str) -> Path:
    """Where the picture of a scene is written."""
    return root / skill / "images" / f"image_{scene_id}.png"


def skills_in(root: Path, split: str) -> list[str]:
    """Skills that have a scene file of that split, sorted.

    Raises:
        UsageError: there is none.
    """
    found = sorted(p.parent.parent.name for p in root.glob(f"*/scenes/*_{split}.json"))
    if not found:
        raise UsageError(
            f"no PaintSkills scenes in {root}: expected {{skill}}/scenes/{{skill}}_{split}.json below it. "
            f"Render some with: verism scenes render paintskills --split {split} --out {root}"
        )
    return found


def write_metadata(root: Path, version: Version, states: Mapping[str, Sequence[str]] | None = None) -> None:
    """``metadata.json``: the vocabularies; the order of ``Shape`` is the class id of v1, of ``Color`` the colour id."""
    root.mkdir(parents=True, exist_ok=True)
    _write_json(
        root / "metadata.json",
        {
            "dataset": version.name,
            "Shape": [c.shape for c in version.classes],
            "State": {k: list(v) for k, v in (states or {}).items()},
            "Color": list(COLORS),
            "Texture": ["plain", "pure"],
            "Relation": list(RELATIONS),
            "Scenes": list(version.backgrounds),
            "labels": list(version.labels),
        },
    )


def write_scenes(root: Path, scenes: Iterable[Scene]) -> None:
    """Scene files, one per skill and split."""
    groups: dict[tuple[str, str], list[Scene]] = {}
    for scene in scenes:
        groups.setdefault((scene.skill, scene.split), []).append(scene)
    for (skill, split), group in groups.items():
        path = scenes_path(root, skill, split)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_json(path, {"data": [_scene_record(scene) for scene in group]})


def _scene_record(scene: Scene) -> dict[str, Any]:
    return {
        "id": scene.scene_id,
        "scene": scene.background,
        "text": scene.text,
        "skill": scene.skill,
        "split": scene.split,
        "seed": scene.seed,
        "objects": [
            {
                "id": number,
                "shape": obj.shape,
                "coconame": obj.label,
                "color": obj.color,
                "relation": obj.relation,
                "scale": obj.scale,
                "texture": obj.texture,
                "rotation": None if obj.rotation is None else list(obj.rotation),
                "state": obj.state,
            }
            for number, obj in enumerate(scene.objects)
        ],
    }


def read_scenes(root: Path, version: Version, split: str, skills: Sequence[str] | None = None) -> list[Scene]:
    """Scenes of a data set in the published layout, ours or the authors'.

    Raises:
        UsageError: no scene file, or a file that does not hold what a scene needs (file, scene and key are named).
    """
    known = {c.shape: c for c in version.classes}
    scenes = []
    for skill in skills or skills_in(root, split):
        path = scenes_path(root, skill, split)
        if not path.is_file():
            raise UsageError(f"no scenes of skill {skill!r}: {path} does not exist; found {skills_in(root, split)}")
        try:
            data = json.loads(path.read_text(encoding="utf-8"))["data"]
        except (json.JSONDecodeError, KeyError, TypeError) as err:
            raise UsageError(f"{path} is no scene file: expected a JSON object with a list `data` ({err})") from err
        scenes += [_read_scene(record, known, path, skill, split) for record in data]
    seen: set[str] = set()
    for scene in scenes:
        if scene.scene_id in seen:
            raise UsageError(f"scene id {scene.scene_id!r} occurs twice below {root}")
        seen.add(scene.scene_id)
    return scenes


def _read_scene(record: Any, known: Mapping[str, ObjectClass], path: Path, skill: str, split: str) -> Scene:
    try:
        objects = tuple(
            SceneObject(
                shape=o["shape"],
                label=class_of_shape(o["shape"], known, o.get("coconame")).label,
                color=o.get("color") or "plain",
                relation=o.get("relation"),
                scale=float(o.get("scale") or 1.0),
                texture=o.get("texture") or "plain",
                rotation=None if o.get("rotation") is None else tuple(o["rotation"]),
                state=o.get("state"),
            )
            for o in record["objects"]
        )
        scene = Scene(
            scene_id=record["id"],
            skill=record.get("skill") or skill,
            split=record.get("split") or split,
            text=record["text"],
            background=record["scene"],
            objects=objects,
            seed=int(record.get("seed", 0)),
        )
    except (KeyError, TypeError, ValueError) as err:
        name = record.get("id", "?") if isinstance(record, dict) else record
        raise UsageError(f"{path}: scene {name!r} lacks or garbles {err}") from err
    if not objects:
        raise UsageError(f"{path}: scene {scene.scene_id!r} has no objects")
    for obj in objects:
        if obj.relation is not None and obj.relation not in {f"{r}_0" for r in RELATIONS}:
            raise UsageError(f"{path}: scene {scene.scene_id!r}: relation {obj.relation!r}; expected e.g. 'left_0'")
    return scene


def write_boxes(
    root: Path,
    version: Version,
    skill: str,
    split: str,
    scenes: Sequence[Scene],
    boxes: Mapping[str, NDArray[np.float32]],
    size: int,
) -> None:
    """The COCO-like box file of one skill and split; ``boxes`` by scene id, (N, 4) as in ``records.Painted``.

    Category ids are the index in ``Shape`` for v1, and COCO ids for the ICCV version, whose detector keeps the COCO
    head. ``bbox`` is [x, y, width, height] in pixels.
    """
    coco = version.name == "paintskills"
    ids = {c.shape: (c.coco_id if coco else i) for i, c in enumerate(version.classes)}
    extra = sorted({o.shape for s in scenes for o in s.objects} - set(ids))
    ids.update({shape: 1000 + i for i, shape in enumerate(extra)})  # the user's own classes
    label_of = {o.shape: o.label for s in scenes for o in s.objects}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for scene in scenes:
        number = int(scene.scene_id.rpartition("_")[2])
        images.append({"file_name": f"image_{scene.scene_id}.png", "height": size, "width": size, "id": number})
        for obj, (x0, y0, x1, y1) in zip(scene.objects, boxes[scene.scene_id].tolist(), strict=True):
            annotations.append(
                {
                    "id": len(annotations),
                    "image_id": number,
                    "category_id": ids[obj.shape],
                    "bbox": [x0, y0, x1 - x0, y1 - y0],
                    "area": (x1 - x0) * (y1 - y0),
                    "iscrowd": 0,
                    "shape": obj.shape,
                    "label": obj.label,
                    "state": obj.state,
                    "color": obj.color,
                    "texture": obj.texture,
                    "all_points_x": [],
                    "all_points_y": [],
                }
            )
    categories = [
        {"id": i, "name": "humanSophie" if shape == "human" else shape, "label": label_of.get(shape, shape)}
        for shape, i in ids.items()
    ]
    path = boxes_path(root, skill, split)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_json(path, {"images": images, "annotations": annotations, "categories": categories})


def read_boxes(root: Path, skill: str, split: str) -> dict[str, NDArray[np.float32]]:
    """Ground-truth boxes by scene id, (N, 4) as x0, y0, x1, y1; in file order, which is the order of the objects.

    Raises:
        UsageError: no such file, or not in the published form.
    """
    path = boxes_path(root, skill, split)
    if not path.is_file():
        raise UsageError(f"{path} does not exist")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        by_image: dict[int, list[list[float]]] = {image["id"]: [] for image in data["images"]}
        for a in data["annotations"]:
            x, y, w, h = a["bbox"]
            by_image[a["image_id"]].append([x, y, x + w, y + h])
        return {
            Path(image["file_name"]).stem.removeprefix("image_"): np.array(
                by_image[image["id"]], dtype=np.float32
            ).reshape(-1, 4)
            for image in data["images"]
        }
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as err:
        raise UsageError(f"{path} is no bounding-box file in the published form: {err!r}") from err


def _write_json(path: Path, value: Any) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
