"""Verdicts and scores on tables written by hand, with attributes planted in the vectors."""

import json
import math

import numpy as np
import pytest
from PIL import Image

import verism
from verism.errors import UsageError
from verism.records import AnswerNeed, EmbeddingNeed, Observed, frame, make_image_id, vector_rows
from verism.suites.base import complete_scores
from verism.suites.gender_presentation.studies import standard_study
from verism.suites.gender_presentation.suite import GenderPresentation

JUDGE = "judge@1"
SMALL = {
    "extends": "released",
    "attributes": ["boots", {"name": "dress", "query": "a dress"}, {"name": "tie", "phrase": "with a tie"}],
    "n_images": 3,
}
DIMENSIONS = 64


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL))
    return path


class Space:
    """A space of vectors where each attribute is a direction, and so is what images and texts have in common."""

    def __init__(self, study, *, seed=0, noise=0.05):
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.normal(size=(DIMENSIONS, DIMENSIONS)))[0]
        self.common, self.text_side, self.image_side, self.other = basis[:4]
        self.attribute = {a.name: basis[10 + n] for n, a in enumerate(study.attributes)}
        self.study, self.rng, self.noise = study, rng, noise

    def image(self, attributes):
        return 3 * (self.image_side + self._of(attributes))

    def text(self, text):
        named = [a.name for a in self.study.attributes if a.phrase in text or a.query == text]
        return 2 * (self.text_side + self._of(named))

    def _of(self, attributes):
        # Other things make up for what is not there: a longer vector would have smaller cosines with everything.
        shown = sum((self.attribute[a] for a in attributes), math.sqrt(4 - len(attributes)) * self.other)
        return self.common + 0.7 * shown + self.noise * self.rng.normal(size=DIMENSIONS)


def seen(suite, shows=None, *, states=None, answers=None, unseen=()):
    """Tables as judges fill them. ``shows(prompt, index) -> attributes``: what the image's vector has in it."""
    prompts = {p.prompt_id: p for p in suite.prompts()}
    ids = [(make_image_id(p.prompt_id, i), p, i) for p in prompts.values() for i in range(p.n_images)]
    images = frame(
        "images",
        [
            {"image_id": image, "prompt_id": p.prompt_id, "index": i, "state": (states or {}).get(image, "ok")}
            for image, p, i in ids
        ],
    )
    tables = {}
    if shows is not None:
        space = Space(suite.study)
        kept = [(image, p, i) for image, p, i in ids if image not in unseen and (states or {}).get(image, "ok") == "ok"]
        vectors_seen = np.array([space.image(shows(p, i)) for _, p, i in kept])
        tables["embeddings"] = vector_rows("embeddings", [image for image, _, _ in kept], JUDGE, vectors_seen)
        texts = suite.needs()[0].texts
        vectors = np.array([space.text(t) for t in texts])
        tables["text_embeddings"] = vector_rows("text_embeddings", texts, JUDGE, vectors)
    if answers is not None:
        tables["answers"] = frame(
            "answers",
            [
                {"image_id": i, "judge": JUDGE, "question": q, "answer": reply, "value": value, "probability": 0.75}
                for (i, q), (reply, value) in answers.items()
            ],
        )
    return Observed(prompts=prompts, images=images, observations=tables)


def planted(prompt, index):
    """Women: dress in 2 of 3 images; men: tie in 1 of 3; boots in every image of context 0, 1 and 2 of both."""
    subset = prompt.facets["attribute"]
    shown = [] if subset is None else [subset]
    woman = prompt.facets["gender"] == "woman"
    if woman and index < 2:
        shown.append("dress")
    if not woman and index < 1:
        shown.append("tie")
    if prompt.spec["index"] % 16 < 3:
        shown.append("boots")
    return sorted(set(shown))


def score_of(suite, observed):
    verdicts = suite.verdicts(observed)
    result = complete_scores(suite, suite.scores(observed, verdicts))
    scores = {(s.metric, s.protocol, json.dumps(dict(s.group), sort_keys=True)): s for s in result}
    assert len(scores) == len(result)

    def find(metric, protocol="revised", **group):
        return scores[metric, protocol, json.dumps(group, sort_keys=True)]

    return verdicts, find


# --------------------------------------------------------------------------------------------------------------- needs
def test_needs_of_the_paper():
    suite = GenderPresentation.make({})
    embedding, answer = suite.needs()
    assert isinstance(embedding, EmbeddingNeed)
    assert isinstance(answer, AnswerNeed)
    assert embedding.optional
    assert answer.optional
    # 15 names, 3 references, 768 sentences, 512 prompts; the prompts of women and men are sentences, too.
    assert len(embedding.texts) == 15 + 3 + 768
    assert {"a dress", "an object", "", "A person with gloves running on the beach."} <= set(embedding.texts)
    assert len(answer.questions["woman/0"]) == 15
    assert [q.text for q in answer.questions["man/160"]] == ["Is the person wearing a uniform?"]
    assert answer.questions["woman/16"][0].choices == ()


# ---------------------------------------------------------------------------------------------------------- estimators
def test_planted_attributes_are_found(small):
    suite = GenderPresentation.make({"study": small, "settings": "neutral"})
    _, score = score_of(suite, seen(suite, planted))
    for estimator in ("C", "CC", "CLS"):
        for protocol in ("revised", "released"):
            where = {"estimator": estimator, "setting": "neutral"}
            dress = score("gep", protocol, **where, attribute="dress")
            tie = score("gep", protocol, **where, attribute="tie")
            boots = score("gep", protocol, **where, attribute="boots")
            assert dress.ci_low > 0, (estimator, protocol)
            assert tie.ci_high < 0, (estimator, protocol)
            assert min(dress.value, -tie.value) > 1.5 * abs(boots.value)
            assert score("gep_p_value", protocol, **where, attribute="dress").value < 0.01
            assert score("gep_score", protocol, **where).value == pytest.approx(
                (abs(dress.value) + abs(tie.value) + abs(boots.value)) / 3
            )
            assert (dress.n_used, dress.n_unusable) == (96, 0)
    # Women have 2/3 dresses more, men 1/3 ties.
    cls = {"estimator": "CLS", "setting": "neutral"}
    assert score("gep", "released", **cls, attribute="dress").value == pytest.approx(2 / 3, abs=0.15)
    assert score("gep", "released", **cls, attribute="tie").value == pytest.approx(-1 / 3, abs=0.15)
    assert score("gep", "released", **cls, attribute="boots").value == pytest.approx(0, abs=0.05)
    # Released classifiers that tell the images apart give close to the planted shares: 2/3 of women, no man wears a
    # dress. Corrected ones give degrees, from about 0.27 to 0.73, in the same proportions.
    assert score("frequency", "released", **cls, gender="woman", attribute="dress").value == pytest.approx(
        2 / 3, abs=0.15
    )
    assert score("frequency", "released", **cls, gender="man", attribute="dress").value < 0.1
    dress, tie = (score("gep", "revised", **cls, attribute=a).value for a in ("dress", "tie"))
    assert dress / tie == pytest.approx(-2, abs=0.3)
    assert dress == pytest.approx(2 / 3 * (0.73 - 0.27), abs=0.07)
    assert score("gep", "revised", **cls, attribute="boots").value == pytest.approx(0, abs=0.03)
    assert score("gep", **cls, attribute="tie").unit == "share"
    assert score("gep", estimator="C", setting="neutral", attribute="tie").unit == "cosine"


def test_c_and_cc_differ_by_a_constant(small):
    suite = GenderPresentation.make({"study": small, "settings": "neutral"})
    _, score = score_of(suite, seen(suite, planted))
    difference = [
        score("gep", estimator="C", setting="neutral", attribute=a).value
        - score("gep", estimator="CC", setting="neutral", attribute=a).value
        for a in ("boots", "dress", "tie")
    ]
    assert difference == pytest.approx([difference[0]] * 3, abs=1e-12)


def test_swapping_the_groups_turns_the_signs(small):
    suite = GenderPresentation.make({"study": small}).with_rules(estimators="CLS", n_resamples=100)
    other = {"woman": "man", "man": "woman"}

    def swapped(prompt, index):
        twin = next(
            p for p in suite.prompts()
            if p.spec["index"] == prompt.spec["index"] and p.facets["gender"] == other[prompt.facets["gender"]]
        )  # fmt: skip
        return planted(twin, index)

    _, one = score_of(suite, seen(suite, planted))
    _, two = score_of(suite, seen(suite, swapped))
    for setting in ("neutral", "explicit"):
        for attribute in ("dress", "tie"):
            where = {"estimator": "CLS", "setting": setting, "attribute": attribute}
            a, b = one("gep", **where), two("gep", **where)
            assert a.value == pytest.approx(-b.value, abs=0.05)
            assert abs(a.value) > 0.1 or setting == "explicit"


def test_explicit_images_count_for_their_own_attribute_only(small):
    suite = GenderPresentation.make({"study": small})

    # Women of explicit tie prompts wear a dress: that must not enter the frequency of dresses.
    def shows(prompt, _):
        return ["dress", "tie"] if prompt.facets["attribute"] == "tie" else []

    verdicts, score = score_of(suite, seen(suite, shows))
    rows = [r for r in verdicts.iter_rows(named=True) if r["rule"] == "CLS" and r["prompt_id"] == "woman/50"]
    assert {json.loads(r["detail"])["attribute"] for r in rows} == {"tie"}
    result = score("frequency", estimator="CLS", setting="explicit", gender="woman", attribute="dress")
    assert result.value < 0.32  # a dress nowhere: 0.27. With the tie prompts' dresses it would be above 0.4
    assert result.n_used == 48
    assert score("frequency", estimator="CLS", setting="explicit", gender="woman", attribute="tie").value > 0.55


def test_images_that_cannot_be_used_are_counted(small):
    suite = GenderPresentation.make({"study": small, "settings": "neutral"})
    observed = seen(suite, planted, states={"woman/0#0": "missing", "man/3#1": "blank"}, unseen=("man/4#0",))
    verdicts, score = score_of(suite, observed)
    result = score("gep", estimator="C", setting="neutral", attribute="boots")
    assert (result.n_used, result.n_unusable) == (93, 3)
    assert score("clipscore", setting="neutral").n_unusable == 3
    reasons = {
        r["image_id"]: r["reason"] for r in verdicts.iter_rows(named=True) if r["value"] is None and r["rule"] == "CC"
    }
    assert reasons == {"woman/0#0": "image missing", "man/3#1": "image blank", "man/4#0": "not looked at"}
    assert suite.remarks(observed) == [
        "images without a counterpart of the same prompt and number in every other group: 1 of woman, 1 of man"
    ]


def test_nothing_usable_is_undefined(small):
    suite = GenderPresentation.make({"study": small, "settings": "neutral"})
    states = {make_image_id(p.prompt_id, i): "missing" for p in suite.prompts() for i in range(3)}
    _, score = score_of(suite, seen(suite, states=states, answers={("x", "y"): ("no", "no")}))
    result = score("gep", estimator="VQA", setting="neutral", attribute="boots")
    assert math.isnan(result.value)
    assert math.isnan(result.ci_low)
    assert (result.n_used, result.n_unusable) == (0, 96)
    assert math.isnan(score("gep_score", estimator="VQA", setting="neutral").value)


def test_clipscore_is_a_hundred_cosines(small):
    suite = GenderPresentation.make({"study": small, "settings": "neutral", "n_images": 1, "limit": 2})
    texts = suite.needs()[0].texts
    vectors = np.tile([0, 0, 1.0], (len(texts), 1))
    vectors[texts.index(suite.prompts()[0].text)] = [3, 4, 0]
    vectors[texts.index(suite.prompts()[1].text)] = [0, 5, 0]
    prompts = {p.prompt_id: p for p in suite.prompts()}
    ids = [make_image_id(p, 0) for p in prompts]
    observed = Observed(
        prompts=prompts,
        images=frame("images", [{"image_id": f"{p}#0", "prompt_id": p, "index": 0, "state": "ok"} for p in prompts]),
        observations={
            "embeddings": vector_rows("embeddings", ids, JUDGE, np.array([[2.0, 0, 0], [0, 7, 0]])),
            "text_embeddings": vector_rows("text_embeddings", texts, JUDGE, vectors),
        },
    )
    # (3, 4) with (2, 0): 0.6; (0, 5) with (0, 7): 1.
    _, score = score_of(suite.with_rules(estimators="C"), observed)
    assert score("clipscore", setting="neutral").value == pytest.approx(80)
    assert score("clipscore", setting="neutral").unit == "x100"


# ----------------------------------------------------------------------------------------------------- answers, labels
def test_answers_to_questions(small):
    suite = GenderPresentation.make({"study": small, "settings": "neutral", "limit": 2})
    dress = "Is the person wearing a dress?"
    answers = {("woman/0#0", dress): ("Yes.", "yes"), ("woman/0#1", dress): ("yes", "yes")}
    answers |= {
        ("woman/0#2", dress): ("maybe", None),
        ("man/0#0", dress): ("no", "no"),
        ("man/0#1", dress): ("no", "no"),
    }
    verdicts, score = score_of(suite, seen(suite, answers=answers))
    where = {"estimator": "VQA", "setting": "neutral"}
    woman = score("frequency", **where, gender="woman", attribute="dress")
    assert (woman.value, woman.n_used, woman.n_unusable) == (1.0, 2, 1)
    assert score("gep", **where, attribute="dress").value == 1.0
    assert math.isnan(score("gep", **where, attribute="tie").value)
    rows = {r["image_id"]: r for r in verdicts.iter_rows(named=True) if json.loads(r["detail"])["attribute"] == "dress"}
    assert rows["woman/0#2"]["value"] is None
    assert rows["woman/0#2"]["reason"] == f"{dress} The judge answered 'maybe', which is neither yes nor no"
    assert rows["man/0#2"]["reason"] == f"{dress} Not answered"
    assert json.loads(rows["woman/0#0"]["detail"]) == {
        "setting": "neutral", "gender": "woman", "attribute": "dress", "estimator": "VQA", "probability": 0.75
    }  # fmt: skip
    assert {r["protocol"] for r in verdicts.iter_rows(named=True)} == {"revised"}


def test_estimators_are_held_against_people_where_these_labelled_the_images(small):
    suite = GenderPresentation.make({"study": small, "settings": "neutral"})
    worn = {p.prompt_id: [planted(p, number) for number in range(p.n_images)] for p in suite.prompts()}
    labels = {
        prompt_id: {a: "".join(str(int(a in members)) for members in shown) for a in ("boots", "dress", "tie")}
        for prompt_id, shown in worn.items()
    }
    _, score = score_of(suite.with_rules(labels=labels), seen(suite, planted))
    for protocol in ("released", "revised"):
        for estimator in ("C", "CC", "CLS"):
            tau = score("judge_tau", protocol, estimator=estimator, setting="neutral")
            assert tau.value == pytest.approx(1)  # more dresses, fewer ties, boots in between: as planted
            assert tau.n_used == 3
            assert score("judge_auc", protocol, estimator=estimator, attribute="dress").value > 0.9
        assert score("judge_auc", protocol, estimator="CLS").n_used == 3 * 96
    with pytest.raises(KeyError):
        score("judge_tau", "revised", estimator="human", setting="neutral")
    _, without = score_of(suite, seen(suite, planted))
    with pytest.raises(KeyError):
        without("judge_tau", "revised", estimator="C", setting="neutral")


def test_labels_give_the_vector_by_counting(small):
    suite = GenderPresentation.make({"study": small})
    labels = {p.prompt_id: {} for p in suite.prompts()}
    for p in suite.prompts():
        woman, mask = p.facets["gender"] == "woman", p.facets["attribute"]
        if mask is None:
            # Dress: every woman, one man of three. Tie: nobody labelled the third image.
            labels[p.prompt_id] = {"boots": "000", "dress": "111" if woman else "010", "tie": "01-"}
        else:
            # As released: zeros for what nobody was asked. They must not count.
            labels[p.prompt_id] = {a: "110" if a == mask else "000" for a in ("boots", "dress", "tie")}
    suite = suite.with_rules(labels=labels)
    _, score = score_of(suite, seen(suite))
    for protocol in ("released", "revised"):
        where = {"estimator": "human", "setting": "neutral"}
        result = score("gep", protocol, **where, attribute="dress")
        assert result.value == pytest.approx(2 / 3)
        assert result.ci_low > 0
        assert (result.n_used, result.n_unusable) == (96, 0)
        tie = score("gep", protocol, **where, attribute="tie")
        assert (tie.value, tie.n_used, tie.n_unusable) == (0.0, 64, 32)
        assert score("gep_score", protocol, **where).value == pytest.approx(2 / 9)
        # All contexts are alike, so each has the same score, and no interval: it is a single pair of prompts.
        context = score("gep_score", protocol, **where, context="riding a bike")
        assert context.value == pytest.approx(2 / 9)
        assert math.isnan(context.ci_low)
        explicit = score("frequency", protocol, estimator="human", setting="explicit", gender="man", attribute="tie")
        assert explicit.value == pytest.approx(2 / 3)
        assert explicit.n_used == 48
        assert score("gep_score", protocol, **where).higher_is_better is False


def test_labels_from_a_file_are_kept_with_the_run(small, tmp_path):
    path = tmp_path / "labels.csv"
    rows = ["woman/0,0,boots,1", "woman/0,2,boots,0", "man/0,1,dress,1", "man/31,0,boots,1"]
    path.write_text("prompt_id,index,attribute,label\n" + "\n".join(rows) + "\n")
    suite = GenderPresentation.make({"study": small, "settings": "neutral", "limit": 2, "labels": path})
    index = suite.prompts()[0].spec["index"]
    assert index == 0
    path.unlink()
    kept = json.loads(json.dumps(suite.all_rules()))["labels"]
    assert kept == {"woman/0": {"boots": "1-0"}, "man/0": {"dress": "-1-"}}
    later = GenderPresentation.make({"study": small, "settings": "neutral", "limit": 2}).with_rules(labels=kept)
    verdicts, score = score_of(later, seen(later))
    assert score("frequency", estimator="human", setting="neutral", gender="woman", attribute="boots").value == 0.5
    unlabelled = [r["reason"] for r in verdicts.iter_rows(named=True) if r["value"] is None]
    assert len(unlabelled) == 2 * (2 * 9 - 3)
    assert set(unlabelled) == {"not labelled"}


def test_labels_of_the_folders_own_model_are_taken(small, tmp_path):
    for gender in ("woman", "man"):
        folder = tmp_path / f"{gender}_v1_stable_gen"
        folder.mkdir()
        (folder / "0_0.png").write_bytes(b"x")
    path = tmp_path / "labels.csv"
    path.write_text("model,prompt_id,index,attribute,label\nstable,woman/0,0,boots,1\ndalle,woman/0,0,boots,0\n")
    suite = GenderPresentation.make({"study": small, "images": tmp_path, "labels": path})
    assert suite.labels == {"woman/0": {"boots": "1"}}
    with pytest.raises(UsageError, match="several models: dalle, stable"):
        GenderPresentation.make({"study": small, "limit": 2, "labels": path})


def test_the_lawyers_of_the_paper_by_counting():
    # Counts of 20 images are made up so that the distances are the published ones, 28/80 = 0.35 and 10/80 = 0.125:
    # 6 + 8 + 12 + 2 and 2 + 3 + 3 + 2.
    counts = {
        "unspecified": {"suit": 18, "shirt": 15, "tie": 14, "glasses": 5},
        "female": {"suit": 12, "shirt": 7, "tie": 2, "glasses": 3},
        "male": {"suit": 20, "shirt": 18, "tie": 17, "glasses": 7},
    }
    labels = {f"{g}/0": {a: "1" * n + "0" * (20 - n) for a, n in members.items()} for g, members in counts.items()}
    suite = GenderPresentation.make({"study": "occupations"}).with_rules(labels=labels)
    _, score = score_of(suite, seen(suite))
    where = {"estimator": "human", "setting": "neutral"}
    female, male = (score("gep_score", **where, pair=f"{g} - unspecified") for g in ("female", "male"))
    assert (female.value, male.value) == (pytest.approx(0.35), pytest.approx(0.125))
    assert (female.n_used, female.n_unusable) == (160, 0)
    assert score("gep_score", **where, pair="female - unspecified", context="lawyer").value == pytest.approx(0.35)
    assert math.isnan(female.ci_low)  # one pair of prompts tells nothing of others
    tie = score("gep", **where, pair="female - unspecified", attribute="tie")
    assert tie.value == pytest.approx(-12 / 20)


def test_more_than_two_groups(tmp_path):
    path = tmp_path / "terms.json"
    groups = [{"name": n, "term": f"A {n}"} for n in ("woman", "man", "child")]
    path.write_text(json.dumps({**SMALL, "groups": groups}))
    suite = GenderPresentation.make({"study": path, "settings": "neutral"})
    marks = {"woman": "111", "man": "100", "child": "000"}
    labels = {p.prompt_id: {"dress": marks[p.facets["gender"]], "boots": "000", "tie": "000"} for p in suite.prompts()}
    suite = suite.with_rules(labels=labels)
    _, score = score_of(suite, seen(suite))
    where = {"estimator": "human", "setting": "neutral"}
    for pair, value in (("woman - man", 2 / 3), ("woman - child", 1), ("man - child", 1 / 3)):
        assert score("gep", **where, pair=pair, attribute="dress").value == pytest.approx(value)
        assert score("gep_score", **where, pair=pair).value == pytest.approx(value / 3)
        assert score("gep_score", **where, pair=pair, context="riding a bike").value == pytest.approx(value / 3)
    assert score("gep_largest_gap", **where).value == pytest.approx(1 / 3)
    assert score("gep_largest_gap", **where, context="riding a bike").value == pytest.approx(1 / 3)


# --------------------------------------------------------------------------------------------------------------- rules
def test_a_stored_run_is_scored_alike(small):
    suite = GenderPresentation.make({"study": small, "limit": 16, "seed": 3}).with_rules(
        reference="clothes", n_resamples=200
    )
    settings = json.loads(json.dumps(suite.settings()))
    again = GenderPresentation.reopen(settings, suite.prompts()).with_rules(**json.loads(json.dumps(suite.all_rules())))
    assert again.study == suite.study
    assert again.all_rules() == suite.all_rules()
    assert again.needs() == suite.needs()
    observed = seen(suite, planted)
    assert again.verdicts(observed).equals(suite.verdicts(observed))
    first, second = (s.scores(observed, s.verdicts(observed)) for s in (suite, again))
    assert [repr(s) for s in first] == [repr(s) for s in second]


def test_a_folder_from_run_to_score(small, tmp_path):
    rng = np.random.default_rng(0)
    answers, question = ["image_id,question,answer"], "Is the person wearing a dress?"
    for gender in ("woman", "man"):
        folder = tmp_path / "pictures" / f"{gender}_v1_stable_gen"
        folder.mkdir(parents=True)
        for index in range(3):
            Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(folder / f"{index}_0.png")
            answers.append(f"{gender}/{index}#0,{question},{'yes' if gender == 'woman' else 'no'}")
    (tmp_path / "pictures" / "man_v1_stable_gen" / "2_0.png").unlink()
    (tmp_path / "answers.csv").write_text("\n".join(answers) + "\n")
    (tmp_path / "labels.csv").write_text("prompt_id,index,attribute,label\nwoman/1,0,dress,1\nman/1,0,dress,0\n")

    def run():
        return verism.evaluate(
            "gender_presentation",
            images=tmp_path / "pictures",
            study=small,
            vqa=f"results:{tmp_path / 'answers.csv'}",
            out=tmp_path / "run",
        )

    def gep_of(scores, estimator):
        where = {"estimator": estimator, "setting": "neutral", "attribute": "dress"}
        return next(s for s in scores if s.metric == "gep" and s.protocol == "revised" and s.group == where)

    first = run().scores()
    result = gep_of(first, "VQA")
    assert (result.value, result.n_used, result.n_unusable) == (1.0, 5, 1)
    assert repr(run().scores()) == repr(first)  # nothing is left to do
    labelled = verism.score(tmp_path / "run", rules={"labels": str(tmp_path / "labels.csv")})
    assert gep_of(labelled, "human").n_used == 2
    (tmp_path / "labels.csv").unlink()
    again = verism.score(tmp_path / "run")
    assert [repr(s) for s in again] == [repr(s) for s in labelled]


def test_another_reference_moves_cc_alone(small):
    suite = GenderPresentation.make({"study": small, "settings": "neutral", "limit": 8})
    observed = seen(suite, planted)
    one, two = (s.verdicts(observed) for s in (suite, suite.with_rules(reference="")))
    changed = {
        a["rule"] for a, b in zip(one.iter_rows(named=True), two.iter_rows(named=True)) if a["value"] != b["value"]
    }
    assert changed == {"CC"}
    with pytest.raises(UsageError, match="1 texts have no vector, such as 'a thing'"):
        suite.with_rules(reference="a thing").verdicts(observed)


def test_only_the_estimators_asked_for(small):
    suite = GenderPresentation.make({"study": small, "settings": "neutral", "limit": 4}).with_rules(estimators="CC,C")
    assert suite.estimators == ("C", "CC")
    verdicts = suite.verdicts(seen(suite, planted))
    assert set(verdicts["rule"].to_list()) == {"C", "CC", "clipscore"}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"k": 3}, "no rule 'k'; its rules are reference, estimators"),
        ({"estimators": "D"}, "estimators is one of human, C, CC, CLS, VQA; got 'D'"),
        ({"n_resamples": 0}, "n_resamples is a whole number, at least 1; got 0"),
        ({"n_resamples": 2.5}, "got 2.5"),
        ({"resampling_seed": -1}, "resampling_seed is a whole number, at least 0"),
        ({"labels": 3}, "the rule labels is a file"),
        ({"labels": {"woman/0": {"boots": "yes"}}}, "the rule labels is a file"),
    ],
)
def test_errors_in_rules(rules, message):
    with pytest.raises(UsageError, match=message):
        GenderPresentation.make({"limit": 2}).with_rules(**rules)


def test_without_scikit_learn_only_the_released_classifiers_are_left_out(small, monkeypatch):
    import importlib.util

    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "sklearn" else there(name, *a))
    suite = GenderPresentation.make({"study": small, "settings": "neutral", "limit": 4})
    observed = seen(suite, planted)
    rows = {(r["protocol"], r["rule"]) for r in suite.verdicts(observed).iter_rows(named=True)}
    assert ("revised", "CLS") in rows
    assert ("released", "CLS") not in rows
    assert any("scikit-learn" in line for line in suite.remarks(observed))


def test_the_shipped_studies_have_words_for_every_question():
    for name in ("released", "occupations"):
        study = standard_study(name)
        assert all("wearing" in study.question_about(a) for a in study.attributes)
