"""The answer of geography in sentences: do regions differ significantly, and which is worst?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from verism.records import FacetValue, Score
from verism.report_kit.answers import amount, find, images, probability

__all__ = ["geography_answers"]

PROTOCOL = "revised"
SIGNIFICANT = 0.05
MEASURES = {"precision": "realism (precision)", "coverage": "diversity (coverage)", "consistency": "consistency"}


def geography_answers(scores: Sequence[Score], names: Mapping[str, str] | None = None) -> list[str]:
    """One sentence for each measure whose gap between regions was tested, of the first family of prompts that has any.

    Args:
        scores: of a run, as judged.
        names: by ``facet=value``, how a value is written.
    """
    tested = [s for s in scores if s.protocol == PROTOCOL and s.metric.endswith("_gap_p_value") and not s.adjusted]
    families = list(dict.fromkeys(tuple(s.group.items()) for s in tested))
    for family in families:
        answers = [_of_measure(scores, name, dict(family)) for name in MEASURES]
        if any(answers):
            where = _family(dict(family), names or {}) if len(families) > 1 else ""
            return [f"{answer}{where}." for answer in filter(None, answers)]
    return []


def _of_measure(scores: Sequence[Score], name: str, family: Mapping[str, FacetValue]) -> str:
    """The sentence about one measure, without its full stop; empty where its gap was not tested."""
    gap, p_value = (find(scores, f"{name}_{part}", PROTOCOL, family) for part in ("gap", "gap_p_value"))
    if gap is None or p_value is None:
        return ""
    test = f"gap {amount(gap, points=gap.unit == 'share')}, {probability(p_value)}"
    if p_value.value >= SIGNIFICANT:
        return f"No region differs significantly in {MEASURES[name]}: {test} ({images(gap)})"
    worst = [
        s
        for s in scores
        if (s.metric, s.protocol, s.adjusted) == (f"{name}_worst", PROTOCOL, "")
        and family.items() <= dict(s.group).items()
        and not math.isnan(s.value)
    ]
    lowest = f"; lowest for {worst[0].group.get('region', '')} ({amount(worst[0])})" if worst else ""
    return f"Regions differ in {MEASURES[name]}: {test}{lowest} ({images(gap)})"


def _family(group: Mapping[str, FacetValue], names: Mapping[str, str]) -> str:
    """Of which prompts the numbers are, for the end of a sentence."""
    written = [names.get(f"{facet}={value}", str(value)) for facet, value in group.items()]
    return f", prompts: {', '.join(written)}" if written else ""
