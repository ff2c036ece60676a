"""Metrics added to a run: measured once for each image, scored every time, and never lost by a later scoring."""

from dataclasses import replace
from typing import ClassVar

import pytest
from fakes import PixelJudge

from verism import api
from verism.errors import UsageError, VerismError
from verism.manifest import RunSettings
from verism.pipeline import added_metrics
from verism.pipeline.added_metrics import Metric
from verism.pipeline.local import make_requests, run_images
from verism.pipeline.scoring import score_run
from verism.records import Score
from verism.specs import MetricSpec, Scale
from verism.store import Run

SPEC = MetricSpec(
    "blueness",
    title="blueness",
    meaning="Mean blue of an image.",
    scale=Scale("shade", 0, 255),
    better="lower",
    source="the pixels",
    headline=True,
)


class Blueness(Metric):
    """Mean blue of an image; None for images of the skill color."""

    spec: ClassVar[MetricSpec] = SPEC
    facets: ClassVar[tuple[str, ...]] = ("skill",)

    def __init__(self):
        self.measured = []

    def measure(self, image, prompt):
        self.measured.append(image.image_id)
        return None if prompt.facets["skill"] == "color" else float(image.pixels[..., 2].mean())


@pytest.fixture(autouse=True)
def no_installed_metrics(monkeypatch):
    monkeypatch.setattr(added_metrics, "installed_metrics", dict)


@pytest.fixture
def run(tmp_path, suite, scripted) -> Run:
    run = Run.start(tmp_path / "run", RunSettings(suite=suite.name, suite_settings=suite.settings()))
    run.write_prompts(suite.prompts())
    judge = PixelJudge()
    run_images(run, make_requests(run.prompts(), 1), scripted(0.5), [(judge, n) for n in suite.needs()])
    score_run(run, suite, judges={"detector": judge.name})
    return run


def blue(run: Run) -> dict:
    return {s.group.get("skill"): s for s in run.scores() if s.metric == "blueness"}


def test_added_metric_is_measured_once_and_scored_over_all_and_by_facet(run, suite):
    metric = Blueness()
    score_run(run, suite, metrics=[metric])
    assert sorted(metric.measured) == sorted(run.keys("images"))
    scores = blue(run)
    assert set(scores) == {None, "object", "count", "spatial", "color"}
    assert (scores[None].n_used, scores[None].n_unusable) == (9, 3)
    assert (scores["color"].n_used, scores["color"].n_unusable) == (0, 3)
    assert scores[None].value == pytest.approx(sum(scores[s].value for s in ("object", "count", "spatial")) / 3)
    assert (scores[None].unit, scores[None].higher_is_better) == ("shade", False)
    assert scores[None].ci_low < scores[None].value < scores[None].ci_high
    assert run.presentation().metric("blueness") == SPEC
    assert run.metrics()["blueness"] == scores[None].value
    score_run(run, suite, metrics=[metric])
    assert len(metric.measured) == 12  # nothing was measured again


def test_added_metric_is_kept_by_later_scorings_without_it(run, suite):
    score_run(run, suite, metrics=[Blueness()])
    before = repr(blue(run))  # as text, in which NaN equals itself
    score_run(Run.open(run.path), suite.with_rules(threshold_revised=1.0))
    assert repr(blue(Run.open(run.path))) == before
    api.score(run.path)
    assert repr(blue(Run.open(run.path))) == before
    assert Run.open(run.path).presentation().metric("blueness") == SPEC


def test_another_version_of_a_metric_measures_anew(run, suite):
    class Darker(Blueness):
        version = "2"

        def measure(self, image, prompt):
            value = super().measure(image, prompt)
            return None if value is None else value / 2

    score_run(run, suite, metrics=[Blueness()])
    before = blue(run)[None].value
    newer = Darker()
    score_run(run, suite, metrics=[newer])
    assert len(newer.measured) == 12
    assert blue(run)[None].value == pytest.approx(before / 2)


def test_scores_that_a_caller_wrote_survive_scoring(run, suite):
    subset = Score(
        suite=suite.name, metric="my_score", protocol="revised", group={"skill": "object"}, value=3.5, ci_low=3.0,
        ci_high=4.0, n_used=3, n_unusable=0, unit="stars", higher_is_better=True,
    )  # fmt: skip
    run.write_scores([*run.scores(), subset])
    for _ in range(2):
        api.score(run.path)
        assert [s for s in Run.open(run.path).scores() if s.metric == "my_score"] == [subset]
    known = Run.open(run.path).presentation().metric("my_score")
    assert (known.scale.unit, known.better) == ("stars", "higher")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "bright", [1.0]])
def test_values_that_are_no_finite_number_are_refused_with_the_image(run, suite, value):
    class Wrong(Blueness):
        def measure(self, image, prompt):  # noqa: ARG002
            return value

    before = repr(run.scores())
    with pytest.raises(VerismError, match=r"metric blueness 1: \S+#0 got .*; expected a finite number, or None"):
        score_run(run, suite, metrics=[Wrong()])
    assert repr(Run.open(run.path).scores()) == before


def test_a_metric_with_the_name_of_one_of_the_suites_is_refused(run, suite):
    class Taken(Blueness):
        spec = replace(SPEC, name="accuracy")

    with pytest.raises(UsageError, match="the suite paintskills has a metric 'accuracy' of its own"):
        score_run(run, suite, metrics=[Taken()])
