"""Preference: models beside each other, people's choices by every published rule, annotators' own pairs."""

import csv
import json
import math

import numpy as np
import pytest
from commands import verism
from PIL import Image

from verism.errors import UsageError
from verism.statistics import bradley_terry
from verism.suites.preference.choices import (
    RankedItem,
    agreement_by_rule,
    best_gap,
    counts_of,
    match_names,
    read_choices,
)
from verism.suites.preference.comparison import comparison, models_of

N = 12


def table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def noise(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)


@pytest.fixture
def scored(tmp_path):
    """Makes a run of one model from its scores; None: no score; ``missing``: no image."""
    prompts = table(tmp_path / "P.csv", [{"prompt": f"prompt {n}"} for n in range(N)])

    def make(name, scores, *, scorer="HPS v2.1", prompts=prompts):
        for n, score in enumerate(scores):
            if score != "missing":
                noise(tmp_path / f"images_{name}" / f"{n:05d}.png", n)
        given = [{"image_id": f"{n:05d}", "score": "" if s is None else s} for n, s in enumerate(scores)]
        file = table(tmp_path / f"{name}.csv", [row for row in given if row["score"] != "missing"])
        done = verism(
            "run", "preference", "--images", tmp_path / f"images_{name}", "--prompts", prompts, "--scorer",
            f"results:{file}?scorer={scorer}", "--out", tmp_path / name,
        )  # fmt: skip
        assert done.exit_code == int("missing" in scores), done.output
        return tmp_path / name

    return make


# ------------------------------------------------------------------------------------------------------- several models
def test_compare_three_runs_by_hand(scored):
    good, fair = [2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 1], [1] * 12
    poor = [0, 0, 0, 0, 0, 0, 3, 3, 3, "missing", None, 0]
    runs = [scored(name, scores) for name, scores in (("good", good), ("fair", fair), ("poor", poor))]
    report = json.loads(verism("preference", "compare", *runs, "--json").stdout)
    pairs = {(p["first"], p["second"]): p for p in report["pairs"]}
    assert pairs["good", "fair"]["win_rate"]["value"] == pytest.approx((9 + 0.5) / 12)
    assert pairs["good", "fair"]["tie_rate"]["value"] == pytest.approx(1 / 12)
    assert pairs["good", "poor"]["win_rate"]["value"] == pytest.approx((6 + 1) / 10)
    assert (pairs["good", "poor"]["prompts"], pairs["good", "poor"]["prompts_not_compared"]) == (10, 2)
    assert pairs["fair", "poor"]["win_rate"]["value"] == pytest.approx(7 / 10)
    models = {m["name"]: m for m in report["models"]}
    assert report["prompts_with_all_models"] == 10
    assert models["good"]["mean"]["value"] == pytest.approx(1.9)  # over the ten; its own mean is over twelve
    assert models["good"]["mean_of_its_own"]["value"] == pytest.approx(19 / 12)
    assert (models["poor"]["images"], models["poor"]["images_missing"], models["poor"]["images_without_score"]) == (
        10, 1, 1,
    )  # fmt: skip
    wins = np.zeros((1, 3, 3))
    wins[0, 0, 1], wins[0, 1, 0] = 9.5, 2.5
    wins[0, 0, 2], wins[0, 2, 0] = 7, 3
    wins[0, 1, 2], wins[0, 2, 1] = 7, 3
    expected = bradley_terry(wins, n_resamples=0).strengths
    assert [models[name]["strength"]["value"] for name in ("good", "fair", "poor")] == pytest.approx(list(expected))
    for model in models.values():
        assert model["strength"]["low"] < model["strength"]["value"] < model["strength"]["high"]
    text = verism("preference", "compare", *runs).output
    assert text.index("good ") < text.index("fair ") < text.index("poor ")  # by strength
    assert "HPS v2.1 by results:" in text


def test_compare_missing_images_lose_if_asked(scored):
    runs = [scored("one", [1] * 12), scored("two", [2] * 6 + ["missing"] * 6)]
    left_out, loses = (
        json.loads(verism("preference", "compare", *runs, "--when-missing", how, "--json").stdout)["pairs"][0]
        for how in ("left_out", "loses")
    )
    assert (left_out["win_rate"]["value"], left_out["prompts"]) == (0.0, 6)
    assert (loses["win_rate"]["value"], loses["prompts"]) == (0.5, 12)


def test_compare_says_where_wins_do_not_bound_strengths(scored):
    runs = [scored("one", [1] * 12), scored("two", [2] * 12)]
    done = verism("preference", "compare", *runs)
    assert "the wins alone do not bound their strengths" in done.output
    assert "\nnan" not in done.output
    assert json.loads(verism("preference", "compare", *runs, "--json").stdout)["models"][0]["strength"]["low"] is None


@pytest.mark.parametrize(
    ("change", "message"), [({"scorer": "HPS v2.0"}, "two scales"), ({"prompts": True}, "different prompts")]
)
def test_compare_refuses_other_scorers_and_other_prompts(tmp_path, scored, change, message):
    if "prompts" in change:
        texts = [{"prompt": f"prompt {n}" if n else "another"} for n in range(N)]
        change = {"prompts": table(tmp_path / "other.csv", texts)}
    runs = [scored("one", [1] * 12), scored("two", [2] * 12, **change)]
    with pytest.raises(UsageError, match=message):
        verism("preference", "compare", *runs)
    with pytest.raises(UsageError, match=message):
        verism("preference", "people", *runs)


def test_compare_files_of_unnamed_scorers_are_refused(scored):
    runs = [scored("one", [1] * 12, scorer=""), scored("two", [2] * 12, scorer="")]
    with pytest.raises(UsageError, match=r"results:FILE.scorer=NAME"):
        comparison(models_of(runs))


def test_compare_needs_two_models_of_the_suite(tmp_path, scored):
    with pytest.raises(UsageError, match="two models or more"):
        verism("preference", "compare", scored("one", [1] * 12))
    assert verism(
        "run", "dsg", "--model", "oracle", "--vqa", "truth", "--limit", 2, "--size", 64, "--out", tmp_path / "D"
    )
    with pytest.raises(UsageError, match="a run of dsg"):
        verism("preference", "compare", tmp_path / "one", tmp_path / "D")


def test_compare_two_scripted_models_whose_quality_is_known(tmp_path):
    for name, error in (("good", 0.1), ("bad", 0.7)):
        words = ("--model", f"scripted:error={error}", "--scorer", "truth", "--limit", 16, "--size", 64)
        assert verism("run", "preference", *words, "--out", tmp_path / name).exit_code == 0
    (pair,) = json.loads(verism("preference", "compare", tmp_path / "good", tmp_path / "bad", "--json").stdout)["pairs"]
    right = [[i.known for i in model.images] for model in models_of([tmp_path / "good", tmp_path / "bad"])]
    expected = np.mean([0.5 + (a - b) / 2 for a, b in zip(*right, strict=True)])
    assert pair["win_rate"]["value"] == pytest.approx(expected)
    assert expected > 0.6
    done = verism("compare", tmp_path / "bad", tmp_path / "good", "--json")  # the house's own comparison of two runs
    (row,) = [row for row in json.loads(done.stdout) if row["metric"] == "preference_score"]
    assert row["difference"] == pytest.approx(np.mean(right[0]) - np.mean(right[1]))


# ----------------------------------------------------------------------------------------------------- people's choices
ITEMS = [
    RankedItem(prompt="p", text="p", images=("a", "b", "c"), ranks=(1, 2, 2)),
    RankedItem(prompt="q", text="q", images=("d", "e"), ranks=(1, 2)),
    RankedItem(prompt="r", text="r", images=("f", "g"), ranks=(1, 1)),
]
SCORES = {"a": 3.0, "b": 3.0, "c": 1.0, "d": 0.0, "e": 2.0, "f": 1.0, "g": 1.05}


def test_rules_by_hand():
    # a-b: equal scores; a-c: right; b-c: people tie, scores apart by 2; d-e: wrong; f-g: people tie, apart by 0.05
    found, missing = agreement_by_rule(ITEMS, SCORES, gap=0.1)
    by_rule = {each.rule: each for each in found}
    assert missing == 0
    assert by_rule["decided"].accuracy.value == pytest.approx((0.5 + 1 + 0) / 3)
    assert by_rule["imagereward"].accuracy.value == pytest.approx((0 + 1 + 0) / 3)
    assert (by_rule["imagereward"].n, by_rule["imagereward"].n_left_out) == (3, 2)
    assert by_rule["hps"].accuracy.value == pytest.approx((1 + 0 + 1) / 3)  # ties of either side are right
    # half a point for a tie of one side: a-b 1/2, a-c 1, b-c 1/2, d-e 0, f-g 1 (the gap is 0.025)
    assert by_rule["pickapic"].accuracy.value == pytest.approx((0.5 + 1 + 0.5 + 0 + 1) / 5)
    assert by_rule["pickapic"].threshold == 0.1
    assert "pickapic" not in {each.rule for each in agreement_by_rule(ITEMS, SCORES)[0]}


def test_pairs_without_scores_are_counted():
    found, missing = agreement_by_rule(ITEMS, {**SCORES, "c": None})
    assert missing == 2
    assert {each.rule: each.n for each in found}["decided"] == 2


def test_gap_is_the_best_on_the_validation_part_and_the_smallest_of_equals():
    def item(name, difference, tied):
        scores[f"{name}0"], scores[f"{name}1"] = difference, 0.0
        return RankedItem(prompt=name, text=name, images=(f"{name}0", f"{name}1"), ranks=(0, 0) if tied else (0, 1))

    scores = {}
    # gaps are tanh(d / 2): 0.05, 0.245, 0.46
    items = [item("a", 0.1, True), item("b", 0.5, True), item("c", 1.0, False)]
    assert best_gap(items, scores) == 0.3
    assert best_gap([item("c", 1.0, False)], scores) == 0.0


def test_ties_by_a_threshold_of_other_prompts_are_found_where_scores_tell_them():
    rng = np.random.default_rng(0)
    items, scores = [], {}
    for n in range(200):
        tied = bool(rng.random() < 0.4)
        gap = rng.normal(0, 0.1) if tied else rng.choice([-1, 1]) * rng.uniform(1, 2)
        scores[f"{n}a"], scores[f"{n}b"] = gap, 0.0
        ranks = (0, 0) if tied else (0, 1) if gap > 0 else (1, 0)
        items.append(RankedItem(prompt=str(n), text="", images=(f"{n}a", f"{n}b"), ranks=ranks))
    found = {each.rule: each for each in agreement_by_rule(items, scores)[0]}
    assert found["with_ties"].accuracy.value > 0.98
    assert 0.15 < found["with_ties"].threshold < 1
    constant = agreement_by_rule(items, dict.fromkeys(scores, 1.0))[0]
    share = counts_of(items)["tied"] / 200
    assert {each.rule: each for each in constant}["with_ties"].accuracy.value == pytest.approx(share)


def test_interval_is_by_prompt():
    wide = [RankedItem(prompt=str(n // 50), text="", images=(f"{n}a", f"{n}b"), ranks=(0, 1)) for n in range(200)]
    scores = {f"{n}{side}": float((side == "a") == (n // 50 % 2 == 0)) for n in range(200) for side in "ab"}
    alone = [RankedItem(prompt=i.images[0], text="", images=i.images, ranks=i.ranks) for i in wide]
    (one, *_), (other, *_) = agreement_by_rule(wide, scores)[0], agreement_by_rule(alone, scores)[0]
    assert one.accuracy.value == other.accuracy.value == 0.5
    assert one.accuracy.high - one.accuracy.low > 3 * (other.accuracy.high - other.accuracy.low)


def write(path, rows):
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def test_files_of_benchmarks_are_told_apart(tmp_path):
    reward = write(
        tmp_path / "reward.json",
        [{"id": "1-1", "prompt": "a cat", "generations": ["x/1.webp", "x/2.webp", "x/3.webp"], "ranking": [2, 1, 2]}],
    )
    (item,) = read_choices(reward)
    assert [preferred for _, _, preferred in item.pairs()] == [0.0, 0.5, 1.0]
    assert counts_of([item]) == {"items": 1, "prompts": 1, "images": 3, "pairs": 3, "tied": 1, "decided": 2}
    hpd = write(tmp_path / "hpd.json", [{"prompt": "a", "image_path": ["1.jpg", "2.jpg"], "rank": [1, 0]}])
    assert read_choices(hpd)[0].pairs() == [(0, 1, 0.0)]
    chosen = write(tmp_path / "t.json", [{"prompt": "a", "image_path": ["1.jpg", "2.jpg"], "human_preference": [1, 0]}])
    assert read_choices(chosen)[0].pairs() == [(0, 1, 1.0)]
    pick = [
        {"caption": "a", "image_0_uid": "u", "image_1_uid": "v", "label_0": label, "has_label": label is not None}
        for label in (1.0, 0.5, 0.0, None)
    ]
    assert [read.pairs()[0][2] for read in read_choices(write(tmp_path / "pick.json", pick))] == [1.0, 0.5, 0.0]
    plain = table(
        tmp_path / "plain.csv",
        [{"prompt": "a", "image_a": "1", "image_b": "2", "preferred": word} for word in ("a", "tie", "b")],
    )
    assert [read.pairs()[0][2] for read in read_choices(plain)] == [1.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "a"}, "expected ImageReward's"),
        ({"prompt": "a", "generations": ["1", "2"], "ranking": [1]}, "2 images and 1"),
        ({"prompt": "a", "generations": ["1", "1"], "ranking": [1, 2]}, "twice"),
        ({"generations": ["1", "2"], "ranking": [1, 2]}, "no prompt"),
        ({"prompt": "a", "generations": ["1", "2"], "ranking": [1, "x"]}, "must be numbers"),
        ({"prompt": "a", "image_a": "1", "image_b": "2", "preferred": "c"}, "a, b or tie"),
    ],
)
def test_rows_that_are_no_choices_are_refused(tmp_path, row, message):
    with pytest.raises(UsageError, match=message):
        read_choices(write(tmp_path / "x.json", [row]))


def test_names_of_files_match_by_their_folders_and_never_by_guess():
    assert match_names(["a/1.png", "1.png", "b/2"], ["c/a/1.png", "2.jpg"]) == {
        "a/1.png": "c/a/1.png", "1.png": "c/a/1.png", "b/2": "2.jpg"
    }  # fmt: skip
    assert match_names(["1.png"], ["a/1.png", "b/1.png"]) == {}
    assert match_names(["img_1.png"], ["photo_1.png"]) == {}


def test_choices_become_a_run_whose_scores_agree_with_people(tmp_path):
    rows, scores = [], {}
    for n in range(8):
        names = [f"set/{n}_{k}.png" for k in range(3)]
        for k, name in enumerate(names):
            noise(tmp_path / "images" / name, 10 * n + k)
            scores[name] = -k if n else k  # of the first prompt all is the wrong way round
        rows.append({"id": str(n), "prompt": f"prompt {n}", "generations": names, "ranking": [1, 2, 2]})
    file = write(tmp_path / "test.json", rows)
    done = verism("preference", "choices", file, "--images-in", tmp_path / "images", "--out", tmp_path / "D", "--json")
    assert json.loads(done.stdout) == {
        "items": 8, "prompts": 8, "images": 24, "pairs": 24, "tied": 8, "decided": 16, "files_missing": 0
    }  # fmt: skip
    given = table(
        tmp_path / "scores.csv",
        [{"image_id": f"{n:05d}#{k}", "score": scores[f"set/{n}_{k}.png"]} for n in range(8) for k in range(3)],
    )
    done = verism(
        "run", "preference", "--prompts", tmp_path / "D" / "prompts.csv", "--images", tmp_path / "D" / "images.csv",
        "--scorer", f"results:{given}?scorer=mine", "--out", tmp_path / "W",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    by_run = json.loads(verism("preference", "human", file, "--run", tmp_path / "W", "--json").stdout)
    assert by_run["rules"]["imagereward"]["value"] == pytest.approx(14 / 16)
    assert (by_run["rules"]["imagereward"]["n"], by_run["rules"]["imagereward"]["left_out"]) == (16, 8)
    assert by_run["pairs_without_scores"] == 0
    direct = table(tmp_path / "direct.csv", [{"image": name, "score": score} for name, score in scores.items()])
    by_file = json.loads(verism("preference", "human", file, "--scores", direct, "--gap", "0.2", "--json").stdout)
    assert by_file["rules"]["imagereward"] == by_run["rules"]["imagereward"]
    assert "pickapic" in by_file["rules"]
    text = verism("preference", "human", file, "--scores", direct, "--validation", file).output
    assert "24 pairs in 8 items, 8 tied by people; 0 without two scores" in text
    other = table(tmp_path / "other.csv", [{"image": "elsewhere.png", "score": 1}])
    with pytest.raises(UsageError, match="none of the 24 pairs has two scores"):
        verism("preference", "human", file, "--scores", other)


def test_annotators_pairs_of_two_runs(tmp_path, scored):
    good, bad = scored("good", [2] * 6 + [0] * 6), scored("bad", [1] * 12)
    assert verism("annotate", good, bad, "--task", "preference", "--draw").exit_code == 0
    rows = [
        {"item": f"{n:05d}#0|{n:05d}#0", "rater": rater, "answer": answer, "task": "preference"}
        for n in range(12)
        for rater, answer in (("r", "first"), ("s", "tie" if n < 2 else "first"))
    ]
    votes = table(tmp_path / "votes.csv", rows)
    done = verism("annotate", good, bad, "--import", votes)
    assert done.exit_code == 0, done.output
    # 22 votes for the first: 10 where its score is higher, 12 where it is lower.
    report = json.loads(verism("preference", "people", good, bad, "--json").stdout)
    assert (report["pairs"], report["tied"], report["prompts"]) == (24, 2, 12)
    assert report["rules"]["decided"]["value"] == pytest.approx(10 / 22)
    turned = json.loads(verism("preference", "people", bad, good, "--json").stdout)
    assert turned["rules"]["decided"] == report["rules"]["decided"]
    with pytest.raises(UsageError, match="no annotator compared"):
        verism("preference", "people", good, bad, "--task", "other")


def test_known_pair_of_scores_has_the_published_gap():
    # PickScore's example: softmax of 22.5 and 21.5 is 0.731 and 0.269, a gap of 0.462.
    items = [RankedItem(prompt="p", text="p", images=("a", "b"), ranks=(0, 0))]
    scores = {"a": 22.5, "b": 21.5}
    softmax = np.exp([22.5, 21.5]) / np.exp([22.5, 21.5]).sum()
    gap = softmax[0] - softmax[1]
    assert math.tanh(0.5) == pytest.approx(gap)
    for threshold, credit in ((gap - 0.01, 0.5), (gap + 0.01, 1.0)):
        found, _ = agreement_by_rule(items, scores, gap=threshold)
        assert found[-1].accuracy.value == credit
