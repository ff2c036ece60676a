"""The viewer's first screens on a run of very many images, beside reading the whole tables.

    python benchmarks/viewer.py --images 100000

makes a run of that many rows (one image file stands for all), and prints for each request of the first screens the
time of the first call, of a second call with another page or filter, and the ratio to reading images, prompts and
verdicts whole with ``Run`` and joining them, as a page without lazy queries would. Nothing is kept.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from verism.imaging import encode_png
from verism.manifest import RunSettings, Scoring
from verism.records import Prompt, Score, frame
from verism.specs import COUNT, SHARE, MetricSpec, Pairing, Presentation, SuiteInfo
from verism.store import Run

FACETS = {"kind": ("one", "two", "three", "four"), "place": tuple(f"place {n}" for n in range(50))}
JUDGE = "synthetic-detector@1"
BOXES = 4


def make_run(path: Path, n: int, *, seed: int = 0) -> Run:
    """A scored run of n images, each of a prompt of its own, with boxes and three rules.

    Args:
        path: the run directory.
        n: number of images.
        seed: seed of verdicts and boxes.
    """
    rng = np.random.default_rng(seed)
    scoring = Scoring(judges={"detector": JUDGE})
    run = Run.start(path, RunSettings(suite="synthetic", generator="synthetic"), scoring=scoring)
    picture = run.write_image("all", encode_png(rng.integers(0, 255, (256, 256, 3), np.uint8)))
    ids = [f"prompt_{number:07d}" for number in range(n)]
    images = [f"{prompt}#0" for prompt in ids]
    run.write_prompts(
        [
            Prompt(
                prompt_id=prompt,
                suite="synthetic",
                text=f"a picture of {number} things",
                facets={name: values[number % len(values)] for name, values in FACETS.items()},
                spec={},
            )
            for number, prompt in enumerate(ids)
        ]
    )
    table = pl.DataFrame({"image_id": images, "prompt_id": ids}).with_columns(
        pl.lit(0).alias("index"), pl.lit(1).alias("seed"), pl.lit("ok").alias("state"), pl.lit(picture).alias("path"),
        pl.lit("0" * 64).alias("sha256"), pl.lit(256).alias("width"), pl.lit(256).alias("height"),
        pl.lit("").alias("note"),
    )  # fmt: skip
    run.append("images", _shaped("images", table))
    rules = {"decides": True, "counts": False, "similar": False}
    parts = []
    for rule, binary in rules.items():
        values = rng.integers(0, 2, n).astype(float) if binary else rng.random(n)
        reasons = np.where(values >= 0.5, "as asked", [f"expected {k % 7}, found {k % 5}" for k in range(n)])
        parts.append(
            pl.DataFrame({"image_id": images, "prompt_id": ids, "rule": rule, "value": values, "reason": reasons})
        )
    verdicts = pl.concat(parts).with_columns(pl.lit("plain").alias("protocol"), pl.lit(None, pl.String).alias("detail"))
    run.write_verdicts(_shaped("verdicts", verdicts))
    corners = rng.random((4, n * BOXES), np.float32) * 250
    boxes = pl.DataFrame(
        {"image_id": np.repeat(images, BOXES), "query": np.tile(np.arange(BOXES), n), "score": rng.random(n * BOXES)}
        | dict(zip(("x0", "y0", "x1", "y1"), corners, strict=True))
    ).with_columns(pl.lit(JUDGE).alias("judge"), pl.lit("thing").alias("label"), pl.lit("thing").alias("raw_label"))
    run.append("detections", _shaped("detections", boxes), JUDGE)
    run.write_presentation(presentation())
    share = float(verdicts.filter(pl.col("rule") == "decides")["value"].mean() or 0)
    score = Score(
        suite="synthetic", metric="share_right", protocol="plain", group={}, value=share, ci_low=share, ci_high=share,
        n_used=n, n_unusable=0, unit="share", higher_is_better=True,
    )  # fmt: skip
    run.write_scores([score])
    return run


def presentation() -> Presentation:
    """What a suite with these rules would say of itself."""
    share = MetricSpec(
        "share_right", title="share right", meaning="Share of images.", scale=SHARE, better="higher", headline=True
    )
    count = MetricSpec("n", title="number", meaning="Number of images.", scale=COUNT, better=None)
    info = SuiteInfo(name="synthetic", title="Synthetic", question="?", summary="", protocols={"plain": "As made."})
    pairing = Pairing(rule="decides", metric="share_right", facet="kind", right_or_wrong=True)
    return Presentation(info=info, metrics=(share, count), pairings=(pairing,))


def _shaped(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    empty = frame(table, [])
    missing = [name for name in empty.columns if name not in rows.columns]
    return rows.with_columns(pl.lit(None).alias(name) for name in missing).select(
        pl.col(name).cast(kind) for name, kind in empty.schema.items()
    )


def eager(run: Run) -> pl.DataFrame:
    """The first page the plain way: whole tables, joined, sorted and cut.

    Args:
        run: the run.
    """
    prompts = pl.DataFrame([{"prompt_id": p.prompt_id, "text": p.text, **p.facets} for p in run.prompts()])
    verdicts = run.verdicts().filter(pl.col("rule") == "decides")
    return run.read("images").join(prompts, on="prompt_id").join(verdicts, on="image_id").sort("image_id").head(48)


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median time of a call, seconds.

    Args:
        call: what is timed.
        repeats: number of calls.
    """
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    from fastapi.testclient import TestClient

    from verism.viewer.server import create_app

    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "many", options.images)
        whole = seconds(lambda: eager(run), options.repeats)
        print(f"{options.images:,} images; reading the tables whole: {1000 * whole:.0f} ms")
        requests = {
            "list of runs": "/api/runs",
            "run": "/api/run?run=many",
            "first page": "/api/images?run=many",
            "filters": "/api/filters?run=many",
            "first page, with boxes": "/api/images?run=many&boxes=1",
            "wrong ones": "/api/images?run=many&outcome=wrong",
            "facet, rule, by value": "/api/images?run=many&facet=kind%3Dtwo&rule=similar&order=value",
            "text": "/api/images?run=many&q=999",
            "an image": "/api/image?run=many&id=prompt_0000777%230",
        }

        def fresh(url: str) -> Callable[[], Any]:
            def call() -> None:
                app = create_app(Path(folder))  # nothing kept from earlier calls
                reply = TestClient(app, base_url="http://127.0.0.1").get(url)
                assert reply.status_code == 200, reply.text

            return call

        kept = TestClient(create_app(Path(folder)), base_url="http://127.0.0.1")
        for name, url in requests.items():
            cold = seconds(fresh(url), options.repeats)
            kept.get(url)
            warm = seconds(lambda url=url: kept.get(url), options.repeats)  # type: ignore[misc]
            print(f"{name:24s} {1000 * cold:6.0f} ms, again {1000 * warm:5.0f} ms; whole / first {whole / cold:5.1f}")
        screen = [requests[k] for k in ("run", "first page", "filters")]
        start = time.perf_counter()
        client = TestClient(create_app(Path(folder)), base_url="http://127.0.0.1")
        ids = [row["image_id"] for row in [client.get(url) for url in screen][1].json()["images"]]
        for image_id in ids:
            client.get("/thumbnail", params={"run": "many", "id": image_id})
        print(f"gallery opened by its link, with {len(ids)} thumbnails: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
