"""From a detector's arrays to the table ``detections``: one place for its column rules.

An image's first row has ``query`` -1 and says that the image was looked at; its other rows are boxes. So "looked,
saw nothing" and "never looked" stay different things.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verism.records import DetectionNeed, empty_table, schema

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = ["ImageBoxes", "corners", "detection_table"]

_ROUNDING = 1e-5  # softmax in float32 may exceed 1 by as much


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageBoxes:
    """What a detector saw in one image: Q boxes, K classes of the need, C colours of the need.

    Attributes:
        image_id: the image.
        width: of the image, in pixels.
        height: of the image, in pixels.
        boxes: (x0, y0, x1, y1) in pixels of the image, right and lower edges exclusive, shape (Q, 4). Where they
            overhang the image they are kept: clipped, their centres would move, and with them the relations that
            rules read from centres.
        class_scores: confidence per class of the need, in its order, in [0, 1], shape (Q, K).
        labels: number of the need's class that is the detector's most probable one, -1 for a foreign class, shape (Q,).
        raw_labels: the detector's own name of its most probable class, Q of them.
        scores: confidence of that class, in [0, 1], shape (Q,).
        queries: number of each box, shape (Q,); ``None`` numbers them from 0.
        color_scores: confidence per colour of the need, in its order, shape (Q, C); ``None`` if not judged.
    """

    image_id: str
    width: int
    height: int
    boxes: np.ndarray
    class_scores: np.ndarray
    labels: np.ndarray
    raw_labels: Sequence[str]
    scores: np.ndarray
    queries: np.ndarray | None = None
    color_scores: np.ndarray | None = None


def corners(boxes: np.ndarray, *, width: float, height: float) -> np.ndarray:
    """Boxes (centre x, centre y, width, height) in shares of an image as (x0, y0, x1, y1) in pixels.

    Args:
        boxes: shape (Q, 4), in [0, 1].
        width: of the image, in pixels; what a horizontal share of 1 stands for.
        height: of the image, in pixels; what a vertical share of 1 stands for.
    Returns:
        Shape (Q, 4), float32, not clipped.
    """
    import numpy as np

    boxes = np.asarray(boxes, dtype=np.float32)
    centre, half = boxes[:, :2], boxes[:, 2:] / 2
    scale = np.array([width, height, width, height], dtype=np.float32)
    return np.concatenate([centre - half, centre + half], axis=1) * scale


def detection_table(
    images: Sequence[ImageBoxes], *, judge: str, need: DetectionNeed, min_score: float = 0.0
) -> pl.DataFrame:
    """The table ``detections`` of some images, in their order.

    Args:
        images: what was seen in each.
        judge: name of the detector.
        need: gives classes and colours their names and order.
        min_score: boxes whose ``score`` is lower are left out; the others keep their number.
    Raises:
        ValueError: arrays that do not fit each other, scores outside [0, 1], or numbers that are not finite.
    """
    import numpy as np
    import polars as pl

    if not images:
        return empty_table("detections")
    for image in images:
        _check(image, need)
    keep = [np.asarray(p.scores) >= min_score for p in images]
    # Row 0 of every image is the looked-at row; `box` marks the others.
    counts = np.array([1 + int(k.sum()) for k in keep], dtype=np.int64)
    n = int(counts.sum())
    box = np.ones(n, dtype=bool)
    box[np.cumsum(counts) - counts] = False

    def column(values: Sequence[np.ndarray], dtype: type, width: int | None = None) -> np.ndarray:
        """All images' kept values, with zeros in the looked-at rows."""
        out: np.ndarray = np.zeros(n if width is None else (n, width), dtype=dtype)
        if box.any():
            out[box] = np.concatenate([np.asarray(v)[k] for v, k in zip(values, keep, strict=True)])
        return out

    def named(names: Sequence[str], numbers: np.ndarray) -> pl.Series:
        """Names by number; -1 is null."""
        return pl.Series([*names, None], dtype=pl.String).gather(np.where(numbers < 0, len(names), numbers))

    def where_box(name: str, values: pl.Series) -> pl.Series:
        return values.to_frame("v").select(pl.when(pl.Series(box)).then(pl.col("v")).alias(name)).to_series()

    columns = schema("detections")
    edges = column([np.asarray(p.boxes).reshape(-1, 4) for p in images], np.float32, 4)
    queries = column([np.arange(len(p.scores)) if p.queries is None else p.queries for p in images], np.int32)
    queries[~box] = -1
    labels = column([p.labels for p in images], np.int64)
    labels[~box] = -1
    raw = column([np.array([*p.raw_labels, None], dtype=object)[:-1] for p in images], object)
    raw[~box] = None

    colored = np.repeat([p.color_scores is not None for p in images], counts) & box
    n_colors = len(need.colors)
    color_scores = column(
        [np.zeros((len(p.scores), n_colors)) if p.color_scores is None else p.color_scores for p in images],
        np.float32,
        n_colors,
    )
    best_color = np.where(colored, color_scores.argmax(axis=1), -1) if n_colors else np.full(n, -1)

    data: dict[str, pl.Series] = {
        "image_id": named([p.image_id for p in images], np.repeat(np.arange(len(images)), counts)),
        "judge": pl.repeat(judge, n, dtype=pl.String, eager=True),
        "query": pl.Series(queries),
        "label": named(need.classes, labels),
        "raw_label": pl.Series(raw.tolist(), dtype=pl.String),
        "score": where_box("score", pl.Series(column([p.scores for p in images], np.float32))),
        **{name: where_box(name, pl.Series(edges[:, i])) for i, name in enumerate(("x0", "y0", "x1", "y1"))},
        "class_scores": where_box(
            "class_scores",
            _lists(column([p.class_scores for p in images], np.float32, len(need.classes))),
        ),
        "color": named(need.colors, best_color),
        "color_scores": where_box("color_scores", _lists(color_scores, empty=~colored)),
    }
    return pl.DataFrame({name: data[name].cast(dtype) for name, dtype in columns.items()}, schema=columns)


def _lists(values: np.ndarray, empty: np.ndarray | None = None) -> pl.Series:
    """The rows of a matrix as lists; rows marked ``empty`` as empty lists."""
    import numpy as np
    import polars as pl

    nothing = pl.Series([[]], dtype=pl.List(pl.Float32)).new_from_index(0, len(values))
    if not len(values) or not values.shape[1]:
        return nothing
    lists = pl.Series(np.ascontiguousarray(values, dtype=np.float32)).cast(pl.List(pl.Float32))
    return lists if empty is None else lists.zip_with(pl.Series(~empty), nothing)


def _check(image: ImageBoxes, need: DetectionNeed) -> None:
    """Raise ValueError for arrays that would make a wrong table."""
    import numpy as np

    n = len(image.scores)
    results: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "boxes": (np.shape(image.boxes), (n, 4)),
        "class_scores": (np.shape(image.class_scores), (n, len(need.classes))),
        "labels": (np.shape(image.labels), (n,)),
        "raw_labels": ((len(image.raw_labels),), (n,)),
        "scores": (np.shape(image.scores), (n,)),
    }
    if image.queries is not None:
        results["queries"] = (np.shape(image.queries), (n,))
    if image.color_scores is not None:
        results["color_scores"] = (np.shape(image.color_scores), (n, len(need.colors)))
    for name, (came, expected) in results.items():
        if came != expected:
            raise ValueError(f"{image.image_id}: {name} must have shape {expected}, not {came}")
    if n == 0:
        return
    labels = np.asarray(image.labels)
    if labels.min() < -1 or labels.max() >= len(need.classes):
        raise ValueError(f"{image.image_id}: labels must be -1 or the number of one of {len(need.classes)} classes")
    if image.queries is not None and (np.min(image.queries) < 0 or len(np.unique(image.queries)) < n):
        raise ValueError(f"{image.image_id}: queries must be different and not negative")
    for name, values in (
        ("scores", image.scores),
        ("class_scores", image.class_scores),
        ("color_scores", image.color_scores),
    ):
        # Written so that NaN, which compares false with everything, is refused too.
        if values is not None and not np.all((values >= -_ROUNDING) & (values <= 1 + _ROUNDING)):
            raise ValueError(
                f"{image.image_id}: {name} must lie in [0, 1]; a detector that gives NaN in float16 needs float32"
            )
    boxes = np.asarray(image.boxes)
    if not np.all(np.isfinite(boxes)) or np.any(boxes[:, :2] > boxes[:, 2:]):
        raise ValueError(f"{image.image_id}: boxes must be finite, with x0 <= x1 and y0 <= y1")
