"""T2I-CompBench (Huang et al., arXiv:2307.06350): what can be worked out again of its tables, and where they disagree.

Scores need images and judges. Without them: how tables of one model agree with each other, means of seen and unseen
pairs, ceilings that follow from the released detector's labels, and which figures cannot both be right.
"""

from __future__ import annotations

from collections.abc import Mapping

from verism.published import Check, Known, Verdict, Writer, half_unit, read_published
from verism.suites.compbench.multimodal import BINDING_PERCENT, PERCENT
from verism.suites.compbench.prompts import COUNTS, RELATION_COUNTS, ROUTES, SEEN
from verism.suites.compbench.spatial import detector_name
from verism.suites.compbench.vocabulary import SPATIAL_OBJECTS, has_exact_label, labels_containing, unified_labels

__all__ = ["compbench"]

SAME = {  # rows of 2023 by their names, and the row of Table XIII that is of the same model
    "SD v1.4": "SD v1.4",
    "SD v2": "SD v2",
    "Composable v2": "Composable + SD v2",
    "Structured v2": "Structured + SD v2",
    "Attn-Exct v2": "Attend-and-Excite + SD v2",
    "GORS": "GORS + SD v2",
    "SDXL": "SDXL",
    "PixArt-alpha": "PixArt-alpha-ft",
}
COLUMNS = {
    "color_bvqa": "color_bvqa",
    "shape_bvqa": "shape_bvqa",
    "texture_bvqa": "texture_bvqa",
    "spatial_unidet": "spatial2d_unidet",
    "nonspatial_clip": "nonspatial_clip",
    "complex_3in1": "complex_3in1",
}
NP_NUM = "measured by others in 2023, when two noun phrases at most were asked about; since December 2023 eight are"
OTHER_RUN = "the same column of the same model moved as well, and nothing says why"
LATER = "the NeurIPS table has this, Table XIII another value of the same model; which is right is not known"
FT = "this row is the stock model's in one table and a finetuned one's in the other, digit for digit"
TWICE = "the same four digits stand for UniDet of spatial prompts; another note says 0.48"


def compbench() -> list[Check]:
    """T2I-CompBench (arXiv:2307.06350): tables against each other, seen and unseen pairs, ceilings, agreement."""
    plus, first, limits = (
        Writer("T2I-CompBench++"),
        Writer("T2I-CompBench", place=1),
        Writer("T2I-CompBench released files", place=2),
    )
    rows = {row["model"]: row for row in read_published("compbench", "table13")}
    _table13(plus, rows)
    _agreement(plus)
    _results_2023(first, rows)
    _seen_unseen(first, rows["GORS + SD v2"])
    _limits(limits)
    return [*plus.checks, *first.checks, *limits.checks]


def _table13(writer: Writer, rows: Mapping[str, Mapping[str, str]]) -> None:
    table = "Table XIII"
    cells = len(rows) * (len(next(iter(rows.values()))) - 2)
    writer.impossible(table, f"scores of {len(rows)} models ({cells})", "", "needs the images and the judges")
    cosines = [float(row["nonspatial_clip"]) for row in rows.values()]
    writer.number(table, "range of CLIPScore over twelve systems: lowest", "0.298", min(cosines))
    writer.number(table, "range of CLIPScore over twelve systems: highest", "0.320", max(cosines))
    best = max(float(row["spatial2d_unidet"]) for row in rows.values())
    ceiling = 1 - 100 / COUNTS["val"]
    writer.holds(table, f"no 2D score lies above the ceiling of the released labels, {ceiling:.3f}", best <= ceiling)
    chat = [float(row["nonspatial_share_cot"]) for row in rows.values()]
    apart = min(chat) > max(cosines) + 0.3
    writer.holds(table, "non-spatial by ShareGPT4V (0.69 to 0.79) is on another scale than by CLIP", apart)
    writer.impossible(table, "3-in-1 out of its parts", "", "its parts are of the complex prompts and printed nowhere")
    shares = sorted({*BINDING_PERCENT.values(), *PERCENT.values()})
    writer.words(table, "percentages of levels", "10 20 40 60 75 80 100", " ".join(f"{p:g}" for p in shares))
    writer.number("text", "images of a category that GPT-4V saw: 300 prompts x 2", "600", COUNTS["val"] * 2)


def _agreement(writer: Writer) -> None:
    rows = read_published("compbench", "human_agreement")
    for row in rows:
        what = f"Kendall tau, {row['category']}, {row['metric']}"
        writer.impossible("human study", what, row["kendall_tau"], "needs the ratings, which are in no repository")
    both = [(float(r["kendall_tau"]), float(r["spearman_rho"])) for r in rows if r["spearman_rho"]]
    writer.holds("human study", "rho lies above tau in every row that has both", all(rho > tau for tau, rho in both))
    unidet = next(r for r in rows if (r["category"], r["metric"]) == ("spatial", "UniDet rule"))
    gpt = next(r for r in rows if (r["category"], r["metric"]) == ("non_spatial", "GPT-4V"))
    known = Known(value="0.48", why=TWICE)
    if gpt["kendall_tau"] == unidet["kendall_tau"]:
        writer.number(
            "contradictions",
            "tau of GPT-4V, non-spatial, as the second note has it",
            gpt["kendall_tau"],
            0.48,
            known=known,
        )


def _results_2023(writer: Writer, rows: Mapping[str, Mapping[str, str]]) -> None:
    listed = read_published("compbench", "results_2023")
    for row in listed:
        name, version = row["model"], row["version"]
        if name not in SAME:
            writer.impossible("2023", f"{name} ({version})", "", "Table XIII has no row of this model")
            continue
        first_values = "first values" in version
        for column, later in COLUMNS.items():
            printed, value = row[column], rows[SAME[name]][later]
            known = None
            if printed != value:
                bound = column.partition("_")[0] in ("color", "shape", "texture", "complex")
                why = (NP_NUM if bound else OTHER_RUN) if first_values else LATER
                verdict = Verdict.DEFINITION if first_values and bound else Verdict.MISPRINT
                known = Known(value=value, why=why, verdict=verdict)
            what = f"{name}, {column} ({version}), in Table XIII"
            writer.number("2023", what, printed, float(value), known=known)
    alpha = next(row for row in listed if row["model"] == "PixArt-alpha" and "later" in row["version"])
    equal = all(alpha[column] == rows["PixArt-alpha-ft"][later] for column, later in COLUMNS.items())
    known_row = Known(value="identical", why=FT, verdict=Verdict.MISPRINT)
    compared = "identical" if equal else "other values"
    writer.words(
        "contradictions", "PixArt-alpha and PixArt-alpha-ft are two models", "other values", compared, known=known_row
    )
    for model in ("DALL-E 2",):
        values = [row for row in listed if row["model"] == model]
        for column in COLUMNS:
            printed, other = values[0][column], values[1][column]
            if printed == other:
                continue
            known = Known(
                value=other,
                why=NP_NUM if "bvqa" in column or "3in1" in column else OTHER_RUN,
                verdict=Verdict.DEFINITION,
            )
            writer.number(
                "contradictions", f"{model}, {column}: first and later values", printed, float(other), known=known
            )


def _seen_unseen(writer: Writer, gors: Mapping[str, str]) -> None:
    """Two thirds of the prompts are seen: the mean of both parts must be the score of the category."""
    share = SEEN / COUNTS["val"]
    for row in read_published("compbench", "seen_unseen"):
        printed = gors[f"{row['category']}_bvqa"]
        value = share * float(row["bvqa_seen"]) + (1 - share) * float(row["bvqa_unseen"])
        slack = half_unit(row["bvqa_seen"])
        what = f"GORS, {row['category']}: two thirds seen ({row['bvqa_seen']}), one third unseen ({row['bvqa_unseen']})"
        writer.number("Table 12", what, printed, value, slack=slack)


def _limits(writer: Writer) -> None:
    objects = read_published("compbench", "spatial_objects")
    writer.number("labels", "labels of the released detector", "722", len(unified_labels()))
    exact = sum(
        has_exact_label(detector_name(name)) == (row["exact_label_exists_2d"] == "yes")
        for name, row in zip(SPATIAL_OBJECTS, objects, strict=True)
    )
    writer.number("labels", "objects whose exact label is there or not, as listed", "50", exact)
    missing = [row for row in objects if not has_exact_label(detector_name(row["object"]))]
    unknown = {"bag", "computer", "cow", "mouse", "painting", "phone", "sofa", "table", "wallet"}
    nine = ", ".join(sorted(unknown))
    writer.holds("labels", f"without a label are {nine}", {row["object"] for row in missing} == unknown)
    mentions = sum(int(row["val_2d"]) for row in missing)
    known = {(row["category"], row["what"][:20]): row for row in read_published("compbench", "structure_limits")}
    never = int(known["spatial", "an object name is no"]["prompts"])
    holds = -(-mentions // 2) <= never <= mentions
    writer.holds("limits", f"{mentions} mentions of them are in {never} prompts of two objects", holds)
    writer.number("limits", "ceiling of the released 2D score", "0.667", 1 - never / COUNTS["val"])
    nowhere = [row for row in objects if not labels_containing(detector_name(row["object"]))]
    in_depth = sum(int(row["val_3d"]) for row in nowhere)
    printed = known["3d_spatial", "no label contains an"]["prompts"]
    writer.number("limits", "3D prompts with an object that no label contains", printed, in_depth)
    for category, counts in RELATION_COUNTS.items():
        writer.number("counts", f"prompts of {category} by relation add up", str(COUNTS["val"]), sum(counts.values()))
    for category in ("spatial", "3d_spatial"):
        rows = [r for r in read_published("compbench", "relations") if r["category"] == category]
        total = sum(int(r["train_prompts"]) for r in rows)
        train = str(COUNTS["train"])
        if str(total) == train:
            writer.number("counts", f"training prompts of {category} by relation add up", train, total)
        else:
            why = f"{COUNTS['train'] - total} training prompts have none of the relations"
            total_known = Known(value=str(total), why=why, verdict=Verdict.DEFINITION)
            writer.number(
                "counts", f"training prompts of {category} by relation add up", train, total, known=total_known
            )
    writer.number("counts", "complex prompts by list add up", str(COUNTS["val"]), sum(ROUTES.values()))
    scored = known["complex", "scored by the spatia"]["prompts"]
    writer.number("counts", "complex prompts with a relation in the image", scored, ROUTES["spatial"] + ROUTES["both"])
    for category in ("color", "shape", "texture", "complex"):
        writer.impossible(
            "counts",
            f"{category}: prompts of more than two noun phrases",
            known[category, "noun chunks above 2 "]["prompts"] if (category, "noun chunks above 2 ") in known else "",
            "needs the released prompts and a parser: verism compbench structure DIR --parser spacy:en_core_web_sm",
        )
