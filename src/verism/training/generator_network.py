"""The networks of the built-in generator: two that decode layers from discrete codes, and one that predicts the codes.

The decoders are halves of autoencoders with a finite scalar quantised code (Mentzer et al. 2024, arXiv:2309.15505):
each code is one of 64, two dimensions of eight levels. The writer is a causal transformer over the words of a prompt
and the tokens of an image, as in DALL-E (Ramesh et al. 2021, arXiv:2102.12092), but its tokens describe objects instead
of patches.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["FIGURE_CODES", "LEVELS", "SCENERY_CODES", "FigureCoder", "SceneryCoder", "Writer", "WriterStep"]

LEVELS = 8  # of each dimension of a code; a code has two
FIGURE_CODES = 12
SCENERY_CODES = 32


def quantise(z: torch.Tensor) -> torch.Tensor:
    """Bounded to [-1, 1] and rounded to ``LEVELS`` even steps; gradients pass as if nothing was rounded.

    Scaled to a mean square of one first: numbers that run away would all be rounded to the ends, and learn no more.
    """
    bounded = torch.tanh(F.rms_norm(z, z.shape[1:]))
    half = (LEVELS - 1) / 2
    rounded = (torch.round(bounded * half + half) - half) / half
    return bounded + (rounded - bounded).detach()


def to_codes(q: torch.Tensor) -> torch.Tensor:
    """Quantised numbers (B, 2 K) as codes (B, K), 0 to 63."""
    half = (LEVELS - 1) / 2
    levels = torch.round(q * half + half).long().reshape(q.shape[0], -1, 2)
    codes: torch.Tensor = levels[..., 0] * LEVELS + levels[..., 1]
    return codes


def from_codes(codes: torch.Tensor) -> torch.Tensor:
    """The inverse of ``to_codes``."""
    half = (LEVELS - 1) / 2
    levels = torch.stack([codes // LEVELS, codes % LEVELS], dim=-1).flatten(1)
    return (levels.float() - half) / half


class _Styled(nn.Module):
    """Two convolutions whose channels a style vector scales and shifts."""

    def __init__(self, channels_in: int, channels: int, style: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.style = nn.Linear(style, 2 * channels)

    def forward(self, x: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        scale, shift = self.style(style)[:, :, None, None].chunk(2, dim=1)
        x = F.silu(self.first(x) * (1 + scale) + shift)
        out: torch.Tensor = x + F.silu(self.second(x))
        return out


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + F.silu(self.conv(x))
        return out


def _style(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 192), nn.LayerNorm(192), nn.SiLU(), nn.Linear(192, 192), nn.SiLU())


def _lively(module: nn.Module) -> None:
    """Weights under which signals keep their size from layer to layer; without norms they would fade in depth."""
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _calm(module: nn.Module) -> None:
    """Branches beside an identity start small."""
    if isinstance(module, _Styled):
        module.second.weight.data *= 0.5
        module.style.weight.data *= 0.3
    if isinstance(module, _Residual):
        module.conv.weight.data *= 0.5
    if isinstance(module, nn.Embedding):
        module.weight.data *= 0.5


def _up(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


class FigureCoder(nn.Module):
    """Cut-out objects to codes and back.

    Args:
        classes: number of classes.
    """

    def __init__(self, classes: int, width: float = 1.0) -> None:
        super().__init__()
        a, b, c, d = (round(n * width / 8) * 8 for n in (128, 96, 64, 32))
        self.label = nn.Embedding(classes, 48)
        self.encode_in = nn.Sequential(
            nn.PixelUnshuffle(4),
            nn.Conv2d(5 * 16, b, 3, stride=2, padding=1),  # 24 -> 12
            nn.SiLU(),
            _Residual(b),
            nn.Conv2d(b, a, 3, stride=2, padding=1),  # 12 -> 6
            nn.SiLU(),
            _Residual(a),
        )
        self.encode_out = nn.Sequential(
            nn.LayerNorm(a * 36 + 48 + 1), nn.Linear(a * 36 + 48 + 1, 192), nn.SiLU(), nn.Linear(192, 2 * FIGURE_CODES)
        )
        self.style = _style(2 * FIGURE_CODES + 48 + 1)
        self.decode_in = nn.Linear(192, a * 36)
        self.at_6 = _Styled(a, a, 192)
        self.at_12 = _Styled(a, b, 192)
        self.at_24 = _Styled(b, c, 192)
        self.at_48 = _Styled(c, d, 192)
        self.head = nn.Conv2d(d, 5 * 4, 3, padding=1)
        self.width = a
        self.apply(_lively).apply(_calm)

    def encode(self, crops: torch.Tensor, labels: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
        """Quantised numbers (B, 24) of crops (B, 5, 96, 96): RGB and two masks; labels (B,), sides (B,)."""
        h = self.encode_in(crops).float().flatten(1)
        return quantise(self.encode_out(torch.cat([h, self.label(labels), torch.log(sides)[:, None]], dim=1)))

    def decode(self, q: torch.Tensor, labels: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
        """RGB, opacity and shadow as logits, (B, 5, 96, 96)."""
        style = self.style(torch.cat([q, self.label(labels), torch.log(sides)[:, None]], dim=1))
        x = F.silu(self.decode_in(style)).reshape(-1, self.width, 6, 6)
        x = self.at_6(x, style)
        x = self.at_12(_up(x), style)
        x = self.at_24(_up(x), style)
        x = self.at_48(_up(x), style)
        return F.pixel_shuffle(self.head(x), 2)

    def forward(self, codes: torch.Tensor, labels: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
        """RGB, opacity and shadow in [0, 1], (B, 96, 96, 5), from codes (B, 12): what is exported."""
        decoded = torch.sigmoid(self.decode(from_codes(codes), labels, sides))
        # The loss sees shadows at half the resolution, so a finer pattern in them is an accident.
        shadow = F.interpolate(F.avg_pool2d(decoded[:, 4:], 2), scale_factor=2.0, mode="bilinear", align_corners=False)
        return torch.cat([decoded[:, :4], shadow], dim=1).permute(0, 2, 3, 1)


class SceneryCoder(nn.Module):
    """Sceneries, seen where no object hides them, to codes and back; the codes lie on a grid of 4 x 4, two each."""

    def __init__(self, backgrounds: int, width: float = 1.0) -> None:
        super().__init__()
        a, b, c, d = (round(n * width / 8) * 8 for n in (128, 96, 64, 24))
        self.label = nn.Embedding(backgrounds, 48)
        self.encode_in = nn.Sequential(
            nn.PixelUnshuffle(4),
            nn.Conv2d(4 * 16, c, 3, stride=2, padding=1),  # 32 -> 16
            nn.SiLU(),
            nn.Conv2d(c, b, 3, stride=2, padding=1),  # 16 -> 8
            nn.SiLU(),
            _Residual(b),
            nn.Conv2d(b, a, 3, stride=2, padding=1),  # 8 -> 4
            nn.SiLU(),
            _Residual(a),
        )
        self.encode_out = nn.Conv2d(a + 48, 4, 1)
        self.style = _style(2 * SCENERY_CODES + 48)
        self.decode_in = nn.Conv2d(4 + 48, a, 1)
        self.at_4 = _Styled(a, a, 192)
        self.at_8 = _Styled(a, a, 192)
        self.at_16 = _Styled(a, b, 192)
        self.at_32 = _Styled(b, c, 192)
        self.at_64 = _Styled(c, d, 192)
        self.head = nn.Conv2d(d, 3 * 4, 3, padding=1)
        self.apply(_lively).apply(_calm)

    def encode(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Quantised numbers (B, 64) of images (B, 4, 128, 128): RGB and where it is hidden."""
        h = self.encode_in(images).float()
        label = self.label(labels)[:, :, None, None].expand(-1, -1, 4, 4)
        grid = self.encode_out(torch.cat([h, label], dim=1))  # (B, 4, 4, 4)
        return quantise(grid.permute(0, 2, 3, 1).flatten(1))

    def decode(self, q: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """RGB as logits, (B, 3, 128, 128)."""
        label = self.label(labels)
        style = self.style(torch.cat([q, label], dim=1))
        grid = q.reshape(-1, 4, 4, 4).permute(0, 3, 1, 2)
        x = self.decode_in(torch.cat([grid, label[:, :, None, None].expand(-1, -1, 4, 4)], dim=1))
        x = self.at_4(x, style)
        for block in (self.at_8, self.at_16, self.at_32, self.at_64):
            x = block(_up(x), style)
        return F.pixel_shuffle(self.head(x), 2)

    def forward(self, codes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """RGB in [0, 1], (B, 128, 128, 3), from codes (B, 32): what is exported."""
        return torch.sigmoid(self.decode(from_codes(codes), labels)).permute(0, 2, 3, 1)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.into(x).chunk(3, dim=2))
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def step(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, here: torch.Tensor, seen: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """One position: x (B, D), memories (B, H, T, D / H); ``here`` and ``seen`` (T,) mark it and all up to it."""
        q, k, v = (t.unflatten(1, (self.heads, -1)) for t in self.into(x).chunk(3, dim=1))
        keys = torch.where(here[None, None, :, None], k[:, :, None], keys)
        values = torch.where(here[None, None, :, None], v[:, :, None], values)
        weights = (q[:, :, None] @ keys.transpose(2, 3)) / math.sqrt(q.shape[-1])
        weights = torch.softmax(weights.masked_fill(~seen, -1e9), dim=-1)
        return self.out((weights @ values).flatten(1)), keys, values


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _Attention(width, heads, dropout)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm_1(x)))
        out: torch.Tensor = x + self.dropout(self.mlp(self.norm_2(x)))
        return out


class Writer(nn.Module):
    """Logits of the next token after each token of a sequence.

    Many tokens are steps of a number (a place, a size, a level of a code). Told as bare names they would have to be
    learnt one by one; told with features of their number, what is learnt of one holds for its neighbours.

    Args:
        features: fixed numbers of each token, shape (vocabulary, F); zeros where a token is nothing but a name.
        length: longest sequence.
    """

    def __init__(
        self,
        features: torch.Tensor,
        length: int,
        width: int = 192,
        layers: int = 4,
        heads: int = 8,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        vocabulary, numbers = features.shape
        self.features: torch.Tensor
        self.register_buffer("features", features.float())
        self.tokens = nn.Embedding(vocabulary, width)
        self.numbers = nn.Linear(numbers, width, bias=False)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        nn.init.normal_(self.tokens.weight, std=0.05)
        nn.init.normal_(self.numbers.weight, std=0.05)
        self.blocks = nn.ModuleList(_Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)
        self.head_numbers = nn.Linear(width, numbers)
        self.dropout = nn.Dropout(dropout)
        self.heads, self.width = heads, width

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Vectors of tokens, without their places."""
        out: torch.Tensor = self.tokens(tokens) + self.numbers(self.features[tokens])
        return out

    def told(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of what follows."""
        x = self.norm(x)
        out: torch.Tensor = self.head(x) + self.head_numbers(x) @ self.features.T
        return out

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits (B, T, vocabulary) from tokens (B, T)."""
        x = self.dropout(self.embed(tokens) + self.positions[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.told(x)


class WriterStep(nn.Module):
    """The writer one token at a time, with a memory of what it has read: what is exported."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self.writer = writer

    def forward(
        self, tokens: torch.Tensor, position: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (B, vocabulary) after tokens (B,) at ``position`` (1,).

        The memory has shape (layers, 2, B, heads, T, width / heads), and starts as zeros.
        """
        w = self.writer
        places = torch.arange(w.positions.shape[0])
        here, seen = places == position, places <= position
        x = w.embed(tokens) + w.positions[position]
        kept = []
        for number, block in enumerate(w.blocks):
            assert isinstance(block, _Block)
            mixed, keys, values = block.attention.step(
                block.norm_1(x), memory[number, 0], memory[number, 1], here, seen
            )
            x = x + mixed
            x = x + block.mlp(block.norm_2(x))
            kept.append(torch.stack([keys, values]))
        return w.told(x), torch.stack(kept)
