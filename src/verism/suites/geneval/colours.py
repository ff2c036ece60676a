"""The colour of an object by CLIP: the ten colours in three sentences each, held against the object cut out.

Source: released evaluation code of GenEval: an ensemble of sentences whose normalised vectors are averaged and
normalised again, as zero-shot classifiers are made (Radford et al. 2021). The article is always "a".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from verism.suites.geneval.vocabulary import COLORS

__all__ = ["ColorClassifier", "color_sentences", "texts_for"]

Floats = NDArray[np.float64]


def color_sentences(label: str, color: str) -> tuple[str, ...]:
    """The sentences of a colour of a class.

    >>> color_sentences("orange", "orange")[0]
    'a photo of a orange orange'
    """
    return f"a photo of a {color} {label}", f"a photo of a {color}-colored {label}", f"a photo of a {color} object"


def texts_for(labels: Iterable[str]) -> tuple[str, ...]:
    """Every sentence that is needed to tell the colours of objects of these classes, each once."""
    return tuple(dict.fromkeys(t for label in labels for color in COLORS for t in color_sentences(label, color)))


class ColorClassifier:
    """Names the colour of objects by their vectors."""

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        """A classifier.

        Args:
            vectors: of sentences, by their text, of one length.
        """
        self._vectors = {text: _normalised(np.asarray(vector, dtype=np.float64)) for text, vector in vectors.items()}
        self._of_class: dict[str, Floats] = {}

    def color(self, label: str, vector: Sequence[float]) -> str:
        """The colour whose sentences are nearest to an object, the first of equals.

        Args:
            label: class of the object.
            vector: of the object cut out, not normalised.

        Raises:
            KeyError: sentences of this class were not embedded.
        """
        cosines = self._class_vectors(label) @ _normalised(np.asarray(vector, dtype=np.float64))
        return COLORS[int(cosines.argmax())]

    def _class_vectors(self, label: str) -> Floats:
        if label not in self._of_class:
            means = [np.mean([self._vectors[t] for t in color_sentences(label, color)], axis=0) for color in COLORS]
            self._of_class[label] = np.stack([_normalised(mean) for mean in means])
        return self._of_class[label]


def _normalised(vector: Floats) -> Floats:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
