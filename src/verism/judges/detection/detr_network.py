"""The network of DETR, written from its published description under the parameter names of the original code.

Source: Carion et al. 2020, "End-to-End Object Detection with Transformers", arXiv:2005.12872, Sec. 3.2 and appendix A;
He et al. 2016, arXiv:1512.03385, for the trunk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

__all__ = ["Detr", "DetrShape", "ResNetTrunk", "sine_positions"]

_EXPANSION = 4  # a ResNet bottleneck's output has four times its inner channels


@dataclass(frozen=True, kw_only=True)
class DetrShape:
    """Sizes of a DETR. The defaults are those of the published ResNet-50 model.

    Attributes:
        blocks: bottlenecks per stage of the trunk; (3, 4, 6, 3) is ResNet-50, (3, 4, 23, 3) ResNet-101.
        width: channels after the trunk's first convolution.
        dilation: stage 4 keeps the resolution of stage 3 and dilates its convolutions ("DC5").
        d_model: length of the transformer's vectors, a multiple of ``heads``.
        heads: attention heads per layer of the transformer.
        feedforward: hidden units of the feed-forward network in each layer of the transformer.
        encoder_layers: layers of the transformer's encoder.
        decoder_layers: layers of the transformer's decoder.
        queries: object queries, each of which gives one box.
        classes: classes the network tells apart, not counting "no object".
        colors: colours the network tells apart, not counting "none"; 0 for no colour head.
    """

    blocks: tuple[int, int, int, int] = (3, 4, 6, 3)
    width: int = 64
    dilation: bool = False
    d_model: int = 256
    heads: int = 8
    feedforward: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    queries: int = 100
    classes: int = 91
    colors: int = 0


class FrozenBatchNorm(nn.Module):
    """Batch normalisation with fixed statistics and affine parameters."""

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.get_buffer("weight") * (self.get_buffer("running_var") + self.eps).rsqrt()
        shift = self.get_buffer("bias") - self.get_buffer("running_mean") * scale
        return x * scale[:, None, None] + shift[:, None, None]


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions around a shortcut; the stride sits in the 3x3 ("ResNet v1.5")."""

    def __init__(self, inputs: int, inner: int, *, stride: int, dilation: int, project: bool) -> None:
        super().__init__()
        outputs = inner * _EXPANSION
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = FrozenBatchNorm(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=dilation, dilation=dilation, bias=False)
        self.bn2 = FrozenBatchNorm(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = FrozenBatchNorm(outputs)
        self.downsample: nn.Module | None = None
        if project:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), FrozenBatchNorm(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut: torch.Tensor = x if self.downsample is None else self.downsample(x)
        x = self.bn1(self.conv1(x)).relu()
        x = self.bn2(self.conv2(x)).relu()
        result: torch.Tensor = (self.bn3(self.conv3(x)) + shortcut).relu()
        return result


class ResNetTrunk(nn.Module):
    """A ResNet without its classifier: (B, 3, H, W) to (B, 32 * width, H / 32, W / 32), or / 16 with dilation."""

    def __init__(self, blocks: Sequence[int], *, width: int, dilation: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = FrozenBatchNorm(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        channels = width
        for stage, count in enumerate(blocks):
            inner = width * 2**stage
            dilated = dilation and stage == 3
            stride = 1 if stage == 0 or dilated else 2
            layer = []
            for index in range(count):
                # The first block of a dilated stage still has the dilation of the stage before.
                layer.append(
                    Bottleneck(
                        channels,
                        inner,
                        stride=stride if index == 0 else 1,
                        dilation=2 if dilated and index > 0 else 1,
                        project=index == 0,
                    )
                )
                channels = inner * _EXPANSION
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layer))
        self.channels = channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        for stage in range(1, 5):
            x = self.get_submodule(f"layer{stage}")(x)
        return x


class Backbone(nn.Module):
    """Gives the trunk its place in the original parameter names."""

    def __init__(self, shape: DetrShape) -> None:
        super().__init__()
        self.body = ResNetTrunk(shape.blocks, width=shape.width, dilation=shape.dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.body(x)
        return features


def sine_positions(height: int, width: int, d_model: int, *, device: torch.device | None = None) -> torch.Tensor:
    """Position encoding of a feature map without padding: half the features tell the row, half the column.

    Rows count from 1 to H and are scaled to (0, 2 pi]; feature pairs are the sine and cosine of that angle over
    ``10000 ** (2 i / n)``, n = d_model / 2. Source: arXiv:2005.12872, appendix A.4, and Parmar et al. 2018.

    Returns:
        Shape (H * W, d_model), float32, row by row.
    """
    n = d_model // 2
    frequency = 10000 ** (2 * (torch.arange(n, device=device) // 2) / n)

    def angles(length: int) -> torch.Tensor:
        steps = torch.arange(1, length + 1, dtype=torch.float32, device=device)
        phase = (steps / (length + 1e-6) * 2 * math.pi)[:, None] / frequency
        return torch.stack([phase[:, 0::2].sin(), phase[:, 1::2].cos()], dim=2).flatten(1)

    rows = angles(height)[:, None, :].expand(height, width, n)
    columns = angles(width)[None, :, :].expand(height, width, n)
    return torch.cat([rows, columns], dim=2).flatten(0, 1)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each normalised after its sum."""

    def __init__(self, shape: DetrShape) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(shape.d_model, shape.heads, batch_first=True)
        self.linear1 = nn.Linear(shape.d_model, shape.feedforward)
        self.linear2 = nn.Linear(shape.feedforward, shape.d_model)
        self.norm1 = nn.LayerNorm(shape.d_model)
        self.norm2 = nn.LayerNorm(shape.d_model)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        placed = x + positions
        x = self.norm1(x + self.self_attn(placed, placed, x, need_weights=False)[0])
        result: torch.Tensor = self.norm2(x + self.linear2(self.linear1(x).relu()))
        return result


class DecoderLayer(nn.Module):
    """Attention among queries, attention to the image and a feed-forward network, each normalised after its sum."""

    def __init__(self, shape: DetrShape) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(shape.d_model, shape.heads, batch_first=True)
        self.multihead_attn = nn.MultiheadAttention(shape.d_model, shape.heads, batch_first=True)
        self.linear1 = nn.Linear(shape.d_model, shape.feedforward)
        self.linear2 = nn.Linear(shape.feedforward, shape.d_model)
        self.norm1 = nn.LayerNorm(shape.d_model)
        self.norm2 = nn.LayerNorm(shape.d_model)
        self.norm3 = nn.LayerNorm(shape.d_model)

    def forward(
        self, x: torch.Tensor, queries: torch.Tensor, memory: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        placed = x + queries
        x = self.norm1(x + self.self_attn(placed, placed, x, need_weights=False)[0])
        x = self.norm2(x + self.multihead_attn(x + queries, memory + positions, memory, need_weights=False)[0])
        result: torch.Tensor = self.norm3(x + self.linear2(self.linear1(x).relu()))
        return result


class Layers(nn.Module):
    """A numbered list of layers and, for the decoder, a last normalisation: gives both their original names."""

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        if norm is not None:
            self.norm = norm


class Transformer(nn.Module):
    """Encoder over the image's features, decoder over the queries."""

    def __init__(self, shape: DetrShape) -> None:
        super().__init__()
        self.encoder = Layers([EncoderLayer(shape) for _ in range(shape.encoder_layers)])
        self.decoder = Layers([DecoderLayer(shape) for _ in range(shape.decoder_layers)], nn.LayerNorm(shape.d_model))

    def forward(self, memory: torch.Tensor, positions: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
        """Features (B, H * W, d), positions (H * W, d) and queries (N, d) to (B, N, d)."""
        for layer in self.encoder.layers:
            memory = layer(memory, positions)
        x = torch.zeros_like(queries).expand(len(memory), -1, -1)
        for layer in self.decoder.layers:
            x = layer(x, queries, memory, positions)
        result: torch.Tensor = self.decoder.norm(x)
        return result


class Mlp(nn.Module):
    """The three layers that give a box."""

    def __init__(self, inner: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(inner, inner), nn.Linear(inner, inner), nn.Linear(inner, outputs)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third = self.layers
        result: torch.Tensor = third(second(first(x).relu()).relu())
        return result


class Detr(nn.Module):
    """The detector: normalised images to class logits, boxes and, if it has the head, colour logits per query."""

    def __init__(self, shape: DetrShape) -> None:
        super().__init__()
        self.shape = shape
        self.backbone = nn.ModuleList([Backbone(shape)])
        self.input_proj = nn.Conv2d(shape.width * 8 * _EXPANSION, shape.d_model, 1)
        self.transformer = Transformer(shape)
        self.query_embed = nn.Embedding(shape.queries, shape.d_model)
        self.class_embed = nn.Linear(shape.d_model, shape.classes + 1)
        self.bbox_embed = Mlp(shape.d_model, 4)
        if shape.colors:
            self.color_embed = nn.Linear(shape.d_model, shape.colors + 1)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Detect.

        Args:
            pixels: shape (B, 3, H, W), less ImageNet's mean, over its deviation; without padding.
        Returns:
            Class logits (B, N, classes + 1), the last for "no object"; boxes (B, N, 4) as centre x, centre y, width,
            height in shares of the image; colour logits (B, N, colors + 1), the last for "none", or ``None``.
        """
        features = self.input_proj(self.backbone[0](pixels))
        height, width = features.shape[-2:]
        positions = sine_positions(height, width, self.shape.d_model, device=features.device).to(features.dtype)
        x = self.transformer(features.flatten(2).transpose(1, 2), positions, self.query_embed.weight)
        colors = self.color_embed(x) if self.shape.colors else None
        return self.class_embed(x), self.bbox_embed(x).sigmoid(), colors
