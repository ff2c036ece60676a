"""Image classifiers that answer one question of yes or no: what is asked is what some of their labels say.

verism run unsafe_content --prompts FILE --images DIR --vqa "classifier:Falconsai/nsfw_image_detection?yes=nsfw"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, Batches, judge_name, pick_device, pick_dtype
from verism.judges.hub import HubOptions, identity, load_config, load_image_processor, load_model, source_name
from verism.records import AnswerNeed
from verism.specs import did_you_mean

if TYPE_CHECKING:
    import polars as pl
    import torch

    from verism.records import LoadedImage, Question

__all__ = ["ImageClassifier"]

SHOWN = 20  # labels that a message lists


class ImageClassifier:
    """A network of image classification loaded with ``transformers``; it reads no question.

    The probability of yes is the sum over the labels that mean it, of a network whose labels exclude each other
    (softmax), and the largest of them, of one whose labels do not (``multi_label_classification``: a sigmoid each).

    Args:
        id_or_path: model id on the Hugging Face Hub, or a folder with ``config.json``, weights and image processor.
        yes: labels that mean yes, as named in the model's configuration, separated by ``|``.
        threshold: lowest probability that counts as yes, 0 to 1.
        hub: which edition of the model, and how it is run.

    Raises:
        UsageError: no such model, no classifier, incomplete weights, or labels that it does not have.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = AnswerNeed.role

    def __init__(
        self, id_or_path: str, *, yes: str = "", threshold: float = 0.5, hub: HubOptions = HubOptions(batch_size=16)
    ) -> None:
        where = hub.where(id_or_path)
        transformers = require("transformers", extra=EXTRA, purpose="an image classifier from the Hugging Face hub")
        from transformers.models.auto import modeling_auto

        if not 0 <= threshold <= 1:
            raise UsageError(f"threshold must be in [0, 1], got {threshold}")
        config = load_config(id_or_path, where)
        if config.model_type not in modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES:
            raise UsageError(
                f"{id_or_path!r} is a model of type {config.model_type!r}, which does not classify images. Wanted is, "
                "for example, a ViT or a ConvNeXt with labels"
            )
        self._yes = _indices(yes, {str(label): int(i) for i, label in config.id2label.items()}, id_or_path)
        self._threshold = threshold
        self._exclusive = config.problem_type != "multi_label_classification"
        self._device, self._dtype = pick_device(hub.device), pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        auto = transformers.AutoModelForImageClassification
        self._model = load_model(auto, id_or_path, where, self._dtype, self._device)
        self._processor = load_image_processor(id_or_path, config, where)
        self.name = judge_name(
            "classifier",
            source_name(id_or_path),
            identity(self._model, id_or_path),
            yes=yes,
            threshold=f"{threshold:g}",
            dtype=hub.named_dtype,
        )

    def check(self, need: AnswerNeed) -> None:
        """Refuse a need of more than one question, or of one that is not of yes or no.

        Raises:
            UsageError: another need, several questions, or one with other choices.
        """
        if not isinstance(need, AnswerNeed):
            raise UsageError(f"{self.name} answers a question; it cannot serve a need of {type(need).__name__}")
        questions = {question for asked in need.questions.values() for question in asked}
        if len({question.text for question in questions}) > 1:
            raise UsageError(
                f"{self.name} gives one answer to whatever is asked, and here are "
                f"{len({question.text for question in questions}):,} questions; use a judge that reads them"
            )
        if other := next((q for q in questions if not _of_yes_or_no(q)), None):
            raise UsageError(
                f"{self.name} answers yes or no; {other.text!r} has the choices {', '.join(other.choices)}"
            )

    def observe(self, images: Sequence[LoadedImage], need: AnswerNeed) -> pl.DataFrame:
        """One row per image, as table ``answers``: yes or no, and the probability of yes.

        An image about which nothing is asked has one row without a question.

        Args:
            images: images of any sizes.
            need: of one question at most.
        """
        from verism.records import frame

        self.check(need)
        asked = [image for image in images if need.questions.get(image.prompt_id)]
        found = self._batches.run(asked, self._prepare, self._step)
        probabilities = {image.image_id: value for image, value in zip(asked, found, strict=True)}
        rows: list[dict[str, Any]] = []
        for image in images:
            row: dict[str, Any] = {"image_id": image.image_id, "judge": self.name}
            if image.image_id in probabilities:
                # Weights that overflow give NaN, which is no answer.
                probability = probabilities[image.image_id]
                known = bool(np.isfinite(probability))
                answer = ("yes" if probability >= self._threshold else "no") if known else None
                row |= {"question": need.questions[image.prompt_id][0].text, "answer": answer, "value": answer}
                row |= {"probability": probability} if known else {"note": "the network gives no number"}
            rows.append(row)
        return frame(need.table, rows)

    def _prepare(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        from PIL import Image

        shown = Image.fromarray(np.ascontiguousarray(image.pixels))
        return {"pixel_values": self._processor(images=[shown], return_tensors="pt")["pixel_values"][0]}

    def _step(self, _: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[float]:
        logits = self._model(pixel_values=inputs["pixel_values"].to(self._dtype)).logits.double()
        if self._exclusive:
            chosen = logits.softmax(-1)[:, self._yes].sum(-1).clamp(max=1.0)
        else:
            chosen = logits.sigmoid()[:, self._yes].amax(-1)
        return [float(value) for value in chosen.cpu()]


def _indices(yes: str, labels: Mapping[str, int], source: str) -> list[int]:
    """Places of the labels that mean yes."""
    names = [name.strip() for name in yes.split("|") if name.strip()]
    listed = ", ".join(list(labels)[:SHOWN]) + (" ..." if len(labels) > SHOWN else "")
    if not names:
        raise UsageError(f"classifier:{source} needs the labels that mean yes: ?yes=LABEL or ?yes=A|B; it has {listed}")
    for name in names:
        if name not in labels:
            raise UsageError(f"classifier:{source} has no label {name!r}; it has {listed}.{did_you_mean(name, labels)}")
    return sorted({labels[name] for name in names})


def _of_yes_or_no(question: Question) -> bool:
    return not question.choices or {choice.lower() for choice in question.choices} == {"yes", "no"}
