"""Published tables of preference scores held against each other: what totals are made of, and quoted figures."""

from __future__ import annotations

from decimal import Decimal

from verism.published import Check, Known, Verdict, Writer, half_unit, read_published

__all__ = ["preference"]

STYLES = ("animation", "concept_art", "painting", "photo")
ROW = ("model", "source", "all")  # columns of the table of HPSv3 that are no category
BENCHMARK, ACCURACY, RESULTS = "benchmark", "accuracy", "results"
UNKNOWN_WEIGHTS = (
    "the released code takes the unweighted mean of the categories, which the printed overall score is not: another "
    "weighting, or a misprint"
)
# As the unweighted mean of the printed categories has it, of those whose printed overall score differs.
OTHER_OVERALL = {
    "Z-Image-Turbo": "8.438",
    "FLUX.2-dev": "9.347",
    "Seedream 4.0": "9.378",
    "Qwen-Image": "9.998",
    "GPT Image 2": "10.253",
    "HiDream-O1-Image": "10.424",
    "HiDream-O1-Image-Pro": "10.511",
    "Kolors": "10.562",
    "FLUX.1-dev": "10.483",
    "Playground-v2.5": "10.288",
    "Infinity": "10.152",
    "CogView4": "9.668",
    "PixArt-Sigma": "9.359",
    "SDXL": "8.222",
    "SD3-Medium": "5.376",
}
SHARED = {"imagereward_test_pct": "ImageReward's test", "hpdv2_test_pct": "HPDv2's test"}
IMAGES = "needs the images and the scorer"


def preference() -> list[Check]:
    """HPSv2 (arXiv:2306.09341), HPSv3 (arXiv:2508.03789), ImageReward, PickScore: totals of rows, quoted accuracies."""
    second, third, reward, pick = Writer("HPSv2"), Writer("HPSv3"), Writer("ImageReward"), Writer("PickScore")
    _styles(second)
    _overall(third)
    _accuracies(second, third)
    _data(reward, pick)
    return [*second.checks, *third.checks, *reward.checks, *pick.checks]


def _styles(writer: Writer) -> None:
    rows = read_published("preference", "hpsv2_benchmark")
    for row in rows:
        mean = sum(Decimal(row[style]) for style in STYLES) / len(STYLES)
        slack = half_unit(row["averaged"])
        what = f"{row['hps_version']}, mean of the four styles, {row['model']}"
        writer.number(BENCHMARK, what, row["averaged"], float(mean), slack=slack)
    by = {(row["hps_version"], row["model"]): float(row["averaged"]) for row in rows}
    models = [model for version, model in by if version == "v2.0"]
    writer.holds(
        BENCHMARK, "both versions score the same models", set(models) == {m for version, m in by if version == "v2.1"}
    )
    moved = [abs(by["v2.0", model] - by["v2.1", model]) for model in models]
    writer.holds(
        BENCHMARK,
        "versions are two scales: a model moves by up to 9.0 points between them, more than any two of v2.0 differ",
        9.0 < max(moved) < 9.1 and max(moved) > max(by["v2.0", m] for m in models) - min(by["v2.0", m] for m in models),
    )
    best = {
        version: max((score, model) for (of, model), score in by.items() if of == version)[1]
        for version in ("v2.0", "v2.1")
    }
    writer.words(
        BENCHMARK,
        "best model of v2.0, by v2.1",
        best["v2.0"],
        best["v2.1"],
        known=Known(value="SDXL Refiner 0.9", why="the versions prefer other models", verdict=Verdict.DEFINITION),
    )
    writer.impossible(BENCHMARK, "the scores themselves", "", IMAGES)


def _overall(writer: Writer) -> None:
    rows = read_published("preference", "hpsv3_results")
    for row in rows:
        categories = [name for name in row if name not in ROW]
        mean = sum(Decimal(row[name]) for name in categories) / len(categories)
        other = OTHER_OVERALL.get(row["model"])
        known = None if other is None else Known(value=other, why=UNKNOWN_WEIGHTS)
        writer.number(RESULTS, f"overall as the mean of {len(categories)} categories, {row['model']}", row["all"],
                      float(mean), known=known)  # fmt: skip
        lowest, highest = min(float(row[name]) for name in categories), max(float(row[name]) for name in categories)
        writer.holds(
            RESULTS,
            f"overall lies between the lowest and the highest category, {row['model']}",
            lowest <= float(row["all"]) <= highest,
        )
    writer.impossible(RESULTS, "the scores themselves", "", IMAGES)


def _accuracies(second: Writer, third: Writer) -> None:
    early = {row["judge"]: row for row in read_published("preference", "hpsv2_preference_accuracy")}
    late = {
        row["judge"].replace("HPS v3", "HPSv3"): row
        for row in read_published("preference", "hpsv3_preference_accuracy")
    }
    for judge, row in late.items():
        for column, where in SHARED.items():
            if judge not in early:
                continue
            printed, quoted = early[judge][column], row[column]
            known = None
            if printed != quoted:
                known = Known(
                    value=quoted, why=f"HPSv2's README has {printed}, HPSv3's {quoted}; which is right is not known"
                )
            third.words(ACCURACY, f"accuracy of {judge} on {where}, as HPSv2 prints it", printed, quoted, known=known)
    single = early["single human"]
    for column in SHARED:
        best = max((judge for judge in early if judge != "single human"), key=lambda judge: float(early[judge][column]))
        second.holds(
            ACCURACY, f"on {SHARED[column]} HPS v2.1 is the best and agrees with choices more than one person does",
            best == "HPS v2.1" and float(early[best][column]) > float(single[column]),
        )  # fmt: skip
    best = max(late, key=lambda judge: float(late[judge]["pickapic_test_pct"]))
    third.holds(ACCURACY, "on Pick-a-Pic's test HPSv3 is the best", best == "HPSv3")
    third.impossible(ACCURACY, "the accuracies themselves", "", IMAGES)


def _data(reward: Writer, pick: Writer) -> None:
    reward.number("test.json", "pairs counted: 7,230 less the 831 that people tie", "6399", 7230 - 831)
    reward.impossible(
        "test.json", "466 prompts, 2,720 images, 7,230 pairs", "7230",
        "verism preference choices counts them in your copy; it is not bundled",
    )  # fmt: skip
    reward.impossible("README", "scores of four example images", "0.58, 0.27, -1.41, -2.03", IMAGES)
    early = next(r for r in read_published("preference", "hpsv3_preference_accuracy") if r["judge"] == "PickScore")
    pick.number(
        "abstract", "accuracy on Pick-a-Pic's test, as HPSv3 quotes it", "70.5", float(early["pickapic_test_pct"])
    )
    pick.words(
        "abstract", "accuracy on Pick-a-Pic's test in the first version of the abstract", "70.2", "70.5",
        known=Known(value="70.5", why="the text and the table have 70.5"),
    )  # fmt: skip
    pick.impossible("Table 1", "accuracy on Pick-a-Pic's test", "70.5", IMAGES)
