"""Measuring a face finder and an estimator of skin tone on rendered faces, by tone, size and light."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from verism.judges.detection.decode import box_iou
from verism.statistics.intervals import wilson
from verism.statistics.judge_error import calibration_error
from verism.statistics.paired import holm
from verism.training.face_examples import FaceExamples, FaceFacts, ImageFacts

__all__ = [
    "HEIGHTS",
    "Searched",
    "TonePredictions",
    "equal_shares",
    "evaluate_finder",
    "evaluate_tones",
    "search",
    "threshold_for",
]

SAME_FACE = 0.4  # intersection over union from which on a box has found a face
NEAR_FACE = 0.15  # from which on a box that has found none is misplaced, and below which it is false
HEIGHTS = (0, 12, 16, 20, 24, 32, 48, 96)
"""Lower ends of the ranges of face heights, in pixels of the image, by which results are grouped."""

_PERMUTATIONS = 9_999


class Finder(Protocol):
    """What finds faces (``judges.skin_tone.faces.FaceFinder``)."""

    def find(self, pixels: NDArray[np.uint8]) -> list[Any]: ...


@dataclass(frozen=True, eq=False)
class Searched:
    """What a finder made of one image.

    Attributes:
        facts: of the image.
        scores: of each of its faces, the score of the box that has found it; below 0: none has.
        false: scores of the boxes that lie on no face, or on one that another box has found.
        misplaced: scores of the boxes near a face that none has found: it counts as missed, and they as nothing else.
    """

    facts: ImageFacts
    scores: NDArray[np.float64]
    false: NDArray[np.float64]
    misplaced: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


def search(finder: Finder, examples: FaceExamples, images: Iterable[int]) -> list[Searched]:
    """What a finder makes of some images. A box finds a face if they share ``SAME_FACE`` of their union; each face is
    found once, by the surest box. Boxes that share ``NEAR_FACE`` with a face that none has found are misplaced.

    Args:
        finder: the finder; boxes without a score count as sure.
        examples: images with faces.
        images: indices of those to look at.
    """
    result = []
    for k in images:
        known = examples.facts[k]
        faces = finder.find(np.asarray(examples.images[k]))
        boxes = np.array([f.box for f in faces], dtype=np.float64).reshape(-1, 4)
        sure = np.array([1.0 if f.score is None else f.score for f in faces], dtype=np.float64)
        true = np.array([f.box for f in known.faces], dtype=np.float64).reshape(-1, 4)
        overlap = box_iou(boxes, true)
        found, rest = np.full(len(true), -1.0), []
        for i in np.argsort(-sure, kind="stable").tolist():
            if len(true) and overlap[i].max() >= SAME_FACE:
                found[int(overlap[i].argmax())] = sure[i]
                overlap[:, int(overlap[i].argmax())] = -1
            else:
                rest.append(i)
        near = [i for i in rest if len(true) and overlap[i].max() >= NEAR_FACE]
        result.append(Searched(known, found, sure[[i for i in rest if i not in near]], sure[near]))
    return result


def threshold_for(searched: Sequence[Searched], *, false_per_image: float | None = None) -> float:
    """A score threshold, in steps of 0.01 from 0.05 to 0.95: that with the fewest errors, or the lowest with few false
    boxes.

    Args:
        searched: of held-out images, by a finder that reports boxes of low scores.
        false_per_image: most false boxes per image; None: as few missed faces and false boxes together as can be.
    """
    false = np.concatenate([np.zeros(0), *(s.false for s in searched)])
    faces = np.concatenate([np.zeros(0), *(s.scores for s in searched)])
    candidates = np.round(np.arange(0.05, 0.951, 0.01), 2)
    n_false = (false >= candidates[:, None]).sum(axis=1)
    if false_per_image is None:
        return float(candidates[int(np.argmin(n_false + (faces < candidates[:, None]).sum(axis=1)))])
    few = candidates[n_false <= false_per_image * len(searched)]
    return float(few[0]) if len(few) else 0.95


# --------------------------------------------------------------------------------------------------------------------
# Equal for all?
# --------------------------------------------------------------------------------------------------------------------
def equal_shares(hits: Mapping[str, Sequence[bool]], *, seed: int = 0) -> dict[str, Any]:
    """Whether a share is the same in all groups: a test of all, and one of each pair.

    Args:
        hits: by group, one value for each of its members; members are independent.
        seed: of the permutations.

    Returns:
        ``p``: of the test of homogeneity, a permutation test of Pearson's chi-square (9,999 permutations; margins as
        they are, so that shares near 1 do no harm); ``smallest_pair_p``: smallest p-value of Fisher's exact test over
        all pairs, adjusted by Holm; ``pair``: that pair. NaN where nothing differs.
    """
    from scipy.stats import fisher_exact

    names = list(hits)
    sizes = np.array([len(hits[name]) for name in names], dtype=np.float64)
    right = np.array([sum(hits[name]) for name in names], dtype=np.float64)
    total, share = sizes.sum(), right.sum() / max(sizes.sum(), 1)
    if not 0 < share < 1 or len(names) < 2:
        return {"p": float("nan"), "smallest_pair_p": float("nan"), "pair": None}

    def chi_square(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        expected = sizes * share
        return np.asarray(((counts - expected) ** 2 / (expected * (1 - share))).sum(axis=-1))

    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_hypergeometric(sizes.astype(int), int(right.sum()), size=_PERMUTATIONS)
    observed = float(chi_square(right))
    p = (1 + int((chi_square(drawn.astype(np.float64)) >= observed - 1e-9).sum())) / (_PERMUTATIONS + 1)
    pairs = list(itertools.combinations(range(len(names)), 2))
    tables = [np.array([[right[k], sizes[k] - right[k]] for k in pair]) for pair in pairs]
    each = [float(fisher_exact(table).pvalue) for table in tables]
    adjusted = holm(each)
    least = int(np.argmin(adjusted))
    a, b = pairs[least]
    assert total
    return {"p": p, "smallest_pair_p": float(adjusted[least]), "pair": [names[a], names[b]]}


def _share(values: Sequence[bool]) -> dict[str, Any]:
    interval = wilson(float(sum(values)), float(len(values))) if len(values) else None
    low, high = (interval.low, interval.high) if interval else (float("nan"), float("nan"))
    return {
        "n": len(values),
        "share": float(np.mean(values)) if len(values) else float("nan"),
        "low": low,
        "high": high,
    }


def _range_of(height: float) -> str:
    low = max(h for h in HEIGHTS if h <= height)
    following = [h for h in HEIGHTS if h > low]
    return f"{low}-{following[0]}" if following else f"{low}-"


def evaluate_finder(searched: Sequence[Searched], threshold: float, *, smallest: float = 16.0) -> dict[str, Any]:
    """How many faces are found, by tone and by what else is known, and how often there is a box without a face.

    Args:
        searched: what the finder made of images.
        threshold: score from which on boxes count.
        smallest: height of a face in pixels from which on it counts in ``recall`` and in the groups; all
            heights are in ``by_height``.

    Returns:
        Shares with their 95 % Wilson intervals: ``recall`` of all, ``by_tone``, ``by_height``, ``by_kind``,
        ``by_light``, ``by_worn``; ``images``, ``false_per_image`` and ``misplaced_per_image``; ``equal_tones``:
        ``equal_shares`` over the tones, of images with one face (faces of one image are not independent).
    """
    groups: dict[str, dict[str, list[bool]]] = {
        name: defaultdict(list) for name in ("by_tone", "by_height", "by_kind", "by_light", "by_worn")
    }
    single: dict[str, list[bool]] = {str(tone): [] for tone in range(1, 11)}
    every: list[bool] = []
    for s in searched:
        for face, score in zip(s.facts.faces, s.scores.tolist(), strict=True):
            hit = score >= threshold
            groups["by_height"][_range_of(face.height)].append(hit)
            if face.height < smallest:
                continue
            every.append(hit)
            groups["by_tone"][str(face.tone)].append(hit)
            groups["by_kind"][s.facts.kind].append(hit)
            groups["by_light"][f"{s.facts.light} {s.facts.level}"].append(hit)
            for worn in face.worn.split("+") if face.worn else ["nothing"]:
                groups["by_worn"][worn].append(hit)
            if len(s.facts.faces) == 1:
                single[str(face.tone)].append(hit)
    false, misplaced = (
        sum(int((getattr(s, name) >= threshold).sum()) for s in searched) for name in ("false", "misplaced")
    )

    def order(name: str) -> tuple[float, str]:
        head = name.split("-")[0]
        return (float(head), "") if head.isdigit() else (np.inf, name)

    return {
        "images": len(searched),
        "threshold": threshold,
        "smallest": smallest,
        "recall": _share(every),
        "false_per_image": false / max(len(searched), 1),
        "misplaced_per_image": misplaced / max(len(searched), 1),
        "equal_tones": equal_shares({tone: hits for tone, hits in single.items() if hits}),
        **{name: {g: _share(hits[g]) for g in sorted(hits, key=order)} for name, hits in groups.items()},
    }


# --------------------------------------------------------------------------------------------------------------------
# Tones
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class TonePredictions:
    """What an estimator says of N faces.

    Attributes:
        chances: probability of each tone, shape (N, 10).
        known: image and face of each.
    """

    chances: NDArray[np.float64]
    known: Sequence[tuple[ImageFacts, FaceFacts]]

    @property
    def true(self) -> NDArray[np.int64]:
        """True tones, 1 to 10, shape (N,)."""
        return np.array([face.tone for _, face in self.known], dtype=np.int64)

    def best_temperature(self) -> float:
        """What to divide logits by so that the true tones are as probable as can be, 0.3 to 3."""
        logits = np.log(np.clip(self.chances, 1e-9, 1))
        at = np.arange(len(logits)), self.true - 1

        def surprise(temperature: float) -> float:
            scaled = logits / temperature
            return float(-(scaled[at] - np.logaddexp.reduce(scaled, axis=1)).mean())

        return min((round(0.3 + 0.05 * k, 2) for k in range(55)), key=surprise)


def evaluate_tones(predictions: TonePredictions) -> dict[str, Any]:
    """How often an estimator is right, by tone and by light.

    Returns:
        ``exact`` and ``within_one`` in [0, 1]; ``mean_error`` in tones, positive: too dark; ``calibration_error`` of
        the probability of the predicted tone, ten bins; ``table``: true tones in rows, predicted ones in columns; by
        group (``by_tone``, ``by_light``, ``by_cast``, ``by_level``, ``by_kind``, ``by_height``) ``n``, ``exact`` and
        ``within_one``.
    """
    true, said = predictions.true, predictions.chances.argmax(axis=1) + 1
    off = np.abs(said - true)
    groups: dict[str, dict[str, list[int]]] = {
        name: defaultdict(list) for name in ("by_tone", "by_light", "by_cast", "by_level", "by_kind", "by_height")
    }
    for k, (image, face) in enumerate(predictions.known):
        values = (str(face.tone), image.light, image.cast, image.level, image.kind, _range_of(face.height))
        for name, value in zip(groups, values, strict=True):
            groups[name][value].append(k)
    table = np.zeros((10, 10), dtype=np.int64)
    np.add.at(table, (true - 1, said - 1), 1)

    def measured(rows: Sequence[int]) -> dict[str, Any]:
        part = off[list(rows)]
        return {"n": len(rows), "exact": float((part == 0).mean()), "within_one": float((part <= 1).mean())}

    def order(value: str) -> tuple[float, str]:
        head = value.split("-")[0]
        return (float(head), "") if head.isdigit() else (np.inf, value)

    everything = measured(range(len(true)))
    return {
        "faces": everything.pop("n"),
        **everything,
        "mean_error": float((said - true).mean()),
        "calibration_error": calibration_error(predictions.chances.max(axis=1), (off == 0).astype(float)),
        "table": table.tolist(),
        **{name: {v: measured(rows[v]) for v in sorted(rows, key=order)} for name, rows in groups.items()},
    }
