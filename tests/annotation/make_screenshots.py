"""Makes the screenshots of docs/human-evaluation.md: the page for raters, in a real browser, with rendered images.

    python tests/annotation/make_screenshots.py [FOLDER]

FOLDER is docs/images unless named. Chromium is looked for where Debian puts it. A test makes them in small, so that
they can always be made.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a program, it does not see what tests share
from browsing import browsing, serving

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
WIDTH, HEIGHT = 900, 720  # of the window, in CSS pixels
COLORS = 256
MODEL = "scripted:error=1&mistakes=count+class+relation"  # so that the two images of a pair differ


def make(folder: Path, *, size: int = 320) -> list[Path]:
    """Render a few images, make studies of them, and take an image of each kind of question.

    Args:
        size: of the rendered images, in pixels.
    """
    import verism

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch)
        skills = ["object", "count", "spatial"]
        runs = [
            verism.evaluate(
                "paintskills", model=model, detector="truth", skills=skills, limit=6, seed=4, size=size, out=path / name
            )
            for name, model in (("model", MODEL), ("oracle", "oracle"))
        ]
        people = verism.evaluate(
            "social_bias", model="people:tones=even", vqa="truth", skin_tone="truth", limit=1, n_images=4, size=size,
            seed=2, out=path / "people",
        )  # fmt: skip
        shots: list[tuple[str, Sequence[Any], str, Callable[[Any], None]]] = [
            ("count", runs[:1], "count", lambda _: None),
            ("list", runs[:1], "object", lambda page: page.keyboard.type("bi")),
            ("preference", runs, "preference", lambda _: None),
            ("tone", [people], "tone", lambda _: None),
        ]
        folder.mkdir(parents=True, exist_ok=True)
        with browsing() as browser:
            return [shot(browser, folder / f"annotate-{name}.png", *members) for name, *members in shots]


def shot(browser: Any, path: Path, runs: Sequence[Any], name: str, before: Callable[[Any], None]) -> Path:
    """The first question of a task, as it is on the screen."""
    from verism.annotation.sampling import draw_items
    from verism.annotation.tasks import PREFERENCE, tasks_of
    from verism.annotation.votes import Study, VoteStore

    task = next(t for t in (*tasks_of(runs[0]), PREFERENCE) if t.name == name)
    items = draw_items(list(runs), task, per_cell=None)
    study = Study(tasks=(task,), items=tuple(items), runs=tuple(str(run.path) for run in runs))
    store = VoteStore.create(runs[0].path.parent / f"{name}.sqlite", study)
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    with serving(store) as address:
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#name")
        page.keyboard.type("Ann")
        page.keyboard.press("Enter")
        page.wait_for_selector("section.ready")
        before(page)
        page.wait_for_timeout(300)  # whatever fades in
        taken = page.screenshot()
        context.close()
    # A palette makes the file several times smaller; what is flat stays flat.
    with Image.open(io.BytesIO(taken)) as image:
        image.convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            path, optimize=True
        )
    return path


if __name__ == "__main__":
    for made in make(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES):
        print(f"{made}: {made.stat().st_size:,} bytes")
