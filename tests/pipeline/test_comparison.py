"""Two runs, paired: worked by hand."""

import json
from dataclasses import replace

import pytest
from verism.pipeline.comparing import compare_runs, compare_scores

from verism import api
from verism.errors import UsageError
from verism.records import Prompt, Score, frame
from verism.store import Run


def prompt(prompt_id: str, skill: str, **changes) -> Prompt:
    plain = Prompt(prompt_id=prompt_id, suite="paintskills", text=prompt_id, facets={"skill": skill}, spec={"k": 1})
    return replace(plain, **changes)


def make(path, verdicts: dict[str, list[float | None]], *, protocols=("corrected",), edit=lambda p: p) -> Run:
    """A run whose n-th prompt of a skill was right (1), wrong (0) or without an answer (None)."""
    run = Run.start(path, {"suite": "paintskills"})
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


@pytest.fixture
def pair(tmp_path):
    # object: 8 prompts, B gains 6 and loses none. count: 5 prompts, B gains all. spatial: B loses its only one.
    a = make(tmp_path / "a", {"object": [0] * 6 + [1, 0], "count": [0] * 5, "spatial": [1]})
    b = make(tmp_path / "b", {"object": [1] * 6 + [1, 0], "count": [1] * 5, "spatial": [0]})
    return a, b


def test_differences_worked_by_hand(pair):
    overall, count, obj, spatial = compare_runs(*pair)
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
    # The mean over skills, not over pictures: (6/8 + 1 - 1) / 3, where pictures would give (6 + 5 - 1) / 14.
    assert overall.difference == pytest.approx(0.25)
    assert overall.value_a == pytest.approx((1 / 8 + 0 + 1) / 3)
    assert overall.value_b == pytest.approx((7 / 8 + 1 + 0) / 3)
    assert overall.p_holm == overall.p_value
    assert [d.metric for d in (overall, obj)] == ["mean_accuracy", "accuracy"]
    assert [d.n_pairs for d in (overall, count, obj, spatial)] == [14, 5, 8, 1]
    for d in (count, obj):
        assert d.ci_low <= d.difference <= d.ci_high


def test_swapping_the_runs_turns_every_sign(pair):
    a, b = pair
    for there, back in zip(compare_runs(a, b), compare_runs(b, a)):
        assert back.difference == pytest.approx(-there.difference)
        assert back.ci_low == pytest.approx(-there.ci_high, nan_ok=True)
        assert back.p_value == pytest.approx(there.p_value)
        assert (back.value_a, back.value_b) == (there.value_b, there.value_a)


def test_a_run_against_itself(pair):
    for d in compare_runs(pair[0], pair[0]):
        assert (d.difference, d.p_value) == (0.0, 1.0)


def test_pictures_without_a_partner_are_counted(tmp_path):
    # object_1: no answer in A; object_2: none in B; object_3: none in either; object_4 and count_0: only B asked.
    a = make(tmp_path / "a", {"object": [1, None, 0, None]})
    b = make(tmp_path / "b", {"object": [0, 1, None, None, 1], "count": [1]})
    overall, count, obj = compare_runs(a, b)
    assert (obj.n_pairs, obj.n_unpaired, obj.difference) == (1, 4, -1.0)
    assert (count.n_pairs, count.n_unpaired) == (0, 1)
    assert (overall.n_pairs, overall.n_unpaired, overall.difference) == (1, 5, -1.0)
    record = count.record()
    assert (record["difference"], record["p_value"], record["p_holm"]) == (None, None, None)
    assert json.dumps([d.record() for d in (overall, count, obj)], allow_nan=False)


def test_protocols_are_compared_one_by_one(tmp_path):
    both = {"protocols": ("released", "corrected")}
    a, b = make(tmp_path / "a", {"object": [0, 1]}, **both), make(tmp_path / "b", {"object": [1, 1]}, **both)
    assert [d.protocol for d in compare_runs(a, b)] == ["released", "released", "corrected", "corrected"]
    assert {d.protocol for d in compare_runs(a, b, protocol="released")} == {"released"}


def test_other_facets(tmp_path):
    def edit(p: Prompt) -> Prompt:
        n = int(p.prompt_id[-1])
        return replace(p, facets={"skill": "count", "count": 1 + n // 2, "object": None})

    a = make(tmp_path / "a", {"count": [0, 0, 1, 1]}, edit=edit)
    b = make(tmp_path / "b", {"count": [1, 1, 1, 0]}, edit=edit)
    _, one, two = compare_runs(a, b, by="count")
    assert (one.group, one.difference) == ({"count": 1}, 1.0)
    assert (two.group, two.difference) == ({"count": 2}, -0.5)
    with pytest.raises(UsageError, match=r"no prompt has the facet 'object'"):
        compare_runs(a, b, by="object")


def test_runs_that_cannot_be_paired_are_refused(tmp_path):
    a = make(tmp_path / "a", {"object": [1, 1]})
    with pytest.raises(UsageError, match="no prompt in common"):
        compare_runs(a, make(tmp_path / "b", {"count": [1, 1]}))
    with pytest.raises(UsageError, match=r"'object_0' reads 'object_0' in .* and 'other' in .*cannot be paired"):
        compare_runs(a, make(tmp_path / "c", {"object": [1, 1]}, edit=lambda p: replace(p, text="other")))
    with pytest.raises(UsageError, match="cannot be paired"):
        compare_runs(a, make(tmp_path / "d", {"object": [1, 1]}, edit=lambda p: replace(p, spec={"k": 2})))


# ------------------------------------------------------------------------------------------------- measures, unpaired
def scored(path, *scores: Score) -> Run:
    run = Run.start(path, {"suite": "geography"})
    run.write_scores(scores)
    return run


def measured(value: float, low: float, high: float, metric: str = "coverage", **group: str) -> Score:
    return Score(
        suite="geography", metric=metric, protocol="corrected", value=value, ci_low=low, ci_high=high, n_used=50,
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


def test_objects_are_compared_when_asked_for_and_scores_without_interval_never(tmp_path):
    nan = float("nan")
    both = [measured(0.5, 0.4, 0.6, object="car", region="Africa"), measured(0.88, nan, nan, "expected_coverage")]
    a, b = scored(tmp_path / "a", *both), scored(tmp_path / "b", *both)
    with pytest.raises(UsageError, match="no score with an interval in common"):
        compare_scores(a, b)
    assert [row.group["object"] for row in compare_scores(a, b, by="object")] == ["car"]


def test_runs_of_other_suites_are_not_compared(tmp_path):
    a = scored(tmp_path / "a", measured(0.8, 0.7, 0.9))
    b = Run.start(tmp_path / "b", {"suite": "quality"})
    with pytest.raises(UsageError, match=r"is a run of geography and .* of quality"):
        api.compare(a, b)
