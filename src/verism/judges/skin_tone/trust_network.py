"""The encoder of TRUST, written from its description under the parameter names of its public checkpoints.

A ResNet-50 with the stride in the 3 x 3 convolutions, the mean over its last map, and two layers on top. The encoder of
the scene's light and that of the albedo differ in what goes in and how many numbers come out.

Source: Feng et al. 2022, arXiv:2205.03962, Sec. 4; He et al. 2016, arXiv:1512.03385, for the trunk.
"""

from __future__ import annotations

import torch
from torch import nn

from verism.judges.detection.detr_network import ResNetTrunk

__all__ = ["TrustEncoder"]

_BLOCKS = (3, 4, 6, 3)
_WIDTH = 64
_HIDDEN = 1024


class TrustEncoder(nn.Module):
    """From images of 224 x 224 to a code.

    Args:
        channels: of the input: 3 for the light, 6 for the albedo.
        outputs: length of the code.
    """

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        self.encoder = ResNetTrunk(_BLOCKS, width=_WIDTH, dilation=False)
        self.encoder.conv1 = nn.Conv2d(channels, _WIDTH, 7, stride=2, padding=3, bias=False)
        self.layers = nn.Sequential(nn.Linear(self.encoder.channels, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Codes of some images.

        The published network has a window of 7 x 7 for the mean, which is the whole map of an image of 224 x 224. Here
        the mean is over the whole map of whatever size, as the released protocol cuts narrower images.

        Args:
            x: shape (N, channels, H, W), in [0, 1], in the precision of the trunk.
        Returns:
            Shape (N, outputs), float32.
        """
        codes: torch.Tensor = self.layers(self.encoder(x).float().mean(dim=(2, 3)))
        return codes
