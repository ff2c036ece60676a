"""Finetuning a latent-diffusion model on pictures with prompts, as the DALL-Eval papers do on PaintSkills.

Cho et al. (ICCV 2023; arXiv:2202.04053) finetune each model on the train split of one skill before they test that
skill, so that what is measured is not the style of the pictures. How they finetuned Stable Diffusion is not published;
the usual values here are those of the diffusers examples.
"""

from __future__ import annotations

import json
import math
import os
import platform
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from verism.errors import UsageError, VerismError, require
from verism.records import content_hash
from verism.training import finetune_model as model
from verism.training import finetune_state as states
from verism.training.finetune_trainer import CARD, Settings, Trainer, lr_factor
from verism.training.pairs import Pair

if TYPE_CHECKING:
    import torch

__all__ = ["CARD", "CHECKPOINT", "LOG", "LrSchedule", "Precision", "finetune_diffusers"]

CHECKPOINT, LOG = "checkpoint.safetensors", "log.jsonl"

LrSchedule = Literal["constant", "linear", "cosine"]
Precision = Literal["auto", "no", "fp16", "bf16"]
Log = Callable[[Mapping[str, Any]], None]

_HOPELESS = 20  # steps in a row without a finite loss, after which waiting is of no use


def finetune_diffusers(
    base: str | Path,
    pairs: Sequence[Pair],
    *,
    out: Path,
    lora_rank: int | None = None,
    train_text_encoder: bool = False,
    steps: int | None = None,
    epochs: float | None = None,
    time_limit_s: float | None = None,
    batch_size: int = 4,
    gradient_accumulation: int = 4,
    lr: float | None = None,
    lr_schedule: LrSchedule = "constant",
    lr_warmup_steps: int = 0,
    resolution: int | None = None,
    center_crop: bool = False,
    flip: bool = False,
    snr_gamma: float | None = None,
    caption_dropout: float = 0.1,
    mixed_precision: Precision = "auto",
    ema_decay: float | None = None,
    weight_decay: float = 1e-2,
    max_grad_norm: float = 1.0,
    gradient_checkpointing: bool = False,
    seed: int = 0,
    resume: bool = True,
    device: str = "auto",
    workers: int = 4,
    revision: str | None = None,
    local_files_only: bool = False,
    checkpoint_every_s: float = 600.0,
    log_every_s: float = 10.0,
    about: Mapping[str, Any] | None = None,
    log: Log | None = None,
) -> Path:
    """Finetune a Stable Diffusion model (1.x, 2.x) until the steps are done or the time is up, whichever is first.

    ``out`` receives ``log.jsonl``, ``checkpoint.safetensors`` (needed to go on, of no use otherwise) and the result:
    ``out/pipeline``, a complete pipeline folder (``diffusers:OUT/pipeline``), or ``out/lora`` with
    ``pytorch_lora_weights.safetensors`` (``diffusers:BASE?lora=OUT/lora``). Beside either lies ``training.json``: base,
    data, settings, hardware, time, versions. The first SIGINT or SIGTERM ends the training after the step under way,
    with a checkpoint and without a result; the second at once.

    Args:
        base: pipeline folder or hub repository; ``revision``, ``local_files_only``: see ``load_base``.
        pairs: to learn from, see ``picture_text_pairs``.
        lora_rank: rank of low-rank updates of the attention layers; None: all weights of the UNet are trained.
        train_text_encoder: train the text encoder as well, in the same way. The VAE is never trained.
        steps, epochs, time_limit_s: of the whole training, resumed parts counted in; not both steps and epochs. An
            epoch is one pass over the pairs, rounded up to whole steps.
        batch_size: pictures at a time; ``gradient_accumulation``: how many such batches make one step.
        lr: highest learning rate of AdamW; None: 1e-5, or 1e-4 for LoRA.
        lr_schedule: constant, or falling to zero along the share of steps or time, whichever is larger.
        lr_warmup_steps: steps in which the rate rises from zero.
        resolution: side of the pictures in pixels; None: what the UNet and the VAE were made for.
        center_crop: of a picture that is not square, keep the middle; otherwise it is squeezed, so that nothing the
            prompt names is cut off. PaintSkills' pictures are square: they are only resized.
        flip: mirror half of the pictures. Makes "left" and "right" of the spatial skill false; never use it there.
        snr_gamma: see ``denoising_loss``.
        caption_dropout: share of pictures learnt without their prompt, in [0, 1): guidance compares with such
            predictions. 0.1 is what Stable Diffusion was trained with.
        mixed_precision: ``auto`` is bf16 on a GPU that has it, else none.
        ema_decay: keep a running average of the weights with this decay, and save that; None: no average.
        max_grad_norm: longer gradients are shortened to this.
        gradient_checkpointing: less memory for about a quarter more time.
        resume: go on from ``out``'s checkpoint if there is one; otherwise start anew.
        device: ``auto`` (the GPU if there is one), ``cpu``, ``cuda``, ``cuda:1`` ... One process, one device.
        workers: threads that read pictures ahead.
        about: more for ``training.json``: data folders, fraction ... JSON-serialisable.
        log: told each line of the log as well: an ``event`` (``start``, ``train``, ``stopped``, ``end``) and its data.
    Returns:
        The folder of the result.
    Raises:
        UsageError: a wrong setting, base or picture, or a checkpoint of other settings.
        VerismError: the loss stays infinite.
        KeyboardInterrupt, SystemExit: it was stopped by SIGINT, SIGTERM.
    """
    torch = require("torch", extra=model.EXTRA, purpose=model.PURPOSE)
    require("safetensors", extra=model.EXTRA, purpose=model.PURPOSE)
    _check_numbers(
        whole={"steps": steps, "batch_size": batch_size, "gradient_accumulation": gradient_accumulation,
               "lora_rank": lora_rank, "resolution": resolution, "workers": workers},
        positive={"epochs": epochs, "time_limit_s": time_limit_s, "lr": lr, "snr_gamma": snr_gamma,
                  "max_grad_norm": max_grad_norm},
        not_negative={"seed": seed, "lr_warmup_steps": lr_warmup_steps, "weight_decay": weight_decay},
    )  # fmt: skip
    _check_choices(lr_schedule, mixed_precision, caption_dropout, ema_decay)
    if steps is None and epochs is None and time_limit_s is None:
        raise UsageError("say how long to train: steps or epochs, time_limit_s, or a number and a time")
    if steps is not None and epochs is not None:
        raise UsageError(f"give steps ({steps}) or epochs ({epochs}), not both")
    if not pairs:
        raise UsageError("there is no picture to learn from; render some with `verism scenes render`")

    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError(
            f"this is one of {os.environ['WORLD_SIZE']} processes of one job; finetuning runs in one, on one device. "
            "Start it without torchrun or accelerate, and use several GPUs for several skills"
        )
    target = _device(device)
    source = model.load_base(str(base), revision=revision, local_files_only=local_files_only)
    per_step = batch_size * gradient_accumulation
    last_step = steps if epochs is None else max(1, math.ceil(epochs * len(pairs) / per_step))
    settings = Settings(
        lora_rank=lora_rank,
        train_text_encoder=train_text_encoder,
        batch_size=batch_size,
        gradient_accumulation=gradient_accumulation,
        lr=lr if lr is not None else 1e-5 if lora_rank is None else 1e-4,
        lr_schedule=lr_schedule,
        lr_warmup_steps=lr_warmup_steps,
        lr_until=None if lr_schedule == "constant" else f"{last_step} steps, {time_limit_s} s",
        resolution=_resolution(resolution, source),
        center_crop=center_crop,
        flip=flip,
        snr_gamma=snr_gamma,
        caption_dropout=caption_dropout,
        mixed_precision=_precision(mixed_precision, target),
        ema_decay=ema_decay,
        weight_decay=weight_decay,
        max_grad_norm=max_grad_norm,
        seed=seed,
    )
    digest = _data_digest(pairs)
    shared = {
        "base_weights": source.weights_sha256,
        "data": f"{len(pairs)} pictures, {digest[:16]}",
        **asdict(settings),
    }
    out.mkdir(parents=True, exist_ok=True)
    # Nothing random is left to the global generators but dropout layers, and the caller's are put back in the end.
    with torch.random.fork_rng(devices=[target.index] if target.type == "cuda" else []):
        trainer = Trainer(source, pairs, settings, target, gradient_checkpointing=gradient_checkpointing)
        state = trainer.state
        checkpoint = out / CHECKPOINT
        if resume and checkpoint.is_file():
            states.load_state(checkpoint, state, shared)
            trainer.scaler.load_state_dict(state.scaler)
        started, before = time.monotonic(), state.elapsed_s

        def used() -> float:
            return before + time.monotonic() - started

        def share_done() -> float:
            by_steps = state.step / last_step if last_step else 0.0
            by_time = used() / time_limit_s if time_limit_s else 0.0
            return min(1.0, max(by_steps, by_time))

        def save() -> None:
            state.elapsed_s, state.scaler = used(), trainer.scaler.state_dict()
            states.save_state(checkpoint, state, shared)

        with (out / LOG).open("a" if state.step else "w", encoding="utf-8") as file:

            def tell(event: str, **data: Any) -> None:
                line = {"event": event, "step": state.step, "elapsed_s": round(used(), 1), **data}
                file.write(json.dumps(line) + "\n")
                file.flush()
                if log:
                    log(line)

            tell(
                "start", steps=last_step, time_limit_s=time_limit_s, pictures=len(pairs), device=_hardware(target),
                parameters=sum(w.numel() for w in state.weights.values()), texts_cut=trainer.n_cut, settings=shared,
            )  # fmt: skip
            last_log = last_save = used()
            losses: list[float] = []
            rates_from = state.step
            bad = 0
            with _stop_signal() as stop, trainer.samples(state.step * per_step, workers) as samples:
                while share_done() < 1:
                    rate = settings.lr * lr_factor(settings, state.step, share_done())
                    loss = trainer.step(samples, rate)
                    bad = 0 if math.isfinite(loss) else bad + 1
                    if bad >= _HOPELESS:
                        raise VerismError(f"the loss is not finite for {bad} steps, at step {state.step}; lower lr")
                    if not bad:
                        losses.append(loss)
                    now, done = used(), share_done()
                    if now - last_log >= log_every_s or done >= 1 or stop:
                        pace = (state.step - rates_from) * per_step / max(now - last_log, 1e-9)
                        tell(
                            "train", loss=round(float(np.mean(losses)), 6) if losses else None, lr=rate,
                            epoch=round(state.step * per_step / len(pairs), 3), pictures_per_s=round(pace, 2),
                            remaining_s=round(now / done - now),
                        )  # fmt: skip
                        last_log, rates_from = now, state.step
                        losses.clear()
                    if stop:
                        break
                    if now - last_save >= checkpoint_every_s:
                        save()
                        last_save = used()
                save()
            if stop:
                tell("stopped")
                raise KeyboardInterrupt if stop[0] == signal.SIGINT else SystemExit(128 + stop[0])
            card = _card(str(base), revision, source, pairs, digest, settings, target, state, about)
            folder = trainer.export(out, {**card, "loss": _last_loss(out / LOG)})
            tell("end", result=str(folder))
    return folder


@contextmanager
def _stop_signal() -> Iterator[list[int]]:
    """A list that receives the number of the first signal to stop; the second signal acts as usual."""
    stop: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only there may Python set handlers
        yield stop
        return
    usual: dict[int, Any] = {}

    def heard(number: int, _frame: Any) -> None:
        stop.append(number)
        for each, handler in usual.items():
            signal.signal(each, handler)

    for each in (signal.SIGINT, signal.SIGTERM):
        usual[each] = signal.getsignal(each) or signal.SIG_DFL
        signal.signal(each, heard)
    try:
        yield stop
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


# --------------------------------------------------------------------------------------------------------------------
# Settings
# --------------------------------------------------------------------------------------------------------------------
def _check_numbers(
    *, whole: Mapping[str, int | None], positive: Mapping[str, float | None], not_negative: Mapping[str, float]
) -> None:
    """Refuse numbers out of range: whole ones below 1, others not above (or below) 0; None is no number to check."""
    wrong: list[tuple[str, float, str]] = []
    wrong += [(k, v, "at least 1") for k, v in whole.items() if v is not None and v < 1]
    wrong += [(k, v, "above 0") for k, v in positive.items() if v is not None and not 0 < v < math.inf]
    wrong += [(k, v, "at least 0") for k, v in not_negative.items() if not 0 <= v < math.inf]
    if wrong:
        raise UsageError("; ".join(f"{name} must be {wanted}, got {value}" for name, value, wanted in wrong))


def _check_choices(lr_schedule: str, precision: str, caption_dropout: float, ema_decay: float | None) -> None:
    for name, value, choices in (
        ("lr_schedule", lr_schedule, get_args(LrSchedule)),
        ("mixed_precision", precision, get_args(Precision)),
    ):
        if value not in choices:
            raise UsageError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    if not 0 <= caption_dropout < 1:
        raise UsageError(f"caption_dropout must lie in [0, 1), got {caption_dropout}")
    if ema_decay is not None and not 0 < ema_decay < 1:
        raise UsageError(f"ema_decay must lie between 0 and 1, got {ema_decay}; 0.9999 is usual for long trainings")


def _device(name: str) -> torch.device:
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as err:  # not a device, not there, or torch was built without it
        raise UsageError(f"cannot compute on device {name!r}: {str(err).splitlines()[0]}; try cpu, or auto") from err
    if device == torch.device("cuda"):  # without a number: the current one
        device = torch.device("cuda", torch.cuda.current_device())
    return device


def _precision(name: str, device: torch.device) -> str:
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
    """Tells data sets apart wherever they lie: names and prompts in order, and sizes of the picture files."""
    sizes = []
    for pair in pairs:
        try:
            sizes.append(os.stat(pair.picture).st_size)
        except OSError as err:
            raise UsageError(f"the picture {pair.picture} cannot be learnt from: {err.strerror}") from err
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
    for text in reversed(log.read_text(encoding="utf-8").split("\n")):
        with suppress(ValueError):
            line = json.loads(text)
            if line["event"] == "train":
                return float(line["loss"]) if line["loss"] is not None else None
    return None


def _card(
    base: str,
    revision: str | None,
    source: model.LatentDiffusion,
    pairs: Sequence[Pair],
    digest: str,
    settings: Settings,
    device: torch.device,
    state: states.TrainingState,
    about: Mapping[str, Any] | None,
) -> dict[str, Any]:
    packages = {}
    for name in ("verism", "torch", "diffusers", "transformers", "peft", "accelerate", "safetensors"):
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    seen = state.step * settings.batch_size * settings.gradient_accumulation
    return {
        "base": {
            "model": base,
            "revision": revision,
            "commit": source.commit,
            "weights_sha256": source.weights_sha256,
            "prediction_type": source.prediction_type,
        },
        "method": "full" if settings.lora_rank is None else "lora",
        "data": {
            "pictures": len(pairs),
            "per_skill": dict(sorted(Counter(p.skill for p in pairs).items())),
            "digest": digest,
            **(about or {}),
        },
        "steps": state.step,
        "pictures_seen": seen,
        "epochs": round(seen / len(pairs), 4),
        "trained_parameters": sum(w.numel() for w in state.weights.values()),
        "settings": asdict(settings),
        "hardware": _hardware(device),
        "elapsed_s": round(state.elapsed_s, 1),
        "packages": packages,
    }
