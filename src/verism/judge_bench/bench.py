"""Judges of one role on images of known truth: rendered or copied, observed, held against the truth, kept.

A folder of the bench has ``items`` (runs: images with their ground truth, and what every judge observes of them),
``judges`` (a folder for each: what it said of which item, its cards, its time) and the board made of all of them. All
images and observations go through the stages of the pipeline, so that whoever is stopped goes on where it was.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from verism import api
from verism.annotation.judge_cards import Source, card_of_tables, known_tables
from verism.cards import write_card
from verism.errors import Unfinished, UsageError
from verism.files import read_json, well_formed, whole_file, write_json
from verism.judge_bench.board import Board, Judged, make_board
from verism.judge_bench.disturbances import KnownImages, Strength
from verism.judge_bench.items import (
    BenchItem,
    image_groups,
    items_of_tables,
    presence_items,
    read_items,
    write_items,
)
from verism.judge_bench.matching import Match, matching_items, matching_need, plan_matches
from verism.limits import MAX_SEED
from verism.locations import location
from verism.manifest import RunSettings
from verism.parquet import read_parquet
from verism.pipeline.local import ask_again, make_requests, observe_images, run_images
from verism.records import FAILED, Generator, Judge, LoadedImage, Need, Prompt, content_hash, roles
from verism.registry import ModelPool, make_generator
from verism.specs import JudgeBench
from verism.store import Run
from verism.suites.base import Suite
from verism.suites.catalogue import SUITES, make_suite, plugin_of, stored_suite, suite_class, suite_entries

__all__ = ["BENCH", "BenchSettings", "TimedJudge", "Truth", "bench_roles", "run_bench"]

BENCH = "bench.json"
FORMAT = "verism-judge-bench"
VERSION = 1
ITEMS = "items.parquet"
DEFAULT_LIMIT = 200
BOXES = ("detections", "segments")  # tables whose confidences are held against what is in the image

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Where items of known truth are from.

    Attributes:
        seed: of scenes that are rendered.
        run: run whose images annotators rated, in place of rendered ones; None: they are rendered.
    """

    seed: int = 0
    run: Path | None = None

    @staticmethod
    def parse(text: str) -> Truth:
        """``rendered``, ``rendered:SEED`` or ``human:RUN``.

        Raises:
            UsageError: something else.
        """
        kind, _, rest = text.partition(":")
        if kind == "human" and rest:
            return Truth(run=location(rest))
        if kind == "rendered":
            if not rest:
                return Truth()
            if rest.isdecimal() and int(rest) <= MAX_SEED:
                return Truth(seed=int(rest))
        raise UsageError(f"--truth is rendered, rendered:SEED (a whole number) or human:RUN; got {text!r}")

    @property
    def source(self) -> Source:
        """As judge cards call it."""
        return "truth" if self.run is None else "human"

    def __str__(self) -> str:
        return f"rendered:{self.seed}" if self.run is None else f"human:{self.run}"


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """What a bench asks.

    Attributes:
        role: of the judges.
        judges: their names, as for ``verism run``; or judges.
        truth: where the items are from.
        limit: images of each suite, at least 1.
        disturbances: what is done to the images besides.
        suites: only these; empty: all that declare a bench of the role.
        options: of runs (device, threads, size ...).
    """

    role: str
    judges: tuple[str | Judge, ...]
    truth: Truth
    limit: int = DEFAULT_LIMIT
    disturbances: tuple[Strength, ...] = ()
    suites: tuple[str, ...] = ()
    options: api.RunOptions = field(default_factory=api.RunOptions)

    def record(self) -> dict[str, Any]:
        """What items depend on, as plain JSON."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "role": self.role,
            "truth": str(self.truth),
            "limit": self.limit,
            "suites": sorted(self.suites),
            "size": self.options.size,
        }


@dataclass(frozen=True, eq=False)
class _Items:
    """Images of one suite, and how they are asked about.

    Attributes:
        name: of the folder.
        suite: whose rules decide.
        bench: how judges are held against it.
        make: the generator of the images.
        truth_of: run that annotators rated; None: the images' own ground truth.
        seed: of requests, and of wrong prompts.
    """

    name: str
    suite: Suite
    bench: JudgeBench
    make: Callable[[], Generator]
    truth_of: Run | None
    seed: int


class TimedJudge:
    """A judge with a clock.

    Args:
        judge: who observes.

    Attributes:
        seconds: spent in it.
        images: shown to it.
        stopped: why it could not go on; empty as long as it can.
        failed: answers that did not come.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name = judge.name
        self.seconds = 0.0
        self.images = 0
        self.stopped = ""
        self.failed = 0

    def observe(self, images: Sequence[LoadedImage], need: Need) -> Any:
        """As the judge, with the time noted."""
        begun, shown = time.perf_counter(), len(images)
        try:
            rows = self._judge.observe(images, need)
            if not isinstance(rows, Mapping) and "note" in getattr(rows, "columns", ()):
                self.failed += int(rows["note"].str.starts_with(FAILED).sum())
            return rows
        except UsageError as err:
            self.stopped = str(err)
            shown = err.rows["image_id"].n_unique() if isinstance(err, Unfinished) else 0
            raise
        finally:
            self.seconds += time.perf_counter() - begun
            self.images += shown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)


# --------------------------------------------------------------------------------------------------------------- items
def bench_roles() -> dict[str, list[str]]:
    """Suites that declare a bench, by role of the judges; suites that cannot be loaded are left out."""
    found: dict[str, list[str]] = {}
    for name, bench in _declared():
        for role in bench.roles:
            if name not in found.setdefault(role, []):
                found[role].append(name)
    return {role: found[role] for role in roles() if role in found}


def _declared() -> Iterator[tuple[str, JudgeBench]]:
    for name in suite_entries():
        try:
            declared = suite_class(name).benches
        except UsageError:
            if name in SUITES:
                raise
            continue  # a package that is broken has no bench
        for bench in declared:
            yield name, bench


def _rendered(settings: BenchSettings) -> list[_Items]:
    known = bench_roles()
    if settings.role not in known:
        raise UsageError(
            f"no suite declares a bench of judges with the role {settings.role!r}; there are {', '.join(known)}. "
            "Images that annotators rated are taken with --truth human:RUN"
        )
    if foreign := [name for name in settings.suites if name not in known[settings.role]]:
        raise UsageError(
            f"{foreign[0]} declares no bench of judges with the role {settings.role!r}; there are "
            f"{', '.join(known[settings.role])}"
        )
    seed = settings.truth.seed
    made = []
    for name, bench in _declared():
        if settings.role not in bench.roles or (settings.suites and name not in settings.suites):
            continue
        prompts = max(1, -(-settings.limit // bench.images_per_prompt))
        options = {**bench.options, "limit": prompts}
        if any(option.name == "seed" for option in suite_class(name).options):
            options["seed"] = seed
        suite = make_suite(name, **options)
        if bench.rules:
            suite = suite.with_rules(**bench.rules)
        made.append(
            _Items(
                name=f"{name}-prompts" if bench.by_prompts else name,
                suite=suite,
                bench=bench,
                make=functools.partial(_renderer, suite, bench, settings),
                truth_of=None,
                seed=seed,
            )
        )
    return made


def _renderer(suite: Suite, bench: JudgeBench, settings: BenchSettings) -> Generator:
    name = bench.model.replace("{seed}", str(settings.truth.seed))
    return make_generator(name, settings.options.context(suite, list(suite.prompts())))


def _rated(settings: BenchSettings) -> list[_Items]:
    assert settings.truth.run is not None
    source = Run.open(settings.truth.run)
    suite = stored_suite(source, rules=True)
    if settings.role not in [need.role for need in suite.needs()]:
        raise UsageError(f"{source.path}: {suite.name} asks no judge with the role {settings.role!r}")
    facets = dict.fromkeys(p.facet for p in suite.all_pairings() if p.facet)
    tables = [need.table for need in suite.needs()]
    return [
        _Items(
            name=suite.name,
            suite=suite,
            bench=JudgeBench(roles=(settings.role,), model="", paired=True, by=tuple(facets)),
            make=functools.partial(KnownImages, source, tables),
            truth_of=source,
            seed=source.manifest.settings.seed,
        )
    ]


def _images(items: _Items, path: Path, generator: Generator, prompts: Sequence[Prompt], tell: Tell) -> Run:
    """The run with the images of some items, as far as it is there already, and the rest."""
    suite = items.suite
    settings = RunSettings(
        suite=suite.name,
        suite_settings=suite.settings(),
        generator=generator.name,
        seed=items.seed,
        prompts=content_hash([[p.prompt_id, p.text, dict(p.spec)] for p in prompts])[:16],
    )
    run = Run.start(path, settings, plugins=plugin_of(suite))
    run.write_prompts(prompts)
    requests = make_requests(prompts, items.seed, suite.needs())
    run_images(run, requests, generator, [], truth={need.table for need in suite.needs()}, on_failure=tell)
    return run


# --------------------------------------------------------------------------------------------------------------- bench
def run_bench(settings: BenchSettings, out: Path, *, tell: Tell) -> Board:
    """Put judges on the bench; goes on where an interrupted call stopped, and keeps judges of earlier calls.

    Args:
        settings: what is asked of whom.
        out: folder of the bench, new or of an earlier call with the same settings (but for judges and disturbances).
        tell: called with a line about what is done.

    Returns:
        The board of all judges in the folder, with those that could not go on (a service that is down).

    Raises:
        UsageError: no such role, judge or suite; a folder of another bench; a judge that can be asked about none of
            the suites; no judge that could go on, on a bench without any other.
    """
    if settings.role not in roles():
        raise UsageError(f"no role {settings.role!r}; judges have the roles {', '.join(roles())}")
    if not settings.judges:
        raise UsageError("name a judge: --judge NAME. See: verism list judges")
    if settings.limit < 1:
        raise UsageError(f"--limit must be at least 1, got {settings.limit}")
    sources = _rendered(settings) if settings.truth.run is None else _rated(settings)
    _same_bench(settings, out)
    stopped = [line for given in settings.judges if (line := _put_on_bench(given, settings, sources, out, tell))]
    if stopped and not _records(out):
        raise UsageError("\n".join(stopped))
    return replace(read_bench(out), stopped=tuple(stopped))


def _same_bench(settings: BenchSettings, out: Path) -> None:
    """Begin the folder of a bench, or see that it is of the same one."""
    file, record = out / BENCH, settings.record()
    if file.exists():
        there = read_json(file, "the settings of a judge bench")
        differing = [name for name, value in record.items() if there.get(name) != value]
        if differing:
            listed = ", ".join(f"{name} {there.get(name)!r} there, {record[name]!r} now" for name in differing)
            raise UsageError(f"{out} holds another bench ({listed}); name another --out")
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is no folder of a judge bench; name another --out")
    out.mkdir(parents=True, exist_ok=True)
    write_json(file, record)


def folder_of(given: str) -> str:
    """The name of a judge's folder.

    >>> folder_of("transformers:a/b?size=3") == folder_of("transformers:a/b?size=4")
    False
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-.")[:60]
    return plain if plain == given else f"{plain}-{content_hash(given)[:8]}"


def _put_on_bench(asked: str | Judge, settings: BenchSettings, sources: Sequence[_Items], out: Path, tell: Tell) -> str:
    """Ask a judge what it was not asked yet; why it could not go on, or nothing."""
    given = asked if isinstance(asked, str) else asked.name
    folder = out / "judges" / folder_of(given)
    items: list[BenchItem] = []
    notes: list[str] = []
    cards: list[str] = []
    name, shown = "", 0
    with ModelPool() as pool:
        for source in sources:
            context = settings.options.context(source.suite, list(source.suite.prompts()))
            judge = TimedJudge(pool.judge(asked, context, settings.role) if isinstance(asked, str) else asked)
            name = judge.name
            tell(f"{given}: {source.suite.name}")
            try:
                for strength in (None, *settings.disturbances):
                    made, card = _observed(source, judge, settings, strength, out, folder, tell)
                    items += made
                    cards += [card] if card else []
            except _NotAskedError as err:
                notes.append(f"not asked about {source.name}: {err}")
                continue
            except UsageError:
                if not judge.stopped:
                    raise
                line = (
                    f"{given} could not be asked to the end, so it is not on the board"
                    f"{' but for what it answered in an earlier call' if (folder / 'judge.json').exists() else ''}: "
                    f"{judge.stopped}. Repeat the command to ask it the rest"
                )
                tell(line)
                return line
            if lost := Run.open(out / "items" / source.name).unusable().height:
                notes.append(f"{lost:,} images of {source.suite.name} are not there and were not asked about")
            if judge.failed:
                notes.append(
                    f"{judge.failed:,} answers about {source.suite.name} did not come; repeat the command to ask again"
                )
            for line in [*getattr(judge, "remarks", list)(), *getattr(judge, "summary", list)()]:
                if line not in notes:
                    notes.append(line)
            shown += judge.images
    if not items:
        raise UsageError(f"{given} can be asked about none of the suites: {'; '.join(notes)}")
    folder.mkdir(parents=True, exist_ok=True)
    clock = _clock(folder)
    if not shown and (folder / "judge.json").exists():  # who was asked nothing has nothing to say of it
        notes = list(read_json(folder / "judge.json", "what a judge did on the bench")["notes"])
    with whole_file(folder / ITEMS) as file:
        write_items(items).write_parquet(file)
    record = {
        "given": given,
        "name": name,
        "seconds": clock["seconds"],
        "images": clock["images"],
        "notes": notes,
        "cards": cards,
    }
    write_json(folder / "judge.json", record)
    return ""


def _need(suite: Suite, role: str) -> Need:
    return next(need for need in suite.needs() if need.role == role)


class _NotAskedError(UsageError):
    """A judge cannot be asked about a suite."""


def _check(judge: TimedJudge, need: Need) -> None:
    """See that a judge can be asked.

    Raises:
        _NotAskedError: it says that it cannot.
    """
    try:
        getattr(judge, "check", lambda _: None)(need)
    except UsageError as err:
        raise _NotAskedError(str(err)) from err


def _observed(
    source: _Items,
    judge: TimedJudge,
    settings: BenchSettings,
    strength: Strength | None,
    out: Path,
    folder: Path,
    tell: Tell,
) -> tuple[list[BenchItem], str]:
    """What a judge says of one suite's images, as they are or disturbed; and the file of its card, if there is one."""
    if not source.bench.by_prompts:
        _check(judge, _need(source.suite, settings.role))  # before the first image is rendered
    plain = out / "items" / source.name
    prompts = list(source.suite.prompts())
    generator = source.make()
    try:
        run = _images(source, plain, generator, prompts, tell)
    finally:
        getattr(generator, "close", lambda: None)()
    origin = run
    if strength is not None:
        tables = [need.table for need in source.suite.needs()]
        path = out / "disturbed" / f"{source.name}-{strength.kind}-{strength.strength:g}"
        run = _images(source, path, KnownImages(origin, tables, strength), prompts, tell)
    groups = image_groups(origin, prompts, source.bench.by)
    matches: Sequence[Match] = ()
    if source.bench.by_prompts:
        matches = _matches(source, origin, settings, tell)
        need = matching_need(settings.role, matches)
        _check(judge, need)
    else:
        need = _need(source.suite, settings.role)
    with _noted_time(judge, folder):
        requests = make_requests(prompts, source.seed)
        if again := ask_again(run, requests, judge, need):
            tell(f"{judge.name}: asked again what it had failed to answer: {again:,}")
        observe_images(run, requests, judge, need)
    label = "" if strength is None else str(strength)
    if source.bench.by_prompts:
        return matching_items(
            run,
            judge.name,
            settings.role,
            matches,
            suite=source.suite.name,
            groups=groups,
            disturbance=label,
        ), ""
    return _against_truth(source, run, judge, settings, groups, label, folder)


def _against_truth(
    source: _Items,
    run: Run,
    judge: TimedJudge,
    settings: BenchSettings,
    groups: Mapping[str, Mapping[str, str]],
    disturbance: str,
    folder: Path,
) -> tuple[list[BenchItem], str]:
    suite, bench = source.suite, source.bench
    threshold = getattr(judge, "threshold", None)
    calibrated = {rule.name: threshold for rule in suite.rules if rule.calibrated_by == settings.role}
    if threshold is not None and calibrated:
        suite = suite.with_rules(**calibrated)
    kind = settings.truth.source
    known = known_tables(
        run, suite, kind, role=settings.role, judges={settings.role: judge.name}, truth_of=source.truth_of
    )
    protocols = list(suite.info.protocols)
    protocol = "revised" if "revised" in protocols else protocols[0]
    items = items_of_tables(
        known, suite=suite.name, protocol=protocol, paired=bench.paired, groups=groups, disturbance=disturbance
    )
    table = _need(suite, settings.role).table
    if table in BOXES and source.truth_of is None:  # annotators are not asked about single boxes
        items += presence_items(
            run,
            judge.name,
            table,
            suite=suite.name,
            threshold=0.5 if threshold is None else float(threshold),
            paired=bench.paired,
            groups=groups,
            disturbance=disturbance,
        )
    if disturbance:
        return items, ""
    card = f"card-{source.name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_card(card_of_tables(run, suite, kind, known), folder / card)
    return items, f"judges/{folder.name}/{card}"


def _matches(source: _Items, origin: Run, settings: BenchSettings, tell: Tell) -> list[Match]:
    """The images with their wrong prompts: drawn from all prompts of the suite, not from those that are asked alone."""
    options = dict(source.bench.options)
    if any(option.name == "seed" for option in type(source.suite).options):
        options["seed"] = settings.truth.seed
    every = list(make_suite(source.suite.name, **options).prompts())
    matches, without = plan_matches(origin, source.suite, every, seed=settings.truth.seed)
    if not matches:
        raise UsageError(f"{source.suite.name}: no image has another prompt of its form that is wrong for it")
    if without:
        tell(f"{source.suite.name}: {without:,} images have no other prompt of their form that is wrong for them")
    return matches


# ---------------------------------------------------------------------------------------------------------------- time
@contextmanager
def _noted_time(judge: TimedJudge, folder: Path) -> Iterator[None]:
    """Add what a judge took to its clock, also where it is stopped."""
    seconds, images = judge.seconds, judge.images
    try:
        yield
    finally:
        if judge.images > images:
            before = _clock(folder)
            folder.mkdir(parents=True, exist_ok=True)
            added = {"seconds": judge.seconds - seconds, "images": judge.images - images}
            write_json(folder / "time.json", {name: before[name] + value for name, value in added.items()})


def _clock(folder: Path) -> dict[str, Any]:
    file = folder / "time.json"
    return dict(read_json(file, "the time a judge took")) if file.exists() else {"seconds": 0.0, "images": 0}


# ---------------------------------------------------------------------------------------------------------------- read
def _records(out: Path) -> list[Path]:
    return sorted((out / "judges").glob("*/judge.json"))


def read_bench(out: Path) -> Board:
    """The board of all judges in a folder.

    Args:
        out: folder of a bench.

    Raises:
        UsageError: it is none, or no judge is in it yet.
    """
    settings = read_json(out / BENCH, "the settings of a judge bench, as `verism judge bench` writes them")
    judges = []
    for file in _records(out):
        record = read_json(file, "what a judge did on the bench")
        with well_formed(file):
            judges.append(
                Judged(
                    given=record["given"],
                    name=record["name"],
                    items=tuple(read_items(read_parquet(file.parent / ITEMS))),
                    seconds=record["seconds"],
                    images=record["images"],
                    notes=tuple(record["notes"]),
                    cards=tuple(record["cards"]),
                )
            )
    if not judges:
        raise UsageError(f"{out}: no judge has finished on this bench yet")
    return make_board(settings["role"], settings["truth"], judges)
