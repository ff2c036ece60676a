"""BLEU, ROUGE-L and CIDEr: worked by hand, and equal to pycocoevalcap."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.metrics.captions import bleu, bleu_counts, cider, count_ngrams, lcs_length, rouge_l
from verism.metrics.captions.bleu import BleuCounts


def words(*captions: str) -> list[list[str]]:
    return [caption.split() for caption in captions]


def bleu_of(candidate: str, *references: str, brevity="closest") -> np.ndarray:
    return bleu(bleu_counts(count_ngrams(words(candidate), [words(*references)]), brevity=brevity))[0]


# ----------------------------------------------------------------------------------------------------------------- BLEU
def test_bleu_counts_an_ngram_as_often_as_one_reference_has_it():
    # Papineni et al. 2002, Sec. 2.1, example 2: "the" is twice in the first reference, once in the second: 2 of 7.
    counts = bleu_counts(
        count_ngrams(
            words("the the the the the the the"), [words("the cat is on the mat", "there is a cat on the mat")]
        )
    )
    np.testing.assert_array_equal(counts.matched, [[2, 0, 0, 0]])
    np.testing.assert_array_equal(counts.proposed, [[7, 6, 5, 4]])
    assert (counts.length[0], counts.reference_length[0]) == (7, 7)
    assert bleu(counts)[0, 0] == pytest.approx(2 / 7, abs=1e-9)


def test_bleu_of_a_short_candidate():
    # All n-grams match; 2 words where 4 were asked: exp(1 - 4/2).
    np.testing.assert_allclose(bleu_of("a b", "a b c d")[:2], math.exp(-1), rtol=1e-8)
    # Longer than the reference is no shortness: 4/6, and sqrt(4/6 * 3/5).
    np.testing.assert_allclose(bleu_of("a b c d x y", "a b c d")[:2], [4 / 6, math.sqrt(4 / 6 * 3 / 5)], rtol=1e-8)


@pytest.mark.parametrize(
    ("brevity", "length"),
    # The candidate has 3 words; references 2, 4 and 9: 2 and 4 are equally close, the shorter counts.
    [("closest", 2), ("shortest", 2), ("average", 5)],
)
def test_reference_length(brevity, length):
    ngrams = count_ngrams(words("a b c"), [words("a b c d e f g h i", "a b c d", "a b")])
    assert bleu_counts(ngrams, brevity=brevity).reference_length == [length]


def test_closest_reference_may_be_longer():
    ngrams = count_ngrams(words("a b c"), [words("a", "a b c d")])
    assert bleu_counts(ngrams).reference_length == [4]
    with pytest.raises(ValueError, match=r"one of \['closest', 'shortest', 'average'\]; got 'nearest'"):
        bleu_counts(ngrams, brevity="nearest")


def test_bleu_of_a_corpus_adds_counts_up():
    # One caption of 1 word that fits and one of 3 that does not: 1 of 4, where the mean of both is 1/2.
    counts = bleu_counts(count_ngrams(words("a", "x y z"), [words("a"), words("b c d")]))
    total = BleuCounts(**{name: getattr(counts, name).sum(axis=0) for name in vars(counts)})
    assert bleu(total)[0] == pytest.approx(1 / 4, abs=1e-9)
    assert bleu(counts)[:, 0].mean() == pytest.approx(1 / 2, abs=1e-9)


# -------------------------------------------------------------------------------------------------------------- ROUGE-L
def test_rouge_l_takes_precision_and_recall_from_different_references():
    # "a b": 2 common, P 2/4, R 2/2. "a b c x y z": 3 common, P 3/4, R 3/6. Best P 3/4 and best R 1:
    # (1 + 1.44) * 0.75 * 1 / (1 + 1.44 * 0.75) = 1.83 / 2.08.
    assert rouge_l(words("a b c d"), [words("a b", "a b c x y z")]) == pytest.approx(1.83 / 2.08)
    assert rouge_l(words("a b", "a b"), [words("a b"), words("c")]).tolist() == [1.0, 0.0]


def plain_lcs(first: str, second: str) -> int:
    table = np.zeros((len(first) + 1, len(second) + 1), dtype=int)
    for i, a in enumerate(first, start=1):
        for j, b in enumerate(second, start=1):
            table[i, j] = table[i - 1, j - 1] + 1 if a == b else max(table[i - 1, j], table[i, j - 1])
    return int(table[-1, -1])


@given(st.text("abc", max_size=90), st.text("abc", max_size=90))
def test_lcs_is_that_of_the_textbook(first, second):
    assert lcs_length(first, second) == plain_lcs(first, second) == lcs_length(second, first)


# ---------------------------------------------------------------------------------------------------------------- CIDEr
def test_cider_by_hand():
    # Two images, so each n-gram of one weighs log 2. First: cosines of orders 1 to 4: 2 / sqrt(2 * 3),
    # 1 / sqrt(1 * 2), 0, 0; one bigram fewer than the reference: exp(-1 / 72). Second: 1, 1, 0, 0, same length.
    expected = [10 * (2 / math.sqrt(6) + 1 / math.sqrt(2)) / 4 * math.exp(-1 / 72), 5.0]
    result = cider(count_ngrams(words("a b", "c d"), [words("a b e"), words("c d")]))
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_cider_counts_a_repeated_word_as_often_as_the_reference():
    # Order 1: min(3, 1) * 1 / (3 * sqrt(2)); bigrams differ; 2 bigrams against 1. The other image shares nothing.
    result = cider(count_ngrams(words("a a a", "c"), [words("a b"), words("d")]))
    np.testing.assert_allclose(result, [10 / 4 / (3 * math.sqrt(2)) * math.exp(-1 / 72), 0.0], rtol=1e-12)


def test_cider_of_words_that_every_image_has_is_zero():
    assert cider(count_ngrams(words("a b"), [words("a b")])).tolist() == [0.0]
    assert cider(count_ngrams(words("a", "a"), [words("a"), words("a")])).tolist() == [0.0, 0.0]


def test_cider_averages_over_references():
    ngrams = count_ngrams(words("a b", "c"), [words("a b", "x y"), words("d")])
    assert cider(ngrams)[0] == pytest.approx(5.0 / 2)


# --------------------------------------------------------------------------------------------------------------- shapes
def test_nothing_in_nothing_out():
    ngrams = count_ngrams([], [])
    assert bleu(bleu_counts(ngrams)).shape == (0, 4)
    assert cider(ngrams).shape == rouge_l([], []).shape == (0,)


@pytest.mark.parametrize("function", [count_ngrams, rouge_l])
def test_references_must_fit(function):
    with pytest.raises(ValueError, match="got 1 and 2"):
        function([["a"]], [[["a"]], [["b"]]])
    with pytest.raises(ValueError, match="number 1 has none"):
        function([["a"], ["b"]], [[["a"]], []])


# --------------------------------------------------------------------------------------------------------------- parity
def toolkit(candidates: list[str], references: list[list[str]]) -> dict[str, tuple[float, np.ndarray]]:
    pytest.importorskip("pycocoevalcap", reason="the reference implementation")
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    meant, answer = dict(enumerate(references)), {number: [caption] for number, caption in enumerate(candidates)}
    corpus, single = Bleu(4).compute_score(meant, answer, verbose=0)
    result = {f"bleu_{order + 1}": (corpus[order], np.array(single[order])) for order in range(4)}
    return result | {"rouge_l": Rouge().compute_score(meant, answer), "cider": Cider().compute_score(meant, answer)}


def made_up(seed: int) -> tuple[list[str], list[list[str]]]:
    """Captions of few words that repeat, some empty, some equal to a reference."""
    rng = random.Random(seed)
    vocabulary = [*(f"w{number}" for number in range(rng.randint(1, 40))), "é", "東京", "1\u00a01/2"]
    references = [
        [" ".join(rng.choices(vocabulary, k=rng.randint(0, 12))) for _ in range(rng.randint(1, 5))]
        for _ in range(rng.choice([1, 2, 60]))
    ]
    candidates = [
        rng.choice(several) if rng.random() < 0.3 else " ".join(rng.choices(vocabulary, k=rng.randint(0, 15)))
        for several in references
    ]
    return candidates, references


def natural(seed: int) -> tuple[list[str], list[list[str]]]:
    """Sentences of ours as the toolkit divides them, five to an image."""
    rows = json.loads((Path(__file__).parent / "ptb_words.json").read_text("utf-8"))
    captions = [" ".join(divided) for _, divided in rows]
    rng = random.Random(seed)
    rng.shuffle(captions)
    references = [captions[start : start + 5] for start in range(0, 300, 5)]
    return [rng.choice(captions) if rng.random() < 0.5 else several[0] for several in references], references


@pytest.mark.parametrize("case", [*(f"made up {seed}" for seed in range(12)), "natural 1", "natural 2"])
def test_equal_to_the_toolkit(case):
    from verism.metrics.captions import caption_scores

    kind, _, seed = case.rpartition(" ")
    candidates, references = {"made up": made_up, "natural": natural}[kind](int(seed))
    ours = caption_scores(dict(enumerate(references)), dict(enumerate(candidates)), tokenizer="none", n_resamples=1)
    for name, (corpus, single) in toolkit(candidates, references).items():
        assert ours.values[name].value == pytest.approx(corpus, abs=1e-6), name
        np.testing.assert_allclose(ours.per_caption[name], single, atol=1e-6, err_msg=name)
