"""The renderer uses one thread of BLAS, gives the same image whatever there are, and leaves others' threads alone."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from verism.simulator.scene_renderer import SceneRenderer
from verism.simulator.threads import single_threaded
from verism.suites.paintskills.suite import PaintSkills


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_threads_are_one_inside_and_as_before_outside():
    np.ones((4, 4)) @ np.ones((4, 4))
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        if not before:
            pytest.skip("numpy has a BLAS whose threads nobody can set")
        assert set(single_threaded(blas_threads)()) == {1}
        assert blas_threads() == before
        with pytest.raises(ZeroDivisionError):
            single_threaded(lambda: 1 // 0)()
        assert blas_threads() == before


def test_rendering_is_single_threaded_and_the_same_whatever_there_is(monkeypatch):
    import verism.simulator.scene_renderer as module

    seen = []
    render = module.render
    monkeypatch.setattr(module, "render", lambda *a, **k: seen.append(blas_threads()) or render(*a, **k))
    scene = PaintSkills.standard(skills=("spatial",), limit=1, seed=3).scenes[0]
    renderer, images = SceneRenderer(64), []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            images.append(renderer.render(scene).pixels)
    assert np.array_equal(*images)
    assert {count for counts in seen for count in counts} <= {1}
