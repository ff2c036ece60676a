"""Files of weights: checked by content, and never run."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from verism.errors import UsageError
from verism.judges.features.weights import checked_sha256, fill, located, read_tensors


def test_hash_is_that_of_the_bytes(tmp_path: Path):
    path = tmp_path / "weights.pth"
    path.write_bytes(b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
    assert checked_sha256(path, expected=None) == digest
    assert checked_sha256(path, expected="BA7816BF") == digest
    with pytest.raises(UsageError, match=rf"has sha256 {digest}, expected deadbeef: it is another file"):
        checked_sha256(path, expected="deadbeef")
    with pytest.raises(UsageError, match="8 to 64 hexadecimal digits, not 'ba78'"):
        checked_sha256(path, expected="ba78")


def test_name_of_the_pytorch_hub_is_checked(tmp_path: Path):
    good = tmp_path / "network-ba7816bf.pth"
    good.write_bytes(b"abc")
    assert checked_sha256(good, expected=None).startswith("ba7816bf")
    cut = tmp_path / "inception_v3_google-0cc3c7bd.pth"
    cut.write_bytes(b"half of it")
    with pytest.raises(UsageError, match=r"begins with 0cc3c7bd: it is damaged or incomplete"):
        checked_sha256(cut, expected=None)
    other = tmp_path / "inception-2015-12-05.pt"  # a date is no hash
    other.write_bytes(b"abc")
    assert checked_sha256(other, expected=None)


def test_no_file(tmp_path: Path):
    with pytest.raises(UsageError, match="no file of weights at"):
        checked_sha256(tmp_path / "nothing.pth", expected=None)


class _Command:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def test_nothing_in_a_file_is_run(tmp_path: Path):
    mark, path = tmp_path / "was_here", tmp_path / "bad.pth"
    torch.save({"a": torch.zeros(1), "b": _Command(mark)}, path)
    with pytest.raises(UsageError, match=r"cannot read .* as plain tensors"):
        read_tensors(path)
    assert not mark.exists()


@pytest.mark.parametrize("content", [[torch.zeros(1)], {"epoch": 3, "w": torch.zeros(1)}])
def test_other_content_is_refused(tmp_path: Path, content: object):
    path = tmp_path / "other.pth"
    torch.save(content, path)
    with pytest.raises(UsageError, match="no plain dictionary of tensors"):
        read_tensors(path)


def test_damaged_safetensors(tmp_path: Path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(hashlib.sha256(b"x").digest())
    with pytest.raises(UsageError, match="cannot read"):
        read_tensors(path)


def test_fill_is_strict_and_converts():
    network = nn.Linear(2, 1)
    fill(network, {"weight": torch.ones(1, 2).half(), "bias": torch.zeros(1), "old": torch.zeros(1)}, source="f",
         unused=lambda key: key == "old")  # fmt: skip
    assert network.weight.dtype == torch.float32
    assert network.weight.tolist() == [[1, 1]]
    with pytest.raises(UsageError, match=r"'f' do not fit the network; 1 missing: bias; 1 unexpected: old. Look"):
        fill(network, {"weight": torch.ones(1, 2), "old": torch.zeros(1)}, source="f", hint=" Look.")


def test_fill_gives_a_network_without_storage_its_weights_and_counters_of_its_own():
    with torch.device("meta"):
        network = nn.BatchNorm1d(2)
    weights = {name: torch.full((2,), 3.0).half() for name in ("weight", "bias", "running_mean", "running_var")}
    fill(network, weights, source="f")
    weights["bias"].zero_()
    assert network.bias.tolist() == [3, 3]
    assert network.running_var.dtype == torch.float32
    assert network.num_batches_tracked.item() == 0
    assert network.eval()(torch.full((1, 2), 3.0)).tolist() == [[3, 3]]


def test_a_file_of_the_hub_is_named_by_repository_and_path(tmp_path, monkeypatch):
    import huggingface_hub

    asked = []

    def download(repository, name, *, revision):
        asked.append((repository, name, revision))
        if name == "gone.pth":
            raise OSError("404 Client Error\nEntry Not Found")
        return str(tmp_path / "weights.pth")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert located("hf://someone/weights/fid/inception.pth", revision="v1") == tmp_path / "weights.pth"
    assert asked == [("someone/weights", "fid/inception.pth", "v1")]
    with pytest.raises(UsageError, match=r"hf://someone/weights/gone.pth cannot be fetched: 404 Client Error$"):
        located("hf://someone/weights/gone.pth")
    with pytest.raises(UsageError, match="is written hf://OWNER/REPOSITORY/FILE"):
        located("hf://someone/weights")


def test_a_path_is_a_path(tmp_path):
    assert located(tmp_path / "x.pth") == tmp_path / "x.pth"
    with pytest.raises(UsageError, match="revision=main is for files of the hub"):
        located("x.pth", revision="main")
