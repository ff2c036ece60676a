"""Which columns of a board rank its models alike, which models they order differently, and images that show it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.report_kit.gallery import image_data
from verism.statistics.association import spearman
from verism.statistics.intervals import Interval
from verism.statistics.rank_agreement import RankAgreement, kendall_over_models, rank_agreement

if TYPE_CHECKING:
    from verism.plans.board import Board, Column
    from verism.specs import Presentation
    from verism.store import Run

__all__ = ["ColumnAgreement", "Example", "Opposite", "column_agreements"]

FEWEST_MODELS = 3  # two models are ranked alike or not, and that says nothing of a suite
EXAMPLES = 3  # images of a column for each pair of models
MOST_PAIRS = 8  # pairs of models with images, over all columns
PIXELS = 160  # longer side of an image on the page
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
class ColumnAgreement:
    """How alike two columns of different suites rank the models that both have.

    Attributes:
        first: key of a column.
        second: key of the other.
        models: names of the models ranked by both.
        rank: Kendall's tau for these models, with what the tests leave open.
        spearman: Spearman's rank correlation of the values.
        in_general: Kendall's tau with an interval for models in general.
        opposite: models that both order significantly, and differently.
    """

    first: str
    second: str
    models: tuple[str, ...]
    rank: RankAgreement
    spearman: float
    in_general: Interval
    opposite: tuple[Opposite, ...] = ()

    def record(self) -> dict[str, Any]:
        """As JSON; images are left out."""
        return {
            "first": self.first,
            "second": self.second,
            "models": list(self.models),
            "rank": self.rank._asdict(),
            "spearman": self.spearman,
            "in_general": self.in_general._asdict(),
            "opposite": [
                {
                    "first": pair.first,
                    "second": pair.second,
                    "examples": [{k: v for k, v in asdict(e).items() if k != "shown"} for e in pair.examples],
                }
                for pair in self.opposite
            ],
        }


def column_agreements(
    board: Board, runs: Mapping[tuple[str, str], Run], presentations: Mapping[str, Presentation], *, alpha: float
) -> tuple[ColumnAgreement, ...]:
    """Every two columns of different suites that rank three models or more.

    Args:
        board: whose columns have ranks.
        runs: by model and suite, for images.
        presentations: by suite.
        alpha: chance that any interval for these models does not hold.
    """
    found = []
    left = MOST_PAIRS
    for first, second in itertools.combinations(board.columns, 2):
        if first.suite == second.suite:
            continue
        models = [model for model in first.ranked if model in second.ranked]
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
        found.append(
            ColumnAgreement(
                first=first.key,
                second=second.key,
                models=tuple(models),
                rank=rank_agreement(*values, *wins),
                spearman=spearman(*values, n_resamples=0).value,
                in_general=kendall_over_models(*values),
                opposite=tuple(opposite),
            )
        )
    return tuple(found)


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


def _examples(
    column: Column,
    better: str,
    worse: str,
    runs: Mapping[tuple[str, str], Run],
    presentations: Mapping[str, Presentation],
) -> tuple[Example, ...]:
    """Images of a prompt of which the column calls that of one model better, the clearest first."""
    import polars as pl

    pairing = next((p for p in presentations[column.suite].pairings if column.metric in (p.metric, p.mean)), None)
    pair = [runs.get((model, column.suite)) for model in (better, worse)]
    if pairing is None or pair[0] is None or pair[1] is None:
        return ()
    of_runs = [run for run in pair if run is not None]
    prompts = {p.prompt_id: p for p in of_runs[0].prompts()}
    wanted = [key for key, p in prompts.items() if all(str(p.facets.get(k)) == str(v) for k, v in column.group.items())]
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
