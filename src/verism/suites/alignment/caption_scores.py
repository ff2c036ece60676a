"""Images judged by what a captioner says of them: its sentence against all references of the prompt.

DALL-Eval's conventions (one sentence per image, all references of the source image, PTB tokens) are those of the COCO
caption toolkit, so ``released`` and ``revised`` agree; the papers print the values times 100.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from verism.errors import MissingExtra, VerismError
from verism.metrics.captions import (
    DEFAULT_METRICS,
    CaptionMetric,
    CaptionScores,
    MissingTool,
    ToolFailed,
    caption_scores,
)
from verism.metrics.captions.external import find_java, find_toolkit
from verism.records import Score
from verism.suites.alignment.image_groups import Groups, mean_score, score, verdict
from verism.suites.verdict_table import NOT_OBSERVED, ShownImage

if TYPE_CHECKING:
    import polars as pl

__all__ = ["METRICS", "caption_metric_scores", "caption_verdicts", "check_tools"]

METRICS: tuple[CaptionMetric, ...] = ("meteor", "spice")  # those that need Java, computed if asked for
MEANS = ("rouge_l", "cider", "spice")  # corpus values that are means over images
SHOWN_METRICS: tuple[CaptionMetric, ...] = ("cider", "bleu_4", "rouge_l")


def check_tools(metrics: Sequence[str]) -> None:
    """Say what is missing for METEOR and SPICE before any image is looked at.

    Raises:
        MissingExtra: Java or pycocoevalcap is not there.
    """
    try:
        for name in metrics:
            find_toolkit(name.upper())
            find_java(name.upper())
    except MissingTool as err:
        raise MissingExtra(str(err)) from err


def _scored(
    images: Sequence[ShownImage], captions: pl.DataFrame, metrics: Sequence[CaptionMetric]
) -> tuple[list[ShownImage], CaptionScores[str]]:
    """The images that have references, and how their captions compare."""
    answers = {row["image_id"]: row["text"] for row in captions.iter_rows(named=True)}
    judged = [p for p in images if p.prompt.spec.get("references")]
    try:
        scores = caption_scores(
            {p.image_id: p.prompt.spec["references"] for p in judged},
            {p.image_id: None if p.problem else answers.get(p.image_id) for p in judged},
            metrics=metrics,
            unmatched="count",
        )
    except MissingTool as err:
        raise MissingExtra(str(err)) from err
    except ToolFailed as err:
        raise VerismError(str(err)) from err
    return judged, scores


def caption_verdicts(images: Sequence[ShownImage], captions: pl.DataFrame) -> list[dict[str, Any]]:
    """``caption``: the sentence and the references in words; its value is the image's own CIDEr, in [0, 10]."""
    answers = {row["image_id"]: row for row in captions.iter_rows(named=True)}
    judged, scores = _scored(images, captions, SHOWN_METRICS)
    index_of = {image_id: row for row, image_id in enumerate(scores.ids)}
    rows = []
    for image in judged:
        row, at = answers.get(image.image_id), index_of.get(image.image_id)
        value: float | None = None
        detail: dict[str, float] | None = None
        if image.problem:
            reason = image.problem
        elif row is None:
            reason = NOT_OBSERVED
        elif row["text"] is None or at is None:
            reason = "no caption" + (f": {row['note']}" if row["note"] else "")
        else:
            references = " | ".join(image.prompt.spec["references"])
            reason = f'"{row["text"]}"; references: {references}'
            detail = {str(name): float(scores.per_caption[name][at]) for name in SHOWN_METRICS}
            value = detail["cider"]
        rows.append(verdict(image, "revised", "caption", value, reason, detail))
    return rows


def caption_metric_scores(
    suite: str, images: Sequence[ShownImage], captions: pl.DataFrame, groups: Groups, more: Sequence[str]
) -> list[Score]:
    """BLEU-1..4, ROUGE-L, CIDEr, and METEOR and SPICE if they are among ``more``.

    Values of groups weigh words as all images together do (CIDEr), so that groups compare.
    """
    wanted: tuple[CaptionMetric, ...] = (*DEFAULT_METRICS, *(name for name in METRICS if name in more))
    judged, full = _scored(images, captions, wanted)
    if not judged:
        return []
    index_of = {image_id: row for row, image_id in enumerate(full.ids)}
    scores: list[Score] = []
    for group, chosen in groups:
        members = [images[i] for i in chosen if images[i].prompt.spec.get("references")]
        used = [m.image_id in index_of for m in members]
        counts: Mapping[str, Any] = {"n_used": sum(used), "n_unusable": len(used) - sum(used)}
        corpus = full
        if group:
            corpus = _scored(members, captions, [name for name in wanted if name not in MEANS])[1]
        for name in wanted:
            more_told: Mapping[str, Any] = {"group": group, "unit": "CIDEr" if name == "cider" else "share"}
            for protocol in ("revised", "released"):
                if name in corpus.values:
                    scores.append(score(suite, name, protocol, corpus.values[name], **counts, **more_told))
                else:
                    values = [
                        float(full.per_caption[name][index_of[m.image_id]]) if m.image_id in index_of else None
                        for m in members
                    ]
                    ids = [m.prompt.prompt_id for m in members]
                    scores.append(mean_score(suite, name, protocol, values, ids, **more_told))
    return scores
