"""What the built-in face finder and skin-tone estimator learn from: rendered faces, and images without any.

An example is an image with the boxes of its faces, the Monk tone of each, and the light. Kinds: ``portrait`` (one
head in varied light), ``person`` (as ``people:`` renders them, often from head to foot), ``group`` (two to four people)
and ``faceless`` (scenes without people, empty places, plain images, people from behind). Tone is drawn evenly and apart
from everything else. Nothing is kept of whether a person was drawn as a woman or a man.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, VerismError
from verism.judges.detection.builtin import letterbox
from verism.training._example_chunks import read_chunks, render_chunks
from verism.training.rendered_training import RenderedTraining
from verism.training.scene_arrays import SceneArrays, StackedImages, Target
from verism.training.settings import FACE_RENDERING, FacesConfig, SkinToneConfig

__all__ = [
    "CHUNK",
    "KINDS",
    "SIZE",
    "FaceExamples",
    "FaceFacts",
    "ImageFacts",
    "Kind",
    "face_training",
    "load_faces",
    "render_faces",
]

SIZE = 256  # pixels
CHUNK = 100  # images of a file; a chunk is drawn whatever the others are
_PREFIX = "faces"  # of the files' names

Kind = Literal["portrait", "person", "group", "faceless"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SHARES = (0.56, 0.14, 0.12, 0.18)

VISIBLE = 0.25  # share of a face's box that must show it; a face seen less is none
HIDDEN = 0.06  # up to this share nobody could call it a face; between the two the image is drawn anew
_SHARES_OF_IMAGE = (0.07, 0.72)  # heights of portraits' faces


@dataclass(frozen=True, kw_only=True)
class FaceFacts:
    """A face of an image.

    Attributes:
        box: (x0, y0, x1, y1), pixels, within the image: chin to the middle of the forehead, cheek to cheek.
        tone: Monk Skin Tone of its material, 1 (lightest) to 10.
        worn: what covers some of the face (``mask``, ``sunglasses`` ...), joined by +; empty: nothing.
        yaw: turn away from the camera, degrees without sign; None where it is not known.
    """

    box: tuple[float, float, float, float]
    tone: int
    worn: str = ""
    yaw: float | None = None

    @property
    def height(self) -> float:
        """Of the box, pixels."""
        return self.box[3] - self.box[1]


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """What is known of an image: its kind, its faces, and source, cast and level of the light (empty: not varied)."""

    kind: Kind
    faces: tuple[FaceFacts, ...] = ()
    light: str = ""
    cast: str = ""
    level: str = ""

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ImageFacts:
        """Facts as JSON has them."""
        faces = tuple(FaceFacts(**{**face, "box": tuple(face["box"])}) for face in record["faces"])
        return cls(**{**record, "faces": faces})


# --------------------------------------------------------------------------------------------------------------------
# Drawing
# --------------------------------------------------------------------------------------------------------------------
def _portrait(rng: np.random.Generator, tone: int, size: int) -> tuple[NDArray[np.uint8], ImageFacts]:
    from verism.simulator.portraits import draw_light, draw_shot, draw_sitter, render_portrait

    light, shot = draw_light(rng), draw_shot(rng, _SHARES_OF_IMAGE)
    spec, shape = draw_sitter(rng, tone)
    made = render_portrait(spec, shape, light, shot, size, seed=int(rng.integers(2**31)))
    worn = [name for name, value in (("mask", spec.mask_color), ("hat", spec.hat_color)) if value is not None]
    worn += [shape.frames] if shape.frames else ["glasses"] if spec.glasses else []
    face = FaceFacts(box=made.box, tone=tone, worn="+".join(worn), yaw=abs(shot.yaw_deg))
    return made.pixels, ImageFacts(
        kind="portrait", faces=(face,), light=light.source, cast=light.cast, level=light.level
    )


def _person(rng: np.random.Generator, tone: int, size: int) -> tuple[NDArray[np.uint8], ImageFacts]:
    from verism.simulator.portraits import PeopleRenderer

    view: Any = str(rng.choice(["full", "upper", "bust"], p=[0.5, 0.2, 0.3]))
    worn = {str(rng.choice(["", "jeans", "shorts", "slacks", "skirt"])), str(rng.choice(["", "shirt", "jacket"]))}
    worn |= {name for name in ("hat", "mask", "glasses", "gloves") if rng.random() < 0.15}
    image = PeopleRenderer(size, view).render(
        woman=bool(rng.random() < 0.5), tone=tone, worn=worn - {""}, seed=int(rng.integers(2**31))
    )
    covers = "+".join(sorted(worn & {"hat", "mask", "glasses"}))
    face = FaceFacts(box=image.face, tone=tone, worn=covers)
    return image.pixels, ImageFacts(kind="person", faces=(face,), light="soft", cast="neutral", level="normal")


def _group(rng: np.random.Generator, tone: int, size: int) -> tuple[NDArray[np.uint8], ImageFacts]:
    from verism.simulator.portraits import draw_light, draw_shot, draw_sitter, render_group

    count = int(rng.integers(2, 5))
    while True:
        light, shot = draw_light(rng), draw_shot(rng)
        tones = [tone, *(int(t) for t in rng.integers(1, 11, count - 1))]
        sitters = [draw_sitter(rng, t) for t in tones]
        made = render_group(sitters, light, shot, size, seed=int(rng.integers(2**31)))
        if all(face.visible >= VISIBLE or face.visible <= HIDDEN for face in made.faces):
            break
    seen = tuple(FaceFacts(box=face.box, tone=face.tone) for face in made.faces if face.visible >= VISIBLE)
    facts = ImageFacts(kind="group", faces=seen, light=light.source, cast=light.cast, level=light.level)
    return made.pixels, facts


def _faceless(rng: np.random.Generator, size: int) -> NDArray[np.uint8]:
    """A scene without people, an empty place, a plain image, or a person from behind."""
    from verism.simulator.catalogue import standard_catalogue
    from verism.simulator.portraits import draw_light, draw_shot, draw_sitter, render_portrait
    from verism.simulator.renderer import Camera, render
    from verism.simulator.scene_renderer import SceneRenderer
    from verism.training.embedder_examples import draw_scene

    luck = rng.random()
    if luck < 0.1:  # black, grey, coloured, with or without noise
        color = np.zeros(3) if rng.random() < 0.3 else rng.integers(0, 256, 3) if rng.random() < 0.6 else 127
        noise = rng.normal(0, rng.uniform(0, 40), (size, size, 3)) if rng.random() < 0.5 else 0
        return np.clip(np.broadcast_to(color, (size, size, 3)) + noise, 0, 255).astype(np.uint8)
    if luck < 0.25:
        names = [name for name in standard_catalogue().environments if name != "empty"]
        place = standard_catalogue().environment(names[int(rng.integers(len(names)))])
        camera = Camera((0.0, -4.0, float(rng.uniform(0.6, 2.0))), (0.0, 0.0, float(rng.uniform(0.3, 1.5))), 40.0)
        return render([], place.build(rng), camera, size).pixels
    if luck < 0.4:
        shot = draw_shot(rng, _SHARES_OF_IMAGE)
        spec, shape = draw_sitter(rng, int(rng.integers(1, 11)))
        behind = replace(shot, yaw_deg=float(rng.uniform(140, 220)))
        return render_portrait(spec, shape, draw_light(rng), behind, size, seed=int(rng.integers(2**31))).pixels
    renderer = SceneRenderer(size)
    while True:
        scene = draw_scene(rng)
        if any(thing.label == "person" for thing in scene.objects):
            continue
        try:
            return renderer.render(scene).pixels
        except VerismError:  # what cannot be rendered or placed is drawn anew
            continue


# --------------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------------
def render_faces(
    out: Path,
    count: int,
    *,
    seed: int,
    processes: int = 1,
    size: int = SIZE,
    on_chunk: Callable[[int], None] = lambda _: None,
) -> Path:
    """Render examples into a folder, in chunks of ``CHUNK``; those that are there already are kept.

    Tones go round from image to image. The same seed gives the same images, and a chunk does not depend on how many
    follow.

    Args:
        out: the folder.
        count: images, at least 1; the last chunk may be smaller.
        seed: of all random draws.
        processes: that render at a time, at least 1.
        size: width and height in pixels, 64 to 2048.
        on_chunk: called with the number of images there are after each chunk.

    Raises:
        UsageError: a count below one.
    """
    return render_chunks(
        out, _PREFIX, count, _render_chunk,
        chunk_size=CHUNK, seed=seed, processes=processes, size=size, on_chunk=on_chunk,
    )  # fmt: skip


def _render_chunk(seed: int, chunk: int, count: int, size: int) -> tuple[NDArray[np.uint8], list[ImageFacts]]:
    rng = np.random.default_rng([seed, chunk, 0xFACE])
    pixels = np.zeros((count, size, size, 3), dtype=np.uint8)
    facts: list[ImageFacts] = []
    start = int(rng.integers(10))
    for number in range(count):
        kind = KINDS[int(rng.choice(len(KINDS), p=_SHARES))]
        tone = (start + number) % 10 + 1
        if kind == "faceless":
            image, known = _faceless(rng, size), ImageFacts(kind=kind)
        else:
            image, known = {"portrait": _portrait, "person": _person, "group": _group}[kind](rng, tone, size)
        pixels[number] = image
        facts.append(known)
    return pixels, facts


class _Resized:
    """Images brought to another size when they are asked for."""

    def __init__(self, images: StackedImages, size: int) -> None:
        self._images, self._size = images, size

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int, /) -> NDArray[np.uint8]:
        return letterbox(self._images[index], self._size)[0]


@dataclass(frozen=True, eq=False)
class FaceExamples:
    """Rendered examples: images in memory-mapped files, and what is known of each.

    Attributes:
        images: N square images, RGB uint8.
        facts: of each image.
        names: of each image, the same however many there are; decides which are held out.
    """

    images: StackedImages
    facts: Sequence[ImageFacts]
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.facts)

    def scene_arrays(self, size: int) -> SceneArrays:
        """As the training of detectors takes them: one class, no colours.

        Args:
            size: width and height that images are brought to as the finder does it, in pixels.
        """
        targets = []
        for image, known in enumerate(self.facts):
            n = len(known.faces)
            boxes = np.array([face.box for face in known.faces], dtype=np.float32).reshape(-1, 4)
            boxes *= size / len(self.images[image])
            targets.append(Target(boxes=boxes, labels=np.zeros(n, np.int64), colors=np.full(n, -1, np.int64)))
        return SceneArrays(
            images=_Resized(self.images, size),
            targets=targets,
            names=list(self.names),
            skills=[known.kind for known in self.facts],
            splits=["train"] * len(self),
        )


def load_faces(folders: Sequence[Path]) -> FaceExamples:
    """Complete chunks of some folders of ``render_faces``.

    Raises:
        UsageError: no examples, or a chunk whose files do not go together.
    """
    parts: list[np.ndarray] = []
    facts: list[ImageFacts] = []
    names: list[str] = []
    for stem, pixels, records in read_chunks(folders, _PREFIX):
        parts.append(pixels)
        facts += [ImageFacts.of_record(record) for record in records]
        names += [f"{stem}_{row}" for row in range(len(records))]
    if not facts:
        listed = ", ".join(str(folder) for folder in folders)
        raise UsageError(f"no examples in {listed}; leave --examples out to have some rendered")
    return FaceExamples(images=StackedImages(parts), facts=facts, names=names)


C = TypeVar("C", FacesConfig, SkinToneConfig)


def face_training(
    train: Callable[..., Path], finish: Callable[..., dict[str, Any]]
) -> RenderedTraining[FaceExamples, C]:
    """The whole way from rendered faces to a measured file.

    Args:
        train: learns from examples and writes a checkpoint.
        finish: exports and measures the checkpoint of a folder, given the examples, those of another seed (or None),
            ``held_out`` and ``threads``.
    """
    return RenderedTraining[FaceExamples, C](
        render=render_faces,
        load=load_faces,
        train=train,
        finish=lambda out, examples, test, config: finish(
            out, examples(), test, held_out=config.held_out, threads=config.workers
        ),
        rendering=FACE_RENDERING,
    )
