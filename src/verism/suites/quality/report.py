"""The report of quality: what suits any suite, and realism against diversity over several runs."""

from __future__ import annotations

from collections.abc import Sequence

from verism.report_kit.evidence import Evidence
from verism.report_kit.generic import generic_sections
from verism.report_kit.section import Section
from verism.report_kit.trade_offs import trade_off_section

__all__ = ["quality_sections"]

AIMS = {"precision": "realism", "coverage": "diversity", "fid": "distance"}


def quality_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page."""
    results, *others = generic_sections(evidence)
    trade_offs = trade_off_section(evidence, AIMS)
    return [results, *([trade_offs] if trade_offs else []), *others]
