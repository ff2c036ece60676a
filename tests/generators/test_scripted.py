"""The renderer of known truth."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import PixelRenderer

from verism.errors import UsageError
from verism.generators.scripted import (
    MISTAKES,
    ScriptedGenerator,
    answers_of,
    depths_of,
    detections_of,
    one_hot,
    spoil,
)
from verism.metrics.depth_maps import depth_of_text
from verism.pipeline.local import make_requests
from verism.records import Prompt, Question, Rendered, Scene, SceneFact, SceneObject, schema
from verism.suites.paintskills.suite import PaintSkills

CLASSES = {"dog": "dog", "chair": "chair", "fire hydrant": "fireHydrant"}
COLORS = ("red", "blue", "green")


def scene(skill: str = "object", *objects: SceneObject, background: str = "meadow") -> Scene:
    objects = objects or (SceneObject(shape="dog", label="dog"),)
    return Scene(scene_id="s", skill=skill, split="val", text="", background=background, objects=objects, seed=1)


def test_without_error_all_is_as_asked(prompts, scripted):
    for request, result in zip(make_requests(prompts, 0), scripted().generate(make_requests(prompts, 0))):
        assert (result.image_id, result.state, result.note) == (request.image_id, "ok", "rendered as asked")
        truth = result.truth["detections"].filter(result.truth["detections"]["query"] >= 0)
        assert truth["label"].to_list() == list(request.prompt.spec["labels"])


def test_mistakes_come_at_the_rate_asked_for(scripted):
    prompts = PaintSkills.standard(skills=("object", "count", "spatial", "color"), limit=400).prompts()
    notes = [r.note for r in scripted(0.25).generate(make_requests(prompts, 0))]
    # 400 draws at 1/4: 100 wrong, standard deviation sqrt(400 * 3/16) = 8.7
    assert sum(n != "rendered as asked" for n in notes) == pytest.approx(100, abs=35)
    assert {r.note for r in scripted(1.0).generate(make_requests(prompts[:40], 0))}.isdisjoint({"rendered as asked"})


def test_an_image_depends_on_its_own_seed_alone(prompts, scripted):
    every = {r.image_id: r for r in scripted(0.5).generate(make_requests(prompts, 7))}
    for result in scripted(0.5).generate(make_requests(prompts[::-1][:5], 7)):
        np.testing.assert_array_equal(result.pixels, every[result.image_id].pixels)
        assert result.note == every[result.image_id].note
    other = [r.pixels for r in scripted(0.5).generate(make_requests(prompts, 8))]
    assert not any(np.array_equal(p, q.pixels) for p, q in zip(other, every.values()))


def test_what_cannot_be_rendered_failed_with_the_reason(prompts, suite):
    renderer = PixelRenderer(tuple(suite.classes), suite.colors, fails=[prompts[1].scene.scene_id])
    generator = ScriptedGenerator(renderer, classes=suite.classes, colors=suite.colors, error=0.0)
    results = list(generator.generate(make_requests(prompts, 0)))
    assert [r.state for r in results] == ["ok", "failed"] + ["ok"] * 10
    assert results[1].note == f"no place in {prompts[1].scene.scene_id}"
    assert results[1].pixels is None


def test_a_prompt_without_a_scene_cannot_be_rendered(scripted):
    bare = Prompt(prompt_id="bare", suite="s", text="")
    with pytest.raises(UsageError, match="'bare' has no scene"):
        list(scripted().generate(make_requests([bare], 0)))


def test_the_name_holds_everything_that_decides_the_images(scripted):
    assert scripted(0.2).name == "scripted:error=0.2(pixels@64)"
    assert scripted(0.2, mistakes=("class", "empty")).name == "scripted:error=0.2&mistakes=class+empty(pixels@64)"


@pytest.mark.parametrize("error", [-0.1, 1.5, float("nan")])
def test_error_rates_out_of_range(error, scripted):
    with pytest.raises(UsageError, match="between 0 and 1"):
        scripted(error)


def test_unknown_mistakes(scripted):
    with pytest.raises(UsageError, match=r"unknown mistakes \['colour'\]; choose from"):
        scripted(0.1, mistakes=("class", "colour"))


def test_each_mistake_is_offered_only_where_it_is_one():
    red = SceneObject(shape="dog", label="dog", color="red")
    dog, chair = SceneObject(shape="dog", label="dog"), SceneObject(shape="chair", label="chair", relation="left_0")
    cases = [
        (scene("object"), {"class", "empty"}),
        (scene("object", red), {"class", "empty"}),  # a painted object of another skill: its colour is not asked for
        (scene("color", red), {"class", "empty", "color"}),
        (scene("count", dog, dog), {"class", "empty", "count"}),
        (scene("spatial", dog, chair), {"class", "empty", "relation"}),
        (scene("color", red, background="empty"), {"class", "color"}),
        (scene("color", red, replace(chair, color="blue", relation=None)), {"class", "empty", "color", "binding"}),
        (scene("color", red, replace(chair, color="red", relation=None)), {"class", "empty", "color"}),
    ]
    for value, possible in cases:
        for mistake in MISTAKES:
            for seed in range(4):
                rng = np.random.default_rng(seed)
                if mistake in possible:
                    shown, _ = spoil(value, rng, classes=CLASSES, colors=COLORS, mistakes=(mistake,))
                    assert shown.objects != value.objects
                else:
                    with pytest.raises(UsageError, match="none of the mistakes"):
                        spoil(value, rng, classes=CLASSES, colors=COLORS, mistakes=(mistake,))


def test_attributes_are_swapped_and_lost():
    wooden = SceneObject(shape="solid:cube", label="clock", texture="wooden")
    glass = SceneObject(shape="solid:ball", label="lamp", texture="glass")
    rng = np.random.default_rng(0)

    def made(skill, mistake):
        shown, words = spoil(scene(skill, wooden, glass), rng, classes=CLASSES, colors=COLORS, mistakes=(mistake,))
        return [(o.label, o.shape, o.texture) for o in shown.objects], words

    swapped = [("clock", "solid:cube", "glass"), ("lamp", "solid:ball", "wooden")]
    assert made("texture", "binding") == (swapped, "glass clock, wooden lamp")
    lost = [("clock", "solid:cube", "plain"), ("lamp", "solid:ball", "glass")]
    assert made("texture", "texture") == (lost, "plain instead of wooden")
    swapped = [("clock", "solid:ball", "wooden"), ("lamp", "solid:cube", "glass")]
    assert made("shape", "binding") == (swapped, "solid:ball clock, solid:cube lamp")
    equal = [("clock", "solid:ball", "wooden"), ("lamp", "solid:ball", "glass")]
    assert made("shape", "shape") == (equal, "solid:ball instead of solid:cube")


def test_one_of_several_numbers_is_wrong():
    dog, chair = SceneObject(shape="dog", label="dog"), SceneObject(shape="chair", label="chair")
    asked = scene("count", dog, dog, chair)
    found = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        shown, words = spoil(asked, rng, classes=CLASSES, colors=COLORS, mistakes=("count",))
        labels = [o.label for o in shown.objects]
        found.add((labels.count("dog"), labels.count("chair"), words))
    assert found == {
        (1, 1, "1 dog instead of 2"),
        (3, 1, "3 dog instead of 2"),
        (2, 2, "2 chair instead of 1"),
    }


def test_places_in_depth_turn_around():
    dog = SceneObject(shape="dog", label="dog")
    chair = SceneObject(shape="chair", label="chair", relation="front_0")
    words = {
        spoil(
            scene("spatial", dog, chair), np.random.default_rng(k), classes=CLASSES, colors=(), mistakes=("relation",)
        )[1]
        for k in range(10)
    }
    assert words == {"behind instead of front"}


def test_truth_answers_what_questions_ask_to_be_shown():
    objects = (
        SceneObject(shape="solid:cube", label="clock", color="red"),
        SceneObject(shape="solid:ball", label="lamp", texture="glass"),
        SceneObject(shape="solid:ball", label="vase"),
    )
    rendered = Rendered(
        pixels=np.zeros((9, 9, 3)), boxes=np.zeros((3, 4)), visible=np.array([1, 0.5, 0]), mask=np.zeros((9, 9))
    )
    asked = {
        "a clock": SceneFact(asks="present", label="clock"),
        "a red clock": SceneFact(asks="present", label="clock", color="red"),
        "a blue clock": SceneFact(asks="present", label="clock", color="blue"),
        "a round clock": SceneFact(asks="present", label="clock", shape="solid:ball"),
        "a glass lamp": SceneFact(asks="present", label="lamp", texture="glass"),
        "a vase": SceneFact(asks="present", label="vase"),  # of which nothing can be seen
        "whatever": None,
    }
    questions = [Question(text=text, fact=fact) for text, fact in asked.items()]
    table = answers_of("i", scene("object", *objects), rendered, questions)
    assert table.schema == schema("answers")
    assert table.select("question", "value", "probability").rows() == [
        ("a clock", "yes", 1.0),
        ("a red clock", "yes", 1.0),
        ("a blue clock", "no", 0.0),
        ("a round clock", "no", 0.0),
        ("a glass lamp", "yes", 1.0),
        ("a vase", "no", 0.0),
        ("whatever", None, None),
    ]
    assert answers_of("i", scene("object"), replace(rendered, visible=np.ones(1)), ()).rows()[0][:3] == (
        "i",
        "truth",
        None,
    )


def test_truth_of_depth_is_nearness():
    table = depths_of("i", np.array([[1.0, 2.0], [4.0, np.inf]]))
    assert table.schema == schema("depths")
    assert depth_of_text(table["nearness"][0], 2, 2).tolist() == [[255, 128], [64, 0]]


def test_two_of_a_class_are_never_just_swapped():
    dogs = (SceneObject(shape="dog", label="dog"), SceneObject(shape="dog", label="dog", relation="left_0"))
    made = {
        spoil(scene("spatial", *dogs), np.random.default_rng(k), classes=CLASSES, colors=(), mistakes=("relation",))[1]
        for k in range(20)
    }
    assert made == {"above instead of left"}
    cat = (dogs[0], SceneObject(shape="chair", label="chair", relation="left_0"))
    made = {
        spoil(scene("spatial", *cat), np.random.default_rng(k), classes=CLASSES, colors=(), mistakes=("relation",))[1]
        for k in range(20)
    }
    assert made == {"above instead of left", "right instead of left"}


def test_truth_is_what_a_perfect_detector_would_say():
    objects = (
        SceneObject(shape="fireHydrant", label="fire hydrant", color="blue"),
        SceneObject(shape="teapot", label="teapot"),
    )
    boxes = np.array([[1, 2, 3, 4], [5, 6, 7.5, 8]], np.float32)
    rendered = Rendered(pixels=np.zeros((9, 9, 3)), boxes=boxes, visible=np.ones(2), mask=np.zeros((9, 9)))
    table = detections_of("i", scene("object", *objects), rendered, tuple(CLASSES), COLORS)
    assert table.schema == schema("detections")
    looked, hydrant, teapot = table.iter_rows(named=True)
    assert (looked["query"], looked["label"], looked["judge"]) == (-1, None, "truth")
    assert [hydrant[k] for k in ("x0", "y0", "x1", "y1", "score")] == [1, 2, 3, 4, 1]
    assert (hydrant["label"], hydrant["class_scores"]) == ("fire hydrant", [0.0, 0.0, 1.0])
    assert (hydrant["color"], hydrant["color_scores"]) == ("blue", [0.0, 1.0, 0.0])
    assert (teapot["label"], teapot["raw_label"], teapot["class_scores"]) == (None, "teapot", [0.0, 0.0, 0.0])
    assert (teapot["color"], teapot["color_scores"]) == (None, [])
    assert one_hot("b", "abc").tolist() == [0, 1, 0]


def test_closing_reaches_the_renderer(suite):
    class Closing(PixelRenderer):
        closed = False

        def close(self):
            self.closed = True

    renderer = Closing((), ())
    ScriptedGenerator(renderer, classes={}, colors=()).close()
    assert renderer.closed
    ScriptedGenerator(PixelRenderer((), ()), classes=suite.classes, colors=()).close()
