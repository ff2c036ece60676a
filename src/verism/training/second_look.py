"""Training the second look of the built-in detector: class and colour of one object, cut out, and whether it is one.

The network is the detector's own, up to a 32nd of the image, on crops of 128 pixels: it starts from the detector's
second look or else from its trunk, sees each object at one size, and answers once for the whole crop. What is no object
it learns from boxes that the detector puts where there is none, from parts of objects, boxes around two, and empty
places. Its ONNX file is kept within the detector's, see ``judges.detection.second_look``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, require
from verism.judges.detection.builtin import SECOND_LOOK, BuiltinDetector, detector_file
from verism.judges.detection.decode import box_iou
from verism.judges.detection.second_look import OUTPUTS, crop
from verism.training._checkpoints import averaged_weights, read_settings
from verism.training._onnx_export import OnnxInterface, read_onnx, write_onnx
from verism.training._replicas import NetworkLearner, autocast, averaged_network, channels_last
from verism.training.loop import Hooks, Log, fit, log_to
from verism.training.scene_arrays import SceneArrays
from verism.training.settings import SecondLookConfig

if TYPE_CHECKING:
    import torch

__all__ = ["CHECKPOINT", "LOG", "SIZE", "export_onnx", "train_second_look", "within"]

CHECKPOINT = "second_look.safetensors"
LOG = "second_look.jsonl"
SIZE = 128  # side of a crop in pixels
_SAME = 0.5  # intersection over union from which a box is that of an object
_SURELY = 0.9  # share of its class from which an object is not taken for another
_ANOTHER = 0.4  # intersection over union below which a box is not that of an object
_UNSURE = 0.01  # score from which a mistake of the detector counts
_LOOKED_AT = 6_000  # images in which mistakes of the detector are looked for

_KIND = "second look"
_PURPOSE = "training of the second look"


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What a checkpoint must share with the training that resumes it, and needs to be exported."""

    classes: tuple[str, ...]
    colors: tuple[str, ...]
    width: float
    batch_size: int
    seed: int


def _objects(arrays: SceneArrays) -> np.ndarray:
    """(image, number of the object there) of all objects, shape (M, 2)."""
    rows = [(i, k) for i, target in enumerate(arrays.targets) for k in range(len(target.labels))]
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def _mistakes(
    detector: BuiltinDetector, arrays: SceneArrays, images: Sequence[int], classes: Sequence[str]
) -> tuple[list[tuple[int, np.ndarray]], np.ndarray]:
    """What a detector gets wrong, or is unsure of.

    Args:
        detector: it reports unsure boxes too.
        arrays: images.
        images: indices of those to look at.
        classes: the C classes of the images, in the order of their labels.

    Returns:
        (image, box) where it sees an object, however unsure, and there is none with a similar box; and how many objects
        of each class it misses or takes for another class with more than a tenth, shape (C,), int64.
    """
    wrong: list[tuple[int, np.ndarray]] = []
    unsure = np.zeros(len(classes), dtype=np.int64)
    columns = np.array([detector.classes.index(c) if c in detector.classes else -1 for c in classes], dtype=np.int64)
    for start in range(0, len(images), 32):
        some = list(images[start : start + 32])
        for i, found in zip(some, detector.detect([arrays.images[i] for i in some]), strict=True):
            target = arrays.targets[i]
            ious = box_iou(found.boxes, target.boxes)
            wrong += [(i, box) for box in found.boxes[ious.max(axis=1, initial=0.0) < _ANOTHER]]
            unknown = np.zeros((len(found.boxes), 1), np.float32)  # share of a class that the detector does not have
            known = np.hstack([found.class_shares, unknown])[:, columns]
            own = np.where(ious >= _SAME, known[:, target.labels], 0.0).max(axis=0, initial=0.0)
            np.add.at(unsure, target.labels[own < _SURELY], 1)
    return wrong, unsure


def _misplaced(boxes: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """A box that fits no object: a part of one, one around two, or one anywhere.

    Args:
        boxes: of the image's objects, (n, 4), pixels.
        size: side of the image, pixels.
        rng: draws it.
    """
    for _ in range(20):
        kind = rng.random()
        if len(boxes) and kind < 0.6:
            x0, y0, x1, y1 = boxes[rng.integers(len(boxes))]
            across, down = rng.uniform(0.3, 1.0, 2)
            left, top = rng.uniform(0, 1 - across), rng.uniform(0, 1 - down)
            sides = np.array([x1 - x0, y1 - y0])
            corner = np.array([x0, y0]) + sides * (left, top)
            box = np.concatenate([corner, corner + sides * (across, down)])
        elif len(boxes) > 1 and kind < 0.8:
            pair = boxes[rng.choice(len(boxes), 2, replace=False)]
            box = np.concatenate([pair[:, :2].min(0), pair[:, 2:].max(0)])
        else:
            sides = np.exp(rng.uniform(np.log(16), np.log(size / 2), 2))
            corner = rng.uniform(0, size - sides)
            box = np.concatenate([corner, corner + sides])
        if (box[2:] - box[:2]).min() >= 4 and box_iou(box, boxes).max(initial=0.0) < _ANOTHER:
            return box
    return np.array([0.0, 0.0, float(size), float(size)])


def _drawn_again(arrays: SceneArrays, objects: np.ndarray, times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers of objects, drawn so that each class comes as often as it was confused, shape (at most 10,000,).

    Args:
        arrays: images.
        objects: of ``_objects``.
        times: how often a detector was unsure of each class, shape (C,).
        rng: draws them.
    """
    labels = np.array([arrays.targets[i].labels[k] for i, k in objects], dtype=np.int64)
    weights = (times / np.maximum(np.bincount(labels, minlength=len(times)), 1))[labels]
    if not weights.sum():
        return np.zeros(0, dtype=np.int64)
    return rng.choice(len(objects), size=10_000, p=weights / weights.sum())


def train_second_look(
    arrays: SceneArrays,
    config: SecondLookConfig,
    *,
    out: Path,
    validation: SceneArrays | None = None,
    refresh: Callable[[], SceneArrays] | None = None,
    log: Log | None = None,
) -> Path:
    """Train the network; see ``loop.fit`` for stopping and going on.

    Args:
        arrays: images to learn from.
        config: the settings.
        out: folder for the checkpoint (``second_look.safetensors``) and the log (``second_look.jsonl``).
        validation: images on whose objects (at most 1,000 of them) the averaged weights are tried now and then.
        refresh: asked now and then for the images again, for data that are still being made.
        log: receives each line of the log as well, see ``loop.Hooks``.

    Returns:
        The checkpoint.

    Raises:
        UsageError: nothing to learn from, neither steps nor minutes given, a checkpoint of other settings, or no
            detector to start from.
        VerismError: the loss stays infinite.
    """
    require("torch", extra="train", purpose=_PURPOSE)
    require("safetensors", extra="train", purpose=_PURPOSE)
    import torch
    import torch.nn.functional as F

    from verism.training.detector_augmentation import varied_crop, varied_object
    from verism.training.detector_network import SecondLookNetwork, settle, start_second_look

    config.check_length()
    objects = _objects(arrays)
    if len(objects) == 0:
        raise UsageError("there is no object to learn from; render some with `verism scenes render`")
    settings = _Settings(
        classes=config.classes, colors=config.colors, width=config.width, batch_size=config.batch_size,
        seed=config.seed,
    )  # fmt: skip
    confused: np.ndarray = np.zeros(0, dtype=np.int64)  # numbers of objects, drawn below
    torch.manual_seed(config.seed)
    network = SecondLookNetwork(len(config.classes), len(config.colors), width=config.width)

    def other(rng: np.random.Generator) -> np.ndarray:
        if mistaken and rng.random() < 0.6:
            i, box = mistaken[rng.integers(len(mistaken))]
            return varied_crop(looked_at.images[i], box.tolist(), rng, config.augment, SIZE)
        i = int(rng.integers(len(arrays)))
        box = _misplaced(arrays.targets[i].boxes, len(arrays.images[i]), rng)
        return varied_crop(arrays.images[i], box.tolist(), rng, config.augment, SIZE)

    def batch(indices: Sequence[int], rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        images, labels, colors = [], [], []
        for index in indices:
            if rng.random() < config.others:
                images.append(other(rng))
                labels.append(-1)
                colors.append(-1)
                continue
            if len(confused) and rng.random() < config.confused:
                index = confused[rng.integers(len(confused))]
            i, k = (int(v) for v in objects[index])
            images.append(varied_object(arrays, i, k, rng, config.augment, SIZE))
            labels.append(int(arrays.targets[i].labels[k]))
            colors.append(int(arrays.targets[i].colors[k]))
        pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
        return pixels, torch.tensor(labels), torch.tensor(colors)

    def loss(net: Any, *made: torch.Tensor) -> Mapping[str, torch.Tensor]:
        pixels, labels, colors = (t.to(learner.device) for t in made)
        with autocast(learner.device.type):
            classes, tints, present = net(pixels)

        def entropy(logits: torch.Tensor, answers: torch.Tensor, smoothing: float) -> torch.Tensor:
            known = answers >= 0
            if not known.any():
                return logits.sum() * 0
            return F.cross_entropy(logits[known], answers[known], label_smoothing=smoothing)

        return {
            "class": entropy(classes, labels, 0.01),
            "color": 0.5 * entropy(tints, colors, 0.0),
            "object": F.binary_cross_entropy_with_logits(present, (labels >= 0).float()),
        }

    def reload() -> int:
        nonlocal arrays, objects, confused
        assert refresh is not None
        new = refresh()
        arrays, objects = new, _objects(new)
        confused = _drawn_again(arrays, objects, unsure, rng)
        return len(objects)

    def validate() -> Mapping[str, Any]:
        assert validation is not None
        return _measured(averaged_network(learner).cpu(), validation, mistaken_of_validation)

    known = detector_file(None if config.start == "builtin" else config.start)
    try:
        weights, _ = read_onnx(known)
        if (look := within(known, config.classes, config.colors)) is not None:
            weights, _ = read_onnx(look)
        start_second_look(network, weights)
    except (KeyError, ValueError) as err:
        raise UsageError(
            f"the second look cannot start from {config.start}: it is no detector of width {config.width:g} ({err})"
        ) from err
    rng = np.random.default_rng([config.seed, 2])
    mistaken: list[tuple[int, np.ndarray]] = []
    mistaken_of_validation: list[tuple[int, np.ndarray]] = []
    looked_at = arrays
    unsure = np.zeros(len(config.classes), dtype=np.int64)
    if config.others or config.confused:
        first = BuiltinDetector(None if config.start == "builtin" else config.start, min_score=_UNSURE)
        some = rng.permutation(len(arrays))[:_LOOKED_AT].tolist()
        mistaken, unsure = _mistakes(first, arrays, some, config.classes)
        if validation is not None:
            few = range(min(_LOOKED_AT // 10, len(validation)))
            mistaken_of_validation, _ = _mistakes(first, validation, few, config.classes)
    confused = _drawn_again(arrays, objects, unsure, rng)
    if not (config.resume and (out / CHECKPOINT).is_file()):
        settle(network, [batch(rng.integers(len(objects), size=64).tolist(), rng)[0] for _ in range(8)])
    learner = NetworkLearner(
        _KIND, network, loss, len(objects), config, prepare=lambda indices, rng, _done: batch(indices.tolist(), rng)
    )
    hooks = Hooks(
        log=log_to(out / LOG, log),
        validate=validate if validation is not None and len(_objects(validation)) else None,
        refresh=None if refresh is None else reload,
    )
    fit(learner, config, hooks, checkpoint=out / CHECKPOINT, settings=asdict(settings))
    return out / CHECKPOINT


def _measured(network: Any, arrays: SceneArrays, mistaken: Sequence[tuple[int, np.ndarray]]) -> dict[str, Any]:
    """How many objects of some images have the right class, and how many of known colour the right colour; how many
    are seen as objects, and how many wrong boxes as none."""
    import torch

    network = channels_last(network).eval()
    objects = [(int(i), int(k)) for i, k in _objects(arrays)[:1000]]
    targets = [arrays.targets[i] for i, _ in objects]
    boxes = [(i, arrays.targets[i].boxes[k]) for i, k in objects] + list(mistaken[:500])
    looked: list[list[np.ndarray]] = [[], [], []]
    with torch.inference_mode():
        for start in range(0, len(boxes), 64):
            crops = [crop(arrays.images[i], box, SIZE) for i, box in boxes[start : start + 64]]
            for kept, out in zip(looked, network(torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2)), strict=True):
                kept.append(out.numpy())
    classes, colors, present = (np.concatenate(parts) for parts in looked)
    n = len(objects)
    labels = np.array([target.labels[k] for target, (_, k) in zip(targets, objects, strict=True)])
    tints = np.array([target.colors[k] for target, (_, k) in zip(targets, objects, strict=True)])
    known = tints >= 0
    return {
        "objects": n,
        "class": float((classes[:n].argmax(1) == labels).mean()),
        "color": float((colors[:n].argmax(1) == tints)[known].mean()) if known.any() else None,
        "object": float((present[:n] > 0).mean()),
        "other": float((present[n:] <= 0).mean()) if len(boxes) > n else None,
    }


def within(detector: bytes, classes: Sequence[str], colors: Sequence[str]) -> bytes | None:
    """ONNX file of the second look within a detector's; None: it has none that knows these.

    Args:
        detector: ONNX file of a detector.
        classes: names of the classes, in order.
        colors: names of the colours, in order.

    Raises:
        ValueError: no ONNX file.
    """
    kept = read_onnx(detector)[1].get(SECOND_LOOK)
    if kept is None:
        return None
    look = base64.b64decode(kept)
    about = read_onnx(look)[1]
    known = json.loads(about["classes"]), json.loads(about["colors"])
    return look if known == ([*classes], [*colors]) else None


def export_onnx(checkpoint: Path, path: Path) -> Path:
    """Write the averaged weights of a checkpoint as the file that ``judges.detection.second_look`` runs.

    Args:
        checkpoint: checkpoint of ``train_second_look``.
        path: the ONNX file.

    Returns:
        ``path``.

    Raises:
        UsageError: there is no checkpoint, or not one of a second look.
    """
    torch = require("torch", extra="train", purpose=_PURPOSE)
    from verism.training.detector_network import ExportedSecondLook, SecondLookNetwork

    settings, header = read_settings(checkpoint, _KIND, _Settings)
    network = SecondLookNetwork(len(settings.classes), len(settings.colors), width=settings.width)
    network.load_state_dict(averaged_weights(checkpoint))
    example = torch.zeros((2, SIZE, SIZE, 3), dtype=torch.uint8)
    count = torch.export.Dim("batch", min=1, max=4096)
    properties = {
        "classes": json.dumps(settings.classes),
        "colors": json.dumps(settings.colors),
        "input_size": str(SIZE),
        "card": json.dumps({"steps": header.step, "trained_s": round(header.elapsed_s)}),
    }
    interface = OnnxInterface(inputs=("pixels",), outputs=OUTPUTS, shapes={"pixels": {0: count}})
    return write_onnx(path, ExportedSecondLook(network).eval(), (example,), interface, properties, half=True)
