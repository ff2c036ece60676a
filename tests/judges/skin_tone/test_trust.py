"""Albedo by TRUST: geometry by hand and against other libraries, loading, and a whole path with random weights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from verism.errors import UsageError
from verism.judges.skin_tone import trust_network
from verism.judges.skin_tone import trust_patches as patches
from verism.judges.skin_tone.colour import measure_skin
from verism.judges.skin_tone.faces import Face, five_points
from verism.judges.skin_tone.trust import TrustAlbedo, TrustSettings, load_encoder, read_basis
from verism.judges.skin_tone.trust_network import TrustEncoder
from verism.metrics.colour import MONK_RGB, lab, released_mean_ita

LENGTH = 54


def landmarks(left: float, top: float, right: float, bottom: float, seed: int = 0) -> Face:
    """A face of 68 points in a box; the second smallest and second largest coordinates are its sides."""
    rng = np.random.default_rng(seed)
    points = rng.uniform((left, top), (right, bottom), (68, 2))
    points[0], points[1] = (left, top), (right, bottom)
    points[2], points[3] = (left - 3, top - 5), (right + 7, bottom + 2)  # outermost: not counted
    return Face(box=np.array([left, top, right, bottom]), landmarks=rng.permutation(points))


def image(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


# ------------------------------------------------------------------------------------------------------------ the face
def test_square_of_68_landmarks():
    # Sides 100 and 60: mean 80, x 1.6 = 128. Middle ((20 + 120) / 2, (30 + 90) / 2). Outermost points do not count.
    assert patches.face_square(landmarks(20, 30, 120, 90)) == (70, 60, 128)
    # 1.6 x (31 + 30) / 2 = 48.8, cut off
    assert patches.face_square(landmarks(0, 0, 31, 30)).side == 48


def test_square_of_five_landmarks():
    # Eyes 40 apart, mouth 50 below: 80 wide and (1.67 + 0.37) x 50 = 102 high, mean 91, x 1.6 = 145.6. The middle lies
    # (1.67 - 0.37) / 2 = 0.65 of the way down to the mouth, 32.5.
    points = np.array([(80.0, 100), (120, 100), (100, 125), (85, 150), (115, 150)])
    box = np.array([0.0, 0, 1, 1])
    x, y, side = patches.face_square(Face(box=box, landmarks=points))
    assert (x, y) == pytest.approx((100, 132.5))
    assert side == 145
    # Turned by a quarter: down is left, the size stays.
    turned = (points - 100) @ np.array([[0.0, 1], [-1, 0]]) + 100
    assert patches.face_square(Face(box=box, landmarks=turned)) == (pytest.approx(67.5), pytest.approx(100), 145)


def test_square_of_a_box(monkeypatch: pytest.MonkeyPatch):
    # Eyes at 0.27 and 0.73 of the width, 0.42 of the height, mouth at 0.78. Of 100 x 100: 46 apart, 36 below: 92 wide
    # and 2.04 x 36 = 73.44 high, mean 82.72, x 1.6 = 132.35; 42 + 0.65 x 36 = 65.4.
    usual = ((0.27, 0.42), (0.73, 0.42), (0.50, 0.61), (0.32, 0.78), (0.68, 0.78))
    monkeypatch.setattr(patches, "TYPICAL", {"tight": usual})
    x, y, side = patches.face_square(Face(box=np.array([10.0, 20, 110, 120])))
    assert (x, y, side) == (pytest.approx(60), pytest.approx(85.4), 132)
    # An image in which nobody looked for a face is the patch.
    assert patches.face_square(Face(box=np.array([0.0, 0, 200, 100]), box_style="picture")) == (100, 50, 150)


@pytest.mark.parametrize("style", ["square", "tight"])
def test_square_of_a_box_holds_the_face(style: Any):
    x, y, side = patches.face_square(Face(box=np.array([0.0, 0, 100, 120]), box_style=style))
    assert x == pytest.approx(50, abs=3)
    assert 0 < y - side / 4 < y + side / 4 < 120
    assert 100 < side < 220


def test_square_by_five_of_68_landmarks_is_near_that_of_all():
    # A face of usual proportions: jaw, brows and chin where the 68 points of an average face are, roughly.
    points = np.full((68, 2), (100.0, 120))
    points[0:17, 0] = np.linspace(58, 142, 17)
    points[0:17, 1] = 100 + 68 * np.sin(np.linspace(0, np.pi, 17))
    points[17:27] = np.stack([np.linspace(65, 135, 10), np.full(10, 85)], axis=1)
    points[36:42], points[42:48] = (80, 100), (120, 100)
    points[48], points[54] = (85, 141), (115, 141)
    full = Face(box=np.array([0.0, 0, 1, 1]), landmarks=points)
    five = Face(box=full.box, landmarks=five_points(points))
    (x, y, side), (x5, y5, side5) = patches.face_square(full), patches.face_square(five)
    assert (x5, y5) == pytest.approx((x, y), abs=0.05 * side)
    assert side5 == pytest.approx(side, rel=0.1)


def test_patch_of_matching_size_copies_pixels_and_is_black_outside():
    # A side of 223: one pixel for one. Middle (111.5, 111.5), so the patch begins at pixel 0. Moved by 100 to the left
    # and 24 up, its first 100 columns and 24 rows lie outside.
    pixels = image(300, 300)
    full = patches.face_patch(pixels, patches.Square(111.5, 111.5, 223))
    assert full.shape == (3, 224, 224)
    assert full.dtype == np.float32
    np.testing.assert_allclose(full, pixels[:224, :224].transpose(2, 0, 1) / 255, atol=1e-5)
    moved = patches.face_patch(pixels, patches.Square(11.5, 87.5, 223))
    assert (moved[:, :24] == 0).all()
    assert (moved[:, :, :100] == 0).all()
    np.testing.assert_allclose(moved[:, 24:, 100:], pixels[:200, :124].transpose(2, 0, 1) / 255, atol=1e-5)


@pytest.mark.parametrize("square", [(40, 60, 80), (170.5, 50, 224), (6, 8, 10), (80, 60, 700)])
def test_patch_is_the_warp_of_scikit_image(square: tuple[float, float, int]):
    transform = pytest.importorskip("skimage.transform")
    pixels = image(130, 170)
    x, y, side = square
    scale = 223 / side
    warp = transform.SimilarityTransform(scale=scale, translation=(-scale * (x - side / 2), -scale * (y - side / 2)))
    expected = transform.warp(pixels / 255, warp.inverse, output_shape=(224, 224), order=1, mode="constant", cval=0)
    result = patches.face_patch(pixels, patches.Square(*square))
    np.testing.assert_allclose(result, expected.transpose(2, 0, 1), atol=2e-5)


def test_square_without_extent_has_no_patch():
    with pytest.raises(ValueError, match="side of 0 pixels"):
        patches.face_patch(image(50, 50), patches.Square(10, 10, 0))


def test_released_face_patch_lies_beside_the_face():
    # Landmarks from (100, 80) to (200, 180), all of them: the crop holds pixels 100 to 199 and 80 to 179. Their square
    # is at (150, 130) with a side of 160: x 70 to 230, y 50 to 210, of a crop of 100 x 100. So of the crop only
    # x >= 70 and y >= 50 are seen (170 and 130 of the image), in the first 30 / 160 and 50 / 160 of the patch.
    points = np.array([(100.0, 80), (100, 80), *[(150, 130)] * 64, (200, 180), (200, 180)])
    face = Face(box=np.array([100.0, 80, 200, 180]), landmarks=points)
    pixels = image(300, 300)
    patch = patches.released_face_patch(pixels, face)
    np.testing.assert_allclose(patch[:, 0, 0], pixels[130, 170] / 255, atol=1e-5)
    seen = patch.any(axis=0)
    assert seen[:, 0].nonzero()[0].max() == pytest.approx(50 / 160 * 223, abs=1)
    assert seen[0].nonzero()[0].max() == pytest.approx(30 / 160 * 223, abs=1)
    # A face far from the corner: nothing is left.
    assert not patches.released_face_patch(image(600, 600), landmarks(400, 400, 450, 450)).any()
    # Beside the image: an empty crop.
    assert not patches.released_face_patch(pixels, landmarks(-90, -90, -20, -20)).any()
    for other in (Face(box=face.box), Face(box=face.box, landmarks=points[:5])):
        with pytest.raises(ValueError, match="needs 68 landmarks"):
            patches.released_face_patch(pixels, other)


# ----------------------------------------------------------------------------------------------------------- the scene
@pytest.mark.parametrize("shape", [(448, 448), (256, 256), (300, 517), (224, 224)])
def test_area_resize_is_opencv(shape: tuple[int, int]):
    cv2 = pytest.importorskip("cv2")
    values = np.random.default_rng(0).random((*shape, 3), dtype=np.float32)
    expected = cv2.resize(values, (224, 224), interpolation=cv2.INTER_AREA)
    np.testing.assert_allclose(patches.area_resized(values, 224), expected, atol=1e-5)


def test_area_resize_by_hand():
    # 3 pixels to 2: each new one covers 1.5 old ones.
    row = np.array([[0.0, 3, 6]] * 3)
    np.testing.assert_allclose(patches.area_resized(row, 2), [[1, 5]] * 2, atol=1e-6)
    np.testing.assert_allclose(patches.area_resized(row[:2, :2], 4), [[0, 0, 3, 3]] * 4, atol=1e-6)
    assert patches.area_resized(row + 100, 224).mean() == pytest.approx(103, abs=1e-3)


def test_scene_is_the_middle_square():
    # 100 x 160: columns 30 to 129.
    pixels = np.zeros((100, 160, 3), dtype=np.uint8)
    pixels[:, 30:130] = (255, 51, 0)
    scene = patches.centred_scene(pixels)
    np.testing.assert_allclose(scene, np.broadcast_to(np.array([1, 0.2, 0])[:, None, None], (3, 224, 224)), atol=1e-5)
    assert (patches.centred_scene(pixels[:, :131][:, ::-1])[0] < 0.99).any()  # 131 wide: columns 15 to 114


def test_released_scene_of_common_sizes():
    wide = image(512, 512)
    np.testing.assert_allclose(
        patches.released_scene(wide, 100), wide[:224, 100:324].transpose(2, 0, 1) / 255, rtol=1e-6
    )
    assert patches.released_scene(image(256, 256), 32).shape == (3, 224, 224)
    assert patches.released_scene(image(256, 256), 33).shape == (3, 224, 223)
    assert patches.released_scene(image(256, 256), 173).shape == (3, 224, 83)
    assert patches.released_scene(image(64, 256), 0).shape == (3, 64, 224)
    with pytest.raises(ValueError, match="column 120, and the image is 120"):
        patches.released_scene(image(120, 120), 120)


def test_released_offset_follows_from_the_image_and_a_seed():
    offsets = [patches.released_offset(image(8, 8, seed), seed=0) for seed in range(400)]
    assert (min(offsets), max(offsets)) == pytest.approx((0, 173), abs=5)
    assert np.mean(offsets) == pytest.approx(86.5, abs=10)  # deviation of the mean: 174 / sqrt(12 x 400) = 2.5
    assert patches.released_offset(image(8, 8, 3), seed=0) == offsets[3]
    assert [patches.released_offset(image(8, 8, seed), seed=1) for seed in range(20)] != offsets[:20]


# ------------------------------------------------------------------------------------------------------------- the map
def test_polygons_are_filled_by_the_middles_of_pixels():
    # A square from 1 to 3 holds the middles 1.5 and 2.5; a triangle left of x = y - 0.2 those with x < y.
    square = patches.filled_polygons([[(1, 1), (3, 1), (3, 3), (1, 3)]], 4)
    np.testing.assert_array_equal(square, np.pad(np.ones((2, 2), dtype=bool), 1))
    triangle = patches.filled_polygons([[(0, 0.2), (4, 4.2), (0, 4.2)]], 4)
    np.testing.assert_array_equal(triangle, np.tri(4, k=-1, dtype=bool))
    two = patches.filled_polygons([[(0, 0), (1, 0), (1, 4), (0, 4)], [(3, 0), (4, 0), (4, 4), (3, 4)]], 4)
    np.testing.assert_array_equal(two[0], [True, False, False, True])


SPANS = {
    92: [(121, 132)],
    104: [(116, 138)],
    116: [(64, 75), (108, 148), (178, 189)],
    122: [(64, 83), (99, 105), (148, 154), (170, 189)],
    134: [(64, 98), (158, 189)],
    146: [(64, 92), (165, 189)],
    158: [(71, 85), (170, 183)],
}


def test_mask_covers_what_the_method_describes():
    mask = patches.skin_mask()
    assert mask.shape == (256, 256)
    assert mask.sum() == pytest.approx(3400, rel=0.05)
    rows, columns = mask.nonzero()
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (90, 164, 64, 189)
    for y, expected in SPANS.items():
        steps = np.diff(np.concatenate([[0], mask[y].astype(int), [0]]))
        results = list(zip((steps == 1).nonzero()[0], (steps == -1).nonzero()[0] - 1, strict=True))
        assert len(results) == len(expected), y
        np.testing.assert_allclose(results, expected, atol=1, err_msg=f"row {y}")
    assert not mask.flags.writeable


def test_released_mask_counts_whatever_it_touches():
    cv2 = pytest.importorskip("cv2")
    mask = patches.released_mask()
    stored = patches.skin_mask().astype(np.uint8) * 255
    expected = cv2.resize(stored, (224, 224), interpolation=cv2.INTER_AREA) > 0
    np.testing.assert_array_equal(mask, expected)
    assert mask.sum() > patches.skin_mask().sum() * (224 / 256) ** 2


def test_released_map_is_small_and_in_bytes():
    flat = np.broadcast_to(np.array([0.5, 1.7, -0.3]), (256, 256, 3))
    stored = patches.released_map(flat)
    assert (stored.shape, stored.dtype) == ((224, 224, 3), np.uint8)
    # Beyond the range is clipped. JPEG keeps a flat colour to a few levels.
    np.testing.assert_allclose(stored.reshape(-1, 3).mean(axis=0), [127, 255, 0], atol=3)
    # 127.9 is cut off to 127. JPEG keeps a flat grey exactly: its only coefficient is 8 x (127 - 128), in steps of 2.
    assert (patches.released_map(np.full((256, 256, 3), 127.9 / 255)) == 127).all()
    ramp = np.broadcast_to((np.arange(256) / 255)[:, None, None], (256, 256, 3))
    # Row i shows row floor(i x 256 / 224) = floor(8 i / 7).
    np.testing.assert_allclose(patches.released_map(ramp)[:, 5, 0], np.arange(224) * 8 // 7, atol=3)


# -------------------------------------------------------------------------------------------------------- the networks
def random_weights(channels: int, outputs: int, seed: int) -> dict[str, torch.Tensor]:
    """Weights with which a code depends on the image, in the published layout."""
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        shapes = {key: value.shape for key, value in TrustEncoder(channels, outputs).state_dict().items()}
    weights = {}
    for key, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        if noise.ndim > 1:
            weights[key] = noise * (2 / noise[0].numel()) ** 0.5
        elif key.endswith(("running_var", ".weight")):
            weights[key] = (noise * 0.1 + (0.3 if "bn3" in key else 1)).abs()
        else:
            weights[key] = noise * 0.1
        if key.endswith("running_mean"):
            weights[key.replace("running_mean", "num_batches_tracked")] = torch.tensor(7)
    return weights


def flat_weights(channels: int, outputs: int, **more: Any) -> dict[str, Any]:
    """Zeros that take no space in a file."""
    with torch.device("meta"):
        shapes = {key: value.shape for key, value in TrustEncoder(channels, outputs).state_dict().items()}
    return {key: torch.zeros(1).expand(shape) for key, shape in shapes.items()} | more


def test_parameters_have_the_published_names():
    with torch.device("meta"):
        network = TrustEncoder(6, LENGTH)
    weights = network.state_dict()
    assert weights["encoder.conv1.weight"].shape == (64, 6, 7, 7)
    assert weights["encoder.layer1.0.downsample.1.running_mean"].shape == (256,)
    assert weights["encoder.layer4.2.conv3.weight"].shape == (2048, 512, 1, 1)
    assert weights["layers.0.weight"].shape == (1024, 2048)
    assert weights["layers.2.bias"].shape == (LENGTH,)
    assert {key.split(".")[0] for key in weights} == {"encoder", "layers"}
    # 53 convolutions and normalisations of 4 vectors each, two layers of two
    assert len(weights) == 53 * 5 + 4


def test_network_is_the_resnet_of_transformers():
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        ours = TrustEncoder(6, 5).eval()
    weights = random_weights(6, 5, seed=1)
    weights["layers.0.weight"] *= 0.02  # so that the hidden layer lies about 0, where kinds of rectifiers differ
    ours.load_state_dict({key: value for key, value in weights.items() if not key.endswith("tracked")}, assign=True)
    config = transformers.ResNetConfig(
        num_channels=6, embedding_size=64, hidden_sizes=[256, 512, 1024, 2048], depths=[3, 4, 6, 3],
        layer_type="bottleneck", downsample_in_bottleneck=False,
    )  # fmt: skip
    with torch.device("meta"):
        reference = transformers.ResNetModel(config).eval()
    renamed = {}
    for key, value in weights.items():
        part, _, name = key.removeprefix("encoder.").rpartition(".")
        if key.startswith("layers."):
            continue
        if part in ("conv1", "bn1"):
            folder = "embedder.embedder." + ("convolution" if part == "conv1" else "normalization")
        else:
            stage, block, module = part.split(".", 2)
            kind = "convolution" if module.startswith("conv") or module == "downsample.0" else "normalization"
            inner = "shortcut" if module.startswith("downsample") else f"layer.{int(module[-1]) - 1}"
            folder = f"encoder.stages.{int(stage[-1]) - 1}.layers.{block}.{inner}.{kind}"
        renamed[f"{folder}.{name}"] = value
    reference.load_state_dict(renamed, assign=True)
    x = torch.rand(2, 6, 96, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        pooled = reference(x).pooler_output.flatten(1)
        hidden = torch.relu(pooled @ weights["layers.0.weight"].T + weights["layers.0.bias"])
        expected = hidden @ weights["layers.2.weight"].T + weights["layers.2.bias"]
        result = ours(x)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    assert result.std(dim=0).max() > 1e-3  # the images matter


def saved(path: Path, content: Any) -> Path:
    torch.save(content, path)
    return path


def test_checkpoints_load_strictly(tmp_path: Path):
    more = {"encoder.fc.weight": torch.zeros(1).expand(1000, 2048), "encoder.fc.bias": torch.zeros(1000)}
    path = saved(tmp_path / "a.tar", {"E_albedo": flat_weights(6, LENGTH, **more), "epoch": 3})
    assert load_encoder(path, "E_albedo", channels=6, outputs=LENGTH).training is False
    with pytest.raises(UsageError, match=r"of another shape: encoder.conv1.weight \(64, 6, 7, 7\) instead of \(64, 3"):
        load_encoder(path, "E_albedo", channels=3, outputs=LENGTH)
    with pytest.raises(UsageError, match=r"under the key 'E_scene_light'; it holds E_albedo, epoch"):
        load_encoder(path, "E_scene_light", channels=3, outputs=3)

    extra = flat_weights(6, LENGTH, **{"layers.4.weight": torch.zeros(3)})
    del extra["encoder.layer3.5.bn2.running_var"]
    path = saved(tmp_path / "b.tar", {"E_albedo": extra})
    with pytest.raises(UsageError, match=r"1 missing: encoder.layer3.5.bn2.running_var; 1 unexpected: layers.4.weight"):
        load_encoder(path, "E_albedo", channels=6, outputs=LENGTH)
    # A classifier elsewhere is not the trunk's.
    path = saved(tmp_path / "c.tar", {"E_albedo": flat_weights(6, LENGTH, **{"fc.weight": torch.zeros(3)})})
    with pytest.raises(UsageError, match=r"1 unexpected: fc.weight"):
        load_encoder(path, "E_albedo", channels=6, outputs=LENGTH)


class Dangerous:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("code in a checkpoint was run",))


def test_what_is_no_checkpoint_is_refused(tmp_path: Path):
    (tmp_path / "text.tar").write_text("no checkpoint")
    with pytest.raises(UsageError, match=r"cannot read .*as a PyTorch checkpoint"):
        load_encoder(tmp_path / "text.tar", "E_albedo", channels=6, outputs=LENGTH)
    path = saved(tmp_path / "code.tar", {"E_albedo": Dangerous()})
    with pytest.raises(UsageError, match=r"cannot read .*as a PyTorch checkpoint"):
        load_encoder(path, "E_albedo", channels=6, outputs=LENGTH)
    path = saved(tmp_path / "list.tar", [1, 2])
    with pytest.raises(UsageError, match="it holds list"):
        load_encoder(path, "E_albedo", channels=6, outputs=LENGTH)
    path = saved(tmp_path / "number.tar", {"E_albedo": {"encoder": 3}})
    with pytest.raises(UsageError, match="these are not: encoder"):
        load_encoder(path, "E_albedo", channels=6, outputs=LENGTH)


# ----------------------------------------------------------------------------------------------------------- the basis
MEAN_RGB = np.array([180.0, 130, 100])


def basis_arrays() -> dict[str, np.ndarray]:
    """A flat face of ``MEAN_RGB``; direction 0 adds red at 1 / 255 per unit, direction 1 rows, direction 2 columns.

    As in the published file: 512 x 512, blue first, values up to 255. Odd rows and columns hold what must not be seen.
    """
    mean = np.empty((512, 512, 3), dtype=np.float32)
    mean[:] = MEAN_RGB[::-1]
    directions = np.zeros((512, 512, 3, LENGTH), dtype=np.int8)
    directions[..., 2, 0] = 1
    directions[128, :, :, 1] = 100
    directions[:, 128, 1, 2] = 100
    directions[1::2] = 77
    directions[:, 1::2] = 77
    mean[1::2] = 0
    mean[:, 1::2] = 0
    return {"mean": mean.reshape(-1), "tex_dir": directions.reshape(-1, LENGTH)}


@pytest.fixture(scope="module")
def basis_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("basis") / "BalanceAlb_model.npz"
    np.savez(path, **basis_arrays())
    return path


def test_basis_by_hand(basis_file: Path):
    basis = read_basis(basis_file)
    assert basis.directions.shape == (256 * 256 * 3, LENGTH)
    np.testing.assert_allclose(basis.mean, np.broadcast_to(MEAN_RGB / 255, (256, 256, 3)), atol=1e-6)
    code = np.zeros(LENGTH)
    code[:3] = (51, 2, 3)
    albedo = basis.albedo(code)
    # Red of every pixel: (180 + 51) / 255; row 64 has 200 / 255 more in all channels, column 64 has 300 / 255 in green.
    np.testing.assert_allclose(albedo[3, 4], np.array([231, 130, 100]) / 255, atol=1e-5)
    np.testing.assert_allclose(albedo[64, 4], np.array([431, 330, 300]) / 255, atol=1e-5)
    np.testing.assert_allclose(albedo[5, 64], np.array([231, 430, 100]) / 255, atol=1e-5)


def test_basel_basis_is_not_divided(tmp_path: Path):
    path = tmp_path / "bfm.npz"
    mean = np.zeros((512, 512, 3), dtype=np.float32)
    mean[..., 0] = 0.4  # blue
    directions = np.broadcast_to(np.array(0, dtype=np.int8), (512, 512, 3, 199))
    np.savez_compressed(path, MU=mean, PC=directions)
    basis = read_basis(path)
    np.testing.assert_allclose(basis.albedo(np.ones(199))[7, 9], [0, 0, 0.4], atol=1e-6)


def test_what_is_no_basis_is_refused(tmp_path: Path):
    def refused(message: str, **arrays: np.ndarray) -> None:
        path = tmp_path / "wrong.npz"
        np.savez_compressed(path, **arrays)
        with pytest.raises(UsageError, match=message):
            read_basis(path)

    flat = np.zeros(512 * 512 * 3, dtype=np.int8)
    refused("expected arrays 'mean' and 'tex_dir' or 'MU' and 'PC', found mean", mean=flat)
    refused(r"'mean' must hold 786,432 numbers", mean=flat[:-1], tex_dir=flat)
    refused(r"'tex_dir' must hold 42,467,328 numbers .*A texture model of FLAME", mean=flat, tex_dir=flat)
    refused("expected an .npz file of plain arrays", mean=flat, tex_dir=np.array([{}], dtype=object))
    other = np.broadcast_to(np.array(0, dtype=np.int8), (LENGTH, 512 * 512 * 3))
    refused("the last axis of 'tex_dir' must be 54", mean=flat, tex_dir=other)
    refused("not finite", mean=np.full(flat.shape, np.nan, np.float32), tex_dir=other.T)
    for name, content in (("text.npz", b"no zip"), ("empty.npz", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=r"expected an .npz file of plain arrays"):
            read_basis(tmp_path / name)


# ------------------------------------------------------------------------------------------------------ the whole path
@contextmanager
def small_encoders() -> Iterator[None]:
    """Encoders of fewer and narrower layers: nothing below asks how many there are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trust_network, "_BLOCKS", (1, 1, 1, 1))
        patched.setattr(trust_network, "_WIDTH", 16)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, basis_file: Path) -> Path:
    """TRUST's files as they are published, with random weights, in half precision for speed."""
    folder = tmp_path_factory.mktemp("trust")
    for name, channels, outputs, seed in (("E_albedo", 6, LENGTH, 2), ("E_scene_light", 3, 3, 3)):
        with small_encoders():
            made = random_weights(channels, outputs, seed)
        weights = {key: value.half() if value.is_floating_point() else value for key, value in made.items()}
        saved(folder / f"{name}_BalanceAlb.tar", {name: weights})
    (folder / "E_face_light_BalanceAlb.tar").write_text("not needed, so not looked at")
    (folder / basis_file.name).hardlink_to(basis_file)
    return folder


@pytest.fixture(scope="module")
def trust(folder: Path) -> TrustAlbedo:
    with small_encoders():
        return TrustAlbedo(folder, settings=TrustSettings(device="cpu"))


FACE = landmarks(60, 50, 110, 120)
SCENE = image(256, 300, seed=9)


def answering(trust: TrustAlbedo, monkeypatch: pytest.MonkeyPatch, red: float) -> None:
    """Let the network of the albedo answer a code of ``red`` alone, whatever it sees."""
    last = trust._albedo.layers[2]
    code = torch.zeros(LENGTH)
    code[0] = red
    monkeypatch.setattr(last.weight, "data", torch.zeros_like(last.weight))
    monkeypatch.setattr(last.bias, "data", code)


def test_known_albedo_gives_known_colour(trust: TrustAlbedo, monkeypatch: pytest.MonkeyPatch):
    answering(trust, monkeypatch, -20)  # 180 - 20 of red: (160, 130, 100)
    albedo = trust.albedo(SCENE, FACE, protocol="revised")
    np.testing.assert_allclose(albedo, np.broadcast_to(np.array([160, 130, 100]) / 255, albedo.shape), atol=1e-5)
    result = trust.skin(SCENE, FACE)
    assert (result.state, result.note) == ("ok", "")
    assert result.n_pixels == patches.skin_mask().sum()
    assert result.rgb255 == pytest.approx((160, 130, 100), abs=0.01)
    lightness, _, b = lab(np.array([160, 130, 100.0]))
    assert result.ita_deg == pytest.approx(np.degrees(np.arctan((lightness - 50) / b)), abs=1e-3)
    # (160, 130, 100) is near tone 6, (160, 126, 86); the released way calls nearly everything 5 or 6.
    assert result.tone == 6
    assert np.abs(MONK_RGB[5] - (160, 130, 100)).sum() == 18
    assert result.released_tone in (5, 6)
    expected = released_mean_ita(np.array([[160, 130, 100]], dtype=np.uint8))
    assert result.released_ita_deg == pytest.approx(expected, abs=1.5)  # JPEG


def test_colours_beyond_the_range_are_clipped(trust: TrustAlbedo, monkeypatch: pytest.MonkeyPatch):
    answering(trust, monkeypatch, 200)
    assert trust.albedo(SCENE, FACE, protocol="revised").max() == pytest.approx(380 / 255, abs=1e-5)
    result = trust.skin(SCENE, FACE)
    assert result.state == "clipped"
    assert result.rgb255[0] == pytest.approx(255)


@pytest.mark.parametrize("protocol", ["revised", "released"])
def test_networks_see_the_light_then_the_face(trust: TrustAlbedo, protocol: Any):
    seen: dict[str, torch.Tensor] = {}
    hooks = [
        network.register_forward_hook(lambda _, given, out, name=name: seen.update({name: given[0], name + "!": out}))
        for name, network in (("light", trust._light), ("albedo", trust._albedo))
    ]
    albedo = trust.albedo(SCENE, FACE, protocol=protocol)
    for hook in hooks:
        hook.remove()
    if protocol == "revised":
        scene, face = patches.centred_scene(SCENE), patches.face_patch(SCENE, patches.face_square(FACE))
    else:
        scene = patches.released_scene(SCENE, patches.released_offset(SCENE, seed=0))
        face = patches.released_face_patch(SCENE, FACE)
    np.testing.assert_array_equal(seen["light"][0], scene)
    light = seen["light!"][0].numpy()
    np.testing.assert_array_equal(trust.light(scene), light)
    np.testing.assert_array_equal(seen["albedo"][0, :3], np.broadcast_to(light[:, None, None], (3, 224, 224)))
    np.testing.assert_array_equal(seen["albedo"][0, 3:], face)
    basis = trust._basis
    np.testing.assert_array_equal(albedo, basis.albedo(seen["albedo!"][0].numpy()))


def test_released_way_is_measured_as_released(trust: TrustAlbedo):
    result = trust.skin(SCENE, FACE)
    albedo = trust.albedo(SCENE, FACE, protocol="released")
    stored = patches.released_map(albedo)[patches.released_mask()]
    assert result.released_ita_deg == pytest.approx(released_mean_ita(stored), abs=0.05)
    revised = trust.albedo(SCENE, FACE, protocol="revised")
    expected = measure_skin(np.clip(revised * 255.0, 0, 255), patches.skin_mask())
    assert result.rgb255 == pytest.approx(expected.rgb255, abs=0.01)


def test_faces_do_not_depend_on_their_neighbours(trust: TrustAlbedo, monkeypatch: pytest.MonkeyPatch):
    others = [landmarks(5, 5, 90, 100, seed=1), Face(box=np.array([100.0, 60, 200, 180])), FACE]
    alone = [trust.skin(SCENE, face) for face in others]
    together = trust.measure(SCENE, others)
    with monkeypatch.context() as patched:
        patched.setattr(trust._batches, "size", 2)
        in_pairs = trust.measure(SCENE, others)
    for one, all_, pair in zip(alone, together, in_pairs, strict=True):
        for other in (all_, pair):
            assert other.rgb255 == pytest.approx(one.rgb255, abs=0.02)
            assert other.released_ita_deg == pytest.approx(one.released_ita_deg, abs=0.1, nan_ok=True)
    assert len({face.rgb255 for face in together}) == 3  # the face matters
    assert repr(trust.measure(SCENE, others)) == repr(together)  # as text: NaN is not equal to itself
    assert trust.measure(SCENE, []) == []


def test_faces_without_68_landmarks_have_no_released_values(trust: TrustAlbedo):
    five = np.array([(70.0, 70), (100, 70), (85, 85), (72, 100), (98, 100)])
    faces = [Face(box=FACE.box), Face(box=FACE.box, landmarks=five), Face(box=FACE.box, box_style="picture")]
    result = trust.measure(SCENE, faces)
    assert len({one.rgb255 for one in result}) == 3
    for one in result:
        assert one.tone > 0
        assert np.isnan(one.released_ita_deg)
        assert one.released_tone == 0
        assert one.note.endswith("no released albedo: the released face patch needs 68 landmarks")


def test_what_cannot_be_measured_is_told(trust: TrustAlbedo, monkeypatch: pytest.MonkeyPatch):
    nothing, face = trust.measure(SCENE, [Face(box=FACE.box, landmarks=np.ones((68, 2))), FACE])
    assert (nothing.state, nothing.tone, nothing.n_pixels) == ("no_skin", 0, 0)
    assert np.isnan(nothing.ita_deg)
    assert "no albedo: the face's square has a side of 0 pixels" in nothing.note
    assert face.tone > 0
    # An image that ends left of the released scene
    narrow = image(120, 20, seed=2)
    assert patches.released_offset(narrow, seed=0) >= 20
    result = trust.skin(narrow, landmarks(2, 20, 18, 60))
    assert result.tone > 0
    assert "no released albedo: the released scene patch begins at column" in result.note
    for wrong in (SCENE[..., 0], SCENE.astype(float), SCENE[:0]):
        with pytest.raises(ValueError, match="an image is RGB"):
            trust.measure(wrong, [FACE])
    with pytest.raises(UsageError, match="protocol must be one of revised, released, not 'both'"):
        trust.albedo(SCENE, FACE, protocol="both")  # type: ignore[arg-type]
    answering(trust, monkeypatch, np.nan)
    assert "not finite (dtype torch.float32)" in trust.skin(SCENE, FACE).note


def test_half_precision_stays_near(trust: TrustAlbedo, folder: Path):
    with small_encoders():
        half = TrustAlbedo(folder, settings=TrustSettings(device="cpu", dtype="bfloat16"))
    assert " dtype=bfloat16 " in half.name
    assert next(half._albedo.encoder.parameters()).dtype == torch.bfloat16
    assert half._albedo.layers[0].weight.dtype == torch.float32
    scene = patches.centred_scene(SCENE)
    result, expected = half.light(scene), trust.light(scene)
    assert result.dtype == np.float32
    assert 0 < np.abs(result - expected).max() < 0.1 * np.abs(expected).max()


def test_name_tells_the_content_of_the_files(trust: TrustAlbedo, folder: Path):
    import hashlib

    digests = [
        hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in ("E_albedo_BalanceAlb.tar", "E_scene_light_BalanceAlb.tar", "BalanceAlb_model.npz")
    ]
    assert list(trust.files.values()) == digests
    identity = ".".join(digest[:12] for digest in digests)
    assert trust.name == f"trust:BalanceAlb@{identity} dtype=float32 seed=0 average=median"


def test_folders_must_hold_one_of_each(tmp_path: Path):
    with pytest.raises(UsageError, match="no folder"):
        TrustAlbedo(tmp_path / "none")
    with pytest.raises(UsageError, match=r"exactly one E_albedo_\*.tar .*found none.*docs/skin-tone.md"):
        TrustAlbedo(tmp_path)
    for name in ("E_albedo_A.tar", "E_scene_light_A.tar", "a.npz", "b.npz"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"exactly one \*.npz .*found a.npz, b.npz"):
        TrustAlbedo(tmp_path)
    with pytest.raises(UsageError, match="average must be one of"):
        TrustAlbedo(tmp_path, average="mode")  # type: ignore[arg-type]


def test_importing_costs_no_torch():
    code = "import sys, verism.judges.skin_tone.trust; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
