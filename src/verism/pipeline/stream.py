"""What every stage that shows images to judges shares: batches started ahead, reading again, asking, failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from verism.errors import Unfinished, UsageError, VerismError, repair_command
from verism.imaging import pixel_count
from verism.limits import PENDING_PIXELS
from verism.pipeline.shares import Claim, Claims
from verism.prefetch import prefetch
from verism.records import (
    AnswerNeed,
    DepthNeed,
    DetectionNeed,
    EmbeddingNeed,
    FeatureNeed,
    Judge,
    LoadedImage,
    Need,
    SegmentationNeed,
    schema,
)
from verism.store import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "AHEAD",
    "BATCH",
    "Batch",
    "ahead",
    "ask",
    "batches",
    "check_rows",
    "claimed_batches",
    "failure",
    "reload_image",
    "row_pixels",
]

T = TypeVar("T")
BATCH = 32  # images per part; a killed run loses at most one batch
LISTED = 128 * BATCH  # images whose rows are held as Python objects at once
AHEAD = 2  # batches of images that exist already, decoded before they are needed


@dataclass(eq=False)
class Batch:
    """A batch under way.

    Attributes:
        futures: its images.
        made: whether they were made and not found, so that losing them would cost.
        claim: what they are a part of.
    """

    futures: list[Future[Any]]
    made: bool
    claim: Claim[Any] | None = None

    @staticmethod
    def flush() -> Batch:
        """A batch without images: all before it are kept before more are begun."""
        return Batch([], made=True)

    def keep(self) -> None:
        """Its images are kept."""
        if self.claim is not None:
            self.claim.advance(len(self.futures))


def batches(items: Sequence[Any], size: int, *, pixels: Callable[[Any], int] = lambda _: 0) -> Iterator[list[Any]]:
    """Lists of items, in order; at least one in each.

    Args:
        items: what is put into batches.
        size: items of a batch at most.
        pixels: of an item, once it is decoded; a batch has at most ``limits.PENDING_PIXELS``.
    """
    batch: list[Any] = []
    pending = 0
    for item in items:
        count = pixels(item)
        if batch and (len(batch) == size or pending + count > PENDING_PIXELS.value):
            yield batch
            batch, pending = [], 0
        batch.append(item)
        pending += count
    if batch:
        yield batch


def claimed_batches(
    claims: Claims[T],
    rows_of: Callable[[Sequence[T]], Sequence[Mapping[str, Any]]],
    run: Run,
    pool: ThreadPoolExecutor,
) -> Iterator[Batch]:
    """The images of what a process claims, read again in batches.

    Args:
        claims: as ``Shares.claims`` gives them.
        rows_of: rows of ``images`` or ``reference`` of those items that can be looked at.
        run: the run they are of.
        pool: reads them.
    """
    for claim in claims:
        if claim is None:
            yield Batch.flush()
            continue
        for start in range(0, len(claim.items), LISTED):
            items = claim.items[start : start + LISTED]
            rows = rows_of(items)
            claim.advance(len(items) - len(rows))
            for part in batches(rows, BATCH, pixels=partial(row_pixels, run)):
                yield Batch([pool.submit(reload_image, run, row) for row in part], made=False, claim=claim)


def row_pixels(run: Run, row: Mapping[str, Any]) -> int:
    """Pixels of the image of a row of ``images`` or ``reference``, decoded; 0 if it cannot be read."""
    return (row.get("width") or 0) * (row.get("height") or 0) or pixel_count(run.resolve(row["path"]))


def ahead(started: Iterator[Batch]) -> Iterator[Batch]:
    """Start batches before they are needed, ``AHEAD`` at a time; yield them in order.

    Images that were made are kept before more are made: a killed run loses one batch of them, not several.
    """
    return prefetch(started, AHEAD, flush=lambda batch: batch.made)


def ask(
    run: Run, judge: Judge, need: Need, images: Sequence[LoadedImage], *, table: str | None = None
) -> pl.DataFrame | None:
    """Show images to a judge and keep its rows, in ``table`` or the need's own, and in those beside it.

    Returns:
        The rows of the need's table; None without images.

    Raises:
        VerismError: as ``check_rows``.
        UsageError: the judge could not go on; the rows of images that it was done with are kept.
    """
    if not images:
        return None
    try:
        observed = judge.observe(images, need)
    except Unfinished as err:
        done = set(err.rows["image_id"].to_list())
        _keep(run, judge, need, [image for image in images if image.image_id in done], err.rows, table)
        raise UsageError(str(err)) from None
    return _keep(run, judge, need, images, observed, table)


def _keep(
    run: Run, judge: Judge, need: Need, images: Sequence[LoadedImage], observed: Any, table: str | None
) -> pl.DataFrame:
    tables = dict(observed) if isinstance(observed, Mapping) else {need.table: observed}
    rows = tables.pop(need.table, None)
    image_ids = [image.image_id for image in images]
    check_rows(rows, judge.name, need, image_ids)
    bound = {image.image_id: image.sha256 for image in images}
    for name, beside in tables.items():  # the need's own comes last: an image is done once it is in there
        _check_beside(beside, judge.name, need, name, image_ids)
        run.append(name, beside, judge.name, images=bound)
    kept: pl.DataFrame = rows  # checked above
    run.append(table or need.table, kept, judge.name, images=bound)
    return kept


def _check_beside(rows: Any, name: str, need: Need, table: str, image_ids: Sequence[str]) -> None:
    """Check rows of a table beside the need's own, as ``check_rows`` does; an image may have none there."""
    where = f"judge {name}, table {table!r}"
    if table not in need.beside:
        raise VerismError(f"{where}: a judge of this need fills {', '.join((need.table, *need.beside))}")
    _check_columns(rows, where, table)
    if foreign := sorted(set(rows["image_id"].to_list()) - set(image_ids), key=str):
        raise VerismError(f"judge {name} spoke of {foreign[:3]}, which it was not shown")
    _check_signature(rows, name)
    if "vector" in rows.columns and rows.height:
        _check_vectors(rows, where)


def check_rows(rows: Any, name: str, need: Need, image_ids: Sequence[str]) -> None:
    """Check what a judge answered before it is kept, so that a mistake shows with the first batch.

    Args:
        rows: rows that ``observe`` returned.
        name: name of the judge.
        need: what the judge was asked for.
        image_ids: the images it was shown.

    Raises:
        VerismError: rows that are no table of the need's columns; an image left out, or one it was not shown; rows
            signed by another; scores of another number than of classes or colours, or outside [0, 1]; labels outside
            the need; vectors of several lengths, or not finite.
    """
    import polars as pl

    where = f"judge {name}, table {need.table!r}"
    _check_columns(rows, where, need.table)
    shown, answered = set(image_ids), set(rows["image_id"].to_list())
    if silent := sorted(shown - answered):
        raise VerismError(f"judge {name} returned no row for {silent[:3]}; every image needs a row")
    if foreign := sorted(answered - shown, key=str):
        raise VerismError(f"judge {name} spoke of {foreign[:3]}, which it was not shown")
    _check_signature(rows, name)
    if isinstance(need, DetectionNeed):
        _check_boxes(rows.filter(pl.col("query") >= 0), where, need)
    elif isinstance(need, SegmentationNeed):
        _check_segments(rows.filter(pl.col("segment") >= 0), where, need)
    elif isinstance(need, DepthNeed):
        _check_depths(rows, where)
    elif isinstance(need, FeatureNeed | EmbeddingNeed):
        _check_vectors(rows, where)
    elif isinstance(need, AnswerNeed):
        _check_unit(rows["probability"], where, "probability")


def _check_columns(rows: Any, where: str, table: str) -> None:
    """Whether rows are a table with the columns of ``table``."""
    import polars as pl

    if not isinstance(rows, pl.DataFrame):
        raise VerismError(f"{where}: observe returned {type(rows).__name__}; expected a table, as records.frame makes")
    columns = schema(table)
    if wrong := sorted(set(columns) ^ set(rows.columns)):
        answers = [f"{column} is {'missing' if column in columns else 'unknown'}" for column in wrong]
        raise VerismError(f"{where}: {', '.join(answers)}; its columns are {', '.join(columns)}")
    for column, dtype in columns.items():
        if rows.schema[column] != dtype:
            raise VerismError(f"{where}: column {column} is of type {rows.schema[column]}, expected {dtype}")


def _check_signature(rows: pl.DataFrame, name: str) -> None:
    if others := sorted(set(rows["judge"].to_list()) - {name}, key=str):
        raise VerismError(f"judge {name} signed its rows as {others[:3]}; every row bears the judge's own name")


def _check_segments(objects: pl.DataFrame, where: str, need: SegmentationNeed) -> None:
    """Labels, scores, colours of the rows of objects, and whether their masks are of the image's size."""
    from verism.metrics.masks import runs_of_rle

    for column in ("score", "x0", "y0", "x1", "y1", "height", "width"):
        if nulls := objects[column].null_count():
            raise VerismError(f"{where}: {column} is null in {nulls} of {objects.height} rows of objects")
    _check_unit(objects["score"], where, "score")
    for column in ("color_scores", "pixel_colors"):
        lengths = set(objects[column].list.len().drop_nulls().to_list()) - {0, len(need.colors)}
        if lengths:
            raise VerismError(f"{where}: {column} holds {min(lengths)} numbers for {len(need.colors)} colours")
        _check_unit(objects[column].explode(), where, column)
    _check_known(objects, where, (("label", need.classes), ("color", need.colors)))
    for mask, height, width in objects.select("mask", "height", "width").drop_nulls("mask").iter_rows():
        try:
            pixels = int(runs_of_rle(mask).sum())
        except ValueError as err:
            raise VerismError(f"{where}: column mask: {err}") from err
        if pixels != height * width:
            raise VerismError(f"{where}: a mask of {pixels:,} pixels for an image of {width} x {height}")


def _check_depths(rows: pl.DataFrame, where: str) -> None:
    """Whether maps can be read, and have the size that their rows say."""
    from verism.metrics.depth_maps import depth_of_text

    for text, height, width in rows.select("nearness", "height", "width").iter_rows():
        if text is None or not height or not width:
            raise VerismError(f"{where}: a row without a map")
        try:
            depth_of_text(text, height, width)
        except ValueError as err:
            raise VerismError(f"{where}: column nearness: {err}") from err


def _check_known(rows: pl.DataFrame, where: str, columns: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Names that must be among those of the need, or null."""
    for column, known in columns:
        if foreign := sorted(set(rows[column].drop_nulls().to_list()) - set(known)):
            raise VerismError(
                f"{where}: {column} {foreign[0]!r} is not among the need's ({', '.join(known[:5])} ...); a box of "
                f"something else has no {column} (null)"
            )


def _check_boxes(boxes: pl.DataFrame, where: str, need: DetectionNeed) -> None:
    """Labels and scores of the rows of boxes."""
    for column in ("score", "x0", "y0", "x1", "y1", "class_scores"):
        if nulls := boxes[column].null_count():
            raise VerismError(f"{where}: {column} is null in {nulls} of {boxes.height} rows of boxes (query >= 0)")
    _check_unit(boxes["score"], where, "score")
    for column, known, optional in (("class_scores", need.classes, False), ("color_scores", need.colors, True)):
        for length in sorted(set(boxes[column].list.len().drop_nulls().to_list())):
            if length != len(known) and not (optional and length == 0):
                raise VerismError(
                    f"{where}: {column} holds {length} numbers for {len(known)} {column.partition('_')[0]} names; it "
                    f"holds one for each of the need's, in their order: {', '.join(known[:5])}"
                    f"{' ...' if len(known) > 5 else ''}"
                )
        _check_unit(boxes[column].explode(), where, column)
    _check_known(boxes, where, (("label", need.classes), ("color", need.colors)))


def _check_vectors(rows: pl.DataFrame, where: str) -> None:
    lengths = sorted(set(rows["vector"].list.len().to_list()), key=str)
    if len(lengths) != 1 or not lengths[0]:
        raise VerismError(f"{where}: vectors of one judge must be of one length; column vector has lengths {lengths}")
    values = rows["vector"].explode()
    if not values.is_finite().all() or values.null_count():
        raise VerismError(f"{where}: column vector holds numbers that are not finite")


def _check_unit(values: pl.Series, where: str, column: str) -> None:
    """Numbers that must lie in [0, 1], where they are known."""
    known = values.drop_nulls()
    if known.len() and not known.is_between(0, 1).all():
        low, high = known.min(), known.max()
        raise VerismError(f"{where}: column {column} must lie in [0, 1]; it runs from {low!r} to {high!r}")


def reload_image(run: Run, row: Mapping[str, Any]) -> LoadedImage:
    """The image of a row of ``images`` or ``reference``, read again.

    Raises:
        VerismError: the file is gone, or is not what it was.
    """
    image = run.load_image(row)
    if image.pixels is None or image.sha256 != row["sha256"]:
        why = image.note if image.pixels is None else "its content changed"
        raise VerismError(
            f"image {row['image_id']} ({row['path']}) is not what it was when the run took it in: {why}. "
            f"Restore the file, or, if the run made it, make it again with: {repair_command(run.path)}"
        )
    return LoadedImage(
        image_id=row["image_id"], prompt_id=row.get("prompt_id", ""), pixels=image.pixels, sha256=image.sha256
    )


def failure(row: Mapping[str, Any]) -> str:
    """A row of an image that is not ok, as a line."""
    return f"{row['image_id']}: {row['state']}: {row['note']}"
