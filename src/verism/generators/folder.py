"""Images that exist already: a folder, a manifest that says which file belongs to which prompt, or another run.

Nothing is moved or changed. A folder is matched by name, ``image_{id}.png`` or ``{id}.png`` (any common image suffix;
for the second and later images of a prompt ``{id}_{k}.png``); of a data set in the published layout the folders of
images of all skills are searched. A manifest is CSV (with a header) or JSON lines with a path, ``prompt_id`` or
``prompt`` (the text), and optionally ``index`` (see ``verism.user_images``); relative paths count from the manifest.
A run directory is matched by the prompts that it was made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from verism.errors import UsageError
from verism.files import IMAGE_SUFFIXES
from verism.imaging import ReadImage, read_image
from verism.locations import is_file, location
from verism.records import Prompt, Request, Result, UserImage
from verism.store import Run, is_run
from verism.user_images import PROMPT_COLUMNS, ImageRow, UserImages, read_image_table, table_columns

__all__ = ["FolderGenerator", "Matching", "match_images", "match_user_images", "matched_images"]

COLUMNS = "prompt_id or prompt"
REASONS = 5  # of ignored rows that are printed
IMAGE_FOLDERS = ("images", "val_images", "train_images")  # below {skill}/ in the published layouts


@dataclass(frozen=True)
class Matching:
    """Which file belongs to which image asked for.

    Attributes:
        source: the folder or manifest.
        files: file of each image, by (prompt id, index).
        missing: (prompt id, index) of the images asked for that have no file.
        ignored: files that belong to nothing asked for.
        absent: files that a list names and that are not there.
        reasons: why rows of a list are ignored, one line each.
        cells: of images that are part of a grid, their cell (see ``UserImage``), by (prompt id, index).
    """

    source: Path
    files: Mapping[tuple[str, int], Path]
    missing: tuple[tuple[str, int], ...]
    ignored: tuple[Path, ...]
    absent: tuple[Path, ...] = ()
    reasons: tuple[str, ...] = ()
    cells: Mapping[tuple[str, int], tuple[int, int, int, int]] = field(default_factory=dict)

    def table(self) -> str:
        """What matched, what is missing and what was ignored, in lines for a person."""
        lines = [
            f"images from {self.source}",
            f"  matched {len(self.files) - len(self.absent):>7,}",
            f"  missing {len(self.missing) + len(self.absent):>7,}"
            f"{_examples([f'{p}#{i}' if i else p for p, i in self.missing])}",
            f"  ignored {len(self.ignored):>7,}{_examples([p.name for p in self.ignored])}",
        ]
        if self.absent:
            lines.append(
                f"  {len(self.absent):,} of the missing are in the list, but there is no such file"
                f"{_examples([str(p) for p in self.absent])}"
            )
        lines += [f"  ignored: {reason}" for reason in self.reasons[:REASONS]]
        if len(self.reasons) > REASONS:
            lines.append(f"  ... and {len(self.reasons) - REASONS:,} more")
        return "\n".join(lines)


def _examples(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"   e.g. {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"


def match_images(source: Path, prompts: Sequence[Prompt]) -> Matching:
    """Match a folder, a manifest or the images of a run with prompts.

    Args:
        source: folder, manifest or run directory.
        prompts: what images are wanted of.

    Raises:
        UsageError: no such source, an unreadable manifest, or one image claimed by two files.
    """
    wanted = {(p.prompt_id, i) for p in prompts for i in range(p.n_images)}
    if is_run(source):
        files, ignored, reasons = _from_rows(_rows_of_run(source, prompts), prompts)
    elif source.is_dir():
        files, ignored = _from_folder(source, wanted)
        reasons = []
    elif source.is_file():
        files, ignored, reasons = _from_rows(read_image_table(source, COLUMNS), prompts)
    else:
        raise UsageError(f"--images {source}: no such folder or manifest")
    missing = tuple(sorted(wanted - set(files)))
    absent = tuple(path for path in files.values() if not (is_file(path) or path.exists()))
    return Matching(source, files, missing, tuple(ignored), absent, tuple(reasons))


def match_user_images(source: Path, prompts: Sequence[Prompt], user_images: Sequence[UserImage]) -> Matching:
    """The matching a suite made itself, from a list that says what each image shows."""
    files = {(b.prompt_id, b.index): location(b.path) for b in user_images}
    wanted = {(p.prompt_id, i) for p in prompts for i in range(p.n_images)}
    ignored = tuple(path for key, path in files.items() if key not in wanted)
    return Matching(
        source,
        {k: p for k, p in files.items() if k in wanted},
        tuple(sorted(wanted - set(files))),
        tuple(dict.fromkeys(ignored)),
        cells={(b.prompt_id, b.index): b.cell for b in user_images if b.cell is not None},
    )


def _from_folder(folder: Path, wanted: set[tuple[str, int]]) -> tuple[dict[tuple[str, int], Path], list[Path]]:
    names: dict[str, tuple[str, int]] = {}
    for prompt_id, index in wanted:
        stem = prompt_id if index == 0 else f"{prompt_id}_{index}"
        names[f"image_{stem}"] = names[stem] = (prompt_id, index)
        if index == 0:  # the first of several may carry its number too
            names.setdefault(f"{stem}_0", (prompt_id, 0))
            names.setdefault(f"image_{stem}_0", (prompt_id, 0))
    images = UserImages(max_images=None)
    ignored = []
    folders = [folder, *(f for name in IMAGE_FOLDERS for f in sorted(folder.glob(f"*/{name}")) if f.is_dir())]
    for path in sorted(p for f in folders for p in f.iterdir() if p.is_file() and not p.name.startswith(".")):
        key = names.get(path.stem) if path.suffix.lower() in IMAGE_SUFFIXES else None
        if key is None:
            ignored.append(path)
        else:
            images.add(*key, path)
    return images.files, ignored


def _rows_of_run(run: Path, prompts: Sequence[Prompt]) -> Iterator[ImageRow]:
    """The usable images of a run as rows of a manifest: by prompt id where both mean the same prompt, else by text."""
    stored = Run.open(run)
    texts = {p.prompt_id: p.text for p in stored.prompts()}
    shared = {p.prompt_id for p in prompts if texts.get(p.prompt_id) == p.text}
    for row in stored.read("images").sort("prompt_id", "index").iter_rows(named=True):
        if row["state"] == "ok" and row["path"] is not None:
            prompt_id = row["prompt_id"]
            named = {"prompt_id": prompt_id} if prompt_id in shared else {"prompt": texts[prompt_id]}
            yield ImageRow(
                where=f"{run}: {row['image_id']}",
                path=stored.resolve(row["path"]).absolute(),
                path_column="path",
                index=row["index"],
                values=named,
            )


def _from_rows(
    rows: Iterable[ImageRow], prompts: Sequence[Prompt]
) -> tuple[dict[tuple[str, int], Path], list[Path], list[str]]:
    """Files by image, paths that are ignored, and why."""
    by_text: dict[str, list[Prompt]] = {}
    for p in prompts:
        by_text.setdefault(p.text.strip(), []).append(p)
    by_id = {p.prompt_id: p for p in prompts}
    images = UserImages(max_images=None)
    ignored: list[Path] = []
    reasons: list[str] = []
    served: dict[str, int] = {}  # per prompt text, images dealt out so far
    for row in rows:
        prompt_id: str | None
        text = ""
        if prompt_id := row.value("prompt_id"):
            index = row.index
        elif text := row.value(*PROMPT_COLUMNS):
            # Prompts may repeat in a suite; images of one text are dealt out to them in order.
            slots = [(p.prompt_id, i) for p in by_text.get(text, ()) for i in range(p.n_images)]
            position = served.get(text, 0) if row.index is None else row.index
            served[text] = served.get(text, 0) + 1
            prompt_id, index = slots[position] if position < len(slots) else (None, None)
        else:
            raise UsageError(f"{row.where}: no prompt; {table_columns(COLUMNS)}")
        if prompt_id is None or prompt_id not in by_id:
            ignored.append(row.path)
            if prompt_id is not None:
                reasons.append(f"{row.where}: prompt_id {prompt_id!r:.80} is none of the run's")
            elif text in by_text:
                reasons.append(f"{row.where}: more images of {text!r:.80} than are asked for")
            else:
                reasons.append(f"{row.where}: {text!r:.80} is no prompt of the run")
        else:
            if row.index is None and index is not None:
                images.count_up(prompt_id, row.path)
            images.add(prompt_id, index, row.path)
    files = {key: path for key, path in images.files.items() if key[1] < by_id[key[0]].n_images}
    spare = {key: path for key, path in images.files.items() if key not in files}
    reasons += [f"{path.name}: image {i} of {p!r:.80} is not asked for" for (p, i), path in spare.items()]
    return files, ignored + list(spare.values()), reasons


def matched_images(
    source: Path, *, prompts: Sequence[Prompt], on_matched: Callable[[str], None] | None
) -> FolderGenerator:
    """Images that exist, matched with the prompts of a run.

    Args:
        source: folder of images, or a table (.csv, .jsonl) of paths.
        prompts: what images are wanted of.
        on_matched: told what matched, in lines.

    Raises:
        UsageError: as ``match_images``, or nothing matches.
    """
    matching = match_images(source, prompts)
    if on_matched is not None:
        on_matched(matching.table())
    if not matching.files:
        example = prompts[0].prompt_id if prompts else "count_val_00000"
        raise UsageError(
            f"none of the {len(prompts):,} prompts has an image in {source}: expected names such as "
            f"image_{example}.png or {example}.png, or a manifest (.csv, .jsonl) with columns path and prompt_id or "
            f"prompt. Found: {', '.join(p.name for p in matching.ignored[:3]) or 'nothing'}"
        )
    return FolderGenerator(matching)


class FolderGenerator:
    """Answers each request with the file that was matched to it, or with a cell of it where the file is a grid."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.name = f"images:{matching.source.absolute()}"
        self._grid: tuple[Path, ReadImage] | None = None  # the last grid: its cells are asked for one after another

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for request in requests:
            key = (request.prompt.prompt_id, request.index)
            path = self.matching.files.get(key)
            if path is None:
                yield Result(image_id=request.image_id, state="missing", note="no file of that name")
            elif key in self.matching.cells:
                yield self._cut(request.image_id, path, *self.matching.cells[key])
            else:
                yield Result(image_id=request.image_id, state="ok", path=str(path))

    def _cut(self, image_id: str, path: Path, row: int, column: int, rows: int, columns: int) -> Result:
        """One image out of a grid of equal cells; what does not divide evenly is left out at the far sides."""
        if self._grid is None or self._grid[0] != path:
            self._grid = (path, read_image(path))
        grid = self._grid[1]
        if grid.state in ("missing", "failed") or grid.pixels is None:
            return Result(image_id=image_id, state=grid.state, note=f"{path.name}: {grid.note}")
        height, width = grid.pixels.shape[0] // rows, grid.pixels.shape[1] // columns
        if not height or not width:
            return Result(image_id=image_id, state="failed", note=f"{path.name} is too small for {rows} x {columns}")
        pixels = grid.pixels[row * height : (row + 1) * height, column * width : (column + 1) * width]
        note = f"row {row + 1}, column {column + 1} of {path.name}"
        if grid.pixels.shape[:2] != (rows * height, columns * width):
            note += f", whose {grid.pixels.shape[1]} x {grid.pixels.shape[0]} pixels do not divide evenly"
        return Result(image_id=image_id, state="ok", pixels=np.ascontiguousarray(pixels), note=note)
