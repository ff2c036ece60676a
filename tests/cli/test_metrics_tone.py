"""``verism metrics tone``: swatches through files and back, regions, and files that are no images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verism.metrics.colour import MONK_ITA, MONK_RGB

RELEASED = (5, 5, 5, 5, 5, 5, 6, 6, 6, 7)


def save(path: Path, rgb: object, size: tuple[int, int] = (24, 16)) -> Path:
    pixels = np.empty((size[1], size[0], len(tuple(rgb))), np.uint8)  # type: ignore[arg-type]
    pixels[:] = rgb
    Image.fromarray(pixels).save(path)
    return path


def test_faces_of_an_image_are_found_and_have_a_tone_each(in_process, tmp_path):
    from verism.simulator.portraits import PeopleRenderer

    person = PeopleRenderer(128, "bust").render(woman=True, tone=8, worn={"shirt"}, seed=3)
    Image.fromarray(person.pixels).save(tmp_path / "person.png")
    code, out, err = in_process("metrics", "tone", "--image", tmp_path / "person.png", "--json")
    assert (code, err) == (0, "")
    (face,) = json.loads(out)["faces"]
    assert abs(face["monk_tone"] - 8) <= 1
    assert face["probability"] == max(face["probabilities"])
    assert sum(face["probabilities"]) == pytest.approx(1, abs=1e-3)
    x0, y0, x1, y1 = person.face
    assert face["box"] == pytest.approx([x0, y0, x1, y1], abs=0.35 * (y1 - y0))
    _, shown, _ = in_process("metrics", "tone", "--image", tmp_path / "person.png")
    assert f"tone {face['monk_tone']} {face['probability']:.2f}" in shown
    # A box is a region of its own, in which no face is looked for.
    _, boxed, _ = in_process("metrics", "tone", "--image", tmp_path / "person.png", "--box", "0,0,64,64", "--json")
    assert json.loads(boxed)["faces"] == []


@pytest.mark.parametrize("tone", range(1, 11))
def test_a_swatch_is_its_tone_and_what_the_released_code_makes_of_it(in_process, tmp_path, tone):
    path = save(tmp_path / "swatch.png", MONK_RGB[tone - 1])
    code, out, err = in_process("metrics", "tone", "--image", path, "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["n_pixels"] == 24 * 16
    revised = result["revised"]
    assert revised["rgb"] == pytest.approx(MONK_RGB[tone - 1].tolist())
    assert revised["ita_deg"] == pytest.approx(MONK_ITA[tone - 1])
    assert len(revised["lab"]) == 3
    assert (revised["monk_tone"], revised["monk_tone_by_ita"], revised["state"]) == (tone, tone, "ok")
    assert (result["released"]["monk_tone"], result["released"]["index"]) == (
        RELEASED[tone - 1],
        RELEASED[tone - 1] - 1,
    )
    assert result["pixel_rule"]["monk_tone"] == (tone if 4 <= tone <= 7 else None)
    assert result["pixel_rule"]["n_pixels"] == (24 * 16 if 4 <= tone <= 7 else 0)
    assert result["pixel_rule"]["rgb"] == (MONK_RGB[tone - 1].tolist() if 4 <= tone <= 7 else [None] * 3)


def test_a_box_is_measured_alone_and_several_images_are_a_list(in_process, tmp_path):
    pixels = np.full((16, 24, 3), (0, 0, 255), np.uint8)
    pixels[4:8, 2:10] = MONK_RGB[7]
    Image.fromarray(pixels).save(tmp_path / "a.png")
    other = save(tmp_path / "b.png", MONK_RGB[2])
    code, out, _ = in_process(
        "metrics", "tone", "--image", tmp_path / "a.png", "--image", other, "--box", "2,4,10,8", "--json"
    )
    first, second = json.loads(out)
    assert code == 0
    assert (first["revised"]["monk_tone"], first["n_pixels"], first["box"]) == (8, 32, [2, 4, 10, 8])
    assert (second["revised"]["monk_tone"], second["image"]) == (3, str(other))


def test_options_reach_the_measurement(in_process, tmp_path):
    pixels = np.full((16, 24, 3), 200, np.uint8)
    pixels[:, :, 2] = 150  # a grey wall under yellow light
    Image.fromarray(pixels).save(tmp_path / "wall.png")
    arguments = ("metrics", "tone", "--image", tmp_path / "wall.png", "--json")
    result = json.loads(in_process(*arguments, "--illumination", "white-patch", "--average", "mean")[1])["revised"]
    assert max(result["rgb"]) - min(result["rgb"]) < 0.1
    assert "white-patch: light 1.00 1.00 0.5" in result["note"]


def test_without_json_a_table(in_process, tmp_path):
    path = save(tmp_path / "swatch.png", MONK_RGB[5])
    code, out, _ = in_process("metrics", "tone", "--image", path)
    assert code == 0
    assert out.splitlines()[0] == f"{path}: 384 pixels"
    cells = [line.split() for line in out.splitlines()[2:]]
    assert cells == [
        ["revised", "6", "10.88", "160.0", "126.0", "86.0"],
        ["by", "ITA", "6"],
        ["released", "5", "37.39"],
        ["pixel", "rule", "6", "160.0", "126.0", "86.0"],
    ]


def test_the_table_says_why_a_colour_is_not_to_be_used(in_process, tmp_path):
    _, out, _ = in_process("metrics", "tone", "--image", save(tmp_path / "grey.png", (90, 90, 90)))
    assert out.splitlines()[-1].strip() == "grey: 100% of 384 pixels of the skin are grey, 100% of the image"


def test_what_was_done_to_an_image_is_said_on_standard_error(in_process, tmp_path):
    path = tmp_path / "clear.png"
    pixels = np.full((16, 24, 4), (160, 126, 86, 128), np.uint8)
    pixels[0] = (0, 0, 0, 255)
    Image.fromarray(pixels).save(path)
    code, out, err = in_process("metrics", "tone", "--image", path, "--json")
    assert code == 0
    assert "transparency laid over white" in err
    assert json.loads(out)["revised"]["monk_tone"] < 6


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ("0,0,25,4", "must lie within the image; "),
        ("0,0,4", "must be four whole numbers"),
        ("0,0,4,x", "must be four whole numbers"),
        ("4,0,4,4", "0 <= x0 < x1 and 0 <= y0 < y1; got '4,0,4,4'"),
        ("-1,0,4,4", "0 <= x0 < x1 and 0 <= y0 < y1; got '-1,0,4,4'"),
    ],
)
def test_boxes_that_cannot_be(in_process, tmp_path, box, message):
    path = save(tmp_path / "swatch.png", MONK_RGB[5])
    code, out, err = in_process("metrics", "tone", "--image", path, f"--box={box}")
    assert (code, out) == (2, "")
    assert "--box" in err
    assert message in err


def test_files_that_are_no_images(in_process, tmp_path):
    code, _, err = in_process("metrics", "tone", "--image", tmp_path / "none.png")
    assert code == 2
    assert "no such file: none.png" in err
    (tmp_path / "text.png").write_text("no image")
    code, _, err = in_process("metrics", "tone", "--image", tmp_path / "text.png")
    assert code == 2
    assert "not an image file" in err
    assert in_process("metrics", "tone")[0] == 2
