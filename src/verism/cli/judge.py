"""``verism judge``: how well a judge does where the truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verism.errors import UsageError
from verism.terminal import Group, put_json, say, without_nan

if TYPE_CHECKING:
    import polars as pl

    from verism.annotation.carding import Source
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
    verism judge card runs/mine --from human --out card.json
    verism judge show card.json --html card.html
    """


@judge.command("card")
@click.argument("run_dir", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
@click.option("--from", "source", type=click.Choice(["human", "truth"]), help="Of RUN: whose word is the truth.")
@click.option("--by", help="Of RUN: facets by whose values tables are made besides, with commas: object, count ...")
@click.option("--min-right", type=click.FloatRange(0, 1), default=0.0, help="Of RUN: least share of checks right.")
@click.option("--role", help="What the judge is asked for: skin_tone; of RUN, any that looked: detector, vqa ...")
@click.option("--judge", "name", help="The judge, as in `verism run`: cascade, onnx:FILE ...")
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    help="Folder of `verism scenes portraits`, or a CSV file with the columns path and tone.",
)
@click.option(
    "--kind",
    type=click.Choice(["rendered", "human"]),
    help="How the truth of --truth is known: painted so, or said by people.  [default: rendered]",
)
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The card, a .json file.")
@click.option("--device", help="Where a judge with a network runs: cpu, cuda ...")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def card(
    run_dir: Path | None,
    source: Source | None,
    by: str | None,
    min_right: float,
    role: str | None,
    name: str | None,
    truth: Path | None,
    kind: Kind | None,
    out: Path,
    device: str | None,
    as_json: bool,
) -> None:
    """Keep how often a judge says what of each true class: of pictures of known content, or of a finished RUN.

    \b
    verism judge card --role skin_tone --judge cascade --truth PORTRAITS --out card.json
    verism judge card --role skin_tone --judge cascade:illumination=grey-world --truth PORTRAITS --out grey.json

    verism judge card runs/mine --from human --by object --out people.json
    verism judge card runs/scripted --from truth --out painted.json

    From a RUN: `human` takes the majority of the people who looked at its pictures (verism annotate) for the truth,
    `truth` what a painter who knows what it painted told (verism run ... --model scripted:error=0.4).

    Runs judged by exactly this judge may name the card to have its error taken out of their numbers:
    verism score RUN --correct rendered --card card.json
    """
    if run_dir is not None:
        if source is None:
            raise UsageError("--from is missing: human (people's answers about RUN) or truth (what its painter told)")
        if name is not None or truth is not None or kind is not None or device is not None:
            raise UsageError(
                "--judge, --truth, --kind and --device are of pictures without a run; leave them or RUN out"
            )
        _card_of_run(run_dir, source, role, by, min_right, out, as_json)
        return
    if source is not None or by is not None:
        raise UsageError("--from and --by are about a run: name it, as in `verism judge card RUN --from human`")
    if role is None or name is None or truth is None:
        raise UsageError("give a RUN and --from, or all of --role, --judge and --truth; see: verism judge card --help")
    if role != "skin_tone":
        raise click.BadParameter(f"{role!r}: without a RUN there are only cards of skin_tone", param_hint="--role")
    _card_of_pictures(role, name, truth, kind or "rendered", out, device, as_json)


def _card_of_run(
    run_dir: Path, source: Source, role: str | None, by: str | None, min_right: float, out: Path, as_json: bool
) -> None:
    from verism import api
    from verism.cards import write_card
    from verism.reports.card_page import card_text

    facets = [part.strip() for part in (by or "").split(",") if part.strip()]
    made = api.judge_card(run_dir, source, role=role, by=facets, min_right=min_right)
    write_card(made, out)
    if as_json:
        put_json(without_nan({"card": str(out), "judge": made.judge, "measured": _records(made.measured)}))
    else:
        click.echo(f"{out}:\n{card_text(made)}", nl=False)


def _card_of_pictures(
    role: str, name: str, truth: Path, kind: Kind, out: Path, device: str | None, as_json: bool
) -> None:
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


@judge.command("show")
@click.argument("cards", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="A page about it in this file.")
@click.option("--json", "as_json", is_flag=True, help="Rates of every table, as JSON.")
def show(cards: tuple[Path, ...], page: Path | None, as_json: bool) -> None:
    """What CARDS say: how often the judge errs, by class and group, what it was measured on, and what limits it.

    A name without a file is looked up among the cards that come with verism.

    \b
    verism judge show card.json
    verism judge show card.json --html card.html
    verism judge show detector-builtin
    """
    from verism.reports.card_page import card_text, write_card_page

    known = [_read(path) for path in cards]
    if page is not None:
        (say if as_json else click.echo)(str(write_card_page(known, page)))
    if as_json:
        put_json([without_nan({"judge": c.judge, "measured": _records(c.measured)}) for c in known])
    elif page is None:
        click.echo("\n".join(card_text(c) for c in known), nl=False)


def _read(path: Path) -> JudgeCard:
    from importlib import resources

    from verism.cards import read_card

    shipped = resources.files("verism") / "data" / "cards" / f"{path}.json"
    if not path.exists() and path.parent == Path() and shipped.is_file():
        with resources.as_file(shipped) as file:
            return read_card(file)
    return read_card(path)


@judge.command("merge")
@click.argument("cards", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The card, a .json file.")
def merge(cards: tuple[Path, ...], out: Path) -> None:
    """Several CARDS of one judge as one: their counts add up.

    \b
    verism judge merge people-1.json people-2.json --out people.json
    """
    from verism.cards import merge_cards, write_card
    from verism.reports.card_page import card_line

    made = merge_cards([_read(path) for path in cards])
    write_card(made, out)
    click.echo(f"{out}: {made.judge}\n{card_line(made)}")


def _read_tones(ids: Sequence[str], observations: pl.DataFrame) -> Iterator[Reading]:
    """Tones as the suite reads them, and besides by the pixel rule, of the largest face."""
    from verism.pipeline.calibration import Reading
    from verism.records import Prompt
    from verism.suites.social_bias.evidence import tone_rows
    from verism.suites.social_bias.studies import TONE, Axis
    from verism.suites.verdict_table import ShownImage, VerdictRows

    nothing = Prompt(prompt_id="", suite="social_bias", text="")
    rows = VerdictRows()
    axis = Axis(name=TONE, question="", choices=(), strip="", groups=())
    tone_rows(rows, [ShownImage(image_id=i, prompt=nothing, index=0, problem=None) for i in ids], axis, observations)
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
