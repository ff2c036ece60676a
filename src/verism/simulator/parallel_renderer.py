"""Several renderers at once: rendering is pure arithmetic, so it scales with the cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import TracebackType

from verism.errors import VerismError
from verism.prefetch import prefetch
from verism.records import Rendered, Scene
from verism.simulator.catalogue import standard_catalogue
from verism.simulator.scene_renderer import SceneRenderer
from verism.systems import end_with_parent

__all__ = ["ParallelRenderer"]

FEW = 16  # scenes that one process renders in the time in which others would load what they need

_renderer: SceneRenderer | None = None


def _start(size: int, assets: Path | None) -> None:
    global _renderer
    end_with_parent()
    catalogue = standard_catalogue()
    _renderer = SceneRenderer(size, catalogue if assets is None else catalogue.with_assets(assets))


def _render(scene: Scene) -> Rendered | VerismError:
    assert _renderer is not None
    try:
        return _renderer.render(scene)
    except VerismError as err:
        return err


class ParallelRenderer:
    """Renders like ``SceneRenderer``, in processes of its own; the same scene gives the same image.

    Processes start when more than ``FEW`` scenes have been asked for, and end with ``close`` or the ``with`` block; the
    scenes before are rendered in this process.

    Args:
        size: width and height in pixels. assets: folder of the user's own models. processes: one per core if None.
    """

    def __init__(self, size: int = 256, assets: Path | None = None, processes: int | None = None) -> None:
        catalogue = standard_catalogue()
        # Refuses a bad size or folder here and not in every process.
        self._alone = SceneRenderer(size, catalogue if assets is None else catalogue.with_assets(assets))
        self.name = self._alone.name
        self._asked = 0
        self.processes = processes or os.cpu_count() or 1
        self._settings = (size, assets)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> ParallelRenderer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes; scenes not yet begun are dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def render_all(self, scenes: Sequence[Scene]) -> Iterator[Rendered | VerismError]:
        """Images in the order of the scenes; a scene that cannot be rendered gives its error instead."""
        self._asked += len(scenes)
        if self._pool is None and self._asked <= FEW:
            yield from self._alone.render_all(scenes)
            return
        if self._pool is None:
            # Spawned, not forked: the caller may have threads, and models loaded, that do not survive a fork.
            self._pool = ProcessPoolExecutor(
                self.processes, multiprocessing.get_context("spawn"), initializer=_start, initargs=self._settings
            )
        # Finished images wait in memory for the one before them; a bound keeps that small.
        jobs = (self._pool.submit(_render, scene) for scene in scenes)
        for job in prefetch(jobs, 4 * self.processes):
            yield job.result()
