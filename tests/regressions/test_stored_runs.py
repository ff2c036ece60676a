"""Runs that an earlier version stored, scored again: every score is still there, and has the value it had then.

``make_runs.py`` says how the runs below ``runs/`` and the values below ``expected/`` were written. They are data: where
a test here fails, the code changed what published numbers mean. If a name changed on purpose, say so in ``RENAMED``; if
a suite reports more than it did, in ``ADDED``. Nothing may vanish or move.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import verism as command

import verism
from verism.statistics.intervals import FEW_CLUSTERS

HERE = Path(__file__).parent
RUNS, EXPECTED = HERE / "runs", HERE / "expected"

# Names that changed on purpose since the runs were stored, by where they stand: {"suite": {"old": "new"}}. ``facet`` is
# a name in a score's group and ``facet_value`` a value there; ``agreement`` is a key of the report on raters.
RENAMED: dict[str, dict[str, str]] = {
    "suite": {"paintskills-v1": "paintskills_v1", "geography-dollarstreet": "geography_dollarstreet"},
    "metric": {
        "gep_score_corrected": "gep_score_debiased",
        "gep_largest_gap_corrected": "gep_largest_gap_debiased",
    },
    "protocol": {"corrected": "revised"},
    "unit": {},
    "adjusted": {},
    "facet": {},
    "facet_value": {},
    "rule": {},
    "method": {},
    "agreement": {"corrected": "revised"},
}
# Metrics of single suites, by suite and name: ``coverage`` is the word for coverage of a manifold alone.
RENAMED_OF_SUITE = {(suite, "coverage"): "usable_share" for suite in ("social_bias", "social_bias_v1")}
# Metrics that say a direction wherever they stand; before, one of several places that wrote them left it out.
DIRECTIONS = {"usable_share": True}
# (suite, metric) that later versions report in addition, by their new names; then single professions with the error
# of the judge taken out by a card.
ADDED: frozenset[tuple[str, str]] = frozenset({("alignment", "questions_answered")})
ADDED_ADJUSTED = frozenset({"axis_mean", "class_share"})

# Metrics whose numbers moved on purpose, and the columns that did. Chance is that of the full prompt list now, whatever
# the limit of a run; tests/suites/test_paintskills_suite.py works it out from every prompt.
MOVED = {"shuffled_expectation": ("value", "ci_low", "ci_high", "n_used")}

# Sums come out in another order on another processor: noise of doubles stays far below this. Values that are zero but
# for rounding differ by the absolute tolerance at most.
RELATIVE, ABSOLUTE = 1e-9, 1e-12
# A Fréchet distance takes the square root of a product of covariances by an eigendecomposition, whose own error grows
# to the root of the machine precision (1.5e-8) where an eigenvalue is close to zero, and fid_infinity extrapolates from
# such values. kid is a mean over a cubic kernel of vectors kept as float32, where large terms cancel: 2e-8 was seen.
# mad_debiased is the end of an iteration: 3e-9 was seen.
TOLERANCES = {"fid": 1e-6, "fid_infinity": 1e-6, "kid": 1e-6, "mad_debiased": 1e-7}
# A debiased gap is the root of a difference of squares of gaps, which are at most 1. Where that difference should be 0,
# stored runs hold the root of its rounding instead, up to sqrt(2**-52) = 1.5e-8: 6e-10 was seen. It is exactly 0 now.
ABSOLUTES = {"gep_score_debiased": 1.5e-8, "gep_largest_gap_debiased": 1.5e-8}
# Resamples within rounding of the estimate count as ties with it. Before, a last bit decided whether they tied, and the
# bias-corrected percentile took a neighbouring resample: these ends moved on purpose, from and to; values did not.
# Seeds are fixed, so whatever the processor, all other ends stay.
TIED = {
    # standard deviation over races, a mean probability, a kappa with people
    0.259714042863737: 0.25,
    0.16436454577580548: 0.16428374576087984,
    0.14798404626808837: 0.14905438178666897,
    # agreement of raters, by 50 resamples
    0.5805586711048492: 0.5783206321919934,
    0.9520293300648206: 0.9479003142470802,
    0.5382548953498012: 0.5371622127996764,
    0.6067577213457842: 0.6059249611046772,
    0.7033170031420327: 0.7055502354713009,
    0.9106342450856619: 0.9267304632927569,
    0.3256768076686737: 0.31664298809441055,
    0.7526066561304577: 0.7513500404348529,
    0.26315789473684204: 0.2577104926797849,
    0.1414032157046058: 0.1568138592507183,
    0.8850951081418895: 0.8854312217324735,
    0.2245810877126921: 0.22752517308870543,
    0.9659945020055484: 0.9804829036590169,
}
# Of a judge that says the same of all images, rounding decided whether it was trusted; that is 0 now.
CONSTANT_JUDGE = {"prompts": "man"}

# Intervals of numbers adjusted for judge error moved on purpose: imaginary labels weigh prompts and not images, and
# shares have intervals that hold near 0 and 1. Their values did not move.
ENDS_OF_ADJUSTED = ("ci_low", "ci_high", "labels_only_low", "labels_only_high", "effective_n")

# Where prompts have several images, halves of the set hold whole prompts since then: ends of these metrics, and what is
# computed from their errors, moved on purpose; values did not. Other families have one prompt an object.
BY_PROMPTS = ("precision", "recall", "density", "coverage", "object_region")
FROM_ERRORS = ("_gap_by_chance", "_gap_p_value")

# Means over fewer than FEW_CLUSTERS prompts have at least Student's interval: of two prompts, the bootstrap's
# missed the truth in half of all studies, of ten in one of ten. Their ends moved outwards on purpose; values did not.
WIDENED = (
    *("mad", "reference_deviation", "reference_difference", "judge_tone_error", "clipscore", "class_probability"),
    *("clipscore_cosine", "clipscore_x100", "clipscore_hessel", "vqascore", "question_score", "question_score_alone"),
    *("r_precision", "rouge_l", "cider"),
)
MEAN_ENDS = tuple(  # of means, in an agreement
    f"/{mean}/{end}" for mean in ("mean_difference", "people/mean", "within_one") for end in ("low", "high")
)

KEY = ("suite", "metric", "protocol", "group", "unit", "adjusted")
DIRECTION = "higher_is_better"
SCORE = (*KEY, "value", "ci_low", "ci_high", "n_used", "n_unusable", DIRECTION)
VARIANTS: dict[tuple[str, str], dict[str, Any]] = {
    ("paintskills", "rendered"): {"correct": "rendered"},
    ("paintskills", "human"): {"correct": "human"},
    ("paintskills", "threshold"): {"threshold": 0.7},
    ("social_bias", "rendered"): {"correct": "rendered"},
    ("social_bias", "human"): {"correct": "human"},
    ("gender_presentation", "labels"): {"rules": {"labels": "annotation"}},
    ("social_bias_v1", "labels"): {"rules": {"labels": "annotation"}},
}
RATED = ("gender_presentation", "paintskills", "social_bias", "social_bias_v1")
PAIRS = (("alignment", "alignment_b"), ("paintskills", "paintskills_b"), ("social_bias", "social_bias_b"))
NAMES = sorted(path.name for path in RUNS.iterdir() if (path / "manifest.json").exists())

Record = dict[str, Any]
Table = dict[tuple[str, ...], Record]


# ------------------------------------------------------------------------------------------------------------ expected
def renamed(kind: str, name: Any) -> Any:
    return RENAMED[kind].get(name, name) if isinstance(name, str) else name


def plain(value: Any) -> Any:
    """A number as JSON has it: NaN and infinities are null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def record_of(columns: Sequence[str], row: Sequence[Any]) -> Record:
    """A stored row with its names as they are today."""
    record = {column: plain(value) for column, value in zip(columns, row, strict=False)}
    for column in record.keys() & RENAMED.keys():
        record[column] = renamed(column, record[column])
    record["metric"] = RENAMED_OF_SUITE.get((record.get("suite", ""), record["metric"]), record["metric"])
    group = record["group"]
    record["group"] = {renamed("facet", k): renamed("facet_value", v) for k, v in group.items()}
    return record


def by_key(records: Sequence[Record], names: Sequence[str] = KEY) -> Table:
    """Records by what identifies them, which must be unique."""
    table = {tuple(json.dumps(r[name], sort_keys=True) for name in names if name in r): r for r in records}
    assert len(table) == len(records), "two records have one key"
    return table


def stored_scores(name: str) -> Table:
    """The scores in a stored run, read from the file itself."""
    table = pl.read_parquet(RUNS / name / "scores.parquet")
    rows = [[json.loads(v) if c == "group" else v for c, v in row.items()] for row in table.iter_rows(named=True)]
    return by_key([record_of(table.columns, row) for row in rows])


def expected_rows(name: str) -> tuple[list[str], list[list[Any]]]:
    columns, *rows = json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))
    return columns, rows


def variant_scores(name: str, variant: str) -> Table:
    """The stored scores with what a variant changes: rows of the key alone are gone."""
    columns, rows = expected_rows(f"{name}.{variant}")
    scores = stored_scores(name)
    for record in (record_of(columns, row) for row in rows):
        (key,) = by_key([record])
        if "value" in record:
            scores[key] = record
        else:
            del scores[key]
    return scores


# ----------------------------------------------------------------------------------------------------------- comparing
def alike(old: Any, new: Any, tolerance: float, absolute: float = ABSOLUTE) -> bool:
    numbers = (int, float)
    if isinstance(old, numbers) and isinstance(new, numbers) and not isinstance(old, bool):
        return math.isclose(old, new, rel_tol=tolerance, abs_tol=absolute)
    return bool(old == new)


def moved_with_prompts(old: Record, column: str) -> bool:
    """Whether a number may have moved because halves hold whole prompts."""
    suite, metric = old.get("suite", ""), old["metric"]
    several = suite == "quality" or (suite.startswith("geography") and old["group"].get("family") == "country")
    free = column in ("ci_low", "ci_high") or (column == "value" and metric.endswith(FROM_ERRORS))
    return several and free and metric.startswith(BY_PROMPTS) and old[column] is not None


def outwards(end: str, old: float, new: float) -> bool:
    return (old - new if end.endswith("low") else new - old) > 0


def tied(old: Any, new: Any) -> bool:
    """Whether an end moved to where it lies once ties do not hang on rounding."""
    return old in TIED and alike(TIED[old], new, RELATIVE)


def widened(old: Record, column: str, new: Any, prompts: int) -> bool:
    """Whether an end moved outwards that may: of a mean over few prompts of a run that has so many."""
    if old["metric"] not in WIDENED or column not in ("ci_low", "ci_high") or None in (old[column], new):
        return False
    few = min(prompts, old.get("n_used") or prompts) < FEW_CLUSTERS  # no more prompts than images
    return few and outwards(column, old[column], new)


def stays(old: Record, column: str, new: Any, prompts: int) -> bool:
    """Whether a number of a record of a run with so many prompts is what it was, or moved on purpose."""
    metric = old["metric"]
    absolute = ABSOLUTES.get(metric, ABSOLUTE) if new == 0 else ABSOLUTE
    if alike(old[column], new, TOLERANCES.get(metric, RELATIVE), absolute):
        return True
    if old.get("adjusted") and column in ENDS_OF_ADJUSTED:
        return new is not None or old[column] is None
    if old["metric"] == "mad_debiased" and column == "ci_high":  # no more than the largest MAD there can be, now
        return new is not None and old[column] is not None and new < old[column]
    if moved_with_prompts(old, column):
        return new is not None
    if widened(old, column, new, prompts):
        return True
    if column == "trust":
        return new == 0 and CONSTANT_JUDGE.items() <= old["group"].items()
    return column in ("ci_low", "ci_high") and tied(old[column], new)


def mismatches(
    old: Table, new: Table, *, added: frozenset[tuple[str, str]] = frozenset(), prompts: int = FEW_CLUSTERS
) -> list[str]:
    """What vanished, moved, or came without being allowed to, one line each.

    Args:
        old: stored records by key.
        new: records of this version by key.
        added: (suite, metric) of records that may be new.
        prompts: number of prompts of the run.
    """
    lines = [f"gone: {key}" for key in old.keys() - new.keys()]
    directed = {key for key, record in old.items() if DIRECTION in record and record["metric"] in DIRECTIONS}
    old = {
        key: {**record, DIRECTION: DIRECTIONS[record["metric"]]} if key in directed else record
        for key, record in old.items()
    }
    for key, record in new.items():
        if key not in old:
            by_card = "rendered" in record.values() and "profession" in str(record["group"])
            if not (by_card and record["metric"] in ADDED_ADJUSTED) and (
                (record.get("suite"), record["metric"]) not in added
            ):
                lines.append(f"came in addition: {key}")
            continue
        lines += [
            f"moved: {key} {column}: {value!r} -> {record[column]!r}"
            for column, value in old[key].items()
            if column not in MOVED.get(record["metric"], ()) and not stays(old[key], column, record[column], prompts)
        ]
    return lines


def records_of(items: Sequence[Any], columns: Sequence[str] = SCORE) -> list[Record]:
    """Scores or differences of this version as records; their groups hold what JSON does."""
    return [{c: dict(item.group) if c == "group" else plain(getattr(item, c)) for c in columns} for item in items]


def leaves(value: Any, path: str = "", rename: Callable[[str], str] = str) -> Iterator[tuple[str, Any]]:
    """Numbers, texts and nulls of a nested JSON value, with where they stand."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}/{rename(str(key))}", rename)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{number}", rename)
    else:
        yield path, plain(value)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Copies of stored runs, under their own names."""

    def copy(*names: str) -> Path:
        folder = tmp_path_factory.mktemp("stored")
        for name in names:
            shutil.copytree(RUNS / name, folder / name)
        return folder / names[0]

    return copy


@pytest.fixture(autouse=True)
def _released_classifiers(request: pytest.FixtureRequest) -> None:
    """The released classifiers of presentation are scikit-learn's, which is an extra."""
    if "gender_presentation" in request.node.name:
        pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def scored(copied: Callable[..., Path]) -> Callable[[str], tuple[Path, list[Record]]]:
    """A copy of a stored run after ``verism.score``, made once, and the scores it returned."""
    done: dict[str, tuple[Path, list[Record]]] = {}

    def make(name: str) -> tuple[Path, list[Record]]:
        if name not in done:
            path = copied(name)
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(path)  # the published statistics of quality_statistics are named relative to their run
                done[name] = path, records_of(verism.score(verism.open_run(path)))
        return done[name]

    return make


def prompts_of(path: Path) -> int:
    """How many prompts a stored run has; where several share a context, which is then resampled, how many contexts."""
    facets = [json.loads(text) for text in pl.read_parquet(path / "prompts.parquet")["facets"].to_list()]
    contexts = {each.get("context") for each in facets}
    return len(facets) if None in contexts else len(contexts)


# --------------------------------------------------------------------------------------------------------------- tests
def test_widened_ends_of_few_prompts_may_move_outwards_and_no_others():
    old = {"metric": WIDENED[0], "ci_low": 0.4, "ci_high": 0.6, "n_used": 300}
    assert widened(old, "ci_low", 0.39, 12)
    assert widened(old, "ci_high", 0.61, FEW_CLUSTERS - 1)
    assert widened(old | {"n_used": 20}, "ci_low", 0.39, 400)  # a group of 20 images has no more prompts
    assert not widened(old, "ci_low", 0.41, 12)
    assert not widened(old, "ci_low", 0.39, FEW_CLUSTERS)
    assert not widened(old, "value", 0.39, 12)
    assert not widened(old | {"metric": "accuracy"}, "ci_low", 0.39, 12)


def test_mismatches_value_moved_record_gone_or_added_are_all_reported():
    old = stored_scores("quality")
    assert mismatches(old, stored_scores("quality")) == []
    new = stored_scores("quality")
    key = next(k for k, r in new.items() if r["metric"] == "density")
    new[key] = new[key] | {"value": new[key]["value"] * (1 + 1e-8)}
    assert [line.split(":")[0] for line in mismatches(old, new)] == ["moved"]
    record = new.pop(key)
    assert mismatches(old, new) == [f"gone: {key}"]
    more = old | by_key([record | {"metric": "realism"}])
    assert [line.split(":")[0] for line in mismatches(old, more)] == ["came in addition"]
    assert mismatches(old, more, added=frozenset({("quality", "realism")})) == []


@pytest.mark.parametrize("name", NAMES)
def test_open_run_stored_run_reads_prompts_verdicts_and_scores(name, copied):
    path = copied(name)
    run = verism.open_run(path)
    assert json.loads((path / "manifest.json").read_text(encoding="utf-8"))["schema_version"] == 1
    prompts = pl.read_parquet(path / "prompts.parquet")
    assert [p.text for p in run.prompts()] == prompts["text"].to_list()
    assert run.verdicts().height == pl.read_parquet(path / "verdicts.parquet").height
    values = [record["value"] for record in stored_scores(name).values()]
    assert [plain(score.value) for score in run.scores()] == values


@pytest.mark.parametrize("name", NAMES)
def test_score_stored_run_gives_the_stored_scores(name, scored):
    path, result = scored(name)
    assert mismatches(stored_scores(name), by_key(result), added=ADDED, prompts=prompts_of(path)) == []
    assert by_key(records_of(verism.open_run(path).scores())) == by_key(result)


@pytest.mark.parametrize("name", NAMES)
def test_score_stored_run_gives_the_stored_verdicts(name, scored):
    columns = ("image_id", "prompt_id", "protocol", "rule", "value")
    old = pl.read_parquet(RUNS / name / "verdicts.parquet").select(columns)
    path, _ = scored(name)
    new = verism.open_run(path).verdicts().select(columns)
    kept = old.with_columns(pl.col("rule").replace(RENAMED["rule"]), pl.col("protocol").replace(RENAMED["protocol"]))

    # Several verdicts of an image may differ in their detail alone, so that these are counted.
    def counted(table: pl.DataFrame) -> Counter[tuple[Any, ...]]:
        return Counter(table.with_columns(pl.col("value").round_sig_figs(9)).iter_rows())

    assert counted(new) == counted(kept)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_score_stored_run_in_another_way_gives_what_it_gave(name, variant, copied):
    path = copied(name)
    result = records_of(verism.score(path, **VARIANTS[name, variant]))
    assert mismatches(variant_scores(name, variant), by_key(result), added=ADDED, prompts=prompts_of(path)) == []
    if (EXPECTED / f"{name}.{variant}.adjustments.json").exists():
        columns, rows = expected_rows(f"{name}.{variant}.adjustments")
        names = ("metric", "protocol", "group", "adjusted")
        made = [{c: record[c] for c in columns} for record in verism.open_run(path).adjustments()]
        assert (
            mismatches(
                by_key([record_of(columns, row) for row in rows], names), by_key(made, names), prompts=prompts_of(path)
            )
            == []
        )


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_compare_stored_runs_gives_the_stored_differences_made_in_the_same_way(pair, copied):
    # Then, only PaintSkills was paired image by image, and its mean took in the optional skill. What is paired now, and
    # that mean, are other numbers by intention; all that is still made in the same way must not move.
    columns, rows = expected_rows(f"{pair[0]}.comparison")
    names = KEY[1:]
    path = copied(*pair)
    result = by_key(records_of(verism.compare(path, path.parent / pair[1], all_protocols=True), columns), names)
    stored = by_key([record_of(columns, row) for row in rows], names)
    same = {
        key: value
        for key, value in stored.items()
        if key in result and result[key]["method"] == value["method"] and value["metric"] != "mean_accuracy"
    }
    assert len(same) >= 10
    # Holm's correction runs over the groups that are compared unasked, which are fewer now.
    # An interval that left 0 out, although the test did not exclude it, reaches 0 now.
    for value in same.values():
        if value["method"] == "paired" and value["p_value"] >= 0.05:
            value |= {"ci_low": min(value["ci_low"], 0.0), "ci_high": max(value["ci_high"], 0.0)}
    uncorrected = {key: {k: v for k, v in value.items() if k != "p_holm"} for key, value in same.items()}
    assert mismatches(uncorrected, {key: result[key] for key in same}, prompts=prompts_of(path)) == []
    paired = {value["metric"] for value in result.values() if value["method"] == "paired"}
    assert paired, "a suite that decides image by image is compared image by image"


@pytest.mark.parametrize("name", RATED)
def test_agreement_of_stored_ratings_stays(name, copied):
    done = command("agreement", copied(name), "--resamples", 50, "--json")
    assert done.exit_code == 0, done.stderr
    (stored,) = json.loads((EXPECTED / f"{name}.agreement.json").read_text(encoding="utf-8"))
    old = dict(leaves(stored, rename=lambda key: str(renamed("agreement", key))))
    new = dict(leaves(json.loads(done.stdout)))
    assert old.keys() <= new.keys()
    few = prompts_of(RUNS / name) < FEW_CLUSTERS
    moved = {
        path: (value, new[path])
        for path, value in old.items()
        if not isinstance(value, str)  # texts may be put in better words
        and not alike(value, new[path], RELATIVE)
        and not (path.endswith(("/low", "/high")) and tied(value, new[path]))
        and not (few and path.endswith(MEAN_ENDS) and outwards(path, value, new[path]))
    }
    assert moved == {}


@pytest.mark.parametrize("name", NAMES)
def test_report_stored_run_is_written(name, scored, monkeypatch):
    path, _ = scored(name)
    monkeypatch.chdir(path)
    done = command("report", path)
    assert done.exit_code == 0, done.stderr
    page = (path / "report" / "index.html").read_text(encoding="utf-8")
    assert name.removesuffix("_b") in page
    assert "</html>" in page
