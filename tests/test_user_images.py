"""User images: what every suite and the folder generator read the same way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from verism.errors import UsageError
from verism.user_images import (
    PATH_COLUMNS,
    UserImages,
    image_files,
    image_folders,
    numbered_images,
    plain_name,
    read_image_table,
)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not opened here")
    return path


def names(root: Path, paths: list[Path]) -> list[str]:
    return [path.relative_to(root).as_posix() for path in paths]


def test_image_files_hidden_and_other_files_do_not_count(tmp_path: Path) -> None:
    for name in ("b.JPG", "a.png", "._a.png", "notes.txt", "sub/c.webp", ".cache/d.png", "x.png/e.png"):
        touch(tmp_path / name)
    assert names(tmp_path, image_files(tmp_path)) == ["a.png", "b.JPG"]
    assert names(tmp_path, image_files(tmp_path, recursive=True)) == ["a.png", "b.JPG", "sub/c.webp", "x.png/e.png"]


def test_image_files_of_a_hidden_folder_that_was_named_count(tmp_path: Path) -> None:
    touch(tmp_path / ".images" / "a.png")
    assert len(image_files(tmp_path / ".images", recursive=True)) == 1


def test_image_folders_two_levels_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b/x/deep/0.png", "a/0.png", ".git/objects/0.png", "b/.thumbnails/0.png"):
        touch(tmp_path / name)
    assert names(tmp_path, image_folders(tmp_path)) == ["a", "b", "b/x"]


def test_numbered_images_names_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    for name in ("0.png", "007.jpg", "1_2.png", "٣.png", "first.png"):
        touch(tmp_path / name)
    assert [(n, path.name) for n, path in numbered_images(tmp_path)] == [(0, "0.png"), (7, "007.jpg")]


def test_plain_name_differences_that_do_not_matter() -> None:
    alike = ("A photo of a nurse.", "a_photo_of_a_nurse", " a  PHOTO of a\u2028nurse", "a photo/of a nurse")
    assert {plain_name(text) for text in alike} == {"a photo of a nurse"}
    assert plain_name("a nurse-midwife") != plain_name("a nurse midwife")


@pytest.mark.parametrize("column", PATH_COLUMNS)
def test_read_image_table_every_name_of_a_path_column(tmp_path: Path, column: str) -> None:
    (tmp_path / "a.csv").write_text(f"{column},prompt\nx/0.png,a cat\n{tmp_path}/1.png,a dog\n")
    first, second = read_image_table(tmp_path / "a.csv", "prompt")
    assert (first.path, second.path) == (tmp_path / "x" / "0.png", tmp_path / "1.png")
    assert (first.path_column, first.index, first.value("text", "prompt")) == (column, None, "a cat")


@pytest.mark.parametrize(
    "text", ["Path,Prompt\n0.png,a cat\n", "path;prompt\n0.png;a cat\n", "PATH\tprompt\n0.png\ta cat\n"]
)
def test_read_image_table_of_a_spreadsheet(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    (row,) = read_image_table(tmp_path / "a.csv", "prompt")
    assert (row.path, row.value("prompt")) == (tmp_path / "0.png", "a cat")


def test_read_image_table_keeps_columns_whose_names_are_there_twice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Path,path,Region\nx,y.png,Africa\n")
    (row,) = read_image_table(tmp_path / "a.csv", "prompt")
    assert (row.path, dict(row.values)) == (tmp_path / "y.png", {"Path": "x", "path": "y.png", "Region": "Africa"})


def test_read_image_table_index_of_text_or_number(tmp_path: Path) -> None:
    rows = [{"path": "a", "index": 3}, {"path": "b", "index": "04"}, {"path": "c", "index": " "}, {"path": "d"}]
    (tmp_path / "a.jsonl").write_text("\n\n".join(json.dumps(row) for row in rows))
    listed = read_image_table(tmp_path / "a.jsonl", "prompt")
    assert [row.index for row in listed] == [3, 4, None, None]
    assert listed[2].where == f"{tmp_path / 'a.jsonl'}, line 5"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("path,prompt\n", r"no rows in it; a table of images has the columns file_path, prompt, and index"),
        ("\nprompt\n\na cat\n", r"a\.csv, line 4: no file_path; .*; this one has prompt"),
        ("path,index\na,-1\n", r"line 2: index '-1' is not the number of an image; the first has 0"),
        ("path,index\na,1.0\n", r"index '1\.0' is not"),
        ("path,index\na,٣\n", r"index '٣' is not"),
    ],
)
def test_read_image_table_bad_rows_are_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_image_table(tmp_path / "a.csv", "prompt")


def test_user_images_rows_without_index_count_up_behind_the_highest() -> None:
    images = UserImages()
    assert [images.add("p", index, Path(f"/{n}.png")) for n, index in enumerate([None, 5, None, 2, None])] == [
        0, 5, 6, 2, 7,
    ]  # fmt: skip
    assert images.add("q", None, Path("/0.png")) == 0


def test_user_images_second_file_for_an_image_is_refused_and_the_same_is_not() -> None:
    images = UserImages()
    images.add("p", 0, Path("/a.png"))
    images.add("p", 0, Path("/a.png"))
    with pytest.raises(UsageError, match=r"both /a\.png and /b\.png are image 0 of prompt 'p'; keep one"):
        images.add("p", 0, Path("/b.png"))


def test_user_images_index_that_numbers_something_else_is_refused() -> None:
    with pytest.raises(UsageError, match=r"/a\.png: image 100 of prompt 'p'\? Images of each prompt count from 0"):
        UserImages(max_images=100).add("p", 100, Path("/a.png"))
    assert UserImages(max_images=100).add("p", 99, Path("/a.png")) == 99
    assert UserImages(max_images=None).add("p", 10**9, Path("/a.png")) == 10**9


def test_a_file_that_is_listed_twice_without_an_index_does_not_count_twice(tmp_path: Path) -> None:
    images = UserImages()
    assert images.add("p", None, tmp_path / "a.png") == 0
    assert images.add("q", None, tmp_path / "a.png") == 0  # one image may be held against several prompts
    with pytest.raises(UsageError, match=r"a.png is listed twice for prompt 'p', and would count twice"):
        images.add("p", None, tmp_path / "a.png")
