"""The pictures a report shows: a balanced sample, each with its verdicts, boxes and reason.

Of thousands of pictures a report can hold some hundred. They are drawn without regard to anything but what they show:
wrong and unusable ones have the larger share, because there is more to learn from them, and within each outcome skills
and objects take turns. The draw is a function of the run alone, so a report made twice is the same.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from verism.errors import UsageError
from verism.records import PROTOCOLS, Prompt
from verism.reports.figures import picture_boxes
from verism.store import TRUTH, Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Outcome", "Tile", "Verdict", "box_threshold", "collect", "judge_of"]

Outcome = Literal["right", "wrong", "unusable"]
OUTCOMES: tuple[Outcome, ...] = ("wrong", "unusable", "right")
SHARES: Mapping[Outcome, float] = {"wrong": 0.5, "unusable": 0.2, "right": 0.3}

DEFAULT_THRESHOLD = 0.5
MAX_BOXES = 30  # drawn per picture; with more, nothing of the picture would be seen
JPEG_QUALITY = 82


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What one protocol says of a picture, and why in words."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Tile:
    """One picture of the gallery.

    Attributes:
        run: number of the run. image_id: within the run.
        facets: of the prompt. asked: the prompt.
        verdicts: by protocol.
        source: the picture as a data URI, or None; then ``missing`` says in words why there is nothing to see.
        aspect: width / height of the picture, 1.0 without one.
        boxes: overlay, or None. seen: the same in words, for those who do not see it.
        note: what the run says about the picture (how it was read, why it was refused).
    """

    run: int
    image_id: str
    asked: str
    facets: Mapping[str, Any]
    verdicts: Mapping[str, Verdict]
    source: str | None
    missing: str
    aspect: float
    boxes: Markup | None
    seen: str
    note: str

    @property
    def skill(self) -> str:
        return str(self.facets.get("skill") or "")

    @property
    def objects(self) -> tuple[str, ...]:
        """Objects the prompt asks for, each once."""
        named = (self.facets.get("object"), self.facets.get("object_b"))
        return tuple(dict.fromkeys(str(name) for name in named if name is not None))


def judge_of(run: Run) -> str | None:
    """The detector whose boxes the verdicts of a run rest on; the painter itself (``truth``) if it was not judged.

    A run may hold several detectors' observations: its notes name the one that was scored with.
    """
    names = run.judges("detections")
    named = run.judge("detector")
    if named in names:
        return named
    if names:
        return names[0]
    return TRUTH if run.has_truth("detections") else None


def box_threshold(run: Run) -> float:
    """Confidence from which boxes are drawn: the run's limit of the corrected protocol, 0.5 if it names none."""
    rules = run.manifest.get("notes", {}).get("rules")
    value = rules.get("threshold_corrected") if isinstance(rules, Mapping) else None
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable and value is not None else DEFAULT_THRESHOLD


def collect(runs: Sequence[Run], *, gallery: int, embed_pixels: int) -> list[Tile]:
    """The sample of all runs: at most ``gallery`` pictures, no side longer than ``embed_pixels``.

    Raises:
        UsageError: a negative number of pictures, or a size that shows nothing.
    """
    if gallery < 0:
        raise UsageError(f"gallery must be 0 (no pictures) or more, got {gallery}")
    if not 16 <= embed_pixels <= 4096:
        raise UsageError(f"embed_pixels must be between 16 and 4096, got {embed_pixels}")
    prompts = [{p.prompt_id: p for p in run.prompts()} for run in runs]
    images = [run.read("images").sort("image_id") for run in runs]
    verdicts = [_verdicts(run) for run in runs]
    orders = [_order(*parts) for parts in zip(images, prompts, verdicts)]
    tiles: list[Tile] = []
    for number, share in enumerate(even_shares([sum(map(len, order.values())) for order in orders], gallery)):
        chosen = pick(orders[number], share)
        tiles += _tiles(
            number, runs[number], images[number], chosen, prompts[number], verdicts[number], embed_pixels=embed_pixels
        )
    # Over all runs by outcome, then as they were drawn: pictures of the same outcome lie together.
    return sorted(tiles, key=lambda tile: OUTCOMES.index(tile.verdicts["corrected"].outcome))


# --------------------------------------------------------------------------------------------------------------------
# Which pictures
# --------------------------------------------------------------------------------------------------------------------
def _verdicts(run: Run) -> dict[str, dict[str, Verdict]]:
    import polars as pl

    found: dict[str, dict[str, Verdict]] = {}
    rows = run.verdicts().filter(pl.col("rule") == "accuracy")
    for image_id, protocol, value, reason in rows.select("image_id", "protocol", "value", "reason").iter_rows():
        outcome: Outcome = "unusable" if value is None else "right" if value >= 0.5 else "wrong"
        found.setdefault(image_id, {})[protocol] = Verdict(outcome=outcome, reason=reason or "")
    return {image: _undecided() | by for image, by in found.items()}


def _undecided() -> dict[str, Verdict]:
    return {p: Verdict(outcome="unusable", reason="no verdict yet") for p in PROTOCOLS}


def _order(
    images: pl.DataFrame, prompts: Mapping[str, Prompt], verdicts: Mapping[str, Mapping[str, Verdict]]
) -> dict[Outcome, list[str]]:
    """Pictures by outcome, each list so that every beginning of it is spread over skills, then objects."""
    groups: dict[Outcome, dict[str, dict[str, list[str]]]] = {outcome: {} for outcome in OUTCOMES}
    for image_id, prompt_id in images.select("image_id", "prompt_id").iter_rows():
        facets = prompts[prompt_id].facets if prompt_id in prompts else {}
        outcome = verdicts.get(image_id, _undecided())["corrected"].outcome
        by_skill = groups[outcome].setdefault(str(facets.get("skill")), {})
        by_skill.setdefault(str(facets.get("object")), []).append(image_id)
    return {
        outcome: turns([_spread_objects(skill, by_object) for skill, by_object in skills.items()])
        for outcome, skills in groups.items()
    }


def _spread_objects(skill: str, by_object: Mapping[str, Sequence[str]]) -> list[str]:
    """Pictures of one skill, objects in turn. Their order is shuffled, or short galleries would hold airplanes only."""
    names = sorted(by_object, key=lambda name: shuffled(f"{skill}/{name}"))
    return turns([sorted(by_object[name], key=shuffled) for name in names])


def shuffled(text: str) -> str:
    """Sorting by this is a shuffle that is the same everywhere; equal ids of two runs keep equal places."""
    return hashlib.sha256(text.encode()).hexdigest()


def turns(queues: Sequence[Sequence[str]]) -> list[str]:
    """One of each in turn until all are empty."""
    longest = max(map(len, queues), default=0)
    return [queue[k] for k in range(longest) for queue in queues if k < len(queue)]


def even_shares(sizes: Sequence[int], total: int) -> list[int]:
    """``total`` dealt out evenly, none getting more than it can use."""
    shares = [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda k: (sizes[k], k))  # the smallest first: what they leave, others get
    for place, k in enumerate(order):
        left = total - sum(shares)
        shares[k] = min(sizes[k], -(-left // (len(order) - place)))
    return shares


def pick(order: Mapping[Outcome, Sequence[str]], total: int) -> list[str]:
    """The first pictures of every outcome, by ``SHARES``; what one outcome cannot use goes to the others in turn."""
    wanted = {outcome: min(math.ceil(SHARES[outcome] * total), len(order[outcome])) for outcome in OUTCOMES}
    for outcome in reversed(OUTCOMES):  # rounding up may have promised a picture or two too many
        wanted[outcome] -= min(wanted[outcome], max(0, sum(wanted.values()) - total))
    for outcome in OUTCOMES:
        wanted[outcome] += min(len(order[outcome]) - wanted[outcome], total - sum(wanted.values()))
    return [image for outcome in OUTCOMES for image in order[outcome][: wanted[outcome]]]


# --------------------------------------------------------------------------------------------------------------------
# What is shown of each
# --------------------------------------------------------------------------------------------------------------------
def _tiles(
    number: int,
    run: Run,
    images: pl.DataFrame,
    chosen: Sequence[str],
    prompts: Mapping[str, Prompt],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    *,
    embed_pixels: int,
) -> Iterator[Tile]:
    rows = {row["image_id"]: row for row in images.iter_rows(named=True) if row["image_id"] in set(chosen)}
    boxes = _boxes(run, chosen)
    for image_id in chosen:
        row = rows[image_id]
        prompt = prompts.get(row["prompt_id"])
        source, size, missing = picture_data(run, row, embed_pixels)
        labels = tuple(prompt.spec.get("labels", ())) if prompt else ()
        drawn = [(x0, y0, x1, y1, text, label in labels) for x0, y0, x1, y1, text, label in boxes.get(image_id, [])]
        width, height = row["width"] or size[0], row["height"] or size[1]
        yield Tile(
            run=number,
            image_id=image_id,
            asked=prompt.text if prompt else "",
            facets=prompt.facets if prompt else {},
            verdicts=verdicts.get(image_id, _undecided()),
            source=source,
            missing=missing,
            aspect=width / height,
            boxes=picture_boxes(width=width, height=height, boxes=drawn) if source else None,
            seen=", ".join(text for *_, text, _ in drawn) or "none",
            note=row["note"] or "",
        )


def _boxes(run: Run, chosen: Sequence[str]) -> dict[str, list[tuple[float, float, float, float, str, str | None]]]:
    """Boxes above the threshold per picture, most confident first: corners, text, label."""
    import polars as pl

    judge = judge_of(run)
    if judge is None or not chosen:
        return {}
    rows = (
        run.read("detections", judge)
        .filter(
            (pl.col("query") >= 0) & (pl.col("score") > box_threshold(run)) & pl.col("image_id").is_in(list(chosen))
        )
        .sort("image_id", "score", "query", descending=[False, True, False])
        .select("image_id", "x0", "y0", "x1", "y1", "label", "raw_label", "color", "score")
    )
    found: dict[str, list[tuple[float, float, float, float, str, str | None]]] = {}
    for image_id, x0, y0, x1, y1, label, raw, color, score in rows.iter_rows():
        kept = found.setdefault(image_id, [])
        if len(kept) < MAX_BOXES and None not in (x0, y0, x1, y1):
            words = " ".join(filter(None, (color, label or raw or "other object")))
            kept.append((x0, y0, x1, y1, f"{words} {score:.2f}", label))
    return found


def picture_data(run: Run, row: Mapping[str, Any], embed_pixels: int) -> tuple[str | None, tuple[int, int], str]:
    """Data URI, its size, and why there is none."""
    from verism.imaging import read_picture

    if row["path"] is None:
        return None, (1, 1), row["state"]
    try:
        read = read_picture(run.resolve(row["path"]))
    except ValueError:  # no file can have this name
        return None, (1, 1), f"{row['state']}; its file name is not valid here"
    if read.pixels is None:
        now = f"{row['state']} when the run was made, now {read.state}" if row["state"] == "ok" else row["state"]
        return None, (1, 1), f"{now}: {read.note}" if read.note else now
    from PIL import Image as PilImage

    picture = PilImage.fromarray(read.pixels)
    size = picture.size
    picture.thumbnail((embed_pixels, embed_pixels), PilImage.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=JPEG_QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii"), size, ""
