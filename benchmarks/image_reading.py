"""How long it takes to read an image file into upright RGB pixels, by format and size.

python benchmarks/image_reading.py [--repeats 20]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from verism.imaging import read_image

SIZES = (512, 1024, 8000)


def main() -> None:
    """Print the quickest of several readings of each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="readings of each file; 3 of the largest")
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            # Smooth, as photographs are: noise would be decoded more slowly, and flat colour more quickly.
            coarse = Image.fromarray(rng.integers(0, 256, (size // 16, size // 16, 3), dtype=np.uint8))
            image = coarse.resize((size, size), Image.Resampling.BICUBIC)
            for suffix in ("jpg", "png"):
                path = Path(folder) / f"{size}.{suffix}"
                image.save(path)
                times = []
                for _ in range(repeats if size < 4000 else 3):
                    start = time.perf_counter()
                    read = read_image(path)
                    times.append(time.perf_counter() - start)
                assert read.pixels is not None
                height, width, _ = read.pixels.shape
                print(f"{size} x {size} {suffix}: {min(times) * 1000:.1f} ms, {width} x {height} {read.note}")


if __name__ == "__main__":
    main()
