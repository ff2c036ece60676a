"""Training and exporting the built-in text-to-image model.

Two autoencoders with discrete codes are trained first: one encodes and decodes backgrounds, one objects. Then a
transformer, the writer, is trained to predict these codes from a prompt. Both can be stopped, resumed and continued at
any time.
"""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from verism.errors import UsageError, require
from verism.files import write_json
from verism.generators.layered import Language
from verism.records import Scene
from verism.training._checkpoints import averaged_weights, read_header
from verism.training._onnx_export import OnnxInterface, write_onnx
from verism.training.generator_autoencoders import AUTOENCODERS, KIND, PURPOSE, load_autoencoders, train_autoencoders
from verism.training.generator_writer import WRITER, token_features, train_writer
from verism.training.image_text_pairs import nested_share
from verism.training.loop import Log
from verism.training.scene_layers import MARGIN, load_layers
from verism.training.settings import ALL_SCENES, AutoencoderConfig, GeneratorConfig, SceneChoice, WriterConfig

__all__ = ["LOG", "chosen_scenes", "export_generator", "train_and_export"]

LOG = "log.jsonl"


# --------------------------------------------------------------------------------------------------------------------
# Export
# --------------------------------------------------------------------------------------------------------------------
def export_generator(folder: Path, out: Path, card: Mapping[str, Any] | None = None) -> Path:
    """Write the averaged weights of both checkpoints in ``folder`` as the three ONNX files that ``builtin`` runs.

    Args:
        folder: folder of the training.
        out: folder of the files, made if missing.
        card: anything JSON-serialisable worth knowing about the training; written into ``writer.onnx``.

    Returns:
        ``out``.

    Raises:
        UsageError: a checkpoint is missing, or both do not belong together.
    """
    torch = require("torch", extra="train", purpose=PURPOSE)
    from verism.training.generator_network import Writer, WriterStep

    settings, coders = load_autoencoders(folder / AUTOENCODERS)
    header = read_header(folder / WRITER, "writer")
    raw = header.settings
    language = Language.from_json(raw["language"])
    if (language.labels, language.backgrounds) != (settings.labels, settings.backgrounds):
        raise UsageError(f"{folder}: {WRITER} and {AUTOENCODERS} know other classes; train the writer anew")
    features = torch.from_numpy(token_features(language))
    writer = Writer(features, language.length, width=raw["width"], layers=raw["depth"])
    writer.load_state_dict(averaged_weights(folder / WRITER))
    writer.eval()
    coder_header = read_header(folder / AUTOENCODERS, KIND)
    properties = {
        "language": json.dumps(asdict(language)),
        "margin": str(MARGIN),
        "card": json.dumps(
            {
                "writer_steps": header.step,
                "writer_s": round(header.elapsed_s),
                "autoencoder_steps": coder_header.step,
                "autoencoder_s": round(coder_header.elapsed_s),
                **(card or {}),
            }
        ),
    }
    some = torch.export.Dim("some", min=1, max=4096)
    memory = torch.zeros(raw["depth"], 2, 2, writer.heads, language.length, writer.width // writer.heads)
    write_onnx(
        out / "writer.onnx",
        WriterStep(writer).eval(),
        (torch.zeros(2, dtype=torch.long), torch.tensor([3]), memory),
        OnnxInterface(
            inputs=("tokens", "position", "memory"),
            outputs=("logits", "memory_out"),
            shapes={"tokens": {0: some}, "position": None, "memory": {2: some}},
        ),
        properties,
        half=True,
    )
    write_onnx(
        out / "figures.onnx",
        coders["figures"],
        (torch.zeros(2, language.figure_codes, dtype=torch.long), torch.zeros(2, dtype=torch.long), torch.ones(2)),
        OnnxInterface(
            inputs=("codes", "labels", "sides"),
            outputs=("layers",),
            shapes={k: {0: some} for k in ("codes", "labels", "sides")},
        ),
        {},
        half=True,
    )
    write_onnx(
        out / "scenery.onnx",
        coders["scenery"],
        (torch.zeros(2, language.scenery_codes, dtype=torch.long), torch.zeros(2, dtype=torch.long)),
        OnnxInterface(
            inputs=("codes", "labels"), outputs=("picture",), shapes={"codes": {0: some}, "labels": {0: some}}
        ),
        {},
        half=True,
    )
    return out


# --------------------------------------------------------------------------------------------------------------------
# All of it
# --------------------------------------------------------------------------------------------------------------------
def chosen_scenes(scenes: Sequence[Scene], choice: SceneChoice, *, seed: int = 0) -> list[Scene]:
    """The scenes to learn from.

    Args:
        scenes: to choose from.
        choice: skills, and the share of each.
        seed: seed of the share, see ``nested_share``.
    """
    chosen: list[Scene] = []
    for skill in dict.fromkeys(s.skill for s in scenes):
        if skill != "empty" and (choice.skills is None or skill in choice.skills):
            chosen += nested_share([s for s in scenes if s.skill == skill], choice.fraction, seed=seed)
    return chosen


def train_and_export(
    scene_dirs: Sequence[Path],
    out: Path,
    config: GeneratorConfig,
    *,
    choice: SceneChoice = ALL_SCENES,
    suite: str = "paintskills",
    cache: Path | None = None,
    export_only: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Train both parts on rendered train scenes and write ``model/`` with the three ONNX files into ``out``.

    Stopped at any time it goes on from its checkpoints; called with a larger length it trains on.

    Args:
        scene_dirs: folders written by ``verism scenes render --split train --masks``.
        out: folder of the training, made if missing.
        config: the settings; ``steps`` are of each part.
        choice: which of the scenes to learn from.
        suite: ``paintskills`` or ``paintskills-v1``, whose names the scenes use.
        cache: folder for the images taken apart; ``out/cache`` if None.
        export_only: write the checkpoints as they are.
        say: receives progress, a line at a time.

    Returns:
        The card: images, steps, seconds, hardware, settings, versions.

    Raises:
        UsageError: neither steps nor minutes, or scenes that cannot be learnt from.
    """
    if not export_only:
        config.check_length()

    def choose(scenes: Sequence[Scene]) -> list[Scene]:
        return chosen_scenes(scenes, choice, seed=config.seed)

    layers = load_layers(scene_dirs, cache or out / "cache", suite=suite, choose=choose, log=say)
    out.mkdir(parents=True, exist_ok=True)
    if not export_only:
        autoencoders, writer = _parts(config)
        train_autoencoders(layers, autoencoders, out=out, log=_log(out / LOG, "autoencoders", say))
        train_writer(layers, writer, out=out, log=_log(out / LOG, "writer", say))
    by_skill = Counter(s.skill for s in layers.scenes)
    card = {
        "suite": suite,
        "pictures": len(layers),
        "pictures_by_skill": dict(sorted(by_skill.items())),
        "objects": len(layers.figures),
        "fraction": choice.fraction,
        "seed": config.seed,
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: metadata.version(name) for name in ("torch", "numpy", "verism")},
    }
    model = export_generator(out, out / "model", card)
    written = {f.name: f.stat().st_size for f in sorted(model.glob("*.onnx"))}
    write_json(out / "card.json", card)
    return {"model": str(model), "bytes": sum(written.values()), **card}


def _parts(config: GeneratorConfig) -> tuple[AutoencoderConfig, WriterConfig]:
    """The settings of both parts: what they share, and each its part of the minutes."""
    assert config.lr is not None
    shared = {name: getattr(config, name) for name in ("steps", "seed", "device", "workers", "resume")}
    minutes = [None if config.minutes is None else config.minutes * share
               for share in (config.autoencoder_share, 1 - config.autoencoder_share)]  # fmt: skip
    return replace(config, minutes=minutes[0]), WriterConfig(
        **shared, minutes=minutes[1], lr=config.lr * config.writer_lr
    )


def _log(path: Path, part: str, say: Callable[[str], None]) -> Log:
    """One file holds the logs of both parts."""

    def write(line: Mapping[str, Any]) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": part, **line}) + "\n")
        if line["event"] == "train":
            say(f"{part}: {line['done']:.1%}, step {line['step']:,}, loss {line['loss']}")

    return write
