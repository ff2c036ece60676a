"""Measuring a detector on labelled images, and calibrating its threshold and scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from verism.judges.detection.builtin import BuiltinDetector
from verism.judges.detection.decode import Found, box_iou
from verism.training.scene_arrays import SceneArrays

__all__ = [
    "calibrate_threshold",
    "detect_all",
    "evaluate_detections",
    "evaluate_detector",
    "fit_score_calibration",
]

_MATCH_IOU = 0.5  # a box this near to the truth matches its object, as in Pascal VOC and COCO's AP50


def detect_all(detector: BuiltinDetector, arrays: SceneArrays) -> list[Found]:
    """The detector's boxes for all images, some at a time."""
    found: list[Found] = []
    for i in range(0, len(arrays), 64):
        found += detector.detect([arrays.images[j] for j in range(i, min(i + 64, len(arrays)))])
    return found


def evaluate_detector(detector: BuiltinDetector, arrays: SceneArrays, threshold: float | None = None) -> dict[str, Any]:
    """``evaluate_detections`` of what the detector finds, by default at its own threshold."""
    return evaluate_detections(
        detect_all(detector, arrays),
        arrays,
        detector.threshold if threshold is None else threshold,
        classes=detector.classes,
        colors=detector.colors,
    )


def _matches(found: Found, boxes: np.ndarray) -> np.ndarray:
    """Per found box, the surest first, the true object it finds, or -1; each object is found once; shape (Q,)."""
    matched = np.full(len(found.boxes), -1, dtype=np.int64)
    overlap = box_iou(found.boxes, boxes)
    for i in range(len(matched)):
        if overlap.shape[1] and overlap[i].max() >= _MATCH_IOU:
            matched[i] = overlap[i].argmax()
            overlap[:, matched[i]] = -1
    return matched


def evaluate_detections(
    found: Sequence[Found], arrays: SceneArrays, threshold: float, *, classes: Sequence[str], colors: Sequence[str]
) -> dict[str, Any]:
    """How well boxes with a score of at least ``threshold`` fit the truth.

    Returns:
        Shares in [0, 1], NaN where nothing was to be judged. ``exact_set``: images whose objects are all found, with
        the right classes, and nothing else; ``exact_count``: images with the right number of boxes; ``single_class``:
        images of one object whose surest box (without threshold) has its class; ``color``: found objects of known
        colour whose colour is right; ``ap50``: mean over classes of the average precision at IoU 0.5 (all points);
        ``exact_set_by_skill``; per class ``recall`` and ``precision``; ``confusions``: (true, told, times), the most
        frequent first; ``missed``, ``extra``: objects without a box, boxes without an object; ``wrong``: names of
        images whose set is not exact, at most 50.
    """
    n = len(arrays)
    exact_set, exact_count = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    single: list[bool] = []
    color_right: list[bool] = []
    n_true, n_told, n_right = (np.zeros(len(classes), dtype=np.int64) for _ in range(3))
    confusions: Counter[tuple[str, str]] = Counter()
    missed = extra = 0
    for i, (all_found, target) in enumerate(zip(found, arrays.targets, strict=True)):
        seen = all_found.take(all_found.scores >= threshold)
        labels = seen.labels
        match = _matches(seen, target.boxes)
        hit = match >= 0
        right = hit & (target.labels[match] == labels) if len(target.labels) else np.zeros(len(labels), dtype=bool)
        exact_count[i] = len(labels) == len(target.labels)
        exact_set[i] = exact_count[i] and right.all()
        if len(target.labels) == 1:
            single.append(len(all_found.scores) > 0 and int(all_found.labels[0]) == int(target.labels[0]))
        np.add.at(n_true, target.labels, 1)
        np.add.at(n_told, labels, 1)
        np.add.at(n_right, labels[right], 1)
        missed += len(target.labels) - int(hit.sum())
        extra += int((~hit).sum())
        for j in np.flatnonzero(hit):
            truth = int(target.labels[match[j]])
            if truth != labels[j]:
                confusions[classes[truth], classes[labels[j]]] += 1
            if target.colors[match[j]] >= 0 and len(colors):
                color_right.append(int(seen.color_scores[j].argmax()) == int(target.colors[match[j]]))
    by_skill = {s: float(exact_set[[k == s for k in arrays.skills]].mean()) for s in sorted(set(arrays.skills))}
    return {
        "pictures": n,
        "threshold": threshold,
        "exact_set": _mean(exact_set),
        "exact_count": _mean(exact_count),
        "single_class": _mean(single),
        "color": _mean(color_right),
        "ap50": _average_precision(found, arrays, len(classes)),
        "exact_set_by_skill": by_skill,
        "missed": missed,
        "extra": extra,
        "recall": {c: float(r / t) if t else math.nan for c, r, t in zip(classes, n_right, n_true, strict=True)},
        "precision": {c: float(r / t) if t else math.nan for c, r, t in zip(classes, n_right, n_told, strict=True)},
        "confusions": [(a, b, k) for (a, b), k in confusions.most_common(20)],
        "wrong": [arrays.names[i] for i in np.flatnonzero(~exact_set)[:50]],
    }


def _mean(values: Sequence[bool] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _average_precision(found: Sequence[Found], arrays: SceneArrays, n_classes: int) -> float:
    """Area under the precision envelope over recall, class by class, mean over classes that occur."""
    values = []
    for k in range(n_classes):
        n_true = sum(int((t.labels == k).sum()) for t in arrays.targets)
        if not n_true:
            continue
        scores, hits = [np.zeros(0)], [np.zeros(0, dtype=bool)]
        for seen, target in zip(found, arrays.targets, strict=True):
            mine = seen.take(seen.labels == k)
            scores.append(mine.scores)
            hits.append(_matches(mine, target.boxes[target.labels == k]) >= 0)
        order = np.argsort(-np.concatenate(scores), kind="stable")
        right = np.concatenate(hits)[order].cumsum()
        precision = right / np.arange(1, len(right) + 1)
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        values.append(float((envelope * np.diff(right, prepend=0)).sum() / n_true))
    return float(np.mean(values)) if values else math.nan


def calibrate_threshold(found: Sequence[Found], arrays: SceneArrays) -> float:
    """The score threshold with the most images of exactly the right number of boxes.

    Args:
        found: boxes down to a low score, one entry per image, for held-out images of the training split.
        arrays: the same images with their true boxes, in the same order.
    Returns:
        In [0.05, 0.95], a multiple of 0.01: the middle of the widest run of best thresholds.
    """
    candidates = np.round(np.arange(0.05, 0.951, 0.01), 2)
    right = np.zeros(len(candidates))
    for seen, target in zip(found, arrays.targets, strict=True):
        counts = (seen.scores[None] >= candidates[:, None]).sum(axis=1)
        right += counts == len(target.labels)
    best = np.flatnonzero(right == right.max())
    runs = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)
    widest = max(runs, key=len)
    return float(candidates[widest[len(widest) // 2]])


def fit_score_calibration(found: Sequence[Found], arrays: SceneArrays) -> tuple[float, float]:
    """Scale and shift of the objectness logits after which objectness is the chance that a box has found an object.

    Platt scaling: logistic regression of "matches an object" on the logit, targets smoothed as Platt (1999, Sec. 2.2)
    advises, so that a detector without mistakes does not become infinitely sure.

    Returns:
        (scale, shift); (1, 0) where there is nothing to learn from.
    """
    logits, hits = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    for seen, target in zip(found, arrays.targets, strict=True):
        p = np.clip(seen.objectness.astype(np.float64), 1e-6, 1 - 1e-6)
        logits.append(np.log(p / (1 - p)))
        hits.append(_matches(seen, target.boxes) >= 0)
    x, hit = np.concatenate(logits), np.concatenate(hits)
    n_hit, n_miss = int(hit.sum()), int((~hit).sum())
    if not n_hit or not n_miss:
        return 1.0, 0.0
    y = np.where(hit, (n_hit + 1) / (n_hit + 2), 1 / (n_miss + 2))
    design = np.stack([x, np.ones_like(x)], axis=1)
    weights = np.array([1.0, 0.0])
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(design @ weights, -50, 50)))
        gradient = design.T @ (p - y)
        hessian = (design * (p * (1 - p))[:, None]).T @ design + 1e-9 * np.eye(2)
        move = np.linalg.solve(hessian, gradient)
        weights = weights - move * min(1.0, 2.0 / max(float(np.abs(move).max()), 1e-12))
        if np.abs(move).max() < 1e-9:
            break
    # A falling curve would turn good boxes into bad ones: then the data say nothing of use.
    return (float(weights[0]), float(weights[1])) if weights[0] > 0 else (1.0, 0.0)
