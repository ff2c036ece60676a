"""Depth estimators of the hub on tiny checkpoints, depth maps made elsewhere, and maps as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from PIL import Image  # noqa: E402
from tiny_models import tiny_clip  # noqa: E402
from tiny_vision_language import enliven  # noqa: E402

from verism.errors import UsageError, VerismError  # noqa: E402
from verism.judges.depth.maps import MOST_PX, depth_table  # noqa: E402
from verism.judges.depth.results import DepthResults  # noqa: E402
from verism.judges.depth.transformers_depth import TransformersDepth  # noqa: E402
from verism.judges.hub import HubOptions  # noqa: E402
from verism.metrics.depth_maps import depth_of_text, nearest_size, nearness, text_of_depth  # noqa: E402
from verism.pipeline.stream import check_rows  # noqa: E402
from verism.records import DepthNeed, LoadedImage, schema  # noqa: E402

NEED = DepthNeed()
HUB = HubOptions(device="cpu", local_files_only=True, batch_size=2)


def tiny_dpt(folder: Path) -> Path:
    """A DPT with random weights."""
    torch.manual_seed(0)
    config = transformers.DPTConfig(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=16, image_size=64, patch_size=16,
        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=8,
        reassemble_factors=[4, 2, 1, 0.5],
    )  # fmt: skip
    enliven(transformers.DPTForDepthEstimation(config)).save_pretrained(folder)
    transformers.DPTImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(folder)
    return folder


def image(name: str, height: int, width: int, seed: int = 0) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


IMAGES = [image("a", 40, 60), image("b", 60, 30, 1), image("c", 40, 60, 2)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_dpt(tmp_path_factory.mktemp("dpt")))


def steps_of(table: Any) -> list[np.ndarray]:
    return [depth_of_text(t, h, w) for t, h, w in table.select("nearness", "height", "width").iter_rows()]


# ------------------------------------------------------------------------------------------------------------ as text
@given(arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12))))
def test_maps_come_back_from_text(steps):
    text = text_of_depth(steps)
    assert np.array_equal(depth_of_text(text, *steps.shape), steps)


def test_steps_run_from_the_farthest_to_the_nearest():
    steps, low, high = nearness([[2.0, 4.0], [3.0, 2.5]])
    assert steps.tolist() == [[0, 255], [128, 64]]
    assert (low, high) == (2.0, 4.0)
    far, low, high = nearness([[1.0, 2.0], [4.0, np.inf]], larger="far")
    assert far.tolist() == [[255, 128], [64, 0]]
    assert (low, high) == (0.0, 1.0)
    assert nearness(np.ones((2, 3)))[0].max() == 0


@pytest.mark.parametrize(
    ("values", "larger", "message"),
    [
        (np.zeros(3), "near", "shape"),
        (np.zeros((0, 3)), "near", "shape"),
        ([[np.nan]], "near", "not finite"),
        ([[np.inf]], "near", "not finite"),
        ([[0.0]], "far", "above 0"),
        ([[np.nan]], "far", "above 0"),
    ],
)
def test_numbers_that_are_no_depth_are_refused(values, larger, message):
    with pytest.raises(ValueError, match=message):
        nearness(values, larger=larger)


@pytest.mark.parametrize("text", ["", "AAAA", "é", text_of_depth(np.zeros((2, 2), np.uint8))[:-4]])
def test_damaged_text_is_refused(text):
    with pytest.raises(ValueError, match="depth map"):
        depth_of_text(text, 2, 2)


def test_text_of_a_larger_map_is_refused_without_unpacking_it_all():
    text = text_of_depth(np.zeros((3000, 3000), np.uint8))
    with pytest.raises(ValueError, match="does not hold 2 x 2"):
        depth_of_text(text, 2, 2)


def test_sizes_take_the_nearest_pixel():
    steps = np.array([[1, 2], [3, 4]], np.uint8)
    assert nearest_size(steps, 4, 2).tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert nearest_size(steps, 1, 1).tolist() == [[4]]
    assert nearest_size(steps, 2, 2) is steps


def test_large_maps_are_made_smaller():
    table = depth_table(["a"], [np.arange(1000.0 * 2000).reshape(1000, 2000)], "j", "near")
    assert table.select("height", "width").row(0) == (MOST_PX // 2, MOST_PX)


# ---------------------------------------------------------------------------------------------------------- estimators
def test_maps_are_the_network_s_own(checkpoint):
    judge = TransformersDepth(checkpoint, hub=HUB)
    table = judge.observe(IMAGES, NEED)
    assert table.schema == schema("depths")
    check_rows(table, judge.name, NEED, ["a", "b", "c"])
    model = transformers.DPTForDepthEstimation.from_pretrained(checkpoint).eval()
    pixels = np.asarray(Image.fromarray(IMAGES[1].pixels).resize((64, 64), Image.Resampling.BICUBIC))
    values = torch.from_numpy(pixels.transpose(2, 0, 1).copy()).float()[None] / 255
    with torch.inference_mode():
        expected = model(pixel_values=(values - 0.5) / 0.5).predicted_depth[0].numpy()
    steps, low, high = nearness(expected)
    row = table.row(1, named=True)
    assert (row["low"], row["high"]) == (pytest.approx(low, rel=1e-3), pytest.approx(high, rel=1e-3))
    assert np.abs(steps_of(table)[1].astype(int) - steps).max() <= 1


def test_the_released_way_squashes_to_480(checkpoint):
    judge = TransformersDepth(checkpoint, preprocessing="released", hub=HUB)
    assert "preprocessing=released" in judge.name
    table = judge.observe(IMAGES[:1], NEED)
    assert table.select("height", "width").row(0) == (480, 480)


def test_larger_may_mean_farther(checkpoint):
    near, far = (TransformersDepth(checkpoint, larger=larger, hub=HUB) for larger in ("near", "far"))
    assert near.name != far.name
    a, b = (steps_of(judge.observe(IMAGES[:1], NEED))[0] for judge in (near, far))
    high, low = np.unravel_index(a.argmax(), a.shape), np.unravel_index(a.argmin(), a.shape)
    assert b[high] <= b[low]
    assert not np.array_equal(a, b)


def test_families_of_distances_are_known(tmp_path):
    config = transformers.GLPNConfig(
        num_encoder_blocks=4, depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 8, 8], decoder_hidden_size=8,
        num_attention_heads=[1, 1, 1, 1], sr_ratios=[8, 4, 2, 1],
    )  # fmt: skip
    enliven(transformers.GLPNForDepthEstimation(config)).save_pretrained(tmp_path)
    judge = TransformersDepth(str(tmp_path), preprocessing="released", hub=HUB)
    assert "larger=far" in judge.name
    assert judge.observe(IMAGES[:1], NEED)["nearness"].null_count() == 0


def test_other_models_and_numbers_that_are_none_are_refused(tmp_path, checkpoint):
    with pytest.raises(UsageError, match="estimates no depth"):
        TransformersDepth(str(tiny_clip(tmp_path / "clip")), hub=HUB)
    with pytest.raises(UsageError, match="larger must be one of"):
        TransformersDepth(checkpoint, larger="up", hub=HUB)
    with pytest.raises(VerismError, match=r"not finite.*float16"):
        depth_table(["a"], [np.full((2, 2), np.nan)], "j", "near")


def test_rows_that_are_no_maps_are_refused():
    table = depth_table(["a"], [np.eye(3)], "j", "near")
    from polars import lit

    with pytest.raises(VerismError, match="does not hold 4 x 3"):
        check_rows(table.with_columns(lit(4).cast(schema("depths")["height"]).alias("height")), "j", NEED, ["a"])
    with pytest.raises(VerismError, match="without a map"):
        check_rows(table.with_columns(lit(None).cast(schema("depths")["nearness"]).alias("nearness")), "j", NEED, ["a"])


# -------------------------------------------------------------------------------------------------------------- files
def test_maps_of_a_folder(tmp_path):
    np.save(tmp_path / "p#0.npy", np.array([[1.0, 2.0], [3.0, 5.0]]))
    np.save(tmp_path / "q.npy", np.array([[5.0, 3.0], [2.0, 1.0]], dtype=np.float32))
    shown = [
        LoadedImage(image_id="p#0", prompt_id="p", pixels=np.zeros((4, 4, 3), np.uint8)),
        LoadedImage(image_id="q#0", prompt_id="q", pixels=np.zeros((4, 4, 3), np.uint8)),
    ]
    judge = DepthResults(tmp_path)
    a, b = steps_of(judge.observe(shown, NEED))
    assert a.tolist() == [[0, 64], [128, 255]]
    assert b.tolist() == [[255, 128], [64, 0]]
    assert steps_of(DepthResults(tmp_path, larger="far").observe(shown[:1], NEED))[0][0, 0] == 255
    before = judge.name
    np.save(tmp_path / "q.npy", np.eye(2))
    assert DepthResults(tmp_path).name != before


def test_folders_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(UsageError, match="expected a folder"):
        DepthResults(tmp_path / "none")
    with pytest.raises(UsageError, match="no depth maps"):
        DepthResults(tmp_path)
    np.save(tmp_path / "p#0.npy", np.zeros(3))
    judge = DepthResults(tmp_path)
    other = LoadedImage(image_id="x#0", prompt_id="x", pixels=np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(UsageError, match=r"no depth map for image x#0"):
        judge.observe([other], NEED)
    with pytest.raises(UsageError, match=r"shape \(H, W\)"):
        judge.observe([LoadedImage(image_id="p#0", prompt_id="p", pixels=other.pixels)], NEED)
    np.save(tmp_path / "p#0.npy", np.full((2, 2), np.nan))
    with pytest.raises(UsageError, match="not finite"):
        DepthResults(tmp_path).observe([LoadedImage(image_id="p#0", prompt_id="p", pixels=other.pixels)], NEED)
