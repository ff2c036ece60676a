"""The command that says how far people agree, and judges with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from verism.cli.common import put_json, without_nan

__all__ = ["agreement"]

_BETWEEN = ("percent_agreement", "krippendorff_alpha", "fleiss_kappa")
_BESIDE = ("accuracy", "cohen_kappa", "phi", "mcc", "auc", "kendall_tau_b", "spearman")


@click.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--by", help="Facets by which judges are looked at group by group, with commas: skill, profession ...")
@click.option("--min-right", type=click.FloatRange(0, 1), default=0.0, help="Leave out raters with fewer checks right.")
@click.option("--resamples", type=click.IntRange(0), default=2000, show_default=True, help="Behind each interval.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the resampling.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def agreement(run_dir: Path, by: str | None, min_right: float, resamples: int, seed: int, as_json: bool) -> None:
    """How far the people who judged a run's pictures agree, and how far its judges agree with them.

    \b
    verism agreement runs/mine
    verism agreement runs/mine --by skill --json
    verism agreement runs/bias --by profession --min-right 0.8

    Majorities (and ties), percent agreement, Krippendorff's alpha, Fleiss' and Cohen's kappa, phi, MCC, Kendall's
    tau-b and Spearman's rho per question and rater; each judge against the majority: confusion, sensitivity and
    specificity per class and group, AUC where it tells a probability. Intervals resample prompts.
    """
    from verism import api

    facets = tuple(part.strip() for part in (by or "").split(",") if part.strip())
    found = api.agreement(run_dir, by=facets, min_right=min_right, n_resamples=resamples, seed=seed)
    if as_json:
        put_json(without_nan(found))
        return
    for name, task in found["tasks"].items():
        people = task["people"]
        click.echo(f"{name}: {people['answers']:,} answers of {people['raters']} raters on {people['items']:,} items")
        ties = f", {people['majority']['ties']} ties" if people["majority"]["ties"] else ""
        shares = ", ".join(f"{value} {share:.0%}" for value, share in people["majority"]["shares"].items())
        click.echo(f"  majority: {shares or 'none'}{ties}")
        for measure in _BETWEEN:
            if measure in people:
                click.echo(f"  {measure.replace('_', ' ')}: {_number(people[measure])}")
        for rater in people["raters_alone"]:
            if rater["compared"]:
                share = f"{rater['with_majority_of_others']:.0%} with the majority of the others"
                click.echo(f"    {rater['rater']}: {rater['answers']:,} answers, {share}")
        for protocol, judge in task.get("judges", {}).items():
            told = "; ".join(f"{m.replace('_', ' ')} {_number(judge[m])}" for m in _BESIDE if m in judge)
            click.echo(f"  judge ({protocol}) beside people, {judge['items']:,} items: {told}")
            for label, rates in judge["classes"].items():
                click.echo(f"    {label}: found {_number(rates['found'])}, not claimed {_number(rates['not_claimed'])}")
            for facet, groups in judge.get("groups", {}).items():
                for value, group in groups.items():
                    click.echo(f"    {facet} {value} ({group['items']}): accuracy {_number(group['accuracy'])}")


def _number(found: dict[str, Any]) -> str:
    value, low, high = (found[k] for k in ("value", "low", "high"))
    if value != value:
        return "undefined"
    return f"{value:.2f}" if low != low else f"{value:.2f} [{low:.2f}, {high:.2f}]"
