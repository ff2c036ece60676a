"""What several test files share. The classes live in ``fakes.py``, which pytest finds beside this file."""

from __future__ import annotations

import gc
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes import PixelRenderer
from hypothesis import HealthCheck, settings
from rendered_once import rendering_once

from verism.generators.scripted import ScriptedGenerator
from verism.records import Prompt
from verism.suites.paintskills.suite import PaintSkills

# Other work on the machine is no failure.
settings.register_profile("verism", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("verism")

# The files that take longest, in tens of seconds. They are begun first, so that none of them is left to one worker at
# the end; pytest-xdist by itself begins with those that have the most tests, which are not the longest.
LONGEST = (
    "generators/test_diffusers_pipeline.py",
    "test_locations.py",
    "training/test_finetuning.py",
    "training/test_detector.py",
    "annotation/test_browser.py",
    "test_shards.py",
    "viewer/test_viewer_server.py",
    "viewer/test_viewer_browser.py",
    "test_faults_benchmark.py",
    "suites/social_bias/test_planted_bias.py",
    "training/test_generator.py",
    "pipeline/test_shares.py",
    "judges/test_vqa.py",
    "test_verification.py",
    "statistics/test_misclassification.py",
    "judge_bench/test_bench.py",
    "training/test_embedder.py",
    "annotation/test_server.py",
    "regressions/test_stored_runs.py",
    "regressions/test_block_sizes.py",
    "judge_bench/test_matching.py",
    "cli/test_compbench_end_to_end.py",
    "generators/test_command.py",
    "test_tutorials.py",
    "plans/test_board_browser.py",
    "test_readers_fuzz.py",
    "cli/test_social_bias_end_to_end.py",
    "cli/test_main.py",
    "metrics/test_presentation_intervals.py",
    "test_story.py",
    "annotation/test_exchange.py",
    "annotation/test_screenshots.py",
    "pipeline/test_device_processes.py",
    "cli/test_geneval_end_to_end.py",
    "trackers/test_trackers.py",
    "cli/test_question_suites_end_to_end.py",
    "cli/test_builtin_judges_end_to_end.py",
    "plans/test_board.py",
    # These are shorter, but would come last.
    "training/test_face_training.py",
    "test_project.py",
    "test_extending_docs.py",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end, so the collector of cycles need not look at it.

    There are more than a million objects, and looking through them takes half a second each time. Nor need it look
    after every 700 new objects at those that tests make.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    place = {here / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


class Unsynced(sqlite3.Connection):
    """A connection that does not wait for the disk, whatever it is asked for."""

    def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
        done = super().execute(sql, *more)
        if sql.startswith("PRAGMA"):
            super().execute("PRAGMA synchronous = OFF")
        return done


@pytest.fixture(scope="session", autouse=True)
def disk() -> Iterator[None]:
    """Nothing of this process waits for the disk: tests write thousands of files, and none cuts the power.

    Processes that tests start, also those that they kill, wait as ever.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: None)
        patched.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Unsynced))
        yield


@pytest.fixture(scope="module", autouse=True)
def scenes_are_rendered_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """In tests of everything but the simulator itself."""
    if "simulator" in request.path.parts:
        yield
        return
    with rendering_once():
        yield


@pytest.fixture
def service() -> Iterator[Any]:
    """A chat service on this machine (``service_fakes.Service``)."""
    pytest.importorskip("httpx")
    from service_fakes import Service

    server = Service()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def without_collector() -> Iterator[None]:
    """The collector of cycles does not come: objects that refer to each other stay, and a test can tell."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def suite() -> PaintSkills:
    """Twelve prompts: three of each skill, colour included."""
    return PaintSkills.standard(skills=("object", "count", "spatial", "color"), limit=12, seed=5)


@pytest.fixture(scope="session")
def prompts(suite: PaintSkills) -> list[Prompt]:
    return list(suite.prompts())


@pytest.fixture
def scripted(suite: PaintSkills) -> Callable[..., ScriptedGenerator]:
    """A scripted generator over a renderer that renders nothing."""

    def make(error: float = 0.0, **options: object) -> ScriptedGenerator:
        return ScriptedGenerator(
            PixelRenderer(tuple(suite.classes), suite.colors),
            classes=suite.classes,
            colors=suite.colors,
            error=error,
            **options,  # type: ignore[arg-type]
        )

    return make
