"""TIFA through the command line: questions with choices, free replies, the released map of images, ratings."""

import json

import numpy as np
import pytest
import torch
from commands import verism
from PIL import Image
from tiny_vision_language import tokenizer
from transformers import BertConfig, BertModel

from verism import api

# Questions of our own making in the released form.
OWN = [
    ("coco_1", "a blue kettle and two cups", "is there a kettle?", ["yes", "no"], "yes", "object"),
    ("coco_1", "a blue kettle and two cups", "what colour is the kettle?", ["blue", "red", "green"], "blue", "color"),
    ("coco_1", "a blue kettle and two cups", "how many cups are there?", ["1", "2", "3"], "2", "counting"),
    ("drawbench_2", "a fox", "is there a fox?", ["yes", "no"], "yes", "animal/human"),
]


def written(folder, rows=OWN, **changes):
    fields = ("id", "caption", "question", "choices", "answer", "element_type")
    records = [dict(zip(fields, row, strict=True)) for row in rows]
    records[-1] |= changes
    path = folder / "questions.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        Image.fromarray(rng.integers(0, 256, (48, 48, 3), dtype=np.uint8)).save(tmp_path / f"{name}.png")
    path = tmp_path / "images.json"
    path.write_text(json.dumps({"coco_1": "a.png", "drawbench_2": "b.png", "other": "c.png"}), encoding="utf-8")
    return path


def answers(folder, *replies):
    path = folder / "answers.jsonl"
    lines = [
        json.dumps({"item_id": row[0], "question": row[2], "answer": reply})
        for row, reply in zip(OWN, replies, strict=True)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def run(*words, out, missing=False):
    done = verism("run", "tifa", *words, "--out", out)
    assert done.exit_code == missing, done.output
    return api.open_run(out)


def scores_of(run):
    return {(s.metric, s.protocol, *s.group.values()): s for s in run.scores()}


def test_oracle_and_planted_errors_with_choices(tmp_path):
    small = ("--vqa", "truth", "--limit", 8, "--size", 64)
    right = scores_of(run("--model", "oracle", *small, out=tmp_path / "right"))
    assert right["tifa_score", "revised"].value == right["tifa_score", "released"].value == 1.0
    done = run("--model", "scripted:error=1", *small, out=tmp_path / "wrong")
    wrong = scores_of(done)
    assert wrong["tifa_score", "revised"].value <= wrong["true_score", "revised"].value + 1e-9 < 0.9
    answers = done.read("answers", "truth")
    assert set(answers["answer"].to_list()) > {"yes", "no"}  # colours and numbers, too


def test_scores_by_hand_and_spread_over_images(tmp_path, images):
    given = answers(tmp_path, "yes", "Red.", "two", "no")
    words = ("--prompts", written(tmp_path), "--own", "true", "--images", images, "--vqa", f"results:{given}")
    done = run(*words, out=tmp_path / "run")
    found = scores_of(done)
    # The kettle's image: yes, red for blue, "two" read as 2: 2/3. The fox: 0.
    assert found["tifa_score", "revised"].value == pytest.approx((2 / 3 + 0) / 2)
    assert found["tifa_stdev", "revised"].value == pytest.approx(np.std([2 / 3, 0], ddof=1))
    assert found["category_score", "revised", "counting"].value == 1.0
    assert found["tifa_score", "revised", "drawbench"].value == 0.0
    # "Red." and "two" are no choices to the letter; nobody embedded them, so released has no number and says why.
    assert np.isnan(found["tifa_score", "released"].value)
    assert any("2 replies are none of the choices, and no judge embedded" in r for r in done.manifest.scoring.remarks)
    # To the letter: "choice" takes them for no answers.
    assert verism("score", tmp_path / "run", "--rule", "answer_test=choice").exit_code == 0
    again = scores_of(api.open_run(tmp_path / "run"))
    assert again["tifa_score", "revised"].value == pytest.approx((1 + 0) / 2)
    assert again["answered", "revised"].n_unusable == 2


def test_nearest_choice_gives_the_released_number(tmp_path, images):
    torch.manual_seed(0)
    vocabulary = tokenizer("[PAD]", pad_token="[PAD]")
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config).save_pretrained(tmp_path / "bert")
    vocabulary.save_pretrained(tmp_path / "bert")
    given = answers(tmp_path, "yes", "a blue thing", "2", "yes")
    words = ("--prompts", written(tmp_path), "--own", "true", "--images", images, "--device", "cpu")
    done = run(*words, "--vqa", f"nearest:{tmp_path / 'bert'}?vqa=results:{given}", out=tmp_path / "run")
    compared = done.read("answer_similarities", done.judge("vqa"))
    assert compared["choice"].to_list() == ["blue", "red", "green"]
    cosines = compared["cosine"].to_list()
    nearest = ("blue", "red", "green")[int(np.argmax(cosines))]  # the first of equals
    found = scores_of(done)
    expected = ((2 + (nearest == "blue")) / 3 + 1) / 2
    assert found["tifa_score", "released"].value == pytest.approx(expected)
    assert found["answered", "revised"].n_unusable == 1  # read strictly, it is no answer


def test_missing_image_leaves_no_released_number(tmp_path, images):
    images.write_text(json.dumps({"coco_1": "a.png"}), encoding="utf-8")
    given = answers(tmp_path, "yes", "blue", "2", "yes")
    words = ("--prompts", written(tmp_path), "--own", "true", "--images", images, "--vqa", f"results:{given}")
    found = scores_of(run(*words, out=tmp_path / "run", missing=True))
    assert found["tifa_score", "revised"].value == 1.0
    assert (found["tifa_score", "revised"].n_used, found["tifa_score", "revised"].n_unusable) == (1, 1)
    assert np.isnan(found["tifa_score", "released"].value)
    assert found["tifa_score_if_unusable_wrong", "revised"].value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": "maybe"}, "entry 4: the answer 'maybe' is none of the choices yes, no"),
        ({"choices": []}, "entry 4: choices is a list of texts"),
        ({"caption": 3}, "entry 4: caption, question, answer and element_type are texts"),
        ({"id": "coco_1"}, "the id coco_1 is of 'a blue kettle and two cups' and of 'a fox'"),
        ({}, "2 captions, expected 4,081"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, changes, message):
    with pytest.raises(api.UsageError, match=message):
        verism(
            *("run", "tifa", "--prompts", written(tmp_path, **changes)),
            *("--model", "oracle", "--vqa", "truth", "--out", tmp_path / "run"),
        )


def test_agreement_with_ratings_by_pearson_and_spearman(tmp_path):
    values = {"a": (5, 1.0), "b": (4, 0.9), "c": (2, 0.8), "d": (1, 0.0)}
    records = {
        f"t{name}_m": {"text_id": f"t{name}", "text": "x", "human_scores": [r, r], "human_avg": r, "tifa_x": score}
        for name, (r, score) in values.items()
    }
    path = tmp_path / "ratings.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    done = json.loads(verism("tifa", "human", path, "--json").output)
    assert list(done) == ["tifa_x"]
    assert done["tifa_x"]["spearman"]["value"] == pytest.approx(1.0)
    assert done["tifa_x"]["pearson"]["value"] == pytest.approx(np.corrcoef([5, 4, 2, 1], [1.0, 0.9, 0.8, 0.0])[0, 1])
    assert "tifa_x" in verism("tifa", "human", path).output


def test_what_is_printed_as_spearman_is_pearson():
    records = json.loads(verism("reproduce", "tifa", "--json").output)
    misprints = [r for r in records if r["verdict"] == "known misprint"]
    assert len(misprints) == 10
    assert all("Pearson" in r["why"] for r in misprints)
