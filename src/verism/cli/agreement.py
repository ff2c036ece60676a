"""The command that says how far annotators agree, and judges with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from verism.terminal import SEED, PathType, put_json, without_nan

__all__ = ["agreement"]

_BETWEEN = ("percent_agreement", "within_one", "krippendorff_alpha", "fleiss_kappa")
_PAIR = ("cohen_kappa", "phi", "cohen_kappa_quadratic", "kendall_tau_b", "within_one")
_GRADED = ("kendall_tau_b", "spearman", "pearson", "auc", "within_one", "mean_difference")
_FEW = 4  # classes up to which each is listed
_SIDE_TABLES = ("accuracy", "cohen_kappa", "phi", "mcc", "auc", "kendall_tau_b", "spearman")


@click.command()
@click.argument("run_dir", type=PathType())
@click.option("--by", help="Facets of the prompts to group judges' errors by, comma-separated.")
@click.option(
    "--min-right",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Leave out raters who got a smaller share of the checks right.",
)
@click.option("--resamples", type=click.IntRange(0), default=2000, show_default=True, help="Resamples per interval.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the resampling.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def agreement(run_dir: Path, by: str | None, min_right: float, resamples: int, seed: int, as_json: bool) -> None:
    """Measure how well the annotators of a run agree, and how well its judges agree with them.

    \b
    verism agreement runs/mine
    verism agreement runs/mine --by skill --json
    verism agreement runs/bias --by profession --min-right 0.8

    Majorities (and ties), percent agreement, Krippendorff's alpha, Fleiss' and Cohen's kappa, phi, MCC, Kendall's
    tau-b and Spearman's rho per question and rater; each judge against the majority: confusion, sensitivity and
    specificity per class and group, AUC where it gives a probability. Numbers of judges beside ratings on a scale:
    tau-b, rho, r; of tones also the share within one. Pairs of images: which run annotators prefer, with a permutation
    test. Intervals resample prompts.
    """
    from verism import api

    facets = tuple(part.strip() for part in (by or "").split(",") if part.strip())
    report = api.agreement(run_dir, by=facets, min_right=min_right, n_resamples=resamples, seed=seed)
    if as_json:
        put_json(without_nan(report))
        return
    for name, task in report["tasks"].items():
        _raters(name, task["people"])
        for protocol, judge in task.get("judges", {}).items():
            _judge(protocol, judge)
        for rule, protocols in task.get("graded", {}).items():
            for protocol, judge in protocols.items():
                click.echo(
                    f"  {rule} ({protocol}) beside annotators, {judge['items']:,} items: {_values(judge, _GRADED)}"
                )
                _groups(judge, _GRADED)
        if "preference" in task:
            _preference(task["preference"])


def _raters(name: str, among: dict[str, Any]) -> None:
    click.echo(f"{name}: {among['answers']:,} answers of {among['raters']} raters on {among['items']:,} items")
    if "mean" in among:
        click.echo(f"  mean answer: {_number(among['mean'])}")
    ties = f", {among['majority']['ties']} ties" if among["majority"]["ties"] else ""
    shares = ", ".join(f"{value} {share:.0%}" for value, share in among["majority"]["shares"].items())
    click.echo(f"  majority: {shares or 'none'}{ties}")
    for measure in _BETWEEN:
        if measure in among:
            level = f" ({among[measure]['level']})" if "level" in among[measure] else ""
            click.echo(f"  {measure.replace('_', ' ')}{level}: {_number(among[measure])}")
    for rater in among["raters_alone"]:
        if rater["compared"]:
            share = f"{rater['with_majority_of_others']:.0%} with the majority of the others"
            click.echo(f"    {rater['rater']}: {rater['answers']:,} answers, {share}")
    for pair in among["pairs"]:
        click.echo(f"    {' and '.join(pair['raters'])}, {pair['items']:,} items: {_values(pair, _PAIR)}")


def _judge(protocol: str, judge: dict[str, Any]) -> None:
    click.echo(f"  judge ({protocol}) beside annotators, {judge['items']:,} items: {_values(judge, _SIDE_TABLES)}")
    for label, rates in judge["classes"].items() if len(judge["classes"]) <= _FEW else ():
        rate = f"sensitivity {_number(rates['found'])}, specificity {_number(rates['not_claimed'])}"
        click.echo(f"    {label}: {rate}")
    _groups(judge, ("accuracy",))


def _groups(judge: dict[str, Any], measures: tuple[str, ...]) -> None:
    for facet, groups in judge.get("groups", {}).items():
        for value, group in groups.items():
            click.echo(f"    {facet} {value} ({group['items']}): {_values(group, measures)}")
            classes = group.get("classes", {})
            if 0 < len(classes) <= _FEW:
                result = ", ".join(f"{label} {_number(rates['found'])}" for label, rates in classes.items())
                click.echo(f"      sensitivity: {result}")


def _preference(report: dict[str, Any]) -> None:
    first, second = report["runs"]
    shares, prompts, difference = report["shares"], report["prompts"], report["difference"]
    click.echo(
        f"  preferred: {first} {_number(shares['first'])}, {second} {_number(shares['second'])}, tie "
        f"{_number(shares['tie'])}; by prompts {prompts['first']} to {prompts['second']}, {prompts['even']} even"
    )
    p_value = difference["p_value"]
    p = "undefined" if p_value != p_value else f"{p_value:.3g}"
    click.echo(f"  {first} less {second}: {_number(difference)}, p = {p}")


def _values(report: dict[str, Any], measures: tuple[str, ...]) -> str:
    return "; ".join(f"{_title(m)} {_number(report[m])}" for m in measures if m in report)


def _title(measure: str) -> str:
    return "AUC" if measure == "auc" else measure.replace("_", " ")


def _number(interval: dict[str, Any]) -> str:
    value, low, high = (interval[k] for k in ("value", "low", "high"))
    if value != value:
        return "undefined"
    return f"{value:.2f}" if low != low else f"{value:.2f} [{low:.2f}, {high:.2f}]"
