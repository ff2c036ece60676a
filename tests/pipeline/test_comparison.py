"""Two runs, paired: worked by hand."""

import json
import math
from dataclasses import replace

import pytest

from verism import api
from verism.errors import UsageError
from verism.manifest import RunSettings
from verism.pipeline import comparison
from verism.pipeline.comparison import Difference, compare_images, compare_scores, pair_images, same_outcome
from verism.records import Prompt, Score, frame
from verism.report_kit.comparison import comparison_table
from verism.specs import Pairing
from verism.store import Run
from verism.suites.paintskills.suite import PaintSkills


def prompt(prompt_id: str, skill: str, **changes) -> Prompt:
    plain = Prompt(prompt_id=prompt_id, suite="paintskills", text=prompt_id, facets={"skill": skill}, spec={"k": 1})
    return replace(plain, **changes)


def make(path, verdicts: dict[str, list[float | None]], *, protocols=("revised",), edit=lambda p: p) -> Run:
    """A run whose n-th prompt of a skill was right (1), wrong (0) or without an answer (None)."""
    run = Run.start(path, RunSettings(suite="paintskills"))
    asked = {f"{skill}_{n}": (skill, value) for skill, values in verdicts.items() for n, value in enumerate(values)}
    run.write_prompts([edit(prompt(i, skill)) for i, (skill, _) in asked.items()])
    rows = [
        {"image_id": f"{i}#0", "prompt_id": i, "protocol": protocol, "rule": rule, "value": value, "reason": ""}
        for i, (_, value) in asked.items()
        for protocol in protocols
        for rule in ("accuracy", "right_number")
    ]
    run.write_verdicts(frame("verdicts", rows))
    return run


def paired(a: Run, b: Run, **options) -> list[Difference]:
    """The differences image by image, as PaintSkills pairs them."""
    return compare_images(a, b, PaintSkills.pairings, **options)


@pytest.fixture
def pair(tmp_path):
    # object: 8 prompts, B gains 6 and loses none. count: 5 prompts, B gains all. spatial: B loses its only one.
    a = make(tmp_path / "a", {"object": [0] * 6 + [1, 0], "count": [0] * 5, "spatial": [1]})
    b = make(tmp_path / "b", {"object": [1] * 6 + [1, 0], "count": [1] * 5, "spatial": [0]})
    return a, b


def test_differences_worked_by_hand(pair):
    overall, count, obj, spatial = paired(*pair)
    assert [d.group for d in (overall, count, obj, spatial)] == [
        {},
        {"skill": "count"},
        {"skill": "object"},
        {"skill": "spatial"},
    ]
    assert (obj.value_a, obj.value_b, obj.difference) == (1 / 8, 7 / 8, 6 / 8)
    assert (count.value_a, count.value_b, count.difference) == (0.0, 1.0, 1.0)
    assert (spatial.value_a, spatial.value_b, spatial.difference) == (1.0, 0.0, -1.0)  # B minus A
    # Exact sign tests: all of 6, of 5 and of 1 discordant pairs on one side, two-sided: 2/64, 2/32, 2/2.
    assert [d.p_value for d in (obj, count, spatial)] == pytest.approx([1 / 32, 1 / 16, 1.0])
    # Holm over the three skills: 3/32; max(3/32, 2/16) = 1/8; 1.
    assert [d.p_holm for d in (obj, count, spatial)] == pytest.approx([3 / 32, 1 / 8, 1.0])
    # The mean over skills, not over images: (6/8 + 1 - 1) / 3, where images would give (6 + 5 - 1) / 14.
    assert overall.difference == pytest.approx(0.25)
    assert overall.value_a == pytest.approx((1 / 8 + 0 + 1) / 3)
    assert overall.value_b == pytest.approx((7 / 8 + 1 + 0) / 3)
    assert overall.p_holm == overall.p_value
    assert [d.metric for d in (overall, obj)] == ["mean_accuracy", "accuracy"]
    assert [d.n_pairs for d in (overall, count, obj, spatial)] == [14, 5, 8, 1]
    for d in (count, obj):
        assert d.ci_low <= d.difference <= d.ci_high


@pytest.mark.parametrize(("graded", "size"), [(1.0, 1), (0.5, 8)])
@pytest.mark.parametrize("rows", [3, 2**16])
def test_values_that_are_all_0_or_1_take_a_byte_and_give_the_same_rows(tmp_path, monkeypatch, graded, size, rows):
    # The first ranges of ids hold 0, 1 and missing values alone, whatever the last one holds.
    monkeypatch.setattr(comparison, "ROWS", rows)
    a = make(tmp_path / "a", {"count": [0, 1, None, 1, 0, 0], "object": [1, 1, 0, None], "spatial": [0, 1, 0, graded]})
    b = make(tmp_path / "b", {"count": [1, 1, 1, None, 0, 1], "object": [0, 1, 1, None], "spatial": [1, 1, 0, 1]})
    kept = [values for family in pair_images(a, b, PaintSkills.pairings) for values in family]
    assert {values.a.dtype.itemsize for values in kept} == {size}
    assert {values.b.dtype.itemsize for values in kept} == {1}
    assert max(len(values.a) for values in kept) == 11
    short = list(map(repr, paired(a, b)))
    monkeypatch.setattr(comparison, "_short", lambda values: values)
    assert list(map(repr, paired(a, b))) == short


def test_swapping_the_runs_turns_every_sign(pair):
    a, b = pair
    for there, back in zip(paired(a, b), paired(b, a)):
        assert back.difference == pytest.approx(-there.difference)
        assert back.ci_low == pytest.approx(-there.ci_high, nan_ok=True)
        assert back.p_value == pytest.approx(there.p_value)
        assert (back.value_a, back.value_b) == (there.value_b, there.value_a)


def test_a_run_against_itself(pair):
    for d in paired(pair[0], pair[0]):
        assert (d.difference, d.ci_low, d.ci_high, d.p_value, d.p_holm) == (0.0, 0.0, 0.0, 1.0, 1.0)


def test_runs_with_the_same_images_and_verdicts_differ_by_exactly_zero(tmp_path):
    """A copy is the same outcome, a run with other images is not, though its verdicts are the same."""
    verdicts = {"object": [1, 0, 1, 0], "count": [1, 1, 0, 0]}
    runs = []
    for name, content in (("a", "x"), ("copy", "x"), ("other", "y")):
        run = make(tmp_path / name, verdicts)
        rows = [
            {"image_id": f"{p.prompt_id}#0", "prompt_id": p.prompt_id, "index": 0, "state": "ok", "sha256": content}
            for p in run.prompts()
        ]
        run.append("images", frame("images", rows))
        run.write_scores([measured(0.5, 0.4, 0.6)])
        runs.append(run)
    a, copy, other = runs
    assert same_outcome(a, copy)
    assert not same_outcome(a, other)
    for row in (*paired(a, copy), *compare_scores(a, copy)):
        assert (row.difference, row.ci_low, row.ci_high, row.p_value) == (0.0, 0.0, 0.0, 1.0)
    (row,) = compare_scores(a, other)
    assert (row.difference, row.ci_low < 0 < row.ci_high) == (0.0, True)


def test_images_without_a_partner_are_counted(tmp_path):
    # object_1: no answer in A; object_2: none in B; object_3: none in either; object_4 and count_0: only B asked.
    a = make(tmp_path / "a", {"object": [1, None, 0, None]})
    b = make(tmp_path / "b", {"object": [0, 1, None, None, 1], "count": [1]})
    overall, count, obj = paired(a, b)
    assert (obj.n_pairs, obj.n_unpaired, obj.difference) == (1, 4, -1.0)
    assert (count.n_pairs, count.n_unpaired) == (0, 1)
    # No pair shows a count, so that the mean over skills is not known; that of the rest would be another number.
    assert (overall.n_pairs, overall.n_unpaired, math.isnan(overall.difference)) == (1, 5, True)
    record = count.record()
    assert (record["difference"], record["p_value"], record["p_holm"]) == (None, None, None)
    assert json.dumps([d.record() for d in (overall, count, obj)], allow_nan=False)


def test_protocols_are_compared_one_by_one(tmp_path):
    both = {"protocols": ("released", "revised")}
    a, b = make(tmp_path / "a", {"object": [0, 1]}, **both), make(tmp_path / "b", {"object": [1, 1]}, **both)
    assert [d.protocol for d in paired(a, b)] == ["released", "revised"]  # of one skill alone there is no mean
    assert {d.protocol for d in paired(a, b, protocol="released")} == {"released"}


def test_other_facets(tmp_path):
    def edit(p: Prompt) -> Prompt:
        n = int(p.prompt_id[-1])
        return replace(p, facets={"skill": "count", "count": 1 + n // 2, "object": None})

    a = make(tmp_path / "a", {"count": [0, 0, 1, 1]}, edit=edit)
    b = make(tmp_path / "b", {"count": [1, 1, 1, 0]}, edit=edit)
    _, one, two = paired(a, b, by="count")
    assert (one.group, one.difference) == ({"count": 1}, 1.0)
    assert (two.group, two.difference) == ({"count": 2}, -0.5)
    with pytest.raises(UsageError, match=r"no prompt has the facet 'object'"):
        paired(a, b, by="object")


def test_runs_that_cannot_be_paired_are_refused(tmp_path):
    a = make(tmp_path / "a", {"object": [1, 1]})
    with pytest.raises(UsageError, match="no prompt in common"):
        paired(a, make(tmp_path / "b", {"count": [1, 1]}))
    with pytest.raises(UsageError, match=r"'object_0' reads 'object_0' in .* and 'other' in .*cannot be paired"):
        paired(a, make(tmp_path / "c", {"object": [1, 1]}, edit=lambda p: replace(p, text="other")))
    with pytest.raises(UsageError, match=r"'object_0' has one text in .* and is judged by other k; .*cannot be paired"):
        paired(a, make(tmp_path / "d", {"object": [1, 1]}, edit=lambda p: replace(p, spec={"k": 2})))


# ----------------------------------------------------------------------------------------------- what a mean is called
def test_mean_of_the_suite_is_over_its_own_groups_alone(tmp_path):
    # Worked by hand: object 1/2 -> 1, count 0 -> 1, spatial 1 -> 1; colour, an optional skill, 1 -> 0 is no part of it.
    verdicts = {"object": [1, 0], "count": [0, 0], "spatial": [1, 1], "color": [1, 1]}
    better = {"object": [1, 1], "count": [1, 1], "spatial": [1, 1], "color": [0, 0]}
    mean, *groups = paired(make(tmp_path / "a", verdicts), make(tmp_path / "b", better))
    assert (mean.metric, mean.value_a, mean.value_b) == ("mean_accuracy", pytest.approx(0.5), pytest.approx(1.0))
    assert {d.group["skill"] for d in groups} == {"object", "count", "spatial", "color"}


def test_mean_over_some_groups_of_the_suite_has_another_name(tmp_path):
    verdicts = {"object": [1, 0], "count": [0, 0]}
    mean, *_ = paired(make(tmp_path / "a", verdicts), make(tmp_path / "b", {"object": [1, 1], "count": [1, 1]}))
    assert (mean.metric, mean.value_a) == ("accuracy, mean over skill", pytest.approx(0.25))
    # What the scores of both runs define, says so where it is known.
    a, b = Run.open(tmp_path / "a"), Run.open(tmp_path / "b")
    assert paired(a, b, defined={("mean_accuracy", "revised")})[0].metric == "mean_accuracy"
    assert paired(a, b, defined=set())[0].metric == "accuracy, mean over skill"


def test_mean_over_another_facet_has_its_own_name(tmp_path):
    def edit(p: Prompt) -> Prompt:
        return replace(p, facets={"skill": "count", "count": 1 + int(p.prompt_id[-1]) // 3})

    a = make(tmp_path / "a", {"count": [0, 0, 0, 1]}, edit=edit)
    b = make(tmp_path / "b", {"count": [1, 1, 0, 1]}, edit=edit)
    mean, *_ = paired(a, b, by="count")
    assert (mean.metric, mean.group) == ("accuracy, mean over count", {})
    assert (mean.value_a, mean.value_b) == (pytest.approx((0 + 1) / 2), pytest.approx((2 / 3 + 1) / 2))


def test_interval_of_a_difference_of_shares_ends_at_100_points(tmp_path):
    # Groups of unequal size, all gained but one: Student's t of the weighted values would go beyond 1.
    a = make(tmp_path / "a", {"object": [0] * 8, "count": [0] * 2, "spatial": [1]})
    b = make(tmp_path / "b", {"object": [1] * 8, "count": [1] * 2, "spatial": [1]})
    mean = paired(a, b)[0]
    assert mean.difference == pytest.approx(2 / 3)
    assert 0 < mean.ci_low < mean.difference < mean.ci_high <= 1
    worse = paired(b, a)[0]
    assert (worse.ci_low, worse.ci_high) == pytest.approx((-mean.ci_high, -mean.ci_low))


# --------------------------------------------------------------------------------------- several verdicts of one image
def detailed(path, rows, groups=("man", "woman")) -> Run:
    """A run of four prompts, two of each group; ``rows``: prompt number, detail, value."""
    run = Run.start(path, RunSettings(suite="mine"))
    run.write_prompts(
        [Prompt(prompt_id=f"p{n}", suite="mine", text=f"p{n}", facets={"group": groups[n // 2]}) for n in range(4)]
    )
    verdicts = [
        {"image_id": f"p{n}#0", "prompt_id": f"p{n}", "protocol": "revised", "rule": "seen", "value": value,
         "reason": "", "detail": json.dumps(detail)}
        for n, detail, value in rows
    ]  # fmt: skip
    run.write_verdicts(frame("verdicts", verdicts))
    return run


def worn(tie, boots, of="vqa"):
    """What four images show of two attributes."""
    return [
        (n, {"attribute": name, "by": of}, value)
        for name, values in (("tie", tie), ("boots", boots))
        for n, value in enumerate(values)
    ]


def test_verdicts_of_one_image_are_paired_by_their_key(tmp_path):
    a = detailed(tmp_path / "a", worn([0, 0, 0, 0], [1, 1, 1, 1]))
    # In another order of rows, and with a third attribute that only B was asked about.
    rows = [*reversed(worn([1, 1, 1, 0], [1, 1, 0, 0])), (0, {"attribute": "hat", "by": "vqa"}, 1)]
    b = detailed(tmp_path / "b", rows)
    pairing = Pairing(rule="seen", metric="share", key=("attribute",))
    results = {d.group["attribute"]: d for d in compare_images(a, b, [pairing])}
    assert (results["tie"].difference, results["tie"].n_pairs) == (0.75, 4)
    assert (results["boots"].difference, results["boots"].n_pairs) == (-0.5, 4)
    assert (results["hat"].n_pairs, results["hat"].n_unpaired) == (0, 1)


def test_verdicts_with_other_details_are_not_compared(tmp_path):
    a = detailed(tmp_path / "a", [*worn([0] * 4, [0] * 4), *worn([1] * 4, [1] * 4, of="clip")])
    b = detailed(tmp_path / "b", [*worn([1] * 4, [0] * 4), *worn([1] * 4, [1] * 4, of="clip")])
    pairing = Pairing(rule="seen", metric="share", key=("attribute",), where={"by": "vqa"}, group={"by": "vqa"})
    rows = compare_images(a, b, [pairing])
    assert [(d.group, d.difference, d.n_pairs) for d in rows] == [
        ({"by": "vqa", "attribute": "boots"}, 0.0, 4),
        ({"by": "vqa", "attribute": "tie"}, 1.0, 4),
    ]


def test_indicator_counts_verdicts_that_have_a_detail_and_leaves_unusable_ones_out(tmp_path):
    def faces(classes):
        return [(n, {"class": c}, None if c is None else 7.0) for n, c in enumerate(classes)]

    a = detailed(tmp_path / "a", faces(["male", "female", "female", None]))
    b = detailed(tmp_path / "b", faces(["male", "male", "male", "male"]))
    pairing = Pairing(rule="seen", metric="class_share", indicator={"class": "male"}, group={"class": "male"})
    (row,) = compare_images(a, b, [pairing])
    assert row.group == {"class": "male"}
    assert (row.value_a, row.value_b) == (pytest.approx(1 / 3), 1.0)
    assert (row.n_pairs, row.n_unpaired) == (3, 1)


def test_facets_that_split_are_never_averaged_over(tmp_path):
    a = detailed(tmp_path / "a", worn([0, 0, 1, 1], [0] * 4))
    b = detailed(tmp_path / "b", worn([1, 1, 0, 1], [0] * 4))
    pairing = Pairing(rule="seen", metric="share", key=("attribute",), where={"attribute": "tie"}, split=("group",))
    rows = compare_images(a, b, [pairing])
    assert [(d.group, d.difference) for d in rows] == [
        ({"group": "man", "attribute": "tie"}, 1.0),
        ({"group": "woman", "attribute": "tie"}, -0.5),
    ]


# ------------------------------------------------------------------------------------------------- measures, unpaired
def scored(path, *scores: Score) -> Run:
    run = Run.start(path, RunSettings(suite="geography"))
    run.write_scores(scores)
    return run


def measured(value: float, low: float, high: float, metric: str = "coverage", **group: str) -> Score:
    return Score(
        suite="geography", metric=metric, protocol="revised", value=value, ci_low=low, ci_high=high, n_used=50,
        n_unusable=0, group=group,
    )  # fmt: skip


def test_measures_are_compared_by_their_intervals(tmp_path):
    # B - A = -0.30. Lower end: -0.30 - sqrt((0.5-0.4)^2 + (0.9-0.8)^2) = -0.30 - 0.1414; upper end the same way.
    a = scored(tmp_path / "a", measured(0.8, 0.7, 0.9, region="Africa"), measured(0.8, 0.7, 0.9, region="Europe"))
    b = scored(tmp_path / "b", measured(0.5, 0.4, 0.6, region="Africa"), measured(0.8, 0.7, 0.9, region="Europe"))
    africa, europe = compare_scores(a, b)
    assert africa.group == {"region": "Africa"}
    assert africa.difference == pytest.approx(-0.3)
    assert (africa.ci_low, africa.ci_high) == pytest.approx((-0.3 - 0.02**0.5, -0.3 + 0.02**0.5))
    # Standard error 0.1414 / 1.96 = 0.0722; z = 4.158; two-sided 3.2e-5; Holm over two regions doubles it.
    assert africa.p_value == pytest.approx(3.21e-5, rel=0.01)
    assert africa.p_holm == pytest.approx(2 * africa.p_value)
    assert (europe.difference, europe.p_value) == (0, 1)
    assert (africa.method, africa.n_pairs, africa.n_unpaired) == ("independent", 0, 100)


def test_lopsided_intervals_count_by_the_end_towards_no_difference(tmp_path):
    a = scored(tmp_path / "a", measured(0.5, 0.5, 0.5))
    b = scored(tmp_path / "b", measured(0.7, 0.5, 0.71))
    (row,) = compare_scores(a, b)
    # The lower end of B reaches A: p = 2 (1 - Phi(1.96)) = 0.05, however close the upper end is.
    assert row.ci_low == pytest.approx(0)
    assert row.p_value == pytest.approx(0.05)


def test_objects_are_compared_when_asked_for(tmp_path):
    of_car = measured(0.5, 0.4, 0.6, object="car", region="Africa")
    a, b = scored(tmp_path / "a", of_car), scored(tmp_path / "b", of_car)
    with pytest.raises(UsageError, match="no score in common"):
        compare_scores(a, b, detail=("object",))
    assert [row.group["object"] for row in compare_scores(a, b, by="object", detail=("object",))] == ["car"]


def of_images(path, names: list[str], *scores: Score, text: str = "") -> Run:
    """A run of images without prompts, or with one text, all inside the real ones."""
    run = Run.start(path, RunSettings(suite="quality"))
    run.write_prompts([Prompt(prompt_id=n, suite="quality", text=text and f"{text} {i}") for i, n in enumerate(names)])
    rows = [
        {"image_id": f"{n}#0", "prompt_id": n, "protocol": "revised", "rule": "inside", "value": 1.0, "reason": ""}
        for n in names
    ]
    run.write_verdicts(frame("verdicts", rows))
    run.write_scores([replace(score, suite="quality") for score in scores])
    return run


QUALITY = (measured(20, 18, 22, "fid"), replace(measured(0.9, 0.8, 0.95, "precision"), unit="share"))


@pytest.mark.parametrize(("without", "runs"), [("a", "A"), ("b", "B"), ("ab", "A and B")])
def test_a_score_without_interval_is_a_row_that_says_so(tmp_path, without, runs):
    nan = math.nan
    a, b = (
        of_images(
            tmp_path / name, ["0"], measured(value, *((nan, nan) if name in without else (value - 1, value + 1)), "fid")
        )
        for name, value in (("a", 20.0), ("b", 22.0))
    )
    for rows in (compare_scores(a, b), [row for row in api.compare(a, b) if row.metric == "fid"]):
        (row,) = rows
        assert row.difference == 2
        assert math.isnan(row.ci_low)
        assert math.isnan(row.p_value)
        assert row.undefined == f"no interval in {runs}"
        assert f": no interval in {runs}" in table_of(rows)


def test_scores_that_one_run_alone_has_are_rows_that_stand_in_no_ones_way(tmp_path):
    fid, density = measured(20, 18, 22, "fid"), measured(1.1, 1.0, 1.2, "density")
    a, b = of_images(tmp_path / "a", ["0"], fid, density), of_images(tmp_path / "b", ["0"], fid)
    for pair, only in (((a, b), "A"), ((b, a), "B")):
        both, row = (row for row in api.compare(*pair) if row.metric != "precision")
        assert (both.metric, both.undefined) == ("fid", "")
        assert (row.metric, row.undefined) == ("density", f"only run {only} has such a score")
        assert math.isnan(row.difference)
        assert row.reasons == ()  # no number is held against another


def test_metrics_of_sets_need_no_image_of_one_name(tmp_path):
    a = of_images(tmp_path / "a", ["00000", "00001"], *QUALITY)
    b = of_images(tmp_path / "b", ["sample_0", "sample_1"], replace(QUALITY[0], value=21.0), QUALITY[1])
    fid, precision = rows = api.compare(a, b)
    assert (fid.difference, fid.method, fid.not_paired) == (1.0, "independent", "")
    assert (precision.metric, precision.method, precision.n_a) == ("precision", "independent", 50)
    assert precision.not_paired.startswith("the runs have no prompt in common; images without prompts are paired by")
    assert "Not paired image by image" in table_of(rows)
    assert f": {precision.not_paired}\n" in table_of(rows)
    gate = api.gate(a, b, max_drop={"": 5, "fid": 10}, metrics=["fid", "precision"])
    assert [(row.metric, row.method) for row in gate.rows] == [("fid", "intervals"), ("precision", "intervals")]


def test_prompts_are_the_same_by_their_words_and_other_ones_are_refused(tmp_path):
    a = of_images(tmp_path / "a", ["a0", "a1"], *QUALITY, text="a dog")
    b = of_images(tmp_path / "b", ["b0", "b1"], *QUALITY, text="a dog")
    assert {row.method for row in api.compare(a, b)} == {"independent"}
    other = of_images(tmp_path / "c", ["c0", "c1"], *QUALITY, text="a cat")
    with pytest.raises(UsageError, match="other prompts: 2 in A, 2 in B, 0 the same"):
        api.compare(a, other)
    assert all(row.reasons for row in api.compare(a, other, anyway=True))


def test_images_without_a_partner_are_counted_beside_other_measures(tmp_path):
    scores = QUALITY[0], replace(QUALITY[1], value=1.0, ci_high=1.0)  # all images are inside the real ones
    a = of_images(tmp_path / "a", ["0", "1", "2"], *scores)
    b = of_images(tmp_path / "b", ["1", "2", "3", "4"], *scores)
    assert "  2 pairs, 3 unpaired  " in table_of(api.compare(a, b))


def test_runs_of_other_suites_are_not_compared(tmp_path):
    a = scored(tmp_path / "a", measured(0.8, 0.7, 0.9))
    b = Run.start(tmp_path / "b", RunSettings(suite="quality"))
    with pytest.raises(UsageError, match=r"is a run of geography and .* of quality"):
        api.compare(a, b)


def table_of(rows: list[Difference]) -> str:
    return comparison_table([row.record() for row in rows], a="a", b="b")


def test_undefined_rows_of_pairs_say_that_they_are_and_why(tmp_path):
    a = make(tmp_path / "a", {"object": [0, 1, 0], "count": [None, None]})
    b = make(tmp_path / "b", {"object": [1, 1, 0], "count": [1, 0]})
    mean, count, obj = paired(a, b)
    assert obj.undefined == ""
    assert count.undefined == "no image has a usable answer in both runs"
    assert mean.undefined == "a group of the mean has no image with a usable answer in both runs"
    text = table_of([mean, count, obj])
    assert "- to -" not in text
    assert [line.split()[:1] for line in text.splitlines() if " undefined " in line] == [["revised"], ["revised"]]
    assert "  revised, accuracy, count: no image has a usable answer in both runs" in text
    assert "Undefined" not in table_of([obj])


def test_difference_of_one_prompt_has_no_interval_and_says_why(tmp_path):
    a, b = (make(tmp_path / name, {"object": [value], "count": [1, 0]}) for name, value in (("a", 0.25), ("b", 0.75)))
    obj = next(row for row in paired(a, b) if row.group == {"skill": "object"})
    assert (obj.difference, obj.undefined) == (0.5, "no interval: one prompt alone")
    assert " +50.0 " in table_of([obj])


def test_undefined_rows_of_scores_name_the_run(tmp_path):
    nothing = replace(measured(math.nan, math.nan, math.nan), n_used=0, n_unusable=50)
    a, b = scored(tmp_path / "a", measured(0.8, 0.7, 0.9)), scored(tmp_path / "b", nothing)
    (row,) = compare_scores(a, b)
    assert row.undefined == "no score in B (no usable image)"
    assert "  revised, coverage: no score in B (no usable image)" in table_of([row])
