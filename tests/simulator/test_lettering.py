"""Texts on surfaces: boxes lie where the ink is, every font is licensed, what cannot be drawn is refused."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from verism.errors import UsageError, VerismError
from verism.records import GARBLED, Scene, SceneObject, SceneText
from verism.simulator.catalogue import standard_catalogue
from verism.simulator.fonts import find_fonts, standard_fonts
from verism.simulator.lettering import QUALITIES, SIZES, SURFACES, TILTS, draw_texts
from verism.simulator.scene_renderer import SceneRenderer
from verism.suites.text_rendering.own_prompts import draw_own_prompts, scene_of

GREY = np.full((192, 192, 3), 128, dtype=np.uint8)


def scene(*texts: SceneText, seed: int = 0) -> Scene:
    return Scene(
        scene_id="t", skill="text", split="val", text="", background="empty", objects=(), texts=texts, seed=seed
    )


def drawn(*texts: SceneText, seed: int = 0, background=GREY):
    return draw_texts(scene(*texts, seed=seed), background, standard_fonts())


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("tilt", TILTS)
def test_boxes_lie_around_the_ink(surface, tilt):
    made = drawn(SceneText(text="HHHH HHHH", surface=surface, tilt=tilt, font="bold"), seed=3)
    assert [word.text for word in made.words] == ["HHHH", "HHHH"]
    for word in made.words:
        x0, y0, x1, y1 = word.box
        assert 0 <= x0 < x1 <= 192
        assert 0 <= y0 < y1 <= 192
        inside = made.pixels[round(y0) : round(y1), round(x0) : round(x1)].astype(float).mean(axis=2)
        # Letters and ground both fill much of a box around four H: it is neither blank nor shifted off the word.
        assert inside.std() > 20
        middle = (inside.max() + inside.min()) / 2
        assert 0.2 < (inside > middle).mean() < 0.85


def test_words_and_lines_are_in_reading_order():
    made = drawn(SceneText(text="Alpha beta gamma delta epsilon zeta"), SceneText(text="Eta"), seed=1)
    assert [word.text for word in made.words] == ["Alpha", "beta", "gamma", "delta", "epsilon", "zeta", "Eta"]
    assert [word.region for word in made.words] == [0] * 6 + [1]
    lines = [word.line for word in made.words]
    assert lines == sorted(lines)
    tops = {line: min(w.box[1] for w in made.words if w.line == line) for line in lines}
    assert list(tops.values()) == sorted(tops.values())


def test_same_seed_same_image_and_another_seed_another():
    text = SceneText(text="Wet Paint", quality="noisy")
    assert np.array_equal(drawn(text, seed=5).pixels, drawn(text, seed=5).pixels)
    assert not np.array_equal(drawn(text, seed=5).pixels, drawn(text, seed=6).pixels)


def test_sizes_are_sizes_and_qualities_change_the_image():
    heights = {
        size: np.mean([w.box[3] - w.box[1] for w in drawn(SceneText(text="HI", size=size, font="sans")).words])
        for size in SIZES
    }
    assert heights["small"] < heights["medium"] < heights["large"]
    made = [drawn(SceneText(text="HI", quality=quality)).pixels for quality in QUALITIES]
    assert not np.array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])


def test_long_text_is_set_smaller_and_one_too_long_is_refused():
    long = " ".join(["paragraph"] * 12)
    assert len(drawn(SceneText(text=long)).words) == 12
    with pytest.raises(VerismError, match=r"do not fit into an image of 192 pixels; use a larger --size"):
        drawn(SceneText(text=" ".join(["paragraph"] * 900)))


def test_garbled_glyphs_are_drawn_as_strokes():
    plain, garbled = (drawn(SceneText(text=t, font="sans"), seed=2) for t in ("HAT", f"H{GARBLED}T"))
    assert not np.array_equal(plain.pixels, garbled.pixels)
    assert garbled.words[0].text == f"H{GARBLED}T"


def test_every_own_text_has_its_font():
    fonts = {font.name: font for font in standard_fonts()}
    for asked in draw_own_prompts():
        for text in scene_of(asked).texts:
            assert fonts[text.font].has(text.text), (text.font, text.text)


def test_characters_that_no_font_has_are_refused_with_the_remedy():
    with pytest.raises(VerismError, match=r"lacks '.+'\)\. Put a font that has them into a folder `fonts`"):
        find_fonts("vẹtnaጀmese", standard_fonts())


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (SceneText(text="  "), "nothing in it"),
        (SceneText(text="a", surface="wall"), "unknown surface 'wall'; there are sign, poster"),
        (SceneText(text="a", tilt="more"), "unknown tilt 'more'"),
        (SceneText(text="a", size="huge"), "unknown size 'huge'"),
        (SceneText(text="a", font="comic"), "unknown font 'comic'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(text, match):
    with pytest.raises(VerismError, match=match):
        drawn(text)


def test_scene_renderer_draws_texts_over_an_environment():
    renderer = SceneRenderer(96)
    made = renderer.render(replace(scene(SceneText(text="OPEN")), background="beach"))
    assert made.pixels.shape == (96, 96, 3)
    assert made.boxes.shape == (0, 4)
    assert made.words[0].text == "OPEN"
    both = replace(scene(SceneText(text="OPEN")), objects=(SceneObject(shape="dog", label="dog"),))
    with pytest.raises(VerismError, match="texts or objects, and this one has both"):
        renderer.render(both)


def test_user_fonts_are_found_in_the_assets(tmp_path):
    (tmp_path / "fonts").mkdir()
    file = standard_fonts()[0].path
    (tmp_path / "fonts" / "mine.ttf").write_bytes(file.read_bytes())
    catalogue = standard_catalogue().with_assets(tmp_path)
    assert catalogue.fonts[-1].name == "mine"
    made = draw_texts(scene(SceneText(text="HI", font="mine")), GREY, catalogue.fonts)
    assert made.words[0].text == "HI"
    (tmp_path / "fonts" / "broken.otf").write_bytes(b"no font")
    with pytest.raises(UsageError, match=r"broken\.otf: no font that can be read"):
        standard_catalogue().with_assets(tmp_path)


def test_every_font_has_its_licence_beside_it():
    folder = standard_fonts()[0].path.parent
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for font in standard_fonts():
        assert f"`{font.path.name}`" in readme
    for name in ("LICENSE-OFL.txt", "LICENSE-DejaVu.txt"):
        assert (folder / name).is_file()
        assert name in readme


def test_images_of_a_sheet_can_be_saved(tmp_path):
    made = drawn(SceneText(text="Свежий хлеб"), SceneText(text="新鲜水果"), SceneText(text="신선한 과일"))
    Image.fromarray(made.pixels).save(tmp_path / "sheet.png")
    assert [word.region for word in made.words] == [0, 0, 1, 2, 2]
