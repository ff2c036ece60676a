"""How questions are put to models, and which answer is taken: shared by models that run here and behind services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from verism.errors import UsageError
from verism.judges.batching import check_choice
from verism.judges.vqa.replies import YES_NO, is_yes_no

if TYPE_CHECKING:
    from verism.records import AnswerNeed, Question

__all__ = ["CHAT_PROMPTS", "CHOOSE", "Choose", "allowed", "check_prompts", "most_probable", "weighs", "wording"]

Choose = Literal["auto", "reply", "likelihood"]
CHOOSE: tuple[Choose, ...] = ("auto", "reply", "likelihood")

# What chat models are asked: questions of yes or no, and questions with choices.
CHAT_PROMPTS = (
    "{question} Answer with yes or no only.",
    "{question} Answer with one of these, and nothing else: {choices}.",
)


def check_prompts(choose: str, prompt: str | None, choice_prompt: str | None) -> None:
    """Raise UsageError for an unknown way of choosing, or a prompt without a place for the question."""
    check_choice("choose", choose, CHOOSE)
    for name, template in (("prompt", prompt), ("choice_prompt", choice_prompt)):
        if template is not None and "{question}" not in template:
            raise UsageError(f"{name} must contain {{question}}, where the question goes, but is {template!r}")


def wording(question: Question, prompt: str, choice_prompt: str, *, asks_for_yes_no: bool) -> str:
    """A question as it is put to a model.

    Args:
        question: the question, with the answers it allows.
        prompt: template of a question that is answered by yes or no; ``{question}`` stands for its text.
        choice_prompt: template of any other question; ``{choices}`` stands for its answers, joined by commas.
        asks_for_yes_no: ``prompt`` asks for yes or no; then a question that does so itself, as VQAScore's, stays bare,
            and so does one that is worded to the end.
    """
    yes_no = is_yes_no(question)
    template = prompt if yes_no else choice_prompt
    if asks_for_yes_no and (question.bare or (yes_no and "yes or no" in question.text.lower())):
        template = "{question}"
    # Not str.format: a question may have braces of its own.
    return template.replace("{choices}", ", ".join(question.choices)).replace("{question}", question.text)


def weighs(choose: str, question: Question, need: AnswerNeed) -> bool:
    """Whether the value of an answer is the most probable one the question allows, and not what the reply says.

    ``auto`` weighs where the need says so; ``reply`` never; ``likelihood`` weighs choices always, and yes and no where
    the need says so, as what it records for them otherwise is the probability of yes among all words.
    """
    if choose == "auto" or is_yes_no(question):
        return need.weighed and choose != "reply"
    return choose == "likelihood"


def allowed(question: Question) -> tuple[str, ...]:
    """The answers a question allows: yes and no, or its choices."""
    return YES_NO if is_yes_no(question) else question.choices


def most_probable(question: Question, likelihoods: Sequence[float]) -> tuple[str | None, float | None]:
    """Value and probability of an answer by the likelihood of each of those allowed, in their order.

    Returns:
        The most probable one and its share among them; for yes or no the share of yes, whichever is more probable, and
        no value at even odds. Nothing where all likelihoods are 0.
    """
    total = sum(likelihoods)
    if not total > 0:  # every answer is less probable than the smallest number there is
        return None, None
    shares = [value / total for value in likelihoods]
    best = max(range(len(shares)), key=shares.__getitem__)
    if is_yes_no(question):
        return (None if shares[0] == shares[1] else YES_NO[best]), shares[0]
    return question.choices[best], shares[best]
