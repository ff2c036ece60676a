"""WISE: both editions by hand, replies as they come, files, and runs that must not be compared."""

import json

import numpy as np
import pytest
from commands import verism
from PIL import Image
from tiny_vision_language import qwen2_vl

from verism import api
from verism.errors import UsageError
from verism.suites.questions.asked import AskedQuestion, as_spec, questions_of
from verism.suites.questions.switches import Reply, own_value
from verism.suites.wise.benchmark import CATEGORIES, LEVELS, category_of, our_wording, read_prompts, read_wording

# Prompts of our own making in the released form; the ids decide the categories of an edition.
PROMPTS = {
    1: ("the dish eaten at the harvest feast of a far country", "a bowl of red soup"),
    401: ("a street an hour after the street lamps went on", "a dark street with lit lamps"),
    550: ("the side of the moon that nobody sees from here", "the far side of the moon, with craters"),
    900: ("what becomes of iron in the rain", "rust"),
}


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "own_verified.json"
    records = [
        {"prompt_id": key, "Prompt": text, "Explanation": why, "Category": "c", "Subcategory": "s"}
        for key, (text, why) in PROMPTS.items()
    ]
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


@pytest.fixture
def legacy(prompts):
    return prompts.rename(prompts.with_name("own.json"))


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for key in PROMPTS:
        pixels = np.random.default_rng(key).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{key}.png")
    return folder


def answers(path, edition, replies):
    """A file of replies to the questions that the suite asks."""
    wording = our_wording(edition).text
    rows = []
    for key, reply in replies.items():
        text, why = PROMPTS[key]
        question = wording.replace("{explanation}", why).replace("{prompt}", text)
        rows.append({"prompt_id": str(key), "question": question, "answer": reply})
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def run(out, prompts, images, told, *words):
    done = verism("run", "wise", "--prompts", prompts, "--own", "true", "--images", images, "--vqa", f"results:{told}",
                  *words, "--out", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    return api.open_run(out)


def scores_of(finished):
    return {(s.metric, s.protocol, *s.group.values()): s for s in finished.scores()}


# ----------------------------------------------------------------------------------------------------------- 1. replies
@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("I see rust.\nScore: 1", 1),
        ("Score: 0", 0),
        ("It is right.\n\n**Score: 1**\n", 1),
        ("score - 1.", 1),
        ("Score: 1\nbut I am not sure", None),
        ("Score: 0/1", None),
        ("Score: 2", None),
        ("1", None),
        ("", None),
    ],
)
def test_the_last_line_decides(reply, value):
    assert own_value(AskedQuestion(name="score", text=""), Reply(text=reply), "score_line") == value


@pytest.mark.parametrize(
    ("reply", "strict", "released"),
    [
        ("Consistency: 2\nRealism: 1\nAesthetic Quality: 0", (1.0, 0.5, 0.0), (1.0, 0.5, 0.0)),
        ("**Consistency**: 2, Realism - 1, aesthetic quality = 2", (1.0, 0.5, 1.0), (1.0, 0.5, 1.0)),
        ("Consistency: 7\nRealism: 1\nAesthetic Quality: 2", (None, 0.5, 1.0), (3.5, 0.5, 1.0)),
        ("Consistency: 2 of 2", (1.0, None, None), (1.0, None, None)),
        ("Consistency: 1.5", (None, None, None), (0.5, None, None)),
        ("Consistency: 1\nConsistency: 2", (None, None, None), (0.5, None, None)),
        ("no idea", (None,) * 3, (None,) * 3),
    ],
)
def test_levels_strictly_and_as_released(reply, strict, released):
    questions = [AskedQuestion(name=name, text="", highest=2) for name in LEVELS]
    assert tuple(own_value(q, Reply(text=reply), "level") for q in questions) == strict
    assert tuple(own_value(q, Reply(text=reply), "digit") for q in questions) == released


def test_weights_survive_being_stored_and_usual_ones_are_not():
    plain, graded = AskedQuestion(name="1", text="q"), AskedQuestion(name="2", text="q", weight=0.7, highest=2)
    spec = json.loads(json.dumps({"questions": as_spec([plain, graded])}))
    assert questions_of(spec) == (plain, graded)
    assert "weight" not in spec["questions"][0]
    assert "highest" not in spec["questions"][0]


# ------------------------------------------------------------------------------------------------------------- 2. files
def test_one_id_is_of_two_categories():
    assert [category_of(550, edition) for edition in CATEGORIES] == ["space", "time"]
    for ranges in CATEGORIES.values():
        ends = [end for _, end in ranges.values()]
        assert [first for first, _ in ranges.values()] == [1, *(end + 1 for end in ends[:-1])]
        assert ends[-1] == 1000


@pytest.mark.parametrize(
    ("records", "match"),
    [
        ({}, "no list of prompts"),
        ([{"prompt_id": "x", "Prompt": "p"}], "prompt_id is a whole number"),
        ([{"prompt_id": 1, "Prompt": ""}], "are texts"),
        ([{"prompt_id": 1, "Prompt": "p"}, {"prompt_id": 1, "Prompt": "q"}], "the id 1 is there twice"),
    ],
)
def test_other_formats_are_named(tmp_path, records, match):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    with pytest.raises(UsageError, match=match):
        read_prompts(path, "verified", our_wording("verified"))


def test_a_folder_holds_both_editions_and_one_is_taken(tmp_path, prompts):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a_verified.json").write_bytes(prompts.read_bytes())
    (folder / "a.json").write_text('[{"prompt_id": 7, "Prompt": "p"}]', encoding="utf-8")
    of_edition = {e: read_prompts(folder, e, our_wording(e))[0] for e in CATEGORIES}
    assert [p.prompt_id for p in of_edition["verified"]] == ["1", "401", "550", "900"]
    assert [p.prompt_id for p in of_edition["legacy"]] == ["7"]
    assert [q.weight for q in of_edition["legacy"][0].questions] == [0.7, 0.2, 0.1]


def test_the_edition_has_to_be_known(tmp_path, legacy, images):
    words = ("--own", "true", "--images", images, "--vqa", "truth", "--out", tmp_path / "x")
    with pytest.raises(UsageError, match="give --edition verified or --edition legacy"):
        verism("run", "wise", "--prompts", legacy, *words)
    named = legacy.rename(legacy.with_name("p_verified.json"))
    with pytest.raises(UsageError, match="of the verified edition by its name, and --edition says legacy"):
        verism("run", "wise", "--prompts", named, "--edition", "legacy", *words)
    with pytest.raises(UsageError, match=r"1 prompts of culture \(ids 1 to 400\), expected 400.*--own true"):
        verism("run", "wise", "--prompts", named, "--images", images, "--vqa", "truth", "--out", tmp_path / "x")


def test_words_of_the_user(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("Look at {prompt}. Say Score: 0 or Score: 1", encoding="utf-8")
    wording = read_wording(path)
    assert wording.text.startswith("Look at {prompt}")
    assert wording.source.startswith("words.txt@")
    path.write_text("Look.", encoding="utf-8")
    with pytest.raises(UsageError, match=r"no .prompt. in it"):
        read_wording(path)


# -------------------------------------------------------------------------------------------------------------- 3. runs
REPLIES = {1: "Score: 1", 401: "Score: 0", 550: "so so\nScore: 1", 900: "rust!"}


def test_verified_by_hand(tmp_path, prompts, images):
    told = answers(tmp_path / "a.jsonl", "verified", REPLIES)
    finished = run(tmp_path / "run", prompts, images, told)
    found = scores_of(finished)
    # The category of 900 has no usable answer, so there is no number in all: the others do not stand for it.
    assert np.isnan(found["wiscore_verified", "revised"].value)
    assert found["wiscore_verified", "revised"].n_unusable == 1
    assert found["wiscore_verified", "revised", "culture"].value == 1
    assert found["wiscore_verified", "revised", "time"].value == 0
    assert found["wiscore_verified_if_unusable_wrong", "revised"].value == pytest.approx(2 / 4)
    assert np.isnan(found["wiscore_verified", "released"].value)
    remarks = " ".join(finished.manifest.scoring.remarks)
    assert "edition: verified" in remarks
    assert "1 of 4 replies could not be read" in remarks
    assert "words of ours" in remarks


def test_categories_keep_their_weight_where_images_are_missing(tmp_path, prompts, images):
    records = json.loads(prompts.read_text(encoding="utf-8"))
    records += [{**records[0], "prompt_id": key} for key in (2, 3)]
    prompts.write_text(json.dumps(records), encoding="utf-8")
    for key in (2, 3):
        (images / f"{key}.png").write_bytes((images / "1.png").read_bytes() + b"\0")
        PROMPTS[key] = PROMPTS[1]
    try:
        replies = {1: "Score: 1", 2: "", 3: "", 401: "Score: 0", 550: "Score: 0", 900: "Score: 0"}
        told = answers(tmp_path / "a.jsonl", "verified", replies)
    finally:
        for key in (2, 3):
            del PROMPTS[key]
    found = scores_of(run(tmp_path / "run", prompts, images, told))
    assert found["wiscore_verified", "revised"].value == pytest.approx(3 / 6)  # and not 1 of 4
    assert found["wiscore_verified", "revised"].n_unusable == 2


def test_legacy_by_hand(tmp_path, legacy, images):
    replies = {
        1: "Consistency: 2\nRealism: 1\nAesthetic Quality: 2",
        401: "Consistency: 1\nRealism: 2\nAesthetic Quality: 0",
        550: "Consistency: 0\nRealism: 0\nAesthetic Quality: 1",
        900: "Consistency: 2\nRealism: 2\nAesthetic Quality: 4",
    }
    told = answers(tmp_path / "a.jsonl", "legacy", replies)
    found = scores_of(run(tmp_path / "run", legacy, images, told, "--edition", "legacy"))
    by_hand = [(0.7 * c + 0.2 * r + 0.1 * a) / 2 for c, r, a in ((2, 1, 2), (1, 2, 0), (0, 0, 1), (2, 2, 4))]
    assert found["wiscore_legacy", "released"].value == pytest.approx(np.mean(by_hand))
    assert found["wiscore_legacy", "revised", "culture"].value == pytest.approx(by_hand[0])
    assert found["wiscore_legacy", "revised", "time"].value == pytest.approx(np.mean(by_hand[1:3]))  # 401 and 550
    # The 4 is no level: the whole image is left out, not two thirds of it kept.
    assert found["wiscore_legacy", "revised", "physics"].n_unusable == 1
    assert found["level_mean_legacy", "released", "realism"].value == pytest.approx((1 + 2 + 0 + 2) / 8)


def test_editions_and_wordings_are_not_compared(tmp_path, prompts, images):
    verified = answers(tmp_path / "a.jsonl", "verified", dict.fromkeys(PROMPTS, "Score: 1"))
    run(tmp_path / "a", prompts, images, verified)
    older = prompts.rename(prompts.with_name("old.json"))
    told = answers(tmp_path / "b.jsonl", "legacy", dict.fromkeys(PROMPTS, "Consistency: 2"))
    run(tmp_path / "b", older, images, told, "--edition", "legacy")
    with pytest.raises(UsageError, match=r"judged by other questions \(edition: verified and legacy\)"):
        verism("compare", tmp_path / "a", tmp_path / "b")
    metrics = [{metric for metric, *_ in scores_of(api.open_run(tmp_path / name))} for name in "ab"]
    assert metrics[0] & metrics[1] == {"answered"}  # every number that could be taken for the other names its edition


def test_oracle_knows_everything_and_scripted_errors_are_found(tmp_path):
    words = ("--vqa", "truth", "--limit", 6, "--size", 64)
    for model, value in (("oracle", 1.0), ("scripted:error=1", 0.0)):
        out = tmp_path / model[:3]
        assert verism("run", "wise", "--model", model, *words, "--out", out).exit_code == 0
        found = scores_of(api.open_run(out))
        assert found["wiscore_verified", "revised"].value == found["wiscore_verified", "released"].value == value
    with pytest.raises(UsageError, match="as in the verified edition"):
        verism("run", "wise", "--edition", "legacy", "--model", "oracle", *words, "--out", tmp_path / "x")


def test_a_tiny_judge_replies_something_that_is_no_score(tmp_path, prompts, images):
    judge = qwen2_vl(tmp_path / "judge")
    done = verism("run", "wise", "--prompts", prompts, "--own", "true", "--images", images, "--vqa", str(judge),
                  "--out", tmp_path / "run")  # fmt: skip
    assert done.exit_code == 0, done.output
    finished = api.open_run(tmp_path / "run")
    assert "max_new_tokens=500" in " ".join(finished.manifest.scoring.remarks)
    assert scores_of(finished)["answered", "revised"].value == 0
