"""Reading images that come from anywhere: every file gets a state and a reason, none crashes a run."""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PilImage
from PIL import ImageOps, UnidentifiedImageError

from verism.records import State

__all__ = ["BLANK_RANGE", "MAX_PIXELS", "ReadImage", "encode_png", "is_blank", "read_image", "to_rgb"]

MAX_PIXELS = 64_000_000  # decoded: 192 MB; no text-to-image model makes larger images, decompression bombs do
BLANK_RANGE = 3  # 8-bit levels; an image whose every channel varies by no more shows nothing

# Size is checked here, before decoding, and reported as a state; Pillow's own warning would only repeat it on stderr.
warnings.filterwarnings("ignore", category=PilImage.DecompressionBombWarning)


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
    """Whether an image is one flat colour (up to ``BLANK_RANGE`` levels): nothing was rendered."""
    flat = pixels.reshape(-1, pixels.shape[-1])
    return bool((flat.max(axis=0).astype(int) - flat.min(axis=0) <= BLANK_RANGE).all())


def read_image(path: Path) -> ReadImage:
    """Read any image file as upright 8-bit RGB.

    Palette, grey, CMYK, 16-bit and transparent images are converted (transparency over white), EXIF rotation is
    applied; the note says so. Nothing is ever written.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ReadImage("missing", None, None, f"no such file: {path.name}")
    except (OSError, ValueError) as err:  # ValueError: a path no file system can hold (a NUL in a manifest)
        return ReadImage("failed", None, None, f"cannot be opened: {getattr(err, 'strerror', None) or err}")
    digest = hashlib.sha256(data).hexdigest()
    if not data:
        return ReadImage("failed", None, digest, "empty file (0 bytes)")
    try:
        with PilImage.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                return ReadImage(
                    "failed", None, digest, f"{image.width} x {image.height} pixels; the limit is {MAX_PIXELS:,}"
                )
            pixels, notes = to_rgb(image)
    except UnidentifiedImageError:
        return ReadImage("failed", None, digest, "not an image file, or of a format that is not supported")
    except PilImage.DecompressionBombError:
        return ReadImage("failed", None, digest, f"too large; the limit is {MAX_PIXELS:,} pixels")
    except Exception as err:  # decoders raise OSError, SyntaxError, ValueError, struct.error ... on damaged files
        return ReadImage("failed", None, digest, f"damaged or truncated: {err}")
    state: State = "ok"
    if is_blank(pixels):
        state = "blank"
        notes.insert(0, "one flat colour, rgb({}, {}, {})".format(*pixels[0, 0].tolist()))
    return ReadImage(state, pixels, digest, "; ".join(notes))


def to_rgb(image: PilImage.Image) -> tuple[NDArray[np.uint8], list[str]]:
    """Pixels as judges see them, (H, W, 3) uint8, and what had to be done: frames, EXIF turns, transparency ..."""
    notes: list[str] = []
    if getattr(image, "n_frames", 1) > 1:
        notes.append(f"first of {getattr(image, 'n_frames', 1)} frames")
    image.load()
    turned = ImageOps.exif_transpose(image)
    if image.getexif().get(0x0112, 1) in range(2, 9):  # other values are not defined, and nothing is turned
        notes.append("turned upright by its EXIF tag")
    image = turned
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
    pixels = np.asarray(image.convert("RGB"), dtype=np.uint8)
    if pixels.ndim != 3 or pixels.size == 0:
        raise ValueError("no pixels")
    return pixels, notes


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """RGB or grey (H, W) pixels as PNG bytes. Light compression: half the time for a tenth more bytes."""
    buffer = io.BytesIO()
    PilImage.fromarray(pixels).save(buffer, format="PNG", compress_level=3)
    return buffer.getvalue()
