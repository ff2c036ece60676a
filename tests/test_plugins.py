"""Entry points of other packages: found once, and anew when a package is installed or removed."""

from __future__ import annotations

import os
import shutil
from importlib import metadata
from pathlib import Path

from verism import plugins

GROUP = "verism.judges"


def install(site: Path, name: str) -> Path:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = somewhere:Judge\n[others]\nx = somewhere:X\n")
    touch(site)
    return info


def touch(folder: Path) -> None:
    """A later time of change, also where a file system counts in coarse steps."""
    later = folder.stat().st_mtime_ns + 10**9
    os.utime(folder, ns=(later, later))


def test_packages_are_searched_again_when_one_is_installed_or_removed_and_not_otherwise(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    searches = []
    real = metadata.entry_points
    monkeypatch.setattr(metadata, "entry_points", lambda **by: searches.append(by) or real(**by))

    def found() -> set[str]:
        return {p.name for p in plugins.entry_points(group=GROUP) if p.value == "somewhere:Judge"}

    assert found() == found() == set()
    assert len(searches) == 1
    owl = install(tmp_path, "owl")
    assert found() == found() == {"owl"}
    install(tmp_path, "fox")
    assert found() == {"owl", "fox"}
    assert len(searches) == 3
    assert {p.name for p in plugins.entry_points(group="others")} >= {"x"}  # another group is another search
    shutil.rmtree(owl)
    touch(tmp_path)
    assert found() == {"fox"}
