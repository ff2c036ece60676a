"""The command line: connects the parts, holds no arithmetic.

Results go to standard output, progress and messages to standard error. Exit code 0: done; 1: finished, with failures
that are listed; 2: wrong usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from verism._version import __version__
from verism.cli.agreement import agreement
from verism.cli.annotate import annotate
from verism.cli.common import Failures, Group, put_json, put_scores, say
from verism.cli.data import data
from verism.cli.gep import gep
from verism.cli.judge import judge
from verism.cli.metrics import metrics
from verism.cli.portraits import portraits
from verism.cli.reproduce import reproduce
from verism.cli.train import train
from verism.cli.wardrobe import people
from verism.errors import UsageError, VerismError

__all__ = ["cli", "main"]

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="verism")
def cli() -> None:
    """Evaluate text-to-image models: are their pictures true to the prompt, and fair to the world?

    \b
    Try it:               verism demo --out demo_run
    Your own pictures:    verism run paintskills --images my_pictures --out runs/mine
    What is asked for:    verism run paintskills --dry-run --json
    """


# ------------------------------------------------------------------------------------------------------------- options
def _together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order they are given."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_scene_options = _together(
    click.option("--skill", "skills", multiple=True, help="Only this skill; may be given several times."),
    click.option(
        "--split", help="PaintSkills: val (papers: test; the default) or train. alignment: of Karpathy's file."
    ),
    click.option("--limit", type=click.IntRange(1), help="Prompts in all, spread evenly over skills and factors."),
    click.option("--seed", type=int, default=0, show_default=True, help="Of scenes, sampling and generation."),
)

# What suites may be asked, by the names of their own options; those a suite does not have are refused by name.
_suite_options = _together(
    click.option("--scenes", type=click.Path(path_type=Path), help="PaintSkills: scenes on disk (published layout)."),
    _scene_options,
    click.option("--n-images", type=click.IntRange(1), help="Pictures per prompt.  [default: the suite's number]"),
    click.option(
        "--reference", type=click.Path(path_type=Path), help="Real pictures: a folder, .csv, .jsonl, or a .npz of them."
    ),
    click.option("--family", "families", multiple=True, help="geography: object, region or country; several times."),
    click.option("--object", "objects", multiple=True, help="geography: only this object; several times."),
    click.option("--region", "regions", multiple=True, help="geography: only this region; several times."),
    click.option("--per-cell", type=click.IntRange(1), help="geography: pictures per object and region."),
    click.option("--world", type=click.Path(path_type=Path), help="geography: your own regions, objects, templates."),
    click.option("--annotations", type=click.Path(path_type=Path), help="alignment: COCO captions, or a prompt list."),
    click.option("--questions", type=click.Path(path_type=Path), help="alignment: questions as TIFA or DSG has them."),
    click.option("--study", help="gender_presentation, social_bias: another study, by name or file (.yaml, .json)."),
    click.option("--setting", "settings", multiple=True, help="gender_presentation: neutral or explicit."),
    click.option(
        "--labels", type=click.Path(path_type=Path), help="gender_presentation, social_bias_v1: what people saw (.csv)."
    ),
    click.option("--wording", type=click.Choice(["released", "revised"]), help="social_bias_v1: of its prompts."),
    click.option(
        "--target",
        type=click.Path(path_type=Path),
        help="social_bias: shares to compare with (.csv: profession, group, share).",
    ),
    click.option("--folder-model", help="gender_presentation: whose pictures in a folder of several models'."),
    click.option(
        "--seeds", type=click.Choice(["paired", "released"]), help="gender_presentation: noise of the pictures."
    ),
    click.option(
        "--prompts",
        type=click.Path(path_type=Path),
        help="quality, alignment, social_bias_v1: a list (.txt, .csv, .yaml).",
    ),
    click.option("--caption", type=click.Choice(["first", "random"]), help="alignment: which caption is the prompt."),
    click.option("--tree-tag", help="geography: only real pictures with this tree_tag (EvalGIM: no)."),
    click.option("--group-by", help="Columns by which to compare group by group, with commas."),
)
_judge_options = _together(
    click.option("--detector", help="Who finds objects.  [default: builtin]"),
    click.option("--features", help="Who gives image features: inception:FILE, fid-inception:FILE, builtin ..."),
    click.option("--clip", help="Who compares pictures with texts: ID_OR_PATH, ViT-B/32, ViT-L/14."),
    click.option("--captioner", help="Who describes pictures: transformers:ID, results:FILE."),
    click.option("--vqa", help="Who answers questions: ID_OR_PATH, openai:MODEL, results:FILE."),
    click.option("--skin-tone", help="Who measures skin: cascade, onnx:FILE, fan, none.  [default: cascade]"),
    click.option("--threads", type=click.IntRange(1), help="CPU threads of the judges."),
    click.option("--device", help="cpu, cuda, cuda:1 ... for hub models."),
    click.option("--cache", type=click.Path(path_type=Path), help="Folder of image vectors, shared between runs."),
)


def _suite_settings(options: dict[str, Any]) -> dict[str, Any]:
    """The options a user gave, as ``api`` takes them: those left out are left to the suite."""
    return {name: value for name, value in options.items() if value is not None and value != ()}


def _rules(pairs: tuple[str, ...]) -> dict[str, Any]:
    """``--rule k=5`` options."""
    rules: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--rule {pair}: expected NAME=VALUE, for example --rule k=5")
        try:
            rules[name] = json.loads(value)
        except json.JSONDecodeError:
            rules[name] = value
    return rules


@cli.command()
@click.argument("suite")
@click.option("--model", help="Generator: builtin, diffusers:ID, openai:MODEL ... See: verism list models")
@click.option("--images", type=click.Path(path_type=Path), help="Instead: a folder, or a manifest (.csv, .jsonl).")
@click.option("--out", type=click.Path(path_type=Path), help="Run directory, new or to be resumed.")
@_suite_options
@_judge_options
@click.option("--shuffle", is_flag=True, help="Give each prompt the picture of a random other one (with --seed).")
@click.option("--size", type=int, default=256, show_default=True, help="Pixels of rendered pictures.")
@click.option("--assets", type=click.Path(path_type=Path), help="Folder with your own 3D models and environments.")
@click.option("--threshold", type=float, help="Confidence limit of the corrected rules.  [default: the detector's]")
@click.option("--rule", "rules", multiple=True, help="Another rule of the suite, NAME=VALUE; several times.")
@click.option("--processes", type=click.IntRange(1), help="Painters at once.  [default: one per core]")
@click.option("--base-url", help="Of an OpenAI-compatible service, for openai:NAME as model or judge.")
@click.option("--retry", is_flag=True, help="Ask again for pictures that were missing, failed or refused.")
@click.option("--dry-run", is_flag=True, help="Say what would be asked for and what is done already; do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def run(
    suite: str,
    model: str | None,
    images: Path | None,
    out: Path | None,
    detector: str | None,
    processes: int | None,
    base_url: str | None,
    rules: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate a model, or pictures you have, on SUITE. Resumes where it stopped.

    \b
    verism run paintskills --images my_pictures --out runs/mine
    verism run paintskills --images list.csv --skill count --out runs/count
    verism run paintskills --model builtin --limit 24 --seed 5 --out runs/builtin
    verism run paintskills --model "diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5?steps=50" --out runs/sd15
    verism run paintskills --model openai:gpt-image-1 --limit 60 --dry-run
    verism run paintskills --model "command:./paint.py?ahead=8" --out runs/mine
    verism run paintskills --model scripted:error=0.2 --limit 60 --out runs/known-truth
    verism run paintskills --scenes DATA --images DATA/spatial/images --shuffle --seed 3 --out runs/shuffled
    verism run paintskills --images my_pictures --detector transformers:PekingU/rtdetr_r50vd --out runs/rtdetr
    verism run geography --reference geode.csv --images mine.csv --features inception:inception.pth \\
        --clip ViT-B/32 --out runs/geography
    verism run quality --images my_pictures --reference real_pictures --features builtin --out runs/quality
    verism run alignment --annotations captions_val2014.json --model diffusers:ID --clip ViT-B/32 --out runs/align
    verism run gender_presentation --images DIR --clip ViT-L/14 --out runs/gep
    verism run social_bias --images DIR --vqa Salesforce/blip2-flan-t5-xl --out runs/bias
    verism run social_bias_v1 --images DIR --clip ViT-B/32 --out runs/bias-v1
    """
    import os

    from verism import api

    given = _suite_settings(options)
    if dry_run:
        _dry_run(suite, out, model, images, base_url, as_json, given)
        return
    if out is None:
        raise UsageError("--out is missing: say where the run shall lie, for example --out runs/mine")
    failures = Failures()
    finished = api.evaluate(
        suite,
        model=model,
        images=images,
        out=out,
        detector=detector,
        processes=processes or os.cpu_count() or 1,
        base_url=base_url,
        rules=_rules(rules),
        on_failure=failures,
        on_matched=say,
        on_summary=say,
        **given,
    )
    put_scores(finished, as_json)
    say(f"run: {out}\nreport: verism report {out}")
    sys.exit(failures.report())


RUN_ONLY = ("features", "clip", "captioner", "vqa", "skin_tone", "threads", "device", "cache", "shuffle", "size",
            "assets", "threshold", "retry")  # fmt: skip


def _dry_run(
    suite: str,
    out: Path | None,
    model: str | None,
    images: Path | None,
    base_url: str | None,
    as_json: bool,
    given: dict[str, Any],
) -> None:
    from verism import api

    asked = {name: value for name, value in given.items() if name not in RUN_ONLY}
    planned = api.plan(suite, out=out, model=model, images=images, base_url=base_url, **asked)
    if as_json:
        put_json(planned)
        return
    click.echo(f"{planned['pictures']:,} pictures for {planned['prompts']:,} prompts of {suite}")
    parts = next(value for name, value in planned.items() if name.startswith("pictures_per_"))
    for part, n in parts.items():
        click.echo(f"  {part:<10} {n:>7,}")
    click.echo(f"done already: {planned['pictures_done']:,}")
    for line in planned["estimate"]:
        click.echo(line)
    for text in planned["examples"]:
        click.echo(f"  e.g. {text!r}")


@cli.command()
@click.argument("suite")
@_suite_options
@click.option("--json", "as_json", is_flag=True, help="JSON lines with all facets instead of CSV.")
def prompts(suite: str, as_json: bool, **options: Any) -> None:
    """The prompts of SUITE, to paint them elsewhere: save each picture as PROMPT_ID.png, then `verism run --images`.

    \b
    verism prompts paintskills --limit 300 > prompts.csv
    verism prompts paintskills --skill count --json > prompts.jsonl
    verism prompts geography --family region --per-cell 20 > prompts.csv

    Of a prompt with several pictures the second and later are PROMPT_ID_1.png, PROMPT_ID_2.png ...; the column
    n_images says how many. A prompt_id may have slashes: then name the files in a manifest.
    """
    import csv

    from verism.registry import make_suite

    asked = make_suite(suite, **_suite_settings(options)).prompts()
    several = any(p.n_images > 1 for p in asked)
    if as_json:
        for p in asked:
            row = {"prompt_id": p.prompt_id, "prompt": p.text, **p.facets}
            click.echo(json.dumps(row | ({"n_images": p.n_images} if several else {}), ensure_ascii=False))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["prompt_id", "prompt"] + ["n_images"] * several)
    writer.writerows([p.prompt_id, p.text] + [p.n_images] * several for p in asked)


@cli.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--threshold", type=float, help="Another confidence limit for the corrected rules.")
@click.option("--rule", "rules", multiple=True, help="Another rule of the suite, NAME=VALUE; several times.")
@click.option("--detector", help="Whose boxes count, if several detectors looked (its full name).")
@click.option("--judge", "judges", multiple=True, help="The same for any role: ROLE=NAME, e.g. clip=NAME.")
@click.option(
    "--correct",
    type=click.Choice(["human", "rendered"]),
    help="Take the judges' error out: by people's answers, or a card.",
)
@click.option("--card", "cards", multiple=True, type=click.Path(path_type=Path), help="A judge card; several times.")
@click.option("--min-right", type=click.FloatRange(0, 1), default=0.0, help="Leave out raters with fewer checks right.")
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
    as_json: bool,
) -> None:
    """Apply rules and metrics of a run again. No picture is made or looked at.

    \b
    verism score runs/mine --json > scores.json
    verism score runs/mine --threshold 0.4
    verism score runs/geography --rule k=5
    verism score runs/mine --correct human
    verism score runs/mine --correct rendered --card detector.json
    """
    from verism import api

    named = {} if detector is None else {"detector": detector}
    for pair in judges:
        role, equals, name = pair.partition("=")
        if not equals:
            raise UsageError(f"--judge {pair}: expected ROLE=NAME")
        named[role] = name
    finished = api.open_run(run_dir)
    api.score(
        finished,
        threshold=threshold,
        judges=named,
        rules=_rules(rules),
        correct=correct,
        cards=cards,
        min_right=min_right,
    )
    put_scores(finished, as_json)


@cli.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@_judge_options
@click.option("--json", "as_json", is_flag=True)
def observe(run_dir: Path, as_json: bool, **judges: Any) -> None:
    """Let another judge look at the pictures of a run, and score by it. No picture is made.

    \b
    verism observe runs/mine --detector open-vocabulary:google/owlv2-base-patch16-ensemble
    verism observe runs/geography --clip ViT-L/14
    """
    from verism import api

    finished = api.open_run(run_dir)
    api.observe(finished, **judges)
    put_scores(finished, as_json)


@cli.command()
@click.argument("run_dirs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="HTML file.  [default: RUN/report/index.html]")
@click.option("--json", "as_json", is_flag=True, help="Print all scores of all runs as JSON instead of a page.")
@click.option("--csv", "as_csv", is_flag=True, help="The same as CSV.")
@click.option("--markdown", is_flag=True, help="The main table in Markdown, for a paper or an issue.")
@click.option("--gallery", type=click.IntRange(0), default=120, show_default=True, help="Pictures shown.")
@click.option("--card", "cards", multiple=True, type=click.Path(path_type=Path), help="A judge card; several times.")
def report(
    run_dirs: tuple[Path, ...],
    out: Path | None,
    as_json: bool,
    as_csv: bool,
    markdown: bool,
    gallery: int,
    cards: tuple[Path, ...],
) -> None:
    """One self-contained HTML page about one or more runs (a model beside oracle and shuffled, say).

    \b
    verism report runs/mine runs/oracle runs/shuffled --out report.html
    verism report runs/mine --markdown
    """
    from verism import api
    from verism.cards import read_card
    from verism.reports import html, tables

    if as_json + as_csv + markdown > 1:
        raise UsageError("give one of --json, --csv and --markdown: together they could not be told apart")
    runs = [api.open_run(d) for d in run_dirs]
    if as_json:
        put_json(tables.json_report(runs))
    if as_csv:
        click.echo(tables.csv_table(runs), nl=False)
    if markdown:
        click.echo(tables.markdown_table(runs))
    if out is not None or not (as_json or as_csv or markdown):
        known = [read_card(card) for card in cards]
        path = html.write_report(runs, out or runs[0].path / "report" / "index.html", gallery=gallery, cards=known)
        (say if as_json or as_csv or markdown else click.echo)(str(path))


@cli.command()
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path))
@click.option("--by", help="Facet: skill (PaintSkills' default), object, count, relation, region ...")
@click.option("--protocol", type=click.Choice(["released", "paper", "corrected"]), help="Only this one.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of random permutations, where they are needed.")
@click.option("--json", "as_json", is_flag=True)
def compare(run_a: Path, run_b: Path, by: str | None, protocol: str | None, seed: int, as_json: bool) -> None:
    """Is B better than A, at what, and is it luck? B minus A; paired by prompt where pictures are decided one by one.

    \b
    verism compare runs/step-1000 runs/step-2000
    verism compare runs/a runs/b --by object --protocol corrected
    verism compare runs/geography-a runs/geography-b --by region
    """
    from verism import api
    from verism.reports.comparison import comparison_table

    differences = api.compare(run_a, run_b, by=by, protocol=protocol, seed=seed)
    if as_json:
        put_json([d.record() for d in differences])
    else:
        click.echo(comparison_table([d.record() for d in differences], a=str(run_a), b=str(run_b)))


@cli.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo_run"), show_default=True)
@click.option("--limit", type=click.IntRange(3), default=96, show_default=True, help="Prompts.")
@click.option("--seed", type=int, default=11, show_default=True)
def demo(out: Path, limit: int, seed: int) -> None:
    """The whole job, offline: a small generative model, pictures of known truth, detector, table and report.

    \b
    verism demo --out demo_run
    verism demo --out demo_run --limit 12       (quicker, and coarser)
    """
    from verism.cli.demo import run_demo

    run_demo(out, limit=limit, seed=seed)


# -------------------------------------------------------------------------------------------------------------- scenes
@cli.group(cls=Group)
def scenes() -> None:
    """Render PaintSkills data sets with the simulator.

    \b
    verism scenes render paintskills --split train --limit 600 --seed 1 --out DATA
    verism scenes sheet --only dog --out dog.png
    """


@scenes.command("render")
@click.argument("suite")
@_scene_options
@click.option("--size", type=int, default=256, show_default=True, help="Width and height in pixels.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder, new or to be completed.")
@click.option("--assets", type=click.Path(path_type=Path), help="Folder with your own 3D models and environments.")
@click.option("--scenes", type=click.Path(path_type=Path), help="Scenes of your own, in the published layout.")
@click.option("--empty", type=click.IntRange(0), default=0, help="Besides, scenes with nothing in them, for training.")
@click.option("--masks", is_flag=True, help="Also write instance masks, as the built-in generator learns from.")
@click.option("--processes", type=click.IntRange(1), help="Painters at once.  [default: one per core]")
@click.option("--json", "as_json", is_flag=True)
def scenes_render(
    suite: str,
    skills: tuple[str, ...],
    split: str | None,
    limit: int | None,
    seed: int,
    size: int,
    out: Path,
    assets: Path | None,
    scenes: Path | None,
    empty: int,
    masks: bool,
    processes: int | None,
    as_json: bool,
) -> None:
    """Pictures, exact boxes and scene files in the published layout. Resumes where it stopped.

    \b
    verism scenes render paintskills --skill count --split test --limit 200 --seed 7 --size 256 --out DATA
    verism scenes render paintskills-v1 --out DATA-v1           (all 9,618 val scenes)
    """
    import os

    from verism.pipeline.scenes import render_scenes, scenes_summary
    from verism.registry import Context, make_painter, make_suite
    from verism.suites.paintskills.scenes import empty_scenes, split_of

    the_suite = make_suite(suite, scenes=scenes, skills=skills or None, split=split, limit=limit, seed=seed)
    chosen = [*the_suite.scenes, *empty_scenes(the_suite.version, split_of(split or "val"), empty, seed=seed)]
    context = Context(size=size, assets=assets, processes=processes or os.cpu_count() or 1)
    failures = Failures()
    painter = make_painter(context)
    try:
        failed = render_scenes(
            out, the_suite.version, chosen, painter, size, seed=seed, masks=masks, on_failure=failures
        )
    finally:
        getattr(painter, "close", lambda: None)()
    if as_json:
        put_json({"out": str(out), "scenes": len(chosen), "failed": failed})
    else:
        click.echo(scenes_summary(chosen))
        click.echo(f"{len(chosen) - failed:,} pictures of {size} x {size} in {out}")
    sys.exit(failures.report())


@scenes.command("sheet")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="PNG file; environments go to NAME-environments.png."
)
@click.option("--only", multiple=True, help="Only this class; may be given several times.")
@click.option("--size", type=click.IntRange(64, 512), default=128, show_default=True, help="Pixels of one tile.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--assets", type=click.Path(path_type=Path), help="Folder with your own 3D models and environments.")
def scenes_sheet(out: Path, only: tuple[str, ...], size: int, seed: int, assets: Path | None) -> None:
    """Contact sheets: every class in several views, states and paints, and every environment.

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


cli.add_command(annotate)
cli.add_command(agreement)
cli.add_command(data)
cli.add_command(gep)
cli.add_command(judge)
cli.add_command(metrics)
scenes.add_command(people)
scenes.add_command(portraits)
cli.add_command(reproduce)
cli.add_command(train)


# ------------------------------------------------------------------------------------------------------------ listings
@cli.command("list")
@click.argument("what", type=click.Choice(["suites", "models", "judges", "protocols", "environments", "classes"]))
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True)
def list_command(what: str, name: str | None, as_json: bool) -> None:
    """What there is to choose from; with the NAME of a model or judge, what can be written behind it.

    \b
    verism list judges
    verism list judges onnx
    verism list models diffusers --json
    """
    from verism.cli.listing import listing, option_listing, option_text

    if name is not None:
        records = option_listing(what, name)
        if as_json:
            put_json(records)
        else:
            click.echo("\n\n".join("\n".join(option_text(record)) for record in records))
        return
    rows = listing(what)
    if as_json:
        put_json([{"name": name, "description": text} for name, text in rows])
        return
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        click.echo(f"{name:<{width}}  {text}")


@cli.command()
@click.option("--json", "as_json", is_flag=True)
def doctor(as_json: bool) -> None:
    """What is installed, what is missing, and how to get it.

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


def main() -> None:
    """Entry point: errors the caller can mend are shown in a line or two, not as a traceback."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as err:
        err.show()
        sys.exit(2)
    except click.Abort:
        say("stopped; the same command goes on where it was")
        sys.exit(130)
    except UsageError as err:
        say(f"verism: {err}")
        sys.exit(2)
    except VerismError as err:
        say(f"verism: {err}")
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
