"""The numbers of a run: pooled rates with intervals clustered by prompt, and the errors of the OCR engine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.metrics.transcription import characters, edits, words
from verism.records import FacetValue, Observed, Prompt, Score
from verism.statistics.intervals import Interval, clustered_average, clustered_mean, wilson
from verism.suites.text_rendering.own_prompts import CONDITIONS
from verism.suites.text_rendering.released import ONEIG_MOST, oneig_score

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FACETS", "engine_errors", "pooled", "text_scores"]

FACETS = ("language", "script", "category", "length", "regions")
BANDS = (10, 16, 24, 40)  # heights of words in pixels, between which errors are grouped
NOTHING = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class _Row:
    """A verdict: its prompt, its value, the numbers that it rests on, and their places by name, shared by all rows."""

    prompt_id: str
    value: float | None
    numbers: tuple[float, ...]
    places: Mapping[str, int]

    def number(self, name: str) -> float:
        return self.numbers[self.places[name]]


def pooled(parts: Sequence[float], sizes: Sequence[float], clusters: Sequence[str], *, share: bool) -> Interval:
    """The sum of the parts over the sum of the sizes, with its 95 % interval clustered by prompt.

    Args:
        parts: counts of each image: edits, matched words.
        sizes: what they are counted of: characters, words.
        clusters: prompt of each image.
        share: whether it cannot exceed 1.

    Returns:
        The ratio; NaN where the sizes sum to 0. Where no image differs from the ratio (all words right) the ends are
        Wilson's for so many prompts, a cautious number of independent units, if it is a share, and unknown otherwise.

    Source: Cochran 1977, Sampling Techniques, 3rd ed., Ch. 6: linearised variance of a ratio, here as the mean of what
        it is linearised to.
    """
    total, size = math.fsum(parts), math.fsum(sizes)
    if not size:
        return NOTHING
    ratio = total / size
    mean_size = size / len(sizes)
    linearised = [ratio + (part - ratio * n) / mean_size for part, n in zip(parts, sizes, strict=True)]
    interval = clustered_mean(linearised, clusters, bounds=(0.0, 1.0 if share else math.inf))
    if math.isnan(interval.low) and share:
        n_prompts = len(set(clusters))
        interval = wilson(ratio * n_prompts, n_prompts)
    return Interval(ratio, interval.low, interval.high)


# --------------------------------------------------------------------------------------------------------------- scores
def text_scores(
    suite: str, observed: Observed, verdicts: pl.DataFrame, *, benchmark: str, language: str
) -> list[Score]:
    """All numbers, in a fixed order: ours over all images and by facet, then those of the released arithmetic.

    Args:
        suite: its name.
        observed: the run.
        verdicts: table ``verdicts`` of the suite.
        benchmark: whose arithmetic is the released one; empty for none.
        language: of the benchmark's texts.
    """
    table = _Verdicts(suite, observed.prompts, verdicts)
    scores: list[Score] = []
    for group in _groups(observed.prompts.values()):
        scores += table.ours(group)
    by_language = [s for s in scores if s.metric == "exact_text" and list(s.group) == ["language"]]
    scores.append(table.mean("exact_text_mean", by_language))
    if benchmark:
        facets = {"longtext": ("category", "length"), "cvtg": ("regions", "category"), "oneig": ("category",)}
        for group in _groups(observed.prompts.values(), facets[benchmark]):
            scores += table.released(benchmark, language, group)
    return scores


def _groups(prompts: Iterable[Prompt], facets: Sequence[str] = FACETS) -> Iterator[dict[str, FacetValue]]:
    """All images, then those of each value of each facet that has several."""
    every = list(prompts)
    yield {}
    for facet in facets:
        values = sorted({p.facets[facet] for p in every if p.facets.get(facet) is not None}, key=str)
        if len(values) > 1 or (facet == "language" and values):
            yield from ({facet: value} for value in values)


class _Verdicts:
    """Verdicts by protocol and rule, and the numbers that are made of them."""

    def __init__(self, suite: str, prompts: Mapping[str, Prompt], verdicts: pl.DataFrame) -> None:
        self.suite, self.prompts = suite, prompts
        self._rows: dict[tuple[str, str], list[_Row]] = {}
        columns = ("protocol", "rule", "prompt_id", "value", "detail")
        ids = {prompt_id: prompt_id for prompt_id in prompts}  # of which rows share the text
        places: dict[tuple[str, ...], Mapping[str, int]] = {}
        ordered = verdicts.lazy().sort("image_id", maintain_order=True).select(columns).collect()
        for protocol, rule, prompt_id, value, detail in ordered.iter_rows():
            told = json.loads(detail) if detail else {}
            numbers = {name: number for name, number in told.items() if isinstance(number, int | float)}
            names = places.setdefault(tuple(numbers), {name: place for place, name in enumerate(numbers)})
            row = _Row(ids[prompt_id], value, tuple(numbers.values()), names)
            self._rows.setdefault((protocol, rule), []).append(row)

    def _of(self, protocol: str, rule: str, group: Mapping[str, FacetValue]) -> tuple[list[_Row], int]:
        """Usable verdicts of a group, and how many are not."""
        rows = [
            row
            for row in self._rows.get((protocol, rule), ())
            if all(self.prompts[row.prompt_id].facets.get(name) == value for name, value in group.items())
        ]
        usable = [row for row in rows if row.value is not None]
        return usable, len(rows) - len(usable)

    def _score(
        self, metric: str, protocol: str, group: Mapping[str, FacetValue], interval: Interval, used: int, unusable: int
    ) -> Score:
        return Score(
            suite=self.suite,
            metric=metric,
            protocol=protocol,
            group=dict(group),
            value=interval.value,
            ci_low=interval.low,
            ci_high=interval.high,
            n_used=used,
            n_unusable=unusable,
        )

    def ours(self, group: Mapping[str, FacetValue]) -> Iterator[Score]:
        rows, lost = self._of("revised", "text", group)
        clusters = [row.prompt_id for row in rows]

        def rate(metric: str, part: str, size: str, *, share: bool = False) -> Score:
            parts, sizes = ([row.number(name) for row in rows] for name in (part, size))
            interval = pooled(parts, sizes, clusters, share=share) if rows else NOTHING
            return self._score(metric, "revised", group, interval, len(rows), lost)

        def mean(metric: str, rule: str) -> Score:
            usable, unusable = self._of("revised", rule, group)
            values = [row.value for row in usable if row.value is not None]
            interval = clustered_average(values, np.array([row.prompt_id for row in usable]), bounds=(0.0, 1.0))
            return self._score(metric, "revised", group, interval, len(usable), unusable)

        yield mean("exact_text", "text")
        yield mean("text_similarity", "text_similarity")
        yield mean("image_word_accuracy", "word_accuracy")
        yield rate("word_accuracy", "matched", "words", share=True)
        if lost:
            yield self._bound(group)
        yield rate("cer", "edits", "characters")
        yield rate("wer", "word_edits", "words")
        for metric, part in (
            ("missing_words", "missing"),
            ("surplus_words", "surplus"),
            ("repeated_words", "repeated"),
        ):
            counts = [row.number(part) for row in rows]
            interval = clustered_mean(counts, clusters, bounds=(0.0, math.inf)) if rows else NOTHING
            yield self._score(metric, "revised", group, interval, len(rows), lost)

    def _bound(self, group: Mapping[str, FacetValue]) -> Score:
        """Share of words right if images without a usable answer had none right."""
        usable, lost = self._of("revised", "text", group)
        every = [row for row in self._rows[("revised", "text")] if row.value is None and self._belongs(row, group)]
        parts = [row.number("matched") for row in usable] + [0] * len(every)
        sizes = [row.number("words") for row in (*usable, *every)]
        interval = pooled(parts, sizes, [row.prompt_id for row in (*usable, *every)], share=True)
        return self._score("word_accuracy_if_unusable_wrong", "revised", group, interval, len(parts), lost)

    def _belongs(self, row: _Row, group: Mapping[str, FacetValue]) -> bool:
        return all(self.prompts[row.prompt_id].facets.get(name) == value for name, value in group.items())

    def mean(self, metric: str, parts: Sequence[Score]) -> Score:
        from verism.statistics.intervals import mean_of_independent

        defined = bool(parts) and not any(math.isnan(score.value) for score in parts)
        ends = [Interval(score.value, score.ci_low, score.ci_high) for score in parts]
        interval = mean_of_independent(ends) if defined else NOTHING
        return self._score(
            metric, "revised", {}, interval, sum(s.n_used for s in parts), sum(s.n_unusable for s in parts)
        )

    # --------------------------------------------------------------------------------------------------------- released
    def released(self, benchmark: str, language: str, group: Mapping[str, FacetValue]) -> Iterator[Score]:
        rows, lost = self._of("released", benchmark, group)
        clusters = [row.prompt_id for row in rows]

        def share(metric: str, part: str) -> Score:
            parts, sizes = ([row.number(name) for row in rows] for name in (part, "length"))
            interval = pooled(parts, sizes, clusters, share=True) if rows else NOTHING
            return self._score(metric, "released", group, interval, len(rows), lost)

        if benchmark == "longtext":
            yield share("longtext_score", "matched")
        elif benchmark == "cvtg":
            yield share("cvtg_word_accuracy", "matched")
            yield share("cvtg_ned", "similarity")
            cosines, without = self._of("released", "clipscore", group)
            if cosines:
                values, of = zip(*((row.value or 0.0, row.prompt_id) for row in cosines), strict=True)
                interval = clustered_mean(values, of, bounds=(0.0, 2.5))  # 2.5 times a cosine
                yield self._score("clipscore", "released", group, interval, len(cosines), without)
        else:
            distances = [row.number("distance") for row in rows]
            complete = [float(row.number("complete")) for row in rows]
            ed = clustered_mean(distances, clusters, bounds=(0.0, math.inf)) if rows else NOTHING
            cr = clustered_average(complete, np.array(clusters)) if rows else NOTHING
            wac = share("oneig_wac", "matched")
            yield self._score("oneig_ed", "released", group, ed, len(rows), lost)
            yield self._score("oneig_cr", "released", group, cr, len(rows), lost)
            yield wac
            value = oneig_score(ed.value, cr.value, wac.value, ONEIG_MOST[language])
            score = self._bootstrapped(rows, value, ONEIG_MOST[language])
            yield self._score("oneig_score", "released", group, score, len(rows), lost)

    @staticmethod
    def _bootstrapped(rows: Sequence[_Row], value: float, most: int) -> Interval:
        """The interval of a product of three numbers of the same images: prompts drawn again."""
        from verism.statistics.intervals import cluster_bootstrap

        if not rows:
            return NOTHING
        table = np.array(
            [[r.number("distance"), r.number("complete"), r.number("matched"), r.number("length")] for r in rows],
            dtype=np.float64,
        )

        def statistic(drawn: np.ndarray) -> float:
            length = drawn[:, 3].sum()
            accuracy = drawn[:, 2].sum() / length if length else math.nan
            return oneig_score(float(drawn[:, 0].mean()), float(drawn[:, 1].mean()), float(accuracy), most)

        interval = cluster_bootstrap(statistic, table, clusters=np.array([r.prompt_id for r in rows]), seed=0)
        return Interval(value, interval.low, interval.high)


# ---------------------------------------------------------------------------------------------------- errors of engines
def engine_errors(suite: str, observed: Observed, verdicts: pl.DataFrame, true_verdicts: pl.DataFrame) -> list[Score]:
    """How far an OCR engine is off, for images whose text is known: over all, and by script and condition.

    Args:
        suite: its name.
        observed: the run.
        verdicts: by the engine's readings; the detail of the rule ``text`` holds what was read.
        true_verdicts: the same by the ground truth.
    """
    read, true = _read_texts(verdicts), _read_texts(true_verdicts)
    prompt_of = dict(true_verdicts.select("image_id", "prompt_id").iter_rows())
    rows = []
    for image_id, detail in true.items():
        if image_id not in read:
            continue
        shown, seen = detail["read"], read[image_id]["read"]
        of_characters, of_words = edits(characters(shown), characters(seen)), edits(words(shown), words(seen))
        facets = {**observed.prompts[prompt_of[image_id]].facets, "letter_height": _band(detail.get("height"))}
        rows.append((prompt_of[image_id], facets, detail, of_characters, of_words, not seen and bool(shown)))
    scores: list[Score] = []
    lost = len(true) - len(rows)
    table = _Verdicts(suite, observed.prompts, true_verdicts)
    for facet in ("", "script", "length", *CONDITIONS, "letter_height"):
        values = [None] if not facet else sorted({str(r[1].get(facet)) for r in rows if r[1].get(facet) is not None})
        for value in values:
            subset = [r for r in rows if value is None or str(r[1].get(facet)) == value]
            group: dict[str, FacetValue] = {} if value is None else {facet: value}
            of = [r[0] for r in subset]
            numbers = {
                "true_cer": ([r[2]["edits"] for r in subset], [r[2]["characters"] for r in subset]),
                "ocr_cer": ([r[3].distance for r in subset], [r[3].length for r in subset]),
                "ocr_wer": ([r[4].distance for r in subset], [r[4].length for r in subset]),
            }
            for metric, (parts, sizes) in numbers.items():
                interval = pooled(parts, sizes, of, share=False)
                scores.append(table._score(metric, "revised", group, interval, len(subset), 0 if facet else lost))
            blind = clustered_average([float(r[5]) for r in subset], np.array(of))
            scores.append(table._score("ocr_blind", "revised", group, blind, len(subset), 0 if facet else lost))
    return scores if rows else []


def _band(height: float | None) -> str | None:
    """Height of letters as the group that it is of."""
    if height is None:
        return None
    ends = [0, *BANDS]
    band = max(i for i, end in enumerate(ends) if height >= end)
    return f"{ends[band]} to {ends[band + 1]} px" if band + 1 < len(ends) else f"{ends[band]} px and more"


def _read_texts(verdicts: pl.DataFrame) -> dict[str, dict[str, Any]]:
    import polars as pl

    chosen = verdicts.filter(
        (pl.col("rule") == "text") & (pl.col("protocol") == "revised") & pl.col("value").is_not_null()
    )
    return {image_id: json.loads(detail) for image_id, detail in chosen.select("image_id", "detail").iter_rows()}
