"""Image features beside those of the reference libraries: the same weights, the same images, the largest difference.

    PYTHONPATH=src:tests python benchmarks/peers/features_parity.py [--json]

Runs in the environment of this folder (see README.md), which has torchvision and must not be the one verism is used in.
Weights and images follow from formulas (tests/tiny_inception.py), so nothing is downloaded. Compared are

* torch-fidelity's Inception: features, logits, logits without bias, resize included;
* pytorch-fid's Inception, resize included;
* torchvision's Inception behind torchvision's own transforms: the chain of DIG In, and that of the weights' card;
* clean-fid's resize.

Exit status 1 if any difference exceeds 1e-4.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from tiny_inception import formula_image, formula_weights, random_inception
from torchvision_stub import import_torchvision

from verism.judges.features.inception import fid_features, inception_features
from verism.judges.features.preprocessing import FID
from verism.records import LoadedImage

LIMIT = 1e-4
SIZES = ((299, 299), (256, 256), (512, 512), (341, 256), (200, 77), (64, 301))  # height, width


def sample_images() -> list[LoadedImage]:
    return [
        LoadedImage(image_id=f"{h}x{w}", prompt_id="", pixels=formula_image(h, w, seed))
        for seed, (h, w) in enumerate(SIZES)
    ]


def each(images: list[LoadedImage], look: Callable[[np.ndarray], torch.Tensor]) -> np.ndarray:
    """Vectors of images looked at one by one."""
    with torch.inference_mode():
        return np.concatenate([look(image.pixels).float().numpy() for image in images])


def batch(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels.transpose(2, 0, 1)[None].copy())


def torch_fidelity_rows(path: Path, images: list[LoadedImage]) -> dict[str, np.ndarray]:
    from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

    layers = {"2048": "pool", "logits_unbiased": "logits_unbiased", "logits": "logits"}
    network = FeatureExtractorInceptionV3("peer", list(layers), feature_extractor_weights_path=str(path))
    return {
        ours: each(images, lambda pixels, i=i: network(batch(pixels))[i])  # type: ignore[misc]
        for i, ours in enumerate(layers.values())
    }


def pytorch_fid_rows(images: list[LoadedImage]) -> np.ndarray:
    from pytorch_fid import inception

    inception.load_state_dict_from_url = lambda *_, **__: formula_weights("fid")
    network = inception.InceptionV3([3]).eval()
    return each(images, lambda pixels: network(batch(pixels).float() / 255)[0][:, :, 0, 0])


def torchvision_rows(images: list[LoadedImage]) -> dict[str, np.ndarray]:
    from PIL import Image
    from torchvision import models, transforms

    network = models.inception_v3(weights=None, init_weights=False, transform_input=False)
    report = network.load_state_dict(formula_weights("imagenet"), strict=False)
    assert not report.unexpected_keys
    assert all(key.startswith("AuxLogits.") for key in report.missing_keys)
    network.AuxLogits, network.fc = None, torch.nn.Identity()
    network.eval()
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    digin = transforms.Compose(
        [
            lambda image: transforms.functional.center_crop(image, min(image.size)),
            transforms.Resize(299),
            transforms.ToTensor(),
            transforms.Normalize((0.5,) * 3, (0.5,) * 3),
            lambda x: (x + 1) / 2,
            transforms.Normalize(mean, std),
        ]
    )
    card = models.Inception_V3_Weights.IMAGENET1K_V1.transforms()
    result = models.inception_v3(weights=None, init_weights=False, transform_input=True)

    def of_card(image: Image.Image) -> torch.Tensor:
        return result._transform_input(card(image)[None])[0]

    def dalleval(image: Image.Image) -> torch.Tensor:
        return result._transform_input(transforms.ToTensor()(image.resize((299, 299), Image.BILINEAR))[None])[0]

    ways = {"digin": digin, "torchvision": of_card, "dalleval": dalleval}
    return {
        name: each(images, lambda pixels, way=way: network(way(Image.fromarray(pixels))[None]))  # type: ignore[misc]
        for name, way in ways.items()
    }


def clean_fid_inputs(images: list[LoadedImage]) -> np.ndarray:
    from cleanfid.resize import make_resizer

    resize = make_resizer("PIL", False, "bicubic", (299, 299))
    return np.stack([((resize(i.pixels) - 128) / 128).transpose(2, 0, 1) for i in images])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    args = parser.parse_args()
    import_torchvision()
    images = sample_images()
    rows: dict[str, tuple[float, float]] = {}

    def note(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
        rows[name] = (float(np.abs(ours - theirs).max()), float(np.abs(theirs).max()))

    with tempfile.TemporaryDirectory() as folder:
        fid = random_inception(Path(folder), "fid", suffix=".pth")
        imagenet = random_inception(Path(folder), "imagenet", suffix=".pth")
        for layer, theirs in torch_fidelity_rows(fid, images).items():
            note(f"torch-fidelity {layer}", fid_features(fid, layer=layer).features(images), theirs)
        note(
            "pytorch-fid pool",
            fid_features(fid, preprocessing="pytorch-fid").features(images),
            pytorch_fid_rows(images),
        )
        for way, theirs in torchvision_rows(images).items():
            note(f"torchvision {way}", inception_features(imagenet, preprocessing=way).features(images), theirs)
    note("clean-fid input", np.stack([FID["clean"](i.pixels) for i in images]), clean_fid_inputs(images))

    wrong = [name for name, (difference, _) in rows.items() if not difference <= LIMIT]
    if args.json:
        print(json.dumps({name: {"difference": d, "largest": m} for name, (d, m) in rows.items()}))
    else:
        print(f"{'compared':<32} {'largest difference':>18} {'largest value':>14}")
        for name, (difference, largest) in rows.items():
            print(f"{name:<32} {difference:>18.2e} {largest:>14.3f}{'   TOO LARGE' if name in wrong else ''}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
