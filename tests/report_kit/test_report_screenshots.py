"""The pictures of reports in the docs can be made, and are those that the docs show."""

from __future__ import annotations

import re

import pytest
from browsing import CHROMIUM
from make_report_screenshots import HEIGHT, IMAGES, PHONE, WIDTH, make
from PIL import Image

MOST = 150_000  # bytes of a file: the docs are part of every checkout


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_pictures_of_reports_are_made(tmp_path):
    pytest.importorskip("playwright")
    made = make(tmp_path, size=64, limit=6, model="oracle", people="people:draw=plain")
    assert sorted(path.name for path in made) == sorted(path.name for path in IMAGES.glob("report*.png"))
    for path in made:
        with Image.open(path) as image:
            assert image.size == (PHONE if "phone" in path.name else WIDTH, HEIGHT)
            assert len(image.convert("RGB").getcolors(WIDTH * HEIGHT)) > 50  # a page is there, and not an empty one


def test_the_docs_show_the_pictures_and_these_are_small():
    docs = [*IMAGES.parent.rglob("*.md"), IMAGES.parents[1] / "README.md"]
    shown = {name for page in docs for name in re.findall(r"images/(report[a-z-]*\.png)", page.read_text("utf-8"))}
    there = {path.name: path.stat().st_size for path in IMAGES.glob("report*.png")}
    assert shown == set(there)
    assert max(there.values()) < MOST
