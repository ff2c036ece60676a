"""Detector training: reading scenes, varying them, targets and losses, measuring, and the whole way to an ONNX file."""

from __future__ import annotations

import json
import math
import runpy
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from float_arithmetic import in_float32
from PIL import Image, ImageDraw
from safetensors.torch import load_file, save_file

from verism.errors import UsageError
from verism.judges.detection.builtin import OUTPUTS, BuiltinDetector, detector_file
from verism.judges.detection.decode import TOP_K, Found, box_iou
from verism.training import detector as training
from verism.training import detector_augmentation, detector_network
from verism.training import second_look as looking
from verism.training._checkpoints import averaged_weights, read_header, read_settings
from verism.training._onnx_export import read_onnx, with_properties
from verism.training._replicas import NetworkLearner, autocast, replica_of
from verism.training.detector_augmentation import pasted, plain_batch, varied_batch, varied_object
from verism.training.detector_evaluation import (
    calibrate_threshold,
    evaluate_detections,
    evaluate_detector,
    fit_score_calibration,
)
from verism.training.detector_network import (
    BatchTargets,
    DetectorNetwork,
    Exported,
    Maps,
    as_exported,
    cell_boxes,
    gaussians,
    losses,
    start_from,
)
from verism.training.scene_arrays import (
    BlankImages,
    IncompleteScenesError,
    SceneArrays,
    StackedImages,
    Target,
    extent,
    load_scene_arrays,
    split_held_out,
)
from verism.training.settings import AugmentConfig, DetectorConfig, SecondLookConfig

SHAPES = ("disc", "bar", "wedge")
COLORS = ("red", "green")
RGB = ((220, 30, 30), (30, 160, 40), (120, 120, 220))  # the last is none of the colours


@pytest.fixture(scope="module", autouse=True)
def shallow() -> Iterator[None]:
    """Networks of one block a stage, which are trained and traced in half the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detector_network, "_DEPTHS", (1, 1, 1, 1))
        yield


def target(*objects: tuple[tuple[float, float, float, float], int, int]) -> Target:
    """From (box, label, colour) triples."""
    return Target(
        boxes=np.array([o[0] for o in objects], dtype=np.float32).reshape(-1, 4),
        labels=np.array([o[1] for o in objects], dtype=np.int64),
        colors=np.array([o[2] for o in objects], dtype=np.int64),
    )


def arrays_of(images: np.ndarray, targets: Sequence[Target]) -> SceneArrays:
    n = len(targets)
    names = [f"image_{i:05d}.png" for i in range(n)]
    return SceneArrays(images=images, targets=targets, names=names, skills=["count"] * n, splits=["train"] * n)


def shapes(n: int, *, size: int = 128, seed: int = 0) -> SceneArrays:
    """Images with 0 to 2 shapes, one per half, on a plain ground."""
    rng = np.random.default_rng(seed)
    images = np.zeros((n, size, size, 3), dtype=np.uint8)
    targets = []
    for i in range(n):
        image = Image.new("RGB", (size, size), tuple(rng.integers(150, 220, 3).tolist()))
        draw = ImageDraw.Draw(image)
        objects = []
        for half in range(i % 3):
            side = int(rng.integers(size // 4, size // 2 - 8))
            x = half * (size // 2) + int(rng.integers(4, size // 2 - side))
            y = int(rng.integers(4, size - side))
            label, color = int(rng.integers(3)), int(rng.integers(3))
            box = (x, y, x + side, y + side)
            inner = (x, y, x + side - 1, y + side - 1)
            if label == 0:
                draw.ellipse(inner, fill=RGB[color])
            elif label == 1:
                box = (x, y, x + side, y + side // 3)
                draw.rectangle((x, y, x + side - 1, y + side // 3 - 1), fill=RGB[color])
            else:
                draw.polygon([(x, y), (x + side - 1, y), (x, y + side - 1)], fill=RGB[color])
            objects.append((box, label, color if color < 2 else -1))
        images[i] = np.asarray(image)
        targets.append(target(*objects))
    return arrays_of(images, targets)


# --------------------------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------------------------
def write_scenes(
    root: Path,
    *,
    skill: str = "count",
    split: str = "train",
    side: int = 64,
    labels: tuple[str, str] | None = ("fire hydrant", "person"),
) -> Path:
    """Two images: a red fire hydrant and a plain person; and nothing at all."""
    (root / skill / "images").mkdir(parents=True, exist_ok=True)
    names = [f"image_{skill}_{split}_{i:05d}.png" for i in range(2)]
    for i, name in enumerate(names):
        Image.new("RGB", (side, side), (10 * i, 20, 30)).save(root / skill / "images" / name)
    hydrant = {"id": 0, "image_id": 7, "category_id": 1, "bbox": [8, 4, 16, 32], "color": "red", "shape": "fireHydrant"}
    person = {"id": 1, "image_id": 7, "category_id": 2, "bbox": [40, 0, 20, 64], "color": "plain", "shape": "humanLiam"}
    if labels is not None:
        hydrant["label"], person["label"] = labels
    boxes = {
        "images": [{"file_name": name, "height": side, "width": side, "id": 7 + i} for i, name in enumerate(names)],
        "annotations": [hydrant, person],
        "categories": [{"id": 1, "name": "fireHydrant"}, {"id": 2, "name": "human"}],
    }
    (root / skill / f"{skill}_{split}_bounding_boxes.json").write_text(json.dumps(boxes))
    return root


@pytest.mark.parametrize("labels", [("fire hydrant", "person"), None])
def test_reading_the_published_layout(tmp_path: Path, labels: tuple[str, str] | None):
    root = write_scenes(tmp_path / "data", labels=labels)
    arrays = load_scene_arrays([root], tmp_path / "cache", size=32, classes=("person", "fire hydrant"), colors=("red",))
    assert len(arrays) == 2
    assert np.asarray(arrays.images[1]).shape == (32, 32, 3)
    assert (arrays.images[1] == (10, 20, 30)).all()
    # 64 pixels become 32: [8, 4, 16, 32] -> corners (8, 4, 24, 36) -> halves.
    assert arrays.targets[0].boxes.tolist() == [[4, 2, 12, 18], [20, 0, 30, 32]]
    assert arrays.targets[0].labels.tolist() == [1, 0]
    assert arrays.targets[0].colors.tolist() == [0, -1]
    assert arrays.targets[1].boxes.shape == (0, 4)
    assert arrays.skills == ["count", "count"]
    assert arrays.splits == ["train", "train"]


def test_images_are_decoded_once_and_anew_when_they_change(tmp_path: Path):
    root, cache, result = write_scenes(tmp_path / "data"), tmp_path / "cache", list[str]()
    for _ in range(2):
        load_scene_arrays([root], cache, size=32, log=result.append)
    assert len(result) == 1
    Image.new("RGB", (64, 64), (99, 99, 99)).save(root / "count/images/image_count_train_00000.png")
    arrays = load_scene_arrays([root], cache, size=32, log=result.append)
    assert len(result) == 2
    assert (arrays.images[0] == 99).all()
    assert {p.suffix for p in cache.iterdir()} == {".npy"}


def test_masks_are_read_where_they_are(tmp_path: Path):
    with_masks = write_scenes(tmp_path / "with")
    (with_masks / "count" / "masks").mkdir()
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[4:36, 8:24], mask[:, 40:60] = 1, 2
    for i in range(2):
        Image.fromarray(mask * (1 - i)).save(with_masks / "count" / "masks" / f"mask_count_train_{i:05d}.png")
    without = write_scenes(tmp_path / "without")
    arrays = load_scene_arrays([without, with_masks], tmp_path / "cache", size=128)
    assert arrays.masks is not None
    assert not arrays.masks[0].any()
    np.testing.assert_array_equal(arrays.masks[2], mask.repeat(2, 0).repeat(2, 1))
    assert arrays.cut_outs == {9: [(2, 0)], 0: [(2, 1)]}  # fire hydrant, person; images 0 and 1 have no masks
    assert extent(arrays.masks[2] == 1) == tuple(arrays.targets[2].boxes[0].tolist())
    assert load_scene_arrays([without], tmp_path / "cache", size=128).masks is None
    (with_masks / "count" / "masks" / "mask_count_train_00001.png").unlink()
    with pytest.raises(IncompleteScenesError, match="2 masks, but 1 are missing"):
        load_scene_arrays([with_masks], tmp_path / "cache")


def test_folders_and_splits_add_up(tmp_path: Path):
    a, b = write_scenes(tmp_path / "a"), write_scenes(tmp_path / "b", skill="color")
    write_scenes(a, split="val")
    arrays = load_scene_arrays([a, b], tmp_path / "cache", size=32)
    assert [len(arrays.of_split(s)) for s in ("train", "val")] == [4, 2]
    assert sorted(set(arrays.skills)) == ["color", "count"]
    only = load_scene_arrays([a, b], tmp_path / "cache", size=32, splits=("val",))
    assert [n for n in only.names if "train" in n] == []


def test_the_second_data_sets_folders_are_found(tmp_path: Path):
    root = write_scenes(tmp_path / "data")
    (root / "count" / "images").rename(root / "count" / "train_images")
    assert len(load_scene_arrays([root], tmp_path / "cache", size=32)) == 2


def test_a_missing_image_is_named_or_waited_for(tmp_path: Path):
    root, other = write_scenes(tmp_path / "data"), write_scenes(tmp_path / "other")
    (root / "count/images/image_count_train_00001.png").unlink()
    with pytest.raises(IncompleteScenesError, match=r"lists 2 images, but 1 are missing, image_count_train_00001\.png"):
        load_scene_arrays([root], tmp_path / "cache", size=32)
    collected: list[str] = []
    arrays = load_scene_arrays([root, other], tmp_path / "cache", size=32, skip_incomplete=True, log=collected.append)
    assert len(arrays) == 2
    assert collected[0].startswith("skipped for now")


def test_a_folder_without_scenes_and_an_unknown_class_are_refused(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"empty holds no SKILL/SKILL_SPLIT_bounding_boxes\.json"):
        load_scene_arrays([tmp_path / "empty"], tmp_path / "cache")
    lines: list[str] = []
    nothing = load_scene_arrays([tmp_path / "empty"], tmp_path / "cache", skip_incomplete=True, log=lines.append)
    assert len(nothing) == 0
    assert lines == [f"skipped for now: {tmp_path / 'empty'} holds no SKILL/SKILL_SPLIT_bounding_boxes.json"]
    root = write_scenes(tmp_path / "data")
    with pytest.raises(UsageError, match="the class 'fire hydrant' is none of person"):
        load_scene_arrays([root], tmp_path / "cache", classes=("person",))


def test_held_out_images_stay_held_out_when_more_come_in():
    def named(n: int) -> SceneArrays:
        arrays = shapes(3)
        return SceneArrays(
            images=StackedImages([arrays.images], np.zeros((n, 2), dtype=np.int64)), targets=[arrays.targets[0]] * n,
            names=[f"image_{i}.png" for i in range(n)], skills=["count"] * n, splits=["train"] * n,
        )  # fmt: skip

    learn, out = split_held_out(named(1000), 0.1)
    assert len(learn) + len(out) == 1000
    assert 60 < len(out) < 140
    _, more = split_held_out(named(2000), 0.1)
    assert set(out.names) < set(more.names)
    assert {n for n in more.names if int(n[6:-4]) < 1000} == set(out.names)


# --------------------------------------------------------------------------------------------------------------------
# Varying
# --------------------------------------------------------------------------------------------------------------------
CALM = AugmentConfig(coarse=0, noise=0, gamma=0, patch=0, cut=0, collage=0)


def blob(size: int = 128) -> SceneArrays:
    """A black image with a white rectangle, off centre, and one with nothing."""
    images = np.zeros((2, size, size, 3), dtype=np.uint8)
    images[0, 40:80, 20:90] = 255
    return arrays_of(images, [target(((20, 40, 90, 80), 0, 1)), target()])


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("options", [CALM, replace(CALM, collage=1)])
@pytest.mark.parametrize("seed", range(8))
def test_boxes_move_with_their_objects(options: AugmentConfig, small: bool, seed: int):
    scene = blob()
    pixels, targets = varied_batch(scene, [0, 0, 0, 0], np.random.default_rng(seed), options, small=small)
    side = 64 if small else 128
    assert pixels.shape == (4, 3, side, side)
    assert pixels.dtype == torch.uint8
    for i in range(4):
        # White stays the brightest; around collages and margins the ground may be any colour, so look inside each box.
        for box in targets.boxes[targets.image == i].numpy():
            x0, y0, x1, y1 = np.round(box).astype(int)
            inside = pixels[i, :, y0 + 2 : y1 - 2, x0 + 2 : x1 - 2].float()
            assert inside.shape[1] >= (2 if small else 6)
            assert inside.std() < 60
            assert inside.mean() > 120
            brightest = float(inside.mean())
            for strip in (pixels[i, :, y0 + 2 : y1 - 2, max(0, x0 - 6) : max(0, x0 - 3)],
                          pixels[i, :, y0 + 2 : y1 - 2, x1 + 3 : x1 + 6]):  # fmt: skip
                # In collages the next cell may show the next white rectangle there.
                if strip.shape[-1] == 3 and not small and not options.collage:
                    assert float(strip.float().mean()) < brightest - 40


@pytest.mark.parametrize("gamma", [None, -0.2, 0.3])
def test_colors_are_varied_as_each_step_says(gamma: float | None):
    class Drawn:
        """Gives what it is told, in the order in which ``_recolored`` asks."""

        def __init__(self) -> None:
            bent = [] if gamma is None else [gamma]
            self.numbers = [1.2, 100.0, *bent, 0.9, 1.1, 5.0, np.array([0.5, 0.0, -1.0])]

        def uniform(self, *_: float) -> Any:
            return self.numbers.pop(0)

        def random(self) -> float:
            return 0.0 if gamma is not None else 1.0

    pixel = np.array([120.0, 100.0, 80.0])
    expected = pixel * 1.2 - 0.2 * (0.299 * 120 + 0.587 * 100 + 0.114 * 80)
    if gamma is not None:
        expected = 255 * (expected / 255) ** math.exp(gamma)
    expected = ((expected - 100) * 0.9 + 100) * 1.1 + 5
    expected = expected * (1 + 0.1 * np.array([0.5, 0.0, -1.0]))
    image = Image.fromarray(np.full((2, 2, 3), pixel, dtype=np.uint8))
    drawn: Any = Drawn()
    varied = detector_augmentation._recolored(image, False, drawn, AugmentConfig(gamma=0.5))
    # Rounded to whole numbers at the end, and once on the way where gamma is varied.
    np.testing.assert_allclose(np.asarray(varied)[0, 0], expected, atol=0.6 if gamma is None else 1.5)


def test_collages_show_objects_of_many_images_with_their_own_labels():
    # Six images, each with one square of its own grey level, which is also its label and colour.
    images = np.zeros((6, 128, 128, 3), dtype=np.uint8)
    for k in range(6):
        images[k, 40:90, 30:80] = 40 + 35 * k
    scene = arrays_of(images, [target(((30, 40, 80, 90), k, k)) for k in range(6)])
    options = replace(CALM, collage=1, flip=0)
    seen = set()
    for seed in range(6):
        pixels, targets = varied_batch(scene, [seed], np.random.default_rng(seed), options, small=True)
        assert len(targets.labels) == 4  # a grid of 2 x 2, one object in each cell
        assert torch.equal(targets.labels, targets.colors)
        for box, label in zip(targets.boxes.int().tolist(), targets.labels.tolist(), strict=True):
            x, y = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
            # Brightness is varied per image by up to a quarter; neighbouring levels stay in order at the centre.
            assert pixels[0, 0, y, x] > 0
            seen.add(label)
        order = targets.labels.argsort()
        centres = [((b[0] + b[2]) // 2, (b[1] + b[3]) // 2) for b in targets.boxes[order].int().tolist()]
        levels = [float(pixels[0, 0, y, x]) for x, y in centres]
        assert levels == sorted(levels)
    assert len(seen) >= 4


def test_varying_keeps_objects_inside_and_repeats_with_its_seed():
    scene = shapes(6)
    options = AugmentConfig()
    for seed in range(5):
        one, first = varied_batch(scene, range(6), np.random.default_rng(seed), options)
        two, second = varied_batch(scene, range(6), np.random.default_rng(seed), options)
        assert torch.equal(one, two)
        assert torch.equal(first.boxes, second.boxes)
        assert (first.boxes >= 0).all()
        assert (first.boxes <= 128).all()
        assert (first.boxes[:, 2:] > first.boxes[:, :2] + 4).all()
    other, _ = varied_batch(scene, range(6), np.random.default_rng(99), options)
    assert not torch.equal(one, other)


def test_a_color_keeps_its_name():
    images = np.zeros((1, 128, 128, 3), dtype=np.uint8)
    images[0, 20:110, 20:110] = (128, 0, 128)
    scene = arrays_of(images, [target(((20, 20, 110, 110), 0, 0))])
    options = AugmentConfig(patch=0)
    for seed in range(30):
        pixels, targets = varied_batch(scene, [0], np.random.default_rng(seed), options)
        x0, y0, x1, y1 = targets.boxes[0].int().tolist()
        red, green, blue = pixels[0, :, (y0 + y1) // 2 - 4 :, (x0 + x1) // 2 - 4 :][:, :8, :8].float().mean(dim=(1, 2))
        assert abs(red - blue) < 25
        assert min(red, blue) > green + 30


# --------------------------------------------------------------------------------------------------------------------
# Targets and losses
# --------------------------------------------------------------------------------------------------------------------
def test_a_gaussian_peaks_in_the_cell_of_the_centre():
    # Box (16, 8, 56, 40): centre (36, 24) lies in cell column 4 (32 to 40), row 3. Width 40 px = 5 cells, deviation
    # 5 * 0.54 / 6 = 0.45 cells: one cell aside exp(-1 / (2 * 0.45 ** 2)) = 0.0847. Height 4 cells: 0.36, at least 0.4,
    # one cell below exp(-1 / 0.32) = 0.0439.
    bump = gaussians(torch.tensor([[16.0, 8.0, 56.0, 40.0]]), 8, 8)[0]
    assert bump[3, 4] == 1
    assert bump[3, 5] == pytest.approx(math.exp(-1 / (2 * 0.45**2)), rel=1e-5)
    assert bump[4, 4] == pytest.approx(math.exp(-1 / 0.32), rel=1e-5)
    assert bump.argmax() == 3 * 8 + 4


def batch_targets(*objects: tuple[int, tuple[float, float, float, float], int, int]) -> BatchTargets:
    return BatchTargets(
        image=torch.tensor([o[0] for o in objects], dtype=torch.int64),
        boxes=torch.tensor([o[1] for o in objects], dtype=torch.float32).reshape(-1, 4),
        labels=torch.tensor([o[2] for o in objects], dtype=torch.int64),
        colors=torch.tensor([o[3] for o in objects], dtype=torch.int64),
    )


def flat_maps(batch: int = 1, *, objectness: float = 0.0) -> Maps:
    """4 x 4 cells; all classes (2) and colours (2) even; every distance 8 pixels."""
    return Maps(
        objectness=torch.full((batch, 4, 4), objectness),
        distances=torch.full((batch, 4, 4, 4), 8.0),
        classes=torch.zeros(batch, 2, 4, 4),
        colors=torch.zeros(batch, 2, 4, 4),
    )


def test_losses_by_hand():
    # One object of 8 x 8 pixels in the middle of cell (1, 1): deviation 0.4 (the least), so cells beside it have
    # g = exp(-3.125) = 0.0439, less than the 0.05 from which cells learn: only the centre learns box, class and colour.
    parts = losses(flat_maps(), batch_targets((0, (8, 8, 16, 16), 1, 0)))
    # Objectness, p = 0.5 everywhere: -log(0.5) * 0.25 * (1 + sum over other cells of (1 - g) ** 4).
    x = np.exp(-((np.arange(4) - 1.0) ** 2) / 0.32)
    clear = ((1 - np.outer(x, x)) ** 4).sum()
    assert float(parts["objectness"]) == pytest.approx(math.log(2) * 0.25 * (1 + clear), rel=1e-5)
    # The box told is (12 - 8, 12 - 8, 12 + 8, 12 + 8), 16 x 16, around the true one: IoU 64 / 256 = GIoU; 2 * 0.75.
    assert float(parts["box"]) == pytest.approx(1.5)
    assert float(parts["class"]) == pytest.approx(math.log(2))
    assert float(parts["color"]) == pytest.approx(0.5 * math.log(2))


def test_an_unknown_color_teaches_nothing():
    known = losses(flat_maps(), batch_targets((0, (8, 8, 16, 16), 1, 0), (0, (16, 16, 32, 32), 0, -1)))
    assert float(known["color"]) == pytest.approx(0.5 * math.log(2))
    assert float(losses(flat_maps(), batch_targets((0, (8, 8, 16, 16), 1, -1)))["color"]) == 0


def test_empty_images_teach_that_there_is_nothing():
    sure = losses(flat_maps(2, objectness=-9.0), batch_targets())
    unsure = losses(flat_maps(2), batch_targets())
    assert float(sure["objectness"]) < 1e-6
    # 2 images of 16 cells, log(2) * 0.25 each, over 2 images.
    assert float(unsure["objectness"]) == pytest.approx(16 * math.log(2) * 0.25, rel=1e-5)
    assert [float(unsure[k]) for k in ("box", "class", "color")] == [0, 0, 0]


def test_perfect_maps_cost_nothing():
    maps = flat_maps(objectness=-20.0)
    maps.objectness[0, 1, 1] = 20
    maps.classes[0, 1], maps.colors[0, 0] = 30, 30
    maps.distances[:] = 4
    assert sum(float(v) for v in losses(maps, batch_targets((0, (8, 8, 16, 16), 1, 0))).values()) < 1e-6


def test_replicas_share_parameters_and_not_statistics():
    network = DetectorNetwork(2, 2, width=0.25)
    twin = replica_of(network)
    assert all(a is b for a, b in zip(network.parameters(), twin.parameters(), strict=True))
    assert not any(a is b for a, b in zip(network.buffers(), twin.buffers(), strict=True))


def test_exported_peaks_are_local_maxima_with_what_their_cells_say():
    torch.manual_seed(3)
    network = DetectorNetwork(3, 2, width=0.25).eval()
    pixels = torch.randint(0, 256, (2, 96, 96, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        exported = [out.numpy() for out in Exported(network)(pixels)]
        maps = network(pixels.permute(0, 3, 1, 2))
        told = cell_boxes(maps.distances).clamp(0, 96).numpy()
        shares, tints = maps.classes.softmax(1).numpy(), maps.colors.softmax(1).numpy()
    assert [out.shape for out in exported] == [(2, *c, 1, TOP_K) for c in ((), (3,), (4,), (2,))]
    peaks, classes, boxes, colors = (out[..., 0, :] for out in exported)
    for i, scores in enumerate(torch.sigmoid(maps.objectness).numpy()):
        padded = np.pad(scores, 1)
        highest = np.array([[padded[y : y + 3, x : x + 3].max() for x in range(12)] for y in range(12)])
        ys, xs = np.nonzero(scores == highest)
        assert 3 < len(ys) < TOP_K
        # Found by their values: they differ by more than rounding.
        kept = peaks[i] > 0
        nearest = np.abs(peaks[i][kept][:, None] - scores[ys, xs]).argmin(1)
        assert sorted(nearest) == list(range(len(ys)))
        ys, xs = ys[nearest], xs[nearest]
        np.testing.assert_allclose(peaks[i][kept], scores[ys, xs], rtol=1e-4)
        np.testing.assert_allclose(classes[i][:, kept], shares[i][:, ys, xs], rtol=1e-3)
        np.testing.assert_allclose(colors[i][:, kept], tints[i][:, ys, xs], rtol=1e-3)
        np.testing.assert_allclose(boxes[i][:, kept], told[i][:, ys, xs], rtol=1e-3, atol=1e-2)


# --------------------------------------------------------------------------------------------------------------------
# Measuring
# --------------------------------------------------------------------------------------------------------------------
def found(*boxes: tuple[tuple[float, float, float, float], float, int, int]) -> Found:
    """From (box, score, label, colour) of two classes and two colours, the surest first."""
    n = len(boxes)
    class_scores, color_scores = np.zeros((n, 2), dtype=np.float32), np.zeros((n, 2), dtype=np.float32)
    for i, (_, score, label, color) in enumerate(boxes):
        class_scores[i, label], color_scores[i, color] = score, 1
    return Found(
        boxes=np.array([b[0] for b in boxes], dtype=np.float32).reshape(-1, 4),
        objectness=class_scores.max(axis=1) if n else np.zeros(0, dtype=np.float32),
        class_scores=class_scores,
        color_scores=color_scores,
    )


A, B, C = (0.0, 0.0, 10.0, 10.0), (20.0, 0.0, 30.0, 10.0), (40.0, 0.0, 50.0, 10.0)


def test_measures_by_hand():
    images = arrays_of(
        np.zeros((4, 64, 64, 3), dtype=np.uint8),
        [
            target((A, 0, 0), (B, 1, 1)),  # both found, the second with the wrong colour
            target((A, 0, 0)),  # found as class 1, and C besides, but that is below the threshold
            target((A, 1, -1)),  # missed: the box overlaps by a third only
            target(),  # something seen where nothing is
        ],
    )
    seen = [
        found((A, 0.9, 0, 0), (B, 0.8, 1, 0)),
        found((A, 0.7, 1, 0), (C, 0.3, 0, 0)),
        found(((5, 0, 15, 10), 0.6, 1, 0)),
        found((C, 0.55, 0, 0)),
    ]
    result = evaluate_detections(seen, images, 0.5, classes=("a", "b"), colors=("red", "green"))
    assert result["exact_set"] == 1 / 4
    assert result["exact_count"] == 3 / 4
    assert result["single_class"] == 1 / 2  # of images 1 and 2, whatever the box
    assert result["color"] == pytest.approx(2 / 3)  # three found objects of known colour; B is told red
    assert (result["missed"], result["extra"]) == (1, 2)
    assert result["recall"] == {"a": 1 / 2, "b": 1 / 2}
    assert result["precision"] == {"a": 1 / 2, "b": 1 / 3}
    assert result["confusions"] == [("a", "b", 1)]
    assert result["wrong"] == ["image_00001.png", "image_00002.png", "image_00003.png"]
    assert result["exact_set_by_skill"] == {"count": 1 / 4}
    # Average precision without threshold. Class a, 2 objects: boxes right, wrong (0.55), wrong (0.3): 1 * 1/2 = 0.5.
    # Class b, 2 objects: 0.8 right, 0.7 wrong, 0.6 wrong: 0.5.
    assert result["ap50"] == pytest.approx(0.5)


def test_an_object_is_found_once():
    images = arrays_of(np.zeros((1, 64, 64, 3), dtype=np.uint8), [target((A, 0, 0))])
    seen = [found((A, 0.9, 0, 0), (A, 0.8, 0, 0))]
    result = evaluate_detections(seen, images, 0.5, classes=("a", "b"), colors=("red", "green"))
    assert (result["exact_set"], result["missed"], result["extra"]) == (0, 0, 1)


def test_nothing_to_judge_is_nan():
    empty = arrays_of(np.zeros((1, 64, 64, 3), dtype=np.uint8), [target()])
    result = evaluate_detections([found()], empty, 0.5, classes=("a",), colors=())
    assert result["exact_set"] == 1
    assert all(math.isnan(result[k]) for k in ("single_class", "color", "ap50"))
    assert math.isnan(result["recall"]["a"])


def test_the_threshold_with_the_most_right_counts():
    # Image 0 (1 object) is right for thresholds in (0.3, 0.8], image 1 (none) above 0.4: best (0.4, 0.8], and the
    # middle of 0.41 ... 0.80, forty candidates, is the 21st: 0.61. Scores are float32: 0.4 lies a little above 0.40.
    images = arrays_of(np.zeros((2, 64, 64, 3), dtype=np.uint8), [target((A, 0, 0)), target()])
    seen = [found((A, 0.8, 0, 0), (B, 0.3, 0, 0)), found((C, 0.4, 0, 0))]
    assert calibrate_threshold(seen, images) == pytest.approx(0.61)


def test_scores_become_chances():
    # Of 400 boxes with objectness 0.9, 300 are objects; of 400 with 0.5, 100. The logits of the shares are log(3) at
    # logit log(9), and -log(3) at logit 0: scale 2 log(3) / log(9) = 1, shift -log(3) (smoothing moves them slightly).
    images, seen = [], []
    for score, share in ((0.9, 0.75), (0.5, 0.25)):
        for i in range(400):
            images.append(target((A if i < 400 * share else C, 0, 0)))
            seen.append(found((A, score, 0, 0)))
    arrays = arrays_of(np.zeros((800, 8, 8, 3), dtype=np.uint8), images)
    scale, shift = fit_score_calibration(seen, arrays)
    assert scale == pytest.approx(1, abs=0.02)
    assert shift == pytest.approx(-math.log(3), abs=0.02)
    assert fit_score_calibration([found()], arrays_of(np.zeros((1, 8, 8, 3)), [target()])) == (1, 0)


def test_perfect_scores_stay_finite():
    arrays = arrays_of(np.zeros((20, 8, 8, 3), dtype=np.uint8), [target((A, 0, 0))] * 20)
    seen = [found((A, 0.9, 0, 0), (C, 0.1, 0, 0))] * 20
    scale, shift = fit_score_calibration(seen, arrays)
    # 20 hits and 20 misses: targets 21/22 and 1/22, logits +-log(21), at logits +-log(9): scale log(21) / log(9).
    assert scale == pytest.approx(math.log(21) / math.log(9), rel=1e-3)
    assert shift == pytest.approx(0, abs=1e-3)


# --------------------------------------------------------------------------------------------------------------------
# Pasted objects
# --------------------------------------------------------------------------------------------------------------------
def blocks(n: int = 12, size: int = 96) -> SceneArrays:
    """Grey images, each with a rectangle of a colour of its own (label i % 3), and its mask; the last is empty."""
    images, masks, targets = np.full((n, size, size, 3), 90, np.uint8), np.zeros((n, size, size), np.uint8), []
    for i in range(n - 1):
        y, x, h, w = 10 + 3 * i, 60 - 4 * i, 30, 24
        images[i, y : y + h, x : x + w] = (250, 20 * i, 255 - 20 * i)
        masks[i, y : y + h, x : x + w] = 1
        targets.append(target(((x, y, x + w, y + h), i % 3, i % 2)))
    arrays = arrays_of(images, [*targets, target()])
    return replace(arrays, masks=masks)


@pytest.mark.parametrize("seed", range(20))
def test_pasted_objects_have_boxes_of_what_is_seen_of_them(seed: int):
    scenes = blocks()
    pixels, found = pasted(scenes, seed % len(scenes.targets), np.random.default_rng(seed))
    own = scenes.targets[seed % len(scenes.targets)]
    assert len(found.labels) >= len(own.labels)
    np.testing.assert_array_equal(found.labels[: len(own.labels)], own.labels)
    # Everything that is not grey lies in a box, and every box holds something from edge to edge.
    painted = (pixels != 90).any(axis=2)
    covered = np.zeros_like(painted)
    for x0, y0, x1, y1 in found.boxes.astype(int):
        covered[max(y0 - 1, 0) : y1 + 1, max(x0 - 1, 0) : x1 + 1] = True
        inside = painted[y0:y1, x0:x1]
        assert inside.any(axis=1).all()
        assert inside.any(axis=0).all()
        assert max(x1 - x0, y1 - y0) >= 0.05 * len(pixels)
    assert not (painted & ~covered).any()


def test_pasted_objects_overlap_come_in_several_of_one_class_and_repeat_with_their_seed():
    scenes = blocks()
    overlapping = alike = 0
    for seed in range(60):
        pixels, found = pasted(scenes, 0, np.random.default_rng(seed))
        again, same = pasted(scenes, 0, np.random.default_rng(seed))
        np.testing.assert_array_equal(pixels, again)
        np.testing.assert_array_equal(found.boxes, same.boxes)
        overlap = box_iou(found.boxes, found.boxes) - np.eye(len(found.boxes))
        overlapping += bool(overlap.max() > 0.05)
        alike += len(found.labels) >= 3 and len(set(found.labels.tolist())) == 1
        assert overlap.max() <= 0.7
    assert overlapping >= 10
    assert alike >= 5


def test_nothing_is_pasted_where_outlines_are_unknown():
    scenes = blocks()
    assert scenes.masks is not None
    parts = [scenes.masks[i : i + 1] if i else BlankImages(1, 96) for i in range(len(scenes.targets))]
    some = replace(scenes, masks=StackedImages(parts))
    assert (0, 0) not in some.cut_outs[0]
    pixels, found = pasted(some, 0, np.random.default_rng(0))
    np.testing.assert_array_equal(pixels, scenes.images[0])
    assert len(found.labels) == 1
    bare = replace(scenes, masks=None)
    assert bare.cut_outs == {}
    off = AugmentConfig(paste=1.0, collage=0.0, noise=0, patch=0, coarse=0, blur=0, jpeg=0)
    _, targets = varied_batch(bare, [0, 1], np.random.default_rng(0), off)
    assert len(targets.labels) == 2


def test_a_varied_crop_shows_its_object():
    scenes = blocks()
    options = AugmentConfig(paste=0.0, noise=0, coarse=0, blur=0, jpeg=0, gamma=0)
    for seed in range(10):
        crop = varied_object(scenes, 3, 0, np.random.default_rng(seed), options, 64)
        assert crop.shape == (64, 64, 3)
        assert crop[32, 32, 0] > crop[32, 32, 1] + 40  # the rectangle is red, and the ground grey


# --------------------------------------------------------------------------------------------------------------------
# The whole way
# --------------------------------------------------------------------------------------------------------------------
TINY: dict[str, Any] = {
    "classes": SHAPES,
    "colors": COLORS,
    "width": 0.5,
    "batch_size": 8,
    "workers": 1,
    "log_every_s": 0.0,
}


def train(scenes: SceneArrays, out: Path, *, validation: Any = None, log: Any = None, **settings: Any) -> Path:
    config = DetectorConfig(**{**TINY, **settings})
    return training.train_detector(scenes, config, out=out, validation=validation, log=log)


def tensors_of(checkpoint: Path, prefix: str = "") -> dict[str, torch.Tensor]:
    return {k.removeprefix(prefix): v for k, v in load_file(checkpoint).items() if k.startswith(prefix)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SceneArrays, BuiltinDetector]:
    """A small network that has learnt eight images by heart, and its file."""
    out = tmp_path_factory.mktemp("trained")
    scenes = shapes(8, size=64)
    with in_float32():
        checkpoint = train(scenes, out, steps=150, lr=5e-3, augment=None)
    path = training.export_onnx(checkpoint, out / "detector.onnx", {"note": "by heart"}, threshold=0.4)
    return out, scenes, BuiltinDetector(path, threads=1, batch_size=3)


def test_eight_images_are_learnt_by_heart(trained: tuple[Path, SceneArrays, BuiltinDetector]):
    _, scenes, detector = trained
    result = evaluate_detector(detector, scenes)
    assert result["exact_set"] == 1
    assert result["single_class"] == 1
    assert result["color"] == 1
    assert result["ap50"] == pytest.approx(1)


def test_the_file_holds_its_card(trained: tuple[Path, SceneArrays, BuiltinDetector]):
    _, _, detector = trained
    assert (detector.classes, detector.colors, detector.size, detector.threshold) == (SHAPES, COLORS, 64, 0.4)
    assert detector.card["note"] == "by heart"
    assert detector.card["steps"] == 150


def test_onnx_and_pytorch_agree(trained: tuple[Path, SceneArrays, BuiltinDetector]):
    out, scenes, detector = trained
    network = DetectorNetwork(3, 2, width=TINY["width"])
    network.load_state_dict(averaged_weights(out / training.CHECKPOINT))
    pixels, _ = plain_batch(scenes, range(8))
    nhwc = pixels.permute(0, 2, 3, 1).contiguous()
    kept = DetectorNetwork(3, 2, width=TINY["width"])
    start_from(kept, read_onnx((out / "detector.onnx").read_bytes())[0], range(5))
    with torch.inference_mode():
        expected = Exported(kept.eval())(nhwc)
        maps, rounded = (answers(each.eval(), pixels) for each in (network, kept))
    came = detector._session.run(list(OUTPUTS), {"pixels": nhwc.numpy()})
    seen = came[0][:, None] > 0  # which of the other cells come first does not matter
    assert seen.sum() > 8
    for name, a, b in zip(OUTPUTS, expected, came, strict=True):
        shown = np.broadcast_to(seen.reshape(len(b), *[1] * (b.ndim - 2), -1), b.shape)
        np.testing.assert_allclose(a.numpy()[shown], b[shown], atol=1e-4, rtol=1e-4, err_msg=name)
    for a, b in zip(maps, rounded, strict=True):
        # Weights of 16 bits are off by 2^-11 at most, each, and the network has twenty layers of them.
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=20 * 2**-11, rtol=20 * 2**-11)


def folded(model: Exported) -> dict[str, torch.Tensor]:
    """The weights of a network by the names of its file: normalisations are part of the convolutions before them."""
    weights = {name: value.detach() for name, value in model.named_parameters()}
    for name, norm in model.named_modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            factor = norm.weight.detach() / (norm.running_var + norm.eps).sqrt()
            first = f"{name[:-1]}0.weight"
            weights[first] = weights[first] * factor[:, None, None, None]
            weights[f"{first}_bias"] = norm.bias.detach() - norm.running_mean * factor
            del weights[f"{name}.weight"], weights[f"{name}.bias"]
    return weights


def traced_once(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    """Write networks with the graph of the file in ``out``, which is of the same classes, colours, size and width."""
    content = (out / "detector.onnx").read_bytes()

    def write(path: Path, model: Exported, *_: Any, properties: Mapping[str, str], **__: Any) -> Path:
        proto, weights = onnx.load_model_from_string(content), folded(model)
        for tensor in proto.graph.initializer:
            name = tensor.name.removesuffix("_half")
            if name.startswith("network."):
                kind = onnx.numpy_helper.to_array(tensor).dtype
                values = weights.pop(name).numpy().astype(kind)
                tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
        assert not weights
        path.write_bytes(proto.SerializeToString())
        return with_properties(path, properties)

    monkeypatch.setattr(training, "write_onnx", lambda *a, **k: write(*a[:4], properties=a[4], **k))


def test_other_weights_in_the_same_graph_are_another_export(
    trained: tuple[Path, SceneArrays, BuiltinDetector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What the tests below write is what the exporter would have written."""
    out, _, _ = trained
    traced_once(monkeypatch, out)
    path = training.export_onnx(out / training.CHECKPOINT, tmp_path / "again.onnx", {"note": "by heart"}, threshold=0.4)
    (ours, about), (theirs, properties) = (read_onnx(file.read_bytes()) for file in (path, out / "detector.onnx"))
    assert about == properties
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=2**-10, atol=1e-5)  # large ones are rounded to 16 bits


def test_files_whose_first_layer_sees_pixels_in_channels_are_read(trained: tuple[Path, SceneArrays, BuiltinDetector]):
    """As files of before had it."""
    out, _, _ = trained
    weights, _ = read_onnx((out / "detector.onnx").read_bytes())
    name = "network.stem.0.weight"
    before = {**weights, name: torch.nn.functional.pixel_unshuffle(weights[name], 4)}
    assert before[name].shape[1:] == (48, 3, 3)
    networks = [DetectorNetwork(3, 2, width=TINY["width"]) for _ in range(2)]
    for network, known in zip(networks, (weights, before), strict=True):
        start_from(network, known, range(5))
    for a, b in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        assert torch.equal(a, b)
    for known in (weights, before):
        assert all(torch.equal(value, weights[k]) for k, value in as_exported(known).items())


def test_a_file_is_written_anew_from_its_own_weights(
    trained: tuple[Path, SceneArrays, BuiltinDetector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out, _, _ = trained
    traced_once(monkeypatch, out)
    old, new = out / "detector.onnx", tmp_path / "new.onnx"
    tool = Path(__file__).parents[2] / "tools" / "rewrite_detector.py"
    monkeypatch.setattr(sys, "argv", [str(tool), str(old), str(new), "--width", str(TINY["width"])])
    runpy.run_path(str(tool), run_name="__main__")
    (before, about), (after, again) = read_onnx(old.read_bytes()), read_onnx(new.read_bytes())
    assert about == again
    names = [name for name in before if name.startswith("network.")]
    assert len(names) > 20
    for name in names:
        torch.testing.assert_close(after[name], before[name], rtol=2**-11, atol=2**-24)  # rounded to 16 bits twice


def answers(network: DetectorNetwork, pixels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Objectness, classes, boxes and colours of every cell."""
    maps = network(pixels)
    return maps.objectness.sigmoid(), maps.classes.softmax(1), cell_boxes(maps.distances), maps.colors.softmax(1)


def test_boxes_do_not_depend_on_the_batch(trained: tuple[Path, SceneArrays, BuiltinDetector]):
    out, scenes, detector = trained
    alone = BuiltinDetector(out / "detector.onnx", threads=1, batch_size=1)
    images = [scenes.images[i] for i in range(8)]
    for a, b in zip(detector.detect(images), alone.detect(images[::-1])[::-1], strict=True):
        np.testing.assert_allclose(a.boxes, b.boxes, atol=1e-2)  # pixels of 64: 2e-4 of the image
        np.testing.assert_allclose(a.class_scores, b.class_scores, atol=1e-4)


def test_score_calibration_goes_into_the_file(trained: tuple[Path, SceneArrays, BuiltinDetector], tmp_path: Path):
    out, scenes, detector = trained
    copied = Path(shutil.copy(out / "detector.onnx", tmp_path / "x.onnx"))
    path = training.with_calibration(copied, score_scale=0.5, score_shift=1.0)
    before = detector.detect([scenes.images[2]])[0].objectness.max()
    after = BuiltinDetector(path, threads=1).detect([scenes.images[2]])[0].objectness.max()
    expected = 1 / (1 + math.exp(-(0.5 * math.log(before / (1 - before)) + 1)))
    assert after == pytest.approx(expected, rel=1e-3)


def log_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / training.LOG).read_text().splitlines()]


def test_training_goes_on_where_it_stopped(tmp_path: Path):
    scenes = shapes(8)
    options: dict[str, Any] = {"width": 0.25}
    train(scenes, tmp_path / "once", steps=6, **options)
    train(scenes, tmp_path / "twice", steps=6, minutes=1e9, **options)
    lines = log_of(tmp_path / "once")
    assert [line["step"] for line in lines if line["event"] == "train"] == [1, 2, 3, 4, 5, 6]
    # Same seed, same steps: the same weights; a finished training is not begun again.
    full = tensors_of(tmp_path / "once" / training.CHECKPOINT)
    again = tensors_of(tmp_path / "twice" / training.CHECKPOINT)
    assert all(torch.equal(full[k], again[k]) for k in full)
    train(scenes, tmp_path / "once", steps=6, **options)
    assert [line["event"] for line in log_of(tmp_path / "once")[-2:]] == ["start", "end"]
    train(scenes, tmp_path / "once", steps=8, **options)
    assert [line["step"] for line in log_of(tmp_path / "once") if line["event"] == "train"] == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(UsageError, match=r"trained with other settings: seed was 0, and is 1 now\."):
        train(scenes, tmp_path / "once", steps=9, seed=1, **options)


def test_interrupted_and_resumed_is_the_same_as_whole(tmp_path: Path):
    scenes = shapes(8)
    options: dict[str, Any] = {"width": 0.25, "checkpoint_every_s": 0.0}

    class Stop(Exception):
        pass

    def stop_at_three(line: Any) -> None:
        if line["event"] == "train" and line["step"] == 4:
            raise Stop

    train(scenes, tmp_path / "whole", steps=6, **options)
    with pytest.raises(Stop):
        train(scenes, tmp_path / "parts", steps=6, log=stop_at_three, **options)
    assert read_header(tmp_path / "parts" / training.CHECKPOINT, "detector").step == 3
    train(scenes, tmp_path / "parts", steps=6, **options)
    a = tensors_of(tmp_path / "whole" / training.CHECKPOINT)
    b = tensors_of(tmp_path / "parts" / training.CHECKPOINT)
    assert all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.usefixtures("float32", "one_thread")
@pytest.mark.parametrize("workers", [1, 2])
def test_every_weight_gets_its_own_gradient(tmp_path: Path, workers: int):
    """Training is AdamW on the mean gradient of the workers, whatever the memory layout of weights and gradients."""
    scenes = shapes(8)
    options: dict[str, Any] = {"width": 0.25, "workers": workers}
    train(scenes, tmp_path, steps=3, lr=1e-3, augment=None, **options)
    came = tensors_of(tmp_path / training.CHECKPOINT, "weights.")

    torch.manual_seed(0)
    network = DetectorNetwork(3, 2, width=0.25)
    before = {name: value.clone() for name, value in network.named_parameters()}
    twin = replica_of(network)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.0, fused=False)
    for step in range(3):
        order = np.random.default_rng([0, 8, step]).permutation(8)
        optimizer.zero_grad()
        for worker, copy in zip(range(workers), (network, twin), strict=False):
            pixels, targets = plain_batch(scenes, order[worker::workers])
            maps = copy.train()(pixels.contiguous())
            (torch.stack(list(losses(maps, targets).values())).sum() / workers).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        rate = 1e-3 * (0.5 * (1 + math.cos(math.pi * step / 3)) * 0.99 + 0.01)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    for name, expected in network.named_parameters():
        a, b = (came[name] - before[name]).flatten(), (expected.detach() - before[name]).flatten()
        # AdamW takes full steps along gradients that are nothing but rounding (below 2^-24 of their terms), and those
        # differ between layouts: a few weights in a hundred go the other way, which leaves a cosine of 0.996 at least,
        # to the fifth decimal with SSE4 as with AVX2. A gradient applied to the wrong weights leaves about 0.
        if a.norm() > 1e-4 and len(a) > 8:
            assert torch.cosine_similarity(a, b, dim=0) > 0.99, name


@pytest.mark.usefixtures("float32", "one_thread")
def test_class_and_color_alone_are_learnt(
    trained: tuple[Path, SceneArrays, BuiltinDetector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out, scenes, before = trained
    traced_once(monkeypatch, out)
    swapped = [
        replace(t, colors=np.where(t.colors < 0, -1, 1 - t.colors), labels=(t.labels + 1) % 3) for t in scenes.targets
    ]
    others = replace(scenes, targets=swapped)
    options: dict[str, Any] = {"start": str(out / "detector.onnx"), "augment": None, "learn": "kinds", "lr": 5e-3}
    checkpoint = train(others, tmp_path, steps=60, **options)
    path = training.export_onnx(checkpoint, tmp_path / "detector.onnx", threshold=0.4)
    weights, old = (read_onnx((folder / "detector.onnx").read_bytes())[0] for folder in (tmp_path, out))
    for name, value in old.items():
        learnt = name.startswith("network.what")
        assert learnt != torch.allclose(weights[name], value, rtol=1e-5, atol=1e-6), name
    after = BuiltinDetector(path, threads=1)
    assert evaluate_detector(after, others)["exact_set"] > evaluate_detector(before, others)["exact_set"]
    for one, other in zip(before.detect(list(scenes.images)), after.detect(list(scenes.images)), strict=True):
        first, second = (np.lexsort(f.boxes.T) for f in (one, other))
        np.testing.assert_allclose(one.boxes[first], other.boxes[second], atol=0.01)
        np.testing.assert_allclose(one.objectness[first], other.objectness[second], atol=1e-3)
    kept = training.with_calibration(
        Path(shutil.copy(out / "detector.onnx", tmp_path)), score_scale=2.0, score_shift=1.5
    )
    training.finish(tmp_path, others, others.subset([]), begun_from=kept.read_bytes())
    properties = read_onnx((tmp_path / "detector.onnx").read_bytes())[1]
    assert [float(properties[key]) for key in ("score_scale", "score_shift", "threshold")] == [2.0, 1.5, 0.4]
    with pytest.raises(UsageError, match="learn was kinds, and is not set now"):
        train(others, tmp_path, steps=61, **{**options, "learn": "all"})
    with pytest.raises(UsageError, match="give --start"):
        train(scenes, tmp_path / "none", steps=1, learn="kinds")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
@pytest.mark.usefixtures("float32", "one_thread")
def test_processes_prepare_the_batches_that_a_worker_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As for a GPU: batches come from other processes, in order, and from the new images once there are more."""
    few, more = shapes(8, size=64), shapes(12, size=64, seed=1)
    seen: list[list[float]] = []
    made_here: list[int] = []
    makes, varied = NetworkLearner.__init__, detector_augmentation.varied_batch

    def counted(*args: Any, **kwargs: Any) -> Any:
        made_here.append(1)
        return varied(*args, **kwargs)

    def training_with(processes: int) -> list[list[float]]:
        def make(self: NetworkLearner, *args: Any, **kwargs: Any) -> None:
            makes(self, *args, **kwargs)
            self._processes = processes
            loss = self.loss

            def watched(net: Any, pixels: torch.Tensor, targets: BatchTargets) -> Any:
                seen.append([float(pixels.float().mean()), float(targets.boxes.sum())])
                return loss(net, pixels, targets)

            self.loss = watched

        seen.clear()
        monkeypatch.setattr(NetworkLearner, "__init__", make)
        config = DetectorConfig(**TINY, steps=6, augment=AugmentConfig(paste=0), refresh_every_s=0)
        answers = iter([few, few, more, more, more, more])
        out = tmp_path / str(processes)
        training.train_detector(few, config, out=out, refresh=lambda: next(answers))
        return list(seen)

    monkeypatch.setattr(detector_augmentation, "varied_batch", counted)
    by_processes, made_by_processes = training_with(2), len(made_here)
    assert by_processes == training_with(0)
    assert len(by_processes) == 6
    assert (made_by_processes, len(made_here)) == (0, 6)
    a, b = (tensors_of(tmp_path / name / training.CHECKPOINT, "weights.") for name in "20")
    assert all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("has", [True, False])
def test_half_precision_where_the_processor_has_it(has: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: has, raising=False)
    a = torch.ones(2, 2)
    with autocast("cpu"):
        assert (a @ a).dtype == (torch.bfloat16 if has else torch.float32)
    with autocast("cpu", enabled=False):
        assert (a @ a).dtype == torch.float32


def test_a_time_limit_ends_training_with_a_low_learning_rate(tmp_path: Path):
    train(shapes(8), tmp_path, minutes=3 / 60, validation=shapes(4), width=0.25)
    lines = log_of(tmp_path)
    rates = [line["lr"] for line in lines if line["event"] == "train"]
    assert rates[-1] < 0.2 * max(rates)
    assert [line["event"] for line in lines[-2:]] == ["validate", "end"]
    assert lines[-1]["elapsed_s"] < 10


def test_batches_without_any_object_are_trained_on(tmp_path: Path):
    empty = shapes(9).subset([0, 3, 6])  # every third image shows nothing
    train(empty, tmp_path, steps=2, width=0.25, batch_size=2)
    assert log_of(tmp_path)[-1]["step"] == 2


def test_training_starts_from_a_detector(trained: tuple[Path, SceneArrays, BuiltinDetector], tmp_path: Path):
    """Weights that are folded in the file are trainable again, and answer as the file does."""
    out, scenes, _ = trained
    config = DetectorConfig(**{**TINY, "start": str(out / "detector.onnx"), "steps": 1, "augment": None})
    network = DetectorNetwork(3, 2, width=TINY["width"])
    training._start(network, config, scenes)
    pixels, _ = plain_batch(scenes, range(8))
    as_filed = DetectorNetwork(3, 2, width=TINY["width"]).eval()
    start_from(as_filed, read_onnx((out / "detector.onnx").read_bytes())[0], range(5))
    with torch.inference_mode():
        came, filed = answers(network.eval(), pixels), answers(as_filed, pixels)
        seen = network.train()(pixels)
    for a, b in zip(came, filed, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=2e-3, rtol=2e-3)
    # Normalised by the batch in place of the running mean, the answers stay nearly the same: that is what fits.
    right = seen.objectness.sigmoid().flatten(1).amax(1)[[len(t.labels) > 0 for t in scenes.targets]]
    assert right.min() > 0.3
    swapped = replace(config, classes=("wedge", "cube", "disc"), colors=("green",))
    other = DetectorNetwork(3, 1, width=TINY["width"])
    before = other.what_out.weight.detach().clone()
    training._start(other, swapped, scenes)
    assert torch.equal(other.what_out.weight[0], network.what_out.weight[2])
    assert torch.equal(other.what_out.weight[1], before[1])  # a class that the file does not know
    assert torch.equal(other.what_out.weight[3], network.what_out.weight[4])
    checkpoint = train(scenes, tmp_path, steps=1, start=str(out / "detector.onnx"), augment=None, lr=1e-9)
    # A step too small to change anything: the training began with these weights and no others.
    begun = tensors_of(checkpoint, "weights.")["what_out.weight"]
    torch.testing.assert_close(begun, network.what_out.weight.detach(), atol=1e-5, rtol=0)


def test_a_file_that_no_training_can_start_from_is_refused(
    trained: tuple[Path, SceneArrays, BuiltinDetector], tmp_path: Path
):
    out, scenes, _ = trained
    with pytest.raises(UsageError, match=r"no detector of width 0\.25"):
        train(scenes, tmp_path, steps=1, width=0.25, start=str(out / "detector.onnx"))
    (tmp_path / "other.onnx").write_bytes(b"no ONNX")
    with pytest.raises(UsageError, match="cannot start from"):
        train(scenes, tmp_path, steps=1, start=str(tmp_path / "other.onnx"))
    with pytest.raises(UsageError, match="there is no detector file"):
        train(scenes, tmp_path, steps=1, start=str(tmp_path / "none.onnx"))


def scaled(content: bytes, factor: float) -> bytes:
    """A network's ONNX file with other weights."""
    model = onnx.load_model_from_string(content)
    for tensor in model.graph.initializer:
        if tensor.name.startswith("network."):
            values = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array((factor * values).astype(values.dtype), tensor.name))
    return bytes(model.SerializeToString())


def test_weights_that_are_kept_are_averaged_with_those_that_were_learnt(
    trained: tuple[Path, SceneArrays, BuiltinDetector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out, _, _ = trained
    traced_once(monkeypatch, out)
    plain = training.export_onnx(out / training.CHECKPOINT, tmp_path / "plain.onnx")
    learnt, _ = read_onnx(plain.read_bytes())
    other = scaled((out / "detector.onnx").read_bytes(), 3.0)
    path = training.export_onnx(out / training.CHECKPOINT, tmp_path / "both.onnx", kept=(other, 0.25))
    theirs, (mixed, properties) = read_onnx(other)[0], read_onnx(path.read_bytes())
    names = [name for name in learnt if name.startswith("network.")]
    assert len(names) > 20
    for name in names:
        # The average is rounded to 16 bits.
        torch.testing.assert_close(mixed[name], 0.75 * learnt[name] + 0.25 * theirs[name], rtol=2**-11, atol=2**-24)
    assert json.loads(properties["classes"]) == list(SHAPES)
    built_in = detector_file(None)  # of another width
    with pytest.raises(UsageError, match="of another shape there"):
        training.export_onnx(out / training.CHECKPOINT, tmp_path / "wrong.onnx", kept=(built_in, 0.5))


def test_a_second_look_becomes_part_of_the_file(
    trained: tuple[Path, SceneArrays, BuiltinDetector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out, scenes, detector = trained
    traced_once(monkeypatch, out)
    settings = {**TINY, "start": str(out / "detector.onnx"), "augment": AugmentConfig(paste=0)}
    config = SecondLookConfig(**settings, steps=3)
    lines: list[Any] = []
    checkpoint = looking.train_second_look(scenes, config, out=tmp_path, validation=scenes, log=lines.append)
    assert [line["event"] for line in lines[-2:]] == ["validate", "end"]
    assert lines[-2]["objects"] == sum(len(t.labels) for t in scenes.targets)
    look = looking.export_onnx(checkpoint, tmp_path / "look.onnx").read_bytes()
    copied = Path(shutil.copy(out / "detector.onnx", tmp_path / "both.onnx"))
    path = training.with_calibration(copied, score_scale=1.0, score_shift=0.0, second_look=look)
    both = BuiltinDetector(path, threads=1)
    assert both.name != detector.name
    assert both._second_look is not None
    assert both._second_look.classes == SHAPES
    assert both._second_look.knows_objects
    images = [scenes.images[i] for i in range(8)]
    for a, b in zip(both.detect(images), detector.detect(images), strict=True):
        order = np.lexsort(a.boxes.T), np.lexsort(b.boxes.T)
        np.testing.assert_allclose(a.boxes[order[0]], b.boxes[order[1]])
    # What starts from that file keeps its second look, unless another was trained.
    (tmp_path / "kept").mkdir()
    shutil.copy(out / training.CHECKPOINT, tmp_path / "kept" / training.CHECKPOINT)
    training.finish(tmp_path / "kept", scenes, scenes.subset([]), begun_from=path.read_bytes(), threads=1)
    assert looking.within((tmp_path / "kept" / "detector.onnx").read_bytes(), SHAPES, COLORS) == look
    assert looking.within(path.read_bytes(), SHAPES[::-1], COLORS) is None
    built_in = detector_file(None)  # its second look knows other classes
    training.finish(tmp_path / "kept", scenes, scenes.subset([]), begun_from=built_in, threads=1)
    assert BuiltinDetector(tmp_path / "kept" / "detector.onnx")._second_look is None
    training.finish(tmp_path / "kept", scenes, scenes.subset([]), begun_from=None, threads=1)
    assert looking.within((tmp_path / "kept" / "detector.onnx").read_bytes(), SHAPES, COLORS) is None
    # Another training goes on from the second look that the file has now.
    again = replace(config, start=str(path), steps=1, lr=1e-9, lr_warmup_steps=0)
    further = looking.train_second_look(scenes, again, out=tmp_path / "again")
    first, second = (
        averaged_weights(folder / looking.CHECKPOINT)["out.weight"] for folder in (tmp_path, further.parent)
    )
    assert torch.allclose(first, second, atol=2e-3)  # kept in 16 bits
    with pytest.raises(UsageError, match="no object to learn from"):
        looking.train_second_look(scenes.subset([0]), config, out=tmp_path / "empty")
    with pytest.raises(UsageError, match=r"no detector of width 0\.25"):
        looking.train_second_look(scenes, replace(config, width=0.25), out=tmp_path / "other")
    with pytest.raises(UsageError, match="not a checkpoint of second look training"):
        looking.export_onnx(out / training.CHECKPOINT, tmp_path / "wrong.onnx")


def test_boxes_that_fit_no_object():
    rng = np.random.default_rng(0)
    objects = np.array([[10, 10, 60, 50], [70, 20, 110, 90]], dtype=np.float32)
    boxes = np.array([looking._misplaced(objects, 128, rng) for _ in range(300)])
    assert box_iou(boxes, objects).max() < 0.4
    assert ((boxes[:, 2:] - boxes[:, :2]) >= 4).all()
    assert (boxes >= 0).all()
    assert (boxes <= 128).all()
    inside = (boxes[:, None, :2] >= objects[None, :, :2]).all(2) & (boxes[:, None, 2:] <= objects[None, :, 2:]).all(2)
    assert 0.3 < inside.any(1).mean() < 0.8  # parts of objects
    assert (boxes == [10, 10, 110, 90]).all(1).any()  # both in one box
    everywhere = np.array([[0, 0, 128, 128]], dtype=np.float32)
    assert box_iou(looking._misplaced(everywhere, 128, rng), everywhere).max() < 0.4


def test_mistakes_of_a_detector_are_boxes_without_an_object_and_classes_it_is_unsure_of():
    scenes = shapes(16)
    seen = range(1, 15)
    known = SHAPES[::-1][:-1]  # in another order, and without the first
    shares = {SHAPES[0]: 0.0, SHAPES[1]: 0.95, SHAPES[2]: 0.85}

    class Scripted:
        classes = known

        def detect(self, images):
            assert len(images) == len(seen)
            results = []
            for i in seen:
                target = scenes.targets[i]
                scores = np.zeros((len(target.labels) + 1, len(known)), np.float32)
                for k, label in enumerate(target.labels):
                    if SHAPES[label] in known:
                        scores[k, known.index(SHAPES[label])] = 0.5 * shares[SHAPES[label]]
                boxes = np.concatenate([target.boxes, [[0, 0, 4, 4]]]).astype(np.float32)
                half = np.full(len(boxes), 0.5, np.float32)
                results.append(Found(boxes=boxes, objectness=half, class_scores=scores, color_scores=scores))
            return results

    wrong, unsure = looking._mistakes(Scripted(), scenes, seen, SHAPES)
    assert [(i, box.tolist()) for i, box in wrong] == [(i, [0, 0, 4, 4]) for i in seen]
    times = np.bincount(np.concatenate([scenes.targets[i].labels for i in seen]), minlength=len(SHAPES))
    assert (times > 0).all()
    # The first class is unknown to it, the second one it is sure of, of the third it is not.
    np.testing.assert_array_equal(unsure, times * [1, 0, 1])
    objects = looking._objects(scenes)
    drawn = looking._drawn_again(scenes, objects, np.array([30, 0, 10]), np.random.default_rng(0))
    labels = np.array([scenes.targets[i].labels[k] for i, k in objects[drawn]])
    share = np.bincount(labels, minlength=3) / len(drawn)
    np.testing.assert_allclose(share, [0.75, 0, 0.25], atol=0.03)  # 10,000 draws: six standard errors
    assert len(looking._drawn_again(scenes, objects, np.zeros(3, dtype=int), np.random.default_rng(0))) == 0


def test_training_needs_images_and_a_length(tmp_path: Path):
    with pytest.raises(UsageError, match="say how long to train"):
        train(shapes(8), tmp_path)
    with pytest.raises(UsageError, match="no image to learn from"):
        train(shapes(8).subset([]), tmp_path, steps=1)


@pytest.mark.usefixtures("float32")
def test_training_ends_in_a_measured_detector(
    trained: tuple[Path, SceneArrays, BuiltinDetector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    traced_once(monkeypatch, trained[0])
    monkeypatch.setattr(training, "load_scene_arrays", partial(load_scene_arrays, size=64))
    root = write_scenes(tmp_path / "data", labels=("bar", "disc"))
    write_scenes(root, split="val", labels=("bar", "disc"))
    out = tmp_path / "out"
    collected: list[str] = []
    settings = DetectorConfig(**{**TINY, "batch_size": 2}, held_out=0.5)
    result = training.train_and_export([root], out, replace(settings, steps=2), say=collected.append)
    assert result["val"]["pictures"] == 2
    assert json.loads((out / "evaluation.json").read_text())["threshold"] > 0
    measured = BuiltinDetector(out / "detector.onnx")
    assert measured.card["val"]["pictures"] == 2
    assert measured.card["steps"] == 2
    assert any("step 2" in line for line in collected)
    with pytest.raises(UsageError, match="say how long"):
        training.train_and_export([root], tmp_path / "none", settings)


def test_the_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / training.CHECKPOINT
    header = {"settings": json.dumps({"labels": ["dog"], "width": 1.0}), "step": "1", "elapsed_s": "2.0"}
    for kind in ({}, {"kind": "verism painter"}, {"kind": "verism detector"}):
        save_file({"average.a": torch.zeros(1)}, path, metadata=header | kind)
        with pytest.raises(UsageError, match="not a checkpoint of detector training"):
            read_settings(path, "detector", training._Settings)
