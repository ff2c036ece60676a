"""The released file of DSG-1k: what it must look like, and what its rows are grouped by.

The repository is under Apache-2.0, and the prompts come from ten sets with terms of their own, so nothing of them comes
with verism.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from verism.files import Row
from verism.suites.questions.proposition_files import PropositionFile, read_propositions

__all__ = ["EXPECTED", "REPORT_COLUMNS", "SOURCES", "alterations", "facets_of", "groups_of_row", "read_file"]

# Prompts and questions by source, which is what an item is called before its number.
SOURCES: Mapping[str, tuple[int, int]] = {
    "tifa160": (160, 929), "stanford_paragraph": (100, 1240), "localized_narratives": (100, 865), "vrd": (100, 1004),
    "countbench": (100, 642), "diffusiondb": (100, 672), "midjourney": (100, 722), "posescript": (100, 1014),
    "whoops": (100, 435), "drawtext": (100, 659),
}  # fmt: skip
# Columns of the paper's table of models.
REPORT_COLUMNS: Mapping[str, str] = {
    "tifa160": "tifa160", "stanford_paragraph": "paragraph", "localized_narratives": "paragraph", "vrd": "relation",
    "countbench": "count", "diffusiondb": "real users", "midjourney": "real users", "posescript": "poses",
    "whoops": "defying", "drawtext": "text",
}  # fmt: skip
N_PROMPTS = sum(n for n, _ in SOURCES.values())
N_QUESTIONS = sum(n for _, n in SOURCES.values())
EXPECTED = (
    "the released dsg-1k-anns.csv: a row for each question with item_id, text, keywords, proposition_id, dependency, "
    f"category_broad, category_detailed, tuple and question_natural_language; {N_PROMPTS:,} prompts, "
    f"{N_QUESTIONS:,} questions"
)


def read_file(path: Path) -> PropositionFile:
    """The prompts and questions of the user's copy.

    Args:
        path: the file.

    Raises:
        UsageError: as ``read_propositions``.
    """
    return read_propositions(path, EXPECTED, groups=groups_of_row, facets=facets_of, released_graph_lost=True)


def groups_of_row(row: Row) -> dict[str, str]:
    """What a question is about: its group in the paper's tables, by words of its tuple, and the detailed category.

    Args:
        row: of the file.

    >>> groups_of_row(Row({"tuple": "other - count (dogs, ==3)"}, ""))
    {'category': 'attribute', 'subcategory': 'other - count'}
    >>> groups_of_row(Row({"tuple": "global - - (photo)"}, ""))
    {'category': 'global', 'subcategory': 'global'}
    """
    kind = str(row.get("tuple") or "").partition("(")[0].strip()
    words = {"entity": "entity", "attribute": "attribute", "other": "attribute", "relation": "relation",
             "action": "relation", "global": "global"}  # fmt: skip
    group = next((group for word, group in words.items() if word in kind), "")
    if not group:
        return {}
    detailed = " - ".join(part for part in (each.strip() for each in kind.split("-")) if part)
    return {"category": group, "subcategory": detailed}


def facets_of(item_id: str) -> dict[str, str]:
    """The source of a prompt, and the column of the paper's table that it counts for.

    Args:
        item_id: of the file.

    >>> facets_of("localized_narratives_95")
    {'prompt_source': 'localized_narratives', 'report_column': 'paragraph'}
    """
    source = item_id.rpartition("_")[0] or item_id
    return {"prompt_source": source, "report_column": REPORT_COLUMNS.get(source, source)}


def alterations(read: PropositionFile) -> str:
    """How a file differs from the released one, in words; empty if it does not as far as is known.

    Args:
        read: the file.
    """
    if (len(read.prompts), read.n_questions) != (N_PROMPTS, N_QUESTIONS):
        return (
            f"{len(read.prompts):,} prompts and {read.n_questions:,} questions, expected {N_PROMPTS:,} and "
            f"{N_QUESTIONS:,}"
        )
    for source, expected in SOURCES.items():
        of_source = [p for p in read.prompts if p.facets["prompt_source"] == source]
        found = (len(of_source), sum(len(p.questions) for p in of_source))
        if found != expected:
            return f"of {source} {found[0]} prompts and {found[1]} questions, expected {expected[0]} and {expected[1]}"
    return ""
