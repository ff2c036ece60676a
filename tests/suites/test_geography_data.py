"""Real images: published layouts, tables, reference files; what a run would use of them."""

import csv

import numpy as np
import pytest

from verism.errors import UsageError
from verism.references import write_reference
from verism.suites.geography.layouts import check_data, fit_world, geode_name, read_real, reference_of
from verism.suites.geography.worlds import standard_world

GEODE = standard_world("geode")
DOLLARSTREET = standard_world("dollarstreet")


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(k for row in rows for k in row)))
        writer.writeheader()
        writer.writerows(rows)


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def geode_folder(folder, cells, **more):
    rows = []
    for (region, item), n in cells.items():
        for i in range(n):
            name = f"{region}_Egypt_Egypt_{item}_{i}.jpg"
            touch(folder / "images" / name)
            rows.append({"file_path": name, "object": item, "region": region, **more})
    write_csv(folder / "index.csv", rows)
    return folder


# -------------------------------------------------------------------------------------------------------------- GeoDE
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Africa_Egypt_Egypt_cooking_pot_12.jpg", ("Africa", "Egypt", "cooking_pot")),
        ("Africa_South_Africa_South_Africa_bag_1.jpg", ("Africa", "South Africa", "bag")),
        ("SouthEastAsia_Thailand_Thailand_hand_soap_3.jpg", ("SouthEastAsia", "Thailand", "hand_soap")),
        ("Europe_Italy_Italy_light_switch_9.jpg", ("Europe", "Italy", "light_switch")),
        ("Atlantis_Egypt_Egypt_bag_1.jpg", None),
        ("holiday.jpg", None),
    ],
)
def test_geode_file_names_are_taken_apart(name, parts):
    assert geode_name(name, GEODE) == parts
    assert geode_name(name, GEODE.with_foreign(["pot", "soap"], [])) == parts  # the longest name counts


def test_a_geode_folder_with_and_without_its_index(tmp_path):
    folder = geode_folder(tmp_path, {("Africa", "cooking_pot"): 2, ("Europe", "bag"): 1})
    listed = read_real(folder, GEODE)
    assert listed.layout == "geode"
    assert [(p.object, p.region, p.row) for p in listed.images] == [
        ("cooking_pot", "Africa", 0),
        ("cooking_pot", "Africa", 1),
        ("bag", "Europe", 2),
    ]
    assert listed.images[0].extra["country"] == "Egypt"
    (folder / "index.csv").unlink()
    touch(folder / "images" / "holiday.jpg")
    result = read_real(folder, GEODE)
    assert {(p.object, p.region) for p in result.images} == {("cooking_pot", "Africa"), ("bag", "Europe")}
    assert list(result.dropped.values()) == [1]


def test_geode_is_checked_against_the_subset_of_the_paper(tmp_path):
    cells = {(r.key, t.key): 6 for r in GEODE.regions for t in GEODE.objects if t.evaluated}
    del cells["WestAsia", "toy"]
    cells["Africa", "dog"] = 3
    folder = geode_folder(tmp_path, {**cells, ("Africa", "fence"): 4})
    (folder / "images" / "Europe_Egypt_Egypt_hat_0.jpg").unlink()
    report = check_data(folder, GEODE, layout="geode")
    record = report.record()
    assert record["subset"]["world"] == "geode"
    assert (len(record["subset"]["objects"]), len(record["subset"]["regions"])) == (27, 6)
    assert record["subset"]["per_cell"] == 180
    assert record["files_missing"] == 1
    assert record["rows_dropped"] == {"file is missing": 1}
    assert record["not_of_the_world"] == {"fence": 4}
    assert record["subset"]["pictures"] == 27 * 6 * 6 - 6 - 3 - 1
    assert not record["ready"]
    assert record["problems"][0] == "no image of toy in WestAsia"
    assert "dog in Africa (3)" in record["problems"][1]
    counts = {(c["object"], c["region"]): c["pictures"] for c in record["cells"]}
    assert (counts["hat", "Europe"], counts["toy", "WestAsia"], counts["toy", "Africa"]) == (5, 0, 6)
    assert "27 objects x 6 regions x 180" in "\n".join(report.lines())


def test_the_tree_tag_filters_and_must_exist(tmp_path):
    folder = geode_folder(tmp_path, {("Africa", "bag"): 2}, tree_tag="no")
    assert len(read_real(folder, GEODE, tree_tag="no").images) == 2
    assert read_real(folder, GEODE, tree_tag="yes").dropped == {"tree_tag is not yes": 2}
    write_csv(tmp_path / "r.csv", [{"file_path": "a", "object": "bag", "region": "Africa"}])
    with pytest.raises(UsageError, match="there is no column tree_tag"):
        read_real(tmp_path / "r.csv", GEODE, tree_tag="no")


# -------------------------------------------------------------------------------------------------------- DollarStreet
def test_a_dollarstreet_folder(tmp_path):
    base = tmp_path / "dataset_dollarstreet"
    row = {"country.name": "India", "type": "image", "place": "p", "income": "30"}
    write_rows = [
        {"id": "1", "region.id": "as", "topics": "['Spices']", "imageRelPath": "assets/1/1.jpg", **row},
        {"id": "2", "region.id": "eu", "topics": "Stove/hob", "imageRelPath": "assets/2/2.jpg", **row},
        {"id": "3", "region.id": "af", "topics": "['Spices', 'Salt']", "imageRelPath": "assets/3/3.jpg", **row},
        {"id": "4", "region.id": "am", "topics": "['Family']", "imageRelPath": "assets/4/4.jpg", **row},
        {"id": "5", "region.id": "am", "topics": "['Bed kids']", "imageRelPath": "assets/5/5.jpg", **row},
        {"id": "6", "region.id": "am", "topics": "['Salt']", "imageRelPath": "assets/6/gone.jpg", **row},
        {"id": "7", "region.id": "am", "topics": "['Salt']", "imageRelPath": "", **row, "type": "video"},
    ]
    for i in range(1, 6):
        touch(base / "assets" / str(i) / f"{i}.jpg")
    write_csv(base / "images_v2_imagenet_train.csv", write_rows[:4])
    write_csv(base / "images_v2_imagenet_test.csv", [*write_rows[4:], write_rows[0]])
    data = read_real(tmp_path, DOLLARSTREET)
    assert data.layout == "dollarstreet"
    assert data.dropped == {
        "more than one topic": 1,
        "not an image (column type)": 1,
        "listed twice": 1,
        "file is missing": 1,
    }
    report = check_data(tmp_path, DOLLARSTREET, layout="dollarstreet").record()
    assert len(report["subset"]["objects"]) == 109
    assert report["subset"]["per_cell"] is None
    assert (
        report["subset"]["pictures"] == 2
    )  # spices and stove/hob; Family is subjective, Bed kids left out by the paper
    assert report["not_of_the_world"] == {"Family": 1, "Bed kids": 1}
    reference = reference_of(data, DOLLARSTREET.choose())
    assert [(p.facets["object"], p.facets["region"]) for p in reference.images] == [
        ("spices", "Asia"),
        ("stove/hob", "Europe"),
    ]


# -------------------------------------------------------------------------------------------------------------- tables
def table(tmp_path, cells, name="real.csv"):
    rows = [
        {"file_path": f"{o}_{r}_{i}.png", "object": o, "region": r, "income": "low" if i % 2 else "high"}
        for (o, r), n in cells.items()
        for i in range(n)
    ]
    for row in rows:
        touch(tmp_path / row["file_path"])
    write_csv(tmp_path / name, rows)
    return tmp_path / name


def test_any_table_and_names_of_ones_own(tmp_path):
    path = table(tmp_path, {("red_cube", "north"): 7, ("red_cube", "Southeast Asia"): 6, ("car", "north"): 5})
    report = check_data(path, GEODE).record()
    assert report["subset"]["objects"] == ["car", "red cube"]
    assert report["subset"]["regions"] == ["SouthEastAsia", "north"]
    assert report["subset"]["per_cell"] == 5  # the smallest cell that can be used at all
    assert report["problems"] == ["no image of car in SouthEastAsia"]
    assert report["ready"]
    data = read_real(path, GEODE)
    world = fit_world(
        GEODE, objects=None, regions=None, seen_objects=["red_cube"], seen_regions=["north"], foreign=True
    )
    reference = reference_of(data, world, ["income"])
    assert len(reference.images) == 7
    assert dict(reference.images[1].facets) == {"object": "red cube", "region": "north", "row": 1, "income": "low"}
    assert reference.images[0].image_id == "real/red_cube_north_0.png"


def test_a_table_with_all_27_objects_is_held_to_them():
    evaluated = [t.key for t in GEODE.objects if t.evaluated]
    arguments = {"objects": None, "regions": None, "seen_regions": ["Africa"], "foreign": True}
    full = fit_world(GEODE, seen_objects=[*evaluated, "fence", "mug"], **arguments)
    assert len(full.objects) == 28  # fence is of the other 13; mug is of your own
    assert len(fit_world(GEODE, seen_objects=[*evaluated[1:], "fence"], **arguments).objects) == 27
    with pytest.raises(UsageError, match="the images show no object of the world"):
        fit_world(GEODE, seen_objects=["mug"], **{**arguments, "foreign": False})


def test_one_file_with_two_labels_is_two_rows_and_missing_files_can_stay(tmp_path):
    rows = [{"path": "a.png", "object": "bag", "region": r} for r in ("Africa", "Europe")]
    write_csv(tmp_path / "r.csv", rows)
    data = read_real(tmp_path / "r.csv", GEODE, need_files=False)
    assert [p.name for p in data.images] == ["a.png", "a.png@2"]
    assert data.missing == ("a.png", "a.png")
    assert data.images[0].path == str(tmp_path / "a.png")
    assert read_real(tmp_path / "r.csv", GEODE).images == ()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"object": "bag", "region": "Africa"}, "line 2: no image; a column is named file_path"),
        ({"path": "a", "region": "Africa"}, "line 2: no object"),
        ({"path": "a", "object": "bag", "region": ""}, "line 2: no region"),
    ],
)
def test_tables_without_the_columns_are_refused(tmp_path, row, message):
    write_csv(tmp_path / "r.csv", [row])
    with pytest.raises(UsageError, match=message):
        read_real(tmp_path / "r.csv", GEODE)


def test_other_sources_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no such folder or file"):
        read_real(tmp_path / "no", GEODE)
    with pytest.raises(UsageError, match="neither a GeoDE folder"):
        read_real(tmp_path, GEODE)
    write_csv(tmp_path / "r.csv", [{"path": "a", "object": "bag", "region": "Africa"}])
    with pytest.raises(UsageError, match="is a table, not a geode folder"):
        read_real(tmp_path / "r.csv", GEODE, layout="geode")


def test_a_reference_file_is_real_data_too(tmp_path):
    path = table(tmp_path, {("car", "Africa"): 6, ("hat", "Africa"): 2})
    first = reference_of(read_real(path, GEODE), GEODE)
    features = np.arange(16, dtype=np.float32).reshape(8, 2)
    with_features = type(first)(source="s", images=first.images, judge="j", features=features)
    write_reference(tmp_path / "r.npz", with_features, {})
    data = read_real(tmp_path / "r.npz", GEODE)
    assert data.layout == "file"
    hats = reference_of(data, GEODE.choose(["hat"]))
    np.testing.assert_array_equal(hats.features, features[6:])
    assert hats.judge == "j"
    assert [p.image_id for p in hats.images] == [p.image_id for p in first.images[6:]]
    assert check_data(tmp_path / "r.npz", GEODE).record()["features"] == "j"
