"""Makes the pictures of reports in the docs, offline: runs of the built-in and the rendering models, in a real browser.

    python tests/report_kit/make_report_screenshots.py [FOLDER]

FOLDER is docs/images unless named. Chromium is looked for where Debian puts it. A test makes them in small, so that
they can always be made.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a program, it does not see what tests share
from browsing import browsing

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
WIDTH, HEIGHT = 1100, 1000  # of the window, in CSS pixels
PHONE = 390
COLORS = 128
STEPS = {500: 0.7, 1000: 0.5, 1500: 0.35, 2000: 0.3}  # optimizer steps, and the share of images that are wrong


def make(
    folder: Path, *, size: int = 256, limit: int = 48, model: str = "builtin", people: str = "people:female=0.3"
) -> list[Path]:
    """Make the runs, their reports, and a picture of each.

    Args:
        folder: where the pictures go.
        size: of rendered images, in pixels.
        limit: prompts of a run.
        model: of the first report.
        people: model of the run of another suite.
    """
    import verism

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch)
        detector = {} if model == "builtin" else {"detector": "truth"}
        one = verism.evaluate(
            "paintskills", model=model, limit=limit, size=size, seed=1, out=path / "my-model", **detector
        )
        steps = [
            verism.evaluate(
                "paintskills", model=f"scripted:error={error}", detector="truth", limit=limit, size=64, seed=1,
                out=path / f"step-{step}",
            )
            for step, error in STEPS.items()
        ]  # fmt: skip
        other = verism.evaluate(
            "social_bias", model=people, vqa="truth", skin_tone="truth", limit=6, n_images=3,
            size=64, seed=2, out=path / "people",
        )  # fmt: skip
        pages = {
            "report": (verism.report(one, out=path / "one.html"), WIDTH, "light"),
            "report-checkpoints": (verism.report(*steps, out=path / "steps.html", gallery=0), WIDTH, "light"),
            "report-overview": (verism.report(one, other, out=path / "over", gallery=0), WIDTH, "light"),
            "report-phone": (path / "one.html", PHONE, "dark"),
        }
        folder.mkdir(parents=True, exist_ok=True)
        with browsing() as browser:
            return [shot(browser, folder / f"{name}.png", *members) for name, members in pages.items()]


def shot(browser: Any, path: Path, page: Path, width: int, scheme: str) -> Path:
    """The head of a page, as it is on the screen."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
    opened = context.new_page()
    opened.goto(page.resolve().as_uri())
    taken = opened.screenshot(timeout=240_000)
    context.close()
    with Image.open(io.BytesIO(taken)) as image:  # a palette makes the file several times smaller
        image.convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            path, optimize=True
        )
    return path


if __name__ == "__main__":
    for made in make(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES):
        print(f"{made}: {made.stat().st_size:,} bytes")
