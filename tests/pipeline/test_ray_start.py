"""A Ray that does not start is told of in a line, not by its traceback."""

import socket

import pytest

from verism.errors import UsageError, VerismError
from verism.pipeline import ray_workers
from verism.pipeline.ray_workers import RayCluster, RaySettings, start_ray

ray = pytest.importorskip("ray")


@pytest.mark.parametrize(
    ("address", "failure", "error", "words"),
    [
        ("127.0.0.1:1", AssertionError("asked for minutes"), UsageError, "no Ray cluster at 127.0.0.1:1: .*ray start"),
        ("ray://127.0.0.1:1", AssertionError("asked for minutes"), UsageError, "no Ray cluster at ray://127.0.0.1:1"),
        ("auto", ConnectionError("nobody there"), UsageError, "no Ray cluster at auto: nobody there"),
        (None, Exception("The current node timed out during startup."), VerismError, "machine is busy"),
        (None, RuntimeError("something else"), RuntimeError, "something else"),
    ],
)
def test_start_ray_failure_says_what_to_do(address, failure, error, words, monkeypatch):
    def init(**_):
        raise failure

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(error, match=words) as caught:
        start_ray(RaySettings(address=address))
    assert isinstance(caught.value, error)


@pytest.mark.parametrize(
    ("handshake", "why"),
    [
        (ray_workers.HANDSHAKE, "no answer of a Ray head node within 1 s"),
        ("raise SystemExit('Method not found!')", "Method not found!"),
        ("raise SystemExit(3)", "no reason given"),
    ],
)
def test_start_ray_where_something_else_listens_is_refused_in_time(handshake, why, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("it would ask for minutes"))
    monkeypatch.setattr(ray_workers, "HANDSHAKE", handshake)
    monkeypatch.setattr(ray_workers, "HANDSHAKE_S", 1.0 if "1 s" in why else 60.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UsageError) as caught:
            start_ray(RaySettings(address=address))
    assert str(caught.value) == (
        f"what listens at {address} is no Ray head node ({why}). Name the head node's HOST:PORT that "
        "`ray start --head` prints, or auto for the cluster of this node"
    )


def test_start_ray_goes_on_where_a_head_node_answers(monkeypatch):
    asked = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **options: asked.append(options["address"]))
    monkeypatch.setattr(ray_workers, "HANDSHAKE", "")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert start_ray(RaySettings(address=address))
    assert asked == [address]


TWO_NODES = [{"CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0}]


@pytest.mark.parametrize(
    ("actors", "resources", "blocks", "lines"),
    [
        (2, {}, 6, []),
        (None, {}, 6, []),
        ({"detector": 1}, {}, 6, []),  # the others are as many as fit
        (
            None,
            {"num_cpus": 2.0},
            6,
            [
                "at most 0 of 1 actors (workers) run at once: one takes CPU 2 and GPU 0 (--actor-cpus, --actor-gpus), "
                "and the cluster has CPU 2 and GPU 1 for all"
            ],
        ),
        (
            64,
            {},
            100,
            [
                "at most 2 of 64 actors (workers) run at once: one takes CPU 1 and GPU 0 (--actor-cpus, "
                "--actor-gpus), and the cluster has CPU 2 and GPU 1 for all"
            ],
        ),
        (64, {"num_cpus": 0.0}, 1, ["at most 1 of 64 actors (workers) run at once: the work has 1 block"]),
        (
            {"generator": 1, "detector": 8},
            {"num_cpus": 0.3},
            6,
            [
                "at most 5 of 8 actors (detector) run at once: the work has 6 blocks; one takes CPU 0.3 and GPU 0 "
                "(--actor-cpus, --actor-gpus), and the cluster has CPU 2 and GPU 1 for all"
            ],
        ),
    ],
)
def test_fewer_actors_than_were_asked_for_are_told_of_with_the_reason(actors, resources, blocks, lines, monkeypatch):
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0, "GPU": 1.0})
    settings = RaySettings(actors=actors, num_gpus=0.0, **resources)
    kinds = RayCluster(settings).kinds(["generator", "detector"], blocks)
    assert ray_workers.fewer_than_asked(kinds, blocks, TWO_NODES) == lines
