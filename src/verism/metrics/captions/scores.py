"""Caption metrics of a set of images: every caption against all references of its image, with intervals."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from verism.metrics.captions.bleu import BleuCounts, Brevity, bleu, bleu_counts
from verism.metrics.captions.cider import DocumentFrequencies, cider
from verism.metrics.captions.external import METEOR_STATISTICS, Meteor, meteor_value, spice
from verism.metrics.captions.ngrams import MAX_ORDER, count_ngrams
from verism.metrics.captions.rouge import rouge_l
from verism.metrics.captions.tokens import TokenizerName, get_tokenizer
from verism.statistics import Interval

__all__ = [
    "DALL_EVAL_METRICS",
    "DEFAULT_METRICS",
    "METRICS",
    "TOOLKIT_NAMES",
    "CaptionColumns",
    "CaptionMetric",
    "CaptionScores",
    "CaptionTexts",
    "caption_columns",
    "caption_scores",
    "corpus_scores",
    "document_frequencies",
    "tokenized_captions",
    "values_of_captions",
]

CaptionMetric = Literal["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "meteor", "spice"]
METRICS: tuple[CaptionMetric, ...] = get_args(CaptionMetric)

# Those that need neither Java nor another package.
DEFAULT_METRICS: tuple[CaptionMetric, ...] = METRICS[:6]

# What DALL-Eval prints (Cho et al. 2023, image-text alignment), as ``CaptionScores.percent()``: captions against all
# references of the image, PTB tokens, values times 100.
DALL_EVAL_METRICS: tuple[CaptionMetric, ...] = ("bleu_4", "meteor", "cider", "spice")

# Names in the result files of the COCO caption toolkit.
TOOLKIT_NAMES: Mapping[CaptionMetric, str] = {
    "bleu_1": "Bleu_1",
    "bleu_2": "Bleu_2",
    "bleu_3": "Bleu_3",
    "bleu_4": "Bleu_4",
    "rouge_l": "ROUGE_L",
    "cider": "CIDEr",
    "meteor": "METEOR",
    "spice": "SPICE",
}

K = TypeVar("K", bound=Hashable)
Floats = NDArray[np.float64]

_CHUNK_CELLS = 4_000_000  # resampling weights held at once: 32 MB
N_RESAMPLES = 2_000  # of the bootstrap
_NAMED = 5  # ids an error lists


@dataclass(frozen=True, kw_only=True, eq=False)
class CaptionScores(Generic[K]):
    """Caption metrics of a set, as shares: BLEU, ROUGE-L, METEOR and SPICE in [0, 1], CIDEr in [0, 10].

    Attributes:
        values: per metric, the corpus value with its 95 % interval.
        ids: the N images that entered, in the order of the candidates.
        per_caption: per metric, the value of each of them, shape (N,).
        n_used: N.
        n_unusable: images that did not enter.
        unusable: those, and why.
        tokenizer: how captions were divided.
        brevity: reference length of BLEU.
    """

    values: Mapping[str, Interval]
    ids: tuple[K, ...]
    per_caption: Mapping[str, Floats]
    n_used: int
    n_unusable: int
    unusable: Mapping[K, str]
    tokenizer: str
    brevity: Brevity

    def percent(self) -> dict[str, Interval]:
        """Values and ends times 100, as papers print them (CIDEr too: 108.3 is a CIDEr of 1.083)."""
        return {name: Interval(*(100 * end for end in interval)) for name, interval in self.values.items()}


def caption_scores(
    references: Mapping[K, Sequence[str]],
    candidates: Mapping[K, str | None],
    *,
    metrics: Sequence[CaptionMetric] = DEFAULT_METRICS,
    tokenizer: TokenizerName | Callable[[str], Sequence[str]] = "ptb",
    brevity: Brevity = "closest",
    unmatched: Literal["error", "count"] = "error",
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> CaptionScores[K]:
    """Score one caption of each image against all its references.

    Intervals are percentile bootstrap intervals over images. BLEU and METEOR are recomputed from the resampled sums
    of their counts, as their corpus values are no means; CIDEr is resampled with the document frequencies of the whole
    set, so its interval leaves out that other images would have weighed words otherwise.

    Args:
        references: by image, its captions, at least one.
        candidates: by image, the caption to judge. None: there is none; the image is unusable, and counted. An
            empty string is a caption, and a bad one.
        metrics: which to compute. ``meteor`` and ``spice`` run Java programs of the package pycocoevalcap.
        tokenizer: ``ptb``, as the toolkit; ``none``, captions that are words separated by single spaces; or a function
            from a caption to its words.
        brevity: see ``bleu_counts``.
        unmatched: candidates without references, and references without a candidate: an ``error``, or left out and
            ``count``-ed in ``unusable``.
        n_resamples: resamples of the bootstrap, >= 1.
        seed: of the bootstrap. Neither the order of images nor their ids matter to the intervals.
        confidence: confidence level of the intervals, in (0, 1).
    Returns:
        Values are NaN if no image can be used. Ends of intervals are NaN for fewer than two images, or if all
        resamples agree.
    Raises:
        ValueError: unknown metric, tokeniser or brevity; ids that do not match (the message names some); references
            that are a string instead of several.
        MissingTool, ToolFailed: see ``external``.
    Source: Koehn 2004, EMNLP (bootstrap over sentences for corpus metrics); the metrics' own in their modules.
    """
    if not metrics:
        raise ValueError(f"name at least one caption metric of {list(METRICS)}")
    if unknown := [name for name in metrics if name not in METRICS]:
        raise ValueError(f"unknown caption metric {unknown}; known are {list(METRICS)}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1, such as 0.95; got {confidence}")
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1; got {n_resamples}")
    if unmatched not in ("error", "count"):
        raise ValueError(f"unmatched must be 'error' or 'count'; got {unmatched!r}")
    unusable = _unusable(references, candidates, unmatched)
    ids = tuple(key for key in candidates if key not in unusable)
    texts = tokenized_captions(
        [candidates[key] or "" for key in ids], [references[key] for key in ids], tokenizer=tokenizer
    )
    with Meteor() if "meteor" in metrics else contextlib.nullcontext() as program:
        columns = caption_columns(texts, metrics, brevity=brevity, program=program)
        tallies = _tallies(columns, metrics, program)
    return CaptionScores(
        values=_intervals(tallies, len(ids), n_resamples, seed, confidence),
        ids=ids,
        per_caption={name: tally.single for name, tally in tallies.items()},
        n_used=len(ids),
        n_unusable=len(unusable),
        unusable=unusable,
        tokenizer=tokenizer if isinstance(tokenizer, str) else getattr(tokenizer, "__qualname__", repr(tokenizer)),
        brevity=brevity,
    )


class CaptionTexts(NamedTuple):
    """Captions and their references, as words with single spaces between them.

    Attributes:
        candidates: the caption of each of N images.
        references: of each of them, its references.
    """

    candidates: Sequence[str]
    references: Sequence[Sequence[str]]


def tokenized_captions(
    candidates: Iterable[str],
    references: Iterable[Sequence[str]],
    *,
    tokenizer: TokenizerName | Callable[[str], Sequence[str]] = "ptb",
) -> CaptionTexts:
    """Captions and references divided into words.

    Args:
        candidates: the caption of each of N images.
        references: of each of them, its references; at least one.
        tokenizer: as of ``caption_scores``.
    """
    divide = tokenizer if callable(tokenizer) else get_tokenizer(tokenizer)
    return CaptionTexts(
        [" ".join(divide(text)) for text in candidates],
        [[" ".join(divide(text)) for text in several] for several in references],
    )


class CaptionColumns(NamedTuple):
    """What the metrics of a set rest on: numbers of each of N images, which may come in parts.

    Attributes:
        bleu: n-grams matched and proposed, by order; words, and words it should have had; shape (N, 10), or (N, 0).
        rouge_l: ROUGE-L of each caption, shape (N,), or (0,).
        cider: CIDEr of each caption, shape (N,), or (0,).
        meteor: METEOR's statistics, and METEOR, of each caption, shape (N, 24), or (N, 0).
        spice: SPICE of each caption, shape (N,), or (0,).
    """

    bleu: Floats
    rouge_l: Floats
    cider: Floats
    meteor: Floats
    spice: Floats

    @classmethod
    def joined(cls, parts: Iterable[CaptionColumns]) -> CaptionColumns:
        """The numbers of all parts, of which there is one at least."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def of(self, rows: NDArray[np.bool_]) -> CaptionColumns:
        """Those of some of the images."""
        return CaptionColumns(*(column[rows] if len(column) else column for column in self))


def caption_columns(
    texts: CaptionTexts,
    metrics: Sequence[CaptionMetric] = DEFAULT_METRICS,
    *,
    brevity: Brevity = "closest",
    frequencies: DocumentFrequencies | None = None,
    program: Meteor | None = None,
) -> CaptionColumns:
    """The numbers of some images that metrics rest on.

    Args:
        texts: as ``tokenized_captions`` gives them.
        metrics: which are asked for; columns of others are empty.
        brevity: see ``bleu_counts``.
        frequencies: of the whole set, for CIDEr; None: these images are all of it.
        program: for METEOR.

    Raises:
        MissingTool, ToolFailed: see ``external``.
    """
    # The toolkit passes captions on as text. BLEU and CIDEr divide it at any white space, ROUGE-L at spaces only, which
    # differ for the few tokens that hold a no-break space.
    bleu_table = meteor_table = np.zeros((len(texts.candidates), 0))
    rouge = ciders = spices = np.zeros(0)
    if any(name.startswith(("bleu", "cider")) for name in metrics):
        ngrams = count_ngrams(
            [text.split() for text in texts.candidates],
            [[text.split() for text in several] for several in texts.references],
        )
        if any(name.startswith("bleu") for name in metrics):
            counts = bleu_counts(ngrams, brevity=brevity)
            bleu_table = np.column_stack([counts.matched, counts.proposed, counts.length, counts.reference_length])
        if "cider" in metrics:
            ciders = cider(ngrams, frequencies)
    if "rouge_l" in metrics:
        by_spaces = [[text.split(" ") for text in several] for several in texts.references]
        rouge = rouge_l([text.split(" ") for text in texts.candidates], by_spaces)
    if "meteor" in metrics:
        if program is None:
            raise ValueError("METEOR needs its program")
        statistics = program.statistics(*texts)
        meteor_table = np.column_stack([statistics, program.values(statistics)])
    if "spice" in metrics:
        spices = spice(*texts)
    return CaptionColumns(bleu_table, rouge, ciders, meteor_table, spices)


def document_frequencies(references: Sequence[Sequence[str]], n_images: Sequence[int]) -> DocumentFrequencies:
    """How many images have a reference with each n-gram, for CIDEr of a set that comes in parts.

    Args:
        references: of each prompt, its references, divided into words by PTB's rules here.
        n_images: images of each prompt that have a caption.
    """
    texts = tokenized_captions([], references)
    return DocumentFrequencies.of([[text.split() for text in several] for several in texts.references], n_images)


def values_of_captions(columns: CaptionColumns, metrics: Sequence[CaptionMetric]) -> dict[str, Floats]:
    """The value of each caption by metric, without METEOR and SPICE.

    Args:
        columns: as ``caption_columns`` gives them.
        metrics: which to compute.
    """
    return {name: tally.single for name, tally in _tallies(columns, metrics, None).items()}


def corpus_scores(
    columns: CaptionColumns, metrics: Sequence[CaptionMetric], program: Meteor | None = None
) -> tuple[dict[str, Interval], dict[str, Floats]]:
    """Corpus values with their 95 % intervals, and the value of each caption, by metric; as of ``caption_scores``.

    Args:
        columns: of all images, as ``caption_columns`` gives them.
        metrics: which to compute.
        program: for METEOR.

    Raises:
        ToolFailed: see ``external``.
    """
    tallies = _tallies(columns, metrics, program)
    values = _intervals(tallies, len(columns.bleu), N_RESAMPLES, 0, 0.95)
    return values, {name: tally.single for name, tally in tallies.items()}


def _unusable(
    references: Mapping[K, Sequence[str]], candidates: Mapping[K, str | None], unmatched: str
) -> dict[K, str]:
    """Images that cannot be scored, and why."""
    for key, several in references.items():
        if isinstance(several, str):
            raise ValueError(f"references of {key!r} must be a sequence of captions; got the string {several!r}")
    without_references = [key for key in candidates if not references.get(key)]
    without_candidate = [key for key in references if key not in candidates]
    if unmatched == "error" and (without_references or without_candidate):
        problems = [
            f"{len(keys)} {what} ({', '.join(map(repr, keys[:_NAMED]))}{', ...' if len(keys) > _NAMED else ''})"
            for what, keys in (
                ("candidate(s) without references", without_references),
                ("image(s) with references but without a candidate", without_candidate),
            )
            if keys
        ]
        raise ValueError(
            f"references and candidates must be of the same images; got {' and '.join(problems)}. Correct the ids, "
            "or pass unmatched='count' to leave these out and count them"
        )
    reasons = dict.fromkeys(without_references, "no references") | dict.fromkeys(without_candidate, "no candidate")
    for key, text in candidates.items():
        if text is None:
            reasons.setdefault(key, "no caption")
    return reasons


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tally:
    """A metric in additive form.

    Attributes:
        columns: per image, numbers whose sums give the corpus value, shape (N, C).
        value: corpus value of each row of sums over N images.
        single: value of each caption, shape (N,).
        corpus: value of the set.
        faithful: whether ``value`` of the sums is the corpus value, so that resampling it makes sense.
    """

    columns: Floats
    value: Callable[[Floats], Floats]
    single: Floats
    corpus: float
    faithful: bool = True


def _mean_tally(single: Floats) -> _Tally:
    n = max(len(single), 1)
    return _Tally(
        columns=single[:, None], value=lambda sums: sums[:, 0] / n, single=single, corpus=float(single.sum()) / n
    )


def _bleu_tally(table: Floats, order: int) -> _Tally:
    def value(sums: Floats) -> Floats:
        return _bleu_of_sums(sums)[:, order - 1]

    return _Tally(
        columns=table, value=value, single=value(table), corpus=float(value(table.sum(axis=0, keepdims=True))[0])
    )


def _tallies(columns: CaptionColumns, metrics: Sequence[CaptionMetric], program: Meteor | None) -> dict[str, _Tally]:
    def tally(name: CaptionMetric) -> _Tally:
        if name == "rouge_l":
            return _mean_tally(columns.rouge_l)
        if name == "cider":
            return _mean_tally(columns.cider)
        if name == "spice":
            return _mean_tally(columns.spice)
        if name == "meteor":
            if program is None:
                raise ValueError("METEOR needs its program")
            return _meteor_tally(columns.meteor, program)
        return _bleu_tally(columns.bleu, int(name.removeprefix("bleu_")))

    return {name: tally(name) for name in metrics}


def _meteor_tally(table: Floats, program: Meteor) -> _Tally:
    statistics, single = table[:, :METEOR_STATISTICS], table[:, METEOR_STATISTICS]
    sums = statistics.sum(axis=0, keepdims=True)
    corpus = float(program.values(sums)[0]) if len(table) else math.nan
    faithful = abs(float(meteor_value(sums)[0]) - corpus) < 1e-6
    return _Tally(columns=statistics, value=meteor_value, single=single, corpus=corpus, faithful=faithful)


def _intervals(
    tallies: Mapping[str, _Tally], n_images: int, n_resamples: int, seed: int, confidence: float
) -> dict[str, Interval]:
    """Corpus values with the ends of their intervals, all from the same resamples."""
    distinct = {id(tally.columns): tally.columns for tally in tallies.values()}  # orders of BLEU share theirs
    ends = dict(zip(distinct, np.cumsum([table.shape[1] for table in distinct.values()]).tolist(), strict=True))
    rows = _resampled_sums(np.concatenate(list(distinct.values()), axis=1), n_resamples, seed)
    values = {}
    for name, tally in tallies.items():
        stop = ends[id(tally.columns)]
        sums = rows[:, stop - tally.columns.shape[1] : stop]
        low, high = _ends(tally.value(sums), confidence, defined=n_images > 1 and tally.faithful)
        values[name] = Interval(tally.corpus if n_images else math.nan, low, high)
    return values


def _bleu_of_sums(table: Floats) -> Floats:
    return bleu(
        BleuCounts(
            matched=table[:, :MAX_ORDER],
            proposed=table[:, MAX_ORDER : 2 * MAX_ORDER],
            length=table[:, -2],
            reference_length=table[:, -1],
        )
    )


def _resampled_sums(columns: Floats, n_resamples: int, seed: int) -> Floats:
    """Sums of the columns over images drawn with replacement, shape (n_resamples, C)."""
    n = len(columns)
    if n < 2:
        return np.zeros((n_resamples, columns.shape[1]))
    # Images are drawn from a list that depends on their numbers only, not on their order or names. Rounding makes
    # sums that depend on the order of references by their last digits count as equal.
    ordered = columns[np.lexsort(np.round(columns, 9).T[::-1])]
    rng = np.random.default_rng(seed)
    sums = np.empty((n_resamples, columns.shape[1]))
    step = max(1, _CHUNK_CELLS // n)
    for start in range(0, n_resamples, step):
        rows = min(step, n_resamples - start)
        drawn = rng.integers(0, n, size=(rows, n)) + n * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        sums[start : start + rows] = weights.astype(np.float64) @ ordered
    return sums


def _ends(resampled: Floats, confidence: float, *, defined: bool) -> tuple[float, float]:
    if not defined or not np.isfinite(resampled).all() or np.allclose(resampled, resampled[0], rtol=1e-12, atol=0.0):
        return math.nan, math.nan
    low, high = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
