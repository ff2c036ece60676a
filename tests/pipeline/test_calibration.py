"""Calibration: a judge of known error gets exactly that error on its card."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from verism.cards import Measured, find_measured, read_card, write_card
from verism.errors import UsageError, VerismError
from verism.judges.calibration import Calibration, Reading, calibration_of
from verism.pipeline.calibration import calibrate, read_truth, summary
from verism.records import LoadedImage, SkinToneNeed, frame

TONES = ("1", "2", "3")


class ShadeJudge:
    """Reads the tone off the image's first pixel, says a shade darker where the second is white."""

    name = "shade"

    def __init__(self) -> None:
        self.shown: list[str] = []

    def observe(self, images: Sequence[LoadedImage], need: SkinToneNeed) -> pl.DataFrame:
        rows: list[dict[str, Any]] = []
        for image in images:
            self.shown.append(image.image_id)
            tone = int(image.pixels[0, 0, 0]) + (image.pixels[0, 1, 0] == 255)
            result = tone > 0
            rows.append(
                {
                    "image_id": image.image_id,
                    "judge": self.name,
                    "face": 0 if result else -1,
                    "tone": int(tone) if result else None,
                }
            )
        return frame(need.table, rows)


def read(ids: Sequence[str], observations: pl.DataFrame) -> Iterator[Reading]:
    tones = dict(zip(observations["image_id"], observations["tone"], strict=True))
    for image_id in ids:
        yield Reading(image_id, "tone", "revised", None if tones[image_id] is None else str(tones[image_id]))


BY_LIGHT = Calibration(need=SkinToneNeed(), tasks={"tone": TONES}, read=read, facets={"light": "light"})


def folder(tmp_path: Path, images: Sequence[tuple[str, int, bool, str]]) -> Path:
    """Images of (true tone, painted tone, darker, light)."""
    out = tmp_path / "P"
    (out / "images").mkdir(parents=True)
    with (out / "truth.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "tone", "light"])
        for k, (tone, shade, darker, light) in enumerate(images):
            pixels = np.zeros((8, 8, 3), np.uint8)
            pixels[0, 0] = shade
            pixels[0, 1] = 255 if darker else 0
            pixels[4:] = 128
            Image.fromarray(pixels).save(out / "images" / f"{k}.png")
            writer.writerow([f"images/{k}.png", tone, light])
    return out


IMAGES = [
    ("1", 1, False, "soft"),
    ("1", 1, True, "side"),
    ("2", 2, True, "side"),
    ("2", 2, False, "soft"),
    ("3", 3, False, "soft"),
    ("3", 0, False, "side"),
]


def test_a_card_counts_what_is_said_of_each_class(tmp_path: Path) -> None:
    known = read_truth(folder(tmp_path, IMAGES), BY_LIGHT)
    card = calibrate(ShadeJudge(), BY_LIGHT, known)
    result = find_measured([card], "shade", "tone", "revised")
    assert result is not None
    # Tone 1: once right, once called 2. Tone 2: once right, once called 3. Tone 3: once right, once no face.
    assert result[1].counts == ((1, 1, 0), (0, 1, 1), (0, 0, 1))
    assert result[1].unusable == (0, 0, 1)
    side = find_measured([card], "shade", "tone", "revised", group={"light": "side"})
    assert side is not None
    assert side[1].counts == ((0, 1, 0), (0, 0, 1), (0, 0, 0))
    assert side[1].unusable == (0, 0, 1)
    assert (card.role, card.kind) == ("skin_tone", "rendered")
    assert card.made["pictures"] == 6


def test_groups_sum_to_the_whole(tmp_path: Path) -> None:
    known = read_truth(folder(tmp_path, IMAGES), BY_LIGHT)
    card = calibrate(ShadeJudge(), BY_LIGHT, known)
    full, *parts = (np.array(m.counts) for m in card.measured)
    assert np.array_equal(full, sum(parts))


def test_a_card_survives_its_file(tmp_path: Path) -> None:
    known = read_truth(folder(tmp_path, IMAGES), BY_LIGHT)
    card = calibrate(ShadeJudge(), BY_LIGHT, known)
    write_card(card, tmp_path / "card.json")
    assert read_card(tmp_path / "card.json") == card


def test_the_command_that_rendered_the_truth_is_kept(tmp_path: Path) -> None:
    source = folder(tmp_path, IMAGES)
    (source / "definitions.json").write_text(json.dumps({"command": "verism scenes portraits --count 6"}))
    known = read_truth(source, BY_LIGHT)
    assert known.about == "6 images rendered by `verism scenes portraits --count 6`"
    assert len(known.made["truth_sha256"]) == 64


def test_a_table_of_people_s_answers_is_read_as_well(tmp_path: Path) -> None:
    source = folder(tmp_path, IMAGES)
    known = read_truth(source / "truth.csv", BY_LIGHT)
    assert known.about == "6 images of truth.csv"
    assert [item.facets["light"] for item in known.items[:2]] == ["soft", "side"]


def test_summary_in_hand_worked_numbers() -> None:
    measured = Measured(
        task="tone",
        protocol="revised",
        labels=TONES,
        counts=((3, 1, 0), (0, 2, 0), (1, 0, 1)),
        unusable=(0, 2, 0),
    )
    s = summary(measured)
    # Eight used: 6 exact, 1 off by one, 1 off by two. Errors: +1 and -2, sum -1, by 8. Two of ten unusable.
    assert s == (10, 0.2, 0.75, 0.875, -0.125, 3)
    empty = summary(Measured(task="t", protocol="p", labels=("a", "b"), counts=((0, 0), (0, 0))))
    assert np.isnan([empty.unusable, empty.exact, empty.within_one, empty.bias]).all()


def test_what_is_wrong_with_a_table_is_told(tmp_path: Path) -> None:
    source = folder(tmp_path, IMAGES)
    table = source / "truth.csv"
    with pytest.raises(UsageError, match="no column 'gender'"):
        read_truth(source, replace(BY_LIGHT, tasks={"gender": ("a", "b")}))
    with pytest.raises(UsageError, match=r"line 6: tone='3'; expected one of 1, 2"):
        read_truth(source, replace(BY_LIGHT, tasks={"tone": ("1", "2")}))
    with pytest.raises(UsageError, match="no such file; expected a table with the columns path"):
        read_truth(tmp_path / "nowhere.csv", BY_LIGHT)
    table.write_text("path,tone\n")
    with pytest.raises(UsageError, match="no images"):
        read_truth(source, BY_LIGHT)
    table.write_text("path,tone\na.png,1\na.png,2\n")
    with pytest.raises(UsageError, match="twice"):
        read_truth(source, BY_LIGHT)


def test_a_missing_image_or_a_silent_judge_is_an_error(tmp_path: Path) -> None:
    class Silent(ShadeJudge):
        def observe(self, images: Sequence[LoadedImage], need: SkinToneNeed) -> pl.DataFrame:
            return super().observe(images[1:], need)

    known = read_truth(folder(tmp_path, IMAGES), BY_LIGHT)
    with pytest.raises(VerismError, match=r"observed nothing of 1 images, images/0\.png"):
        calibrate(Silent(), BY_LIGHT, known)
    known.items[2].path.unlink()
    with pytest.raises(VerismError, match="must be there"):
        calibrate(ShadeJudge(), BY_LIGHT, known)


def test_a_class_that_the_task_does_not_have_is_an_error(tmp_path: Path) -> None:
    known = read_truth(folder(tmp_path, [("3", 3, True, "soft")]), BY_LIGHT)
    with pytest.raises(VerismError, match="read as '4'"):
        calibrate(ShadeJudge(), BY_LIGHT, known)


def test_calibration_of_a_role_without_one_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'smell'.*only cards of skin_tone"):
        calibration_of("smell")
    assert calibration_of("skin_tone").need.role == "skin_tone"
