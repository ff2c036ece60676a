"""PaintSkills from tables to scores: what is unusable stays so, rows are joined by id, means are the papers'."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from verism.errors import UsageError
from verism.records import Observed, Prompt, Scene, SceneObject, Score, frame, make_image_id
from verism.statistics.intervals import Interval, mean_of_independent, wilson
from verism.suites.paintskills.layout import read_scenes, write_scenes
from verism.suites.paintskills.scenes import build_scenes, empty_scenes, expected_of, spread
from verism.suites.paintskills.skills import skill
from verism.suites.paintskills.suite import PaintSkills, PaintSkillsV1
from verism.suites.paintskills.vocabulary import VERSIONS

V2 = VERSIONS["paintskills"]
SUITES = {"paintskills": PaintSkills, "paintskills_v1": PaintSkillsV1}

# A box of an image of 100 x 100 pixels: label, score, centre, colour.
Found = tuple[str | None, float, tuple[float, float], str | None]


def thing(label: str | None, score: float = 0.9, at: tuple[float, float] = (50, 50), color: str | None = None) -> Found:
    return (label, score, at, color)


def scene(scene_id: str, *labels: str, relation: str | None = None, color: str = "plain") -> Scene:
    shapes = {c.label: c.shape for c in V2.classes}
    return Scene(
        scene_id=scene_id,
        skill=scene_id.partition("_")[0],
        split="val",
        text=scene_id,
        background="beach",
        objects=tuple(
            SceneObject(
                shape=shapes[label],
                label=label,
                color=color,
                relation=f"{relation}_0" if relation and number else None,
            )
            for number, label in enumerate(labels)
        ),
    )


def suite_of(*scenes: Scene, name: str = "paintskills", n_images: int = 1) -> PaintSkills:
    return SUITES[name](scenes=scenes, n_images=n_images)


def asking(prompts: Sequence[Prompt]) -> Observed:
    """A run that asks these prompts; scores need no more of it."""
    return Observed(prompts={p.prompt_id: p for p in prompts}, images=frame("images", []), observations={})


def observed(
    suite: PaintSkills, found: Mapping[str, Sequence[Found] | None], states: Mapping[str, tuple[str, str]] | None = None
) -> Observed:
    """Tables of a run: per image what was found in it, ``None`` if nobody looked, and states that are not ok."""
    images, detections = [], []
    for prompt in suite.prompts():
        for index in range(prompt.n_images):
            image_id = make_image_id(prompt.prompt_id, index)
            state, note = (states or {}).get(image_id, ("ok", ""))
            size = 100 if state in ("ok", "blank") else None
            images.append(
                {
                    "image_id": image_id,
                    "prompt_id": prompt.prompt_id,
                    "index": index,
                    "state": state,
                    "note": note,
                    "width": size,
                    "height": size,
                }
            )
            boxes = found.get(image_id)
            if boxes is None:
                continue
            detections.append({"image_id": image_id, "judge": "j", "query": -1})
            for number, (label, score, (x, y), color) in enumerate(boxes):
                detections.append(
                    {
                        "image_id": image_id,
                        "judge": "j",
                        "query": number,
                        "label": label,
                        "raw_label": label or "zebra",
                        "score": score,
                        "x0": x - 5,
                        "y0": y - 5,
                        "x1": x + 5,
                        "y1": y + 5,
                        "class_scores": [score if c == label else 0.0 for c in suite.labels],
                        "color": color,
                        "color_scores": [],
                    }
                )
    return Observed(
        prompts={p.prompt_id: p for p in suite.prompts()},
        images=frame("images", images),
        observations={"detections": frame("detections", detections)},
    )


def verdict(table: pl.DataFrame, image_id: str, protocol: str = "revised", rule: str = "accuracy") -> Any:
    """(value, reason) of one decision."""
    rows = table.filter((pl.col("image_id") == image_id) & (pl.col("protocol") == protocol) & (pl.col("rule") == rule))
    assert rows.height == 1
    return rows["value"][0], rows["reason"][0]


def score(scores: Sequence[Score], metric: str, protocol: str = "revised", **group: Any) -> Score:
    (one,) = [s for s in scores if s.metric == metric and s.protocol == protocol and dict(s.group) == group]
    return one


# ----------------------------------------------------------------------------------------------------------- verdicts
@pytest.mark.parametrize("state", ["missing", "failed", "refused", "blank"])
def test_an_image_that_cannot_be_used_is_not_a_wrong_one(state):
    suite = suite_of(scene("object_val_00000", "dog"), scene("count_val_00001", "dog", "dog"))
    states = {"object_val_00000#0": (state, "said the model"), "count_val_00001#0": (state, "")}
    # Even if a judge looked at the blank image and saw a dog in it.
    seen = {"object_val_00000#0": [thing("dog")], "count_val_00001#0": [thing("dog")]} if state == "blank" else {}
    table = suite.verdicts(observed(suite, seen, states))
    assert table["value"].null_count() == table.height
    # Every rule of every protocol says so: object 1 + 1 + 2, count 3 + 1 + 3.
    assert table.height == 4 + 7
    assert verdict(table, "object_val_00000#0") == (None, f"image {state}: said the model")
    assert verdict(table, "count_val_00001#0", "released", "right_number") == (None, f"image {state}")


def test_looked_and_saw_nothing_is_wrong_and_not_looked_at_is_null():
    suite = suite_of(scene("object_val_00000", "dog"), scene("object_val_00001", "dog"))
    table = suite.verdicts(observed(suite, {"object_val_00000#0": [], "object_val_00001#0": None}))
    for protocol in ("released", "paper", "revised"):
        assert verdict(table, "object_val_00000#0", protocol)[0] == 0.0
        assert verdict(table, "object_val_00001#0", protocol) == (None, "not looked at")


def mixed_run() -> tuple[PaintSkills, Observed]:
    suite = suite_of(
        scene("object_val_00000", "dog"),
        scene("object_val_00001", "bus"),
        scene("count_val_00000", "dog", "dog"),
        scene("count_val_00001", "bus"),
        scene("spatial_val_00000", "dog", "bus", relation="left"),
        scene("spatial_val_00001", "bus", "bus", relation="above"),
        n_images=2,
    )
    left = [thing("bus", 0.8, (20, 50)), thing("dog", 0.9, (80, 50))]
    results = {
        "object_val_00000#0": [thing("dog")],
        "object_val_00000#1": [thing("dog", 0.6), thing("bus", 0.95)],
        "object_val_00001#0": [],
        "object_val_00001#1": None,
        "count_val_00000#0": [thing("dog"), thing("dog", 0.8)],
        "count_val_00000#1": [thing("dog"), thing("bus", 0.8)],
        "count_val_00001#0": [thing("bus"), thing("bus", 0.6), thing(None, 0.99)],
        "count_val_00001#1": [thing("bus")],
        "spatial_val_00000#0": left,
        "spatial_val_00000#1": left[::-1],
        "spatial_val_00001#0": left,
        "spatial_val_00001#1": [thing("bus", 0.8, (50, 20)), thing("bus", 0.7, (50, 80))],
    }
    return suite, observed(suite, results, {"count_val_00001#1": ("refused", "no buses")})


def test_rows_are_joined_by_id_and_never_by_position():
    suite, run = mixed_run()
    verdicts = suite.verdicts(run)
    scores = suite.scores(asking(suite.prompts()), verdicts)
    assert {p for (p,) in verdicts.select("protocol").unique().iter_rows()} == {"released", "paper", "revised"}
    by_id = ["image_id", "protocol", "rule"]
    for seed in (1, 2):
        shuffled = Observed(
            prompts=dict(reversed(run.prompts.items())),
            images=run.images.sample(fraction=1.0, shuffle=True, seed=seed),
            observations={
                "detections": run.observations["detections"].sample(fraction=1.0, shuffle=True, seed=seed + 10)
            },
        )
        again = suite.verdicts(shuffled)
        assert again.sort(by_id).equals(verdicts.sort(by_id))
        # The same bytes, too: reports are compared.
        mixed = again.sample(fraction=1.0, shuffle=True, seed=seed)
        assert repr(suite.scores(asking(suite.prompts()[::-1]), mixed)) == repr(scores)


def test_spatial_verdicts_of_the_mixed_run():
    suite, run = mixed_run()
    table = suite.verdicts(run)
    assert verdict(table, "spatial_val_00000#0") == (1.0, "expected bus left to dog, found bus left to dog")
    assert verdict(table, "spatial_val_00001#0")[0] == 0.0
    assert verdict(table, "spatial_val_00001#1", "released")[0] == 1.0
    assert verdict(table, "count_val_00001#1") == (None, "image refused: no buses")
    # A zebra counts as a box of the released rule, which then finds two buses; the revised rule finds two as well.
    assert verdict(table, "count_val_00001#0", "released", "right_number")[0] == 0.0


def test_released_relations_are_those_of_the_image_squashed_to_a_square():
    # 200 x 100 pixels: 60 px to the right are 0.3 of the width, 40 px down are 0.4 of the height.
    suite = suite_of(scene("spatial_val_00000", "dog", "bus", relation="below"))
    run = observed(suite, {"spatial_val_00000#0": [thing("dog", 0.9, (50, 30)), thing("bus", 0.8, (110, 70))]})
    wide = Observed(
        prompts=run.prompts,
        images=run.images.with_columns(width=pl.lit(200, dtype=pl.Int32)),
        observations=run.observations,
    )
    table = suite.verdicts(wide)
    assert verdict(table, "spatial_val_00000#0", "released")[0] == 1.0
    assert verdict(table, "spatial_val_00000#0", "revised")[0] == 0.0
    assert verdict(suite.verdicts(run), "spatial_val_00000#0", "released")[0] == 0.0  # 100 x 100: right


def test_a_detector_without_colors_leaves_the_skill_undefined():
    suite = suite_of(
        scene("color_val_00000", "dog", color="red"),
        scene("color_val_00001", "dog", color="red"),
        scene("object_val_00000", "dog"),
    )
    results = {"color_val_00000#0": [thing("dog")], "color_val_00001#0": [], "object_val_00000#0": [thing("dog")]}
    table = suite.verdicts(observed(suite, results))
    for protocol in ("released", "paper", "revised"):
        for image_id, there in (("color_val_00000#0", 1.0), ("color_val_00001#0", 0.0)):
            value, reason = verdict(table, image_id, protocol)
            assert value is None
            assert "judged no colour" in reason
            assert verdict(table, image_id, protocol, "right_object")[0] == there
    color = score(suite.scores(asking(suite.prompts()), table), "accuracy", skill="color")
    assert math.isnan(color.value)
    assert (color.n_used, color.n_unusable) == (0, 2)
    # With colours judged, the empty image is wrong. So it is if nothing was found in any image.
    results["color_val_00000#0"] = [thing("dog", color="red")]
    table = suite.verdicts(observed(suite, results))
    assert [verdict(table, f"color_val_0000{i}#0")[0] for i in (0, 1)] == [1.0, 0.0]
    table = suite.verdicts(observed(suite, dict.fromkeys(results, ())))
    assert verdict(table, "color_val_00000#0")[0] == 0.0


def test_verdicts_need_detections_of_this_suites_classes():
    suite = suite_of(scene("object_val_00000", "dog"))
    run = observed(suite, {"object_val_00000#0": [thing("dog")]})
    with pytest.raises(UsageError, match=r"paintskills needs detections; this run has \['answers'\]"):
        suite.verdicts(Observed(prompts=run.prompts, images=run.images, observations={"answers": pl.DataFrame()}))
    short = run.observations["detections"].with_columns(pl.col("class_scores").list.head(3))
    with pytest.raises(UsageError, match=r"object_val_00000#0: 3 class scores for 15 classes.*Run it again"):
        suite.verdicts(Observed(prompts=run.prompts, images=run.images, observations={"detections": short}))


def test_thresholds_reach_the_rules():
    suite = suite_of(scene("object_val_00000", "dog"))
    run = observed(suite, {"object_val_00000#0": [thing("dog", 0.6)]})
    assert verdict(suite.verdicts(run), "object_val_00000#0")[0] == 1.0
    stricter = suite.with_rules(threshold_revised=0.6)
    assert verdict(stricter.verdicts(run), "object_val_00000#0")[0] == 0.0
    assert stricter.all_rules() == {
        "threshold_revised": 0.6,
        "threshold_released_count": 0.7,
        "threshold_paper": 0.8,
        "spatial_margin": 0.25,
    }


# ------------------------------------------------------------------------------------------------------------- scores
def scores_of_mixed_run() -> Sequence[Score]:
    suite, run = mixed_run()
    return suite.scores(asking(suite.prompts()), suite.verdicts(run))


def test_scores_of_the_mixed_run():
    scores = scores_of_mixed_run()
    # Corrected: dog, dog (0.6) right; nothing wrong; one not looked at: 2 of 3.
    assert score(scores, "accuracy", skill="object").value == pytest.approx(2 / 3)
    assert score(scores, "accuracy", skill="object").n_unusable == 1
    # Released: the bus at 0.95 beats the dog: 1 of 3.
    assert score(scores, "accuracy", "released", skill="object").value == pytest.approx(1 / 3)
    # Count, revised: 2 dogs right, dog and bus wrong, two buses wrong; one refused: 1 of 3.
    assert score(scores, "accuracy", skill="count").value == pytest.approx(1 / 3)
    assert score(scores, "accuracy", skill="count", count=2).value == pytest.approx(1 / 2)
    # Spatial, revised: left, left right; a bus and a dog wrong; stacked buses right: 3 of 4.
    assert score(scores, "accuracy", skill="spatial").value == pytest.approx(3 / 4)
    assert score(scores, "accuracy", skill="spatial", relation="above").n_used == 2
    mean = score(scores, "mean_accuracy")
    assert mean.value == pytest.approx((2 / 3 + 1 / 3 + 3 / 4) / 3)
    assert (mean.n_used, mean.n_unusable) == (3 + 3 + 4, 2)
    assert mean.ci_low < mean.value < mean.ci_high
    # Counting the two unusable images as wrong: 2 of 4 and 1 of 4. Spatial has none, so no such bound.
    bound = score(scores, "accuracy_if_unusable_wrong", skill="object")
    assert (bound.value, bound.n_used, bound.n_unusable) == (pytest.approx(0.5), 4, 0)
    assert score(scores, "accuracy_if_unusable_wrong", skill="count").value == pytest.approx(0.25)
    assert not [s for s in scores if s.metric == "accuracy_if_unusable_wrong" and s.group["skill"] == "spatial"]


def test_count_confusion():
    scores = scores_of_mixed_run()
    results = {
        (s.group["count"], s.group["found"]): (s.value, s.n_used, s.n_unusable)
        for s in scores
        if s.metric == "count_found" and s.protocol == "revised"
    }
    # Two dogs asked: two, and one, found. One bus asked: two found; the other image was refused.
    assert results == {(2, 1): (0.5, 2, 0), (2, 2): (0.5, 2, 0), (1, 2): (1.0, 1, 1)}
    shares: dict[Any, float] = {}
    for s in scores:
        if s.metric == "count_found":
            key = (s.protocol, s.group["count"])
            shares[key] = shares.get(key, 0.0) + s.value
    assert shares == {key: pytest.approx(1.0) for key in shares}
    assert {protocol for protocol, _ in shares} == {"released", "revised"}


def test_released_code_prints_right_numbers_per_count():
    # Dog and bus both above 0.7: two boxes are the right number, though the image is wrong.
    scores = scores_of_mixed_run()
    assert score(scores, "right_number", "released", skill="count", count=2).value == 1.0
    assert score(scores, "accuracy", "released", skill="count", count=2).value == 0.5


def test_mean_leaves_out_the_optional_skill():
    suite = suite_of(
        scene("object_val_00000", "dog"),
        scene("count_val_00000", "dog"),
        scene("spatial_val_00000", "dog", "bus", relation="left"),
        scene("color_val_00000", "dog", color="red"),
    )
    results = {p.prompt_id + "#0": [thing("dog", color="blue")] for p in suite.prompts()}
    scores = suite.scores(asking(suite.prompts()), suite.verdicts(observed(suite, results)))
    assert score(scores, "accuracy", skill="color").value == 0.0
    assert score(scores, "mean_accuracy").value == pytest.approx((1 + 1 + 0) / 3)
    assert score(scores, "mean_accuracy").n_used == 3
    # In v1 colour is a skill like the others.
    v1 = suite_of(*suite.scenes, name="paintskills_v1")
    scores = v1.scores(asking(v1.prompts()), v1.verdicts(observed(v1, results)))
    assert score(scores, "mean_accuracy").value == pytest.approx((1 + 1 + 0 + 0) / 4)


def test_a_mean_over_some_of_the_skills_would_mislead():
    suite = suite_of(scene("object_val_00000", "dog"), scene("count_val_00000", "dog"))
    run = observed(suite, {p.prompt_id + "#0": [thing("dog")] for p in suite.prompts()})
    mean = score(suite.scores(asking(suite.prompts()), suite.verdicts(run)), "mean_accuracy")
    assert math.isnan(mean.value)
    assert mean.n_used == 2


def test_a_limit_is_at_least_one():
    with pytest.raises(UsageError, match="at least 1, got 0"):
        PaintSkills.standard(limit=0)


def test_a_skill_without_usable_images_is_undefined_and_so_is_the_mean():
    suite = suite_of(scene("object_val_00000", "dog"), scene("count_val_00000", "dog"))
    run = observed(suite, {"object_val_00000#0": [thing("dog")]}, {"count_val_00000#0": ("failed", "")})
    scores = suite.scores(asking(suite.prompts()), suite.verdicts(run))
    assert score(scores, "accuracy", skill="object").value == 1.0
    count = score(scores, "accuracy", skill="count")
    assert all(math.isnan(x) for x in (count.value, count.ci_low, count.ci_high))
    assert (count.n_used, count.n_unusable) == (0, 1)
    mean = score(scores, "mean_accuracy")
    assert all(math.isnan(x) for x in (mean.value, mean.ci_low, mean.ci_high))
    assert (mean.n_used, mean.n_unusable) == (1, 1)
    assert score(scores, "accuracy_if_unusable_wrong", skill="count").value == 0.0


def test_intervals_are_wilsons_for_one_image_per_prompt_and_wider_for_several():
    scenes = [scene(f"object_val_{i:05d}", "dog") for i in range(40)]
    right = {f"object_val_{i:05d}" for i in range(29)}

    def accuracy(n_images: int) -> Score:
        suite = suite_of(*scenes, n_images=n_images)
        result = {
            f"{s.scene_id}#{k}": [thing("dog" if s.scene_id in right else "bus")]
            for s in scenes
            for k in range(n_images)
        }
        scores = suite.scores(asking(suite.prompts()), suite.verdicts(observed(suite, result)))
        return score(scores, "accuracy", skill="object")

    one, three = accuracy(1), accuracy(3)
    expected = wilson(29, 40)
    assert (one.value, one.ci_low, one.ci_high) == pytest.approx(tuple(expected), rel=1e-12)
    assert (one.n_used, three.n_used) == (40, 120)
    # Three equal images per prompt say no more than one: nowhere near the interval of 120 independent ones.
    naive = wilson(87, 120)
    assert three.ci_high - three.ci_low > 1.5 * (naive.high - naive.low)


def test_scores_of_an_empty_run_are_undefined():
    suite = PaintSkills.standard(limit=6)
    scores = suite.scores(asking(suite.prompts()), frame("verdicts", []))
    for s in scores:
        assert s.metric == "shuffled_expectation" or math.isnan(s.value)
    assert {s.metric for s in scores} >= {"accuracy", "mean_accuracy"}


# ----------------------------------------------------------------------------------------------------- shuffled images
def test_shuffled_expectation_of_the_full_set_is_exact():
    suite = PaintSkills.standard()
    assert len(suite.scenes) == 2_325 + 2_160 + 2_700
    scores = suite.scores(asking(suite.prompts()), frame("verdicts", []))
    expected = {s.group["skill"]: s for s in scores if s.metric == "shuffled_expectation"}
    # 15 classes, 155 prompts each; 60 pairs of class and number, 36 each.
    assert expected["object"].value == pytest.approx(1 / 15, rel=1e-12)
    assert expected["count"].value == pytest.approx(1 / 60, rel=1e-12)
    # 2,700 spatial prompts, three per ordered pair and relation. Unequal classes: 15 * 14 * 4 cells, two of which are
    # one image told from either side: 420 keys of 6 prompts. Equal classes: 15 * 2 axes, two relations on each:
    # 30 keys of 6 prompts. Sum: (420 + 30) * (6 / 2700)^2 = 2/900.
    assert expected["spatial"].value == pytest.approx(420 * (6 / 2700) ** 2 + 30 * (6 / 2700) ** 2, rel=1e-12)
    assert expected["spatial"].value == pytest.approx(2 / 900, rel=1e-12)
    # What the paper's authors derive, in percent with one decimal: 6.7, 1.7, 0.2.
    assert {k: round(100 * s.value, 1) for k, s in expected.items()} == {"object": 6.7, "count": 1.7, "spatial": 0.2}
    assert all(s.ci_low == s.value == s.ci_high for s in expected.values())
    assert expected["spatial"].n_used == 2_700


@pytest.mark.parametrize("suite_class", [PaintSkills, PaintSkillsV1])
def test_shuffled_expectation_does_not_depend_on_the_limit(suite_class):
    skills = (*suite_class.version.skills, *suite_class.version.optional_skills)

    def chance(suite):
        scores = suite.scores(asking(suite.prompts()), frame("verdicts", []))
        return {s.group["skill"]: (s.value, s.n_used) for s in scores if s.metric == "shuffled_expectation"}

    full = chance(suite_class.standard(skills=skills))
    for limit in (3, 12, 24):
        part = suite_class.standard(skills=skills, limit=limit)
        limited = chance(part)
        assert limited == {name: full[name] for name in limited}
        assert chance(suite_class.reopen({"split": "val"}, part.prompts())) == limited
    # Worked from every prompt of the list, not from its combinations of factors.
    for name, (value, n_used) in full.items():
        scenes = suite_class.standard(skills=[name]).scenes
        keys = Counter(skill(name).truth_key(expected_of(scene)) for scene in scenes)
        assert value == pytest.approx(sum(n**2 for n in keys.values()) / len(scenes) ** 2, rel=1e-12)
        assert n_used == len(scenes)


# --------------------------------------------------------------------------------------------------- published averages
# Cells and averages are printed with one decimal, so a recomputed average may be off by 0.05 and its own rounding.
PRINTED_DECIMALS = 0.05 + 1e-9


def mean_of(cells: Sequence[float]) -> float:
    """The mean over skills as ``mean_accuracy`` computes it."""
    return mean_of_independent([Interval(c, c, c) for c in cells]).value


@pytest.mark.parametrize(
    ("cells", "average"),
    [
        # ICCV 2023, Table 2: object, count, spatial.
        pytest.param((100.0, 97.8, 96.2), 98.0, id="ICCV GT"),
        pytest.param((6.3, 1.7, 0.3), 2.8, id="ICCV GT shuffled"),
        pytest.param((57.5, 18.2, 2.4), 26.0, id="ICCV DALL-E Small"),
        pytest.param((89.9, 47.5, 50.7), 62.7, id="ICCV minDALL-E"),
        pytest.param((96.2, 37.8, 7.9), 47.3, id="ICCV Stable Diffusion v1.4"),
        # ICCV 2023, Table 5: half and a tenth of the training data.
        pytest.param((90.1, 49.4, 53.3), 64.3, id="ICCV minDALL-E 50%"),
        pytest.param((96.0, 42.2, 7.6), 48.6, id="ICCV Stable Diffusion 50%"),
        pytest.param((90.8, 50.9, 38.2), 60.0, id="ICCV minDALL-E 10%"),
        pytest.param((94.2, 37.9, 8.9), 47.0, id="ICCV Stable Diffusion 10%"),
        # arXiv v1, Table 3: object, count, colour, spatial.
        pytest.param((100.0, 96.8, 99.8, 99.3), 99.0, id="v1 GT"),
        pytest.param((1.2, 11.2, 0.0, 1.3), 3.4, id="v1 X-LXMERT zero-shot"),
        pytest.param((0.0, 7.4, 0.0, 0.5), 2.0, id="v1 DALL-E Small zero-shot"),
        pytest.param((1.0, 11.9, 0.1, 1.2), 3.6, id="v1 ruDALL-E-XL zero-shot"),
        pytest.param((1.8, 9.8, 0.1, 1.2), 3.2, id="v1 minDALL-E zero-shot"),
        pytest.param((24.6, 13.5, 7.1, 5.4), 12.7, id="v1 DALL-E Small"),
        pytest.param((44.5, 44.3, 7.9, 17.3), 28.5, id="v1 ruDALL-E-XL"),
        pytest.param((40.3, 40.0, 20.9, 51.2), 38.1, id="v1 minDALL-E"),
        pytest.param((36.5, 32.6, 12.0, 24.7), 26.4, id="v1 average of three"),
        # The columns of that last row, over the three finetuned models.
        pytest.param((24.6, 44.5, 40.3), 36.5, id="v1 object of three"),
        pytest.param((13.5, 44.3, 40.0), 32.6, id="v1 count of three"),
        pytest.param((7.1, 7.9, 20.9), 12.0, id="v1 colour of three"),
        # arXiv v1, Table 4: people.
        pytest.param((48, 0, 6, 0), 13.5, id="v1 people, DALL-E Small"),
        pytest.param((64, 26, 18, 2), 27.5, id="v1 people, ruDALL-E-XL"),
        pytest.param((66, 28, 14, 12), 30.0, id="v1 people, minDALL-E"),
    ],
)
def test_published_averages(cells, average):
    assert mean_of(cells) == pytest.approx(average, abs=PRINTED_DECIMALS)


@pytest.mark.parametrize(
    ("cells", "printed", "mean"),
    [
        # arXiv v1, Table 3, last row: 73.9 / 3 = 24.63.
        pytest.param((5.4, 17.3, 51.2), 24.7, 24.6, id="v1 spatial of three"),
        # ICCV 2023, Table 3: none of the printed averages is that of its row.
        pytest.param((52, 42, 4), 30.7, 32.7, id="ICCV people, DALL-E Small"),
        pytest.param((86, 64, 64), 68.7, 71.3, id="ICCV people, minDALL-E"),
        pytest.param((94, 48, 16), 54.7, 52.7, id="ICCV people, Stable Diffusion"),
        pytest.param((64, 34, 0), 28.0, 32.7, id="ICCV DETR, DALL-E Small"),
        pytest.param((86, 54, 66), 64.0, 68.7, id="ICCV DETR, minDALL-E"),
        pytest.param((98, 44, 4), 54.0, 48.7, id="ICCV DETR, Stable Diffusion"),
    ],
)
def test_published_averages_that_are_misprints(cells, printed, mean):
    assert mean_of(cells) == pytest.approx(mean, abs=PRINTED_DECIMALS)
    assert mean_of(cells) != pytest.approx(printed, abs=PRINTED_DECIMALS)


def test_the_suites_mean_is_the_plain_mean_of_the_skills():
    """ICCV 2023, Table 2, Stable Diffusion, as images: 77 of 80, 17 of 45 and 5 of 63 are 96.2, 37.8 and 7.9 %."""
    counts = {"object": (77, 80), "count": (17, 45), "spatial": (5, 63)}
    scenes, result = [], {}
    for name, (right, n) in counts.items():
        for i in range(n):
            one = scene(f"{name}_val_{i:05d}", *(("dog", "bus") if name == "spatial" else ("dog",)), relation="left")
            scenes.append(one)
            pair = [thing("bus", 0.9, (10, 50)), thing("dog", 0.8, (90, 50))]
            result[f"{one.scene_id}#0"] = [] if i >= right else pair if name == "spatial" else [thing("dog")]
    suite = suite_of(*scenes)
    scores = suite.scores(asking(suite.prompts()), suite.verdicts(observed(suite, result)))
    for protocol in ("released", "paper", "revised"):
        printed = {k: round(100 * score(scores, "accuracy", protocol, skill=k).value, 1) for k in counts}
        assert printed == {"object": 96.2, "count": 37.8, "spatial": 7.9}
        assert round(100 * score(scores, "mean_accuracy", protocol).value, 1) == 47.3


# ------------------------------------------------------------------------------------------------------ making a suite
def test_limit_is_spread_over_skills():
    suite = PaintSkills.standard(limit=20)
    assert [sum(s.skill == name for s in suite.scenes) for name in ("object", "count", "spatial")] == [7, 7, 6]
    assert len(PaintSkills.standard(limit=2).scenes) == 2
    twice = PaintSkills.standard(skills=("object", "object"), limit=4)
    assert len({s.scene_id for s in twice.scenes}) == len(twice.scenes) == 4


def test_needs_name_classes_and_colors():
    (need,) = suite_of(scene("object_val_00000", "dog")).needs()
    assert (need.classes, need.colors) == (V2.labels, ())
    (need,) = suite_of(scene("color_val_00000", "dog", color="red")).needs()
    assert need.colors == ("red", "blue", "yellow", "white", "purple", "green")


def test_a_folder_and_stored_prompts_give_the_same_suite(tmp_path):
    scenes = [s for name in ("count", "object", "spatial") for s in spread(build_scenes(V2, name, "val"), 9)]
    write_scenes(tmp_path, scenes)
    suite = PaintSkills.from_folder(tmp_path, n_images=2)
    assert list(suite.scenes) == scenes
    again = PaintSkills.reopen({}, suite.prompts())
    assert again.prompts() == suite.prompts()
    assert len(PaintSkills.from_folder(tmp_path, limit=4, skills=["count", "object"]).scenes) == 4
    # Specs and facets survive JSON, as they are stored.
    for prompt in suite.prompts():
        assert json.loads(json.dumps(dict(prompt.spec))) == dict(prompt.spec)


def test_empty_scenes_of_a_folder_ask_for_nothing(tmp_path):
    scenes = build_scenes(V2, "object", "val")[:3]
    empty = empty_scenes(V2, "val", 2)
    write_scenes(tmp_path, [*scenes, *empty])
    assert read_scenes(tmp_path, V2, "val", ["empty"]) == empty  # a rendering that is resumed compares them
    assert list(PaintSkills.from_folder(tmp_path).scenes) == scenes


def test_a_folder_of_unknown_skills_is_refused(tmp_path):
    one = scene("reading_val_00000", "dog")
    write_scenes(tmp_path, [one])
    with pytest.raises(ValueError, match="unknown skill 'reading'"):
        PaintSkills.from_folder(tmp_path)
