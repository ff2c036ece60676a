"""verism from Python: the same steps as the command line, with objects instead of files.

>>> import verism
>>> run = verism.evaluate("paintskills", images="my_images", out="runs/mine")        # doctest: +SKIP
>>> run.metrics()                                                                    # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from verism import store
from verism.annotation.agreement import agreement_report
from verism.annotation.judge_cards import Source, card_of_run
from verism.annotation.planning import Planned
from verism.annotation.planning import plan_labels as planned_labels
from verism.annotation.ratings import (
    given_ratings,
    human_classes,
    rating_remarks,
    ratings_as_labels,
    ratings_of,
    sampling_facets,
)
from verism.cards import ImageSample, JudgeCard, Kind, find_measured, read_card, shipped_cards
from verism.errors import UsageError, VerismError
from verism.exports import Format, export_run
from verism.imaging import REDUCED
from verism.limits import FULL_PIXELS
from verism.locations import location
from verism.manifest import RunSettings, Scoring
from verism.pipeline.added_metrics import Metric
from verism.pipeline.comparison import Difference, compare_runs
from verism.pipeline.continuation import continued_settings
from verism.pipeline.correction import Adjustment, adjust_by_cards, adjust_by_labels
from verism.pipeline.device_processes import DeviceProcesses, visible_devices
from verism.pipeline.gate import Gate, GatePlan, MaxDrop, Require, gate_runs, plan_spread
from verism.pipeline.gate import plan_gate as planned_gate
from verism.pipeline.image_samples import ImageMatch, image_match, sample_images, strata_of
from verism.pipeline.leases import LeasedShares
from verism.pipeline.local import (
    compact_tables,
    failed_answers,
    forget_failures,
    make_requests,
    observe_images,
    run_images,
    unfinished,
)
from verism.pipeline.ray_workers import GENERATOR, RayCluster, RaySettings
from verism.pipeline.reference import observe_reference, reference_set, take_in_reference
from verism.pipeline.regions import RegionJudge, asks_for_regions
from verism.pipeline.scoring import Adjust, judges_of, known_of, planned_scoring, score_run, true_classes
from verism.pipeline.selections import pending_items
from verism.pipeline.shares import ALONE, Shard, Shares
from verism.pipeline.sharing import SharedImages, SharingGenerator
from verism.records import (
    Estimand,
    FeatureNeed,
    Generator,
    Judge,
    Need,
    Prompt,
    ReferenceSet,
    Request,
    Score,
    SegmentationNeed,
    content_hash,
    option_of,
    roles,
)
from verism.registry import Context, ModelPool, Spec, make_generator, make_judge
from verism.renames import protocol_name
from verism.report_kit.comparability import score_command, shown
from verism.report_kit.curves import numbered
from verism.report_kit.evidence import Of, RunDifference
from verism.report_kit.overview import write_overview
from verism.report_kit.page import write_report
from verism.report_kit.tables import sharing
from verism.specs import did_you_mean
from verism.statistics.power import Spread
from verism.store import (
    MANIFEST,
    PROMPTS,
    REPAIR,
    STORAGES,
    TRUTH,
    Compaction,
    IdSet,
    Verification,
    begin_repair,
    check_scoring_name,
    compact_images,
    discard,
)
from verism.suites.base import Rule, Suite
from verism.suites.catalogue import installed_suite, make_suite, plugin_of, presentation_of, stored_suite, suite_class
from verism.systems import quoted
from verism.trackers.evaluation import Evaluation
from verism.trackers.hooks import OnScores, hooks_of, tell_scores

__all__ = [
    "Run",
    "RunOptions",
    "agreement",
    "compact",
    "compare",
    "evaluate",
    "export",
    "gate",
    "generate",
    "judge_card",
    "make_reference",
    "observe",
    "open_run",
    "plan",
    "plan_gate",
    "plan_labels",
    "repair",
    "report",
    "score",
    "verify",
]

PathLike = str | os.PathLike[str]
Tell = Callable[[str], None]
ImageFunction = Callable[[str, int], Any]
R = TypeVar("R", bound=store.Run)
Judges = Mapping[str, "str | Judge"]

# Options of a run that decide its images, or with what they are made and observed.
REPEATED = ("shuffle", "size", "assets", "processes", "threads", "device", "base_url", "cache")
RUN = "run"  # under which processes agree about the run they work on
ROUNDS = 3  # of workers, until nothing is missing: more than one only if a worker was taken for dead and was not
IMAGES = ("images", "")  # images of a run among its tables by judge
SIDES = {
    "text_embeddings": "texts",
    "reference_features": "real images",
}  # tables beside observations, by what is in them
NOBODY = "none"  # in place of a judge's name: leave out what the usual one would observe


class Run(store.Run):
    """A run directory with everything that can be asked of it in a notebook.

    Attributes:
        unfinished: what other processes have not done yet of a run they share, by what it is; then it is not scored.
    """

    unfinished: Mapping[str, int] = MappingProxyType({})

    def report(self, out: PathLike | None = None, *, gallery: int = 120) -> Path:
        """Write the run's report.

        Args:
            out: an ``.html`` file, or a directory that gets an ``index.html``; None: ``report/index.html`` in the run,
                or ``report/NAME.html`` of a scoring that was opened by its name.
            gallery: how many images to show.

        Returns:
            The file written.
        """
        return report(self, out=report_file(self) if out is None else out, gallery=gallery)

    def verify(self) -> Verification:
        """Check every file of the run against its hash, images included; see ``verism.verify``."""
        return verify(self)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is made: what changes neither its prompts nor what its numbers mean.

    Attributes:
        threshold: confidence threshold of a suite that rests on a detector; None: the detector's own calibrated one.
        metrics: added to those of the suite and of installed packages.
        shuffle: whether each prompt gets the image of a prompt drawn at random, its own included.
        retry: whether images that were missing, failed or refused are asked for again, and judges what they failed to
            answer; with an executor, images alone.
        size: width and height of rendered images, pixels.
        assets: folder of the user's own 3D models.
        processes: renderers at once, at least 1.
        threads: number of threads of judges on the CPU; None for their own default.
        device: PyTorch device of Hub models (``cpu``, ``cuda:1`` ...), and of matrix products of the scores on a GPU.
        base_url: base URL of an OpenAI-compatible service.
        cache: folder where judges keep vectors of images by content, shared between runs.
        executor: where the work is done. ``"local"``: in this process. ``"ray"`` or ``"ray:ADDRESS"``: on a Ray
            cluster. A ``RaySettings`` says with how many workers; the workers of a ``RayCluster`` keep their models
            from one run to the next.
        gpus: with the executor ``local``: a process for each GPU of this machine (``"all"``), or for so many of them.
        shard: which share of the images this process does, ``"1/2"`` for the first of two; others do the others. The
            scores come with the last share. None: all of them.
        share: whether several processes that give the same call share the images as they go.
        images_as: how images that the run makes are kept: in ``"files"`` of their own, or many in one of ``"shards"``
            (tar files), which file systems like better where there are a million. None: as the run keeps them, and in
            files if it is new.
        shared: images of other runs, taken instead of being generated again; None for none.
        pool: generators and judges shared with other runs, which load what is named; None: each run loads its own.
        on_failure: called with a line for each image that is not ok.
        on_matched: called with what matched among given images.
        on_summary: called with what the images took: requests, retries, cost; and that nothing was generated.
        on_scores: a function that is called with a ``trackers.Evaluation`` once the scores are written, or a tracker
            (``verism.registry.make_tracker``), or several of them. A tracker that fails is told of in a line.
        step: optimizer steps the model was trained for; functions and trackers are told.
        checkpoint: name of the model's checkpoint; likewise.
        tracked_as: what the model is called by trackers; empty: by the name of the run directory.
    """

    threshold: float | None = None
    metrics: Sequence[Metric] = ()
    shuffle: bool = False
    retry: bool = False
    size: int = 256
    assets: PathLike | None = None
    processes: int = 1
    threads: int | None = None
    device: str | None = None
    base_url: str | None = None
    cache: PathLike | None = None
    executor: str | RaySettings | RayCluster = "local"
    gpus: str | int | None = None
    shard: str | Shard | None = None
    share: bool = False
    images_as: str | None = None
    shared: SharedImages | None = None
    pool: ModelPool | None = None
    on_failure: Tell | None = None
    on_matched: Tell | None = None
    on_summary: Tell | None = None
    on_scores: OnScores | Sequence[OnScores] | None = None
    step: int | None = None
    checkpoint: str = ""
    tracked_as: str = ""

    def context(self, suite: Suite, prompts: Sequence[Prompt]) -> Context:
        """What generators and judges may need to know."""
        return Context(
            prompts=prompts,
            classes=suite.classes,
            colors=suite.colors,
            size=self.size,
            assets=None if self.assets is None else location(self.assets),
            processes=self.processes,
            threads=self.threads,
            device=self.device,
            base_url=self.base_url,
            cache=None if self.cache is None else location(self.cache),
            on_matched=self.on_matched,
        )


@dataclass(frozen=True, eq=False)
class _Call:
    """A call's keyword arguments, by what they concern."""

    run: RunOptions
    judges: dict[str, str | Judge] = field(default_factory=dict)
    suite: dict[str, Any] = field(default_factory=dict)
    again: bool = False  # to make again what is lost of a run

    @contextmanager
    def workers(self) -> Iterator[RayCluster | DeviceProcesses | None]:
        """Who does the work; None: this process does it.

        Raises:
            UsageError: an unknown executor, or options that contradict it.
        """
        executor, gpus = self.run.executor, self.run.gpus
        if executor == "local" and gpus is None:
            yield None
            return
        if self.run.shard is not None or self.run.share:
            raise UsageError("--shard and --share are for processes that work alone: not with --gpus or --executor ray")
        if executor == "local":
            assert gpus is not None
            with DeviceProcesses(visible_devices(gpus)) as processes:
                yield processes
            return
        if gpus is not None:
            raise UsageError("--gpus is for --executor local; on Ray, say --actor-gpus")
        if isinstance(executor, RayCluster):
            yield executor
            return
        with RayCluster(RaySettings.parse(executor) if isinstance(executor, str) else executor) as cluster:
            yield cluster

    def of_worker(self, shares: Shares, kept: dict[str, Any], lines: list[str]) -> _Call:
        """The call as a worker makes it: with models that stay in the worker, and lines for the driver.

        Args:
            shares: what the worker does of it.
            kept: what the worker keeps.
            lines: where messages go.
        """
        told: dict[str, Any] = {"on_failure": shares.tell, "on_matched": lines.append, "on_summary": lines.append}
        pool = kept.setdefault("pool", ModelPool())
        # Other workers have the other cores.
        threads = self.run.threads or kept.get("threads")
        return replace(self, run=replace(self.run, pool=pool, processes=1, threads=threads, **told))

    def to_workers(self) -> _Call:
        """The call without what stays with the driver."""
        here: dict[str, Any] = {
            "executor": "local",
            "gpus": None,
            "retry": False,
            "metrics": (),
            "on_scores": None,
            "pool": None,
        }
        silent: dict[str, Any] = {"on_failure": None, "on_matched": None, "on_summary": None}
        return replace(self, run=replace(self.run, **here, **silent))

    @contextmanager
    def shares(self, out: PathLike | None) -> Iterator[Shares]:
        """Which part of the work this process does.

        Args:
            out: the run directory; None for a temporary one.

        Raises:
            UsageError: options that contradict each other.
        """
        shard = self.run.shard
        if shard is None and not self.run.share:
            yield ALONE
            return
        option = "--share" if shard is None else "--shard"
        if shard is not None and self.run.share:
            raise UsageError("give --shard or --share, not both: shares are dealt beforehand or as processes go")
        if out is None:
            raise UsageError(f"--out is missing: processes with {option} share a run directory")
        if self.run.retry:
            raise UsageError(f"--retry is for a process that works alone; give it without {option}")
        if shard is not None:
            yield shard if isinstance(shard, Shard) else Shard.parse(shard)
            return
        with LeasedShares(location(out)) as shares:
            yield shares

    @staticmethod
    def of(run: RunOptions | None, judges: Judges | None, options: Mapping[str, Any]) -> _Call:
        """Options of the run by their names, judges by their roles; the rest is the suite's."""
        of_run = {f.name for f in fields(RunOptions)}
        named = {**(judges or {}), **{name: options[name] for name in roles() if name in options}}
        if foreign := [name for name in named if name not in roles()]:
            raise UsageError(f"no role {foreign[0]!r}; judges have the roles {', '.join(roles())}")
        return _Call(
            replace(run or RunOptions(), **{k: v for k, v in options.items() if k in of_run}),
            {role: judge for role, judge in named.items() if judge is not None},
            {k: v for k, v in options.items() if k not in of_run and k not in roles()},
        )


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """The arguments of ``evaluate``."""

    suite: str | Suite
    model: str | Generator | ImageFunction | None
    images: PathLike | None
    out: PathLike | None
    rules: Mapping[str, Any] | None
    call: _Call
    judged: bool = True  # whether judges observe the images

    def chosen(self, suite: Suite) -> list[tuple[str | Judge, Need]]:
        """Judges with the needs they fill; none where images are only made."""
        return _chosen(suite, self.call.judges) if self.judged else []


@dataclass(frozen=True, eq=False)
class _Made(Generic[R]):
    """What has become of an evaluation before it is scored.

    Attributes:
        run: the run.
        suite: its suite, with the rules that were asked for.
        requests: all its images.
        names: full names of judges by role.
        thresholds: their own calibrated thresholds by role, of those that have one.
    """

    run: R
    suite: Suite
    requests: Sequence[Request]
    names: Mapping[str, str]
    thresholds: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class _Filled:
    """A need and the judge that fills it."""

    judge: Judge
    need: Need
    made_here: bool  # made from its name, so that it is ours to close


def evaluate(
    suite: str | Suite,
    *,
    model: str | Generator | ImageFunction | None = None,
    images: PathLike | None = None,
    out: PathLike | None = None,
    judges: Judges | None = None,
    rules: Mapping[str, Any] | None = None,
    run_options: RunOptions | None = None,
    **options: Any,
) -> Run:
    """Evaluate a model, or images you have, on a suite. Goes on where an interrupted call stopped.

    What is passed in (a generator, judges) is not closed, and can be used again for the next suite.

    Args:
        suite: a name (``verism list suites``), or a suite.
        model: a generator, its name (``scripted:error=0.2``), or a callable that takes prompt and seed and returns an
            image (array of shape (H, W, 3), uint8, or a PIL image).
        images: instead of a model, a folder or manifest of images.
        out: the run directory, new or to be resumed; None: a temporary one, removed when the run is.
        judges: by role (``detector``, ``features``, ``clip``, ``captioner``, ``vqa``, ``skin_tone``), judges or their
            names (``verism list judges``). A suite asks those it needs, and leaves out what rests on a judge that is
            not named, if the rest makes sense without. Unless others are named, the detector and the judge of skin
            tone are the built-in ones. ``truth``: the ground truth of a
            generator that renders. ``none``: no judge, where there is a usual one.
        rules: rules of the suite by name.
        run_options: how the run is made; single fields can also be given as keywords (``size=64``, ``threads=2``).
        **options: fields of ``RunOptions``, judges by role (``detector="builtin"``), and options of the suite
            (``limit=24``; ``verism run SUITE --help``). Paths as text or ``Path``.

    Returns:
        The finished run: ``run.metrics()``, ``run.frame()``, ``run.failures()``, ``run.report()``.

    Raises:
        UsageError: something asked for does not exist, or the directory holds a run with other settings.
    """
    call = _Call.of(run_options, judges, options)
    asked = _Evaluation(suite, model, images, out, rules, call)
    with call.workers() as workers, call.shares(out) as shares:
        made = _made_by(workers, asked, shares)
        the_suite = _calibrated(made.suite, made.thresholds, call.run.threshold, rules)
        made.run.unfinished = _score_made(made, the_suite, call, shares, by_rules=True)
    if not made.run.unfinished:
        _tell_scores(made.run, call.run)
    return made.run


def generate(
    suite: str | Suite,
    *,
    model: str | Generator | ImageFunction,
    out: PathLike | None = None,
    run_options: RunOptions | None = None,
    **options: Any,
) -> Run:
    """Generate a suite's images and do nothing else; judges observe them later, perhaps on another machine.

    ``verism.observe`` then scores the run by judges, and so does ``verism.evaluate`` with the same model and directory.
    Goes on where an interrupted call stopped, and adds images where more are asked for.

    Args:
        suite: a name, or a suite.
        model: a generator, its name, or a callable; see ``evaluate``.
        out: the run directory; None: a temporary one, removed when the run is.
        run_options: how the run is made.
        **options: fields of ``RunOptions`` and options of the suite.

    Returns:
        The run, not scored; ``run.unfinished`` says what other processes have not done yet.

    Raises:
        UsageError: a judge was named, or what ``evaluate`` refuses.
    """
    call = _Call.of(run_options, None, options)
    if call.judges:
        raise UsageError(f"generate asks no judge: leave out {option_of(next(iter(call.judges)))}, and observe the run")
    asked = _Evaluation(suite, model, None, out, None, call, judged=False)
    with call.workers() as workers, call.shares(out) as shares:
        made = _made_by(workers, asked, shares)
        left = {} if shares.alone else unfinished(made.run, made.requests, [], made.suite.reference)
        if left:
            _say_unfinished(made.run, left, call.run, scored=False)
        else:
            shares.remove()
    made.run.unfinished = left
    return made.run


def _score_made(
    made: _Made[Any], suite: Suite, call: _Call, shares: Shares, *, by_rules: bool = False
) -> Mapping[str, int]:
    """Score a run, unless others have not done all of their share yet.

    Args:
        made: what has become of it.
        suite: with the rules to apply.
        call: the call.
        shares: what this process does of it.
        by_rules: whether the call says by which rules.

    Returns:
        What others have not done, by what it is.
    """
    run = made.run
    with shares.turn("scores"):
        if not shares.alone:
            pairs = [(made.names[need.role], need) for need in suite.needs() if need.role in made.names]
            judged = [(name, need) for name, need in pairs if name != TRUTH]
            left = unfinished(run, made.requests, judged, suite.reference)
            if left:
                _say_unfinished(run, left, call.run)
                return left
            if by_rules:  # somebody may have scored the run meanwhile
                _refuse_other_rules(store.Run.open(run.path), planned_scoring(suite, made.names), call.run)
            if _is_scored_so(run, suite, made.names):
                shares.remove()
                return {}
            compact_tables(run, judged)
        with _products_on(call.run.device):
            score_run(run, suite, judges=made.names, metrics=call.run.metrics)
        shares.remove()
    for need in suite.needs():
        if count := failed_answers(run, made.names.get(need.role, TRUTH), need).height:
            _say_failed(made.names[need.role], count, call.run)
    return {}


def _say_failed(judge: str, count: int, options: RunOptions) -> None:
    alone = options.executor == "local" and options.gpus is None
    (options.on_summary or _say)(
        f"{count:,} answers of {judge.partition(' ')[0]} failed; the same `verism run` with --retry"
        f"{'' if alone else ', and without --executor or --gpus,'} asks for them again"
    )


def _is_scored_so(run: store.Run, suite: Suite, names: Mapping[str, str]) -> bool:
    """Whether another process scored the run just now as this one would; then its scores are the run's."""
    now = store.Run.open(run.path)
    kept, asked = now.manifest.scoring, planned_scoring(suite, names)
    if kept.judges != asked.judges or _differing_rules(kept, asked) or not now.is_scored or now.outdated():
        return False
    run.manifest = now.manifest
    return True


def _say_unfinished(run: store.Run, left: Mapping[str, int], options: RunOptions, *, scored: bool = True) -> None:
    listed = ", ".join(f"{count:,} {what}" for what, count in left.items())
    share = "this share" if options.shard is None else f"share {options.shard}"
    then = f". The last share to end computes the scores; or give: verism score {_quoted(run)}" if scored else ""
    (options.on_summary or _say)(f"{share} of {run.path} is done; not there yet: {listed}{then}")


def _tell_scores(run: store.Run, options: RunOptions) -> None:
    """Tell functions and trackers of the scores that count now."""
    hooks = hooks_of(options.on_scores)
    if hooks:
        evaluation = Evaluation(
            run=run.pinned(), name=options.tracked_as, step=options.step, checkpoint=options.checkpoint
        )
        tell_scores(hooks, evaluation, options.on_summary or _say)


def _say(line: str) -> None:
    print(f"verism: {line}", file=sys.stderr)


def _made(asked: _Evaluation, shares: Shares, roles: Set[str] | None = None) -> _Made[Run]:
    """Make or find the images of a run, and let the judges observe them, as far as that is not done.

    Args:
        asked: the evaluation.
        shares: which part of it this process does.
        roles: whom it has of judges and ``generator``; others are with other processes. None: all.
    """
    call, out = asked.call, asked.out
    the_suite, prompts, seed = _prompted(asked)
    chosen = asked.chosen(the_suite)
    context = call.run.context(the_suite, prompts)
    makes = roles is None or GENERATOR in roles
    with ExitStack() as at_end:
        # Judges come first: one that does not fit is refused before the first image is generated.
        filled = [
            _filled(judge, need, context, call.run.pool)
            for judge, need in chosen
            if roles is None or need.role in roles
        ]
        for f in filled:
            at_end.callback(_finish, f.judge, f.made_here, call.run.on_summary)
        found = _segmenter(filled, [need.role for _, need in chosen], shares)
        filled = _on_regions(filled, found)
        maker: Generator | None = None
        if makes:
            made_by = _generator(asked.model, asked.images, the_suite, context, call.run.pool)
            at_end.callback(_finish, made_by, _is_ours(made_by, asked.model, call.run.pool), call.run.on_summary)
            maker = _dealt(made_by, the_suite, prompts, seed, call)
        own = {f.need.role: (f.judge.name, getattr(f.judge, "threshold", None)) for f in filled}
        known = shares.agree(own, [need.role for _, need in chosen])
        names, thresholds = _named(known, [need.role for _, need in chosen])
        names |= {role: TRUTH for role, judge in call.judges.items() if judge == TRUTH}
        requests = make_requests(prompts, seed, the_suite.needs())
        if maker is None:  # who makes the images begins the run
            assert out is not None
            shares.agree({}, [RUN])
            run = Run.open(location(out))
        else:
            scoring = None
            if asked.judged and not shares.alone:  # whoever scores it in the end has no judge to ask
                scoring = planned_scoring(_calibrated(the_suite, thresholds, call.run.threshold, asked.rules), names)
            run = _start(asked, the_suite, prompts, maker, names, seed, scoring, shares)
            command = "evaluate" if asked.judged else "generate"
            run.note_call(_call_record(command, call, suite=asked.suite, model=asked.model, images=asked.images))
        shares.agree({RUN: run.manifest.uid}, [])
        if any(isinstance(f.need, FeatureNeed) for f in filled) or (
            makes and not any(isinstance(need, FeatureNeed) for _, need in chosen)
        ):
            _take_in(run, the_suite.reference, filled, call.run.on_failure, shares)
        if maker is not None:
            # Whose objects another process finds looks at the images when they are found.
            finders = {f.judge.name for f in filled if isinstance(f.need, SegmentationNeed)} | {TRUTH}
            later = [f for f in filled if asks_for_regions(f.need) and found not in finders]
            at_once = [f for f in filled if f not in later]
            _make_images(run, the_suite, requests, maker, at_once, call, shares)
        else:
            later = filled
        for f in later:
            observe_images(run, requests, f.judge, f.need, segmenter=found, shares=shares, after="images")
        _note_judges(run, filled)
    return _Made(run, the_suite, requests, names, thresholds)


def _note_judges(run: store.Run, filled: Sequence[_Filled]) -> None:
    """Keep what judges say of their observations beside their names."""
    for each in filled:
        lines: Sequence[str] = getattr(each.judge, "remarks", list)()
        if lines:
            run.note_judge(each.judge.name, lines)


def _prompted(asked: _Evaluation) -> tuple[Suite, list[Prompt], int]:
    """The suite with the rules that were asked for, its prompts, and the seed of the images.

    Args:
        asked: the evaluation.
    """
    if (asked.model is None) == (asked.images is None):
        raise UsageError("give either a model (--model) or images (--images): exactly one of the two")
    suite = _suite(asked.suite, asked.images, asked.call.suite)
    seed = _seed(suite, asked.call)
    suite = _with_rules(suite, asked.call.run.threshold, asked.rules)  # refused now and not after the last image
    prompts = list(suite.prompts())
    if not prompts:
        raise UsageError(f"{suite.name} asks no prompt with these options; check --limit and what else narrows it")
    return suite, prompts, seed


def _make_images(
    run: Run,
    suite: Suite,
    requests: Sequence[Request],
    maker: Generator,
    filled: Sequence[_Filled],
    call: _Call,
    shares: Shares,
) -> None:
    """Let the generator make what is missing, and the judges look at it."""
    known = run.ids("images")
    pairs = [(f.judge, f.need) for f in filled]
    try:
        run_images(
            run,
            requests,
            maker,
            pairs,
            retry=call.run.retry,
            truth={need.table for need in suite.needs()},
            on_failure=call.run.on_failure,
            shares=shares,
        )
    finally:  # an interrupted run, too, says what made its images
        made = len(pending_items(requests, lambda r: r.image_id, known)) > 0
        described: Mapping[str, Any] = getattr(maker, "describe", dict)()
        if described and made:  # a call that made nothing has little to say
            run.note_generator(described)
    if made and call.run.on_summary is not None:
        _say_what_was_slow(run, call.run.on_summary)


def _named(known: Mapping[str, Any], roles: Sequence[str]) -> tuple[dict[str, str], dict[str, float]]:
    """Full names, and calibrated thresholds, of judges by role, out of what processes say of themselves."""
    names = {role: known[role][0] for role in roles}
    return names, {role: known[role][1] for role in roles if known[role][1] is not None}


# ------------------------------------------------------------------------------------------------- on several workers
@dataclass(frozen=True, eq=False)
class _WorkerResult:
    """What a worker says at the end.

    Attributes:
        names: full names of judges by role.
        thresholds: their own calibrated thresholds by role.
        lines: messages for the caller.
    """

    names: Mapping[str, str]
    thresholds: Mapping[str, float]
    lines: Sequence[str]


@dataclass(frozen=True, eq=False)
class _Part(ABC):
    """What each worker does of a call; it is sent to the worker, and called there.

    Attributes:
        folder: which relative paths count from.
    """

    folder: str

    def __call__(self, roles: Set[str] | None, shares: Shares, kept: dict[str, Any]) -> _WorkerResult:
        """Do a share of it.

        Args:
            roles: whom the worker has; None: all.
            shares: what it does.
            kept: what the worker keeps from one call to the next.
        """
        lines: list[str] = []
        with chdir(self.folder if Path(self.folder).is_dir() else Path.cwd()):
            names, thresholds = self.done(roles, shares, kept, lines)
        return _WorkerResult(names, thresholds, lines)

    @abstractmethod
    def done(
        self, roles: Set[str] | None, shares: Shares, kept: dict[str, Any], lines: list[str]
    ) -> tuple[Mapping[str, str], Mapping[str, float]]:
        """Do it; names and thresholds of judges by role."""


@dataclass(frozen=True, eq=False)
class _EvaluationPart(_Part):
    asked: _Evaluation

    def done(
        self, roles: Set[str] | None, shares: Shares, kept: dict[str, Any], lines: list[str]
    ) -> tuple[Mapping[str, str], Mapping[str, float]]:
        """Make images, and observe them."""
        made = _made(replace(self.asked, call=self.asked.call.of_worker(shares, kept, lines)), shares, roles)
        return made.names, made.thresholds


@dataclass(frozen=True, eq=False)
class _ObservationPart(_Part):
    run: Path
    call: _Call

    def done(
        self, roles: Set[str] | None, shares: Shares, kept: dict[str, Any], lines: list[str]
    ) -> tuple[Mapping[str, str], Mapping[str, float]]:
        """Observe images."""
        call = self.call.of_worker(shares, kept, lines)
        made = _observed(store.Run.open(self.run), call, shares, roles)
        return made.names, made.thresholds


@dataclass(frozen=True, eq=False)
class _ReferencePart(_Part):
    suite: str
    features: str | Judge
    work: Path
    call: _Call

    def done(
        self,
        roles: Set[str] | None,  # noqa: ARG002
        shares: Shares,
        kept: dict[str, Any],
        lines: list[str],
    ) -> tuple[Mapping[str, str], Mapping[str, float]]:
        """Compute features of real images."""
        run, judge, images = _referenced(self.suite, self.features, self.work, self.call.of_worker(shares, kept, lines))
        shares.agree({RUN: run.manifest.uid}, [])
        for line in take_in_reference(run, images, judge, shares=shares):
            shares.tell(line)
        return {"features": judge.name}, {}


def _on_workers(
    workers: RayCluster | DeviceProcesses, part: _Part, call: _Call, *, root: Path, roles: Sequence[str], items: int
) -> _WorkerResult:
    """Let workers do a call together; what they say, each line once."""
    results: list[_WorkerResult] = workers.run(
        part, root=root, roles=roles, items=items, on_failure=call.run.on_failure, tell=call.run.on_summary or _say
    )
    tell = call.run.on_summary or _say
    for line in dict.fromkeys(line for result in results for line in result.lines):
        tell(line)
    names = {role: name for result in results for role, name in result.names.items()}
    thresholds = {role: value for result in results for role, value in result.thresholds.items()}
    return _WorkerResult(names, thresholds, ())


def _made_on(workers: RayCluster | DeviceProcesses, asked: _Evaluation) -> _Made[Run]:
    """As ``_made``, by workers.

    Args:
        workers: who do it.
        asked: the evaluation.
    """
    call = asked.call
    suite, prompts, seed = _prompted(asked)
    chosen = asked.chosen(suite)
    folder = None
    if asked.out is None:
        folder = tempfile.TemporaryDirectory(prefix="verism-run-", ignore_cleanup_errors=True)
        asked = replace(asked, out=Path(folder.name) / "run")
    out = location(cast(PathLike, asked.out)).absolute()
    if call.run.retry and (out / MANIFEST).exists():
        forget_failures(Run.open(out))
    requests = make_requests(prompts, seed, suite.needs())
    sent = replace(asked, out=out, call=call.to_workers())
    roles = [GENERATOR, *(need.role for _, need in chosen)]
    reference = 0 if suite.reference is None else len(suite.reference.images)
    for attempt in range(ROUNDS):
        result = _on_workers(
            workers,
            _EvaluationPart(os.getcwd(), sent),
            call,
            root=out,
            roles=roles,
            items=max(len(requests), reference),
        )
        run = Run.open(out)
        judged = [(result.names[need.role], need) for _, need in chosen]
        left = unfinished(run, requests, judged, suite.reference)
        if not left:
            break
        if attempt == ROUNDS - 1:
            raise VerismError(
                f"{out}: not there after all workers ended: {', '.join(f'{n:,} {what}' for what, n in left.items())}"
            )
    if folder is not None:
        run.keep(folder)
    compact_tables(run, judged)
    return _Made(run, suite, requests, result.names, result.thresholds)


def _observed_on(workers: RayCluster | DeviceProcesses, run: store.Run, call: _Call) -> _Made[store.Run]:
    """As ``_observed``, by workers.

    Args:
        workers: who do it.
        run: the run.
        call: names the judges.
    """
    suite, needs, requests = _observable(run, call)
    part = _ObservationPart(os.getcwd(), run.path.absolute(), call.to_workers())
    result = _on_workers(workers, part, call, root=run.path.absolute(), roles=list(call.judges), items=len(requests))
    compact_tables(run, [(result.names[role], needs[role]) for role in call.judges])
    return _Made(run, suite, requests, result.names, result.thresholds)


def _path_text(value: Any) -> str:
    """A path as text: those in object storage have no name on this machine."""
    return str(value) if isinstance(value, PurePath) else os.fspath(value)


def _call_record(
    command: str,
    call: _Call,
    *,
    suite: str | Suite | None = None,
    model: str | Generator | ImageFunction | None = None,
    images: PathLike | None = None,
) -> dict[str, Any]:
    """A call as plain JSON, so that what is lost can be made again; ``python`` lists what JSON cannot say."""
    options = {name: getattr(call.run, name) for name in REPEATED}
    suite_options: Mapping[str, Any] = call.suite
    if isinstance(suite, Suite):
        suite_options = suite.made_with
        suite = suite.name if suite_options else suite
    asked: dict[str, Any] = {"suite": suite, "model": model, "images": images}
    asked |= {f"judges.{role}": judge for role, judge in call.judges.items()}
    asked |= {f"options.{name}": value for name, value in options.items() if value is not None}
    asked |= {f"suite.{name}": value for name, value in suite_options.items() if value is not None}
    plain: dict[str, Any] = {}
    python: list[str] = []
    for name, value in asked.items():
        try:
            plain[name] = json.loads(json.dumps(value, default=_path_text))
        except (TypeError, ValueError):
            python.append(name)

    def below(start: str) -> dict[str, Any]:
        return {name.removeprefix(start): value for name, value in plain.items() if name.startswith(start)}

    return {
        "command": command,
        "suite": plain.get("suite"),
        "model": plain.get("model"),
        "images": plain.get("images"),
        "judges": below("judges."),
        "options": below("options."),
        "suite_options": below("suite."),
        "folder": os.getcwd(),  # which relative paths count from
        "python": python,
    }


def _seed(suite: Suite, call: _Call) -> int:
    """The seed of the images: as asked for, or that the suite was made with."""
    return int(call.suite.get("seed", suite.made_with.get("seed")) or 0)


def _dealt(maker: Generator, suite: Suite, prompts: Sequence[Prompt], seed: int, call: _Call) -> Generator:
    """The generator as a call uses it: with images shared with other runs, or shuffled across prompts."""
    generator = maker
    if call.run.shared is not None and getattr(maker, "text_only", False):
        generator = SharingGenerator(maker, call.run.shared)
    if call.run.shuffle:
        from verism.generators.shuffled import ShuffledGenerator

        generator = ShuffledGenerator(generator, prompts, seed=seed, by=suite.layout.facet)
    return generator


def _start(
    asked: _Evaluation,
    suite: Suite,
    prompts: Sequence[Prompt],
    generator: Generator,
    judges: Mapping[str, str],
    seed: int,
    scoring: Scoring | None,
    shares: Shares,
) -> Run:
    out, options = asked.out, asked.call.run
    settings = _settings(suite, prompts, generator.name, judges, seed)
    if out is not None:
        path = location(out)
        if (path / MANIFEST).exists():
            there = Run.open(path)
            _refuse_other_rules(there, scoring, options)
            more = {"judged": asked.judged, "part": asked.call.again, "alone": shares.alone}
            settings = _continued(there, settings, suite, prompts, options, **more)
        run = Run.start(path, settings, scoring=scoring, plugins=plugin_of(suite), images_as=options.images_as)
        _refuse_other_rules(run, scoring, options)  # of a process that began the run at the same time
    else:
        folder = tempfile.TemporaryDirectory(prefix="verism-run-", ignore_cleanup_errors=True)
        run = Run.start(Path(folder.name), settings, plugins=plugin_of(suite), images_as=options.images_as)
        run.keep(folder)
    run.write_prompts(prompts)
    return run


def _refuse_other_rules(run: store.Run, asked: Scoring | None, options: RunOptions) -> None:
    """Processes that share a run score it alike: otherwise the last one to end would decide.

    Args:
        run: the run that is there.
        asked: how this process would score it; None: it does not.
        options: say whether it shares the run.

    Raises:
        UsageError: the run, judged by the same judges, is to be scored by other rules.
    """
    kept = run.manifest.scoring
    if asked is None or (options.shard is None and not options.share) or kept.judges != asked.judges or not kept.rules:
        return
    now = _differing_rules(kept, asked)
    if not now:
        return
    this = "--share" if options.shard is None else f"--shard {options.shard}"
    listed = "\n".join(f"  {name}: {shown(kept.rules.get(name))} there, {shown(now[name])} now" for name in now)
    raise UsageError(
        f"{run.path} is scored by other rules than this process with {this} was given:\n{listed}\nGive the same "
        "--threshold and --rule to all processes that share a run. Images and observations do not depend on them; "
        f"for scores by these ones, when all is done: {score_command(run, now)}"
    )


def _differing_rules(kept: Scoring, asked: Scoring) -> dict[str, Any]:
    """Rules of ``asked`` that ``kept`` has not, or with another value."""
    return {
        name: value
        for name, value in asked.rules.items()
        if name not in kept.rules or content_hash([kept.rules[name]]) != content_hash([value])
    }


def _settings(
    suite: Suite, prompts: Sequence[Prompt], generator: str, judges: Mapping[str, str], seed: int
) -> RunSettings:
    return RunSettings(
        suite=suite.name,
        suite_settings=suite.settings(),
        generator=generator,
        judges=judges,
        seed=seed,
        prompts=content_hash([[p.prompt_id, p.text, dict(p.spec)] for p in prompts])[:16],
        reference="" if suite.reference is None else suite.reference.identity()[:16],
    )


def _continued(
    there: store.Run,
    settings: RunSettings,
    suite: Suite,
    prompts: Sequence[Prompt],
    options: RunOptions,
    **more: bool,
) -> RunSettings:
    """``continued_settings`` of a call, with ``more`` of its arguments."""
    if options.shuffle and _was_shuffled(there):
        settings = replace(settings, generator=there.manifest.settings.generator)
    fixed = "with --shuffle, which image a prompt gets depends on all prompts" if options.shuffle else ""
    return continued_settings(there, settings, suite, prompts, fixed=fixed, **more)


def _was_shuffled(run: store.Run) -> bool:
    """Whether a run of an earlier version got its images by chance, which the name of its generator does not say."""
    named = run.manifest.settings.generator.startswith("shuffled:")
    return not named and any(call["options"].get("shuffle") for call in run.manifest.calls)


def _say_what_was_slow(run: Run, tell: Tell) -> None:
    """Images so large that decoding them takes longer than judging."""
    count, known = run.count_notes(REDUCED)
    if count:
        tell(
            f"{count:,} of {known:,} images have more than {FULL_PIXELS.value:,} pixels. They were reduced, as "
            "their notes say, and decoding each takes about a second (JPEG: a tenth); smaller files are quicker"
        )


def _made_by(workers: RayCluster | DeviceProcesses | None, asked: _Evaluation, shares: Shares) -> _Made[Run]:
    """Make a run here or by workers, and say what was missing of one that had all its images.

    Args:
        workers: who make it; None: this process.
        asked: the evaluation.
        shares: which part of it this process does.
    """
    is_there = asked.out is not None and (location(asked.out) / MANIFEST).exists()
    before = _held(Run.open(location(cast(PathLike, asked.out)))) if is_there else {}
    made = _made(asked, shares) if workers is None else _made_on(workers, asked)
    run, options = made.run, asked.call.run
    if options.retry or asked.call.again or pending_items(made.requests, lambda r: r.image_id, run.ids("images")):
        return made
    after = _held(run)
    if after[IMAGES] > before.get(IMAGES, 0):
        return made
    added = {what: count - before.get(what, 0) for what, count in after.items() if count > before.get(what, 0)}
    listed = [
        f"{added[table, name]:,} {what} by {name}"
        for need in made.suite.needs()
        if (name := made.names.get(need.role)) is not None
        for table, what in ((need.table, "observations"), *((t, SIDES[t]) for t in need.beside if t in SIDES))
        if (table, name) in added
    ]
    then = (
        f"what was missing has been made: {', '.join(listed)}"
        if listed
        else "name another out (or another model) for new ones"
    )
    generator = run.manifest.settings.generator
    (options.on_summary or _say)(f"nothing was generated: {run.path} holds all images of {generator} already; {then}")
    return made


def _held(run: store.Run) -> dict[tuple[str, str], int]:
    """How many images a run has, and how many images or texts each of its judges observed, by table and judge."""
    held = {IMAGES: len(run.ids("images"))}
    for folder in (run.path / "observations").glob("*"):
        held |= {(folder.name, name): len(run.ids(folder.name, name)) for name in run.judges(folder.name)}
    return held


def _suite(suite: str | Suite, images: PathLike | None, options: Mapping[str, Any]) -> Suite:
    """The suite; it reads the list of given images itself if it can make prompts from it."""
    if isinstance(suite, Suite):
        if foreign := sorted(set(options) - {"seed"}):
            raise UsageError(f"{suite.name} is made already; {', '.join(foreign)} must be given where it is made")
        return suite
    suite_options = dict(options)
    if images is not None and any(option.name == "images" for option in suite_class(suite).options):
        suite_options["images"] = location(images)
    return make_suite(suite, **suite_options)


def _chosen(suite: Suite, named: Mapping[str, str | Judge]) -> list[tuple[str | Judge, Need]]:
    """Who fills which need; needs that may stay open do, if no judge is named for them."""
    needs = suite.needs()
    _refuse_idle(suite, needs, [role for role, judge in named.items() if judge != NOBODY])
    chosen: list[tuple[str | Judge, Need]] = []
    for need in needs:
        judge = named.get(need.role)
        if judge is None and not suite.named_judges_only:
            judge = _usual(need.role)
        if judge == TRUTH:
            continue
        if judge is None or judge == NOBODY:
            if not need.optional:
                raise UsageError(
                    f"{suite.name} needs a judge: name one with {option_of(need.role)}. See: verism list judges"
                )
            continue
        chosen.append((judge, need))
    if not chosen and TRUTH not in named.values() and not suite.has_labels:
        options = " or ".join(option_of(need.role) for need in needs)
        raise UsageError(f"{suite.name} has no judge to observe the images: give {options}. See: verism list judges")
    return chosen


def _filled(judge: str | Judge, need: Need, context: Context, pool: ModelPool | None) -> _Filled:
    """A judge for a need; one that says it cannot fill the need is refused here, before any image is made."""
    made = judge
    if isinstance(judge, str):
        made = make_judge(judge, context, need.role) if pool is None else pool.judge(judge, context, need.role)
    assert not isinstance(made, str)
    getattr(made, "check", lambda _: None)(need)
    getattr(made, "start_run", lambda: None)()  # what it remarked on belongs to the run before
    return _Filled(made, need, made_here=isinstance(judge, str) and pool is None)


def _segmenter(filled: Sequence[_Filled], roles: Collection[str], shares: Shares, otherwise: str = TRUTH) -> str:
    """Who finds the objects that other judges are asked about.

    Args:
        filled: who fills which need in this process.
        roles: of all judges, those of other processes too.
        shares: asked where the segmenter is with another process.
        otherwise: who it is where none of the judges does.
    """
    own = next((f.judge.name for f in filled if isinstance(f.need, SegmentationNeed)), None)
    if own is not None or not any(asks_for_regions(f.need) for f in filled):
        return own or otherwise
    role = SegmentationNeed.role
    return str(shares.agree({}, [role])[role][0]) if role in roles else otherwise


def _on_regions(filled: Sequence[_Filled], segmenter: str) -> list[_Filled]:
    """Judges that are asked about objects, under the name of both: their own, and that of who finds the objects.

    Args:
        filled: who fills which need.
        segmenter: who finds the objects.
    """
    return [
        replace(f, judge=RegionJudge(f.judge, segmenter)) if asks_for_regions(f.need) else f
        for f in sorted(filled, key=lambda f: asks_for_regions(f.need))
    ]


def _usual(role: str) -> str | None:
    """The judge that observes where none is named."""
    return "builtin" if role in ("detector", "skin_tone") else None


def _refuse_idle(suite: Suite, needs: Sequence[Need], named: Sequence[str]) -> None:
    """Refuse a judge that the suite has no question for."""
    useful = [need.role for need in needs]
    if idle := [role for role in named if role not in useful]:
        raise UsageError(
            f"with these settings {suite.name} does not use {option_of(idle[0])}; it uses "
            f"{', '.join(map(option_of, useful))}"
        )


def _take_in(
    run: Run, reference: ReferenceSet | None, filled: Sequence[_Filled], tell: Tell | None, shares: Shares
) -> None:
    """The real images a suite compares with become part of the run."""
    if reference is None:
        return
    judge = next((f.judge for f in filled if isinstance(f.need, FeatureNeed)), None)
    for line in take_in_reference(run, reference, judge, shares=shares):
        if tell is not None:
            tell(line)


def _finish(maker: Any, made_here: bool, on_summary: Tell | None) -> None:
    """What a generator or judge says at the end; it is closed if it was made here, and not by the caller."""
    if on_summary is not None:
        for line in getattr(maker, "summary", list)():
            on_summary(line)
    if made_here:
        getattr(maker, "close", lambda: None)()


def _is_ours(maker: Generator, model: str | Generator | ImageFunction | None, pool: ModelPool | None) -> bool:
    """Whether a generator was made for this run alone, so that it is closed with it."""
    return maker is not model and not (pool is not None and isinstance(model, str))


def _calibrated_rules(suite: Suite) -> list[Rule]:
    return [rule for rule in suite.rules if rule.calibrated_by]


def _with_rules(suite: Suite, threshold: float | None, rules: Mapping[str, Any] | None) -> Suite:
    """The suite with the threshold and the rules that were asked for."""
    asked = dict(rules or {})
    if threshold is not None:
        calibrated = _calibrated_rules(suite)
        if not calibrated:
            raise UsageError(f"{suite.name} has no confidence threshold; its rules are {_listed_rules(suite)}")
        for rule in calibrated:
            asked.setdefault(rule.name, threshold)
    return suite.with_rules(**asked) if asked else suite


def _listed_rules(suite: Suite) -> str:
    return ", ".join(rule.name for rule in suite.rules) or "none"


def _thresholds(filled: Sequence[_Filled]) -> dict[str, float]:
    """The judges' own calibrated thresholds, by role."""
    by_role = {f.need.role: getattr(f.judge, "threshold", None) for f in filled}
    return {role: threshold for role, threshold in by_role.items() if threshold is not None}


def _calibrated(
    suite: Suite, thresholds: Mapping[str, float], threshold: float | None, rules: Mapping[str, Any] | None
) -> Suite:
    """The suite with the judges' own calibrated thresholds, where neither a threshold nor the rule was named."""
    if threshold is not None:
        return suite
    calibrated = {
        rule.name: thresholds[rule.calibrated_by]
        for rule in _calibrated_rules(suite)
        if rule.calibrated_by in thresholds and rule.name not in (rules or {})
    }
    return suite.with_rules(**calibrated) if calibrated else suite


def _generator(
    model: str | Generator | ImageFunction | None,
    images: PathLike | None,
    suite: Suite,
    context: Context,
    pool: ModelPool | None,
) -> Generator:
    if images is not None:
        if suite.user_images is not None:
            from verism.generators.folder import FolderGenerator, match_user_images

            matching = match_user_images(location(images), context.prompts, suite.user_images)
            if context.on_matched is not None:
                context.on_matched(matching.table())
            return FolderGenerator(matching)
        return make_generator(Spec("images", str(images), {}), context)
    assert model is not None
    if isinstance(model, str):
        return make_generator(model, context) if pool is None else pool.generator(model, context)
    if hasattr(model, "generate"):
        return model  # type: ignore[return-value]
    if callable(model):
        from verism.generators.function import FunctionGenerator

        return FunctionGenerator(model, name=_name_of(model))
    raise UsageError(f"model is a name, a generator or a callable (prompt, seed) -> image; got {type(model).__name__}")


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run would ask for.

    Attributes:
        suite: name of the suite.
        prompts: number of prompts.
        images: number of images.
        images_by_group: images by the values of the first facet of the prompts.
        group: that facet; ``suite`` without facets.
        images_done: images that the run directory holds already.
        images_before: images of the run that is there, which grows to ``images``; the same without one.
        judges: full names of the judges by role; ``truth`` for ground truth.
        judgements: images that each of these judges would observe.
        not_measured: roles of needs that no judge fills.
        rules: rules of the suite, with their values.
        estimate: lines of the generator on what the rest will take and cost.
        examples: a few of the prompts.
    """

    suite: str
    prompts: int
    images: int
    images_by_group: Mapping[str, int]
    group: str
    images_done: int
    images_before: int
    judges: Mapping[str, str]
    judgements: Mapping[str, int]
    not_measured: tuple[str, ...]
    rules: Mapping[str, Any]
    estimate: tuple[str, ...]
    examples: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def plan(
    suite: str | Suite,
    *,
    model: str | Generator | ImageFunction | None = None,
    images: PathLike | None = None,
    out: PathLike | None = None,
    judges: Judges | None = None,
    rules: Mapping[str, Any] | None = None,
    run_options: RunOptions | None = None,
    **options: Any,
) -> Plan:
    """What ``evaluate`` would ask for, what of it is done already, and what the rest would cost, without doing it.

    Judges, rules and the generator are made and checked as a run would, so that what a run would refuse is refused
    here. Arguments are those of ``evaluate``; neither a model nor images have to be named.

    Raises:
        UsageError: what ``evaluate`` would refuse; where a model or images are named, also because of the run that is
            there.
    """
    call = _Call.of(run_options, judges, options)
    the_suite = _with_rules(_suite(suite, images, call.suite), call.run.threshold, rules)
    prompts = the_suite.prompts()
    context = call.run.context(the_suite, prompts)
    requests = make_requests(prompts, _seed(the_suite, call))
    there, observed, held = IdSet(), dict[str, IdSet](), None
    run = Run.open(location(out)) if out is not None and (location(out) / MANIFEST).exists() else None
    if run is not None:
        there = run.ids("images")
    done = there.holds(r.image_id for r in requests)
    pending = [r for r, is_there in zip(requests, done, strict=True) if not is_there]
    with ExitStack() as at_end:
        filled = [_filled(judge, need, context, call.run.pool) for judge, need in _chosen(the_suite, call.judges)]
        for f in filled:
            at_end.callback(_finish, f.judge, f.made_here, None)
        filled = _on_regions(filled, _segmenter(filled, [f.need.role for f in filled], ALONE))
        names = {f.need.role: f.judge.name for f in filled}
        names |= {role: TRUTH for role, judge in call.judges.items() if judge == TRUTH}
        estimate: Sequence[str] = ()
        if model is not None or images is not None:
            maker = _generator(model, images, the_suite, context, call.run.pool)
            at_end.callback(_finish, maker, _is_ours(maker, model, call.run.pool), None)
            estimate = list(getattr(maker, "estimate", lambda _: ())(pending))
            if run is not None:
                seed = _seed(the_suite, call)
                generator = _dealt(maker, the_suite, prompts, seed, call).name
                settings = _settings(the_suite, prompts, generator, names, seed)
                settings = _continued(run, settings, the_suite, prompts, call.run, ask=True)
                run.refuse_other(settings, call.run.images_as)
        if run is not None:
            held = sum(p.n_images for p in run.prompts()) if (run.path / PROMPTS).exists() else None
            observed = {f.need.role: run.ids(f.need.table, f.judge.name) for f in filled}
        the_suite = _calibrated(the_suite, _thresholds(filled), call.run.threshold, rules)
    group = next(iter(prompts[0].facets), "suite") if prompts else "suite"
    counts: dict[str, int] = {}
    for p in prompts:
        value = str(p.facets.get(group, the_suite.name))
        counts[value] = counts.get(value, 0) + p.n_images
    ids = IdSet(r.image_id for r in requests)
    return Plan(
        suite=the_suite.name,
        prompts=len(prompts),
        images=len(requests),
        images_by_group=counts,
        group=group,
        images_done=len(requests) - len(pending),
        judges=names,
        images_before=len(requests) if held is None else held,
        judgements={f.need.role: len(ids - observed.get(f.need.role, IdSet())) for f in filled},
        not_measured=tuple(need.role for need in the_suite.needs() if need.role not in names),
        rules=the_suite.all_rules(),
        estimate=tuple(estimate),
        examples=tuple([p.text for p in prompts[:: max(1, len(prompts) // 5)]][:5]),
    )


def open_run(path: PathLike, *, scoring: str | None = None) -> Run:
    """A run directory.

    Args:
        path: the directory; ``RUN@NAME`` is short for a scoring of that name.
        scoring: name of a scoring that is kept (``verism score RUN --name NAME``), to read in place of the one that
            counts; None: the one that counts.

    Raises:
        UsageError: it is not one, or has no scoring of that name.
    """
    place = location(path)
    if scoring is None and "@" in place.name and not (place / MANIFEST).exists():
        name, _, chosen = place.name.rpartition("@")
        if name and (place.with_name(name) / MANIFEST).exists():
            place, scoring = place.with_name(name), chosen
    run = Run.open(place)
    return run if scoring is None else run.with_named_scoring(scoring)


def verify(run: store.Run | PathLike) -> Verification:
    """Check every file of a run against its hash, images included; nothing is changed.

    Args:
        run: a run or its directory.

    Raises:
        UsageError: it is no run directory.
    """
    return store.verify(run.path if isinstance(run, store.Run) else location(run))


def repair(run: store.Run | PathLike, *, run_options: RunOptions | None = None) -> tuple[Verification, list[str]]:
    """Remove what is damaged in a run, and make again what is gone, as the run was made; then score it again.

    No other process may use the run meanwhile.

    Args:
        run: a run or its directory.
        run_options: ``on_failure``, ``on_matched`` and ``on_summary`` are used; all else is as the run was made.

    Returns:
        The run as it is then, and what could not be made again, with what to do.

    Raises:
        UsageError: it is no run directory.
    """
    path = (run.path if isinstance(run, store.Run) else location(run)).absolute()
    found = store.verify(path)
    findings = list(found.findings)
    if any(finding.file == MANIFEST for finding in findings):
        return found, []
    todo = begin_repair(path, found)
    discard(Run.open(path, scoring=False), found)
    if any(finding.file.startswith("ledger/") for finding in findings):  # only without it more can be said
        found = store.verify(path)
        findings += found.findings
        todo = begin_repair(path, found)
        discard(Run.open(path, scoring=False), found)
    left: list[str] = []
    opened = Run.open(path)
    if opened.ledger is not None:
        if todo.data:
            left = _repeat_calls(opened, run_options or RunOptions())
            opened = Run.open(path)
        if todo.scores:
            left += _score_again(opened)
        elif any(f.file.startswith("scor") and f.problem != "leftover" for f in findings):
            left.append(f"the rules of its scores are lost; score it anew: verism score {_quoted(opened)}")
    (path / REPAIR).unlink(missing_ok=True)
    found = store.verify(path)
    if found.is_whole and found.findings:  # shards of images that were made again
        discard(Run.open(path, scoring=False), found)
        found = store.verify(path)
    return found, left


def compact(run: store.Run | PathLike, *, images_as: str | None = None) -> Compaction:
    """Put small files of a run together: parts of tables, and shards of images; or convert its images.

    Others may read the run meanwhile. Killed half-way, it leaves a run that is whole, and the same call goes on.

    Args:
        run: a run or its directory.
        images_as: how images shall be kept from now on, those that are there included: ``"files"`` or ``"shards"``;
            None: as they are.

    Returns:
        What was done to the images.

    Raises:
        UsageError: it is no run directory; or ``images_as`` is neither.
        DamagedRun: an image is gone or altered.
    """
    if images_as not in (None, *STORAGES):
        raise UsageError(f"images_as: expected {' or '.join(STORAGES)}, got {images_as!r}")
    opened = store.Run.open(run.path if isinstance(run, store.Run) else location(run), scoring=False)
    done = compact_images(opened, images_as)
    opened.compact("reference")
    for folder in (opened.path / "observations").glob("*"):
        judges = opened.judges(folder.name)
        for judge in [*judges, *([TRUTH] if opened.has_truth(folder.name) else [])]:
            opened.compact(folder.name, judge)
    return done


def _repeat_calls(run: Run, tell: RunOptions) -> list[str]:
    """Make again what a run has lost, by the calls that made it; what could not be, with what to do."""
    left = []
    told: dict[str, Any] = {name: getattr(tell, name) for name in ("on_failure", "on_matched", "on_summary")}
    for record in run.manifest.calls:
        what = f"the same `verism {'run' if record['command'] == 'evaluate' else record['command']}`"
        again = f"give {what} again in {record['folder']}, or from Python verism.{record['command']}(...) as before"
        if record["python"]:
            left.append(f"made from Python with objects that cannot be named ({', '.join(record['python'])}): {again}")
            continue
        options = dict(record["options"])
        call = _Call(RunOptions(**options, **told), dict(record["judges"]), dict(record["suite_options"]), again=True)
        folder = Path(record["folder"])
        try:
            with chdir(folder if folder.is_dir() else Path.cwd()):
                if record["command"] != "observe":
                    evaluation = _Evaluation(record["suite"], record["model"], record["images"], run.path, None, call)
                    _made(replace(evaluation, judged=record["command"] == "evaluate"), ALONE)
                else:
                    _observed(Run.open(run.path), call, ALONE)
        except VerismError as err:
            left.append(f"{err}; {again}")
    if not run.manifest.calls:
        left.append("the run does not say how it was made: give the same `verism run` again, and it makes what is gone")
    return left


def _score_again(run: Run) -> list[str]:
    """Score a run as it was scored; if images or observations are still gone, say so and leave the scores alone."""
    try:
        lost = _lost(run)
        if not lost:
            score(run, **run.manifest.scoring.adjustment)
            return []
    except VerismError as err:
        return [f"not scored again: {err}"]
    return [f"not scored again, as there are gone: {', '.join(lost)}; without them: verism score {_quoted(run)}"]


def _lost(run: Run) -> list[str]:
    """How many images and observations of a run that was scored are not there."""
    suite = stored_suite(run)
    requests = make_requests(run.prompts(), run.manifest.settings.seed)
    judged = [(name, need) for need in suite.needs() if (name := run.judge(need.role)) is not None]
    return [f"{count:,} {what}" for what, count in unfinished(run, requests, judged).items()]


def _quoted(run: store.Run) -> str:
    return quoted(run.path)


def _opened(run: store.Run | PathLike) -> store.Run:
    return run if isinstance(run, store.Run) else open_run(run)


def _pinned(run: store.Run | PathLike) -> store.Run:
    """The run to read from: verdicts, scores and rules of one scoring, whoever scores it meanwhile."""
    return _opened(run).pinned()


def score(
    run: store.Run | PathLike,
    *,
    threshold: float | None = None,
    judges: Mapping[str, str] | None = None,
    rules: Mapping[str, Any] | None = None,
    correct: Kind | None = None,
    cards: Sequence[PathLike] = (),
    min_right: float = 0.0,
    anyway: bool = False,
    metrics: Sequence[Metric] = (),
    device: str | None = None,
    on_scores: OnScores | Sequence[OnScores] | None = None,
    step: int | None = None,
    checkpoint: str = "",
    on_summary: Tell | None = None,
    name: str = "",
) -> list[Score]:
    """Apply the rules of a run's suite again; no image is made or observed.

    Args:
        run: a run or its directory.
        threshold: another confidence threshold for the rules that a detector's own is used for.
        judges: by role (``detector`` ...), the full name of whose observations count, if several judges observed.
        rules: other rules of the suite, by name. ``labels="annotation"``: annotators' answers about this run
            (``verism annotate``) are the labels of a suite that takes any.
        correct: take the judges' error out of what can be had without it, beside the scores as judged: ``human`` by
            annotators' answers about images of the run (``verism annotate``) or by a card made from such answers
            elsewhere; ``rendered`` by a card made from rendered images, or the ground truth of this run's generator.
            Of the cards that come with verism, one of images of this run's generator goes first, whoever labelled them.
        cards: files of judge cards, before those that come with verism.
        min_right: annotators with a smaller share of right answers to checks are left out of ``human``.
        anyway: adjust also by a card of images that differ from the run's; ``adjusted`` of the scores then says so.
        metrics: added to those of the suite and of installed packages.
        device: PyTorch device (``cuda``, ``cuda:1`` ...) that multiplies for precision, recall, density and coverage;
            the numbers are the same. None: numpy.
        on_scores: a function or tracker, or several, told of the scores; see ``RunOptions``.
        step: optimizer steps the model was trained for; functions and trackers are told.
        checkpoint: name of the model's checkpoint; likewise.
        on_summary: called with a line for each tracker that failed; None: standard error.
        name: by which the scoring is kept when others follow it (``open_run("RUN@NAME")``); the scoring that had the
            name before loses it. Empty: it is kept until two others were made.

    Raises:
        UsageError: a rule or judge that does not exist, a correction without a source, by a card of images that
            differ from the run's, or with a card that says nothing of the run's judges.
    """
    run = _opened(run)
    if name:
        check_scoring_name(name)
    scoring = run.manifest.scoring
    names = {**judges_of(run), **(judges or {})}
    suite = stored_suite(run)
    asked = dict(scoring.rules)
    for rule in _calibrated_rules(suite):
        calibrated = scoring.thresholds.get(names.get(rule.calibrated_by, ""))
        if calibrated is not None:
            asked[rule.name] = calibrated
    asked |= dict(rules or {})
    if threshold is not None:
        _with_rules(suite, threshold, None)  # refused where the suite has none
        asked |= {rule.name: threshold for rule in _calibrated_rules(suite)}
    suite = _with_rules(suite, None, ratings_as_labels(run, suite, asked))
    adjust = (
        None
        if correct is None
        else _adjuster(run, suite, correct, [read_card(location(card)) for card in cards], min_right, anyway)
    )
    made = {
        "correct": correct,
        "cards": [str(location(card).absolute()) for card in cards],
        "min_right": min_right,
        "anyway": anyway,
    }
    with _products_on(device):
        scores = score_run(
            run,
            suite,
            judges=names,
            adjust=adjust,
            metrics=metrics,
            adjustment=None if correct is None else made,
            name=name,
        )
    _tell_scores(run, RunOptions(on_scores=on_scores, step=step, checkpoint=checkpoint, on_summary=on_summary))
    return scores


@contextmanager
def _products_on(device: str | None) -> Iterator[None]:
    """Where metrics multiply large matrices: on a GPU if one is named, else on the CPU; the numbers are the same."""
    if device is None or device == "cpu":
        yield
        return
    from verism.inference import float32_product
    from verism.metrics.manifold import products_by

    with products_by(float32_product(device)):
        yield


def _cells(run: store.Run, by: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The cell of every image of a run: its prompt's values of some facets; empty for no facets."""
    if not by:
        return {}
    cell_of = {p.prompt_id: tuple(p.facets.get(facet) for facet in by) for p in run.prompts()}
    return {
        image: cell_of[prompt] for image, prompt in run.read("images", columns=["image_id", "prompt_id"]).iter_rows()
    }


def _adjuster(
    run: store.Run, suite: Suite, kind: Kind, cards: Sequence[JudgeCard], min_right: float, anyway: bool
) -> Adjust:
    """How a run's estimands are adjusted.

    By annotators' answers about its own images first, by cards where there are none; by cards that were asked for
    first, then by the ground truth of its own generator, then by cards that come with verism, those of images of its
    generator before others.
    """
    if not suite.has_estimands:
        raise UsageError(f"{suite.name} has no scores that could be adjusted for the error of a judge")

    def adjust(estimands: Sequence[Estimand], judges: Mapping[str, str]) -> list[Adjustment]:
        made: list[Adjustment] = []

        def rest() -> list[Estimand]:
            done = [a.judged for a in made]
            return [e for e in estimands if not any(e.score is judged for judged in done)]

        samples: dict[str, ImageSample] = {}
        matches: dict[int, ImageMatch] = {}

        def match(card: JudgeCard) -> ImageMatch:
            if id(card) not in matches:
                if card.role not in samples:
                    samples[card.role] = sample_images(run, strata_of(estimands, card.role))
                matches[id(card)] = image_match(card, samples[card.role])
            return matches[id(card)]

        def of_kind(card: JudgeCard) -> bool:
            return card.kind == kind or (kind == "rendered" and card.is_of(run.manifest.settings.generator))

        def speaks(card: JudgeCard) -> bool:
            return of_kind(card) and any(
                find_measured([card], judges.get(e.role, ""), e.rule, e.score.protocol, group=part.key)
                for e in estimands
                for part in e.parts
            )

        used, asked = any(map(speaks, cards)), {e.role for e in estimands}
        for card in cards:  # else the numbers would be adjusted by something else than was asked for
            if not speaks(card) and not (used and card.role not in asked):
                raise UsageError(
                    f"{run.path}: a card that was given has no error rates for --correct {kind}: it is of kind "
                    f"{card.kind}, of the {card.role} {card.judge}; the run's {card.role} is "
                    f"{judges.get(card.role, 'none')}"
                )

        def by_cards(which: Sequence[JudgeCard], of: Sequence[Estimand]) -> list[Adjustment]:
            usable = [card for card in which if of_kind(card)]
            return adjust_by_cards(of, usable, judges, rules=suite.all_rules(), declared=suite.rules, match=match)

        if kind == "human":
            ratings = ratings_of(run, min_right=min_right)
            if ratings.table.height:
                made = adjust_by_labels(
                    estimands,
                    lambda rule, key: human_classes(run, suite, rule, key, ratings=ratings),
                    cells=lambda rule, key: _cells(run, sampling_facets(run, rule, key)),
                    remarks=lambda rule, key: rating_remarks(run, suite, rule, key, ratings=ratings),
                )
        else:
            # A card that was asked for counts, even where the generator of this run knows the truth itself.
            made = by_cards(cards, estimands)
            if truth := true_classes(run, suite):
                made += adjust_by_labels(
                    rest(), lambda rule, key: truth.get((rule, content_hash(dict(key))), {}), kind=kind
                )
        shipped = sorted(shipped_cards(), key=lambda card: not card.is_of(run.manifest.settings.generator))
        made += by_cards([*cards, *shipped], rest())
        unlike = next((a.images.words for a in made if a.images is not None and a.images.state == "unlike"), None)
        if unlike is not None and not anyway:
            raise UsageError(
                f"{run.path}: {unlike}. The judge's errors on these are not known: let annotators label a part of "
                f"them (verism annotate {run.path}, then --correct human), give a card of such images, or add --anyway"
            )
        if not made:
            how = (
                f"ask annotators first: verism annotate {quoted(run.path)}; or give a card of this judge: --card FILE"
                if kind == "human"
                else "give a card of this judge: --card FILE (verism judge card makes one)"
            )
            raise UsageError(
                f"{run.path}: nothing says how its judges err ({', '.join(sorted(judges.values()))}); {how}"
            )
        return made

    return adjust


def agreement(
    run: store.Run | PathLike,
    *,
    by: Sequence[str] = (),
    min_right: float = 0.0,
    n_resamples: int = 2_000,
    seed: int = 0,
) -> dict[str, Any]:
    """How far the annotators of a run's images agree, and its judges with them.

    Args:
        run: a run or its directory.
        by: facets of prompts by which judges are looked at group by group.
        min_right: raters with a smaller share of right answers to checks are left out.
        n_resamples: resamples behind intervals, at least 1.
        seed: seed of the resampling.

    Raises:
        UsageError: no answers about the run's images yet, or an unknown facet.
    """
    run = _pinned(run)
    ratings = given_ratings(run, min_right=min_right)
    suite = stored_suite(run, rules=True)
    facets = sorted({facet for prompt in run.prompts() for facet in prompt.facets})
    if foreign := [facet for facet in by if facet not in facets]:
        raise UsageError(f"no facet {foreign[0]!r}; prompts have {', '.join(facets) or 'none'}")
    known = known_of(run, suite, judges_of(run)) if run.has_verdicts else None
    return agreement_report(run, suite, ratings, known, by=by, n_resamples=n_resamples, seed=seed)


def judge_card(
    run: store.Run | PathLike,
    source: Source = "truth",
    *,
    role: str | None = None,
    by: Sequence[str] = (),
    min_right: float = 0.0,
    note: str = "",
) -> JudgeCard:
    """How a judge of a run errs, by annotators' answers about its images or by their ground truth.

    Args:
        run: a run or its directory.
        source: ``human``: the majority of annotators' answers (``verism annotate``) is the truth; ``truth``: the ground
            truth of a generator that renders; ``model``: as ``human``, where a model and no person gave the answers.
        role: role of the judge, needed if several observed.
        by: facets by whose values tables are made besides.
        min_right: raters with a smaller share of right answers to checks are left out.
        note: what else is to be said of the truth; kept in the card.

    Raises:
        UsageError: see ``annotation.judge_cards.card_of_run``.
    """
    run = _pinned(run)
    return card_of_run(run, stored_suite(run, rules=True), source, role=role, by=by, min_right=min_right, note=note)


def plan_labels(run: store.Run | PathLike, *, half_width: float, cards: Sequence[PathLike] = ()) -> list[Planned]:
    """Answers of annotators that each score needs for an interval of ``value +- half_width``.

    Args:
        run: a run or its directory.
        half_width: half the width of the interval, in the unit of the score, above 0.
        cards: files of judge cards, before those that come with verism.

    Raises:
        UsageError: the suite has no scores that annotators' answers could correct.
    """
    run = _pinned(run)
    suite = stored_suite(run, rules=True)
    if not suite.has_estimands:
        raise UsageError(f"{suite.name} has no scores that annotators' answers could correct")
    judges = judges_of(run)
    known = [read_card(location(card)) for card in cards]
    return planned_labels(
        run,
        suite,
        *known_of(run, suite, judges),
        half_width=half_width,
        ratings=ratings_of(run),
        cards=[*known, *shipped_cards()],
        judges=judges,
    )


def observe(
    run: store.Run | PathLike,
    detector: str | Judge | None = None,
    *,
    judges: Judges | None = None,
    run_options: RunOptions | None = None,
    **options: Any,
) -> list[Score]:
    """Let other judges observe the images of a run, and score by them; no image is made.

    Args:
        run: a run or its directory.
        detector: a detector or its name; short for ``judges={"detector": ...}``.
        judges: judges or their names, by role.
        run_options: threads, device, cache, metrics.
        **options: fields of ``RunOptions``, and judges by role (``clip="ViT-B/32"``).

    Raises:
        UsageError: no judge was named, or the suite has no use for one.
    """
    run = _opened(run)
    keywords = {**options} if detector is None else {"detector": detector, **options}
    call = _Call.of(run_options, judges, keywords)
    with call.workers() as workers, call.shares(run.path) as shares:
        made = _observed(run, call, shares) if workers is None else _observed_on(workers, run, call)
        suite = _calibrated(made.suite.with_rules(**run.manifest.scoring.rules), made.thresholds, None, None)
        if _score_made(made, suite, call, shares):
            return []
    _tell_scores(made.run, call.run)
    return made.run.scores()


def _observed(run: store.Run, call: _Call, shares: Shares, roles: Set[str] | None = None) -> _Made[store.Run]:
    """Let judges observe the images of a run that they did not see yet.

    Args:
        run: the run.
        call: names the judges.
        shares: which part of it this process does.
        roles: of the judges that it has; others are with other processes. None: all.
    """
    suite, needs, requests = _observable(run, call)
    context = call.run.context(suite, run.prompts())
    with ExitStack() as at_end:
        filled = [
            _filled(judge, needs[role], context, call.run.pool)
            for role, judge in call.judges.items()
            if roles is None or role in roles
        ]
        for f in filled:
            at_end.callback(_finish, f.judge, f.made_here, call.run.on_summary)
        run.note_call(_call_record("observe", call))
        shares.agree({RUN: run.manifest.uid} | {f.need.role: (f.judge.name, None) for f in filled}, [])
        here = [f.need.role for f in filled]
        found = _segmenter(filled, call.judges, shares, run.judge(SegmentationNeed.role) or TRUTH)
        filled = _on_regions(filled, found)
        after = "images" if SegmentationNeed.role in call.judges and SegmentationNeed.role not in here else ""
        for f in filled:
            _observe(run, requests, f, found, shares, after)
        _note_judges(run, filled)
    names = {role: name for role, name in judges_of(run).items() if role in needs}
    names |= {f.need.role: f.judge.name for f in filled}
    return _Made(run, suite, requests, names, _thresholds(filled))


def _observable(run: store.Run, call: _Call) -> tuple[Suite, dict[str, Need], Sequence[Request]]:
    """The suite of a run, what it asks by role, and all its images.

    Raises:
        UsageError: no judge is named, or one that the suite has no question for.
    """
    suite = stored_suite(run)
    if call.suite:
        raise UsageError(f"observe takes no {', '.join(call.suite)}; a run's prompts do not change")
    needs = {need.role: need for need in suite.needs()}
    if not call.judges:
        raise UsageError(f"name a judge to observe, by {' or '.join(map(option_of, needs))}")
    _refuse_idle(suite, list(needs.values()), list(call.judges))
    return suite, needs, make_requests(run.prompts(), run.manifest.settings.seed)


def _observe(
    run: store.Run, requests: Sequence[Request], filled: _Filled, segmenter: str, shares: Shares, after: str
) -> None:
    observe_images(run, requests, filled.judge, filled.need, segmenter=segmenter, shares=shares, after=after)
    if isinstance(filled.need, FeatureNeed) and not run.read("reference").is_empty():
        observe_reference(run, filled.judge, shares=shares)


def make_reference(
    suite: str,
    reference: PathLike,
    *,
    features: str | Judge,
    out: PathLike,
    work: PathLike,
    run_options: RunOptions | None = None,
    **options: Any,
) -> ReferenceSet:
    """Compute the features of a reference set once, and write them to a file that ``reference=`` takes.

    Args:
        suite: whose reading of the data counts (a suite that compares with real images).
        reference: CSV, folder ...
        features: the judge, or its name.
        out: the ``.npz`` file.
        work: folder where an interrupted call goes on.
        run_options: threads, device, cache, and ``on_failure``.
        **options: fields of ``RunOptions``, and options of the suite.

    Raises:
        UsageError: no such images, or none that can be used.
    """
    from verism.references import write_reference

    call = _Call.of(run_options, None, {"reference": reference, **options})
    with call.workers() as workers, call.shares(work) as shares:
        if workers is not None:
            images = _reference_of(suite, call)[1]
            part = _ReferencePart(os.getcwd(), suite, features, location(work).absolute(), call.to_workers())
            names = _on_workers(
                workers, part, call, root=location(work).absolute(), roles=["features"], items=len(images.images)
            ).names
            run, judge_name = Run.open(location(work)), names["features"]
            compact_tables(run, [(judge_name, FeatureNeed())])
        else:
            with ExitStack() as at_end:
                run, judge, images = _referenced(suite, features, location(work), call)
                at_end.callback(_finish, judge, isinstance(features, str) and call.run.pool is None, None)
                for line in take_in_reference(run, images, judge, shares=shares):
                    if call.run.on_failure is not None:
                        call.run.on_failure(line)
                judge_name = judge.name
    finished = reference_set(run, judge_name, images.source)
    if not finished.images:
        raise UsageError(f"{reference}: no image of it can be used")
    provenance = {
        "suite": run.suite_name,
        "judge": judge_name,
        "source": images.source,
        "pictures": len(finished.images),
    }
    write_reference(location(out), finished, provenance | {"environment": asdict(run.manifest.environment)})
    return finished


def _reference_of(suite: str, call: _Call) -> tuple[Suite, ReferenceSet]:
    """A suite, and the real images it compares with."""
    the_suite = _suite(suite, None, call.suite)
    images = the_suite.reference
    if images is None:
        raise UsageError(f"{suite} reads no real images from {call.suite['reference']}")
    return the_suite, images


def _referenced(suite: str, features: str | Judge, work: Path, call: _Call) -> tuple[Run, Judge, ReferenceSet]:
    """The run that keeps features of real images while they are computed, who computes them, and the images."""
    the_suite, images = _reference_of(suite, call)
    judge = _filled(features, FeatureNeed(), call.run.context(the_suite, ()), call.run.pool).judge
    settings = RunSettings(
        suite=the_suite.name,
        reference=images.identity()[:16],
        judges={FeatureNeed().role: judge.name},
    )
    return Run.start(work, settings), judge, images


def compare(
    a: store.Run | PathLike,
    b: store.Run | PathLike,
    *,
    by: str | None = None,
    protocol: str | None = None,
    all_protocols: bool = False,
    anyway: bool = False,
    seed: int = 0,
    names: tuple[str, str] = ("A", "B"),
) -> list[Difference]:
    """Comparison of two runs of one suite: B minus A, under the protocol to compare models with.

    Rows are paired by image wherever the suite decides image by image and the runs have prompts in common, and made
    from the intervals of both scores otherwise (``pipeline.comparison``). Runs whose numbers do not mean the same
    (another judge, rule, set of real images, number of images where it matters ...) are refused with the reasons.

    Args:
        a: the baseline: a run or its directory.
        b: the other run.
        by: facet to group by, in place of the suite's own.
        protocol: only this one; None for the first of the suite (``revised``) that both runs were scored under.
        all_protocols: whether every protocol is compared, the one to compare models with first.
        anyway: whether numbers that should not be compared are compared all the same; ``Difference.reasons`` says of
            each row why they should not.
        seed: seed of random permutations, where they are needed.
        names: how the reasons call the two runs.

    Raises:
        UsageError: runs of different suites, with nothing in common, or not comparable.
    """
    a, b = _pair_of_one_suite(a, b)
    presentation = presentation_of(a)
    known = presentation.info.protocols
    protocol = _known_protocol(protocol, known)
    if protocol is not None and all_protocols:
        raise UsageError(f"ask for the protocol {protocol} or for all of them, not for both")
    rows = compare_runs(
        a,
        b,
        presentation,
        other=presentation_of(b),
        by=by,
        protocol=protocol,
        all_protocols=all_protocols,
        anyway=anyway,
        seed=seed,
        names=names,
    )
    order = {name: n for n, name in enumerate(known)}
    return sorted(rows, key=lambda row: order.get(row.protocol, len(order)))


def _pair_of_one_suite(a: store.Run | PathLike, b: store.Run | PathLike) -> tuple[store.Run, store.Run]:
    first, second = _pinned(a), _pinned(b)
    if first.suite_name != second.suite_name:
        raise UsageError(
            f"{first.path} is a run of {first.suite_name} and {second.path} of {second.suite_name}: they measure "
            "different things"
        )
    return first, second


def _known_protocol(protocol: str | None, known: Mapping[str, str]) -> str | None:
    """The name of a protocol today."""
    if protocol is not None and protocol not in known:
        protocol = protocol_name(protocol)
    if protocol is not None and protocol not in known:
        listed = ", ".join(known)
        raise UsageError(f"no protocol {protocol!r}; there are {listed}.{did_you_mean(protocol, known)}")
    return protocol


def gate(
    base: store.Run | PathLike,
    new: store.Run | PathLike,
    *,
    max_drop: MaxDrop,
    metrics: Sequence[str] = (),
    by: str | None = None,
    protocol: str | None = None,
    alpha: float = 0.05,
    require: Require = "no-failure",
    anyway: bool = False,
    seed: int = 0,
) -> Gate:
    """Is a run worse than a baseline by more than is allowed, beyond luck?

    The rows are those of ``compare``. Each drop is tested one-sided against its limit: paired image by image where the
    suite decides so, otherwise from the intervals of both scores; Holm's correction runs over all rows
    (``statistics.non_inferiority``).

    Args:
        base: the baseline: a run or its directory.
        new: the new run.
        max_drop: the largest drop that is allowed: percentage points of shares, else in the metric's unit; or by name
            of a metric, where an empty name stands for all others.
        metrics: names of metrics; empty: the headline metrics of the suite.
        by: facet to group by, in place of the suite's own.
        protocol: only this one; None for the first of the suite that both runs were scored under.
        alpha: chance that a run without any such drop fails, in (0, 0.5).
        require: ``no-failure``: it passes unless a drop is too large; ``shown``: only if every drop is shown not to be.
        anyway: whether numbers that should not be compared are tested all the same.
        seed: seed of random sign patterns, where they are needed.

    Returns:
        The rows, their verdicts, and whether the new run passed.

    Raises:
        UsageError: runs of different suites, not comparable, nothing to test, a metric that cannot be tested.
    """
    base, new = _pair_of_one_suite(base, new)
    presentation = presentation_of(base)
    return gate_runs(
        base,
        new,
        presentation,
        max_drop=max_drop,
        other=presentation_of(new),
        metrics=metrics,
        by=by,
        protocol=_known_protocol(protocol, presentation.info.protocols),
        alpha=alpha,
        require=require,
        anyway=anyway,
        seed=seed,
    )


def plan_gate(
    base: store.Run | PathLike | None = None,
    new: store.Run | PathLike | None = None,
    *,
    drop: float | None = None,
    max_drop: MaxDrop = 0.0,
    metrics: Sequence[str] = (),
    by: str | None = None,
    protocol: str | None = None,
    share: float | None = None,
    discordance: float | None = None,
    correlation: float | None = None,
    images_per_prompt: Sequence[int] = (),
    power: Sequence[float] = (0.8, 0.9),
    alpha: float = 0.05,
) -> list[GatePlan]:
    """How many prompts ``gate`` needs to see a drop.

    Args:
        base: a pilot run or its directory; None: the numbers below are used.
        new: a second pilot run over the same prompts; None: what differs between runs is estimated from ``base`` alone.
        drop: the true drop to be seen: percentage points of shares, else in the metric's unit.
        max_drop: the drop that is allowed; see ``gate``.
        metrics: names of metrics; empty: the headline metrics of the suite.
        by: facet to group by, in place of the suite's own.
        protocol: only this one; None for the first of the suite.
        share: without runs: share of right images of the baseline, 0 to 1.
        discordance: without runs: share of images whose verdicts differ; None: as of two independent sets of images.
        correlation: without runs: correlation of the differences of two images of a prompt, 0 to 1; None for 0.
        images_per_prompt: images per prompt to plan for; None of them: as the run has, or 1.
        power: chances of seeing it, each in (0, 1).
        alpha: level of the gate.

    Returns:
        A plan for each row and number of images per prompt.

    Raises:
        UsageError: no drop, numbers beside runs, neither of both, a drop that is never seen.
    """
    if drop is None:
        raise UsageError("--drop is missing: how large a drop shall be seen? For example --drop 2, in points")
    numbers = {"share": share, "discordance": discordance, "correlation": correlation}
    if base is not None:
        if given := [name for name, value in numbers.items() if value is not None]:
            raise UsageError(f"{given[0]} is taken from the runs; leave it out, or leave out the runs")
        first, second = (_pinned(base), None) if new is None else _pair_of_one_suite(base, new)
        presentation = presentation_of(first)
        return planned_gate(
            first,
            second,
            presentation,
            drop=drop,
            max_drop=max_drop,
            metrics=metrics,
            by=by,
            protocol=_known_protocol(protocol, presentation.info.protocols),
            images_per_prompt=images_per_prompt,
            power=power,
            alpha=alpha,
        )
    if metrics or by is not None or protocol is not None:
        raise UsageError("metrics, facets and protocols are those of a run: name one, or leave them out")
    limits = dict(max_drop) if isinstance(max_drop, Mapping) else {"": max_drop}
    if named := [name for name in limits if name]:
        raise UsageError(f"{named[0]} is a metric of a run: name one, or give a single number")
    if discordance is None:
        if share is None:
            raise UsageError("name a pilot run, or give --discordance, or --share of right images in the baseline")
        if share < drop / 100:
            raise UsageError(f"a share of {share:g} cannot drop by {drop:g} points")
        lower = share - drop / 100
        discordance = share * (1 - lower) + lower * (1 - share)
    return plan_spread(
        Spread(discordance=discordance, correlation=correlation or 0.0),
        drop=drop / 100,
        max_drop=limits[""] / 100,
        images_per_prompt=images_per_prompt or (1,),
        power=power,
        alpha=alpha,
    )


def export(
    run: store.Run | PathLike, out: PathLike, *, to: Format, force: bool = False, raw: bool = False
) -> dict[str, int]:
    """Write a run as a dataset for Hugging Face, as COCO, or as tables; see ``verism.exports.export_run``.

    Args:
        run: a run or its directory.
        out: a folder, new or empty.
        to: ``huggingface``, ``coco``, ``csv`` or ``parquet``.
        force: whether an earlier export in the folder is replaced.
        raw: whether texts of CSV stay as they are.

    Returns:
        What was written: numbers by name.

    Raises:
        UsageError: a folder that must not be written. DamagedRun: an image is not what it was.
    """
    return export_run(_opened(run), location(out), to=to, force=force, raw=raw)


def report_file(run: store.Run) -> Path:
    """Where the report of a run goes if nothing else is asked for.

    Args:
        run: the run, perhaps with a scoring that was opened by its name.
    """
    chosen = run.name.removeprefix(run.path.name).removeprefix("@")
    return run.path / "report" / (f"{chosen}.html" if chosen else "index.html")


def report(
    *runs: store.Run | PathLike,
    out: PathLike,
    gallery: int = 120,
    embed_pixels: int = 256,
    cards: Sequence[PathLike] = (),
    baseline: store.Run | PathLike | None = None,
    tests: bool = True,
) -> Path:
    """Write the report of one run, or of several side by side, as one HTML file.

    Runs of several suites get an overview, and beside it a page for each suite, which it links to.

    Args:
        *runs: runs or their directories; rows of every table are in this order, but for runs whose names differ in one
            number (checkpoints), which are in the order of that number.
        out: an ``.html`` file, or a directory that gets an ``index.html``. Replaced if it is there.
        gallery: how many images to show, over all runs; 0 for none.
        embed_pixels: longer side of an embedded image at most, in pixels.
        cards: files of judge cards, besides those in the runs and those that come with verism.
        baseline: the run that others of its suite are tested against; it comes first. None: the first of each suite.
        tests: whether runs are tested against the baseline at all.

    Returns:
        The file written.

    Raises:
        UsageError: no runs, or a gallery that cannot be.
    """
    opened = [_pinned(run) for run in runs]
    groups = _by_page(opened, None if baseline is None else _pinned(baseline))
    shared: dict[str, Any] = {
        "gallery": gallery,
        "embed_pixels": embed_pixels,
        "cards": [read_card(location(card)) for card in cards],
    }
    if len(groups) <= 1:
        return _write_part(groups[0] if groups else [], location(out), tests=tests, **shared)
    return write_overview(
        groups,
        [[presentation_of(run) for run in group] for group in groups],
        [[installed_suite(run) for run in group] for group in groups],
        location(out),
        lambda group, file, parent: _write_part(group, file, tests=tests, parent=parent, **shared),
    )


def _by_page(runs: Sequence[store.Run], baseline: store.Run | None) -> list[list[store.Run]]:
    """Runs that share a page together: those that differ in one number by that, the baseline first."""
    others = [run for run in runs if baseline is None or run.path.resolve() != baseline.path.resolve()]
    every = [*([] if baseline is None else [baseline]), *others]
    groups = [[every[n] for n in group] for group in sharing([presentation_of(run) for run in every])]
    # Sorting is stable: behind the baseline, the others keep their order.
    return [sorted(numbered(group), key=lambda run: run is not baseline) for group in groups]


def _write_part(runs: Sequence[store.Run], out: Path, *, tests: bool, parent: str = "", **shared: Any) -> Path:
    """The page of runs of one suite."""
    return write_report(
        runs,
        out,
        suites=[installed_suite(run) for run in runs],
        presentations=[presentation_of(run) for run in runs],
        tests=_tests(runs) if tests else None,
        parent=parent,
        **shared,
    )


def _tests(runs: Sequence[store.Run]) -> dict[Of, RunDifference]:
    """Numbers of all runs but the first against those of the first, as far as they may be compared."""
    found: dict[Of, RunDifference] = {}
    for number, run in enumerate(runs[1:], 1):
        try:
            rows = compare(runs[0], run, all_protocols=True, anyway=True)
        except UsageError:  # nothing in common
            continue
        for row in rows:
            if not row.reasons:
                key = (number, row.metric, row.protocol, frozenset(row.group.items()), row.adjusted)
                found[key] = RunDifference(
                    difference=row.difference,
                    ci_low=row.ci_low,
                    ci_high=row.ci_high,
                    p=row.p_holm if row.group else row.p_value,
                    unit=row.unit,
                )
    return found
