"""Models of random weights, small enough to be made in a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789;.,"


def tiny_pipeline(folder: Path, *, prediction_type: str = "epsilon") -> Path:
    """Images of 32 x 32, latents of 16 x 16; 0.1 million weights."""
    from diffusers import AutoencoderKL, PNDMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    torch.manual_seed(0)
    vocabulary = _letters_of_clip()
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
        tokenizer=CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=24),
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


def tiny_clip(folder: Path, *, seed: int = 0, dim: int = 16) -> Path:
    """A CLIP with processor and tokenizer: images of 32 x 32 in patches of 8, texts of 77 letters; 20,000 weights.

    Its vectors have ``dim`` numbers. Different images, and different texts, get clearly different vectors.
    """
    from transformers import (
        CLIPConfig,
        CLIPImageProcessorPil,
        CLIPModel,
        CLIPTextConfig,
        CLIPTokenizer,
        CLIPVisionConfig,
    )

    torch.manual_seed(seed)
    vocabulary = _letters_of_clip()
    n = len(vocabulary)
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    # Random weights of the usual size hardly let the input through.
    more: dict[str, Any] = {**layers, "initializer_factor": 8.0}
    text = CLIPTextConfig(
        vocab_size=n, max_position_embeddings=77, bos_token_id=n - 2, eos_token_id=n - 1, pad_token_id=n - 1, **more
    )
    vision = CLIPVisionConfig(image_size=32, patch_size=8, **more)
    config = CLIPConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=dim, initializer_factor=8.0
    )
    CLIPModel(config).eval().save_pretrained(folder)
    CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77).save_pretrained(folder)
    CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def tiny_siglip(folder: Path, *, seed: int = 0) -> Path:
    """A SigLIP with processor and tokenizer: images of 32 x 32 in patches of 8, texts of 16 letters; vectors of 16.

    Its tokenizer knows lower-case letters, and gives no attention mask, as the published ones.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import (
        PreTrainedTokenizerFast,
        SiglipConfig,
        SiglipImageProcessorPil,
        SiglipModel,
        SiglipTextConfig,
        SiglipVisionConfig,
    )

    torch.manual_seed(seed)
    vocabulary = {token: i for i, token in enumerate(["<unk>", "</s>", " ", *LETTERS])}
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = SiglipTextConfig(
        vocab_size=len(vocabulary), max_position_embeddings=16, pad_token_id=1, bos_token_id=1, eos_token_id=1, **layers
    )
    vision = SiglipVisionConfig(image_size=32, patch_size=8, **layers)
    model = SiglipModel(SiglipConfig(text_config=text.to_dict(), vision_config=vision.to_dict())).eval()
    model.save_pretrained(folder)
    letters = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    letters.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=letters, unk_token="<unk>", eos_token="</s>", pad_token="</s>", model_max_length=16,
        model_input_names=["input_ids"],
    ).save_pretrained(folder)  # fmt: skip
    SiglipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def tiny_dinov2(folder: Path, *, seed: int = 0) -> Path:
    """A DINOv2 with its image processor: images cut to 28 x 28 in patches of 14; features of 16 numbers."""
    from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

    torch.manual_seed(seed)
    Dinov2Model(
        Dinov2Config(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=28, patch_size=14,
            initializer_range=0.3,
        )
    ).eval().save_pretrained(folder)  # fmt: skip
    BitImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 28, "width": 28}, resample=3,
        image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225],
    ).save_pretrained(folder)  # fmt: skip
    return folder


def _letters_of_clip() -> dict[str, int]:
    """Every letter, inside and at the end of a word, then the opening and the closing token."""
    tokens = [*LETTERS, *(letter + "</w>" for letter in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    return {token: i for i, token in enumerate(tokens)}
