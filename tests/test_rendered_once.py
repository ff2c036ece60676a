"""What tests remember of the simulator's images is what it renders, and nobody's changes reach the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import rendered_once
from rendered_once import rendering_once

from verism.errors import UsageError
from verism.records import Scene, SceneObject
from verism.simulator.catalogue import standard_catalogue
from verism.simulator.scene_renderer import SceneRenderer

DOG = Scene(
    scene_id="s", skill="object", split="val", text="a dog", background="meadow",
    objects=(SceneObject(shape="dog", label="dog"),), seed=991,
)  # fmt: skip


def test_another_scene_size_or_catalogue_is_rendered_anew(monkeypatch):
    monkeypatch.setattr(rendered_once, "MEMORY", rendered_once.Memory())
    with rendering_once():
        renderer = SceneRenderer(64)
        first = renderer.render(DOG)
        expected = first.pixels.copy()
        first.pixels[:] = 0
        again = SceneRenderer(64).render(DOG)
        assert np.array_equal(again.pixels, expected)
        assert np.array_equal(again.mask, first.mask)
        assert len(rendered_once.MEMORY.kept) == 1
        assert not np.array_equal(renderer.render(replace(DOG, seed=992)).pixels, expected)
        assert SceneRenderer(80).render(DOG).pixels.shape == (80, 80, 3)
        without = replace(standard_catalogue(), assets={})
        with pytest.raises(UsageError, match="no class 'dog'"):
            SceneRenderer(64, without).render(DOG)
        assert len(rendered_once.MEMORY.kept) == 3


def test_what_does_not_fit_is_forgotten(monkeypatch):
    memory = rendered_once.Memory()
    monkeypatch.setattr(rendered_once, "MEMORY", memory)
    with rendering_once():
        SceneRenderer(64).render(DOG)
        one = memory.bytes
        monkeypatch.setattr(rendered_once, "BYTES", 2 * one)
        for seed in (1, 2, 3):
            SceneRenderer(64).render(replace(DOG, seed=seed))
    assert [key[-1].seed for key in memory.kept] == [2, 3]
    assert memory.bytes == 2 * one
