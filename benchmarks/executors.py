"""Ray beside one process: overhead, scaling, and random kills. Read the ratios, seconds differ between machines.

    python benchmarks/executors.py                          50 ms an image, 1 and 2 workers, sleeping and computing
    python benchmarks/executors.py --images 400 --seconds 0.05 --json
    python benchmarks/executors.py --kills 20               so many kills of workers, of nodes and of drivers
    python benchmarks/executors.py --dealer 64              how many blocks a second are dealt to so many workers

The generator draws at once and then sleeps, or computes, for a known time; the judge reads the pixels. Ray is up and
the workers are warm before the clock starts, as on a cluster; what starting costs stands beside it. ``overhead``: time
of Ray with one worker by that of this process, at most 1.15 is wanted. ``scaling``: time with one worker by that with
two, 1.8 is wanted where workers sleep and 1.6 where they compute.

Dealer: that many threads of one process claim and finish blocks without doing anything, so that nothing but dealing is
measured.

Kills: two nodes on this machine; at a random moment a worker, a node (without warning) or the driver is killed, and a
driver that was killed is started again. Every run must end in the scores of one process, bit by bit, each row once.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

fakes, share_runs = (importlib.import_module(name) for name in ("fakes", "share_runs"))

from verism.pipeline.ray_workers import RayCluster, RaySettings  # noqa: E402
from verism.pipeline.shares import BLOCK_SIZES, blocks_of  # noqa: E402
from verism.records import Request, Result  # noqa: E402
from verism.store import Run, verify  # noqa: E402

KINDS = ("worker", "node", "driver")


class BusyGenerator(share_runs.LoggedGenerator):
    """Takes its time by computing, where the other sleeps."""

    def __init__(self, *, cpu_seconds: float, limit: int) -> None:
        super().__init__(limit=limit)
        self.cpu_seconds = cpu_seconds

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for result in super().generate(requests):
            end = time.thread_time() + self.cpu_seconds
            while time.thread_time() < end:
                pass
            yield result


def timed(out: Path, images: int, seconds: float, *, computes: bool, executor: Any) -> float:
    """Seconds of an evaluation."""
    import verism

    model = (
        BusyGenerator(cpu_seconds=seconds, limit=images)
        if computes
        else share_runs.LoggedGenerator(seconds=seconds, limit=images)
    )
    suite = share_runs.standard_suite(images)
    began = time.monotonic()
    judge = fakes.PixelJudge()
    verism.evaluate(suite, model=model, detector=judge, out=out, executor=executor, on_summary=lambda _: None)
    return time.monotonic() - began


def measure(images: int, seconds: float, repeats: int) -> list[dict[str, Any]]:
    """Rows of times and ratios."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        up = time.monotonic() - began
        for computes in (False, True):
            times: dict[str, list[float]] = {"local": [], "ray, 1 worker": [], "ray, 2 workers": []}
            with RayCluster(RaySettings(actors=1)) as one:
                for name, cluster in (("ray, 1 worker", one), ("local", "local")):
                    timed(Path(folder) / f"warm-{computes}-{name}", 8, 0.0, computes=computes, executor=cluster)
                for turn in range(repeats):  # in turns, so that a busy moment of the machine hits both
                    for name, executor in (("local", "local"), ("ray, 1 worker", one)):
                        out = Path(folder) / f"{computes}-{name}-{turn}"
                        times[name].append(timed(out, images, seconds, computes=computes, executor=executor))
            with RayCluster(RaySettings(actors=2)) as two:
                timed(Path(folder) / f"warm2-{computes}", 32, 0.0, computes=computes, executor=two)
                for turn in range(repeats):
                    out = Path(folder) / f"{computes}-two-{turn}"
                    times["ray, 2 workers"].append(timed(out, images, seconds, computes=computes, executor=two))
            best = {name: min(values) for name, values in times.items()}
            rows.append(
                {
                    "generator": "computes" if computes else "sleeps",
                    "images": images,
                    "seconds_per_image": seconds,
                    "seconds": {name: round(value, 2) for name, value in best.items()},
                    "ray_starts_in_seconds": round(up, 1),
                    "overhead": round(best["ray, 1 worker"] / best["local"], 3),
                    "scaling": round(best["ray, 1 worker"] / best["ray, 2 workers"], 3),
                }
            )
        ray.shutdown()
    return rows


def dealt(workers: int, blocks: int = 4000) -> dict[str, float]:
    """Blocks a second that the dealer deals to workers that do nothing.

    Args:
        workers: so many threads, each of which claims a block, finishes it and claims the next.
        blocks: of the stage.
    """
    import ray

    from verism.pipeline.ray_workers import RayShares

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    sizes = blocks_of(range(blocks * BLOCK_SIZES[1]))
    with RayCluster(RaySettings(actors=1)) as cluster:
        done: list[int] = []

        def work(number: int) -> None:
            shares = RayShares(cluster.dealer, f"1/worker-{number}")
            with shares.claims("images", range(blocks * BLOCK_SIZES[1]), key=str, done=frozenset) as claims:
                for claim in claims:
                    if claim is not None:
                        claim.advance(claim.left)
                        done.append(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
    ray.shutdown()
    assert len(done) == len(sizes)
    return {"workers": workers, "blocks_per_second": round(len(done) / seconds), "images_of_a_block": BLOCK_SIZES[1]}


def killed(kind: str, number: int, alone: bytes) -> str:
    """What is wrong after a kill; empty if nothing is."""
    import ray
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
    head = {"num_cpus": 1, "object_store_memory": 100_000_000, "_system_config": quick}
    rng = random.Random(f"{kind}-{number}")
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder) / "run", Path(folder) / "log"
        log.mkdir()
        cluster = Cluster(initialize_head=True, connect=False, head_node_args=head)
        second = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        at = rng.randrange(1, share_runs.LIMIT - 4)

        def when_made(act: Callable[[], None]) -> None:
            deadline = time.monotonic() + 120
            while len(share_runs.images_made(log)) < at and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(rng.random() * 0.05)
            act()

        def kill_worker() -> None:
            os.kill(int(rng.choice(sorted(share_runs.made_by(log)))), signal.SIGKILL)

        try:
            if kind == "driver":
                driver = subprocess.Popen(
                    [sys.executable, __file__, "--drive", cluster.address, str(out), str(log)],
                    stderr=subprocess.DEVNULL,
                )
                when_made(driver.kill)
                driver.wait()
            else:
                act = kill_worker if kind == "worker" else lambda: cluster.remove_node(second, allow_graceful=False)
                threading.Thread(target=when_made, args=(act,), daemon=True).start()
            share_runs.evaluate(out, log, seconds=0.03, executor="ray")
            rows = Run.open(out).read("images")
            if (out / "scores.json").read_bytes() != alone:
                return "other scores"
            if rows.height != share_runs.LIMIT or rows["image_id"].n_unique() != share_runs.LIMIT:
                return f"{rows.height} rows"
            return "" if verify(out).is_whole else "the run is not whole"
        finally:
            ray.shutdown()
            cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.05, help="of the generator for an image")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kills", type=int, default=0, help="of each kind, in place of times")
    parser.add_argument("--dealer", type=int, default=0, metavar="WORKERS", help="in place of times")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--drive", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray import cloudpickle

    for module in (fakes, share_runs):  # workers cannot import them
        cloudpickle.register_pickle_by_value(module)
    if asked.drive:
        address, out, log = asked.drive
        share_runs.evaluate(Path(out), Path(log), seconds=0.03, executor=f"ray:{address}")
        return
    if asked.dealer:
        print(json.dumps(dealt(asked.dealer)))
        return
    if not asked.kills:
        for row in measure(asked.images, asked.seconds, asked.repeats):
            print(json.dumps(row) if asked.json else f"{row['generator']}: {row}")
        return
    with tempfile.TemporaryDirectory() as folder:
        alone = (share_runs.evaluate(Path(folder) / "run").path / "scores.json").read_bytes()
    wrong = 0
    for kind in KINDS:
        found = [killed(kind, number, alone) for number in range(asked.kills)]
        wrong += sum(map(bool, found))
        row = {"killed": kind, "runs": asked.kills, "wrong": [what for what in found if what]}
        print(
            json.dumps(row) if asked.json else f"{kind}: {asked.kills} kills, {sum(map(bool, found))} runs went wrong"
        )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
