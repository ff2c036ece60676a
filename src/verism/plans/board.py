"""Boards: models in rows, headline metrics in columns, with ranks and tests of their differences.

A column is a metric of a suite under the suite's first protocol. Every pair of models in it is compared as ``verism
compare`` compares them, p-values are adjusted by Holm within the column, and ranks get intervals from these tests. What
may not be compared (other judges, rules, numbers of images ...) is not ranked against each other, and the reason stands
beside it. References are shown and not ranked.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from verism import api
from verism.errors import UsageError, VerismError
from verism.files import Row as TableRow
from verism.files import csv_text, read_json
from verism.files import read_rows as read_table
from verism.locations import folders_with, is_remote, location
from verism.pipeline.comparison import Difference
from verism.plans.rank_agreement import ColumnAgreement, column_agreements
from verism.plans.status import read_rows, report_path
from verism.records import Score, judge_identity
from verism.report_kit.coverage import coverage_of, unfinished
from verism.specs import MetricSpec, Presentation, did_you_mean
from verism.statistics.ranking import Ranking, rank_models
from verism.store import Run
from verism.suites.catalogue import presentation_of

__all__ = ["Board", "Cell", "Column", "Row", "make_board"]

ALPHA = 0.05
CellState = Literal["ok", "undefined", "missing", "failed", "excluded"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number of a model, or why there is none.

    Attributes:
        state: ``ok``; ``undefined``: scored, and the number cannot be known; ``missing``: no such run, or a run that
            does not measure it; ``failed``: the run failed; ``excluded``: the plan does not ask for it.
        score: the number, as judged; None without one.
        adjusted: the same with the judge's error taken out, where the run was scored so (``verism score --correct``).
        note: why there is none.
        rank: rank by the value alone; None for references and without a value.
        rank_low: best rank it can have.
        rank_high: worst rank it can have.
        best: whether no ranked model of the column is significantly better.
        reasons: why it is not ranked against some others.
        coverage: the share of what was asked for that the number rests on, 0 to 1; None where it is not known.
        left_out: what it leaves out, in words; empty for nothing.
    """

    state: CellState
    score: Score | None = None
    adjusted: Score | None = None
    note: str = ""
    rank: float | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    best: bool = False
    reasons: tuple[str, ...] = ()
    coverage: float | None = None
    left_out: str = ""

    def record(self) -> dict[str, Any]:
        """As plain JSON; undefined numbers are null."""
        plain = asdict(self)
        for name, score in (("score", self.score), ("adjusted", self.adjusted)):
            plain[name] = None if score is None else _plain(asdict(score) | {"group": dict(score.group)})
        return plain | {"reasons": list(self.reasons)}


@dataclass(frozen=True, kw_only=True)
class Column:
    """A metric of a suite.

    Attributes:
        key: unique name: ``paintskills:accuracy/skill=count``.
        suite: name of the suite in the plan.
        title: of the suite.
        metric: name of the metric.
        label: the metric in words, with its group.
        group: facet values that it is restricted to.
        protocol: of the numbers.
        unit: of the numbers.
        better: ``higher`` or ``lower``.
        meaning: of the metric.
        judges: names of the judges, by role, that all its runs share; those that differ are in the reasons of cells.
        p_holm: adjusted p-value of every pair of models, by their position in ``ranked``; NaN where none was made.
        wins: 1 where the first model of a pair is significantly better, -1 where it is worse.
        ranked: names of the models that are ranked.
        apart: pairs of these that may not be compared.
    """

    key: str
    suite: str
    title: str
    metric: str
    label: str
    group: Mapping[str, Any]
    protocol: str
    unit: str
    better: str
    meaning: str
    judges: Mapping[str, str]
    ranked: tuple[str, ...] = ()
    p_holm: tuple[tuple[float, ...], ...] = ()
    wins: tuple[tuple[int, ...], ...] = ()
    apart: tuple[tuple[str, str], ...] = ()

    def record(self) -> dict[str, Any]:
        """As plain JSON; tests that were not made are null."""
        plain: dict[str, Any] = _plain(asdict(self) | {"group": dict(self.group), "judges": dict(self.judges)})
        return plain


@dataclass(frozen=True, kw_only=True)
class Row:
    """A model.

    Attributes:
        name: its name.
        reference: whether it is shown and not ranked.
        generator: full name of what made the images; empty for scores from elsewhere.
        states: images by state, over all its runs.
        unusable: images without a usable answer of a judge, by suite.
        reports: path of each run's report relative to the board, by suite; only of those that exist.
        runs: path of each run, by suite.
        cells: by key of the column.
    """

    name: str
    reference: bool
    generator: str
    states: Mapping[str, int]
    unusable: Mapping[str, int]
    reports: Mapping[str, str]
    runs: Mapping[str, str]
    cells: Mapping[str, Cell]

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        plain: dict[str, Any] = asdict(replace(self, cells={}))
        return plain | {"cells": {key: cell.record() for key, cell in self.cells.items()}}


@dataclass(frozen=True, kw_only=True)
class Board:
    """Models beside each other.

    Attributes:
        title: heading.
        columns: metrics.
        rows: models, then references.
        cautions: what to mind when reading it: what may not be compared, and why.
        agreements: how alike columns of different suites rank the models.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    cautions: tuple[str, ...] = ()
    agreements: tuple[ColumnAgreement, ...] = ()

    def record(self) -> dict[str, Any]:
        """As plain JSON; the same bytes for the same runs."""
        return {
            "title": self.title,
            "alpha": ALPHA,
            "columns": [column.record() for column in self.columns],
            "rows": [row.record() for row in self.rows],
            "cautions": list(self.cautions),
            "agreements": [_plain(each.record()) for each in self.agreements],
        }

    def answer(self) -> str:
        """One or two sentences: in how many metrics models differ significantly, and who is ahead of all others."""
        tested = [column for column in self.columns if len(column.ranked) > 1]
        if not tested:
            return ""
        differing = [column for column in tested if any(any(row) for row in column.wins)]
        n = f"{len(tested)} metrics" if len(tested) > 1 else "one metric"
        if not differing:
            return f"No model differs significantly from another in the {n} with two or more models."
        ahead = {
            name: sum(all(v == 1 for j, v in enumerate(c.wins[i]) if j != i) for c in differing for i in _at(c, name))
            for name in dict.fromkeys(name for column in differing for name in column.ranked)
        }
        first = f"Models differ significantly in {len(differing)} of the {n} with two or more models."
        best = [f"{name} in {k}" for name, k in sorted(ahead.items(), key=lambda pair: -pair[1]) if k]
        return f"{first} Significantly better than every other model: {', '.join(best)}." if best else first

    def csv(self) -> str:
        """A line for each model and metric."""
        names = ("value", "ci_low", "ci_high", "n_used", "n_unusable", "unit")
        ranks = ("rank", "rank_low", "rank_high", "best")
        freed = {
            "adjusted": "adjusted",
            "adjusted_value": "value",
            "adjusted_low": "ci_low",
            "adjusted_high": "ci_high",
        }
        first = ("model", "reference", "suite", "metric", "group", "protocol", "state")
        lines: list[list[Any]] = []
        for row in self.rows:
            for column in self.columns:
                cell = row.cells[column.key]
                plain = {} if cell.score is None else _plain(asdict(cell.score))
                adjusted = {} if cell.adjusted is None else _plain(asdict(cell.adjusted))
                group = ";".join(f"{k}={v}" for k, v in column.group.items())
                lines.append(
                    [
                        *(row.name, row.reference, column.suite, column.metric, group, column.protocol, cell.state),
                        *(plain.get(name) for name in names),
                        *(getattr(cell, name) for name in ranks),
                        *(cell.note, "; ".join(cell.reasons), cell.coverage, cell.left_out),
                        *(adjusted.get(name) for name in freed.values()),
                    ]
                )
        return csv_text([*first, *names, *ranks, "note", "reasons", "coverage", "left_out", *freed], lines)


def _at(column: Column, name: str) -> list[int]:
    """The position of a model among those that a column ranks; empty where it does not."""
    return [i for i, ranked in enumerate(column.ranked) if ranked == name]


def _plain(value: Any) -> Any:
    """Without NaN, which JSON does not have."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ------------------------------------------------------------------------------------------------------------- sources
@dataclass(frozen=True, kw_only=True)
class _Source:
    """A run of a board, or what is in its place."""

    model: str
    suite: str
    reference: bool
    run: Run | None = None
    note: str = ""
    failed: bool = False


@dataclass
class _Found:
    """What a directory holds."""

    title: str = ""
    sources: list[_Source] = field(default_factory=list)
    given: list[tuple[str, bool, list[TableRow]]] = field(default_factory=list)
    order: list[tuple[str, bool]] = field(default_factory=list)


def _of_plan(folder: Path, record: Mapping[str, Any], scoring: str) -> _Found:
    found = _Found(title=str(record.get("title") or ""))
    for row in record["rows"]:
        found.order.append((row["name"], bool(row["reference"])))
        if "scores" in row:
            found.given.append((row["name"], True, read_table(location(row["scores"]), "scores")))
    status_folder = folder / "status"
    for pair in record["pairs"]:
        name = _pair_folder(pair)
        path = folder / "runs" / name
        source = _Source(model=pair["model"], suite=pair["column"], reference=bool(pair["reference"]))
        source = (
            _opened(path, source, scoring) if (path / "manifest.json").exists() else replace(source, note="not run yet")
        )
        if source.run is None:
            source = _with_reason(source, status_folder / f"{name}.json")
        found.sources.append(source)
    return found


def _pair_folder(pair: Mapping[str, Any]) -> str:
    from verism.store import slug

    return slug(f"{pair['model']}-{pair['column']}")


def _with_reason(source: _Source, file: Path) -> _Source:
    try:
        record = read_json(file, "what became of a pair")
    except UsageError:  # damaged or not there: the run itself says what is done
        return source
    if isinstance(record, dict) and record.get("state") == "failed":
        return replace(source, note=str(record.get("reason", "")), failed=True)
    return source


def _opened(path: Path, source: _Source, scoring: str) -> _Source:
    try:
        run = Run.open(path)
        if scoring:
            run = run.with_named_scoring(scoring)
        run.scores()
    except VerismError as err:
        return replace(source, note=str(err), failed=True)
    return replace(source, run=run)


def _of_folder(folder: Path, scoring: str) -> _Found:
    """The runs anywhere below a directory; a model is known by its generator."""
    found = _Found()
    seen: dict[tuple[str, str], int] = {}
    for path in folders_with(folder, "manifest.json"):
        try:
            run = Run.open(path)
        except VerismError as err:
            found.sources.append(_Source(model=path.name, suite="?", reference=False, note=str(err), failed=True))
            continue
        model, suite = run.manifest.settings.generator or path.name, run.suite_name
        seen[model, suite] = seen.get((model, suite), 0) + 1
        if seen[model, suite] > 1:
            model = f"{model} ({path.relative_to(folder)})"
        found.sources.append(_opened(path, _Source(model=model, suite=suite, reference=False), scoring))
    found.order = [(model, False) for model in dict.fromkeys(s.model for s in found.sources)]
    return found


def _link(page: Path, folder: Path) -> str | None:
    """A page as seen from a folder; None where no link of a browser leads from one to the other."""
    if is_remote(page) or is_remote(folder):
        return page.relative_to(folder).as_posix() if page.is_relative_to(folder) else None
    return Path(os.path.relpath(page, folder)).as_posix()


# --------------------------------------------------------------------------------------------------------------- board
def make_board(
    folders: Sequence[Path | str],
    *,
    title: str = "",
    anyway: bool = False,
    relative_to: Path | str | None = None,
    scoring: str = "",
) -> Board:
    """The board of plans, or of all runs below directories.

    Args:
        folders: directories of ``verism plan run``, or any that runs lie below.
        title: heading; empty: that of the first plan, or the first directory's name.
        anyway: whether boards whose numbers may not be compared are merged all the same; every number that is touched
            carries the reason.
        relative_to: directory of the page, for links to reports; None: no links.
        scoring: name of the scoring that is read of each run; runs without one are listed as failed. Empty: the one
            that counts.

    Raises:
        UsageError: no run, or several directories whose runs may not be compared; the message says what disagrees.
    """
    paths = [location(folder) for folder in folders]
    found: list[_Found] = []
    for path in paths:
        if not path.is_dir():
            raise UsageError(f"{path} is no directory of runs; make one with: verism plan run PLAN.yaml --out {path}")
        record = read_rows(path)
        found.append(_of_folder(path, scoring) if record is None else _of_plan(path, record, scoring))
    merged = _merged(found, [path.name for path in paths])
    if not any(source.run is not None for source in merged.sources):
        named = f" with a scoring {scoring!r}" if scoring else ""
        raise UsageError(f"{' and '.join(map(str, paths))}: no scored run{named}; see: verism plan run, verism run")
    made = _Maker(merged, relative_to=None if relative_to is None else location(relative_to)).board(
        title or merged.title or paths[0].resolve().name
    )
    if len(paths) > 1 and made.cautions and not anyway:
        listed = "\n".join(f"  {line}" for line in made.cautions)
        raise UsageError(
            f"{' and '.join(map(str, paths))} cannot be one board:\n{listed}\nMake boards of their own, or add "
            "--anyway to have them beside each other with the reasons"
        )
    return made


def _merged(found: Sequence[_Found], names: Sequence[str]) -> _Found:
    if len(found) == 1:
        return found[0]
    merged = _Found(title=found[0].title)
    taken: dict[tuple[str, str], int] = {}
    for n, one in enumerate(found):
        for source in one.sources:
            taken.setdefault((source.model, source.suite), n)
    for n, (one, name) in enumerate(zip(found, names, strict=True)):
        clashing = {s.model for s in one.sources if taken[s.model, s.suite] != n}
        rename = {model: f"{name}/{model}" for model in clashing}
        merged.sources += [replace(s, model=rename.get(s.model, s.model)) for s in one.sources]
        merged.given += one.given
        merged.order += [(rename.get(model, model), reference) for model, reference in one.order]
    merged.order = list(dict.fromkeys(merged.order))
    return merged


class _Maker:
    """Puts a board together."""

    def __init__(self, found: _Found, *, relative_to: Path | None) -> None:
        self.found = found
        self.relative_to = relative_to
        self.runs: dict[tuple[str, str], Run] = {(s.model, s.suite): s.run for s in found.sources if s.run is not None}
        self.suites = list(dict.fromkeys(s.suite for s in found.sources if s.run is not None))
        self.presentations = {
            suite: presentation_of(next(run for (_, s), run in self.runs.items() if s == suite))
            for suite in self.suites
        }
        for _, _, table in found.given:
            _check_given(table, self.presentations)

    def board(self, title: str) -> Board:
        columns: list[Column] = []
        cells: dict[str, dict[str, Cell]] = {model: {} for model, _ in self.found.order}
        cautions: list[str] = []
        for suite in self.suites:
            of_suite = self._columns(suite)
            compared, reasons = self._compare(suite, of_suite)
            cautions += [f"{suite}: {line}" for line in reasons]
            for column in of_suite:
                column, of_column = self._cells(column, compared)
                columns.append(column)
                for model, cell in of_column.items():
                    cells[model][column.key] = cell
        made = Board(
            title=title,
            columns=tuple(columns),
            rows=tuple(self._row(model, reference, cells[model]) for model, reference in self.found.order),
            cautions=tuple(dict.fromkeys(cautions)),
        )
        return replace(made, agreements=column_agreements(made, self.runs, self.presentations, alpha=ALPHA))

    def _ranked(self, suite: str) -> list[str]:
        references = {model for model, reference in self.found.order if reference}
        return [model for model, _ in self.found.order if model not in references and (model, suite) in self.runs]

    def _compare(
        self, suite: str, columns: Sequence[Column]
    ) -> tuple[dict[tuple[str, str], Mapping[tuple[Any, ...], Difference]], list[str]]:
        """Differences of every pair of ranked models, by metric and group; why some columns may not be compared."""
        shown = {_key_of(column) for column in columns}
        results: dict[tuple[str, str], Mapping[tuple[Any, ...], Difference]] = {}
        reasons: list[str] = []
        for a, b in itertools.combinations(self._ranked(suite), 2):
            try:
                rows = api.compare(self.runs[a, suite], self.runs[b, suite], anyway=True, names=(a, b))
            except UsageError as err:
                reasons.append(f"{a} and {b} are not compared: {err}")
                continue
            results[a, b] = {_key_of(row): row for row in rows}
            reasons += [reason for row in rows if _key_of(row) in shown for reason in row.reasons]
        return results, reasons

    def _columns(self, suite: str) -> list[Column]:
        presentation = self.presentations[suite]
        protocol = next(iter(presentation.info.protocols))
        columns: dict[str, Column] = {}
        runs = [run for (_, s), run in self.runs.items() if s == suite]
        for spec in presentation.metrics:
            if not spec.headline or spec.better is None:
                continue
            scores = [s for run in runs for s in run.scores() if _belongs(s, spec, protocol, presentation)]
            fewest = min((len(s.group) for s in scores), default=0)
            for score in scores:
                if len(score.group) == fewest:
                    group = dict(score.group)
                    key = "/".join([f"{suite}:{spec.name}", *(f"{k}={v}" for k, v in group.items())])
                    columns.setdefault(key, self._column(key, suite, spec, score, protocol, runs))
        return list(columns.values())

    def _column(
        self, key: str, suite: str, spec: MetricSpec, score: Score, protocol: str, runs: Sequence[Run]
    ) -> Column:
        presentation = self.presentations[suite]
        names = presentation.layout.names
        parts = [names.get(f"{k}={v}", str(v)) for k, v in score.group.items()]
        judges = [run.manifest.scoring.judges for run in runs]
        return Column(
            key=key,
            suite=suite,
            title=presentation.info.title,
            metric=spec.name,
            label=spec.title + (f", {', '.join(parts)}" if parts else ""),
            group=dict(score.group),
            protocol=protocol,
            unit=score.unit,
            better=str(spec.better),
            meaning=spec.meaning,
            judges=_shared_judges(judges),
        )

    def _cells(
        self, column: Column, compared: Mapping[tuple[str, str], Mapping[tuple[Any, ...], Difference]]
    ) -> tuple[Column, dict[str, Cell]]:
        cells = {model: self._cell(model, column) for model, _ in self.found.order}
        ranked = [model for model in self._ranked(column.suite) if cells[model].state == "ok"]
        if len(ranked) < 2:  # nothing to be ranked against
            return replace(column, ranked=tuple(ranked)), cells
        m = len(ranked)
        differences, p_values = np.zeros((m, m)), np.full((m, m), np.nan)
        reasons: dict[str, list[str]] = {model: [] for model in ranked}
        apart: list[tuple[str, str]] = []
        key = _key_of(column)
        for (i, a), (j, b) in itertools.combinations(enumerate(ranked), 2):
            row = compared.get((a, b), {}).get(key)
            if row is None or row.reasons:
                apart.append((a, b))
            if row is None:
                continue
            if row.reasons:
                for one, other in ((a, b), (b, a)):
                    reasons[one] += [f"not ranked against {other}: {reason}" for reason in row.reasons]
                continue
            differences[i, j], differences[j, i] = row.difference, -row.difference
            p_values[i, j] = p_values[j, i] = row.p_value
        values = [cells[model].score.value for model in ranked]  # type: ignore[union-attr]  # their state is ok
        ranking = rank_models(values, differences, p_values, higher_is_better=column.better == "higher", alpha=ALPHA)
        for i, model in enumerate(ranked):
            cells[model] = _ranked_cell(cells[model], ranking, i, reasons[model])
        column = replace(
            column,
            ranked=tuple(ranked),
            p_holm=tuple(tuple(row) for row in ranking.p_holm.tolist()),
            wins=tuple(tuple(row) for row in ranking.wins.tolist()),
            apart=tuple(apart),
        )
        return column, cells

    def _cell(self, model: str, column: Column) -> Cell:
        run = self.runs.get((model, column.suite))
        if run is None:
            for name, _, table in self.found.given:
                if name == model:
                    return _given_cell(table, column)
            source = next((s for s in self.found.sources if (s.model, s.suite) == (model, column.suite)), None)
            if source is None:
                return Cell(state="excluded", note="not in the plan")
            return Cell(state="failed" if source.failed else "missing", note=source.note)
        found = [
            score
            for score in run.scores()
            if (score.metric, score.protocol) == (column.metric, column.protocol)
            and dict(score.group) == dict(column.group)
        ]
        judged = next((score for score in found if not score.adjusted), None)
        adjusted = next((score for score in found if score.adjusted and not math.isnan(score.value)), None)
        if judged is None:
            return Cell(state="missing", note="not measured")
        spec = self.presentations[column.suite].metric(column.metric)
        coverage = coverage_of(judged, run.scores(), spec)
        share = None if math.isnan(coverage.share) else coverage.share
        gap = unfinished(run)
        made = Cell(
            state="ok",
            score=judged,
            adjusted=adjusted,
            coverage=None if gap else share,
            left_out="; ".join(filter(None, (coverage.left_out, gap))),
        )
        if math.isnan(judged.value):
            return replace(made, state="undefined", note="undefined for these images")
        return made

    def _row(self, model: str, reference: bool, cells: Mapping[str, Cell]) -> Row:
        states: dict[str, int] = {}
        unusable: dict[str, int] = {}
        reports: dict[str, str] = {}
        paths: dict[str, str] = {}
        generators: list[str] = []
        for (name, suite), run in self.runs.items():
            if name != model:
                continue
            generators.append(run.manifest.settings.generator)
            for state, n in sorted(run.image_summary().states.items()):
                states[state] = states.get(state, 0) + n
            worst = max(
                (c.score.n_unusable for k, c in cells.items() if c.score and k.startswith(f"{suite}:")), default=0
            )
            if worst:
                unusable[suite] = worst
            paths[suite] = str(run.path)
            page = report_path(run.path)
            if self.relative_to is not None and page.is_file():
                link = _link(page, self.relative_to)
                reports |= {} if link is None else {suite: link}
        return Row(
            name=model,
            reference=reference,
            generator=", ".join(dict.fromkeys(generators)),
            states=dict(sorted(states.items())),
            unusable=unusable,
            reports=reports,
            runs=paths,
            cells=cells,
        )


def _shared_judges(judges: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The judges that all runs share, by role; of files of results by one declared judge, that judge."""
    shared = {}
    for role, name in judges[0].items():
        names = {of_run.get(role, "") for of_run in judges}
        identities = set(map(judge_identity, names))
        if len(identities) == 1:
            shared[role] = name if len(names) == 1 else identities.pop()
    return shared


def _belongs(score: Score, spec: MetricSpec, protocol: str, presentation: Presentation) -> bool:
    layout = presentation.layout
    return (
        score.metric == spec.name
        and score.protocol == protocol
        and not score.adjusted
        and not set(layout.detail) & set(score.group)
    )


def _key_of(row: Difference | Column) -> tuple[Any, ...]:
    return (row.metric, row.protocol, tuple(sorted((k, str(v)) for k, v in row.group.items())))


def _ranked_cell(cell: Cell, ranking: Ranking, i: int, reasons: Sequence[str]) -> Cell:
    return replace(
        cell,
        rank=float(ranking.rank[i]),
        rank_low=int(ranking.low[i]),
        rank_high=int(ranking.high[i]),
        best=bool(ranking.best[i]) and not reasons,
        reasons=tuple(dict.fromkeys(reasons)),
    )


def _check_given(table: Sequence[TableRow], presentations: Mapping[str, Presentation]) -> None:
    """Check a table of scores from elsewhere, whose numbers stand beside measured ones.

    Args:
        table: its rows.
        presentations: of the suites of the board, by name.

    Raises:
        UsageError: a metric that no suite named has, a number that the metric cannot have or outside its interval, or
            two rows of one metric.
    """
    found: dict[tuple[str, str], TableRow] = {}
    for row in table:
        suite, name = str(row.get("suite") or ""), str(row.get("metric") or "")
        metric = name.partition("/")[0]
        of = [presentations[suite]] if suite in presentations else [] if suite else list(presentations.values())
        specs = [spec for p in of if (spec := p.metric(metric)) is not None]
        if of and not specs:
            known = list(dict.fromkeys(spec.name for p in of for spec in p.metrics))
            raise UsageError(f"{row.where}: no metric {metric!r}.{did_you_mean(metric, known)}")
        value, low, high, n = _numbers(row)
        for number in (value, low, high):
            for scale in (spec.scale for spec in specs if spec.scale is not None):
                bounds = (-math.inf if scale.low is None else scale.low, math.inf if scale.high is None else scale.high)
                if not math.isnan(number) and not bounds[0] <= number <= bounds[1]:
                    hint = "; 85 % is written 0.85" if bounds == (0, 1) else ""
                    raise UsageError(
                        f"{row.where}: {metric} lies in {bounds[0]:g} to {bounds[1]:g}, got {number:g}{hint}"
                    )
        if value < low or value > high or low > high:
            raise UsageError(f"{row.where}: {metric} {value:g} is outside its interval {low:g} to {high:g}")
        if n < 0:
            raise UsageError(f"{row.where}: n is a number of images, got {n}")
        if (first := found.setdefault((suite, name), row)) is not row:
            raise UsageError(f"{row.where}: {name} is there already ({first.where})")


def _numbers(row: TableRow) -> tuple[float, float, float, int]:
    """Value, ends of the interval and number of images of a score from elsewhere; NaN and 0 where not given."""
    try:
        value, low, high = (
            float(row[key]) if row.get(key) not in (None, "") else math.nan for key in ("value", "ci_low", "ci_high")
        )
        return value, low, high, int(float(row.get("n") or 0))
    except (TypeError, ValueError, OverflowError) as err:
        raise UsageError(f"{row.where}: {err}") from err


def _given_cell(table: Sequence[TableRow], column: Column) -> Cell:
    """The number of a table of scores from elsewhere."""
    name = "/".join([column.metric, *(f"{k}={v}" for k, v in column.group.items())])
    for row in table:
        if row.get("suite") not in (column.suite, None, "") or row.get("metric") != name:
            continue
        value, low, high, n = _numbers(row)
        score = Score(
            suite=column.suite,
            metric=column.metric,
            protocol=column.protocol,
            group=dict(column.group),
            value=value,
            ci_low=low,
            ci_high=high,
            n_used=n,
            n_unusable=0,
            unit=column.unit,
            higher_is_better=column.better == "higher",
        )
        return Cell(state="undefined" if math.isnan(value) else "ok", score=score, note="from a table of scores")
    return Cell(state="missing", note="not in the table of scores")
