"""How many images could be used and why others could not, and who judged how well: what a page says first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verism.cards import JudgeCard, Measured
from verism.records import judge_identity
from verism.report_kit.evidence import Evidence, union
from verism.report_kit.judges import cards_of
from verism.store import TRUTH, Run
from verism.suites.social_bias.report_scores import ATTRIBUTE, GROUP, PERSON, TONE, BiasScores

__all__ = ["Decision", "coverage_rows", "decisions_of", "judge_lines"]

UNSURE, UNREAD, ABSENT = "unsure", "reply not understood", "no person perceived"
NO_FACE, NO_USABLE_FACE, NO_SKIN, UNKNOWN = "no face found", "no usable face", "no skin found", "not looked at"
FACE_STATES: Mapping[str, str] = {
    "too_small": "face too small",
    "grey": "grey image",
    "profile": "face in profile",
    "no_skin": "no skin to measure",
    "clipped": "face too bright or too dark",
}
GAPS = (UNSURE, UNREAD, ABSENT, NO_FACE, NO_USABLE_FACE, NO_SKIN, UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What one rule perceived in one image under one protocol.

    Attributes:
        image_id: of the image.
        protocol: name of the protocol.
        rule: axis, ``attribute`` or ``person``.
        attribute: name of the attribute, empty for other rules.
        label: the class, ``yes`` or ``no``; empty where nothing usable is known.
        gap: why nothing usable is known, in two words; empty where there is a label.
        reason: the verdict's own words, the judge's reply among them.
        vote: what the whole prompt votes, where it does.
    """

    image_id: str
    protocol: str
    rule: str
    attribute: str
    label: str
    gap: str
    reason: str
    vote: str = ""


def decisions_of(run: Run) -> list[Decision]:
    """All verdicts of a run in words."""
    states = dict(run.read("images", columns=["image_id", "state"]).iter_rows())
    columns = run.verdicts().select("image_id", "protocol", "rule", "value", "reason", "detail")
    decisions = []
    for image_id, protocol, rule, value, reason, result in columns.iter_rows():
        detail = json.loads(result) if result else {}
        gap = "" if value is not None else _gap(states.get(image_id, "missing"), rule, reason or "", detail)
        decisions.append(
            Decision(
                image_id=image_id,
                protocol=protocol,
                rule=rule,
                attribute=str(detail.get("attribute", "")) if rule == ATTRIBUTE else "",
                label="" if value is None else _label(rule, value, detail),
                gap=gap,
                reason=reason or "",
                vote=str(detail.get("prompt_class") or ""),
            )
        )
    return decisions


def _label(rule: str, value: float, detail: Mapping[str, Any]) -> str:
    if rule in (ATTRIBUTE, PERSON):
        return "yes" if value else "no"
    return str(detail.get("class") or f"{value:g}")


def _gap(state: str, rule: str, reason: str, detail: Mapping[str, Any]) -> str:
    if state != "ok":
        return f"image {state}"
    if detail.get("class") == UNSURE or reason.startswith(UNSURE):
        return UNSURE
    if "faces" in detail:
        return NO_USABLE_FACE if detail["faces"] else NO_FACE
    if reason.startswith("no person"):
        return ABSENT
    if rule == TONE and reason != UNKNOWN:
        return NO_SKIN  # of a judge that looks for no faces
    return UNREAD if detail.get("read") is False or reason.startswith("answered") else UNKNOWN


# ------------------------------------------------------------------------------------------------------------ coverage
def coverage_rows(
    evidence: Evidence, bias: Sequence[BiasScores], decisions: Sequence[Sequence[Decision]]
) -> dict[str, list[Any]]:
    """Rows of the table of coverage by protocol: of what, name, a cell per run with number and share.

    Counted from the verdicts; the shares that are usable are those of the scores ``usable_share``.
    """
    images = [b.run.read("images") for b in bias]
    asked = [sum(p.n_images for p in b.run.prompts()) for b in bias]
    there = [int((table["state"] == "ok").sum()) for table in images]
    states = [Counter(table["state"].to_list()) for table in images]
    faces = [_face_reasons(b.run) for b in bias]
    axes = union(b.axes for b in bias)
    results: dict[str, list[Any]] = {}
    for protocol in evidence.protocols:
        subset = [[d for d in members if d.protocol == protocol] for members in decisions]
        if not any(subset) and any(decisions):
            results[protocol] = []
            continue
        rows = [_row("images", "asked for", [_part(n, 0) for n in asked])]
        rows.append(_row("images", "there", [_part(n, members) for n, members in zip(there, asked)]))
        for state in union([s for s in c if s != "ok"] for c in states):
            rows.append(
                _row("images", state, [_part(c[state], members) for c, members in zip(states, asked)], gap=True)
            )
        rows += _person_rows(subset)
        for axis in (*axes, ATTRIBUTE):
            of_axis = [[d for d in members if d.rule == axis] for members in subset]
            rows += _axis_rows(axis, protocol, bias, of_axis, faces, evidence.main)
        results[protocol] = rows
    return results


def _person_rows(decisions: Sequence[Sequence[Decision]]) -> Iterator[dict[str, Any]]:
    subset = [[d for d in members if d.rule == PERSON] for members in decisions]
    if any(subset):
        for label, name in (("yes", "perceived"), ("no", "without a person"), ("", "not known")):
            counted = [sum(d.label == label for d in members) for members in subset]
            if label or any(counted):
                cells = [_part(n, len(members)) if members else None for n, members in zip(counted, subset)]
                yield _row(PERSON, name, cells, gap=label != "yes")


def _axis_rows(
    axis: str,
    protocol: str,
    bias: Sequence[BiasScores],
    decisions: Sequence[Sequence[Decision]],
    faces: Sequence[Counter[str]],
    main: str,
) -> Iterator[dict[str, Any]]:
    """Usable images of an axis and why others are not, of the prompts that its mean and deviation are of."""
    groups = union(b.groups_of(axis) for b in bias)
    subset = [_of_groups(b, members) for b, members in zip(bias, decisions)]
    if not any(subset):
        return
    of_what = "clothes" if axis == ATTRIBUTE else axis
    every = [str(p.facets.get(GROUP)) for b in bias for p in b.run.prompts()]
    among = ", ".join(groups) + " prompts" if groups and set(every) - set(groups) else ""
    counted = [Counter(d.gap for d in members) for members in subset]
    sizes = [len(members) for members in subset]

    def cells(gap: str) -> list[dict[str, Any] | None]:
        return [_part(c[gap], n) if n else None for c, n in zip(counted, sizes)]

    yield _row(of_what, "answers usable" if axis == ATTRIBUTE else "usable", cells(""), among=among)
    missing = union([gap for gap in c if gap and gap not in GAPS] for c in counted)
    for gap in (*missing, *GAPS):
        if any(c[gap] for c in counted):
            yield _row(of_what, gap, cells(gap), gap=True)
            if gap == NO_USABLE_FACE and protocol == main:
                for state in union(list(c) for c in faces):
                    parts = [_part(c[state], n) if n else None for c, n in zip(faces, sizes)]
                    yield _row(of_what, state, parts, gap=True, inner=True)


def _of_groups(bias: BiasScores, decisions: Sequence[Decision]) -> list[Decision]:
    """Decisions of one axis about the prompts that its mean and deviation are of."""
    groups = bias.groups_of(decisions[0].rule) if decisions else []
    if not groups:
        return list(decisions)
    prompts = {p.prompt_id for p in bias.run.prompts() if str(p.facets.get(GROUP)) in groups}
    images = dict(bias.run.read("images", columns=["image_id", "prompt_id"]).iter_rows())
    return [d for d in decisions if images.get(d.image_id) in prompts]


def _face_reasons(run: Run) -> Counter[str]:
    """Of images with faces but none that can be used, why the largest cannot."""
    import polars as pl

    judge = skin_judge(run)
    if judge is None:
        return Counter()
    table = run.read("skin_tones", judge).filter(pl.col("face") >= 0).sort("image_id", "face")
    usable = set(table.filter((pl.col("state") == "ok") & pl.col("tone").is_not_null())["image_id"].to_list())
    largest = table.unique("image_id", keep="first", maintain_order=True).select("image_id", "state")
    states = (state for image_id, state in largest.iter_rows() if image_id not in usable)
    return Counter(FACE_STATES.get(state, str(state).replace("_", " ")) for state in states)


def skin_judge(run: Run) -> str | None:
    """Whose faces and tones the scores of a run rest on; None if nobody looked."""
    named = run.judge("skin_tone")
    if named is not None:
        return named
    result = run.judges("skin_tones")
    return result[0] if result else TRUTH if run.has_truth("skin_tones") else None


def _part(n: int, of: int) -> dict[str, Any]:
    return {"n": n, "share": f"{100 * n / of:.1f}" if of else ""}


def _row(
    of_what: str,
    name: str,
    cells: Sequence[dict[str, Any] | None],
    *,
    gap: bool = False,
    inner: bool = False,
    among: str = "",
) -> dict[str, Any]:
    return {"of": of_what, "name": name, "cells": list(cells), "gap": gap, "inner": inner, "among": among}


# -------------------------------------------------------------------------------------------------------------- judges
def judge_lines(evidence: Evidence, bias: BiasScores) -> list[dict[str, Any]]:
    """Who judged each axis of a run, and how well, by judge cards.

    Returns:
        Per axis: ``axis``, ``judge``, and ``cards``: sentences; none where nobody measured how the judge errs.
        ``known`` is false then; ``truth`` is true for the renderer itself, who does not err.
    """
    cards = cards_of([bias.run], [*_kept(bias.run), *evidence.cards])
    lines = []
    attributes = [ATTRIBUTE] if bias.of("presence", "axis", ATTRIBUTE, GROUP) else []
    for axis in (*bias.axes, *attributes):
        role = "skin_tone" if axis == TONE else "clip" if bias.first else "vqa"
        table = {"skin_tone": "skin_tones", "clip": "embeddings", "vqa": "answers"}[role]
        judge = bias.run.judge(role)
        if judge is None:
            result = bias.run.judges(table)
            judge = result[0] if result else TRUTH if bias.run.has_truth(table) else None
        collected = [] if judge is None else list(_told(cards, judge, axis, evidence.protocols))
        lines.append(
            {
                "axis": "clothes" if axis == ATTRIBUTE else axis,
                "judge": judge or "not recorded",
                "cards": collected,
                "truth": judge == TRUTH,
                "known": bool(collected) or judge == TRUTH,
            }
        )
    return lines


def _kept(run: Run) -> list[JudgeCard]:
    """The cards that a run was scored with, as it keeps them."""
    kept = run.manifest.scoring.rules.get("cards")
    return [card for record in (kept if isinstance(kept, list) else []) if (card := _card(record)) is not None]


def _card(record: Any) -> JudgeCard | None:
    """A card as a run keeps it; None for what is none."""
    try:
        tables = [
            Measured(
                task=str(m["task"]),
                protocol=str(m["protocol"]),
                labels=tuple(map(str, m["labels"])),
                counts=tuple(tuple(map(int, row)) for row in m["counts"]),
                unusable=tuple(map(int, m.get("unusable", ()))),
                group=dict(m.get("group", {})),
            )
            for m in record["measured"]
        ]
        return JudgeCard(
            judge=str(record["judge"]),
            role=str(record["role"]),
            kind=record["kind"],
            ground_truth=str(record["ground_truth"]),
            measured=tuple(tables),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _told(cards: Sequence[JudgeCard], judge: str, axis: str, protocols: Sequence[str]) -> Iterator[str]:
    """What the first card of exactly this judge says about a task, under each protocol."""
    for protocol in protocols:
        card, owner = next(
            (
                (card, owner)
                for card in cards
                if judge_identity(card.judge) == judge_identity(judge)
                and (owner := [m for m in card.measured if (m.task, m.protocol) == (axis, protocol)])
            ),
            (None, []),
        )
        if card is None:
            continue
        asked = sum(n for m in owner for row in m.counts for n in row)
        right = sum(m.counts[i][i] for m in owner for i in range(len(m.labels)))
        unusable = sum(sum(m.unusable) for m in owner)
        unsaid = f"; no usable answer about {unusable:,} more" if unusable else ""
        share = f"{100 * right / asked:.1f} %" if asked else "none"
        by = "rendered images" if card.kind == "rendered" else "images that people judged"
        yield f"{protocol}: right about {share} of {asked:,} answers on {by}{unsaid}. Ground truth: {card.ground_truth}"
