"""PaintSkills as questions to people.

People are asked what they see and not whether it is right, as in the human evaluation of DALL-Eval v1 (section 5.3 of
arXiv:2202.04053): they pick the object, the number, the colour or the relation from a list, without being shown the
prompt. Their answer is then held against the prompt. The wording is ours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from verism.records import Prompt, RatingTask
from verism.suites.paintskills.skills.spatial import OPPOSITE
from verism.suites.paintskills.vocabulary import COLORS, RELATIONS
from verism.suites.right_or_wrong import RIGHT, WRONG

__all__ = ["rated_class", "rating_tasks"]

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
