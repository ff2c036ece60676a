"""The built-in detector as a PyTorch network, with its targets and losses.

A residual network down to 1/32 of the image, merged upwards to cells of 8 pixels (Lin et al. 2017, arXiv:1612.03144).
Per cell: is it the centre of an object of any class (Gaussian targets and loss of CenterNet, Zhou et al. 2019,
arXiv:1904.07850, Eq. 1; Gaussians as wide and high as the box, TTFNet, Liu et al. 2020, arXiv:1909.00700, Sec. 3.2);
the four distances to its box's edges, its class, and its colour (learnt on the cells near the centre, as TTFNet does).
Objectness is separate from the class so that an object of doubtful class still gives one box and not two.

Imports torch: load it on use only.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from verism.judges.detection.decode import TOP_K

__all__ = [
    "STRIDE",
    "BatchTargets",
    "DetectorNetwork",
    "Exported",
    "ExportedSecondLook",
    "Maps",
    "SecondLookNetwork",
    "as_exported",
    "cell_boxes",
    "losses",
    "settle",
    "start_from",
    "start_second_look",
    "take_weights",
]

STRIDE = 8
"""Side of a cell in pixels."""


_SHUFFLE = 4  # pixels of a 4 x 4 patch become channels: the full resolution is never convolved, which saves most time
_DEPTHS = (1, 2, 3, 2)
_CHANNELS = (32, 64, 160, 256)
_NECK = 80
_BOX_UNIT = 32.0  # pixels: typical distance from a centre to an edge, so that the raw output is near 1

_GAUSSIAN = 0.54 / 6  # standard deviation per side of the box: TTFNet's alpha, and six deviations to a side
_NEAR = 0.05  # cells whose Gaussian is at least this learn box, class and colour, weighted by it


class _Conv(nn.Sequential):
    """Convolution, batch normalisation, and ReLU unless told otherwise."""

    def __init__(self, inside: int, outside: int, *, stride: int = 1, active: bool = True) -> None:
        norm = nn.BatchNorm2d(outside)
        layers: list[nn.Module] = [nn.Conv2d(inside, outside, 3, stride, 1, bias=False), norm]
        if active:
            layers.append(nn.ReLU(inplace=True))
        else:
            norm.weight = nn.Parameter(
                torch.zeros(outside)
            )  # a residual block starts as the identity (Goyal et al. 2017, arXiv:1706.02677)
        super().__init__(*layers)


class _Block(nn.Module):
    """Basic residual block (He et al. 2016, arXiv:1512.03385)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _Conv(channels, channels)
        self.second = _Conv(channels, channels, active=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(self.first(x)), inplace=True)


def _channels(width: float) -> list[int]:
    return [max(8, round(c * width / 8) * 8) for c in _CHANNELS]


def _trunk(channels: Sequence[int]) -> tuple[_Conv, nn.ModuleList]:
    """Stem and stages, down to 1/32 of the image."""
    stem, stages = _Conv(3 * _SHUFFLE**2, channels[0]), nn.ModuleList()
    for i, (c, depth) in enumerate(zip(channels, _DEPTHS, strict=True)):
        down = [_Conv(channels[i - 1], c, stride=2)] if i else []
        stages.append(nn.Sequential(*down, *(_Block(c) for _ in range(depth))))
    return stem, stages


def _levels(stem: _Conv, stages: nn.ModuleList, pixels: Tensor) -> list[Tensor]:
    """What each stage makes of images (B, 3, S, S), values 0 to 255."""
    x = (pixels.float() - 127.5) / 64
    first = stem[0]
    assert isinstance(first, nn.Conv2d)
    if first.in_channels != 3:
        x = F.pixel_unshuffle(x, _SHUFFLE).contiguous(memory_format=torch.channels_last)
    x = stem(x)
    levels: list[Tensor] = []
    for stage in stages:
        x = stage(x)
        levels.append(x)
    return levels


@dataclass(frozen=True, eq=False)
class Maps:
    """Raw outputs per cell, float32: C classes, K colours.

    Attributes:
        objectness: logits, shape (B, H, W).
        distances: from the cell's centre to the left, upper, right and lower edge, pixels, shape (B, 4, H, W).
        classes: logits, shape (B, C, H, W).
        colors: logits, shape (B, K, H, W).
    """

    objectness: Tensor
    distances: Tensor
    classes: Tensor
    colors: Tensor


class DetectorNetwork(nn.Module):
    """Pixels to maps.

    Args:
        n_classes, n_colors: at least 1 class; 0 colours is fine.
        width: multiplies all channel numbers; 1.0 has 4.6 million parameters.
    """

    def __init__(self, n_classes: int, n_colors: int, *, width: float = 1.0) -> None:
        super().__init__()
        self.n_classes, self.n_colors = n_classes, n_colors
        self._fixed: list[nn.Module] = []
        channels = _channels(width)
        neck = max(8, round(_NECK * width / 8) * 8)
        self.stem, self.stages = _trunk(channels)
        self.lateral = nn.ModuleList(nn.Conv2d(c, neck, 1) for c in channels[1:])
        self.smooth = _Conv(neck, neck)
        self.where = _Conv(neck, neck)
        self.what = _Conv(neck, neck)
        self.where_out = nn.Conv2d(neck, 5, 1)
        self.what_out = nn.Conv2d(neck, n_classes + n_colors, 1)
        nn.init.normal_(self.where_out.weight, std=0.01)
        # One cell in a hundred is a centre to begin with (RetinaNet, arXiv:1708.02002, Sec. 3.3).
        self.where_out.bias = nn.Parameter(torch.tensor([-math.log(99), 0.0, 0.0, 0.0, 0.0]))

    def learn_kinds(self) -> None:
        """From now on learn class and colour alone; normalisations of all else stay as they are."""
        self._fixed = [m for name, m in self.named_children() if name not in ("what", "what_out")]
        for module in self._fixed:
            module.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> DetectorNetwork:
        """See ``torch.nn.Module.train``; what is not learnt stays in evaluation mode."""
        super().train(mode)
        for module in self._fixed:
            module.eval()
        return self

    def features(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """What is read per cell, of images (B, 3, S, S), RGB, values 0 to 255, S a multiple of 32.

        Returns:
            For objectness and edges, and for class and colour.
        """
        levels = _levels(self.stem, self.stages, pixels)
        up = self.lateral[2](levels[3])
        up = self.lateral[1](levels[2]) + F.interpolate(up, scale_factor=2.0, mode="nearest")
        up = self.lateral[0](levels[1]) + F.interpolate(up, scale_factor=2.0, mode="nearest")
        up = self.smooth(up)
        return self.where(up), self.what(up)

    def located(self, where: Tensor) -> tuple[Tensor, Tensor]:
        """Objectness and distances as ``Maps`` has them, of ``features``."""
        out = self.where_out(where)
        return out[:, 0], torch.exp(out[:, 1:].clamp(-5.0, 3.0)) * _BOX_UNIT

    def forward(self, pixels: Tensor) -> Maps:
        """Maps of images (B, 3, S, S), RGB, values 0 to 255, S a multiple of 32."""
        where, what = (x.float() for x in self.features(pixels))
        # bfloat16 has 8 significant bits: good enough for features, too coarse for edges and scores.
        with torch.autocast(pixels.device.type, enabled=False):
            objectness, distances = self.located(where)
            kinds = self.what_out(what)
        return Maps(
            objectness=objectness,
            distances=distances,
            classes=kinds[:, : self.n_classes],
            colors=kinds[:, self.n_classes :],
        )


def start_from(network: DetectorNetwork, weights: Mapping[str, Tensor], outputs: Sequence[int | None]) -> None:
    """Take the weights of a detector's ONNX file, in which normalisation is folded into the convolutions.

    The network then answers as the file does in evaluation mode; ``settle`` makes it trainable.

    Args:
        network: of the same width; changed in place.
        weights: by the names of the ONNX file.
        outputs: per class, then per colour of the network, the row of the file's last layer that knows it; None where
            there is none, and what is drawn at random stays.

    Raises:
        KeyError: a layer is missing there.
        ValueError: a layer is of another shape there; the message names it.
    """
    _take_folded(network, weights)
    with torch.no_grad():
        for name, conv in network.named_modules():
            if isinstance(conv, nn.Conv2d) and conv.bias is not None and conv is not network.what_out:
                take_weights(conv.weight, weights, f"network.{name}.weight")
                take_weights(conv.bias, weights, f"network.{name}.bias")
        for own, row in enumerate(outputs):
            if row is not None:
                for parameter, kind in ((network.what_out.weight, "weight"), (network.what_out.bias, "bias")):
                    assert parameter is not None
                    parameter[own] = weights[f"network.what_out.{kind}"][row]


def start_second_look(network: SecondLookNetwork, weights: Mapping[str, Tensor]) -> None:
    """Take the weights of a second look's ONNX file, or the trunk of a detector's; see ``start_from``.

    Args:
        network: of the same width, classes and colours; changed in place.
        weights: by the names of the ONNX file. The last layer of a second look that does not tell objects from what is
            none lacks its last row, which is then learnt from nothing.

    Raises:
        KeyError, ValueError: as ``start_from``.
    """
    _take_folded(network, weights)
    out = weights.get("network.out.weight")
    if out is not None:
        with torch.no_grad():
            rows = min(len(out), len(network.out.weight))
            network.out.weight[:rows] = out[:rows]
            network.out.bias[:rows] = weights["network.out.bias"][:rows]


def _take_folded(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Convolutions and biases of all ``_Conv``; their normalisations add the bias and do nothing else."""
    with torch.no_grad():
        for name, module in network.named_modules():
            if isinstance(module, _Conv):
                conv, norm = module[0], module[1]
                assert isinstance(conv, nn.Conv2d)
                assert isinstance(norm, nn.BatchNorm2d)
                take_weights(conv.weight, weights, f"network.{name}.0.weight")
                take_weights(norm.bias, weights, f"network.{name}.0.weight_bias")
                norm.weight.fill_(1.0)
                norm.running_mean.zero_()  # type: ignore[union-attr]
                norm.running_var.fill_(1.0 - norm.eps)  # type: ignore[union-attr]


def take_weights(parameter: Tensor, weights: Mapping[str, Tensor], name: str) -> None:
    """Copy weights of a detector's ONNX file.

    Args:
        parameter: where to.
        weights: by the names of the file.
        name: which.

    Raises:
        KeyError: they are missing there.
        ValueError: they are of another shape there.
    """
    found = weights[name]
    if found.shape != parameter.shape and found.ndim == 4 and found.shape[1] == 3:
        found = F.pixel_unshuffle(found, _SHUFFLE)  # a first layer that sees the image as it is, see ``Exported``
    if found.shape != parameter.shape:
        raise ValueError(f"{name} is {tuple(weights[name].shape)} there and {tuple(parameter.shape)} here")
    parameter.copy_(found)


def as_exported(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a detector's file of any edition, as ``Exported`` has them.

    Args:
        weights: by the names of the file.

    Raises:
        KeyError: of no detector.
    """
    name = "network.stem.0.weight"
    first = weights[name]
    return {**weights, name: first if first.shape[1] == 3 else F.pixel_shuffle(first, _SHUFFLE)}


def settle(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Give every normalisation the mean and variance of what it sees, without changing what the network answers.

    Folding loses them, and training from a folded file needs them. Convolutions are scaled to outputs of variance 1.

    Args:
        network: its normalisations do nothing but add a bias, as ``start_from`` leaves them; changed in place.
        batches: images as the training shows them, each (B, 3, S, S).
    """
    sums: dict[nn.BatchNorm2d, list[Tensor]] = {}

    def watch(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].double().transpose(0, 1).flatten(1)
        new = torch.stack([torch.full_like(x[:, 0], x.shape[1]), x.sum(1), (x**2).sum(1)])
        assert isinstance(norm, nn.BatchNorm2d)
        sums.setdefault(norm, []).append(new)

    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    hooks = [norm.register_forward_pre_hook(watch) for norm in norms]
    trained = network.training
    network.eval()
    with torch.no_grad():
        for batch in batches:
            network(batch)
        for hook in hooks:
            hook.remove()
        for module in network.modules():
            if not isinstance(module, _Conv):
                continue
            conv, norm = module[0], module[1]
            assert isinstance(conv, nn.Conv2d)
            assert isinstance(norm, nn.BatchNorm2d)
            count, total, squares = torch.stack(sums[norm]).sum(0)
            mean = total / count
            variance = (squares / count - mean**2).clamp(min=1e-12)
            spread = variance.sqrt()
            conv.weight /= spread.to(conv.weight.dtype)[:, None, None, None]
            norm.running_mean.copy_(mean / spread)  # type: ignore[union-attr]
            norm.running_var.fill_(1.0)  # type: ignore[union-attr]
            norm.weight.copy_(spread * math.sqrt(1.0 + norm.eps))
            norm.bias.add_(mean.to(norm.bias.dtype))
    network.train(trained)


def cell_boxes(distances: Tensor) -> Tensor:
    """Boxes (x0, y0, x1, y1) in pixels from distances (B, 4, H, W) to the edges, same shape."""
    height, width = distances.shape[2:]
    y = (torch.arange(height, device=distances.device, dtype=distances.dtype) + 0.5) * STRIDE
    x = (torch.arange(width, device=distances.device, dtype=distances.dtype) + 0.5) * STRIDE
    left, top, right, bottom = distances.unbind(1)
    return torch.stack([x - left, y[:, None] - top, x + right, y[:, None] + bottom], dim=1)


class Exported(nn.Module):
    """The network as the ONNX file holds it: pixels in, what ``judges.detection.decode`` reads out.

    Args:
        network: in evaluation mode; a copy of it is kept, whose first layer sees the image as it is.
    """

    def __init__(self, network: DetectorNetwork) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)
        first = network.stem[0]
        assert isinstance(first, nn.Conv2d)
        # The same sums: to move pixels into channels takes longer than the convolution behind it.
        whole = nn.Conv2d(3, first.out_channels, 3 * _SHUFFLE, _SHUFFLE, _SHUFFLE, bias=False)
        whole.weight = nn.Parameter(F.pixel_shuffle(first.weight.detach(), _SHUFFLE))
        self.network.stem[0] = whole

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The cells that exceed their neighbours, N of them, the likeliest first, in images (B, S, S, 3), uint8.

        Returns:
            Peaks (B, 1, N), 0 where there are fewer, classes (B, C, 1, N), boxes (B, 4, 1, N), colours (B, K, 1, N).
        """
        network, size = self.network, float(pixels.shape[1])
        where, what = network.features(pixels.permute(0, 3, 1, 2))
        objectness, distances = network.located(where)
        scores = torch.sigmoid(objectness)
        highest = F.max_pool2d(scores[:, None], 3, stride=1, padding=1)[:, 0]
        peaks = torch.where(scores == highest, scores, torch.zeros_like(scores)).flatten(1)
        peaks, cells = peaks.topk(min(TOP_K, peaks.shape[1]), dim=1)
        boxes = _of_cells(cell_boxes(distances), cells).clamp(0.0, size)
        kinds = network.what_out(_of_cells(what, cells))  # of these cells alone
        classes, colors = kinds[:, : network.n_classes], kinds[:, network.n_classes :]
        return peaks[:, None], classes.softmax(1), boxes, colors.softmax(1)


def _of_cells(maps: Tensor, cells: Tensor) -> Tensor:
    """Values (B, C, 1, N) of maps (B, C, H, W) at N cells (B, N)."""
    return maps.flatten(2).gather(2, cells[:, None].expand(-1, maps.shape[1], -1))[:, :, None]


# --------------------------------------------------------------------------------------------------------------------
# The second look
# --------------------------------------------------------------------------------------------------------------------
class SecondLookNetwork(nn.Module):
    """Class and colour of the one object that a crop shows, and whether it shows one: the detector's trunk, and one
    answer for all of it.

    Args:
        n_classes, n_colors: at least 1 class; 0 colours is fine.
        width: of the detector whose trunk it is.
    """

    def __init__(self, n_classes: int, n_colors: int, *, width: float = 1.0) -> None:
        super().__init__()
        self.n_classes = n_classes
        channels = _channels(width)
        self.stem, self.stages = _trunk(channels)
        self.out = nn.Linear(channels[2] + 2 * channels[3], n_classes + n_colors + 1)
        nn.init.normal_(self.out.weight, std=0.01)
        nn.init.zeros_(self.out.bias)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of classes (B, C), colours (B, K) and objects (B,), float32, of crops (B, 3, S, S) of 0 to 255."""
        levels = _levels(self.stem, self.stages, pixels)
        pooled = [levels[2].mean((2, 3)), levels[3].mean((2, 3)), levels[3].amax((2, 3))]
        # As in the detector: bfloat16 is too coarse for probabilities.
        with torch.autocast(pixels.device.type, enabled=False):
            out = self.out(torch.cat(pooled, 1).float())
        return out[:, : self.n_classes], out[:, self.n_classes : -1], out[:, -1]


class ExportedSecondLook(nn.Module):
    """The second look as its ONNX file holds it: crops in, what ``judges.detection.second_look`` reads out."""

    def __init__(self, network: SecondLookNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Probabilities of classes (B, C), colours (B, K) and objects (B,) of uint8 crops (B, S, S, 3)."""
        classes, colors, objects = self.network(pixels.permute(0, 3, 1, 2))
        return classes.softmax(1), colors.softmax(1), objects.sigmoid()


# --------------------------------------------------------------------------------------------------------------------
# Targets and losses
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class BatchTargets:
    """Objects of a batch, one behind the other: N objects.

    Attributes:
        image: number in the batch, shape (N,), int64.
        boxes: (x0, y0, x1, y1) in pixels, shape (N, 4), float32.
        labels: class, shape (N,), int64.
        colors: colour or -1, shape (N,), int64.
    """

    image: Tensor
    boxes: Tensor
    labels: Tensor
    colors: Tensor

    def to(self, device: torch.device) -> BatchTargets:
        """On another device."""
        return BatchTargets(*(t.to(device) for t in (self.image, self.boxes, self.labels, self.colors)))


def gaussians(boxes: Tensor, height: int, width: int) -> Tensor:
    """Per object, a bump of height 1 at the cell of its centre, as wide and high as its box asks; shape (N, H, W)."""
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2 / STRIDE
    cell_x = centre[:, 0].floor().clamp(0, width - 1)
    cell_y = centre[:, 1].floor().clamp(0, height - 1)
    # Never so narrow that a neighbour of the centre counts as clear background.
    sigma = ((boxes[:, 2:] - boxes[:, :2]) / STRIDE * _GAUSSIAN).clamp(min=0.4)
    x = torch.arange(width, device=boxes.device, dtype=boxes.dtype) - cell_x[:, None]
    y = torch.arange(height, device=boxes.device, dtype=boxes.dtype) - cell_y[:, None]
    bump_x = torch.exp(-(x**2) / (2 * sigma[:, :1] ** 2))
    bump_y = torch.exp(-(y**2) / (2 * sigma[:, 1:] ** 2))
    return bump_y[:, :, None] * bump_x[:, None, :]


def losses(maps: Maps, targets: BatchTargets) -> dict[str, Tensor]:
    """The parts of the loss, scalars: ``objectness``, ``box``, ``class``, ``color``; add them up.

    Each is a mean over objects, so that large objects, which have more cells, weigh no more than small ones.
    """
    batch, height, width = maps.objectness.shape
    bumps = gaussians(targets.boxes, height, width)
    heat = torch.zeros_like(maps.objectness)
    if len(bumps):
        layers = targets.image[:, None, None].expand_as(bumps)
        heat = heat.scatter_reduce(0, layers, bumps, "amax")
    count = max(1, len(bumps))

    # CenterNet, Eq. 1, on logits: log(p) = -softplus(-z), log(1 - p) = -softplus(z).
    logits = maps.objectness
    probability = logits.sigmoid()
    positive = heat == 1
    loss = torch.where(
        positive,
        F.softplus(-logits) * (1 - probability) ** 2,
        F.softplus(logits) * probability**2 * (1 - heat) ** 4,
    )
    # Images without objects count as one, or a batch of them would weigh too much.
    parts = {"objectness": loss.sum() / max(count, batch)}
    if not len(bumps):
        # Zero, but not without a gradient: every weight has one in every step.
        nothing = {"box": maps.distances, "class": maps.classes, "color": maps.colors}
        return {**parts, **{name: values.sum() * 0 for name, values in nothing.items()}}

    # A cell near two centres learns the nearer object.
    which, y, x = ((bumps >= _NEAR) & (bumps == heat[targets.image])).nonzero(as_tuple=True)
    image = targets.image[which]
    weight = bumps[which, y, x]
    weight = weight / torch.zeros(count, device=weight.device).index_add(0, which, weight)[which]

    boxes = cell_boxes(maps.distances)[image, :, y, x]
    parts["box"] = 2 * (_giou_loss(boxes, targets.boxes[which]) * weight).sum() / count
    class_loss = F.cross_entropy(maps.classes[image, :, y, x], targets.labels[which], reduction="none")
    parts["class"] = (class_loss * weight).sum() / count
    known = targets.colors[which] >= 0
    n_known = int((targets.colors >= 0).sum())
    if n_known and maps.colors.shape[1]:
        logits = maps.colors[image[known], :, y[known], x[known]]
        color_loss = F.cross_entropy(logits, targets.colors[which][known], reduction="none")
        parts["color"] = 0.5 * (color_loss * weight[known]).sum() / n_known
    else:
        parts["color"] = maps.colors.sum() * 0
    return parts


def _giou_loss(a: Tensor, b: Tensor) -> Tensor:
    """1 - GIoU of boxes pair by pair, shape (N,), in [0, 2] (Rezatofighi et al. 2019, arXiv:1902.09630)."""
    shared = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(1)
    union = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - shared
    return 1 - shared / union.clamp(min=1e-6) + (hull - union) / hull.clamp(min=1e-6)
