"""A figure in its version for every protocol, and the parts of a page that are made of templates."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from verism.report_kit import words
from verism.report_kit.svg import RUN_COLORS

if TYPE_CHECKING:
    from jinja2 import Environment

    from verism.report_kit.evidence import Evidence

__all__ = ["FigureByProtocol", "environment", "figure", "part", "parts", "with_code"]


BACK_TICKS = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, kw_only=True)
class FigureByProtocol:
    """A figure in its version for every protocol; None where a protocol has no such numbers.

    Attributes:
        title: above it; empty for none.
        versions: by protocol.
        notes: by protocol, what is said below it.
        warning: what has to be said beside it; empty for most.
        folded: whether it is shown on demand only.
    """

    title: str
    versions: Mapping[str, Markup | None]
    notes: Mapping[str, str] = field(default_factory=dict)
    warning: str = ""
    folded: bool = False


def figure(
    title: str,
    protocols: Sequence[str],
    draw: Callable[[str], Markup | None],
    *,
    warning: str = "",
    folded: bool = False,
) -> list[FigureByProtocol]:
    """A figure drawn for every protocol; none if no protocol has it.

    Args:
        title: above it.
        protocols: of the page.
        draw: gives the version of a protocol.
        warning: what has to be said beside it.
        folded: whether it is shown on demand only.
    """
    versions: dict[str, Markup | None] = {p: draw(p) for p in protocols}
    if all(v is None for v in versions.values()):
        return []
    return [FigureByProtocol(title=title, versions=versions, warning=warning, folded=folded)]


@functools.cache
def environment(package: str = "verism.report_kit") -> Environment:
    """Templates of a package, which may use those of the kit by ``{% from "parts.html.j2" import ... %}``.

    Args:
        package: that has a folder ``templates``.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    from verism.report_kit.tables import difference_words

    packages = dict.fromkeys([package, "verism.report_kit"])
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name, "templates") for name in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "code": with_code,
        "tested": difference_words,
        "percent": words.percent,
        "interval": lambda score: words.minus(words.interval(score)),
        "value": lambda score: words.minus(words.value(score)),
        "thousands": "{:,}".format,
    }
    made.globals |= {"dash": words.UNDEFINED, "run_colors": RUN_COLORS}
    return made


def with_code(text: object) -> Markup:
    """A text with what stands between back-ticks as code.

    Args:
        text: any; it is escaped here.
    """
    return Markup(BACK_TICKS.sub(r"<code>\1</code>", str(escape(text))))


def parts(evidence: Evidence, **values: Any) -> dict[str, Any]:
    """What every template of a section may use: ``evidence``, ``names``, ``protocols`` and ``values``."""
    return {"evidence": evidence, "names": evidence.names, "protocols": evidence.protocols, **values}


def part(evidence: Evidence, template: str, package: str = "verism.report_kit", **values: Any) -> Markup:
    """A piece of a page from a template.

    Args:
        evidence: what the report is made of.
        template: its file.
        package: whose folder ``templates`` has it.
        **values: for the template.
    """
    return Markup(environment(package).get_template(template).render(**parts(evidence, **values)))
