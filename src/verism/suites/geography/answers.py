"""The answer of geography in sentences: do regions differ significantly, and which is worst?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from verism.records import Score
from verism.report_kit.answers import amount, find, images, probability

__all__ = ["geography_answers"]

PROTOCOL = "revised"
SIGNIFICANT = 0.05
MEASURES = {"precision": "realism (precision)", "coverage": "diversity (coverage)", "consistency": "consistency"}


def geography_answers(scores: Sequence[Score]) -> list[str]:
    """One sentence for each measure whose gap between regions was tested.

    Args:
        scores: of a run, as judged.
    """
    told = []
    for name, words in MEASURES.items():
        gap, p_value = (find(scores, f"{name}_{part}", PROTOCOL) for part in ("gap", "gap_p_value"))
        if gap is None or p_value is None:
            continue
        share = gap.unit == "share"
        tested = f"gap {amount(gap, points=share)}, {probability(p_value)}"
        if p_value.value >= SIGNIFICANT:
            told.append(f"No region differs significantly in {words}: {tested} ({images(gap)}).")
            continue
        worst = [
            s
            for s in scores
            if (s.metric, s.protocol, s.adjusted) == (f"{name}_worst", PROTOCOL, "") and not math.isnan(s.value)
        ]
        lowest = f"; lowest for {worst[0].group.get('region', '')} ({amount(worst[0])})" if worst else ""
        told.append(f"Regions differ in {words}: {tested}{lowest} ({images(gap)}).")
    return told
