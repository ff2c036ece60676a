"""What a suite is: the base class of those that come with verism and of those from other packages.

A suite asks prompts, says what has to be observed of their images, decides by rules what each image shows, and computes
scores. It never opens an image and never loads a model. Only ``prompts`` and ``needs`` and ``verdicts`` have to be
written; everything else has a default that works. See ``docs/extending.md``.
"""

from __future__ import annotations

import copy
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from verism.errors import UsageError, VerismError
from verism.limits import MAX_SEED, PROMPT_IMAGES
from verism.records import (
    Estimand,
    FacetValue,
    Need,
    Observed,
    Prompt,
    RatingTask,
    ReferenceSet,
    Score,
    UserImage,
)
from verism.renames import rule_name
from verism.specs import (
    COSINE,
    COUNT,
    DISTANCE,
    PROBABILITY,
    RATIO,
    SHARE,
    Demo,
    JudgeBench,
    Layout,
    MetricSpec,
    Option,
    Pairing,
    Presentation,
    Row,
    Rule,
    Scale,
    SuiteInfo,
    did_you_mean,
)

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from verism.own_images import OwnImages, Possible
    from verism.report_kit.evidence import Evidence
    from verism.report_kit.section import Section

__all__ = [
    "COSINE",
    "COUNT",
    "DISTANCE",
    "JUDGE_ERROR_METRICS",
    "LIMIT",
    "N_IMAGES",
    "PROBABILITY",
    "RATIO",
    "SEED",
    "SHARE",
    "Demo",
    "JudgeBench",
    "Layout",
    "MetricSpec",
    "Option",
    "Pairing",
    "Row",
    "Rule",
    "Scale",
    "Suite",
    "SuiteInfo",
    "complete_scores",
]

# Options that most suites have, in one wording.
LIMIT = Option("limit", int, low=1, help="Number of prompts, sampled so that every group keeps its share.")
SEED = Option(
    "seed", int, low=0, high=MAX_SEED, help="Seed of every random choice of prompts, and of the images.", default="0"
)
N_IMAGES = Option(
    "n_images", int, low=1, high=PROMPT_IMAGES.value, help="Images per prompt.", default="the suite's number"
)

# How far a judge is off, of runs whose images come with ground truth (see ``Suite.judge_errors``).
JUDGE_ERROR_METRICS = (
    MetricSpec(
        "true_accuracy",
        title="true accuracy",
        meaning="Share of images that are correct by the ground truth of their rendered scenes.",
        scale=SHARE,
        better="higher",
        source="the revised rule, applied to the ground truth",
        compare="never",
    ),
    MetricSpec(
        "judge_false_accept",
        title="false accepts of the judge",
        meaning="Share of the wrong images that are judged correct.",
        scale=SHARE,
        better="lower",
        source="confusion of verdicts with the ground truth",
        compare="never",
    ),
    MetricSpec(
        "judge_false_reject",
        title="false rejects of the judge",
        meaning="Share of the correct images that are judged wrong.",
        scale=SHARE,
        better="lower",
        source="confusion of verdicts with the ground truth",
        compare="never",
    ),
)


class Suite(ABC):
    """A benchmark: prompts, needs, rules, metrics.

    Subclasses declare what they are as class data, and are made by ``Suite.make`` (options checked) or, for a stored
    run, by ``reopen``.

    Attributes:
        info: name, title, question, protocols, limits.
        options: what decides prompts and needs; see ``Option``.
        rules: what changes verdicts or scores without new images or observations; see ``Rule``.
        metrics: every metric that its scores may have.
        pairings: how two runs are compared image by image.
        layout: of its tables.
        commands: commands of its own for the command line, by path (``data check``): ``"package.module:command"`` of
            click. They ask for judges and runs through ``terminal.Services``.
        published: figures of papers about it, worked out again: ``"package.module:function"`` by the name of the paper.
            The function gives a list of ``published.Check``; the first line of its docstring says of what.
        aspects: its metrics by what they are about, of ``suites.aspects.ASPECTS``; empty: it is about none of these.
        judge_roles: roles of the judges it may ask; empty for any. The command line shows the options of these only.
        benches: how judges are held against rendered images of it (``verism judge bench``); empty: they are not.
        demos: what it shows offline (``verism demo --all``); empty: nothing.
        in_blocks: whether a large run may be scored block by block (``scored_in_blocks`` where that depends on
            options). Then the verdicts of an image rest on its own observations, on ``facts`` and on what the blocks
            before ``carry``; and ``scores``, ``remarks`` and ``judge_errors`` on prompts, ``facts``, ``counts``,
            ``tallies`` and verdicts, which they may get as a ``LazyFrame``: ``verdicts.lazy()`` is one in either case.
        whole_prompts: whether the verdicts of an image rest on the other images of its prompt, too: then no block
            holds a part of a prompt's images.
        lists_images: whether ``scores`` and ``remarks`` ask which images there are: then they get id, prompt, index
            and state of all in either case, and no other column has a value.
        maps_vectors: whether vectors of features come as arrays in files, ``Observed.vectors``, and not in the tables,
            so that any number of them can be gone through.
        takes_uneven_vectors: whether of these arrays, vectors that are missing or not as long as most are NaN; they are
            an error otherwise.
        named_judges_only: whether no judge observes that the user did not name, not even the usual one of a role.
        growing_settings: names of settings that only say how much is asked: a run may go on with other values of them
            if all of its prompts are asked again, unchanged.
        judged_by: by what in a prompt's spec its images are judged besides its words, see ``Presentation``.
        rule_values: rules that differ from their defaults, by name, as plain JSON.
        reference: real images that judges observe, too; None for none.
        user_images: the files behind ``--images``, if the suite read their list itself; None otherwise.
    """

    info: ClassVar[SuiteInfo]
    options: ClassVar[tuple[Option, ...]] = ()
    rules: ClassVar[tuple[Rule, ...]] = ()
    metrics: ClassVar[tuple[MetricSpec, ...]] = ()
    pairings: ClassVar[tuple[Pairing, ...]] = ()
    layout: ClassVar[Layout] = Layout()
    commands: ClassVar[Mapping[str, str]] = MappingProxyType({})
    published: ClassVar[Mapping[str, str]] = MappingProxyType({})
    aspects: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    judge_roles: ClassVar[tuple[str, ...]] = ()
    benches: ClassVar[tuple[JudgeBench, ...]] = ()
    demos: ClassVar[tuple[Demo, ...]] = ()
    in_blocks: ClassVar[bool] = False
    whole_prompts: ClassVar[bool] = False
    lists_images: ClassVar[bool] = False
    maps_vectors: ClassVar[bool] = False
    takes_uneven_vectors: ClassVar[bool] = False
    named_judges_only: ClassVar[bool] = False
    growing_settings: ClassVar[tuple[str, ...]] = ("limit", "n_images")
    judged_by: ClassVar[Mapping[str, str]] = MappingProxyType({})

    rule_values: Mapping[str, Any] = MappingProxyType({})
    reference: ReferenceSet | None = None
    user_images: Sequence[UserImage] | None = None
    _made_with: Mapping[str, Any] = MappingProxyType({})

    # ------------------------------------------------------------------------------------------------------- making
    @classmethod
    def make(cls, options: Mapping[str, Any]) -> Self:
        """The suite with these options; those that are None or empty are left to the suite.

        Args:
            options: by name; names of rules are accepted, too.

        Raises:
            UsageError: an option it does not have, or a value that does not fit.
        """
        declared = {option.name: option for option in cls.options}
        ruled = {rule.name for rule in cls.rules} - set(declared)
        asked = {
            name if name in declared or rule_name(name) not in ruled else rule_name(name): value
            for name, value in options.items()
            if value is not None and value != ()
        }
        for name in asked:
            if name not in declared and name not in ruled:
                known = ", ".join(declared) or "none"
                raise UsageError(
                    f"suite {cls.info.name} does not take {name}; its options are {known}."
                    f"{did_you_mean(name, declared)}"
                )
        checked = {name: declared[name].check(value) for name, value in asked.items() if name in declared}
        try:
            suite = cls.build(**checked)
        except ValueError as err:
            raise UsageError(str(err)) from err
        suite = suite._with(_made_with={name: _plain(value) for name, value in checked.items()})
        rules = {name: value for name, value in asked.items() if name in ruled}
        return suite.with_rules(**rules) if rules else suite

    @classmethod
    def build(cls, *arguments: Any, **options: Any) -> Self:
        """The suite with options that are checked already; by default they go to the constructor.

        Args:
            *arguments: none are given; subclasses name the options they take as keywords.
            **options: values by name.

        Raises:
            UsageError, ValueError: something does not exist or does not fit.
        """
        return cls(*arguments, **options)

    @classmethod
    def reopen(cls, settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> Self:
        """The suite of a stored run, from what ``settings`` wrote and the prompts the run keeps.

        The default builds it anew with the same options.
        """
        del prompts
        return cls.make(settings)

    @classmethod
    def for_own_images(cls, found: OwnImages, judges: Mapping[str, str], reference: Path | None) -> Possible | None:
        """Whether the suite can be run on images of a user with prompts of their own, and what it would need.

        Args:
            found: the images.
            judges: names of judges that the user named, by role.
            reference: real images that the user named.

        Returns:
            Options of a run, or what is missing for one; None for suites that have prompts of their own.
        """
        del found, judges, reference
        return None

    def _with(self, **attributes: Any) -> Self:
        """A copy with other attributes, also of frozen dataclasses."""
        clone = copy.copy(self)
        for name, value in attributes.items():
            object.__setattr__(clone, name, value)
        return clone

    @property
    def made_with(self) -> Mapping[str, Any]:
        """The options the suite was made with, as plain JSON; empty for one that was constructed directly."""
        return self._made_with

    @property
    def name(self) -> str:
        """By which the suite is called."""
        return self.info.name

    # ------------------------------------------------------------------------------------------------ what is asked
    @abstractmethod
    def prompts(self) -> Sequence[Prompt]:
        """The prompts, in a fixed order."""

    @abstractmethod
    def needs(self) -> Sequence[Need]:
        """What has to be observed of the images."""

    def settings(self) -> Mapping[str, Any]:
        """What decides prompts and needs, as plain JSON; a run is only resumed with equal settings.

        The default is the options the suite was made with.
        """
        return dict(self._made_with)

    @property
    def compared_settings(self) -> Sequence[str]:
        """Settings that numbers depend on besides the prompts; runs that differ in one are not compared."""
        return ()

    @property
    def reference_name(self) -> str:
        """What the real images that it compares with are called; empty where their own folder says it."""
        return ""

    @property
    def classes(self) -> Mapping[str, str]:
        """Classes of objects by label, with their names in scene files, for generators that render scenes."""
        return {}

    @property
    def colors(self) -> Sequence[str]:
        """Colours that prompts ask for, for generators that render scenes."""
        return ()

    @property
    def has_labels(self) -> bool:
        """Whether labels by people decide about the images, so that no judge is needed."""
        return False

    # -------------------------------------------------------------------------------------------------------- rules
    def default_of(self, rule: Rule) -> Any:
        """The value of a rule that nobody changed, as plain JSON."""
        return list(rule.default or ()) if rule.many else rule.default

    def rule(self, name: str) -> Any:
        """The value of a rule, as plain JSON."""
        if name in self.rule_values:
            return self.rule_values[name]
        return self.default_of(self._declared_rule(name))

    def all_rules(self) -> dict[str, Any]:
        """Every rule with its value, as runs keep them."""
        return {rule.name: self.rule(rule.name) for rule in self.rules}

    def with_rules(self, **rules: Any) -> Self:
        """The same suite with other rules.

        Args:
            **rules: values by name; from Python, from JSON, or as text.

        Raises:
            UsageError: a rule it does not have, or a value that does not fit.
        """
        values = dict(self.rule_values)
        for name, value in rules.items():
            rule = self._declared_rule(name)
            values[rule.name] = self.check_rule(rule, value)
        return self._with(rule_values=values)

    def check_rule(self, rule: Rule, value: Any) -> Any:
        """A value of a rule as runs keep it (plain JSON); suites add what only they can check.

        Raises:
            UsageError: a value that does not fit.
        """
        return rule.check(value)

    def _declared_rule(self, name: str) -> Rule:
        declared = {rule.name: rule for rule in self.rules}
        rule = declared.get(name) or declared.get(rule_name(name))
        if rule is None:
            known = ", ".join(declared) or "none"
            raise UsageError(f"{self.name} has no rule {name!r}; its rules are {known}.{did_you_mean(name, declared)}")
        return rule

    def for_truth(self) -> Self:
        """The suite as it is applied to ground truth: without thresholds that were calibrated for a judge.

        Ground truth has confidence 1, and 1 is never above a threshold of 1.
        """
        calibrated = {rule.name: self.default_of(rule) for rule in self.rules if rule.calibrated_by}
        return self.with_rules(**calibrated) if calibrated else self

    # ------------------------------------------------------------------------------------------- verdicts and scores
    @abstractmethod
    def verdicts(self, observed: Observed) -> pl.DataFrame:
        """What each image shows, under each protocol; table ``verdicts`` (``suites.verdict_table`` helps)."""

    def scored_in_blocks(self) -> bool:
        """Whether a large run may be scored block by block: as ``in_blocks`` says, unless that depends on options."""
        return self.in_blocks

    def block_key(self) -> Callable[[pl.Series], pl.Series] | None:
        """What of the ids of images puts them into blocks, where an image's verdicts rest on those of other prompts.

        Images whose key has the same text before the first ``#``, as ids of one prompt have it, come in one block.
        The default, None, is for suites whose images need no others, or those of their prompt (``whole_prompts``).
        """
        return None

    def facts(self, observed: Observed) -> Mapping[str, float]:
        """What the verdicts of one image need to know of all others, for suites that are scored ``in_blocks``.

        It is asked of every block, and of each fact the largest number of all blocks is given to ``verdicts``.

        Args:
            observed: a block of images.
        """
        del observed
        return {}

    def facts_of_all(self, blocks: Iterable[Observed], folder: Path | None) -> Any:
        """What the verdicts of one image need to know of all others; by default the largest numbers of ``facts``.

        Override it where that is more than numbers, for suites that are scored ``in_blocks``.

        Args:
            blocks: all images of a run, some at a time, in the order of ``block_key``. They are read as one goes
                through them.
            folder: for files that the result rests on, kept until there are scores; None: in memory.
        """
        del folder
        largest: dict[str, float] = {}
        if type(self).facts is not Suite.facts:
            for block in blocks:
                for name, number in self.facts(block).items():
                    largest[name] = max(number, largest.get(name, number))
        return largest

    def known_facts(self, observed: Observed) -> Any:
        """The facts about all images of a run: those given with a block, or those of the images that are here.

        Args:
            observed: a block of images, or all of them.
        """
        return self.facts_of_all([observed], None) if observed.facts is None else observed.facts

    def carry(self, observed: Observed) -> Any:
        """What the verdicts of the next block need to know of this one, for suites that are scored ``in_blocks``.

        It is asked of every block, in the order of ``block_key``, and is ``Observed.carried`` of the next one.

        Args:
            observed: a block of images.
        """
        del observed
        return None

    def counts(self, observed: Observed) -> Mapping[str, int]:
        """What ``remarks`` count of the observations, for suites that are scored ``in_blocks``: summed over blocks.

        Args:
            observed: a block of images, or all of them.
        """
        del observed
        return {}

    def known_counts(self, observed: Observed) -> Mapping[str, int]:
        """The counts of all images of a run: those that came with the blocks, or those of the images that are here.

        Args:
            observed: a block of images, or all of them.
        """
        return self.counts(observed) if observed.counts is None else observed.counts

    def tally(self, observed: Observed, verdicts: pl.DataFrame) -> Any:
        """What ``scores`` need of some images beyond verdicts, for suites that are scored ``in_blocks``.

        It is asked of every block and held until all are through: sums and short columns, not rows of observations.

        Args:
            observed: a block of images, or all of them.
            verdicts: about these images.
        """
        del observed, verdicts
        return None

    def known_tallies(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Any]:
        """The tallies of all images of a run: one for each block, by ids of images, or that of the images here.

        Args:
            observed: what is left of all blocks, or all images.
            verdicts: about all images.
        """
        return [self.tally(observed, verdicts)] if observed.tallies is None else observed.tallies

    def scores(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Score]:
        """All numbers of the suite, in a fixed order.

        The default is, for every pairing and protocol, the mean of the verdicts over all images and over those of each
        value of the pairing's facet, with intervals clustered by prompt.
        """
        scores: list[Score] = []
        for pairing in self.all_pairings():
            for protocol in self.info.protocols:
                scores += _means(self.name, pairing, protocol, observed, verdicts.lazy())
        return scores

    def judge_errors(self, observed: Observed, verdicts: pl.DataFrame, true_verdicts: pl.DataFrame) -> Sequence[Score]:
        """How far judges are off, for images whose content is known.

        The default holds the verdicts of pairings that say right or wrong against those of the ground truth.

        Args:
            observed: what judges say.
            verdicts: by these observations.
            true_verdicts: by the ground truth, under the same rules.
        """
        from verism.suites.judge_errors import judge_error_scores

        prompts = list(observed.prompts.values())
        return [
            score
            for pairing in self.all_pairings()
            if pairing.right_or_wrong
            for score in judge_error_scores(self.name, prompts, verdicts, true_verdicts, pairing)
        ]

    def judged_rules(self) -> Sequence[str]:
        """Rules of verdicts that ``judge_errors`` asks for; of runs scored in blocks it gets these alone."""
        return [pairing.rule for pairing in self.all_pairings()]

    def answers(self, scores: Sequence[Score]) -> Sequence[str]:
        """One or two sentences that answer the suite's question with numbers, intervals and counts.

        Reports and the terminal begin with them. The default says the headline metrics, and where the first of them is
        lowest and highest.

        Args:
            scores: all of a run, as judged, with their units.
        """
        from verism.report_kit.answers import headline_answers

        return headline_answers(self.presentation(), scores)

    def remarks(self, observed: Observed) -> Sequence[str]:
        """Lines without which the scores could be misread (sets too small ...)."""
        del observed
        return ()

    # ------------------------------------------------------------------------------------------------------- people
    def rating_tasks(self) -> Sequence[RatingTask]:
        """Questions to annotators that ask the same as the suite asks its judges."""
        return ()

    def rated_class(self, task: RatingTask, prompt: Prompt, answer: str) -> str | None:
        """The class (as in verdicts) that an annotator's answer gives an image of this prompt."""
        del task, prompt
        return answer

    def graded_rules(self) -> Mapping[str, Sequence[str]]:
        """By rule of a rating task, rules of verdicts whose numbers say the same by degrees (a cosine beside a
        scale, or beside yes and no); without an entry, the task's own rule."""
        return {}

    @property
    def takes_rating_labels(self) -> bool:
        """Whether annotators' answers can become the suite's rule ``labels`` (see ``labels_of_ratings``)."""
        return type(self).labels_of_ratings is not Suite.labels_of_ratings

    def labels_of_ratings(self, ratings: pl.DataFrame, tasks: Mapping[str, RatingTask]) -> Any:
        """Annotators' answers as the value of the rule ``labels``.

        Args:
            ratings: table ``ratings``.
            tasks: the questions, by name.

        Raises:
            UsageError: the suite takes no labels.
        """
        del ratings, tasks
        raise UsageError(f"{self.name} takes no labels, so annotators' answers cannot become labels")

    @property
    def has_estimands(self) -> bool:
        """Whether some of its scores can be adjusted for judges' errors (see ``estimands``)."""
        return type(self).estimands is not Suite.estimands

    def estimands(self, observed: Observed, verdicts: pl.DataFrame) -> Sequence[Estimand]:
        """The scores that can be adjusted for judges' errors.

        Args:
            observed: a run; as ``scores`` get it where the suite is scored ``in_blocks``.
            verdicts: table ``verdicts``, in blocks without reasons.
        """
        del observed, verdicts
        return ()

    # ------------------------------------------------------------------------------------------------------- report
    def sections(self, evidence: Evidence) -> Sequence[Section] | None:
        """Its part of the report, out of the report kit; None for the page that suits any suite."""
        del evidence
        return None

    def all_pairings(self) -> Sequence[Pairing]:
        """How two runs are compared image by image; suites whose rules depend on their options add to ``pairings``."""
        return self.pairings

    def presentation(self) -> Presentation:
        """All that reports and comparisons need to know of the suite; a run keeps it."""
        return Presentation(
            info=self.info,
            metrics=self.metrics,
            pairings=tuple(self.all_pairings()),
            layout=self.layout,
            rules=tuple(rule.scope for rule in self.rules),
            settings=tuple(self.compared_settings),
            judged_by=dict(self.judged_by),
            reference=self.reference_name,
        )


def complete_scores(suite: Suite, scores: Iterable[Score]) -> list[Score]:
    """Scores with the unit and direction of their metrics.

    Args:
        suite: whose metrics count.
        scores: whose ``unit`` is empty where the metric gives it.

    Raises:
        VerismError: a score whose metric the suite does not declare, or that contradicts it.
    """
    specs = {spec.name: spec for spec in suite.metrics}
    completed = []
    for score in scores:
        spec = specs.get(score.metric)
        if spec is None:
            raise VerismError(
                f"{suite.name} gives a score {score.metric!r} that it does not declare; add a MetricSpec of this name "
                f"to its metrics.{did_you_mean(score.metric, specs)}"
            )
        unit = score.unit or ("" if spec.scale is None else spec.scale.unit)
        if not unit or (spec.scale is not None and unit != spec.scale.unit):
            declared = "none" if spec.scale is None else spec.scale.unit
            raise VerismError(
                f"{suite.name}: a score {score.metric!r} has unit {unit!r}; its metric declares {declared}"
            )
        completed.append(replace(score, unit=unit, higher_is_better=spec.higher_is_better))
    return completed


def _means(suite: str, pairing: Pairing, protocol: str, observed: Observed, verdicts: pl.LazyFrame) -> list[Score]:
    """Means of a rule's verdicts: of each group, and over all images or all groups."""
    import numpy as np
    import polars as pl

    from verism.statistics.intervals import Interval, clustered_average, mean_of_independent

    chosen = verdicts.filter((pl.col("rule") == pairing.rule) & (pl.col("protocol") == protocol))
    rows = chosen.select("prompt_id", "value").collect()
    if rows.is_empty():
        return []
    level = {p.prompt_id: p.facets.get(pairing.facet) for p in observed.prompts.values()}
    levels = list(dict.fromkeys(level.values())) if pairing.facet else []
    groups = [value for value in levels if value is not None]

    def mean(metric: str, group: Mapping[str, FacetValue], chosen: pl.DataFrame) -> Score:
        usable = chosen.filter(pl.col("value").is_not_null())
        interval = clustered_average(usable["value"].to_numpy(), np.array(usable["prompt_id"].to_list()))
        return Score(
            suite=suite,
            metric=metric,
            protocol=protocol,
            group=dict(group),
            value=interval.value,
            ci_low=interval.low,
            ci_high=interval.high,
            n_used=usable.height,
            n_unusable=chosen.height - usable.height,
        )

    of_prompt = rows["prompt_id"].to_list()
    by_group = [
        mean(pairing.metric, {pairing.facet: value}, rows.filter(pl.Series([level.get(p) == value for p in of_prompt])))
        for value in groups
    ]
    if not pairing.mean:
        return [mean(pairing.metric, {}, rows), *by_group]
    over = [s for s in by_group if not pairing.groups or str(s.group[pairing.facet]) in pairing.groups]
    defined = bool(over) and not any(math.isnan(s.value) for s in over)
    interval = Interval(math.nan, math.nan, math.nan)
    if defined:
        interval = mean_of_independent([Interval(s.value, s.ci_low, s.ci_high) for s in over])
    total = Score(
        suite=suite,
        metric=pairing.mean,
        protocol=protocol,
        value=interval.value,
        ci_low=interval.low,
        ci_high=interval.high,
        n_used=sum(s.n_used for s in over),
        n_unusable=sum(s.n_unusable for s in over),
    )
    return [*by_group, total]


def _plain(value: Any) -> Any:
    """An option's value as JSON keeps it."""
    if isinstance(value, PurePath):
        return str(value)
    return json.loads(json.dumps(value, default=str))
