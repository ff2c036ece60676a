"""Images judged by what a captioner says of them: its sentence against all references of the prompt.

DALL-Eval's conventions (one sentence per image, all references of the source image, PTB tokens) are those of the COCO
caption toolkit, so ``released`` and ``revised`` agree; the papers print the values times 100.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from verism.errors import MissingExtra, VerismError
from verism.metrics.captions import (
    DEFAULT_METRICS,
    CaptionColumns,
    CaptionMetric,
    DocumentFrequencies,
    MissingTool,
    ToolFailed,
    caption_columns,
    corpus_scores,
    document_frequencies,
    tokenized_captions,
    values_of_captions,
)
from verism.metrics.captions.external import Meteor, find_java, find_toolkit
from verism.records import Prompt, Score
from verism.suites.alignment.image_groups import Groups, Listed, mean_score, score, verdict
from verism.suites.verdict_table import NOT_OBSERVED, ShownImage

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "METRICS",
    "CaptionTally",
    "caption_metric_scores",
    "caption_tally",
    "caption_verdicts",
    "captioned",
    "check_tools",
    "frequencies_of",
]

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


class CaptionTally(NamedTuple):
    """What the scores of captions rest on.

    Attributes:
        judged: images whose prompts have references, shape (N,).
        usable: those of them that have a caption, shape (N,).
        columns: numbers of the usable images.
        captions: of the usable images, a column of texts; only for METEOR and SPICE.
    """

    judged: NDArray[np.bool_]
    usable: NDArray[np.bool_]
    columns: CaptionColumns
    captions: pl.Series


def _captions(images: Sequence[ShownImage], captions: pl.DataFrame) -> tuple[list[str | None], list[bool]]:
    """The caption of each image, None for none; and whether its prompt has references."""
    answers = dict(captions.select("image_id", "text").iter_rows())
    judged = [bool(image.prompt.spec.get("references")) for image in images]
    return [
        answers.get(image.image_id) if has_references and not image.problem else None
        for image, has_references in zip(images, judged, strict=True)
    ], judged


def captioned(images: Sequence[ShownImage], captions: pl.DataFrame) -> dict[str, int]:
    """How many images of each prompt have a caption, by the id of the prompt; prompts without any are left out."""
    texts, _ = _captions(images, captions)
    return dict(Counter(image.prompt.prompt_id for image, text in zip(images, texts, strict=True) if text is not None))


def frequencies_of(prompts: Mapping[str, Prompt], n_images: Mapping[str, int]) -> DocumentFrequencies:
    """What CIDEr needs to know of all images of a run.

    Args:
        prompts: of the run.
        n_images: of each prompt that have a caption, as ``captioned`` gives them.
    """
    return document_frequencies([prompts[name].spec["references"] for name in n_images], list(n_images.values()))


def caption_tally(
    images: Sequence[ShownImage], captions: pl.DataFrame, frequencies: DocumentFrequencies, more: Sequence[str]
) -> CaptionTally:
    """What the scores of some images rest on.

    Args:
        images: some of a run, or all.
        captions: table ``captions``.
        frequencies: of all images, as ``frequencies_of`` gives them.
        more: names of caption metrics beyond the usual ones.
    """
    import polars as pl

    said, judged = _captions(images, captions)
    chosen = [(text, image) for text, image in zip(said, images, strict=True) if text is not None]
    texts = tokenized_captions([text for text, _ in chosen], [image.prompt.spec["references"] for _, image in chosen])
    return CaptionTally(
        judged=np.array(judged, dtype=bool),
        usable=np.array([text is not None for text in said], dtype=bool),
        columns=caption_columns(texts, frequencies=frequencies),
        captions=pl.Series([text for text, _ in chosen] if more else [], dtype=pl.String),
    )


def caption_verdicts(
    images: Sequence[ShownImage], captions: pl.DataFrame, frequencies: DocumentFrequencies
) -> list[dict[str, Any]]:
    """``caption``: the sentence and the references in words; its value is the image's own CIDEr, in [0, 10].

    Args:
        images: some of a run, or all.
        captions: table ``captions``.
        frequencies: of all images, as ``frequencies_of`` gives them.
    """
    answers = {row["image_id"]: row for row in captions.iter_rows(named=True)}
    tally = caption_tally(images, captions, frequencies, ())
    numbers = values_of_captions(tally.columns, SHOWN_METRICS)
    index_of = np.cumsum(tally.usable) - 1
    rows = []
    for position in np.flatnonzero(tally.judged).tolist():
        image = images[position]
        row = answers.get(image.image_id)
        value: float | None = None
        detail: dict[str, float] | None = None
        if image.problem:
            reason = image.problem
        elif row is None:
            reason = NOT_OBSERVED
        elif row["text"] is None:
            reason = "no caption" + (f": {row['note']}" if row["note"] else "")
        else:
            references = " | ".join(image.prompt.spec["references"])
            reason = f'"{row["text"]}"; references: {references}'
            detail = {str(name): float(numbers[name][index_of[position]]) for name in SHOWN_METRICS}
            value = detail["cider"]
        rows.append(verdict(image, "revised", "caption", value, reason, detail))
    return rows


def caption_metric_scores(
    suite: str, listed: Listed, tallies: Sequence[CaptionTally], groups: Groups, more: Sequence[str]
) -> list[Score]:
    """BLEU-1..4, ROUGE-L, CIDEr, and METEOR and SPICE if they are among ``more``.

    Values of groups weigh words as all images together do (CIDEr), so that groups compare.

    Args:
        suite: its name.
        listed: the images.
        tallies: of all parts of them, one at least.
        groups: of the images.
        more: names of caption metrics beyond the usual ones.
    """
    java: tuple[CaptionMetric, ...] = tuple(name for name in METRICS if name in more)
    judged, usable = (np.concatenate([tally[n] for tally in tallies]) for n in (0, 1))
    if not judged.any():
        return []
    wanted, clusters = (*DEFAULT_METRICS, *java), listed.clusters()
    scores: list[Score] = []
    with _program(java) as program:
        columns = CaptionColumns.joined(_all_columns(listed, tallies, java, program))
        whole, single = corpus_scores(columns, wanted, program)
        for group, chosen in groups:
            members = chosen[judged[chosen]]
            n_used = int(np.count_nonzero(usable[members]))
            counts: Mapping[str, Any] = {"n_used": n_used, "n_unusable": len(members) - n_used}
            values = whole
            if group:
                of_group = np.zeros(len(usable), dtype=bool)
                of_group[members] = True
                no_means = [name for name in wanted if name not in MEANS]
                values, _ = corpus_scores(columns.of(of_group[usable]), no_means, program)
            for name in wanted:
                told: Mapping[str, Any] = {"group": group, "unit": "CIDEr" if name == "cider" else "share"}
                for protocol in ("revised", "released"):
                    if name in values:
                        scores.append(score(suite, name, protocol, values[name], **counts, **told))
                    else:
                        numbers = np.full(len(usable), np.nan)
                        numbers[usable] = single[name]
                        scores.append(mean_score(suite, name, protocol, numbers[members], clusters[members], **told))
    return scores


@contextlib.contextmanager
def _program(java: Sequence[CaptionMetric]) -> Iterator[Meteor | None]:
    """METEOR's program if it is asked for; what Java lacks is said in our own errors."""
    try:
        with Meteor() if "meteor" in java else contextlib.nullcontext() as program:
            yield program
    except MissingTool as err:
        raise MissingExtra(str(err)) from err
    except ToolFailed as err:
        raise VerismError(str(err)) from err


def _all_columns(
    listed: Listed, tallies: Sequence[CaptionTally], java: Sequence[CaptionMetric], program: Meteor | None
) -> Iterator[CaptionColumns]:
    """The numbers of each part; those of METEOR and SPICE are made now, of one part at a time."""
    first = 0
    for tally in tallies:
        columns, number = tally.columns, listed.number[first : first + len(tally.usable)][tally.usable]
        first += len(tally.usable)
        if java:
            references = [listed.prompts[place].spec["references"] for place in number]
            more = caption_columns(tokenized_captions(tally.captions, references), java, program=program)
            columns = columns._replace(meteor=more.meteor, spice=more.spice)
        yield columns
