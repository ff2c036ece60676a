"""Training the built-in generator's writer: a transformer that writes descriptions of images for prompts.

It is trained on prompts and the autoencoders' codes of *train* scenes only.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import require
from verism.generators.layered import LOG_SIDES, PLACES, Description, Language, mirrored_text, words_of
from verism.training._replicas import NetworkLearner, autocast, averaged_network
from verism.training.generator_autoencoders import AUTOENCODERS, PURPOSE, describe_images, load_autoencoders
from verism.training.loop import Hooks, Log, fit
from verism.training.scene_layers import Layers
from verism.training.settings import WriterConfig

if TYPE_CHECKING:
    import torch

__all__ = ["WRITER", "make_language", "token_features", "train_writer"]

WRITER = "writer.safetensors"

_FURTHEST = PLACES // 6  # steps that objects are moved for variety


def make_language(layers: Layers, autoencoders: Path) -> Language:
    """The tokens of these images' prompts and of the autoencoders' descriptions."""
    from verism.training.generator_network import FIGURE_CODES, SCENERY_CODES

    settings, _ = load_autoencoders(autoencoders)
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
    config: WriterConfig,
    *,
    out: Path,
    described: Sequence[Sequence[Description]] | None = None,
    log: Log | None = None,
) -> Path:
    """Train the transformer that writes descriptions; see ``loop.fit`` for stopping and going on.

    One image in fifty is held out, to log how well new ones are described.

    Args:
        layers: images taken apart.
        config: the settings.
        out: folder with the autoencoders' checkpoint, and for the checkpoint ``writer.safetensors``.
        described: descriptions of the images by these autoencoders (``describe_images``), where they are known already.
        log: receives each line of the log, see ``loop.Hooks``.

    Returns:
        The checkpoint.

    Raises:
        UsageError: no autoencoders, neither steps nor minutes given, or a checkpoint of other settings.
        VerismError: the loss stays infinite.
    """
    require("torch", extra="train", purpose=PURPOSE)
    import torch
    import torch.nn.functional as F

    from verism.training.generator_network import Writer

    language = make_language(layers, out / AUTOENCODERS)
    rows, kinds = _rows(layers, described or describe_images(layers, out / AUTOENCODERS), language)
    held_out = np.array([zlib.crc32(s.scene_id.encode()) % 50 == 0 for s in layers.scenes])
    learn = [i for i in range(len(rows)) if rows[i] and not held_out[i]]
    check = [i for i in range(len(rows)) if rows[i] and held_out[i]]
    settings = {
        "language": asdict(language), "width": config.width, "depth": config.depth, "batch_size": config.batch_size,
        "seed": config.seed,
    }  # fmt: skip
    torch.manual_seed(config.seed)
    features = torch.from_numpy(token_features(language))
    network = Writer(features, language.length, width=config.width, layers=config.depth)
    nearly = torch.from_numpy(_nearly_right(language))
    names = sorted(set(kinds))
    kind_of = torch.tensor([names.index(k) for k in kinds[language.text_length :]])
    # What things are and where decides whether an image is right: one such token counts as much as five of looks.
    weights = torch.tensor([5.0 if n in ("label", "x", "y", "side") else 1.0 for n in names])[kind_of]
    spans = [language.span(k) for k in kinds[language.text_length :]]
    outside = torch.ones(len(spans), language.vocabulary, dtype=torch.bool)
    for position, (low, high) in enumerate(spans):
        outside[position, low:high] = False

    def token_losses(net: Any, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with autocast(tokens.device.type, enabled=net.training):
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
        tokens = torch.tensor(some, device=learner.device)
        each, there = token_losses(net, tokens)
        heavy = there * weights.to(each.device)
        return {"tokens": (each * heavy).sum() / heavy.sum()}

    def validate() -> Mapping[str, float]:
        values: dict[str, float] = {}
        tokens = torch.tensor([rows[i][0] for i in check], device=learner.device)
        with torch.inference_mode():
            each, there = token_losses(averaged_network(learner), tokens)
        for k, name in enumerate(names):
            here = (kind_of == k)[None].to(each.device) * there
            if float(here.sum()):
                values[name] = round(float((each * here).sum() / here.sum()), 3)
        return values

    checkpoint = out / WRITER
    learner = NetworkLearner("writer", network, loss, len(learn), config)
    hooks = Hooks(log=log, validate=validate if check else None)
    fit(learner, config, hooks, checkpoint=checkpoint, settings=settings)
    return checkpoint


def token_features(language: Language) -> np.ndarray:
    """Features of the number that a token stands for, shape (vocabulary, F), float32: cosines, from coarse to fine.

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
    """The row of an image whose objects are all moved to the left or right, as far as they stay inside."""
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
    """Per image its rows of tokens, as it is and mirrored, padded to one length; and the kind at each position."""
    rows: list[list[list[int]]] = []
    for scene, descriptions in zip(layers.scenes, described, strict=True):
        own = []
        for text, description in zip((scene.text, mirrored_text(scene.text)), descriptions, strict=False):
            row = language.read(text)[0] + language.write(description)
            own.append(row + [0] * (language.length - len(row)))
        rows.append(own)
    return rows, [language.kind_at(p) for p in range(language.length)]
