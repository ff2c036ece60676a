"""The files of the built-in embedder: an image tower with its heads, and a text tower, each an ONNX file.

They carry their vocabulary, the names of what the heads say, and their card in their metadata, so that an embedder
trained with ``verism train embedder`` takes the place of the one that comes with the package by its folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.inference import onnx_session
from verism.judges.detection.builtin import letterbox
from verism.judges.embedding.vocabulary import Vocabulary

__all__ = ["HEADS", "IMAGES", "OUTPUTS", "TEXTS", "ImageTower", "Seen", "TextTower", "tower_file"]

IMAGES, TEXTS = "embedder_images.onnx", "embedder_texts.onnx"
HEADS = ("counts", "colors", "sides", "places", "garments")
OUTPUTS = ("vectors", *HEADS)
"""Outputs of the image tower, in order."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What the image tower says of N images: probabilities, but for the vectors.

    Attributes:
        vectors: of length 1, shape (N, D).
        counts: that there are at least 1, 2, 3, 4 of each class, shape (N, C, 4).
        colors: that there is one of each class in each colour, shape (N, C, K).
        sides: that the class is that on the left, on the right, above, below, shape (N, C, 4).
        places: of each environment, shape (N, P).
        garments: that each is worn, shape (N, G).
    """

    vectors: Floats
    counts: Floats
    colors: Floats
    sides: Floats
    places: Floats
    garments: Floats


def tower_file(folder: Path | str | None, name: str) -> bytes:
    """The bytes of a tower's file; of the one that comes with the package for None.

    Args:
        folder: where ``verism train embedder`` wrote it.
        name: ``IMAGES`` or ``TEXTS``.

    Raises:
        UsageError: there is no such file.
    """
    if folder is not None:
        path = Path(folder) / name
        if not path.is_file():
            raise UsageError(f"there is no {path}; give the folder that `verism train embedder` wrote")
        return path.read_bytes()
    packaged = resources.files("verism.judges.embedding") / "data" / name
    if not packaged.is_file():
        raise UsageError(
            f"this installation has no {name}; install the wheel of verism, or train an embedder "
            "(verism train embedder) and name its folder: builtin:FOLDER"
        )
    return packaged.read_bytes()


class _Tower:
    """One ONNX file with its metadata."""

    def __init__(self, folder: Path | str | None, name: str, threads: int | None) -> None:
        content = tower_file(folder, name)
        self.sha256 = hashlib.sha256(content).hexdigest()
        try:
            self._session: Any = onnx_session(content, threads)
            meta = self._session.get_modelmeta().custom_metadata_map
            self._facts: dict[str, Any] = json.loads(meta["embedder"])
            self.card: dict[str, Any] = json.loads(meta["card"])
        except UsageError:
            raise
        except Exception as err:  # onnxruntime's own errors share no public base class
            raise UsageError(
                f"{folder or 'the package'}: {name} is not a file written by `verism train embedder`: "
                f"{type(err).__name__}: {err}"
            ) from err

    def _tuple(self, key: str) -> tuple[str, ...]:
        return tuple(self._facts[key])


class ImageTower(_Tower):
    """Images to vectors, and to what the heads say; ``sha256`` is that of its file, ``card`` how it was trained.

    Attributes:
        batch_size: images per call of the network.
        size: side of its input in pixels.
        classes: names of classes, in the heads' order, as all that follow.
        colors: names of colours.
        places: names of environments.
        garments: names of garments.

    Args:
        folder: see ``tower_file``.
        threads: CPU threads of onnxruntime; None: one per core.
        batch_size: images per call of the network; results do not depend on it.

    Raises:
        UsageError: there is no such file, or it is none of ours.
    """

    def __init__(self, folder: Path | str | None = None, *, threads: int | None = None, batch_size: int = 16) -> None:
        super().__init__(folder, IMAGES, threads)
        self.batch_size = batch_size
        self.size = int(self._facts["size"])
        self.classes, self.colors = self._tuple("classes"), self._tuple("colors")
        self.places, self.garments = self._tuple("places"), self._tuple("garments")

    def look(self, images: Sequence[NDArray[np.uint8]]) -> Seen:
        """Vectors and probabilities of images.

        Args:
            images: RGB, each (H, W, 3), uint8, of any sizes; those that are not square get grey margins.
        """
        parts: list[list[Floats]] = []
        for start in range(0, len(images), self.batch_size):
            squares = [letterbox(image, self.size)[0] for image in images[start : start + self.batch_size]]
            parts.append(self._session.run(list(OUTPUTS), {"pixels": np.stack(squares)}))
        return Seen(**{name: np.concatenate([p[k] for p in parts]) for k, name in enumerate(OUTPUTS)})


class TextTower(_Tower):
    """Texts to vectors; ``sha256`` is that of its file, ``card`` how it was trained.

    Attributes:
        vocabulary: its words.
        content: words of the vocabulary that name something to be seen: objects, colours, garments, sides, places.

    Args:
        folder: see ``tower_file``.
        threads: as for ``ImageTower``.

    Raises:
        UsageError: there is no such file, or it is none of ours.
    """

    def __init__(self, folder: Path | str | None = None, *, threads: int | None = None) -> None:
        super().__init__(folder, TEXTS, threads)
        self.vocabulary = Vocabulary(self._tuple("words"))
        self.content = frozenset(self._facts["content"])

    def embed(self, texts: Sequence[str]) -> Floats:
        """Vectors of length 1, shape (N, D); of the first ``vocabulary.LONGEST`` tokens of each text."""
        rows = self.vocabulary.array(texts)
        parts = [self._session.run(["vectors"], {"tokens": rows[k : k + 256]})[0] for k in range(0, len(rows), 256)]
        return np.concatenate(parts)
