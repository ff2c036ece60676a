"""Caption metrics: BLEU-1..4, ROUGE-L and CIDEr, equal to the COCO caption toolkit's; METEOR and SPICE by its Java.

``caption_scores`` is what most callers want; the parts are here for other uses. Nothing heavy is loaded.
"""

from verism.metrics.captions.bleu import BREVITIES, BleuCounts, Brevity, bleu, bleu_counts
from verism.metrics.captions.cider import cider
from verism.metrics.captions.external import MissingTool, ToolFailed, meteor, spice
from verism.metrics.captions.ngrams import CaptionNgrams, count_ngrams
from verism.metrics.captions.rouge import lcs_length, rouge_l
from verism.metrics.captions.scores import (
    DALL_EVAL_METRICS,
    DEFAULT_METRICS,
    METRICS,
    TOOLKIT_NAMES,
    CaptionMetric,
    CaptionScores,
    caption_scores,
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
    "CaptionMetric",
    "CaptionNgrams",
    "CaptionScores",
    "MissingTool",
    "TokenizerName",
    "ToolFailed",
    "bleu",
    "bleu_counts",
    "caption_scores",
    "cider",
    "count_ngrams",
    "lcs_length",
    "meteor",
    "ptb_words",
    "rouge_l",
    "spice",
]
