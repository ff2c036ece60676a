"""Dressed people: labels are true, pairs differ in their garment only, and nothing else is tied to it."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from verism.cli.wardrobe import people
from verism.errors import UsageError
from verism.simulator import wardrobe
from verism.simulator.assets.people import Garment
from verism.simulator.wardrobe import (
    ATTRIBUTES,
    MIN_VISIBLE,
    DressedImage,
    dressed_person,
    label,
    render_people,
    render_person,
)

SIZE = 80
ADDED = ("hat", "tie", "mask", "gloves", "glasses")  # put on without taking anything off
OUTFITS = (
    {"boots", "jeans", "shirt", "tie", "hat"},
    {"slippers", "shorts", "jacket", "gloves"},
    {"skirt", "shirt", "mask"},
    {"dress", "glasses"},
    {"suit", "tie"},
    {"slacks"},
    set(),
)


def seeded(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pixels_of(folder: Path, row: dict[str, str]) -> np.ndarray:
    return np.asarray(Image.open(folder / row["path"])).astype(int)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One pair of each block."""
    out = tmp_path_factory.mktemp("people") / "new"
    made = render_people(out, 2 * len(ATTRIBUTES), seed=1, size=SIZE)
    assert made.labels == out / "labels.csv"
    assert made.images == 2 * len(ATTRIBUTES)
    return out


# ------------------------------------------------------------------------------------------------------- description
@pytest.mark.parametrize("outfit", OUTFITS, ids=lambda o: "+".join(sorted(o)) or "nothing named")
def test_what_is_named_is_worn_and_no_other_attribute(outfit: set[str]) -> None:
    for seed in range(8):
        spec = dressed_person(seeded(seed), outfit)
        assert {a for a in ATTRIBUTES if label(spec, a)} == outfit


def test_other_clothes_dress_the_same_body_in_the_same_cloth() -> None:
    for seed in range(20):
        a, b = (dressed_person(seeded(seed), outfit) for outfit in ({"suit", "hat"}, {"shorts", "jacket", "hat"}))
        clothes = {"top", "bottom", "shoe_color", "footwear", "tie_color", "tie_stripes"}
        same = {name for name in vars(a) if getattr(a, name) == getattr(b, name)}
        assert set(vars(a)) - same <= clothes


def test_what_is_asked_of_the_body_is_kept() -> None:
    spec = dressed_person(
        seeded(0), {"dress"}, skin_tone=9, build="stout", figure="straight", hair="bob", pose="walking"
    )
    assert (spec.skin_tone, spec.build, spec.figure, spec.hair, spec.pose) == (9, "stout", "straight", "bob", "walking")


def test_bodies_are_drawn_evenly_whatever_is_worn() -> None:
    specs = [dressed_person(seeded(seed), {"suit"}) for seed in range(600)]
    # 60 expected of each of ten tones, 100 of each of six styles of hair, 200 of each of three builds; four standard
    # deviations are 29, 36 and 46.
    for values, expected, slack in (
        ([s.skin_tone for s in specs], 60, 29),
        ([s.hair for s in specs], 100, 36),
        ([s.build for s in specs], 200, 46),
    ):
        counts = {v: values.count(v) for v in values}
        assert all(abs(n - expected) < slack for n in counts.values()), counts
        assert len(counts) == round(600 / expected)


def test_tops_never_pass_for_a_dress_or_a_suit_by_their_colour() -> None:
    for seed in range(200):
        spec = dressed_person(seeded(seed), {"skirt"})
        assert spec.bottom is not None
        assert np.linalg.norm(np.subtract(spec.top.color, spec.bottom.color)) >= 0.25
        spec = dressed_person(seeded(seed), {"jacket", "slacks"})
        assert spec.bottom is not None
        assert np.linalg.norm(np.subtract(spec.top.color, spec.bottom.color)) >= 0.15


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"uniform"}, "unknown attribute 'uniform'; there are boots, slippers"),
        ({"jeans", "skirt"}, "'jeans' and 'skirt' cannot be worn together"),
        ({"boots", "slippers"}, "'boots' and 'slippers' cannot be worn together"),
        ({"suit", "jacket"}, "'jacket' and 'suit' cannot be worn together"),
        ({"tie", "jacket"}, "a 'tie' needs a collar"),
    ],
)
def test_outfits_that_cannot_be_are_refused(attributes: set[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dressed_person(seeded(0), attributes)


def test_what_is_neither_has_no_label() -> None:
    plain = dressed_person(seeded(0), set())
    assert label(plain, "shirt") is None  # a t-shirt
    assert label(plain, "slacks") is None  # plain trousers
    suit = dressed_person(seeded(0), {"suit"})
    assert [label(suit, a) for a in ("shirt", "jacket", "slacks")] == [None, None, None]
    assert [label(suit, a) for a in ("suit", "dress", "skirt")] == [True, False, False]
    # The same jacket over trousers of another cloth is no suit.
    odd = replace(suit, bottom=Garment("slacks", (0.9, 0.1, 0.1)))
    assert label(odd, "suit") is False
    assert label(replace(plain, hair="beanie"), "hat") is None
    assert label(replace(plain, hair="hat"), "hat") is True


# ------------------------------------------------------------------------------------------------------------ blocks
@pytest.mark.parametrize("block", ATTRIBUTES)
def test_pairs_differ_in_their_attribute_and_both_can_be_worn(block: str) -> None:
    for seed in range(150):
        with_it, without = wardrobe._context(seeded(seed), block)
        assert block in with_it
        assert block not in without
        specs = [dressed_person(seeded(seed), outfit) for outfit in (with_it, without)]
        assert [label(spec, block) for spec in specs] == [True, False]
        if block in ADDED:
            assert with_it - without == {block}
            assert not without - with_it
        else:
            # Accessories stay; footwear and what else is not the block's own matter stays as well.
            assert not (with_it ^ without) & set(ADDED)
        if block not in ("boots", "slippers"):
            assert not (with_it ^ without) & {"boots", "slippers"}


# ------------------------------------------------------------------------------------------------------------ images
def test_half_of_each_block_wears_it_and_can_be_seen_to(rendered: Path) -> None:
    rows = rows_of(rendered)
    for block in ATTRIBUTES:
        subset = [row for row in rows if row["block"] == block]
        assert [row["worn"] for row in subset] == ["1", "0"]
        assert [row[f"label_{block}"] for row in subset] == ["1", "0"]
        assert float(subset[0][f"visible_{block}"]) >= MIN_VISIBLE
        assert subset[1][f"visible_{block}"] == ""
        for column in ("pair", "skin_tone", "build", "figure", "hair", "pose", "view", "place"):
            assert subset[0][column] == subset[1][column]


def test_labels_follow_from_what_is_visible(rendered: Path) -> None:
    for row, name in itertools.product(rows_of(rendered), ATTRIBUTES):
        share = row[f"visible_{name}"]
        if row[f"label_{name}"] == "1":
            assert MIN_VISIBLE <= float(share) <= 1
        elif row[f"label_{name}"] == "0":
            assert share == ""


def test_images_of_a_pair_are_the_same_but_for_the_garment(rendered: Path) -> None:
    rows = rows_of(rendered)
    for block in ADDED:
        one, other = (pixels_of(rendered, row) for row in rows if row["block"] == block)
        differs = np.abs(one - other).max(axis=2) > 24
        # A hat's shadow counts too; the rest of the body, the place and the camera do not move.
        assert 0 < differs.mean() < 0.08, block


def test_definitions_lie_beside_the_labels(rendered: Path) -> None:
    text = json.loads((rendered / "definitions.json").read_text(encoding="utf-8"))
    assert text["attributes"] == ATTRIBUTES
    assert (text["seed"], text["size"], text["min_visible"]) == (1, SIZE, MIN_VISIBLE)


def test_the_same_seed_gives_the_same_files_however_many_follow(tmp_path: Path) -> None:
    done: list[int] = []
    render_people(tmp_path / "few", 2, seed=3, size=64, attributes=["hat", "shirt"], on_pair=done.append)
    render_people(tmp_path / "more", 4, seed=3, size=64, attributes=["hat", "shirt"])
    assert done == [1]
    few, more = rows_of(tmp_path / "few"), rows_of(tmp_path / "more")
    assert few == more[:2]
    assert [row["block"] for row in more] == ["hat", "hat", "shirt", "shirt"]
    for row in few:
        assert (tmp_path / "few" / row["path"]).read_bytes() == (tmp_path / "more" / row["path"]).read_bytes()


def rendered_person(attributes: set[str], **options: object) -> DressedImage:
    spec = dressed_person(seeded(2), attributes, pose="relaxed", build="average")
    return render_person(spec, SIZE, **options)  # type: ignore[arg-type]


def test_visible_shares_are_measured_on_the_whole_garment() -> None:
    outfit = {"boots", "jeans", "shirt", "tie", "hat"}
    full = rendered_person(outfit)
    # They hide little of each other. A tie is two pixels wide here, and pixels it half covers may count for the shirt.
    assert all(full.visible[a] > 0.7 for a in outfit - {"tie"})
    assert full.visible["tie"] > 0.5
    assert all(full.labels[a] == 1 for a in outfit)
    bust = rendered_person(outfit, view="bust")
    assert bust.visible["boots"] == 0
    assert bust.labels["boots"] is None
    assert bust.visible["jeans"] < 0.25  # of all of it, not of the part inside the frame
    assert bust.labels["jeans"] is None
    assert bust.labels["hat"] == 1
    assert bust.labels["mask"] == 0
    assert bust.visible["tie"] > 0.8
    assert bust.area["hat"] > 2 * full.area["hat"]
    behind = rendered_person(outfit, turn=180)
    assert behind.visible["tie"] < 0.1
    assert behind.labels["tie"] is None


def test_the_whole_person_is_in_a_full_image() -> None:
    for seed, pose in enumerate(wardrobe.POSES):
        spec = dressed_person(seeded(seed), {"gloves", "boots", "hat"}, pose=pose)
        image = render_person(spec, SIZE, turn=30.0 * (-1) ** seed, seed=seed)
        # Gloves, boots and hat are what reaches farthest to all sides.
        assert min(image.visible[a] for a in ("boots", "hat")) > 0.5
        # A tenth of the frame around a person would be too much, so the person is large.
        assert 0.02 < sum(image.area.values()) < 0.3


def test_a_camera_can_be_shared() -> None:
    bare, hatted = (dressed_person(seeded(5), outfit) for outfit in (set(), {"hat"}))
    apart = render_person(bare, SIZE).pixels, render_person(hatted, SIZE).pixels
    together = render_person(bare, SIZE, alongside=hatted).pixels, render_person(hatted, SIZE, alongside=bare).pixels

    def rows_that_differ(pair: tuple[np.ndarray, np.ndarray]) -> float:
        return float((np.abs(pair[0].astype(int) - pair[1].astype(int)).max(axis=(1, 2)) > 40).mean())

    assert rows_that_differ(together) < 0.5 < rows_that_differ(apart)


# ------------------------------------------------------------------------------------------------------------ errors
@pytest.mark.parametrize(
    ("count", "options", "message"),
    [
        (3, {}, "count=3: images come in pairs"),
        (0, {}, "count=0: images come in pairs"),
        (2, {"attributes": ["cape"]}, "unknown attribute 'cape'"),
        (2, {"attributes": []}, "no attribute to draw"),
        (2, {"size": 8}, "size must be 64 to 2048 pixels, got 8"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(
    tmp_path: Path, count: int, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        render_people(tmp_path / "new", count, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UsageError, match="is not empty; name a new folder"):
        render_people(tmp_path, 2)


def test_unknown_places_are_refused() -> None:
    with pytest.raises(UsageError, match="no environment 'moon'"):
        rendered_person({"hat"}, place="moon")


def test_command_writes_and_tells(tmp_path: Path) -> None:
    out = tmp_path / "people"
    result = CliRunner().invoke(
        people, ["--count", "2", "--attribute", "hat", "--size", "64", "--out", str(out), "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"labels": str(out / "labels.csv"), "pictures": 2, "redrawn_pairs": 0}
    assert [row["worn"] for row in rows_of(out)] == ["1", "0"]
