"""Where the renderer knows the truth, the judge is judged: its rates must come out as they were put in."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from fakes import PixelJudge, PixelRenderer

from verism.errors import UsageError
from verism.generators.scripted import MISTAKES, detections_of, spoil
from verism.manifest import RunSettings
from verism.pipeline.local import make_requests, observe_images, run_images
from verism.pipeline.scoring import score_run
from verism.records import Observed, Scene, frame
from verism.store import Run
from verism.suites.paintskills.scenes import prompt_of
from verism.suites.paintskills.suite import PaintSkills, PaintSkillsV1


@pytest.fixture(scope="module")
def objects() -> PaintSkills:
    return PaintSkills.standard(skills=("object",), limit=80, seed=2)


def judged(path, suite, generator, judge) -> Run:
    run = Run.start(path, RunSettings(suite=suite.name))
    run.write_prompts(suite.prompts())
    run_images(run, make_requests(run.prompts(), 1), generator, [(judge, n) for n in suite.needs()])
    score_run(run, suite, judges={"detector": judge.name})
    return run


def numbers(run: Run, protocol: str = "revised", **group) -> dict[str, tuple[float, int]]:
    return {s.metric: (s.value, s.n_used) for s in run.scores() if s.protocol == protocol and dict(s.group) == group}


@pytest.mark.parametrize("error", [0.0, 0.5, 1.0])
def test_a_perfect_judge_has_no_error_and_measures_the_truth(error, tmp_path, suite, scripted):
    run = judged(tmp_path / "run", suite, scripted(error), PixelJudge())
    for skill in ("object", "count", "spatial", "color"):
        result = numbers(run, skill=skill)
        assert result["true_accuracy"] == result["accuracy"]
        for name in ("judge_false_accept", "judge_false_reject"):
            value, n = result[name]
            assert value == 0 if n else np.isnan(value)
    made = run.read("images")["note"].to_list()
    right = sum(s.value * s.n_used for s in run.scores() if s.metric == "true_accuracy" and s.protocol == "revised")
    assert right == made.count("rendered as asked")


def test_known_errors_of_a_judge_come_out_as_rates(tmp_path, objects, scripted):
    requests = make_requests(objects.prompts(), 1)
    rendered = {r.image_id: r.note == "rendered as asked" for r in scripted(0.5).generate(requests)}
    right, wrong = ([i for i, is_right in rendered.items() if is_right is kind] for kind in (True, False))
    assert min(len(right), len(wrong)) >= 25
    # Blind to 5 of the right images, and dreaming of what was asked in 7 of the wrong ones.
    erring = {*right[:5], *wrong[:7]}
    labels = {r.image_id: r.prompt.spec["labels"][0] for r in requests}
    judge = PixelJudge(wrong=erring.__contains__, dreams={i: [(labels[i], None, (10, 10, 30, 30))] for i in wrong[:7]})
    result = numbers(judged(tmp_path / "run", objects, scripted(0.5), judge), skill="object")
    assert result["judge_false_reject"] == (pytest.approx(5 / len(right)), len(right))
    assert result["judge_false_accept"] == (pytest.approx(7 / len(wrong)), len(wrong))
    assert result["true_accuracy"] == (pytest.approx(len(right) / 80), 80)
    assert result["accuracy"] == (pytest.approx((len(right) - 5 + 7) / 80), 80)


def test_the_truth_does_not_move_with_the_judges_limit(tmp_path, suite, scripted):
    run = judged(tmp_path / "run", suite, scripted(0.5), PixelJudge())
    before = numbers(run, skill="object")["true_accuracy"]
    score_run(run, suite.with_rules(threshold_revised=1.0))
    after = numbers(run, skill="object")
    assert after["true_accuracy"] == before
    assert after["accuracy"][0] == 0.0
    assert after["judge_false_reject"][0] == 1.0


def test_images_without_truth_have_no_judge_error(tmp_path, suite, scripted):
    class Silent:
        name = "silent"

        def generate(self, requests):
            for result in scripted(0.5).generate(requests):
                yield replace(result, truth={})

    metrics = {s.metric for s in judged(tmp_path / "run", suite, Silent(), PixelJudge()).scores()}
    assert "accuracy" in metrics
    assert not {m for m in metrics if m.startswith(("judge_", "true_"))}


def test_scoring_needs_to_know_whose_boxes_count(tmp_path, suite, scripted):
    run = judged(tmp_path / "run", suite, scripted(), PixelJudge())
    for need in suite.needs():
        observe_images(run, make_requests(run.prompts(), 1), PixelJudge(name="second@1"), need)
    run.note_scoring(judges={})
    with pytest.raises(UsageError, match=r"several judges .* \['pixel-judge@1', 'second@1'\]"):
        score_run(run, suite)
    with pytest.raises(UsageError, match=r"no judge 'third'; there are"):
        score_run(run, suite, judges={"detector": "third"})
    assert score_run(run, suite, judges={"detector": "second@1"})


def test_scoring_again_gives_the_same_bytes(tmp_path, suite, scripted):
    run = judged(tmp_path / "run", suite, scripted(0.5), PixelJudge())
    files = ("scores.json", "scores.parquet", "verdicts.parquet")
    before = [run.scoring_file(f).read_bytes() for f in files]
    score_run(Run.open(run.path), suite)
    assert [run.scoring_file(f).read_bytes() for f in files] == before
    assert (run.path / "scores.json").read_bytes() == before[0]


# ----------------------------------------------------------------------------------------------------------- mistakes
def verdicts_of(suite: PaintSkills, rendered: list[tuple[Scene, Scene]]) -> list[tuple[float, str]]:
    """What the revised rule says of images that were asked to show one scene and show another, without judging."""
    renderer = PixelRenderer(tuple(suite.classes), suite.colors)
    images, boxes, prompts = [], [], {}
    for number, (asked, shown) in enumerate(rendered):
        i = f"{number:05d}"
        prompts[i] = replace(prompt_of(asked, suite.name), prompt_id=i)
        images.append({"image_id": i, "prompt_id": i, "state": "ok", "width": 64, "height": 64, "note": ""})
        boxes.append(detections_of(i, shown, renderer.render(shown), tuple(suite.classes), suite.colors))
    verdicts = suite.verdicts(
        Observed(prompts=prompts, images=frame("images", images), observations={"detections": pl.concat(boxes)})
    )
    right = verdicts.filter((pl.col("protocol") == "revised") & (pl.col("rule") == "accuracy")).sort("image_id")
    return list(right.select("value", "reason").iter_rows())


@pytest.fixture(scope="module", params=["paintskills", "paintskills_v1"])
def many(request) -> PaintSkills:
    suite = {"paintskills": PaintSkills, "paintskills_v1": PaintSkillsV1}[request.param]
    return suite.standard(skills=("object", "count", "color", "spatial"), limit=160, seed=9)


def test_what_is_rendered_as_asked_is_right(many):
    assert {value for value, _ in verdicts_of(many, [(s, s) for s in many.scenes])} == {1.0}


# No prompt has two painted objects, or asks for a texture, a shape or a text.
@pytest.mark.parametrize("mistake", ["count", "class", "relation", "color", "empty"])
def test_every_mistake_makes_the_image_wrong(many, mistake):
    rendered, kinds = [], []
    for number, scene in enumerate(many.scenes):
        for seed in range(3):
            rng = np.random.default_rng([number, seed])
            try:
                shown, made = spoil(scene, rng, classes=many.classes, colors=many.colors, mistakes=(mistake,))
            except UsageError:
                continue
            rendered.append((scene, shown))
            kinds.append(made)
    if mistake == "empty" and many.name == "paintskills_v1":
        assert not rendered  # nothing in the black void would be a blank image, which is no wrong answer
        return
    skills = {"count": {"count"}, "relation": {"spatial"}, "color": {"color"}}
    assert {asked.skill for asked, _ in rendered} == skills.get(mistake, {"object", "count", "color", "spatial"})
    for (value, reason), made in zip(verdicts_of(many, rendered), kinds):
        assert value == 0.0, (made, reason)


def test_mistakes_keep_all_but_the_one_thing(many):
    rng = np.random.default_rng(0)
    for scene in many.scenes:
        for kind in MISTAKES:
            try:
                shown, made = spoil(scene, rng, classes=many.classes, colors=many.colors, mistakes=(kind,))
            except UsageError:
                continue
            assert replace(shown, objects=scene.objects) == scene
            assert shown.objects != scene.objects
            if kind == "color":
                assert {o.label for o in shown.objects} == {o.label for o in scene.objects}
            if kind == "relation":
                assert [o.label for o in shown.objects] == [o.label for o in scene.objects]
            if kind == "class":
                assert len(shown.objects) == len(scene.objects)
                assert all(many.classes[o.label] == o.shape for o in shown.objects)
            assert (made == "empty") == (shown.objects == ())
