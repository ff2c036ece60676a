"""Preference: outcomes by hand, two sets, missing images, prompts of benchmarks, runs through the command line."""

import csv
import json
import math

import numpy as np
import pytest
from commands import verism
from PIL import Image
from tiny_models import tiny_clip

import verism as package
from verism import api
from verism.errors import UsageError
from verism.metrics.preferences import outcome, outcomes_of
from verism.statistics.intervals import wilson
from verism.suites.preference.metrics import scorer_title
from verism.suites.preference.prompts import matched_images, read_prompts

PROMPTS = ("a red mug", "two owls", "a kite", "a plain card")


def noise(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (40, 36, 3), dtype=np.uint8)).save(path)


def table(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def sets(tmp_path):
    """Two folders with an image of each prompt, and the list."""
    for number in range(len(PROMPTS)):
        noise(tmp_path / "first" / f"{number:05d}.png", number)
        noise(tmp_path / "second" / f"{number:05d}.png", 100 + number)
    return table(tmp_path / "P.csv", [{"prompt": text, "style": "ab"[n % 2]} for n, text in enumerate(PROMPTS)])


def given(folder, first, second, scorer="PickScore v1"):
    """A file of scores by set and prompt; None is an empty cell."""
    rows = [
        {"image_id": f"{label}/{number:05d}#0", "score": "" if score is None else score, "scorer": scorer}
        for label, scores in (("first", first), ("second", second))
        for number, score in enumerate(scores)
    ]
    return table(folder / "scores.csv", rows)


def run_of(folder, prompts, scorer, *words, code=0):
    done = verism(
        "run", "preference", "--images", folder / "first", "--images-b", folder / "second", "--prompts", prompts,
        "--scorer", scorer, "--out", folder / "W", *words,
    )  # fmt: skip
    assert done.exit_code == code, done.output
    return package.open_run(folder / "W"), done.output


def scores_of(run):
    return {(s.metric, *s.group.values()): s for s in run.scores()}


# ----------------------------------------------------------------------------------------------------------- outcomes
@pytest.mark.parametrize(
    ("first", "second", "expected"), [(2, 1, 1), (1, 2, 0), (1, 1, 0.5), (None, 1, None), (math.inf, 1, None)]
)
def test_outcome_of_two_scores(first, second, expected):
    assert outcome(first, second) == expected


def test_outcome_missing_image_loses_only_if_asked_and_only_to_a_score():
    assert outcome(math.inf, 1, when_missing="loses") == 0
    assert outcome(1, math.inf, when_missing="loses") == 1
    assert outcome(math.inf, math.inf, when_missing="loses") is None
    assert outcome(math.inf, None, when_missing="loses") is None  # not looked at is not missing


def test_outcomes_of_all_pairs_of_a_prompt():
    assert outcomes_of([3, 1], [2, 1], margin=0) == [1, 1, 0, 0.5]
    assert outcomes_of([3, 1], [2, 1], margin=1) == [0.5, 1, 0.5, 0.5]


@pytest.mark.parametrize(
    ("judge", "title"),
    [
        ("pickscore:PickScore_v1@0123456789ab", "PickScore"),
        ("hpsv2.1:HPS_v2.1_compressed.pt@01", "HPS v2.1"),
        ("hpsv2:HPS_v2_compressed.pt@01", "HPS v2.0"),
        ("results:a.csv@01 scorer=HPSv2", "HPS v2.0"),
        ("results:a.csv@01 scorer=HPSv2.1", "HPS v2.1"),
        ("results:a.csv@01 scorer=HPSv3", "HPSv3"),
        ("results:a.csv@01", "results:a.csv"),
    ],
)
def test_title_names_the_scorer_and_its_version(judge, title):
    assert scorer_title(judge) == title


# ----------------------------------------------------------------------------------------------------------- two sets
def test_two_sets_win_rate_difference_and_means_by_hand(tmp_path, sets):
    scores = given(tmp_path, (3, 1, 2, 5), (1, 1, 4, 1))
    run, output = run_of(tmp_path, sets, f"results:{scores}")
    found = scores_of(run)
    win = found["win_rate", "first", "second"]
    assert win.value == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert win.ci_low < win.value < win.ci_high
    assert (win.n_used, win.n_unusable) == (4, 0)
    assert found["tie_rate", "first", "second"].value == 0.25
    assert found["preference_score", "first"].value == pytest.approx(11 / 4)
    assert found["preference_score", "second"].value == pytest.approx(7 / 4)
    assert found["score_difference", "first", "second"].value == pytest.approx(1.0)
    # style a: prompts 0 and 2, b: 1 and 3
    assert found["preference_score", "first", "a"].value == pytest.approx(2.5)
    assert found["win_rate", "first", "second", "b"].value == pytest.approx(0.75)
    assert found["score_over_groups", "first", "style"].value == pytest.approx(2.75)
    assert "PickScore" in output


def test_two_sets_unanimous_wins_have_the_interval_of_a_proportion(tmp_path, sets):
    run, _ = run_of(tmp_path, sets, f"results:{given(tmp_path, (2, 2, 2, 2), (1, 1, 1, 1))}")
    win = scores_of(run)["win_rate", "first", "second"]
    assert (win.value, win.ci_high) == (1.0, 1.0)
    assert win.ci_low == pytest.approx(wilson(4, 4).low, abs=0.02)


def test_two_sets_missing_image_is_counted_and_loses_only_if_asked(tmp_path, sets):
    (tmp_path / "first" / "00001.png").unlink()
    run, _ = run_of(tmp_path, sets, f"results:{given(tmp_path, (3, 1, 2, 5), (1, 0, 4, 1))}", code=1)
    found = scores_of(run)
    win = found["win_rate", "first", "second"]
    assert (win.value, win.n_used, win.n_unusable) == (pytest.approx(2 / 3), 3, 1)
    assert (found["scored", "first"].value, found["scored", "second"].value) == (0.75, 1.0)
    assert (found["preference_score", "first"].n_used, found["preference_score", "first"].n_unusable) == (3, 1)
    assert found["compared", "first", "second"].value == 0.75
    assert verism("score", tmp_path / "W", "--rule", "when_missing=loses").exit_code == 0
    win = scores_of(package.open_run(tmp_path / "W"))["win_rate", "first", "second"]
    assert (win.value, win.n_used, win.n_unusable) == (pytest.approx(2 / 4), 4, 0)


def test_two_sets_image_without_a_score_is_left_out_even_where_missing_ones_lose(tmp_path, sets):
    scores = given(tmp_path, (3, None, 2, 5), (1, 0, 4, 1))
    run, _ = run_of(tmp_path, sets, f"results:{scores}", "--rule", "when_missing=loses")
    win = scores_of(run)["win_rate", "first", "second"]
    assert (win.value, win.n_used, win.n_unusable) == (pytest.approx(2 / 3), 3, 1)
    reasons = run.verdicts().filter(rule="preference_score", image_id="first/00001#0")["reason"].to_list()
    assert reasons == ["no score: the score is null"]


def test_two_sets_margin_makes_ties(tmp_path, sets):
    scores = given(tmp_path, (3, 1, 2, 5), (1, 1.5, 4, 1))
    run, _ = run_of(tmp_path, sets, f"results:{scores}", "--rule", "margin=2")
    assert scores_of(run)["win_rate", "first", "second"].value == pytest.approx((0.5 + 0.5 + 0.5 + 1) / 4)


def test_several_images_of_a_prompt_are_all_compared_and_prompts_count_alike(tmp_path):
    prompts = table(tmp_path / "P.csv", [{"prompt": text} for text in PROMPTS[:2]])
    rows = []
    for label, scores in (("first", {0: (1, 3), 1: (0, 0)}), ("second", {0: (2,), 1: (1,)})):
        for number, several in scores.items():
            for index, score in enumerate(several):
                noise(tmp_path / label / f"{number:05d}_{index}.png", 10 * number + index + 100 * (label == "second"))
                rows.append({"image_id": f"{label}/{number:05d}#{index}", "score": score})
    run, _ = run_of(tmp_path, prompts, f"results:{table(tmp_path / 'scores.csv', rows)}")
    found = scores_of(run)
    assert found["win_rate", "first", "second"].value == pytest.approx((0.5 + 0) / 2)
    assert found["preference_score", "first"].value == pytest.approx((2 + 0) / 2)
    assert found["preference_score", "first"].n_used == 4


def test_labels_and_settings(tmp_path, sets):
    scores = table(
        tmp_path / "scores.csv",
        [{"image_id": f"{label}/{n:05d}", "score": n} for label in ("base", "tuned") for n in range(4)],
    )
    run, _ = run_of(tmp_path, sets, f"results:{scores}", "--label-a", "base", "--label-b", "tuned")
    assert scores_of(run)["win_rate", "base", "tuned"].value == 0.5
    assert api.report(tmp_path / "W", out=tmp_path / "page")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "oracle", "--images-b", "{second}"), "name the first"),
        (("--images", "{first}", "--label-a", "x"), "name the second"),
        (("--images", "{first}", "--images-b", "{second}", "--label-a", "x", "--label-b", "x"), "both sets"),
        (("--images", "{first}", "--rule", "group_by=hue"), "no facet 'hue'"),
        (("--images", "{list}"), "no file_path"),
    ],
)
def test_wrong_use_says_what_to_do(tmp_path, sets, words, message):
    places = {"first": tmp_path / "first", "second": tmp_path / "second", "list": sets}
    words = [word.format(**places) for word in words]
    with pytest.raises(UsageError, match=message):
        verism("run", "preference", *words, "--prompts", sets, "--scorer", "truth", "--out", tmp_path / "W")


def test_results_of_two_scorers_in_one_file_are_refused(tmp_path, sets):
    rows = [{"image_id": "00000", "score": 1, "scorer": "HPSv2"}, {"image_id": "00001", "score": 1, "scorer": "HPSv3"}]
    file = table(tmp_path / "scores.csv", rows)
    words = ("--images", tmp_path / "first", "--prompts", sets, "--out", tmp_path / "W")
    with pytest.raises(UsageError, match="2 scorers"):
        verism("run", "preference", *words, "--scorer", f"results:{file}")


# ------------------------------------------------------------------------------------------------------------- prompts
def test_prompts_of_hpsv2_and_hpsv3_layouts(tmp_path):
    styles = tmp_path / "styles"
    styles.mkdir()
    for style in ("anime", "photo"):
        (styles / f"{style}.json").write_text(json.dumps([f"{style} one", f"{style} two"]), encoding="utf-8")
    listed = read_prompts(styles)
    assert [p.prompt_id for p in listed] == ["anime/00000", "anime/00001", "photo/00000", "photo/00001"]
    assert listed[3].facets == {"style": "photo"}
    noise(tmp_path / "made" / "anime" / "00001.jpg", 0)
    noise(tmp_path / "made" / "photo" / "00000.jpg", 1)
    matched = matched_images(tmp_path / "made", {p.prompt_id: p.text for p in listed}, "--images")
    assert [(image.prompt_id, image.index) for image in matched] == [("anime/00001", 0), ("photo/00000", 0)]

    (tmp_path / "three" / "food").mkdir(parents=True)
    (tmp_path / "three" / "food" / "7.txt").write_text("soup\n", encoding="utf-8")
    (only,) = read_prompts(tmp_path / "three")
    assert (only.prompt_id, only.text, only.facets) == ("food/7", "soup", {"category": "food"})


def test_prompt_ids_that_look_like_numbers_of_images_stay_apart(tmp_path):
    texts = {"a": "x", "a_1": "y"}
    noise(tmp_path / "a.png", 0)
    noise(tmp_path / "a_1.png", 1)
    matched = matched_images(tmp_path, texts, "--images")
    assert [(image.prompt_id, image.index) for image in matched] == [("a", 0), ("a_1", 0)]


def test_table_of_images_names_prompts_by_id_or_text(tmp_path):
    file = table(
        tmp_path / "images.csv",
        [{"file_path": "x.png", "prompt": "two owls"}, {"file_path": "y.png", "prompt": "two owls"}],
    )
    matched = matched_images(file, {"00001": "two owls"}, "--images")
    assert [(image.prompt_id, image.index) for image in matched] == [("00001", 0), ("00001", 1)]
    with pytest.raises(UsageError, match="2 prompts have this text"):
        matched_images(file, {"00001": "two owls", "00002": "two owls"}, "--images")


# --------------------------------------------------------------------------------------------------------------- truth
def test_scripted_images_have_the_known_quality_and_rate(tmp_path):
    done = verism(
        "run", "preference", "--model", "scripted:error=0.5", "--scorer", "truth", "--limit", 16, "--size", 64,
        "--out", tmp_path / "R",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    run = package.open_run(tmp_path / "R")
    notes = run.read("images").select("image_id", "note").rows()
    right = {image_id: float(note == "rendered as asked") for image_id, note in notes}
    assert 0 < sum(right.values()) < 16
    given = dict(run.verdicts().filter(rule="preference_score").select("image_id", "value").rows())
    assert given == right
    assert scores_of(run)["preference_score",].value == pytest.approx(sum(right.values()) / 16)


# --------------------------------------------------------------------------------------------------------------- model
def test_pickscore_runs_through_the_command_line_and_equals_the_formula(tmp_path, sets):
    import torch
    from transformers import CLIPModel

    from verism.judges.embedding.clip import ClipJudge
    from verism.records import EmbeddingNeed, LoadedImage

    weights = tiny_clip(tmp_path / "tiny", dim=8)
    see_through = Image.open(tmp_path / "second" / "00002.png").convert("RGBA")  # on which released programs fail
    see_through.save(tmp_path / "second" / "00002.png")
    run, output = run_of(tmp_path, sets, f"pickscore:{weights}?batch_size=3")
    assert "PickScore" in output
    given = dict(run.verdicts().filter(rule="preference_score").select("image_id", "value").rows())
    assert len(given) == 8
    # The same by the other judge's vectors: exp(scale) times the cosine.
    clip = ClipJudge(str(weights))
    scale = float(CLIPModel.from_pretrained(weights).logit_scale.detach().exp())
    for number, text in enumerate(PROMPTS):
        for label in ("first", "second"):
            pixels = np.asarray(Image.open(tmp_path / label / f"{number:05d}.png").convert("RGB"))
            image = LoadedImage(image_id="i", prompt_id="p", pixels=pixels)
            vectors = [
                torch.tensor(frame["vector"][0].to_list())
                for frame in (clip.observe([image], EmbeddingNeed(texts=())), clip.embed_texts([text]))
            ]
            cosine = float(torch.nn.functional.cosine_similarity(*vectors, dim=0))
            assert given[f"{label}/{number:05d}#0"] == pytest.approx(scale * cosine, abs=1e-4)
    assert len({round(value, 3) for value in given.values()}) == 8


@pytest.mark.usefixtures("sets")
def test_pickscore_says_which_prompts_it_cut(tmp_path):
    prompts = table(tmp_path / "long.csv", [{"prompt": "a" * 200}, {"prompt": "b"}])
    weights = tiny_clip(tmp_path / "tiny", dim=8)
    with pytest.warns(UserWarning, match="1 prompt.* were cut to the 77 tokens"):
        done = verism(
            "run", "preference", "--images", tmp_path / "first", "--prompts", prompts, "--scorer",
            f"pickscore:{weights}", "--out", tmp_path / "W",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "1 of 2 images have prompts longer than the scorer reads" in done.output


def test_pickscore_refuses_a_model_that_is_no_clip(tmp_path, sets):
    from tiny_models import tiny_siglip

    weights = tiny_siglip(tmp_path / "tiny")
    words = ("--images", tmp_path / "first", "--prompts", sets, "--out", tmp_path / "W")
    with pytest.raises(UsageError, match="not a CLIP"):
        verism("run", "preference", *words, "--scorer", f"pickscore:{weights}")
