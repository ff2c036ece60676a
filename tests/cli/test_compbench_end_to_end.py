"""T2I-CompBench through the command line: offline on rendered scenes, and on a folder of images with real networks.

The networks' weights are random, but for the built-in detector's: what they say is another test's business, but that
every stage hands on what the next one needs is this one's.
"""

import json
import sys
from pathlib import Path

import polars as pl
import pytest
from commands import verism
from tiny_models import tiny_clip
from tiny_spacy import tiny_spacy
from tiny_vision_language import blip_vqa, llava

from verism import api
from verism.errors import UsageError
from verism.suites.compbench.phrases import read_phrases
from verism.suites.compbench.vocabulary import CATEGORIES

sys.path += [str(Path(__file__).parents[1] / part) for part in ("suites", "judges")]
from compbench_data import write_data, write_phrases_of
from test_depth_estimators import tiny_dpt

TRUTH = ("--vqa", "truth", "--detector", "truth", "--depth", "truth")
ROLES = {"spatial": ("detector",), "3d_spatial": ("detector", "depth"), "numeracy": ("detector",)}
JUDGED = tuple(c for c in CATEGORIES if c != "non_spatial")


def run(out, *words, size=96):
    done = verism("run", "compbench", *words, "--n-images", 1, "--size", size, "--out", out)
    assert done.exit_code == 0, done.output
    return api.open_run(out)


def accuracies(made, protocol="revised"):
    scores = [s for s in made.scores() if s.metric == "accuracy" and s.protocol == protocol]
    return {str(s.group["category"]).removeprefix("own "): s.value for s in scores}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    out = tmp_path_factory.mktemp("oracle") / "run"
    run(out, "--model", "oracle", *TRUTH, "--limit", 16)
    return out


@pytest.fixture(scope="module")
def released(oracle, tmp_path_factory):
    """The oracle's images in the released layout."""
    out = tmp_path_factory.mktemp("released")
    done = verism("compbench", "export", oracle, "--out", out)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = write_data(tmp_path_factory.mktemp("data"))
    return folder, write_phrases_of(folder, folder / "phrases.jsonl")


def test_the_oracle_is_right_in_every_category_under_revised(oracle):
    made = api.open_run(oracle)
    assert accuracies(made) == dict.fromkeys(JUDGED, 1.0)
    headline = {s.metric: s.value for s in made.scores() if s.protocol == "revised" and s.unit == "share" and s.n_used}
    assert headline["attribute_binding"] == headline["spatial_2d"] == headline["numeracy"] == 1.0
    assert {s.value for s in made.scores() if s.metric == "true_accuracy"} == {1.0}
    assert {made.has_truth(table) for table in ("detections", "answers", "depths")} == {True}
    assert not made.has_truth("segments")  # ground truth that no need asks for is not kept


def test_what_nobody_judged_and_whose_prompts_these_are_is_said(oracle):
    lines = api.open_run(oracle).manifest.scoring.remarks
    assert any("verism's own" in line for line in lines)
    assert any("--clip" in line and "non_spatial" in line for line in lines)
    assert any("not by UniDet" in line for line in lines)
    assert any("not by BLIP-VQA" in line for line in lines)
    cosine = next(s for s in api.open_run(oracle).scores() if s.metric == "clip_score")
    assert (cosine.n_used, cosine.n_unusable) == (0, 2)


def test_the_released_rules_err_on_the_truth_of_depth(oracle):
    """Boxes that hardly overlap score next to nothing as released, though every image shows what is asked."""
    errors = [s for s in api.open_run(oracle).scores() if s.metric == "judge_false_reject" and s.n_used]
    by = {(s.protocol, str(s.group["category"])): s.value for s in errors}
    assert by["released", "own 3d_spatial"] == 1.0
    assert by["revised", "own 3d_spatial"] == 0.0
    assert by["released", "own numeracy"] == 0.0


def test_planted_errors_are_found(tmp_path):
    made = run(tmp_path / "run", "--model", "scripted:error=1", *TRUTH, "--limit", 8, size=64)
    assert accuracies(made) == dict.fromkeys(JUDGED, 0.0)
    assert {s.value for s in made.scores() if s.metric == "true_accuracy"} == {0.0}
    notes = " ".join(made.read("images")["note"].to_list())
    assert "rendered as asked" not in notes


@pytest.mark.parametrize("mistake", ["binding", "texture", "shape", "relation", "count", "color"])
def test_each_planted_mistake_is_found(mistake, tmp_path):
    of = {
        "binding": ("color", "shape", "texture", "complex"),
        "relation": ("spatial", "3d_spatial", "complex"),
        "count": ("numeracy",),
        "color": ("color",),
    }.get(mistake, (mistake,))
    categories = [word for category in of for word in ("--category", category)]
    roles = {role for c in of for role in ROLES.get(c, ("vqa", "detector") if c == "complex" else ("vqa",))}
    truth = [word for role in sorted(roles) for word in (f"--{role}", "truth")]
    model = f"scripted:error=1&mistakes={mistake}"
    made = run(tmp_path / "run", "--model", model, *truth, *categories, "--limit", 2 * len(of))
    assert accuracies(made) == dict.fromkeys(of, 0.0)


def test_images_of_other_prompts_score_low(tmp_path):
    made = run(
        tmp_path / "run", "--model", "oracle", "--shuffle", "--vqa", "truth", "--category", "color", "--limit", 6
    )
    assert accuracies(made)["color"] < 0.7
    assert any(note.startswith("image of own_color") for note in made.read("images")["note"].to_list())


def test_clip_and_the_built_in_detector_look_at_rendered_scenes(tmp_path):
    categories = ("--category", "non_spatial", "--category", "numeracy")
    judges = ("--clip", tiny_clip(tmp_path / "clip"), "--detector", "builtin")
    made = run(tmp_path / "run", "--model", "oracle", *judges, *categories, "--limit", 8, size=160)
    scores = {(s.metric, s.protocol): s for s in made.scores() if len(s.group) == 1}
    cosine = scores["clip_score", "released"]
    assert cosine.n_used == 4
    assert -1 <= cosine.value <= 1
    assert cosine.value == scores["clip_score", "revised"].value
    assert scores["numeracy", "revised"].value > 0.3  # the built-in detector knows these classes
    assert scores["judge_false_reject", "revised"].n_used == 4
    card = tmp_path / "card.json"
    assert verism("judge", "card", tmp_path / "run", "--from", "truth", "--out", card).exit_code == 0
    record = json.loads(card.read_text())
    assert record["role"] == "detector"
    assert "4 images for 4 prompts of compbench" in record["ground_truth"]


def test_images_in_the_released_layout_with_networks(released, tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    for category in CATEGORIES:
        texts = {p.name.partition("_")[0] for p in (released / category / "samples").iterdir()}
        (folder / f"{category}_val.txt").write_text("".join(f"{t}\n" for t in sorted(texts)), encoding="utf-8")
    lines = (folder / "complex_val.txt").read_text(encoding="utf-8")
    for name, content in (("spatial", lines), ("action", ""), ("spatialaction", "")):
        (folder / f"complex_val_{name}.txt").write_text(content, encoding="utf-8")
    rows = [
        {"prompt": t, "phrases": t.split(" and "), "objects": [], "without_adjectives": t}
        for c in ("color", "shape", "texture", "complex")
        for t in (folder / f"{c}_val.txt").read_text(encoding="utf-8").splitlines()
    ]
    phrases = tmp_path / "phrases.jsonl"
    phrases.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    judges = (
        *("--detector", "builtin", "--depth", tiny_dpt(tmp_path / "dpt")),
        *("--vqa", blip_vqa(tmp_path / "blip"), "--clip", tiny_clip(tmp_path / "clip")),
    )
    source = ("--prompts", folder, "--own", "true", "--phrases", phrases, "--images", released)
    words = ("run", "compbench", *source, *judges, "--device", "cpu", "--out", tmp_path / "C")
    done = verism(*words)
    assert done.exit_code == 0, done.output
    made = api.open_run(tmp_path / "C")
    assert made.read("images").height == 16
    assert made.read("depths", made.judge("depth")).height == 16
    assert made.read("token_probabilities", made.judge("vqa"))["string"].unique().sort().to_list() == ["no", "yes"]
    scores = [s for s in made.scores() if s.protocol == "released" and len(s.group) == 1 and s.metric in (
        "attribute_binding", "spatial_2d", "spatial_3d", "numeracy", "clip_score", "three_in_one")]  # fmt: skip
    assert {str(s.group["category"]) for s in scores} == {f"own {c}" for c in CATEGORIES}
    assert all(s.n_used == 2 and s.n_unusable == 0 for s in scores)
    assert any("the prompts are not the released ones" in line for line in made.manifest.scoring.remarks)
    before = str([(s.metric, s.protocol, dict(s.group), s.value) for s in made.scores()])
    # Rules apply to kept observations, and a resumed run ends in the same numbers.
    assert verism("score", tmp_path / "C", "--rule", "np_num=1").exit_code == 0
    assert (
        str([(s.metric, s.protocol, dict(s.group), s.value) for s in api.open_run(tmp_path / "C").scores()]) != before
    )
    assert verism(*words).exit_code == 0
    assert (
        str([(s.metric, s.protocol, dict(s.group), s.value) for s in api.open_run(tmp_path / "C").scores()]) == before
    )


def test_a_missing_image_is_counted_and_moves_no_other(released, tmp_path):
    victim = sorted((released / "numeracy" / "samples").iterdir())[0]
    content = victim.read_bytes()
    texts = sorted(p.name.partition("_")[0] for p in (released / "numeracy" / "samples").iterdir())
    (tmp_path / "numeracy_val.txt").write_text("".join(f"{t}\n" for t in texts), encoding="utf-8")
    victim.unlink()
    try:
        source = ("--prompts", tmp_path, "--own", "true", "--category", "numeracy", "--images", released)
        done = verism("run", "compbench", *source, "--detector", "builtin", "--out", tmp_path / "C")
    finally:
        victim.write_bytes(content)
    assert done.exit_code == 1  # finished, with failures that are listed
    bounds = [s for s in api.open_run(tmp_path / "C").scores() if s.metric == "score_if_unusable_zero"]
    assert {s.n_unusable for s in bounds} == {1}


def test_a_chat_model_is_asked_for_levels(tmp_path):
    model = llava(tmp_path / "llava")
    words = ("--model", "oracle", "--levels", "share-cot", "--vqa", model, "--category", "spatial", "--limit", 2)
    made = run(tmp_path / "run", *words, size=64)
    scores = {s.protocol: s for s in made.scores() if s.metric == "multimodal" and len(s.group) == 1}
    assert scores["released"].n_used == 2
    assert scores["released"].value == 1.0  # a random network names no level, which was worth 100
    assert (scores["revised"].n_used, scores["revised"].n_unusable) == (0, 2)
    assert any("worded by verism" in line for line in made.manifest.scoring.remarks)


def test_the_export_is_the_released_layout(released):
    names = sorted(p.name for p in (released / "color" / "samples").iterdir())
    assert len(names) == 2
    assert all(name.startswith("a") and name.endswith(".png") and name[-11] == "_" for name in names)
    rows = json.loads((released / "color" / "annotation_blip" / "vqa_result.json").read_text())
    assert [row["answer"] for row in rows] == ["1.0000", "1.0000"]
    assert sorted(row["question_id"] for row in rows) == [row["question_id"] for row in rows]
    assert (released / "3d_spatial" / "labels" / "annotation_obj_detection_3d" / "vqa_result.json").is_file()


def test_report_and_comparison_know_the_suite(oracle, tmp_path):
    page = tmp_path / "report.html"
    assert verism("report", oracle, "--out", page).exit_code == 0
    text = page.read_text()
    assert "What each category is scored by" in text
    assert "There is no overall score" in text
    same = json.loads(verism("compare", oracle, oracle, "--json").stdout)
    assert {row["difference"] for row in same if row["difference"] is not None} == {0.0}
    keys = [(row["metric"], row["protocol"], json.dumps(row["group"])) for row in same]
    assert len(keys) == len(set(keys))
    assert all("category" in row["group"] for row in same)


def test_structure_and_phrases_of_a_copy(data, tmp_path):
    folder, phrases = data
    told = verism("compbench", "structure", folder, "--phrases", phrases)
    assert told.exit_code == 0, told.output
    assert "counts are those of the released files" in told.output
    assert "(released files: 100)" in told.output
    record = json.loads(verism("compbench", "structure", folder, "--category", "color", "--json").stdout)
    assert record["problem"] == ""
    assert list(record["files"]) == ["color_val.txt"]
    with pytest.raises(UsageError, match="no prompts of T2I-CompBench"):
        verism("compbench", "structure", tmp_path)
    planned = verism("run", "compbench", "--prompts", folder, "--phrases", phrases, "--vqa", "truth", "--dry-run")
    assert "24,000 images for 2,400 prompts of compbench" in planned.output


def test_a_parser_writes_the_phrases(data, tmp_path):
    folder, by_hand = data
    parser, out = f"spacy:{tiny_spacy(tmp_path / 'pipeline')}", tmp_path / "phrases.jsonl"
    done = verism("compbench", "phrases", folder, "--parser", parser, "--category", "color", "--out", out)
    assert done.exit_code == 0, done.output
    read, expected = read_phrases(out), read_phrases(by_hand)
    assert len(read) == 300
    assert all(found.phrases == expected[text].phrases for text, found in read.items())
    assert {found.parser for found in read.values()} == {next(iter(read.values())).parser}
    assert "en_templates 1.2" in next(iter(read.values())).parser
    with pytest.raises(UsageError, match=r"no pipeline .* spacy download"):
        verism("compbench", "phrases", folder, "--parser", "spacy:nothing_here", "--out", out)
    with pytest.raises(UsageError, match="a parser is named spacy:PIPELINE"):
        verism("compbench", "phrases", folder, "--parser", "nltk:x", "--out", out)


def test_images_that_released_scripts_misplace_are_counted(data, tmp_path):
    folder, _ = data
    lines = (folder / "color_val.txt").read_text(encoding="utf-8").splitlines()
    samples = tmp_path / "images" / "color" / "samples"
    samples.mkdir(parents=True)
    for number in range(1, 21):  # the first of ten images of the first prompt is missing
        (samples / f"{lines[number // 10]}_{number:06d}.png").write_bytes(b"x")
    words = ("compbench", "structure", folder, "--category", "color", "--images", tmp_path / "images", "--json")
    assert json.loads(verism(*words).stdout)["misplaced"] == {"color": 2}


def test_published_figures_are_reproduced():
    done = verism("reproduce", "compbench", "--json")
    assert done.exit_code == 0
    records = json.loads(done.stdout)
    assert {r["verdict"] for r in records} >= {
        "agrees",
        "known misprint",
        "differs by definition",
        "cannot be recomputed",
    }
    assert not [r for r in records if r["verdict"] == "disagrees"]
    assert any("PixArt" in r["quantity"] and r["table"] == "contradictions" for r in records)
    assert pl.DataFrame(records).filter(pl.col("table") == "Table 12").height == 3
