"""The nouns of verism and the columns of their tables.

``suite -> Prompt -> generator -> Image -> judges -> observations -> suite rules -> Verdict -> Score``

Every noun is a small frozen record; on disk each is one row of a long table, joined by id and never by position. This
module imports nothing of ours (but the errors), so that every other part may share it. Polars is loaded only when a
table is built.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, get_args

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from verism.errors import VerismError

__all__ = [
    "FAILED",
    "GARBLED",
    "NEEDS",
    "PROTOCOLS",
    "STATES",
    "TABLES",
    "AnswerNeed",
    "CaptionNeed",
    "Column",
    "DepthNeed",
    "DetectionNeed",
    "EmbeddingNeed",
    "Estimand",
    "EstimandPart",
    "FeatureNeed",
    "Generator",
    "Judge",
    "LoadedImage",
    "Need",
    "Observed",
    "OcrNeed",
    "PreferenceNeed",
    "Prompt",
    "ProtocolName",
    "Question",
    "RatingTask",
    "ReferenceImage",
    "ReferenceSet",
    "Region",
    "Rendered",
    "RenderedWord",
    "Renderer",
    "Request",
    "Result",
    "Scene",
    "SceneFact",
    "SceneObject",
    "SceneText",
    "Score",
    "SegmentationNeed",
    "SkinToneNeed",
    "State",
    "TaskKind",
    "TaskLevel",
    "TaskUnit",
    "UserImage",
    "canonical_json",
    "content_hash",
    "declaring_option",
    "empty_table",
    "frame",
    "judge_identity",
    "make_image_id",
    "option_of",
    "reading_rows",
    "roles",
    "schema",
    "vector_rows",
    "vectors_of",
]

State = Literal["ok", "refused", "failed", "missing", "blank"]
STATES: tuple[State, ...] = get_args(State)

ProtocolName = Literal["released", "paper", "revised"]
PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)

FacetValue = str | int | float | None


# --------------------------------------------------------------------------------------------------------------------
# Scenes: what a rendered image must show. Suites write them, the simulator renders them.
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class SceneObject:
    """One object of a scene, in the fields of the published PaintSkills scene file.

    Attributes:
        shape: class name in scene files (``fireHydrant``; any name with ``human`` is a person).
        label: class name as the suite reports it (``fire hydrant``, ``person``): the label detectors must use.
        color: one of the suite's colours, or ``plain``: the model's own materials.
        relation: ``None``, or ``{left,right,above,below,front,behind}_{index}``: where it lies relative to object
            ``index``; in front of and behind it as the camera sees it, their boxes overlapping.
        scale: size of the object relative to the usual one of the simulator; ``1.0`` is usual.
        texture: ``plain``, ``pure`` (a single paint, in the colour skill), or a material of the simulator
            (``wooden``, ``metallic`` ...).
        rotation: ``None`` (a random yaw) or Euler angles in degrees.
        state: pose or variant such as ``sitting``, or ``None`` for any.
    """

    shape: str
    label: str
    color: str = "plain"
    relation: str | None = None
    scale: float = 1.0
    texture: str = "plain"
    rotation: tuple[float, float, float] | None = None
    state: str | None = None


GARBLED = "\ufffd"  # stands in a text for a glyph that is none


@dataclass(frozen=True, kw_only=True)
class SceneText:
    """A text that stands on one surface of a scene.

    Attributes:
        text: the text; a line end where a line ends. ``GARBLED`` is drawn as strokes that mean nothing.
        surface: ``sign``, ``poster``, ``screen``, ``label``, ``board`` or ``banner``.
        size: height of its letters: ``small``, ``medium`` or ``large``.
        tilt: how far the surface turns away from the camera: ``none``, ``slight`` or ``strong``.
        font: name of one of the simulator's fonts; empty: drawn of those that have all its characters.
        quality: how it was taken: ``sharp``, ``blurred`` or ``noisy``.
    """

    text: str
    surface: str = "sign"
    size: str = "large"
    tilt: str = "none"
    font: str = ""
    quality: str = "sharp"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What an image must show, completely enough to render it again on any machine.

    Attributes:
        scene_id: ``{skill}_{split}_{index:05d}`` in the published numbering.
        skill: ``object``, ``count``, ``color``, ``spatial``, or a skill of your own.
        split: ``train`` or ``val``. Papers say "test" for the files named ``val``.
        text: the prompt.
        background: name of an environment of the simulator, ``empty`` for black.
        objects: in order; relations point backwards.
        seed: 64-bit seed of every random choice of the renderer (camera, light, pose, materials ...).
        texts: texts on surfaces before the background, in reading order; scenes have texts or objects.
    """

    scene_id: str
    skill: str
    split: str
    text: str
    background: str
    objects: tuple[SceneObject, ...]
    seed: int = 0
    texts: tuple[SceneText, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RenderedWord:
    """A word that was drawn.

    Attributes:
        text: the word.
        region: number of the scene's text that it is of.
        line: number of its line in the image, in reading order.
        box: (x0, y0, x1, y1) in pixels around it, right and lower edges exclusive.
    """

    text: str
    region: int
    line: int
    box: tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rendered:
    """A rendered scene with its exact ground truth.

    Attributes:
        pixels: RGB, shape (H, W, 3), uint8.
        boxes: per object of the scene, (x0, y0, x1, y1) in pixels around its visible part, shape (N, 4), float32;
            ``x1`` and ``y1`` are exclusive, so a box of one pixel has width 1.
        visible: per object, visible share of its own silhouette inside the image frame and not hidden, in [0, 1].
        mask: instance mask, shape (H, W), uint8: 0 background, ``i + 1`` object ``i``.
        depth: distance of what each pixel shows from the camera, metres, infinite for the sky, shape (H, W), float32;
            None of renderers that do not know it.
        words: the words that were drawn, in reading order.
    """

    pixels: np.ndarray
    boxes: np.ndarray
    visible: np.ndarray
    mask: np.ndarray
    depth: np.ndarray | None = None
    words: tuple[RenderedWord, ...] = ()


class Renderer(Protocol):
    """Anything that turns scenes into images with ground truth. The simulator is one.

    ``render_all`` answers every scene in order; one that cannot be rendered is answered with the error.
    """

    name: str

    def render_all(self, scenes: Sequence[Scene]) -> Iterator[Rendered | VerismError]: ...


# --------------------------------------------------------------------------------------------------------------------
# Prompts, requests, images
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt of a suite.

    Attributes:
        prompt_id: id, unique in the suite.
        suite: name of the suite.
        text: text given to the generator.
        facets: what breakdowns group by (skill, object, count, relation, region, profession ...).
        spec: what the suite's own rules need to know to decide an image; JSON-serialisable, private to the suite.
        n_images: number of images to generate, at least 1.
        scene: the scene that illustrates the prompt, where the suite has one.
    """

    prompt_id: str
    suite: str
    text: str
    facets: Mapping[str, FacetValue] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    n_images: int = 1
    scene: Scene | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """One image asked of a generator.

    ``questions`` are those that a judge is asked about the image, so that a renderer can answer them as ground truth.
    """

    image_id: str
    prompt: Prompt
    index: int
    seed: int
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What a generator answers to one request: an image, or why there is none.

    Exactly one of ``pixels`` (RGB, (H, W, 3), uint8) and ``path`` (an existing file, left where it is) is set when the
    state is ``ok``. ``seeded`` is false where the model could not be given the request's seed, so that asking again
    gives another image. ``truth`` holds, for renderers that know what they rendered, observations by table name, in the
    same columns as a judge's: ground truth is one more judge, and a perfect one.
    """

    image_id: str
    state: State
    pixels: np.ndarray | None = None
    path: str | None = None
    note: str = ""
    seeded: bool = True
    truth: Mapping[str, pl.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Region:
    """An object that a segmenter found in an image: a row of ``segments``, as another judge is shown it.

    Attributes:
        segment: its number in the image.
        label: its class.
        score: confidence of the class, in [0, 1].
        box: (x0, y0, x1, y1) in pixels, right and lower edges exclusive.
        mask: COCO's compressed run-length encoding, of the image's size; None where only the box is known.
    """

    segment: int
    label: str
    score: float
    box: tuple[float, float, float, float]
    mask: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedImage:
    """A decoded image as judges see it.

    Attributes:
        image_id: its id.
        prompt_id: of the prompt it was made for; empty for real images.
        pixels: RGB, shape (H, W, 3), uint8.
        sha256: of the file's bytes, which observations are bound to; None if there is no file.
        regions: objects that another judge found in it, for needs that ask about them; see ``EmbeddingNeed``.
        regions_by: name of that judge.
    """

    image_id: str
    prompt_id: str
    pixels: np.ndarray
    sha256: str | None = None
    regions: tuple[Region, ...] = ()
    regions_by: str = ""


def make_image_id(prompt_id: str, index: int) -> str:
    """The id of the ``index``-th image of a prompt."""
    return f"{prompt_id}#{index}"


# --------------------------------------------------------------------------------------------------------------------
# Needs, protocols
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Need:
    """A kind of observation that a suite asks for. Subclasses register themselves by their role.

    Attributes:
        optional: whether it is left out where no judge is named for it.
        role: option by which the command line names the judge.
        table: name of the table that keeps its observations.
        beside: further tables that its judge fills.
        judges: what judges of the role are called, plural.
        help: one line for the command line.
    """

    optional: bool = False
    role: ClassVar[str]
    table: ClassVar[str]
    beside: ClassVar[tuple[str, ...]] = ()
    judges: ClassVar[str]
    help: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        NEEDS[cls.role] = cls

    def covers(self, earlier: Need) -> bool:
        """Whether observations made for an earlier need serve this one, which asks about more prompts.

        What is asked by prompt may have grown, and so may the texts to embed, which are embedded one by one. All else
        (classes, colours, how the judge is asked) has to be the same.

        Args:
            earlier: a need of the same role.
        """
        for field_ in fields(self):
            now, before = getattr(self, field_.name), getattr(earlier, field_.name)
            if isinstance(now, Mapping):
                if any(key not in now or now[key] != value for key, value in before.items()):
                    return False
            elif field_.name == "texts":
                if not set(before) <= set(now):
                    return False
            elif now != before:
                return False
        return True


NEEDS: dict[str, type[Need]] = {}


def roles() -> tuple[str, ...]:
    """Roles in which judges observe images, in the order in which they were declared."""
    return tuple(NEEDS)


@dataclass(frozen=True, kw_only=True)
class DetectionNeed(Need):
    """Boxes of these classes (suite labels), and the colour of each box if ``colors`` is not empty.

    ``partial`` says that a detector may lack some of the classes, which are then never found.
    """

    classes: tuple[str, ...]
    colors: tuple[str, ...] = ()
    partial: bool = False
    table: ClassVar[str] = "detections"
    role: ClassVar[str] = "detector"
    judges: ClassVar[str] = "detectors"
    help: ClassVar[str] = (
        "Object detector: builtin, transformers:ID_OR_PATH, open-vocabulary:ID_OR_PATH, results:FILE ..."
    )


@dataclass(frozen=True, kw_only=True)
class SegmentationNeed(Need):
    """Objects of these classes (suite labels) with their masks, and the colour of each if ``colors`` is not empty."""

    classes: tuple[str, ...]
    colors: tuple[str, ...] = ()
    table: ClassVar[str] = "segments"
    role: ClassVar[str] = "segmenter"
    judges: ClassVar[str] = "segmenters"
    help: ClassVar[str] = "Object segmenter: transformers:ID_OR_PATH, boxes:ID_OR_PATH, truth."


@dataclass(frozen=True, kw_only=True)
class DepthNeed(Need):
    """How near what each pixel of an image shows is."""

    table: ClassVar[str] = "depths"
    role: ClassVar[str] = "depth"
    judges: ClassVar[str] = "depth estimators"
    help: ClassVar[str] = "Depth estimator: ID_OR_PATH, results:FOLDER, truth."


@dataclass(frozen=True, kw_only=True)
class FeatureNeed(Need):
    """A feature vector of each image; and of each image of the suite's reference set, if ``reference``."""

    reference: bool = True
    table: ClassVar[str] = "features"
    role: ClassVar[str] = "features"
    beside: ClassVar[tuple[str, ...]] = ("reference_features",)
    judges: ClassVar[str] = "image features"
    help: ClassVar[str] = "Feature extractor (FID, KID, PRDC): inception:FILE, fid-inception:FILE, builtin ..."


@dataclass(frozen=True, kw_only=True)
class EmbeddingNeed(Need):
    """Vectors of images and of these texts in one space, as the model gives them: not normalised.

    A judge that fills it also has ``embed_texts(texts) -> pl.DataFrame``, table ``text_embeddings``, one row per text.

    ``regions`` holds, by prompt id, classes whose objects are embedded one by one as well, as far as the run's
    segmenter found them (``LoadedImage.regions``); their vectors are table ``region_embeddings``. ``views`` says how an
    object is shown (names of ``judges.regions``), ``most_regions`` how many objects of a class are, the most confident
    ones.
    """

    texts: tuple[str, ...]
    regions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    most_regions: int = 16
    table: ClassVar[str] = "embeddings"
    role: ClassVar[str] = "clip"
    beside: ClassVar[tuple[str, ...]] = ("text_embeddings", "region_embeddings")
    judges: ClassVar[str] = "image-text models"
    help: ClassVar[str] = "CLIP model: ID_OR_PATH, ViT-B/32, ViT-L/14, builtin."


@dataclass(frozen=True, kw_only=True)
class CaptionNeed(Need):
    """One sentence that says what an image shows."""

    table: ClassVar[str] = "captions"
    role: ClassVar[str] = "captioner"
    judges: ClassVar[str] = "captioners"
    help: ClassVar[str] = "Captioner: transformers:ID, results:FILE."


Asks = Literal["present", "count", "color", "relation", "background", "all"]


@dataclass(frozen=True, kw_only=True)
class SceneFact:
    """What a question means in terms of a scene, so that a renderer can answer it as ground truth.

    Without choices the question is whether the fact holds. With choices it asks for the number (``count``), the colour
    (``color``), the environment (``background``) or the class (``present``): the choice is the right answer.

    Attributes:
        asks: ``present`` (an object of this label, colour, texture and shape, as far as they are given), ``count``
            (exactly so many of them), ``color`` (objects of this label have the colour), ``relation`` (one of them lies
            so relative to one with the label ``other``), ``background`` (the environment is this), ``all`` (every
            one of ``parts`` holds).
        label: class of the objects, as scenes have it; empty for any.
        color: their colour; empty for any.
        texture: their material; empty for any.
        shape: their shape, as scene files write it; empty for any.
        count: their number; 0 where it is not asked.
        relation: ``left``, ``right``, ``above`` or ``below``; empty where it is not asked.
        other: label of the object that a relation is relative to.
        background: name of the environment.
        parts: facts that must all hold, where ``asks`` is ``all``; they take no choices.
    """

    asks: Asks
    label: str = ""
    color: str = ""
    texture: str = ""
    shape: str = ""
    count: int = 0
    relation: str = ""
    other: str = ""
    background: str = ""
    parts: tuple[SceneFact, ...] = ()

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SceneFact:
        """A fact that was kept as plain JSON.

        Args:
            record: its fields by name, ``parts`` as a list of such records.
        """
        parts = tuple(cls.from_record(part) for part in record.get("parts", ()))
        return cls(**{**record, "parts": parts})

    def _is_meant(self, obj: SceneObject) -> bool:
        pairs = ((getattr(self, name), getattr(obj, name)) for name in ("label", "color", "texture", "shape"))
        return all(wanted in ("", shown) for wanted, shown in pairs)

    def holds(self, scene: Scene, seen: Sequence[bool] | None = None) -> bool:
        """Whether a scene is so.

        Args:
            scene: what an image shows.
            seen: for each object whether anything of it can be seen; None: of all.

        >>> cat = SceneObject(shape="cat", label="cat", color="red")
        >>> scene = Scene(
        ...     scene_id="", skill="color", split="val", text="a red cat", background="beach", objects=(cat, cat)
        ... )
        >>> SceneFact(asks="present", label="cat", color="red").holds(scene)
        True
        >>> SceneFact(asks="count", label="cat", count=1).holds(scene)
        False
        """
        if self.asks == "all":
            return all(part.holds(scene, seen) for part in self.parts)
        if self.asks == "background":
            return scene.background == self.background
        objects = list(zip(scene.objects, seen or [True] * len(scene.objects), strict=True))
        if self.asks == "relation":
            return any(
                o.label == self.label and o.relation == f"{self.relation}_{index}" and other.label == self.other
                for o, visible in objects
                for index, (other, other_visible) in enumerate(objects)
                if visible and other_visible
            )
        found = [o for o, visible in objects if visible and self._is_meant(o)]
        return len(found) == self.count if self.asks == "count" else bool(found)

    def answer(self, scene: Scene, choices: Sequence[str], seen: Sequence[bool] | None = None) -> str | None:
        """The right answer to a question with this meaning about a scene; None if none of the choices is.

        Args:
            scene: what an image shows.
            choices: the answers it allows; none, or yes and no: whether the fact holds.
            seen: for each object whether anything of it can be seen; None: of all.
        """
        if not choices or {choice.lower() for choice in choices} == {"yes", "no"}:
            word = "yes" if self.holds(scene, seen) else "no"
            return next((choice for choice in choices if choice.lower() == word), word)
        there = [o for o, visible in zip(scene.objects, seen or [True] * len(scene.objects), strict=True) if visible]
        right: dict[Asks, Sequence[str]] = {
            "background": [scene.background],
            "count": [str(len([o for o in there if self._is_meant(o)]))],
            "color": [o.color for o in there if o.label == self.label],
            "present": [o.label for o in there],
        }
        return next((choice for choice in choices if choice in right.get(self.asks, ())), None)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question to be asked of an image. Without ``choices`` it is to be answered yes or no.

    Attributes:
        text: the question.
        choices: answers it allows; none for yes and no.
        strings: texts whose probability is wanted: that the reply begins with the first token of each. A judge that
            can tell them fills table ``token_probabilities``.
        bare: whether it is worded to the end, so that a judge adds no instruction of its own.
        fact: what it means of a rendered scene; None where that is not known.
    """

    text: str
    choices: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    bare: bool = False
    fact: SceneFact | None = None


@dataclass(frozen=True, kw_only=True)
class AnswerNeed(Need):
    """Answers to questions about each image: ``questions`` by prompt id.

    ``weighed`` asks a judge that can for the probability of every answer a question allows, not only for a reply.
    """

    questions: Mapping[str, tuple[Question, ...]]
    weighed: bool = False
    table: ClassVar[str] = "answers"
    role: ClassVar[str] = "vqa"
    beside: ClassVar[tuple[str, ...]] = ("token_probabilities", "answer_similarities")
    judges: ClassVar[str] = "VQA models"
    help: ClassVar[str] = "VQA model: ID_OR_PATH, openai:MODEL, results:FILE, builtin."


@dataclass(frozen=True, kw_only=True)
class OcrNeed(Need):
    """The text of each image: as a whole in reading order, and line by line or word by word where the engine tells.

    ``languages`` holds the language of each prompt's text by prompt id, as ISO 639-1 has it (``en``, ``zh``): an engine
    that has to be told what it reads takes it, others read whatever they know. ``instruction`` is how a model that
    takes instructions is asked for the text; empty: as its judge words it.
    """

    languages: Mapping[str, str] = field(default_factory=dict)
    instruction: str = ""
    table: ClassVar[str] = "readings"
    role: ClassVar[str] = "ocr"
    judges: ClassVar[str] = "OCR engines"
    help: ClassVar[str] = "OCR engine: tesseract, rapidocr, transformers:ID, openai:MODEL, results:FILE, truth."


@dataclass(frozen=True, kw_only=True)
class PreferenceNeed(Need):
    """How much people can be expected to like each image as a picture of a text: ``texts`` by prompt id."""

    texts: Mapping[str, str] = field(default_factory=dict)
    table: ClassVar[str] = "preference_scores"
    role: ClassVar[str] = "scorer"
    judges: ClassVar[str] = "preference scorers"
    help: ClassVar[str] = "Preference scorer: pickscore:ID_OR_PATH, hpsv2.1:FILE, imagereward:FILE, hpsv3:FILE, truth."


@dataclass(frozen=True, kw_only=True)
class SkinToneNeed(Need):
    """The colour of the skin of every face, and the tone of a scale that it is nearest to."""

    table: ClassVar[str] = "skin_tones"
    role: ClassVar[str] = "skin_tone"
    judges: ClassVar[str] = "judges of skin tone"
    help: ClassVar[str] = "Skin tone judge: builtin, cascade, onnx:FILE, fan, none."


def option_of(role: str) -> str:
    """The option of the command line that names who fills a role.

    >>> option_of("skin_tone")
    '--skin-tone'
    """
    return f"--{role.replace('_', '-')}"


def judge_identity(name: str) -> str:
    """What of a judge's full name says who judged: all of it, but the file of a results file whose judge is declared.

    Files of results differ from run to run; the hash in the name keeps them apart, the declared judge is what counts.

    Args:
        name: full name of a judge, as manifests have it.

    >>> judge_identity("results:a.csv@0123 judge=GPT-4o 2024-08"), judge_identity("results:a.csv@0123")
    ('results judge=GPT-4o 2024-08', 'results:a.csv@0123')
    """
    declared = re.fullmatch(r"results:.*@[0-9a-f]+((?: .*)? (?:judge|scorer)=.+)", name)
    return f"results{declared[1]}" if declared else name


def declaring_option(role: str) -> str:
    """How the judge of a results file is declared on the command line.

    >>> declaring_option("vqa")
    '--vqa "results:FILE?judge=NAME"'
    """
    name = "scorer" if role == PreferenceNeed.role else "judge"
    return f'{option_of(role)} "results:FILE?{name}=NAME"'


@dataclass(frozen=True, kw_only=True)
class ReferenceImage:
    """A real image to compare with.

    Attributes:
        image_id: unique in its set; ``real/`` and a name.
        path: the file, absolute; None where only its features are known.
        sha256: SHA-256 of the file's bytes, if known beforehand.
        facets: facet values that groups are made of (object, region ...).
    """

    image_id: str
    path: str | None
    sha256: str | None = None
    facets: Mapping[str, FacetValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReferenceSet:
    """The real images a suite compares with, and their features if somebody computed them before.

    Attributes:
        source: where the images come from, in words.
        images: the images, in order.
        judge: judge that computed ``features``; None if they are still to be computed.
        features: (N, D), float32, row i for image i; None if they are still to be computed.
    """

    source: str
    images: tuple[ReferenceImage, ...]
    judge: str | None = None
    features: np.ndarray | None = None

    def identity(self) -> str:
        """A hash of which images it holds: enters the settings of a run."""
        return content_hash(
            [[p.image_id, p.path if p.sha256 is None else p.sha256, dict(p.facets)] for p in self.images]
        )


@dataclass(frozen=True, kw_only=True)
class UserImage:
    """An image that exists already and the request it answers.

    Attributes:
        prompt_id: of the request.
        index: which image of the prompt it is, from 0.
        path: the file.
        cell: where the file is a grid of several images, the row and column of this one (from 0), and how many rows
            and columns there are; None where the file is the image.
    """

    prompt_id: str
    index: int
    path: str
    cell: tuple[int, int, int, int] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """Everything known about the images of a run, as tables: what a suite decides upon.

    Attributes:
        prompts: the suite's prompts by id.
        images: table ``images``.
        observations: by table name (``detections``, ``features`` ...), the observations of one judge each. A need that
            nobody filled has no table here.
        reference: table ``reference``, for suites with a reference set; its vectors are ``reference_features``.
        judges: full name of the judge by table, where it is known.
        vectors: by table, the vectors of its rows in their order, shape (N, D), in a file that is mapped into memory;
            the column ``vector`` of these tables is empty. Only for suites that declare ``maps_vectors``.
        facts: of all images of the run, where only some of them are here (``Suite.facts_of_all``); None: all are here.
        counts: sums over all images, where these are not here (``Suite.counts``); None: they are. Then of each table
            of observations there is the first row of each judge.
        tallies: what ``Suite.tally`` made of each part of the images, where these are not here; None: they are.
        carried: of a block, what ``Suite.carry`` made of the blocks before; None: there is no block before.
    """

    prompts: Mapping[str, Prompt]
    images: pl.DataFrame
    observations: Mapping[str, pl.DataFrame]
    reference: pl.DataFrame | None = None
    judges: Mapping[str, str] = field(default_factory=dict)
    vectors: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Any = None
    counts: Mapping[str, int] | None = None
    tallies: Sequence[Any] | None = None
    carried: Any = None


@dataclass(frozen=True, kw_only=True)
class Score:
    """One reported number. ``value`` is NaN when undefined, never 0 as a stand-in.

    Attributes:
        suite: name of the suite.
        metric: name of the metric.
        protocol: ``released``, ``paper`` or ``revised``.
        value: the number, in ``unit``; NaN if undefined.
        ci_low: lower end of the confidence interval, in ``unit``.
        ci_high: upper end of the confidence interval, in ``unit``.
        n_used: number of images that entered the value.
        n_unusable: number of images without a usable answer. They did not enter the value, unless it counts them as
            wrong or is the share of answers: then they are among ``n_used``.
        group: facet values this number is restricted to; empty for the whole suite.
        unit: unit of the value; empty where the metric of the suite says it (``suites.base.complete_scores``).
        higher_is_better: direction, from the metric of the suite; None where neither is better.
        adjusted: empty for what the judges say; ``rendered``, ``human`` or ``model`` where their error, measured on
            images of known content, or by answers of people or of a model, was taken out and its uncertainty put into
            the interval. ``-unmatched`` follows where it was measured on images not found to be like these.
    """

    suite: str
    metric: str
    protocol: str
    value: float
    ci_low: float
    ci_high: float
    n_used: int
    n_unusable: int
    group: Mapping[str, FacetValue] = field(default_factory=dict)
    unit: str = ""
    higher_is_better: bool | None = None
    adjusted: str = ""


TaskKind = Literal["choice", "list", "scale", "tone", "pair"]
TaskUnit = Literal["picture", "prompt", "pair"]
TaskLevel = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True, kw_only=True)
class RatingTask:
    """A question to people about images of a run.

    Attributes:
        name: unique among the tasks of a run (``gender``, ``attribute: a skirt``, ``count``).
        question: what people are asked, in one sentence; ``{prompt}`` stands for the prompt's text, and the name of a
            facet in braces for its value.
        kind: ``choice`` (a few options), ``list`` (many, with autocompletion), ``scale`` (ordered options), ``tone``
            (swatches of the Monk scale) or ``pair`` (which of two images).
        options: the answers, as text, in order. For ``pair`` these are ``first``, ``second`` and ``tie``, of the images
            of an item in its order; which of them is shown on the left is drawn by lot.
        unit: what is shown: one ``picture``, all images of a ``prompt`` as a grid, or a ``pair`` of images.
        rule: task of the verdicts an answer can be held against.
        key: which of the verdicts of the rule an answer is held against ({"attribute": "a skirt"}).
        level: ``nominal``, ``ordinal`` or ``interval``: what differences between answers mean.
        unsure: options that mean "cannot tell": counted, and no answer.
        help: instructions for annotators.
        examples: per option a sentence, or the path of an image, that shows it.
        only: facets of the prompts it is asked about ({"skill": ("count",)}); empty: all.
    """

    name: str
    question: str
    kind: TaskKind
    options: tuple[str, ...]
    unit: TaskUnit = "picture"
    rule: str = ""
    key: Mapping[str, FacetValue] = field(default_factory=dict)
    level: TaskLevel = "nominal"
    unsure: tuple[str, ...] = ()
    help: str = ""
    examples: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, tuple[FacetValue, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EstimandPart:
    """A weighted mean over images: one term of an ``Estimand``.

    Attributes:
        coefficient: factor of the mean: 1, or -1 for what is subtracted.
        image_ids: id of each image.
        clusters: prompt id of each image.
        predicted: class that the judge's verdict gives each image.
        weights: weight of each image, at least 0; they sum to 1.
        key: which of the rule's verdicts these are, as in ``RatingTask`` and (as ``group``) in judge cards.
    """

    coefficient: float
    image_ids: tuple[str, ...]
    clusters: tuple[str, ...]
    predicted: tuple[str, ...]
    weights: tuple[float, ...]
    key: Mapping[str, FacetValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Estimand:
    """A score as what it is made of, so that the judge's error can be taken out of it.

    ``score.value`` is the sum over parts of coefficient times the weighted mean of ``worth[predicted]``; or, where
    ``terms`` are named, the mean over them of the absolute values of such sums.

    Attributes:
        score: the score as judged.
        rule: task of the verdicts behind the score: the ``task`` of judge cards.
        role: role of the judge whose error the score has (``vqa``, ``skin_tone``, ``detector`` ...).
        worth: number that each class counts as.
        parts: terms of the sum.
        terms: which parts each absolute value is of, by their positions; empty for a plain sum.
        small: whether it is one of many groups of a few images each, which a few labels say nothing about: it is
            adjusted by cards, and by labels only where there are enough of them.
    """

    score: Score
    rule: str
    role: str
    worth: Mapping[str, float]
    parts: tuple[EstimandPart, ...]
    terms: tuple[tuple[int, ...], ...] = ()
    small: bool = False


class Generator(Protocol):
    """Turns requests into images, or into the reason why there is none.

    ``name`` identifies the model and every setting that changes images; a run is only resumed under the same name.
    ``generate`` answers every request exactly once, in order and as soon as it can; it may be given thousands at once,
    and an image depends on its own request alone. What goes wrong with one image is a state of its result; what
    concerns all of them is raised.

    A class whose attribute ``text_only`` is true reads the prompt's text and the seed of a request and nothing else of
    it, so that runs that ask for the same text and seed can share the image.

    A generator may have more methods, which are used if they are there:

    * ``close()``: end processes, connections, temporary files.
    * ``describe() -> Mapping``: what the manifest keeps beside the name (revision, versions, settings); JSON.
    * ``estimate(requests) -> Sequence[str]``: for a dry run, lines on what the requests will take and cost.
    * ``summary() -> Sequence[str]``: after a run, lines on what they took.
    """

    name: str

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]: ...


class Judge(Protocol):
    """Looks at images. ``name`` identifies weights and settings, and enters every observation.

    ``observe`` returns the columns of ``need.table`` (``records.frame`` makes such a table of rows; a judge that fills
    tables beside it returns all of them by name), with at least one row per image: a judge that looked and saw nothing
    says so with one row whose ``query`` is -1 (see the table's description). The first rows are checked:
    ``pipeline.stream.check_rows``.

    The class of a judge that other packages bring by an entry point declares ``role`` (``roles`` for several): which
    needs it can fill.

    A judge may have more members, which are used if they are there:

    * ``check(need)``: raise UsageError if it cannot fill the need (a class it does not know ...). It is called before
      any image is made.
    * ``threshold: float``: score above which a detector's box is best believed, in [0, 1].
    * ``summary() -> Sequence[str]``: after a run, lines on what its images took.
    * ``close()``: end processes and connections.
    """

    name: str

    def observe(self, images: Sequence[LoadedImage], need: Any) -> pl.DataFrame | Mapping[str, pl.DataFrame]: ...


# --------------------------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Column:
    """A column: its name, its type (see ``_dtype``), and what it means."""

    name: str
    dtype: str
    meaning: str


FAILED = "failed: "  # begins the note of an answer that did not come, and may come when asked for again

TABLES: dict[str, tuple[Column, ...]] = {
    "prompts": (
        Column("prompt_id", "str", "id of the prompt"),
        Column("suite", "str", "name of the suite"),
        Column("text", "str", "the prompt"),
        Column("facets", "str", "JSON object: what breakdowns group by"),
        Column("spec", "str", "JSON object: what the suite's rules need"),
        Column("scene", "str", "JSON object: the scene that illustrates the prompt, or null"),
        Column("n_images", "i32", "number of images requested"),
    ),
    "images": (
        Column("image_id", "str", "id of the image"),
        Column("prompt_id", "str", "prompt it was made for"),
        Column("index", "i32", "0 .. n_images - 1"),
        Column("seed", "i64", "seed given to the generator; null for user images and generators without seeds"),
        Column("state", "str", "ok, refused, failed, missing or blank"),
        Column(
            "path", "str", "file: relative to the run directory for generated images, absolute for user images; or null"
        ),
        Column("sha256", "str", "hash of the file's bytes; null without a file"),
        Column("width", "i32", "pixels, after EXIF rotation; null without an image"),
        Column("height", "i32", "pixels, after EXIF rotation; null without an image"),
        Column("note", "str", "why the state is not ok, or what was done to read the file"),
    ),
    "detections": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "name and revision of the detector"),
        Column("query", "i32", "number of the box in the image; -1: the row that records that the image was processed"),
        Column(
            "label", "str", "suite label of the most probable class; null in rows with query -1 and for other classes"
        ),
        Column("raw_label", "str", "the detector's own name of its most probable class"),
        Column("score", "f32", "confidence of the label, in [0, 1]"),
        Column("x0", "f32", "left, pixels"),
        Column("y0", "f32", "top, pixels"),
        Column("x1", "f32", "right, pixels"),
        Column("y1", "f32", "bottom, pixels"),
        Column(
            "class_scores", "list[f32]", "confidence per class of the need, in its order; used by the released rules"
        ),
        Column("color", "str", "most probable colour of the need, or null"),
        Column("color_scores", "list[f32]", "per colour of the need, in its order; empty if not judged"),
    ),
    "segments": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "name and revision of the segmenter"),
        Column(
            "segment", "i32", "number of the object in the image; -1: the row that records that the image was processed"
        ),
        Column("query", "i32", "number of the segmenter's query; a query can yield objects of several classes"),
        Column("label", "str", "suite label; null in rows with segment -1 and for other classes"),
        Column("raw_label", "str", "the segmenter's own name of the class"),
        Column("score", "f32", "confidence, in [0, 1]"),
        Column("x0", "f32", "left, pixels"),
        Column("y0", "f32", "top, pixels"),
        Column("x1", "f32", "right, pixels, exclusive"),
        Column("y1", "f32", "bottom, pixels, exclusive"),
        Column("height", "i32", "height of the mask's image, pixels"),
        Column("width", "i32", "width of the mask's image, pixels"),
        Column("mask", "str", "COCO's compressed run-length encoding (counts); null where only the box is known"),
        Column("color", "str", "colour by the segmenter's own colour head, or by ground truth; null without one"),
        Column("color_scores", "list[f32]", "per colour of the need, in its order; empty without a colour head"),
        Column("pixel_colors", "list[f32]", "per colour of the need: share of the object's pixels that have it"),
    ),
    "depths": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "name and revision of the depth estimator"),
        Column("height", "i32", "height of the map, pixels"),
        Column("width", "i32", "width of the map, pixels; the map covers the whole image, whatever their sizes"),
        Column("low", "f64", "the estimator's value at the farthest point, stored as 0"),
        Column("high", "f64", "the estimator's value at the nearest point, stored as 255"),
        Column("nearness", "str", "the map in steps from 0 (far) to 255 (near), encoded by metrics.depth_maps"),
    ),
    "features": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "network, weights, preprocessing"),
        Column("vector", "list[f32]", "the features, as the network outputs them"),
    ),
    "embeddings": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "model, weights, preprocessing"),
        Column("vector", "list[f32]", "its vector in the space shared with texts, not normalised"),
    ),
    "text_embeddings": (
        Column("text", "str", "the text"),
        Column("judge", "str", "model, weights"),
        Column("vector", "list[f32]", "its vector in the space shared with images, not normalised"),
    ),
    "region_embeddings": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "model, weights, preprocessing"),
        Column("segmenter", "str", "judge that segmented the objects"),
        Column("segment", "i32", "number of the object, as in its table"),
        Column("view", "str", "how the object is shown: masked, square ..."),
        Column("vector", "list[f32]", "its vector in the space shared with texts, not normalised"),
    ),
    "captions": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "captioner and its settings"),
        Column("text", "str", "the caption; null if there is none"),
        Column("note", "str", "why there is none, or null"),
    ),
    "readings": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "OCR engine, its version, models and settings"),
        Column("level", "str", "image (all of its text; one row for each image), line or word"),
        Column("line", "i32", "number of the line in reading order, from 0; -1 in the row of the image"),
        Column("word", "i32", "number of the word in its line, from 0; -1 in rows of images and lines"),
        Column("text", "str", "text that was read, lines separated by line ends; empty: no text; null: no answer"),
        Column("score", "f32", "confidence, in [0, 1]; null where the engine gives none"),
        Column("x0", "f32", "left, pixels; null where the engine gives no boxes"),
        Column("y0", "f32", "top, pixels"),
        Column("x1", "f32", "right, pixels, exclusive"),
        Column("y1", "f32", "bottom, pixels, exclusive"),
        Column("note", "str", "why there is no answer, or null"),
    ),
    "answers": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "model and its settings"),
        Column("question", "str", "the question, as the suite words it"),
        Column("answer", "str", "the reply, verbatim"),
        Column("value", "str", "yes, no, or one of the choices; null where the reply is none of these"),
        Column(
            "probability", "f64", "probability of yes, or of the choice, in [0, 1]; null where the model gives none"
        ),
        Column("note", "str", "why there is no reply (refused, failed), or null"),
    ),
    "token_probabilities": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "model and its settings"),
        Column("question", "str", "the question, as the suite words it"),
        Column("string", "str", "the text whose first token it is"),
        Column("token", "i64", "id of that token in the model's vocabulary; several texts can share one"),
        Column("probability", "f64", "probability, over all tokens, that the reply begins with it, in [0, 1]"),
    ),
    "answer_similarities": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "VQA model, and the model that embeds sentences"),
        Column("question", "str", "the question, as the suite words it"),
        Column("choice", "str", "one of its choices; only for replies that match none of them"),
        Column("cosine", "f64", "cosine of the embeddings of reply and choice, in [-1, 1]"),
    ),
    "preference_scores": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "scorer, its weights and settings"),
        Column("score", "f64", "predicted human preference, on the scorer's own scale; null: no score"),
        Column("deviation", "f64", "the scorer's standard deviation of the score; null where it gives none"),
        Column("text_cut", "bool", "whether the text was truncated for the scorer; null where unknown"),
        Column("note", "str", "why there is no score, or null"),
    ),
    "skin_tones": (
        Column("image_id", "str", "id of the image"),
        Column("judge", "str", "face detector, colour measurement, and their settings"),
        Column("face", "i32", "number of the face in the image, largest first; -1: the row of an image without one"),
        Column("score", "f32", "the face detector's confidence; null where it gives none"),
        Column("x0", "f32", "left of the face, pixels"),
        Column("y0", "f32", "top, pixels"),
        Column("x1", "f32", "right, pixels"),
        Column("y1", "f32", "bottom, pixels"),
        Column(
            "state", "str", "ok, or why its colour is not used: no_face, too_small, profile, grey, no_skin, clipped"
        ),
        Column("note", "str", "the state in words, with the measured numbers, or null"),
        Column("n_pixels", "i32", "number of measured skin pixels"),
        Column("red", "f32", "measured skin colour, red channel, sRGB, 0 to 255"),
        Column("green", "f32", "green channel"),
        Column("blue", "f32", "blue channel"),
        Column("ita_deg", "f64", "individual typology angle of that colour, degrees"),
        Column("tone", "i32", "nearest tone of the Monk scale by CIEDE2000, 1 (lightest) to 10"),
        Column("tone_by_ita", "i32", "nearest tone by ITA, 1 to 10"),
        Column("released_ita_deg", "f64", "mean over pixels of ITA as the released code computes it (swapped, 8 bit)"),
        Column("released_tone", "i32", "nearest tone by released_ita_deg, 1 to 10; the released list counts from 0"),
        Column("rgb_tone", "i32", "nearest swatch by L1 in RGB of pixels that pass the colour rule, 1 to 10, or null"),
        Column(
            "tone_probability",
            "f32",
            "probability of ``tone`` by an estimator, in [0, 1]; null: it is a nearest one",
        ),
    ),
    "ratings": (
        Column("item", "str", "id of an image, of a prompt, or of two images separated by |"),
        Column("task", "str", "name of the question"),
        Column("rater", "str", "name used in the study, or a keyed hash"),
        Column("answer", "str", "the chosen option; null where the rater skipped the item"),
        Column("seconds", "f64", "time from showing to answering, if known"),
        Column("at", "str", "time of the answer, ISO 8601 in UTC, if known"),
        Column("check", "str", "gold, attention or qualification for items with a known answer; null otherwise"),
        Column("source", "str", "browser, mturk, label-studio or table"),
    ),
    "reference": (
        Column("image_id", "str", "id of the real image"),
        Column("state", "str", "ok, or why it cannot be used: missing, failed or blank"),
        Column("path", "str", "file, absolute; null where only its features are known"),
        Column("sha256", "str", "hash of the file's bytes, if known"),
        Column("facets", "str", "JSON object: object, region ..."),
        Column("note", "str", "why the state is not ok"),
    ),
    "verdicts": (
        Column("image_id", "str", "id of the image"),
        Column("prompt_id", "str", "id of its prompt"),
        Column("protocol", "str", "released, paper or revised"),
        Column("rule", "str", "name of the decision, e.g. accuracy, right_number, right_classes"),
        Column("value", "f64", "1 correct, 0 wrong, null without a usable answer"),
        Column("reason", "str", "explanation"),
        Column("detail", "str", "JSON object of values used by breakdowns (e.g. the detected number), or null"),
    ),
    "scores": (
        Column("suite", "str", "suite"),
        Column("metric", "str", "name of the metric"),
        Column("protocol", "str", "released, paper or revised"),
        Column("group", "str", "JSON object of facet values"),
        Column("value", "f64", "the value; null when undefined"),
        Column("ci_low", "f64", "lower end of the 95 % interval; null when undefined"),
        Column("ci_high", "f64", "upper end"),
        Column("n_used", "i64", "images that entered the value"),
        Column(
            "n_unusable",
            "i64",
            "images without a usable answer; only bounds and shares of answers count them in n_used as well",
        ),
        Column("unit", "str", "share, images, ..."),
        Column("higher_is_better", "bool", "direction, or null"),
        Column(
            "adjusted",
            "str",
            "empty, or the source of the judge-error adjustment: rendered, human, model; -unmatched: of unlike images",
        ),
    ),
}


# One number for each image, of a metric that was added to a run.
TABLES["measurements"] = (
    Column("image_id", "str", "id of the image"),
    Column("judge", "str", "name and version of the metric"),
    Column("value", "f64", "the value; null if there is none for this image"),
)
# Vectors of reference images, kept beside those of the run's own.
TABLES["reference_features"] = TABLES["features"]


def _dtype(name: str) -> Any:
    import polars as pl

    simple: dict[str, Any] = {
        "str": pl.String,
        "i32": pl.Int32,
        "i64": pl.Int64,
        "f32": pl.Float32,
        "f64": pl.Float64,
        "bool": pl.Boolean,
        "list[f32]": pl.List(pl.Float32),
    }
    return simple[name]


AnyFrame = TypeVar("AnyFrame", "pl.DataFrame", "pl.LazyFrame")
LATER_COLUMNS: Mapping[str, frozenset[str]] = {"skin_tones": frozenset({"tone_probability"})}
"""Columns that files of earlier versions lack; they are read as null."""


def with_later_columns(table: str, rows: AnyFrame, wanted: Collection[str] | None = None) -> AnyFrame:
    """Rows of a file of an earlier version with the columns of today, those it lacks null; others as they are.

    Args:
        table: name of the table.
        rows: of it, with any of its columns, and others after them.
        wanted: columns that are asked for; None for all.
    """
    import polars as pl

    if table not in LATER_COLUMNS:
        return rows
    present = rows.collect_schema().names()
    lacking = [c for c in LATER_COLUMNS[table] if c not in present and (wanted is None or c in wanted)]
    if not lacking:
        return rows
    types = schema(table)
    filled = rows.with_columns(pl.lit(None, types[name]).alias(name) for name in lacking)
    known = [name for name in types if name in present or name in lacking]
    return filled.select(*known, *(name for name in present if name not in types))


def schema(table: str) -> dict[str, Any]:
    """Column names and polars types of a table, in order."""
    return {column.name: _dtype(column.dtype) for column in TABLES[table]}


def empty_table(table: str) -> pl.DataFrame:
    """A table with the right columns and no rows."""
    import polars as pl

    return pl.DataFrame(schema=schema(table))


def frame(table: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as a table with exactly the columns of ``table``; columns a row does not name are null.

    Raises:
        ValueError: a row names a column the table does not have.
    """
    import polars as pl

    columns = schema(table)
    for row in rows:
        if unknown := sorted(set(row) - set(columns)):
            raise ValueError(f"table {table!r} has no column {unknown}; its columns are {list(columns)}")
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in columns}, schema=columns)


def reading_rows(
    image_id: str, judge: str, words: Sequence[tuple[int, str, float | None, tuple[float, float, float, float] | None]]
) -> list[dict[str, Any]]:
    """Rows of table ``readings`` for an image of which an engine tells every word: of the image, its lines, its words.

    Args:
        image_id: the image.
        judge: who signs the rows.
        words: line, text, confidence in [0, 1] and box (x0, y0, x1, y1) of each word, in reading order; no confidence
            or box: None. A line's text is its words with spaces between, its confidence their mean.
    """
    lines: dict[int, list[tuple[str, float | None, tuple[float, float, float, float] | None]]] = {}
    for line, text, score, box in words:
        lines.setdefault(line, []).append((text, score, box))
    same: dict[str, Any] = {"image_id": image_id, "judge": judge}
    texts = [" ".join(text for text, _, _ in of_line) for of_line in lines.values()]
    rows = [{**same, "level": "image", "line": -1, "word": -1, "text": "\n".join(texts)}]
    for number, (text, of_line) in enumerate(zip(texts, lines.values(), strict=True)):
        known = [score for _, score, _ in of_line if score is not None]
        boxes = [box for _, _, box in of_line if box is not None]
        score = sum(known) / len(known) if len(known) == len(of_line) else None
        edges: dict[str, float] = {}
        if boxes:
            lefts, tops, rights, bottoms = zip(*boxes, strict=True)
            edges = {"x0": min(lefts), "y0": min(tops), "x1": max(rights), "y1": max(bottoms)}
        rows.append({**same, "level": "line", "line": number, "word": -1, "text": text, "score": score, **edges})
        for position, (word, confidence, box) in enumerate(of_line):
            place = {} if box is None else dict(zip(("x0", "y0", "x1", "y1"), box, strict=True))
            row = {**same, "level": "word", "line": number, "word": position, "text": word, "score": confidence}
            rows.append(row | place)
    return rows


def vector_rows(table: str, keys: Sequence[str], judge: str, vectors: np.ndarray) -> pl.DataFrame:
    """Rows of a table of vectors (``features``, ``embeddings``, ``text_embeddings`` ...), one for each key.

    Args:
        table: name of the table.
        keys: image ids, or texts.
        judge: name of the judge that computed the vectors.
        vectors: array (N, D), row i for key i; kept as float32.

    Raises:
        ValueError: another number of vectors than of keys.
    """
    import numpy as np
    import polars as pl

    if vectors.ndim != 2 or len(vectors) != len(keys):
        raise ValueError(
            f"{len(keys)} rows of table {table!r} need vectors of shape ({len(keys)}, D), got {vectors.shape}"
        )
    columns = schema(table)
    values = pl.Series(np.ascontiguousarray(vectors, dtype=np.float32)).cast(columns["vector"])
    if not keys:
        return empty_table(table)
    first = next(iter(columns))
    return pl.DataFrame({first: list(keys), "judge": [judge] * len(keys), "vector": values}, schema=columns)


def vectors_of(column: pl.Series) -> np.ndarray:
    """The column ``vector`` of a table as an array of shape (N, D), float32; (0, 0) for no rows.

    Raises:
        VerismError: vectors that are missing or of several lengths.
    """
    import numpy as np

    from verism.errors import VerismError

    if column.is_empty():
        return np.zeros((0, 0), dtype=np.float32)
    lengths = column.list.len().unique().to_list()
    if len(lengths) != 1 or lengths[0] is None:
        raise VerismError(f"vectors of one judge must be of one size; got lengths {sorted(lengths, key=str)}")
    return column.explode().to_numpy().reshape(len(column), lengths[0])


def content_hash(value: Any) -> str:
    """SHA-256 of a JSON-serialisable value in canonical form: the same for the same content on every machine."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """A JSON-serialisable value as text in canonical form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
