"""Texts read elsewhere: a table of images and what stands in them.

verism run text_rendering --images DIR --ocr results:readings.jsonl
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.files import read_rows
from verism.judges.batching import content_id
from verism.judges.ocr.readings import image_row
from verism.judges.result_files import ImageNames, image_name, results_name
from verism.records import OcrNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["OcrResults"]

TEXT_COLUMNS = ("text", "ocr", "ocr_text", "ocr_result", "texts")


class OcrResults:
    """The texts of a file, as if its engine looked at the images now.

    Args:
        path: CSV, JSON Lines or JSON list with ``image_id`` (or ``prompt_id``) and ``text``: text with line breaks, or
            a list of lines. An empty text means that the image has none; null, or a missing row in CSV, means no
            answer.
        judge: name and version of who judged. Runs whose files declare the same judge can be compared. Default: not
            known, and the file's content stands for it.

    Raises:
        UsageError: no such file, another format, an entry without image or text, or an image named twice.
    """

    role = OcrNeed.role

    def __init__(self, path: Path, *, judge: str = "") -> None:
        self._texts: dict[str, str | None] = {}
        for row in read_rows(path, "image_id and text of every image"):
            name = image_name(row, ("image_id", "prompt_id", "image", "file_name"), row.where)
            if name in self._texts:
                raise UsageError(f"{row.where}: a second text for {name}; give one per image")
            self._texts[name] = _text(row, row.where)
        if not self._texts:
            raise UsageError(f"{path} holds no texts")
        self._names = ImageNames(self._texts)
        self._used: set[str] = set()
        self._missing = 0
        self._path = path
        self.name = results_name(path, content_id(path), judge=judge)

    def observe(self, images: Sequence[LoadedImage], need: OcrNeed) -> pl.DataFrame:
        """One row per image, as table ``readings``; without a text where the file has none."""
        from verism.records import frame

        rows: list[dict[str, Any]] = []
        for image in images:
            name = self._names.find(image)
            if name is None:
                self._missing += 1
                note = f"{self._path.name} has no text of this image"
                rows.append(image_row(image.image_id, self.name, None, note))
                continue
            self._used.add(name)
            text = self._texts[name]
            rows.append(image_row(image.image_id, self.name, text, "the text is null" if text is None else None))
        return frame(need.table, rows)

    def summary(self) -> Sequence[str]:
        """After a run: texts that belong to no image seen, and images without one."""
        if not (self._used or self._missing):  # a resumed run asked nothing anew
            return []
        lines = []
        if spare := len(self._texts) - len(self._used):
            lines.append(f"{self._path.name}: {spare:,} of {len(self._texts):,} texts belong to no image seen")
        if self._missing:
            lines.append(f"{self._path.name}: no text for {self._missing:,} images")
        return lines


def _text(row: Mapping[str, Any], where: str) -> str | None:
    column = next((name for name in TEXT_COLUMNS if name in row), None)
    if column is None:
        raise UsageError(f"{where}: expected a text; it has {sorted(row, key=str)}")
    value = row[column]
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{where}: {column} must be a text or a list of lines, got {value!r}")
    return None if value is None else "\n".join(line.strip() for line in value.splitlines() if line.strip())
