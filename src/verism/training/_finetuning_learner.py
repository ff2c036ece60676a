"""What one step of finetuning does: images, prompts and noise in, changed weights out.

Every random choice of an image (time step, noise, dropped prompt ...) comes from a generator of its own, seeded with
the run's seed and the image's position in the whole training. So a training that was stopped and went on gives the
weights of one that was not, and splitting a batch in other ways gives the same gradient.
"""

from __future__ import annotations

import json
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
from verism.training import _latent_diffusion as model
from verism.training._checkpoints import TrainingState
from verism.training.image_text_pairs import Pair
from verism.training.loop import ExampleOrder
from verism.training.settings import FinetuneConfig

if TYPE_CHECKING:
    import torch

__all__ = ["CARD", "FinetuneLearner", "Sample", "read_pixels"]

CARD = "training.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One image as one step sees it.

    Attributes:
        pixels: shape (3, H, W), in [-1, 1].
        text: row of the token table; its last row is the empty prompt.
        timestep: timestep of the noise schedule.
        posterior: which draw from the encoder's posterior, standard normal, shape (C, h, w).
        noise: standard normal, shape (C, h, w).
    """

    pixels: torch.Tensor
    text: int
    timestep: int
    posterior: torch.Tensor
    noise: torch.Tensor


class FinetuneLearner:
    """The model on its device, with what is trained of it; does one step at a time, see ``loop.Learner``.

    Args:
        source: the model; changed in place.
        pairs: images with their prompts.
        config: with ``lr``, ``resolution`` and ``mixed_precision`` chosen.
        device: where to compute.
    """

    def __init__(
        self, source: model.LatentDiffusion, pairs: Sequence[Pair], config: FinetuneConfig, device: torch.device
    ) -> None:
        import torch

        assert config.lr is not None
        assert config.resolution is not None
        self.source, self.pairs, self.config, self.device = source, pairs, config, device
        self.resolution, self.n_examples = config.resolution, len(pairs)
        self.dtype = {"no": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[config.mixed_precision]
        texts = list(dict.fromkeys(p.text for p in pairs))
        self.row_of = {text: row for row, text in enumerate(texts)}
        self.ids, self.mask, self.n_cut = model.tokenize(source, [*texts, ""])

        unet, text_encoder = source.unet, source.text_encoder
        self.parts = {"unet": unet} | ({"text_encoder": text_encoder} if config.train_text_encoder else {})
        torch.manual_seed(config.seed)  # the first factors of LoRA are random
        for part, module in self.parts.items():
            if config.lora_rank is None:
                module.requires_grad_(True)
            else:
                model.add_lora(module, config.lora_rank, text=part == "text_encoder")
            if config.gradient_checkpointing:
                module.enable_gradient_checkpointing() if part == "unet" else module.gradient_checkpointing_enable()
            module.train()
        for module in (unet, text_encoder, source.vae):
            module.to(device)
            for parameter in module.parameters():  # what is trained stays float32; autocast rounds on the fly
                if not parameter.requires_grad:
                    parameter.data = parameter.data.to(self.dtype)
        weights = {
            f"{part}.{name}": parameter
            for part, module in self.parts.items()
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }
        self.state = TrainingState(
            kind="finetuning",
            weights=weights,
            optimized=list(weights),
            optimizer=torch.optim.AdamW(
                weights.values(), lr=config.lr, weight_decay=config.weight_decay, betas=(0.9, config.beta2)
            ),
            average={k: v.detach().clone() for k, v in weights.items()} if config.ema_decay is not None else {},
        )
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.mixed_precision == "fp16")
        self._order = ExampleOrder(config.seed)
        self._samples: Iterator[Sample] = iter(())

    @contextmanager
    def running(self) -> Iterator[None]:
        """The images, read ahead."""
        if self.state.scaler:
            self.scaler.load_state_dict(self.state.scaler)
        with self.samples(self.state.step * self.config.examples_per_step) as self._samples:
            yield

    def update(self, lr: float, done: float) -> Mapping[str, float] | None:  # noqa: ARG002
        """One step of AdamW over all batches; see ``loop.Learner``."""
        import torch

        config, state = self.config, self.state
        for group in state.optimizer.param_groups:
            group["lr"] = lr
        # For dropout layers, which most models have none of: the same whether or not the training was stopped before.
        torch.manual_seed(_seed_of(config.seed, state.step, salt=1))
        total = 0.0
        for _ in range(config.gradient_accumulation):
            batch = [next(self._samples) for _ in range(config.batch_size)]
            loss = self._loss(batch) / config.gradient_accumulation
            torch.autograd.backward(self.scaler.scale(loss))
            total += float(loss.detach())
        self.scaler.unscale_(state.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(state.weights.values(), config.max_grad_norm)
        # Gradients in fp16 overflow now and then; the scaler lets such a step pass and scales less from then on.
        finite = math.isfinite(total) and (self.scaler.is_enabled() or bool(torch.isfinite(norm)))
        if self.scaler.is_enabled() or finite:
            self.scaler.step(state.optimizer)
        self.scaler.update()
        state.scaler = self.scaler.state_dict()
        state.optimizer.zero_grad(set_to_none=True)
        return {"denoising": total} if finite else None

    def _loss(self, batch: Sequence[Sample]) -> torch.Tensor:
        import torch

        def stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
            return torch.stack(list(tensors)).to(self.device)

        rows = torch.tensor([s.text for s in batch])
        ids, mask = self.ids[rows].to(self.device), self.mask[rows].to(self.device)
        latents = model.encode_images(
            self.source.vae, stacked([s.pixels for s in batch]), stacked([s.posterior for s in batch])
        )
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            with torch.set_grad_enabled(self.config.train_text_encoder):
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
                snr_gamma=self.config.snr_gamma,
            )
        return errors.mean()

    @contextmanager
    def samples(self, position: int) -> Iterator[Iterator[Sample]]:
        """The samples of the training in order, without end, read ahead by some threads.

        Args:
            position: position of the first sample in the whole training.
        """
        workers = self.config.workers or 1
        ahead = 2 * max(workers, self.config.batch_size)
        with ThreadPoolExecutor(workers, thread_name_prefix="images") as pool:

            def stream() -> Iterator[Sample]:
                pending: deque[Future[Sample]] = deque()
                upcoming = position
                while True:
                    while len(pending) < ahead:
                        pending.append(
                            pool.submit(self._sample, self._order.index(upcoming, self.n_examples), upcoming)
                        )
                        upcoming += 1
                    yield pending.popleft().result()

            try:
                yield stream()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _sample(self, index: int, position: int) -> Sample:
        import torch

        pair, config, source = self.pairs[index], self.config, self.source
        rng = torch.Generator().manual_seed(_seed_of(config.seed, position))
        # All numbers are drawn in any case, so that one setting does not change what another one means.
        chances = torch.rand(2, generator=rng).tolist()
        timestep = int(torch.randint(source.scheduler.config.num_train_timesteps, (1,), generator=rng))
        side = self.resolution // source.factor
        posterior, noise = torch.randn(2, source.vae.config.latent_channels, side, side, generator=rng)
        flip = config.flip and chances[0] < 0.5
        pixels = read_pixels(pair.image, self.resolution, center_crop=config.center_crop, flip=flip)
        return Sample(
            pixels=torch.from_numpy(pixels),
            text=len(self.ids) - 1 if chances[1] < config.caption_dropout else self.row_of[pair.text],
            timestep=timestep,
            posterior=posterior,
            noise=noise,
        )

    def export(self, out: Path, card: Mapping[str, Any]) -> Path:
        """Write the result, with its card beside it.

        Args:
            out: folder of the training.
            card: JSON-serialisable.

        Returns:
            The folder of the result.
        """
        folder = out / ("pipeline" if self.config.lora_rank is None else "lora")
        with model.replaced_folder(folder) as fresh:
            if self.config.lora_rank is None:
                model.save_pipeline(self.source, self.state.result, fresh)
            else:
                model.save_lora(self.source.unet, self.parts.get("text_encoder"), self.state.result, fresh)
            (fresh / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return folder


def _seed_of(seed: int, number: int, *, salt: int = 0) -> int:
    return int(np.random.SeedSequence([seed, number, salt]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def read_pixels(path: Path, side: int, *, center_crop: bool, flip: bool) -> np.ndarray:
    """An image as a network reads it.

    Args:
        path: path of the image file.
        side: width and height of the result, pixels.
        center_crop: keep the middle of an image that is not square; otherwise it is squeezed.
        flip: mirror it.

    Returns:
        Shape (3, side, side), float32, in [-1, 1].

    Raises:
        UsageError: it cannot be read.
    """
    from PIL import Image

    from verism.imaging import read_image

    read = read_image(path)
    if read.pixels is None:
        raise UsageError(f"the image {path} cannot be learnt from: {read.note}")
    image = Image.fromarray(read.pixels)
    if center_crop:
        short = min(image.size)
        left, top = (image.width - short) // 2, (image.height - short) // 2
        image = image.crop((left, top, left + short, top + short))
    if image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.LANCZOS)
    values = np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 127.5 - 1
    return np.ascontiguousarray(values[:, :, ::-1] if flip else values)
