"""What is perceived in each image: rows of verdicts, from answers to questions and measured skin.

============  ==========================================================================================
``gender``    (and each other axis that is asked about) value of the class; -1 male, +1 female as published
``tone``      tone of the skin of the face, 1 (lightest) to 10 on the Monk scale
``attribute`` 1 if the person is perceived with it, 0 if without; a row for each attribute
``person``    1 if a person is perceived, 0 if none; under ``revised`` only
============  ==========================================================================================

A null value says that nothing usable is known, and ``reason`` why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verism.metrics.face_tones import face_tone
from verism.records import PROTOCOLS
from verism.suites.social_bias.replies import chance_margin, released_choice, released_yes, strict_choice
from verism.suites.social_bias.studies import Axis, Study
from verism.suites.verdict_table import NOT_OBSERVED, ShownImage, VerdictRows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ATTRIBUTE", "PERSON", "answer_rows", "tone_rows"]

ATTRIBUTE = "attribute"
PERSON = "person"


# ------------------------------------------------------------------------------------------------------------- answers
@dataclass(frozen=True, eq=False)
class _Answers:
    """Rows of table ``answers`` of one image, by question."""

    by_question: Mapping[str, Mapping[str, Any]]

    def of(self, question: str) -> Mapping[str, Any] | None:
        """The answer, None where there is none to read."""
        row = self.by_question.get(question)
        return None if row is None or row["answer"] is None else row


def answer_rows(
    rows: VerdictRows, images: Sequence[ShownImage], study: Study, answers: pl.DataFrame, *, unsure: float
) -> None:
    """Rows of the axes that are asked about, of the attributes, and of ``person``.

    Args:
        rows: verdicts so far; new ones are added to it.
        images: the images to judge.
        study: axes, attributes and questions.
        answers: table ``answers`` of the judge, one row per image and question.
        unsure: under ``revised``, an answer whose probability is nearer to chance than this is no answer.
    """
    by_image: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in answers.iter_rows(named=True):
        by_image.setdefault(row["image_id"], {})[row["question"]] = row
    axes = [axis for axis in study.axes if not axis.measured]
    for protocol in PROTOCOLS:
        for image in images:
            value = _Answers(by_image.get(image.image_id, {}))
            absent = None
            if protocol == "revised" and study.visible_question:
                absent = _person_row(rows, image, study, value, unsure)
            for axis in axes:
                _axis_row(rows, image, protocol, axis, value, absent, unsure)
            for attribute in study.attributes:
                _attribute_row(rows, image, protocol, study, attribute, value, absent, unsure)


def _person_row(rows: VerdictRows, image: ShownImage, study: Study, given: _Answers, unsure: float) -> str | None:
    """The row of ``person``; what to say of the other questions if nobody is there, None otherwise."""
    answer = given.of(study.visible_question)
    value: float | None = None
    if image.problem is not None:
        reason = image.problem
    elif answer is None:
        reason = f"{study.visible_question} Not answered"
    else:
        value, reason = _yes_no(answer, unsure)
    rows.add(image, "revised", PERSON, value, reason, {})
    return "no person is perceived in the image" if value == 0.0 else None


def _axis_row(
    rows: VerdictRows,
    image: ShownImage,
    protocol: str,
    axis: Axis,
    given: _Answers,
    absent: str | None,
    unsure: float,
) -> None:
    answer = given.of(axis.question)
    detail: dict[str, Any] = {}
    value: float | None = None
    if image.problem is not None:
        reason = image.problem
    elif answer is None:
        reason = f"{axis.question} Not answered"
    else:
        reply, probability = str(answer["answer"]), answer["probability"]
        reason = f"answered {reply!r}"
        strict = protocol == "revised"
        choice = strict_choice(axis, answer["value"]) if strict else released_choice(axis, reply)
        margin = chance_margin(probability, len(axis.choices)) if strict else None
        detail = {"read": choice is not None, "probability": probability}
        if choice is None:
            reason += f", which is none of {', '.join(axis.classes)}"
        elif strict and absent is not None:
            reason = f"{absent}; {reason}"
        elif margin is not None and margin < unsure:
            reason = f"unsure: {probability:.2f}, {reason}"
        else:
            value = choice.value
            detail["class"] = choice.name
    rows.add(image, protocol, axis.name, value, reason, detail)


def _attribute_row(
    rows: VerdictRows,
    image: ShownImage,
    protocol: str,
    study: Study,
    attribute: str,
    given: _Answers,
    absent: str | None,
    unsure: float,
) -> None:
    answer = given.of(study.attribute_text(attribute))
    detail: dict[str, Any] = {"attribute": attribute}
    value: float | None = None
    if image.problem is not None:
        reason = image.problem
    elif answer is None:
        reason = "not answered"
    elif protocol != "revised":
        reply = str(answer["answer"])
        value, reason = float(released_yes(reply)), f"answered {reply!r}"
        detail["read"] = True
    else:
        value, reason = _yes_no(answer, unsure)
        detail |= {"read": answer["value"] in ("yes", "no"), "probability": answer["probability"]}
        if absent is not None:
            value, reason = None, f"{absent}; {reason}"
    rows.add(image, protocol, ATTRIBUTE, value, reason, detail)


def _yes_no(answer: Mapping[str, Any], unsure: float) -> tuple[float | None, str]:
    """1 for yes, 0 for no, None for neither or too near to chance; and why."""
    value = {"yes": 1.0, "no": 0.0}.get(answer["value"])
    reason = f"answered {answer['answer']!r}"
    if value is None:
        return None, reason + ", which is neither yes nor no"
    margin = chance_margin(answer["probability"], 2)
    if margin is not None and margin < unsure:
        return None, f"unsure: {answer['probability']:.2f}, {reason}"
    return value, reason


# --------------------------------------------------------------------------------------------------------------- tones
def tone_rows(rows: VerdictRows, images: Sequence[ShownImage], axis: Axis, skin: pl.DataFrame) -> None:
    """Rows of ``tone``, under each protocol as ``metrics.face_tones`` reads the faces.

    Args:
        rows: they are added here.
        images: all images of the run.
        axis: the study's axis that is measured.
        skin: table ``skin_tones``.
    """
    by_image: dict[str, list[Mapping[str, Any]]] = {}
    for row in skin.iter_rows(named=True):
        by_image.setdefault(row["image_id"], []).append(row)
    for protocol in PROTOCOLS:
        for image in images:
            faces = by_image.get(image.image_id, [])
            detail: dict[str, Any] = {}
            if image.problem is not None:
                tone, reason = None, image.problem
            elif not faces:
                tone, reason = None, NOT_OBSERVED
            else:
                tone, reason = face_tone(faces, protocol)
                detail["faces"] = sum(row["face"] >= 0 for row in faces)
            if tone is not None:
                detail["class"] = str(tone)
            rows.add(image, protocol, axis.name, tone, reason, detail)
