"""From the built-in detector's maps to boxes: peaks, then greedy suppression of boxes that repeat another.

The network cuts an image into cells. Per cell it says how much the cell is the centre of an object of any class
(objectness), which class and which colour that object has, and where its box lies. As objectness knows no classes, an
object that looks like two classes still gives one box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = [
    "NMS_IOU",
    "NMS_IOU_OF_BEFORE",
    "TOP_K",
    "Found",
    "box_iou",
    "calibrated",
    "classes_of_both_sides",
    "decode",
    "greedy_nms",
    "parts_discounted",
    "with_mirror_image",
]

TOP_K = 24
"""Cells of an image that are read at most, before boxes that repeat another are dropped."""

NMS_IOU = 0.5  # two objects hardly ever share a box this much, while boxes from both ends of a train do
NMS_IOU_OF_BEFORE = 0.6  # of files that were calibrated with it
PART = 0.5  # share of a box within a surer one from which it is taken for a part


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Boxes in one image, the surest first: Q boxes, C classes, K colours of the detector.

    Attributes:
        boxes: (x0, y0, x1, y1) in pixels, shape (Q, 4), float32.
        objectness: that there is an object of any class, in [0, 1], shape (Q,).
        class_scores: objectness times the probability of each class, in [0, 1], shape (Q, C).
        color_scores: probability of each colour, should the object have one of them, shape (Q, K).
    """

    boxes: np.ndarray
    objectness: np.ndarray
    class_scores: np.ndarray
    color_scores: np.ndarray

    @property
    def labels(self) -> np.ndarray:
        """Number of each box's most probable class, shape (Q,)."""
        labels: np.ndarray = self.class_scores.argmax(axis=1)
        return labels

    @property
    def scores(self) -> np.ndarray:
        """Confidence of that class, shape (Q,)."""
        scores: np.ndarray = self.class_scores.max(axis=1)
        return scores

    @property
    def class_shares(self) -> np.ndarray:
        """Probability of each class, should there be an object, shape (Q, C)."""
        shares: np.ndarray = self.class_scores / np.maximum(self.objectness, 1e-6)[:, None]
        return shares

    def take(self, chosen: np.ndarray) -> Found:
        """The boxes of a mask or of indices."""
        return Found(
            boxes=self.boxes[chosen],
            objectness=self.objectness[chosen],
            class_scores=self.class_scores[chosen],
            color_scores=self.color_scores[chosen],
        )


def decode(
    peaks: np.ndarray,
    classes: np.ndarray,
    boxes: np.ndarray,
    colors: np.ndarray,
    *,
    min_score: float = 0.05,
    top_k: int = TOP_K,
    nms_iou: float = NMS_IOU,
) -> list[Found]:
    """Boxes of every image of a batch.

    Args:
        peaks: objectness of the cells that exceed their eight neighbours, 0 elsewhere, shape (B, H, W), in [0, 1].
        classes: class probabilities, shape (B, C, H, W).
        boxes: (x0, y0, x1, y1) in pixels, shape (B, 4, H, W).
        colors: colour probabilities, shape (B, K, H, W).
        min_score: of the most probable class; boxes below are dropped.
        top_k: cells per image looked at, those of the highest objectness.
        nms_iou: of two boxes that overlap more, of whatever classes, the less confident is dropped.
    Returns:
        Per image.
    """
    n, height, width = peaks.shape
    cells = height * width
    flat = peaks.reshape(n, cells)
    k = min(top_k, cells)
    top = np.argpartition(-flat, k - 1, axis=1)[:, :k] if k < cells else np.tile(np.arange(cells), (n, 1))
    results = []
    for i in range(n):
        # Cells in ascending order first, so that equal scores are always ranked alike.
        chosen = np.sort(top[i])
        objectness = flat[i, chosen]
        chosen, objectness = chosen[objectness >= min_score], objectness[objectness >= min_score]
        candidate = Found(
            boxes=boxes[i].reshape(4, cells)[:, chosen].T.astype(np.float32),
            objectness=objectness.astype(np.float32),
            class_scores=(classes[i].reshape(classes.shape[1], cells)[:, chosen] * objectness).T.astype(np.float32),
            color_scores=colors[i].reshape(colors.shape[1], cells)[:, chosen].T.astype(np.float32),
        )
        scores = candidate.scores
        order = np.argsort(-scores, kind="stable")
        candidate = candidate.take(order[scores[order] >= min_score])
        results.append(candidate.take(greedy_nms(candidate.boxes, nms_iou)))
    return results


def with_mirror_image(found: Found, mirrored: Found, width: int, *, nms_iou: float = NMS_IOU) -> Found:
    """Boxes of an image averaged with those of its mirror image.

    What a network half believes in often depends on the side an object turns to it; seen from both sides the errors
    partly cancel. Two boxes that overlap by more than one half are one object: objectness, classes and colours are
    averaged, and edges by objectness. A box that only one of the two has keeps half of its objectness.

    Args:
        found: boxes of the image, in its pixels.
        mirrored: boxes of the mirror image, in its own pixels.
        width: of the image, in pixels.
        nms_iou: of two of the resulting boxes that overlap more, the less confident is dropped.
    """
    back = mirrored.boxes.copy()
    back[:, [0, 2]] = width - mirrored.boxes[:, [2, 0]]
    overlap = box_iou(found.boxes, back)
    twins = np.full(len(found.boxes), -1, dtype=np.int64)
    for i in range(len(twins)):  # the surest first, each with the nearest that is left
        if overlap.shape[1] and overlap[i].max() > 0.5:
            twins[i] = overlap[i].argmax()
            overlap[:, twins[i]] = 0
    both, alone = np.flatnonzero(twins >= 0), np.flatnonzero(twins < 0)
    theirs = np.setdiff1d(np.arange(len(back)), twins[both])
    ours, others = found.take(both), mirrored.take(twins[both])
    weight = (ours.objectness / np.maximum(ours.objectness + others.objectness, 1e-6))[:, None]
    objectness = np.concatenate([
        (ours.objectness + others.objectness) / 2, found.objectness[alone] / 2, mirrored.objectness[theirs] / 2,
    ])  # fmt: skip
    classes = np.concatenate([
        (ours.class_shares + others.class_shares) / 2,
        found.take(alone).class_shares,
        mirrored.take(theirs).class_shares,
    ])  # fmt: skip
    merged = Found(
        boxes=np.concatenate([
            ours.boxes * weight + back[twins[both]] * (1 - weight), found.boxes[alone], back[theirs]
        ]).astype(np.float32),
        objectness=objectness.astype(np.float32),
        class_scores=(classes * objectness[:, None]).astype(np.float32),
        color_scores=np.concatenate([
            (ours.color_scores + others.color_scores) / 2, found.color_scores[alone], mirrored.color_scores[theirs]
        ]).astype(np.float32),
    )  # fmt: skip
    merged = merged.take(np.argsort(-merged.scores, kind="stable"))
    return merged.take(greedy_nms(merged.boxes, nms_iou))


def calibrated(found: Found, scale: float, shift: float, *, min_score: float) -> Found:
    """Boxes whose objectness is the chance that there is an object, by Platt scaling of what it was.

    Args:
        found: boxes of an image.
        scale: factor of the logit of the objectness; above 0.
        shift: offset of the logit.
        min_score: boxes whose score is below after that are dropped.
    """
    if (scale, shift) != (1.0, 0.0):
        share = np.clip(found.objectness.astype(np.float64), 1e-6, 1 - 1e-6)
        objectness = 1 / (1 + np.exp(-(scale * np.log(share / (1 - share)) + shift)))
        found = Found(
            boxes=found.boxes,
            objectness=objectness.astype(np.float32),
            class_scores=(found.class_shares * objectness[:, None]).astype(np.float32),
            color_scores=found.color_scores,
        )
    found = found.take(found.scores >= min_score)
    return found.take(np.argsort(-found.scores, kind="stable"))


def parts_discounted(found: Found, weight: float) -> Found:
    """Boxes of which those that lie within a surer one count less.

    A hull is not a second boat and a handle no suitcase, but a network that knows objects by their parts half believes
    it. Suppression by intersection over union keeps such a box, as it is much smaller than the one around it.

    Args:
        found: boxes of an image.
        weight: factor of the objectness of a box of which at least half lies within a surer one, in [0, 1].
    """
    if weight == 1 or len(found.boxes) < 2:
        return found
    found = found.take(np.argsort(-found.scores, kind="stable"))
    shared, area, _ = _areas(found.boxes, found.boxes)
    within_surer = np.tril(shared >= PART * area[:, None], k=-1).any(axis=1)
    factor = np.where(within_surer, weight, 1.0).astype(np.float32)
    discounted = Found(
        boxes=found.boxes,
        objectness=found.objectness * factor,
        class_scores=found.class_scores * factor[:, None],
        color_scores=found.color_scores,
    )
    return discounted.take(np.argsort(-discounted.scores, kind="stable"))


def classes_of_both_sides(found: Found, mirrored: Found, width: int) -> Found:
    """Boxes of an image, their classes and colours alone averaged with those of its mirror image.

    For files whose threshold was chosen so. Boxes and objectness stay; a box without a counterpart (IoU above one half)
    stays as it is.

    Args:
        found: boxes of the image, in its pixels.
        mirrored: boxes of the mirror image, in its own pixels.
        width: of the image, in pixels.
    """
    if not len(found.boxes) or not len(mirrored.boxes):
        return found
    back = mirrored.boxes.copy()
    back[:, [0, 2]] = width - mirrored.boxes[:, [2, 0]]
    overlap = box_iou(found.boxes, back)
    twin = overlap.argmax(axis=1)
    seen = overlap[np.arange(len(twin)), twin] > 0.5
    classes = np.where(seen[:, None], (found.class_shares + mirrored.class_shares[twin]) / 2, found.class_shares)
    colors = np.where(seen[:, None], (found.color_scores + mirrored.color_scores[twin]) / 2, found.color_scores)
    merged = Found(
        boxes=found.boxes,
        objectness=found.objectness,
        class_scores=(classes * found.objectness[:, None]).astype(np.float32),
        color_scores=colors.astype(np.float32),
    )
    return merged.take(np.argsort(-merged.scores, kind="stable"))


def box_iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of every box of ``a`` (N, 4) with every box of ``b`` (M, 4); shape (N, M), in [0, 1].

    Boxes are (x0, y0, x1, y1), right and lower edges exclusive. Two empty boxes have 0.
    """
    shared, area_a, area_b = _areas(a, b)
    union = area_a[:, None] + area_b[None] - shared
    iou: np.ndarray = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return iou


def _areas(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Areas that boxes ``a`` (N, 4) and ``b`` (M, 4) share, (N, M), and their own, (N,) and (M,)."""
    a, b = np.asarray(a, dtype=np.float64).reshape(-1, 4), np.asarray(b, dtype=np.float64).reshape(-1, 4)
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    return shared, (a[:, 2:] - a[:, :2]).prod(axis=1), (b[:, 2:] - b[:, :2]).prod(axis=1)


def greedy_nms(boxes: np.ndarray, iou: float) -> np.ndarray:
    """Indices of the boxes that stay: each in turn drops all later ones that overlap it by more than ``iou``.

    Args:
        boxes: (x0, y0, x1, y1), the surest first, shape (Q, 4).
        iou: intersection over union above which a later box is dropped, in [0, 1].
    """
    overlap = box_iou(boxes, boxes) > iou
    kept: list[int] = []
    dropped = np.zeros(len(boxes), dtype=bool)
    for i in range(len(boxes)):
        if not dropped[i]:
            kept.append(i)
            dropped |= overlap[i]
    return np.array(kept, dtype=np.int64)
