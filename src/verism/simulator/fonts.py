"""Fonts that texts of scenes are drawn with: those that come with verism, and files that a user adds."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from PIL import ImageFont, features

from verism.errors import UsageError, VerismError
from verism.records import GARBLED

__all__ = ["FONT_SUFFIXES", "Font", "find_fonts", "needs_shaping", "standard_fonts", "user_fonts"]

FONT_SUFFIXES = (".ttf", ".otf", ".ttc")
FILES: Mapping[str, str] = {
    "sans": "DejaVuSans.ttf",
    "bold": "DejaVuSans-Bold.ttf",
    "serif": "DejaVuSerif.ttf",
    "mono": "DejaVuSansMono.ttf",
    "slab": "RobotoSlab-Regular.otf",
    "script": "LobsterTwo-BoldItalic.otf",
    "brush": "DancingScript-Bold.otf",
    "han": "NotoSansCJKsc.otf",
    "japanese": "NotoSansCJKjp.otf",
    "korean": "NotoSansCJKkr.otf",
}
MISSING = "\U0010fffd"  # a private character that no font here has: what it draws stands for all that are missing
TRIED = 24  # pixels at which glyphs are compared with it
# Scripts whose letters join, turn or stand in another order than they are written: Pillow needs libraqm for them.
SHAPED = ("ARABIC", "HEBREW", "SYRIAC", "DEVANAGARI", "BENGALI", "TAMIL", "TELUGU", "THAI", "KHMER", "MYANMAR", "LAO")


@dataclass(frozen=True)
class Font:
    """A font file that texts can be drawn with.

    Attributes:
        name: by which scenes call it.
        path: the file.
        user: whether a user added it.
    """

    name: str
    path: Path
    user: bool = False
    _known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def at(self, size: int, *, shaped: bool = False) -> ImageFont.FreeTypeFont:
        """The font at a size, in pixels of its em square.

        Args:
            size: at least 1.
            shaped: whether letters are joined and ordered by libraqm.
        """
        engine = ImageFont.Layout.RAQM if shaped else ImageFont.Layout.BASIC
        return ImageFont.truetype(str(self.path), size, layout_engine=engine)

    def has(self, text: str) -> bool:
        """Whether it has a glyph for every character of a text; white space and ``GARBLED`` need none."""
        unknown = [c for c in dict.fromkeys(text) if c not in self._known]
        if unknown:
            font = self.at(TRIED)
            nothing = _drawn(font, MISSING)
            for character in unknown:
                blank = character.isspace() or character == GARBLED
                self._known[character] = blank or _drawn(font, character) != nothing
        return all(self._known[c] for c in text)


def _drawn(font: ImageFont.FreeTypeFont, character: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(character)
    return mask.size, bytes(mask)


@cache
def standard_fonts() -> tuple[Font, ...]:
    """The fonts that come with verism; their licences lie beside them."""
    folder = Path(str(resources.files("verism"))) / "data" / "fonts"
    return tuple(Font(name, folder / file) for name, file in FILES.items())


def user_fonts(folder: Path) -> tuple[Font, ...]:
    """The font files of a folder, by the names of the files.

    Args:
        folder: with .ttf, .otf or .ttc files; it need not exist.

    Raises:
        UsageError: a file that is no font.
    """
    found = []
    for path in sorted(p for p in folder.glob("*") if p.suffix.lower() in FONT_SUFFIXES):
        font = Font(path.stem, path, user=True)
        try:
            font.at(TRIED)
        except OSError as err:
            raise UsageError(f"{path}: no font that can be read ({err})") from None
        found.append(font)
    return tuple(found)


def find_fonts(text: str, fonts: Iterable[Font]) -> tuple[Font, ...]:
    """The fonts that have all characters of a text.

    Args:
        text: what is to be drawn.
        fonts: to choose from.

    Raises:
        VerismError: none has, or the script needs a library that this Pillow is without.
    """
    scripts = {unicodedata.name(c, "").partition(" ")[0] for c in text}
    if scripts & set(SHAPED) and not (features.check("raqm") and features.check("fribidi")):
        raise VerismError(
            f"{text[:40]!r} is of a script whose letters have to be shaped, and this Pillow is without libraqm and "
            "FriBiDi; install libfribidi0"
        )
    fitting = tuple(font for font in fonts if font.has(text))
    if not fitting:
        best = max(fonts, key=lambda font: sum(font.has(c) for c in set(text)))
        lacking = "".join(sorted(c for c in set(text) if not best.has(c)))
        raise VerismError(
            f"no font has all characters of {text[:40]!r} ({best.name} lacks {lacking[:20]!r}). Put a font that has "
            "them into a folder `fonts` of your assets: --assets DIR"
        )
    return fitting


def needs_shaping(text: str) -> bool:
    """Whether the letters of a text are joined or ordered by libraqm."""
    return any(unicodedata.name(c, "").partition(" ")[0] in SHAPED for c in text)
