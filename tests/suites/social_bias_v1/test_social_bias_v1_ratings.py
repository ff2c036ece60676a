"""Questions to people about the images of a prompt, and their answers as labels."""

from __future__ import annotations

import json

import pytest
from social_bias_v1_worlds import finder, seen

from verism.errors import UsageError
from verism.records import RatingTask, frame
from verism.suites.social_bias_v1.people import read_labels
from verism.suites.social_bias_v1.suite import SocialBiasV1


def small(tmp_path, n=4, images=3):
    names = [f"word {i}" for i in range(n)]
    record = {"name": "small", "n_images": images, "categories": [{"name": "one", "words": names}]}
    (tmp_path / "small.json").write_text(json.dumps(record))
    return SocialBiasV1.make({"prompts": tmp_path / "small.json"}).with_rules(n_resamples=50)


def rating(prompt, answer, rater="A", task="gender", check=None):
    return {"item": prompt, "task": task, "rater": rater, "answer": answer, "check": check}


def labels(suite, rows, tasks=()):
    known = {t.name: t for t in (*suite.rating_tasks(), *tasks)}
    return suite.labels_of_ratings(frame("ratings", rows), known)


def test_people_see_all_images_of_a_prompt():
    tasks = {task.name: task for task in SocialBiasV1.make({}).rating_tasks()}
    assert list(tasks) == ["gender", "race", "tone", "human"]
    assert {task.unit for task in tasks.values()} == {"prompt"}
    assert tasks["gender"].options == ("male", "female", "cannot tell")
    assert tasks["race"].options == ("White", "Black", "Hispanic", "Asian", "cannot tell")
    assert tasks["tone"].options[:10] == tuple(str(tone) for tone in range(1, 11))
    assert (tasks["tone"].level, tasks["tone"].kind) == ("ordinal", "tone")
    assert all(task.unsure == ("cannot tell",) for task in tasks.values())
    assert all("perceived" in tasks[name].help for name in ("gender", "race"))


def test_answers_are_labels_and_cannot_tell_is_unsure(tmp_path):
    suite = small(tmp_path)
    first, second = (p.prompt_id for p in suite.prompts()[:2])
    rows = [
        rating(first, "male", "A"),
        rating(first, "female", "B"),
        rating(first, "cannot tell", "C"),
        rating(first, None, "D"),
        rating(second, "male", check="gold"),
        rating(second, "not human", task="human"),
        rating(second, "7", task="tone"),
        rating("elsewhere", "male"),
    ]
    made = labels(suite, rows)
    assert made == {"prompt": {"gender": {first: ["female", "male", "unsure"]}, "human": {second: ["not human"]}}}
    assert labels(suite, rows[::-1]) == made


def test_they_are_what_a_file_of_the_same_labels_gives(tmp_path):
    suite = small(tmp_path)
    ids = [p.prompt_id for p in suite.prompts()]
    rows = [rating(p, a, r) for p in ids for r, a in (("A", "male"), ("B", "female"), ("C", "cannot tell"))]
    rows += [rating(f"{ids[0]}#1", "female", task="one by one")]
    subset = RatingTask(name="one by one", question="?", kind="choice", options=("male", "female"), rule="gender")
    lines = [f"{p},,gender,{a},{r}" for p in ids for r, a in (("A", "male"), ("B", "female"), ("C", "unsure"))]
    file = tmp_path / "labels.csv"
    file.write_text("\n".join(["prompt_id,image_id,axis,label,rater", *lines, f",{ids[0]}#1,gender,female,A"]))
    assert labels(suite, rows, [subset]) == read_labels(file, suite.axes, suite.prompts())


def test_the_scores_hold_the_judge_against_them(tmp_path):
    suite = small(tmp_path)
    ids = [p.prompt_id for p in suite.prompts()]
    # The judge sees men in all four; people in three.
    rows = [rating(p, "female" if p == ids[0] else "male", r) for p in ids for r in "AB"]
    labelled = suite.with_rules(labels=labels(suite, rows))
    observed = seen(labelled, lambda *_: {"gender": [0.9, 0.1]})
    scores = labelled.scores(observed, labelled.verdicts(observed))
    find = finder(scores)
    assert find("class_share", axis="gender", cls="male").value == 1.0
    assert find("class_share", axis="gender", cls="male", by="people").value == 0.75
    assert find("agreement", axis="gender", labelled="prompt", measure="share").value == 0.75
    assert find("agreement", axis="gender", by="people", labelled="prompt", measure="alpha").value == 1.0


def test_no_answers_are_refused(tmp_path):
    with pytest.raises(UsageError, match="nobody answered about gender, race, human"):
        labels(small(tmp_path), [rating("elsewhere", "male")])
