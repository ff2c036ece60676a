"""ImageReward: BLIP reads the prompt while it looks at the image, and five linear layers make a number of it.

verism run preference --images A --images-b B --prompts P.csv --scorer imagereward:ImageReward.pt
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, Batches, content_id, judge_name, normalised, pick_device, pick_dtype
from verism.judges.hub import HubOptions
from verism.judges.preference.hps import MEAN, STD
from verism.judges.preference.scoring import Judged, ModelScorer, TextTokens, load_tokenizer
from verism.judges.preference.weights import build, missing_file, nested_tensors, tokenizer_of

if TYPE_CHECKING:
    import torch

    from verism.records import LoadedImage

__all__ = ["CENTRE", "DEVIATION", "ImageReward", "imagereward_input"]

SIDE, TOKENS = 224, 35
CENTRE, DEVIATION = 0.16717362830052426, 1.0333394966054072  # of rewards on the training data
VISION_HEADS, TEXT_HEADS = 16, 12  # of BLIP-large and of BERT-base; no shape tells them
LAYERS = (0, 2, 4, 6, 7)  # of the head: between them lie dropouts, and no activations
TOKENIZER = "bert-base-uncased"

_VISION = {
    "cls_token": "embeddings.class_embedding",
    "pos_embed": "embeddings.position_embedding",
    "patch_embed.proj": "embeddings.patch_embedding",
    "norm": "post_layernorm",
}
_BLOCK = {
    "norm1": "layer_norm1",
    "norm2": "layer_norm2",
    "attn.qkv": "self_attn.qkv",
    "attn.proj": "self_attn.projection",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}


class ImageReward(ModelScorer):
    """Rewards with mean 0 and deviation 1 on the training data, about -2 to 2.

    Images are prepared as the released program does: with Pillow, the shorter side to 224 pixels, bicubic, the middle
    cut out, CLIP's mean and deviation. Prompts are cut to 35 tokens, as they are there.

    Args:
        path: ``ImageReward.pt``, or the same weights as ``.safetensors``.
        tokenizer: BERT's tokenizer: model id on the Hugging Face Hub, or a folder. Default: that beside the weights if
            there is one, else ``bert-base-uncased``.
        hub: how it is run.

    Raises:
        UsageError: no such file, weights that are missing or too many (the released program takes both without a
            word), or no tokenizer.
        MissingExtra: ``torch`` or ``transformers`` is not installed.

    Source: Xu et al. 2023, arXiv:2304.05977.
    """

    def __init__(self, path: Path, *, tokenizer: str = "", hub: HubOptions = HubOptions()) -> None:
        for module in ("torch", "transformers"):
            require(module, extra=EXTRA, purpose="ImageReward")
        missing_file(path, "imagereward")
        self._device, self._dtype = pick_device(hub.device), pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        weights = nested_tensors(path, "state_dict")
        self._vision = _vision(_part(weights, "blip.visual_encoder."), str(path)).to(self._device, self._dtype)
        self._text = _text(_part(weights, "blip.text_encoder."), self._vision.config.hidden_size, str(path)).to(
            self._device, self._dtype
        )
        self._head = [
            (w.to(self._device).float(), b.to(self._device).float())
            for w, b in _head(_part(weights, "mlp.layers."), str(path))
        ]
        prefixes = ("blip.visual_encoder.", "blip.text_encoder.", "mlp.layers.")
        if unknown := sorted(name for name in weights if not name.startswith(prefixes)):
            raise UsageError(f"{str(path)!r} has {len(unknown)} weights that ImageReward has not: {unknown[0]} ...")
        source = tokenizer or tokenizer_of(path, TOKENIZER)
        self._texts = TextTokens(load_tokenizer(source, hub.where(source)), TOKENS)
        self._side = int(self._vision.config.image_size)
        self.name = judge_name("imagereward", path.name, content_id(path), dtype=hub.named_dtype)

    def judge_pairs(self, images: Sequence[LoadedImage], texts: Sequence[str]) -> Sequence[Judged]:
        """The reward of each image for its text.

        Args:
            images: N images.
            texts: the text of each.
        """
        return self._batches.run(list(zip(images, texts, strict=True)), self._inputs, self._step)

    def _inputs(self, pair: tuple[LoadedImage, str]) -> Mapping[str, torch.Tensor]:
        import torch

        image, text = pair
        pixels = torch.from_numpy(imagereward_input(image.pixels, side=self._side))
        return {"pixel_values": pixels, "input_ids": self._texts(text)["input_ids"]}

    def _step(self, _: Sequence[tuple[LoadedImage, str]], inputs: dict[str, torch.Tensor]) -> list[Judged]:
        import torch

        seen = self._vision(pixel_values=inputs["pixel_values"].to(self._dtype)).last_hidden_state
        ids = inputs["input_ids"]
        read = self._text(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(seen.shape[:2], dtype=torch.long, device=seen.device),
            is_decoder=False,
        ).last_hidden_state
        values = read[:, 0].float()
        for weight, bias in self._head:
            values = torch.nn.functional.linear(values, weight, bias)
        return [Judged((float(value) - CENTRE) / DEVIATION) for value in values[:, 0].cpu()]


def imagereward_input(pixels: np.ndarray, *, side: int = SIDE) -> np.ndarray:
    """The network input of ImageReward: the shorter side to ``side`` with Pillow, the middle cut out.

    Args:
        pixels: RGB, shape (H, W, 3), uint8.
        side: of the input, pixels.

    Returns:
        Shape (3, side, side), float32.
    """
    from PIL import Image

    height, width = pixels.shape[:2]
    size = (side, int(side * height / width)) if width <= height else (int(side * width / height), side)
    if size != (width, height):
        pixels = np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize(size, Image.Resampling.BICUBIC))
    top, left = round((size[1] - side) / 2), round((size[0] - side) / 2)
    return normalised(pixels[top : top + side, left : left + side], mean=MEAN, std=STD)


def _part(weights: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def _shape(weights: Mapping[str, torch.Tensor], name: str, source: str) -> tuple[int, ...]:
    if name not in weights:
        raise UsageError(f"{source!r} holds no weights of ImageReward: there is no {name}")
    return tuple(weights[name].shape)


def _depth(weights: Mapping[str, torch.Tensor], pattern: str) -> int:
    return len({match[1] for name in weights if (match := re.match(pattern, name))})


def _vision(weights: Mapping[str, torch.Tensor], source: str) -> Any:
    from transformers import BlipVisionConfig, BlipVisionModel

    width, _, patch, _ = _shape(weights, "patch_embed.proj.weight", source)
    config = BlipVisionConfig(
        hidden_size=width,
        intermediate_size=_shape(weights, "blocks.0.mlp.fc1.weight", source)[0],
        num_hidden_layers=_depth(weights, r"blocks\.(\d+)\."),
        num_attention_heads=VISION_HEADS,
        patch_size=patch,
        image_size=round((_shape(weights, "pos_embed", source)[1] - 1) ** 0.5) * patch,
        hidden_act="gelu",
        layer_norm_eps=1e-6,
    )
    renamed: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        inner, _, kind = name.rpartition(".")
        block = re.fullmatch(r"blocks\.(\d+)\.(.+)", inner)
        if name in _VISION:
            renamed[_VISION[name]] = value
        elif inner in _VISION:
            renamed[f"{_VISION[inner]}.{kind}"] = value
        elif block is not None and block[2] in _BLOCK:
            renamed[f"encoder.layers.{block[1]}.{_BLOCK[block[2]]}.{kind}"] = value
        else:
            renamed[name] = value
    return build(lambda: BlipVisionModel(config), renamed, source)


def _text(weights: Mapping[str, torch.Tensor], seen: int, source: str) -> Any:
    from transformers import BlipTextConfig
    from transformers.models.blip.modeling_blip_text import BlipTextModel

    words, width = _shape(weights, "embeddings.word_embeddings.weight", source)
    config = BlipTextConfig(
        vocab_size=words,
        hidden_size=width,
        encoder_hidden_size=seen,
        intermediate_size=_shape(weights, "encoder.layer.0.intermediate.dense.weight", source)[0],
        num_hidden_layers=_depth(weights, r"encoder\.layer\.(\d+)\."),
        num_attention_heads=TEXT_HEADS,
        max_position_embeddings=_shape(weights, "embeddings.position_embeddings.weight", source)[0],
        hidden_act="gelu",
        layer_norm_eps=1e-12,
        is_decoder=True,  # gives its layers the attention to the image; texts are read in both directions all the same
    )
    return build(lambda: BlipTextModel(config, add_pooling_layer=False), weights, source)


def _head(weights: Mapping[str, torch.Tensor], source: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    wanted = {f"{number}.{kind}" for number in LAYERS for kind in ("weight", "bias")}
    if set(weights) != wanted:
        differing = sorted(set(weights) ^ wanted)
        raise UsageError(f"{source!r}: the head of ImageReward has linear layers {LAYERS}; differing: {differing[:4]}")
    layers = [(weights[f"{number}.weight"], weights[f"{number}.bias"]) for number in LAYERS]
    widths = [(w.shape[1], w.shape[0]) for w, _ in layers]
    if any(a[1] != b[0] for a, b in zip(widths, widths[1:], strict=False)) or widths[-1][1] != 1:
        raise UsageError(f"{source!r}: the linear layers of the head do not fit each other: {widths}")
    return layers
