"""PaintSkills as questions to people, and its accuracies as what they are made of.

People are asked what they see and not whether it is right, as in the human evaluation of DALL-Eval v1 (section 5.3 of
arXiv:2202.04053): they pick the object, the number, the colour or the relation from a list, without being shown the
prompt. Their answer is then held against the prompt. The wording is ours.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from verism.records import Estimand, EstimandPart, Prompt, RatingTask, Score
from verism.suites.paintskills.skills.spatial import OPPOSITE
from verism.suites.paintskills.vocabulary import COLORS, RELATIONS

if TYPE_CHECKING:
    import polars as pl

__all__ = ["accuracy_estimands", "rated_class", "rating_tasks"]

RIGHT, WRONG = "right", "wrong"
NONE = "none of these"
MOST = 8  # objects that are counted; more than twice what any prompt asks for


def rating_tasks(skills: Collection[str], labels: Sequence[str]) -> list[RatingTask]:
    """What people are asked about images of these skills.

    Args:
        skills: names of the skills to ask about.
        labels: the classes to choose from.
    """
    numbers = (*map(str, range(MOST)), f"{MOST} or more")
    asked = {
        "object": RatingTask(
            name="object",
            question="Which of these objects does the picture show?",
            kind="list",
            options=(*labels, NONE),
            help="If there are several, choose the one that strikes you most. Choose “none of these” if you see none.",
        ),
        "count": RatingTask(
            name="count",
            question="How many of this does the picture show: {object}?",
            kind="choice",
            options=numbers,
            help="Count every one that you can recognise, also if it is partly hidden.",
        ),
        "color": RatingTask(
            name="color",
            question="Which colour has this object in the picture: {object}?",
            kind="choice",
            options=(*COLORS, "another colour", "it is not there"),
        ),
        "spatial": RatingTask(
            name="spatial",
            question="Where do you see this: {object_b}, as seen from this: {object}?",
            kind="choice",
            options=(*RELATIONS, NONE, "not both are there"),
            help="Go by the picture and not by the object's own left and right. The clearest relation counts.",
        ),
    }
    return [
        replace(task, rule="accuracy", key={"skill": name}, only={"skill": (name,)})
        for name, task in asked.items()
        if name in skills
    ]


def rated_class(task: RatingTask, prompt: Prompt, answer: str) -> str:
    """Whether what people see is what the prompt asks for: ``right`` or ``wrong``; other tasks' answers as they are.

    Of two objects of one class either may be the one that is asked about, so that the opposite relation is right, too,
    as it is for the detector.

    Args:
        task: what was asked.
        prompt: of the image.
        answer: one of the task's options.
    """
    skill = task.key.get("skill")
    if task.rule != "accuracy" or skill is None:
        return answer
    wanted = {
        "object": prompt.spec["labels"][0],
        "count": str(len(prompt.spec["labels"])),
        "color": prompt.spec["color"],
        "spatial": prompt.spec["relation"],
    }[str(skill)]
    if str(skill) == "spatial" and prompt.spec["labels"][0] == prompt.spec["labels"][1]:
        # Nobody can tell two of one kind apart: seen from either, the other lies the opposite way.
        return RIGHT if answer in (wanted, OPPOSITE[wanted]) else WRONG
    return RIGHT if answer == wanted else WRONG


def accuracy_estimands(
    scores: Sequence[Score], prompts: Mapping[str, Prompt], verdicts: pl.DataFrame, mean_of: Sequence[str]
) -> list[Estimand]:
    """The accuracies of single skills and their mean, with the images behind them.

    Args:
        scores: of the suite.
        prompts: of the run, by prompt id.
        verdicts: table ``verdicts`` of the suite.
        mean_of: skills that the mean accuracy is computed over.
    """
    import polars as pl

    used = verdicts.filter((pl.col("rule") == "accuracy") & pl.col("value").is_not_null()).sort("image_id")
    skill_of = {prompt_id: str(p.facets["skill"]) for prompt_id, p in prompts.items()}
    parts: dict[tuple[str, str], EstimandPart] = {}
    for (protocol, skill), rows in used.with_columns(
        pl.col("prompt_id").replace_strict(skill_of, return_dtype=pl.String).alias("skill")
    ).group_by("protocol", "skill", maintain_order=True):
        parts[str(protocol), str(skill)] = EstimandPart(
            coefficient=1.0,
            image_ids=tuple(rows["image_id"]),
            clusters=tuple(rows["prompt_id"]),
            predicted=tuple(RIGHT if value == 1 else WRONG for value in rows["value"]),
            weights=(1 / rows.height,) * rows.height,
            key={"skill": str(skill)},
        )
    made = []
    for score in scores:
        if score.metric == "accuracy" and list(score.group) == ["skill"]:
            subset = [parts[key] for key in [(score.protocol, str(score.group["skill"]))] if key in parts]
        elif score.metric == "mean_accuracy" and not math.isnan(score.value):
            of_protocol = [
                part for (protocol, skill), part in parts.items() if protocol == score.protocol and skill in mean_of
            ]
            subset = [replace(part, coefficient=1 / len(mean_of)) for part in of_protocol]
        else:
            continue
        if subset:
            worth = {RIGHT: 1.0, WRONG: 0.0}
            made.append(Estimand(score=score, rule="accuracy", role="detector", worth=worth, parts=tuple(subset)))
    return made
