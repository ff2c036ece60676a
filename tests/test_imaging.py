"""Images from anywhere: read exactly, or refused with a reason; never a crash."""

import ast
import io
import os
import re
import socket
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import verism
from verism.errors import UsageError
from verism.imaging import encode_png, is_blank, pixel_count, read_image
from verism.limits import FULL_PIXELS, IMAGE_PIXELS

HOUSE = Path(verism.__file__).parent

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, (24, 40, 3), dtype=np.uint8)


def saved(path: Path, image: Image.Image, **options) -> Path:
    image.save(path, **options)
    return path


def smooth() -> np.ndarray:
    """Four plain quarters, so that JPEG keeps the colours but for a little."""
    upright = np.zeros((32, 64, 3), np.uint8)
    upright[:16, :32], upright[:16, 32:], upright[16:, :32], upright[16:, 32:] = (
        (200, 40, 40),
        (40, 180, 60),
        (50, 60, 190),
        (210, 210, 60),
    )
    return upright


# ------------------------------------------------------------------------------------------------- what cannot be read
def test_a_missing_file_is_missing(tmp_path):
    read = read_image(tmp_path / "nowhere.png")
    assert (read.state, read.pixels, read.sha256) == ("missing", None, None)
    assert "nowhere.png" in read.note


def test_a_directory_is_a_failed_image(tmp_path):
    (tmp_path / "folder.png").mkdir()
    read = read_image(tmp_path / "folder.png")
    assert (read.state, read.sha256) == ("failed", None)
    assert "directory" in read.note.lower()


def test_a_path_no_file_system_can_hold(tmp_path):
    assert read_image(tmp_path / "a\0b.png").state == "failed"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = saved(tmp_path / "secret.png", Image.fromarray(RGB))
    path.chmod(0)
    read = read_image(path)
    assert read.state == "failed"
    assert "ermission" in read.note


@pytest.mark.parametrize(
    ("content", "note"),
    [
        pytest.param(b"", "0 bytes", id="empty"),
        pytest.param(b"just some words, saved under an image's name\n", "not an image", id="text"),
        pytest.param(b"\x89PNG\r\n\x1a\n", "not an image", id="signature alone"),
        pytest.param(b"\xff\xd8\xff\xe0", "not an image", id="start of a JPEG"),
    ],
)
def test_files_that_are_no_images(tmp_path, content, note):
    path = tmp_path / "x.png"
    path.write_bytes(content)
    read = read_image(path)
    assert (read.state, read.pixels) == ("failed", None)
    assert note in read.note
    assert len(read.sha256) == 64


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_truncated_images_fail_instead_of_showing_half(tmp_path, format):
    full = io.BytesIO()
    Image.fromarray(RGB).save(full, format=format)
    path = tmp_path / "cut"
    path.write_bytes(full.getvalue()[: len(full.getvalue()) * 2 // 3])
    read = read_image(path)
    assert (read.state, read.pixels) == ("failed", None)
    assert "damaged or truncated" in read.note


def png_of_declared_size(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(10_000, 8_000), (60_000, 60_000)], ids=["over our limit", "over Pillow's limit"])
def test_decompression_bombs_are_not_decoded(tmp_path, size):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_of_declared_size(*size))
    read = read_image(path)
    assert (read.state, read.pixels) == ("failed", None)
    assert "the limit is 64,000,000" in read.note


def test_floating_point_images_are_refused(tmp_path):
    path = saved(tmp_path / "f.tif", Image.fromarray(RNG.random((8, 8), dtype=np.float32)))
    read = read_image(path)
    assert read.state == "failed"
    assert "floating-point" in read.note


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # Pillow's own remarks about damaged TIFF tags
@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP"])
def test_damage_never_raises(tmp_path, format):
    full = io.BytesIO()
    Image.fromarray(RGB).save(full, format=format)
    rng = np.random.default_rng(1)
    path = tmp_path / "damaged"
    for _ in range(12):
        data = bytearray(full.getvalue())
        for at in rng.integers(0, len(data), 6):
            data[at] = rng.integers(256)
        path.write_bytes(bytes(data[: rng.integers(1, len(data) + 1)]))
        read = read_image(path)
        assert read.state in ("ok", "blank", "failed")
        assert (read.pixels is None) == (read.state == "failed")
        assert read.state != "failed" or read.note


# --------------------------------------------------------------------------------------------------- what can be read
@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif", "a.webp"])
def test_lossless_rgb_is_exact(tmp_path, name):
    read = read_image(saved(tmp_path / name, Image.fromarray(RGB), **({"lossless": True} if "webp" in name else {})))
    assert (read.state, read.note) == ("ok", "")
    np.testing.assert_array_equal(read.pixels, RGB)


def test_encoded_images_come_back_exactly(tmp_path):
    (tmp_path / "a.png").write_bytes(encode_png(RGB))
    np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, RGB)


def test_grey_and_one_bit(tmp_path):
    grey = RGB[..., 0]
    read = read_image(saved(tmp_path / "l.png", Image.fromarray(grey)))
    np.testing.assert_array_equal(read.pixels, np.repeat(grey[..., None], 3, axis=2))
    bits = grey > 127
    read = read_image(saved(tmp_path / "1.png", Image.fromarray(bits)))
    np.testing.assert_array_equal(read.pixels, np.repeat(bits[..., None] * np.uint8(255), 3, axis=2))


def test_sixteen_bit_grey_spans_the_same_range(tmp_path):
    # 65535 / 257 = 255; 257 -> 1; 128 -> 0.498 + 0.5 -> 0; 129 -> 0.502 + 0.5 -> 1
    values = np.array([[0, 128, 129, 257], [32768, 65278, 65407, 65535]], dtype=np.uint16)
    read = read_image(saved(tmp_path / "g.png", Image.fromarray(values)))
    assert read.pixels[..., 0].tolist() == [[0, 0, 1, 1], [128, 254, 255, 255]]
    assert "16-bit" in read.note


def test_palette_and_transparent_palette(tmp_path):
    image = Image.fromarray(np.array([[0, 1], [2, 1]], dtype=np.uint8)).convert("P")
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    path = saved(tmp_path / "p.png", image)
    colors = read_image(path).pixels
    assert colors.reshape(-1, 3).tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255], [0, 255, 0]]
    read = read_image(saved(tmp_path / "t.png", image, transparency=1))
    assert read.pixels.reshape(-1, 3).tolist() == [[255, 0, 0], [255, 255, 255], [0, 0, 255], [255, 255, 255]]
    assert read.note == "transparency laid over white"


def test_alpha_is_laid_over_white(tmp_path):
    rgba = np.dstack([RGB, np.full(RGB.shape[:2], 255, np.uint8)])
    opaque = read_image(saved(tmp_path / "o.png", Image.fromarray(rgba)))
    np.testing.assert_array_equal(opaque.pixels, RGB)
    assert opaque.note == ""  # nothing shines through, so nothing was changed
    rgba[:, :20, 3] = 0
    rgba[0, 39] = 100, 200, 0, 51  # a fifth: 100/5 + 255*4/5 = 224, 200/5 + 204 = 244, 204
    read = read_image(saved(tmp_path / "a.png", Image.fromarray(rgba)))
    assert (read.pixels[:, :20] == 255).all()
    np.testing.assert_array_equal(read.pixels[1:, 20:], RGB[1:, 20:])
    assert read.pixels[0, 39].tolist() == [224, 244, 204]
    assert read.note == "transparency laid over white"


def test_cmyk_jpeg(tmp_path):
    read = read_image(saved(tmp_path / "c.jpg", Image.fromarray(smooth()).convert("CMYK"), quality=95))
    assert read.state == "ok"
    assert read.note == "converted from CMYK"
    assert np.abs(read.pixels.astype(int) - smooth()).mean() < 6


def test_animations_give_their_first_frame(tmp_path):
    first, second = Image.fromarray(smooth()), Image.new("RGB", (64, 32), "white")
    path = saved(tmp_path / "a.gif", first, save_all=True, append_images=[second])
    read = read_image(path)
    np.testing.assert_array_equal(read.pixels, smooth())
    assert read.note == "first of 2 frames"


# How an image is stored under each orientation; EXIF 2.3, tag 274: which side row 0 and column 0 of the file show.
STORED = {
    2: lambda u: u[:, ::-1],
    3: lambda u: u[::-1, ::-1],
    4: lambda u: u[::-1],
    5: lambda u: u.transpose(1, 0, 2),
    6: lambda u: np.rot90(u),
    7: lambda u: u[::-1, ::-1].transpose(1, 0, 2),
    8: lambda u: np.rot90(u, -1),
}


@pytest.mark.parametrize("orientation", STORED)
def test_exif_orientations_are_undone(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](smooth())))
    read = read_image(saved(tmp_path / "e.jpg", stored, quality=95, exif=exif))
    assert read.pixels.shape == (32, 64, 3)
    assert np.abs(read.pixels.astype(int) - smooth()).mean() < 6
    assert read.note == "turned upright by its EXIF tag"


@pytest.mark.parametrize("orientation", [0, 1, 9])
def test_orientations_that_turn_nothing_are_not_mentioned(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    read = read_image(saved(tmp_path / "e.png", Image.fromarray(RGB), exif=exif))
    np.testing.assert_array_equal(read.pixels, RGB)
    assert read.note == ""


# ---------------------------------------------------------------------------------------------------------------- blank
def test_one_flat_colour_is_blank(tmp_path):
    pixels = np.full((16, 16, 3), (10, 20, 30), np.uint8)
    pixels[3, 3] += 3
    read = read_image(saved(tmp_path / "b.png", Image.fromarray(pixels)))
    assert read.state == "blank"
    assert read.note == "one flat colour, rgb(10, 20, 30)"
    np.testing.assert_array_equal(read.pixels, pixels)
    pixels[3, 3, 1] += 1  # 24 - 20 = 4: more than BLANK_RANGE
    assert read_image(saved(tmp_path / "c.png", Image.fromarray(pixels))).state == "ok"


def test_blank_looks_at_every_channel():
    pixels = np.zeros((4, 4, 3), np.uint8)
    assert is_blank(pixels)
    for channel in range(3):
        changed = pixels.copy()
        changed[0, 0, channel] = 255
        assert not is_blank(changed)


# -------------------------------------------------------------------------------------------------- limits and formats
def test_open_image_is_the_only_place_where_pillow_opens_files():
    # Pillow's own open tries forty formats; one of them starts Ghostscript.
    calls = []
    for path in sorted(HOUSE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if ".open" not in text or not re.search(r"^ *from PIL import .*(\(|\bImage\b)", text, re.MULTILINE):
            continue  # parsing all of the house takes seconds
        nodes = list(ast.walk(ast.parse(text)))
        pillow = {
            alias.asname or alias.name
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module == "PIL"
            for alias in node.names
            if alias.name == "Image"
        }
        calls += [
            f"{path.relative_to(HOUSE)}:{node.lineno}"
            for node in nodes
            if isinstance(node, ast.Attribute) and node.attr == "open"
            if isinstance(node.value, ast.Name) and node.value.id in pillow
        ]
    assert {call.partition(":")[0] for call in calls} == {"imaging.py"}, calls


def test_read_image_eps_starts_no_ghostscript(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n" + b" " * 100
    )

    def no_program(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr("subprocess.check_call", no_program)
    monkeypatch.setattr("subprocess.Popen", no_program)
    read = read_image(path)
    assert (read.state, read.note) == ("failed", "not an image file, or of a format that is not supported")


@pytest.mark.parametrize("format", ["TGA", "PCX", "ICO", "PSD"])
def test_read_image_formats_without_a_name_here_are_not_opened(tmp_path, format):
    path = tmp_path / "a.png"
    if format == "PSD":
        path.write_bytes(b"8BPS" + bytes(22) + bytes(100))
    else:
        Image.fromarray(RGB).save(path, format=format)
    assert read_image(path).note == "not an image file, or of a format that is not supported"


@pytest.mark.parametrize("kind", ["device", "pipe", "socket"])
def test_read_image_opens_regular_files_only(tmp_path, kind):
    path = tmp_path / "a.png"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
    read = read_image(path)
    assert (read.state, read.sha256) == ("failed", None)
    assert kind in read.note or "No such device" in read.note  # a socket cannot be opened at all
    assert pixel_count(path) == 0


def test_read_image_sparse_file_of_a_hundred_gigabytes_is_not_read(tmp_path):
    with (tmp_path / "a.png").open("wb") as file:
        file.truncate(100 * 2**30)
    read = read_image(tmp_path / "a.png")
    assert (read.state, read.sha256) == ("failed", None)
    assert read.note == (
        "cannot be opened: it has 107,374,182,400 bytes; the limit is 536,870,912 bytes; "
        "VERISM_LIMIT_IMAGE_BYTES raises it"
    )


def test_read_image_limit_of_pixels_is_raised_by_its_variable(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.png", Image.fromarray(RGB))
    monkeypatch.setenv("VERISM_LIMIT_IMAGE_PIXELS", "959")
    assert "40 x 24 pixels; the limit is 959 pixels" in read_image(path).note
    monkeypatch.setenv("VERISM_LIMIT_IMAGE_PIXELS", "960")
    assert read_image(path).state == "ok"
    monkeypatch.setenv("VERISM_LIMIT_IMAGE_PIXELS", "many")
    with pytest.raises(UsageError, match="VERISM_LIMIT_IMAGE_PIXELS must be a whole number of pixels"):
        _ = IMAGE_PIXELS.value


def test_read_image_pages_of_a_tiff_are_counted_no_further_than_the_limit(tmp_path, monkeypatch):
    pages = [Image.fromarray(RGB + n) for n in range(7)]
    path = saved(tmp_path / "a.tif", pages[0], save_all=True, append_images=pages[1:])
    assert read_image(path).note == "first of 7 frames"
    monkeypatch.setenv("VERISM_LIMIT_IMAGE_FRAMES", "5")
    read = read_image(path)
    assert read.note == "first of at least 5 frames"
    np.testing.assert_array_equal(read.pixels, RGB)


def test_read_image_endless_chain_of_tiff_pages_ends(tmp_path):
    # Every page's offset of the next leads to itself.
    path = saved(tmp_path / "a.tif", Image.fromarray(RGB))
    data = bytearray(path.read_bytes())
    first = struct.unpack_from("<I", data, 4)[0]
    entries = struct.unpack_from("<H", data, first)[0]
    struct.pack_into("<I", data, first + 2 + 12 * entries, first)
    path.write_bytes(data)
    np.testing.assert_array_equal(read_image(path).pixels, RGB)


@pytest.mark.parametrize(("format", "tolerance"), [("PNG", 0), ("JPEG", 12), ("TIFF", 0)])
def test_read_image_large_ones_are_reduced_by_a_whole_factor(tmp_path, monkeypatch, format, tolerance):
    upright = np.kron(smooth(), np.ones((2, 2, 1), np.uint8))  # 64 x 128
    path = saved(tmp_path / "a", Image.fromarray(upright), format=format, **({"quality": 95} if tolerance else {}))
    monkeypatch.setattr("verism.imaging.FULL_PIXELS", replace(FULL_PIXELS, default=64 * 128))
    assert read_image(path).pixels.shape == (64, 128, 3)  # at the limit: as it is
    monkeypatch.setattr("verism.imaging.FULL_PIXELS", replace(FULL_PIXELS, default=64 * 128 - 1))
    read = read_image(path)
    assert read.note == "reduced from 128 x 64 to 64 x 32, as it has over 8,191 pixels"
    assert np.abs(read.pixels.astype(int) - smooth()).max() <= tolerance  # each pixel stands for four equal ones
    assert pixel_count(path) == 32 * 64


def test_read_image_of_a_usual_size_is_not_reduced():
    # The largest images of today's models have 4096 x 4096 pixels: their scores must not move.
    assert FULL_PIXELS.value == 4096 * 4096
    assert FULL_PIXELS.fixed  # observations do not depend on a variable of the environment
