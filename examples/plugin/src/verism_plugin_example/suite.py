"""The suite ``shapes``: rectangles on white, asked for one by one, by number, by colour and by position."""

from collections.abc import Sequence
from itertools import product
from typing import ClassVar

import polars as pl

from verism.records import DetectionNeed, Need, Observed, Prompt
from verism.report_kit.evidence import Evidence
from verism.report_kit.generic import generic_sections
from verism.report_kit.section import Section, table_section
from verism.suites.base import LIMIT, SEED, SHARE, JUDGE_ERROR_METRICS, Layout, MetricSpec, Option, Pairing, Rule, Suite
from verism.suites.base import SuiteInfo
from verism.suites.verdict_table import VerdictRows, shown_images

SHAPES, COLOURS, NUMBERS = ("square", "bar"), ("red", "green", "blue", "orange", "purple"), ("two", "three")
TASKS = ("single", "counting", "colour", "position")


def every_prompt() -> list[Prompt]:
    """40 prompts; ``spec`` says which shapes in which colours must be seen, from left to right."""
    asked = [("single", f"a {c} {s}", [(s, c)]) for s, c in product(SHAPES, COLOURS)]
    asked += [("counting", f"{n} {c} squares", [("square", c)] * (2 + k)) for (k, n), c in product(enumerate(NUMBERS), COLOURS)]
    asked += [("colour", f"a shape in {c}, a {s}", [(s, c)]) for s, c in product(SHAPES, COLOURS)]
    pairs = list(zip(COLOURS, COLOURS[1:] + COLOURS[:1]))
    asked += [("position", f"a {a} {s} left of a {b} {s}", [(s, a), (s, b)]) for s, (a, b) in product(SHAPES, pairs)]
    return [
        Prompt(prompt_id=f"{task}_{n:02d}", suite="shapes", text=text, facets={"task": task}, spec={"shapes": shapes})
        for n, (task, text, shapes) in enumerate(asked)
    ]


class Shapes(Suite):
    """Are simple shapes drawn as asked?"""

    info: ClassVar = SuiteInfo(
        name="shapes", title="Shapes", question="Does a model draw simple shapes as it is asked to?",
        summary="single object, counting, colour, position: 40 prompts", protocols={"corrected": "Every shape must fit."},
        limits=("Rectangles on white say little about photographs.",),
    )  # fmt: skip
    judge_roles = ("detector",)
    options = (Option("tasks", str, many=True, choices=TASKS, flag="--task", help="Only this task; several."), LIMIT, SEED)
    rules = (Rule("threshold", float, 0.5, low=0, high=1, calibrated_by="detector", help="Confidence of a shape."),)
    metrics = (
        MetricSpec("overall", title="overall", meaning="Mean over the tasks.", scale=SHARE, better="higher",
                   headline=True, source="mean of accuracy", compare="paired"),
        MetricSpec("accuracy", title="accuracy", meaning="Share of images with exactly the shapes asked for.",
                   scale=SHARE, better="higher", headline=True, source="rule right", compare="paired"),
        *JUDGE_ERROR_METRICS,
    )  # fmt: skip
    pairings = (Pairing(rule="right", metric="accuracy", facet="task", mean="overall", right_or_wrong=True),)
    layout = Layout(kind="columns", metric="accuracy", facet="task", mean="overall")

    def __init__(self, *, tasks: Sequence[str] = TASKS, limit: int | None = None, seed: int = 0) -> None:
        prompts = [p for p in every_prompt() if p.facets["task"] in tasks]
        self.asked = prompts[:: -(-len(prompts) // (limit or len(prompts)))]

    def prompts(self) -> Sequence[Prompt]:
        return self.asked

    def needs(self) -> Sequence[Need]:
        return (DetectionNeed(classes=SHAPES, colors=COLOURS),)

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        boxes = observed.observations["detections"].filter(pl.col("score") > self.rule("threshold")).sort("x0")
        rows = VerdictRows()
        for image in shown_images(observed, judged=set(observed.observations["detections"]["image_id"])):
            seen = list(boxes.filter(pl.col("image_id") == image.image_id).select("label", "color").iter_rows())
            wanted = [tuple(shape) for shape in image.prompt.spec["shapes"]]
            reason = image.problem or f"asked for {wanted}, detected {seen}"
            rows.add(image, "corrected", "right", None if image.problem else float(seen == wanted), reason)
        return rows.table()

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        texts = [[name, str(len(run.prompts()))] for name, run in zip(evidence.names, evidence.runs)]
        return [*generic_sections(evidence), table_section("Prompts asked", ["run", "prompts"], texts)]
