"""The question engine: every switch by hand, dependencies with defects, properties, files."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.errors import UsageError
from verism.metrics.questions import gated_values, question_values
from verism.suites.dpg_bench.benchmark import groups_of_row, read_file, source_of
from verism.suites.dpg_bench.defects import joined_lists
from verism.suites.dsg.human_labels import RULES, image_scores, read_answers
from verism.suites.questions.asked import AskedPrompt, AskedQuestion, as_spec, questions_of
from verism.suites.questions.proposition_files import circles, parse_parents
from verism.suites.questions.scenes import scene_prompts
from verism.suites.questions.scoring import (
    JudgedImage,
    answer_share,
    category_mean,
    counted_images,
    image_value,
    judged_values,
    overall_mean,
)
from verism.suites.questions.switches import Reply, Switches, own_value, switch_rules, with_values
from verism.suites.unigenbench.benchmark import point_answers

# A dog (no), is it brown (yes), does the brown dog bark (yes): 1/3 plain, 0 cascading, 2/3 without rule.
DOG = (
    AskedQuestion(name="1", text="Is there a dog?", groups={"category": "entity"}),
    AskedQuestion(name="2", text="Is the dog brown?", parents=("1",), groups={"category": "attribute"}),
    AskedQuestion(name="3", text="Does the brown dog bark?", parents=("2",), groups={"category": "attribute"}),
)
DOG_ANSWERS = {"1": 0.0, "2": 1.0, "3": 1.0}


PLAIN = Switches()


def image(prompt, index, answers, switches=PLAIN, questions=DOG, problem="", first_row=False):
    own = {q.name: answers.get(q.name) for q in questions}
    values, lost = judged_values(questions, own, switches, first_row=first_row)
    return JudgedImage(
        image_id=f"{prompt}#{index}", prompt_id=prompt, index=index, own=own, values=values, problem=problem, lost=lost
    )


# ------------------------------------------------------------------------------------------------- 1. tests of answers
@pytest.mark.parametrize(
    ("test", "replies"),
    [
        ("read", {"yes": 1, "Yes": 1, "Yes, a dog.": 1, "no": 0, "no bus": None, "maybe": None}),
        ("yes", {"yes": 1, "Yes": 0, "yes.": 0, "no": 0, "no bus": 0}),
        ("Yes", {"yes": 0, "Yes": 1, "Yes.": 0, "no": 0}),
        ("plain_yes", {"yes": 1, "Yes.": 1, "YES!": 1, "yes sir": 0, "no": 0}),
        ("zero_one", {"1": 1, "0": 0, '{"score": 1}': 1, "reason 10, point 1\nScore: 0": 0, "2": None, "": None}),
    ],
)
def test_each_answer_test_by_hand(test, replies):
    from verism.judges.vqa.replies import value_of

    for text, expected in replies.items():
        reply = Reply(text=text, value=value_of(text, DOG[0].question("")))
        assert own_value(DOG[0], reply, test) == expected, text


def test_ground_truth_has_no_spelling():
    for test in ("yes", "Yes", "plain_yes", "zero_one"):
        assert own_value(DOG[0], Reply(text="yes", value="yes", truth=True), test) == 1
        assert own_value(DOG[0], Reply(text="no", value="no", truth=True), test) == 0


def test_no_reply_is_no_answer_under_every_test_and_never_a_wrong_one():
    for test in ("read", "yes", "Yes", "plain_yes", "probability", "choice", "nearest", "zero_one"):
        assert own_value(DOG[0], Reply(), test) is None


def test_probability_is_that_of_the_answer_expected():
    no = AskedQuestion(name="1", text="", expected="no")
    choice = AskedQuestion(name="1", text="", expected="red", choices=("red", "blue"))
    assert own_value(DOG[0], Reply(text="yes", value="yes", probability=0.8), "probability") == 0.8
    assert own_value(no, Reply(text="yes", value="yes", probability=0.8), "probability") == pytest.approx(0.2)
    assert own_value(choice, Reply(text="red", value="red", probability=0.7), "probability") == 0.7
    assert own_value(choice, Reply(text="blue", value="blue", probability=0.7), "probability") is None


def test_choices_are_matched_exactly_and_then_by_the_nearest_sentence():
    asked = AskedQuestion(name="1", text="", expected="Red", choices=("Red", "blue"))
    assert own_value(asked, Reply(text="Red"), "choice") == 1
    assert own_value(asked, Reply(text="red"), "choice") is None  # case counts, as released
    assert own_value(asked, Reply(text="red", nearest="Red"), "nearest") == 1
    assert own_value(asked, Reply(text="blue", nearest="Red"), "nearest") == 0  # a choice needs no embedding
    assert own_value(asked, Reply(text="red"), "nearest") is None  # nobody embedded it
    assert own_value(DOG[0], Reply(text="yes"), "choice") == 1  # a question without choices has yes and no
    assert own_value(DOG[0], Reply(text="Yes"), "choice") is None


# ------------------------------------------------------------------------------------------------------- 2. the suffix
def test_suffix_is_behind_the_question_and_none_leaves_the_wording_to_the_judge():
    assert DOG[0].question(None).text == "Is there a dog?"
    assert not DOG[0].question(None).bare
    assert DOG[0].question("").bare
    assert DOG[0].question("Answer in one word.").text == "Is there a dog? Answer in one word."
    assert DOG[0].question(". Please answer 'Yes' or 'No' only.").text.startswith("Is there a dog?. Please")


# -------------------------------------------------------------------------------------------------- 3. dependency rule
@pytest.mark.parametrize(("rule", "expected"), [("none", 2 / 3), ("plain", 1 / 3), ("cascading", 0.0)])
def test_dependency_rules_by_hand(rule, expected):
    switches = Switches(dependency=rule)
    assert image_value(image("p", 0, DOG_ANSWERS, switches), switches) == pytest.approx(expected)


def test_cascading_goes_in_the_file_s_order_so_a_child_before_its_parent_sees_the_parent_s_own_answer():
    order = (
        AskedQuestion(name="3", text="c", parents=("2",)),
        AskedQuestion(name="2", text="b", parents=("1",)),
        AskedQuestion(name="1", text="a"),
    )
    values, _ = judged_values(order, DOG_ANSWERS, Switches(dependency="cascading"))
    assert values == {"3": 1.0, "2": 0.0, "1": 0.0}


def test_probabilities_pass_above_one_half_only():
    own = {"1": 0.5, "2": 0.9, "3": 0.51}
    assert gated_values(own, {"2": ["1"], "3": ["2"]}, dependence="parents") == {"1": 0.5, "2": 0.0, "3": 0.51}
    assert gated_values(own, {"2": ["1"], "3": ["2"]}, dependence="cascade") == {"1": 0.5, "2": 0.0, "3": 0.0}


def test_parent_that_is_wrong_by_itself_fails_its_children_whatever_is_undecided_about_it():
    own = {"1": 0.3, "2": None}
    assert gated_values(own, {"1": ["2"], "2": ["1"]}, dependence="cascade") == {"1": None, "2": 0.0}


def test_unknown_parent_is_refused():
    with pytest.raises(ValueError, match="depends on 'x'"):
        gated_values({"1": 1.0}, {"1": ["x"]}, dependence="parents")


ANSWERS = st.lists(st.sampled_from([0.0, 0.3, 0.7, 1.0, None]), min_size=1, max_size=8)


@given(ANSWERS, st.data())
def test_none_is_at_least_plain_and_plain_at_least_cascading(answers, data):
    own = {str(n): value for n, value in enumerate(answers)}
    parents = {
        name: data.draw(st.lists(st.sampled_from(list(own)), max_size=3, unique=True), label=name) for name in own
    }
    none, plain, cascade = (gated_values(own, parents, dependence=rule) for rule in ("none", "parents", "cascade"))
    for name in own:
        if plain[name] is not None and none[name] is not None:
            assert plain[name] <= none[name]
        if cascade[name] is not None and plain[name] is not None:
            assert cascade[name] <= plain[name]
        # A known zero stays zero under a stricter rule.
        if plain[name] == 0:
            assert cascade[name] == 0


@given(ANSWERS, st.data())
def test_graded_and_yes_or_no_values_agree_where_answers_are_plain(answers, data):
    right = {n: None if value is None else value > 0.5 for n, value in enumerate(answers)}
    parents = {n: data.draw(st.lists(st.integers(0, n - 1), max_size=2, unique=True)) for n in right if n}
    for rule in ("none", "parents", "cascade"):
        own = {n: None if value is None else float(value) for n, value in right.items()}
        graded = gated_values(own, parents, dependence=rule)
        assert {n: None if v is None else v == 1 for n, v in graded.items()} == question_values(
            right, parents, dependence=rule
        )


# ---------------------------------------------------------------------------------------------------- 4. unit averaged
def test_mean_over_prompts_and_over_questions_differ_by_hand():
    one = (AskedQuestion(name="1", text="a"),)
    over_prompts = Switches(dependency="none")
    over_questions = Switches(dependency="none", average_over="questions")
    images = [image("p", 0, {"1": 1.0}, over_prompts, one), image("q", 0, DOG_ANSWERS, over_prompts)]
    assert overall_mean(images, over_prompts).interval.value == pytest.approx((1 + 2 / 3) / 2)
    assert overall_mean(images, over_questions).interval.value == pytest.approx(3 / 4)


def test_prompts_weigh_the_same_however_many_of_their_images_are_usable():
    right, wrong = {"1": 1.0, "2": 1.0, "3": 1.0}, {"1": 0.0, "2": 0.0, "3": 0.0}
    images = [image("p", n, right) for n in range(4)] + [image("q", 0, wrong)]
    images += [image("q", n, {}, problem="image missing") for n in range(1, 4)]
    found = overall_mean(images, Switches())
    assert found.interval.value == pytest.approx(0.5)
    assert (found.n_used, found.n_unusable) == (5, 3)


# ------------------------------------------------------------------------------------------------ 5. images per prompt
def test_only_the_first_images_count_where_fewer_are_asked_for():
    right, wrong = {"1": 1.0, "2": 1.0, "3": 1.0}, {"1": 0.0, "2": 0.0, "3": 0.0}
    images = [image("p", 0, right), *(image("p", n, wrong) for n in (1, 2, 3))]
    assert overall_mean(images, Switches()).interval.value == pytest.approx(0.25)
    assert overall_mean(images, Switches(images_counted=1)).interval.value == 1.0
    assert overall_mean(images, Switches(images_counted=1)).n_used == 1


# ------------------------------------------------------------------------------------- 6. missing images, failed judge
@pytest.mark.parametrize(
    ("rule", "value", "used", "unusable"),
    [
        ("counted", (1.0 + 0.5) / 2, 3, 1),  # p: one image of two, with an answer of three missing; q: 1 and 0
        ("image_dropped", 0.5, 2, 2),  # p: the image with a missing answer goes, too
        ("prompt_dropped", 0.5, 2, 2),
        ("zero", (2 / 3 / 2 + 0.5) / 2, 4, 0),
        ("refused", math.nan, 0, 4),
    ],
)
def test_missing_images_and_answers_by_hand(rule, value, used, unusable):
    switches = Switches(dependency="none", when_missing=rule)
    images = [
        image("p", 0, {"1": 1.0, "2": 1.0, "3": None}, switches),
        image("p", 1, {}, switches, problem="image missing"),
        image("q", 0, {"1": 1.0, "2": 1.0, "3": 1.0}, switches),
        image("q", 1, {"1": 0.0, "2": 0.0, "3": 0.0}, switches),
    ]
    found = overall_mean(images, switches)
    assert found.interval.value == pytest.approx(value, nan_ok=True)
    assert (found.n_used, found.n_unusable) == (used, unusable)


def test_dropping_failures_raises_the_mean_and_zero_lowers_it():
    bad = {"1": 0.0, "2": None, "3": 0.0}
    good = {"1": 1.0, "2": 1.0, "3": 1.0}

    def score(rule):
        switches = Switches(when_missing=rule)
        return overall_mean([image("p", 0, bad, switches), image("q", 0, good, switches)], switches).interval.value

    assert score("prompt_dropped") == 1.0
    assert score("counted") == score("zero") == 0.5


def test_nothing_usable_is_undefined_and_counted():
    found = overall_mean([image("p", 0, {}, problem="refused")], Switches())
    assert math.isnan(found.interval.value)
    assert (found.n_used, found.n_unusable) == (0, 1)


def test_share_of_answered_questions_counts_those_of_missing_images():
    images = [image("p", 0, {"1": 1.0, "2": None, "3": 0.0}), image("p", 1, {}, problem="image missing")]
    found = answer_share(images, {"p": 3}, Switches())
    assert found.interval.value == pytest.approx(2 / 6)
    assert (found.n_used, found.n_unusable) == (6, 4)


# ---------------------------------------------------------------------------------------------------------- categories
def category(images, members, switches, *, gated):
    return category_mean(images, members, switches, gated=gated, counted=counted_images(images, switches))


def test_categories_are_pooled_before_or_after_dependencies_and_of_all_or_the_last_image():
    cascading = Switches(dependency="cascading")
    images = [image("p", 0, DOG_ANSWERS, cascading), image("p", 1, {"1": 1.0, "2": 1.0, "3": 0.0}, cascading)]
    members = {"p": ["2", "3"]}
    assert category(images, members, cascading, gated=False).interval.value == pytest.approx(3 / 4)
    assert category(images, members, cascading, gated=True).interval.value == pytest.approx(1 / 4)
    last = Switches(dependency="cascading", category_images="last")
    found = category(images, members, last, gated=False)
    assert (found.interval.value, found.n_used) == (0.5, 2)


def test_unanswered_questions_of_a_category_are_counted():
    found = category([image("p", 0, {"1": 1.0, "2": None, "3": 1.0})], {"p": ["2", "3"]}, Switches(), gated=False)
    assert (found.interval.value, found.n_used, found.n_unusable) == (1.0, 1, 1)


def test_image_that_is_dropped_counts_for_no_category():
    dropped = Switches(when_missing="image_dropped")
    images = [image("p", 0, {"1": 1.0, "2": None, "3": 0.0}, dropped), image("p", 1, DOG_ANSWERS, dropped)]
    found = category(images, {"p": ["3"]}, dropped, gated=False)
    assert (found.interval.value, found.n_used, found.n_unusable) == (1.0, 1, 1)


def test_lists_of_several_processes_are_joined_step_by_step():
    parts = [{"a": [1.0], "b": [0.0, 0.0]}, {"a": [1.0], "b": [0.0, 0.0]}]
    assert joined_lists(parts, [["a", "b"], ["a", "b"]])["a"] == [1.0, 1.0]
    mixed = joined_lists(parts, [["a", "b"], ["b", "a"]])
    assert mixed == {"a": [1.0, 0.0, 0.0], "b": [0.0, 0.0, 1.0]}  # "a" of 3 answers where there are 2
    assert sum(map(len, mixed.values())) == 6  # none is lost: the pooled total does not move
    with pytest.raises(ValueError, match="same categories"):
        joined_lists(parts, [["a", "b"], ["a"]])


# ------------------------------------------------------------------------------------------------- the lost first row
def test_lost_first_row_takes_its_question_or_the_whole_prompt():
    lost = Switches(dependency="cascading", first_row="lost", when_missing="prompt_dropped")
    values, gone = judged_values(DOG, DOG_ANSWERS, lost, first_row=True)
    assert gone
    free = (DOG[0], AskedQuestion(name="2", text="b"))
    assert judged_values(free, {"1": 0.0, "2": 1.0}, lost, first_row=True) == ({"2": 1.0}, False)
    assert judged_values(DOG, DOG_ANSWERS, lost)[1] is False  # of other prompts nothing is lost
    images = [image("p", 0, DOG_ANSWERS, lost, first_row=True), image("q", 0, {"1": 1.0, "2": 1.0, "3": 1.0}, lost)]
    found = overall_mean(images, lost)
    assert (found.interval.value, found.n_used, found.n_unusable) == (1.0, 1, 1)
    assert values


# ------------------------------------------------------------------------------------------------------------- naming
def test_every_switch_is_in_the_words_a_number_is_quoted_with():
    words = Switches(dependency="cascading", category_images="last", first_row="lost", graph="released").words(
        suffix="", images="4", judge="mplug"
    )
    for part in (
        "answer test=read", "suffix=none", "dependency=cascading", "average over=prompts", "images per prompt=4",
        "missing=counted", "judge=mplug", "graph=as released", "categories=last image only", "first row=lost",
    ):  # fmt: skip
        assert part in words
    assert "first 1 of 4" in Switches(images_counted=1).words(suffix=None, images="4")


def test_rules_concern_revised_alone_and_set_the_switches():
    rules = switch_rules(Switches(), tests=("read", "yes"))
    assert {rule.protocol for rule in rules} == {"revised"}
    assert with_values(Switches(), {"dependency": "none", "other": 1}).dependency == "none"
    with pytest.raises(UsageError, match="dependency is one of none, plain, cascading"):
        next(rule for rule in rules if rule.name == "dependency").check("cascade")


def test_questions_survive_being_kept_with_a_prompt():
    for prompt in scene_prompts(choices=True):
        assert questions_of({"questions": as_spec(prompt.questions)}) == prompt.questions
    odd = AskedQuestion(name="1", text="a", parents=("2",), released_parents=())
    assert questions_of({"questions": as_spec([odd])}) == (odd,)


# --------------------------------------------------------------------------------------------------------------- files
HEAD = (
    "item_id,text,keywords,proposition_id,dependency,category_broad,category_detailed,tuple,question_natural_language\n"
)


def written(folder, rows, head=HEAD):
    path = folder / "questions.csv"
    lines = [
        f'{item},prompt {item},k,{n},"{dependency}",b,d,"{kind} (x)",Question {n} of {item}?\n'
        for item, n, dependency, kind in rows
    ]
    path.write_text(head + "".join(lines), encoding="utf-8")
    return path


def test_defects_of_dependencies_are_named_and_mended(tmp_path):
    rows = [
        ("a1", 1, "0", "entity - whole"),
        ("a1", 2, "2", "attribute - color"),  # on itself
        ("a1", 3, "4", "attribute - color"),  # on a later one
        ("a1", 4, "0,1", "entity - part"),  # 0 beside another
        ("a1", 5, "9,1", "relation - spatial"),  # on one that is not there
        ("a1", 6, "one", "global -"),  # not a number
        ("b2", 1, "2", "entity - whole"),
        ("b2", 2, "1", "entity - whole"),  # a circle of two
    ]
    read = read_file(written(tmp_path, rows))
    assert read.defect_words() == "1 unreadable, 1 itself, 2 later, 1 unknown, 1 zero beside others, 1 circle"
    parents = {(p.prompt_id, q.name): q.parents for p in read.prompts for q in p.questions}
    assert parents["a1", "2"] == ()
    assert parents["a1", "3"] == ("4",)
    assert parents["a1", "4"] == parents["a1", "5"] == ("1",)
    assert parents["b2", "1"] == ("2",)
    assert parents["b2", "2"] == ()
    released = {(p.prompt_id, q.name): q.released_parents for p in read.prompts for q in p.questions}
    assert released["a1", "2"] == ("2",)
    assert released["b2", "2"] == ("1",)
    assert read.prompts[0].first_row_lost
    assert not read.prompts[1].first_row_lost
    assert read.counts("category") == {"entity": 4, "attribute": 2, "relation": 1, "global": 1}


@pytest.mark.parametrize(
    ("rows", "head", "message"),
    [
        ([("a", 1, "0", "x")], HEAD.replace("proposition_id", "number"), "no column proposition_id.*1,065 prompts"),
        ([], HEAD, "nothing in it"),
        ([("a", 1, "0", "x"), ("a", 1, "0", "x")], HEAD, "question 1 of a is there twice"),
        ([("a", "", "0", "x")], HEAD, "line 2: no proposition_id"),
    ],
)
def test_files_of_another_kind_are_refused_with_what_is_expected(tmp_path, rows, head, message):
    with pytest.raises(UsageError, match=message):
        read_file(written(tmp_path, rows, head))


def test_one_id_with_two_texts_is_refused(tmp_path):
    path = written(tmp_path, [("a", 1, "0", "x")])
    path.write_text(path.read_text(encoding="utf-8") + "a,other,k,2,0,b,d,x (y),Q?\n", encoding="utf-8")
    with pytest.raises(UsageError, match="the prompt a is 'prompt a' above and 'other' here"):
        read_file(path)


def test_cells_of_dependencies():
    assert parse_parents("1,2") == ["1", "2"]
    assert parse_parents("1;2") is None
    assert circles({"1": ["3"], "2": ["1"], "3": ["2"]}) == [("3", "2")]
    assert circles({"1": ["1"]}) == [("1", "1")]


def test_items_and_tuples_of_dpg_bench():
    assert source_of("whoops12") == "whoops"
    assert source_of("stanford_0") == "stanford"
    assert source_of("custom7") == "custom"
    assert groups_of_row({"tuple": ""}) == {}


# -------------------------------------------------------------------------------------------------------------- scenes
@pytest.mark.parametrize("choices", [False, True])
def test_scenes_show_what_their_questions_expect(choices):
    prompts = scene_prompts(choices=choices)
    assert len({p.prompt_id for p in prompts}) == len(prompts) == 48
    assert len({p.text for p in prompts}) == 48
    for prompt in prompts:
        assert isinstance(prompt, AskedPrompt)
        for q in prompt.questions:
            assert q.fact.answer(prompt.scene, q.choices) == q.expected, (prompt.text, q.text)
            assert set(q.parents) < {other.name for other in prompt.questions}


# ------------------------------------------------------------------------------------------- released answers, results
def test_one_unreadable_cell_takes_the_graph_of_a_released_image_away(tmp_path):
    path = tmp_path / "answers.csv"
    lines = ["m,a,Dog?,1,0,no", "m,a,Brown?,2,1,yes", "m,b,Dog?,1,0,no", "m,b,Brown?,2,1,yes", "m,b,Cat?,3,one,yes"]
    path.write_text(
        "t2i_model,item_id,question,question_id,dependency_id,answer\n" + "\n".join(lines), encoding="utf-8"
    )
    scores = image_scores(read_answers(path), RULES["plain"])
    assert scores == {("m", "a"): 0.0, ("m", "b"): pytest.approx(2 / 3)}


def test_two_test_points_of_one_kind_are_matched_in_their_order():
    asked = tuple(
        AskedQuestion(name=str(n), text=f"point {n}?", groups={"subcategory": "Attribute - Color"}) for n in (1, 2)
    )
    prompt = AskedPrompt(prompt_id="0", text="x", questions=asked)
    rows = point_answers([prompt], {("0", 2): (("Attribute - Color", 1), ("Attribute - Color", 0))})
    assert [(row["image_id"], row["question"], row["answer"]) for row in rows] == [
        ("0#2", "point 1?", "yes"),
        ("0#2", "point 2?", "no"),
    ]
