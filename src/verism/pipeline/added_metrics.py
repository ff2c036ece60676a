"""Metrics that are added to runs of any suite: one number for each image, measured once and scored every time.

Other packages add them by the entry point group ``verism.metrics``, whose objects are subclasses of ``Metric``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from verism import plugins
from verism.errors import UsageError, VerismError
from verism.pipeline.stream import BATCH, batches, reload_image
from verism.progress import Progress
from verism.records import LoadedImage, Prompt, Score, frame
from verism.specs import MetricSpec, Presentation, Scale
from verism.statistics.intervals import clustered_average
from verism.store import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["GROUP", "Added", "Metric", "added_scores", "installed_metrics"]

GROUP = "verism.metrics"
TABLE = "measurements"
PROTOCOL = "revised"


class Metric(ABC):
    """A number for each image; its mean is added to the scores of a run.

    Attributes:
        spec: what the mean means.
        version: changes whenever the same image would get another number: images are then measured anew.
        facets: facets of the prompts by whose values means are reported besides the mean over all images.
    """

    spec: ClassVar[MetricSpec]
    version: ClassVar[str] = "1"
    facets: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """Name and version, under which measurements are kept."""
        return f"{self.spec.name} {self.version}"

    @abstractmethod
    def measure(self, image: LoadedImage, prompt: Prompt) -> float | None:
        """The number of one image.

        Args:
            image: decoded; ``image.pixels`` is RGB, shape (H, W, 3), uint8.
            prompt: that the image was made for.

        Returns:
            A finite number, or None if this image has none.
        """


@dataclass(frozen=True)
class Added:
    """Scores of added metrics, and what the suite says of itself with them.

    Attributes:
        scores: scores in the order of the metrics, then those that a caller wrote into the run.
        presentation: presentation of the suite, with the metrics of these scores.
    """

    scores: tuple[Score, ...]
    presentation: Presentation


def installed_metrics() -> dict[str, tuple[type[Metric], str]]:
    """Metrics of installed packages by name, with the package.

    Raises:
        UsageError: an entry point that cannot be loaded, or is no metric.
    """
    known: dict[str, tuple[type[Metric], str]] = {}
    for point in plugins.entry_points(group=GROUP):
        package = "another package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
        try:
            loaded: Any = point.load()
        except Exception as err:
            raise UsageError(f"metric {point.name}: its package {package} cannot be loaded: {err!r}") from err
        if not (isinstance(loaded, type) and issubclass(loaded, Metric)):
            raise UsageError(f"metric {point.name}: {point.value} of {package} is no subclass of verism.Metric")
        known[point.name] = (loaded, package)
    return known


def added_scores(run: Run, presentation: Presentation, metrics: Sequence[Metric] = ()) -> Added:
    """Scores that no suite computes: of metrics that were passed or installed, and those that a caller wrote.

    Args:
        run: whose images are measured; each image once.
        presentation: what the suite says of itself.
        metrics: passed by the caller; they come before installed ones of the same name.

    Raises:
        UsageError: a metric with the name of one of the suite's.
        VerismError: a metric gave no finite number.
    """
    chosen = {metric.spec.name: metric for metric in metrics}
    for loaded, _ in installed_metrics().values():
        chosen.setdefault(loaded.spec.name, loaded())
    if taken := [name for name in chosen if presentation.metric(name) is not None]:
        raise UsageError(
            f"the suite {presentation.info.name} has a metric {taken[0]!r} of its own; name yours otherwise"
        )
    scores: list[Score] = []
    specs: dict[str, MetricSpec] = {}
    for name, metric in chosen.items():
        _measure(run, metric)
        scores += _scores_of(run, metric)
        specs[name] = replace(metric.spec, compare="never" if metric.spec.compare == "paired" else metric.spec.compare)
    before = run.presentation()
    for score in _kept(run, presentation, before, specs):
        scores.append(score)
        specs[score.metric] = (before and before.metric(score.metric)) or _spec_of(score)
    return Added(tuple(scores), replace(presentation, metrics=(*presentation.metrics, *specs.values())))


def _kept(
    run: Run, presentation: Presentation, before: Presentation | None, specs: Mapping[str, MetricSpec]
) -> list[Score]:
    """Scores in the run that neither its suite nor a chosen metric computes: a caller wrote them, and they stay."""
    if before is None or not run.is_scored:
        return []  # runs of earlier versions do not say what their suite computed
    of_suite = {spec.name for spec in presentation.metrics} | set(specs)
    added_before = {spec.name for spec in before.metrics} - of_suite
    return [
        score
        for score in run.scores()
        if score.metric in added_before or (score.metric not in of_suite and before.metric(score.metric) is None)
    ]


def _spec_of(score: Score) -> MetricSpec:
    """What is known of a metric whose score a caller wrote."""
    better = {True: "higher", False: "lower", None: None}[score.higher_is_better]
    return MetricSpec(
        score.metric,
        title=score.metric.replace("_", " "),
        meaning="Added to the run by its owner.",
        scale=Scale(score.unit or "number"),
        better=better,  # type: ignore[arg-type]
        source="added to the run",
    )


def _measure(run: Run, metric: Metric) -> None:
    """Measure the images that were not measured yet."""
    import polars as pl

    prompts = {p.prompt_id: p for p in run.prompts()}
    images = run.read("images").filter(pl.col("state") == "ok")
    measured = run.keys(TABLE, metric.name)
    pending = [row for row in images.iter_rows(named=True) if row["image_id"] not in measured]
    if not pending:
        return
    with (
        ThreadPoolExecutor(max_workers=2, thread_name_prefix="verism-io") as pool,
        Progress(metric.spec.title, images.height, done=images.height - len(pending)) as progress,
    ):
        for rows in batches(pending, BATCH):
            loaded = list(pool.map(lambda row: reload_image(run, row), rows))
            values = [
                {
                    "image_id": image.image_id,
                    "judge": metric.name,
                    "value": _checked(metric, image, metric.measure(image, prompts[image.prompt_id])),
                }
                for image in loaded
                if image is not None
            ]
            hashes = {image.image_id: image.sha256 for image in loaded}
            run.append(TABLE, frame(TABLE, values), metric.name, images=hashes)
            progress.advance(len(rows))
    run.compact(TABLE, metric.name)


def _checked(metric: Metric, image: LoadedImage, value: Any) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise VerismError(f"metric {metric.name}: {image.image_id} got {value!r}; expected a finite number, or None")
    return number


def _scores_of(run: Run, metric: Metric) -> list[Score]:
    """Means over all images and by facet, with intervals clustered by prompt."""
    import polars as pl

    prompts = {p.prompt_id: p for p in run.prompts()}
    images = run.read("images", columns=["image_id", "prompt_id"])
    rows = images.join(run.read(TABLE, metric.name, columns=["image_id", "value"]), on="image_id", how="left")
    groups: list[tuple[dict[str, Any], pl.DataFrame]] = [({}, rows)]
    for facet in metric.facets:
        level = [prompts[p].facets.get(facet) for p in rows["prompt_id"].to_list()]
        for value in dict.fromkeys(v for v in level if v is not None):
            groups.append(({facet: value}, rows.filter(pl.Series([v == value for v in level]))))
    scores = []
    for group, chosen in groups:
        usable = chosen.filter(pl.col("value").is_not_null())
        interval = clustered_average(usable["value"].to_numpy(), np.array(usable["prompt_id"].to_list()))
        scores.append(
            Score(
                suite=run.suite_name,
                metric=metric.spec.name,
                protocol=PROTOCOL,
                group=group,
                value=interval.value,
                ci_low=interval.low,
                ci_high=interval.high,
                n_used=usable.height,
                n_unusable=chosen.height - usable.height,
                unit="number" if metric.spec.scale is None else metric.spec.scale.unit,
                higher_is_better=metric.spec.higher_is_better,
            )
        )
    return scores
