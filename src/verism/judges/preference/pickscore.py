"""PickScore: a CLIP tuned on Pick-a-Pic's choices; the score is exp(scale) times the cosine of image and text.

verism run preference --images A --images-b B --prompts P.csv --scorer pickscore:yuvalkirstain/PickScore_v1
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, Batches, judge_name, pick_device, pick_dtype
from verism.judges.hub import (
    HubOptions,
    WholeImage,
    identity,
    load_config,
    load_image_processor,
    load_model,
    source_name,
)
from verism.judges.preference.scoring import Judged, ModelScorer, TextTokens, load_tokenizer

if TYPE_CHECKING:
    import torch

    from verism.records import LoadedImage

__all__ = ["PickScore", "pooled", "unit"]

PROCESSOR = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K"  # whose preparation the published scores have


class PickScore(ModelScorer):
    """Scores of about 20 to 23 for the published weights.

    Images are prepared with Pillow: the shorter side to 224 pixels, bicubic, the middle cut out, CLIP's mean and
    deviation, as the processor's settings say. The published scores were made in the same way.

    Args:
        id_or_path: CLIP model: model id on the Hugging Face Hub, or a folder with ``config.json`` and weights.
        processor: image processor and tokenizer: model id on the Hugging Face Hub, or a folder. Default: those beside
            the weights if there are any, else those of the published scores, LAION's ViT-H-14.
        hub: which edition of the model, and how it is run.

    Raises:
        UsageError: no such model, no CLIP, incomplete weights, or no processor or tokenizer.
        MissingExtra: ``torch`` or ``transformers`` is not installed.

    Source: Kirstain et al. 2023, arXiv:2305.01569, Sec. 4.
    """

    def __init__(self, id_or_path: str, *, processor: str = "", hub: HubOptions = HubOptions(batch_size=16)) -> None:
        where = hub.where(id_or_path)
        transformers = require("transformers", extra=EXTRA, purpose="PickScore")
        self._device = pick_device(hub.device)
        self._dtype = pick_dtype(hub.dtype)
        self._batches = Batches(hub.batch_size, self._device)
        config = load_config(id_or_path, where)
        if config.model_type != "clip":
            raise UsageError(f"pickscore: {id_or_path!r} is a model of type {config.model_type!r}, not a CLIP")
        self._model = load_model(transformers.CLIPModel, id_or_path, where, self._dtype, self._device)
        beside = (Path(id_or_path) / "preprocessor_config.json").is_file()
        source = processor or (id_or_path if beside else PROCESSOR)
        elsewhere = where if source == id_or_path else {**where, "revision": None}
        self._images = WholeImage(
            load_image_processor(source, load_config(source, elsewhere) if not beside else config, elsewhere),
            squash=False,
        )
        self._texts = TextTokens(load_tokenizer(source, elsewhere), int(config.text_config.max_position_embeddings))
        self._scale = float(self._model.logit_scale.detach().float().exp())
        self.name = judge_name(
            "pickscore",
            source_name(id_or_path),
            identity(self._model, id_or_path),
            processor=None if source in (id_or_path, PROCESSOR) else source_name(source),
            dtype=hub.named_dtype,
        )

    def judge_pairs(self, images: Sequence[LoadedImage], texts: Sequence[str]) -> Sequence[Judged]:
        """exp(scale) x cosine of each image and its text; a text that is there twice is read once.

        Args:
            images: N images.
            texts: the text of each.
        """
        distinct = list(dict.fromkeys(texts))
        of_texts = dict(zip(distinct, self._batches.run(distinct, self._texts, self._text_step), strict=True))
        of_images = self._batches.run(images, lambda image: self._images.prepare(image.pixels), self._image_step)
        return [
            Judged(self._scale * float(vector @ of_texts[text])) for vector, text in zip(of_images, texts, strict=True)
        ]

    def _image_step(self, _: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return unit(self._model.get_image_features(pixel_values=inputs["pixel_values"].to(self._dtype)))

    def _text_step(self, _: Sequence[str], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return unit(self._model.get_text_features(**inputs))


def pooled(output: Any) -> torch.Tensor:
    """The projected vectors, from a tensor or from the record that recent versions of ``transformers`` give.

    Args:
        output: of ``get_image_features`` or ``get_text_features``.
    """
    vectors: torch.Tensor = getattr(output, "pooler_output", output)
    return vectors


def unit(output: Any) -> list[torch.Tensor]:
    """Vectors of length 1, float32, on the processor, one for each row of a batch.

    Args:
        output: of ``get_image_features`` or ``get_text_features``.
    """
    vectors = pooled(output).float()
    return list((vectors / vectors.norm(dim=-1, keepdim=True)).cpu())
