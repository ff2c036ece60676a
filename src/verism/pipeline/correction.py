"""Scores with the judge's error taken out, beside those as judged.

Two sources say how a judge errs. Labels of some of the run's own images (``human``: annotators' answers; ``rendered``:
ground truth): prediction-powered inference, which assumes nothing about the errors but that a random part is labelled.
Or a judge card (``rendered`` or ``human``), a table of what the judge predicted for items of known class elsewhere:
maximum likelihood through that table, which assumes that the judge errs on this run's images as it did there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from verism.cards import JudgeCard, Kind, Measured, find_measured
from verism.pipeline.image_samples import ImageMatch
from verism.records import Estimand, EstimandPart, Score, content_hash
from verism.specs import Rule
from verism.statistics.intervals import wilson
from verism.statistics.misclassification import FittedShares, fit_shares
from verism.statistics.prediction_powered import LabelledMean, ppi_sum

__all__ = ["UNMATCHED", "Adjustment", "Classes", "adjust_by_cards", "adjust_by_labels"]

UNMATCHED = "-unmatched"  # behind the kind of a card whose images are not found to be like the run's
Classes = Callable[[str, Mapping[str, Any]], Mapping[str, str]]  # rule and key -> true class by image
Remarks = Callable[[str, Mapping[str, Any]], Sequence[str]]  # rule and key -> what to mind about the true classes
Cells = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]  # rule and key -> cell each image was drawn from
Match = Callable[[JudgeCard], ImageMatch]
Method = Literal["prediction-powered", "judge card"]

CONFIDENCE = 0.95
LEAST_LABELS = 9  # of a small group: fewer leave nearly everything open
ABSOLUTE = (
    "the ends are made of those of all differences at once (Bonferroni), as error makes an absolute value larger "
    "however it falls"
)


@dataclass(frozen=True, kw_only=True)
class Adjustment:
    """A score with the judge's error taken out, and how.

    Attributes:
        score: value, interval, ``adjusted``.
        judged: the same as the judge says.
        method: how it was done.
        source: whose labels, or which card.
        n_labels: labels of images, or items of the cards.
        effective_n: labels alone that would tell as much; NaN for cards.
        labels_only: value, low and high of the labels alone; NaN for cards.
        trust: how far the judge was trusted, 0 to 1; NaN for cards.
        note: what to mind, or why there is no value.
        images: whether the run's images are like those of the card; None where no card was used, or none was compared.
        tables: hash of the cards' error tables behind the score; empty where no card was used.
    """

    score: Score
    judged: Score
    method: Method
    source: str
    n_labels: int
    effective_n: float = math.nan
    labels_only: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    trust: float = math.nan
    note: str = ""
    images: ImageMatch | None = None
    tables: str = ""

    def record(self) -> dict[str, Any]:
        """For a JSON file; NaN is null."""
        numbers = {"effective_n": self.effective_n, "trust": self.trust}
        numbers |= dict(zip(("labels_only", "labels_only_low", "labels_only_high"), self.labels_only, strict=True))
        return {
            "metric": self.score.metric,
            "protocol": self.score.protocol,
            "group": dict(self.score.group),
            "adjusted": self.score.adjusted,
            "value": _finite(self.score.value),
            "ci_low": _finite(self.score.ci_low),
            "ci_high": _finite(self.score.ci_high),
            "judged": _finite(self.judged.value),
            "method": self.method,
            "source": self.source,
            "tables": self.tables,
            "n_labels": self.n_labels,
            **{name: _finite(number) for name, number in numbers.items()},
            "note": self.note,
            "images": None if self.images is None else self.images.state,
            "images_p_value": None if self.images is None else _finite(self.images.p_value),
        }


def adjust_by_labels(
    estimands: Sequence[Estimand],
    classes: Classes,
    *,
    cells: Cells | None = None,
    remarks: Remarks | None = None,
    kind: Kind = "human",
) -> list[Adjustment]:
    """Estimands with labels of some of their images; those without any label are left out.

    Where a fixed number of images was drawn from each cell, labels weigh as many images as they stand for: those of
    the cell, over those of them with a label.

    Args:
        estimands: the scores as what they are made of.
        classes: the true class of images, for a rule and a key (``annotation.ratings.human_classes``, or the ground
            truth of a generator that renders, with ``kind="rendered"``).
        cells: the cell of every image, where they were drawn by cell. A cell without any label is left to the judge,
            and to the errors it makes in the others; a note says so.
        remarks: what to mind about the classes, to be noted with every number that rests on them.
        kind: where the labels are from.
    """
    made = []
    # Many estimands are made of the same verdicts; what is known of those is asked for once.
    known: dict[tuple[str, str], tuple[Mapping[str, str], Mapping[str, Any], Sequence[str]]] = {}
    for estimand in estimands:
        parts, labelled, blind = [], 0, 0
        notes: list[str] = []
        for part in estimand.parts:
            name = (estimand.rule, str(sorted(part.key.items())))
            if name not in known:
                known[name] = (
                    classes(estimand.rule, part.key),
                    {} if cells is None else cells(estimand.rule, part.key),
                    [] if remarks is None else remarks(estimand.rule, part.key),
                )
            of_images, cell_of, said = known[name]
            truth = [estimand.worth.get(of_images.get(image_id, ""), math.nan) for image_id in part.image_ids]
            labelled += sum(not math.isnan(value) for value in truth)
            chances, unseen = _chances(part, truth, cell_of)
            blind += unseen
            notes += said
            parts.append(
                LabelledMean(
                    judged=[estimand.worth[label] for label in part.predicted],
                    truth=truth,
                    weights=part.weights,
                    clusters=part.clusters,
                    coefficient=part.coefficient,
                    inclusion=chances,
                )
            )
        if not labelled or (estimand.small and labelled < LEAST_LABELS):
            continue
        if estimand.terms:
            if (of_terms := _absolute_by_labels(estimand, parts, kind, notes)) is not None:
                made.append(of_terms)
            continue
        result = ppi_sum(parts, bounds=_bounds(estimand))
        score = replace(estimand.score, value=result.value, ci_low=result.low, ci_high=result.high, adjusted=kind)
        made.append(
            Adjustment(
                score=score,
                judged=estimand.score,
                method="prediction-powered",
                source="the ground truth of this run's generator"
                if kind == "rendered"
                else "annotators' answers about this run",
                n_labels=result.n_labels,
                effective_n=result.effective_n,
                labels_only=(result.labels_only.value, result.labels_only.low, result.labels_only.high),
                trust=result.lam,
                note="; ".join(filter(None, [result.note, _blind(blind), *dict.fromkeys(notes)])),
            )
        )
    return made


def _absolute_by_labels(
    estimand: Estimand, parts: Sequence[LabelledMean], kind: Kind, notes: Sequence[str]
) -> Adjustment | None:
    """A mean of absolute values with labels of some images; None where a term has no label.

    Args:
        estimand: with terms.
        parts: the labelled means, as its parts.
        kind: where the labels are from.
        notes: what to mind.
    """
    confidence = _of_each(estimand)
    results = []
    for term in estimand.terms:
        chosen = [parts[position] for position in term]
        if any(np.isnan(np.asarray(part.truth, dtype=np.float64)).all() for part in chosen):
            return None
        results.append(ppi_sum(chosen, confidence=confidence, bounds=(-_reach(estimand, term), _reach(estimand, term))))
    value, low, high = _mean_absolute([(r.value, r.low, r.high) for r in results])
    return Adjustment(
        score=replace(estimand.score, value=value, ci_low=low, ci_high=high, adjusted=kind),
        judged=estimand.score,
        method="prediction-powered",
        source="the ground truth of this run's generator"
        if kind == "rendered"
        else "annotators' answers about this run",
        n_labels=sum(result.n_labels for result in results),
        note="; ".join(dict.fromkeys([ABSOLUTE, *filter(None, notes)])),
    )


def _of_each(estimand: Estimand) -> float:
    """Confidence level of each part's interval: so that those of all terms hold at once, of an estimand with terms."""
    return 1 - (1 - CONFIDENCE) / max(1, len(estimand.terms))


def _reach(estimand: Estimand, term: Sequence[int]) -> float:
    """The greatest absolute value that a term can have."""
    span = max(estimand.worth.values()) - min(estimand.worth.values())
    return span * max(abs(estimand.parts[position].coefficient) for position in term)


def _mean_absolute(terms: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Mean of absolute values, and between which ends it lies if every term lies between its own.

    >>> _mean_absolute([(0.2, 0.1, 0.4), (-0.1, -0.3, 0.2)])
    (0.15000000000000002, 0.05, 0.35)
    """
    n = len(terms)
    value = math.fsum(abs(value) for value, _, _ in terms) / n
    low = math.fsum(max(0.0, low, -high) for _, low, high in terms) / n
    high = math.fsum(max(abs(low), abs(high)) for _, low, high in terms) / n
    return value, low, high


def _chances(part: EstimandPart, truth: Sequence[float], cell_of: Mapping[str, Any]) -> tuple[list[float], int]:
    """The share of each image's cell that has a label, and how many images are in cells without any."""
    cells = [cell_of.get(image_id) for image_id in part.image_ids]
    size, answered = Counter(cells), Counter(c for c, t in zip(cells, truth, strict=True) if not math.isnan(t))
    if not answered:
        return [1.0] * len(cells), 0
    chances = [answered[cell] / size[cell] or 1.0 for cell in cells]
    return chances, sum(not answered[cell] for cell in cells)


def _blind(n: int) -> str:
    return f"{n:,} images are of cells without any answer; the judge is taken to err there as elsewhere" if n else ""


def adjust_by_cards(
    estimands: Sequence[Estimand],
    cards: Sequence[JudgeCard],
    judges: Mapping[str, str],
    *,
    kind: Kind | None = None,
    rules: Mapping[str, Any] | None = None,
    declared: Sequence[Rule] = (),
    match: Match | None = None,
) -> list[Adjustment]:
    """Estimands through the error tables of their judges' cards; those without a table for every part are left out.

    Parts are combined as if they erred independently (each interval's half on its side adds in squares): they share
    the table, so that the interval of a difference is rather too wide than too narrow. Where the card counts items
    without a usable prediction, values are of all images that show a class, unusable ones as on the card.

    Args:
        estimands: the scores as what they are made of.
        cards: judge cards, in the order in which they are tried.
        judges: name of the judge by role.
        kind: only cards of this kind; None for any.
        rules: those the run was scored by. A card that was made by others (another threshold, say) gives no value.
        declared: these rules as the suite declares them: some concern a single protocol.
        match: whether the run's images are like those of a card. Numbers that rest on a card whose images are not
            found alike say so in ``adjusted`` (``rendered-unmatched``), so that no output can show them without it.
    """
    made = []
    fits: dict[tuple[int, int, float], FittedShares] = {}  # the share of each class is of the same images
    for estimand in estimands:
        judge = judges.get(estimand.role, "")
        matches = [
            find_measured(cards, judge, estimand.rule, estimand.score.protocol, kind=kind, group=part.key)
            for part in estimand.parts
        ]
        tables = [match for match in matches if match is not None]
        if not matches or len(tables) < len(matches):
            continue
        confidence = _of_each(estimand)
        means = [
            (math.nan, math.nan, math.nan, unlike)
            if (unlike := _other_rules(card, measured.protocol, rules or {}, declared))
            else _through(part, measured, estimand.worth, fits, confidence)
            for part, (card, measured) in zip(estimand.parts, tables, strict=True)
        ]
        of_parts = [(part.coefficient, *mean[:3]) for part, mean in zip(estimand.parts, means, strict=True)]
        if estimand.terms:
            value, low, high = _mean_absolute([_sum([of_parts[k] for k in term]) for term in estimand.terms])
        else:
            value, low, high = _sum(of_parts)
        bounds = _bounds(estimand)
        low, high = max(low, bounds[0]), min(high, bounds[1])
        card = tables[0][0]
        images = _worst([match(used) for used in {id(c): c for c, _ in tables}.values()]) if match else None
        ceiling = _saturation(estimand, [measured for _, measured in tables])
        notes = [
            ceiling,
            ABSOLUTE if estimand.terms else "",
            *(note for *_, note in means),
            images.words if images else "",
        ]
        score = replace(
            estimand.score,
            value=value,
            ci_low=math.nan if math.isnan(value) else low,
            ci_high=math.nan if math.isnan(value) else high,
            adjusted=card.kind if images is None or images.state == "alike" else card.kind + UNMATCHED,
        )
        made.append(
            Adjustment(
                score=score,
                judged=estimand.score,
                method="judge card",
                source=card.ground_truth,
                n_labels=sum(sum(map(sum, measured.counts)) for _, measured in tables),
                note="; ".join(dict.fromkeys(filter(None, notes))),
                images=images,
                tables=content_hash([(m.labels, m.counts, m.unusable) for _, m in tables]),
            )
        )
    return made


def _sum(parts: Sequence[tuple[float, float, float, float]]) -> tuple[float, float, float]:
    """A sum of independent estimates: value and ends.

    Args:
        parts: coefficient, value and ends of each.
    """
    value = math.fsum(coefficient * middle for coefficient, middle, _, _ in parts)
    down = up = 0.0
    for coefficient, middle, low, high in parts:
        below, above = coefficient * (middle - low), coefficient * (high - middle)
        down += max(below, -above, 0.0) ** 2
        up += max(above, -below, 0.0) ** 2
    return value, value - math.sqrt(down), value + math.sqrt(up)


def _saturation(estimand: Estimand, tables: Sequence[Measured]) -> str:
    """In words, that a share of right images lies above what its judge can tell; empty if it does not.

    Of images that are all right, the judge calls only as many right as its card says it recognises. Where a score
    reaches that, a better model could not be told from this one.

    Args:
        estimand: the score as what it is made of; others than shares of two classes are left alone.
        tables: of the judge's errors, one for each part.
    """
    right = [label for label, value in estimand.worth.items() if value == 1]
    binary = sorted(estimand.worth.values()) == [0, 1] and all(part.coefficient > 0 for part in estimand.parts)
    if not binary or math.isnan(estimand.score.value) or any(set(m.labels) != set(estimand.worth) for m in tables):
        return ""
    ceiling = lowest = 0.0
    for part, measured in zip(estimand.parts, tables, strict=True):
        row = measured.counts[measured.labels.index(right[0])]
        if not sum(row):
            return ""
        found = wilson(row[measured.labels.index(right[0])], sum(row))
        ceiling += part.coefficient * found.value
        lowest += part.coefficient * found.low
    if estimand.score.value < ceiling or ceiling == 1:
        return ""
    return (
        f"saturated: the judge calls {estimand.score.value:.1%} right, and of images that are all right it would call "
        f"{ceiling:.1%} right (at least {lowest:.1%}); better models cannot be told apart by it"
    )


def _worst(matches: Sequence[ImageMatch]) -> ImageMatch:
    """Of the matches of several cards behind one number the one that speaks most against it."""
    return min(matches, key=lambda found: ("unlike", "unknown", "alike").index(found.state))


def _other_rules(card: JudgeCard, protocol: str, rules: Mapping[str, Any], declared: Sequence[Rule]) -> str:
    """In words, by which rules a card was made that are not those of the run; empty if there is none."""
    protocol_of = {rule.name: rule.protocol for rule in declared}
    for name, value in dict(card.made.get("rules", {})).items():
        concerns = protocol_of.get(name) in (None, "", protocol)
        if concerns and name in rules and rules[name] != value:
            return f"the card was made with {name}={value}, the run is scored with {name}={rules[name]}"
    return ""


def _through(
    part: EstimandPart,
    measured: Measured,
    worth: Mapping[str, float],
    fits: dict[tuple[int, int, float], FittedShares],
    confidence: float,
) -> tuple[float, float, float, str]:
    """The mean of a part through an error table: value, ends, note."""
    if foreign := sorted(set(part.predicted) - set(measured.labels)):
        return math.nan, math.nan, math.nan, f"the card knows nothing of the class {foreign[0]!r}"
    if missing := [label for label in measured.labels if label not in worth]:
        return math.nan, math.nan, math.nan, f"the card's class {missing[0]!r} counts as nothing here"
    fitted = fits.get((id(part), id(measured), confidence))
    if fitted is None:
        predicted = _predicted_by_prompt(part, measured)
        fitted = fit_shares(
            None,
            measured.counts,
            observed_by_cluster=predicted,
            unusable=measured.unusable or None,
            confidence=confidence,
        )
        fits[id(part), id(measured), confidence] = fitted
    mean = fitted.mean([worth[label] for label in measured.labels])
    return mean.value, mean.low, mean.high, mean.note


def _predicted_by_prompt(part: EstimandPart, measured: Measured) -> NDArray[np.float64]:
    """Images that were predicted to be of each class, by cluster, (P, J)."""
    prompts, row = np.unique(np.asarray(part.clusters), return_inverse=True)
    index = {label: i for i, label in enumerate(measured.labels)}
    counts = np.zeros((len(prompts), len(measured.labels)))
    # Images that weigh more than others count as more; in all they count as many as there are.
    column = np.array([index[label] for label in part.predicted], dtype=np.intp)
    np.add.at(counts, (row.reshape(-1), column), np.asarray(part.weights) * len(part.predicted))
    return counts


def _bounds(estimand: Estimand) -> tuple[float, float]:
    """The least and the greatest that an estimand can be."""
    if estimand.terms:
        return 0.0, math.fsum(_reach(estimand, term) for term in estimand.terms) / len(estimand.terms)
    lowest, highest = min(estimand.worth.values()), max(estimand.worth.values())
    ends = [sorted((p.coefficient * lowest, p.coefficient * highest)) for p in estimand.parts]
    return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
