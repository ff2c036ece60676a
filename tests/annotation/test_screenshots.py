"""The screenshots in the docs can be made, and are those that the docs show."""

from __future__ import annotations

import re

import pytest
from browsing import CHROMIUM
from make_screenshots import HEIGHT, IMAGES, WIDTH, make
from PIL import Image

MOST = 150_000  # bytes of a file: the docs are part of every checkout


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_screenshots_are_made_of_every_kind_of_question(tmp_path):
    made = make(tmp_path, size=64)
    assert [path.name for path in made] == [path.name for path in sorted(IMAGES.glob("annotate-*.png"))]
    looks = set()
    for path in made:
        with Image.open(path) as image:
            assert image.size == (WIDTH, HEIGHT)
            colours = image.convert("RGB").getcolors(WIDTH * HEIGHT)
        assert len(colours) > 50  # an image is there, and not an empty page
        looks.add(len(path.read_bytes()))
    assert len(looks) == len(made)


def test_the_docs_show_the_screenshots_and_these_are_small():
    pages = [(IMAGES.parent / page).read_text("utf-8") for page in ("human-evaluation.md", "gallery.md")]
    shown = {name for page in pages for name in re.findall(r"images/(annotate-[a-z-]+\.png)", page)}
    there = {path.name: path.stat().st_size for path in IMAGES.glob("annotate-*.png")}
    assert sorted(shown) == sorted(there)
    assert max(there.values()) < MOST
