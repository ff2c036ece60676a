"""What ``verism list`` shows."""

from __future__ import annotations

from verism.records import option_of
from verism.registry import GENERATORS, JUDGES
from verism.suites.catalogue import suite_class, suite_entries

__all__ = ["listing"]

PROTOCOLS = (
    ("released", "what the authors' published code does, its defects included"),
    ("paper", "what the text of the paper says"),
    ("corrected", "ours: the default wherever the others are wrong or silent"),
)


def listing(what: str) -> list[tuple[str, str]]:
    """Names and descriptions of one kind of thing."""
    if what == "suites":
        return [
            (name, entry.summary or f"{suite_class(name).info.summary} ({entry.package})")
            for name, entry in suite_entries().items()
        ]
    if what == "models":
        return [(name, text) for name, (_, text) in GENERATORS.items()]
    if what == "judges":
        return [
            (f"{option_of(role)} {kind}", text) for role, kinds in JUDGES.items() for kind, (_, text) in kinds.items()
        ]
    if what == "protocols":
        return list(PROTOCOLS)
    from verism.simulator.catalogue import standard_catalogue

    catalogue = standard_catalogue()
    if what == "environments":
        return [(name, "") for name in catalogue.environments]
    return [(a.label, ", ".join(a.states)) for a in catalogue.assets.values()]
