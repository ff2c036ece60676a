"""Training the second look of the built-in detector: class and colour of one object, cut out of its image.

The network is the detector's own, up to a 32nd of the image, on crops of 128 pixels: it starts from the detector's
weights, sees each object at one size, and answers once for the whole crop. Its ONNX file is kept within the
detector's, see ``judges.detection.second_look``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, require
from verism.judges.detection.builtin import detector_file
from verism.judges.detection.second_look import OUTPUTS, crop
from verism.training._checkpoints import averaged_weights, read_header
from verism.training._onnx_export import OnnxInterface, read_onnx, write_onnx
from verism.training._replicas import NetworkLearner, averaged_network, channels_last
from verism.training.loop import Hooks, Log, fit, log_to
from verism.training.scene_arrays import SceneArrays
from verism.training.settings import SecondLookConfig

if TYPE_CHECKING:
    import torch

__all__ = ["CHECKPOINT", "LOG", "SIZE", "export_onnx", "train_second_look"]

CHECKPOINT = "second_look.safetensors"
LOG = "second_look.jsonl"
SIZE = 128  # side of a crop in pixels

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

    from verism.training.detector_augmentation import varied_object
    from verism.training.detector_network import SecondLookNetwork, settle, start_trunk

    config.check_length()
    objects = _objects(arrays)
    if len(objects) == 0:
        raise UsageError("there is no object to learn from; render some with `verism scenes render`")
    settings = _Settings(
        classes=config.classes, colors=config.colors, width=config.width, batch_size=config.batch_size,
        seed=config.seed,
    )  # fmt: skip
    torch.manual_seed(config.seed)
    network = SecondLookNetwork(len(config.classes), len(config.colors), width=config.width)

    def batch(indices: Sequence[int], rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        images, labels, colors = [], [], []
        for index in indices:
            i, k = (int(v) for v in objects[index])
            images.append(varied_object(arrays, i, k, rng, config.augment, SIZE))
            labels.append(int(arrays.targets[i].labels[k]))
            colors.append(int(arrays.targets[i].colors[k]))
        pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
        return pixels, torch.tensor(labels), torch.tensor(colors)

    def loss(net: Any, indices: np.ndarray, rng: np.random.Generator, _done: float) -> Mapping[str, torch.Tensor]:
        pixels, labels, colors = (t.to(learner.device) for t in batch(indices.tolist(), rng))
        with torch.autocast(learner.device.type, torch.bfloat16):
            classes, tints = net(pixels)
        known = colors >= 0
        color = F.cross_entropy(tints[known], colors[known]) if known.any() else tints.sum() * 0
        return {"class": F.cross_entropy(classes, labels, label_smoothing=0.01), "color": 0.5 * color}

    def reload() -> int:
        nonlocal arrays, objects
        assert refresh is not None
        new = refresh()
        arrays, objects = new, _objects(new)
        return len(objects)

    def validate() -> Mapping[str, Any]:
        assert validation is not None
        return _measured(averaged_network(learner).cpu(), validation)

    if not (config.resume and (out / CHECKPOINT).is_file()):
        try:
            start_trunk(network, read_onnx(detector_file(None if config.start == "builtin" else config.start))[0])
        except (KeyError, ValueError) as err:
            raise UsageError(
                f"the second look cannot start from {config.start}: it is no detector of width {config.width:g} ({err})"
            ) from err
        rng = np.random.default_rng([config.seed, 2])
        settle(network, [batch(rng.integers(len(objects), size=64).tolist(), rng)[0] for _ in range(8)])
    learner = NetworkLearner(_KIND, network, loss, len(objects), config)
    hooks = Hooks(
        log=log_to(out / LOG, log),
        validate=validate if validation is not None and len(_objects(validation)) else None,
        refresh=None if refresh is None else reload,
    )
    fit(learner, config, hooks, checkpoint=out / CHECKPOINT, settings=asdict(settings))
    return out / CHECKPOINT


def _measured(network: Any, arrays: SceneArrays) -> dict[str, Any]:
    """How many objects of some images have the right class, and how many of known colour the right colour."""
    import torch

    network = channels_last(network).eval()
    objects = _objects(arrays)[:1000]
    right, tinted, painted = 0, 0, 0
    with torch.inference_mode():
        for start in range(0, len(objects), 64):
            rows = objects[start : start + 64]
            crops = [crop(arrays.images[int(i)], arrays.targets[int(i)].boxes[int(k)], SIZE) for i, k in rows]
            classes, colors = network(torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2))
            for (i, k), label, tint in zip(rows, classes.argmax(1).tolist(), colors.argmax(1).tolist(), strict=True):
                target = arrays.targets[int(i)]
                right += label == target.labels[k]
                painted += target.colors[k] >= 0
                tinted += tint == target.colors[k]
    return {
        "objects": len(objects),
        "class": right / len(objects),
        "color": tinted / painted if painted else None,
    }


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

    header = read_header(checkpoint, _KIND)
    raw = header.settings
    settings = _Settings(**{**raw, "classes": tuple(raw["classes"]), "colors": tuple(raw["colors"])})
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
