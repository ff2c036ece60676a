"""Files: written whole or not at all, and read the same way everywhere."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from verism.errors import UsageError, VerismError
from verism.files import (
    coco_captions,
    csv_text,
    guarded,
    read_document,
    read_json,
    read_lines,
    read_rows,
    read_text,
    split_lines,
    unguarded,
    whole_file,
    write_csv,
    write_json,
    write_whole,
)

CAPTION = 'a "cat",\u2028its\u0085tail\u2029and\x0b\x1ca\nsecond\r\nline'

WRITER = """
import sys
from pathlib import Path
from verism.files import write_whole
path, letter = Path(sys.argv[1]), sys.argv[2]
for _ in range(150):
    write_whole(path, letter * 200_000, sync=False)
"""

KILLED = """
import sys, time
from pathlib import Path
from verism.files import whole_file
with whole_file(Path(sys.argv[1])) as temporary:
    temporary.write_text("half of the n")
    print("writing", flush=True)
    time.sleep(60)
"""


# ------------------------------------------------------------------------------------------------------------- writing
def test_write_whole_two_processes_at_once_never_collide(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(path.read_text())
        time.sleep(0.001)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen | {path.read_text()} <= {"a" * 200_000, "b" * 200_000}
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_whole_file_killed_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_whole(path, "old")
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        writer.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"
    left = [p for p in tmp_path.iterdir() if p != path]
    assert [(p.name[0], p.suffix) for p in left] == [(".", ".tmp")]  # hidden, so that no listing takes it for a file


def test_whole_file_gets_the_name_that_it_is_given_once_it_is_filled(tmp_path: Path) -> None:
    with whole_file(tmp_path / "folder" / "any.txt", name=lambda: temporary.read_text()) as temporary:
        temporary.write_text("name.txt")
    assert [(p.name, p.read_text()) for p in (tmp_path / "folder").iterdir()] == [("name.txt", "name.txt")]


def test_whole_file_error_inside_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_whole(path, "old")

    def fill() -> None:
        with whole_file(path) as temporary:
            temporary.write_text("new")
            raise RuntimeError("not finished")

    with pytest.raises(RuntimeError, match="not finished"):
        fill()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_write_whole_folder_that_cannot_be_written_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UsageError, match=r"a\.txt cannot be written: (File exists|Not a directory)"):
        write_whole(tmp_path / "file" / "a.txt", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="folder cannot be written: Is a directory"):
        write_whole(tmp_path / "folder", "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.skipif(os.name == "nt", reason="folders have no permissions there")
def test_write_whole_without_permission_gives_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, _: bytes) -> int:
        raise PermissionError(13, "Permission denied", str(self))  # a superuser, as in containers, is refused nothing

    monkeypatch.setattr(Path, "write_bytes", refused)
    with pytest.raises(UsageError, match=r"a\.txt cannot be written: Permission denied"):
        write_whole(tmp_path / "a.txt", "x")


def test_write_whole_full_disk_is_no_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write_whole(tmp_path / "a.txt", "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(VerismError, match=r"a\.txt cannot be written: No space") as err:
        write_whole(tmp_path / "a.txt", "new")
    assert not isinstance(err.value, UsageError)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_whole_file_error_of_another_file_is_not_taken_for_its_own(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"source\.txt"), whole_file(tmp_path / "a.txt"):
        (tmp_path / "source.txt").read_text()


def test_write_json_half_a_surrogate_pair_is_written_as_json_has_it(tmp_path: Path) -> None:
    value = {"b": CAPTION, "a": ["\ud800", "é", 0.1]}
    write_json(tmp_path / "a.json", value)
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == value
    with pytest.raises(UsageError, match=r"a\.json is not JSON: the text '\\ud800' holds half of a surrogate pair"):
        read_json(tmp_path / "a.json")  # no table can hold it
    assert "é" in (tmp_path / "a.json").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))


# ------------------------------------------------------------------------------------------------------------- reading
def test_read_rows_line_ends_inside_captions_survive_in_every_format(tmp_path: Path) -> None:
    rows = [{"prompt": CAPTION, "id": "1"}, {"prompt": "plain", "id": "2"}]
    write_csv(tmp_path / "a.csv", ("prompt", "id"), (row.values() for row in rows))
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "windows.ndjson").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    (tmp_path / "lines.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_json(tmp_path / "list.json", rows)
    for file in tmp_path.iterdir():
        assert read_rows(file) == rows, file.name


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
def test_read_rows_nan_in_json_is_a_value_that_is_missing(tmp_path: Path, name: str) -> None:
    # As pandas writes records with missing texts, by json.dumps; a text "nan" is one.
    line = json.dumps({"image_id": "a", "answer": float("nan"), "score": 0.0, "prompt": "nan"})
    (tmp_path / name).write_text(f"[{line}]" if name.endswith(".json") else line)
    assert read_rows(tmp_path / name) == [{"image_id": "a", "answer": None, "score": 0.0, "prompt": "nan"}]


def test_read_rows_says_in_which_line_a_row_stands(tmp_path: Path) -> None:
    table, lines, listed = tmp_path / "a.csv", tmp_path / "a.jsonl", tmp_path / "a.json"
    table.write_text('\nid,prompt\n\n1,"two\nlines"\n2,b\n')
    lines.write_text('\n\n{"id": 1}\n \n{"id": 2}\n')
    listed.write_text('[{"id": 1},\n\n {"id": 2}]')
    assert [row.where for row in read_rows(table)] == [f"{table}, line 4", f"{table}, line 6"]
    assert [row.where for row in read_rows(lines)] == [f"{lines}, line 3", f"{lines}, line 5"]
    assert [row.where for row in read_rows(listed)] == [f"{listed}, entry 1", f"{listed}, entry 2"]


def test_read_rows_short_and_padded_rows_are_read_and_surplus_cells_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,prompt\n1\n2,b,,\n")
    assert read_rows(path) == [{"id": "1", "prompt": None}, {"id": "2", "prompt": "b"}]
    path.write_text("id,prompt\n1,a cat, and a dog\n")
    with pytest.raises(UsageError, match=r"a\.csv, line 2 has 3 cells, the header 2; put quotation marks"):
        read_rows(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'\n\n{"id": 1}\n\n{"id": }\n', r"a\.jsonl, line 5 is not JSON: Expecting value at character 8"),
        ("a.jsonl", b'{"id": 1}\n[2]\n', r"a\.jsonl, line 2: expected an object .*, not a list"),
        ("a.jsonl", b"7", r"line 1: expected an object .*, not a number"),
        ("a.jsonl", b'{"id": ' + b"9" * 5000 + b"}", r"line 1 is not JSON: Exceeds the limit"),
        ("a.json", b"[1]", r"a\.json, entry 1: expected an object .*, not a number"),
        ("a.json", b'"text"', r"expected captions as a list of objects, got a text"),
        ("a.json", b'{"a": 1}\n{"a": }', r"a\.json, line 2 is not JSON"),
        ("a.json", b'[{"a": 1},\n', r"a\.json is not JSON: .*; expected captions"),
        ("a.json", b"[" * 200_000, r"a\.json is not JSON: .*too deep within each other; the limit"),
        ("a.json", b"[" * 101 + b"]" * 101, r"a\.json is not JSON: .*too deep within each other; the limit is 100 lev"),
        ("a.jsonl", b"[" * 101 + b"]" * 101, r"a\.jsonl, line 1 is not JSON: .*too deep within each other"),
        ("a.jsonl", b'{"id": ' + b"9" * 400 + b"}", r"line 1 is not JSON: an integer of 400 digits"),
        ("a.jsonl", b'{"id": "\\ud83d"}', r"line 1 is not JSON: the text '\\ud83d' holds half of a surrogate pair"),
        (
            "a.csv",
            b"a\n" + b"x" * (2**24 + 1),
            r"a\.csv, line 2 is not CSV: field larger.*VERISM_LIMIT_CELL_CHARACTERS",
        ),
        ("a.csv", b"a\n\xff", r"a\.csv cannot be read as UTF-8 text: .*; expected captions"),
        ("a.txt", b"a", r"a\.txt: expected captions in a \.csv, \.jsonl or \.json file, got \.txt"),
        ("a.csv", None, r"a\.csv: no such file; expected captions"),
    ],
)
def test_read_rows_damaged_file_gives_file_line_and_reason(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_rows(tmp_path / name, "captions")


def test_read_rows_one_object_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n "id": 1\n}')
    assert read_rows(tmp_path / "a.json") == [{"id": 1}]


def test_read_lines_are_stripped_and_end_at_line_ends_only(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffa\u2028b \r\n\n\tc\x1cd\re".encode())
    assert read_lines(tmp_path / "a.txt") == ["a\u2028b", "c\x1cd", "e"]
    assert split_lines("") == []


def test_read_text_folder_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory; expected captions"):
        read_text(tmp_path, "captions")


# ---------------------------------------------------------------------------------------------------------------- COCO
def test_coco_captions_come_in_the_order_of_the_file() -> None:
    annotations = [{"image_id": 7, "id": 9, "caption": CAPTION}, {"image_id": "x", "caption": "b"}]
    assert coco_captions({"annotations": annotations}, Path("a.json")) == [(7, CAPTION, 9), ("x", "b", None)]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], r"must be a COCO captions file"),
        ({"annotations": [{"image_id": 1, "category_id": 2}]}, r"annotations\[0\]: expected .*instances_.*'caption'"),
        ({"annotations": [7]}, r"annotations\[0\]: expected `image_id` and `caption`"),
        ({"annotations": [{"image_id": None, "caption": "a"}]}, "image_id must be a number or a text, not null"),
        ({"annotations": [{"image_id": 1, "caption": None}]}, "caption of image_id 1 must be a text, not null"),
        ({"annotations": [{"image_id": 1, "caption": "a", "id": "b"}]}, "id must be a number, not a text"),
    ],
)
def test_coco_captions_other_files_are_refused(document: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        coco_captions(document, Path("a.json"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "n: 1\nl: [a, b]\n"),
        ("a.YML", "\ufeffn: 1\nl:\n- a\n- b\n"),
        ("a.json", '\ufeff{"n": 1, "l": ["a", "b"]}'),
    ],
)
def test_read_document_yaml_and_json_say_the_same(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_document(tmp_path / name, "a world") == {"n": 1, "l": ["a", "b"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"{", "a.json is not JSON"),
        ("a.yaml", b"a: [", "a.yaml is not YAML"),
        ("a.yaml", b"!!python/object/apply:os.getcwd []", "is not YAML"),  # nothing in a file is ever called
        ("a.txt", b"x", "a world is a .yaml, .yml or .json file"),
        ("a.json", b"\xff\xfe\x00", "cannot be read as UTF-8"),
        ("a.json", None, "no such file"),
    ],
)
def test_read_document_damaged_file_gives_the_reason(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_document(tmp_path / name, "a world")


# ------------------------------------------------------------------------------------------------ formulas in CSV
FORMULAS = ["=1+1", "+x", "-x", "@x", "\tx", "\rx", " =x", "＝x", "'=x", "''-x", '=HYPERLINK("http://x","y")']


@pytest.mark.parametrize("text", FORMULAS)
def test_csv_text_formulas_are_texts_to_a_spreadsheet_and_read_back_as_they_were(tmp_path: Path, text: str) -> None:
    write_csv(tmp_path / "a.csv", ["prompt", text], [[text, 1]])
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        header, row = list(csv.reader(file))
    assert header[1] == row[0] == f"'{text}"
    assert read_rows(tmp_path / "a.csv") == [{"prompt": text, text: "1"}]


@pytest.mark.parametrize("text", ["-3.5", "+2", "-.5e-3", "'tis", "a=b", "", "x\n=y", "'"])
def test_csv_text_numbers_and_other_texts_stay(text: str) -> None:
    assert guarded(text) == text
    assert unguarded(text) == text


def test_csv_text_raw_texts_stay() -> None:
    assert csv_text(["a"], [["=1"], [-2]], raw=True) == "a\n=1\n-2\n"
    assert csv_text(["a"], [["=1"], [-2]]) == "a\n'=1\n-2\n"


def test_read_rows_cell_of_a_caption_longer_than_the_csv_module_takes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n" + "x" * 200_000, encoding="utf-8")
    assert len(read_rows(tmp_path / "a.csv")[0]["a"]) == 200_000


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin"])
def test_read_text_devices_are_not_read(tmp_path: Path, target: str) -> None:
    (tmp_path / "a.csv").symlink_to(target)
    with pytest.raises(UsageError, match=r"a\.csv cannot be read: it is a (device|pipe).*; expected a table"):
        read_rows(tmp_path / "a.csv")


def test_read_text_sparse_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(100 * 2**30)
    with pytest.raises(UsageError, match=r"107,374,182,400 bytes; the limit is .*VERISM_LIMIT_TEXT_BYTES"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 200 + "]" * 200, "too deep within each other"),
        (
            "a: &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"{n}: &{n} [{', '.join([f'*{p}'] * 9)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)),
            "stands for more than 1,000,000 values",
        ),
        ("a: &a [*a]", "too deep within each other"),
        ("a: " + "9" * 400, "an integer of 400 digits"),
        ("a: !!timestamp x", "is not YAML"),
        ("? [1]\n: 2", "is not YAML"),
        ("a: !!int x_", "is not YAML"),
    ],
    ids=["deep", "billion", "itself", "digits", "timestamp", "key", "int"],
)
def test_read_document_yaml_that_grows_or_breaks_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_document(tmp_path / "a.yaml", "a study")
