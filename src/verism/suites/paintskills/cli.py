"""``verism scenes render`` and ``verism demo``: data sets of PaintSkills, and a tour of the toolkit on them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import click

from verism.errors import UsageError
from verism.files import write_csv
from verism.manifest import canonical_suite_name
from verism.terminal import SEED, WORKERS, Failures, PathType, Services, put_json, say

__all__ = ["render", "tour"]

DEMO_ERROR = 0.3  # of the scripted generator: enough wrong images to see the judge tell them from right ones


@click.command()
@click.argument("suite")
@click.option("--skill", "skills", multiple=True, help="Use only this skill; repeatable.")
@click.option("--split", default="val", help="Split: val (papers say test; the default) or train.")
@click.option("--limit", type=click.IntRange(1), help="Number of scenes, spread evenly over skills and factors.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of scenes and sampling.")
@click.option("--size", type=int, default=256, show_default=True, help="Width and height in pixels.")
@click.option("--out", required=True, type=PathType(), help="Output folder; an existing one is completed.")
@click.option("--assets", type=PathType(), help="Folder with your own 3D models and environments.")
@click.option("--scenes", type=PathType(), help="Folder of your own scenes, in the published layout.")
@click.option("--empty", type=click.IntRange(0), default=0, help="Number of additional empty scenes, for training.")
@click.option("--masks", is_flag=True, help="Also write instance masks, which the built-in generator is trained on.")
@click.option("--processes", type=WORKERS, help="Parallel renderers.  [default: one per core]")
@click.option("--executor", metavar="local|ray[:ADDRESS]", default="local", help="Render here, or on a Ray cluster.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def render(
    services: Services,
    suite: str,
    skills: tuple[str, ...],
    split: str,
    limit: int | None,
    seed: int,
    size: int,
    out: Path,
    assets: Path | None,
    scenes: Path | None,
    empty: int,
    masks: bool,
    processes: int | None,
    executor: str,
    as_json: bool,
) -> None:
    """Render images, exact boxes and scene files in the published layout. Resumes where it stopped.

    \b
    verism scenes render paintskills --skill count --split test --limit 200 --seed 7 --size 256 --out DATA
    verism scenes render paintskills_v1 --out DATA-v1           (all 9,618 val scenes)
    """
    from verism.suites.paintskills.rendering import render_scenes, scenes_summary
    from verism.suites.paintskills.scenes import empty_scenes, split_of
    from verism.suites.paintskills.suite import PaintSkills, PaintSkillsV1

    versions = {version.info.name: version for version in (PaintSkills, PaintSkillsV1)}
    name = canonical_suite_name(suite)
    if name not in versions:
        raise UsageError(f"no scenes of {suite!r} can be rendered; there are those of {', '.join(versions)}")
    options = {"scenes": scenes, "skills": skills or None, "split": split, "limit": limit, "seed": seed}
    the_suite = versions[name].make(options)
    chosen = [*the_suite.scenes, *empty_scenes(the_suite.version, split_of(split), empty, seed=seed)]
    failures = Failures()
    renderer = services.make_renderer(
        size=size, assets=assets, processes=processes or os.cpu_count() or 1, executor=executor
    )
    try:
        failed = render_scenes(
            out, the_suite.version, chosen, renderer, size, seed=seed, masks=masks, on_failure=failures
        )
    finally:
        getattr(renderer, "close", lambda: None)()
    if as_json:
        put_json({"out": str(out), "scenes": len(chosen), "failed": failed})
    else:
        click.echo(scenes_summary(chosen))
        click.echo(f"{len(chosen) - failed:,} images of {size} x {size} in {out}")
    sys.exit(failures.report())


@click.command()
@click.option("--out", type=PathType(), default=Path("demo_run"), show_default=True)
@click.option("--limit", type=click.IntRange(3), default=96, show_default=True, help="Number of prompts.")
@click.option("--seed", type=SEED, default=11, show_default=True)
@click.pass_obj
def tour(services: Services, out: Path, limit: int, seed: int) -> None:
    """Run a complete evaluation offline: a small model, images of known truth, detector, table, report.

    \b
    verism demo --out demo_run
    verism demo --out demo_run --limit 12       (quicker, and coarser)
    """
    start = time.monotonic()
    asked: dict[str, Any] = {"limit": limit, "seed": seed}
    rendered = {**asked, "processes": os.cpu_count() or 1}
    say(f"{limit} prompts of paintskills for the built-in text-to-image model")
    model = services.evaluate("paintskills", model="builtin", out=out / "builtin", **asked)
    say(f"the same prompts rendered by the simulator; the scripted generator errs in about {DEMO_ERROR:.0%}")
    scripted = services.evaluate("paintskills", model=f"scripted:error={DEMO_ERROR}", out=out / "scripted", **rendered)
    oracle = services.evaluate("paintskills", model="oracle", out=out / "oracle", **rendered)
    # The oracle's images serve again: shuffling only changes whose prompt an image answers.
    manifest = out / "oracle-pictures.csv"
    usable = [row for row in oracle.read("images").iter_rows(named=True) if row["state"] == "ok"]
    rows = ((row["prompt_id"], oracle.resolve(row["path"]).absolute()) for row in usable)
    write_csv(manifest, ("prompt_id", "path"), rows)
    shuffled = services.evaluate("paintskills", images=manifest, out=out / "shuffled", shuffle=True, **asked)
    runs = [model, scripted, oracle, shuffled]
    page = services.report(*runs, out=out / "report.html")
    click.echo(services.scores_table(*runs))
    click.echo(f"\nreport: {page.absolute()}")
    say(f"done in {time.monotonic() - start:.0f} s; look closer with: verism compare {out}/shuffled {out}/builtin")
