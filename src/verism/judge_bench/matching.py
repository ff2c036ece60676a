"""Judges without rules of a suite, held against rendered scenes by prompts: the right one, and a planted wrong one.

An image shows the scene of its prompt. Beside the prompt stands another of the same suite and form (as many words, as
few of them changed as possible) that is wrong for this image: the suite's own rules, applied to the ground truth, say
so. A judge that embeds prefers the prompt whose vector lies nearer; one that answers is asked about each; a caption
belongs to the prompt with which it shares more words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.judge_bench.items import BenchItem
from verism.records import (
    AnswerNeed,
    CaptionNeed,
    EmbeddingNeed,
    Need,
    Observed,
    Prompt,
    Question,
    vectors_of,
)
from verism.specs import Pairing
from verism.store import TRUTH, Run
from verism.suites.base import Suite

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Match", "matching_items", "matching_need", "nearest_prompts", "plan_matches", "word_overlap"]

TRIES = 12  # prompts of the same form that are looked at for one image, nearest first
NUMBERS = dict(enumerate(["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]))
PLAIN = frozenset({"a", "an", "the", "of", "is", "are", "in", "on", "photo", "picture", "image", "and", "to", "there"})


@dataclass(frozen=True, kw_only=True)
class Match:
    """An image with its prompt, and a wrong one of the same form.

    Attributes:
        image_id: the image.
        prompt_id: its prompt.
        right: text of the prompt.
        wrong: text of the other.
        task: what the prompt asks for.
    """

    image_id: str
    prompt_id: str
    right: str
    wrong: str
    task: str


def right_or_wrong(suite: Suite) -> Pairing:
    """The pairing of a suite that says right or wrong.

    Raises:
        UsageError: it has none.
    """
    pairing = next((p for p in suite.all_pairings() if p.right_or_wrong), None)
    if pairing is None:
        raise UsageError(f"{suite.name} has no right-or-wrong rule, so no prompt can be shown to be wrong")
    return pairing


def words_of(text: str) -> list[str]:
    """Words of a text in lower case, numbers as words.

    >>> words_of("A photo of 3 dogs.")
    ['a', 'photo', 'of', 'three', 'dogs']
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    return [NUMBERS.get(int(w), w) if w.isdigit() else w for w in words]


def nearest_prompts(prompts: Sequence[Prompt], among: Sequence[Prompt], facet: str, *, seed: int) -> list[list[Prompt]]:
    """For each prompt, others with the same value of a facet and as many words, those with fewest other words first.

    Args:
        prompts: which need one.
        among: to choose from.
        facet: of prompts.
        seed: decides between prompts that are equally near.

    Returns:
        At most ``TRIES`` for each; none has the same words.
    """
    index: dict[str, int] = {}

    def coded(text: str) -> list[int]:
        return [index.setdefault(word, len(index)) for word in words_of(text)]

    grouped: dict[tuple[object, int], tuple[list[Prompt], list[list[int]]]] = {}
    for prompt in among:
        code = coded(prompt.text)
        members, codes = grouped.setdefault((prompt.facets.get(facet), len(code)), ([], []))
        members.append(prompt)
        codes.append(code)
    arrays = {key: np.array(codes, dtype=np.int64) for key, (_, codes) in grouped.items()}
    rng = np.random.default_rng([seed, 0x9A1])
    nearest: list[list[Prompt]] = []
    for prompt in prompts:
        asked = np.array(coded(prompt.text), dtype=np.int64)
        key = (prompt.facets.get(facet), len(asked))
        if key not in arrays:
            nearest.append([])
            continue
        distance = (arrays[key] != asked).sum(axis=1)
        order = np.lexsort((rng.random(len(distance)), distance))
        chosen = [int(n) for n in order if distance[n] > 0][:TRIES]
        nearest.append([grouped[key][0][n] for n in chosen])
    return nearest


def plan_matches(run: Run, suite: Suite, among: Sequence[Prompt], *, seed: int) -> tuple[list[Match], int]:
    """The images of a run that show their prompts, each with a planted wrong prompt.

    Args:
        run: of scenes rendered as asked, with their ground truth.
        suite: of the run.
        among: prompts that wrong ones are taken from.
        seed: decides between wrong prompts that are equally near.

    Returns:
        The matches in the order of the images, and how many images have none.
    """
    pairing = right_or_wrong(suite)
    images = run.read("images").filter(run.read("images")["state"] == "ok")
    prompts = {p.prompt_id: p for p in run.prompts()}
    tables = {need.table: run.read(need.table, TRUTH) for need in suite.needs() if run.has_truth(need.table)}
    exact = suite.for_truth()
    shown = _decided(exact, pairing, prompts, images, tables)
    rows = [(i, p) for i, p in images.select("image_id", "prompt_id").iter_rows() if shown.get(i) == 1]
    nearest = nearest_prompts([prompts[p] for _, p in rows], among, pairing.facet, seed=seed)
    candidates = {image: iter(near) for (image, _), near in zip(rows, nearest, strict=True)}
    wrong: dict[str, Prompt] = {}
    for _ in range(TRIES):
        tried = {i: c for i, p in rows if i not in wrong and (c := next(candidates[i], None)) is not None}
        if not tried:
            break
        instead = dict(prompts)
        for image, prompt_id in rows:
            if image in tried:
                instead[prompt_id] = replace(tried[image], prompt_id=prompt_id)
        of_tried = images.filter(images["image_id"].is_in(list(tried)))
        decided = _decided(exact, pairing, instead, of_tried, tables)
        wrong |= {image: prompt for image, prompt in tried.items() if decided.get(image) == 0}
    made = [
        Match(
            image_id=image,
            prompt_id=prompt_id,
            right=prompts[prompt_id].text,
            wrong=wrong[image].text,
            task=str(prompts[prompt_id].facets.get(pairing.facet)),
        )
        for image, prompt_id in rows
        if image in wrong
    ]
    return made, images.height - len(made)


def _decided(
    suite: Suite,
    pairing: Pairing,
    prompts: Mapping[str, Prompt],
    images: pl.DataFrame,
    tables: Mapping[str, pl.DataFrame],
) -> dict[str, float]:
    """Whether each image is right by the ground truth, if these were the prompts."""
    ids = images["image_id"].implode()
    of_images = {name: rows.filter(rows["image_id"].is_in(ids)) for name, rows in tables.items()}
    verdicts = suite.verdicts(Observed(prompts=prompts, images=images, observations=of_images))
    rows = verdicts.filter((verdicts["rule"] == pairing.rule) & (verdicts["protocol"] == "revised"))
    return dict(rows.select("image_id", "value").drop_nulls().iter_rows())


# ---------------------------------------------------------------------------------------------------------- observing
def question_about(text: str) -> str:
    """The question whether an image fits a prompt.

    >>> question_about("a photo of 2 dogs.")
    'Does this image fit the description "a photo of 2 dogs", in every detail?'
    """
    return f'Does this image fit the description "{text.rstrip(" .")}", in every detail?'


def matching_need(role: str, matches: Sequence[Match]) -> Need:
    """What a judge of a role is asked about matches.

    Args:
        role: ``clip``, ``vqa`` or ``captioner``.
        matches: images with their prompts.

    Raises:
        UsageError: a role that cannot be asked about prompts.
    """
    if role == EmbeddingNeed.role:
        return EmbeddingNeed(texts=tuple(dict.fromkeys(text for m in matches for text in (m.right, m.wrong))))
    if role == AnswerNeed.role:
        both = {m.prompt_id: (question_about(m.right), question_about(m.wrong)) for m in matches}
        return AnswerNeed(questions={p: tuple(Question(text=q) for q in asked) for p, asked in both.items()})
    if role == CaptionNeed.role:
        return CaptionNeed()
    raise UsageError(f"judges of the role {role!r} cannot be asked which prompt fits an image")


def matching_items(
    run: Run,
    judge: str,
    role: str,
    matches: Sequence[Match],
    *,
    suite: str,
    groups: Mapping[str, Mapping[str, str]],
    disturbance: str = "",
) -> list[BenchItem]:
    """What a judge says of the right and the wrong prompt of each image: two items, one pair.

    Args:
        run: with the judge's observations.
        judge: full name.
        role: its role.
        matches: images with their prompts.
        suite: name of the suite.
        groups: of each image.
        disturbance: what was done to the images.
    """
    table = run.read(matching_need(role, matches).table, judge)
    if role == EmbeddingNeed.role:
        replies = _by_cosine(run, judge, table, matches)
    elif role == AnswerNeed.role:
        replies = _by_answers(table, matches)
    else:
        replies = _by_captions(table, matches)
    return [
        BenchItem(
            suite=suite,
            task=match.task,
            disturbance=disturbance,
            item=f"{match.image_id} {which}",
            pair=match.image_id,
            labels=("wrong", "right"),
            true=which,
            predicted=predicted,
            score=score,
            is_probability=role == AnswerNeed.role,
            groups=groups.get(match.image_id, {}),
        )
        for match in matches
        for which, (predicted, score) in zip(("right", "wrong"), replies[match.image_id], strict=True)
    ]


# To the right prompt and to the wrong one.
Replies = tuple[tuple[str | None, float | None], tuple[str | None, float | None]]


def _preferred(right: float, wrong: float) -> Replies:
    """What a preference says of both prompts; nothing usable where they are equal."""
    if right == wrong:
        return (None, right), (None, wrong)
    better, worse = ("right", "wrong") if right > wrong else ("wrong", "right")
    return (better, right), (worse, wrong)


def _by_cosine(run: Run, judge: str, table: pl.DataFrame, matches: Sequence[Match]) -> dict[str, Replies]:
    texts = run.read("text_embeddings", judge)
    of_text = dict(zip(texts["text"].to_list(), _unit(vectors_of(texts["vector"])), strict=True))
    of_image = dict(zip(table["image_id"].to_list(), _unit(vectors_of(table["vector"])), strict=True))
    replies: dict[str, Replies] = {}
    for m in matches:
        if m.image_id not in of_image or m.right not in of_text or m.wrong not in of_text:
            replies[m.image_id] = ((None, None), (None, None))
            continue
        image = of_image[m.image_id]
        replies[m.image_id] = _preferred(float(image @ of_text[m.right]), float(image @ of_text[m.wrong]))
    return replies


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = np.asarray(vectors, dtype=np.float64)
    if not wide.size:
        return wide.reshape(len(wide), -1)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    norms[norms == 0] = 1.0
    unit: NDArray[np.float64] = wide / norms
    return unit


def _by_answers(table: pl.DataFrame, matches: Sequence[Match]) -> dict[str, Replies]:
    meaning = {"yes": "right", "no": "wrong"}
    answers = {
        (image, question): (meaning.get(str(value)), None if value is None else probability)
        for image, question, value, probability in table.select(
            "image_id", "question", "value", "probability"
        ).iter_rows()
    }
    nothing = (None, None)
    return {
        m.image_id: (
            answers.get((m.image_id, question_about(m.right)), nothing),
            answers.get((m.image_id, question_about(m.wrong)), nothing),
        )
        for m in matches
    }


def _by_captions(table: pl.DataFrame, matches: Sequence[Match]) -> dict[str, Replies]:
    captions = dict(table.select("image_id", "text").iter_rows())
    replies: dict[str, Replies] = {}
    for m in matches:
        caption = captions.get(m.image_id)
        if not caption:
            replies[m.image_id] = ((None, None), (None, None))
        else:
            replies[m.image_id] = _preferred(word_overlap(caption, m.right), word_overlap(caption, m.wrong))
    return replies


def word_overlap(caption: str, prompt: str) -> float:
    """How many words a caption and a prompt share: F1 of words without articles and the like, plurals as singular.

    Args:
        caption: what a judge says.
        prompt: what was asked.

    Returns:
        In [0, 1]; 0 where either has no such word.

    >>> word_overlap("three dogs on a beach", "a photo of 3 dogs")
    0.8
    """
    both = [Counter(w.removesuffix("s") for w in words_of(text) if w not in PLAIN) for text in (caption, prompt)]
    shared = (both[0] & both[1]).total()
    size = both[0].total() + both[1].total()
    return 2 * shared / size if size else 0.0
