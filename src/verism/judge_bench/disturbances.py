"""What is done to images to see whether a judge still holds: blur, compression, lost resolution, covered parts.

The truth of an image stays what it was. A strength is chosen so that a person would still answer alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PilImage
from PIL import ImageFilter

from verism.errors import UsageError
from verism.imaging import compressed
from verism.records import Request, Result
from verism.specs import did_you_mean
from verism.store import TRUTH, Run

__all__ = ["DISTURBANCES", "Disturbance", "KnownImages", "Strength", "parse_disturbances"]

Pixels = NDArray[np.uint8]
SQUARES = 16  # on each side of an image, of which occlusion covers some


def blur(pixels: Pixels, strength: float, key: int) -> Pixels:
    """Gaussian blur.

    Args:
        pixels: RGB, (H, W, 3).
        strength: standard deviation, pixels of an image of 256; scaled with the shorter side.
        key: not used.
    """
    del key
    radius = strength * min(pixels.shape[:2]) / 256
    return np.asarray(PilImage.fromarray(pixels).filter(ImageFilter.GaussianBlur(radius)))


def jpeg(pixels: Pixels, strength: float, key: int) -> Pixels:
    """Written as JPEG, and read again.

    Args:
        pixels: RGB, (H, W, 3).
        strength: quality as Pillow has it, 1 to 95; lower is worse.
        key: not used.
    """
    del key
    return np.asarray(compressed(PilImage.fromarray(pixels), int(strength)))


def resize(pixels: Pixels, strength: float, key: int) -> Pixels:
    """Made smaller, and enlarged to its size again.

    Args:
        pixels: RGB, (H, W, 3).
        strength: by how much, above 1.
        key: not used.
    """
    del key
    height, width = pixels.shape[:2]
    small = (max(1, round(width / strength)), max(1, round(height / strength)))
    image = PilImage.fromarray(pixels).resize(small, PilImage.Resampling.BOX)
    return np.asarray(image.resize((width, height), PilImage.Resampling.BICUBIC))


def occlusion(pixels: Pixels, strength: float, key: int) -> Pixels:
    """Small grey squares over parts of the image.

    Args:
        pixels: RGB, (H, W, 3).
        strength: share of the image that is covered, 0 to 1.
        key: which squares.
    """
    height, width = pixels.shape[:2]
    rng = np.random.default_rng([key, 0x0CC1])
    covered = rng.permutation(SQUARES * SQUARES) < round(strength * SQUARES * SQUARES)
    rows = np.minimum(np.arange(height) * SQUARES // height, SQUARES - 1)
    columns = np.minimum(np.arange(width) * SQUARES // width, SQUARES - 1)
    mask = covered.reshape(SQUARES, SQUARES)[rows[:, None], columns[None, :]]
    made = pixels.copy()
    made[mask] = 128
    return made


@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """A kind of damage.

    Attributes:
        apply: pixels, strength and a number that is the image's own, to pixels.
        strengths: those tried unless others are named.
        low: the least strength.
        high: the greatest.
        words: how a strength is said.
    """

    apply: Callable[[Pixels, float, int], Pixels]
    strengths: tuple[float, ...]
    low: float
    high: float
    words: str


DISTURBANCES: Mapping[str, Disturbance] = {
    "blur": Disturbance(apply=blur, strengths=(1.0, 2.0), low=0.1, high=20, words="blur of {:g} pixels in 256"),
    "jpeg": Disturbance(apply=jpeg, strengths=(40, 10), low=1, high=95, words="JPEG of quality {:g}"),
    "resize": Disturbance(apply=resize, strengths=(2, 4), low=1.01, high=32, words="resolution by {:g}"),
    "occlusion": Disturbance(apply=occlusion, strengths=(0.1, 0.25), low=0.01, high=0.9, words="{:.0%} covered"),
}


@dataclass(frozen=True)
class Strength:
    """A disturbance at one strength.

    Attributes:
        kind: its name.
        strength: how strong.
    """

    kind: str
    strength: float

    def __str__(self) -> str:
        return f"{self.kind}={self.strength:g}"

    @property
    def words(self) -> str:
        """For a reader."""
        return DISTURBANCES[self.kind].words.format(self.strength).replace("%", " %")

    def applied(self, pixels: Pixels, name: str) -> Pixels:
        """The disturbed image; the same for the same name."""
        return DISTURBANCES[self.kind].apply(pixels, self.strength, zlib.crc32(name.encode()))


def parse_disturbances(text: str) -> list[Strength]:
    """``blur,jpeg=20`` as disturbances at their strengths: without a number, those tried by default.

    Raises:
        UsageError: an unknown one, or a strength outside its range.
    """
    made: list[Strength] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        kind, _, number = part.partition("=")
        kind = {"resizing": "resize"}.get(kind, kind)
        known = DISTURBANCES.get(kind)
        if known is None:
            raise UsageError(
                f"no disturbance {kind!r}; there are {', '.join(DISTURBANCES)}.{did_you_mean(kind, DISTURBANCES)}"
            )
        if not number:
            made += [Strength(kind, strength) for strength in known.strengths]
            continue
        try:
            strength = float(number)
        except ValueError:
            strength = float("nan")
        if not known.low <= strength <= known.high:
            raise UsageError(f"{kind}={number}: the strength is a number from {known.low:g} to {known.high:g}")
        made.append(Strength(kind, strength))
    return list(dict.fromkeys(made))


class KnownImages:
    """The images of another run with what is known of them, disturbed or as they are.

    Args:
        source: the run.
        tables: tables whose ground truth is taken along.
        strength: what is done to the images; None: nothing.
    """

    def __init__(self, source: Run, tables: Sequence[str], strength: Strength | None = None) -> None:
        import polars as pl

        self.source, self.strength = source, strength
        origin = source.manifest.settings.generator or "an unnamed generator"
        self.name = origin if strength is None else f"{origin}, {strength}"
        self._rows = {row["image_id"]: row for row in source.read("images").iter_rows(named=True)}
        self._truth: dict[str, dict[str, pl.DataFrame]] = {
            table: {str(key[0]): rows for key, rows in source.read(table, TRUTH).group_by("image_id")}
            for table in tables
            if source.has_truth(table)
        }

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for request in requests:
            row = self._rows.get(request.image_id)
            if row is None or row["state"] != "ok":
                note = "" if row is None else f"{row['state']}: {row['note'] or ''}"
                yield Result(image_id=request.image_id, state="missing", note=note)
                continue
            read = self.source.load_image(row)
            if read.pixels is None:
                yield Result(image_id=request.image_id, state="missing", note=f"{read.state}: {read.note}")
                continue
            pixels = read.pixels if self.strength is None else self.strength.applied(read.pixels, request.image_id)
            truth = {
                table: of_image[request.image_id]
                for table, of_image in self._truth.items()
                if request.image_id in of_image
            }
            yield Result(image_id=request.image_id, state="ok", pixels=pixels, truth=truth)
