"""Models of random weights, small enough to be made in a test."""

from __future__ import annotations

from pathlib import Path

import torch
from diffusers import AutoencoderKL, PNDMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer


def tiny_pipeline(folder: Path, *, prediction_type: str = "epsilon") -> Path:
    """Pictures of 32 x 32, latents of 16 x 16; 0.1 million weights."""
    torch.manual_seed(0)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789;.,"
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    n = len(vocabulary)
    text_encoder = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=n, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=24, bos_token_id=n - 2, eos_token_id=n - 1, pad_token_id=n - 1, projection_dim=16,
        )
    )  # fmt: skip
    vae = AutoencoderKL(
        block_out_channels=(4, 8), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, layers_per_block=1, norm_num_groups=4, sample_size=32,
        scaling_factor=1.0,  # random weights make small latents; the usual 0.18 would leave nothing but noise
    )  # fmt: skip
    unet = UNet2DConditionModel(
        sample_size=16, block_out_channels=(8, 16), down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), layers_per_block=1, cross_attention_dim=16,
        attention_head_dim=2, norm_num_groups=4,
    )  # fmt: skip
    pipeline = StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=CLIPTokenizer(vocab={t: i for i, t in enumerate(vocabulary)}, merges=[], model_max_length=24),
        unet=unet,
        scheduler=PNDMScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", skip_prk_steps=True, steps_offset=1,
            prediction_type=prediction_type,
        ),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder
