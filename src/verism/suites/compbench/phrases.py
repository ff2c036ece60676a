"""Noun phrases of prompts: from a file, or from a parser (spaCy), whose name and version are kept with them.

Parsers of two versions disagree about 4 to 10 % of the prompts, and every phrase is a question: a file of phrases makes
scores repeatable. ``verism compbench phrases`` writes one.

The file has a row for each prompt (CSV or JSON lines): ``prompt``; ``phrases``, a list; and, for complex prompts,
``objects``, the two objects of the relation in the image (empty where there are not two), and ``without_adjectives``.
``parser`` says who parsed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from verism.errors import UsageError, require
from verism.files import read_rows, write_whole
from verism.suites.compbench.prompts import Asked
from verism.suites.compbench.vocabulary import BOUND

__all__ = [
    "Parsed",
    "Parser",
    "SpacyParser",
    "make_parser",
    "needs_phrases",
    "parse_tokens",
    "read_phrases",
    "with_phrases",
    "write_phrases",
]

COLUMNS = "prompt, phrases (a list), objects (two, for complex prompts), without_adjectives and parser"
EXTRA = "phrases"
COMPLEX_RELATIONS = ("on top of", "on bottom of", "on the left", "on the right", "next to", "on side of", "near")
NOUNS = ("NOUN", "PROPN")


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What a parser says of a prompt.

    Attributes:
        phrases: noun phrases, in order.
        objects: the two objects of the relation in the image of a complex prompt; None unless there are two.
        without_adjectives: the prompt without its adjectives, words joined by spaces.
        parser: who parsed it, with versions.
    """

    phrases: tuple[str, ...]
    objects: tuple[str, str] | None = None
    without_adjectives: str | None = None
    parser: str = ""


class Parser(Protocol):
    """Parses prompts. ``name`` holds its versions."""

    name: str

    def parse(self, text: str) -> Parsed: ...


class Token(Protocol):
    """A word of a parsed prompt, as spaCy has it: ``text`` and part of speech ``pos_``."""

    @property
    def text(self) -> str: ...

    @property
    def pos_(self) -> str: ...


def parse_tokens(text: str, tokens: Sequence[Token]) -> tuple[tuple[str, str] | None, str]:
    """The objects of a relation in a complex prompt, and the prompt without adjectives, as released.

    The objects are the nearest noun before the relation and the first one after it.

    Args:
        text: the prompt.
        tokens: its words, with parts of speech.
    """
    words = [token.text for token in tokens]
    plain = " ".join(token.text for token in tokens if token.pos_ != "ADJ")
    for relation in COMPLEX_RELATIONS:
        if relation not in text:
            continue
        parts = relation.split()
        start = next((k for k in range(len(words)) if words[k : k + len(parts)] == parts), None)
        if start is None:
            continue
        before = [token.text for token in tokens[:start] if token.pos_ in NOUNS]
        after = [token.text for token in tokens[start + len(parts) :] if token.pos_ in NOUNS]
        return ((before[-1], after[0]) if before and after else None), plain
    return None, plain


class SpacyParser:
    """A pipeline of spaCy, by name or folder.

    Args:
        name: installed pipeline, such as ``en_core_web_sm``, or a folder.

    Raises:
        MissingExtra: spaCy is not installed.
        UsageError: no such pipeline, or one without a parser.
    """

    def __init__(self, name: str) -> None:
        spacy = require("spacy", extra=EXTRA, purpose="noun phrases of prompts")
        try:
            self._pipeline: Any = spacy.load(name)
        except (OSError, ValueError) as err:
            raise UsageError(
                f"spaCy has no pipeline {name!r}: install it (python -m spacy download en_core_web_sm), or give "
                f"phrases by a file: --phrases FILE. It says: {' '.join(str(err).split())[:200]}"
            ) from err
        meta = self._pipeline.meta
        if not {"parser"} & set(self._pipeline.pipe_names):
            raise UsageError(f"the spaCy pipeline {name!r} has no parser, so it finds no noun phrases")
        self.name = f"spacy {spacy.__version__} {meta['lang']}_{meta['name']} {meta['version']}"

    def parse(self, text: str) -> Parsed:
        """What the pipeline says of a prompt."""
        doc = self._pipeline(text)
        objects, plain = parse_tokens(text, list(doc))
        phrases = tuple(chunk.text for chunk in doc.noun_chunks)
        return Parsed(phrases=phrases, objects=objects, without_adjectives=plain, parser=self.name)


def make_parser(name: str) -> Parser:
    """The parser of a name: ``spacy:PIPELINE``.

    Raises:
        UsageError: another kind of parser.
    """
    kind, _, argument = name.partition(":")
    if kind != "spacy" or not argument:
        raise UsageError(f"a parser is named spacy:PIPELINE (spacy:en_core_web_sm); got {name!r}")
    return SpacyParser(argument)


def read_phrases(path: Path) -> dict[str, Parsed]:
    """The rows of a file of phrases, by prompt.

    Args:
        path: CSV or JSON lines.

    Raises:
        UsageError: no such file, nothing in it, or a row that does not fit.
    """
    parsed: dict[str, Parsed] = {}
    for row in read_rows(path, f"noun phrases ({COLUMNS})"):
        text = row.get("prompt")
        if not isinstance(text, str) or not text.strip() or "phrases" not in row:
            raise UsageError(f"{row.where}: expected {COLUMNS}; it has {', '.join(map(str, row))[:200]}")
        objects = _texts(row.get("objects"), f"{row.where}: objects")
        if len(objects) not in (0, 2):
            raise UsageError(f"{row.where}: objects are two, or none; got {len(objects)}")
        plain, parser = row.get("without_adjectives"), row.get("parser")
        found = Parsed(
            phrases=_texts(row["phrases"], f"{row.where}: phrases"),
            objects=(objects[0], objects[1]) if objects else None,
            without_adjectives=str(plain) if plain else None,
            parser=str(parser) if parser else f"file {path.name}",
        )
        if parsed.setdefault(text.strip(), found) != found:
            raise UsageError(f"{row.where}: {text!r:.120} is there twice, with other phrases")
    if not parsed:
        raise UsageError(f"{path}: nothing in it; expected {COLUMNS}")
    return parsed


def _texts(value: Any, where: str) -> tuple[str, ...]:
    """A list of texts, or its JSON."""
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except json.JSONDecodeError as err:
            raise UsageError(f"{where}: expected a JSON list of texts, got {value[:60]!r} ({err})") from None
    if value in (None, ""):
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise UsageError(f"{where}: expected a list of texts, got {str(value)[:60]!r}")
    return tuple(value)


def write_phrases(path: Path, parsed: Mapping[str, Parsed]) -> None:
    """Write a file of phrases, as JSON lines.

    Args:
        path: the file.
        parsed: by prompt.
    """
    lines = [
        json.dumps(
            {
                "prompt": text,
                "phrases": list(each.phrases),
                "objects": list(each.objects or ()),
                "without_adjectives": each.without_adjectives,
                "parser": each.parser,
            },
            ensure_ascii=False,
        )
        for text, each in parsed.items()
    ]
    write_whole(path, "".join(line + "\n" for line in lines))


def needs_phrases(asked: Asked) -> bool:
    """Whether a prompt is scored by its noun phrases and nobody parsed it yet."""
    return asked.category in (*BOUND, "complex") and asked.phrases is None


def with_phrases(asked: Iterable[Asked], parsed: Mapping[str, Parsed]) -> list[Asked]:
    """Prompts with what a parser says of them.

    Args:
        asked: the prompts; those that were parsed already, or need no phrases, stay as they are.
        parsed: by prompt.

    Raises:
        UsageError: a prompt that nobody parsed.
    """
    made = []
    for each in asked:
        if not needs_phrases(each):
            made.append(each)
            continue
        found = parsed.get(each.text)
        if found is None:
            raise UsageError(
                f"no noun phrases for {each.text!r:.120} ({each.category}); the file needs a row for each prompt of "
                f"color, shape, texture and complex: {COLUMNS}"
            )
        names = found.objects if each.category == "complex" else each.names
        made.append(replace(each, phrases=found.phrases, names=names, without_adjectives=found.without_adjectives))
    return made
