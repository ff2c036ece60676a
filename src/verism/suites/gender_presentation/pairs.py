"""Pictures of the same prompt that differ in one term alone, side by side, with what judges perceived in each.

Pairs are chosen without regard to what they show: half of them of prompts that name no attribute, half of prompts that
name one, attributes in turn and those with the largest differences first. The sample is a function of the run alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verism.errors import UsageError
from verism.records import PROTOCOLS, Prompt
from verism.reports.gallery import even_shares, picture_data, shuffled, turns
from verism.reports.tables import UNDEFINED
from verism.store import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ESTIMATORS", "Estimates", "PairTile", "Shot", "collect_pairs", "in_order"]

# Who estimates, as the scores name them, in the order pages show them: those nearest to a person's look first.
ESTIMATORS: Mapping[str, str] = {
    "human": "people's votes",
    "CLS": "cross-modal classifiers",
    "VQA": "question answering",
    "CC": "calibrated similarity",
    "C": "similarity",
}
COSINES = ("C", "CC")
SHOWN = 5  # attributes in view below a pair; the rest is folded


def in_order(estimators: Sequence[str]) -> list[str]:
    """Names of estimators, each once, known ones first."""
    named = list(dict.fromkeys(estimators))
    return [e for e in ESTIMATORS if e in named] + [e for e in named if e not in ESTIMATORS]


@dataclass(frozen=True, kw_only=True)
class Shot:
    """One picture of a pair.

    Attributes:
        term: what its prompt says and the others do not. asked: the prompt.
        source: the picture as a data URI, or None; then ``missing`` says why.
    """

    term: str
    image_id: str
    asked: str
    source: str | None
    missing: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """What was perceived in the pictures of a pair under one protocol.

    Attributes:
        estimators: names of the columns.
        rows: attribute, and for each picture the estimates in words, one per estimator.
        folded: further rows.
    """

    estimators: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Sequence[str]]]]
    folded: Sequence[tuple[str, Sequence[Sequence[str]]]]


@dataclass(frozen=True, kw_only=True)
class PairTile:
    """Pictures of one prompt index and one seed, a picture per term.

    Attributes:
        run: number of the run. setting: of the prompts. attribute: named by the prompts, empty for none.
        attributes: for which there are estimates. estimates: by protocol.
        seed: of the pictures if they share one, else None.
    """

    run: int
    setting: str
    attribute: str
    attributes: tuple[str, ...]
    shots: tuple[Shot, ...]
    estimates: Mapping[str, Estimates | None]
    seed: int | None


def collect_pairs(
    runs: Sequence[Run], *, gallery: int, embed_pixels: int, ranked: Sequence[str], terms: Sequence[Sequence[str]]
) -> list[PairTile]:
    """The sample of all runs: at most ``gallery`` pictures, no side longer than ``embed_pixels``.

    Args:
        ranked: attributes, those with the largest differences first.
        terms: of each run, in the order in which pictures stand side by side.
    Raises:
        UsageError: a negative number of pictures, or a size that shows nothing.
    """
    if gallery < 0:
        raise UsageError(f"gallery must be 0 (no pictures) or more, got {gallery}")
    if not 16 <= embed_pixels <= 4096:
        raise UsageError(f"embed_pixels must be between 16 and 4096, got {embed_pixels}")
    found = [_Pairs(run, ranked, order) for run, order in zip(runs, terms)]
    widest = max((len(order) for order in terms), default=1) or 1
    shares = even_shares([p.count for p in found], gallery // widest)
    drawn = [list(p.tiles(number, share, embed_pixels)) for number, (p, share) in enumerate(zip(found, shares))]
    longest = max(map(len, drawn), default=0)
    # Runs in turn: equal prompts have equal places, and lie beside each other.
    return [tiles[k] for k in range(longest) for tiles in drawn if k < len(tiles)]


Key = tuple[str, str, str, int]  # setting, attribute, the rest of the facets, number of the picture


class _Pairs:
    """All pictures of a run by what was asked, apart from the term."""

    def __init__(self, run: Run, ranked: Sequence[str], terms: Sequence[str]) -> None:
        self.run, self.ranked, self.terms = run, list(ranked), list(terms)
        self.prompts = {p.prompt_id: p for p in run.prompts()}
        self.rows = {row["image_id"]: row for row in run.read("images").sort("image_id").iter_rows(named=True)}
        self.members = self._members()
        self.estimates = _estimates(run.verdicts())

    def _members(self) -> dict[Key, dict[str, str]]:
        """Picture ids by term, for every key."""
        often: dict[tuple[str, str, str, str], int] = {}
        places: dict[str, tuple[str, str, str]] = {}
        for prompt_id, prompt in self.prompts.items():
            place = (*_asked(prompt), _rest(prompt))
            # Prompts of a list of one's own may share all facets: the n-th of each term belong together.
            n = often[(*place, _term(prompt))] = often.get((*place, _term(prompt)), -1) + 1
            places[prompt_id] = (place[0], place[1], f"{place[2]}/{n}")
        members: dict[Key, dict[str, str]] = {}
        for image_id, row in self.rows.items():
            if row["prompt_id"] in places:
                key = (*places[row["prompt_id"]], row["index"])
                members.setdefault(key, {})[_term(self.prompts[row["prompt_id"]])] = image_id
        return members

    @property
    def count(self) -> int:
        return len(self.members)

    def _complete(self, key: Key) -> bool:
        by_term = self.members[key]
        return all(term in by_term and self.rows[by_term[term]]["state"] == "ok" for term in self.terms)

    def _queue(self, *, named: bool) -> list[str]:
        """Keys of prompts that name an attribute, or none: attributes in turn, then contexts, whole pairs first."""
        queues: dict[str, dict[str, list[str]]] = {}
        for key in self.members:
            setting, attribute, rest, _ = key
            if bool(attribute) == named:
                queues.setdefault(attribute or setting, {}).setdefault(rest, []).append(_text(key))
        rank = {name: n for n, name in enumerate(self.ranked)}
        return turns(
            [
                turns(
                    [
                        sorted(by_rest[rest], key=lambda text: (not self._complete(_key(text)), shuffled(text)))
                        for rest in sorted(by_rest, key=shuffled)
                    ]
                )
                for _, by_rest in sorted(queues.items(), key=lambda item: (rank.get(item[0], len(rank)), item[0]))
            ]
        )

    def tiles(self, number: int, share: int, embed_pixels: int) -> Iterator[PairTile]:
        plain, named = self._queue(named=False), self._queue(named=True)
        for_plain, for_named = even_shares([len(plain), len(named)], share)
        for text in turns([plain[:for_plain], named[:for_named]]):
            yield self._tile(number, _key(text), embed_pixels)

    def _tile(self, number: int, key: Key, embed_pixels: int) -> PairTile:
        by_term = self.members[key]
        order = [*(t for t in self.terms), *(t for t in by_term if t not in self.terms)]
        ids = [by_term.get(term) for term in order]
        seeds = {self.rows[image_id]["seed"] for image_id in ids if image_id is not None}
        tables: dict[str, Estimates | None] = {p: self._table(p, ids) for p in PROTOCOLS}
        found = [name for table in tables.values() if table for name, _ in (*table.rows, *table.folded)]
        return PairTile(
            run=number,
            setting=key[0],
            attribute=key[1],
            attributes=tuple(dict.fromkeys([*([key[1]] if key[1] else []), *found])),
            shots=tuple(self._shot(term, image_id, embed_pixels) for term, image_id in zip(order, ids)),
            estimates=tables,
            seed=seeds.pop() if len(seeds) == 1 and None not in ids else None,
        )

    def _shot(self, term: str, image_id: str | None, embed_pixels: int) -> Shot:
        if image_id is None:
            return Shot(
                term=term, image_id="", asked="", source=None, missing="not asked for, or not made yet", note=""
            )
        row = self.rows[image_id]
        source, _, missing = picture_data(self.run, row, embed_pixels)
        asked = self.prompts[row["prompt_id"]].text or image_id
        return Shot(term=term, image_id=image_id, asked=asked, source=source, missing=missing, note=row["note"] or "")

    def _table(self, protocol: str, ids: Sequence[str | None]) -> Estimates | None:
        """Attributes with the largest differences of the run first."""
        cells = [self.estimates.get((image_id or "", protocol), {}) for image_id in ids]
        names = {attribute for of in cells for _, attribute in of}
        if not names:
            return None
        estimators = in_order([e for of in cells for e, _ in of])
        attributes = [a for a in self.ranked if a in names] + sorted(names - set(self.ranked))
        rows = [(a, [[_written(e, of.get((e, a))) for e in estimators] for of in cells]) for a in attributes]
        cut = SHOWN if len(rows) > SHOWN + 1 else len(rows)  # a fold of one row would hide more than it saves
        return Estimates(estimators=estimators, rows=rows[:cut], folded=rows[cut:])


def _asked(prompt: Prompt) -> tuple[str, str]:
    """Setting, and the attribute the prompt names."""
    return str(prompt.facets.get("setting") or ""), str(prompt.facets.get("attribute") or "")


def _term(prompt: Prompt) -> str:
    return str(prompt.facets.get("gender") or "")


def _rest(prompt: Prompt) -> str:
    rest = {k: v for k, v in prompt.facets.items() if k not in ("gender", "setting", "attribute")}
    return json.dumps(rest, sort_keys=True, ensure_ascii=False)


def _text(key: Key) -> str:
    return json.dumps(key, ensure_ascii=False)


def _key(text: str) -> Key:
    setting, attribute, rest, index = json.loads(text)
    return setting, attribute, rest, index


def _estimates(verdicts: pl.DataFrame) -> dict[tuple[str, str], dict[tuple[str, str], float | None]]:
    """By picture and protocol: values by estimator and attribute."""
    found: dict[tuple[str, str], dict[tuple[str, str], float | None]] = {}
    columns = verdicts.select("image_id", "protocol", "rule", "value", "detail")
    for image_id, protocol, rule, value, detail in columns.iter_rows():
        told = json.loads(detail) if detail else {}
        attribute = told.get("attribute") if isinstance(told, dict) else None
        if attribute is not None:
            found.setdefault((image_id, protocol), {})[(rule, str(attribute))] = value
    return found


def _written(estimator: str, value: float | None) -> str:
    if value is None:
        return UNDEFINED
    if estimator == "human" and value in (0.0, 1.0):
        return "yes" if value else "no"
    return (f"{value:.3f}" if estimator in COSINES else f"{value:.2f}").replace("-", "−")
