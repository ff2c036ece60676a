"""Training, measuring and exporting the built-in estimator of skin tone.

``train_skin_tone`` learns from rendered faces (``face_examples``) and can be stopped and resumed at any time;
``finish`` calibrates the probabilities on held-out examples, exports the file that ``judges.skin_tone.builtin`` runs,
and measures that very file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, require
from verism.files import write_whole
from verism.imaging import compressed
from verism.judges.skin_tone.builtin import BuiltinTones, tone_inputs
from verism.judges.skin_tone.faces import Face
from verism.training._checkpoints import averaged_weights, read_settings
from verism.training._onnx_export import OnnxInterface, with_properties, write_onnx
from verism.training._replicas import NetworkLearner, autocast, averaged_network
from verism.training.face_evaluation import TonePredictions, evaluate_tones
from verism.training.face_examples import FaceExamples, face_training
from verism.training.loop import Hooks, Log, fit, log_to
from verism.training.rendered_training import RenderedTraining
from verism.training.scene_arrays import held_out_of
from verism.training.settings import SkinToneConfig

if TYPE_CHECKING:
    import torch

__all__ = ["CHECKPOINT", "FILE", "LOG", "export_onnx", "finish", "train_and_export", "train_skin_tone"]

CHECKPOINT, LOG, FILE = "checkpoint.safetensors", "log.jsonl", "skin_tone_estimator.onnx"
_PURPOSE = "skin-tone training"
SMALLEST = 14.0  # pixels of a face's shorter side that is learnt from; below nothing of a tone is left


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What a checkpoint must share with the training that resumes it, and needs to be exported."""

    face: int
    scene: int
    context: float
    width: float
    batch_size: int
    seed: int


# --------------------------------------------------------------------------------------------------------------------
# Examples
# --------------------------------------------------------------------------------------------------------------------
def faces_of(examples: FaceExamples) -> list[tuple[int, int]]:
    """(image, face) of every face large enough to learn from, in order."""
    return [
        (k, n)
        for k, known in enumerate(examples.facts)
        for n, face in enumerate(known.faces)
        if min(face.box[2] - face.box[0], face.box[3] - face.box[1]) >= SMALLEST
    ]


def varied_inputs(
    pixels: NDArray[np.uint8], box: tuple[float, ...], config: SkinToneConfig, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A face and its image as the network sees them, in another light, a box that misses a little, coarser or noisier.

    Args:
        pixels: the image, (S, S, 3), uint8.
        box: of the face, pixels.
        config: sizes, and how often the light is changed.
        rng: draws everything.
    """
    from PIL import Image

    if rng.random() < 0.25:  # coarser, as JPEG
        small = Image.fromarray(pixels)
        share = float(rng.uniform(0.4, 1.0))
        small = small.resize((max(8, int(small.width * share)),) * 2, Image.Resampling.BILINEAR)
        stored = compressed(small, int(rng.integers(50, 95)))
        pixels = np.asarray(stored.resize(pixels.shape[:2], Image.Resampling.BILINEAR))
    x0, y0, x1, y1 = box
    moved = np.array(box) + rng.normal(0, 0.04, 4) * np.array([x1 - x0, y1 - y0] * 2)
    faces, scenes = tone_inputs(pixels, [moved], face=config.face, scene=config.scene, context=config.context)
    pair = [faces[0], scenes[0]]
    if rng.random() < 0.5:
        pair = [p[:, ::-1] for p in pair]
    if rng.random() < config.relight:
        # More or less light of another colour on all of the image: what a camera would have seen, but for noise.
        gain = np.exp(rng.normal(0, 0.15)) * np.exp(rng.normal(0, 1, 3) * np.array([0.05, 0.02, 0.08]))
        level = (np.arange(256)[:, None] / 255) ** 2.2 * gain
        table = np.clip(np.rint(255 * level ** (1 / 2.2)), 0, 255).astype(np.uint8)
        pair = [np.stack([table[p[..., k], k] for k in range(3)], axis=-1) for p in pair]
    if rng.random() < 0.3:
        pair[0] = np.clip(pair[0] + rng.normal(0, rng.uniform(1, 8), pair[0].shape), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(pair[0]), np.ascontiguousarray(pair[1])


# --------------------------------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------------------------------
def train_skin_tone(
    examples: FaceExamples,
    config: SkinToneConfig,
    *,
    out: Path,
    refresh: Callable[[], FaceExamples] | None = None,
    log: Log | None = None,
) -> Path:
    """Train the network; see ``loop.fit`` for stopping and going on.

    Args:
        examples: images with faces; a share is held out for validation.
        config: the settings.
        out: folder for the checkpoint (``checkpoint.safetensors``) and the log (``log.jsonl``), made if missing.
        refresh: asked now and then for the examples again, for data that are still being made.
        log: receives each line of the log as well, see ``loop.Hooks``.

    Returns:
        The checkpoint.

    Raises:
        UsageError: nothing to learn from, neither steps nor minutes given, or a checkpoint of other settings.
        VerismError: the loss stays infinite.
    """
    require("torch", extra="train", purpose=_PURPOSE)
    require("safetensors", extra="train", purpose=_PURPOSE)
    import torch

    from verism.training.skin_tone_network import ExportedTones, ToneNetwork, tone_loss

    config.check_length()
    if config.face % 16 or config.scene % 8:
        raise UsageError(f"face is a multiple of 16 and scene one of 8, got {config.face} and {config.scene}")
    settings = _Settings(
        face=config.face, scene=config.scene, context=config.context, width=config.width,
        batch_size=config.batch_size, seed=config.seed,
    )  # fmt: skip
    torch.manual_seed(config.seed)
    network = ToneNetwork(width=config.width)

    def split() -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        out_of = {k for k, name in enumerate(examples.names) if held_out_of(name, config.held_out)}
        faces = faces_of(examples)
        return [f for f in faces if f[0] not in out_of], [f for f in faces if f[0] in out_of]

    learn, held_out = split()

    def loss(net: Any, indices: np.ndarray, rng: np.random.Generator, _: float) -> Mapping[str, torch.Tensor]:
        pairs, tones = [], []
        for i in indices.tolist():
            image, number = learn[i]
            face = examples.facts[image].faces[number]
            pairs.append(varied_inputs(examples.images[image], face.box, config, rng))
            tones.append(face.tone)
        faces, scenes = (
            torch.from_numpy(np.stack(group)).permute(0, 3, 1, 2).to(learner.device)
            for group in zip(*pairs, strict=True)
        )
        with autocast(learner.device.type):
            logits = net(faces, scenes)
        return {"tone": tone_loss(logits, torch.tensor(tones, device=learner.device), config.spread)}

    def reload() -> int:
        nonlocal examples, learn, held_out
        assert refresh is not None
        examples = refresh()
        learn, held_out = split()
        return len(learn)

    def validate() -> Mapping[str, Any]:
        model = ExportedTones(averaged_network(learner).cpu()).eval()
        chances, tones = [], []
        for image, number in held_out[:400]:
            face = examples.facts[image].faces[number]
            seen = tone_inputs(
                examples.images[image], [np.array(face.box)], face=config.face, scene=config.scene,
                context=config.context,
            )  # fmt: skip
            with torch.inference_mode():
                chances.append(model(*(torch.from_numpy(part) for part in seen)).numpy()[0])
            tones.append(face.tone)
        off = np.abs(np.argmax(chances, axis=1) + 1 - np.array(tones))
        return {"faces": len(tones), "exact": float((off == 0).mean()), "within_one": float((off <= 1).mean())}

    learner = NetworkLearner("skin_tone", network, loss, len(learn), config)
    hooks = Hooks(
        log=log_to(out / LOG, log),
        validate=validate if held_out else None,
        refresh=None if refresh is None else reload,
    )
    fit(learner, config, hooks, checkpoint=out / CHECKPOINT, settings=asdict(settings))
    return out / CHECKPOINT


# --------------------------------------------------------------------------------------------------------------------
# Export
# --------------------------------------------------------------------------------------------------------------------
def export_onnx(
    checkpoint: Path, path: Path, card: Mapping[str, Any] | None = None, *, temperature: float = 1.0
) -> Path:
    """Write the averaged weights of a checkpoint as the file that ``BuiltinTones`` runs.

    Args:
        checkpoint: checkpoint of ``train_skin_tone``.
        path: the ONNX file.
        card: anything JSON-serialisable worth knowing about the training.
        temperature: see ``skin_tone_network.ExportedTones``.

    Returns:
        ``path``.

    Raises:
        UsageError: there is no checkpoint, or not one of an estimator of skin tone.
    """
    torch = require("torch", extra="train", purpose=_PURPOSE)
    from verism.training.skin_tone_network import ExportedTones, ToneNetwork

    settings, header = read_settings(checkpoint, "skin_tone", _Settings)
    network = ToneNetwork(width=settings.width)
    network.load_state_dict(averaged_weights(checkpoint))
    sides = (settings.face, settings.scene)
    example = tuple(torch.zeros((2, side, side, 3), dtype=torch.uint8) for side in sides)
    batch = torch.export.Dim("batch", min=1, max=4096)
    about = {"steps": header.step, "trained_s": round(header.elapsed_s), **(card or {})}
    shape = {"face": settings.face, "scene": settings.scene, "context": settings.context}
    interface = OnnxInterface(
        inputs=("faces", "scenes"), outputs=("tones",), shapes={"faces": {0: batch}, "scenes": {0: batch}}
    )
    properties = {"skin_tone": json.dumps(shape), "card": json.dumps(about)}
    return write_onnx(path, ExportedTones(network, temperature).eval(), example, interface, properties, half=True)


class _Trained:
    """A checkpoint's network, as the estimators of judges are asked."""

    def __init__(self, checkpoint: Path) -> None:
        from verism.training.skin_tone_network import ExportedTones, ToneNetwork

        self._settings, _ = read_settings(checkpoint, "skin_tone", _Settings)
        network = ToneNetwork(width=self._settings.width)
        network.load_state_dict(averaged_weights(checkpoint))
        self._network = ExportedTones(network).eval()

    def estimate(self, pixels: NDArray[np.uint8], faces: Sequence[Face]) -> NDArray[np.float64]:
        import torch

        shape = self._settings
        seen = tone_inputs(
            pixels, [face.box for face in faces], face=shape.face, scene=shape.scene, context=shape.context
        )
        with torch.inference_mode():
            return np.asarray(self._network(*(torch.from_numpy(part) for part in seen)).numpy(), dtype=np.float64)


def predictions(tones: BuiltinTones | _Trained, examples: FaceExamples, images: Sequence[int]) -> TonePredictions:
    """What an estimator says of the faces of some images, at their true boxes.

    Args:
        tones: the estimator.
        examples: images with faces.
        images: indices of those to ask about.
    """
    wanted = set(images)
    chances, known = [], []
    for image, number in faces_of(examples):
        if image in wanted:
            face = examples.facts[image].faces[number]
            chances.append(tones.estimate(examples.images[image], [Face(box=np.array(face.box))])[0])
            known.append((examples.facts[image], face))
    return TonePredictions(chances=np.array(chances).reshape(-1, 10), known=known)


def finish(
    out: Path, examples: FaceExamples, test: FaceExamples | None, *, held_out: float, threads: int | None = None
) -> dict[str, Any]:
    """Export a trained checkpoint with calibrated probabilities, and measure the file.

    Writes ``skin_tone_estimator.onnx`` and ``evaluation.json`` into ``out``.

    Args:
        out: folder of the training.
        examples: those of the training; the held-out ones calibrate.
        test: examples of a seed that nothing has seen; None: nothing but the held-out ones is measured.
        held_out: share that was held out, as in the training.
        threads: number of threads of onnxruntime; None: its own choice.

    Returns:
        What was measured, by ``held_out`` and ``test``, with the temperature.
    """
    path, checkpoint = out / FILE, out / CHECKPOINT
    chosen = [k for k, name in enumerate(examples.names) if held_out_of(name, held_out)]
    seen = predictions(_Trained(checkpoint), examples, chosen)
    temperature = seen.best_temperature() if len(seen.known) else 1.0
    result: dict[str, Any] = {"temperature": temperature}
    export_onnx(checkpoint, path, temperature=temperature)
    tones = BuiltinTones(path, threads=threads)
    if len(seen.known):
        result["held_out"] = evaluate_tones(predictions(tones, examples, chosen))
    if test is not None:
        result["test"] = evaluate_tones(predictions(tones, test, range(len(test))))
    kept = ("faces", "exact", "within_one", "calibration_error")
    card: dict[str, Any] = {name: {k: result[name][k] for k in kept} for name in ("held_out", "test") if name in result}
    with_properties(path, card=card)
    result["bytes"] = path.stat().st_size
    write_whole(out / "evaluation.json", json.dumps(result, indent=1).replace("NaN", "null"))
    return result


train_and_export: RenderedTraining[FaceExamples, SkinToneConfig] = face_training(train_skin_tone, finish)
"""The whole way from images to the estimator's measured file."""
