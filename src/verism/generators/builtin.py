"""The text-to-image models that come with the package: trained on rendered PaintSkills scenes, run by onnxruntime.

Each knows the words, classes and backgrounds of its edition of PaintSkills and nothing else. It writes a description of
an image token by token, as DALL-E does, then renders its background and its objects as layers; see ``layered`` and the
model card. A model trained with ``verism train generator --base builtin`` is used by the path of its folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from verism.errors import UsageError
from verism.generators.layered import Description, Language, compose_with_owners
from verism.inference import onnx_session
from verism.locations import location
from verism.records import Request, Result

__all__ = ["DEFAULTS", "EDITIONS", "FILES", "BuiltinGenerator"]

FILES = ("writer.onnx", "figures.onnx", "scenery.onnx")
EDITIONS = {"iccv": "paintskills_generator", "v1": "paintskills_v1_generator"}  # folders of the packaged models
Edition = Literal["iccv", "v1"]
DEFAULTS = {"temperature": 0.8, "structure_temperature": 0.5, "top_p": 0.95}  # picked on train prompts: model card
STRUCTURE = ("label",)  # what to show: drawn nearer to the most likely than the looks are
SIZES = (64, 1024)


class BuiltinGenerator:
    """Images from the words of PaintSkills.

    Public attributes: ``name`` is ``builtin:``, the edition, ``-generator@`` and 12 hexadecimal digits of the files'
    SHA-256, then the settings; ``card`` says how the model was trained, as written into the files.

    Args:
        path: folder of a model written by ``verism train generator --base builtin``; None: the packaged one.
        edition: packaged model: ``iccv`` knows PaintSkills as published at ICCV 2023, ``v1`` that of arXiv v1. None:
            the one that knows the suite's classes, else ``iccv``.
        classes: labels of the suite's classes; they decide where ``edition`` is None.
        size: width and height of the images in pixels, 64 to 1024.
        temperature: sampling temperature of tokens, at least 0; 0 always takes the most likely token.
        structure_temperature: sampling temperature of object classes and of the end of the description, at least 0.
        top_p: samples from the most likely tokens that together have this probability, above 0 and at most 1 (Holtzman
            et al. 2020).
        threads: CPU threads of onnxruntime; None: onnxruntime decides.

    Raises:
        UsageError: no such folder, not a model of ours, or a setting out of range.
    """

    text_only = True  # of a request, it reads the prompt's text and the seed
    batch_size = 8  # images made at once; always as many rows, so that an image never depends on its neighbours

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        edition: Edition | None = None,
        classes: Collection[str] = (),
        size: int = 256,
        temperature: float = DEFAULTS["temperature"],
        structure_temperature: float = DEFAULTS["structure_temperature"],
        top_p: float = DEFAULTS["top_p"],
        threads: int | None = None,
    ) -> None:
        if not SIZES[0] <= size <= SIZES[1]:
            raise UsageError(f"builtin: size must be {SIZES[0]} to {SIZES[1]} pixels, got {size}")
        if temperature < 0 or structure_temperature < 0:
            raise UsageError("builtin: temperatures must not be negative")
        if not 0 < top_p <= 1:
            raise UsageError(f"builtin: top_p must lie above 0 and up to 1, got {top_p}")
        self.size = size
        self.temperature, self.structure_temperature, self.top_p = temperature, structure_temperature, top_p
        if path is not None and edition is not None:
            raise UsageError("builtin: name a folder or an edition, not both")
        contents, self._writer, self.language = _model(path, edition, classes, threads)
        self._figures, self._scenery = (_session(contents[f], f, threads) for f in FILES[1:])
        meta = self._writer.get_modelmeta().custom_metadata_map
        try:
            self.margin = float(meta["margin"])
            self.card: dict[str, Any] = json.loads(meta["card"])
        except (KeyError, ValueError, TypeError) as err:
            raise _foreign(path, err) from err
        digest = hashlib.sha256()
        for file in FILES:
            digest.update(contents[file])
        settings = {"temperature": temperature, "structure_temperature": structure_temperature, "top_p": top_p}
        changed = [f"{name}={value:g}" for name, value in settings.items() if value != DEFAULTS[name]]
        options = "&".join([f"size={size}", *changed])
        self._digest = digest.hexdigest()
        self.name = f"builtin:{self.card.get('suite', 'paintskills')}-generator@{self._digest[:12]}?{options}"

    def describe(self) -> Mapping[str, Any]:
        """Digest of the files and how the model was trained."""
        return {"sha256": self._digest, "card": self.card}

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        """An image for every request; words the model does not know are named in the image's note."""
        iterator = iter(requests)
        while batch := list(islice(iterator, self.batch_size)):
            read = [self.language.read(r.prompt.text) for r in batch]
            described = self.write([tokens for tokens, _ in read], [r.seed for r in batch])
            for request, (_, lost), description in zip(batch, read, described, strict=True):
                yield Result(
                    image_id=request.image_id,
                    state="ok",
                    pixels=self.render(description),
                    note=f"words not understood: {' '.join(lost)}" if lost else "",
                )

    # ---------------------------------------------------------------------------------------------------- its two steps
    def write(self, prompts: Sequence[Sequence[int]], seeds: Sequence[int]) -> list[Description]:
        """Descriptions for the tokens of at most ``batch_size`` prompts, each drawn with its own seed."""
        language, rows = self.language, self.batch_size
        draws = [np.random.default_rng([seed, 0xB111D]) for seed in seeds]
        shape = [rows if isinstance(n, str) else n for n in self._writer.get_inputs()[2].shape]
        memory = np.zeros(shape, dtype=np.float32)
        tokens = np.zeros((rows, language.length), dtype=np.int64)
        for i, prompt in enumerate(prompts):
            tokens[i, : language.text_length] = prompt
        ended = np.array([i >= len(prompts) for i in range(rows)])
        for position in range(language.length - 1):
            logits, memory = self._writer.run(
                None, {"tokens": tokens[:, position], "position": np.array([position]), "memory": memory}
            )
            following = position + 1
            if following < language.text_length:
                continue
            kind = language.kind_at(following)
            low, high = language.span(kind)
            temperature = self.structure_temperature if kind in STRUCTURE else self.temperature
            for i, rng in enumerate(draws):
                if not ended[i]:
                    tokens[i, following] = low + _draw(logits[i, low:high], rng.random(), temperature, self.top_p)
                    ended[i] = tokens[i, following] == language.end
            if ended.all():
                break
        return [language.understand(tokens[i, language.text_length :].tolist()) for i in range(len(prompts))]

    def render(self, description: Description) -> np.ndarray:
        """The image of a description, RGB uint8, shape (size, size, 3)."""
        return self.generate_with_owners(description)[0]

    def generate_with_owners(self, description: Description) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The image of a description, which object each pixel shows, and each object's pixels if nothing hid it.

        Args:
            description: what to show.

        Returns:
            As ``layered.compose_with_owners``.
        """
        language = self.language
        (scenery,) = self._scenery.run(
            None,
            {
                "codes": np.array([description.codes], dtype=np.int64),
                "labels": np.array([language.backgrounds.index(description.background)], dtype=np.int64),
            },
        )
        figures = []
        for obj in description.objects:  # one by one: a figure must not depend on how many there are
            (layers,) = self._figures.run(
                None,
                {
                    "codes": np.array([obj.codes], dtype=np.int64),
                    "labels": np.array([language.labels.index(obj.label)], dtype=np.int64),
                    "sides": np.array([obj.side], dtype=np.float32),
                },
            )
            figures.append(layers[0])
        stacked = np.stack(figures) if figures else np.zeros((0, 1, 1, 5), dtype=np.float32)
        return compose_with_owners(scenery[0], stacked, description.objects, self.size, self.margin)

    def describe_prompts(self, texts: Sequence[str], seeds: Sequence[int]) -> list[Description]:
        """What the model would show for some prompts.

        Args:
            texts: the prompts.
            seeds: one for each.
        """
        described: list[Description] = []
        for start in range(0, len(texts), self.batch_size):
            read = [self.language.read(text)[0] for text in texts[start : start + self.batch_size]]
            described += self.write(read, seeds[start : start + self.batch_size])
        return described


def _draw(logits: np.ndarray, chance: float, temperature: float, top_p: float) -> int:
    """A number drawn by the logits; ``chance`` in [0, 1) decides."""
    if temperature == 0:
        return int(np.argmax(logits))
    scaled = logits.astype(np.float64) / temperature
    shares = np.exp(scaled - scaled.max())
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")
    summed = np.cumsum(shares[order])
    kept = int(np.searchsorted(summed, top_p)) + 1  # the one that crosses the share is kept
    kept = min(kept, len(order))
    return int(order[min(int(np.searchsorted(summed[:kept], chance * summed[kept - 1], side="right")), kept - 1)])


def _model(
    path: Path | str | None, edition: Edition | None, classes: Collection[str], threads: int | None
) -> tuple[dict[str, bytes], Any, Language]:
    """Files, writer and language of a model; if none is named, the first packaged one that knows all classes."""
    data: Any = resources.files("verism.generators") / "data"
    if path is not None or edition is not None:
        return _read(location(path) if path is not None else data / EDITIONS[edition or "iccv"], path, threads)
    first = None
    for folder in EDITIONS.values():
        found = _read(data / folder, None, threads)
        if set(classes) <= set(found[2].labels):
            return found
        first = first or found
    assert first is not None
    return first


def _read(folder: Any, path: Path | str | None, threads: int | None) -> tuple[dict[str, bytes], Any, Language]:
    contents = _contents(folder)
    writer = _session(contents[FILES[0]], FILES[0], threads)
    try:
        language = Language.from_json(json.loads(writer.get_modelmeta().custom_metadata_map["language"]))
    except (KeyError, ValueError, TypeError) as err:
        raise _foreign(path, err) from err
    return contents, writer, language


def _foreign(path: Path | str | None, err: Exception) -> UsageError:
    return UsageError(f"{path or 'the packaged model'}: writer.onnx is no writer of ours ({err!r})")


def _contents(folder: Any) -> dict[str, bytes]:
    contents = {}
    for file in FILES:
        if not (folder / file).is_file():
            raise UsageError(
                f"builtin: {folder} has no {file}; name a folder written by `verism train generator --base builtin`"
            )
        contents[file] = (folder / file).read_bytes()
    return contents


def _session(content: bytes, file: str, threads: int | None) -> Any:
    try:
        return onnx_session(content, threads)
    except UsageError:
        raise
    except Exception as err:  # onnxruntime's own errors share no public base class
        raise UsageError(f"builtin: {file} cannot be read: {err}") from err
