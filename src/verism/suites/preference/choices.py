"""People's choices between images: files of benchmarks, and how far scores agree with them, by each published rule."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from verism.errors import UsageError
from verism.files import IMAGE_SUFFIXES, read_rows
from verism.statistics.intervals import Interval, clustered_average

__all__ = [
    "GAPS",
    "Agreement",
    "RankedItem",
    "agreement_by_rule",
    "best_gap",
    "counts_of",
    "match_names",
    "read_choices",
]

GAPS = tuple(n / 10 for n in range(11))  # thresholds of Pick-a-Pic's rule, of the gap between both probabilities
TIE, FIRST, SECOND = 0.5, 1.0, 0.0


@dataclass(frozen=True)
class RankedItem:
    """Images of one prompt as people ranked them.

    Attributes:
        prompt: what tells the prompt from others; intervals take prompts for the sampling unit.
        text: of the prompt.
        images: names of their files.
        ranks: of each image, lower for better; equal for ties.
    """

    prompt: str
    text: str
    images: tuple[str, ...]
    ranks: tuple[float, ...]

    def pairs(self) -> list[tuple[int, int, float]]:
        """Both positions and which is preferred, of every pair: 1 the first, 0 the second, 0.5 neither."""
        return [
            (i, j, TIE if self.ranks[i] == self.ranks[j] else float(self.ranks[i] < self.ranks[j]))
            for i, j in combinations(range(len(self.images)), 2)
        ]


@dataclass(frozen=True)
class Agreement:
    """How far scores agree with people by one rule.

    Attributes:
        rule: its name.
        accuracy: mean over pairs (over items, of HPS), with an interval by prompt.
        n: pairs (or items) in it.
        n_left_out: pairs with both scores that the rule does not count: those that people tie.
        threshold: of ties, where the rule has one.
    """

    rule: str
    accuracy: Interval
    n: int
    n_left_out: int
    threshold: float | None = None


# --------------------------------------------------------------------------------------------------------------- files
def read_choices(path: Path) -> list[RankedItem]:
    """People's choices in any of these forms, told apart by their columns.

    * ImageReward's ``test.json``: ``prompt``, ``generations`` and ``ranking`` (1 is best).
    * HPDv2's ``test.json``: ``prompt``, ``image_path`` and ``rank``; pairs with ``human_preference`` (1 is chosen).
    * Pick-a-Pic as a table: ``caption``, ``image_0_uid``, ``image_1_uid``, ``label_0`` (1, 0, or 0.5 for a tie). Rows
      whose ``has_label`` is false are left out.
    * A table of pairs: ``prompt`` (or ``prompt_id``), ``image_a``, ``image_b``, ``preferred`` (``a``, ``b``, ``tie``).

    Args:
        path: JSON, JSON lines or CSV.

    Raises:
        UsageError: another form, or a row that does not fit it.
    """
    items = []
    for row in read_rows(path, "people's choices between images"):
        item = _item(row, row.where)
        if item is not None:
            items.append(item)
    if not items:
        raise UsageError(f"{path} holds no choices between images")
    return items


def _item(row: Mapping[str, Any], where: str) -> RankedItem | None:
    if "generations" in row:
        return _ranked(row, where, _names(row["generations"], where), row.get("ranking"), "ranking")
    if "image_path" in row and "rank" in row:
        return _ranked(row, where, _names(row["image_path"], where), row["rank"], "rank")
    if "image_path" in row and "human_preference" in row:
        chosen = _numbers(row["human_preference"], where, "human_preference")
        return _ranked(row, where, _names(row["image_path"], where), [-value for value in chosen], "human_preference")
    if "label_0" in row:
        if str(row.get("has_label", True)).lower() in ("false", "0"):
            return None
        label = _numbers([row["label_0"]], where, "label_0")[0]
        return _ranked(
            row, where, _names([row.get("image_0_uid"), row.get("image_1_uid")], where), _of(label), "label_0"
        )
    if "preferred" in row:
        written = str(row["preferred"]).strip().lower()
        words = {"a": FIRST, "first": FIRST, "b": SECOND, "second": SECOND, "tie": TIE}
        if written not in words:
            raise UsageError(f"{where}: preferred must be a, b or tie, got {row['preferred']!r:.80}")
        return _ranked(row, where, _names([row.get("image_a"), row.get("image_b")], where), _of(words[written]), "")
    raise UsageError(
        f"{where}: expected ImageReward's generations and ranking, HPDv2's image_path and rank, Pick-a-Pic's "
        f"image_0_uid, image_1_uid and label_0, or image_a, image_b and preferred; it has {sorted(row, key=str)}"
    )


def _of(preferred: float) -> list[float]:
    return [1 - preferred, preferred]


def _ranked(row: Mapping[str, Any], where: str, images: tuple[str, ...], ranks: Any, name: str) -> RankedItem:
    text = next((str(row[c]) for c in ("prompt", "caption", "text") if row.get(c) not in (None, "")), "")
    prompt = next((str(row[c]) for c in ("prompt_id", "caption_id") if row.get(c) not in (None, "")), "") or text
    if not prompt:
        raise UsageError(f"{where}: no prompt and no prompt_id")
    numbers = _numbers(ranks, where, name)
    if len(numbers) != len(images) or len(images) < 2:
        raise UsageError(f"{where}: {len(images)} images and {len(numbers)} in {name}; expected two or more of each")
    if len(set(images)) < len(images):
        raise UsageError(f"{where}: an image is there twice")
    return RankedItem(prompt=prompt, text=text, images=images, ranks=tuple(numbers))


def _names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name.strip() for name in value):
        raise UsageError(f"{where}: expected the names of images, got {value!r:.80}")
    return tuple(name.strip() for name in value)


def _numbers(value: Any, where: str, name: str) -> list[float]:
    try:
        numbers = [float(each) for each in value] if isinstance(value, list) else [math.nan]
    except (TypeError, ValueError, OverflowError):
        numbers = [math.nan]
    if not all(math.isfinite(number) for number in numbers):
        raise UsageError(f"{where}: {name} must be numbers, got {value!r:.80}")
    return numbers


def counts_of(items: Sequence[RankedItem]) -> dict[str, int]:
    """Items, prompts, images, pairs, and pairs that people tie.

    Args:
        items: of a file.
    """
    pairs = [preferred for item in items for _, _, preferred in item.pairs()]
    return {
        "items": len(items),
        "prompts": len({item.prompt for item in items}),
        "images": sum(len(item.images) for item in items),
        "pairs": len(pairs),
        "tied": pairs.count(TIE),
        "decided": len(pairs) - pairs.count(TIE),
    }


def match_names(names: Iterable[str], given: Iterable[str]) -> dict[str, str]:
    """Which of the given names is which file: equal, or the same file with more or fewer folders before it.

    Args:
        names: of files, as one source writes them.
        given: as another does.

    Returns:
        The given name by name, of those with exactly one that fits.

    >>> match_names(["a/1.webp", "2.png"], ["/data/a/1.webp", "b/1.webp", "2"])
    {'a/1.webp': '/data/a/1.webp', '2.png': '2'}
    """
    by_stem: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    exact = set()
    for name in given:
        exact.add(name)
        path = PurePosixPath(name)
        by_stem.setdefault(_stem(path), []).append((path.parts[:-1], name))
    found = {}
    for name in names:
        path = PurePosixPath(name)
        folders = path.parts[:-1]
        fitting = [other for parts, other in by_stem.get(_stem(path), ()) if _one_ends_the_other(folders, parts)]
        if name in exact:
            found[name] = name
        elif len(fitting) == 1:
            found[name] = fitting[0]
    return found


def _stem(path: PurePosixPath) -> str:
    return path.stem if path.suffix.lower() in IMAGE_SUFFIXES else path.name


def _one_ends_the_other(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    short, long = sorted((first, second), key=len)
    return long[len(long) - len(short) :] == short


# ----------------------------------------------------------------------------------------------------------- agreement
@dataclass(frozen=True)
class _Pair:
    """A pair with both scores."""

    prompt: str
    item: int
    difference: float  # score of the first less that of the second
    preferred: float

    @property
    def gap(self) -> float:
        """Distance of both probabilities, of the softmax of both scores."""
        return abs(math.tanh(self.difference / 2))


def _scored_pairs(items: Sequence[RankedItem], scores: Mapping[str, float | None]) -> tuple[list[_Pair], int]:
    """Pairs whose images both have a score, and how many have not."""
    made, missing = [], 0
    for number, item in enumerate(items):
        for i, j, preferred in item.pairs():
            a, b = scores.get(item.images[i]), scores.get(item.images[j])
            if a is None or b is None:
                missing += 1
            else:
                made.append(_Pair(item.prompt, number, a - b, preferred))
    return made, missing


def _decided(pair: _Pair, *, equal: float) -> float | None:
    """1 where scores put a pair as people do, ``equal`` for equal scores; None for pairs that people tie."""
    if pair.preferred == TIE:
        return None
    return equal if pair.difference == 0 else float((pair.difference > 0) == (pair.preferred == FIRST))


def _with_ties(pair: _Pair, *, tie: bool, half: float) -> float:
    """1 where both sides say the same of first, second and tie; ``half`` where one of them ties."""
    predicted = TIE if tie or pair.difference == 0 else float(pair.difference > 0)
    if predicted == pair.preferred:
        return 1.0
    return half if TIE in (predicted, pair.preferred) else 0.0


def best_gap(items: Sequence[RankedItem], scores: Mapping[str, float | None]) -> float:
    """The threshold of ``GAPS`` that is best by Pick-a-Pic's rule, the smallest of several.

    Args:
        items: the validation part.
        scores: by name of image.

    Raises:
        UsageError: no pair has both scores.
    """
    pairs, _ = _scored_pairs(items, scores)
    if not pairs:
        raise UsageError("no pair of the validation part has both scores, so no threshold of ties can be chosen")
    credit = [math.fsum(_with_ties(pair, tie=pair.gap < gap, half=0.5) for pair in pairs) for gap in GAPS]
    return GAPS[credit.index(max(credit))]


def agreement_by_rule(
    items: Sequence[RankedItem], scores: Mapping[str, float | None], *, gap: float | None = None, seed: int = 0
) -> tuple[list[Agreement], int]:
    """How far scores agree with people, by each rule, and how many pairs lack a score.

    ``decided``: of pairs that people decide, those put alike; equal scores half. ``with_ties``: of all pairs, those
    that both sides put alike or both tie; scores tie where they differ by at most a threshold, chosen on the other half
    of the prompts. ``imagereward``, ``hpsv3``: as ``decided``, equal scores wrong. ``hps``: mean over items of one less
    the share of inverted pairs, so that a tie of either side is right. ``pickapic``: ties by the gap of probabilities,
    half for a tie of one side.

    Args:
        items: people's choices.
        scores: by name of image; None where there is none.
        gap: threshold of ``pickapic``; None: the rule is left out, as it needs a validation part.
        seed: of the halves of prompts.
    """
    pairs, missing = _scored_pairs(items, scores)
    made = []

    def add(rule: str, credit: Callable[[_Pair], float | None], threshold: float | None = None) -> None:
        rows = [(pair.prompt, value) for pair in pairs if (value := credit(pair)) is not None]
        made.append(Agreement(rule, _mean(rows), len(rows), len(pairs) - len(rows), threshold))

    add("decided", lambda pair: _decided(pair, equal=0.5))
    thresholds = _crossed_thresholds(pairs, seed)
    if thresholds is not None:
        halves = _halves(pairs, seed)
        rows = [
            (pair.prompt, _with_ties(pair, tie=abs(pair.difference) <= thresholds[half], half=0.0))
            for pair, half in zip(pairs, halves, strict=True)
        ]
        made.append(Agreement("with_ties", _mean(rows), len(rows), 0, sum(thresholds) / 2))
    add("imagereward", lambda pair: _decided(pair, equal=0.0))
    add("hpsv3", lambda pair: _decided(pair, equal=0.0))
    inverted: dict[int, list[bool]] = {}
    prompts = {}
    for pair in pairs:
        wrong = pair.preferred != TIE and pair.difference != 0 and (pair.difference > 0) != (pair.preferred == FIRST)
        inverted.setdefault(pair.item, []).append(wrong)
        prompts[pair.item] = pair.prompt
    of_items = [(prompts[item], 1 - sum(wrong) / len(wrong)) for item, wrong in inverted.items()]
    made.append(Agreement("hps", _mean(of_items), len(of_items), 0))
    if gap is not None:
        add("pickapic", lambda pair: _with_ties(pair, tie=pair.gap < gap, half=0.5), gap)
    return made, missing


def _mean(rows: Sequence[tuple[str, float]]) -> Interval:
    return clustered_average([value for _, value in rows], np.array([prompt for prompt, _ in rows]), bounds=(0.0, 1.0))


def _halves(pairs: Sequence[_Pair], seed: int) -> list[int]:
    """Which half of the prompts a pair is of, by a hash, so that it does not depend on the others."""
    return [hashlib.sha256(f"{seed}/{pair.prompt}".encode()).digest()[0] % 2 for pair in pairs]


def _crossed_thresholds(pairs: Sequence[_Pair], seed: int) -> tuple[float, float] | None:
    """For each half of the prompts the threshold that is best on the other; None where a half has no pair."""
    halves = _halves(pairs, seed)
    if len(set(halves)) < 2:
        return None
    first, second = (
        _best_threshold([pair for pair, own in zip(pairs, halves, strict=True) if own != half]) for half in (0, 1)
    )
    return first, second


def _best_threshold(pairs: Sequence[_Pair]) -> float:
    """The difference of scores up to which calling a pair a tie is right most often, the smallest of several."""
    distance = np.array([abs(pair.difference) for pair in pairs])
    tied = np.array([pair.preferred == TIE for pair in pairs])
    alike = np.array([_decided(pair, equal=0.0) == 1 for pair in pairs])
    candidates = np.unique(np.append(distance[tied], 0.0))
    won = np.searchsorted(np.sort(distance[tied]), candidates, side="right")
    lost = np.searchsorted(np.sort(distance[alike]), candidates, side="right")
    return float(candidates[int(np.argmax(won - lost))])
