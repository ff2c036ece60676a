"""The images of a run in shards: writing them, putting small ones together, and converting from files and back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from verism.errors import DamagedRun
from verism.files import whole_file
from verism.shards import SUFFIX, Packing, member_of, member_path, shard_of
from verism.store.ledger import ShardName, sha256
from verism.store.run import Run, slug

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SHARDS", "Compaction", "compact_images", "renew_shards", "write_shards"]

SHARDS = "shards"  # folder in the run
SHARD_BYTES = 2**27  # of a shard at most
MOVED_BYTES = 2**30  # images that are moved before the table says so: what is done twice if the process is killed
BESIDE = 2048  # bytes that an image takes in a shard beside its own, at most: headers, description, padding
ABOUT = ("image_id", "prompt_id", "index", "seed")  # columns of ``images`` that stand beside an image in its shard


def write_shards(run: Run, images: Iterable[tuple[Mapping[str, Any], bytes]], texts: Mapping[str, str]) -> list[str]:
    """Store images in shards of at most ``SHARD_BYTES``, each written whole or not at all.

    Args:
        run: the run that made them.
        images: row of ``images`` without its path, and the content of the file, of each.
        texts: text of the prompts by id; those that are not among them stay empty.

    Returns:
        Path of each image in the run, in order.
    """
    paths: list[str] = []
    with _ShardWriter(run, texts) as writer:
        for row, png in images:
            if not writer.has_room(png):
                paths += writer.write()
            writer.add(row, png)
        return [*paths, *writer.write()]


class _ShardWriter:
    """Writes images in shards, each piece by piece into a temporary file that is a shard once it has its name."""

    def __init__(self, run: Run, texts: Mapping[str, str]) -> None:
        """A writer that has nothing yet.

        Args:
            run: the run that made the images.
            texts: as of ``write_shards``.
        """
        self.run = run
        self.texts = texts
        self._places: list[tuple[int, int, str]] = []  # offset and length of each image, and its name
        self._size = 0
        self._writing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        """Remove what did not become a shard."""
        self._writing.__exit__(*error)

    def _begin(self) -> None:
        name = ShardName(self.run._adopt().uid, SHARDS)
        to = self.run.path / SHARDS / f"shard{SUFFIX}"
        file = self._writing.enter_context(
            self._writing.enter_context(whole_file(to, name=lambda: str(name))).open("wb")
        )

        def write(data: bytes) -> None:
            file.write(data)
            name.update(data)

        self._name, self._packing = name, Packing(write)

    def has_room(self, png: bytes) -> bool:
        """Whether an image fits in with those that were added since the last shard; one always does."""
        return not self._places or self._size + len(png) + BESIDE <= SHARD_BYTES

    def add(self, row: Mapping[str, Any], png: bytes) -> None:
        """Add an image.

        Args:
            row: of ``images``, without its path.
            png: content of the file.
        """
        if not self._places:
            self._begin()
        key = _key(row["image_id"])
        about = {name: row[name] for name in ABOUT} | {"prompt": self.texts.get(row["prompt_id"], "")}
        self._places.append((*self._packing.add(f"{key}.png", png), f"{key}.png"))
        self._packing.add(f"{key}.json", json.dumps(about).encode("ascii"))
        self._size += len(png) + BESIDE

    def write(self) -> list[str]:
        """Write a shard of the images that were added since the last one, if any; path of each in the run."""
        if not self._places:
            return []
        self._packing.end()
        self._writing.close()
        paths = [member_path(f"{SHARDS}/{self._name}", *place) for place in self._places]
        self._places, self._size = [], 0
        return paths


def _key(image_id: str) -> str:
    """The name of an image in its shard, up to the dot: WebDataset reads on from the first one as the ending."""
    readable = slug(image_id)
    return readable if "." not in readable else f"{readable.replace('.', '-')}-{sha256(image_id.encode())[:8]}"


# ---------------------------------------------------------------------------------------------------------- compacting
@dataclass(frozen=True, kw_only=True)
class Compaction:
    """What was done to the images of a run.

    Attributes:
        images_as: how they are kept now.
        images: number of those that the run made.
        moved: of them, those that lie elsewhere now.
        files: number of files they lie in now, shards or files of their own.
        before: number of files they lay in.
    """

    images_as: str
    images: int
    moved: int
    files: int
    before: int


@dataclass
class _Move:
    """Images that were stored anew, of which the table says nothing yet.

    Attributes:
        paths: new path by id.
        files: they lay in before, which nobody needs once the table names the new ones.
        shards: that they lay in before, with how many of them.
        size: of the images, bytes.
    """

    paths: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    shards: Counter[str] = field(default_factory=Counter)
    size: int = 0


def compact_images(run: Run, images_as: str | None = None) -> Compaction:
    """Put small shards together, leave out what no row names any more, or convert from files to shards or back.

    Nothing is removed before the table names the copy, so a run can be read at any moment; killed half-way, it has
    images of both kinds, and the same call goes on. Others may read meanwhile, and find what was moved.

    Args:
        run: the run.
        images_as: how the images shall be kept, ``files`` or ``shards``; None: as they are.

    Raises:
        DamagedRun: an image is gone or altered; those before it are moved.
    """
    import polars as pl

    if images_as is not None and images_as != run.manifest.images_as:
        run.note_images_as(images_as)  # first: what is made meanwhile is kept so, too
    run._adopt()
    to_shards = run.manifest.images_as == "shards"
    run.compact("images")
    _merge_doubles(run)
    before = _kept(run)
    live = before.in_shards
    texts = {prompt.prompt_id: prompt.text for prompt in run.prompts()} if to_shards else {}
    n_moved = 0
    for start in sorted(run._part_paths("images")):
        try:
            part, rows = start, run._parts("images", paths=[start])[0]
        except FileNotFoundError:  # another process put it together with others
            continue
        own = _own(rows)
        moving = _worth_moving(run, own) if to_shards else [path for path in own if shard_of(path) is not None]
        columns = {"path", "sha256", *ABOUT}
        wanted = rows.filter(pl.col("path").is_in(moving)).select(sorted(columns))
        for move in _moves_of(run, wanted, texts, to_shards=to_shards):
            part, rows = _commit(run, part, rows, move)
            n_moved += len(move.paths)
            _remove(run, move, live)
    after = _kept(run)
    return Compaction(
        images_as=run.manifest.images_as,
        images=after.n_images,
        moved=n_moved,
        files=after.n_files,
        before=before.n_files,
    )


class _Kept(NamedTuple):
    """Where the images of a run lie.

    Attributes:
        n_images: those that lie in the run.
        n_files: shards and files of their own that they lie in.
        in_shards: how many lie in each shard.
    """

    n_images: int
    n_files: int
    in_shards: Counter[str]


def _kept(run: Run) -> _Kept:
    """Where images lie, part by part; no image has two rows."""
    n_images = n_alone = 0
    in_shards: Counter[str] = Counter()
    for own in run.take_images(["path"], _counted):
        n_images += own.total()
        n_alone += own.pop(None, 0)
        in_shards.update({shard: n for shard, n in own.items() if shard is not None})
    return _Kept(n_images, n_alone + len(in_shards), in_shards)


def _counted(rows: pl.DataFrame) -> Counter[str | None]:
    """Images of a part by the shard they lie in; None: in a file of their own."""
    return Counter(map(shard_of, _own(rows)))


def _own(rows: pl.DataFrame) -> list[str]:
    """Paths of images that lie in the run."""
    paths = rows["path"].drop_nulls().to_list()
    return [path for path in paths if path.startswith((f"{SHARDS}/", "images/"))]


def _merge_doubles(run: Run) -> None:
    """Put parts together that have rows of the same image: an image is moved once, and every row says so."""
    if sum(run.take_images(["image_id"], len)) != len(run.ids("images")):
        run._replace("images", None, [list(run._part_paths("images"))], same_rows=True)


def renew_shards(run: Run, shards: Collection[str]) -> None:
    """Store the images of some shards anew, in others, and remove these: they were damaged elsewhere.

    Args:
        run: the run.
        shards: their paths in the run. All images that the run names in them are whole.
    """
    import polars as pl

    if not shards:
        return
    paths = [path for path in _own(run.read("images")) if shard_of(path) in shards]
    texts = {prompt.prompt_id: prompt.text for prompt in run.prompts()}
    _merge_doubles(run)
    for start in sorted(run._part_paths("images")):
        part, rows = start, run._parts("images", paths=[start])[0]
        for move in _moves_of(run, rows.filter(pl.col("path").is_in(paths)), texts, to_shards=True):
            part, rows = _commit(run, part, rows, move)
    for shard in shards:
        (run.path / shard).unlink(missing_ok=True)


def _worth_moving(run: Run, paths: Sequence[str]) -> list[str]:
    """Images in files, in small shards if there are several, and in shards of which less than half is used.

    Args:
        run: the run.
        paths: of its images in one part of the table.
    """
    used: Counter[str] = Counter()
    for path in paths:
        if (member := member_of(Path(path))) is not None:
            used[f"{SHARDS}/{member.shard.name}"] += member.length + BESIDE
    sizes = {f"{SHARDS}/{file.name}": file.stat().st_size for file in (run.path / SHARDS).glob(f"*{SUFFIX}")}
    small = {shard for shard in used if sizes.get(shard, 0) < SHARD_BYTES // 2}
    chosen = {shard for shard in used if used[shard] < sizes.get(shard, 0) // 2} | (small if len(small) > 1 else set())
    return [path for path in paths if (shard := shard_of(path)) is None or shard in chosen]


def _moves_of(run: Run, rows: pl.DataFrame, texts: Mapping[str, str], *, to_shards: bool) -> Iterator[_Move]:
    """Store images anew, some at a time."""
    move = _Move()
    waiting: list[str] = []  # ids of images that were added to the next shard
    with _ShardWriter(run, texts) as writer:

        def store() -> None:
            move.paths |= zip(waiting, writer.write(), strict=True)
            waiting.clear()

        for row in rows.iter_rows(named=True):
            try:
                png = run.image_bytes(row)
                whole = sha256(png) == row["sha256"]
            except (OSError, ValueError) as err:
                damage = f"it cannot be read: {getattr(err, 'strerror', None) or err}"
            else:
                damage = "" if whole else "its content is not what it was"
            if damage:
                store()
                yield move
                raise DamagedRun.of(run.path, run.resolve(row["path"]), damage)
            if not writer.has_room(png) or (not to_shards and move.size >= MOVED_BYTES):
                store()
                if move.size >= MOVED_BYTES:
                    yield move
                    move = _Move()
            if to_shards:
                writer.add(row, png)
                waiting.append(row["image_id"])
            else:
                move.paths[row["image_id"]] = run.write_image(row["image_id"], png)
            if (shard := shard_of(row["path"])) is None:
                move.files.append(row["path"])
            else:
                move.shards[shard] += 1
            move.size += len(png) + BESIDE
        store()
        yield move


def _commit(run: Run, part: str, rows: pl.DataFrame, move: _Move) -> tuple[str, pl.DataFrame]:
    """Say in the table where images lie now; the part that does, and its rows."""
    import polars as pl

    if not move.paths:
        return part, rows
    moved = pl.DataFrame({"image_id": list(move.paths), "now": list(move.paths.values())})
    rows = (
        rows.join(moved, on="image_id", how="left", maintain_order="left")
        .with_columns(pl.coalesce("now", "path").alias("path"))
        .drop("now")
    )
    written = run._write_part("images", rows, replaced=[part], same_rows=True)
    (run.path / part).unlink(missing_ok=True)
    return written, rows


def _remove(run: Run, move: _Move, live: Counter[str]) -> None:
    """Remove files that were moved, and shards of which all images were."""
    live.subtract(move.shards)
    for path in [*move.files, *(shard for shard in move.shards if not live[shard])]:
        (run.path / path).unlink(missing_ok=True)
