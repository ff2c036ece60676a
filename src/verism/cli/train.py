"""``verism train``: the judge and the generator that are shipped, or your own, or a model finetuned."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click

from verism.cli.common import put_scores
from verism.errors import UsageError
from verism.terminal import SEED, Failures, Group, PathType, put_json, say, without_nan
from verism.training.settings import (
    EMBEDDER_RENDERING,
    FACE_RENDERING,
    TRAIN_SUITE,
    DetectorConfig,
    EmbedderConfig,
    FacesConfig,
    FinetuneConfig,
    GeneratorConfig,
    Interval,
    Rendering,
    SceneChoice,
    SecondLookConfig,
    SkinToneConfig,
    value_type,
)

__all__ = ["train"]

F = TypeVar("F", bound=Callable[..., Any])

_DISK = PathType(disk="a training writes to a disk; name a folder of this machine")

_FLAGS = {
    "minutes": "--minutes",
    "steps": "--steps",
    "epochs": "--epochs",
    "start": "--start",
    "keep": "--keep",
    "learn": "--learn",
    "held_out": "--held-out",
    "lora_rank": "--lora",
    "batch_size": "--batch",
    "gradient_accumulation": "--accumulate",
    "size": "--size",
    "width": "--width",
    "scenery_width": "--scenery-width",
    "lr": "--lr",
    "fraction": "--fraction",
    "resolution": "--resolution",
    "revision": "--revision",
    "seed": "--seed",
    "device": "--device",
    "workers": "--workers",
}
"""The settings that are options, in the order of the help; the others are for callers of the functions."""

_BASES: dict[str, type] = {"builtin": GeneratorConfig, "diffusers": FinetuneConfig}


# --------------------------------------------------------------------------------------------------------------------
# Options from settings
# --------------------------------------------------------------------------------------------------------------------
def _setting_options(configs: Mapping[str, type], *, without: tuple[str, ...] = ()) -> Callable[[F], F]:
    """An option for each setting in ``_FLAGS``: type, range, help and default are those of its field.

    An option that is not given is None, and the settings class fills in its default.

    Args:
        configs: settings classes by the name under which the help tells them apart.
        without: settings that are no options of this command.
    """

    def decorate(command: F) -> F:
        for name, flag in reversed(_FLAGS.items()):
            owners = {label: _field(config, name) for label, config in configs.items() if _field(config, name)}
            if owners and name not in without:
                config = configs[next(iter(owners))]
                command = click.option(flag, name, type=_click_type(config, name), help=_help(owners, configs))(command)
        return command

    return decorate


def _field(config: type, name: str) -> Any:
    return next((f for f in dataclasses.fields(config) if f.name == name), None)


def _click_type(config: type, name: str) -> Any:
    kind, within = value_type(config, name), _field(config, name).metadata["within"]
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if not isinstance(within, Interval):
        return kind
    (low, high), (above, below) = within.bounds, within.is_open
    upper = None if high == float("inf") else high
    if kind is int:
        return click.IntRange(int(low), None if upper is None else int(upper), above, below and upper is not None)
    return click.FloatRange(low, upper, above, below and upper is not None)


def _help(owners: Mapping[str, Any], configs: Mapping[str, type]) -> str:
    """What the settings are, for whom, and their defaults."""
    abouts: dict[str, str] = {label: field.metadata["about"] for label, field in owners.items()}
    some = len(owners) < len(configs)
    if len(set(abouts.values())) == 1:
        text = next(iter(abouts.values())) + (f" ({', '.join(owners)})" if some else "")
    else:
        text = " ".join(f"{label}: {about}" for label, about in abouts.items())
    defaults = {label: field.default for label, field in owners.items() if field.default is not None}
    if len(set(defaults.values())) == 1 and len(defaults) == len(owners):
        return f"{text}  [default: {next(iter(defaults.values()))}]"
    if defaults:
        return f"{text}  [default: {', '.join(f'{value} ({label})' for label, value in defaults.items())}]"
    return text


def _given(config: type, options: Mapping[str, Any], *, otherwise: str | None = None) -> dict[str, Any]:
    """The options that were given, as arguments of a settings class.

    Args:
        config: the settings class.
        options: their values by name; None where one was not given.
        otherwise: when the other options are for; None: with another ``--base``.

    Raises:
        UsageError: one of them is no setting of this class.
    """
    by_key = {name: value for name, value in options.items() if value is not None}
    if foreign := [flag for name, flag in _FLAGS.items() if name in by_key and _field(config, name) is None]:
        bases = " and ".join(sorted(label for label, other in _BASES.items() if other is not config))
        raise UsageError(f"{', '.join(foreign)}: only {otherwise or f'for --base {bases}'}")
    return by_key


# --------------------------------------------------------------------------------------------------------------------
# Commands
# --------------------------------------------------------------------------------------------------------------------
@click.group(cls=Group)
def train() -> None:
    """Train what verism ships, or your own; finetune a model.

    \b
    verism train detector --scenes DATA --out detector --minutes 60
    verism train embedder --out embedder --minutes 70
    verism train faces --out faces --minutes 15
    verism train skin-tone --examples faces/examples --out tones --minutes 15
    verism train generator --base builtin --scenes DATA --out generator --minutes 90
    verism train generator --base diffusers:my_model --lora 16 --steps 5000 --out tuned
    """


@train.command("detector")
@click.option(
    "--suite", "suites", multiple=True, help="Suite whose classes to learn; repeatable.  [default: both PaintSkills]"
)
@click.option(
    "--scenes",
    "scene_dirs",
    multiple=True,
    required=True,
    type=PathType(),
    help="Folder of rendered scenes; repeatable.",
)
@click.option("--out", required=True, type=_DISK, help="Output folder: checkpoint, log, detector.onnx.")
@_setting_options({"detector": DetectorConfig})
@click.option(
    "--generated", type=click.IntRange(0), default=0, show_default=True,
    help="Number of train prompts to generate additional images for, in OUT/generated, half by each edition of the "
    "built-in generator.",
)  # fmt: skip
@click.option("--generated-seed", type=SEED, default=0, show_default=True, help="Seed of --generated.")
@click.option(
    "--second-look", "second", is_flag=True,
    help="Train only the second look, which classifies single cut-out objects and their colours. It starts from "
    "--start (default: builtin), and the next export of the detector in --out includes it.",
)  # fmt: skip
@click.option("--fresh", is_flag=True, help="Start over even if --out has a checkpoint.")
@click.option("--export-only", is_flag=True, help="Export and measure the current checkpoint of --out.")
def train_detector(
    suites: tuple[str, ...],
    scene_dirs: tuple[Path, ...],
    out: Path,
    *,
    generated: int,
    generated_seed: int,
    second: bool,
    fresh: bool,
    export_only: bool,
    **options: Any,
) -> None:
    """Train a compact detector on rendered train scenes and export it to ONNX. Resumes from its checkpoint.

    \b
    verism scenes render paintskills --split train --limit 6000 --seed 1 --out DATA
    verism train detector --suite paintskills --scenes DATA --out detector --minutes 60
    verism train detector --start builtin --scenes DATA --generated 2000 --out detector --minutes 30
    verism train detector --second-look --scenes DATA --out detector --minutes 30
    verism train detector --export-only --scenes DATA --out detector
    verism run paintskills --images my_images --detector builtin:detector/detector.onnx --out runs/mine
    """
    from verism.suites.catalogue import make_suite
    from verism.training.detector import train_and_export

    kind: type[DetectorConfig] | type[SecondLookConfig] = SecondLookConfig if second else DetectorConfig
    value = _given(kind, options, otherwise="without --second-look")
    if suites:
        value["classes"] = tuple(dict.fromkeys(label for name in suites for label in make_suite(name, limit=1).classes))
    config = kind(**value, resume=not fresh)
    result = train_and_export(
        scene_dirs, out, config, export_only=export_only, generated=generated, generated_seed=generated_seed, say=say
    )
    put_json(without_nan(result))


def _rendered_options(
    label: str, config: type, rendering: Rendering, *, out: str, without: tuple[str, ...] = ()
) -> Callable[[F], F]:
    """Options of a training whose examples can be rendered.

    Args:
        label: of the settings in the help.
        config: settings class.
        rendering: how many images are rendered by default.
        out: help of ``--out``.
        without: settings that are no options of this command.
    """
    options: tuple[Callable[[Any], Any], ...] = (
        click.option(
            "--examples", "folders", multiple=True, type=PathType(),
            help="Examples of an earlier call (its OUT/examples).  [default: render some into OUT/examples]",
        ),
        click.option(
            "--render", "n_examples", type=click.IntRange(1), default=rendering.count, show_default=True,
            help="Without --examples: number of images to render.",
        ),
        click.option(
            "--test", "n_test", type=click.IntRange(0), default=rendering.test, show_default=True,
            help="Test images to render with another seed; 0: none.",
        ),
        click.option("--out", required=True, type=_DISK, help=out),
        _setting_options({label: config}, without=without),
        click.option("--fresh", is_flag=True, help="Start over even if --out has a checkpoint."),
        click.option("--export-only", is_flag=True, help="Export and measure the current checkpoint of --out."),
    )  # fmt: skip

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _train_on_rendered(training: Callable[..., dict[str, Any]], kind: type, options: dict[str, Any]) -> None:
    """Call a ``RenderedTraining`` as the options of ``_rendered_options`` say, and print what it measured."""
    folders, out, export_only = (options.pop(name) for name in ("folders", "out", "export_only"))
    rendering = Rendering(count=options.pop("n_examples"), test=options.pop("n_test"))
    config = kind(resume=not options.pop("fresh"), **_given(kind, options))
    result = training(folders, out, config, rendering=rendering, export_only=export_only, say=say)
    put_json(without_nan(result))


@train.command("embedder")
@_rendered_options(
    "embedder",
    EmbedderConfig,
    EMBEDDER_RENDERING,
    out="Output folder: checkpoint, log, the two ONNX files, evaluation.",
)
def train_embedder(**options: Any) -> None:
    """Train a small image-text model on rendered scenes and dressed people, and export it to ONNX. Resumes.

    \b
    verism train embedder --minutes 70 --out embedder
    verism train embedder --examples embedder/examples --seed 2 --minutes 70 --out another
    verism run gender_presentation --model people:wears=skirt:0.4/0.0 --clip builtin:embedder --out runs/gep
    verism run social_bias --model people:wears=tie:0.0/0.3,shirt:0.8 --vqa builtin:embedder --out runs/bias
    """
    from verism.training.embedder import train_and_export

    _train_on_rendered(train_and_export, EmbedderConfig, options)


@train.command("faces")
@_rendered_options(
    "faces", FacesConfig, FACE_RENDERING, out="Output folder: checkpoint, log, face_finder.onnx, evaluation.",
    without=("learn",),
)  # fmt: skip
def train_faces(**options: Any) -> None:
    """Train a small face finder on rendered people of all skin tones, and export it to ONNX. Resumes.

    \b
    verism train faces --minutes 15 --out faces
    verism train skin-tone --examples faces/examples --minutes 15 --out tones
    verism run social_bias --images DIR --skin-tone builtin:faces/face_finder.onnx --out runs/mine
    """
    from verism.training.faces import train_and_export

    _train_on_rendered(train_and_export, FacesConfig, options)


@train.command("skin-tone")
@_rendered_options(
    "skin-tone", SkinToneConfig, FACE_RENDERING,
    out="Output folder: checkpoint, log, skin_tone_estimator.onnx, evaluation.",
)  # fmt: skip
def train_skin_tone(**options: Any) -> None:
    """Train a small estimator of skin tone on rendered faces in varied light, and export it to ONNX. Resumes.

    \b
    verism train skin-tone --minutes 15 --out tones
    verism train skin-tone --examples faces/examples --minutes 15 --out tones
    verism run social_bias --images DIR --skin-tone builtin:estimator=tones/skin_tone_estimator.onnx --out runs/mine
    """
    from verism.training.skin_tone import train_and_export

    _train_on_rendered(train_and_export, SkinToneConfig, options)


@train.command("generator")
@click.option(
    "--base",
    default="builtin",
    show_default=True,
    help="builtin: verism's small model, from scratch; diffusers:ID_OR_PATH: finetune a Stable Diffusion model.",
)
@click.option("--suite", default=TRAIN_SUITE, show_default=True, help="Suite whose train scenes to learn.")
@click.option("--skill", "skills", multiple=True, help="Learn only this skill; repeatable. all: every skill.")
@click.option(
    "--scenes",
    "scene_dirs",
    multiple=True,
    type=PathType(),
    help="Rendered train scenes (for builtin with --masks).  [default: render some into OUT/scenes]",
)
@click.option(
    "--render",
    "n_scenes",
    type=click.IntRange(1),
    default=6000,
    show_default=True,
    help="Without --scenes: number of scenes to render.",
)
@click.option("--out", required=True, type=_DISK, help="Output folder: checkpoints, log, model, evaluation.")
@_setting_options({"scenes": SceneChoice})
@_setting_options(_BASES)
@click.option("--cache", type=_DISK, help="Cache folder for encoded images (builtin).")
@click.option("--fresh", is_flag=True, help="Start over even if --out has a checkpoint.")
@click.option("--export-only", is_flag=True, help="Export the checkpoints of --out as they are (builtin).")
@click.option(
    "--evaluate",
    "n_prompts",
    type=click.IntRange(0),
    default=240,
    show_default=True,
    help="Number of test prompts to evaluate on afterwards; 0: none.",
)
def train_generator(base: str, suite: str, out: Path, *, n_prompts: int, **options: Any) -> None:
    """Train a text-to-image model on rendered train scenes, then evaluate it on test prompts. Resumes.

    \b
    verism scenes render paintskills --split train --limit 6000 --seed 1 --size 192 --masks --out DATA
    verism train generator --base builtin --scenes DATA --out generator --minutes 90
    verism run paintskills --model builtin:generator/model --limit 240 --out runs/mine
    verism train generator --base diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5 --lora 16 --epochs 5 --out tuned
    verism train generator --base diffusers:my_model --skill spatial --fraction 0.5 --steps 5000 --out half
    """
    skills = options.pop("skills")
    wanted = None if not skills or "all" in skills else tuple(dict.fromkeys(skills))
    choice = SceneChoice(skills=wanted, **_given(SceneChoice, {"fraction": options.pop("fraction")}))
    kind, _, source = base.partition(":")
    if kind not in _BASES or bool(source) != (kind == "diffusers"):
        raise UsageError(f"--base is builtin or diffusers:ID_OR_PATH, got {base!r}")
    folders, n_scenes = options.pop("scene_dirs"), options.pop("n_scenes")
    actions = {name: options.pop(name) for name in ("cache", "export_only")}
    config = _BASES[kind](resume=not options.pop("fresh"), **_given(_BASES[kind], options))
    if kind == "diffusers" and any(actions.values()):
        raise UsageError("--cache and --export-only are for --base builtin")
    if not actions["export_only"]:
        config.check_length()
    if not folders:
        folders = (_render_train_scenes(suite, wanted, n_scenes, out / "scenes", config.seed),)
    if kind == "builtin":
        from verism.training.generator import train_and_export

        result = train_and_export(folders, out, config, choice=choice, suite=suite, say=say, **actions)
        model = f"builtin:{result['model']}"
    else:
        result, model = _finetune(source, folders, out, config, choice, suite)
    say(f"model: {model}")
    if n_prompts:
        failures = Failures()
        finished = _evaluate(
            suite, out, model=model, skills=wanted, limit=n_prompts, seed=config.seed,
            device=None if config.device == "auto" else config.device, on_failure=failures, on_summary=say,
        )  # fmt: skip
        put_scores(finished, as_json=False)
        failures.report()
        say(f"run: {finished.path}")
    put_json(without_nan(result | {"name": model}))


def _finetune(
    source: str, folders: tuple[Path, ...], out: Path, config: FinetuneConfig, choice: SceneChoice, suite: str
) -> tuple[dict[str, Any], str]:
    """Finetune a diffusers model; returns its card and its name as ``--model`` takes it."""
    from verism.training.finetuning import finetune_diffusers
    from verism.training.image_text_pairs import image_text_pairs

    pairs = image_text_pairs(folders, choice, seed=config.seed)
    say(f"{len(pairs):,} images to learn from")
    about = {"suite": suite, "fraction": choice.fraction}
    folder = finetune_diffusers(source, pairs, config, out=out, about=about, log=_say_progress)
    model = f"diffusers:{source}?lora={folder}" if config.lora_rank else f"diffusers:{folder}"
    if config.lora_rank and config.revision:
        model += f"&revision={config.revision}"
    return {"model": str(folder), "pictures": len(pairs), "fraction": choice.fraction}, model


def _evaluate(suite: str, out: Path, **options: Any) -> Any:
    """The model's run in ``out/evaluation``; trained on, it is another model, and gets ``evaluation-2`` and so on."""
    from verism import api
    from verism.store import SettingsChanged

    for number in itertools.count(1):
        try:
            return api.evaluate(suite, out=out / ("evaluation" if number == 1 else f"evaluation-{number}"), **options)
        except SettingsChanged:
            continue
    raise AssertionError("unreachable")


def _render_train_scenes(suite: str, skills: tuple[str, ...] | None, count: int, out: Path, seed: int) -> Path:
    """Train scenes with masks in a folder; those that are there already are kept."""
    import os

    from verism.registry import Context, make_renderer
    from verism.training.train_scenes import SCENE_SIZE, render_train_scenes

    renderer = make_renderer(Context(size=SCENE_SIZE, processes=os.cpu_count() or 1))
    failures = Failures()
    try:
        render_train_scenes(
            suite,
            renderer,
            out,
            skills=skills,
            count=count,
            seed=seed,
            on_start=lambda n: say(f"rendering {n:,} train scenes into {out}"),
            on_failure=failures,
        )
    finally:
        getattr(renderer, "close", lambda: None)()
    failures.report()
    return out


def _say_progress(line: Any) -> None:
    """A line of the training log for a person."""
    if line.get("event") in ("train", "start", "end", "stopped"):
        say("  ".join(f"{k} {v}" for k, v in line.items() if isinstance(v, (int, float, str))))
