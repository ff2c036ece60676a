"""OneIG alignment and UniGenBench through the command line: released layouts, arithmetic by hand, defects."""

import csv
import json

import numpy as np
import polars as pl
import pytest
from commands import verism
from PIL import Image

from verism import api

QUESTIONS = {
    "anime": {"000": ({"1": "Is there a cat?", "2": "Is the cat asleep?", "3": "Does it dream?"},
                      {"1": [0], "2": [1], "3": [2]})},
    "object": {"007": ({"1": "Is there a lamp?", "2": "Is it lit?"}, {"1": [0], "2": [1, 9]})},
}  # fmt: skip
CATEGORIES = {"anime": "Anime_Stylization", "object": "General_Object"}


def noise(side, seed):
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def scores_of(run):
    return {(s.metric, s.protocol, *s.group.values()): s for s in run.scores()}


def run(suite, *words, out, missing=False):
    done = verism("run", suite, *words, "--out", out)
    assert done.exit_code == missing, done.output
    return api.open_run(out)


def table(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def answered(folder, suite, reply, *words):
    done = verism("questions", suite, *words)
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(done.stdout.splitlines()))
    for row in rows:
        row["answer"] = reply(row["prompt_id"], int(row["index"]), row["question"])
    return table(folder / "answers.csv", rows)


# --------------------------------------------------------------------------------------------------------------- OneIG
@pytest.fixture
def oneig(tmp_path):
    """The list, the folder of questions with JSON inside JSON, and grids in the released layout."""
    rows = [
        {"category": CATEGORIES[name], "id": key, "prompt_en": f"{name} {key}", "type": "T", "prompt_length": "short",
         "class": "c"}
        for name, by_id in QUESTIONS.items()
        for key in by_id
    ]  # fmt: skip
    rows.append(rows[0] | {"category": "Text_Rendering", "id": "001"})
    table(tmp_path / "OneIG-Bench.csv", rows)
    folder = tmp_path / "Q_D"
    folder.mkdir()
    for name, by_id in QUESTIONS.items():
        record = {k: {"question": json.dumps(q), "dependency": json.dumps(d)} for k, (q, d) in by_id.items()}
        (folder / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    for seed, (name, key) in enumerate((("anime", "000"), ("object", "007"))):
        grids = tmp_path / "images" / name / "mine"
        grids.mkdir(parents=True)
        grid = noise(64, seed)
        if name == "object":
            grid[32:, 32:] = 0  # a black cell
        Image.fromarray(grid).save(grids / f"{key}_grid.png")
    return ("--prompts", tmp_path / "OneIG-Bench.csv", "--questions", folder, "--own", "true")


def test_oneig_by_hand_with_a_black_cell_and_the_plain_rule(tmp_path, oneig):
    def reply(prompt, index, question):
        if prompt == "anime_000":
            return "No" if question.startswith("Is there a cat?") else "Yes"
        return "yes" if (index, question[:8]) == (0, "Is it li") else "Yes"

    given = answered(tmp_path, "oneig_alignment", reply, *oneig)
    words = (*oneig, "--images", tmp_path / "images", "--grid", "true", "--image-model", "mine")
    done = run("oneig_alignment", *words, "--vqa", f"results:{given}", out=tmp_path / "run", missing=True)
    found = scores_of(done)
    images = done.read("images").filter(pl.col("prompt_id") == "object_007").sort("index")
    assert images["state"].to_list() == ["ok", "ok", "ok", "blank"]
    # The cat: asleep falls with the cat, the dream stands by sleep's own Yes: 1/3. The lamp: "yes" is no Yes.
    assert found["oneig_alignment", "released"].value == pytest.approx((1 / 3 + (0.5 + 1 + 1) / 3) / 2)
    assert found["oneig_alignment", "revised"].value == pytest.approx((1 / 3 + 1) / 2)
    assert (found["oneig_alignment", "revised"].n_used, found["oneig_alignment", "revised"].n_unusable) == (7, 1)
    assert found["oneig_alignment", "revised", "anime"].value == pytest.approx(1 / 3)
    questions = done.read("answers", done.judge("vqa"))["question"]
    assert all(q.endswith("?. Please answer 'Yes' or 'No' only.") for q in questions if q)
    assert any("defects: 1 dependencies" in line for line in done.manifest.scoring.remarks)
    assert verism("score", tmp_path / "run", "--rule", "dependency=cascading").exit_code == 0
    again = scores_of(api.open_run(tmp_path / "run"))
    assert again["oneig_alignment", "revised"].value == pytest.approx((0 + 1) / 2)


def test_oneig_counts_and_what_does_not_fit(tmp_path, oneig):
    call = ("run", "oneig_alignment", "--model", "oracle", "--vqa", "truth", "--out", tmp_path / "run")
    with pytest.raises(api.UsageError, match=r"of anime 1 prompts and 3 questions, expected 245 and 4,176"):
        verism(*call, *oneig[:4])
    with pytest.raises(api.UsageError, match="has prompts and no questions"):
        verism(*call, *oneig[:2])
    with pytest.raises(api.UsageError, match="has questions and no prompts"):
        verism(*call, *oneig[2:])
    (tmp_path / "images" / "anime" / "mine" / "000_again.png").write_bytes(b"x")
    words = (*oneig, "--images", tmp_path / "images", "--grid", "true", "--image-model", "mine", "--vqa", "truth")
    with pytest.raises(api.UsageError, match="begin with the id 000; keep one"):
        verism("run", "oneig_alignment", *words, "--out", tmp_path / "run")


# --------------------------------------------------------------------------------------------------------- UniGenBench
POINTS = {
    "0": ("an ink drawing of two cranes", ["Style", "Attribute - Quantity"], ["ink drawing", "two cranes"]),
    "1": ("a red cube", ["Attribute - Color"], ["the cube is red"]),
}


@pytest.fixture
def unigenbench(tmp_path):
    rows = [
        {"index": key, "prompt_en": text,
         "sub_dims_en": json.dumps({"Testpoints": points, "Testpoint Description": described})}
        for key, (text, points, described) in POINTS.items()
    ]  # fmt: skip
    folder = tmp_path / "images"
    folder.mkdir()
    for key in POINTS:
        for index in range(4):
            Image.fromarray(noise(24, index)).save(folder / f"{key}_{index}.png")
    return table(tmp_path / "test_prompts_en.csv", rows), folder


def results(path, left_out=()):
    """Results in the released form: image 3 of the cranes shows one crane alone."""
    rows = []
    for key, (text, points, _) in POINTS.items():
        for index in range(4):
            if (key, index) in left_out:
                continue
            scores = [0 if (key, index, point) == ("0", 3, "Attribute - Quantity") else 1 for point in points]
            record = {"prompt": text, "testpoint": points, "analysis": ["a"] * len(points), "score": scores}
            rows.append({"index": key, "prompt": text, "testpoint": str(points), "output": "...",
                         "result_json": json.dumps(record), "img_path": f"/data/{key}_{index}.png"})  # fmt: skip
    return table(path, rows)


def test_unigenbench_scores_released_results_by_hand(tmp_path, unigenbench):
    prompts, folder = unigenbench
    made = verism(
        *("unigenbench", "answers", results(tmp_path / "r.csv"), "--prompts", prompts),
        *("--out", tmp_path / "answers.csv"),
    )
    assert "12 answers" in made.output
    words = ("--prompts", prompts, "--own", "true", "--images", folder, "--vqa", f"results:{tmp_path / 'answers.csv'}")
    found = scores_of(run("unigenbench", *words, out=tmp_path / "run"))
    assert found["unigenbench_score", "released"].value == pytest.approx(11 / 12)  # pooled
    assert found["unigenbench_score", "revised"].value == pytest.approx(((2 * 4 - 1) / 8 + 1) / 2)
    assert found["category_score", "released", "Attribute"].value == pytest.approx(7 / 8)
    assert found["category_score", "released", "Attribute - Quantity"].value == pytest.approx(3 / 4)
    assert found["category_score", "released", "Style"].n_used == 4


def test_unigenbench_skips_what_has_no_result_as_released_and_counts_it(tmp_path, unigenbench):
    prompts, folder = unigenbench
    path = results(tmp_path / "r.csv", left_out={("0", 3)})
    verism("unigenbench", "answers", path, "--prompts", prompts, "--out", tmp_path / "answers.csv")
    words = ("--prompts", prompts, "--own", "true", "--images", folder, "--vqa", f"results:{tmp_path / 'answers.csv'}")
    found = scores_of(run("unigenbench", *words, out=tmp_path / "run"))
    assert found["unigenbench_score", "released"].value == 1.0  # the failure is gone, and the score rises
    assert (found["unigenbench_score", "released"].n_used, found["unigenbench_score", "released"].n_unusable) == (7, 1)
    assert found["answered", "revised"].n_unusable == 2
    assert found["unigenbench_score_if_unusable_wrong", "revised"].value == pytest.approx((6 / 8 + 1) / 2)


def test_unigenbench_files_that_do_not_fit(tmp_path, unigenbench):
    prompts, _ = unigenbench
    with pytest.raises(api.UsageError, match=r"2 prompts with 3 test points of 3 kinds, expected 600, 1,813 and 27"):
        verism(
            *("run", "unigenbench", "--prompts", prompts, "--model", "oracle", "--vqa", "truth"),
            *("--out", tmp_path / "run"),
        )
    rows = [{"index": "9", "testpoint": "x", "result_json": "{'testpoint': ['Style'], 'score': [1]}",
             "img_path": "9_0.png"}]  # fmt: skip
    with pytest.raises(api.UsageError, match="results are of a prompt '9'"):
        verism(
            *("unigenbench", "answers", table(tmp_path / "r.csv", rows), "--prompts", prompts),
            *("--out", tmp_path / "a.csv"),
        )


@pytest.mark.parametrize("suite", ["oneig_alignment", "unigenbench"])
def test_offline_oracle_is_right_under_every_protocol(tmp_path, suite):
    words = ("--model", "oracle", "--vqa", "truth", "--limit", 3, "--n-images", 1, "--size", 64)
    done = run(suite, *words, out=tmp_path / "run")
    main = [s for s in done.scores() if s.metric in ("oneig_alignment", "unigenbench_score", "true_score")]
    assert len(main) >= 3
    assert {s.value for s in main} == {1.0}
