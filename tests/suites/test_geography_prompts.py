"""Prompts of the geography suite against the counts of the released lists."""

import json
from collections import Counter

import pytest

from verism.errors import UsageError
from verism.suites.geography.prompts import (
    Asked,
    file_name,
    make_prompts,
    parse_prompt,
    released_list,
    rotation,
)
from verism.suites.geography.worlds import FAMILIES, Place, fold, read_world, standard_world, world_from_record

GEODE = standard_world("geode")
DOLLARSTREET = standard_world("dollarstreet")
EVALUATED = GEODE.choose()


def test_the_paper_evaluates_27_objects_in_6_regions():
    assert len(EVALUATED.objects) == 27
    assert len(GEODE.objects) == 40
    assert [p.name for p in EVALUATED.regions] == [
        "Africa",
        "the Americas",
        "East Asia",
        "Europe",
        "Southeast Asia",
        "West Asia",
    ]


def test_27_is_every_object_with_180_images_in_every_region():
    # 180 is the largest number that keeps them: (waste container, Americas) has exactly that; next is fence with 161.
    enough = {t.key for t in GEODE.objects if min(t.rows.values()) >= 180}
    assert enough == {t.key for t in GEODE.objects if t.evaluated}
    smallest = sorted(min(t.rows.values()) for t in GEODE.objects)
    assert smallest[-27] == 180
    assert max(min(t.rows.values()) for t in GEODE.objects if not t.evaluated) == 161


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_asks_for_29160_images(family):
    prompts = make_prompts("geography", EVALUATED, [family])
    assert sum(p.n_images for p in prompts) == 29_160 == 27 * 6 * 180
    assert len({p.prompt_id for p in prompts}) == len({p.text for p in prompts}) == len(prompts)
    sizes = {"object": (27, 1080), "region": (27 * 6, 180), "country": (27 * 18, 60)}[family]
    assert (len(prompts), {p.n_images for p in prompts}) == (sizes[0], {sizes[1]})


def test_texts_and_ids():
    by_id = {p.prompt_id: p for p in make_prompts("geography", EVALUATED)}
    assert by_id["geode/object/cooking_pot"].text == "cooking pot"
    assert by_id["geode/region/Americas/cooking_pot"].text == "cooking pot in the Americas"
    assert by_id["geode/region/SouthEastAsia/hand_soap"].text == "hand soap in Southeast Asia"
    assert by_id["geode/country/Europe/the_United_Kingdom/car"].text == "car in the United Kingdom"
    assert dict(by_id["geode/country/WestAsia/Turkey/car"].facets) == {
        "family": "country",
        "object": "car",
        "region": "WestAsia",
        "country": "Turkey",
    }
    with_article = {p.facets["country"] for p in by_id.values() if str(p.facets["country"]).startswith("the ")}
    assert with_article == {"the United Kingdom", "the Philippines", "the United Arab Emirates"}


def test_countries_rotate_strictly_from_the_first():
    assert rotation(("a", "b", "c"), 180) == [("a", 60), ("b", 60), ("c", 60)]
    assert rotation(("a", "b", "c"), 7) == [("a", 3), ("b", 2), ("c", 2)]
    assert rotation(("a", "b", "c"), 2) == [("a", 1), ("b", 1)]


def test_the_released_geode_country_list():
    rows = list(released_list(GEODE, "country"))
    assert len(rows) == 57_095
    assert [r.img_id for r in rows] == list(range(57_095))
    assert rows[0].prompt == "stall in Italy"
    assert [r.country for r in rows[:4]] == ["Italy", "Spain", "the United Kingdom", "Italy"]
    # Outer loop objects, inner loop regions in the order of the list.
    cells = list(dict.fromkeys((r.object, r.region) for r in rows))
    assert len(cells) == 240
    assert [r for _, r in cells[:6]] == [
        "Europe",
        "Africa",
        "the Americas",
        "East Asia",
        "Southeast Asia",
        "West Asia",
    ]
    assert cells[-1] == ("lighter", "West Asia")
    # Rotation anew in each cell: cell of n rows holds its first country ceil(n / 3) times.
    counts = Counter((r.object, r.region, r.country) for r in rows)
    assert counts["waste container", "the Americas", "Colombia"] == 60
    assert (counts["stall", "Africa", "Nigeria"], counts["stall", "Africa", "Egypt"]) == (68, 67)  # of 202


def test_the_released_geode_region_list():
    rows = list(released_list(GEODE, "region"))
    assert len(rows) == 114_190
    half = 57_095
    assert all(not r.region and r.prompt == r.object for r in rows[:half])
    assert all(rows[i].object == rows[i + half].object for i in range(0, half, 997))
    assert rows[half].prompt == "stall in Europe"
    assert rows[-1].img_id == 114_189


def test_the_released_dollarstreet_lists():
    rows = list(released_list(DOLLARSTREET, "country"))
    assert len(rows) == 21_861
    assert sum(r.object != "bed kids" for r in rows) == 21_709
    # Rows per country, as published.
    countries = Counter((r.region, r.country) for r in rows)
    assert countries == {
        ("Africa", "Nigeria"): 745, ("Africa", "Malawi"): 725, ("Africa", "Ethiopia"): 712, ("Africa", "Cameroon"): 693,
        ("Africa", "South Africa"): 671, ("Africa", "Burkina Faso"): 657, ("the Americas", "the United States"): 2123,
        ("the Americas", "Colombia"): 2070, ("Asia", "India"): 2612, ("Asia", "China"): 2585, ("Asia", "Nepal"): 2559,
        ("Asia", "Indonesia"): 2527, ("Europe", "the Netherlands"): 833, ("Europe", "Serbia"): 808,
        ("Europe", "Spain"): 783, ("Europe", "France"): 758,
    }  # fmt: skip
    regions = list(released_list(DOLLARSTREET, "region"))
    assert len(regions) == 43_722
    assert [r.region for r in regions[:2]] == ["", ""]
    assert regions[21_861].region == "Europe"
    with pytest.raises(UsageError, match="no released list 'city'"):
        list(released_list(DOLLARSTREET, "city"))


def test_dollarstreet_keeps_its_own_sizes_and_pairs_object_images_by_row():
    world = DOLLARSTREET.choose()
    assert len(world.objects) == 109
    prompts = make_prompts("geography_dollarstreet", world)
    by_family = Counter()
    for p in prompts:
        by_family[p.facets["family"]] += p.n_images
    assert set(by_family.values()) == {21_709}
    refrigerator = next(p for p in prompts if p.prompt_id == "dollarstreet/object/Refrigerator")
    assert refrigerator.spec["pairing"] == [["Europe", 43], ["Africa", 16], ["Americas", 52], ["Asia", 108]]
    assert refrigerator.n_images == 43 + 16 + 52 + 108
    assert next(p for p in prompts if p.facets["object"] == "stove/hob").text == "stove/hob"


def test_file_names_are_those_of_the_authors():
    assert file_name("stove/hob in the Americas", 17) == "stove_hob in the Americas__17.png"


@pytest.mark.parametrize("world", [EVALUATED, DOLLARSTREET.choose()], ids=["geode", "dollarstreet"])
def test_every_prompt_is_read_back(world):
    for p in make_prompts("g", world):
        expected = Asked(p.facets["family"], p.spec["object"], p.facets["region"], p.facets["country"])
        assert parse_prompt(world, p.text.replace("/", "_")) == expected


def test_prompts_with_unknown_objects_are_read_and_unknown_places_are_not():
    assert parse_prompt(GEODE, "red cube in the Americas") == Asked("region", "red cube", "Americas")
    assert parse_prompt(GEODE, "red cube in Japan") == Asked("country", "red cube", "EastAsia", "Japan")
    assert parse_prompt(GEODE, "car in Atlantis") is None


def test_names_are_known_however_they_are_written():
    for name in ("the Americas", "americas", "Americas"):
        assert GEODE.region(name).key == "Americas"
    assert GEODE.region("South-East Asia").key == "SouthEastAsia"
    assert DOLLARSTREET.region("as").key == "Asia"
    assert GEODE.thing("Cooking_Pot").name == "cooking pot"
    assert GEODE.region("Atlantis") is None
    assert fold("the East_Asia") == "eastasia"


def test_subsets_are_named_and_unknown_names_refused():
    world = GEODE.choose(["fence", "car"], ["WestAsia", "the Americas"])
    assert [t.key for t in world.objects] == ["fence", "car"]  # fence comes first in the list
    assert [p.key for p in world.regions] == ["Americas", "WestAsia"]
    with pytest.raises(UsageError, match="no object 'carr' in the world 'geode'"):
        GEODE.choose(["carr"])
    with pytest.raises(UsageError, match="no region 'Asia'"):
        GEODE.choose(None, ["Asia"])


# ----------------------------------------------------------------------------------------------------- worlds of users
RECORD = {
    "name": "kitchens",
    "objects": ["mug", {"key": "cooking_pot", "name": "pot"}],
    "regions": {"North": {"name": "the North", "countries": ["Norway", "Iceland"]}, "South": None},
    "templates": {"region": "a photo of a {object} in {region}"},
    "per_cell": 10,
}


def check_kitchens(world):
    assert world.regions == (
        Place(key="North", name="the North", countries=("Norway", "Iceland")),
        Place(key="South", name="South"),
    )
    texts = [p.text for p in make_prompts("g", world, ["object", "region"])]
    assert texts == [
        "mug",
        "pot",
        *(f"a photo of a {o} in {r}" for o in ("mug", "pot") for r in ("the North", "South")),
    ]
    with pytest.raises(UsageError, match="no countries are known for South"):
        make_prompts("g", world)


def test_a_world_of_your_own_in_json_and_yaml(tmp_path):
    yaml = pytest.importorskip("yaml")
    (tmp_path / "w.json").write_text(json.dumps(RECORD))
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(RECORD))
    check_kitchens(read_world(tmp_path / "w.json"))
    check_kitchens(read_world(tmp_path / "w.yaml"))
    again = world_from_record(read_world(tmp_path / "w.json").record(), where="again")
    assert again == read_world(tmp_path / "w.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"object": ["a"]}, "unknown key 'object'"),
        ({"objects": []}, "`objects` is empty"),
        ({"objects": None}, "`objects` is missing"),
        ({"objects": ["a", "a"]}, "object 'a' is listed twice"),
        ({"per_cell": 0}, "per_cell is a whole number"),
        ({"templates": {"region": "{object}"}}, "must hold {object} and {region}"),
        ({"templates": {"city": "{object}"}}, "no template 'city'"),
        ({"regions": {"N": {"country": ["x"]}}}, "unknown field 'country'"),
        ({"regions": {"N": {"countries": "x"}}}, "countries is a list"),
    ],
)
def test_mistakes_in_a_world_are_named(change, message):
    with pytest.raises(UsageError, match=message):
        world_from_record(RECORD | change, where="w.json")
