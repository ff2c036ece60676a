"""The built-in judge of questions: the forms it reads, its answers about renders, and what it does not answer."""

from __future__ import annotations

import numpy as np
import pytest

from verism.errors import UsageError
from verism.judges.embedding.embedder_files import Seen
from verism.judges.vqa.builtin import BuiltinVqa
from verism.judges.vqa.question_forms import Asked, Vocabularies, read_question
from verism.records import AnswerNeed, CaptionNeed, LoadedImage, Question, Scene, SceneObject
from verism.simulator.portraits import PeopleRenderer
from verism.simulator.scene_renderer import SceneRenderer

KNOWN = Vocabularies(
    classes=("person", "dog", "bus", "bench", "stop sign", "bicycle"), colors=("red", "blue"), garments=("hat", "boots")
)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Is the person wearing a hat?", Asked(kind="garment", thing="hat")),
        ("Is the person wearing boots?", Asked(kind="garment", thing="boots")),
        ("Does the person wear a hat?", Asked(kind="garment", thing="hat")),
        ("is there a person wearing a hat", Asked(kind="garment", thing="hat")),
        ("Is the person wearing a uniform?", "word"),
        ("Is there a person in the picture?", Asked(kind="present", thing="person")),
        ("Is there a stop sign?", Asked(kind="present", thing="stop sign")),
        ("Are there any benches? Please answer yes or no.", Asked(kind="present", thing="bench")),
        ("Is there a unicorn?", "word"),
        ("Are there exactly three dogs?", Asked(kind="number", thing="dog", number=3)),
        ("Is there exactly one bus?", Asked(kind="number", thing="bus", number=1)),
        ("Are there 4 buses in the image?", Asked(kind="number", thing="bus", number=4)),
        ("How many dogs are there?", Asked(kind="how_many", thing="dog")),
        ("How many dogs are in the image? Answer in one word.", Asked(kind="how_many", thing="dog")),
        ("Is there a dog in the image? Answer in one word.", Asked(kind="present", thing="dog")),
        ("Is the bus red?", Asked(kind="colour", thing="bus", color="red")),
        ("Is the bus chartreuse?", "word"),
        ("What color is the stop sign?", Asked(kind="what_colour", thing="stop sign")),
        ("Is the dog to the left of the bus?", Asked(kind="side", thing="dog", other="bus", side="left")),
        ("Is the stop sign above the bike?", Asked(kind="side", thing="stop sign", other="bicycle", side="above")),
        ("the person looks like a male or a female?", "gender"),
        ("Is there a woman?", "gender"),
        ("Is the person a woman?", "gender"),
        ('Does this figure show "a dog"? Please answer yes or no.', "form"),
        ("a red bus?", "form"),
    ],
)
def test_forms_of_questions(text: str, asked: object):
    assert read_question(text, KNOWN) == asked


def test_choices_that_name_a_gender_are_never_read():
    assert read_question("Is the person wearing a hat?", KNOWN, ("male", "female")) == "gender"


@pytest.fixture(scope="module")
def judge() -> BuiltinVqa:
    return BuiltinVqa(threads=1, least_right=0.0)


def ask(judge: BuiltinVqa, images: list[np.ndarray], *questions: Question) -> list[dict[str, object]]:
    loaded = [LoadedImage(image_id=str(k), prompt_id="p", pixels=pixels) for k, pixels in enumerate(images)]
    return judge.observe(loaded, AnswerNeed(questions={"p": questions}, weighed=True)).to_dicts()


def test_clothes_of_rendered_people(judge: BuiltinVqa):
    renderer = PeopleRenderer(256, "full")
    outfits = ({"jeans", "boots", "shirt", "tie"}, {"skirt", "hat"}, {"suit", "mask"}, {"shorts", "gloves", "jacket"})
    people = [renderer.render(woman=k % 2 == 0, tone=2 * k + 1, worn=worn, seed=77 + k).pixels
              for k, worn in enumerate(outfits)]  # fmt: skip
    names = ("jeans", "boots", "skirt", "hat", "suit", "mask", "shorts", "jacket")
    rows = ask(judge, people, *(Question(text=f"Is the person wearing {name}?") for name in names))
    right = [
        (row["value"] == "yes") == (name in worn)
        for row, (worn, name) in zip(rows, ((w, n) for w in outfits for n in names), strict=True)
    ]
    assert np.mean(right) >= 0.85, right
    assert all((row["value"] == "yes") == (row["probability"] > 0.5) for row in rows)  # type: ignore[operator]


def test_numbers_colours_and_sides_of_rendered_scenes(judge: BuiltinVqa):
    objects = (
        SceneObject(shape="chair", label="chair", color="red", texture="pure"),
        SceneObject(shape="bus", label="bus", relation="left_0", color="blue", texture="pure"),
    )
    scene = Scene(scene_id="s", skill="x", split="val", text="", background="meadow", objects=objects, seed=990_001)
    image = SceneRenderer(256).render(scene).pixels
    rows = ask(
        judge,
        [image],
        Question(text="Is there a bus?"),
        Question(text="Is there a dog?"),
        Question(text="How many buses are there?", choices=("one", "two", "three")),
        Question(text="Are there exactly two chairs?"),
        Question(text="What colour is the chair?", choices=("Red", "Blue", "Green")),
        Question(text="Is the bus to the left of the chair?", choices=("Yes", "No")),
        Question(text="Is the bus to the right of the chair?"),
    )
    assert [row["value"] for row in rows][:5] == ["yes", "no", "one", "no", "Red"]
    left, right = (float(row["probability"]) for row in rows[5:])  # type: ignore[arg-type]
    assert left + right <= 1.0  # of four sides, two
    assert all(0 <= row["probability"] <= 1 for row in rows)  # type: ignore[operator]


def test_a_side_is_one_of_four_that_both_objects_agree_on(judge: BuiltinVqa):
    bus, chair = (judge._tower.classes.index(name) for name in ("bus", "chair"))
    n = len(judge._tower.classes)
    counts, sides = np.zeros((1, n, 4), np.float32), np.zeros((1, n, 4), np.float32)
    counts[0, [bus, chair], 0] = 0.9, 0.5
    sides[0, bus] = 0.6, 0.2, 0.0, 0.1  # left, right, above, below
    sides[0, chair] = 0.4, 0.5, 0.0, 0.0
    nothing = np.zeros((1, 1), np.float32)
    seen = Seen(vectors=nothing, counts=counts, colors=nothing, sides=sides, places=nothing, garments=nothing)
    asked = Asked(kind="side", thing="bus", other="chair", side="left")
    # left: 0.6 x 0.5 (the chair on the right), right: 0.2 x 0.4; above and below: 0. Both there: 0.9 x 0.5.
    assert judge._on_side(asked, seen, 0) == pytest.approx(0.45 * 0.30 / 0.38, abs=1e-6)
    assert judge._on_side(Asked(kind="side", thing="bus", other="chair", side="above"), seen, 0) == 0.0


def test_what_it_gets_wrong_too_often_by_its_card_is_not_answered(judge: BuiltinVqa):
    strict = BuiltinVqa(threads=1)
    measured = strict.card["balanced"]
    assert measured["garment: hat"] > 0.9 > 0.8 > measured["garment: glasses"]
    black = [np.zeros((64, 64, 3), dtype=np.uint8)]
    questions = (Question(text="Is the person wearing a hat?"), Question(text="Is the person wearing glasses?"))
    assert [row["value"] is None for row in ask(strict, black, *questions)] == [False, True]
    assert [row["value"] is None for row in ask(judge, black, *questions)] == [False, False]
    (line,) = strict.remarks()
    assert "1 of 2 questions" in line
    assert "wrong too often, by its card" in line
    assert strict.name != judge.name
    with pytest.raises(UsageError, match="least_right must lie"):
        BuiltinVqa(least_right=2)


def test_what_it_cannot_answer_is_null_counted_and_explained():
    judge = BuiltinVqa(threads=1, least_right=0.0)
    rows = ask(
        judge,
        [np.zeros((64, 64, 3), dtype=np.uint8)] * 2,
        Question(text="the person looks like a male or a female?", choices=("male", "female")),
        Question(text="Is the person wearing a uniform?"),
        Question(text="Why?"),
        Question(text="What colour is the bus?", choices=("red", "mauve")),
        Question(text="Is the person wearing a hat?"),
    )
    values = [(row["answer"], row["value"], row["probability"]) for row in rows]
    assert values[:4] == [(None, None, None)] * 4
    assert values[4][1] in ("yes", "no")
    lines = judge.remarks()
    assert len(lines) == 3
    assert all("of 10 questions" in line for line in lines)
    assert any("perceived gender, which it does not perceive" in line and "2 of" in line for line in lines)
    assert any("not trained on" in line and "'Is the person wearing a uniform?'" in line for line in lines)
    assert any("of no form" in line and "4 of" in line for line in lines)


def test_an_image_without_questions_has_one_row(judge: BuiltinVqa):
    (row,) = ask(judge, [np.zeros((64, 64, 3), dtype=np.uint8)])
    assert (row["image_id"], row["question"], row["value"]) == ("0", None, None)


def test_needs_it_cannot_serve_are_refused(judge: BuiltinVqa):
    with pytest.raises(UsageError, match="reads none of these 1 questions"):
        judge.check(AnswerNeed(questions={"p": (Question(text="Why?"),)}))
    with pytest.raises(UsageError, match="CaptionNeed"):
        judge.check(CaptionNeed())  # type: ignore[arg-type]
    judge.check(AnswerNeed(questions={"p": (Question(text="Why?"), Question(text="Is there a dog?"))}))
