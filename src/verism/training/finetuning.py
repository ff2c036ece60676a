"""Finetuning a latent-diffusion model on images with prompts, as the DALL-Eval papers do on PaintSkills.

Cho et al. (ICCV 2023; arXiv:2202.04053) finetune each model on the train split of one skill before they test that
skill, so that what is measured is not the style of the images. How they finetuned Stable Diffusion is not published;
the usual values here are those of the diffusers examples.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError, require
from verism.inference import pick_device
from verism.records import content_hash
from verism.training import _latent_diffusion as model
from verism.training._checkpoints import TrainingState
from verism.training._finetuning_learner import CARD, FinetuneLearner
from verism.training.image_text_pairs import Pair
from verism.training.loop import Hooks, Log, fit, log_to
from verism.training.settings import FinetuneConfig, Precision

if TYPE_CHECKING:
    import torch

__all__ = ["CARD", "CHECKPOINT", "LOG", "finetune_diffusers"]

CHECKPOINT, LOG = "checkpoint.safetensors", "log.jsonl"

_SHARED = (
    "lora_rank", "train_text_encoder", "batch_size", "gradient_accumulation", "lr", "lr_schedule", "lr_warmup_steps",
    "lr_until", "resolution", "center_crop", "flip", "snr_gamma", "caption_dropout", "mixed_precision", "ema_decay",
    "weight_decay", "max_grad_norm", "seed",
)  # fmt: skip
"""What decides the weights, beside the base and the images: a training that goes on must share it."""


def finetune_diffusers(
    base: str | Path,
    pairs: Sequence[Pair],
    config: FinetuneConfig,
    *,
    out: Path,
    about: Mapping[str, Any] | None = None,
    log: Log | None = None,
) -> Path:
    """Finetune a Stable Diffusion model (1.x, 2.x); see ``loop.fit`` for stopping and going on.

    ``out`` receives ``log.jsonl``, ``checkpoint.safetensors`` (needed to go on, of no use otherwise) and the result:
    ``out/pipeline``, a complete pipeline folder (``diffusers:OUT/pipeline``), or ``out/lora`` with
    ``pytorch_lora_weights.safetensors`` (``diffusers:BASE?lora=OUT/lora``). Beside either lies ``training.json``: base,
    data, settings, hardware, time, versions. One process, one device.

    Args:
        base: pipeline folder or hub repository.
        pairs: pairs to learn from, see ``image_text_pairs``.
        config: the settings.
        out: folder of the training, made if missing.
        about: more for ``training.json``: data folders, fraction ... JSON-serialisable.
        log: receives each line of the log as well, see ``loop.Hooks``.

    Returns:
        The folder of the result.

    Raises:
        UsageError: a wrong setting, base or image, or a checkpoint of other settings.
        VerismError: the loss stays infinite.
        KeyboardInterrupt: it was stopped by SIGINT.
        SystemExit: it was stopped by SIGTERM.
    """
    torch = require("torch", extra=model.EXTRA, purpose=model.PURPOSE)
    require("safetensors", extra=model.EXTRA, purpose=model.PURPOSE)
    config.check_length()
    if not pairs:
        raise UsageError("there is no image to learn from; render some with `verism scenes render`")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError(
            f"this is one of {os.environ['WORLD_SIZE']} processes of one job; finetuning runs in one, on one device. "
            "Start it without torchrun or accelerate, and use several GPUs for several skills"
        )
    target = pick_device(config.device, extra=model.EXTRA, purpose=model.PURPOSE)
    source = model.load_base(str(base), revision=config.revision, local_files_only=config.local_files_only)
    if config.epochs is not None:
        config = replace(
            config, steps=max(1, math.ceil(config.epochs * len(pairs) / config.examples_per_step)), epochs=None
        )
    config = replace(
        config,
        lr=config.lr or (1e-5 if config.lora_rank is None else 1e-4),
        resolution=_resolution(config.resolution, source),
        mixed_precision=_precision(config.mixed_precision, target),
    )
    digest = _data_digest(pairs)
    shared = _shared_settings(config)
    # "pictures": as checkpoints have always said it; another word would refuse those of before.
    settings = {"base_weights": source.weights_sha256, "data": f"{len(pairs)} images, {digest[:16]}", **shared}
    # Nothing random is left to the global generators but dropout layers, and the caller's are put back in the end.
    with torch.random.fork_rng(devices=[target] if target.type == "cuda" else []):
        learner = FinetuneLearner(source, pairs, config, target)
        hooks = Hooks(
            log=log_to(out / LOG, log), about={"device": _hardware(target), "texts_cut": learner.n_cut}
        )  # fmt: skip
        state = fit(learner, config, hooks, checkpoint=out / CHECKPOINT, settings=settings)
        card = {
            "base": {
                "model": str(base),
                "revision": config.revision,
                "commit": source.commit,
                "weights_sha256": source.weights_sha256,
                "prediction_type": source.prediction_type,
            },
            "method": "full" if config.lora_rank is None else "lora",
            "data": {
                "pictures": len(pairs),
                "per_skill": dict(sorted(Counter(p.skill for p in pairs).items())),
                "digest": digest,
                **(about or {}),
            },
            **_progress(state, config, len(pairs)),
            "settings": shared,
            "hardware": _hardware(target),
            "packages": _packages(),
            "loss": _last_loss(out / LOG),
        }
        return learner.export(out, card)


# --------------------------------------------------------------------------------------------------------------------
# Settings
# --------------------------------------------------------------------------------------------------------------------
def _shared_settings(config: FinetuneConfig) -> dict[str, Any]:
    """What a training that goes on must share; a rate that falls to zero belongs to one length."""
    seconds = None if config.minutes is None else config.minutes * 60
    until = None if config.lr_schedule == "constant" else f"{config.steps} steps, {seconds} s"
    return {name: until if name == "lr_until" else getattr(config, name) for name in _SHARED}


def _precision(name: Precision, device: torch.device) -> Precision:
    import torch

    if name == "auto":
        return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "no"
    if name == "fp16" and device.type != "cuda":
        raise UsageError(f"mixed_precision fp16 needs a GPU, not device {device}; use bf16 or no")
    return name


def _resolution(asked: int | None, source: model.LatentDiffusion) -> int:
    value = source.resolution if asked is None else asked
    # Each level of the UNet halves the latents; sizes that do not divide would be padded and cropped inside.
    multiple = source.factor * 2 ** (len(source.unet.config.block_out_channels) - 1)
    if value % multiple:
        raise UsageError(f"resolution must be a multiple of {multiple} for this model, got {value}")
    return value


def _data_digest(pairs: Sequence[Pair]) -> str:
    """Tells data sets apart wherever they lie: names and prompts in order, and sizes of the image files."""
    sizes = []
    for pair in pairs:
        try:
            sizes.append(os.stat(pair.image).st_size)
        except OSError as err:
            raise UsageError(f"the image {pair.image} cannot be learnt from: {err.strerror}") from err
    return content_hash([[p.skill, p.scene_id, p.text, size] for p, size in zip(pairs, sizes, strict=True)])


# --------------------------------------------------------------------------------------------------------------------
# The card
# --------------------------------------------------------------------------------------------------------------------
def _hardware(device: torch.device) -> str:
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"


def _last_loss(log: Path) -> float | None:
    """Of the last line that has one; a line that was being written when the training was killed has none."""
    for text in reversed(log.read_text(encoding="utf-8").splitlines()):
        with suppress(ValueError):
            line = json.loads(text)
            if line["event"] == "train":
                return float(line["loss"]) if line["loss"] is not None else None
    return None


def _progress(state: TrainingState, config: FinetuneConfig, n_images: int) -> dict[str, Any]:
    seen = state.step * config.examples_per_step
    return {
        "steps": state.step,
        "pictures_seen": seen,
        "epochs": round(seen / n_images, 4),
        "trained_parameters": sum(w.numel() for w in state.weights.values()),
        "elapsed_s": round(state.elapsed_s, 1),
    }


def _packages() -> dict[str, str]:
    packages = {}
    for name in ("verism", "torch", "diffusers", "transformers", "peft", "accelerate", "safetensors"):
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return packages
