from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_models import tiny_clip, tiny_dinov2, tiny_siglip
from tolerances import float32_atol
from transformers import (
    AutoTokenizer,
    BertTokenizer,
    ChineseCLIPConfig,
    ChineseCLIPImageProcessorPil,
    ChineseCLIPModel,
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPProcessor,
    CLIPTokenizer,
    Siglip2Config,
    Siglip2ImageProcessorPil,
    Siglip2Model,
    SiglipImageProcessorPil,
    SiglipModel,
)

from verism.errors import UsageError, VerismError
from verism.judges.embedding.clip import PRESETS, ClipJudge
from verism.judges.hub import HubOptions
from verism.records import EmbeddingNeed, LoadedImage, schema

NEED = EmbeddingNeed(texts=("a dog",))
TEXTS = ["a dog", "a red cat", "bicycle, 3 of them", "bag"]
# Terms one behind the other: a patch of 3 x 8 x 8 = 192, then twice attention (16 + 17 + 17 + 16), layer norms (2 x 16)
# and MLP (16 + 32), and the projection: about 500. The vectors of the tiny CLIP reach 21, of the others 3. Another
# image or text moves them by more than 1, another preprocessing by more than 0.01.
CLIP_ATOL = float32_atol(500, scale=21)
SIGLIP_ATOL = float32_atol(500, scale=3)


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def siglip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_siglip(tmp_path_factory.mktemp("siglip"))


def image(name: str, width: int, height: int, seed: int = 0) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, size=(height, width, 3), dtype=np.uint8)
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


IMAGES = [
    image(str(i), *size, seed=i) for i, size in enumerate([(32, 32), (60, 40), (3, 50), (40, 60), (200, 3), (1, 1)])
]


def vectors(table: object) -> np.ndarray:
    return np.array(table["vector"].to_list(), dtype=np.float32)  # type: ignore[index]


def count_rows(judge: ClipJudge, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many images and texts reach the network from now on."""
    seen = {"image": 0, "text": 0}
    for kind, argument in (("image", "pixel_values"), ("text", "input_ids")):
        method = getattr(judge._model, f"get_{kind}_features")

        def counted(
            kind: str = kind, argument: str = argument, method: object = method, **inputs: torch.Tensor
        ) -> object:
            seen[kind] += len(inputs[argument])
            return method(**inputs)  # type: ignore[operator]

        monkeypatch.setattr(judge._model, f"get_{kind}_features", counted)
    return seen


# --------------------------------------------------------------------------------------------------------------------
# The model's own vectors
# --------------------------------------------------------------------------------------------------------------------
def test_clip_vectors_are_those_of_the_model_called_by_hand(clip_folder: Path) -> None:
    judge = ClipJudge(str(clip_folder))
    model = CLIPModel.from_pretrained(clip_folder).eval()
    processor = CLIPImageProcessorPil.from_pretrained(clip_folder)
    tokenizer = AutoTokenizer.from_pretrained(clip_folder)
    with torch.inference_mode():
        pixels = [processor(images=Image.fromarray(p.pixels), return_tensors="pt")["pixel_values"] for p in IMAGES]
        by_hand = model.get_image_features(pixel_values=torch.cat(pixels)).pooler_output.numpy()
        # Padded to the longest, with a mask: the usual way.
        texts_by_hand = model.get_text_features(**tokenizer(TEXTS, padding=True, return_tensors="pt")).pooler_output
    table = judge.observe(IMAGES, NEED)
    assert dict(table.schema) == schema("embeddings")
    assert table["image_id"].to_list() == [p.image_id for p in IMAGES]
    assert set(table["judge"]) == {judge.name}
    np.testing.assert_allclose(vectors(table), by_hand, atol=CLIP_ATOL)
    assert np.linalg.norm(by_hand, axis=1).min() > 2, "not normalised, or this test would not see it"
    texts = judge.embed_texts(TEXTS)
    assert dict(texts.schema) == schema("text_embeddings")
    assert texts["text"].to_list() == TEXTS
    np.testing.assert_allclose(vectors(texts), texts_by_hand.numpy(), atol=CLIP_ATOL)


def test_siglip_texts_are_lower_case_filled_up_and_not_masked(siglip_folder: Path) -> None:
    judge = ClipJudge(str(siglip_folder))
    model = SiglipModel.from_pretrained(siglip_folder).eval()
    processor = SiglipImageProcessorPil.from_pretrained(siglip_folder)
    tokenizer = AutoTokenizer.from_pretrained(siglip_folder)
    with torch.inference_mode():
        filled = tokenizer(TEXTS, padding="max_length", max_length=16, truncation=True, return_tensors="pt")
        by_hand = model.get_text_features(**filled).pooler_output.numpy()
        short = model.get_text_features(**tokenizer(TEXTS[:1], return_tensors="pt")).pooler_output.numpy()
        pixels = [processor(images=Image.fromarray(p.pixels), return_tensors="pt")["pixel_values"] for p in IMAGES]
        images_by_hand = model.get_image_features(pixel_values=torch.cat(pixels)).pooler_output.numpy()
    with pytest.warns(UserWarning, match="cut to the 16 tokens"):
        result = vectors(judge.embed_texts(TEXTS))
    np.testing.assert_allclose(result, by_hand, atol=SIGLIP_ATOL)
    assert np.abs(result[0] - short[0]).max() > 0.01, "without filling the vector is another"
    np.testing.assert_allclose(vectors(judge.embed_texts(["A Dog"]))[0], result[0], atol=SIGLIP_ATOL)
    np.testing.assert_allclose(vectors(judge.observe(IMAGES, NEED)), images_by_hand, atol=SIGLIP_ATOL)


def test_a_mask_the_tokenizer_of_a_siglip_gives_is_not_used(siglip_folder: Path, tmp_path: Path) -> None:
    folder = tiny_siglip(tmp_path)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["model_input_names"] = ["input_ids", "attention_mask"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert "attention_mask" in AutoTokenizer.from_pretrained(folder)(["a"])
    expected = vectors(ClipJudge(str(siglip_folder)).embed_texts(["a dog"]))
    np.testing.assert_allclose(vectors(ClipJudge(str(folder)).embed_texts(["a dog"])), expected, atol=SIGLIP_ATOL)


def test_siglip2_with_images_in_patches(tmp_path: Path) -> None:
    # NaFlex: the image keeps its aspect, and the network is told where its patches lie.
    tiny_siglip(tmp_path)
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(1)
    text = {**layers, "vocab_size": 42, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 1}
    vision = {**layers, "patch_size": 8, "num_patches": 16}
    model = Siglip2Model(Siglip2Config(text_config=text, vision_config=vision)).eval()
    model.save_pretrained(tmp_path)
    processor = Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16)
    processor.save_pretrained(tmp_path)
    judge = ClipJudge(str(tmp_path), hub=HubOptions(batch_size=2))
    with torch.inference_mode():
        batches = [processor(images=[Image.fromarray(p.pixels)], return_tensors="pt") for p in IMAGES[:2]]
        by_hand = np.concatenate([model.get_image_features(**b).pooler_output.numpy() for b in batches])
    np.testing.assert_allclose(vectors(judge.observe(IMAGES[:2], NEED)), by_hand, atol=SIGLIP_ATOL)
    with pytest.raises(UsageError, match="takes images of one size"):
        ClipJudge(str(tmp_path), preprocessing="squash")


def test_chinese_clip_reads_its_texts_with_the_types_of_their_tokens(tmp_path: Path) -> None:
    torch.manual_seed(2)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "红", "猫", "狗"]
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = ChineseCLIPConfig(
        text_config={**layers, "vocab_size": len(words), "max_position_embeddings": 8},
        vision_config={**layers, "image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    model = ChineseCLIPModel(config).eval()
    model.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = BertTokenizer(str(tmp_path / "vocab.txt"), model_max_length=8)
    tokenizer.save_pretrained(tmp_path)
    ChineseCLIPImageProcessorPil(size={"height": 32, "width": 32}, do_center_crop=False).save_pretrained(tmp_path)
    judge = ClipJudge(str(tmp_path))
    texts = ["红猫", "狗"]
    with torch.inference_mode():
        by_hand = model.get_text_features(**tokenizer(texts, padding=True, return_tensors="pt")).pooler_output.numpy()
    assert np.abs(by_hand[0] - by_hand[1]).max() > 1e-3
    np.testing.assert_allclose(vectors(judge.embed_texts(texts)), by_hand, atol=SIGLIP_ATOL)
    assert vectors(judge.observe(IMAGES, NEED)).shape == (6, 16)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_batch_size_and_neighbours_do_not_matter(clip_folder: Path, batch_size: int) -> None:
    full = ClipJudge(str(clip_folder), hub=HubOptions(batch_size=32))
    parts = ClipJudge(str(clip_folder), hub=HubOptions(batch_size=batch_size))
    expected = vectors(full.observe(IMAGES, NEED))
    turned = vectors(parts.observe(IMAGES[::-1], NEED))[::-1]
    np.testing.assert_allclose(turned, expected, atol=CLIP_ATOL)
    texts = vectors(parts.embed_texts(TEXTS[::-1]))[::-1]
    np.testing.assert_allclose(texts, vectors(full.embed_texts(TEXTS)), atol=CLIP_ATOL)


def test_lower_precision_is_close_and_in_the_name(clip_folder: Path) -> None:
    full, half = ClipJudge(str(clip_folder)), ClipJudge(str(clip_folder), hub=HubOptions(dtype="bfloat16"))
    a, b = vectors(full.observe(IMAGES, NEED)), vectors(half.observe(IMAGES, NEED))
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert cosine.min() > 0.98
    assert np.abs(a - b).max() > 1e-4
    assert half.name == f"{full.name} dtype=bfloat16"


def test_whole_image_or_its_middle(clip_folder: Path) -> None:
    middle, full = ClipJudge(str(clip_folder)), ClipJudge(str(clip_folder), preprocessing="squash")
    wide = image("wide", 96, 32)
    edges = wide.pixels.copy()
    edges[:, :16] = 0  # far from the middle 32 columns
    other = LoadedImage(image_id="edges", prompt_id="p", pixels=edges)
    a, b = vectors(middle.observe([wide, other], NEED))
    np.testing.assert_allclose(a, b, atol=CLIP_ATOL)
    a, b = vectors(full.observe([wide, other], NEED))
    assert np.abs(a - b).max() > 0.01
    squashed = np.asarray(Image.fromarray(wide.pixels).resize((32, 32), Image.Resampling.BICUBIC))
    by_hand = middle.observe([LoadedImage(image_id="s", prompt_id="p", pixels=squashed)], NEED)
    np.testing.assert_allclose(a, vectors(by_hand)[0], atol=CLIP_ATOL)
    # A square image shows the same either way.
    np.testing.assert_allclose(
        vectors(middle.observe(IMAGES[:1], NEED)), vectors(full.observe(IMAGES[:1], NEED)), atol=CLIP_ATOL
    )


# --------------------------------------------------------------------------------------------------------------------
# Nothing is computed twice
# --------------------------------------------------------------------------------------------------------------------
def test_equal_images_and_texts_are_computed_once(clip_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = ClipJudge(str(clip_folder), hub=HubOptions(batch_size=2))
    seen = count_rows(judge, monkeypatch)
    twin = LoadedImage(image_id="twin", prompt_id="q", pixels=IMAGES[0].pixels.copy())
    table = judge.observe([IMAGES[0], IMAGES[1], twin], NEED)
    assert table["image_id"].to_list() == ["0", "1", "twin"]
    result = vectors(table)
    assert np.array_equal(result[0], result[2])
    assert seen["image"] == 2
    judge.observe([twin, IMAGES[2]], NEED)
    assert seen["image"] == 3
    assert judge.embed_texts(["a dog", "a cat", "a dog"])["text"].to_list() == ["a dog", "a cat"]
    judge.embed_texts(["a cat"])
    assert seen["text"] == 2


def test_vectors_are_kept_between_runs(clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ClipJudge(str(clip_folder), cache=tmp_path)
    expected, texts = vectors(first.observe(IMAGES, NEED)), vectors(first.embed_texts(TEXTS))
    second = ClipJudge(str(clip_folder), cache=tmp_path)
    seen = count_rows(second, monkeypatch)
    assert np.array_equal(vectors(second.observe(IMAGES, NEED)), expected)
    assert np.array_equal(vectors(second.embed_texts(TEXTS)), texts)
    assert seen == {"image": 0, "text": 0}
    third = ClipJudge(str(clip_folder), cache=tmp_path, preprocessing="squash")
    seen = count_rows(third, monkeypatch)
    third.observe(IMAGES, NEED)
    assert seen["image"] == len(IMAGES), "another preprocessing is another judge"


def test_no_images_and_no_texts(clip_folder: Path) -> None:
    judge = ClipJudge(str(clip_folder))
    assert dict(judge.observe([], NEED).schema) == schema("embeddings")
    assert len(judge.embed_texts([])) == 0


# --------------------------------------------------------------------------------------------------------------------
# Names, long texts, errors
# --------------------------------------------------------------------------------------------------------------------
def test_the_name_holds_what_changes_a_vector(clip_folder: Path, tmp_path: Path) -> None:
    judge = ClipJudge(str(clip_folder))
    assert judge.name == ClipJudge(str(clip_folder), hub=HubOptions(batch_size=1, device="cpu")).name
    assert judge.name.startswith(f"clip:{clip_folder.name}@")
    assert judge.name.endswith(" preprocessing=model")
    others = tiny_clip(tmp_path / clip_folder.name, seed=1)
    assert ClipJudge(str(others)).name != judge.name


def test_settings_in_the_file_of_newer_versions(clip_folder: Path, tmp_path: Path) -> None:
    folder = tiny_clip(tmp_path)
    processor = CLIPProcessor(CLIPImageProcessorPil.from_pretrained(folder), CLIPTokenizer.from_pretrained(folder))
    (folder / "preprocessor_config.json").unlink()
    processor.save_pretrained(folder)
    assert (folder / "processor_config.json").is_file()
    expected = vectors(ClipJudge(str(clip_folder)).observe(IMAGES, NEED))
    np.testing.assert_allclose(vectors(ClipJudge(str(folder)).observe(IMAGES, NEED)), expected, atol=CLIP_ATOL)


def test_texts_that_are_too_long_are_cut_and_told(clip_folder: Path) -> None:
    judge = ClipJudge(str(clip_folder))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge.embed_texts(["a" * 75])  # and the opening and the closing token: exactly 77
    assert judge.summary() == []
    long = ["a" * 76, "b" * 100]
    with pytest.warns(UserWarning, match=r"^2 text\(s\) were cut to the 77 tokens"):
        result = vectors(judge.embed_texts([*long, "a dog"]))
    assert np.isfinite(result).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge.embed_texts(long)  # told once
    assert [line[:8] for line in judge.summary()] == ["2 text(s"]
    # What follows the cut does not matter.
    with pytest.warns(UserWarning, match=r"^1 text"):
        np.testing.assert_allclose(vectors(judge.embed_texts(["b" * 120]))[0], result[1], atol=CLIP_ATOL)


def test_presets_are_the_models_of_the_papers() -> None:
    assert PRESETS["ViT-B/32"] == "openai/clip-vit-base-patch32"
    assert PRESETS["ViT-L/14"] == "openai/clip-vit-large-patch14"
    assert PRESETS["ViT-L/14-DataComp.XL"] == "laion/CLIP-ViT-L-14-DataComp.XL-s13B-b90K"


def test_a_preset_is_loaded_from_its_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, object]] = []

    def load(source: str, hub: dict[str, object]) -> None:
        asked.append((source, hub["revision"]))
        raise UsageError("seen")

    monkeypatch.setattr("verism.judges.embedding.clip.load_config", load)
    monkeypatch.setattr("verism.services.hub.hub_is_reachable", lambda: True)
    with pytest.raises(UsageError, match="seen"):
        ClipJudge("ViT-B/32", hub=HubOptions(revision="abc"))
    assert asked == [("openai/clip-vit-base-patch32", "abc")]


def test_what_cannot_be_loaded_is_said(clip_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="preprocessing must be one of model, squash, not 'crop'"):
        ClipJudge(str(clip_folder), preprocessing="crop")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expected a repository of the Hugging Face hub, or a folder"):
        ClipJudge(str(tmp_path / "none"), hub=HubOptions(local_files_only=True))
    with pytest.raises(UsageError, match="type 'dinov2', which does not give vectors of both"):
        ClipJudge(str(tiny_dinov2(tmp_path / "dino")))
    bare = tiny_clip(tmp_path / "bare")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (bare / file).unlink()
    with pytest.raises(UsageError, match=r"cannot load the tokenizer of .*it knows no words"):
        ClipJudge(str(bare))


def test_a_tokenizer_that_needs_sentencepiece_is_said(tmp_path: Path) -> None:
    folder = tiny_siglip(tmp_path)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "SiglipTokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UsageError, match=r"pip install sentencepiece|cannot load the tokenizer"):
        ClipJudge(str(folder))


def test_vectors_that_are_not_finite_stop_the_run(clip_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = ClipJudge(str(clip_folder))

    def broken(pixel_values: torch.Tensor) -> torch.Tensor:
        return torch.full((len(pixel_values), 16), torch.inf)

    monkeypatch.setattr(judge._model, "get_image_features", broken)
    with pytest.raises(VerismError, match=r"6 vector\(s\) hold infinite numbers or NaN, such as that of '0'.*bfloat16"):
        judge.observe(IMAGES, NEED)


def test_a_model_with_a_vector_per_token_is_refused(clip_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = ClipJudge(str(clip_folder))

    def tokens(pixel_values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(pixel_values), 3, 16)

    monkeypatch.setattr(judge._model, "get_image_features", tokens)
    with pytest.raises(UsageError, match="several vectors per image"):
        judge.observe(IMAGES, NEED)


def test_memory_that_runs_out_halves_the_batch(clip_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = vectors(ClipJudge(str(clip_folder)).observe(IMAGES, NEED))
    judge = ClipJudge(str(clip_folder), hub=HubOptions(batch_size=4))
    features = judge._model.get_image_features
    sizes: list[int] = []

    def small(pixel_values: torch.Tensor) -> Sequence[torch.Tensor]:
        sizes.append(len(pixel_values))
        if len(pixel_values) > 2:
            raise torch.OutOfMemoryError("too large")
        return features(pixel_values=pixel_values)

    monkeypatch.setattr(judge._model, "get_image_features", small)
    np.testing.assert_allclose(vectors(judge.observe(IMAGES, NEED)), expected, atol=CLIP_ATOL)
    assert sizes == [4, 2, 2, 2]
