"""TorchScript files are programs: run when their whole SHA-256 is given, and never otherwise."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from verism.errors import UsageError
from verism.judges.features.torchscript import TorchScriptFeatures
from verism.records import LoadedImage


class MeanColor(torch.nn.Module):
    """Mean red, green, blue, as a network of NVIDIA's kind: uint8 at any size, features if asked for."""

    def forward(self, pixels: torch.Tensor, return_features: bool = False) -> torch.Tensor:
        if not return_features:
            return torch.zeros(1)
        return pixels.float().mean(dim=[2, 3])


def saved(path: Path, network: torch.nn.Module) -> tuple[Path, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch advises against making new files of this kind
        torch.jit.script(network).save(str(path))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_images_reach_the_network_untouched(tmp_path: Path):
    path, digest = saved(tmp_path / "net.pt", MeanColor())
    judge = TorchScriptFeatures(path, sha256=digest, device="cpu", batch_size=2)
    assert (judge.name, judge.dim) == (f"torchscript@{digest[:12]}", 3)
    red = np.zeros((4, 6, 3), dtype=np.uint8)
    red[:, :3, 0] = 200  # half of the image: a mean of 100
    images = [
        LoadedImage(image_id="red", prompt_id="", pixels=red),
        LoadedImage(image_id="grey", prompt_id="", pixels=np.full((9, 2, 3), 7, dtype=np.uint8)),
        LoadedImage(image_id="turned", prompt_id="", pixels=red.transpose(1, 0, 2)),
    ]
    assert judge.features(images).tolist() == [[100, 0, 0], [7, 7, 7], [100, 0, 0]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_without_its_hash_it_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, digest = saved(tmp_path / "net.pt", MeanColor())
    monkeypatch.setattr(torch.jit, "load", lambda *_, **__: pytest.fail("was run"))
    with pytest.raises(UsageError, match=rf"is a program, and is run only when .*\?sha256={digest}"):
        TorchScriptFeatures(path)
    with pytest.raises(UsageError, match="is a program"):
        TorchScriptFeatures(path, sha256=digest[:12])
    with pytest.raises(UsageError, match="it is another file"):
        TorchScriptFeatures(path, sha256="0" * 64)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_other_programs_are_refused(tmp_path: Path):
    path, digest = saved(tmp_path / "net.pt", torch.nn.ReLU())
    with pytest.raises(UsageError, match=r"is no TorchScript network that answers network\(pixels, return_feat"):
        TorchScriptFeatures(path, sha256=digest, device="cpu")
