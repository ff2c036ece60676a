"""The judges of skin tone that can be named: who finds the faces, how their colour is measured, and TRUST if wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from verism.errors import UsageError
from verism.judges.skin_tone.alignment import FanFaces
from verism.judges.skin_tone.builtin import BuiltinFaces, BuiltinTones
from verism.judges.skin_tone.cascade import CascadeFaces
from verism.judges.skin_tone.faces import FaceFinder
from verism.judges.skin_tone.judge import SkinSettings, SkinToneJudge, WholeImage
from verism.judges.skin_tone.networks import OnnxFaces
from verism.judges.skin_tone.trust import TrustAlbedo, TrustSettings
from verism.options import INLINE

__all__ = ["builtin", "cascade", "fan", "image", "onnx"]


def builtin(
    *,
    finder: Annotated[BuiltinFaces, INLINE],
    skin: SkinSettings = SkinSettings(),
    estimator: Path | None = None,
    trust: Path | None = None,
    networks: TrustSettings = TrustSettings(),
) -> SkinToneJudge:
    """Faces and their tones by the networks that come with the package.

    Args:
        finder: of faces.
        skin: how their colour is measured, and by ``colour`` how the tone is decided.
        estimator: ONNX file written by ``verism train skin-tone``, which estimates the tones; None: the packaged one.
        trust: folder of TRUST's files, to measure the albedo it estimates; None: no albedo.
        networks: how TRUST's networks are run.
    """
    if trust is not None or skin.colour not in (None, "estimated"):
        if estimator is not None:
            raise UsageError("estimator=FILE needs colour=estimated; leave out one of the two")
        return _judge(finder, skin, trust, networks)
    _refuse_settings(networks)
    return SkinToneJudge(finder, skin, tones=BuiltinTones(estimator))


def cascade(
    *,
    finder: Annotated[CascadeFaces, INLINE],
    skin: SkinSettings = SkinSettings(),
    trust: Path | None = None,
    networks: TrustSettings = TrustSettings(),
) -> SkinToneJudge:
    """Faces by OpenCV's cascades.

    Args:
        finder: of faces.
        skin: how their colour is measured.
        trust: folder of TRUST's files, to measure the albedo it estimates; None: colours are measured in the image
            itself.
        networks: how TRUST's networks are run.
    """
    return _judge(finder, skin, trust, networks)


def onnx(
    finder: Annotated[OnnxFaces, INLINE],
    *,
    skin: SkinSettings = SkinSettings(),
    trust: Path | None = None,
    networks: TrustSettings = TrustSettings(),
) -> SkinToneJudge:
    """Faces by a detector in an ONNX file.

    Args:
        finder: of faces.
        skin: how their colour is measured.
        trust: folder of TRUST's files, to measure the albedo it estimates; None: colours are measured in the image
            itself.
        networks: how TRUST's networks are run.
    """
    return _judge(finder, skin, trust, networks)


def fan(
    *,
    finder: Annotated[FanFaces, INLINE],
    skin: SkinSettings = SkinSettings(),
    trust: Path | None = None,
    networks: TrustSettings = TrustSettings(),
) -> SkinToneJudge:
    """Faces by the ``face-alignment`` package.

    Args:
        finder: of faces.
        skin: how their colour is measured.
        trust: folder of TRUST's files, to measure the albedo it estimates; None: colours are measured in the image
            itself.
        networks: how TRUST's networks are run.
    """
    return _judge(finder, skin, trust, networks)


def image(
    *,
    skin: SkinSettings = SkinSettings(),
    trust: Path | None = None,
    networks: TrustSettings = TrustSettings(),
) -> SkinToneJudge:
    """No faces: the whole image is measured.

    Args:
        skin: how its colour is measured.
        trust: folder of TRUST's files, to measure the albedo it estimates; None: colours are measured in the image
            itself.
        networks: how TRUST's networks are run.
    """
    return _judge(WholeImage(), skin, trust, networks)


def _judge(finder: FaceFinder, skin: SkinSettings, trust: Path | None, networks: TrustSettings) -> SkinToneJudge:
    if trust is not None:
        return SkinToneJudge(finder, skin, albedo=TrustAlbedo(trust, settings=networks, average=skin.average))
    _refuse_settings(networks)
    return SkinToneJudge(finder, skin)


def _refuse_settings(networks: TrustSettings) -> None:
    """Refuse settings of TRUST's networks where they are not asked."""
    if replace(networks, device=None) != TrustSettings():
        raise UsageError("dtype, batch_size and seed are those of TRUST's networks; name its files with trust=FOLDER")
