"""How often faces are found, and how much of the measured region is skin, on rendered portraits of the ten tones.

    python benchmarks/faces.py
    python benchmarks/faces.py --portraits 50 --size 256 --seed 5 --json
    python benchmarks/faces.py --truth PORTRAITS

The portraits are those of `verism scenes portraits`. ``found``: the share whose face the built-in finder and the
cascades find, by Monk tone, with its 95 % Wilson interval; ``equal``: p-values of a test of equal shares over the tones
and, adjusted by Holm, of the pair of tones that differs most; ``false``: other boxes per image. ``skin``: the share of
a region's pixels that the renderer says are bare skin of the head, in the mean and in the worst of twenty. ``moved``:
CIEDE2000 between the colours of a portrait and of a small JPEG of it, by the side of the face. With a folder of
portraits (``--truth``) faces are looked for in its images, and nothing else is measured.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from verism.judges.skin_tone.builtin import BuiltinFaces
from verism.judges.skin_tone.cascade import CascadeFaces
from verism.judges.skin_tone.colour import measure_skin
from verism.judges.skin_tone.faces import Face, FaceFinder, estimated_yaw
from verism.judges.skin_tone.regions import PARTS, skin_region
from verism.metrics.colour import ciede2000
from verism.simulator.assets.heads import LANDMARKS
from verism.simulator.portraits import Portrait, draw_light, draw_shot, draw_sitter, render_portrait
from verism.statistics.intervals import wilson
from verism.training.face_evaluation import equal_shares

SIDES = (12, 16, 24, 32, 48)


@dataclass(frozen=True)
class Line:
    """A number, of what, and over how many."""

    section: str
    what: str
    value: float
    n: int

    def line(self) -> str:
        return f"{self.section:<8} {self.what:<62} {self.value:>8.3f}  of {self.n}"


@dataclass(frozen=True, eq=False)
class Shown:
    """A portrait as finders see it: ``pixels``, and what is known of it: box, tone and landmarks of the face."""

    pixels: np.ndarray
    box: tuple[float, ...]
    tone: int
    landmarks: np.ndarray


def portraits(count: int, size: int, seed: int) -> list[tuple[Portrait, float]]:
    """Portraits whose tones go round, with the yaw of each in degrees."""
    made = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        light, shot = draw_light(rng), draw_shot(rng)
        spec, shape = draw_sitter(rng, number % 10 + 1)
        made.append((render_portrait(spec, shape, light, shot, size, seed=number), shot.yaw_deg))
    return made


def read_portraits(folder: Path) -> list[Shown]:
    """The portraits of a folder of ``verism scenes portraits``."""
    shown = []
    for row in csv.DictReader((folder / "truth.csv").read_text().splitlines()):
        points = [[float(row[f"{name}_{axis}"]) for axis in "xy"] for name in LANDMARKS]
        box = tuple(float(row[name]) for name in ("x0", "y0", "x1", "y1"))
        pixels = np.asarray(Image.open(folder / row["path"]).convert("RGB"))
        shown.append(Shown(pixels, box, int(row["tone"]), np.array(points)))
    return shown


def is_of(face: Face, portrait: Shown) -> bool:
    """Whether a box lies on the face: its middle between eyes and mouth, its width like a face's."""
    middle = (face.box[:2] + face.box[2:]) / 2
    aim = portrait.landmarks[[0, 1, 3, 4]].mean(axis=0)
    tall = portrait.box[3] - portrait.box[1]
    return bool(np.abs(middle - aim).max() < 0.35 * max(face.side, 0.5 * tall) and 0.4 < face.side / tall < 1.5)


def found(name: str, finder: FaceFinder, made: Sequence[Shown]) -> tuple[list[Line], list[Face | None]]:
    """Share of portraits whose face is found from the front, by tone, and boxes that are no face."""
    tones: dict[int, list[bool]] = defaultdict(list)
    boxes: list[Face | None] = []
    wrong = 0
    for portrait in made:
        faces = finder.find(portrait.pixels)
        right = [face for face in faces if is_of(face, portrait)]
        wrong += len(faces) - len(right)
        frontal = [face for face in right if not face.side_view]
        tones[portrait.tone].append(bool(frontal))
        boxes.append(frontal[0] if frontal else None)
    every = [hit for hits in tones.values() for hit in hits]
    lines = [_share(f"{name}, all tones", every)]
    lines += [_share(f"{name}, tone {tone}", tones[tone]) for tone in sorted(tones)]
    equal = equal_shares({str(tone): hits for tone, hits in sorted(tones.items())})
    pair = " and ".join(equal["pair"] or ("none",))
    lines.append(Line("equal", f"{name}, p over the tones", equal["p"], len(every)))
    lines.append(Line("equal", f"{name}, adjusted p, tones {pair}", equal["smallest_pair_p"], len(every)))
    return [*lines, Line("false", name, wrong / len(made), len(made))], boxes


def _share(what: str, hits: Sequence[bool]) -> Line:
    interval = wilson(float(sum(hits)), float(len(hits)))
    return Line("found", f"{what} [{interval.low:.3f}, {interval.high:.3f}]", float(np.mean(hits)), len(hits))


def skin(kind: str, pairs: Sequence[tuple[Portrait, Face]]) -> list[Line]:
    """Share of each part of the region that is bare skin."""
    shares = defaultdict(list)
    for portrait, face in pairs:
        for part in PARTS:
            mask = skin_region(face, portrait.skin.shape, [part])
            shares[part].append(float(portrait.skin[mask].mean()) if mask.any() else np.nan)
    lines = []
    for part, values in shares.items():
        lines.append(Line("skin", f"{kind}, {part}: mean", float(np.nanmean(values)), len(values)))
        lines.append(Line("skin", f"{kind}, {part}: worst of 20", float(np.nanquantile(values, 0.05)), len(values)))
    return lines


def moved(made: Sequence[Portrait]) -> list[Line]:
    """How far the colour of a face moves when its image is small and saved as JPEG."""
    lines = []
    for side in SIDES:
        differences = []
        for portrait in made:
            box = np.array(portrait.box)
            share = side / min(box[2] - box[0], box[3] - box[1])
            size = round(len(portrait.pixels) * share)
            if share > 1:
                continue
            buffer = io.BytesIO()
            Image.fromarray(portrait.pixels).resize((size, size), Image.Resampling.LANCZOS).save(
                buffer, "JPEG", quality=85
            )
            scale = size / len(portrait.pixels)
            labs = []
            for pixels, k in ((portrait.pixels, 1.0), (np.asarray(Image.open(buffer)), scale)):
                face = Face(box=box * k, landmarks=portrait.landmarks * k)
                labs.append(measure_skin(pixels, skin_region(face, pixels.shape), min_pixels=1).lab)
            if np.isfinite(labs).all():
                differences.append(float(ciede2000(np.array(labs[0]), np.array(labs[1]))))
        lines.append(Line("moved", f"face of {side} pixels", float(np.mean(differences)), len(differences)))
    return lines


def main() -> None:
    """Paint, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--portraits", type=int, default=200)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--truth", type=Path, help="a folder of `verism scenes portraits`, to look for faces in")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    value = parser.parse_args()
    drawn = [] if value.truth else portraits(value.portraits, value.size, value.seed)
    made = [portrait for portrait, _ in drawn]
    shown = (
        read_portraits(value.truth)
        if value.truth
        else [Shown(p.pixels, p.box, p.spec.skin_tone, p.landmarks) for p in made]
    )
    lines: list[Line] = []
    for name, finder in (("builtin", BuiltinFaces()), ("cascade", CascadeFaces())):
        result, boxes = found(name, finder, shown)
        lines += result
        if made:
            lines += skin(f"box of {name}", [(p, b) for p, b in zip(made, boxes, strict=True) if b])
    if made:
        lines += skin("true landmarks", [(p, Face(box=np.array(p.box), landmarks=p.landmarks)) for p in made])
        lines += skin("true box", [(p, Face(box=np.array(p.box))) for p in made])
        errors = [abs(estimated_yaw(p.landmarks) - yaw) for p, yaw in drawn]
        lines.append(Line("yaw", "mean error of the estimate, degrees", float(np.mean(errors)), len(errors)))
        lines += moved(made)
    print(json.dumps([asdict(line) for line in lines], indent=1) if value.json else "\n".join(x.line() for x in lines))


if __name__ == "__main__":
    main()
