"""Images in shards: readers do not notice, standard tools read them, nothing is lost however a process ends."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from commands import verism as command
from earlier_runs import as_earlier_version
from fakes import PixelJudge
from PIL import Image as PilImage
from report_runs import build_run
from share_runs import LIMIT, evaluate, standard_suite
from storage import SERVICES, storage_server

import verism
from verism.annotation.exchange import export_study
from verism.annotation.sampling import draw_items
from verism.annotation.views import StudyView
from verism.annotation.votes import Study, VoteStore
from verism.errors import DamagedRun, UsageError, VerismError
from verism.files import open_regular, read_regular
from verism.imaging import pixel_count, read_image
from verism.limits import IMAGE_BYTES
from verism.locations import is_file, location
from verism.pipeline import local
from verism.records import RatingTask
from verism.shards import Packing, member_of, member_path, shard_of
from verism.store import Run, images, verify
from verism.store import run as run_module
from verism.store.images import SHARDS, compact_images, write_shards

TESTS = Path(__file__).parent
SHARD = "shard-0a1b2c3d-0123456789abcdef01234567.tar"


class Killed(BaseException):
    """As of a process that ends at once."""


@pytest.fixture(scope="module", autouse=True)
def small_batches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "BATCH", 8)
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A run whose images are in files, and its report."""
    path = tmp_path_factory.mktemp("files") / "run"
    evaluate(path).report()
    return path


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    """The same run with its images in shards."""
    path = tmp_path_factory.mktemp("shards") / "run"
    evaluate(path, images_as="shards").report()
    return path


@pytest.fixture
def copied(shards, tmp_path) -> Path:
    return Path(shutil.copytree(shards, tmp_path / "run"))


def contents(run: Run) -> dict[str, bytes]:
    """Every image of a run by its id, as readers get it."""
    return {row["image_id"]: run.image_bytes(row) for row in run.read("images").iter_rows(named=True)}


def shard_files(path: Path) -> list[Path]:
    return sorted((path / SHARDS).glob("*.tar"))


def members(path: Path) -> Counter[str]:
    """Names of the files in all shards of a run, by Python's own reader."""
    found: Counter[str] = Counter()
    for shard in shard_files(path):
        with tarfile.open(shard) as archive:
            found.update(archive.getnames())
    return found


def findings(path: Path) -> dict[str, str]:
    return {finding.file: finding.problem for finding in verify(path).findings}


# ---------------------------------------------------------------------------------------------------------- the format
def pack(files: Iterable[tuple[str, bytes]]) -> tuple[bytes, list[tuple[int, int]]]:
    """A shard of some files, and where in it each lies."""
    data = io.BytesIO()
    packing = Packing(data.write)
    ranges = [packing.add(name, content) for name, content in files]
    packing.end()
    return data.getvalue(), ranges


def test_pack_is_read_by_tarfile_and_by_range():
    content = {"a.png": b"", "b.png": b"x" * 512, "c.json": b"y" * 513}
    data, ranges = pack(content.items())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert {m.name: archive.extractfile(m).read() for m in archive.getmembers()} == content
        assert [(m.offset_data, m.size) for m in archive.getmembers()] == ranges
    assert (data, ranges) == pack(content.items())
    assert len(data) % 512 == 0
    # As earlier versions wrote them.
    assert hashlib.sha256(data).hexdigest() == "c65990f5d326961f1db76916b06b07581a6fd9d0a5a892472d3dab8a613bf338"


def test_paths_say_where_in_which_shard_a_file_lies(tmp_path):
    data, ranges = pack([("one.png", b"first"), ("two.png", b"second")])
    shard = tmp_path / SHARD
    shard.write_bytes(data)
    for (offset, length), name, content in zip(ranges, ("one.png", "two.png"), (b"first", b"second")):
        path = location(member_path(str(shard), offset, length, name))
        assert member_of(path) == (shard, offset, length, name)
        assert shard_of(str(path)) == str(shard)
        assert (path.suffix, is_file(path), read_regular(path, IMAGE_BYTES)) == (".png", True, content)
    for other in (tmp_path / "one.png", tmp_path / "x.tar" / "0+5.one.png", shard, shard / "one.png"):
        assert member_of(other) is None
        assert shard_of(str(other)) is None
    beyond = location(member_path(str(shard), ranges[1][0], 10**6, "two.png"))
    with pytest.raises(OSError, match="ends before it"):
        read_regular(beyond, IMAGE_BYTES)
    gone = location(member_path(str(tmp_path / SHARD.replace("0a", "0b")), 0, 5, "one.png"))
    assert (is_file(gone), read_image(gone).state, pixel_count(gone)) == (False, "missing", 0)
    huge = location(member_path(SHARD, 0, 2**40, "x.png"))
    with pytest.raises(OSError, match="bytes"), open_regular(huge, IMAGE_BYTES):
        pass


def test_names_in_a_shard_are_keys_as_webdataset_has_them(tmp_path):
    run = build_run(tmp_path / "run", limit=4)
    ids = ["a.b#0", "a-b#0", "a.b", "a-b", "é" * 200]
    rows = [{"image_id": i, "prompt_id": "p", "index": 0, "seed": None} for i in ids]
    paths = write_shards(run, [(row, row["image_id"].encode()) for row in rows], {"p": "a cat, “so”"})
    assert [read_regular(run.resolve(path), IMAGE_BYTES).decode() for path in paths] == ids
    with tarfile.open(shard_files(run.path)[0]) as archive:
        names = archive.getnames()
        about = json.load(archive.extractfile(names[1]))
    assert about == {"image_id": "a.b#0", "prompt_id": "p", "index": 0, "seed": None, "prompt": "a cat, “so”"}
    assert len(set(names)) == 2 * len(ids)
    assert {name.count(".") for name in names} == {1}
    assert [name.removesuffix(".png") for name in names[::2]] == [name.removesuffix(".json") for name in names[1::2]]


def test_a_batch_that_is_too_large_for_a_shard_goes_into_several(tmp_path, monkeypatch):
    run = build_run(tmp_path / "run", limit=4)
    monkeypatch.setattr(images, "SHARD_BYTES", 100)
    monkeypatch.setattr(images, "BESIDE", 0)
    sizes = (60, 30, 20, 300, 1, 99)
    rows = [{"image_id": str(n), "prompt_id": "p", "index": 0, "seed": None} for n in range(len(sizes))]
    paths = write_shards(run, [(row, bytes([n]) * size) for n, (row, size) in enumerate(zip(rows, sizes))], {})
    assert [read_regular(run.resolve(path), IMAGE_BYTES) for path in paths] == [
        bytes([n]) * size for n, size in enumerate(sizes)
    ]
    shards = [shard_of(path) for path in paths]
    assert [shards.index(shard) for shard in shards] == [0, 0, 2, 3, 4, 4]


def test_a_shard_is_written_piece_by_piece(tmp_path):
    run = build_run(tmp_path / "run", limit=4)
    rows = [{"image_id": str(n), "prompt_id": "p", "index": 0, "seed": None} for n in range(100)]
    tracemalloc.start()
    try:
        paths = write_shards(run, ((row, bytes([n]) * 2**17) for n, row in enumerate(rows)), {})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len({shard_of(path) for path in paths}) == 1
    assert shard_files(run.path)[0].stat().st_size > 100 * 2**17
    assert peak < 10 * 2**17


def test_shards_of_small_images_are_no_larger_than_others(tmp_path, monkeypatch):
    run = build_run(tmp_path / "run", limit=4)
    monkeypatch.setattr(images, "SHARD_BYTES", 30_000)
    rows = [{"image_id": str(n), "prompt_id": "p", "index": 0, "seed": None} for n in range(100)]
    paths = write_shards(run, [(row, bytes([n])) for n, row in enumerate(rows)], {})
    sizes = [(run.path / shard).stat().st_size for shard in {shard_of(path) for path in paths}]
    assert len(sizes) > 2  # of 100 bytes of images, and 200 headers
    assert max(sizes) <= 30_000 + 2 * 512 + 10_240  # the end of a tar file comes on top


def test_webdataset_reads_the_shards(shards):
    wds = pytest.importorskip("webdataset")
    run = Run.open(shards)
    urls = [str(file) for file in shard_files(shards)]
    samples = list(wds.WebDataset(urls, shardshuffle=False))
    read = {json.loads(sample["json"])["image_id"]: sample["png"] for sample in samples}
    assert len(samples) == LIMIT
    assert read == contents(run)
    texts = {prompt.prompt_id: prompt.text for prompt in run.prompts()}
    for sample in samples:
        about = json.loads(sample["json"])
        assert about["prompt"] == texts[about["prompt_id"]]


# ------------------------------------------------------------------------------------------------------------- readers
def test_scores_verdicts_observations_and_report_are_those_of_files(files, shards):
    assert (shards / "scores.json").read_bytes() == (files / "scores.json").read_bytes()
    a, b = Run.open(files), Run.open(shards)
    pages = [(path / "report" / "index.html").read_text(encoding="utf-8") for path in (files, shards)]
    assert pages[0].replace(a.manifest.created, "") == pages[1].replace(b.manifest.created, "")
    assert a.verdicts().equals(b.verdicts())
    assert a.read("detections", "pixel-judge@1").equals(b.read("detections", "pixel-judge@1"))
    assert a.read("images").drop("path").equals(b.read("images").drop("path"))
    assert contents(a) == contents(b)
    assert (len(shard_files(shards)), list((shards / "images").glob("*.png"))) == (LIMIT // 8, [])
    assert b.manifest.settings.hash() == a.manifest.settings.hash()


def test_another_judge_observes_images_in_shards_and_reads_no_more_than_them(copied, monkeypatch):
    read = []

    def counting(member):
        read.append(member.length)
        return original(member)

    from verism import files as files_module

    original = files_module._read_member
    monkeypatch.setattr(files_module, "_read_member", counting)
    judge = PixelJudge(name="second@1")
    verism.observe(copied, judge)
    assert len(judge.seen) == LIMIT
    rows = Run.open(copied).read("images").iter_rows(named=True)
    assert sum(read) == sum(len(png) for png in contents(Run.open(copied)).values()) or sum(read) >= LIMIT
    assert len(read) >= len(list(rows))


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> tuple[Path, Path]:
    """A run with verdicts of every kind, with its images in files and in shards."""
    made = build_run(tmp_path_factory.mktemp("a") / "run", skill_level=0.7, limit=12, states={3: "refused"}, truth=True)
    packed = Path(shutil.copytree(made.path, tmp_path_factory.mktemp("b") / "run"))
    done = verism.compact(packed, images_as="shards")
    assert (done.images, done.moved, done.files) == (11, 11, 1)
    return made.path, packed


def everything(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("to", ["coco", "huggingface"])
def test_exports_are_those_of_files(to, reported, tmp_path):
    for name, path in zip(("a", "b"), reported):
        verism.export(path, tmp_path / name / "out", to=to)
    assert everything(tmp_path / "a") == everything(tmp_path / "b")


def test_viewer_shows_images_in_shards(reported):
    pytest.importorskip("fastapi.testclient")
    from verism.viewer.images import ImageTable

    plain, packed = (ImageTable(Run.open(path)) for path in reported)
    for image_id in Run.open(reported[0]).read("images").filter(pl.col("state") == "ok")["image_id"]:
        assert packed.content(image_id) == plain.content(image_id)
        assert packed.detail(image_id)["file"] == "same"


def test_annotators_see_images_in_shards(tmp_path):
    made = build_run(tmp_path / "a" / "run", limit=4)
    packed = Run.open(shutil.copytree(made.path, tmp_path / "b" / "run"))
    task = RatingTask(name="seen", question="What?", kind="choice", options=("x", "y"))
    shown = []
    for name, run in (("a", made), ("b", packed)):
        study = Study(runs=(str(run.path),), tasks=(task,), items=draw_items([run], task, per_cell=None))
        view = StudyView(VoteStore.create(tmp_path / f"{name}.sqlite", study), [run])
        if name == "b":
            compact_images(packed, "shards")  # while annotators are at work
        rater, _ = view.store.add_rater("ann")
        shown.append([view.image(rater, n, 0) for n in range(len(study.items))])
        export_study(view.store, [run], "table", tmp_path / name / "out")
        assert len(everything(tmp_path / name / "out" / "pictures")) == 4
    assert shown[0] == shown[1]
    assert None not in shown[0]


def test_a_run_in_shards_is_a_set_of_images_for_another_run_even_when_it_is_compacted(copied, tmp_path):
    options = {"features": "builtin", "limit": 6}
    first = verism.evaluate("quality", images=copied, reference=copied, out=tmp_path / "q", **options)
    assert set(first.read("images")["state"]) == {"ok"}
    assert verify(first.path).is_whole
    for way in (None, "files"):
        verism.compact(copied, images_as=way)
        again = Run.open(first.path)
        assert verify(first.path).is_whole
        assert all(again.load_image(row).state == "ok" for row in again.read("images").iter_rows(named=True))


def test_failures_name_what_image_bytes_reads(copied):
    run = Run.open(copied)
    rows = [row for row in run.failures().iter_rows(named=True) if row["path"] is not None]
    assert rows
    for row in rows:
        PilImage.open(io.BytesIO(run.image_bytes(row))).verify()


# ---------------------------------------------------------------------------------------------------- what a run keeps
def test_a_run_keeps_its_way_and_says_how_to_change_it(files, shards, tmp_path):
    assert Run.open(shards).manifest.images_as == "shards"
    assert json.loads((shards / "manifest.json").read_text())["schema_version"] == 4
    assert json.loads((files / "manifest.json").read_text())["schema_version"] == 3
    assert "images_as" not in json.loads((files / "manifest.json").read_text())
    with pytest.raises(UsageError, match=r"as shards, not as files.*verism compact .*run --images-as files"):
        evaluate(shards, images_as="files")
    with pytest.raises(UsageError, match=r"as files, not as shards.*--images-as shards"):
        evaluate(files, images_as="shards")
    evaluate(shards)  # resumed: there is nothing to do
    with pytest.raises(UsageError, match="expected files or shards, got 'zip'"):
        evaluate(tmp_path / "run", images_as="zip")
    assert not (tmp_path / "run").exists()


def test_command_line_and_plans_take_images_as(tmp_path):
    small = ("--model", "oracle", "--limit", 3, "--seed", 5, "--size", 64, "--processes", 1)
    done = command("run", "paintskills", *small, "--images-as", "shards", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.stderr
    assert len(shard_files(tmp_path / "run")) == 1
    with pytest.raises(UsageError, match="keeps its images as shards, not as files"):
        command("run", "paintskills", *small, "--images-as", "files", "--out", tmp_path / "run")
    done = command("compact", tmp_path / "run", "--images-as", "files", "--json")
    assert json.loads(done.stdout) == {"images_as": "files", "images": 3, "moved": 3, "files": 3, "before": 1}
    assert "3 images kept as files; 0 moved" in command("compact", tmp_path / "run").stdout
    done = command("run", "paintskills", *small, "--images-as", "files", "--out", tmp_path / "run")
    assert done.exit_code == 0
    (tmp_path / "plan.yaml").write_text(
        "models: {m: {model: oracle}}\nsuites: {paintskills: {limit: 3, size: 64, detector: builtin}}\n"
        "defaults: {images_as: shards}\n"
    )
    assert command("plan", "run", tmp_path / "plan.yaml", "--out", tmp_path / "plan").exit_code == 0
    assert list((tmp_path / "plan").rglob("shards/*.tar"))


# --------------------------------------------------------------------------------------------------- a run that is cut
@pytest.mark.parametrize("number", range(0, 40, 5))
def test_a_run_killed_at_any_write_goes_on_and_has_each_image_once(number, files, tmp_path, monkeypatch):
    path = tmp_path / "run"
    with monkeypatch.context() as patch, suppress(Killed):
        dying_at(number, patch)
        evaluate(path, images_as="shards")
    if (path / "prompts.parquet").exists():
        assert all(problem == "leftover" for problem in findings(path).values())
    evaluate(path, images_as="shards")
    assert (path / "scores.json").read_bytes() == (files / "scores.json").read_bytes()
    run = Run.open(path)
    assert run.read("images").height == LIMIT
    assert contents(run) == contents(Run.open(files))
    assert command("verify", path, "--repair").exit_code == 0
    assert findings(path) == {}
    assert sorted(members(path).values()) == [1] * 2 * LIMIT


def dying_at(number: int, patch: pytest.MonkeyPatch) -> None:
    """Let the renaming or removal of this number, and all after it, not happen."""
    changes = iter(range(10**6))

    def dying(change: Callable[..., None]) -> Callable[..., None]:
        def changing(*args: object, **options: object) -> None:
            if next(changes) >= number:
                raise Killed
            change(*args, **options)

        return changing

    for name in ("replace", "unlink", "link"):
        patch.setattr(os, name, dying(getattr(os, name)))


def test_a_shard_that_is_cut_while_it_is_written_is_read_by_nobody(files, tmp_path, monkeypatch):
    """The disk is full in the middle of a shard, and nothing can be removed from it."""
    path = tmp_path / "run"
    original = Packing.add
    added = iter(range(10**6))

    def failing(packing, name, content):
        if next(added) == 2 * 20:  # two files an image
            patch.setattr(Path, "unlink", lambda *_, **__: None)
            raise OSError(errno.ENOSPC, "no space left on device")
        return original(packing, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(Packing, "add", failing)
        with pytest.raises(VerismError, match=r"shard.*cannot be written: no space left"):
            evaluate(path, images_as="shards")
    assert Run.open(path).read("images").height == 16
    assert list(findings(path).values()) == ["leftover"]
    evaluate(path)
    assert contents(Run.open(path)) == contents(Run.open(files))


def test_two_processes_share_a_run_in_shards_and_one_is_killed(files, tmp_path):
    code = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
from share_runs import evaluate
from verism.store import Run
if "--dies" in sys.argv:
    original, count = Run.append, []
    def append(self, table, rows, *args, **options):
        count.append(table)
        if table == "images" and count.count("images") == 2:
            os._exit(9)  # its second shard is there, and no row names it
        return original(self, table, rows, *args, **options)
    Run.append = append
evaluate(Path({str(tmp_path / "run")!r}), seconds=0.002, share=True, images_as="shards")
"""
    dying, *others = [
        subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.PIPE, text=True)
        for words in (["--dies"], [])
    ]
    dying.communicate(timeout=120)
    for process in others:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    run = Run.open(tmp_path / "run")
    assert (run.path / "scores.json").read_bytes() == (files / "scores.json").read_bytes()
    assert contents(run) == contents(Run.open(files))
    assert set(findings(run.path).values()) <= {"leftover"}
    if dying.returncode == 9:  # else the other one was so quick that it had nothing to do
        assert len(findings(run.path)) == 1


def test_the_same_image_of_two_workers_counts_once_and_every_reader_takes_the_same(tmp_path):
    run = build_run(tmp_path / "run", limit=4)
    compact_images(run, "shards")
    rows = run.read("images")
    row = next(rows.iter_rows(named=True))
    for _ in range(6):  # parts and shards have names of chance
        (path,) = write_shards(run, [(row, run.image_bytes(row))], {})
        run.append("images", rows.head(1).with_columns(pl.lit(path).alias("path")))
        counted = Run.open(run.path).read("images")
        assert counted.height == rows.height
        assert counted["path"][0] == min(run._rows("images", None).filter(image_id=row["image_id"])["path"])
    assert set(findings(run.path).values()) == {"leftover"}
    command("verify", run.path, "--repair")
    run.compact("images")
    assert findings(run.path) == {}
    assert set(contents(run)) == set(rows["image_id"])


def test_images_with_several_rows_in_large_parts_are_converted_once_and_none_is_lost(files, tmp_path, monkeypatch):
    run = Run.open(shutil.copytree(files, tmp_path / "run"))
    first = ""
    while first < f"{SHARDS}/shard-8":  # names are of chance, and of two rows the one with the lower path counts
        compact_images(run, "files")
        compact_images(run, "shards")
        first = run.read("images")["path"][0]
    before = contents(run)
    rows = run.read("images")
    for start in (0, 12, 24, 6):  # other workers kept some of the images as well
        part = rows.slice(start, 20)
        taken = [(row, before[row["image_id"]]) for row in part.iter_rows(named=True)]
        while (paths := write_shards(run, taken, {}))[0] > first:
            continue
        run.append("images", part.with_columns(pl.Series("path", paths)))
    for module, name in ((images, "SHARD_BYTES"), (images, "MOVED_BYTES"), (run_module, "PART_BYTES")):
        monkeypatch.setattr(module, name, 1)
    compact_images(run, "files")
    assert contents(Run.open(run.path)) == before
    assert set(findings(run.path).values()) <= {"leftover", "outdated"}  # by rows that the test added
    assert {shard_of(path) for path in run._rows("images", None)["path"]} == {None}


# -------------------------------------------------------------------------------------------------------------- damage
def byte_of(shard: Path, what: str) -> int:
    """A byte of a shard's first image, of its header, or of the description of the image."""
    with tarfile.open(shard) as archive:
        image, about = archive.getmembers()[:2]
    offsets = {
        "image": image.offset_data + image.size // 2,
        "header": image.offset + 3,
        "about": about.offset_data + 20,
    }
    return offsets[what]


LOST = {"image": 1, "header": 0, "about": 0, "cut": 5, "deleted": 8, "empty": 8, "folder": 8}


@pytest.fixture(scope="module")
def commanded(tmp_path_factory) -> Path:
    """A run by the command line, which can be made again."""
    path = tmp_path_factory.mktemp("commanded") / "run"
    small = ("--model", "oracle", "--limit", 8, "--seed", 5, "--size", 64, "--processes", 1, "--images-as", "shards")
    assert command("run", "paintskills", *small, "--out", path).exit_code == 0
    return path


@pytest.mark.parametrize(("what", "lost"), LOST.items())
def test_damage_of_a_shard_is_found_and_repaired(what, lost, commanded, tmp_path):
    path = Path(shutil.copytree(commanded, tmp_path / "run"))
    (shard,) = shard_files(path)
    data = bytearray(shard.read_bytes())
    if what in ("image", "header", "about"):
        data[byte_of(shard, what)] ^= 4
        shard.write_bytes(data)
    elif what == "cut":
        with tarfile.open(shard) as archive:
            shard.write_bytes(data[: archive.getmembers()[6].offset_data + 3])
    elif what == "empty":
        shard.write_bytes(b"")
    else:
        shard.unlink()
        if what == "folder":
            shard.mkdir()
    found = findings(path)
    problem = "missing" if what == "deleted" else "damaged"
    assert found.pop(f"shards/{shard.name}") == problem
    assert list(found.values()) == ["damaged"] * (0 if what == "deleted" else lost)
    assert all(name.startswith(f"shards/{shard.name}/") for name in found)
    assert command("verify", path).exit_code == 1
    if lost:
        judge = PixelJudge(name="second@1")
        with pytest.raises(VerismError, match=r"is not what it was when the run took it in.*verism verify"):
            verism.observe(shutil.copytree(path, tmp_path / "observed"), judge)
        assert judge.seen == []
    if what == "folder":
        shard.rmdir()
    done = command("verify", path, "--repair", "--json")
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["whole"], record["not_repaired"], record["findings"]) == (True, [], [])
    assert contents(Run.open(path)) == contents(Run.open(commanded))
    assert (path / "scores.json").read_bytes() == (commanded / "scores.json").read_bytes()
    assert sorted(members(path).values()) == [1] * 16


def test_a_conversion_stops_at_a_damaged_image_and_goes_on_after_the_repair(commanded, tmp_path):
    path = Path(shutil.copytree(commanded, tmp_path / "run"))
    (shard,) = shard_files(path)
    data = bytearray(shard.read_bytes())
    with tarfile.open(shard) as archive:
        data[archive.getmembers()[6].offset_data + 99] ^= 4
    shard.write_bytes(data)
    with pytest.raises(DamagedRun, match=r"content is not what it was.*--repair"):
        verism.compact(path, images_as="files")
    assert len(list((path / "images").glob("*.png"))) == 3
    assert command("verify", path, "--repair").exit_code == 0
    verism.compact(path, images_as="files")
    assert (shard_files(path), findings(path)) == ([], {})
    assert contents(Run.open(path)) == contents(Run.open(commanded))


def test_the_table_that_is_the_index_is_lost_and_made_again(copied, files):
    """Without rows nobody knows where in the shards the images lie; the generator makes them again."""
    part = next((copied / "images").glob("part-*.parquet"))
    part.unlink()
    assert findings(copied)[f"images/{part.name}"] == "missing"
    verism.repair(copied)
    evaluate(copied)
    assert contents(Run.open(copied)) == contents(Run.open(files))
    assert set(findings(copied).values()) <= {"leftover"}


def test_an_image_whose_row_names_other_bytes_of_the_shard_is_found(copied):
    run = Run.open(copied)
    rows = run.read("images")
    first, second = rows["path"][:2]
    swapped = rows.with_columns(pl.Series("path", [second, first, *rows["path"][2:]]))
    run._write_part("images", swapped, replaced=list(run._part_paths("images")))
    found = findings(copied)
    assert {name: problem for name, problem in found.items() if name.startswith("shards/")} == {
        first: "damaged",
        second: "damaged",
    }


# ---------------------------------------------------------------------------------------------------------- compacting
def test_compact_puts_small_shards_together_and_leaves_out_what_no_row_names(copied, monkeypatch):
    run = Run.open(copied)
    before, scores = contents(run), (copied / "scores.json").read_bytes()
    rows = list(run.read("images").iter_rows(named=True))
    size = sum(file.stat().st_size for file in shard_files(copied))
    monkeypatch.setattr(images, "SHARD_BYTES", size // 2)
    done = compact_images(run)
    assert (done.images, done.moved, done.before) == (LIMIT, LIMIT, LIMIT // 8)
    assert 2 <= done.files <= 3
    assert contents(run) == before
    assert contents(Run.open(copied)) == before
    # Who read the rows before finds the images now.
    assert {row["image_id"]: run.image_bytes(row) for row in rows} == before
    assert run.outdated() == []
    assert findings(copied) == {}
    assert len(members(copied)) == 2 * LIMIT
    small = [file for file in shard_files(copied) if file.stat().st_size < size // 4]
    assert len(small) <= 1
    assert compact_images(run).moved == 0
    run.forget("images", list(before)[: LIMIT - 2])
    compact_images(run)
    assert contents(run) == {name: before[name] for name in list(before)[LIMIT - 2 :]}
    assert set(findings(copied).values()) == {"leftover", "outdated"}  # shards without any image that counts
    for finding in verify(copied).findings:
        (copied / finding.file).unlink() if finding.problem == "leftover" else None
    assert sum(members(copied).values()) == 4
    evaluate(copied)
    assert (copied / "scores.json").read_bytes() == scores


@pytest.mark.parametrize("number", range(0, 60, 7))
@pytest.mark.parametrize("to", ["shards", "files"])
def test_a_conversion_killed_at_any_change_leaves_every_image_and_goes_on(
    to, number, files, shards, tmp_path, monkeypatch
):
    source = files if to == "shards" else shards
    path = Path(shutil.copytree(source, tmp_path / "run"))
    before = contents(Run.open(source))
    monkeypatch.setattr(images, "SHARD_BYTES", 60_000)
    monkeypatch.setattr(images, "MOVED_BYTES", 60_000)
    with monkeypatch.context() as patch, suppress(Killed):
        dying_at(number, patch)
        verism.compact(path, images_as=to)
    assert contents(Run.open(path)) == before
    assert set(findings(path).values()) <= {"leftover"}
    done = verism.compact(path, images_as=to)
    assert done.images_as == to
    assert contents(Run.open(path)) == before
    assert command("verify", path, "--repair").exit_code == 0
    assert findings(path) == {}
    kept = list((path / "images").glob("*.png"))
    assert (len(kept), sum(members(path).values())) == ((LIMIT, 0) if to == "files" else (0, 2 * LIMIT))
    assert (path / "scores.json").read_bytes() == (source / "scores.json").read_bytes()


def test_compact_of_images_that_lie_elsewhere_leaves_them_there(files, tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    lines = ["prompt_id,file_path"]
    run = Run.open(files)
    for number, row in enumerate(run.read("images").iter_rows(named=True)):
        (pictures / f"{number}.png").write_bytes(run.image_bytes(row))
        lines.append(f"{row['prompt_id']},{number}.png")
    (pictures / "list.csv").write_text("\n".join(lines) + "\n")
    given = verism.evaluate(standard_suite(), images=pictures / "list.csv", detector=PixelJudge(), out=tmp_path / "run")
    assert set(given.read("images")["state"]) == {"ok"}
    there = given.read("images")
    done = verism.compact(given, images_as="shards")
    assert (done.images, done.moved, done.files) == (0, 0, 0)
    assert Run.open(given.path).read("images").equals(there)
    assert len(list(pictures.glob("*.png"))) == LIMIT


def test_a_run_of_an_earlier_version_is_converted_and_gets_a_ledger(files, tmp_path):
    early = as_earlier_version(Run.open(shutil.copytree(files, tmp_path / "run")))
    assert early.ledger is None
    done = verism.compact(early.path, images_as="shards")
    assert (done.moved, done.files) == (LIMIT, 1)
    run = Run.open(early.path)
    assert contents(run) == contents(Run.open(files))
    assert verify(run.path).is_whole
    assert (run.path / "scores.json").read_bytes() == (files / "scores.json").read_bytes()


# ------------------------------------------------------------------------------------------------------- object storage
@pytest.mark.parametrize("service", SERVICES)
def test_shards_in_object_storage_are_put_whole_and_read_by_range(service, monkeypatch, tmp_path):
    limit = 16
    with storage_server(service, monkeypatch, tmp_path) as store:
        files = evaluate(tmp_path / "files", limit=limit).path
        store.fails = lambda number: number % 31 == 30
        run = evaluate(f"{store.root}/run", limit=limit, images_as="shards")
        store.fails = lambda _: False
        assert (run.path / "scores.json").read_bytes() == (files / "scores.json").read_bytes()
        assert len(shard_files(run.path)) == limit // 8
        store.requests.clear()
        whole = []
        original = type(run.path).read_bytes
        with monkeypatch.context() as patch:
            patch.setattr(type(run.path), "read_bytes", lambda path: (whole.append(path.suffix), original(path))[1])
            assert contents(run) == contents(Run.open(files))
        assert ".tar" not in whole
        assert sum("shards" in path for _, path in store.requests) == limit
        shard = shard_files(run.path)[0]
        data = shard.read_bytes()
        shard.write_bytes(data[:-3000])
        assert set(findings(run.path).values()) == {"damaged"}
        shard.write_bytes(data)
        assert verism.compact(f"{store.root}/run").files == 1
        assert verism.compact(f"{store.root}/run", images_as="files").files == limit
        assert contents(Run.open(run.path)) == contents(run) == contents(Run.open(files))
        assert findings(run.path) == {}
