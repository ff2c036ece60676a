"""What one step of finetuning does: pictures, prompts and noise in, changed weights out.

Every random choice of a picture (time step, noise, dropped prompt ...) comes from a generator of its own, seeded with
the run's seed and the picture's place in the whole training. So a training that was stopped and went on gives the
weights of one that was not, and splitting a batch in other ways gives the same gradient.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError
from verism.files import write_json
from verism.training import finetune_model as model
from verism.training import finetune_state as states
from verism.training.pairs import Pair

if TYPE_CHECKING:
    import torch

__all__ = ["CARD", "Sample", "Settings", "Trainer", "lr_factor", "read_pixels"]

CARD = "training.json"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides the weights, beside the base and the pictures: a run that goes on must share it."""

    lora_rank: int | None
    train_text_encoder: bool
    batch_size: int
    gradient_accumulation: int
    lr: float
    lr_schedule: str
    lr_warmup_steps: int
    lr_until: str | None  # where a falling rate arrives at zero
    resolution: int
    center_crop: bool
    flip: bool
    snr_gamma: float | None
    caption_dropout: float
    mixed_precision: str
    ema_decay: float | None
    weight_decay: float
    max_grad_norm: float
    seed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One picture as one step sees it. ``text`` is a row of the token table; its last row is the empty prompt."""

    pixels: torch.Tensor  # (3, H, W) in [-1, 1]
    text: int
    timestep: int
    posterior: torch.Tensor  # (C, h, w), normal
    noise: torch.Tensor  # (C, h, w), normal


class Trainer:
    """The model on its device, with what is trained of it; does one step at a time."""

    def __init__(
        self,
        source: model.LatentDiffusion,
        pairs: Sequence[Pair],
        settings: Settings,
        device: torch.device,
        *,
        gradient_checkpointing: bool,
    ) -> None:
        import torch

        self.source, self.pairs, self.settings, self.device = source, pairs, settings, device
        self.dtype = {"no": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[settings.mixed_precision]
        texts = list(dict.fromkeys(p.text for p in pairs))
        self.row_of = {text: row for row, text in enumerate(texts)}
        self.ids, self.mask, self.n_cut = model.tokenize(source, [*texts, ""])

        unet, text_encoder = source.unet, source.text_encoder
        self.parts = {"unet": unet} | ({"text_encoder": text_encoder} if settings.train_text_encoder else {})
        torch.manual_seed(settings.seed)  # the first factors of LoRA are random
        for part, module in self.parts.items():
            if settings.lora_rank is None:
                module.requires_grad_(True)
            else:
                model.add_lora(module, settings.lora_rank, text=part == "text_encoder")
            if gradient_checkpointing:
                module.enable_gradient_checkpointing() if part == "unet" else module.gradient_checkpointing_enable()
            module.train()
        for module in (unet, text_encoder, source.vae):
            module.to(device)
            for parameter in module.parameters():  # what is trained stays float32; autocast rounds on the fly
                if not parameter.requires_grad:
                    parameter.data = parameter.data.to(self.dtype)
        weights = states.trained(self.parts)
        average = {k: v.detach().clone() for k, v in weights.items()} if settings.ema_decay is not None else {}
        self.optimizer = torch.optim.AdamW(weights.values(), lr=settings.lr, weight_decay=settings.weight_decay)
        self.state = states.TrainingState(weights=weights, average=average, optimizer=self.optimizer)
        self.scaler = torch.amp.GradScaler(device.type, enabled=settings.mixed_precision == "fp16")
        self._order: tuple[int, np.ndarray] = (-1, np.zeros(0, dtype=np.int64))

    def step(self, samples: Iterator[Sample], lr: float) -> float:
        """One update of the weights. Returns the mean loss; weights stay as they are where that is not finite."""
        import torch

        settings, state = self.settings, self.state
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        # For dropout layers, which most models have none of: the same whether or not the training was stopped before.
        torch.manual_seed(_seed_of(settings.seed, state.step, salt=1))
        total = 0.0
        for _ in range(settings.gradient_accumulation):
            batch = [next(samples) for _ in range(settings.batch_size)]
            loss = self._loss(batch) / settings.gradient_accumulation
            torch.autograd.backward(self.scaler.scale(loss))
            total += float(loss.detach())
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(state.weights.values(), settings.max_grad_norm)
        # Gradients in fp16 overflow now and then; the scaler lets such a step pass and scales less from then on.
        if self.scaler.is_enabled() or (math.isfinite(total) and bool(torch.isfinite(norm))):
            self.scaler.step(self.optimizer)
        else:
            total = math.nan
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        if settings.ema_decay is not None:
            states.blend(state.average, state.weights, states.share_of_step(settings.ema_decay, state.step))
        state.step += 1
        return total

    def _loss(self, batch: Sequence[Sample]) -> torch.Tensor:
        import torch

        def stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
            return torch.stack(list(tensors)).to(self.device)

        rows = torch.tensor([s.text for s in batch])
        ids, mask = self.ids[rows].to(self.device), self.mask[rows].to(self.device)
        latents = model.encode_pictures(
            self.source.vae, stacked([s.pixels for s in batch]), stacked([s.posterior for s in batch])
        )
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            with torch.set_grad_enabled(self.settings.train_text_encoder):
                hidden = model.encode_texts(self.source.text_encoder, ids, mask)

            def predict(noisy: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
                predicted: torch.Tensor = self.source.unet(noisy, timesteps, encoder_hidden_states=hidden).sample
                return predicted

            errors = model.denoising_loss(
                predict,
                self.source.scheduler,
                latents,
                stacked([s.noise for s in batch]),
                torch.tensor([s.timestep for s in batch], device=self.device),
                snr_gamma=self.settings.snr_gamma,
            )
        return errors.mean()

    @contextmanager
    def samples(self, position: int, workers: int) -> Iterator[Iterator[Sample]]:
        """The samples of the training in order from a position on, without end, read ahead by some threads."""
        ahead = 2 * max(workers, self.settings.batch_size)
        with ThreadPoolExecutor(workers, thread_name_prefix="pictures") as pool:

            def stream() -> Iterator[Sample]:
                pending: deque[Future[Sample]] = deque()
                upcoming = position
                while True:
                    while len(pending) < ahead:
                        pending.append(pool.submit(self._sample, self._pair_at(upcoming), upcoming))
                        upcoming += 1
                    yield pending.popleft().result()

            try:
                yield stream()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _pair_at(self, position: int) -> Pair:
        """Every pass over the pictures has an order of its own."""
        n = len(self.pairs)
        epoch = position // n
        if self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.settings.seed, n, epoch]).permutation(n)
        return self.pairs[int(self._order[1][position % n])]

    def _sample(self, pair: Pair, position: int) -> Sample:
        import torch

        settings, source = self.settings, self.source
        rng = torch.Generator().manual_seed(_seed_of(settings.seed, position))
        # All numbers are drawn in any case, so that one setting does not change what another one means.
        chances = torch.rand(2, generator=rng).tolist()
        timestep = int(torch.randint(source.scheduler.config.num_train_timesteps, (1,), generator=rng))
        side = settings.resolution // source.factor
        posterior, noise = torch.randn(2, source.vae.config.latent_channels, side, side, generator=rng)
        flip = settings.flip and chances[0] < 0.5
        pixels = read_pixels(pair.picture, settings.resolution, center_crop=settings.center_crop, flip=flip)
        return Sample(
            pixels=torch.from_numpy(pixels),
            text=len(self.ids) - 1 if chances[1] < settings.caption_dropout else self.row_of[pair.text],
            timestep=timestep,
            posterior=posterior,
            noise=noise,
        )

    def export(self, out: Path, card: Mapping[str, Any]) -> Path:
        """Write the result, with its card beside it."""
        folder = out / ("pipeline" if self.settings.lora_rank is None else "lora")
        with model.replaced_folder(folder) as fresh:
            if self.settings.lora_rank is None:
                model.save_pipeline(self.source, self.state.result, fresh)
            else:
                model.save_lora(self.source.unet, self.parts.get("text_encoder"), self.state.result, fresh)
            write_json(fresh / CARD, card)
        return folder


def _seed_of(seed: int, number: int, *, salt: int = 0) -> int:
    return int(np.random.SeedSequence([seed, number, salt]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def read_pixels(path: Path, side: int, *, center_crop: bool, flip: bool) -> np.ndarray:
    """A picture as (3, side, side) float32 in [-1, 1]."""
    from PIL import Image

    from verism.imaging import read_picture

    read = read_picture(path)
    if read.pixels is None:
        raise UsageError(f"the picture {path} cannot be learnt from: {read.note}")
    image = Image.fromarray(read.pixels)
    if center_crop:
        short = min(image.size)
        left, top = (image.width - short) // 2, (image.height - short) // 2
        image = image.crop((left, top, left + short, top + short))
    if image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.LANCZOS)
    values = np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 127.5 - 1
    return np.ascontiguousarray(values[:, :, ::-1] if flip else values)


def lr_factor(settings: Settings, step: int, share: float) -> float:
    rise = min(1.0, (step + 1) / settings.lr_warmup_steps) if settings.lr_warmup_steps else 1.0
    fall = {"constant": 1.0, "linear": 1 - share, "cosine": 0.5 * (1 + math.cos(math.pi * share))}
    return rise * fall[settings.lr_schedule]
