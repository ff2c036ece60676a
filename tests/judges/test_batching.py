"""Batches, preprocessing and the identity of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from verism.errors import UsageError, VerismError  # noqa: E402
from verism.judges.batching import (  # noqa: E402
    Batches,
    content_id,
    judge_name,
    normalised,
    released_input,
    resized,
    shortest_side_size,
)
from verism.records import LoadedImage  # noqa: E402


def image(name: str, height: int, width: int) -> LoadedImage:
    pixels = np.full((height, width, 3), len(name), dtype=np.uint8)
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


def prepare(image: LoadedImage) -> Mapping[str, torch.Tensor]:
    return {"pixel_values": torch.from_numpy(image.pixels.astype(np.float32))}


class Recorder:
    """A step that notes what it is given, and runs out of memory beyond a number of images."""

    def __init__(self, most: int = 99) -> None:
        self.most = most
        self.batches: list[list[str]] = []

    def __call__(self, images: Sequence[LoadedImage], inputs: dict[str, torch.Tensor]) -> list[str]:
        assert len(inputs["pixel_values"]) == len(images)
        if len(images) > self.most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        self.batches.append([i.image_id for i in images])
        return [i.image_id.upper() for i in images]


def test_only_equal_sizes_share_a_batch_and_results_keep_their_order():
    step = Recorder()
    images = [image("a", 4, 6), image("b", 6, 4), image("c", 4, 6), image("d", 4, 6), image("e", 6, 4)]
    assert Batches(2, torch.device("cpu")).run(images, prepare, step) == ["A", "B", "C", "D", "E"]
    assert step.batches == [["a", "c"], ["b", "e"], ["d"]]


def test_out_of_memory_halves_the_batch_and_nothing_is_lost_or_repeated():
    step = Recorder(most=2)
    batches = Batches(8, torch.device("cpu"))
    names = list("abcdefghijk")
    assert batches.run([image(n, 4, 4) for n in names], prepare, step) == [n.upper() for n in names]
    assert sorted(name for batch in step.batches for name in batch) == names
    assert batches.size == 2
    assert all(len(b) <= 2 for b in step.batches)


def test_out_of_memory_with_one_image_says_what_to_do():
    with pytest.raises(VerismError, match=r"does not hold a single image.*dtype='bfloat16'.*CUDA out of memory"):
        Batches(4, torch.device("cpu")).run([image("a", 4, 4), image("b", 4, 4)], prepare, Recorder(most=0))


def test_no_images_no_batches():
    assert Batches(4, torch.device("cpu")).run([], prepare, Recorder()) == []


def test_released_input_is_800_square_and_normalised():
    pixels = np.zeros((10, 30, 3), dtype=np.uint8)
    pixels[..., 0] = 255
    values = released_input(pixels)
    assert values.shape == (3, 800, 800)
    assert values.dtype == np.float32
    # (1 - 0.485) / 0.229 = 2.2489, (0 - 0.456) / 0.224 = -2.0357, (0 - 0.406) / 0.225 = -1.8044
    np.testing.assert_allclose(values[:, 400, 400], [2.2489, -2.0357, -1.8044], atol=1e-4)


def test_resizing_ignores_the_aspect_and_interpolates():
    pixels = np.zeros((2, 4, 3), dtype=np.uint8)
    pixels[:, 2:] = 200
    large = resized(pixels, width=8, height=8)
    assert large.shape == (8, 8, 3)
    # Bilinear, columns 3 and 4 lie a quarter of a source pixel from the edge at 2: 0.25 and 0.75 of 200.
    assert large[4, :, 0].tolist() == [0, 0, 0, 50, 150, 200, 200, 200]


def test_normalised_moves_channels_first():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    values = normalised(pixels, scale=1.0, mean=(0, 1, 2), std=(1, 2, 4))
    assert values[:, 1, 2].tolist() == [18.0, (19 - 1) / 2, (20 - 2) / 4]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param((400, 400), (800, 800), id="square"),
        pytest.param((640, 480), (1066, 800), id="cut-off"),  # 800 * 640 / 480 = 1066.67
        pytest.param((480, 640), (800, 1066), id="upright"),
        pytest.param((1000, 250), (1332, 333), id="longest"),  # 800 * 4 > 1333: 1333 / 4 = 333.25
    ],
)
def test_shortest_side_size(size: tuple[int, int], expected: tuple[int, int]):
    assert shortest_side_size(*size, shortest=800, longest=1333) == expected


def test_identity_follows_content_and_not_place(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.safetensors").write_bytes(b"weights")
        (tmp_path / folder / "config.json").write_text("{}")
    (tmp_path / "b" / "README.md").write_text("hello")
    assert content_id(tmp_path / "a") == content_id(tmp_path / "b")
    (tmp_path / "b" / "config.json").write_text("{ }")
    assert content_id(tmp_path / "a") != content_id(tmp_path / "b")
    assert len(content_id(tmp_path / "a" / "config.json")) == 12
    assert judge_name("kind", "m", "0123", size=3, dtype=None) == "kind:m@0123 size=3"


def test_batches_size_of_zero_is_refused():
    with pytest.raises(UsageError, match="batch_size must be at least 1, not 0"):
        Batches(0, torch.device("cpu"))
