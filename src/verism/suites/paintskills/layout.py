"""The published file layout of PaintSkills, written and read.

::

    {root}/metadata.json
    {root}/{skill}/scenes/{skill}_{train|val}.json
    {root}/{skill}/images/image_{scene_id}.png          (or train_images/, val_images/)
    {root}/{skill}/masks/mask_{scene_id}.png            (ours, if asked for: instance masks)
    {root}/{skill}/{skill}_{train|val}_bounding_boxes.json

Files of ours carry a few more keys (``seed`` of a scene; ``label`` and ``labels`` beside class names); readers of the
published layout ignore them, and we read files without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.files import read_json, write_json
from verism.records import Scene, SceneObject
from verism.suites.paintskills.scenes import scene_seed
from verism.suites.paintskills.vocabulary import COLORS, RELATIONS, ObjectClass, Version, class_of_shape

__all__ = [
    "boxes_path",
    "image_path",
    "mask_path",
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
    """Where the image of a scene is written."""
    return root / skill / "images" / f"image_{scene_id}.png"


def mask_path(root: Path, skill: str, scene_id: str) -> Path:
    """Where the instance mask of a scene is written, if it is: 0 background, i + 1 object i."""
    return root / skill / "masks" / f"mask_{scene_id}.png"


def skills_in(root: Path, split: str) -> list[str]:
    """Skills that have a scene file of that split, sorted.

    Raises:
        UsageError: there is none.
    """
    folders = sorted(p.parent.parent.name for p in root.glob(f"*/scenes/*_{split}.json"))
    results = [skill for skill in dict.fromkeys(folders) if scenes_path(root, skill, split).is_file()]
    if not results:
        raise UsageError(
            f"no PaintSkills scenes in {root}: expected {{skill}}/scenes/{{skill}}_{split}.json below it. "
            f"Render some with: verism scenes render paintskills --split {split} --out {root}"
        )
    return results


def write_metadata(root: Path, version: Version, states: Mapping[str, Sequence[str]] | None = None) -> None:
    """``metadata.json``: the vocabularies; the order of ``Shape`` is the class id of v1, of ``Color`` the colour id."""
    root.mkdir(parents=True, exist_ok=True)
    write_json(
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
        write_json(path, {"data": [_scene_record(scene) for scene in group]})


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

    A scene without our key ``seed`` is the authors': its seed is made from its id, and its scales, which are in units
    of the authors' models, are read as 1.0, the usual size of the simulator's.

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
            data = _get(read_json(path, "scenes"), "data", list)
        except ValueError as err:  # not JSON, not UTF-8, or no list
            raise UsageError(f"{path} is no scene file: expected a JSON object with a list `data` ({err})") from err
        for number, record in enumerate(data):
            try:
                scenes.append(_read_scene(record, known, version, skill, split))
            except ValueError as err:
                name = (record.get("id") if isinstance(record, dict) else None) or f"number {number}"
                raise UsageError(f"{path}: scene {name!r}: {err}") from err
    seen: set[str] = set()
    for scene in scenes:
        if scene.scene_id in seen:
            raise UsageError(f"scene id {scene.scene_id!r} occurs twice below {root}")
        seen.add(scene.scene_id)
    return scenes


_NEEDED: Any = object()


def _get(record: Any, key: str, kind: type | tuple[type, ...], default: Any = _NEEDED) -> Any:
    """The value of a key; the default if the key is absent or null.

    Raises:
        ValueError: it is needed and absent, or of another type; the message names the key.
    """
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object with key {key!r}, got {record!r}")
    value = record.get(key)
    if value is None:
        if default is _NEEDED:
            raise ValueError(f"key {key!r} is missing")
        return default
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise ValueError(f"key {key!r}: expected {' or '.join(k.__name__ for k in kinds)}, got {value!r}")
    return value


def _read_scene(record: Any, known: Mapping[str, ObjectClass], version: Version, skill: str, split: str) -> Scene:
    scene_id = _get(record, "id", str)
    seed = _get(record, "seed", int, None)
    objects = []
    for number, entry in enumerate(_get(record, "objects", list)):
        try:
            objects.append(_read_object(entry, known, number, ours=seed is not None))
        except ValueError as err:
            raise ValueError(f"object {number}: {err}") from err
    scene = Scene(
        scene_id=scene_id,
        skill=_get(record, "skill", str, skill),
        split=_get(record, "split", str, split),
        text=_get(record, "text", str),
        background=_get(record, "scene", str),
        objects=tuple(objects),
        seed=scene_seed(version.name, scene_id, 0) if seed is None else seed,
    )
    _check_skill(scene)
    return scene


def _read_object(entry: Any, known: Mapping[str, ObjectClass], number: int, *, ours: bool) -> SceneObject:
    shape = _get(entry, "shape", str)
    scale = float(_get(entry, "scale", (int, float), 1.0))
    relation = _get(entry, "relation", str, None)
    if relation is not None and (number == 0 or relation not in {f"{r}_0" for r in RELATIONS}):
        raise ValueError(
            f"key 'relation': {relation!r}; expected null for object 0 and one of "
            f"{', '.join(f'{r}_0' for r in RELATIONS)} for a later one"
        )
    rotation = _get(entry, "rotation", list, None)
    if rotation is not None and (len(rotation) != 3 or not all(isinstance(r, (int, float)) for r in rotation)):
        raise ValueError(f"key 'rotation': expected null or three angles in degrees, got {rotation!r}")
    return SceneObject(
        shape=shape,
        label=class_of_shape(shape, known, _get(entry, "coconame", str, None)).label,
        color=_get(entry, "color", str, "plain"),
        relation=relation,
        scale=scale if ours else 1.0,
        texture=_get(entry, "texture", str, "plain"),
        rotation=None if rotation is None else (float(rotation[0]), float(rotation[1]), float(rotation[2])),
        state=_get(entry, "state", str, None),
    )


def _check_skill(scene: Scene) -> None:
    """What the rules of the skills take for granted.

    Raises:
        ValueError: a scene that its skill cannot decide upon.
    """
    objects = scene.objects
    if not objects and scene.skill != "empty":  # backgrounds alone, for the training of detectors
        raise ValueError("key 'objects': the list is empty")
    if scene.skill == "spatial" and (len(objects) != 2 or objects[1].relation is None):
        raise ValueError("key 'objects': a spatial scene needs two, the second with a 'relation'")
    if scene.skill == "count" and len({o.label for o in objects}) > 1:
        raise ValueError(f"key 'objects': a count scene needs one class, got {sorted({o.label for o in objects})}")
    if scene.skill == "color" and objects[0].color not in COLORS:
        raise ValueError(f"key 'color': {objects[0].color!r}; a colour scene needs one of {', '.join(COLORS)}")


def write_boxes(
    root: Path,
    version: Version,
    skill: str,
    split: str,
    scenes: Sequence[Scene],
    boxes: Mapping[str, NDArray[np.float32]],
    size: int,
) -> None:
    """The COCO-like box file of one skill and split; ``boxes`` by scene id, (N, 4) as in ``records.Rendered``.

    Category ids are the index in ``Shape`` for v1, and COCO ids for the ICCV version, whose detector keeps the COCO
    head. ``bbox`` is [x, y, width, height] in pixels.
    """
    coco = version.name == "paintskills"
    known = {c.shape: c for c in version.classes}
    class_of = {o.shape: class_of_shape(o.shape, known, o.label) for s in scenes for o in s.objects}
    ids = {c.shape: (c.coco_id if coco else i) for i, c in enumerate(version.classes)}
    extra = sorted({c.shape for c in class_of.values()} - set(ids))
    ids.update({shape: 1000 + i for i, shape in enumerate(extra)})  # the user's own classes
    label_of = {c.shape: c.label for c in (*version.classes, *class_of.values())}
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
                    "category_id": ids[class_of[obj.shape].shape],
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
        {"id": i, "name": "humanSophie" if shape == "human" else shape, "label": label_of[shape]}
        for shape, i in ids.items()
    ]
    path = boxes_path(root, skill, split)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"images": images, "annotations": annotations, "categories": categories})


def read_boxes(root: Path, skill: str, split: str) -> dict[str, NDArray[np.float32]]:
    """Ground-truth boxes by scene id, (N, 4) as x0, y0, x1, y1; in file order, which is the order of the objects.

    Raises:
        UsageError: no such file, or not in the published form.
    """
    path = boxes_path(root, skill, split)
    if not path.is_file():
        raise UsageError(f"{path} does not exist")
    try:
        data = read_json(path, "bounding boxes")
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
    except (KeyError, TypeError, ValueError) as err:
        raise UsageError(f"{path} is no bounding-box file in the published form: {err!r}") from err
