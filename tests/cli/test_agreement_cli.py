"""``verism agreement`` on runs small enough to be worked by hand, and what people's answers do to their scores."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from verism import api
from verism.annotation.ratings import link_study, study_path
from verism.annotation.sampling import draw_items, with_checks
from verism.annotation.tasks import PREFERENCE, general_tasks, tasks_of
from verism.annotation.votes import Study, VoteStore
from verism.imaging import encode_png
from verism.manifest import RunSettings
from verism.records import RatingTask, frame, make_image_id
from verism.store import Run
from verism.suites.catalogue import make_suite

JUDGE = "replies@1"
SMALL = {"extends": "released", "attributes": ["boots", {"name": "tie", "phrase": "with a tie"}], "n_images": 2}


def boots(prompt, index):
    """Whether an image shows boots: of women always, of men in the first of two."""
    return prompt.facets["gender"] == "woman" or index == 0


def said(prompt, index):
    """The judge overlooks boots of men in half of the contexts, and is right else."""
    missed = prompt.facets["gender"] == "man" and prompt.spec["index"] % 2 == 0
    return boots(prompt, index) and not missed


@pytest.fixture
def dressed(tmp_path):
    """A scored run of two attributes, whose judge answered questions."""
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    suite = make_suite("gender_presentation", study=tmp_path / "small.json", settings="neutral").with_rules(
        n_resamples=50
    )
    run = Run.start(tmp_path / "run", RunSettings(suite=suite.name, suite_settings=suite.settings()))
    run.write_prompts(suite.prompts())
    images, answers = [], []
    png = encode_png(np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8))
    for prompt in suite.prompts():
        for index in range(2):
            image = make_image_id(prompt.prompt_id, index)
            path = run.write_image(image, png)
            images.append({"image_id": image, "prompt_id": prompt.prompt_id, "index": index, "state": "ok"})
            images[-1] |= {"path": path, "width": 16, "height": 16}
            for question in suite.needs()[1].questions[prompt.prompt_id]:
                yes = said(prompt, index) if "boots" in question.text else False
                answers.append(
                    {
                        "image_id": image,
                        "judge": JUDGE,
                        "question": question.text,
                        "answer": "yes" if yes else "no",
                        "value": "yes" if yes else "no",
                        "probability": 0.9 if yes else 0.2,
                    }
                )
    run.append("images", frame("images", images))
    run.append("answers", frame("answers", answers), judge=JUDGE)
    api.score(run, judges={"vqa": JUDGE}, rules={"n_resamples": 50})
    return run


def ask(run, tasks, answers, *, runs=None, per_cell=None, by=(), gold=(), name=None):
    """A study that raters answer as ``answers`` says: by rater, a function of the item."""
    runs = runs or [run]
    items = [i for task in tasks for i in draw_items(runs, task, per_cell=per_cell, by=by)]
    items = with_checks(items, gold, runs, tasks)
    paths = tuple(str(r.path.absolute()) for r in runs)
    settings = {"per_cell": per_cell, "by": ",".join(by)}
    store = VoteStore.create(
        study_path(run, name), Study(tasks=tuple(tasks), items=tuple(items), runs=paths, overlap=9, settings=settings)
    )
    for other in runs[1:]:
        link_study(other, store.path)
    for rater, answer in answers.items():
        who = store.named_rater(rater)
        for position, item in enumerate(store.study.items):
            if (value := answer(item)) is not None:
                store.vote(who, position, value)
    return store


def truth_of(run):
    prompts = {p.prompt_id: p for p in run.prompts()}

    def answer(item):
        prompt_id, _, index = item.item.partition("#")
        if item.task == "attribute: tie":
            return "no"
        return "yes" if boots(prompts[prompt_id], int(index)) else "no"

    return answer


def about_boots(run):
    return [task for task in tasks_of(run) if task.name.startswith("attribute")]


def test_a_judge_that_is_worse_for_one_group_is_told(in_process, dressed):
    ask(dressed, about_boots(dressed), {"A": truth_of(dressed), "B": truth_of(dressed)})
    code, out, _ = in_process("agreement", dressed.path, "--by", "gender", "--resamples", 50)
    assert code == 0
    assert "attribute: boots: 128 answers of 2 raters on 64 items" in out
    assert "majority: yes 75%, no 25%" in out
    assert "percent agreement: 1.00" in out
    assert "A and B, 64 items: cohen kappa 1.00" in out
    # Boots of 32 women and 16 men; 8 of the men's are missed: found 40 of 48.
    assert "yes: sensitivity 0.83 [" in out
    assert "judge (revised) beside annotators, 64 items: accuracy 0.88 [" in out
    parsed = json.loads(in_process("agreement", dressed.path, "--by", "gender", "--resamples", 0, "--json")[1])
    judge = parsed["tasks"]["attribute: boots"]["judges"]["revised"]
    assert judge["confusion"] == [[16, 0], [8, 40]]
    groups = judge["groups"]["gender"]
    assert groups["woman"]["classes"]["yes"]["found"]["value"] == 1.0
    assert groups["man"]["classes"]["yes"]["found"]["value"] == 0.5
    # P(yes) 0.9 or 0.2: positives 40 of 48 at 0.9, negatives all at 0.2: (40 + 8 / 2) / 48.
    assert judge["auc"]["value"] == pytest.approx(44 / 48)
    assert judge["auc"]["positive"] == "yes"
    tie = parsed["tasks"]["attribute: tie"]
    assert tie["people"]["krippendorff_alpha"]["value"] is None  # nobody could have disagreed
    assert tie["judges"]["revised"]["accuracy"]["value"] == 1.0


def test_answers_are_labels_and_correct_the_judge(dressed):
    labelled = truth_of(dressed)
    ask(dressed, about_boots(dressed)[:1], {"A": labelled})
    where = {"setting": "neutral", "attribute": "boots"}

    def value(scores, metric, adjusted="", **group):
        (results,) = [
            s for s in scores
            if (s.metric, s.adjusted, dict(s.group), s.protocol) == (metric, adjusted, {**where, **group}, "revised")
        ]  # fmt: skip
        return results.value

    scores = api.score(dressed, rules={"labels": "annotation"}, correct="human")
    assert value(scores, "frequency", estimator="VQA", gender="man") == 0.25
    assert value(scores, "frequency", estimator="human", gender="man") == 0.5
    assert value(scores, "frequency", "human", estimator="VQA", gender="man") == pytest.approx(0.5)
    assert value(scores, "gep", estimator="VQA") == 0.75
    assert value(scores, "gep", "human", estimator="VQA") == pytest.approx(0.5)
    assert value(scores, "gep", estimator="human") == 0.5
    marks = api.open_run(dressed.path).manifest.scoring.rules["labels"]
    assert marks["man/0"] == {"boots": "10"}


def test_answers_as_labels_by_the_command_line(in_process, dressed):
    code, _, err = in_process("score", dressed.path, "--rule", "labels=annotation")
    assert code == 2
    assert "nobody rated its images yet" in err
    ask(dressed, about_boots(dressed)[:1], {"A": truth_of(dressed)})
    code, out, _ = in_process("score", dressed.path, "--rule", "labels=annotation", "--json")
    assert code == 0
    assert any(s["group"].get("estimator") == "human" and s["metric"] == "frequency" for s in json.loads(out))


def test_careless_raters_are_left_out(in_process, dressed):
    task = about_boots(dressed)[0]
    right = truth_of(dressed)
    gold = [{"item": f"woman/0#{i}", "task": task.name, "answer": "yes", "check": "gold"} for i in range(2)]
    ask(dressed, [task], {"good": right, "careless": lambda _: "no"}, gold=gold)
    result = json.loads(in_process("agreement", dressed.path, "--resamples", 0, "--json")[1])
    assert result["tasks"][task.name]["people"]["raters"] == 2
    assert result["tasks"][task.name]["people"]["checks"] == 4
    result = json.loads(in_process("agreement", dressed.path, "--resamples", 0, "--min-right", 0.5, "--json")[1])
    people = result["tasks"][task.name]["people"]
    assert (people["raters"], people["items"], people["checks"]) == (1, 62, 2)


def test_a_scale_and_tones_are_printed_by_their_order(in_process, dressed):
    tone = RatingTask(
        name="tone", question="?", kind="tone", options=tuple(map(str, range(1, 11))), level="ordinal", rule="tone"
    )
    answers = {"A": lambda _: "3", "B": lambda i: "4" if "woman" in i.item else "3"}
    ask(dressed, [general_tasks()[1], tone], answers, per_cell=8)
    code, out, _ = in_process("agreement", dressed.path, "--resamples", 20)
    assert code == 0
    assert "krippendorff alpha (ordinal)" in out
    assert out.count("within one: 1.00") == 2
    assert "mean answer: 3." in out
    assert "kendall tau b" in out


def test_preferences_are_printed_with_names_and_a_test(in_process, dressed, tmp_path):
    shutil.copytree(dressed.path, tmp_path / "other")
    other = Run.open(tmp_path / "other")
    ask(dressed, [PREFERENCE], {"A": lambda i: "first" if "woman" in i.item else "tie"}, runs=[dressed, other])
    for path in (dressed.path, other.path):
        code, out, _ = in_process("agreement", path, "--resamples", 0)
        assert code == 0
        assert "preferred: run 0.50 [" in out
        assert "other 0.00 [" in out
        assert "tie 0.50 [" in out
        assert "by prompts 16 to 0, 16 even" in out  # both groups share their 16 contexts, but are prompts of their own
        assert "p = 3.05e-05" in out  # 2 / 2^16
    reported = json.loads(in_process("agreement", dressed.path, "--resamples", 0, "--json")[1])
    result = reported["tasks"]["preference"]["preference"]
    assert result["runs"] == ["run", "other"]
    assert result["votes"] == {"first": 32, "second": 0, "tie": 32}


def test_what_cannot_be_is_refused(in_process, dressed):
    code, _, err = in_process("agreement", dressed.path)
    assert code == 2
    assert "nobody rated its images yet; see: verism annotate" in err
    ask(dressed, about_boots(dressed)[:1], {"A": truth_of(dressed)}, per_cell=1)
    code, _, err = in_process("agreement", dressed.path, "--by", "age")
    assert code == 2
    assert "no facet 'age'" in err
