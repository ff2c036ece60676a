"""A folder of prompts with the structure of the released ones; the words are ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import cycle, product
from pathlib import Path

from verism.suites.compbench.prompts import RELATION_COUNTS, ROUTES
from verism.suites.compbench.vocabulary import SPATIAL_OBJECTS

ADJECTIVES = ("red", "blue", "green", "round", "wooden", "tall", "metallic", "soft")
NOUNS = ("cup", "vase", "chair", "ball", "plate", "lamp", "desk", "bowl")
FIRST = "white"  # an object of its own for each category, so that no two files share prompts


def bound(category: str) -> list[str]:
    pairs = [(a, n, b, m) for a, n, b, m in product(ADJECTIVES, NOUNS, ADJECTIVES, NOUNS) if n != m]
    step = {"color": 5, "shape": 7, "texture": 11}[category]
    return [f"a {a} {n} and a {b} {m}" for a, n, b, m in pairs[: 300 * step : step]]


def related(category: str) -> list[str]:
    pairs = cycle([(a, b) for a, b in product(SPATIAL_OBJECTS, SPATIAL_OBJECTS) if a != b])
    words = {"hidden": "hidden by"}
    return [
        f"a {a} {words.get(relation, relation)} a {b}"
        for relation, number in RELATION_COUNTS[category].items()
        for a, b in (next(pairs) for _ in range(number))
    ]


def complex_prompts() -> dict[str, list[str]]:
    made, numbers = {}, iter(range(300))
    for route, count in ROUTES.items():
        made[route] = [
            f"the {ADJECTIVES[k % 8]} cup number {k} is next to the {ADJECTIVES[(k + 3) % 8]} vase"
            for k in (next(numbers) for _ in range(count))
        ]
    return made


def write_data(folder: Path) -> Path:
    """Write the files of val."""
    folder.mkdir(parents=True, exist_ok=True)
    lists = complex_prompts()
    numbers = [f"{a} birds and {b} {n}s" for a, b, n in product(("two", "three", "four"), ("five", "six"), range(50))]
    counted = [t.replace(f" {k}s", f" dogs in row {k}") for t, k in zip(numbers, cycle(range(50)))]
    files: Mapping[str, list[str]] = {
        **{f"{c}_val": bound(c) for c in ("color", "shape", "texture")},
        **{f"{c}_val": related(c) for c in ("spatial", "3d_spatial")},
        "numeracy_val": counted,
        "non_spatial_val": [f"A person is looking at painting number {k}." for k in range(300)],
        "complex_val": [text for some in lists.values() for text in some],
        "complex_val_spatial": lists["spatial"],
        "complex_val_action": lists["action"],
        "complex_val_spatialaction": lists["both"],
    }
    for name, lines in files.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def write_phrases_of(folder: Path, path: Path) -> Path:
    """Write noun phrases of these prompts, by their template."""
    rows = []
    for category in ("color", "shape", "texture"):
        for text in (folder / f"{category}_val.txt").read_text(encoding="utf-8").splitlines():
            rows.append({"prompt": text, "phrases": text.split(" and "), "parser": "by hand"})
    for text in (folder / "complex_val.txt").read_text(encoding="utf-8").splitlines():
        first, second = text.split(" is next to ")
        plain = " ".join(word for word in text.split() if word not in ADJECTIVES)
        rows.append(
            {
                "prompt": text,
                "phrases": [first, second],
                "objects": ["cup", "vase"],
                "without_adjectives": plain,
                "parser": "by hand",
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
