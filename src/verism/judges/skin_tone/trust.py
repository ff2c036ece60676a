"""Skin colour from the albedo of a face: its own colour, with the light of the scene taken out by TRUST's networks.

Two networks and a basis are needed, all three from files that you have: one network tells the colour of the light from
the scene, the other the albedo from the face and that light, and the basis turns its code into a map of the face.
Nothing of TRUST is part of this package; its files are for non-commercial research and may not be passed on.

Both ways of using them are measured at once. ``revised``: the face is cut from the image where it is, the scene is
the whole middle square, and the map is used as it comes. ``released``: what the published benchmark's code does, which
cuts the face from the wrong place and the scene from the upper edge, and sends the map through JPEG and a mix-up of
colour spaces.

Source: Feng et al. 2022, "Towards Racially Unbiased Skin Tone Estimation via Scene Disambiguation", arXiv:2205.03962;
the bias code released with Cho et al. 2023 (ICCV), for the released way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from verism.arrays import Arrays, open_arrays
from verism.errors import UsageError, require
from verism.judges.batching import EXTRA, Batches, Dtype, check_choice, judge_name, pick_device, pick_dtype
from verism.judges.features.weights import checked_sha256, fill
from verism.judges.skin_tone import trust_patches
from verism.judges.skin_tone.colour import AVERAGES, Average, SkinColour, measure_skin
from verism.judges.skin_tone.faces import Face
from verism.metrics.colour import released_mean_ita, released_tone
from verism.options import Spelling

if TYPE_CHECKING:
    import torch

    from verism.judges.skin_tone.trust_network import TrustEncoder

__all__ = ["WAYS", "AlbedoBasis", "TrustAlbedo", "TrustSettings", "Way", "load_encoder", "read_basis"]

Way = Literal["revised", "released"]
WAYS: tuple[Way, ...] = ("revised", "released")
"""``revised``: as the method is meant. ``released``: as the published benchmark's code uses it."""

_ALBEDO, _LIGHT = "E_albedo", "E_scene_light"  # names of the networks: in the files' names, and as keys inside
_LIGHT_SCALES = 3  # red, green, blue
_BASIS_PX = 512
_CLASSIFIER = ("encoder.fc.weight", "encoder.fc.bias")  # of the trunk's first training; nothing looks at its answer
_COUNTERS = "num_batches_tracked"  # of batch normalisation, for training alone


# --------------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class AlbedoBasis:
    """Albedo as a mean map and directions to leave it in.

    Attributes:
        mean: RGB in [0, 1], shape (256, 256, 3), float32.
        directions: shape (256 * 256 * 3, K), float32, for a code of K numbers.
    """

    mean: NDArray[np.float32]
    directions: NDArray[np.float32]

    def albedo(self, code: NDArray[np.floating]) -> NDArray[np.float32]:
        """The map of a code of shape (K,): RGB, nominally [0, 1], but nothing is cut off; shape (256, 256, 3)."""
        map_: NDArray[np.float32] = self.mean + (self.directions @ code.astype(np.float32)).reshape(self.mean.shape)
        return map_


# Keys of the mean and of the directions, the length of the code, and what values are divided by.
_BASES: tuple[tuple[str, str, int, float], ...] = (("mean", "tex_dir", 54, 255.0), ("MU", "PC", 199, 1.0))


def read_basis(path: Path) -> AlbedoBasis:
    """The albedo basis of ``BalanceAlb_model.npz``, or one of the Basel Face Model with keys ``MU`` and ``PC``.

    Files hold maps of 512 x 512 with blue first. Every second row and column is kept, which is what resizing to
    256 x 256 by the nearest pixel does, and the channels are put in order.

    Raises:
        UsageError: it cannot be read, other keys, other sizes, or numbers that are not finite.
    """
    with open_arrays(path, "an .npz file of plain arrays") as content:
        keys = sorted(content) if isinstance(content, Arrays) else []
        kinds = [kind for kind in _BASES if kind[0] in keys and kind[1] in keys]
        if not isinstance(content, Arrays) or len(kinds) != 1:
            wanted = " or ".join(f"{kind[0]!r} and {kind[1]!r}" for kind in _BASES)
            raise UsageError(f"{path.name!r} is no albedo basis: expected arrays {wanted}, found {', '.join(keys)}")
        mean_key, directions_key, length, scale = kinds[0]
        mean, directions = content[mean_key], content[directions_key]
    numbers = _BASIS_PX * _BASIS_PX * 3
    for key, array, expected in ((mean_key, mean, numbers), (directions_key, directions, numbers * length)):
        if array.size != expected or not np.issubdtype(array.dtype, np.number):
            raise UsageError(
                f"{path.name!r}: {key!r} must hold {expected:,} numbers (512 x 512 x 3"
                f"{f' x {length}' if key == directions_key else ''}), got shape {array.shape} of {array.dtype}. A "
                "texture model of FLAME has the same keys and another length: it is not the basis of TRUST."
            )
    if directions.shape[-1] != length:
        raise UsageError(f"{path.name!r}: the last axis of {directions_key!r} must be {length}, got {directions.shape}")

    def kept(array: NDArray[Any]) -> NDArray[np.float32]:
        maps = array.reshape(_BASIS_PX, _BASIS_PX, 3, -1)
        return np.ascontiguousarray(maps[::2, ::2, ::-1], dtype=np.float32) / np.float32(scale)

    basis = AlbedoBasis(kept(mean)[..., 0], kept(directions).reshape(-1, length))
    if not (np.isfinite(basis.mean).all() and np.isfinite(basis.directions).all()):
        raise UsageError(f"{path.name!r} holds numbers that are not finite: it is damaged")
    return basis


def load_encoder(path: Path, key: str, *, channels: int, outputs: int) -> TrustEncoder:
    """A network with the weights that a checkpoint holds under ``key``, in evaluation mode, float32.

    Loaded strictly: a weight too few or too many is an error, but for a trunk's classifier (``encoder.fc``), which
    nothing uses, and the counters of batch normalisation. Nothing but tensors and plain values is unpickled.

    Args:
        path: the checkpoint, a file.
        key: under which the checkpoint holds the network's weights.
        channels: of the network's input.
        outputs: length of the network's code.
    Raises:
        UsageError: it cannot be read, lacks the key, or weights are missing, left over or of another shape.
        MissingExtra: PyTorch is not installed.
    """
    torch = require("torch", extra=EXTRA, purpose="albedo by TRUST")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as err:  # a foreign file can fail in any way
        text = " ".join(str(err).split())[:300]
        raise UsageError(
            f"cannot read {str(path)!r} as a PyTorch checkpoint of plain tensors ({type(err).__name__}: {text})"
        ) from err
    if not isinstance(content, Mapping) or not isinstance(content.get(key), Mapping):
        held = ", ".join(sorted(map(str, content))[:8]) if isinstance(content, Mapping) else type(content).__name__
        raise UsageError(f"{path.name!r} must hold weights under the key {key!r}; it holds {held or 'nothing'}")
    weights = content[key]
    other = sorted(str(name) for name, value in weights.items() if not isinstance(value, torch.Tensor))
    if other:
        raise UsageError(f"{path.name!r}: under {key!r} all must be tensors; these are not: {', '.join(other[:6])}")
    from verism.judges.skin_tone.trust_network import TrustEncoder

    with torch.device("meta"):  # random numbers for weights that are replaced take a second
        network = TrustEncoder(channels, outputs)
    fill(
        network,
        {str(name): value for name, value in weights.items()},
        source=f"{path.name}, {key}",
        unused=lambda name: name in _CLASSIFIER or name.endswith(_COUNTERS),
    )
    return network.eval().requires_grad_(False)


def _only(folder: Path, pattern: str, what: str) -> Path:
    results = sorted(path for path in folder.glob(pattern) if path.is_file())
    if len(results) != 1:
        text = ", ".join(path.name for path in results) or "none"
        raise UsageError(
            f"{str(folder)!r} must hold exactly one {pattern} ({what}); found {text}. TRUST's files come from its "
            "authors; docs/skin-tone.md lists those needed."
        )
    return results[0]


# --------------------------------------------------------------------------------------------------------------------
# Measuring
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class TrustSettings:
    """How the networks of TRUST are run.

    Attributes:
        device: PyTorch device of TRUST: ``cuda``, ``cpu`` ... Default: the GPU if there is one.
        dtype: floating-point type of TRUST's convolutions; the rest is always float32.
        batch_size: faces per batch; halved when GPU memory runs out. Results do not depend on it.
        seed: seed of the scene patches under the released protocol.
    """

    device: Annotated[str | None, Spelling("trust_device")] = None
    dtype: Dtype = "float32"
    batch_size: int = 8
    seed: int = 0


class TrustAlbedo:
    """Albedo and skin colour of faces, by TRUST.

    Public attributes: ``name`` holds the beginnings of the three files' SHA-256; ``files`` gives the SHA-256 of each
    file, 64 hexadecimal digits, by its name.

    Args:
        folder: holds ``E_albedo_BalanceAlb.tar``, ``E_scene_light_BalanceAlb.tar`` and ``BalanceAlb_model.npz``. Other
            checkpoints of the same layout may have other endings; there must be one file of each kind.
        settings: how its networks are run.
        average: of the colours of a map's skin, see ``colour.average_linear``.

    Raises:
        UsageError: no such folder, files missing or ambiguous, or content that does not fit.
        MissingExtra: PyTorch is not installed.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        settings: TrustSettings = TrustSettings(),
        average: Average = "median",
    ) -> None:
        check_choice("average", average, AVERAGES)
        require("torch", extra=EXTRA, purpose="albedo by TRUST")
        place = Path(folder)
        if not place.is_dir():
            raise UsageError(f"no folder {str(place)!r}; give the one that holds TRUST's files (docs/skin-tone.md)")
        albedo = _only(place, f"{_ALBEDO}_*.tar", "network of the albedo")
        light = _only(place, f"{_LIGHT}_*.tar", "network of the scene's light")
        basis = _only(place, "*.npz", "albedo basis, BalanceAlb_model.npz")
        self.files: Mapping[str, str] = {
            path.name: checked_sha256(path, expected=None) for path in (albedo, light, basis)
        }
        self.name = judge_name(
            "trust",
            albedo.stem.removeprefix(f"{_ALBEDO}_"),
            ".".join(digest[:12] for digest in self.files.values()),
            dtype=settings.dtype,
            seed=settings.seed,
            average=average,
        )
        self._seed = settings.seed
        self._average: Average = average
        self._basis = read_basis(basis)
        self._device = pick_device(settings.device)
        self._dtype = pick_dtype(settings.dtype)
        self._batches = Batches(settings.batch_size, self._device)
        length = self._basis.directions.shape[1]
        # The albedo's input is the light in three flat channels, then the face.
        self._albedo = self._placed(load_encoder(albedo, _ALBEDO, channels=_LIGHT_SCALES + 3, outputs=length))
        self._light = self._placed(load_encoder(light, _LIGHT, channels=3, outputs=_LIGHT_SCALES))

    def _placed(self, network: TrustEncoder) -> TrustEncoder:
        network.to(self._device)
        network.encoder.to(self._dtype)
        return network

    def light(self, scene: NDArray[np.float32]) -> NDArray[np.float32]:
        """Strength of the scene's light in red, green and blue, shape (3,).

        Args:
            scene: RGB in [0, 1], shape (3, H, W), as ``trust_patches`` cuts it.
        """
        return self._codes(self._light, [scene])[0]

    def albedo(self, pixels: NDArray[np.uint8], face: Face, *, protocol: Way) -> NDArray[np.float32]:
        """The face's own colour as a map: RGB as in sRGB, nominally [0, 1] but not cut off, shape (256, 256, 3).

        Args:
            pixels: the whole image, RGB, shape (H, W, 3), uint8.
            face: as a finder tells it; the released way needs 68 landmarks.
            protocol: one of ``WAYS``.
        Raises:
            UsageError: another protocol.
            ValueError: no patch can be cut: a face of no extent, no 68 landmarks where they are needed, an image too
                narrow for the released scene.
        """
        check_choice("protocol", protocol, WAYS)
        return self._maps(pixels, [_patch(pixels, face, protocol)], protocol)[0]

    def skin(self, pixels: NDArray[np.uint8], face: Face) -> SkinColour:
        """Colour of one face's skin; as ``measure`` does it."""
        return self.measure(pixels, [face])[0]

    def measure(self, pixels: NDArray[np.uint8], faces: Sequence[Face]) -> list[SkinColour]:
        """Colour of the skin of every face of an image, in the order of the faces, from its albedo.

        The colour, its ITA and both its tones are the revised way's: the average over ``trust_patches.skin_mask`` in
        linear light, numbers outside [0, 1] cut off. ``released_ita_deg`` and ``released_tone`` are the released way's,
        NaN and 0 where it cannot be taken. ``rgb_tone`` is the pixel rule on the albedo.

        Args:
            pixels: the whole image, RGB, shape (H, W, 3), uint8.
            faces: as a finder tells them; the released way needs 68 landmarks.
        Raises:
            ValueError: no such image. What cannot be measured of one is a state and a note instead.
        """
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[-1] != 3 or not pixels.size:
            raise ValueError(f"an image is RGB of shape (H, W, 3) in uint8, not {pixels.shape} of {pixels.dtype}")
        revised = self._maps_or_reasons(pixels, faces, "revised")
        released = self._maps_or_reasons(pixels, faces, "released")
        return [self._colour(*both) for both in zip(revised, released, strict=True)]

    def _maps_or_reasons(
        self, pixels: NDArray[np.uint8], faces: Sequence[Face], way: Way
    ) -> list[NDArray[np.float32] | str]:
        """The map of every face, or why there is none."""
        results: list[NDArray[np.float32] | str] = []
        record: dict[int, NDArray[np.float32]] = {}
        for i, face in enumerate(faces):
            try:
                record[i] = _patch(pixels, face, way)
                results.append("")
            except ValueError as err:
                results.append(str(err))
        if not record:
            return results
        try:
            maps = self._maps(pixels, list(record.values()), way)
        except ValueError as err:
            return [reason or str(err) for reason in results]
        for i, albedo in zip(record, maps, strict=True):
            results[i] = albedo if np.isfinite(albedo).all() else f"numbers that are not finite (dtype {self._dtype})"
        return results

    def _colour(self, revised: NDArray[np.float32] | str, released: NDArray[np.float32] | str) -> SkinColour:
        mask = trust_patches.skin_mask()
        if isinstance(revised, str):
            nothing = measure_skin(np.zeros((*mask.shape, 3), dtype=np.uint8), np.zeros_like(mask))
            colour = replace(nothing, note=f"no albedo: {revised}")
        else:
            levels = np.clip(revised.astype(np.float64) * 255, 0, 255)
            colour = measure_skin(levels, mask, average=self._average)
        if isinstance(released, str):
            note = "; ".join(part for part in (colour.note, f"no released albedo: {released}") if part)
            return replace(colour, released_ita_deg=float("nan"), released_tone=0, note=note)
        ita_deg = released_mean_ita(trust_patches.released_map(released)[trust_patches.released_mask()])
        return replace(colour, released_ita_deg=ita_deg, released_tone=int(released_tone(ita_deg)))

    def _scene(self, pixels: NDArray[np.uint8], way: Way) -> NDArray[np.float32]:
        if way == "revised":
            return trust_patches.centred_scene(pixels)
        return trust_patches.released_scene(pixels, trust_patches.released_offset(pixels, seed=self._seed))

    def _maps(
        self, pixels: NDArray[np.uint8], faces: Sequence[NDArray[np.float32]], way: Way
    ) -> list[NDArray[np.float32]]:
        """Maps of some faces of one image, given their patches."""
        light = self.light(self._scene(pixels, way))
        flat = np.broadcast_to(light[:, None, None], (_LIGHT_SCALES, trust_patches.PATCH_PX, trust_patches.PATCH_PX))
        codes = self._codes(self._albedo, [np.concatenate([flat, face]) for face in faces])
        return [self._basis.albedo(code) for code in codes]

    def _codes(self, network: TrustEncoder, inputs: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        import torch

        def prepare(values: NDArray[np.float32]) -> Mapping[str, torch.Tensor]:
            return {"values": torch.from_numpy(values)}

        def step(_: Sequence[NDArray[np.float32]], stacked: dict[str, torch.Tensor]) -> list[NDArray[np.float32]]:
            return list(network(stacked["values"].to(self._dtype)).cpu().numpy())

        return self._batches.run(inputs, prepare, step)


def _patch(pixels: NDArray[np.uint8], face: Face, way: Way) -> NDArray[np.float32]:
    if way == "revised":
        return trust_patches.face_patch(pixels, trust_patches.face_square(face))
    return trust_patches.released_face_patch(pixels, face)
