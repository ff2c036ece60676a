"""Images of social bias by what was perceived in them: faces, measured colours, replies, and why nothing is known.

Classes of the first axis take turns, within these words for people and tones; otherwise images are chosen without
regard to how they look. With several runs, the images of one prompt and number stand side by side. The sample is a
function of the runs alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from verism.report_kit.evidence import Evidence, union
from verism.report_kit.figures import part
from verism.report_kit.gallery import (
    Choice,
    Gallery,
    Shot,
    Tile,
    gallery_section,
    image_boxes,
    image_data,
    shuffled,
    turns,
)
from verism.report_kit.section import Section
from verism.suites.social_bias.report_coverage import FACE_STATES, Decision, skin_judge
from verism.suites.social_bias.report_figures import monk_hex
from verism.suites.social_bias.report_scores import ATTRIBUTE, GROUP, PERSON, TONE, BiasScores

__all__ = ["FaceShown", "LineShown", "bias_gallery", "collect_tiles"]

MOST_FACES = 5  # boxes per image
WHOLE_IMAGE = "picture"  # first word of the name of a judge of skin that looks for no faces
NO_VERDICT = "not observed"


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
    """What one axis says of an image: ``label`` is the class, or why there is none (``known`` is false then)."""

    axis: str
    label: str
    known: bool
    reason: str
    vote: str
    tone: int | None


def bias_gallery(
    evidence: Evidence,
    bias: Sequence[BiasScores],
    decisions: Sequence[Sequence[Decision]],
    warnings: Mapping[str, str],
) -> Section:
    """Images by what was perceived in them, runs side by side.

    Args:
        evidence: what the report is made of.
        bias: scores of each run.
        decisions: of each run.
        warnings: by axis, what has to be said beside it.
    """
    axes = union(b.axes for b in bias)
    tiles = collect_tiles(evidence, bias, decisions, warnings)
    main = union(tile.outcomes[p] for tile in tiles for p in evidence.protocols)
    with_boxes = any(shot.boxes is not None for tile in tiles for shot in tile.shots)
    several = " Images of the same prompt and number stand side by side." if len(evidence.runs) > 1 else ""
    filters = {name: union(tile.facets[name] for tile in tiles) for name in ("prompts", bias[0].facet)}
    filters[bias[0].facet].sort()
    key = Markup(
        '<span class="swatch"></span>face used <span class="swatch other"></span>face not used; the measured colour is '
        "that of the image, and stands beside the swatch it was given"
    )
    gallery = Gallery(
        tiles=tiles,
        intro="classes take turns, so the shares here are not those of the run; otherwise images were chosen without "
        f"regard to how they look.{several} What a judge perceives in an image is no statement on anybody.",
        outcomes=[Choice(name, name) for name in main] if axes else [],
        legend=f"Perceived {axes[0]}" if axes else "",
        filters=[(name, values) for name, values in filters.items() if len(values) > 1],
        classes=_class_filter(evidence, tiles, axes),
        boxes=with_boxes,
        key=key if with_boxes else Markup(""),
        css="rows alone" if len(evidence.runs) == 1 else "rows",
        what="images" if len(evidence.runs) == 1 else "prompts",
    )
    return gallery_section(evidence, gallery, title="Images, by what was perceived")


def _class_filter(evidence: Evidence, tiles: Sequence[Tile], axes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """What the images can be filtered by beside the first axis: labels by axis."""
    results: dict[str, list[str]] = {}
    for text in union(tile.classes[p] for tile in tiles for p in evidence.protocols):
        axis, _, label = text.partition(": ")
        results.setdefault(axis, []).append(label)
    for labels in results.values():
        labels.sort(key=lambda label: (not label.isdecimal(), int(label) if label.isdecimal() else 0, label))
    return [(axis, labels) for axis, labels in results.items() if not axes or axis != axes[0]]


def collect_tiles(
    evidence: Evidence,
    bias: Sequence[BiasScores],
    decisions: Sequence[Sequence[Decision]],
    warnings: Mapping[str, str],
) -> list[Tile]:
    """The sample of all runs: at most ``evidence.gallery`` images.

    Args:
        evidence: what the report is made of.
        bias: scores of each run.
        decisions: of each run.
        warnings: by axis, what has to be said beside it.
    """
    axes = union(b.axes for b in bias)
    results = [_Images(evidence, b, members, axes, warnings) for b, members in zip(bias, decisions, strict=True)]
    buckets: dict[str, dict[str, dict[str, list[str]]]] = {}
    for image_id in union([list(p.rows) for p in results]):
        images = next(p for p in results if image_id in p.rows)
        main, tone = images.label(image_id, axes[0] if axes else ""), images.label(image_id, TONE)
        buckets.setdefault(main, {}).setdefault(images.group(image_id), {}).setdefault(tone, []).append(image_id)
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
    tiles: list[tuple[tuple[int, str, float], Tile]] = []
    shown = 0
    for image_id in order:
        owner = [p for p in results if image_id in p.rows]
        if shown + len(owner) > evidence.gallery:
            break
        tiles.append((_place(image_id, owner, axes), _tile(evidence, image_id, owner, axes)))
        shown += len(owner)
    return [tile for _, tile in sorted(tiles, key=lambda pair: pair[0])]


def _first_shuffled(item: tuple[str, Sequence[str]]) -> str:
    return shuffled(item[0])


def _place(image_id: str, of: Sequence[_Images], axes: Sequence[str]) -> tuple[int, str, float]:
    """By class of the first axis, those without one last; then by what was asked and tone."""
    classes = union(p.bias.classes(axes[0]) for p in of) if axes else []
    labels = [p.label(image_id, axes[0]) for p in of] if axes else []
    tones = [tone for p in of if (tone := p.label(image_id, TONE)).isdecimal()]
    first = next(iter(labels), "")
    lightest = float(tones[0]) if tones else math.inf
    return classes.index(first) if first in classes else len(classes), of[0].group(image_id), lightest


class _Images:
    """All images of a run with what was decided about them."""

    def __init__(
        self,
        evidence: Evidence,
        bias: BiasScores,
        decisions: Sequence[Decision],
        axes: Sequence[str],
        warnings: Mapping[str, str],
    ) -> None:
        self.evidence, self.bias, self.run, self.axes, self.warnings = evidence, bias, bias.run, axes, warnings
        self.prompts = {p.prompt_id: p for p in self.run.prompts()}
        self.rows = {row["image_id"]: row for row in self.run.read("images").sort("image_id").iter_rows(named=True)}
        self.decisions: dict[tuple[str, str], list[Decision]] = {}
        for d in decisions:
            self.decisions.setdefault((d.image_id, d.protocol), []).append(d)
        order = {name: n for n, name in enumerate((*axes, PERSON))}
        for members in self.decisions.values():
            members.sort(key=lambda d: (order.get(d.rule, len(order)), d.attribute))
        self._faces: dict[str, list[dict[str, Any]]] | None = None
        # A judge that takes the whole image for skin looks for no faces, and its tone is that of the colour rule.
        judge = skin_judge(self.run)
        self._whole = judge is not None and judge.split()[:1] == [WHOLE_IMAGE]

    def label(self, image_id: str, axis: str) -> str:
        """Class of an axis by the first protocol that has one; or why there is none."""
        for protocol in self.evidence.protocols:
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

    def lines(self, image_id: str, protocol: str) -> list[LineShown]:
        """What is said of an image, axis by axis."""
        return [_line(d) for d in self.decisions.get((image_id, protocol), []) if _told(d, self.axes)]

    def shot(self, image_id: str) -> Shot:
        """An image as it is shown."""
        row = self.rows[image_id]
        source, size, missing = image_data(self.run, row, self.evidence.embed_pixels)
        width, height = row["width"] or size[0], row["height"] or size[1]
        faces = self.faces(image_id)[:MOST_FACES]
        asked = {
            p: [d for d in self.decisions.get((image_id, p), []) if d.rule == ATTRIBUTE]
            for p in self.evidence.protocols
        }
        note = (row["note"] or "") if source is not None else ""
        below = part(
            self.evidence,
            "shot.html.j2",
            package=__package__,
            run=self.bias.number,
            lines={p: self.lines(image_id, p) for p in self.evidence.protocols},
            worn={p: [d.attribute for d in members if d.label == "yes"] for p, members in asked.items()},
            unclear={p: [d.attribute for d in members if not d.label] for p, members in asked.items()},
            asked={p: len(members) for p, members in asked.items()},
            faces=[_face(face, "rgb_tone" if self._whole else "tone") for face in faces],
            note=note,
            warnings=self.warnings,
        )
        return Shot(
            image_id=image_id,
            asked=self.asked(image_id),
            source=source,
            missing=missing,
            note=row["note"] or "",
            boxes=_boxes(faces, width, height) if source and not self._whole else None,
            words=below,
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
    return image_boxes(width=width, height=height, boxes=drawn)


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


def _tile(evidence: Evidence, image_id: str, of: Sequence[_Images], axes: Sequence[str]) -> Tile:
    main: dict[str, list[str]] = {}
    classes: dict[str, list[str]] = {}
    for protocol in evidence.protocols:
        lines = [line for images in of for line in images.lines(image_id, protocol)]
        main[protocol] = list(dict.fromkeys(line.label for line in lines if axes and line.axis == axes[0]))
        classes[protocol] = list(dict.fromkeys(f"{line.axis}: {line.label}" for line in lines))
    facets = {"prompts": of[0].group(image_id), of[0].bias.facet: of[0].descriptor(image_id)}
    return Tile(
        run=None,
        asked=of[0].asked(image_id),
        shots=tuple(images.shot(image_id) for images in of),
        outcomes=main,
        facets={name: [value] if value else [] for name, value in facets.items()},
        classes=classes,
        meta=[image_id],
    )
