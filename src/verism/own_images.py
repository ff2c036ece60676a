"""Images of a user with their own prompts, read from whatever holds them.

Folders, tables, Hugging Face's image folders (``metadata.csv``), WebDataset tar files, parquet files with images in
them. What is found is written as one list of prompts and one of images, which any suite reads.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from verism.errors import UsageError
from verism.files import IMAGE_SUFFIXES, csv_text, write_whole
from verism.limits import IMAGE_BYTES
from verism.parquet import read_parquet
from verism.user_images import PATH_COLUMNS, PROMPT_COLUMNS, image_files, read_image_table

__all__ = ["OwnImages", "Possible", "read_own_images", "write_lists"]

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
TEXT_SUFFIXES = (".txt", ".caption", ".prompt")
EXPECTED = (
    "a folder of images, a table (.csv, .jsonl, .parquet) with path and prompt, a folder with metadata.csv, or a "
    "WebDataset (.tar)"
)


@dataclass(frozen=True, kw_only=True)
class OwnImages:
    """What a source of images holds.

    Attributes:
        kind: of the source, in words.
        images: path and prompt of each image in order; an empty prompt where there is none.
        missing: paths that the source names and that are not there; they are among ``images``.
        skipped: what was left out and why, in words.
    """

    kind: str
    images: tuple[tuple[Path, str], ...]
    missing: tuple[Path, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def with_prompt(self) -> int:
        """Number of images that have a prompt."""
        return sum(bool(prompt) for _, prompt in self.images)

    @property
    def prompts(self) -> list[str]:
        """Each prompt once, in order."""
        return list(dict.fromkeys(prompt for _, prompt in self.images if prompt))

    def words(self) -> str:
        """In a line: what was found."""
        missing = f", {len(self.missing):,} of them missing" if self.missing else ""
        prompts = f"{len(self.prompts):,} prompts" if self.with_prompt else "no prompts"
        without = len(self.images) - self.with_prompt
        some = f" ({without:,} images have none)" if self.with_prompt and without else ""
        return f"{self.kind}: {len(self.images):,} images{missing}, {prompts}{some}"


@dataclass(frozen=True, kw_only=True)
class Possible:
    """A suite that could be run on somebody's images.

    Attributes:
        suite: its name.
        options: of the run, by name; None where something is missing.
        why: what it tells, or what is missing to run it.
        by_prompt: whether it takes a list of prompts beside the images; else it takes all images.
    """

    suite: str
    options: Mapping[str, Any] | None
    why: str
    by_prompt: bool = True


def read_own_images(source: Path, scratch: Path) -> OwnImages:
    """The images of a source and their prompts.

    Args:
        source: a folder, a table or a tar file.
        scratch: folder for images that are packed in one file; made when needed.

    Raises:
        UsageError: nothing there, no image in it, or a table without a column that names files.
    """
    if source.is_dir():
        found = _of_folder(source, scratch)
    elif not source.exists():
        raise UsageError(f"{source} does not exist; expected {EXPECTED}")
    elif source.suffix.lower() == ".tar":
        found = _of_webdataset(source, scratch)
    elif source.suffix.lower() == ".parquet":
        found = _of_parquet(source, scratch)
    else:
        found = _of_table(source, "table")
    if not found.images:
        raise UsageError(f"{source}: no image in it; expected {EXPECTED}")
    return _each_once(found)


def _each_once(found: OwnImages) -> OwnImages:
    """Without rows that repeat another one: an image that is listed twice would count twice."""
    images = tuple(dict.fromkeys(found.images))
    if len(images) == len(found.images):
        return found
    again = Counter(found.images)
    skipped = tuple(
        f"{path} is listed {n} times with one prompt, and counts once" for (path, _), n in again.items() if n > 1
    )
    return replace(
        found, images=images, missing=tuple(dict.fromkeys(found.missing)), skipped=(*found.skipped, *skipped)
    )


def _of_folder(folder: Path, scratch: Path) -> OwnImages:
    for name in METADATA:
        if (folder / name).is_file():
            if name.endswith(".parquet"):
                return _of_parquet(folder / name, scratch)
            return _of_table(folder / name, f"folder with {name}")
    paths = image_files(folder, recursive=True)
    prompts = {}
    for path in paths:
        for suffix in TEXT_SUFFIXES:
            text = path.with_suffix(suffix)
            if text.is_file():
                prompts[path] = _text(text.read_bytes())
                break
    kind = "folder with a text beside each image" if prompts else "folder"
    skipped = []
    if prompts:  # a text without an image may be the prompt of one that was not made
        stems = {path.with_suffix("") for path in paths}
        texts = sorted(
            p for suffix in TEXT_SUFFIXES for p in folder.rglob(f"*{suffix}") if p.with_suffix("") not in stems
        )
        skipped = [f"{text.relative_to(folder)} has no image beside it" for text in texts]
    images = tuple((path, prompts.get(path, "")) for path in paths)
    return OwnImages(kind=kind, images=images, skipped=tuple(skipped))


def _of_table(path: Path, kind: str) -> OwnImages:
    rows = read_image_table(path, " or ".join(PROMPT_COLUMNS))
    images = tuple((row.path, row.value(*PROMPT_COLUMNS)) for row in rows)
    return OwnImages(kind=kind, images=images, missing=tuple(file for file, _ in images if not _is_there(file)))


def _is_there(path: Path) -> bool:
    """Whether there is a file; False also for names that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _of_parquet(path: Path, scratch: Path) -> OwnImages:
    """A parquet file with paths, or with Hugging Face's structs of ``bytes`` and ``path``."""
    table = read_parquet(path)
    column = next((name for name in PATH_COLUMNS if name in table.columns), None)
    if column is None:
        raise UsageError(f"{path}: none of the columns {', '.join(PATH_COLUMNS)}; it has {', '.join(table.columns)}")
    prompt = next((name for name in PROMPT_COLUMNS if name in table.columns), None)
    texts = [""] * table.height if prompt is None else [str(text or "").strip() for text in table[prompt].to_list()]
    images, missing, skipped = [], [], []
    for number, (value, text) in enumerate(zip(table[column].to_list(), texts, strict=True)):
        data = value.get("bytes") if isinstance(value, dict) else value
        if isinstance(data, bytes):
            name = (value.get("path") if isinstance(value, dict) else None) or f"{number:06d}.png"
            suffix = PurePosixPath(str(name)).suffix.lower()
            file = scratch / f"{number:06d}{suffix if suffix in IMAGE_SUFFIXES else '.png'}"
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, data, sync=False)
        else:
            written = value.get("path") if isinstance(value, dict) else value
            if not isinstance(written, str) or not written.strip():
                skipped.append(f"row {number + 1} names no image")
                continue
            file = (path.parent / written).absolute()
            if not _is_there(file):
                missing.append(file)
        images.append((file, text))
    return OwnImages(kind="parquet file", images=tuple(images), missing=tuple(missing), skipped=tuple(skipped))


def _of_webdataset(path: Path, scratch: Path) -> OwnImages:
    """A tar file with members ``KEY.jpg`` and ``KEY.txt`` (or ``KEY.json`` with a prompt) beside each other."""
    import json

    files: dict[str, Path] = {}
    texts: dict[str, str] = {}
    skipped = []
    try:
        with tarfile.open(path) as archive:
            for number, member in enumerate(_members(archive)):
                name = PurePosixPath(member.name)
                # The key is the name up to its first dot, as WebDataset has it.
                key, _, ending = name.name.partition(".")
                key = str(name.parent / key)
                suffix = f".{ending.lower()}"
                if suffix not in (*IMAGE_SUFFIXES, *TEXT_SUFFIXES, ".json"):
                    if suffix.endswith(IMAGE_SUFFIXES):  # such as KEY.mask.png
                        skipped.append(f"{member.name} is no image of the sample {key}: only {key}.ENDING is")
                    continue
                if member.size > IMAGE_BYTES.value:
                    skipped.append(f"{member.name}: {member.size:,} bytes, more than {IMAGE_BYTES.value:,}")
                    continue
                source = archive.extractfile(member)
                data = source.read() if source is not None else b""
                if suffix in IMAGE_SUFFIXES and key in files:
                    skipped.append(f"{member.name} is a second image of the sample {key}")
                elif suffix in IMAGE_SUFFIXES:
                    files[key] = scratch / f"{number:06d}{suffix}"
                    files[key].parent.mkdir(parents=True, exist_ok=True)
                    write_whole(files[key], data, sync=False)
                elif suffix in TEXT_SUFFIXES:
                    texts[key] = _text(data)
                elif key not in texts:
                    try:
                        record = json.loads(data)
                    except (ValueError, RecursionError):
                        skipped.append(f"{member.name} is no JSON")
                        continue
                    if isinstance(record, dict):
                        texts[key] = next((str(record[n]).strip() for n in PROMPT_COLUMNS if record.get(n)), "")
    except (tarfile.TarError, OSError, EOFError) as err:
        raise UsageError(f"{path} is no tar file that can be read: {str(err)[:200]}") from err
    images = tuple((file, texts.get(key, "")) for key, file in files.items())
    skipped += [f"the sample {key} has a text and no image" for key, text in texts.items() if text and key not in files]
    return OwnImages(kind="WebDataset", images=images, skipped=tuple(skipped))


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Plain files; names are never used as paths."""
    for member in archive:
        if member.isreg():
            yield member


def _text(data: bytes) -> str:
    return " ".join(data.decode("utf-8-sig", "replace").split())


def write_lists(found: OwnImages, folder: Path) -> tuple[Path, Path]:
    """The prompts and the images as tables that every suite reads.

    Args:
        found: the images; those without a prompt are in neither table.
        folder: where; made if it is not there.

    Returns:
        The list of prompts (``prompt_id``, ``prompt``, ``n_images``), and that of images (``prompt_id``, ``index``,
        ``path``).
    """
    folder.mkdir(parents=True, exist_ok=True)
    ids = {prompt: f"{number:05d}" for number, prompt in enumerate(found.prompts)}
    seen: dict[str, int] = {}
    rows = []
    for path, prompt in found.images:
        if prompt:
            index = seen.get(prompt, 0)
            seen[prompt] = index + 1
            rows.append([ids[prompt], index, str(path)])
    prompts, images = folder / "prompts.csv", folder / "images.csv"
    of_prompts = [[ids[prompt], prompt, seen[prompt]] for prompt in ids]
    write_whole(prompts, csv_text(["prompt_id", "prompt", "n_images"], of_prompts, raw=True))
    write_whole(images, csv_text(["prompt_id", "index", "path"], rows, raw=True))
    return prompts, images
