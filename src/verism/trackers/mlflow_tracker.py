"""MLflow: metrics, params, tags and artifacts, on a server or in a folder of this machine."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verism.errors import UsageError, require
from verism.trackers.evaluation import Chosen, Evaluation, check_sizes, redact

__all__ = ["MLflow", "mlflow_name"]

MAX_NAME = 250  # characters of a metric's or param's name
MAX_METRICS, MAX_PARAMS = 1000, 100  # in one request
# A server that is gone must not keep a finished evaluation for minutes; nothing is sent to anybody else.
DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def mlflow_name(name: str) -> str:
    """A name as MLflow takes it: letters, digits and ``_-. :/``; ``=`` becomes ``:``.

    Names that had to lose more than that end in a hash, so that no two become one.

    >>> mlflow_name("paintskills/accuracy/skill=count")
    'paintskills/accuracy/skill:count'

    Args:
        name: any name.
    """
    plain = name.replace("=", ":")
    clean = re.sub(r"[^\w\-. :/]", "_", plain, flags=re.ASCII)
    if clean == plain and ":" not in name and len(clean) <= MAX_NAME:
        return clean
    return f"{clean[: MAX_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class MLflow:
    """MLflow: a server, a database, or a folder.

    Evaluations of one name are one run of MLflow. Scores are metrics, settings are params; report, scores and sample
    images are artifacts.

    Args:
        uri: tracking URI (``http://...``, ``sqlite:///...``, ``databricks``), or a folder, which gets a SQLite
            database. Default: MLFLOW_TRACKING_URI.
        experiment: name of the experiment, created if it does not exist.
        run_name: name of the run. Default: the model's name in a plan, else the run directory's.
        run_id: id of an existing run to log to, such as that of the training; it is left open.
        scores: scores to log: all, or only headline metrics.
        images: highest number of sample images logged as artifacts.
        report: log the report as an artifact.
    """

    def __init__(
        self,
        uri: str = "",
        *,
        experiment: str = "verism",
        run_name: str | None = None,
        run_id: str | None = None,
        scores: Chosen = "all",
        images: int = 16,
        report: bool = True,
    ) -> None:
        if uri.startswith("file:"):
            raise UsageError("mlflow: MLflow has given up its store of files; name a folder, which gets a database")
        self.name = redact(f"mlflow:{uri}" if uri else "mlflow")
        self._uri, self._experiment = uri, experiment
        self._run_name, self._run_id = run_name, run_id
        self._chosen, self._images, self._report = scores, check_sizes(images), report
        self._runs: dict[str, str] = {}
        self._made: list[str] = []
        self._known: Any = None
        with _environment():
            require("mlflow", extra="trackers", purpose="logging to MLflow")
            if self._is_folder or uri.startswith("sqlite:"):
                require("sqlalchemy", extra="trackers", purpose="MLflow's database")

    @property
    def _is_folder(self) -> bool:
        return bool(self._uri) and "://" not in self._uri and not self._uri.startswith(("databricks", "sqlite:"))

    def log(self, evaluation: Evaluation) -> None:
        """Log an evaluation.

        Args:
            evaluation: a scored run.
        """
        with _environment():
            client = self._client()
            run_id = self._run_of(client, evaluation)
            self._log_values(client, run_id, evaluation)
            with tempfile.TemporaryDirectory(prefix="verism-mlflow-", ignore_cleanup_errors=True) as folder:
                evaluation.write_files(Path(folder), n_images=self._images, report=self._report)
                client.log_artifacts(run_id, folder, artifact_path=evaluation.folder)

    def close(self) -> None:
        """End the runs that were begun here."""
        with _environment():
            while self._made:
                self._client().set_terminated(self._made.pop())
        self._runs.clear()

    def _client(self) -> Any:
        if self._known is None:
            from mlflow.tracking import MlflowClient

            uri: str | None = self._uri or None
            if self._is_folder:
                folder = Path(self._uri).expanduser().absolute()
                folder.mkdir(parents=True, exist_ok=True)
                uri = f"sqlite:///{folder / 'mlflow.db'}"
            self._known = MlflowClient(tracking_uri=uri)
        return self._known

    def _run_of(self, client: Any, evaluation: Evaluation) -> str:
        if self._run_id is not None:
            return self._run_id
        name = self._run_name or evaluation.title
        if name not in self._runs:
            found = client.get_experiment_by_name(self._experiment)
            experiment = client.create_experiment(self._experiment, **self._artifacts()) if found is None else None
            run = client.create_run(experiment or found.experiment_id, run_name=name)
            self._runs[name] = run.info.run_id
            self._made.append(run.info.run_id)
        return self._runs[name]

    def _artifacts(self) -> dict[str, str]:
        if not self._is_folder:
            return {}
        return {"artifact_location": (Path(self._uri).expanduser().absolute() / "artifacts").as_uri()}

    def _log_values(self, client: Any, run_id: str, evaluation: Evaluation) -> None:
        import time

        from mlflow.entities import Metric, Param, RunTag

        now, step = int(time.time() * 1000), evaluation.step or 0
        numbers = evaluation.metrics(self._chosen)
        metrics = [Metric(mlflow_name(name), value, now, step) for name, value in numbers.items()]
        for start in range(0, len(metrics), MAX_METRICS):
            client.log_batch(run_id, metrics=metrics[start : start + MAX_METRICS])
        # A param is written once; what changes from one evaluation to the next is in its settings.json.
        there = client.get_run(run_id).data.params
        wanted = {mlflow_name(name): text for name, text in evaluation.params().items()}
        params = [Param(name, text) for name, text in wanted.items() if name not in there]
        for start in range(0, len(params), MAX_PARAMS):
            client.log_batch(run_id, params=params[start : start + MAX_PARAMS])
        tags: Mapping[str, str] = {
            f"verism.{evaluation.suite}.headline": ", ".join(map(mlflow_name, evaluation.headline_names()))[:5000],
            **({"verism.checkpoint": evaluation.checkpoint} if evaluation.checkpoint else {}),
        }
        client.log_batch(run_id, tags=[RunTag(name, text) for name, text in tags.items()])


@contextmanager
def _environment() -> Iterator[None]:
    """Our defaults for what the user left unset, while MLflow is at work."""
    ours = {name: value for name, value in DEFAULTS.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
