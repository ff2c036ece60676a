"""Published figures beside the same figures worked out again, paper by paper.

``checks("gep")`` gives them as a list of :class:`~verism.reproduce.common.Check`. Nothing but the printed tables (in
``verism/data/published``) and our own arithmetic goes in: no pictures, no models.
"""

from __future__ import annotations

from verism.reproduce.common import Check, Verdict

__all__ = ["PAPERS", "Check", "Verdict", "checks"]

PAPERS = ("gep", "dalleval", "digin")


def checks(paper: str) -> list[Check]:
    """All comparisons of one paper, table by table.

    Args:
        paper: one of ``PAPERS``.
    Raises:
        ValueError: another name.
    """
    if paper == "gep":
        from verism.reproduce.gep import gep_checks

        return gep_checks()
    if paper == "dalleval":
        from verism.reproduce.dalleval import dalleval_checks

        return dalleval_checks()
    if paper == "digin":
        from verism.reproduce.digin import digin_checks

        return digin_checks()
    raise ValueError(f"paper must be one of {', '.join(PAPERS)}; got {paper!r}")
