"""The released folders of images and lines of results, read and written.

``{root}/{index:05d}/metadata.jsonl`` holds the prompt of a folder, ``{root}/{index:05d}/samples/{k}.png`` its images.
Only folders whose name is a number count, and in them files whose name is a number. Folders may have four or five
digits (the released README writes one, its code the other).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import parse_json, read_lines
from verism.records import UserImage
from verism.suites.geneval.prompts import Metadata, read_metadata
from verism.suites.geneval.vocabulary import TASKS
from verism.user_images import UserImages, numbered_images

__all__ = ["FoundFolder", "ResultLine", "is_released_layout", "read_folders", "read_results", "result_line"]

METADATA = "metadata.jsonl"
SAMPLES = "samples"


@dataclass(frozen=True, kw_only=True)
class FoundFolder:
    """A folder of one prompt.

    Attributes:
        index: its number.
        path: the folder.
        metadata: the prompt that it says it is of; None if it does not say.
        images: (number, file) of its images, by falling order of nothing but their numbers.
    """

    index: int
    path: Path
    metadata: Metadata | None
    images: tuple[tuple[int, Path], ...]


def is_released_layout(root: Path) -> bool:
    """Whether a folder holds numbered folders with ``samples`` in them.

    Args:
        root: any path.
    """
    if not root.is_dir():
        return False
    return any(path.is_dir() and _is_number(path.name) and (path / SAMPLES).is_dir() for path in root.iterdir())


def _is_number(name: str) -> bool:
    return re.fullmatch(r"[0-9]+", name) is not None


def read_folders(root: Path) -> list[FoundFolder]:
    """The numbered folders of a folder, in the order of their numbers.

    Args:
        root: folder in the released layout.

    Raises:
        UsageError: two folders of one number, or metadata that is none.
    """
    found: dict[int, FoundFolder] = {}
    for path in sorted(p for p in root.iterdir() if p.is_dir() and _is_number(p.name)):
        index = int(path.name)
        if index in found:
            raise UsageError(f"both {found[index].path.name} and {path.name} are prompt {index}; keep one of them")
        metadata = read_metadata(path / METADATA)[0] if (path / METADATA).is_file() else None
        samples = path / SAMPLES
        images = tuple(sorted(numbered_images(samples))) if samples.is_dir() else ()
        found[index] = FoundFolder(index=index, path=path, metadata=metadata, images=images)
    return [found[index] for index in sorted(found)]


def user_images(folders: Iterable[FoundFolder], prompts: Mapping[int, tuple[str, Metadata]]) -> list[UserImage]:
    """Which image of which prompt every file is.

    Args:
        folders: as read.
        prompts: prompt id and prompt by index.

    Raises:
        UsageError: a folder whose metadata is of another prompt than asked: scores would be of a mixture.
    """
    images = UserImages()
    for folder in folders:
        if folder.index not in prompts:
            continue
        prompt_id, asked = prompts[folder.index]
        if folder.metadata is not None and not _same(folder.metadata, asked):
            raise UsageError(
                f"{folder.path / METADATA}: the folder is of {folder.metadata['prompt']!r}, and prompt {folder.index} "
                f"is {asked['prompt']!r}. If the images answer other prompts, name their list: --metadata FILE, or "
                "--draw N for another draw of ours"
            )
        for position, (_, path) in enumerate(folder.images):
            images.add(prompt_id, position, path)
    return [UserImage(prompt_id=p, index=i, path=str(path)) for (p, i), path in images.files.items()]


def _same(a: Metadata, b: Metadata) -> bool:
    """Whether two prompts ask for the same; the text may have been rewritten."""
    names = ("tag", "include", "exclude")
    return [a.get(name) for name in names] == [b.get(name) for name in names]


# -------------------------------------------------------------------------------------------------------------- results
@dataclass(frozen=True, kw_only=True)
class ResultLine:
    """A line of the released results.

    Attributes:
        filename: the image.
        tag: task of its prompt.
        prompt: the prompt.
        correct: whether the released rules call it right.
        metadata: JSON text of the prompt; lines with the same text are of one prompt.
    """

    filename: str
    tag: str
    prompt: str
    correct: bool
    metadata: str


def result_line(
    filename: str,
    metadata: Metadata,
    correct: bool,
    reason: str,
    details: Mapping[str, Sequence[Sequence[float]]],
) -> str:
    """A line as the released evaluation writes it, without its line end.

    Args:
        filename: of the image.
        metadata: the prompt.
        correct: whether the image is right.
        reason: what is wrong, one line each.
        details: by class, (x0, y0, x1, y1, score) of each object.
    """
    return json.dumps(
        {
            "filename": filename,
            "tag": metadata["tag"],
            "prompt": metadata["prompt"],
            "correct": correct,
            "reason": reason,
            "metadata": json.dumps(dict(metadata)),
            "details": json.dumps({label: [list(box) for box in boxes] for label, boxes in details.items()}),
        }
    )


def read_results(path: Path) -> list[ResultLine]:
    """Lines of results of the released evaluation, ours or another's.

    Args:
        path: the file, JSON lines.

    Raises:
        UsageError: no such file, or a line that is none.
    """
    results = []
    for number, text in enumerate(read_lines(path, "results of GenEval"), start=1):
        where = f"{path}, line {number}"
        try:
            record: Any = parse_json(text)
        except ValueError as err:
            raise UsageError(f"{where}: no JSON ({str(err)[:200]})") from None
        needed = ("filename", "tag", "prompt", "correct", "metadata")
        if not isinstance(record, dict) or not set(needed) <= set(record):
            raise UsageError(f"{where}: expected {', '.join(needed)} (and reason, details), as the released evaluation")
        if str(record["tag"]) not in TASKS or not isinstance(record["correct"], bool):
            raise UsageError(f"{where}: tag is one of {', '.join(TASKS)}, and correct true or false")
        results.append(
            ResultLine(
                filename=str(record["filename"]),
                tag=record["tag"],
                prompt=str(record["prompt"]),
                correct=record["correct"],
                metadata=str(record["metadata"]),
            )
        )
    if not results:
        raise UsageError(f"{path}: no results in it")
    return results
