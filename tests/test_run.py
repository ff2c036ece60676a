"""A run in a notebook: numbers, tables, failures."""

import math

import pytest
from fakes import PixelJudge

from verism.errors import VerismError
from verism.manifest import RunSettings
from verism.pipeline.local import make_requests, run_images
from verism.pipeline.scoring import score_run
from verism.store import Run


@pytest.fixture(scope="module")
def suite_and_run(tmp_path_factory, suite):
    from fakes import PixelRenderer

    from verism.generators.scripted import ScriptedGenerator

    made = ScriptedGenerator(
        PixelRenderer(tuple(suite.classes), suite.colors, fails=[suite.scenes[0].scene_id]),
        classes=suite.classes,
        colors=suite.colors,
        error=0.5,
    )
    run = Run.start(tmp_path_factory.mktemp("run") / "mine", RunSettings(suite=suite.name))
    run.write_prompts(suite.prompts())
    judge = PixelJudge()
    run_images(run, make_requests(run.prompts(), 1), made, [(judge, n) for n in suite.needs()])
    unscored = repr(run), run._repr_html_()
    with pytest.raises(VerismError, match="no scores yet"):
        run.metrics()
    score_run(run, suite, judges={"detector": judge.name})
    return suite, run, unscored


def test_metrics_are_the_headlines_of_the_first_protocol_by_group(suite_and_run):
    _, run, _ = suite_and_run
    scores = {
        (s.metric, s.group.get("skill")): s.value
        for s in run.scores()
        if s.protocol == "revised" and set(s.group) <= {"skill"} and not s.adjusted
    }
    metrics = run.metrics()
    assert metrics["mean_accuracy"] == scores["mean_accuracy", None]
    for skill in ("object", "count", "spatial"):
        assert metrics[f"accuracy/skill={skill}"] == scores["accuracy", skill]
    headlines = {spec.name for spec in run.presentation().metrics if spec.headline}
    assert {name.partition("/")[0] for name in metrics} <= headlines
    assert not any(name.count("=") > 1 for name in metrics)


def test_metrics_of_a_run_without_presentation_are_the_revised_totals(suite_and_run, tmp_path):
    _, run, _ = suite_and_run
    old = Run.start(tmp_path / "old", RunSettings(suite="paintskills"))
    old.write_scores(run.scores())
    assert old.presentation() is None
    assert old.metrics()["mean_accuracy"] == run.metrics()["mean_accuracy"]
    assert all("/" not in name for name in old.metrics())


def test_frame_has_a_row_for_each_score_and_a_column_for_each_facet(suite_and_run):
    _, run, _ = suite_and_run
    frame, scores = run.frame(), run.scores()
    assert frame.height == len(scores)
    assert {facet for s in scores for facet in s.group} <= set(frame.columns)
    for row, score in zip(frame.iter_rows(named=True), scores, strict=True):
        assert (row["metric"], row["protocol"], row["skill"]) == (
            score.metric,
            score.protocol,
            score.group.get("skill"),
        )
        assert row["value"] == score.value or math.isnan(score.value)
        assert row["unit"] == score.unit


def test_failures_name_every_image_that_is_missing_or_judged_wrong(suite_and_run):
    suite, run, _ = suite_and_run
    failures = run.failures()
    verdicts = run.verdicts()
    wrong = {
        v["image_id"]
        for v in verdicts.iter_rows(named=True)
        if (v["protocol"], v["rule"], v["value"]) == ("revised", "accuracy", 0.0)
    }
    failed = f"{suite.scenes[0].scene_id}#0"
    assert 0 < len(wrong) < 11
    assert set(failures["image_id"].to_list()) == wrong | {failed}
    assert failures["image_id"].is_unique().all()
    prompts = {p.prompt_id: p for p in run.prompts()}
    for row in failures.iter_rows(named=True):
        assert row["prompt"] == prompts[row["prompt_id"]].text
        assert row["skill"] == prompts[row["prompt_id"]].facets["skill"]
        assert row["reason"]
        if row["image_id"] == failed:
            assert (row["state"], row["rule"], row["path"]) == ("failed", "", None)
        else:
            assert (row["state"], row["value"]) == ("ok", 0.0)
            assert row["path"].startswith(str(run.path.absolute()))


def test_repr_says_suite_and_headlines(suite_and_run):
    _, run, (before, html_before) = suite_and_run
    assert before == f"<Run {run.path}: suite paintskills, not scored yet>"
    assert "not scored yet" in html_before
    assert "&lt;Run" in html_before
    assert f"mean_accuracy {run.metrics()['mean_accuracy']:.4g}" in repr(run) or "accuracy/skill=" in repr(run)
    assert repr(run).startswith(f"<Run {run.path}: suite paintskills, ")
    html = run._repr_html_()
    assert html.count("<tr>") == len(run.metrics()) + 1
    assert f"{run.path} on paintskills" in html
