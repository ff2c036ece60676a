"""Segmenters of the hub on tiny checkpoints, their post-processing by hand, and how objects are shown to CLIP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from test_transformers_detector import mask2former, save, yolos  # noqa: E402
from tiny_models import tiny_clip  # noqa: E402

from verism.errors import UsageError, VerismError  # noqa: E402
from verism.judges.embedding.clip import ClipJudge  # noqa: E402
from verism.judges.hub import HubOptions  # noqa: E402
from verism.judges.regions import GREY, chosen_regions, region_view  # noqa: E402
from verism.judges.segmentation import transformers_segmenter  # noqa: E402
from verism.judges.segmentation.box_segmenter import BoxSegmenter  # noqa: E402
from verism.judges.segmentation.transformers_segmenter import (  # noqa: E402
    TransformersSegmenter,
    best_pairs,
    full_size_logits,
    mask_quality,
    released_size,
    tight_box,
)
from verism.metrics.masks import mask_of_rle, rle_of_mask  # noqa: E402
from verism.pipeline.regions import RegionJudge, regions_of_rows, with_regions  # noqa: E402
from verism.pipeline.stream import check_rows  # noqa: E402
from verism.records import EmbeddingNeed, LoadedImage, Region, SegmentationNeed, frame, schema  # noqa: E402

NEED = SegmentationNeed(classes=("traffic light", "dog"), colors=("red", "blue"))
HUB = HubOptions(device="cpu", local_files_only=True, batch_size=2)


def image(name: str, height: int, width: int, seed: int = 0) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    pixels[: height // 2, : width // 2] = (200, 30, 30)
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


IMAGES = [image("a", 40, 60), image("b", 60, 30, 1), image("c", 40, 60, 2)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(tmp_path_factory.mktemp("m2f"), mask2former())


@pytest.fixture
def small() -> Iterator[None]:
    """Images enlarged to 333 x 200 pixels at most, which is what most tests need of 1333 x 800."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers_segmenter, "LONG_EDGE_PX", 333)
        patch.setattr(transformers_segmenter, "SHORT_EDGE_PX", 200)
        yield


# ------------------------------------------------------------------------------------------- step by step, by hand
def test_released_size_fits_both_edges():
    assert released_size(1024, 1024) == (800, 800)
    assert released_size(512, 512) == (800, 800)
    assert released_size(512, 1024) == (667, 1333)  # the longer edge decides
    assert released_size(1024, 512) == (1333, 667)


def test_one_query_can_be_two_classes_and_no_object_takes_its_share():
    # Odds of two queries: 1 : 3 : 4 and 6 : 1 : 1 among dog, cat, nothing.
    logits = torch.tensor([[1.0, 3.0, 4.0], [6.0, 1.0, 1.0]]).log()
    pairs = best_pairs(logits, 2, 3)
    assert [(q, c) for _, q, c in pairs] == [(1, 0), (0, 1), (0, 0)] or [(q, c) for _, q, c in pairs][:2] == [
        (1, 0),
        (0, 1),
    ]
    assert [p for p, _, _ in pairs] == pytest.approx([0.75, 0.375, 0.125])
    with pytest.raises(UsageError, match="3 columns and its configuration 5 class names"):
        best_pairs(logits, 5, 3)


def test_quality_is_the_mean_probability_inside_the_mask():
    logits = torch.tensor([[[0.0, 2.0], [-1.0, 1.0]]])  # a logit of 0 is outside
    inside = torch.tensor([2.0, 1.0]).sigmoid()
    assert float(mask_quality(logits)[0]) == pytest.approx(float(inside.mean()), rel=1e-5)
    assert float(mask_quality(torch.full((1, 2, 2), -1.0))[0]) == 0.0


def test_filling_is_cut_off_before_masks_get_the_size_of_the_image():
    logits = torch.full((1, 4, 4), -5.0)
    logits[0, :, 2:] = 5.0  # the right half, which is filling
    large = full_size_logits(logits, (8, 8), (8, 4), (8, 8))
    assert not (large[0, :, :6] > 0).any()
    assert tight_box(np.asarray(full_size_logits(logits, (8, 8), (8, 8), (8, 8))[0] > 0)) == (4, 0, 8, 8)


def test_box_of_an_empty_mask_is_zero():
    assert tight_box(np.zeros((3, 3), dtype=bool)) == (0, 0, 0, 0)
    single = np.zeros((3, 5), dtype=bool)
    single[1, 2] = True
    assert tight_box(single) == (2, 1, 3, 2)  # right and bottom exclusive


# ------------------------------------------------------------------------------------------------------- networks
def test_mask2former_table_is_what_its_outputs_say(checkpoint: str):
    judge = TransformersSegmenter(checkpoint, min_score=0.0, pairs=9, hub=HUB)
    table = judge.observe(IMAGES, NEED)
    assert dict(table.schema) == schema("segments")
    check_rows(table, judge.name, NEED, ["a", "b", "c"])
    assert table.filter(pl.col("segment") == -1)["image_id"].to_list() == ["a", "b", "c"]
    rows = table.filter((pl.col("image_id") == "b") & (pl.col("segment") >= 0))
    assert rows.height == 9
    assert rows["score"].to_list() == sorted(rows["score"].to_list(), reverse=True)

    # Again by hand, from the network's outputs.
    shown = IMAGES[1]
    new = released_size(60, 30)
    assert new == (1333, 667)
    values = torch.from_numpy(shown.pixels.transpose(2, 0, 1).copy()).float()[None]
    values = torch.nn.functional.interpolate(values, size=new, mode="bilinear", align_corners=False).round()
    padded = torch.full((1, 3, 1344, 672), 128.0)
    padded[:, :, : new[0], : new[1]] = values
    mean = torch.tensor([123.675, 116.28, 103.53]).view(1, 3, 1, 1)
    std = torch.tensor([58.395, 57.12, 57.375]).view(1, 3, 1, 1)
    with torch.no_grad():
        output = judge._model(pixel_values=(padded - mean) / std)
    shares = output.class_queries_logits[0].softmax(-1)[:, :-1]
    expected: list[tuple[float, int, str]] = []
    masks: dict[int, np.ndarray] = {}
    for place in shares.flatten().topk(9).indices.tolist():
        query, number = divmod(place, 4)
        large = torch.nn.functional.interpolate(
            output.masks_queries_logits[:, query : query + 1], (1344, 672), mode="bilinear"
        )
        back = torch.nn.functional.interpolate(large[:, :, :1333, :667], (60, 30), mode="bilinear")[0, 0]
        inside = back > 0
        quality = float((back.sigmoid() * inside).sum() / (inside.sum() + 1e-6))
        expected.append((float(shares[query, number]) * quality, query, judge._labels[number]))
        masks[query] = inside.numpy()
    expected.sort(reverse=True)
    # Sums of some hundred terms in float32, resized twice: a mask's pixel can flip where its logit is near 0.
    np.testing.assert_allclose(rows["score"].to_list(), [score for score, _, _ in expected], atol=2e-3)
    assert sorted(rows["query"].to_list()) == sorted(query for _, query, _ in expected)
    row = rows.row(0, named=True)
    for each in rows.iter_rows(named=True):
        differ = mask_of_rle(each["mask"], 60, 30) != masks[each["query"]]
        assert differ.mean() < 0.01
    mask = mask_of_rle(row["mask"], 60, 30)
    assert tight_box(mask) == (row["x0"], row["y0"], row["x1"], row["y1"])
    assert len(row["pixel_colors"]) == 2


@pytest.mark.usefixtures("small")
def test_classes_of_the_need_are_found_by_name_and_others_have_no_label(checkpoint: str):
    table = TransformersSegmenter(checkpoint, min_score=0.0, hub=HUB).observe(IMAGES, NEED)
    named = {(row["raw_label"], row["label"]) for row in table.iter_rows(named=True) if row["segment"] >= 0}
    assert named == {("dog", "dog"), ("traffic_light", "traffic light"), ("Person", None), ("zebra", None)}
    with pytest.raises(UsageError, match="no class for 1 of the suite's classes: 'toaster'"):
        TransformersSegmenter(checkpoint, hub=HUB).check(SegmentationNeed(classes=("toaster",)))


@pytest.mark.usefixtures("small")
def test_objects_below_the_floor_are_left_out(checkpoint: str):
    every = TransformersSegmenter(checkpoint, min_score=0.0, hub=HUB).observe(IMAGES, NEED)
    scores = every["score"].drop_nulls()
    floor = float(scores.median())  # type: ignore[arg-type]
    kept = TransformersSegmenter(checkpoint, min_score=floor, hub=HUB).observe(IMAGES, NEED)
    assert kept["score"].drop_nulls().len() == (scores >= floor).sum()
    assert 0 < kept["score"].drop_nulls().len() < scores.len()


@pytest.mark.usefixtures("small")
def test_an_image_does_not_depend_on_its_batch(checkpoint: str):
    judge = TransformersSegmenter(checkpoint, min_score=0.0, hub=HUB)
    together = judge.observe(IMAGES, NEED)
    alone = pl.concat([judge.observe([each], NEED) for each in IMAGES])
    np.testing.assert_allclose(together["score"].drop_nulls(), alone["score"].drop_nulls(), atol=1e-3)


@pytest.mark.usefixtures("small")
def test_own_preprocessing_of_the_checkpoint_gives_other_objects(checkpoint: str):
    released = TransformersSegmenter(checkpoint, min_score=0.0, hub=HUB)
    own = TransformersSegmenter(checkpoint, preprocessing="model", min_score=0.0, hub=HUB)
    assert released.name != own.name
    table = own.observe(IMAGES, NEED)
    check_rows(table, own.name, NEED, ["a", "b", "c"])
    assert table["score"].drop_nulls().to_list() != released.observe(IMAGES, NEED)["score"].drop_nulls().to_list()


def maskformer() -> Any:
    names = {0: "Person", 1: "dog", 2: "zebra", 3: "traffic_light"}
    trunk = transformers.SwinConfig(
        embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1], window_size=4, image_size=64,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )  # fmt: skip
    decoder = transformers.DetrConfig(
        d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=16,
        encoder_attention_heads=2, decoder_attention_heads=2, num_queries=5, use_timm_backbone=False, backbone=None,
        backbone_config=trunk,
    )  # fmt: skip
    config = transformers.MaskFormerConfig(
        backbone_config=trunk, decoder_config=decoder, fpn_feature_size=32, mask_feature_size=32,
        id2label=names, label2id={v: k for k, v in names.items()},
    )  # fmt: skip
    return transformers.MaskFormerForInstanceSegmentation(config), None


@pytest.mark.usefixtures("small")
def test_maskformer_is_segmenter(tmp_path: Path):
    judge = TransformersSegmenter(save(tmp_path / "mf", maskformer()), min_score=0.0, hub=HUB)
    table = judge.observe(IMAGES[:1], NEED)
    check_rows(table, judge.name, NEED, ["a"])
    assert table.filter(pl.col("segment") >= 0).height == 5 * 4


@pytest.mark.usefixtures("small")
def test_detr_with_masks_is_segmenter(tmp_path: Path):
    # The widths of its mask head are fixed, so this one is not quite as tiny.
    names = {0: "Person", 1: "dog", 2: "zebra", 3: "traffic_light"}
    trunk = transformers.ResNetConfig(
        embedding_size=64, hidden_sizes=[256, 512, 1024, 2048], depths=[1, 1, 1, 1], layer_type="bottleneck",
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = transformers.DetrConfig(
        use_timm_backbone=False, backbone=None, backbone_config=trunk, num_queries=3, d_model=256, encoder_layers=1,
        decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=16, id2label=names,
        label2id={v: k for k, v in names.items()},
    )  # fmt: skip
    judge = TransformersSegmenter(
        save(tmp_path / "detr", (transformers.DetrForSegmentation(config), None)), min_score=0.0, hub=HUB
    )
    table = judge.observe(IMAGES[:1], NEED)
    check_rows(table, judge.name, NEED, ["a"])
    assert table.filter(pl.col("segment") >= 0).height == 3 * 4


def test_models_without_masks_of_objects_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"type 'clip', which gives no masks of objects here\. There are mask2former"):
        TransformersSegmenter(str(tiny_clip(tmp_path / "clip")), hub=HUB)


def test_detector_is_refused_as_segmenter_and_taken_for_its_boxes(tmp_path: Path):
    path = save(tmp_path / "yolos", yolos())
    with pytest.raises(UsageError, match="for its boxes alone use boxes:"):
        TransformersSegmenter(path, hub=HUB)
    judge = BoxSegmenter(path, min_score=0.0, hub=HUB)
    table = judge.observe(IMAGES, NEED)
    check_rows(table, judge.name, NEED, ["a", "b", "c"])
    boxes = table.filter(pl.col("segment") >= 0)
    assert boxes["mask"].null_count() == boxes.height == 3 * 5 * 2  # queries x classes of the need
    assert boxes["pixel_colors"].list.len().max() == 0
    assert boxes["color"].null_count() == boxes.height


def test_builtin_detector_lends_its_colour_head_where_it_knows_all_colours():
    judge = BoxSegmenter("builtin", min_score=0.0)
    assert judge.threshold is not None
    known = SegmentationNeed(classes=("dog", "car"), colors=("red", "blue"))
    judge.check(known)
    boxes = judge.observe([image("a", 96, 96)], known).filter(pl.col("segment") >= 0)
    assert boxes.height
    assert set(boxes["color"].to_list()) <= {"red", "blue"}
    unknown = SegmentationNeed(classes=("dog", "car"), colors=("red", "pink"))
    assert judge.observe([image("a", 96, 96)], unknown)["color"].null_count() > 0
    with pytest.raises(UsageError, match="no class for"):
        judge.check(SegmentationNeed(classes=("toaster",)))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "cat"}, "label 'cat' is not among"),
        ({"score": 1.5}, "score must lie in"),
        ({"mask": "999"}, "pixels for an image of"),
        ({"mask": "2`"}, "cut off"),
        ({"pixel_colors": [0.5]}, "1 numbers for 2 colours"),
        ({"height": None}, "height is null"),
    ],
)
def test_rows_that_are_wrong_are_refused(checkpoint: str, change, message):
    judge = TransformersSegmenter(checkpoint, min_score=0.0, pairs=3, hub=HUB)
    rows = judge.observe(IMAGES[:1], NEED).to_dicts()
    table = frame("segments", [rows[0], {**rows[1], **change}])
    with pytest.raises(VerismError, match=message):
        check_rows(table, judge.name, NEED, ["a"])


# ------------------------------------------------------------------------------------------------- views of objects
def region(mask: np.ndarray | None, box: tuple[float, float, float, float], **more: Any) -> Region:
    text = None if mask is None else rle_of_mask(mask)
    return Region(**{"segment": 0, "label": "dog", "score": 0.9, "box": box, "mask": text, **more})


def test_masked_view_is_grey_outside_the_mask_and_cut_by_the_rounded_box():
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    mask = np.zeros((4, 6), dtype=bool)
    mask[1:3, 2] = True
    view = region_view(pixels, region(mask, (1.6, 0.7, 3.4, 3.2)), "masked")
    assert view.shape == (2, 1, 3)  # edges round to 2, 1, 3, 3
    assert (view[:, 0] == pixels[1:3, 2]).all()
    wide = region_view(pixels, region(mask, (0, 1, 4, 3)), "masked")
    assert (wide[:, 0] == GREY).all()
    assert GREY == (153, 153, 153)


def test_square_view_keeps_the_ends_of_long_objects():
    pixels = np.full((10, 40, 3), 7, dtype=np.uint8)
    mask = np.zeros((10, 40), dtype=bool)
    mask[4:6] = True
    view = region_view(pixels, region(mask, (0, 4, 40, 6)), "square")
    assert view.shape == (40, 40, 3)
    assert (view[19:21] == 7).all()
    assert (view[0] == 153).all()


def test_without_a_mask_surroundings_stay():
    pixels = np.arange(75, dtype=np.uint8).reshape(5, 5, 3)
    assert (region_view(pixels, region(None, (1, 1, 3, 3)), "masked") == pixels[1:3, 1:3]).all()
    assert region_view(pixels, region(None, (0, 0, 0, 0)), "masked").shape == (1, 1, 3)  # never nothing
    with pytest.raises(UsageError, match="no view 'upside down'"):
        region_view(pixels, region(None, (1, 1, 3, 3)), "upside down")


def test_most_confident_regions_of_each_class_are_chosen():
    regions = [region(None, (0, 0, 1, 1), segment=k, score=s, label=n) for k, (s, n) in enumerate(
        [(0.4, "dog"), (0.9, "dog"), (0.8, "cat"), (0.5, "dog"), (0.3, "bus")]
    )]  # fmt: skip
    assert [r.segment for r in chosen_regions(regions, ("dog", "cat"), 2)] == [1, 2, 3]


def test_clip_embeds_the_objects_that_were_found(tmp_path: Path):
    clip = ClipJudge(str(tiny_clip(tmp_path / "clip")), hub=HubOptions(device="cpu", local_files_only=True))
    mask = np.zeros((40, 60), dtype=bool)
    mask[5:30, 10:20] = True
    rows = frame(
        "segments",
        [
            {"image_id": "a", "judge": "s", "segment": -1},
            *(
                {"image_id": "a", "judge": "s", "segment": k, "label": label, "score": 0.9, "x0": 10, "y0": 5, "x1": 20,
                 "y1": 30, "height": 40, "width": 60, "mask": rle_of_mask(mask)}
                for k, label in enumerate(["dog", "bus"])
            ),
        ],
    )  # fmt: skip
    need = EmbeddingNeed(texts=("x",), regions={"p": ("dog",)}, views=("masked", "square"))
    judge = RegionJudge(clip, "s")
    assert judge.name == f"{clip.name} objects of s"
    tables = judge.observe(with_regions(IMAGES, rows), need)
    assert set(tables) == {"embeddings", "region_embeddings"}
    regions = tables["region_embeddings"]
    assert regions.select("image_id", "judge", "segmenter", "segment", "view").rows() == [
        ("a", judge.name, "s", 0, "masked"),
        ("a", judge.name, "s", 0, "square"),
    ]
    view = region_view(IMAGES[0].pixels, regions_of_rows(rows)["a"][0], "masked")
    by_hand = clip.observe([LoadedImage(image_id="v", prompt_id="", pixels=view)], EmbeddingNeed(texts=()))
    assert isinstance(by_hand, pl.DataFrame)
    np.testing.assert_allclose(regions["vector"][0].to_numpy(), by_hand["vector"][0].to_numpy(), atol=1e-5)
    assert regions["vector"][0].to_list() != regions["vector"][1].to_list()
    # An image in which nothing was found has no rows, and that is no error.
    assert judge.observe(with_regions(IMAGES[1:2], None), need)["region_embeddings"].height == 0


def test_an_image_that_its_segmenter_has_not_looked_at_has_no_empty_list_of_objects():
    rows = frame("segments", [{"image_id": IMAGES[0].image_id, "judge": "s", "segment": -1}])
    assert with_regions(IMAGES[:1], rows, segmenter="s")[0].regions == ()
    with pytest.raises(VerismError, match=f"s has not looked at {IMAGES[1].image_id}"):
        with_regions(IMAGES[:2], rows, segmenter="s")
    assert with_regions(IMAGES[:2], rows)[1].regions == ()
