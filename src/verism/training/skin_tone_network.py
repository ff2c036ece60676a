"""The built-in estimator of skin tone as a PyTorch network, with its loss.

A residual network (He et al. 2016, arXiv:1512.03385) encodes the face, a smaller one the whole image, whose colours
depend on the light; both are pooled over positions by mean and maximum, and concatenated. Tones have an order: the
target is a normal distribution about the true one (soft labels as of Díaz and Marathe 2019, CVPR, with squared
distances in tones), so that a neighbour costs less than a tone far away.

Imports torch: load it on use only.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["TONES", "ExportedTones", "ToneNetwork", "tone_loss"]

TONES = 10
_FACE = (24, 48, 96, 128)
_SCENE = (16, 32, 48)


def _conv(inside: int, outside: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)
    )


class _Block(nn.Module):
    """Basic residual block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _conv(channels, channels, 1)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        nn.init.zeros_(self.norm.weight)  # a block starts as the identity (Goyal et al. 2017, arXiv:1706.02677)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm(self.second(self.first(x))), inplace=True)


def _pooled(x: Tensor) -> Tensor:
    """Mean and maximum over places, (B, C, H, W) -> (B, 2 C)."""
    return torch.cat([x.mean(dim=(2, 3)), x.amax(dim=(2, 3))], dim=1)


class ToneNetwork(nn.Module):
    """Faces and their images to logits of the ten tones.

    Args:
        width: multiplies all channel numbers.
    """

    def __init__(self, *, width: float = 1.0) -> None:
        super().__init__()
        face = [max(8, round(c * width / 8) * 8) for c in _FACE]
        scene = [max(8, round(c * width / 8) * 8) for c in _SCENE]
        # Two by two pixels become channels: the full resolution is never convolved, which saves most time.
        self.face = nn.Sequential(
            _conv(12, face[0], 1), _Block(face[0]),
            _conv(face[0], face[1], 2), _Block(face[1]),
            _conv(face[1], face[2], 2), _Block(face[2]),
            _conv(face[2], face[3], 2), _Block(face[3]),
        )  # fmt: skip
        self.scene = nn.Sequential(_conv(12, scene[0], 1), _conv(scene[0], scene[1], 2), _conv(scene[1], scene[2], 2))
        both = 2 * (face[1] + face[3] + scene[2])
        self.read = nn.Sequential(nn.Linear(both, 128), nn.ReLU(inplace=True), nn.Dropout(0.1), nn.Linear(128, TONES))

    def forward(self, faces: Tensor, scenes: Tensor) -> Tensor:
        """Logits (B, 10) of faces (B, 3, F, F) and images (B, 3, S, S), RGB, values 0 to 255."""
        x, whole = (
            F.pixel_unshuffle((p.float() - 127.5) / 64, 2).contiguous(memory_format=torch.channels_last)
            for p in (faces, scenes)
        )
        early = self.face[:4](x)
        last = self.face[4:](early)
        # Colours of small parts, eyes' whites among them, are lost in the last maps.
        features = torch.cat([_pooled(early), _pooled(last), _pooled(self.scene(whole))], dim=1).float()
        with torch.autocast(faces.device.type, enabled=False):
            return torch.as_tensor(self.read(features))


class ExportedTones(nn.Module):
    """The network as the ONNX file holds it: uint8 images in; probabilities of a face and its mirror image out.

    Args:
        network: the network.
        temperature: what logits are divided by, so that probabilities mean what they say.
    """

    def __init__(self, network: ToneNetwork, temperature: float = 1.0) -> None:
        super().__init__()
        self.network, self.temperature = network, temperature

    def forward(self, faces: Tensor, scenes: Tensor) -> Tensor:
        """Probabilities (B, 10) of faces (B, F, F, 3) and images (B, S, S, 3), uint8."""
        pair = faces.permute(0, 3, 1, 2), scenes.permute(0, 3, 1, 2)
        logits = self.network(*pair) + self.network(*(part.flip(3) for part in pair))
        chances: Tensor = (logits / (2 * self.temperature)).softmax(1)
        return chances


def tone_loss(logits: Tensor, tones: Tensor, spread: float) -> Tensor:
    """Cross-entropy with targets spread about the true tone, a mean over faces.

    Args:
        logits: shape (B, 10).
        tones: true tones, 1 to 10, shape (B,), int64.
        spread: standard deviation of the targets, in tones; above 0.
    """
    steps = torch.arange(1, TONES + 1, device=logits.device, dtype=torch.float32)
    target = torch.exp(-((steps - tones[:, None]) ** 2) / (2 * spread**2))
    target = target / target.sum(dim=1, keepdim=True)
    return F.cross_entropy(logits, target)
