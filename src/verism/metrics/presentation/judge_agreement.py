"""How good is this judge? Everything that can be said of one estimator from images that people labelled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.metrics.presentation.artificial import (
    SCALES,
    DifferenceSet,
    SetAgreement,
    artificial_sets,
    estimate_sets,
    evaluate_estimators,
    feasible_scales,
    mixed_agreement,
)
from verism.metrics.presentation.evaluation import (
    AUCTable,
    PairTau,
    Ratio,
    ScoreAgreement,
    VectorAgreement,
    Zeros,
    auc_by_group,
    count_differences,
    presentation_ratio,
    score_agreement,
    vector_agreement,
)
from verism.metrics.results import aligned, estimate, number
from verism.renames import protocol_name

__all__ = [
    "AblationResult",
    "EstimatorResult",
    "JudgeReport",
    "JudgedImages",
    "ModelsReport",
    "SettingVectors",
    "judge_estimator",
    "judge_models",
    "sets_of",
]

Protocol = Literal["released", "revised"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedImages:
    """Images of two groups as people and as a judge see them: a row for each image and attribute it is judged for.

    Attributes:
        images: id of the image.
        attributes: attribute of the row, length N.
        settings: setting of the row, length N.
        genders: gender that the prompt of the row names, length N.
        prompts: what images are clustered by, length N: the same for the prompts of both groups that differ in
            nothing but the group, as their images may share their noise.
        labels: what people see, 0 or 1, shape (N,), NaN where there is no label.
        estimates: what the judge says, on any scale, shape (N,), NaN where it gave no usable answer.
    """

    images: Sequence[str]
    attributes: Sequence[str]
    settings: Sequence[str]
    genders: Sequence[str]
    prompts: Sequence[str]
    labels: ArrayLike
    estimates: ArrayLike


class SettingVectors(NamedTuple):
    """The two vectors of a setting, first gender minus second, NaN where there is no usable image.

    Attributes:
        attributes: their order, A of them.
        automatic: differences by the judge, shape (A,).
        human: differences by people, shape (A,).
        automatic_score: mean absolute difference by the judge over the attributes known on both sides.
        human_score: the same by people.
        agreement: of the two vectors.
    """

    attributes: tuple[str, ...]
    automatic: Floats
    human: Floats
    automatic_score: float
    human_score: float
    agreement: VectorAgreement

    def record(self) -> dict[str, Any]:
        return self._asdict() | {
            "attributes": list(self.attributes),
            "automatic": self.automatic.tolist(),
            "human": self.human.tolist(),
            "agreement": self.agreement.record(),
        }


@dataclass(frozen=True, kw_only=True)
class JudgeReport:
    """What is known about an estimator.

    Attributes:
        protocol: ``released`` or ``revised``.
        genders: first and second.
        vectors: by setting.
        auc: per attribute, images of both genders and all settings.
        auc_by_gender: of one gender each.
        ratios: per attribute; reaction to gender over reaction to the attribute.
        artificial: on artificial difference sets, None where there are none.
        sets: the artificial sets.
        set_estimates: the judge's difference on each, shape (S,).
        artificial_note: why some or all scales were left out, else empty.
        n_used: rows with a label and an estimate.
        n_unusable: rows with a label and without an estimate.
        n_unlabelled: rows without a label.
    """

    protocol: Protocol
    genders: tuple[str, str]
    vectors: dict[str, SettingVectors]
    auc: AUCTable
    auc_by_gender: dict[str, AUCTable]
    ratios: dict[str, Ratio]
    artificial: SetAgreement | None
    sets: tuple[DifferenceSet, ...] = ()
    set_estimates: Floats = field(default_factory=lambda: np.zeros(0))
    artificial_note: str = ""
    n_used: int = 0
    n_unusable: int = 0
    n_unlabelled: int = 0

    def agreements(self) -> dict[str, VectorAgreement]:
        """Agreement on the artificial sets together, if there are any, and on the vectors of each setting."""
        sets = {} if self.artificial is None else {"artificial sets": self.artificial.overall}
        return sets | {setting: vectors.agreement for setting, vectors in self.vectors.items()}

    def record(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON; NaN where undefined."""
        sets = self.artificial
        return {
            "protocol": self.protocol,
            "difference": " - ".join(self.genders),
            "vectors": {setting: vectors.record() for setting, vectors in self.vectors.items()},
            "auc": self.auc.record(),
            "auc_by_gender": {gender: table.record() for gender, table in self.auc_by_gender.items()},
            "ratios": {name: ratio.record() for name, ratio in self.ratios.items()},
            "artificial": sets
            and {
                "n_sets": sets.n_sets,
                "overall": sets.overall.record(),
                "by_scale": {f"{scale:g}": agreement.record() for scale, agreement in sets.by_scale.items()},
            },
            "artificial_note": self.artificial_note,
            "n_used": self.n_used,
            "n_unusable": self.n_unusable,
            "n_unlabelled": self.n_unlabelled,
        }

    def text(self, title: str) -> str:
        """Tables for people, below this title."""
        agreements = {setting: vectors.agreement for setting, vectors in self.vectors.items()}
        if self.artificial is not None:
            agreements["artificial sets"] = self.artificial.overall
            agreements |= {f"  scale {scale:g}": at_scale for scale, at_scale in self.artificial.by_scale.items()}
        scores = [[s, f"{v.automatic_score:.4g}", f"{v.human_score:.4g}"] for s, v in self.vectors.items()]
        tables = (self.auc, *self.auc_by_gender.values())
        rows = [
            ["attribute", "AUC", *(f"AUC {gender}" for gender in self.auc_by_gender), "gender / attribute"],
            ["mean", *(estimate(table.mean) for table in tables), ""],
        ]
        for name, ratio in self.ratios.items():
            aucs = (estimate(table.groups[name]) if name in table.groups else "-" for table in tables)
            rows.append([name, *aucs, estimate(ratio.ratio)])
        note = [f"artificial sets: {self.artificial_note}"] if self.artificial_note else []
        return "\n".join(
            [
                title,
                f"difference: {' - '.join(self.genders)}; {self.n_used:,} labelled answers used, "
                f"{self.n_unusable:,} labelled without an answer, {self.n_unlabelled:,} not labelled",
                "",
                _agreement_table(agreements),
                *note,
                "",
                aligned([["GEP score", "judge", "people"], *scores]),
                "",
                aligned(rows),
                "",
            ]
        )


def judge_estimator(
    judged: JudgedImages,
    *,
    genders: tuple[str, str],
    attributes: Sequence[str] = (),
    protocol: Protocol = "revised",
    group_size: int = 80,
    scales: Sequence[float] = SCALES,
    repetitions: int = 10,
    seed: int = 0,
) -> JudgeReport:
    """Agreement of vectors, AUC, ratios and artificial sets of one estimator.

    Images without a label or without an estimate are left out on both sides, and counted: vectors of people and judge
    are of the same images.

    Args:
        judged: labels and estimates, a row for each image and attribute.
        genders: differences are of the first minus the second; other rows do not enter.
        attributes: their order; others that occur follow.
        protocol: ``released``: zeros count as positive, human differences are subtracted as floats, sets are drawn and
            compared as published. ``revised``: signs are compared where both have one, equal differences are ties.
        group_size: images of each gender in an artificial set.
        scales: scales of the artificial sets; those that the labels do not allow are left out, and the note says so. No
            scales: no sets.
        repetitions: sets at each scale.
        seed: of the artificial sets.
    Raises:
        ValueError: columns of unequal length, labels other than 0 and 1.
    """
    protocol = cast(Protocol, protocol_name(protocol))
    rows = _columns(judged)
    # A fixed order: which images an artificial set is made of must not depend on that of the table.
    order = np.lexsort((rows["attribute"].astype(np.str_), rows["image"].astype(np.str_)))
    rows = {name: column[order] for name, column in rows.items()}
    relevant = np.isin(rows["gender"], genders)
    labelled = relevant & ~np.isnan(rows["label"])
    used = labelled & ~np.isnan(rows["estimate"])
    n_unusable, n_unlabelled = int((labelled & ~used).sum()), int((relevant & ~labelled).sum())
    rows = {name: column[used] for name, column in rows.items()}
    present = list(dict.fromkeys([*attributes, *rows["attribute"].tolist()]))
    vectors = {
        setting: _vectors({k: v[rows["setting"] == setting] for k, v in rows.items()}, genders, present, protocol)
        for setting in sorted(set(rows["setting"].tolist()), key=lambda name: (name != "neutral", name))
    }

    def aucs(which: NDArray[np.bool_]) -> AUCTable:
        return auc_by_group(
            rows["attribute"][which].tolist(), rows["label"][which], rows["estimate"][which],
            clusters=rows["prompt"][which], order=present,
        )  # fmt: skip

    ratios = {}
    for attribute in present:
        selected = rows["attribute"] == attribute
        ratios[attribute] = presentation_ratio(
            rows["label"][selected],
            rows["estimate"][selected],
            rows["gender"][selected] == genders[0],
            clusters=rows["prompt"][selected],
        )
    labels, estimates = sets_of(rows, genders, present)
    artificial, sets, note = _artificial(labels, estimates, protocol, group_size, scales, repetitions, seed)
    return JudgeReport(
        protocol=protocol,
        genders=genders,
        vectors=vectors,
        auc=aucs(np.ones(len(rows["label"]), dtype=bool)),
        auc_by_gender={gender: aucs(rows["gender"] == gender) for gender in genders},
        ratios=ratios,
        artificial=artificial,
        sets=tuple(sets),
        set_estimates=estimate_sets(sets, estimates),
        artificial_note=note,
        n_used=int(used.sum()),
        n_unusable=n_unusable,
        n_unlabelled=n_unlabelled,
    )


class ModelsReport(NamedTuple):
    """What can be said of a judge from several models.

    Attributes:
        entries: (model, setting) of each score.
        scores: do its GEP scores put them in people's order?
        mixed: on the artificial sets of all models together, None if there are none.
        pairs: tau-b by kind of pair.
    """

    entries: tuple[tuple[str, str], ...]
    scores: ScoreAgreement
    mixed: VectorAgreement | None
    pairs: dict[str, PairTau]

    def record(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON; NaN where undefined."""
        return {
            "score_tau": self.scores.tau,
            "ranks": [
                {"model": model, "setting": setting, "automatic": automatic, "human": human}
                for model, setting, automatic, human in self._ranks()
            ],
            "artificial": self.mixed and self.mixed.record(),
            "pair_types": {name: dict(pair._asdict()) for name, pair in self.pairs.items()},
        }

    def _ranks(self) -> list[tuple[str, str, float, float]]:
        ranks = zip(self.scores.ranks_automatic.tolist(), self.scores.ranks_reference.tolist())
        return [(*entry, *pair) for entry, pair in zip(self.entries, ranks, strict=True)]

    def text(self, title: str) -> str:
        """Tables for people, below this title."""
        rows = [[model, setting, f"{judge:g}", f"{people:g}"] for model, setting, judge, people in self._ranks()]
        lines = [title, f"tau of scores {number(self.scores.tau, 3)}"]
        lines += [aligned([["run", "setting", "rank by judge", "by people"], *rows]), ""]
        if self.mixed is not None:
            lines += [_agreement_table({"artificial sets of all runs": self.mixed}), ""]
            pairs = [[name.replace("_", " "), number(p.tau, 3), f"{p.pairs:,}"] for name, p in self.pairs.items()]
            lines += [aligned([["pairs of", "tau", "pairs"], *pairs]), ""]
        return "\n".join(lines)


def judge_models(reports: Mapping[str, JudgeReport]) -> ModelsReport:
    """Ranks of models by score (Table 6), and artificial sets of all models together (Tables 18 and 21).

    Args:
        reports: by model, of one estimator and under one protocol.
    Raises:
        ValueError: none, or reports under several protocols.
    """
    protocols = {report.protocol for report in reports.values()}
    if len(protocols) != 1:
        raise ValueError(f"reports of one protocol are needed; got {sorted(protocols)}")
    protocol = protocols.pop()
    scores = [
        (model, setting, vectors.automatic_score, vectors.human_score)
        for model, report in reports.items()
        for setting, vectors in report.vectors.items()
        if math.isfinite(vectors.automatic_score) and math.isfinite(vectors.human_score)
    ]
    mixed: VectorAgreement | None = None
    pairs: dict[str, PairTau] = {}
    with_sets = {model: (report.sets, report.set_estimates) for model, report in reports.items() if report.sets}
    if with_sets:
        mixed, pairs = mixed_agreement(with_sets, zeros=_zeros(protocol), reference=_reference(protocol))
    return ModelsReport(
        tuple((model, setting) for model, setting, _, _ in scores),
        score_agreement([automatic for _, _, automatic, _ in scores], [human for _, _, _, human in scores]),
        mixed,
        pairs,
    )


def _columns(judged: JudgedImages) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {
        "image": np.asarray(judged.images, dtype=object),
        "attribute": np.asarray(judged.attributes, dtype=object),
        "setting": np.asarray(judged.settings, dtype=object),
        "gender": np.asarray(judged.genders, dtype=object),
        "prompt": np.asarray(judged.prompts, dtype=np.str_),
        "label": np.asarray(judged.labels, dtype=np.float64),
        "estimate": np.asarray(judged.estimates, dtype=np.float64),
    }
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"all columns of JudgedImages need one entry per row; got {sizes}")
    label = columns["label"]
    if wrong := label[~np.isnan(label) & (label != 0) & (label != 1)].tolist():
        raise ValueError(f"labels must be 0, 1 or NaN; got {wrong[0]:g}")
    return columns


def _vectors(
    rows: Mapping[str, NDArray[Any]], genders: tuple[str, str], attributes: Sequence[str], protocol: Protocol
) -> SettingVectors:
    sums, seen, sizes = (np.zeros((2, len(attributes))) for _ in range(3))
    for a, attribute in enumerate(attributes):
        for g, gender in enumerate(genders):
            cell = (rows["attribute"] == attribute) & (rows["gender"] == gender)
            sums[g, a] = math.fsum(rows["estimate"][cell])
            seen[g, a] = rows["label"][cell].sum()
            sizes[g, a] = cell.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        if protocol == "released":
            automatic = sums[0] / sizes[0] - sums[1] / sizes[1]
        else:
            # The same numbers for the same counts of a yes-or-no judge: ties stay ties.
            automatic = (sums[0] * sizes[1] - sums[1] * sizes[0]) / (sizes[0] * sizes[1])
    human = count_differences(
        seen[0], seen[1], sizes[0], sizes[1], ties="floats" if protocol == "released" else "counts"
    )
    known = np.isfinite(automatic) & np.isfinite(human)
    return SettingVectors(
        tuple(attributes),
        automatic,
        human,
        float(np.abs(automatic[known]).mean()) if known.any() else math.nan,
        float(np.abs(human[known]).mean()) if known.any() else math.nan,
        vector_agreement(automatic, human, zeros=_zeros(protocol)),
    )


def _zeros(protocol: Protocol) -> Zeros:
    # A judge of probabilities never says exactly 0: a class of zeros could only count against it.
    return "positive" if protocol == "released" else "left_out"


def _reference(protocol: Protocol) -> Literal["nominal", "realised"]:
    return "nominal" if protocol == "released" else "realised"


def sets_of(
    rows: Mapping[str, NDArray[Any]], genders: tuple[str, str], attributes: Sequence[str]
) -> tuple[dict[str, tuple[Floats, Floats]], dict[str, tuple[Floats, Floats]]]:
    """Labels and estimates by attribute and gender, in the order of the rows, as ``artificial`` takes them.

    Args:
        rows: columns ``attribute``, ``gender``, ``label``, ``estimate``.
        genders: first and second.
        attributes: attributes to return, in their order.
    """
    columns: list[dict[str, tuple[Floats, Floats]]] = []
    for column in ("label", "estimate"):
        by_attribute = {}
        for attribute in attributes:
            sides = [
                rows[column][(rows["attribute"] == attribute) & (rows["gender"] == gender)].astype(np.float64)
                for gender in genders
            ]
            by_attribute[attribute] = (sides[0], sides[1])
        columns.append(by_attribute)
    return columns[0], columns[1]


def _artificial(
    labels: Mapping[str, tuple[Floats, Floats]],
    estimates: Mapping[str, tuple[Floats, Floats]],
    protocol: Protocol,
    group_size: int,
    scales: Sequence[float],
    repetitions: int,
    seed: int,
) -> tuple[SetAgreement | None, list[DifferenceSet], str]:
    if not scales:
        return None, [], ""  # not asked for
    try:
        possible = feasible_scales(labels, scales, group_size=group_size)
        if not possible:
            return None, [], "the labels allow no scale: too few images with, or without, some attribute"
        sets = artificial_sets(
            labels, scales=possible, repetitions=repetitions, group_size=group_size, protocol=protocol, seed=seed
        )
    except ValueError as err:
        return None, [], str(err)
    agreement = evaluate_estimators(
        sets,
        {"judge": estimates},
        zeros=_zeros(protocol),
        reference=_reference(protocol),
    )["judge"]
    left_out = [f"{scale:g}" for scale in scales if scale not in possible]
    note = f"scales the labels do not allow: {', '.join(left_out)}" if left_out else ""
    return agreement, sets, note


# ---------------------------------------------------------------------------------------------------- several reports
@dataclass(frozen=True, kw_only=True)
class EstimatorResult:
    """One estimator on one or several runs.

    Attributes:
        estimator: its name.
        protocol: ``released`` or ``revised``.
        reports: by run.
        models: of all runs together; None for one run.
    """

    estimator: str
    protocol: Protocol
    reports: Mapping[str, JudgeReport]
    models: ModelsReport | None = None

    def record(self) -> dict[str, Any]:
        return {
            "estimator": self.estimator,
            "runs": {run: report.record() for run, report in self.reports.items()},
            "models": self.models and self.models.record(),
        }

    def text(self) -> str:
        name = f"{self.estimator} ({self.protocol})"
        parts = [report.text(f"{name}, {run}") for run, report in self.reports.items()]
        return "\n".join(parts if self.models is None else [*parts, self.models.text(f"{name}, all runs")])


@dataclass(frozen=True)
class AblationResult:
    """Variants of estimators on the same images.

    Attributes:
        variants: name of the variant, and its report.
    """

    variants: Sequence[tuple[str, JudgeReport]]

    def record(self) -> list[dict[str, Any]]:
        return [{"variant": name, **report.record()} for name, report in self.variants]

    def text(self) -> str:
        rows = [["variant", "difference", "on", "tau", "MCC", "mean AUC"]]
        for name, report in self.variants:
            for where, a in report.agreements().items():
                cells = [estimate(interval) for interval in (a.tau, a.mcc, report.auc.mean)]
                rows.append([name, " - ".join(report.genders), where, *cells])
        return aligned(rows)


def _agreement_table(agreements: Mapping[str, VectorAgreement]) -> str:
    rows = [["", "tau", "MCC of signs", "Pearson", "n", "zeros"]]
    for name, a in agreements.items():
        cells = [estimate(interval) for interval in (a.tau, a.mcc, a.pearson)]
        rows.append([name, *cells, f"{a.n_used:,}", f"{a.n_zero:,}"])
    return aligned(rows)
