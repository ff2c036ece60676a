"""How the built-in model tells an image in tokens, and how its layers become one."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.generators.layered import (
    LOG_SIDES,
    MOST_OBJECTS,
    PAD,
    PLACES,
    SIDES,
    UNKNOWN,
    Description,
    Language,
    Placed,
    compose,
    mirrored_text,
    words_of,
)

LANGUAGE = Language(
    words=("2", "a", "dog", "dogs", "is", "left", "right", "to"),
    labels=("bus", "dog"),
    backgrounds=("beach", "meadow", "room"),
    text_length=5,
    scenery_codes=4,
    figure_codes=3,
)
CODE = st.integers(0, 63)
OBJECT = st.builds(
    Placed,
    label=st.sampled_from(LANGUAGE.labels),
    x=st.floats(0, 1),
    y=st.floats(0, 1),
    side=st.floats(0.07, 0.9),
    codes=st.tuples(CODE, CODE, CODE),
)
DESCRIPTION = st.builds(
    Description,
    background=st.sampled_from(LANGUAGE.backgrounds),
    codes=st.tuples(CODE, CODE, CODE, CODE),
    objects=st.lists(OBJECT, max_size=MOST_OBJECTS).map(tuple),
)


def test_words_are_lower_case_without_punctuation() -> None:
    assert words_of("There are 2 objects; the Dog, is left!") == [
        "there",
        "are",
        "2",
        "objects",
        "the",
        "dog",
        "is",
        "left",
    ]


def test_a_mirrored_image_has_left_and_right_swapped() -> None:
    assert mirrored_text("a dog is left to a bus; right?") == "a dog is right to a bus; left?"
    assert mirrored_text("a dog above a leftover brightness") == "a dog above a leftover brightness"


def test_prompts_are_padded_in_front_and_say_what_was_lost() -> None:
    # words 2 a dog dogs is left right to -> 2 3 4 5 6 7 8 9
    assert LANGUAGE.read("a dog") == ([PAD, PAD, PAD, 3, 4], [])
    assert LANGUAGE.read("a purple dog") == ([PAD, PAD, 3, UNKNOWN, 4], ["purple"])
    assert LANGUAGE.read("2 dogs is left to a bus") == ([2, 5, 6, 7, 9], ["a", "bus"])


def test_tokens_are_numbered_in_one_row_without_gap_or_overlap() -> None:
    kinds = ["text", "background", "scenery", "label", "x", "y", "side", "look_0", "look_1", "look_2"]
    spans = [LANGUAGE.span(k) for k in kinds]
    assert spans[0][0] == 0
    assert all(a[1] == b[0] for a, b in zip(spans, spans[1:], strict=False))
    assert spans[-1][1] == LANGUAGE.vocabulary
    # 2 + 8 text, 3, 64, 2 + end, 96, 96, 48, 3 * 64
    assert LANGUAGE.vocabulary == 10 + 3 + 64 + 3 + 96 + 96 + 48 + 192
    assert LANGUAGE.end == 10 + 3 + 64 + 2


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError):
        LANGUAGE.span("look_3")


@given(DESCRIPTION)
def test_a_description_survives_being_written_and_read(description: Description) -> None:
    row = LANGUAGE.write(description)
    assert len(row) == 1 + 4 + 7 * len(description.objects) + 1
    for offset, token in enumerate(row):
        low, high = LANGUAGE.span(LANGUAGE.kind_at(LANGUAGE.text_length + offset))
        assert low <= token < high
    back = LANGUAGE.understand(row + [0] * 9)
    assert (back.background, back.codes) == (description.background, description.codes)
    assert len(back.objects) == len(description.objects)
    for was, now in zip(description.objects, back.objects, strict=True):
        assert (was.label, was.codes) == (now.label, now.codes)
        # Numbers come back as the middle of their step: at most half a step away.
        assert abs(was.x - now.x) <= 0.5 / PLACES + 1e-9
        assert abs(was.y - now.y) <= 0.5 / PLACES + 1e-9
        assert abs(np.log(was.side / now.side)) <= 0.5 * (LOG_SIDES[1] - LOG_SIDES[0]) / SIDES + 1e-9
    assert LANGUAGE.write(back) == row


def test_the_longest_row_fits() -> None:
    dog = Placed(label="dog", x=0.5, y=0.5, side=0.2, codes=(0,) * 3)
    most = Description(background="room", codes=(0,) * 4, objects=(dog,) * MOST_OBJECTS)
    assert LANGUAGE.text_length + len(LANGUAGE.write(most)) == LANGUAGE.length


def test_tokens_that_say_numbers_tell_them() -> None:
    levels = LANGUAGE.levels()
    assert set(levels) == {"x", "y", "side", "scenery", "look_0", "look_1", "look_2"}
    assert levels["x"][[0, -1], 0].tolist() == [0.5 / PLACES, 1 - 0.5 / PLACES]
    assert levels["look_0"][[0, 9, 63]].tolist() == [[0, 0], [1 / 7, 1 / 7], [1, 1]]  # 9 = 1 * 8 + 1


def test_a_language_survives_json() -> None:
    assert Language.from_json(json.loads(json.dumps(asdict(LANGUAGE)))) == LANGUAGE


# --------------------------------------------------------------------------------------------------------------- images
def square(color: tuple[float, float, float], shadow: float = 0.0) -> np.ndarray:
    """A figure: its middle half is opaque and of one colour, shadow all around."""
    figure = np.zeros((8, 8, 5), dtype=np.float32)
    figure[..., 4] = shadow
    figure[2:6, 2:6, :3] = color
    figure[2:6, 2:6, 3] = 1
    figure[2:6, 2:6, 4] = 0
    return figure


def placed(x: float, y: float, side: float = 0.5) -> Placed:
    return Placed(label="dog", x=x, y=y, side=side, codes=(0, 0, 0))


GREY = np.full((4, 4, 3), 0.5, dtype=np.float32)


def test_scenery_alone_fills_the_image() -> None:
    image = compose(GREY, np.zeros((0, 1, 1, 5)), (), 16, 1.0)
    assert image.shape == (16, 16, 3)
    assert image.dtype == np.uint8
    assert (image == 128).all()


def test_an_object_lies_where_it_is_said_to() -> None:
    # Square of side 0.5 * 16 = 8 pixels around (4, 8): columns 0-7, rows 4-11; its opaque half columns 2-5, rows 6-9.
    image = compose(GREY, square((1, 0, 0))[None], (placed(0.25, 0.5),), 16, 1.0)
    red = (image == (255, 0, 0)).all(axis=2)
    ys, xs = np.nonzero(red)
    assert (xs.min(), xs.max(), ys.min(), ys.max()) == (2, 5, 6, 9)
    assert (image[~red] == 128).all()


def test_a_shadow_darkens_what_is_around() -> None:
    image = compose(GREY, square((1, 0, 0), shadow=0.5)[None], (placed(0.5, 0.5, 1.0),), 16, 1.0)
    assert (image[0, 0] == 64).all()  # 0.5 * (1 - 0.5) * 255
    assert (image[8, 8] == (255, 0, 0)).all()


def test_what_stands_lower_hides_what_stands_higher_whatever_the_order() -> None:
    near, far = placed(0.5, 0.65, 1.0), placed(0.5, 0.45, 1.0)
    red, blue = square((1, 0, 0)), square((0, 0, 1))
    one = compose(GREY, np.stack([red, blue]), (near, far), 20, 1.0)
    other = compose(GREY, np.stack([blue, red]), (far, near), 20, 1.0)
    assert (one == other).all()
    assert (one[12, 10] == (255, 0, 0)).all()
    assert (one[6, 10] == (0, 0, 255)).all()


def test_objects_at_the_edge_are_cut_off() -> None:
    image = compose(GREY, square((1, 0, 0))[None], (placed(0.0, 0.0, 1.0),), 16, 1.0)
    assert (image[0, 0] == (255, 0, 0)).all()
    assert (image[8, 8] == 128).all()
    outside = replace(placed(0.0, 0.0, 0.1), x=-3.0)
    assert (compose(GREY, square((1, 0, 0))[None], (outside,), 16, 1.0) == 128).all()


def test_colours_of_transparent_pixels_do_not_bleed_in() -> None:
    figure = square((1, 1, 1))
    figure[figure[..., 3] == 0, :3] = (0, 1, 0)  # unseen green all around
    image = compose(GREY * 0, figure[None], (placed(0.5, 0.5, 1.0),), 13, 1.0).astype(int)
    assert abs(image[..., 1] - image[..., 0]).max() == 0
