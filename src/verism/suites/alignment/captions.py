"""Prompts with reference captions: from COCO's annotation files, in the forms they are passed around in.

===============================  =====================================================================================
``dataset_coco.json``            Karpathy's splits: ``images`` with ``split`` and ``sentences``; one prompt per image
``captions_val2014.json``        COCO's own: ``images`` and ``annotations``; one prompt per image
``karpathy_test_text.json``      DALL-Eval's: a list of ``img_id`` and ``targets``
``uid_caption.csv``              DALL-Eval's, for R-precision: ``uid`` and ``caption``; any other prompt list as well
===============================  =====================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from verism.errors import UsageError
from verism.files import coco_captions, read_json
from verism.suites.prompt_lists import ListedPrompt, hash_order, read_prompt_list, text_list

__all__ = ["CaptionChoice", "coco_id", "read_annotations", "with_references"]

CaptionChoice = Literal["first", "random"]

FORMS = (
    "Karpathy's dataset_coco.json (an object with `images` that have `split` and `sentences`), COCO's "
    "captions (an object with `images` and `annotations`), a list of objects with `img_id` and `targets`, or a prompt "
    "list (.txt, .csv, .jsonl)"
)


def read_annotations(
    path: Path, *, split: str | None = None, caption: CaptionChoice | None = None, seed: int = 0
) -> list[ListedPrompt]:
    """The captions of a file: of each image one as the prompt, and all of them as references.

    Args:
        path: a caption file (``.json``, such as Karpathy's ``dataset_coco.json`` or COCO's own) or a prompt list.
        split: of Karpathy's file, ``test`` unless said otherwise; several as ``train+restval``. The other files have
            none.
        caption: which is the prompt: the ``first`` (as the scripts of DALL-Eval do, and the default for Karpathy's
            file), or a ``random`` one, by seed and image (the default for COCO's own files).
        seed: of the random choice of captions.

    Returns:
        In the file's order. Ids are file names without ending where the file tells them, so that images named alike
        are found.

    Raises:
        UsageError: not one of the forms; the message says which keys were expected, and what came.
    """
    if caption is not None and caption not in get_args(CaptionChoice):
        raise UsageError(f"caption must be one of {list(get_args(CaptionChoice))}, got {caption!r}")
    if path.suffix.lower() != ".json":
        if split is not None:
            raise UsageError(f"{path} has no splits; leave out the split {split!r}")
        return read_prompt_list(path)
    data = read_json(path, FORMS)
    if isinstance(data, dict) and isinstance(data.get("images"), list):
        if isinstance(data.get("annotations"), list):
            if split is not None:
                raise UsageError(f"{path} has no splits; leave out the split {split!r}, or give dataset_coco.json")
            return _coco(path, data, caption or "random", seed)
        return _karpathy(path, data["images"], split or "test", caption or "first", seed)
    if isinstance(data, list) and data and isinstance(data[0], dict) and "targets" in data[0]:
        if split is not None:
            raise UsageError(f"{path} has no splits; leave out the split {split!r}")
        return _targets(path, data, caption or "first", seed)
    came = f"an object with {sorted(data)[:8]}" if isinstance(data, dict) else f"a {type(data).__name__}"
    if isinstance(data, list) and data:
        came += f" whose first entry is {str(data[0])[:80]}"
    raise UsageError(f"{path}: expected {FORMS}; got {came}")


def _karpathy(
    path: Path, images: Sequence[Mapping[str, Any]], split: str, caption: CaptionChoice, seed: int
) -> list[ListedPrompt]:
    wanted = set(split.split("+"))
    splits: set[str] = set()
    listed = []
    for number, image in enumerate(images):
        where = f"{path}, images[{number}]"
        try:
            its_split, name, sentences = image["split"], str(image["filename"]), image["sentences"]
            captions = [str(sentence["raw"]).strip() for sentence in sentences]
        except (KeyError, TypeError) as err:
            raise UsageError(
                f"{where}: expected `split`, `filename` and `sentences` with `raw`, as in Karpathy's "
                f"dataset_coco.json; missing {err}"
            ) from err
        splits.add(its_split)
        if its_split in wanted:
            listed.append(_prompt(PurePosixPath(name).stem, captions, caption, seed, where))
    if unknown := sorted(wanted - splits):
        raise UsageError(f"{path} has no split {unknown[0]!r}; it has {sorted(splits)}")
    return _unique(path, listed)


def _coco(path: Path, data: Mapping[str, Any], caption: CaptionChoice, seed: int) -> list[ListedPrompt]:
    captions: dict[int | str, list[tuple[int, str]]] = {}
    for number, (image_id, text, annotation_id) in enumerate(coco_captions(data, path)):
        if annotation_id is None:
            raise UsageError(f"{path}, annotations[{number}]: expected `id`, as in COCO's captions_val2014.json")
        captions.setdefault(image_id, []).append((annotation_id, text.strip()))
    listed = []
    for number, image in enumerate(data["images"]):
        where = f"{path}, images[{number}]"
        if not isinstance(image, dict) or "id" not in image:
            raise UsageError(f"{where}: expected `id`, and `file_name` if there is one; got {str(image)[:80]}")
        name = PurePosixPath(str(image["file_name"])).stem if image.get("file_name") else str(image["id"])
        if image["id"] in captions:  # COCO's own lists of images hold some without captions
            texts = [text for _, text in sorted(captions[image["id"]])]
            listed.append(_prompt(name, texts, caption, seed, where))
    if not listed:
        raise UsageError(f"{path}: no image has a caption; `annotations` name other images than `images`")
    return _unique(path, listed)


def _targets(path: Path, rows: Sequence[Any], caption: CaptionChoice, seed: int) -> list[ListedPrompt]:
    listed = []
    for number, row in enumerate(rows):
        where = f"{path}, entry {number}"
        if not isinstance(row, dict) or "img_id" not in row or "targets" not in row:
            raise UsageError(f"{where}: expected `img_id` and `targets`, got {str(row)[:80]}")
        texts = list(text_list(row["targets"], f"{where}: `targets`"))
        listed.append(_prompt(str(row["img_id"]), texts, caption, seed, where))
    return _unique(path, listed)


def _prompt(prompt_id: str, captions: Sequence[str], caption: CaptionChoice, seed: int, where: str) -> ListedPrompt:
    captions = [text for text in captions if text]
    if not captions:
        raise UsageError(f"{where}: the image has no caption; remove it from the file")
    text = captions[0]
    if caption == "random":
        text = min(captions, key=lambda text: hash_order(f"{prompt_id}/{text}", seed))
    return ListedPrompt(prompt_id=prompt_id, text=text, references=tuple(captions))


def _unique(path: Path, listed: list[ListedPrompt]) -> list[ListedPrompt]:
    seen: set[str] = set()
    for prompt in listed:
        if prompt.prompt_id in seen:
            raise UsageError(f"{path}: the image {prompt.prompt_id!r} is there twice; each needs one entry")
        seen.add(prompt.prompt_id)
    return listed


def coco_id(prompt_id: str) -> int | None:
    """The number of a COCO image, from ``COCO_val2014_000000391895``, ``000000391895``, ``391895`` (``_mscoco_2``)."""
    match = re.fullmatch(r"(?:COCO_\w+?_0*|0*)(\d+)(?:_mscoco_\d+)?", prompt_id)
    return int(match[1]) if match else None


def with_references(
    prompts: Sequence[ListedPrompt], annotated: Sequence[ListedPrompt], *, source: Path
) -> list[ListedPrompt]:
    """Prompts with all the captions of their COCO images; those of unknown images keep the references they have.

    Raises:
        UsageError: none of the prompts' images is among the annotations.
    """
    by_image = {coco_id(a.prompt_id): a.references for a in annotated}
    by_image.pop(None, None)
    found_value = 0
    result = []
    for prompt in prompts:
        # The place in a list is no COCO image's number, however much it looks like one.
        references = None if prompt.numbered else by_image.get(coco_id(prompt.prompt_id))
        if references is not None:
            found_value += 1
            prompt = replace(prompt, references=references)
        result.append(prompt)
    if not found_value:
        example = prompts[0].prompt_id if prompts else ""
        raise UsageError(
            f"{source} has no captions of the prompts' images: expected ids such as COCO_val2014_000000391895, "
            f"391895_mscoco_2 or 391895, got {example!r}. Leave out one of the two files, or name the prompts so"
        )
    return result
