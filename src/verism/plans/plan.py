"""A plan: models times suites, with the settings of every pair, checked before anything runs.

::

    defaults:
      limit: 24
    models:
      builtin: builtin
      ours: {images: ours/{suite}}
    references:
      perfect: {model: oracle, judges: {detector: truth}}
    suites:
      paintskills: {skills: [object, count]}
      bias: {suite: social_bias, n_images: 4}
    exclude:
      - {model: ours, suite: bias}

Settings are those of ``verism.evaluate``: options of the suite, roles of judges, ``rules``, and how runs are made
(size, threads ...). ``defaults`` reach every pair that has a use for them, then come those of the suite, of the model,
and of an entry of ``include``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Self

from verism.api import RunOptions
from verism.errors import UsageError
from verism.locations import location
from verism.manifest import canonical_suite_name
from verism.plans.document import Document, KeyPath, read_document_lines
from verism.records import Judge, content_hash, roles
from verism.renames import rule_name
from verism.specs import Option, did_you_mean
from verism.store import STORAGES, slug
from verism.suites.base import Suite
from verism.suites.catalogue import suite_class, suite_entries

__all__ = ["RUN_SETTINGS", "SECTIONS", "SOURCES", "Pair", "Plan"]

SECTIONS: Mapping[str, str] = {
    "title": "What the plan is about; the heading of its board.",
    "variables": "Values to be used as ${NAME} elsewhere; `--set NAME=VALUE` replaces one.",
    "defaults": "Settings of every pair that has a use for them.",
    "models": "Models by name: what generates the images, or where they are.",
    "references": "Rows of the board that are not ranked (an upper bound, human scores), written like models.",
    "suites": "Suites by name, with their options.",
    "include": "Further pairs, or settings of single pairs: `{model: NAME, suite: NAME, ...settings}`.",
    "exclude": "Pairs that are left out: `{model: NAME, suite: NAME}`, where `*` stands for any text.",
}
SOURCES: Mapping[str, str] = {
    "model": "Generator, as `--model` takes it.",
    "images": "Folder or manifest of images that exist, as `--images` takes it; `{suite}` stands for the suite's name.",
    "scores": "Table of scores that are only shown: CSV with suite, metric, value, and ci_low, ci_high, n if known.",
}
RUN_SETTINGS: tuple[Option, ...] = (
    Option("threshold", float, help="Confidence threshold of the rules that rest on a detector.", low=0, high=1),
    Option("shuffle", bool, help="Give each prompt the image of another one at random."),
    Option("retry", bool, help="Try again images that are missing, failed or refused, and answers that failed."),
    Option("size", int, help="Width and height of rendered images, pixels.", low=1),
    Option("assets", Path, help="Folder with your own 3D models and environments."),
    Option("processes", int, help="Renderers at once.", low=1),
    Option("threads", int, help="Threads of judges on the processor.", low=1),
    Option("device", str, help="PyTorch device of models of the hub."),
    Option("base_url", str, help="URL of an OpenAI-compatible service."),
    Option("cache", Path, help="Folder where judges keep vectors of images, shared between runs."),
    Option("images_as", str, choices=STORAGES, help="How generated images are kept: files, or shards (tar files)."),
    Option(
        "correct",
        str,
        choices=("human", "rendered"),
        help="Also take the judges' error out of the scores, as `verism score --correct` does; where that is refused, "
        "the run says why and keeps its scores as judged.",
    ),
)
"""Settings of ``RunOptions`` that a plan may name, and how runs are scored."""

_RUN = {option.name: option for option in RUN_SETTINGS}
_OF_PAIRS = ("judges", "rules")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one level of a plan, by what they concern; each with the place it comes from.

    Attributes:
        run: fields of ``RunOptions``.
        judges: judges by role.
        rules: rules by name.
        options: everything else: options of suites, as they are written.
        places: path of each setting in the document, by kind and name.
    """

    run: Mapping[str, Any] = field(default_factory=dict)
    judges: Mapping[str, str | Judge] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[tuple[str, str], KeyPath] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A model (or reference) of a plan.

    Attributes:
        name: its name in the plan.
        source: ``model``, ``images`` or ``scores``.
        value: a generator's name, a generator, a callable, or a path.
        reference: whether it is shown and not ranked.
        settings: of all its pairs.
        path: where it stands in the document.
    """

    name: str
    source: str
    value: Any
    reference: bool
    settings: Settings
    path: KeyPath


@dataclass(frozen=True, kw_only=True)
class Column:
    """A suite of a plan, with its settings.

    Attributes:
        name: its name in the plan.
        suite: the suite's class.
        instance: the suite itself, where it was given as an object.
        settings: of all its pairs.
        path: where it stands in the document.
    """

    name: str
    suite: type[Suite]
    instance: Suite | None
    settings: Settings
    path: KeyPath


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One run of a plan: a model on a suite.

    Attributes:
        model: name of the model in the plan.
        column: name of the suite in the plan.
        suite: the suite's own name.
        reference: whether the model is shown and not ranked.
        source: ``model`` or ``images``.
        value: a generator's name, a generator, a callable, or a path.
        options: options of the suite, checked.
        judges: judges by role that were named for this suite; one that the suite has no question for is refused.
        usual_judges: judges by role of the model or of the defaults, for suites that ask that role.
        rules: rules of the suite, checked.
        run: fields of ``RunOptions``.
        correct: by what the judges' error is taken out of its scores; empty for not at all.
        instance: the suite itself, where it was given as an object.
        where: place in the plan's file, for messages.
    """

    model: str
    column: str
    suite: str
    reference: bool
    source: str
    value: Any
    options: Mapping[str, Any]
    judges: Mapping[str, str | Judge]
    usual_judges: Mapping[str, str | Judge]
    rules: Mapping[str, Any]
    run: Mapping[str, Any]
    correct: str = ""
    instance: Suite | None = None
    where: str = ""

    @property
    def name(self) -> str:
        """Name of the pair's run directory."""
        return slug(f"{self.model}-{self.column}")

    def record(self) -> dict[str, Any]:
        """Everything that decides the run, as plain JSON; objects by their names."""
        judges = {**self.usual_judges, **self.judges}
        return {
            "model": self.model,
            "suite": self.suite,
            "column": self.column,
            "reference": self.reference,
            "source": self.source,
            "value": _named(self.value),
            "options": {k: _jsonable(v) for k, v in self.options.items()},
            "judges": {role: _named(judge) for role, judge in judges.items()},
            "rules": {k: _jsonable(v) for k, v in self.rules.items()},
            "run": {k: _jsonable(v) for k, v in self.run.items()},
            **({"correct": self.correct} if self.correct else {}),
        }

    def settings_hash(self) -> str:
        """Hash of what decides the run's images, observations and scores."""
        return content_hash(self.record())[:16]

    def fixed_hash(self) -> str:
        """Hash of what a run cannot go on without: ``settings_hash`` without how many images are asked for."""
        suite = suite_class(self.suite) if self.instance is None else type(self.instance)
        growing = {name.rpartition(".")[2] for name in suite.growing_settings}
        record = self.record()
        options = {name: value for name, value in record["options"].items() if name not in growing}
        return content_hash({**record, "options": options})[:16]

    def make_suite(self) -> Suite:
        """The suite with the pair's options.

        Raises:
            UsageError: an option that does not fit the others, or a file that does not exist.
        """
        if self.instance is not None:
            return self.instance
        options = dict(self.options)
        cls = suite_class(self.suite)
        if self.source == "images" and any(option.name == "images" for option in cls.options):
            options["images"] = location(self.value)
        return cls.make(options)

    def arguments(self, suite: Suite) -> dict[str, Any]:
        """Keyword arguments of ``verism.evaluate`` and ``verism.plan`` for this pair.

        Args:
            suite: as ``make_suite`` made it.
        """
        asked = {need.role for need in suite.needs()}
        usual = {role: judge for role, judge in self.usual_judges.items() if role in asked}
        return {
            self.source: self.value,
            "judges": {**usual, **self.judges},
            "rules": dict(self.rules),
            "run_options": RunOptions(**self.run),
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Models times suites.

    Attributes:
        rows: models, then references.
        columns: suites.
        pairs: the runs, model by model.
        title: heading of the board; empty for none.
        document: where everything stands.
    """

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    pairs: tuple[Pair, ...]
    title: str = ""
    document: Document = field(default_factory=lambda: Document({}), repr=False)

    @classmethod
    def read(cls, path: Path | str, variables: Mapping[str, Any] | None = None) -> Self:
        """The plan of a YAML or JSON file.

        Args:
            path: the file.
            variables: values that replace those of the file's mapping ``variables``.

        Raises:
            UsageError: no such file, or something in it that no run would take; the message names the line.
        """
        return cls._of(read_document_lines(location(path), "a plan", variables))

    @classmethod
    def make(
        cls,
        *,
        models: Mapping[str, Any],
        suites: Mapping[str, Any] | Sequence[str],
        references: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        include: Sequence[Mapping[str, Any]] = (),
        exclude: Sequence[Mapping[str, Any]] = (),
        title: str = "",
    ) -> Self:
        """A plan from Python, in the words of a plan file.

        Args:
            models: by name, what ``verism.evaluate`` takes as model (a name, a generator, a callable), or a mapping
                with ``model`` or ``images`` and settings.
            suites: names of suites; or by name None, settings, or a suite.
            references: like ``models``; shown on boards and not ranked.
            defaults: settings of every pair that has a use for them.
            include: further pairs, or settings of single ones: ``{"model": ..., "suite": ..., **settings}``.
            exclude: pairs that are left out; ``*`` stands for any text.
            title: heading of the board.

        Raises:
            UsageError: something that no run would take.
        """
        content = {
            "title": title,
            "models": dict(models),
            "references": dict(references or {}),
            "suites": dict(suites) if isinstance(suites, Mapping) else list(suites),
            "defaults": dict(defaults or {}),
            "include": list(include),
            "exclude": list(exclude),
        }
        return cls._of(Document({name: part for name, part in content.items() if part}))

    @classmethod
    def _of(cls, document: Document) -> Self:
        return cls(**_Reader(document).plan(), document=document)

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names of the models that are ranked."""
        return tuple(row.name for row in self.rows if not row.reference)

    def record(self) -> dict[str, Any]:
        """The plan as plain JSON, variables filled in."""
        return {"title": self.title, "pairs": [pair.record() for pair in self.pairs]}


class _Reader:
    """A document as rows, columns and pairs; everything in it is checked on the way."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def plan(self) -> dict[str, Any]:
        content = self.document.content
        if not isinstance(content, Mapping):
            raise self.document.refuse((), "a plan is a mapping with models and suites; see: verism plan init")
        for name in content:
            if name not in SECTIONS:
                raise self._refuse((name,), f"unknown key {name!r} of a plan", SECTIONS)
        for needed in ("models", "suites"):
            if not content.get(needed):
                raise self.document.refuse((), f"a plan needs {needed}; see: verism plan init")
        rows = [*self._rows("models", reference=False), *self._rows("references", reference=True)]
        if twice := [row for n, row in enumerate(rows) if row.name in [r.name for r in rows[:n]]]:
            raise self.document.refuse(twice[0].path, f"{twice[0].name!r} is a model already")
        columns = self._columns()
        defaults = self._settings(content.get("defaults") or {}, ("defaults",))
        self._refuse_useless(defaults, columns, "no suite of the plan has an option")
        for row in rows:
            self._refuse_useless(row.settings, columns, "no suite of the plan has an option")
        title = content.get("title") or ""
        if not isinstance(title, str):
            raise self.document.refuse(("title",), "title is a text")
        return {
            "rows": tuple(rows),
            "columns": tuple(columns),
            "pairs": tuple(self._pairs(rows, columns, defaults)),
            "title": title,
        }

    # ------------------------------------------------------------------------------------------------ rows, columns
    def _rows(self, section: str, *, reference: bool) -> Iterator[Row]:
        for name, value, path in self._entries(section):
            settings = dict(value) if isinstance(value, Mapping) else {}
            if isinstance(value, Mapping):
                chosen = [source for source in SOURCES if value.get(source) is not None]
                if len(chosen) != 1:
                    raise self.document.refuse(
                        path, f"{name!r} needs one of {', '.join(SOURCES)}; it has {', '.join(chosen) or 'none'}"
                    )
                source, value = chosen[0], settings.pop(chosen[0])
            else:
                source = "model"
            if source != "model" and not isinstance(value, str | PurePath):
                raise self.document.refuse((*path, source), f"{source} is a path")
            if value is None or isinstance(value, bool | int | float | list):
                raise self.document.refuse(path, f"{name!r}: model is a name such as builtin or diffusers:ID")
            if source == "scores" and settings:
                raise self._refuse((*path, next(iter(settings))), f"scores of {name!r} are only shown: no settings", ())
            yield Row(
                name=name,
                source=source,
                value=value,
                reference=reference or source == "scores",
                settings=self._settings(settings, path),
                path=path,
            )

    def _columns(self) -> list[Column]:
        columns = []
        for name, value, path in self._entries("suites"):
            if isinstance(value, Suite):
                empty = Settings()
                columns.append(Column(name=name, suite=type(value), instance=value, settings=empty, path=path))
                continue
            if value is not None and not isinstance(value, Mapping | str):
                raise self.document.refuse(path, f"suite {name!r}: expected options by name, or nothing")
            settings = dict(value) if isinstance(value, Mapping) else {}
            called = settings.pop("suite", name) if value is None or isinstance(value, Mapping) else value
            cls = self._suite_class(str(called), (*path, "suite") if called != name else path)
            columns.append(
                Column(name=name, suite=cls, instance=None, settings=self._settings(settings, path), path=path)
            )
        for column in columns:
            self._refuse_useless(column.settings, [column], f"suite {column.suite.info.name} has no option")
        return columns

    def _suite_class(self, name: str, path: KeyPath) -> type[Suite]:
        known = suite_entries()
        if canonical_suite_name(name) not in known:
            raise self._refuse(path, f"unknown suite {name!r}", known, name)
        return suite_class(name)

    def _entries(self, section: str) -> Iterator[tuple[str, Any, KeyPath]]:
        """Names, values and places of a section that is a mapping, or a list of names."""
        part = self.document.content.get(section) or {}
        if isinstance(part, Mapping):
            for name, value in part.items():
                if not str(name).strip():
                    raise self.document.refuse((section, name), "a name is missing")
                yield str(name), value, (section, name)
        elif isinstance(part, Sequence) and not isinstance(part, str) and all(isinstance(n, str) for n in part):
            for n, name in enumerate(part):
                if name in part[:n]:
                    raise self.document.refuse((section, n), f"{name!r} is there twice")
                yield name, name, (section, n)
        else:
            raise self.document.refuse((section,), f"{section} is a mapping of names, or a list of names")

    # ----------------------------------------------------------------------------------------------------- settings
    def _settings(self, values: Any, path: KeyPath) -> Settings:
        if not isinstance(values, Mapping):
            raise self.document.refuse(path, "expected settings by name")
        run: dict[str, Any] = {}
        judges: dict[str, Any] = {}
        rules: dict[str, Any] = {}
        options: dict[str, Any] = {}
        places: dict[tuple[str, str], KeyPath] = {}
        for name, value in values.items():
            place = (*path, name)
            if name in _OF_PAIRS:
                if not isinstance(value, Mapping):
                    raise self.document.refuse(place, f"{name} is a mapping, such as {{detector: builtin}}")
                for inner, each in value.items():
                    if name == "judges" and inner not in roles():
                        raise self._refuse((*place, inner), f"no role {inner!r}", roles())
                    inner_name = inner if name == "judges" else rule_name(inner)
                    (judges if name == "judges" else rules)[inner_name] = each
                    places[name, inner_name] = (*place, inner)
            elif name in roles():
                judges[name] = value
                places["judges", name] = place
            elif name in _RUN:
                run[name] = self._checked(_RUN[name].check, value, place)
                places["run", name] = place
            else:
                options[name] = value
                places["options", name] = place
        for role, judge in judges.items():
            if not isinstance(judge, str) and not hasattr(judge, "observe"):
                raise self.document.refuse(places["judges", role], f"{role} is the name of a judge; got {judge!r}")
        return Settings(run=run, judges=judges, rules=rules, options=options, places=places)

    def _refuse_useless(self, settings: Settings, columns: Sequence[Column], problem: str) -> None:
        """Refuse an option or a rule that none of these suites has."""
        for kind, names in (("options", settings.options), ("rules", settings.rules)):
            for name in names:
                known = [n for c in columns for n in (_option_names(c.suite) if kind == "options" else _rules(c.suite))]
                if name not in known:
                    what = (
                        problem
                        if kind == "options"
                        else problem.replace("an option", "a rule").replace("no option", "no rule")
                    )
                    raise self._refuse(settings.places[kind, name], f"{what} {name!r}", [*known, *_RUN, *roles()])

    def _refuse(self, path: KeyPath, problem: str, known: Any, name: str = "") -> UsageError:
        return self.document.refuse(path, f"{problem}.{did_you_mean(name or str(path[-1]), dict.fromkeys(known))}")

    def _checked(self, check: Callable[[Any], Any], value: Any, path: KeyPath) -> Any:
        try:
            return check(value)
        except UsageError as err:
            raise self.document.refuse(path, str(err)) from err

    # -------------------------------------------------------------------------------------------------------- pairs
    def _pairs(self, rows: Sequence[Row], columns: Sequence[Column], defaults: Settings) -> list[Pair]:
        included = self._included(rows, columns)
        excluded = self._excluded(rows, columns)
        pairs: list[Pair] = []
        for row in rows:
            if row.source == "scores":
                continue
            for column in columns:
                extra = included.get((row.name, column.name))
                left_out = any(fnmatchcase(row.name, m) and fnmatchcase(column.name, s) for m, s in excluded)
                if not left_out or extra is not None:
                    pairs.append(self._pair(row, column, defaults, extra or Settings()))
        if not pairs:
            raise self.document.refuse(("exclude",), "the plan has no pair of a model and a suite left")
        names: dict[str, Pair] = {}
        for pair in pairs:
            other = names.setdefault(pair.name, pair)
            if other is not pair:
                raise UsageError(
                    f"{pair.where}: {pair.model!r} on {pair.column!r} and {other.model!r} on {other.column!r} would "
                    f"share the run directory {pair.name}; rename one"
                )
        return pairs

    def _pair(self, row: Row, column: Column, defaults: Settings, extra: Settings) -> Pair:
        levels = (defaults, column.settings, row.settings, extra)
        declared = {option.name: option for option in column.suite.options}
        options: dict[str, Any] = {}
        rules: dict[str, Any] = {}
        for level in levels:
            for name, value in level.options.items():
                option = _option(column.suite, name)
                if option is not None and value is not None:
                    place = level.places["options", name]
                    options[option.name] = self._checked(declared[option.name].check, value, place)
            of_suite = _rules(column.suite)
            for name, value in level.rules.items():
                if name in of_suite:
                    rules[name] = self._checked(of_suite[name].check, value, level.places["rules", name])
        if column.instance is not None and (options or (row.source == "images" and "images" in declared)):
            raise self.document.refuse(
                column.path, f"{column.name} is made already; {', '.join(options) or 'images'} must be given there"
            )
        run = {name: value for level in levels for name, value in level.run.items()}
        correct = run.pop("correct", "")
        value = row.value
        if row.source == "images":
            value = str(value).replace("{suite}", column.name)
        return Pair(
            model=row.name,
            column=column.name,
            suite=column.suite.info.name,
            reference=row.reference,
            source=row.source,
            value=value,
            options=options,
            judges={**column.settings.judges, **extra.judges},
            usual_judges={
                role: judge
                for role, judge in {**defaults.judges, **row.settings.judges}.items()
                if not column.suite.judge_roles or role in column.suite.judge_roles
            },
            rules=rules,
            run=run,
            correct=correct,
            instance=column.instance,
            where=self.document.where(row.path),
        )

    def _included(self, rows: Sequence[Row], columns: Sequence[Column]) -> dict[tuple[str, str], Settings]:
        results: dict[tuple[str, str], Settings] = {}
        for model, suite, rest, path in self._pair_entries("include"):
            self._known(model, [row.name for row in rows if row.source != "scores"], (*path, "model"))
            self._known(suite, [column.name for column in columns], (*path, "suite"))
            if (model, suite) in results:
                raise self.document.refuse(path, f"{model} on {suite} is included twice")
            settings = self._settings(rest, path)
            column = next(c for c in columns if c.name == suite)
            self._refuse_useless(settings, [column], f"suite {column.suite.info.name} has no option")
            results[model, suite] = settings
        return results

    def _excluded(self, rows: Sequence[Row], columns: Sequence[Column]) -> list[tuple[str, str]]:
        results = []
        for model, suite, rest, path in self._pair_entries("exclude"):
            if rest:
                raise self._refuse((*path, next(iter(rest))), f"unknown key {next(iter(rest))!r}", ("model", "suite"))
            for pattern, names, key in ((model, rows, "model"), (suite, columns, "suite")):
                known = [each.name for each in names]
                if not any(fnmatchcase(name, pattern) for name in known):
                    raise self._refuse(
                        (*path, key), f"{key} {pattern!r} is none of the plan: {', '.join(known)}", known
                    )
            results.append((model, suite))
        return results

    def _pair_entries(self, section: str) -> Iterator[tuple[str, str, dict[str, Any], KeyPath]]:
        part = self.document.content.get(section) or []
        if not isinstance(part, list):
            raise self.document.refuse((section,), f"{section} is a list of pairs: - {{model: NAME, suite: NAME}}")
        for n, entry in enumerate(part):
            path = (section, n)
            if not isinstance(entry, Mapping) or not ({"model", "suite"} & set(entry)):
                raise self.document.refuse(path, "expected a pair: {model: NAME, suite: NAME}")
            rest = {k: v for k, v in entry.items() if k not in ("model", "suite")}
            any_of = "*" if section == "exclude" else ""
            yield str(entry.get("model", any_of)), str(entry.get("suite", any_of)), rest, path

    def _known(self, name: str, names: Sequence[str], path: KeyPath) -> None:
        if name not in names:
            listed = ", ".join(names)
            problem = f"{path[-1]} {name!r} is none of the plan: {listed}.{did_you_mean(name, names)}"
            raise self.document.refuse(path, problem)


def _option(suite: type[Suite], name: str) -> Option | None:
    """An option of a suite by its name, in Python or as on the command line."""
    written = name.replace("-", "_")
    for option in suite.options:
        if written in (option.name, option.command_line.removeprefix("--").replace("-", "_")):
            return option
    return None


def _option_names(suite: type[Suite]) -> list[str]:
    names = [n for o in suite.options for n in (o.name, o.command_line.removeprefix("--"))]
    return [*names, *(name.replace("-", "_") for name in names)]


def _rules(suite: type[Suite]) -> dict[str, Any]:
    return {rule.name: rule for rule in suite.rules}


def _named(value: Any) -> str:
    if isinstance(value, str | PurePath):
        return str(value)
    return str(getattr(value, "name", None) or getattr(value, "__qualname__", type(value).__qualname__))


def _jsonable(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    return [_jsonable(v) for v in value] if isinstance(value, list | tuple) else value
