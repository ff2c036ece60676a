"""The suite ``shapes``: rectangles on white, asked for one by one, by number, by colour and by position."""

from collections.abc import Sequence
from itertools import combinations, product

import polars as pl

from verism.records import DetectionNeed, Need, Observed, Prompt
from verism.report_kit.evidence import Evidence
from verism.report_kit.generic import generic_sections
from verism.report_kit.section import Section, table_section
from verism.specs import SHARE, Layout, MetricSpec, Option, Pairing, Rule, SuiteInfo
from verism.suites.base import JUDGE_ERROR_METRICS, LIMIT, SEED, Suite
from verism.suites.verdict_table import VerdictRows, shown_images

SHAPES, COLOURS = ("square", "bar"), ("red", "green", "blue", "orange", "purple")
TASKS = ("single", "counting", "colour", "position")


def every_prompt() -> list[Prompt]:
    """40 prompts; ``spec`` says which shapes in which colours must be seen, from left to right."""
    asked = [("single", f"a {c} {s}", [(s, c)]) for s, c in product(SHAPES, COLOURS)]
    asked += [("counting", f"{n} {c} squares", [("square", c)] * n) for n, c in product((2, 3), COLOURS)]
    asked += [("colour", f"a shape in {c}, a {s}", [(s, c)]) for s, c in product(SHAPES, COLOURS)]
    asked += [("position", f"{a} bar left of {b} bar", [("bar", a), ("bar", b)]) for a, b in combinations(COLOURS, 2)]
    return [
        Prompt(prompt_id=f"{task}_{n:02d}", suite="shapes", text=text, facets={"task": task}, spec={"shapes": shapes})
        for n, (task, text, shapes) in enumerate(asked)
    ]


class Shapes(Suite):
    info = SuiteInfo(
        name="shapes", title="Shapes", question="Does a model draw simple shapes as it is asked to?",
        summary="one shape, counting, colour, position: 40 prompts", protocols={"revised": "Every shape must fit."},
        limits=("Rectangles on white say little about photographs.",),
    )  # fmt: skip
    judge_roles = ("detector",)
    options = (Option("tasks", str, many=True, choices=TASKS, flag="--task", help="Only this task."), LIMIT, SEED)
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

    def __init__(self, *, tasks: Sequence[str] = TASKS, limit: int | None = None, seed: int = 0) -> None:  # noqa: ARG002
        prompts = [p for p in every_prompt() if p.facets["task"] in tasks]
        self.asked = prompts[:: -(-len(prompts) // (limit or len(prompts)))]

    def prompts(self) -> Sequence[Prompt]:
        return self.asked

    def needs(self) -> Sequence[Need]:
        return (DetectionNeed(classes=SHAPES, colors=COLOURS),)

    def verdicts(self, observed: Observed) -> pl.DataFrame:
        result, rows = observed.observations["detections"].sort("x0"), VerdictRows()
        boxes = result.filter(pl.col("score") > self.rule("threshold"))
        for image in shown_images(observed, judged=set(result["image_id"])):
            seen = boxes.filter(image_id=image.image_id).select("label", "color").rows()
            wanted = [tuple(shape) for shape in image.prompt.spec["shapes"]]
            reason = image.problem or f"asked for {wanted}, detected {seen}"
            rows.add(image, "revised", "right", None if image.problem else float(seen == wanted), reason)
        return rows.table()

    def sections(self, evidence: Evidence) -> Sequence[Section]:
        texts = [[name, str(len(run.prompts()))] for name, run in zip(evidence.names, evidence.runs)]
        return [*generic_sections(evidence), table_section("Prompts asked", ["run", "prompts"], texts)]
