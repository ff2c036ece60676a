"""Models that answer questions about images, from the Hugging Face hub or a local folder.

BLIP, BLIP-2, InstructBLIP, GIT, and chat models such as LLaVA and Qwen-VL::

    verism run alignment --images DIR --vqa transformers:Salesforce/blip2-flan-t5-xl

The reply is kept as the model gave it; what it means is decided strictly (``replies.value_of``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from verism.errors import UsageError
from verism.judges.batching import check_choice, judge_name
from verism.judges.hub import HubOptions
from verism.judges.vision_language import Ask, Reply, VisionLanguageModel, check_count
from verism.judges.vqa.replies import is_yes_no, value_of
from verism.judges.vqa.wording import CHAT_PROMPTS, Choose, allowed, check_prompts, most_probable, weighs, wording
from verism.records import AnswerNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage, Question

__all__ = ["TransformersVqa"]

# How each family was trained to be asked: BLIP-2 (arXiv:2301.12597) and InstructBLIP (arXiv:2305.06500), appendices.
_PROMPTS = {"blip-2": "Question: {question} Answer:", "instructblip": "Question: {question} Short answer:"}
# What DALL-Eval asks BLIP-2 with: LAVIS's blip2_t5 and the defaults of its ``generate``, prompt as in the released code
# (arXiv:2202.04053, Sec. 4.2.3). Temperature 1, as nothing is sampled.
_RELEASED_PROMPT = "Question: {question} Answer:"
_RELEASED_BEAMS, _RELEASED_LENGTH = 5, 30
_RELEASED_GENERATION = {"min_length": 1, "repetition_penalty": 1.0, "length_penalty": 1.0}


class TransformersVqa:
    """Answers questions about images with a model loaded by ``transformers``.

    Args:
        id_or_path: model id on the Hugging Face Hub, or a folder with model, image processor and tokenizer.
        prompt: wording of a yes-no question, with ``{question}`` in it. Default, as the model was trained: ``Question:
            {question} Answer:`` for BLIP-2, ``Question: {question} Short answer:`` for InstructBLIP, the bare question
            for BLIP and GIT; for chat models with a request to answer yes or no, unless the question contains "yes or
            no".
        choice_prompt: wording of a multiple-choice question, with ``{question}`` and, if the model is to see them,
            ``{choices}`` (comma-separated). Default: ``prompt`` if set, else the same defaults, with the choices for
            chat models only.
        choose: how the reply becomes an answer. ``reply``: the model's free reply, if it answers the question.
            ``likelihood``: the choice that the model gives the highest probability. ``auto``: ``likelihood`` if the
            suite uses probabilities, else ``reply``.
        beams: beams of the beam search for the reply. Default: 1, greedy decoding.
        max_new_tokens: longest reply, in tokens. Default: 10.
        settings: published settings. ``released``: those of DALL-Eval's code, the prompt ``Question: {question}
            Answer:`` for every question, 5 beams, 1 to 30 new tokens, no sampling. ``original-blip``: those of BLIP's
            original code, which T2I-CompBench uses: images resized to 480 x 480 pixels, the bare question after the
            token ``[ENC]``.
        hub: which edition of the model, and how it is run.
    Raises:
        UsageError: no such model, one that reads no questions, incomplete weights, or a prompt without ``{question}``.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = AnswerNeed.role

    def __init__(
        self,
        id_or_path: str,
        *,
        prompt: str | None = None,
        choice_prompt: str | None = None,
        choose: Choose = "auto",
        beams: int | None = None,
        max_new_tokens: int | None = None,
        settings: Literal["released", "original-blip"] | None = None,
        hub: HubOptions = HubOptions(),
    ) -> None:
        check_prompts(choose, prompt, choice_prompt)
        self._generation: dict[str, float] = {}
        if settings is not None:
            check_choice("settings", settings, ("released", "original-blip"))
        original_blip = settings == "original-blip"
        if settings == "released":
            subset = {
                "prompt": prompt,
                "choice_prompt": choice_prompt,
                "beams": beams,
                "max_new_tokens": max_new_tokens,
            }
            if values := [name for name, value in subset.items() if value is not None]:
                raise UsageError(f"settings={settings} decides {', '.join(values)} already; give one or the other")
            prompt, beams, max_new_tokens = _RELEASED_PROMPT, _RELEASED_BEAMS, _RELEASED_LENGTH
            self._generation = dict(_RELEASED_GENERATION)
        self._choose = choose
        self._beams = check_count("beams", 1 if beams is None else beams)
        self._length = check_count("max_new_tokens", 10 if max_new_tokens is None else max_new_tokens)
        self._model = VisionLanguageModel(id_or_path, task="answers", hub=hub, original_blip=original_blip)
        usual = (_PROMPTS.get(self._model.family, "{question}"),) * 2
        yes_no, choices = CHAT_PROMPTS if self._model.chat else usual
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
            beams=self._beams,
            max_new_tokens=self._length,
            settings=settings,
            dtype=hub.named_dtype,
        )

    def observe(self, images: Sequence[LoadedImage], need: AnswerNeed) -> pl.DataFrame | Mapping[str, pl.DataFrame]:
        """One row per image and question, as table ``answers``. The free reply is there in every case.

        Where the need is weighed (and ``choose`` is not ``reply``), ``value`` is the most probable answer among those
        the question allows, and ``probability`` is normalised over these: of yes, P(yes) / (P(yes) + P(no)), each the
        probability that the first token of the reply is that word in any case, with or without a space before it (or,
        where the vocabulary has no such token, that the whole reply is the word); of a choice, its share among the
        choices, each the probability that the whole reply is that choice.

        Where it is not, ``probability`` is, for a question of yes or no, the probability that the first token of the
        reply is the word yes under the softmax over the whole vocabulary: not normalised over yes and no. It is there
        whatever the reply is. For a question with choices it is as above with ``choose=likelihood``, or else None.

        An image about which nothing is asked has one row without a question. Where questions ask for the probability of
        strings, their tokens' are given as table ``token_probabilities``; both tables are then given by name.
        """
        from verism.records import frame

        answers = self._model.replies(
            images,
            lambda image: [self._ask(question, need) for question in need.questions.get(image.prompt_id, ())],
            beams=self._beams,
            max_new_tokens=self._length,
            generation=self._generation,
        )
        rows: list[dict[str, Any]] = []
        tokens: list[dict[str, Any]] = []
        for image, replies in zip(images, answers, strict=True):
            questions = need.questions.get(image.prompt_id, ())
            if not questions:
                rows.append({"image_id": image.image_id, "judge": self.name})
            for question, reply in zip(questions, replies, strict=True):
                value, probability = _decide(question, reply, weighed=weighs(self._choose, question, need))
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
                tokens += [
                    {
                        "image_id": image.image_id,
                        "judge": self.name,
                        "question": question.text,
                        "string": string,
                        "token": token,
                        "probability": min(share, 1.0),
                    }
                    for string, (token, share) in zip(question.strings, reply.strings, strict=True)
                ]
        table = frame(need.table, rows)
        if not any(question.strings for asked in need.questions.values() for question in asked):
            return table
        return {need.table: table, "token_probabilities": frame("token_probabilities", tokens)}

    def _ask(self, question: Question, need: AnswerNeed) -> Ask:
        text = wording(question, self._prompt, self._choice_prompt, asks_for_yes_no=self._ask_for_yes_no)
        by_first_token = is_yes_no(question) and self._model.says_yes_and_no
        if by_first_token or not weighs(self._choose, question, need):
            return Ask(text, strings=question.strings)
        candidates = tuple(_spellings(answer) for answer in allowed(question))
        return Ask(text, candidates=candidates, strings=question.strings)


def _spellings(choice: str) -> tuple[str, ...]:
    """A choice as given and with a capital letter."""
    return tuple(dict.fromkeys((choice, choice[:1].upper() + choice[1:])))


def _decide(question: Question, reply: Reply, *, weighed: bool) -> tuple[str | None, float | None]:
    """Value and probability of a reply."""
    if not weighed:
        return value_of(reply.text, question), reply.yes if is_yes_no(question) else None
    if reply.candidates or reply.yes is None or reply.no is None:
        return most_probable(question, reply.candidates)
    return most_probable(question, (reply.yes, reply.no))
