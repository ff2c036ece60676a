"""The released files of OneIG-Benchmark that its alignment part needs; without a licence, nothing comes with verism.

``OneIG-Bench.csv`` has the prompts, ``Q_D/{class}.json`` the questions: an object of ``{question, dependency}`` by id,
both of them JSON texts inside the JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import parse_json, read_json, read_rows
from verism.records import UserImage
from verism.suites.questions.asked import AskedPrompt, AskedQuestion
from verism.suites.questions.images import GRID
from verism.suites.questions.proposition_files import circles
from verism.user_images import image_files

__all__ = ["CLASSES", "EXPECTED", "alterations", "asked_prompts", "class_images", "read_prompts", "read_questions"]

# By the name of the file of questions: category of the prompts, number of prompts, number of questions (English).
CLASSES: Mapping[str, tuple[str, int, int]] = {
    "anime": ("Anime_Stylization", 245, 4176),
    "human": ("Portrait", 244, 4059),
    "object": ("General_Object", 206, 2996),
}
EXPECTED = (
    "the released OneIG-Bench.csv (category, id, prompt_en ...) and Q_D/{anime,human,object}.json ({question, "
    "dependency} by id, both JSON texts): 695 prompts of the three classes, 11,231 questions"
)


def read_prompts(path: Path) -> dict[str, dict[str, str]]:
    """The prompts of the three classes, by class and id.

    Args:
        path: the user's copy of the list, CSV.

    Raises:
        UsageError: no such file, a column that is missing, or an id used twice.
    """
    rows = read_rows(path, EXPECTED)
    names = [str(name) for name in rows[0]] if rows else []
    texts = [name for name in names if name.startswith("prompt_") and name != "prompt_length"]
    missing = [name for name in ("category", "id") if name not in names] or ([] if texts else ["prompt_en"])
    if missing:
        raise UsageError(f"{path}: no column {missing[0]}; it has {', '.join(names) or 'nothing'}. Expected {EXPECTED}")
    by_category = {category: name for name, (category, _, _) in CLASSES.items()}
    found: dict[str, dict[str, str]] = {name: {} for name in CLASSES}
    for row in rows:
        name = by_category.get(str(row["category"] or "").strip())
        if name is None:
            continue  # text rendering, knowledge: other parts of the benchmark
        key, text = str(row["id"] or "").strip(), str(row[texts[0]] or "").strip()
        if not key or not text:
            raise UsageError(f"{row.where}: no id or no {texts[0]}. Expected {EXPECTED}")
        if key in found[name]:
            raise UsageError(f"{row.where}: the id {key} of {name} is there twice")
        found[name][key] = text
    return found


def read_questions(path: Path) -> tuple[dict[str, tuple[AskedQuestion, ...]], int]:
    """The questions of one class by id of the prompt, and how many dependencies were mended.

    Args:
        path: ``Q_D/{class}.json``.

    Raises:
        UsageError: no such file, or another format.
    """
    records = read_json(path, EXPECTED)
    if not isinstance(records, dict) or not records:
        raise UsageError(f"{path}: no object of questions by id. Expected {EXPECTED}")
    found, mended = {}, 0
    for key, record in records.items():
        where = f"{path}, {key!r:.80}"
        if not isinstance(record, dict) or not {"question", "dependency"} <= set(record):
            raise UsageError(f"{where}: expected question and dependency. Expected {EXPECTED}")
        questions = _inner(record["question"], f"{where}, question")
        dependencies = _inner(record["dependency"], f"{where}, dependency")
        if not questions or not all(isinstance(text, str) and text.strip() for text in questions.values()):
            raise UsageError(f"{where}: question is an object of texts by number")
        made, n = _asked(questions, dependencies)
        found[str(key)] = made
        mended += n
    return found, mended


def _inner(value: Any, where: str) -> dict[str, Any]:
    """The object in a JSON text, or the object itself."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as err:
            raise UsageError(f"{where}: no JSON ({str(err)[:200]})") from None
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected an object, or its JSON text, got {value!r:.80}")
    return {str(name): item for name, item in value.items()}


def _asked(questions: Mapping[str, str], dependencies: Mapping[str, Any]) -> tuple[tuple[AskedQuestion, ...], int]:
    released, parents, mended = {}, {}, 0
    for name in questions:
        value = dependencies.get(name, [])
        listed = [str(item) for item in (value if isinstance(value, list) else [value])]
        named = [item for item in dict.fromkeys(listed) if item != "0"]
        released[name] = [item for item in named if item in questions]
        parents[name] = [item for item in released[name] if item != name]
        mended += len(named) - len(parents[name])
    for child, parent in circles(parents):
        parents[child].remove(parent)
        mended += 1
    return tuple(
        AskedQuestion(
            name=name,
            text=text.strip(),
            parents=tuple(parents[name]),
            released_parents=None if released[name] == parents[name] else tuple(released[name]),
        )
        for name, text in questions.items()
    ), mended


def asked_prompts(
    texts: Mapping[str, Mapping[str, str]], questions: Mapping[str, Mapping[str, tuple[AskedQuestion, ...]]]
) -> list[AskedPrompt]:
    """The prompts that have questions, class by class, in the order of the questions.

    Args:
        texts: prompts by class and id.
        questions: by class and id.

    Raises:
        UsageError: questions about an id that the list of prompts does not have.
    """
    made = []
    for name, by_id in questions.items():
        for key, asked in by_id.items():
            if key not in texts[name]:
                raise UsageError(f"there are questions about {name} {key}, and the list has no such prompt")
            groups = {"category": name}
            made.append(
                AskedPrompt(
                    prompt_id=f"{name}_{key}",
                    text=texts[name][key],
                    questions=tuple(
                        AskedQuestion(
                            name=q.name,
                            text=q.text,
                            parents=q.parents,
                            released_parents=q.released_parents,
                            groups=groups,
                        )
                        for q in asked
                    ),
                    facets={"prompt_source": name},
                )
            )
    return made


def alterations(prompts: Sequence[AskedPrompt]) -> str:
    """How the questions differ from the released English ones, in words; empty if they do not as far as is known.

    Args:
        prompts: with their questions.
    """
    for name, (_, n_prompts, n_questions) in CLASSES.items():
        of_class = [p for p in prompts if p.facets["prompt_source"] == name]
        found = (len(of_class), sum(len(p.questions) for p in of_class))
        if found != (n_prompts, n_questions):
            return f"of {name} {found[0]} prompts and {found[1]:,} questions, expected {n_prompts} and {n_questions:,}"
    return ""


def class_images(root: Path, prompts: Iterable[AskedPrompt], *, grid: bool, model: str) -> list[UserImage]:
    """Images in the released layout, ``{root}/{class}/{model}/{id}*``.

    Args:
        root: the folder.
        prompts: whose images are wanted.
        grid: whether a file is a grid of 2 x 2.
        model: name of the folder of a model; empty where images lie in the folders of their classes.

    Raises:
        UsageError: two files begin with one id: the released code drops such a prompt without a word.
    """
    rows, columns = GRID if grid else (1, 1)
    found = []
    files: dict[str, list[Path]] = {}
    for prompt in prompts:
        name, _, key = prompt.prompt_id.partition("_")
        folder = root / name / model if model else root / name
        if name not in files:
            files[name] = image_files(folder) if folder.is_dir() else []
        fitting = [path for path in files[name] if path.name.startswith(key)]
        if len(fitting) > 1:
            raise UsageError(f"both {fitting[0]} and {fitting[1]} begin with the id {key}; keep one")
        found += [
            UserImage(
                prompt_id=prompt.prompt_id,
                index=row * columns + column,
                path=str(path.absolute()),
                cell=(row, column, rows, columns) if grid else None,
            )
            for path in fitting
            for row in range(rows)
            for column in range(columns)
        ]
    return found
