"""Weights & Biases: metrics by step, settings as config, sample images, an artifact with the report."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, Literal

from verism.errors import UsageError, require
from verism.trackers.evaluation import Chosen, Evaluation, check_sizes, redact

__all__ = ["WeightsAndBiases"]


class WeightsAndBiases:
    """Weights & Biases (wandb:PROJECT). The key is read by wandb itself: `wandb login`, or WANDB_API_KEY.

    Evaluations of one name are one run. The command line that ran verism, the state of the repository and the load of
    the machine are not sent.

    Args:
        project: name of the project.
        entity: user or team. Default: the account's.
        mode: mode of wandb. ``offline`` writes files for a later ``wandb sync``; ``disabled`` logs nothing.
            Default: WANDB_MODE, else online.
        dir: folder of wandb's files. Default: wandb's own, ``./wandb``.
        run_name: name of the run. Default: the model's name in a plan, else the run directory's.
        run_id: id of an existing run to continue.
        scores: scores to log: all, or only headline metrics.
        images: highest number of sample images logged.
        report: include the report in the artifact.
        run: from Python, a run that is open already, such as `wandb.run` of the training; it is left open.
    """

    def __init__(
        self,
        project: str = "verism",
        *,
        entity: str | None = None,
        mode: Literal["online", "offline", "disabled"] | None = None,
        dir: Path | None = None,
        run_name: str | None = None,
        run_id: str | None = None,
        scores: Chosen = "all",
        images: int = 16,
        report: bool = True,
        run: Any = None,
    ) -> None:
        if re.search(r"[/\\#?%:]", project):
            raise UsageError(f"wandb: {project!r} is no name of a project; write wandb:PROJECT?entity=TEAM")
        self.name = redact(f"wandb:{project}")
        self._project, self._entity, self._mode, self._dir = project, entity, mode, dir
        self._run_name, self._run_id, self._given = run_name, run_id, run
        self._chosen, self._images, self._report = scores, check_sizes(images), report
        self._runs: dict[str, Any] = {}
        self._wandb: Any = require("wandb", extra="trackers", purpose="logging to Weights & Biases")

    def log(self, evaluation: Evaluation) -> None:
        """Log an evaluation.

        Args:
            evaluation: a scored run.
        """
        run, suite = self._run_of(evaluation), evaluation.suite
        # Steps of their own: wandb drops what is logged for an earlier step than the last, of the training, say.
        run.define_metric(f"{suite}/step")
        run.define_metric(f"{suite}/*", step_metric=f"{suite}/step")
        run.config.update(evaluation.params(), allow_val_change=True)
        values: dict[str, Any] = {f"{suite}/step": evaluation.step or 0, **evaluation.metrics(self._chosen)}
        with tempfile.TemporaryDirectory(prefix="verism-wandb-", ignore_cleanup_errors=True) as folder:
            images = evaluation.write_files(Path(folder), n_images=self._images, report=self._report)
            if images:
                values[f"{suite}/sample"] = [
                    self._wandb.Image(str(file), caption=image.caption) for file, image in images
                ]
            run.log(values)
            if evaluation.checkpoint:
                run.summary[f"{suite}/checkpoint"] = evaluation.checkpoint
            artifact = self._wandb.Artifact(
                f"{run.id}-{suite}",
                type="evaluation",
                metadata={"step": evaluation.step, "checkpoint": evaluation.checkpoint, "suite": suite},
            )
            artifact.add_dir(folder)
            run.log_artifact(artifact)
            if not run.offline and run.settings.mode != "disabled":
                artifact.wait()  # its files are read until then

    def close(self) -> None:
        """Finish the runs that were begun here."""
        while self._runs:
            self._runs.popitem()[1].finish()

    def _run_of(self, evaluation: Evaluation) -> Any:
        if self._given is not None:
            return self._given
        name = self._run_name or evaluation.title
        if name not in self._runs:
            if self._dir is not None:
                self._dir.mkdir(parents=True, exist_ok=True)
            settings = self._wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                disable_job_creation=True,
                x_disable_meta=True,
                x_disable_stats=True,
            )
            self._runs[name] = self._wandb.init(
                project=self._project,
                entity=self._entity,
                mode=self._mode,
                dir=None if self._dir is None else str(self._dir),
                name=name,
                id=self._run_id,
                resume=None if self._run_id is None else "allow",
                reinit="create_new",
                job_type="evaluation",
                settings=settings,
            )
        return self._runs[name]
