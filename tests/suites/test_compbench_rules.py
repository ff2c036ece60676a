"""The rules of T2I-CompBench by hand: check values of the released functions, and every trap of them."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.suites.compbench import spatial
from verism.suites.compbench.binding import (
    asked_phrases,
    paper_binding,
    question_of,
    released_binding,
    released_phrases,
    revised_binding,
)
from verism.suites.compbench.boxes import SeenBox, detector_size, inside_share, overlap, scaled
from verism.suites.compbench.combination import paper_three_in_one, released_three_in_one
from verism.suites.compbench.multimodal import (
    level_of,
    level_questions,
    released_level_score,
    revised_level_score,
    scale_of,
)
from verism.suites.compbench.numeracy import (
    Counted,
    asked_numbers,
    distinct_boxes,
    released_numbers,
    revised_numbers,
    score_of,
)
from verism.suites.compbench.vocabulary import (
    DEPTH_RELATIONS,
    NUMERACY_OBJECTS,
    RELATIONS,
    RENAMED,
    SPATIAL_OBJECTS,
    has_exact_label,
    labels_containing,
    unified_labels,
)

HERE = Path(__file__).parent


def table(name):
    with (HERE / f"compbench_{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def corners(row, name):
    return tuple(float(row[f"{name}_{edge}"]) for edge in ("x0", "y0", "x1", "y1"))


def seen(label, score=0.9, box=(0, 0, 100, 100), raw=None):
    return SeenBox(label=label, raw_label=raw or label, score=score, box=tuple(map(float, box)))


# ---------------------------------------------------------------------------------------------------------- vocabulary
def test_labels_are_the_722_of_the_released_detector():
    labels = unified_labels()
    assert len(labels) == 722
    assert labels[:3] == ("bottle", "cup", "dining table")


def test_objects_and_their_labels_are_the_listed_ones():
    rows = table("spatial_objects")
    assert [row["object"] for row in rows] == list(SPATIAL_OBJECTS)
    for row in rows:
        name = spatial.detector_name(row["object"])
        assert name == row["detector_name"]
        assert has_exact_label(name) == (row["exact_label_exists_2d"] == "yes"), name
        assert bool(labels_containing(name)) == (row["some_label_contains_it_3d"] == "yes"), name
        others = sorted(label for label in labels_containing(name) if label != name)
        assert others == sorted(filter(None, row["labels_containing_it"].split("; "))), name


def test_counted_objects_are_the_listed_ones():
    rows = table("numeracy_objects")
    assert {row["singular"]: row["plural"] for row in rows} == NUMERACY_OBJECTS
    for row in rows:
        name = RENAMED.get(row["singular"], row["singular"])
        assert name == row["detector_name"]
        assert has_exact_label(name) == (row["exact_label_exists"] == "yes"), name


def test_relations_are_the_listed_ones():
    for row in table("relations"):
        if row["category"] == "spatial":
            assert row["phrase"] in RELATIONS
            assert spatial.relation_of_prompt(f"a cat {row['phrase']} a dog") == row["phrase"]
        else:
            assert spatial.depth_of_prompt(f"a cat {row['phrase']} a dog") in DEPTH_RELATIONS


def test_the_first_relation_of_the_list_counts_not_the_first_of_the_prompt():
    assert spatial.relation_of_prompt("a cat on the left of a dog near a cow") == "near"
    assert spatial.relation_of_prompt("a cat on top of a dog") == "on top of"
    assert spatial.relation_of_prompt("a cat and a dog") is None


# --------------------------------------------------------------------------------------------------------------- boxes
def test_sizes_of_the_detector_s_input():
    assert detector_size(512, 512) == (479, 479)
    assert detector_size(1024, 768) == (480, 360)
    assert detector_size(480, 479) == (480, 479)
    [half] = scaled([seen("cat", box=(0, 100, 200, 300))], (400, 400), (200, 100))
    assert half.box == (0, 25, 100, 75)


def test_overlap_by_hand():
    assert overlap((0, 0, 10, 10), (5, 0, 15, 10)) == pytest.approx(50 / 150)
    assert overlap((0, 0, 9, 9), (0, 0, 9, 4), last_pixel=1) == pytest.approx(50 / 100)
    assert inside_share((0, 0, 9, 9), (0, 0, 9, 4), last_pixel=1) == pytest.approx(0.5)
    assert overlap((0, 0, 0, 0), (0, 0, 0, 0)) == 0.0


# ----------------------------------------------------------------------------------------------- relations in the image
FLAT = table("spatial2d_check_values")


@pytest.mark.parametrize("row", FLAT, ids=lambda r: f"{r['a_x0']},{r['a_y0']}-{r['b_x0']},{r['b_y0']}-{r['relation']}")
def test_positions_are_the_released_check_values(row):
    a, b = corners(row, "a"), corners(row, "b")
    printed = float(row["position_score_released"])
    assert spatial.released_position(row["relation"], a, b) == pytest.approx(printed, abs=5e-7)
    boxes = [seen("cat", float(row["score_a"]), a), seen("dog", float(row["score_b"]), b)]
    made = spatial.released_score(("cat", "dog"), row["relation"], boxes)
    assert made.score == pytest.approx(float(row["final_released"]), abs=5e-7)
    assert made.found == 2
    paper = spatial.paper_score(("cat", "dog"), row["relation"], boxes)
    assert paper.score == float(printed == 1)


def test_released_labels_must_equal_the_name_and_the_name_must_be_a_label():
    left, right = seen("sofa", 1.0, (0, 0, 100, 100)), seen("dog", 1.0, (300, 0, 400, 100))
    assert spatial.released_score(("sofa", "dog"), "on the left of", [left, right]).score == 0.0
    assert spatial.revised_score(("sofa", "dog"), "on the left of", [left, right]).score == 1.0
    hot = seen("hot dog", 1.0, (300, 0, 400, 100))
    assert spatial.released_score(("cat", "dog"), "near", [seen("cat", 1.0), hot]).found == 1


def test_the_gate_takes_what_lies_below_one_half():
    alone = [seen("cat", 1.0)]
    assert spatial.released_score(("cat", "dog"), "near", alone).score == 0.0
    assert spatial.revised_score(("cat", "dog"), "near", alone).score == 0.25
    both = [seen("cat", 1.0, (0, 0, 50, 50)), seen("dog", 1.0, (200, 0, 250, 50))]
    assert spatial.released_score(("cat", "dog"), "on the right of", both).score == 0.5  # not below it
    unsure = [both[0], seen("dog", 0.99, (200, 0, 250, 50))]
    assert spatial.released_score(("cat", "dog"), "on the right of", unsure).score == 0.0
    assert spatial.revised_score(("cat", "dog"), "on the right of", unsure).score == pytest.approx(0.4975)


def test_the_most_confident_box_of_a_name_counts():
    boxes = [seen("cat", 0.3, (300, 0, 350, 50)), seen("cat", 0.8, (0, 0, 50, 50)), seen("dog", 0.9, (150, 0, 200, 50))]
    made = spatial.released_score(("cat", "dog"), "on the left of", boxes)
    assert made.score == pytest.approx(0.25 * 0.8 + 0.25 * 0.9 + 0.5)


def test_on_top_of_is_unhandled_as_released_and_handled_as_revised():
    boxes = [seen("cat", 1.0, (100, 0, 150, 50)), seen("dog", 1.0, (100, 200, 150, 250))]
    assert spatial.released_position("on top of", boxes[0].box, boxes[1].box) == 0.0
    assert spatial.released_score(("cat", "dog"), "on top of", boxes).score == 0.5
    assert spatial.revised_score(("cat", "dog"), "on top of", boxes).score == 1.0


def test_two_people_are_one_box_as_released_and_two_as_revised():
    boxes = [seen("person", 1.0, (300, 0, 350, 100)), seen("person", 0.9, (0, 0, 50, 100))]
    released = spatial.released_score(("man", "woman"), "on the left of", boxes)
    assert (released.position, released.score) == (0.0, 0.5)  # the same box twice
    revised = spatial.revised_score(("man", "woman"), "on the left of", boxes)
    assert revised.score == pytest.approx(0.25 * 1.9 + 0.5)
    alone = spatial.revised_score(("man", "woman"), "on the left of", boxes[:1])
    assert (alone.found, alone.score) == (1, 0.25)


def test_near_needs_one_axis_as_released_and_both_as_revised():
    a, b = (0, 0, 10, 10), (400, 0, 410, 10)
    assert spatial.released_position("near", a, b) == 1.0
    assert spatial.revised_position("near", a, b) == pytest.approx(150 / 400)
    assert spatial.revised_position("near", a, a) == 1.0


box_values = st.tuples(*[st.integers(0, 300)] * 2, *[st.integers(1, 150)] * 2).map(
    lambda v: (float(v[0]), float(v[1]), float(v[0] + v[2]), float(v[1] + v[3]))
)
OPPOSITE = {
    "on the left of": "on the right of",
    "on the top of": "on the bottom of",
    "near": "near",
    "next to": "next to",
    "on top of": "on top of",
}


@given(box_values, box_values, st.sampled_from(sorted(OPPOSITE)))
def test_relations_turn_with_their_objects(a, b, relation):
    assert spatial.released_position(relation, a, b) == spatial.released_position(OPPOSITE[relation], b, a)


@given(box_values, box_values, st.sampled_from(RELATIONS), st.floats(0.1, 1), st.floats(0.1, 1))
def test_released_2d_scores_are_0_or_at_least_one_half(a, b, relation, first, second):
    boxes = [seen("cat", first, a), seen("dog", second, b)]
    score = spatial.released_score(("cat", "dog"), relation, boxes).score
    assert score == 0 or 0.5 <= score <= 1 + 1e-12


# ------------------------------------------------------------------------------------------------------------ in depth
MAPS = {
    "nearer_to_the_right": np.broadcast_to(np.arange(480) / 479, (480, 480)),
    "nearer_to_the_bottom": np.broadcast_to((np.arange(480) / 479)[:, None], (480, 480)),
}


@pytest.mark.parametrize("row", table("spatial3d_check_values"))
def test_depth_relations_are_the_released_check_values(row):
    depth = MAPS[row["depth_map_480x480_in_0_1"]]
    a, b = corners(row, "a"), corners(row, "b")
    columns = {True: "position_score_released_indexing_xy", False: "position_score_with_correct_indexing_yx"}
    for swapped, column in columns.items():
        made = spatial.released_depth_position(row["relation"], a, b, depth, swapped=swapped)
        gap = spatial.box_depth(depth, a, swapped=swapped) - spatial.box_depth(depth, b, swapped=swapped)
        if abs(gap) < 1e-9:  # equal depths, which rounding alone tells apart, in this or that order
            assert made in (0.0, pytest.approx(spatial.overlap(a, b) / 0.5))
        else:
            assert made == pytest.approx(float(row[column]), abs=5e-7)


def test_an_overlap_of_exactly_one_half_is_worth_nothing():
    a, b = (0, 0, 200, 100), (0, 0, 100, 100)  # IoU 0.5, b inside a
    depth = np.zeros((480, 480))
    depth[:100, 100:200] = 1  # a is nearer
    assert overlap(a, b) == 0.5
    assert spatial.released_depth_position("in front of", a, b, depth, swapped=False) == 0.0
    slightly = (0, 0, 200, 101)
    assert spatial.released_depth_position("in front of", slightly, b, depth, swapped=False) == pytest.approx(
        10_000 / 20_200 / 0.5
    )


def test_boxes_that_do_not_meet_score_nothing_as_released_and_all_as_revised():
    depth = MAPS["nearer_to_the_right"]
    boxes = [seen("cat", 1.0, (300, 0, 400, 100)), seen("dog", 1.0, (0, 0, 100, 100))]
    released = spatial.released_depth_score(("cat", "dog"), "in front of", boxes, depth, swapped=False)
    assert released.score == 0.5
    assert spatial.revised_depth_score(("cat", "dog"), "in front of", boxes, depth).score == 1.0
    assert spatial.revised_depth_score(("dog", "cat"), "behind", boxes, depth).score == 1.0
    assert spatial.revised_depth_score(("dog", "cat"), "hidden", boxes, depth).score == 0.5  # nothing hides it
    touching = [seen("cat", 1.0, (104, 0, 204, 100)), seen("dog", 1.0, (0, 0, 100, 100))]
    assert spatial.revised_depth_score(("dog", "cat"), "hidden", touching, depth).score == 1.0
    apart = [seen("cat", 1.0, (106, 0, 206, 100)), seen("dog", 1.0, (0, 0, 100, 100))]
    assert spatial.revised_depth_score(("dog", "cat"), "hidden", apart, depth).score == 0.5


def test_swapped_regions_outside_the_map_are_nothing():
    depth = np.ones((100, 300))
    assert math.isnan(spatial.box_depth(depth, (150, 0, 200, 50), swapped=True))
    assert spatial.released_depth_position("behind", (150, 0, 200, 50), (150, 0, 190, 50), depth) == 0.0
    assert spatial.box_depth(depth, (150, 0, 200, 50)) == 1.0


def test_the_median_is_not_moved_by_the_surroundings():
    depth = np.zeros((100, 100))
    depth[:, :60] = 0.5
    assert spatial.box_depth(depth, (0, 0, 100, 100), middle=True) == 0.5
    assert spatial.box_depth(depth, (0, 0, 100, 100)) == pytest.approx(0.3)


def test_released_depth_labels_contain_the_name():
    depth = MAPS["nearer_to_the_right"]
    boxes = [seen("carrot", 0.9, (0, 0, 100, 100)), seen("cat", 0.5, (10, 0, 110, 100))]
    a, b = spatial.released_depth_pair(("car", "cat"), boxes)
    assert a.raw_label == "carrot"
    assert b.raw_label == "cat"
    assert spatial.released_depth_score(("wallet", "cat"), "behind", [seen("wallet")], depth).found == 0


def test_a_later_match_takes_the_place_of_the_first_until_both_are_found():
    boxes = [seen("cat", 0.9), seen("cat", 0.8), seen("dog", 0.7), seen("cat", 0.6)]
    a, b = spatial.released_depth_pair(("cat", "dog"), boxes)
    assert (a.score, b.score) == (0.8, 0.7)
    alone, nothing = spatial.released_depth_pair(("cat", "bird"), boxes)
    assert (alone.score, nothing) == (0.6, None)
    # One box may serve both: the label "hot dog" holds "dog", and both are people.
    assert spatial.released_depth_pair(("man", "woman"), [seen("person")])[0] is not None
    man, woman = spatial.released_depth_pair(("man", "woman"), [seen("person")])
    assert man is woman


# ------------------------------------------------------------------------------------------------------------- numbers
def numbers(text, **options):
    return [(c.name, c.asked) for c in asked_numbers(text, **options)]


def test_numbers_are_read_as_released():
    assert numbers("three birds, two knives and a cake") == [("bird", 3), ("knife", 2), ("cake", 1)]
    assert numbers("Eight people near one bus") == [("person", 8)]  # a bus is not in the list
    assert numbers("two red apples") == []  # only the two words behind the number are looked up
    assert numbers("an egg") == [("egg", 1)]
    assert numbers("two fish and three sheep") == [("fish", 2), ("sheep", 3)]
    assert numbers("two fish and three dogs", edition="2024") == [("fish", 1), ("dog", 3)]


def test_repetitions_of_a_label_are_dropped():
    same = [seen("cat", 0.9, (0, 0, 99, 99)), seen("cat", 0.8, (0, 0, 97, 99)), seen("cat", 0.7, (10, 10, 40, 40))]
    assert [b.score for b in distinct_boxes(same)] == [0.9]
    other = [seen("cat", 0.9, (0, 0, 99, 99)), seen("dog", 0.8, (0, 0, 99, 99)), seen("cat", 0.7, (50, 0, 149, 99))]
    assert len(distinct_boxes(other)) == 3


def test_numeracy_scores_by_hand():
    asked = asked_numbers("two cats and three dogs")
    spread = [(0, 0, 20, 20), (30, 0, 50, 20), (60, 0, 80, 20)]
    boxes = [seen("cat", box=spread[0]), seen("cat", box=spread[1]), seen("dog", box=spread[2])]
    counted = released_numbers(asked, boxes)
    assert [c.found for c in counted] == [2, 1]
    assert score_of(counted) == pytest.approx(0.75)
    assert score_of(released_numbers(asked, [])) == 0.0
    assert score_of([]) is None  # the released code divides by zero


def test_labels_that_contain_the_name_stand_in_where_none_equals_it():
    asked = [Counted(name="car", asked=1)]
    assert released_numbers(asked, [seen("carrot")])[0].found == 1
    assert released_numbers(asked, [seen("carrot"), seen("car", box=(200, 0, 300, 99))])[0].found == 1
    assert revised_numbers(asked, [seen("carrot")])[0].found == 0
    picture = [Counted(name="painting", asked=1)]
    assert released_numbers(picture, [seen(None, raw="picture, frame")])[0].found == 1
    assert revised_numbers(picture, [seen(None, raw="picture, frame")])[0].found == 1
    boat = [Counted(name="ship", asked=2)]
    two = [seen("boat"), seen("boat", box=(200, 0, 300, 99))]
    assert released_numbers(boat, two)[0].found == revised_numbers(boat, two)[0].found == 2


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), min_size=1, max_size=5))
def test_numeracy_scores_lie_between_0_and_1_and_are_1_for_exact_numbers_alone(pairs):
    score = score_of([Counted(name="cat", asked=asked, found=found) for asked, found in pairs])
    assert 0 <= score <= 1 + 1e-12
    assert (score > 1 - 1e-9) == all(asked == found for asked, found in pairs)


# ------------------------------------------------------------------------------------------------------------- binding
def test_questions_are_prepared_as_released():
    assert question_of('The "Red" car.') == "the red car?"
    assert question_of("a (blue) wall; #1: *new*~!") == "a blue wall 1 new?"


def test_phrases_of_places_and_those_beyond_the_eighth_are_left_out():
    phrases = ["a cat", "the left", "a dog", *[f"thing {k}" for k in range(9)]]
    assert len(released_phrases(phrases)) == 8
    assert "the left" not in released_phrases(phrases)
    assert released_phrases(phrases, np_num=2) == ("a cat", "a dog")
    assert released_phrases(phrases, np_num=2, filtered=False) == ("a cat", "the left")
    assert len(asked_phrases(phrases)) == 11


def test_binding_products_by_hand():
    assert released_binding([0.81, 0.81, 0.81, 0.81]) == pytest.approx(0.4305, abs=5e-5)  # 0.81 ** 4, four decimals
    assert released_binding([0.99996, 0.5]) == 0.5  # 0.99996 is 1.0 in four decimals
    assert released_binding([]) == 1.0
    assert released_binding([0.5, None]) is None
    assert paper_binding([0.99996, 0.5]) == pytest.approx(0.49998)
    assert paper_binding([]) is None
    assert revised_binding([0.81, 0.81, 0.81, 0.81]) == pytest.approx(0.81)
    assert revised_binding([0.25, 1.0]) == pytest.approx(0.5)
    assert revised_binding([]) is None
    assert revised_binding([0.5, None]) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_a_product_is_never_above_the_geometric_mean(probabilities):
    rounded = 5e-5 * (len(probabilities) + 1)
    assert released_binding(probabilities) <= revised_binding(probabilities) + rounded
    assert 0 <= released_binding(probabilities) <= 1


# ------------------------------------------------------------------------------------------------------------- complex
def test_three_in_one_is_routed_as_released_and_a_plain_mean_in_the_paper():
    parts = {"binding": 0.6, "spatial": 0.0, "clip": 0.3}
    assert released_three_in_one("spatial", parts) == pytest.approx(0.3)
    assert released_three_in_one("action", parts) == pytest.approx(0.45)
    assert released_three_in_one("both", parts) == pytest.approx(0.3)
    assert paper_three_in_one(parts) == pytest.approx(0.3)
    assert released_three_in_one("action", {"binding": 0.6, "clip": None}) is None
    assert released_three_in_one("spatial", {"binding": 0.6, "spatial": 0.0}) == pytest.approx(0.3)


# ---------------------------------------------------------------------------------------------------------- multimodal
def test_levels_are_the_listed_percentages():
    for row in table("mllm_levels"):
        if row["judge"] != "ShareGPT4V-CoT":
            continue
        for category in row["category"].replace("action", "non_spatial").split():
            assert scale_of(category, "share-cot")[int(row["level"])] == float(row["percent"])


def test_unreadable_replies_count_100_0_or_nothing():
    assert released_level_score(["4", "hard to say"], "color", "share-cot") == 1.0
    assert released_level_score(["3", "2"], "color", "share-cot") == pytest.approx(0.15)
    assert released_level_score(["nothing"], "spatial", "gpt-4v") == 0.0
    assert released_level_score(["4"], "spatial", "gpt-4v") == 0.8
    assert revised_level_score(["4", "hard to say"], "color", "share-cot") is None
    assert revised_level_score([], "color", "share-cot") is None
    assert revised_level_score(["3", "2"], "color", "share-cot") == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("reply", "level"),
    [("Level: 3", 3), ("2 cars. 4", 4), ("4.", 4), ("12", None), ("0", None), ("3.5", None), ("", None), ("5", None)],
)
def test_levels_are_read_from_the_end_of_a_reply(reply, level):
    assert level_of(reply, 4) == level


def test_each_phrase_is_asked_about_or_the_whole_once():
    assert len(level_questions("color", "a red car and a blue cup", ["a red car", "a blue cup"], "share-cot")) == 2
    assert len(level_questions("color", "a red car and a blue cup", ["a red car", "a blue cup"], "gpt-4v")) == 1
    [whole] = level_questions("numeracy", "two {cars}", [], "share-cot")
    assert "two {cars}" in whole
    assert "number of every kind" in whole
