"""Train scenes of PaintSkills, rendered for a training that was given none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from verism.errors import UsageError
from verism.records import Renderer
from verism.suites.catalogue import make_suite
from verism.suites.paintskills.rendering import render_scenes
from verism.suites.paintskills.suite import PaintSkills

__all__ = ["SCENE_SIZE", "render_train_scenes"]

SCENE_SIZE = 192  # pixels; the objects of an image are cut out of it: much smaller would blur them


def render_train_scenes(
    suite: str,
    renderer: Renderer,
    out: Path,
    *,
    skills: Sequence[str] | None,
    count: int,
    seed: int,
    on_start: Callable[[int], None],
    on_failure: Callable[[str], None],
) -> Path:
    """Render train scenes with masks into a folder; those that are there already are kept.

    Args:
        suite: name of a version of PaintSkills.
        renderer: of images of ``SCENE_SIZE`` pixels.
        out: the folder.
        skills: only these; None for all published ones.
        count: scenes in all.
        seed: seed of the scenes.
        on_start: called with the number of scenes.
        on_failure: called with a line for each scene that could not be rendered.

    Raises:
        UsageError: a suite without scenes.
    """
    made = make_suite(suite, skills=skills, split="train", limit=count, seed=seed)
    if not isinstance(made, PaintSkills):
        raise UsageError(f"{made.name} has no scenes to train on; use a version of PaintSkills")
    on_start(len(made.scenes))
    render_scenes(out, made.version, made.scenes, renderer, SCENE_SIZE, seed=seed, masks=True, on_failure=on_failure)
    return out
