"""Small files that unpack to large ones, endless files, and numbers at their ends, each under a limit of memory."""

from __future__ import annotations

import io
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from fault_campaigns.commands import GIB, Done, Limits, called, forked
from fault_campaigns.images import _png, _prompt_ids
from fault_campaigns.runs import judged
from fault_campaigns.trials import Job, Outcome, Setting, Site, Trial, worst

NAME = "bombs"
MEMORY = 4 * GIB  # of address space; the libraries alone take more than one
WAIT_S = 60.0
DETECTOR = ("--detector", "builtin", "--threads", "1")


def jobs(setting: Setting) -> list[Job]:
    """Files, runs and numbers, dealt out."""
    files, numbers = list(FILES), list(range(len(NUMBERS)))
    if setting.quick:
        return [Job(NAME, bad_files, (["features: header of 10^12 numbers", "prompts: deep JSON"],), 5)]
    made = [Job(NAME, bad_files, (files[part::6],), 25) for part in range(6)]
    made += [Job(NAME, bad_numbers, (numbers[part::4],), 15) for part in range(4)]
    return [*made, Job(NAME, bad_runs, (), 20), Job(NAME, large_images, (), 40)]


# --------------------------------------------------------------------------------------------------------------- files
def _npy_header(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def _npz(shape: str, size: int) -> bytes:
    """An archive with one array of zeros that unpacks to ``size`` bytes."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("features.npy", "w", force_zip64=True) as file,
    ):
        file.write(_npy_header(shape))
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return buffer.getvalue()


def _archive(change: Callable[[bytearray], None]) -> bytes:
    data = bytearray(_npz("(4, 8)", 0) + b"")
    change(data)
    return bytes(data)


def _encrypted(data: bytearray) -> None:
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(mark) + place] |= 1


def _another_method(data: bytearray) -> None:
    for mark, place in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        data[data.index(mark) + place] = 97


def _said_size(data: bytearray) -> None:
    data[data.index(b"PK\1\2") + 24 : data.index(b"PK\1\2") + 28] = b"\xff\xff\xff\x7f"


def _cut(data: bytearray) -> None:
    del data[len(data) // 2 :]


def _pickled() -> bytes:
    """An array of objects, whose unpickling would make the file ``unpickled``."""
    pickle = b"cos\nsystem\n(S'touch unpickled'\ntR."
    text = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + pickle


ALIASES = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)
NESTED = 100_000
ARRAYS: dict[str, Callable[[], bytes]] = {
    "3 GiB of zeros": lambda: _npz("(6291456, 128)", 3 << 30),
    "header of 10^12 numbers": lambda: _npy_header("(1000000, 1000000)"),
    "header of 10^40 numbers": lambda: _npy_header(f"({10**20}, {10**20})"),
    "negative header": lambda: _npy_header("(-1, 8)") + bytes(64),
    "header of nonsense": lambda: _npy_header("((((((((((1,),),),),),),),),),)"),
    "deep header": lambda: _npy_header("(" * 60),
    "header that runs": lambda: _npy_header("__import__('os').system('touch unpickled')"),
    "pickled": _pickled,
    "encrypted": lambda: _archive(_encrypted),
    "another method": lambda: _archive(_another_method),
    "another size": lambda: _archive(_said_size),
    "cut": lambda: _archive(_cut),
    "no archive": lambda: b"PK\3\4" + bytes(100),
    "empty": lambda: b"",
}
LISTS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "deep JSON": (".jsonl", lambda: b'{"prompt": ' + b"[" * NESTED + b"]" * NESTED + b"}"),
    "deep objects": (".json", lambda: b'{"a":' * NESTED + b"1" + b"}" * NESTED),
    "digits": (".jsonl", lambda: b'{"prompt": "a", "n": ' + b"9" * 10_000 + b"}"),
    "a long cell": (".csv", lambda: b'prompt\n"' + b"x" * 2_000_000 + b'"\n'),
    "an open quotation mark": (".csv", lambda: b'prompt\n"' + b"x,y\n" * 200_000),
    "many columns": (".csv", lambda: b",".join(b"c%d" % n for n in range(100_000)) + b"\n" + b"," * 99_999),
    "zero bytes": (".csv", lambda: b"prompt\na\0b\n"),
    "no UTF-8": (".csv", lambda: b"prompt\n\xff\xfe\n"),
    "UTF-16": (".csv", lambda: "prompt\na cat\n".encode("utf-16")),
    "half of a pair": (".jsonl", lambda: b'{"prompt": "\\ud800"}\n'),
    "one long line": (".txt", lambda: b"x" * 20_000_000),
    "nothing": (".csv", lambda: b""),
}
STUDIES: dict[str, Callable[[], bytes]] = {
    "aliases": ALIASES.encode,
    "deep YAML": lambda: b"[" * NESTED,
    "deep YAML by lines": lambda: b"".join(b" " * n + b"a:\n" for n in range(2000)),
    "a tag": lambda: b"!!python/object/apply:os.system ['touch unpickled']\n",
    "a date that is none": lambda: b"when: 2024-02-31\n",
    "digits": lambda: b"n: " + b"9" * 10_000 + b"\n",
    "keys that are lists": lambda: b"? [a]\n: b\n",
}


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 30)


ENDLESS: dict[str, Callable[[Path], object]] = {
    "sparse file of 100 GiB": _sparse,
    "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
}


def _features(path: Path) -> list[object]:
    return ["metrics", "prdc", "--real", path, "--generated", path]


def _prompts(path: Path) -> list[object]:
    return ["prompts", "quality", "--prompts", path]


def _study(path: Path) -> list[object]:
    return ["prompts", "social_bias", "--study", path]


def _reference(path: Path) -> list[object]:
    return ["run", "quality", "--reference", path, "--images", "pictures", "--features", "builtin", "--out", "run"]


def _card(path: Path) -> list[object]:
    return ["judge", "show", path]


READERS: dict[str, Callable[[Path], list[object]]] = {
    "features": _features,
    "reference": _reference,
    "prompts": _prompts,
    "study": _study,
    "card": _card,
}
FILES: dict[str, tuple[str, str, Callable[[Path], object]]] = {}
"""Name of a file: its reader, its suffix, and what makes it."""


def _writer(make: Callable[[], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(make())


for _name, _make in ARRAYS.items():
    for _reader in ("features", "reference"):
        _suffix = ".npy" if "header" in _name or (_name in ("pickled", "empty") and _reader == "features") else ".npz"
        FILES[f"{_reader}: {_name}"] = (_reader, _suffix, _writer(_make))
for _name, (_suffix, _make) in LISTS.items():
    FILES[f"prompts: {_name}"] = ("prompts", _suffix, _writer(_make))
for _name, _make in STUDIES.items():
    FILES[f"study: {_name}"] = ("study", ".yaml", _writer(_make))
for _name in ("deep JSON", "deep objects", "digits", "nothing"):
    FILES[f"card: {_name}"] = ("card", ".json", _writer(LISTS[_name][1]))
for _name, _put in ENDLESS.items():
    for _reader, _suffix in (("features", ".npy"), ("reference", ".npz"), ("prompts", ".csv"), ("study", ".yaml")):
        FILES[f"{_reader}: {_name}"] = (_reader, _suffix, _put)


def bad_files(site: Site, names: list[str]) -> Iterator[Trial]:
    """Files before the commands that read them: read, or refused in words that name them."""
    shutil.copytree(site.templates / "pictures", site.folder / "pictures")
    for number, name in enumerate(names):
        reader, suffix, put = FILES[name]
        path = site.folder / f"bad-{number}{suffix}"
        put(path)
        done = _limited(site, READERS[reader](path))
        outcome, detail = worst(_checks(site, done, path.name))
        yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail, files=1)
        if path.is_file() and not path.is_symlink():
            path.unlink()
        shutil.rmtree(site.folder / "run", ignore_errors=True)


def _limited(site: Site, words: list[object], seconds: float = WAIT_S) -> Done:
    return forked(words, cwd=site.folder, timeout=seconds, limits=Limits(memory=MEMORY, file=2 * GIB))


def _checks(site: Site, done: Done, name: str) -> Iterator[tuple[Outcome, str]]:
    yield judged(done)
    if list(site.folder.rglob("unpickled")):
        yield "silent", "the file's own program ran"
    if done.code not in (None, 0) and done.code is not None and done.code > 0 and name not in done.said:
        yield "silent", f"exit code {done.code}, and nothing names the file: {done.said[-200:]}"


# ---------------------------------------------------------------------------------------------------------------- runs
def _rows_of_parquet(path: Path) -> None:
    """Put three million equal rows in place of a table."""
    import polars as pl

    row = pl.read_parquet(path, glob=False).head(1)
    row.select(pl.all().repeat_by(3_000_000).explode()).write_parquet(path)


def _image_at(path: Path, place: str) -> None:
    """Let every image of a run lie elsewhere."""
    import polars as pl

    pl.read_parquet(path, glob=False).with_columns(path=pl.lit(place)).write_parquet(path)


def bad_runs(site: Site) -> Iterator[Trial]:
    """Runs from elsewhere, made to hurt whoever opens them."""
    tables: dict[str, tuple[str, Callable[..., None], tuple[str, ...]]] = {
        "three million equal images": ("images/part-*.parquet", _rows_of_parquet, ()),
        "three million equal prompts": ("prompts.parquet", _rows_of_parquet, ()),
        "three million equal boxes": ("observations/*/*/part-*.parquet", _rows_of_parquet, ()),
        "images at /dev/zero": ("images/part-*.parquet", _image_at, ("/dev/zero",)),
        "images at /proc/self/mem": ("images/part-*.parquet", _image_at, ("/proc/self/mem",)),
        "images at /etc/passwd": ("images/part-*.parquet", _image_at, ("/etc/passwd",)),
    }
    for name, (pattern, change, arguments) in tables.items():
        run = site.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(site.templates / "mine", run)
        called(change, sorted(run.glob(pattern))[0], *arguments, cwd=site.folder)
        commands: list[list[object]] = [
            ["report", run],
            ["report", run, "--json"],
            ["score", run],
            ["compare", run, run],
        ]
        commands += [["observe", run, "--detector", "builtin:min_score=0.3", "--threads", "1"]]
        ended = [_limited(site, words) for words in commands]
        outcome, detail = worst([judged(*ended)])
        page = run / "report" / "index.html"
        if outcome == "survived" and page.exists() and "root:x:0" in page.read_text(encoding="utf-8"):
            outcome, detail = "silent", "a file of the machine is in the page"
        yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail, files=1)


# ------------------------------------------------------------------------------------------------------------- numbers
RUN = ("run", "paintskills", "--model", "scripted", "--processes", "1", "--size", "64", "--detector", "truth")
NUMBERS: tuple[tuple[str, ...], ...] = (
    (*RUN, "--n-images", "1000000000", "--out", "{out}"),
    (*RUN, "--limit", "1000000000000", "--dry-run", "--out", "{out}"),
    (*RUN, "--limit", "0", "--out", "{out}"),
    (*RUN, "--limit", "2", "--seed", "-1", "--out", "{out}"),
    (*RUN, "--limit", "2", "--seed", "9" * 40, "--out", "{out}"),
    (*RUN, "--limit", "2", "--size", "1000000", "--out", "{out}"),
    (*RUN, "--limit", "2", "--size", "-5", "--out", "{out}"),
    (*RUN, "--limit", "2", "--processes", "1000000", "--out", "{out}"),
    ("run", "paintskills", "--images", "{templates}/pictures", "--threads", "1000000", *DETECTOR[:2], "--out", "{out}"),
    (*RUN, "--limit", "2", "--out", "/dev/null/run"),
    (*RUN, "--limit", "2", "--out", "/proc/run"),
    (*RUN, "--limit", "2", "--out", "x" * 300),
    (*RUN, "--limit", "2", "--out", ""),
    (*RUN, "--limit", "2", "--out", "a\nb"),
    ("score", "{templates}/mine", "--threshold", "nan"),
    ("score", "{templates}/mine", "--threshold", "1e999"),
    ("score", "{templates}/mine", "--rule", "spatial_margin=x"),
    ("score", "{templates}/mine", "--rule", "spatial_margin"),
    ("score", "{templates}/mine", "--rule", "=" * 1000),
    ("score", "{templates}/mine", "--judge", "detector=" + "x" * 5000),
    ("compare", "{templates}/mine", "{templates}/mine", "--seed", "-5"),
    ("compare", "{templates}/mine", "{templates}/mine", "--seed", "9" * 40),
    ("compare", "{templates}/mine", "{templates}/mine", "--by", "nothing"),
    ("report", "{templates}/mine", "--gallery", "1000000000", "--out", "{out}"),
    ("report", "{templates}/mine", "--out", "/dev/full"),
    ("report", "{templates}/mine", "--out", "/proc/x.html"),
    ("report", "{templates}/mine", "--out", "y" * 300),
    ("annotate", "{templates}/mine", "--task", "count", "--study", "z" * 300, "--export", "table", "--to", "{out}"),
    ("annotate", "{templates}/mine", "--task", "count", "--study", "../../x", "--export", "table", "--to", "{out}"),
    ("annotate", "{templates}/mine", "--task", "count", "--per-cell", "9" * 30, "--export", "table", "--to", "{out}"),
    ("annotate", "{templates}/mine", "--plan", "--half-width", "0"),
    ("annotate", "{templates}/mine", "--plan", "--half-width", "1e-300"),
    ("scenes", "render", "paintskills", "--limit", "1", "--size", "10000000", "--out", "{out}"),
    ("scenes", "render", "paintskills", "--limit", "1", "--empty", "0", "--seed", "-3", "--out", "{out}"),
    ("scenes", "portraits", "--count", "1", "--size", "1000000", "--out", "{out}"),
    ("scenes", "portraits", "--count", "1", "--size", "0", "--out", "{out}"),
    ("scenes", "sheet", "--only", "dog", "--size", "128", "--seed", "-1", "--out", "{out}.png"),
    ("metrics", "mad", "--counts", "1e308,1e308"),
    ("metrics", "mad", "--counts", "-1,2"),
    ("metrics", "mad", "--counts", "nan,2"),
    ("metrics", "mad", "--counts", ",".join(["1"] * 100_000)),
    ("metrics", "prdc", "--real", "/dev/null", "--generated", "/dev/null"),
    ("metrics", "prdc", "-k", "1000000000", "--real", "/dev/null", "--generated", "/dev/null"),
    ("judge", "card", "/dev/null", "--from", "truth", "--out", "{out}.json"),
    ("data", "reference", "quality", "/dev/null", "--features", "builtin", "--out", "{out}.npz"),
    ("prompts", "paintskills", "--n-images", "9" * 25),
    ("prompts", "paintskills", "--scenes", "/dev/zero"),
)


def bad_numbers(site: Site, numbers: list[int]) -> Iterator[Trial]:
    """Numbers, names and places at their ends: done, or refused in a line."""
    for number in numbers:
        out = site.folder / f"out-{number}"
        templates = site.folder / "templates"
        if not templates.exists():
            shutil.copytree(site.templates, templates)
        words = [word.format(out=out, templates=templates) for word in NUMBERS[number]]
        done = _limited(site, list(words))
        outcome, detail = judged(done)
        if outcome == "survived" and done.code not in (0, None) and not done.said.strip():
            outcome, detail = "silent", f"exit code {done.code} without a word"
        yield Trial(campaign=NAME, name=" ".join(words)[:150], outcome=outcome, detail=detail)


# -------------------------------------------------------------------------------------------------------------- images
def large_images(site: Site) -> Iterator[Trial]:
    """A dozen images of 63 megapixels, each within the limit: in bounded memory and time, or with a reason."""
    packer = zlib.compressobj(1)
    rows = b"".join(packer.compress(b"\0" + bytes((y % 251, 99, 7)) * 9000) for y in range(7000)) + packer.flush()
    pictures = site.folder / "pictures"
    pictures.mkdir()
    prompts = called(_prompt_ids, 12, cwd=site.folder).result
    for prompt_id in prompts:
        (pictures / f"{prompt_id}.png").write_bytes(_png(9000, 7000, rows))
    words = ["run", "paintskills", "--images", pictures, "--limit", 12, "--seed", "5", *DETECTOR, "--out"]
    done = _limited(site, [*words, site.folder / "run"], 150.0)
    outcome, detail = judged(done)
    yield Trial(campaign=NAME, name="12 images of 63 megapixels", outcome=outcome, detail=detail, files=12)
