"""Models behind a service that read the text of images: OpenAI's chat interface, theirs or another's.

verism run text_rendering --images DIR --ocr openai:gpt-4o-mini
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verism.judges.ocr.instructions import text_of_reply, wording_of
from verism.judges.ocr.readings import image_row
from verism.judges.vision_endpoint import Message, VisionEndpoint, VisionOptions, kept_rows
from verism.records import OcrNeed
from verism.services import ServiceOptions

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["OpenAIOcr"]


class OpenAIOcr:
    """Reads the text of images by asking a service with OpenAI's chat interface.

    Args:
        model: name of the model at the service, such as ``gpt-4o-mini``.
        prompt: instruction to the model. Default: the suite's, else verism's.
        max_tokens: longest reply, in tokens.
        vision: how images are shown and replies asked for; by default without probabilities.
        service: where the service is and how much it is asked.

    Raises:
        UsageError: a value out of range, or an address that is not safe.
    """

    role = OcrNeed.role

    def __init__(
        self,
        model: str,
        *,
        prompt: str | None = None,
        max_tokens: int = 1024,
        vision: VisionOptions = VisionOptions(),
        service: ServiceOptions = ServiceOptions(),
    ) -> None:
        self._prompt = prompt
        self._endpoint = VisionEndpoint(
            model, role="OCR", noun="text", max_tokens=max_tokens, logprobs=0, vision=vision, service=service
        )
        self.name = self._endpoint.name + (f" prompt={prompt!r}" if prompt else "")

    def observe(self, images: Sequence[LoadedImage], need: OcrNeed) -> pl.DataFrame:
        """One row per image, as table ``readings``; the note says why there is no text.

        Raises:
            UsageError: no key, the service cannot be reached, or what it says concerns every request.
            MissingExtra: httpx is not installed.
        """
        from verism.records import frame

        wording = wording_of(self._prompt, need.instruction)
        answers = self._endpoint.ask(Message(pixels=image.pixels, text=wording) for image in images)
        rows: list[dict[str, Any]] = []
        with kept_rows(need.table, rows):
            for image, answer in zip(images, answers, strict=True):
                text = None if answer.text is None else text_of_reply(answer.text, wording)
                rows.append(image_row(image.image_id, self.name, text, answer.reason or None))
        return frame(need.table, rows)

    def summary(self) -> list[str]:
        """Lines after a run: what was asked, what came, why some did not, tokens and cost as far as known."""
        return self._endpoint.summary()

    def close(self) -> None:
        """End everything under way."""
        self._endpoint.close()
