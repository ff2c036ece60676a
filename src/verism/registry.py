"""Every name the command line knows, in one place; nothing is imported before it is asked for.

A name is ``kind:argument?key=value&key=value``. Other packages add kinds by entry points in the groups
``verism.generators`` and ``verism.judges``: a callable ``(argument, options, context) -> Generator`` or ``Judge``.
Judges serve in a role (``records.ROLES``): what kind of question they can answer about a picture.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

from verism.errors import UsageError
from verism.records import Generator, Judge, Painter, Prompt

__all__ = [
    "GENERATORS",
    "JUDGES",
    "Context",
    "Spec",
    "make_generator",
    "make_judge",
]

GENERATORS: Mapping[str, tuple[str, str]] = {
    "builtin": (
        "verism.registry:_builtin_generator",
        "our small model, trained on rendered PaintSkills: builtin, builtin:FOLDER, builtin:temperature=0.8",
    ),
    "diffusers": ("verism.registry:_diffusers", "any diffusers pipeline: diffusers:ID_OR_PATH?steps=50&guidance=7.5"),
    "openai": ("verism.registry:_openai", "OpenAI's images interface, theirs or another's (--base-url): openai:MODEL"),
    "command": ("verism.registry:_command", "a program of yours, asked by lines of JSON: command:./paint.py"),
    "python": ("verism.registry:_python", "a function of yours: python:module:factory?key=value"),
    "images": ("verism.registry:_images", "pictures that exist: images:FOLDER or images:list.csv; same as --images"),
    "scripted": (
        "verism.registry:_scripted",
        "rendered pictures, wrong on purpose at a known rate: scripted:error=0.2",
    ),
    "oracle": ("verism.registry:_oracle", "rendered pictures of the very scenes: the upper bound of a judge"),
    "people": (
        "verism.registry:_people",
        "rendered people of known looks: people:female=0.3&tones=1:0.1,5:0.5,10:0.4&wears=skirt:0.4/0.0",
    ),
}

# By role, then by kind.
JUDGES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "detector": {
        "builtin": ("verism.registry:_builtin", "our detector, trained on rendered scenes; no extra needed"),
        "transformers": ("verism.registry:_transformers", "closed-set detectors: transformers:ID_OR_PATH"),
        "detr": ("verism.registry:_detr", "original-format DETR checkpoints: detr:FILE?classes=coco91"),
        "open-vocabulary": ("verism.registry:_open_vocabulary", "OWLv2, Grounding DINO: open-vocabulary:ID_OR_PATH"),
    },
    "features": {
        "builtin": ("verism.registry:_builtin_features", "of our detector: offline, for demonstrations and dry runs"),
        "inception": ("verism.registry:_inception", "ImageNet Inception-v3, torchvision's weights (DIG In): FILE"),
        "fid-inception": (
            "verism.registry:_fid_inception",
            "the FID network's port (pytorch-fid, torch-fidelity): FILE",
        ),
        "torchscript": ("verism.registry:_torchscript", "the FID network as a program: FILE?sha256=..."),
        "clip": ("verism.registry:_clip_features", "image vectors of CLIP-like models: ID_OR_PATH"),
        "dinov2": ("verism.registry:_dinov2", "class token of DINOv2: ID_OR_PATH"),
    },
    "clip": {
        "clip": ("verism.registry:_clip", "CLIP, SigLIP ...: ID_OR_PATH, ViT-B/32, ViT-L/14, ViT-L/14-DataComp.XL"),
    },
    "captioner": {
        "transformers": ("verism.registry:_captioner", "BLIP, BLIP-2, GIT, LLaVA ...: transformers:ID_OR_PATH"),
        "openai": ("verism.registry:_openai_captioner", "a chat model behind a service (--base-url): openai:MODEL"),
        "results": ("verism.registry:_caption_results", "captions made elsewhere, COCO results: results:FILE.json"),
    },
    "vqa": {
        "transformers": ("verism.registry:_vqa", "BLIP, BLIP-2, InstructBLIP, LLaVA ...: transformers:ID_OR_PATH"),
        "openai": ("verism.registry:_openai_vqa", "a chat model behind a service (--base-url): openai:MODEL"),
        "results": ("verism.registry:_answer_results", "answers given elsewhere: results:FILE.csv or .jsonl"),
    },
    "skin_tone": {
        "cascade": ("verism.registry:_cascade_faces", "faces by OpenCV's cascades: offline; misses many dark ones"),
        "onnx": ("verism.registry:_onnx_faces", "faces by YuNet, SCRFD, UltraFace: onnx:FILE.onnx"),
        "fan": ("verism.registry:_fan_faces", "68 landmarks of the face-alignment package, as in the paper"),
        "picture": ("verism.registry:_picture_skin", "no faces, the whole picture: picture:colour=rule"),
    },
}
# Roles whose usual kind may be left out: --clip ID_OR_PATH, --vqa ID_OR_PATH.
BARE: Mapping[str, str] = {"clip": "clip", "captioner": "transformers", "vqa": "transformers"}


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


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a generator or judge may need to know of the run it serves."""

    prompts: Sequence[Prompt] = ()
    classes: Mapping[str, str] = field(default_factory=dict)  # shape in scene files by label
    colors: Sequence[str] = ()
    size: int = 256
    assets: Path | None = None
    processes: int = 1
    threads: int | None = None
    device: str | None = None
    base_url: str | None = None
    cache: Path | None = None  # folder of vectors by content, shared between runs
    on_matched: Callable[[str], None] | None = None


def _resolve(kind: str, table: Mapping[str, tuple[str, str]], group: str, what: str) -> Callable[..., Any]:
    if kind in table:
        module, _, name = table[kind][0].partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return found
    for entry in metadata.entry_points(group=group):
        if entry.name == kind:
            loaded: Callable[..., Any] = entry.load()
            return loaded
    near = difflib.get_close_matches(kind, table, n=2)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(f"unknown {what} {kind!r}.{hint} There are: {', '.join(table)}")


def make_generator(text: str | Spec, context: Context) -> Generator:
    """The generator of a name.

    Raises:
        UsageError: unknown kind or option. MissingExtra: a library it needs is not installed.
    """
    spec = Spec.parse(text) if isinstance(text, str) else text
    generator: Generator = _resolve(spec.kind, GENERATORS, "verism.generators", "model")(
        spec.argument, dict(spec.options), context
    )
    return generator


def make_judge(text: str, context: Context, role: str = "detector") -> Judge:
    """The judge of a name, for a role (see ``make_generator``)."""
    kinds = JUDGES[role]
    if role in BARE and _is_bare(text):
        text = f"{BARE[role]}:{text}"
    spec = Spec.parse(text)
    judge: Judge = _resolve(spec.kind, kinds, "verism.judges", role)(spec.argument, dict(spec.options), context)
    return judge


def _is_bare(text: str) -> bool:
    """Whether a name says no kind: it is the name of a model on the hub, or a path."""
    head = text.partition("?")[0]
    return ":" not in head or Path(head).exists()


def make_painter(context: Context) -> Painter:
    """The simulator, with the user's own assets if any; in several processes if the context says so."""
    from verism.simulator.catalogue import standard_catalogue
    from verism.simulator.painter import SIZES, ScenePainter
    from verism.simulator.parallel import ParallelPainter

    if not SIZES[0] <= context.size <= SIZES[1]:
        raise UsageError(f"--size must be {SIZES[0]} to {SIZES[1]} pixels, got {context.size}")
    if context.processes > 1:
        return ParallelPainter(context.size, context.assets, context.processes)
    catalogue = standard_catalogue()
    if context.assets is not None:
        catalogue = catalogue.with_assets(context.assets)
    return ScenePainter(context.size, catalogue)


# ---------------------------------------------------------------------------------------------------------- factories
def _take(options: dict[str, str], name: str, kind: type, default: Any) -> Any:
    value = options.pop(name, None)
    if value is None:
        return default
    if kind is bool:
        if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise UsageError(f"option {name}={value!r}: expected true or false")
        return value.lower() in ("true", "1", "yes")
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"option {name}={value!r}: expected a {kind.__name__}") from None


def _done(kind: str, argument: str, options: Mapping[str, str], *, takes_argument: bool = False) -> None:
    if options:
        raise UsageError(f"{kind}: unknown option {sorted(options)}")
    if argument and not takes_argument:
        raise UsageError(f"{kind}: takes no argument, got {argument!r}")
    if takes_argument and not argument:
        raise UsageError(f"{kind}: name a model, for example {kind}:some-id-or-path")


def _scripted(argument: str, options: dict[str, str], context: Context) -> Generator:
    from verism.generators.scripted import MISTAKES, ScriptedGenerator

    error = _take(options, "error", float, 0.2)
    mistakes = tuple(_take(options, "mistakes", str, "+".join(MISTAKES)).replace(" ", "+").split("+"))
    _done("scripted", argument, options)
    return ScriptedGenerator(
        make_painter(context), classes=context.classes, colors=context.colors, error=error, mistakes=mistakes
    )


def _oracle(argument: str, options: dict[str, str], context: Context) -> Generator:
    from verism.generators.scripted import ScriptedGenerator

    _done("oracle", argument, options)
    return ScriptedGenerator(make_painter(context), classes=context.classes, colors=context.colors, error=0.0)


def _people(argument: str, options: dict[str, str], context: Context) -> Generator:
    from verism.generators.people import PeopleGenerator, PlainPeople, parse_tones, parse_wears
    from verism.simulator.portraits import PeoplePainter
    from verism.simulator.wardrobe import ATTRIBUTES

    draw = _take(options, "draw", str, "rendered")
    if draw not in ("rendered", "plain"):
        raise UsageError(f"people: draw={draw!r}: expected rendered or plain")
    view: Any = _take(options, "view", str, "full")
    painter = PeoplePainter(context.size, view) if draw == "rendered" else PlainPeople(tuple(ATTRIBUTES), context.size)
    settings: dict[str, Any] = {
        "female": _take(options, "female", float, 0.5),
        "tones": parse_tones(_take(options, "tones", str, "even")),
        "wears": parse_wears(_take(options, "wears", str, "")),
        "strength": _take(options, "strength", float, 0.0),
        "tone_strength": _take(options, "tone_strength", float, 0.0),
        "facet": _take(options, "facet", str, "profession"),
        "seed": _take(options, "seed", int, 0),
    }
    _done("people", argument, options)
    return PeopleGenerator(painter, **settings)


def _builtin_generator(argument: str, options: dict[str, str], context: Context) -> Generator:
    from verism.generators.builtin import DEFAULTS, BuiltinGenerator

    settings = {name: _take(options, name, float, default) for name, default in DEFAULTS.items()}
    size = _take(options, "size", int, context.size)
    _done("builtin", "", options)
    return BuiltinGenerator(Path(argument) if argument else None, size=size, threads=context.threads, **settings)


def _diffusers(argument: str, options: dict[str, str], context: Context) -> Generator:
    from verism.generators.diffusers_pipeline import DiffusersGenerator

    settings: dict[str, Any] = {
        name: _take(options, name, kind, default)
        for name, kind, default in (
            ("revision", str, None), ("variant", str, None), ("steps", int, None), ("guidance", float, None),
            ("dtype", str, "auto"), ("scheduler", str, None), ("negative", str, None), ("width", int, None),
            ("height", int, None), ("lora", str, None), ("lora_scale", float, 1.0), ("batch_size", int, 4),
            ("device", str, context.device), ("offload", str, "none"), ("local_files_only", bool, False),
            ("safety", str, "default"),
        )
    }  # fmt: skip
    # What is left may be an argument of the pipeline's own; it refuses those it does not take.
    arguments, rest = dict(options), dict[str, str]()
    _done("diffusers", argument, rest, takes_argument=True)
    return DiffusersGenerator(argument, arguments=arguments, **settings)


def _openai(argument: str, options: dict[str, str], context: Context) -> Generator:
    from verism.generators.openai_images import ImageOptions, OpenAIImages
    from verism.services import ServiceOptions

    settings: dict[str, Any] = {
        "image": _fields(ImageOptions, options),
        "seed_field": _take(options, "seed_field", str, None),
        "price": _take(options, "price", float, None),
        "service": _fields(ServiceOptions, options, base_url=context.base_url),
    }
    _done("openai", argument, options, takes_argument=True)
    return OpenAIImages(argument, **settings)


def _fields(cls: type, options: dict[str, str], **usual: Any) -> Any:
    """A frozen dataclass of options, from those that are given; ``none`` leaves a number out."""
    from verism.services import parse_extra

    values = {name: value for name, value in usual.items() if value is not None}
    for name, hint in get_type_hints(cls).items():
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if get_origin(hint) is Mapping:
            values[name] = {key: parse_extra(text) for key, text in (_renamed(options, name) or {}).items()}
        elif NoneType in kinds and str not in kinds and options.get(name) == "none":
            del options[name]
            values[name] = None
        elif name in options:
            values[name] = _take(options, name, kinds[0] if isinstance(kinds[0], type) else str, None)
    return cls(**values)


def _command(argument: str, options: dict[str, str], context: Context) -> Generator:  # noqa: ARG001
    from verism.generators.command import CommandGenerator, split_options

    command, own = split_options(argument)
    settings: dict[str, Any] = {
        "ahead": _take(own, "ahead", int, 32),
        "timeout": _take(own, "timeout", float, None),
        "restarts": _take(own, "restarts", int, 2),
        "cwd": _take(own, "cwd", str, None),
    }
    _done("command", command, own | options, takes_argument=True)
    return CommandGenerator(command, **settings)


def _python(argument: str, options: dict[str, str], context: Context) -> Generator:  # noqa: ARG001
    from verism.generators.function import load_generator

    return load_generator(argument, options)


def _images(argument: str, options: dict[str, str], context: Context) -> Generator:
    from verism.generators.folder import FolderGenerator, match_pictures

    _done("images", argument, options, takes_argument=True)
    prompts = context.prompts
    matching = match_pictures(Path(argument), prompts)
    if context.on_matched is not None:
        context.on_matched(matching.table())
    if not matching.files:
        example = prompts[0].prompt_id if prompts else "count_val_00000"
        raise UsageError(
            f"none of the {len(prompts):,} prompts has a picture in {argument}: expected names such as "
            f"image_{example}.png or {example}.png, or a manifest (.csv, .jsonl) with columns path and prompt_id or "
            f"prompt. Found: {', '.join(p.name for p in matching.ignored[:3]) or 'nothing'}"
        )
    return FolderGenerator(matching)


def _builtin(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.detection.builtin import BuiltinDetector

    path = Path(argument) if argument else None
    _done("builtin", "", options)
    return BuiltinDetector(path, threads=context.threads)


def _transformers(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.detection.transformers_detector import TransformersDetector

    settings = _hub_options(options, context) | {
        "preprocessing": _take(options, "preprocessing", str, "model"),
        "min_score": _take(options, "min_score", float, 0.0),
    }
    aliases = _aliases(options)
    _done("transformers", argument, options, takes_argument=True)
    return TransformersDetector(argument, aliases=aliases, **settings)


def _detr(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.detection.detr_original import OriginalDetr

    settings: dict[str, Any] = {
        "classes": _take(options, "classes", str, "coco91"),
        "dilation": _take(options, "dilation", bool, None),
        "preprocessing": _take(options, "preprocessing", str, "released"),
        "batch_size": _take(options, "batch_size", int, 4),
        "device": _take(options, "device", str, context.device),
        "dtype": _take(options, "dtype", str, "float32"),
        "min_score": _take(options, "min_score", float, 0.0),
        "aliases": _aliases(options),
    }
    _done("detr", argument, options, takes_argument=True)
    return OriginalDetr(argument, **settings)


def _open_vocabulary(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.detection.open_vocabulary import OpenVocabularyDetector

    settings = _hub_options(options, context) | {"min_score": _take(options, "min_score", float, 0.05)}
    if "template" in options:
        settings["template"] = options.pop("template")
    settings["phrases"] = _renamed(options, "phrase")
    _done("open-vocabulary", argument, options, takes_argument=True)
    return OpenVocabularyDetector(argument, **settings)


def _builtin_features(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.features.builtin import BuiltinFeatures

    batch_size = _take(options, "batch_size", int, 8)
    _done("builtin", "", options)
    return BuiltinFeatures(argument or None, threads=context.threads, batch_size=batch_size, cache=context.cache)


def _inception(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.features.inception import inception_features

    path = _weights(argument, options)
    settings = _inception_options(options, context, preprocessing="digin")
    _done("inception", argument, options, takes_argument=True)
    return inception_features(path, **settings)


def _fid_inception(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.features.inception import fid_features

    path = _weights(argument, options)
    settings = _inception_options(options, context, preprocessing="fid")
    _done("fid-inception", argument, options, takes_argument=True)
    return fid_features(path, **settings)


def _weights(argument: str, options: dict[str, str]) -> Path:
    from verism.judges.features.weights import located

    return located(argument, revision=_take(options, "revision", str, None))


def _inception_options(options: dict[str, str], context: Context, *, preprocessing: str) -> dict[str, Any]:
    return {
        "preprocessing": _take(options, "preprocessing", str, preprocessing),
        "layer": _take(options, "layer", str, "pool"),
        "sha256": _take(options, "sha256", str, None),
        "device": _take(options, "device", str, context.device),
        "dtype": _take(options, "dtype", str, "float32"),
        "batch_size": _take(options, "batch_size", int, 16),
        "cache": context.cache,
    }


def _torchscript(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.features.torchscript import TorchScriptFeatures

    settings: dict[str, Any] = {
        "sha256": _take(options, "sha256", str, None),
        "device": _take(options, "device", str, context.device),
        "batch_size": _take(options, "batch_size", int, 16),
        "cache": context.cache,
    }
    _done("torchscript", argument, options, takes_argument=True)
    return TorchScriptFeatures(argument, **settings)


def _clip_features(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.features.hub import clip_features

    settings = _vector_options(options, context) | {"layer": _take(options, "layer", str, None)}
    _done("clip", argument, options, takes_argument=True)
    return clip_features(argument, **settings)


def _dinov2(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.features.hub import dinov2_features

    settings = _vector_options(options, context) | {"layer": _take(options, "layer", str, None)}
    _done("dinov2", argument, options, takes_argument=True)
    return dinov2_features(argument, **settings)


def _clip(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.embedding.clip import ClipJudge

    settings = _vector_options(options, context)
    _done("clip", argument, options, takes_argument=True)
    return ClipJudge(argument, **settings)


def _captioner(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.captions.transformers_captioner import TransformersCaptioner

    settings = _hub_options(options, context) | {
        "prompt": _take(options, "prompt", str, None),
        "beams": _take(options, "beams", int, 5),
        "max_new_tokens": _take(options, "max_new_tokens", int, 20),
    }
    _done("transformers", argument, options, takes_argument=True)
    return TransformersCaptioner(argument, **settings)


def _caption_results(argument: str, options: dict[str, str], context: Context) -> Judge:  # noqa: ARG001
    from verism.judges.captions.results import CaptionResults

    _done("results", argument, options, takes_argument=True)
    return CaptionResults(Path(argument))


def _vqa(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.vqa.transformers_vqa import TransformersVqa

    settings = _hub_options(options, context) | {
        "prompt": _take(options, "prompt", str, None),
        "choice_prompt": _take(options, "choice_prompt", str, None),
        "choose": _take(options, "choose", str, "auto"),
        "beams": _take(options, "beams", int, None),
        "max_new_tokens": _take(options, "max_new_tokens", int, None),
        "settings": _take(options, "settings", str, None),
    }
    _done("transformers", argument, options, takes_argument=True)
    return TransformersVqa(argument, **settings)


def _openai_vqa(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.vqa.openai_vision import OpenAIVqa

    taken = [name for name in ("ask", "prompt", "choice_prompt", "choose") if name in options]
    settings: dict[str, Any] = {name: options.pop(name) for name in taken}
    return OpenAIVqa(**_vision(argument, options, context), **settings)


def _openai_captioner(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.captions.openai_captioner import OpenAICaptioner

    settings: dict[str, Any] = {"prompt": options.pop("prompt")} if "prompt" in options else {}
    return OpenAICaptioner(**_vision(argument, options, context), **settings)


def _vision(argument: str, options: dict[str, str], context: Context) -> dict[str, Any]:
    """What judges behind a service take alike."""
    from verism.judges.vision_endpoint import VisionOptions
    from verism.services import ServiceOptions

    settings = {
        "model": argument,
        "vision": _fields(VisionOptions, options),
        "service": _fields(ServiceOptions, options, base_url=context.base_url),
    }
    if "max_tokens" in options:
        settings["max_tokens"] = _take(options, "max_tokens", int, None)
    _done("openai", argument, options, takes_argument=True)
    return settings


def _cascade_faces(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.skin_tone.cascade import MAX_SIDE, PASSES, CascadeFaces

    settings: dict[str, Any] = {
        "passes": tuple(_take(options, "passes", str, "+".join(PASSES)).replace(" ", "+").split("+")),
        "profiles": _take(options, "profiles", bool, True),
        "min_neighbors": _take(options, "min_neighbors", int, 5),
        "scale_factor": _take(options, "scale_factor", float, 1.1),
        "max_side": _take(options, "max_side", int, MAX_SIDE),
    }
    colour = _skin_options(options, context)
    _done("cascade", argument, options)
    return _skin_tone(CascadeFaces(**settings), colour)


def _onnx_faces(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.skin_tone.networks import OnnxFaces

    settings: dict[str, Any] = {
        "min_score": _take(options, "min_score", float, None),
        "size": _take(options, "size", int, None),
        "half": _take(options, "half", bool, True),
        "threads": context.threads,
    }
    colour = _skin_options(options, context)
    _done("onnx", argument, options, takes_argument=True)
    return _skin_tone(OnnxFaces(argument, **settings), colour)


def _fan_faces(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.skin_tone.alignment import FanFaces

    device = _take(options, "device", str, context.device)
    detector = _take(options, "detector", str, "sfd")
    colour = _skin_options(options, context)
    _done("fan", argument, options)
    return _skin_tone(FanFaces(device=device, detector=detector), colour)


def _picture_skin(argument: str, options: dict[str, str], context: Context) -> Judge:
    from verism.judges.skin_tone.judge import WholePicture

    colour = _skin_options(options, context)
    _done("picture", argument, options)
    return _skin_tone(WholePicture(), colour)


def _skin_options(options: dict[str, str], context: Context) -> dict[str, Any]:
    """How the colour of a face is measured, whoever finds it."""
    from verism.judges.skin_tone.judge import MAX_YAW_DEG, MIN_FACE, MIN_REGION
    from verism.judges.skin_tone.regions import PARTS

    trust = _take(options, "trust", str, None)
    return {
        "colour": _take(options, "colour", str, "pixels" if trust is None else "trust"),
        "average": _take(options, "average", str, "median"),
        "illumination": _take(options, "illumination", str, "none"),
        "region": tuple(_take(options, "region", str, "+".join(PARTS)).replace(" ", "+").split("+")),
        "min_face": _take(options, "min_face", float, MIN_FACE),
        "max_yaw": _take(options, "max_yaw", float, MAX_YAW_DEG),
        "min_pixels": _take(options, "min_pixels", int, MIN_REGION),
        "trust": None
        if trust is None
        else {
            "folder": trust,
            "device": _take(options, "trust_device", str, context.device),
            "dtype": _take(options, "dtype", str, "float32"),
            "batch_size": _take(options, "batch_size", int, 8),
            "seed": _take(options, "seed", int, 0),
        },
    }


def _skin_tone(finder: Any, settings: dict[str, Any]) -> Judge:
    from verism.judges.skin_tone.judge import SkinToneJudge

    trust = settings.pop("trust")
    albedo = None
    if trust is not None:
        from verism.judges.skin_tone.trust import TrustAlbedo

        albedo = TrustAlbedo(**trust, average=settings["average"])
    return SkinToneJudge(finder, albedo=albedo, **settings)


def _answer_results(argument: str, options: dict[str, str], context: Context) -> Judge:  # noqa: ARG001
    from verism.judges.vqa.results import AnswerResults

    _done("results", argument, options, takes_argument=True)
    return AnswerResults(Path(argument))


def _vector_options(options: dict[str, str], context: Context) -> dict[str, Any]:
    return _hub_options(options, context, batch_size=32) | {
        "preprocessing": _take(options, "preprocessing", str, "model"),
        "cache": context.cache,
    }


def _hub_options(options: dict[str, str], context: Context, *, batch_size: int = 8) -> dict[str, Any]:
    return {
        "revision": _take(options, "revision", str, None),
        "device": _take(options, "device", str, context.device),
        "dtype": _take(options, "dtype", str, "float32"),
        "batch_size": _take(options, "batch_size", int, batch_size),
        "local_files_only": _take(options, "local_files_only", bool, False),
    }


def _aliases(options: dict[str, str]) -> dict[str, str] | None:
    """``alias.bike=bicycle`` options: a model's class name for one of the suite's."""
    return _renamed(options, "alias")


def _renamed(options: dict[str, str], prefix: str) -> dict[str, str] | None:
    """Options ``prefix.NAME=value`` as {NAME: value}, taken out of the options."""
    taken = [key for key in options if key.startswith(f"{prefix}.")]
    return {key.removeprefix(f"{prefix}."): options.pop(key) for key in taken} or None
