"""``verism data``: what reference data holds, before anything is computed with it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from verism.errors import UsageError
from verism.terminal import Failures, Group, put_json

__all__ = ["data"]

WORLD_OF = {"geode": "geode", "dollarstreet": "dollarstreet"}  # layout named on the command line: its world


@click.group(cls=Group)
def data() -> None:
    """Look at reference data: real pictures to compare with.

    \b
    verism data check geode GEODE
    verism data reference GEODE --features inception:inception_v3_google-0cc3c7bd.pth --out geode.npz
    """


@data.command()
@click.argument("what")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--object", "objects", multiple=True, help="Only this object; several times.")
@click.option("--region", "regions", multiple=True, help="Only this region; several times.")
@click.option("--per-cell", type=click.IntRange(1), help="Pictures per object and region.  [default: 180 for GeoDE]")
@click.option("--world", type=click.Path(path_type=Path), help="Your own regions and objects (.yaml, .json).")
@click.option("--tree-tag", help="Only rows with this value in the column tree_tag (EvalGIM: no).")
@click.option(
    "-k", type=click.IntRange(1), default=3, show_default=True, help="Neighbours; a cell needs k + 2 pictures."
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
    """What is found and missing, and which part a run would use.

    \b
    verism data check geode GEODE                (as published: index.csv, images/)
    verism data check dollarstreet DOLLARSTREET  (as published: images_v2_imagenet_train.csv, ..._test.csv, assets/)
    verism data check real.csv                   (columns file_path, object, region; or topics, region.id)
    verism data check geode.npz                  (a reference file)

    Exit code 1 if a run could not use it as it is.
    """
    from verism.suites.geography.layouts import check_data, layout_of
    from verism.suites.geography.worlds import read_world, standard_world

    if folder is not None:
        if what not in WORLD_OF:
            raise UsageError(f"no data {what!r}; there are {', '.join(WORLD_OF)}, or give a table alone")
        source, layout = folder, what
    else:
        if what in WORLD_OF and not Path(what).exists():
            raise UsageError(f"say where it is: verism data check {what} FOLDER")
        source, layout = Path(what), None
    base = read_world(world) if world is not None else standard_world(WORLD_OF.get(layout or "", "geode"))
    if layout is None and world is None and source.is_dir():
        base = standard_world(WORLD_OF.get(layout_of(source), "geode"))
    found = check_data(
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
        put_json(found.record())
    else:
        click.echo("\n".join(found.lines()))
    sys.exit(0 if found.ready else 1)


@data.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--features", required=True, help="Who gives the features: inception:FILE ... See: verism list judges")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The file to write, .npz.")
@click.option("--suite", default="geography", show_default=True, help="Whose reading of SOURCE counts, and its choice.")
@click.option("--object", "objects", multiple=True, help="Only this object; several times.")
@click.option("--region", "regions", multiple=True, help="Only this region; several times.")
@click.option("--world", type=click.Path(path_type=Path), help="Your own regions and objects (.yaml, .json).")
@click.option("--tree-tag", help="Only rows with this value in the column tree_tag (EvalGIM: no).")
@click.option("--threads", type=click.IntRange(1), help="CPU threads of the network.")
@click.option("--device", help="cpu, cuda, cuda:1 ...")
@click.option("--cache", type=click.Path(path_type=Path), help="Folder of image vectors, shared between runs.")
def reference(source: Path, features: str, out: Path, suite: str, **options: Any) -> None:
    """Compute the features of real pictures once, and keep them in a file that --reference takes.

    \b
    verism data reference GEODE --features inception:inception_v3_google-0cc3c7bd.pth --out geode.npz
    verism data reference real_pictures --suite quality --features builtin --out real.npz
    verism run geography --reference geode.npz --features inception:inception_v3_google-0cc3c7bd.pth \\
        --images mine.csv --out runs/mine

    An interrupted call goes on where it stopped: what is done lies in OUT.parts until the file is written.
    """
    from verism import api

    if out.suffix != ".npz":
        raise UsageError(f"--out {out}: a reference file ends in .npz")
    failures = Failures()
    work = out.with_name(out.name + ".parts")
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    made = api.make_reference(suite, source, features=features, out=out, work=work, on_failure=failures, **given)
    shutil.rmtree(work)
    assert made.features is not None
    click.echo(f"{out}: {len(made.pictures):,} pictures, {made.features.shape[1]:,} features each, by {made.judge}")
    sys.exit(failures.report())
