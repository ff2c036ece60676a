"""``verism judge``: how well a judge does where the truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verism.cli.common import Group, put_json, say, without_nan

if TYPE_CHECKING:
    import polars as pl

    from verism.cards import JudgeCard, Kind, Measured
    from verism.pipeline.calibration import Reading

__all__ = ["judge"]

TONES = tuple(str(tone) for tone in range(1, 11))
# Columns of the truth that make groups of a card, and what the groups are called there.
FACETS = {"light": "light", "cast": "cast", "level": "level", "skin": "skin", "yaw_range": "yaw"}
PIXEL_RULE = "pixel_rule"


@click.group("judge", cls=Group)
def judge() -> None:
    """What is known of a judge's error.

    \b
    verism scenes portraits --count 600 --seed 1 --out PORTRAITS
    verism judge card --role skin_tone --judge cascade --truth PORTRAITS --out card.json
    """


@judge.command("card")
@click.option("--role", type=click.Choice(["skin_tone"]), required=True, help="What the judge is asked for.")
@click.option("--judge", "name", required=True, help="The judge, as in `verism run`: cascade, onnx:FILE ...")
@click.option(
    "--truth",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of `verism scenes portraits`, or a CSV file with the columns path and tone.",
)
@click.option(
    "--kind",
    type=click.Choice(["rendered", "human"]),
    default="rendered",
    show_default=True,
    help="How the truth is known: painted so, or said by people.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The card, a .json file.")
@click.option("--device", help="Where a judge with a network runs: cpu, cuda ...")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def card(role: str, name: str, truth: Path, kind: Kind, out: Path, device: str | None, as_json: bool) -> None:
    """Show a judge pictures of known content, and keep how often it says what of each true class.

    \b
    verism judge card --role skin_tone --judge cascade --truth PORTRAITS --out card.json
    verism judge card --role skin_tone --judge cascade:illumination=grey-world --truth PORTRAITS --out grey.json

    Runs judged by exactly this judge may name the card to have its error taken out of their distributions.
    """
    from verism.cards import write_card
    from verism.pipeline.calibration import calibrate, read_truth
    from verism.records import SkinToneNeed
    from verism.registry import Context, make_judge

    tasks = {"tone": TONES}
    known = read_truth(truth, tasks, FACETS)
    made: JudgeCard = calibrate(
        make_judge(name, Context(device=device), role),
        SkinToneNeed(),
        known,
        tasks,
        _read_tones,
        kind=kind,
        groups=tuple(FACETS.values()),
        made={"command": f"verism judge card --role {role} --judge {name!r}", "kind": kind},
        on_done=lambda done: say(f"{done:,} of {len(known.items):,} pictures") if done % 160 == 0 else None,
    )
    write_card(made, out)
    if as_json:
        put_json(without_nan({"card": str(out), "judge": made.judge, "measured": _records(made.measured)}))
    else:
        click.echo(f"{out}: {made.judge}")
        click.echo(made.ground_truth)
        _put_tables(made.measured)


def _read_tones(ids: Sequence[str], observations: pl.DataFrame) -> Iterator[Reading]:
    """Tones as the suite reads them, and besides by the pixel rule, of the largest face."""
    from verism.pipeline.calibration import Reading
    from verism.records import Prompt
    from verism.suites.social_bias.evidence import Shown, VerdictRows, tone_rows
    from verism.suites.social_bias.studies import TONE, Axis

    nothing = Prompt(prompt_id="", suite="social_bias", text="")
    rows = VerdictRows()
    axis = Axis(name=TONE, question="", choices=(), strip="", groups=())
    tone_rows(rows, [Shown(image_id=i, prompt=nothing, problem=None) for i in ids], axis, observations)
    for row in rows.table().iter_rows(named=True):
        yield Reading(row["image_id"], TONE, row["protocol"], None if row["value"] is None else f"{row['value']:.0f}")
    largest: Mapping[str, Any] = {
        row["image_id"]: row["rgb_tone"] for row in observations.iter_rows(named=True) if row["face"] == 0
    }
    for image_id in ids:
        tone = largest.get(image_id)
        yield Reading(image_id, TONE, PIXEL_RULE, str(tone) if tone else None)


def _records(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    from verism.pipeline.calibration import summary

    return [
        {"task": m.task, "protocol": m.protocol, "group": dict(m.group), **summary(m)._asdict(), "counts": m.counts}
        for m in measured
    ]


def _put_tables(measured: Sequence[Measured]) -> None:
    """The whole of the pictures as a table of counts, groups as a line each."""
    from verism.pipeline.calibration import summary

    for m in measured:
        s = summary(m)
        if not m.group:
            click.echo(f"\n{m.task}, {m.protocol}: rows are true, columns said; last: nothing usable")
            width = max(4, *(len(label) + 1 for label in m.labels))
            click.echo(" " * width + "".join(f"{label:>{width}}" for label in (*m.labels, "-")))
            for label, row, lost in zip(m.labels, m.counts, m.unusable, strict=True):
                click.echo(f"{label:>{width}}" + "".join(f"{n or '.':>{width}}" for n in (*row, lost)))
        of = ", ".join(f"{key} {value}" for key, value in m.group.items()) or "all"
        click.echo(
            f"  {of:<14} {s.n:>5,} pictures: {s.exact:6.1%} exact, {s.within_one:6.1%} within one, mean error "
            f"{s.bias:+.2f}, unusable {s.unusable:.1%}"
        )
