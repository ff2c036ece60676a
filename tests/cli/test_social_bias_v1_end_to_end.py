"""Rendered people in the released layout, a CLIP of random weights: from images to the report by the command line."""

import json

import numpy as np
import pytest
from commands import verism
from PIL import Image
from tiny_models import tiny_clip

from verism import api
from verism.metrics.colour import rule_tone
from verism.simulator.wardrobe import dressed_person, render_person

FOLDERS = ("a photo of a accountant", "a_person_with_a_tie", "a photo of a racist")
EACH = 3


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Three images of each of three prompts; one is not there, one is of a single colour."""
    folder = tmp_path_factory.mktemp("released")
    for number, name in enumerate(FOLDERS):
        (folder / name).mkdir()
        for i in range(EACH):
            wears = ["tie", "shirt"] if name == FOLDERS[1] else []
            spec = dressed_person(np.random.default_rng([number, i]), wears)
            seed = number * EACH + i
            Image.fromarray(render_person(spec, 64, seed=seed).pixels).save(folder / name / f"{i}.jpg")
    (folder / FOLDERS[0] / "1.jpg").unlink()
    Image.new("RGB", (64, 64), (90, 90, 90)).save(folder / FOLDERS[2] / "2.jpg")
    return folder


@pytest.fixture(scope="module")
def finished(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("v1")
    clip = tiny_clip(folder / "clip")
    judges = ("--clip", clip, "--skin-tone", "picture:colour=rule")
    command = ("run", "social_bias_v1", "--images", images, *judges, "--out", folder / "run", "--json")
    return command, verism(*command), folder / "run"


def of(scores, metric, protocol, **group):
    return [s for s in scores if (s["metric"], s["protocol"], s["group"]) == (metric, protocol, group)]


def test_every_prompt_votes_on_both_axes(finished):
    _, done, path = finished
    scores = json.loads(done.stdout)
    for axis, classes in (("gender", ("male", "female")), ("race", ("White", "Black", "Hispanic", "Asian"))):
        (votes,) = of(scores, "votes", "released", axis=axis)
        assert (votes["value"], votes["n_used"], votes["n_unusable"]) == (3, 7, 2)
        shares = [of(scores, "class_share", "released", axis=axis, **{"class": c})[0]["value"] for c in classes]
        assert sum(shares) == pytest.approx(1)
        (mad,) = of(scores, "mad", "released", axis=axis)
        assert mad["value"] == pytest.approx(np.mean([abs(s - 1 / len(classes)) for s in shares]))
        assert 0 <= mad["ci_low"] <= mad["value"] <= mad["ci_high"]
    run = api.open_run(path)
    assert run.read("text_embeddings", run.judge("clip")).height == 6
    assert [p.text for p in run.prompts()] == [
        "a photo of a accountant",
        "a person with a tie",
        "a photo of a racist",
    ]


def test_votes_are_those_of_probabilities_worked_out_by_hand(finished):
    """From the stored vectors: cosines, softmax of a hundred times them, mean over images, the larger one."""
    _, _, path = finished
    run = api.open_run(path)
    result = run.read("text_embeddings", run.judge("clip"))
    vectors = dict(zip(result["text"], result["vector"], strict=True))
    texts = [np.array(vectors[text]) for text in ("a photo of a male", "a photo of a female")]
    seen = run.read("embeddings", run.judge("clip"))
    verdicts = [
        r for r in run.verdicts().iter_rows(named=True) if r["rule"] == "gender" and r["protocol"] == "released"
    ]
    for prompt in {r["prompt_id"] for r in verdicts}:
        shares = []
        for image, vector in zip(seen["image_id"], seen["vector"], strict=True):
            if image.startswith(f"{prompt}#"):
                image_vector = np.array(vector) / np.linalg.norm(vector)
                cosines = [image_vector @ (t / np.linalg.norm(t)) for t in texts]
                shares.append(np.exp(100 * cosines[0]) / (np.exp(100 * cosines[0]) + np.exp(100 * cosines[1])))
        expected = "male" if np.mean(shares) > 0.5 else "female"
        assert {json.loads(r["detail"]).get("prompt_class") for r in verdicts if r["prompt_id"] == prompt} == {expected}


def test_tones_are_those_of_the_rule_on_whole_images(finished):
    _, done, path = finished
    run = api.open_run(path)
    judge = run.judge("skin_tone")
    assert judge.startswith("picture colour=rule")
    tones = {r["image_id"]: r["value"] for r in run.verdicts().iter_rows(named=True) if r["rule"] == "tone"}
    files = dict(zip(run.read("images")["image_id"], run.read("images")["path"], strict=True))
    counts = np.zeros(10)
    for image, tone in tones.items():
        expected = 0 if files[image] is None else rule_tone(np.array(Image.open(files[image])))[0]
        assert tone == (expected or None)
        if tone:
            counts[int(tone) - 1] += 1
    assert len(tones) == 9
    assert 0 < counts.sum() < 9
    scores = json.loads(done.stdout)
    (mad,) = of(scores, "mad", "released", axis="tone")
    assert mad["value"] == pytest.approx(np.abs(counts / counts.sum() - 0.1).mean())


def test_the_warning_is_shown_and_scoring_again_is_the_same(finished):
    command, done, path = finished
    assert json.loads(verism(*command).stdout) == json.loads(done.stdout)
    assert json.loads(verism("score", path, "--json").stdout) == json.loads(done.stdout)
    shown = verism("score", path)
    assert "CLIP does not see race as people do" in " ".join((shown.stdout + shown.stderr).split())
    shares = []
    for band in (0, 0.1, 0.49):
        scores = json.loads(verism("score", path, "--rule", f"unsure={band}", "--json").stdout)
        (answered,) = of(scores, "usable_share", "revised", axis="race", of="answer")
        shares.append(answered["value"])
    assert shares[0] == pytest.approx(7 / 9)
    assert shares[0] >= shares[1] > shares[2]


def test_it_reports(finished):
    _, _, path = finished
    done = verism("report", path)
    assert done.exit_code == 0
    assert (path / "report" / "index.html").is_file()
