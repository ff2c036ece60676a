"""Inception-v3 in the two editions that image features are compared with, written from its published description.

``imagenet`` is the network of the torchvision weights; ``fid`` is the one that the 2015 TensorFlow graph of the FID was
ported to. They differ in their pooling branches and in the size of the last layer, so features of one cannot be
compared with features of the other. Parameter names are those of the published weight files.

Source: Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision", arXiv:1512.00567, Sec. 6 and
Figures 5 to 7; Heusel et al. 2017, arXiv:1706.08500, for the FID.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.nn import functional

__all__ = ["CLASSES", "FEATURES", "INPUT_PX", "Edition", "Inception"]

Edition = Literal["imagenet", "fid"]

INPUT_PX = 299
FEATURES = 2048
CLASSES: dict[Edition, int] = {"imagenet": 1000, "fid": 1008}
"""Outputs of the last layer. The FID's graph has eight more than there are classes."""

_BATCH_NORM_EPS = 0.001
_SHRUNK_AFTER = ("Conv2d_2b_3x3", "Conv2d_4a_3x3")  # by a maximum over 3 x 3 at every second position


class Convolution(nn.Module):
    """Convolution without bias, batch normalisation, ReLU."""

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, stride=stride, padding=padding, bias=False)
        self.bn: nn.Module = nn.BatchNorm2d(channels_out, eps=_BATCH_NORM_EPS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.bn(self.conv(x)), inplace=True)

    def fuse(self) -> None:
        """Fold the normalisation into the convolution: the same function in evaluation mode, in fewer passes."""
        if isinstance(self.bn, nn.BatchNorm2d):
            self.conv = torch.nn.utils.fusion.fuse_conv_bn_eval(self.conv, self.bn)
            self.bn = nn.Identity()


def _row(channels_in: int, channels_out: int, length: int) -> Convolution:
    """A convolution of height 1 that keeps the size."""
    return Convolution(channels_in, channels_out, (1, length), padding=(0, length // 2))


def _column(channels_in: int, channels_out: int, length: int) -> Convolution:
    """A convolution of width 1 that keeps the size."""
    return Convolution(channels_in, channels_out, (length, 1), padding=(length // 2, 0))


def _mean3(x: torch.Tensor, edition: Edition) -> torch.Tensor:
    """Mean of 3 x 3 neighbours. At the border TensorFlow divides by the neighbours that exist, PyTorch by nine."""
    return functional.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=edition == "imagenet")


class Block35(nn.Module):
    """Mixed_5b to 5d, on 35 x 35 (Figure 5 of the source)."""

    def __init__(self, channels_in: int, pooled: int, edition: Edition) -> None:
        super().__init__()
        self.edition = edition
        self.branch1x1 = Convolution(channels_in, 64, 1)
        self.branch5x5_1 = Convolution(channels_in, 48, 1)
        self.branch5x5_2 = Convolution(48, 64, 5, padding=2)
        self.branch3x3dbl_1 = Convolution(channels_in, 64, 1)
        self.branch3x3dbl_2 = Convolution(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Convolution(96, 96, 3, padding=1)
        self.branch_pool = Convolution(channels_in, pooled, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        five = self.branch5x5_2(self.branch5x5_1(x))
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch1x1(x), five, double, self.branch_pool(_mean3(x, self.edition))], dim=1)


class Shrink17(nn.Module):
    """Mixed_6a, from 35 x 35 to 17 x 17."""

    def __init__(self, channels_in: int) -> None:
        super().__init__()
        self.branch3x3 = Convolution(channels_in, 384, 3, stride=2)
        self.branch3x3dbl_1 = Convolution(channels_in, 64, 1)
        self.branch3x3dbl_2 = Convolution(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Convolution(96, 96, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, functional.max_pool2d(x, 3, stride=2)], dim=1)


class Block17(nn.Module):
    """Mixed_6b to 6e, on 17 x 17: convolutions of 7 x 7 taken apart into rows and columns (Figure 6)."""

    def __init__(self, channels_in: int, inner: int, edition: Edition) -> None:
        super().__init__()
        self.edition = edition
        self.branch1x1 = Convolution(channels_in, 192, 1)
        self.branch7x7_1 = Convolution(channels_in, inner, 1)
        self.branch7x7_2 = _row(inner, inner, 7)
        self.branch7x7_3 = _column(inner, 192, 7)
        self.branch7x7dbl_1 = Convolution(channels_in, inner, 1)
        self.branch7x7dbl_2 = _column(inner, inner, 7)
        self.branch7x7dbl_3 = _row(inner, inner, 7)
        self.branch7x7dbl_4 = _column(inner, inner, 7)
        self.branch7x7dbl_5 = _row(inner, 192, 7)
        self.branch_pool = Convolution(channels_in, 192, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return torch.cat([self.branch1x1(x), seven, double, self.branch_pool(_mean3(x, self.edition))], dim=1)


class Shrink8(nn.Module):
    """Mixed_7a, from 17 x 17 to 8 x 8."""

    def __init__(self, channels_in: int) -> None:
        super().__init__()
        self.branch3x3_1 = Convolution(channels_in, 192, 1)
        self.branch3x3_2 = Convolution(192, 320, 3, stride=2)
        self.branch7x7x3_1 = Convolution(channels_in, 192, 1)
        self.branch7x7x3_2 = _row(192, 192, 7)
        self.branch7x7x3_3 = _column(192, 192, 7)
        self.branch7x7x3_4 = Convolution(192, 192, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        three = self.branch3x3_2(self.branch3x3_1(x))
        seven = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return torch.cat([three, seven, functional.max_pool2d(x, 3, stride=2)], dim=1)


class Block8(nn.Module):
    """Mixed_7b and 7c, on 8 x 8 (Figure 7). In the FID's graph the last one takes a maximum instead of a mean."""

    def __init__(self, channels_in: int, edition: Edition, *, maximum: bool = False) -> None:
        super().__init__()
        self.edition = edition
        self.maximum = maximum
        self.branch1x1 = Convolution(channels_in, 320, 1)
        self.branch3x3_1 = Convolution(channels_in, 384, 1)
        self.branch3x3_2a = _row(384, 384, 3)
        self.branch3x3_2b = _column(384, 384, 3)
        self.branch3x3dbl_1 = Convolution(channels_in, 448, 1)
        self.branch3x3dbl_2 = Convolution(448, 384, 3, padding=1)
        self.branch3x3dbl_3a = _row(384, 384, 3)
        self.branch3x3dbl_3b = _column(384, 384, 3)
        self.branch_pool = Convolution(channels_in, 192, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        three = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        pooled = functional.max_pool2d(x, 3, stride=1, padding=1) if self.maximum else _mean3(x, self.edition)
        return torch.cat(
            [
                self.branch1x1(x),
                self.branch3x3_2a(three),
                self.branch3x3_2b(three),
                self.branch3x3dbl_3a(double),
                self.branch3x3dbl_3b(double),
                self.branch_pool(pooled),
            ],
            dim=1,
        )


class Inception(nn.Module):
    """The network without its auxiliary classifier, which training alone uses.

    Args:
        edition: ``imagenet`` or ``fid``; kept as a public attribute.
    """

    def __init__(self, edition: Edition) -> None:
        super().__init__()
        self.edition = edition
        self.Conv2d_1a_3x3 = Convolution(3, 32, 3, stride=2)
        self.Conv2d_2a_3x3 = Convolution(32, 32, 3)
        self.Conv2d_2b_3x3 = Convolution(32, 64, 3, padding=1)
        self.Conv2d_3b_1x1 = Convolution(64, 80, 1)
        self.Conv2d_4a_3x3 = Convolution(80, 192, 3)
        self.Mixed_5b = Block35(192, 32, edition)
        self.Mixed_5c = Block35(256, 64, edition)
        self.Mixed_5d = Block35(288, 64, edition)
        self.Mixed_6a = Shrink17(288)
        self.Mixed_6b = Block17(768, 128, edition)
        self.Mixed_6c = Block17(768, 160, edition)
        self.Mixed_6d = Block17(768, 160, edition)
        self.Mixed_6e = Block17(768, 192, edition)
        self.Mixed_7a = Shrink8(768)
        self.Mixed_7b = Block8(1280, edition)
        self.Mixed_7c = Block8(2048, edition, maximum=edition == "fid")
        self.fc = nn.Linear(FEATURES, CLASSES[edition])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Spatial means of the last feature map.

        Args:
            x: prepared images, shape (N, 3, 299, 299).
        Returns:
            Shape (N, 2048), >= 0.
        """
        for name, part in self.named_children():
            if name == "fc":
                break
            x = part(x)
            if name in _SHRUNK_AFTER:
                x = functional.max_pool2d(x, 3, stride=2)
        return x.float().mean(dim=(2, 3))

    def fuse(self) -> None:
        """Fold every normalisation into its convolution. For evaluation; the weights can no longer be loaded."""
        for part in self.modules():
            if isinstance(part, Convolution):
                part.fuse()
