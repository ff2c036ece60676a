"""A renderer that renders nothing and judges that need no model.

The renderer writes what it rendered into the pixels themselves (red: class, green: colour, blue: number of the object),
so a judge that reads pixels is perfect, and nothing but the image passes from one to the other.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from verism.errors import VerismError
from verism.generators.scripted import one_hot
from verism.records import LoadedImage, Need, Rendered, Scene, frame

SIDE = 64
FIRST = 200  # blue of object 0; the background stays below

# Corners of the second object by its relation to the first, which lies in the middle (24, 24).
SIDE_TABLES = {"left": (2, 24), "right": (46, 24), "above": (24, 2), "below": (24, 46)}
CORNERS = ((4, 4), (44, 6), (6, 44), (42, 42), (24, 24), (24, 2))


class PixelRenderer:
    """Boxes of 16 x 16 pixels where the scene says, at once."""

    name = "pixels@64"

    def __init__(self, classes: Sequence[str], colors: Sequence[str], *, fails: Sequence[str] = ()) -> None:
        self.classes, self.colors, self.fails = list(classes), list(colors), set(fails)

    def render_all(self, scenes: Sequence[Scene]) -> Iterator[Rendered | VerismError]:
        for scene in scenes:
            yield VerismError(f"no place in {scene.scene_id}") if scene.scene_id in self.fails else self.render(scene)

    def render(self, scene: Scene) -> Rendered:
        rng = np.random.default_rng(scene.seed)
        pixels = rng.integers(0, 100, (SIDE, SIDE, 3), dtype=np.uint8)
        mask = np.zeros((SIDE, SIDE), dtype=np.uint8)
        boxes = np.zeros((len(scene.objects), 4), dtype=np.float32)
        related = any(o.relation for o in scene.objects)
        for number, obj in enumerate(scene.objects):
            x, y = (24, 24) if related else CORNERS[number]
            if obj.relation is not None:
                x, y = SIDE_TABLES[obj.relation.rpartition("_")[0]]
            color = 0 if obj.color == "plain" else 1 + self.colors.index(obj.color)
            pixels[y : y + 16, x : x + 16] = 1 + self.classes.index(obj.label), color, FIRST + number
            mask[y : y + 16, x : x + 16] = number + 1
            boxes[number] = x, y, x + 16, y + 16
        return Rendered(pixels=pixels, boxes=boxes, visible=np.ones(len(boxes)), mask=mask)


def found_in(pixels: np.ndarray) -> list[tuple[int, int, tuple[int, int, int, int]]]:
    """Class number, colour number (0: plain) and box of every object ``PixelRenderer`` put into an image."""
    results = []
    for number in range(int(pixels[..., 2].max()) - FIRST + 1):
        ys, xs = np.nonzero(pixels[..., 2] == FIRST + number)
        kind, color = pixels[ys[0], xs[0], :2].tolist()
        results.append((kind - 1, color, (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)))
    return results


def rows_of(
    image_id: str,
    judge: str,
    need: Need,
    objects: Sequence[tuple[str, str | None, Sequence[float]]],
    score: float = 0.9,
) -> list[dict[str, Any]]:
    """Rows of table ``detections`` for objects given as (label, colour, box)."""
    rows: list[dict[str, Any]] = [
        {"image_id": image_id, "judge": judge, "query": -1, "class_scores": [], "color_scores": []}
    ]
    for query, (label, color, box) in enumerate(objects):
        x0, y0, x1, y1 = (float(v) for v in box)
        rows.append(
            {
                "image_id": image_id,
                "judge": judge,
                "query": query,
                "label": label,
                "raw_label": label,
                "score": score,
                "x0": x0,
                "y0": y0,
                "x1": x1,
                "y1": y1,
                "class_scores": (one_hot(label, need.classes) * score).tolist(),
                "color": color,
                "color_scores": one_hot(color, need.colors).tolist() if color else [],
            }
        )
    return rows


class PixelJudge:
    """Reads the images of ``PixelRenderer`` without error, but for those where ``wrong(image_id)`` says otherwise.

    There it sees nothing, which is wrong unless nothing is there; ``dreams`` makes it see what was asked instead.
    """

    threshold = 0.5

    def __init__(
        self,
        *,
        name: str = "pixel-judge@1",
        wrong: Callable[[str], bool] = lambda _: False,
        dreams: Mapping[str, Sequence[tuple[str, str | None, Sequence[float]]]] | None = None,
        before: Callable[[Sequence[LoadedImage]], None] = lambda _: None,
    ) -> None:
        self.name, self.wrong, self.dreams, self.before = name, wrong, dreams or {}, before
        self.seen: list[str] = []

    def observe(self, images: Sequence[LoadedImage], need: Need) -> Any:
        self.before(images)
        rows = []
        for image in images:
            self.seen.append(image.image_id)
            objects: Sequence[tuple[str, str | None, Sequence[float]]] = [
                (need.classes[kind], need.colors[color - 1] if color else None, box)
                for kind, color, box in found_in(image.pixels)
            ]
            if self.wrong(image.image_id):
                objects = self.dreams.get(image.image_id, ())
            rows += rows_of(image.image_id, self.name, need, objects)
        return frame("detections", rows)


class SceneJudge:
    """Knows the images of rendered data sets by their pixels and says what their files say; nothing of others."""

    threshold = 0.5

    def __init__(self, roots: Sequence[Any], version: str, split: str = "val", name: str = "scene-judge@1") -> None:
        from verism.imaging import read_image
        from verism.suites.paintskills import layout
        from verism.suites.paintskills.vocabulary import version as version_of

        self.name = name
        self.known: dict[str, list[tuple[str, str | None, Sequence[float]]]] = {}
        for root in roots:
            for skill in layout.skills_in(root, split):
                boxes = layout.read_boxes(root, skill, split)
                for scene in layout.read_scenes(root, version_of(version), split, [skill]):
                    image = read_image(layout.image_path(root, skill, scene.scene_id))
                    if image.pixels is not None:
                        self.known[_digest(image.pixels)] = [
                            (o.label, None if o.color == "plain" else o.color, box)
                            for o, box in zip(scene.objects, boxes[scene.scene_id].tolist())
                        ]

    def observe(self, images: Sequence[LoadedImage], need: Need) -> Any:
        rows = []
        for image in images:
            rows += rows_of(image.image_id, self.name, need, self.known.get(_digest(image.pixels), ()))
        return frame("detections", rows)


def _digest(pixels: np.ndarray) -> str:
    return hashlib.sha256(pixels.tobytes()).hexdigest()


# Rendered data sets the judge below knows, as "folder|suite" joined by ";": subprocesses read it as well.
SCENES_VARIABLE = "VERISM_TEST_SCENES"


def scene_judge() -> SceneJudge:
    """A function as ``registry.JUDGES`` and the entry points ``verism.judges`` name them."""
    judge = SceneJudge((), "paintskills", name="scene-judge@1")
    for entry in filter(None, os.environ.get(SCENES_VARIABLE, "").split(";")):
        root, _, suite = entry.partition("|")
        judge.known |= SceneJudge((Path(root),), suite).known
    return judge


scene_judge.role = "detector"  # type: ignore[attr-defined]  # an entry point has to say it


def blind_judge() -> SceneJudge:
    """Sees nothing, and is sure only above 0.95."""
    judge = SceneJudge((), "paintskills", name="blind@1")
    judge.threshold = 0.95
    return judge


class ColourFeatures:
    """An image's features are its mean colour, in [0, 1]; counts the images it was shown."""

    def __init__(self, name: str = "mean-colour@1") -> None:
        self.name = name
        self.seen: list[str] = []

    def vector(self, pixels: np.ndarray) -> list[float]:
        return (pixels.reshape(-1, 3).mean(axis=0) / 255).astype(np.float32).tolist()

    def observe(self, images: Sequence[LoadedImage], need: Any) -> Any:
        self.seen += [image.image_id for image in images]
        rows = [{"image_id": i.image_id, "judge": self.name, "vector": self.vector(i.pixels)} for i in images]
        return frame(need.table, rows)


class ColourWords(ColourFeatures):
    """Images and words in one space of three colours: ``red`` is red, other words are what their letters give."""

    COLOURS: Mapping[str, Sequence[float]] = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}

    def __init__(self, name: str = "colour-words@1") -> None:
        super().__init__(name)
        self.read: list[str] = []

    def embed_texts(self, texts: Sequence[str]) -> Any:
        self.read += texts
        rows = []
        for text in texts:
            known = [self.COLOURS[word] for word in text.split() if word in self.COLOURS]
            letters = hashlib.sha256(text.encode()).digest()[:3]
            vector = np.mean(known, axis=0) if known else np.array(list(letters)) / 255
            rows.append({"text": text, "judge": self.name, "vector": vector.tolist()})
        return frame("text_embeddings", rows)


class Guesser:
    """Replies and probabilities of first tokens out of a hash of image and question.

    Args:
        silent: share of the questions without a reply.
        unreadable: share of those with one that cannot be read.
    """

    role = "vqa"
    name = "guesser-1"

    def __init__(self, *, silent: float = 0.125, unreadable: float = 0.125) -> None:
        self.silent, self.unreadable = silent, unreadable

    def check(self, need: Any) -> None:
        pass

    def observe(self, images: Sequence[Any], need: Any) -> Any:
        answers, tokens = [], []
        for image in images:
            for question in need.questions[image.prompt_id]:
                about = {"image_id": image.image_id, "judge": self.name, "question": question.text}
                rng = np.random.default_rng([*image.image_id.encode(), *question.text.encode()])
                words = question.choices or ("yes", "Yes", "no", "1", "0", "2")
                reply, place = words[rng.integers(len(words))], rng.random()
                read = place >= self.silent + self.unreadable
                answer = reply if read else "what?" if place >= self.silent else None
                value = reply.lower() if read else None
                answers.append(about | {"answer": answer, "value": value, "probability": rng.random()})
                for number, string in enumerate(question.strings):
                    tokens.append(about | {"string": string, "token": number, "probability": rng.random() / 50})
        tables = {"answers": frame("answers", answers)}
        return tables | ({"token_probabilities": frame("token_probabilities", tokens)} if need.beside else {})


def noise(prompt: str, seed: int) -> npt.NDArray[np.uint8]:
    """An image, one of seven black."""
    del prompt
    return np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8) * (seed % 7 > 0)


def colour_features(argument: str, options: Mapping[str, str], context: Any) -> ColourFeatures:  # noqa: ARG001
    """A factory for the role ``features``."""
    return ColourFeatures()


def colour_words(argument: str, options: Mapping[str, str], context: Any) -> ColourWords:  # noqa: ARG001
    """A factory for the role ``clip``."""
    return ColourWords()
