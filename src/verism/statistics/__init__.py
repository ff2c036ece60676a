"""Intervals, paired tests and corrections for judge error: arrays in, numbers out.

Prompts are the sampling unit. Images of one prompt are alike, so every function that is given images also takes
the prompt of each (``clusters``) and lets the interval grow accordingly. Only numpy is loaded on import.

NaN is never an input: answers that are null are removed and counted by the caller. NaN is an output where a number is
undefined.
"""

from verism.statistics.agreement import Agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha
from verism.statistics.association import (
    Majority,
    auc,
    kendall_tau_b,
    majority,
    mcc,
    pearson,
    percent_agreement,
    phi,
    spearman,
)
from verism.statistics.bradley_terry import BradleyTerry, bradley_terry
from verism.statistics.intervals import (
    Interval,
    cluster_bootstrap,
    cluster_bootstrap_mean,
    clustered_mean,
    clustered_proportion,
    mean_of_independent,
    wilson,
)
from verism.statistics.judge_error import AdjustedRate, Confusion, calibration_error, confusion, rogan_gladen
from verism.statistics.misclassification import AdjustedShares, AdjustedValue, adjusted_mean, adjusted_shares
from verism.statistics.non_inferiority import NonInferiority, independent_non_inferiority, non_inferiority
from verism.statistics.paired import PairedDifference, holm, paired_difference
from verism.statistics.pairwise import PairwiseAccuracy, pairwise_accuracy
from verism.statistics.power import (
    Spread,
    drop_seen,
    power_of_drop,
    prompts_needed,
    spread_of_pairs,
    spread_of_run,
)
from verism.statistics.prediction_powered import AdjustedNumber, LabelledMean, labels_needed, ppi_mean, ppi_sum
from verism.statistics.rank_agreement import RankAgreement, kendall_over_models, rank_agreement, spearman_over_models

__all__ = [
    "AdjustedNumber",
    "AdjustedRate",
    "AdjustedShares",
    "AdjustedValue",
    "Agreement",
    "BradleyTerry",
    "Confusion",
    "Interval",
    "LabelledMean",
    "Majority",
    "NonInferiority",
    "PairedDifference",
    "PairwiseAccuracy",
    "RankAgreement",
    "Spread",
    "adjusted_mean",
    "adjusted_shares",
    "auc",
    "bradley_terry",
    "calibration_error",
    "cluster_bootstrap",
    "cluster_bootstrap_mean",
    "clustered_mean",
    "clustered_proportion",
    "cohen_kappa",
    "confusion",
    "drop_seen",
    "fleiss_kappa",
    "holm",
    "independent_non_inferiority",
    "kendall_over_models",
    "kendall_tau_b",
    "krippendorff_alpha",
    "labels_needed",
    "majority",
    "mcc",
    "mean_of_independent",
    "non_inferiority",
    "paired_difference",
    "pairwise_accuracy",
    "pearson",
    "percent_agreement",
    "phi",
    "power_of_drop",
    "ppi_mean",
    "ppi_sum",
    "prompts_needed",
    "rank_agreement",
    "rogan_gladen",
    "spearman",
    "spearman_over_models",
    "spread_of_pairs",
    "spread_of_run",
    "wilson",
]
