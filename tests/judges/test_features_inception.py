"""Inception features. Weights and images follow from formulas; what is expected, reference libraries computed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_inception import formula_image, formula_weights, random_inception

from verism.errors import UsageError, VerismError
from verism.judges.batching import Execution
from verism.judges.features.inception import Weights, fid_features, inception_features, load_inception
from verism.judges.features.inception_network import Block8, Edition, Inception, _mean3
from verism.judges.features.judge import FeatureJudge
from verism.records import CaptionNeed, FeatureNeed, LoadedImage, schema

AT = [1, 200, 400, 600, 800, 1000, 1200, 1400, 1800, 2047]
LOGITS_AT = [0, 100, 500, 900, 999]


def image(name: str, height: int, width: int, seed: int = 0) -> LoadedImage:
    return LoadedImage(image_id=name, prompt_id="p", pixels=formula_image(height, width, seed))


TALL = image("tall", 200, 77, seed=4)


@pytest.fixture(scope="module")
def fid_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_inception(tmp_path_factory.mktemp("fid"), "fid")


@pytest.fixture(scope="module")
def imagenet_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As torchvision saves it: ``.pth``, with the auxiliary classifier that nothing here uses."""
    path = tmp_path_factory.mktemp("imagenet") / "inception.pth"
    aux = {"AuxLogits.conv0.conv.weight": torch.zeros(128, 768, 1, 1), "AuxLogits.fc.bias": torch.zeros(1000)}
    torch.save({**formula_weights("imagenet"), **aux}, path)
    return path


@pytest.fixture(scope="module")
def fid(fid_file: Path) -> FeatureJudge:
    return fid_features(fid_file, execution=Execution(device="cpu"))


# -------------------------------------------------------------------------------------------------------- the network
def test_names_and_sizes_are_those_of_the_published_files():
    with torch.device("meta"):
        fid, imagenet = Inception("fid"), Inception("imagenet")
    names = list(fid.state_dict())
    assert len(names) == 566  # 94 convolutions x 6, and the last layer's two
    assert names == list(imagenet.state_dict())
    assert names[:3] == ["Conv2d_1a_3x3.conv.weight", "Conv2d_1a_3x3.bn.weight", "Conv2d_1a_3x3.bn.bias"]
    assert names[-2:] == ["fc.weight", "fc.bias"]
    assert "Mixed_6c.branch7x7dbl_4.conv.weight" in names
    # torchvision documents 27,161,264 parameters. Its auxiliary classifier, which we leave out, has
    # 128 x 768 + 2 x 128, 768 x 128 x 25 + 2 x 768 and 1000 x 769: 3,326,696.
    assert sum(p.numel() for p in imagenet.parameters()) == 27_161_264 - 3_326_696
    # The FID's has 8 outputs more, each of 2048 weights and a bias.
    assert sum(p.numel() for p in fid.parameters()) == 23_834_568 + 8 * 2049


def test_sizes_of_the_feature_maps():
    # The comments of every published implementation: 149, 147, 147, (73) 73, 71, (35) 35 ..., 17 ..., 8 ...
    with torch.device("meta"):
        network = Inception("fid").eval()
        sizes = {}
        for name, part in network.named_children():
            part.register_forward_hook(lambda _, __, out, name=name: sizes.update({name: tuple(out.shape[1:])}))
        network(torch.zeros(1, 3, 299, 299))
    assert list(sizes.values()) == [
        (32, 149, 149), (32, 147, 147), (64, 147, 147), (80, 73, 73), (192, 71, 71), (256, 35, 35), (288, 35, 35),
        (288, 35, 35), (768, 17, 17), (768, 17, 17), (768, 17, 17), (768, 17, 17), (768, 17, 17), (1280, 8, 8),
        (2048, 8, 8), (2048, 8, 8),
    ]  # fmt: skip


def test_mean_of_neighbours_at_the_border():
    # In a corner 4 of 9 places lie inside: TensorFlow divides by 4, PyTorch's default by 9. On an edge 6.
    ones = torch.ones(1, 1, 3, 3)
    assert _mean3(ones, "fid").unique().tolist() == [1]
    assert _mean3(ones, "imagenet")[0, 0].flatten().tolist() == pytest.approx(
        [v / 9 for v in (4, 6, 4, 6, 9, 6, 4, 6, 4)]
    )


@pytest.mark.parametrize(("maximum", "expected"), [(True, [5, 5, 0, 0]), (False, [5 / 6, 5 / 9, 0, 0])])
def test_last_block_of_the_fid_pools_by_maximum(maximum: bool, expected: list[float]):
    # One channel holds 5 at the left end of the middle row of 3 x 4, elsewhere 0; the branch copies its pooled values.
    # Middle row: neighbours of column 0 are 6 places, of column 1 nine; columns 2 and 3 are too far.
    block = Block8(4, "fid", maximum=maximum).eval()
    for part in block.parameters():
        part.data.zero_()
    pool = block.branch_pool
    pool.conv.weight.data[0, 0] = 1
    pool.bn.weight.data[:] = (1 + 0.001) ** 0.5  # undoes the division by sqrt(variance + 0.001)
    x = torch.zeros(1, 4, 3, 4)
    x[0, 0, 1, 0] = 5
    with torch.no_grad():
        result = block(x)[0, 2048 - 192]  # the branch's first channel; the others hold nothing
    assert result[1].tolist() == pytest.approx(expected, abs=1e-5)


# Computed with torch-fidelity 0.4.0, pytorch-fid 0.3.0 and torchvision 0.28.0 on TALL, with these weights and the
# libraries' own resizing: benchmarks/peers/features_parity.py compares more, and all numbers.
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        pytest.param("fid", [2.425498, 0.325244, 0.625304, 0.019692, 2.614908, 0.082438, 3.064030, 0.112951, 2.548357,
                             2.843035], id="torch-fidelity"),
        pytest.param("pytorch-fid", [2.461934, 0.322907, 0.632810, 0.019805, 2.653255, 0.086555, 3.106967, 0.115997,
                                     2.549373, 2.913016], id="pytorch-fid"),
    ],
)  # fmt: skip
def test_fid_features_are_the_reference_libraries(fid_file: Path, way: str, expected: list[float]):
    estimate = fid_features(fid_file, preprocessing=way, execution=Execution(device="cpu")).features([TALL])[0]
    assert estimate.shape == (2048,)
    assert estimate[AT].tolist() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        pytest.param("digin", [3.250097, 0.339723, 1.142350, 0.037488, 4.185743, 0.114032, 4.262846, 0.241042, 3.561935,
                               2.681294], id="digin"),
        pytest.param("torchvision", [2.052864, 0.194493, 0.493813, 0.015748, 2.339652, 0.023816, 2.522349, 0.113691,
                                     2.086891, 1.332615], id="torchvision"),
        pytest.param("dalleval", [1.282050, 0.147563, 0.195462, 0.005862, 1.339858, 0.014206, 1.625380, 0.098409,
                                  1.344509, 0.896952], id="dalleval"),
    ],
)  # fmt: skip
def test_imagenet_features_are_torchvisions(imagenet_file: Path, way: str, expected: list[float]):
    result = inception_features(imagenet_file, preprocessing=way, execution=Execution(device="cpu")).features([TALL])[0]
    assert result[AT].tolist() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("logits_unbiased", [2.043731, -4.653685, 2.424768, 1.264272, -2.607493]),
        ("logits", [2.212048, -4.787769, 2.590689, 1.082970, -2.502002]),
    ],
)
def test_last_layer_with_and_without_bias_is_torch_fidelitys(fid_file: Path, layer: str, expected: list[float]):
    judge = fid_features(fid_file, layer=layer, execution=Execution(device="cpu"))
    assert judge.dim == 1008
    assert f"layer={layer}" in judge.name
    assert judge.features([TALL])[0][LOGITS_AT].tolist() == pytest.approx(expected, abs=1e-4)


# ---------------------------------------------------------------------------------------------------------- the judge
def test_a_vector_does_not_depend_on_neighbours_or_batch_size(fid_file: Path, fid: FeatureJudge):
    images = [image("a", 299, 299), TALL, image("b", 64, 301, seed=2)]
    alone = np.concatenate([fid.features([i]) for i in images])
    together = fid_features(fid_file, execution=Execution(batch_size=2, device="cpu")).features(images[::-1])[::-1]
    assert np.abs(alone - together).max() < 1e-4
    assert np.abs(alone[0] - alone[1]).max() > 0.1


def test_table_has_one_row_per_image_in_order(fid: FeatureJudge):
    again = LoadedImage(image_id="again", prompt_id="q", pixels=TALL.pixels)
    table = fid.observe([TALL, again], FeatureNeed())
    assert table.schema == schema("features")
    assert table["image_id"].to_list() == ["tall", "again"]
    assert set(table["judge"]) == {fid.name}
    rows = table["vector"].to_list()
    assert rows[0] == rows[1]
    assert rows[0] == fid.features([TALL])[0].tolist()
    assert fid.observe([], FeatureNeed()).schema == schema("features")


def test_name_holds_content_and_preprocessing_and_nothing_of_the_machine(fid_file: Path, fid: FeatureJudge):
    digest = hashlib.sha256(fid_file.read_bytes()).hexdigest()
    assert fid.name == f"fid-inception@{digest[:12]} preprocessing=fid"
    other = fid_features(
        fid_file,
        preprocessing="clean",
        execution=Execution(dtype="bfloat16", batch_size=3, device="cpu"),
        weights=Weights(sha256=digest[:10].upper()),
    )
    assert other.name == f"fid-inception@{digest[:12]} preprocessing=clean dtype=bfloat16"


def test_half_precision_is_close(fid_file: Path, fid: FeatureJudge):
    exact = fid.features([TALL])
    rough = fid_features(fid_file, execution=Execution(dtype="bfloat16", device="cpu")).features([TALL])
    assert rough.dtype == np.float32
    assert 1e-5 < np.linalg.norm(rough - exact) / np.linalg.norm(exact) < 0.02


def test_vectors_are_kept_between_judges(fid_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = fid_features(fid_file, cache=tmp_path, execution=Execution(device="cpu")).features([TALL])
    later = fid_features(fid_file, cache=tmp_path, execution=Execution(device="cpu"))
    monkeypatch.setattr(later, "_compute", lambda _: pytest.fail("looked at again"))
    assert np.array_equal(later.features([TALL]), first)


def test_another_need_is_refused(fid: FeatureJudge):
    with pytest.raises(UsageError, match=r"gives feature vectors; it cannot serve a need of CaptionNeed"):
        fid.observe([TALL], CaptionNeed())  # type: ignore[arg-type]


def test_vectors_that_are_no_numbers_are_an_error():
    judge = FeatureJudge(name="broken", dim=2, compute=lambda images: np.full((len(images), 2), np.nan, np.float32))
    with pytest.raises(VerismError, match=r"broken gave 1 image\(s\) features that are not finite, such as 'tall'"):
        judge.features([TALL])


# ------------------------------------------------------------------------------------------------------- bad requests
def test_files_of_the_two_editions_are_not_taken_for_each_other(fid_file: Path, imagenet_file: Path):
    with pytest.raises(UsageError, match=r"1008 outputs: it is a file for fid-inception:FILE"):
        inception_features(fid_file, execution=Execution(device="cpu"))
    with pytest.raises(UsageError, match=r"unexpected: AuxLogits.*1000 outputs: it is a file for inception:"):
        fid_features(imagenet_file, execution=Execution(device="cpu"))


@pytest.mark.parametrize(
    ("make", "option", "told"),
    [
        (fid_features, {"preprocessing": "digin"}, r"fid-inception has no preprocessing=digin. It has fid: TensorFlow"),
        (inception_features, {"preprocessing": "fid"}, r"inception has no preprocessing=fid. It has digin: centre"),
        (fid_features, {"layer": "768"}, r"layer must be one of pool, logits, logits_unbiased, not '768'"),
        (fid_features, {"execution": Execution(dtype="int8")}, r"dtype must be one of float32"),
        (fid_features, {"execution": Execution(batch_size=0)}, r"batch_size must be at least 1"),
        (
            fid_features,
            {"weights": Weights(sha256="0" * 64)},
            r"has sha256 [0-9a-f]{64}, expected 0{64}: it is another",
        ),
    ],
)
def test_bad_options_are_named(fid_file: Path, make: type, option: dict[str, object], told: str):
    with pytest.raises(UsageError, match=told):
        make(fid_file, **option)


def test_missing_and_foreign_weights_are_named(tmp_path: Path):
    weights = formula_weights("fid")
    del weights["Mixed_7c.branch_pool.bn.bias"]
    weights["Mixed_8a.weight"] = torch.zeros(1)
    weights["fc.bias"] = torch.zeros(7)
    path = tmp_path / "w.safetensors"
    save_file(weights, path)
    with pytest.raises(UsageError) as caught:
        load_inception(path, "fid")
    text = str(caught.value)
    assert "1 missing: Mixed_7c.branch_pool.bn.bias" in text
    assert "1 unexpected: Mixed_8a.weight" in text
    assert "fc.bias (7,) instead of (1008,)" in text


@pytest.mark.parametrize("edition", ["fid"])
def test_older_files_without_counters_load(edition: Edition, tmp_path: Path):
    weights = {k: v for k, v in formula_weights(edition).items() if not k.endswith("num_batches_tracked")}
    path = tmp_path / "w.safetensors"
    save_file(weights, path)
    network = load_inception(path, edition)
    assert not network.training
    assert torch.equal(network.fc.bias, weights["fc.bias"])
