"""Portraits: what the truth says of an image is what the image shows."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from verism.cli.portraits import portraits
from verism.errors import UsageError
from verism.simulator.assets.body import ball
from verism.simulator.assets.heads import COVERS, FRAMES, GROWTHS, LANDMARKS, FaceShape, Skull, reshaped
from verism.simulator.assets.people import MONK_TONES
from verism.simulator.portraits import (
    CASTS,
    LEVELS,
    LIGHTS,
    YAWS,
    Light,
    PeopleRenderer,
    Portrait,
    Shot,
    draw_light,
    draw_shot,
    draw_sitter,
    light_color,
    render_group,
    render_portrait,
    render_portraits,
)
from verism.simulator.wardrobe import PLACES, dressed_person

SOFT = Light(
    source="soft",
    cast="neutral",
    level="normal",
    azimuth_deg=0.0,
    elevation_deg=40.0,
    temperature_k=6504.0,
    intensity=0.6,
    ambient=0.9,
)
FRONT = Shot(yaw_deg=0.0, pitch_deg=0.0, roll_deg=0.0, focal_mm=80.0, face_share=0.45, place="photo_studio")


def portrait(
    tone: int = 5, *, light: Light = SOFT, shot: Shot = FRONT, size: int = 96, sheen: bool = False
) -> Portrait:
    drawn = dressed_person(np.random.default_rng(3), {"shirt"}, skin_tone=tone, hair="short", pose="relaxed")
    spec = replace(drawn, facial_hair="none", hair_color=(0.06, 0.05, 0.05))
    return render_portrait(spec, FaceShape(sheen=sheen), light, shot, size, seed=4)


def cheek(made: Portrait) -> np.ndarray:
    """Median colour between an eye and the corner of the mouth on that side, sRGB 0-255."""
    x, y = (made.landmarks[0] + made.landmarks[3]) / 2
    return np.median(made.pixels[int(y) - 2 : int(y) + 3, int(x) - 2 : int(x) + 3].reshape(-1, 3), axis=0)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("portraits") / "P"
    render_portraits(out, 4, seed=2, size=64)
    return out


def rows(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "truth.csv").read_text().splitlines()))


# --------------------------------------------------------------------------------------------------------------- light
def test_a_balanced_camera_sees_even_light_as_white() -> None:
    assert light_color(6504.0) == pytest.approx((1.0, 1.0, 1.0))


def test_warm_light_is_red_and_cool_light_blue_at_one_luminance() -> None:
    warm, cool = light_color(4000.0), light_color(10000.0)
    assert warm[0] > warm[1] > warm[2]
    assert cool[0] < cool[1] < cool[2]
    for r, g, b in (warm, cool):
        assert 0.2126 * r + 0.7152 * g + 0.0722 * b == pytest.approx(1.0)


def test_the_planckian_locus_is_continuous_where_its_fits_meet() -> None:
    assert light_color(3999.9) == pytest.approx(light_color(4000.1), abs=2e-3)


def test_temperatures_beyond_the_fits_are_refused() -> None:
    with pytest.raises(ValueError, match="2222 to 25000"):
        light_color(1500.0)


def test_lights_and_shots_are_drawn_as_documented() -> None:
    rng = np.random.default_rng(0)
    lights = [draw_light(rng) for _ in range(400)]
    assert {light.source for light in lights} == set(LIGHTS)
    # 400 draws at 0.6: within 4 standard deviations, 0.0245 each.
    for values, usual in (([x.cast == "neutral" for x in lights], 0.6), ([x.level == "dim" for x in lights], 0.2)):
        assert np.mean(values) == pytest.approx(usual, abs=0.098)
    assert {x.cast for x in lights} == set(CASTS)
    assert {x.level for x in lights} == set(LEVELS)
    shots = [draw_shot(rng) for _ in range(100)]
    assert all(abs(s.yaw_deg) <= YAWS[-1][1] for s in shots)
    assert {s.place for s in shots} == set(PLACES)
    # 24 mm high frame, 24 mm lens: 2 atan(1/2).
    assert Shot(**{**vars(FRONT), "focal_mm": 24.0}).fov_deg == pytest.approx(2 * math.degrees(math.atan(0.5)))


# -------------------------------------------------------------------------------------------------------------- images
@pytest.mark.parametrize("tone", [2, 6, 9])
def test_in_even_white_light_the_cheek_has_the_colour_of_its_tone(tone: int) -> None:
    made = portrait(tone)
    swatch = np.array(MONK_TONES[tone - 1])
    linear = np.where(swatch <= 0.04045, swatch / 12.92, ((swatch + 0.055) / 1.055) ** 2.4)
    dimmed = 0.6 * linear  # intensity; below the knee of the tone curve
    srgb = 255 * np.where(dimmed <= 0.0031308, 12.92 * dimmed, 1.055 * dimmed ** (1 / 2.4) - 0.055)
    # Form shading dims a cheek by up to a third, in all channels alike.
    ratio = (cheek(made) + 1) / (srgb + 1)
    assert 0.75 < ratio.mean() < 1.1
    assert np.ptp(ratio) < 0.12


def test_the_light_on_it_changes_the_colour_but_not_the_tone() -> None:
    plain = portrait(5)
    warm = portrait(5, light=Light(**{**vars(SOFT), "temperature_k": 4000.0, "cast": "warm"}))
    dim = portrait(5, light=Light(**{**vars(SOFT), "intensity": 0.2, "level": "dim"}))
    assert cheek(warm)[2] < cheek(plain)[2] - 10
    assert cheek(dim).mean() < 0.75 * cheek(plain).mean()
    assert plain.spec.skin_tone == warm.spec.skin_tone == 5
    assert plain.box == warm.box


def test_sheen_lightens_dark_skin_more_than_light_skin() -> None:
    gain = {tone: cheek(portrait(tone, sheen=True)).mean() - cheek(portrait(tone)).mean() for tone in (2, 9)}
    assert gain[9] > 2 * gain[2] >= 0


def test_a_main_light_from_the_right_leaves_the_left_cheek_darker() -> None:
    light = Light(**{**vars(SOFT), "ambient": 0.3, "azimuth_deg": 60.0, "elevation_deg": 10.0})
    made = portrait(6, light=light)
    x0, y0, x1, y1 = (int(v) for v in made.box)
    middle = (x0 + x1) // 2
    lum = made.pixels.mean(axis=2)
    left = lum[y0:y1, x0:middle][made.skin[y0:y1, x0:middle]].mean()
    right = lum[y0:y1, middle:x1][made.skin[y0:y1, middle:x1]].mean()
    assert right > 1.2 * left


def test_landmarks_lie_where_the_features_are() -> None:
    made = portrait(5, size=160)
    x0, y0, x1, y1 = made.box
    eyes, nose, mouth = made.landmarks[:2], made.landmarks[2], made.landmarks[3:]
    assert LANDMARKS == ("right_eye", "left_eye", "nose", "mouth_right", "mouth_left")
    assert ((made.landmarks > (x0, y0)) & (made.landmarks < (x1, y1))).all()
    # Seen from the front the person's right eye is at the image's left; eyes above nose above mouth.
    assert eyes[0, 0] < nose[0] < eyes[1, 0]
    assert mouth[0, 0] < nose[0] < mouth[1, 0]
    assert eyes[:, 1].max() < nose[1] < mouth[:, 1].min()
    # The tip of the nose is skin; what lies under the landmarks of the eyes is not.
    skin = made.skin
    assert skin[int(nose[1]), int(nose[0])]
    for x, y in eyes:
        assert not skin[int(y), int(x)]


def test_the_head_is_turned_as_asked() -> None:
    def nose_offset(yaw: float) -> float:
        made = portrait(5, shot=Shot(**{**vars(FRONT), "yaw_deg": yaw}))
        eyes = made.landmarks[:2, 0]
        return float((made.landmarks[2, 0] - eyes.mean()) / abs(np.diff(eyes)[0]))

    assert nose_offset(0.0) == pytest.approx(0.0, abs=0.03)
    assert nose_offset(30.0) > 0.2
    assert nose_offset(-30.0) == pytest.approx(-nose_offset(30.0), abs=0.06)


def test_the_face_takes_the_share_of_the_image_asked_for() -> None:
    for share in (0.3, 0.5):
        made = portrait(5, shot=Shot(**{**vars(FRONT), "face_share": share, "focal_mm": 100.0}))
        assert (made.box[3] - made.box[1]) / 96 == pytest.approx(share, rel=0.08)


def test_a_shorter_lens_is_nearer() -> None:
    near, far = (portrait(5, shot=Shot(**{**vars(FRONT), "focal_mm": f})).distance_m for f in (28.0, 84.0))
    assert far / near == pytest.approx(3.0, rel=1e-6)


def test_a_cascade_finds_the_face_where_it_is() -> None:
    cv2 = pytest.importorskip("cv2")
    if not hasattr(cv2, "CascadeClassifier"):
        pytest.skip("this OpenCV has no cascades")
    finder = cv2.CascadeClassifier(str(Path(cv2.data.haarcascades) / "haarcascade_frontalface_default.xml"))
    for tone in (4, 7):
        made = portrait(tone, size=192, light=Light(**{**vars(SOFT), "intensity": 0.9}))
        result = finder.detectMultiScale(cv2.cvtColor(made.pixels, cv2.COLOR_RGB2GRAY), 1.1, 3)
        assert len(result) == 1
        x, y, w, h = result[0]
        x0, y0, x1, y1 = made.box
        shared = max(0, min(x + w, x1) - max(x, x0)) * max(0, min(y + h, y1) - max(y, y0))
        assert shared / (w * h + (x1 - x0) * (y1 - y0) - shared) > 0.5


# --------------------------------------------------------------------------------------------------------------- heads
def test_another_skull_keeps_normals_at_right_angles_to_the_surface() -> None:
    skull = Skull(width=1.1, depth=0.94, crown=1.08, chin=0.88, slope=0.05)
    mesh = ball((0.35, 0.3, 0.45), (0.0, 0.0, 0.5), 64)
    moved = reshaped(mesh, skull)
    edges = moved.triangles[:, 1:] - moved.triangles[:, :1]
    flat = np.cross(edges[:, 0], edges[:, 1])
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
    cosines = (flat * moved.normals.mean(axis=1)).sum(axis=1)
    # Corner normals of small triangles lie near the triangle's own.
    assert np.quantile(cosines, 0.02) > 0.98
    assert reshaped(mesh, Skull()) is mesh
    widest = moved.triangles[..., 1].max() / mesh.triangles[..., 1].max()
    assert widest == pytest.approx(1.1, abs=0.03)


def test_hair_and_what_is_worn_do_not_depend_on_the_tone() -> None:
    drawn = [draw_sitter(np.random.default_rng(8), tone) for tone in (1, 10)]
    (pale, pale_face), (dark, dark_face) = drawn
    assert pale_face == dark_face
    assert replace(pale, skin_tone=10, mask_color=None, glove_color=None, frame_color=dark.frame_color) == replace(
        dark, mask_color=None, glove_color=None
    )


def test_all_hair_headwear_beards_and_frames_can_be_rendered() -> None:
    spec = replace(
        dressed_person(np.random.default_rng(3), {"shirt"}, skin_tone=5, hair="bald", pose="relaxed"),
        facial_hair="none",
    )
    kinds = [FaceShape(cover=name) for name in COVERS]
    kinds += [FaceShape(growth=name) for name in GROWTHS] + [FaceShape(frames=name) for name in FRAMES]
    plain = render_portrait(spec, FaceShape(), SOFT, FRONT, 64, seed=1)
    for shape in kinds:
        made = render_portrait(spec, shape, SOFT, FRONT, 64, seed=1)
        assert np.abs(made.pixels.astype(int) - plain.pixels).max() > 20, shape
        assert made.box == plain.box


def test_a_group_has_a_box_for_each_face_and_hides_who_stands_behind() -> None:
    rng = np.random.default_rng(2)
    sitters = [draw_sitter(rng, tone) for tone in (2, 9)]
    group = render_group(sitters, SOFT, FRONT, 96, seed=3)
    assert [face.tone for face in group.faces] == [2, 9]
    for face in group.faces:
        x0, y0, x1, y1 = face.box
        assert 0 <= x0 < x1 <= 96
        assert 0 <= y0 < y1 <= 96
        assert 0 <= face.visible <= 1
    left, right = (face.box for face in group.faces)
    assert left[0] < right[0]
    # Alone, each shows at least as much of the face.
    for number, sitter in enumerate(sitters):
        alone = render_group([sitter], SOFT, FRONT, 96, seed=3 + number)
        assert alone.faces[0].visible > 0.25


# ------------------------------------------------------------------------------------------------------------- folders
def test_the_table_tells_what_was_rendered(rendered: Path) -> None:
    table = rows(rendered)
    assert [row["tone"] for row in table] == ["1", "2", "3", "4"]
    for row in table:
        pixels = np.asarray(Image.open(rendered / row["path"]))
        assert pixels.shape == (64, 64, 3)
        x0, y0, x1, y1 = (float(row[k]) for k in ("x0", "y0", "x1", "y1"))
        assert 0 <= x0 < x1 <= 64
        assert 0 <= y0 < y1 <= 64
        assert 0.15 < float(row["skin_share"]) <= 1.0
        low, high = (int(v) for v in row["yaw_range"].split("-"))
        assert low <= abs(float(row["yaw_deg"])) <= high
        assert row["light"] in LIGHTS
        assert 0 <= float(row["red"]) <= 255
    made = json.loads((rendered / "definitions.json").read_text())
    assert made["command"] == "verism scenes portraits --count 4 --size 64 --seed 2"
    assert made["swatches"][0] == [246, 237, 228]


def test_the_same_seed_gives_the_same_files_however_many_follow(rendered: Path, tmp_path: Path) -> None:
    render_portraits(tmp_path / "Q", 2, seed=2, size=64)
    assert rows(tmp_path / "Q") == rows(rendered)[:2]
    for row in rows(tmp_path / "Q"):
        assert (tmp_path / "Q" / row["path"]).read_bytes() == (rendered / row["path"]).read_bytes()


def test_bad_requests_are_refused_before_anything_is_written(tmp_path: Path, rendered: Path) -> None:
    for count, size, message in ((0, 64, "one image or more"), (2, 7, "size must be")):
        with pytest.raises(UsageError, match=message):
            render_portraits(tmp_path / "new", count, size=size)
    assert not (tmp_path / "new").exists()
    with pytest.raises(UsageError, match="not empty"):
        render_portraits(rendered, 2, size=64)


def test_command_writes_and_tells(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        portraits, ["--count", "1", "--size", "64", "--seed", "2", "--out", str(tmp_path / "P"), "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == {"truth": str(tmp_path / "P" / "truth.csv"), "pictures": 1}


# -------------------------------------------------------------------------------------------------------------- people
def test_people_are_rendered_with_their_tone_and_face() -> None:
    renderer = PeopleRenderer(96, "bust")
    pale = renderer.render(woman=True, tone=2, worn={"hat", "shirt", "tie"}, seed=5)
    dark = renderer.render(woman=True, tone=9, worn={"hat", "shirt", "tie"}, seed=5)
    assert pale.face == dark.face
    x0, y0, x1, y1 = (int(v) for v in pale.face)
    assert pale.pixels[y0:y1, x0:x1].mean() > dark.pixels[y0:y1, x0:x1].mean() + 50
    again = renderer.render(woman=True, tone=2, worn={"hat", "shirt", "tie"}, seed=5)
    assert np.array_equal(pale.pixels, again.pixels)


def test_a_woman_and_a_man_are_drawn_differently() -> None:
    renderer = PeopleRenderer(64, "bust")
    woman, man = (renderer.render(woman=w, tone=5, worn=(), seed=1).pixels for w in (True, False))
    assert not np.array_equal(woman, man)


def test_views_that_hide_the_face_are_refused() -> None:
    with pytest.raises(UsageError, match="full, upper or bust"):
        PeopleRenderer(64, "lower")
