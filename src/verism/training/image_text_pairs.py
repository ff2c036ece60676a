"""Images with their prompts, from data sets in the published PaintSkills layout: what a generator learns from.

``fraction`` is the training-scale study of Cho et al. (ICCV 2023, Table 5), which finetunes on 100, 50 and 10 per cent
of the train split. How the authors chose the part is not published; ours is spread evenly over the factors of each
skill, and the smaller part lies within the larger.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verism.errors import UsageError
from verism.records import Scene
from verism.suites.paintskills.layout import image_path, read_scenes, scenes_path, skills_in
from verism.suites.paintskills.scenes import facets_of, spread
from verism.suites.paintskills.vocabulary import VERSIONS, Version
from verism.training.scene_arrays import IncompleteScenesError
from verism.training.settings import ALL_SCENES, SceneChoice

__all__ = ["Pair", "image_text_pairs", "nested_share"]

_NO_SKILL = "empty"  # scenes with nothing in them, for detectors: there is no prompt to learn


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One image and the prompt it shows.

    Attributes:
        image: path of the image file.
        text: the prompt.
        skill: skill of the scene.
        scene_id: id of the scene.
    """

    image: Path
    text: str
    skill: str
    scene_id: str


def image_text_pairs(
    directories: Sequence[Path], choice: SceneChoice = ALL_SCENES, *, split: str = "train", seed: int = 0
) -> list[Pair]:
    """The images of some data set folders with their prompts, in the order of folders, skills and scenes.

    Args:
        directories: roots in the published layout, written by ``verism scenes render`` or the authors' own. Images are
            looked for in ``{skill}/images``, then in ``{skill}/train_images``.
        choice: which skills to take; and the share of the scenes of every skill of every folder, see ``nested_share``.
        split: only ``train``. The papers test on the split named ``val``, so it is refused here.
        seed: decides which scenes the share takes.
    Raises:
        UsageError: no such scenes, a scene of another split, a scene given twice, or a value out of range.
        IncompleteScenesError: an image that was chosen is missing.
    """
    if split != "train":
        raise UsageError(
            f"a model is finetuned on the split 'train', not {split!r}: the papers test on 'val' ('test' is another "
            "name of it), and a model that has seen those images cannot be tested with them"
        )
    if not directories:
        raise UsageError("there is no folder to read images from; render one with `verism scenes render`")
    wanted = None if choice.skills is None else list(dict.fromkeys(choice.skills))
    if wanted is not None and (not wanted or _NO_SKILL in wanted):
        raise UsageError(f"skills: expected some of object, count, spatial, color or your own, got {wanted}")
    pairs: list[Pair] = []
    folder_of: dict[Scene, Path] = {}
    for root in directories:
        present = [s for s in skills_in(root, split) if s != _NO_SKILL and (wanted is None or s in wanted)]
        for skill in present:
            scenes = read_scenes(root, _version_of(root), split, [skill])
            _check_scenes(scenes, scenes_path(root, skill, split), folder_of, root)
            pairs += _with_images(root, nested_share(scenes, choice.fraction, seed=seed), total=len(scenes))
    if absent := sorted(set(wanted or ()) - {p.skill for p in pairs}):
        raise UsageError(f"no train scenes of {', '.join(absent)} in {', '.join(map(str, directories))}")
    if not pairs:
        raise UsageError(f"no train scenes with a prompt in {', '.join(map(str, directories))}")
    return pairs


def nested_share(scenes: Sequence[Scene], fraction: float, *, seed: int = 0) -> list[Scene]:
    """A share of one skill's scenes that covers its factors evenly; a smaller share lies within a larger one.

    Scenes are dealt in rounds. A round holds one scene, at random, of every cell (object x count, object x relation x
    object ...) that has any left; of the last round as many are taken as are wanted, spread over the single factors and
    the backgrounds (``spread``). So no cell has two scenes more than another, unless it has no more to give.

    Args:
        scenes: scenes of one skill.
        fraction: in (0, 1]. ``floor(fraction * n + 1/2)`` of n scenes are taken, one at least: skills (and folders) of
            equally many scenes give equally many.
        seed: seed of the random choices.
    Returns:
        In the order of ``scenes``.
    Raises:
        UsageError: a fraction out of range, or a negative seed.
    """
    if not 0 < fraction <= 1:  # NaN is out of range as well
        raise UsageError(f"fraction must lie in (0, 1], got {fraction}; 0.1 is a tenth of the images")
    if seed < 0:
        raise UsageError(f"seed must be at least 0, got {seed}")
    if not scenes:
        return []
    wanted = max(1, math.floor(fraction * len(scenes) + 0.5))
    rng = np.random.default_rng([seed, 0xF2AC, *scenes[0].skill.encode()])
    cells: dict[tuple[str, ...], list[int]] = {}
    for index, scene in enumerate(scenes):
        cell = tuple(f"{k}={v}" for k, v in facets_of(scene).items() if k != "background")
        cells.setdefault(cell, []).append(index)
    dealt = [rng.permutation(members).tolist() for _, members in sorted(cells.items())]
    chosen: list[int] = []
    for number in range(max(map(len, dealt))):
        round_ = sorted(members[number] for members in dealt if number < len(members))
        if len(chosen) + len(round_) < wanted:
            chosen += round_
            continue
        # Scenes are equal only if they are the same scene, so those that were picked are known by themselves.
        picked = set(spread([scenes[i] for i in round_], wanted - len(chosen), seed=seed))
        chosen += [i for i in round_ if scenes[i] in picked]
        break
    return [scenes[i] for i in sorted(chosen)]


def _version_of(root: Path) -> Version:
    """The version named in ``metadata.json``; the newer one if it names none, as the authors' files do.

    Here it only matters for the names of classes, which the scenes of both versions mostly carry themselves.
    """
    try:
        name = json.loads((root / "metadata.json").read_text(encoding="utf-8"))["dataset"]
        return VERSIONS[name]
    except (OSError, ValueError, KeyError, TypeError):
        return VERSIONS["paintskills"]


def _check_scenes(scenes: Sequence[Scene], file: Path, folder_of: dict[Scene, Path], root: Path) -> None:
    """Refuse scenes that must not, or need not, be learnt from; ``folder_of`` gathers those of all folders."""
    for scene in scenes:
        # The id names the split too: a test scene stays one when its file is copied under another name.
        if scene.split != "train" or scene.scene_id.startswith((f"{scene.skill}_val_", f"{scene.skill}_test_")):
            raise UsageError(
                f"{file}: scene {scene.scene_id!r} (split {scene.split!r}) is not of the split 'train'; a model must "
                "not learn from the images it is tested with"
            )
        if not scene.text.strip():
            raise UsageError(
                f"{file}: scene {scene.scene_id!r} has no text; an image needs its prompt to be learnt from"
            )
        if scene in folder_of:
            raise UsageError(
                f"scene {scene.scene_id!r} is the same in {folder_of[scene]} and {root}, and would count twice; "
                "give one of the folders, or render the other with another --seed"
            )
        folder_of[scene] = root


def _with_images(root: Path, scenes: Sequence[Scene], *, total: int) -> list[Pair]:
    pairs, missing = [], []
    for scene in scenes:
        usual = image_path(root, scene.skill, scene.scene_id)
        published = root / scene.skill / "train_images" / usual.name
        image = next((p for p in (usual, published) if p.is_file()), None)
        if image is None:
            missing.append(usual)
        else:
            pairs.append(Pair(image=image, text=scene.text, skill=scene.skill, scene_id=scene.scene_id))
    if missing:
        skill = scenes[0].skill
        raise IncompleteScenesError(
            f"{scenes_path(root, skill, 'train')} lists {total} scenes, {len(scenes)} of them chosen, but "
            f"{len(missing)} images are missing, {missing[0].name} first; render them again with the same command, "
            "or wait until rendering is done"
        )
    return pairs
