"""The geography suite from tables to numbers, on worlds small enough to work out by hand."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from verism.errors import UsageError
from verism.manifest import RunSettings
from verism.metrics.manifold import PRDC, expected_coverage, half_samples, prdc
from verism.pipeline.scoring import score_run
from verism.records import PROTOCOLS, TABLES, EmbeddingNeed, FeatureNeed, Observed, frame, make_image_id, schema
from verism.references import write_reference
from verism.store import Run, sorted_verdicts
from verism.store import blocks as store_blocks
from verism.suites.base import complete_scores
from verism.suites.geography import selection
from verism.suites.geography import suite as suite_module
from verism.suites.geography.suite import Geography, GeographyDollarStreet

# Golden case "generic" of the prdc package, 1-d.
REAL = [0.0, 1, 3, 6, 10, 15, 21]
MADE = [0.5, 2, 2.5, 9, 30, 31, 33]
GOLDEN = {
    1: (0.5714285714, 0.8571428571, 0.7142857143, 0.5714285714),
    2: (0.8571428571, 0.8571428571, 1.0, 0.8571428571),
    3: (1.0, 1.0, 0.8571428571, 1.0),
}


class World:
    """Images of both sides with 1-d features, as tables on disk, and the tables judges would make of them."""

    def __init__(self, folder):
        self.folder, self.real, self.made = folder, [], []
        self.features, self.states = {}, {}

    def add(self, side, values, **columns):
        rows = self.real if side == "real" else self.made
        for value in values:
            name = f"{side}{len(rows):03d}.png"
            (self.folder / name).write_bytes(b"")
            rows.append({"file_path": name, **columns})
            self.features[name] = value
        return self

    def cell(self, item, region, real, made, **columns):
        self.add("real", real, object=item, region=region, **columns)
        return self.add("made", made, object=item, region=region, **columns)

    def build(self, shuffle=None, *, suite=Geography, **options):
        for name, rows in (("real", self.real), ("made", self.made)):
            if shuffle is not None:
                rows = [rows[i] for i in np.random.default_rng(shuffle).permutation(len(rows))]
            with (self.folder / f"{name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, list(dict.fromkeys(k for row in rows for k in row)))
                writer.writeheader()
                writer.writerows(rows)
        options = {"reference": self.folder / "real.csv", "images": self.folder / "made.csv"} | options
        return suite.make(options)

    def observed(self, suite, *, vectors=None, texts=None, features=True):
        """``vectors``: cosine of each image with its bare object, by file name."""
        names = {make_image_id(b.prompt_id, b.index): b.path.rsplit("/", 1)[-1] for b in suite.user_images}
        images = frame(
            "images",
            [
                {
                    "image_id": make_image_id(b.prompt_id, b.index),
                    "prompt_id": b.prompt_id,
                    "index": b.index,
                    "state": self.states.get(b.path.rsplit("/", 1)[-1], "ok"),
                    "path": b.path,
                    "note": "",
                }
                for b in suite.user_images
            ],
        )
        observations = {}
        ok = [i for i, n in names.items() if self.states.get(n, "ok") == "ok"]
        reference = None
        if suite.reference is not None:
            reference = frame(
                "reference",
                [
                    {
                        "image_id": p.image_id,
                        "state": self.states.get(p.path.rsplit("/", 1)[-1], "ok"),
                        "path": p.path,
                        "facets": json.dumps(dict(p.facets)),
                    }
                    for p in suite.reference.images
                ],
            )
            if features:
                observations["features"] = table({i: self.features[names[i]] for i in ok})
                observations["reference_features"] = table(
                    {
                        p.image_id: self.features[p.path.rsplit("/", 1)[-1]]
                        for p in suite.reference.images
                        if self.states.get(p.path.rsplit("/", 1)[-1], "ok") == "ok"
                    }
                )
        if vectors is not None:
            # An image with cosine c to its object: (c, sqrt(1 - c^2)) against (1, 0).
            observations["embeddings"] = table(
                {i: [vectors[names[i]], math.sqrt(1 - vectors[names[i]] ** 2)] for i in ok if names[i] in vectors}
            )
            wanted = next(n for n in suite.needs() if isinstance(n, EmbeddingNeed)).texts
            options = {t: [1.0, 0.0] for t in wanted} | (texts or {})
            observations["text_embeddings"] = frame(
                "text_embeddings", [{"text": t, "judge": "c", "vector": v} for t, v in options.items()]
            )
        return Observed(
            prompts={p.prompt_id: p for p in suite.prompts()},
            images=images,
            observations=observations,
            reference=reference,
        )


def table(vectors):
    return frame(
        "features",
        [{"image_id": i, "judge": "j", "vector": list(np.atleast_1d(v).astype(float))} for i, v in vectors.items()],
    )


def scores_of(suite, observed):
    return list(suite.scores(observed, suite.verdicts(observed)))


def pick(scores, metric, protocol="revised", **group):
    results = [s for s in scores if s.metric == metric and s.protocol == protocol and dict(s.group) == group]
    assert len(results) == 1, [(s.metric, s.protocol, dict(s.group)) for s in scores if s.metric == metric]
    return results[0]


def comparable(scores):
    """Scores without the order of floating-point sums."""
    return sorted(
        (s.protocol, s.metric, json.dumps(dict(s.group), sort_keys=True), s.n_used, s.n_unusable,
         *(None if math.isnan(v) else round(v, 9) for v in (s.value, s.ci_low, s.ci_high)))
        for s in scores
    )  # fmt: skip


@pytest.fixture
def golden(tmp_path):
    """Two objects in two regions; the golden case, once moved far away so that cells do not touch."""
    world = World(tmp_path)
    for o, item in enumerate(("car", "hat")):
        for r, region in enumerate(("Africa", "north")):
            shift = 1000 * o + 10_000 * r
            world.cell(item, region, [v + shift for v in REAL], [v + shift for v in MADE])
    return world


# -------------------------------------------------------------------------------------------------------- by hand
@pytest.mark.parametrize("k", [1, 2, 3])
def test_golden_cases_come_out_for_cells_and_regions(golden, k):
    suite = golden.build(k=k)
    scores = scores_of(suite, golden.observed(suite))
    for region in ("Africa", "north"):
        for metric, expected in zip(("precision", "recall", "density", "coverage"), GOLDEN[k], strict=True):
            for protocol in PROTOCOLS:
                cell = pick(scores, metric, protocol, family="region", object="hat", region=region)
                assert cell.value == pytest.approx(expected)
                # Cells lie 1,000 apart and all radii are below 12, so the pooled region has the values of its cells.
                pooled = pick(scores, metric, protocol, family="region", region=region)
                assert pooled.value == pytest.approx(expected)
                assert (pooled.n_used, pooled.n_unusable) == (14, 0)
        mean = pick(scores, "object_region_precision", family="region", region=region)
        assert mean.value == pytest.approx(GOLDEN[k][0])
        assert mean.n_used == 14
    assert pick(scores, "pictures_per_cell", family="region").value == 7


def test_evidence_adds_up_to_the_numbers(golden):
    suite = golden.build(k=1)
    observed = golden.observed(suite)
    verdicts = suite.verdicts(observed)
    scores = suite.scores(observed, verdicts)
    detail = pl.Series([json.loads(d) for d in verdicts["detail"]])
    rows = verdicts.with_columns(
        region=pl.Series([d["region"] for d in detail]), level=pl.Series([d.get("level") for d in detail])
    ).filter(protocol="revised", region="Africa", level="region")
    for rule, metric in (("inside", "precision"), ("covered", "coverage")):
        of_rule = rows.filter(rule=rule)
        assert of_rule["value"].mean() == pytest.approx(pick(scores, metric, family="region", region="Africa").value)
        assert of_rule.height == 14
    # 9 lies next to 10 (radius 4 for k = 1, as 6 is nearest), 0.5 between 0 and 1.
    first = json.loads(rows.filter(rule="inside")["detail"][0])
    assert (first["nearest"], first["distance"], first["level"]) == ("real/real000.png", 0.5, "region")
    real = rows.filter(rule="covered", image_id="real/real004.png")
    assert (real["prompt_id"][0], real["value"][0]) == ("", 1.0)
    assert json.loads(real["detail"][0])["radius"] == 4.0
    assert verdicts.columns == [c.name for c in TABLES["verdicts"]]
    assert dict(verdicts.schema) == schema("verdicts")


def test_regions_pool_objects_in_one_manifold(tmp_path):
    # Two objects between each other's images: the region's manifold is not the union of its cells'.
    world = World(tmp_path)
    rng = np.random.default_rng(3)
    values = {o: (rng.normal(size=8), rng.normal(size=8)) for o in ("car", "hat")}
    for item, (real, made) in values.items():
        world.cell(item, "Africa", real, made)
    suite = world.build()
    scores = scores_of(suite, world.observed(suite))
    pooled = prdc(
        *(np.concatenate([values[o][side] for o in ("car", "hat")]).astype(np.float32)[:, None] for side in (0, 1)), 3
    )
    assert pick(scores, "precision", family="region", region="Africa").value == pytest.approx(pooled.precision)
    assert pick(scores, "recall", family="region", region="Africa").value == pytest.approx(pooled.recall)
    assert pick(scores, "coverage", family="region", region="Africa").value == pytest.approx(pooled.coverage)


def test_consistency_is_the_tenth_percentile_averaged_over_objects(tmp_path):
    world = World(tmp_path)
    world.cell("car", "Africa", REAL, [0.0] * 11)
    world.cell("hat", "Africa", REAL, [0.0] * 2)
    # car: 0.00, 0.05 ... 0.50 (11 values): position 1, 0.05. hat: 0.2, 0.6: position 0.1, 0.24. Mean 0.145: every
    # object weighs the same, with 11 images or with 2.
    cosines = [i / 20 for i in range(11)] + [0.6, 0.2]
    vectors = {row["file_path"]: c for row, c in zip(world.made, cosines, strict=True)}
    suite = world.build()
    scores = scores_of(suite, world.observed(suite, vectors=vectors, features=False))
    for group in ({"family": "region"}, {"family": "region", "region": "Africa"}):
        assert pick(scores, "consistency", **group).value == pytest.approx((0.05 + 0.24) / 2, abs=1e-7)
    car = pick(scores, "consistency", family="region", region="Africa", object="car")
    assert (car.value, car.n_used, car.unit) == (pytest.approx(0.05, abs=1e-7), 11, "cosine")
    assert not any(s.metric == "precision" for s in scores)  # nobody looked for features
    # paper, as the revised rule, but drawn: 2 per cell, the smallest. With the generating prompt besides.
    assert pick(scores, "consistency", "paper", family="region", region="Africa").n_used == 4
    assert pick(scores, "consistency_prompt", "paper", family="region").value == pytest.approx(
        pick(scores, "consistency", "paper", family="region").value
    )


def test_overall_consistency_is_not_the_mean_of_regions(tmp_path):
    # Africa: 0.1 throughout, north: 0.5. Percentiles 0.1 and 0.5; pooled: 0.1.
    world = World(tmp_path).cell("car", "Africa", REAL, MADE).cell("car", "north", REAL, MADE)
    vectors = {row["file_path"]: 0.1 if row["region"] == "Africa" else 0.5 for row in world.made}
    suite = world.build()
    scores = scores_of(suite, world.observed(suite, vectors=vectors))
    assert pick(scores, "consistency", family="region").value == pytest.approx(0.1, abs=1e-6)
    assert pick(scores, "consistency_mean", family="region").value == pytest.approx(0.3, abs=1e-6)
    assert pick(scores, "consistency_gap", family="region").value == pytest.approx(0.4, abs=1e-6)
    assert pick(scores, "consistency_ratio", family="region").value == pytest.approx(0.2, abs=1e-6)
    assert pick(scores, "consistency_worst", family="region", region="Africa").value == pytest.approx(0.1, abs=1e-6)


def test_texts_are_bare_objects_and_the_generating_prompts(tmp_path):
    world = World(tmp_path).cell("cooking_pot", "Americas", REAL, MADE)
    suite = world.build()
    features, embedding = suite.needs()
    assert isinstance(features, FeatureNeed)
    assert features.reference
    assert embedding.texts == ("cooking pot", "cooking pot in the Americas")
    assert features.optional
    assert embedding.optional
    vectors = {row["file_path"]: 0.6 for row in world.made}
    observed = world.observed(suite, vectors=vectors, texts={"cooking pot in the Americas": [0.0, 1.0]})
    scores = scores_of(suite, observed)
    assert pick(scores, "consistency", "paper", family="region").value == pytest.approx(0.6, abs=1e-6)
    assert pick(scores, "consistency_prompt", "paper", family="region").value == pytest.approx(0.8, abs=1e-6)
    assert not any(s.metric == "consistency_prompt" and s.protocol != "paper" for s in scores)


# ------------------------------------------------------------------------------------------------ what must not matter
def noisy(tmp_path, names=("Africa", "north"), things=("car", "hat")):
    world, rng = World(tmp_path), np.random.default_rng(0)
    for item in things:
        for r, region in enumerate(names):
            world.cell(item, region, rng.normal(size=13), rng.normal(loc=r / 2, size=12))
    return world


def test_shuffled_tables_give_the_same_revised_numbers(tmp_path):
    world = noisy(tmp_path)
    suite = world.build(per_cell=10)
    expected = [s for s in scores_of(suite, world.observed(suite)) if s.protocol == "revised"]
    # Ids of generated images are numbered by row, so only the reference is shuffled here where images are drawn.
    real = list(world.real)
    world.real = [real[i] for i in np.random.default_rng(5).permutation(len(real))]
    suite = world.build(per_cell=10)
    results = [s for s in scores_of(suite, world.observed(suite)) if s.protocol == "revised"]
    assert comparable(results) == comparable(expected)


def test_without_draws_values_do_not_depend_on_any_order(tmp_path):
    world = noisy(tmp_path)
    world.real = [r for i, r in enumerate(world.real) if i % 13]  # 12 of each, on both sides
    values = []
    for shuffle in (None, 1):
        suite = world.build(shuffle=shuffle)
        metrics = ("precision", "recall", "density", "coverage")
        kept = [s for s in scores_of(suite, world.observed(suite)) if s.protocol == "paper" and s.metric in metrics]
        values.append({(s.metric, str(sorted(s.group.items()))): s.value for s in kept})
    assert values[0] == values[1]
    assert len(values[0]) == 4 * (2 + 4)


def test_other_names_of_regions_and_objects_give_the_same_numbers(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = noisy(tmp_path / "a", ("Africa", "north")), noisy(tmp_path / "b", ("zz", "yy"), ("mug", "pan"))
    results = []
    for world, names in ((one, {}), (other, {"zz": "Africa", "yy": "north", "mug": "car", "pan": "hat"})):
        suite = world.build()
        scores = scores_of(suite, world.observed(suite))
        results.append([replace(s, group={k: names.get(v, v) for k, v in s.group.items()}) for s in scores])
    assert comparable(results[0]) == comparable(results[1])


# --------------------------------------------------------------------------------------------------------- disparities
def test_a_planted_disparity_is_found_and_none_where_there_is_none(tmp_path):
    rng = np.random.default_rng(7)
    (tmp_path / "fair").mkdir()
    (tmp_path / "unfair").mkdir()
    results = {}
    for kind in ("fair", "unfair"):
        world = World(tmp_path / kind)
        for region in ("Africa", "Europe", "EastAsia"):
            for item in ("car", "hat"):
                shift = 3.0 if (kind, region) == ("unfair", "Africa") else 0.0
                world.cell(item, region, rng.normal(size=(40, 4)), rng.normal(loc=shift, size=(40, 4)))
        suite = world.build()
        results[kind] = scores_of(suite, world.observed(suite))
    gap = pick(results["unfair"], "precision_gap", family="region")
    assert gap.ci_low > 0.3
    assert pick(results["unfair"], "precision_gap_p_value", family="region").value < 0.01
    worst = next(s for s in results["unfair"] if s.metric == "precision_worst" and s.protocol == "revised")
    assert worst.group["region"] == "Africa"
    assert pick(results["unfair"], "coverage_ratio", family="region").value < 0.5
    fair = pick(results["fair"], "precision_gap", family="region")
    assert fair.ci_low == 0
    assert pick(results["fair"], "precision_gap_p_value", family="region").value > 0.05
    assert fair.value <= 3 * pick(results["fair"], "precision_gap_by_chance", family="region").value
    assert not fair.higher_is_better
    mean = pick(results["fair"], "precision_mean", family="region")
    assert mean.ci_low < mean.value < mean.ci_high


def test_intervals_keep_the_images_of_a_prompt_together(tmp_path):
    # Eight prompts of an object in a region, which differ in their country; the images of each lie in one spot.
    rng = np.random.default_rng(8)
    prompts, real = np.repeat(np.arange(8), 8), rng.normal(size=(64, 3)).astype(np.float32)
    made = (1.5 * rng.normal(size=(8, 3))[prompts] + 0.1 * rng.normal(size=(64, 3))).astype(np.float32)
    world = World(tmp_path).add("real", real, object="car", region="Africa")
    for vector, prompt in zip(made, prompts, strict=True):
        world.add("made", [vector], object="car", region="Africa", country=f"country {prompt}")
    suite = world.build()
    scores = scores_of(suite, world.observed(suite))
    one_object = (["car"] * 64, ["car"] * 64)
    expected = half_samples(real, made, 3, seed=0, strata=one_object, clusters=prompts)
    without = half_samples(real, made, 3, seed=0, strata=one_object)
    for metric in PRDC._fields:
        score = pick(scores, metric, family="country", region="Africa")
        assert (score.value, score.ci_low, score.ci_high) == expected.interval(metric)
        assert score.ci_high - score.ci_low > np.ptp(without.interval(metric)[1:])


def test_object_images_face_every_region_with_the_same_images(tmp_path):
    world = World(tmp_path)
    rng = np.random.default_rng(1)
    for region in ("Africa", "Europe"):
        for item in ("car", "hat"):
            world.add("real", rng.normal(size=14), object=item, region=region)
    for item in ("car", "hat"):
        world.add("made", rng.normal(size=28), object=item)
    suite = world.build()
    assert suite.regions == ("Africa", "Europe")
    observed = world.observed(suite)
    verdicts, scores = suite.verdicts(observed), scores_of(suite, observed)
    for region in ("Africa", "Europe"):
        score = pick(scores, "precision", family="object", region=region)
        assert score.n_used == 28  # 14 of each object
        assert pick(scores, "generated_per_real", family="object", region=region).value == 1
    inside = verdicts.filter(rule="inside", protocol="revised").drop_nulls("value")
    by_region = {}
    for image_id, detail in inside.select("image_id", "detail").iter_rows():
        if json.loads(detail)["level"] == "region":
            by_region.setdefault(json.loads(detail)["region"], set()).add(image_id)
    assert by_region["Africa"] == by_region["Europe"]
    assert len(by_region["Africa"]) == 28
    left_out = verdicts.filter(pl.col("value").is_null(), rule="inside", protocol="revised")
    assert left_out.height == 28
    assert left_out["reason"][0] == "not drawn; 14 per object and region were"
    gap = pick(scores, "precision_gap", family="object")
    assert gap.ci_low <= gap.value <= gap.ci_high


# ------------------------------------------------------------------------------------------------- sizes and honesty
def test_cells_below_k_plus_2_are_undefined_and_counted(tmp_path):
    world = World(tmp_path)
    rng = np.random.default_rng(0)
    for item, region, n_real, n_made in (
        ("car", "Africa", 8, 8), ("hat", "Africa", 8, 4), ("car", "Europe", 8, 6), ("hat", "Europe", 2, 7),
        ("car", "Asia", 2, 2), ("hat", "Asia", 1, 3),
    ):  # fmt: skip
        world.cell(item, region, rng.normal(size=n_real), rng.normal(size=n_made))
    suite = world.build()
    observed = world.observed(suite)
    verdicts, scores = suite.verdicts(observed), scores_of(suite, observed)
    cell = pick(scores, "precision", family="region", object="hat", region="Africa")
    assert math.isnan(cell.value)
    assert math.isnan(cell.ci_low)
    assert cell.n_used == 4
    assert pick(scores, "coverage", family="region", object="hat", region="Europe").n_used == 2
    assert math.isnan(pick(scores, "expected_coverage", family="region", object="hat", region="Europe").value)
    # Equal numbers of both sides still pool into a region: 6 cars and 4 hats.
    africa = pick(scores, "precision", family="region", region="Africa")
    assert africa.n_used == 10
    assert not math.isnan(africa.value)
    asia = pick(scores, "precision", family="region", region="Asia")
    assert (math.isnan(asia.value), asia.n_used) == (True, 3)
    reasons = verdicts.filter(rule="inside", protocol="revised")["reason"].to_list()
    assert any(r == "undefined: Asia has 3 real and 3 generated images, and needs 5 of each" for r in reasons)
    # Means and disparities are over what is defined.
    assert pick(scores, "object_region_precision", family="region", region="Africa").n_unusable == 4
    assert not math.isnan(pick(scores, "precision_gap", family="region").value)
    result = suite.remarks(observed)
    assert result[0].startswith(
        "region prompts, revised: fewer images than 6: car in Asia (2 real, 2 generated), hat in Africa (8"
    )
    assert any("Asia is undefined: 3 real and 3 generated images, at least 5" in line for line in result)


def test_unequal_sizes_are_told_with_the_coverage_to_expect(tmp_path):
    world = World(tmp_path).cell("car", "Africa", np.arange(30.0), np.arange(10.0))
    suite = world.build()
    observed = world.observed(suite)
    scores = scores_of(suite, observed)
    # released keeps the reference as loaded. 30 against 10: 1 - 29*28*27 / (39*38*37) = 0.600. 30 against 30:
    # 1 - 29*28*27 / (59*58*57) = 0.888.
    released = pick(scores, "expected_coverage", "released", family="region", region="Africa").value
    assert released == pytest.approx(1 - 29 * 28 * 27 / (39 * 38 * 37)) == expected_coverage(30, 10, 3)
    assert pick(scores, "generated_per_real", "released", family="region", region="Africa").value == pytest.approx(
        1 / 3
    )
    used = {
        m: pick(scores, m, "released", family="region", region="Africa").n_used
        for m in ("precision", "recall", "density", "coverage")
    }
    assert used == {"precision": 10, "recall": 30, "density": 10, "coverage": 30}
    revised = pick(scores, "expected_coverage", family="region", region="Africa").value
    assert revised == pytest.approx(1 - 9 * 8 * 7 / (19 * 18 * 17))
    assert pick(scores, "coverage", family="region", region="Africa").n_used == 10
    warned = [line for line in suite.remarks(observed, PROTOCOLS) if "do not compare" in line]
    assert warned == [
        "region prompts, released: Africa compares 30 real with 10 generated images: coverage of equal distributions "
        "is 0.600 at these sizes, 0.888 at equal ones; the two do not compare"
    ]


def test_what_is_missing_is_counted_with_its_reason(golden):
    golden.states = {"made003.png": "refused", "real001.png": "missing"}
    suite = golden.build(k=1)
    observed = golden.observed(suite, vectors={row["file_path"]: 0.5 for row in golden.made})
    verdicts, scores = suite.verdicts(observed), scores_of(suite, observed)
    africa = pick(scores, "precision", family="region", region="Africa")
    assert (africa.n_used, africa.n_unusable) == (12, 1)  # 6 per cell now, the smallest
    assert pick(scores, "coverage", family="region", region="Africa").n_unusable == 1
    assert pick(scores, "precision", family="region", region="north").n_unusable == 0
    assert pick(scores, "consistency", family="region", region="Africa").n_unusable == 1
    row = verdicts.filter(image_id="geode/region/Africa/car#3", rule="inside", protocol="revised")
    assert (row["value"][0], row["reason"][0]) == (None, "image refused")


def test_a_missing_object_image_is_missing_for_every_region(tmp_path):
    world = World(tmp_path).add("made", np.arange(8) / 3, object="car")
    world.add("real", np.arange(6) / 5, object="car", region="Africa")
    world.add("real", np.arange(6) / 7 + 0.01, object="car", region="Europe")
    world.states = {"made002.png": "refused"}
    suite = world.build()
    observed = world.observed(suite, vectors={row["file_path"]: 0.5 for row in world.made})
    scores = scores_of(suite, observed)
    for region in ("Africa", "Europe"):
        assert pick(scores, "precision", family="object", region=region).n_unusable == 1
        assert pick(scores, "precision", family="object", object="car", region=region).n_unusable == 1
    assert pick(scores, "consistency", family="object").n_used == 7
    assert pick(scores, "consistency", family="object", object="car").n_unusable == 1
    assert not any(s.metric == "consistency" and "region" in s.group for s in scores)  # no region was asked for


def test_vectors_that_cannot_be_used_are_left_out_and_counted(golden):
    suite = golden.build(k=1)
    observed = golden.observed(suite)
    features = observed.observations["features"]
    broken = {"geode/region/Africa/car#0": [float("nan")], "geode/region/Africa/car#1": [1.0, 2.0]}
    features = features.with_columns(
        vector=pl.Series(
            [broken.get(i, v) for i, v in zip(features["image_id"], features["vector"].to_list(), strict=True)],
            dtype=pl.List(pl.Float32),
        )
    ).filter(pl.col("image_id") != "geode/region/Africa/car#2")
    observed = replace(observed, observations={**observed.observations, "features": features})
    verdicts, scores = suite.verdicts(observed), scores_of(suite, observed)
    assert pick(scores, "precision", family="region", region="Africa").n_unusable == 3
    reasons = {
        i: r
        for i, r in verdicts.filter(rule="inside", protocol="paper").select("image_id", "reason").iter_rows()
        if i.endswith(("car#0", "car#1", "car#2")) and "Africa" in i
    }
    assert list(reasons.values()) == ["its vector is not finite or has another length"] * 2 + ["not looked at"]


@pytest.mark.parametrize("broken", [False, True, "all"])
def test_features_from_a_file_give_the_same_scores(broken, golden, tmp_path, monkeypatch):
    suite = golden.build(k=1)
    seen = golden.observed(suite)
    features = seen.observations["features"]
    vectors = features["vector"].to_list()
    if broken:
        vectors[0], vectors[1], vectors[2] = [float("nan")], [1.0, 2.0], None
    if broken == "all":
        vectors = [None] * len(vectors)
    features = features.with_columns(vector=pl.Series(vectors, dtype=pl.List(pl.Float32)))
    seen = replace(seen, observations={**seen.observations, "features": features})
    run = Run.start(tmp_path / "run", RunSettings(suite="geography", suite_settings=dict(suite.settings())))
    run.write_prompts(suite.prompts())
    run.append("images", seen.images)
    run.append("reference", seen.reference)
    judges = {table: rows["judge"][0] for table, rows in seen.observations.items()}
    for table, rows in seen.observations.items():
        run.append(table, rows, judges[table])
    mapped = []
    map_vectors = Run.map_vectors
    monkeypatch.setattr(Run, "map_vectors", lambda *a, **k: mapped.append(a[1]) or map_vectors(*a, **k))
    monkeypatch.setattr(store_blocks, "BLOCK", 7)
    monkeypatch.setattr(selection, "ROWS_AT_ONCE", 5)
    scores = score_run(run, suite)
    assert mapped == ["features", "reference_features"]
    verdicts = suite.with_rules().verdicts(seen)
    expected = complete_scores(suite, suite.with_rules().scores(seen, verdicts))
    assert [repr(s) for s in scores] == [repr(s) for s in expected]
    assert run.verdicts().equals(sorted_verdicts(verdicts))


def test_nothing_usable_at_all_is_no_crash(golden):
    golden.states = {row["file_path"]: "missing" for row in golden.made}
    suite = golden.build()
    scores = scores_of(suite, golden.observed(suite, vectors={}))
    assert math.isnan(pick(scores, "precision", family="region", region="Africa").value)
    assert pick(scores, "precision", family="region", region="Africa").n_unusable == 14
    assert math.isnan(pick(scores, "consistency", family="region").value)
    assert pick(scores, "consistency", family="region").n_unusable == 28


def test_duplicates_are_reported_by_cell(golden):
    for name in ("made000.png", "made001.png"):  # a safety filter's image
        golden.features[name] = 77.0
    suite = golden.build(k=1)
    observed = golden.observed(suite)
    scores = scores_of(suite, observed)
    group = {"family": "region", "side": "generated"}
    assert pick(scores, "duplicates_left_out", "released", **group).value == 2
    assert pick(scores, "duplicates_left_out", "paper", **group).value == 0
    assert pick(scores, "duplicates_left_out", **group).value == 1
    assert pick(scores, "duplicates_left_out", **group, object="car", region="Africa").value == 1
    verdicts = suite.verdicts(observed).filter(rule="inside", reason="left out as a duplicate")
    assert verdicts.group_by("protocol").len().sort("protocol")["len"].to_list() == [2, 1]  # released, revised
    assert any("1 generated duplicates left out" in line for line in suite.remarks(observed))


# ------------------------------------------------------------------------------------------------------- groups, rules
def test_any_column_makes_groups(tmp_path):
    world, rng = World(tmp_path), np.random.default_rng(2)
    for income in ("low", "high"):
        for region in ("Africa", "Europe"):
            world.cell("car", region, rng.normal(size=8), rng.normal(size=8), income=income)
    suite = world.build(group_by="income")
    assert {p.facets["income"] for p in suite.prompts()} == {"low", "high"}
    scores = scores_of(suite, world.observed(suite))
    low = pick(scores, "precision", family="region", income="low")
    assert low.n_used == 16
    values = [
        [world.features[row["file_path"]] for row in rows if row["income"] == "low"]
        for rows in (world.real, world.made)
    ]
    assert low.value == pytest.approx(prdc(*(np.array(v, np.float32)[:, None] for v in values), 3).precision)
    by_object = suite.with_rules(group_by=["object"])
    assert pick(scores_of(by_object, world.observed(suite)), "coverage", family="region", object="car").n_used == 32


def test_rules_change_numbers_and_are_checked(golden):
    suite = golden.build()
    observed = golden.observed(suite)
    other = suite.with_rules(k=1, splits=0)
    scores = scores_of(other, observed)
    score = pick(scores, "precision", family="region", region="Africa")
    assert score.value == pytest.approx(GOLDEN[1][0])
    assert math.isnan(score.ci_low)
    assert suite.all_rules()["k"] == 3
    assert (
        Geography.reopen(suite.settings(), suite.prompts()).with_rules(**other.all_rules()).all_rules()
        == other.all_rules()
    )
    for rules, message in (
        ({"k": 0}, "k is a whole number, at least 1"),
        ({"kk": 3}, "no rule 'kk'; its rules are k, per_cell"),
        ({"dedup": "some"}, "dedup is one of protocol, none, one, all; got 'some'"),
        ({"per_cell": 1.5}, "per_cell is a whole number"),
        ({"group_by": "region"}, "regions are compared anyway"),
    ):
        with pytest.raises(UsageError, match=message):
            suite.with_rules(**rules)


def test_a_stored_run_is_scored_as_it_was(golden):
    suite = golden.build(k=2)
    observed = golden.observed(suite, vectors={row["file_path"]: 0.25 for row in golden.made})
    again = Geography.reopen(json.loads(json.dumps(suite.settings())), suite.prompts())
    again = again.with_rules(**json.loads(json.dumps(suite.all_rules())))
    assert comparable(scores_of(again, observed)) == comparable(scores_of(suite, observed))
    assert again.needs() == suite.needs()
    assert again.verdicts(observed).equals(suite.verdicts(observed))


def test_comparisons_are_made_once_for_verdicts_and_scores(golden, monkeypatch):
    calls = []
    real = suite_module.measure
    monkeypatch.setattr(suite_module, "measure", lambda *a, **k: calls.append(1) or real(*a, **k))
    suite = golden.build()
    observed = golden.observed(suite)
    scores_of(suite, observed)
    suite.scores(replace(observed), suite.verdicts(observed))  # the same tables in another record
    assert len(calls) == 1
    scores_of(suite.with_rules(k=1), observed)
    assert len(calls) == 2


# ------------------------------------------------------------------------------------------------------------- options
def test_without_real_images_consistency_is_all_there_is(tmp_path):
    world = World(tmp_path).add("made", [1.0] * 6, object="car", region="Africa")
    suite = world.build(reference=None)
    assert [type(n) for n in suite.needs()] == [EmbeddingNeed]
    scores = scores_of(suite, world.observed(suite, vectors={r["file_path"]: 0.3 for r in world.made}))
    assert {s.metric for s in scores} == {"consistency", "consistency_prompt"}


def test_prompts_of_the_paper_for_a_model():
    suite = Geography.make({})
    assert sum(p.n_images for p in suite.prompts()) == 3 * 29_160
    assert suite.user_images is None
    assert suite.all_rules()["per_cell"] == 180
    small = Geography.make(
        {"objects": ["car", "toy"], "regions": ["Africa", "Europe"], "families": ["region"], "per_cell": 7}
    )
    assert [(p.text, p.n_images) for p in small.prompts()] == [
        (f"{o} in {r}", 7) for o in ("toy", "car") for r in ("Europe", "Africa")
    ]
    assert len(Geography.make({"limit": 60}).prompts()) == 50  # two objects of 25 prompts: 1 + 6 + 18
    assert [p.text for p in Geography.make({"limit": 3}).prompts()] == ["jug", "jug in Europe", "jug in Africa"]
    street = GeographyDollarStreet.make({})
    assert sum(p.n_images for p in street.prompts()) == 3 * 21_709
    assert not street.settings()["balanced"]
    assert not street.settings()["object_region"]


def test_a_small_reference_sets_how_many_images_a_model_is_asked_for(tmp_path):
    world = World(tmp_path)
    world.add("real", range(9), object="mug", region="Africa").add("real", range(7), object="mug", region="north")
    world.add("made", [1.0], object="mug")
    suite = world.build(images=None)
    assert {(p.text, p.n_images) for p in suite.prompts()} == {("mug", 14), ("mug in Africa", 7), ("mug in north", 7)}
    with pytest.raises(UsageError, match="no countries are known for north"):
        world.build(images=None, families=["country"])


def test_a_world_of_your_own_and_a_reference_file(tmp_path):
    world = World(tmp_path)
    world.cell("mug", "N", REAL, MADE).cell("pan", "N", REAL, MADE).cell("mug", "elsewhere", REAL, MADE)
    path = tmp_path / "w.json"
    path.write_text(json.dumps({"objects": ["mug"], "regions": {"N": {"name": "the North"}}, "per_cell": 6}))
    suite = world.build(world=path)
    assert [(p.prompt_id, p.text) for p in suite.prompts()] == [("w/region/N/mug", "mug in the North")]
    assert len(suite.reference.images) == 7
    features = np.array([[world.features[p.path.rsplit("/", 1)[-1]]] for p in suite.reference.images], np.float32)
    write_reference(tmp_path / "r.npz", replace(suite.reference, judge="j", features=features), {"by": "a test"})
    again = world.build(world=path, reference=tmp_path / "r.npz")
    assert again.reference.judge == "j"
    observed = world.observed(again)
    without = {k: v for k, v in observed.observations.items() if k != "reference_features"}
    result = scores_of(again, replace(observed, observations=without))  # features are taken from the file
    assert comparable(result) == comparable(scores_of(suite, world.observed(suite)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_images": 3}, "say how many with per_cell"),
        ({"families": ["city"]}, "families is one of object, region, country; got 'city'"),
        ({"families": ["object"]}, "answers a prompt of object"),
        ({"per_cell": 4}, r"at least k \+ 2 = 5 images for k = 3; got 4"),
        ({"objects": ["fan"]}, "no object 'fan'"),
        ({"regions": ["Asia"]}, "no region 'Asia'"),
        ({"objects": ["toy"]}, "none of its 28 images shows what was asked for"),
        ({"dedup": "x"}, "dedup is one of protocol, none, one, all; got 'x'"),
        ({"suite": GeographyDollarStreet, "regions": ["Africa", "EastAsia"]}, "no region 'EastAsia'"),
    ],
)
def test_options_that_do_not_fit_are_refused(golden, options, message):
    with pytest.raises(UsageError, match=message):
        golden.build(**options)


def test_a_folder_of_the_other_data_set_names_the_right_suite(tmp_path):
    (tmp_path / "images_v2.csv").write_text("id,topics,region.id,imageRelPath\n1,Spices,af,a.jpg\n")
    with pytest.raises(UsageError, match="use the suite geography_dollarstreet"):
        Geography.make({"reference": tmp_path})


def test_dollarstreet_pairs_object_images_with_the_region_of_their_row(tmp_path):
    suite = GeographyDollarStreet.make({"objects": ["spices"], "families": ["object"]})
    (prompt,) = suite.prompts()
    runs = prompt.spec["pairing"]
    assert [r for r, _ in runs] == ["Europe", "Africa", "Americas", "Asia"]
    (tmp_path / "real.csv").write_text(
        "file_path,topics,region.id\n" + "\n".join(f"{r}{i}.png,Spices,{r}" for r in ("eu", "as") for i in range(6))
    )
    suite = GeographyDollarStreet.make(
        {"reference": tmp_path / "real.csv", "families": ["object"], "objects": ["spices"]}
    )
    (prompt,) = suite.prompts()
    rng = np.random.default_rng(0)
    n = prompt.n_images
    images = frame(
        "images",
        [
            {"image_id": make_image_id(prompt.prompt_id, i), "prompt_id": prompt.prompt_id, "index": i, "state": "ok"}
            for i in range(n)
        ],
    )
    reference = frame(
        "reference",
        [{"image_id": p.image_id, "state": "ok", "facets": json.dumps(dict(p.facets))} for p in suite.reference.images],
    )
    observed = Observed(
        prompts={prompt.prompt_id: prompt},
        images=images,
        observations={
            "features": table({i: rng.normal() for i in images["image_id"]}),
            "reference_features": table({i: rng.normal() for i in reference["image_id"]}),
        },
        reference=reference,
    )
    scores = scores_of(suite, observed)
    sizes = dict(map(tuple, prompt.spec["pairing"]))
    for region in ("Europe", "Asia"):
        assert pick(scores, "precision", "paper", family="object", region=region).n_used == sizes[region]
        assert pick(scores, "precision", family="object", region=region).n_used == 6
    assert not any("object" in s.group and s.metric == "precision" for s in scores)  # too sparse, as in the paper
