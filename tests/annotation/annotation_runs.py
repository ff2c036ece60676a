"""Small runs for the tests of human evaluation: PaintSkills prompts, plain pictures, no judge needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from verism.imaging import encode_png
from verism.records import frame, make_image_id
from verism.registry import make_suite
from verism.store import Run


def make_run(path: Path, *, limit: int = 12, n_images: int = 1, skip: int = 0, seed: int = 0) -> Run:
    """A run of PaintSkills with plain pictures and verdicts of nobody; the first ``skip`` pictures are missing."""
    suite = make_suite("paintskills", limit=limit, n_images=n_images)
    run = Run.start(path, {"suite": "paintskills", "seed": seed, **suite.settings()})
    run.write_prompts(suite.prompts())
    rows = []
    for number, prompt in enumerate(suite.prompts()):
        for index in range(n_images):
            image_id = make_image_id(prompt.prompt_id, index)
            row = {"image_id": image_id, "prompt_id": prompt.prompt_id, "index": index, "seed": 0, "state": "missing"}
            if number >= skip:
                pixels = np.full((24, 24, 3), (number * 17 % 256, 90, seed % 256), np.uint8)
                pixels[:12] = 200
                stored = run.write_picture(image_id, encode_png(pixels))
                row |= {"state": "ok", "path": stored, "width": 24, "height": 24}
            rows.append(row)
    run.append("images", frame("images", rows))
    return run
