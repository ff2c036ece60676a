"""Judges that are shown the objects another judge found: the segmenter's rows become ``LoadedImage.regions``.

The name of such a judge holds the segmenter's, so that what it says of one segmenter's objects is never taken for what
it says of another's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from verism.errors import VerismError
from verism.records import EmbeddingNeed, Judge, LoadedImage, Need, Region, SegmentationNeed

if TYPE_CHECKING:
    import polars as pl

__all__ = ["RegionJudge", "asks_for_regions", "regions_of_rows", "with_regions"]


def asks_for_regions(need: Need) -> bool:
    """Whether who fills a need has to be shown the objects that the run's segmenter found."""
    return isinstance(need, EmbeddingNeed) and bool(need.regions)


class RegionJudge:
    """A judge that looks at the objects of one segmenter.

    Public attributes: ``name`` is the judge's own, then that of the segmenter.
    """

    def __init__(self, judge: Judge, segmenter: str) -> None:
        """A judge under the name of both.

        Args:
            judge: who looks at the objects.
            segmenter: full name of who finds them.
        """
        self.judge, self.segmenter = judge, segmenter
        self.name = f"{judge.name} objects of {segmenter}"

    def check(self, need: Any) -> None:
        """Ask the judge itself whether it can fill the need."""
        getattr(self.judge, "check", lambda _: None)(need)

    def observe(self, images: Sequence[LoadedImage], need: Any) -> dict[str, pl.DataFrame]:
        """The judge's rows by table, signed with both names."""
        shown = [replace(image, regions_by=self.segmenter) for image in images]
        rows = self.judge.observe(shown, need)
        tables = dict(rows) if isinstance(rows, Mapping) else {need.table: rows}
        return {table: self._signed(rows) for table, rows in tables.items()}

    def embed_texts(self, texts: Sequence[str]) -> pl.DataFrame:
        """The judge's vectors of texts, signed with both names."""
        embedder: Any = self.judge
        return self._signed(embedder.embed_texts(texts))

    def summary(self) -> Sequence[str]:
        """What the judge says at the end."""
        lines: Sequence[str] = getattr(self.judge, "summary", list)()
        return lines

    def remarks(self) -> Sequence[str]:
        """What the judge says for the run's record."""
        lines: Sequence[str] = getattr(self.judge, "remarks", list)()
        return lines

    def close(self) -> None:
        """End what the judge has running."""
        getattr(self.judge, "close", lambda: None)()

    def _signed(self, rows: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        return rows.with_columns(pl.lit(self.name, dtype=pl.String).alias("judge"))


def regions_of_rows(rows: pl.DataFrame) -> dict[str, tuple[Region, ...]]:
    """Objects by image, in the order of their numbers; an image in which none was found has an empty tuple.

    Args:
        rows: table ``segments``.
    """
    found: dict[str, list[Region]] = {image_id: [] for image_id in rows["image_id"].unique().to_list()}
    for row in rows.iter_rows(named=True):
        if row["segment"] >= 0 and row["label"] is not None:
            found[row["image_id"]].append(
                Region(
                    segment=row["segment"],
                    label=row["label"],
                    score=row["score"],
                    box=(row["x0"], row["y0"], row["x1"], row["y1"]),
                    mask=row["mask"],
                )
            )
    return {image_id: tuple(sorted(regions, key=lambda r: r.segment)) for image_id, regions in found.items()}


def with_regions(images: Sequence[LoadedImage], rows: pl.DataFrame | None, *, segmenter: str = "") -> list[LoadedImage]:
    """Images with the objects that were found in them.

    Args:
        images: the images.
        rows: table ``segments`` of these images, by one segmenter; None if there is none.
        segmenter: who must have looked at every image; empty: images that are not in the rows have no objects.

    Raises:
        VerismError: the segmenter has not looked at one of the images.
    """
    found = {} if rows is None else regions_of_rows(rows)
    if segmenter and (missing := [image.image_id for image in images if image.image_id not in found]):
        raise VerismError(
            f"{segmenter} has not looked at {missing[0]}, whose objects are to be judged; observe with it first"
        )
    return [replace(image, regions=found.get(image.image_id, ())) for image in images]


SEGMENTS = SegmentationNeed.table
