"""The 3-in-1 score of complex prompts: attribute binding, relation in the image and CLIPScore, routed as released.

Source: T2I-CompBench (arXiv:2307.06350), and the released code of January 2025.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["PARTS", "ROUTES", "paper_three_in_one", "released_three_in_one"]

PARTS: tuple[str, ...] = ("binding", "spatial", "clip")
ROUTES: Mapping[str, tuple[str, ...]] = {
    "spatial": ("spatial", "binding"),
    "action": ("clip", "binding"),
    "both": PARTS,
}
"""Parts of a prompt's score by the list it stands in; prompts in neither list have all three."""


def released_three_in_one(route: str, parts: Mapping[str, float | None]) -> float | None:
    """Mean of the parts that the prompt's list asks for; None if one of them is unknown.

    Args:
        route: a key of ``ROUTES``.
        parts: by name of ``PARTS``.

    >>> released_three_in_one("spatial", {"binding": 0.5, "spatial": 0.0, "clip": 0.3})
    0.25
    """
    values = [parts.get(name) for name in ROUTES[route]]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def paper_three_in_one(parts: Mapping[str, float | None]) -> float | None:
    """Mean of all three parts, as paper and README describe it; None if one of them is unknown.

    Args:
        parts: by name of ``PARTS``.
    """
    return released_three_in_one("both", parts)
