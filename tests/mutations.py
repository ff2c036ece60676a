"""Seeded defects of the arithmetic, and which tests find each: run after tests were thinned out.

    python tests/mutations.py               all defects
    python tests/mutations.py holm kid      some

Each defect is applied alone to a copy of ``src``; the tests that are named beside it run against the copy. A defect
that no test finds ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Defect(NamedTuple):
    """One line of the source made wrong.

    Args:
        what: the mistake, in words.
        path: below ``src/verism``.
        right: text of the source, which occurs once.
        wrong: what stands there instead.
        tests: files and folders below ``tests`` that should notice.
    """

    what: str
    path: str
    right: str
    wrong: str
    tests: tuple[str, ...]


DEFECTS = {
    "mad": Defect(
        "MAD divided by K - 1 instead of K",
        "metrics/imbalance.py",
        "_deviation(c, t) / _by(divisor, c.shape[-1])",
        '_deviation(c, t) / _by("K-1", c.shape[-1])',
        ("metrics/test_imbalance.py", "suites/social_bias/test_social_bias_suite.py"),
    ),
    "std": Defect(
        "variance reported as standard deviation",
        "metrics/imbalance.py",
        "np.sqrt(np.mean((_shares(c) - t) ** 2, axis=-1))",
        "np.mean((_shares(c) - t) ** 2, axis=-1)",
        ("metrics/test_imbalance.py", "suites/social_bias/test_social_bias_suite.py"),
    ),
    "prdc": Defect(
        "recall reported as precision",
        "metrics/manifold/_prdc.py",
        "precision=float(np.mean(holders > 0))",
        "precision=float(np.mean(others.holders[x, division] > 0))",
        ("metrics/test_manifold.py", "suites/test_geography_suite.py"),
    ),
    "ita": Defect(
        "individual typology angle of b* over L* - 50",
        "metrics/colour.py",
        "np.degrees(np.arctan2(above, yellow))",
        "np.degrees(np.arctan2(yellow, above))",
        ("metrics/test_colour.py", "judges/skin_tone/test_skin_colour.py"),
    ),
    "ciede2000": Defect(
        "rotation term of CIEDE2000 with the other sign",
        "metrics/colour.py",
        "r_t = -2 * np.sqrt(mean_c7",
        "r_t = 2 * np.sqrt(mean_c7",
        ("metrics/test_colour.py",),
    ),
    "count": Defect(
        "count rule lets one object too many pass",
        "suites/paintskills/skills/count.py",
        "right_number, right_classes = len(labels) == wanted,",
        "right_number, right_classes = len(labels) in (wanted, wanted + 1),",
        ("suites/test_paintskills_rules.py", "suites/test_paintskills_suite.py"),
    ),
    "clusters": Defect(
        "intervals of proportions as if images of a prompt were independent",
        "statistics/intervals.py",
        "effective = effective_size(totals, right, lowest=0.0, highest=1.0, confidence=confidence)",
        "effective = float(totals.n_units)",
        ("statistics/test_intervals.py", "statistics/test_coverage.py"),
    ),
    "wilson": Defect(
        "z**2 / 4n instead of z**2 / 4n**2 in Wilson's interval",
        "statistics/intervals.py",
        "z**2 / (4 * n**2)) / shrink",
        "z**2 / (4 * n)) / shrink",
        ("statistics/test_intervals.py",),
    ),
    "holm": Defect(
        "Bonferroni instead of Holm's step-down",
        "statistics/paired.py",
        "p[ranked] * np.arange(len(ranked), 0, -1)",
        "p[ranked] * len(ranked)",
        ("statistics/test_paired.py", "pipeline/test_comparison.py"),
    ),
    "alpha": Defect(
        "Krippendorff's alpha without its small-sample correction",
        "statistics/agreement.py",
        "return 1.0 - (n - 1) * observed / expected",
        "return 1.0 - n * observed / expected",
        ("statistics/test_agreement.py",),
    ),
    "kid": Defect(
        "KID keeps the kernel's diagonal",
        "metrics/kernel.py",
        "np.fill_diagonal(tile, 0.0)",
        "pass",
        ("metrics/test_kernel.py",),
    ),
    "fid": Defect(
        "trace of the root once instead of twice in the Fréchet distance",
        "metrics/frechet.py",
        "b.trace - 2.0 * _trace_sqrt(a, b)",
        "b.trace - _trace_sqrt(a, b)",
        ("metrics/test_frechet.py", "suites/test_quality_suite.py"),
    ),
    "bleu": Defect(
        "brevity penalty of the inverse ratio",
        "metrics/captions/bleu.py",
        "np.exp(np.minimum(0.0, 1.0 - 1.0 / ratio))",
        "np.exp(np.minimum(0.0, 1.0 - ratio))",
        ("metrics/test_captions_scores.py", "metrics/test_captions_arithmetic.py"),
    ),
    "gep": Defect(
        "mean of signed instead of absolute entries of a GEP vector",
        "metrics/presentation/gep.py",
        "return float(np.mean(np.abs(v)))",
        "return float(abs(np.mean(v)))",
        ("metrics/test_presentation_gep.py", "cli/test_metrics_gep.py"),
    ),
    "vqa": Defect(
        "probability of an answer that need not end there",
        "judges/vision_language.py",
        "value += float(collected[len(tokens)][row, self._end].logsumexp(-1))",
        "pass",
        ("judges/test_vision_language.py",),
    ),
    "clipscore": Defect(
        "CLIPScore that goes below zero",
        "metrics/retrieval.py",
        "2.5 * np.maximum(values, 0.0)",
        "2.5 * values",
        ("metrics/test_retrieval.py",),
    ),
}


def finders(defect: Defect) -> list[str]:
    """Tests that fail once the defect is in a copy of the source.

    Raises:
        SystemExit: the source no longer has the line, or pytest could not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        path = source / "verism" / defect.path
        text = path.read_text(encoding="utf-8")
        if text.count(defect.right) != 1:
            raise SystemExit(
                f"{defect.path} has {text.count(defect.right)} times {defect.right!r}; update mutations.py"
            )
        path.write_text(text.replace(defect.right, defect.wrong), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *(f"tests/{name}" for name in defect.tests)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return re.findall(r"^(?:FAILED|ERROR) tests/(\S+)", done.stdout, re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="DEFECT", help=f"of {', '.join(DEFECTS)}  [default: all]")
    names = parser.parse_args().names or list(DEFECTS)
    if unknown := set(names) - set(DEFECTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    missed = 0
    for name in names:
        result = finders(DEFECTS[name])
        missed += not result
        files = sorted({test.split("::")[0] for test in result})
        print(
            f"{name:10} {len(result):4} tests  {DEFECTS[name].what}: {', '.join(files) or 'FOUND BY NO TEST'}",
            flush=True,
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
