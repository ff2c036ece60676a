"""The renderer beside an earlier one: processor time, two processes at once, and whether the images stay as good.

    python benchmarks/renderer.py --against main              beside the renderer of that commit, from git
    python benchmarks/renderer.py --against v1.2.0 --images 120 --repeats 5 --sheets /tmp/sheets --json

Both render the same scenes of every skill, spread over every environment, in processes of their own that take turns, so
that a busy moment hits both. ``processor time`` is what the renderer itself needs; ``two at once`` is its growth when a
second process renders beside it, which shows what they wait for in common (memory, caches): 2 divided by it is the
speed-up that two processes have on two free cores. ``similarity`` is the structural similarity of the images (Wang et
al. 2004; 1 is the same image), of which 0.98 is asked for. ``--sheets`` writes the images side by side, least similar
first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measuring import Measured

ROOT = Path(__file__).resolve().parents[1]
SIZE = 256
LEAST_SIMILARITY = 0.98
ROWS = 8  # pairs on one sheet
STRETCH = 10  # images rendered before the other renderer has its turn


def draw_scenes(count: int) -> Sequence[Any]:
    """Scenes of every skill that the suite knows, one environment after the other."""
    from dataclasses import replace

    from verism.simulator.environments import ENVIRONMENTS
    from verism.suites.paintskills.suite import PaintSkills

    skills = (*PaintSkills.version.skills, *PaintSkills.version.optional_skills)
    drawn = PaintSkills.standard(skills=skills, limit=count, seed=5).scenes
    names = [environment.name for environment in ENVIRONMENTS]
    return [replace(scene, background=names[k % len(names)]) for k, scene in enumerate(drawn)]


# ------------------------------------------------------------------------------------------ in the worker process
def serve(count: int) -> None:
    """Render what each line of the standard input asks for ("first end", and then perhaps a file to write it to).

    Answers with wall and processor seconds.
    """
    import numpy as np

    from verism.records import Rendered
    from verism.simulator.scene_renderer import SceneRenderer

    todo = draw_scenes(count)
    renderer = SceneRenderer(SIZE)
    list(renderer.render_all(todo[:20]))  # textures of every environment
    print("ready", flush=True)
    for line in sys.stdin:
        first, end, *path = line.split(maxsplit=2)
        started, cpu_started = time.perf_counter(), time.process_time()
        answers = list(renderer.render_all(todo[int(first) : int(end)]))
        seconds = time.perf_counter() - started, time.process_time() - cpu_started
        rendered = [a for a in answers if isinstance(a, Rendered)]
        if len(rendered) < len(answers):
            raise SystemExit("a scene could not be rendered")
        if path:
            np.savez(
                path[0].strip(),
                pixels=np.stack([r.pixels for r in rendered]),
                masks=np.stack([r.mask for r in rendered]),
            )
        print(json.dumps(seconds), flush=True)


class Worker:
    """A process that renders with the package in a folder."""

    def __init__(self, source: Path, images: int) -> None:
        command = [sys.executable, __file__, "--serve", "--images", str(images)]
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a renderer ended with exit code {self._process.wait()}")
        return line

    def begin(self, first: int, end: int, path: str = "") -> None:
        assert self._process.stdin is not None
        print(first, end, path, file=self._process.stdin, flush=True)

    def finish(self) -> tuple[float, float]:
        """Wall and processor seconds of all scenes."""
        wall, cpu = json.loads(self._read())
        return wall, cpu

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# ------------------------------------------------------------------------------------------ in the first process
def unpack(commit: str, folder: Path) -> Path:
    """The package as that commit has it."""
    archive = folder / "source.tar"
    subprocess.run(["git", "-C", str(ROOT), "archive", "-o", str(archive), commit, "src"], check=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def measure(options: argparse.Namespace, folder: Path) -> list[Measured]:
    import numpy as np

    sources = [unpack(options.against, folder), ROOT / "src"]
    files = [str(folder / f"{k}.npz") for k in range(2)]
    n = options.images
    teams = [[Worker(source, n) for _ in range(2)] for source in sources]
    for (first, _), file in zip(teams, files, strict=True):
        first.begin(0, n, file)
        first.finish()
    # Minima of short stretches: a long one would hardly ever be free of other programs.
    starts = range(0, n, STRETCH)
    alone, both, together = (np.full((2, len(starts)), np.inf) for _ in range(3))
    for _ in range(options.repeats):
        for number, start in enumerate(starts):
            stretch = start, min(start + STRETCH, n)
            for k, (first, _) in enumerate(teams):
                first.begin(*stretch)
                alone[k, number] = min(alone[k, number], first.finish()[1])
            for k, team in enumerate(teams):
                for worker in team:
                    worker.begin(*stretch)
                seconds = [worker.finish() for worker in team]
                both[k, number] = min(both[k, number], sum(cpu for _, cpu in seconds) / 2)
                together[k, number] = min(together[k, number], max(wall for wall, _ in seconds))
    alone, both, together = (table.sum(axis=1) for table in (alone, both, together))
    for worker in (w for team in teams for w in team):
        worker.close()
    names = (options.against, "this checkout")
    lines = [
        Measured("renderer", f"processor time, {name}", 1000 * cpu / n, "ms/image", cpu / alone[0], "peer" * (k == 0))
        for k, (name, cpu) in enumerate(zip(names, alone, strict=True))
    ]
    for k, name in enumerate(names):
        growth = both[k] / alone[k]
        note = f"of its time alone; two free cores give a speed-up of {2 / growth:.2f}"
        lines.append(Measured("renderer", f"two at once, {name}", 1000 * both[k] / n, "ms/image", growth, note))
    for k, name in enumerate(names):
        rate = 2 * n / together[k]
        lines.append(
            Measured("renderer", f"2 processes, wall, {name}", rate, "images/s", rate * together[0] / (2 * n), "")
        )
    old, new = (np.load(file) for file in files)
    return lines + compare(old, new, options.sheets)


def compare(old: Any, new: Any, sheets: Path | None) -> list[Measured]:
    """How much the images of two renderers have in common."""
    import numpy as np
    from skimage.metrics import structural_similarity

    similar = np.array(
        [structural_similarity(a, b, channel_axis=2) for a, b in zip(old["pixels"], new["pixels"], strict=True)]
    )
    change = np.abs(old["pixels"].astype(int) - new["pixels"])
    verdict = f"{'within' if similar.min() >= LEAST_SIMILARITY else 'BELOW'} the limit of {LEAST_SIMILARITY}"
    moved = (old["masks"] != new["masks"]).mean()
    if sheets is not None:
        draw_sheets(old["pixels"], new["pixels"], similar, sheets)
    return [
        Measured("renderer", f"similarity, least of {len(similar)}", float(similar.min()), "", 1.0, verdict),
        Measured("renderer", "similarity, mean", float(similar.mean()), "", 1.0),
        Measured("renderer", "mean change of a pixel", float(change.mean()), "levels of 255", 1.0),
        Measured("renderer", "pixels of another object", 1e6 * float(moved), "per million", 1.0),
    ]


def draw_sheets(old: Any, new: Any, similar: Any, folder: Path) -> None:
    """Old, new and four times their difference in each row, the least similar pairs first."""
    import numpy as np
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort(similar)
    for number, start in enumerate(range(0, len(order), ROWS)):
        rows = []
        for k in order[start : start + ROWS]:
            apart = np.clip(4 * np.abs(old[k].astype(int) - new[k]), 0, 255).astype(np.uint8)
            rows.append(np.concatenate([old[k], new[k], apart], axis=1))
        Image.fromarray(np.concatenate(rows)).save(folder / f"sheet-{number:02}.png")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="HEAD", metavar="COMMIT", help="the earlier renderer (%(default)s)")
    parser.add_argument("--images", type=int, default=100, help="images per measurement (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements, of which the best counts (%(default)s)")
    parser.add_argument("--sheets", type=Path, metavar="DIR", help="write the images side by side to this folder")
    parser.add_argument("--json", action="store_true", help="JSON instead of lines")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.images < 20 or options.repeats < 1:
        parser.error("--images must be at least 20 (one for each environment) and --repeats at least 1")
    if options.serve:
        serve(options.images)
        return 0
    with tempfile.TemporaryDirectory() as name:
        lines = measure(options, Path(name))
    if options.json:
        print(json.dumps([asdict(line) for line in lines], indent=1))
    else:
        for line in lines:
            print(line.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
