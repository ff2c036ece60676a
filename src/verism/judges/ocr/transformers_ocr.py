"""OCR models from the Hugging Face hub or a local folder: TrOCR, and vision-language models that are asked to read.

verism run text_rendering --images DIR --ocr transformers:Qwen/Qwen2.5-VL-7B-Instruct
verism run text_rendering --images DIR --ocr "transformers:microsoft/trocr-base-printed?lines=rapidocr"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from verism.errors import UsageError
from verism.judges.batching import check_choice, judge_name
from verism.judges.hub import HubOptions
from verism.judges.ocr.instructions import text_of_reply, wording_of
from verism.judges.ocr.readings import FoundLine, image_row, line_rows
from verism.judges.vision_language import Ask, VisionLanguageModel, check_count
from verism.records import OcrNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["TransformersOcr"]

Lines = Literal["none", "tesseract", "rapidocr"]
AROUND = 0.15  # of a line's height that is cut out around it


class TransformersOcr:
    """Reads images with a model loaded by ``transformers``.

    Args:
        id_or_path: model id on the Hugging Face Hub, or a folder with model, image processor and tokenizer.
        prompt: instruction to the model, if it takes any. Default: the suite's, else verism's.
        lines: engine that finds the lines for the model to read one by one: ``tesseract`` or ``rapidocr``; ``none``:
            the model reads the whole image. TrOCR reads single lines only.
        beams: beams of the beam search; 1: greedy decoding.
        max_new_tokens: longest reply, in tokens.
        hub: which edition of the model, and how it is run.

    Raises:
        UsageError: no such model, one that writes no text, incomplete weights, or a prompt for a model that reads none.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = OcrNeed.role

    def __init__(
        self,
        id_or_path: str,
        *,
        prompt: str | None = None,
        lines: Lines = "none",
        beams: int = 1,
        max_new_tokens: int = 1024,
        hub: HubOptions = HubOptions(),
    ) -> None:
        check_choice("lines", lines, ("none", "tesseract", "rapidocr"))
        self._beams, self._length = check_count("beams", beams), check_count("max_new_tokens", max_new_tokens)
        self._model = VisionLanguageModel(id_or_path, task="texts", hub=hub)
        self._silent = self._model.family == "vision-encoder-decoder"
        if prompt and self._silent:
            raise UsageError(f"{id_or_path!r} is an encoder-decoder that reads no text; leave prompt={prompt!r} out")
        self._prompt, self._finder = prompt, _finder(lines)
        self.name = judge_name(
            "transformers",
            self._model.source,
            self._model.identity,
            prompt=repr(prompt) if prompt else None,
            lines=None if self._finder is None else f"({self._finder.name})",
            beams=beams,
            max_new_tokens=max_new_tokens,
            dtype=hub.named_dtype,
        )

    def check(self, need: OcrNeed) -> None:
        """Raise UsageError if whoever finds the lines cannot fill the need."""
        getattr(self._finder, "check", lambda _: None)(need)

    def observe(self, images: Sequence[LoadedImage], need: OcrNeed) -> pl.DataFrame:
        """Rows of table ``readings``: the image, and its lines where they were found first."""
        from verism.records import frame

        wording = "" if self._silent else wording_of(self._prompt, need.instruction)
        rows: list[dict[str, Any]] = []
        if self._finder is None:
            for image, text in zip(images, self._read(images, wording), strict=True):
                rows.append(image_row(image.image_id, self.name, text))
            return frame(need.table, rows)
        found = _found_lines(self._finder.observe(images, need))
        cut = [_cut(image, line) for image in images for line in found[image.image_id] or ()]
        texts = iter(self._read(cut, wording))
        for image in images:
            lines = found[image.image_id]
            if lines is None:
                rows.append(image_row(image.image_id, self.name, None, f"{self._finder.name} gave no lines"))
                continue
            read = [replace(line, text=next(texts), score=None) for line in lines]
            rows += line_rows(image.image_id, self.name, read)
        return frame(need.table, rows)

    def _read(self, images: Sequence[LoadedImage], wording: str) -> list[str]:
        replies = self._model.replies(images, lambda _: (Ask(wording),), beams=self._beams, max_new_tokens=self._length)
        return [text_of_reply(reply.text, wording) for (reply,) in replies]


def _finder(lines: Lines) -> Any:
    if lines == "tesseract":
        from verism.judges.ocr.tesseract import Tesseract

        return Tesseract()
    if lines == "rapidocr":
        from verism.judges.ocr.rapidocr_engine import RapidOcr

        return RapidOcr(min_score=0.0)
    return None


def _found_lines(readings: pl.DataFrame) -> dict[str, list[FoundLine] | None]:
    """Lines with boxes by image; None where the engine has no answer."""
    import polars as pl

    found: dict[str, list[FoundLine] | None] = {}
    for image_id, text in readings.filter(pl.col("level") == "image").select("image_id", "text").iter_rows():
        found[image_id] = None if text is None else []
    columns = ("image_id", "text", "x0", "y0", "x1", "y1")
    for image_id, text, x0, y0, x1, y1 in (
        readings.filter(pl.col("level") == "line").sort("image_id", "line").select(columns).iter_rows()
    ):
        lines = found[image_id]
        assert lines is not None
        lines.append(FoundLine(text=text, box=(x0, y0, x1, y1)))
    return found


def _cut(image: LoadedImage, line: FoundLine) -> LoadedImage:
    """The part of an image that a line stands in, with a little around it."""
    assert line.box is not None
    x0, y0, x1, y1 = line.box
    height, width = image.pixels.shape[:2]
    more = AROUND * (y1 - y0)
    left, right = max(0, int(x0 - more)), min(width, int(np.ceil(x1 + more)))
    top, bottom = max(0, int(y0 - more)), min(height, int(np.ceil(y1 + more)))
    pixels = image.pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
    return replace(image, pixels=np.ascontiguousarray(pixels))
