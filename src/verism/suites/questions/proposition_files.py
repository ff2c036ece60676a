"""Files with a row for each question, in the layout that DSG introduced and DPG-Bench uses.

``item_id, text, keywords, proposition_id, dependency, category_broad, category_detailed, tuple,
question_natural_language``. Released files have defects: dependencies that cannot be read, on the question itself, on
later questions, on numbers that do not exist, a 0 (for none) beside others. Each is mended as far as it can be and
named; what the released code makes of it is kept beside it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from verism.errors import UsageError
from verism.files import Row, read_rows
from verism.records import FacetValue
from verism.suites.questions.asked import AskedPrompt, AskedQuestion

__all__ = ["COLUMNS", "Defect", "PropositionFile", "circles", "file_digest", "parse_parents", "read_propositions"]

COLUMNS = ("item_id", "text", "proposition_id", "dependency", "tuple", "question_natural_language")
KINDS = ("unreadable", "itself", "later", "unknown", "zero beside others", "circle")


@dataclass(frozen=True, kw_only=True)
class Defect:
    """Something wrong with a dependency.

    Attributes:
        kind: one of ``KINDS``.
        prompt_id: prompt of the question.
        question: its number.
        cell: what the file has.
    """

    kind: str
    prompt_id: str
    question: str
    cell: str


@dataclass(frozen=True, kw_only=True)
class PropositionFile:
    """What a file holds.

    Attributes:
        prompts: in order of their first row.
        defects: of its dependencies.
        digest: SHA-256 of the file.
    """

    prompts: tuple[AskedPrompt, ...]
    defects: tuple[Defect, ...] = ()
    digest: str = ""

    @property
    def n_questions(self) -> int:
        """Number of questions in all."""
        return sum(len(p.questions) for p in self.prompts)

    def counts(self, facet: str) -> dict[str, int]:
        """Number of questions by what they are about.

        Args:
            facet: of questions (``category``).
        """
        return dict(Counter(q.groups[facet] for p in self.prompts for q in p.questions if facet in q.groups))

    def defect_words(self) -> str:
        """The defects counted by kind; empty without any."""
        counts = Counter(defect.kind for defect in self.defects)
        return ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])


def parse_parents(cell: str) -> list[str] | None:
    """The numbers in a cell of dependencies, 0 included; None if it cannot be read.

    >>> parse_parents("1, 2"), parse_parents("0"), parse_parents("1 and 2"), parse_parents("")
    (['1', '2'], ['0'], None, None)
    """
    try:
        return [str(int(part)) for part in cell.split(",")]
    except ValueError:
        return None


def circles(parents: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Dependencies (child, parent) that close a circle of several questions, in the order of the questions.

    Args:
        parents: by question.

    >>> circles({"1": ["2"], "2": ["1"], "3": ["2"]})
    [('2', '1')]
    """
    closing: list[tuple[str, str]] = []
    kept: dict[str, list[str]] = {}

    def reaches(start: str, goal: str) -> bool:
        waiting, seen = [start], {start}
        while waiting:
            node = waiting.pop()
            if node == goal:
                return True
            fresh = [parent for parent in kept.get(node, ()) if parent not in seen]
            seen.update(fresh)
            waiting += fresh
        return False

    for child, its in parents.items():
        for parent in its:
            if reaches(parent, child):
                closing.append((child, parent))
            else:
                kept.setdefault(child, []).append(parent)
    return closing


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits.

    Args:
        path: the file.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass
class _Item:
    """Rows of one prompt."""

    text: str
    rows: list[tuple[Row, str, str]] = field(default_factory=list)  # row, number, cell of dependencies


def read_propositions(
    path: Path,
    expected: str,
    *,
    groups: Callable[[Row], Mapping[str, str]],
    facets: Callable[[str], Mapping[str, FacetValue]],
    released_graph_lost: bool,
) -> PropositionFile:
    """The prompts and questions of a file.

    Args:
        path: CSV.
        expected: for messages, what the released file is like.
        groups: given a row, what its question is about, by facet.
        facets: given the id of a prompt, what it is grouped by.
        released_graph_lost: whether in the released code one unreadable cell takes the dependencies of its whole prompt
            away; otherwise only its own.

    Raises:
        UsageError: no such file, a column that is missing, a row without id, text or question, or a number used twice.
    """
    rows = read_rows(path, expected)
    if not rows:
        raise UsageError(f"{path}: nothing in it. Expected {expected}")
    if missing := [name for name in COLUMNS if name not in rows[0]]:
        raise UsageError(f"{path}: no column {missing[0]}; it has {', '.join(map(str, rows[0]))}. Expected {expected}")
    items: dict[str, _Item] = {}
    for row in rows:
        item_id, text = _cell(row, "item_id", expected), _cell(row, "text", expected)
        item = items.setdefault(item_id, _Item(text=text))
        if item.text != text:
            raise UsageError(f"{row.where}: the prompt {item_id} is {item.text!r:.80} above and {text!r:.80} here")
        number = _cell(row, "proposition_id", expected)
        if any(number == other for _, other, _ in item.rows):
            raise UsageError(f"{row.where}: question {number} of {item_id} is there twice")
        _cell(row, "question_natural_language", expected)
        item.rows.append((row, number, str(row.get("dependency") or "").strip()))
    prompts, defects = [], []
    for item_id, item in items.items():
        questions, found = _questions(item_id, item, groups, released_graph_lost=released_graph_lost)
        prompts.append(
            AskedPrompt(prompt_id=item_id, text=item.text, questions=questions, facets=dict(facets(item_id)))
        )
        defects += found
    prompts[0] = replace(prompts[0], first_row_lost=True)
    return PropositionFile(prompts=tuple(prompts), defects=tuple(defects), digest=file_digest(path))


def _cell(row: Row, name: str, expected: str) -> str:
    value = str(row.get(name) or "").strip()
    if not value:
        raise UsageError(f"{row.where}: no {name}. Expected {expected}")
    return value


def _questions(
    item_id: str, item: _Item, groups: Callable[[Row], Mapping[str, str]], *, released_graph_lost: bool
) -> tuple[tuple[AskedQuestion, ...], list[Defect]]:
    """The questions of a prompt, and what is wrong with their dependencies."""
    order = {number: position for position, (_, number, _) in enumerate(item.rows)}
    defects: list[Defect] = []
    mended: dict[str, list[str]] = {}
    released: dict[str, list[str]] = {}

    def note(kind: str, number: str, cell: str) -> None:
        defects.append(Defect(kind=kind, prompt_id=item_id, question=number, cell=cell))

    unreadable = False
    for _, number, cell in item.rows:
        parents = parse_parents(cell)
        if parents is None:
            note("unreadable", number, cell)
            unreadable = True
            mended[number], released[number] = [], []
            continue
        named = list(dict.fromkeys(parent for parent in parents if parent != "0"))
        if "0" in parents and named:
            note("zero beside others", number, cell)
        if unknown := [parent for parent in named if parent not in order]:
            note("unknown", number, cell)
        known = [parent for parent in named if parent not in unknown]
        if number in known:
            note("itself", number, cell)
        if any(order[parent] > order[number] for parent in known):
            note("later", number, cell)
        released[number] = known
        mended[number] = [parent for parent in known if parent != number]
    for child, parent in circles(mended):
        note("circle", child, parent)
        mended[child].remove(parent)
    if unreadable and released_graph_lost:
        released = {number: [] for number in released}
    return tuple(
        AskedQuestion(
            name=number,
            text=str(row["question_natural_language"]).strip(),
            parents=tuple(mended[number]),
            released_parents=None if released[number] == mended[number] else tuple(released[number]),
            groups=dict(groups(row)),
        )
        for row, number, _ in item.rows
    ), defects
