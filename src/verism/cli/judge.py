"""``verism judge``: how well a judge does where the truth is known."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verism.errors import UsageError
from verism.terminal import Group, PathType, put_json, say, without_nan

if TYPE_CHECKING:
    from verism.annotation.judge_cards import Source
    from verism.cards import JudgeCard, Kind, Measured

__all__ = ["judge"]


@click.group("judge", cls=Group)
def judge() -> None:
    """Measure the errors of judges, and keep them in judge cards.

    \b
    verism scenes portraits --count 600 --seed 1 --out PORTRAITS
    verism judge card --role skin_tone --judge builtin --truth PORTRAITS --out card.json
    verism judge card runs/mine --from human --out card.json
    verism judge show card.json --html card.html
    verism judge bench --role detector --judge builtin --truth rendered:90001 --limit 200 --out B
    """


@dataclass(frozen=True, kw_only=True)
class _OfRun:
    """What a card of a run is made by: where the truth is from, facets, which raters count, and a remark."""

    source: Source | None
    by: str | None
    min_right: float
    note: str


@dataclass(frozen=True, kw_only=True)
class _OfImages:
    """What a card of images of known content is made by: the judge, the images, how their truth is known, device."""

    name: str | None
    truth: Path | None
    kind: Kind | None
    device: str | None


@judge.command("card")
@click.argument("run_dir", metavar="[RUN]", required=False, type=PathType())
@click.option(
    "--from", "source", type=click.Choice(["human", "truth", "model"]), help="With RUN: source of the ground truth."
)
@click.option("--note", default="", help="With RUN: remark on the ground truth, stored in the card.")
@click.option("--by", help="With RUN: facets of the prompts to add tables for, comma-separated.")
@click.option(
    "--min-right",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="With RUN: leave out raters who got a smaller share of the checks right.",
)
@click.option("--role", help="Role of the judge, as in `verism run`: detector, vqa, skin_tone ...")
@click.option("--judge", "name", help="Judge, as in `verism run`: builtin, cascade, onnx:FILE ...")
@click.option(
    "--truth",
    type=PathType(),
    help="Folder of `verism scenes portraits`, or a CSV file with the column path and one for the class.",
)
@click.option(
    "--kind",
    type=click.Choice(["rendered", "human"]),
    help="Source of the ground truth in --truth: rendered, or annotators.  [default: rendered]",
)
@click.option("--out", required=True, type=PathType(dir_okay=False), help="Output file of the card (.json).")
@click.option("--device", help="Device of the judge: cpu, cuda ...")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def card(run_dir: Path | None, role: str | None, out: Path, as_json: bool, **options: Any) -> None:
    """Measure how often a judge predicts each class, by true class, on known images or a finished RUN.

    \b
    verism judge card --role skin_tone --judge builtin --truth PORTRAITS --out card.json
    verism judge card --role skin_tone --judge cascade:illumination=grey-world --truth PORTRAITS --out grey.json
    verism judge card runs/mine --from human --by object --out people.json
    verism judge card runs/scripted --from truth --out rendered.json
    verism score RUN --correct rendered --card card.json      (adjusts a run judged by exactly this judge)

    Ground truth of a RUN: with `--from human` the majority of the annotators who rated its images (verism annotate),
    with `--from truth` that of a generator that renders (verism run ... --model scripted:error=0.4). `--from model` is
    `human` with answers from a model; the card and all numbers adjusted by it record that.
    """
    of_run = _OfRun(**{name: options.pop(name) for name in ("source", "by", "min_right", "note")})
    of_images = _OfImages(**options)
    if run_dir is not None:
        if of_run.source is None:
            raise UsageError("--from is missing: human or model (answers about RUN) or truth (rendered ground truth)")
        if any(value is not None for value in options.values()):
            raise UsageError("--judge, --truth, --kind and --device are of images without a run; leave them or RUN out")
        made = _card_of_run(run_dir, role, of_run)
    elif of_run.source is not None or of_run.by is not None:
        raise UsageError("--from and --by are about a run: name it, as in `verism judge card RUN --from human`")
    else:
        made = _card_of_images(role, of_images)
    from verism.cards import write_card

    write_card(made, out)
    if as_json:
        put_json(without_nan({"card": str(out), "judge": made.judge, "measured": _records(made.measured)}))
    elif run_dir is not None:
        from verism.report_kit.card_page import card_text

        click.echo(f"{out}:\n{card_text(made)}", nl=False)
    else:
        click.echo(f"{out}: {made.judge}")
        click.echo(made.ground_truth)
        _put_tables(made.measured)


def _card_of_run(run_dir: Path, role: str | None, options: _OfRun) -> JudgeCard:
    from verism import api

    facets = [part.strip() for part in (options.by or "").split(",") if part.strip()]
    assert options.source is not None
    return api.judge_card(run_dir, options.source, role=role, by=facets, min_right=options.min_right, note=options.note)


def _card_of_images(role: str | None, options: _OfImages) -> JudgeCard:
    from verism.judges.calibration import calibration_of
    from verism.pipeline.calibration import calibrate, read_truth
    from verism.registry import Context, make_judge

    name, truth, kind = options.name, options.truth, options.kind or "rendered"
    if role is None or name is None or truth is None:
        raise UsageError("give a RUN and --from, or all of --role, --judge and --truth; see: verism judge card --help")
    try:
        calibration = calibration_of(role)
    except UsageError as err:
        raise click.BadParameter(str(err), param_hint="--role") from None
    known = read_truth(truth, calibration)
    return calibrate(
        make_judge(name, Context(device=options.device), role),
        calibration,
        known,
        kind=kind,
        made={"command": f"verism judge card --role {role} --judge {name!r}", "kind": kind},
        on_done=lambda done: say(f"{done:,} of {len(known.items):,} images") if done % 160 == 0 else None,
    )


@judge.command("show")
@click.argument("cards", nargs=-1, required=True, type=PathType())
@click.option("--html", "page", type=PathType(dir_okay=False), help="Also write an HTML page to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the rates of every table as JSON.")
def show(cards: tuple[Path, ...], page: Path | None, as_json: bool) -> None:
    """Show judge CARDS: how often the judge errs, by class and group, what it was measured on, and its limits.

    A name without a file is looked up among the cards that come with verism.

    \b
    verism judge show card.json
    verism judge show card.json --html card.html
    verism judge show detector-builtin
    """
    from verism.report_kit.card_page import card_text, write_card_page

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
@click.argument("cards", nargs=-1, required=True, type=PathType())
@click.option("--out", required=True, type=PathType(dir_okay=False), help="Output file of the card (.json).")
def merge(cards: tuple[Path, ...], out: Path) -> None:
    """Merge several CARDS of one judge: their counts add up.

    \b
    verism judge merge people-1.json people-2.json --out people.json
    """
    from verism.cards import merge_cards, write_card
    from verism.report_kit.card_page import card_line

    made = merge_cards([_read(path) for path in cards])
    write_card(made, out)
    click.echo(f"{out}: {made.judge}\n{card_line(made)}")


def _records(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    from verism.pipeline.calibration import summary

    return [
        {"task": m.task, "protocol": m.protocol, "group": dict(m.group), **summary(m)._asdict(), "counts": m.counts}
        for m in measured
    ]


def _put_tables(measured: Sequence[Measured]) -> None:
    """All images as a table of counts, groups as a line each."""
    from verism.pipeline.calibration import summary

    for m in measured:
        s = summary(m)
        if not m.group:
            click.echo(f"\n{m.task}, {m.protocol}: rows are true, columns predicted; last: nothing usable")
            width = max(4, *(len(label) + 1 for label in m.labels))
            click.echo(" " * width + "".join(f"{label:>{width}}" for label in (*m.labels, "-")))
            for label, row, unusable in zip(m.labels, m.counts, m.unusable, strict=True):
                click.echo(f"{label:>{width}}" + "".join(f"{n or '.':>{width}}" for n in (*row, unusable)))
        group = ", ".join(f"{key} {value}" for key, value in m.group.items()) or "all"
        click.echo(
            f"  {group:<14} {s.n:>5,} images: {s.exact:6.1%} exact, {s.within_one:6.1%} within one, mean error "
            f"{s.bias:+.2f}, unusable {s.unusable:.1%}"
        )


@judge.command("bench")
@click.option("--role", required=True, help="Role of the judges: detector, segmenter, clip, vqa ...")
@click.option("--judge", "judges", multiple=True, required=True, help="Judge, as in `verism run`; repeatable.")
@click.option(
    "--truth",
    default="rendered",
    show_default=True,
    help="Ground truth: rendered, rendered:SEED, or human:RUN (images that annotators rated).",
)
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="Images per suite.")
@click.option("--suite", "suites", multiple=True, help="Use only this suite; repeatable.")
@click.option(
    "--disturb",
    default="",
    help="Disturbances, comma-separated: blur, jpeg, resize, occlusion; with a strength: blur=2.",
)
@click.option(
    "--out", required=True, type=PathType(file_okay=False), help="Folder of the bench; an existing one is resumed."
)
@click.option(
    "--size",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="Width and height of rendered images, in pixels.",
)
@click.option("--device", help="Device of the judges: cpu, cuda ...")
@click.option("--threads", type=click.IntRange(1), help="CPU threads of the judges.")
@click.option("--base-url", help="URL of an OpenAI-compatible service.")
@click.option("--cache", type=PathType(file_okay=False), help="Cache folder for image features.")
@click.option("--json", "as_json", is_flag=True, help="Print the board as JSON.")
def bench(
    role: str,
    judges: tuple[str, ...],
    truth: str,
    limit: int,
    suites: tuple[str, ...],
    disturb: str,
    out: Path,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure judges on images of known truth: accuracy by task and group, and speed.

    \b
    verism judge bench --role detector --judge builtin --truth rendered:90001 --limit 200 --out B
    verism judge bench --role vqa --judge ID_OR_PATH --judge openai:MODEL --disturb blur,jpeg --out V
    verism judge bench --role skin_tone --judge builtin --judge cascade --truth human:runs/mine --out T

    Images are rendered in matched pairs, right and with a planted error, by the suites that declare how; every judge is
    asked about the same ones. OUT gets the board (index.html, board.json, board.md) and a judge card for each judge and
    suite, to adjust scores with: verism score RUN --correct rendered --card CARD. Repeat the command to continue it or
    to add judges.
    """
    from verism.api import RunOptions
    from verism.judge_bench.bench import BenchSettings, Truth, run_bench
    from verism.judge_bench.disturbances import parse_disturbances
    from verism.judge_bench.page import write_bench
    from verism.judge_bench.words import bench_record, bench_text

    settings = BenchSettings(
        role=role.replace("-", "_"),
        judges=judges,
        truth=Truth.parse(truth),
        limit=limit,
        disturbances=tuple(parse_disturbances(disturb)),
        suites=suites,
        options=RunOptions(**{name: value for name, value in options.items() if value is not None}),
    )
    board = run_bench(settings, out, tell=say)
    page = write_bench(board, out)
    if as_json:
        put_json(bench_record(board))
    else:
        click.echo(bench_text(board), nl=False)
        click.echo(f"\n{page}")
    if board.stopped:
        if as_json:
            say("\n".join(board.stopped), always=True)
        sys.exit(1)
