"""A generator that draws rectangles, a detector that finds them by colour, and a metric of images."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from scipy import ndimage

import verism
from verism.records import DetectionNeed, LoadedImage, Prompt, Request, Result, frame
from verism.specs import SHARE, MetricSpec

RGB = {"red": (220, 0, 0), "green": (0, 160, 0), "blue": (0, 0, 220), "orange": (255, 150, 0), "purple": (140, 0, 160)}


class Rectangles:
    """Draws what a prompt of the suite ``shapes`` asks for.

    Args:
        error: share of images in which one shape gets another colour, from 0 to 1.
        size: width and height of images, pixels.
    """

    def __init__(self, *, error: float = 0.1, size: int = 96) -> None:
        self.error, self.size, self.name = error, size, f"rectangles(error={error},size={size})"

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for request in requests:
            rng = np.random.default_rng(request.seed)
            shapes = [tuple(shape) for shape in request.prompt.spec["shapes"]]
            if rng.random() < self.error:
                shapes[0] = (shapes[0][0], next(colour for colour in RGB if colour != shapes[0][1]))
            pixels, step = np.full((self.size, self.size, 3), 255, dtype=np.uint8), self.size // len(shapes)
            for n, (shape, colour) in enumerate(shapes):
                x, y, side = n * step + 2, int(rng.integers(2, self.size // 3)), step - 6
                pixels[y : y + (side // 3 if shape == "bar" else side), x : x + side] = RGB[colour]
            yield Result(image_id=request.image_id, state="ok", pixels=pixels)


class ColourBlobs:
    """Finds connected areas of one colour.

    Args:
        min_area: smaller areas are not reported, pixels.
    """

    role = "detector"

    def __init__(self, *, min_area: int = 20) -> None:
        self.min_area, self.name, self.threshold = min_area, f"colour_blobs(min_area={min_area})", 0.5

    def observe(self, images: Sequence[LoadedImage], need: DetectionNeed) -> pl.DataFrame:
        rows = []
        for image in images:
            results = [{"query": -1}]
            for colour in need.colors:
                areas, _ = ndimage.label(np.abs(image.pixels.astype(int) - RGB[colour]).sum(axis=2) < 60)
                for y, x in ndimage.find_objects(areas):
                    height, width = y.stop - y.start, x.stop - x.start
                    label = "bar" if width > 1.5 * height else "square"
                    box = {"x0": x.start, "y0": y.start, "x1": x.stop, "y1": y.stop, "label": label, "color": colour}
                    if height * width >= self.min_area:
                        scores = [float(c == label) for c in need.classes]
                        results.append({"query": len(results) - 1, "score": 1.0, "class_scores": scores, **box})
            rows += [{"image_id": image.image_id, "judge": self.name, **row} for row in results]
        return frame("detections", rows)


class MeanBrightness(verism.Metric):
    """Mean brightness of an image, from 0 (black) to 1 (white)."""

    spec = MetricSpec("mean_brightness", title="brightness", meaning="Mean of all pixels.", scale=SHARE, better=None)
    facets = ("task",)

    def measure(self, image: LoadedImage, prompt: Prompt) -> float:  # noqa: ARG002
        return float(image.pixels.mean() / 255)
