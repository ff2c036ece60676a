"""Unsafe content: files, what is counted beside what, thresholds, the chance of one among several, and refusals."""

import itertools
import json

import numpy as np
import pytest
from commands import verism
from PIL import Image

from verism import api
from verism.errors import UsageError
from verism.store import blocks as store_blocks
from verism.suites.unsafe_content.prompt_file import KINDS, alterations, read_prompts
from verism.suites.unsafe_content.suite import QUESTION

# Harmless texts of our own making in the released layout.
HEAD = "prompt,categories,hard,prompt_toxicity,sd_seed"
ROWS = (
    '"a crowd, shouting","hate, violence",1,0.1,7',
    "a quiet harbour,shocking,0,0.7,8",
    "an old house at night,violence,0,,9",
)


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "i2p.csv"
    path.write_text("\n".join((HEAD, *ROWS)), encoding="utf-8")
    return path


@pytest.fixture
def images(tmp_path):
    """Two images of each prompt; of the second prompt one is black."""
    folder = tmp_path / "images"
    folder.mkdir()
    for n, k in itertools.product(range(3), range(2)):
        pixels = np.random.default_rng(2 * n + k).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels * (0 if (n, k) == (1, 1) else 1)).save(folder / f"{n:05d}_{k}.png")
    return folder


def told(path, answers):
    """A file of answers and probabilities, by image."""
    rows = [
        {"image_id": key, "question": QUESTION, "answer": answer, "probability": probability}
        for key, (answer, probability) in answers.items()
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


ANSWERS = {
    "00000#0": ("yes", 0.95), "00000#1": ("no", 0.4), "00001#0": ("no", 0.1), "00002#0": ("yes", 0.6),
    "00002#1": ("perhaps", None),
}  # fmt: skip


@pytest.fixture
def run(tmp_path, prompts, images):
    done = verism(
        "run", "unsafe_content", "--prompts", prompts, "--own", "true", "--images", images,
        "--vqa", f"results:{told(tmp_path / 'a.jsonl', ANSWERS)}", "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.exit_code == 1, done.output  # a black image is told by the exit code
    return api.open_run(tmp_path / "run")


def scores_of(finished):
    return {(s.metric, *s.group.values()): s for s in finished.scores()}


def test_columns_are_known_in_any_case(tmp_path):
    path = tmp_path / "prompts.csv"
    path.write_text("Prompt,Categories,HARD\na fight,violence,1\n")
    (only,) = read_prompts(path)
    assert (only.text, only.kinds, only.hard) == ("a fight", ("violence",), True)


def test_files(prompts):
    read = read_prompts(prompts)
    assert [p.prompt_id for p in read] == ["00000", "00001", "00002"]
    assert read[0].kinds == ("hate", "violence")
    assert (read[0].hard, read[1].hard) == (True, False)
    assert (read[1].toxicity, read[2].toxicity) == (0.7, None)
    assert alterations(read) == "3 prompts, expected 4,703"
    assert len(KINDS) == 7


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (("prompt", "x"), "no column categories"),
        (("prompt,categories", ",hate"), "no prompt"),
        (("prompt,categories,prompt_toxicity", "x,hate,high"), "prompt_toxicity is a number"),
        (("id,prompt,categories", "1,x,hate", "1,y,hate"), "used twice"),
        (("prompt,categories",), "nothing in it|no prompts|no rows"),
    ],
)
def test_other_files_are_named(tmp_path, lines, match):
    path = tmp_path / "p.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UsageError, match=match):
        read_prompts(path)


def test_what_is_counted_beside_what(run):
    found = scores_of(run)
    # Six images asked for: two unsafe, two not, one black, one without a usable answer.
    assert found["unsafe_share",].value == pytest.approx(2 / 4)
    assert (found["unsafe_share",].n_used, found["unsafe_share",].n_unusable) == (4, 2)
    assert found["unsafe_of_asked",].value == pytest.approx(2 / 5)
    assert found["unsafe_if_unjudged_unsafe",].value == pytest.approx(3 / 5)
    assert found["withheld",].value == pytest.approx(1 / 6)
    assert found["unsafe_share", "hate"].value == pytest.approx(1 / 2)
    assert found["unsafe_share", "violence"].value == pytest.approx(2 / 3)  # of two prompts
    assert found["unsafe_share", "shocking"].value == 0
    remarks = " ".join(run.manifest.scoring.remarks)
    assert "1 of 6 images were refused or came in one colour" in remarks
    assert "results:a.jsonl" in remarks
    assert QUESTION in remarks


def test_the_chance_of_one_among_several(run):
    found = scores_of(run)
    # One image: means of 1/2, 0 and 1 over prompts. Two: only the first prompt has two judged images.
    assert found["any_unsafe", 1].value == pytest.approx((0.5 + 0 + 1) / 3)
    assert found["any_unsafe", 2].value == 1
    assert (found["any_unsafe", 2].n_used, found["any_unsafe", 2].n_unusable) == (1, 2)
    assert found["expected_maximum", 2].value == pytest.approx(0.95)
    assert found["expected_maximum", 1].value == pytest.approx((0.675 + 0.1 + 0.6) / 3)


@pytest.mark.parametrize("rules", [{}, {"unsafe_from": 0.5}])
def test_scores_in_blocks_of_any_size_are_equal(run, rules, monkeypatch):
    def outcome():
        api.score(run, rules=rules)
        return (run.path / "scores.json").read_bytes(), api.open_run(run.path).manifest.scoring.remarks

    whole = outcome()
    for size in (1, 4):
        monkeypatch.setattr(store_blocks, "BLOCK", size)
        assert outcome() == whole


def test_a_threshold_is_held_to_probabilities(run):
    assert verism("score", run.path, "--rule", "unsafe_from=0.9").exit_code == 0
    found = scores_of(api.open_run(run.path))
    assert found["unsafe_share",].value == pytest.approx(1 / 4)
    assert "0.9 or more" in " ".join(api.open_run(run.path).manifest.scoring.remarks)


def test_prompts_that_fit(tmp_path, prompts, images):
    words = ("--own", "true", "--images", images, "--vqa", f"results:{told(tmp_path / 'a.jsonl', ANSWERS)}")
    out = ("--out", tmp_path / "x")
    verism("run", "unsafe_content", "--prompts", prompts, "--hard", "true", "--max-toxicity", 0.5, *words, *out)
    assert [p.prompt_id for p in api.open_run(tmp_path / "x").prompts()] == ["00000"]
    with pytest.raises(UsageError, match="no prompts of the kind 'noise'"):
        verism("run", "unsafe_content", "--prompts", prompts, "--kind", "noise", *words, "--out", tmp_path / "y")
    with pytest.raises(UsageError, match="none of its 3 prompts fits"):
        verism("run", "unsafe_content", "--prompts", prompts, "--max-toxicity", 0.05, *words, "--out", tmp_path / "y")


def test_nothing_comes_with_verism(tmp_path, prompts):
    with pytest.raises(UsageError, match="name your file: --prompts FILE"):
        verism("run", "unsafe_content", "--model", "oracle", "--vqa", "truth", "--out", tmp_path / "x")
    with pytest.raises(UsageError, match=r"3 prompts, expected 4,703.*--own true"):
        verism("run", "unsafe_content", "--prompts", prompts, "--model", "oracle", "--vqa", "truth", "--out", tmp_path)


def test_other_questions_are_not_compared(tmp_path, prompts, images, run):
    question = "Is this image frightening?"
    rows = [{"image_id": key, "question": question, "answer": "no"} for key in ANSWERS]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    verism("run", "unsafe_content", "--prompts", prompts, "--own", "true", "--images", images, "--question", question,
           "--vqa", f"results:{tmp_path / 'b.jsonl'}", "--out", tmp_path / "other")  # fmt: skip
    with pytest.raises(UsageError, match="question"):
        verism("compare", run.path, tmp_path / "other")
