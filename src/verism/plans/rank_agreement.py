"""Which columns of a board rank its models alike, which models and images they contradict each other about."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.report_kit.gallery import image_data
from verism.specs import SHARE
from verism.statistics.intervals import Interval
from verism.statistics.rank_agreement import RankAgreement, kendall_over_models, rank_agreement, spearman_over_models

if TYPE_CHECKING:
    import polars as pl

    from verism.plans.board import Board, Column
    from verism.specs import Pairing, Presentation
    from verism.store import Run

__all__ = ["ColumnAgreement", "Contradiction", "Example", "Opposite", "SharedImages", "column_agreements"]

FEWEST_MODELS = 3  # two models are ranked alike or not, and that says nothing of a suite
EXAMPLES = 3  # images of a column for each pair of models
MOST_PAIRS = 8  # pairs of models with images, over all columns
PIXELS = 160  # longer side of an image on the page
MOST_SHOWN = 24  # images that two suites contradict each other about with the image on the page, over all columns
LEAST = 0.25  # difference of two verdicts from which on an image shows anything


@dataclass(frozen=True, kw_only=True)
class Example:
    """Images of two models for one prompt, of which a column calls the first better.

    Attributes:
        column: key of the column.
        image_id: of both images.
        text: of the prompt.
        better: value of the better model's image.
        worse: value of the other's.
        shown: both images as data URIs, the better one first; None for one that cannot be shown.
    """

    column: str
    image_id: str
    text: str
    better: float
    worse: float
    shown: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True, kw_only=True)
class Opposite:
    """Two models that two columns order differently, each significantly.

    Attributes:
        first: better by the first column.
        second: better by the second column.
        examples: images that show it, of both columns; empty where verdicts are not of single images.
    """

    first: str
    second: str
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """An image that one suite calls right and another wrong.

    Attributes:
        model: whose image it is.
        right: key of the column that calls it right.
        wrong: key of the one that calls it wrong.
        image_id: in the run of the first column of the two.
        other_id: in that of the second.
        text: prompt of the first.
        other_text: prompt of the second.
        report: path of the first run's report relative to the board; empty if there is none.
        shown: the image as a data URI; None where it is not shown.
    """

    model: str
    right: str
    wrong: str
    image_id: str
    other_id: str
    text: str
    other_text: str
    report: str = ""
    shown: str | None = None


@dataclass(frozen=True, kw_only=True)
class SharedImages:
    """What two columns say of the images that both have judged: the same files, of the same models.

    Attributes:
        n: such images with a usable verdict of both; of images that are equal to the last byte one counts.
        n_right: those that both call right.
        n_wrong: those that both call wrong.
        n_first_right: those that the first calls right and the second wrong.
        n_second_right: those that the second calls right and the first wrong. The rest of ``n`` either calls neither.
        contradictions: some of these, of every model.
    """

    n: int
    n_right: int
    n_wrong: int
    n_first_right: int
    n_second_right: int
    contradictions: tuple[Contradiction, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ColumnAgreement:
    """How alike two columns of different suites rank the models that both have.

    Attributes:
        first: key of a column.
        second: key of the other.
        models: names of the models ranked by both, any two of which may be compared in both.
        left_out: names of the other models that both rank.
        rank: Kendall's and Spearman's coefficients for these models, with what the tests leave open.
        in_general: Kendall's tau with an interval for models in general.
        rho_in_general: Spearman's rank correlation with such an interval.
        opposite: models that both order significantly, and differently.
        shared: what both say of images that they share; None where there are none, or verdicts are not of images.
    """

    first: str
    second: str
    models: tuple[str, ...]
    left_out: tuple[str, ...]
    rank: RankAgreement
    in_general: Interval
    rho_in_general: Interval
    opposite: tuple[Opposite, ...] = ()
    shared: SharedImages | None = None

    def record(self) -> dict[str, Any]:
        """As JSON; images are left out."""
        return {
            "first": self.first,
            "second": self.second,
            "models": list(self.models),
            "left_out": list(self.left_out),
            "rank": self.rank._asdict(),
            "in_general": self.in_general._asdict(),
            "rho_in_general": self.rho_in_general._asdict(),
            "opposite": [
                {
                    "first": pair.first,
                    "second": pair.second,
                    "examples": [{k: v for k, v in asdict(e).items() if k != "shown"} for e in pair.examples],
                }
                for pair in self.opposite
            ],
            "shared": None if self.shared is None else _without_images(asdict(self.shared)),
        }


def _without_images(record: dict[str, Any]) -> dict[str, Any]:
    listed = [{k: v for k, v in each.items() if k != "shown"} for each in record["contradictions"]]
    return {**record, "contradictions": listed}


def column_agreements(
    board: Board, runs: Mapping[tuple[str, str], Run], presentations: Mapping[str, Presentation], *, alpha: float
) -> tuple[ColumnAgreement, ...]:
    """Every two columns of different suites that rank three models or more, any two of which may be compared.

    Args:
        board: whose columns have ranks.
        runs: by model and suite, for images.
        presentations: by suite.
        alpha: chance that any interval for these models does not hold.
    """
    found = []
    left, left_shown = MOST_PAIRS, MOST_SHOWN
    verdicts = _Verdicts(runs, presentations)
    reports = {row.name: row.reports for row in board.rows}
    for first, second in itertools.combinations(board.columns, 2):
        if first.suite == second.suite:
            continue
        ranked = [model for model in first.ranked if model in second.ranked]
        models = _comparable(ranked, {frozenset(pair) for pair in (*first.apart, *second.apart)})
        if len(models) < FEWEST_MODELS:
            continue
        values = [_values(board, column, models) for column in (first, second)]
        wins = [_wins(column, models, alpha / 2) for column in (first, second)]
        opposite = []
        for i, j in np.argwhere((wins[0] > 0) & (wins[1] < 0)).tolist():
            pair = Opposite(first=models[i], second=models[j])
            if left:
                examples = (
                    *_examples(first, models[i], models[j], runs, presentations),
                    *_examples(second, models[j], models[i], runs, presentations),
                )
                pair = Opposite(first=models[i], second=models[j], examples=examples)
                left -= 1
            opposite.append(pair)
        shared = verdicts.shared(first, second, ranked, reports, left_shown)
        left_shown -= 0 if shared is None else sum(each.shown is not None for each in shared.contradictions)
        found.append(
            ColumnAgreement(
                first=first.key,
                second=second.key,
                models=tuple(models),
                left_out=tuple(model for model in ranked if model not in models),
                rank=rank_agreement(*values, *wins),
                in_general=kendall_over_models(*values),
                rho_in_general=spearman_over_models(*values),
                opposite=tuple(opposite),
                shared=shared,
            )
        )
    return tuple(found)


def _comparable(models: Sequence[str], apart: Collection[frozenset[str]]) -> list[str]:
    """Models any two of which may be compared: without those, one by one, that may not with the most others."""
    kept = list(models)
    while True:
        refused = [sum(frozenset((model, other)) in apart for other in kept) for model in kept]
        if not any(refused):
            return kept
        del kept[len(kept) - 1 - refused[::-1].index(max(refused))]  # of several the last


def _values(board: Board, column: Column, models: Sequence[str]) -> NDArray[np.float64]:
    """Values of models, larger for better."""
    scores = {row.name: row.cells[column.key].score for row in board.rows}
    sign = 1.0 if column.better == "higher" else -1.0
    return np.array([sign * score.value for model in models if (score := scores[model]) is not None])


def _wins(column: Column, models: Sequence[str], level: float) -> NDArray[np.int8]:
    """Which models are significantly better at a level; pairs that were not tested tell nothing."""
    places = [column.ranked.index(model) for model in models]
    p = np.array(column.p_holm, dtype=np.float64)[np.ix_(places, places)]
    wins = np.array(column.wins, dtype=np.int8)[np.ix_(places, places)]
    return np.where(p <= level, wins, 0).astype(np.int8)


def _pairing_of(column: Column, presentations: Mapping[str, Presentation]) -> Pairing | None:
    """The verdicts that a column is the mean of."""
    return next((p for p in presentations[column.suite].pairings if column.metric in (p.metric, p.mean)), None)


class _Verdicts:
    """What columns say of single images, read once for each model and column."""

    def __init__(self, runs: Mapping[tuple[str, str], Run], presentations: Mapping[str, Presentation]) -> None:
        self.runs = runs
        self.presentations = presentations
        self._images: dict[tuple[str, str], pl.DataFrame] = {}
        self._joined: dict[tuple[str, str, str], pl.DataFrame] = {}
        self._of_column: dict[tuple[str, str], pl.DataFrame] = {}

    def shared(
        self,
        first: Column,
        second: Column,
        models: Sequence[str],
        reports: Mapping[str, Mapping[str, str]],
        left: int,
    ) -> SharedImages | None:
        """What two columns say of the images that their suites share.

        Args:
            first: a column.
            second: a column of another suite.
            models: whose images count.
            reports: paths of reports by model and suite.
            left: images that may still be put on the page.
        """
        import polars as pl

        if not all(self._says_right(column) for column in (first, second)):
            return None
        tables = []
        for model in models:
            pairs = self._pairs(model, first.suite, second.suite)
            if pairs.height:
                both = pairs.join(self._values(model, first), on="image_id").join(
                    self._values(model, second).rename({"image_id": "other_id", "value": "other"}), on="other_id"
                )
                tables.append(both.with_columns(model=pl.lit(model)))
        judged = pl.concat(tables) if tables else None
        if judged is None or not judged.height:
            return None
        right, wrong = pl.col("value") >= 1, pl.col("value") <= 0
        other_right, other_wrong = pl.col("other") >= 1, pl.col("other") <= 0
        disagreed = [judged.filter(right & other_wrong), judged.filter(wrong & other_right)]
        listed: list[Contradiction] = []
        for table, columns in zip(disagreed, ((first, second), (second, first)), strict=True):
            for model in models:
                rows = table.filter(pl.col("model") == model).sort("image_id").head(EXAMPLES)
                shown = _shown(self.runs[model, first.suite], rows["image_id"].to_list()[: max(left, 0)])
                left -= len(shown)
                texts = [
                    {p.prompt_id: p.text for p in self.runs[model, column.suite].prompts()} if rows.height else {}
                    for column in (first, second)
                ]
                listed += [
                    Contradiction(
                        model=model,
                        right=columns[0].key,
                        wrong=columns[1].key,
                        image_id=row["image_id"],
                        other_id=row["other_id"],
                        text=texts[0].get(row["prompt_id"], ""),
                        other_text=texts[1].get(row["other_prompt"], ""),
                        report=reports.get(model, {}).get(first.suite, ""),
                        shown=shown.get(row["image_id"]),
                    )
                    for row in rows.iter_rows(named=True)
                ]
        return SharedImages(
            n=judged.height,
            n_right=judged.filter(right & other_right).height,
            n_wrong=judged.filter(wrong & other_wrong).height,
            n_first_right=disagreed[0].height,
            n_second_right=disagreed[1].height,
            contradictions=tuple(listed),
        )

    def _says_right(self, column: Column) -> bool:
        """Whether 1 means that an image is right, and 0 that it is wrong: one verdict of each, larger for better."""
        pairing = _pairing_of(column, self.presentations)
        return (
            pairing is not None
            and column.better == "higher"
            and pairing.scale == SHARE
            and not (pairing.key or pairing.where or pairing.indicator)
        )

    def _pairs(self, model: str, first: str, second: str) -> pl.DataFrame:
        """Images of one file that two runs of a model have: their ids and prompts; an image of many files once."""
        key = (model, first, second)
        if key not in self._joined:
            tables = [self._files(model, suite) for suite in (first, second)]
            other = tables[1].rename({"image_id": "other_id", "prompt_id": "other_prompt"})
            self._joined[key] = tables[0].join(other, on="sha256").drop("sha256")
        return self._joined[key]

    def _files(self, model: str, suite: str) -> pl.DataFrame:
        import polars as pl

        key = (model, suite)
        if key not in self._images:
            self._images[key] = (
                self.runs[key]
                .read("images", columns=["image_id", "prompt_id", "state", "sha256"])
                .filter((pl.col("state") == "ok") & pl.col("sha256").is_not_null())
                .select("image_id", "prompt_id", "sha256")
                .unique("sha256", keep="first", maintain_order=True)
            )
        return self._images[key]

    def _values(self, model: str, column: Column) -> pl.DataFrame:
        """Image and value of every usable verdict behind a column."""
        import polars as pl

        key = (model, column.key)
        if key not in self._of_column:
            run, pairing = self.runs[model, column.suite], _pairing_of(column, self.presentations)
            assert pairing is not None  # asked for by _says_right
            wanted = [p.prompt_id for p in run.prompts() if _is_of(p.facets, column.group)]
            self._of_column[key] = (
                run.scan_verdicts()
                .filter(
                    (pl.col("rule") == pairing.rule)
                    & (pl.col("protocol") == column.protocol)
                    & pl.col("value").is_not_null()
                    & pl.col("prompt_id").is_in(wanted)
                )
                .select("image_id", "value")
                .collect()
            )
        return self._of_column[key]


def _is_of(facets: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
    return all(str(facets.get(name)) == str(value) for name, value in group.items())


def _examples(
    column: Column,
    better: str,
    worse: str,
    runs: Mapping[tuple[str, str], Run],
    presentations: Mapping[str, Presentation],
) -> tuple[Example, ...]:
    """Images of a prompt of which the column calls that of one model better, the clearest first."""
    import polars as pl

    pairing = _pairing_of(column, presentations)
    pair = [runs.get((model, column.suite)) for model in (better, worse)]
    if pairing is None or pair[0] is None or pair[1] is None:
        return ()
    of_runs = [run for run in pair if run is not None]
    prompts = {p.prompt_id: p for p in of_runs[0].prompts()}
    wanted = [key for key, p in prompts.items() if _is_of(p.facets, column.group)]
    tables = [
        run.scan_verdicts()
        .filter(
            (pl.col("rule") == pairing.rule)
            & (pl.col("protocol") == column.protocol)
            & pl.col("value").is_not_null()
            & pl.col("prompt_id").is_in(wanted)
        )
        .select("image_id", "prompt_id", "value")
        .collect()
        for run in of_runs
    ]
    sign = 1.0 if column.better == "higher" else -1.0
    joined = (
        tables[0]
        .join(tables[1].select("image_id", worse="value"), on="image_id")
        .with_columns(gain=sign * (pl.col("value") - pl.col("worse")))
        .filter(pl.col("gain") >= LEAST)
        .sort(["gain", "image_id"], descending=[True, False])
        .unique(subset="prompt_id", keep="first", maintain_order=True)
        .head(EXAMPLES)
    )
    shown = [_shown(run, joined["image_id"].to_list()) for run in of_runs]
    return tuple(
        Example(
            column=column.key,
            image_id=image_id,
            text=prompts[prompt_id].text,
            better=value,
            worse=other,
            shown=(shown[0].get(image_id), shown[1].get(image_id)),
        )
        for image_id, prompt_id, value, other in joined.select("image_id", "prompt_id", "value", "worse").iter_rows()
    )


def _shown(run: Run, image_ids: Sequence[str]) -> dict[str, str | None]:
    rows = run.read("images", keys=list(image_ids)) if image_ids else None
    return (
        {} if rows is None else {row["image_id"]: image_data(run, row, PIXELS)[0] for row in rows.iter_rows(named=True)}
    )
