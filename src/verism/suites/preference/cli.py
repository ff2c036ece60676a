"""``verism preference``: runs beside each other, and scores beside people's choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from verism.errors import UsageError
from verism.files import write_csv
from verism.locations import is_file, location
from verism.suites.preference.choices import (
    RankedItem,
    agreement_by_rule,
    best_gap,
    counts_of,
    match_names,
    read_choices,
)
from verism.suites.preference.comparison import ComparedModel, comparison, models_of
from verism.suites.preference.metrics import scorer_title
from verism.terminal import SEED, Group, PathType, Services, put_json, without_nan

if TYPE_CHECKING:
    import polars as pl

__all__ = ["preference"]

WIDTH = 24


@click.group(cls=Group)
def preference() -> None:
    """Compare models by preference scores, and scores with human choices.

    \b
    verism preference compare runs/a runs/b runs/c
    verism preference choices test.json --images-in test_images --out D
    verism preference human test.json --run W
    verism preference people runs/a runs/b
    """


@preference.command()
@click.argument("runs", nargs=-1, required=True, type=PathType())
@click.option("--margin", type=click.FloatRange(0), default=0.0, help="Largest difference of scores that is a tie.")
@click.option(
    "--when-missing",
    type=click.Choice(["left_out", "loses"]),
    default="left_out",
    show_default=True,
    help="How to count a missing image where the other model has one.",
)
@click.option(
    "--prior", type=click.FloatRange(0), default=1.0, show_default=True, help="Ties added to every pair of models."
)
@click.option("--resamples", type=click.IntRange(0), default=2000, show_default=True, help="Resamples per interval.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the resampling.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def compare(
    runs: tuple[Path, ...], margin: float, when_missing: Any, prior: float, resamples: int, seed: int, as_json: bool
) -> None:
    """Compare the models of finished RUNS: mean scores, pairwise wins, Bradley-Terry strengths.

    \b
    verism preference compare runs/a runs/b runs/c
    verism preference compare W --json

    All runs must have asked the same prompts of the same scorer. A run of two sets holds two models. Intervals resample
    prompts, or rest on the spread between them.
    """
    made = comparison(
        models_of(runs), margin=margin, when_missing=when_missing, prior=prior, n_resamples=resamples, seed=seed
    )
    if as_json:
        put_json(without_nan(made))
        return
    models, pairs = made["models"], made["pairs"]
    click.echo(
        f"{scorer_title(made['scorer'])} by {made['scorer']}; {made['prompts']:,} prompts, in "
        f"{made['prompts_with_all_models']:,} of them every model has a score"
    )
    click.echo(f"{'model':<{WIDTH}} {'mean score':>26} {'strength (log odds)':>26}  images, missing, without score")
    for model in sorted(models, key=lambda m: -m["strength"]["value"] if not math.isnan(m["strength"]["value"]) else 0):
        click.echo(
            f"{model['name']:<{WIDTH}} {_ends(model['mean'], '.4g'):>26} {_ends(model['strength'], '+.3f'):>26}  "
            f"{model['images']:,}, {model['images_missing']:,}, {model['images_without_score']:,}"
        )
    click.echo(f"{'first over second':<{2 * WIDTH + 1}} {'win rate':>24} {'ties':>7}  prompts compared, not compared")
    for pair in pairs:
        click.echo(
            f"{pair['first']:<{WIDTH}} {pair['second']:<{WIDTH}} {_ends(pair['win_rate'], '.1%'):>24} "
            f"{pair['tie_rate']['value']:7.1%}  {pair['prompts']:,}, {pair['prompts_not_compared']:,}"
        )
    if not made["strengths_bounded"]:
        click.echo(
            "strengths: some models win, or lose, every comparison, or were never compared: the wins alone do not "
            "bound their strengths, which rest on the ties added (--prior); there are no intervals"
        )


@preference.command()
@click.argument("file", type=PathType())
@click.option("--images-in", type=PathType(), help="Folder of the images that FILE names.")
@click.option("--out", type=PathType(), help="Folder for prompts.csv and images.csv, to be scored by a run.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def choices(file: Path, images_in: Path | None, out: Path | None, as_json: bool) -> None:
    """Count human choices in FILE, and list its prompts and images for a run that scores them.

    \b
    verism preference choices test.json
    verism preference choices test.json --images-in test_images --out D
    verism run preference --prompts D/prompts.csv --images D/images.csv --scorer imagereward:FILE --out W

    FILE is ImageReward's test.json, HPDv2's test.json, Pick-a-Pic as a table, or a table with prompt, image_a, image_b
    and preferred (a, b or tie).
    """
    items = read_choices(file)
    counts = counts_of(items)
    if (images_in is None) != (out is None):
        raise UsageError("--images-in and --out go together: where the images lie, and where their list shall lie")
    if images_in is not None and out is not None:
        counts |= _lists(items, images_in, out)
    if as_json:
        put_json(counts)
        return
    click.echo(", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in counts.items()))


def _lists(items: Sequence[RankedItem], folder: Path, out: Path) -> dict[str, int]:
    """Write the lists for a run, each image once under each of its prompts; how many files are not there."""
    texts: dict[str, str] = {}
    images: dict[str, dict[str, None]] = {}
    for item in items:
        if not item.text:
            raise UsageError(f"the choices name prompt {item.prompt!r:.80} and not its text, which a scorer must read")
        if texts.setdefault(item.prompt, item.text) != item.text:
            raise UsageError(f"prompt {item.prompt!r:.80} has two texts: {texts[item.prompt]!r:.80}, {item.text!r:.80}")
        images.setdefault(item.prompt, {}).update(dict.fromkeys(item.images))
    ids = {prompt: f"{number:05d}" for number, prompt in enumerate(texts)}
    rows = [
        {"file_path": str((folder / name).absolute()), "prompt_id": ids[prompt], "index": index}
        for prompt, names in images.items()
        for index, name in enumerate(names)
    ]
    write_csv(out / "prompts.csv", ["prompt_id", "prompt"], [[ids[prompt], text] for prompt, text in texts.items()])
    write_csv(out / "images.csv", list(rows[0]), [list(row.values()) for row in rows])
    return {"files_missing": sum(not is_file(location(str(row["file_path"]))) for row in rows)}


@preference.command()
@click.argument("file", type=PathType())
@click.option("--run", "runs", multiple=True, type=PathType(), help="Run that scored the images; repeatable.")
@click.option("--scores", type=PathType(), help="Table of image and score, in place of runs.")
@click.option("--validation", type=PathType(), help="File of choices to tune the threshold of Pick-a-Pic's rule on.")
@click.option("--gap", type=click.FloatRange(0, 1), help="Threshold of that rule, in place of --validation.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the random halves of the prompts.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def human(
    services: Services,
    file: Path,
    runs: tuple[Path, ...],
    scores: Path | None,
    validation: Path | None,
    gap: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure how well scores agree with human choices in FILE, by each published rule and by ours.

    \b
    verism preference human test.json --run W
    verism preference human test_unique.jsonl --scores scores.csv --validation validation_unique.jsonl
    """
    if bool(runs) == (scores is not None):
        raise UsageError("say whose scores: --run RUN (one or more), or --scores FILE")
    if validation is not None and gap is not None:
        raise UsageError("give either --validation or --gap")
    items = read_choices(file)
    tuning = [] if validation is None else read_choices(validation)
    names = list(dict.fromkeys(name for item in (*items, *tuning) for name in item.images))
    scorer, found = _scores_of_file(services, scores, names) if scores is not None else _scores_of_runs(runs, names)
    chosen = best_gap(tuning, found) if tuning else gap
    _tell(_report(items, found, scorer, chosen, seed), as_json=as_json)


@preference.command()
@click.argument("runs", nargs=2, type=PathType())
@click.option("--task", default="preference", show_default=True, help="Name of the question about pairs.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the random halves of the prompts.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def people(services: Services, runs: tuple[Path, Path], task: str, seed: int, as_json: bool) -> None:
    """Measure how well the scores of two RUNS agree with annotators' choices (verism annotate RUN RUN).

    \b
    verism annotate runs/a runs/b --task preference
    verism preference people runs/a runs/b

    Every vote is a choice; checks and skipped pairs are none.
    """
    models = models_of(runs)
    if len(models) != 2:
        raise UsageError("annotators' pairs are of two runs with one set of images each")
    comparison(models, n_resamples=0)  # refuses other prompts and other scorers
    from verism.store import Run

    votes = services.votes_on_pairs(Run.open(runs[0]))
    by_name = {Path(path).name: model for path, model in zip(runs, models, strict=True)}
    items: list[RankedItem] = []
    for (first, second), table in votes.items():
        if {first, second} == set(by_name):
            items += _voted(table.filter(table["task"] == task), by_name[first], by_name[second])
    if not items:
        raise UsageError(
            f"no annotator compared images of {runs[0]} and {runs[1]} under the question {task!r}: "
            f"verism annotate {runs[0]} {runs[1]} --task {task}"
        )
    known = {
        f"{model.name}:{image_id}": image.known
        for model in models
        for image_id, image in zip(model.order, model.images, strict=True)
    }
    _tell(_report(items, known, models[0].scorer, None, seed), as_json=as_json)


def _voted(table: pl.DataFrame, first: ComparedModel, second: ComparedModel) -> list[RankedItem]:
    """Votes of annotators as choices between images of two models."""
    ranks = {"first": (0.0, 1.0), "second": (1.0, 0.0), "tie": (0.0, 0.0)}
    base = {image_id: image.base for image_id, image in zip(first.order, first.images, strict=True)}
    items = []
    for row in table.iter_rows(named=True):
        one, bar, other = row["item"].partition("|")
        if row["check"] is None and row["answer"] in ranks and bar:
            names = (f"{first.name}:{one}", f"{second.name}:{other}")
            items.append(RankedItem(prompt=base.get(one, one), text="", images=names, ranks=ranks[row["answer"]]))
    return items


def _report(
    items: Sequence[RankedItem], found: Mapping[str, float | None], scorer: str, gap: float | None, seed: int
) -> dict[str, Any]:
    counts = counts_of(items)
    made, missing = agreement_by_rule(items, found, gap=gap, seed=seed)
    if missing == counts["pairs"]:
        raise UsageError(f"none of the {missing:,} pairs has two scores; images are found by the names of their files")
    return {
        "scorer": scorer,
        **counts,
        "pairs_without_scores": missing,
        "rules": {
            each.rule: {
                "value": each.accuracy.value,
                "low": each.accuracy.low,
                "high": each.accuracy.high,
                "n": each.n,
                "left_out": each.n_left_out,
                "threshold": each.threshold,
            }
            for each in made
        },
    }


def _tell(report: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        put_json(without_nan(dict(report)))
        return
    click.echo(
        f"{scorer_title(report['scorer']) or 'scores'}: {report['pairs']:,} pairs in {report['items']:,} items, "
        f"{report['tied']:,} tied by people; {report['pairs_without_scores']:,} without two scores"
    )
    click.echo(f"{'rule':<14} {'agreement':>24}  counted, left out, threshold of ties")
    for rule, row in report["rules"].items():
        threshold = "" if row["threshold"] is None else f", {row['threshold']:.4g}"
        click.echo(f"{rule:<14} {_ends(row, '.1%'):>24}  {row['n']:,}, {row['left_out']:,}{threshold}")


def _ends(value: Mapping[str, Any], form: str) -> str:
    if math.isnan(value["low"]):
        return format(value["value"], form)
    return f"{value['value']:{form}} [{value['low']:{form}}, {value['high']:{form}}]"


def _scores_of_file(services: Services, path: Path, names: Sequence[str]) -> tuple[str, dict[str, float | None]]:
    judge = services.make_judge(f"results:{path}", "scorer")
    return judge.name, _found(names, judge.scores, judge.scores.get)


def _scores_of_runs(paths: Sequence[Path], names: Sequence[str]) -> tuple[str, dict[str, float | None]]:
    """Scores by the names that a file has for images, which runs know by the paths of their files."""
    from verism.store import Run

    models = models_of(paths)
    given: dict[str, float | None] = {}
    for model in models:
        if model.scorer != models[0].scorer:
            raise UsageError(f"the runs were scored by {models[0].scorer} and by {model.scorer}: two scales")
        rows = Run.open(model.run).read("images", columns=["image_id", "path"]).iter_rows()
        where = {image_id: path for image_id, path in rows if path is not None}
        for image_id, image in zip(model.order, model.images, strict=True):
            if image_id in where:
                given[PurePosixPath(where[image_id]).as_posix()] = image.known
    return models[0].scorer, _found(names, given, given.get)


def _found(
    names: Sequence[str], given: Mapping[str, Any], score: Callable[[str], float | None]
) -> dict[str, float | None]:
    of_name = match_names(names, given)
    return {name: score(of_name[name]) if name in of_name else None for name in names}
