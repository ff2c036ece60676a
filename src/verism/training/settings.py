"""Every setting of a training, with its meaning, range and default: here and nowhere else.

The command line makes its options of these fields, so ``--help`` and the keyword arguments cannot disagree. Imports
nothing but the standard library and messages.
"""

# ruff: noqa: RUF009  # `setting` makes a field, as `dataclasses.field` does
from __future__ import annotations

import dataclasses
import math
import types
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from verism.errors import UsageError

__all__ = [
    "ALL_SCENES",
    "EMBEDDER_RENDERING",
    "FACE_RENDERING",
    "GENERATED_SUITES",
    "PAINTSKILLS_CLASSES",
    "PAINTSKILLS_COLORS",
    "TRAIN_SUITE",
    "AugmentConfig",
    "AutoencoderConfig",
    "DetectorConfig",
    "EmbedderConfig",
    "FacesConfig",
    "FinetuneConfig",
    "GeneratorConfig",
    "Interval",
    "LrSchedule",
    "NetworkConfig",
    "Precision",
    "Rendering",
    "SceneChoice",
    "SecondLookConfig",
    "SkinToneConfig",
    "TrainConfig",
    "WriterConfig",
    "setting",
    "value_type",
]

LrSchedule = Literal["constant", "linear", "cosine"]
Precision = Literal["auto", "no", "fp16", "bf16"]

TRAIN_SUITE = "paintskills"  # whose train scenes are learnt unless another version is named
GENERATED_SUITES = (TRAIN_SUITE, "paintskills_v1")  # of which the built-in generators know all words
PAINTSKILLS_CLASSES: tuple[str, ...] = (
    "person", "airplane", "bicycle", "bus", "dog", "boat", "car", "van", "train", "fire hydrant", "stop sign",
    "backpack", "chair", "dining table", "skateboard", "bench", "suitcase", "traffic light", "bird", "bear", "bed",
    "potted plant", "umbrella",
)  # fmt: skip
"""Suite labels of both versions of the data set."""

PAINTSKILLS_COLORS: tuple[str, ...] = ("red", "blue", "yellow", "white", "purple", "green")


# --------------------------------------------------------------------------------------------------------------------
# Fields that describe and check themselves
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Interval:
    """A range of numbers as it is written on paper: ``[0, 1)``, ``(0, inf)``."""

    text: str

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound."""
        low, high = self.text[1:-1].split(",")
        return float(low), float(high)

    @property
    def is_open(self) -> tuple[bool, bool]:
        """Whether the lower and the upper bound themselves are outside."""
        return self.text[0] == "(", self.text[-1] == ")"

    def __contains__(self, value: float) -> bool:
        (low, high), (above, below) = self.bounds, self.is_open
        return (low < value if above else low <= value) and (value < high if below else value <= high)


def setting(about: str, default: Any = dataclasses.MISSING, *, within: str | None = None) -> Any:
    """A field of a settings class.

    Args:
        about: what it is, one sentence; the command line shows it as well.
        default: none makes the field a duty of the caller or of a subclass.
        within: range of a number, as ``Interval`` reads it; ``None``: any value of the field's type.
    """
    metadata = {"about": about, "within": Interval(within) if within else None}
    return dataclasses.field(default=default, metadata=metadata)


def _default(base: type, name: str, default: Any) -> Any:
    """A field of a base class with a default of the subclass's own."""
    metadata = next(f.metadata for f in dataclasses.fields(base) if f.name == name)
    return dataclasses.field(default=default, metadata=metadata)


@cache
def _types(config: type) -> dict[str, Any]:
    return get_type_hints(config)


def value_type(config: type, name: str) -> Any:
    """The type of a field's values, without ``None``: ``int``, ``float``, ``Literal["auto", "no"]`` ..."""
    hint = _types(config)[name]
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = [part for part in get_args(hint) if part is not type(None)]
    return hint


class _Checked:
    """Values out of range are refused when the object is made, all of them in one message."""

    def __post_init__(self) -> None:
        wrong = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value, within = getattr(self, field.name), field.metadata.get("within")
            kind = value_type(type(self), field.name)
            if value is None:
                continue
            if get_origin(kind) is Literal and value not in get_args(kind):
                wrong.append(f"{field.name} must be one of {', '.join(get_args(kind))}, got {value!r}")
            elif within is not None and value not in within:
                wrong.append(f"{field.name} must lie in {within.text}, got {value}")
        if wrong:
            raise UsageError("; ".join(wrong))


# --------------------------------------------------------------------------------------------------------------------
# Every training
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class TrainConfig(_Checked):
    """Settings that every training has."""

    steps: int | None = setting(
        "Length in steps, including earlier parts of a resumed training.", None, within="[1, inf)"
    )
    minutes: float | None = setting(
        "Length in minutes, including earlier parts of a resumed training; ends at steps if they are reached first.",
        None,
        within="(0, inf)",
    )
    batch_size: int = setting("Images per batch.", within="[1, inf)")
    lr: float | None = setting("Highest learning rate of AdamW.", within="(0, inf)")
    lr_schedule: LrSchedule = setting(
        "How the learning rate falls along the share of steps or time used, whichever is larger: constant (not at "
        "all), linear or cosine (both to lr_floor)."
    )
    lr_floor: float = setting("Learning rate at the end of a falling schedule, as a share of lr.", within="[0, 1]")
    lr_warmup_steps: int = setting("Steps in which the learning rate rises from zero.", within="[0, inf)")
    weight_decay: float = setting("Weight decay of AdamW.", within="[0, inf)")
    beta2: float = setting("Decay of AdamW's mean of squared gradients; beta1 is 0.9.", 0.999, within="(0, 1)")
    max_grad_norm: float = setting("Longer gradients are shortened to this norm.", within="(0, inf)")
    ema_decay: float | None = setting(
        "Decay per step of the running average of the weights, which is exported; none: no average.",
        within="(0, 1)",
    )
    seed: int = setting("Decides every random choice.", 0, within="[0, inf)")
    device: str = setting("cpu, cuda, cuda:1 ...; auto: the GPU if there is one.", "auto")
    workers: int | None = setting("Threads.", None, within="[1, inf)")
    resume: bool = setting("Go on from the checkpoint if there is one; otherwise start anew.", True)
    log_every_s: float = setting("Seconds between two lines of the log.", 10.0, within="[0, inf)")
    checkpoint_every_s: float = setting("Seconds between two checkpoints.", 60.0, within="[0, inf)")
    validate_every_s: float = setting("Seconds between two validations.", 300.0, within="[0, inf)")
    refresh_every_s: float = setting("Seconds between two looks for new images.", 60.0, within="[0, inf)")

    @property
    def examples_per_step(self) -> int:
        """Examples that one step learns from."""
        return self.batch_size

    @property
    def warmup(self) -> int:
        """Steps of the warm-up of this very training."""
        return self.lr_warmup_steps

    def check_length(self) -> None:
        """Refuse a training without a length."""
        if self.steps is None and self.minutes is None:
            raise UsageError("say how long to train: --steps or --minutes (steps=, minutes=)")

    def share_done(self, step: int, elapsed_s: float) -> float:
        """Share of the training that is done, in [0, 1].

        Args:
            step: steps done so far.
            elapsed_s: seconds used so far.
        """
        by_steps = step / self.steps if self.steps else 0.0
        by_time = elapsed_s / (self.minutes * 60) if self.minutes else 0.0
        return min(1.0, max(by_steps, by_time))

    def lr_factor(self, step: int, done: float) -> float:
        """Learning rate of a step as a share of the highest, in [0, 1].

        Args:
            step: steps done so far.
            done: share of the training that is done, in [0, 1].
        """
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        if self.lr_schedule == "constant":
            return rise
        fall = 1 - done if self.lr_schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))
        return rise * (fall * (1 - self.lr_floor) + self.lr_floor)


# --------------------------------------------------------------------------------------------------------------------
# Our own networks
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class NetworkConfig(TrainConfig):
    """Networks trained from nothing, small enough for a CPU."""

    lr_schedule: LrSchedule = _default(TrainConfig, "lr_schedule", "cosine")
    lr_floor: float = _default(TrainConfig, "lr_floor", 0.01)
    weight_decay: float = _default(TrainConfig, "weight_decay", 0.02)
    ema_decay: float | None = _default(TrainConfig, "ema_decay", 0.998)
    workers: int | None = setting(
        "CPU cores to split every batch over; with a GPU, processes that prepare batches for it. Default: all.",
        None,
        within="[1, inf)",
    )

    @property
    def warmup(self) -> int:
        """``lr_warmup_steps``, but no more than a twentieth of the steps."""
        return max(1, min(self.lr_warmup_steps, self.steps // 20 if self.steps else self.lr_warmup_steps))

    @property
    def smallest_share(self) -> int:
        """Examples that a worker needs at least."""
        return 1


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(_Checked):
    """How images are varied for detector training: probabilities, unless stated otherwise."""

    flip: float = setting("Mirrored; not half of them, as it mirrors the letters on signs.", 0.3, within="[0, 1]")
    scale: tuple[float, float] = setting("Range of the zoom, log-uniform.", (0.75, 1.25))
    aspect: float = setting("Largest change of width against height, a factor.", 1.08, within="[1, inf)")
    cut: float = setting("Outer objects may lose up to a fifth at the frame.", 0.1, within="[0, 1]")
    collage: float = setting(
        "Put together from objects cut out of many images, each with some of what surrounds it: four to nine objects "
        "to learn from for the price of one image. The probability falls to a quarter of this by the end.",
        0.8,
        within="[0, 1]",
    )
    small_until: float = setting(
        "Share of the training in which all images are collages of four objects at half the side, at a quarter of the "
        "price: classes are learnt in many quick steps first.",
        0.25,
        within="[0, 1]",
    )
    coarse: float = setting(
        "Scaled down (to as little as a quarter) and up again, as upscaled model outputs are.", 0.07, within="[0, 1]"
    )
    paste: float = setting(
        "With one to three objects of other images pasted in, cut out along their masks: at all sizes, half of them "
        "so that they overlap an object that is there, often several of one class. Where masks are known.",
        0.25,
        within="[0, 1]",
    )
    blur: float = setting("Blurred.", 0.07, within="[0, 1]")
    jpeg: float = setting("Compressed as JPEG of quality 25 to 90.", 0.07, within="[0, 1]")
    noise: float = setting("Noisy.", 0.25, within="[0, 1]")
    gamma: float = setting("With another gamma.", 0.25, within="[0, 1]")
    patch: float = setting("With a small rectangle covered.", 0.1, within="[0, 1]")


@dataclass(frozen=True, kw_only=True)
class DetectorConfig(NetworkConfig):
    """The built-in detector."""

    start: str | None = setting(
        "Weights to start from: the ONNX file of a detector, or builtin for the packaged one. Default: random ones.",
        None,
    )
    keep: float = setting(
        "Share of the initial weights in the exported ones, to keep earlier abilities beside new ones (Wortsman et "
        "al. 2022, arXiv:2109.01903).",
        0.0,
        within="[0, 1)",
    )
    learn: Literal["all", "kinds"] = setting(
        "What to learn: all, or class and colour alone (kinds), which takes half the time and leaves boxes, score "
        "calibration and threshold of the detector it starts from as they are.",
        "all",
    )
    classes: tuple[str, ...] = setting("Classes to learn.", PAINTSKILLS_CLASSES)
    colors: tuple[str, ...] = setting("Colours to learn.", PAINTSKILLS_COLORS)
    width: float = setting("Factor of the network's channels; 1.0: 4.6 million parameters.", 0.8, within="(0, inf)")
    batch_size: int = setting("Images per batch, at least two for batch normalisation.", 16, within="[2, inf)")
    lr: float | None = _default(TrainConfig, "lr", 2e-3)
    lr_warmup_steps: int = _default(TrainConfig, "lr_warmup_steps", 100)
    max_grad_norm: float = _default(TrainConfig, "max_grad_norm", 5.0)
    augment: AugmentConfig | None = setting("How images are varied; none: not at all.", AugmentConfig())
    held_out: float = setting("Share of the train scenes kept for calibration.", 0.04, within="[0, 1)")

    @property
    def smallest_share(self) -> int:
        """Two: batch normalisation needs them."""
        return 2


@dataclass(frozen=True, kw_only=True)
class SecondLookConfig(NetworkConfig):
    """The built-in detector's second look at single objects."""

    start: str = setting("Detector whose second look, or trunk, it starts from: an ONNX file, or builtin.", "builtin")
    classes: tuple[str, ...] = setting("Classes to learn.", PAINTSKILLS_CLASSES)
    colors: tuple[str, ...] = setting("Colours to learn.", PAINTSKILLS_COLORS)
    width: float = setting("Factor of the network's channels, as the detector's.", 0.8, within="(0, inf)")
    batch_size: int = setting("Crops per batch, at least two for batch normalisation.", 64, within="[2, inf)")
    lr: float | None = _default(TrainConfig, "lr", 1e-3)
    lr_warmup_steps: int = _default(TrainConfig, "lr_warmup_steps", 100)
    max_grad_norm: float = _default(TrainConfig, "max_grad_norm", 5.0)
    augment: AugmentConfig = setting("How crops are varied.", AugmentConfig())
    others: float = setting(
        "Share of the crops that show no object, or not one whole object in the middle: what the detector it starts "
        "from takes for one, parts of objects, two in one box, and places without any.",
        0.35,
        within="[0, 1)",
    )
    confused: float = setting(
        "Share of the objects that are drawn by class, each class as often as the detector it starts from misses it or "
        "takes it for another; the rest are drawn evenly.",
        0.4,
        within="[0, 1)",
    )
    held_out: float = setting("Share of the train scenes kept for calibration.", 0.04, within="[0, 1)")

    @property
    def smallest_share(self) -> int:
        """Two: batch normalisation needs them."""
        return 2


@dataclass(frozen=True, kw_only=True)
class FacesConfig(DetectorConfig):
    """The built-in face finder: a detector of one class."""

    classes: tuple[str, ...] = _default(DetectorConfig, "classes", ("face",))
    colors: tuple[str, ...] = _default(DetectorConfig, "colors", ())
    size: int = setting(
        "Side of the square to which images are resized, in pixels, a multiple of 32. Larger sizes find smaller faces, "
        "more slowly.",
        384,
        within="[64, 1024]",
    )
    width: float = _default(DetectorConfig, "width", 0.25)
    augment: AugmentConfig | None = _default(
        DetectorConfig, "augment",
        AugmentConfig(
            flip=0.5, scale=(0.6, 1.5), aspect=1.15, collage=0.25, small_until=0.15, coarse=0.2, blur=0.15, jpeg=0.15
        ),
    )  # fmt: skip
    held_out: float = _default(DetectorConfig, "held_out", 0.15)


@dataclass(frozen=True, kw_only=True)
class SkinToneConfig(NetworkConfig):
    """The built-in estimator of skin tone."""

    face: int = setting("Side of the faces the network sees in pixels, a multiple of 16.", 64, within="[32, 256]")
    scene: int = setting("Side of the whole image it sees beside each, a multiple of 8.", 32, within="[16, 128]")
    context: float = setting("Side of the crop around a face, as a multiple of the face's longer side.", 1.5,
                             within="[1, 4]")  # fmt: skip
    width: float = setting("Factor of the network's channels; 1.0: 0.7 million parameters.", 1.0,
                           within="(0, inf)")  # fmt: skip
    batch_size: int = setting("Faces per batch, at least two for batch normalisation.", 32, within="[2, inf)")
    lr: float | None = _default(TrainConfig, "lr", 2e-3)
    lr_warmup_steps: int = _default(TrainConfig, "lr_warmup_steps", 50)
    max_grad_norm: float = _default(TrainConfig, "max_grad_norm", 5.0)
    spread: float = setting(
        "How far a target's probability spreads to the tones beside the true one: standard deviation in tones.", 0.5,
        within="(0, 5]",
    )  # fmt: skip
    relight: float = setting("Share of examples whose light is changed.", 0.4, within="[0, 1]")
    held_out: float = setting("Share of the examples kept for validation and calibration.", 0.15, within="[0, 1)")

    @property
    def smallest_share(self) -> int:
        """Two: batch normalisation needs them."""
        return 2


@dataclass(frozen=True, kw_only=True)
class EmbedderConfig(NetworkConfig):
    """The built-in embedder: two towers of images and texts."""

    size: int = setting("Side of the image tower's input in pixels, a multiple of 32.", 192, within="[32, 1024]")
    width: int = setting("Size of a token's vector, in both towers; a multiple of 8.", 192, within="[8, inf)")
    dim: int = setting("Numbers in the vector of an image or a text.", 256, within="[8, inf)")
    batch_size: int = setting("Images per batch, each with seven texts.", 64, within="[16, inf)")
    lr: float | None = _default(TrainConfig, "lr", 6e-4)
    lr_warmup_steps: int = _default(TrainConfig, "lr_warmup_steps", 100)
    beta2: float = _default(TrainConfig, "beta2", 0.98)
    max_grad_norm: float = _default(TrainConfig, "max_grad_norm", 5.0)
    weight_decay: float = _default(TrainConfig, "weight_decay", 0.05)
    fixed_trunk: float = setting(
        "Share of the training, at its start, in which the detector's trunk is frozen.", 0.08, within="[0, 1]"
    )
    kept_maps: float = setting(
        "Share of the training, at its end, in which the trunk is frozen and its maps of each image are computed "
        "once and kept in memory (0.1 MB per image), so that the layers above it get many more steps.",
        0.45,
        within="[0, 1]",
    )
    held_out: float = setting("Share of the examples kept for validation and calibration.", 0.04, within="[0, 1)")

    @property
    def smallest_share(self) -> int:
        """Images and texts are learnt from each other: a worker needs several."""
        return 16


@dataclass(frozen=True, kw_only=True)
class Rendering(_Checked):
    """What is rendered for a training that was given no examples."""

    count: int = setting("Images to learn from.", within="[1, inf)")
    test: int = setting("Images to measure on, of a seed of their own; 0: none.", within="[0, inf)")


FACE_RENDERING = Rendering(count=3_000, test=1_000)
EMBEDDER_RENDERING = Rendering(count=12_000, test=1_500)


@dataclass(frozen=True, kw_only=True)
class AutoencoderConfig(NetworkConfig):
    """The built-in generator's autoencoders of objects and sceneries."""

    width: float = setting("Factor of the networks' channels.", 1.0, within="(0, inf)")
    scenery_width: float | None = setting(
        "Factor of the channels of the scenery's network. Default: width. Small values suffice for plain backgrounds.",
        None,
        within="(0, inf)",
    )
    batch_size: int = setting("Images per batch, each with its scenery and all its objects.", 16, within="[1, inf)")
    lr: float | None = _default(TrainConfig, "lr", 1e-3)
    lr_warmup_steps: int = _default(TrainConfig, "lr_warmup_steps", 200)
    beta2: float = _default(TrainConfig, "beta2", 0.98)
    max_grad_norm: float = _default(TrainConfig, "max_grad_norm", 1.0)


@dataclass(frozen=True, kw_only=True)
class WriterConfig(AutoencoderConfig):
    """The built-in generator's transformer, which writes descriptions of images."""

    width: int = setting("Numbers in a token's vector, a multiple of 8.", 192, within="[8, inf)")
    depth: int = setting("Blocks of the transformer.", 4, within="[1, inf)")
    batch_size: int = _default(TrainConfig, "batch_size", 32)
    weight_decay: float = _default(TrainConfig, "weight_decay", 0.05)
    validate_every_s: float = _default(TrainConfig, "validate_every_s", 120.0)


@dataclass(frozen=True, kw_only=True)
class SceneChoice(_Checked):
    """Which train scenes a generator learns from."""

    skills: tuple[str, ...] | None = setting("Skills to learn; none: all that have prompts.", None)
    fraction: float = setting(
        "Share of the scenes of each skill to learn from: 1.0, 0.5, 0.1 in the published study.", 1.0, within="(0, 1]"
    )


ALL_SCENES = SceneChoice()


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig(AutoencoderConfig):
    """The built-in generator: settings of the layer autoencoders, and what both parts share."""

    autoencoder_share: float = setting("Share of the minutes for the layer decoders; the writer needs less.", 0.6,
                                   within="(0, 1)")  # fmt: skip
    writer_lr: float = setting("Highest learning rate of the writer, as a multiple of lr.", 1.5, within="(0, inf)")


# --------------------------------------------------------------------------------------------------------------------
# Models of others
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(TrainConfig):
    """Finetuning a Stable Diffusion model. How the papers did is not published; these are the diffusers examples'."""

    epochs: float | None = setting(
        "Length in passes over the images, rounded up to whole steps; cannot be combined with steps.",
        None,
        within="(0, inf)",
    )
    lora_rank: int | None = setting(
        "Rank of low-rank updates of the attention layers; none: all weights of the UNet are trained.",
        None,
        within="[1, inf)",
    )
    train_text_encoder: bool = setting("Train the text encoder as well, in the same way; never the VAE.", False)
    batch_size: int = _default(TrainConfig, "batch_size", 4)
    gradient_accumulation: int = setting("Batches per optimiser step.", 4, within="[1, inf)")
    lr: float | None = setting("Highest learning rate of AdamW; none: 1e-5, LoRA 1e-4.", None, within="(0, inf)")
    lr_schedule: LrSchedule = _default(TrainConfig, "lr_schedule", "constant")
    lr_floor: float = _default(TrainConfig, "lr_floor", 0.0)
    lr_warmup_steps: int = _default(TrainConfig, "lr_warmup_steps", 0)
    weight_decay: float = _default(TrainConfig, "weight_decay", 1e-2)
    max_grad_norm: float = _default(TrainConfig, "max_grad_norm", 1.0)
    ema_decay: float | None = _default(TrainConfig, "ema_decay", None)
    resolution: int | None = setting(
        "Side of the images in pixels; none: the size that UNet and VAE were trained for.", None, within="[8, inf)"
    )
    center_crop: bool = setting(
        "Keep the middle of an image that is not square; otherwise it is squeezed, so that nothing the prompt names "
        "is cut off.",
        False,
    )
    flip: bool = setting(
        "Mirror half of the images. Makes left and right of the spatial skill false; never use it there.", False
    )
    snr_gamma: float | None = setting(
        "Min-SNR weighting (Hang et al. 2023); 5 is usual; none: all time steps weigh the same.", None,
        within="(0, inf)",
    )  # fmt: skip
    caption_dropout: float = setting(
        "Share of images learnt without their prompt, as guidance needs; 0.1 is what Stable Diffusion was trained "
        "with.",
        0.1,
        within="[0, 1)",
    )
    mixed_precision: Precision = setting("no, fp16 or bf16; auto: bf16 on a GPU that has it, else no.", "auto")
    gradient_checkpointing: bool = setting("Less memory for about a quarter more time.", False)
    revision: str | None = setting("Branch, tag or commit of the base on the hub.", None)
    local_files_only: bool = setting("Never contact the hub; use its cache only.", False)
    workers: int | None = setting("Threads that read images ahead.", 4, within="[1, inf)")
    checkpoint_every_s: float = _default(TrainConfig, "checkpoint_every_s", 600.0)

    @property
    def examples_per_step(self) -> int:
        """Images of all batches of a step."""
        return self.batch_size * self.gradient_accumulation

    def check_length(self) -> None:
        """Refuse a training without a length, or with two."""
        if self.steps is not None and self.epochs is not None:
            raise UsageError(f"give steps ({self.steps}) or epochs ({self.epochs}), not both")
        if self.epochs is None:
            super().check_length()
