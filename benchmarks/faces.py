"""How often faces are found, and how much of the measured region is skin, on rendered portraits of the ten tones.

    python benchmarks/faces.py
    python benchmarks/faces.py --portraits 50 --size 256 --seed 5 --json

The portraits are those of `verism.simulator.portraits`: turned by up to 40 degrees, under varied light. ``found``: the
share whose face a cascade finds from the front, by Monk tone; ``false``: other boxes per image. ``skin``: the share
of a region's pixels that the renderer says are bare skin of the head, in the mean and in the worst of twenty.
``moved``: CIEDE2000 between the colours of a portrait and of a small JPEG of it, by the side of the face.
"""

from __future__ import annotations

import argparse
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from PIL import Image

from verism.judges.skin_tone.cascade import PASSES, CascadeFaces
from verism.judges.skin_tone.colour import measure_skin
from verism.judges.skin_tone.faces import Face, estimated_yaw
from verism.judges.skin_tone.regions import PARTS, skin_region
from verism.metrics.colour import ciede2000
from verism.simulator.assets.heads import draw_face
from verism.simulator.portraits import Portrait, draw_light, draw_shot, render_portrait
from verism.simulator.wardrobe import dressed_person

SIDES = (12, 16, 24, 32, 48)


@dataclass(frozen=True)
class Line:
    """A number, of what, and over how many."""

    section: str
    what: str
    value: float
    n: int

    def line(self) -> str:
        return f"{self.section:<12} {self.what:<40} {self.value:>8.3f}  of {self.n}"


def portraits(count: int, size: int, seed: int) -> list[tuple[Portrait, float]]:
    """Portraits whose tones go round, with the yaw of each in degrees."""
    made = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        light, shot, shape = draw_light(rng), draw_shot(rng), draw_face(rng)
        worn = {name for name, share in (("hat", 0.08), ("glasses", 0.2)) if rng.random() < share}
        spec = dressed_person(rng, worn, skin_tone=number % 10 + 1, pose="relaxed")
        made.append((render_portrait(spec, shape, light, shot, size, seed=number), shot.yaw_deg))
    return made


def is_of(face: Face, portrait: Portrait) -> bool:
    """Whether a square box lies on the face: its middle between eyes and mouth, its width like a face's."""
    middle = (face.box[:2] + face.box[2:]) / 2
    aim = portrait.landmarks[[0, 1, 3, 4]].mean(axis=0)
    tall = portrait.box[3] - portrait.box[1]
    return bool(np.abs(middle - aim).max() < 0.35 * face.side and 0.5 < face.side / tall < 1.5)


def found(made: Sequence[Portrait], passes: Sequence[str]) -> tuple[list[Line], list[tuple[Portrait, Face]]]:
    """Share of portraits whose face is found from the front, by tone, and boxes that are no face."""
    finder = CascadeFaces(passes=passes)
    tones, boxes, wrong = defaultdict(list), [], 0
    for portrait in made:
        faces = finder.find(portrait.pixels)
        right = [face for face in faces if is_of(face, portrait)]
        wrong += len(faces) - len(right)
        frontal = [face for face in right if not face.side_view]
        tones[portrait.spec.skin_tone].append(bool(frontal))
        boxes += [(portrait, face) for face in frontal[:1]]
    name = "+".join(passes)
    every = [hit for hits in tones.values() for hit in hits]
    lines = [Line("found", f"{name}, all tones", float(np.mean(every)), len(every))]
    lines += [Line("found", f"{name}, tone {tone}", float(np.mean(hits)), len(hits)) for tone, hits in tones.items()]
    return [*lines, Line("false", name, wrong / len(made), len(made))], boxes


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
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    value = parser.parse_args()
    drawn = portraits(value.portraits, value.size, value.seed)
    made = [portrait for portrait, _ in drawn]
    lines: list[Line] = []
    boxes: list[tuple[Portrait, Face]] = []
    for passes in (PASSES[:1], PASSES[:2], PASSES):
        result, on_face = found(made, passes)
        lines += result
        boxes = on_face  # of all passes in the end: the default
    lines += skin("true landmarks", [(p, Face(box=np.array(p.box), landmarks=p.landmarks)) for p in made])
    lines += skin("true box", [(p, Face(box=np.array(p.box))) for p in made])
    lines += skin("box of the cascade", boxes)
    errors = [abs(estimated_yaw(p.landmarks) - yaw) for p, yaw in drawn]
    lines.append(Line("yaw", "mean error of the estimate, degrees", float(np.mean(errors)), len(errors)))
    lines += moved(made)
    print(json.dumps([asdict(line) for line in lines], indent=1) if value.json else "\n".join(x.line() for x in lines))


if __name__ == "__main__":
    main()
