"""Renderers on a Ray cluster: scenes go to tasks, and images come back in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from verism.errors import VerismError
from verism.pipeline.ray_workers import RaySettings, start_ray
from verism.prefetch import prefetch
from verism.records import Rendered, Renderer, Scene

__all__ = ["RayRenderer"]

AHEAD = 4  # scenes under way for each core: they bound what waits in memory

_made: dict[bytes, Renderer] = {}  # of a worker process, for all its tasks


def _rendered(key: bytes, make: Callable[[], Renderer], scene: Scene) -> Rendered | VerismError:
    if key not in _made:
        _made[key] = make()
    (rendered,) = _made[key].render_all([scene])
    return rendered


class RayRenderer:
    """Renders like the renderer it is made from, on the cores of a cluster; the same scene gives the same image.

    Ray repeats what a lost worker or node was at: rendering has no other effect than its image.
    """

    def __init__(self, make: Callable[[], Renderer], settings: RaySettings) -> None:
        """A renderer.

        Args:
            make: makes the renderer of a worker; it is called there once, and here for the name.
            settings: where the cluster is; a worker has one core.
        """
        self.make = make
        self.name = make().name
        self.settings = settings
        self._started: bool | None = None

    def render_all(self, scenes: Sequence[Scene]) -> Iterator[Rendered | VerismError]:
        """Images in the order of the scenes; a scene that cannot be rendered gives its error instead.

        Args:
            scenes: what to render.
        """
        if self._started is None:
            self._started = start_ray(self.settings)
        import ray

        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        render: Any = ray.remote(_rendered).options(num_cpus=1, max_retries=-1)
        key, make = self.name.encode(), ray.put(self.make)
        for image in prefetch((render.remote(key, make, scene) for scene in scenes), AHEAD * cores):
            yield ray.get(image)

    def close(self) -> None:
        """Stop the Ray that was started for it, if any."""
        if self._started:
            import ray

            ray.shutdown()
        self._started = None
