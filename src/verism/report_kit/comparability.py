"""Whether the numbers of two runs may be held against each other: the one check behind comparisons, tables and pages.

What matters for which number is said by the suite, as data (``Presentation``): the judges that a metric is made from,
whether it compares with real images, whether it depends on the number of images, which metrics a rule changes, and
which score counts the questions that were answered.
What a run of an earlier version does not record is unknown, and an unknown is no difference.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, TypeVar

from verism.errors import UsageError
from verism.records import FacetValue, Score, declaring_option, judge_identity, option_of, roles
from verism.report_kit.coverage import share_answered
from verism.specs import MetricSpec, Presentation
from verism.store import Run
from verism.systems import quoted

__all__ = ["Comparability", "Reason", "SetSizes", "check_comparable", "score_command", "set_sizes", "shown"]

Group = frozenset[tuple[str, FacetValue]]
Value = TypeVar("Value")
LISTED = 4  # metrics that a reason names before it counts them
MOST_OF_A_KIND = 8  # reasons of one kind that a refusal lists before it counts them
ANSWERED_TOLERANCE = 0.05  # difference of two shares of usable answers up to which numbers are compared
CHANCE = NormalDist().inv_cdf(0.975)  # standard errors of such a difference that few equal shares are apart
EPSILON = 1e-9  # of a share that is rounded
SHOWN = 60  # letters of a rule's value


@dataclass(frozen=True, kw_only=True)
class Reason:
    """One reason why numbers of two runs may not be compared.

    Attributes:
        kind: ``suite``, ``judge``, ``rule``, ``real images``, ``prompts``, ``seed``, ``image size``, ``setting``,
            ``number of images``, ``usable answers`` or ``adjustment``.
        text: the difference, in words.
        remedy: what makes the runs comparable, as a command where there is one; empty if nothing does.
        metrics: names of the metrics that it touches; None for all.
        protocol: the only protocol that it touches; empty for all.
    """

    kind: str
    text: str
    remedy: str = ""
    metrics: tuple[str, ...] | None = None
    protocol: str = ""

    def touches(self, metric: str, protocol: str) -> bool:
        """Whether it concerns a metric under a protocol.

        Args:
            metric: name of the metric.
            protocol: name of the protocol.
        """
        return (self.metrics is None or metric in self.metrics) and self.protocol in ("", protocol)


@dataclass(frozen=True, kw_only=True)
class SetSizes:
    """How many images a number is made from.

    Attributes:
        generated: generated images used; None if unknown.
        real: real images used; None without any, or if unknown.
    """

    generated: int | None = None
    real: int | None = None

    def text(self) -> str:
        """Both numbers in words: ``96 vs 300 real``, generated images first; empty if unknown."""
        known = [f"{self.generated:,}"] if self.generated is not None else []
        return " vs ".join(known + ([f"{self.real:,} real"] if self.real is not None else []))


def set_sizes(scores: Iterable[Score], presentation: Presentation) -> dict[tuple[str, Group], SetSizes]:
    """By protocol and group, sizes of the two sets that metrics against real images compare.

    ``n_used`` of a score counts one of the two sets; which one, its metric says (``counts_real``).

    Args:
        scores: scores of a run.
        presentation: what the suite of the run says of its metrics.
    """
    real: dict[Group, int] = {}
    generated: dict[tuple[str, Group], int] = {}
    for score in scores:
        spec = presentation.metric(score.metric)
        if spec is None or not spec.against_real or spec.finds_group or score.adjusted or not score.n_used:
            continue
        group = frozenset(score.group.items())
        if spec.counts_real:
            real[group] = max(score.n_used, real.get(group, 0))
        else:
            generated[score.protocol, group] = max(score.n_used, generated.get((score.protocol, group), 0))
    return {key: SetSizes(generated=n, real=real.get(key[1])) for key, n in generated.items()}


def _one_judge(role: str, a: str, b: str) -> str:
    """What to do about two judges; of files of results it may be that one judge made both."""
    remedy = f"let one judge observe both runs: verism observe RUN {option_of(role)} NAME"
    from_files = all(name.startswith("results:") for name in (a, b))
    if from_files and any(judge_identity(name) == name for name in (a, b)):
        remedy += f"; or, if one judge made both files, declare it: verism observe RUN {declaring_option(role)}"
    return remedy


class Comparability:
    """What stands between the numbers of two runs.

    Attributes:
        a: the first run.
        b: the second run.
        names: how the reasons call them.
        presentations: what the suite of each run says of itself.
    """

    def __init__(
        self, a: Run, b: Run, presentations: tuple[Presentation, Presentation], *, names: tuple[str, str] = ("A", "B")
    ) -> None:
        self.a, self.b, self.presentations, self.names = a, b, presentations, names
        self._same_run = a.path.resolve() == b.path.resolve() and a.name == b.name  # and one scoring

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons that concern whole runs. Numbers of images and answers are checked score by score, in
        ``touching``."""
        if self._same_run:
            return ()
        if self.a.suite_name != self.b.suite_name:  # then everything else differs, too
            text = self._difference("suite", self.a.suite_name, self.b.suite_name)
            return (Reason(kind="suite", text=text, remedy="compare runs of one suite"),)
        return (
            *self._judges(),
            *self._rules(),
            *self._real_images(),
            *self._prompts(),
            *self._settings(),
            *self._seeds(),
            *self._image_sizes(),
        )

    def touching(self, metric: str, protocol: str, group: Mapping[str, FacetValue]) -> tuple[Reason, ...]:
        """The reasons that concern one number.

        Args:
            metric: name of the metric.
            protocol: name of the protocol.
            group: facet values that the number is restricted to.
        """
        if self._same_run:
            return ()
        found = [reason for reason in self.reasons if reason.touches(metric, protocol)]
        sizes = self._numbers_of_images(metric, protocol, group)
        return (*found, *sizes, *([] if sizes else self.usable_answers(metric, protocol, group)))

    def adjusted_apart(
        self, metric: str, protocol: str, group: Mapping[str, FacetValue], adjusted: str
    ) -> tuple[Reason, ...]:
        """Why one number, adjusted for the judge's error in both runs, was not adjusted in one way.

        Args:
            metric: name of the metric.
            protocol: name of the protocol.
            group: facet values that the number is restricted to.
            adjusted: kind of truth that both were adjusted by; empty for scores as judged.
        """
        if not adjusted or self._same_run:
            return ()
        key = (metric, protocol, frozenset(group.items()), adjusted)
        a, b = (adjustments.get(key) for adjustments in self._adjustments)
        if a is None or b is None or a["method"] != b["method"]:
            methods = [str(made["method"]) if made else "" for made in (a, b)]
            if not all(methods):
                return ()
            text = self._difference("adjusted by", *methods)
        elif a["method"] == "judge card" and a.get("tables") and b.get("tables") and a["tables"] != b["tables"]:
            text = self._difference(
                "judge card",
                *(f"{made['tables'][:8]}, {made['n_labels']:,} items of {shown(made['source'])}" for made in (a, b)),
            )
        else:
            return ()
        remedy = "adjust both by one card: verism score RUN --correct rendered --card FILE"
        return (Reason(kind="adjustment", text=text, remedy=remedy, metrics=(metric,)),)

    # -------------------------------------------------------------------------------------------------- single checks
    def _difference(self, what: str, a: str, b: str) -> str:
        return f"{what}: {a} in {self.names[0]}, {b} in {self.names[1]}"

    def _specs(self) -> list[MetricSpec]:
        return [spec for presentation in self.presentations for spec in presentation.metrics]

    def _metrics_of_role(self, role: str) -> tuple[str, ...] | None:
        """Metrics made from what a role observes; None for all."""
        specs = self._specs()
        touched = tuple(dict.fromkeys(s.name for s in specs if not s.judges or role in s.judges))
        return None if len(touched) == len({s.name for s in specs}) else touched

    def _metrics_against_real(self) -> tuple[str, ...] | None:
        """Metrics that compare with real images; None where the suite does not say which."""
        return tuple(dict.fromkeys(s.name for s in self._specs() if s.against_real)) or None

    def _judges(self) -> list[Reason]:
        found = []
        for role in roles():
            a, b = self.a.judge(role), self.b.judge(role)
            if a and b and judge_identity(a) != judge_identity(b):
                found.append(
                    Reason(
                        kind="judge",
                        text=self._difference(role.replace("_", " "), a, b),
                        remedy=_one_judge(role, a, b),
                        metrics=self._metrics_of_role(role),
                    )
                )
        return found

    def _rules(self) -> list[Reason]:
        scopes = {scope.name: scope for presentation in self.presentations for scope in presentation.rules}
        rules = dict(self.a.manifest.scoring.rules), dict(self.b.manifest.scoring.rules)
        # A run that was scored before there was a rule is as its default has it, where that is known.
        added = {name: scope.default for name, scope in scopes.items() if scope.default is not None}
        found = []
        known = (name for name in rules[0].keys() | rules[1].keys() if all(name in r or name in added for r in rules))
        for name in sorted(known):
            a, b = (of_run.get(name, added.get(name)) for of_run in rules)
            scope = scopes.get(name)
            if scope is not None and scope.about_images:
                a, b = ("given" if value else "none" for value in (a, b))
            if a == b or (scope is not None and scope.metrics == ()):
                continue
            command = "" if isinstance(a, Mapping) else score_command(self.b, {name: a})
            found.append(
                Reason(
                    kind="rule",
                    text=self._difference(f"rule {name}", shown(a), shown(b)),
                    remedy=command or "score both with the same rule",
                    metrics=None if scope is None else scope.metrics,
                    protocol="" if scope is None else scope.protocol,
                )
            )
        return found

    def _real_images(self) -> list[Reason]:
        a, b = _real_identity(self.a), _real_identity(self.b)
        if not a or not b or a == b:
            return []
        counts = [f"{run.read('reference', columns=['image_id']).height:,} images" for run in (self.a, self.b)]
        text = self._difference("other real images", *counts)
        return [
            Reason(
                kind="real images",
                text=text,
                remedy="run both with the same --reference",
                metrics=self._metrics_against_real(),
            )
        ]

    def _prompts(self) -> list[Reason]:
        # By their words: the ids of prompts that a user's list gives no ids are names of files.
        texts = [Counter(p.text for p in run.prompts() if p.text) for run in (self.a, self.b)]
        if not all(texts):
            return []
        if texts[0] == texts[1]:
            return self._judged_by()
        same = (texts[0] & texts[1]).total()
        text = self._difference("other prompts", *(f"{of_run.total():,}" for of_run in texts)) + f", {same:,} the same"
        return [
            Reason(kind="prompts", text=text, remedy="run both over the same prompts (the same options and --limit)")
        ]

    def _judged_by(self) -> list[Reason]:
        """Prompts of the same words that are judged by other questions, captions ..."""
        declared = {name: role for p in self.presentations for name, role in p.judged_by.items()}
        specs = [[(p.text, p.spec) for p in run.prompts()] for run in (self.a, self.b)]
        found = []
        for name, role in sorted(declared.items()):
            values = [
                Counter((text, json.dumps(spec[name], sort_keys=True)) for text, spec in of_run if name in spec)
                for of_run in specs
            ]
            n = [of_run.total() for of_run in values]
            if not all(n) or values[0] == values[1] or n[0] != n[1]:  # of an earlier version, or not asked of one
                continue
            same = (values[0] & values[1]).total()
            found.append(
                Reason(
                    kind="prompts",
                    text=f"the same prompts are judged by other {name} in {self.names[0]} and {self.names[1]}: "
                    f"{n[0] - same:,} of {n[0]:,}",
                    remedy=f"run both with the same {name}",
                    metrics=self._metrics_of_role(role) if role else None,
                )
            )
        return found

    def _settings(self) -> list[Reason]:
        declared = [set(presentation.settings) for presentation in self.presentations]
        settings = [run.manifest.settings.suite_settings for run in (self.a, self.b)]
        found = []
        for name in sorted(declared[0] | declared[1]):
            if not all(name in of_run for of_run in settings) or settings[0][name] == settings[1][name]:
                continue
            # null is a value where both runs say that the setting matters; a run without it has nothing to be compared.
            if any(of_run[name] is None for of_run in settings) and not all(name in names for names in declared):
                continue
            found.append(
                Reason(
                    kind="setting",
                    text=self._difference(name.replace("_", " "), *(shown(of_run[name]) for of_run in settings)),
                    remedy=f"run both with the same {name.replace('_', ' ')}",
                )
            )
        return found

    def _seeds(self) -> list[Reason]:
        a, b = (run.manifest.settings.seed for run in (self.a, self.b))
        # Images that exist already, and generators that take no seed, have none.
        drawn = all(any(run.take_images(["seed"], lambda rows: rows["seed"].count())) for run in (self.a, self.b))
        if a == b or not drawn:
            return []
        text = self._difference("seed of the images", str(a), str(b))
        return [Reason(kind="seed", text=text, remedy=f"run both with --seed {a}")]

    def _image_sizes(self) -> list[Reason]:
        sizes = [_image_sizes(run) for run in (self.a, self.b)]
        totals = [of_run.total() for of_run in sizes]
        if not all(totals):
            return []
        shared = sum(min(n / totals[0], sizes[1][size] / totals[1]) for size, n in sizes[0].items())
        if shared >= 1 - ANSWERED_TOLERANCE:
            return []
        texts = [_sizes_in_words(of_run) for of_run in sizes]
        text = self._difference("size of the images", *texts)
        return [Reason(kind="image size", text=text, remedy="generate both at the same size")]

    @cached_property
    def _scores(self) -> list[dict[tuple[str, str, Group], Score]]:
        return [
            {(s.metric, s.protocol, frozenset(s.group.items())): s for s in run.scores() if not s.adjusted}
            for run in (self.a, self.b)
        ]

    @cached_property
    def _adjustments(self) -> list[dict[tuple[str, str, Group, str], Mapping[str, Any]]]:
        return [
            {
                (str(r["metric"]), str(r["protocol"]), frozenset(r["group"].items()), str(r["adjusted"])): r
                for r in run.adjustments()
            }
            for run in (self.a, self.b)
        ]

    @cached_property
    def _sizes(self) -> list[dict[tuple[str, Group], SetSizes]]:
        return [
            set_sizes(scores.values(), presentation)
            for scores, presentation in zip(self._scores, self.presentations, strict=True)
        ]

    def _numbers_of_images(self, metric: str, protocol: str, group: Mapping[str, FacetValue]) -> list[Reason]:
        spec = next((p.metric(metric) for p in self.presentations if p.metric(metric) is not None), None)
        if spec is None or not spec.depends_on_n:
            return []
        if spec.finds_group:  # which one, is found in each run by itself
            group = {}
        sizes = [self._size_of(n, spec, protocol, frozenset(group.items())) for n in (0, 1)]
        pairs = [(sizes[0].generated, sizes[1].generated), (sizes[0].real, sizes[1].real)]
        if not any(_differ(a, b, spec) for a, b in pairs):
            return []
        what = "number of images"
        where = f" of {', '.join(map(str, group.values()))}" if group else ""
        return [
            Reason(
                kind="number of images",
                text=self._difference(what + where, sizes[0].text(), sizes[1].text()),
                remedy="compare runs of equal size",
                metrics=(metric,),
            )
        ]

    def _size_of(self, run: int, spec: MetricSpec, protocol: str, group: Group) -> SetSizes:
        """Sizes behind one number; where it has no score of its own (an unusual group), those of the nearest one."""
        if spec.against_real:
            known = _nearest({g: size for (p, g), size in self._sizes[run].items() if p == protocol}, group)
            if known is not None:
                return known
        own = {g: s for (m, p, g), s in self._scores[run].items() if (m, p) == (spec.name, protocol)}
        score = _nearest(own, group)
        if score is None:
            return SetSizes()
        return SetSizes(real=score.n_used) if spec.counts_real else SetSizes(generated=score.n_used)

    def usable_answers(self, metric: str, protocol: str, group: Mapping[str, FacetValue]) -> list[Reason]:
        """Another share of what was asked was answered: the numbers are then of other items.

        Args:
            metric: name of the metric.
            protocol: name of the protocol.
            group: facet values that the number is restricted to.

        Missing answers are seldom those of average items, and the most that they can do to a difference grows with the
        difference of the shares. A metric that is never compared (a bound that counts missing answers, the share of
        answers itself) is not touched.
        """
        spec = next((p.metric(metric) for p in self.presentations if p.metric(metric) is not None), None)
        if spec is not None and (spec.compare == "never" or spec.finds_group):
            return []
        own = self._answered_apart(metric, spec, protocol, frozenset(group.items()))
        if own is None:
            return []
        whole = self._answered_apart(metric, spec, protocol, frozenset())
        what, a, b = whole or own  # where the runs as a whole differ, one sentence serves all their groups
        where = f" of {', '.join(map(str, group.values()))}" if group and whole is None else ""
        return [
            Reason(
                kind="usable answers",
                text=self._difference(what + where, a, b),
                remedy="complete both runs, or use a judge that answers as much of both",
                metrics=(metric,),
            )
        ]

    def _answered_apart(
        self, metric: str, spec: MetricSpec | None, protocol: str, group: Group
    ) -> tuple[str, str, str] | None:
        """Of which items which part was answered in A and in B, in words; None if it is as much, or unknown."""
        a, b = (self._score_of(n, metric, protocol, group) for n in (0, 1))
        if a is None or b is None:
            return None
        asked = [self._questions(n, spec, protocol, group) for n in (0, 1)]
        if asked[0] is not None and asked[1] is not None:
            numbers = asked[0].n_used or _total(a), asked[1].n_used or _total(b)  # a share is over all that it counts
            if not all(numbers) or not _apart((asked[0].value, asked[1].value), numbers):
                return None
            return "questions answered", share_answered(asked[0]), share_answered(asked[1])
        totals = [_total(a), _total(b)]
        if not all(totals) or not _apart((a.n_used / totals[0], b.n_used / totals[1]), totals):
            return None
        return "usable answers", f"{a.n_used:,} of {totals[0]:,}", f"{b.n_used:,} of {totals[1]:,}"

    def _score_of(self, run: int, metric: str, protocol: str, group: Group) -> Score | None:
        """The score of a group; else that of all images, by its own name or that of the mean over its groups."""
        pairings = self.presentations[run].pairings
        wanted = [
            (metric, group),
            (metric, frozenset()),
            *((p.mean, frozenset()) for p in pairings if p.metric == metric),
        ]
        found = (self._scores[run].get((name, protocol, of_group)) for name, of_group in wanted)
        return next((score for score in found if score is not None), None)

    def _questions(self, run: int, spec: MetricSpec | None, protocol: str, group: Group) -> Score | None:
        """The score that gives the share of the questions behind a number that were answered; None if none does."""
        if spec is None or not spec.coverage:
            return None
        score = self._score_of(run, spec.coverage, protocol, group)
        return None if score is None or math.isnan(score.value) else score


def _nearest(values: Mapping[Group, Value], group: Group) -> Value | None:
    """The value of a group; else that of the widest group within it, or that of all images."""
    inside = [other for other in values if other >= group]
    if inside:
        return values[min(inside, key=lambda other: (len(other), sorted(map(str, other))))]
    return values.get(frozenset())


def check_comparable(found: Sequence[tuple[str, Reason]], a: str, b: str) -> None:
    """Refuse a comparison.

    Args:
        found: reasons that stand between the numbers asked for, each with the metric that it touches.
        a: name of the first run.
        b: name of the second run.

    Raises:
        UsageError: there is a reason; each is listed with what to do about it, of many of one kind the first ones.
    """
    if not found:
        return
    touched: dict[tuple[str, str, str, str, bool], list[str]] = {}
    for metric, reason in found:
        key = (reason.kind, reason.text, reason.remedy, reason.protocol, reason.metrics is None)
        touched.setdefault(key, []).append(metric)
    lines: list[str] = []
    of_kind: Counter[str] = Counter()
    for (kind, text, remedy, protocol, everything), metrics in touched.items():
        of_kind[kind] += 1
        if of_kind[kind] > MOST_OF_A_KIND:
            continue
        listed = "" if everything else _listed(list(dict.fromkeys(metrics)))
        scope = "; ".join(filter(None, (listed, f"protocol {protocol}" if protocol else "")))
        lines.append(f"  {text}{f' ({scope})' if scope else ''}{f' -> {remedy}' if remedy else ''}")
    lines += [f"  {kind}: {n - MOST_OF_A_KIND:,} more" for kind, n in of_kind.items() if n > MOST_OF_A_KIND]
    raise UsageError(
        f"{a} (A) and {b} (B) are not comparable:\n"
        + "\n".join(lines)
        + "\nMake them alike, or compare them nevertheless with --anyway (Python: anyway=True): the reasons then stand "
        "beside every number they touch."
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def shown(value: Any) -> str:
    """A setting in a few letters; texts whose ends could not be seen are quoted.

    Args:
        value: plain JSON; None: it is not set.
    """
    if value is None:
        return "not set"
    plain = isinstance(value, str) and value == value.strip() != ""
    text = value if plain else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def score_command(run: Run, rules: Mapping[str, Any]) -> str:
    """The command that scores a run with other values of rules.

    Args:
        run: the run.
        rules: values by name.
    """
    texts = {name: value if isinstance(value, str) else json.dumps(value, default=str) for name, value in rules.items()}
    options = "".join(f" --rule {quoted(f'{name}={text}')}" for name, text in texts.items())
    return f"verism score {quoted(run.path)}{options}"


def _real_identity(run: Run) -> tuple[Any, ...]:
    """What tells one set of real images from another: their contents, or what the settings say; empty without any."""
    reference = run.read("reference", columns=["sha256"])
    if reference.height and not reference["sha256"].null_count():
        return tuple(sorted(reference["sha256"].to_list()))
    return (run.manifest.settings.reference,) if run.manifest.settings.reference else ()


def _image_sizes(run: Run) -> Counter[tuple[int, int]]:
    """Number of images by width and height in pixels, where these are known."""
    import polars as pl

    def sizes(rows: pl.DataFrame) -> pl.DataFrame:
        known = rows.filter(pl.col("state") == "ok").select("width", "height").drop_nulls()
        return known.group_by("width", "height").len()

    found: Counter[tuple[int, int]] = Counter()
    for part in run.take_images(["state", "width", "height"], sizes):
        for width, height, n in part.iter_rows():
            found[width, height] += n
    return found


def _sizes_in_words(sizes: Counter[tuple[int, int]]) -> str:
    ((width, height), n) = max(sizes.items(), key=lambda entry: (entry[1], entry[0]))
    text = f"{width} x {height} pixels"
    return text if len(sizes) == 1 else f"{len(sizes):,} sizes ({text} {100 * n / sizes.total():.0f} %)"


def _total(score: Score) -> int:
    return score.n_used + score.n_unusable


def _apart(shares: tuple[float, float], totals: Sequence[int]) -> bool:
    """Whether two shares differ by more than is tolerated, and by more than chance leaves between equal ones."""
    low, high = sorted(shares)
    pooled = sum(share * n for share, n in zip(shares, totals, strict=True)) / sum(totals)
    by_chance = CHANCE * math.sqrt(max(0.0, pooled * (1 - pooled)) * sum(1 / n for n in totals))
    return high - low > max(ANSWERED_TOLERANCE, by_chance) + EPSILON


def _differ(a: int | None, b: int | None, spec: MetricSpec) -> bool:
    """Whether a metric depends on the difference of two numbers of images; unknown ones do not differ."""
    if a is None or b is None or (spec.n_enough and min(a, b) >= spec.n_enough):
        return False
    return abs(a - b) > spec.n_tolerance * max(a, b)
