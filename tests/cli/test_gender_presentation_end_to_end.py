"""Images in the released layout, a CLIP of random weights: all estimators, by the command line, to the report."""

import json

import numpy as np
import pytest
from commands import verism
from tiny_models import tiny_clip

from verism import api
from verism.imaging import encode_png

CONTEXTS = 16


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Neutral images, and explicit ones of the first attribute (boots), two of each prompt; one is not there."""
    folder = tmp_path_factory.mktemp("released")
    for number, who in enumerate(("woman", "man")):
        position = folder / f"{who}_v1_stable_gen"
        position.mkdir()
        for index in range(2 * CONTEXTS):
            for repeat in range(2):
                rng = np.random.default_rng([number, index, repeat])
                pixels = rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)
                (position / f"{index}_{repeat}.png").write_bytes(encode_png(pixels))
    (folder / "man_v1_stable_gen" / "3_1.png").unlink()
    return folder


@pytest.fixture(scope="module")
def finished(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gep")
    clip = tiny_clip(folder / "clip")
    command = ("run", "gender_presentation", "--images", images, "--clip", clip, "--out", folder / "run", "--json")
    return command, verism(*command), folder / "run"


def of(scores, metric, **group):
    return [s for s in scores if s["metric"] == metric and group.items() <= s["group"].items()]


def test_every_estimator_has_a_vector_and_a_score_under_both_protocols(finished):
    _, done, _ = finished
    assert done.exit_code in (0, 1)
    scores = json.loads(done.stdout)
    for protocol in ("released", "revised"):
        shown = [s for s in scores if s["protocol"] == protocol]
        for estimator in ("C", "CC", "CLS"):
            neutral = of(shown, "gep", estimator=estimator, setting="neutral")
            assert len({s["group"]["attribute"] for s in neutral}) == 15
            for s in neutral:
                assert s["ci_low"] <= s["value"] <= s["ci_high"]
            (score,) = [
                s for s in of(shown, "gep_score", estimator=estimator, setting="neutral") if "context" not in s["group"]
            ]
            mean = np.mean([abs(s["value"]) for s in neutral])
            assert score["value"] == pytest.approx(mean, abs=1e-9)
        boots = of(shown, "gep", estimator="C", setting="explicit", attribute="boots")
        assert len(boots) == 1


def test_calibration_moves_neutral_cosines_by_one_constant(finished):
    _, done, _ = finished
    scores = [s for s in json.loads(done.stdout) if s["protocol"] == "revised"]
    plain, calibrated = (
        {s["group"]["attribute"]: s["value"] for s in of(scores, "gep", estimator=e, setting="neutral")}
        for e in ("C", "CC")
    )
    moved = [plain[a] - calibrated[a] for a in plain]
    assert moved == pytest.approx([moved[0]] * 15, abs=1e-6)


def test_it_goes_on_scores_again_alike_and_reports(finished):
    command, done, path = finished
    assert json.loads(verism(*command).stdout) == json.loads(done.stdout)
    assert json.loads(verism("score", path, "--json").stdout) == json.loads(done.stdout)
    assert verism("report", path).exit_code == 0
    page = (path / "report" / "index.html").read_text(encoding="utf-8")
    for words in ("boots", "neutral", "explicit", "CLS"):
        assert words in page
    run = api.open_run(path)
    assert run.read("text_embeddings", run.judge("clip")).height >= 768
