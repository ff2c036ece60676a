"""Images that exist already: matched by name or manifest, and nothing guessed."""

import json
import os
import sys
from dataclasses import replace

import pytest

from verism import evaluate
from verism.errors import UsageError
from verism.generators.folder import FolderGenerator, match_images
from verism.imaging import read_image
from verism.locations import location
from verism.pipeline.local import make_requests
from verism.records import Prompt
from verism.user_images import UserImages, image_files


def prompt(prompt_id: str, text: str = "", n_images: int = 1) -> Prompt:
    return Prompt(prompt_id=prompt_id, suite="s", text=text or f"a photo of {prompt_id}", n_images=n_images)


A, B, C = prompt("object_val_00001"), prompt("object_val_00002"), prompt("spatial_val_00003", n_images=3)


@pytest.fixture
def put(tmp_path):
    def make(*names: str):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"picture")
        return tmp_path

    return make


def names(matching) -> dict[tuple[str, int], str]:
    return {key: path.name for key, path in matching.files.items()}


def test_a_folder_is_matched_by_name(put):
    folder = put(
        "image_object_val_00001.png",
        "object_val_00002.JPG",
        "spatial_val_00003.webp",
        "spatial_val_00003_1.png",
        "object_val_00009.png",
        "object_val_00001.txt",
        "readme.md",
    )
    matching = match_images(folder, [A, B, C])
    assert names(matching) == {
        (A.prompt_id, 0): "image_object_val_00001.png",
        (B.prompt_id, 0): "object_val_00002.JPG",
        (C.prompt_id, 0): "spatial_val_00003.webp",
        (C.prompt_id, 1): "spatial_val_00003_1.png",
    }
    assert matching.missing == ((C.prompt_id, 2),)
    assert sorted(p.name for p in matching.ignored) == ["object_val_00001.txt", "object_val_00009.png", "readme.md"]
    table = matching.table()
    assert "matched       4" in table
    assert "missing       1   e.g. spatial_val_00003#2" in table
    assert "ignored       3" in table


def test_the_first_of_several_may_carry_its_number(put):
    assert names(match_images(put("spatial_val_00003_0.png"), [C])) == {(C.prompt_id, 0): "spatial_val_00003_0.png"}


def test_the_published_layout_is_searched(put):
    root = put("object/images/image_object_val_00001.png", "spatial/val_images/image_spatial_val_00003.png")
    assert set(match_images(root, [A, C]).files) == {(A.prompt_id, 0), (C.prompt_id, 0)}
    assert set(match_images(root / "object" / "images", [A, C]).files) == {(A.prompt_id, 0)}


@pytest.mark.parametrize("second", ["object_val_00001.jpg", "object_val_00001.png", "image_object_val_00001_0.png"])
def test_two_files_for_one_image_are_refused(put, second):
    with pytest.raises(UsageError, match=r"both .* and .* are image 0 of prompt 'object_val_00001'"):
        match_images(put("image_object_val_00001.png", second), [A])


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="no such folder or manifest"):
        match_images(tmp_path / "nowhere", [A])


# ------------------------------------------------------------------------------------------------------------ manifests
def test_a_csv_by_id_counts_from_its_own_folder(put, tmp_path):
    folder = put("pics/x.png", "y.png")
    manifest = folder / "list.csv"
    # With the byte-order mark that spreadsheets write.
    manifest.write_text(
        f"\ufeffprompt_id,path\nobject_val_00001,pics/x.png\nobject_val_00002,{folder}/y.png\nunknown,z.png\n",
        encoding="utf-8",
    )
    matching = match_images(manifest, [A, B])
    assert matching.files == {(A.prompt_id, 0): tmp_path / "pics/x.png", (B.prompt_id, 0): tmp_path / "y.png"}
    assert [p.name for p in matching.ignored] == ["z.png"]


def test_rows_of_one_prompt_are_its_images_in_order(tmp_path):
    manifest = tmp_path / "list.csv"
    manifest.write_text("prompt_id,path\n" + "".join(f"{C.prompt_id},{k}.png\n" for k in "abcd"))
    matching = match_images(manifest, [C])
    assert names(matching) == {(C.prompt_id, 0): "a.png", (C.prompt_id, 1): "b.png", (C.prompt_id, 2): "c.png"}
    assert [p.name for p in matching.ignored] == ["d.png"]
    manifest.write_text(f"prompt_id,path,index\n{C.prompt_id},two.png,2\n{C.prompt_id},zero.png,0\n")
    assert names(match_images(manifest, [C])) == {(C.prompt_id, 0): "zero.png", (C.prompt_id, 2): "two.png"}


@pytest.mark.parametrize("column", ["prompt", "prompt_id"])
def test_a_row_that_repeats_another_is_refused_and_does_not_count_twice(put, column):
    row = f"x.png,{C.prompt_id if column == 'prompt_id' else C.text}\n"
    table = put("x.png") / "rows.csv"
    table.write_text(f"path,{column}\n{row}{row}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"x\.png is listed twice for prompt 'spatial_val_00003'"):
        match_images(table, [C])


def test_images_of_one_text_are_dealt_out_in_order(tmp_path):
    twins = [prompt("p1", "a dog"), prompt("p2", "a dog", n_images=2), prompt("p3", "a cat")]
    manifest = tmp_path / "list.jsonl"
    rows = [("a dog", "1"), ("a cat", "c"), (" a dog ", "2"), ("a dog", "3"), ("a dog", "4"), ("a bird", "b")]
    manifest.write_text("\n".join(json.dumps({"prompt": t, "path": f"{k}.png"}) for t, k in rows) + "\n\n")
    matching = match_images(manifest, twins)
    assert names(matching) == {("p1", 0): "1.png", ("p2", 0): "2.png", ("p2", 1): "3.png", ("p3", 0): "c.png"}
    assert sorted(p.name for p in matching.ignored) == ["4.png", "b.png"]


@pytest.mark.parametrize("text", ["two\nlines", "a\u2028separator", "form\x0cfeed", 'quotes " and, commas', "猫"])
def test_prompts_may_hold_any_character(tmp_path, text):
    odd = prompt("odd", text)
    quoted = text.replace('"', '""')
    (tmp_path / "a.csv").write_text(f'prompt,path\n"{quoted}",a.png\n', encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"prompt": text, "path": "a.png"}, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    for name in ("a.csv", "a.jsonl"):
        assert names(match_images(tmp_path / name, [odd])) == {("odd", 0): "a.png"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "prompt_id,path\nobject_val_00001,\n", "line 2: no file_path"),
        (
            "a.csv",
            "path,words\nx.png,hello\n",
            "no prompt; a table of images has the columns file_path, prompt_id or prompt",
        ),
        (
            "a.csv",
            "prompt_id,path,index\nobject_val_00001,x.png,first\n",
            "index 'first' is not the number of an image",
        ),
        ("a.csv", "prompt_id,path,index\nobject_val_00001,x.png,-1\n", "index '-1' is not the number of an image"),
        (
            "a.jsonl",
            '{"prompt": "a photo of object_val_00001", "path": "x.png", "index": -1}',
            "index '-1' is not the number of an image",
        ),
        (
            "a.csv",
            "prompt_id,path,index\nobject_val_00001,x.png,0\nobject_val_00001,y.png,0\n",
            "are image 0 of prompt",
        ),
        ("a.jsonl", "{not json}\n", "a.jsonl, line 1 is not JSON"),
        ("a.jsonl", "7\n", "line 1: expected an object"),
        ("a.xlsx", "", "expected a table of images in a .csv"),
    ],
)
def test_manifests_that_are_wrong_say_where(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError) as err:
        match_images(tmp_path / name, [A, B])
    assert message in str(err.value)


def test_a_manifest_that_is_no_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00\x01path")
    with pytest.raises(UsageError, match="cannot be read as UTF-8 text"):
        match_images(tmp_path / "a.csv", [A])


# ------------------------------------------------------------------------------------------------------------ generator
def test_the_generator_answers_with_the_file_or_says_it_is_missing(put):
    matching = match_images(put("object_val_00001.png"), [A, B])
    generator = FolderGenerator(matching)
    first, second = generator.generate(make_requests([A, B], 0))
    assert (first.state, first.path, first.pixels) == ("ok", str(matching.files[A.prompt_id, 0]), None)
    assert (second.state, second.path, second.note) == ("missing", None, "no file of that name")
    assert [first.image_id, second.image_id] == ["object_val_00001#0", "object_val_00002#0"]
    assert generator.name.startswith("images:/")


def test_prompts_with_several_images_leave_the_missing_open(put):
    matching = match_images(put("spatial_val_00003_2.png"), [C, replace(A, n_images=2)])
    assert len(matching.missing) == 4


def test_match_images_rows_whose_file_is_not_there_are_missing(put):
    folder = put("a.png", "list.csv")
    (folder / "list.csv").write_text(
        "path,prompt_id\na.png,object_val_00001\ngone.png,object_val_00002\n", encoding="utf-8"
    )
    table = match_images(folder / "list.csv", [A, B]).table()
    assert "matched       1" in table
    assert "missing       1" in table
    assert "1 of the missing are in the list, but there is no such file" in table
    assert "gone.png" in table


def test_match_images_ignored_rows_say_why(put):
    folder = put(*(f"{n}.png" for n in range(4)), "list.csv")
    rows = ["path,prompt_id,prompt", f"0.png,,{A.text}", "1.png,object_val_77777,", "2.png,,a photo of a yak"]
    rows.append(f"3.png,,{A.text}")
    (folder / "list.csv").write_text("\n".join([*rows, f"4.png,,{A.text}"]), encoding="utf-8")
    table = match_images(folder / "list.csv", [B, A]).table()
    assert "list.csv, line 3: prompt_id 'object_val_77777' is none of the run's" in table
    assert "list.csv, line 4: 'a photo of a yak' is no prompt of the run" in table
    assert f"list.csv, line 6: more images of {A.text!r} than are asked for" in table


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="file names are text there")
def test_match_images_names_that_are_no_text_are_refused(tmp_path):
    (tmp_path / os.fsdecode(b"image_\xff_object_val_00001.png")).write_bytes(b"x")
    listing = tmp_path / "list.csv"
    listing.write_bytes(b"path,prompt_id\nimage.png,object_val_00001\n")
    assert names(match_images(listing, [A])) == {(A.prompt_id, 0): "image.png"}
    with pytest.raises(UsageError, match=r"\\udcff.*the name holds bytes that are not UTF-8; rename it"):
        image_files(tmp_path)
    with pytest.raises(UsageError, match="not UTF-8"):
        UserImages().add("p", 0, tmp_path / os.fsdecode(b"\xff.png"))


@pytest.mark.parametrize("images_as", ["files", "shards"])
def test_a_run_is_matched_by_its_prompts_and_by_their_texts_in_another_suite(tmp_path, images_as):
    run = evaluate("paintskills", model="oracle", limit=3, seed=5, out=tmp_path / "run", images_as=images_as)
    known = run.prompts()
    other = prompt("mine", known[1].text)  # another suite's prompt of the same text
    changed = replace(known[2], text="a photo of something else")  # the same id, and not the same prompt
    matching = match_images(run.path, [known[0], other, changed])
    assert set(matching.files) == {(known[0].prompt_id, 0), ("mine", 0)}
    assert not matching.absent
    assert matching.missing == ((changed.prompt_id, 0),)
    answers = FolderGenerator(matching).generate(make_requests([known[0]], seed=1))
    assert [read_image(location(a.path)).state for a in answers] == ["ok"]
