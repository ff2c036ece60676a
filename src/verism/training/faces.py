"""Training, measuring and exporting the built-in face finder: the detector's network and training, with one class.

``train_and_export`` renders faces (``face_examples``), trains with ``detector.train_detector``, chooses the threshold
on held-out images, and measures the exported file on images of a seed that nothing has seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from verism.files import write_whole
from verism.judges.detection.builtin import MIN_SCORE
from verism.judges.skin_tone.builtin import FINDER, BuiltinFaces
from verism.training._onnx_export import with_properties
from verism.training.detector import CHECKPOINT, export_onnx, train_detector
from verism.training.face_evaluation import evaluate_finder, search, threshold_for
from verism.training.face_examples import FaceExamples, FaceRendering, load_or_render
from verism.training.scene_arrays import held_out_of, split_held_out
from verism.training.settings import FacesConfig

__all__ = ["FALSE_PER_IMAGE", "finish", "train_and_export"]

FALSE_PER_IMAGE = 0.01
"""False boxes per image that a second, stricter threshold allows on held-out images; results are reported for both."""


def finish(
    out: Path, examples: FaceExamples, test: FaceExamples | None, *, held_out: float, threads: int | None = None
) -> dict[str, Any]:
    """Export a trained checkpoint with a threshold, and measure the file.

    Writes ``face_finder.onnx`` and ``evaluation.json`` into ``out``.

    Args:
        out: folder of the training.
        examples: those of the training; the held-out ones calibrate.
        test: examples of a seed that nothing has seen; None: nothing but the held-out ones is measured.
        held_out: share that was held out, as in the training.
        threads: number of threads of onnxruntime; None: its own choice.

    Returns:
        What was measured, by ``held_out`` and ``test``, see ``face_evaluation.evaluate_finder``.
    """
    path, checkpoint = out / FINDER, out / CHECKPOINT
    chosen = [k for k, name in enumerate(examples.names) if held_out_of(name, held_out)]
    export_onnx(checkpoint, path)
    finder = BuiltinFaces(path, min_score=MIN_SCORE, threads=threads)
    searched = search(finder, examples, chosen)
    threshold, strict = threshold_for(searched), threshold_for(searched, false_per_image=FALSE_PER_IMAGE)
    result: dict[str, Any] = {"threshold": threshold, "held_out": evaluate_finder(searched, threshold)}
    if test is not None:
        seen = search(finder, test, range(len(test)))
        result["test"] = evaluate_finder(seen, threshold)
        result["test_with_few_false_boxes"] = evaluate_finder(seen, strict)
    kept = ("images", "recall", "false_per_image", "equal_tones", "by_tone", "by_height")
    card = {name: {k: result[name][k] for k in kept} for name in ("held_out", "test") if name in result}
    about = finder.card | json.loads(json.dumps(card).replace("NaN", "null"))
    with_properties(path, {"threshold": str(threshold), "card": json.dumps(about)})
    result["bytes"] = path.stat().st_size
    write_whole(out / "evaluation.json", json.dumps(result, indent=1).replace("NaN", "null"))
    return result


def train_and_export(
    folders: Sequence[Path],
    out: Path,
    config: FacesConfig,
    *,
    rendering: FaceRendering = FaceRendering(),
    export_only: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Render examples, train, export to ``out``, and measure on examples of another seed.

    Args:
        folders: examples that are rendered already (or still being rendered); none: they are rendered into
            ``out/examples``.
        out: folder of the training, made if missing.
        config: the settings.
        rendering: how many images are rendered.
        export_only: export and measure the checkpoint of ``out`` as it is.
        say: receives progress, a line at a time.

    Returns:
        What ``finish`` measured, also in ``out/evaluation.json``.

    Raises:
        UsageError: nothing to learn from, or neither steps nor minutes.
    """
    if not export_only:
        config.check_length()
    load, test = load_or_render(folders, out, rendering, seed=config.seed, processes=config.workers, say=say)
    if not export_only:
        learn, held_out = split_held_out(load().scene_arrays(config.size), config.held_out)
        train_detector(
            learn, config, out=out, validation=held_out,
            refresh=(lambda: split_held_out(load().scene_arrays(config.size), config.held_out)[0]) if folders else None,
            log=lambda line: say(json.dumps({k: v for k, v in line.items() if k != "settings"})),
        )  # fmt: skip
    return finish(out, load(), test(), held_out=config.held_out, threads=config.workers)
