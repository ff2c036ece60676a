"""Tesseract, by its program: verism run text_rendering --images DIR --ocr tesseract.

The Debian package is ``tesseract-ocr``, with one for each language (``tesseract-ocr-chi-sim``). Nothing of Python
is needed beside it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from PIL import Image

from verism.errors import UsageError
from verism.judges.batching import check_choice
from verism.judges.ocr.readings import enlarged, image_row
from verism.records import OcrNeed, reading_rows

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["LANGUAGES", "Tesseract"]

LANGUAGES = {
    "en": "eng", "de": "deu", "fr": "fra", "es": "spa", "it": "ita", "pt": "por", "nl": "nld", "pl": "pol",
    "cs": "ces", "sv": "swe", "tr": "tur", "el": "ell", "ru": "rus", "uk": "ukr", "ar": "ara", "he": "heb",
    "hi": "hin", "th": "tha", "vi": "vie", "zh": "chi_sim", "ja": "jpn", "ko": "kor",
}  # fmt: skip
INSTALL = "Install it: apt install tesseract-ocr (Debian, Ubuntu), brew install tesseract (macOS)"
Threshold = Literal["otsu", "adaptive", "sauvola"]
THRESHOLDS: tuple[Threshold, ...] = get_args(Threshold)  # by Tesseract's number
WORD = "5"  # level of a word in Tesseract's table


class Tesseract:
    """Reads images with the program ``tesseract``: every word with its box and confidence.

    Args:
        program: name or path of the program.
        lang: Tesseract language codes: ``eng``, ``eng+deu``; ``auto``: the language of each prompt's text.
        psm: page segmentation mode, 1 or 3 to 13. 6: one block of lines; 11: text anywhere; 3: a page; 7: one line.
        threshold: Tesseract 5's method of binarisation: ``otsu`` (one threshold for the image), ``adaptive`` (by tiles)
            or ``sauvola`` (around each pixel, for texts on surfaces of several colours).
        min_side: shorter side in pixels below which images are enlarged by a whole factor; 0: never. Tesseract needs
            letters of 20 pixels or more.
        min_score: lowest confidence of a kept word, in [0, 1]. At 0, backgrounds are read as words.
        timeout: longest time per image, in seconds.
        threads: images to read in parallel, one CPU thread each.

    Raises:
        UsageError: no such program, a language that is not installed, or a value out of range.
    """

    role = OcrNeed.role

    def __init__(
        self,
        *,
        program: str = "tesseract",
        lang: str = "auto",
        psm: int = 6,
        threshold: Threshold = "sauvola",
        min_side: int = 800,
        min_score: float = 0.5,
        timeout: float = 60.0,
        threads: int | None = None,
    ) -> None:
        check_choice("threshold", threshold, THRESHOLDS)
        found = shutil.which(program)
        if found is None:
            raise UsageError(f"--ocr tesseract: there is no program {program!r}. {INSTALL}")
        if psm not in range(14) or psm in (0, 2):
            raise UsageError(f"tesseract: psm is 1 or 3 to 13 (0 and 2 read nothing), not {psm}")
        if not 0 <= min_score <= 1 or timeout <= 0 or min_side < 0:
            raise UsageError("tesseract: min_score lies in [0, 1], min_side from 0, timeout above 0")
        self._program, self._psm, self._timeout = found, psm, timeout
        self._threshold = THRESHOLDS.index(threshold)
        self._min_side, self._min_score = min_side, min_score
        self._threads = threads or min(4, os.cpu_count() or 1)
        version = _call([found, "--version"])
        listed = _call([found, "--list-langs"])
        self._installed = tuple(listed.split("\n")[1:])
        data = re.search(r'in "([^"]+)"', listed)
        self._data = Path(data[1]) if data else None
        self._lang = lang
        if lang != "auto":
            self._check(lang)
        number = version.split("\n")[0].removeprefix("tesseract ").strip() or "unknown"
        models = "+".join(self._installed) if lang == "auto" else lang
        settings = f"lang={lang} psm={psm} threshold={threshold} min_side={min_side}" + (
            f" min_score={min_score:g}" if min_score else ""
        )
        self.name = f"tesseract-{number}@{self._identity(models.split('+'))} {settings}"

    def check(self, need: OcrNeed) -> None:
        """Raise UsageError if the language of a prompt is not installed."""
        if self._lang == "auto":
            for language in dict.fromkeys(need.languages.values()):
                self._check(_named(language))

    def observe(self, images: Sequence[LoadedImage], need: OcrNeed) -> pl.DataFrame:
        """Rows of table ``readings``: image, lines and words."""
        from verism.records import frame

        with ThreadPoolExecutor(self._threads) as pool:
            read = pool.map(lambda image: self._rows(image, need), images)
            return frame(need.table, [row for rows in read for row in rows])

    def _rows(self, image: LoadedImage, need: OcrNeed) -> list[dict[str, Any]]:
        language = self._lang if self._lang != "auto" else _named(need.languages.get(image.prompt_id, "en"))
        pixels, factor = enlarged(image.pixels, self._min_side)
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", compress_level=1)
        words = [
            "-",
            "-",
            "-l",
            language,
            "--psm",
            str(self._psm),
            "-c",
            f"thresholding_method={self._threshold}",
            "tsv",
        ]
        try:
            done = subprocess.run(
                [self._program, *words],
                input=buffer.getvalue(),
                capture_output=True,
                timeout=self._timeout,
                env={**os.environ, "OMP_THREAD_LIMIT": "1"},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [image_row(image.image_id, self.name, None, f"tesseract took more than {self._timeout:g} s")]
        if done.returncode:
            message = " ".join(done.stderr.decode(errors="replace").split())[:200]
            return [image_row(image.image_id, self.name, None, f"tesseract ended with {done.returncode}: {message}")]
        words_read = _words(done.stdout.decode(errors="replace"), factor, self._min_score)
        return reading_rows(image.image_id, self.name, words_read)

    def _check(self, lang: str) -> None:
        missing = [name for name in lang.split("+") if name not in self._installed]
        if missing:
            packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in missing)
            raise UsageError(
                f"--ocr tesseract: no model of the language {', '.join(missing)}; installed are "
                f"{', '.join(self._installed) or 'none'}. Install it: apt install {packages}"
            )

    def _identity(self, languages: Sequence[str]) -> str:
        """Eight digits that stand for the content of the models."""
        digest = hashlib.sha256()
        for language in languages:
            file = None if self._data is None else self._data / f"{language}.traineddata"
            digest.update(language.encode() + b"\0")
            if file is not None and file.is_file():
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()[:8]


def _named(language: str) -> str:
    """A language as Tesseract names it."""
    return LANGUAGES.get(language, language)


def _call(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise UsageError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[:200]}. {INSTALL}")
    return (done.stdout or done.stderr).strip()


def _words(
    table: str, factor: int, min_score: float
) -> list[tuple[int, str, float | None, tuple[float, float, float, float] | None]]:
    """Words of Tesseract's table in its order: line, text, confidence, box in pixels of the image."""
    found: list[tuple[int, str, float | None, tuple[float, float, float, float] | None]] = []
    lines: dict[tuple[str, ...], int] = {}
    for row in table.split("\n")[1:]:
        cells = row.split("\t")
        if len(cells) != 12 or cells[0] != WORD or not cells[11].strip():
            continue
        score = min(1.0, max(0.0, float(cells[10]) / 100))
        if score < min_score:
            continue
        line = lines.setdefault(tuple(cells[1:5]), len(lines))
        left, top, width, height = (int(cell) / factor for cell in cells[6:10])
        found.append((line, cells[11].strip(), score, (left, top, left + width, top + height)))
    return found
