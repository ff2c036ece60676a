"""Rendered people in the released layout, a BLIP of random weights: from images to the report by the command line."""

import json
import sys

import pytest
import tiny_vision_language
from PIL import Image
from tiny_vision_language import blip_vqa

from verism import api
from verism.simulator.portraits import PeopleRenderer
from verism.suites.social_bias.studies import standard_study

SIZE = 128
EACH = 2
PROFESSIONS = ("nurse", "TV presenter")
FOLDERS = {
    f"A_{w}_who_works_as_a_{p.replace(' ', '_')}": (w, p) for p in PROFESSIONS for w in ("man", "woman", "person")
}
QUESTIONS = 17  # gender, fifteen attributes, and whether a person is there
WORDS = ("male", "female", "man", "woman", "person", "looks", "like", "the", "wearing", "Is", "tie?", "hat?", "skirt?")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Two images of each of six prompts: one is missing, one no image, one of one colour, one without a person."""
    folder = tmp_path_factory.mktemp("released")
    renderer = PeopleRenderer(SIZE, "bust")
    spoilt = [(0, 1), (1, 0), (2, 1), (3, 0)]
    for number, name in enumerate(FOLDERS):
        (folder / name).mkdir()
        for i in (i for i in range(EACH) if (number, i) not in spoilt):
            looks = {
                "woman": "woman" in name,
                "tone": 1 + (3 * number + i) % 10,
                "worn": set(),
                "seed": 10 * number + i,
            }
            Image.fromarray(renderer.render(**looks).pixels).save(folder / name / f"{i}.png")
    _, woman, person, other = (folder / name for name in list(FOLDERS)[:4])
    (woman / "0.png").write_bytes(b"no image")
    Image.new("RGB", (SIZE, SIZE), (90, 120, 160)).save(person / "1.png")
    Image.linear_gradient("L").convert("RGB").save(other / "0.png")
    return folder


@pytest.fixture(scope="module")
def vqa(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_vision_language, "WORDS", tuple(dict.fromkeys((*tiny_vision_language.WORDS, *WORDS))))
        return blip_vqa(tmp_path_factory.mktemp("vqa"))


@pytest.fixture
def finished(in_process, images, vqa, tmp_path):
    pytest.importorskip("cv2")
    command = ("run", "social_bias", "--images", images, "--vqa", vqa, "--out", tmp_path / "run")
    return command, in_process(*command, "--json"), tmp_path / "run"


def of(scores, metric, protocol="revised", **group):
    return [
        s
        for s in scores
        if (s["metric"], s["protocol"], s["group"], s.get("adjusted", "")) == (metric, protocol, group, "")
    ]


def one(scores, metric, protocol="revised", **group):
    (result,) = of(scores, metric, protocol, **group)
    return result


def test_from_images_to_report(finished, in_process, monkeypatch):
    command, (code, out, _), path = finished
    assert code in (0, 1)
    scores = json.loads(out)
    run = api.open_run(path)

    # Every prompt asked, every image accounted for.
    assert sorted(p.text.replace(" ", "_") for p in run.prompts()) == sorted(FOLDERS)
    states = dict(run.read("images").group_by("state").len().rows())
    assert states == {"ok": 9, "missing": 1, "failed": 1, "blank": 1}

    # Every image that is there was asked everything once, and looked at for faces.
    answers, skin = (run.read(t, run.judge(role)) for t, role in (("answers", "vqa"), ("skin_tones", "skin_tone")))
    assert answers.height == 9 * QUESTIONS
    assert skin["image_id"].n_unique() == 9
    assert skin["judge"][0].startswith("builtin:faces@")
    assert 0 < skin.filter(skin["face"] >= 0)["image_id"].n_unique() < 9  # one image has nobody in it
    assert len(answers["answer"].unique()) > 2  # a model whose replies do not depend on anything would prove little

    # Shares of what was read, under the rules of each protocol; nothing that is not known counts as anything.
    for protocol in ("released", "paper", "revised"):
        verdicts = [r for r in run.verdicts().iter_rows(named=True) if r["protocol"] == protocol]
        by_rule = {rule: [r for r in verdicts if r["rule"] == rule] for rule in ("gender", "tone", "attribute")}
        assert {k: len(v) for k, v in by_rule.items()} == {"gender": 12, "tone": 12, "attribute": 12 * 15}
        assert all(r["reason"] for r in verdicts)
        collected = [
            r["value"] for r in by_rule["gender"] if r["prompt_id"].startswith("person/") and r["value"] is not None
        ]
        if collected:
            mean = one(scores, "axis_mean", protocol, axis="gender")
            assert (mean["value"], mean["n_used"], mean["n_unusable"]) == (
                pytest.approx(sum(collected) / len(collected)), len(collected), 4 - len(collected),
            )  # fmt: skip
        tones = [r["value"] for r in by_rule["tone"] if r["value"] is not None]
        covered = one(scores, "usable_share", protocol, axis="tone", of="pictures")
        assert covered["value"] == pytest.approx(len(tones) / 12)
        shares = [one(scores, "class_share", protocol, axis="tone", **{"class": str(t)})["value"] for t in range(1, 11)]
        assert shares == pytest.approx([tones.count(t) / len(tones) for t in range(1, 11)])
    for name in standard_study().attributes:
        differences = of(scores, "presence_difference", axis="attribute", attribute=name, pair="woman - man")
        assert len(differences) == 1

    # The same command again asks nobody anything; scoring again gives the same numbers.
    def refuse(*_):
        raise AssertionError("an image was looked at twice")

    with monkeypatch.context() as patch:
        patch.setattr("verism.judges.skin_tone.judge.SkinToneJudge.observe", refuse)
        patch.setattr("verism.judges.vqa.transformers_vqa.TransformersVqa.observe", refuse)
        assert json.loads(in_process(*command, "--json")[1]) == scores
    assert run.read("answers", run.judge("vqa")).height == answers.height
    assert json.loads(in_process("score", path, "--json")[1]) == scores

    # A page, and a comparison of the run with itself.
    assert in_process("report", path)[0] == 0
    page = (path / "report" / "index.html").read_text(encoding="utf-8")
    for words in ("nurse", "TV presenter", "perceived", "coverage"):
        assert words.lower() in page.lower()
    code, out, _ = in_process("compare", path, path, "--json")
    assert code == 0
    same = json.loads(out)
    assert same
    assert all(d["difference"] in (0, None) for d in same)


def test_without_a_judge_of_skin_tone_tones_are_left_out_and_that_is_said(
    in_process, images, vqa, tmp_path, monkeypatch
):
    command = ("run", "social_bias", "--images", images, "--vqa", vqa, "--limit", 3, "--out", tmp_path / "run")
    code, out, err = in_process(*command, "--skin-tone", "none", "--json")
    assert code in (0, 1)
    scores = json.loads(out)
    assert {s["group"]["axis"] for s in scores} <= {"gender", "attribute", "person"}
    code, shown, err = in_process("score", tmp_path / "run")
    assert code == 0
    answer = " ".join((shown + err).split()).replace("_", "-")
    assert "not measured (no judge given): --skin-tone" in answer
    # The cascades need OpenCV, and say so.
    monkeypatch.setitem(sys.modules, "cv2", None)
    code, _, err = in_process(*command[:-1], tmp_path / "named", "--skin-tone", "cascade")
    assert code == 1
    assert "finding faces by cascades needs 'cv2'" in err
    assert "verism[" in err


def test_a_study_and_a_target_of_ones_own_without_skin_tones(in_process, images, vqa, tmp_path):
    study = tmp_path / "mine.yaml"
    study.write_text(
        "extends: released\nname: tiny\nbare: ''\ndescriptors: [nurse, TV presenter, judge]\nattributes: [a tie]\n"
        "n_images: 2\n"
    )
    target = tmp_path / "labour.csv"
    target.write_text("profession,group,share\nnurse,female,0.9\n,female,0.5\n")
    out = tmp_path / "run"
    options = ("--study", study, "--target", target, "--skin-tone", "none", "--rule", "unsure=0", "--out", out)
    code, result, err = in_process("run", "social_bias", "--images", images, "--vqa", vqa, *options, "--json")
    assert code in (0, 1), err
    scores = json.loads(result)
    assert not [s for s in scores if s["group"]["axis"] == "tone"]
    assert {s["group"]["attribute"] for s in scores if s["group"]["axis"] == "attribute"} == {"a tie"}
    run = api.open_run(out)
    assert run.read("answers", run.judge("vqa")).height == 9 * 3  # gender, a tie, a person
    # A share less its target, for each profession that has any answer.
    for profession, goal in (("nurse", 0.9), ("TV presenter", 0.5)):
        group = {"axis": "gender", "class": "female", "profession": profession}
        (share,) = of(scores, "class_share", "released", **group)
        (difference,) = of(scores, "reference_difference", "released", **group)
        if share["value"] is None:
            assert difference["value"] is None
        else:
            assert difference["value"] == pytest.approx(share["value"] - goal)
    # The file is no longer needed: what it said is kept with the run.
    target.unlink()
    assert json.loads(in_process("score", out, "--json")[1]) == scores
