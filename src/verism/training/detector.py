"""Training, testing and exporting the built-in detector.

``train_detector`` learns from rendered scenes and can be stopped and resumed at any time; ``export_onnx`` writes the
file that ``judges.detection.builtin`` runs; ``evaluate_detector`` and ``calibrate_threshold`` look at that file's
answers, so what is measured is what is shipped.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, VerismError, require
from verism.files import write_whole
from verism.judges.detection.builtin import OUTPUTS, BuiltinDetector
from verism.judges.detection.decode import Found, box_iou, decode
from verism.training.fitting import (
    channels_last,
    lerp,
    read_checkpoint,
    replica_of,
    restore_optimizer,
    state_tensors,
    under,
    write_checkpoint,
)
from verism.training.onnx_export import write_onnx
from verism.training.scene_arrays import (
    PAINTSKILLS_CLASSES,
    PAINTSKILLS_COLORS,
    SceneArrays,
    load_scene_arrays,
    split_held_out,
)

if TYPE_CHECKING:
    import torch

    from verism.training.detector_augment import AugmentOptions
    from verism.training.detector_network import DetectorNetwork

__all__ = [
    "CHECKPOINT",
    "calibrate_threshold",
    "detect_all",
    "evaluate_detections",
    "evaluate_detector",
    "export_onnx",
    "fit_score_calibration",
    "train_and_export",
    "train_detector",
]

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"

_PURPOSE = "detector training"
_EMA = 0.998  # weights are averaged over about 500 steps, a tenth of a short training
_MATCH_IOU = 0.5  # a box this near to the truth has found its object, as in Pascal VOC and COCO's AP50

Log = Callable[[Mapping[str, Any]], None]


# --------------------------------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What a checkpoint must share with the run that resumes it."""

    classes: tuple[str, ...]
    colors: tuple[str, ...]
    size: int
    width: float
    batch_size: int
    seed: int


def train_detector(
    arrays: SceneArrays,
    *,
    out: Path,
    classes: Sequence[str] = PAINTSKILLS_CLASSES,
    colors: Sequence[str] = PAINTSKILLS_COLORS,
    steps: int | None = None,
    time_limit_s: float | None = None,
    batch_size: int = 16,
    seed: int = 0,
    width: float = 1.0,
    peak_lr: float = 2e-3,
    augment: AugmentOptions | None = None,
    augmented: bool = True,
    resume: bool = True,
    device: str = "auto",
    workers: int | None = None,
    log: Log | None = None,
    validation: SceneArrays | None = None,
    refresh: Callable[[], SceneArrays] | None = None,
    checkpoint_every_s: float = 60.0,
    validate_every_s: float = 300.0,
    log_every_s: float = 10.0,
) -> Path:
    """Train until the steps are done or the time is up, whichever is first.

    The learning rate falls to zero along the share of steps done or of time used, whichever is larger, so a training
    with a time limit ends well on a machine of any speed. With steps alone, a seed gives the same batches anywhere.

    On a processor every worker runs its share of the batch on one core of its own. Cores that share every single
    convolution wait for each other hundreds of times per step, and come to a stand when other programs run too.

    Args:
        arrays: pictures to learn from; some without objects do no harm and teach what is none.
        out: folder for the checkpoint (``checkpoint.safetensors``) and the log (``log.jsonl``), made if missing.
        steps, time_limit_s: of the whole training, resumed parts counted in; at least one must be given.
        width: multiplies the network's channels; 1.0 has 4.6 million parameters.
        peak_lr: highest learning rate of AdamW.
        augment: how pictures are varied; ``augmented=False``: not at all.
        resume: go on from ``out``'s checkpoint if there is one; otherwise start anew.
        device: ``auto`` (the GPU if there is one), ``cpu``, ``cuda`` ...
        workers: threads that take a share of each batch, and meet once per step; ``None``: one per core, one for a GPU.
        log: told each line of the log as well.
        validation: pictures on which the averaged weights are tried every ``validate_every_s`` (at most 256 of them).
        refresh: asked every minute or so for the pictures again, for data that are still being made.
    Returns:
        The checkpoint.
    Raises:
        UsageError: nothing to learn from, neither steps nor time given, or a checkpoint of other settings.
        VerismError: the loss stays infinite.
    """
    torch = require("torch", extra="train", purpose=_PURPOSE)
    require("safetensors", extra="train", purpose=_PURPOSE)
    from verism.training.detector_augment import AugmentOptions, plain_batch, varied_batch
    from verism.training.detector_network import DetectorNetwork, losses

    if steps is None and time_limit_s is None:
        raise UsageError("say how long to train: steps, time_limit_s, or both")
    if len(arrays) == 0:
        raise UsageError("there is no picture to learn from; render some with `verism scenes render`")
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / CHECKPOINT
    size = int(arrays.images[0].shape[0])
    settings = _Settings(
        classes=tuple(classes), colors=tuple(colors), size=size, width=width, batch_size=batch_size, seed=seed
    )
    target = torch.device("cuda" if device == "auto" and torch.cuda.is_available() else device.replace("auto", "cpu"))
    if workers is None:
        workers = torch.get_num_threads() if target.type == "cpu" else 1
    workers = max(1, min(workers, batch_size // 2))  # batch normalisation needs two pictures at least
    options = augment or AugmentOptions()

    torch.manual_seed(seed)
    network = DetectorNetwork(len(classes), len(colors), width=width)
    network = channels_last(network).to(target)
    decayed = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.02}, {"params": others, "weight_decay": 0.0}], lr=peak_lr, fused=True
    )
    average = {name: value.detach().clone() for name, value in network.state_dict().items()}
    step, elapsed_before = 0, 0.0
    if resume and checkpoint.is_file():
        step, elapsed_before = _load_training(checkpoint, settings, network, average, optimizer)

    replicas = [network, *(replica_of(network) for _ in range(workers - 1))]
    parameters = list(network.parameters())

    start = time.monotonic()
    log_file = (out / LOG).open("a" if step else "w", encoding="utf-8")

    def tell(**line: Any) -> None:
        log_file.write(json.dumps(line) + "\n")
        log_file.flush()
        if log:
            log(line)

    def used() -> float:
        return elapsed_before + time.monotonic() - start

    def share_done() -> float:
        by_steps = step / steps if steps else 0.0
        by_time = used() / time_limit_s if time_limit_s else 0.0
        return min(1.0, max(by_steps, by_time))

    def save() -> None:
        write_checkpoint(
            checkpoint, asdict(settings), state_tensors(network, average, optimizer), step=step, elapsed_s=used()
        )

    last = {"log": used(), "save": used(), "validate": used(), "refresh": used()}
    last_step = step
    sums: dict[str, float] = {}
    bad = 0
    tell(event="start", step=step, pictures=len(arrays), elapsed_s=round(used(), 1), **asdict(settings))
    order, order_key = np.zeros(0, dtype=np.int64), (-1, -1)
    warm_up = max(1, min(100, steps // 20 if steps else 100))
    for replica in replicas:
        replica.train()
    done = share_done()

    def share_of_step(worker: int) -> tuple[dict[str, float], Sequence[Any]]:
        """Losses and gradients of one worker's share of the batch."""
        mine = indices[worker::workers]
        rng = np.random.default_rng([seed, 1, step, worker])
        if augmented:
            # Collages teach classes fast; towards the end pictures look like those the detector is for.
            now = replace(options, collage=options.collage * (1 - 0.75 * done))
            pixels, targets = varied_batch(arrays, mine, rng, now, small=done < options.small_until)
        else:
            pixels, targets = plain_batch(arrays, mine)
        with torch.autocast(target.type, torch.bfloat16):
            maps = replicas[worker](pixels.to(target))
        parts = losses(maps, targets.to(target))
        total = torch.stack(list(parts.values())).sum()
        gradients = torch.autograd.grad(total, parameters)
        return {name: float(part.detach()) for name, part in parts.items()}, gradients

    threads_before = torch.get_num_threads()
    if target.type == "cpu":
        torch.set_num_threads(1)
    pool = ThreadPoolExecutor(workers)
    try:
        while share_done() < 1:
            done = share_done()
            lr = peak_lr * min(1.0, (step + 1) / warm_up) * (0.5 * (1 + math.cos(math.pi * done)) * 0.99 + 0.01)
            for group in optimizer.param_groups:
                group["lr"] = lr
            indices = []
            for position in range(step * batch_size, (step + 1) * batch_size):
                key = (len(arrays), position // len(arrays))
                if key != order_key:
                    order, order_key = np.random.default_rng([seed, *key]).permutation(len(arrays)), key
                indices.append(int(order[position % len(arrays)]))
            results = list(pool.map(share_of_step, range(workers)))
            for i, parameter in enumerate(parameters):
                # Fused AdamW walks through raw memory: a gradient laid out unlike its parameter would be applied to the
                # wrong weights, without an error.
                parameter.grad = torch.empty_like(parameter).copy_(sum(g[i] for _, g in results) / workers)
            norm = float(torch.nn.utils.clip_grad_norm_(parameters, 5.0))
            parts = {name: sum(p[name] for p, _ in results) / workers for name in results[0][0]}
            value = sum(parts.values())
            if math.isfinite(value) and math.isfinite(norm):
                optimizer.step()
                bad = 0
                for name, number in (*parts.items(), ("total", value), ("n", 1.0)):
                    sums[name] = sums.get(name, 0.0) + number
            else:
                bad += 1
                if bad >= 20:
                    raise VerismError(f"the loss is not finite for 20 steps, at step {step}; lower peak_lr")
            # Early averages forget fast, or the random start would linger.
            lerp(average, network.state_dict(), 1 - min(_EMA, (1 + step) / (10 + step)))
            step += 1

            now = used()
            if now - last["log"] >= log_every_s or share_done() >= 1:
                rate = (step - last_step) * batch_size / max(now - last["log"], 1e-9)
                means = {name: round(v / sums["n"], 4) for name, v in sums.items() if name != "n"}
                done = share_done()
                tell(
                    event="train", step=step, elapsed_s=round(now, 1), pictures_per_s=round(rate, 1), lr=round(lr, 7),
                    pictures=len(arrays), remaining_s=round((now / done - now) if done else 0.0), loss=means,
                )  # fmt: skip
                last["log"], last_step = now, step
                sums.clear()
            if now - last["save"] >= checkpoint_every_s:
                save()
                last["save"] = used()
            if validation is not None and len(validation) and now - last["validate"] >= validate_every_s:
                trial = _try_average(average, settings, validation)
                tell(event="validate", step=step, elapsed_s=round(used(), 1), **trial)
                last["validate"] = used()
            if refresh is not None and now - last["refresh"] >= 60:
                arrays = refresh()
                last["refresh"] = used()
        save()
        if validation is not None and len(validation):
            trial = _try_average(average, settings, validation)
            tell(event="validate", step=step, elapsed_s=round(used(), 1), **trial)
        tell(event="end", step=step, elapsed_s=round(used(), 1))
    except KeyboardInterrupt:
        save()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads_before)
        log_file.close()
    return checkpoint


def _try_average(average: Mapping[str, torch.Tensor], settings: _Settings, arrays: SceneArrays) -> dict[str, Any]:
    """A few numbers of the averaged weights on some pictures, at the best threshold of these very pictures."""
    import torch

    from verism.training.detector_augment import plain_batch
    from verism.training.detector_network import DetectorNetwork, Exported

    network = DetectorNetwork(len(settings.classes), len(settings.colors), width=settings.width)
    network.load_state_dict({name: value.cpu() for name, value in average.items()})
    model = Exported(channels_last(network)).eval()
    arrays = arrays.subset(range(min(256, len(arrays))))
    found: list[Found] = []
    with torch.inference_mode():
        for i in range(0, len(arrays), 32):
            pixels, _ = plain_batch(arrays, range(i, min(i + 32, len(arrays))))
            found += decode(*(out.numpy() for out in model(pixels.permute(0, 2, 3, 1))))
    threshold = calibrate_threshold(found, arrays)
    result = evaluate_detections(found, arrays, threshold, classes=settings.classes, colors=settings.colors)
    keys = ("pictures", "threshold", "exact_set", "exact_count", "single_class", "color", "ap50")
    return {key: result[key] for key in keys}


# --------------------------------------------------------------------------------------------------------------------
# Checkpoints: safetensors, written whole or not at all
# --------------------------------------------------------------------------------------------------------------------
def _read_checkpoint(path: Path) -> tuple[_Settings, dict[str, torch.Tensor], dict[str, str]]:
    raw, tensors, meta = read_checkpoint(path)
    try:
        settings = _Settings(**{**raw, "classes": tuple(raw["classes"]), "colors": tuple(raw["colors"])})
    except (KeyError, TypeError):
        raise UsageError(f"{path} is not a checkpoint of detector training") from None
    return settings, tensors, meta


def _load_training(
    path: Path,
    settings: _Settings,
    network: DetectorNetwork,
    average: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
) -> tuple[int, float]:
    """Put everything back in place; returns the step and the seconds used so far."""
    saved, tensors, meta = _read_checkpoint(path)
    if saved != settings:
        old, new = asdict(saved), asdict(settings)
        changed = "; ".join(f"{k} was {old[k]}, now {new[k]}" for k in old if old[k] != new[k])
        raise UsageError(f"{path} was trained with other settings ({changed}); use another folder, or resume=False")
    network.load_state_dict(under(tensors, "network."))
    for name, value in under(tensors, "average.").items():
        average[name].copy_(value)
    restore_optimizer(optimizer, tensors)
    return int(meta["step"]), float(meta["elapsed_s"])


# --------------------------------------------------------------------------------------------------------------------
# Export
# --------------------------------------------------------------------------------------------------------------------
def export_onnx(
    checkpoint: Path,
    path: Path,
    metadata: Mapping[str, Any] | None = None,
    *,
    threshold: float = 0.5,
    score_scale: float = 1.0,
    score_shift: float = 0.0,
) -> Path:
    """Write the averaged weights of a checkpoint as the file that ``BuiltinDetector`` runs.

    Args:
        metadata: the card: anything JSON-serialisable worth knowing about the training.
        threshold: see ``calibrate_threshold``.
        score_scale, score_shift: see ``fit_score_calibration``.
    """
    torch = require("torch", extra="train", purpose=_PURPOSE)
    from verism.training.detector_network import DetectorNetwork, Exported

    settings, tensors, meta = _read_checkpoint(checkpoint)
    network = DetectorNetwork(len(settings.classes), len(settings.colors), width=settings.width)
    network.load_state_dict(under(tensors, "average."))
    model = Exported(network, scale=score_scale, shift=score_shift).eval()
    example = torch.zeros((2, settings.size, settings.size, 3), dtype=torch.uint8)
    batch = torch.export.Dim("batch", min=1, max=4096)
    card = {"steps": int(meta["step"]), "trained_s": round(float(meta["elapsed_s"])), **(metadata or {})}
    told = {
        "classes": json.dumps(settings.classes),
        "colors": json.dumps(settings.colors),
        "input_size": str(settings.size),
        "threshold": str(threshold),
        "card": json.dumps(card),
    }
    return write_onnx(
        path, model, (example,), inputs=["pixels"], outputs=list(OUTPUTS), shapes={"pixels": {0: batch}}, told=told
    )


# --------------------------------------------------------------------------------------------------------------------
# Evaluation
# --------------------------------------------------------------------------------------------------------------------
def detect_all(detector: BuiltinDetector, arrays: SceneArrays) -> list[Found]:
    """The detector's boxes for all pictures, some at a time."""
    found: list[Found] = []
    for i in range(0, len(arrays), 64):
        found += detector.detect([arrays.images[j] for j in range(i, min(i + 64, len(arrays)))])
    return found


def evaluate_detector(detector: BuiltinDetector, arrays: SceneArrays, threshold: float | None = None) -> dict[str, Any]:
    """``evaluate_detections`` of what the detector finds, at its own threshold unless told."""
    return evaluate_detections(
        detect_all(detector, arrays),
        arrays,
        detector.threshold if threshold is None else threshold,
        classes=detector.classes,
        colors=detector.colors,
    )


def _matches(found: Found, boxes: np.ndarray) -> np.ndarray:
    """Per found box, the surest first, the true object it finds, or -1; each object is found once; shape (Q,)."""
    matched = np.full(len(found.boxes), -1, dtype=np.int64)
    overlap = box_iou(found.boxes, boxes)
    for i in range(len(matched)):
        if overlap.shape[1] and overlap[i].max() >= _MATCH_IOU:
            matched[i] = overlap[i].argmax()
            overlap[:, matched[i]] = -1
    return matched


def evaluate_detections(
    found: Sequence[Found], arrays: SceneArrays, threshold: float, *, classes: Sequence[str], colors: Sequence[str]
) -> dict[str, Any]:
    """How well boxes with a score of at least ``threshold`` fit the truth.

    Returns:
        Shares in [0, 1], NaN where nothing was to be judged. ``exact_set``: pictures whose objects are all found, with
        the right classes, and nothing else; ``exact_count``: pictures with the right number of boxes; ``single_class``:
        pictures of one object whose surest box (without threshold) has its class; ``color``: found objects of known
        colour whose colour is right; ``ap50``: mean over classes of the average precision at IoU 0.5 (all points);
        ``exact_set_by_skill``; per class ``recall`` and ``precision``; ``confusions``: (true, told, times), the most
        frequent first; ``missed``, ``extra``: objects without a box, boxes without an object; ``wrong``: names of
        pictures whose set is not exact, at most 50.
    """
    n = len(arrays)
    exact_set, exact_count = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    single: list[bool] = []
    color_right: list[bool] = []
    n_true, n_told, n_right = (np.zeros(len(classes), dtype=np.int64) for _ in range(3))
    confusions: Counter[tuple[str, str]] = Counter()
    missed = extra = 0
    for i, (all_found, target) in enumerate(zip(found, arrays.targets, strict=True)):
        seen = all_found.take(all_found.scores >= threshold)
        labels = seen.labels
        match = _matches(seen, target.boxes)
        hit = match >= 0
        right = hit & (target.labels[match] == labels) if len(target.labels) else np.zeros(len(labels), dtype=bool)
        exact_count[i] = len(labels) == len(target.labels)
        exact_set[i] = exact_count[i] and right.all()
        if len(target.labels) == 1:
            single.append(len(all_found.scores) > 0 and int(all_found.labels[0]) == int(target.labels[0]))
        np.add.at(n_true, target.labels, 1)
        np.add.at(n_told, labels, 1)
        np.add.at(n_right, labels[right], 1)
        missed += len(target.labels) - int(hit.sum())
        extra += int((~hit).sum())
        for j in np.flatnonzero(hit):
            truth = int(target.labels[match[j]])
            if truth != labels[j]:
                confusions[classes[truth], classes[labels[j]]] += 1
            if target.colors[match[j]] >= 0 and len(colors):
                color_right.append(int(seen.color_scores[j].argmax()) == int(target.colors[match[j]]))
    by_skill = {s: float(exact_set[[k == s for k in arrays.skills]].mean()) for s in sorted(set(arrays.skills))}
    return {
        "pictures": n,
        "threshold": threshold,
        "exact_set": _mean(exact_set),
        "exact_count": _mean(exact_count),
        "single_class": _mean(single),
        "color": _mean(color_right),
        "ap50": _average_precision(found, arrays, len(classes)),
        "exact_set_by_skill": by_skill,
        "missed": missed,
        "extra": extra,
        "recall": {c: float(r / t) if t else math.nan for c, r, t in zip(classes, n_right, n_true, strict=True)},
        "precision": {c: float(r / t) if t else math.nan for c, r, t in zip(classes, n_right, n_told, strict=True)},
        "confusions": [(a, b, k) for (a, b), k in confusions.most_common(20)],
        "wrong": [arrays.names[i] for i in np.flatnonzero(~exact_set)[:50]],
    }


def _mean(values: Sequence[bool] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _average_precision(found: Sequence[Found], arrays: SceneArrays, n_classes: int) -> float:
    """Area under the precision envelope over recall, class by class, mean over classes that occur."""
    values = []
    for k in range(n_classes):
        n_true = sum(int((t.labels == k).sum()) for t in arrays.targets)
        if not n_true:
            continue
        scores, hits = [np.zeros(0)], [np.zeros(0, dtype=bool)]
        for seen, target in zip(found, arrays.targets, strict=True):
            mine = seen.take(seen.labels == k)
            scores.append(mine.scores)
            hits.append(_matches(mine, target.boxes[target.labels == k]) >= 0)
        order = np.argsort(-np.concatenate(scores), kind="stable")
        right = np.concatenate(hits)[order].cumsum()
        precision = right / np.arange(1, len(right) + 1)
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        values.append(float((envelope * np.diff(right, prepend=0)).sum() / n_true))
    return float(np.mean(values)) if values else math.nan


def calibrate_threshold(found: Sequence[Found], arrays: SceneArrays) -> float:
    """The score threshold with the most pictures of exactly the right number of boxes.

    Args:
        found: boxes down to a low score, for held-out pictures of the training split.
    Returns:
        In [0.05, 0.95], a multiple of 0.01: the middle of the widest run of best thresholds.
    """
    candidates = np.round(np.arange(0.05, 0.951, 0.01), 2)
    right = np.zeros(len(candidates))
    for seen, target in zip(found, arrays.targets, strict=True):
        counts = (seen.scores[None] >= candidates[:, None]).sum(axis=1)
        right += counts == len(target.labels)
    best = np.flatnonzero(right == right.max())
    runs = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)
    widest = max(runs, key=len)
    return float(candidates[widest[len(widest) // 2]])


def fit_score_calibration(found: Sequence[Found], arrays: SceneArrays) -> tuple[float, float]:
    """Scale and shift of the objectness logits after which objectness is the chance that a box has found an object.

    Platt scaling: logistic regression of "matches an object" on the logit, targets smoothed as Platt (1999, Sec. 2.2)
    advises, so that a detector without mistakes does not become infinitely sure.

    Returns:
        (scale, shift); (1, 0) where there is nothing to learn from.
    """
    logits, hits = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    for seen, target in zip(found, arrays.targets, strict=True):
        p = np.clip(seen.objectness.astype(np.float64), 1e-6, 1 - 1e-6)
        logits.append(np.log(p / (1 - p)))
        hits.append(_matches(seen, target.boxes) >= 0)
    x, hit = np.concatenate(logits), np.concatenate(hits)
    n_hit, n_miss = int(hit.sum()), int((~hit).sum())
    if not n_hit or not n_miss:
        return 1.0, 0.0
    y = np.where(hit, (n_hit + 1) / (n_hit + 2), 1 / (n_miss + 2))
    design = np.stack([x, np.ones_like(x)], axis=1)
    weights = np.array([1.0, 0.0])
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(design @ weights, -50, 50)))
        gradient = design.T @ (p - y)
        hessian = (design * (p * (1 - p))[:, None]).T @ design + 1e-9 * np.eye(2)
        move = np.linalg.solve(hessian, gradient)
        weights = weights - move * min(1.0, 2.0 / max(float(np.abs(move).max()), 1e-12))
        if np.abs(move).max() < 1e-9:
            break
    # A falling curve would turn good boxes into bad ones: then the data say nothing of use.
    return (float(weights[0]), float(weights[1])) if weights[0] > 0 else (1.0, 0.0)


# --------------------------------------------------------------------------------------------------------------------
# Command line
# --------------------------------------------------------------------------------------------------------------------
def finish(out: Path, held_out: SceneArrays, val: SceneArrays, *, threads: int | None = None) -> dict[str, Any]:
    """Export a trained checkpoint with calibrated scores and threshold, and measure it.

    Writes ``detector.onnx`` and ``evaluation.json`` into ``out``.

    Args:
        held_out: pictures of the training split that were not learnt from: calibration.
        val: unseen scenes: the numbers to quote. May be empty.
    """
    path = out / "detector.onnx"
    checkpoint = out / CHECKPOINT
    export_onnx(checkpoint, path)
    scale, shift = fit_score_calibration(detect_all(BuiltinDetector(path, threads=threads), held_out), held_out)
    export_onnx(checkpoint, path, score_scale=scale, score_shift=shift)
    threshold = calibrate_threshold(detect_all(BuiltinDetector(path, threads=threads), held_out), held_out)
    result: dict[str, Any] = {"score_scale": scale, "score_shift": shift, "threshold": threshold}
    detector = BuiltinDetector(path, threads=threads)
    for name, arrays in (("held_out", held_out), ("val", val)):
        if len(arrays):
            started = time.monotonic()
            result[name] = evaluate_detector(detector, arrays, threshold)
            result[name]["pictures_per_s"] = round(len(arrays) / (time.monotonic() - started), 1)
    keys = ("pictures", "exact_set", "exact_count", "single_class", "color", "ap50")
    card = {name: {k: result[name][k] for k in keys} for name in ("held_out", "val") if name in result}
    card = json.loads(json.dumps(card).replace("NaN", "null"))
    export_onnx(checkpoint, path, card, threshold=threshold, score_scale=scale, score_shift=shift)
    text = json.dumps(result, indent=1).replace("NaN", "null")
    write_whole(out / "evaluation.json", text)
    return result


def train_and_export(
    scenes: Sequence[Path],
    out: Path,
    *,
    classes: Sequence[str] = PAINTSKILLS_CLASSES,
    colors: Sequence[str] = PAINTSKILLS_COLORS,
    cache: Path | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    batch_size: int = 16,
    width: float = 0.8,
    peak_lr: float = 2e-3,
    seed: int = 0,
    device: str = "auto",
    workers: int | None = None,
    held_out: float = 0.04,
    resume: bool = True,
    export_only: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Train on the scenes of some folders, calibrate, export to ``out/detector.onnx``, measure.

    Args:
        scenes: data set folders; those still being rendered are taken up once complete.
        cache: where decoded pictures are kept; ``out/cache`` if None.
        minutes, steps: of the whole training, resumed parts counted in.
        held_out: share of the train scenes kept for calibration.
        export_only: export and measure the checkpoint of ``out`` as it is.
        say: told of progress, a line at a time.
    Returns:
        What ``finish`` measured, also in ``out/evaluation.json``. Scenes of the split ``val`` in the folders are never
        learnt from; if there are any, the result says how well the detector does on them.
    Raises:
        UsageError: nothing to learn from, or neither steps nor minutes.
    """

    def load() -> SceneArrays:
        return load_scene_arrays(
            scenes, cache or out / "cache", classes=classes, colors=colors, skip_incomplete=True, log=say
        )

    def progress(line: Mapping[str, Any]) -> None:
        if line["event"] == "train":
            say(
                f"step {line['step']}  {line['pictures_per_s']} pictures/s of {line['pictures']}  "
                f"loss {line['loss'].get('total')}  {line['remaining_s'] // 60:.0f} min left"
            )
        else:
            say(json.dumps({k: v for k, v in line.items() if k not in ("classes", "colors")}))

    if export_only:
        kept, _, _ = _read_checkpoint(out / CHECKPOINT)
        classes, colors = kept.classes, kept.colors
    arrays = load()
    learn, calibration = split_held_out(arrays.of_split("train"), held_out)
    if not export_only:
        train_detector(
            learn,
            out=out,
            classes=classes,
            colors=colors,
            steps=steps,
            time_limit_s=minutes * 60 if minutes else None,
            batch_size=batch_size,
            seed=seed,
            width=width,
            peak_lr=peak_lr,
            resume=resume,
            device=device,
            workers=workers,
            log=progress,
            validation=calibration,
            refresh=lambda: split_held_out(load().of_split("train"), held_out)[0],
        )
        arrays = load()
        _, calibration = split_held_out(arrays.of_split("train"), held_out)
    return finish(out, calibration, arrays.of_split("val"), threads=workers)
