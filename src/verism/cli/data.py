"""``verism data``: what reference data holds, before anything is computed with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from verism.cli.common import executor_options, given, in_section, with_executor
from verism.cli.suite_commands import SuiteCommands, SuiteGroup
from verism.errors import UsageError
from verism.locations import is_remote, remove_tree
from verism.suites.base import Suite
from verism.terminal import WORKERS, Failures, PathType

__all__ = ["data"]


@click.group(cls=SuiteGroup, path="data")
def data() -> None:
    """Check and prepare reference data: real images to compare with.

    \b
    verism data check geode GEODE
    verism data reference geography GEODE --features inception:inception_v3_google-0cc3c7bd.pth --out geode.npz
    """


class _ReferenceCommands(SuiteCommands):
    """Of the suites that compare with real images; ``SOURCE --suite SUITE`` is accepted, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for i, word in enumerate(args):
            name, equals, value = word.partition("=")
            if name == "--suite":
                value, rest = (value, args[i + 1 :]) if equals else (" ".join(args[i + 1 : i + 2]), args[i + 2 :])
                args = [value, *args[:i], *rest]
                break
        return super().parse_args(ctx, args)


def _reference_parameters(suite: type[Suite]) -> list[click.Parameter]:  # noqa: ARG001
    """Options of ``verism data reference`` that all suites share."""
    path = PathType()
    judge = [
        click.Option(
            ["--features"], required=True, help="Feature extractor: inception:FILE ... See: verism list judges"
        ),
        click.Option(["--threads"], type=WORKERS, help="CPU threads of the network."),
        click.Option(["--device"], help="Device: cpu, cuda, cuda:1 ..."),
        click.Option(["--cache"], type=path, help="Cache folder for image features, shared between runs."),
    ]
    output = [click.Option(["--out"], required=True, type=path, help="Output file (.npz).")]
    return [*in_section("Judges", judge), *executor_options(sharing=False), *in_section("Output", output)]


def _reference(suite: str, source: Path, features: str, out: Path, **options: Any) -> None:
    from verism import api

    if out.suffix != ".npz":
        raise UsageError(f"--out {out}: a reference file ends in .npz")
    failures = Failures()
    work = out.with_name(out.name + ".parts")
    made = api.make_reference(
        suite, source, features=features, out=out, work=work, on_failure=failures, **with_executor(given(options))
    )
    if is_remote(work):
        remove_tree(work)
    else:  # renamed first: what a killed removal leaves must not be taken for a run
        gone = work.with_name(f".{work.name}.{os.urandom(4).hex()}.tmp")
        work.replace(gone)
        remove_tree(gone)
    assert made.features is not None
    click.echo(f"{out}: {len(made.images):,} images, {made.features.shape[1]:,} features each, by {made.judge}")
    sys.exit(failures.report())


data.add_command(
    _ReferenceCommands(
        "reference",
        _reference,
        _reference_parameters,
        about="Compute the features of real images once, and keep them in a file that --reference takes.\n\n"
        "Repeat an interrupted call to continue it: finished parts are in OUT.parts until the file is written.",
        examples="""verism data reference geography GEODE --features inception:inception.pth --out geode.npz
verism data reference quality real_images --features builtin --out real.npz
verism run geography --reference geode.npz --features inception:inception.pth --images mine.csv --out runs/mine""",
        arguments=[click.Argument(["source"], type=PathType())],
        argument_of="reference",
    )
)
