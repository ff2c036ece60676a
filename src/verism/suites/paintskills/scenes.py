"""The scenes of a PaintSkills version: which exist, in what order, with what words.

Uniform by construction: every cell (object x attribute x relation) has the same number of scenes, for each template;
backgrounds are dealt out evenly. Ids and order depend on the version alone, random choices also on the seed, and train
and val never share a seed: the split is part of what the seed of a scene is made of.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from verism.records import Prompt, Scene, SceneObject
from verism.suites.paintskills.boxes import Expected
from verism.suites.paintskills.skills import skill
from verism.suites.paintskills.vocabulary import Version

__all__ = [
    "Split",
    "build_scenes",
    "empty_scenes",
    "expected_of",
    "facets_of",
    "factor_counts",
    "prompt_of",
    "sample_scenes",
    "scene_seed",
    "split_of",
    "spread",
]

Split = Literal["train", "val"]


def split_of(name: str) -> Split:
    """``train`` or ``val``; papers say "test" for the files named val.

    Raises:
        ValueError: another name.
    """
    if name in ("val", "test"):
        return "val"
    if name == "train":
        return "train"
    raise ValueError(f"unknown split {name!r}; choose train, val or test (which is another name of val)")


def scene_seed(version: str, scene_id: str, seed: int) -> int:
    """The seed of one scene: a hash, so that neighbouring ids and seeds have nothing in common. 63 bits."""
    digest = hashlib.blake2b(f"{version}/{scene_id}/{seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def build_scenes(version: Version, skill_name: str, split: Split, *, seed: int = 0) -> list[Scene]:
    """All scenes of one skill and split, in the published order: template, repeat, then the factors.

    Raises:
        ValueError: the version has no such skill.
    """
    _check_skill(version, skill_name)
    design = _Design(version, skill_name, split, seed)
    return [design.scene(index) for index in range(design.total)]


def sample_scenes(version: Version, skill_name: str, split: Split, limit: int | None, *, seed: int = 0) -> list[Scene]:
    """``limit`` of the scenes of one skill and split, those that ``spread`` takes; no others are built.

    Args:
        version: of the data set.
        skill_name: one of its skills.
        split: ``train`` or ``val``.
        limit: scenes at most, at least 1; None for all.
        seed: of the scenes and of which are taken.

    Raises:
        ValueError: the version has no such skill, or a limit below 1.
    """
    _check_skill(version, skill_name)
    design = _Design(version, skill_name, split, seed)
    if limit is None or limit >= design.total:
        return [design.scene(index) for index in range(design.total)]
    # All scenes of a cell have the same facets but for the background.
    of_cells = [_facets(skill_name, objects) for objects in design.objects]
    codes = _codes(of_cells)
    every = np.arange(design.total)
    backgrounds = _codes([{"background": version.backgrounds[b]} for b in design.backgrounds])
    codes = np.concatenate([codes[every % len(of_cells)], backgrounds], axis=1)
    return [design.scene(index) for index in _evenly(codes, limit, skill_name, seed)]


def _check_skill(version: Version, skill_name: str) -> None:
    if skill_name not in (*version.skills, *version.optional_skills):
        raise ValueError(
            f"{version.name} has no skill {skill_name!r}; it has {[*version.skills, *version.optional_skills]}"
        )


class _Design:
    """All scenes of one skill and split, of which ``scene`` builds those that are asked for.

    Attributes:
        objects: of each cell, at their usual size.
        backgrounds: index of the background of each scene.
        total: number of scenes.
    """

    def __init__(self, version: Version, skill_name: str, split: Split, seed: int) -> None:
        the_skill = skill(skill_name)
        self._cells = list(the_skill.cells(version))
        self.objects = [the_skill.objects(cell, version) for cell in self._cells]
        self._words = cache(lambda cell: the_skill.words(self._cells[cell], version))
        self._templates = version.templates[skill_name]
        self._repeats = prompts_per_cell(version, skill_name, split) // len(self._templates)
        self.total = len(self._templates) * self._repeats * len(self._cells)
        stream = np.random.default_rng(scene_seed(version.name, f"{skill_name}_{split}", seed))
        self.backgrounds: list[int] = stream.permutation(np.arange(self.total) % len(version.backgrounds)).tolist()
        # Relative to the usual size of the simulator; the published units refer to other models. Four draws per scene,
        # more only where a skill of one's own needs them.
        width = max(4, *(len(o) for o in self.objects))
        self._scales = stream.uniform(0.85, 1.15, size=(self.total, width)).round(4)
        self._version, self._skill, self._split, self._seed = version, skill_name, split, seed

    def scene(self, index: int) -> Scene:
        """The scene at an index of the published order."""
        repeat, cell = divmod(index, len(self.objects))
        scene_id = f"{self._skill}_{self._split}_{index:05d}"
        return Scene(
            scene_id=scene_id,
            skill=self._skill,
            split=self._split,
            text=self._templates[repeat // self._repeats].format(**self._words(cell)),
            background=self._version.backgrounds[self.backgrounds[index]],
            objects=tuple(
                replace(obj, scale=scale)
                for obj, scale in zip(self.objects[cell], self._scales[index].tolist(), strict=False)
            ),
            seed=scene_seed(self._version.name, scene_id, self._seed),
        )


def expected_of_cells(version: Version, skill_name: str) -> list[Expected]:
    """What right images of the full prompt list of a skill show, once for each combination of factors.

    Args:
        version: of the data set.
        skill_name: one of its skills.
    """
    the_skill = skill(skill_name)
    return [_expected(the_skill.objects(cell, version)) for cell in the_skill.cells(version)]


def prompts_per_cell(version: Version, skill_name: str, split: Split) -> int:
    """Prompts of the full list for each combination of factors: one for each template and repeat.

    Args:
        version: of the data set.
        skill_name: one of its skills.
        split: ``train`` or ``val``.
    """
    return len(version.templates[skill_name]) * version.repeats[skill_name][0 if split == "train" else 1]


def empty_scenes(version: Version, split: Split, count: int, *, seed: int = 0) -> list[Scene]:
    """Scenes of the version's backgrounds with nothing in them: what a detector must learn to find empty.

    They are no skill and ask for nothing; the published data have none.
    """
    backgrounds = np.random.default_rng(scene_seed(version.name, f"empty_{split}", seed)).permutation(
        np.arange(count) % len(version.backgrounds)
    )
    ids = [f"empty_{split}_{index:05d}" for index in range(count)]
    return [
        Scene(
            scene_id=scene_id,
            skill="empty",
            split=split,
            text="",
            background=version.backgrounds[background],
            objects=(),
            seed=scene_seed(version.name, scene_id, seed),
        )
        for scene_id, background in zip(ids, backgrounds.tolist(), strict=True)
    ]


def facets_of(scene: Scene) -> dict[str, Any]:
    """What breakdowns group by, read off the scene itself."""
    if not scene.objects:
        return {"skill": scene.skill, "background": scene.background}
    return {**_facets(scene.skill, scene.objects), "background": scene.background}


def _facets(skill_name: str, objects: Sequence[SceneObject]) -> dict[str, Any]:
    """Facets of scenes of these objects, but for the background."""
    facets: dict[str, Any] = {"skill": skill_name, "object": objects[0].label}
    if skill_name == "count":
        facets["count"] = len(objects)
    if skill_name == "color":
        facets["color"] = objects[0].color
    if len(objects) > 1 and objects[1].relation is not None:
        facets["object_b"] = objects[1].label
        facets["relation"] = objects[1].relation.rpartition("_")[0]
    return facets


def expected_of(scene: Scene) -> Expected:
    """What a right image of the scene shows."""
    return _expected(scene.objects)


def _expected(objects: Sequence[SceneObject]) -> Expected:
    relation = next((o.relation for o in objects if o.relation is not None), None)
    color = objects[0].color
    return Expected(
        labels=tuple(o.label for o in objects),
        relation=None if relation is None else relation.rpartition("_")[0],
        color=None if color == "plain" else color,
    )


def prompt_of(scene: Scene, suite: str, n_images: int = 1) -> Prompt:
    """The prompt of a scene; what the rules need travels in ``spec``."""
    expected = expected_of(scene)
    return Prompt(
        prompt_id=scene.scene_id,
        suite=suite,
        text=scene.text,
        facets=facets_of(scene),
        spec={"labels": list(expected.labels), "relation": expected.relation, "color": expected.color},
        n_images=n_images,
        scene=scene,
    )


def spread(scenes: Sequence[Scene], limit: int | None, *, seed: int = 0) -> list[Scene]:
    """``limit`` scenes that cover every factor as evenly as can be, in their original order.

    Scenes are taken one by one; each time one whose facet values have been taken least often so far, at random
    (seeded) among equals. Small samples of a big factorial design stay balanced in every margin.

    Raises:
        ValueError: a limit below 1.
    """
    if limit is None or limit >= len(scenes):
        return list(scenes)
    chosen = _evenly(_codes([facets_of(scene) for scene in scenes]), limit, scenes[0].skill, seed)
    return [scenes[i] for i in chosen]


def _codes(facets: Sequence[Mapping[str, Any]]) -> NDArray[np.intp]:
    """A number for each value of each facet, shape (scenes, facets)."""
    names = sorted({name for f in facets for name in f})
    return np.stack(
        [np.unique([str(f.get(name)) for f in facets], return_inverse=True)[1].ravel() for name in names], axis=1
    )


def _evenly(codes: NDArray[np.intp], limit: int, skill_name: str, seed: int) -> list[int]:
    """Indices of ``limit`` scenes chosen as ``spread`` says, by the numbers of their facets' values."""
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    # The skill is part of the stream, or every skill would draw the same numbers.
    rng = np.random.default_rng([seed, 0x5BEAD, *skill_name.encode()])
    count, names = codes.shape
    taken = [np.zeros(codes[:, k].max() + 1) for k in range(names)]
    free = np.ones(count, dtype=bool)
    tie = rng.random(count)
    for _ in range(limit):
        # Squares: one value taken twice more than the others is worse than two values once more each.
        cost = sum(((taken[k] + 1) ** 2 - taken[k] ** 2)[codes[:, k]] for k in range(names))
        cost = np.where(free, cost, np.inf)
        best = int(np.argmin(np.where(cost == cost.min(), tie, np.inf)))
        free[best] = False
        for k in range(names):
            taken[k][codes[best, k]] += 1
    indices: list[int] = np.flatnonzero(~free).tolist()
    return indices


def factor_counts(scenes: Sequence[Scene]) -> Mapping[str, Counter[tuple[Any, ...]]]:
    """Per skill, how many scenes each cell has: equal everywhere if the set is uniform."""
    counts: dict[str, Counter[tuple[Any, ...]]] = {}
    for scene in scenes:
        cell = tuple(v for k, v in facets_of(scene).items() if k not in ("skill", "background"))
        counts.setdefault(scene.skill, Counter())[cell] += 1
    return counts
