"""Bad image files of every kind, as a user's images: each has a state and a reason, and the good ones keep theirs."""

from __future__ import annotations

import io
import os
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fault_campaigns.commands import Done, Limits, called, forked
from fault_campaigns.runs import judged
from fault_campaigns.trials import Job, Outcome, Setting, Site, Trial, worst

NAME = "images"
BATCH = 80  # images of one run
BATCHES = 18
MEMORY = 6 << 30  # bytes of address space; the libraries alone take more than one GiB
GOOD = 6  # images of each run that nothing is wrong with
HANGS = 90.0  # seconds for one run


# --------------------------------------------------------------------------------------------------------------- kinds
def _encoded(form: str, rng: random.Random, size: tuple[int, int] = (40, 40), **options: Any) -> bytes:
    from PIL import Image

    noise = Image.frombytes("RGB", (8, 8), rng.randbytes(192)).resize(size)
    buffer = io.BytesIO()
    noise.save(buffer, form, **options)
    return buffer.getvalue()


def _any(rng: random.Random) -> bytes:
    return _encoded(rng.choice(("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")), rng)


def _cut(rng: random.Random) -> bytes:
    data = _any(rng)
    return data[: rng.randrange(1, len(data))]


def _flipped(rng: random.Random) -> bytes:
    data = bytearray(_any(rng))
    for _ in range(rng.randrange(1, 40)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _zeros_inside(rng: random.Random) -> bytes:
    data = bytearray(_any(rng))
    begin = rng.randrange(len(data))
    data[begin : begin + 64] = bytes(len(data[begin : begin + 64]))
    return bytes(data)


def _png(width: int, height: int, body: bytes = b"", *more: tuple[bytes, bytes]) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [chunk(b"IHDR", header), *(chunk(*pair) for pair in more), chunk(b"IDAT", body), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _bomb(rng: random.Random) -> bytes:
    side = rng.choice((9_000, 30_000, 100_000, 2**31 - 1))
    return _png(side, side, zlib.compress(bytes(1 << 20)))


def _text_bomb(rng: random.Random) -> bytes:
    text = b"Comment\0\0" + zlib.compress(bytes(1 << 26))
    return _png(8, 8, zlib.compress(rng.randbytes(8 * 25)), (b"zTXt", text))


def _page_chain(rng: random.Random) -> bytes:
    """A TIFF whose pages lead back to the first."""
    data = bytearray(_encoded("TIFF", rng))
    first = struct.unpack_from("<I", data, 4)[0]
    entries = struct.unpack_from("<H", data, first)[0]
    struct.pack_into("<I", data, first + 2 + 12 * entries, first)
    return bytes(data)


def _huge_tiff(rng: random.Random) -> bytes:
    side = rng.choice((70_000, 2**32 - 1))
    tags = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8)]
    tags += [(277, 3, 1, 1), (278, 4, 1, side), (279, 4, 1, side)]
    body = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + body + bytes(4)


def _many_frames(rng: random.Random) -> bytes:
    from PIL import Image

    frames = [Image.frombytes("RGB", (4, 4), rng.randbytes(48)) for _ in range(200)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def _eps(rng: random.Random) -> bytes:
    """A program in PostScript, which shows by the file ``ghostscript-was-here`` that an interpreter ran."""
    width = rng.randrange(10, 90)
    script = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 {width} {width}\n"
    return script.encode() + b"(ghostscript-was-here) (w) file closefile\nshowpage\n%%EOF\n"


CONTENTS: dict[str, Callable[[random.Random], bytes]] = {
    "cut": _cut,
    "bits flipped": _flipped,
    "zeros inside": _zeros_inside,
    "empty": lambda _: b"",
    "web page": lambda rng: b"<!DOCTYPE html><html><title>403 Forbidden</title>" + rng.randbytes(20).hex().encode(),
    "JSON": lambda rng: b'{"error": "quota", "id": "%d"}' % rng.randrange(10**9),
    "random bytes": lambda rng: rng.randbytes(rng.randrange(1, 5000)),
    "zeros": lambda rng: bytes(rng.randrange(1, 5000)),
    "bomb": _bomb,
    "text bomb": _text_bomb,
    "page chain": _page_chain,
    "huge TIFF": _huge_tiff,
    "many frames": _many_frames,
    "EPS": _eps,
    "SVG": lambda _: b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
    "PDF": lambda _: b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF",
    "ICO of a bomb": lambda rng: b"\0\0\1\0\1\0\0\0\0\0\1\0\x20\0" + struct.pack("<II", 99, 22) + _bomb(rng)[:99],
    "wrong suffix": _any,
    "PNG without data": lambda _: _png(40, 40),
    "no size": lambda _: _png(0, 0),
    "one pixel": lambda rng: _encoded("PNG", rng, (1, 1)),
    "a line": lambda rng: _encoded("PNG", rng, (1, 3000)),
    "only a signature": lambda rng: rng.choice((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"II*\0", b"BM")),
    "two files in one": lambda rng: _any(rng) + _any(rng),
    "EXIF of chance": lambda rng: _encoded("JPEG", rng, exif=b"Exif\0\0" + rng.randbytes(200)),
    "ICC of chance": lambda rng: _encoded("JPEG", rng, icc_profile=rng.randbytes(300)),
}


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 30)


PLACES: dict[str, Callable[[Path], object]] = {
    "sparse file of 100 GiB": _sparse,
    "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to("/nowhere/at/all.png"),
    "/proc/self/mem": lambda path: path.symlink_to("/proc/self/mem"),
    "not there": lambda _: None,
    "not readable": lambda path: path.touch(0),
}


# -------------------------------------------------------------------------------------------------------------- trials
def jobs(setting: Setting) -> list[Job]:
    """Runs of some seventy bad images each, by a manifest; and folders with names that are no text."""
    if setting.quick:
        return [Job(NAME, bad_images, (0, 40), 6)]
    names = [Job(NAME, bad_names, (), 5)]
    return names + [Job(NAME, bad_images, (number, BATCH), 15) for number in range(BATCHES)]


def bad_images(site: Site, number: int, wanted: int) -> Iterator[Trial]:
    """One run of good and bad images; a trial for each bad one."""
    kinds = [*CONTENTS, *PLACES]
    pictures = site.folder / "pictures"
    pictures.mkdir()
    prompts = called(_prompt_ids, wanted + GOOD, cwd=site.folder).result
    rows, tried = ["path,prompt_id"], {}
    for place, prompt_id in enumerate(prompts):
        path = pictures / f"{place}{site.rng.choice(('.png', '.jpg', '.webp', '.tif', '.eps', ''))}"
        if place < GOOD:
            path.write_bytes(_encoded("PNG", site.rng))
            kind = "good"
        else:
            kind = kinds[(number * wanted + place) % len(kinds)]
            if kind in CONTENTS:
                path.write_bytes(CONTENTS[kind](site.rng))
            else:
                PLACES[kind](path)
        rows.append(f"{path},{prompt_id}")
        tried[prompt_id] = kind
    (site.folder / "images.csv").write_text("\n".join(rows) + "\n")
    words = ["run", "paintskills", "--images", "images.csv", "--limit", wanted + GOOD, "--seed", "5", "--detector"]
    out = site.folder / "run"
    done = forked(
        [*words, "builtin", "--threads", "1", "--out", out],
        cwd=site.folder,
        timeout=HANGS,
        limits=Limits(memory=MEMORY),
    )
    rows_of = called(_states, out, cwd=site.folder) if done.code in (0, 1) else None
    states = {} if rows_of is None or rows_of.result is None else rows_of.result
    run = _of_the_run(site, done)
    for prompt_id, kind in tried.items():
        if kind == "good":
            continue
        outcome, detail = worst([run, _of_the_image(kind, states.get(prompt_id))])
        name = f"run {number}: {kind}"
        yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail, files=1)
    wrong = [
        prompt_id for prompt_id, kind in tried.items() if kind == "good" and states.get(prompt_id, [""])[0] != "ok"
    ]
    yield Trial(
        campaign=NAME,
        name=f"run {number}: the {GOOD} good images beside them",
        outcome="lost" if wrong else "survived",
        detail=f"not ok: {wrong}" if wrong else "",
    )


def _of_the_run(site: Site, done: Done) -> tuple[Outcome, str]:
    if list(site.folder.rglob("ghostscript-was-here")):
        return "lost", "an interpreter of PostScript was started"
    if done.code not in (0, 1, None):
        return worst([judged(done), ("lost", f"exit code {done.code}: {done.said[-300:]}")])
    return judged(done)


def _of_the_image(kind: str, row: list[str | None] | None) -> tuple[Outcome, str]:
    if row is None:
        return "lost", "no row"
    state, note = row
    if state != "ok" and not note:
        return "silent", f"state {state} without a reason"
    if kind in ("EPS", "PDF", "SVG", "web page", "JSON", "empty", "zeros", *PLACES) and state == "ok":
        known_readable = kind == "not readable" and os.geteuid() == 0
        return ("survived", "") if known_readable else ("silent", "taken for an image")
    return "survived", ""


def bad_names(site: Site) -> Iterator[Trial]:
    """Folders of images whose names are no UTF-8, hold line ends or escape codes, or are very long."""
    for name in (b"\xff\xfe.png", b"a\nb.png", b"\x1b]0;title\x07.png", b"a" * 250 + b".png", b"-rf.png", b"=1+1.png"):
        folder = site.folder / name.hex()[:20]
        folder.mkdir()
        source = sorted((site.templates / "pictures").glob("*.png"))
        for path in source:
            (folder / path.name).write_bytes(path.read_bytes())
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(source[0].read_bytes())
        out = site.folder / f"run-{folder.name}"
        words = ["run", "paintskills", "--images", folder, "--limit", "6", "--seed", "5", "--detector", "builtin"]
        done = forked([*words, "--threads", "1", "--out", out], cwd=site.folder)
        outcome, detail = judged(done)
        if outcome == "survived" and "\x1b" in done.said:
            outcome, detail = "silent", "escape codes of a file name reach the terminal"
        yield Trial(campaign=NAME, name=f"a file named {name!r:.40}", outcome=outcome, detail=detail, files=1)
    manifest = site.folder / "names.jsonl"
    manifest.write_bytes(b'{"path": "\\udcff\\ud800.png", "prompt_id": "x"}\n')
    words = ["run", "paintskills", "--images", manifest, "--limit", "6", "--seed", "5", "--detector", "builtin"]
    outcome, detail = judged(forked([*words, "--out", site.folder / "run-names"], cwd=site.folder))
    yield Trial(campaign=NAME, name="a manifest with a lone surrogate", outcome=outcome, detail=detail, files=1)


def _prompt_ids(count: int) -> list[str]:
    from verism.suites.paintskills.suite import PaintSkills

    return [prompt.prompt_id for prompt in PaintSkills.standard(limit=count, seed=5).prompts()]


def _states(path: Path) -> dict[str, list[str | None]]:
    from verism.store import Run

    return {
        row["prompt_id"]: [row["state"], row["note"]] for row in Run.open(path).read("images").iter_rows(named=True)
    }
