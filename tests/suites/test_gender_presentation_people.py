"""Questions to people about attributes, their answers as labels, and frequencies as what they are made of."""

from __future__ import annotations

import json
import math

import pytest

from verism.errors import UsageError
from verism.records import Observed, frame, make_image_id
from verism.suites.gender_presentation.suite import GenderPresentation

SMALL = {"extends": "released", "attributes": ["boots", {"name": "tie", "phrase": "with a tie"}], "n_images": 3}
THREE = {
    **SMALL,
    "groups": [
        {"name": "woman", "term": "A woman"},
        {"name": "man", "term": "A man"},
        {"name": "person", "term": "A person"},
    ],
}


def make(tmp_path, record=SMALL, **options):
    path = tmp_path / "study.json"
    path.write_text(json.dumps(record))
    return GenderPresentation.make({"study": path, **options}).with_rules(n_resamples=50)


def replied(suite, reply):
    """Answers of a judge: ``reply(prompt, index, question)`` is yes, no, something else, or None for no reply."""
    prompts = {p.prompt_id: p for p in suite.prompts()}
    images, answers = [], []
    for p in prompts.values():
        for i in range(p.n_images):
            image = make_image_id(p.prompt_id, i)
            images.append({"image_id": image, "prompt_id": p.prompt_id, "index": i, "state": "ok"})
            for question in suite.needs()[1].questions[p.prompt_id]:
                answer = reply(p, i, question.text)
                value = answer if answer in ("yes", "no") else None
                answers.append(
                    {"image_id": image, "judge": "j", "question": question.text, "answer": answer, "value": value}
                )
    return Observed(
        prompts=prompts, images=frame("images", images), observations={"answers": frame("answers", answers)}
    )


def uneven(prompt, index, question):
    """Boots: women in 2 of 3 images, men in 1 of 3; no usable reply for one context; ties as the number goes."""
    if prompt.spec["index"] % 16 == 3 and index == 0:
        return "maybe" if prompt.facets["gender"] == "man" else None
    if "boots" in question:
        return "yes" if index < (2 if prompt.facets["gender"] == "woman" else 1) else "no"
    return "yes" if (prompt.spec["index"] + index) % 5 == 0 else "no"


def rating(item, answer, rater="A", task="attribute: boots", check=None):
    return {"item": item, "task": task, "rater": rater, "answer": answer, "check": check}


def labels(suite, rows):
    return suite.labels_of_ratings(frame("ratings", rows), {t.name: t for t in suite.rating_tasks()})


# --------------------------------------------------------------------------------------------------------------- tasks
def test_a_question_for_each_attribute_in_the_judges_words(tmp_path):
    suite = make(tmp_path)
    boots, tie = suite.rating_tasks()
    assert (boots.name, tie.name) == ("attribute: boots", "attribute: tie")
    assert boots.question == suite.needs()[1].questions["woman/0"][0].text
    assert (boots.options, boots.unsure) == (("yes", "no", "cannot tell"), ("cannot tell",))
    assert len(GenderPresentation.make({}).rating_tasks()) == 15


def test_people_are_asked_of_a_prompt_what_the_judge_is_asked(tmp_path):
    suite = make(tmp_path)
    for prompt in suite.prompts():
        asked = [t.question for t in suite.rating_tasks() if prompt.facets["attribute"] in t.only["attribute"]]
        assert asked == [q.text for q in suite.needs()[1].questions[prompt.prompt_id]]


# -------------------------------------------------------------------------------------------------------------- labels
def test_answers_are_labels_by_their_majority(tmp_path):
    suite = make(tmp_path)
    rows = [
        *(rating("woman/0#0", a, r) for r, a in zip("ABC", ("yes", "no", "yes"), strict=True)),
        *(rating("woman/0#1", a, r) for r, a in zip("AB", ("yes", "no"), strict=True)),  # a tie
        *(rating("woman/0#2", a, r) for r, a in zip("ABC", ("no", "cannot tell", None), strict=True)),
        rating("man/1#0", "cannot tell"),
        rating("man/1#1", "yes", check="gold"),
        rating("man/1#2", "no", task="attribute: tie"),
        rating("nobody/7#0", "yes"),
    ]
    assert labels(suite, rows) == {"woman/0": {"boots": "1-0"}, "man/1": {"tie": "--0"}}
    assert labels(suite, rows[::-1]) == labels(suite, rows)


def test_labels_of_people_are_a_rule_like_those_of_a_file(tmp_path):
    suite = make(tmp_path, settings="neutral")
    rows = [
        rating(make_image_id(p.prompt_id, i), "yes" if p.facets["gender"] == "woman" or i == 0 else "no")
        for p in suite.prompts()
        for i in range(3)
    ]
    labelled = suite.with_rules(labels=labels(suite, rows))
    observed = replied(labelled, uneven)
    results = {
        (s.metric, s.group.get("gender")): s.value
        for s in labelled.scores(observed, labelled.verdicts(observed))
        if s.group.get("estimator") == "human" and s.group.get("attribute") == "boots" and s.protocol == "revised"
    }
    assert results["frequency", "woman"] == 1.0
    assert results["frequency", "man"] == pytest.approx(1 / 3)
    assert results["gep", None] == pytest.approx(2 / 3)


def test_no_answers_of_ones_own_are_refused(tmp_path):
    with pytest.raises(UsageError, match="nobody answered yes or no"):
        labels(make(tmp_path), [rating("woman/0#0", "cannot tell")])


# ----------------------------------------------------------------------------------------------------------- estimands
@pytest.mark.parametrize("record", [SMALL, THREE])
def test_estimands_are_the_scores_they_name(tmp_path, record):
    suite = make(tmp_path, record)
    observed = replied(suite, uneven)
    verdicts = suite.verdicts(observed)
    every = suite.estimands(observed, verdicts)
    estimands = [e for e in every if not e.terms]
    scores = [s for s in suite.scores(observed, verdicts) if s.metric in ("frequency", "gep")]
    n_groups = len(suite.study.groups)
    # Both settings, two attributes: a frequency of each group, and a difference of every two groups.
    assert len(estimands) == len(scores) == 2 * 2 * (n_groups + n_groups * (n_groups - 1) // 2)
    for estimand in estimands:
        value = math.fsum(
            part.coefficient
            * math.fsum(w * estimand.worth[s] for w, s in zip(part.weights, part.predicted, strict=True))
            for part in estimand.parts
        )
        assert value == pytest.approx(estimand.score.value, abs=1e-12)
        assert estimand.score in scores
        assert {part.key["attribute"] for part in estimand.parts} == {estimand.score.group["attribute"]}
        assert sum(len(part.image_ids) for part in estimand.parts) == estimand.score.n_used
        assert (estimand.rule, estimand.role) == ("VQA", "vqa")


@pytest.mark.parametrize("record", [SMALL, THREE])
def test_the_score_is_the_mean_of_the_absolute_values_of_its_terms(tmp_path, record):
    suite = make(tmp_path, record)
    observed = replied(suite, uneven)
    verdicts = suite.verdicts(observed)
    made = [e for e in suite.estimands(observed, verdicts) if e.terms]
    n_groups = len(suite.study.groups)
    assert {e.score.metric for e in made} == {"gep_score"}
    assert len(made) == 2 * n_groups * (n_groups - 1) // 2  # both settings; none of single contexts
    for estimand in made:
        means = [
            part.coefficient
            * math.fsum(w * estimand.worth[s] for w, s in zip(part.weights, part.predicted, strict=True))
            for part in estimand.parts
        ]
        terms = [abs(math.fsum(means[k] for k in term)) for term in estimand.terms]
        assert len(terms) == len(suite.study.attributes)
        assert math.fsum(terms) / len(terms) == pytest.approx(estimand.score.value, abs=1e-12)
        assert "context" not in estimand.score.group


def test_replies_that_are_neither_are_in_no_estimand(tmp_path):
    suite = make(tmp_path, settings="neutral")
    observed = replied(suite, uneven)
    images = {i for e in suite.estimands(observed, suite.verdicts(observed)) for p in e.parts for i in p.image_ids}
    assert "woman/3#0" not in images
    assert "man/3#0" not in images
    assert len(images) == 2 * (16 * 3 - 1)


def test_a_run_without_replies_has_nothing_to_correct(tmp_path):
    suite = make(tmp_path)
    observed = replied(suite, uneven)
    without = Observed(prompts=observed.prompts, images=observed.images, observations={})
    assert suite.estimands(without, suite.verdicts(without)) == []


def test_degrees_are_held_against_yes_and_no(tmp_path):
    suite = make(tmp_path)
    (rule,) = {task.rule for task in suite.rating_tasks()}
    assert suite.graded_rules()[rule] == ("CLS", "CC", "C")
