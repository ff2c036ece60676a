"""Captioners behind a service: OpenAI's chat interface, theirs or another's.

verism run alignment --images DIR --captioner openai:gpt-4o-mini
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verism.judges.vision_endpoint import Message, VisionEndpoint, VisionOptions, kept_rows
from verism.records import CaptionNeed
from verism.services import ServiceOptions

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["OpenAICaptioner"]

_PROMPT = "Describe this picture in one short sentence."


class OpenAICaptioner:
    """Writes one sentence about each image, by asking a service with OpenAI's chat interface.

    Args:
        model: name of the model at the service, such as ``gpt-4o-mini``.
        prompt: instruction to the model. It is not part of the caption.
        max_tokens: longest caption, in tokens.
        vision: how images are shown and replies asked for; by default without probabilities.
        service: where the service is and how much it is asked.
    Raises:
        UsageError: a value out of range, or an address that is not safe.
    """

    role = CaptionNeed.role

    def __init__(
        self,
        model: str,
        *,
        prompt: str | None = None,
        max_tokens: int = 60,
        vision: VisionOptions = VisionOptions(),
        service: ServiceOptions = ServiceOptions(),
    ) -> None:
        self._prompt = prompt or _PROMPT
        self._endpoint = VisionEndpoint(
            model, role="captioner", noun="caption", max_tokens=max_tokens, logprobs=0, vision=vision, service=service
        )
        self.name = f"{self._endpoint.name} prompt={self._prompt!r}"

    def observe(self, images: Sequence[LoadedImage], need: CaptionNeed) -> pl.DataFrame:
        """One row per image, as table ``captions``; the note says why there is no caption.

        Raises:
            UsageError: no key, the service cannot be reached, or what it says concerns every request.
            MissingExtra: httpx is not installed.
        """
        from verism.records import frame

        answers = self._endpoint.ask(Message(pixels=image.pixels, text=self._prompt) for image in images)
        rows: list[dict[str, Any]] = []
        with kept_rows(need.table, rows):
            for image, answer in zip(images, answers, strict=True):
                text = None if answer.text is None else " ".join(answer.text.split())
                rows.append(
                    {"image_id": image.image_id, "judge": self.name, "text": text, "note": answer.reason or None}
                )
        return frame(need.table, rows)

    def summary(self) -> list[str]:
        """Lines after a run: what was asked, what came, why some did not, tokens and cost as far as known."""
        return self._endpoint.summary()

    def close(self) -> None:
        """End everything under way."""
        self._endpoint.close()
