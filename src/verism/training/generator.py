"""Training and exporting the built-in text-to-image model.

Two painters learn first to describe sceneries and objects by a few whole numbers, and to paint them from these; then
the writer learns to write such descriptions for a prompt. Both can be stopped, resumed and continued at any time.
Prompts, pictures, masks and boxes of *train* scenes are all they see.
"""

from __future__ import annotations

import json
import math
import os
import platform
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, require
from verism.files import write_json
from verism.generators.layered import (
    LOG_SIDES,
    MOST_OBJECTS,
    PLACES,
    Description,
    Language,
    Placed,
    mirrored_text,
    words_of,
)
from verism.records import Scene
from verism.training.fitting import Budget, Log, averaged_weights, fit, read_checkpoint
from verism.training.layered_data import BESIDE, MARGIN, OTHER, OWN, Layers, load_layers
from verism.training.onnx_export import write_onnx
from verism.training.pairs import nested_share

if TYPE_CHECKING:
    import torch

    from verism.training.layered_network import FigureCoder, SceneryCoder

__all__ = [
    "LOG",
    "PAINTER",
    "WRITER",
    "chosen_scenes",
    "describe_pictures",
    "export_generator",
    "train_and_export",
    "train_painter",
    "train_writer",
]

PAINTER = "painter.safetensors"
WRITER = "writer.safetensors"
LOG = "log.jsonl"

_PURPOSE = "training of the built-in generator"
_FURTHEST = PLACES // 6  # steps that objects are moved for variety
_PAINTER_SHARE = 0.6  # of the time goes to the painters; the writer needs less
_NOT_MIRRORED = ("stop sign",)  # its letters would be


@dataclass(frozen=True, kw_only=True)
class _Painting:
    """What a painter's checkpoint must share with the training that resumes it."""

    labels: tuple[str, ...]
    backgrounds: tuple[str, ...]
    width: float
    batch_size: int
    seed: int


# --------------------------------------------------------------------------------------------------------------------
# The painters
# --------------------------------------------------------------------------------------------------------------------
def _painter(labels: int, backgrounds: int, width: float) -> Any:
    from torch import nn

    from verism.training.layered_network import FigureCoder, SceneryCoder

    return nn.ModuleDict({"figures": FigureCoder(labels, width), "scenery": SceneryCoder(backgrounds, width)})


def train_painter(
    layers: Layers,
    budget: Budget,
    *,
    out: Path,
    width: float = 1.0,
    batch_size: int = 16,
    seed: int = 0,
    peak_lr: float = 1e-3,
    device: str = "auto",
    workers: int | None = None,
    resume: bool = True,
    log: Log | None = None,
) -> Path:
    """Train the autoencoders of sceneries and objects; returns the checkpoint ``painter.safetensors`` in ``out``.

    Args:
        width: multiplies the channels of the networks.
        batch_size: pictures; each brings its scenery and all its objects.
    """
    require("torch", extra="train", purpose=_PURPOSE)
    import torch

    settings = _Painting(
        labels=layers.labels, backgrounds=layers.backgrounds, width=width, batch_size=batch_size, seed=seed
    )
    torch.manual_seed(seed)
    network = _painter(len(settings.labels), len(settings.backgrounds), width)
    label_ids = {name: i for i, name in enumerate(settings.labels)}
    ground_ids = {name: i for i, name in enumerate(settings.backgrounds)}
    labels = np.array([label_ids[f.label] for f in layers.figures])
    grounds = np.array([ground_ids[s.background] for s in layers.scenes])
    places = np.array([(f.x, f.y, f.side) for f in layers.figures], dtype=np.float32)
    turnable = np.array([_turnable(s.objects) for s in layers.scenes], dtype=bool)

    def loss(net: Any, pictures: np.ndarray, rng: np.random.Generator, _done: float) -> Mapping[str, torch.Tensor]:
        turn = (rng.random(len(pictures)) < 0.5) & turnable[pictures]
        batch = _painter_batch(layers, pictures, turn)
        figures = batch.pop("figures")
        batch |= {
            "labels": labels[figures],
            "grounds": grounds[pictures],
            "places": _turned_places(places[figures], turn[batch["owners"]]),
        }
        target = next(net.parameters()).device
        return _painter_losses(
            net["figures"], net["scenery"], **{k: torch.from_numpy(v).to(target) for k, v in batch.items()}
        )

    checkpoint = out / PAINTER
    fit(
        network, loss, len(layers), budget, checkpoint=checkpoint, settings=asdict(settings), batch_size=batch_size,
        peak_lr=peak_lr, seed=seed, device=device, workers=workers, resume=resume, log=log,
    )  # fmt: skip
    return checkpoint


def _turned_places(places: np.ndarray, turn: np.ndarray) -> np.ndarray:
    places = places.copy()
    places[turn, 0] = 1 - places[turn, 0]
    return places


def _painter_batch(layers: Layers, pictures: np.ndarray, turn: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays of some pictures and of their figures, whose numbers are ``figures`` and whose pictures ``owners``.

    Pictures of ``turn`` are mirrored left to right.
    """
    figures = np.array([f for p in pictures for f in layers.of_picture[p]], dtype=np.int64)
    owners = np.array([i for i, p in enumerate(pictures) for _ in layers.of_picture[p]], dtype=np.int64)

    def taken(array: np.ndarray, which: np.ndarray, turned: np.ndarray) -> np.ndarray:
        out = np.stack([array[i] for i in which]) if len(which) else np.zeros((0, *array.shape[1:]), array.dtype)
        out[turned] = out[turned, :, ::-1]
        return out

    return {
        "scenery": taken(layers.scenery, pictures, turn),
        "hidden": taken(layers.hidden, pictures, turn),
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
    # Only the object itself is told in colour: its surroundings are the scenery's business.
    return torch.cat([rgb * own, own, free], dim=1)


def _scenery_input(scenery: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Sceneries (N, 128, 128, 3) and where they are hidden as the encoder reads them: (N, 4, 128, 128)."""
    import torch

    seen = (~hidden).float()[:, None]
    return torch.cat([scenery.permute(0, 3, 1, 2).float() / 255 * seen, seen], dim=1)


def _painter_losses(
    figure_coder: FigureCoder,
    scenery_coder: SceneryCoder,
    *,
    scenery: torch.Tensor,
    hidden: torch.Tensor,
    crops: torch.Tensor,
    parts: torch.Tensor,
    owners: torch.Tensor,
    labels: torch.Tensor,
    grounds: torch.Tensor,
    places: torch.Tensor,
) -> Mapping[str, torch.Tensor]:
    """Parts of the loss; the tensors are those of ``_painter_batch``, classes, and x, y, side of the figures."""
    import torch
    import torch.nn.functional as F

    with torch.autocast(scenery.device.type, torch.bfloat16):
        q = scenery_coder.encode(_scenery_input(scenery, hidden).contiguous(memory_format=torch.channels_last), grounds)
        ground = torch.sigmoid(scenery_coder.decode(q, grounds).float())
    true_ground = scenery.permute(0, 3, 1, 2).float() / 255
    seen = (~hidden).float()[:, None]
    losses = {"scenery": ((ground - true_ground).abs() * seen).sum() / (3 * seen.sum()).clamp(min=1)}
    losses["scenery_edges"] = 0.5 * _edge_loss(ground, true_ground, seen)
    if len(owners) == 0:
        return losses
    with torch.autocast(scenery.device.type, torch.bfloat16):
        inputs = _figure_input(crops, parts).contiguous(memory_format=torch.channels_last)
        q = figure_coder.encode(inputs, labels, places[:, 2])
        painted = figure_coder.decode(q, labels, places[:, 2]).float()
    truth = crops.permute(0, 3, 1, 2).float() / 255
    own = (parts == OWN).float()[:, None]
    beside = (parts == BESIDE).float()[:, None]
    color = torch.sigmoid(painted[:, :3])
    per_figure = own.sum(dim=(1, 2, 3)).clamp(min=1)
    losses["color"] = 2 * (((color - truth).abs() * own).sum(dim=(1, 2, 3)) / (3 * per_figure)).mean()
    losses["edges"] = 0.5 * _edge_loss(color, truth, own)
    free = own + beside
    outline = F.binary_cross_entropy_with_logits(painted[:, 3:4], own, weight=free, reduction="sum")
    losses["outline"] = outline / free.sum().clamp(min=1)
    # A shadow darkens the scenery around the object; the scenery is what the other network paints there.
    half = crops.shape[1] // 2
    steps = (torch.arange(half, device=places.device) + 0.5) / half * 2 - 1
    reach = places[:, 2] * MARGIN
    x = (places[:, 0, None] * 2 - 1) + steps * reach[:, None]
    y = (places[:, 1, None] * 2 - 1) + steps * reach[:, None]
    grid = torch.stack([x[:, None, :].expand(-1, half, -1), y[:, :, None].expand(-1, -1, half)], dim=-1)
    behind = F.grid_sample(ground.detach()[owners], grid, mode="bilinear", padding_mode="border", align_corners=False)
    shadow = F.avg_pool2d(torch.sigmoid(painted[:, 4:5]), 2)
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


# --------------------------------------------------------------------------------------------------------------------
# The writer
# --------------------------------------------------------------------------------------------------------------------
def load_painter(checkpoint: Path) -> tuple[_Painting, Any]:
    """Settings and averaged network (``figures`` and ``scenery``) of a painter's checkpoint."""
    raw, _, _ = read_checkpoint(checkpoint)
    settings = _Painting(**(raw | {k: tuple(raw[k]) for k in ("labels", "backgrounds")}))
    network = _painter(len(settings.labels), len(settings.backgrounds), settings.width)
    network.load_state_dict(averaged_weights(checkpoint))
    return settings, network.eval()


def describe_pictures(layers: Layers, painter: Path, *, batch_size: int = 64) -> list[list[Description]]:
    """The descriptions of all pictures: as they are, and, where that makes sense, mirrored left to right.

    Returns:
        Per picture, one or two descriptions; those of pictures with more objects than fit are left out (an empty list).
    """
    require("torch", extra="train", purpose=_PURPOSE)
    import torch

    from verism.training.layered_network import to_codes

    settings, network = load_painter(painter)
    label_ids = {name: i for i, name in enumerate(settings.labels)}
    ground_ids = {name: i for i, name in enumerate(settings.backgrounds)}
    described: list[list[Description]] = [[] for _ in range(len(layers))]
    for turned in (False, True):
        for start in range(0, len(layers), batch_size):
            pictures = [
                p
                for p in range(start, min(start + batch_size, len(layers)))
                if not turned or _turnable(layers.scenes[p].objects)
            ]
            if not pictures:
                continue
            batch = _painter_batch(layers, np.array(pictures), np.full(len(pictures), turned))
            places = np.array([(f.x, f.y, f.side) for f in (layers.figures[i] for i in batch["figures"])], np.float32)
            places = _turned_places(places.reshape(-1, 3), np.full(len(places), turned))
            labels = [layers.figures[i].label for i in batch["figures"]]
            with torch.inference_mode():
                grounds = torch.tensor([ground_ids[layers.scenes[p].background] for p in pictures])
                inputs = _scenery_input(torch.from_numpy(batch["scenery"]), torch.from_numpy(batch["hidden"]))
                scenery = to_codes(network["scenery"].encode(inputs, grounds)).numpy()
                inputs = _figure_input(torch.from_numpy(batch["crops"]), torch.from_numpy(batch["parts"]))
                looks = to_codes(
                    network["figures"].encode(
                        inputs, torch.tensor([label_ids[n] for n in labels]), torch.from_numpy(places[:, 2])
                    )
                ).numpy()
            for i, picture in enumerate(pictures):
                own = np.flatnonzero(batch["owners"] == i)
                if len(own) > MOST_OBJECTS:
                    continue
                described[picture].append(
                    Description(
                        background=layers.scenes[picture].background,
                        codes=tuple(scenery[i].tolist()),
                        objects=tuple(
                            Placed(
                                label=labels[k], x=float(places[k, 0]), y=float(places[k, 1]),
                                side=float(places[k, 2]), codes=tuple(looks[k].tolist()),
                            )
                            for k in own
                        ),
                    )
                )  # fmt: skip
    return described


def _turnable(objects: Sequence[Any]) -> bool:
    return all(o.label not in _NOT_MIRRORED for o in objects)


def make_language(layers: Layers, painter: Path) -> Language:
    """The tokens of these pictures' prompts and of the painter's descriptions."""
    from verism.training.layered_network import FIGURE_CODES, SCENERY_CODES

    settings, _ = load_painter(painter)
    texts = [words_of(s.text) for s in layers.scenes]
    return Language(
        words=tuple(sorted({w for t in texts for w in t} | {"left", "right"})),
        labels=settings.labels,
        backgrounds=settings.backgrounds,
        text_length=max(len(t) for t in texts),
        scenery_codes=SCENERY_CODES,
        figure_codes=FIGURE_CODES,
    )


def train_writer(
    layers: Layers,
    budget: Budget,
    *,
    out: Path,
    width: int = 192,
    depth: int = 4,
    batch_size: int = 32,
    seed: int = 0,
    peak_lr: float = 1e-3,
    device: str = "auto",
    workers: int | None = None,
    resume: bool = True,
    log: Log | None = None,
) -> Path:
    """Train the transformer that writes descriptions; returns the checkpoint ``writer.safetensors`` in ``out``.

    The painter's checkpoint must be in ``out``. One picture in fifty is held out, to log how well new ones are told.
    """
    require("torch", extra="train", purpose=_PURPOSE)
    import torch
    import torch.nn.functional as F

    from verism.training.layered_network import Writer

    language = make_language(layers, out / PAINTER)
    described = describe_pictures(layers, out / PAINTER)
    rows, kinds = _rows(layers, described, language)
    held_out = np.array([zlib.crc32(s.scene_id.encode()) % 50 == 0 for s in layers.scenes])
    learn = [i for i in range(len(rows)) if rows[i] and not held_out[i]]
    check = [i for i in range(len(rows)) if rows[i] and held_out[i]]
    settings = {"language": asdict(language), "width": width, "depth": depth, "batch_size": batch_size, "seed": seed}
    torch.manual_seed(seed)
    network = Writer(torch.from_numpy(token_features(language)), language.length, width=width, layers=depth)
    nearly = torch.from_numpy(_nearly_right(language))
    names = sorted(set(kinds))
    kind_of = torch.tensor([names.index(k) for k in kinds[language.text_length :]])
    # What things are and where decides whether a picture is right: one such token counts as much as five of looks.
    weights = torch.tensor([5.0 if n in ("label", "x", "y", "side") else 1.0 for n in names])[kind_of]
    spans = [language.span(k) for k in kinds[language.text_length :]]
    outside = torch.ones(len(spans), language.vocabulary, dtype=torch.bool)
    for position, (low, high) in enumerate(spans):
        outside[position, low:high] = False

    def token_losses(net: Any, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=net.training):
            logits = net(tokens[:, :-1])
        logits = logits[:, language.text_length - 1 :].float().masked_fill(outside.to(logits.device), -1e9)
        truth = tokens[:, language.text_length :]
        shares = F.log_softmax(logits, dim=-1)
        if net.training:
            each = -(nearly.to(shares.device)[truth] * shares).sum(dim=-1)
        else:
            each = -shares.gather(2, truth[..., None])[..., 0]
        return each, (truth != 0).float()

    def loss(net: Any, numbers: np.ndarray, rng: np.random.Generator, _done: float) -> Mapping[str, torch.Tensor]:
        some = [_moved(rows[learn[i]][int(rng.integers(len(rows[learn[i]])))], language, rng) for i in numbers]
        tokens = torch.tensor(some, device=next(net.parameters()).device)
        each, there = token_losses(net, tokens)
        heavy = there * weights.to(each.device)
        return {"tokens": (each * heavy).sum() / heavy.sum()}

    def validate(net: Any) -> Mapping[str, float]:
        told: dict[str, float] = {}
        if not check:
            return told
        tokens = torch.tensor([rows[i][0] for i in check], device=next(net.parameters()).device)
        each, there = token_losses(net, tokens)
        for k, name in enumerate(names):
            here = (kind_of == k)[None].to(each.device) * there
            if float(here.sum()):
                told[name] = round(float((each * here).sum() / here.sum()), 3)
        return told

    checkpoint = out / WRITER
    fit(
        network, loss, len(learn), budget, checkpoint=checkpoint, settings=settings, batch_size=batch_size,
        peak_lr=peak_lr, seed=seed, weight_decay=0.05, device=device, workers=workers, resume=resume, log=log,
        validate=validate, validate_every_s=120.0,
    )  # fmt: skip
    return checkpoint


def token_features(language: Language) -> np.ndarray:
    """Features of the number that a token says, shape (vocabulary, F), float32: cosines, from coarse to fine.

    Places across, places down, sizes and codes have features of their own, which stay zero for all other tokens.
    """
    blocks = {"x": 0, "y": 1, "side": 2}
    waves = 16
    out = np.zeros((language.vocabulary, (len(blocks) + 1) * waves), dtype=np.float32)
    for kind, numbers in language.levels().items():
        low, high = language.span(kind)
        start = blocks.get(kind, len(blocks)) * waves
        each = waves // numbers.shape[1]
        cosines = np.cos(np.pi * numbers[:, :, None] * np.arange(each))  # (tokens, numbers, waves)
        out[low:high, start : start + waves] = cosines.reshape(len(numbers), -1)
    return out


def _nearly_right(language: Language) -> np.ndarray:
    """Per true token, what the writer shall expect, shape (vocabulary, vocabulary): mostly it, a little its neighbours.

    A place one step beside is as good; a level of a code one step beside looks much the same.
    """
    out = np.eye(language.vocabulary, dtype=np.float32)
    for kind, numbers in language.levels().items():
        low, high = language.span(kind)
        steps = len(np.unique(numbers[:, 0])) - 1
        apart = np.square((numbers[:, None] - numbers[None]) * (steps if numbers.shape[1] == 2 else high - low)).sum(-1)
        shares = np.exp(-apart / (2 * (0.4 if numbers.shape[1] == 2 else 1.0) ** 2))
        out[low:high, low:high] = shares / shares.sum(axis=1, keepdims=True)
    return out


def _moved(row: Sequence[int], language: Language, rng: np.random.Generator) -> list[int]:
    """The row of a picture whose objects are all moved to the left or right, as far as they stay inside."""
    (x_low, _), (side_low, side_high) = language.span("x"), language.span("side")
    start, stride = language.text_length + 1 + language.scenery_codes, 4 + language.figure_codes
    at = [p for p in range(start, len(row) - stride, stride) if row[p] not in (0, language.end)]
    if not at:
        return list(row)
    x = np.array([row[p + 1] - x_low for p in at])
    low, high = LOG_SIDES
    sides = np.array(
        [math.exp(low + (row[p + 3] - side_low + 0.5) / (side_high - side_low) * (high - low)) for p in at]
    )
    half = np.ceil(sides * PLACES / 2)
    least, most = int((half - x).max()), int((PLACES - 1 - half - x).min())
    least, most = max(least, -_FURTHEST), min(most, _FURTHEST)
    moved = list(row)
    if least < most:
        by = int(rng.integers(min(least, 0), max(most, 0) + 1))
        for p in at:
            moved[p + 1] += by
    return moved


def _rows(
    layers: Layers, described: Sequence[Sequence[Description]], language: Language
) -> tuple[list[list[list[int]]], list[str]]:
    """Per picture its rows of tokens, as it is and mirrored, padded to one length; and the kind at each position."""
    rows: list[list[list[int]]] = []
    for scene, descriptions in zip(layers.scenes, described, strict=True):
        own = []
        for text, description in zip((scene.text, mirrored_text(scene.text)), descriptions, strict=False):
            row = language.read(text)[0] + language.write(description)
            own.append(row + [0] * (language.length - len(row)))
        rows.append(own)
    return rows, [language.kind_at(p) for p in range(language.length)]


# --------------------------------------------------------------------------------------------------------------------
# Export
# --------------------------------------------------------------------------------------------------------------------
def export_generator(folder: Path, out: Path, card: Mapping[str, Any] | None = None) -> Path:
    """Write the averaged weights of both checkpoints in ``folder`` as the three ONNX files that ``builtin`` runs.

    Args:
        card: anything JSON-serialisable worth knowing about the training; written into ``writer.onnx``.
    """
    torch = require("torch", extra="train", purpose=_PURPOSE)
    from verism.training.layered_network import Writer, WriterStep

    settings, painter = load_painter(folder / PAINTER)
    raw, _, meta = read_checkpoint(folder / WRITER)
    language = Language.from_json(raw["language"])
    if (language.labels, language.backgrounds) != (settings.labels, settings.backgrounds):
        raise UsageError(f"{folder}: {WRITER} and {PAINTER} know other classes; train the writer anew")
    features = torch.from_numpy(token_features(language))
    writer = Writer(features, language.length, width=raw["width"], layers=raw["depth"])
    writer.load_state_dict(averaged_weights(folder / WRITER))
    writer.eval()
    painter_meta = read_checkpoint(folder / PAINTER)[2]
    told = {
        "language": json.dumps(asdict(language)),
        "margin": str(MARGIN),
        "card": json.dumps(
            {
                "writer_steps": int(meta["step"]),
                "writer_s": round(float(meta["seconds"])),
                "painter_steps": int(painter_meta["step"]),
                "painter_s": round(float(painter_meta["seconds"])),
                **(card or {}),
            }
        ),
    }
    some = torch.export.Dim("some", min=1, max=4096)
    memory = torch.zeros(raw["depth"], 2, 2, writer.heads, language.length, writer.width // writer.heads)
    write_onnx(
        out / "writer.onnx", WriterStep(writer).eval(),
        (torch.zeros(2, dtype=torch.long), torch.tensor([3]), memory),
        inputs=["tokens", "position", "memory"], outputs=["logits", "memory_out"],
        shapes={"tokens": {0: some}, "position": None, "memory": {2: some}}, told=told,
    )  # fmt: skip
    write_onnx(
        out / "figures.onnx", painter["figures"],
        (torch.zeros(2, language.figure_codes, dtype=torch.long), torch.zeros(2, dtype=torch.long), torch.ones(2)),
        inputs=["codes", "labels", "sides"], outputs=["layers"],
        shapes={"codes": {0: some}, "labels": {0: some}, "sides": {0: some}}, told={},
    )  # fmt: skip
    write_onnx(
        out / "scenery.onnx", painter["scenery"],
        (torch.zeros(2, language.scenery_codes, dtype=torch.long), torch.zeros(2, dtype=torch.long)),
        inputs=["codes", "labels"], outputs=["picture"],
        shapes={"codes": {0: some}, "labels": {0: some}}, told={},
    )  # fmt: skip
    return out


# --------------------------------------------------------------------------------------------------------------------
# All of it
# --------------------------------------------------------------------------------------------------------------------
def chosen_scenes(
    scenes: Sequence[Scene], *, skills: Sequence[str] | None = None, fraction: float = 1.0, seed: int = 0
) -> list[Scene]:
    """The scenes to learn from: of these skills (all that have prompts, if not given), a share of each."""
    chosen: list[Scene] = []
    for skill in dict.fromkeys(s.skill for s in scenes):
        if skill != "empty" and (skills is None or skill in skills):
            chosen += nested_share([s for s in scenes if s.skill == skill], fraction, seed=seed)
    return chosen


def train_and_export(
    scene_dirs: Sequence[Path],
    out: Path,
    *,
    suite: str = "paintskills",
    skills: Sequence[str] | None = None,
    fraction: float = 1.0,
    minutes: float | None = None,
    steps: int | None = None,
    width: float = 1.0,
    batch_size: int = 16,
    peak_lr: float = 1e-3,
    seed: int = 0,
    device: str = "auto",
    workers: int | None = None,
    resume: bool = True,
    export_only: bool = False,
    cache: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train both parts on rendered train scenes and write ``model/`` with the three ONNX files into ``out``.

    Stopped at any time it goes on from its checkpoints; called with a larger budget it trains on.

    Args:
        scene_dirs: folders written by ``verism scenes render --split train --masks``.
        skills: which to learn; all of the folders if not given.
        fraction: of the scenes of each skill, chosen as ``pairs.nested_share`` does: for the training-scale study.
        minutes: of the whole training; the painters get three fifths. steps: or of each part.
        width: multiplies the channels of the painters. batch_size: pictures per step of the painters.
        peak_lr: highest learning rate of the painters; the writer's is half as much again.
        cache: folder for the pictures taken apart; ``out/cache`` if not given.
        export_only: write the checkpoints as they are.

    Returns:
        The card: pictures, steps, seconds, hardware, settings, versions.

    Raises:
        UsageError: no budget, or scenes that cannot be learnt from.
    """
    tell = say or (lambda _: None)
    if minutes is None and steps is None and not export_only:
        raise UsageError("say how long to train: --minutes or --steps")

    def choose(scenes: Sequence[Scene]) -> list[Scene]:
        return chosen_scenes(scenes, skills=skills, fraction=fraction, seed=seed)

    layers = load_layers(scene_dirs, cache or out / "cache", suite=suite, choose=choose, log=tell)
    out.mkdir(parents=True, exist_ok=True)
    seconds = None if minutes is None else minutes * 60
    if not export_only:
        with (out / LOG).open("a", encoding="utf-8") as log_file:

            def log(part: str) -> Log:
                def write(line: Mapping[str, Any]) -> None:
                    log_file.write(json.dumps({"part": part, **line}) + "\n")
                    log_file.flush()
                    if line.get("event") == "train":
                        loss = sum(line["loss"].values())
                        tell(f"{part}: {line['done']:.1%}, step {line['step']:,}, loss {loss:.4f}")

                return write

            train_painter(
                layers,
                Budget(steps=steps, seconds=None if seconds is None else seconds * _PAINTER_SHARE),
                out=out, width=width, batch_size=batch_size, seed=seed, peak_lr=peak_lr, device=device,
                workers=workers, resume=resume, log=log("painter"),
            )  # fmt: skip
            train_writer(
                layers,
                Budget(steps=steps, seconds=None if seconds is None else seconds * (1 - _PAINTER_SHARE)),
                out=out, seed=seed, peak_lr=1.5 * peak_lr, device=device, workers=workers, resume=resume,
                log=log("writer"),
            )  # fmt: skip
    by_skill = Counter(s.skill for s in layers.scenes)
    card = {
        "suite": suite,
        "pictures": len(layers),
        "pictures_by_skill": dict(sorted(by_skill.items())),
        "objects": len(layers.figures),
        "fraction": fraction,
        "seed": seed,
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: metadata.version(name) for name in ("torch", "numpy", "verism")},
    }
    model = export_generator(out, out / "model", card)
    written = {f.name: f.stat().st_size for f in sorted(model.glob("*.onnx"))}
    write_json(out / "card.json", card)
    return {"model": str(model), "bytes": sum(written.values()), **card}
