"""GenEval's rules by hand: positions by check values, and every trap of the released evaluation."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.suites.geneval.aggregation import released_summary, summary_of_counts
from verism.suites.geneval.colours import ColorClassifier, color_sentences, texts_for
from verism.suites.geneval.rules import (
    RuleSet,
    SeenObject,
    decide,
    kept_objects,
    overlap,
    paper_relations,
    released_relations,
)
from verism.suites.geneval.vocabulary import COLORS, opposite

HERE = Path(__file__).parent
RELEASED = RuleSet(relations=released_relations)
PAPER = RuleSet(relations=paper_relations, every_object=True)


def seen(label, score=0.95, box=(0, 0, 100, 100), color=None, number=0):
    return SeenObject(segment=number, label=label, score=score, box=box, color=color)


def prompt(tag, *include, exclude=None):
    return {"tag": tag, "include": list(include), **({"exclude": exclude} if exclude else {}), "prompt": "?"}


def entry(label, count=1, **more):
    return {"class": label, "count": count, **more}


# ----------------------------------------------------------------------------------------------------------- positions
with (HERE / "geneval_position_check_values.csv").open(encoding="utf-8", newline="") as file:
    CHECKS = list(csv.DictReader(file))


@pytest.mark.parametrize("row", CHECKS, ids=lambda row: f"{row['a_x0']},{row['a_y0']}")
def test_relations_are_the_check_values(row):
    a, b = ([float(row[f"{name}_{edge}"]) for edge in ("x0", "y0", "x1", "y1")] for name in "ab")
    assert "|".join(released_relations(a, b)) == row["a_relative_to_b_released"]
    assert "|".join(paper_relations(a, b)) == row["a_relative_to_b_paper"]


def test_the_margin_acts_twice():
    b = (200, 200, 300, 300)
    assert released_relations((240, 200, 340, 300), b) == []
    assert released_relations((241, 200, 341, 300), b) == ["right of"]
    assert paper_relations((221, 200, 321, 300), b) == ["right of"]


boxes = st.tuples(*[st.integers(0, 400)] * 2, *[st.integers(1, 200)] * 2).map(
    lambda v: (v[0], v[1], v[0] + v[2], v[1] + v[3])
)


@given(boxes, boxes)
def test_relations_turn_round_when_the_objects_change_places(a, b):
    for relations in (released_relations, paper_relations):
        assert {opposite(r) for r in relations(a, b)} == set(relations(b, a))
    assert set(released_relations(a, b)) <= set(paper_relations(a, b))


# ---------------------------------------------------------------------------------------------------------- thresholds
def test_thresholds_are_strict():
    assert kept_objects([seen("dog", 0.3)], RELEASED, "single_object") == {}
    assert kept_objects([seen("dog", 0.301)], RELEASED, "single_object") != {}
    assert kept_objects([seen("dog", 0.9)], RELEASED, "counting") == {}


def test_the_counting_threshold_belongs_to_the_task_and_not_to_the_class():
    unsure = [seen("dog", 0.5), seen("cat", 0.5)]
    assert set(kept_objects(unsure, RELEASED, "colors")) == {"dog", "cat"}
    assert kept_objects(unsure, RELEASED, "counting") == {}
    two = prompt("counting", entry("dog", 2), exclude=[entry("dog", 3)])
    assert decide(two, [seen("dog", 0.5), seen("dog", 0.5)], RELEASED).correct == 0
    assert decide(two, [seen("dog", 0.95), seen("dog", 0.91)], RELEASED).correct == 1


def test_only_sixteen_objects_of_a_class_count():
    assert len(kept_objects([seen("dog", 0.4)] * 30, RELEASED, "colors")["dog"]) == 16


def test_overlapping_objects_stay_unless_asked_otherwise():
    twins = [seen("dog", 0.9, number=0), seen("dog", 0.8, (1, 0, 101, 100), number=1)]
    assert len(kept_objects(twins, RELEASED, "colors")["dog"]) == 2
    strict = RuleSet(relations=released_relations, max_overlap=0.5)
    assert [o.segment for o in kept_objects(twins, strict, "colors")["dog"]] == [0]


def test_overlap_counts_the_last_pixel():
    assert overlap((0, 0, 9, 9), (0, 0, 9, 9)) == 1.0
    assert overlap((0, 0, 9, 9), (9, 0, 18, 9)) == pytest.approx(10 / 190)  # one column is shared
    assert overlap((0, 0, 9, 9), (30, 0, 39, 9)) == 0.0


# ---------------------------------------------------------------------------------------------------------------- rules
def test_counting_is_exact_by_its_exclusion_and_extra_objects_hurt_nowhere_else():
    three = prompt("counting", entry("dog", 3), exclude=[entry("dog", 4)])
    for n, correct in ((2, 0), (3, 1), (4, 0), (5, 0)):
        decision = decide(three, [seen("dog")] * n, RELEASED)
        assert (decision.correct, decision.parts["objects"]) == (correct, correct), n
    single = prompt("single_object", entry("dog"))
    assert decide(single, [seen("dog"), seen("dog"), seen("cat")], RELEASED).correct == 1


def test_only_the_most_confident_object_is_asked_for_its_colour_as_released():
    blue = prompt("colors", entry("bench", color="blue"))
    objects = [seen("bench", 0.5, color="blue"), seen("bench", 0.8, color="red")]
    released = decide(blue, objects, RELEASED)
    assert (released.correct, released.reasons) == (0, ("expected blue bench, found red",))
    assert decide(blue, objects, PAPER).correct == 1  # the paper asks every object
    assert decide(blue, objects[:1], RELEASED).correct == 1


def test_only_the_most_confident_object_is_asked_for_its_place():
    left = prompt("position", entry("cat"), entry("dog", position=["left of", 0]))
    cat = seen("cat", box=(300, 0, 400, 100))
    wrong, right = seen("dog", 0.9, (600, 0, 700, 100)), seen("dog", 0.5, (0, 0, 100, 100))
    assert decide(left, [cat, wrong, right], RELEASED).correct == 0
    assert decide(left, [cat, right], RELEASED).correct == 1
    # Reference first: the other way round the same boxes are wrong.
    reverse = prompt("position", entry("dog"), entry("cat", position=["left of", 0]))
    assert decide(reverse, [cat, right], RELEASED).correct == 0


def test_position_without_its_target_says_so():
    left = prompt("position", entry("cat"), entry("dog", position=["left of", 0]))
    decision = decide(left, [seen("dog")], RELEASED)
    assert decision.correct == 0
    assert decision.reasons == ("expected 1 cat, found 0", "no target for dog to be left of")
    assert decision.parts == {"objects": 0.0, "relation": 0.0}
    # The placed object missing: its relation is not looked at.
    assert "relation" not in decide(left, [seen("cat")], RELEASED).parts


def test_both_colours_must_be_right():
    both = prompt("color_attr", entry("cup", color="red"), entry("dog", color="blue"))
    assert decide(both, [seen("cup", color="red"), seen("dog", color="blue")], RELEASED).correct == 1
    assert decide(both, [seen("cup", color="blue"), seen("dog", color="red")], RELEASED).correct == 0


def test_colour_that_nobody_judged_decides_nothing():
    both = prompt("color_attr", entry("cup", color="red"), entry("dog", color="blue"))
    unknown = decide(both, [seen("cup", color="red"), seen("dog")], RELEASED)
    assert unknown.correct is None
    assert unknown.parts["colors"] is None
    assert "not judged" in unknown.reasons[0]
    # Unless something else is wrong.
    assert decide(both, [seen("cup", color="blue"), seen("dog")], RELEASED).correct == 0
    assert decide(both, [seen("cup")], RELEASED).correct == 0


def test_found_numbers_are_told():
    assert decide(prompt("two_object", entry("dog"), entry("cat")), [seen("dog")] * 3, RELEASED).found == {
        "dog": 3,
        "cat": 0,
    }


# -------------------------------------------------------------------------------------------------------------- colours
def test_article_is_always_a_and_three_sentences_make_a_colour():
    assert color_sentences("umbrella", "orange") == (
        "a photo of a orange umbrella",
        "a photo of a orange-colored umbrella",
        "a photo of a orange object",
    )
    assert len(texts_for(["dog", "cup"])) == 2 * 20 + 10


def test_sentences_are_averaged_normalised_and_ties_go_to_the_first():
    vectors = {text: [0.0, 0.0, 1.0] for text in texts_for(["dog"])}
    assert ColorClassifier(vectors).color("dog", [1, 2, 3]) == COLORS[0]
    # A long vector must not outweigh the others: each is normalised before the mean.
    for text, vector in zip(color_sentences("dog", "green"), ([100, 0, 0], [0, 1, 0], [0, 1, 0]), strict=True):
        vectors[text] = vector
    for text in color_sentences("dog", "blue"):
        vectors[text] = [1.0, 0.0, 0.0]
    assert ColorClassifier(vectors).color("dog", [0, 5, 0]) == "green"
    assert ColorClassifier(vectors).color("dog", [5, 0, 0]) == "blue"


# ---------------------------------------------------------------------------------------------------------- aggregation
def test_overall_is_the_mean_of_tasks_and_not_of_images():
    summary = summary_of_counts({"single_object": (4, 4), "counting": (0, 12)})
    assert summary.overall == 0.5
    assert summary.correct_images == 0.25
    assert list(summary.tasks) == ["single_object", "counting"]


def test_missing_images_and_tasks_shrink_the_released_denominators():
    images = [("single_object", "p", True), ("single_object", "p", False), ("colors", "q", True)]
    summary = released_summary(images)
    assert summary.overall == 0.75
    assert (summary.n_images, summary.n_prompts, summary.correct_prompts) == (3, 2, 1.0)
