"""Which numbers of two runs may be held against each other, and what is said of those that may not."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import verism as command
from fakes import ColourFeatures
from measure_runs import score
from page_reading import Page

import verism
from verism import api
from verism.errors import UsageError
from verism.imaging import encode_png
from verism.manifest import RunSettings, Scoring
from verism.records import Prompt, frame
from verism.report_kit import tables
from verism.report_kit.comparability import Comparability
from verism.specs import MetricSpec, Presentation, RuleScope, Scale, SuiteInfo
from verism.store import Run
from verism.suites.catalogue import presentation_of

INFO = SuiteInfo(
    name="made", title="Made", question="", summary="", protocols=dict.fromkeys(("revised", "released"), "")
)
UNIT = Scale("share", 0.0, 1.0)


def metric(name: str, **more) -> MetricSpec:
    return MetricSpec(name, title=name, meaning="", scale=UNIT, better="higher", **more)


MADE = Presentation(
    info=INFO,
    metrics=(
        metric("near", judges=("features",), against_real=True, depends_on_n=True),
        metric("covered", judges=("features",), against_real=True, counts_real=True, depends_on_n=True),
        metric("kernel", judges=("features",), against_real=True, depends_on_n=True, n_enough=1000),
        metric("spread", judges=("vqa",), depends_on_n=True, n_tolerance=0.1),
        metric("share", judges=("vqa",)),
        metric("match", judges=("clip",)),
    ),
    rules=(
        RuleScope(name="k", metrics=("near", "covered")),
        RuleScope(name="splits", metrics=()),
        RuleScope(name="threshold_released", protocol="released"),
        RuleScope(name="labels", about_images=True),
    ),
    settings=("balanced",),
)
JUDGES = {"features": "net@1", "vqa": "asker@1", "clip": "clip@1"}
RULES = {"k": 3, "splits": 20, "threshold_released": 0.5, "labels": {"a": 1}, "margin": 0.25}


def make(
    path: Path,
    *,
    judges=JUDGES,
    rules=RULES,
    real: str = "r",
    texts=("a dog", "a cat"),
    seed: int = 0,
    size: int = 256,
    settings=None,
    n: int = 96,
    n_real: int = 300,
    suite: str = "made",
) -> Run:
    """A run of the suite ``made``, with one score of each of its metrics."""
    described = RunSettings(
        suite=suite, suite_settings={"balanced": True} | (settings or {}), seed=seed, reference=real
    )
    run = Run.start(path, described, scoring=Scoring(judges=judges, rules=rules))
    run.write_prompts([Prompt(prompt_id=f"p{i}", suite=suite, text=text) for i, text in enumerate(texts)])
    image = {"index": 0, "seed": 7, "state": "ok", "width": size, "height": size, "note": ""}
    run.append(
        "images", frame("images", [image | {"image_id": f"p{i}#0", "prompt_id": f"p{i}"} for i in range(len(texts))])
    )
    counts = {"covered": n_real}
    run.write_scores(
        [
            score(spec.name, 0.5, 0.4, 0.6, protocol=protocol, n_used=counts.get(spec.name, n), suite=suite)
            for spec in MADE.metrics
            for protocol in INFO.protocols
        ]
    )
    run.write_presentation(MADE)
    return run


ALL = {spec.name for spec in MADE.metrics}


@pytest.mark.parametrize(
    ("change", "text", "touched"),
    [
        pytest.param(
            {"judges": {**JUDGES, "features": "net@2"}},
            "features: net@1 in A, net@2 in B",
            {"near", "covered", "kernel"},
            id="features",
        ),
        pytest.param(
            {"judges": {**JUDGES, "vqa": "asker@2"}}, "vqa: asker@1 in A, asker@2 in B", {"spread", "share"}, id="judge"
        ),
        pytest.param({"rules": {**RULES, "k": 10}}, "rule k: 3 in A, 10 in B", {"near", "covered"}, id="rule of two"),
        pytest.param(
            {"rules": {**RULES, "margin": 0.1}}, "rule margin: 0.25 in A, 0.1 in B", ALL, id="rule nobody declares"
        ),
        pytest.param({"rules": {**RULES, "splits": 5}}, None, set(), id="rule of intervals alone"),
        pytest.param({"rules": {**RULES, "labels": {"b": 0}}}, None, set(), id="labels of other images"),
        pytest.param({"rules": {**RULES, "labels": {}}}, "rule labels: given in A, none in B", ALL, id="no labels"),
        pytest.param({"rules": {"k": 3}}, None, set(), id="rules that an earlier version did not have"),
        pytest.param({"judges": {}}, None, set(), id="judges that were not recorded"),
        pytest.param(
            {"real": "s"}, "other real images: 0 images in A, 0 images in B", {"near", "covered", "kernel"}, id="real"
        ),
        pytest.param(
            {"texts": ("a dog", "a bird", "a bus")}, "other prompts: 2 in A, 3 in B, 1 the same", ALL, id="prompts"
        ),
        pytest.param({"seed": 3}, "seed of the images: 0 in A, 3 in B", ALL, id="seed"),
        pytest.param(
            {"size": 512}, "size of the images: 256 x 256 pixels in A, 512 x 512 pixels in B", ALL, id="image size"
        ),
        pytest.param({"settings": {"balanced": False}}, "balanced: true in A, false in B", ALL, id="setting"),
        pytest.param(
            {"n": 30},
            "number of images: 96 vs 300 real in A, 30 vs 300 real in B",
            {"near", "covered", "kernel", "spread"},
            id="number of images",
        ),
        pytest.param(
            {"n_real": 200},
            "number of images: 96 vs 300 real in A, 96 vs 200 real in B",
            {"near", "covered", "kernel"},
            id="number of real images",
        ),
        pytest.param({"n": 91}, None, {"near", "covered", "kernel"}, id="a few unusable images matter to some"),
        pytest.param({}, None, set(), id="another run of the same"),
    ],
)
def test_each_difference_touches_the_numbers_it_concerns(tmp_path, change, text, touched):
    check = Comparability(make(tmp_path / "a"), make(tmp_path / "b", **change), (MADE, MADE))
    found = {name: [r.text for r in check.touching(name, "revised", {})] for name in ALL}
    assert {name for name, reasons in found.items() if reasons} == touched
    if text is not None:
        assert text in {reason for reasons in found.values() for reason in reasons}


def test_a_rule_of_one_protocol_leaves_the_others_alone(tmp_path):
    b = make(tmp_path / "b", rules={**RULES, "threshold_released": 0.9})
    check = Comparability(make(tmp_path / "a"), b, (MADE, MADE))
    assert check.touching("share", "revised", {}) == ()
    (reason,) = check.touching("share", "released", {})
    assert reason.remedy == f"verism score {b.path} --rule threshold_released=0.5"


def test_enough_images_are_enough_for_what_has_no_bias(tmp_path):
    a, b = make(tmp_path / "a", n=1000, n_real=5000), make(tmp_path / "b", n=4000, n_real=5000)
    check = Comparability(a, b, (MADE, MADE))
    assert check.touching("kernel", "revised", {}) == ()
    assert len(check.touching("near", "revised", {})) == 1


def test_a_run_is_comparable_with_itself(tmp_path):
    run = make(tmp_path / "a")
    check = Comparability(run, Run.open(run.path), (MADE, MADE))
    assert check.reasons == ()
    assert all(check.touching(name, "revised", {}) == () for name in ALL)


def test_what_a_comparison_has_to_know_survives_being_stored():
    assert Presentation.of_record(json.loads(json.dumps(MADE.record()))) == MADE


# ----------------------------------------------------------------------------------------------------- from end to end
def write_colours(folder: Path, n: int, seed: int) -> Path:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for number in range(n):
        pixels = np.clip(rng.integers(60, 200, 3) + rng.integers(-20, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
        (folder / f"{number:03d}.png").write_bytes(encode_png(pixels))
    return folder


@pytest.fixture(scope="module")
def quality(tmp_path_factory) -> Path:
    """Runs of the suite quality: ``q``, ``k10`` by another rule, ``few`` images, ``real`` of another reference,
    ``net`` of other features, ``again`` the same."""
    folder = tmp_path_factory.mktemp("quality")
    real, other = write_colours(folder / "real-a", 40, 1), write_colours(folder / "real-b", 40, 2)
    images, few = write_colours(folder / "images", 30, 3), write_colours(folder / "some", 12, 3)
    for name, mine, reference, judge in (
        ("q", images, real, "mean-colour@1"),
        ("few", few, real, "mean-colour@1"),
        ("real", images, other, "mean-colour@1"),
        ("net", images, real, "mean-colour@2"),
    ):
        verism.evaluate(
            "quality",
            images=mine,
            reference=reference,
            features=ColourFeatures(judge),
            rules={"extrapolate": False},
            out=folder / name,
        )
    for name, k in (("k10", 10), ("again", 3)):
        shutil.copytree(folder / "q", folder / name)
        api.score(folder / name, rules={"k": k})
    return folder


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("k10", "rule k: 3 in A, 10 in B (precision, recall, density, coverage) -> verism score"),
        ("few", "number of images: 30 vs 40 real in A, 12 vs 40 real in B"),
        ("real", "other real images: 40 images in A, 40 images in B"),
        ("net", "features: mean-colour@1 in A, mean-colour@2 in B"),
    ],
)
def test_compare_refuses_what_is_not_comparable(quality, name, reason):
    for compare in (lambda *runs: command("compare", *runs), verism.compare):
        with pytest.raises(UsageError, match=r"q \(A\) and .* \(B\) are not comparable(?s:.)*--anyway") as refused:
            compare(quality / "q", quality / name)
        assert reason in str(refused.value)


def test_compare_anyway_puts_the_reason_beside_every_number_it_touches(quality):
    rows = {d.metric: d for d in verism.compare(quality / "q", quality / "k10", anyway=True)}
    reason = "rule k: 3 in A, 10 in B"
    assert {name for name, d in rows.items() if d.reasons == (reason,)} == {
        "precision",
        "recall",
        "density",
        "coverage",
    }
    assert {name for name, d in rows.items() if not d.reasons} == {"fid", "kid"}
    assert rows["coverage"].record()["reasons"] == [reason]
    table = command("compare", quality / "q", quality / "k10", "--anyway").stdout
    lines = {line.split()[1]: line for line in table.splitlines() if line.startswith("revised")}
    assert {name: "[1]" in line for name, line in lines.items()} == {
        "precision": True,
        "recall": True,
        "density": True,
        "coverage": True,
        "Fréchet": False,
        "Kernel": False,
    }
    assert f"[1] {reason}" in table


def test_runs_that_are_alike_are_compared_without_a_word(quality):
    for name in ("q", "again"):
        rows = verism.compare(quality / "q", quality / name)
        assert all(row.reasons == () and row.difference == 0 for row in rows)


def test_distances_are_named_after_their_features(quality):
    rows = {d.metric: d.label for d in verism.compare(quality / "q", quality / "again")}
    assert rows["fid"] == "Fréchet distance (mean-colour features, 30 vs 40 real images)"
    assert rows["kid"] == "Kernel distance (mean-colour features, 30 vs 40 real images)"
    assert rows["coverage"] == "coverage (mean-colour features, 30 vs 40 real images)"
    run = Run.open(quality / "q")
    known = [presentation_of(run)]
    written = {
        "terminal": tables.terminal_table([run], known),
        "markdown": tables.markdown_table([run], known),
        "csv": tables.csv_table([run], known),
        "json": json.dumps(tables.json_report([run], known), ensure_ascii=False),
    }
    for form, text in written.items():
        name = "Frechet" if form == "terminal" else "Fréchet"
        assert f"{name} distance (mean-colour features, 30 vs 40 real images)" in text, form
        assert "FID" not in text, form


def test_reports_of_several_runs_carry_the_reasons(quality, tmp_path):
    names = ("q", "k10", "few")
    runs = [quality / name for name in names]
    by_k = "rule k: 3 in q, 10 in k10"
    by_n = "number of images: 30 vs 40 real in q, 12 vs 40 real in few"
    expected = {
        ("k10", "coverage"): [by_k],
        ("k10", "fid"): [],
        ("few", "coverage"): [by_n],
        ("few", "fid"): [by_n],
        ("q", "coverage"): [],
    }
    records = json.loads(command("report", *runs, "--json").stdout)
    found = {(r["run"], r["metric"]): r["cautions"] for r in records if r["protocol"] == "revised"}
    assert {key: found[key] for key in expected} == expected
    rows = list(csv.DictReader(io.StringIO(command("report", *runs, "--csv").stdout)))
    cautions = {(r["run"], r["metric"]): r["cautions"] for r in rows if r["protocol"] == "revised"}
    assert {key: cautions[key] for key in expected} == {key: "; ".join(value) for key, value in expected.items()}
    markdown = command("report", *runs, "--markdown").stdout
    (line,) = (line for line in markdown.splitlines() if line.startswith("| coverage"))
    assert [cell.strip()[-3:] for cell in line.split("|")[4:7]][1:] == ["[1]", "[2]"]
    assert f"\\[1\\] not comparable with q: {by_k}" in markdown
    done = command("report", *runs, "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.stderr
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    head = page.source.partition("<main>")[0]
    assert "mean-colour@1" in head
    assert "real images: real-a (40)" in head
    assert "30 vs 40 real images" in head
    assert by_k in page.source.partition('id="results"')[0]
    body = page.section("results")
    assert body.count('href="#not-comparable-1"') >= 5  # precision, recall, density, coverage and what chance gives
    assert body.count('href="#not-comparable-2"') >= 7
