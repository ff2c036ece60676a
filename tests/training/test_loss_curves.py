"""A seed gives the same losses and weights, whatever becomes of the training loop.

The numbers were taken from the three separate loops that trained the detector, the generator and diffusers models
before they became one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.usefixtures("float32")


def sizes(checkpoint: Path) -> tuple[float, float, float]:
    """Norms of the weights, of how far the average lags behind them, and of the gradients' running mean."""
    tensors = {k: v.double() for k, v in load_file(checkpoint).items()}
    weights = {k.partition(".")[2]: v for k, v in tensors.items() if k.startswith("weights.")}
    lag = [(weights[k.partition(".")[2]] - v).norm() for k, v in tensors.items() if k.startswith("average.")]
    first = [v.norm() for k, v in tensors.items() if "exp_avg" in k and "exp_avg_sq" not in k]

    def norm(parts: Any) -> float:
        return float(torch.stack(list(parts)).norm()) if parts else 0.0

    return norm([w.norm() for w in weights.values()]), norm(lag), norm(first)


def totals(lines: list[Mapping[str, Any]]) -> list[float]:
    return [line["loss"] for line in lines if line["event"] == "train"]


def detector(workers: int, out: Path) -> tuple[list[float], Path]:
    from test_detector import COLORS, SHAPES, shapes

    from verism.training.detector import train_detector
    from verism.training.settings import AugmentConfig, DetectorConfig

    lines: list[Mapping[str, Any]] = []
    config = DetectorConfig(
        classes=SHAPES, colors=COLORS, width=0.25, batch_size=4, steps=5, workers=workers, device="cpu",
        log_every_s=0.0,
        augment=AugmentConfig(coarse=0.15, paste=0.4, blur=0.0, jpeg=0.0),  # as it was for the numbers
    )  # fmt: skip
    path = train_detector(shapes(8), config, out=out, log=lines.append)
    return totals(lines), path


def line(workers: int, out: Path) -> tuple[list[float], Path]:
    from test_generator import line

    path = out / "c.safetensors"
    return totals(line(5, path, workers=workers)), path


def autoencoders(layers: Any, out: Path) -> tuple[list[float], Path]:
    from verism.training.generator_autoencoders import train_autoencoders
    from verism.training.settings import AutoencoderConfig

    lines: list[Mapping[str, Any]] = []
    config = AutoencoderConfig(steps=4, width=0.25, batch_size=4, workers=1, device="cpu")
    path = train_autoencoders(layers, config, out=out, log=lines.append)
    return totals(lines), path


def writer(layers: Any, out: Path) -> tuple[list[float], Path]:
    from verism.training.generator_writer import train_writer
    from verism.training.settings import WriterConfig

    autoencoders(layers, out)
    lines: list[Mapping[str, Any]] = []
    config = WriterConfig(steps=4, width=32, depth=2, batch_size=4, workers=1, device="cpu")
    path = train_writer(layers, config, out=out, log=lines.append)
    return totals(lines), path


def finetuned(out: Path, **options: Any) -> tuple[list[float], Path]:
    from test_finetuning import made_pairs
    from tiny_models import tiny_pipeline

    from verism.training.finetuning import finetune_diffusers
    from verism.training.settings import FinetuneConfig

    lines: list[Mapping[str, Any]] = []
    config = FinetuneConfig(
        steps=5, batch_size=2, gradient_accumulation=2, lr=1e-3, device="cpu", workers=2, log_every_s=0.0, **options
    )
    base, pairs = tiny_pipeline(out / "base"), made_pairs(out / "data")
    finetune_diffusers(base, pairs, config, out=out / "out", log=lines.append)
    return totals(lines), out / "out" / "checkpoint.safetensors"


# Losses of the steps (of the autoencoders and the writer, their mean), and what `sizes` says of the checkpoint. That of
# the writer is of images by the renderer's edition 2, which moved it from 4.6225; those of the detector moved, by up to
# 3 %, when colours were varied by one matrix.
CURVES: dict[str, tuple[list[float], tuple[float, float, float]]] = {
    "detector": ([7.9374, 7.9031, 6.6374, 7.4013, 7.1927], (40.507655, 0.83146916, 1.0903139)),
    "detector, two workers": ([8.0362, 7.8507, 5.5079, 7.4579, 5.1434], (40.495341, 0.83221340, 0.94538940)),
    "line": ([0.3477, 0.3790, 0.6660, 0.1677, 0.3211], (0.69798838, 0.0062926874, 0.25683554)),
    "line, two workers": ([0.3294, 0.4169, 0.6798, 0.1658, 0.3188], (0.69802744, 0.0062415500, 0.25375507)),
    "autoencoders": ([1.7308], (84.327589, 0.047174490, 0.19886943)),
    "writer": ([4.6218], (108.86572, 0.018045884, 0.20665860)),
    "all weights, averaged": ([1.123148, 1.088234, 1.083063, 1.051804, 1.050277], (29.101386, 0.058694922, 0.25015435)),
    "lora": ([0.895822, 0.945561, 0.811753, 1.129112, 1.156867], (14.596534, 0.0, 0.014633572)),
}


@pytest.mark.parametrize("name", CURVES)
def test_seed_given_repeats_the_curve(name: str, layers: Any, tmp_path: Path) -> None:
    if name.startswith("detector"):
        losses, checkpoint = detector(1 + ("two" in name), tmp_path)
    elif name.startswith("line"):
        losses, checkpoint = line(1 + ("two" in name), tmp_path)
    elif name == "autoencoders":
        losses, checkpoint = autoencoders(layers, tmp_path)
    elif name == "writer":
        losses, checkpoint = writer(layers, tmp_path)
    elif name == "lora":
        losses, checkpoint = finetuned(
            tmp_path, lora_rank=2, train_text_encoder=True, lr_schedule="cosine", lr_warmup_steps=2, snr_gamma=5.0
        )
    else:
        losses, checkpoint = finetuned(tmp_path, ema_decay=0.9)
    # Losses were logged with four or six decimals. float32 sums in another order (other instruction sets, two threads)
    # move them, and the norms, by less than 1e-5 of their size within five steps.
    assert losses == pytest.approx(CURVES[name][0], rel=1e-4, abs=1e-4)
    assert sizes(checkpoint) == pytest.approx(CURVES[name][1], rel=1e-4)
