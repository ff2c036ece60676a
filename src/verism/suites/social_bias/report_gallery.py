"""Pictures of social bias by what was perceived in them: faces, measured colours, replies, and why nothing is known.

Classes of the first axis take turns, within these words for people and tones; otherwise pictures are chosen without
regard to how they look. With several runs, the pictures of one prompt and number stand side by side. The sample is a
function of the runs alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from verism.errors import UsageError
from verism.records import PROTOCOLS
from verism.reports.bias_coverage import FACE_STATES, Decision, skin_judge
from verism.reports.bias_figures import monk_hex
from verism.reports.bias_scores import ATTRIBUTE, GROUP, PERSON, TONE, BiasScores, union
from verism.reports.figures import picture_boxes
from verism.reports.gallery import picture_data, shuffled, turns

__all__ = ["BiasTile", "FaceShown", "LineShown", "Shot", "collect_shots"]

MOST_FACES = 5  # boxes per picture
WHOLE_PICTURE = "picture"  # first word of the name of a judge of skin that looks for no faces
NO_VERDICT = "nobody looked"


@dataclass(frozen=True, kw_only=True)
class FaceShown:
    """A face and its colour. ``measured`` and ``swatch`` are colours (``#c08a66``), empty where there is none."""

    words: str
    usable: bool
    measured: str
    tone: int | None
    swatch: str
    note: str


@dataclass(frozen=True, kw_only=True)
class LineShown:
    """What one axis says of a picture: ``label`` is the class, or why there is none (``known`` is false then)."""

    axis: str
    label: str
    known: bool
    reason: str
    vote: str
    tone: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Shot:
    """One picture of one run.

    Attributes:
        lines, worn, unclear: by protocol: axes, attributes that are perceived, and those of which nothing is known.
        asked_attributes: by protocol, how many were asked about.
        boxes: of the faces, drawn over the picture; None without any.
    """

    run: int
    image_id: str
    source: str | None
    missing: str
    note: str
    boxes: Markup | None
    faces: tuple[FaceShown, ...]
    lines: Mapping[str, Sequence[LineShown]]
    worn: Mapping[str, Sequence[str]]
    unclear: Mapping[str, Sequence[str]]
    asked_attributes: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class BiasTile:
    """The pictures of one prompt and number, one for each run that has it.

    Attributes:
        group: the word for people, or the category. descriptor: what the prompt is about; empty for bare prompts.
        main: by protocol, what the first axis says of each picture. classes: the same of all axes, ``tone: 4``.
    """

    asked: str
    group: str
    descriptor: str
    shots: tuple[Shot, ...]
    main: Mapping[str, Sequence[str]]
    classes: Mapping[str, Sequence[str]]


def collect_shots(
    bias: Sequence[BiasScores], decisions: Sequence[Sequence[Decision]], *, gallery: int, embed_pixels: int
) -> list[BiasTile]:
    """The sample of all runs: at most ``gallery`` pictures, no side longer than ``embed_pixels``.

    Raises:
        UsageError: a negative number of pictures, or a size that shows nothing.
    """
    if gallery < 0:
        raise UsageError(f"gallery must be 0 (no pictures) or more, got {gallery}")
    if not 16 <= embed_pixels <= 4096:
        raise UsageError(f"embed_pixels must be between 16 and 4096, got {embed_pixels}")
    axes = union(b.axes for b in bias)
    found = [_Pictures(b, number, of, axes) for number, (b, of) in enumerate(zip(bias, decisions))]
    buckets: dict[str, dict[str, dict[str, list[str]]]] = {}
    for image_id in union([list(p.rows) for p in found]):
        pictures = next(p for p in found if image_id in p.rows)
        main, tone = pictures.label(image_id, axes[0] if axes else ""), pictures.label(image_id, TONE)
        buckets.setdefault(main, {}).setdefault(pictures.group(image_id), {}).setdefault(tone, []).append(image_id)
    order = turns(
        [
            turns(
                [
                    turns([sorted(ids, key=shuffled) for _, ids in sorted(by_tone.items(), key=_first_shuffled)])
                    for _, by_tone in sorted(groups.items())
                ]
            )
            for _, groups in sorted(buckets.items())
        ]
    )
    tiles: list[BiasTile] = []
    shown = 0
    for image_id in order:
        of = [p for p in found if image_id in p.rows]
        if shown + len(of) > gallery:
            break
        tiles.append(_tile(image_id, of, axes, embed_pixels))
        shown += len(of)
    return sorted(tiles, key=lambda tile: _place(tile, bias, axes))


def _first_shuffled(item: tuple[str, Sequence[str]]) -> str:
    return shuffled(item[0])


def _place(tile: BiasTile, bias: Sequence[BiasScores], axes: Sequence[str]) -> tuple[int, str, float]:
    """By class of the first axis, those without one last; then by what was asked and tone."""
    classes = union([b.classes(axes[0]) for b in bias]) if axes else []
    first = next(iter(tile.main["corrected"] or tile.main["released"]), "")
    tone = next((line.tone for shot in tile.shots for line in shot.lines["corrected"] if line.tone), math.inf)
    return classes.index(first) if first in classes else len(classes), tile.group, tone


class _Pictures:
    """All pictures of a run with what was decided about them."""

    def __init__(self, bias: BiasScores, number: int, decisions: Sequence[Decision], axes: Sequence[str]) -> None:
        self.bias, self.number, self.run = bias, number, bias.run
        self.prompts = {p.prompt_id: p for p in self.run.prompts()}
        self.rows = {row["image_id"]: row for row in self.run.read("images").sort("image_id").iter_rows(named=True)}
        self.decisions: dict[tuple[str, str], list[Decision]] = {}
        for d in decisions:
            self.decisions.setdefault((d.image_id, d.protocol), []).append(d)
        order = {name: n for n, name in enumerate((*axes, PERSON))}
        for of in self.decisions.values():
            of.sort(key=lambda d: (order.get(d.rule, len(order)), d.attribute))
        self._faces: dict[str, list[dict[str, Any]]] | None = None
        # A judge that takes the whole picture for skin looks for no faces, and its tone is that of the colour rule.
        judge = skin_judge(self.run)
        self._whole = judge is not None and judge.split()[:1] == [WHOLE_PICTURE]

    def label(self, image_id: str, axis: str) -> str:
        """Class of an axis by the corrected protocol, or by the first that has one; or why there is none."""
        for protocol in ("corrected", *PROTOCOLS):
            for d in self.decisions.get((image_id, protocol), ()):
                if d.rule == axis:
                    return d.label or d.gap
        return NO_VERDICT

    def _facets(self, image_id: str) -> Mapping[str, Any]:
        prompt = self.prompts.get(self.rows[image_id]["prompt_id"])
        return {} if prompt is None else prompt.facets

    def group(self, image_id: str) -> str:
        facets = self._facets(image_id)
        return str(facets.get(GROUP) or facets.get("category") or "")

    def descriptor(self, image_id: str) -> str:
        value = self._facets(image_id).get(self.bias.facet)
        return "" if value is None else str(value)

    def asked(self, image_id: str) -> str:
        prompt = self.prompts.get(self.rows[image_id]["prompt_id"])
        return (prompt.text if prompt else "") or image_id

    def faces(self, image_id: str) -> list[dict[str, Any]]:
        if self._faces is None:
            self._faces = {}
            judge = skin_judge(self.run)
            if judge is not None:
                for row in self.run.read("skin_tones", judge).sort("image_id", "face").iter_rows(named=True):
                    if row["face"] is not None and row["face"] >= 0:
                        self._faces.setdefault(row["image_id"], []).append(row)
        return self._faces.get(image_id, [])

    def shot(self, image_id: str, axes: Sequence[str], embed_pixels: int) -> Shot:
        row = self.rows[image_id]
        source, size, missing = picture_data(self.run, row, embed_pixels)
        width, height = row["width"] or size[0], row["height"] or size[1]
        faces = self.faces(image_id)[:MOST_FACES]
        by_protocol = {p: self.decisions.get((image_id, p), []) for p in PROTOCOLS}
        asked = {p: [d for d in of if d.rule == ATTRIBUTE] for p, of in by_protocol.items()}
        return Shot(
            run=self.number,
            image_id=image_id,
            source=source,
            missing=missing,
            note=row["note"] or "",
            boxes=_boxes(faces, width, height) if source and not self._whole else None,
            faces=tuple(_face(face, "rgb_tone" if self._whole else "tone") for face in faces),
            lines={p: [_line(d) for d in of if _told(d, axes)] for p, of in by_protocol.items()},
            worn={p: [d.attribute for d in of if d.label == "yes"] for p, of in asked.items()},
            unclear={p: [d.attribute for d in of if not d.label] for p, of in asked.items()},
            asked_attributes={p: len(of) for p, of in asked.items()},
        )


def _told(d: Decision, axes: Sequence[str]) -> bool:
    """Whether a decision has a line of its own: that a person is there goes without saying."""
    return d.rule in axes or (d.rule == PERSON and d.label != "yes")


def _line(d: Decision) -> LineShown:
    tone = int(d.label) if d.rule == TONE and d.label.isdecimal() else None
    return LineShown(axis=d.rule, label=d.label or d.gap, known=bool(d.label), reason=d.reason, vote=d.vote, tone=tone)


def _boxes(faces: Sequence[Mapping[str, Any]], width: int, height: int) -> Markup | None:
    drawn = []
    for face in faces:
        corners = [face[name] for name in ("x0", "y0", "x1", "y1")]
        if None not in corners:
            drawn.append((*corners, _face_words(face), face["state"] == "ok"))
    return picture_boxes(width=width, height=height, boxes=drawn)


def _face_words(face: Mapping[str, Any]) -> str:
    if face["state"] != "ok":
        return FACE_STATES.get(face["state"], str(face["state"]).replace("_", " "))
    return f"tone {face['tone']}" if face["tone"] is not None else "no tone"


def _face(face: Mapping[str, Any], column: str) -> FaceShown:
    rgb = [face[name] for name in ("red", "green", "blue")]
    known = all(c is not None and math.isfinite(c) for c in rgb)
    tone = face[column] if face[column] is not None and 1 <= face[column] <= 10 else None
    return FaceShown(
        words=_face_words(face),
        usable=face["state"] == "ok" and tone is not None,
        measured="#" + "".join(f"{min(max(round(c), 0), 255):02x}" for c in rgb) if known else "",
        tone=tone,
        swatch=monk_hex(tone) if tone is not None else "",
        note=face["note"] or "",
    )


def _tile(image_id: str, of: Sequence[_Pictures], axes: Sequence[str], embed_pixels: int) -> BiasTile:
    shots = tuple(p.shot(image_id, axes, embed_pixels) for p in of)
    main: dict[str, list[str]] = {}
    classes: dict[str, list[str]] = {}
    for protocol in PROTOCOLS:
        lines = [line for shot in shots for line in shot.lines[protocol]]
        main[protocol] = union([[line.label] for line in lines if axes and line.axis == axes[0]])
        classes[protocol] = union([[f"{line.axis}: {line.label}"] for line in lines])
    return BiasTile(
        asked=of[0].asked(image_id),
        group=of[0].group(image_id),
        descriptor=of[0].descriptor(image_id),
        shots=shots,
        main=main,
        classes=classes,
    )
