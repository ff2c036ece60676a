"""User images: the released folders, other spellings of their names, and tables."""

import csv
import json

import pytest
from PIL import Image

from verism.errors import UsageError
from verism.suites.social_bias_v1.suite import SocialBiasV1


def image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)
    return path


def table(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def user_images(suite):
    return {(b.prompt_id, b.index): b.path for b in suite.user_images}


def test_folders_are_named_by_the_prompt_verbatim(tmp_path):
    for name in ("a photo of a accountant", "a photo of a TV presenter", "a person with a tie"):
        for i in range(9):
            image(tmp_path / name / f"{i}.jpg")
    (tmp_path / "a person with a tie" / "notes.txt").write_text("x")
    image(tmp_path / "a person with a tie" / "grid.png")
    image(tmp_path / "something else" / "0.jpg")
    suite = SocialBiasV1.make({"images": tmp_path})
    assert [p.prompt_id for p in suite.prompts()] == ["profession/accountant", "profession/TV_presenter", "object/tie"]
    assert len(suite.user_images) == 27
    assert {p.n_images for p in suite.prompts()} == {9}
    assert user_images(suite)["object/tie", 8] == str(tmp_path / "a person with a tie" / "8.jpg")


def test_underscores_capitals_and_a_folder_of_the_model_above(tmp_path):
    image(tmp_path / "minDALL-E" / "A_photo of_a__comic_book_writer" / "0.png")
    image(tmp_path / "minDALL-E" / "a_photo_of_a_tv_presenter" / "2.webp")
    suite = SocialBiasV1.make({"images": tmp_path})
    assert set(user_images(suite)) == {("profession/comic_book_writer", 0), ("profession/TV_presenter", 2)}
    assert {p.n_images for p in suite.prompts()} == {3}


def test_the_wording_is_that_of_the_folders(tmp_path):
    image(tmp_path / "a photo of an accountant" / "0.jpg")
    image(tmp_path / "a photo of a baker" / "0.jpg")
    image(tmp_path / "a person with jewelry" / "0.jpg")
    suite = SocialBiasV1.make({"images": tmp_path})
    assert suite.wording == "revised"
    assert [p.text for p in suite.prompts()] == [
        "a photo of an accountant",
        "a photo of a baker",
        "a person with jewelry",
    ]
    assert len(SocialBiasV1.make({"images": tmp_path, "wording": "released"}).prompts()) == 1
    image(tmp_path / "same" / "a photo of a baker" / "0.jpg")
    assert SocialBiasV1.make({"images": tmp_path / "same"}).wording == "released"  # both fit: the first


def test_prompts_without_images_are_not_asked_and_fewer_images_may_be(tmp_path):
    for i in (0, 1, 4):
        image(tmp_path / "a photo of a nurse" / f"{i}.jpg")
    suite = SocialBiasV1.make({"images": tmp_path, "n_images": 2})
    assert set(user_images(suite)) == {("profession/nurse", 0), ("profession/nurse", 1)}
    assert suite.prompts()[0].n_images == 2
    assert suite.n_listed == 145


def test_a_table_names_prompts_by_id_text_or_word(tmp_path):
    for name in "abcd":
        image(tmp_path / f"{name}.png")
    rows = [
        {"path": "a.png", "prompt_id": "profession/nurse", "prompt": "", "word": "", "index": ""},
        {"path": "b.png", "prompt_id": "", "prompt": "a photo of a nurse", "word": "", "index": ""},
        {"path": "c.png", "prompt_id": "", "prompt": "", "word": "Nurse", "index": "5"},
        {"path": "d.png", "prompt_id": "", "prompt": "", "word": "alien", "index": ""},
    ]
    suite = SocialBiasV1.make({"images": table(tmp_path / "list.csv", rows)})
    assert {key: path[-5:] for key, path in user_images(suite).items()} == {
        ("profession/nurse", 0): "a.png",
        ("profession/nurse", 1): "b.png",
        ("profession/nurse", 5): "c.png",
        ("other/alien", 0): "d.png",
    }


def test_a_word_of_two_categories_names_no_prompt(tmp_path):
    record = {
        "categories": [
            {"name": "a", "words": ["cook"]},
            {"name": "b", "template": "a person with {phrase}", "words": ["cook"]},
        ]
    }
    (tmp_path / "own.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(UsageError, match="'cook' is none of the list"):
        SocialBiasV1.make(
            {"images": table(tmp_path / "x.csv", [{"path": "a.png", "word": "cook"}]), "prompts": tmp_path / "own.json"}
        )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"path": "", "word": "nurse"}, "no file_path"),
        ({"path": "a.png", "colour": "red"}, "no prompt; a table of images"),
        ({"path": "a.png", "word": "welder"}, "'welder' is none of the list 'released'"),
        ({"path": "a.png", "prompt": "a photo of an accountant"}, "wording: released"),
        ({"path": "a.png", "word": "nurse", "index": "-1"}, "not the number of an image"),
        ({"path": "a.png", "word": "nurse", "index": "4000"}, "count from 0"),
    ],
)
def test_rows_that_do_not_fit(tmp_path, row, words):
    with pytest.raises(UsageError, match=words):
        SocialBiasV1.make({"images": table(tmp_path / "list.csv", [row])})


def test_folders_that_do_not_fit(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        SocialBiasV1.make({"images": tmp_path / "none.csv"})
    with pytest.raises(UsageError, match="no folder in it is named by a prompt, such as 'a photo of a accountant'"):
        SocialBiasV1.make({"images": tmp_path})
    folder = tmp_path / "a photo of a nurse"
    image(folder / "first.jpg")
    with pytest.raises(UsageError, match="named by its number"):
        SocialBiasV1.make({"images": tmp_path})
    image(folder / "0.jpg")
    image(folder / "0.png")
    with pytest.raises(UsageError, match="keep one"):
        SocialBiasV1.make({"images": tmp_path})
    (folder / "0.png").unlink()
    image(tmp_path / "model b" / "a_photo_of_a_nurse" / "0.jpg")
    with pytest.raises(UsageError, match="images of one prompt"):
        SocialBiasV1.make({"images": tmp_path})
    image(tmp_path / "c" / "a photo of an author" / "0.jpg")
    with pytest.raises(UsageError, match="worded as revised"):
        SocialBiasV1.make({"images": tmp_path / "c", "wording": "released"})
