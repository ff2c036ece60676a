"""Images of the same prompt that differ in one term alone, side by side, with what judges perceived in each.

Pairs are chosen without regard to what they show: half of them of prompts that name no attribute, half of prompts that
name one, attributes in turn and those with the largest differences first. The sample is a function of the run alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from verism.records import Prompt
from verism.report_kit.evidence import Evidence
from verism.report_kit.figures import part
from verism.report_kit.gallery import Gallery, Shot, Tile, even_shares, gallery_section, image_data, shuffled, turns
from verism.report_kit.section import Section
from verism.report_kit.words import UNDEFINED

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ESTIMATORS", "Estimates", "collect_pairs", "in_order", "pair_gallery"]

# Who estimates, as the scores name them, in the order pages show them: those nearest to a person's look first.
ESTIMATORS: Mapping[str, str] = {
    "human": "annotators' votes",
    "CLS": "cross-modal classifiers",
    "VQA": "question answering",
    "CC": "calibrated similarity",
    "C": "similarity",
}
COSINES = ("C", "CC")
INTRO = (
    "those of the same prompt that differ in the term for the person alone. Half are of neutral prompts; of explicit "
    "ones, attributes take turns, those with the largest differences first. Within these, pairs were chosen without "
    "regard to what they show. The numbers are what judges perceive in an image, and no statement on anybody."
)
SHOWN = 5  # attributes in view below a pair; the rest is folded


def in_order(estimators: Sequence[str]) -> list[str]:
    """Names of estimators, each once, known ones first."""
    named = list(dict.fromkeys(estimators))
    return [e for e in ESTIMATORS if e in named] + [e for e in named if e not in ESTIMATORS]


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """What was perceived in the images of a pair under one protocol.

    Attributes:
        estimators: names of the columns.
        rows: attribute, and for each image the estimates in words, one per estimator.
        folded: further rows.
    """

    estimators: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Sequence[str]]]]
    folded: Sequence[tuple[str, Sequence[Sequence[str]]]]


def pair_gallery(
    evidence: Evidence, ranked: Sequence[str], terms: Sequence[Sequence[str]], settings: Sequence[str]
) -> Section:
    """Images of one prompt index and one seed, an image per term, side by side.

    Args:
        evidence: what the report is made of.
        ranked: attributes, those with the largest differences first.
        terms: of each run, in the order in which images stand side by side.
        settings: of prompts, in order.
    """
    tiles = collect_pairs(evidence, ranked, terms)
    shown = {name: {value for tile in tiles for value in tile.facets[name]} for name in ("prompts", "attribute")}
    filters = [
        ("prompts", [s for s in settings if s in shown["prompts"]]),
        ("attribute", [a for a in ranked if a in shown["attribute"]]),
    ]
    gallery = Gallery(
        tiles=tiles,
        intro=INTRO,
        filters=[(name, values) for name, values in filters if len(values) > 1],
        key=Markup("each with all versions of one prompt, side by side"),
        css="couples",
        what="pairs",
    )
    return gallery_section(evidence, gallery, title="Images, side by side")


def collect_pairs(evidence: Evidence, ranked: Sequence[str], terms: Sequence[Sequence[str]]) -> list[Tile]:
    """The sample of all runs: at most ``evidence.gallery`` images.

    Args:
        evidence: what the report is made of.
        ranked: attributes, those with the largest differences first.
        terms: of each run, in the order in which images stand side by side.
    """
    results = [_Pairs(evidence, number, ranked, order) for number, order in enumerate(terms)]
    widest = max((len(order) for order in terms), default=1) or 1
    shares = even_shares([p.count for p in results], evidence.gallery // widest)
    drawn = [list(p.tiles(share)) for p, share in zip(results, shares, strict=True)]
    longest = max(map(len, drawn), default=0)
    # Runs in turn: equal prompts have equal places, and lie beside each other.
    return [tiles[k] for k in range(longest) for tiles in drawn if k < len(tiles)]


Key = tuple[str, str, str, int]  # setting, attribute, the rest of the facets, number of the image


class _Pairs:
    """All images of a run by what was asked, apart from the term."""

    def __init__(self, evidence: Evidence, number: int, ranked: Sequence[str], terms: Sequence[str]) -> None:
        self.evidence, self.number, self.run = evidence, number, evidence.runs[number]
        self.ranked, self.terms = list(ranked), list(terms)
        self.prompts = {p.prompt_id: p for p in self.run.prompts()}
        self.rows = {row["image_id"]: row for row in self.run.read("images").sort("image_id").iter_rows(named=True)}
        self.members = self._members()
        self.estimates = _estimates(self.run.verdicts())

    def _members(self) -> dict[Key, dict[str, str]]:
        """Image ids by term, for every key."""
        often: dict[tuple[str, str, str, str], int] = {}
        places: dict[str, tuple[str, str, str]] = {}
        for prompt_id, prompt in self.prompts.items():
            position = (*_asked(prompt), _rest(prompt))
            # Prompts of a list of one's own may share all facets: the n-th of each term belong together.
            n = often[(*position, _term(prompt))] = often.get((*position, _term(prompt)), -1) + 1
            places[prompt_id] = (position[0], position[1], f"{position[2]}/{n}")
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

    def tiles(self, share: int) -> Iterator[Tile]:
        """As many tiles as this run has room for."""
        plain, named = self._queue(named=False), self._queue(named=True)
        for_plain, for_named = even_shares([len(plain), len(named)], share)
        for text in turns([plain[:for_plain], named[:for_named]]):
            yield self._tile(_key(text))

    def _tile(self, key: Key) -> Tile:
        by_term = self.members[key]
        order = [*self.terms, *(t for t in by_term if t not in self.terms)]
        ids = [by_term.get(term) for term in order]
        seeds = {self.rows[image_id]["seed"] for image_id in ids if image_id is not None}
        tables = {p: self._table(p, ids) for p in self.evidence.protocols}
        results = [name for table in tables.values() if table for name, _ in (*table.rows, *table.folded)]
        seed = seeds.pop() if len(seeds) == 1 and None not in ids else None
        shots = tuple(self._shot(term, image_id) for term, image_id in zip(order, ids, strict=True))
        return Tile(
            run=self.number,
            asked=" ".join(shot.asked for shot in shots),
            shots=shots,
            outcomes={},
            facets={
                "prompts": [key[0]],
                "attribute": list(dict.fromkeys([*([key[1]] if key[1] else []), *results])),
            },
            words=part(self.evidence, "estimates.html.j2", package=__package__, tables=tables, terms=order),
            meta=[
                key[0],
                *(shot.image_id for shot in shots if shot.image_id),
                *([] if seed is None else [f"same seed, {seed}"]),
            ],
        )

    def _shot(self, term: str, image_id: str | None) -> Shot:
        if image_id is None:
            return Shot(image_id="", asked=term, source=None, missing="not asked for, or not made yet", note="")
        row = self.rows[image_id]
        source, _, missing = image_data(self.run, row, self.evidence.embed_pixels)
        asked = self.prompts[row["prompt_id"]].text or image_id
        return Shot(image_id=image_id, asked=asked, source=source, missing=missing, note=row["note"] or "")

    def _table(self, protocol: str, ids: Sequence[str | None]) -> Estimates | None:
        """Attributes with the largest differences of the run first."""
        cells = [self.estimates.get((image_id or "", protocol), {}) for image_id in ids]
        names = {attribute for members in cells for _, attribute in members}
        if not names:
            return None
        estimators = in_order([e for members in cells for e, _ in members])
        attributes = [a for a in self.ranked if a in names] + sorted(names - set(self.ranked))
        rows = [(a, [[_written(e, members.get((e, a))) for e in estimators] for members in cells]) for a in attributes]
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
    """By image and protocol: values by estimator and attribute."""
    results: dict[tuple[str, str], dict[tuple[str, str], float | None]] = {}
    columns = verdicts.select("image_id", "protocol", "rule", "value", "detail")
    for image_id, protocol, rule, value, detail in columns.iter_rows():
        result = json.loads(detail) if detail else {}
        attribute = result.get("attribute") if isinstance(result, dict) else None
        if attribute is not None:
            results.setdefault((image_id, protocol), {})[(rule, str(attribute))] = value
    return results


def _written(estimator: str, value: float | None) -> str:
    if value is None:
        return UNDEFINED
    if estimator == "human" and value in (0.0, 1.0):
        return "yes" if value else "no"
    return (f"{value:.3f}" if estimator in COSINES else f"{value:.2f}").replace("-", "−")
