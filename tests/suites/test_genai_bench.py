"""GenAI-Bench: scales of the probability by hand, files, ratings, best of several, runs through the command line."""

import itertools
import json
import math
import shutil

import numpy as np
import pytest
from commands import verism
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tiny_vision_language import qwen2_vl

from verism import api
from verism.errors import UsageError
from verism.metrics.best_of_several import expected_pick
from verism.records import Scene, SceneFact, SceneObject
from verism.suites.genai_bench.benchmark import (
    N_PROMPTS,
    SKILLS,
    UNTAGGED,
    WORDINGS,
    alterations,
    asked_prompt,
    level_of,
    read_prompts,
    read_skills,
    skill_alterations,
)
from verism.suites.genai_bench.human import agreement_by_group, summary_of_ratings
from verism.suites.genai_bench.ratings import mean_rating, on_scale, read_ratings
from verism.suites.questions.asked import AskedQuestion, as_spec, questions_of
from verism.suites.questions.switches import Reply, own_value

# Prompts of our own making in the released form.
PROMPTS = {
    "00000": "a green mug on a wooden shelf",
    "00001": "two owls, none of them awake",
    "00002": "a kite above a lighthouse",
    "00003": "a plain white card",
}
RATED = {"00000": [5, 5, 4], "00001": [2, 1, 3], "00002": [4, 41, 5], "00003": [3, 3, 3]}
SKILLS_OF = {"attribute": [0], "scene": [0], "spatial relation": [2], "counting": [1], "negation": [1]}


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def released(ratings=RATED, models=("DALLE_3", "SDXL_Base")):
    return {
        key: {
            "id": key,
            "prompt": text,
            "prompt in Chinese": "",
            "models": {model: [r - (model == "SDXL_Base" and r < 10) for r in ratings[key]] for model in models},
        }
        for key, text in PROMPTS.items()
    }


@pytest.fixture
def files(tmp_path):
    write(tmp_path / "genai_skills.json", SKILLS_OF)
    return write(tmp_path / "genai_image.json", released())


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for seed, key in enumerate(PROMPTS):
        pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{key}.jpeg")
    return folder


def scores_of(run):
    return {(s.metric, s.protocol, *s.group.values()): s for s in run.scores()}


# --------------------------------------------------------------------------------------------------------- 1. the scale
def test_scales_by_hand():
    question = asked_prompt("0", "a cat", (), WORDINGS["vlm"]).questions[0]
    told = {"Yes": (1, 0.25), " Yes": (1, 0.25), "yes": (2, 0.05), "No": (3, 0.1), "no": (4, 0.1)}
    reply = Reply(text="Yes", value="yes", probability=0.3, tokens=told)
    assert own_value(question, reply, "probability") == 0.3  # as the judge adds it up
    assert own_value(question, reply, "spelled_probability") == 0.25
    assert own_value(question, reply, "root_probability") == 0.5
    assert own_value(question, reply, "probability_share") == pytest.approx(0.3 / 0.5)
    alone = Reply(text="Yes", value="yes", probability=0.49)
    assert own_value(question, alone, "root_probability") == pytest.approx(0.7)
    assert own_value(question, alone, "probability_share") is None  # nothing is known of no
    assert own_value(question, Reply(), "root_probability") is None


def test_wording_and_spelling_by_family():
    asked = {name: asked_prompt("0", 'a "b" {}', (), wording).questions[0] for name, wording in WORDINGS.items()}
    assert asked["vlm"].text == 'Does this figure show "a "b" {}"? Please answer Yes or No.'
    assert asked["clip-flant5"].text.endswith("Please answer yes or no.")
    assert asked["clip-flant5"].strings[0] == "Yes"
    assert asked["instructblip"].text.startswith("Question: Does")
    assert asked["instructblip"].strings[0] == "yes"
    assert len(set(asked["vlm"].strings)) == len(asked["vlm"].strings) == 12


def test_questions_survive_being_stored():
    fact = SceneFact(asks="all", parts=(SceneFact(asks="present", label="cat"), SceneFact(asks="background")))
    question = AskedQuestion(name="1", text="q", strings=("Yes", "No"), fact=fact)
    spec = json.loads(json.dumps({"questions": as_spec([question])}))
    assert questions_of(spec) == (question,)


def test_a_fact_of_several_holds_where_all_of_them_do():
    cat = SceneObject(shape="cat", label="cat")
    scene = Scene(scene_id="", skill="", split="val", text="", background="beach", objects=(cat,))
    there, beach, snow = (
        SceneFact(asks="present", label="cat"),
        SceneFact(asks="background", background="beach"),
        SceneFact(asks="background", background="snowfield"),
    )
    assert SceneFact(asks="all", parts=(there, beach)).holds(scene)
    assert not SceneFact(asks="all", parts=(there, snow)).holds(scene)
    assert not SceneFact(asks="all", parts=(there, beach)).holds(scene, [False])


# -------------------------------------------------------------------------------------------------- 2. files and skills
def test_released_files(files):
    read = read_prompts(files)
    assert dict(read.prompts) == PROMPTS
    assert read.ratings["DALLE_3"]["00002"] == (4, 41, 5)
    assert "4 prompts, expected 1,600" in alterations(read)
    assert read_skills(files.with_name("genai_skills.json"))["counting"] == (1,)


def test_counts_of_the_released_skills_are_checked():
    numbers = [n for n in range(N_PROMPTS) if n not in UNTAGGED]
    skills = {name: tuple(numbers[:n]) for by_level in SKILLS.values() for name, n in by_level.items()}
    assert skill_alterations(skills).startswith("prompts without a skill")
    assert skill_alterations({**skills, "universal": ()}) == "0 prompts of the skill universal, expected 147"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ([1], "no object of prompts"),
        ({"0": {"id": "0"}}, "no text `prompt`"),
        ({"0": {"id": "1", "prompt": "x"}}, "calls itself '1'"),
        ({"0": {"prompt": "x", "models": {"A": [1, True]}}}, "ratings are a list of numbers"),
        ({"0": {"prompt": "x", "models": []}}, "object of ratings"),
    ],
)
def test_other_formats_are_named(tmp_path, content, match):
    with pytest.raises(UsageError, match=match):
        read_prompts(write(tmp_path / "p.json", content))


@pytest.mark.parametrize(("content", "match"), [({"colour": [1]}, "unknown skill"), ({"scene": "1"}, "list of whole")])
def test_other_skills_are_named(tmp_path, content, match):
    with pytest.raises(UsageError, match=match):
        read_skills(write(tmp_path / "s.json", content))


def test_levels():
    assert level_of(["scene"]) == "basic"
    assert level_of(["scene", "negation"]) == "advanced"
    assert level_of([]) == "untagged"


# ----------------------------------------------------------------------------------------------------------- 3. ratings
def test_ratings_off_the_scale():
    assert on_scale([5, 41, 4]).valid == (5, 4)
    assert mean_rating([5, 41, 4], all_as_they_are=True) == pytest.approx(50 / 3)
    assert mean_rating([5, 41, 4], all_as_they_are=False) == 4.5
    assert mean_rating([41], all_as_they_are=False) is None


def test_ratings_of_files(tmp_path, files):
    ids = list(PROMPTS)
    assert read_ratings(files, ids, "SDXL_Base")["00000", 0] == (4, 4, 3)
    plain = write(tmp_path / "r.json", {"00000": [5], "00001_02": [3, 4], "other": [1]})
    assert read_ratings(plain, ids) == {("00000", 0): (5,), ("00001", 2): (3, 4)}
    for content, model, match in (
        ({"x": [1]}, "", "none of the prompts"),
        ({"00000": [1], "00000_0": [2]}, "", "second list of ratings of image 0"),
        ({"00000": "5"}, "", "list of numbers"),
        (released(), "", "--human-model KEY"),
        (released(), "other", "no ratings of 'other'"),
    ):
        with pytest.raises(UsageError, match=match):
            read_ratings(write(tmp_path / "bad.json", content), ids, model)


def test_means_and_agreement_of_raters_by_hand(files):
    made = summary_of_ratings(read_prompts(files), SKILLS_OF)
    assert made.means_on_scale["DALLE_3", "all"] == pytest.approx((14 / 3 + 2 + 4.5 + 3) / 4)
    assert made.means["DALLE_3", "all"] == pytest.approx((14 / 3 + 2 + 50 / 3 + 3) / 4)
    assert made.means_on_scale["DALLE_3", "advanced"] == pytest.approx(2)
    assert made.impossible[0] == ("DALLE_3", "00002", (4, 41, 5))
    assert made.n_ratings == 24
    assert 0 < made.alpha_ordinal < 1


# ------------------------------------------------------------------------------------------------------ 4. best of some
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=6), st.data())
def test_expected_pick_is_the_mean_over_all_draws(rows, data):
    k = data.draw(st.integers(1, len(rows)))
    picks = []
    for drawn in itertools.combinations(rows, k):
        best = max(score for score, _ in drawn)
        tied = [rating for score, rating in drawn if score == best]
        picks.append(sum(tied) / len(tied))
    scores, ratings = zip(*rows, strict=True)
    assert expected_pick(scores, ratings, k) == pytest.approx(sum(picks) / len(picks))


def test_expected_pick_needs_images():
    with pytest.raises(ValueError, match="between 1 and"):
        expected_pick([1.0], [3], 2)
    with pytest.raises(ValueError, match="one length"):
        expected_pick([1.0, 2.0], [3], 1)


# -------------------------------------------------------------------------------------------------------------- 5. runs
def test_oracle_is_certain_offline(tmp_path):
    done = verism("run", "genai_bench", "--model", "oracle", "--vqa", "truth", "--limit", 6, "--size", 64,
                  "--out", tmp_path / "run")  # fmt: skip
    assert done.exit_code == 0, done.output
    run = api.open_run(tmp_path / "run")
    found = scores_of(run)
    for protocol in ("revised", "paper", "released"):
        assert found["vqascore", protocol].value == 1.0
    assert "of our own making" in " ".join(run.manifest.scoring.remarks)
    assert any(key[0] == "vqascore" and key[2:] == ("counting",) for key in found)


def test_scripted_errors_are_found(tmp_path):
    words = ("--model", "scripted:error=1", "--vqa", "truth", "--limit", 8, "--size", 64)
    assert verism("run", "genai_bench", *words, "--out", tmp_path / "run").exit_code == 0
    found = scores_of(api.open_run(tmp_path / "run"))
    assert found["vqascore", "revised"].value == found["true_score", "revised"].value == 0.0


def answers(folder, probabilities, name="answers"):
    rows = ["prompt_id,question,answer,probability"]
    for key, probability in probabilities.items():
        text = WORDINGS["vlm"].question.replace("{}", PROMPTS[key]).replace('"', '""')
        rows.append(
            f'{key},"{text}",{"" if probability is None else "Yes"},{"" if probability is None else probability}'
        )
    path = folder / f"{name}.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


TOLD = {"00000": 0.81, "00001": 0.09, "00002": 0.36, "00003": None}


def run_files(tmp_path, files, images, *words, told=TOLD, name="run", model="DALLE_3"):
    path = answers(tmp_path, told, name)
    done = verism(
        "run", "genai_bench", "--prompts", files, "--own", "true", "--images", images, "--vqa", f"results:{path}",
        "--human", files, "--human-model", model, *words, "--out", tmp_path / name,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return api.open_run(tmp_path / name)


def test_scores_of_answers_by_hand(tmp_path, files, images):
    run = run_files(tmp_path, files, images)
    found = scores_of(run)
    revised = found["vqascore", "revised"]
    assert revised.value == pytest.approx((0.81 + 0.09 + 0.36) / 3)
    assert (revised.n_used, revised.n_unusable) == (3, 1)
    assert found["vqascore_if_unusable_wrong", "revised"].value == pytest.approx((0.81 + 0.09 + 0.36) / 4)
    # The released code: roots, and 0 for the call that failed.
    assert found["vqascore", "released"].value == pytest.approx((0.9 + 0.3 + 0.6 + 0) / 4)
    assert found["vqascore", "revised", "basic"].value == pytest.approx((0.81 + 0.36) / 2)
    assert found["vqascore", "revised", "advanced"].value == pytest.approx(0.09)
    assert found["vqascore", "revised", "negation"].n_used == 1
    # People: 4.667, 2, 4.5 and, not judged, 3; as released the third is 16.667.
    assert found["human_rating", "revised"].value == pytest.approx((14 / 3 + 2 + 4.5 + 3) / 4)
    assert found["human_rating", "released"].value == pytest.approx((14 / 3 + 2 + 50 / 3 + 3) / 4)
    assert found["human_pairwise", "revised"].value == 1.0
    assert found["human_kendall", "revised"].value == pytest.approx(1.0)
    assert found["human_pairwise", "released"].n_used == 4
    assert found["human_pairwise", "released"].value == pytest.approx(4 / 6)
    remarks = " ".join(run.manifest.scoring.remarks)
    assert "00002 image 0: 4, 41, 5" in remarks
    assert "no probability for 1 of 4 answers" in remarks
    assert "1 prompts have no skill: 00003" in remarks


def test_a_judge_that_returns_roots_is_taken_at_its_word(tmp_path, files, images):
    found = scores_of(run_files(tmp_path, files, images, "--judge-returns", "root"))
    assert found["vqascore", "revised"].value == pytest.approx((0.81**2 + 0.09**2 + 0.36**2) / 3)
    assert found["vqascore", "released"].value == pytest.approx((0.81 + 0.09 + 0.36 + 0) / 4)


def test_rules_change_revised_alone(tmp_path, files, images):
    run = run_files(tmp_path, files, images)
    before = scores_of(run)
    assert verism("score", run.path, "--rule", "answer_test=root_probability").exit_code == 0
    after = scores_of(api.open_run(run.path))
    assert after["vqascore", "revised"].value == pytest.approx((0.9 + 0.3 + 0.6) / 3)
    assert after["vqascore", "paper"].value == before["vqascore", "paper"].value


def test_best_of_several(tmp_path):
    folder = tmp_path / "nine"
    folder.mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"00000_{number:02d}.jpeg")
    text = WORDINGS["vlm"].question.replace("{}", PROMPTS["00000"]).replace('"', '""')
    told = tmp_path / "a.csv"
    lines = [f'00000#{n},"{text}",Yes,{p}' for n, p in enumerate((0.2, 0.9, 0.5))]
    told.write_text("\n".join(["image_id,question,answer,probability", *lines]), encoding="utf-8")
    rated = write(tmp_path / "r.json", {"00000_00": [5], "00000_01": [4], "00000_02": [2]})
    only = write(tmp_path / "one.json", {"00000": released()["00000"]})
    done = verism("run", "genai_bench", "--prompts", only, "--own", "true", "--images", folder, "--vqa",
                  f"results:{told}", "--human", rated, "--out", tmp_path / "run")  # fmt: skip
    assert done.exit_code == 0, done.output
    found = scores_of(api.open_run(tmp_path / "run"))
    assert found["picked_rating", "revised", 3].value == 4
    assert found["oracle_rating", "revised", 3].value == 5
    assert found["random_rating", "revised", 3].value == pytest.approx(11 / 3)
    assert found["pick_gain", "revised", 3].value == pytest.approx(1 / 3)


def test_a_tiny_judge_tells_probabilities_of_single_spellings(tmp_path, files, images):
    judge = qwen2_vl(tmp_path / "judge")
    done = verism("run", "genai_bench", "--prompts", files, "--own", "true", "--images", images, "--vqa", str(judge),
                  "--out", tmp_path / "run")  # fmt: skip
    assert done.exit_code == 0, done.output
    run = api.open_run(tmp_path / "run")
    found = scores_of(run)
    told = run.read("token_probabilities", run.manifest.settings.judges["vqa"])
    yes = {r["image_id"]: r["probability"] for r in told.iter_rows(named=True) if r["string"] == "Yes"}
    assert found["vqascore", "paper"].value == pytest.approx(np.mean(list(yes.values())))
    assert found["vqascore", "released"].value == pytest.approx(np.mean(np.sqrt(list(yes.values()))))
    assert verism("score", run.path, "--rule", "answer_test=probability_share").exit_code == 0
    share = scores_of(api.open_run(run.path))["vqascore", "revised"]
    assert 0 < share.value < 1
    assert share.n_unusable == 0


def test_ratings_and_agreement_from_the_command_line(tmp_path, files, images):
    run_files(tmp_path, files, images, name="dalle")
    run_files(tmp_path, files, images, told={"00000": 0.5, "00001": 0.1, "00002": 0.4, "00003": 0.3}, name="sdxl",
              model="SDXL_Base")  # fmt: skip
    told = verism("genai", "ratings", files, "--skills", files.with_name("genai_skills.json"))
    assert "off the scale and left out: DALLE_3 00002: 4, 41, 5" in told.output
    words = ("--run", f"DALLE_3={tmp_path / 'dalle'}", "--run", f"SDXL_Base={tmp_path / 'sdxl'}", "--json")
    done = verism("genai", "human", files, *words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)["all"]
    assert (found["images"], found["unusable"]) == (7, 1)
    read = read_prompts(files)
    scores = {("DALLE_3", k): v for k, v in TOLD.items()}
    scores |= {("SDXL_Base", k): v for k, v in zip(PROMPTS, (0.5, 0.1, 0.4, 0.3), strict=True)}
    assert found["pairwise"]["value"] == agreement_by_group(scores, read, {})["all"].pairwise.value
    with pytest.raises(UsageError, match="expected MODEL_KEY=RUN"):
        verism("genai", "human", files, "--run", "DALLE_3")
    with pytest.raises(UsageError, match="no ratings of 'other'"):
        verism("genai", "human", files, "--run", f"other={tmp_path / 'dalle'}")
    run_files(tmp_path, files, images, "--judge-returns", "root", name="roots")
    with pytest.raises(UsageError, match="what the judge returns: probability and root"):
        verism("genai", "human", files, *words[:2], "--run", f"SDXL_Base={tmp_path / 'roots'}")


def test_files_that_are_not_the_released_ones_are_refused(tmp_path, files):
    with pytest.raises(UsageError, match=r"4 prompts, expected 1,600.*--own true"):
        verism("run", "genai_bench", "--prompts", files, "--model", "oracle", "--vqa", "truth", "--out", tmp_path / "x")
    with pytest.raises(UsageError, match="--prompts FILE"):
        verism("run", "genai_bench", "--skills", files, "--model", "oracle", "--vqa", "truth", "--out", tmp_path / "x")
    with pytest.raises(UsageError, match="--human FILE"):
        verism(
            "run", "genai_bench", "--human-model", "a", "--model", "oracle", "--vqa", "truth", "--out", tmp_path / "x"
        )


def test_images_in_the_folder_of_their_model(tmp_path, files, images):
    shutil.move(images, tmp_path / "DALLE_3")
    run = run_files(tmp_path, files, tmp_path, "--image-model", "DALLE_3")
    assert scores_of(run)["vqascore", "revised"].n_used == 3
    assert not math.isnan(scores_of(run)["human_pearson", "revised"].value)
