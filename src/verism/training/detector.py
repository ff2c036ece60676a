"""Training, testing and exporting the built-in detector.

``train_detector`` learns from rendered scenes and can be stopped and resumed at any time; ``export_onnx`` writes the
file that ``judges.detection.builtin`` runs; ``finish`` calibrates and measures that file's answers, so what is measured
is what is shipped.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, require
from verism.files import write_whole
from verism.judges.detection.builtin import (
    OUTPUTS,
    PART_WEIGHT,
    SECOND_LOOK,
    SECOND_LOOK_WEIGHT,
    UNSURE,
    BuiltinDetector,
    Unsure,
    detector_file,
)
from verism.judges.detection.decode import Found, decode
from verism.training import second_look
from verism.training._checkpoints import averaged_weights, read_settings
from verism.training._onnx_export import OnnxInterface, averaged_with, read_onnx, with_properties, write_onnx
from verism.training._replicas import NetworkLearner, autocast, averaged_network, channels_last
from verism.training.detector_evaluation import (
    calibrate_threshold,
    detect_all,
    evaluate_detections,
    fit_score_calibration,
)
from verism.training.loop import Hooks, Log, fit, log_to
from verism.training.scene_arrays import SceneArrays, load_scene_arrays, split_held_out
from verism.training.settings import GENERATED_SUITES, DetectorConfig, SecondLookConfig

if TYPE_CHECKING:
    import torch

    from verism.training.detector_network import BatchTargets, DetectorNetwork

__all__ = ["CHECKPOINT", "LOG", "export_onnx", "train_and_export", "train_detector", "with_calibration", "written"]

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"
_PART_WEIGHT = 0.5  # of 1,575 held-out images 1,439 then have exactly the true objects: as with 0.4; 1,441 with 0.7
_LIMITS = Unsure(likely=0.2, sure=0.9, mirror_likely=0.25, mirror_sure=0.8, doubted=(0.1, 0.9))
"""Chosen on 1,500 images of train scenes: a sixth faster than the defaults, which are those of files of before, with no
more errors."""

_PURPOSE = "detector training"


# --------------------------------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What a checkpoint must share with the training that resumes it, and needs to be exported."""

    classes: tuple[str, ...]
    colors: tuple[str, ...]
    size: int
    width: float
    batch_size: int
    seed: int
    learn: str = "all"

    def shared(self) -> dict[str, Any]:
        """As a checkpoint has them: those of before do not say what was learnt, and that was all."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("learn", "all")}


def train_detector(
    arrays: SceneArrays,
    config: DetectorConfig,
    *,
    out: Path,
    validation: SceneArrays | None = None,
    refresh: Callable[[], SceneArrays] | None = None,
    log: Log | None = None,
) -> Path:
    """Train the network; see ``loop.fit`` for stopping and going on.

    Args:
        arrays: images to learn from; some without objects do no harm and teach what is none.
        config: the settings.
        out: folder for the checkpoint (``checkpoint.safetensors``) and the log (``log.jsonl``), made if missing.
        validation: images on which the averaged weights are tried now and then (at most 256 of them).
        refresh: asked now and then for the images again, for data that are still being made.
        log: receives each line of the log as well, see ``loop.Hooks``.

    Returns:
        The checkpoint.

    Raises:
        UsageError: nothing to learn from, neither steps nor minutes given, kinds alone are to be learnt and there is no
            detector to start from, or a checkpoint of other settings.
        VerismError: the loss stays infinite.
    """
    require("torch", extra="train", purpose=_PURPOSE)
    require("safetensors", extra="train", purpose=_PURPOSE)
    import torch

    from verism.training.detector_augmentation import plain_batch, varied_batch
    from verism.training.detector_network import DetectorNetwork, losses

    config.check_length()
    if len(arrays) == 0:
        raise UsageError("there is no image to learn from; render some with `verism scenes render`")
    if config.learn == "kinds" and config.start is None:
        raise UsageError("class and colour alone can be learnt by a detector that finds objects: give --start as well")
    settings = _Settings(
        classes=config.classes, colors=config.colors, size=int(arrays.images[0].shape[0]), width=config.width,
        batch_size=config.batch_size, seed=config.seed, learn=config.learn,
    )  # fmt: skip
    torch.manual_seed(config.seed)
    network = DetectorNetwork(len(config.classes), len(config.colors), width=config.width)
    augment, begun = config.augment, 0.0
    if config.start is not None:
        # What is known need not be learnt on small collages, and fewer large ones do.
        augment, begun = None if augment is None else replace(augment, small_until=0.0), 0.5
        if not (config.resume and (out / CHECKPOINT).is_file()):
            _start(network, config, arrays)
    if config.learn == "kinds":
        network.learn_kinds()

    def batch(indices: np.ndarray, rng: np.random.Generator, done: float) -> tuple[torch.Tensor, BatchTargets]:
        if augment is None:
            return plain_batch(arrays, indices.tolist())
        # Collages teach classes fast; towards the end images look like those the detector is for.
        passed = begun + (1 - begun) * done
        now = replace(augment, collage=augment.collage * (1 - 0.75 * passed))
        return varied_batch(arrays, indices.tolist(), rng, now, small=done < augment.small_until)

    def loss(net: Any, pixels: torch.Tensor, targets: BatchTargets) -> Mapping[str, torch.Tensor]:
        with autocast(learner.device.type):
            maps = net(pixels.to(learner.device))
        return losses(maps, targets.to(learner.device))

    def reload() -> int:
        nonlocal arrays
        assert refresh is not None
        arrays = refresh()
        return len(arrays)

    def validate() -> Mapping[str, Any]:
        assert validation is not None
        return _measured(averaged_network(learner).cpu(), validation, config)

    learner = NetworkLearner("detector", network, loss, len(arrays), config, prepare=batch)
    hooks = Hooks(
        log=log_to(out / LOG, log),
        validate=validate if validation is not None and len(validation) else None,
        refresh=None if refresh is None else reload,
    )
    fit(learner, config, hooks, checkpoint=out / CHECKPOINT, settings=settings.shared())
    return out / CHECKPOINT


def _start(network: Any, config: DetectorConfig, arrays: SceneArrays) -> None:
    """Weights of ``config.start``, with normalisations that fit the images of this training.

    Raises:
        UsageError: no detector of ours, or one of another width.
    """
    import torch

    from verism.training.detector_augmentation import plain_batch, varied_batch
    from verism.training.detector_network import settle, start_from

    content = detector_file(None if config.start == "builtin" else config.start)
    try:
        weights, properties = read_onnx(content)
        known = json.loads(properties["classes"]), json.loads(properties["colors"])
        rows = [known[0].index(c) if c in known[0] else None for c in config.classes]
        rows += [len(known[0]) + known[1].index(c) if c in known[1] else None for c in config.colors]
        start_from(network, weights, rows)
    except (KeyError, ValueError) as err:
        raise UsageError(
            f"training cannot start from {config.start}: it is no detector of width {config.width:g} ({err})"
        ) from err
    rng = np.random.default_rng([config.seed, 2])
    batches = []
    for _ in range(16):
        chosen = rng.integers(len(arrays), size=16).tolist()
        if config.augment is None:
            batches.append(plain_batch(arrays, chosen)[0])
        else:
            now = replace(config.augment, collage=config.augment.collage / 2)
            batches.append(varied_batch(arrays, chosen, rng, now)[0])
    with torch.no_grad():
        settle(network, batches)


def _measured(network: Any, arrays: SceneArrays, config: DetectorConfig) -> dict[str, Any]:
    """A few numbers of a network on some images, at the best threshold of these very images."""
    import torch

    from verism.training.detector_augmentation import plain_batch
    from verism.training.detector_network import Exported

    model = Exported(channels_last(network)).eval()
    arrays = arrays.subset(range(min(256, len(arrays))))
    detected: list[Found] = []
    with torch.inference_mode():
        for i in range(0, len(arrays), 32):
            pixels, _ = plain_batch(arrays, range(i, min(i + 32, len(arrays))))
            detected += decode(*(out.numpy() for out in model(pixels.permute(0, 2, 3, 1))))
    threshold = calibrate_threshold(detected, arrays)
    result = evaluate_detections(detected, arrays, threshold, classes=config.classes, colors=config.colors)
    keys = ("pictures", "threshold", "exact_set", "exact_count", "single_class", "color", "ap50")
    return {key: result[key] for key in keys}


# --------------------------------------------------------------------------------------------------------------------
# Export
# --------------------------------------------------------------------------------------------------------------------
def export_onnx(
    checkpoint: Path,
    path: Path,
    metadata: Mapping[str, Any] | None = None,
    *,
    threshold: float = 0.5,
    kept: tuple[bytes, float] | None = None,
) -> Path:
    """Write the averaged weights of a checkpoint as the file that ``BuiltinDetector`` runs, uncalibrated.

    Args:
        checkpoint: checkpoint of ``train_detector``.
        path: the ONNX file.
        metadata: the card: anything JSON-serialisable worth knowing about the training.
        threshold: score threshold, in [0, 1], see ``calibrate_threshold``.
        kept: a detector's ONNX file, of the same classes and colours, and the share that its weights get; None: none.

    Returns:
        ``path``.

    Raises:
        UsageError: there is no checkpoint, or not one of a detector, or a kept file of another network.
    """
    require("torch", extra="train", purpose=_PURPOSE)
    from verism.training.detector_network import DetectorNetwork, as_exported

    settings, header = read_settings(checkpoint, "detector", _Settings)
    network = DetectorNetwork(len(settings.classes), len(settings.colors), width=settings.width)
    network.load_state_dict(averaged_weights(checkpoint))
    card = {"steps": header.step, "trained_s": round(header.elapsed_s), **(metadata or {})}
    properties = {
        "classes": json.dumps(settings.classes),
        "colors": json.dumps(settings.colors),
        "input_size": str(settings.size),
        "threshold": str(threshold),
        "score_scale": "1.0",
        "score_shift": "0.0",
        PART_WEIGHT: str(_PART_WEIGHT),
        "card": json.dumps(card),
    }
    written(network, settings.size, path, properties)
    if kept is not None:
        try:
            averaged_with(path, as_exported(read_onnx(kept[0])[0]), kept[1])
        except (KeyError, ValueError) as err:
            raise UsageError(f"weights can be kept of a detector of the same classes and width alone: {err}") from err
    return path


def written(network: DetectorNetwork, size: int, path: Path, properties: Mapping[str, str]) -> Path:
    """Write a network as the file that ``BuiltinDetector`` runs, with the present limits of doubt.

    Args:
        network: any weights.
        size: side of its input in pixels.
        path: the file.
        properties: its other metadata.

    Returns:
        ``path``.
    """
    torch = require("torch", extra="train", purpose=_PURPOSE)
    from verism.training.detector_network import Exported

    shapes = {"pixels": {0: torch.export.Dim("batch", min=1, max=4096)}}
    return write_onnx(
        path, Exported(network.eval()).eval(), (torch.zeros((2, size, size, 3), dtype=torch.uint8),),
        OnnxInterface(inputs=("pixels",), outputs=OUTPUTS, shapes=shapes),
        {**properties, UNSURE: json.dumps(asdict(_LIMITS))}, half=True,
    )  # fmt: skip


def with_calibration(
    path: Path, *, score_scale: float, score_shift: float, second_look: bytes | None = None, weight: float = 0.5
) -> Path:
    """Write into a file of ``export_onnx`` what its scores are made of besides the network's maps.

    Args:
        path: the file.
        score_scale: factor of the objectness logits, see ``fit_score_calibration``.
        score_shift: offset of the objectness logits, see ``fit_score_calibration``.
        second_look: ONNX file of the second look, see ``second_look.export_onnx``; None: there is none.
        weight: that of the second look in the average, in [0, 1].

    Returns:
        ``path``.
    """
    properties = {"score_scale": str(score_scale), "score_shift": str(score_shift)}
    if second_look is not None:
        properties |= {SECOND_LOOK: base64.b64encode(second_look).decode(), SECOND_LOOK_WEIGHT: str(weight)}
    return with_properties(path, properties)


def finish(
    out: Path,
    held_out: SceneArrays,
    val: SceneArrays,
    *,
    kept: tuple[bytes, float] | None = None,
    begun_from: bytes | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Export a trained checkpoint with calibrated scores and threshold, and measure it.

    Writes ``detector.onnx`` and ``evaluation.json`` into ``out``. Where class and colour alone were learnt, scores and
    threshold stay calibrated as they were. A second look that was trained into ``out`` becomes
    part of the file, or else that of the detector which the training started from, if it knows the same classes and
    colours.

    Args:
        out: folder of the training.
        held_out: images of the training split that were not learnt from: calibration.
        val: unseen scenes: the numbers to quote. May be empty.
        kept: as of ``export_onnx``.
        begun_from: ONNX file of the detector which the training started from; None: there is none.
        threads: number of threads of onnxruntime; None: its own choice.

    Returns:
        What was measured, by ``held_out`` and ``val``, with score scale, score shift and threshold.
    """
    path = out / "detector.onnx"
    look = None
    trained, _ = read_settings(out / CHECKPOINT, "detector", _Settings)
    if (out / second_look.CHECKPOINT).is_file():
        look = second_look.export_onnx(out / second_look.CHECKPOINT, out / "second_look.onnx").read_bytes()
    elif begun_from is not None:
        look = second_look.within(begun_from, trained.classes, trained.colors)
    export_onnx(out / CHECKPOINT, path, kept=kept)
    known = {} if begun_from is None or trained.learn == "all" else read_onnx(begun_from)[1]
    stays = "score_scale" in known  # files of before hold their calibration within the network
    if stays:
        scale, shift = float(known["score_scale"]), float(known["score_shift"])
    else:
        scale, shift = fit_score_calibration(detect_all(BuiltinDetector(path, threads=threads), held_out), held_out)
    with_calibration(path, score_scale=scale, score_shift=shift, second_look=look)
    detector = BuiltinDetector(path, threads=threads)
    found = detect_all(detector, held_out)
    threshold = float(known["threshold"]) if stays else calibrate_threshold(found, held_out)
    result: dict[str, Any] = {"score_scale": scale, "score_shift": shift, "threshold": threshold}
    for name, arrays in (("held_out", held_out), ("val", val)):
        if len(arrays):
            started = time.monotonic()
            if name == "val":
                found = detect_all(detector, arrays)
            result[name] = evaluate_detections(
                found, arrays, threshold, classes=detector.classes, colors=detector.colors
            )
            if name == "val":
                result[name]["pictures_per_s"] = round(len(arrays) / (time.monotonic() - started), 1)
    keys = ("pictures", "exact_set", "exact_count", "single_class", "color", "ap50")
    card: dict[str, Any] = {name: {k: result[name][k] for k in keys} for name in ("held_out", "val") if name in result}
    with_properties(path, {"threshold": str(threshold)}, card=card)
    text = json.dumps(result, indent=1).replace("NaN", "null")
    write_whole(out / "evaluation.json", text)
    return result


def train_and_export(
    scenes: Sequence[Path],
    out: Path,
    config: DetectorConfig | SecondLookConfig,
    *,
    cache: Path | None = None,
    export_only: bool = False,
    generated: int = 0,
    generated_seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Train on the scenes of some folders, calibrate, export to ``out/detector.onnx``, measure.

    Args:
        scenes: data set folders; those still being rendered are taken up once complete.
        out: folder of the training, made if missing.
        config: the settings; those of a second look train that into ``out``, and the export is left to the detector.
        cache: folder of the decoded images; ``out/cache`` if None.
        export_only: export and measure the checkpoint of ``out`` as it is.
        generated: train prompts whose images by the built-in generators are learnt from as well, half of each edition;
            made in ``out/generated``.
        generated_seed: seed of these.
        say: receives progress, a line at a time.

    Returns:
        What ``finish`` measured, also in ``out/evaluation.json``. Scenes of the split ``val`` in the folders are never
        learnt from; if there are any, the result says how well the detector does on them. Of a second look alone, its
        checkpoint.

    Raises:
        UsageError: nothing to learn from, or neither steps nor minutes.
    """
    if export_only and isinstance(config, DetectorConfig):
        trained, _ = read_settings(out / CHECKPOINT, "detector", _Settings)
        config = replace(config, classes=trained.classes, colors=trained.colors)
    if generated:
        from verism.training.generated_scenes import generate_train_scenes

        for k, suite in enumerate(GENERATED_SUITES):
            folder, count = out / "generated" / suite, (generated + k) // len(GENERATED_SUITES)
            made = generate_train_scenes(folder, suite=suite, count=count, seed=generated_seed, say=say)
            scenes = [*scenes, made]

    def load() -> SceneArrays:
        return load_scene_arrays(
            scenes, cache or out / "cache", classes=config.classes, colors=config.colors, skip_incomplete=True, log=say
        )

    def progress(line: Mapping[str, Any]) -> None:
        if line["event"] == "train":
            left = line["remaining_s"]
            say(
                f"step {line['step']}  {line['images_per_s']} images/s  loss {line['loss']}"
                + ("" if left is None else f"  {left // 60:.0f} min left")
            )
        else:
            say(json.dumps({k: v for k, v in line.items() if k != "settings"}))

    def learn() -> SceneArrays:
        return split_held_out(load().of_split("train"), config.held_out)[0]

    arrays = load()
    if not export_only:
        learnt, calibration = split_held_out(arrays.of_split("train"), config.held_out)
        if isinstance(config, SecondLookConfig):
            made = second_look.train_second_look(
                learnt, config, out=out, validation=calibration, log=progress, refresh=learn
            )
            return {"second_look": str(made)}
        train_detector(learnt, config, out=out, validation=calibration, log=progress, refresh=learn)
        arrays = load()
    _, calibration = split_held_out(arrays.of_split("train"), config.held_out)
    assert isinstance(config, DetectorConfig)
    start = None if config.start is None else detector_file(None if config.start == "builtin" else config.start)
    kept = (start, config.keep) if config.keep and start is not None else None
    return finish(out, calibration, arrays.of_split("val"), kept=kept, begun_from=start, threads=config.workers)
