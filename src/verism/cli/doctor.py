"""Report what is installed, what is missing, and how to install it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
from dataclasses import dataclass
from importlib import metadata

__all__ = ["Finding", "diagnose"]

# module, package on PyPI, extra that brings it (None: core), what it is for. Embree is part of the core where it has
# wheels, and of an extra everywhere.
MODULES = (
    ("numpy", "numpy", None, "arrays"),
    ("scipy", "scipy", None, "statistics"),
    ("polars", "polars", None, "tables"),
    ("PIL", "pillow", None, "images"),
    ("onnxruntime", "onnxruntime", None, "the built-in judges"),
    ("embreex", "embreex", "sim", "the simulator"),
    ("trimesh", "trimesh", "sim", "3D models of your own"),
    ("torch", "torch", "models", "hub models, training"),
    ("transformers", "transformers", "models", "detectors, CLIP, captioners, question answering from the hub"),
    ("fastapi", "fastapi", "annotate", "the page where people judge images"),
    ("uvicorn", "uvicorn", "annotate", "the same, its server"),
    ("diffusers", "diffusers", "generate", "images by diffusers pipelines, finetuning"),
    ("peft", "peft", "generate", "low-rank finetuning (LoRA)"),
    ("httpx", "httpx", "api", "images by OpenAI-compatible services"),
    ("sklearn", "scikit-learn", "models", "the released classifiers of gender presentation"),
    ("pycocoevalcap", "pycocoevalcap", "captions", "METEOR and SPICE (which need Java, too)"),
    ("cv2", "opencv-python-headless", "faces", "finding faces by cascades"),
    ("onnx", "onnx", "train", "exporting a trained judge or generator"),
    ("mlflow", "mlflow-skinny", "trackers", "logging to MLflow"),
    ("sqlalchemy", "sqlalchemy", "trackers", "the same, its database in a folder"),
    ("wandb", "wandb", "trackers", "logging to Weights & Biases"),
    ("tensorboard", "tensorboard", "trackers", "logging to TensorBoard"),
)


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``required``: verism does not work without it."""

    name: str
    ok: bool
    required: bool
    message: str

    def line(self) -> str:
        mark = "ok     " if self.ok else ("MISSING" if self.required else "missing")
        return f"{mark}  {self.name:<14} {self.message}"


def diagnose() -> list[Finding]:
    """Look at the installation."""
    from verism._version import __version__

    findings = [
        Finding("verism", True, True, f"{__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"),
    ]
    findings += [_defaults(), *(_module(*entry) for entry in MODULES)]
    findings += [_java(), _detector(), _skin_tone(), _generator(), _simulator(), _torchvision()]
    return [*(f for f in findings if f.name), *_plugins()]


def _defaults() -> Finding:
    """The file that options take their defaults from here."""
    from verism.cli.config import settings_line
    from verism.errors import UsageError

    try:
        return Finding("defaults", True, False, settings_line())
    except UsageError as err:
        return Finding("defaults", False, False, str(err))


def _plugins() -> list[Finding]:
    """What other packages add: whether it loads, and whether the options of generators and judges can be read."""
    from verism.errors import UsageError, VerismError
    from verism.pipeline.added_metrics import installed_metrics
    from verism.records import option_of, roles
    from verism.registry import TRACKER, kinds
    from verism.suites.catalogue import suite_class, suite_entries

    findings: list[Finding] = []
    broken: list[str] = []
    for role in (None, TRACKER, *roles()):
        for kind in kinds(role, broken=broken):
            if kind.package:
                what = {None: "--model", TRACKER: "--track"}.get(role) or option_of(str(role))
                try:
                    kind.signature(role)
                    findings.append(Finding(kind.name, True, False, f"{what}, of {kind.package}"))
                except VerismError as err:
                    broken.append(str(err))
    for name, entry in suite_entries().items():
        if entry.package:
            try:
                suite_class(name)
                findings.append(Finding(name, True, False, f"suite, of {entry.package}"))
            except UsageError as err:
                broken.append(str(err))
    try:
        findings += [
            Finding(n, True, False, f"metric, of {package}") for n, (_, package) in installed_metrics().items()
        ]
    except UsageError as err:
        broken.append(str(err))
    return findings + [Finding("plug-in", False, False, message) for message in dict.fromkeys(broken)]


def _module(module: str, package: str, extra: str | None, purpose: str) -> Finding:
    if importlib.util.find_spec(module) is None:
        target = "verism" if extra is None else f"'verism[{extra}]'"
        return Finding(package, False, extra is None, f"needed for {purpose}; get it with: pip install {target}")
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:  # from a package of another name, such as onnxruntime-gpu
        version = str(getattr(importlib.import_module(module), "__version__", "unknown version"))
    return Finding(package, True, extra is None, f"{version}, for {purpose}")


def _java() -> Finding:
    import shutil

    executable = shutil.which("java")
    if executable is None:
        return Finding(
            "java", False, False, "needed for METEOR and SPICE; on Debian: apt-get install default-jre-headless"
        )
    return Finding("java", True, False, f"{executable}, for METEOR and SPICE")


def _detector() -> Finding:
    try:
        from verism.judges.detection.builtin import BuiltinDetector

        judge = BuiltinDetector(None)
    except Exception as err:  # whatever is wrong with it, the doctor's job is to say so
        return Finding("detector", False, True, f"the built-in detector does not load: {err}")
    return Finding("detector", True, True, judge.name)


def _skin_tone() -> Finding:
    from verism.registry import Context, make_judge

    try:
        judge = make_judge("builtin", Context(), "skin_tone")
    except Exception as err:
        return Finding("skin tone", False, True, f"the built-in judge of skin tone does not load: {err}")
    return Finding("skin tone", True, True, judge.name.partition(" region")[0])


def _generator() -> Finding:
    try:
        from verism.generators.builtin import BuiltinGenerator

        model = BuiltinGenerator()
    except Exception as err:
        return Finding("generator", False, True, f"the built-in generator does not load: {err}")
    return Finding("generator", True, True, model.name)


def _simulator() -> Finding:
    from verism.errors import MissingExtra

    try:
        from verism.records import Scene
        from verism.simulator.scene_renderer import SceneRenderer

        renderer = SceneRenderer(64)
        scene = Scene(
            scene_id="doctor", skill="object", split="val", text="", background="photo_studio", objects=(), seed=1
        )
        renderer.render(scene)
    except MissingExtra as err:  # no wheel for this system: verism works without
        return Finding("simulator", False, False, str(err))
    except Exception as err:
        return Finding("simulator", False, True, f"cannot render: {err}")
    return Finding("simulator", True, True, "renders")


def _torchvision() -> Finding:
    """A torchvision that does not fit torch makes transformers and diffusers fail, with a misleading error."""
    if importlib.util.find_spec("torchvision") is None:
        return Finding("", True, False, "")
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return Finding("torchvision", True, False, f"{metadata.version('torchvision')} (verism does not need it)")
    last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it does not import"
    return Finding(
        "torchvision",
        False,
        False,
        f"installed but broken ({last}); transformers fails with it: pip uninstall torchvision, or install a build "
        "that matches torch",
    )
