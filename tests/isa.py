"""The numeric tests under the instruction sets of several processors: `make test-isa`.

    python tests/isa.py                              every setting, the default tests
    python tests/isa.py --only sse4.2 tests/judges   one setting, some tests

A sum of float32 in another order differs in its last bits, and libraries choose the order by processor and by number
of threads. Each setting below makes numpy, OpenBLAS, MKL, oneDNN and torch behave as on another machine. This file is
also a pytest plugin that records for every `pytest.approx`, `assert_allclose` and `assert_close` how much of its
tolerance was used. The table names the tests that fail, and those which pass so narrowly that the next processor may
fail them: what moved from setting to setting is more than a tenth of what was left.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORD = "VERISM_MARGINS"  # names the file that the plugin writes
TESTS = (
    *(f"tests/{name}" for name in ("judges", "metrics", "statistics", "suites", "pipeline", "simulator", "training")),
    *("tests/generators/test_builtin_generator.py", "tests/generators/test_diffusers_pipeline.py"),
    *("tests/test_inference.py", "tests/cli/test_metrics_cli.py"),
)
NARROW = 0.1  # of the tolerance that is left: more than this moved between settings


@dataclass(frozen=True)
class Setting:
    """Environment variables that stand for one kind of processor.

    Args:
        variables: read by the libraries as they are imported.
        needs: flags that the processor of this machine must have.
    """

    variables: dict[str, str]
    needs: frozenset[str] = field(default_factory=frozenset)


def setting(aten: str, onednn: str, mkl: str, openblas: str, numpy_without: str = "", threads: int = 1) -> Setting:
    variables = {
        "ATEN_CPU_CAPABILITY": aten,
        "ONEDNN_MAX_CPU_ISA": onednn,
        "MKL_CBWR": mkl,
        "OPENBLAS_CORETYPE": openblas,
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
    }
    if numpy_without:
        variables["NPY_DISABLE_CPU_FEATURES"] = numpy_without
    return Setting(variables, frozenset({"default": (), "avx2": ("avx2", "fma"), "avx512": ("avx512f",)}[aten]))


SETTINGS = {
    "sse4.2": setting("default", "SSE41", "COMPATIBLE", "Nehalem", "X86_V3"),
    "avx2": setting("avx2", "AVX2", "AVX2", "Haswell", "X86_V4"),
    "avx2, 2 threads": setting("avx2", "AVX2", "AVX2", "Zen", "X86_V4", threads=2),
    "avx512": setting("avx512", "AVX512_CORE", "AVX512", "SkylakeX"),
    "avx512 bf16": setting("avx512", "AVX512_CORE_BF16", "AVX512", "Cooperlake"),
}


# ---------------------------------------------------------------------------------------------------------------------
# The plugin
# ---------------------------------------------------------------------------------------------------------------------
class Margins:
    """Used share of the tolerance, for each comparison of each test, in the order in which they are made."""

    def __init__(self) -> None:
        self.used: dict[str, list[float]] = defaultdict(list)
        self.failed: list[str] = []
        self.test = ""

    def add(self, actual: Any, expected: Any, tolerance: Callable[[Any], Any]) -> None:
        import numpy as np

        try:
            a, b = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
            with np.errstate(all="ignore"):
                share = np.abs(a - b) / np.asarray(tolerance(b), dtype=np.float64)
        except (TypeError, ValueError):  # text, None, ragged lists: no float to be narrow about
            return
        share = share[np.isfinite(share)]
        self.used[self.test].append(float(share.max()) if share.size else 0.0)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.test = item.nodeid
        yield

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        record = {"used": self.used, "failed": self.failed}
        Path(os.environ[RECORD]).write_text(json.dumps(record), encoding="utf-8")

    def wrap(self) -> None:
        import numpy as np

        scalar: Any = type(pytest.approx(1.0))  # sequences and arrays compare element by element through it
        equal, allclose = scalar.__eq__, np.testing.assert_allclose

        def recorded(this: Any, actual: Any) -> bool:
            if isinstance(actual, (int, float, np.number)) and isinstance(this.expected, (int, float, np.number)):
                self.add(actual, this.expected, lambda _: this.tolerance)
            return bool(equal(this, actual))

        def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 0, **more: Any) -> None:
            self.add(actual, desired, lambda b: atol + rtol * np.abs(b))
            allclose(actual, desired, rtol=rtol, atol=atol, **more)

        scalar.__eq__ = recorded
        np.testing.assert_allclose = assert_allclose  # type: ignore[assignment]
        try:
            import torch
        except ImportError:
            return
        close = torch.testing.assert_close

        def assert_close(actual: Any, expected: Any, *, rtol: Any = None, atol: Any = None, **more: Any) -> None:
            if isinstance(actual, torch.Tensor):
                r, a = (1.3e-6, 1e-5) if atol is None else (rtol, atol)  # torch's own for float32
                pair = actual.detach().float().numpy(), expected.detach().float().numpy()
                self.add(*pair, lambda b: a + r * np.abs(b))
            close(actual, expected, rtol=rtol, atol=atol, **more)

        torch.testing.assert_close = assert_close


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get(RECORD):
        from hypothesis import settings

        # The same examples under each setting, or their comparisons could not be compared.
        settings.register_profile("isa", derandomize=True, database=None)
        settings.load_profile("isa")
        margins = Margins()
        margins.wrap()
        config.pluginmanager.register(margins)


# ---------------------------------------------------------------------------------------------------------------------
# The table
# ---------------------------------------------------------------------------------------------------------------------
def processor_flags() -> frozenset[str]:
    """Flags in /proc/cpuinfo; empty where there is none, so that only the plainest setting runs."""
    try:
        match = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return frozenset()
    return frozenset(match[1].split()) if match else frozenset()


def measure(setting: Setting, tests: list[str]) -> tuple[dict[str, Any], str, float]:
    """Runs the tests once.

    Returns:
        The plugin's record, the last line of pytest, and seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "margins.json"
        paths = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, **setting.variables, RECORD: str(record), "PYTHONPATH": paths}
        command = [sys.executable, "-m", "pytest", "-p", "isa", "--tb=line", *tests]
        started = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        if not record.exists():
            raise SystemExit(
                f"pytest did not finish (exit {done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return json.loads(record.read_text(encoding="utf-8")), done.stdout.strip().rsplit("\n", 1)[-1], seconds


def narrow(records: dict[str, dict[str, Any]]) -> list[tuple[float, str]]:
    """Tests whose used share of a tolerance moves by more than `NARROW` of what is left, worst first."""
    results = []
    for test in {test for record in records.values() for test in record["used"]}:
        rows = [record["used"][test] for record in records.values() if test in record["used"]]
        worst = 0.0
        for shares in zip(*rows, strict=False):
            left = 1 - max(shares)
            if 0 <= left < 1:  # a comparison that is meant to be unequal uses more than its tolerance
                worst = max(worst, (max(shares) - min(shares)) / max(left, 1e-9))
        if worst > NARROW:
            results.append((worst, test))
    return sorted(results, reverse=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=SETTINGS, help="this setting; may be repeated")
    parser.add_argument("tests", nargs="*", default=list(TESTS), help="tests to run, as pytest takes them")
    asked = parser.parse_args()
    flags, records = processor_flags(), {}
    print(f"{'setting':18}{'seconds':>8}  result")
    for name in asked.only or SETTINGS:
        if missing := SETTINGS[name].needs - flags:
            print(f"{name:18}{'':>8}  not run: this processor has no {', '.join(sorted(missing))}", flush=True)
            continue
        records[name], last, seconds = measure(SETTINGS[name], asked.tests)
        print(f"{name:18}{seconds:8.0f}  {last}", flush=True)
        for test in records[name]["failed"]:
            print(f"{'':26}  FAILED {test}", flush=True)
    for share, test in narrow(records):
        print(f"narrow: moves by {share:.0%} of what its tolerance leaves: {test}")
    return int(any(record["failed"] for record in records.values()))


if __name__ == "__main__":
    sys.exit(main())
