"""``verism data check``: what real images there are, and which part of them a run would use."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from verism.errors import UsageError
from verism.locations import location
from verism.terminal import PathType, put_json

__all__ = ["check"]

WORLD_OF = {"geode": "geode", "dollarstreet": "dollarstreet"}  # layout named on the command line: its world


@click.command()
@click.argument("what")
@click.argument("folder", required=False, type=PathType())
@click.option("--object", "objects", multiple=True, help="Use only this object; repeatable.")
@click.option("--region", "regions", multiple=True, help="Use only this region; repeatable.")
@click.option("--per-cell", type=click.IntRange(1), help="Images per object and region.  [default: 180 for GeoDE]")
@click.option("--world", type=PathType(), help="File with regions and objects of your own (.yaml, .json).")
@click.option("--tree-tag", help="Use only rows with this value in the column tree_tag (EvalGIM: no).")
@click.option(
    "-k", type=click.IntRange(1), default=3, show_default=True, help="Nearest neighbours; a cell needs k + 2 images."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def check(
    what: str,
    folder: Path | None,
    objects: tuple[str, ...],
    regions: tuple[str, ...],
    per_cell: int | None,
    world: Path | None,
    tree_tag: str | None,
    k: int,
    as_json: bool,
) -> None:
    """Report which reference data is found or missing, and which part a run would use.

    \b
    verism data check geode GEODE                (as published: index.csv, images/)
    verism data check dollarstreet DOLLARSTREET  (as published: images_v2_imagenet_train.csv, ..._test.csv, assets/)
    verism data check real.csv                   (columns file_path, object, region; or topics, region.id)
    verism data check geode.npz                  (a reference file)

    Exit code 1 if a run could not use it.
    """
    from verism.suites.geography.layouts import check_data, layout_of
    from verism.suites.geography.worlds import read_world, standard_world

    if folder is not None:
        if what not in WORLD_OF:
            raise UsageError(f"no data {what!r}; there are {', '.join(WORLD_OF)}, or give a table alone")
        source, layout = folder, what
    else:
        if what in WORLD_OF and not location(what).exists():
            raise UsageError(f"say where it is: verism data check {what} FOLDER")
        source, layout = location(what), None
    base = read_world(world) if world is not None else standard_world(WORLD_OF.get(layout or "", "geode"))
    if layout is None and world is None and source.is_dir():
        base = standard_world(WORLD_OF.get(layout_of(source), "geode"))
    report = check_data(
        source,
        base,
        layout=layout,
        objects=objects or None,
        regions=regions or None,
        per_cell=per_cell,
        k=k,
        tree_tag=tree_tag,
    )
    if as_json:
        put_json(report.record())
    else:
        click.echo("\n".join(report.lines()))
    sys.exit(0 if report.ready else 1)
