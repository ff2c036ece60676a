"""On a Ray cluster of two nodes on this machine: scores of one process, bit by bit, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray")

from share_runs import LIMIT, evaluate, images_made, made_by, standard_suite

import verism
from verism.api import make_reference
from verism.errors import UsageError, VerismError
from verism.pipeline import ray_workers
from verism.pipeline.local import make_requests
from verism.pipeline.ray_workers import RayCluster, RaySettings
from verism.store import Run, verify

TESTS = Path(__file__).parents[1]

# A cluster takes cores from the tests beside it, and loses nodes when they take its: `make test-ray`.
pytestmark = [
    pytest.mark.skipif("VERISM_TEST_RAY" not in os.environ, reason="by make test-ray, on their own"),
    pytest.mark.usefixtures("nodes"),
]


@pytest.fixture(scope="module")
def nodes():
    """Two nodes of one core each; this process belongs to the first."""
    import fakes
    import ray
    import share_runs
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for module in (fakes, share_runs):  # workers cannot import the tests
        cloudpickle.register_pickle_by_value(module)
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    head = {"num_cpus": 1, "object_store_memory": 100_000_000, "_system_config": quick}
    cluster = Cluster(initialize_head=True, connect=False, head_node_args=head)
    # Before there is another node: on one machine, a driver may belong to any.
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    for module in (fakes, share_runs):
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(scope="module")
def cluster(nodes):  # noqa: ARG001
    """Workers that stay; tests that kill start their own."""
    with RayCluster(RaySettings(num_cpus=0, actors=2)) as workers:
        yield workers


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> bytes:
    """The scores of one process."""
    return (evaluate(tmp_path_factory.mktemp("alone") / "run").path / "scores.json").read_bytes()


@pytest.fixture
def log(tmp_path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def check(path: Path, alone: bytes) -> None:
    """The run is that of one process: each row once, and the same scores."""
    run = Run.open(path)
    assert run.read("images")["image_id"].to_list() == sorted(
        r.image_id for r in make_requests(standard_suite().prompts(), 5)
    )
    boxes = run.read("detections", "pixel-judge@1")
    assert boxes.select("image_id", "query").is_duplicated().sum() == 0
    assert boxes["image_id"].n_unique() == LIMIT
    assert (path / "scores.json").read_bytes() == alone
    assert verify(path).is_whole


def meanwhile(log: Path, images: int, act: Callable[[], None]) -> threading.Thread:
    """A thread that acts once so many images are made."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while len(images_made(log)) < images and time.monotonic() < deadline:
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


# ------------------------------------------------------------------------------------------------------------ settings
def test_settings_are_read_as_they_are_written():
    assert RaySettings.parse("ray") == RaySettings()
    assert RaySettings.parse("ray:auto", actors="4", num_gpus="0.5") == RaySettings(
        address="auto", actors=4, num_gpus=0.5
    )
    assert RaySettings.parse("ray:h:1", actors="generator=2,detector=4", num_cpus="detector=0.5").actors == {
        "generator": 2,
        "detector": 4,
    }
    for executor, asked in (
        ("rai", {}),
        ("ray", {"actors": "a=b"}),
        ("ray", {"actors": "1.5"}),
        ("ray", {"actors": "0"}),
    ):
        with pytest.raises(UsageError, match=r"executor|actors"):
            RaySettings.parse(executor, **asked)


# ---------------------------------------------------------------------------------------------------------------- runs
def test_workers_make_each_image_once_and_end_in_the_scores_of_one_process(tmp_path, log, cluster, alone):
    run = evaluate(tmp_path / "run", log, seconds=0.02, executor=cluster)
    check(run.path, alone)
    assert sorted(images_made(log)) == run.read("images")["image_id"].to_list()
    assert len(made_by(log)) == 2  # processes
    # What is done is not done again, and who does the rest is who was there.
    run.forget("images", run.read("images")["image_id"].to_list()[:5])
    check(evaluate(tmp_path / "run", log, executor=cluster).path, alone)
    assert len(images_made(log)) == LIMIT + 5
    assert len(made_by(log)) == 2


def test_roles_have_workers_of_their_own(tmp_path, log, alone):
    settings = RaySettings(actors={"generator": 1, "detector": 1}, num_cpus=0.5)
    run = evaluate(tmp_path / "run", log, executor=settings)
    check(run.path, alone)
    assert len(made_by(log)) == 1


def test_fewer_workers_than_were_asked_for_are_told_of(tmp_path, alone):
    told: list[str] = []
    run = evaluate(tmp_path / "run", executor=RaySettings(actors=64), on_summary=told.append)
    check(run.path, alone)
    assert [line for line in told if "of 64 actors" in line] == [
        "at most 2 of 64 actors (workers) run at once: the work has 6 blocks; one takes CPU 1 and GPU 0 (--actor-cpus, "
        "--actor-gpus), and the cluster has CPU 2 and GPU 0 for all"
    ]


def test_another_judge_observes_on_workers(tmp_path, cluster):
    from fakes import PixelJudge

    other = PixelJudge(name="other@1", wrong=lambda image_id: image_id.endswith("1#0"))
    runs = [evaluate(tmp_path / name) for name in ("local", "ray")]
    for run, executor in zip(runs, ("local", cluster), strict=True):
        assert verism.observe(run, other, executor=executor)
    a, b = ((run.path / "scores.json").read_bytes() for run in runs)
    assert a == b


class MeanColour:
    """Features of an image: its mean colour."""

    role = "features"
    name = "mean-colour@1"

    def observe(self, images, need):
        from verism.records import vector_rows

        vectors = np.stack([image.pixels.reshape(-1, 3).mean(0) for image in images]).astype(np.float32)
        return vector_rows(need.table, [image.image_id for image in images], self.name, vectors)


def test_features_of_real_images_are_computed_by_workers(tmp_path, cluster):
    from ray import cloudpickle

    from verism.imaging import encode_png
    from verism.references import read_reference

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    (tmp_path / "real").mkdir()
    for number in range(20):
        pixels = np.random.default_rng(number).integers(0, 255, (16, 16, 3), dtype=np.uint8)
        (tmp_path / "real" / f"{number:02d}.png").write_bytes(encode_png(pixels))
    for name, executor in (("local", "local"), ("ray", cluster)):
        files = {"out": tmp_path / f"{name}.npz", "work": tmp_path / name}
        make_reference("quality", tmp_path / "real", features=MeanColour(), executor=executor, **files)
    a, b = (read_reference(tmp_path / f"{name}.npz") for name in ("local", "ray"))
    assert [image.sha256 for image in a.images] == [image.sha256 for image in b.images]
    assert np.array_equal(a.features, b.features)


def test_a_plan_ends_in_the_scores_of_one_process(tmp_path):
    """Several models on several suites; one suite takes images from another, and one model fails."""
    from verism.plans import Plan, run_plan
    from verism.plans.execution import RayExecutor

    standard = {"suite": "paintskills", "skills": ["object", "count"], "limit": 6}
    plan = Plan.make(
        models={"right": "oracle", "wrong": "scripted:error=0.5", "none": f"images:{tmp_path / 'nowhere'}"},
        suites={"first": standard, "again": {**standard, "rules": {"threshold_revised": 0.9}}},
        defaults={"detector": "truth", "seed": 3},
    )
    said: list[str] = []
    executor = RayExecutor(RaySettings(actors=2, num_cpus=0.5), tell=said.append)
    outcomes = {"local": run_plan(plan, tmp_path / "local"), "ray": run_plan(plan, tmp_path / "ray", executor=executor)}
    assert [(o.model, o.suite, o.state) for o in outcomes["ray"]] == [
        (o.model, o.suite, o.state) for o in outcomes["local"]
    ]
    assert [o.state for o in outcomes["ray"]] == ["done"] * 4 + ["failed"] * 2
    for local, ray in zip(outcomes["local"][:4], outcomes["ray"][:4], strict=True):
        assert (local.path / "scores.json").read_bytes() == (ray.path / "scores.json").read_bytes()
        assert verify(ray.path).is_whole
    assert len(said) == 6
    kept = run_plan(plan, tmp_path / "ray", executor=executor)
    assert [o.state for o in kept] == ["kept"] * 4 + ["failed"] * 2


def test_scenes_are_rendered_by_tasks_as_by_processes():
    from functools import partial

    from verism.pipeline.ray_renderer import RayRenderer
    from verism.registry import Context, make_renderer

    make = partial(make_renderer, Context(size=64))
    scenes = standard_suite().scenes[:2]
    renderer = RayRenderer(make, RaySettings())
    images = list(renderer.render_all(scenes))
    renderer.close()
    for scene, image in zip(scenes, images, strict=True):
        assert np.array_equal(image.pixels, make().render(scene).pixels)


def test_what_fails_in_a_worker_fails_here_in_its_words(tmp_path):
    one = RaySettings(actors=1, num_cpus=0.25)

    def broken(*_: object) -> None:
        raise VerismError("no paint left")

    def wrong(*_: object) -> None:
        raise ZeroDivisionError

    judge = {"detector": "builtin"}
    with pytest.raises(VerismError, match="no paint left"):
        verism.evaluate(standard_suite(), model=broken, out=tmp_path / "a", judges=judge, executor=one)
    with pytest.raises(VerismError, match="ZeroDivisionError"):
        verism.evaluate(standard_suite(), model=wrong, out=tmp_path / "b", judges=judge, executor=one)


def test_roles_and_resources_that_there_are_not_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no role 'captioner' here; there are generator, detector, workers"):
        evaluate(tmp_path / "run", executor=RaySettings(actors={"captioner": 1}))
    with pytest.raises(UsageError, match="needs GPU 1, and the cluster has 0"):
        evaluate(tmp_path / "run", executor=RaySettings(num_gpus=1))
    with pytest.raises(UsageError, match="not with --gpus or --executor ray"):
        evaluate(tmp_path / "run", executor="ray", share=True)


# --------------------------------------------------------------------------------------------------------------- kills
def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path, log, alone):
    def kill() -> None:
        os.kill(int(next(iter(made_by(log)))), signal.SIGKILL)

    thread = meanwhile(log, 12, kill)
    run = evaluate(tmp_path / "run", log, seconds=0.03, executor=RaySettings(actors=1, num_cpus=0.5))
    thread.join()
    check(run.path, alone)
    assert len(made_by(log)) == 2
    assert max(Counter(images_made(log)).values()) == 2  # those that were made and not kept


def test_workers_that_die_one_after_the_other_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_workers, "MAX_DEATHS", 2)

    def deadly(*_: object) -> None:
        os._exit(7)

    with pytest.raises(VerismError, match="2 workers died in a row"):
        verism.evaluate(
            standard_suite(), model=deadly, out=tmp_path / "run", judges={"detector": "builtin"},
            executor=RaySettings(actors=1, num_cpus=0.5),
        )  # fmt: skip


def driver_code(out: Path, log: Path, address: str) -> str:
    """A script that evaluates on the cluster, and tells lines on standard error."""
    return f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
import fakes, share_runs
from ray import cloudpickle
cloudpickle.register_pickle_by_value(fakes); cloudpickle.register_pickle_by_value(share_runs)
share_runs.evaluate(
    Path({str(out)!r}), Path({str(log)!r}), seconds=0.03, executor="ray:{address}",
    on_summary=lambda line: print(line, file=sys.stderr),
)
"""


def test_of_a_killed_worker_the_driver_tells_and_nothing_stands_on_standard_output(tmp_path, log, nodes, alone):
    driver = subprocess.Popen(
        [sys.executable, "-c", driver_code(tmp_path / "run", log, nodes.address)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    meanwhile(log, 12, lambda: os.kill(int(next(iter(made_by(log)))), signal.SIGKILL)).join()
    stdout, stderr = driver.communicate(timeout=120)
    assert driver.returncode == 0, stderr
    assert stdout == ""
    assert "a worker was lost, and its work is dealt again" in stderr
    check(tmp_path / "run", alone)


def test_a_killed_driver_goes_on_where_it_was(tmp_path, log, nodes, alone):
    driver = subprocess.Popen([sys.executable, "-c", driver_code(tmp_path / "run", log, nodes.address)])
    meanwhile(log, 12, driver.kill).join()
    assert driver.wait() == -signal.SIGKILL
    before = set(made_by(log))
    run = evaluate(tmp_path / "run", log, executor="ray")
    check(run.path, alone)
    assert set(made_by(log)) - before
    assert len(images_made(log)) < 2 * LIMIT  # it did not begin anew


def test_a_lost_node_takes_nothing_with_it(tmp_path, log, nodes, alone):
    """The last test: the cluster has one node less afterwards."""
    second = next(node for node in nodes.list_all_nodes() if node is not nodes.head_node)
    thread = meanwhile(log, 20, lambda: nodes.remove_node(second, allow_graceful=False))
    run = evaluate(tmp_path / "run", log, seconds=0.05, executor="ray")
    thread.join()
    check(run.path, alone)
    assert len(made_by(log)) == 2
