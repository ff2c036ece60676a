"""How time, memory and disk space grow with the number of images of a run.

    python benchmarks/scale.py                          1,000, 10,000 and 100,000 images
    python benchmarks/scale.py --images 1000000         one size
    python benchmarks/scale.py --suite alignment        captions from a file instead of a detector
    python benchmarks/scale.py --images 10000 100000 --generate-ms 2 --detect-ms 1
    python benchmarks/scale.py --images 100000 1000000 --folder /data     an hour or two, and 9 GB of disk space
    python benchmarks/scale.py --images 100000 1000000 --write            the same run, written in minutes
    python benchmarks/scale.py --images 100000 --write --suite alignment --stages run score    captions and CLIP vectors

The generator and the detector are stand-ins that cost next to nothing, or as many milliseconds an image as they are
told; storage, tables, scoring and reports are real. With ``--write``, the run is started by the pipeline, and all its
images and observations are then put into shards and tables by the store's own writers, some thousand at a time and not
32: what is measured is all that comes after. Every stage is a process of its own, driver and worker in one,
whose peak memory and processor time are measured. Read the ratios: ``time`` is processor time per image, which other
programs on the machine change less than wall time, ``memory`` the peak, both beside the size before (1.0 is flat). From
100,000 images on they are held against the goals: memory grows less than 1.5 times and stays under 2 GiB, time an image
grows by no more than 20 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from measuring import peak_mib

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage, Need, Request, Result
    from verism.store import Run

SIZES = (1_000, 10_000, 100_000)
PROMPTS = 1_000  # of PaintSkills; a larger run has more images of each
STAGES = ("run", "resume", "score", "report", "compare", "board", "verify", "forget", "compact")
WRITTEN = 4096  # images of a part that ``--write`` writes
FORGOTTEN = 64  # images that are forgotten, of as many parts
WORDS = [f"word{number}" for number in range(5_000)]
VECTOR = 512  # numbers of a CLIP vector
LARGE = 100_000  # images from which the goals hold; below, what any run takes is most of it
LARGEST_RATIO, LARGEST_MIB, FLAT = 1.5, 2048, 1.2  # goals: growth of the peak memory, itself, and time per image


class StandInGenerator:
    """Two-coloured images of 16 x 16 pixels, each with a colour of its seed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.name = "stand-in"

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        from verism.records import Result

        for request in requests:
            if self.seconds:  # even no pause at all gives the core to other programs
                time.sleep(self.seconds)
            pixels = np.zeros((16, 16, 3), np.uint8)
            pixels[:8] = [request.seed >> shift & 127 | 1 for shift in (0, 8, 16)]
            yield Result(image_id=request.image_id, state="ok", pixels=pixels)


class StandInDetector:
    """One box in each image, of the class its colour says."""

    role = "detector"
    name = "stand-in detector"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def check(self, need: Need) -> None:
        """Any classes will do."""

    def observe(self, images: Sequence[LoadedImage], need: Any) -> pl.DataFrame:
        from verism.records import frame

        if self.seconds:
            time.sleep(self.seconds * len(images))
        rows: list[dict[str, Any]] = []
        for image in images:
            number = int(image.pixels[0, 0, 0]) % len(need.classes)
            scores = [0.9 if other == number else 0.0 for other in range(len(need.classes))]
            box = {"score": 0.9, "x0": 2.0, "y0": 2.0, "x1": 14.0, "y1": 14.0, "label": need.classes[number]}
            first = {"image_id": image.image_id, "judge": self.name, "query": -1}
            rows += [first, first | {"query": 0, "class_scores": scores, "color_scores": []} | box]
        return frame(need.table, rows)


class StandInCaptioner:
    """Nine words out of the seed of each image."""

    role = "captioner"
    name = "stand-in captioner"

    def observe(self, images: Sequence[LoadedImage], need: Any) -> pl.DataFrame:
        from verism.records import frame

        rows = []
        for image in images:
            words = random.Random(image.image_id).choices(WORDS, k=9)
            rows.append({"image_id": image.image_id, "judge": self.name, "text": " ".join(words)})
        return frame(need.table, rows)


class StandInEmbedder:
    """Random vectors of as many numbers as those of CLIP ViT-B/32."""

    role = "clip"
    name = "stand-in embedder"

    @staticmethod
    def _vector(text: str) -> list[float]:
        return np.random.default_rng([*text.encode()]).normal(size=VECTOR).astype(np.float32).tolist()

    def observe(self, images: Sequence[LoadedImage], need: Any) -> pl.DataFrame:
        from verism.records import frame

        vectors = [{"image_id": i.image_id, "judge": self.name, "vector": self._vector(i.image_id)} for i in images]
        return frame(need.table, vectors)

    def embed_texts(self, texts: Sequence[str]) -> pl.DataFrame:
        from verism.records import frame

        rows = [{"text": text, "judge": self.name, "vector": self._vector(text)} for text in texts]
        return frame("text_embeddings", rows)


def make(
    suite: str, images: int, folder: Path, options: argparse.Namespace, *, generator: StandInGenerator | None = None
) -> None:
    """Make a run, or look at one that is finished."""
    from verism import api

    generator = generator or StandInGenerator(options.generate_ms / 1000)
    if suite == "paintskills":
        prompts = min(PROMPTS, images)
        api.evaluate(
            "paintskills",
            model=generator,
            detector=StandInDetector(options.detect_ms / 1000),
            limit=prompts,
            n_images=max(1, images // prompts),
            seed=5,
            images_as="shards" if options.write else None,
            out=folder / "run",
        )
        return
    prompts_file, captions = folder / "prompts.jsonl", folder / "captions.jsonl"
    prompts = min(PROMPTS, images) if options.write else images
    if not prompts_file.exists():
        rng = random.Random(1)
        with prompts_file.open("w") as listed, captions.open("w") as said:
            for number in range(prompts):
                texts = [" ".join(rng.choices(WORDS, k=9)) for _ in range(3)]
                row = {"prompt_id": f"p{number:07d}", "prompt": texts[0], "references": texts[:2]}
                listed.write(json.dumps(row) + "\n")
                said.write(json.dumps({"image_id": f"p{number:07d}#0", "caption": texts[2]}) + "\n")
    api.evaluate(
        "alignment",
        model=generator,
        captioner=StandInCaptioner() if options.write else f"results:{captions}",
        clip=StandInEmbedder() if options.write else None,
        prompts=prompts_file,
        n_images=max(1, images // prompts),
        images_as="shards" if options.write else None,
        vqascore=False,
        out=folder / "run",
    )


class _BegunError(Exception):
    """The run is begun: its settings and prompts are kept, and no image yet."""


class _NoGenerator(StandInGenerator):
    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        raise _BegunError(f"{len(requests)} images are wanted")


def write(images: int, folder: Path, options: argparse.Namespace) -> None:
    """Begin a run as the pipeline does, and put all images and observations into it by the store's own writers.

    Args:
        images: of the run.
        folder: where it is made.
        options: as given.
    """
    from verism.imaging import encode_png
    from verism.pipeline.local import make_requests
    from verism.records import LoadedImage, frame
    from verism.store import Run
    from verism.store.images import write_shards
    from verism.store.ledger import sha256
    from verism.suites.catalogue import stored_suite

    with contextlib.suppress(_BegunError):
        make(options.suite, images, folder, options, generator=_NoGenerator(0))
    run = Run.open(folder / "run")
    judges: dict[str, Any] = {
        "detector": StandInDetector(0),
        "captioner": StandInCaptioner(),
        "clip": StandInEmbedder(),
    }
    needs = stored_suite(run).needs()
    generator = StandInGenerator(0)
    for need in needs:
        if need.role == "clip":
            embedder = judges[need.role]
            run.append("text_embeddings", embedder.embed_texts(cast(Any, need).texts), embedder.name)
    requests = make_requests(run.prompts(), 5)
    for start in range(0, len(requests), WRITTEN):
        part = list(requests[start : start + WRITTEN])
        rows: list[dict[str, Any]] = []
        files: list[bytes] = []
        shown: list[LoadedImage] = []
        for request, result in zip(part, generator.generate(part), strict=True):
            assert result.pixels is not None
            files.append(encode_png(result.pixels))
            row = {"image_id": request.image_id, "prompt_id": request.prompt.prompt_id, "index": request.index}
            row |= {"seed": request.seed, "state": "ok", "note": None, "sha256": sha256(files[-1])}
            rows.append(row | {"width": 16, "height": 16})
            shown.append(
                LoadedImage(
                    image_id=request.image_id,
                    prompt_id=request.prompt.prompt_id,
                    pixels=result.pixels,
                    sha256=rows[-1]["sha256"],
                )
            )
        texts = {request.prompt.prompt_id: request.prompt.text for request in part}
        for row, path in zip(rows, write_shards(run, zip(rows, files), texts), strict=True):
            row["path"] = path
        run.append("images", frame("images", rows))
        for need in needs:
            judge = judges[need.role]
            hashes = {image.image_id: image.sha256 for image in shown}
            run.append(need.table, judge.observe(shown, need), judge.name, images=hashes)


def stage(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Do one stage in this process.

    Returns:
        Its seconds, those of processor time in all threads and in processes it started, and its peak memory in MiB.
    """
    from verism import api
    from verism.plans.board import make_board
    from verism.store import Run

    folder, began = Path(options.folder), time.perf_counter()
    if name == "run" and options.write:
        write(options.images[0], folder, options)
    elif name in ("run", "resume"):
        make(options.suite, options.images[0], folder, options)
    elif name == "score":
        api.score(folder / "run")
    elif name == "report":
        api.report(folder / "run", out=folder / "report.html")
    elif name == "compare":
        api.compare(folder / "run", folder / "other")
    elif name == "board":
        make_board([folder])
    elif name == "verify":
        assert not api.verify(folder / "run").findings
    elif name == "forget":
        run = Run.open(folder / "run")
        run.forget("images", _spread(run))
    elif name == "compact":
        api.compact(folder / "run")
    processor = sum(os.times()[:4])  # of this process and of those it started
    return {"seconds": time.perf_counter() - began, "processor": processor, "mib": peak_mib()}


def _spread(run: Run) -> list[str]:
    """An image of each of the first parts."""
    return run._each_part("images", ["image_id"], lambda part: str(part["image_id"][0]), most=FORGOTTEN)


def measure(images: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """All stages of a run of one size, and the bytes it takes."""
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix=f"scale-{images}-") as made:
        folder = Path(made)
        for name in options.stages:
            if name in ("compare", "board") and not (folder / "other").exists():
                _copy(folder / "run", folder / "other")
            command = [sys.executable, __file__, "--stage", name, "--images", str(images), "--folder", made]
            command += ["--suite", options.suite, "--generate-ms", str(options.generate_ms)]
            command += ["--detect-ms", str(options.detect_ms)]
            command += ["--write"] if options.write else []
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{name} of {images:,} images failed ({done.returncode}):\n{done.stderr[-2000:]}")
            results[name] = json.loads(done.stdout.strip().splitlines()[-1])
            print(_line(name, images, results[name]), flush=True)
        sizes: dict[str, float] = {"images": 0, "tables": 0, "report": 0}
        for file in (folder / "run").rglob("*"):
            if file.is_file():
                sizes["images" if file.suffix in (".png", ".tar") else "tables"] += file.stat().st_size
        if (folder / "report.html").exists():
            sizes["report"] = (folder / "report.html").stat().st_size
        results["bytes"] = {kind: size / images for kind, size in sizes.items()}
        print(
            f"{images:>9,}  bytes    {results['bytes']['images']:.0f} of its file and {results['bytes']['tables']:.0f} "
            f"of tables an image; report {sizes['report'] / 1e6:.2f} MB",
            flush=True,
        )
    return results


def _copy(run: Path, other: Path) -> None:
    """A second run with the same tables; its images are the same files."""
    shutil.copytree(run, other, copy_function=os.link)


def _line(name: str, images: int, result: dict[str, float]) -> str:
    return (
        f"{images:>9,}  {name:<8} {result['seconds']:>9.1f} s {1000 * result['seconds'] / images:>8.3f} ms an image "
        f"{1000 * result['processor'] / images:>8.3f} ms of processor time {result['mib']:>8.0f} MiB"
    )


def compared(stage: str, smaller: int, a: Mapping[str, float], larger: int, b: Mapping[str, float]) -> str:
    """A line that holds a stage of a larger run against the same of a smaller one, and both against the goals.

    Args:
        stage: its name.
        smaller: images of the smaller run.
        a: processor time in seconds, and MiB, of it.
        larger: images of the larger run.
        b: processor time in seconds, and MiB, of it.
    """
    flat = (b["processor"] / larger) / (a["processor"] / smaller)
    grown = b["mib"] / a["mib"]
    line = f"{smaller:>9,} to {larger:>9,}  {stage:<8} time an image x {flat:.2f}   memory x {grown:.2f}"
    if smaller < LARGE:
        return line
    missed = [
        goal
        for goal, met in (
            (f"memory x {LARGEST_RATIO}", grown < LARGEST_RATIO),
            (f"{LARGEST_MIB:,} MiB", b["mib"] < LARGEST_MIB),
            (f"time x {FLAT}", flat <= FLAT),
        )
        if not met
    ]
    return f"{line}   {'goals met' if not missed else 'missed: ' + ', '.join(missed)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=list(SIZES), help="Numbers of images.")
    parser.add_argument("--suite", choices=("paintskills", "alignment"), default="paintskills", help="Suite to run.")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), help="What is measured.")
    parser.add_argument("--generate-ms", type=float, default=0.0, help="Milliseconds an image of the generator.")
    parser.add_argument("--detect-ms", type=float, default=0.0, help="Milliseconds an image of the detector.")
    parser.add_argument("--write", action="store_true", help="Write images and tables directly, in place of the run.")
    parser.add_argument("--folder", help="Folder for the runs, which are removed; a temporary one by default.")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="Print one JSON object at the end.")
    options = parser.parse_args()
    if options.stage:
        print(json.dumps(stage(options.stage, options)))
        return
    sizes = sorted(options.images)
    results = {images: measure(images, options) for images in sizes}
    for smaller, larger in zip(sizes, sizes[1:]):
        for name in options.stages:
            print(compared(name, smaller, results[smaller][name], larger, results[larger][name]))
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
