"""Which images a judge card was measured on, and whether those of a run are like them.

A judge that was measured on sharp rendered scenes errs otherwise on blurred generated ones. So a card keeps a sample of
what its images look like, and an energy test holds the images of a run against it before numbers are adjusted.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PilImage

from verism.cards import ImageSample, JudgeCard
from verism.records import Estimand
from verism.statistics.two_sample import energy_test
from verism.store import Run

__all__ = ["ImageMatch", "detail_bands", "image_match", "sample_images", "strata_of"]

FEATURES = "detail-bands-1"
SIZE = 256  # pixels of the longer side at which detail is measured
BANDS = 4
FLOOR = 1e-3  # spread of luminance that stands for none, a quarter of a level of 8 bits
MOST = 240  # images of a sample: what is told apart at all is told apart by far fewer
LEAST = 8  # images on each side below which the test decides nothing
ALPHA = 0.01  # share of runs with images of the card's own kind that are taken for others


@dataclass(frozen=True, kw_only=True)
class ImageMatch:
    """Whether a run's images are like those that a card was measured on.

    Attributes:
        state: ``alike``: no difference was found; ``unlike``: they differ; ``unknown``: they could not be compared.
        p_value: of the two-sample test; NaN where there was none.
        words: the same in a sentence.
    """

    state: Literal["alike", "unlike", "unknown"]
    p_value: float
    words: str


def detail_bands(pixels: NDArray[np.uint8]) -> tuple[float, ...]:
    """How much detail an image has at four scales: log10 of the spread of luminance in four octaves.

    An image larger than 256 pixels is reduced to that first. Blur, grain, texture and compression change these numbers
    much, and what an image shows little: they tell how images were made, and not what of.

    Args:
        pixels: RGB, (height, width, 3).

    Returns:
        The octaves from 1 to 8 pixels, fine ones first, to three decimals; -3 where there is none.
    """
    image = PilImage.fromarray(pixels)
    image.thumbnail((SIZE, SIZE), PilImage.Resampling.BOX)
    level = np.asarray(image, dtype=np.float64) @ (0.299, 0.587, 0.114) / 255
    bands = []
    for _ in range(BANDS):
        if min(level.shape) < 2:
            bands.append(math.log10(FLOOR))
            continue
        even = level[: level.shape[0] // 2 * 2, : level.shape[1] // 2 * 2]
        level = even.reshape(even.shape[0] // 2, 2, even.shape[1] // 2, 2).mean(axis=(1, 3))
        bands.append(math.log10(FLOOR + float((even - level.repeat(2, axis=0).repeat(2, axis=1)).std())))
    return tuple(round(band, 3) for band in bands)


def strata_of(estimands: Iterable[Estimand], role: str) -> dict[str, str]:
    """What each image is judged for: the keys of all parts it is in, as text. Images are compared within these.

    Args:
        estimands: the scores as what they are made of.
        role: the judge's.
    """
    keys: dict[str, set[str]] = {}
    for estimand in estimands:
        if estimand.role == role:
            for part in estimand.parts:
                name = json.dumps(dict(part.key), sort_keys=True, default=str)
                for image_id in part.image_ids:
                    keys.setdefault(image_id, set()).add(name)
    return {image_id: " ".join(sorted(names)) for image_id, names in keys.items()}


def sample_images(run: Run, strata: Mapping[str, str]) -> ImageSample:
    """What images of a run look like: at most 240 of them, drawn by a hash of their ids.

    Args:
        run: with its images at hand; those that cannot be read are left out.
        strata: the images to draw from, with what each is judged for.
    """
    rows = run.read("images", columns=["image_id", "path", "sha256", "state"]).iter_rows(named=True)
    usable = {
        row["image_id"]: row for row in rows if row["state"] == "ok" and row["path"] and row["image_id"] in strata
    }
    drawn = sorted(usable, key=lambda name: hashlib.sha256(name.encode()).digest())[:MOST]
    features: list[tuple[str, tuple[float, ...]]] = []
    for name in sorted(drawn):
        pixels = run.load_image(usable[name]).pixels
        if pixels is not None:
            features.append((strata[name], detail_bands(pixels)))
    return ImageSample(generator=run.manifest.settings.generator or "", measured_by=FEATURES, features=tuple(features))


def image_match(card: JudgeCard, ours: ImageSample) -> ImageMatch:
    """Whether a run's images are like those of a card.

    Args:
        card: a judge card.
        ours: sample of the run's images.
    """
    theirs = [sample for sample in card.images if sample.measured_by == ours.measured_by]
    names = " and ".join(dict.fromkeys(sample.generator or "an unnamed generator" for sample in card.images))
    where = f"the judge was measured on images of {names}" if names else "the judge's card does not cover its images"
    first = [member for sample in theirs for member in sample.features]
    result = energy_test(
        _vectors(first), _vectors(ours.features), [s for s, _ in first], [s for s, _ in ours.features]
    )  # fmt: skip
    if min(result.n_first, result.n_second) < LEAST:
        why = "the card keeps no sample of them" if not first else "too few images can be compared"
        words = f"{where}, and whether this run's images are like them is not known ({why})"
        return ImageMatch(state="unknown", p_value=math.nan, words=words)
    unlike = result.p_value <= ALPHA
    found = "differ from them" if unlike else "are not found to differ from them"
    words = (
        f"{where}; this run's images {found} (two-sample test of detail, {result.n_first} and {result.n_second} "
        f"images, p = {result.p_value:.3f})"
    )
    return ImageMatch(state="unlike" if unlike else "alike", p_value=result.p_value, words=words)


def _vectors(members: Sequence[tuple[str, tuple[float, ...]]]) -> NDArray[np.float64]:
    return np.array([vector for _, vector in members], dtype=np.float64).reshape(-1, BANDS)
