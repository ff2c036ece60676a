"""Answers of people about images that were drawn cell by cell stand for as many images as their cells have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from verism.pipeline.correction import adjust_by_labels
from verism.records import Estimand, EstimandPart, Score

WORTH = {"yes": 1.0, "no": 0.0}


def estimand(said: list[str]) -> Estimand:
    n = len(said)
    names = tuple(f"p{i}" for i in range(n))
    part = EstimandPart(coefficient=1.0, image_ids=names, clusters=names, predicted=tuple(said), weights=(1 / n,) * n)
    value = sum(WORTH[s] for s in said) / n
    score = Score(
        suite="s",
        metric="share",
        protocol="revised",
        value=value,
        ci_low=value,
        ci_high=value,
        n_used=n,
        n_unusable=0,
    )
    return Estimand(score=score, rule="r", role="vqa", worth=WORTH, parts=(part,))


def test_each_answer_stands_for_its_cell_by_hand():
    # Cell a: p0..p7, cell b: p8, p9; two answers in each. The judge says no throughout; people see yes once in a (of
    # two) and twice in b. As drawn: 3 of 4. Weighed: (8 * 1/2 + 2 * 1) / 10 = 0.6.
    cells = {f"p{i}": "a" if i < 8 else "b" for i in range(10)}
    true = {"p0": "yes", "p1": "no", "p8": "yes", "p9": "yes"}
    blind = adjust_by_labels([estimand(["no"] * 10)], lambda *_: true)[0]
    weighed = adjust_by_labels([estimand(["no"] * 10)], lambda *_: true, cells=lambda *_: cells)[0]
    assert blind.score.value == pytest.approx(0.75)
    assert weighed.score.value == pytest.approx(0.6)
    assert weighed.note == ""


def test_cells_nobody_answered_for_are_said():
    cells = {f"p{i}": i // 4 for i in range(12)}
    result = adjust_by_labels([estimand(["no"] * 12)], lambda *_: {"p0": "no", "p5": "yes"}, cells=lambda *_: cells)[0]
    assert "4 images are of cells without any answer" in result.note
    assert not math.isnan(result.score.value)


def test_cells_of_unequal_size_are_covered_only_if_they_are_weighed():
    # 360 images of a, where the judge is right; 40 of b, where it always says yes and the truth is no.
    rng = np.random.default_rng(0)
    hit = miss = 0
    for _ in range(200):
        truth = np.concatenate([rng.random(360) < 0.5, np.zeros(40, bool)])
        answers = ["yes" if t else "no" for t in truth[:360]] + ["yes"] * 40
        cells = {f"p{i}": "a" if i < 360 else "b" for i in range(400)}
        drawn = [*rng.choice(360, 20, replace=False), *(360 + rng.choice(40, 20, replace=False))]
        true = {f"p{i}": "yes" if truth[i] else "no" for i in drawn}
        share = 0.5 * 0.9
        for weighed in (True, False):
            result = adjust_by_labels(
                [estimand(answers)], lambda *_, t=true: t, cells=(lambda *_, c=cells: c) if weighed else None
            )
            inside = result[0].score.ci_low <= share <= result[0].score.ci_high
            hit, miss = (hit + inside, miss) if weighed else (hit, miss + (not inside))
    assert hit >= 180  # 95 % of 200 is 190; 180 is 3.2 standard errors below
    assert miss > 100
