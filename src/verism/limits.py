"""How much is read, decoded or asked for at most: bounds against damaged and hostile inputs, all in one place.

Every bound holds before memory is taken: sizes are read from headers. Someone with larger data raises a bound by its
environment variable, ``VERISM_LIMIT_`` and its name: ``VERISM_LIMIT_TEXT_BYTES=8000000000``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from verism.errors import UsageError
from verism.systems import address_space_bytes, physical_memory_bytes

__all__ = [
    "ARRAY_BYTES",
    "ARRAY_RATIO",
    "CELL_CHARACTERS",
    "FULL_PIXELS",
    "IMAGE_BYTES",
    "IMAGE_FRAMES",
    "IMAGE_PIXELS",
    "LIMITS",
    "MAX_SEED",
    "NESTING",
    "PENDING_PIXELS",
    "PROGRAM_BYTES",
    "PROMPT_IMAGES",
    "RUN_IMAGES",
    "SERVICE_PIXELS",
    "TABLE_BYTES",
    "TABLE_RATIO",
    "TEXT_BYTES",
    "THREADS",
    "YAML_BYTES",
    "YAML_VALUES",
    "Limit",
    "memory_bytes",
]

MAX_SEED = 2**63 - 1  # what tables and random generators hold


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A bound, by default and as the user has set it.

    Attributes:
        name: in lower case, as in the table of the documentation.
        default: an integer >= 1; 0 stands for half the machine's memory.
        unit: what is counted.
        meaning: what is bounded, in a few words.
        fixed: whether no environment variable changes it.
    """

    name: str
    default: int
    unit: str
    meaning: str
    fixed: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that changes it."""
        return f"VERISM_LIMIT_{self.name.upper()}"

    @property
    def value(self) -> int:
        """The bound that holds now.

        Raises:
            UsageError: the environment variable is not a whole number of at least 1.
        """
        text = "" if self.fixed else os.environ.get(self.variable, "").strip()
        if not text:
            return self.default or memory_bytes() // 2
        if not (text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) >= 1):
            raise UsageError(f"{self.variable} must be a whole number of {self.unit}, at least 1; got {text!r:.60}")
        return int(text)

    def hint(self) -> str:
        """The bound, and how it is raised, for messages."""
        raised = "" if self.fixed else f"; {self.variable} raises it"
        return f"the limit is {self.value:,} {self.unit}{raised}"


TEXT_BYTES = Limit(name="text_bytes", default=2**30, unit="bytes", meaning="size of a JSON, CSV or text file")
YAML_BYTES = Limit(name="yaml_bytes", default=2**24, unit="bytes", meaning="size of a YAML file, which is slow to read")
YAML_VALUES = Limit(
    name="yaml_values", default=10**6, unit="values", meaning="values of a YAML file, aliases written out"
)
NESTING = Limit(
    name="nesting", default=100, unit="levels", meaning="lists and objects within each other in JSON and YAML"
)
CELL_CHARACTERS = Limit(name="cell_characters", default=2**24, unit="characters", meaning="length of a cell of CSV")
ARRAY_BYTES = Limit(
    name="array_bytes",
    default=0,
    unit="bytes",
    meaning="decoded size of an .npy file, or of all arrays of an .npz file",
)
ARRAY_RATIO = Limit(
    name="array_ratio",
    default=200,
    unit="times its compressed size",
    meaning="decoded size of an array of an .npz file beyond 256 MiB",
)
TABLE_BYTES = Limit(name="table_bytes", default=0, unit="bytes", meaning="estimated decoded size of a parquet file")
TABLE_RATIO = Limit(
    name="table_ratio",
    default=2,
    unit="rows per byte of the file",
    meaning="rows of a parquet file beyond 100,000",
)
IMAGE_BYTES = Limit(name="image_bytes", default=2**29, unit="bytes", meaning="size of an image file")
IMAGE_PIXELS = Limit(
    name="image_pixels", default=64_000_000, unit="pixels", meaning="width times height of an image file"
)
FULL_PIXELS = Limit(
    name="full_pixels",
    default=2**24,
    unit="pixels",
    meaning="images with more are reduced by a whole factor as they are decoded",
    fixed=True,  # observations depend on it
)
PENDING_PIXELS = Limit(
    name="pending_pixels",
    default=2**27,
    unit="pixels",
    meaning="decoded images of one batch, of which three are in memory; it ends sooner if its images are large",
    fixed=True,
)
IMAGE_FRAMES = Limit(name="image_frames", default=1000, unit="frames", meaning="frames or pages that are counted")
SERVICE_PIXELS = Limit(
    name="service_pixels", default=2**25, unit="pixels", meaning="width times height of an image that a service sends"
)
PROGRAM_BYTES = Limit(
    name="program_bytes",
    default=2**24,
    unit="bytes",
    meaning="what a program may print on standard output between two answers",
)
PROMPT_IMAGES = Limit(name="prompt_images", default=10_000, unit="images", meaning="images of a prompt", fixed=True)
RUN_IMAGES = Limit(name="run_images", default=10**7, unit="images", meaning="images of a run")
CLASSES = Limit(
    name="classes", default=1000, unit="classes", meaning="classes whose counts are compared with a target", fixed=True
)
THREADS = Limit(name="threads", default=1024, unit="threads", meaning="threads and processes", fixed=True)

LIMITS = (
    *(TEXT_BYTES, YAML_BYTES, YAML_VALUES, NESTING, CELL_CHARACTERS),
    *(ARRAY_BYTES, ARRAY_RATIO, TABLE_BYTES, TABLE_RATIO),
    *(IMAGE_BYTES, IMAGE_PIXELS, FULL_PIXELS, PENDING_PIXELS, IMAGE_FRAMES, SERVICE_PIXELS),
    *(PROGRAM_BYTES, PROMPT_IMAGES, RUN_IMAGES, CLASSES, THREADS),
)


@cache
def memory_bytes() -> int:
    """Memory that this process may use: of the machine, or less in a container or under ``ulimit -v``."""
    amounts = [2**40]
    amounts += [amount for amount in (physical_memory_bytes(), address_space_bytes()) if amount]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max": no limit
            amounts.append(int(Path(file).read_text(encoding="ascii")))
    return min(amount for amount in amounts if amount > 0)
