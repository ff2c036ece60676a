"""The command line: connects the parts, holds no arithmetic.

Results go to standard output, progress and messages to standard error. Exit code 0: done; 1: finished, with failures
that are listed; 2: wrong usage.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verism._version import __version__
from verism.characters import visible
from verism.cli.agreement import agreement
from verism.cli.annotate import annotate
from verism.cli.auto import auto
from verism.cli.board import board
from verism.cli.common import (
    RAW_HELP,
    executor_options,
    given,
    in_section,
    judge_options,
    opened_trackers,
    parse_rules,
    put_scores,
    say_remarks,
    tracking_options,
    with_executor,
    with_options,
)
from verism.cli.completion import RunPath, complete_kinds, completion
from verism.cli.config import config
from verism.cli.data import data
from verism.cli.demo import demo
from verism.cli.export import export
from verism.cli.faults import explain
from verism.cli.gate import gate
from verism.cli.judge import judge
from verism.cli.metrics import metrics
from verism.cli.plan import plan
from verism.cli.portraits import portraits
from verism.cli.questions import questions
from verism.cli.reproduce import reproduce
from verism.cli.root import Root, configure, root_options
from verism.cli.suite_commands import SuiteCommands, SuiteGroup
from verism.cli.train import train
from verism.cli.view import view
from verism.cli.wardrobe import people
from verism.errors import UsageError
from verism.files import csv_text
from verism.manifest import STORAGES
from verism.records import option_of
from verism.suites.base import Suite
from verism.suites.catalogue import make_suite, presentation_of, stored_suite
from verism.systems import quoted, write_text_of_any_language
from verism.terminal import SEED, WORKERS, Failures, PathType, Services, is_verbose, put_json, say, terminal_encoding

if TYPE_CHECKING:
    import polars as pl

    from verism.api import Plan
    from verism.store import Run

__all__ = ["cli", "main"]

# Options that change how a run is made and not what it is.
NOT_OF_THE_RUN = (
    "retry",
    "executor",
    "actors",
    "actor_cpus",
    "actor_gpus",
    "share",
    "shard",
    "threads",
    "device",
    "cache",
)
MESSAGE = 4000  # characters of an error that are shown: it may quote a file


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@with_options(root_options())
@click.version_option(__version__, prog_name="verism")
@click.pass_context
def cli(context: click.Context, quiet: bool, verbose: bool, log_file: Path | None, no_color: bool) -> None:
    """Evaluate text-to-image models: are their images true to the prompt, and fair to the world?

    \b
    Try it:               verism demo --out demo_run
    Your own images:      verism run auto --images list.csv --clip ViT-B/32
    A model:              verism run paintskills --model diffusers:ID
    Print the prompts:    verism prompts paintskills

    -q, -v, --log-file and --no-color also work after a command. Defaults of options: verism config --help.
    """
    configure(quiet, verbose, log_file, no_color)
    context.ensure_object(_Services)


# ---------------------------------------------------------------------------------------------------- run and prompts
def _making_parameters(*, images: bool) -> list[click.Parameter]:
    """Options of what makes a run's images.

    Args:
        images: whether they may exist already.
    """
    path = PathType()
    there = [
        click.Option(
            ["--images"],
            type=path,
            help="Existing images instead of a model: a folder, a table (.csv, .jsonl) or a run directory.",
        ),
    ]
    return [
        click.Option(
            ["--model"],
            help="Generator: builtin, diffusers:ID, openai:MODEL ... See: verism list models",
            shell_complete=complete_kinds(None),
        ),
        *(there if images else ()),
        click.Option(
            ["--shuffle"],
            is_flag=True,
            help="Shuffle images across prompts to measure chance; a prompt may get its own.",
        ),
        click.Option(
            ["--size"], type=int, default=256, show_default=True, help="Width and height of rendered images, in pixels."
        ),
        click.Option(["--assets"], type=path, help="Folder with your own 3D models and environments."),
        click.Option(["--processes"], type=WORKERS, help="Parallel renderers.  [default: one per core]"),
        click.Option(["--base-url"], help="URL of an OpenAI-compatible service, for openai:NAME as model or judge."),
        click.Option(
            ["--retry"],
            is_flag=True,
            help="Try again images that are missing, failed or refused, and answers that failed.",
        ),
    ]


def _output_parameters() -> list[click.Parameter]:
    """Options of where a run goes."""
    return [
        click.Option(["--out"], type=PathType(), help="Run directory; an existing one is resumed, or grows."),
        click.Option(
            ["--images-as"],
            type=click.Choice(STORAGES),
            help="Store each generated image in a file, or many in a tar file.  [default: files]",
        ),
    ]


def _run_parameters(suite: type[Suite]) -> list[click.Parameter]:
    """Options of ``verism run`` that all suites share."""
    thresholds = [
        click.Option(
            ["--threshold"],
            type=click.FloatRange(0, 1),
            help="Confidence threshold of the rules.  [default: the detector's own]",
            hidden=not any(rule.calibrated_by for rule in suite.rules),
        ),
        click.Option(["--rule", "rules"], multiple=True, help="Set a rule of the suite, NAME=VALUE; repeatable."),
    ]
    output = [
        *_output_parameters(),
        click.Option(
            ["--dry-run"],
            is_flag=True,
            help="Check everything, print the plan (prompts, images, cost, progress) and exit.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the scores as JSON."),
    ]
    return [
        *in_section(f"Rules of {suite.info.name}", thresholds),
        *judge_options(suite.judge_roles),
        *in_section("Run", _making_parameters(images=True)),
        *executor_options(),
        *tracking_options(),
        *in_section("Output", output),
    ]


def _run(
    suite: str,
    out: Path | None,
    processes: int | None,
    rules: tuple[str, ...],
    track: tuple[str, ...],
    step: int | None,
    checkpoint: str | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    import os

    from verism import api

    asked = {"rules": parse_rules(rules), "processes": processes or os.cpu_count() or 1, **given(options)}
    if dry_run:
        with opened_trackers(track):  # refused now if it would be refused then
            _dry_run(api.plan(suite, out=out, **asked), as_json)
        return
    if out is None:
        out = _usual_place(suite, options, rules)
        say(f"run directory: {quoted(out)}")
    failures = Failures()
    with opened_trackers(track) as trackers:
        asked |= {"on_failure": failures, "on_matched": say, "on_summary": say}
        asked |= {"on_scores": trackers, "step": step, "checkpoint": checkpoint or ""}
        finished = api.evaluate(suite, out=out, **with_executor(asked))
    if finished.unfinished:  # by other processes, as was said
        sys.exit(failures.report())
    put_scores(finished, as_json)
    say(f"run: {out}\nreport: verism report {quoted(out)}")
    sys.exit(failures.report())


def _usual_place(suite: str, options: Mapping[str, Any], rules: tuple[str, ...]) -> Path:
    """The directory of a run where none is named: the same for the same command, which then resumes.

    Args:
        suite: its name.
        options: as the command got them.
        rules: given on the command line.
    """
    import hashlib

    from verism.store import slug

    own = {name: str(value) for name, value in sorted(given(dict(options)).items()) if name not in NOT_OF_THE_RUN}
    digest = hashlib.sha256(json.dumps([own, rules]).encode()).hexdigest()[:6]
    source = str(options.get("model") or options.get("images") or "run")
    return Path("runs") / slug(f"{suite}-{re.sub('[^A-Za-z0-9.]+', '-', source).strip('-')[:40]}-{digest}")


def _dry_run(planned: Plan, as_json: bool) -> None:
    if as_json:
        put_json(planned.record())
        return
    click.echo(f"{planned.images:,} images for {planned.prompts:,} prompts of {planned.suite}")
    for group, n in planned.images_by_group.items():
        click.echo(f"  {group:<10} {n:>7,}")
    click.echo(f"done already: {planned.images_done:,}")
    if planned.images_before != planned.images:
        click.echo(f"the run grows from {planned.images_before:,} to {planned.images:,} images")
    for role, name in planned.judges.items():
        images = planned.judgements.get(role)
        click.echo(f"{option_of(role)}: {name}" + ("" if images is None else f", {images:,} images to observe"))
    if planned.not_measured:
        click.echo(f"not measured (no judge given): {', '.join(map(option_of, planned.not_measured))}")
    for line in planned.estimate:
        click.echo(line)
    for text in planned.examples:
        click.echo(f"  e.g. {text!r}")


cli.add_command(
    SuiteCommands(
        "run",
        _run,
        _run_parameters,
        about="Evaluate a model, or images you have, on a suite. Resumes where it stopped.",
        examples="""verism run paintskills --images my_images --out runs/mine
verism run paintskills --images list.csv --skill count --out runs/count
verism run paintskills --model builtin --limit 24 --seed 5 --out runs/builtin
verism run paintskills --model "diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5?steps=50" --out runs/sd15
verism run paintskills --model openai:gpt-image-1 --limit 60 --dry-run
verism run geography --reference geode.csv --images mine.csv --features inception:inception.pth --out runs/geo
verism run paintskills --model diffusers:ckpt/2000 --out runs/2000 --track mlflow:tracking --step 2000
verism run quality --images my_images --reference real_images --features builtin --out runs/quality
verism run alignment --annotations captions_val2014.json --model diffusers:ID --clip ViT-B/32 --out runs/align
verism run social_bias --images DIR --vqa Salesforce/blip2-flan-t5-xl --out runs/bias
verism run auto --images images.csv --clip ViT-B/32""",
        beside={"auto": auto},
    )
)


def _generate_parameters(suite: type[Suite]) -> list[click.Parameter]:  # noqa: ARG001
    """Options of ``verism generate`` that all suites share."""
    as_json = click.Option(["--json", "as_json"], is_flag=True, help="Print what was generated as JSON.")
    shared = [
        click.Option(["--threads"], type=WORKERS, help="CPU threads of the model."),
        click.Option(["--device"], help="Device of hub models: cpu, cuda, cuda:1 ..."),
    ]
    return [
        *in_section("Run", [*_making_parameters(images=False), *shared]),
        *executor_options(),
        *in_section("Output", [*_output_parameters(), as_json]),
    ]


def _generate(suite: str, out: Path | None, processes: int | None, as_json: bool, **options: Any) -> None:
    import os

    from verism import api

    if options.get("model") is None:
        raise UsageError("--model is missing: which generator makes the images? See: verism list models")
    if out is None:
        out = _usual_place(suite, options, ())
        say(f"run directory: {quoted(out)}")
    failures = Failures()
    asked = {"processes": processes or os.cpu_count() or 1, **given(options), "on_failure": failures, "on_summary": say}
    made = api.generate(suite, out=out, **with_executor(asked))
    states = dict(made.image_summary().states)
    if as_json:
        put_json({"run": str(out), "suite": made.suite_name, "images": states, "unfinished": dict(made.unfinished)})
    else:
        click.echo(", ".join(f"{count:,} {state}" for state, count in sorted(states.items())))
    say(f"run: {out}\nquestions for judges elsewhere: verism questions {quoted(out)}")
    wanted = " or ".join(f"{option_of(need.role)} NAME" for need in stored_suite(made).needs())
    say(f"judge the images: verism observe {quoted(out)} {wanted}")
    sys.exit(failures.report())


cli.add_command(
    SuiteCommands(
        "generate",
        _generate,
        _generate_parameters,
        about="Generate the images of a suite without judging them; judge them later, here or on another machine.\n\n"
        "Resumes where it stopped, and adds images where more are asked for.",
        examples="""verism generate paintskills --model builtin --limit 24 --out runs/builtin
verism generate social_bias --model diffusers:ID --n-images 9 --out runs/bias
verism observe runs/bias --vqa Salesforce/blip2-flan-t5-xl""",
    )
)


def _prompt_parameters(suite: type[Suite]) -> list[click.Parameter]:  # noqa: ARG001
    """Options of ``verism prompts`` that all suites share."""
    as_json = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON lines with all facets instead of CSV.")
    raw = click.Option(["--raw"], is_flag=True, help=RAW_HELP)
    return in_section("Output", [as_json, raw])


def _prompts(suite: str, as_json: bool, raw: bool, **options: Any) -> None:
    asked = make_suite(suite, **given(options)).prompts()
    several = any(p.n_images > 1 for p in asked)
    if as_json:
        for p in asked:
            row = {"prompt_id": p.prompt_id, "prompt": p.text, **p.facets}
            click.echo(json.dumps(row | ({"n_images": p.n_images} if several else {}), ensure_ascii=False))
        return
    columns = ["prompt_id", "prompt"] + ["n_images"] * several
    rows = ([p.prompt_id, p.text] + [p.n_images] * several for p in asked)
    text = csv_text(columns, rows, raw=raw)
    click.echo(visible(text) if sys.stdout.isatty() else text, nl=False)


cli.add_command(
    SuiteCommands(
        "prompts",
        _prompts,
        _prompt_parameters,
        about="Print the prompts of a suite, to generate images elsewhere.\n\nSave the images as PROMPT_ID.png, then: "
        "verism run SUITE --images DIR. The second and later images of a prompt are PROMPT_ID_1.png, PROMPT_ID_2.png "
        "...; the column n_images has their number. If a prompt_id has slashes, name the files in a table.",
        examples="""verism prompts paintskills --limit 300 > prompts.csv
verism prompts paintskills --skill count --json > prompts.jsonl
verism prompts geography --family region --per-cell 20 > prompts.csv""",
    )
)


cli.add_command(questions)


@cli.command()
@click.argument("run_dir", type=RunPath())
@click.option("--threshold", type=float, help="Confidence threshold of the revised rules.")
@click.option("--rule", "rules", multiple=True, help="Set a rule of the suite, NAME=VALUE; repeatable.")
@click.option("--detector", help="Full name of the detector whose boxes count, where the run has several.")
@click.option(
    "--judge", "judges", multiple=True, help="Judge that counts, for any role: ROLE=NAME, for example clip=NAME."
)
@click.option(
    "--correct",
    type=click.Choice(["human", "rendered"]),
    help="Adjust for judge error: with annotators' answers, or with a judge card.",
)
@click.option("--card", "cards", multiple=True, type=PathType(), help="Judge card; repeatable.")
@click.option(
    "--min-right",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Leave out raters who got a smaller share of the checks right.",
)
@click.option(
    "--anyway", is_flag=True, help="Adjust even where the card's images are unlike the run's; the scores are marked."
)
@click.option("--device", help="PyTorch device for precision and recall; the numbers are the same.")
@click.option("--name", default="", help="Keep this scoring under a name; RUN@NAME reads it. See: verism scorings")
@click.option("--undo", is_flag=True, help="Go back to the previous scoring; a second --undo redoes it.")
@click.option("--restore", metavar="NAME", help="Go back to a named scoring.")
@with_options(tracking_options())
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def score(
    run_dir: Path,
    min_right: float,
    correct: Any,
    cards: tuple[Path, ...],
    threshold: float | None,
    rules: tuple[str, ...],
    detector: str | None,
    judges: tuple[str, ...],
    anyway: bool,
    device: str | None,
    name: str,
    undo: bool,
    restore: str | None,
    track: tuple[str, ...],
    step: int | None,
    checkpoint: str | None,
    as_json: bool,
) -> None:
    """Apply rules and metrics to a run again, or go back to an earlier scoring. No image is generated, and no judge
    is run.

    \b
    verism score runs/mine --json > scores.json
    verism score runs/mine --threshold 0.4
    verism score runs/geography --rule k=5 --name k5
    verism report runs/geography@k5
    verism score runs/geography --undo
    verism score runs/mine --correct human
    verism score runs/mine --correct rendered --card detector.json
    verism score runs/mine --track "mlflow:http://localhost:5000?experiment=sd15" --step 2000
    """
    from verism import api

    named = {} if detector is None else {"detector": detector}
    for pair in judges:
        role, equals, full_name = pair.partition("=")
        if not equals:
            raise UsageError(f"--judge {pair}: expected ROLE=NAME")
        named[role] = full_name
    finished = api.open_run(run_dir)
    if undo or restore is not None:
        others = {"--name": name, "--threshold": threshold is not None, "--rule": rules, "--correct": correct}
        others |= {"--judge": named, "--card": cards, "--undo": undo and restore is not None}
        if clash := next((option for option, asked in others.items() if asked), None):
            raise UsageError(f"{'--undo' if undo else '--restore'} goes back and computes nothing; leave out {clash}")
        finished.restore_scoring(restore)
        put_scores(finished, as_json)
        return
    with opened_trackers(track) as trackers:
        api.score(
            finished,
            threshold=threshold,
            judges=named,
            rules=parse_rules(rules),
            correct=correct,
            cards=cards,
            min_right=min_right,
            anyway=anyway,
            device=device,
            on_scores=trackers,
            step=step,
            checkpoint=checkpoint or "",
            on_summary=say,
            name=name,
        )
    put_scores(finished, as_json)


@cli.command()
@click.argument("run_dir", type=RunPath())
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def scorings(run_dir: Path, as_json: bool) -> None:
    """List the scorings a run keeps: those with a name, the one that counts, and the one before it.

    \b
    verism scorings runs/geography
    verism score runs/geography --rule k=5 --name k5
    verism compare runs/a@k5 runs/b@k5
    """
    from verism import api
    from verism.cli.scorings import scoring_records, scoring_table

    records = scoring_records(api.open_run(run_dir))
    if as_json:
        put_json(records)
    else:
        click.echo(scoring_table(records))


@cli.command()
@click.argument("run_dir", type=RunPath())
@with_options(judge_options())
@with_options(executor_options())
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def observe(run_dir: Path, as_json: bool, **options: Any) -> None:
    """Judge the existing images of a run with another judge, and score the run by it.

    \b
    verism observe runs/mine --detector open-vocabulary:google/owlv2-base-patch16-ensemble
    verism observe runs/geography --clip ViT-L/14
    """
    from verism import api

    finished = api.open_run(run_dir)
    if api.observe(
        finished, on_summary=say, **with_executor(given(options))
    ):  # else others have not done their share yet
        put_scores(finished, as_json)


@cli.command()
@click.argument("run_dir", type=RunPath())
@click.option("--repair", is_flag=True, help="Remove damaged files, and make them and missing ones again.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def verify(run_dir: Path, repair: bool, as_json: bool) -> None:
    """Check every file of a run directory against its hash. Exit code 1: something is wrong.

    \b
    verism verify runs/mine
    verism verify runs/mine --json
    verism verify runs/mine --repair       # while no other process uses the run
    """
    from verism import api

    left: list[str] = []
    if repair:
        before = api.verify(run_dir)
        for finding in before.findings:
            say(f"{finding.problem} {finding.file}: {finding.what}; {finding.remedy}")
        options = api.RunOptions(on_failure=say, on_matched=say, on_summary=say)
        found, left = api.repair(run_dir, run_options=options)
        for line in left:
            say(f"not repaired: {line}")
    else:
        found = api.verify(run_dir)
    if as_json:
        put_json(found.record() | ({"not_repaired": left} if repair else {}))
    else:
        click.echo(found.text())
    sys.exit(0 if found.is_whole and not left else 1)


@cli.command()
@click.argument("run_dir", type=RunPath())
@click.option(
    "--images-as", type=click.Choice(STORAGES), help="Convert the images to files or to shards.  [default: unchanged]"
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def compact(run_dir: Path, images_as: str | None, as_json: bool) -> None:
    """Put small files of a run together, or convert its images to shards (tar files) or back.

    \b
    verism compact runs/mine
    verism compact runs/mine --images-as shards
    """
    from verism import api

    done = api.compact(run_dir, images_as=images_as)
    if as_json:
        put_json(asdict(done))
        return
    click.echo(
        f"{done.images:,} images kept as {done.images_as}; {done.moved:,} moved; files of images: {done.before:,} "
        f"before, {done.files:,} now"
    )


@cli.command()
@click.argument("run_dirs", nargs=-1, required=True, type=RunPath())
@click.option("--out", type=PathType(), help="HTML file.  [default: RUN/report/index.html]")
@click.option("--json", "as_json", is_flag=True, help="Print all scores of all runs as JSON instead of a page.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all scores as CSV instead of a page.")
@click.option("--raw", is_flag=True, help=RAW_HELP)
@click.option("--markdown", is_flag=True, help="Print the main table in Markdown, for an issue or a model card.")
@click.option("--latex", is_flag=True, help="Print the main table in LaTeX (booktabs), for a paper.")
@click.option(
    "--baseline",
    type=PathType(),
    metavar="RUN",
    help="Test the other runs against this one, which comes first.  [default: the first run]",
)
@click.option("--no-tests", is_flag=True, help="Leave out differences to the baseline and their p-values.")
@click.option(
    "--gallery", type=click.IntRange(0), default=120, show_default=True, help="Number of images in the gallery."
)
@click.option("--card", "cards", multiple=True, type=PathType(), help="Judge card; repeatable.")
def report(
    run_dirs: tuple[Path, ...],
    out: Path | None,
    as_json: bool,
    as_csv: bool,
    raw: bool,
    markdown: bool,
    latex: bool,
    baseline: Path | None,
    no_tests: bool,
    gallery: int,
    cards: tuple[Path, ...],
) -> None:
    """Write a self-contained HTML page about one or more runs, or print their main table.

    Several runs of a suite are tables side by side, tested against the baseline. Runs whose names differ in one number
    (checkpoints) are put in its order, with curves. Runs of several suites get an overview and a page for each suite.

    \b
    verism report runs/mine
    verism report runs/mine runs/oracle runs/shuffled --out report.html
    verism report runs/step-* --baseline runs/step-1000
    verism report runs/mine-paintskills runs/mine-social_bias --out mine
    verism report runs/mine --latex > table.tex
    """
    from verism import api
    from verism.report_kit import tables

    if raw and not as_csv:
        raise UsageError("--raw is for --csv")
    printed = as_json + as_csv + markdown + latex
    if printed > 1:
        raise UsageError("give one of --json, --csv, --markdown and --latex: together they could not be told apart")
    runs = [api.open_run(d) for d in run_dirs]
    presentations = [presentation_of(run) for run in runs]
    if as_json:
        put_json(tables.json_report(runs, presentations))
    if as_csv:
        click.echo(tables.csv_table(runs, presentations, raw=raw), nl=False)
    if markdown or latex:
        table = tables.latex_table if latex else tables.markdown_table
        for group in tables.sharing(presentations):
            click.echo(table([runs[n] for n in group], [presentations[n] for n in group]))
    for run, folder in zip(runs, run_dirs, strict=True) if printed else ():
        say_remarks(run, str(folder))
    if out is not None or not printed:
        place = out or api.report_file(runs[0])
        path = api.report(*runs, out=place, gallery=gallery, cards=cards, baseline=baseline, tests=not no_tests)
        (say if printed else click.echo)(str(path))


@cli.command()
@click.argument("run_a", type=RunPath())
@click.argument("run_b", type=RunPath())
@click.option("--by", help="Facet of the prompts to group by.  [default: the suite's own]")
@click.option("--protocol", help="Protocol to use.  [default: the first of the suite, revised]")
@click.option("--all-protocols", is_flag=True, help="Compare under every protocol of the suite.")
@click.option(
    "--anyway", is_flag=True, help="Compare runs that are not comparable; the reasons are shown beside the numbers."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed for permutation tests.")
@click.option("--json", "as_json", is_flag=True, help="Print every row as JSON.")
def compare(run_a: Path, run_b: Path, as_json: bool, **options: Any) -> None:
    """Test whether run B differs from run A: B minus A, paired by prompt where images are decided one by one.

    Runs that are not comparable (another judge, threshold, rule, reference, number of images where the metric depends
    on it, other prompts, size or seed, another share of usable answers) are refused with the reasons; exit code 2.

    \b
    verism compare runs/step-1000 runs/step-2000
    verism compare runs/a runs/b --by object
    verism compare runs/a runs/b --all-protocols
    verism compare runs/geography-a runs/geography-b --by region
    """
    from verism import api
    from verism.report_kit.comparison import comparison_table

    records = [d.record() for d in api.compare(run_a, run_b, **options)]
    if as_json:
        put_json(records)
    else:
        click.echo(comparison_table(records, a=str(run_a), b=str(run_b)))
    for folder in (run_a, run_b):
        say_remarks(api.open_run(folder), str(folder))


# -------------------------------------------------------------------------------------------------------------- scenes
@cli.group(cls=SuiteGroup, path="scenes")
def scenes() -> None:
    """Render data sets and contact sheets with the simulator.

    \b
    verism scenes render paintskills --split train --limit 600 --seed 1 --out DATA
    verism scenes sheet --only dog --out dog.png
    """


@scenes.command("sheet")
@click.option(
    "--out",
    required=True,
    type=PathType(disk="a sheet is drawn into a file of this machine; name one, and copy it from there"),
    help="PNG file; environments go to NAME-environments.png.",
)
@click.option("--only", multiple=True, help="Show only this class; repeatable.")
@click.option("--size", type=click.IntRange(64, 512), default=128, show_default=True, help="Width of a tile in pixels.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the views.")
@click.option("--assets", type=PathType(), help="Folder with your own 3D models and environments.")
def scenes_sheet(out: Path, only: tuple[str, ...], size: int, seed: int, assets: Path | None) -> None:
    """Render contact sheets: every class in several views, states and colours, and every environment.

    \b
    verism scenes sheet --out sheet.png
    verism scenes sheet --only dog --only bus --size 256 --out two.png
    verism scenes sheet --assets my_models --only teapot --out teapot.png
    """
    from verism.simulator.catalogue import standard_catalogue
    from verism.simulator.sheet import draw_sheets

    catalogue = standard_catalogue()
    if assets is not None:
        catalogue = catalogue.with_assets(assets)
    for path in draw_sheets(catalogue, out, only=only, tile=size, seed=seed):
        click.echo(str(path))


cli.add_command(demo)
cli.add_command(annotate)
cli.add_command(board)
cli.add_command(agreement)
cli.add_command(completion)
cli.add_command(config)
cli.add_command(data)
cli.add_command(gate)
cli.add_command(export)
cli.add_command(judge)
cli.add_command(metrics)
cli.add_command(plan)
scenes.add_command(people)
scenes.add_command(portraits)
cli.add_command(reproduce)
cli.add_command(train)
cli.add_command(view)


# ------------------------------------------------------------------------------------------------------------ listings
@cli.command("list")
@click.argument(
    "what",
    type=click.Choice(["suites", "aspects", "models", "judges", "trackers", "protocols", "environments", "classes"]),
)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def list_command(what: str, name: str | None, as_json: bool) -> None:
    """List suites, models, judges and more; with the NAME of a model, judge, role or
    tracker, list its options.

    Aspects are the twelve of HEIM: which suites and metrics cover them, and which are not covered.

    \b
    verism list judges
    verism list judges vqa
    verism list judges onnx
    verism list models diffusers --json
    verism list aspects
    """
    from verism.cli.listing import aspect_listing, aspect_text, listing, option_listing, option_text

    if name is not None:
        records = option_listing(what, name)
        if as_json:
            put_json(records)
        else:
            click.echo("\n\n".join("\n".join(option_text(record)) for record in records))
        return
    if what == "aspects":
        found = aspect_listing()
        if as_json:
            put_json([asdict(each) for each in found])
        else:
            click.echo("\n".join(aspect_text(found)))
        return
    rows = listing(what)
    if as_json:
        put_json([{"name": name, "description": text} for name, text in rows])
        return
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        click.echo(f"{name:<{width}}  {text}")


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def doctor(as_json: bool) -> None:
    """Report what is installed, what is missing, and how to install it.

    \b
    verism doctor
    verism doctor --json
    """
    from verism.cli.doctor import diagnose

    findings = diagnose()
    if as_json:
        put_json([f.__dict__ for f in findings])
    else:
        for finding in findings:
            click.echo(finding.line())
    sys.exit(0 if all(f.ok or not f.required for f in findings) else 1)


# ------------------------------------------------------------------------------------------------- commands of suites
class _Services(Services):
    """What commands of suites may ask of the parts above them (``terminal.Services``); click's ``obj``."""

    def make_judge(self, name: str, role: str, **context: Any) -> Any:
        """A judge by its name."""
        from verism.registry import Context, make_judge

        return make_judge(name, Context(**context), role)

    def make_renderer(self, **context: Any) -> Any:
        """The simulator, with the user's own assets if any."""
        from functools import partial

        from verism.registry import Context, make_renderer

        executor = context.pop("executor", "local")
        if executor != "local":
            from verism.pipeline.ray_renderer import RayRenderer
            from verism.pipeline.ray_workers import RaySettings

            return RayRenderer(
                partial(make_renderer, Context(**context | {"processes": 1})), RaySettings.parse(executor)
            )
        return make_renderer(Context(**context))

    def evaluate(self, suite: str, **options: Any) -> Run:
        """A finished run."""
        from verism import api

        return api.evaluate(suite, **options)

    def report(self, *runs: Run, out: Path) -> Path:
        """The page of one or more runs, and where it was written."""
        from verism import api

        return api.report(*runs, out=out)

    def scores_table(self, *runs: Run) -> str:
        """The first table of one or more runs, as text."""
        from verism.report_kit.tables import terminal_table

        return terminal_table(runs, [presentation_of(run) for run in runs], encoding=terminal_encoding())

    def votes_on_pairs(self, run: Run) -> Mapping[tuple[str, str], pl.DataFrame]:
        """Annotators' votes on pairs of images of a run and another, by the names of both; tables ``ratings``."""
        from verism.annotation.ratings import ratings_of

        return ratings_of(run).comparisons


def main() -> None:
    """Entry point: errors that are no mistake of verism are shown in a line or two, not as a traceback."""
    write_text_of_any_language()
    try:
        cli.main(prog_name="verism", standalone_mode=False)
        sys.stdout.flush()  # a full disk or a closed pipe shows here, and not after the exit code is set
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as err:
        err.show()
        sys.exit(2)
    except click.Abort:
        say("stopped; repeat the command to continue", always=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as err:  # panics of polars are no Exception
        told = explain(err)
        if told is None:
            raise
        text = str(told)
        logging.getLogger("verism").info("traceback", exc_info=err)
        if is_verbose():
            traceback.print_exception(err)
        say(f"verism: {text if len(text) <= MESSAGE else text[:MESSAGE] + ' ...'}", always=True)
        sys.exit(2 if isinstance(told, UsageError) else 1)
