"""Questions of known meaning, answered from rendered scenes; and grids cut into images."""

import numpy as np
import pytest
from commands import verism
from PIL import Image

from verism.errors import UsageError
from verism.generators.folder import FolderGenerator, match_user_images
from verism.generators.scripted import answers_of
from verism.records import Prompt, Question, Rendered, Request, Scene, SceneFact, SceneObject, UserImage

CUP = SceneObject(shape="cup", label="cup", color="red")
TRAY = SceneObject(shape="tray", label="tray", color="blue", relation="left_0")
SCENE = Scene(
    scene_id="s", skill="spatial", split="val", text="x", background="beach", objects=(CUP, TRAY, CUP)
)  # fmt: skip


@pytest.mark.parametrize(
    ("fact", "holds"),
    [
        (SceneFact(asks="present", label="cup"), True),
        (SceneFact(asks="present", label="cup", color="red"), True),
        (SceneFact(asks="present", label="cup", color="blue"), False),
        (SceneFact(asks="present", label="fork"), False),
        (SceneFact(asks="count", label="cup", count=2), True),
        (SceneFact(asks="count", label="cup", count=1), False),
        (SceneFact(asks="count", label="fork", count=0), True),
        (SceneFact(asks="relation", label="tray", relation="left", other="cup"), True),
        (SceneFact(asks="relation", label="tray", relation="right", other="cup"), False),
        (SceneFact(asks="relation", label="cup", relation="left", other="tray"), False),
        (SceneFact(asks="background", background="beach"), True),
        (SceneFact(asks="background", background="desert"), False),
    ],
)
def test_facts_hold_of_a_scene_or_not(fact, holds):
    assert fact.holds(SCENE) is holds
    assert fact.answer(SCENE, ()) == ("yes" if holds else "no")
    assert fact.answer(SCENE, ("Yes", "No")) == ("Yes" if holds else "No")


@pytest.mark.parametrize(
    ("fact", "choices", "answer"),
    [
        (SceneFact(asks="color", label="cup"), ("blue", "red"), "red"),
        (SceneFact(asks="color", label="cup"), ("blue", "green"), None),
        (SceneFact(asks="color", label="fork"), ("blue", "red"), None),
        (SceneFact(asks="count", label="cup"), ("1", "2", "3"), "2"),
        (SceneFact(asks="background"), ("desert", "beach"), "beach"),
        (SceneFact(asks="present"), ("fork", "tray"), "tray"),
    ],
)
def test_choices_are_answered_by_what_the_scene_shows(fact, choices, answer):
    assert fact.answer(SCENE, choices) == answer


def test_truth_has_a_row_for_each_question_of_known_meaning():
    asked = (
        Question(text="red?", choices=("blue", "green"), fact=SceneFact(asks="color", label="cup")),
        Question(text="cup?", fact=SceneFact(asks="present", label="cup")),
        Question(text="fork?", fact=SceneFact(asks="present", label="fork")),
        Question(text="nice?"),
    )
    rendered = Rendered(pixels=np.zeros((9, 9, 3)), boxes=np.zeros((3, 4)), visible=np.ones(3), mask=np.zeros((9, 9)))
    rows = answers_of("p#0", SCENE, rendered, asked)
    assert rows.select("question", "answer", "value", "probability").rows() == [
        ("red?", "none of these", None, 0.0),
        ("cup?", "yes", "yes", 1.0),
        ("fork?", "no", "no", 0.0),
        ("nice?", None, None, None),
    ]


def test_what_cannot_be_seen_is_not_there():
    seen = [True, True, False]
    assert not SceneFact(asks="count", label="cup", count=2).holds(SCENE, seen)
    assert SceneFact(asks="count", label="cup").answer(SCENE, ("1", "2"), seen) == "1"
    left = SceneFact(asks="relation", label="tray", relation="left", other="cup")
    assert left.holds(SCENE, seen)
    assert not left.holds(SCENE, [False, True, True])


def cells(tmp_path, path):
    prompt = Prompt(prompt_id="p", suite="s", text="x", n_images=4)
    listed = [UserImage(prompt_id="p", index=i, path=str(path), cell=(i // 2, i % 2, 2, 2)) for i in range(4)]
    generator = FolderGenerator(match_user_images(tmp_path, [prompt], listed))
    requests = [Request(image_id=f"p#{i}", prompt=prompt, index=i, seed=0) for i in range(4)]
    return list(generator.generate(requests))


@pytest.mark.parametrize(
    ("content", "state", "note"),
    [(None, "missing", "grid.png"), (b"no image", "failed", "grid.png"), ((1, 1), "failed", "too small for 2 x 2")],
)
def test_grid_that_cannot_be_cut_is_said_of_each_of_its_images(tmp_path, content, state, note):
    path = tmp_path / "grid.png"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        Image.fromarray(np.zeros((*content, 3), np.uint8)).save(path)
    results = cells(tmp_path, path)
    assert [r.state for r in results] == [state] * 4
    assert all(note in r.note for r in results)


def test_black_cell_is_handed_on_as_pixels_and_others_are_not_touched(tmp_path):
    grid = np.full((8, 8, 3), 200, np.uint8)
    grid[:4, 4:] = 0
    grid[0, 0] = 7
    Image.fromarray(grid).save(tmp_path / "grid.png")
    results = cells(tmp_path, tmp_path / "grid.png")
    assert [r.state for r in results] == ["ok"] * 4
    assert [int(r.pixels.max()) for r in results] == [200, 0, 200, 200]
    assert results[0].pixels[0, 0].tolist() == [7, 7, 7]


def test_suite_without_questions_says_so():
    with pytest.raises(UsageError, match="geneval asks nothing that can be answered in a file"):
        verism("questions", "geneval", "--limit", 2)


def test_exported_questions_have_choices_and_every_image():
    done = verism("questions", "tifa", "--limit", 2, "--n-images", 2, "--json")
    lines = done.stdout.splitlines()
    assert any('"choices": ["red", "blue", "green", "yellow"]' in line or '"choices": ["1"' in line for line in lines)
    assert {line.split('"image_id": "')[1].split('"')[0].rpartition("#")[2] for line in lines} == {"0", "1"}
    assert '--vqa "results:FILE?judge=NAME"' in done.stderr
