"""Requests that are made when they are asked for, and what is left of them."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.pipeline import selections
from verism.pipeline.local import make_requests
from verism.pipeline.selections import Blocks, Chosen, Either, pending_items
from verism.records import Prompt
from verism.store import IdSet


def prompts(count: int, n_images: int) -> list[Prompt]:
    return [Prompt(prompt_id=f"p{n}", suite="s", text="a dog", n_images=n_images) for n in range(count)]


@given(st.lists(st.integers(0, 3), max_size=6), st.integers(-4, 12), st.integers(-4, 12), st.sampled_from([1, 2, -1]))
def test_blocks_and_their_slices_are_those_of_a_list(sizes, start, stop, step):
    made = [(block, index) for block, size in enumerate(sizes) for index in range(size)]
    lazy = Blocks(sizes, lambda block, index: (block, index))
    assert list(lazy) == made
    assert len(lazy) == len(made)
    assert [lazy[n] for n in range(-len(made), len(made))] == made + made
    cut = lazy[start:stop:step]
    assert list(cut) == made[start:stop:step]
    assert list(cut[::-1][:2]) == made[start:stop:step][::-1][:2]
    with pytest.raises(IndexError):
        lazy[len(made)]


@given(st.lists(st.booleans(), max_size=20), st.sampled_from([1, 3, 100]))
def test_what_is_pending_is_what_is_not_done_in_order(done, asked):
    items = [f"i{n}" for n in range(len(done))]
    known = {item for item, is_done in zip(items, done, strict=True) if is_done}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selections, "ASKED", asked)
        some = {item for item in known if int(item[1:]) % 2}
        for each in (known, IdSet(known), Either(IdSet(known - some), some)):
            assert {item for item in items if item in each} == known
            left = pending_items(items, str, each)
            assert list(left) == [item for item in items if item not in known]
            again = pending_items(left, str, IdSet(["i0", "i3"]))
            assert list(again) == [item for item in items if item not in known | {"i0", "i3"}]


def test_a_selection_of_a_selection_holds_no_chain():
    left = pending_items(pending_items(list("abcd"), str, {"a"}), str, {"c"})
    assert list(left) == ["b", "d"]
    assert isinstance(left, Chosen)
    assert isinstance(left._items, list)


def test_requests_are_not_held():
    def held(n_images: int) -> int:
        tracemalloc.start()
        requests = make_requests(prompts(10, n_images), 5)
        assert len({request.seed for request in requests}) > 9 * n_images
        left = pending_items(requests, lambda r: r.image_id, {"p0#0"})
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert len(left) == 10 * n_images - 1
        return size

    # A list of them takes some 400 bytes each. What threads of other tests allocate meanwhile is counted, too, but not
    # each time.
    few, many = (min(held(n_images) for _ in range(3)) for n_images in (100, 600))
    assert many - few < 9 * 10 * 500
