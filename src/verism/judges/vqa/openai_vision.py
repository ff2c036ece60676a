"""Models behind a service that answer questions about images: OpenAI's chat interface, theirs or another's.

verism run alignment --images DIR --vqa openai:gpt-4o-mini
verism run alignment --images DIR --vqa "openai:llava?base_url=http://localhost:8000/v1"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from verism.judges.batching import check_choice
from verism.judges.vision_endpoint import ChatAnswer, Message, Token, VisionEndpoint, VisionOptions, kept_rows
from verism.judges.vqa.replies import YES_NO, is_yes_no, value_of
from verism.judges.vqa.wording import CHAT_PROMPTS, Choose, allowed, check_prompts, most_probable, weighs, wording
from verism.records import AnswerNeed
from verism.services import ServiceOptions

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage, Question

__all__ = ["OpenAIVqa", "likelihoods"]

_ARTICLES = ("", "a ", "an ", "the ")
_CANNOT_TELL = "cannot tell"
_TOGETHER = (
    "Answer these questions about the picture. Reply with a JSON object that has one field per question, named q1, q2 "
    f"and so on, and whose values are one of the answers allowed, or {_CANNOT_TELL!r}."
)
_FENCE = re.compile(r"\A```(?:json)?\s*(.*?)\s*```\Z", re.DOTALL)


class OpenAIVqa:
    """Answers questions about images by asking a service with OpenAI's chat interface.

    Args:
        model: name of the model at the service, such as ``gpt-4o-mini``.
        ask: requests per image. ``each``: one per question. ``together``: one for all questions, answered as JSON with
            an allowed answer or "cannot tell"; fewer tokens, but the questions influence each other and there are no
            probabilities.
        prompt: wording of a yes-no question, with ``{question}`` in it. Default: with a request to answer yes or no,
            unless the question contains "yes or no".
        choice_prompt: wording of a multiple-choice question, with ``{question}`` and, if the model is to see them,
            ``{choices}``. Default: ``prompt`` if set, else a request to reply with one of the choices.
        choose: how the reply becomes an answer. ``reply``: the free reply, if it answers the question. ``likelihood``:
            the most probable choice, by the token probabilities of the service. ``auto``: ``likelihood`` if the suite
            uses probabilities, else ``reply``.
        max_tokens: longest reply to a question, in tokens.
        vision: how images are shown and replies asked for; by default with the probabilities of 20 tokens, and
            with none if questions are asked together.
        service: where the service is and how much it is asked.
    Raises:
        UsageError: a value out of range, a prompt without ``{question}``, or an address that is not safe.
    """

    role = AnswerNeed.role

    def __init__(
        self,
        model: str,
        *,
        ask: Literal["each", "together"] = "each",
        prompt: str | None = None,
        choice_prompt: str | None = None,
        choose: Choose = "auto",
        max_tokens: int = 30,
        vision: VisionOptions = VisionOptions(),
        service: ServiceOptions = ServiceOptions(),
    ) -> None:
        check_choice("ask", ask, ("each", "together"))
        check_prompts(choose, prompt, choice_prompt)
        self._ask, self._choose = ask, choose
        self._prompt = prompt or CHAT_PROMPTS[0]
        self._choice_prompt = choice_prompt or prompt or CHAT_PROMPTS[1]
        self._asks_for_yes_no = prompt is None
        # JSON takes a few tokens of its own per question, and nobody knows their number before it is asked.
        length = max_tokens if ask == "each" else max(1024, 64 * max_tokens)
        self._endpoint = VisionEndpoint(
            model,
            role="VQA model",
            noun="answer",
            max_tokens=length,
            logprobs=20 if ask == "each" else 0,
            vision=vision,
            service=service,
        )
        named: dict[str, Any] = {"ask": ask, "choose": choose}
        if ask == "each":
            named |= {"prompt": repr(self._prompt), "choice_prompt": repr(self._choice_prompt)}
        self.name = self._endpoint.name + "".join(f" {name}={value}" for name, value in named.items())
        self._without = 0

    def observe(self, images: Sequence[LoadedImage], need: AnswerNeed) -> pl.DataFrame:
        """One row per image and question, as table ``answers``; a null answer where none came, with the reason.

        ``value`` and ``probability`` are as those of ``TransformersVqa``, from the probabilities that the service tells
        of the tokens of its reply. Only the most probable ones are told, so an answer whose tokens are not among them
        has probability 0; where none of the answers' is, or the service tells none at all, ``probability`` is null and
        the value is what the reply says.

        An image about which nothing is asked has one row without a question.

        Raises:
            UsageError: no key, the service cannot be reached, or what it says concerns every request.
            MissingExtra: httpx is not installed.
        """
        from verism.records import frame

        asked = [(image, need.questions.get(image.prompt_id, ())) for image in images]
        replies = iter(self._answers([(image, questions) for image, questions in asked if questions]))
        rows: list[dict[str, Any]] = []
        with kept_rows(need.table, rows):
            for image, questions in asked:
                rows += [self._row(image, question, next(replies), need) for question in questions] or [
                    {"image_id": image.image_id, "judge": self.name}
                ]
        return frame(need.table, rows)

    def _row(self, image: LoadedImage, question: Question, answer: ChatAnswer, need: AnswerNeed) -> dict[str, Any]:
        value, probability = self._decide(question, answer, need)
        return {
            "image_id": image.image_id,
            "judge": self.name,
            "question": question.text,
            "answer": answer.text,
            "value": value,
            "probability": probability,
            "note": answer.reason or None,
        }

    def summary(self) -> list[str]:
        """Lines after a run: what was asked, what came, why some did not, tokens and cost as far as known."""
        lines = self._endpoint.summary()
        if self._without:
            lines.append(f"{self._without:,} answers need probabilities, but the service returned none")
        return lines

    def close(self) -> None:
        """End everything under way."""
        self._endpoint.close()

    # ---------------------------------------------------------------------------------------------------------- asking
    def _answers(self, asked: Sequence[tuple[LoadedImage, Sequence[Question]]]) -> Iterator[ChatAnswer]:
        """An answer per image and question."""
        if not asked:
            return
        if self._ask == "each":
            yield from self._endpoint.ask(
                Message(
                    pixels=image.pixels,
                    text=wording(question, self._prompt, self._choice_prompt, asks_for_yes_no=self._asks_for_yes_no),
                )
                for image, questions in asked
                for question in questions
            )
            return
        messages = [
            Message(pixels=image.pixels, text=_together(questions), schema=_schema(questions))
            for image, questions in asked
        ]
        for (_, questions), answer in zip(asked, self._endpoint.ask(messages), strict=True):
            yield from self._taken_apart(questions, answer)

    def _taken_apart(self, questions: Sequence[Question], answer: ChatAnswer) -> Iterator[ChatAnswer]:
        """The answers to several questions in one reply of JSON."""
        if answer.text is None:
            yield from [answer] * len(questions)
            return
        fenced = _FENCE.match(answer.text)
        try:
            values = json.loads(fenced.group(1) if fenced else answer.text)
        except (ValueError, RecursionError):
            values = None
        for number in range(1, len(questions) + 1):
            text = values.get(f"q{number}") if isinstance(values, Mapping) else None
            if isinstance(text, bool):
                text = YES_NO[not text]
            elif isinstance(text, int | float):
                text = str(text)
            if isinstance(text, str) and text.strip():
                yield ChatAnswer(text=text.strip())
                continue
            reason = "the reply is no JSON object" if not isinstance(values, Mapping) else "a question left out"
            self._endpoint.note(reason)
            yield ChatAnswer(text=None, reason=reason)

    def _decide(self, question: Question, answer: ChatAnswer, need: AnswerNeed) -> tuple[str | None, float | None]:
        """Value and probability of an answer."""
        if answer.text is None:
            return None, None
        value = value_of(answer.text, question)
        weighed = weighs(self._choose, question, need)
        if not weighed and not is_yes_no(question):
            return value, None
        weights = likelihoods(allowed(question), answer.tokens)
        if weights is None:
            self._without += weighed
            return value, None
        return most_probable(question, weights) if weighed else (value, weights[0])


def likelihoods(answers: Sequence[str], tokens: Sequence[Token]) -> tuple[float, ...] | None:
    """The probability of each answer, from those that a service tells of the tokens of one reply.

    At the place of the reply where an alternative decides for one of the answers, its probability is that of what was
    written before times its own. Case, spaces and articles do not matter, and a token may be a part of an answer's
    first word (``fem`` of ``female``) or have more than it (``Yes.``). What a service does not tell counts as 0.

    Args:
        answers: those a question allows.
        tokens: of the reply, with the most probable ones in each place.

    Returns:
        In [0, 1], in their order, summing to 1 at most; None where none of the told tokens is of an answer.

    >>> reply = (Token("fem", (("fem", 0.6), ("male", 0.3), ("I", 0.1))), Token("ale", (("ale", 1.0),)))
    >>> likelihoods(("male", "female"), reply)
    (0.3, 0.6)
    """
    spellings = [[f"{article}{_plain(answer)}" for article in _ARTICLES] for answer in answers]
    results = [0.0] * len(answers)
    before, weight, undecided = "", 1.0, bool(tokens)
    for token in tokens:
        undecided = False
        for text, probability in token.top:
            meant = _meant(before + text, spellings)
            if len(meant) == 1:
                results[meant[0]] += weight * probability
            elif text == token.text:
                # Blank so far, an article, or what several answers begin with: what follows decides.
                undecided = len(meant) > 1
        if not undecided:
            break
        weight *= dict(token.top)[token.text]
        before += token.text
    if undecided:  # it ended where another answer goes on: "red", and not "red hat"
        for number, of_answer in enumerate(spellings):
            if _plain(before).rstrip() in of_answer:
                results[number] += weight
    return tuple(results) if any(results) else None


def _meant(text: str, spellings: Sequence[Sequence[str]]) -> list[int]:
    """Which answers a reply that begins so may be."""
    start = _plain(text)
    fits = [any(spelling.startswith(start) for spelling in of_answer) for of_answer in spellings]
    if not any(fits):  # more than an answer: the longest that it begins with, if it ends at a word's end
        ended = [max((len(s) for s in all_ if _begins_with_word(start, s)), default=0) for all_ in spellings]
        longest = max(ended, default=0)
        fits = [length == longest > 0 for length in ended]
    return [number for number, fit in enumerate(fits) if fit]


def _begins_with_word(text: str, word: str) -> bool:
    return text.startswith(word) and not text[len(word) : len(word) + 1].isalnum()


def _plain(text: str) -> str:
    return text.lower().lstrip(" \t\r\n\"'*")


def _together(questions: Sequence[Question]) -> str:
    lines = [
        f"q{number}: {question.text} ({' / '.join(allowed(question))})"
        for number, question in enumerate(questions, start=1)
    ]
    return "\n".join([_TOGETHER, *lines])


def _schema(questions: Sequence[Question]) -> dict[str, Any]:
    fields = {
        f"q{number}": {"type": "string", "enum": [*dict.fromkeys((*allowed(question), _CANNOT_TELL))]}
        for number, question in enumerate(questions, start=1)
    }
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
