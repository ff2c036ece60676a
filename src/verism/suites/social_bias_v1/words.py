"""Lists of words for ``social_bias_v1``: what is asked for, and what texts an image is compared with.

``released`` is the list of the first version of the paper, 145 words in four categories, with two axes (gender and
race) for CLIP. A list of your own is a YAML or JSON file; with ``extends`` it only says what is different::

    extends: released
    name: trades
    categories:
      - {name: trade, template: "a photo of {phrase}", words: [welder, florist, {name: nurse, phrase: a nurse}]}
    axes:
      - name: age
        classes:
          - {name: young, prompt: a photo of a young person}
          - {name: old, prompt: a photo of an old person}

or a table (``.csv``, ``.jsonl``) with the columns ``category`` and ``word``, and ``prompt`` where the prompt is not
"a photo of a WORD"; or prompts alone, one per line (``.txt``). Tables and texts keep the released axes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from verism.errors import UsageError
from verism.files import Row, read_document, read_rows, well_formed
from verism.suites.prompt_lists import read_prompt_list
from verism.suites.social_bias.studies import article_of

__all__ = [
    "HUMAN",
    "WORDINGS",
    "Axis",
    "Word",
    "WordList",
    "axes_from_record",
    "read_words",
    "released_words",
    "slug",
]

Wording = Literal["released", "revised"]
WORDINGS: tuple[Wording, ...] = get_args(Wording)
Tie = Literal["first", "last"]

HUMAN = "human"  # axis of people's labels: whether a prompt's images show people at all
RESERVED = (HUMAN, "tone")
TEMPLATE = "a photo of {phrase}"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Something an image is classified by, with the text each class is recognised by.

    Attributes:
        name: of the axis.
        classes: in order.
        prompts: texts that an image is compared with, one for each class.
        tie: which of equally probable classes the released rule takes. The authors' code asks whether "male" is
            strictly more probable than "female" (``last``), and takes the first of the races (``first``).
        caution: what must be said wherever its numbers are shown; may be empty.
    """

    name: str
    classes: tuple[str, ...]
    prompts: tuple[str, ...]
    tie: Tie = "first"
    caution: str = ""

    def record(self) -> dict[str, Any]:
        """As JSON, in the form of a list file."""
        classes = [{"name": n, "prompt": p} for n, p in zip(self.classes, self.prompts, strict=True)]
        return {"name": self.name, "tie": self.tie, "caution": self.caution, "classes": classes}


@dataclass(frozen=True, kw_only=True)
class Word:
    """What a prompt is about.

    Attributes:
        category: what kind of thing it is (profession ...).
        name: in tables.
        texts: the prompt, by wording.
    """

    category: str
    name: str
    texts: Mapping[str, str]

    @property
    def prompt_id(self) -> str:
        """``profession/comic_book_writer``: the same in every wording, so that runs in both can be compared."""
        return f"{slug(self.category)}/{slug(self.name)}"


@dataclass(frozen=True, kw_only=True)
class WordList:
    """Words, and axes. Make one with ``released_words`` or ``read_words``.

    Attributes:
        name: of the list.
        source: where it comes from: a publication or a file.
        words: in order.
        axes: what is perceived in the images of its prompts.
        n_images: images of each prompt.
        wordings: of its prompts; a list of your own has but one, ``own``.
    """

    name: str
    source: str
    words: tuple[Word, ...]
    axes: tuple[Axis, ...]
    n_images: int
    wordings: tuple[str, ...]


def slug(name: str) -> str:
    """A name as part of an id: spaces and slashes become underscores."""
    return re.sub(r"[\s/#]+", "_", name.strip())


# ------------------------------------------------------------------------------------------------------------- reading
def released_words() -> WordList:
    """The list of the paper."""
    return _from_record(_released_record(), where="released")


def read_words(source: Path) -> WordList:
    """A list of your own; or, where there is no such file and it is so named, that of the paper.

    Raises:
        UsageError: no such file, not readable, or something missing, misspelt or said twice in it.
    """
    if not source.is_file():
        if str(source) == "released":
            return released_words()
        raise UsageError(f"{source}: no such file; a list of words is .yaml, .json, .csv, .jsonl, .txt or `released`")
    suffix = source.suffix.lower()
    if suffix in (".yaml", ".yml", ".json"):
        record = read_document(source, "a list of words")
        with well_formed(source):
            return _from_record(record, where=str(source))
    if suffix in (".csv", ".jsonl", ".ndjson", ".txt"):
        return _from_table(source)
    raise UsageError(f"{source}: a list of words is a .yaml, .json, .csv, .jsonl or .txt file, or `released`")


def _released_record() -> dict[str, Any]:
    file = resources.files("verism") / "data" / "social_bias" / "first.json"
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return record


def _from_table(source: Path) -> WordList:
    """Prompts of a table or text, with the released axes."""
    words = []
    if source.suffix.lower() == ".txt":
        listed = [Row({"prompt": prompt.text}, str(source)) for prompt in read_prompt_list(source)]
    else:
        listed = read_rows(source, "a list of words")
    for row in listed:
        prompt, name = str(row.get("prompt") or "").strip(), str(row.get("word") or "").strip()
        if not prompt and not name:
            raise UsageError(f"{row.where}: neither `word` nor `prompt`; it has the columns {list(map(str, row))}")
        category = str(row.get("category") or "").strip() or "word"
        text = prompt or TEMPLATE.format(phrase=_with_article(name))
        words.append(Word(category=category, name=name or prompt, texts={"own": text}))
    if not words:
        raise UsageError(f"{source}: no words in it")
    return _checked(
        WordList(
            name=source.stem,
            source=str(source),
            words=tuple(words),
            axes=released_words().axes,
            n_images=9,
            wordings=("own",),
        ),
        str(source),
    )


_KEYS = ("extends", "name", "source", "n_images", "categories", "axes")


def _from_record(record: Any, *, where: str) -> WordList:
    """A list from parsed JSON or YAML; ``where`` names the source in errors."""
    _mapping(record, where, _KEYS)
    subset = "categories" in record and where != "released"
    if "extends" in record:
        if record["extends"] != "released":
            raise UsageError(f"{where}: extends: there is nothing but `released` to extend, not {record['extends']!r}")
        options = {k: v for k, v in record.items() if k != "extends"}
        record = {**_released_record(), "name": Path(where).stem, "source": where, **options}
    wordings: tuple[str, ...] = ("own",) if subset else WORDINGS
    words = [w for c in _entries(record, "categories", where) for w in _words_of(c, where, wordings)]
    n_images = record.get("n_images", 9)
    if not isinstance(n_images, int) or isinstance(n_images, bool) or n_images < 1:
        raise UsageError(f"{where}: n_images is a whole number, at least 1; got {n_images!r}")
    return _checked(
        WordList(
            name=str(record.get("name", Path(where).stem)),
            source=str(record.get("source", where)),
            words=tuple(words),
            axes=axes_from_record(record.get("axes") or _released_record()["axes"], where=where),
            n_images=n_images,
            wordings=wordings,
        ),
        where,
    )


def _words_of(category: Mapping[str, Any], where: str, wordings: Sequence[str]) -> list[Word]:
    _mapping(category, f"{where}: categories", ("name", "template", "words", "revised"))
    name = _text(category, "name", f"{where}: categories")
    here = f"{where}: {name}"
    template = str(category.get("template", TEMPLATE))
    if template.count("{phrase}") != 1 or re.search(r"[{}]", template.replace("{phrase}", "")):
        raise UsageError(f"{here}: a template has {{phrase}} in it once, and no other field; got {template!r}")
    revised = _mapping(category.get("revised") or {}, f"{here}: revised")
    words = []
    for entry in _entries(category, "words", here, mappings=False):
        item = entry if isinstance(entry, Mapping) else {"name": entry}
        _mapping(item, f"{here}: words", ("name", "phrase", "prompt"))
        word = _text(item, "name", f"{here}: words")
        phrases = {"released": f"a {word}", "revised": str(revised.get(word, f"a {word}"))}
        phrases["own"] = str(item.get("phrase", _with_article(word)))
        texts = {w: str(item.get("prompt", template.replace("{phrase}", phrases[w]))) for w in wordings}
        words.append(Word(category=name, name=word, texts=texts))
    if foreign := sorted(set(revised) - {w.name for w in words}):
        raise UsageError(f"{here}: revised: {foreign[0]!r} is none of its words")
    return words


def axes_from_record(record: Any, *, where: str) -> tuple[Axis, ...]:
    """Axes from parsed JSON or YAML.

    Raises:
        UsageError: something is missing, misspelt, or named twice.
    """
    axes = []
    for entry in _entries({"axes": record}, "axes", where):
        _mapping(entry, f"{where}: axes", ("name", "tie", "caution", "classes"))
        name = _text(entry, "name", f"{where}: axes")
        here = f"{where}: axis {name}"
        tie = entry.get("tie", "first")
        if tie not in get_args(Tie):
            raise UsageError(f"{here}: tie is first or last; got {tie!r}")
        if name in RESERVED:
            raise UsageError(f"{here}: this name is taken; choose another")
        classes = _entries(entry, "classes", here)
        if len(classes) < 2:
            raise UsageError(f"{here}: an axis has at least two classes; got {len(classes)}")
        for one in classes:
            _mapping(one, f"{here}: classes", ("name", "prompt"))
        axis = Axis(
            name=name,
            classes=tuple(_text(one, "name", f"{here}: classes") for one in classes),
            prompts=tuple(_text(one, "prompt", f"{here}: classes") for one in classes),
            tie=tie,
            caution=str(entry.get("caution") or ""),
        )
        for kind, texts in (("class", axis.classes), ("prompt", axis.prompts)):
            _different(texts, f"{here}: {kind}")
        axes.append(axis)
    _different([axis.name for axis in axes], f"{where}: axis")
    return tuple(axes)


def _with_article(word: str) -> str:
    """A word as the lists of one's own have it; where that is not what should be said, a list gives the phrase."""
    return f"{article_of(word)} {word}"


# ------------------------------------------------------------------------------------------------------------- checks
def _checked(words: WordList, where: str) -> WordList:
    _different([word.prompt_id.casefold() for word in words.words], f"{where}: word")
    for wording in words.wordings:
        _different([w.texts[wording].casefold() for w in words.words], f"{where}: prompt")
    return words


def _different(names: Sequence[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{what} {name!r} is there twice")
        seen.add(name)


def _mapping(value: Any, where: str, keys: Sequence[str] | None = None) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        expected = "a mapping" + ("" if keys is None else f" with {', '.join(keys)}")
        raise UsageError(f"{where}: expected {expected}, got {type(value).__name__}")
    if keys is not None and (unknown := sorted(str(k) for k in value if k not in keys)):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(keys)}")
    return value


def _entries(record: Mapping[str, Any], kind: str, where: str, *, mappings: bool = True) -> list[Any]:
    value = record.get(kind)
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise UsageError(f"{where}: `{kind}` is a list of at least one; got {value!r}")
    if mappings:
        for entry in value:
            _mapping(entry, f"{where}: {kind}")
    return list(value)


def _text(record: Mapping[str, Any], key: str, where: str) -> str:
    value = record.get(key)
    if not isinstance(value, str | int | float) or isinstance(value, bool) or not str(value).strip():
        raise UsageError(f"{where}: `{key}` is a text that is not empty; got {value!r}")
    return str(value).strip()
