"""Features of CLIP and DINOv2 models with random weights, against transformers itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_models import tiny_clip, tiny_dinov2
from tolerances import float32_atol

from verism.errors import UsageError
from verism.judges.features.transformers_features import clip_features, dinov2_features
from verism.judges.hub import HubOptions
from verism.records import FeatureNeed, LoadedImage

LOCAL: dict[str, Any] = {"hub": HubOptions(local_files_only=True, device="cpu")}


def image(name: str, height: int, width: int, seed: int = 0) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


IMAGES = [image("wide", 40, 90), image("tall", 70, 33, seed=1), image("flat", 3, 50, seed=2)]

# Terms one behind the other: a patch (3 x 8 x 8 and 3 x 14 x 14), then about 300 of two layers. The vectors reach 24
# and 3; another image moves them by more than 1.
ATOL = {"clip": float32_atol(500, scale=24), "dinov2": float32_atol(900, scale=3)}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_clip(tmp_path_factory.mktemp("models") / "clip", dim=12)


@pytest.fixture(scope="module")
def dinov2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dinov2(tmp_path_factory.mktemp("models") / "dinov2")


def inputs(folder: Path, images: list[LoadedImage]) -> torch.Tensor:
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    return torch.cat([processor(Image.fromarray(p.pixels), return_tensors="pt")["pixel_values"] for p in images])


def test_clip_layers_are_the_models_own(clip: Path):
    from transformers import CLIPModel

    model = CLIPModel.from_pretrained(clip).eval()
    with torch.inference_mode():
        pooled = model.vision_model(pixel_values=inputs(clip, IMAGES)).pooler_output
        projected = model.visual_projection(pooled)
    for layer, expected in (("projection", projected), ("pooled", pooled)):
        judge = clip_features(str(clip), layer=layer, **LOCAL)
        assert judge.dim == expected.shape[1]
        assert f"layer={layer}" in judge.name
        assert judge.features(IMAGES) == pytest.approx(expected.numpy(), abs=ATOL["clip"])
    assert clip_features(str(clip), **LOCAL).dim == 12  # the projection


def test_dinov2_layers_are_the_models_own(dinov2: Path):
    from transformers import Dinov2Model

    model = Dinov2Model.from_pretrained(dinov2).eval()
    with torch.inference_mode():
        output = model(pixel_values=inputs(dinov2, IMAGES))
    # The class token is what the model calls its pooled output; 28 / 14 makes four patches behind it.
    assert output.last_hidden_state.shape[1] == 1 + 4
    cls, patches = (dinov2_features(str(dinov2), layer=layer, **LOCAL) for layer in ("cls", "patches"))
    assert cls.features(IMAGES) == pytest.approx(output.pooler_output.numpy(), abs=ATOL["dinov2"])
    assert patches.features(IMAGES) == pytest.approx(
        output.last_hidden_state[:, 1:].mean(1).numpy(), abs=ATOL["dinov2"]
    )
    assert dinov2_features(str(dinov2), **LOCAL).name == cls.name


@pytest.mark.parametrize("kind", ["clip", "dinov2"])
def test_squash_sees_the_whole_image(kind: str, clip: Path, dinov2: Path):
    make, folder = {"clip": (clip_features, clip), "dinov2": (dinov2_features, dinov2)}[kind]
    full = make(str(folder), preprocessing="squash", **LOCAL)
    usual = make(str(folder), **LOCAL)
    wide = image("a", 32, 320)
    other = LoadedImage(image_id="b", prompt_id="p", pixels=wide.pixels.copy())
    other.pixels[:, :60] = 0
    near, far = usual.features([wide, other]), full.features([wide, other])
    # The rows of one batch, and so the order of their sums, may be treated differently.
    np.testing.assert_allclose(near[0], near[1], atol=ATOL[kind])
    assert np.abs(far[0] - far[1]).max() > 100 * ATOL[kind]
    assert "preprocessing=squash" in full.name
    assert "preprocessing=model" in usual.name


def test_squash_is_one_resize_and_the_normalisation(dinov2: Path):
    # The tiny model's processor would go to 32 and cut 28, as the real one goes to 256 and cuts 224.
    from transformers import Dinov2Model

    resized = [Image.fromarray(p.pixels).resize((28, 28), Image.Resampling.BICUBIC) for p in IMAGES]
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    pixels = np.stack([((np.asarray(p) / 255 - mean) / std).transpose(2, 0, 1) for p in resized])
    with torch.inference_mode():
        expected = Dinov2Model.from_pretrained(dinov2).eval()(pixel_values=torch.from_numpy(pixels).float())
    result = dinov2_features(str(dinov2), preprocessing="squash", **LOCAL).features(IMAGES)
    assert result == pytest.approx(expected.pooler_output.numpy(), abs=ATOL["dinov2"])


@pytest.mark.parametrize("kind", ["clip", "dinov2"])
def test_vectors_do_not_depend_on_neighbours(kind: str, clip: Path, dinov2: Path):
    make, folder = {"clip": (clip_features, clip), "dinov2": (dinov2_features, dinov2)}[kind]
    judge = make(str(folder), hub=HubOptions(batch_size=2, device="cpu"))
    table = judge.observe(IMAGES[::-1], FeatureNeed())
    alone = np.concatenate([make(str(folder), **LOCAL).features([i]) for i in IMAGES[::-1]])
    assert np.abs(np.array(table["vector"].to_list()) - alone).max() < 1e-4
    assert table["image_id"].to_list() == ["flat", "tall", "wide"]


def test_name_is_kind_model_content_and_options(clip: Path):
    name = clip_features(str(clip), hub=HubOptions(dtype="bfloat16", device="cpu")).name
    assert name.startswith("clip:clip@")
    assert name.endswith(" preprocessing=model layer=projection dtype=bfloat16")


def test_wrong_kind_and_options(clip: Path, dinov2: Path):
    with pytest.raises(UsageError, match="is a model of type 'dinov2', which has no vectors of images in a space"):
        clip_features(str(dinov2), **LOCAL)
    with pytest.raises(UsageError, match="is a model of type 'clip', not a DINOv2; CLIP-like models are named clip:"):
        dinov2_features(str(clip), **LOCAL)
    with pytest.raises(UsageError, match="layer must be one of cls, patches, not 'projection'"):
        dinov2_features(str(dinov2), layer="projection", **LOCAL)
    with pytest.raises(UsageError, match="preprocessing must be one of model, squash, not 'digin'"):
        clip_features(str(clip), preprocessing="digin", **LOCAL)
    with pytest.raises(UsageError, match="nowhere/no-model is not in the hub's cache"):
        clip_features("nowhere/no-model", **LOCAL)
