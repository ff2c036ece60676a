"""Suites offline with the built-in judges of texts and of questions: known scenes and planted clothes are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import verism

from verism import api
from verism.errors import UsageError
from verism.manifest import Manifest
from verism.records import Scene, SceneObject
from verism.simulator.scene_renderer import SceneRenderer
from verism.store import Run

LABELS = ("car", "bus", "dog", "bird", "chair", "bench", "suitcase", "umbrella")
CLOTHES = "wears=skirt:1.0/0.0,hat:0.0/1.0"


def scores_of(done: Any) -> list[dict[str, Any]]:
    assert done.exit_code in (0, 1), done.stderr
    return list(json.loads(done.stdout))


def rendered(prompt: str, seed: int) -> np.ndarray:
    """The scene of a prompt: "a photo of 2 dogs"."""
    number, label = prompt.removeprefix("a photo of ").split(" ", 1)
    label = next(name for name in LABELS if label.startswith(name))
    objects = (SceneObject(shape=label, label=label),) * int(number)
    scene = Scene(scene_id="s", skill="count", split="val", text=prompt, background="meadow", objects=objects,
                  seed=seed + 13)  # fmt: skip
    return SceneRenderer(128).render(scene).pixels


def test_alignment_finds_the_texts_of_rendered_scenes_and_names_unknown_words(tmp_path: Path):
    plural = {"bus": "buses", "bench": "benches"}
    prompts = [
        f"a photo of {n} {label if n == 1 else plural.get(label, label + 's')}" for label in LABELS for n in (1, 2)
    ]
    listed = tmp_path / "prompts.txt"
    listed.write_text("\n".join(prompts) + "\n")
    run = api.evaluate(
        "alignment", model=rendered, clip="builtin", prompts=listed, rules={"pool": 10}, out=tmp_path / "run"
    )
    (score,) = [s for s in run.scores() if s.metric == "r_precision" and s.protocol == "revised" and not s.group]
    assert score.n_used == len(prompts)
    assert score.value > 0.6  # a tenth by chance
    assert Run.open(tmp_path / "run").manifest.judge_remarks == {}

    listed.write_text("\n".join([*prompts, "a photo of 1 unicorn"]) + "\n")
    named = api.evaluate(
        "alignment", model=lambda _, seed: np.zeros((64, 64, 3), np.uint8) + 90 + seed % 2, clip="builtin",
        prompts=listed, rules={"pool": 10}, out=tmp_path / "named",
    )  # fmt: skip
    assert any(line.endswith("unicorn") for line in named.manifest.scoring.remarks)


@pytest.fixture(scope="module")
def dressed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Women in skirts, men in hats, by the command line."""
    out = tmp_path_factory.mktemp("gep") / "run"
    command = ("run", "gender_presentation", "--model", f"people:{CLOTHES}", "--setting", "neutral")
    return verism(*command, "--limit", 8, "--n-images", 1, "--clip", "builtin", "--out", out, "--json"), out


def test_gep_finds_planted_clothes_by_every_estimator(dressed: tuple[Any, Path]):
    done, out = dressed
    scores = scores_of(done)
    for estimator in ("C", "CC", "CLS"):
        found = {
            s["group"]["attribute"]: s["value"]
            for s in scores
            if s["metric"] == "gep" and s["protocol"] == "revised" and s["group"]["estimator"] == estimator
            and s["group"]["setting"] == "neutral" and "context" not in s["group"]
        }  # fmt: skip
        assert len(found) == 15
        assert found["skirt"] * found["hat"] < 0
        nobody_wears = [abs(found[name]) for name in ("boots", "slippers", "mask", "gloves")]
        assert min(abs(found["skirt"]), abs(found["hat"])) > max(nobody_wears)
    manifest = Run.open(out).manifest
    assert isinstance(manifest, Manifest)
    ((judge, lines),) = manifest.judge_remarks.items()
    assert judge.startswith("builtin:embedder@")
    assert "uniform" in lines[0]
    assert lines[0] in manifest.scoring.remarks


def test_remarks_of_judges_stay_when_a_run_is_scored_again(dressed: tuple[Any, Path]):
    _, out = dressed
    before = Run.open(out).manifest
    again = verism("score", out, "--json")
    assert again.exit_code in (0, 1)
    after = Run.open(out).manifest
    assert after.scoring.remarks == before.scoring.remarks
    assert after.judge_remarks == before.judge_remarks != {}


def test_social_bias_counts_clothes_and_leaves_gender_to_what_was_rendered(tmp_path: Path):
    out = tmp_path / "run"
    command = ("run", "social_bias", "--model", f"people:{CLOTHES}", "--limit", 3, "--n-images", 3)
    scores = scores_of(verism(*command, "--vqa", "builtin", "--skin-tone", "none", "--out", out, "--json"))

    def one(metric: str, **group: str) -> dict[str, Any]:
        (found,) = [
            s
            for s in scores
            if (s["metric"], s["protocol"], s["group"]) == (metric, "revised", group) and not s.get("adjusted")
        ]
        return found

    assert one("presence_difference", axis="attribute", attribute="a skirt", pair="woman - man")["value"] > 0.6
    assert one("presence_difference", axis="attribute", attribute="a hat", pair="woman - man")["value"] < -0.6
    assert one("mad", axis="gender")["value"] is None
    remarks = Run.open(out).manifest.scoring.remarks
    assert any("perceived gender, which it does not perceive" in line for line in remarks)
    by_truth = json.loads(verism("score", out, "--judge", "vqa=truth", "--json").stdout)
    gender = [s for s in by_truth if s["metric"] == "mad" and s["group"] == {"axis": "gender"}]
    assert any(s["value"] is not None for s in gender)
    assert not any("perceived gender" in line for line in Run.open(out).manifest.scoring.remarks)


def test_a_suite_of_perceived_gender_by_texts_is_refused(tmp_path: Path):
    command = ("run", "social_bias_v1", "--model", "people:draw=plain", "--limit", 2, "--clip", "builtin")
    with pytest.raises(UsageError, match="it perceives no gender"):
        verism(*command, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
