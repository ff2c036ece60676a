"""Intervals, paired tests and corrections for judge error: arrays in, numbers out.

Prompts are the sampling unit. Pictures of one prompt are alike, so every function that is given pictures also takes
the prompt of each (``clusters``) and lets the interval grow accordingly. Only numpy is loaded on import.

NaN is never an input: answers that are null are removed and counted by the caller. NaN is an output where a number is
undefined.
"""

from verism.statistics.intervals import (
    Interval,
    cluster_bootstrap,
    cluster_bootstrap_mean,
    clustered_proportion,
    mean_of_independent,
    wilson,
)
from verism.statistics.judge_error import Confusion, CorrectedRate, confusion, rogan_gladen
from verism.statistics.paired import PairedDifference, holm, paired_difference

__all__ = [
    "Confusion",
    "CorrectedRate",
    "Interval",
    "PairedDifference",
    "cluster_bootstrap",
    "cluster_bootstrap_mean",
    "clustered_proportion",
    "confusion",
    "holm",
    "mean_of_independent",
    "paired_difference",
    "rogan_gladen",
    "wilson",
]
