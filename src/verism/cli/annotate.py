"""The command for human evaluation: a page in the browser, files for crowd platforms, and their answers back."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from verism.errors import UsageError
from verism.systems import quoted
from verism.terminal import SEED, PathType, put_json, say

if TYPE_CHECKING:
    from verism.annotation.votes import VoteStore
    from verism.records import RatingTask
    from verism.store import Run

__all__ = ["annotate"]

EXPORTS = ("bundle", "mturk", "label-studio", "table")


@dataclass(frozen=True, kw_only=True)
class _Call:
    """What is to be done, as the options of the command say; what decides the items of a study is not in it.

    Attributes:
        names: tasks by name.
        own: file of the user's own tasks.
        name: of the study.
        host: address or name of the page.
        port: of the page; 0 for any free one.
        open_browser: whether to open the page here.
        raters: names of raters to add.
        plan_: only say how many answers are needed.
        half_width: of the interval that is planned for.
        cards: judge cards to plan by.
        status: only say how far the study is.
        draw: make the study if there is none, say how far it is, and open no page.
        export_: kind of the export.
        to: its folder.
        image_url: where its images will be found.
        items_per_hit: of an export for Mechanical Turk.
        import_: answers from elsewhere.
    """

    names: tuple[str, ...]
    own: Path | None
    name: str
    host: str
    port: int
    open_browser: bool
    raters: tuple[str, ...]
    plan_: bool
    half_width: float
    cards: tuple[Path, ...]
    status: bool
    draw: bool
    export_: str | None
    to: Path | None
    image_url: str | None
    items_per_hit: int
    import_: Path | None


@click.command()
@click.argument("run_dirs", nargs=-1, required=True, type=PathType())
@click.option(
    "--task", "names", multiple=True, help="Question to ask; repeatable. Without it, the questions are listed."
)
@click.option("--tasks", "own", type=PathType(), help="File with questions of your own (.yaml, .json).")
@click.option("--per-cell", type=click.IntRange(1), help="Items per cell.  [default: all]")
@click.option("--by", help="Facets of the prompts that define the cells, comma-separated.")
@click.option("--overlap", type=click.IntRange(1), default=1, show_default=True, help="Raters per item.")
@click.option("--gold", type=PathType(), help="Items with known answers: item, task, answer, check.")
@click.option("--attention-every", type=click.IntRange(1), default=20, show_default=True, help="Items between checks.")
@click.option(
    "--pass-mark",
    type=click.FloatRange(0, 1),
    default=0.8,
    show_default=True,
    help="Share of right answers that passes a qualification.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed for sampling items.")
@click.option("--study", "name", default="study", show_default=True, help="Name of the study; a run may have several.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; any but this machine's own requires tokens.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port to listen on; 0: any free one."
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in this machine's browser.")
@click.option("--rater", "raters", multiple=True, help="Add a rater by name and print their link; repeatable.")
@click.option("--plan", "plan_", is_flag=True, help="Print how many answers --half-width needs, and exit.")
@click.option(
    "--half-width", type=float, default=0.05, show_default=True, help="Half-width of the interval to plan for."
)
@click.option("--card", "cards", multiple=True, type=PathType(), help="Judge card for --plan; repeatable.")
@click.option("--status", is_flag=True, help="Print the progress of the study, and exit.")
@click.option("--draw", is_flag=True, help="Sample the items and create the study without serving the page.")
@click.option(
    "--export",
    "export_",
    type=click.Choice(EXPORTS),
    help="Write files for another platform instead of serving the page.",
)
@click.option("--to", type=PathType(), help="Folder of the export.")
@click.option("--image-url", help="With --export: URL of the images; {name} stands for the file name.")
@click.option(
    "--items-per-hit", type=click.IntRange(1), default=10, show_default=True, help="Items per HIT of a mturk export."
)
@click.option("--import", "import_", type=PathType(), help="File of answers that were collected elsewhere.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def annotate(run_dirs: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Let annotators rate the images of a run, in a page in the browser or on a crowd platform.

    The first call samples the items and creates the study; the same call later continues it. Answers are stored in
    RUN/annotation as soon as they are given.

    \b
    verism annotate runs/mine                                          which tasks there are
    verism annotate runs/mine --task count --per-cell 20 --by object --overlap 2 --open
    verism annotate runs/bias --task gender --task human --per-cell 3 --by profession --gold gold.csv
    verism annotate runs/mine runs/other --task preference --per-cell 50 --by skill
    verism annotate runs/mine --plan --half-width 0.03
    verism annotate runs/mine --task count --export mturk --to crowd --image-url "https://me.example/{name}"
    verism annotate runs/mine --import Batch_123_batch_results.csv
    verism annotate runs/mine --status
    verism agreement runs/mine
    verism score runs/mine --correct human
    """
    from verism import api
    from verism.annotation.ratings import find_study
    from verism.annotation.votes import NEEDS_DISK
    from verism.locations import check_on_disk

    runs = [api.open_run(path) for path in run_dirs]
    call = _Call(**{f.name: options.pop(f.name) for f in fields(_Call)})
    if call.plan_:
        _plan(runs[0], call.half_width, call.cards, as_json)
        return
    check_on_disk(runs[0].path, NEEDS_DISK)
    if call.export_ is not None and call.to is None:
        raise UsageError("--to is missing: name the folder that the files go to")
    if call.export_ == "mturk" and call.image_url is None:
        raise UsageError("--image-url is missing: where workers will find the images, with {name} for the file")
    names, subset, name = call.names, call.own, call.name
    if find_study(runs[0], name) is None:
        nothing_asked = not names and subset is None
        needs_study = call.status  # it makes none, whatever tasks are named
        if needs_study or (
            nothing_asked and (call.import_ is not None or call.export_ is not None or call.raters or call.draw)
        ):
            run_dir = quoted(runs[0].path)
            raise UsageError(
                f"{runs[0].path} has no study {name!r} yet; make one: verism annotate {run_dir} --task NAME ..."
            )
        if nothing_asked:
            _list_tasks(runs[0], as_json)
            return
    store = _study(runs, names, subset, name, options)
    if call.import_ is not None:
        _import(store, call.import_, runs[0])
        _status(store, as_json)
    elif call.export_ is not None:
        _export(store, runs, call)
    elif call.raters:
        _add_raters(store, call)
    elif call.status or call.draw:
        _status(store, as_json)
    else:
        from verism.annotation.server import LOOPBACK, serve

        tokens = call.host not in LOOPBACK
        serve(store, runs, host=call.host, port=call.port, open_browser=call.open_browser, tokens=tokens)
        _status(store, as_json)


def _import(store: VoteStore, path: Path, run: Run) -> None:
    from verism.annotation.exchange import import_ratings

    put = import_ratings(store, path)
    for where, why in put.skipped:
        say(f"skipped: {where}: {why}")
    known = f", {put.n_unchanged:,} were there already" if put.n_unchanged else ""
    raters = f"{put.n_raters:,} rater{'s' * (put.n_raters != 1)}"
    say(f"{put.n_votes:,} answers of {raters} taken in{known}; see: verism agreement {quoted(run.path)}")


def _export(store: VoteStore, runs: Sequence[Run], call: _Call) -> None:
    from verism.annotation.exchange import export_study

    assert call.to is not None
    assert call.export_ is not None
    written = export_study(
        store, runs, call.export_, call.to, image_url=call.image_url, items_per_hit=call.items_per_hit
    )
    for path in written:
        say(f"wrote {path}")


def _add_raters(store: VoteStore, call: _Call) -> None:
    if call.port == 0:
        raise UsageError("--port 0 is any free port: name the one that the page will have, for the links")
    host = socket.gethostname() if call.host in ("0.0.0.0", "::") else call.host  # every address of this machine
    for rater in call.raters:
        _, token = store.add_rater(rater)
        say(f"{rater}: http://{host}:{call.port}/?token={token}   (shown once; send it to nobody else)")


def _list_tasks(run: Run, as_json: bool) -> None:
    from verism.annotation.tasks import PREFERENCE, tasks_of

    tasks = [*tasks_of(run), PREFERENCE]
    if as_json:
        put_json([asdict(task) for task in tasks])
        return
    for task in tasks:
        click.echo(f"{task.name}\n    {task.question}\n    {' | '.join(task.options)}")
    run_dir = quoted(run.path)
    say(f"start with, for example: verism annotate {run_dir} --task {tasks[0].name!r} --per-cell 20 --open")


def _study(
    runs: Sequence[Run], names: tuple[str, ...], own_values: Path | None, name: str, settings: dict[str, Any]
) -> VoteStore:
    """The study of this name: made now, or the one that is there if nothing else was asked for."""
    from verism.annotation.ratings import find_study, link_study, study_path
    from verism.annotation.votes import Study, VoteStore

    there = find_study(runs[0], name)
    if there is not None:
        store = VoteStore.open(there)
        _refuse_other(store, names, own_values, settings)
        return store
    path = study_path(runs[0], name)
    tasks = _tasks(runs, names, own_values)
    items = _items(runs, tasks, settings)
    store = VoteStore.create(
        path,
        Study(
            tasks=tuple(tasks),
            items=tuple(items),
            runs=tuple(str(run.path.absolute()) for run in runs),
            overlap=settings["overlap"],
            qualification=settings["pass_mark"],
            attention_every=settings["attention_every"],
            seed=settings["seed"],
            title=runs[0].name,
            settings=_kept(settings),
        ),
    )
    for other in runs[1:]:
        link_study(other, path)
    checks = sum(item.check is not None for item in items)
    say(f"{len(items) - checks:,} items of {len(tasks)} task{'s' * (len(tasks) > 1)}, {checks} checks: {path}")
    return store


def _kept(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, PurePath) else value for key, value in settings.items()}


def _refuse_other(store: VoteStore, names: tuple[str, ...], own_values: Path | None, settings: dict[str, Any]) -> None:
    """A study is what it is: other items or tasks are another study."""
    context = click.get_current_context()
    supplied = click.core.ParameterSource.COMMANDLINE
    for key, value in _kept(settings).items():
        was = store.study.settings.get(key)
        if context.get_parameter_source(key) == supplied and value != was:
            option = key.replace("_", "-")
            raise UsageError(f"{store.path} was made with --{option} {was}, not {value}; give another --study NAME")
    there = [task.name for task in store.study.tasks]
    missing = [n for n in names if n not in there and not any(t.startswith(f"{n}: ") for t in there)]
    if missing or (own_values is not None and not names and not there):
        raise UsageError(f"{store.path} does not ask {missing[0]!r}; it asks {', '.join(there)}. Give another --study")


def _tasks(runs: Sequence[Run], names: tuple[str, ...], own_values: Path | None) -> list[RatingTask]:
    from verism.annotation.tasks import PREFERENCE, choose_tasks, read_tasks, tasks_of

    mine = [] if own_values is None else read_tasks(own_values)
    offered = {task.name: task for task in [PREFERENCE, *tasks_of(runs[0]), *mine]}
    return choose_tasks(list(offered.values()), names) if names else mine


def _items(runs: Sequence[Run], tasks: list[RatingTask], settings: dict[str, Any]) -> list[Any]:
    from verism.annotation.sampling import draw_items, interleaved, read_checks, with_checks

    by = tuple(part.strip() for part in (settings["by"] or "").split(",") if part.strip())
    checks = [] if settings["gold"] is None else read_checks(settings["gold"], tasks)
    lists = [
        draw_items(
            runs,
            task,
            per_cell=settings["per_cell"],
            by=by,
            seed=settings["seed"],
            without={check["item"] for check in checks if check["task"] == task.name},
        )
        for task in tasks
    ]
    empty = [task.name for task, items in zip(tasks, lists, strict=True) if not items]
    if empty:
        raise UsageError(f"no image fits the task {empty[0]!r} in {', '.join(str(run.path) for run in runs)}")
    # Task after task: annotators answer the same question in a row, and faster for it.
    items = [item for of_task in lists for item in of_task] if len(lists) > 1 else interleaved(lists)
    return with_checks(items, checks, runs, tasks)


def _status(store: VoteStore, as_json: bool) -> None:
    full = store.progress()
    by_rater = {rater: store.progress(rater) for rater in store.raters()}
    if as_json:
        put_json(
            {
                "study": str(store.path),
                "votes": full.votes,
                "spare": full.spare,
                "wanted": full.wanted,
                "raters": [
                    {"name": r.name, "answered": p.answered, "checks": p.checked, "right": p.right, "barred": r.barred}
                    for r, p in by_rater.items()
                ],
            }
        )
        return
    spare = f", and {full.spare:,} more to the same items than the study asks for" if full.spare else ""
    click.echo(f"{store.path}: {full.votes:,} of {full.wanted:,} answers{spare}")
    for rater, p in by_rater.items():
        checks = f", {p.right} of {p.checked} checks right" if p.checked else ""
        barred = f", may not go on: {rater.barred}" if rater.barred else ""
        click.echo(f"  {rater.name}: {p.answered:,} answered{checks}{barred}")


def _plan(run: Run, half_width: float, cards: tuple[Path, ...], as_json: bool) -> None:
    from verism import api

    if not half_width > 0:
        raise UsageError(f"--half-width must be positive, got {half_width}")
    planned = api.plan_labels(run, half_width=half_width, cards=cards)
    if as_json:
        put_json([{**asdict(p), "group": dict(p.group)} for p in planned])
        return
    click.echo(f"answers needed for a 95 % interval of +- {half_width:g}, with the judge's answers and without")
    for p in planned:
        group = ", ".join(f"{k} {v}" for k, v in p.group.items()) or "all"
        needed = [None if n is None else f"{n:,}" for n in (p.with_judge, p.alone)]
        if needed == [None, None]:
            counts = f"not reached with all {p.n_images:,} images; generate more"
        else:
            counts = ", ".join(
                f"{count or f'not reached with all {p.n_images:,} images'} {how}"
                for count, how in zip(needed, ("with", "without"), strict=True)
            )
        basis = {"pilot": f"{p.n_labels} answers there", "card": "judge card", "none": "nothing known of the judge"}
        click.echo(f"  {p.metric} ({group}): {counts} [{basis[p.basis]}]")
