"""The alignment suite on tables written by hand: no model looks at anything."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from verism.annotation.judge_agreement import graded_report, graded_rules, graded_values
from verism.annotation.tasks import general_tasks
from verism.errors import UsageError
from verism.metrics.retrieval import r_precision
from verism.records import AnswerNeed, CaptionNeed, EmbeddingNeed, Observed, frame, make_image_id
from verism.suites.alignment.suite import Alignment

JUDGE = "judge@1"


def suite_of(tmp_path, rows, **options):
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return Alignment.make({"prompts": path, **options})


def observed(suite, *, captions=None, vectors=None, texts=None, answers=None, states=None):
    """Tables as judges fill them. ``states``: of the images that are not ok."""
    prompts = {p.prompt_id: p for p in suite.prompts()}
    images = [
        {
            "image_id": make_image_id(p.prompt_id, i),
            "prompt_id": p.prompt_id,
            "index": i,
            "state": (states or {}).get(make_image_id(p.prompt_id, i), "ok"),
            "note": "",
        }
        for p in prompts.values()
        for i in range(p.n_images)
    ]
    tables = {}
    if captions is not None:
        tables["captions"] = frame(
            "captions", [{"image_id": i, "judge": JUDGE, "text": t, "note": "x"} for i, t in captions.items()]
        )
    if vectors is not None:
        tables["embeddings"] = frame(
            "embeddings", [{"image_id": i, "judge": JUDGE, "vector": v} for i, v in vectors.items()]
        )
        tables["text_embeddings"] = frame(
            "text_embeddings", [{"text": t, "judge": JUDGE, "vector": v} for t, v in texts.items()]
        )
    if answers is not None:
        tables["answers"] = frame(
            "answers",
            [
                {"image_id": i, "judge": JUDGE, "question": q, "answer": reply, "value": value, "probability": p}
                for (i, q), (reply, value, p) in answers.items()
            ],
        )
    return Observed(prompts=prompts, images=frame("images", images), observations=tables)


def score_of(suite, seen):
    verdicts = suite.verdicts(seen)
    scores = {(s.metric, s.protocol, json.dumps(dict(s.group))): s for s in suite.scores(seen, verdicts)}
    return verdicts, lambda metric, protocol="revised", **group: scores[metric, protocol, json.dumps(group)]


def value_of(verdicts, image_id, rule, protocol="revised"):
    rows = [
        r
        for r in verdicts.iter_rows(named=True)
        if (r["image_id"], r["rule"], r["protocol"]) == (image_id, rule, protocol)
    ]
    assert len(rows) == 1
    return rows[0]


# ---------------------------------------------------------------------------------------------------------- captions
CAPTIONED = [
    {"id": "a", "prompt": "a dog runs fast", "references": ["a dog runs fast", "dog"], "style": "plain"},
    {"id": "b", "prompt": "two cats", "references": ["two cats sit there"], "style": "plain"},
    {"id": "c", "prompt": "no references", "style": "odd"},
]


def test_captions_against_all_references(tmp_path):
    suite = suite_of(tmp_path, CAPTIONED)
    seen = observed(suite, captions={"a#0": "A dog runs fast.", "b#0": "two dogs sit there", "c#0": "x"})
    verdicts, score = score_of(suite, seen)
    # Image a: 4 of 4 words are in a reference; b: 3 of 4. BLEU-1 = 7 / 8, no brevity penalty (lengths 4 and 4).
    # BLEU-2: pairs a 3 of 3, b ("sit there") 1 of 3: sqrt(7/8 * 4/6).
    assert score("bleu_1").value == pytest.approx(7 / 8)
    assert score("bleu_2").value == pytest.approx(math.sqrt(7 / 8 * 4 / 6))
    # ROUGE-L: a: 1. b: longest common subsequence "two sit there", 3 of 4 both ways: 3/4.
    assert score("rouge_l").value == pytest.approx((1 + 3 / 4) / 2)
    assert (score("bleu_1").n_used, score("bleu_1").n_unusable) == (2, 0)  # c has no references
    assert score("cider", "released").value == score("cider").value
    row = value_of(verdicts, "b#0", "caption")
    assert row["reason"] == '"two dogs sit there"; references: two cats sit there'
    assert row["value"] == pytest.approx(json.loads(row["detail"])["cider"])
    assert "c#0" not in verdicts["image_id"].to_list()


def test_images_without_a_caption_do_not_count(tmp_path):
    suite = suite_of(tmp_path, CAPTIONED)
    seen = observed(suite, captions={"a#0": "a dog runs fast", "b#0": None})
    verdicts, score = score_of(suite, seen)
    assert score("bleu_4").value == pytest.approx(1.0)
    assert (score("bleu_4").n_used, score("bleu_4").n_unusable) == (1, 1)
    assert value_of(verdicts, "b#0", "caption")["value"] is None
    assert value_of(verdicts, "b#0", "caption")["reason"] == "no caption: x"
    blank = observed(suite, captions={"a#0": "a dog runs fast"}, states={"b#0": "blank", "a#0": "missing"})
    verdicts, score = score_of(suite, blank)
    assert math.isnan(score("cider").value)
    assert (score("cider").n_used, score("cider").n_unusable) == (0, 2)
    assert value_of(verdicts, "b#0", "caption")["reason"] == "image blank"


def test_groups_are_scored_by_themselves(tmp_path):
    rows = [row | {"references": row.get("references", ["x y z w"])} for row in CAPTIONED]
    suite = suite_of(tmp_path, rows, group_by="style")
    captions = {"a#0": "a dog runs fast", "b#0": "two dogs sit there", "c#0": "nothing alike"}
    _, score = score_of(suite, observed(suite, captions=captions))
    assert score("bleu_1", style="plain").value == pytest.approx(7 / 8)
    assert score("bleu_1", style="odd").value == pytest.approx(0.0, abs=1e-6)
    # CIDEr of all is the mean of the groups', weighed by images: words weigh the same everywhere.
    plain, odd = score("cider", style="plain"), score("cider", style="odd")
    assert score("cider").value == pytest.approx((2 * plain.value + odd.value) / 3)
    with pytest.raises(UsageError, match=r"no facet 'genre' to group by; they have \['style'\]"):
        suite.with_rules(group_by="genre")


# ----------------------------------------------------------------------------------------------------------- vectors
def test_cosines_and_their_scales(tmp_path):
    suite = suite_of(tmp_path, [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "y"}])
    # cos((3, 4), (4, 3)) = 24/25 = 0.96; cos((1, 0), (-2, 0)) = -1.
    seen = observed(suite, vectors={"a#0": [3, 4], "b#0": [1, 0]}, texts={"x": [4, 3], "y": [-2, 0]})
    verdicts, score = score_of(suite, seen)
    assert value_of(verdicts, "a#0", "clipscore")["value"] == pytest.approx(0.96)
    assert score("clipscore_cosine").value == pytest.approx(-0.02)
    assert score("clipscore_x100").value == pytest.approx(-2.0)
    assert score("clipscore_hessel").value == pytest.approx(2.5 * 0.96 / 2)  # the negative one counts 0
    assert score("clipscore_x100").unit == "x100"


def test_retrieval_by_hand(tmp_path):
    suite = suite_of(tmp_path, [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "long"}]).with_rules(pool=2)
    # Image a = (1, 0): own text (1, 0), cosine 1, dot 1; the other (3, 3): cosine 0.71, dot 3.
    seen = observed(suite, vectors={"a#0": [1, 0], "b#0": [1, 1]}, texts={"x": [1, 0], "long": [3, 3]})
    verdicts, score = score_of(suite, seen)
    assert value_of(verdicts, "a#0", "r_precision")["value"] == 1.0
    assert score("r_precision").value == 1.0
    # Raw products: a loses whenever its one draw with replacement is the other text, and wins when it is its own.
    released = value_of(verdicts, "a#0", "r_precision", "released")["value"]
    assert released in [k / 5 for k in range(5)]
    assert value_of(verdicts, "b#0", "r_precision", "released")["value"] == 1.0
    assert score("r_precision", "released").value == pytest.approx((released + 1) / 2)


def test_too_few_texts_for_the_pool(tmp_path):
    suite = suite_of(tmp_path, [{"id": "a", "prompt": "x"}])
    seen = observed(suite, vectors={"a#0": [1, 0]}, texts={"x": [1, 0]})
    verdicts, score = score_of(suite, seen)
    assert math.isnan(score("r_precision").value)
    assert suite.remarks(seen) == [
        "r_precision (revised protocol): 1 different texts are too few for pools of 100; lower the rule `pool`"
    ]
    assert suite.remarks(replace(seen, observations={})) == ()
    assert "1 different texts are too few for pools of 100" in value_of(verdicts, "a#0", "r_precision")["reason"]
    assert score("r_precision", "released").value == 1.0  # drawn with replacement, it is always its own text
    with pytest.raises(UsageError, match="pool is a whole number, at least 2; got 1"):
        suite.with_rules(pool=1)


def test_images_without_a_vector_do_not_count(tmp_path):
    suite = suite_of(tmp_path, [{"id": i, "prompt": i} for i in "abc"])
    texts = {"a": [1, 0], "b": [0, 1], "c": [1, 1]}
    seen = observed(suite, vectors={"a#0": [1, 0], "c#0": [0, 0]}, texts=texts, states={"b#0": "refused"})
    verdicts, score = score_of(suite, seen)
    assert score("clipscore_cosine").value == pytest.approx(1.0)
    assert (score("clipscore_cosine").n_used, score("clipscore_cosine").n_unusable) == (1, 2)
    assert value_of(verdicts, "b#0", "clipscore")["reason"] == "image refused"
    assert value_of(verdicts, "c#0", "clipscore")["reason"] == "the vector has no direction"
    with pytest.raises(UsageError, match=r"1 texts have no vector, such as 'c'.*verism observe"):
        suite.verdicts(observed(suite, vectors={}, texts={"a": [1, 0], "b": [0, 1]}))


# --------------------------------------------------------------------------------------------------------- questions
def dsg_suite(tmp_path, **options):
    rows = [
        {"item_id": "d", "text": "a brown dog alone", "proposition_id": n, "dependency": parent, "question": q,
         "category_broad": category}
        for n, parent, q, category in (
            (1, 0, "dog?", "entity"), (2, 1, "brown?", "attribute"), (3, 2, "alone?", "relation")
        )
    ]  # fmt: skip
    path = tmp_path / "dsg.json"
    path.write_text(json.dumps(rows))
    return Alignment.make({"questions": path, **options})


def said(*replies):
    """Answers to dog?, brown?, alone? as a strict judge reads them."""
    return {
        ("d#0", q): (reply, reply.lower() if reply.lower() in ("yes", "no") else None, None)
        for q, reply in zip(("dog?", "brown?", "alone?"), replies, strict=True)
    }


@pytest.mark.parametrize(
    ("replies", "revised", "paper", "released", "alone"),
    [
        pytest.param(("yes", "yes", "yes"), 1, 1, 1, 1, id="all there"),
        # DSG: dog 0, brown 0 for the dog's sake, alone stands by its parent's own yes: 1/3. EvalGIM: it falls: 0.
        pytest.param(("no", "yes", "yes"), 1 / 3, 1 / 3, 0, 2 / 3, id="grandchild"),
        # Unreadable: revised leaves dog and brown open, 1 of 1; paper: wrong, as above; released: "a dog" is not yes.
        pytest.param(("a dog", "yes", "yes"), 1, 1 / 3, 0, 1, id="unreadable"),
        pytest.param(("no", "no", "no"), 0, 0, 0, 0, id="nothing there"),
    ],
)
def test_dependencies_by_protocol(tmp_path, replies, revised, paper, released, alone):
    suite = dsg_suite(tmp_path)
    verdicts, score = score_of(suite, observed(suite, answers=said(*replies)))
    assert score("question_score").value == pytest.approx(revised)
    assert score("question_score", "paper").value == pytest.approx(paper)
    assert score("question_score", "released").value == pytest.approx(released)
    assert score("question_score_alone").value == pytest.approx(alone)
    assert value_of(verdicts, "d#0", "questions")["value"] == pytest.approx(revised)


def test_what_is_said_of_each_question(tmp_path):
    suite = dsg_suite(tmp_path)
    verdicts, score = score_of(suite, observed(suite, answers=said("no", "yes", "maybe")))
    assert value_of(verdicts, "d#0", "question_1")["value"] == 0
    assert value_of(verdicts, "d#0", "question_1")["reason"] == "dog? yes expected, the judge answered 'no'"
    second = value_of(verdicts, "d#0", "question_2")
    assert second["value"] == 0
    assert second["reason"].endswith("the judge answered 'yes'; counts as wrong, as it depends on: dog?")
    assert json.loads(second["detail"])["own"] is True
    third = value_of(verdicts, "d#0", "question_3")
    assert third["value"] is None
    assert "which is none of the answers" in third["reason"]
    assert score("question_accuracy", category="attribute").value == 0
    assert math.isnan(score("question_accuracy", category="relation").value)
    assert score("question_accuracy", "paper", category="relation").value == 0
    assert score("question_score").value == 0
    assert score("question_score").n_used == 1


def test_choices_and_vqascore(tmp_path):
    rows = [
        {"id": "p", "caption": "two cats", "question": "how many?", "choices": ["1", "2"], "answer": "2",
         "element_type": "counting"},
        {"id": "q", "caption": "a dog", "question": "what?", "choices": ["dog", "cat"], "answer": "dog",
         "element_type": "animal"},
    ]  # fmt: skip
    path = tmp_path / "tifa.json"
    path.write_text(json.dumps(rows))
    suite = Alignment.make({"questions": path, "n_images": 2})
    vqa = 'Does this figure show "{}"? Please answer yes or no.'
    (need,) = [n for n in suite.needs() if isinstance(n, AnswerNeed)]
    assert [(q.text, q.choices) for q in need.questions["p"]] == [
        ("how many?", ("1", "2")),
        (vqa.format("two cats"), ()),
    ]
    answers = {
        ("p#0", "how many?"): ("2", "2", 0.9),
        ("p#1", "how many?"): ("three", None, None),
        ("q#0", "what?"): ("cat", "cat", 0.6),
        ("p#0", vqa.format("two cats")): ("Yes", "yes", 0.8),
        ("p#1", vqa.format("two cats")): ("no", "no", 0.1),
        ("q#0", vqa.format("a dog")): ("yes", "yes", None),
    }
    verdicts, score = score_of(suite, observed(suite, answers=answers, states={"q#1": "failed"}))
    # Images p#0 right, p#1 unreadable, q#0 wrong, q#1 not there: 1 of 2.
    assert score("question_score").value == pytest.approx(0.5)
    assert (score("question_score").n_used, score("question_score").n_unusable) == (2, 2)
    # TIFA's own rule counts the unreadable one as wrong: 1 of 3.
    assert score("question_score", "paper").value == pytest.approx(1 / 3)
    assert score("question_accuracy", category="counting").value == 1
    assert score("vqascore").value == pytest.approx(0.45)
    assert (score("vqascore").n_used, score("vqascore").n_unusable) == (2, 2)
    assert value_of(verdicts, "q#0", "vqascore")["reason"] == "the judge gives no probability"
    assert value_of(verdicts, "q#1", "question_1")["reason"] == "image failed"
    alone = Alignment.make({"questions": path, "vqascore": False})
    assert [q.text for q in alone.needs()[1].questions["p"]] == ["how many?"]


# ------------------------------------------------------------------------------------------------ prompts and settings
def test_needs_follow_what_is_known(tmp_path):
    plain = suite_of(tmp_path, [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x"}], vqascore=False)
    assert [type(n) for n in plain.needs()] == [EmbeddingNeed]
    assert plain.needs()[0].texts == ("x",)
    full = suite_of(tmp_path, CAPTIONED)
    assert [type(n) for n in full.needs()] == [CaptionNeed, EmbeddingNeed, AnswerNeed]
    assert all(n.optional for n in full.needs())
    with pytest.raises(UsageError, match=r"alignment needs prompts: COCO captions \(--annotations FILE\)"):
        Alignment.make({})
    with pytest.raises(UsageError, match="give --annotations FILE with them"):
        suite_of(tmp_path, CAPTIONED, split="test")


def test_a_table_that_nobody_filled_is_left_out(tmp_path):
    suite = suite_of(tmp_path, CAPTIONED)
    verdicts, score = score_of(suite, observed(suite, captions={"a#0": "a", "b#0": "b"}))
    assert set(verdicts["rule"].to_list()) == {"caption"}
    with pytest.raises(KeyError):
        score("vqascore")


def everything(suite):
    vqa = 'Does this figure show "a brown dog alone"? Please answer yes or no.'
    return observed(
        suite,
        vectors={f"d#{i}": [1.0, i] for i in range(4)},
        texts={"a brown dog alone": [1.0, 0.5]},
        answers={
            (f"d#{i}", q): (("yes", "no", "eh")[(i + len(q)) % 3], ("yes", "no", None)[(i + len(q)) % 3], i / 4)
            for i in range(4)
            for q in ("dog?", "brown?", "alone?", vqa)
        },
        states={"d#2": "blank"},
    )


def test_rows_may_come_in_any_order(tmp_path):
    suite = dsg_suite(tmp_path, n_images=4)
    seen = everything(suite)
    verdicts = suite.verdicts(seen)
    scores = suite.scores(seen, verdicts)
    rng = random.Random(1)

    def shuffled(table):
        order = list(range(table.height))
        rng.shuffle(order)
        return table[order]

    again = Observed(
        prompts=seen.prompts,
        images=shuffled(seen.images),
        observations={name: shuffled(table) for name, table in seen.observations.items()},
    )
    key = ["image_id", "protocol", "rule"]
    other = suite.verdicts(again)
    assert other.sort(key).equals(verdicts.sort(key))
    assert repr(suite.scores(again, shuffled(other))) == repr(scores)


def test_released_draws_go_by_the_order_of_prompts(tmp_path):
    rng = np.random.default_rng(5)
    names = [f"p{i}" for i in (7, 3, 9, 1, 5)]  # no order of ids
    suite = suite_of(tmp_path, [{"id": n, "prompt": f"text of {n}"} for n in names]).with_rules(pool=4)
    images, texts = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(5, 3)).astype(np.float32)
    seen = observed(
        suite,
        vectors={f"{n}#0": v.tolist() for n, v in zip(names, images, strict=True)},
        texts={f"text of {n}": v.tolist() for n, v in zip(names, texts, strict=True)},
    )
    backwards = Observed(
        prompts=seen.prompts,
        images=seen.images[::-1],
        observations={name: table[::-1] for name, table in seen.observations.items()},
    )
    expected = r_precision(images, texts, protocol="released", pool=4, repeats=5, seed=10)
    assert 0 < expected.value < 1
    for tables in (seen, backwards):
        verdicts, score = score_of(suite, tables)
        assert score("r_precision", "released").value == pytest.approx(expected.value)
        chances = [value_of(verdicts, f"{n}#0", "r_precision", "released")["value"] for n in names]
        assert chances == expected.per_image.tolist()


def test_a_stored_run_scores_the_same(tmp_path):
    suite = dsg_suite(tmp_path, n_images=4, vqascore=False)
    stored = json.loads(json.dumps({**suite.settings(), "suite": "alignment", "prompts": "0123", "seed": 0}))
    back = Alignment.reopen(stored, suite.prompts()).with_rules(**json.loads(json.dumps(dict(suite.all_rules()))))
    assert tuple(back.prompts()) == tuple(suite.prompts())
    assert back.settings() == suite.settings()
    assert back.needs() == suite.needs()
    seen = everything(suite)
    assert repr(back.scores(seen, back.verdicts(seen))) == repr(suite.scores(seen, suite.verdicts(seen)))
    with pytest.raises(UsageError, match="has no rule 'colour'"):
        back.with_rules(colour=1)
    with pytest.raises(UsageError, match=r"unknown caption metric 'bleu'; choose from \['meteor', 'spice'\]"):
        back.with_rules(caption_metrics="bleu")


def test_coco_run_takes_references_from_the_annotations(tmp_path):
    coco = {
        "images": [{"id": 42, "file_name": "COCO_val2014_000000000042.jpg"}],
        "annotations": [{"image_id": 42, "id": n, "caption": f"caption {n}"} for n in range(5)],
    }
    annotations = tmp_path / "captions_val2014.json"
    annotations.write_text(json.dumps(coco))
    targets = tmp_path / "karpathy_test_text.json"
    targets.write_text(json.dumps([{"img_id": "COCO_val2014_000000000042", "targets": ["caption 3"]}]))
    suite = Alignment.make({"annotations": annotations, "prompts": targets})
    (prompt,) = suite.prompts()
    assert prompt.text == "caption 3"
    assert prompt.spec["references"] == [f"caption {n}" for n in range(5)]
    assert suite.settings()["annotations"]["file"] == "captions_val2014.json"
    assert Alignment.make({"annotations": annotations, "caption": "first"}).prompts()[0].text == "caption 0"


def test_ratings_of_people_are_held_against_numbers_the_suite_gives(tmp_path):
    asked = tmp_path / "questions.jsonl"
    asked.write_text(json.dumps({"prompt": "red", "dsg_questions": ["Is it red?"]}))
    suite = Alignment.make({"questions": asked, "n_images": 3})
    colours, shares = {"a#0": [1.0, 0.0], "a#1": [0.6, 0.8], "a#2": [0.0, 1.0]}, (0.9, 0.5, 0.1)
    prompt = suite.prompts()[0]
    answers = {
        (image, question.text): ("yes", "yes", share)
        for image, share in zip(colours, shares, strict=True)
        for question in suite.needs()[1].questions[prompt.prompt_id]
    }
    images = [i.replace("a#", f"{prompt.prompt_id}#") for i in colours]
    vectors = dict(zip(images, colours.values(), strict=True))
    seen = observed(
        suite,
        vectors=vectors,
        texts={prompt.text: [1.0, 0.0]},
        answers={(i.replace("a#", f"{prompt.prompt_id}#"), q): a for (i, q), a in answers.items()},
    )
    verdicts = suite.verdicts(seen)
    (task,) = [task for task in general_tasks() if task.name == "alignment"]
    rules = graded_rules(suite, task)
    assert set(rules) - {"alignment"} <= set(verdicts["rule"])  # none is misspelt
    values = graded_values(verdicts, rules, task.key)
    assert set(values) >= {("clipscore", "revised"), ("vqascore", "revised"), ("questions", "paper")}
    rated = dict(zip(images, (5.0, 3.0, 1.0), strict=True))
    for rule in ("clipscore", "vqascore"):
        result = graded_report(values[rule, "revised"], task, rated, seen, n_resamples=0)
        assert result["kendall_tau_b"]["value"] == pytest.approx(1.0)
