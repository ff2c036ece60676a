"""Questions that a prompt comes with, as suites keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from verism.records import FacetValue, Question, Scene, SceneFact

__all__ = ["AskedPrompt", "AskedQuestion", "as_spec", "questions_of"]


@dataclass(frozen=True, kw_only=True)
class AskedQuestion:
    """A question about the images of a prompt.

    Attributes:
        name: unique among the questions of its prompt: its number in the file.
        text: the question, without a suffix.
        expected: the right answer.
        choices: answers to choose from; empty for a question of yes or no.
        parents: names of the questions it depends on, defects of the file mended.
        released_parents: the same as the released code reads the file; None: no different.
        groups: what it is about, by facet (``category``: ``entity``).
        fact: what it means of a rendered scene, if known.
        strings: texts whose probability is wanted, see ``records.Question``.
        weight: in the score of an image, beside the weights of its other questions, > 0.
        highest: of the levels 0, 1, ... that a graded reply names; it counts 1.
    """

    name: str
    text: str
    expected: str = "yes"
    choices: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    released_parents: tuple[str, ...] | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    fact: SceneFact | None = None
    strings: tuple[str, ...] = ()
    weight: float = 1.0
    highest: int = 1

    def question(self, suffix: str | None) -> Question:
        """As a judge is asked it.

        Args:
            suffix: text behind the question, after a space unless it begins with a space or a point; empty: the bare
                question; None: the judge words it.
        """
        text = self.text
        if suffix:
            text += suffix if suffix[0] in " .," else f" {suffix}"
        return Question(text=text, choices=self.choices, strings=self.strings, bare=suffix is not None, fact=self.fact)


@dataclass(frozen=True, kw_only=True)
class AskedPrompt:
    """A prompt with its questions.

    Attributes:
        prompt_id: unique in its file.
        text: the prompt.
        questions: in the file's order.
        facets: what breakdowns of prompts group by.
        scene: the scene that shows it; None without one.
        first_row_lost: whether the released code loses its first question, being the first row of the file.
        notes: whatever else its suite keeps of it, plain JSON.
    """

    prompt_id: str
    text: str
    questions: tuple[AskedQuestion, ...]
    facets: Mapping[str, FacetValue] = field(default_factory=dict)
    scene: Scene | None = None
    first_row_lost: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)


def as_spec(questions: Sequence[AskedQuestion]) -> list[dict[str, Any]]:
    """Questions as a prompt keeps them, plain JSON; what is empty is left out.

    Args:
        questions: of a prompt.
    """
    records = []
    for question in questions:
        usual = {"weight": 1.0, "highest": 1}
        record = {
            name: value
            for name, value in asdict(question).items()
            if value not in ((), {}, None) and usual.get(name) != value
        }
        if question.released_parents is not None:
            record["released_parents"] = list(question.released_parents)
        for name in ("choices", "parents", "strings"):
            if name in record:
                record[name] = list(record[name])
        records.append(record)
    return records


def questions_of(spec: Mapping[str, Any]) -> tuple[AskedQuestion, ...]:
    """The questions that ``as_spec`` wrote.

    Args:
        spec: of a prompt; its key ``questions``.
    """
    made = []
    for record in spec.get("questions", ()):
        values = {**record}
        for name in ("choices", "parents", "released_parents", "strings"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        if values.get("fact") is not None:
            values["fact"] = SceneFact.from_record(values["fact"])
        made.append(AskedQuestion(**values))
    return tuple(made)
