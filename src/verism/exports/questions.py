"""What judges elsewhere must answer about images: a row for each answer, to be filled in and read by ``results:``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from verism.errors import UsageError
from verism.files import csv_text
from verism.pipeline.local import make_requests
from verism.records import (
    AnswerNeed,
    CaptionNeed,
    DepthNeed,
    DetectionNeed,
    Need,
    OcrNeed,
    PreferenceNeed,
    Request,
    option_of,
)
from verism.registry import kinds
from verism.specs import did_you_mean
from verism.store import Run
from verism.suites.base import Suite

__all__ = ["QuestionTable", "answerable_roles", "question_table"]

RESULTS = "results"  # kind of judge that reads answers made elsewhere


@dataclass(frozen=True, kw_only=True)
class QuestionTable:
    """What judges of one role must answer.

    Attributes:
        role: of the judges.
        n_images: number of images asked about.
        rows: one for each answer; what is to be filled in is empty. Lists stay lists.
    """

    role: str
    n_images: int
    rows: Sequence[Mapping[str, Any]]

    def csv(self, *, raw: bool = False) -> str:
        """As CSV; lists are written as JSON.

        Args:
            raw: whether texts stay as they are that a spreadsheet would run as formulas.
        """
        columns = list(self.rows[0]) if self.rows else []
        return csv_text(columns, ([_cell(row[column]) for column in columns] for row in self.rows), raw=raw)

    def json_lines(self) -> Iterator[str]:
        """As JSON, a line for each row, without what is to be filled in."""
        for row in self.rows:
            kept = {name: value for name, value in row.items() if value is not None}
            yield json.dumps(kept, ensure_ascii=False)


def answerable_roles(suite: Suite) -> list[str]:
    """Roles of judges a suite asks whose answers can come from a file.

    Args:
        suite: the suite.
    """
    readable = [
        need.role
        for need in suite.needs()
        if type(need) in _ROWS and any(kind.name == RESULTS for kind in kinds(need.role))
    ]
    return list(dict.fromkeys(readable))


def question_table(suite: Suite, *, role: str | None = None, run: Run | None = None) -> QuestionTable:
    """What judges of a role must answer about the images of a suite, or about the usable images of a run.

    Args:
        suite: the suite.
        role: of the judges; None: ``vqa`` if it is asked, else the first whose answers can come from a file.
        run: a run of the suite; None: all images that the suite asks for.

    Raises:
        UsageError: the suite asks no judge of the role, or none whose answers can come from a file.
    """
    there = answerable_roles(suite)
    if not there:
        asked = ", ".join(option_of(need.role) for need in suite.needs()) or "no judge"
        raise UsageError(f"{suite.name} asks nothing that can be answered in a file; it asks {asked}")
    if role is None:
        role = AnswerNeed.role if AnswerNeed.role in there else there[0]
    if role not in there:
        raise UsageError(
            f"{suite.name} asks nothing of {role!r} that can be answered in a file.{did_you_mean(role, there)} There "
            f"are {', '.join(there)}"
        )
    needs = [need for need in suite.needs() if need.role == role]
    requests = make_requests(suite.prompts() if run is None else run.prompts(), suite.made_with.get("seed") or 0)
    paths: dict[str, str] | None = None
    if run is not None:
        import polars as pl

        usable = run.read("images").filter(pl.col("state") == "ok").select("image_id", "path")
        paths = {image: _file(run, path) for image, path in usable.iter_rows()}
    rows: list[Mapping[str, Any]] = []
    images: set[str] = set()
    for request in requests:
        if paths is not None and request.image_id not in paths:
            continue
        named: dict[str, Any] = {
            "image_id": request.image_id,
            "prompt_id": request.prompt.prompt_id,
            "index": request.index,
        }
        if paths is not None:
            named["path"] = paths[request.image_id]
        for need in needs:
            for row in _ROWS[type(need)](need, request):
                rows.append(named | row)
                images.add(request.image_id)
    if not rows:
        raise UsageError(f"{suite.name} asks no questions about images with these options")
    return QuestionTable(role=role, n_images=len(images), rows=rows)


def _file(run: Run, path: str | None) -> str:
    return "" if path is None else str(run.resolve(path).absolute())


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False) if value else ""
    return "" if value is None else value


def _answers(need: AnswerNeed, request: Request) -> Iterator[dict[str, Any]]:
    for question in need.questions.get(request.prompt.prompt_id, ()):
        yield {"question": question.text, "choices": list(question.choices), "answer": None}


def _captions(need: CaptionNeed, request: Request) -> Iterator[dict[str, Any]]:
    del need, request
    yield {"caption": None}


def _texts(need: OcrNeed, request: Request) -> Iterator[dict[str, Any]]:
    yield {"text_language": need.languages.get(request.prompt.prompt_id, ""), "text": None}


def _scores(need: PreferenceNeed, request: Request) -> Iterator[dict[str, Any]]:
    yield {"prompt": need.texts.get(request.prompt.prompt_id, request.prompt.text), "score": None}


def _boxes(need: DetectionNeed, request: Request) -> Iterator[dict[str, Any]]:
    del request
    yield {"classes": list(need.classes), "label": None, "score": None, **dict.fromkeys(("x0", "y0", "x1", "y1"))}


def _maps(need: DepthNeed, request: Request) -> Iterator[dict[str, Any]]:
    del need
    yield {"depth_map": f"{PurePosixPath(request.image_id).name}.npy"}


_ROWS: Mapping[type[Need], Callable[[Any, Request], Iterator[dict[str, Any]]]] = {
    AnswerNeed: _answers,
    CaptionNeed: _captions,
    OcrNeed: _texts,
    PreferenceNeed: _scores,
    DetectionNeed: _boxes,
    DepthNeed: _maps,
}
