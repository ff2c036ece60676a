"""The latent-diffusion model that is finetuned: loading, adding LoRA, encoding, the loss, and saving the result."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError, require

if TYPE_CHECKING:
    import torch

__all__ = [
    "EXTRA",
    "PURPOSE",
    "LatentDiffusion",
    "add_lora",
    "denoising_loss",
    "encode_images",
    "encode_texts",
    "load_base",
    "replaced_folder",
    "save_lora",
    "save_pipeline",
    "tokenize",
]

EXTRA = "generate"
PURPOSE = "finetuning a diffusers model"

_PIPELINE = "StableDiffusionPipeline"
_PREDICTIONS = ("epsilon", "v_prediction", "sample")

# The projections of every attention layer, as in the diffusers examples and most published LoRA files.
_UNET_TARGETS = ["to_k", "to_q", "to_v", "to_out.0"]
_TEXT_TARGETS = ["q_proj", "k_proj", "v_proj", "out_proj"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentDiffusion:
    """The parts of a Stable Diffusion pipeline that training needs, all in float32 on the CPU, frozen, in eval mode.

    Attributes:
        folder: folder of the pipeline on this machine.
        commit: commit of the Hub repository; None for a local folder.
        tokenizer: tokenizer of the prompts.
        text_encoder: turns tokens into text embeddings.
        vae: autoencoder between images and latents.
        unet: predicts the noise (or velocity) of noisy latents.
        scheduler: a DDPM scheduler of the model's own noise schedule and prediction type.
        resolution: side of the images the model was made for, pixels.
        factor: pixels per latent value along each side.
        weights_sha256: SHA-256 of the weights of U-Net, VAE and text encoder; equal for equal base models.
    """

    folder: Path
    commit: str | None
    tokenizer: Any
    text_encoder: Any
    vae: Any
    unet: Any
    scheduler: Any
    resolution: int
    factor: int
    weights_sha256: str

    @property
    def prediction_type(self) -> str:
        return str(self.scheduler.config.prediction_type)


# --------------------------------------------------------------------------------------------------------------------
# Loading
# --------------------------------------------------------------------------------------------------------------------
def load_base(base: str, *, revision: str | None = None, local_files_only: bool = False) -> LatentDiffusion:
    """Load a text-to-image pipeline of the Stable Diffusion 1 and 2 family, from a folder or from the hub.

    Args:
        base: a pipeline folder (with ``model_index.json``), or the name of a hub repository.
        revision: branch, tag or commit of the repository.
        local_files_only: never contact the hub; use its cache only.
    Raises:
        UsageError: there is no such model, or it is of a kind that cannot be finetuned here.
    """
    diffusers = require("diffusers", extra=EXTRA, purpose=PURPOSE)
    require("transformers", extra=EXTRA, purpose=PURPOSE)
    base = os.path.expanduser(base)
    hub: dict[str, Any] = {"revision": revision, "local_files_only": local_files_only}
    with _reading(base):
        index = diffusers.DiffusionPipeline.load_config(base, **hub)
    kind = index.get("_class_name")
    if kind != _PIPELINE:
        raise UsageError(
            f"{base} is a {kind}, which cannot be finetuned here. Supported are text-to-image pipelines of the class "
            f"{_PIPELINE}: Stable Diffusion 1.x and 2.x and models derived from them. Finetune others with their own "
            "tools and evaluate the result with --model diffusers:FOLDER"
        )
    with _reading(base):
        # Only safetensors: other weight files are pickles, which can run code on loading.
        folder = Path(
            base if os.path.isdir(base) else diffusers.DiffusionPipeline.download(base, use_safetensors=True, **hub)
        )
        pipeline = _load_pipeline(folder, safety_checker=None, requires_safety_checker=False)
        scheduler = diffusers.DDPMScheduler.from_config(pipeline.scheduler.config)
    commit = folder.name if folder.parent.name == "snapshots" and re.fullmatch("[0-9a-f]{40}", folder.name) else None
    unet, vae, text_encoder = pipeline.unet, pipeline.vae, pipeline.text_encoder
    _check_parts(base, diffusers, unet, vae, scheduler)
    for part in (unet, vae, text_encoder):
        part.requires_grad_(False)
        part.eval()
    factor = 2 ** (len(vae.config.block_out_channels) - 1)
    side = unet.config.sample_size
    return LatentDiffusion(
        folder=folder,
        commit=commit,
        tokenizer=pipeline.tokenizer,
        text_encoder=text_encoder,
        vae=vae,
        unet=unet,
        scheduler=scheduler,
        resolution=(side if isinstance(side, int) else min(side)) * factor,
        factor=factor,
        weights_sha256=_digest([unet, vae, text_encoder]),
    )


@contextmanager
def _reading(base: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as err:  # a missing file, no network, no such repository, no safetensors, bad JSON
        why = str(err).rstrip(".")
        raise UsageError(
            f"cannot load the model {base}: {why}. Give a folder written by diffusers (with model_index.json and "
            "weights as safetensors), or the name of such a repository on the hub"
        ) from err


def _load_pipeline(folder: Path, **parts: Any) -> Any:
    torch = require("torch", extra=EXTRA, purpose=PURPOSE)
    diffusers = require("diffusers", extra=EXTRA, purpose=PURPOSE)
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(
        folder, use_safetensors=True, local_files_only=True, **parts
    )
    # Not as an option of loading, whose name differs between versions of diffusers; nor by their own `to`, which warns.
    for part in pipeline.components.values():
        if isinstance(part, torch.nn.Module):
            torch.nn.Module.to(part, torch.float32)
    return pipeline


def _check_parts(base: str, diffusers: Any, unet: Any, vae: Any, scheduler: Any) -> None:
    """Refuse variants that need another training than the one written here."""
    if not isinstance(vae, diffusers.AutoencoderKL) or not isinstance(unet, diffusers.UNet2DConditionModel):
        raise UsageError(
            f"{base} has a {type(unet).__name__} and a {type(vae).__name__}; expected a UNet2DConditionModel and an "
            "AutoencoderKL, as Stable Diffusion has"
        )
    if unet.config.in_channels != vae.config.latent_channels or unet.config.out_channels != vae.config.latent_channels:
        raise UsageError(
            f"the UNet of {base} has {unet.config.in_channels} input and {unet.config.out_channels} output channels "
            f"for {vae.config.latent_channels} latent ones; models for inpainting or editing are not supported"
        )
    if unknown := [k for k in ("time_cond_proj_dim", "addition_embed_type", "class_embed_type") if unet.config.get(k)]:
        raise UsageError(f"the UNet of {base} is conditioned on more than text ({', '.join(unknown)}): not supported")
    if scheduler.config.prediction_type not in _PREDICTIONS:
        raise UsageError(
            f"the scheduler of {base} has prediction_type {scheduler.config.prediction_type!r}; supported are "
            f"{', '.join(_PREDICTIONS)}"
        )


def _digest(modules: Sequence[Any]) -> str:
    import torch

    digest = hashlib.sha256()
    for module in modules:
        for name, value in sorted(module.state_dict().items()):
            digest.update(f"{name} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def add_lora(module: Any, rank: int, *, text: bool = False) -> None:
    """Put trainable low-rank updates (Hu et al. 2022, arXiv:2106.09685) beside the frozen attention projections.

    Alpha equals the rank, so updates count in full, and a file of them needs no further number to be used. The second
    factor starts at zero: before the first step the model is the base.

    Args:
        module: UNet or text encoder; changed in place.
        rank: rank of the updates, at least 1.
        text: it is a text encoder.
    """
    peft = require("peft", extra=EXTRA, purpose=PURPOSE)
    module.add_adapter(
        peft.LoraConfig(
            r=rank,
            lora_alpha=rank,
            init_lora_weights="gaussian",
            target_modules=_TEXT_TARGETS if text else _UNET_TARGETS,
        )
    )


# --------------------------------------------------------------------------------------------------------------------
# Encoding and loss
# --------------------------------------------------------------------------------------------------------------------
def tokenize(base: LatentDiffusion, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Ids and attention masks of texts, both (N, L) int64 on the CPU, as the pipeline makes them from prompts.

    Args:
        base: the model.
        texts: any number of them.

    Returns:
        Also how many texts are longer than the model reads; their ends are cut off.
    """
    longest = min(base.tokenizer.model_max_length, base.text_encoder.config.max_position_embeddings)
    coded = base.tokenizer(list(texts), padding="max_length", max_length=longest, truncation=True, return_tensors="pt")
    n_cut = sum(len(ids) > longest for ids in base.tokenizer(list(texts)).input_ids)
    return coded.input_ids, coded.attention_mask, n_cut


def encode_texts(text_encoder: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """What the UNet is conditioned on, (N, L, C): the last hidden states, as in the pipeline.

    Args:
        text_encoder: the pipeline's.
        ids: token ids, shape (N, L), int64.
        mask: attention mask, shape (N, L), int64.
    """
    use_mask = bool(getattr(text_encoder.config, "use_attention_mask", False))
    hidden: torch.Tensor = text_encoder(ids, attention_mask=mask if use_mask else None)[0]
    return hidden


def encode_images(vae: Any, pixels: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Scaled latents (N, C, h, w), float32, of images (N, 3, H, W) in [-1, 1], drawn from the encoder's posterior.

    Args:
        vae: the pipeline's.
        pixels: the images.
        noise: standard normal, (N, C, h, w): which draw.
    """
    import torch

    with torch.no_grad():
        posterior = vae.encode(pixels.to(vae.dtype)).latent_dist
        latents: torch.Tensor = posterior.mean.float() + posterior.std.float() * noise
        return latents * float(vae.config.scaling_factor)


def denoising_loss(
    predict: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    scheduler: Any,
    latents: torch.Tensor,
    noise: torch.Tensor,
    timesteps: torch.Tensor,
    *,
    snr_gamma: float | None = None,
) -> torch.Tensor:
    """Squared error of what the model predicts of noised latents, a mean per image, shape (N,).

    Args:
        predict: noised latents (N, C, h, w) and timesteps (N,) to the prediction, (N, C, h, w).
        scheduler: knows the noise schedule, and whether noise, velocity or the clean latents are predicted.
        latents: clean, shape (N, C, h, w).
        noise: standard normal, shape (N, C, h, w).
        timesteps: shape (N,), int64.
        snr_gamma: Min-SNR weighting (Hang et al. 2023, arXiv:2303.09556, Sec. 3.4); 5 is their choice. With the
            signal-to-noise ratio s: min(s, gamma) / s for noise, min(s, gamma) / (s + 1) for velocity, min(s, gamma)
            for clean latents. None: all timesteps weigh the same, as in DDPM.
    """
    import torch

    kind = scheduler.config.prediction_type
    if kind == "epsilon":
        target = noise
    elif kind == "v_prediction":
        target = scheduler.get_velocity(latents, noise, timesteps)
    else:
        target = latents
    prediction = predict(scheduler.add_noise(latents, noise, timesteps), timesteps)
    errors: torch.Tensor = (prediction.float() - target.float()).square().mean(dim=(1, 2, 3))
    if snr_gamma is None:
        return errors
    kept = scheduler.alphas_cumprod.to(latents.device)[timesteps].float()
    snr: torch.Tensor = kept / (1 - kept)
    limited = snr.clamp(max=snr_gamma)
    if kind == "epsilon":
        # Schedules that end in pure noise have a ratio of 0 there, where the weight tends to 1.
        return errors * torch.where(snr > 0, limited / snr.clamp(min=1e-30), 1.0)
    return errors * (limited / (snr + 1) if kind == "v_prediction" else limited)


# --------------------------------------------------------------------------------------------------------------------
# Saving
# --------------------------------------------------------------------------------------------------------------------
@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of ``folder`` at the end; or leaves it as it was after an error."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    for stale in (partial, old):
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    finally:
        for rest in (partial, old):
            shutil.rmtree(rest, ignore_errors=True)


def save_pipeline(base: LatentDiffusion, weights: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Write the base, with these weights in place of its own, as a pipeline folder; all else is the base's, to the bit.

    The base is loaded again: during training its frozen parts may have been rounded to 16 bits.

    Args:
        base: the model.
        weights: weights by name of the part and of the parameter, e.g. ``unet.conv_in.weight``.
        folder: folder to write to.
    """
    import torch

    pipeline = _load_pipeline(base.folder)
    with torch.no_grad():
        for part in ("unet", "text_encoder"):
            parameters = dict(getattr(pipeline, part).named_parameters())
            for name, value in weights.items():
                if name.startswith(f"{part}."):
                    parameters[name.removeprefix(f"{part}.")].copy_(value)
    pipeline.save_pretrained(folder, safe_serialization=True)


def save_lora(unet: Any, text_encoder: Any | None, weights: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Write the low-rank updates as ``pytorch_lora_weights.safetensors``, which ``load_lora_weights`` reads.

    Args:
        unet: U-Net with LoRA updates.
        text_encoder: text encoder, if it has LoRA updates as well.
        weights: see ``save_pipeline``; written into the modules first.
        folder: folder to write to.
    """
    import torch

    diffusers = require("diffusers", extra=EXTRA, purpose=PURPOSE)
    peft = require("peft", extra=EXTRA, purpose=PURPOSE)
    layers: dict[str, Any] = {}
    for part, module in (("unet", unet), ("text_encoder", text_encoder)):
        if module is None:
            continue
        parameters = dict(module.named_parameters())
        with torch.no_grad():
            for name, value in weights.items():
                if name.startswith(f"{part}."):
                    parameters[name.removeprefix(f"{part}.")].copy_(value)
        state = peft.get_peft_model_state_dict(module)
        layers[f"{part}_lora_layers"] = diffusers.utils.convert_state_dict_to_diffusers(
            {name: value.detach().float().cpu().contiguous() for name, value in state.items()}
        )
    diffusers.StableDiffusionPipeline.save_lora_weights(folder, safe_serialization=True, **layers)
