"""Skin tone of faces that are already found, beside plain loops over their pixels: read the ratios.

    python benchmarks/skin_tone.py
    python benchmarks/skin_tone.py --images 20 --size 256 --json

From an image and a mask of skin to colour, ITA, tone, the released angle and tone, and the pixel rule. ``loop`` does
this one pixel at a time in plain Python, as the formulas read; ``array`` is `measure_skin` with the same average (the
mean, which both can do exactly alike), and its values must be the loop's, or there is no figure. ``median`` and
``median + white-patch`` are what the default and a correction for light cost beside that; no loop does the same.

Images per second of one thread (``OMP_NUM_THREADS=1``); the loop is timed on some of the images.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict

import numpy as np
from measuring import Measured, best_of

from verism.judges.skin_tone.colour import SkinColour, measure_skin
from verism.metrics.colour import MONK_ITA, MONK_LAB, MONK_RGB

LOOPED = 3  # images the loop is timed on
Values = tuple[float, int, int, float, int, int]  # ITA, tone, by ITA, released ITA, released tone, pixel rule


def portraits(count: int, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images of shaded, noisy skin of the ten tones in turn before a wall, and masks of a face a third as wide."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:size, :size] / size - 0.5
    face = (rows / 1.3) ** 2 + columns**2 < (1 / 6) ** 2
    made = []
    for number in range(count):
        image = np.full((size, size, 3), rng.uniform(60, 200, 3))
        image[face] = MONK_RGB[number % 10]
        image = image * (0.9 - 0.3 * columns)[..., None] + rng.normal(0, 4, image.shape)
        made.append((np.clip(np.rint(image), 0, 255).astype(np.uint8), face))
    return made


# -------------------------------------------------------------------------------------------------- one pixel at a time
def to_linear(level: float) -> float:
    x = level / 255
    return x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4


def root(t: float) -> float:
    return t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116


def lab(red: float, green: float, blue: float) -> tuple[float, float, float]:
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.0890
    fx, fy, fz = root(x), root(y), root(z)
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def half_up(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) >> bits


GAMMA = [round(2040 * to_linear(level)) for level in range(256)]
ROOTS = [round(float(np.float32(32768 * root(i / 2040)))) for i in range(3072)]  # single precision, as OpenCV's table


def released_angle(red: int, green: int, blue: int) -> float:
    red, blue = GAMMA[blue], GAMMA[red]  # swapped
    green = GAMMA[green]
    fy = ROOTS[half_up(871 * red + 2929 * green + 296 * blue, 12)]
    fz = ROOTS[half_up(73 * red + 448 * green + 3575 * blue, 12)]
    lightness = half_up(296 * fy - (16 * 255 * 32768 + 50) // 100, 15)
    b = half_up(200 * (fy - fz) + 128 * 32768, 15)
    return math.degrees(math.atan((min(max(lightness, 0), 255) - 50) / min(max(b, 0), 255)))


def passes(red: int, green: int, blue: int) -> bool:
    if not (red > 95 and green > 40 and blue > 20 and red > green and red > blue and abs(red - green) > 15):
        return False
    y = half_up(4899 * red + 9617 * green + 1868 * blue, 14)
    cr = half_up(11682 * (red - y) + (128 << 14), 14)
    cb = half_up(9241 * (blue - y) + (128 << 14), 14)
    return (
        cr > 135
        and cb > 85
        and y > 80
        and cr <= 1.5862 * cb + 20
        and cr >= 0.3448 * cb + 76.2069
        and cr >= -4.5652 * cb + 234.5652
        and cr <= -1.15 * cb + 301.75
        and cr <= -2.2857 * cb + 432.85
    )


def nearest(distances: list[float]) -> int:
    return 1 + distances.index(min(distances))


def difference(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """CIEDE2000, for one pair."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    c7 = ((math.hypot(a1, b1) + math.hypot(a2, b2)) / 2) ** 7
    g = 0.5 * (1 - math.sqrt(c7 / (c7 + 25**7)))
    c1, c2 = math.hypot((1 + g) * a1, b1), math.hypot((1 + g) * a2, b2)
    h1, h2 = math.degrees(math.atan2(b1, (1 + g) * a1)) % 360, math.degrees(math.atan2(b2, (1 + g) * a2)) % 360
    dh = h2 - h1 - 360 * (h2 - h1 > 180) + 360 * (h2 - h1 < -180)
    big_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(dh / 2))
    h = (h1 + h2) / 2 if abs(h1 - h2) <= 180 else (h1 + h2 + (360 if h1 + h2 < 360 else -360)) / 2
    c, lightness = (c1 + c2) / 2, (l1 + l2) / 2
    cosine = [math.cos(math.radians(angle)) for angle in (h - 30, 2 * h, 3 * h + 6, 4 * h - 63)]
    t = 1 - 0.17 * cosine[0] + 0.24 * cosine[1] + 0.32 * cosine[2] - 0.2 * cosine[3]
    x = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / math.sqrt(20 + (lightness - 50) ** 2))
    y, z = (c2 - c1) / (1 + 0.045 * c), big_h / (1 + 0.015 * c * t)
    turn = math.radians(60 * math.exp(-(((h - 275) / 25) ** 2)))
    return math.sqrt(x * x + y * y + z * z - 2 * math.sqrt(c**7 / (c**7 + 25**7)) * math.sin(turn) * y * z)


def loop(image: np.ndarray, mask: np.ndarray) -> Values:
    light, angles, passed = [0.0, 0.0, 0.0], [], []
    n = 0
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            if not mask[row, column]:
                continue
            red, green, blue = (int(v) for v in image[row, column])
            n += 1
            for channel, level in enumerate((red, green, blue)):
                light[channel] += to_linear(level)
            if red or green or blue:
                angles.append(released_angle(red, green, blue))
            if passes(red, green, blue):
                passed.append((red, green, blue))
    lightness, a, b = lab(*(total / n for total in light))
    ita = math.degrees(math.atan2(lightness - 50, b))
    released = sum(angles) / len(angles)
    rule = 0
    if passed:
        mean = [sum(pixel[i] for pixel in passed) / len(passed) for i in range(3)]
        rule = nearest([sum(abs(m - s) for m, s in zip(mean, swatch, strict=True)) for swatch in MONK_RGB.tolist()])
    return (
        ita,
        nearest([difference((lightness, a, b), tuple(swatch)) for swatch in MONK_LAB.tolist()]),
        nearest([abs(ita - swatch) for swatch in MONK_ITA.tolist()]),
        released,
        nearest([abs(released - swatch) for swatch in MONK_ITA.tolist()]),
        rule,
    )


# ------------------------------------------------------------------------------------------------------------- figures
def values(skin: SkinColour) -> Values:
    return skin.ita_deg, skin.tone, skin.tone_by_ita, skin.released_ita_deg, skin.released_tone, skin.rgb_tone


def largest_difference(images: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Of angles, degrees. Tones that differ end the benchmark."""
    worst = 0.0
    for number, (image, mask) in enumerate(images):
        slow, fast = loop(image, mask), values(measure_skin(image, mask, average="mean"))
        if [slow[i] for i in (1, 2, 4, 5)] != [fast[i] for i in (1, 2, 4, 5)]:
            raise SystemExit(f"image {number}: the loop says {slow}, the arrays say {fast}")
        worst = max(worst, abs(slow[0] - fast[0]), abs(slow[3] - fast[3]))
    if worst > 1e-9:
        raise SystemExit(f"angles of loop and arrays differ by {worst:.2g} degrees")
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=30)
    parser.add_argument("--size", type=int, default=512, help="pixels a side")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    options = parser.parse_args()
    made = portraits(options.images, options.size)
    some = made[: min(LOOPED, len(made))]
    worst = largest_difference(made[: min(10, len(made))])
    slow, mean, median, patch = best_of(
        options.repeats,
        lambda: [loop(*one) for one in some],
        lambda: [measure_skin(*one, average="mean") for one in made],
        lambda: [measure_skin(*one) for one in made],
        lambda: [measure_skin(*one, illumination="white-patch") for one in made],
    )
    peer = len(some) / slow
    what = f"{options.size} x {options.size}, {int(made[0][1].sum()):,} pixels of skin"
    results = [Measured("skin_tone", f"loop, {what}", peer, "images/s", 1.0, "peer, plain Python")]
    for name, seconds, note in (
        ("array", mean, f"equal: tones the same, angles within {worst:.1g} degrees"),
        ("median", median, "the default"),
        ("median + white-patch", patch, "light of the whole image"),
    ):
        rate = len(made) / seconds
        results.append(Measured("skin_tone", name, rate, "images/s", rate / peer, note))
    if options.json:
        print(json.dumps([asdict(row) for row in results], indent=1))
        return
    for row in results:
        print(row.line())


if __name__ == "__main__":
    main()
