"""Where Embree has no wheel, verism works, and what needs the simulator says how to get it."""

from __future__ import annotations

import sys

import pytest
from commands import verism

from verism.cli.doctor import diagnose
from verism.errors import MissingExtra
from verism.registry import Context, make_renderer
from verism.simulator.portraits import PeopleRenderer
from verism.simulator.user_assets import load_model


@pytest.fixture
def without(monkeypatch):
    for name in ("embreex", "embreex.rtcore_scene", "embreex.mesh_construction", "trimesh"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize("processes", [1, 2])
def test_a_renderer_is_refused_before_the_first_scene(processes):
    with pytest.raises(MissingExtra, match=r"the simulator needs 'embreex'.*pip install 'verism\[sim\]'"):
        make_renderer(Context(size=64, processes=processes))
    with pytest.raises(MissingExtra, match="embreex"):
        PeopleRenderer(64)


@pytest.mark.usefixtures("without")
def test_a_model_of_ones_own_names_the_extra(tmp_path):
    (tmp_path / "a.obj").write_text("v 1 2 3\n", encoding="utf-8")
    with pytest.raises(MissingExtra, match=r"a 3D model of your own needs 'trimesh'.*'verism\[sim\]'"):
        load_model(tmp_path / "a.obj")


@pytest.mark.usefixtures("without")
def test_a_run_of_rendered_images_ends_in_a_line(tmp_path):
    with pytest.raises(MissingExtra, match="embreex"):  # which `main` shows as a line
        verism("run", "paintskills", "--model", "oracle", "--limit", 2, "--out", tmp_path / "run")


@pytest.mark.usefixtures("without")
def test_a_model_without_simulator_runs(tmp_path):
    done = verism("run", "paintskills", "--model", "builtin", "--limit", 3, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output


@pytest.mark.usefixtures("without")
def test_the_doctor_does_not_call_it_required():
    findings = {f.name: f for f in diagnose()}
    for name in ("embreex", "simulator"):
        assert not findings[name].ok
        assert not findings[name].required
        assert "pip install 'verism[sim]'" in findings[name].message
