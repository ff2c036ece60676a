"""The quality suite on feature tables written by hand: sums in comments, no network looks at anything."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from verism import api
from verism.errors import UsageError
from verism.manifest import RunSettings
from verism.metrics.frechet import frechet_from_features
from verism.metrics.manifold import PRDC, half_samples, prdc
from verism.pipeline.scoring import score_run
from verism.records import FeatureNeed, Observed, Prompt, frame
from verism.store import Run
from verism.suites.base import complete_scores
from verism.suites.quality.suite import Quality

JUDGE = "network@1"


def quality(n, *, kind="features", facets=None, **changes):
    prompts = tuple(
        Prompt(prompt_id=f"p{i:03d}", suite="quality", text="", facets={} if facets is None else facets[i])
        for i in range(n)
    )
    return Quality(listed=prompts, source={"reference_kind": kind}).with_rules(**changes)


def observed(suite, generated, real=None, *, real_facets=None, states=None, real_states=None, judge=JUDGE):
    """Tables as a judge fills them; an image whose state is not ok has no features."""
    states, real_states = states or {}, real_states or {}
    images, features = [], []
    for i, (prompt, vector) in enumerate(zip(suite.prompts(), generated, strict=True)):
        image_id, state = f"{prompt.prompt_id}#0", states.get(i, "ok")
        images.append({"image_id": image_id, "prompt_id": prompt.prompt_id, "index": 0, "state": state, "note": "why"})
        if state == "ok":
            features.append({"image_id": image_id, "judge": judge, "vector": np.atleast_1d(vector).tolist()})
    tables, reference = {"features": frame("features", features)}, None
    if real is not None:
        rows, vectors = [], []
        for i, vector in enumerate(real):
            state = real_states.get(i, "ok")
            result = json.dumps({} if real_facets is None else real_facets[i])
            rows.append({"image_id": f"real/{i:03d}", "state": state, "facets": result})
            if state == "ok":
                vectors.append({"image_id": f"real/{i:03d}", "judge": judge, "vector": np.atleast_1d(vector).tolist()})
        reference = frame("reference", rows)
        tables["reference_features"] = frame("features", vectors)
    return Observed(
        prompts={p.prompt_id: p for p in suite.prompts()},
        images=frame("images", images),
        observations=tables,
        reference=reference,
    )


def numbers(suite, seen):
    result = suite.scores(seen, suite.verdicts(seen))
    return {(s.metric, s.protocol, *(v for v in s.group.values())): s for s in result}


def verdict(suite, seen, image_id):
    (row,) = suite.verdicts(seen).filter(image_id=image_id).to_dicts()
    return row


# Real balls (k = 1) around 0, 1, 3, 6 reach to 1, 1, 2, 3; generated 0.5, 2, 9.
REAL, GENERATED = [0.0, 1.0, 3.0, 6.0], [0.5, 2.0, 9.0]


def test_manifold_numbers_by_hand():
    suite = quality(3, k=1)
    seen = observed(suite, GENERATED, REAL)
    score = numbers(suite, seen)
    # 0.5 lies in the balls of 0 and 1; 2 in that of 3 (distance 1 < 2; from 1 it is on the sphere, outside); 9 in none,
    # being on the sphere of 6. Precision 2/3, density (2 + 1 + 0) / (1 * 3), coverage: 0, 1, 3 of four.
    assert score["precision", "revised"].value == pytest.approx(2 / 3)
    assert score["density", "revised"].value == pytest.approx(1.0)
    assert score["coverage", "revised"].value == pytest.approx(3 / 4)
    # Generated balls reach to 1.5, 1.5, 7: 0 and 1 lie in that of 0.5, 3 in that of 2, 6 in that of 9.
    assert score["recall", "revised"].value == pytest.approx(1.0)
    assert score["recall", "revised"].n_used == 4
    # Equal distributions: 1 - (4 - 1) / (4 + 3 - 1) = 1/2.
    assert score["expected_coverage", "revised"].value == pytest.approx(1 / 2)


def test_evidence_for_each_image():
    suite = quality(3, k=1)
    seen = observed(suite, GENERATED, REAL)
    row = verdict(suite, seen, "p001#0")
    assert (row["rule"], row["value"], row["protocol"]) == ("inside", 1.0, "revised")
    assert json.loads(row["detail"])["distance"] == pytest.approx(1.0)
    outside = verdict(suite, seen, "p002#0")
    assert outside["value"] == 0.0
    assert outside["reason"] == ("outside the real images: nearest is real/003 at 3, whose own neighbours reach to 3")
    assert verdict(suite, seen, "real/000")["value"] == 1.0
    uncovered = verdict(suite, seen, "real/003")
    assert (uncovered["rule"], uncovered["value"]) == ("covered", 0.0)
    assert uncovered["reason"] == "0 images within 3"


def test_distances_by_hand():
    suite = quality(2)
    score = numbers(suite, observed(suite, [5.0, 9.0], [0.0, 2.0]))
    # Means 1 and 7, variances 2 and 8: 6**2 + 2 + 8 - 2 sqrt(16) = 38.
    assert score["fid", "revised"].value == pytest.approx(38.0)
    assert score["fid", "paper"].value == pytest.approx(38.0)
    assert not score["fid", "revised"].higher_is_better
    assert score["fid", "revised"].unit == "distance"
    # Kernel (x y + 1)**3: k(0, 2) = 1; k(5, 9) = 46**3; across 1, 1, 11**3, 19**3.
    expected = 1 + 46**3 - 2 * (1 + 1 + 11**3 + 19**3) / 4
    assert score["kid", "revised"].value == pytest.approx(expected)
    assert math.isnan(score["kid", "paper"].value)  # 100 subsets of 1,000 images cannot be had of two
    assert math.isnan(score["precision", "revised"].value)  # k = 3 needs five images


def test_intervals_surround_their_values():
    rng = np.random.default_rng(1)
    suite = quality(60, splits=3)
    score = numbers(suite, observed(suite, rng.normal(size=(60, 3)), rng.normal(0.3, 1, size=(50, 3))))
    for metric in ("fid", "kid", "precision", "recall", "density", "coverage"):
        got = score[metric, "revised"]
        assert got.ci_low <= got.value <= got.ci_high
        assert got.ci_low < got.ci_high
    assert math.isfinite(score["fid_infinity", "revised"].value)
    assert score["fid_infinity", "revised"].value < score["fid", "revised"].value


def test_manifold_intervals_keep_the_images_of_a_prompt_together():
    rng = np.random.default_rng(2)
    real, centres = rng.normal(size=(60, 3)), rng.normal(size=(10, 3))
    generated = np.repeat(centres, 6, axis=0) + 0.2 * rng.normal(size=(60, 3))
    suite = quality(60, splits=5)
    seen = observed(suite, generated, real)
    # Six images of each prompt instead of one: rows stay in the order of ids.
    ids = {f"p{i:03d}#0": f"p{i - i % 6:03d}" for i in range(60)}
    images = seen.images.with_columns(pl.col("image_id").replace_strict(ids).alias("prompt_id"))
    whole, single = numbers(suite, replace(seen, images=images)), numbers(suite, seen)
    x, y = real.astype(np.float32), generated.astype(np.float32)
    expected = half_samples(x, y, 3, seed=0, n_splits=5, clusters=np.arange(60) // 6)
    for metric in PRDC._fields:
        got = whole[metric, "revised"]
        assert (got.ci_low, got.ci_high) == expected.interval(metric)[1:]
        assert got.value == single[metric, "revised"].value
    assert whole["precision", "revised"].ci_low < single["precision", "revised"].ci_low


def test_remarks_copies_of_real_images_and_of_each_other_are_counted():
    rng = np.random.default_rng(0)
    suite = quality(6)
    seen = observed(suite, rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), states={5: "blank"})
    assert not any("copies" in line for line in suite.remarks(seen))
    of_images = seen.images.with_columns(sha256=pl.Series(["a", "b", "b", "c", "d", "e"]))
    of_real = seen.reference.with_columns(sha256=pl.Series(["a", "b", "e", "f", "g", "h"]))
    lines = suite.remarks(replace(seen, images=of_images, reference=of_real))
    # a, b and b are real ones, the second b repeats the first; e is no usable image.
    assert any(line.startswith("copies of real images, byte by byte: 3 of 5 images") for line in lines)
    assert any(line.startswith("copies of other images of the set, byte by byte: 1 of 5;") for line in lines)


def test_too_few_images_to_extrapolate():
    suite = quality(6)
    rng = np.random.default_rng(1)
    seen = observed(suite, rng.normal(size=(6, 4)), rng.normal(size=(6, 4)))
    assert math.isnan(numbers(suite, seen)["fid_infinity", "revised"].value)
    assert ("fid_infinity", "revised") not in numbers(suite.with_rules(extrapolate="false"), seen)
    lines = suite.remarks(seen)
    assert lines == []
    assert (
        "only 6 images and 6 real images for 9 features"
        in suite.remarks(observed(suite, rng.normal(size=(6, 9)), rng.normal(size=(6, 9))))[0]
    )
    (uneven,) = suite.remarks(observed(suite, rng.normal(size=(6, 4)), rng.normal(size=(9, 4))))
    assert "6 images against 9 real ones" in uneven


def test_released_leaves_out_the_last_incomplete_batch():
    rng = np.random.default_rng(2)
    features, real = rng.normal(size=130), rng.normal(size=90)
    suite = quality(130)
    score = numbers(suite, observed(suite, features, real))
    released = score["fid", "released"]
    # 130 images make two batches of 64; p128 and p129 are the last by name. In one dimension the distance is
    # (m1 - m2)**2 + (s1 - s2)**2, with unbiased variances.
    kept = features[:128]
    expected = (kept.mean() - real.mean()) ** 2 + (kept.std(ddof=1) - real.std(ddof=1)) ** 2
    assert released.value == pytest.approx(expected)
    assert (released.n_used, released.n_unusable) == (128, 2)
    assert score["fid", "revised"].n_used == 130
    few = quality(60)
    score = numbers(few, observed(few, features[:60], real))
    assert math.isnan(score["fid", "released"].value)
    assert score["fid", "released"].n_used == 0


def test_images_that_cannot_be_used_are_counted():
    suite = quality(8, k=1)
    generated, real = np.arange(8.0), np.arange(7.0) + 0.25
    seen = observed(suite, generated, real, states={0: "missing", 3: "blank"}, real_states={6: "failed"})
    score = numbers(suite, seen)
    assert (score["fid", "revised"].n_used, score["fid", "revised"].n_unusable) == (6, 2)
    assert (score["coverage", "revised"].n_used, score["coverage", "revised"].n_unusable) == (6, 1)
    kept = np.delete(generated, [0, 3])
    expected = prdc(real[:6, None], kept[:, None], k=1)
    assert score["precision", "revised"].value == expected.precision
    assert score["recall", "revised"].value == expected.recall
    row = verdict(suite, seen, "p003#0")
    assert (row["value"], row["reason"]) == (None, "image blank: why")


def test_nothing_usable_is_undefined_not_zero():
    suite = quality(2)
    seen = observed(suite, [1.0, 2.0], [1.0, 2.0], states={0: "failed", 1: "failed"})
    score = numbers(suite, seen)
    assert all(math.isnan(s.value) for s in score.values())
    assert {s.n_unusable for (metric, *_), s in score.items() if metric == "fid"} == {2}
    assert verdict(suite, seen, "real/000")["reason"].startswith("2 real and 0 generated images can be used")


def test_groups_compare_with_their_own():
    facets = [{"region": r} for r in ("Africa", "Europe") for _ in range(5)]
    suite = quality(10, k=1, facets=facets).with_rules(group_by="region")
    # Generated images of each region lie on the real ones of that region, moved by 0.1; regions are far apart.
    generated = np.concatenate([np.arange(5.0), 100 + np.arange(5.0)])
    real = generated + 0.1
    score = numbers(suite, observed(suite, generated, real, real_facets=facets))
    assert score["precision", "revised", "Africa"].value == 1.0
    assert score["fid", "revised", "Africa"].value == pytest.approx(0.01, rel=1e-4)  # features are float32
    crossed = numbers(suite, observed(suite, generated, real, real_facets=facets[::-1]))
    assert crossed["precision", "revised", "Africa"].value == 0.0
    assert crossed["fid", "revised", "Europe"].value == pytest.approx(99.9**2)
    assert crossed["precision", "revised"].value == 1.0  # all together they still coincide
    foreign = observed(suite, generated, real, real_facets=[{"region": "AF"}] * 10)
    with pytest.raises(UsageError, match="no region in common: Africa, Europe here and AF there"):
        numbers(suite, foreign)
    part = observed(suite, generated, real, real_facets=[{"region": "Africa"}] * 10)
    assert math.isnan(numbers(suite, part)["fid", "revised", "Europe"].value)


def test_inception_score_of_logits():
    # Four classes, each image sure of another: as varied as can be, 4; alike images: 1.
    sure = 50 * np.eye(4)
    suite = quality(4, kind=None)
    judge = "fid-inception@1 layer=logits_unbiased"
    score = numbers(suite, observed(suite, sure, judge=judge))
    assert score["inception_score", "revised"].value == pytest.approx(4.0)
    assert math.isnan(score["inception_score", "paper"].value)  # ten splits need ten images
    assert score["inception_score", "revised"].unit == "classes"
    twelve = quality(12, kind=None)
    score = numbers(twelve, observed(twelve, np.repeat(sure[:1], 12, axis=0), judge=judge))
    assert score["inception_score", "paper"].value == pytest.approx(1.0)
    with pytest.raises(UsageError, match="give --reference, or logits for the Inception score"):
        numbers(suite, observed(suite, sure))


def test_rows_may_come_in_any_order():
    rng = np.random.default_rng(3)
    suite = quality(30, splits=2)
    seen = observed(suite, rng.normal(size=(30, 2)), rng.normal(size=(25, 2)), states={4: "blank"})
    shuffle = random.Random(1)

    def shuffled(table):
        order = list(range(table.height))
        shuffle.shuffle(order)
        return table[order]

    again = Observed(
        prompts=seen.prompts,
        images=shuffled(seen.images),
        observations={name: shuffled(table) for name, table in seen.observations.items()},
        reference=shuffled(seen.reference),
    )
    assert suite.verdicts(again).equals(suite.verdicts(seen))
    assert repr(suite.scores(again, suite.verdicts(again))) == repr(suite.scores(seen, suite.verdicts(seen)))


def test_features_of_different_networks():
    suite = quality(6)
    with pytest.raises(UsageError, match="real images have 3 features and the others 2"):
        suite.verdicts(observed(suite, np.ones((6, 2)), np.ones((6, 3))))


# ------------------------------------------------------------------------------------------------------------- making
def folder(path, names):
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"not looked at here")
    return path


def test_a_folder_of_images(tmp_path):
    images = folder(tmp_path / "g", ["b.png", "a.png", "sub/c.png"])
    reference = folder(tmp_path / "r", ["x.png"])
    suite = Quality.make({"reference": reference, "images": images})
    assert [(p.prompt_id, p.text, p.n_images) for p in suite.prompts()] == [
        ("a", "", 1),
        ("b", "", 1),
        ("sub/c", "", 1),
    ]
    assert [(b.prompt_id, b.path) for b in suite.user_images] == [
        ("a", str(images / "a.png")),
        ("b", str(images / "b.png")),
        ("sub/c", str(images / "sub" / "c.png")),
    ]
    assert suite.needs() == (FeatureNeed(reference=True),)
    assert [p.image_id for p in suite.reference.images] == ["real/x"]
    two = Quality.make({"images": images, "limit": 2, "seed": 5})
    assert len(two.prompts()) == len(two.user_images) == 2
    assert two.needs() == (FeatureNeed(reference=False),)
    assert two.reference is None


def test_a_list_puts_images_of_one_prompt_together(tmp_path):
    path = tmp_path / "g.csv"
    path.write_text(
        "file_path,prompt,region\n1.png,a car,Africa\n2.png,a car,Africa\n3.png,a car,Europe\n4.png,,Europe\n"
    )
    suite = Quality.make({"images": path, "reference": folder(tmp_path / "r", ["x.png"])})
    assert [(p.prompt_id, p.text, p.facets["region"], p.n_images) for p in suite.prompts()] == [
        ("1", "a car", "Africa", 2),
        ("3", "a car", "Europe", 1),
        ("4", "", "Europe", 1),
    ]
    assert [(b.prompt_id, b.index) for b in suite.user_images] == [("1", 0), ("1", 1), ("3", 0), ("4", 0)]
    path.write_text("file_path,prompt_id,region\n1.png,x,Africa\n2.png,x,Europe\n")
    with pytest.raises(UsageError, match="images of one prompt share text and facets"):
        Quality.make({"images": path})


def test_prompts_for_a_model(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("prompt,region\na car,Africa\na car,Europe\n")
    suite = Quality.make({"prompts": path, "reference": folder(tmp_path / "r", ["Africa/x.png"]), "n_images": 4})
    assert suite.user_images is None
    assert [(p.prompt_id, p.text, p.n_images) for p in suite.prompts()] == [
        ("00000", "a car", 4),
        ("00001", "a car", 4),
    ]
    with pytest.raises(UsageError, match=r"the reference have no facet 'region' to group by; they have \['folder'\]"):
        suite.with_rules(group_by=["region"])
    with pytest.raises(UsageError, match=r"the images have no facet 'folder' to group by; they have \['region'\]"):
        Quality.make({"prompts": path, "group_by": "folder"})


def test_what_cannot_be(tmp_path):
    images = folder(tmp_path / "g", ["a.png"])
    with pytest.raises(UsageError, match=r"needs images \(--images\) or prompts for a model \(--prompts FILE\)"):
        Quality.make({})
    with pytest.raises(UsageError, match="leave out --n-images"):
        Quality.make({"images": images, "n_images": 2})
    with pytest.raises(UsageError, match="k is a whole number, at least 1; got 0"):
        Quality.make({"images": images, "k": 0})
    with pytest.raises(UsageError, match="splits is a whole number, at least 2; got 1"):
        Quality.make({"images": images}).with_rules(splits=1)
    with pytest.raises(UsageError, match="has no rule 'kk'"):
        Quality.make({"images": images}).with_rules(kk=1)


def test_published_statistics(tmp_path):
    images = folder(tmp_path / "g", [f"{i}.png" for i in range(4)])
    path = tmp_path / "coco_val.npz"
    np.savez(path, mu=np.array([1.0]), sigma=np.array([[2.0]]))
    suite = Quality.make({"images": images, "reference": path})
    assert suite.needs() == (FeatureNeed(reference=False),)
    seen = observed(suite, [5.0, 9.0, 5.0, 9.0])
    score = numbers(suite, seen)
    # Means 1 and 7, variances 2 and 16/3: 36 + (sqrt 2 - sqrt 16/3)**2.
    assert score["fid", "revised"].value == pytest.approx(36 + (math.sqrt(2) - math.sqrt(16 / 3)) ** 2)
    assert {metric for metric, *_ in score} == {"fid", "fid_infinity"}
    assert any("published statistics hold no images" in line for line in suite.remarks(seen))
    assert suite.verdicts(seen).height == 0

    back = Quality.reopen(json.loads(json.dumps(dict(suite.settings()))), suite.prompts())
    assert repr(list(numbers(back, seen).values())) == repr(list(score.values()))
    with pytest.raises(UsageError, match="of all images together and have no groups by region"):
        suite.with_rules(group_by="region")
    with pytest.raises(UsageError, match="is of 1 features and the judge gives 2"):
        numbers(suite, observed(suite, np.ones((4, 2))))
    np.savez(path, mu=np.array([1.0]), sigma=np.array([[3.0]]))
    with pytest.raises(UsageError, match="are not those this run was started with"):
        numbers(suite, seen)
    path.unlink()
    with pytest.raises(UsageError, match="are gone; put the file back"):
        numbers(suite, seen)


def test_a_stored_run_scores_the_same(tmp_path):
    images = folder(tmp_path / "g", [f"{i}.png" for i in range(9)])
    reference = tmp_path / "real.npy"
    rng = np.random.default_rng(4)
    np.save(reference, rng.normal(size=(8, 2)))
    suite = Quality.make({"images": images, "reference": reference, "k": 2}).with_rules(splits=2)
    stored = json.loads(json.dumps({**suite.settings(), "suite": "quality", "reference": "abc", "features": JUDGE}))
    back = Quality.reopen(stored, suite.prompts()).with_rules(**json.loads(json.dumps(dict(suite.all_rules()))))
    assert back.needs() == suite.needs() == (FeatureNeed(reference=True),)
    assert back.settings() == suite.settings()
    seen = observed(suite, rng.normal(size=(9, 2)), suite.reference.features)
    assert back.verdicts(seen).equals(suite.verdicts(seen))
    assert repr(back.scores(seen, back.verdicts(seen))) == repr(suite.scores(seen, suite.verdicts(seen)))
    value = numbers(back, seen)["fid", "revised"].value
    generated = np.array(seen.observations["features"]["vector"].to_list())
    assert value == pytest.approx(frechet_from_features(np.load(reference), generated).value, rel=1e-5)


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_features_from_files_give_the_scores_of_those_in_memory(tmp_path, block, monkeypatch):
    from verism.store import blocks

    suite = quality(40, k=2, splits=3)
    rng = np.random.default_rng(5)
    seen = observed(suite, rng.normal(size=(40, 3)), rng.normal(size=(31, 3)), states={4: "failed"})
    run = Run.start(tmp_path / "run", RunSettings(suite="quality", suite_settings=dict(suite.settings())))
    run.write_prompts(suite.prompts())
    shuffled = seen.images.sample(fraction=1.0, shuffle=True, seed=3)
    for start in range(0, 40, 9):
        run.append("images", shuffled[start : start + 9])
    for table, rows in seen.observations.items():
        for start in range(0, rows.height, 8):
            run.append(table, rows[start : start + 8], JUDGE)
    run.append("reference", seen.reference)
    monkeypatch.setattr(blocks, "BLOCK", block)
    files = []
    map_vectors = Run.map_vectors

    def noted(self, *arguments, **options):
        rows, vectors = map_vectors(self, *arguments, **options)
        files.append((type(vectors), len(vectors), rows["vector"].null_count()))
        return rows, vectors

    monkeypatch.setattr(Run, "map_vectors", noted)
    scores = score_run(run, suite, judges={"features": JUDGE})
    assert files == [(np.memmap, 39, 39), (np.memmap, 31, 31)]
    expected = complete_scores(suite, suite.scores(seen, suite.verdicts(seen)))
    assert [repr(s) for s in scores] == [repr(s) for s in expected]
    assert any(s.metric == "fid" and s.value > 0 for s in scores)


def test_scores_on_a_named_device_are_those_of_the_cpu(tmp_path, monkeypatch):
    suite = quality(20, k=2, splits=3)
    rng = np.random.default_rng(6)
    seen = observed(suite, rng.normal(size=(20, 3)), rng.normal(size=(18, 3)))
    run = Run.start(tmp_path / "run", RunSettings(suite="quality", suite_settings=dict(suite.settings())))
    run.write_prompts(suite.prompts())
    for table, rows in {"images": seen.images, "reference": seen.reference, **seen.observations}.items():
        run.append(table, rows, None if table in ("images", "reference") else JUDGE)
    used = []

    def product(device):
        def multiply(x, y, out):
            used.append(device)
            np.matmul(x, y.T, out=out)

        return multiply

    monkeypatch.setattr("verism.inference.float32_product", product)
    rules = {"k": 2, "splits": 3}
    plain = api.score(run, judges={"features": JUDGE}, rules=rules)
    assert not used
    again = api.score(run, judges={"features": JUDGE}, rules=rules, device="cuda:1")
    assert set(used) == {"cuda:1"}
    assert [repr(s) for s in again] == [repr(s) for s in plain]
    used.clear()
    api.score(run, judges={"features": JUDGE}, rules=rules, device="cpu")
    assert not used
