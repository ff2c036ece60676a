"""Features without PyTorch and without a download: the last feature map of the detector that comes with the package.

It learnt from rendered scenes of toy-like objects to find and colour them. Its features tell such images apart, and
nothing is known about what else they tell: they are for demonstrations, tests and dry runs, not for results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.inference import onnx_session
from verism.judges.batching import check_batch_size
from verism.judges.detection.builtin import PACKAGED, detector_file
from verism.judges.features.judge import FeatureJudge, feature_name
from verism.judges.features.preprocessing import centre_square, pillow

if TYPE_CHECKING:
    from verism.records import LoadedImage

__all__ = ["BuiltinFeatures", "with_output"]

_DEEPEST_READER = "network.lateral.2.weight"  # the layer that reads the detector's last and coarsest feature map

# Field numbers of onnx.proto, fixed for ever by the format.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_OUTPUT = 1, 12
_NODE_INPUT = 1
_VALUE_NAME = 1


class BuiltinFeatures(FeatureJudge):
    """Mean and standard deviation over positions of the detector's last feature map.

    An image is cut to its centre square and brought to the detector's input size (Pillow, bilinear).

    Args:
        path: ONNX file written by ``verism train detector``; None: the packaged one.
        threads: CPU threads of onnxruntime; None: one per core.
        batch_size: images per batch. Vectors do not depend on it.
        cache: folder that keeps vectors between runs; None: vectors are kept in memory only.
    Raises:
        UsageError: there is no such file, or it is no detector of ours.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        threads: int | None = None,
        batch_size: int = 8,
        cache: Path | None = None,
    ) -> None:
        self._batch_size = check_batch_size(batch_size)
        content = detector_file(path)
        try:
            self._output = _read_by(content, _DEEPEST_READER)
            self._session: Any = onnx_session(with_output(content, self._output), threads)
            self._size = int(self._session.get_modelmeta().custom_metadata_map["input_size"])
        except UsageError:
            raise
        except Exception as err:  # onnxruntime's own errors share no public base class
            raise UsageError(
                f"{path or PACKAGED} is not a detector written by `verism train detector`: {type(err).__name__}: {err}"
            ) from err
        probe = self._maps([np.zeros((self._size, self._size, 3), dtype=np.uint8)])
        super().__init__(
            name=feature_name("builtin", hashlib.sha256(content).hexdigest()[:12]),
            dim=2 * probe.shape[1],
            compute=self._look,
            cache=cache,
        )

    def _look(self, images: Sequence[LoadedImage]) -> NDArray[np.float32]:
        results = []
        for start in range(0, len(images), self._batch_size):
            batch = images[start : start + self._batch_size]
            maps = self._maps([pillow(centre_square(image.pixels), self._size, self._size) for image in batch])
            results.append(np.concatenate([maps.mean(axis=(2, 3)), maps.std(axis=(2, 3))], axis=1))
        return np.concatenate(results)

    def _maps(self, squares: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Feature maps (N, C, h, w) of images of the network's own size."""
        maps: NDArray[np.float32] = self._session.run([self._output], {"pixels": np.stack(squares)})[0]
        return maps


def with_output(content: bytes, name: str) -> bytes:
    """An ONNX file that also answers with an inner value of its network.

    Two protocol buffer messages written one after the other read as one, in which lists are joined: so a model with
    nothing but one more output, put behind the file, adds that output. No library that writes ONNX is needed, and no
    second file of the same weights.

    Args:
        content: the file.
        name: of the value.
    """
    output = _field(_GRAPH_OUTPUT, _field(_VALUE_NAME, name.encode()))
    return content + _field(_MODEL_GRAPH, output)


def _read_by(content: bytes, weight: str) -> str:
    """The value that the node with this weight reads.

    Raises:
        ValueError: there is no such node.
    """
    for graph in _fields(content, _MODEL_GRAPH):
        for node in _fields(graph, _GRAPH_NODE):
            inputs = [bytes(name).decode() for name in _fields(node, _NODE_INPUT)]
            if weight in inputs[1:]:
                return inputs[0]
    raise ValueError(f"it has no layer with the weight {weight!r}")


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field of a protocol buffer message."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    digits = []
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def _fields(message: bytes | memoryview, wanted: int) -> Iterator[memoryview]:
    """The length-delimited fields of this number in a protocol buffer message.

    Raises:
        ValueError, IndexError: it is no such message.
    """
    view = memoryview(message)
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            digit = view[at]
            at += 1
            value |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                return value

    while at < len(view):
        key = number()
        kind = key & 7
        if kind == 2:
            length = number()
            if at + length > len(view):
                raise ValueError("it is no ONNX file, or a truncated one")
            if key >> 3 == wanted:
                yield view[at : at + length]
            at += length
        elif kind == 0:
            number()
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("it is no ONNX file")
