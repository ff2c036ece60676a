"""The released files of UniGenBench: prompts with test points, and results of its judge.

The data are under CC BY 4.0; the user brings them. The released evaluation shows a judge all test points of a prompt in
one request and reads a list of 0 and 1. Here every point is a question of its own, in words of ours; results that the
released evaluation wrote are read as answers to them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from verism.errors import UsageError
from verism.files import parse_json, read_rows
from verism.suites.questions.asked import AskedPrompt, AskedQuestion

__all__ = ["EXPECTED", "POINTS", "alterations", "point_answers", "read_points", "read_results"]

N_PROMPTS, N_POINTS, N_KINDS = 600, 1813, 27
POINTS = "Testpoints"
DESCRIPTIONS = "Testpoint Description"
EXPECTED = (
    f"the released test_prompts_en.csv: index, prompt_en, sub_dims_en (JSON with {POINTS} and {DESCRIPTIONS}); "
    f"{N_PROMPTS} prompts, {N_POINTS:,} test points of {N_KINDS} kinds"
)


def read_points(path: Path) -> list[AskedPrompt]:
    """The prompts with a question for each test point.

    Args:
        path: the user's copy, CSV.

    Raises:
        UsageError: no such file, a column that is missing, or test points that do not fit their descriptions.
    """
    rows = read_rows(path, EXPECTED)
    names = [str(name) for name in rows[0]] if rows else []
    text_column = next((name for name in names if name == "prompt" or name.startswith("prompt_")), None)
    point_column = next((name for name in names if name == "sub_dims" or name.startswith("sub_dims_")), None)
    if "index" not in names or text_column is None or point_column is None:
        raise UsageError(f"{path}: it has {', '.join(names) or 'nothing'}. Expected {EXPECTED}")
    made: dict[str, AskedPrompt] = {}
    for row in rows:
        key, text = str(row["index"] or "").strip(), str(row[text_column] or "").strip()
        if not key or not text:
            raise UsageError(f"{row.where}: no index or no {text_column}. Expected {EXPECTED}")
        if key in made:
            raise UsageError(f"{row.where}: the index {key} is there twice")
        try:
            record = parse_json(str(row[point_column] or ""))
        except ValueError as err:
            raise UsageError(f"{row.where}: {point_column} is no JSON ({str(err)[:200]})") from None
        made[key] = AskedPrompt(
            prompt_id=key,
            text=text,
            questions=_questions(record, text, row.where),
            facets={"prompt_source": "released"},
        )
    return list(made.values())


def _questions(record: Any, text: str, where: str) -> tuple[AskedQuestion, ...]:
    points = _texts(record.get(POINTS) if isinstance(record, dict) else None)
    described = _texts(record.get(DESCRIPTIONS) if isinstance(record, dict) else None)
    if not points or len(points) != len(described):
        raise UsageError(f"{where}: {POINTS} and {DESCRIPTIONS} are lists of texts, equally long. Expected {EXPECTED}")
    return tuple(
        AskedQuestion(
            name=str(number),
            text=f'The image is to show: "{text}" Look at one point alone, {point.strip()}: '
            f"{description.strip()} Is this point as asked?",
            groups={"category": dimension_of(point), "subcategory": point.strip()},
        )
        for number, (point, description) in enumerate(zip(points, described, strict=True), start=1)
    )


def _texts(value: Any) -> list[str]:
    """A list of texts that say something; empty for anything else."""
    fits = isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value)
    return list(value) if fits else []


def dimension_of(point: str) -> str:
    """The dimension of a test point: what stands before the first hyphen.

    >>> dimension_of("Attribute - Color"), dimension_of("Style")
    ('Attribute', 'Style')
    """
    return point.partition("-")[0].strip()


def alterations(prompts: Sequence[AskedPrompt]) -> str:
    """How prompts differ from the released English ones, in words; empty if they do not as far as is known.

    Args:
        prompts: with their questions.
    """
    n_points = sum(len(p.questions) for p in prompts)
    kinds = {q.groups["subcategory"] for p in prompts for q in p.questions}
    if (len(prompts), n_points, len(kinds)) != (N_PROMPTS, N_POINTS, N_KINDS):
        return (
            f"{len(prompts):,} prompts with {n_points:,} test points of {len(kinds)} kinds, expected {N_PROMPTS}, "
            f"{N_POINTS:,} and {N_KINDS}"
        )
    return ""


def read_results(path: Path) -> dict[tuple[str, int], tuple[tuple[str, int], ...]]:
    """Results of the released evaluation: by prompt and image, each test point with its 0 or 1.

    Args:
        path: CSV with ``index, testpoint, result_json, img_path``.

    Raises:
        UsageError: no such file, another format, an image named otherwise than ``{index}_{k}.png``, or an image twice.
    """
    expected = "results of the released evaluation: index, testpoint, result_json ({testpoint, score ...}), img_path"
    found: dict[tuple[str, int], tuple[tuple[str, int], ...]] = {}
    for row in read_rows(path, expected):
        if missing := [name for name in ("index", "result_json", "img_path") if not row.get(name)]:
            raise UsageError(f"{row.where}: no {missing[0]}. Expected {expected}")
        match = re.fullmatch(r"(.+)_(\d{1,4})", PurePosixPath(str(row["img_path"])).stem)
        if match is None:
            raise UsageError(f"{row.where}: the image {str(row['img_path'])!r:.80} is not named INDEX_NUMBER")
        record = _record(str(row["result_json"]), row.where)
        points, listed = _texts(record.get("testpoint")), record.get("score")
        scores: list[Any] = listed if isinstance(listed, list) else []
        if not points or len(points) != len(scores) or any(score not in (0, 1) for score in scores):
            raise UsageError(f"{row.where}: testpoint and score are lists, equally long, of texts and of 0 and 1")
        key = (match.group(1), int(match.group(2)))
        if key in found:
            raise UsageError(f"{row.where}: image {key[1]} of prompt {key[0]} is there twice")
        found[key] = tuple((point.strip(), int(score)) for point, score in zip(points, scores, strict=True))
    if not found:
        raise UsageError(f"{path}: no results in it. Expected {expected}")
    return found


def _record(text: str, where: str) -> Mapping[str, Any]:
    """An object in JSON, or as Python prints one: the released code reads it so."""
    try:
        value: Any = parse_json(text)
    except ValueError:
        try:
            value = ast.literal_eval(text) if len(text) < 100_000 else None
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
    if not isinstance(value, dict):
        raise UsageError(f"{where}: result_json is no object")
    return value


def point_answers(
    prompts: Sequence[AskedPrompt],
    results: Mapping[tuple[str, int], Sequence[tuple[str, int]]],
    suffix: str | None = None,
) -> list[dict[str, str]]:
    """Results as answers to our questions: rows of ``image_id, question, answer``.

    Args:
        prompts: with their questions.
        results: as read; test points of one kind are matched in their order.
        suffix: behind each question.

    Raises:
        UsageError: a prompt or a test point that the prompts do not have.
    """
    asked = {p.prompt_id: p for p in prompts}
    rows = []
    for (key, index), scores in results.items():
        prompt = asked.get(key)
        if prompt is None:
            raise UsageError(f"the results are of a prompt {key!r:.80}, which the list does not have")
        left = list(prompt.questions)
        for point, score in scores:
            question = next((q for q in left if q.groups["subcategory"] == point), None)
            if question is None:
                raise UsageError(f"prompt {key} has no test point {point!r:.80}")
            left.remove(question)
            text = question.question(suffix).text
            rows.append({"image_id": f"{key}#{index}", "question": text, "answer": "yes" if score else "no"})
    return rows
