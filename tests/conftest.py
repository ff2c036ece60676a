"""What several test files share. The classes live in ``fakes.py``, which pytest finds beside this file."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes import PixelRenderer

from verism.generators.scripted import ScriptedGenerator
from verism.records import Prompt
from verism.suites.paintskills.suite import PaintSkills


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
