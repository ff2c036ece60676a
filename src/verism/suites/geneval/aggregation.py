"""From right and wrong images to the numbers that papers print, as the released summary computes them.

A task's score is the share of right images among those that are there; the overall score is the plain mean of the
scores of the tasks that are there. Images and tasks that are missing are not noticed: so it was released, and so
published numbers were made. What our own scores do instead is in ``scoring``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from verism.suites.geneval.vocabulary import TASKS

__all__ = ["Summary", "released_summary", "summary_of_counts"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the released summary prints.

    Attributes:
        tasks: share of right images by task, in released order.
        overall: plain mean of the tasks; NaN without any.
        correct_images: share of right images, whatever their task.
        correct_prompts: share of prompts with at least one right image; NaN where it is not known.
        n_images: number of images.
        n_prompts: number of prompts; 0 where it is not known.
    """

    tasks: Mapping[str, float]
    overall: float
    correct_images: float
    correct_prompts: float
    n_images: int
    n_prompts: int


def summary_of_counts(counts: Mapping[str, tuple[int, int]]) -> Summary:
    """The summary of numbers of right images and of images by task; tasks without images are left out.

    Args:
        counts: (right images, images) by task.
    """
    shares = {task: counts[task][0] / counts[task][1] for task in TASKS if counts.get(task, (0, 0))[1]}
    right, images = (sum(n[k] for n in counts.values()) for k in (0, 1))
    return Summary(
        tasks=shares,
        overall=sum(shares.values()) / len(shares) if shares else math.nan,
        correct_images=right / images if images else math.nan,
        correct_prompts=math.nan,
        n_images=images,
        n_prompts=0,
    )


def released_summary(images: Iterable[tuple[str, str, bool]]) -> Summary:
    """The summary of single images.

    Args:
        images: task, prompt (by whatever names it), and whether the image is right.
    """
    counts: dict[str, tuple[int, int]] = {}
    prompts: dict[str, bool] = {}
    for task, prompt, right in images:
        before = counts.get(task, (0, 0))
        counts[task] = (before[0] + right, before[1] + 1)
        prompts[prompt] = prompts.get(prompt, False) or right
    summary = summary_of_counts(counts)
    share = sum(prompts.values()) / len(prompts) if prompts else math.nan
    return Summary(
        tasks=summary.tasks,
        overall=summary.overall,
        correct_images=summary.correct_images,
        correct_prompts=share,
        n_images=summary.n_images,
        n_prompts=len(prompts),
    )
