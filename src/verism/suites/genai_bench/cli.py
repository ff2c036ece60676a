"""``verism genai``: the released ratings of people, and runs held against them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import click

from verism.errors import UsageError
from verism.locations import location
from verism.records import judge_identity
from verism.suites.genai_bench.benchmark import MODELS, read_prompts, read_skills
from verism.suites.genai_bench.human import GROUPS, agreement_by_group, summary_of_ratings
from verism.terminal import Group, PathType, put_json

__all__ = ["genai"]

SKILLS_HELP = "Your copy of genai_skills.json, for numbers by skill."


@click.group(cls=Group)
def genai() -> None:
    """Read GenAI-Bench's human ratings, and compare VQAScores with them.

    \b
    verism genai ratings genai_image.json --skills genai_skills.json
    verism genai human genai_image.json --run DALLE_3=runs/dalle3 --run SDXL_Base=runs/sdxl
    """


@genai.command()
@click.argument("file", type=PathType())
@click.option("--skills", type=PathType(), help=SKILLS_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def ratings(file: Path, skills: Path | None, as_json: bool) -> None:
    """Print mean ratings per model and skill of FILE (genai_image.json), rater agreement, impossible ratings.

    \b
    verism genai ratings genai_image.json --skills genai_skills.json
    """
    read = read_prompts(file)
    if not read.ratings:
        raise UsageError(f"{file} has prompts and no ratings")
    made = summary_of_ratings(read, {} if skills is None else read_skills(skills))
    groups = [group for group in GROUPS if any((model, group) in made.means for model in read.ratings)]
    if as_json:
        put_json(
            {
                "models": {
                    model: {
                        group: {"as_released": made.means[model, group], "on_scale": made.means_on_scale[model, group]}
                        for group in groups
                        if (model, group) in made.means_on_scale
                    }
                    for model in read.ratings
                },
                "krippendorff_ordinal": made.alpha_ordinal,
                "krippendorff_interval": made.alpha_interval,
                "ratings": made.n_ratings,
                "impossible": [{"model": m, "prompt": p, "ratings": list(r)} for m, p, r in made.impossible],
            }
        )
        return
    click.echo(f"{'mean of ratings 1 to 5':<24}" + "".join(f"{group:>19}" for group in groups))
    for model in read.ratings:
        cells = "".join(f"{made.means_on_scale.get((model, group), math.nan):19.3f}" for group in groups)
        click.echo(f"{MODELS.get(model, model):<24}{cells}")
    click.echo(
        f"{made.n_ratings:,} ratings; Krippendorff's alpha {made.alpha_ordinal:.3f} (ordinal), "
        f"{made.alpha_interval:.3f} (interval)"
    )
    for model, prompt_id, given in made.impossible:
        click.echo(
            f"off the scale and left out: {model} {prompt_id}: {', '.join(f'{value:g}' for value in given)} "
            f"(with it {made.means[model, GROUPS[0]]:.4f}, without {made.means_on_scale[model, GROUPS[0]]:.4f})"
        )


@genai.command()
@click.argument("file", type=PathType())
@click.option(
    "--run",
    "runs",
    multiple=True,
    required=True,
    help="MODEL_KEY=RUN: the run that scored a model's images; repeatable.",
)
@click.option("--skills", type=PathType(), help=SKILLS_HELP)
@click.option(
    "--protocol", default="revised", show_default=True, help="Protocol of the scores: revised, paper or released."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def human(file: Path, runs: tuple[str, ...], skills: Path | None, protocol: str, as_json: bool) -> None:
    """Measure how well the scores of runs agree with the ratings in FILE (genai_image.json), over all models.

    \b
    verism genai human genai_image.json --run DALLE_3=runs/dalle3 --run SDXL_Base=runs/sdxl
    verism genai human genai_image.json --run DALLE_3=runs/dalle3 --skills genai_skills.json --json
    """
    scores: dict[tuple[str, str], float | None] = {}
    asked: dict[str, tuple[Any, ...]] = {}
    for each in runs:
        key, sign, path = each.partition("=")
        if not sign or not path:
            raise UsageError(f"--run {each}: expected MODEL_KEY=RUN, such as DALLE_3=runs/dalle3")
        if key in asked:
            raise UsageError(f"--run {each}: a second run of {key}")
        asked[key] = _scores_of(location(path), key, protocol, scores)
    first, *others = asked
    for other in others:
        if asked[other] != asked[first]:
            raise UsageError(f"the runs of {first} and {other} asked or judged otherwise: {_difference(asked, other)}")
    read = read_prompts(file)
    found = agreement_by_group(
        scores, read, {} if skills is None else read_skills(skills), all_as_they_are=protocol != "revised"
    )
    if as_json:
        put_json(
            {
                group: {
                    "images": made.n_images,
                    "unusable": made.n_unusable,
                    "pairwise_threshold": made.pairwise.threshold,
                    "pairwise_held_out": _number(made.pairwise.cross_fitted),
                    "tied_pairs": made.pairwise.n_tied / made.pairwise.n_pairs if made.pairwise.n_pairs else None,
                    **{
                        name: {k: _number(v) for k, v in zip(("value", "low", "high"), ends)}
                        for name, ends in (
                            ("pairwise", made.pairwise[:3]),
                            ("pearson", made.pearson),
                            ("kendall_tau_b", made.kendall),
                        )
                    },
                }
                for group, made in found.items()
            }
        )
        return
    click.echo(
        f"{'group':<18} {'pairs as people':>24} {'held out':>9} {'ties':>7} {'Pearson':>8} {'Kendall':>8}  images"
    )
    for group, made in found.items():
        pairs = made.pairwise
        ends = f"{pairs.value:.1%} [{pairs.low:.1%}, {pairs.high:.1%}]"
        tied = pairs.n_tied / pairs.n_pairs if pairs.n_pairs else math.nan
        unusable = f" ({made.n_unusable:,} without)" if made.n_unusable else ""
        click.echo(
            f"{group:<18} {ends:>24} {pairs.cross_fitted:9.1%} {tied:7.1%} {made.pearson[0]:8.4f} "
            f"{made.kendall[0]:8.4f}  {made.n_images:,}{unusable}"
        )
    click.echo(
        f"a constant score orders as many pairs as people tie; threshold of ties {found['all'].pairwise.threshold:.4g}"
    )


def _scores_of(path: Path, model: str, protocol: str, scores: dict[tuple[str, str], float | None]) -> tuple[Any, ...]:
    """Put the scores of a run's first images by prompt into ``scores``; what runs must have in common."""
    import polars as pl

    from verism.store import Run

    run = Run.open(path)
    if run.suite_name != "genai_bench":
        raise UsageError(f"{path} is a run of {run.suite_name}, not of genai_bench")
    rows = run.verdicts().filter((pl.col("protocol") == protocol) & (pl.col("rule") == "questions"))
    if rows.is_empty():
        raise UsageError(f"{path} has no scores under {protocol!r:.80}; protocols are revised, paper and released")
    first = dict(run.read("images").filter(pl.col("index") == 0).select("image_id", "prompt_id").iter_rows())
    for image_id, value in rows.select("image_id", "value").iter_rows():
        if image_id in first:
            scores[model, first[image_id]] = value
    settings = run.manifest.settings.suite_settings
    # Files of answers differ from model to model; where it is not declared, who made them is not known.
    judge = judge_identity(run.manifest.settings.judges.get("vqa", ""))
    return (settings.get("wording"), settings.get("judge_returns"), re.sub("^results:.*", "results", judge))


def _difference(asked: dict[str, tuple[Any, ...]], other: str) -> str:
    one = next(iter(asked.values()))
    names = ("wording", "what the judge returns", "judge")
    return "; ".join(f"{n}: {a} and {b}" for n, a, b in zip(names, one, asked[other], strict=True) if a != b)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
