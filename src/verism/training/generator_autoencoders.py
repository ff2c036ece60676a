"""Training the built-in generator's autoencoders of backgrounds and objects, and the codes they give.

Images, masks and boxes of *train* scenes are all they see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import require
from verism.generators.layered import MOST_OBJECTS, Description, Placed
from verism.training._checkpoints import averaged_weights, read_settings
from verism.training._replicas import NetworkLearner, autocast
from verism.training.loop import Hooks, Log, fit
from verism.training.scene_layers import MARGIN, OTHER, OWN, SIDE_TABLES, Layers
from verism.training.settings import AutoencoderConfig

if TYPE_CHECKING:
    import torch

    from verism.training.generator_network import FigureCoder, SceneryCoder

__all__ = ["AUTOENCODERS", "KIND", "PURPOSE", "describe_images", "load_autoencoders", "train_autoencoders"]

AUTOENCODERS = "painter.safetensors"  # the name and kind that checkpoints have had from the first
KIND = "painter"
PURPOSE = "training of the built-in generator"

_NOT_MIRRORED = ("stop sign",)  # its letters would be


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What a checkpoint must share with the training that resumes it."""

    labels: tuple[str, ...]
    backgrounds: tuple[str, ...]
    width: float
    batch_size: int
    seed: int
    scenery_width: float | None = None  # as width


def _network(settings: _Settings) -> Any:
    from torch import nn

    from verism.training.generator_network import FigureCoder, SceneryCoder

    figures = FigureCoder(len(settings.labels), settings.width)  # first: a seed's weights are drawn in this order
    scenery = SceneryCoder(len(settings.backgrounds), settings.scenery_width or settings.width)
    return nn.ModuleDict({"figures": figures, "scenery": scenery})


def train_autoencoders(layers: Layers, config: AutoencoderConfig, *, out: Path, log: Log | None = None) -> Path:
    """Train the autoencoders of sceneries and objects; see ``loop.fit`` for stopping and going on.

    Args:
        layers: images taken apart.
        config: the settings.
        out: folder for the checkpoint ``painter.safetensors``, made if missing.
        log: receives each line of the log, see ``loop.Hooks``.

    Returns:
        The checkpoint.

    Raises:
        UsageError: neither steps nor minutes given, or a checkpoint of other settings.
        VerismError: the loss stays infinite.
    """
    require("torch", extra="train", purpose=PURPOSE)
    import torch

    settings = _Settings(
        labels=layers.labels, backgrounds=layers.backgrounds, width=config.width, batch_size=config.batch_size,
        seed=config.seed, scenery_width=config.scenery_width,
    )  # fmt: skip
    torch.manual_seed(config.seed)
    network = _network(settings)
    label_ids = {name: i for i, name in enumerate(settings.labels)}
    ground_ids = {name: i for i, name in enumerate(settings.backgrounds)}
    labels = np.array([label_ids[f.label] for f in layers.figures])
    grounds = np.array([ground_ids[s.background] for s in layers.scenes])
    boxes = np.array([(f.x, f.y, f.side) for f in layers.figures], dtype=np.float32)
    turnable = np.array([_turnable(s.objects) for s in layers.scenes], dtype=bool)

    def loss(net: Any, images: np.ndarray, rng: np.random.Generator, _done: float) -> Mapping[str, torch.Tensor]:
        turn = (rng.random(len(images)) < 0.5) & turnable[images]
        batch = _batch(layers, images, turn)
        figures = batch.pop("figures")
        batch |= {
            "labels": labels[figures],
            "grounds": grounds[images],
            "boxes": _turned_boxes(boxes[figures], turn[batch["owners"]]),
        }
        tensors = {k: torch.from_numpy(v).to(learner.device) for k, v in batch.items()}
        return _losses(net["figures"], net["scenery"], tensors)

    checkpoint = out / AUTOENCODERS
    learner = NetworkLearner(KIND, network, loss, len(layers), config)
    shared = {name: value for name, value in asdict(settings).items() if value is not None}
    fit(learner, config, Hooks(log=log), checkpoint=checkpoint, settings=shared)
    return checkpoint


def _turned_boxes(boxes: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Centres and sides (M, 3) of figures, mirrored left to right where ``turn`` (M,) says so."""
    boxes = boxes.copy()
    boxes[turn, 0] = 1 - boxes[turn, 0]
    return boxes


def _batch(layers: Layers, images: np.ndarray, turn: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays of some images and of their figures.

    Args:
        layers: all images.
        images: indices of N of them.
        turn: which of the N to mirror left to right, shape (N,), bool.

    Returns:
        As in ``Layers``; and of each of the M figures its index, ``figures``, and its image among the N, ``owners``.
    """
    figures = np.array([f for p in images for f in layers.of_image[p]], dtype=np.int64)
    owners = np.array([i for i, p in enumerate(images) for _ in layers.of_image[p]], dtype=np.int64)

    def taken(array: np.ndarray, which: np.ndarray, turned: np.ndarray) -> np.ndarray:
        out = np.stack([array[i] for i in which]) if len(which) else np.zeros((0, *array.shape[1:]), array.dtype)
        out[turned] = out[turned, :, ::-1]
        return out

    return {
        "scenery": taken(layers.scenery, images, turn),
        "hidden": taken(layers.hidden, images, turn),
        "crops": taken(layers.crops, figures, turn[owners]),
        "parts": taken(layers.parts, figures, turn[owners]),
        "figures": figures,
        "owners": owners,
    }


def _figure_input(crops: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
    """Crops (M, 96, 96, 3) and parts (M, 96, 96) as the encoder reads them: (M, 5, 96, 96)."""
    import torch

    rgb = crops.permute(0, 3, 1, 2).float() / 255
    own = (parts == OWN).float()[:, None]
    free = (parts != OTHER).float()[:, None]
    # Of the object alone the colours: its surroundings are encoded with the background.
    return torch.cat([rgb * own, own, free], dim=1)


def _scenery_input(scenery: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Sceneries (N, 128, 128, 3) and where they are hidden as the encoder reads them: (N, 4, 128, 128)."""
    import torch

    seen = (~hidden).float()[:, None]
    return torch.cat([scenery.permute(0, 3, 1, 2).float() / 255 * seen, seen], dim=1)


def _losses(
    figure_coder: FigureCoder, scenery_coder: SceneryCoder, batch: Mapping[str, torch.Tensor]
) -> Mapping[str, torch.Tensor]:
    """Parts of the loss.

    Args:
        figure_coder: the autoencoder of objects.
        scenery_coder: the autoencoder of sceneries.
        batch: what ``_batch`` gives, but for ``figures``; classes of the objects, ``labels`` (M,), and of the
            sceneries, ``grounds`` (N,); x, y and side of the objects, ``boxes`` (M, 3).
    """
    import torch
    import torch.nn.functional as F

    scenery, hidden, grounds = batch["scenery"], batch["hidden"], batch["grounds"]
    crops, parts, owners = batch["crops"], batch["parts"], batch["owners"]
    labels, boxes = batch["labels"], batch["boxes"]
    with autocast(scenery.device.type):
        q = scenery_coder.encode(_scenery_input(scenery, hidden).contiguous(memory_format=torch.channels_last), grounds)
        ground = torch.sigmoid(scenery_coder.decode(q, grounds).float())
    true_ground = scenery.permute(0, 3, 1, 2).float() / 255
    seen = (~hidden).float()[:, None]
    losses = {"scenery": ((ground - true_ground).abs() * seen).sum() / (3 * seen.sum()).clamp(min=1)}
    losses["scenery_edges"] = 0.5 * _edge_loss(ground, true_ground, seen)
    if len(owners) == 0:
        return losses
    with autocast(scenery.device.type):
        inputs = _figure_input(crops, parts).contiguous(memory_format=torch.channels_last)
        q = figure_coder.encode(inputs, labels, boxes[:, 2])
        decoded = figure_coder.decode(q, labels, boxes[:, 2]).float()
    truth = crops.permute(0, 3, 1, 2).float() / 255
    own = (parts == OWN).float()[:, None]
    beside = (parts == SIDE_TABLES).float()[:, None]
    color = torch.sigmoid(decoded[:, :3])
    per_figure = own.sum(dim=(1, 2, 3)).clamp(min=1)
    losses["color"] = 2 * (((color - truth).abs() * own).sum(dim=(1, 2, 3)) / (3 * per_figure)).mean()
    losses["edges"] = 0.5 * _edge_loss(color, truth, own)
    free = own + beside
    outline = F.binary_cross_entropy_with_logits(decoded[:, 3:4], own, weight=free, reduction="sum")
    losses["outline"] = outline / free.sum().clamp(min=1)
    # A shadow darkens the scenery around the object; the scenery is what the other network decodes there.
    half = crops.shape[1] // 2
    steps = (torch.arange(half, device=boxes.device) + 0.5) / half * 2 - 1
    reach = boxes[:, 2] * MARGIN
    x = (boxes[:, 0, None] * 2 - 1) + steps * reach[:, None]
    y = (boxes[:, 1, None] * 2 - 1) + steps * reach[:, None]
    grid = torch.stack([x[:, None, :].expand(-1, half, -1), y[:, :, None].expand(-1, -1, half)], dim=-1)
    behind = F.grid_sample(ground.detach()[owners], grid, mode="bilinear", padding_mode="border", align_corners=False)
    shadow = F.avg_pool2d(torch.sigmoid(decoded[:, 4:5]), 2)
    room = F.avg_pool2d(beside, 2)
    around = F.avg_pool2d(truth, 2)
    losses["shadow"] = (((1 - shadow) * behind - around).abs() * room).sum() / (3 * room.sum()).clamp(min=1)
    losses["shadow_size"] = 0.02 * shadow.mean()
    return losses


def _edge_loss(a: torch.Tensor, b: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of neighbouring pixels' differences: keeps outlines sharp."""
    d = (a - b) * where
    both_x = where[..., :, 1:] * where[..., :, :-1]
    both_y = where[..., 1:, :] * where[..., :-1, :]
    dx = ((d[..., :, 1:] - d[..., :, :-1]).abs() * both_x).sum() / (3 * both_x.sum()).clamp(min=1)
    dy = ((d[..., 1:, :] - d[..., :-1, :]).abs() * both_y).sum() / (3 * both_y.sum()).clamp(min=1)
    return dx + dy


def load_autoencoders(checkpoint: Path) -> tuple[_Settings, Any]:
    """Settings and averaged network (``figures`` and ``scenery``) of a checkpoint."""
    settings, _ = read_settings(checkpoint, KIND, _Settings)
    network = _network(settings)
    network.load_state_dict(averaged_weights(checkpoint))
    return settings, network.eval()


def describe_images(layers: Layers, autoencoders: Path, *, batch_size: int = 64) -> list[list[Description]]:
    """The descriptions of all images: as they are, and, where that makes sense, mirrored left to right.

    Args:
        layers: images taken apart.
        autoencoders: checkpoint of ``train_autoencoders``.
        batch_size: images at a time; the descriptions do not depend on it.

    Returns:
        Per image, one or two descriptions; those of images with more objects than fit are left out (an empty list).
    """
    require("torch", extra="train", purpose=PURPOSE)
    import torch

    from verism.training.generator_network import to_codes

    settings, network = load_autoencoders(autoencoders)
    label_ids = {name: i for i, name in enumerate(settings.labels)}
    ground_ids = {name: i for i, name in enumerate(settings.backgrounds)}
    described: list[list[Description]] = [[] for _ in range(len(layers))]
    for turned in (False, True):
        for start in range(0, len(layers), batch_size):
            images = [
                p
                for p in range(start, min(start + batch_size, len(layers)))
                if not turned or _turnable(layers.scenes[p].objects)
            ]
            if not images:
                continue
            batch = _batch(layers, np.array(images), np.full(len(images), turned))
            boxes = np.array([(f.x, f.y, f.side) for f in (layers.figures[i] for i in batch["figures"])], np.float32)
            boxes = _turned_boxes(boxes.reshape(-1, 3), np.full(len(boxes), turned))
            labels = [layers.figures[i].label for i in batch["figures"]]
            with torch.inference_mode():
                grounds = torch.tensor([ground_ids[layers.scenes[p].background] for p in images])
                inputs = _scenery_input(torch.from_numpy(batch["scenery"]), torch.from_numpy(batch["hidden"]))
                scenery = to_codes(network["scenery"].encode(inputs, grounds)).numpy()
                inputs = _figure_input(torch.from_numpy(batch["crops"]), torch.from_numpy(batch["parts"]))
                looks = to_codes(
                    network["figures"].encode(
                        inputs, torch.tensor([label_ids[n] for n in labels]), torch.from_numpy(boxes[:, 2])
                    )
                ).numpy()
            for i, image in enumerate(images):
                own = np.flatnonzero(batch["owners"] == i)
                if len(own) > MOST_OBJECTS:
                    continue
                described[image].append(
                    Description(
                        background=layers.scenes[image].background,
                        codes=tuple(scenery[i].tolist()),
                        objects=tuple(
                            Placed(
                                label=labels[k], x=float(boxes[k, 0]), y=float(boxes[k, 1]),
                                side=float(boxes[k, 2]), codes=tuple(looks[k].tolist()),
                            )
                            for k in own
                        ),
                    )
                )  # fmt: skip
    return described


def _turnable(objects: Sequence[Any]) -> bool:
    return all(o.label not in _NOT_MIRRORED for o in objects)
