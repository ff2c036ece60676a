"""Captioners from the Hugging Face hub or a local folder.

BLIP, BLIP-2, InstructBLIP, GIT, ViT-GPT2 and other encoder-decoders, and chat models such as LLaVA and Qwen-VL::

    verism run alignment --images DIR --captioner transformers:Salesforce/blip-image-captioning-large
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.judges.batching import judge_name
from verism.judges.hub import HubOptions
from verism.judges.vision_language import Ask, VisionLanguageModel, check_count
from verism.records import CaptionNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["TransformersCaptioner"]

# Most captioners write unasked. InstructBLIP was trained with this request, and a chat model has to be asked.
_PROMPTS = {"instructblip": "A short image caption:"}
_CHAT_PROMPT = "Describe this picture in one short sentence."


class TransformersCaptioner:
    """Writes one sentence about each image, with a model loaded by ``transformers``.

    Args:
        id_or_path: model id on the Hugging Face Hub, or a folder with model, image processor and tokenizer.
        prompt: text input of the model: a beginning to continue (``a photo of``), a task word (``caption:``) or an
            instruction. It is not part of the caption. Default: an instruction for InstructBLIP and chat models, else
            none.
        beams: beams of the beam search. The default is that of DALL-Eval's released alignment evaluation (VL-T5).
        max_new_tokens: longest caption, in tokens. The default is that of DALL-Eval's released alignment evaluation.
        hub: which edition of the model, and how it is run.
    Raises:
        UsageError: no such model, no captioner, incomplete weights, or a prompt for a model that reads none.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    Source: Cho et al. 2022, arXiv:2202.04053v1, Sec. 4.2, and its released captioning code.
    """

    role = CaptionNeed.role

    def __init__(
        self,
        id_or_path: str,
        *,
        prompt: str | None = None,
        beams: int = 5,
        max_new_tokens: int = 20,
        hub: HubOptions = HubOptions(),
    ) -> None:
        self._beams = check_count("beams", beams)
        self._length = check_count("max_new_tokens", max_new_tokens)
        self._model = VisionLanguageModel(id_or_path, task="captions", hub=hub)
        if prompt and self._model.family == "vision-encoder-decoder":
            raise UsageError(f"{id_or_path!r} is an encoder-decoder that reads no text; leave prompt={prompt!r} out")
        usual = _CHAT_PROMPT if self._model.chat else _PROMPTS.get(self._model.family, "")
        self._prompt = usual if prompt is None else prompt
        self.name = judge_name(
            "transformers",
            self._model.source,
            self._model.identity,
            prompt=repr(self._prompt) if self._prompt else None,
            beams=beams,
            max_new_tokens=max_new_tokens,
            dtype=hub.named_dtype,
        )

    def observe(self, images: Sequence[LoadedImage], need: CaptionNeed) -> pl.DataFrame:
        """One row per image, as table ``captions``."""
        from verism.records import frame

        replies = self._model.replies(
            images, lambda _: (Ask(self._prompt),), beams=self._beams, max_new_tokens=self._length
        )
        rows: list[dict[str, Any]] = []
        for image, (reply,) in zip(images, replies, strict=True):
            text = " ".join(reply.text.split())
            note = None if text else "the captioner wrote nothing"
            rows.append({"image_id": image.image_id, "judge": self.name, "text": text or None, "note": note})
        return frame(need.table, rows)
