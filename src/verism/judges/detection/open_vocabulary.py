"""Detectors that find any class by its name: OWLv2, OWL-ViT, Grounding DINO and MM Grounding DINO.

For suites whose classes no fixed label set has::

    verism run paintskills --images DIR --detector open-vocabulary:google/owlv2-base-patch16-ensemble

OWL models score every query against every class independently. Grounding DINO reads all classes in one sentence,
``person. traffic light.``, and scores every query against every word; a class counts as its best word. Where the
sentence would be longer than the model reads, the classes are spread over several sentences, each with queries of its
own: a query then knows only the classes of its sentence, and those of the others score 0.

Scores of such models are not probabilities over classes and depend on the wording; the released PaintSkills rules were
not made for them. Thresholds belong to the rules, but the thousands of queries that saw nothing are left out
(``min_score``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, Batches, judge_name, pick_device, pick_dtype
from verism.judges.detection.boxes import ImageBoxes, corners, detection_table
from verism.judges.detection.names import spaced
from verism.judges.hub import HubOptions, identity, load_config, load_image_processor, load_model, source_name
from verism.options import Spelling
from verism.records import DetectionNeed

if TYPE_CHECKING:
    import polars as pl
    import torch

    from verism.records import LoadedImage

__all__ = ["OpenVocabularyDetector", "Sentence", "sentences"]

_OWL = ("owlv2", "owlvit")
_GROUNDED = ("grounding-dino", "mm-grounding-dino")


class OpenVocabularyDetector:
    """A detector that finds classes by their names, loaded with ``transformers``.

    Args:
        id_or_path: model id on the Hugging Face Hub, or a folder with model, tokenizer and
            ``preprocessor_config.json``.
        template: query for a class, with ``{}`` for its name. Default, as trained: ``a photo of a {}`` for OWL models,
            ``{}`` for Grounding DINO.
        phrases: name to query for an ambiguous class of the suite: ``phrase.train=railway train``.
        min_score: lowest confidence of a kept box, in [0, 1].
        hub: which edition of the model, and how it is run.
    Raises:
        UsageError: no such model, a model of another kind, or a template without ``{}``.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = DetectionNeed.role

    def __init__(
        self,
        id_or_path: str,
        *,
        template: str | None = None,
        phrases: Annotated[Mapping[str, str] | None, Spelling("phrase")] = None,
        min_score: float = 0.05,
        hub: HubOptions = HubOptions(),
    ) -> None:
        where = hub.where(id_or_path)
        transformers = require("transformers", extra=EXTRA, purpose="an open-vocabulary detector")
        self._device = pick_device(hub.device)
        self._dtype = pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        self._min_score = min_score
        self._phrases = dict(phrases or {})

        config = load_config(id_or_path, where)
        if config.model_type not in _OWL + _GROUNDED:
            raise UsageError(
                f"{id_or_path!r} is a model of type {config.model_type!r}; open-vocabulary detection works with "
                f"{', '.join(_OWL + _GROUNDED)}. Detectors with a fixed set of classes load as transformers:ID_OR_PATH."
            )
        grounded = config.model_type in _GROUNDED
        self._template = template or ("{}" if grounded else "a photo of a {}")
        if self._template.count("{}") != 1:
            raise UsageError(f"template must contain {{}} once, where the class name goes, but is {template!r}")
        self._processor = load_image_processor(id_or_path, config, where)
        tokenizer = transformers.AutoTokenizer.from_pretrained(id_or_path, **where)
        loader = transformers.AutoModelForZeroShotObjectDetection
        model = load_model(loader, id_or_path, where, self._dtype, self._device)
        # OWLv2 pads an image to a square at its lower right; the others stretch it, or pad nothing.
        self._square = config.model_type == "owlv2" and bool(getattr(self._processor, "do_pad", True))
        self._family: _Family = (_Grounded if grounded else _Owl)(model, tokenizer)
        self.name = judge_name(
            "open-vocabulary",
            source_name(id_or_path),
            identity(model, id_or_path),
            template=repr(self._template),
            phrases=",".join(f"{a}={b}" for a, b in sorted(self._phrases.items())) or None,
            dtype=hub.named_dtype,
            min_score=min_score,
        )

    def check(self, need: DetectionNeed) -> None:
        """Raise UsageError if a class name is longer than the model reads, or two are asked for in the same words."""
        self._scorer(need)

    def _scorer(self, need: DetectionNeed) -> tuple[list[str], _Scorer]:
        """The words that are asked for, and what scores them."""
        if not need.classes:
            raise UsageError("an open-vocabulary detector needs at least one class to look for")
        names = [self._phrases.get(name, spaced(name)) for name in need.classes]
        if shared := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(
                f"several classes would be asked for in the same words: {shared}; tell them apart by phrases"
            )
        return names, self._family.scorer(names, self._template)

    def observe(self, images: Sequence[LoadedImage], need: DetectionNeed) -> pl.DataFrame:
        """Boxes of the need's classes, as table ``detections``; colours are not judged.

        Raises:
            UsageError: as ``check``.
        """
        names, score = self._scorer(need)

        def step(images: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[ImageBoxes]:
            inputs = {**inputs, "pixel_values": inputs["pixel_values"].to(self._dtype)}
            scores, shares = score(inputs)
            results = []
            for i, image in enumerate(images):
                height, width = image.pixels.shape[:2]
                # Only boxes that will be reported are worth a row here: OWLv2 has thousands of queries.
                queries = np.flatnonzero(scores[i].max(axis=1) >= self._min_score)
                side = max(width, height)
                scale = (side, side) if self._square else (width, height)
                boxes = corners(shares[i][queries], width=scale[0], height=scale[1])
                # What lies wholly in the padding is not in the image.
                inside = np.flatnonzero((boxes[:, :2] < (width, height)).all(axis=1) & (boxes[:, 2:] > 0).all(axis=1))
                queries, boxes = queries[inside], boxes[inside]
                of_image = scores[i][queries]
                best = of_image.argmax(axis=1)
                results.append(
                    ImageBoxes(
                        image_id=image.image_id,
                        width=width,
                        height=height,
                        boxes=boxes,
                        class_scores=of_image,
                        labels=best,
                        raw_labels=[names[int(k)] for k in best],
                        scores=of_image.max(axis=1),
                        queries=queries,
                    )
                )
            return results

        boxes_of_images = self._batches.run(images, self._inputs, step)
        return detection_table(boxes_of_images, judge=self.name, need=need)

    def _inputs(self, image: LoadedImage) -> Mapping[str, torch.Tensor]:
        from PIL import Image

        batch = self._processor(images=[Image.fromarray(np.ascontiguousarray(image.pixels))], return_tensors="pt")
        names = ("pixel_values", "pixel_mask") if self._family.accepts_mask else ("pixel_values",)
        return {name: batch[name][0] for name in names if name in batch}


class _Scorer(Protocol):
    """Scores (B, Q, K) and boxes (B, Q, 4; centre and size in shares) of a batch of network inputs, as NumPy arrays."""

    def __call__(self, inputs: Mapping[str, torch.Tensor], /) -> tuple[np.ndarray, np.ndarray]: ...


class _Family(Protocol):
    accepts_mask: bool

    def scorer(self, names: Sequence[str], template: str) -> _Scorer: ...


class _Owl:
    """OWL-ViT and OWLv2: every query against every text, each by its own sigmoid."""

    accepts_mask = False

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._tokenizer = tokenizer

    def scorer(self, names: Sequence[str], template: str) -> _Scorer:
        limit = int(self._model.config.text_config.max_position_embeddings)
        texts = [template.format(name) for name in names]
        lengths = [len(ids) for ids in self._tokenizer(texts)["input_ids"]]
        if too_long := [text for text, length in zip(texts, lengths, strict=True) if length > limit]:
            raise UsageError(
                f"the model reads {limit} tokens; these texts are longer: {too_long}. Shorten them by phrases."
            )
        tokens = self._tokenizer(texts, padding="max_length", max_length=limit, return_tensors="pt")
        ids, mask = tokens["input_ids"], tokens["attention_mask"]

        def score(inputs: Mapping[str, torch.Tensor], /) -> tuple[np.ndarray, np.ndarray]:
            pixels = inputs["pixel_values"]
            n = len(pixels)
            # The model wants the texts once per image of the batch.
            output = self._model(
                input_ids=ids.repeat(n, 1).to(pixels.device),
                attention_mask=mask.repeat(n, 1).to(pixels.device),
                pixel_values=pixels,
            )
            return output.logits.float().sigmoid().cpu().numpy(), output.pred_boxes.float().cpu().numpy()

        return score


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One prompt of Grounding DINO.

    Attributes:
        ids: its tokens, with the opening and closing ones.
        spans: by number of the class, the positions of the tokens of its name.
    """

    ids: tuple[int, ...]
    spans: Mapping[int, range]


def sentences(names: Sequence[str], template: str, tokenizer: Any, *, max_tokens: int) -> list[Sentence]:
    """The classes as prompts ``a. b. c.`` of at most ``max_tokens`` tokens, and where each class stands in them.

    Raises:
        UsageError: a single class is longer than a prompt may be.
    """

    def tokens(text: str) -> list[int]:
        # Lower case and no full stop inside: a full stop ends a phrase for the model.
        return list(tokenizer(text.lower().replace(".", " "), add_special_tokens=False)["input_ids"])

    before, after = (tokens(part) for part in template.split("{}"))
    opening, closing, stop = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.convert_tokens_to_ids(".")
    results: list[Sentence] = []
    ids: list[int] = [opening]
    spans: dict[int, range] = {}
    for number, name in enumerate(names):
        subset = tokens(name)
        phrase = [*before, *subset, *after, stop]
        if not subset or len(phrase) + 2 > max_tokens:
            raise UsageError(
                f"cannot ask for {name!r}: it takes {len(phrase) + 2} tokens with opening and closing, and the model "
                f"reads between 4 and {max_tokens}. Give it other words with phrases={{{name!r}: ...}}."
            )
        if len(ids) + len(phrase) + 1 > max_tokens:
            results.append(Sentence(ids=(*ids, closing), spans=spans))
            ids, spans = [opening], {}
        start = len(ids) + len(before)
        spans[number] = range(start, start + len(subset))
        ids += phrase
    results.append(Sentence(ids=(*ids, closing), spans=spans))
    return results


class _Grounded:
    """Grounding DINO: every query against every token of a sentence."""

    accepts_mask = True

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._tokenizer = tokenizer

    def scorer(self, names: Sequence[str], template: str) -> _Scorer:
        import torch

        prompts = sentences(names, template, self._tokenizer, max_tokens=int(self._model.config.max_text_len))

        def score(inputs: Mapping[str, torch.Tensor], /) -> tuple[np.ndarray, np.ndarray]:
            pixels = inputs["pixel_values"]
            all_scores, all_boxes = [], []
            for prompt in prompts:
                ids = torch.tensor(prompt.ids, device=pixels.device).repeat(len(pixels), 1)
                output = self._model(
                    **inputs,
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    token_type_ids=torch.zeros_like(ids),
                )
                of_token = output.logits.float().sigmoid().cpu().numpy()
                scores = np.zeros((*of_token.shape[:2], len(names)), dtype=np.float32)
                for number, span in prompt.spans.items():
                    scores[..., number] = of_token[..., span.start : span.stop].max(axis=2)
                all_scores.append(scores)
                all_boxes.append(output.pred_boxes.float().cpu().numpy())
            return np.concatenate(all_scores, axis=1), np.concatenate(all_boxes, axis=1)

        return score
