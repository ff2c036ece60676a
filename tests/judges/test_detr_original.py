"""Checkpoints of the original DETR code: network parity, strict loading, classes and colours."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")

from verism.errors import UsageError  # noqa: E402
from verism.judges.batching import Execution, normalised, released_input  # noqa: E402
from verism.judges.detection.detr_network import Detr, DetrShape, ResNetTrunk, sine_positions  # noqa: E402
from verism.judges.detection.detr_original import OriginalDetr, load_detr, read_checkpoint  # noqa: E402
from verism.judges.detection.names import COCO91, PAINTSKILLS_V1, PAINTSKILLS_V1_COLORS  # noqa: E402
from verism.records import DetectionNeed, LoadedImage  # noqa: E402

TINY = DetrShape(
    blocks=(1, 2, 1, 2), width=4, d_model=16, heads=8, feedforward=24, encoder_layers=2, decoder_layers=2, queries=5,
    classes=91,
)  # fmt: skip
NEED = DetectionNeed(classes=("dog", "fire hydrant", "person"))


def network(shape: DetrShape, seed: int = 0) -> Detr:
    """A network whose every parameter and statistic is random, so that none can be mixed up unseen."""
    generator = torch.Generator().manual_seed(seed)
    model = Detr(shape)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("running_var"):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
            elif tensor.ndim > 1:
                tensor.copy_(torch.randn(tensor.shape, generator=generator) / tensor[0].numel() ** 0.5)
            else:
                tensor.copy_(1.0 * (".bn" in name or "norm" in name) * name.endswith("weight") + 0.2 * torch.randn(
                    tensor.shape, generator=generator
                ))  # fmt: skip
    return model.eval()


def save(path: Path, shape: DetrShape = TINY, **wrapped: Any) -> Path:
    weights = network(shape).state_dict()
    torch.save({"model": weights, **wrapped} if wrapped else dict(weights), path)
    return path


def image(name: str, height: int, width: int, seed: int = 0) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


IMAGES = [image("a", 40, 80, 1), image("b", 60, 30, 2)]


# --------------------------------------------------------------------------------------------------------------------
# The network
# --------------------------------------------------------------------------------------------------------------------
def trunk_to_transformers(name: str) -> str:
    """The name in transformers' ResNet of a trunk parameter, ``layer1.0.conv1.weight`` ..."""
    head, _, rest = name.partition(".")
    if head == "conv1":
        return f"embedder.embedder.convolution.{rest}"
    if head == "bn1":
        return f"embedder.embedder.normalization.{rest}"
    block, part, rest = rest.split(".", 2)
    position = f"encoder.stages.{int(head[-1]) - 1}.layers.{block}"
    if part == "downsample":
        index, leaf = rest.split(".")
        return f"{position}.shortcut.{('convolution', 'normalization')[int(index)]}.{leaf}"
    kind = "convolution" if part.startswith("conv") else "normalization"
    return f"{position}.layer.{int(part[-1]) - 1}.{kind}.{rest}"


def resnet_config(shape: DetrShape, **options: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.ResNetConfig(
        embedding_size=shape.width,
        hidden_sizes=[shape.width * 4 * 2**stage for stage in range(4)],
        depths=list(shape.blocks),
        layer_type="bottleneck",
        **options,
    )


def test_trunk_equals_transformers_resnet():
    transformers = pytest.importorskip("transformers")
    ours = network(TINY).backbone[0].body
    theirs = transformers.ResNetModel(resnet_config(TINY)).eval()
    state = {trunk_to_transformers(name): value for name, value in ours.state_dict().items()}
    reported = theirs.load_state_dict(state, strict=False)
    assert reported.unexpected_keys == []
    assert all(key.endswith("num_batches_tracked") for key in reported.missing_keys)
    pixels = torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(pixels).last_hidden_state
        result = ours(pixels)
    assert result.shape == (2, 4 * 32, 2, 3)
    torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)


ATTENTION = {"self_attn": "self_attn", "multihead_attn": "encoder_attn"}


def to_transformers(weights: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The weights under the names of transformers' DETR; attention's joint input projection is cut into three."""
    results: dict[str, Any] = {}
    for name, value in weights.items():
        if name.startswith("backbone.0.body."):
            new = "model.backbone.model." + trunk_to_transformers(name.removeprefix("backbone.0.body."))
        elif name.startswith("input_proj"):
            new = name.replace("input_proj", "model.input_projection")
        elif name.startswith("query_embed"):
            new = "model.query_position_embeddings.weight"
        elif name.startswith("class_embed"):
            new = name.replace("class_embed", "class_labels_classifier")
        elif name.startswith("bbox_embed"):
            new = name.replace("bbox_embed", "bbox_predictor")
        elif name.startswith("transformer.decoder.norm"):
            new = name.replace("transformer.decoder.norm", "model.decoder.layernorm")
        else:
            _, side, _, index, part, leaf = name.split(".", 5)
            layer = f"model.{side}.layers.{index}"
            last = "final_layer_norm"
            norms = {"norm1": "self_attn_layer_norm", "norm2": last if side == "encoder" else "encoder_attn_layer_norm"}
            if part in ATTENTION and leaf.startswith("in_proj_"):
                kind = leaf.removeprefix("in_proj_")
                for which, third in zip("qkv", value.chunk(3), strict=True):
                    results[f"{layer}.{ATTENTION[part]}.{which}_proj.{kind}"] = third
                continue
            if part in ATTENTION:
                kind = leaf.removeprefix("out_proj.")
                new = next(
                    candidate
                    for o in ("o_proj", "out_proj")
                    if (candidate := f"{layer}.{ATTENTION[part]}.{o}.{kind}") in known
                )
            elif part.startswith("linear"):
                number = part[-1]
                new = next(
                    candidate
                    for mid in (f"fc{number}", f"mlp.fc{number}")
                    if (candidate := f"{layer}.{mid}.{leaf}") in known
                )
            else:
                new = f"{layer}.{norms.get(part, last)}.{leaf}"
        results[new] = value
    return results


@pytest.mark.parametrize("size", [(64, 96), (96, 64)])
def test_detr_equals_transformers_detr(size: tuple[int, int]):
    transformers = pytest.importorskip("transformers")
    config = transformers.DetrConfig(
        use_timm_backbone=False, backbone=None, backbone_config=resnet_config(TINY, out_features=["stage4"]),
        num_queries=TINY.queries, d_model=TINY.d_model, encoder_layers=2, decoder_layers=2,
        encoder_ffn_dim=TINY.feedforward, decoder_ffn_dim=TINY.feedforward, encoder_attention_heads=8,
        decoder_attention_heads=8, num_labels=TINY.classes,
    )  # fmt: skip
    theirs = transformers.DetrForObjectDetection(config).eval()
    ours = network(TINY)
    state = to_transformers(ours.state_dict(), set(theirs.state_dict()))
    result = theirs.load_state_dict(state, strict=False)
    assert result.unexpected_keys == []
    assert [key for key in result.missing_keys if not key.endswith("num_batches_tracked")] == []
    pixels = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(pixel_values=pixels)
        logits, boxes, colors = ours(pixels)
    assert colors is None
    torch.testing.assert_close(logits, expected.logits, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(boxes, expected.pred_boxes, atol=1e-4, rtol=1e-4)
    assert boxes.std() > 0.05  # weights are large enough for the comparison to mean something


def test_positions_by_hand():
    # 2 rows, 3 columns, 8 features: 4 for the row, 4 for the column; frequencies 1, 1, 100, 100.
    result = sine_positions(2, 3, 8)
    assert result.shape == (6, 8)
    y, x = 2 * np.pi * 2 / 2, 2 * np.pi * 1 / 3  # second row, first column
    expected = [f(v / s) for v in (y, x) for s in (1, 100) for f in (np.sin, np.cos)]
    np.testing.assert_allclose(result[3], expected, atol=1e-5)


def test_dilation_doubles_the_resolution_of_the_last_stage():
    # As torchvision does it: stage 4 keeps stride 1; its first block is not yet dilated, the others are by 2.
    trunk = ResNetTrunk((1, 1, 1, 3), width=4, dilation=True)
    blocks = trunk.get_submodule("layer4")
    assert [(b.conv2.stride, b.conv2.dilation, b.conv2.padding) for b in blocks] == [
        ((1, 1), (1, 1), (1, 1)), ((1, 1), (2, 2), (2, 2)), ((1, 1), (2, 2), (2, 2)),
    ]  # fmt: skip
    assert blocks[0].downsample[0].stride == (1, 1)
    assert trunk(torch.zeros(1, 3, 64, 64)).shape == (1, 128, 4, 4)
    assert ResNetTrunk((1, 1, 1, 3), width=4, dilation=False)(torch.zeros(1, 3, 64, 64)).shape == (1, 128, 2, 2)


def test_full_size_has_the_published_names_and_sizes():
    with torch.device("meta"):
        model = Detr(DetrShape(blocks=(3, 4, 23, 3), dilation=True))
    weights = model.state_dict()
    # ResNet-101: 104 convolutions, each with 4 batch-norm tensors: 520 entries. Transformer: encoder layer 12 entries,
    # decoder layer 18, last norm 2: 6 * 12 + 6 * 18 + 2 = 182. Projection 2, queries 1, classes 2, boxes 6.
    assert len(weights) == 520 + 182 + 2 + 1 + 2 + 6
    # Published size of DETR-DC5-R101: 60 million parameters (arXiv:2005.12872, Table 1), frozen statistics not counted.
    parameters = sum(p.numel() for p in model.parameters())
    assert parameters == pytest.approx(60e6, rel=0.02)
    shapes = {
        "backbone.0.body.conv1.weight": (64, 3, 7, 7),
        "backbone.0.body.layer1.0.downsample.1.running_var": (256,),
        "backbone.0.body.layer3.22.conv2.weight": (256, 256, 3, 3),
        "backbone.0.body.layer4.2.bn3.bias": (2048,),
        "input_proj.weight": (256, 2048, 1, 1),
        "query_embed.weight": (100, 256),
        "transformer.encoder.layers.5.self_attn.in_proj_weight": (768, 256),
        "transformer.encoder.layers.0.linear1.weight": (2048, 256),
        "transformer.decoder.layers.5.multihead_attn.out_proj.bias": (256,),
        "transformer.decoder.layers.0.norm3.weight": (256,),
        "transformer.decoder.norm.weight": (256,),
        "class_embed.weight": (92, 256),
        "bbox_embed.layers.2.weight": (4, 256),
    }
    assert {name: tuple(weights[name].shape) for name in shapes} == shapes


# --------------------------------------------------------------------------------------------------------------------
# Checkpoints
# --------------------------------------------------------------------------------------------------------------------
def test_sizes_are_read_from_the_weights(tmp_path: Path):
    shape = replace(TINY, classes=21, colors=6, queries=7, encoder_layers=1, feedforward=8)
    assert load_detr(save(tmp_path / "a.pth", shape), dilation=False).shape == shape


@pytest.mark.parametrize("form", ["flat", "wrapped", "parallel", "safetensors", "counters"])
def test_forms_of_checkpoints(form: str, tmp_path: Path):
    weights = dict(network(TINY).state_dict())
    path = tmp_path / "detr.pth"
    if form == "safetensors":
        from safetensors.torch import save_file

        path = tmp_path / "detr.safetensors"
        save_file(weights, path)
    else:
        content: dict[str, Any] = dict(weights)
        if form == "wrapped":  # as the original training code saves
            content = {"model": weights, "epoch": 3, "args": argparse.Namespace(lr=1e-4), "optimizer": {"state": {}}}
        elif form == "parallel":
            content = {f"module.{name}": value for name, value in weights.items()}
        elif form == "counters":
            content["backbone.0.body.bn1.num_batches_tracked"] = torch.tensor(1)
        torch.save(content, path)
    model = load_detr(path, dilation=False)
    pixels = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(model(pixels)[0], network(TINY)(pixels)[0])
    assert not model.training


def test_missing_left_over_and_misshapen_weights_are_named(tmp_path: Path):
    weights = dict(network(TINY).state_dict())
    del weights["bbox_embed.layers.1.bias"]
    weights["transformer.encoder.norm.weight"] = torch.ones(16)  # a pre-normalised DETR has it
    weights["input_proj.bias"] = torch.ones(3)
    torch.save(weights, tmp_path / "bad.pth")
    with pytest.raises(UsageError) as caught:
        load_detr(tmp_path / "bad.pth", dilation=False)
    message = str(caught.value)
    assert "1 missing: bbox_embed.layers.1.bias" in message
    assert "1 unexpected: transformer.encoder.norm.weight" in message
    assert "1 of another shape: input_proj.bias (3,) instead of (16,)" in message


def test_files_that_are_something_else(tmp_path: Path):
    with pytest.raises(UsageError, match="no DETR checkpoint at"):
        read_checkpoint(tmp_path / "none.pth")
    (tmp_path / "text.pth").write_text("hello")
    with pytest.raises(UsageError, match="cannot read"):
        read_checkpoint(tmp_path / "text.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(UsageError, match="expected a dictionary of tensors"):
        read_checkpoint(tmp_path / "list.pth")
    torch.save({"model.backbone.weight": torch.ones(1)}, tmp_path / "other.pth")
    with pytest.raises(UsageError, match="no checkpoint of the original DETR code"):
        load_detr(tmp_path / "other.pth", dilation=False)


class Payload:
    """Would run code of the file's choice if it were unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("unpickled",))


def test_no_code_of_the_file_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    torch.save({"model": Payload()}, tmp_path / "evil.pth")
    with pytest.raises(UsageError, match="cannot read"):
        read_checkpoint(tmp_path / "evil.pth")
    assert "unpickled" not in capsys.readouterr().out


# --------------------------------------------------------------------------------------------------------------------
# The judge
# --------------------------------------------------------------------------------------------------------------------
def test_coco_detector_on_800_square(tmp_path: Path):
    path = save(tmp_path / "detr.pth")
    judge = OriginalDetr(path, execution=Execution(device="cpu"))
    table = judge.observe(IMAGES, NEED)
    assert table.filter(pl.col("query") == -1)["image_id"].to_list() == ["a", "b"]
    assert len(table) == 2 * (1 + TINY.queries)
    with torch.no_grad():
        logits, boxes, _ = network(TINY)(torch.from_numpy(released_input(IMAGES[1].pixels))[None])
    probabilities = logits.softmax(-1)[0].numpy()
    result = table.filter(pl.col("image_id") == "b", pl.col("query") >= 0)
    # COCO's ids: dog 18, fire hydrant 11, person 1. The 92nd column, no object, is dropped and not shared out.
    np.testing.assert_allclose(result["class_scores"].to_list(), probabilities[:, [18, 11, 1]], atol=1e-5)
    assert result["raw_label"].to_list() == [COCO91[i] for i in probabilities[:, :-1].argmax(axis=1)]
    np.testing.assert_allclose(result["score"].to_numpy(), probabilities[:, :-1].max(axis=1), atol=1e-5)
    # Boxes in pixels of the 30 x 60 image, although the network saw a square.
    x, y, w, h = boxes[0].numpy().T
    np.testing.assert_allclose(result["x0"].to_numpy(), (x - w / 2) * 30, atol=1e-3)
    np.testing.assert_allclose(result["y1"].to_numpy(), (y + h / 2) * 60, atol=1e-3)
    assert result["color"].null_count() == len(result)
    assert "preprocessing=released dilation=none" in judge.name


def test_first_paintskills_detector_tells_colours(tmp_path: Path):
    shape = replace(TINY, classes=21, colors=6)
    weights = {
        name.replace("color_embed", "obj_color_head"): value for name, value in network(shape).state_dict().items()
    }
    torch.save(weights, tmp_path / "v1.pth")
    judge = OriginalDetr(tmp_path / "v1.pth", classes="paintskills-v1", execution=Execution(device="cpu"))
    need = DetectionNeed(classes=("car", "human"), colors=("white", "red"))
    table = judge.observe(IMAGES[:1], need).filter(pl.col("query") >= 0)
    with torch.no_grad():
        logits, _, colors = network(shape)(torch.from_numpy(released_input(IMAGES[0].pixels))[None])
    classes = logits.softmax(-1)[0].numpy()
    tints = colors.softmax(-1)[0].numpy()
    assert PAINTSKILLS_V1.index("van") == 6
    np.testing.assert_allclose(table["class_scores"].to_list(), classes[:, [6, 0]], atol=1e-5)
    assert PAINTSKILLS_V1_COLORS.index("white") == 3
    np.testing.assert_allclose(table["color_scores"].to_list(), tints[:, [3, 0]], atol=1e-5)
    assert table["color"].to_list() == [("white", "red")[i] for i in tints[:, [3, 0]].argmax(axis=1)]
    plain = judge.observe(IMAGES[:1], DetectionNeed(classes=("car",))).filter(pl.col("query") >= 0)
    assert plain["color_scores"].to_list() == [[]] * len(plain)
    with pytest.raises(UsageError, match="tells red, blue, yellow, white, purple, green, but not maroon"):
        judge.observe(IMAGES[:1], DetectionNeed(classes=("car",), colors=("maroon",)))


def test_model_preprocessing_keeps_the_aspect(tmp_path: Path):
    judge = OriginalDetr(save(tmp_path / "detr.pth"), preprocessing="model", execution=Execution(device="cpu"))
    inputs = judge._inputs(IMAGES[0])["pixel_values"]
    assert inputs.shape == (3, 666, 1332)  # 80 x 40: the longer side would be 1600, so 1333 * 40 / 80 = 666.5 -> 666
    assert "preprocessing=model" in judge.name
    flat = LoadedImage(image_id="f", prompt_id="p", pixels=np.full((50, 50, 3), 128, dtype=np.uint8))
    np.testing.assert_allclose(judge._inputs(flat)["pixel_values"][:, 7, 7], normalised(flat.pixels)[:, 0, 0])


def test_half_precision_is_near_single(tmp_path: Path):
    path = save(tmp_path / "detr.pth")
    single, half = (
        OriginalDetr(path, execution=Execution(device="cpu", dtype=d)).observe(IMAGES, NEED)
        for d in ("float32", "bfloat16")
    )
    np.testing.assert_allclose(
        half["class_scores"].drop_nulls().to_list(), single["class_scores"].drop_nulls().to_list(), atol=0.05
    )


def test_an_image_does_not_depend_on_its_batch(tmp_path: Path):
    judge = OriginalDetr(save(tmp_path / "detr.pth"), execution=Execution(device="cpu"))
    together = judge.observe(IMAGES, NEED)
    alone = pl.concat([judge.observe([image], NEED) for image in IMAGES])
    for column in ("score", "x0", "y0", "x1", "y1"):
        np.testing.assert_allclose(
            together[column].drop_nulls().to_numpy(), alone[column].drop_nulls().to_numpy(), atol=1e-4, rtol=1e-5
        )


def test_dilation_follows_the_file_name_and_enters_the_judges(tmp_path: Path):
    plain = OriginalDetr(save(tmp_path / "detr.pth"), execution=Execution(device="cpu"))
    dilated = OriginalDetr(save(tmp_path / "detr_R50_DC5.pth"), execution=Execution(device="cpu"))
    result = OriginalDetr(tmp_path / "detr_R50_DC5.pth", dilation=False, execution=Execution(device="cpu"))
    assert [j._model.shape.dilation for j in (plain, dilated, result)] == [False, True, False]
    assert "dilation=dc5" in dilated.name
    assert "dilation=none" in result.name


def test_the_wrong_set_of_classes_is_refused(tmp_path: Path):
    path = save(tmp_path / "v1.pth", replace(TINY, classes=21, colors=2))
    with pytest.raises(UsageError, match=r"head of 21 classes besides 'no object', but 91 .*'paintskills-v1' has 21"):
        OriginalDetr(path, execution=Execution(device="cpu"))
    with pytest.raises(UsageError, match="head of 2 colours besides 'none', but 6 are named"):
        OriginalDetr(path, classes="paintskills-v1", execution=Execution(device="cpu"))
    with pytest.raises(UsageError, match="classes must be one of coco91, paintskills-v1, not 'coco'"):
        OriginalDetr(path, classes="coco", execution=Execution(device="cpu"))
    names = [f"c{i}" for i in range(21)]
    judge = OriginalDetr(
        path, classes=names, colors=["dark", "light"], aliases={"c3": "dog"}, execution=Execution(device="cpu")
    )
    assert set(judge.observe(IMAGES[:1], DetectionNeed(classes=("dog",)))["raw_label"].drop_nulls()) <= set(names)
