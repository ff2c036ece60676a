"""Environments keep the contract of `Surroundings`, vary with the seed, and are made of users' images as well."""

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verism.errors import UsageError
from verism.simulator.environments import ENVIRONMENTS, environment, read_radiance, user_environment
from verism.simulator.renderer import Camera, render
from verism.simulator.surroundings import Surroundings

NAMES = [e.name for e in ENVIRONMENTS]
COLORED = [n for n in NAMES if n != "empty"]


def sphere(count: int = 600) -> np.ndarray:
    """Directions over the whole sphere, poles and axes included."""
    rng = np.random.default_rng(0)
    d = rng.standard_normal((count, 3))
    d = np.concatenate([d, np.eye(3), -np.eye(3)])
    return (d / np.linalg.norm(d, axis=1, keepdims=True)).astype(np.float32)


def floor(count: int = 600) -> np.ndarray:
    """Points of the ground plane, near and (to the horizon) far."""
    rng = np.random.default_rng(1)
    near = rng.uniform(-8, 8, (count, 2))
    far = rng.uniform(-1, 1, (count // 4, 2)) * 10 ** rng.uniform(1, 5.5, (count // 4, 1))
    return np.concatenate([near, far, np.zeros((1, 2))]).astype(np.float32)


def build(name: str, seed: int = 0) -> Surroundings:
    return environment(name).build(np.random.default_rng(seed))


def check(s: Surroundings) -> None:
    d = sphere()
    radiance = s.sky(d)
    assert radiance.shape == d.shape
    assert radiance.dtype == np.float32
    assert np.isfinite(radiance).all()
    assert radiance.min() >= 0
    assert s.sky(d[:0]).shape == (0, 3)
    if s.ground is not None:
        xy = floor()
        albedo = s.ground(xy)
        assert albedo.shape == (len(xy), 3)
        assert albedo.dtype == np.float32
        assert np.isfinite(albedo).all()
        assert albedo.min() >= 0
        assert albedo.max() <= 1
        assert s.ground(xy[:0]).shape == (0, 3)
        # The same place has the same colour whichever other points are asked for with it, and asking changes nothing.
        np.testing.assert_array_equal(s.ground(xy[5:50]), albedo[5:50])
    assert math.hypot(*s.sun_direction) == pytest.approx(1, abs=1e-5)
    assert s.sun_direction[2] > 0
    assert min(s.sun) > 0
    assert s.haze > 0


def test_there_are_many_places_and_names_are_unique() -> None:
    assert len(COLORED) >= 13
    assert "empty" in NAMES
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_holds(name: str) -> None:
    for seed in (0, 1):
        s = build(name, seed)
        check(s)
        # Lit from the camera's side, so that what one sees of an object is not its shadow.
        assert s.sun_direction[1] < 0
        for mesh, _ in s.scenery:
            x, y = mesh.triangles[..., 0], mesh.triangles[..., 1]
            assert np.isfinite(mesh.triangles).all()
            assert (((y > 6) | (np.abs(x) > 6)).all(axis=1)).all(), "scenery stands on the stage"


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_one_place(name: str) -> None:
    a, b = build(name, 7), build(name, 7)
    assert a.sun_direction == b.sun_direction
    np.testing.assert_array_equal(a.sky(sphere()), b.sky(sphere()))
    if a.ground is not None and b.ground is not None:
        np.testing.assert_array_equal(a.ground(floor()), b.ground(floor()))
    for (mesh, material), (other, other_material) in zip(a.scenery, b.scenery, strict=True):
        np.testing.assert_array_equal(mesh.triangles, other.triangles)
        assert material == other_material


@pytest.mark.parametrize("name", COLORED)
def test_seeds_differ(name: str) -> None:
    a, b = build(name, 1), build(name, 2)
    assert a.ground is not None
    assert b.ground is not None
    assert a.sun_direction != b.sun_direction
    assert np.abs(a.ground(floor()) - b.ground(floor())).mean() > 1e-3


@pytest.mark.parametrize("name", COLORED)
def test_exposure_is_sane(name: str) -> None:
    camera = Camera((0, -4.5, 1.5), (0, 0, 0.6))
    pixels = render([], build(name, 3), camera, 48).pixels
    low, high = (35, 120) if name == "night_street" else (70, 225)
    assert low < pixels.mean() < high
    assert (pixels.max(axis=2) >= 245).mean() < 0.05, "blown out"


def test_empty_is_black_but_lit() -> None:
    s = build("empty")
    assert s.ground is None
    assert not s.sky(sphere()).any()
    assert s.ambient is not None
    assert min(min(c) for c in s.ambient) > 0.1
    rendering = render([], s, Camera((0, -4.5, 1.5), (0, 0, 0.6)), 32)
    assert not rendering.pixels.any()


def test_an_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(ValueError, match="meadow"):
        environment("medow")
    with pytest.raises(ValueError, match="known: empty, meadow"):
        environment("zzz")


# ------------------------------------------------------------------------------------------------------ users' images
def rgbe(pixels: list[list[tuple[int, int, int, int]]], *, packed: bool) -> bytes:
    """A Radiance file, by hand: flat, or run-length coded with one run and one copy per channel."""
    height, width = len(pixels), len(pixels[0])
    out = b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n" + f"-Y {height} +X {width}\n".encode()
    for row in pixels:
        if not packed:
            out += b"".join(bytes(p) for p in row)
            continue
        out += bytes([2, 2, width >> 8, width & 255])
        for k in range(4):
            channel = [p[k] for p in row]
            run = next((i for i, v in enumerate(channel) if v != channel[0]), width)
            out += bytes([128 + run, channel[0]])
            if run < width:
                out += bytes([width - run, *channel[run:]])
    return out


# Two rows of ten pixels. A channel's value is mantissa * 2^(exponent - 136): 128 at exponent 129 is 1, at 132 is 8.
ROWS = [
    [(128, 64, 0, 129)] * 6 + [(128, 128, 128, 132), (10, 20, 30, 0), (255, 1, 2, 128), (5, 6, 7, 130)],
    [(1, 2, 3, 136)] * 10,
]


@pytest.mark.parametrize("packed", [False, True])
def test_radiance_values(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "sky.hdr"
    path.write_bytes(rgbe(ROWS, packed=packed))
    image = read_radiance(path)
    assert image.shape == (2, 10, 3)
    np.testing.assert_allclose(image[0, 0], [1, 0.5, 0])
    np.testing.assert_allclose(image[0, 6], [8, 8, 8])
    np.testing.assert_array_equal(image[0, 7], [0, 0, 0])  # exponent 0 means black
    np.testing.assert_allclose(image[0, 8], np.array([255, 1, 2]) / 256)
    np.testing.assert_allclose(image[1], np.tile([1.0, 2.0, 3.0], (10, 1)))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda b: b"P6" + b, "begins with", id="another format"),
        pytest.param(lambda b: b[:-1], "damaged", id="cut off in a run"),
        pytest.param(lambda b: b[:-10], "row 1 of 2", id="cut off in a row"),
        pytest.param(lambda b: b.replace(b"-Y 2 +X 10", b"+X 10 -Y 2"), "expected a size", id="turned"),
        pytest.param(lambda b: b.replace(b"_rgbe", b"_xyze"), "XYZ", id="other colours"),
        pytest.param(lambda b: b[:20], "header", id="no header end"),
        pytest.param(lambda b: b.replace(bytes([128 + 7, 128]), bytes([128 + 60, 128])), "row 0", id="run too long"),
    ],
)
def test_damaged_radiance_files_are_refused(tmp_path: Path, damage, message: str) -> None:
    path = tmp_path / "sky.hdr"
    path.write_bytes(damage(rgbe(ROWS, packed=True)))
    with pytest.raises(UsageError, match=message):
        read_radiance(path)


def test_a_short_flat_radiance_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sky.hdr"
    path.write_bytes(rgbe(ROWS, packed=False)[:-4])
    with pytest.raises(UsageError, match="80 bytes of pixels expected, 76 found"):
        read_radiance(path)


def panorama_pixels() -> np.ndarray:
    """128 x 64: blue sky, green ground, a white sun at 45 degrees elevation, a quarter turn right of the middle."""
    pixels = np.zeros((64, 128, 3), np.uint8)
    pixels[:32] = (60, 90, 160)
    pixels[32:] = (60, 120, 40)
    pixels[15:17, 95:97] = 255  # about row 16 of 64: 90 - 16 / 64 * 180 = 45 degrees; column 96 of 128: +90 degrees
    return pixels


def sun_radiance(s: Surroundings) -> np.ndarray:
    return s.sky(np.array([s.sun_direction], np.float32))[0]


def test_a_panorama_gives_sky_ground_and_sun(tmp_path: Path) -> None:
    path = tmp_path / "park.png"
    Image.fromarray(panorama_pixels()).save(path)
    position = user_environment(path)
    assert position.name == "park"
    directions = set()
    for seed in range(4):
        s = position.build(np.random.default_rng(seed))
        check(s)
        assert s.sun_direction[1] < 0
        assert math.degrees(math.asin(s.sun_direction[2])) == pytest.approx(45, abs=1)
        directions.add(s.sun_direction)
        # The direction of the light is where the white spot stands in this turn of the sky.
        np.testing.assert_allclose(sun_radiance(s), 1, atol=0.05)
        assert s.ground is not None
        grass = s.ground(np.zeros((1, 2), np.float32))[0]
        assert grass[1] > grass[0] > grass[2]  # green: 120 > 60 > 40
    assert len(directions) == 4


def test_lights_below_fifteen_degrees_are_passed_over(tmp_path: Path) -> None:
    pixels = panorama_pixels()
    pixels[15:17, 95:97] = 200  # dimmer, but high enough
    pixels[30:32, 20:30] = 255  # rows 31 of 64: 90 - 31 / 64 * 180 = 3 degrees
    Image.fromarray(pixels).save(tmp_path / "low.png")
    s = user_environment(tmp_path / "low.png").build(np.random.default_rng(0))
    assert math.degrees(math.asin(s.sun_direction[2])) == pytest.approx(45, abs=1)


@pytest.mark.parametrize("packed", [False, True])
def test_a_radiance_panorama_works(tmp_path: Path, packed: bool) -> None:
    sky, ground, sun = (40, 60, 110, 129), (40, 80, 30, 129), (200, 190, 180, 137)
    rows = [[sky] * 64 for _ in range(16)] + [[ground] * 64 for _ in range(16)]
    rows[7] = [sky] * 40 + [sun] * 2 + [sky] * 22
    path = tmp_path / "field.hdr"
    path.write_bytes(rgbe(rows, packed=packed))
    s = user_environment(path).build(np.random.default_rng(0))
    check(s)
    # Row 7 of 32: 90 - 7.5 / 32 * 180 = 48 degrees.
    assert math.degrees(math.asin(s.sun_direction[2])) == pytest.approx(48, abs=1)
    assert sun_radiance(s)[0] > 2, "the sun of an .hdr file is far brighter than paper"
    assert s.sun[0] > s.sun[2]  # 200 > 180


def test_a_photo_is_seen_where_the_camera_looks(tmp_path: Path) -> None:
    # Left half red, right half blue; below the middle darker.
    pixels = np.zeros((60, 90, 3), np.uint8)
    pixels[:, :45, 0], pixels[:, 45:, 2] = 200, 200
    pixels[30:] //= 2
    Image.fromarray(pixels).save(tmp_path / "street.png")
    position = user_environment(tmp_path / "street.png")
    assert position.name == "street"
    s = position.build(np.random.default_rng(0))
    check(s)
    assert s.sun_direction[1] < 0
    left, right = s.sky(np.array([[-0.2, 1, 0.05], [0.2, 1, 0.05]], np.float32) / np.float32(1.02))
    assert left[0] > 0.5 > 0.01 > left[2]
    assert right[2] > 0.5 > 0.01 > right[0]
    assert s.ground is not None
    red, blue = s.ground(np.array([[-1, 0.5], [1, 0.5]], np.float32))
    assert red[0] > 10 * red[2]
    assert blue[2] > 10 * blue[0]


def test_a_gray_photo_of_any_mode_works(tmp_path: Path) -> None:
    Image.fromarray(np.full((20, 30), 128, np.uint8)).save(tmp_path / "wall.jpg")
    check(user_environment(tmp_path / "wall.jpg").build(np.random.default_rng(0)))


@pytest.mark.parametrize("name", ["notes.png", "notes.hdr"])
def test_files_that_are_no_images_are_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("hello")
    with pytest.raises(UsageError, match=name):
        user_environment(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        user_environment(tmp_path / "nowhere.png")
    with pytest.raises(UsageError, match="no such file"):
        user_environment(tmp_path)
