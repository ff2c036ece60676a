"""Detectors that find classes by their names, on tiny checkpoints with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from verism.errors import UsageError  # noqa: E402
from verism.judges.detection.open_vocabulary import OpenVocabularyDetector, sentences  # noqa: E402
from verism.judges.hub import HubOptions  # noqa: E402
from verism.records import DetectionNeed, LoadedImage, schema  # noqa: E402

NEED = DetectionNeed(classes=("dog", "fireHydrant", "traffic light"))
WORDS = ("dog", "fire", "hydrant", "traffic", "light", "cat", "a", "photo", "of", "##s", "red")


def enliven(model: Any, seed: int = 0) -> Any:
    """Give a model weights so large that its queries and images differ: fresh ones hardly do."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and parameter.numel():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7 / parameter[0].numel() ** 0.5)
    return model.eval()


def clip_tokenizer(folder: Path) -> Any:
    """Letters, alone and at the end of a word; no pairs are merged."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({token: i + 1 for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return transformers.CLIPTokenizer(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))


def owl(folder: Path, *, version: int = 2, length: int = 32) -> tuple[str, Any, Any]:
    """A tiny OWL model with a grid of 4 x 4 queries; path, model, processor."""
    kind = "Owlv2" if version == 2 else "OwlViT"
    text = {
        "vocab_size": 60, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": length, "bos_token_id": 53, "eos_token_id": 54, "pad_token_id": 54,
    }  # fmt: skip
    vision = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32,
        "patch_size": 8,
    }  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=vision, projection_dim=16)
    model = enliven(getattr(transformers, f"{kind}ForObjectDetection")(config))
    processor = getattr(transformers, f"{kind}ImageProcessorPil")(size={"height": 32, "width": 32})
    clip_tokenizer(folder).save_pretrained(folder)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder), model, processor


def bert_tokenizer(folder: Path) -> Any:
    """Grounding DINO knows BERT's numbers of [CLS], [SEP], the full stop and the question mark by heart."""
    vocab = [f"[unused{i}]" for i in range(1030)]
    vocab[0] = "[PAD]"
    for number, token in ((100, "[UNK]"), (101, "[CLS]"), (102, "[SEP]"), (103, "[MASK]"), (1012, "."), (1029, "?")):
        vocab[number] = token
    vocab += WORDS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocab))
    return transformers.BertTokenizer(vocab=str(folder / "vocab.txt"))


def grounding_dino(folder: Path, *, max_text_len: int = 32) -> tuple[str, Any, Any]:
    text = transformers.BertConfig(
        vocab_size=1030 + len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=64,
    )  # fmt: skip
    trunk = transformers.SwinConfig(
        embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1], window_size=4, image_size=64,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = transformers.GroundingDinoConfig(
        backbone_config=trunk, text_config=text, d_model=32, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=16,
        decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2, num_queries=6, encoder_n_points=2,
        decoder_n_points=2, max_text_len=max_text_len, num_feature_levels=3, fusion_dropout=0.0, fusion_droppath=0.0,
    )  # fmt: skip
    model = enliven(transformers.GroundingDinoForObjectDetection(config))
    processor = transformers.GroundingDinoImageProcessorPil(size={"shortest_edge": 48, "longest_edge": 96})
    bert_tokenizer(folder).save_pretrained(folder)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder), model, processor


def image(name: str, height: int, width: int, seed: int = 0) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    pixels[: height // 2, : width // 2] = (200, 30, 30)
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


IMAGES = [image("a", 40, 80, 1), image("b", 60, 30, 2), image("c", 40, 80, 3)]


def pil(image: LoadedImage) -> Any:
    from PIL import Image

    return Image.fromarray(image.pixels)


def edges(table: pl.DataFrame) -> np.ndarray:
    return table.select("x0", "y0", "x1", "y1").to_numpy()


# --------------------------------------------------------------------------------------------------------------------
# OWL
# --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", [1, 2])
def test_owl_agrees_with_its_own_post_processing(version: int, tmp_path: Path):
    path, model, processor = owl(tmp_path / "owl", version=version)
    judge = OpenVocabularyDetector(path, min_score=0.0, hub=HubOptions(device="cpu", local_files_only=True))
    table = judge.observe(IMAGES, NEED)
    assert dict(table.schema) == schema("detections")
    assert table.filter(pl.col("query") == -1)["image_id"].to_list() == ["a", "b", "c"]
    texts = ["a photo of a dog", "a photo of a fire hydrant", "a photo of a traffic light"]
    tokens = transformers.AutoTokenizer.from_pretrained(path)(
        texts, padding="max_length", max_length=32, return_tensors="pt"
    )
    for image in IMAGES[:2]:
        height, width = image.pixels.shape[:2]
        with torch.no_grad():
            output = model(**tokens, **processor(images=[pil(image)], return_tensors="pt"))
        theirs = processor.post_process_object_detection(output, threshold=-1.0, target_sizes=[(height, width)])[0]
        result = table.filter(pl.col("image_id") == image.image_id, pl.col("query") >= 0)
        queries = result["query"].to_numpy()
        assert len(result) > 3
        np.testing.assert_allclose(edges(result), theirs["boxes"].numpy()[queries], atol=1e-3)
        np.testing.assert_allclose(result["score"].to_numpy(), theirs["scores"].numpy()[queries], atol=1e-5)
        assert result["label"].to_list() == [NEED.classes[int(k)] for k in theirs["labels"].numpy()[queries]]
        np.testing.assert_allclose(
            result["class_scores"].to_list(), output.logits.sigmoid()[0].numpy()[queries], atol=1e-5
        )


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        # A 4 x 4 grid whose boxes are a quarter of the side and whose centres are at k / 4 of it. OWL-ViT stretches the
        # 80 x 40 image: steps of 20 and 10. Query 5 has its centre at (2, 2) / 4 = (40, 20), size 20 x 10.
        pytest.param(1, {5: [30, 15, 50, 25], 12: [10, 35, 30, 45]}, id="stretched"),
        # OWLv2 pads it to 80 x 80: centre (40, 40), size 20 x 20, over the image's lower edge, 40. Query 12, the
        # first of the last row, has its centre at (20, 80): in the padding, so it is no box of this image.
        pytest.param(2, {5: [30, 30, 50, 50], 12: None}, id="padded"),
    ],
)
def test_boxes_of_images_that_are_not_square(version: int, expected: dict[int, Any], tmp_path: Path):
    path, model, _ = owl(tmp_path / "owl", version=version)
    with torch.no_grad():  # leaves the boxes at the model's own grid
        model.box_head.dense2.weight.zero_()
        model.box_head.dense2.bias.zero_()
    model.save_pretrained(path)
    judge = OpenVocabularyDetector(path, min_score=0.0, hub=HubOptions(device="cpu", local_files_only=True))
    table = judge.observe(IMAGES[:1], NEED)
    for query, box in expected.items():
        row = table.filter(pl.col("query") == query)
        if box is None:
            assert row.is_empty()
        else:
            np.testing.assert_allclose(edges(row)[0], box, atol=0.02)


def test_owl_leaves_out_low_scores_and_keeps_the_looked_at_row(tmp_path: Path):
    path, _, _ = owl(tmp_path / "owl")
    full = OpenVocabularyDetector(path, min_score=0.0, hub=HubOptions(device="cpu", local_files_only=True)).observe(
        IMAGES, NEED
    )
    middle = float(full["score"].median())  # type: ignore[arg-type]
    some = OpenVocabularyDetector(path, min_score=middle, hub=HubOptions(device="cpu", local_files_only=True)).observe(
        IMAGES, NEED
    )
    assert some.drop("judge").equals(full.filter((pl.col("query") < 0) | (pl.col("score") >= middle)).drop("judge"))
    none = OpenVocabularyDetector(path, min_score=1.0, hub=HubOptions(device="cpu", local_files_only=True)).observe(
        IMAGES, NEED
    )
    assert none["query"].to_list() == [-1, -1, -1]


def test_wording_changes_scores_and_name(tmp_path: Path):
    path, _, _ = owl(tmp_path / "owl")
    options: list[dict[str, Any]] = [{}, {"template": "{}"}, {"phrases": {"dog": "cat"}}]
    judges = [
        OpenVocabularyDetector(path, min_score=0.0, hub=HubOptions(device="cpu", local_files_only=True), **more)
        for more in options
    ]
    tables = [judge.observe(IMAGES[:1], NEED) for judge in judges]
    scores = [np.array(t["class_scores"].drop_nulls().to_list()) for t in tables]
    assert not np.allclose(scores[0], scores[1])
    assert not np.allclose(scores[0][:, 0], scores[2][:, 0])
    np.testing.assert_allclose(scores[0][:, 1:], scores[2][:, 1:], atol=1e-6)  # each text is judged by itself
    assert len({judge.name for judge in judges}) == 3
    assert "template='a photo of a {}'" in judges[0].name


def test_owl_refuses_texts_it_cannot_read_to_the_end(tmp_path: Path):
    path, _, _ = owl(tmp_path / "owl", length=16)
    judge = OpenVocabularyDetector(path, template="{}", hub=HubOptions(device="cpu", local_files_only=True))
    need = DetectionNeed(classes=("dog", "a very long class name"))
    with pytest.raises(UsageError, match=r"reads 16 tokens; these texts are longer: \['a very long class name'\]"):
        judge.observe(IMAGES[:1], need)


# --------------------------------------------------------------------------------------------------------------------
# Grounding DINO
# --------------------------------------------------------------------------------------------------------------------
def test_sentences_are_what_the_tokenizer_makes_of_the_whole_text(tmp_path: Path):
    tokenizer = bert_tokenizer(tmp_path)
    (full,) = sentences(["dog", "fire hydrant", "cats"], "{}", tokenizer, max_tokens=32)
    assert list(full.ids) == tokenizer("dog. fire hydrant. cats.")["input_ids"]
    # [CLS] dog . fire hydrant . cat ##s . [SEP]
    assert full.spans == {0: range(1, 2), 1: range(3, 5), 2: range(6, 8)}


def test_only_the_name_counts_in_a_template(tmp_path: Path):
    tokenizer = bert_tokenizer(tmp_path)
    (full,) = sentences(["Dog", "Light"], "a red {}", tokenizer, max_tokens=32)
    assert list(full.ids) == tokenizer("a red dog. a red light.")["input_ids"]
    assert full.spans == {0: range(3, 4), 1: range(7, 8)}


def test_long_lists_are_spread_over_sentences(tmp_path: Path):
    tokenizer = bert_tokenizer(tmp_path)
    # With opening and closing: "dog." 4 tokens, "dog. fire hydrant." 7, "dog. fire hydrant. cat." 9.
    result = sentences(["dog", "fire hydrant", "cat"], "{}", tokenizer, max_tokens=8)
    assert [len(s.ids) for s in result] == [7, 4]
    assert [dict(s.spans) for s in result] == [{0: range(1, 2), 1: range(3, 5)}, {2: range(1, 2)}]
    with pytest.raises(UsageError, match="cannot ask for 'fire hydrant': it takes 5 tokens"):
        sentences(["dog", "fire hydrant"], "{}", tokenizer, max_tokens=4)


def test_grounding_dino_scores_a_class_by_its_best_token(tmp_path: Path):
    path, model, processor = grounding_dino(tmp_path / "gd")
    judge = OpenVocabularyDetector(path, min_score=0.0, hub=HubOptions(device="cpu", local_files_only=True))
    table = judge.observe(IMAGES, NEED)
    assert table.filter(pl.col("query") == -1)["image_id"].to_list() == ["a", "b", "c"]
    tokens = transformers.AutoTokenizer.from_pretrained(path)("dog. fire hydrant. traffic light.", return_tensors="pt")
    image = IMAGES[1]
    with torch.no_grad():
        output = model(**tokens, **processor(images=[pil(image)], return_tensors="pt"))
    probabilities = output.logits.sigmoid()[0].numpy()  # [CLS] dog . fire hydrant . traffic light . [SEP]
    expected = np.stack(
        [probabilities[:, 1], probabilities[:, 3:5].max(axis=1), probabilities[:, 6:8].max(axis=1)], axis=1
    )
    result = table.filter(pl.col("image_id") == "b", pl.col("query") >= 0)
    queries = result["query"].to_numpy()
    assert len(queries) >= 3
    np.testing.assert_allclose(result["class_scores"].to_list(), expected[queries], atol=1e-5)
    # Boxes in pixels of the 30 x 60 image.
    x, y, w, h = output.pred_boxes[0].numpy()[queries].T
    np.testing.assert_allclose(result["x0"].to_numpy(), (x - w / 2) * 30, atol=1e-3)
    np.testing.assert_allclose(result["y1"].to_numpy(), (y + h / 2) * 60, atol=1e-3)


def test_grounding_dino_with_several_sentences(tmp_path: Path):
    path, _, _ = grounding_dino(tmp_path / "gd", max_text_len=8)
    judge = OpenVocabularyDetector(path, min_score=0.0, hub=HubOptions(device="cpu", local_files_only=True))
    table = judge.observe(IMAGES[:1], NEED).filter(pl.col("query") >= 0)
    scores = np.array(table["class_scores"].to_list())
    queries = table["query"].to_numpy()
    # "dog. fire hydrant." has 6 queries and the first two classes, "traffic light." 6 more and the third.
    assert queries.max() >= 6
    assert np.all(scores[queries < 6, 2] == 0)
    assert np.all(scores[queries >= 6, :2] == 0)
    alone = judge.observe(IMAGES[:1], DetectionNeed(classes=("traffic light",))).filter(pl.col("query") >= 0)
    np.testing.assert_allclose(
        scores[queries >= 6, 2], np.array(alone["class_scores"].to_list())[:, 0], atol=1e-5
    )  # as if asked for alone


# --------------------------------------------------------------------------------------------------------------------
# Both
# --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [owl, grounding_dino])
def test_an_image_does_not_depend_on_its_batch(make: Any, tmp_path: Path):
    path, _, _ = make(tmp_path / "m")
    judge = OpenVocabularyDetector(path, min_score=0.0, hub=HubOptions(device="cpu", local_files_only=True))
    together = judge.observe(IMAGES, NEED)
    alone = pl.concat([judge.observe([image], NEED) for image in IMAGES])
    assert together.select("image_id", "query", "label").equals(alone.select("image_id", "query", "label"))
    np.testing.assert_allclose(edges(together.drop_nulls("x0")), edges(alone.drop_nulls("x0")), atol=1e-3)
    np.testing.assert_allclose(
        together["score"].drop_nulls().to_numpy(), alone["score"].drop_nulls().to_numpy(), atol=1e-5
    )


@pytest.mark.parametrize("make", [owl, grounding_dino])
def test_half_precision_works(make: Any, tmp_path: Path):
    path, _, _ = make(tmp_path / "m")
    judge = OpenVocabularyDetector(
        path, min_score=0.0, hub=HubOptions(device="cpu", dtype="bfloat16", local_files_only=True)
    )
    table = judge.observe(IMAGES, NEED)
    assert table.filter(pl.col("query") >= 0).height > 3
    assert judge.name.endswith("dtype=bfloat16 min_score=0.0")


def test_what_cannot_be_asked(tmp_path: Path):
    path, _, _ = owl(tmp_path / "owl")
    judge = OpenVocabularyDetector(path, phrases={"cat": "dog"}, hub=HubOptions(device="cpu", local_files_only=True))
    with pytest.raises(UsageError, match=r"same words: \['dog'\]"):
        judge.observe(IMAGES, DetectionNeed(classes=("dog", "cat")))
    with pytest.raises(UsageError, match="at least one class"):
        judge.observe(IMAGES, DetectionNeed(classes=()))
    with pytest.raises(UsageError, match=r"template must contain \{\} once"):
        OpenVocabularyDetector(path, template="a photo", hub=HubOptions(device="cpu", local_files_only=True))
    transformers.YolosConfig().save_pretrained(tmp_path / "yolos")
    with pytest.raises(UsageError, match="type 'yolos'; open-vocabulary detection works with owlv2"):
        OpenVocabularyDetector(str(tmp_path / "yolos"), hub=HubOptions(local_files_only=True))
