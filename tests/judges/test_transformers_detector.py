"""Closed-set detectors of the hub, on tiny checkpoints with random weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from verism.errors import UsageError  # noqa: E402
from verism.judges.batching import released_input  # noqa: E402
from verism.judges.detection.transformers_detector import TransformersDetector, class_probabilities, mask_boxes  # noqa: E402
from verism.judges.hub import HubOptions, SimpleProcessor  # noqa: E402
from verism.options import build  # noqa: E402
from verism.records import DetectionNeed, LoadedImage, schema  # noqa: E402

LABELS = {0: "Person", 1: "dog", 2: "zebra", 3: "traffic_light"}
NAMES = {"id2label": LABELS, "label2id": {label: i for i, label in LABELS.items()}}
NEED = DetectionNeed(classes=("traffic light", "dog"))
SMALL = {"shortest_edge": 48, "longest_edge": 96}


def enliven(model: Any, seed: int = 0) -> Any:
    """Give a model weights so large that its queries and images differ: fresh ones hardly do."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and parameter.numel():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7 / parameter[0].numel() ** 0.5)
    return model.eval()


def resnet() -> Any:
    return transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]
    )


def detr(**options: Any) -> Any:
    sizes: dict[str, Any] = {
        "num_queries": 7, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    }  # fmt: skip
    config = transformers.DetrConfig(
        use_timm_backbone=False, backbone=None, backbone_config=resnet(), **{**sizes, **NAMES, **options}
    )
    return transformers.DetrForObjectDetection(config), transformers.DetrImageProcessorPil(size=SMALL)


def conditional_detr() -> Any:
    config = transformers.ConditionalDetrConfig(
        use_timm_backbone=False, backbone=None, backbone_config=resnet(), num_queries=5, d_model=16, encoder_layers=1,
        decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2,
        **NAMES,
    )  # fmt: skip
    return transformers.ConditionalDetrForObjectDetection(config), transformers.ConditionalDetrImageProcessorPil(
        size=SMALL
    )


def yolos() -> Any:
    config = transformers.YolosConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=[48, 96],
        patch_size=16, num_detection_tokens=5, **NAMES,
    )  # fmt: skip
    return transformers.YolosForObjectDetection(config), transformers.YolosImageProcessorPil(size=SMALL)


def rt_detr() -> Any:
    trunk = transformers.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = transformers.RTDetrConfig(
        backbone_config=trunk, encoder_hidden_dim=16, encoder_in_channels=[16, 16, 16], encoder_ffn_dim=16,
        encoder_layers=1, encoder_attention_heads=2, d_model=16, num_queries=6, decoder_in_channels=[16, 16, 16],
        decoder_ffn_dim=16, decoder_layers=2, decoder_attention_heads=2, decoder_n_points=2, num_denoising=0, **NAMES,
    )  # fmt: skip
    return transformers.RTDetrForObjectDetection(config), transformers.RTDetrImageProcessorPil(
        size={"height": 64, "width": 64}
    )


def mask2former() -> Any:
    trunk = transformers.SwinConfig(
        embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1], window_size=4, image_size=64,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = transformers.Mask2FormerConfig(
        backbone_config=trunk, feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=16,
        encoder_layers=1, num_attention_heads=2, dim_feedforward=16, decoder_layers=2, num_queries=6, **NAMES,
    )  # fmt: skip
    return (
        transformers.Mask2FormerForUniversalSegmentation(config),
        transformers.Mask2FormerImageProcessorPil(size={"shortest_edge": 48, "longest_edge": 90}),
    )


FAMILIES: dict[str, tuple[Callable[[], Any], int]] = {
    "detr": (detr, 7),
    "conditional_detr": (conditional_detr, 5),
    "yolos": (yolos, 5),
    "rt_detr": (rt_detr, 6),
}


def save(folder: Path, made: tuple[Any, Any]) -> str:
    model, processor = made
    enliven(model).save_pretrained(folder)
    if processor is not None:
        processor.save_pretrained(folder)
    return str(folder)


def image(name: str, height: int, width: int, seed: int = 0) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    pixels[: height // 2, : width // 2] = (200, 30, 30)
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


IMAGES = [image("a", 40, 80, 1), image("b", 60, 30, 2), image("c", 40, 80, 3)]


@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_the_models_own_post_processing(family: str, tmp_path: Path):
    make, n_queries = FAMILIES[family]
    model, processor = make()
    path = save(tmp_path / family, (model, processor))
    table = TransformersDetector(path, hub=HubOptions(device="cpu", local_files_only=True)).observe(IMAGES, NEED)
    assert dict(table.schema) == schema("detections")
    assert table.filter(pl.col("query") == -1)["image_id"].to_list() == ["a", "b", "c"]
    assert len(table) == 3 * (1 + n_queries)
    for image in IMAGES:
        height, width = image.pixels.shape[:2]
        with torch.no_grad():
            output = model(**processor(images=[image.pixels], input_data_format="channels_last", return_tensors="pt"))
        expected = processor.post_process_object_detection(output, threshold=0.0, target_sizes=[(height, width)])[0]
        result = table.filter(pl.col("image_id") == image.image_id, pl.col("query") >= 0)
        # Sigmoid models hand out (query, class) pairs by score: the best of each class is what both must agree upon.
        for k, name in enumerate(LABELS.values()):
            if (of_class := expected["scores"][expected["labels"] == k]).numel() and name in ("dog", "traffic_light"):
                column = NEED.classes.index(name.replace("_", " "))
                ours = result["class_scores"].list.get(column).max()
                assert ours >= float(of_class.max()) - 1e-5
        top = int(expected["scores"].argmax())
        best = result.sort("score", descending=True).row(0, named=True)
        assert best["score"] == pytest.approx(float(expected["scores"][top]), abs=1e-5)
        assert best["raw_label"] == LABELS[int(expected["labels"][top])]
        box = expected["boxes"][top].numpy()
        np.testing.assert_allclose([best[edge] for edge in ("x0", "y0", "x1", "y1")], box, atol=1e-3)


@pytest.mark.parametrize("family", [*FAMILIES, "mask2former"])
def test_an_image_does_not_depend_on_its_batch(family: str, tmp_path: Path):
    make = mask2former if family == "mask2former" else FAMILIES[family][0]
    path = save(tmp_path / family, make())
    detector = TransformersDetector(path, hub=HubOptions(device="cpu", local_files_only=True))
    together = detector.observe(IMAGES, NEED)
    alone = pl.concat([detector.observe([image], NEED) for image in IMAGES])
    assert together.select("image_id", "query", "label").equals(alone.select("image_id", "query", "label"))
    for column in ("score", "x0", "y0", "x1", "y1"):
        np.testing.assert_allclose(
            together[column].drop_nulls().to_numpy(), alone[column].drop_nulls().to_numpy(), atol=1e-4, rtol=1e-5
        )
    # Seen to be able to fail: different images do differ.
    first = [t.filter(pl.col("query") >= 0)["score"].to_list() for _, t in together.group_by("image_id")]
    assert first[0] != first[1]


def test_softmax_drops_no_object_without_renormalising():
    # Odds 1 : 3 : 4 among two classes and no object.
    logits = torch.tensor([[1.0, 3.0, 4.0]]).log()
    np.testing.assert_allclose(class_probabilities(logits, n_labels=2), [[0.125, 0.375]], atol=1e-6)


def test_as_many_columns_as_classes_are_sigmoids():
    logits = torch.tensor([[0.0, 3.0]])
    np.testing.assert_allclose(class_probabilities(logits, n_labels=2), [[0.5, 1 / (1 + np.exp(-3))]], atol=1e-6)
    # Without the focal loss, transformers takes a softmax and drops its last class.
    odds = torch.tensor([[1.0, 3.0]]).log()
    np.testing.assert_allclose(class_probabilities(odds, n_labels=2, focal=False), [[0.25, 0.0]], atol=1e-6)
    with pytest.raises(UsageError, match="head has 2 columns and its configuration 5 class names"):
        class_probabilities(logits, n_labels=5)


def test_detr_scores_keep_the_share_of_no_object(tmp_path: Path):
    path = save(tmp_path / "detr", detr())
    everything = DetectionNeed(classes=("person", "dog", "traffic light"))
    table = TransformersDetector(path, hub=HubOptions(device="cpu", local_files_only=True)).observe(
        IMAGES[:1], everything
    )
    sums = table["class_scores"].list.sum().drop_nulls().to_numpy()
    assert np.all(sums < 0.999)
    foreign = table.filter(pl.col("raw_label") == "zebra")
    assert foreign["label"].null_count() == len(foreign)
    known = table.filter(pl.col("label") == "dog")
    assert known["score"].to_list() == known["class_scores"].list.get(1).to_list()


def test_released_preprocessing_is_800_square(tmp_path: Path):
    model, processor = detr()
    path = save(tmp_path / "detr", (model, processor))
    detector = TransformersDetector(path, preprocessing="released", hub=HubOptions(device="cpu", local_files_only=True))
    table = detector.observe(IMAGES[:1], NEED)
    with torch.no_grad():
        output = model(pixel_values=torch.from_numpy(released_input(IMAGES[0].pixels))[None])
    expected = output.logits.softmax(-1)[0, :, 1].numpy()
    np.testing.assert_allclose(table["class_scores"].list.get(1).drop_nulls().to_numpy(), expected, atol=1e-5)
    box = output.pred_boxes[0, 0].numpy()  # centre and size in shares of the 80 x 40 image
    assert table["x0"][1] == pytest.approx(max(0.0, (box[0] - box[2] / 2) * 80), abs=1e-3)
    assert table["y1"][1] == pytest.approx(min(40.0, (box[1] + box[3] / 2) * 40), abs=1e-3)
    assert "preprocessing=released" in detector.name


def test_names_tell_weights_and_settings_apart(tmp_path: Path):
    path = save(tmp_path / "mydetr", detr())
    options: list[dict[str, Any]] = [
        {}, {"preprocessing": "released"}, {"dtype": "bfloat16"}, {"min_score": 0.1}, {"alias.zebra": "dog"},
    ]  # fmt: skip
    names = [build(TransformersDetector, path, {"device": "cpu", **o}).name for o in options]
    assert len(set(names)) == len(options)
    assert names[0].startswith("transformers:mydetr@")
    assert str(tmp_path) not in names[0]
    again = save(tmp_path / "elsewhere" / "mydetr", detr(num_queries=8))
    assert TransformersDetector(again, hub=HubOptions(device="cpu", local_files_only=True)).name != names[0]


def test_unmapped_classes_and_aliases(tmp_path: Path):
    path = save(tmp_path / "detr", detr())
    need = DetectionNeed(classes=("umbrella",))
    with pytest.raises(UsageError, match=r"no class for 1 of the suite's classes: 'umbrella'.*aliases="):
        TransformersDetector(path, hub=HubOptions(device="cpu", local_files_only=True)).observe(IMAGES, need)
    detector = TransformersDetector(
        path, aliases={"zebra": "umbrella"}, hub=HubOptions(device="cpu", local_files_only=True)
    )
    table = detector.observe(IMAGES[:1], need)
    assert set(table["label"].drop_nulls()) <= {"umbrella"}


def test_low_scores_can_be_left_out(tmp_path: Path):
    path = save(tmp_path / "detr", detr())
    full = TransformersDetector(path, hub=HubOptions(device="cpu", local_files_only=True)).observe(IMAGES, NEED)
    middle = float(full["score"].median())  # type: ignore[arg-type]
    some = TransformersDetector(path, min_score=middle, hub=HubOptions(device="cpu", local_files_only=True)).observe(
        IMAGES, NEED
    )
    kept = full.filter((pl.col("score") >= middle) | (pl.col("query") == -1))
    assert some.drop("judge").equals(kept.drop("judge"))
    assert len(some) < len(full)
    none = TransformersDetector(path, min_score=1.0, hub=HubOptions(device="cpu", local_files_only=True)).observe(
        IMAGES, NEED
    )
    assert none["query"].to_list() == [-1, -1, -1]


def test_half_precision_is_near_single(tmp_path: Path):
    path = save(tmp_path / "detr", detr())
    single, half = (
        TransformersDetector(path, hub=HubOptions(device="cpu", dtype=dtype, local_files_only=True)).observe(
            IMAGES, NEED
        )
        for dtype in ("float32", "bfloat16")
    )
    np.testing.assert_allclose(
        half["class_scores"].drop_nulls().to_list(), single["class_scores"].drop_nulls().to_list(), atol=0.05
    )


def test_out_of_memory_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    detector = TransformersDetector(
        save(tmp_path / "detr", detr()), hub=HubOptions(device="cpu", local_files_only=True)
    )
    images = [image(f"p{i}", 40, 80, i) for i in range(5)]
    expected = detector.observe(images, NEED)
    forward = detector._model.forward

    def small_memory(*args: Any, **inputs: Any) -> Any:
        if len(inputs["pixel_values"]) > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return forward(*args, **inputs)

    monkeypatch.setattr(detector._model, "forward", small_memory)
    result = detector.observe(images, NEED)
    assert result.select("image_id", "query").equals(expected.select("image_id", "query"))
    np.testing.assert_allclose(
        result["score"].drop_nulls().to_numpy(), expected["score"].drop_nulls().to_numpy(), atol=1e-5
    )


# --------------------------------------------------------------------------------------------------------------------
# Masks
# --------------------------------------------------------------------------------------------------------------------
def test_boxes_around_masks():
    # Network input 8 x 16, of which the upper left 8 x 12 is the image, 24 wide and 16 high: scale 2 both ways.
    logits = torch.full((3, 8, 16), -1.0)
    logits[0, 2:5, 3:7] = 1.0  # rows 2..4, columns 3..6 -> y 4..10, x 6..14
    logits[2, 0, 0] = 1.0
    logits[2, 7, 15] = 1.0  # in the padding: not part of the image
    boxes, queries = mask_boxes(logits, padded=(8, 16), valid=(8, 12), width=24, height=16)
    assert queries.tolist() == [0, 2]  # an empty mask has no box
    assert boxes.tolist() == [[6, 4, 14, 10], [0, 0, 2, 2]]


def test_masks_are_enlarged_before_they_are_cut():
    logits = torch.full((40, 2, 2), -1.0)
    logits[33, 0, 0] = 3.0
    boxes, queries = mask_boxes(logits, padded=(8, 8), valid=(8, 8), width=8, height=8)
    # Bilinear from 3 at pixel 1.5 to -1 at 5.5 along an edge: 0 is crossed at 4.5, so pixels 0..4 exceed it.
    assert queries.tolist() == [33]
    assert boxes.tolist() == [[0, 0, 5, 5]]


def test_mask_model(tmp_path: Path):
    model, processor = mask2former()
    path = save(tmp_path / "m2f", (model, processor))
    table = TransformersDetector(path, hub=HubOptions(device="cpu", local_files_only=True)).observe(IMAGES, NEED)
    assert table.filter(pl.col("query") == -1)["image_id"].to_list() == ["a", "b", "c"]
    image = IMAGES[1]  # 30 wide, 60 high
    with torch.no_grad():
        inputs = processor(images=[image.pixels], input_data_format="channels_last", return_tensors="pt")
        output = model(**inputs)
    result = table.filter(pl.col("image_id") == "b", pl.col("query") >= 0)
    assert len(result) > 0
    expected = output.class_queries_logits.softmax(-1)[0, :, 1].numpy()[result["query"].to_numpy()]
    np.testing.assert_allclose(result["class_scores"].list.get(1).to_numpy(), expected, atol=1e-5)
    assert result["x1"].max() <= 30
    assert result["y1"].max() <= 60
    assert (result["x1"] > result["x0"]).all()


def test_queries_with_an_empty_mask_have_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    detector = TransformersDetector(
        save(tmp_path / "m2f", mask2former()), hub=HubOptions(device="cpu", local_files_only=True)
    )
    full = detector.observe(IMAGES, NEED)
    forward = detector._model.forward

    def without_the_first(*args: Any, **inputs: Any) -> Any:
        output = forward(*args, **inputs)
        output.masks_queries_logits[:, :2] = -1
        return output

    monkeypatch.setattr(detector._model, "forward", without_the_first)
    some = detector.observe(IMAGES, NEED)
    assert len(some) < len(full)
    assert some.equals(full.filter((pl.col("query") < 0) | (pl.col("query") > 1)))


# --------------------------------------------------------------------------------------------------------------------
# Preprocessing without a Pillow edition
# --------------------------------------------------------------------------------------------------------------------
RF_SETTINGS = {
    "image_processor_type": "RfDetrImageProcessor", "size": {"height": 6, "width": 6}, "do_resize": True,
    "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.25, 0.5, 1.0], "do_pad": False, "resample": 2,
}  # fmt: skip


def test_a_checkpoint_whose_processor_needs_torchvision_is_resized_by_us(tmp_path: Path):
    path = save(tmp_path / "rf", detr())
    settings = {**RF_SETTINGS, "size": {"height": 48, "width": 64}}
    (tmp_path / "rf" / "preprocessor_config.json").write_text(json.dumps(settings))
    detector = TransformersDetector(path, hub=HubOptions(device="cpu", local_files_only=True))
    assert isinstance(detector._prepare_pixels._processor, SimpleProcessor)
    assert detector._prepare_pixels(IMAGES[0].pixels)["pixel_values"].shape == (3, 48, 64)
    assert len(detector.observe(IMAGES, NEED)) == 3 * 8


def test_our_processor_against_arithmetic():
    pixels = np.zeros((3, 12, 3), dtype=np.uint8)
    pixels[:, 6:] = 255
    values = SimpleProcessor(RF_SETTINGS, source="m")(images=[pixels])["pixel_values"]
    assert values.shape == (1, 3, 6, 6)
    # To [0, 1], (0 - 0.5) / 0.25 = -2 left and (1 - 0.5) / 0.25 = 2 right; every second pixel lies halfway between
    # two source pixels of one value, so nothing is blurred.
    np.testing.assert_allclose(values[0, 0, 2], [-2, -2, -2, 2, 2, 2], atol=1e-6)
    np.testing.assert_allclose(values[0, 2, 2], [-0.5, -0.5, -0.5, 0.5, 0.5, 0.5], atol=1e-6)


def test_our_processor_against_the_pillow_edition():
    ours = {**RF_SETTINGS, "image_processor_type": "SomeImageProcessor", "size": SMALL}
    theirs = transformers.DetrImageProcessorPil(
        size=SMALL, image_mean=ours["image_mean"], image_std=ours["image_std"], do_pad=False
    )
    for image in IMAGES:
        expected = theirs(images=[image.pixels], input_data_format="channels_last", return_tensors="pt")["pixel_values"]
        result = SimpleProcessor(ours, source="m")(images=[image.pixels])["pixel_values"]
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("change", [{"do_center_crop": True}, {"size": {"max_height": 5}}, {"size": None}])
def test_settings_beyond_ours_are_refused(change: dict[str, Any]):
    with pytest.raises(UsageError, match=r"exists for torchvision only.*Choose preprocessing='released'"):
        SimpleProcessor({**RF_SETTINGS, **change}, source="m")


# --------------------------------------------------------------------------------------------------------------------
# What cannot be loaded
# --------------------------------------------------------------------------------------------------------------------
def test_no_such_model(tmp_path: Path):
    with pytest.raises(UsageError, match=r"cannot load .*nowhere.*config.json"):
        TransformersDetector(str(tmp_path / "nowhere"), hub=HubOptions(local_files_only=True))


def test_a_model_without_preprocessing(tmp_path: Path):
    path = save(tmp_path / "bare", (detr()[0], None))
    with pytest.raises(UsageError, match=r"no preprocessor_config\.json"):
        TransformersDetector(path, hub=HubOptions(device="cpu", local_files_only=True))
    TransformersDetector(path, preprocessing="released", hub=HubOptions(device="cpu", local_files_only=True))


def test_incomplete_weights_are_refused(tmp_path: Path):
    from safetensors.torch import load_file, save_file

    path = save(tmp_path / "detr", detr())
    weights = load_file(tmp_path / "detr" / "model.safetensors")
    del weights["class_labels_classifier.weight"]
    save_file(weights, tmp_path / "detr" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match=r"incomplete: 1 missing \(class_labels_classifier.weight\)"):
        TransformersDetector(path, hub=HubOptions(device="cpu", local_files_only=True))


def test_a_timm_backbone_is_explained(tmp_path: Path):
    folder = tmp_path / "timm"
    save(folder, detr())
    config = json.loads((folder / "config.json").read_text())
    config["backbone_config"] = {"model_type": "timm_backbone", "backbone": "resnet50", "out_indices": [1, 2, 3, 4]}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="revision='no_timm'"):
        TransformersDetector(str(folder), hub=HubOptions(device="cpu", local_files_only=True))


def test_models_of_another_kind(tmp_path: Path):
    transformers.ResNetConfig().save_pretrained(tmp_path / "resnet")
    with pytest.raises(UsageError, match="type 'resnet', which is no object detector"):
        TransformersDetector(str(tmp_path / "resnet"), hub=HubOptions(local_files_only=True))
    transformers.Owlv2Config().save_pretrained(tmp_path / "owl")
    with pytest.raises(UsageError, match="use open-vocabulary:"):
        TransformersDetector(str(tmp_path / "owl"), hub=HubOptions(local_files_only=True))
    with pytest.raises(UsageError, match="preprocessing must be one of model, released, not 'own'"):
        TransformersDetector(str(tmp_path / "resnet"), preprocessing="own")  # type: ignore[arg-type]
