"""A run directory is known to be whole: damage is named by every reader, and repaired where it can be."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from commands import verism as command
from earlier_runs import as_earlier_version
from fakes import PixelJudge, PixelRenderer

import verism
from verism.errors import DamagedRun, UsageError, VerismError
from verism.files import write_json, write_whole
from verism.imaging import encode_png
from verism.records import frame, make_image_id
from verism.store import TRUTH, Run, RunSettings, scorings, write_shards
from verism.store import blocks as store_blocks
from verism.store.ledger import Ledger, sha256
from verism.suites.paintskills.suite import PaintSkills

KINDS = (
    "manifest.json",
    "prompts.parquet",
    "scores.json",
    "scoring.json",
    "images/*.png",
    "images/part-*.parquet",
    "ledger/*.json",
    "observations/detections/builtin-*/part-*.parquet",
    "observations/detections/truth/part-*.parquet",
    "scorings/*/presentation.json",
    "scorings/*/scores.json",
    "scorings/*/scores.parquet",
    "scorings/*/scoring.json",
    "scorings/*/verdicts.parquet",
)
DATA = tuple(kind for kind in KINDS if kind != "manifest.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A run by the command line: a generator that renders, and the built-in detector."""
    path = tmp_path_factory.mktemp("made") / "a run"  # a name that a shell must quote
    size = ("--size", 64, "--processes", 1)
    done = command("run", "paintskills", "--model", "oracle", "--limit", 3, "--seed", 5, *size, "--out", path)
    assert done.exit_code == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Path:
    """Another run, of other prompts."""
    path = tmp_path_factory.mktemp("made") / "other"
    size = ("--size", 64, "--processes", 1)
    command("run", "paintskills", "--model", "oracle", "--limit", 3, "--seed", 6, *size, "--out", path)
    return path


@pytest.fixture
def copied(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "a run"))


def file_of(run: Path, kind: str) -> Path:
    return sorted(run.glob(kind))[0]


def flip(file: Path) -> None:
    """One bit, in the middle."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


def findings(run: Path) -> dict[str, str]:
    return {f.file: f.problem for f in verism.verify(run).findings}


def tables(path: Path) -> dict[str, pl.DataFrame]:
    """What readers see of a run."""
    run = Run.open(path)
    judges = [*run.judges("detections"), TRUTH]
    read = {"images": run.read("images"), "verdicts": run.verdicts(), "scores": run.frame()}
    return read | {judge: run.read("detections", judge) for judge in judges}


def same(a: dict[str, pl.DataFrame], b: dict[str, pl.DataFrame]) -> bool:
    return a.keys() == b.keys() and all(a[name].equals(b[name]) for name in a)


# ------------------------------------------------------------------------------------------------------------ checking
def test_every_kind_of_file_of_a_run_is_damaged_below(made):
    covered = {path for kind in KINDS for path in made.glob(kind)}
    assert {path for path in made.rglob("*") if path.is_file()} == covered


def test_verify_whole_run_exits_0_and_counts_what_it_checked(made):
    found = verism.verify(made)
    assert (found.findings, found.is_whole, found.ledger, found.images) == ((), True, True, 3)
    done = command("verify", made, "--json")
    assert done.exit_code == 0
    record = json.loads(done.stdout)
    assert (record["whole"], record["findings"], record["files"]) == (True, [], found.files)
    assert verism.open_run(made).verify() == found


@pytest.mark.parametrize("size", [1, 4])
def test_images_are_checked_block_by_block_with_the_same_findings(size, tmp_path, monkeypatch):
    run = Run.start(tmp_path / "run", RunSettings(suite="paintskills"))
    for start in range(0, 24, 3):  # the ids of a shard are far apart
        rows = [
            {"image_id": f"p{(start + k) * 7 % 24:02d}#0", "prompt_id": "p", "index": 0, "seed": 0, "state": "ok"}
            for k in range(3)
        ]
        pngs = [f"{row['image_id']} as a file".encode() for row in rows]
        shown = [(row | {"sha256": sha256(png)}, png) for row, png in zip(rows, pngs, strict=True)]
        paths = write_shards(run, shown, {}) if start % 2 else [run.write_image(r["image_id"], png) for r, png in shown]
        run.append("images", frame("images", [row | {"path": path} for (row, _), path in zip(shown, paths)]))
    files = sorted((run.path / "images").glob("*.png"))
    shards = sorted((run.path / "shards").glob("*.tar"))
    assert (len(files), len(shards)) == (12, 4)
    flip(files[3])
    files[7].unlink()
    flip(shards[0])
    shards[1].unlink()
    run.write_image("of no row", b"another")
    (run.path / "images" / ".part.tmp").write_bytes(b"cut")
    every = verism.verify(run.path)
    assert {f.problem for f in every.findings} == {"damaged", "missing", "leftover"}
    monkeypatch.setattr(store_blocks, "BLOCK", size)
    deal, dealt = store_blocks.Dealer.take, []
    monkeypatch.setattr(store_blocks.Dealer, "take", lambda *args: dealt.append(deal(*args)) or dealt[-1])
    read = Run.read
    monkeypatch.setattr(
        Run,
        "read",
        lambda run, table, **k: pytest.fail("a whole table") if table == "images" else read(run, table, **k),
    )
    found = verism.verify(run.path)
    assert sorted(found.findings, key=str) == sorted(every.findings, key=str)
    assert (found.images, found.files) == (every.images, every.files)
    assert max(rows.height for rows in dealt) <= max(size, 3)  # a shard is read once, for its three images


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["flipped", "cut", "deleted"])
def test_verify_damaged_file_is_named_and_the_exit_code_is_1(kind, how, copied):
    file = file_of(copied, kind)
    if (kind, how) == ("manifest.json", "deleted"):
        file.unlink()
        with pytest.raises(UsageError, match="is not a run directory"):
            command("verify", copied)
        return
    if how == "flipped":
        flip(file)
    elif how == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    else:
        file.unlink()
    found = findings(copied)
    if kind == "ledger/*.json" and how == "deleted":  # of one segment of several, parts speak for themselves
        assert "prompts.parquet" in found
    else:
        assert found[file.relative_to(copied).as_posix()] == ("missing" if how == "deleted" else "damaged") or (
            how == "deleted" and kind in ("scoring.json", "scorings/*/scoring.json")
        )
    done = command("verify", copied)
    assert done.exit_code == 1
    assert f"repair: verism verify {shlex.quote(str(copied))} --repair" in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_readers_damaged_file_is_refused_by_name_or_read_by_nobody(kind, copied, made):
    file = file_of(copied, kind)
    flip(file)
    if kind in ("scores.json", "scorings/*/scores.json", "images/*.png"):
        assert same(tables(copied), tables(made))
        return

    def read_all() -> None:
        run = verism.open_run(copied)
        run.prompts()
        tables(copied)
        run.presentation()

    with pytest.raises(DamagedRun) as err:
        read_all()
    assert str(file) in str(err.value)
    if kind != "manifest.json":
        assert f"verism verify {shlex.quote(str(copied))} --repair" in str(err.value)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "part-" in kind])
def test_readers_deleted_or_foreign_part_is_refused_by_name(kind, copied, made, other):
    file = file_of(copied, kind)
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(DamagedRun, match=rf"{file.name} is damaged: it is gone"):
        tables(copied)
    file.write_bytes(content)
    assert same(tables(copied), tables(made))
    # The same table of another run, made in the same way.
    foreign = file_of(other, kind)
    shutil.copy(foreign, file.parent)
    with pytest.raises(DamagedRun, match=rf"{foreign.name} is damaged: it is no file that this run wrote"):
        tables(copied)
    assert findings(copied) == {(file.parent / foreign.name).relative_to(copied).as_posix(): "foreign"}
    # A copy within the run, under another name.
    (file.parent / foreign.name).unlink()
    shutil.copy(file, file.with_name("part-00000000-000000000000000000000000.parquet"))
    with pytest.raises(DamagedRun, match="it is no file that this run wrote"):
        tables(copied)


def test_judges_are_not_shown_a_damaged_image(copied):
    flip(file_of(copied, "images/*.png"))
    judge = PixelJudge(name="second@1")
    with pytest.raises(VerismError, match=r"is not what it was when the run took it in.*verism verify"):
        verism.observe(copied, judge)
    assert judge.seen == []


def test_report_does_not_show_an_image_that_was_changed(copied):
    file = file_of(copied, "images/*.png")
    file.write_bytes(file_of(copied, "images/*[!0]*.png").read_bytes() + b"\0")
    page = verism.open_run(copied).report().read_text(encoding="utf-8")
    assert "its file was changed since, and is not shown" in page


# ----------------------------------------------------------------------------------------------------------- repairing
@pytest.mark.parametrize(
    ("kind", "how"),
    [*((kind, "flipped") for kind in DATA), *((kind, "deleted") for kind in DATA if "part-" not in kind)],
)
def test_repair_makes_again_what_was_lost(kind, how, copied, made):
    file = file_of(copied, kind)
    flip(file) if how == "flipped" else file.unlink()
    done = command("verify", copied, "--repair", "--json")
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["whole"], record["not_repaired"], record["findings"]) == (True, [], [])
    assert same(tables(copied), tables(made))
    assert (copied / "scores.json").read_bytes() == (made / "scores.json").read_bytes()


def test_verify_without_repair_does_not_say_that_something_was_removed(copied):
    image = file_of(copied, "images/*.png")
    flip(image)
    said = command("verify", copied).stdout
    assert f"images/{image.name}: its content is not what it was (repair: removed, and made again)" in said
    assert image.exists()


def test_repair_of_a_whole_run_removes_leftovers_and_nothing_else(copied, made):
    (copied / "images" / ".part-x.parquet.9.ff.tmp").write_bytes(b"half")
    (copied / "images" / "nobody-0123456789abcdef.png").write_bytes(b"png")
    (copied / "notes.txt").write_text("mine")
    assert set(findings(copied).values()) == {"leftover"}
    assert command("verify", copied).exit_code == 0
    assert command("verify", copied, "--repair").exit_code == 0
    assert {p.relative_to(copied) for p in copied.rglob("*")} == {p.relative_to(made) for p in made.rglob("*")} | {
        Path("notes.txt")
    }


def test_repair_sets_a_foreign_part_aside(copied, made):
    foreign = copied / "images" / "part-0123.parquet"
    foreign.write_bytes(b"PAR1")
    assert command("verify", copied, "--repair").exit_code == 0
    assert foreign.with_name("part-0123.parquet.foreign").read_bytes() == b"PAR1"
    assert same(tables(copied), tables(made))


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 7, 9, 12, 16, 20, 25])
def test_repair_killed_at_any_change_of_a_file_is_finished_by_the_next(number, copied, made, monkeypatch):
    flip(file_of(copied, "observations/detections/builtin-*/part-*.parquet"))
    flip(file_of(copied, "scorings/*/verdicts.parquet"))
    changes = iter(range(10**6))

    def dying(change: Callable[..., None]) -> Callable[..., None]:
        def changing(*args: object, **options: object) -> None:
            if next(changes) >= number:
                raise Killed
            change(*args, **options)

        return changing

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dying(os.replace))
        patch.setattr(os, "unlink", dying(os.unlink))
        with suppress(Killed):
            verism.repair(copied)
    seen = findings(copied)
    assert seen
    assert number == 0 or seen.get("repair.json") == "outdated" or set(seen.values()) == {"leftover"}
    done = command("verify", copied, "--repair")
    assert done.exit_code == 0, done.stderr
    assert same(tables(copied), tables(made))
    assert not findings(copied)


def test_manifest_of_another_run_is_named_and_a_repair_removes_nothing(copied, other, made):
    shutil.copy(other / "manifest.json", copied / "manifest.json")
    before = {p.relative_to(copied) for p in copied.rglob("*")}
    assert findings(copied) == {"manifest.json": "foreign"}
    done = command("verify", copied, "--repair")
    assert done.exit_code == 1
    assert "manifest.json: it is another run's" in done.stdout + done.stderr
    assert {p.relative_to(copied) for p in copied.rglob("*")} == before
    shutil.copy(made / "manifest.json", copied / "manifest.json")
    assert command("verify", copied).exit_code == 0


def test_repair_keeps_the_rules_that_the_scores_were_made_with(copied):
    verism.score(copied, threshold=0.9)
    before = tables(copied)
    flip(file_of(copied, "observations/detections/builtin-*/part-*.parquet"))
    assert command("verify", copied, "--repair").exit_code == 0
    assert verism.open_run(copied).manifest.scoring.rules["threshold_revised"] == 0.9
    assert same(tables(copied), before)


def test_repair_of_what_only_python_can_make_says_so_and_leaves_the_scores_alone(tmp_path, suite, scripted):
    run = verism.evaluate(suite, model=scripted(), detector=PixelJudge(), out=tmp_path / "run")
    before = (run.path / "scores.json").read_bytes()
    flip(file_of(run.path, "observations/detections/pixel-*/part-*.parquet"))
    done = command("verify", run.path, "--repair")
    assert done.exit_code == 1
    assert "made from Python with objects that cannot be named" in done.stderr
    assert "not scored again, as there are gone: 12 observations by pixel-judge@1" in done.stderr
    assert (run.path / "scores.json").read_bytes() == before
    assert "outdated" in findings(run.path).values()
    verism.evaluate(suite, model=scripted(), detector=PixelJudge(), out=run.path)
    assert verism.verify(run.path).is_whole
    assert (run.path / "scores.json").read_bytes() == before


def test_repair_does_not_touch_images_that_lie_elsewhere(tmp_path):
    suite = PaintSkills.standard(limit=3, seed=5)
    pictures = tmp_path / "pictures"
    renderer = PixelRenderer(tuple(suite.classes), suite.colors)
    for scene in suite.scenes:
        write_whole(pictures / f"{scene.scene_id}.png", encode_png(renderer.render(scene).pixels))
    verism.evaluate(suite, images=pictures, detector=PixelJudge(), out=tmp_path / "run")
    gone = pictures / f"{suite.scenes[0].scene_id}.png"
    content = gone.read_bytes()
    gone.unlink()
    assert findings(tmp_path / "run") == {str(gone): "missing"}
    done = command("verify", tmp_path / "run", "--repair")
    assert done.exit_code == 1
    assert "restore the file" in done.stdout
    assert Run.open(tmp_path / "run").read("images")["state"].to_list() == ["ok"] * 3
    gone.write_bytes(content)
    assert verism.verify(tmp_path / "run").is_whole


# -------------------------------------------------------------------------------------------------- a scoring is a unit
class Killed(BaseException):
    """As of a process that ends at once."""


def killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Let the write of this number, and all after it, not happen."""
    count = iter(range(10**6))

    def wrapped(write: Callable[..., None]) -> Callable[..., None]:
        def writing(*args: object, **options: object) -> None:
            if next(count) >= number:
                raise Killed
            write(*args, **options)

        return writing

    monkeypatch.setattr(scorings, "write_whole", wrapped(write_whole))
    monkeypatch.setattr(scorings, "write_json", wrapped(write_json))
    return count


@pytest.fixture(scope="module")
def again(made, tmp_path_factory) -> Path:
    """The run, scored with another threshold."""
    path = Path(shutil.copytree(made, tmp_path_factory.mktemp("again") / "a run"))
    verism.score(path, threshold=0.99)
    return path


@pytest.mark.parametrize("number", range(8))
def test_score_killed_at_any_write_leaves_the_earlier_scoring_or_the_new_one(number, copied, made, again, monkeypatch):
    old, new = tables(made), tables(again)
    assert not old["verdicts"].equals(new["verdicts"])
    with monkeypatch.context() as patch:
        count = killed_at(number, patch)
        try:
            verism.score(copied, threshold=0.99)
        except Killed:
            pass
        else:
            assert number == next(count) == 7  # verdicts, scores twice, presentation, record, pointer, copy
    seen, run = tables(copied), verism.open_run(copied)
    threshold = run.manifest.scoring.rules["threshold_revised"]
    assert same(seen, new if threshold == 0.99 else old)
    assert (threshold == 0.99) == (number >= 6)
    assert verism.verify(copied).is_whole or findings(copied) == {"scores.json": "damaged"}
    verism.score(copied, threshold=0.99)
    assert same(tables(copied), new)


def test_readers_hold_on_to_one_scoring_while_the_run_is_scored_again(copied, made):
    pinned = verism.open_run(copied).pinned()
    old = pinned.verdicts()
    verism.score(copied, threshold=0.99)
    assert pinned.verdicts().equals(old)
    assert pinned.frame().equals(verism.open_run(made).frame())
    assert not verism.open_run(copied).verdicts().equals(old)
    assert len(list((copied / "scorings").iterdir())) == 2
    verism.score(copied, threshold=0.98)
    assert len(list((copied / "scorings").iterdir())) == 2


def test_scores_of_tables_that_changed_since_are_called_outdated(copied):
    run = Run.open(copied)
    assert run.outdated() == []
    prompt = run.prompts()[0].prompt_id
    row = {"image_id": make_image_id(prompt, 9), "prompt_id": prompt, "index": 9, "state": "failed", "note": "late"}
    run.append("images", frame("images", [row]))
    assert run.outdated() == ["images"]
    assert findings(copied) == {"scoring.json": "outdated"}
    assert "older than images" in verism.open_run(copied).report().read_text(encoding="utf-8")
    verism.score(copied)
    assert run.outdated() == []
    run.compact("images")  # puts two parts into one, and changes no row
    assert len(list((copied / "images").glob("part-*"))) == 1
    assert run.outdated() == []
    assert verism.verify(copied).is_whole


def test_repair_of_scores_whose_rules_are_lost_says_so(copied):
    flip(file_of(copied, "scoring.json"))
    flip(file_of(copied, "scorings/*/scoring.json"))
    done = command("verify", copied, "--repair")
    assert done.exit_code == 1
    assert f"score it anew: verism score {shlex.quote(str(copied))}" in done.stderr
    verism.score(copied)
    assert verism.verify(copied).is_whole


# ----------------------------------------------------------------------------------------------------- earlier versions
def test_run_of_an_earlier_version_is_read_and_gets_a_ledger_with_its_next_scoring(copied, made):
    expected = tables(made)
    as_earlier_version(Run.open(copied))
    assert same(tables(copied), expected)
    found = verism.verify(copied)
    assert (found.is_whole, found.ledger) == (True, False)
    assert "no ledger" in command("verify", copied).stdout
    assert not (copied / "ledger").exists()
    verism.score(copied)
    assert same(tables(copied), expected)
    found = verism.verify(copied)
    assert (found.is_whole, found.ledger, found.images) == (True, True, 3)
    assert not (copied / "scores.parquet").exists()
    assert json.loads((copied / "manifest.json").read_text())["schema_version"] == 3
    flip(file_of(copied, "images/part-*.parquet"))
    with pytest.raises(DamagedRun, match="its content is not what was written"):
        tables(copied)


@pytest.mark.parametrize("kind", ["images/part-*.parquet", "observations/detections/builtin-*/part-*.parquet"])
def test_damaged_table_of_an_earlier_version_is_an_error_that_names_it(kind, copied):
    as_earlier_version(Run.open(copied))
    file = file_of(copied, kind)
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(DamagedRun, match=rf"{file.name} is damaged: it is no table"):
        tables(copied)


def test_two_processes_that_adopt_one_run_agree_on_its_identity(copied):
    old = as_earlier_version(Run.open(copied))
    other = Run.open(copied)
    old.note_call({"command": "observe", "judges": {}})
    other.note_call({"command": "evaluate", "judges": {}})
    assert old.manifest.uid == other.manifest.uid == Run.open(copied).manifest.uid != ""
    assert verism.verify(copied).is_whole


def test_ledger_segments_stay_short_and_all_are_read(tmp_path):
    ledger = Ledger(tmp_path, "u")
    for number in range(150):
        ledger.add({f"images/part-{number}.parquet": "0" * 64})
    assert len(ledger.segments()) == 3
    assert len(Ledger(tmp_path, "u").listing().inside("images")) == 150
    with pytest.raises(DamagedRun, match="it belongs to another run"):
        Ledger(tmp_path, "other").listing()
