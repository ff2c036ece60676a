"""What suites say of themselves as data: options, rules, metrics, how runs are paired and tabulated.

General code (command line, pipeline, reports, comparison) reads these records and asks for nothing else, so that it
never has to know a suite by name. All of them can be written to JSON and read back: a run keeps those of its suite,
and can be reported and compared where the suite itself is not installed.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal

from verism.errors import UsageError
from verism.locations import location
from verism.renames import metric_name, protocol_name, rule_name, rule_value

__all__ = [
    "COSINE",
    "COUNT",
    "DISTANCE",
    "PROBABILITY",
    "RATIO",
    "SHARE",
    "Better",
    "Comparison",
    "Demo",
    "JudgeBench",
    "Layout",
    "MetricSpec",
    "Option",
    "Pairing",
    "Presentation",
    "Row",
    "Rule",
    "RuleScope",
    "Scale",
    "SuiteInfo",
    "check_value",
    "did_you_mean",
]

Better = Literal["higher", "lower"]
Comparison = Literal["independent", "paired", "never"]


@dataclass(frozen=True)
class Scale:
    """What a number is measured in and between which ends it can lie.

    Attributes:
        unit: as scores keep it (``share``, ``p``, ``distance`` ...).
        low: the lowest possible value; None if there is none.
        high: the highest possible value; None if there is none.
        title: as tables write the unit (``%``); empty for numbers without one.
    """

    unit: str
    low: float | None = None
    high: float | None = None
    title: str = ""


SHARE = Scale("share", 0.0, 1.0, "%")
PROBABILITY = Scale("p", 0.0, 1.0)
RATIO = Scale("ratio", 0.0, None, "ratio")
DISTANCE = Scale("distance", 0.0, None, "distance")
COSINE = Scale("cosine", -1.0, 1.0, "cosine")
COUNT = Scale("pictures", 0.0, None, "images")


@dataclass(frozen=True)
class MetricSpec:
    """What a number of a suite means. It has no default direction: a metric that has none says so.

    Attributes:
        name: as scores keep it.
        title: as tables and figures write it.
        meaning: one or two sentences for the reader of a report.
        scale: unit and range. ``None`` where it differs from score to score, which then carry their own unit.
        better: ``higher`` or ``lower``; None where neither is better.
        source: paper and equation, table or section it comes from, or what it is derived from.
        headline: whether it belongs to the few numbers that answer the suite's question.
        compare: how two runs are compared by it. ``paired``: image by image (the suite has a ``Pairing`` that gives
            it); ``independent``: by the intervals of both; ``never``: a comparison would say nothing.
        baseline: metric that gives, for the same group, what chance or an ideal model reaches; drawn beside it.
        finds_group: whether the group of a score is itself found (the worst region), and no part of what is asked.
        judges: roles of the judges it is made from; empty: of all the suite's. Another judge of another role does not
            touch it.
        against_real: whether generated images are held against real ones: the features and the sizes of both sets
            then stand beside its title. Where no metric of a suite says so, other real images touch all of them.
        counts_real: whether the ``n_used`` of its scores counts real images, not generated ones.
        coverage: metric that gives, for the same group, the share of the questions that were answered: an image of
            which some are is used, so that numbers of images do not show it. Empty where they do. Runs whose shares
            differ cannot be compared by it.
        depends_on_n: whether its expected value depends on how many images it is made from, so that runs of other
            sizes cannot be compared by it.
        n_enough: number of images from which on the size no longer matters; 0: it always does.
        n_tolerance: relative difference of the sizes of two runs, 0 to 1, up to which they count as equally large.
        title_by_judge: by regular expression that the whole name of its judge (the first of ``judges``) matches, the
            title it has with such a judge alone: ``FID`` is the name for one network.
    """

    name: str
    _: KW_ONLY
    title: str
    meaning: str
    scale: Scale | None
    better: Better | None
    source: str = ""
    headline: bool = False
    compare: Comparison = "independent"
    baseline: str = ""
    finds_group: bool = False
    judges: tuple[str, ...] = ()
    against_real: bool = False
    counts_real: bool = False
    coverage: str = ""
    depends_on_n: bool = False
    n_enough: int = 0
    n_tolerance: float = 0.01
    title_by_judge: Mapping[str, str] = field(default_factory=dict)

    def title_with(self, judge: str) -> str:
        """Its title where this judge gave what it is made from.

        Args:
            judge: full name of the judge; empty for an unknown one.
        """
        return next((t for pattern, t in self.title_by_judge.items() if re.fullmatch(pattern, judge)), self.title)

    @property
    def higher_is_better(self) -> bool | None:
        """The direction as scores keep it."""
        return None if self.better is None else self.better == "higher"


@dataclass(frozen=True, kw_only=True)
class SuiteInfo:
    """What a suite is.

    Attributes:
        name: name by which the suite is called, with underscores.
        title: as a page's heading writes it.
        question: what it asks about a model, as a sentence.
        summary: one line for ``verism list suites``.
        protocols: by name, what each of its protocols does; the first is the one to compare models with.
        limits: what its numbers do not say, one sentence each.
        citation: the publication it comes from.
    """

    name: str
    title: str
    question: str
    summary: str
    protocols: Mapping[str, str]
    limits: tuple[str, ...] = ()
    citation: str = ""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """How two runs over the same prompts are compared image by image.

    Attributes:
        rule: the verdicts' rule whose values are compared.
        metric: name of the mean of these values. Rows under which a run's score is not this mean are compared by the
            intervals of the scores.
        facet: facet of the prompts by which rows are made unless the user names another; empty for none.
        mean: name of the plain mean over these groups; empty: the row over all images has ``metric`` as its name.
        groups: values of ``facet`` that the mean is over; empty for all.
        key: fields of a verdict's ``detail`` that tell apart several verdicts of the rule about one image; they are
            part of the group of a row.
        where: values that fields of ``detail`` must have; verdicts with others are not compared.
        indicator: fields of ``detail`` and their values: a usable verdict counts as 1 if it has them and as 0 if not,
            in place of its own value.
        group: further parts of the group of every row.
        split: facets of the prompts whose values are never averaged over; they are part of the group of a row.
        scale: scale of the values.
        by_prompt: whether the metric is a mean over prompts of the mean of their images; else each image counts the
            same.
        right_or_wrong: whether a verdict says that the image is right (1) or wrong (0), so that it can be held against
            the truth of rendered images.
    """

    rule: str
    metric: str
    facet: str = ""
    mean: str = ""
    groups: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    indicator: Mapping[str, str] = field(default_factory=dict)
    group: Mapping[str, str] = field(default_factory=dict)
    split: tuple[str, ...] = ()
    scale: Scale = SHARE
    by_prompt: bool = False
    right_or_wrong: bool = False


@dataclass(frozen=True)
class Row:
    """Scores that stand in the first table.

    Attributes:
        metric: their metric.
        facets: the facets that their group has, exactly.
        leave_out: by facet, a value whose scores are left out.
    """

    metric: str
    facets: tuple[str, ...] = ()
    leave_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How the scores of several runs are laid out as tables.

    Attributes:
        kind: ``columns``: a row for each run, and a column for each value of ``facet`` with the metric ``metric``, then
            the mean; ``rows``: a row for each metric and group, a column for each run.
        metric: metric of the columns.
        facet: whose values are the columns.
        mean: metric of the last column.
        reference: metric of a row below: what would be reached without any skill (of the same groups).
        detail: facets with too many values for the first table (single objects ...); reports and CSV have them.
        rows: what the first table of rows has, in order; empty for all that is not in ``detail``.
        caveats: by ``facet=value``, what is written behind the name of a group whose numbers are not to be trusted.
        names: by ``facet`` or ``facet=value``, how it is written where its own name would not do.
    """

    kind: Literal["columns", "rows"] = "rows"
    metric: str = ""
    facet: str = ""
    mean: str = ""
    reference: str = ""
    detail: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    caveats: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class JudgeBench:
    """How judges can be held against rendered images of a suite.

    Attributes:
        roles: of the judges that can be.
        model: name of the generator that renders; ``{seed}`` in it stands for the seed that the user gives.
        options: options of the suite besides ``limit`` and ``seed``; the number of images of a prompt is among them.
        rules: rules of the suite that differ from their defaults.
        images_per_prompt: that number.
        paired: whether the images of a prompt belong together: the first as asked, the others with planted errors in
            the same surroundings. Intervals and tests then take them as one unit.
        by: facets of prompts by whose values groups are compared, besides what is known of any rendered image.
        by_prompts: the judge is not asked what the suite asks its judges, but which prompt fits an image: its own, or
            another of the same form that is wrong for it.
    """

    roles: tuple[str, ...]
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    images_per_prompt: int = 1
    paired: bool = False
    by: tuple[str, ...] = ()
    by_prompts: bool = False


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What a suite shows offline, as its part of ``verism demo --all``; one column of the demo's plan.

    Attributes:
        models: what generates the images, by the name that the board gives it, as ``--model`` takes it. A name stands
            for the same model in all suites.
        references: likewise, for rows of the board that are not ranked.
        settings: of all its runs, in the words of a plan: options, judges by role, ``rules``, ``size``, ``correct`` ...
            ``{files}`` in a text stands for the folder that ``files`` writes.
        shows: what its numbers tell, in one sentence.
        files: ``"package.module:function"`` that writes example files of our own, where the suite's prompts or images
            may not come with verism. It is given an empty folder, and a function that gives a renderer.
        left_out: what of the suite cannot be shown offline, and why; a sentence each.
        variant: told apart from the suite's other parts by this; empty for the first.
        least: prompts that it needs at least, however few are asked for.
    """

    models: Mapping[str, str]
    settings: Mapping[str, Any]
    shows: str
    references: Mapping[str, str] = field(default_factory=dict)
    files: str = ""
    left_out: tuple[str, ...] = ()
    variant: str = ""
    least: int = 1


@dataclass(frozen=True, kw_only=True)
class RuleScope:
    """What another value of a rule touches; the part of ``Rule`` that a comparison of runs needs.

    Attributes:
        name: name of the rule.
        protocol: see ``Rule``.
        metrics: see ``Rule``.
        calibrated_by: see ``Rule``.
        about_images: see ``Rule``.
        default: the value in runs that were scored before there was the rule, as plain JSON; None: it is not known.
    """

    name: str
    protocol: str = ""
    metrics: tuple[str, ...] | None = None
    calibrated_by: str = ""
    about_images: bool = False
    default: Any = None


@dataclass(frozen=True, kw_only=True)
class Presentation:
    """All that reports and comparisons need to know of a suite; a run keeps it.

    Attributes:
        info: what the suite is.
        metrics: every metric its scores may have.
        pairings: how its images are paired.
        layout: layout of its tables.
        rules: what its rules touch. A rule that is not among them is taken to touch everything.
        settings: settings of the suite (``Suite.settings``) that numbers depend on besides the prompts: runs that
            differ in one are not compared.
        judged_by: what in a prompt's spec its images are judged by, besides its words (questions, captions), with the
            role of the judge whose metrics are made from it, empty for all metrics: runs that differ in it are not
            compared by these.
        reference: what the real images that it compares with are called; empty without any, or where their own folder
            says it.
    """

    info: SuiteInfo
    metrics: tuple[MetricSpec, ...]
    pairings: tuple[Pairing, ...] = ()
    layout: Layout = field(default_factory=Layout)
    rules: tuple[RuleScope, ...] = ()
    settings: tuple[str, ...] = ()
    judged_by: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""

    def metric(self, name: str) -> MetricSpec | None:
        """The metric of a name; None if the suite has none of this name."""
        return next((spec for spec in self.metrics if spec.name == name), None)

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @staticmethod
    def of_record(record: Mapping[str, Any]) -> Presentation:
        """What ``record`` wrote. Fields that a later version added are left out.

        Raises:
            KeyError, TypeError: something else.
        """

        def scale(value: Mapping[str, Any] | None) -> Scale | None:
            return None if value is None else _from(Scale, value)

        metrics = tuple(
            _from(MetricSpec, {**m, "name": metric_name(m["name"]), "scale": scale(m["scale"])})
            for m in record["metrics"]
        )
        protocols = {protocol_name(name): text for name, text in record["info"]["protocols"].items()}
        pairings = tuple(_from(Pairing, {**p, "scale": scale(p["scale"]) or SHARE}) for p in record["pairings"])
        layout = record["layout"]
        return Presentation(
            info=_from(SuiteInfo, {**record["info"], "protocols": protocols}),
            metrics=metrics,
            pairings=pairings,
            layout=_from(Layout, {**layout, "rows": [_from(Row, row) for row in layout.get("rows", ())]}),
            rules=tuple(_from(RuleScope, {**r, "name": rule_name(r["name"])}) for r in record.get("rules", ())),
            settings=tuple(record.get("settings", ())),
            judged_by=dict(record.get("judged_by", {})),
            reference=record.get("reference", ""),
        )


def _from(kind: type[Any], record: Mapping[str, Any]) -> Any:
    known = kind.__dataclass_fields__
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in record.items() if name in known})


# --------------------------------------------------------------------------------------------------------------------
# Options and rules: declared once, checked in one place
# --------------------------------------------------------------------------------------------------------------------
ValueType = type[str] | type[int] | type[float] | type[bool] | type[Path] | type[dict]  # type: ignore[type-arg]


@dataclass(frozen=True)
class Option:
    """An option of a suite: what decides its prompts and what is observed.

    The command line, Python and plan files take the same options, checked by the same code.

    Attributes:
        name: name in Python and in files.
        type: type of the value, or of each of several.
        help: one line.
        many: whether several values may be given.
        commas: whether one text may hold several values with commas between them.
        choices: the values there are; empty for any.
        low: the lowest number allowed.
        high: the highest number allowed.
        flag: on the command line; empty: ``--`` and the name with hyphens.
        default: in words, for the help; the value itself is the suite's business.
    """

    name: str
    type: ValueType
    _: KW_ONLY
    help: str
    many: bool = False
    commas: bool = False
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    flag: str = ""
    default: str = ""

    @property
    def command_line(self) -> str:
        """How the option is written on the command line."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    def check(self, value: Any) -> Any:
        """A value as the suite takes it.

        Raises:
            UsageError: of another type, outside the range, or none of the choices.
        """
        return _check_declared(self, value)


@dataclass(frozen=True)
class Rule:
    """A rule of a suite: what changes verdicts or scores without new images or observations.

    Attributes:
        name: name, as ``--rule NAME=VALUE`` and runs have it.
        type: type of the value, or of each of several; ``dict`` for a JSON object that the suite checks itself.
        default: unless the suite has another (``Suite.default_of``).
        help: one line.
        many: whether the value is a list.
        optional: whether None (JSON null) is a value.
        choices: the values there are; empty for any.
        low: the lowest number allowed.
        high: the highest number allowed.
        affects: ``verdicts``, or only ``scores``: judge cards do not depend on the latter.
        protocol: the only protocol that it concerns; empty for all.
        metrics: the only metrics whose values it changes; None for all of them. Rules that add groups, or set how
            intervals are computed, change none.
        about_images: whether its value speaks of the images of one run (labels by annotators), so that two runs never
            share it: they are compared by whether they have any.
        calibrated_by: role of a judge that brings its own value (a detector its confidence threshold); that value is
            used unless the user names another, and ``--threshold`` sets it.
        file: whether the value may also be the path of a file, whose content is kept.
        flag: option of its own on the command line, besides ``--rule``; empty for none.
    """

    name: str
    type: ValueType
    default: Any = None
    _: KW_ONLY
    help: str
    many: bool = False
    optional: bool = False
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    affects: Literal["verdicts", "scores"] = "verdicts"
    protocol: str = ""
    metrics: tuple[str, ...] | None = None
    about_images: bool = False
    calibrated_by: str = ""
    file: bool = False
    flag: str = ""

    @property
    def scope(self) -> RuleScope:
        """What another value of the rule touches, as runs keep it."""
        return RuleScope(
            name=self.name,
            protocol=self.protocol,
            metrics=self.metrics,
            calibrated_by=self.calibrated_by,
            about_images=self.about_images,
            default=self.default if isinstance(self.default, bool) else None,
        )

    @property
    def commas(self) -> bool:
        """Text with commas stands for several values wherever several may be given."""
        return self.many

    def check(self, value: Any) -> Any:
        """A value as runs keep it.

        Raises:
            UsageError: of another type, outside the range, or none of the choices.
        """
        if value is None and self.optional:
            return None
        return _check_declared(self, rule_value(value) if self.choices else value)


def _check_declared(spec: Option | Rule, value: Any) -> Any:
    if not spec.many:
        return check_value(spec.name, spec.type, value, low=spec.low, high=spec.high, choices=spec.choices)
    if isinstance(value, str):
        values: Sequence[Any] = [part.strip() for part in value.split(",")] if spec.commas else [value]
    elif isinstance(value, Iterable) and not isinstance(value, Mapping):
        values = list(value)
    else:
        values = [value]
    kept = [v for v in values if v != ""]
    return [check_value(spec.name, spec.type, v, low=spec.low, high=spec.high, choices=spec.choices) for v in kept]


def check_value(
    name: str,
    kind: ValueType,
    value: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """A value that may come from Python, from JSON or as text, as its type.

    Args:
        name: name of the option or rule, for the message.
        kind: the type: ``str``, ``int`` (also as text, or as a float without a fraction; truth values are none),
            ``float`` (finite), ``bool`` (also ``true``, ``yes``, ``1`` ...), ``Path``, or ``dict``.
        value: the value given.
        low: the lowest number allowed; None for any.
        high: the highest number allowed; None for any.
        choices: the values there are; empty for any.

    Raises:
        UsageError: something else.

    >>> check_value("k", int, " 5 ", low=1), check_value("k", int, 5.0), check_value("vqascore", bool, "no")
    (5, 5, False)
    """
    if kind is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        checked: Any = value if isinstance(value, bool) else words.get(str(value).strip().lower())
        if checked is None:
            raise UsageError(f"{name} is true or false; got {value!r}")
        return checked
    if kind is int or kind is float:
        return _check_number(name, kind, value, low, high)
    if kind is dict:
        if not isinstance(value, Mapping):
            raise UsageError(f"{name} is a mapping; got {value!r}")
        return value
    if not isinstance(value, str | PurePath):
        raise UsageError(f"{name} is {'a path' if kind is Path else 'text'}; got {value!r}")
    if choices and str(value) not in choices:
        near = did_you_mean(str(value), choices)
        raise UsageError(f"{name} is one of {', '.join(choices)}; got {str(value)!r}.{near}")
    return location(value) if kind is Path else str(value)


def _check_number(name: str, kind: ValueType, value: Any, low: float | None, high: float | None) -> int | float:
    is_int = kind is int
    try:
        number: int | float = int(value) if is_int else float(value)
        fits = not isinstance(value, bool) and math.isfinite(number)
        fits = fits and (not is_int or isinstance(value, str) or number == value)
    except (TypeError, ValueError, OverflowError):
        number, fits = 0, False
    if not fits or (low is not None and number < low) or (high is not None and number > high):
        if low is not None and high is not None:
            span = f", between {low:g} and {high:g}"
        elif low is not None:
            span = f", at least {low:g}"
        else:
            span = "" if high is None else f", at most {high:g}"
        raise UsageError(f"{name} is a {'whole ' if is_int else ''}number{span}; got {value!r}")
    return number


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` Did you mean ...?`` for a misspelt name; empty if none is near."""
    near = difflib.get_close_matches(name, list(known), n=2)
    return f" Did you mean {' or '.join(near)}?" if near else ""
