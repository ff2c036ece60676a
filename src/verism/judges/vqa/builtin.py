"""Questions about clothes, objects, numbers, colours and sides, answered by the built-in embedder's image tower.

verism run social_bias --model people:wears=skirt:0.4/0.0 --vqa builtin

It reads questions of a few forms (``question_forms``) and answers from heads that were trained on rendered scenes and
dressed people. What it cannot read has no answer, and the run's record says how often and why. It perceives no gender:
such a question has no answer either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError
from verism.judges.batching import check_batch_size, judge_name
from verism.judges.embedding.embedder_files import ImageTower, Seen
from verism.judges.vqa.question_forms import Asked, Vocabularies, Why, read_question
from verism.judges.vqa.replies import normalised_reply, value_of
from verism.records import AnswerNeed, Question, frame

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["LEAST_RIGHT", "BuiltinVqa"]

LEAST_RIGHT = 0.8
_KINDS = {"present": "present", "number": "number", "how_many": "number", "colour": "colour", "what_colour": "colour",
          "side": "side"}  # kinds of the card  # fmt: skip
_SIDES = ("left", "right", "above", "below")
_OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}
_WHY: Mapping[Why, str] = {
    "form": "are of no form that it reads",
    "word": "ask for what it was not trained on",
    "weak": "are of a kind that it gets wrong too often, by its card",
    "gender": "ask for perceived gender, which it does not perceive: take what was rendered (truth), or ask people",
}


class BuiltinVqa:
    """Answers of yes or no, or of the choices, with a probability.

    Attributes:
        name: ``builtin:clothes-and-scenes@`` and 12 hexadecimal digits of the file's SHA-256.
        card: how its network was trained and how well it does.

    Args:
        folder: folder written by ``verism train embedder``; None: the packaged file.
        least_right: lowest share of right answers on unseen renders, by the file's card, for a kind of question or
            garment to be answered, 0 to 1; yes and no (or each number) count equally. Kinds without a figure on the
            card are answered.
        threads: CPU threads of onnxruntime; None: one per core.
        batch_size: images per batch. Answers do not depend on it.

    Raises:
        UsageError: there is no such file, or it is none of ours.
    """

    role = AnswerNeed.role

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        least_right: float = LEAST_RIGHT,
        threads: int | None = None,
        batch_size: int = 16,
    ) -> None:
        self._tower = ImageTower(folder, threads=threads, batch_size=check_batch_size(batch_size))
        self.card = self._tower.card
        if not 0 <= least_right <= 1:
            raise UsageError(f"least_right must lie in [0, 1], not {least_right}")
        self._least = least_right
        self.name = judge_name(
            "builtin",
            "clothes-and-scenes",
            self._tower.sha256[:12],
            least_right=None if least_right == LEAST_RIGHT else least_right,
        )
        self._known = Vocabularies(
            classes=self._tower.classes, colors=self._tower.colors, garments=self._tower.garments
        )
        self.start_run()

    def start_run(self) -> None:
        """Forget the questions that ``remarks`` tells of: they were another run's."""
        self._unread: Counter[Why] = Counter()
        self._example: dict[Why, str] = {}
        self._n = 0

    def check(self, need: AnswerNeed) -> None:
        """Refuse a need of whose questions it can read none.

        Raises:
            UsageError: another need, or no question of a form that it reads.
        """
        if not isinstance(need, AnswerNeed):
            raise UsageError(f"{self.name} answers questions; it cannot serve a need of {type(need).__name__}")
        questions = {question for asked in need.questions.values() for question in asked}
        if questions and not any(isinstance(self._read(question), Asked) for question in questions):
            raise UsageError(
                f"the built-in judge reads none of these {len(questions)} questions, such as "
                f"{next(iter(sorted(q.text for q in questions)))!r}; docs/models/builtin-embedder.md has the forms "
                "that it reads. Use another judge of questions"
            )

    def observe(self, images: Sequence[LoadedImage], need: AnswerNeed) -> pl.DataFrame:
        """One row per image and question, as table ``answers``; null where it cannot answer.

        ``probability`` is of yes, or of the choice that is the value. An image about which nothing is asked has one
        row without a question.
        """
        seen = self._tower.look([image.pixels for image in images]) if images else None
        rows: list[dict[str, Any]] = []
        for number, image in enumerate(images):
            questions = need.questions.get(image.prompt_id, ())
            if not questions:
                rows.append({"image_id": image.image_id, "judge": self.name})
            for question in questions:
                assert seen is not None
                answer, probability = self._answer(question, seen, number)
                rows.append(
                    {
                        "image_id": image.image_id,
                        "judge": self.name,
                        "question": question.text,
                        "answer": answer,
                        "value": None if answer is None else value_of(answer, question),
                        "probability": probability,
                    }
                )
        return frame(need.table, rows)

    def remarks(self) -> Sequence[str]:
        """For the run's record: how many questions were not answered, and why."""
        return [
            f"{self.name} did not answer {count:,} of {self._n:,} questions, which {_WHY[why]}; the first: "
            f"{self._example[why]!r}"
            for why, count in sorted(self._unread.items())
        ]

    def summary(self) -> Sequence[str]:
        """After a run: as ``remarks``."""
        return self.remarks()

    def _read(self, question: Question) -> Asked | Why:
        asked = read_question(question.text, self._known, question.choices)
        if isinstance(asked, str):
            return asked
        kind = f"garment: {asked.thing}" if asked.kind == "garment" else _KINDS[asked.kind]
        measured: Mapping[str, float] = self.card.get("balanced", {})
        return asked if measured.get(kind, 1.0) >= self._least else "weak"

    def _answer(self, question: Question, seen: Seen, number: int) -> tuple[str | None, float | None]:
        self._n += 1
        asked = self._read(question)
        shares = {} if isinstance(asked, str) else self._shares(asked, question, seen, number)
        if not shares:
            why: Why = asked if isinstance(asked, str) else "form"
            self._unread[why] += 1
            self._example.setdefault(why, question.text)
            return None, None
        answer = max(shares, key=lambda each: shares[each])
        return answer, shares["yes"] if set(shares) == {"yes", "no"} else shares[answer]

    def _shares(self, asked: Asked, question: Question, seen: Seen, number: int) -> dict[str, float]:
        """Probability of each answer that a question allows; empty where its choices are none of the judge's."""
        at_least = seen.counts[number]
        if asked.kind == "garment":
            yes = seen.garments[number, self._tower.garments.index(asked.thing)]
        elif asked.kind == "present":
            yes = at_least[self._tower.classes.index(asked.thing), 0]
        elif asked.kind == "number":
            yes = _exactly(at_least[self._tower.classes.index(asked.thing)])[asked.number]
        elif asked.kind == "colour":
            yes = seen.colors[number, self._tower.classes.index(asked.thing), self._tower.colors.index(asked.color)]
        elif asked.kind == "side":
            yes = self._on_side(asked, seen, number)
        elif asked.kind == "how_many":
            return _of_choices(question, dict(enumerate(_exactly(at_least[self._tower.classes.index(asked.thing)]))))
        else:
            shares = seen.colors[number, self._tower.classes.index(asked.thing)]
            return _of_choices(question, dict(zip(self._tower.colors, shares.tolist(), strict=True)))
        if question.choices and sorted(normalised_reply(c) for c in question.choices) != ["no", "yes"]:
            return {}
        return {"yes": float(yes), "no": 1 - float(yes)}

    def _on_side(self, asked: Asked, seen: Seen, number: int) -> float:
        """That both are there, and that of the four sides it is this one: the heads know nothing of a fifth case."""
        first, second = (self._tower.classes.index(name) for name in (asked.thing, asked.other))
        there = float(seen.counts[number, first, 0] * seen.counts[number, second, 0])
        opposite = [_SIDES.index(_OPPOSITE[side]) for side in _SIDES]
        shares = seen.sides[number, first] * seen.sides[number, second][opposite]
        total = float(shares.sum())
        return there * float(shares[_SIDES.index(asked.side)]) / total if total > 0 else 0.0


def _exactly(at_least: np.ndarray) -> list[float]:
    """Probability of 0, 1, 2, 3, and 4 or more, from those of at least 1 to 4."""
    steps = [1.0, *np.minimum.accumulate(at_least).tolist(), 0.0]
    return [max(a - b, 0.0) for a, b in zip(steps, steps[1:], strict=False)]


def _of_choices(question: Question, shares: Mapping[int, float] | Mapping[str, float]) -> dict[str, float]:
    """Shares of a question's choices, scaled to sum to 1; empty if any of them is none of the judge's answers."""
    by_reply = {str(answer): float(share) for answer, share in shares.items()}
    choices = question.choices or tuple(by_reply)
    found = {choice: by_reply.get(normalised_reply(choice)) for choice in choices}
    if any(share is None for share in found.values()):
        return {}
    total = sum(share for share in found.values() if share is not None)
    return {choice: (share or 0.0) / total for choice, share in found.items()} if total > 0 else {}
