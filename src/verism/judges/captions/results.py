"""Captions made elsewhere, in COCO's results format: ``[{"image_id": 391895, "caption": "a dog on a bed"}, ...]``.

For captioners that no library loads any more, such as the VL-T5 of DALL-Eval::

    verism run alignment --images DIR --captioner results:vlt5_captions.json
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.files import read_rows
from verism.judges.batching import content_id
from verism.judges.result_files import ImageNames, image_name, results_name
from verism.records import CaptionNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["CaptionResults"]


class CaptionResults:
    """The sentences of a results file, as if its captioner looked at the images now.

    Args:
        path: JSON list, JSON Lines or CSV with ``image_id`` and ``caption``. ``image_id`` is an image's id, its
            prompt's id, its file name, or COCO's number.
        judge: name and version of who judged. Runs whose files declare the same judge can be compared. Default: not
            known, and the file's content stands for it.
    Raises:
        UsageError: no such file, another format, an entry without image or caption, or an image named twice.
    """

    role = CaptionNeed.role

    def __init__(self, path: Path, *, judge: str = "") -> None:
        rows = read_rows(path, "image_id and caption of every image")
        self._captions: dict[str, str] = {}
        for row in rows:
            where = row.where
            name = image_name(row, ("image_id",), where)
            caption = row.get("caption")
            if not isinstance(caption, str):
                raise UsageError(f"{where}: expected a caption in words for image_id {name}, got {caption!r}")
            if name in self._captions:
                raise UsageError(f"{where}: a second caption for image_id {name}; give one per image")
            self._captions[name] = " ".join(caption.split())
        if not self._captions:
            raise UsageError(f"{path} holds no captions")
        self._names = ImageNames(self._captions)
        self._used: set[str] = set()
        self._missing = 0
        self._path = path
        self.name = results_name(path, content_id(path), judge=judge)

    def observe(self, images: Sequence[LoadedImage], need: CaptionNeed) -> pl.DataFrame:
        """One row per image, as table ``captions``; without a text where the file has none."""
        from verism.records import frame

        rows: list[dict[str, Any]] = []
        for image in images:
            result = self._names.find(image)
            text, note = None, f"{self._path.name} has no caption of this image"
            if result is None:
                self._missing += 1
            else:
                self._used.add(result)
                text, note = self._captions[result], "the caption is empty"
            rows.append(
                {
                    "image_id": image.image_id,
                    "judge": self.name,
                    "text": text or None,
                    "note": None if text else note,
                }
            )
        return frame(need.table, rows)

    def summary(self) -> Sequence[str]:
        """After a run: captions that belong to no image seen, and images without one.

        The released captioning code of DALL-Eval fills its last batch up with empty images, so its files may have
        entries to spare.
        """
        if not (self._used or self._missing):  # a resumed run asked nothing anew
            return []
        lines = []
        if spare := len(self._captions) - len(self._used):
            lines.append(f"{self._path.name}: {spare:,} of {len(self._captions):,} captions belong to no image seen")
        if self._missing:
            lines.append(f"{self._path.name}: no caption for {self._missing:,} images")
        return lines
