"""What ``verism list`` shows."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from typing import Any

from verism.errors import UsageError, VerismError
from verism.options import SETTINGS, Option
from verism.records import option_of, roles
from verism.registry import TRACKER, Kind, kinds
from verism.suites.aspects import Coverage, coverage_of_aspects
from verism.suites.catalogue import suite_class, suite_entries

__all__ = ["aspect_listing", "aspect_text", "listing", "option_listing", "option_text"]

PROTOCOLS = (
    ("released", "what the authors' published code does, its defects included"),
    ("paper", "what the text of the paper says"),
    ("revised", "ours: the default wherever the others are wrong or silent"),
)


def listing(what: str) -> list[tuple[str, str]]:
    """Names and descriptions of one kind of thing; plug-ins that cannot be used are left to ``verism doctor``."""
    if what == "suites":
        return [
            (name, entry.summary or f"{suite_class(name).info.summary} ({entry.package})")
            for name, entry in suite_entries().items()
        ]
    if what == "models":
        return [(kind.name, _described(kind)) for kind in kinds(broken=[])]
    if what == "trackers":
        return [(kind.name, _described(kind)) for kind in kinds(TRACKER, broken=[])]
    if what == "judges":
        return [
            (f"{option_of(role)} {kind.name}", _described(kind)) for role in roles() for kind in kinds(role, broken=[])
        ]
    if what == "protocols":
        return list(PROTOCOLS)
    from verism.simulator.catalogue import standard_catalogue

    catalogue = standard_catalogue()
    if what == "environments":
        return [(name, "") for name in catalogue.environments]
    return [(a.label, ", ".join(a.states)) for a in catalogue.assets.values()]


def _described(kind: Kind) -> str:
    return f"{kind.text} [{kind.package}]" if kind.package else kind.text


def aspect_listing() -> list[Coverage]:
    """The aspects of HEIM with the suites that cover them; suites that cannot be loaded are ``verism doctor``'s."""
    declared = []
    for name in suite_entries():
        with suppress(VerismError):
            declared.append((name, suite_class(name).aspects))
    return coverage_of_aspects(declared)


def aspect_text(found: Sequence[Coverage]) -> list[str]:
    """Aspects in lines, those that are not covered with what may serve."""
    lines = []
    for each in found:
        lines.append(f"{each.aspect:<16}{each.asks}")
        lines += [f"{'':<16}{suite}: {', '.join(metrics)}" for suite, metrics in each.suites.items()]
        if each.missing:
            lines.append(f"{'':<16}not covered: {each.missing}")
    covered = sum(bool(each.suites) for each in found)
    return [*lines, "", f"{covered} of {len(found)} aspects of HEIM (arXiv:2311.04287) are covered."]


def option_listing(what: str, name: str) -> list[dict[str, Any]]:
    """What can be written for a kind: one record for each role it serves in.

    Args:
        what: ``models``, ``judges`` or ``trackers``.
        name: of the kind; for judges also a role that no kind is called: all kinds that serve in it.

    Returns:
        ``name``, ``description``, ``package``, ``argument`` (an option, or None), ``options`` (each with ``name``,
        ``type``, ``default``, ``choices``, ``help``) and ``passes_on`` (whether options beyond these are passed on).

    Raises:
        UsageError: there is no such kind, or nothing to say about this kind of thing.
    """
    if what not in ("models", "judges", "trackers"):
        raise UsageError(f"verism list {what} takes no name; models, judges and trackers have options")
    by_kind: Mapping[str, tuple[str | None, ...]] = {"models": (None,), "trackers": (TRACKER,)}
    of_roles = by_kind.get(what, roles())
    every = [(role, kind) for role in of_roles for kind in kinds(role, broken=[])]
    named = any(kind.name == name for _, kind in every)
    served = name.replace("-", "_") if what == "judges" else ""
    records = []
    for role, kind in every:
        if kind.name == name if named else role == served:
            signature = kind.signature(role)
            records.append(
                {
                    "name": " ".join([*_option_before(role), kind.name]),
                    "description": kind.text,
                    "package": kind.package or "verism",
                    "argument": signature.argument and _record(signature.argument, role),
                    "options": [_record(option, role) for option in signature.options],
                    "passes_on": signature.passes_on,
                }
            )
    if not records:
        known = ", ".join(dict.fromkeys(kind.name for _, kind in every))
        of_judges = f"; roles: {', '.join(roles())}" if what == "judges" else ""
        raise UsageError(f"no {what[:-1]} {name!r}; there are: {known}{of_judges}")
    return records


def _option_before(role: str | None) -> list[str]:
    """The option that a name stands behind; none for models, whose two options take it."""
    return [] if role is None else ["--track"] if role == TRACKER else [option_of(role)]


def _record(option: Option, role: str | None) -> dict[str, Any]:
    default: str | None = None if option.default is Parameter.empty else option.shown
    if option.parameter in SETTINGS and not (role is not None and option.parameter == "size"):
        default = f"--{option.parameter.replace('_', '-')}, else {option.shown}"
    return {
        "name": option.written,
        "type": option.expects,
        "default": default,
        "choices": list(option.choices),
        "help": _help(option),
    }


def _help(option: Option) -> str:
    """The sentences of an option as help: none as it is written, and a capital letter first unless it is a value's."""
    text = re.sub(r"\bNone\b", "none", option.help.replace("``", ""))
    return text if option.help.startswith("``") else f"{text[:1].upper()}{text[1:]}"


def option_text(record: Mapping[str, Any], *, width: int = 100) -> list[str]:
    """A record of ``option_listing`` in lines."""
    argument, options = record["argument"], record["options"]
    *role, name = str(record["name"]).split(" ")
    written = name
    if argument is not None:
        word = str(argument["name"]).upper()
        written += f":{word}" if argument["default"] is None else f"[:{word}]"
    if options or record["passes_on"]:
        written += "?NAME=VALUE&..."
    lines = [" ".join([*role, written]), *textwrap.wrap(str(record["description"]), width, initial_indent="  ")]
    if argument is not None:
        lines += ["", f"  {str(argument['name']).upper()}: {argument['type']}", *_wrapped(argument["help"], width)]
    for option in options:
        default = option["default"]
        answer = f" (default: {default})" if default else ""
        lines += ["", f"  {option['name']}={option['type']}{answer}", *_wrapped(option["help"], width)]
    if record["passes_on"]:
        lines += ["", "  Other options are passed on as they are."]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent="      ", subsequent_indent="      ")
