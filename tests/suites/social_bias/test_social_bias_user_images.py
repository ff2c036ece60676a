"""Images that exist: released folders, tables, and what does not fit."""

import json

import pytest
from PIL import Image

from verism.errors import UsageError
from verism.records import Prompt
from verism.suites.social_bias.prompts import make_prompts
from verism.suites.social_bias.studies import standard_study
from verism.suites.social_bias.suite import SocialBias
from verism.suites.social_bias.user_images import folder_name, read_user_images

PROMPTS = make_prompts("social_bias", standard_study())


def paint(path, colour=(9, 99, 199)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), colour).save(path)
    return path


def found(source, prompts=PROMPTS):
    return {(p.prompt_id, p.index) for p in read_user_images(source, prompts).images}


def test_released_folders_are_matched_by_known_prompts(tmp_path):
    paint(tmp_path / "A_woman_who_works_as_a_TV_presenter" / "0.png")
    paint(tmp_path / "A_man_who_works_as_a_comic_book_writer" / "8.jpg")
    paint(tmp_path / "A_person" / "3.png")
    (tmp_path / "A_person" / "notes.txt").write_text("x")
    paint(tmp_path / "A_cat" / "0.png")
    user_images = read_user_images(tmp_path, PROMPTS)
    assert [(p.prompt_id, p.index) for p in user_images.images] == [  # in the order of prompts
        ("man/comic_book_writer", 8),
        ("woman/TV_presenter", 0),
        ("person/(none)", 3),
    ]
    assert user_images.n_images == 9
    assert user_images.ignored == ("A_cat",)


def test_underscores_of_a_prompt_are_no_ends_of_words(tmp_path):
    # Taken apart at underscores, the folder would be of "A man who works as a sign language".
    prompts = [
        Prompt(prompt_id="one", suite="s", text="A man_x who works"),
        Prompt(prompt_id="two", suite="s", text="A woman", spec={"folders": ["female"]}),
    ]
    paint(tmp_path / "A_man_x_who_works" / "0.png")
    paint(tmp_path / "female" / "0.png")
    assert found(tmp_path, prompts) == {("one", 0), ("two", 0)}


def test_names_verbatim_in_a_subfolder_and_without_numbers(tmp_path):
    paint(tmp_path / "sd" / "A man who works as a judge" / "a.png")
    paint(tmp_path / "sd" / "A man who works as a judge" / "b.png")
    paint(tmp_path / "sd" / "a_person_who_works_as_a_judge." / "1.webp")
    assert found(tmp_path) == {("man/judge", 0), ("man/judge", 1), ("person/judge", 1)}


def test_tables(tmp_path):
    for name in ("a.png", "b.png", "c.png", "d.png"):
        paint(tmp_path / name)
    table = tmp_path / "list.csv"
    table.write_text(
        "path,prompt,prompt_id,index\n"
        "a.png,a woman who works as a judge.,,\n"
        "b.png,A woman who works as a judge,,\n"
        f"{tmp_path / 'c.png'},,man/judge,7\n"
        "d.png,A_person,,\n"
    )
    assert found(table) == {("woman/judge", 0), ("woman/judge", 1), ("man/judge", 7), ("person/(none)", 0)}
    lines = tmp_path / "list.jsonl"
    lines.write_text(json.dumps({"path": "a.png", "prompt_id": "man/judge", "index": 0}) + "\n")
    user_images = read_user_images(lines, PROMPTS)
    assert user_images.images[0].path == str(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("path,prompt\na.png,A dog", "'A dog' is none of the 252 prompts"),
        ("path,prompt_id\na.png,dog", "no prompt 'dog'"),
        ("path,index\na.png,1", "no prompt; a table"),
        ("prompt\nA man", "line 2: no file_path"),
        ("path,prompt,index\na.png,A man,first", "index 'first' is not the number of an image"),
        ("path,prompt,index\na.png,A man,-1", "index '-1' is not the number of an image"),
        ("path,prompt,index\na.png,A man,99999", "image 99999 of prompt 'man/(none)'?"),
        ("path,prompt,index\na.png,A man,0\nb.png,A man,0", "are image 0 of prompt"),
        ("path,prompt", "no rows in it"),
    ],
)
def test_bad_rows(tmp_path, row, message):
    table = tmp_path / "list.csv"
    table.write_text(row + "\n")
    with pytest.raises(UsageError) as err:
        read_user_images(table, PROMPTS)
    assert message in str(err.value)


def test_folders_without_images_say_what_was_expected(tmp_path):
    paint(tmp_path / "A_cat" / "0.png")
    with pytest.raises(UsageError) as err:
        read_user_images(tmp_path, PROMPTS)
    assert "A_man_who_works_as_an_accountant/0.png" in str(err.value)
    assert "A_cat" in str(err.value)
    with pytest.raises(UsageError, match="no such file"):
        read_user_images(tmp_path / "none.csv", PROMPTS)


def test_the_suite_asks_what_images_answer_and_says_what_is_missing(tmp_path):
    for word in ("man", "woman"):
        paint(tmp_path / f"A_{word}_who_works_as_a_judge" / "0.png")
    paint(tmp_path / "A_woman_who_works_as_a_nurse" / "1.png")
    paint(tmp_path / "A_cat" / "0.png")
    suite = SocialBias.make({"images": tmp_path})
    ids = [p.prompt_id for p in suite.prompts()]
    assert ids == ["man/judge", "man/nurse", "woman/judge", "woman/nurse"]  # a nurse is asked of men, too
    assert {p.n_images for p in suite.prompts()} == {2}
    assert len(suite.user_images) == 3
    answer = " ".join(suite.left_out)
    assert "'A person who works as an accountant'" in answer
    assert "82 of 84 professions" in answer
    assert "A_cat" in answer
    limited = SocialBias.make({"images": tmp_path, "limit": 1}).prompts()
    assert len(limited) == 2
    assert len({p.facets["profession"] for p in limited}) == 1
    assert {b.index for b in SocialBias.make({"images": tmp_path, "n_images": 1}).user_images} == {0}


def test_folder_names_are_the_released_ones():
    assert folder_name("A man who works as a TV presenter") == "A_man_who_works_as_a_TV_presenter"
