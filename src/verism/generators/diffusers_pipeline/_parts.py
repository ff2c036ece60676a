"""The pipeline of a model and its parts: class, scheduler, LoRA weights, device and type of numbers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verism.errors import UsageError, require
from verism.generators.diffusers_pipeline._libraries import EXTRA, PURPOSE, first_line, out_of_memory
from verism.generators.diffusers_pipeline._source import WEIGHTS, Source, digest, has_component
from verism.inference import pick_dtype as named_dtype

SCHEDULERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ddim": ("DDIMScheduler", {}),
    "ddpm": ("DDPMScheduler", {}),
    "pndm": ("PNDMScheduler", {}),
    "lms": ("LMSDiscreteScheduler", {}),
    "heun": ("HeunDiscreteScheduler", {}),
    "euler": ("EulerDiscreteScheduler", {}),
    "euler_a": ("EulerAncestralDiscreteScheduler", {}),
    "kdpm2": ("KDPM2DiscreteScheduler", {}),
    "kdpm2_a": ("KDPM2AncestralDiscreteScheduler", {}),
    "dpm++": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++", "use_karras_sigmas": False}),
    "dpm++_karras": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++", "use_karras_sigmas": True}),
    "dpm++_sde": ("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver++", "use_karras_sigmas": False}),
    "deis": ("DEISMultistepScheduler", {}),
    "unipc": ("UniPCMultistepScheduler", {}),
    "lcm": ("LCMScheduler", {}),
}
"""Short names of schedulers: class, and what is set beside the model's own configuration."""


def pick_dtype(dtype: str, device: Any, index: Mapping[str, Any], variant: str | None) -> Any:
    torch = require("torch", extra=EXTRA, purpose=PURPOSE)
    if dtype != "auto":
        return named_dtype(dtype, extra=EXTRA, purpose=PURPOSE)
    if device.type != "cuda":
        return torch.float32
    unet = has_component(index, "unet") or index.get("_class_name") == "UnCLIPPipeline"  # whose U-Net is named decoder
    if variant == "fp16" or (unet and variant != "bf16") or not torch.cuda.is_bf16_supported():
        return torch.float16
    return torch.bfloat16  # transformers were trained in it, and some overflow in float16


def dtype_keyword() -> str:
    """What ``from_pretrained`` calls the type of numbers. One it does not know it would pass over, and load float32."""
    diffusers = require("diffusers", extra=EXTRA, purpose=PURPOSE)
    version = tuple(int(part) for part in re.findall(r"\d+", diffusers.__version__)[:2])
    return "dtype" if version >= (0, 42) else "torch_dtype"


def pipeline_class(source: Source) -> Any:
    """The class that makes images from text with this model's parts.

    Raises:
        UsageError: the installed diffusers has none.
    """
    diffusers = require("diffusers", extra=EXTRA, purpose=PURPOSE)
    auto = require("diffusers.pipelines.auto_pipeline", extra=EXTRA, purpose=PURPOSE)
    name = source.index.get("_class_name")
    if not isinstance(name, str):
        raise UsageError(
            f"diffusers: {source.shown} brings a pipeline of its own ({name}), which is not run: code from a model's "
            "repository could do anything. Wrap it as a function or command of yours instead"
        )
    _make_findable(source.index)
    result = getattr(diffusers, name, None)
    if result is None or not hasattr(result, "from_pretrained"):
        raise UsageError(
            f"diffusers: {source.shown} is a {name}, which diffusers {diffusers.__version__} does not have; another "
            "version may (pip install -U diffusers)"
        )
    # As AutoPipelineForText2Image does: parts saved for a sibling task serve, and a bare decoder gets its prior.
    families = [
        getattr(auto, mapping, {})
        for mapping in (
            "AUTO_TEXT2IMAGE_PIPELINES_MAPPING",
            "_AUTO_TEXT2IMAGE_DECODER_PIPELINES_MAPPING",
            "AUTO_IMAGE2IMAGE_PIPELINES_MAPPING",
            "AUTO_INPAINT_PIPELINES_MAPPING",
        )
    ]
    for family in families:
        for key, member in family.items():
            if member.__name__ == name:
                return families[0].get(key, result)
    return result


def _make_findable(index: Mapping[str, Any]) -> None:
    """Let diffusers find parts of pipelines it has moved to ``pipelines.deprecated`` (UnCLIP: Karlo)."""
    diffusers = require("diffusers", extra=EXTRA, purpose=PURPOSE)
    pipelines = require("diffusers.pipelines", extra=EXTRA, purpose=PURPOSE)
    parts = [value for value in index.values() if isinstance(value, list) and len(value) == 2 and value[0]]

    def moved(package: str) -> Any:
        name = f"diffusers.pipelines.deprecated.{package}"
        try:
            return require(name, extra=EXTRA, purpose=PURPOSE)
        except ModuleNotFoundError:
            return None

    for library, _ in parts:
        if re.fullmatch(r"[a-z_0-9]+", library) and library not in ("diffusers", "transformers"):
            package = None if hasattr(pipelines, library) else moved(library)
            if package is not None:
                setattr(pipelines, library, package)
    owner = getattr(diffusers, str(index.get("_class_name")), None)
    package_name = str(getattr(owner, "__module__", "")).rpartition(".")[0]
    if package_name.startswith("diffusers.pipelines.deprecated."):
        package = moved(package_name.removeprefix("diffusers.pipelines.deprecated."))
        for library, class_name in parts:
            # A folder written by save_pretrained says "diffusers" for the parts that live with their pipeline.
            if library == "diffusers" and not hasattr(diffusers, class_name) and hasattr(package, class_name):
                setattr(diffusers, class_name, getattr(package, class_name))


def call_parameters(pipeline_class: Any, source: Source) -> Mapping[str, inspect.Parameter]:
    parameters = inspect.signature(pipeline_class.__call__).parameters
    needed = [
        n
        for n, p in parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and n not in ("self", "prompt")
    ]
    if "prompt" not in parameters or needed:
        why = f"needs {', '.join(needed)}" if needed else "takes no prompt"
        raise UsageError(
            f"diffusers: {source.shown} is a {pipeline_class.__name__}, which {why}; expected a pipeline that makes "
            "images from a text alone"
        )
    return parameters


def model_schedulers(source: Source, wanted: str | None) -> tuple[dict[str, Any], bool]:
    """The model's schedulers by component, the main one replaced if wanted; and whether it was.

    Raises:
        UsageError: no such scheduler, or one that does not fit the model's own.
    """
    diffusers = require("diffusers", extra=EXTRA, purpose=PURPOSE)
    results: dict[str, Any] = {}
    for name, value in source.index.items():
        if name.endswith("scheduler") and has_component(source.index, name):
            kind = getattr(diffusers, value[1], None)
            if kind is None:
                raise UsageError(
                    f"diffusers: {source.shown} has a {value[1]}, which diffusers {diffusers.__version__} lacks"
                )
            try:
                results[name] = kind.from_pretrained(str(source.folder), subfolder=name, local_files_only=True)
            except (OSError, ValueError, ImportError) as err:
                raise UsageError(f"diffusers: cannot read the {name} of {source.shown}: {first_line(err)}") from err
    if wanted is None:
        return results, False
    if "scheduler" not in results:
        has = f"it has {', '.join(results)}" if results else "it has none"
        raise UsageError(f"diffusers: {source.shown} has no scheduler that can be replaced ({has})")
    subset = results["scheduler"]
    fitting = {c.__name__: c for c in subset.compatibles if not hasattr(c, "_backends")} | {
        type(subset).__name__: type(subset)
    }
    if "DDIMScheduler" in fitting:
        # Their authors put them in place of these, for distilled weights and LoRAs; diffusers lists them nowhere.
        fitting |= {name: getattr(diffusers, name) for name in ("LCMScheduler", "TCDScheduler")}
    short, settings = _scheduler_of(wanted)
    if short not in fitting:
        names = {name: cls for name, (cls, _) in SCHEDULERS.items() if cls in fitting}
        listed = [f"{name} ({cls})" for name, cls in names.items()]
        listed += sorted(set(fitting) - set(names.values()))
        raise UsageError(
            f"diffusers: scheduler {wanted!r} does not fit {source.shown}, made with {type(subset).__name__}; there "
            "are: "
            f"{', '.join(listed)}"
        )
    return results | {"scheduler": fitting[short].from_config(subset.config, **settings)}, True


def _scheduler_of(wanted: str) -> tuple[str, Mapping[str, Any]]:
    """Class name and settings of a scheduler's short name; any other name is taken for a class."""

    def plain(name: str) -> str:
        # In options of a command line "+" is a space, and people write euler-a as well.
        return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")

    for name, (class_name, settings) in SCHEDULERS.items():
        if plain(name) == plain(wanted):
            return class_name, settings
    return wanted, {}


def lora_digest(path: Path) -> str:
    if path.is_file():
        return digest(path.parent, [path.name])
    if not path.is_dir():
        raise UsageError(f"diffusers: lora={path}: no such file or folder; expected LoRA weights on this machine")
    names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.suffix in (*WEIGHTS, ".json"))
    if not any(name.endswith(WEIGHTS) for name in names):
        raise UsageError(f"diffusers: lora={path} holds no .safetensors file")
    return digest(path, names)


def merge_lora(pipeline: Any, path: Path, scale: float, pipeline_name: str) -> None:
    """Add LoRA weights to the model's own, so that they cost no time later.

    Raises:
        UsageError: the pipeline takes none, or they do not fit it.
    """
    require("peft", extra=EXTRA, purpose="LoRA weights")
    if not hasattr(pipeline, "load_lora_weights"):
        raise UsageError(f"diffusers: {pipeline_name} takes no LoRA weights")
    try:
        if path.is_file():
            pipeline.load_lora_weights(str(path.parent), weight_name=path.name, local_files_only=True)
        else:
            pipeline.load_lora_weights(str(path), local_files_only=True)
        loaded = pipeline.get_list_adapters()
    except Exception as err:
        if out_of_memory(err):
            raise
        raise UsageError(f"diffusers: lora={path} does not fit {pipeline_name}: {first_line(err)}") from err
    if not any(loaded.values()):
        raise UsageError(f"diffusers: lora={path} holds no weight of {pipeline_name}")
    pipeline.fuse_lora(components=list(loaded), lora_scale=scale)
    pipeline.unload_lora_weights()
