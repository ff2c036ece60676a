"""Images that exist already: which prompts they answer."""

import csv
import json
from pathlib import Path

import pytest

from verism.errors import UsageError
from verism.suites.geography.prompts import file_name, released_list
from verism.suites.geography.user_images import read_user_images, user_image_prompts
from verism.suites.geography.worlds import standard_world

GEODE = standard_world("geode")
DOLLARSTREET = standard_world("dollarstreet")


def table(path, *rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(k for row in rows for k in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


def asked(rows):
    return [(r.family, r.object, r.region, r.country) for r in rows]


def test_columns_say_the_family(tmp_path):
    rows = read_user_images(
        table(
            tmp_path / "g.csv",
            {"file_path": "1.png", "object": "car", "region": "Africa", "country": ""},
            {"file_path": "2.png", "object": "cooking_pot", "region": "Africa", "country": "Nigeria"},
            {"file_path": "3.png", "object": "car", "region": "", "country": "United Kingdom"},
            {"file_path": "/abs/4.png", "object": "car", "region": "", "country": ""},
        ),
        GEODE,
    )
    assert asked(rows) == [
        ("region", "car", "Africa", None),
        ("country", "cooking_pot", "Africa", "Nigeria"),
        ("country", "car", "Europe", "the United Kingdom"),
        ("object", "car", None, None),
    ]
    assert rows[0].path == str(tmp_path / "1.png")
    assert rows[3].path == "/abs/4.png"


def test_prompts_and_ids_say_it_too(tmp_path):
    path = tmp_path / "g.jsonl"
    rows = [
        {"path": "1.png", "prompt": "car in the Americas"},
        {"path": "2.png", "prompt": "plate of food in Turkey"},
        {"path": "3.png", "prompt": "cooking pot"},
        {"path": "4.png", "prompt": "red cube in East Asia"},
        {"path": "5.png", "prompt": "blue ball"},
        {"path": "6.png", "prompt_id": "geode/country/Europe/the_United_Kingdom/car"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert asked(read_user_images(path, GEODE)) == [
        ("region", "car", "Americas", None),
        ("country", "plate_of_food", "WestAsia", "Turkey"),
        ("object", "cooking_pot", None, None),
        ("region", "red cube", "EastAsia", None),
        ("object", "blue ball", None, None),
        ("country", "car", "Europe", "the United Kingdom"),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"object": "car"}, "no file_path"),
        ({"path": "a"}, "no object, prompt or prompt_id"),
        ({"path": "a", "prompt": "car in Atlantis"}, "names no object and region of the world 'geode'"),
        ({"path": "a", "prompt": "car", "family": "region"}, "names no region of the world"),
        ({"path": "a", "prompt_id": "geode/region/Mars/car"}, "no prompt 'geode/region/Mars/car'"),
        ({"path": "a", "object": "car", "family": "city"}, "no family 'city'"),
        ({"path": "a", "object": "car", "family": "region"}, "a region prompt without region"),
        ({"path": "a", "object": "car", "family": "country"}, "a country prompt without country"),
        ({"path": "a", "object": "car", "country": "Norway"}, "'Norway' is in no region"),
    ],
)
def test_rows_that_name_no_prompt_are_refused_by_number(tmp_path, row, message):
    with pytest.raises(UsageError, match=rf"line 2: .*{message}"):
        read_user_images(table(tmp_path / "g.csv", row), GEODE)


def test_prompts_come_by_family_and_in_the_order_of_the_world(tmp_path):
    rows = [
        {"path": f"{i}.png", "object": o, "region": r, "country": c}
        for i, (o, r, c) in enumerate(
            [
                ("toy", "Africa", ""),
                ("car", "Africa", "Egypt"),
                ("toy", "Africa", ""),
                ("bag", "", ""),
                ("mug", "X", ""),
            ]
        )
    ]
    world = GEODE.with_foreign(["mug"], ["X"])
    prompts, images = user_image_prompts("geography", world, read_user_images(table(tmp_path / "g.csv", *rows), world))
    assert [(p.prompt_id, p.text, p.n_images) for p in prompts] == [
        ("geode/object/bag", "bag", 1),
        ("geode/region/Africa/toy", "toy in Africa", 2),
        ("geode/region/X/mug", "mug in X", 1),
        ("geode/country/Africa/Egypt/car", "car in Egypt", 1),
    ]
    assert [(b.prompt_id, b.index, Path(b.path).name) for b in images] == [
        ("geode/object/bag", 0, "3.png"),
        ("geode/region/Africa/toy", 0, "0.png"),
        ("geode/region/Africa/toy", 1, "2.png"),
        ("geode/region/X/mug", 0, "4.png"),
        ("geode/country/Africa/Egypt/car", 0, "1.png"),
    ]


def test_other_texts_and_columns_make_other_prompts(tmp_path):
    rows = [
        {"path": "1.png", "object": "car", "region": "Africa", "prompt": "a car from Africa", "guidance": "2"},
        {"path": "2.png", "object": "car", "region": "Africa", "prompt": "car in Africa", "guidance": "2"},
        {"path": "3.png", "object": "car", "region": "Africa", "prompt": "car in Africa", "guidance": "7"},
    ]
    read = read_user_images(table(tmp_path / "g.csv", *rows), GEODE)
    prompts, _ = user_image_prompts("geography", GEODE, read, ["guidance"])
    assert [(p.prompt_id, p.text, p.facets["guidance"]) for p in prompts] == [
        ("geode/region/Africa/car", "a car from Africa", "2"),
        ("geode/region/Africa/car~2", "car in Africa", "2"),
        ("geode/region/Africa/car~3", "car in Africa", "7"),
    ]
    assert len(user_image_prompts("geography", GEODE, read)[0]) == 2


def test_an_object_image_with_a_region_is_compared_with_it(tmp_path):
    rows = [{"path": f"{i}.png", "object": "car", "region": r, "family": "object"} for i, r in enumerate("NSN")]
    world = GEODE.with_foreign([], ["N", "S"])
    read = read_user_images(table(tmp_path / "g.csv", *rows), world)
    prompts, images = user_image_prompts("geography", world, read)
    assert prompts[0].spec["pairing"] == [["N", 2], ["S", 1]]
    assert prompts[0].facets["region"] is None
    assert [Path(b.path).name for b in images] == ["0.png", "2.png", "1.png"]


# ---------------------------------------------------------------------------------------------------- authors' folders
def test_a_folder_in_the_authors_naming(tmp_path):
    rows = [r for r in released_list(GEODE, "region") if r.object in ("stall", "cooking pot")]
    picked = [rows[3], rows[-1], rows[-5], rows[1500]]
    for row in picked:
        path = tmp_path / "part" / file_name(row.prompt, row.img_id)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    (tmp_path / "notes.txt").write_text("x")
    result = read_user_images(tmp_path, GEODE)
    assert [Path(f.path).name for f in result] == [
        file_name(r.prompt, r.img_id) for r in sorted(picked, key=lambda r: r.img_id)
    ]
    assert result[0].family == "object"
    assert (result[-1].family, result[-1].region) == ("region", "WestAsia")


def test_slashes_became_underscores_and_object_images_have_the_region_of_their_row(tmp_path):
    rows = list(released_list(DOLLARSTREET, "region"))
    first = next(i for i, r in enumerate(rows) if r.object == "stove/hob")
    europe = DOLLARSTREET.thing("stove/hob").rows["Europe"]
    for i in (first, first + europe, first + 21_861):
        (tmp_path / file_name(rows[i].prompt, rows[i].img_id)).write_bytes(b"")
    result = read_user_images(tmp_path, DOLLARSTREET)
    assert [(f.family, f.object, f.region, f.paired) for f in result] == [
        ("object", "Stove/hob", None, "Europe"),
        ("object", "Stove/hob", None, "Africa"),
        ("region", "Stove/hob", "Europe", None),
    ]
    # As published: row i goes with the region of row i + 21,861.
    assert [rows[i + 21_861].region for i in (first, first + europe)] == ["Europe", "Africa"]


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no image in it is named PROMPT__NUMBER"):
        read_user_images(tmp_path, GEODE)
    (tmp_path / "car in Atlantis__1.png").write_bytes(b"")
    with pytest.raises(UsageError, match="'car in Atlantis' is no prompt of the world"):
        read_user_images(tmp_path, GEODE)
