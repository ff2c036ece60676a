"""Which numbers of two runs may be held against each other, and what is said of those that may not."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
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
from verism.pipeline import comparison
from verism.pipeline.comparison import compare_runs
from verism.records import Prompt, frame
from verism.report_kit import tables
from verism.report_kit.comparability import Comparability, Reason, check_comparable
from verism.specs import MetricSpec, Pairing, Presentation, RuleScope, Scale, SuiteInfo
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
    judged_by={"questions": "vqa", "target": ""},
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
    spec=None,
    ids: str = "p",
    seed: int = 0,
    size: int | tuple[int, int] = 256,
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
    spec = {"questions": ["Is it there?"], "target": 1, "key": "k"} | (spec or {})
    run.write_prompts(
        [Prompt(prompt_id=f"{ids}{i}", suite=suite, text=text, spec=spec) for i, text in enumerate(texts)]
    )
    sizes = size if isinstance(size, tuple) else (size,) * len(texts)
    image = {"index": 0, "seed": 7, "state": "ok", "note": ""}
    run.append(
        "images",
        frame(
            "images",
            [
                image | {"image_id": f"{ids}{i}#0", "prompt_id": f"{ids}{i}", "width": side, "height": side}
                for i, side in zip(range(len(texts)), sizes, strict=True)
            ],
        ),
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
        pytest.param(
            {"spec": {"questions": ["Is it red?"]}, "ids": "q"},
            "the same prompts are judged by other questions in A and B: 2 of 2",
            {"spread", "share"},
            id="questions",
        ),
        pytest.param(
            {"spec": {"target": 2}}, "the same prompts are judged by other target in A and B: 2 of 2", ALL, id="target"
        ),
        pytest.param({"spec": {"key": "l"}, "ids": "q"}, None, set(), id="what nothing is judged by"),
        pytest.param({"seed": 3}, "seed of the images: 0 in A, 3 in B", ALL, id="seed"),
        pytest.param(
            {"size": 512}, "size of the images: 256 x 256 pixels in A, 512 x 512 pixels in B", ALL, id="image size"
        ),
        pytest.param(
            {"size": (256, 512)},
            "size of the images: 256 x 256 pixels in A, 2 sizes (512 x 512 pixels 50 %) in B",
            ALL,
            id="another size of some images",
        ),
        pytest.param({"settings": {"balanced": False}}, "balanced: true in A, false in B", ALL, id="setting"),
        pytest.param({"settings": {"balanced": None}}, "balanced: true in A, not set in B", ALL, id="setting of null"),
        pytest.param({"settings": {"balanced": ""}}, 'balanced: true in A, "" in B', ALL, id="setting of no text"),
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


def test_null_matters_only_where_both_runs_declare_the_setting(tmp_path):
    a, b = make(tmp_path / "a"), make(tmp_path / "b", settings={"balanced": None})
    undeclared = replace(MADE, settings=())
    assert Comparability(a, b, (MADE, undeclared)).reasons == ()
    assert [r.kind for r in Comparability(a, b, (MADE, MADE)).reasons] == ["setting"]


def adjusted(run: Run, **how) -> Run:
    """The run with its score ``share`` adjusted for the judge's error."""
    (own,) = [s for s in run.scores() if (s.metric, s.protocol) == ("share", "revised")]
    kept = replace(own, value=own.value + 0.1, ci_high=own.ci_high + 0.1, adjusted="rendered")
    run.write_scores([*run.scores(), kept])
    key = {"metric": "share", "protocol": "revised", "group": {}, "adjusted": "rendered"}
    run.write_adjustments([key | {"n_labels": 400, "source": "400 images", "note": ""} | how])
    return run


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"method": "judge card", "tables": "aa" * 32}, None),
        (
            {"method": "judge card", "tables": "bb" * 32},
            "judge card: aaaaaaaa, 400 items of 400 images in A, bbbbbbbb, 400 items of 400 images in B",
        ),
        ({"method": "prediction-powered"}, "adjusted by: judge card in A, prediction-powered in B"),
        ({"method": "judge card"}, None),  # of an earlier version, which did not record it
    ],
)
def test_numbers_adjusted_in_two_ways_are_not_compared(tmp_path, other, text):
    a = adjusted(make(tmp_path / "a"), method="judge card", tables="aa" * 32)
    b = adjusted(make(tmp_path / "b"), **other)
    independent = replace(MADE, metrics=tuple(replace(spec, compare="independent") for spec in MADE.metrics))
    rows = compare_runs(a, b, independent, protocol="revised", anyway=True)
    assert {row.reasons for row in rows if not row.adjusted} == {()}
    assert [row.reasons for row in rows if row.adjusted] == [() if text is None else (text,)]
    if text is not None:
        with pytest.raises(UsageError, match="adjust both by one card"):
            compare_runs(a, b, independent, protocol="revised")


def test_values_that_differ_are_never_said_to_differ_by_nothing(tmp_path, monkeypatch):
    a, b = make(tmp_path / "a"), make(tmp_path / "b")
    monkeypatch.setattr(comparison, "same_outcome", lambda *_: True)  # the same images, and the same verdicts
    b.write_scores([replace(s, value=0.55) if s.metric == "share" else s for s in b.scores()])
    independent = replace(MADE, metrics=tuple(replace(spec, compare="independent") for spec in MADE.metrics))
    rows = {row.metric: row for row in compare_runs(a, b, independent, protocol="revised", anyway=True)}
    assert rows["share"].difference == pytest.approx(0.05)
    assert (rows["match"].difference, rows["match"].ci_low) == (0.0, 0.0)


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


# ---------------------------------------------------------------------------------------------------- usable answers
ASKED = Presentation(
    info=INFO,
    metrics=(
        metric("right", judges=("vqa",), coverage="answered", compare="paired"),
        metric("seen", judges=("features",), compare="paired"),
        metric("mean_seen", judges=("features",), compare="paired"),
        metric("seen_if_missing_wrong", compare="never"),
        metric("answered", compare="never"),
        metric("spread", depends_on_n=True),
    ),
    pairings=(Pairing(rule="seen", metric="seen", facet="kind", mean="mean_seen"),),
)


def answered(path: Path, *scores) -> Run:
    """A run whose judge left something unanswered."""
    run = make(path)
    run.write_scores([replace(each, suite="made") for each in scores])
    run.write_presentation(ASKED)
    return run


def of(name: str, n_used: int, n_unusable: int = 0, **more):
    return score(name, 0.5, 0.4, 0.6, n_used=n_used, n_unusable=n_unusable, **more)


def texts(check: Comparability, name: str, **group: str) -> list[str]:
    return [reason.text for reason in check.touching(name, "revised", group)]


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        pytest.param((100, 0), (100, 0), False, id="all of both"),
        pytest.param((50, 50), (50, 50), False, id="half of both"),
        pytest.param((100, 0), (95, 5), False, id="as many as are tolerated"),
        pytest.param((100, 0), (94, 6), True, id="more than that"),
        # 45 of 48 have a standard error of sqrt(45/48 * 3/48 * 2/24) = 0.070 for two of 24: 1.96 of them are 0.137.
        pytest.param((24, 0), (21, 3), False, id="as many as chance leaves"),
        # 44 of 48: sqrt(44/48 * 4/48 * 2/24) = 0.080, of which 1.96 are 0.156; the shares are 0.167 apart.
        pytest.param((24, 0), (20, 4), True, id="more than chance leaves"),
        pytest.param((12, 0), (11, 1), False, id="a single image, though it is 8 %"),
        pytest.param((12, 0), (0, 12), True, id="nothing in one"),
        pytest.param((12, 0), (0, 0), False, id="not counted"),
    ],
)
def test_other_shares_of_usable_images_are_a_reason(tmp_path, a, b, found):
    runs = answered(tmp_path / "a", of("seen", *a)), answered(tmp_path / "b", of("seen", *b))
    text = f"usable answers: {a[0]} of {sum(a)} in A, {b[0]} of {sum(b)} in B"
    assert texts(Comparability(*runs, (ASKED, ASKED)), "seen") == [text] * found
    text = f"usable answers: {b[0]} of {sum(b)} in A, {a[0]} of {sum(a)} in B"
    assert texts(Comparability(*runs[::-1], (ASKED, ASKED)), "seen") == [text] * found


def test_other_shares_of_answered_questions_are_a_reason_though_every_image_is_used(tmp_path):
    a = answered(tmp_path / "a", of("right", 24), replace(of("answered", 72), value=1.0))
    b = answered(tmp_path / "b", of("right", 24), replace(of("answered", 29, 43), value=29 / 72))
    check = Comparability(a, b, (ASKED, ASKED))
    expected = ["questions answered: 100.0 % (72 of 72) in A, 40.3 % (29 of 72) in B"]
    assert texts(check, "right") == expected
    assert texts(check, "right", kind="dog") == expected  # no number of its own: that of the run stands for it
    assert texts(check, "answered") == []  # what was answered is what it says


def test_questions_of_a_group_count_where_only_those_of_the_run_are_known(tmp_path):
    groups = [of("right", 12, group=group) for group in ((), {"kind": "dog"})]
    a, b = (
        answered(tmp_path / name, *groups, replace(of("answered", 480), value=value))
        for name, value in (("a", 0.97), ("b", 0.9))
    )
    check = Comparability(a, b, (ASKED, ASKED))
    expected = ["questions answered: 97.0 % in A, 90.0 % in B"]
    assert texts(check, "right", kind="dog") == texts(check, "right") == expected


def test_runs_of_before_that_count_no_questions_are_held_by_their_images(tmp_path):
    a = answered(tmp_path / "a", of("right", 24))
    b = answered(tmp_path / "b", of("right", 24), replace(of("answered", 29, 43), value=0.4))
    assert texts(Comparability(a, b, (ASKED, ASKED)), "right") == []


def test_a_group_is_held_by_its_own_share_and_named_where_the_runs_are_alike(tmp_path):
    def run(name: str, *, dog: int, cat: int) -> Run:
        groups = [of("seen", n, 20 - n, group={"kind": kind}) for kind, n in (("dog", dog), ("cat", cat))]
        return answered(tmp_path / name, of("mean_seen", dog + cat, 40 - dog - cat), *groups)

    same_in_all = Comparability(run("a", dog=20, cat=14), run("b", dog=14, cat=20), (ASKED, ASKED))
    assert texts(same_in_all, "mean_seen") == []
    assert texts(same_in_all, "seen", kind="dog") == ["usable answers of dog: 20 of 20 in A, 14 of 20 in B"]
    assert texts(same_in_all, "seen", kind="cat") == ["usable answers of cat: 14 of 20 in A, 20 of 20 in B"]
    only_dogs = Comparability(run("c", dog=20, cat=20), run("d", dog=10, cat=20), (ASKED, ASKED))
    whole = ["usable answers: 40 of 40 in A, 30 of 40 in B"]
    assert texts(only_dogs, "mean_seen") == texts(only_dogs, "seen", kind="dog") == whole
    assert texts(only_dogs, "seen", kind="cat") == []


def test_bounds_and_numbers_that_never_are_compared_are_not_touched_and_sizes_are_named_once(tmp_path):
    a = answered(tmp_path / "a", of("seen_if_missing_wrong", 20), of("spread", 20))
    b = answered(tmp_path / "b", of("seen_if_missing_wrong", 10, 10), of("spread", 10, 10))
    check = Comparability(a, b, (ASKED, ASKED))
    assert texts(check, "seen_if_missing_wrong") == []
    assert texts(check, "spread") == ["number of images: 20 in A, 10 in B"]


def test_a_refusal_counts_what_it_does_not_list():
    texts = [f"usable answers of {n}: 9 of 9 in A, 5 of 9 in B" for n in range(11)]
    reasons = [("seen", Reason(kind="usable answers", text=text, metrics=("seen",))) for text in texts]
    with pytest.raises(UsageError, match=r"of 7: 9 of 9(?s:.)*\n  usable answers: 3 more\nMake them alike") as refused:
        check_comparable(reasons, "x", "y")
    assert "of 8:" not in str(refused.value)


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
