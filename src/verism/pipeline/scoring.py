"""From tables to numbers: rules, scores, and the error of the judge where the truth is known."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from verism.errors import UsageError
from verism.locations import remove_tree
from verism.pipeline.added_metrics import Metric, added_scores
from verism.pipeline.correction import Adjustment
from verism.progress import Working
from verism.records import Estimand, Need, Observed, Prompt, Score, content_hash, empty_table, option_of, roles
from verism.report_kit.coverage import UNFINISHED
from verism.report_kit.evidence import Evidence
from verism.report_kit.section import section_records
from verism.store import TRUTH, Run, Scoring, sorted_verdicts
from verism.store.blocks import put_in_order
from verism.suites.base import Suite, complete_scores
from verism.suites.catalogue import SUITES

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Adjust",
    "judges_of",
    "known_of",
    "observed_of",
    "planned_scoring",
    "score_run",
    "true_classes",
    "truth_estimands",
]

MEASUREMENTS = "observations/measurements/"  # of added metrics, which measure while scores are computed

VECTORS = ("features", "reference_features")  # tables whose vectors may be larger than the memory

Adjust = Callable[[Sequence[Estimand], Mapping[str, str]], Sequence[Adjustment]]


def score_run(
    run: Run,
    suite: Suite,
    *,
    judges: Mapping[str, str] | None = None,
    adjust: Adjust | None = None,
    metrics: Sequence[Metric] = (),
    adjustment: Mapping[str, Any] | None = None,
    name: str = "",
) -> list[Score]:
    """Apply a suite's rules to a run's observations, and let verdicts and scores take the place of earlier ones.

    Rules, judges, verdicts, scores and what explains them are written as one: whoever is stopped leaves the earlier
    scoring or this one.

    Args:
        run: the run; what its suite says of itself is kept beside the scores.
        suite: the suite, with the rules to apply.
        judges: full name of the judge whose observations count, by role; needed only where several judges of a role
            observed.
        adjust: given the suite's estimands and whose observations count by role, those it can take the judges' error
            out of. Adjusted scores follow those as judged.
        metrics: added to those of installed packages; their scores stay at later scorings.
        adjustment: what ``adjust`` was made from, as plain JSON, to be kept with the scores.
        name: by which the scoring is kept when others follow it; empty for none.

    Raises:
        UsageError: a judge that did not observe was named, or several observed and none was named.
        VerismError: scores that the suite does not declare.
    """
    inputs = {name: state for name, state in run.inputs().items() if not name.startswith(MEASUREMENTS)}
    with tempfile.TemporaryDirectory(prefix="verism-scores-", ignore_cleanup_errors=True) as folder:
        return _scored(run, suite, judges, adjust, metrics, adjustment, inputs, Path(folder), name)


def _scored(
    run: Run,
    suite: Suite,
    judges: Mapping[str, str] | None,
    adjust: Adjust | None,
    metrics: Sequence[Metric],
    adjustment: Mapping[str, Any] | None,
    inputs: Mapping[str, str],
    folder: Path,
    name: str,
) -> list[Score]:
    import polars as pl

    verdicts: pl.DataFrame | pl.LazyFrame
    true_verdicts: pl.DataFrame | pl.LazyFrame | None = None
    named, truth = _named(run, suite, judges), _truth_judges(run, suite)
    file = folder / "verdicts.parquet"
    in_blocks = suite.scored_in_blocks()
    if in_blocks:
        with Working("computing scores"):
            verdicts, observed, n_images = _in_blocks(run, suite, named, file)
            scores = list(suite.scores(observed, cast(Any, verdicts)))
            if truth:
                true_verdicts, _, _ = _in_blocks(run, suite.for_truth(), truth, folder / "truth.parquet")
    else:
        observed = observed_of(run, suite, judges, folder=folder)
        n_images = observed.images.height
        with Working("computing scores"):
            verdicts = suite.verdicts(observed)
            scores = list(suite.scores(observed, verdicts))
        if truth:
            known = Observed(prompts=observed.prompts, images=observed.images, observations=_tables(run, truth))
            true_verdicts = suite.for_truth().verdicts(known)
    if true_verdicts is not None:
        rules = suite.judged_rules() if in_blocks else None
        scores += suite.judge_errors(observed, _collected(verdicts, rules), _collected(true_verdicts, rules))
    adjustments: Sequence[Adjustment] = ()
    if adjust is not None:
        used = {
            need.role: judge for need in suite.needs() if (judge := _choose(run, need, (judges or {}).get(need.role)))
        }
        there = {_key(s) for s in scores}
        estimands = suite.estimands(observed, _collected(verdicts))
        adjustments = [a for a in adjust(estimands, used) if _key(a.score) not in there]
        adjustments = [
            replace(a, score=complete_scores(suite, [a.score])[0], judged=complete_scores(suite, [a.judged])[0])
            for a in adjustments
        ]
        scores += [a.score for a in adjustments]
    added = added_scores(run, suite.presentation(), metrics)
    scores = [*complete_scores(suite, scores), *added.scores]
    absent = [option_of(need.role) for need in suite.needs() if need.table not in named]
    left_out = [f"not measured (no judge given): {', '.join(absent)}"] if absent else []
    gap = sum(p.n_images for p in observed.prompts.values()) - n_images
    if gap > 0:
        left_out.append(f"{UNFINISHED}: {gap:,} of its images are not there yet")
    asked = {_choose(run, need, (judges or {}).get(need.role)) for need in suite.needs()}
    of_judges = [line for name, lines in run.manifest.judge_remarks.items() if name in asked for line in lines]
    remarks = [*left_out, *suite.remarks(observed), *of_judges]
    del observed  # the largest tables of all, and what is written now takes memory of its own
    draft = run.with_scoring(
        verdicts=file if isinstance(verdicts, pl.LazyFrame) else verdicts,
        scores=scores,
        adjustments=[a.record() for a in adjustments],
        presentation=added.presentation,
        sections=(),
        scoring=_noted(run, suite, judges, remarks, suite.answers(scores), adjustment or {}),
        inputs=inputs,
        name=name,
    )
    if suite.name not in SUITES:  # its page must be there where its package is not
        sections = suite.sections(Evidence.of([draft], [added.presentation], gallery=0))
        if sections is not None:
            draft = draft.with_scoring(sections=section_records(sections))
    run.keep_scoring(draft)
    return scores


def _in_blocks(
    run: Run, suite: Suite, judges: Mapping[str, str], file: Path
) -> tuple[pl.DataFrame | pl.LazyFrame, Observed, int]:
    """Verdicts computed block by block.

    Args:
        run: the run.
        suite: with the rules to apply.
        judges: full name of a judge by table.
        file: where verdicts are written if there are several blocks; its name with ``.parts`` is used, too.

    Returns:
        Verdicts, of several blocks as a query of ``file``, sorted as they are kept; what is left of the observations
        (``_Reduced``), with the facts about all images; and the number of images.
    """
    import polars as pl

    prompts = {p.prompt_id: p for p in run.prompts()}
    reduced = _Reduced(suite, judges)
    key = suite.block_key()
    with run.blocks(judges, whole_prompts=suite.whole_prompts or key is not None, key=key) as blocks:
        every = (
            Observed(prompts=prompts, images=images, observations=tables, judges=judges) for images, tables in blocks
        )
        facts = suite.facts_of_all(every, file.parent)
        parts = file.with_name(f"{file.name}.parts")
        written: list[Path] = []
        n_images = 0
        carried: Any = None
        for images, tables in blocks:
            block = Observed(
                prompts=prompts, images=images, observations=tables, judges=judges, facts=facts, carried=carried
            )
            verdicts = sorted_verdicts(suite.verdicts(block))
            carried = suite.carry(block)
            n_images += images.height
            reduced.add(block, verdicts)
            if len(blocks) == 1:
                return verdicts, reduced.observed(prompts, facts), n_images
            parts.mkdir(exist_ok=True)
            written.append(parts / f"{len(written):06}.parquet")
            verdicts.write_parquet(written[-1], compression="lz4")
            del block, images, tables, verdicts
    if key is not None:
        written = put_in_order(written, sorted_verdicts, parts)
    pl.scan_parquet(written, glob=False).sink_parquet(file, compression="zstd", compression_level=3)
    remove_tree(parts)
    return pl.scan_parquet(file, glob=False), reduced.observed(prompts, facts), n_images


class _Reduced:
    """What is left of the blocks of a run once verdicts are made: sums, judges, a list of images if one is wanted."""

    def __init__(self, suite: Suite, judges: Mapping[str, str]) -> None:
        """Nothing yet.

        Args:
            suite: says what is left.
            judges: full name of a judge by table.
        """
        self.suite, self.judges = suite, judges
        self.counts: Counter[str] = Counter()
        self.tallies: list[Any] = []
        self.images: list[pl.DataFrame] = []
        self.signed = {table: empty_table(table) for table in judges}

    def add(self, block: Observed, verdicts: pl.DataFrame) -> None:
        """Take in a block, and the verdicts about it."""
        import polars as pl

        self.counts.update(self.suite.counts(block))
        self.tallies.append(self.suite.tally(block, verdicts))
        if self.suite.lists_images:
            listed = block.images.select("image_id", "prompt_id", "index", "state")
            # Texts that stand in many rows share their bytes.
            self.images.append(listed.with_columns(pl.col("prompt_id", "state").cast(pl.Categorical).cast(pl.String)))
        for table, rows in block.observations.items():
            known = self.signed[table]
            if rows.height and not (known.height and (rows["judge"] == known["judge"][0]).all()):
                self.signed[table] = pl.concat([known, rows]).unique("judge", keep="first", maintain_order=True)

    def observed(self, prompts: Mapping[str, Prompt], facts: Any) -> Observed:
        """It as scores and remarks get it."""
        import polars as pl

        images = empty_table("images")
        if self.images:
            images = pl.concat([images, *self.images], how="diagonal")
        return Observed(
            prompts=prompts,
            images=images,
            observations=self.signed,
            judges=self.judges,
            facts=facts,
            counts=self.counts,
            tallies=self.tallies,
        )


def _collected(verdicts: pl.DataFrame | pl.LazyFrame, rules: Sequence[str] | None = None) -> pl.DataFrame:
    """Verdicts in memory; those of a file without their reasons, which are most of it.

    Args:
        verdicts: table ``verdicts``.
        rules: only those of these rules, if they are not in memory yet; None for all.
    """
    import polars as pl

    if isinstance(verdicts, pl.DataFrame):
        return verdicts
    wanted = verdicts if rules is None else verdicts.filter(pl.col("rule").is_in(list(rules)))
    return wanted.with_columns(pl.lit("").alias("reason")).collect()


def _noted(
    run: Run,
    suite: Suite,
    judges: Mapping[str, str] | None,
    remarks: Sequence[str],
    answers: Sequence[str],
    adjustment: Mapping[str, Any],
) -> Scoring:
    """How the scores are made: the rules, whose observations count, and each judge's own threshold."""
    before = run.manifest.scoring
    planned = planned_scoring(suite, before.judges if judges is None else judges)
    return run.manifest.with_scoring(
        judges=planned.judges,
        rules=planned.rules,
        thresholds={**before.thresholds, **planned.thresholds},
        remarks=remarks,
        answers=answers,
        adjustment=adjustment,
    ).scoring


def planned_scoring(suite: Suite, judges: Mapping[str, str]) -> Scoring:
    """How a run will be scored: rules, judges, and each judge's own threshold.

    Args:
        suite: with the rules that will be applied.
        judges: full name of the judge whose observations will count, by role.
    """
    thresholds = {
        judges[rule.calibrated_by]: suite.rule(rule.name)  # calibrated for that judge alone
        for rule in suite.rules
        if rule.calibrated_by in judges
    }
    return Scoring(judges=dict(judges), rules=suite.all_rules(), thresholds=thresholds)


def _truth_judges(run: Run, suite: Suite) -> dict[str, str]:
    """``TRUTH`` by table of ground truth, of generators that know what their images show."""
    return {need.table: TRUTH for need in suite.needs() if run.has_truth(need.table)}


def _named(run: Run, suite: Suite, judges: Mapping[str, str] | None) -> dict[str, str]:
    """Full name of the judge whose observations count, by table."""
    named: dict[str, str] = {}
    for need in suite.needs():
        name = _choose(run, need, (judges or {}).get(need.role))
        if name is not None:
            named |= dict.fromkeys((need.table, *need.beside), name)
    return named


def _tables(run: Run, named: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    return {table: run.read(table, name) for table, name in named.items()}


def judges_of(run: Run) -> dict[str, str]:
    """Full names of the judges, by role, whose observations the run's scores were made from."""
    return {role: name for role in roles() if (name := run.judge(role)) is not None}


def observed_of(
    run: Run, suite: Suite, judges: Mapping[str, str] | None = None, *, folder: Path | None = None
) -> Observed:
    """What is known about the images of a run.

    Args:
        run: the run.
        suite: whose needs count.
        judges: full name of the judge whose observations count, by role, as in ``score_run``.
        folder: for vectors of suites that take them from files; None: they are held in memory.
    """
    named = _named(run, suite, judges)
    mapped = [table for table in named if suite.maps_vectors and folder is not None and table in VECTORS]
    observations = _tables(run, {table: name for table, name in named.items() if table not in mapped})
    vectors = {}
    for table in mapped:
        assert folder is not None
        observations[table], vectors[table] = run.map_vectors(
            table, named[table], folder, uneven=suite.takes_uneven_vectors
        )
    reference = run.read("reference")
    return Observed(
        prompts={p.prompt_id: p for p in run.prompts()},
        images=run.read("images"),
        observations=observations,
        judges=named,
        vectors=vectors,
        reference=None if reference.is_empty() else reference,
    )


def known_of(
    run: Run, suite: Suite, judges: Mapping[str, str], *, scored: bool = True
) -> tuple[Observed, pl.DataFrame]:
    """What estimands, and reports about judges, are made from: prompts, images, verdicts.

    Of suites that are scored block by block there is one row of each table of observations, as ``scores`` get it,
    unless they have estimands that need tallies.

    Args:
        run: the run.
        suite: with the rules to apply.
        judges: full name of the judge whose observations count, by role.
        scored: whether the verdicts are those of the run's scores, without their reasons; they are made anew otherwise.

    Raises:
        VerismError: verdicts of the run's scores are asked for, and there are none yet.
    """
    tallied = type(suite).tally is not Suite.tally  # which estimands would need
    if not scored or not suite.scored_in_blocks() or (tallied and suite.has_estimands):
        observed = observed_of(run, suite, judges)
        return observed, _collected(run.scan_verdicts()) if scored else suite.verdicts(observed)
    named = _named(run, suite, judges)
    observed = Observed(
        prompts={p.prompt_id: p for p in run.prompts()},
        images=run.read("images", columns=["image_id", "prompt_id", "index", "state"]),
        observations={table: run.first_row(table, name) for table, name in named.items()},
        judges=named,
    )
    return observed, _collected(run.scan_verdicts())


def truth_estimands(run: Run, suite: Suite) -> list[Estimand]:
    """A suite's estimands under its ``revised`` protocol, with what images show by ground truth as their classes.

    Args:
        run: its prompts, images and ground truth.
        suite: whose rules are applied, without thresholds that were calibrated for a judge.

    Returns:
        The estimands; none without ground truth.
    """
    truth, exact = _truth_judges(run, suite), suite.for_truth()
    if not truth:
        return []
    verdicts: pl.DataFrame | pl.LazyFrame
    with tempfile.TemporaryDirectory(prefix="verism-scores-", ignore_cleanup_errors=True) as folder:
        if exact.scored_in_blocks():
            verdicts, known, _ = _in_blocks(run, exact, truth, Path(folder) / "truth.parquet")
        else:
            prompts = {p.prompt_id: p for p in run.prompts()}
            known = Observed(prompts=prompts, images=run.read("images"), observations=_tables(run, truth))
            verdicts = exact.verdicts(known)
        estimands = exact.estimands(known, _collected(verdicts))
    return [estimand for estimand in estimands if estimand.score.protocol == "revised"]


def true_classes(run: Run, suite: Suite) -> dict[tuple[str, str], dict[str, str]]:
    """What images show by ground truth, in the classes of a suite's ``revised`` verdicts.

    Returns:
        The class by image, by rule and the hash of its key; empty without ground truth.
    """
    classes: dict[tuple[str, str], dict[str, str]] = {}
    for estimand in truth_estimands(run, suite):
        for part in estimand.parts:
            of_rule = classes.setdefault((estimand.rule, content_hash(dict(part.key))), {})
            of_rule.update(zip(part.image_ids, part.predicted, strict=True))
    return classes


def _key(score: Score) -> tuple[str, str, str, str]:
    return score.metric, score.protocol, str(dict(score.group)), score.adjusted


def _choose(run: Run, need: Need, judge: str | None) -> str | None:
    """Whose observations fill a need; None for an optional need that nobody fills."""
    there = run.judges(need.table)
    if judge == TRUTH and run.has_truth(need.table):
        return TRUTH
    if judge is None:
        preferred = run.judge(need.role)
        judge = preferred if preferred in there else there[0] if len(there) == 1 else None
        if judge is None and there:
            raise UsageError(f"{run.path}: several judges observed the images; name one of {there}")
    if judge is None or judge not in there:
        # Without any observation every image may be missing; the scores will say so.
        if not there:
            return judge or (None if need.optional else "none")
        raise UsageError(f"{run.path}: no judge {judge!r}; there are {there}")
    return judge
