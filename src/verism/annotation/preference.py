"""Which of two runs annotators prefer, from pairs of images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.annotation.judge_agreement import rate_with_interval
from verism.statistics.paired import paired_difference

if TYPE_CHECKING:
    import polars as pl

__all__ = ["preference_report"]

ANSWERS = ("first", "second", "tie")


def preference_report(
    runs: Sequence[str], rows: pl.DataFrame, prompt_of: Mapping[str, str], *, seed: int = 0
) -> dict[str, Any]:
    """How often annotators prefer either of two runs. All votes count alike; checks and skipped pairs do not.

    Args:
        runs: names of the first and second run.
        rows: table ``ratings`` of one task and these runs.
        prompt_of: the prompt of each item: votes on images of one prompt are alike, and intervals know it.
        seed: seed of the permutation test.

    Returns:
        ``votes`` by answer, and ``shares`` of all votes, ties among them, with intervals; ``of_decided``: the first
        run's share of the votes that are no ties; ``difference``: share of the first less that of the second, with
        ``p_value``, of a permutation test that swaps the runs prompt by prompt (ties swap to ties);
        ``prompts``: how many have more votes for the first, for the second, or as many for both.
    """
    proper = rows.filter(rows["check"].is_null() & rows["answer"].is_in(list(ANSWERS)))
    answers = proper["answer"].to_list()
    prompts = [prompt_of.get(item, item) for item in proper["item"].to_list()]
    hit = {name: np.array([answer == name for answer in answers], dtype=np.float64) for name in ANSWERS}
    clusters = np.array(prompts, dtype=str)
    decided = hit["tie"] == 0
    lead = Counter(dict.fromkeys(prompts, 0))
    for prompt, answer in zip(prompts, answers, strict=True):
        lead[prompt] += {"first": 1, "second": -1}.get(answer, 0)
    difference = paired_difference(hit["second"], hit["first"], clusters, seed=seed)
    return {
        "runs": list(runs),
        "votes": {name: int(hit[name].sum()) for name in ANSWERS},
        "shares": {name: rate_with_interval(hit[name], clusters) for name in ANSWERS},
        "of_decided": rate_with_interval(hit["first"][decided], clusters[decided]),
        "difference": {
            "value": difference.difference,
            "low": difference.low,
            "high": difference.high,
            "p_value": difference.p_value,
            "n": difference.n_pairs,
        },
        "prompts": {
            "first": sum(n > 0 for n in lead.values()),
            "second": sum(n < 0 for n in lead.values()),
            "even": sum(n == 0 for n in lead.values()),
        },
    }
