"""``verism judge card`` from portraits to a card that the suite's adjustments find."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from verism.cards import find_measured, read_card
from verism.cli.judge import judge
from verism.records import LoadedImage, SkinToneNeed, frame
from verism.simulator.portraits import render_portraits


class Fixed:
    """Two faces in each image: the larger cannot be used, the other is of tone 6; the first image has none."""

    name = "fixed"

    def observe(self, images: Sequence[LoadedImage], need: SkinToneNeed) -> pl.DataFrame:
        rows: list[dict[str, Any]] = []
        for image in images:
            shared = {"image_id": image.image_id, "judge": self.name}
            if image.image_id.endswith("tone01.png"):
                rows.append(shared | {"face": -1, "state": "no_face", "note": "no face found"})
                continue
            measured = {"ita_deg": 10.88, "released_ita_deg": 30.0, "released_tone": 5, "tone_by_ita": 6}
            rows.append(shared | measured | {"face": 0, "state": "clipped", "tone": 1, "rgb_tone": None})
            rows.append(shared | measured | {"face": 1, "state": "ok", "tone": 6, "rgb_tone": 7})
        return frame(need.table, rows)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("truth") / "P"
    render_portraits(out, 3, size=64)
    return out


def run(truth: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    monkeypatch.setattr("verism.registry.make_judge", lambda *_: Fixed())
    arguments = ["card", "--role", "skin_tone", "--judge", "cascade", "--truth", str(truth), "--out", str(out), *more]
    result = CliRunner().invoke(judge, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_card_holds_each_way_of_reading_tones(truth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(truth, tmp_path / "c" / "card.json", monkeypatch)
    card = read_card(tmp_path / "c" / "card.json")
    assert (card.judge, card.role, card.kind) == ("fixed", "skin_tone", "rendered")
    assert card.made["truth_command"] == "verism scenes portraits --count 3 --size 64 --seed 0"
    answers = {}
    for protocol in ("revised", "paper", "released", "pixel_rule"):
        result = find_measured([card], "fixed", "tone", protocol)
        assert result is not None
        assert result[1].labels == tuple(str(t) for t in range(1, 11))
        answers[protocol] = result[1]
    # Tones 2 and 3 are the second and third row; revised takes the face that can be used, tone 6 in column 5.
    assert [answers["revised"].counts[t][5] for t in (1, 2)] == [1, 1]
    assert answers["revised"].unusable[:3] == (1, 0, 0)
    assert answers["paper"].counts[1][5] == 1
    assert sum(answers["released"].counts[1]) == 1
    # The largest face has no pixel that passes the rule.
    assert answers["pixel_rule"].unusable[:3] == (1, 1, 1)


def test_groups_of_light_and_turn_are_on_the_card(truth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(truth, tmp_path / "card.json", monkeypatch)
    facets = {key for m in read_card(tmp_path / "card.json").measured for key in m.group}
    assert facets == {"light", "cast", "level", "skin", "yaw"}


def test_tables_are_printed_and_json_is_json(truth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run(truth, tmp_path / "card.json", monkeypatch)
    assert "tone, revised: rows are true, columns predicted" in text
    assert "unusable 33.3%" in text
    result = json.loads(run(truth, tmp_path / "card.json", monkeypatch, "--json"))
    first = result["measured"][0]
    assert (first["n"], first["group"]) == (3, {})


def test_the_default_judge_finds_rendered_faces(truth: Path) -> None:
    cascade = pytest.importorskip("verism.judges.skin_tone.cascade")
    from verism.judges.skin_tone.calibration import CALIBRATION
    from verism.judges.skin_tone.judge import SkinToneJudge
    from verism.pipeline.calibration import calibrate, read_truth

    pytest.importorskip("cv2")
    known = read_truth(truth, CALIBRATION)
    made = SkinToneJudge(cascade.CascadeFaces())
    card = calibrate(made, CALIBRATION, known)
    result = find_measured([card], made.name, "tone", "revised")
    assert result is not None
    assert sum(map(sum, result[1].counts)) + sum(result[1].unusable) == 3


def test_other_roles_are_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        judge, ["card", "--role", "smell", "--judge", "x", "--truth", str(tmp_path), "--out", "y"]
    )
    assert result.exit_code == 2
    assert "skin_tone" in result.output


@pytest.mark.parametrize(
    ("judge", "command", "each"),
    [
        ("builtin", "verism scenes portraits --count 300 --size 256 --seed 91002", 30),
        ("cascade", "verism scenes portraits --count 600 --size 256 --seed 1", 60),
    ],
)
def test_cards_that_come_with_the_package_are_of_the_judges_as_they_are(judge: str, command: str, each: int) -> None:
    if judge == "cascade":
        pytest.importorskip("cv2")
    from verism.cards import shipped_cards
    from verism.registry import Context, make_judge

    name = make_judge(judge, Context(), "skin_tone").name
    for protocol in ("revised", "paper", "released"):
        result = find_measured(shipped_cards(), name, "tone", protocol, kind="rendered")
        assert result is not None, f"make the card anew by its command: {name} is measured by none"
        card, measured = result
        assert card.made["truth_command"] == command
        # As many images of each tone, every one accounted for.
        assert [sum(row) + lost for row, lost in zip(measured.counts, measured.unusable, strict=True)] == [each] * 10
    released = find_measured(shipped_cards(), name, "tone", "released")
    assert released is not None
    # What the released formula does to tones 1 to 10: nothing but 5, 6 and 7.
    assert {k + 1 for row in released[1].counts for k, n in enumerate(row) if n} == {5, 6, 7}
