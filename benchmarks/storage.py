"""Object storage by the library that verism uses (obstore), beside boto3, against an S3 server on this machine.

    python benchmarks/storage.py [--objects 200] [--bytes 20000] [--repeats 5]

Both write, read, list and look up the same objects, in turn; what is printed are medians and their ratio. The server
(moto) is the same for both, and takes most of the time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from verism.locations import location

BUCKET = "bucket"


def main() -> None:
    """Print a table of seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=200)
    parser.add_argument("--bytes", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    os.environ |= {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
    }
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    data, names = os.urandom(options.bytes), [f"{n:06}" for n in range(options.objects)]
    ours = location(f"s3://{BUCKET}/ours")
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "put": (
            lambda: [(ours / name).write_bytes(data) for name in names],
            lambda: [client.put_object(Bucket=BUCKET, Key=f"theirs/{name}", Body=data) for name in names],
        ),
        "get": (
            lambda: [(ours / name).read_bytes() for name in names],
            lambda: [client.get_object(Bucket=BUCKET, Key=f"theirs/{name}")["Body"].read() for name in names],
        ),
        "exists": (
            lambda: [(ours / name).is_file() for name in names],
            lambda: [client.head_object(Bucket=BUCKET, Key=f"theirs/{name}") for name in names],
        ),
        "list": (
            lambda: list(ours.iterdir()),
            lambda: client.list_objects_v2(Bucket=BUCKET, Prefix="theirs/", Delimiter="/"),
        ),
    }
    print(f"{options.objects} objects of {options.bytes:,} bytes, medians of {options.repeats}\n")
    print("| what | obstore, s | boto3, s | ratio |")
    print("|---|--:|--:|--:|")
    for what, both in pairs.items():
        seconds = [statistics.median(times) for times in zip(*(_timed(both) for _ in range(options.repeats)))]
        print(f"| {what} | {seconds[0]:.3f} | {seconds[1]:.3f} | {seconds[0] / seconds[1]:.2f} |")
    server.stop()


def _timed(both: tuple[Callable[[], Any], ...]) -> list[float]:
    found = []
    for one in both:
        begun = time.perf_counter()
        one()
        found.append(time.perf_counter() - begun)
    return found


if __name__ == "__main__":
    main()
