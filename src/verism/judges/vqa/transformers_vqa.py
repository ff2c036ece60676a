"""Models that answer questions about pictures, from the Hugging Face hub or a local folder.

BLIP, BLIP-2, InstructBLIP, GIT, and chat models such as LLaVA and Qwen-VL::

    verism run alignment --images DIR --vqa transformers:Salesforce/blip2-flan-t5-xl

The reply is kept as the model gave it; what it means is decided strictly (``replies.value_of``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from verism.errors import UsageError
from verism.judges.batching import check_choice, judge_name
from verism.judges.vision_language import Ask, Reply, VisionLanguageModel, check_count
from verism.judges.vqa.replies import is_yes_no, value_of

if TYPE_CHECKING:
    import polars as pl

    from verism.records import AnswerNeed, LoadedImage, Question

__all__ = ["TransformersVqa"]

# How each family was trained to be asked: BLIP-2 (arXiv:2301.12597) and InstructBLIP (arXiv:2305.06500), appendices.
_PROMPTS = {"blip-2": "Question: {question} Answer:", "instructblip": "Question: {question} Short answer:"}
_CHAT_PROMPTS = (
    "{question} Answer with yes or no only.",
    "{question} Answer with one of these, and nothing else: {choices}.",
)


class TransformersVqa:
    """Answers questions about pictures with a model loaded by ``transformers``.

    Args:
        id_or_path: repository on the hub, or a folder with model, image processor and tokenizer.
        prompt: how a question of yes or no is put, with ``{question}`` in it. By default as the family was trained:
            ``Question: {question} Answer:`` for BLIP-2, ``Question: {question} Short answer:`` for InstructBLIP, the
            bare question for BLIP and GIT, and with a request to answer yes or no for chat models, unless the question
            has the words "yes or no" itself.
        choice_prompt: how a question with choices is put, with ``{question}`` and, if the model shall see them,
            ``{choices}`` in it (listed with commas). By default ``prompt`` if that is given, or else as above, with the
            choices for chat models only.
        choose: how an answer to a question with choices is found. ``reply``: the model's free reply, if it is one of
            them. ``likelihood``: the choice that it would most probably reply.
        beams: of the search for the reply; 1 takes the most probable token each time.
        max_new_tokens: length of a reply in tokens.
        revision, device, dtype, batch_size, local_files_only: as in ``VisionLanguageModel``.
    Raises:
        UsageError: no such model, one that reads no questions, incomplete weights, or a prompt without ``{question}``.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    def __init__(
        self,
        id_or_path: str,
        *,
        prompt: str | None = None,
        choice_prompt: str | None = None,
        choose: Literal["reply", "likelihood"] = "reply",
        beams: int = 1,
        max_new_tokens: int = 10,
        revision: str | None = None,
        device: str | None = None,
        dtype: str = "float32",
        batch_size: int = 8,
        local_files_only: bool = False,
    ) -> None:
        check_choice("choose", choose, ("reply", "likelihood"))
        for name, template in (("prompt", prompt), ("choice_prompt", choice_prompt)):
            if template is not None and "{question}" not in template:
                raise UsageError(f"{name} must contain {{question}}, where the question goes, but is {template!r}")
        self._choose = choose
        self._beams = check_count("beams", beams)
        self._length = check_count("max_new_tokens", max_new_tokens)
        self._model = VisionLanguageModel(
            id_or_path,
            task="answers",
            revision=revision,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            local_files_only=local_files_only,
        )
        usual = (_PROMPTS.get(self._model.family, "{question}"),) * 2
        yes_no, choices = _CHAT_PROMPTS if self._model.chat else usual
        self._prompt = prompt or yes_no
        self._ask_for_yes_no = self._model.chat and prompt is None
        self._choice_prompt = choice_prompt or prompt or choices
        self.name = judge_name(
            "transformers",
            self._model.source,
            self._model.identity,
            prompt=repr(self._prompt),
            choice_prompt=None if self._choice_prompt == self._prompt else repr(self._choice_prompt),
            choose=choose,
            beams=beams,
            max_new_tokens=max_new_tokens,
            dtype=None if dtype == "float32" else dtype,
        )

    def observe(self, images: Sequence[LoadedImage], need: AnswerNeed) -> pl.DataFrame:
        """One row per picture and question, as table ``answers``.

        ``probability`` is, for a question of yes or no, the probability that the first token of the reply is the word
        yes, in any case and with or without a space before it, under the softmax over the whole vocabulary: not
        normalised over yes and no. It is there whatever the reply is. For a question with choices it is the probability
        of the chosen one, normalised over the choices; None unless ``choose`` is ``likelihood``.

        A picture about which nothing is asked has one row without a question.
        """
        from verism.records import frame

        told = self._model.replies(
            images,
            lambda image: [self._ask(question) for question in need.questions.get(image.prompt_id, ())],
            beams=self._beams,
            max_new_tokens=self._length,
        )
        rows: list[dict[str, Any]] = []
        for image, replies in zip(images, told, strict=True):
            questions = need.questions.get(image.prompt_id, ())
            if not questions:
                rows.append({"image_id": image.image_id, "judge": self.name})
            for question, reply in zip(questions, replies, strict=True):
                value, probability = _decide(question, reply)
                rows.append(
                    {
                        "image_id": image.image_id,
                        "judge": self.name,
                        "question": question.text,
                        "answer": reply.text,
                        "value": value,
                        "probability": probability,
                    }
                )
        return frame(need.table, rows)

    def _ask(self, question: Question) -> Ask:
        yes_no = is_yes_no(question)
        template = self._prompt if yes_no else self._choice_prompt
        if yes_no and self._ask_for_yes_no and "yes or no" in question.text.lower():
            template = "{question}"  # it asks for that itself, as VQAScore's does
        # Not str.format: a question may have braces of its own.
        text = template.replace("{choices}", ", ".join(question.choices)).replace("{question}", question.text)
        if yes_no or self._choose == "reply":
            return Ask(text)
        return Ask(text, candidates=tuple(_spellings(choice) for choice in question.choices))


def _spellings(choice: str) -> tuple[str, ...]:
    """A choice as given and with a capital letter."""
    return tuple(dict.fromkeys((choice, choice[:1].upper() + choice[1:])))


def _decide(question: Question, reply: Reply) -> tuple[str | None, float | None]:
    """Value and probability of a reply."""
    if is_yes_no(question):
        return value_of(reply.text, question), reply.yes
    if not reply.candidates:
        return value_of(reply.text, question), None
    total = sum(reply.candidates)
    if not total > 0:  # every choice is less probable than the smallest number there is
        return None, None
    shares = [value / total for value in reply.candidates]
    best = max(range(len(shares)), key=shares.__getitem__)
    return question.choices[best], shares[best]
