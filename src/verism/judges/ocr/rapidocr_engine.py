"""RapidOCR: PaddleOCR's networks as ONNX files that the package brings (Apache-2.0); no GPU, no torchvision.

verism run text_rendering --images DIR --ocr rapidocr
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from verism.errors import UsageError, require
from verism.judges.batching import check_choice, content_id
from verism.judges.ocr.readings import FoundLine, image_row, in_reading_order, line_rows
from verism.records import OcrNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["RapidOcr"]

Order = Literal["top", "engine"]


class RapidOcr:
    """Reads images with the package ``rapidocr``: every line with its box and confidence.

    Its networks read Latin letters, digits, Chinese and Japanese. Nothing is downloaded: without the files that the
    package brings it is refused.

    Args:
        min_score: lowest confidence of a kept line, in [0, 1].
        order: order of the lines. ``top``: from top to bottom, and from left to right within a row. ``engine``: as the
            engine returns them.
        threads: CPU threads; None: the library decides.

    Raises:
        UsageError: a value out of range, or a package without its networks.
        MissingExtra: ``rapidocr`` is not installed.
    """

    role = OcrNeed.role

    def __init__(self, *, min_score: float = 0.5, order: Order = "top", threads: int | None = None) -> None:
        check_choice("order", order, ("top", "engine"))
        if not 0 <= min_score <= 1:
            raise UsageError(f"rapidocr: min_score lies in [0, 1], not {min_score}")
        package = require("rapidocr", extra="ocr", purpose="the OCR engine rapidocr")
        folder = Path(str(package.__file__)).parent / "models"
        models = sorted(folder.glob("*.onnx"))
        if not models:
            raise UsageError(f"{folder}: rapidocr's networks are gone; install the package again (3.9 or later)")
        logging.getLogger("RapidOCR").setLevel(logging.WARNING)
        params: dict[str, Any] = {"Global.text_score": min_score, "Global.log_level": "warning"}
        if threads:
            params["EngineConfig.onnxruntime.intra_op_num_threads"] = threads
        self._engine = package.RapidOCR(params=params)
        self._order = order
        identity = "+".join(content_id(model)[:4] for model in models)
        self.name = f"rapidocr-{metadata.version('rapidocr')}@{identity} min_score={min_score:g} order={order}"

    def observe(self, images: Sequence[LoadedImage], need: OcrNeed) -> pl.DataFrame:
        """Rows of table ``readings``: image and lines."""
        from verism.records import frame

        rows: list[dict[str, Any]] = []
        for image in images:
            try:
                result = self._engine(np.ascontiguousarray(image.pixels[:, :, ::-1]))  # which wants BGR
            except Exception as err:  # a foreign library can fail in any way, and the next image may do
                rows.append(image_row(image.image_id, self.name, None, f"rapidocr: {type(err).__name__}: {err}"[:300]))
                continue
            rows += line_rows(image.image_id, self.name, self._lines(result))
        return frame(need.table, rows)

    def _lines(self, result: Any) -> list[FoundLine]:
        if result.txts is None or result.boxes is None:
            return []
        lines = []
        for text, score, quad in zip(result.txts, result.scores, result.boxes, strict=True):
            corners = np.asarray(quad, dtype=np.float64)
            (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
            box = (float(x0), float(y0), float(x1), float(y1))
            lines.append(FoundLine(text=text, score=min(1.0, max(0.0, float(score))), box=box))
        return in_reading_order(lines) if self._order == "top" else lines
