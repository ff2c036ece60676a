"""Reading images that come from anywhere: every file gets a state and a reason, none crashes a run."""

from __future__ import annotations

import errno
import hashlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PilImage
from PIL import ImageOps, UnidentifiedImageError

from verism.files import open_regular, read_regular
from verism.limits import FULL_PIXELS, IMAGE_BYTES, IMAGE_FRAMES, IMAGE_PIXELS, Limit
from verism.locations import is_remote
from verism.records import State

__all__ = [
    "BLANK_RANGE",
    "FORMATS",
    "REDUCED",
    "ImageTooLargeError",
    "ReadImage",
    "compressed",
    "encode_png",
    "is_blank",
    "open_image",
    "pixel_count",
    "read_image",
    "thumbnail",
    "to_rgb",
]

# Nothing else is opened: Pillow knows some forty formats, and starts Ghostscript for one of them (EPS).
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF", "PPM")  # PPM: from programs without a library
BLANK_RANGE = 3  # 8-bit levels; an image whose every channel varies by no more shows nothing
REDUCED = "reduced from"  # in the note of an image of more than `limits.FULL_PIXELS` pixels
COUNTED_GIF_BYTES = 2**22  # frames of a larger GIF are not counted: to find the last, all of it must be read

# Size is checked here, before decoding, and reported as a state; Pillow's own warning would only repeat it on stderr.
warnings.filterwarnings("ignore", category=PilImage.DecompressionBombWarning)


class ImageTooLargeError(ValueError):
    """An image of more pixels than are decoded."""


@cache
def _formats() -> tuple[str, ...]:
    """Those of ``FORMATS`` that can be decoded here: HEIF needs the package pillow-heif, AVIF a recent Pillow."""
    try:
        import pillow_heif  # type: ignore[import-not-found, unused-ignore]

        pillow_heif.register_heif_opener()
    except ImportError:
        pass
    PilImage.init()
    return tuple(name for name in FORMATS if name in PilImage.OPEN)


@contextmanager
def open_image(source: Path | bytes, *, limit: Limit = IMAGE_PIXELS) -> Iterator[PilImage.Image]:
    """An image file, opened and not yet decoded. All images are opened here.

    Args:
        source: a regular file, or the content of one.
        limit: of its width times its height.
    Yields:
        The image, of one of ``FORMATS``.
    Raises:
        ImageTooLargeError: it has more pixels than the limit; none was decoded.
        OSError: no such file, not a regular file, larger than ``limits.IMAGE_BYTES``, or (UnidentifiedImageError) not
            an image of ``FORMATS``.
        Exception: what decoders raise on damaged files: SyntaxError, ValueError, struct.error ...
    """
    data = source if isinstance(source, bytes) else read_regular(source, IMAGE_BYTES)
    try:
        image = PilImage.open(io.BytesIO(data), formats=_formats())
    except PilImage.DecompressionBombError:
        raise ImageTooLargeError(f"too large; {limit.hint()}") from None
    with image:
        if image.width * image.height > limit.value:
            raise ImageTooLargeError(f"{image.width} x {image.height} pixels; {limit.hint()}")
        yield image


@dataclass(frozen=True, eq=False)
class ReadImage:
    """A file that was read, or why it could not be.

    Attributes:
        state: ``ok``, ``blank``, ``missing`` (no such file) or ``failed`` (unreadable).
        pixels: RGB, (H, W, 3), uint8, upright; None unless ok or blank.
        sha256: SHA-256 of the file's bytes; None if there is no file.
        note: the reason, or what was done to the image to make it plain RGB.
    """

    state: State
    pixels: NDArray[np.uint8] | None
    sha256: str | None
    note: str = ""


def is_blank(pixels: NDArray[np.uint8]) -> bool:
    """Whether an image is one flat colour (up to ``BLANK_RANGE`` levels): nothing was rendered.

    Args:
        pixels: (H, W, channels).
    """
    flat = pixels.reshape(-1, pixels.shape[-1])
    # A few pixels show of nearly every image that it is not; the whole takes half as long as decoding it.
    return all(
        int(part.max()) - int(part.min()) <= BLANK_RANGE
        for rows in (flat[:: max(1, len(flat) // 1000)], flat)
        for part in rows.T
    )


def compressed(image: PilImage.Image, quality: int) -> PilImage.Image:
    """An image after it was written as JPEG and read again.

    Args:
        image: any RGB image.
        quality: as Pillow has it, 1 to 95; lower is worse.
    Returns:
        RGB, of the same size.
    """
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    with open_image(file.getvalue()) as stored:
        return stored.convert("RGB")


def pixel_count(path: Path) -> int:
    """Pixels of an image as ``read_image`` would return it, by its header alone; 0 if it cannot be read.

    Args:
        path: the file.
    """
    try:
        with open_regular(path, IMAGE_BYTES) as file, PilImage.open(file, formats=_formats()) as image:
            factor = _factor(*image.size)
            return (image.width // factor) * (image.height // factor)
    except Exception:  # read_image will say why
        return 0


def read_image(path: Path) -> ReadImage:
    """Read any image file as upright 8-bit RGB.

    Palette, grey, CMYK, 16-bit and transparent images are converted (transparency over white), EXIF rotation is
    applied, and images of more than ``limits.FULL_PIXELS`` pixels are reduced by a whole factor: JPEG as it is decoded,
    others after. The note says so. Nothing is ever written.

    Args:
        path: the file.

    Raises:
        OSError: object storage does not hand it out, which says nothing of the image.
    """
    try:
        data = read_regular(path, IMAGE_BYTES)
    except FileNotFoundError:
        return ReadImage("missing", None, None, f"no such file: {path.name}")
    except (OSError, ValueError) as err:  # ValueError: a path no file system can hold (a NUL in a manifest)
        if is_remote(path) and isinstance(err, OSError) and err.errno not in (errno.EFBIG, errno.EINVAL):
            raise
        return ReadImage("failed", None, None, f"cannot be opened: {getattr(err, 'strerror', None) or err}")
    digest = hashlib.sha256(data).hexdigest()
    if not data:
        return ReadImage("failed", None, digest, "empty file (0 bytes)")
    try:
        with open_image(data) as image:
            pixels, notes = to_rgb(image, reduce=True)
    except UnidentifiedImageError:
        return ReadImage("failed", None, digest, "not an image file, or of a format that is not supported")
    except ImageTooLargeError as err:
        return ReadImage("failed", None, digest, str(err))
    except MemoryError:
        return ReadImage("failed", None, digest, "there is not enough memory to decode it")
    except Exception as err:  # decoders raise OSError, SyntaxError, ValueError, struct.error ... on damaged files
        return ReadImage("failed", None, digest, f"damaged or truncated: {err}")
    state: State = "ok"
    if is_blank(pixels):
        state = "blank"
        notes.insert(0, "one flat colour, rgb({}, {}, {})".format(*pixels[0, 0].tolist()))
    return ReadImage(state, pixels, digest, "; ".join(notes))


def to_rgb(image: PilImage.Image, *, reduce: bool = False) -> tuple[NDArray[np.uint8], list[str]]:
    """Pixels as judges see them, and what had to be done to the image: frames, EXIF turns, transparency ...

    Args:
        image: opened and not yet decoded.
        reduce: whether an image of more than ``limits.FULL_PIXELS`` pixels is reduced by a whole factor.
    Returns:
        RGB, (H, W, 3), uint8, and notes.
    Raises:
        Exception: what decoders raise on damaged files.
    """
    notes: list[str] = []
    if frames := _frames(image):
        notes.append(f"first of {frames} frames")
    width, height = image.size
    factor = _factor(width, height) if reduce else 1
    if factor > 1:
        image.draft(None, (-(-width // factor), -(-height // factor)))  # of JPEG; others are decoded at full size
    image.load()
    factor = _factor(*image.size) if reduce else 1
    if image.getexif().get(0x0112, 1) in range(2, 9):  # other values are not defined, and nothing is turned
        image = ImageOps.exif_transpose(image)
        notes.append("turned upright by its EXIF tag")
    if image.mode in ("I;16", "I;16B", "I;16L", "I"):
        values = np.asarray(image).astype(np.float64)
        notes.append("16-bit grey reduced to 8 bits")
        image = PilImage.fromarray(np.clip(values / 257.0 + 0.5, 0, 255).astype(np.uint8))
    elif image.mode == "F":
        raise ValueError("floating-point pixels have no defined range; save it as 8 or 16 bits")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        if rgba.getchannel("A").getextrema() != (255, 255):
            notes.append("transparency laid over white")
        image = PilImage.alpha_composite(PilImage.new("RGBA", rgba.size, (255, 255, 255, 255)), rgba)
    elif image.mode not in ("RGB", "L", "P", "1"):
        notes.append(f"converted from {image.mode}")
    if image.mode != "RGB":
        image = image.convert("RGB")
    if factor > 1:
        image = image.reduce(factor)
    if image.size not in ((width, height), (height, width)):
        notes.append(
            f"{REDUCED} {width} x {height} to {image.width} x {image.height}, as it has over "
            f"{FULL_PIXELS.value:,} pixels"
        )
    pixels = np.asarray(image, dtype=np.uint8)
    if pixels.ndim != 3 or pixels.size == 0:
        raise ValueError("no pixels")
    return pixels, notes


def _factor(width: int, height: int) -> int:
    """The least whole number by which both sides are divided for at most ``limits.FULL_PIXELS`` pixels."""
    factor = 1
    while -(-width // factor) * -(-height // factor) > FULL_PIXELS.value:
        factor += 1
    return factor


def _frames(image: PilImage.Image) -> str:
    """How many frames or pages an image has, for the note; empty for one. Counting is bounded."""
    if image.format == "GIF":
        stream = getattr(image, "fp", None)
        if isinstance(stream, io.BytesIO) and stream.getbuffer().nbytes > COUNTED_GIF_BYTES:
            return "several" if getattr(image, "is_animated", False) else ""
    if image.format != "TIFF":  # WebP and AVIF know the number; PNG and JPEG are told to have it
        frames = getattr(image, "n_frames", 1)
        return str(frames) if frames > 1 else ""
    number = 0
    try:
        for number in range(1, IMAGE_FRAMES.value):
            image.seek(number)
        number = IMAGE_FRAMES.value
        return f"at least {number:,}"
    except EOFError:
        return str(number) if number > 1 else ""
    except Exception:  # a damaged page after the first, which is all that is used
        return "several" if number > 1 else ""
    finally:
        image.seek(0)


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """RGB or grey (H, W) pixels as PNG bytes. Light compression: half the time for a tenth more bytes."""
    buffer = io.BytesIO()
    PilImage.fromarray(pixels).save(buffer, format="PNG", compress_level=3)
    return buffer.getvalue()


def thumbnail(data: bytes, side: int) -> bytes:
    """An image made small for a page: upright, RGB, as JPEG without any metadata. JPEG is decoded at reduced size.

    Args:
        data: content of an image file.
        side: longer side at most, pixels; smaller images keep their size.
    Raises:
        ValueError: not an image, damaged, or of more pixels than are decoded.
    """
    try:
        with open_image(data) as image:
            image.draft("RGB", (side, side))
            small = PilImage.fromarray(to_rgb(image, reduce=True)[0])
    except Exception as err:  # decoders raise OSError, SyntaxError, ValueError, struct.error ... on damaged files
        raise ValueError(f"not an image that can be shown: {err}") from err
    small.thumbnail((side, side), PilImage.Resampling.LANCZOS, reducing_gap=2.0)
    buffer = io.BytesIO()
    small.save(buffer, format="JPEG", quality=88)
    return buffer.getvalue()
