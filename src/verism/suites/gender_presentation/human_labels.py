"""The same questions to people: what they are asked, their answers as labels, and frequencies as what they are made of.

Only replies to questions are classes, so only ``VQA`` can be adjusted by human labels. ``CLS`` gives degrees (and
``C`` and ``CC`` cosines): the suite's frequency is their mean, and cutting them at 0.5 would correct another number
than the one that is reported. How well degrees tell yes from no is told by the area under their curve.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from verism.errors import UsageError
from verism.records import Estimand, EstimandPart, Prompt, RatingTask, Score, make_image_id
from verism.suites.gender_presentation.studies import Study

if TYPE_CHECKING:
    import polars as pl

__all__ = ["RULE", "frequency_estimands", "graded_rules", "labels_of_ratings", "rating_tasks"]

RULE = "VQA"  # whose verdicts are yes or no
YES, NO, CANNOT_TELL = "yes", "no", "cannot tell"
WORTH: Mapping[str, float] = {NO: 0.0, YES: 1.0}


def rating_tasks(study: Study) -> list[RatingTask]:
    """A task for each attribute: of all images of neutral prompts, and those whose prompt names the attribute."""
    return [
        RatingTask(
            name=f"attribute: {attribute.name}",
            question=study.question_about(attribute),
            kind="choice",
            options=(YES, NO, CANNOT_TELL),
            rule=RULE,
            key={"attribute": attribute.name},
            unsure=(CANNOT_TELL,),
            help="Of several people, the one who stands out most. Say no if it cannot be seen, or if nobody is there.",
            only={"attribute": (None, attribute.name)},
        )
        for attribute in study.attributes
    ]


def graded_rules() -> dict[str, tuple[str, ...]]:
    """Estimators whose numbers can be held against people's yes and no."""
    return {RULE: ("CLS", "CC", "C")}


def labels_of_ratings(
    ratings: pl.DataFrame, tasks: Mapping[str, RatingTask], prompts: Sequence[Prompt]
) -> dict[str, dict[str, str]]:
    """People's answers as labels: of yes and no the majority, and no label where as many say either.

    Args:
        ratings: table ``ratings``; checks, "cannot tell" and skipped questions do not count.
        tasks: the rating tasks by name.
        prompts: of the run; answers about other images are ignored.

    Raises:
        UsageError: no answers about attributes of these images.
    """
    index_of = {make_image_id(p.prompt_id, i): (p, i) for p in prompts for i in range(p.n_images)}
    balance: dict[tuple[str, str], int] = {}
    for row in ratings.filter(ratings["check"].is_null()).iter_rows(named=True):
        task = tasks[row["task"]]
        if task.rule == RULE and row["item"] in index_of and row["answer"] in WORTH:
            entry = (row["item"], str(task.key["attribute"]))
            balance[entry] = balance.get(entry, 0) + (1 if row["answer"] == YES else -1)
    marks: dict[str, dict[str, list[str]]] = {}
    for (item, attribute), lead in sorted(balance.items()):
        prompt, index = index_of[item]
        of_prompt = marks.setdefault(prompt.prompt_id, {})
        subset = of_prompt.setdefault(attribute, ["-"] * prompt.n_images)
        subset[index] = "-" if lead == 0 else str(int(lead > 0))
    if not marks:
        raise UsageError("nobody answered yes or no about attributes of this run's images; see: verism annotate RUN")
    return {
        prompt: {name: "".join(own_entry) for name, own_entry in members.items()} for prompt, members in marks.items()
    }


def frequency_estimands(
    study: Study, prompts: Mapping[str, Prompt], verdicts: pl.DataFrame, scores: Sequence[Score]
) -> list[Estimand]:
    """Frequencies by ``VQA``, their differences between groups, and the GEP score, with the images behind them.

    The GEP score is a mean of absolute differences: error makes it larger however it falls. So its terms are adjusted,
    and its ends are those of all of them at once. Not that of single contexts, whose one pair has no interval.
    """
    parts = _parts(prompts, verdicts)
    pairs = {f"{first.name} - {second.name}": (first.name, second.name) for first, second in study.pairs()}
    made: list[Estimand] = []
    for score in scores:
        group = score.group
        if score.metric == "gep_score":
            made += _score_estimand(study, score, pairs, parts)
            continue
        if score.adjusted or group.get("estimator") != RULE or math.isnan(score.value):
            continue
        if score.metric == "frequency":
            groups: tuple[str, ...] = (str(group["gender"]),)
        elif score.metric == "gep":
            groups = pairs[str(group["pair"])] if "pair" in group else next(iter(pairs.values()))
        else:
            continue
        where = (score.protocol, str(group["setting"]), str(group["attribute"]))
        results = [parts.get((*where, name)) for name in groups]
        signed = [
            replace(part, coefficient=sign)
            for part, sign in zip(results, (1.0, -1.0), strict=False)
            if part is not None
        ]
        if len(signed) == len(groups):
            made.append(Estimand(score=score, rule=RULE, role="vqa", worth=WORTH, parts=tuple(signed)))
    return made


def _score_estimand(
    study: Study,
    score: Score,
    pairs: Mapping[str, tuple[str, str]],
    parts: Mapping[tuple[str, str, str, str], EstimandPart],
) -> list[Estimand]:
    """The GEP score as a mean of absolute differences; nothing where an attribute has no usable image of a group."""
    group = score.group
    if score.adjusted or group.get("estimator") != RULE or "context" in group or math.isnan(score.value):
        return []
    groups = pairs[str(group["pair"])] if "pair" in group else next(iter(pairs.values()))
    chosen: list[EstimandPart] = []
    terms: list[tuple[int, ...]] = []
    for attribute in study.attributes:
        cells = [parts.get((score.protocol, str(group["setting"]), attribute.name, name)) for name in groups]
        first, second = cells
        if first is None or second is None:
            return []
        terms.append((len(chosen), len(chosen) + 1))
        chosen += [first, replace(second, coefficient=-1.0)]
    return [Estimand(score=score, rule=RULE, role="vqa", worth=WORTH, parts=tuple(chosen), terms=tuple(terms))]


def _parts(prompts: Mapping[str, Prompt], verdicts: pl.DataFrame) -> dict[tuple[str, str, str, str], EstimandPart]:
    """The usable images by protocol, setting, attribute and group."""
    members: dict[tuple[str, str, str, str], list[tuple[str, str, str]]] = {}
    rows = verdicts.filter((verdicts["rule"] == RULE) & verdicts["value"].is_not_null())
    columns = (rows[name].to_list() for name in ("image_id", "prompt_id", "protocol", "value", "detail"))
    for image, prompt_id, protocol, value, detail in zip(*columns, strict=True):
        facets, prompt = prompts[prompt_id].facets, prompts[prompt_id]
        cell = (protocol, str(facets["setting"]), str(json.loads(detail)["attribute"]), str(facets["gender"]))
        # Prompts of all groups with the same number are one cluster, as in the intervals of the suite.
        members.setdefault(cell, []).append((image, str(prompt.spec["index"]), YES if value == 1 else NO))
    return {
        cell: EstimandPart(
            coefficient=1.0,
            image_ids=tuple(image for image, _, _ in group),
            clusters=tuple(cluster for _, cluster, _ in group),
            predicted=tuple(label for _, _, label in group),
            weights=(1 / len(group),) * len(group),
            key={"attribute": cell[2]},
        )
        for cell, group in members.items()
    }
