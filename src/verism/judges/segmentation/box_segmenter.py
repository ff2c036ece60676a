"""Detectors in the place of a segmenter: boxes without masks, and their colour head where they have one.

Without masks the surroundings stay in what a colour judge sees, and colours can not be read off the object's pixels. A
detector's confidences are no segmenter's: thresholds that were tuned for one say nothing about the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from verism.judges.detection.builtin import BuiltinDetector
from verism.judges.detection.open_vocabulary import OpenVocabularyDetector
from verism.judges.detection.transformers_detector import TransformersDetector
from verism.judges.hub import HubOptions, load_config
from verism.judges.segmentation.objects import FoundObject, segment_table
from verism.options import Spelling
from verism.records import DetectionNeed, SegmentationNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["BoxSegmenter"]

BUILTIN = "builtin"
PAIRS = 100


class BoxSegmenter:
    """A detector whose boxes are taken for objects.

    Args:
        id_or_path: detector, with fixed classes or open vocabulary: model id on the Hugging Face Hub, or a folder;
            ``builtin``: verism's, which has a colour head and knows few classes.
        min_score: lowest confidence of a kept object, in [0, 1].
        aliases: maps a class name of the detector to a class of the suite: ``alias.bike=bicycle``. Common synonyms are
            known.
        hub: which edition of the model, and how it is run.
    Raises:
        UsageError: no such model, or no detector.
        MissingExtra: ``torch`` or ``transformers`` is not installed.
    """

    role = SegmentationNeed.role

    def __init__(
        self,
        id_or_path: str,
        *,
        min_score: float = 0.05,
        aliases: Annotated[Mapping[str, str] | None, Spelling("alias")] = None,
        hub: HubOptions = HubOptions(),
    ) -> None:
        self._min_score = min_score
        self._detector: Any
        if id_or_path == BUILTIN:
            self._detector = BuiltinDetector()
        elif _is_open(id_or_path, hub):
            self._detector = OpenVocabularyDetector(id_or_path, hub=hub)
        else:
            self._detector = TransformersDetector(id_or_path, aliases=aliases, hub=hub)
        self.name = f"boxes of {self._detector.name} min_score={min_score:g}"
        self.threshold: float | None = getattr(self._detector, "threshold", None)

    def check(self, need: SegmentationNeed) -> None:
        """Raise UsageError if the detector does not know a class of the need."""
        self._detector.check(self._asked(need))

    def observe(self, images: Sequence[LoadedImage], need: SegmentationNeed) -> pl.DataFrame:
        """The boxes of images of any sizes, as table ``segments``, one for each class of a box that is confident."""
        asked = self._asked(need)
        rows = self._detector.observe(images, asked)
        found: dict[str, list[FoundObject]] = {image.image_id: [] for image in images}
        for row in rows.iter_rows(named=True):
            if row["query"] < 0:
                continue
            for label, score in zip(asked.classes, row["class_scores"], strict=True):
                if score >= self._min_score:
                    found[row["image_id"]].append(
                        FoundObject(
                            query=row["query"],
                            label=label,
                            raw_label=row["raw_label"],
                            score=score,
                            box=(row["x0"], row["y0"], row["x1"], row["y1"]),
                            color=row["color"],
                            color_scores=row["color_scores"] or (),
                        )
                    )
        best = [sorted(found[image.image_id], key=lambda each: -each.score)[:PAIRS] for image in images]
        return segment_table(images, best, self.name, need)

    def _asked(self, need: SegmentationNeed) -> DetectionNeed:
        # A head that knows some of the colours would call the others by their names.
        known = set(need.colors) <= set(getattr(self._detector, "colors", ()))
        return DetectionNeed(classes=need.classes, colors=need.colors if known else ())


def _is_open(id_or_path: str, hub: HubOptions) -> bool:
    """Whether a model finds classes by their text."""
    from verism.errors import require
    from verism.judges.batching import EXTRA

    where = hub.where(id_or_path)
    require("transformers", extra=EXTRA, purpose="a detector from the Hugging Face hub")
    from transformers.models.auto import modeling_auto

    config = load_config(id_or_path, where)
    return config.model_type in modeling_auto.MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES
