"""``verism data reference``: the suite whose reading of the data counts, and what is said without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from verism.imaging import encode_png
from verism.references import read_reference

Verism = Callable[..., tuple[int, str, str]]


@pytest.fixture
def real_images(tmp_path: Path) -> Path:
    folder = tmp_path / "real"
    folder.mkdir()
    noise = np.random.default_rng(0).integers(256, size=(3, 64, 64, 3), dtype=np.uint8)
    for i, pixels in enumerate(noise):
        (folder / f"{i}.png").write_bytes(encode_png(pixels))
    return folder


@pytest.mark.parametrize("suite_first", [True, False])
def test_data_reference_with_a_suite_writes_features(
    in_process: Verism, real_images: Path, tmp_path: Path, suite_first: bool
) -> None:
    asked = ["quality", real_images] if suite_first else [real_images, "--suite", "quality"]
    out = tmp_path / "real.npz"
    code, result, err = in_process("data", "reference", *asked, "--features", "builtin", "--out", out)
    assert code == 0, err
    assert result.startswith(f"{out}: 3 images, ")
    assert len(read_reference(out).images) == 3


def test_data_reference_without_a_suite_says_how(in_process: Verism, real_images: Path, tmp_path: Path) -> None:
    code, out, err = in_process("data", "reference", real_images, "--features", "builtin", "--out", tmp_path / "r.npz")
    assert (code, out) == (2, "")
    assert "There are: geography, geography_dollarstreet, quality; use: verism data reference SUITE SOURCE" in err


def test_data_reference_of_a_suite_without_real_images_is_refused(in_process: Verism, tmp_path: Path) -> None:
    code, _, err = in_process("data", "reference", "paintskills", tmp_path, "--features", "builtin", "--out", "r.npz")
    assert code == 2
    assert "unknown suite 'paintskills'" in err


def test_data_reference_has_the_options_of_its_suite_only(in_process: Verism) -> None:
    _, geography, _ = in_process("data", "reference", "geography", "--help")
    _, quality, _ = in_process("data", "reference", "quality", "--help")
    assert "--tree-tag" in geography
    assert "--tree-tag" not in quality
    assert "--reference" not in geography.replace("--reference takes", "")


def test_a_run_with_real_images_alone_still_asks_for_prompts(
    in_process: Verism, real_images: Path, tmp_path: Path
) -> None:
    asked = ("--reference", real_images, "--model", "builtin", "--features", "builtin", "--out", tmp_path / "R")
    code, _, err = in_process("run", "quality", *asked)
    assert code == 2
    assert "needs images (--images) or prompts for a model (--prompts FILE)" in err
