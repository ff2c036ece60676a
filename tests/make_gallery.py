"""Makes the images of the gallery in the docs out of what ``verism demo --all`` made, in a real browser.

    verism demo --all --out D
    python tests/make_gallery.py D [FOLDER]

FOLDER is docs/images unless named. The reports are written anew, into a temporary folder; D stays as it is.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from browsing import browsing
from PIL import Image

import verism

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1100, 900  # of the window, in CSS pixels
COLORS = 128
# Name of the image: runs that its report is about, model and suite.
REPORTS = {
    "gallery-paintskills": ("builtin-paintskills", "careful-paintskills", "careless-paintskills"),
    "gallery-geneval2": ("builtin-geneval2", "builtin-varied-geneval2"),
    "gallery-geography": ("builtin-geography",),
    "gallery-alignment": ("builtin-alignment",),
    "gallery-social-bias": ("skewed-social_bias_truth",),
    "gallery-gender-presentation": ("skewed-gender_presentation",),
    "gallery-text-rendering": ("careful-text_rendering", "careless-text_rendering"),
}


def make(demo: Path, folder: Path) -> list[Path]:
    """Write the report of each and take a picture of its head.

    Args:
        demo: what ``verism demo --all --out`` made.
        folder: where the images go.

    Raises:
        FileNotFoundError: the demonstration lacks a run.
    """
    runs = {path.parent.name: path.parent for path in sorted(demo.rglob("manifest.json"))}
    missing = {name for names in REPORTS.values() for name in names} - set(runs)
    if missing:
        raise FileNotFoundError(f"{demo} has no run {', '.join(sorted(missing))}; make it with: verism demo --all")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, browsing() as browser:
        made = []
        for name, members in REPORTS.items():
            page = Path(scratch) / f"{name}.html"
            verism.report(*(runs[member] for member in members), out=page, gallery=12)
            made.append(taken(browser, page, folder / f"{name}.png"))
        return made


def taken(browser: Any, page: Path, path: Path) -> Path:
    """The head of a page as an image.

    Args:
        browser: of ``browsing``.
        page: the file to open.
        path: the PNG file to write.
    """
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    opened = context.new_page()
    opened.goto(page.resolve().as_uri())
    shot = opened.screenshot(timeout=240_000)
    context.close()
    with Image.open(io.BytesIO(shot)) as image:  # a palette makes the file several times smaller
        small = image.convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    return path


if __name__ == "__main__":
    for made in make(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else IMAGES):
        print(made)
