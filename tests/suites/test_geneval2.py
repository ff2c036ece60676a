"""GenEval 2: the user's file and its structure, Soft-TIFA by hand, a run with a tiny chat model."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from block_scoring import assert_equal_in_blocks
from fakes import Guesser
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tiny_vision_language import qwen2_vl

from verism import api
from verism.errors import UsageError
from verism.suites.geneval2.questions import STRUCTURE, read_asked, strings_of, structure_problem
from verism.suites.geneval2.soft_tifa import arithmetic_mean, geometric_mean, released_probability
from verism.suites.geneval2.suite import GenEval2
from verism.suites.token_probabilities import share_of_answer

# Prompts of our own making, in the released form: nothing of the released ones is here.
OWN = [
    {
        "prompt": "two green teapots",
        "atom_count": 3,
        "vqa_list": [
            ["How many teapots are in the image?", "two"],
            ["Are the teapots green?", "Yes"],
            ["Are there any teapots in the image?", "Yes"],
        ],
        "skills": ["count", "attribute", "object"],
    },
    {
        "prompt": "a ladder behind a tent",
        "atom_count": 3,
        "vqa_list": [
            ["How many ladders are in the image?", "one"],
            ["Are there any ladders in the image?", "Yes"],
            ["Is the ladder behind the tent?", "Yes"],
            ["How many tents are in the image?", "one"],
            ["Are there any tents in the image?", "Yes"],
        ],
        "skills": ["count", "object", "position", "count", "object"],
    },
]


def written(folder: Path, records=OWN) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


# ----------------------------------------------------------------------------------------------------------------- file
def test_without_a_file_the_suite_says_what_is_expected():
    with pytest.raises(UsageError, match=r"CC BY-NC.*--prompts FILE.*800 prompts, 6,012 questions, SHA-256 09233adb"):
        GenEval2.make({})


def test_file_of_another_structure_is_refused_unless_it_is_meant(tmp_path):
    path = written(tmp_path)
    with pytest.raises(UsageError, match=r"of 3 atoms it has 2 prompts .*--own true"):
        GenEval2.make({"prompts_file": path})
    suite = GenEval2.make({"prompts_file": path, "own": True})
    assert [p.facets["atoms"] for p in suite.prompts()] == [3, 3]
    assert suite.altered.startswith("of 3 atoms")


def test_structure_adds_up_to_the_published_counts():
    totals = [sum(counts[k] for counts in STRUCTURE.values()) for k in range(5)]
    assert totals == [2025, 2025, 1214, 662, 86]
    assert sum(totals) == 6012


def test_atoms_are_questions_less_those_that_count_one(tmp_path):
    wrong = [{**OWN[1], "atom_count": 5}]
    assert "2 of which count one, and says atom_count 5" in structure_problem(read_asked(written(tmp_path, wrong)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"skills": ["count"]}, "skills as long"),
        ({"skills": ["count", "size", "object"]}, "unknown skill 'size'"),
        ({"atom_count": 0}, "atom_count is 0"),
        ({"vqa_list": [["How many?", "eleven"], ["b", "Yes"], ["c", "Yes"]]}, "'eleven', none of one, two"),
        ({"vqa_list": [["a", "two"], ["b", "No"], ["c", "Yes"]]}, "'No', none of yes"),
        ({"vqa_list": [["a", "two"], ["b", "Yes"], ["b", "Yes"]]}, "asked twice"),
        ({"vqa_list": "x"}, "list of \\[question, answer\\]"),
    ],
)
def test_wrong_lines_are_named(tmp_path, change, message):
    with pytest.raises(UsageError, match=message) as err:
        read_asked(written(tmp_path, [{**OWN[0], **change}]))
    assert "line 1" in str(err.value)
    assert "vqa_list" in str(err.value)


def test_repeated_prompts_and_other_files_are_refused(tmp_path):
    with pytest.raises(UsageError, match="more than once"):
        read_asked(written(tmp_path, [OWN[0], OWN[0]]))
    with pytest.raises(UsageError, match="it has text"):
        read_asked(written(tmp_path, [{"text": 1}]))
    with pytest.raises(UsageError, match="nothing in it"):
        read_asked(written(tmp_path, []))


# ------------------------------------------------------------------------------------------------------------ soft tifa
def test_released_sum_counts_the_bare_space_before_a_digit():
    tokens = {"two": (1, 0.3), "Two": (2, 0.1), " two": (3, 0.0), " Two": (4, 0.0), "2": (5, 0.2), " 2": (9, 0.15)}
    assert released_probability(strings_of("two"), tokens) == pytest.approx(0.75)  # 0.15 is of the bare space
    assert released_probability(("two", "three"), tokens) is None


def test_revised_share_leaves_out_tokens_that_decide_nothing():
    tokens = {"two": (1, 0.3), "2": (5, 0.2), " 2": (9, 0.15), "three": (6, 0.1), "3": (7, 0.0), " 3": (9, 0.15)}
    spellings = {"two": ("two", "2", " 2"), "three": ("three", "3", " 3")}
    share, mass = share_of_answer("two", spellings, tokens)
    assert (share, mass) == (pytest.approx(0.5 / 0.6), pytest.approx(0.6))
    assert share_of_answer("three", spellings, tokens)[0] == pytest.approx(0.1 / 0.6)
    assert share_of_answer("two", spellings, {}) == (None, 0.0)


def test_one_token_behind_two_spellings_counts_once_in_revised_and_twice_as_released():
    tokens = {"Yes": (1, 0.4), "yes": (1, 0.4), "No": (2, 0.2)}
    assert released_probability(("Yes", "yes"), tokens) == pytest.approx(0.8)
    share, _ = share_of_answer("yes", {"yes": ("Yes", "yes"), "no": ("No",)}, tokens)
    assert share == pytest.approx(0.4 / 0.6)


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=12))
def test_geometric_mean_is_never_above_the_arithmetic_one(values):
    assert geometric_mean(values) <= arithmetic_mean(values) + 1e-12
    assert geometric_mean([*values, 0.0]) == 0.0  # no floor


def test_means_of_nothing_are_undefined():
    assert math.isnan(geometric_mean([]))
    assert math.isnan(arithmetic_mean([]))


# ----------------------------------------------------------------------------------------------------------------- runs
@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Images of both prompts, listed as the released code takes them."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        Image.fromarray(rng.integers(0, 256, (56, 56, 3), dtype=np.uint8)).save(folder / f"{name}.png")
    listed = {OWN[0]["prompt"]: "a.png", OWN[1]["prompt"]: "b.png"}
    (folder / "images.json").write_text(json.dumps(listed), encoding="utf-8")
    return folder / "images.json"


def scores_of(run):
    return {(s.metric, s.protocol, *s.group.values()): s for s in run.scores()}


def test_run_with_a_chat_model_gives_every_number(tmp_path, images):
    run = api.evaluate(
        "geneval2", images=images, prompts_file=written(tmp_path), own=True, vqascore=True,
        vqa=str(qwen2_vl(tmp_path / "qwen")), out=tmp_path / "run",
    )  # fmt: skip
    found = scores_of(run)
    tokens = run.read("token_probabilities", run.judge("vqa"))
    assert tokens.height == 2 * 8 + (2 * 8 + 1 * 42) + (3 * 8 + 2 * 42)  # VQAScore twice; yes/no and number questions
    for protocol in ("released", "revised"):
        am, gm = found["soft_tifa_am", protocol].value, found["soft_tifa_gm", protocol].value
        assert 0 <= gm <= am <= 1
        assert found["soft_tifa_gm", protocol, 3].n_used == 2
        assert found["vqascore", protocol].n_used == 2
    assert found["soft_tifa_am", "released", "count"].n_used == 3  # "one" is asked, too
    # By hand: the sum over the first tokens of the four spellings of yes.
    verdicts = run.verdicts()
    row = verdicts.filter(
        (verdicts["rule"] == "question") & (verdicts["protocol"] == "released")
        & verdicts["reason"].str.starts_with("Are the teapots green?")
    ).row(0, named=True)  # fmt: skip
    asked = tokens.filter(tokens["question"].str.starts_with("Are the teapots green? Answer in one word."))
    yes = asked.filter(asked["string"].is_in(list(strings_of("yes"))))
    assert row["value"] == pytest.approx(yes["probability"].sum())
    assert any("prompts are not the released ones" in line for line in run.manifest.scoring.remarks)
    again = {(s.metric, s.protocol): s.value for s in api.score(run) if not s.group}
    before = {key: s.value for key, s in found.items() if len(key) == 2}
    assert again == pytest.approx(before, nan_ok=True)


def test_replies_of_a_file_stand_in_where_no_tokens_are_told(tmp_path, images):
    rows = [
        {"prompt": r["prompt"], "question": q + " Answer in one word.", "answer": a, "probability": p}
        for r, p in zip(OWN, (0.5, 0.8), strict=True)
        for q, a in r["vqa_list"]
    ]
    for row in rows:
        row["prompt_id"] = "0000" if row.pop("prompt") == OWN[0]["prompt"] else "0001"
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    run = api.evaluate(
        "geneval2", images=images, prompts_file=written(tmp_path), own=True, vqa=f"results:{answers}",
        out=tmp_path / "run",
    )  # fmt: skip
    found = scores_of(run)
    assert found["soft_tifa_am", "released"].value == pytest.approx(0.65)
    assert found["soft_tifa_gm", "released"].value == pytest.approx(0.65)
    assert found["tifa", "revised"].value == 1.0
    assert found["soft_tifa_am", "released", "position"].value == pytest.approx(0.8)
    assert any("no probabilities of tokens" in line for line in run.manifest.scoring.remarks)


def test_missing_image_is_counted(tmp_path, images):
    only = tmp_path / "one.json"
    only.write_text(json.dumps({OWN[0]["prompt"]: str(images.parent / "a.png")}), encoding="utf-8")
    answers = tmp_path / "answers.jsonl"
    row = {"prompt_id": "0000", "question": "x", "answer": "yes", "probability": 0.5}
    answers.write_text(json.dumps(row) + "\n", encoding="utf-8")
    run = api.evaluate(
        "geneval2", images=only, prompts_file=written(tmp_path), own=True, vqa=f"results:{answers}",
        out=tmp_path / "run",
    )  # fmt: skip
    score = scores_of(run)["soft_tifa_am", "released"]
    assert (score.n_used, score.n_unusable) == (0, 2)
    assert math.isnan(score.value)


def test_scores_in_blocks_of_any_size_are_equal(tmp_path, monkeypatch):
    numbers = range(6)
    records = [{**r, "prompt": f"{r['prompt']} {number}"} for r in OWN for number in numbers]

    def paint(prompt, seed):
        rng = np.random.default_rng(seed)
        return rng.integers(0, 256, (8, 8, 3), dtype=np.uint8) if "3" not in prompt else np.zeros((8, 8, 3), np.uint8)

    run = api.evaluate(
        "geneval2", model=paint, prompts_file=written(tmp_path, records), own=True, vqascore=True,
        vqa=Guesser(silent=0.1, unreadable=0.0), out=tmp_path / "run",
    )  # fmt: skip
    assert scores_of(run)["answer_mass", "revised"].n_used == 40  # of 5 + 3 questions
    assert_equal_in_blocks(run, monkeypatch, sizes=(7, 1))
