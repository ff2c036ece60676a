"""Pictures from any text-to-image pipeline that ``diffusers`` loads, from the Hugging Face hub or a local folder.

Stable Diffusion 1 to 3.5, SDXL, FLUX, PixArt, Karlo (UnCLIP), Qwen-Image and others::

    verism run paintskills --model 'diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5?steps=50' --out runs/sd15

Every picture has a random generator of its own on the processor, seeded by its request, for its first noise and for
whatever a scheduler adds on the way: a picture depends on its request and not on its neighbours, and a GPU starts from
the noise the processor would start from. Beyond that only the rounding of batched arithmetic differs.

Making the generator reads configuration files only. Weights are fetched and loaded when the first picture is asked for,
so wrong options are told at once and a dry run costs nothing.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import inspect
import json
import logging
import math
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, VerismError, require
from verism.inference import DTYPES as NAMED_DTYPES
from verism.inference import pick_device, pick_dtype
from verism.records import Request, Result

__all__ = ["DTYPES", "OFFLOADS", "SCHEDULERS", "DiffusersGenerator"]

EXTRA = "generate"
PURPOSE = "a text-to-image model from the Hugging Face hub"

DTYPES = ("auto", *NAMED_DTYPES)
OFFLOADS = ("none", "model", "sequential")
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

# Arguments of pipelines that are the generator's own business, or have a name here that all pipelines share.
_RESERVED = re.compile(
    r"self|prompt.*|negative_prompt.*|num_images_per_prompt|generator|.*latents.*|output_type|return_dict|callback.*"
    r"|.*_embeds.*|.*image.*|args|kwargs|timesteps|sigmas"
)
_FOREIGN_TYPES = re.compile(r"Tensor|[Ll]ist|[Dd]ict|Callable|Generator|Image|[Tt]uple|Any|Sequence|Mapping")
_COMMON = (
    "revision", "variant", "dtype", "scheduler", "lora", "lora_scale", "batch_size", "device", "offload",
    "local_files_only", "safety",
)  # fmt: skip
_COUNTED = ("num_inference_steps", "guidance_scale", "cfg_scale")  # ends of names whose defaults enter the name
_STEPS = ("num_inference_steps", "decoder_num_inference_steps")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CONFIGS = ["model_index.json", "*/config.json", "*/*_config.json", "README.md"]
_WEIGHTS = (".safetensors", ".bin")
_DIGESTED = {*_WEIGHTS, ".json", ".txt", ".model"}
_VARIANT = re.compile(r"\.([A-Za-z]\w*)(?:-\d+-of-\d+)?\.(?:safetensors|bin)$|\.([A-Za-z]\w*)\.index\.json$")
_DERIVED = ("position_ids", "inv_freq", "num_batches_tracked")  # follow from the configuration; seldom saved
# Tokenizers whose length a pipeline fixes in its code; others read `max_sequence_length` or the tokenizer's own limit.
_FIXED_LENGTHS = {"IFPipeline": 77, "Kandinsky3Pipeline": 128, "KandinskyCombinedPipeline": 77}
_PROBE = "a photo of a dog"


@dataclass(frozen=True)
class _Source:
    """Where a model comes from.

    Attributes:
        shown: its name for people, without the places of this machine.
        folder: holds at least its configuration files.
        identity: commit of the hub (40 digits), or SHA-256 over the folder's weights and settings (64 digits).
        index: content of ``model_index.json``.
        repository: id on the hub, or None for a folder.
        files: names of all files, relative to the root; empty if unknown.
    """

    shown: str
    folder: Path
    identity: str
    index: Mapping[str, Any]
    repository: str | None
    files: tuple[str, ...]
    licence: str | None


@dataclass
class _Counts:
    pictures: int = 0
    batches: int = 0
    seconds: float = 0.0
    lowered: list[str] = field(default_factory=list)


class DiffusersGenerator:
    """A text-to-image pipeline of ``diffusers``.

    Args:
        model: id on the Hugging Face hub, or a folder with ``model_index.json``.
        revision: branch, tag or commit on the hub.
        variant: of the weights' files, such as ``fp16``.
        steps: denoising steps (of the decoder in UnCLIP); the pipeline's own default.
        guidance: guidance scale (``true_cfg_scale`` of Qwen-Image, of the decoder in UnCLIP); the pipeline's default.
        dtype: ``float32``, ``float16``, ``bfloat16``; ``auto``: on CUDA 16 bits, of the kind the model was made for
            (float16 for U-Nets and the variant ``fp16``, else bfloat16), float32 elsewhere.
        scheduler: class name or one of ``SCHEDULERS``, configured as the model's own.
        negative: negative prompt, the same for all.
        width, height: in pixels; the model's own size.
        lora: file or folder with LoRA weights, merged into the model with weight ``lora_scale``.
        batch_size: pictures at once; halved, for good, when memory runs out.
        device: ``cuda``, ``cuda:1``, ``mps``, ``cpu``; the best there is.
        offload: ``model`` or ``sequential`` keeps in GPU memory only what is at work; slower, needs ``accelerate``.
        local_files_only: never ask the hub.
        safety: ``off`` loads the pipeline without its safety checker.
        arguments: any other argument of the pipeline's ``__call__`` that is a number, a text or true or false, by the
            pipeline's own name; texts are read as the type of the argument's default.
    Raises:
        UsageError: no such model, one that makes no pictures from text, or an option it does not take.
        MissingExtra: ``torch``, ``diffusers`` or ``transformers`` is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        variant: str | None = None,
        steps: int | None = None,
        guidance: float | None = None,
        dtype: str = "auto",
        scheduler: str | None = None,
        negative: str | None = None,
        width: int | None = None,
        height: int | None = None,
        lora: str | Path | None = None,
        lora_scale: float = 1.0,
        batch_size: int = 4,
        device: str | None = None,
        offload: str = "none",
        local_files_only: bool = False,
        safety: str = "default",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        _check_choice("dtype", dtype, DTYPES)
        _check_choice("offload", offload, OFFLOADS)
        _check_choice("safety", safety, ("default", "off"))
        for option, number in (("batch_size", batch_size), ("steps", steps), ("width", width), ("height", height)):
            if number is not None and number < 1:
                raise UsageError(f"diffusers: {option} must be at least 1, got {number}")
        if lora is None and lora_scale != 1.0:
            raise UsageError("diffusers: lora_scale has no effect without lora=FILE")
        for module in ("torch", "transformers", "diffusers"):
            require(module, extra=EXTRA, purpose=PURPOSE)

        self._source = _find(model, revision=revision, local_files_only=local_files_only)
        self._revision, self._variant, self._local_files_only = revision, variant, local_files_only
        _check_variant(self._source, variant, local_files_only=local_files_only)
        self._device = pick_device(device, allow_mps=True, extra=EXTRA, purpose=PURPOSE)
        self._dtype = _pick_dtype(dtype, self._device, self._source.index, variant)
        self._offload = offload
        if offload != "none":
            require("accelerate", extra=EXTRA, purpose=f"offload={offload}")
            if self._device.type == "cpu":
                raise UsageError(f"diffusers: offload={offload} moves a model in and out of a GPU; device is cpu")
        with _overheard():
            self._class = _pipeline_class(self._source)
            self._parameters = _call_parameters(self._class, self._source)
            self._schedulers, replaced = _schedulers(self._source, scheduler)
        self._replaced_scheduler = self._schedulers["scheduler"] if replaced else None
        has_checker = _present(self._source.index, "safety_checker")
        self._safety = "none" if not has_checker else "off" if safety == "off" else "on"
        given = {"steps": steps, "guidance": guidance, "negative": negative, "width": width, "height": height}
        self._arguments, self._negative = _arguments(
            self._class.__name__,
            self._parameters,
            {k: v for k, v in given.items() if v is not None},
            arguments or {},
            _config(self._source, "transformer"),
        )
        self._lora = Path(lora).expanduser() if lora is not None else None
        self._lora_scale = lora_scale
        self._lora_digest = _lora_digest(self._lora) if self._lora is not None else None

        self.batch_size = batch_size
        self._counts = _Counts()
        self._noise_is_idle = False
        self._pipeline: Any = None
        self._loading_notes: list[str] = []
        if "generator" not in self._parameters and self.batch_size > 1:
            self._lower(1, f"{self._class.__name__} takes no random generator per picture")
        self.name = self._name(replaced=replaced)

    def _name(self, *, replaced: bool) -> str:
        told: dict[str, Any] = {
            name: p.default
            for name, p in self._parameters.items()
            if name.endswith(_COUNTED) and isinstance(p.default, int | float)
        }
        told |= self._arguments
        if _ignores_guidance(self._parameters, _config(self._source, "transformer")):
            told.pop("guidance_scale", None)
        if self._negative is not None:
            told["negative"] = json.dumps(self._negative, ensure_ascii=False)
        if "scheduler" in self._schedulers:
            chosen = self._schedulers["scheduler"]
            told["scheduler"] = type(chosen).__name__
            for key in ("algorithm_type", "use_karras_sigmas"):
                if replaced and key in chosen.config:
                    told[key] = chosen.config[key]
        told["dtype"] = str(self._dtype).removeprefix("torch.")
        told["variant"] = self._variant
        if self._lora is not None and self._lora_digest is not None:
            told["lora"] = f"{self._lora.name}@{self._lora_digest[:12]}*{self._lora_scale:g}"
        told["safety"] = self._safety
        text = "".join(f" {key}={value}" for key, value in told.items() if value is not None)
        return f"diffusers:{self._source.shown}@{self._source.identity[:12]}{text}"

    # ------------------------------------------------------------------------------------------------------ pictures
    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        """One result per request, in order, a batch at a time.

        Raises:
            UsageError: the model cannot be loaded, or makes no picture at all with these settings.
        """
        if not requests:
            return
        self._load()
        done = 0
        while done < len(requests):
            part = requests[done : done + self.batch_size]
            results = self._try(part)
            if results is not None:
                yield from results
                done += len(part)

    def _try(self, part: Sequence[Request]) -> list[Result] | None:
        """Results of a batch, or None if the batch size was lowered and it has to be tried again."""
        try:
            return self._make(part)
        except VerismError:
            raise
        except _OwnNoise as err:
            reason, failure, size = str(err), None, 1
        except Exception as err:
            # Of memory only the text is kept: the traceback would hold the tensors that have to go before the next try.
            short = _out_of_memory(err)
            reason, failure, size = _first_line(err), None if short else err, len(part) // 2
        if failure is None:
            _free_memory(self._device)
            if len(part) > 1:
                self._lower(size, reason)
                return None
            advice = "use a smaller width and height, dtype=bfloat16, or offload=model"
            return [_failed(part[0], f"out of memory, even for a single picture; {advice}. {reason}")]
        if len(part) > 1:  # one bad prompt must not cost its neighbours
            return [result for request in part for result in (self._try([request]) or ())]
        self._probe(failure)
        return [_failed(part[0], f"{type(failure).__name__}: {_first_line(failure)}")]

    def _probe(self, failure: Exception) -> None:
        """Raise if a plain prompt fails as well: then it is the model or its settings, not the prompt."""
        try:
            self._call([_PROBE], [0])
        except Exception as err:
            if _out_of_memory(err):
                return
            kind = UsageError if isinstance(err, ValueError | TypeError | ImportError) else VerismError
            raise kind(
                f"{self._source.shown} ({self._class.__name__}) makes no picture with these settings "
                f"({self.name}); it says: {type(failure).__name__}: {_first_line(failure)}"
            ) from failure

    def _make(self, part: Sequence[Request]) -> list[Result]:
        start = time.perf_counter()
        images, flagged = self._call([r.prompt.text for r in part], [r.seed for r in part])
        results = []
        for request, image, unsafe in zip(part, images, flagged, strict=True):
            if unsafe:
                note = "the model's safety checker took the picture for unsafe and withheld it; safety=off loads none"
                results.append(Result(image_id=request.image_id, state="refused", note=note))
                continue
            pixels = _to_pixels(image)
            if pixels is None:
                results.append(_failed(request, self._overflow_note()))
            else:
                note = self._cut_note(request.prompt.text)
                results.append(Result(image_id=request.image_id, state="ok", pixels=pixels, note=note))
        self._counts.pictures += len(part)
        self._counts.batches += 1
        self._counts.seconds += time.perf_counter() - start
        return results

    def _call(self, prompts: Sequence[str], seeds: Sequence[int]) -> tuple[Sequence[Any], Sequence[bool]]:
        """Pictures as the pipeline gives them, and whether its safety checker withheld each.

        Raises:
            _OwnNoise: the pipeline drew random numbers other than from the generators of the pictures.
        """
        torch = require("torch", extra=EXTRA, purpose=PURPOSE)
        arguments: dict[str, Any] = {**self._arguments, "prompt": list(prompts)}
        if self._negative is not None:
            arguments["negative_prompt"] = [self._negative] * len(prompts)
        if "generator" in self._parameters:
            generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
            arguments["generator"] = generators if len(generators) > 1 else generators[0]
        if "output_type" in self._parameters:
            arguments["output_type"] = "np"  # floats, so that overflows can be told from black pictures
        with _overheard(), _global_noise(torch, self._device, seeds[0]) as touched:
            output = self._pipeline(**arguments)
        images = getattr(output, "images", None)
        if images is None or len(images) != len(prompts):
            given = "no images" if images is None else f"{len(images)} images for {len(prompts)} prompts"
            raise UsageError(f"{self._source.shown} is a {self._class.__name__}, which answered with {given}")
        if touched and len(prompts) > 1 and not self._noise_is_idle:
            # Some attention kernels draw numbers and leave them unused: what counts is whether other ones show.
            if "generator" in self._parameters:
                arguments["generator"] = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
            with _overheard(), _global_noise(torch, self._device, seeds[0] + 1):
                again = self._pipeline(**arguments).images
            if not _look_alike(images, again):
                raise _OwnNoise
            self._noise_is_idle = True
        flags = getattr(output, "nsfw_content_detected", None)
        if flags is None:
            flags = getattr(output, "nsfw_detected", None)  # DeepFloyd IF
        return images, [bool(f) for f in flags] if flags is not None else [False] * len(prompts)

    def _lower(self, size: int, reason: str) -> None:
        self._counts.lowered.append(f"{self.batch_size} to {size}: {reason}")
        self.batch_size = size

    def _overflow_note(self) -> str:
        kind = str(self._dtype).removeprefix("torch.")
        advice = (
            "numbers overflow in float16; use dtype=bfloat16 or dtype=float32"
            if kind == "float16"
            else "the weights may be damaged or the settings out of range; try dtype=float32, the model's own scheduler"
        )
        return f"the picture holds pixels that are no numbers (computed in {kind}): {advice}"

    def _cut_note(self, text: str) -> str:
        """How many tokens of a prompt the model's tokenizers cut off, or nothing."""
        with _overheard():
            cuts = [
                f"{name} cut the last {cut} of {total} tokens (limit {limit})"
                for name, limit, total in self._token_counts(text)
                if (cut := total - limit) > 0
            ]
        return f"prompt not read to its end: {'; '.join(cuts)}" if cuts else ""

    def _token_counts(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Of each tokenizer: its name, how many tokens it may give the model, and how many the prompt has.

        Special tokens count as tokens, as they do for the limit.
        """
        pipeline = self._pipeline
        longest = self._arguments.get("max_sequence_length", _default(self._parameters, "max_sequence_length"))
        for name, tokenizer in pipeline.components.items():
            encoder = pipeline.components.get(name.replace("tokenizer", "text_encoder"), tokenizer)
            if "tokenizer" not in name or encoder is None or not hasattr(tokenizer, "model_max_length"):
                continue
            if self._class.__name__ in _FIXED_LENGTHS:
                limit = _FIXED_LENGTHS[self._class.__name__]
            elif longest is not None and "CLIP" not in type(tokenizer).__name__:
                limit = longest
            else:
                limit = tokenizer.model_max_length
            if limit > 1_000_000:  # transformers' number for "not known"
                continue
            read, around = text, 0
            if hasattr(pipeline, "_text_preprocessing"):  # PixArt and others: in lower case
                clean = bool(self._arguments.get("clean_caption", False))
                (read,) = pipeline._text_preprocessing(text, clean_caption=clean)
            template = getattr(pipeline, "prompt_template_encode", None)
            if isinstance(template, str) and "{}" in template:
                # Qwen-Image: what stands before the prompt is dropped, what stands behind it is cut first.
                before, _, behind = template.partition("{}")
                read = before + text + behind
                around = len(tokenizer(behind, add_special_tokens=False).input_ids)
                limit += getattr(pipeline, "prompt_template_encode_start_idx", 0)
            yield name, limit - around, len(tokenizer(read).input_ids) - around

    # ------------------------------------------------------------------------------------------------------- loading
    def _load(self) -> None:
        if self._pipeline is not None:
            return
        source = self._source
        folder: str | Path = source.folder
        options: dict[str, Any] = {_dtype_keyword(): self._dtype, "variant": self._variant}
        accepted = inspect.signature(self._class.__init__).parameters
        if self._safety == "off":
            options["safety_checker"] = None
            if "requires_safety_checker" in accepted:
                options["requires_safety_checker"] = False
        if "add_watermark" in accepted:
            # Else SDXL marks pictures where the library for it happens to be installed, and not elsewhere.
            options["add_watermark"] = False
        connected = bool(getattr(self._class, "_load_connected_pipes", False))
        if connected:
            options["load_connected_pipeline"] = True
        try:
            if source.repository is not None:
                folder = self._class.download(
                    source.repository,
                    revision=source.identity,
                    variant=self._variant,
                    local_files_only=self._local_files_only,
                    load_connected_pipeline=connected,
                )
            with _overheard() as heard:
                pipeline = self._class.from_pretrained(str(folder), local_files_only=not connected, **options)
        except Exception as err:
            raise _loading_error(err, source, self._revision) from err
        if missing := _made_up(heard):
            raise UsageError(
                f"the weights of {source.shown} are incomplete: {len(missing)} are missing and would be random numbers "
                f"({', '.join(missing[:5])}). Fetch the model again, or save it anew"
            )
        if self._replaced_scheduler is not None:
            pipeline.scheduler = self._replaced_scheduler
        pipeline.set_progress_bar_config(disable=True)
        try:
            with _overheard() as more:
                if self._lora is not None:
                    _merge_lora(pipeline, self._lora, self._lora_scale, self._class.__name__)
                if self._offload == "model":
                    pipeline.enable_model_cpu_offload(device=self._device)
                elif self._offload == "sequential":
                    pipeline.enable_sequential_cpu_offload(device=self._device)
                else:
                    pipeline.to(self._device)
        except Exception as err:
            if not _out_of_memory(err):
                raise
            raise UsageError(
                f"{source.shown} does not fit the memory of {self._device} in {self._dtype}; use offload=model, "
                f"dtype=bfloat16, or device=cpu. {_first_line(err)}"
            ) from err
        self._loading_notes = list(dict.fromkeys(" ".join(line.split())[:400] for line in [*heard, *more]))
        self._pipeline = pipeline

    def close(self) -> None:
        """Let go of the model and its memory."""
        if self._pipeline is not None:
            self._pipeline = None
            _free_memory(self._device)

    # ------------------------------------------------------------------------------------------------------- telling
    def describe(self) -> Mapping[str, Any]:
        """What a reader of the run may want to know beside the name; JSON-serialisable."""
        source = self._source
        return {
            "model": source.shown,
            "from": "hub" if source.repository is not None else "folder",
            "commit" if source.repository is not None else "content_sha256": source.identity,
            "asked_revision": self._revision,
            "variant": self._variant,
            "licence": source.licence,
            "pipeline": self._class.__name__,
            "components": {
                name: value[1]
                for name, value in source.index.items()
                if isinstance(value, list) and len(value) == 2 and value[1] is not None
            },
            "schedulers": {
                name: {"class": type(s).__name__, **_as_json(dict(s.config))} for name, s in self._schedulers.items()
            },
            "arguments": {
                **{n: p.default for n, p in self._parameters.items() if _is_settable(n, p) and p.default is not None},
                **self._arguments,
                "negative_prompt": self._negative,
            },
            "dtype": str(self._dtype).removeprefix("torch."),
            "device": str(self._device),
            "device_name": _device_name(self._device),
            "offload": self._offload,
            "safety_checker": self._safety,
            "lora": (
                {"name": self._lora.name, "content_sha256": self._lora_digest, "scale": self._lora_scale}
                if self._lora is not None
                else None
            ),
            "noise": "one generator per picture on the processor, seeded by the request",
            "batch_size": self.batch_size,
            "batch_size_lowered": list(self._counts.lowered),
            "loading_notes": list(self._loading_notes),
            "versions": _versions(),
        }

    def estimate(self, requests: Sequence[Request]) -> Sequence[str]:
        """What a run would do, for ``--dry-run``; loads nothing."""
        batches = math.ceil(len(requests) / self.batch_size)
        steps = self._arguments.get("num_inference_steps", _default(self._parameters, "num_inference_steps"))
        each = f", {steps} steps each" if steps is not None else ""
        kind = str(self._dtype).removeprefix("torch.")
        return [
            f"{len(requests):,} pictures from {self._source.shown} ({self._class.__name__}, {kind} on {self._device})",
            f"{batches:,} batches of up to {self.batch_size}{each}; no fee",
        ]

    def summary(self) -> Sequence[str]:
        """What was done, for the end of a run."""
        c = self._counts
        if not c.batches:
            return [f"batch size lowered from {line}" for line in c.lowered]
        pace = c.seconds / c.pictures
        lines = [f"{c.pictures:,} pictures in {c.batches:,} batches on {self._device}, {pace:.2f} s a picture"]
        return [*lines, *(f"batch size lowered from {line}" for line in c.lowered)]


def _as_json(value: Any) -> Any:
    """The value with what JSON has no form for, such as the infinities of scheduler settings, as text."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite and isinstance(value, str | int | float | None) else str(value)


def _failed(request: Request, note: str) -> Result:
    return Result(image_id=request.image_id, state="failed", note=note)


def _look_alike(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether pictures are the same up to the rounding of a GPU that adds in any order: 2 levels of 255."""
    pairs = [(_to_pixels(a), _to_pixels(b)) for a, b in zip(first, second, strict=True)]
    return all(
        a is not None and b is not None and int(np.abs(a.astype(int) - b.astype(int)).max()) <= 2 for a, b in pairs
    )


def _to_pixels(image: Any) -> NDArray[np.uint8] | None:
    """A pipeline's picture, floats in [0, 1] of shape (H, W, 3) or a Pillow picture, as 8 bits; None if not finite."""
    if hasattr(image, "convert"):
        return np.asarray(image.convert("RGB"), dtype=np.uint8)
    values = np.asarray(image, dtype=np.float32)
    if not np.isfinite(values).all():
        return None
    # Rounded as diffusers itself does for Pillow pictures.
    return np.ascontiguousarray((np.clip(values, 0, 1) * 255).round().astype(np.uint8))


# --------------------------------------------------------------------------------------------------------------------
# Noise and memory
# --------------------------------------------------------------------------------------------------------------------
class _OwnNoise(Exception):
    """A batch whose pictures share random numbers."""

    def __str__(self) -> str:
        return "the pipeline or its scheduler draws noise that no generator of a picture controls"


@contextlib.contextmanager
def _global_noise(torch: Any, device: Any, seed: int) -> Iterator[list[str]]:
    """Seed torch's global generators for a while, and put them back; the list tells those that were drawn from."""
    banks = {"cpu": torch.random}
    if device.type in ("cuda", "mps"):
        banks[device.type] = getattr(torch, device.type)
    place = {"cuda": (device,)}  # the only one of several of its kind

    def states() -> dict[str, Any]:
        return {name: bank.get_rng_state(*place.get(name, ())) for name, bank in banks.items()}

    def put_back(kept: Mapping[str, Any]) -> None:
        for name, bank in banks.items():
            bank.set_rng_state(kept[name], *place.get(name, ()))

    before = states()
    torch.manual_seed(seed)
    seeded = states()
    touched: list[str] = []
    try:
        yield touched
        touched += [name for name, state in states().items() if not torch.equal(state, seeded[name])]
    finally:
        put_back(before)


def _out_of_memory(err: BaseException) -> bool:
    """Whether memory ran out: on a GPU, or on the processor, where torch says it only in words."""
    torch = require("torch", extra=EXTRA, purpose=PURPOSE)
    if isinstance(err, torch.OutOfMemoryError | MemoryError):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")
    return isinstance(err, RuntimeError) and any(w in str(err).lower() for w in words)


def _free_memory(device: Any) -> None:
    import gc

    torch = require("torch", extra=EXTRA, purpose=PURPOSE)
    gc.collect()  # pipelines hold tensors in reference cycles
    if device.type in ("cuda", "mps"):
        getattr(torch, device.type).empty_cache()


def _first_line(err: BaseException) -> str:
    text = " ".join(str(err).split())
    return text if len(text) <= 300 else f"{text[:297]}..."


# --------------------------------------------------------------------------------------------------------------------
# Options
# --------------------------------------------------------------------------------------------------------------------
def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise UsageError(f"diffusers: {name} must be one of {', '.join(choices)}, not {value!r}")


def _default(parameters: Mapping[str, inspect.Parameter], name: str) -> Any:
    return parameters[name].default if name in parameters else None


def _is_settable(name: str, parameter: inspect.Parameter) -> bool:
    """Whether an argument of a pipeline's call is a number, a text or a switch that a user may set."""
    if _RESERVED.fullmatch(name) or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return False
    if isinstance(parameter.default, bool | int | float | str):
        return True
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else str(annotation)
    return parameter.default is None and annotation is not parameter.empty and not _FOREIGN_TYPES.search(text)


def _ignores_guidance(parameters: Mapping[str, inspect.Parameter], transformer: Mapping[str, Any]) -> bool:
    """Whether ``guidance_scale`` has no effect: FLUX.1 schnell, Qwen-Image and others made without that input."""
    return "true_cfg_scale" in parameters and transformer.get("guidance_embeds") is False


def _arguments(
    pipeline: str,
    parameters: Mapping[str, inspect.Parameter],
    given: Mapping[str, Any],
    own: Mapping[str, Any],
    transformer: Mapping[str, Any],
) -> tuple[dict[str, Any], str | None]:
    """Arguments of the pipeline's call beside prompt, noise and output; and the negative prompt, or None.

    Args:
        given: options by the names all pipelines share. own: by the pipeline's own names.
        transformer: the transformer's configuration, if it has one.
    """
    steps = next((n for n in _STEPS if n in parameters), None)
    if "guidance_scale" in parameters and not (
        parameters["guidance_scale"].default is None and "true_cfg_scale" in parameters
    ):
        guidance: str | None = "guidance_scale"
    else:
        guidance = next((n for n in ("true_cfg_scale", "decoder_guidance_scale") if n in parameters), None)
    named = {"steps": steps, "guidance": guidance, "width": "width", "height": "height", "negative": "negative_prompt"}
    shared = {option: name for option, name in named.items() if name is not None and name in parameters}
    settable = [n for n, p in parameters.items() if _is_settable(n, p) and n not in ("width", "height")]
    takes = f"Of its own it takes: {', '.join([*shared, *settable])}; and as every model: {', '.join(_COMMON)}"
    for option in (*given, *own):
        if option not in shared and option not in settable:
            near = difflib.get_close_matches(option, [*shared, *settable, *_COMMON], n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(f"diffusers: {pipeline} takes no option {option!r}.{hint} {takes}")
    arguments: dict[str, Any] = {shared[o]: v for o, v in given.items() if o != "negative"}
    for name, value in own.items():
        target = shared.get(name, name)
        if target in arguments:
            raise UsageError(f"diffusers: {target} of {pipeline} is given twice, once by its short name")
        arguments[target] = _as_type_of(name, value, parameters[target].default)
    negative = given.get("negative")

    if _ignores_guidance(parameters, transformer) and arguments.get("guidance_scale"):
        raise UsageError(
            f"diffusers: this {pipeline} ignores guidance_scale, as its transformer has no such input "
            "(guidance_embeds is false); leave guidance out, or set true_cfg_scale, which doubles the time"
        )
    true_cfg = arguments.get("true_cfg_scale", _default(parameters, "true_cfg_scale"))
    if true_cfg is not None and "negative_prompt" in parameters:
        if true_cfg <= 1 and negative is not None:
            raise UsageError(f"diffusers: negative has no effect on {pipeline} while true_cfg_scale is {true_cfg:g}")
        if true_cfg > 1 and negative is None:
            negative = " "  # without one these pipelines leave guidance out, and say so only in a log
    if negative is not None and shared.get("guidance") == "guidance_scale":
        scale = arguments.get("guidance_scale", _default(parameters, "guidance_scale"))
        if true_cfg is None and isinstance(scale, int | float) and scale <= 0:
            raise UsageError(f"diffusers: negative has no effect on {pipeline} while guidance is {scale:g}")
    if "clean_caption" in parameters and "clean_caption" not in arguments:
        # On by default, but only where two further libraries happen to be installed.
        arguments["clean_caption"] = False
    if arguments.get("clean_caption"):
        for module in ("bs4", "ftfy"):
            try:
                __import__(module)
            except ModuleNotFoundError:
                raise UsageError(
                    f"diffusers: clean_caption=true needs {module!r}. Install it with: pip install beautifulsoup4 ftfy"
                ) from None
    return arguments, negative


def _as_type_of(name: str, value: Any, default: Any) -> Any:
    """A value as the type of the argument's default; without a default, as what it looks like."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if isinstance(default, str):
        return value
    if text.lower() in ("true", "false") and (default is None or isinstance(default, bool)):
        return text.lower() == "true"
    if not isinstance(default, bool):
        for kind in (int, float):
            if isinstance(default, int) and kind is float:
                break
            with contextlib.suppress(ValueError):
                return kind(text)
    if default is None:
        return value
    expected = "true or false" if isinstance(default, bool) else "a whole number" if isinstance(default, int) else None
    raise UsageError(f"diffusers: option {name}={value!r}: expected {expected or 'a number'}")


def _pick_dtype(dtype: str, device: Any, index: Mapping[str, Any], variant: str | None) -> Any:
    torch = require("torch", extra=EXTRA, purpose=PURPOSE)
    if dtype != "auto":
        return pick_dtype(dtype, extra=EXTRA, purpose=PURPOSE)
    if device.type != "cuda":
        return torch.float32
    unet = _present(index, "unet") or index.get("_class_name") == "UnCLIPPipeline"  # whose U-Net is named decoder
    if variant == "fp16" or (unet and variant != "bf16") or not torch.cuda.is_bf16_supported():
        return torch.float16
    return torch.bfloat16  # transformers were trained in it, and some overflow in float16


# --------------------------------------------------------------------------------------------------------------------
# Where a model comes from
# --------------------------------------------------------------------------------------------------------------------
def _dtype_keyword() -> str:
    """What ``from_pretrained`` calls the type of numbers. One it does not know it would pass over, and load float32."""
    diffusers = require("diffusers", extra=EXTRA, purpose=PURPOSE)
    version = tuple(int(part) for part in re.findall(r"\d+", diffusers.__version__)[:2])
    return "dtype" if version >= (0, 42) else "torch_dtype"


def _present(index: Mapping[str, Any], component: str) -> bool:
    value = index.get(component)
    return isinstance(value, list) and len(value) == 2 and value[1] is not None


def _config(source: _Source, component: str) -> Mapping[str, Any]:
    path = source.folder / component / "config.json"
    content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content


def _find(model: str, *, revision: str | None, local_files_only: bool) -> _Source:
    """The model's configuration files and identity, fetched if need be; its weights stay where they are.

    Raises:
        UsageError: no such model, and what to do about it.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        if revision is not None:
            raise UsageError(f"diffusers: revision={revision} is for the hub; {model} is a folder")
        folder, repository = path.resolve(), None
        shown = folder.name
        missing = f"{model} has no model_index.json; expected a folder that diffusers' save_pretrained wrote"
    elif path.is_file():
        raise UsageError(
            f"diffusers: {model} is a file; expected an id on the hub or a folder with model_index.json. Convert a "
            "single checkpoint with StableDiffusionPipeline.from_single_file(FILE).save_pretrained(FOLDER)"
        )
    elif not _HUB_ID.fullmatch(model) or model.startswith((".", "-")):
        raise UsageError(f"diffusers: no such folder {model!r}, and an id on the hub is written owner/name")
    else:
        folder = _fetch_configs(model, revision, local_files_only)
        repository = shown = model
        missing = f"{model} on the hub has no model_index.json: no diffusers pipeline (for LoRA weights use lora=FILE)"
    try:
        index = json.loads((folder / "model_index.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"diffusers: {missing}") from None
    except ValueError as err:
        raise UsageError(f"diffusers: {folder / 'model_index.json'} is no JSON: {err}") from err
    if not isinstance(index, dict):
        raise UsageError(f"diffusers: {folder / 'model_index.json'} holds no JSON object")
    files: tuple[str, ...] = ()
    if repository is None:
        parts = [n for n in index if (folder / n).is_dir()]
        found = [p for n in parts for p in sorted((folder / n).rglob("*")) if p.is_file()]
        files = tuple(p.relative_to(folder).as_posix() for p in found)
        identity = _digest(folder, ["model_index.json", *(f for f in files if Path(f).suffix in _DIGESTED)])
    else:
        identity = folder.name
    return _Source(shown, folder, identity, index, repository, files, _licence(folder))


def _fetch_configs(model: str, revision: str | None, local_files_only: bool) -> Path:
    """The folder of the hub's cache with the configuration files; it is named by the commit."""
    hub = require("huggingface_hub", extra=EXTRA, purpose=PURPOSE)
    try:
        folder = Path(
            hub.snapshot_download(model, revision=revision, allow_patterns=_CONFIGS, local_files_only=local_files_only)
        )
    except Exception as err:
        raise _hub_error(err, model, revision) from err
    if not _COMMIT.fullmatch(folder.name):
        raise VerismError(f"diffusers: the hub's cache gave {folder}, which is not named by a commit")
    return folder


def _hub_error(err: Exception, model: str, revision: str | None) -> UsageError:
    """What a failed download means for the user, in one sentence; an error of another kind is raised as it is."""
    errors = require("huggingface_hub.errors", extra=EXTRA, purpose=PURPOSE)
    where = f"diffusers: {model}" + (f" at revision {revision}" if revision else "")
    if isinstance(err, errors.GatedRepoError):
        return UsageError(
            f"{where} is gated: accept its terms at https://huggingface.co/{model}, then log in with `hf auth login` "
            "(formerly huggingface-cli login) or set HF_TOKEN"
        )
    if isinstance(err, errors.RevisionNotFoundError):
        return UsageError(f"{where}: the hub has no such branch, tag or commit of {model}")
    if isinstance(err, errors.RepositoryNotFoundError):
        return UsageError(
            f"{where} is not on the Hugging Face hub, or private: check the spelling (owner/name); for a private one "
            "log in with `hf auth login` (formerly huggingface-cli login) or set HF_TOKEN"
        )
    if isinstance(err, errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError):
        return UsageError(
            f"{where} is not in the hub's cache of this machine, and the hub was not reached (no network, "
            "HF_HUB_OFFLINE or local_files_only). Fetch it where there is a network with `hf download "
            f"{model}`, or give the path of a folder with the model"
        )
    if isinstance(err, errors.HFValidationError):
        return UsageError(f"{where}: not an id of the hub, which is written owner/name")
    if isinstance(err, errors.HfHubHTTPError | OSError):
        return UsageError(f"{where} could not be fetched from the hub: {_first_line(err)}")
    raise err


def _loading_error(err: Exception, source: _Source, revision: str | None) -> Exception:
    """What a failed loading of weights means for the user; an error of an unknown kind as it is."""
    errors = require("huggingface_hub.errors", extra=EXTRA, purpose=PURPOSE)
    known = errors.HfHubHTTPError | errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError
    if source.repository is not None and isinstance(err, known):
        return _hub_error(err, source.repository, revision)
    if isinstance(err, ImportError):
        return UsageError(f"{source.shown} needs a library that is not installed: {_first_line(err)}")
    if _out_of_memory(err):
        return UsageError(f"{source.shown} does not fit this machine's memory; use dtype=bfloat16. {_first_line(err)}")
    if isinstance(err, OSError | ValueError | KeyError | RuntimeError | AttributeError):
        return UsageError(f"cannot load {source.shown}: {_first_line(err)}")
    return err


def _check_variant(source: _Source, variant: str | None, *, local_files_only: bool) -> None:
    """Raise UsageError if no weights' file bears the variant's name, as far as the files are known."""
    if variant is None:
        return
    files = source.files
    if source.repository is not None and not local_files_only:
        hub = require("huggingface_hub", extra=EXTRA, purpose=PURPOSE)
        with contextlib.suppress(Exception):  # no network: the cache may hold the variant, and loading will tell
            files = tuple(hub.HfApi().list_repo_files(source.repository, revision=source.identity))
    matches = [_VARIANT.search(f) for f in files]
    found = {m.group(1) or m.group(2) for m in matches if m is not None}
    if files and variant not in found:
        there = f"there are: {', '.join(sorted(found))}" if found else "there is only the plain one, so leave it out"
        raise UsageError(f"diffusers: {source.shown} has no weights of variant {variant!r}; {there}")


def _digest(folder: Path, names: Sequence[str]) -> str:
    """SHA-256 over names and contents of files."""

    def of_file(name: str) -> bytes:
        with (folder / name).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()

    digest = hashlib.sha256()
    with ThreadPoolExecutor(max_workers=4) as pool:  # hashing large files runs outside Python's lock
        for name, of_content in zip(names, pool.map(of_file, names), strict=True):
            digest.update(name.encode() + b"\0" + of_content)
    return digest.hexdigest()


def _licence(folder: Path) -> str | None:
    """The licence tag of the model card's header, if there is one."""
    card = folder / "README.md"
    if not card.is_file():
        return None
    text = card.read_text(encoding="utf-8", errors="replace")
    header = re.match(r"---\s*\n(.*?)\n---", text, re.DOTALL)
    found = re.findall(r"^(license(?:_name)?):\s*(\S.*?)\s*$", header.group(1), re.MULTILINE) if header else []
    tags = {key: value.strip("'\"") for key, value in found}
    tag = tags.get("license")
    return tags.get("license_name", tag) if tag == "other" else tag


# --------------------------------------------------------------------------------------------------------------------
# The pipeline
# --------------------------------------------------------------------------------------------------------------------
def _pipeline_class(source: _Source) -> Any:
    """The class that makes pictures from text with this model's parts.

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
    found = getattr(diffusers, name, None)
    if found is None or not hasattr(found, "from_pretrained"):
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
                return families[0].get(key, found)
    return found


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


def _call_parameters(pipeline_class: Any, source: _Source) -> Mapping[str, inspect.Parameter]:
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
            "pictures from a text alone"
        )
    return parameters


def _schedulers(source: _Source, wanted: str | None) -> tuple[dict[str, Any], bool]:
    """The model's schedulers by component, the main one replaced if wanted; and whether it was.

    Raises:
        UsageError: no such scheduler, or one that does not fit the model's own.
    """
    diffusers = require("diffusers", extra=EXTRA, purpose=PURPOSE)
    found: dict[str, Any] = {}
    for name, value in source.index.items():
        if name.endswith("scheduler") and _present(source.index, name):
            kind = getattr(diffusers, value[1], None)
            if kind is None:
                raise UsageError(
                    f"diffusers: {source.shown} has a {value[1]}, which diffusers {diffusers.__version__} lacks"
                )
            try:
                found[name] = kind.from_pretrained(str(source.folder), subfolder=name, local_files_only=True)
            except (OSError, ValueError, ImportError) as err:
                raise UsageError(f"diffusers: cannot read the {name} of {source.shown}: {_first_line(err)}") from err
    if wanted is None:
        return found, False
    if "scheduler" not in found:
        has = f"it has {', '.join(found)}" if found else "it has none"
        raise UsageError(f"diffusers: {source.shown} has no scheduler that can be replaced ({has})")
    own = found["scheduler"]
    fitting = {c.__name__: c for c in own.compatibles if not hasattr(c, "_backends")} | {type(own).__name__: type(own)}
    if "DDIMScheduler" in fitting:
        # Their authors put them in place of these, for distilled weights and LoRAs; diffusers lists them nowhere.
        fitting |= {name: getattr(diffusers, name) for name in ("LCMScheduler", "TCDScheduler")}
    short, settings = _scheduler_of(wanted)
    if short not in fitting:
        names = {name: cls for name, (cls, _) in SCHEDULERS.items() if cls in fitting}
        listed = [f"{name} ({cls})" for name, cls in names.items()]
        listed += sorted(set(fitting) - set(names.values()))
        raise UsageError(
            f"diffusers: scheduler {wanted!r} does not fit {source.shown}, made with {type(own).__name__}; there are: "
            f"{', '.join(listed)}"
        )
    return found | {"scheduler": fitting[short].from_config(own.config, **settings)}, True


def _scheduler_of(wanted: str) -> tuple[str, Mapping[str, Any]]:
    """Class name and settings of a scheduler's short name; any other name is taken for a class."""

    def plain(name: str) -> str:
        # In options of a command line "+" is a space, and people write euler-a as well.
        return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")

    for name, (class_name, settings) in SCHEDULERS.items():
        if plain(name) == plain(wanted):
            return class_name, settings
    return wanted, {}


def _lora_digest(path: Path) -> str:
    if path.is_file():
        return _digest(path.parent, [path.name])
    if not path.is_dir():
        raise UsageError(f"diffusers: lora={path}: no such file or folder; expected LoRA weights on this machine")
    names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.suffix in (*_WEIGHTS, ".json"))
    if not any(name.endswith(_WEIGHTS) for name in names):
        raise UsageError(f"diffusers: lora={path} holds no .safetensors file")
    return _digest(path, names)


def _merge_lora(pipeline: Any, path: Path, scale: float, pipeline_name: str) -> None:
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
        if _out_of_memory(err):
            raise
        raise UsageError(f"diffusers: lora={path} does not fit {pipeline_name}: {_first_line(err)}") from err
    if not any(loaded.values()):
        raise UsageError(f"diffusers: lora={path} holds no weight of {pipeline_name}")
    pipeline.fuse_lora(components=list(loaded), lora_scale=scale)
    pipeline.unload_lora_weights()


# --------------------------------------------------------------------------------------------------------------------
# What libraries say
# --------------------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _overheard() -> Iterator[list[str]]:
    """Keep the libraries' log lines and progress bars off the terminal for a while; the lines are in the list."""
    lines: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(re.sub(r"\x1b\[[0-9;]*m", "", record.getMessage()))  # without colours

    switches = [
        require(f"{library}.utils.logging", extra=EXTRA, purpose=PURPOSE) for library in ("diffusers", "transformers")
    ]
    loggers = [logging.getLogger(name) for name in ("diffusers", "transformers", "huggingface_hub")]
    kept = [(one, one.handlers, one.level, one.propagate) for one in loggers]
    bars = [one for one in switches if one.is_progress_bar_enabled()]
    ear = Ear()
    try:
        for one in loggers:
            one.handlers, one.propagate = [ear], False
            one.setLevel(logging.WARNING)
        for switch in bars:
            switch.disable_progress_bar()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield lines
    finally:
        for one, handlers, level, propagate in kept:
            one.handlers, one.propagate = handlers, propagate
            one.setLevel(level)
        for switch in bars:
            switch.enable_progress_bar()


def _made_up(lines: Sequence[str]) -> list[str]:
    """Names of weights that no file held: transformers and diffusers fill them with random numbers and only log it.

    Args:
        lines: what the libraries logged while they loaded.
    """
    names: list[str] = []
    for line in lines:
        names += re.findall(r"^(\S+)\s*\|\s*MISSING\b", line, re.MULTILINE)  # rows of transformers' report
        if "newly initialized" in line and (listed := re.search(r"newly initialized[^\[]*\[(.*?)\]", line, re.DOTALL)):
            names += re.findall(r"'([^']+)'", listed.group(1))
    return [name for name in names if not name.endswith(_DERIVED)]


def _versions() -> dict[str, str]:
    from importlib import metadata

    found = {}
    for name in ("diffusers", "torch", "transformers", "accelerate", "peft", "safetensors", "huggingface_hub"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _device_name(device: Any) -> str | None:
    torch = require("torch", extra=EXTRA, purpose=PURPOSE)
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
