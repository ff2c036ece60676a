"""Every suite there is, by name: those that come with verism, and those of installed packages.

Other packages add suites by the entry point group ``verism.suites``, whose objects are subclasses of ``Suite``. No
suite is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from verism import plugins
from verism.errors import UsageError
from verism.manifest import canonical_suite_name
from verism.published import Check, in_order
from verism.specs import Presentation, did_you_mean
from verism.store import Run
from verism.suites.base import Suite

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "GROUP",
    "SUITES",
    "Entry",
    "commands",
    "installed_suite",
    "make_suite",
    "plugin_commands",
    "plugin_of",
    "presentation_of",
    "published_checks",
    "published_figures",
    "stored_suite",
    "suite_class",
    "suite_entries",
]

GROUP = "verism.suites"


@dataclass(frozen=True)
class Entry:
    """Where a suite is.

    Attributes:
        location: ``module:Class``.
        summary: one line; empty for plug-ins until they are loaded.
        package: distribution and version of a plug-in, ``name 1.0``; empty for what comes with verism.
        commands: of its own for the command line: ``module:command`` by name.
        published: figures of papers about it, worked out again: ``module:function`` by name.
    """

    location: str
    summary: str = ""
    package: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    published: Mapping[str, str] = field(default_factory=dict)


HOME = "verism.suites"
SUITES: Mapping[str, Entry] = {
    "paintskills": Entry(
        f"{HOME}.paintskills.suite:PaintSkills",
        "object, count, spatial; 15 classes, 13 backgrounds (ICCV 2023); optional skill: color",
        commands={"scenes render": f"{HOME}.paintskills.cli:render", "demo tour": f"{HOME}.paintskills.cli:tour"},
        published={"dalleval": f"{HOME}.paintskills.published:dalleval"},
    ),
    "paintskills_v1": Entry(
        f"{HOME}.paintskills.suite:PaintSkillsV1",
        "object, count, color, spatial; 21 classes, 6 colours, black background (arXiv v1)",
    ),
    "geography": Entry(
        f"{HOME}.geography.suite:Geography",
        "realism, diversity and consistency by region of the world (DIG In): 27 objects, 6 regions (GeoDE)",
        commands={"data check": f"{HOME}.geography.cli:check"},
        published={"digin": f"{HOME}.geography.published:digin"},
    ),
    "geography_dollarstreet": Entry(
        f"{HOME}.geography.suite:GeographyDollarStreet",
        "as geography, with DollarStreet: 109 topics, 4 regions",
    ),
    "quality": Entry(
        f"{HOME}.quality.suite:Quality",
        "FID, KID, precision, recall, density, coverage against real images or published statistics",
    ),
    "gender_presentation": Entry(
        f"{HOME}.gender_presentation.suite:GenderPresentation",
        "clothes shown on women and men (GEP): 15 attributes, 16 contexts; your own terms by a study file",
        commands={"gep": f"{HOME}.gender_presentation.cli:gep"},
        published={"gep": f"{HOME}.gender_presentation.published:gep"},
    ),
    "social_bias": Entry(
        f"{HOME}.social_bias.suite:SocialBias",
        "perceived gender, skin tone and 15 attributes of people in 83 professions (DALL-Eval, ICCV 2023)",
        published={"dalleval": f"{HOME}.social_bias.published:dalleval"},
    ),
    "social_bias_v1": Entry(
        f"{HOME}.social_bias_v1.suite:SocialBiasV1",
        "first version of 2022: 145 neutral prompts, perceived gender and race by CLIP, one vote per prompt",
        published={"dalleval": f"{HOME}.social_bias_v1.published:dalleval"},
    ),
    "geneval": Entry(
        f"{HOME}.geneval.suite:GenEval",
        "objects, counting, colours, position, attribute binding: 553 prompts, six tasks (NeurIPS 2023)",
        commands={"geneval": f"{HOME}.geneval.cli:geneval"},
        published={"geneval": f"{HOME}.geneval.published:geneval"},
    ),
    "geneval2": Entry(
        f"{HOME}.geneval2.suite:GenEval2",
        "800 prompts of 3 to 10 atoms, 6,012 questions, Soft-TIFA; from your copy of the data (CC BY-NC)",
    ),
    "dpg_bench": Entry(
        f"{HOME}.dpg_bench.suite:DPGBench",
        "1,065 dense prompts, 14,000 questions with dependencies, four images each; from your copy of the data",
        published={"dpg": f"{HOME}.dpg_bench.published:dpg"},
    ),
    "dsg": Entry(
        f"{HOME}.dsg.suite:DSG",
        "1,060 prompts of ten sets, 8,182 questions with dependencies (ICLR 2024); from your copy of the data",
        commands={"dsg": f"{HOME}.dsg.cli:dsg"},
        published={"dsg": f"{HOME}.dsg.published:dsg"},
    ),
    "tifa": Entry(
        f"{HOME}.tifa.suite:TIFA",
        "4,081 captions, 25,000 questions with choices of 12 types (ICCV 2023); from your copy of the data",
        commands={"tifa": f"{HOME}.tifa.cli:tifa"},
        published={"tifa": f"{HOME}.tifa.published:tifa"},
    ),
    "genai_bench": Entry(
        f"{HOME}.genai_bench.suite:GenAIBench",
        "VQAScore on 1,600 designers' prompts with skills and people's ratings; from your copy of the data",
        commands={"genai": f"{HOME}.genai_bench.cli:genai"},
        published={"genai": f"{HOME}.genai_bench.published:genai"},
    ),
    "wise": Entry(
        f"{HOME}.wise.suite:Wise",
        "1,000 prompts on culture, time, space, biology, physics, chemistry; two editions; from your copy",
        published={"wise": f"{HOME}.wise.published:wise"},
    ),
    "preference": Entry(
        f"{HOME}.preference.suite:Preference",
        "PickScore and similar models: scores, win rates of two sets or several runs, agreement with people",
        commands={"preference": f"{HOME}.preference.cli:preference"},
        published={"preference": f"{HOME}.preference.published:preference"},
    ),
    "unsafe_content": Entry(
        f"{HOME}.unsafe_content.suite:UnsafeContent",
        "unsafe images from prompts that invite them (I2P and similar); from your copy of the data",
    ),
    "oneig_alignment": Entry(
        f"{HOME}.oneig_alignment.suite:OneIGAlignment",
        "695 prompts, 11,231 questions with dependencies, four images each; from your copy of the data",
    ),
    "unigenbench": Entry(
        f"{HOME}.unigenbench.suite:UniGenBench",
        "600 prompts, 1,813 test points of 27 kinds, four images each; from your copy of the data (CC BY 4.0)",
        commands={"unigenbench": f"{HOME}.unigenbench.cli:unigenbench"},
    ),
    "compbench": Entry(
        f"{HOME}.compbench.suite:CompBench",
        "attribute binding, relations in image and depth, numeracy, complex prompts: 8 x 300, from your copy",
        commands={"compbench": f"{HOME}.compbench.cli:compbench"},
        published={"compbench": f"{HOME}.compbench.published:compbench"},
    ),
    "text_rendering": Entry(
        f"{HOME}.text_rendering.suite:TextRendering",
        "text in images, read by OCR: verism's own prompts, LongText-Bench, CVTG-2K, OneIG's text part",
        published={
            "cvtg": f"{HOME}.text_rendering.published:cvtg",
            "longtext": f"{HOME}.text_rendering.published:longtext",
        },
    ),
    "alignment": Entry(
        f"{HOME}.alignment.suite:Alignment",
        "caption metrics, R-precision, CLIPScore and questions, for COCO captions or prompts of your own",
        published={"dalleval": f"{HOME}.alignment.published:dalleval"},
    ),
}


def suite_entries() -> dict[str, Entry]:
    """Every suite by name; a plug-in cannot take the name of a suite that comes with verism."""
    found = {}
    for point in plugins.entry_points(group=GROUP):
        name = canonical_suite_name(point.name)
        if name not in SUITES:
            found[name] = Entry(point.value, package=_package(point))
    return {**SUITES, **found}


def _entry(name: str) -> Entry | None:
    """The entry of a suite; installed packages are searched only for a name that is none of ours."""
    return SUITES.get(name) or suite_entries().get(name)


def suite_class(name: str) -> type[Suite]:
    """The class of a suite; spellings with hyphens are accepted.

    Raises:
        UsageError: unknown suite, or a plug-in that cannot be loaded or is no suite.
    """
    wanted = canonical_suite_name(name)
    entry = _entry(wanted)
    if entry is None:
        known = suite_entries()
        raise UsageError(f"unknown suite {name!r}.{did_you_mean(wanted, known)} There are: {', '.join(known)}")
    try:
        loaded = resolve_name(entry.location)
    except Exception as err:
        if not entry.package:
            raise
        raise UsageError(f"suite {name}: its package {entry.package} cannot be loaded: {err!r}") from err
    if not (isinstance(loaded, type) and issubclass(loaded, Suite)):
        raise UsageError(
            f"suite {name}: {entry.location} of {entry.package} is no subclass of verism.suites.base.Suite"
        )
    if canonical_suite_name(loaded.info.name) != wanted:
        raise UsageError(
            f"suite {name}: the class {loaded.__name__} of {entry.package} calls itself {loaded.info.name!r}"
        )
    return loaded


def make_suite(name: str, **options: Any) -> Suite:
    """The suite of a name; options that are None are left to the suite.

    Raises:
        UsageError: unknown suite, or an option it does not have.
    """
    return suite_class(name).make(options)


def stored_suite(run: Run, *, rules: bool = False) -> Suite:
    """The suite of a stored run, by the settings and prompts it keeps.

    Args:
        run: the run.
        rules: whether it has the rules of the run's last scoring; otherwise the suite's own.

    Raises:
        UsageError: unknown suite.
    """
    settings = run.manifest.settings
    suite = suite_class(settings.suite).reopen(settings.suite_settings, run.prompts())
    return suite.with_rules(**run.manifest.scoring.rules) if rules else suite


def installed_suite(run: Run) -> Suite | None:
    """The suite of a run with the rules of its scores; None where it is not installed.

    Args:
        run: the run.
    """
    try:
        suite_class(run.suite_name)
    except UsageError:
        return None
    return stored_suite(run, rules=True)


def presentation_of(run: Run) -> Presentation:
    """What a run's suite says of itself: from the suite if it is installed, otherwise as the run keeps it.

    Raises:
        UsageError: the suite is not installed, and the run keeps nothing of it.
    """
    stored = run.presentation()
    return stored_suite(run, rules=True).presentation() if stored is None or run.suite_name in SUITES else stored


def plugin_of(suite: Suite) -> dict[str, str]:
    """Version by package, of a suite that does not come with verism."""
    package = (_entry(suite.name) or Entry("")).package
    name, _, version = package.partition(" ")
    return {name: version} if name else {}


def commands() -> dict[str, str]:
    """Commands that suites of verism add to the command line: ``module:command`` by path (``scenes render``)."""
    return {name: location for entry in SUITES.values() for name, location in entry.commands.items()}


def plugin_commands() -> dict[str, str]:
    """The same of suites from other packages, which are loaded for it; those that cannot be are left out."""
    return {name: location for suite in _plugins() for name, location in suite.commands.items()}


def published_figures() -> dict[str, list[str]]:
    """By name of a paper, the ``module:function`` of every suite that works figures of it out again."""
    results: dict[str, list[str]] = {}
    for declared in (*(entry.published for entry in SUITES.values()), *(suite.published for suite in _plugins())):
        for name, location in declared.items():
            if location not in results.setdefault(name, []):  # a subclass has what its parent declares
                results[name].append(location)
    return results


def published_checks(paper: str) -> list[Check]:
    """The figures of a paper beside the same worked out again, by all suites that declare some of it.

    Args:
        paper: one of ``published_figures``.

    Raises:
        UsageError: another name.
    """
    known = published_figures()
    if paper not in known:
        raise UsageError(f"no figures of {paper!r}.{did_you_mean(paper, known)} There are those of {', '.join(known)}")
    return in_order(resolve_name(location)() for location in known[paper])


def _plugins() -> Iterator[type[Suite]]:
    for name in suite_entries():
        if name not in SUITES:
            with suppress(UsageError):
                yield suite_class(name)


def _package(point: EntryPoint) -> str:
    return "another package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
