"""Depth maps made elsewhere: a folder with an array for each image.

verism run compbench --images DIR --depth "results:maps?larger=near"
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from verism.arrays import read_array
from verism.errors import UsageError, VerismError
from verism.files import IMAGE_SUFFIXES
from verism.judges.batching import check_choice, content_id
from verism.judges.depth.maps import Larger, depth_table
from verism.judges.result_files import ImageNames, results_name
from verism.records import DepthNeed, content_hash

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["DepthResults"]


class DepthResults:
    """The depth maps of a folder, as if their estimator looked at the images now.

    Args:
        path: folder of ``.npy`` files, one per image and named after it (its id, file name or number): arrays of shape
            (H, W), of any size, that cover the whole image.
        larger: meaning of larger values: ``near`` (inverse depth, as from MiDaS) or ``far`` (distances).
        judge: name and version of who judged. Runs whose files declare the same judge can be compared. Default: not
            known, and the file's content stands for it.
    Raises:
        UsageError: no such folder, or no arrays in it.
    """

    role = DepthNeed.role

    def __init__(self, path: Path, *, larger: Larger = "near", judge: str = "") -> None:
        check_choice("larger", larger, ("near", "far"))
        if not path.is_dir():
            raise UsageError(f"{path}: expected a folder of depth maps, one .npy file for each image")
        self._files = {file.stem: file for file in sorted(path.glob("*.npy"))}
        if not self._files:
            raise UsageError(f"{path}: no depth maps (.npy) in it")
        self._names = ImageNames(self._files)
        self._larger = larger
        digest = content_hash([[name, content_id(file)] for name, file in self._files.items()])[:12]
        self.name = results_name(path, digest, f"larger={larger}", judge=judge)

    def observe(self, images: Sequence[LoadedImage], need: DepthNeed) -> pl.DataFrame:
        """The maps of images, as table ``depths``.

        Raises:
            UsageError: an image without a file, or a file that is no array of numbers of two dimensions.
        """
        del need
        maps = []
        for image in images:
            name = self._names.find(image)
            if name is None:
                raise UsageError(
                    f"no depth map for image {image.image_id}: expected {image.image_id}.npy, or the name of its file "
                    f"without {'/'.join(IMAGE_SUFFIXES[:2])}"
                )
            file = self._files[name]
            values = np.asarray(read_array(file, "a depth map (.npy)"))
            if values.ndim != 2:
                raise UsageError(f"{file}: a depth map has shape (H, W); got {values.shape}")
            maps.append(values)
        try:
            return depth_table([image.image_id for image in images], maps, self.name, self._larger)
        except VerismError as err:
            raise UsageError(str(err)) from err
