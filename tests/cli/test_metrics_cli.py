"""``verism metrics``: numbers as the functions give them, keys as documented, and wrong files told apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from verism.cli.metrics import metrics
from verism.metrics import captions, frechet, inception_score, kernel, manifold, retrieval


@pytest.fixture
def verism(in_process: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    return in_process


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    real, generated = tmp_path / "real.npy", tmp_path / "generated.npy"
    np.save(real, rng.standard_normal((60, 5)).astype(np.float32))
    np.save(generated, (rng.standard_normal((50, 5)) + 0.3).astype(np.float32))
    return real, generated


def ok(told: tuple[int, str, str]) -> Any:
    code, out, err = told
    assert code == 0, err
    return json.loads(out)


def assert_refused(told: tuple[int, str, str], *parts: str) -> None:
    code, out, err = told
    assert (code, out) == (2, "")
    for part in parts:
        assert part in err
    assert "Traceback" not in err


# -------------------------------------------------------------------------------------------------------- feature sets
def test_prdc_has_its_four_keys_on_top(verism, sides):
    real, generated = sides
    got = ok(verism("metrics", "prdc", "--real", real, "--generated", generated, "-k", 3, "--json"))
    expected = manifold.prdc(np.load(real), np.load(generated), 3)
    assert {name: got[name] for name in ("precision", "recall", "density", "coverage")} == expected._asdict()
    assert (got["k"], got["n_real"], got["n_generated"], got["strict"]) == (3, 60, 50, True)
    assert got["expected_coverage"] == manifold.expected_coverage(60, 50, 3)
    for name, ends in got["intervals"].items():
        assert ends["low"] <= got[name] <= ends["high"]
    bare = ok(verism("metrics", "prdc", "--real", real, "--generated", generated, "--no-interval", "--json"))
    assert (bare["k"], bare["intervals"]) == (5, None)


def test_prdc_by_pytorch_is_the_same_and_approximate_says_its_error(verism, sides):
    pytest.importorskip("torch")
    real, generated = sides
    arguments = ("metrics", "prdc", "--real", real, "--generated", generated, "-k", 3)
    assert ok(verism(*arguments, "--json", "--device", "cpu")) == ok(verism(*arguments, "--json"))
    assert_refused(verism(*arguments, "--device", "abacus"), "abacus")
    rough = ok(verism(*arguments, "--json", "--approximate"))
    assert rough["intervals"] is None
    assert rough["approximate"]["neighbour_recall"] == 1.0  # sixty points are one cell
    assert set(rough["approximate"]["error"]) == {"precision", "recall", "density", "coverage"}
    assert "error at most 0.0" in verism(*arguments, "--approximate")[1]


def test_prdc_keeps_prompts_together(verism, sides, tmp_path):
    real, generated = sides
    lines = [f"prompt {i // 5}" for i in range(50)]
    (tmp_path / "prompts.txt").write_text("\n".join(lines) + "\n")
    # In a table, prompts may hold commas and line breaks.
    rows = [f'"prompt,\n{i // 5}",{i}' for i in range(50)]
    (tmp_path / "prompts.csv").write_text("\n".join(["prompt,index", *rows]) + "\n")
    expected = manifold.half_samples(np.load(real), np.load(generated), 3, seed=0, clusters=lines)
    for name in ("prompts.txt", "prompts.csv"):
        arguments = ("metrics", "prdc", "--real", real, "--generated", generated, "-k", 3, "--prompts", tmp_path / name)
        got = ok(verism(*arguments, "--json"))
        for metric in ("precision", "recall", "density", "coverage"):
            assert (got["intervals"][metric]["low"], got["intervals"][metric]["high"]) == expected.interval(metric)[1:]
    (tmp_path / "prompts.csv").write_text("prompt,index\none,1\n")
    assert_refused(verism(*arguments), "one row for each of the 50 images; it has 1")
    (tmp_path / "prompts.csv").write_text("index,prompt\n" + "1,one\n" * 49 + "50\n")
    assert_refused(verism(*arguments), "1 missing label")


def test_prdc_on_the_sphere(verism, tmp_path):
    # Reals 0..5 and k = 1: all radii are 1. Fakes at distance 1 of the ends are outside, unless the sphere counts.
    np.save(tmp_path / "r.npy", np.arange(6.0)[:, None])
    np.save(tmp_path / "g.npy", np.array([[-1.0], [6.0], [20.0]]))
    arguments = ("metrics", "prdc", "--real", tmp_path / "r.npy", "--generated", tmp_path / "g.npy", "-k", 1, "--json")
    assert ok(verism(*arguments))["precision"] == 0
    assert ok(verism(*arguments, "--inclusive"))["precision"] == pytest.approx(2 / 3)


def test_fid_of_features_and_statistics(verism, sides, tmp_path):
    real, generated = sides
    got = ok(verism("metrics", "fid", "--real", real, "--generated", generated, "--json"))
    expected = frechet.frechet_from_features(np.load(real), np.load(generated)).value
    assert got["fid"] == pytest.approx(expected, rel=1e-12)
    assert (got["n_real"], got["n_generated"], got["features"], got["warning"]) == (60, 50, 5, "")
    assert got["interval"]["low"] < got["fid"] < got["interval"]["high"]
    x = np.load(real).astype(float)
    published = tmp_path / "coco_val.npz"
    np.savez(published, mu=x.mean(0), sigma=np.cov(x.T))
    again = ok(verism("metrics", "fid", "--real", published, "--generated", generated, "--json"))
    assert again["fid"] == pytest.approx(expected, rel=1e-9)
    assert again["n_real"] is None
    both = ok(verism("metrics", "fid", "--real", published, "--generated", published, "--json"))
    assert both["fid"] == pytest.approx(0, abs=1e-9)
    assert both["interval"]["low"] is None  # nothing is known of how many images there were


def test_fid_warns_of_small_sets_and_extrapolates(verism, tmp_path):
    rng = np.random.default_rng(1)
    np.save(tmp_path / "r.npy", rng.standard_normal((12, 20)))
    np.save(tmp_path / "g.npy", rng.standard_normal((40, 20)))
    arguments = ("metrics", "fid", "--real", tmp_path / "r.npy", "--generated", tmp_path / "g.npy")
    code, out, err = verism(*arguments, "--json", "--infinity")
    assert code == 0
    got = json.loads(out)
    assert "Only 12 real images for 20 features" in got["warning"]
    assert "warning: Only 12 real images" in err
    assert got["fid_infinity"]["sizes"][-1] == 40
    assert got["fid_infinity"]["interval"]["low"] < got["fid_infinity"]["value"]
    code, out, _ = verism(*arguments, "--no-interval")
    assert code == 0
    assert out.splitlines()[0].startswith("Frechet ")
    assert "12 real and 40 generated images, 20 features" in out


def test_fid_keeps_prompts_together(verism, sides, tmp_path):
    real, generated = sides
    lines = [f"prompt {i // 5}" for i in range(50)]
    (tmp_path / "prompts.txt").write_text("\n".join(lines) + "\n")
    arguments = ("metrics", "fid", "--real", real, "--generated", generated, "--prompts", tmp_path / "prompts.txt")
    got = ok(verism(*arguments, "--json"))
    expected = frechet.frechet_interval(np.load(real), np.load(generated), clusters=lines)
    assert (got["interval"]["low"], got["interval"]["high"]) == pytest.approx(expected[1:])
    (tmp_path / "prompts.txt").write_text("one\ntwo\n")
    assert_refused(verism(*arguments), "one line for each of the 50 images; it has 2")


def test_prompts_with_unicode_line_separators_are_one_line_each(verism, sides, tmp_path):
    real, generated = sides
    path = tmp_path / "prompts.txt"
    path.write_bytes("\r\n".join(f"prompt\u2028{i // 5}\x85" for i in range(50)).encode())
    got = ok(verism("metrics", "kid", "--real", real, "--generated", generated, "--prompts", path, "--json"))
    expected = kernel.kid(np.load(real), np.load(generated), clusters=np.arange(50) // 5)
    assert got["interval"]["low"] == pytest.approx(expected.low)


def test_kid(verism, sides):
    real, generated = sides
    arguments = ("metrics", "kid", "--real", real, "--generated", generated)
    got = ok(verism(*arguments, "--published", "--subsets", 5, "--subset-size", 20, "--json"))
    expected = kernel.kid(np.load(real), np.load(generated))
    assert (got["kid"], got["interval"]["low"]) == pytest.approx((expected.value, expected.low))
    parts = kernel.kid_subsets(np.load(real), np.load(generated), subsets=5, subset_size=20)
    assert (got["published"]["kid_mean"], got["published"]["kid_std"]) == pytest.approx((parts.mean, parts.std))
    assert_refused(verism(*arguments, "--published"), "subset_size must lie between 2 and the smaller set, 50")
    code, out, _ = verism(*arguments)
    assert (code, out.startswith("kernel ")) == (0, True)


def test_inception_score(verism, tmp_path):
    logits = 3 * np.random.default_rng(0).standard_normal((40, 6))
    np.save(tmp_path / "z.npy", logits)
    got = ok(verism("metrics", "inception-score", "--logits", tmp_path / "z.npy", "--json"))
    expected = inception_score.inception_score(logits, kind="logits")
    assert (got["inception_score"], got["std"]) == pytest.approx((expected.mean, expected.std))
    assert_refused(verism("metrics", "inception-score", "--probabilities", tmp_path / "z.npy"), "Are they logits?")
    assert_refused(verism("metrics", "inception-score"), "give one of --logits and --probabilities")


@pytest.mark.parametrize("command", ["prdc", "fid", "kid"])
@pytest.mark.parametrize(
    ("array", "parts"),
    [
        pytest.param(np.zeros((4, 8, 8, 3), np.uint8), ["Images must be turned into features first"], id="images"),
        pytest.param(np.zeros(7), ["one row per image", "shape (7,)"], id="vector"),
        pytest.param(np.full((60, 5), np.nan), ["NaN"], id="NaN"),
        pytest.param(np.zeros((60, 4)), ["4", "5"], id="other features"),
        pytest.param(np.array([["a"] * 5] * 60), ["must hold numbers"], id="texts"),
        pytest.param(np.zeros((60, 5), np.complex64), ["must hold numbers"], id="complex"),
        pytest.param(np.array([[{}] * 5] * 60, dtype=object), ["pickles are not opened"], id="pickle"),
        pytest.param(np.zeros((1, 5)), ["1"], id="one image"),
    ],
)
def test_arrays_that_are_no_features_are_refused(verism, sides, tmp_path, command, array, parts):
    bad = tmp_path / "bad.npy"
    np.save(bad, array, allow_pickle=True)
    assert_refused(verism("metrics", command, "--real", sides[0], "--generated", bad, "--json"), *parts)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("missing.npy", None, "no such file"),
        ("features.csv", b"1,2", "must be an .npy or .npz file"),
        ("broken.npy", b"nothing", "cannot be read as an array"),
        ("broken.npz", b"PK\x03\x04nothing", "cannot be read as an array"),
        ("empty.npy", b"", "cannot be read as an array"),
    ],
)
def test_files_that_are_no_arrays_are_refused(verism, sides, tmp_path, name, content, part):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    for command in ("kid", "fid"):
        assert_refused(verism("metrics", command, "--real", sides[0], "--generated", tmp_path / name), part, name)


def test_npz_with_one_array_or_features(verism, sides, tmp_path):
    real, generated = sides
    np.savez(tmp_path / "one.npz", whatever=np.load(generated))
    np.savez(tmp_path / "named.npz", features=np.load(generated), paths=np.zeros(50))
    np.savez(tmp_path / "two.npz", a=np.load(generated), b=np.zeros(50))
    np.savez(tmp_path / "stats.npz", mu=np.zeros(5), sigma=np.eye(5))
    np.savez(tmp_path / "half.npz", mu=np.zeros(5))
    values = [
        ok(verism("metrics", "kid", "--real", real, "--generated", path, "--json"))["kid"]
        for path in (generated, tmp_path / "one.npz", tmp_path / "named.npz")
    ]
    assert len(set(values)) == 1
    assert_refused(
        verism("metrics", "kid", "--real", real, "--generated", tmp_path / "two.npz"), "must hold one array", "a, b"
    )
    assert_refused(verism("metrics", "kid", "--real", real, "--generated", tmp_path / "stats.npz"), "which only", "fid")
    assert_refused(verism("metrics", "fid", "--real", real, "--generated", tmp_path / "half.npz"), "sigma missing")
    assert_refused(
        verism("metrics", "fid", "--real", real, "--generated", tmp_path / "stats.npz", "--infinity"),
        "needs the features of the generated images",
    )


# ------------------------------------------------------------------------------------------------------------ captions
REFERENCES = {
    "images": [{"id": 1}, {"id": 2}, {"id": 3}],
    "annotations": [
        {"id": 10, "image_id": 1, "caption": "A dog runs on the grass."},
        {"id": 11, "image_id": 2, "caption": "Two cats sit on a sofa."},
        {"id": 12, "image_id": 1, "caption": "A brown dog is running."},
        {"id": 13, "image_id": 2, "caption": "A pair of cats on a couch."},
        {"id": 14, "image_id": 3, "caption": "A bus."},
    ],
}
CANDIDATES = [
    {"image_id": 2, "caption": "two cats sit on a couch"},
    {"image_id": 1, "caption": "a dog runs on the street"},
]


@pytest.fixture
def coco(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    def write(references: Any = REFERENCES, candidates: Any = CANDIDATES) -> tuple[Path, Path]:
        paths = tmp_path / "refs.json", tmp_path / "cands.json"
        for path, value in zip(paths, (references, candidates), strict=True):
            path.write_text(json.dumps(value))
        return paths

    return write


def test_captions_has_the_keys_of_the_coco_toolkit(verism, coco):
    references, candidates = coco()
    got = ok(verism("metrics", "captions", "--references", references, "--candidates", candidates, "--json"))
    meant = {1: ["A dog runs on the grass.", "A brown dog is running."]}
    meant[2] = ["Two cats sit on a sofa.", "A pair of cats on a couch."]
    result = captions.caption_scores(meant, {2: "two cats sit on a couch", 1: "a dog runs on the street"})
    for shown, name in [(f"Bleu_{n}", f"bleu_{n}") for n in (1, 2, 3, 4)] + [
        ("ROUGE_L", "rouge_l"),
        ("CIDEr", "cider"),
    ]:
        assert got[shown] == pytest.approx(result.values[name].value, rel=1e-12)
    assert (got["n_used"], got["n_unusable"]) == (2, 1)  # image 3 has no candidate
    assert "METEOR" not in got
    code, out, _ = verism("metrics", "captions", "--references", references, "--candidates", candidates)
    assert code == 0
    assert "2 images, 1 without a candidate left out" in out


def test_meteor_without_java_says_what_to_install(verism, coco, monkeypatch):
    monkeypatch.setenv("PATH", "")
    references, candidates = coco()
    result = verism("metrics", "captions", "--references", references, "--candidates", candidates, "--with", "meteor")
    assert result[0] == 1
    assert "METEOR needs" in result[2]


@pytest.mark.parametrize(
    ("references", "candidates", "part"),
    [
        ([], CANDIDATES, "must be a COCO captions file"),
        ({"annotations": [{"caption": "x"}]}, CANDIDATES, "each with image_id and caption"),
        ({"annotations": [{"image_id": 1, "caption": None}]}, CANDIDATES, "must be a text"),
        (REFERENCES, {"annotations": []}, "must have a list of records"),
        (REFERENCES, [*CANDIDATES, CANDIDATES[0]], "image_id 2 comes again"),
        (REFERENCES, [{"image_id": 9, "caption": "x"}], "1 of 1 candidates have no reference, such as image_id 9"),
        (REFERENCES, [{"image_id": "1", "caption": "x"}], "such as image_id '1'"),
        (REFERENCES, [{"image_id": [1], "caption": "x"}], "must be a number or a text"),
        (REFERENCES, [{"image_id": 1, "caption": 5}], "must be a text; got 5"),
    ],
)
def test_caption_files_of_another_shape_are_refused(verism, coco, references, candidates, part):
    paths = coco(references, candidates)
    assert_refused(verism("metrics", "captions", "--references", paths[0], "--candidates", paths[1], "--json"), part)


def test_caption_files_that_are_not_there_or_no_json(verism, coco, tmp_path):
    references, _ = coco()
    (tmp_path / "broken.json").write_text("[{")
    for name, part in (("nowhere.json", "no such file"), ("broken.json", "is not JSON")):
        assert_refused(verism("metrics", "captions", "--references", references, "--candidates", tmp_path / name), part)


# ---------------------------------------------------------------------------------------------------------- embeddings
@pytest.fixture
def embeddings(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(3)
    texts = rng.standard_normal((30, 8))
    images = texts + 0.8 * rng.standard_normal((30, 8))
    images[4] = np.nan  # an image without an answer
    np.save(tmp_path / "i.npy", images)
    np.save(tmp_path / "t.npy", texts)
    return tmp_path / "i.npy", tmp_path / "t.npy"


@pytest.mark.parametrize("protocol", ["released", "revised"])
def test_r_precision(verism, embeddings, protocol):
    images, texts = embeddings
    arguments = ("metrics", "r-precision", "--image-embeddings", images, "--text-embeddings", texts)
    got = ok(verism(*arguments, "--protocol", protocol, "--pool", 10, "--json"))
    result = retrieval.r_precision(np.load(images), np.load(texts), protocol=protocol, pool=10)
    assert (got["r_precision"], got["interval"]["low"]) == pytest.approx((result.value, result.low))
    assert (got["n_used"], got["n_unusable"], got["pool"]) == (29, 1, 10)
    assert got["method"] == ("sampled" if protocol == "released" else "exact")


def test_r_precision_with_rows_of_texts(verism, embeddings, tmp_path):
    images, texts = embeddings
    np.save(tmp_path / "reversed.npy", np.load(texts)[::-1])
    np.save(tmp_path / "rows.npy", np.arange(30)[::-1])
    arguments = ("metrics", "r-precision", "--image-embeddings", images, "--pool", 10, "--json", "--text-embeddings")
    straight = ok(verism(*arguments, texts))
    turned = ok(verism(*arguments, tmp_path / "reversed.npy", "--positive", tmp_path / "rows.npy"))
    assert turned["r_precision"] == pytest.approx(straight["r_precision"])
    assert_refused(
        verism("metrics", "r-precision", "--image-embeddings", images, "--text-embeddings", texts), "Lower pool"
    )


@pytest.mark.parametrize("scale", ["cosine", "x100", "hessel"])
def test_clipscore(verism, embeddings, scale):
    images, texts = embeddings
    arguments = ("metrics", "clipscore", "--image-embeddings", images, "--text-embeddings", texts, "--scale", scale)
    got = ok(verism(*arguments, "--json"))
    expected = np.nanmean(retrieval.clipscore(np.load(images), np.load(texts), scale=scale))
    assert got["clipscore"] == pytest.approx(expected)
    assert (got["n_used"], got["n_unusable"], got["scale"]) == (29, 1, scale)
    assert got["interval"]["low"] < got["clipscore"] < got["interval"]["high"]


# ---------------------------------------------------------------------------------------------------------------- help
def test_every_command_has_an_example(verism):
    for name, command in metrics.commands.items():
        assert f"verism metrics {name} " in (command.help or ""), name
    code, out, _ = verism("metrics", "--help")
    assert code == 0
    assert [
        line.split()[0] for line in out.splitlines() if line.startswith("  ") and line.split()[0] in metrics.commands
    ]
