"""A renderer of known truth: it draws what a prompt asks for, or, at a known rate, something else on purpose.

What it rendered is kept beside each image as ground truth, so that whoever judges the images is judged as well: the
measured accuracy must agree with the true one, and false accepts and false rejects can be counted.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, VerismError
from verism.generators.misspelling import possible_in_text, spoil_text
from verism.metrics.depth_maps import nearness, text_of_depth
from verism.metrics.masks import rle_of_mask
from verism.metrics.named_colours import COLORS, color_shares
from verism.records import (
    Question,
    Rendered,
    Renderer,
    Request,
    Result,
    Scene,
    SceneObject,
    frame,
    reading_rows,
    schema,
)

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "MISTAKES",
    "Mistake",
    "ScriptedGenerator",
    "answers_of",
    "depths_of",
    "detections_of",
    "oracle",
    "preferences_of",
    "readings_of",
    "segments_of",
    "spoil",
]

Mistake = Literal[
    "count", "class", "relation", "color", "binding", "empty", "texture", "shape",
    "misspelt", "missing", "surplus", "swapped", "repeated", "garbled",
]  # fmt: skip
MISTAKES: tuple[Mistake, ...] = get_args(Mistake)
OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above", "front": "behind", "behind": "front"}
ACROSS = {"left": "above", "right": "below", "above": "left", "below": "right", "front": "behind", "behind": "front"}
SWAPPED = ("texture", "shape")  # what two objects exchange in scenes of the skill of this name; in others, their colour


class ScriptedGenerator:
    """Renders the scene of each prompt, wrong on purpose with probability ``error``.

    Args:
        renderer: turns scenes into images with boxes.
        classes: the name in scene files of each class, by its label; a wrong class is drawn from these.
        colors: a wrong colour is drawn from these.
        error: probability that an image has a mistake, in [0, 1].
        mistakes: kinds of mistakes to make. Of those that a prompt allows, each is equally likely.
        paired: instead of ``error``, render the images of a prompt in pairs, alike in light, camera and surroundings:
            even ones right, odd ones with a mistake.
        pair_seed: seed of the random draws for pairs, at least 0.

    Raises:
        UsageError: a number outside its range, or an unknown mistake.
    """

    def __init__(
        self,
        renderer: Renderer,
        *,
        classes: Mapping[str, str],
        colors: Sequence[str],
        error: float = 0.2,
        mistakes: Sequence[Mistake] = MISTAKES,
        paired: bool = False,
        pair_seed: int = 0,
    ) -> None:
        if not 0 <= error <= 1:
            raise UsageError(f"scripted: error must lie between 0 and 1, got {error}")
        if unknown := sorted(set(mistakes) - set(MISTAKES)):
            raise UsageError(f"scripted: unknown mistakes {unknown}; choose from {list(MISTAKES)}")
        if pair_seed < 0:
            raise UsageError(f"scripted: pair_seed must be 0 or more, got {pair_seed}")
        self.renderer = renderer
        self.classes = dict(classes)
        self.colors = tuple(colors)
        self.error = error
        self.mistakes = tuple(mistakes)
        kinds = "" if self.mistakes == MISTAKES else f"&mistakes={'+'.join(self.mistakes)}"
        self.paired = paired
        self.pair_seed = pair_seed
        rate = f"paired=true&pair_seed={pair_seed}" if paired else f"error={error:g}"
        self.name = f"scripted:{rate}{kinds}({renderer.name})"

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        plans = [self._plan(request) for request in requests]
        rendered = self.renderer.render_all([scene for scene, _ in plans])
        for request, (scene, made), image in zip(requests, plans, rendered, strict=True):
            if isinstance(image, VerismError):
                yield Result(image_id=request.image_id, state="failed", note=str(image))
                continue
            yield Result(
                image_id=request.image_id,
                state="ok",
                pixels=image.pixels,
                note=f"rendered {made}",
                truth=self._truth(request, scene, image),
            )

    def _truth(self, request: Request, scene: Scene, image: Rendered) -> Mapping[str, pl.DataFrame]:
        """Ground truth by table: objects, and, where something is asked or known, answers and depth."""
        image_id, classes = request.image_id, tuple(self.classes)
        tables = {
            "detections": partial(detections_of, image_id, scene, image, classes, self.colors),
            "segments": partial(segments_of, image_id, scene, image, classes, self.colors),
            "answers": partial(answers_of, image_id, scene, image, request.questions),
            "preference_scores": partial(preferences_of, request, scene),
        }
        if scene.texts:
            tables["readings"] = partial(readings_of, image_id, image)
        if image.depth is not None:
            tables["depths"] = partial(depths_of, image_id, image.depth)
        return _Tables(tables)

    def close(self) -> None:
        """End the renderer's processes, if it has any."""
        getattr(self.renderer, "close", lambda: None)()

    def _plan(self, request: Request) -> tuple[Scene, str]:
        """What will be rendered for a request, and in words whether that is what was asked."""
        scene = request.prompt.scene
        if scene is None:
            raise UsageError(f"scripted: prompt {request.prompt.prompt_id!r} has no scene to render")
        wrong = False
        if self.paired:
            key = zlib.crc32(request.prompt.prompt_id.encode())
            rng = np.random.default_rng([self.pair_seed, key, request.index // 2, 0xE2203])
            seed, wrong = int(rng.integers(2**62)), request.index % 2 == 1
        else:
            rng = np.random.default_rng([request.seed, 0xE2202])
            wrong = bool(rng.random() < self.error)
        made = "as asked"
        if wrong:
            scene, made = spoil(scene, rng, classes=self.classes, colors=self.colors, mistakes=self.mistakes)
        return replace(scene, seed=seed if self.paired else int(rng.integers(2**62))), made


def oracle(renderer: Renderer, *, classes: Mapping[str, str], colors: Sequence[str]) -> ScriptedGenerator:
    """Renders the very scene of each prompt.

    Args:
        renderer: turns scenes into images with boxes.
        classes: as in ``ScriptedGenerator``.
        colors: as in ``ScriptedGenerator``.
    """
    return ScriptedGenerator(renderer, classes=classes, colors=colors, error=0.0)


def spoil(
    scene: Scene,
    rng: np.random.Generator,
    *,
    classes: Mapping[str, str],
    colors: Sequence[str],
    mistakes: Sequence[str] = MISTAKES,
) -> tuple[Scene, str]:
    """A scene that does not show what the prompt asks, and what was done, in words.

    Args:
        scene: what the prompt asks.
        rng: draws the mistake, and what is shown instead.
        classes: the name in scene files of each class, by its label; a wrong class is drawn from these.
        colors: a wrong colour is drawn from these.
        mistakes: kinds of mistakes to make. Of those that a prompt allows, each is equally likely.

    Raises:
        UsageError: none of the mistakes is possible for this scene.
    """
    if scene.texts:
        return _spoil_texts(scene, rng, mistakes)
    relation = next((o.relation for o in scene.objects if o.relation is not None), None)
    possible = [
        m
        for m in mistakes
        if m == "class"
        # Nothing in the black void is a blank image: no answer, and not a wrong one.
        or (m == "empty" and scene.background != "empty")
        or (m == "count" and scene.skill == "count")
        or (m == "relation" and relation is not None)
        or (m == "color" and scene.skill == "color")
        or (m == "binding" and _swappable(scene.objects, _swapped(scene)))
        or (m in SWAPPED and scene.skill == m and _swappable(scene.objects, m))
    ]
    if not possible:
        raise UsageError(f"scripted: none of the mistakes {list(mistakes)} is possible for a {scene.skill} prompt")
    kind = possible[int(rng.integers(len(possible)))]
    objects = list(scene.objects)
    if kind == "empty":
        return replace(scene, objects=()), "empty"
    if kind == "count" and len({o.label for o in objects}) > 1:
        return _miscounted(scene, rng)
    if kind == "count":
        wanted = len(objects)
        other = [n for n in range(1, 5) if n != wanted]
        result = other[int(rng.integers(len(other)))]
        return replace(scene, objects=tuple(objects[0] for _ in range(result))), f"{result} instead of {wanted}"
    if kind == "binding":
        first, second = objects
        name = _swapped(scene)
        one, other = getattr(first, name), getattr(second, name)
        swapped_objects = (_with(first, name, other), _with(second, name, one))
        return replace(scene, objects=swapped_objects), f"{other} {first.label}, {one} {second.label}"
    if kind in SWAPPED:
        first, second = objects
        instead = "plain" if kind == "texture" else second.shape
        return replace(
            scene, objects=(_with(first, kind, instead), second)
        ), f"{instead} instead of {getattr(first, kind)}"
    if kind == "color":
        other_colors = [c for c in colors if c != objects[0].color]
        color = other_colors[int(rng.integers(len(other_colors)))]
        changed = tuple(replace(o, color=color) for o in objects)
        return replace(scene, objects=changed), f"{color} instead of {objects[0].color}"
    if kind == "relation":
        assert relation is not None
        name, _, index = relation.rpartition("_")
        # Two of a class look the same from either side, so only the other axis is wrong for them.
        same = objects[0].label == objects[1].label
        wrong = ACROSS[name] if same or rng.random() < 0.5 else OPPOSITE[name]
        objects[1] = replace(objects[1], relation=f"{wrong}_{index}")
        return replace(scene, objects=tuple(objects)), f"{wrong} instead of {name}"
    # kind == "class": one object becomes another class; all of them in a count, so that the number stays right.
    number = int(rng.integers(len(objects))) if scene.skill == "spatial" else 0
    taken = {o.label for o in objects}
    free = sorted(label for label in classes if label not in taken)
    label = free[int(rng.integers(len(free)))]
    old = objects[number].label

    def swapped(o: SceneObject) -> SceneObject:
        return replace(o, label=label, shape=classes[label], state=None)

    objects = [swapped(o) if scene.skill == "count" or k == number else o for k, o in enumerate(objects)]
    return replace(scene, objects=tuple(objects)), f"{label} instead of {old}"


def _swapped(scene: Scene) -> str:
    """What two objects of a scene exchange where the binding is wrong."""
    return scene.skill if scene.skill in SWAPPED else "color"


def _with(obj: SceneObject, name: str, value: str) -> SceneObject:
    """The object with another colour, texture or shape."""
    if name == "color":
        return replace(obj, color=value)
    return replace(obj, texture=value) if name == "texture" else replace(obj, shape=value)


def _miscounted(scene: Scene, rng: np.random.Generator) -> tuple[Scene, str]:
    """A scene of several classes with another number of one of them: one more, or one less where that leaves any."""
    labels = list(dict.fromkeys(o.label for o in scene.objects))
    label = labels[int(rng.integers(len(labels)))]
    of_label = [o for o in scene.objects if o.label == label]
    less = len(of_label) > 1 and (len(scene.objects) > 3 or rng.random() < 0.5)
    number = len(of_label) + (-1 if less else 1)
    others = [o for o in scene.objects if o.label != label]
    objects = (*others, *[of_label[0]] * number)
    return replace(scene, objects=objects), f"{number} {label} instead of {len(of_label)}"


def _swappable(objects: Sequence[SceneObject], name: str) -> bool:
    """Whether two objects would show something else with each other's colour, texture or shape."""
    labels, values = {o.label for o in objects}, {getattr(o, name) for o in objects}
    return len(objects) == len(labels) == len(values) == 2 and "plain" not in values


def _spoil_texts(scene: Scene, rng: np.random.Generator, mistakes: Sequence[str]) -> tuple[Scene, str]:
    """A scene with a mistake in one of its texts, and what it is, in words."""
    possible = [
        (kind, region)
        for kind in mistakes
        for region, text in enumerate(scene.texts)
        if possible_in_text(kind, text.text, alone=len(scene.texts) == 1)
    ]
    kinds = list(dict.fromkeys(kind for kind, _ in possible))
    if not kinds:
        raise UsageError(f"scripted: none of the mistakes {list(mistakes)} is possible for the texts of this prompt")
    kind = kinds[int(rng.integers(len(kinds)))]
    regions = [region for each, region in possible if each == kind]
    region = regions[int(rng.integers(len(regions)))]
    old = scene.texts[region]
    text, made = spoil_text(old.text, kind, rng)
    texts = [*scene.texts[:region], *([replace(old, text=text)] if text else []), *scene.texts[region + 1 :]]
    return replace(scene, texts=tuple(texts)), made


def detections_of(
    image_id: str, scene: Scene, rendered: Rendered, classes: Sequence[str], colors: Sequence[str], judge: str = "truth"
) -> pl.DataFrame:
    """What a perfect detector would say of a rendered scene: table ``detections``, confidence 1."""
    looked: dict[str, Any] = {"image_id": image_id, "judge": judge, "query": -1, "class_scores": [], "color_scores": []}
    rows = [looked]
    for query, (obj, box) in enumerate(zip(scene.objects, rendered.boxes.tolist(), strict=True)):
        x0, y0, x1, y1 = box
        rows.append(
            {
                "image_id": image_id,
                "judge": judge,
                "query": query,
                "label": obj.label if obj.label in classes else None,
                "raw_label": obj.label,
                "score": 1.0,
                "x0": x0,
                "y0": y0,
                "x1": x1,
                "y1": y1,
                "class_scores": one_hot(obj.label, classes).tolist(),
                "color": obj.color if obj.color in colors else None,
                "color_scores": one_hot(obj.color, colors).tolist() if obj.color in colors else [],
            }
        )
    table = frame("detections", rows)
    assert table.schema == schema("detections")
    return table


def segments_of(
    image_id: str, scene: Scene, rendered: Rendered, classes: Sequence[str], colors: Sequence[str], judge: str = "truth"
) -> pl.DataFrame:
    """What a perfect segmenter would say of a rendered scene: table ``segments``, confidence 1, exact masks.

    Args:
        image_id: the image.
        scene: what was rendered.
        rendered: the image with its instance mask.
        classes: classes that are asked about.
        colors: colours that are asked about.
        judge: who signs the rows.
    """
    height, width = rendered.mask.shape
    rows: list[dict[str, Any]] = [
        {"image_id": image_id, "judge": judge, "segment": -1, "color_scores": [], "pixel_colors": []}
    ]
    named = bool(colors) and set(colors) <= set(COLORS)
    for number, (obj, box) in enumerate(zip(scene.objects, rendered.boxes.tolist(), strict=True)):
        mask = rendered.mask == number + 1
        colored = obj.color in colors
        rows.append(
            {
                "image_id": image_id,
                "judge": judge,
                "segment": number,
                "query": number,
                "label": obj.label if obj.label in classes else None,
                "raw_label": obj.label,
                "score": 1.0,
                **dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)),
                "height": height,
                "width": width,
                "mask": rle_of_mask(mask),
                "color": obj.color if colored else None,
                "color_scores": one_hot(obj.color, colors).tolist() if colored else [],
                "pixel_colors": color_shares(rendered.pixels[mask], colors).tolist() if named else [],
            }
        )
    return frame("segments", rows)


def answers_of(
    image_id: str, scene: Scene, rendered: Rendered, questions: Sequence[Question], judge: str = "truth"
) -> pl.DataFrame:
    """What a perfect VQA model would answer about a rendered scene: table ``answers``.

    Questions that do not say what they mean of a scene have no answer.

    Args:
        image_id: the image.
        scene: what was rendered.
        rendered: the image; objects of which nothing can be seen do not count.
        questions: what is asked.
        judge: who signs the rows.
    """
    seen = [visible > 0 for visible in rendered.visible]
    rows: list[dict[str, Any]] = []
    for question in questions:
        row: dict[str, Any] = {"image_id": image_id, "judge": judge, "question": question.text}
        if question.fact is not None:
            answer = question.fact.answer(scene, question.choices, seen)
            # The probability is of yes, to questions of yes or no; otherwise of the answer.
            probability = 0.0 if answer is None or answer.lower() == "no" else 1.0
            row |= {"answer": answer or "none of these", "value": answer, "probability": probability}
        rows.append(row)
    return frame("answers", rows or [{"image_id": image_id, "judge": judge}])


def depths_of(image_id: str, depth: NDArray[np.floating], judge: str = "truth") -> pl.DataFrame:
    """What a perfect depth estimator would say of a rendered scene: table ``depths``.

    Args:
        image_id: the image.
        depth: distance from the camera, metres, infinite for the sky, shape (H, W).
        judge: who signs the row.
    """
    steps, low, high = nearness(depth, larger="far")
    height, width = steps.shape
    row = {
        "image_id": image_id,
        "judge": judge,
        "height": height,
        "width": width,
        "low": low,
        "high": high,
        "nearness": text_of_depth(steps),
    }
    return frame("depths", [row])


def readings_of(image_id: str, rendered: Rendered, judge: str = "truth") -> pl.DataFrame:
    """What a perfect OCR engine would read in a rendered scene: table ``readings``, confidence 1, in reading order.

    Args:
        image_id: the image.
        rendered: the image with its words.
        judge: who signs the rows.
    """
    words = [(w.line, w.text, 1.0, w.box) for w in rendered.words]
    return frame("readings", reading_rows(image_id, judge, words))


def preferences_of(request: Request, scene: Scene, judge: str = "truth") -> pl.DataFrame:
    """The known quality of an image: 1 of a rendered scene that is as asked, 0 of one that was spoilt on purpose.

    Args:
        request: what was asked for.
        scene: what was rendered.
        judge: who signs the row.

    Returns:
        Table ``preference_scores``, one row.
    """
    asked = request.prompt.scene
    as_asked = asked is not None and replace(asked, seed=scene.seed) == scene
    return frame(
        "preference_scores",
        [{"image_id": request.image_id, "judge": judge, "score": float(as_asked), "text_cut": False}],
    )


class _Tables(Mapping[str, "pl.DataFrame"]):
    """Tables that are made when they are first asked for: a run keeps those that its judges are asked for alone."""

    def __init__(self, making: Mapping[str, Callable[[], pl.DataFrame]]) -> None:
        self._making, self._made = making, dict[str, "pl.DataFrame"]()

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._made:
            self._made[name] = self._making[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._making

    def __iter__(self) -> Iterator[str]:
        return iter(self._making)

    def __len__(self) -> int:
        return len(self._making)


def one_hot(value: str, values: Sequence[str]) -> NDArray[np.float32]:
    """1 where equal, else 0, shape (K,)."""
    return np.array([float(v == value) for v in values], dtype=np.float32)
