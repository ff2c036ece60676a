"""Every name the command line knows, in one place; nothing is imported before it is asked for.

A name is ``kind:argument?key=value&key=value``. Behind a kind stands a class (or a function) whose typed signature says
what it takes: see ``verism.options``. Other packages add kinds by entry points in the groups ``verism.generators``,
``verism.judges`` and ``verism.trackers``, whose classes follow the very same conventions. A judge serves in a role
(``records.roles()``): what kind of question it can answer about an image; its class says so by an attribute ``role``,
or ``roles`` for several.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl

from verism import plugins
from verism.errors import UsageError, VerismError
from verism.options import Context, Signature, build, read_signature
from verism.records import Generator, Judge, Renderer, option_of, roles
from verism.trackers.hooks import Tracker

__all__ = [
    "GENERATORS",
    "JUDGES",
    "TRACKER",
    "TRACKERS",
    "Context",
    "Kind",
    "ModelPool",
    "Spec",
    "kinds",
    "make_generator",
    "make_judge",
    "make_tracker",
]

# Name of a kind: the class or function that makes it, and what it is.
GENERATORS: Mapping[str, tuple[str, str]] = {
    "builtin": (
        "verism.generators.builtin:BuiltinGenerator",
        "Built-in small model, trained on rendered PaintSkills: builtin, builtin:FOLDER, builtin:temperature=0.8",
    ),
    "diffusers": (
        "verism.generators.diffusers_pipeline:DiffusersGenerator",
        "Any diffusers pipeline: diffusers:ID_OR_PATH?steps=50&guidance=7.5",
    ),
    "openai": (
        "verism.generators.openai_images:OpenAIImages",
        "OpenAI-compatible image service (see --base-url): openai:MODEL",
    ),
    "command": (
        "verism.generators.command:CommandGenerator",
        "Your own program, which exchanges lines of JSON: command:./generate.py",
    ),
    "python": (
        "verism.generators.function:load_generator",
        "Your own Python function: python:module:factory?key=value",
    ),
    "images": (
        "verism.generators.folder:matched_images",
        "Existing images: images:FOLDER or images:list.csv; same as --images",
    ),
    "scripted": (
        "verism.generators.scripted:ScriptedGenerator",
        "Rendered images with a known error rate: scripted:error=0.2",
    ),
    "oracle": (
        "verism.generators.scripted:oracle",
        "Correctly rendered images, which show the best score a judge allows",
    ),
    "people": (
        "verism.generators.people:drawn_people",
        "Rendered people of known appearance: people:female=0.3&tones=1:0.1,5:0.5,10:0.4&wears=skirt:0.4/0.0",
    ),
}

# By role, then by kind.
JUDGES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "detector": {
        "builtin": (
            "verism.judges.detection.builtin:BuiltinDetector",
            "Built-in detector, trained on rendered scenes; needs no extra",
        ),
        "transformers": (
            "verism.judges.detection.transformers_detector:TransformersDetector",
            "Detectors with fixed classes: transformers:ID_OR_PATH",
        ),
        "detr": (
            "verism.judges.detection.detr_original:OriginalDetr",
            "Checkpoints of the original DETR code: detr:FILE?classes=coco91",
        ),
        "open-vocabulary": (
            "verism.judges.detection.open_vocabulary:OpenVocabularyDetector",
            "OWLv2, Grounding DINO: open-vocabulary:ID_OR_PATH",
        ),
        "results": (
            "verism.judges.detection.results:DetectionResults",
            "Boxes from another program: results:FILE.csv or .jsonl",
        ),
    },
    "segmenter": {
        "transformers": (
            "verism.judges.segmentation.transformers_segmenter:TransformersSegmenter",
            "Mask2Former, MaskFormer, DETR with masks: transformers:ID_OR_PATH",
        ),
        "boxes": (
            "verism.judges.segmentation.box_segmenter:BoxSegmenter",
            "Boxes of a detector, without masks: boxes:ID_OR_PATH, boxes:builtin",
        ),
    },
    "depth": {
        "transformers": (
            "verism.judges.depth.transformers_depth:TransformersDepth",
            "DPT, Depth Anything, ZoeDepth and similar: transformers:ID_OR_PATH",
        ),
        "results": (
            "verism.judges.depth.results:DepthResults",
            "Depth maps from another program, one .npy per image: results:FOLDER",
        ),
    },
    "features": {
        "builtin": (
            "verism.judges.features.builtin:BuiltinFeatures",
            "Features of the built-in detector; offline, for demonstrations and dry runs",
        ),
        "inception": (
            "verism.judges.features.inception:inception_features",
            "ImageNet Inception-v3 with torchvision's weights, as in DIG In: inception:FILE",
        ),
        "fid-inception": (
            "verism.judges.features.inception:fid_features",
            "FID Inception network, ported to PyTorch (pytorch-fid, torch-fidelity): fid-inception:FILE",
        ),
        "torchscript": (
            "verism.judges.features.torchscript:TorchScriptFeatures",
            "FID Inception network as a TorchScript program: torchscript:FILE?sha256=...",
        ),
        "clip": (
            "verism.judges.features.transformers_features:clip_features",
            "Image embeddings of CLIP-like models: clip:ID_OR_PATH",
        ),
        "dinov2": (
            "verism.judges.features.transformers_features:dinov2_features",
            "Class token of DINOv2: dinov2:ID_OR_PATH",
        ),
    },
    "clip": {
        "builtin": (
            "verism.judges.embedding.builtin:BuiltinEmbedder",
            "Built-in image-text model, trained on rendered scenes and people; needs no extra",
        ),
        "clip": (
            "verism.judges.embedding.clip:ClipJudge",
            "CLIP, SigLIP and similar: ID_OR_PATH, ViT-B/32, ViT-L/14, ViT-L/14-DataComp.XL",
        ),
    },
    "captioner": {
        "transformers": (
            "verism.judges.captions.transformers_captioner:TransformersCaptioner",
            "BLIP, BLIP-2, GIT, LLaVA and similar: transformers:ID_OR_PATH",
        ),
        "openai": (
            "verism.judges.captions.openai_captioner:OpenAICaptioner",
            "Chat model of an OpenAI-compatible service (see --base-url): openai:MODEL",
        ),
        "results": (
            "verism.judges.captions.results:CaptionResults",
            "Captions from another program, as COCO results: results:FILE.json",
        ),
    },
    "vqa": {
        "builtin": (
            "verism.judges.vqa.builtin:BuiltinVqa",
            "Built-in model, which knows clothes of rendered people and objects of rendered scenes; needs no extra",
        ),
        "transformers": (
            "verism.judges.vqa.transformers_vqa:TransformersVqa",
            "BLIP, BLIP-2, InstructBLIP, LLaVA and similar: transformers:ID_OR_PATH",
        ),
        "openai": (
            "verism.judges.vqa.openai_vision:OpenAIVqa",
            "Chat model of an OpenAI-compatible service (see --base-url): openai:MODEL",
        ),
        "results": (
            "verism.judges.vqa.results:AnswerResults",
            "Answers from another program: results:FILE.csv or .jsonl",
        ),
        "classifier": (
            "verism.judges.vqa.image_classifier:ImageClassifier",
            "Image classifier, for suites with one question: classifier:ID_OR_PATH?yes=LABEL",
        ),
        "nearest": (
            "verism.judges.vqa.nearest:NearestChoice",
            "Adds to a free reply the choice nearest to it: nearest:SENTENCE_MODEL?vqa=NAME",
        ),
    },
    "ocr": {
        "tesseract": (
            "verism.judges.ocr.tesseract:Tesseract",
            "Program tesseract (apt install tesseract-ocr): tesseract, tesseract:psm=6&lang=eng",
        ),
        "rapidocr": (
            "verism.judges.ocr.rapidocr_engine:RapidOcr",
            "PaddleOCR's networks, included in the package rapidocr; needs no GPU and no download",
        ),
        "transformers": (
            "verism.judges.ocr.transformers_ocr:TransformersOcr",
            "TrOCR (line by line), Qwen-VL, LLaVA and similar: transformers:ID_OR_PATH",
        ),
        "openai": (
            "verism.judges.ocr.openai_ocr:OpenAIOcr",
            "Chat model of an OpenAI-compatible service (see --base-url): openai:MODEL",
        ),
        "results": (
            "verism.judges.ocr.results:OcrResults",
            "Texts from another program: results:FILE.csv or .jsonl",
        ),
    },
    "scorer": {
        "pickscore": (
            "verism.judges.preference.pickscore:PickScore",
            "PickScore, exp(scale) x cosine of CLIP: pickscore:yuvalkirstain/PickScore_v1, pickscore:FOLDER",
        ),
        "hpsv2.1": (
            "verism.judges.preference.hps:hpsv2_1",
            "HPS v2.1, 100 x cosine of a ViT-H-14: hpsv2.1:HPS_v2.1_compressed.pt",
        ),
        "hpsv2": (
            "verism.judges.preference.hps:hpsv2",
            "HPS v2.0, whose scale differs from v2.1: hpsv2:HPS_v2_compressed.pt",
        ),
        "imagereward": (
            "verism.judges.preference.imagereward:ImageReward",
            "ImageReward, BLIP with a head: imagereward:ImageReward.pt",
        ),
        "hpsv3": (
            "verism.judges.preference.hpsv3:Hpsv3",
            "HPSv3, Qwen2-VL with a head: hpsv3:HPSv3.safetensors?wording=data_collator_qwen.py",
        ),
        "results": (
            "verism.judges.preference.results:PreferenceResults",
            "Scores from another program: results:FILE.csv or .jsonl",
        ),
    },
    "skin_tone": {
        "builtin": (
            "verism.judges.skin_tone.kinds:builtin",
            "Built-in networks, trained on rendered people; offline: builtin, builtin:FILE, builtin:colour=pixels",
        ),
        "cascade": (
            "verism.judges.skin_tone.kinds:cascade",
            "Faces by OpenCV's cascades; offline; misses many dark faces",
        ),
        "onnx": ("verism.judges.skin_tone.kinds:onnx", "Faces by YuNet, SCRFD or UltraFace: onnx:FILE.onnx"),
        "fan": (
            "verism.judges.skin_tone.kinds:fan",
            "Faces by 68 landmarks of the face-alignment package, as in the paper",
        ),
        "picture": (
            "verism.judges.skin_tone.kinds:image",
            "Whole image, without searching for faces: picture:colour=rule",
        ),
    },
}
TRACKERS: Mapping[str, tuple[str, str]] = {
    "mlflow": (
        "verism.trackers.mlflow_tracker:MLflow",
        "MLflow: mlflow:FOLDER, mlflow:http://HOST:5000?experiment=NAME",
    ),
    "wandb": (
        "verism.trackers.wandb_tracker:WeightsAndBiases",
        "Weights & Biases: wandb:PROJECT?entity=TEAM, wandb:PROJECT?mode=offline&dir=FOLDER",
    ),
    "tensorboard": ("verism.trackers.tensorboard_tracker:TensorBoard", "TensorBoard: tensorboard:FOLDER"),
}
TRACKER = "tracker"  # what trackers are asked for by, where judges are by a role and generators by None
INNER = "make_inner"  # parameter of judges that are put around another of their role: makes that of its name
# Roles whose usual kind may be left out: --clip ID_OR_PATH, --vqa ID_OR_PATH, --depth ID_OR_PATH.
BARE: Mapping[str, str] = {
    "clip": "clip",
    "captioner": "transformers",
    "vqa": "transformers",
    "depth": "transformers",
}


@dataclass(frozen=True)
class Spec:
    """A parsed ``kind:argument?key=value`` name. ``scripted:error=0.2`` is short for ``scripted:?error=0.2``."""

    kind: str
    argument: str
    options: Mapping[str, str]

    @staticmethod
    def parse(text: str) -> Spec:
        kind, _, rest = text.partition(":")
        if "?" in kind:  # options and no argument: cascade?min_face=32
            kind, _, rest = text.partition("?")
            rest = f"?{rest}"
        if kind == "command":  # a command line has its own ? and =; its factory finds our options behind it
            return Spec(kind, rest, {})
        argument, question, query = rest.partition("?")
        if not question and "=" in rest and not Path(rest).exists():
            argument, query = "", rest
        try:
            options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        except ValueError:
            raise UsageError(f"{text!r}: options are written key=value&key=value, got {query!r}") from None
        return Spec(kind, argument, options)


@dataclass(frozen=True)
class Kind:
    """A kind of generator or judge that can be named.

    Attributes:
        name: what stands before the colon.
        text: what it is, in a line.
        package: the package that brings it; empty: verism itself.
        load: imports its class or function.
    """

    name: str
    text: str
    package: str
    load: Callable[[], Callable[..., Any]]

    def signature(self, role: str | None) -> Signature:
        """What can be written for it; ``role`` is that of a judge, None for a generator, ``TRACKER`` for a tracker."""
        return read_signature(self.load(), tuple(_supplied(Context(), role)))


def _table(role: str | None) -> Mapping[str, tuple[str, str]]:
    """The kinds that come with verism."""
    if role is None:
        return GENERATORS
    return TRACKERS if role == TRACKER else JUDGES.get(role, {})


def kinds(role: str | None = None, *, broken: list[str] | None = None) -> list[Kind]:
    """The kinds of generators, of judges of a role, or of trackers: verism's own, then those of installed packages.

    Args:
        role: one of ``roles()``, ``TRACKER``, or None for generators.
        broken: given, plug-ins that cannot be used are told in it; otherwise they raise.

    Raises:
        VerismError: a plug-in cannot be loaded, or is a judge that declares no role.
    """
    table = _table(role)
    results = [Kind(name, text, "", functools.partial(_import, target)) for name, (target, text) in table.items()]
    for entry in _entries(role):
        try:
            target = _load(entry)
            if not _serves(target, entry, role):
                continue
            if entry.name not in table:
                text = (inspect.getdoc(target) or "").strip().partition("\n")[0]
                results.append(Kind(entry.name, text, _package(entry), functools.partial(_load, entry)))
            elif broken is not None:
                broken.append(f"the plug-in {entry.name!r} of {_package(entry)} is hidden by verism's own of that name")
        except VerismError as err:
            if broken is None:
                raise
            broken.append(str(err))
    return results


def _entries(role: str | None) -> Iterator[metadata.EntryPoint]:
    group = {None: "verism.generators", TRACKER: "verism.trackers"}.get(role, "verism.judges")
    yield from plugins.entry_points(group=group)


def _serves(target: Callable[..., Any], entry: metadata.EntryPoint, role: str | None) -> bool:
    """Whether a plug-in is what is asked for: of its group, a judge also by the roles it declares."""
    return role in (None, TRACKER) or role in _roles(target, entry)


def _package(entry: metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module.partition(".")[0]


def _import(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    result: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return result


def _load(entry: metadata.EntryPoint) -> Callable[..., Any]:
    """The class or function of a plug-in.

    Raises:
        VerismError: it cannot be imported, whatever the reason.
    """
    try:
        target = entry.load()
    except Exception as err:  # a foreign module can fail in any way
        raise VerismError(
            f"the plug-in {entry.name!r} of {_package(entry)} ({entry.value}) cannot be loaded: "
            f"{type(err).__name__}: {err}"
        ) from err
    if not callable(target):
        raise VerismError(f"the plug-in {entry.name!r} of {_package(entry)} is no class or function: {target!r}")
    result: Callable[..., Any] = target
    return result


def _roles(target: Callable[..., Any], entry: metadata.EntryPoint) -> tuple[str, ...]:
    """The roles that a judge of a plug-in declares.

    Raises:
        VerismError: none, or one that does not exist.
    """
    declared = getattr(target, "roles", None) or getattr(target, "role", None) or ()
    served = (declared,) if isinstance(declared, str) else tuple(declared)
    unknown = sorted(set(served) - set(roles()))
    if unknown or not served:
        answer = f"the unknown role {', '.join(unknown)}" if served else "no role"
        raise VerismError(
            f"the judge {entry.name!r} of {_package(entry)} declares {answer}; give its class an attribute role (or "
            f"roles), of {', '.join(roles())}"
        )
    return served


def _find(kind: str, role: str | None) -> Callable[..., Any]:
    """The class or function of a kind.

    Raises:
        UsageError: no such kind, one for another role, or one that two packages bring.
    """
    table = _table(role)
    if kind in table:
        return _import(table[kind][0])
    entries = [entry for entry in _entries(role) if entry.name == kind]
    fitting = [e for e in entries if _serves(_load(e), e, role)]
    if len(fitting) == 1:
        return _load(fitting[0])
    if fitting:
        raise UsageError(f"{kind!r} comes from {' and by '.join(sorted(map(_package, fitting)))}; uninstall one")
    what = "model" if role is None else role
    for other, known in JUDGES.items():
        if role not in (None, TRACKER) and kind in known:
            raise UsageError(f"{kind!r} is no {what}: it serves as {option_of(other)}.{_there_are(kind, role)}")
    if entries:
        serves = " and ".join(option_of(r) for e in entries for r in _roles(_load(e), e))
        raise UsageError(f"{kind!r} is no {what}: it serves as {serves}.{_there_are(kind, role)}")
    raise UsageError(f"unknown {what} {kind!r}.{_there_are(kind, role)}")


def _there_are(kind: str, role: str | None) -> str:
    known = [each.name for each in kinds(role, broken=[])]
    near = difflib.get_close_matches(kind, known, n=2)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{hint} There are: {', '.join(known)}"


def _supplied(context: Context, role: str | None) -> dict[str | type, Callable[[], Any]]:
    """What a run gives to its generator (``role`` None) or to a judge, by the name or the type of a parameter."""
    if role == TRACKER:  # which knows what it is told of a run, and nothing else
        return {}
    supplied: dict[str | type, Callable[[], Any]] = {
        each.name: functools.partial(getattr, context, each.name) for each in fields(Context)
    }
    supplied[Context] = lambda: context
    if role is not None:
        del supplied["size"]  # of rendered images: to a judge, a size is that of its network's input
        supplied[INNER] = lambda: functools.partial(make_judge, context=context, role=role)
        return supplied
    supplied[Renderer] = lambda: make_renderer(context)
    supplied["person_renderer"] = lambda: _person_renderer
    supplied["garments"] = _garments
    return supplied


def make_generator(text: str | Spec, context: Context) -> Generator:
    """The generator of a name.

    Raises:
        UsageError: unknown kind or option. MissingExtra: a library it needs is not installed.
    """
    generator: Generator = _make(None, text, _supplied(context, None))
    return generator


def make_judge(text: str, context: Context, role: str = "detector") -> Judge:
    """The judge of a name, for a role (see ``make_generator``)."""
    judge: Judge = _make(role, text, _supplied(context, role))
    return judge


def make_tracker(text: str) -> Tracker:
    """The tracker of a name: ``mlflow:FOLDER?experiment=NAME``, ``tensorboard:FOLDER`` ...

    Args:
        text: the name, as ``--track`` takes it.

    Raises:
        UsageError: unknown kind or option. MissingExtra: a library it needs is not installed.
    """
    tracker = _make(TRACKER, text, {})
    if not isinstance(tracker, Tracker):
        raise VerismError(f"the tracker {text.partition(':')[0]!r} has no name or no method log(evaluation)")
    return tracker


def _make(role: str | None, text: str | Spec, supplied: Mapping[str | type, Callable[[], Any]]) -> Any:
    """A judge of a role, or a generator (``role`` None), of what a run supplies."""
    if isinstance(text, str) and role is not None and role in BARE and _is_bare(text, role):
        text = f"{BARE[role]}:{text}"
    spec = Spec.parse(text) if isinstance(text, str) else text
    target = _find(spec.kind, role)
    argument, options = spec.argument, spec.options
    if role is None and spec.kind == "command":  # its own options stand behind those of the command
        from verism.generators.command import split_options

        argument, options = split_options(argument)
    return build(target, argument, options, kind=spec.kind, supplied=supplied)


class ModelPool:
    """Generators and judges by name, each loaded once and shared by all runs that it fits.

    Which parts of a run's ``Context`` an object was made from is noted while it is made: a network of the hub does not
    read the prompts and serves every suite, a results file does and is read anew for other prompts.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str | None, str], list[tuple[dict[str, Any], Any]]] = {}

    def generator(self, text: str, context: Context) -> Generator:
        """The generator of a name (see ``make_generator``), for a run with this context."""
        generator: Generator = self._shared(None, text, context)
        return generator

    def judge(self, text: str, context: Context, role: str) -> Judge:
        """The judge of a name, for a role, for a run with this context."""
        judge: Judge = self._shared(role, text, context)
        return judge

    def _shared(self, role: str | None, text: str, context: Context) -> Any:
        known = self._made.setdefault((role, text), [])
        for read, made in known:
            if all(getattr(context, name) == value for name, value in read.items()):
                return made
        noted = _NotedContext(context)
        made = _make(role, text, noted.supplied(role))
        known.append((noted.read, made))
        return made

    def close_generators(self) -> None:
        """Close the generators; judges stay."""
        self._close([key for key in self._made if key[0] is None])

    def close(self) -> None:
        """Close everything that was made here."""
        self._close(list(self._made))

    def _close(self, keys: Sequence[tuple[str | None, str]]) -> None:
        for key in keys:
            for _, made in self._made.pop(key):
                getattr(made, "close", lambda: None)()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _NotedContext:
    """A context that notes which of its fields are read; what has the whole of it may read every one."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.read: dict[str, Any] = {}

    def supplied(self, role: str | None) -> dict[str | type, Callable[[], Any]]:
        """As ``_supplied``, noting."""
        every = tuple(each.name for each in fields(Context))
        of_renderer = ("size", "assets", "processes")

        def noting(key: str | type, make: Callable[[], Any]) -> Callable[[], Any]:
            whole = key in (Context, INNER)
            names = every if whole else (key,) if key in every else of_renderer if key is Renderer else ()

            def made() -> Any:
                self.read |= {str(name): getattr(self.context, str(name)) for name in names}
                return make()

            return made

        return {key: noting(key, make) for key, make in _supplied(self.context, role).items()}


def _is_bare(text: str, role: str) -> bool:
    """Whether a name says no kind: it is the name of a model on the hub, or a path."""
    kind = re.split("[:?]", text, maxsplit=1)[0]
    if kind in JUDGES.get(role, {}) or any(entry.name == kind for entry in _entries(role)):
        return False
    head = text.partition("?")[0]
    return ":" not in head or Path(head).exists()


def make_renderer(context: Context) -> Renderer:
    """The simulator, with the user's own assets if any; in several processes if the context says so."""
    from verism.simulator.catalogue import standard_catalogue
    from verism.simulator.parallel_renderer import ParallelRenderer
    from verism.simulator.scene_renderer import SIZES, SceneRenderer

    if not SIZES[0] <= context.size <= SIZES[1]:
        raise UsageError(f"--size must be {SIZES[0]} to {SIZES[1]} pixels, got {context.size}")
    if context.processes > 1:
        return ParallelRenderer(context.size, context.assets, context.processes)
    catalogue = standard_catalogue()
    if context.assets is not None:
        catalogue = catalogue.with_assets(context.assets)
    return SceneRenderer(context.size, catalogue)


def _person_renderer(size: int, view: str) -> Any:
    from verism.simulator.portraits import PeopleRenderer

    return PeopleRenderer(size, view)  # type: ignore[arg-type]  # which it checks


def _garments() -> tuple[str, ...]:
    from verism.simulator.wardrobe import ATTRIBUTES

    return tuple(ATTRIBUTES)
