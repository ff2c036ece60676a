"""From observations to verdicts, category by category: what protocols make of boxes, depth, answers and vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.metrics.depth_maps import depth_of_text, nearest_size
from verism.records import Observed
from verism.suites.compbench import spatial
from verism.suites.compbench.binding import (
    asked_phrases,
    paper_binding,
    question_of,
    released_binding,
    released_phrases,
    revised_binding,
)
from verism.suites.compbench.boxes import SeenBox, detector_size, scaled
from verism.suites.compbench.combination import ROUTES, paper_three_in_one, released_three_in_one
from verism.suites.compbench.multimodal import (
    IMAGES_OF_GPT4V,
    level_questions,
    released_level_score,
    revised_level_score,
)
from verism.suites.compbench.numeracy import Counted, asked_numbers, released_numbers, revised_numbers, score_of
from verism.suites.compbench.prompts import Asked
from verism.suites.compbench.vocabulary import BOUND

if TYPE_CHECKING:
    import polars as pl

__all__ = ["NOT_NAMED", "Decision", "Judged", "Rules", "level_prompts"]

DEPTH_PX = 480  # sides of the released depth map
SURE = 0.5
NOT_NAMED = "no judge observed it: name one with {option}"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Values of the suite's rules.

    Attributes:
        threshold: confidence from which a box counts, under released and paper.
        threshold_revised: the same under revised.
        gate: released scores of relations in the image below it count as 0.
        np_num: most phrases that released asks about.
        phrase_filter: whether parts of places are no phrases.
        edition: of the released reading of numbers, ``2025`` or ``2024``.
        swapped: whether released cuts depth maps with rows and columns swapped.
        middle: whether revised takes the median of a box's depth.
    """

    threshold: float = 0.1
    threshold_revised: float = 0.1
    gate: float = 0.5
    np_num: int = 8
    phrase_filter: bool = True
    edition: str = "2025"
    swapped: bool = True
    middle: bool = True


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a protocol says of an image.

    Attributes:
        score: of the category, in [0, 1] (a cosine for non-spatial); None where that cannot be told.
        right: 1 if all is there that is asked, 0 if not; None where that cannot be told.
        reason: in words.
        parts: further verdicts, by rule.
        detail: what it rests on, for evidence.
    """

    score: float | None
    right: float | None
    reason: str
    parts: Mapping[str, float] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)


class Judged:
    """The observations of a run, by image.

    Args:
        observed: the run.
        levels: scale of multimodal judges, if their levels are what is asked; else empty.
    """

    def __init__(self, observed: Observed, levels: str = "") -> None:
        self._observed = observed
        self._levels = levels
        images = observed.images.select("image_id", "width", "height")
        self._sizes = {image: (width, height) for image, width, height in images.iter_rows()}

    def _table(self, name: str) -> pl.DataFrame | None:
        return self._observed.observations.get(name)

    # -------------------------------------------------------------------------------------------------- what there is
    @cached_property
    def _boxes(self) -> dict[str, list[SeenBox]] | None:
        table = self._table("detections")
        if table is None:
            return None
        columns = ("image_id", "query", "label", "raw_label", "score", "x0", "y0", "x1", "y1")
        found: dict[str, list[SeenBox]] = {image: [] for image in table["image_id"].unique().to_list()}
        for image, query, label, raw, score, *edges in table.select(columns).iter_rows():
            if query >= 0:
                x0, y0, x1, y1 = edges
                name = str(raw or label or "").lower()
                found[image].append(SeenBox(label=label, raw_label=name, score=score, box=(x0, y0, x1, y1)))
        return found

    @cached_property
    def _depths(self) -> Mapping[str, tuple[str, int, int]] | None:
        table = self._table("depths")
        if table is None:
            return None
        rows = table.select("image_id", "nearness", "height", "width").iter_rows()
        return {image: (text, height, width) for image, text, height, width in rows}

    @cached_property
    def _answers(self) -> Mapping[tuple[str, str], tuple[str | None, float | None]] | None:
        table = self._table("answers")
        if table is None:
            return None
        rows = table.select("image_id", "question", "answer", "probability").iter_rows()
        return {(image, question): (answer, share) for image, question, answer, share in rows if question is not None}

    @cached_property
    def _tokens(self) -> Mapping[tuple[str, str], Mapping[str, float]]:
        table = self._table("token_probabilities")
        found: dict[tuple[str, str], dict[str, float]] = {}
        if table is not None:
            rows = table.select("image_id", "question", "string", "probability").iter_rows()
            for image, question, string, share in rows:
                found.setdefault((image, question), {})[string] = share
        return found

    @cached_property
    def _vectors(self) -> tuple[Mapping[str, NDArray[np.float64]], Mapping[str, NDArray[np.float64]]] | None:
        images, texts = self._table("embeddings"), self._table("text_embeddings")
        if images is None or texts is None:
            return None

        def unit(vector: Sequence[float]) -> NDArray[np.float64]:
            values = np.asarray(vector, dtype=np.float64)
            length = float(np.linalg.norm(values))
            return values / length if length else values

        return (
            {image: unit(vector) for image, vector in images.select("image_id", "vector").iter_rows()},
            {text: unit(vector) for text, vector in texts.select("text", "vector").iter_rows()},
        )

    @property
    def filled(self) -> frozenset[str]:
        """Roles that somebody filled."""
        tables = {"detector": "detections", "depth": "depths", "vqa": "answers", "clip": "embeddings"}
        return frozenset(role for role, table in tables.items() if self._table(table) is not None)

    # ------------------------------------------------------------------------------------------------------ decisions
    def decide(self, image_id: str, index: int, asked: Asked, protocol: str, rules: Rules) -> Decision | None:
        """What a protocol says of an image; None where it does not look at it.

        Args:
            image_id: the image.
            index: which image of its prompt it is.
            asked: the prompt.
            protocol: ``released``, ``paper`` or ``revised``.
            rules: values of the suite's rules.
        """
        if self._levels:
            if self._levels == "gpt-4v" and protocol != "revised" and index >= IMAGES_OF_GPT4V:
                return None
            return self._level(image_id, asked, protocol)
        if asked.category in BOUND:
            return self._binding(image_id, asked, protocol, rules)
        if asked.category == "spatial":
            return self._spatial(image_id, asked, protocol, rules)
        if asked.category == "3d_spatial":
            return self._in_depth(image_id, asked, protocol, rules)
        if asked.category == "numeracy":
            return self._numeracy(image_id, asked, protocol, rules)
        if asked.category == "non_spatial":
            return self._clip(image_id, asked.text)
        return self._complex(image_id, asked, protocol, rules)

    def probabilities(self, image_id: str, phrase: str) -> tuple[float | None, float | None, float | None]:
        """Of a phrase: the share of yes in yes and no, the probability of yes among all words, and that of either.

        The last two are None where the judge gives no probabilities of single words.
        """
        question = question_of(phrase)
        tokens = self._tokens.get((image_id, question), {})
        if "yes" in tokens and "no" in tokens:
            mass = tokens["yes"] + tokens["no"]
            return (tokens["yes"] / mass if mass > 0 else None), tokens["yes"], min(mass, 1.0)
        _, share = (self._answers or {}).get((image_id, question), (None, None))
        return share, None, None

    def _binding(self, image_id: str, asked: Asked, protocol: str, rules: Rules) -> Decision:
        if self._answers is None:
            return _unknown("--vqa")
        if asked.phrases is None:
            return Decision(score=None, right=None, reason="its noun phrases are not known")
        if protocol == "revised":
            phrases = asked_phrases(asked.phrases, filtered=rules.phrase_filter)
        else:
            phrases = released_phrases(asked.phrases, np_num=rules.np_num, filtered=rules.phrase_filter)
        known = [self.probabilities(image_id, phrase) for phrase in phrases]
        shares = [share for share, _, _ in known]
        if protocol == "released":
            score = released_binding(shares)
        elif protocol == "paper":
            # A judge that gives no probabilities of single words leaves only the normalised ones.
            score = paper_binding([share if yes is None else yes for share, yes, _ in known])
        else:
            score = revised_binding(shares)
        sure = None if not shares or any(s is None for s in shares) else float(all((s or 0) > SURE for s in shares))
        shown = ", ".join(
            f"{p}: {'no answer' if s is None else f'{s:.3f}'}" for p, s in zip(phrases, shares, strict=True)
        )
        return Decision(score=score, right=sure, reason=shown or "no noun phrases")

    def _boxes_of(self, image_id: str, threshold: float, target: tuple[int, int] | None = None) -> list[SeenBox]:
        least = float(np.float32(threshold))  # confidences are kept in single precision
        boxes = [b for b in (self._boxes or {}).get(image_id, ()) if b.score > least]
        size = self._sizes[image_id]
        return scaled(boxes, size, target or detector_size(*size))

    def _spatial(self, image_id: str, asked: Asked, protocol: str, rules: Rules) -> Decision:
        if self._boxes is None:
            return _unknown("--detector")
        if asked.names is None:
            if asked.category == "complex" and protocol != "revised":
                return Decision(score=0.0, right=0.0, reason="not two objects")
            return Decision(score=None, right=None, reason="its two objects are not known")
        if protocol == "revised":
            found = spatial.revised_score(
                asked.names, asked.relation, self._boxes_of(image_id, rules.threshold_revised)
            )
        elif protocol == "paper":
            found = spatial.paper_score(asked.names, asked.relation, self._boxes_of(image_id, rules.threshold))
        else:
            boxes = self._boxes_of(image_id, rules.threshold)
            found = spatial.released_score(asked.names, asked.relation, boxes, gate=rules.gate)
        return _related(asked, found)

    def _in_depth(self, image_id: str, asked: Asked, protocol: str, rules: Rules) -> Decision:
        if self._boxes is None or self._depths is None:
            return _unknown("--detector" if self._boxes is None else "--depth")
        if asked.names is None:
            return Decision(score=None, right=None, reason="its two objects are not known")
        if image_id not in self._depths:
            return Decision(score=None, right=None, reason="no depth of it is known")
        text, height, width = self._depths[image_id]
        depth = depth_of_text(text, height, width)
        if protocol == "revised":
            boxes = self._boxes_of(image_id, rules.threshold_revised, (width, height))
            found = spatial.revised_depth_score(asked.names, asked.relation, boxes, depth, middle=rules.middle)
        else:
            boxes = self._boxes_of(image_id, rules.threshold)
            square = nearest_size(depth, DEPTH_PX, DEPTH_PX)
            swapped = rules.swapped and protocol == "released"
            if not swapped:  # boxes and map of one size
                boxes = self._boxes_of(image_id, rules.threshold, (DEPTH_PX, DEPTH_PX))
            found = spatial.released_depth_score(asked.names, asked.relation, boxes, square, swapped=swapped)
        return _related(asked, found)

    def _numeracy(self, image_id: str, asked: Asked, protocol: str, rules: Rules) -> Decision:
        if self._boxes is None:
            return _unknown("--detector")
        wanted = [Counted(name=name, asked=number) for name, number in asked.numbers]
        if protocol == "revised":
            counted = revised_numbers(wanted, self._boxes_of(image_id, rules.threshold_revised))
        else:
            if rules.edition != "2025":
                wanted = asked_numbers(asked.text, edition=rules.edition)
            counted = released_numbers(wanted, self._boxes_of(image_id, rules.threshold))
        score = score_of(counted)
        if score is None:
            return Decision(score=None, right=None, reason="no listed object behind a number")
        exact = [c.found == c.asked for c in counted]
        words = ", ".join(f"{c.found} of {c.asked} {c.name}" for c in counted)
        found = {c.name: [c.asked, c.found] for c in counted}
        return Decision(
            score=score,
            right=float(all(exact)),
            reason=words,
            parts={"number_exact": sum(exact) / len(exact)},
            detail={"numbers": found},
        )

    def _clip(self, image_id: str, text: str | None) -> Decision:
        if self._vectors is None:
            return _unknown("--clip")
        images, texts = self._vectors
        if text is None or text not in texts or image_id not in images:
            return Decision(score=None, right=None, reason="no vector of it")
        cosine = float(np.dot(images[image_id], texts[text]))
        return Decision(score=min(max(cosine, -1.0), 1.0), right=None, reason=f"cosine {cosine:.4f}")

    def _complex(self, image_id: str, asked: Asked, protocol: str, rules: Rules) -> Decision:
        plain = asked.without_adjectives if protocol == "released" else asked.text
        route = "both" if protocol == "paper" else asked.route
        wanted = ROUTES[route]
        if protocol == "revised" and asked.names is None:  # no relation that boxes could tell
            wanted = tuple(part for part in wanted if part != "spatial")
        made: dict[str, Decision] = {"binding": self._binding(image_id, asked, protocol, rules)}
        if "spatial" in wanted:
            made["spatial"] = self._spatial(image_id, asked, protocol, rules)
        if "clip" in wanted:
            made["clip"] = self._clip(image_id, plain)
        parts = {name: made[name].score for name in wanted}
        if protocol == "paper":
            score = paper_three_in_one(parts)
        elif wanted == ROUTES[route]:
            score = released_three_in_one(route, parts)
        else:
            values = [value for value in parts.values() if value is not None]
            score = sum(values) / len(values) if len(values) == len(parts) else None
        right = None
        if "clip" not in wanted:
            known = [made[name].right for name in wanted]
            right = None if any(v is None for v in known) else float(all(v == 1 for v in known))
        words = "; ".join(
            f"{name} {'not known' if parts[name] is None else f'{parts[name]:.3f}'} ({made[name].reason})"
            for name in wanted
        )
        return Decision(score=score, right=right, reason=words, detail={"parts": parts})

    def _level(self, image_id: str, asked: Asked, protocol: str) -> Decision:
        if self._answers is None:
            return _unknown("--vqa")
        category = asked_as(asked.category, self._levels, protocol)
        questions = level_questions(category, asked.text, asked.phrases or (), self._levels)
        replies = [self._answers.get((image_id, question), (None, None))[0] for question in questions]
        rule = revised_level_score if protocol == "revised" else released_level_score
        score = rule(replies, category, self._levels)
        return Decision(score=score, right=None, reason="; ".join(reply or "no reply" for reply in replies))


def asked_as(category: str, levels: str, protocol: str) -> str:
    """The category whose question is asked: GPT-4V was asked the spatial question about whatever is none of the
    attributes, which the revised protocol does not repeat.

    Args:
        category: of the prompt.
        levels: scale of the judge.
        protocol: under which it is scored.

    >>> asked_as("numeracy", "gpt-4v", "released"), asked_as("numeracy", "gpt-4v", "revised")
    ('spatial', 'numeracy')
    """
    if levels == "gpt-4v" and protocol != "revised" and category not in BOUND:
        return "spatial"
    return category


def level_prompts(asked: Asked, levels: str) -> tuple[str, ...]:
    """All questions that a multimodal judge is asked about images of a prompt, under any protocol.

    Args:
        asked: the prompt.
        levels: scale of the judge.
    """
    categories = dict.fromkeys(asked_as(asked.category, levels, protocol) for protocol in ("revised", "released"))
    questions = (level_questions(each, asked.text, asked.phrases or (), levels) for each in categories)
    return tuple(dict.fromkeys(question for some in questions for question in some))


def _unknown(option: str) -> Decision:
    return Decision(score=None, right=None, reason=NOT_NAMED.format(option=option))


def _related(asked: Asked, found: spatial.Relation) -> Decision:
    words = f"{found.found} of 2 objects, {asked.relation or 'no relation'} worth {found.position:.3f}"
    return Decision(
        score=found.score,
        right=float(found.found == 2 and found.position >= SURE),
        reason=words,
        parts={"relation_worth": found.position, "objects_found": found.found / 2},
        detail={"found": found.found, "position": found.position},
    )
