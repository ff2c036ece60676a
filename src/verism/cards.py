"""Judge cards: how well a judge did on images whose content is known, kept in a small file.

A card says which judge (with revision and settings) was measured on what, and how often it predicted what for each true
class. Numbers of a run are adjusted for the error of its judge by a card of exactly that judge; reports show it, or say
that there is none.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from verism.errors import UsageError
from verism.files import read_json, well_formed, write_json
from verism.records import judge_identity
from verism.renames import protocol_name, rules_of

__all__ = [
    "FORMAT",
    "ImageSample",
    "JudgeCard",
    "Measured",
    "find_measured",
    "main_tables",
    "merge_cards",
    "read_card",
    "shipped_cards",
    "write_card",
]

FORMAT = "verism-judge-card"
VERSION = 1
Kind = Literal["rendered", "human", "model"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a judge predicted for items of known class, for one task.

    Attributes:
        task: what was asked: ``tone``, ``gender``, ``attribute`` ... (the rule of the verdicts it is about).
        protocol: by which rules the judge's observations were read: ``released``, ``paper`` or ``revised``.
        group: what the counts are restricted to, by facet (``{"attribute": "a skirt"}``); empty for all items.
        labels: the classes, as text.
        counts: counts[i][j] items of true class ``labels[i]`` which the judge predicted to be ``labels[j]``.
        unusable: per true class, items without a usable prediction. Empty: none.
        scores: per item (true class is the last label, its score in [0, 1]), where the judge gives one; for AUC.
    """

    task: str
    protocol: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    unusable: tuple[int, ...] = ()
    group: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        k = len(self.labels)
        if k < 2 or len(set(self.labels)) != k:
            raise ValueError(f"labels must be two or more different classes, got {self.labels}")
        if len(self.counts) != k or any(len(row) != k for row in self.counts):
            raise ValueError(f"counts must be a table of {k} x {k} for the classes {self.labels}")
        if any(n < 0 for row in self.counts for n in row) or any(n < 0 for n in self.unusable):
            raise ValueError("counts of items must not be negative")
        if self.unusable and len(self.unusable) != k:
            raise ValueError(f"unusable must have a number for each of the {k} classes, got {len(self.unusable)}")
        if any(true not in (0, 1) or not math.isfinite(score) for true, score in self.scores):
            raise ValueError("scores must be pairs of 0 or 1 and a finite number")


@dataclass(frozen=True, kw_only=True)
class ImageSample:
    """What images of one origin look like, for a two-sample test.

    Attributes:
        generator: who made them, with revision and settings; empty if not recorded.
        measured_by: what the features are; only equal ones can be compared.
        features: for each image what it is judged for, as text, and its features.
    """

    generator: str
    measured_by: str
    features: tuple[tuple[str, tuple[float, ...]], ...]

    def __post_init__(self) -> None:
        if len({len(vector) for _, vector in self.features}) > 1:
            raise ValueError("all images of a sample need as many features")
        if not all(math.isfinite(value) for _, vector in self.features for value in vector):
            raise ValueError("features of images must be finite")


@dataclass(frozen=True, kw_only=True)
class JudgeCard:
    """A judge and what was measured of it.

    Attributes:
        judge: name with revision and settings, as it enters observations.
        role: ``vqa``, ``skin_tone`` ...
        kind: ``rendered``: the content is known because it was rendered; ``human``: annotators said so; ``model``: a
            model that looked at the images said so.
        ground_truth: what the items are, in words: how many, from where, made by which command.
        measured: the tables.
        made: version of verism, date, seeds and settings that reproduce it.
        images: what the images it was measured on look like; empty where the card keeps no sample of them.
    """

    judge: str
    role: str
    kind: Kind
    ground_truth: str
    measured: tuple[Measured, ...]
    made: Mapping[str, Any] = field(default_factory=dict)
    images: tuple[ImageSample, ...] = ()

    def is_of(self, generator: str | None) -> bool:
        """Whether some of its images were made by this generator (name and revision; its settings may differ)."""
        model = (generator or "").partition("?")[0]
        return bool(model) and any(sample.generator.partition("?")[0] == model for sample in self.images)


def read_card(path: Path) -> JudgeCard:
    """The card of a file.

    Raises:
        UsageError: no such file, or no card of a known version.
    """
    record = read_json(path, "a judge card, as `verism judge card` writes it")
    with well_formed(path):
        return _from_record(record, str(path))


def write_card(card: JudgeCard, path: Path) -> None:
    """Write a card as JSON: the same bytes for the same card."""
    record = {"format": FORMAT, "version": VERSION, **asdict(card)}
    write_json(path, record, sort_keys=True)


@cache
def shipped_cards() -> tuple[JudgeCard, ...]:
    """The cards that come with verism, of judges that work without weights of others."""
    folder = resources.files("verism") / "data" / "cards"
    if not folder.is_dir():
        return ()
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=lambda f: f.name)
    return tuple(_from_record(json.loads(f.read_text(encoding="utf-8")), f.name) for f in files)


def find_measured(
    cards: Iterable[JudgeCard],
    judge: str,
    task: str,
    protocol: str,
    *,
    kind: Kind | None = None,
    group: Mapping[str, Any] | None = None,
) -> tuple[JudgeCard, Measured] | None:
    """The first card of exactly this judge with a table of this task, protocol and group.

    Args:
        cards: judge cards, in the order in which they are tried.
        judge: full name.
        task: rule of the verdicts the table is about.
        protocol: protocol by which observations were read.
        kind: only cards of this kind; None for any.
        group: facet values of the table; empty for all items.

    Returns:
        The card and its table; None if there is none.
    """
    for card in cards:
        if judge_identity(card.judge) != judge_identity(judge) or (kind is not None and card.kind != kind):
            continue
        for measured in card.measured:
            if (measured.task, measured.protocol, dict(measured.group)) == (task, protocol, dict(group or {})):
                return card, measured
    return None


def main_tables(card: JudgeCard) -> list[Measured]:
    """The tables that together are about all items, each item once: those with the fewest facets, by task and protocol.

    A card has finer ones beside them (tone by light, say), which hold the same items again.
    """
    fewest: dict[tuple[str, str], int] = {}
    for m in card.measured:
        about = (m.task, m.protocol)
        fewest[about] = min(fewest.get(about, len(m.group)), len(m.group))
    return [m for m in card.measured if len(m.group) == fewest[m.task, m.protocol]]


def merge_cards(cards: Sequence[JudgeCard]) -> JudgeCard:
    """Several cards of one judge as one: counts of the same task, protocol and group add up.

    Raises:
        UsageError: fewer than two cards, cards of different judges, roles, kinds or rules, one card given twice, or
            tables of one question with different classes.
    """
    if len(cards) < 2:
        raise UsageError(f"merging takes two or more cards, got {len(cards)}")
    first = cards[0]
    for other in cards[1:]:
        for what, a, b in (
            ("judge", judge_identity(first.judge), judge_identity(other.judge)),
            ("role", first.role, other.role),
            ("kind of truth", first.kind, other.kind),
            ("rules", first.made.get("rules"), other.made.get("rules")),
        ):
            if a != b:
                raise UsageError(f"only cards of one {what} can be merged; here are {a!r} and {b!r}")
    parts = [part for card in cards for part in (card.made.get("merged") or [dict(card.made)])]
    full = [json.dumps([card.ground_truth, asdict(card)["measured"]], sort_keys=True) for card in cards]
    if len(set(full)) < len(full) or len({json.dumps(p, sort_keys=True) for p in parts}) < len(parts):
        raise UsageError("a card is there twice; its items would count double")
    tables: dict[str, Measured] = {}
    for m in (m for card in cards for m in card.measured):
        about = json.dumps([m.task, m.protocol, dict(m.group)], sort_keys=True)
        tables[about] = _added(tables[about], m) if about in tables else m
    made: dict[str, Any] = {"merged": parts}
    if "rules" in first.made:
        made["rules"] = first.made["rules"]
    return JudgeCard(
        judge=first.judge,
        role=first.role,
        kind=first.kind,
        ground_truth="; ".join(
            f"{times} times {text}" if times > 1 else text
            for text, times in Counter(card.ground_truth for card in cards).items()
        ),
        measured=tuple(tables.values()),
        made=made,
        images=tuple(sample for card in cards for sample in card.images),
    )


def _added(a: Measured, b: Measured) -> Measured:
    if set(a.labels) != set(b.labels):
        raise UsageError(
            f"tables of {a.task}, {a.protocol}, have different classes: {', '.join(a.labels)} and {', '.join(b.labels)}"
        )
    if b.scores and a.labels[-1] != b.labels[-1]:
        raise UsageError(f"scores of {a.task} are of {a.labels[-1]!r} in one card and of {b.labels[-1]!r} in another")
    index = [b.labels.index(label) for label in a.labels]
    zeros = (0,) * len(a.labels)
    unusable_b = b.unusable or zeros
    unusable = tuple(n + unusable_b[i] for n, i in zip(a.unusable or zeros, index, strict=True))
    return Measured(
        task=a.task,
        protocol=a.protocol,
        labels=a.labels,
        counts=tuple(
            tuple(n + b.counts[i][j] for n, j in zip(row, index, strict=True))
            for row, i in zip(a.counts, index, strict=True)
        ),
        unusable=unusable if a.unusable or b.unusable else (),
        group=a.group,
        scores=(*a.scores, *b.scores),
    )


def _from_record(record: Any, where: str) -> JudgeCard:
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise UsageError(f"{where} is no judge card: its format is not {FORMAT!r}")
    if record.get("version") != VERSION:
        raise UsageError(f"{where}: version {record.get('version')!r} of judge cards is unknown; update verism")
    try:
        if record["kind"] not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {record['kind']!r}")
        return JudgeCard(
            judge=str(record["judge"]),
            role=str(record["role"]),
            kind=record["kind"],
            ground_truth=str(record["ground_truth"]),
            measured=tuple(_measured(m) for m in record["measured"]),
            made=_made(record.get("made", {})),
            images=tuple(_sample(s) for s in record.get("images", ())),
        )
    except (KeyError, TypeError, ValueError) as err:
        raise UsageError(f"{where}: not a complete judge card ({type(err).__name__}: {err})") from None


def _made(record: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(record)
    if "rules" in made:
        made["rules"] = rules_of(made["rules"])
    if "merged" in made:
        made["merged"] = [_made(part) for part in made["merged"]]
    return made


def _sample(record: Mapping[str, Any]) -> ImageSample:
    return ImageSample(
        generator=str(record["generator"]),
        measured_by=str(record["measured_by"]),
        features=tuple((str(name), tuple(float(v) for v in vector)) for name, vector in record["features"]),
    )


def _measured(record: Mapping[str, Any]) -> Measured:
    scores: Sequence[Sequence[float]] = record.get("scores", ())
    return Measured(
        task=str(record["task"]),
        protocol=protocol_name(str(record["protocol"])),
        labels=tuple(str(label) for label in record["labels"]),
        counts=tuple(tuple(int(n) for n in row) for row in record["counts"]),
        unusable=tuple(int(n) for n in record.get("unusable", ())),
        group=dict(record.get("group", {})),
        scores=tuple((int(true), float(score)) for true, score in scores),
    )
