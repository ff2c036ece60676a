"""The prompts of T2I-CompBench, out of the user's copy of its files, checked by the counts that are known of them.

Prompts are lines of text files, a file for each category and split (``color_val.txt``). What a prompt asks for in
detail comes from its template, from lists of complex prompts, and from noun phrases (``phrases``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import read_lines
from verism.records import Scene
from verism.suites.compbench.numeracy import asked_numbers
from verism.suites.compbench.spatial import depth_of_prompt, detector_name, relation_of_prompt
from verism.suites.compbench.vocabulary import BOUND, CATEGORIES, RELATIONS, has_exact_label, labels_containing
from verism.suites.prompt_lists import file_hash

__all__ = [
    "IMAGES_EACH",
    "SPLITS",
    "Asked",
    "Limit",
    "prompt_file",
    "read_category",
    "structure_limits",
    "structure_problem",
]

SPLITS: tuple[str, ...] = ("val", "train")
IMAGES_EACH = 10
COUNTS: Mapping[str, int] = {"val": 300, "train": 700}
SEEN = 200  # the first prompts of val, whose pairs are in train
OLDER_NAMES: Mapping[str, tuple[str, ...]] = {"non_spatial": ("action",)}  # until December 2023
ROUTE_FILES: Mapping[str, str] = {"spatial": "spatial", "action": "action", "both": "spatialaction"}
ROUTES: Mapping[str, int] = {"spatial": 58, "action": 212, "both": 30}
RELATION_COUNTS: Mapping[str, Mapping[str, int]] = {
    "spatial": {
        "on the left of": 51, "on the right of": 56, "on the top of": 56, "on the bottom of": 52, "next to": 24,
        "near": 24, "on side of": 37,
    },
    "3d_spatial": {"in front of": 102, "behind": 83, "hidden": 115},
}  # fmt: skip
DISTINCT: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("color", "val"): (300, 295),  # 295 until 3 September 2025: both files circulate
    ("color", "train"): (679,),
    ("shape", "train"): (685,),
    ("texture", "train"): (695,),
}
TEMPLATE = re.compile(
    r"an? (?P<a>.+?) (?P<relation>{}) an? (?P<b>.+?)\.?".format(
        "|".join(re.escape(r) for r in (*RELATIONS, "in front of", "behind", "hidden by"))
    )
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A prompt, and what is known of what it asks.

    Attributes:
        category: one of ``CATEGORIES``.
        text: the prompt.
        index: line in its file, from 0.
        relation: relation in the image or in depth that the released code reads out of it; None without any.
        names: of the two objects of a relation; None where they could not be told.
        numbers: (object, number) pairs of numeracy prompts.
        phrases: noun phrases; None where nobody parsed it.
        without_adjectives: its text without adjectives, which complex prompts' CLIPScore takes; None where nobody
            parsed it.
        route: list of complex prompts that it stands in: ``spatial``, ``action`` or ``both``; empty for others.
        seen: ``seen`` or ``unseen`` in training prompts, where that is known; else empty.
        shows: for each phrase the properties of the object meant (fields of ``SceneFact``), where we wrote it.
        scene: what it may look like, for the simulator; None for prompts of others.
    """

    category: str
    text: str
    index: int
    relation: str | None = None
    names: tuple[str, str] | None = None
    numbers: tuple[tuple[str, int], ...] = ()
    phrases: tuple[str, ...] | None = None
    without_adjectives: str | None = None
    route: str = ""
    seen: str = ""
    shows: tuple[Mapping[str, str], ...] = ()
    scene: Scene | None = field(default=None, compare=False)

    def spec(self) -> dict[str, Any]:
        """What rules need, as plain JSON."""
        return {
            "category": self.category,
            "index": self.index,
            "relation": self.relation,
            "names": None if self.names is None else list(self.names),
            "numbers": [list(pair) for pair in self.numbers],
            "phrases": None if self.phrases is None else list(self.phrases),
            "without_adjectives": self.without_adjectives,
            "route": self.route,
            "seen": self.seen,
            "shows": [dict(shown) for shown in self.shows],
        }

    @staticmethod
    def of_spec(text: str, spec: Mapping[str, Any]) -> Asked:
        """What ``spec`` wrote, with the text of the prompt."""
        names = spec["names"]
        return Asked(
            category=spec["category"],
            text=text,
            index=spec["index"],
            relation=spec["relation"],
            names=None if names is None else (names[0], names[1]),
            numbers=tuple((name, number) for name, number in spec["numbers"]),
            phrases=None if spec["phrases"] is None else tuple(spec["phrases"]),
            without_adjectives=spec["without_adjectives"],
            route=spec["route"],
            seen=spec["seen"],
            shows=tuple(spec["shows"]),
        )


def prompt_file(folder: Path, category: str, split: str) -> Path:
    """The file of a category; under its older name where only that is there.

    Args:
        folder: the user's copy of the data.
        category: one of ``CATEGORIES``.
        split: ``val`` or ``train``.
    """
    names = [f"{name}_{split}.txt" for name in (category, *OLDER_NAMES.get(category, ()))]
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[0])


def refusal(path: Path, what: str, split: str, *, count: int | None = None) -> UsageError:
    """An error that says what the released file is like."""
    lines = COUNTS[split] if count is None else count
    found = f" (this one has SHA-256 {file_hash(path)[:12]}...)" if path.is_file() else ""
    return UsageError(
        f"{path}: {what}{found}. Expected the released file of T2I-CompBench (examples/dataset): {lines} lines, one "
        "column, a prompt each; no hash of it is published. If other prompts are meant, add --own true; to leave "
        "categories out, name those wanted with --category"
    )


def read_category(folder: Path, category: str, split: str) -> list[Asked]:
    """The prompts of a category, in the order of their file.

    Args:
        folder: the user's copy of the data.
        category: one of ``CATEGORIES``.
        split: ``val`` or ``train``.

    Raises:
        UsageError: no such file, or, of complex prompts, no lists; what is expected is named.
    """
    path = prompt_file(folder, category, split)
    if not path.is_file():
        raise refusal(path, "no such file", split)
    lines = read_lines(path, "prompts of T2I-CompBench")
    if not lines:
        raise refusal(path, "no prompts in it", split)
    routes = _routes(folder, split, lines) if category == "complex" else {}
    return [_asked(category, text, index, split, routes.get(text, ""), len(lines)) for index, text in enumerate(lines)]


def _asked(category: str, text: str, index: int, split: str, route: str, count: int) -> Asked:
    relation, names = None, None
    if category == "spatial":
        relation, names = relation_of_prompt(text), _names(text)
    elif category == "3d_spatial":
        relation, names = depth_of_prompt(text), _names(text)
    elif category == "complex":
        relation = relation_of_prompt(text)
    seen = ""
    if category in BOUND and split == "val" and count == COUNTS[split]:
        seen = "seen" if index < SEEN else "unseen"
    numbers = tuple((c.name, c.asked) for c in asked_numbers(text)) if category == "numeracy" else ()
    return Asked(
        category=category,
        text=text,
        index=index,
        relation=relation,
        names=names,
        numbers=numbers,
        route=route,
        seen=seen,
    )


def _names(text: str) -> tuple[str, str] | None:
    """The objects of a template prompt: the last word of each side, as a parser of nouns gives them."""
    match = TEMPLATE.fullmatch(text.strip().lower())
    return None if match is None else (match["a"].split()[-1], match["b"].split()[-1])


def _routes(folder: Path, split: str, lines: Sequence[str]) -> dict[str, str]:
    """The list that each complex prompt stands in; those in none have all three parts, as in ``both``."""
    routes = dict.fromkeys(lines, "both")
    for route, name in ROUTE_FILES.items():
        path = folder / f"complex_{split}_{name}.txt"
        if not path.is_file():
            raise refusal(
                path, "no such file; it says which parts complex prompts are scored by", split, count=ROUTES[route]
            )
        for text in read_lines(path, "a list of complex prompts"):
            if text not in routes:
                raise refusal(path, f"{text!r:.120} is none of the complex prompts", split, count=ROUTES[route])
            routes[text] = route
    return routes


def structure_problem(asked: Mapping[str, Sequence[Asked]], split: str, folder: Path) -> str:
    """How prompts differ from the released ones, in words; empty if they do not, as far as counts can tell.

    Args:
        asked: prompts by category.
        split: ``val`` or ``train``.
        folder: where they are from, for the message.
    """
    for category, prompts in asked.items():
        name = prompt_file(folder, category, split).name
        if len(prompts) != COUNTS[split]:
            return f"{name} has {len(prompts)} prompts, expected {COUNTS[split]}"
        distinct = len({p.text for p in prompts})
        usual = (COUNTS[split],) if split == "val" else ()
        allowed = DISTINCT.get((category, split), usual)
        if allowed and distinct not in allowed:
            return f"{name} has {distinct} distinct prompts, expected {' or '.join(map(str, allowed))}"
        if split == "val" and category in RELATION_COUNTS:
            found = Counter(p.relation for p in prompts)
            for relation, number in RELATION_COUNTS[category].items():
                if found[relation] != number:
                    return f"{name} has {found[relation]} prompts with {relation!r}, expected {number}"
        if split == "val" and category == "complex":
            routes = Counter(p.route for p in prompts)
            if dict(routes) != dict(ROUTES):
                return f"the lists of {name} hold {dict(routes)}, expected {dict(ROUTES)}"
    return ""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A number of prompts that the released scores cannot do justice to.

    Attributes:
        category: of the prompts.
        what: in words.
        found: number of prompts.
        of: number that was looked at.
        expected: the number known of the released val files; None where none is.
    """

    category: str
    what: str
    found: int
    of: int
    expected: int | None = None


def structure_limits(asked: Mapping[str, Sequence[Asked]]) -> list[Limit]:
    """Prompts that can never score as released, found by applying the released rules to the released labels.

    Args:
        asked: prompts by category.
    """
    limits = []
    for category in CATEGORIES:
        prompts = asked.get(category, ())
        if category == "spatial" and prompts:
            never = [p for p in prompts if p.names and not all(has_exact_label(detector_name(n)) for n in p.names)]
            what = "an object's name is no label of the released detector: always 0"
            limits.append(Limit(category=category, what=what, found=len(never), of=len(prompts), expected=100))
            people = [p for p in prompts if p.names and len({detector_name(n) for n in p.names}) == 1]
            what = "both objects are the same label, so the same box: the relation never holds"
            limits.append(Limit(category=category, what=what, found=len(people), of=len(prompts)))
        if category == "3d_spatial" and prompts:
            never = [p for p in prompts if p.names and not all(labels_containing(detector_name(n)) for n in p.names)]
            what = "no label contains an object's name: the relation is never scored"
            limits.append(Limit(category=category, what=what, found=len(never), of=len(prompts), expected=20))
        if category == "numeracy" and prompts:
            silent = [p for p in prompts if not p.numbers]
            what = "no listed object behind a number: the released code divides by zero"
            limits.append(Limit(category=category, what=what, found=len(silent), of=len(prompts)))
        if category == "complex" and prompts:
            scored = [p for p in prompts if p.route in ("spatial", "both")]
            what = "scored by the relation in the image"
            limits.append(Limit(category=category, what=what, found=len(scored), of=len(prompts), expected=88))
            parsed = [p for p in scored if p.phrases is not None]
            if parsed:
                able = [p for p in parsed if _can_score(p)]
                what = "of these, a score above 0 is possible"
                limits.append(Limit(category=category, what=what, found=len(able), of=len(parsed), expected=12))
        if category in (*BOUND, "complex"):
            parsed = [p for p in prompts if p.phrases is not None]
            if parsed:
                many = [p for p in parsed if len(p.phrases or ()) > 2]
                known = {"color": 43, "shape": 84, "texture": 60, "complex": 156}[category]
                what = "more than two noun phrases, so np_num 2 and 8 differ"
                limits.append(Limit(category=category, what=what, found=len(many), of=len(parsed), expected=known))
    return limits


def _can_score(asked: Asked) -> bool:
    labels = asked.names is not None and all(has_exact_label(detector_name(n)) for n in asked.names)
    return labels and asked.relation not in (None, "on top of")
