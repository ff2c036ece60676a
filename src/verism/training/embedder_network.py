"""The built-in embedder as PyTorch networks: an image tower on the detector's trunk, and a small text tower.

The image tower takes the convolutions of the built-in detector up to 1/32 of the image, reads the cells of its two
coarsest maps as tokens of a transformer (Vaswani et al. 2017, arXiv:1706.03762), and pools them with learnt queries.
The text tower is a transformer over words. Both end in vectors of one space. Heads on the pooled image say which
objects there are, how many, in which colours, on which side, where, and what a person wears: known for every render,
they teach the image tower much faster than pairs of image and text alone.

Imports torch: load it on use only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from verism.training.detector_network import take_weights

__all__ = ["HEADS", "EmbedderNetwork", "ExportedImages", "ExportedTexts", "Shape"]

_SHUFFLE = 4  # as the detector's
_SIDE_BLOCKS = (1, 2, 3, 2)
HEADS = ("counts", "colors", "sides", "places", "garments")
"""Names of the heads, in order; see ``EmbedderNetwork.heads``."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the towers.

    Attributes:
        channels: of the trunk's stages; those of the detector whose trunk it starts from.
        size: side of the input image in pixels, a multiple of 32.
        words: tokens of the vocabulary.
        longest: tokens of a text.
        width: of the tokens of both towers.
        dim: of the vectors.
        classes: how many classes there are.
        colors: how many colours.
        places: how many environments.
        garments: how many garments.
    """

    channels: tuple[int, ...] = (24, 48, 128, 208)
    size: int = 192
    words: int = 150
    longest: int = 32
    width: int = 192
    dim: int = 256
    classes: int = 23
    colors: int = 10
    places: int = 20
    garments: int = 15

    @property
    def head_sizes(self) -> Mapping[str, int]:
        """Outputs of each head: at least 1, 2, 3, 4 of each class; each class in each colour; each class on each of
        four sides; places; garments."""
        return {
            "counts": 4 * self.classes,
            "colors": self.classes * self.colors,
            "sides": 4 * self.classes,
            "places": self.places,
            "garments": self.garments,
        }


class _Block(nn.Module):
    """A residual block of two convolutions, without normalisation: the detector's are folded into its weights."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.second(F.relu(self.first(x)))
        return F.relu(x + added)


class _Trunk(nn.Module):
    """The detector's stem and stages."""

    def __init__(self, channels: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3 * _SHUFFLE**2, channels[0], 3, padding=1)
        self.downs = nn.ModuleList(
            nn.Conv2d(before, after, 3, 2, 1) for before, after in zip(channels, channels[1:], strict=False)
        )
        self.stages = nn.ModuleList(
            nn.Sequential(*(_Block(c) for _ in range(depth))) for c, depth in zip(channels, _SIDE_BLOCKS, strict=True)
        )

    def early(self, pixels: Tensor) -> Tensor:
        """Up to 1/8: edges and colours, which stay as the detector learnt them."""
        x = (pixels.float() - 127.5) / 64
        x = F.pixel_unshuffle(x, _SHUFFLE).contiguous(memory_format=torch.channels_last)
        x = self.stages[0](F.relu(self.stem(x)))
        edges: Tensor = self.stages[1](F.relu(self.downs[0](x)))
        return edges

    def late(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps of 1/16 and 1/32."""
        middle = self.stages[2](F.relu(self.downs[1](x)))
        return middle, self.stages[3](F.relu(self.downs[2](middle)))


class _Layer(nn.Module):
    """A transformer layer, normalised first."""

    def __init__(self, width: int, heads: int = 4, widen: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_after = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, widen * width), nn.Linear(widen * width, width)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Tokens (B, T, W); ``hidden`` is added to attention scores, (B, 1, 1, T)."""
        batch, tokens, width = x.shape
        q, k, v = self.mix(self.norm(x)).reshape(batch, tokens, 3, self.heads, width // self.heads).unbind(2)
        seen = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            attn_mask=None if hidden is None else hidden.to(q.dtype),
        )
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        added: Tensor = self.down(F.gelu(self.up(self.norm_after(x))))
        return x + added


_QUERIES = 8


class ImageTower(nn.Module):
    """Images to pooled numbers."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.trunk = _Trunk(shape.channels)
        width, cells = shape.width, (shape.size // 32) ** 2
        self.coarse = nn.Linear(shape.channels[3], width)
        self.fine = nn.Linear(4 * shape.channels[2], width)
        # Paint is hardly to be told from the deep maps, which were learnt to name things: it is read off the early one.
        self.edges = nn.Linear(16 * shape.channels[1], width)
        nn.init.zeros_(self.edges.weight)
        self.positions = nn.Parameter(torch.randn(1, cells, width) * 0.02)
        self.layers = nn.ModuleList(_Layer(width) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.queries = nn.Parameter(torch.randn(_QUERIES, width) * width**-0.5)
        self.values = nn.Linear(width, width)

    def forward(self, pixels: Tensor, *, fixed_trunk: bool = False) -> Tensor:
        """Pooled numbers (B, Q W) of images (B, 3, S, S), RGB, values 0 to 255."""
        return self.read(self.maps(pixels, fixed_trunk=fixed_trunk))

    def maps(self, pixels: Tensor, *, fixed_trunk: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """The trunk's maps of 1/8, 1/16 and 1/32 of images; the first without a gradient, and all if it is fixed."""
        with torch.no_grad():
            early = self.trunk.early(pixels)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not fixed_trunk):
            middle, last = self.trunk.late(early)
        return early, middle, last

    def read(self, maps: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Pooled numbers (B, Q W) of the trunk's maps."""
        early, middle, last = maps
        tokens = self.coarse(last.flatten(2).transpose(1, 2))
        tokens = tokens + self.fine(F.pixel_unshuffle(middle, 2).flatten(2).transpose(1, 2))
        tokens = tokens + self.edges(F.pixel_unshuffle(early, 4).flatten(2).transpose(1, 2))
        tokens = tokens + self.positions
        for layer in self.layers:
            tokens = layer(tokens)
        tokens = self.norm(tokens)
        weights = torch.softmax(tokens @ self.queries.T, dim=1)
        pooled: Tensor = weights.transpose(1, 2) @ self.values(tokens)
        return pooled.flatten(1)


class TextTower(nn.Module):
    """Tokens to vectors."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.embed = nn.Embedding(shape.words, width)
        self.positions = nn.Parameter(torch.randn(1, shape.longest, width) * 0.02)
        self.layers = nn.ModuleList(_Layer(width, widen=2) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(2 * width, shape.dim)
        nn.init.normal_(self.embed.weight, std=0.05)

    def forward(self, tokens: Tensor) -> Tensor:
        """Vectors (B, D) of tokens (B, L), padded with 0; not normalised."""
        there = (tokens != 0).float()
        hidden = ((there - 1) * 1e4)[:, None, None, :]
        x = self.embed(tokens) + self.positions[:, : tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, hidden)
        x = self.norm(x)
        mean = (x * there[..., None].to(x.dtype)).sum(1) / there.sum(1, keepdim=True).to(x.dtype)
        vectors: Tensor = self.out(torch.cat([x[:, 0], mean], dim=1))
        return vectors


class EmbedderNetwork(nn.Module):
    """Both towers, and the heads.

    Args:
        shape: sizes.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.images, self.texts = ImageTower(shape), TextTower(shape)
        pooled = _QUERIES * shape.width
        self.image_out = nn.Linear(pooled, shape.dim)
        self.heads = nn.ModuleDict({name: nn.Linear(pooled, n) for name, n in shape.head_sizes.items()})
        # Of cosines: a temperature for ranking, and slope and middle for true or false.
        self.temperature = nn.Parameter(torch.tensor(3.0))
        self.slope, self.middle = nn.Parameter(torch.tensor(2.3)), nn.Parameter(torch.tensor(0.4))

    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Take the trunk of a detector, normalisation folded into its convolutions.

        Args:
            weights: by the names of the detector's ONNX file.

        Raises:
            KeyError, ValueError: a layer is missing there, or of another shape.
        """

        def take(conv: nn.Module, name: str) -> None:
            assert isinstance(conv, nn.Conv2d)
            assert conv.bias is not None
            with torch.no_grad():
                take_weights(conv.weight, weights, f"network.{name}.0.weight")
                take_weights(conv.bias, weights, f"network.{name}.0.weight_bias")

        trunk = self.images.trunk
        take(trunk.stem, "stem")
        for number, stage in enumerate(trunk.stages):
            shift = 0
            if number:
                take(trunk.downs[number - 1], f"stages.{number}.0")
                shift = 1
            blocks: Any = stage
            for k, block in enumerate(blocks):
                take(block.first, f"stages.{number}.{k + shift}.first")
                take(block.second, f"stages.{number}.{k + shift}.second")

    def forward(
        self, maps: tuple[Tensor, Tensor, Tensor], tokens: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Unit vectors of images (B, D) by the trunk's maps and of texts (T, D) in groups of like length; logits of
        the heads. All float32."""
        pooled = self.images.read(maps)
        image = F.normalize(self.image_out(pooled).float(), dim=1)
        text = F.normalize(torch.cat([self.texts(group) for group in tokens]).float(), dim=1)
        return image, text, {name: head(pooled).float() for name, head in self.heads.items()}


class ExportedImages(nn.Module):
    """The image tower as its ONNX file holds it."""

    def __init__(self, network: EmbedderNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Unit vectors (B, D) of uint8 images (B, S, S, 3), and probabilities by the heads: at least 1 to 4 of each
        class (B, C, 4), each class in each colour (B, C, K), on each side (B, C, 4), places (B, P), garments (B, G)."""
        network, shape = self.network, self.network.shape
        pooled = network.images(pixels.permute(0, 3, 1, 2))
        vectors = F.normalize(network.image_out(pooled), dim=1)
        heads = {name: torch.sigmoid(head(pooled)) for name, head in network.heads.items()}
        return (
            vectors,
            heads["counts"].reshape(-1, shape.classes, 4),
            heads["colors"].reshape(-1, shape.classes, shape.colors),
            heads["sides"].reshape(-1, shape.classes, 4),
            heads["places"],
            heads["garments"],
        )


class ExportedTexts(nn.Module):
    """The text tower as its ONNX file holds it."""

    def __init__(self, network: EmbedderNetwork) -> None:
        super().__init__()
        self.texts = network.texts

    def forward(self, tokens: Tensor) -> Tensor:
        """Unit vectors (B, D) of tokens (B, L)."""
        return F.normalize(self.texts(tokens), dim=1)
