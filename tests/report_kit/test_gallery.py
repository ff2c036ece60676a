"""Which images the gallery of any suite shows, and what it says of each."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass

import pytest
from measure_runs import OBJECTS, PER_CELL, REGIONS, image, score, verdict
from page_reading import evidence_of, plain

from verism.errors import UsageError
from verism.records import Prompt
from verism.report_kit.gallery import LINES, GallerySettings, Tile, collect
from verism.store import Run

FILTERS = {"region": ("region",), "object": ("object",)}
QUESTIONS = {"question": ("wrong", "right")}


@dataclass(frozen=True)
class Seen:
    """A tile as tests read it."""

    tile: Tile

    @property
    def image_id(self) -> str:
        return self.tile.shots[0].image_id

    @property
    def outcomes(self) -> dict[str, str]:
        return {p: members[0] for p, members in self.tile.outcomes.items()}

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What was decided, and why, under the revised protocol."""
        matches = re.findall(r'<p class="verdict[^>]*data-p="revised">(.*?)</p>', self.tile.words, re.S)
        parts = [re.search(r"<b>(.*?)</b>(.*)", line, re.S).groups() for line in matches]
        return [(plain(decided), plain(reason)) for decided, reason in parts]

    @property
    def nearest(self) -> str:
        match = re.search(r'<div class="nearest">(.*?)</div>', self.tile.words, re.S)
        return "" if match is None else plain(match[1])


def tiles_of(run: Run, gallery: int = 1000, **settings) -> list[Seen]:
    more = {"within": "object", "filters": FILTERS} | settings
    return [Seen(t) for t in collect(evidence_of([run], gallery=gallery, embed_pixels=32), GallerySettings(**more))]


def inside(image_id: str, value: float | None, level: str = "region", region: str = "North", **more):
    detail = {"region": region, "level": level} | more
    return verdict(image_id, "inside", value, detail=json.dumps(detail), reason=f"{level} {region}")


def graded(measured_run, values, rule="consistency", **more):
    """Outcomes of images of one object by their values."""
    names = [f"i{n:02d}" for n in range(len(values))]
    verdicts = [verdict(name, rule, value) for name, value in zip(names, values)]
    run = measured_run("graded", [score("x", 1)], images=[image(n) for n in names], verdicts=verdicts, **more)
    return {tile.image_id: tile.outcomes["revised"] for tile in tiles_of(run)}


def test_the_lowest_tenth_stands_out(measured_run):
    # 21 values 0.00 ... 0.20 in steps of 0.01: the 10th percentile is the third, 0.02.
    outcomes = graded(measured_run, [n / 100 for n in range(21)])
    assert [name for name, outcome in outcomes.items() if outcome == "wrong"] != []
    assert {name for name, outcome in outcomes.items() if outcome == "wrong"} == {"i00", "i01", "i02"}
    assert set(outcomes.values()) == {"wrong", "right"}


def test_the_lowest_tenth_is_of_each_object(measured_run):
    prompts = [
        Prompt(prompt_id=name, suite="quality", text=name, facets={"object": name, "region": "North"})
        for name in ("dog", "cup")
    ]
    images, verdicts = [], []
    for name, start in (("dog", 0.1), ("cup", 0.5)):  # every dog is below every cup
        for n in range(11):
            images.append(image(f"{name}{n:02d}", name))
            verdicts.append(verdict(f"{name}{n:02d}", "consistency", start + n / 100, prompt_id=name))
    run = measured_run("a", [score("x", 1)], images=images, verdicts=verdicts, prompts=prompts)
    # The 10th percentile of 11 values in equal steps is the second.
    low = {t.image_id for t in tiles_of(run) if t.outcomes["revised"] == "wrong"}
    assert low == {"dog00", "dog01", "cup00", "cup01"}


def test_where_most_values_tie_only_those_below_stand_out(measured_run):
    # 19 images answered everything right, one half of it: the 10th percentile is 1.0, which nobody is below of.
    outcomes = graded(measured_run, [1.0] * 19 + [0.5], rule="questions")
    assert [name for name, outcome in outcomes.items() if outcome == "wrong"] == ["i19"]
    assert set(graded_same(measured_run).values()) == {"right"}


def graded_same(measured_run):
    names = ["a", "b", "c"]
    verdicts = [verdict(name, "consistency", 0.25) for name in names]
    run = measured_run("same", [score("x", 1)], images=[image(n) for n in names], verdicts=verdicts)
    return {tile.image_id: tile.outcomes["revised"] for tile in tiles_of(run)}


def test_of_yes_and_no_it_is_no_that_stands_out_and_nothing_is_unusable(measured_run):
    outcomes = graded(measured_run, [1.0, 0.0, None, 1.0], rule="inside")
    assert outcomes == {"i00": "right", "i01": "wrong", "i02": "unusable", "i03": "right"}


def test_the_manifold_of_all_objects_decides_in_every_region(measured_run):
    verdicts = [
        # Outside among its own object alone: all right.
        *(inside("own", 1.0), inside("own", 0.0, "object-region")),
        # Outside one region's, inside another's, as an image without region may be: all right.
        *(inside("some", 0.0), inside("some", 1.0, region="South")),
        # Outside of all: stands out, whatever its own object says.
        *(inside("none", 0.0), inside("none", 0.0, region="South"), inside("none", 1.0, "object-region")),
        # Not compared with all objects.
        *(inside("few", None), inside("few", 0.0, "object-region")),
    ]
    images = [image(name) for name in ("own", "some", "none", "few")]
    run = measured_run("a", [score("x", 1)], images=images, verdicts=verdicts, suite="geography")
    tiles = {t.image_id: t for t in tiles_of(run)}
    assert {name: t.outcomes["revised"] for name, t in tiles.items()} == {
        "own": "right",
        "some": "right",
        "none": "wrong",
        "few": "unusable",
    }
    assert [reason for _, reason in tiles["none"].lines] == [
        "region North",
        "region South",
        "object-region North",
    ]


def test_images_outside_come_before_those_with_a_low_similarity(measured_run):
    images = [image(f"i{n:02d}") for n in range(40)]
    verdicts = []
    for n in range(40):
        verdicts.append(verdict(f"i{n:02d}", "inside", 0.0 if n >= 37 else 1.0))
        verdicts.append(verdict(f"i{n:02d}", "consistency", n / 100))  # 0 to 3 are below the 10th percentile, 0.039
    run = measured_run("a", [score("x", 1)], images=images, verdicts=verdicts)
    (lowest,) = [t for t in tiles_of(run) if t.image_id == "i00"]
    assert [decided for decided, _ in lowest.lines] == ["consistency: 0.000", "inside: yes"]
    shown = [t.image_id for t in tiles_of(run) if t.outcomes["revised"] == "wrong"]
    assert set(shown[:3]) == {"i37", "i38", "i39"}
    assert set(shown[3:]) == {"i00", "i01", "i02", "i03"}
    few = [t.image_id for t in tiles_of(run, gallery=4)]
    assert set(few[:2]) < {"i37", "i38", "i39"}


def test_the_nearest_real_image_is_shown_with_its_distance(measured_run):
    verdicts = [
        inside("a", 0.0, nearest="real/2", distance=0.75),
        inside("a", 0.0, region="South", nearest="real/1", distance=0.5),
        inside("b", 1.0, nearest="real/1", distance=0.125) | {"protocol": "paper"},
    ]
    run = measured_run("run", [score("x", 1)], images=[image("a"), image("b")], verdicts=verdicts)
    tiles = {t.image_id: t for t in tiles_of(run)}
    assert tiles["a"].nearest == "known by its features alone nearest real image, at distance 0.5 real/1"
    assert tiles["b"].nearest == ""


def test_nearest_images_of_a_real_run(geography_run):
    tiles = tiles_of(geography_run)
    assert len(tiles) == len(OBJECTS) * len(REGIONS) * PER_CELL
    real = {row["image_id"]: row for row in geography_run.read("reference").iter_rows(named=True)}
    for tile in tiles:
        assert tile.nearest.split()[-1] in real
        assert '<img src="data:image/' in tile.tile.words
    # What was made too bright stands out, and little else.
    wrong = Counter(t.tile.facets["region"][0] for t in tiles if t.outcomes["revised"] == "wrong" and t.lines)
    assert wrong["South"] > 2 * wrong["North"]


def test_the_sample_is_spread_over_groups_and_the_same_every_time(geography_run):
    tiles = tiles_of(geography_run, gallery=8)
    assert [t.image_id for t in tiles] == [t.image_id for t in tiles_of(Run.open(geography_run.path), gallery=8)]
    right = [
        (*t.tile.facets["region"], *t.tile.facets["object"])
        for t in tiles_of(geography_run)
        if t.outcomes["revised"] == "right"
    ]
    places = len(set(right))
    assert len(set(right[:places])) == places  # every place once before any comes again


def test_questions_are_right_or_wrong_and_the_wrong_ones_are_kept(measured_run):
    n = LINES + 6  # question 10 comes after question 2
    verdicts = [verdict("a", f"question_{k}", 0.0 if k >= n - 1 else 1.0, reason=f"Q{k}?") for k in range(n)]
    run = measured_run("a", [score("x", 1)], images=[image("a")], verdicts=verdicts)
    (tile,) = tiles_of(run, answers=lambda rule: QUESTIONS.get(rule.partition("_")[0], ("no", "yes")))
    assert [reason for _, reason in tile.lines] == ["Q0?", "Q1?", "Q2?", "Q3?", "Q4?", f"Q{n - 1}?"]
    assert [decided.split(": ")[1] for decided, _ in tile.lines] == ["right"] * 5 + ["wrong"]
    assert re.findall(r'data-p="(\w+)">and (\d+) more', tile.tile.words) == [("revised", "6")]


def test_without_filters_of_the_suite_the_facets_of_the_prompts_are_filters(measured_run):
    prompts = [
        Prompt(prompt_id=f"p{n}", suite="alignment", text="", facets={"style": style, "same": "x", "kind": kind})
        for n, (style, kind) in enumerate([("oil", 1), ("oil", 2), ("ink", 1), (None, 2)])
    ]
    images = [image(p.prompt_id, p.prompt_id) for p in prompts] + [image("lost", "nobody's")]
    run = measured_run("a", [score("x", 1)], images=images, prompts=prompts, suite="alignment")
    tiles = {t.image_id: t.tile for t in tiles_of(run, filters=None, within="")}
    assert {name: dict(t.facets) for name, t in tiles.items()} == {
        "p0": {"style": ["oil"], "kind": ["1"]},
        "p1": {"style": ["oil"], "kind": ["2"]},
        "p2": {"style": ["ink"], "kind": ["1"]},
        "p3": {"style": [], "kind": ["2"]},
        "lost": {"style": [], "kind": []},
    }
    assert tiles["lost"].asked == "lost"


def test_vanished_images_keep_their_place(geography_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(geography_run.path, copy)
    run = Run.open(copy)
    row = run.read("images").row(0, named=True)
    gone = run.resolve(row["path"])
    if copy in gone.parents:
        gone.unlink()
        (tile,) = [t for t in tiles_of(run) if t.image_id == row["image_id"]]
        assert tile.tile.shots[0].source is None
        assert "ok when the run was made, now missing" in tile.tile.shots[0].missing


def test_sizes_that_cannot_be_are_refused(measured_run):
    run = measured_run("a", [score("x", 1)])
    with pytest.raises(UsageError, match="gallery must be 0"):
        evidence_of([run], gallery=-1, embed_pixels=32)
    with pytest.raises(UsageError, match="embed_pixels must be between"):
        evidence_of([run], gallery=1, embed_pixels=5000)
    assert tiles_of(run, gallery=10) == []
