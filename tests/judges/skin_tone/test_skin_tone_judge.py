"""The judge of skin tone: a row per face with its colour, or with the reason why there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from verism.errors import UsageError
from verism.judges.skin_tone.colour import measure_skin
from verism.judges.skin_tone.faces import Face
from verism.judges.skin_tone.judge import SkinSettings, SkinToneJudge, WholeImage
from verism.metrics.colour import MONK_RGB
from verism.records import LoadedImage, SkinToneNeed, schema
from verism.registry import Context, make_judge

NEED = SkinToneNeed()
MARKS = np.array([[80.0, 80], [120, 80], [100, 105], [86, 130], [114, 130]])
VALUES = ("red", "green", "blue", "ita_deg", "tone", "tone_by_ita", "released_ita_deg", "released_tone", "rgb_tone")


class Scripted:
    """Says of an image what the test says of its size."""

    name = "scripted@1"

    def __init__(self, faces: dict[tuple[int, int], list[Face]]) -> None:
        self.faces = faces

    def find(self, pixels: np.ndarray) -> list[Face]:
        return self.faces.get(pixels.shape[:2], [])


def image(name: str, pixels: np.ndarray) -> LoadedImage:
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


def skin(tone: int, shape: tuple[int, int] = (200, 200)) -> np.ndarray:
    """An image that is one tone's swatch all over, beside a stripe that is not grey."""
    pixels = np.full((*shape, 3), MONK_RGB[tone - 1], dtype=np.uint8)
    pixels[:5] = (0, 0, 200)
    return pixels


def face(**changes: Any) -> Face:
    return Face(**({"box": np.array([55.0, 30, 145, 160]), "landmarks": MARKS, "yaw_deg": 0.0, "score": 0.8} | changes))


def rows(judge: SkinToneJudge, *images: LoadedImage) -> list[dict[str, Any]]:
    table = judge.observe(images, NEED)
    assert dict(table.schema) == schema("skin_tones")
    return table.to_dicts()


@pytest.mark.parametrize("tone", range(1, 11))
def test_a_face_in_the_colour_of_a_swatch_has_its_tone(tone):
    (row,) = rows(SkinToneJudge(Scripted({(200, 200): [face()]})), image("a#0", skin(tone)))
    assert (row["image_id"], row["face"], row["state"], row["note"]) == ("a#0", 0, "ok", None)
    assert row["tone"] == row["tone_by_ita"] == tone
    assert [row["red"], row["green"], row["blue"]] == pytest.approx(MONK_RGB[tone - 1].tolist(), abs=0.01)
    assert [row["x0"], row["y0"], row["x1"], row["y1"]] == [55, 30, 145, 160]
    assert row["score"] == pytest.approx(0.8)
    assert row["n_pixels"] > 200


def test_an_image_without_faces_has_one_row_that_says_so():
    (row,) = rows(SkinToneJudge(Scripted({})), image("a#0", skin(3)))
    assert (row["face"], row["state"], row["note"], row["n_pixels"]) == (-1, "no_face", "no face found", 0)
    assert all(row[name] is None for name in (*VALUES, "score", "x0", "y1"))


@pytest.mark.parametrize(
    ("changes", "state", "note"),
    [
        (
            {"box": np.array([90.0, 90, 111, 120]), "landmarks": None},
            "too_small",
            "face too small: 21 pixels, at least 24 are needed",
        ),
        ({"yaw_deg": 71.6}, "profile", "turned about 72 degrees to the right; at most 60 are measured"),
        ({"yaw_deg": -71.6}, "profile", "turned about 72 degrees to the left; at most 60 are measured"),
        ({"side_view": True}, "profile", "seen from the side: recognised as a profile only"),
    ],
)
def test_faces_that_are_not_measured_say_why(changes, state, note):
    (row,) = rows(SkinToneJudge(Scripted({(200, 200): [face(**changes)]})), image("a#0", skin(3)))
    assert (row["state"], row["note"], row["n_pixels"]) == (state, note, 0)
    assert all(row[name] is None for name in VALUES)
    assert row["x0"] is not None


def test_limits_themselves_are_measured():
    faces = [face(yaw_deg=60.0), face(box=np.array([80.0, 80, 104, 140]))]
    states = [row["state"] for row in rows(SkinToneJudge(Scripted({(200, 200): faces})), image("a#0", skin(3)))]
    assert states == ["ok", "ok"]


class Certain:
    """Says of every face that it has the eighth tone."""

    name = "certain@1"

    def estimate(self, pixels: np.ndarray, faces: list[Face]) -> np.ndarray:
        assert all(box.box[3] <= len(pixels) for box in faces)
        return np.tile(np.eye(10)[7], (len(faces), 1))


def test_an_estimator_needs_smaller_faces():
    def small(side: float) -> Face:
        return Face(box=np.array([90.0, 80, 90 + side, 80 + side * 1.3]), box_style="tight", score=0.8)

    faces = {(200, 200): [small(16.0), small(15.9)]}
    estimating = SkinToneJudge(Scripted(faces), tones=Certain())
    seen = [(row["state"], row["tone"]) for row in rows(estimating, image("a#0", skin(3)))]
    assert seen == [("ok", 8), ("too_small", None)]
    assert "min_face=16" in estimating.name
    assert "min_pixels" not in estimating.name
    for measuring in (
        SkinToneJudge(Scripted(faces)),
        SkinToneJudge(Scripted(faces), SkinSettings(min_face=24), tones=Certain()),
    ):
        assert [row["state"] for row in rows(measuring, image("a#0", skin(3)))] == ["too_small", "too_small"]
        assert "min_face=24" in measuring.name


def test_a_black_and_white_face_is_grey_and_an_overexposed_one_clipped():
    judge = SkinToneJudge(Scripted({(200, 200): [face()]}))
    grey = np.full((200, 200, 3), 120, dtype=np.uint8)
    white = np.full((200, 200, 3), 255, dtype=np.uint8)
    white[..., 2] = 240
    assert [row["state"] for row in rows(judge, image("a#0", grey), image("a#1", white))] == ["grey", "clipped"]


def test_a_face_outside_the_image_has_no_skin():
    away = face(box=np.array([255.0, 30, 345, 160]), landmarks=MARKS + np.array([200, 0]))
    (row,) = rows(SkinToneJudge(Scripted({(200, 200): [away]})), image("a#0", skin(3)))
    assert (row["state"], row["n_pixels"], row["tone"]) == ("no_skin", 0, None)
    assert row["note"] == "0 pixels of skin; at least 16 are needed"


def test_only_the_region_is_measured():
    pixels = skin(3)
    judge = SkinToneJudge(Scripted({(200, 200): [face()]}))
    before = rows(judge, image("a#0", pixels))
    pixels[:40], pixels[135:] = (20, 30, 200), (10, 200, 10)  # hair, beard and background
    pixels[70:, 95:105] = (250, 10, 10)  # nose
    assert rows(judge, image("a#0", pixels)) == before


def test_faces_keep_the_order_of_their_finder_and_images_their_own():
    two = [face(), face(box=np.array([10.0, 10, 60, 60]), landmarks=None)]
    judge = SkinToneJudge(Scripted({(200, 200): two, (100, 100): [face(landmarks=None)]}))
    images = [image("a", skin(2)), image("b", skin(5, (50, 50))), image("c", skin(8)), image("d", skin(4, (100, 100)))]
    together = rows(judge, *images)
    assert [(row["image_id"], row["face"]) for row in together] == [
        ("a", 0), ("a", 1), ("b", -1), ("c", 0), ("c", 1), ("d", 0)
    ]  # fmt: skip
    apart = [row for one in reversed(images) for row in rows(judge, one)]
    assert sorted(together, key=str) == sorted(apart, key=str)


def test_no_images_are_an_empty_table():
    table = SkinToneJudge(Scripted({})).observe([], NEED)
    assert (table.height, dict(table.schema)) == (0, schema("skin_tones"))


def test_light_is_estimated_of_the_whole_image_and_does_not_touch_the_released_numbers():
    pixels = skin(5)
    pixels[:, 150:] = (250, 200, 140)  # a white wall in warm light
    finder = Scripted({(200, 200): [face()]})
    (plain,) = rows(SkinToneJudge(finder), image("a", pixels))
    (revised,) = rows(SkinToneJudge(finder, SkinSettings(illumination="white-patch")), image("a", pixels))
    assert revised["blue"] > plain["blue"] + 5
    assert revised["released_ita_deg"] == plain["released_ita_deg"]


def test_the_rule_takes_of_the_region_what_passes_it():
    # Of the ten swatches the rule of the intermediate code sees skin in tones such as 5, and none in 10.
    finder = Scripted({(200, 200): [face()]})
    judge = SkinToneJudge(finder, SkinSettings(colour="rule"))
    tones = rows(judge, image("a", skin(5)), image("b", skin(10)))
    assert [(row["state"], row["tone"], row["rgb_tone"]) for row in tones] == [("ok", 5, 5), ("no_skin", None, None)]


def test_a_whole_image_by_the_rule_needs_no_face():
    pixels = np.full((40, 40, 3), (30, 60, 200), dtype=np.uint8)
    pixels[10:20, 10:20] = MONK_RGB[5]
    (row,) = rows(SkinToneJudge(WholeImage(), SkinSettings(colour="rule")), image("a", pixels))
    assert (row["state"], row["n_pixels"], row["rgb_tone"]) == ("ok", 100, 6)
    assert [row[k] for k in ("x0", "y0", "x1", "y1")] == [0, 0, 40, 40]


class FixedAlbedo:
    """Gives every face the colour of tone 9."""

    name = "albedo@1"

    def __init__(self) -> None:
        self.asked: list[Face] = []

    def measure(self, pixels, faces):  # noqa: ARG002
        self.asked += faces
        return [measure_skin(skin(9), np.ones((200, 200), dtype=bool))]


def test_an_albedo_takes_the_place_of_pixels_but_not_of_grey_or_absent_skin():
    albedo = FixedAlbedo()
    away = face(box=np.array([255.0, 30, 345, 160]), landmarks=MARKS + np.array([200, 0]))
    one = face()
    finder = Scripted({(200, 200): [one], (199, 200): [away], (200, 199): [face(yaw_deg=80.0)]})
    judge = SkinToneJudge(finder, albedo=albedo)
    grey = np.full((200, 200, 3), 120, dtype=np.uint8)
    result = rows(judge, *(image(n, p) for n, p in (
        ("a", skin(2)), ("b", grey), ("c", skin(2, (199, 200))), ("d", skin(2, (200, 199)))
    )))  # fmt: skip
    assert result[0]["tone"] == 9
    assert [row["state"] for row in result] == ["ok", "grey", "no_skin", "profile"]
    assert albedo.asked == [one]


def test_the_name_tells_finder_and_colour():
    assert SkinToneJudge(Scripted({})).name == (
        "scripted@1 colour=pixels region=cheeks+forehead average=median min_face=24 max_yaw=60"
    )
    other = SkinToneJudge(
        Scripted({}),
        SkinSettings(
            colour="rule", average="mean", illumination="grey-world", region=("forehead",),
            min_face=40, max_yaw=30, min_pixels=5,
        ),
    )  # fmt: skip
    assert other.name == (
        "scripted@1 colour=rule region=forehead average=mean illumination=grey-world min_face=40 max_yaw=30 "
        "min_pixels=5"
    )
    assert "colour=albedo@1" in SkinToneJudge(Scripted({}), albedo=FixedAlbedo()).name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "paint"}, "colour must be one of pixels, rule, trust, estimated, not 'paint'"),
        ({"average": "mode"}, "average must be one of median, trimmed, mean"),
        ({"illumination": "sun"}, "illumination must be one of none, grey-world"),
        ({"region": ["nose"]}, "region must name cheeks or forehead, joined by \\+; got nose"),
        ({"region": []}, "got nothing"),
        ({"min_face": 0}, "min_face must be at least 1 pixel, not 0"),
        ({"max_yaw": 91}, "max_yaw must lie above 0 and up to 90 degrees, not 91"),
        ({"min_pixels": 0}, "min_pixels must be at least 1, not 0"),
        ({"colour": "trust"}, "colour=trust needs the folder of TRUST's files"),
        ({"colour": "pixels", "albedo": FixedAlbedo()}, "only it takes one"),
        ({"colour": "trust", "albedo": FixedAlbedo(), "illumination": "grey-world"}, "estimates the light itself"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    options = dict(options)
    albedo = options.pop("albedo", None)
    with pytest.raises(UsageError, match=message):
        SkinToneJudge(Scripted({}), SkinSettings(**options), albedo=albedo)


# ------------------------------------------------------------------------------------------------------------ by name
def test_judges_by_name():
    pytest.importorskip("cv2")
    judge = make_judge("cascade:passes=plain+negative&average=trimmed&region=cheeks", Context(), "skin_tone")
    assert judge.name.startswith("cascade:frontalface_alt2@")
    assert " passes=plain+negative colour=pixels region=cheeks average=trimmed " in judge.name
    assert make_judge("picture:colour=rule", Context(), "skin_tone").name.startswith("picture colour=rule")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cascade:file.xml", "cascade: takes no argument"),
        (
            "cascade:speed=2",
            "cascade: unknown option 'speed'. Did you mean seed. Its options are passes, profiles, min_neighbors",
        ),
        ("picture:seed=2", "seed are those of TRUST's networks; name its files with trust=FOLDER"),
        ("picture:colour=trust", "colour=trust needs the folder"),
        ("picture:trust=/no/such/folder", "/no/such/folder"),
        ("onnx", r"onnx: write onnx:PATH \(ONNX file of YuNet, SCRFD or UltraFace"),
        ("onnx:/no/such/file.onnx", "/no/such/file.onnx: cannot be read"),
    ],
)
def test_wrong_names_are_explained(name, message):
    with pytest.raises(UsageError, match=message):
        make_judge(name, Context(), "skin_tone")
