"""Caption scores of a set: who enters, intervals, properties."""

from __future__ import annotations

import contextlib
import math
import random
from unittest.mock import Mock

import numpy as np
import pytest

from verism.metrics.captions import DALL_EVAL_METRICS, METRICS, TOOLKIT_NAMES, caption_scores
from verism.metrics.captions.external import METEOR_STATISTICS

THINGS = ["cat", "dog", "bus", "train", "pizza", "kite", "boat", "clock", "horse", "bench"]


def made_up(n: int, seed: int = 3) -> tuple[dict[str, list[str]], dict[str, str]]:
    rng = random.Random(seed)

    def caption() -> str:
        return f"A {rng.choice(THINGS)} is {rng.choice(['near', 'on', 'by'])} the {rng.choice(THINGS)}."

    references = {f"image {number}": [caption() for _ in range(3)] for number in range(n)}
    return references, {key: rng.choice([caption(), several[0]]) for key, several in references.items()}


def same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_allclose(first[name], second[name], rtol=1e-9, err_msg=name)


def test_perfect_captions():
    references = {1: ["A cat sits on a mat.", "Something else."], 2: ["Two dogs run in the park.", "Nothing."]}
    scores = caption_scores(references, {1: "a CAT sits on a mat", 2: "Two dogs run in the park!"})
    assert list(scores.values) == ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"]
    for name in ("bleu_1", "bleu_4", "rouge_l"):
        assert scores.values[name].value == pytest.approx(1.0, abs=1e-8)
        # All resamples agree, which says nothing about other images.
        assert math.isnan(scores.values[name].low)
        assert math.isnan(scores.values[name].high)
    assert (scores.n_used, scores.n_unusable, scores.unusable, scores.ids) == (2, 0, {}, (1, 2))
    # Ten times the mean of a cosine of 1 with the first reference and of 0 with the second, all four orders.
    assert scores.values["cider"].value == pytest.approx(5.0)
    assert scores.percent()["cider"].value == pytest.approx(500.0)


def test_names_and_conventions():
    assert set(TOOLKIT_NAMES) == set(METRICS)
    assert set(DALL_EVAL_METRICS) < set(METRICS)
    references, candidates = made_up(5)
    assert list(caption_scores(references, candidates, metrics=["cider", "bleu_4"]).values) == ["cider", "bleu_4"]


# -------------------------------------------------------------------------------------------------------- who may enter
def test_ids_must_match():
    references, candidates = made_up(3)
    del candidates["image 1"]
    candidates |= {"elsewhere": "A cat.", "nowhere": "A dog."}
    references["nowhere"] = []
    message = (
        r"2 candidate\(s\) without references \('elsewhere', 'nowhere'\) and 1 image\(s\) with references but "
        r"without a candidate \('image 1'\)\. .*unmatched='count'"
    )
    with pytest.raises(ValueError, match=message):
        caption_scores(references, candidates)
    scores = caption_scores(references, candidates, unmatched="count")
    assert scores.ids == ("image 0", "image 2")
    assert scores.unusable == {
        "elsewhere": "no references",
        "nowhere": "no references",
        "image 1": "no candidate",
    }
    assert (scores.n_used, scores.n_unusable) == (2, 3)
    del references["image 1"], references["nowhere"], candidates["elsewhere"], candidates["nowhere"]
    same(scores.values, caption_scores(references, candidates).values)


def test_a_long_list_of_ids_is_cut():
    with pytest.raises(ValueError, match=r"7 candidate\(s\) without references \(0, 1, 2, 3, 4, \.\.\.\)"):
        caption_scores({}, dict.fromkeys(range(7), "a cat"))


def test_no_caption_is_counted_and_an_empty_one_scored():
    references, candidates = made_up(4)
    scores = caption_scores(references, candidates | {"image 0": None, "image 1": ""})
    assert scores.unusable == {"image 0": "no caption"}
    assert (scores.n_used, scores.n_unusable) == (3, 1)
    for values in scores.per_caption.values():
        assert values[0] == pytest.approx(0.0, abs=1e-9)


def test_nothing_usable_is_undefined():
    for scores in (caption_scores({}, {}), caption_scores({1: ["a cat"]}, {1: None})):
        assert scores.n_used == 0
        assert all(math.isnan(end) for interval in scores.values.values() for end in interval)


def test_one_image_has_values_without_intervals():
    scores = caption_scores({1: ["a cat sits"]}, {1: "a cat"})
    assert scores.values["rouge_l"].value == scores.per_caption["rouge_l"][0] > 0
    assert scores.values["cider"].value == 0.0
    assert all(math.isnan(end) for interval in scores.values.values() for end in interval[1:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["bleu"]}, r"unknown caption metric \['bleu'\]; known are"),
        ({"metrics": []}, "at least one"),
        ({"tokenizer": "moses"}, "got 'moses'"),
        ({"brevity": "nearest"}, "got 'nearest'"),
        ({"unmatched": "drop"}, "got 'drop'"),
        ({"confidence": 95}, "got 95"),
        ({"n_resamples": 0}, "got 0"),
    ],
)
def test_wrong_options(options, message):
    references, candidates = made_up(2)
    with pytest.raises(ValueError, match=message):
        caption_scores(references, candidates, **options)


def test_a_single_string_is_not_several_references():
    with pytest.raises(ValueError, match="references of 1 must be a sequence of captions; got the string 'a cat'"):
        caption_scores({1: "a cat"}, {1: "a cat"})


# ----------------------------------------------------------------------------------------------------------- properties
def test_order_of_images_and_references_and_names_do_not_matter():
    references, candidates = made_up(40)
    scores = caption_scores(references, candidates, n_resamples=200)
    keys = list(references)
    random.Random(1).shuffle(keys)
    mixed = caption_scores(
        {key: references[key][::-1] for key in references}, {key: candidates[key] for key in keys}, n_resamples=200
    )
    same(scores.values, mixed.values)
    assert mixed.ids == tuple(keys)
    index = [scores.ids.index(key) for key in keys]
    same({n: v[index] for n, v in scores.per_caption.items()}, mixed.per_caption)
    renamed = caption_scores(
        {hash(key): references[key] for key in references},
        {hash(key): candidates[key] for key in keys},
        n_resamples=200,
    )
    same(scores.values, renamed.values)


def test_images_counted_twice_leave_values_as_they_are():
    references, candidates = made_up(20)
    twice = caption_scores(
        references | {f"{key} again": several for key, several in references.items()},
        candidates | {f"{key} again": text for key, text in candidates.items()},
    )
    once = caption_scores(references, candidates)
    for name, interval in once.values.items():
        # CIDEr nearly: twice the images with a word among twice the images, but words of no reference weigh more.
        tolerance = 1e-2 if name == "cider" else 1e-9
        assert twice.values[name].value == pytest.approx(interval.value, rel=tolerance)
        assert twice.values[name].high - twice.values[name].low < interval.high - interval.low


def test_a_reference_given_twice_changes_cider_only():
    references, candidates = made_up(10)
    more = {key: [*several, several[1]] for key, several in references.items()}
    once, twice = caption_scores(references, candidates), caption_scores(more, candidates)
    assert twice.values["bleu_4"] == once.values["bleu_4"]
    assert twice.values["rouge_l"] == once.values["rouge_l"]
    assert twice.values["cider"].value != once.values["cider"].value


def test_tokenizer_of_ones_own():
    references, candidates = {1: ["a-b-c"], 2: ["d-e"]}, {1: "a-b-x", 2: "d-e"}

    def by_dash(caption: str) -> list[str]:
        return caption.split("-")

    scores = caption_scores(references, candidates, tokenizer=by_dash)
    assert scores.values["bleu_1"].value == pytest.approx(4 / 5)
    assert "by_dash" in scores.tokenizer
    # As they stand, each caption is one word, of which one of two matches.
    assert caption_scores(references, candidates, tokenizer="none").values["bleu_1"].value == pytest.approx(1 / 2)


# ------------------------------------------------------------------------------------------------------------ intervals
def test_interval_of_a_mean_is_that_of_the_formula():
    references, candidates = made_up(400)
    scores = caption_scores(references, candidates, seed=5)
    for name in ("rouge_l", "cider"):
        single = scores.per_caption[name]
        half = 1.96 * single.std(ddof=1) / math.sqrt(len(single))
        interval = scores.values[name]
        assert interval.value == pytest.approx(single.mean())
        assert interval.low == pytest.approx(interval.value - half, abs=0.15 * half)
        assert interval.high == pytest.approx(interval.value + half, abs=0.15 * half)


def test_interval_of_bleu_is_that_of_scoring_resampled_sets():
    references, candidates = made_up(60)
    interval = caption_scores(references, candidates, metrics=["bleu_2"]).values["bleu_2"]
    rng = random.Random(2)
    redrawn = []
    for _ in range(150):
        drawn = rng.choices(list(references), k=len(references))
        again = caption_scores(
            {number: references[key] for number, key in enumerate(drawn)},
            {number: candidates[key] for number, key in enumerate(drawn)},
            metrics=["bleu_2"],
            n_resamples=1,
        )
        redrawn.append(again.values["bleu_2"].value)
    low, high = np.quantile(redrawn, [0.025, 0.975])
    width = interval.high - interval.low
    assert interval.low == pytest.approx(low, abs=0.25 * width)
    assert interval.high == pytest.approx(high, abs=0.25 * width)


def test_the_same_seed_gives_the_same_interval():
    references, candidates = made_up(30)
    first, second, other = (caption_scores(references, candidates, seed=seed).values for seed in (1, 1, 2))
    assert first == second
    assert first["cider"] != other["cider"]
    assert first["cider"].value == other["cider"].value
    wide = caption_scores(references, candidates, seed=1, confidence=0.99).values["cider"]
    assert wide.low < first["cider"].low < first["cider"].high < wide.high


# ----------------------------------------------------------------------------------------------------- outside programs
def test_meteor_is_resampled_only_if_its_sums_give_its_value(monkeypatch):
    # Statistics of two captions as meteor-1.5.jar gave them, see test_captions_external.py.
    table = np.zeros((2, METEOR_STATISTICS))
    table[0, [0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 22]] = [5, 7, 2, 3, 2, 2, 2, 2, 2, 4, 4]
    table[1, [0, 1, 2, 3, 6, 7, 20, 21, 22]] = [2, 5, 1, 3, 1, 1, 1, 1, 1]
    from verism.metrics.captions import scores as module

    captions = {1: "a man is riding horses", 2: "a dog"}
    references = {1: ["the man is riding a brown horse"], 2: ["a cat on the mat"]}
    corpus = float(module.meteor_value(table.sum(axis=0)))
    for result, defined in ((corpus, True), (corpus + 0.01, False)):
        program = Mock(statistics=Mock(return_value=table))
        program.values.side_effect = [module.meteor_value(table), [result]]
        monkeypatch.setattr(module, "Meteor", lambda told=program: contextlib.nullcontext(told))
        interval = caption_scores(references, captions, metrics=["meteor"]).values["meteor"]
        assert interval.value == result
        assert math.isfinite(interval.low) is defined
    assert interval.value != np.mean(module.meteor_value(table))


def test_spice_without_a_value_is_undefined(monkeypatch):
    from verism.metrics.captions import scores as module

    monkeypatch.setattr(module, "spice", lambda *_: np.array([0.5, math.nan]))
    scores = caption_scores(*made_up(2), metrics=["spice"])
    assert all(math.isnan(end) for end in scores.values["spice"])
    assert scores.per_caption["spice"][0] == 0.5
