"""Calibrate the colour rule of ``verism.metrics.named_colours`` on rendered objects, and measure it on others.

python benchmarks/colour_rule.py --fit        prints the constants of the module (prototypes, weights)
python benchmarks/colour_rule.py              measures the rule as it is, on seeds that calibration never saw

Prototypes: pixels of painted solids under the lights of ten environments, four centres a colour by k-means in CIELAB.
Weights: painted objects of all classes, whose tyres, glass, skin and shadows are no paint; a colour's weight multiplies
its share of the pixels, chosen by coordinate ascent on the share of objects named rightly.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from scipy.cluster.vq import kmeans2

from verism.metrics.colour import lab
from verism.metrics.named_colours import COLORS, WEIGHTS, color_shares
from verism.records import Scene, SceneObject
from verism.simulator.assets.solids import SOLIDS
from verism.simulator.catalogue import standard_catalogue
from verism.simulator.scene_renderer import SceneRenderer

PLACES = (
    *("meadow", "beach", "desert", "snowfield", "city_plaza", "forest_clearing"),
    *("living_room", "photo_studio", "warehouse", "sunset_coast"),
)
CALIBRATION_SEEDS = range(1_000_000, 1_000_002)  # of which no test and no measurement makes use
SEEDS = range(2)
CENTRES = 4
SIZE = 160


def objects(labels: Sequence[str], seeds: Sequence[int]) -> list[tuple[str, SceneObject, str, int]]:
    """Colour, object, environment and seed of every image to render."""
    made = []
    for seed in seeds:
        for number, label in enumerate(labels):
            for k, color in enumerate(COLORS):
                name = label if not label.startswith("solid:") else "solid"
                place = PLACES[(number + 3 * k + 7 * seed) % len(PLACES)]
                key = (seed * 1000 + number) * 100 + k
                made.append((color, SceneObject(shape=label, label=name, color=color), place, key))
    return made


def pixels_of(item: tuple[str, SceneObject, str, int]) -> tuple[str, str, np.ndarray]:
    """Colour, class, and the object's pixels, RGB, shape (N, 3)."""
    color, obj, place, seed = item
    scene = Scene(
        scene_id=f"{obj.label} {seed}",
        skill="object",
        split="val",
        text="",
        background=place,
        objects=(obj,),
        seed=seed,
    )
    rendered = SceneRenderer(SIZE).render(scene)
    return color, obj.label, rendered.pixels[rendered.mask == 1]


def render(labels: Sequence[str], seeds: Sequence[int], processes: int) -> list[tuple[str, str, np.ndarray]]:
    """What ``pixels_of`` gives for every object."""
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(pixels_of, objects(labels, seeds), chunksize=8))


def fit_prototypes(images: Sequence[tuple[str, str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Centres in CIELAB by colour."""
    rng = np.random.default_rng(0)
    centres = {}
    for color in COLORS:
        drawn = [rng.choice(p, size=min(len(p), 300), replace=False) for c, _, p in images if c == color]
        values = lab(np.concatenate(drawn))
        centres[color] = kmeans2(values, CENTRES, seed=1, minit="++")[0].round(1)
    return centres


def fit_weights(images: Sequence[tuple[str, str, np.ndarray]]) -> dict[str, float]:
    """Weights by colour, that of the first kept at 1."""
    shares = np.array([color_shares(p, COLORS) for _, _, p in images])
    truth = np.array([COLORS.index(c) for c, _, _ in images])
    weights = np.ones(len(COLORS))
    grid = (0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.6, 2.0, 2.5, 3.0, 4.0)
    for _ in range(6):
        for k in range(len(COLORS)):

            def right(value: float, k: int = k) -> tuple[float, float]:
                tried = weights.copy()
                tried[k] = value
                return float(((shares * tried).argmax(axis=1) == truth).mean()), -abs(np.log(value))

            weights[k] = max(grid, key=right)
    return dict(zip(COLORS, weights.tolist(), strict=True))


def measure(images: Sequence[tuple[str, str, np.ndarray]]) -> None:
    """Print the share of objects named rightly, overall, by colour and by class."""
    weights = np.array([WEIGHTS[c] for c in COLORS])
    named = [COLORS[int((color_shares(p, COLORS) * weights).argmax())] for _, _, p in images]
    right = np.array([n == c for n, (c, _, _) in zip(named, images, strict=True)])
    print(f"{len(right):,} objects, named rightly {right.mean():.1%}")
    for position, what in ((0, "colour"), (1, "class")):
        for value in dict.fromkeys(image[position] for image in images):
            of_value = np.array([image[position] == value for image in images])
            print(f"  {what} {value:<16} {right[of_value].mean():6.1%} of {of_value.sum()}")


def main() -> None:
    """Fit or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="Print prototypes and weights fitted anew.")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    classes = [label for label in standard_catalogue().assets if label != "person"]
    solids = [f"solid:{name}" for name in SOLIDS]
    if options.fit:
        from verism.metrics import named_colours

        seeds = [*CALIBRATION_SEEDS, CALIBRATION_SEEDS.stop]
        named_colours.PROTOTYPES = fit_prototypes(render(solids, seeds, options.processes))
        named_colours.prototype_table.cache_clear()
        for color, centres in named_colours.PROTOTYPES.items():
            print(f"    {color!r}: {[tuple(c) for c in centres.tolist()]},")
        print(fit_weights(render(classes, CALIBRATION_SEEDS, options.processes)))
        return
    measure(render([*classes, *solids], SEEDS, options.processes))


if __name__ == "__main__":
    main()
