"""Caption metrics: BLEU-1..4, ROUGE-L and CIDEr, equal to the COCO caption toolkit's; METEOR and SPICE by its Java.

``caption_scores`` is what most callers want; the parts are here for other uses. Nothing heavy is loaded.
"""

from verism.metrics.captions.bleu import BREVITIES, BleuCounts, Brevity, bleu, bleu_counts
from verism.metrics.captions.cider import DocumentFrequencies, cider
from verism.metrics.captions.external import MissingTool, ToolFailed, meteor, spice
from verism.metrics.captions.ngrams import CaptionNgrams, count_ngrams
from verism.metrics.captions.rouge import lcs_length, rouge_l
from verism.metrics.captions.scores import (
    DALL_EVAL_METRICS,
    DEFAULT_METRICS,
    METRICS,
    TOOLKIT_NAMES,
    CaptionColumns,
    CaptionMetric,
    CaptionScores,
    CaptionTexts,
    caption_columns,
    caption_scores,
    corpus_scores,
    document_frequencies,
    tokenized_captions,
    values_of_captions,
)
from verism.metrics.captions.tokens import TOKENIZERS, TokenizerName, ptb_words

__all__ = [
    "BREVITIES",
    "DALL_EVAL_METRICS",
    "DEFAULT_METRICS",
    "METRICS",
    "TOKENIZERS",
    "TOOLKIT_NAMES",
    "BleuCounts",
    "Brevity",
    "CaptionColumns",
    "CaptionMetric",
    "CaptionNgrams",
    "CaptionScores",
    "CaptionTexts",
    "DocumentFrequencies",
    "MissingTool",
    "TokenizerName",
    "ToolFailed",
    "bleu",
    "bleu_counts",
    "caption_columns",
    "caption_scores",
    "cider",
    "corpus_scores",
    "count_ngrams",
    "document_frequencies",
    "lcs_length",
    "meteor",
    "ptb_words",
    "rouge_l",
    "spice",
    "tokenized_captions",
    "values_of_captions",
]
