"""PaintSkills asked of people: what they are asked, what makes their answer right, and what accuracies are made of."""

from dataclasses import replace

import pytest
from fakes import PixelJudge

from verism.manifest import RunSettings
from verism.pipeline.local import make_requests, run_images
from verism.pipeline.scoring import observed_of, score_run, true_classes
from verism.records import Prompt, Score, content_hash, frame
from verism.specs import Pairing
from verism.store import Run
from verism.suites.paintskills.human_labels import (
    MOST,
    NONE,
    rated_class,
    rating_tasks,
)
from verism.suites.right_or_wrong import RIGHT, WRONG, right_or_wrong_estimands

LABELS = ("dog", "bus", "boat")
PAIRING = Pairing(rule="accuracy", metric="accuracy", facet="skill", mean="mean_accuracy", groups=("object", "count"))


def prompt(skill: str, *, labels=("dog",), color=None, relation=None, name="p") -> Prompt:
    spec = {"labels": list(labels), "color": color, "relation": relation}
    return Prompt(prompt_id=name, suite="paintskills", text="?", facets={"skill": skill}, spec=spec)


def test_each_skill_asks_its_own_question_of_its_own_prompts():
    tasks = {t.name: t for t in rating_tasks(("object", "count", "color", "spatial"), LABELS)}
    assert list(tasks) == ["object", "count", "color", "spatial"]
    for name, task in tasks.items():
        assert (task.rule, dict(task.key), dict(task.only)) == ("accuracy", {"skill": name}, {"skill": (name,)})
        assert len(set(task.options)) == len(task.options)
    assert tasks["object"].options == (*LABELS, NONE)
    assert tasks["count"].options[0] == "0"
    assert tasks["count"].options[-1] == f"{MOST} or more"
    assert {"left", "right", "above", "below"} <= set(tasks["spatial"].options)
    assert [t.name for t in rating_tasks(("count",), LABELS)] == ["count"]


def test_questions_do_not_give_the_answer_away():
    for task in rating_tasks(("count", "color", "spatial"), LABELS):
        assert "{object}" in task.question  # what to look for
        assert not any(f"{{{name}}}" in task.question for name in ("count", "color", "relation"))


@pytest.mark.parametrize(
    ("asked", "right", "wrong"),
    [
        (prompt("object", labels=("bus",)), "bus", ("dog", NONE)),
        (prompt("count", labels=("dog", "dog", "dog")), "3", ("2", f"{MOST} or more", "0")),
        (prompt("color", labels=("dog",), color="red"), "red", ("blue", "it is not there", "another colour")),
        (prompt("spatial", labels=("dog", "bus"), relation="left"), "left", ("right", NONE, "not both are there")),
    ],
)
def test_an_answer_is_held_against_the_prompt(asked, right, wrong):
    [task] = rating_tasks((str(asked.facets["skill"]),), LABELS)
    assert rated_class(task, asked, right) == RIGHT
    assert [rated_class(task, asked, answer) for answer in wrong] == [WRONG] * len(wrong)


def test_of_two_alike_either_may_be_the_one_that_is_asked_about():
    [task] = rating_tasks(("spatial",), LABELS)
    alike = prompt("spatial", labels=("dog", "dog"), relation="above")
    assert [rated_class(task, alike, answer) for answer in ("above", "below")] == [RIGHT, RIGHT]
    assert [rated_class(task, alike, answer) for answer in ("left", NONE, "not both are there")] == [WRONG] * 3
    apart = prompt("spatial", labels=("dog", "bus"), relation="above")
    assert rated_class(task, apart, "below") == WRONG


def test_answers_to_other_questions_stay_as_they_are():
    [task] = rating_tasks(("object",), LABELS)
    assert rated_class(replace(task, rule="human", key={}), prompt("object"), "human") == "human"
    assert rated_class(replace(task, key={}), prompt("object"), "dog") == "dog"


# ----------------------------------------------------------------------------------------------------------- estimands
def told(metric: str, value: float = 0.5, *, protocol: str = "revised", **group) -> Score:
    return Score(
        suite="paintskills", metric=metric, protocol=protocol, group=group, value=value, ci_low=0.0, ci_high=1.0,
        n_used=3, n_unusable=0,
    )  # fmt: skip


def verdicts(*rows):
    names = ("image_id", "prompt_id", "value", "protocol", "rule")
    return frame("verdicts", [dict(zip(names, (*row, *("revised", "accuracy")[len(row) - 3 :]))) for row in rows])


PROMPTS = {
    "o": prompt("object", name="o"),
    "c": prompt("count", name="c"),
    "k": prompt("color", name="k", color="red"),
}


def test_an_accuracy_is_a_plain_mean_over_its_usable_images():
    rows = verdicts(
        ("o#1", "o", 0.0), ("o#0", "o", 1.0), ("o#2", "o", None), ("c#0", "c", 1.0), ("o#0", "o", 0.0, "paper"),
        ("o#0", "o", 1.0, "revised", "only_object"),
    )  # fmt: skip
    scores = [told("accuracy", skill="object"), told("accuracy", skill="object", object="dog"), told("only_object")]
    [made] = right_or_wrong_estimands(scores, PROMPTS, rows, PAIRING, "detector")
    assert made.score is scores[0]
    assert (made.rule, made.role, dict(made.worth)) == ("accuracy", "detector", {RIGHT: 1.0, WRONG: 0.0})
    [part] = made.parts
    assert (part.image_ids, part.predicted) == (("o#0", "o#1"), (RIGHT, WRONG))
    assert part.clusters == ("o", "o")
    assert part.weights == (0.5, 0.5)
    assert (part.coefficient, dict(part.key)) == (1.0, {"skill": "object"})


def test_the_mean_is_over_the_published_skills_alone():
    rows = verdicts(("o#0", "o", 1.0), ("c#0", "c", 0.0), ("k#0", "k", 1.0))
    [made] = right_or_wrong_estimands([told("mean_accuracy")], PROMPTS, rows, PAIRING, "detector")
    assert [(p.coefficient, p.key["skill"]) for p in made.parts] == [(0.5, "object"), (0.5, "count")] or [
        (p.coefficient, p.key["skill"]) for p in made.parts
    ] == [(0.5, "count"), (0.5, "object")]


def test_what_has_no_value_or_no_images_is_left_out():
    rows = verdicts(("o#0", "o", 1.0))
    scores = [told("mean_accuracy", float("nan")), told("accuracy", skill="count"), told("accuracy", protocol="paper")]
    assert right_or_wrong_estimands(scores, PROMPTS, rows, PAIRING, "detector") == []


def test_every_estimand_is_worth_its_score(tmp_path, suite, scripted):
    judge = PixelJudge(wrong=lambda image: image.startswith("count"))
    run = Run.start(tmp_path / "run", RunSettings(suite=suite.name))
    run.write_prompts(suite.prompts())
    run_images(run, make_requests(run.prompts(), 1), scripted(0.5), [(judge, n) for n in suite.needs()])
    score_run(run, suite, judges={"detector": judge.name})
    made = suite.estimands(observed_of(run, suite, {"detector": judge.name}), run.verdicts())
    # Four skills and their mean, by three protocols.
    assert len(made) == 15
    for estimand in made:
        value = sum(
            part.coefficient * sum(w * estimand.worth[s] for w, s in zip(part.weights, part.predicted, strict=True))
            for part in estimand.parts
        )
        assert value == pytest.approx(estimand.score.value), (estimand.score.protocol, estimand.score.group)
    truth = true_classes(run, suite)
    assert set(truth) == {("accuracy", content_hash({"skill": s})) for s in ("object", "count", "spatial", "color")}
    notes = dict(run.read("images").select("image_id", "note").iter_rows())
    for classes in truth.values():
        for image, known in classes.items():
            assert (known == RIGHT) == (notes[image] == "rendered as asked"), image
