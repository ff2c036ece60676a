"""Which items are drawn, what tasks may be, and what people's answers say about the images of a run."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest
from annotation_runs import make_run

from verism.annotation import sampling
from verism.annotation.ratings import (
    given_ratings,
    human_classes,
    link_study,
    majority_answer,
    middle_answer,
    rating_remarks,
    ratings_of,
    study_path,
)
from verism.annotation.sampling import draw_items, read_checks, with_checks
from verism.annotation.tasks import PREFERENCE, choose_tasks, general_tasks, read_tasks, tasks_of
from verism.annotation.votes import Study, VoteStore
from verism.errors import UsageError
from verism.records import RatingTask
from verism.suites.catalogue import stored_suite

ANY = RatingTask(name="any", question="?", kind="choice", options=("yes", "no", "?"), unsure=("?",), rule="any")


def study(run, tasks, items, *, name=None, **more) -> VoteStore:
    made = Study(tasks=tuple(tasks), items=tuple(items), runs=(str(run.path.absolute()),), **more)
    return VoteStore.create(study_path(run, name), made)


def vote(store: VoteStore, rater: str, answers: dict[str, str | None], task: str = "any") -> None:
    who = store.named_rater(rater)
    for position, item in enumerate(store.study.items):
        if item.task == task and item.item in answers:
            store.vote(who, position, answers[item.item])


# ------------------------------------------------------------------------------------------------------------ sampling
def test_every_cell_gives_as_many_as_asked_and_cells_take_turns(tmp_path):
    run = make_run(tmp_path / "run", limit=30)
    items = draw_items([run], ANY, per_cell=4, by=("skill",))
    skills = [json.loads(item.cell)["skill"] for item in items]
    assert Counter(skills) == {"count": 4, "object": 4, "spatial": 4}
    assert all(len(set(skills[i : i + 3])) == 3 for i in range(0, 12, 3))


def test_a_larger_sample_holds_the_smaller_and_another_seed_draws_others(tmp_path):
    run = make_run(tmp_path / "run", limit=60)
    few = {i.item for i in draw_items([run], ANY, per_cell=3, by=("skill",), seed=1)}
    many = {i.item for i in draw_items([run], ANY, per_cell=8, by=("skill",), seed=1)}
    other = {i.item for i in draw_items([run], ANY, per_cell=3, by=("skill",), seed=2)}
    assert few < many
    assert few != other
    assert few == {
        i.item for i in draw_items([run], general_tasks()[0], per_cell=3, by=("skill",), seed=1)
    }  # for every task


def test_items_that_are_not_drawn_are_dropped_on_the_way_with_the_same_result(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", limit=60)
    drawn = draw_items([run], ANY, per_cell=3, by=("skill",), seed=1)
    monkeypatch.setattr(sampling, "WAITING", 0)
    cut, lengths = sampling._Cell._cut, []
    monkeypatch.setattr(sampling._Cell, "_cut", lambda cell: (lengths.append(len(cell._held)), cut(cell)))
    assert draw_items([run], ANY, per_cell=3, by=("skill",), seed=1) == drawn
    assert max(lengths) == 6
    assert len(lengths) > 6  # of three cells, more than once each


def test_cells_are_filled_beside_the_checks(tmp_path):
    run = make_run(tmp_path / "run", limit=30)
    first = draw_items([run], ANY, per_cell=4, by=("skill",))
    known = {item.item for item in first[:2]}
    again = draw_items([run], ANY, per_cell=4, by=("skill",), without=known)
    assert len(again) == len(first) == 12
    assert not known & {item.item for item in again}


def test_only_images_that_are_there_and_prompts_the_task_is_about(tmp_path):
    run = make_run(tmp_path / "run", limit=12, skip=2)
    assert len(draw_items([run], ANY, per_cell=None)) == 10
    counted = draw_items([run], choose_tasks(tasks_of(run), ["count"])[0], per_cell=None)
    assert counted
    assert all(item.item.startswith("count_") for item in counted)


def test_a_prompts_images_are_shown_together(tmp_path):
    run = make_run(tmp_path / "run", limit=3, n_images=3)
    grid = RatingTask(name="g", question="?", kind="choice", options=("a", "b"), unit="prompt")
    items = draw_items([run], grid, per_cell=None)
    assert len(items) == 3
    assert all([image for _, image in item.images] == [f"{item.item}#{i}" for i in range(3)] for item in items)


def test_pairs_are_of_one_prompt_and_number_in_both_runs(tmp_path):
    one, two = make_run(tmp_path / "one", limit=6), make_run(tmp_path / "two", limit=6, skip=2)
    items = draw_items([one, two], PREFERENCE, per_cell=None)
    assert len(items) == 4
    assert all(item.item == f"{item.images[0][1]}|{item.images[1][1]}" for item in items)
    assert {run for item in items for run, _ in item.images} == {0, 1}
    with pytest.raises(UsageError, match="two runs"):
        draw_items([one], PREFERENCE, per_cell=None)


def test_two_runs_of_one_suite_are_told_apart(tmp_path):
    one, two = make_run(tmp_path / "one", limit=3), make_run(tmp_path / "two", limit=3)
    items = draw_items([one, two], ANY, per_cell=2)
    assert len({item.item for item in items}) == len(items) == 4
    assert Counter(json.loads(item.cell)["run"] for item in items) == {"one": 2, "two": 2}


def test_unknown_facets_and_sizes_are_refused(tmp_path):
    run = make_run(tmp_path / "run", limit=3)
    with pytest.raises(UsageError, match=r"no facet 'profession'.*skill"):
        draw_items([run], ANY, per_cell=1, by=("profession",))
    with pytest.raises(UsageError, match="at least 1"):
        draw_items([run], ANY, per_cell=0)


def test_checks_are_placed_and_are_no_items_of_the_study_proper(tmp_path):
    run = make_run(tmp_path / "run", limit=12)
    items = draw_items([run], ANY, per_cell=None)
    names = [item.item for item in items]
    table = tmp_path / "gold.csv"
    table.write_text(
        f"item,task,answer,check\n{names[3]},any,yes,gold\n{names[4]},any,no,qualification\n{names[5]},,yes,attention\n"
    )
    made = with_checks(items, read_checks(table, [ANY]), [run], [ANY])
    assert len(made) == 12
    assert [i.item for i in made if i.check == "qualification"] == [made[0].item] == [names[4]]
    assert made[-1].check == "attention"
    assert [i.check for i in made].index("gold") in range(4, 8)  # in the middle
    table.write_text("item,answer\nnobody#0,yes\n")
    with pytest.raises(UsageError, match="nobody#0"):
        with_checks(items, read_checks(table, [ANY]), [run], [ANY])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,answer\n,yes\n", "item or answer is empty"),
        ("item,task,answer\nx,other,yes\n", "no task 'other'"),
        ("item,answer\nx,maybe\n", "'maybe' is no answer"),
        ("item,answer,check\nx,yes,silver\n", "'silver'"),
    ],
)
def test_checks_that_cannot_be_are_refused_by_row(tmp_path, text, message):
    (tmp_path / "gold.csv").write_text(text)
    with pytest.raises(UsageError, match=f"line 2.*{message}"):
        read_checks(tmp_path / "gold.csv", [ANY])


# --------------------------------------------------------------------------------------------------------------- tasks
def test_a_run_offers_the_tasks_of_its_suite_and_the_general_ones(tmp_path):
    names = [task.name for task in tasks_of(make_run(tmp_path / "run", limit=12))]
    assert names == ["object", "count", "spatial", "human", "alignment"]


def test_tasks_are_chosen_by_name_or_family():
    names = ("attribute: a hat", "attribute: a tie", "gender")
    offered = [RatingTask(name=name, question="?", kind="choice", options=("a", "b")) for name in names]
    assert [t.name for t in choose_tasks(offered, ["attribute"])] == ["attribute: a hat", "attribute: a tie"]
    assert [t.name for t in choose_tasks(offered, ["gender", "attribute: a tie"])] == ["gender", "attribute: a tie"]
    with pytest.raises(UsageError, match="no task 'age'; there are attribute: a hat"):
        choose_tasks(offered, ["age"])


def test_tasks_of_ones_own_are_read_with_what_goes_without_saying(tmp_path):
    file = tmp_path / "tasks.yaml"
    file.write_text(
        "tasks:\n"
        '- {name: smile, question: "Does anybody smile?", options: [yes, no, cannot tell], unsure: [cannot tell]}\n'
        '- {name: beauty, question: "How beautiful?", kind: scale}\n'
        '- {name: tone, question: "Which tone?", kind: tone, unit: prompt}\n'
        '- {name: better, question: "Which?", kind: pair, only: {skill: count}}\n'
    )
    smile, beauty, tone, better = read_tasks(file)
    assert smile.options == ("yes", "no", "cannot tell")  # and not True and False
    assert (beauty.options, beauty.level) == (("1", "2", "3", "4", "5"), "ordinal")
    assert (tone.options[-1], tone.unit) == ("10", "prompt")
    assert (better.unit, better.only) == ("pair", {"skill": ("count",)})


def test_example_images_lie_beside_the_file(tmp_path):
    (tmp_path / "hat.png").write_bytes(b"")
    entry = {"name": "a", "question": "?", "options": ["x", "y"], "examples": {"x": "hat.png", "y": "a bare head.png"}}
    (tmp_path / "tasks.json").write_text(json.dumps([entry]))
    assert read_tasks(tmp_path / "tasks.json")[0].examples == {"x": str(tmp_path / "hat.png"), "y": "a bare head.png"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"question": "?"}, "name is missing"),
        ({"name": "a"}, "question is missing"),
        ({"name": "a", "question": "?"}, "two or more"),
        ({"name": "a", "question": "?", "options": ["x", "x"]}, "twice"),
        ({"name": "a", "question": "?", "options": ["x", "y"], "colour": 1}, "unknown field 'colour'"),
        ({"name": "a", "question": "?", "options": ["x", "y"], "kind": "essay"}, "kind is one of"),
        ({"name": "a", "question": "?", "options": ["x", "y"], "unsure": ["z"]}, "no option"),
        ({"name": "a", "question": "?", "kind": "pair", "unit": "picture"}, "go together"),
        ({"name": "a", "question": "?", "kind": "tone", "options": ["1", "2"]}, "begin with 1 to 10"),
    ],
)
def test_tasks_that_cannot_be_are_refused(tmp_path, entry, message):
    (tmp_path / "tasks.json").write_text(json.dumps([entry]))
    with pytest.raises(UsageError, match=f"task 1: .*{message}"):
        read_tasks(tmp_path / "tasks.json")


# ------------------------------------------------------------------------------------------------------------- ratings
def test_the_class_of_an_image_is_what_most_say_without_ties_unsure_answers_and_checks(tmp_path):
    run = make_run(tmp_path / "run", limit=6)
    items = draw_items([run], ANY, per_cell=None)
    names = [item.item for item in items]
    table = tmp_path / "gold.csv"
    table.write_text(f"item,answer\n{names[4]},yes\n")
    store = study(run, [ANY], with_checks(items, read_checks(table, [ANY]), [run], [ANY]), overlap=3)
    for rater, value in {"A": "yes yes ? yes yes", "B": "yes no ? ? yes", "C": "no no no no yes"}.items():
        vote(store, rater, dict(zip(names, value.split(), strict=False)))
    # 0: yes yes no; 1: yes no no; 2: ? ? no; 3: yes ? no, a tie; 4: a check; 5: nobody
    assert human_classes(run, stored_suite(run), "any", {}) == {names[0]: "yes", names[1]: "no", names[2]: "no"}
    assert human_classes(run, stored_suite(run), "other", {}) == {}


def test_what_people_see_is_held_against_the_prompt(tmp_path):
    run = make_run(tmp_path / "run", limit=12)
    count = choose_tasks(tasks_of(run), ["count"])[0]
    items = draw_items([run], count, per_cell=None)
    store = study(run, [count], items)
    wanted = {p.prompt_id: len(p.spec["labels"]) for p in run.prompts()}
    right, wrong = items[0].item, items[1].item
    described = {right: str(wanted[right.split("#")[0]]), wrong: str(wanted[wrong.split("#")[0]] + 1)}
    vote(store, "A", described, task="count")
    classes = human_classes(run, stored_suite(run), "accuracy", {"skill": "count"})
    assert classes == {right: "right", wrong: "wrong"}


def test_careless_and_barred_raters_are_left_out(tmp_path):
    run = make_run(tmp_path / "run", limit=6)
    items = draw_items([run], ANY, per_cell=None)
    names = [item.item for item in items]
    (tmp_path / "g.csv").write_text(f"item,answer,check\n{names[0]},yes,gold\n{names[1]},yes,qualification\n")
    store = study(run, [ANY], with_checks(items, read_checks(tmp_path / "g.csv", [ANY]), [run], [ANY]), overlap=9)
    vote(store, "good", {names[1]: "yes", names[0]: "yes", names[2]: "yes"})
    vote(store, "careless", {names[1]: "yes", names[0]: "no", names[2]: "no"})
    vote(store, "barred", {names[1]: "no"})
    assert set(ratings_of(run).table["rater"]) == {"good", "careless"}
    assert set(ratings_of(run, min_right=0.6).table["rater"]) == {"good"}
    with pytest.raises(UsageError, match="none of its 7 answers counts"):
        given_ratings(run, min_right=1.0001)


def test_a_study_of_two_runs_belongs_to_both_each_with_its_own_images(tmp_path):
    one, two = make_run(tmp_path / "one", limit=3), make_run(tmp_path / "two", limit=3)
    items = draw_items([one, two], ANY, per_cell=None)
    both = Study(tasks=(ANY,), items=tuple(items), runs=(str(one.path), str(two.path)))
    store = VoteStore.create(study_path(one), both)
    link_study(two, store.path)
    rater = store.named_rater("A")
    for position, item in enumerate(items):
        store.vote(rater, position, "yes" if item.images[0][0] == 0 else "no")
    assert set(human_classes(one, stored_suite(one), "any", {}).values()) == {"yes"}
    seen = human_classes(two, stored_suite(two), "any", {})
    assert set(seen.values()) == {"no"}
    assert set(seen) == set(two.read("images")["image_id"])


def test_of_one_rater_in_two_studies_the_last_study_counts(tmp_path):
    run = make_run(tmp_path / "run", limit=3)
    items = draw_items([run], ANY, per_cell=None)
    for name, answer in (("a", "yes"), ("b", "no")):
        vote(study(run, [ANY], items, name=name), "A", {items[0].item: answer})
    assert ratings_of(run).table.select("answer").to_series().to_list() == ["no"]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_one_rater_in_two_studies_the_later_vote_counts_whichever_study_it_is_of(tmp_path, names):
    run = make_run(tmp_path / "run", limit=3)
    items = draw_items([run], ANY, per_cell=None)
    for name, answer, at in zip(
        names, ("yes", "no"), ("2024-05-01T09:00:00.000+00:00", "2024-05-01T08:00:00.000+00:00")
    ):
        store = study(run, [ANY], items, name=name)
        store.vote(store.named_rater("A"), 0, answer, at=at)
        store.vote(store.named_rater("B"), 1, answer, at=at)
    assert sorted(ratings_of(run).table.select("rater", "answer", "at").rows()) == [
        (name, "yes", "2024-05-01T09:00:00.000+00:00") for name in "AB"
    ]


def test_a_moved_run_keeps_its_ratings(tmp_path):
    run = make_run(tmp_path / "run", limit=3)
    items = draw_items([run], ANY, per_cell=None)
    vote(study(run, [ANY], items), "A", {items[0].item: "yes"})
    moved = type(run).open(run.path.rename(tmp_path / "elsewhere"))
    assert ratings_of(moved).table.height == 1


@pytest.mark.parametrize("which", [0, 1])
def test_a_moved_run_of_two_keeps_its_ratings(tmp_path, which):
    runs = [make_run(tmp_path / name, limit=3) for name in ("a", "b")]
    items = draw_items(runs, ANY, per_cell=None)
    made = Study(tasks=(ANY,), items=tuple(items), runs=tuple(str(run.path.absolute()) for run in runs))
    store = VoteStore.create(study_path(runs[0]), made)
    link_study(runs[1], store.path)
    vote(store, "A", {item.item: "yes" for item in items})
    before = ratings_of(runs[which]).table
    assert before.height == 3
    if which == 0:  # a study that others link to stays where they look for it
        moved = tmp_path / "elsewhere"
        shutil.copytree(runs[0].path, moved)
    else:
        moved = runs[1].path.rename(tmp_path / "elsewhere")
    assert ratings_of(type(runs[0]).open(moved)).table.equals(before)


def test_a_name_of_a_study_is_no_path(tmp_path):
    run = make_run(tmp_path / "run", limit=3)
    for name in ("", "../x", "a/b", ".hidden"):
        with pytest.raises(UsageError, match="no name for a study"):
            study_path(run, name)


def test_majority_is_not_the_order_of_answers():
    assert majority_answer(["no", "yes", "yes"]) == majority_answer(["yes", "no", "yes"]) == "yes"
    assert majority_answer(["no", "yes", None]) is None


def test_on_a_scale_the_median_counts_and_halves_go_either_way():
    assert middle_answer(["2", "9", "4", None], "x") == "4"
    assert middle_answer(["3", "7"], "x") == "5"
    assert middle_answer([None], "x") is None
    halves = [middle_answer(["4", "5"], f"item {i}") for i in range(400)]
    assert set(halves) == {"4", "5"}
    assert 160 < halves.count("4") < 240  # within 4 standard errors of a half
    assert halves == [middle_answer(["5", "4"], f"item {i}") for i in range(400)]


def test_tones_of_two_raters_a_step_apart_are_no_tie(tmp_path):
    run = make_run(tmp_path / "run", limit=3)
    tone = RatingTask(
        name="tone", question="?", kind="tone", options=(*map(str, range(1, 11)), "cannot tell"),
        unsure=("cannot tell",), level="ordinal", rule="tone",
    )  # fmt: skip
    items = draw_items([run], tone, per_cell=None)
    store = study(run, [tone], items, overlap=2)
    names = [item.item for item in items]
    vote(store, "A", {names[0]: "4", names[1]: "2"}, task="tone")
    vote(store, "B", {names[0]: "5", names[1]: "cannot tell"}, task="tone")
    result = human_classes(run, stored_suite(run), "tone", {})
    assert result[names[0]] in ("4", "5")
    assert result[names[1]] == "2"


def test_what_to_mind_about_the_answers_is_told(tmp_path):
    run = make_run(tmp_path / "run", limit=6)
    items = draw_items([run], ANY, per_cell=None)
    names = [item.item for item in items]
    store = study(run, [ANY], items, overlap=2, settings={"per_cell": 2, "by": "skill"})
    vote(store, "A", {names[0]: "yes", names[1]: "yes", names[2]: "?"})
    assert rating_remarks(run, stored_suite(run), "any", {}) == []
    vote(store, "B", {names[0]: "no", names[1]: "yes", names[2]: "no"})
    (torn,) = rating_remarks(run, stored_suite(run), "any", {})
    assert torn.startswith("1 of 3 images with answers have no majority")
    study(run, [ANY], items, name="other", settings={"per_cell": 2, "by": "object"})
    assert "different facets" in rating_remarks(run, stored_suite(run), "any", {})[1]
