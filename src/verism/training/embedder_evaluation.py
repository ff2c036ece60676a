"""How well an embedder does on examples: retrieval of texts among a hundred, and recognition of garments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.judges.detection.builtin import letterbox
from verism.judges.embedding.vocabulary import Vocabulary
from verism.metrics.retrieval import r_precision
from verism.records import AnswerNeed, LoadedImage, Question
from verism.statistics.association import roc_area
from verism.suites.paintskills.vocabulary import plural
from verism.training._replicas import autocast
from verism.training.embedder_examples import COLORS, GARMENTS, Examples, Facts
from verism.training.embedder_texts import full_claim, meaning_of, worded
from verism.training.settings import PAINTSKILLS_CLASSES

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "POOL",
    "answered",
    "balanced",
    "garment_queries",
    "measured",
    "questions_of",
    "retrieval",
    "retrieval_texts",
]

POOL = 100
Floats = NDArray[np.float64]


def garment_queries() -> list[str]:
    """What image vectors are compared with for each garment, as the estimators of the study of clothes do."""
    plural = ("boots", "slippers", "jeans", "shorts", "slacks", "gloves", "glasses")
    return [name if name in plural else f"a {name}" for name in GARMENTS]


def retrieval_texts(facts: Sequence[Facts], seed: int) -> tuple[list[str], NDArray[np.intp]]:
    """A text for each meaning among some scenes, and which of them is each scene's.

    Two wordings of one meaning, such as "3 dogs" and "a photo of three dogs", fit the same images: a pool with both
    would ask for what no judge can know.

    Args:
        facts: of scenes.
        seed: draws the words.
    """
    rng = np.random.default_rng([seed, 0x7E7])
    texts: list[str] = []
    number: dict[Any, int] = {}
    own = []
    for known in facts:
        claim = full_claim(known)
        text = worded(claim, rng)
        meaning = meaning_of(claim)
        if meaning not in number:
            number[meaning] = len(texts)
            texts.append(text)
        own.append(number[meaning])
    return texts, np.array(own, dtype=np.intp)


def retrieval(images: NDArray[Any], texts: NDArray[Any], own: NDArray[np.intp], pool: int = POOL) -> Floats:
    """Chance of each image that its text comes first among ``pool``, over all pools of different meanings.

    Args:
        images: vectors, shape (N, D).
        texts: vectors, shape (T, D).
        own: row of each image's text, shape (N,).
        pool: texts in a pool, the own one among them.
    """
    result = r_precision(images, texts, positive=own, protocol="revised", pool=min(pool, len(texts)))
    return np.asarray(result.per_image, dtype=np.float64)


def measured(network: nn.Module, examples: Examples, chosen: NDArray[np.intp], words: Vocabulary) -> dict[str, Any]:
    """A few numbers of a network on some examples, for the log.

    Args:
        network: an ``EmbedderNetwork`` on the CPU, in evaluation mode.
        examples: all of them.
        chosen: indices of those to measure on.
        words: the vocabulary.
    """
    import torch

    towers: Any = network

    def image_vectors(pixels: NDArray[np.uint8]) -> tuple[NDArray[Any], NDArray[Any]]:
        with torch.inference_mode(), autocast("cpu"):
            pooled = towers.images(torch.from_numpy(pixels).permute(0, 3, 1, 2))
            vectors = towers.image_out(pooled)
            garments = towers.heads["garments"](pooled)
        return vectors.float().numpy(), garments.float().numpy()

    def text_vectors(texts: Sequence[str]) -> NDArray[Any]:
        with torch.inference_mode():
            return np.asarray(towers.texts(torch.from_numpy(words.array(texts))).float().numpy())

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        return evaluate(examples, chosen, towers.shape.size, image_vectors, text_vectors)
    finally:
        torch.set_num_threads(threads)


def evaluate(
    examples: Examples,
    chosen: Sequence[int] | NDArray[np.intp],
    size: int,
    image_vectors: Callable[[NDArray[np.uint8]], tuple[NDArray[Any], NDArray[Any]]],
    text_vectors: Callable[[Sequence[str]], NDArray[Any]],
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """Retrieval of scenes' texts, in all and by kind, and for each garment the area under the curve.

    Args:
        examples: all of them.
        chosen: indices of those to measure on.
        size: side of the network's input.
        image_vectors: of images (B, S, S, 3): vectors (B, D) and logits or probabilities of garments (B, G).
        text_vectors: of texts.
        seed: draws the words of texts.

    Returns:
        ``r_precision`` and ``chance`` (of a pool), ``r_precision_by_kind``, ``scenes``, ``meanings``; and ``garments``:
        by garment ``auc_cosine``, ``auc_head``, ``with_it`` and ``without``.
    """
    vectors, heads = [], []
    numbers = [int(k) for k in chosen]
    for start in range(0, len(numbers), 32):
        pixels = np.stack([letterbox(examples.image(k), size)[0] for k in numbers[start : start + 32]])
        batch, garments = image_vectors(pixels)
        vectors.append(batch)
        heads.append(garments)
    images, worn = np.concatenate(vectors), np.concatenate(heads)
    facts = [examples.facts[k] for k in numbers]
    scenes = np.array([k for k, known in enumerate(facts) if known.kind != "person"], dtype=np.intp)
    people = np.array([k for k, known in enumerate(facts) if known.kind == "person"], dtype=np.intp)
    result: dict[str, Any] = {}
    if len(scenes) > 1:
        texts, own = retrieval_texts([facts[k] for k in scenes], seed)
        pool = min(POOL, len(texts))
        chance = retrieval(images[scenes], text_vectors(texts), own)
        kinds = np.array([facts[k].kind for k in scenes])
        result |= {
            "r_precision": round(float(chance.mean()), 4),
            "pool": pool,
            "scenes": len(scenes),
            "meanings": len(texts),
            "r_precision_by_kind": {
                kind: [round(float(chance[kinds == kind].mean()), 3), int((kinds == kind).sum())]
                for kind in sorted(set(kinds.tolist()))
            },
        }
    if len(people):
        result["garments"] = _garments(facts, people, images, worn, text_vectors)
        areas = [row["auc_cosine"] for row in result["garments"].values() if row["auc_cosine"] == row["auc_cosine"]]
        result["auc_cosine_lowest"] = min(areas) if areas else float("nan")
        result["auc_cosine_mean"] = round(float(np.mean(areas)), 4) if areas else float("nan")
    return result


def _garments(
    facts: Sequence[Facts],
    people: NDArray[np.intp],
    images: NDArray[Any],
    worn: NDArray[Any],
    text_vectors: Callable[[Sequence[str]], NDArray[Any]],
) -> Mapping[str, Mapping[str, float]]:
    queries = text_vectors(garment_queries())
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    unit = images / np.linalg.norm(images, axis=1, keepdims=True)
    rows = {}
    for number, name in enumerate(GARMENTS):
        known = np.array([k for k in people if facts[k].garments.get(name) is not None], dtype=np.intp)
        labels = np.array([bool(facts[k].garments[name]) for k in known], dtype=bool)
        rows[name] = {
            "auc_cosine": round(roc_area(unit[known] @ queries[number], labels.astype(int)), 4),
            "auc_head": round(roc_area(worn[known, number], labels.astype(int)), 4),
            "with_it": int(labels.sum()),
            "without": int((~labels).sum()),
        }
    return rows


# --------------------------------------------------------------------------------------------------------------------
# Questions
# --------------------------------------------------------------------------------------------------------------------
_SIDES = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}
_OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}


def questions_of(facts: Facts, rng: np.random.Generator) -> list[tuple[str, Question, str]]:
    """Questions about an image whose answer its facts know: kind, question, and right answer.

    Args:
        facts: what is known of the image.
        rng: draws a class that is not there.
    """
    made: list[tuple[str, Question, str]] = []
    if facts.kind == "person":
        for name, query in zip(GARMENTS, garment_queries(), strict=True):
            if (worn := facts.garments.get(name)) is not None:
                question = Question(text=f"Is the person wearing {query}?")
                made.append((f"garment: {name}", question, "yes" if worn else "no"))
        return made
    numbers = Counter(thing.label for thing in facts.things if thing.label in PAINTSKILLS_CLASSES)
    for label, number in numbers.items():
        made.append(("present", Question(text=f"Is there a {label}?"), "yes"))
        counted = Question(text=f"How many {plural(label)} are there?", choices=("1", "2", "3", "4"))
        made.append((f"number: {number}", counted, str(number)))
    absent = [label for label in PAINTSKILLS_CLASSES if label not in numbers]
    made.append(("present", Question(text=f"Is there a {absent[int(rng.integers(len(absent)))]}?"), "no"))
    for thing in facts.things:
        if thing.color and numbers[thing.label] == 1:
            made.append(("colour", Question(text=f"What colour is the {thing.label}?", choices=COLORS), thing.color))
    if facts.relation in _SIDES and len(numbers) == 2:
        first, second = (thing.label for thing in facts.things)
        for side, answer in ((facts.relation, "yes"), (_OPPOSITE[facts.relation], "no")):
            made.append(("side", Question(text=f"Is the {second} {_SIDES[side]} the {first}?"), answer))
    return made


def answered(judge: Any, examples: Examples, *, seed: int = 0) -> dict[str, dict[str, Any]]:
    """How often a judge of questions is right about examples, by kind of question.

    Args:
        judge: fills ``AnswerNeed``.
        examples: images with facts.
        seed: draws classes that are not there.

    Returns:
        By kind: ``asked``, ``right`` (a share), and for questions of yes or no ``right_of_yes`` and ``right_of_no``:
        shares of those whose right answer is that; a question without an answer is wrong, and counted in ``null``.
    """
    rng = np.random.default_rng([seed, 0xA5])
    rows: dict[str, list[tuple[str, str | None]]] = {}
    for start in range(0, len(examples), 32):
        numbers = range(start, min(start + 32, len(examples)))
        asked = {str(k): questions_of(examples.facts[k], rng) for k in numbers}
        images = [LoadedImage(image_id=str(k), prompt_id=str(k), pixels=examples.image(k)) for k in numbers]
        need = AnswerNeed(questions={k: tuple(q for _, q, _ in each) for k, each in asked.items()}, weighed=True)
        table = judge.observe(images, need)
        given = {(row["image_id"], row["question"]): row["value"] for row in table.iter_rows(named=True)}
        for k, each in asked.items():
            for kind, question, right in each:
                rows.setdefault(kind, []).append((right, given[k, question.text]))
    result: dict[str, dict[str, Any]] = {}
    for kind, pairs in sorted(rows.items()):
        of: dict[str, Any] = {
            "asked": len(pairs),
            "null": sum(value is None for _, value in pairs),
            "right": round(float(np.mean([right == value for right, value in pairs])), 4),
        }
        for answer in ("yes", "no"):
            if hits := [value == answer for right, value in pairs if right == answer]:
                of |= {f"right_of_{answer}": round(float(np.mean(hits)), 4), f"n_{answer}": len(hits)}
        result[kind] = of
    return result


def balanced(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Share of right answers by kind, as if every right answer were asked for equally often.

    Args:
        answers: as ``answered`` gives them; kinds ``number: N`` are put together as ``number``.

    >>> numbers = {"number: 1": {"right": 1.0}, "number: 2": {"right": 0.5}}
    >>> balanced(numbers | {"side": {"right_of_yes": 1, "right_of_no": 0}})
    {'side': 0.5, 'number': 0.75}
    """
    result: dict[str, float] = {}
    numbers = [row["right"] for kind, row in answers.items() if kind.startswith("number: ")]
    for kind, row in answers.items():
        if not kind.startswith("number: "):
            halves = [row[name] for name in ("right_of_yes", "right_of_no") if name in row]
            result[kind] = round(float(np.mean(halves or [row["right"]])), 4)
    return result | ({"number": round(float(np.mean(numbers)), 4)} if numbers else {})
