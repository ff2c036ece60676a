"""The prompts of GenEval: drawn again as they were drawn, checked by their hash, and drawn afresh by other seeds.

One generator of random numbers serves the tasks one after another; of each task 100 prompts are drawn (80 for single
objects: every class once) and exact repetitions left out. With seed 43 that gives the 553 published prompts, byte for
byte; any other seed gives a benchmark of the same make whose prompts no training set can know.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verism.errors import UsageError
from verism.files import parse_json, read_lines
from verism.suites.geneval.vocabulary import CLASSES, COLORS, NUMBERS, RELATIONS, TASKS, plural, with_article

__all__ = [
    "METADATA_SHA256",
    "PUBLISHED_SEED",
    "TEXTS_SHA256",
    "Metadata",
    "draw_prompts",
    "metadata_lines",
    "read_metadata",
    "sha256_of",
]

Metadata = Mapping[str, Any]
"""One prompt as the released file has it: ``tag``, ``include``, perhaps ``exclude``, ``prompt``."""

PUBLISHED_SEED = 43
DRAWN = 100  # prompts of a task before repetitions are left out
N_PUBLISHED = 553
METADATA_SHA256 = "5c48e0813e812e3c373fa5c8ed07a8f0a483be30272b4427b0559c8048e67c13"
TEXTS_SHA256 = "55b6e3650e980c13daf30569eb666e000faf19bfc2b7b4cbe999fcdb7aa9d680"
COLUMNS = "tag, include, exclude (counting only) and prompt"


def draw_prompts(seed: int = PUBLISHED_SEED, *, n: int = DRAWN) -> list[dict[str, Any]]:
    """The prompts of all tasks, in the published order.

    Args:
        seed: of the draw; 43 gives the published ones.
        n: prompts drawn of each task, before repetitions are left out; single objects are the classes, once each.

    Source: released sampling of Ghosh et al. 2023: the order of the calls is what makes prompts equal.
    """
    rng = np.random.default_rng(seed)
    drawers: dict[str, Callable[[np.random.Generator, int], Iterator[dict[str, Any]]]] = {
        "single_object": _single_object,
        "two_object": _two_object,
        "counting": _counting,
        "colors": _colors,
        "position": _position,
        "color_attr": _color_attr,
    }
    prompts: list[dict[str, Any]] = []
    for task in TASKS:
        seen: dict[str, dict[str, Any]] = {}
        for prompt in drawers[task](rng, n):
            seen.setdefault(json.dumps(prompt), prompt)
        prompts += seen.values()
    return prompts


def _prompt(tag: str, include: list[dict[str, Any]], text: str, exclude: Any = None) -> dict[str, Any]:
    middle = {} if exclude is None else {"exclude": exclude}
    return {"tag": tag, "include": include, **middle, "prompt": f"a photo of {text}"}


def _single_object(rng: np.random.Generator, n: int) -> Iterator[dict[str, Any]]:
    del n
    for k in rng.choice(len(CLASSES), size=len(CLASSES), replace=False):
        yield _prompt("single_object", [{"class": CLASSES[k], "count": 1}], with_article(CLASSES[k]))


def _two_object(rng: np.random.Generator, n: int) -> Iterator[dict[str, Any]]:
    for _ in range(n):
        a, b = (CLASSES[k] for k in rng.choice(len(CLASSES), size=2, replace=False))
        include = [{"class": a, "count": 1}, {"class": b, "count": 1}]
        yield _prompt("two_object", include, f"{with_article(a)} and {with_article(b)}")


def _counting(rng: np.random.Generator, n: int) -> Iterator[dict[str, Any]]:
    for _ in range(n):
        name = CLASSES[rng.choice(len(CLASSES))]
        count = int(rng.integers(2, 4, endpoint=True))
        include, exclude = [{"class": name, "count": count}], [{"class": name, "count": count + 1}]
        yield _prompt("counting", include, f"{NUMBERS[count]} {plural(name)}", exclude)


def _colors(rng: np.random.Generator, n: int) -> Iterator[dict[str, Any]]:
    for _ in range(n):
        name = CLASSES[rng.choice(len(CLASSES) - 1) + 1]  # the first, person, never has a colour
        color = COLORS[rng.choice(len(COLORS))]
        include = [{"class": name, "count": 1, "color": color}]
        yield _prompt("colors", include, with_article(f"{color} {name}"))


def _position(rng: np.random.Generator, n: int) -> Iterator[dict[str, Any]]:
    for _ in range(n):
        placed, reference = (CLASSES[k] for k in rng.choice(len(CLASSES), size=2, replace=False))
        relation = RELATIONS[rng.choice(len(RELATIONS))]
        # The object that the other is placed by comes first, in the reverse of the text's order.
        include = [{"class": reference, "count": 1}, {"class": placed, "count": 1, "position": [relation, 0]}]
        yield _prompt("position", include, f"{with_article(placed)} {relation} {with_article(reference)}")


def _color_attr(rng: np.random.Generator, n: int) -> Iterator[dict[str, Any]]:
    for _ in range(n):
        names = [CLASSES[k + 1] for k in rng.choice(len(CLASSES) - 1, size=2, replace=False)]
        colors = [COLORS[k] for k in rng.choice(len(COLORS), size=2, replace=False)]
        include = [{"class": c, "count": 1, "color": color} for c, color in zip(names, colors, strict=True)]
        words = [with_article(f"{color} {name}") for name, color in zip(names, colors, strict=True)]
        yield _prompt("color_attr", include, " and ".join(words))


def metadata_lines(prompts: Sequence[Metadata]) -> str:
    """The text of ``evaluation_metadata.jsonl``: a JSON object a line, a line end behind the last."""
    return "".join(json.dumps(dict(prompt)) + "\n" for prompt in prompts)


def sha256_of(text: str) -> str:
    """SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


# ---------------------------------------------------------------------------------------------------------------- files
def read_metadata(path: Path) -> list[dict[str, Any]]:
    """Prompts out of a file in the format of ``evaluation_metadata.jsonl``.

    Args:
        path: the file; or a folder's ``metadata.jsonl``, which has one line.

    Raises:
        UsageError: no such file, or a line that is no prompt: the line, the columns expected, and the number of lines
            and the hash of the published file are named.
    """
    prompts = []
    for number, line in enumerate(read_lines(path, "GenEval's metadata"), start=1):
        where = f"{path}, line {number}"
        try:
            record = parse_json(line)
        except ValueError as err:
            raise _refusal(where, f"no JSON ({str(err)[:200]})") from None
        prompts.append(check_metadata(record, where))
    if not prompts:
        raise _refusal(str(path), "nothing in it")
    return prompts


def _refusal(where: str, what: str) -> UsageError:
    return UsageError(
        f"{where}: {what}. Expected a JSON object a line with {COLUMNS}, as in evaluation_metadata.jsonl (published: "
        f"{N_PUBLISHED} lines, SHA-256 {METADATA_SHA256[:12]}...; write it with: verism geneval prompts --out DIR)"
    )


def check_metadata(record: Any, where: str) -> dict[str, Any]:
    """A prompt as the released file has it, checked.

    Args:
        record: what a line holds.
        where: file and line, for messages.

    Raises:
        UsageError: a field that is missing or of another kind, an unknown class, colour or relation.
    """
    if not isinstance(record, dict) or not {"tag", "include", "prompt"} <= set(record):
        columns = ", ".join(map(str, record)) if isinstance(record, dict) else type(record).__name__
        raise _refusal(where, f"no prompt of GenEval, it has {columns[:200] or 'nothing'}")
    if not isinstance(record["prompt"], str) or str(record["tag"]) not in TASKS:
        raise _refusal(where, f"tag {record['tag']!r:.80} is none of {', '.join(TASKS)}, or the prompt is no text")
    if not record["include"]:
        raise _refusal(where, "nothing to include")
    for kind in ("include", "exclude"):
        entries = record.get(kind, [])
        if not isinstance(entries, list):
            raise _refusal(where, f"{kind} is no list")
        for number, entry in enumerate(entries):
            if problem := _entry_problem(entry, number):
                raise _refusal(where, f"{kind}: {problem}")
    return record


def _entry_problem(entry: Any, number: int) -> str:
    if not isinstance(entry, dict) or str(entry.get("class")) not in CLASSES:
        return f"entry {number} has no class of GenEval: {str(entry)[:80]}"
    count = entry.get("count")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        return f"count of {entry['class']} is {count!r:.80}, not a whole number from 1"
    if "color" in entry and str(entry["color"]) not in COLORS:
        return f"unknown colour {entry['color']!r:.80}; there are {', '.join(COLORS)}"
    if "position" in entry:
        position = entry["position"]
        if not isinstance(position, list) or len(position) != 2 or str(position[0]) not in RELATIONS:
            return f"position {position!r:.80} is no [relation, number] with one of {', '.join(RELATIONS)}"
        if position[1] not in range(number):
            return f"position {position!r:.80} names no entry before its own"
    return ""
