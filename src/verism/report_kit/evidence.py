"""What a report is made of: runs, what their suites say of themselves, their scores, and how to call things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from verism.cards import JudgeCard
from verism.errors import UsageError
from verism.records import FacetValue, Score, roles
from verism.report_kit import words
from verism.report_kit.adjustments import as_judged, kinds_of
from verism.report_kit.comparability import Comparability, Reason, SetSizes, set_sizes
from verism.report_kit.coverage import coverage_of
from verism.report_kit.local_paths import LocalPaths
from verism.specs import COSINE, COUNT, DISTANCE, PROBABILITY, RATIO, SHARE, MetricSpec, Presentation, SuiteInfo
from verism.store import Run
from verism.systems import quoted

__all__ = [
    "Evidence",
    "Key",
    "Lookup",
    "Of",
    "RunDifference",
    "Vocabulary",
    "presented",
    "run_names",
    "scoring_answers",
    "scoring_remarks",
    "shares_page",
    "union",
]

Key = tuple[str, tuple[tuple[str, FacetValue], ...]]  # metric, and group without what was itself found

UNITS = {scale.unit: scale.title for scale in (SHARE, PROBABILITY, RATIO, DISTANCE, COSINE, COUNT)}
LARGEST_GALLERY_PIXELS, SMALLEST_GALLERY_PIXELS = 4096, 16


def union(lists: Iterable[Iterable[str]]) -> list[str]:
    """Each once, in the order of first appearance."""
    return list(dict.fromkeys(item for result in lists for item in result))


def run_names(runs: Sequence[Run]) -> list[str]:
    """One name per run, all different: the folder's, with its parent's where folders share a name."""
    paths = [run.path.resolve() for run in runs]
    names = [f"{path.name}{run.name.removeprefix(run.path.name)}" for path, run in zip(paths, runs, strict=True)]
    often = Counter(names)
    names = [f"{path.parent.name}/{name}" if often[name] > 1 else name for name, path in zip(names, paths)]
    seen: Counter[str] = Counter()
    unlike = []
    for name in names:
        seen[name] += 1
        unlike.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unlike


def presented(run: Run) -> Presentation:
    """What a run keeps of its suite; of runs of earlier versions, what their scores tell of it."""
    stored = run.presentation()
    if stored is not None:
        return stored
    protocols = dict.fromkeys(s.protocol for s in run.scores())
    name = run.suite_name
    info = SuiteInfo(name=name, title=name, question="", summary="", protocols=dict.fromkeys(protocols, ""))
    return Presentation(info=info, metrics=())


def scoring_remarks(run: Run) -> list[str]:
    """Lines without which the scores of a run could be misread: of images left out, of its scoring, and its age."""
    folders = run.outdated()
    changed = f"the scores are older than {', '.join(folders)}; bring them up to date with: verism score"
    noted = (*run.manifest.image_remarks, *run.manifest.scoring.remarks)
    return [*noted, *([f"{changed} {quoted(run.path)}"] if folders else [])]


class Answering(Protocol):
    """What words the answer to its question: a suite."""

    def answers(self, scores: Sequence[Score]) -> Sequence[str]:
        """Sentences that answer its question with the numbers of a run."""


def scoring_answers(run: Run, presentation: Presentation | None = None, suite: Answering | None = None) -> list[str]:
    """Sentences that answer the suite's question with the numbers of a run; empty for an outdated scoring.

    Args:
        run: a scored run. Of one scored before there were answers they are made now.
        presentation: what its suite says of itself; None: what the run keeps of it.
        suite: its suite, which words the answer; None where it is not installed.
    """
    from verism.report_kit.answers import headline_answers

    if run.outdated():
        return []
    if kept := list(run.manifest.scoring.answers):
        return kept
    scores = as_judged(run.scores())
    worded = [] if suite is None else list(suite.answers(scores))
    return worded or headline_answers(presented(run) if presentation is None else presentation, scores)


def shares_page(presentations: Sequence[Presentation]) -> bool:
    """Whether the runs of these suites belong into one table: one suite, or versions with the same headline metrics."""
    headlines = [tuple(spec for spec in p.metrics if spec.headline) for p in presentations]
    names = {p.info.name for p in presentations}
    return len(names) <= 1 or (bool(headlines[0]) and all(h == headlines[0] for h in headlines))


class Vocabulary:
    """How scores of some suites are called and grouped.

    Attributes:
        presentations: presentations of the suites, in order.
        split: facets whose values are never averaged over.
        detail: facets with too many values for the first table.
        facet: the facet that images are first told apart by; empty for none.
        judges: by role, full names of the judges that observed, each once.
    """

    def __init__(
        self, presentations: Sequence[Presentation], judges: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.presentations = list(presentations)
        self.judges = dict(judges or {})
        self._specs: dict[str, MetricSpec] = {}
        for p in reversed(self.presentations):
            self._specs |= {spec.name: spec for spec in p.metrics}
        self.split = frozenset(name for p in presentations for pairing in p.pairings for name in pairing.split)
        self.detail = frozenset(name for p in presentations for name in p.layout.detail)
        facets = [p.layout.facet for p in presentations] + [q.facet for p in presentations for q in p.pairings]
        self.facet = next(filter(None, facets), "")
        self._names = {k: v for p in reversed(self.presentations) for k, v in p.layout.names.items()}
        self._caveats = {k: v for p in reversed(self.presentations) for k, v in p.layout.caveats.items()}
        self._units = UNITS | {s.scale.unit: s.scale.title for s in self._specs.values() if s.scale is not None}

    def spec(self, metric: str) -> MetricSpec | None:
        """What a metric means; None for one that no suite declares (any more)."""
        return self._specs.get(metric)

    def is_of_answers(self, metric: str) -> bool:
        """Whether a metric is the share of the questions that were answered: its counts are of questions."""
        return any(spec.coverage == metric for spec in self._specs.values())

    def plain_title(self, metric: str) -> str:
        """What a metric is called, whatever it is made from; without a spec, its name with spaces."""
        spec = self.spec(metric)
        return metric.replace("_", " ") if spec is None else spec.title

    def title(self, metric: str) -> str:
        """What a metric is called; of one whose name in the field belongs to one network, with the network."""
        spec = self.spec(metric)
        if spec is None or not spec.title_by_judge:
            return self.plain_title(metric)
        titles = union([spec.title_with(judge)] for judge in self._judges_of(spec))
        if len(titles) == 1 and titles[0] != spec.title:
            return titles[0]
        return f"{spec.title} ({self.made_from(metric) or f'{spec.judges[0]} not recorded'})"

    def made_from(self, metric: str) -> str:
        """What judge a metric is made from, in short: ``builtin features``; empty for any, or where none is known."""
        spec = self.spec(metric)
        kinds = [] if spec is None else union([judge.partition("@")[0]] for judge in self._judges_of(spec))
        return f"{' and '.join(kinds)} {spec.judges[0].replace('_', ' ')}" if spec is not None and kinds else ""

    def _judges_of(self, spec: MetricSpec) -> Sequence[str]:
        return self.judges.get(spec.judges[0], ()) if spec.judges else ()

    def unit(self, unit: str) -> str:
        """A unit as tables write it; empty for numbers without one."""
        return self._units.get(unit, unit)

    def facet_name(self, facet: str) -> str:
        """What a facet is called."""
        return self._names.get(facet, facet.replace("_", " "))

    def value_name(self, facet: str, value: FacetValue) -> str:
        """What a value of a facet is called."""
        return self._names.get(f"{facet}={value}", str(value))

    def caveat(self, group: Iterable[tuple[str, FacetValue]]) -> str:
        """What stands behind the name of a group whose numbers are not to be trusted; empty for most."""
        results = [self._caveats[key] for name, value in group if (key := f"{name}={value}") in self._caveats]
        return f" ({'; '.join(results)})" if results else ""

    def key_of(self, score: Score) -> Key:
        """What tells a score from the others of its run and protocol, and is the same in all runs."""
        spec = self.spec(score.metric)
        result = spec is not None and spec.finds_group
        return score.metric, tuple((k, v) for k, v in score.group.items() if not result or k in self.split)

    def group_name(self, key: Key) -> str:
        """The group a row is restricted to, in words; ``all`` for none."""
        return ", ".join(self.value_name(k, v) for k, v in key[1]) or "all"

    def found_group(self, score: Score) -> str:
        """Of a metric that finds a group (the worst region), which one; empty for others."""
        _, asked = self.key_of(score)
        return ", ".join(self.value_name(k, v) for k, v in score.group.items() if (k, v) not in asked)

    def is_detail(self, score: Score) -> bool:
        """Whether a score is of a single one of very many groups."""
        return bool(set(score.group) & self.detail)

    def is_summary(self, score: Score) -> bool:
        """Whether a score is of all images, and not of one group among several."""
        return not {name for name, _ in self.key_of(score)[1]} - self.split

    def level_facet(self, score: Score) -> str | None:
        """The one facet, apart from those never averaged over, whose value a score is restricted to."""
        facets = [name for name, _ in self.key_of(score)[1] if name not in self.split]
        return facets[0] if len(facets) == 1 else None

    def by_metric(self, keys: Iterable[Key]) -> list[Key]:
        """Scores of one metric together, metrics and groups in the order they first appear."""
        kept = list(dict.fromkeys(keys))
        order = {metric: n for n, metric in enumerate(dict.fromkeys(metric for metric, _ in kept))}
        return sorted(kept, key=lambda key: order[key[0]])


class Lookup:
    """The scores of one run by what they are of.

    Attributes:
        scores: scores of the run, as judged and adjusted.
    """

    def __init__(self, scores: Iterable[Score]) -> None:
        self.scores = list(scores)
        self._by: dict[tuple[str, str, str, frozenset[tuple[str, FacetValue]]], Score] = {}
        self._of: dict[tuple[str, frozenset[str]], list[Score]] = {}
        for s in self.scores:
            self._by[(s.metric, s.protocol, s.adjusted, frozenset(s.group.items()))] = s
            self._of.setdefault((s.metric, frozenset(s.group)), []).append(s)

    def find(self, metric: str, protocol: str, group: Mapping[str, FacetValue], adjusted: str = "") -> Score | None:
        """The score of exactly this group; None if there is none.

        Args:
            metric: its name.
            protocol: its protocol.
            group: all facets that it is restricted to, with their values.
            adjusted: the kind of truth it was adjusted by; empty for scores as judged.
        """
        return self._by.get((metric, protocol, adjusted, frozenset(group.items())))

    def get(self, metric: str, protocol: str, **group: FacetValue) -> Score | None:
        """``find`` of a score as judged, with the facets as keywords."""
        return self.find(metric, protocol, group)

    def of(self, metric: str, *facets: str) -> list[Score]:
        """Scores as judged whose group has exactly these facets."""
        return [s for s in self._of.get((metric, frozenset(facets)), ()) if not s.adjusted]


@dataclass(frozen=True, kw_only=True)
class RunDifference:
    """A number of a run against the same of the baseline.

    Attributes:
        difference: the run minus the baseline, in the unit of the scores.
        ci_low: lower end of its 95 % interval.
        ci_high: upper end.
        p: p-value of no difference; of one group among several after Holm's correction over them.
        unit: of the scores.
    """

    difference: float
    ci_low: float
    ci_high: float
    p: float
    unit: str


Of = tuple[int, str, str, frozenset[tuple[str, FacetValue]], str]  # run, metric, protocol, group, adjusted


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Everything that sections are made from.

    Attributes:
        runs: scored runs, of one suite or of versions of it.
        names: of the runs, all different.
        presentations: what the suite of each run says of itself.
        every: all scores of each run.
        scores: those as judged, without any that were adjusted for judges' errors.
        gallery: how many images to show, over all runs.
        embed_pixels: longer side of an embedded image at most, in pixels.
        cards: judge cards besides those in the runs and those that come with verism.
        tests: numbers of the other runs against those of the first, the baseline; empty where none were compared.
    """

    runs: Sequence[Run]
    names: Sequence[str]
    presentations: Sequence[Presentation]
    every: Sequence[Sequence[Score]]
    scores: Sequence[Sequence[Score]]
    gallery: int = 120
    embed_pixels: int = 256
    cards: Sequence[JudgeCard] = ()
    tests: Mapping[Of, RunDifference] = field(default_factory=dict)

    @staticmethod
    def of(
        runs: Sequence[Run],
        presentations: Sequence[Presentation] | None = None,
        *,
        gallery: int = 120,
        embed_pixels: int = 256,
        cards: Sequence[JudgeCard] = (),
        tests: Mapping[Of, RunDifference] | None = None,
    ) -> Evidence:
        """The evidence of some runs.

        Args:
            runs: scored runs; rows of every table are in this order.
            presentations: of the suite of each run; None: as the runs keep them.
            gallery: how many images to show, over all runs; 0 for none.
            embed_pixels: longer side of an embedded image at most, in pixels.
            cards: of judges, besides those in the folder ``cards`` of each run and those that come with verism.
            tests: numbers of the other runs against those of the first; None for none.

        Raises:
            UsageError: no runs, or a gallery that cannot be.
            VerismError: a run has no scores yet.
        """
        if not runs:
            raise UsageError("a report needs at least one run, got none")
        if gallery < 0:
            raise UsageError(f"gallery must be 0 (no images) or more, got {gallery}")
        if not SMALLEST_GALLERY_PIXELS <= embed_pixels <= LARGEST_GALLERY_PIXELS:
            raise UsageError(
                f"embed_pixels must be between {SMALLEST_GALLERY_PIXELS} and {LARGEST_GALLERY_PIXELS}, "
                f"got {embed_pixels}"
            )
        every = [run.scores() for run in runs]
        return Evidence(
            runs=list(runs),
            names=run_names(runs),
            presentations=[presented(run) for run in runs] if presentations is None else list(presentations),
            every=every,
            scores=[as_judged(members) for members in every],
            gallery=gallery,
            embed_pixels=embed_pixels,
            cards=list(cards),
            tests={} if tests is None else dict(tests),
        )

    @cached_property
    def protocols(self) -> tuple[str, ...]:
        """Names of the protocols, those of the suites first; the first is the one to compare models with."""
        declared = union(p.info.protocols for p in self.presentations)
        return tuple(union([declared, (s.protocol for members in self.every for s in members)]))

    @cached_property
    def lookups(self) -> list[Lookup]:
        """Scores of each run by what they are of."""
        return [Lookup(members) for members in self.every]

    @cached_property
    def main(self) -> str:
        """The protocol to compare models with: the first of the suites that there are numbers of.

        A rule may leave the others out.
        """
        scored = {s.protocol for members in self.every for s in members}
        return next((name for name in self.protocols if name in scored), next(iter(self.protocols), ""))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """How scores are called."""
        judges = {role: union([name] for run in self.runs if (name := run.judge(role))) for role in roles()}
        return Vocabulary(self.presentations, judges)

    @cached_property
    def _sizes(self) -> list[dict[tuple[str, frozenset[tuple[str, FacetValue]]], SetSizes]]:
        return [set_sizes(members, p) for members, p in zip(self.scores, self.presentations, strict=True)]

    def label(self, score: Score, title: str | None = None) -> str:
        """``label_of`` what a score is of.

        Args:
            score: the score, or one of several of the same metric, protocol and group.
            title: see ``label_of``.
        """
        return self.label_of(score.metric, score.protocol, score.group, title)

    def label_of(self, metric: str, protocol: str, group: Mapping[str, FacetValue], title: str | None = None) -> str:
        """The title of a metric; where real images matter, with the features and both numbers of images.

        Args:
            metric: name of the metric.
            protocol: name of the protocol.
            group: facet values that the number is restricted to.
            title: in place of the metric's own, unless that depends on the judge.
        """
        names = self.vocabulary
        spec = names.spec(metric)
        own = names.title(metric)
        chosen = own if title is None or own != names.plain_title(metric) else title
        if spec is None or not spec.against_real:
            return chosen
        key = (protocol, frozenset(group.items()))
        sizes = union([text] for of_run in self._sizes if key in of_run and (text := of_run[key].text()))
        counts = f"{' / '.join(sizes)} images" if sizes else ""
        if own.endswith(")"):  # the judge is there already
            return f"{chosen.removesuffix(')')}, {counts})" if counts else chosen
        beside = ", ".join(filter(None, (names.made_from(metric), counts)))
        return f"{chosen} ({beside})" if beside else chosen

    @cached_property
    def _comparabilities(self) -> list[Comparability]:
        """Of every run but the first with the first."""
        return [
            Comparability(
                self.runs[0],
                self.runs[n],
                (self.presentations[0], self.presentations[n]),
                names=(self.names[0], self.names[n]),
            )
            for n in range(1, len(self.runs))
        ]

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """Why some numbers cannot be held against those of the first run; numbered from 1 in this order."""
        found: dict[str, Reason] = {}
        for comparability in self._comparabilities:
            found |= {reason.text: reason for reason in comparability.reasons}
        for touching in self._touching[1:]:
            found |= {r.text: r for reasons in touching.values() for r in reasons if r.text not in found}
        return tuple(found.values())

    @cached_property
    def _touching(self) -> list[dict[tuple[str, str, frozenset[tuple[str, FacetValue]]], tuple[Reason, ...]]]:
        """By run, reasons by what a score is of; scores without any have no entry."""
        touching: list[dict[tuple[str, str, frozenset[tuple[str, FacetValue]]], tuple[Reason, ...]]] = [{}]
        for comparability, members in zip(self._comparabilities, self.scores[1:], strict=True):
            of_run = {}
            for s in members:
                if reasons := comparability.touching(s.metric, s.protocol, s.group):
                    of_run[s.metric, s.protocol, frozenset(s.group.items())] = reasons
            touching.append(of_run)
        return touching

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {reason.text: number for number, reason in enumerate(self.reasons, 1)}

    def marks(self, run: int, score: Score | None) -> tuple[int, ...]:
        """Numbers of the reasons why a score cannot be held against that of the first run; empty for most.

        Args:
            run: number of the score's run.
            score: the score; None for none.
        """
        if score is None:
            return ()
        found = self._touching[run].get((score.metric, score.protocol, frozenset(score.group.items())), ())
        return tuple(sorted({self._numbers[reason.text] for reason in found}))

    def cautions(self, run: int, score: Score) -> list[str]:
        """The same in words.

        Args:
            run: number of the score's run.
            score: the score.
        """
        return [self.reasons[number - 1].text for number in self.marks(run, score)]

    def touched(self, run: int) -> bool:
        """Whether some numbers of a run cannot be held against those of the first.

        Args:
            run: number of the run.
        """
        return bool(self._touching[run])

    @property
    def info(self) -> SuiteInfo:
        """What the suite of the first run says of itself."""
        return self.presentations[0].info

    @cached_property
    def local(self) -> LocalPaths:
        """Folders of this machine that runs may speak of."""
        return LocalPaths.of_runs(self.runs)

    def bare(self, text: object) -> str:
        """A text without absolute folders, which say more of users than of models.

        Args:
            text: any.
        """
        return self.local.without_folders(str(text))

    def tested(self, run: int, score: Score | None) -> RunDifference | None:
        """A score against the same of the baseline; None of the baseline itself, and where nothing was compared.

        Args:
            run: number of the score's run.
            score: the score; None for none.
        """
        if score is None:
            return None
        return self.tests.get((run, score.metric, score.protocol, frozenset(score.group.items()), score.adjusted))

    def is_headline(self, score: Score) -> bool:
        """Whether a score is one of the few numbers that answer the suite's question.

        Args:
            score: any score.
        """
        spec = self.vocabulary.spec(score.metric)
        return spec is not None and spec.headline

    def columns(self, protocol: str) -> list[dict[Key, Score]]:
        """By run, scores of a protocol by key, as judged."""
        key = self.vocabulary.key_of
        return [{key(s): s for s in members if s.protocol == protocol} for members in self.scores]

    def adjusted(self, run: int, score: Score) -> list[Score]:
        """The same score with the judge's error taken out, in each way it was.

        Args:
            run: number of its run.
            score: as judged.
        """
        lookup = self.lookups[run]
        kinds = kinds_of(lookup.scores)
        result = (lookup.find(score.metric, score.protocol, score.group, kind) for kind in kinds)
        return [s for s in result if s is not None]

    def answered(self, run: int, score: Score | None) -> str:
        """Which part of the questions behind a score was answered, in words; empty for all of them.

        Args:
            run: number of the score's run.
            score: the score; None for none.
        """
        if score is None:
            return ""
        return coverage_of(score, self.every[run], self.vocabulary.spec(score.metric)).answered

    def left_out(self, run: int, metric: str, protocol: str, group: Mapping[str, FacetValue]) -> str:
        """What a score as judged leaves out, in words; empty for nothing, and where there is no such score.

        Args:
            run: number of the run.
            metric: name of the metric.
            protocol: name of the protocol.
            group: facet values that the score is restricted to.
        """
        lookup = self.lookups[run]
        score = lookup.find(metric, protocol, group)
        if score is None:
            return ""
        spec = self.vocabulary.spec(metric)
        answers = lookup.of(spec.coverage, *group) if spec is not None and spec.coverage else []
        return coverage_of(score, answers, spec).left_out

    def cell(self, score: Score | None) -> str:
        """Value, interval and counts in words, with real minus signs."""
        if score is None:
            return words.UNDEFINED
        of_answers = self.vocabulary.is_of_answers(score.metric)
        return words.minus(words.cell(score, self.vocabulary.found_group(score), of_answers=of_answers))

    @property
    def remarks(self) -> list[tuple[int, str]]:
        """Lines without which scores could be misread, with the number of their run."""
        return [(n, line) for n, run in enumerate(self.runs) for line in scoring_remarks(run)]

    @cached_property
    def meanings(self) -> Mapping[str, str]:
        """By protocol, what it does, where a suite says."""
        return {p: next((m for s in self.presentations if (m := s.info.protocols.get(p))), "") for p in self.protocols}
