"""Speed and size, each beside a peer measured in the same run: read the ratios, seconds differ between machines.

    python benchmarks/run.py                      everything
    python benchmarks/run.py renderer startup     some
    python benchmarks/run.py detector --detector my/detector.onnx --images 256 --json

``renderer``: images per second in one process and in two, and processor time an image, which other programs change
less.
``detector``: the bare network in onnxruntime on prepared arrays, the judge on decoded images, the pipeline from
files to stored boxes, which may cost at most 20 % more than the bare network, and a whole run, which has a fixed part.
``generator``: seconds an image of the built-in text-to-image model, its writing and its painting; the simulator's
rendering of the same scenes is the peer. It may take 1.5 s an image on two cores.
``store``: bytes per image in a run directory, and the same boxes as JSON lines.
``startup``: seconds until ``verism --help`` has answered, ``import verism``, and bare Python.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import Measured, best_of, least_processor_time

if TYPE_CHECKING:
    import numpy as np

    from verism.records import Scene

SIZE = 256
BATCH = 8
LIMIT_PIPELINE = 1.2
LIMIT_GENERATOR = 1.5  # seconds


def scenes(count: int) -> Sequence[Scene]:
    from verism.suites.paintskills.suite import PaintSkills

    return PaintSkills.standard(limit=count, seed=5).scenes


# ------------------------------------------------------------------------------------------------------------- renderer
def renderer(options: argparse.Namespace) -> list[Measured]:
    from verism.simulator.parallel_renderer import FEW, ParallelRenderer
    from verism.simulator.scene_renderer import SceneRenderer

    todo = scenes(options.images)
    alone = SceneRenderer(SIZE)
    with ParallelRenderer(SIZE, processes=2) as pair:
        for renderer in (alone, pair):
            list(renderer.render_all(todo[: FEW + 1]))  # processes start, modules load
        one, two = best_of(options.repeats, lambda: list(alone.render_all(todo)), lambda: list(pair.render_all(todo)))
    n = len(todo)
    (alone_s,) = least_processor_time(options.repeats, lambda: list(alone.render_all(todo)))
    return [
        Measured(
            "renderer", "1 process, processor time", 1000 * alone_s / n, "ms/image", alone_s / one, "of its wall time"
        ),
        Measured("renderer", f"1 process, {SIZE} x {SIZE}", n / one, "images/s", 1.0, "peer"),
        Measured("renderer", f"2 processes, {SIZE} x {SIZE}", n / two, "images/s", one / two, "speed-up; 2 is ideal"),
    ]


# ------------------------------------------------------------------------------------------------------------- detector
def detector(options: argparse.Namespace) -> list[Measured]:
    import numpy as np

    from verism import api
    from verism.generators.folder import FolderGenerator, match_images
    from verism.imaging import read_image
    from verism.judges.detection.builtin import OUTPUTS, BuiltinDetector, letterbox
    from verism.manifest import RunSettings
    from verism.pipeline.local import make_requests, run_images
    from verism.records import LoadedImage
    from verism.store import Run
    from verism.suites.paintskills.suite import PaintSkills

    judge = BuiltinDetector(options.detector, threads=options.threads, batch_size=BATCH)
    suite = PaintSkills.standard(limit=options.images, seed=5)
    arrays = paint(suite.scenes)
    (need,) = suite.needs()
    images = [
        LoadedImage(image_id=f"{scene.scene_id}#0", prompt_id=scene.scene_id, pixels=p)
        for scene, p in zip(suite.scenes, arrays, strict=True)
    ]
    prepared = np.stack([letterbox(p, judge.size)[0] for p in arrays])
    session = bare_session(options.detector, options.threads)

    def bare() -> None:
        for start in range(0, len(prepared), BATCH):
            session.run(list(OUTPUTS), {"pixels": prepared[start : start + BATCH]})

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(suite.scenes, arrays, folder / "pictures")
        number = iter(range(10**6))
        matching = match_images(folder / "pictures", suite.prompts())
        requests = make_requests(suite.prompts(), 5)

        def pipeline() -> None:
            run = Run.start(folder / f"run-{next(number)}", RunSettings(suite=suite.name))
            run_images(run, requests, FolderGenerator(matching), [(judge, need)])

        def full() -> None:
            api.evaluate(
                "paintskills",
                images=folder / "pictures",
                detector=judge,
                out=folder / f"run-{next(number)}",
                limit=options.images,
                seed=5,
            )

        bare()
        pipeline()
        times = best_of(options.repeats, bare, lambda: judge.observe(images, need), pipeline, full)
        paths = sorted((folder / "pictures").iterdir())

        def read() -> None:
            for path in paths:
                read_image(path)

        (reading,) = best_of(options.repeats, read)
        jobs = (bare, pipeline, lambda: judge.detect(arrays), lambda: judge.observe(images, need), read)
        busy = least_processor_time(options.repeats, *jobs)
    limits = judge._unsure
    unsure = sum(limits.image(seen) or bool(limits.boxes(seen).any()) for seen in judge._look(list(prepared)))
    n = len(arrays)
    ratio = times[2] / times[0]
    verdict = f"{'within' if ratio <= LIMIT_PIPELINE else 'ABOVE'} the limit of {LIMIT_PIPELINE}"
    fixed = f"of it {max(times[3] - times[2], 0.0):.2f} s a run for prompts, rules and scores"
    return [
        Measured("detector", "network alone, prepared arrays", 1000 * times[0] / n, "ms/image", 1.0, "peer"),
        Measured(
            "detector",
            "BuiltinDetector.observe",
            1000 * times[1] / n,
            "ms/image",
            times[1] / times[0],
            f"{unsure} of {n} images seen twice, as what is in them was unsure",
        ),
        Measured(
            "detector",
            "reading, hashing, decoding alone",
            1000 * reading / n,
            "ms/image",
            reading / times[0],
            "done on other threads while the network works",
        ),
        Measured("detector", "pipeline: files to stored boxes", 1000 * times[2] / n, "ms/image", ratio, verdict),
        Measured(
            "detector",
            "pipeline, processor time",
            1000 * busy[1] / n,
            "ms/image",
            busy[1] / busy[0],
            "of the network's processor time; what it costs where no core is idle",
        ),
        *_profile(*(1000 * seconds / n for seconds in busy), share_again=unsure / n),
        Measured("detector", "whole run: files to scores", 1000 * times[3] / n, "ms/image", times[3] / times[0], fixed),
    ]


def _profile(
    bare: float, pipeline: float, detect: float, observe: float, reading: float, *, share_again: float
) -> list[Measured]:
    """Where the processor time of the pipeline goes, in milliseconds an image; ratios are of the bare network."""
    looks = bare * (1 + share_again)
    parts = (
        ("network, first look", bare, ""),
        ("unsure images: network on their mirror image", detect - bare, f"{share_again:.0%} of the images"),
        ("tables of boxes", observe - detect, ""),
        ("reading, hashing, decoding", reading, ""),
        ("requests, rows, parts written", pipeline - observe - reading, ""),
        ("pipeline", pipeline, f"{pipeline / looks:.2f} of the network with its second looks"),
    )
    return [Measured("profile", what, part, "ms/image", part / bare, note) for what, part, note in parts]


def generator(options: argparse.Namespace) -> list[Measured]:
    from verism.generators.builtin import BuiltinGenerator
    from verism.pipeline.local import make_requests
    from verism.simulator.scene_renderer import SceneRenderer
    from verism.suites.paintskills.suite import PaintSkills

    model = BuiltinGenerator(options.generator, size=SIZE, threads=options.threads)
    suite = PaintSkills.standard(limit=options.images, seed=5)
    asked = make_requests(suite.prompts(), 5)
    renderer = SceneRenderer(SIZE)
    n, rows = len(asked), model.batch_size
    prompts = [model.language.read(r.prompt.text)[0] for r in asked]
    described = [
        d for k in range(0, n, rows) for d in model.write(prompts[k : k + rows], [r.seed for r in asked[k : k + rows]])
    ]
    rendered, full, generated = best_of(
        options.repeats,
        lambda: list(renderer.render_all(suite.scenes)),
        lambda: list(model.generate(asked)),
        lambda: [model.paint(d) for d in described],
    )
    note = "" if full / n <= LIMIT_GENERATOR else f"OVER the {LIMIT_GENERATOR} s allowed"
    return [
        Measured("generator", "simulator, 1 process", rendered / n, "s/image", 1.0, "peer"),
        Measured("generator", "built-in model", full / n, "s/image", full / rendered, note),
        Measured("generator", "of which painting", generated / n, "s/image", generated / rendered),
    ]


def bare_session(path: Path | None, threads: int | None) -> Any:
    """The judge's own network, loaded as plain onnxruntime would."""
    from importlib import resources

    import onnxruntime as ort

    packaged = resources.files("verism.judges.detection") / "data" / "paintskills_detector.onnx"
    content = path.read_bytes() if path is not None else packaged.read_bytes()
    settings = ort.SessionOptions()
    settings.inter_op_num_threads = 1
    if threads is not None:
        settings.intra_op_num_threads = threads
    return ort.InferenceSession(content, settings, providers=["CPUExecutionProvider"])


def paint(todo: Sequence[Scene]) -> list[np.ndarray]:
    from verism.records import Rendered
    from verism.simulator.parallel_renderer import ParallelRenderer

    with ParallelRenderer(SIZE) as renderer:
        answers = list(renderer.render_all(todo))
    failed = [a for a in answers if not isinstance(a, Rendered)]
    if failed:
        raise failed[0]
    return [a.pixels for a in answers if isinstance(a, Rendered)]


def write_images(todo: Sequence[Scene], images: Sequence[np.ndarray], folder: Path) -> None:
    from verism.imaging import encode_png

    folder.mkdir()
    for scene, pixels in zip(todo, images, strict=True):
        (folder / f"{scene.scene_id}.png").write_bytes(encode_png(pixels))


# ---------------------------------------------------------------------------------------------------------------- store
def store(options: argparse.Namespace) -> list[Measured]:
    """Of a run whose judge is the renderer's ground truth, so that no detector is needed."""
    from verism import api
    from verism.store import TRUTH

    judge = TruthJudge(scenes(options.images))
    with tempfile.TemporaryDirectory() as name:
        run = api.evaluate(
            "paintskills", model="oracle", detector=judge, out=Path(name) / "run", limit=options.images, seed=5
        )
        n = run.read("images").height
        boxes = run.read("detections", judge.name)
        as_lines = sum(len(json.dumps(row)) + 1 for row in boxes.iter_rows(named=True))
        parts = (run.path / "observations" / "detections").glob("*/part-*.parquet")
        sizes = {
            "images (PNG)": sum(p.stat().st_size for p in run.path.rglob("*.png")),
            "boxes (parquet)": sum(p.stat().st_size for p in parts if p.parent.name != TRUTH),
            "verdicts of three protocols, with reasons": run.scoring_file("verdicts.parquet").stat().st_size,
            "table of images": sum(p.stat().st_size for p in (run.path / "images").glob("*.parquet")),
            "ledger of files": sum(p.stat().st_size for p in (run.path / "ledger").glob("*")),
        }
    peer = as_lines / n
    lines = [Measured("store", "the same boxes as JSON lines", peer, "bytes/image", 1.0, "peer")]
    lines += [Measured("store", what, size / n, "bytes/image", size / n / peer) for what, size in sizes.items()]
    return lines


class TruthJudge:
    """Says what a scene holds, with boxes of no account: as many rows as a perfect detector would write."""

    name = "truth-of-the-scene"

    def __init__(self, todo: Sequence[Scene]) -> None:
        self._labels = {s.scene_id: [o.label for o in s.objects] for s in todo}

    def observe(self, images: Sequence[Any], need: Any) -> Any:
        from verism.records import frame

        rows: list[dict[str, Any]] = []
        for image in images:
            base = {"image_id": image.image_id, "judge": self.name, "color_scores": []}
            rows.append({**base, "query": -1, "class_scores": []})
            for query, label in enumerate(self._labels[image.prompt_id]):
                box = {"x0": 10.25 + query, "y0": 20.5, "x1": 99.75, "y1": 120.125 + query}
                scores = [0.98 if c == label else 0.001 * k for k, c in enumerate(need.classes)]
                rows.append({**base, **box, "query": query, "label": label, "score": 0.98, "class_scores": scores})
        return frame(need.table, rows)


# -------------------------------------------------------------------------------------------------------------- startup
def startup(options: argparse.Namespace) -> list[Measured]:
    codes = {
        "bare Python": "pass",
        "import verism": "import verism",
        "verism --help": "import sys; sys.argv = ['verism', '--help']; from verism.cli.main import main; main()",
        "import numpy, for comparison": "import numpy",
    }

    def job(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

    jobs = [job(code) for code in codes.values()]
    for start in jobs:  # compiled once beforehand; a first start also compiles
        start()
    times = best_of(max(options.repeats, 5), *jobs)
    return [
        Measured("startup", what, seconds, "s", seconds / times[0], "peer" if number == 0 else "")
        for number, (what, seconds) in enumerate(zip(codes, times, strict=True))
    ]


SECTIONS: dict[str, Callable[[argparse.Namespace], list[Measured]]] = {
    "renderer": renderer,
    "detector": detector,
    "generator": generator,
    "store": store,
    "startup": startup,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--images", type=int, default=96, help="images per measurement (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements, of which the best counts (%(default)s)")
    parser.add_argument("--detector", type=Path, help="an ONNX file of `verism train detector`; the packaged one")
    parser.add_argument("--generator", type=Path, help="a folder of `verism train generator`; the packaged one")
    parser.add_argument("--threads", type=int, help="of onnxruntime; one per core")
    parser.add_argument("--json", action="store_true", help="JSON instead of lines")
    options = parser.parse_args(argv)
    if unknown := sorted(set(options.sections) - set(SECTIONS)):
        parser.error(f"unknown section {', '.join(unknown)}; choose from {', '.join(SECTIONS)}")
    if options.images < 3 or options.repeats < 1:
        parser.error("--images must be at least 3 (one for each skill) and --repeats at least 1")
    measured: list[Measured] = []
    for name in options.sections or SECTIONS:
        lines = SECTIONS[name](options)
        measured += lines
        if not options.json:
            for line in lines:
                print(line.line(), flush=True)
    if options.json:
        print(json.dumps([asdict(m) for m in measured], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
