"""``verism train``: the judge and the generator that are shipped, or your own, or a model finetuned."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import click

from verism.cli.common import put_scores
from verism.errors import UsageError
from verism.terminal import Failures, Group, put_json, say, without_nan

__all__ = ["train"]


@click.group(cls=Group)
def train() -> None:
    """Train what verism ships, or your own; finetune a model.

    \b
    verism train detector --scenes DATA --out detector --minutes 60
    verism train generator --base builtin --scenes DATA --out generator --minutes 90
    verism train generator --base diffusers:my_model --lora 16 --steps 5000 --out tuned
    """


@train.command("detector")
@click.option("--suite", "suites", multiple=True, help="Suites whose classes to learn.  [default: both PaintSkills]")
@click.option(
    "--scenes", "scene_dirs", multiple=True, required=True, type=click.Path(path_type=Path), help="Rendered scenes."
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Checkpoint, log, detector.onnx.")
@click.option("--minutes", type=float, help="Length of the training; resumed parts count.")
@click.option("--steps", type=click.IntRange(1), help="Or its length in steps.")
@click.option("--batch", type=click.IntRange(2), default=16, show_default=True)
@click.option("--width", type=float, default=0.8, show_default=True, help="Multiplies the channels of the network.")
@click.option("--lr", type=float, default=2e-3, show_default=True, help="Highest learning rate.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--device", default="auto", show_default=True, help="cpu, cuda ...")
@click.option("--workers", type=click.IntRange(1), help="CPU cores.  [default: all]")
@click.option("--fresh", is_flag=True, help="Start anew even if --out has a checkpoint.")
@click.option("--export-only", is_flag=True, help="Export and measure the checkpoint of --out as it is.")
def train_detector(
    suites: tuple[str, ...],
    scene_dirs: tuple[Path, ...],
    out: Path,
    minutes: float | None,
    steps: int | None,
    batch: int,
    width: float,
    lr: float,
    seed: int,
    device: str,
    workers: int | None,
    fresh: bool,
    export_only: bool,
) -> None:
    """Train a compact detector on rendered train scenes and export it to ONNX. Resumes from its checkpoint.

    \b
    verism scenes render paintskills --split train --limit 6000 --seed 1 --out DATA
    verism train detector --suite paintskills --scenes DATA --out detector --minutes 60
    verism run paintskills --images my_pictures --detector builtin:detector/detector.onnx --out runs/mine
    """
    from verism.suites.catalogue import make_suite
    from verism.training.detector import train_and_export
    from verism.training.scene_arrays import PAINTSKILLS_CLASSES

    labels = [label for name in suites for label in make_suite(name, limit=1).labels] or PAINTSKILLS_CLASSES
    result = train_and_export(
        scene_dirs,
        out,
        classes=tuple(dict.fromkeys(labels)),
        minutes=minutes,
        steps=steps,
        batch_size=batch,
        width=width,
        peak_lr=lr,
        seed=seed,
        device=device,
        workers=workers,
        resume=not fresh,
        export_only=export_only,
        say=say,
    )
    put_json(without_nan(result))


@train.command("generator")
@click.option(
    "--base",
    default="builtin",
    show_default=True,
    help="builtin: our small model, from nothing; diffusers:ID_OR_PATH: finetune a Stable Diffusion model.",
)
@click.option("--suite", default="paintskills", show_default=True, help="Whose train scenes to learn.")
@click.option("--skill", "skills", multiple=True, help="Only this skill; may be given several times; all: every one.")
@click.option(
    "--fraction",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Share of the scenes to learn from: 1.0, 0.5, 0.1 in the published study.",
)
@click.option(
    "--scenes",
    "scene_dirs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Rendered train scenes (for builtin with --masks).  [default: render some into OUT/scenes]",
)
@click.option(
    "--render", type=click.IntRange(1), default=6000, show_default=True, help="Without --scenes: how many to render."
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Checkpoints, log, model, evaluation.")
@click.option("--minutes", type=float, help="Length of the training; resumed parts count.")
@click.option("--steps", type=click.IntRange(1), help="Or its length in steps.")
@click.option("--epochs", type=float, help="Or in passes over the pictures (diffusers).")
@click.option("--lora", "lora_rank", type=click.IntRange(1), help="Train low-rank updates of this rank (diffusers).")
@click.option("--batch", type=click.IntRange(1), help="Pictures at a time.  [default: 4 (diffusers), 16 (builtin)]")
@click.option(
    "--accumulate", type=click.IntRange(1), default=4, show_default=True, help="Batches per step (diffusers)."
)
@click.option("--lr", type=float, help="Highest learning rate.  [default: 1e-5, LoRA 1e-4, builtin 1e-3]")
@click.option("--resolution", type=click.IntRange(8), help="Side of the pictures (diffusers).  [default: the model's]")
@click.option("--revision", help="Of the base on the hub (diffusers).")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--device", default="auto", show_default=True, help="cpu, cuda ...")
@click.option("--workers", type=click.IntRange(1), help="CPU cores (builtin).  [default: all]")
@click.option("--cache", type=click.Path(path_type=Path), help="Where pictures taken apart are kept (builtin).")
@click.option("--fresh", is_flag=True, help="Start anew even if --out has a checkpoint.")
@click.option("--export-only", is_flag=True, help="Export the checkpoints of --out as they are (builtin).")
@click.option(
    "--evaluate",
    "n_prompts",
    type=click.IntRange(0),
    default=240,
    show_default=True,
    help="Afterwards evaluate on so many test prompts; 0: do not.",
)
def train_generator(
    base: str,
    suite: str,
    skills: tuple[str, ...],
    fraction: float,
    scene_dirs: tuple[Path, ...],
    render: int,
    out: Path,
    minutes: float | None,
    steps: int | None,
    epochs: float | None,
    lora_rank: int | None,
    batch: int | None,
    accumulate: int,
    lr: float | None,
    resolution: int | None,
    revision: str | None,
    seed: int,
    device: str,
    workers: int | None,
    cache: Path | None,
    fresh: bool,
    export_only: bool,
    n_prompts: int,
) -> None:
    """Train a text-to-image model on rendered train scenes, then evaluate it on test prompts. Resumes.

    \b
    verism scenes render paintskills --split train --limit 6000 --seed 1 --size 192 --masks --out DATA
    verism train generator --base builtin --scenes DATA --out generator --minutes 90
    verism run paintskills --model builtin:generator/model --limit 240 --out runs/mine
    verism train generator --base diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5 --lora 16 --epochs 5 --out tuned
    verism train generator --base diffusers:my_model --skill spatial --fraction 0.5 --steps 5000 --out half
    """
    wanted = None if not skills or "all" in skills else list(dict.fromkeys(skills))
    kind, _, argument = base.partition(":")
    if kind not in ("builtin", "diffusers") or bool(argument) != (kind == "diffusers"):
        raise UsageError(f"--base is builtin or diffusers:ID_OR_PATH, got {base!r}")
    folders = scene_dirs or (_render_train_scenes(suite, wanted, render, out / "scenes", seed),)
    if kind == "builtin":
        if lora_rank or epochs or resolution or revision:
            raise UsageError("--lora, --epochs, --resolution and --revision are for --base diffusers:...")
        from verism.training.generator import train_and_export

        result = train_and_export(
            folders, out, suite=suite, skills=wanted, fraction=fraction, minutes=minutes, steps=steps,
            batch_size=batch or 16, peak_lr=lr or 1e-3, seed=seed, device=device, workers=workers,
            cache=cache, resume=not fresh, export_only=export_only, say=say,
        )  # fmt: skip
        model = f"builtin:{result['model']}"
    else:
        if export_only or workers or cache:
            raise UsageError("--export-only, --workers and --cache are for --base builtin")
        from verism.training.finetune import finetune_diffusers
        from verism.training.pairs import picture_text_pairs

        pairs = picture_text_pairs(folders, skills=wanted, fraction=fraction, seed=seed)
        say(f"{len(pairs):,} pictures to learn from")
        folder = finetune_diffusers(
            argument, pairs, out=out, lora_rank=lora_rank, steps=steps, epochs=epochs,
            time_limit_s=None if minutes is None else minutes * 60, batch_size=batch or 4,
            gradient_accumulation=accumulate, lr=lr, resolution=resolution, revision=revision, seed=seed,
            device=device, resume=not fresh, about={"suite": suite, "fraction": fraction}, log=_say_progress,
        )  # fmt: skip
        model = f"diffusers:{argument}?lora={folder}" if lora_rank else f"diffusers:{folder}"
        if lora_rank and revision:
            model += f"&revision={revision}"
        result = {"model": str(folder), "pictures": len(pairs), "fraction": fraction}
    say(f"model: {model}")
    if n_prompts:
        failures = Failures()
        finished = _evaluate(
            suite, out, model=model, skills=wanted, limit=n_prompts, seed=seed,
            device=None if device == "auto" else device, on_failure=failures, on_summary=say,
        )  # fmt: skip
        put_scores(finished, as_json=False)
        failures.report()
        say(f"run: {finished.path}")
    put_json(without_nan(result | {"name": model}))


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


def _render_train_scenes(suite: str, skills: list[str] | None, count: int, out: Path, seed: int) -> Path:
    """Train scenes with masks in a folder; those that are there already are kept."""
    import os

    from verism.registry import Context, make_painter
    from verism.suites.catalogue import make_suite
    from verism.suites.paintskills.rendering import render_scenes

    size = 192  # the objects of a picture are cut out of it: much smaller would blur them
    the_suite = make_suite(suite, skills=skills, split="train", limit=count, seed=seed)
    painter = make_painter(Context(size=size, processes=os.cpu_count() or 1))
    failures = Failures()
    say(f"rendering {len(the_suite.scenes):,} train scenes into {out}")
    try:
        render_scenes(
            out, the_suite.version, the_suite.scenes, painter, size, seed=seed, masks=True, on_failure=failures
        )
    finally:
        getattr(painter, "close", lambda: None)()
    failures.report()
    return out


def _say_progress(line: Any) -> None:
    """A line of the training log for a person."""
    if line.get("event") in ("train", "start", "end", "stopped"):
        say("  ".join(f"{k} {v}" for k, v in line.items() if isinstance(v, (int, float, str))))
