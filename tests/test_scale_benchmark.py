"""What ``benchmarks/scale.py`` says of two sizes: ratios by hand, goals where they hold."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def scale():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("scale_benchmark", BENCHMARKS / "scale.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # 1,150 s for ten times the images of 100 s: 1.15 times the time of each.
        pytest.param((100, 200), (1_150, 280), "time an image x 1.15   memory x 1.40   goals met", id="met"),
        pytest.param((100, 200), (1_300, 300), "x 1.30   memory x 1.50   missed: memory x 1.5, time x 1.2", id="two"),
        pytest.param((100, 1_500), (1_000, 2_048), "memory x 1.37   missed: 2,048 MiB", id="too large"),
    ],
)
def test_goals_are_held_against_large_sizes(scale, a, b, expected):
    smaller, larger = ({"processor": seconds, "mib": mib} for seconds, mib in (a, b))
    assert scale.compared("score", 100_000, smaller, 1_000_000, larger).endswith(expected)
    assert scale.compared("score", 10_000, smaller, 100_000, larger).endswith(f"memory x {b[1] / a[1]:.2f}")
