"""Images of a user with their own prompts: every kind of source, what fits them, and the runs."""

import io
import json
import tarfile

import numpy as np
import polars as pl
import pytest
from commands import verism
from PIL import Image
from tiny_models import tiny_clip

from verism import api
from verism.errors import UsageError
from verism.own_image_evaluation import possible_suites
from verism.own_images import read_own_images, write_lists

PROMPTS = ("a cat, on a mat", "two dogs", "a cat, on a mat")


def jpeg(seed):
    buffer = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "images"
    made.mkdir()
    for n in range(3):
        (made / f"{n}.jpg").write_bytes(jpeg(n))
    return made


def table(folder, columns=("path", "prompt"), name="list.csv"):
    rows = [",".join(columns)] + [f'{n}.jpg,"{prompt}"' for n, prompt in enumerate(PROMPTS)]
    (folder / name).write_text("\n".join(rows), encoding="utf-8")
    return folder / name


def read(source, tmp_path):
    return read_own_images(source, tmp_path / "unpacked")


@pytest.mark.parametrize(
    "columns", [("path", "prompt"), ("file_path", "text"), ("file_name", "caption"), ("image", "text")]
)
def test_tables_by_any_usual_column(folder, tmp_path, columns):
    found = read(table(folder, columns), tmp_path)
    assert [prompt for _, prompt in found.images] == list(PROMPTS)
    assert found.prompts == ["a cat, on a mat", "two dogs"]
    assert found.words() == "table: 3 images, 2 prompts"


def test_a_row_whose_file_is_absent_is_missing(folder, tmp_path):
    source = table(folder)
    (folder / "1.jpg").unlink()
    found = read(source, tmp_path)
    assert [path.name for path in found.missing] == ["1.jpg"]
    assert "1 of them missing" in found.words()


def test_a_folder_without_texts_with_texts_and_with_metadata(folder, tmp_path):
    assert read(folder, tmp_path).words() == "folder: 3 images, no prompts"
    (folder / "0.txt").write_text(" a cat,\n on a mat ", encoding="utf-8")
    beside = read(folder, tmp_path)
    assert beside.images[0][1] == "a cat, on a mat"
    assert beside.words().endswith("1 prompts (2 images have none)")
    table(folder, ("file_name", "text"), "metadata.csv")
    assert read(folder, tmp_path).kind == "folder with metadata.csv"


def test_webdataset(tmp_path):
    with tarfile.open(tmp_path / "shard.tar", "w") as archive:
        members = {
            "a/x.1.jpg": b"",
            "k0.jpg": jpeg(0),
            "k0.txt": b"two dogs",
            "k1.jpg": jpeg(1),
            "k1.json": json.dumps({"caption": "a cat"}).encode(),
            "../evil.jpg": jpeg(2),
            "note.md": b"x",
        }
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    found = read(tmp_path / "shard.tar", tmp_path)
    assert [prompt for _, prompt in found.images] == ["two dogs", "a cat", ""]
    assert all(path.parent == tmp_path / "unpacked" for path, _ in found.images)  # names of members are no paths
    assert found.images[0][0].read_bytes() == jpeg(0)
    assert found.skipped == ("a/x.1.jpg is no image of the sample a/x: only a/x.ENDING is",)


def test_what_a_webdataset_leaves_out_is_listed(tmp_path):
    with tarfile.open(tmp_path / "shard.tar", "w") as archive:
        members = {"k0.jpg": jpeg(0), "k0.txt": b"a dog", "k0.png": jpeg(1), "k1.txt": b"a cat"}
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    found = read(tmp_path / "shard.tar", tmp_path)
    assert [(file.read_bytes(), prompt) for file, prompt in found.images] == [(jpeg(0), "a dog")]
    assert found.skipped == ("k0.png is a second image of the sample k0", "the sample k1 has a text and no image")


def test_an_image_listed_twice_counts_once(folder, tmp_path):
    (folder / "list.csv").write_text("path,prompt\n0.jpg,a\n1.jpg,a\n0.jpg,a\n0.jpg,b\n", encoding="utf-8")
    found = read(folder / "list.csv", tmp_path)
    assert [(file.name, prompt) for file, prompt in found.images] == [("0.jpg", "a"), ("1.jpg", "a"), ("0.jpg", "b")]
    assert found.skipped == (f"{folder / '0.jpg'} is listed 2 times with one prompt, and counts once",)
    done = verism(
        "run", "auto", "--images", folder / "list.csv", "--reference", folder, "--features", "builtin",
        "--out", tmp_path / "R",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert api.open_run(tmp_path / "R" / "quality").read("images").height == 2


def test_a_folder_of_the_user_is_only_read(folder, tmp_path):
    for path in folder.glob("*.jpg"):
        path.rename(folder / f"00000{path.name}")
    (folder / "000003.txt").write_text("a bus", encoding="utf-8")
    (folder / "000000.txt").write_text("a cat", encoding="utf-8")
    assert read(folder, tmp_path).skipped == ("000003.txt has no image beside it",)
    packed = pl.DataFrame({"image": [{"bytes": jpeg(n + 7), "path": f"{n}.jpg"} for n in range(2)], "text": ["a", "b"]})
    packed.write_parquet(folder / "metadata.parquet")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert [file.read_bytes() for file, _ in read(folder, tmp_path).images] == [jpeg(7), jpeg(8)]
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_parquet_with_bytes_and_with_paths(folder, tmp_path):
    packed = pl.DataFrame({"image": [{"bytes": jpeg(n), "path": f"{n}.jpg"} for n in range(2)], "text": ["a", "b"]})
    packed.write_parquet(tmp_path / "packed.parquet")
    found = read(tmp_path / "packed.parquet", tmp_path)
    assert [prompt for _, prompt in found.images] == ["a", "b"]
    assert found.images[1][0].read_bytes() == jpeg(1)
    pl.DataFrame({"path": ["0.jpg", "gone.jpg", None], "prompt": ["a", "b", "c"]}).write_parquet(folder / "p.parquet")
    listed = read(folder / "p.parquet", tmp_path)
    assert [path.name for path in listed.missing] == ["gone.jpg"]
    assert listed.skipped == ("row 3 names no image",)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("gone", None, "does not exist"),
        ("bad.tar", b"no tar", "no tar file"),
        ("empty.csv", b"path,prompt\n", "no rows"),
        ("other.csv", b"a,b\n1,2\n", "file_path"),
        ("bad.parquet", b"PAR1", "parquet"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, match):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Exception, match=match) as caught:
        read(tmp_path / name, tmp_path)
    assert type(caught.value).__module__ == "verism.errors"


def test_what_fits_depends_on_what_is_there(folder, tmp_path):
    bare, asked = read(folder, tmp_path), read(table(folder), tmp_path)

    def runs(found, judges, reference=None):
        return {p.suite for p in possible_suites(found, judges=judges, reference=reference) if p.options is not None}

    assert runs(bare, {"clip": "x"}) == set()
    assert runs(bare, {}, folder) == {"quality"}
    assert runs(asked, {"clip": "x"}) == {"alignment"}
    assert runs(asked, {"vqa": "x", "scorer": "y"}, folder) == {"alignment", "preference", "quality"}
    assert all(p.why for p in possible_suites(bare, judges={}, reference=None))


def test_lists_name_every_image_of_a_prompt(folder, tmp_path):
    prompts, images = write_lists(read(table(folder), tmp_path), tmp_path / "lists")
    assert prompts.read_text(encoding="utf-8").splitlines()[1:] == ['00000,"a cat, on a mat",2', "00001,two dogs,1"]
    assert [line.split(",")[:2] for line in images.read_text(encoding="utf-8").splitlines()[1:]] == [
        ["00000", "0"], ["00001", "0"], ["00000", "1"],
    ]  # fmt: skip


def test_auto_runs_what_fits_and_resumes(folder, tmp_path):
    judge = tiny_clip(tmp_path / "clip")
    words = (
        "run",
        "auto",
        "--images",
        table(folder),
        "--clip",
        str(judge),
        "--device",
        "cpu",
        "--out",
        tmp_path / "out",
    )
    done = verism(*words)
    assert done.exit_code == 0, done.output
    assert "will run: alignment" in done.output
    assert "possible: quality" in done.output
    run = api.open_run(tmp_path / "out" / "alignment")
    assert run.read("images").height == 3
    assert verism(*words).exit_code == 0
    nothing = verism("run", "auto", "--images", folder, "--dry-run", "--json")
    assert {row["suite"]: row["runs"] for row in json.loads(nothing.stdout)}["alignment"] is False
    with pytest.raises(UsageError, match=r"no prompts. Nothing can be run with what was named"):
        verism("run", "auto", "--images", folder, "--out", tmp_path / "none")


def test_auto_says_in_terminal_and_report_how_many_images_each_suite_leaves_out(folder, tmp_path):
    for n in range(3, 8):
        (folder / f"{n}.jpg").write_bytes(jpeg(n))
    lines = ["path,prompt", *(f"{n}.jpg,{'' if n > 5 else f'prompt {n}'}" for n in range(8)), "0.jpg,prompt 0"]
    (folder / "list.csv").write_text("\n".join(lines), encoding="utf-8")
    words = ("run", "auto", "--images", folder / "list.csv", "--limit", 4, "--device", "cpu")
    words = (*words, "--clip", str(tiny_clip(tmp_path / "clip")), "--out", tmp_path / "out")
    without = "2 of 8 images have no prompt and are left out"
    twice = (
        f"1 entries of the source are left out: {folder / '0.jpg'} is listed 2 times with one prompt, and counts once"
    )
    dry = verism(*words, "--reference", folder, "--dry-run", "--json")
    planned = {row["suite"]: row["left_out"] for row in json.loads(dry.stdout) if row["runs"]}
    assert planned == {"alignment": [without, twice], "quality": [twice]}
    done = verism(*words)
    assert done.exit_code == 0, done.output
    assert f"note: {without}" in done.stderr
    assert "note: 2 of 6 images are not part of the sample (--limit)" in done.stderr
    run = api.open_run(tmp_path / "out" / "alignment")
    assert run.manifest.image_remarks[0] == without
    assert without in api.report(run, out=tmp_path / "page").read_text(encoding="utf-8")
    # The same directory goes on with a source of other leftovers: what is said follows.
    (folder / "list.csv").write_text("\n".join(line for line in lines if "7.jpg" not in line), encoding="utf-8")
    assert "note: 1 of 7 images have no prompt" in verism(*words).stderr


def test_one_json_document_for_all_suites_and_a_dry_run_leaves_nothing(folder, tmp_path):
    packed = pl.DataFrame({"image": [{"bytes": jpeg(n), "path": None} for n in range(4)], "text": list("abcd")})
    packed.write_parquet(tmp_path / "packed.parquet")
    words = (
        *("run", "auto", "--images", tmp_path / "packed.parquet", "--reference", folder),
        *("--clip", str(tiny_clip(tmp_path / "clip")), "--device", "cpu", "--json", "--out", tmp_path / "out"),
    )
    assert verism(*words, "--dry-run").exit_code == 0
    assert not (tmp_path / "out").exists()
    done = verism(*words)
    assert set(json.loads(done.stdout)) == {"alignment", "quality"}


def test_a_run_without_out_lies_where_the_same_command_finds_it_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("run", "paintskills", "--model", "oracle", "--detector", "truth", "--size", 64, "--limit")
    for _ in range(2):
        assert verism(*words, 3).exit_code == 0
    [first] = (tmp_path / "runs").iterdir()
    assert first.name.startswith("paintskills-oracle-")
    assert verism(*words, 6).exit_code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2
