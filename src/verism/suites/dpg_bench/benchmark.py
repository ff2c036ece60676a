"""The released file of DPG-Bench: what it must look like, and what its rows are grouped by.

Nothing of it comes with verism: its prompts derive from other sets. The counts of questions were worked out from
published logs, without the rows of the item that the released code loses, and hold up to a common factor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from verism.files import Row
from verism.suites.questions.proposition_files import PropositionFile, read_propositions

__all__ = ["EXPECTED", "LOST_ITEM", "PROMPT_SOURCES", "QUESTION_COUNTS", "alterations", "groups_of_row", "read_file"]

N_PROMPTS = 1065
LOST_ITEM = "partiprompts97"  # the item of the first row, which the released code loses
PROMPT_SOURCES: Mapping[str, int] = {
    "partiprompts": 324, "objects365": 299, "COCOval": 100, "countbench": 40, "diffusiondb": 40, "drawtext": 40,
    "midjourney": 40, "posescript": 40, "stanford": 40, "vrd": 40, "whoops": 40, "localized": 22,
}  # fmt: skip
# Of the second level, without LOST_ITEM. One log has 326 global ones, printed rows of three papers fit 329.
QUESTION_COUNTS: Mapping[str, int] = {
    "entity - whole": 4720, "entity - part": 512, "entity - state": 946, "relation - spatial": 2415,
    "relation - non-spatial": 158, "attribute - color": 1991, "attribute - texture": 1645, "attribute - other": 899,
    "attribute - size": 242, "attribute - shape": 229, "other - count": 200, "other - text": 50,
}  # fmt: skip
GLOBAL_COUNTS = (326, 329)
EXPECTED = (
    "the released dpg_bench.csv: a row for each question with item_id, text, keywords, proposition_id, dependency, "
    f"category_broad, category_detailed, tuple and question_natural_language; {N_PROMPTS:,} prompts"
)


def read_file(path: Path) -> PropositionFile:
    """The prompts and questions of the user's copy.

    Args:
        path: the file.

    Raises:
        UsageError: as ``read_propositions``.
    """
    return read_propositions(path, EXPECTED, groups=groups_of_row, facets=_facets, released_graph_lost=False)


def groups_of_row(row: Row) -> dict[str, str]:
    """What a question is about: the text of its tuple before the bracket, and what stands there before the hyphen.

    Args:
        row: of the file.

    >>> groups_of_row(Row({"tuple": "entity - whole (red barn)"}, ""))
    {'category': 'entity', 'subcategory': 'entity - whole'}
    >>> groups_of_row(Row({"tuple": "global - (photo)"}, ""))
    {'category': 'global', 'subcategory': 'global'}
    """
    detailed = str(row.get("tuple") or "").partition("(")[0].strip().rstrip("-").strip()
    broad = detailed.partition("-")[0].strip()
    return {"category": broad, "subcategory": detailed} if broad else {}


def source_of(item_id: str) -> str:
    """The set that a prompt comes from, by the name of its item.

    >>> source_of("partiprompts97"), source_of("226"), source_of("COCOval2014_000000391895")
    ('partiprompts', 'objects365', 'COCOval')
    """
    if item_id.isdigit():
        return "objects365"
    return next((name for name in PROMPT_SOURCES if item_id.startswith(name)), re.split(r"[\d_]", item_id)[0])


def _facets(item_id: str) -> dict[str, str]:
    return {"prompt_source": source_of(item_id)}


def alterations(read: PropositionFile) -> str:
    """How a file differs from the released one, in words; empty if it does not as far as is known.

    Args:
        read: the file.
    """
    if len(read.prompts) != N_PROMPTS:
        return f"{len(read.prompts):,} prompts, expected {N_PROMPTS:,}"
    counts: dict[str, int] = {}
    for prompt in read.prompts:
        if prompt.prompt_id != LOST_ITEM:
            for question in prompt.questions:
                name = question.groups.get("subcategory", "")
                counts[name] = counts.get(name, 0) + 1
    for name, expected in QUESTION_COUNTS.items():
        if counts.get(name, 0) != expected:
            return f"{counts.get(name, 0):,} questions of {name}, expected {expected:,} (worked out from logs)"
    if not GLOBAL_COUNTS[0] <= counts.get("global", 0) <= GLOBAL_COUNTS[1]:
        return f"{counts.get('global', 0):,} global questions, expected {GLOBAL_COUNTS[0]} to {GLOBAL_COUNTS[1]}"
    return ""
