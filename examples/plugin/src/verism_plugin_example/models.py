"""A generator that draws rectangles, a detector that finds them by colour, and a metric of images."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import polars as pl
from scipy import ndimage

import verism
from verism.records import DetectionNeed, LoadedImage, Prompt, Request, Result, frame
from verism.specs import MetricSpec, Scale

PALETTE = {"red": (220, 30, 30), "green": (30, 160, 60), "blue": (30, 60, 220), "orange": (255, 150, 0), "purple": (140, 40, 160)}


class Rectangles:
    """Draws what a prompt of the suite ``shapes`` asks for."""

    def __init__(self, *, error: float = 0.1, size: int = 96) -> None:
        """A generator.

        Args:
            error: share of images in which one shape gets another colour, from 0 to 1.
            size: width and height of images, pixels.
        """
        self.error, self.size, self.name = error, size, f"rectangles(error={error},size={size})"

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for request in requests:
            rng = np.random.default_rng(request.seed)
            shapes = [tuple(shape) for shape in request.prompt.spec["shapes"]]
            if rng.random() < self.error:
                shapes[0] = (shapes[0][0], next(colour for colour in PALETTE if colour != shapes[0][1]))
            pixels = np.full((self.size, self.size, 3), 255, dtype=np.uint8)
            step = self.size // len(shapes)
            for n, (shape, colour) in enumerate(shapes):
                x, y, side = n * step + 2, int(rng.integers(2, self.size // 3)), step - 6
                pixels[y : y + (side // 3 if shape == "bar" else side), x : x + side] = PALETTE[colour]
            yield Result(image_id=request.image_id, state="ok", pixels=pixels)


class ColourBlobs:
    """Finds connected areas of one colour of the palette."""

    role = "detector"

    def __init__(self, *, min_area: int = 20) -> None:
        """A detector.

        Args:
            min_area: smaller areas are not reported, pixels.
        """
        self.min_area, self.name, self.threshold = min_area, f"colour_blobs(min_area={min_area})", 0.5

    def observe(self, images: Sequence[LoadedImage], need: DetectionNeed) -> pl.DataFrame:
        rows = []
        for image in images:
            found = [{"query": -1}]
            for colour in need.colors:
                areas, _ = ndimage.label(np.abs(image.pixels.astype(int) - PALETTE[colour]).sum(axis=2) < 60)
                for box in ndimage.find_objects(areas):
                    height, width = (s.stop - s.start for s in box)
                    if height * width >= self.min_area:
                        label = "bar" if width > 1.5 * height else "square"
                        found.append({
                            "query": len(found) - 1, "label": label, "raw_label": label, "score": 1.0,
                            "x0": box[1].start, "y0": box[0].start, "x1": box[1].stop, "y1": box[0].stop,
                            "class_scores": [float(c == label) for c in need.classes],
                            "color": colour, "color_scores": [float(c == colour) for c in need.colors],
                        })  # fmt: skip
            rows += [{"image_id": image.image_id, "judge": self.name, **row} for row in found]
        return frame("detections", rows)


class MeanBrightness(verism.Metric):
    """Mean brightness of an image, from 0 (black) to 1 (white)."""

    spec: ClassVar = MetricSpec(
        "mean_brightness", title="mean brightness", meaning="Mean of all pixels, over images.",
        scale=Scale("brightness", 0.0, 1.0), better=None, source="this package",
    )  # fmt: skip
    facets = ("task",)

    def measure(self, image: LoadedImage, prompt: Prompt) -> float:
        return float(image.pixels.mean() / 255)
