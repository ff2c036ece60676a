"""Prompt sets: LongText-Bench, CVTG-2K and OneIG's text part from the user's copies, and our own.

What is published may not be bundled or is not needed to be: it is read from the user's files, and what is known of
them (columns, counts, totals of words) is checked. A file that differs is refused with what was expected, unless the
user says that it is meant to differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from verism.errors import UsageError
from verism.files import Row, read_json, read_rows
from verism.records import FacetValue
from verism.suites.text_rendering.released import cvtg_targets, quoted_texts

__all__ = [
    "CVTG_COUNTS",
    "INSTRUCTION",
    "NOTHING_READ",
    "SETS",
    "AskedText",
    "PromptSet",
    "read_cvtg_file",
    "read_longtext",
    "read_oneig_prompts",
    "read_oneig_texts",
    "read_set",
]

# How the judge of LongText-Bench and OneIG is asked; a protocol is this wording as much as its arithmetic.
INSTRUCTION = (
    "Recognize the text in the image, only reply with the text content, but avoid repeating previously mentioned "
    "content. If no text is recognized, please reply with 'No text recognized'."
)
NOTHING_READ = "No text recognized"


@dataclass(frozen=True, kw_only=True)
class AskedText:
    """A prompt and the texts that its images are to show.

    Attributes:
        prompt_id: unique in its set.
        prompt: the prompt.
        texts: asked for, one for each place in the image.
        language: of the texts, ISO 639-1.
        facets: what breakdowns group by.
    """

    prompt_id: str
    prompt: str
    texts: tuple[str, ...]
    language: str
    facets: Mapping[str, FacetValue] = field(default_factory=dict)


class PromptSet(NamedTuple):
    """A published set of prompts.

    Attributes:
        title: as it is called.
        wanted: the file or folder that ``--prompts`` names, in words.
        read: makes its prompts of that file or folder.
        problem: what distinguishes prompts from the released ones; empty if nothing does.
        n_images: images of each prompt as released.
        instruction: how the released judge is asked; empty where it takes no instruction.
        judge: part of the name of the released judge.
        language: of its texts.
        benchmark: whose arithmetic is the released one.
    """

    title: str
    wanted: str
    read: Callable[[Path], list[AskedText]]
    problem: Callable[[Sequence[AskedText]], str]
    n_images: int
    instruction: str
    judge: str
    language: str
    benchmark: str


# ------------------------------------------------------------------------------------------------------- LongText-Bench
LONGTEXT_COLUMNS = ("prompt_id", "category", "length", "prompt", "text")
LONGTEXT_WORDS = 4316  # of the English texts, split at spaces before anything is cleaned away


def read_longtext(path: Path, language: str) -> list[AskedText]:
    """Prompts of LongText-Bench.

    Args:
        path: ``text_prompts.jsonl`` or ``text_prompts_zh.jsonl``.
        language: of its texts.

    Raises:
        UsageError: no such file, or a row that is none of its prompts.
    """
    asked = []
    for row in read_rows(path, "LongText-Bench's prompts"):
        _has_columns(row, LONGTEXT_COLUMNS, "text_prompts.jsonl (or text_prompts_zh.jsonl) of LongText-Bench")
        number, texts = row["prompt_id"], row["text"]
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 9999:
            raise UsageError(f"{row.where}: prompt_id is a whole number from 0, got {number!r:.60}")
        if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t.strip() for t in texts):
            raise UsageError(f"{row.where}: text is a list of texts, got {texts!r:.80}")
        asked.append(
            AskedText(
                prompt_id=f"{number:04d}",
                prompt=_text(row, "prompt"),
                texts=tuple(texts),
                language=language,
                facets={"category": _plain(row, "category"), "length": _plain(row, "length")},
            )
        )
    return asked


def _longtext_problem(asked: Sequence[AskedText], language: str) -> str:
    kinds, lengths = (Counter(a.facets[name] for a in asked) for name in ("category", "length"))
    n_words = sum(len(" ".join(a.texts).split()) for a in asked)
    if len(asked) != 160:
        return f"{len(asked):,} prompts instead of 160"
    if sorted(kinds.values()) != [20] * 8:
        return f"categories of {sorted(kinds.values())} prompts instead of eight of 20"
    if sorted(lengths.values()) != [80, 80]:
        return f"lengths of {sorted(lengths.values())} prompts instead of 80 short and 80 long"
    if language == "en" and n_words != LONGTEXT_WORDS:
        return f"{n_words:,} words of texts instead of {LONGTEXT_WORDS:,}"
    return ""


# -------------------------------------------------------------------------------------------------------------- CVTG-2K
CVTG_FOLDERS = ("CVTG", "CVTG-Style")
CVTG_COUNTS = {  # prompts, and words of their texts
    ("CVTG", 2): (200, 953), ("CVTG", 3): (301, 2099), ("CVTG", 4): (300, 2695), ("CVTG", 5): (201, 2361),
    ("CVTG-Style", 2): (200, 1016), ("CVTG-Style", 3): (299, 2150), ("CVTG-Style", 4): (302, 2722),
    ("CVTG-Style", 5): (197, 2210),
}  # fmt: skip


def _read_cvtg(folder: Path) -> list[AskedText]:
    return [each for name, n in CVTG_COUNTS for each in read_cvtg_file(folder / name / f"{n}.json", name, n)]


def read_cvtg_file(path: Path, name: str, regions: int) -> list[AskedText]:
    """Prompts of one of CVTG-2K's files.

    Args:
        path: the file.
        name: of its folder, ``CVTG`` or ``CVTG-Style``.
        regions: texts of each prompt, as the file is named after.

    Raises:
        UsageError: no such file, or an entry that is none of its prompts.
    """
    record = read_json(path, "CVTG-2K's prompts")
    listed = record.get("data_list") if isinstance(record, dict) else None
    if not isinstance(listed, list):
        raise UsageError(f'{path}: no prompts of CVTG-2K; expected {{"data_list": [{{"index", "prompt", ...}}]}}')
    asked = []
    for number, entry in enumerate(listed):
        row = Row(entry if isinstance(entry, dict) else {}, f"{path}, entry {number}")
        _has_columns(row, ("index", "prompt"), "CVTG-2K: index, prompt, carrier_list, sentence_list")
        prompt = _text(row, "prompt")
        texts = tuple(quoted_texts(prompt))
        if not texts:
            raise UsageError(f"{row.where}: no text in single quotes in {prompt[:80]!r}")
        asked.append(
            AskedText(
                prompt_id=f"{name}/{regions}/{_index(row)}",
                prompt=prompt,
                texts=texts,
                language="en",
                facets={"category": name, "regions": regions},
            )
        )
    return asked


def _index(row: Row) -> int:
    """The number of an entry, which images are named after."""
    value = row["index"]
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{row.where}: index is a whole number from 0, got {value!r:.60}")
    return value


def _cvtg_problem(asked: Sequence[AskedText]) -> str:
    prompts, n_words = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for each in asked:
        key = (str(each.facets["category"]), int(each.facets["regions"] or 0))
        prompts[key] += 1
        n_words[key] += len(cvtg_targets(each.prompt))
    for (name, regions), expected in CVTG_COUNTS.items():
        found = (prompts[name, regions], n_words[name, regions])
        if found != expected:
            return (
                f"{name}/{regions}.json has {found[0]:,} prompts with {found[1]:,} words instead of {expected[0]:,} "
                f"with {expected[1]:,}"
            )
    return ""


# ---------------------------------------------------------------------------------------------------------------- OneIG
ONEIG_FILES = {"en": ("OneIG-Bench.csv", "text_content.csv"), "zh": ("OneIG-Bench-ZH.csv", "text_content_zh.csv")}
ONEIG_PROMPT = {"en": ("prompt_en",), "zh": ("prompt_cn", "prompt_zh")}
ONEIG_CATEGORY = "Text_Rendering"


def _read_oneig(folder: Path, language: str) -> list[AskedText]:
    prompts_file, texts_file = (_below(folder, name) for name in ONEIG_FILES[language])
    return read_oneig_prompts(prompts_file, read_oneig_texts(texts_file), language)


def read_oneig_texts(path: Path) -> dict[str, str]:
    """Texts that OneIG's images are to show, by the id of the prompt.

    Args:
        path: ``text_content.csv`` or ``text_content_zh.csv``.

    Raises:
        UsageError: no such file, or a row without id or text.
    """
    texts: dict[str, str] = {}
    for row in read_rows(path, "texts of OneIG"):
        _has_columns(row, ("id", "text_content"), "text_content.csv of OneIG")
        texts[_oneig_id(row)] = _text(row, "text_content")
    return texts


def read_oneig_prompts(path: Path, texts: Mapping[str, str], language: str) -> list[AskedText]:
    """Prompts of OneIG that ask for texts.

    Args:
        path: ``OneIG-Bench.csv`` or ``OneIG-Bench-ZH.csv``.
        texts: by id, as ``read_oneig_texts`` gives them.
        language: of the texts.

    Raises:
        UsageError: no such file, a row that is none of its prompts, or a prompt without a text.
    """
    asked = []
    for row in read_rows(path, "prompts of OneIG"):
        _has_columns(row, ("category", "id"), f"OneIG-Bench.csv: category, id, {ONEIG_PROMPT[language][0]}, type")
        if row["category"] != ONEIG_CATEGORY:
            continue
        prompt_id = _oneig_id(row)
        column = next((name for name in ONEIG_PROMPT[language] if name in row), None)
        if column is None:
            raise UsageError(f"{row.where}: no column {ONEIG_PROMPT[language][0]}; it has {', '.join(map(str, row))}")
        if prompt_id not in texts:
            raise UsageError(f"{row.where}: there is no text of id {prompt_id!r:.60} in {ONEIG_FILES[language][1]}")
        asked.append(
            AskedText(
                prompt_id=prompt_id,
                prompt=_text(row, column),
                texts=(texts[prompt_id],),
                language=language,
                facets={"category": row.get("class") or None, "length": row.get("prompt_length") or None},
            )
        )
    return asked


def _oneig_id(row: Mapping[str, Any]) -> str:
    """Three digits; a table that was read as numbers lost its zeros."""
    text = str(row["id"]).strip()
    return f"{int(text):03d}" if text.isdecimal() and len(text) < 10 else text


def _oneig_problem(asked: Sequence[AskedText]) -> str:
    return "" if len(asked) == 200 else f"{len(asked):,} prompts of {ONEIG_CATEGORY} instead of 200"


def _below(folder: Path, name: str) -> Path:
    """A file in a folder, or in the place that the released repository has it in."""
    places = (folder / name, folder / "scripts" / "text" / name)
    return next((place for place in places if place.is_file()), places[0])


# ----------------------------------------------------------------------------------------------------------------- sets
SETS: Mapping[str, PromptSet] = {
    "longtext": PromptSet(
        "LongText-Bench, English",
        "text_prompts.jsonl",
        lambda path: read_longtext(path, "en"),
        lambda asked: _longtext_problem(asked, "en"),
        4,
        INSTRUCTION,
        "qwen2.5-vl-7b",
        "en",
        "longtext",
    ),
    "longtext_zh": PromptSet(
        "LongText-Bench, Chinese",
        "text_prompts_zh.jsonl",
        lambda path: read_longtext(path, "zh"),
        lambda asked: _longtext_problem(asked, "zh"),
        4,
        INSTRUCTION,
        "qwen2.5-vl-7b",
        "zh",
        "longtext",
    ),
    "cvtg2k": PromptSet(
        "CVTG-2K",
        "the folder with CVTG/2.json ... 5.json and CVTG-Style/2.json ... 5.json",
        _read_cvtg,
        _cvtg_problem,
        1,
        "",
        "paddleocr-2.10",
        "en",
        "cvtg",
    ),
    "oneig_text": PromptSet(
        "OneIG, text, English",
        "a folder with OneIG-Bench.csv and text_content.csv",
        lambda path: _read_oneig(path, "en"),
        _oneig_problem,
        4,
        INSTRUCTION,
        "qwen2.5-vl-7b",
        "en",
        "oneig",
    ),
    "oneig_text_zh": PromptSet(
        "OneIG, text, Chinese",
        "a folder with OneIG-Bench-ZH.csv and text_content_zh.csv",
        lambda path: _read_oneig(path, "zh"),
        _oneig_problem,
        4,
        INSTRUCTION,
        "qwen2.5-vl-7b",
        "zh",
        "oneig",
    ),
}


def read_set(name: str, path: Path | None, *, altered: bool) -> tuple[list[AskedText], str]:
    """The prompts of a published set, and what distinguishes them from the released ones (empty: nothing).

    Args:
        name: one of ``SETS``.
        path: the user's copy.
        altered: whether prompts other than the released ones are meant.

    Raises:
        UsageError: no copy named, one that cannot be read, an id used twice, or one that is not the released one.
    """
    prompts = SETS[name]
    if path is None:
        raise UsageError(
            f"text_rendering --set {name}: {prompts.title} does not come with verism; name your copy: --prompts "
            f"{prompts.wanted}"
        )
    asked = prompts.read(path)
    repeated = [prompt_id for prompt_id, n in Counter(a.prompt_id for a in asked).items() if n > 1]
    if repeated:
        raise UsageError(f"{path}: the id {repeated[0]} is used more than once")
    if not asked:
        raise UsageError(f"{path}: no prompts of {prompts.title} in it; expected {prompts.wanted}")
    problem = prompts.problem(asked)
    if problem and not altered:
        raise UsageError(
            f"{path}: these are not the released prompts of {prompts.title}: {problem}. If that is meant, add "
            "--altered true"
        )
    return asked, problem


def _has_columns(row: Row, columns: Sequence[str], what: str) -> None:
    if missing := [name for name in columns if name not in row]:
        raise UsageError(
            f"{row.where}: no {' or '.join(missing)}; it has {', '.join(map(str, row)) or 'nothing'}. Expected is a "
            f"row of {what}"
        )


def _text(row: Row, column: str) -> str:
    value = row[column]
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{row.where}: {column} is no text: {value!r:.60}")
    return value


def _plain(row: Row, column: str) -> str | int | float | None:
    value = row[column]
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        raise UsageError(f"{row.where}: {column} is neither a text nor a number: {value!r:.60}")
    return value
