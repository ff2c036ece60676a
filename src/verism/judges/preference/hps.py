"""HPS v2.0 and v2.1: a CLIP ViT-H-14 in open_clip's layout, tuned on HPDv2; the score is 100 times the cosine.

verism run preference --images A --images-b B --prompts P.csv --scorer hpsv2.1:HPS_v2.1_compressed.pt
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, Batches, content_id, judge_name, pick_device, pick_dtype
from verism.judges.hub import HubOptions
from verism.judges.preference.pickscore import PROCESSOR, unit
from verism.judges.preference.scoring import Judged, ModelScorer, TextTokens, load_tokenizer
from verism.judges.preference.weights import build, missing_file, nested_tensors, tokenizer_of

if TYPE_CHECKING:
    import torch

    from verism.records import LoadedImage

__all__ = ["Hps", "clip_of_open_clip", "hps_input", "hpsv2", "hpsv2_1"]

SIDE = 224
HEADS = 16  # of both towers of ViT-H-14; no shape tells it
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)

# open_clip's names of a block, and those of transformers.
_BLOCK = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
_OUTSIDE = {
    "logit_scale": "logit_scale",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
}
_TRANSPOSED = {"text_projection": "text_projection.weight", "visual.proj": "visual_projection.weight"}
_DERIVED = ("attn_mask",)  # the mask of the text network, which follows from its length


def hpsv2(path: Path, *, antialias: bool = False, tokenizer: str = "", hub: HubOptions = HubOptions()) -> Hps:
    """HPS v2.0, about 0.25 to 0.28 as a cosine; never to be compared with v2.1.

    Args:
        path: ``HPS_v2_compressed.pt``, or the same weights as ``.safetensors``.
        antialias: smooth images when downscaling. The published scores were made without it.
        tokenizer: CLIP's tokenizer: model id on the Hugging Face Hub, or a folder. Default: that beside the weights if
            there is one, else LAION's.
        hub: how it is run.
    """
    return Hps("hpsv2", path, antialias=antialias, tokenizer=tokenizer, hub=hub)


def hpsv2_1(path: Path, *, antialias: bool = False, tokenizer: str = "", hub: HubOptions = HubOptions()) -> Hps:
    """HPS v2.1, about 0.14 to 0.33 as a cosine; never to be compared with v2.0.

    Args:
        path: ``HPS_v2.1_compressed.pt``, or the same weights as ``.safetensors``.
        antialias: smooth images when downscaling. The published scores were made without it.
        tokenizer: CLIP's tokenizer: model id on the Hugging Face Hub, or a folder. Default: that beside the weights if
            there is one, else LAION's.
        hub: how it is run.
    """
    return Hps("hpsv2.1", path, antialias=antialias, tokenizer=tokenizer, hub=hub)


class Hps(ModelScorer):
    """100 times the cosine of image and prompt.

    Images are prepared as the released program does: numbers in [0, 1], the longer side to 224 pixels by bicubic
    interpolation of the tensor, the rest filled with 0 on both sides, CLIP's mean and deviation. Tensors were not
    smoothed when the published scores were made (torchvision before 0.17); since then they are by default, which moves
    every score. ``antialias`` says it, and stands in the judge's name either way.

    Args:
        kind: ``hpsv2`` or ``hpsv2.1``: what the weights are; the files have the same form, so nothing else tells.
        path: file with open_clip's state dictionary, plain or under ``state_dict``.
        antialias: smooth images when downscaling. The published scores were made without it.
        tokenizer: CLIP's tokenizer: model id on the Hugging Face Hub, or a folder. Default: that beside the weights if
            there is one, else LAION's.
        hub: how it is run.

    Raises:
        UsageError: no such file, weights that are missing or too many, or no tokenizer.
        MissingExtra: ``torch`` or ``transformers`` is not installed.

    Source: Wu et al. 2023, arXiv:2306.09341.
    """

    def __init__(
        self, kind: str, path: Path, *, antialias: bool, tokenizer: str = "", hub: HubOptions = HubOptions()
    ) -> None:
        for module in ("torch", "transformers"):
            require(module, extra=EXTRA, purpose=f"the scorer {kind}")
        missing_file(path, kind)
        self._device, self._dtype = pick_device(hub.device), pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        self._antialias = antialias
        self._model = clip_of_open_clip(nested_tensors(path, "state_dict"), str(path)).to(self._device, self._dtype)
        text = self._model.config.text_config
        source = tokenizer or tokenizer_of(path, PROCESSOR)
        self._texts = TextTokens(load_tokenizer(source, hub.where(source)), int(text.max_position_embeddings))
        self._side = int(self._model.config.vision_config.image_size)
        self.name = judge_name(kind, path.name, content_id(path), antialias=antialias, dtype=hub.named_dtype)

    def judge_pairs(self, images: Sequence[LoadedImage], texts: Sequence[str]) -> Sequence[Judged]:
        """100 x cosine of each image and its text; a text that is there twice is read once.

        Args:
            images: N images.
            texts: the text of each.
        """
        distinct = list(dict.fromkeys(texts))
        of_texts = dict(zip(distinct, self._batches.run(distinct, self._texts, self._text_step), strict=True))
        of_images = self._batches.run(images, self._image_inputs, self._image_step)
        return [Judged(100 * float(v @ of_texts[text])) for v, text in zip(of_images, texts, strict=True)]

    def _image_inputs(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        return {"pixel_values": hps_input(image.pixels, side=self._side, antialias=self._antialias)}

    def _image_step(self, _: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return unit(self._model.get_image_features(pixel_values=inputs["pixel_values"].to(self._dtype)))

    def _text_step(self, _: Sequence[str], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return unit(self._model.get_text_features(**inputs))


def hps_input(pixels: np.ndarray, *, side: int = SIDE, antialias: bool = False) -> torch.Tensor:
    """The network input of HPS: the longer side to ``side``, the rest black on both sides.

    Args:
        pixels: RGB, shape (H, W, 3), uint8.
        side: of the input, pixels.
        antialias: whether the image is smoothed when it is made smaller.

    Returns:
        Shape (3, side, side), float32.
    """
    import torch

    values = torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))).float() / 255
    height, width = values.shape[1:]
    scale = side / max(height, width)
    if scale != 1:
        height, width = (max(1, round(edge * scale)) for edge in (height, width))
        values = torch.nn.functional.interpolate(
            values[None], size=(height, width), mode="bicubic", align_corners=False, antialias=antialias
        )[0]
    down, right = side - height, side - width
    # Left of the odd pixel is the smaller half, as the released program pads. An image that needs no resizing is square
    # in practice; one that is not is filled as well, as a network takes one size only.
    values = torch.nn.functional.pad(values, (right // 2, right - right // 2, down // 2, down - down // 2))
    mean, std = torch.tensor(MEAN)[:, None, None], torch.tensor(STD)[:, None, None]
    return (values - mean) / std


def clip_of_open_clip(weights: Mapping[str, torch.Tensor], source: str) -> Any:
    """A ``transformers`` CLIP with the weights of open_clip's state dictionary, every one of them used.

    Args:
        weights: tensors by open_clip's names.
        source: for messages.

    Raises:
        UsageError: other names or shapes than a CLIP of open_clip has.
    """
    from transformers import CLIPConfig, CLIPModel

    renamed: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        if name in _DERIVED:
            continue
        for new, part in _renamed(name, value):
            renamed[new] = part
    try:
        patches = renamed["vision_model.embeddings.patch_embedding.weight"]
        positions = renamed["vision_model.embeddings.position_embedding.weight"]
        words = renamed["text_model.embeddings.token_embedding.weight"]
        lengths = renamed["text_model.embeddings.position_embedding.weight"]
        size = {name: renamed[f"{name}_model.encoder.layers.0.mlp.fc1.weight"].shape[0] for name in ("vision", "text")}
        width = renamed["visual_projection.weight"].shape[0]
    except KeyError as err:
        raise UsageError(f"{source!r} is no CLIP in open_clip's layout: it has no weights for {err.args[0]}") from None
    layers = {
        name: len({key for key in renamed if re.fullmatch(rf"{name}_model\.encoder\.layers\.\d+\.mlp\.fc1\.bias", key)})
        for name in ("vision", "text")
    }
    common: dict[str, Any] = {"num_attention_heads": HEADS, "hidden_act": "gelu", "projection_dim": width}
    end = words.shape[0] - 1
    config = CLIPConfig(
        projection_dim=width,
        vision_config={
            **common, "hidden_size": patches.shape[0], "intermediate_size": size["vision"],
            "num_hidden_layers": layers["vision"], "patch_size": patches.shape[-1],
            "image_size": round((positions.shape[0] - 1) ** 0.5) * patches.shape[-1],
        },
        text_config={
            **common, "hidden_size": words.shape[1], "intermediate_size": size["text"], "vocab_size": words.shape[0],
            "num_hidden_layers": layers["text"], "max_position_embeddings": lengths.shape[0],
            # The last token closes a text; open_clip finds its place as that of the largest number.
            "bos_token_id": end - 1, "eos_token_id": end, "pad_token_id": end,
        },
    )  # fmt: skip
    return build(lambda: CLIPModel(config), renamed, source)


def _renamed(name: str, value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """One of open_clip's weights under the names of transformers; a name that it does not know stays."""
    if name in _OUTSIDE:
        return [(_OUTSIDE[name], value)]
    if name in _TRANSPOSED:
        return [(_TRANSPOSED[name], value.T.contiguous())]
    block = re.fullmatch(r"(visual\.)?transformer\.resblocks\.(\d+)\.(.+)\.?(weight|bias)", name)
    if block is None:
        return [(name, value)]
    tower = "vision_model" if block[1] else "text_model"
    start, inner = f"{tower}.encoder.layers.{block[2]}", block[3].rstrip("._")
    if inner == "attn.in_proj":
        parts = value.chunk(3)
        return [(f"{start}.self_attn.{q}_proj.{block[4]}", part) for q, part in zip("qkv", parts, strict=True)]
    return [(f"{start}.{_BLOCK.get(inner, inner)}.{block[4]}", value)]
