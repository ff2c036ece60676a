"""Run-length encoded masks, held against pycocotools."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco

from verism.metrics.masks import mask_area, mask_box, mask_of_rle, mask_runs, rle_of_mask, runs_of_rle


@st.composite
def masks(draw):
    height, width = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask = rng.random((height, width)) < draw(st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0]))
    scale = draw(st.integers(1, 9))  # long runs need several characters
    return np.kron(mask, np.ones((scale, scale))) > 0


@settings(max_examples=150)
@given(masks())
def test_text_is_that_of_pycocotools_and_reads_back(mask):
    text = rle_of_mask(mask)
    assert text == coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()
    assert (mask_of_rle(text, *mask.shape) == mask).all()
    assert mask_area(text) == mask.sum()


@settings(max_examples=150)
@given(masks())
def test_box_is_tight_and_exclusive(mask):
    ys, xs = np.nonzero(mask)
    expected = (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) if len(xs) else (0, 0, 0, 0)
    assert mask_box(rle_of_mask(mask), mask.shape[0]) == tuple(map(int, expected))


@pytest.mark.parametrize("edge", [2**4, 2**9, 2**14, 2**19])
def test_numbers_at_the_ends_of_a_group_are_read_back(edge):
    """Runs of lengths that a group more or less has room for, and their differences, either way."""
    runs = [edge, 1, edge - 1, 2 * edge, 1, edge + 1, 2 * edge - 1]
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    mask = flat.reshape(1, -1)
    text = rle_of_mask(mask)
    assert text == coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()
    assert runs_of_rle(text).tolist() == runs


def test_runs_begin_with_background():
    assert mask_runs([[1, 0], [1, 0]]).tolist() == [0, 2, 2]
    assert mask_runs([[0, 0], [0, 1]]).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2`", "cut off"),
        ("2\x01", "none of it"),
        ("2\u20ac", "none of it"),
        ("1O", "negative"),
        ("o" * 8 + "1", "longer than any"),
    ],
)
def test_damaged_text_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        runs_of_rle(text)


def test_mask_of_another_size_is_refused():
    with pytest.raises(ValueError, match="4 pixels; an image of 3 x 2"):
        mask_of_rle(rle_of_mask(np.eye(2)), 2, 3)
    with pytest.raises(ValueError, match=r"shape \(H, W\)"):
        rle_of_mask(np.zeros(4))
