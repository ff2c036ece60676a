"""GenAI-Bench and VQAScore (arXiv:2406.13743, arXiv:2404.01291): people's means recomputed, tables held to each other.

The recomputed means are of the released ratings; ``verism genai ratings`` works them out from the user's own copy.
"""

from __future__ import annotations

from verism.published import Check, Known, Verdict, Writer, half_unit, read_published
from verism.suites.genai_bench.benchmark import MODELS, N_PROMPTS, SKILLS, UNTAGGED

__all__ = ["genai"]

TABLE_MODELS, TABLE_AGREEMENT, TABLE_OTHERS, TABLE_RANK = "models by skill", "Table 2", "Table 8", "Table 3"
SKILL_TABLE = "Table 7"
ROUNDED_TWICE = "rounded to two places first, and then to one"
FLOAT_NOISE = 1e-9  # 2.55 is a little less in binary
WITHOUT_SCORES = "needs the images and the judge"


def genai() -> list[Check]:
    """GenAI-Bench (arXiv:2406.13743), VQAScore (arXiv:2404.01291): people's means, misprints, best of nine."""
    bench, score, data = Writer("GenAI-Bench"), Writer("VQAScore"), Writer("GenAI-Bench data", place=1)
    _people(bench)
    _ranks(bench)
    _agreement(bench, score)
    _counts(data)
    return [*bench.checks, *score.checks, *data.checks]


def _people(writer: Writer) -> None:
    rows = read_published("genai", "models_by_skill")
    for row in rows:
        what = f"people's mean, {row['model']}, {row['skill']}"
        printed, ours = row["human_printed"], row["human_recomputed"]
        known = None
        if abs(float(printed) - float(ours)) > half_unit(printed) + half_unit(ours):
            known = Known(value=ours, why=ROUNDED_TWICE, verdict=Verdict.ROUNDING)
        writer.number(TABLE_MODELS, what, printed, float(ours), known=known, slack=half_unit(ours))
        if known is not None:
            twice = f"{float(f'{float(ours):.2f}') + FLOAT_NOISE:.1f}"
            writer.holds(TABLE_MODELS, f"{what}: two roundings give the printed figure", twice == printed)
    counts = {row["skill"]: int(row["n_prompts"]) for row in read_published("genai", "skill_counts")}
    overall = {row["model"]: row for row in read_published("genai", "overall")}
    for model in MODELS.values():
        of_level = {row["skill"]: row for row in rows if row["model"] == model and row["skill"] in SKILLS}
        for column in ("vqascore_clip_flant5_xxl", "vqascore_gpt4o"):
            total = sum(counts[level] * float(row[column]) for level, row in of_level.items())
            slack = max(half_unit(row[column]) for row in of_level.values()) + len(UNTAGGED) / N_PROMPTS
            writer.number(
                TABLE_MODELS,
                f"overall {column} as the mean of both levels by prompts, {model}",
                overall[model][column],
                total / sum(counts[level] for level in of_level),
                slack=slack,
            )
    dalle = overall["DALL-E 3"]
    released, valid = dalle["human_mean_1600_as_released"], dalle["human_mean_1600_values_in_1_to_5"]
    known = Known(value=valid, why="00231 is rated 5, 41, 4: one rating is off the scale", verdict=Verdict.FAULT)
    writer.number("ratings", "people's mean of DALL-E 3, all 1,600 prompts", released, float(valid), known=known)
    floyd = overall["DeepFloyd-IF"]
    released, valid = floyd["human_mean_1600_as_released"], floyd["human_mean_1600_values_in_1_to_5"]
    known = Known(value=valid, why="00252 is rated 3, 3, 33: one rating is off the scale", verdict=Verdict.FAULT)
    writer.number("ratings", "people's mean of DeepFloyd-IF, all 1,600 prompts", released, float(valid), known=known)
    by_people = sorted(overall, key=lambda name: float(overall[name]["human_mean_1600_values_in_1_to_5"]))
    for column in ("vqascore_clip_flant5_xxl", "vqascore_gpt4o"):
        best = max(overall, key=lambda name: float(overall[name][column]))
        writer.holds(TABLE_MODELS, f"{column} and people agree on the best model", best == by_people[-1])
    negation = [float(r["vqascore_clip_flant5_xxl"]) for r in rows if r["skill"] == "negation"]
    writer.holds(
        TABLE_MODELS, "on negation VQAScore does not tell the models apart (0.48 to 0.52)",
        0.48 <= min(negation) <= max(negation) <= 0.52,
    )  # fmt: skip


def _ranks(writer: Writer) -> None:
    rows = read_published("genai", "rank")
    for generator in dict.fromkeys(row["generator"] for row in rows):
        by = {row["ranked_by"]: row for row in rows if row["generator"] == generator}
        for column in ("overall_of_3", "overall_of_9"):
            metrics = [float(row[column]) for name, row in by.items() if name not in ("random", "human oracle")]
            writer.holds(
                TABLE_RANK, f"no metric's pick beats the oracle's, {generator}, {column}",
                max(metrics) <= float(by["human oracle"][column]),
            )  # fmt: skip
            best = max(by, key=lambda name: float(by[name][column]) if name != "human oracle" else 0.0)
            writer.holds(TABLE_RANK, f"VQAScore's pick is the best of all metrics', {generator}, {column}",
                         best == "VQAScore")  # fmt: skip
        for columns in (("basic_of_3", "basic_of_9"), ("advanced_of_3", "advanced_of_9"),
                        ("overall_of_3", "overall_of_9")):  # fmt: skip
            writer.holds(TABLE_RANK, f"a random pick is the same of 3 and of 9, {generator}, {columns[0]}",
                         by["random"][columns[0]] == by["random"][columns[1]])  # fmt: skip
        clip = by["CLIPScore"]
        writer.holds(
            TABLE_RANK, f"CLIPScore's pick of 9 gains at most 0.07 over a random image, {generator}",
            float(clip["overall_of_9"]) - float(by["random"]["overall_of_9"]) <= 0.07 + 1e-9,
        )  # fmt: skip


def _agreement(bench: Writer, score: Writer) -> None:
    table = {row["metric"]: row for row in read_published("genai", "metric_agreement")}
    others = {row["metric"]: row for row in read_published("genai", "other_benchmarks")}
    for name in ("PickScore", "ImageReward", "HPSv2", "VQAScore CLIP-FlanT5"):
        printed, other = others[name]["genaibench_pairwise"], table[name]["pairwise_acc_tie_calibrated_pct"]
        known = None
        if printed != other:
            known = Known(
                value=other, why="the same measure of the same metric on the same data in Table 2 of the other paper"
            )
        score.number(TABLE_OTHERS, f"pairwise accuracy on GenAI-Bench, {name}", printed, float(other), known=known)
    for name, row in table.items():
        bench.impossible(
            TABLE_AGREEMENT, f"pairwise accuracy, {name}", row["pairwise_acc_tie_calibrated_pct"], WITHOUT_SCORES
        )
    rows = {row["metric"]: row for row in read_published("genai", "metric_agreement_by_skill")}
    basic, advanced = (
        ("attribute", "scene", "spatial", "action", "part"),
        ("count", "differ", "compare", "negate", "universal"),
    )
    for name, row in rows.items():
        repeated = sorted(row[c] for c in (*basic, "basic")) == sorted(row[c] for c in (*advanced, "advanced"))
        suspected = "misprint" in row["note"]
        bench.holds(
            SKILL_TABLE,
            f"the advanced row {'repeats' if suspected else 'does not repeat'} the basic one, {name}",
            repeated == suspected,
        )


def _counts(writer: Writer) -> None:
    counted = {row["skill"]: int(row["n_prompts"]) for row in read_published("genai", "skill_counts")}
    for level, skills in SKILLS.items():
        for name, n in skills.items():
            writer.number("skills", f"prompts of the skill {name} ({level})", str(counted[name]), n)
    tags = sum(n for skills in SKILLS.values() for n in skills.values())
    known = Known(value=str(tags), why="the released file of skills has fewer tags than the text says")
    writer.number("text", "tags of all prompts (more than)", "5000", tags, known=known)
    writer.number("skills", "prompts without a skill", str(counted["(no tag)"]), len(UNTAGGED))
    both = counted["basic"] + counted["advanced"] + len(UNTAGGED)
    writer.number("skills", "prompts of both levels and of none", str(N_PROMPTS), both)
