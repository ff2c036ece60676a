"""TensorBoard: scalars by step, settings and the main table as text, sample images, the report as a file beside them.

Event files are written by TensorBoard's own writer, without TensorFlow and without PyTorch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verism.errors import require
from verism.store import slug
from verism.trackers.evaluation import Chosen, Evaluation, check_sizes, redact

__all__ = ["TensorBoard"]


class TensorBoard:
    """TensorBoard event files (tensorboard:DIR). View them with `tensorboard --logdir DIR`.

    Evaluations of one name have one folder. Report, scores and sample images lie in its folder `verism`.

    Args:
        folder: folder of the event files, created if it does not exist.
        run_name: name of this model's folder. Default: its name in a plan, else the run directory's.
        scores: scores to log: all, or only headline metrics.
        images: highest number of sample images logged.
        report: write the report as well.
    """

    def __init__(
        self,
        folder: Path,
        *,
        run_name: str | None = None,
        scores: Chosen = "all",
        images: int = 16,
        report: bool = True,
    ) -> None:
        self.name = redact(f"tensorboard:{folder}")
        self._folder, self._run_name = folder, run_name
        self._chosen, self._images, self._report = scores, check_sizes(images), report
        self._writers: dict[str, Any] = {}
        require("tensorboard", extra="trackers", purpose="logging to TensorBoard")

    def log(self, evaluation: Evaluation) -> None:
        """Log an evaluation; without a step it stands at step 0.

        Args:
            evaluation: a scored run.
        """
        folder = self._folder / slug(self._run_name or evaluation.title)
        images = evaluation.write_files(
            folder / "verism" / evaluation.folder, n_images=self._images, report=self._report
        )
        suite = evaluation.suite
        values: list[dict[str, Any]] = [
            {"tag": name, "simple_value": number} for name, number in evaluation.metrics(self._chosen).items()
        ]
        texts = {f"{suite}/settings": _markdown(_described(evaluation)), f"{suite}/table": evaluation.table()}
        values += [_text(tag, text) for tag, text in texts.items()]
        for n, (_, image) in enumerate(images):
            width, height = _size(image.jpeg)
            encoded = {"encoded_image_string": image.jpeg, "width": width, "height": height, "colorspace": 3}
            values.append({"tag": f"{suite}/sample/{n:03d}", "image": encoded})
            values.append(_text(f"{suite}/sample/{n:03d}/prompt", image.caption))
        self._write(folder, evaluation.step or 0, values)

    def close(self) -> None:
        """Close the event files."""
        while self._writers:
            self._writers.popitem()[1].close()

    def _write(self, folder: Path, step: int, values: list[dict[str, Any]]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        key = str(folder)
        if key not in self._writers:
            self._writers[key] = EventFileWriter(key)
        summary = Summary(value=[Summary.Value(**value) for value in values])
        self._writers[key].add_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._writers[key].flush()


def _described(evaluation: Evaluation) -> Mapping[str, str]:
    step = {} if evaluation.step is None else {"step": str(evaluation.step)}
    return {**step, **({"checkpoint": evaluation.checkpoint} if evaluation.checkpoint else {}), **evaluation.params()}


def _markdown(settings: Mapping[str, str]) -> str:
    def cell(text: str) -> str:
        return text.replace("|", "\\|")

    rows = [f"| {cell(name)} | {cell(text)} |" for name, text in settings.items()]
    return "\n".join(["| setting | value |", "|---|---|", *rows])


def _text(tag: str, text: str) -> dict[str, Any]:
    """A value of TensorBoard's text plug-in."""
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return {"tag": tag, "metadata": metadata, "tensor": TensorProto(dtype=DT_STRING, string_val=[text.encode()])}


def _size(jpeg: bytes) -> tuple[int, int]:
    from verism.imaging import open_image

    with open_image(jpeg) as image:
        return image.size
