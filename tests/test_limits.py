"""Files that stand for far more than their size: refused by their headers, before memory is taken."""

from __future__ import annotations

import errno
import io
import json
import sqlite3
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from verism.arrays import open_arrays, read_array, read_arrays
from verism.characters import visible
from verism.cli.faults import explain
from verism.errors import UsageError, VerismError
from verism.limits import LIMITS, TABLE_BYTES
from verism.parquet import parse_parquet, read_footer, read_parquet
from verism.pipeline.local import make_requests
from verism.pipeline.stream import batches
from verism.records import Prompt


@pytest.mark.parametrize("limit", [x for x in LIMITS if not x.fixed], ids=lambda x: x.name)
def test_limits_are_set_by_their_variable_and_wrong_values_refused(monkeypatch, limit):
    monkeypatch.setenv(limit.variable, "12345")
    assert limit.value == 12345
    assert f"the limit is 12,345 {limit.unit}; {limit.variable} raises it" == limit.hint()
    for wrong in ("0", "-1", "1e9", "many", "9" * 30):
        monkeypatch.setenv(limit.variable, wrong)
        with pytest.raises(UsageError, match=limit.variable):
            _ = limit.value


# --------------------------------------------------------------------------------------------------------------- arrays
def zeros_archive(path: Path, size: int) -> Path:
    """An .npz whose array has so many bytes, all zero."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("features.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    return path


def test_open_arrays_bomb_of_zeros_is_not_decoded(tmp_path):
    path = zeros_archive(tmp_path / "a.npz", 300 << 20)
    assert path.stat().st_size < 3 << 20
    with pytest.raises(
        UsageError, match=r"would take 314,572,\d+ bytes of memory, compressed to .*ARRAY_RATIO raises it"
    ):
        read_arrays(path)


def test_open_arrays_limit_of_memory_holds_for_all_arrays_together(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", a=np.zeros(1000), b=np.zeros(1000))
    np.save(tmp_path / "a.npy", np.zeros(2000))
    monkeypatch.setenv("VERISM_LIMIT_ARRAY_BYTES", "15000")
    for name in ("a.npz", "a.npy"):
        with pytest.raises(UsageError, match=r"would take 16,\d+ bytes of memory; the limit is 15,000 bytes"):
            open_arrays(tmp_path / name).__enter__()
    monkeypatch.setenv("VERISM_LIMIT_ARRAY_BYTES", "17000")
    assert read_array(tmp_path / "a.npy").sum() == sum(a.sum() for a in read_arrays(tmp_path / "a.npz").values()) == 0


def test_open_arrays_header_of_a_trillion_numbers_is_refused(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    (tmp_path / "a.npy").write_bytes(header.getvalue())
    with pytest.raises(UsageError, match=r"speaks of 8,000,000,000,000 bytes, and the file has 128"):
        read_array(tmp_path / "a.npy")


# -------------------------------------------------------------------------------------------------------------- parquet
def written(path: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(path)
    return path


def test_read_parquet_footer_says_what_polars_reads(tmp_path):
    frame = pl.DataFrame({"a": ["x", None, "z"], "b": [[1.0, 2.0], [], [3.0]], "c": [True, False, None]})
    path = written(tmp_path / "a.parquet", frame)
    assert read_footer(path.read_bytes()).rows == 3
    assert read_parquet(path).equals(frame)
    assert read_parquet(path, columns=["b"], n_rows=1).equals(frame.select("b").head(1))


def test_read_parquet_bomb_of_equal_rows_is_refused(tmp_path):
    path = written(tmp_path / "a.parquet", pl.DataFrame({"a": pl.repeat("x" * 50, 300_000, eager=True)}))
    assert path.stat().st_size < 10_000
    with pytest.raises(UsageError, match=r"holds 300,000 rows in .* bytes, as files made to fill a memory do"):
        read_parquet(path)


def test_read_parquet_bomb_of_long_lists_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path / "a.parquet", pl.DataFrame({"v": [[0.0] * 5000] * 400}))
    assert path.stat().st_size < 200_000
    assert read_footer(path.read_bytes()).decoded_bytes >= 400 * 5000 * 8
    monkeypatch.setenv(TABLE_BYTES.variable, "15000000")
    with pytest.raises(UsageError, match=r"would take about 16,000,000 bytes of memory; the limit is 15,000,000"):
        read_parquet(path)


def what_is_said(content: bytes, path: Path) -> str:
    """The error about a file's content; empty if it can be read."""
    try:
        parse_parquet(content, path, remedy="make it anew")
    except VerismError as err:
        return str(err)
    return ""


def test_read_parquet_damage_is_told_with_file_and_remedy(tmp_path):
    path = written(tmp_path / "a.parquet", pl.DataFrame({"a": list(range(1000)), "b": ["x"] * 1000}))
    data, rng = path.read_bytes(), np.random.default_rng(3)
    told = 0
    for _ in range(150):
        broken = bytearray(data[: rng.integers(len(data) // 2, len(data) + 1)])
        for place in rng.integers(0, len(broken), 3):
            broken[place] = rng.integers(256)
        said = what_is_said(bytes(broken), path)
        told += said != ""
        assert said == "" or (said.startswith(f"{path} ") and "\n" not in said)
        assert said == "" or said.endswith(("; make it anew", "raises it"))
    assert told > 100


# ----------------------------------------------------------------------------------------------------------------- runs
def test_make_requests_more_images_than_a_run_may_have_are_refused():
    prompts = [Prompt(prompt_id=str(n), suite="s", text="t", n_images=4000) for n in range(3000)]
    with pytest.raises(UsageError, match=r"3,000 prompts ask for 12,000,000 images; the limit is 10,000,000 images"):
        make_requests(prompts, 0)


def test_batches_of_large_images_end_early():
    sizes = [10**8, 10**8, 10**6, 10**9, 1, *[1] * 70]
    assert [len(batch) for batch in batches(sizes, 32, pixels=lambda size: size)] == [1, 2, 1, 32, 32, 7]
    assert [len(batch) for batch in batches(sizes, 32)] == [32, 32, 11]


# ----------------------------------------------------------------------------------------------------------- one funnel
FULL = "/x/a.png: No space left on device. The disk is full"
NO_FOLDER = "a/b: Not a directory. A part of the path is a file"
DAMAGED = "a table cannot be read or written: parquet: bad."
DISK = "No space left on device (os error 28)"


@pytest.mark.parametrize(
    ("err", "kind", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x/a.png"), VerismError, FULL),
        (OSError(errno.ENOTDIR, "Not a directory", "a/b"), UsageError, NO_FOLDER),
        (OSError(errno.ENAMETOOLONG, "File name too long", "aaa"), UsageError, "choose a shorter one"),
        (OSError(errno.EMFILE, "Too many open files"), VerismError, "ulimit -n"),
        (MemoryError("8 TiB"), VerismError, "there is not enough memory (8 TiB)"),
        (RecursionError("maximum recursion depth exceeded"), VerismError, "nested too deeply"),
        (pl.exceptions.ComputeError("parquet: bad\nmore"), VerismError, DAMAGED),
        (pl.exceptions.ComputeError(DISK), VerismError, "The disk is full"),
        (sqlite3.OperationalError("database or disk is full"), VerismError, "The disk is full"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, BaseException) else "",
)
def test_explain_errors_of_the_machine_in_a_line(err, kind, words):
    told = explain(err)
    assert type(told) is kind
    assert words in str(told)
    assert "\n" not in str(told)


def test_explain_text_that_cannot_be_written():
    with pytest.raises(UnicodeEncodeError) as raised:
        "a\ud800b".encode()
    assert "'a\\ud800b' holds bytes that are no character of UTF-8" in str(explain(raised.value))


def test_explain_mistakes_of_ours_keep_their_traceback():
    assert explain(ValueError("wrong")) is None
    assert explain(KeyError("a")) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本\ttab\n", "plain é 日本\ttab\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b", "\\x1b"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("\ud800", "\\ud800"),
        ("\x9b2J", "\\x9b2J"),
        (json.dumps({"a": 1}), '{"a": 1}'),
    ],
)
def test_visible_shows_what_would_act(text, shown):
    assert visible(text) == shown
    visible(text).encode()
