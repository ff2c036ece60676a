"""Rendering of a data set: what is written, and what is not."""

import pytest
from fakes import PixelRenderer

from verism.suites.paintskills import rendering
from verism.suites.paintskills.suite import PaintSkills


def test_render_scenes_on_a_full_disk_fails(tmp_path, monkeypatch):
    suite = PaintSkills.standard(skills=("object",), limit=3)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(rendering, "encode_png", full)
    renderer = PixelRenderer(tuple(suite.classes), ())
    with pytest.raises(OSError, match="no space left"):
        rendering.render_scenes(tmp_path / "D", suite.version, suite.scenes, renderer, 64)
    assert not list(tmp_path.rglob("*_bounding_boxes.json"))


def test_render_scenes_that_cannot_be_placed_are_listed_and_left_out(tmp_path):
    suite = PaintSkills.standard(skills=("object",), limit=3)
    renderer, result = PixelRenderer(tuple(suite.classes), (), fails=[suite.scenes[1].scene_id]), []
    assert (
        rendering.render_scenes(tmp_path / "D", suite.version, suite.scenes, renderer, 64, on_failure=result.append)
        == 1
    )
    assert result == [f"no place in {suite.scenes[1].scene_id}"]
    again = PaintSkills.from_folder(tmp_path / "D")
    assert [s.scene_id for s in again.scenes] == [suite.scenes[0].scene_id, suite.scenes[2].scene_id]
