"""``verism data check``."""

import csv
import json

import pytest
from click.testing import CliRunner

from verism.errors import UsageError
from verism.suites.geography.cli import check


def run(*arguments):
    return CliRunner().invoke(check, [str(a) for a in arguments], catch_exceptions=False)


def write_table(path, cells):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file_path", "object", "region"])
        for (item, region), n in cells.items():
            for i in range(n):
                (path.parent / f"{item}{region}{i}.png").write_bytes(b"")
                writer.writerow([f"{item}{region}{i}.png", item, region])


def test_a_table_is_told_in_words_and_in_json(tmp_path):
    write_table(tmp_path / "real.csv", {("car", "Africa"): 9, ("car", "Europe"): 6, ("hat", "Africa"): 7})
    result = run(tmp_path / "real.csv")
    assert result.exit_code == 0
    assert "2 objects x 2 regions x 6 = 18 images" in result.stdout
    assert result.stdout.endswith("ready\n")
    parsed = json.loads(run(tmp_path / "real.csv", "--json").stdout)
    assert parsed["subset"]["per_cell"] == 6
    assert parsed["pictures"] == 22
    one = json.loads(run(tmp_path / "real.csv", "--json", "--object", "car", "--per-cell", 8).stdout)
    assert one["subset"]["objects"] == ["car"]
    assert one["problems"] == ["fewer than 8: car in Europe (6); compared at the size they have"]


def test_what_cannot_be_used_ends_with_1(tmp_path):
    write_table(tmp_path / "real.csv", {("car", "Africa"): 9, ("car", "Europe"): 4})
    result = run(tmp_path / "real.csv")
    assert result.exit_code == 1
    assert "fewer than 5 images" in result.stdout
    assert result.stdout.endswith("not ready\n")
    assert run(tmp_path / "real.csv", "-k", 2).exit_code == 0


def test_published_folders_are_named_or_recognised(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "Africa_Egypt_Egypt_bag_1.jpg").write_bytes(b"")
    for arguments in (("geode", tmp_path), (tmp_path,)):
        result = run(*arguments, "--json")
        assert result.exit_code == 1
        assert json.loads(result.stdout)["subset"]["world"] == "geode"
    street = tmp_path / "street"
    street.mkdir()
    (street / "images_v2.csv").write_text("id,topics,region.id,imageRelPath\n1,Spices,af,a.jpg\n")
    assert json.loads(run(street, "--json").stdout)["subset"]["world"] == "dollarstreet"


def test_wrong_usage_is_explained(tmp_path):
    with pytest.raises(UsageError, match="no data 'imagenet'; there are geode, dollarstreet"):
        run("imagenet", tmp_path)
    with pytest.raises(UsageError, match="say where it is: verism data check geode FOLDER"):
        run("geode")
