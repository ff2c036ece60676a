"""Images from any text-to-image pipeline that ``diffusers`` loads, from the Hugging Face hub or a local folder.

Stable Diffusion 1 to 3.5, SDXL, FLUX, PixArt, Karlo (UnCLIP), Qwen-Image and others::

    verism run paintskills --model 'diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5?steps=50' --out runs/sd15

Every image has a random generator of its own on the processor, seeded by its request, for its first noise and for
whatever a scheduler adds on the way: an image depends on its request and not on its neighbours, and a GPU starts from
the noise the processor would start from. Beyond that only the rounding of batched arithmetic differs.

Making the generator reads configuration files only. Weights are fetched and loaded when the first image is asked for,
so wrong options are told at once and a dry run costs nothing.
"""

from __future__ import annotations

import inspect
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from verism.errors import UsageError, VerismError, require
from verism.generators.diffusers_pipeline._arguments import (
    call_arguments,
    default_of,
    ignores_guidance,
    is_settable,
)
from verism.generators.diffusers_pipeline._libraries import (
    EXTRA,
    PURPOSE,
    device_name,
    first_line,
    free_memory,
    made_up,
    out_of_memory,
    overheard,
    versions,
)
from verism.generators.diffusers_pipeline._noise import OwnNoise, global_noise, look_alike, to_pixels
from verism.generators.diffusers_pipeline._parts import (
    call_parameters,
    dtype_keyword,
    lora_digest,
    merge_lora,
    model_schedulers,
    pick_dtype,
    pipeline_class,
)
from verism.generators.diffusers_pipeline._source import (
    check_variant,
    component_config,
    find_source,
    has_component,
    loading_error,
)
from verism.inference import pick_device
from verism.records import Request, Result
from verism.services.hub import local_files_only

__all__ = ["DiffusersGenerator", "Loading", "Sampling"]

Dtype = Literal["auto", "float32", "float16", "bfloat16"]
Offload = Literal["none", "model", "sequential"]
Safety = Literal["default", "off"]

_COUNTED = ("num_inference_steps", "guidance_scale", "cfg_scale")  # ends of names whose defaults enter the name
# Tokenizers whose length a pipeline fixes in its code; others read `max_sequence_length` or the tokenizer's own limit.
_FIXED_LENGTHS = {"IFPipeline": 77, "Kandinsky3Pipeline": 128, "KandinskyCombinedPipeline": 77}
_PROBE = "a photo of a dog"


@dataclass(frozen=True, kw_only=True)
class Loading:
    """Which weights are loaded, and how.

    Attributes:
        revision: branch, tag or commit on the Hugging Face Hub.
        variant: variant of the weight files, such as ``fp16``.
        dtype: floating-point type. ``auto``: float32 on the CPU; on CUDA float16 for U-Nets and the variant ``fp16``,
            else bfloat16.
        scheduler: scheduler: a class name or a short name (``ddim``, ``euler_a``, ``dpm++`` ...), configured like the
            model's own.
        lora: file or folder of LoRA weights to merge into the model.
        lora_scale: factor of the LoRA weights; 1: as trained.
        local_files_only: use local files only, and never connect to the Hugging Face Hub.
        safety: safety checker of the pipeline; ``off`` loads the pipeline without it.
    """

    revision: str | None = None
    variant: str | None = None
    dtype: Dtype = "auto"
    scheduler: str | None = None
    lora: str | Path | None = None
    lora_scale: float = 1.0
    local_files_only: bool = False
    safety: Safety = "default"


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How an image is made, by names that all pipelines share.

    Attributes:
        steps: number of denoising steps (UnCLIP: of the decoder). Default: the pipeline's.
        guidance: guidance scale (Qwen-Image: ``true_cfg_scale``; UnCLIP: of the decoder). Default: the pipeline's.
        negative: negative prompt, the same for all images.
        width: width of the images in pixels. Default: the model's.
        height: height of the images in pixels. Default: the model's.
    """

    steps: int | None = None
    guidance: float | None = None
    negative: str | None = None
    width: int | None = None
    height: int | None = None


_OF_ALL_MODELS = (*(each.name for each in fields(Loading)), "device", "offload", "batch_size")


@dataclass
class _Counts:
    images: int = 0
    batches: int = 0
    seconds: float = 0.0
    lowered: list[str] = field(default_factory=list)


class DiffusersGenerator:
    """A text-to-image pipeline of ``diffusers``.

    Args:
        model: model id on the Hugging Face Hub, or a folder with ``model_index.json``.
        loading: which weights are loaded, and how.
        sampling: how an image is made.
        device: PyTorch device: ``cuda``, ``cuda:1``, ``mps``, ``cpu``. Default: the best available.
        offload: move idle parts of the model out of GPU memory: ``model`` (whole networks) or ``sequential`` (layer by
            layer; slower). Needs ``accelerate``.
        batch_size: images per batch; halved for the rest of the run when memory runs out.
        arguments: any other argument of the pipeline's ``__call__`` that is a number, a text or true or false, by the
            pipeline's own name; texts are read as the type of the argument's default.
    Raises:
        UsageError: no such model, one that makes no images from text, or an option it does not take.
        MissingExtra: ``torch``, ``diffusers`` or ``transformers`` is not installed.
    """

    text_only = True  # of a request, it reads the prompt's text and the seed

    def __init__(
        self,
        model: str,
        *,
        loading: Loading = Loading(),
        sampling: Sampling = Sampling(),
        device: str | None = None,
        offload: Offload = "none",
        batch_size: int = 4,
        **arguments: Any,
    ) -> None:
        options = {each.name: value for each in fields(Sampling) if (value := getattr(sampling, each.name)) is not None}
        for option, choice, choices in (
            ("dtype", loading.dtype, get_args(Dtype)),
            ("offload", offload, get_args(Offload)),
            ("safety", loading.safety, get_args(Safety)),
        ):
            if choice not in choices:
                raise UsageError(f"diffusers: {option} must be one of {', '.join(choices)}, not {choice!r}")
        for option in ("batch_size", "steps", "width", "height"):
            number = batch_size if option == "batch_size" else options.get(option, 1)
            if number < 1:
                raise UsageError(f"diffusers: {option} must be at least 1, got {number}")
        if loading.lora is None and loading.lora_scale != 1.0:
            raise UsageError("diffusers: lora_scale has no effect without lora=FILE")
        local_files_only(model, wanted=loading.local_files_only, kind="diffusers: ")  # fails before long imports
        for module in ("torch", "transformers", "diffusers"):
            require(module, extra=EXTRA, purpose=PURPOSE)

        self._loading = loading
        self._source = find_source(model, revision=loading.revision, local_files_only=loading.local_files_only)
        check_variant(self._source, loading.variant, local_files_only=loading.local_files_only)
        self._device = pick_device(device, allow_mps=True, extra=EXTRA, purpose=PURPOSE)
        self._dtype = pick_dtype(loading.dtype, self._device, self._source.index, loading.variant)
        self._offload = offload
        if offload != "none":
            require("accelerate", extra=EXTRA, purpose=f"offload={offload}")
            if self._device.type == "cpu":
                raise UsageError(f"diffusers: offload={offload} moves a model in and out of a GPU; device is cpu")
        with overheard():
            self._class = pipeline_class(self._source)
            self._parameters = call_parameters(self._class, self._source)
            self._schedulers, replaced = model_schedulers(self._source, loading.scheduler)
        self._replaced_scheduler = self._schedulers["scheduler"] if replaced else None
        has_checker = has_component(self._source.index, "safety_checker")
        self._safety = "none" if not has_checker else "off" if loading.safety == "off" else "on"
        self._arguments, self._negative = call_arguments(
            self._class.__name__,
            self._parameters,
            options,
            arguments,
            transformer=component_config(self._source, "transformer"),
            of_all_models=_OF_ALL_MODELS,
        )
        self._lora = Path(loading.lora).expanduser() if loading.lora is not None else None
        self._lora_digest = lora_digest(self._lora) if self._lora is not None else None

        self.batch_size = batch_size
        self._counts = _Counts()
        self._noise_is_idle = False
        self._pipeline: Any = None
        self._loading_notes: list[str] = []
        if "generator" not in self._parameters and self.batch_size > 1:
            self._lower(1, f"{self._class.__name__} takes no random generator per image")
        self.name = self._name(replaced=replaced)

    def _name(self, *, replaced: bool) -> str:
        described: dict[str, Any] = {
            name: p.default
            for name, p in self._parameters.items()
            if name.endswith(_COUNTED) and isinstance(p.default, int | float)
        }
        described |= self._arguments
        if ignores_guidance(self._parameters, component_config(self._source, "transformer")):
            described.pop("guidance_scale", None)
        if self._negative is not None:
            described["negative"] = json.dumps(self._negative, ensure_ascii=False)
        if "scheduler" in self._schedulers:
            chosen = self._schedulers["scheduler"]
            described["scheduler"] = type(chosen).__name__
            for key in ("algorithm_type", "use_karras_sigmas"):
                if replaced and key in chosen.config:
                    described[key] = chosen.config[key]
        described["dtype"] = str(self._dtype).removeprefix("torch.")
        described["variant"] = self._loading.variant
        if self._lora is not None and self._lora_digest is not None:
            described["lora"] = f"{self._lora.name}@{self._lora_digest[:12]}*{self._loading.lora_scale:g}"
        described["safety"] = self._safety
        text = "".join(f" {key}={value}" for key, value in described.items() if value is not None)
        return f"diffusers:{self._source.shown}@{self._source.identity[:12]}{text}"

    # -------------------------------------------------------------------------------------------------------- images
    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        """One result per request, in order, a batch at a time.

        Raises:
            UsageError: the model cannot be loaded, or makes no image at all with these settings.
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
        except OwnNoise as err:
            reason, failure, size = str(err), None, 1
        except Exception as err:
            # Of memory only the text is kept: the traceback would hold the tensors that have to go before the next try.
            short = out_of_memory(err)
            reason, failure, size = first_line(err), None if short else err, len(part) // 2
        if failure is None:
            free_memory(self._device)
            if len(part) > 1:
                self._lower(size, reason)
                return None
            advice = "use a smaller width and height, dtype=bfloat16, or offload=model"
            return [_failed(part[0], f"out of memory, even for a single image; {advice}. {reason}")]
        if len(part) > 1:  # one bad prompt must not cost its neighbours
            return [result for request in part for result in (self._try([request]) or ())]
        self._probe(failure)
        return [_failed(part[0], f"{type(failure).__name__}: {first_line(failure)}")]

    def _probe(self, failure: Exception) -> None:
        """Raise if a plain prompt fails as well: then it is the model or its settings, not the prompt."""
        try:
            self._call([_PROBE], [0])
        except Exception as err:
            if out_of_memory(err):
                return
            kind = UsageError if isinstance(err, ValueError | TypeError | ImportError) else VerismError
            raise kind(
                f"{self._source.shown} ({self._class.__name__}) makes no image with these settings "
                f"({self.name}); it says: {type(failure).__name__}: {first_line(failure)}"
            ) from failure

    def _make(self, part: Sequence[Request]) -> list[Result]:
        start = time.perf_counter()
        images, flagged = self._call([r.prompt.text for r in part], [r.seed for r in part])
        results = []
        for request, image, unsafe in zip(part, images, flagged, strict=True):
            if unsafe:
                note = "the model's safety checker took the image for unsafe and withheld it; safety=off loads none"
                results.append(Result(image_id=request.image_id, state="refused", note=note))
                continue
            pixels = to_pixels(image)
            if pixels is None:
                results.append(_failed(request, self._overflow_note()))
            else:
                note = self._cut_note(request.prompt.text)
                results.append(Result(image_id=request.image_id, state="ok", pixels=pixels, note=note))
        self._counts.images += len(part)
        self._counts.batches += 1
        self._counts.seconds += time.perf_counter() - start
        return results

    def _call(self, prompts: Sequence[str], seeds: Sequence[int]) -> tuple[Sequence[Any], Sequence[bool]]:
        """Images as the pipeline gives them, and whether its safety checker withheld each.

        Raises:
            OwnNoise: the pipeline drew random numbers other than from the generators of the images.
        """
        torch = require("torch", extra=EXTRA, purpose=PURPOSE)
        arguments: dict[str, Any] = {**self._arguments, "prompt": list(prompts)}
        if self._negative is not None:
            arguments["negative_prompt"] = [self._negative] * len(prompts)
        if "generator" in self._parameters:
            generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
            arguments["generator"] = generators if len(generators) > 1 else generators[0]
        if "output_type" in self._parameters:
            arguments["output_type"] = "np"  # floats, so that overflows can be told from black images
        with overheard(), global_noise(torch, self._device, seeds[0]) as touched:
            output = self._pipeline(**arguments)
        images = getattr(output, "images", None)
        if images is None or len(images) != len(prompts):
            value = "no images" if images is None else f"{len(images)} images for {len(prompts)} prompts"
            raise UsageError(f"{self._source.shown} is a {self._class.__name__}, which answered with {value}")
        if touched and len(prompts) > 1 and not self._noise_is_idle:
            # Some attention kernels draw numbers and leave them unused: what counts is whether other ones show.
            if "generator" in self._parameters:
                arguments["generator"] = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
            with overheard(), global_noise(torch, self._device, seeds[0] + 1):
                again = self._pipeline(**arguments).images
            if not look_alike(images, again):
                raise OwnNoise
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
        return f"the image holds pixels that are no numbers (computed in {kind}): {advice}"

    def _cut_note(self, text: str) -> str:
        """How many tokens of a prompt the model's tokenizers cut off, or nothing."""
        with overheard():
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
        longest = self._arguments.get("max_sequence_length", default_of(self._parameters, "max_sequence_length"))
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
        options: dict[str, Any] = {dtype_keyword(): self._dtype, "variant": self._loading.variant}
        accepted = inspect.signature(self._class.__init__).parameters
        if self._safety == "off":
            options["safety_checker"] = None
            if "requires_safety_checker" in accepted:
                options["requires_safety_checker"] = False
        if "add_watermark" in accepted:
            # Else SDXL marks images where the library for it happens to be installed, and not elsewhere.
            options["add_watermark"] = False
        connected = bool(getattr(self._class, "_load_connected_pipes", False))
        if connected:
            options["load_connected_pipeline"] = True
        try:
            if source.repository is not None:
                folder = self._class.download(
                    source.repository,
                    revision=source.identity,
                    variant=self._loading.variant,
                    local_files_only=self._loading.local_files_only,
                    load_connected_pipeline=connected,
                )
            with overheard() as heard:
                pipeline = self._class.from_pretrained(str(folder), local_files_only=not connected, **options)
        except Exception as err:
            raise loading_error(err, source, self._loading.revision) from err
        if missing := made_up(heard):
            raise UsageError(
                f"the weights of {source.shown} are incomplete: {len(missing)} are missing and would be random numbers "
                f"({', '.join(missing[:5])}). Fetch the model again, or save it anew"
            )
        if self._replaced_scheduler is not None:
            pipeline.scheduler = self._replaced_scheduler
        pipeline.set_progress_bar_config(disable=True)
        try:
            with overheard() as more:
                if self._lora is not None:
                    merge_lora(pipeline, self._lora, self._loading.lora_scale, self._class.__name__)
                if self._offload == "model":
                    pipeline.enable_model_cpu_offload(device=self._device)
                elif self._offload == "sequential":
                    pipeline.enable_sequential_cpu_offload(device=self._device)
                else:
                    pipeline.to(self._device)
        except Exception as err:
            if not out_of_memory(err):
                raise
            raise UsageError(
                f"{source.shown} does not fit the memory of {self._device} in {self._dtype}; use offload=model, "
                f"dtype=bfloat16, or device=cpu. {first_line(err)}"
            ) from err
        self._loading_notes = list(dict.fromkeys(" ".join(line.split())[:400] for line in [*heard, *more]))
        self._pipeline = pipeline

    def close(self) -> None:
        """Let go of the model and its memory."""
        if self._pipeline is not None:
            self._pipeline = None
            free_memory(self._device)

    # ------------------------------------------------------------------------------------------------------- telling
    def describe(self) -> Mapping[str, Any]:
        """What a reader of the run may want to know beside the name; JSON-serialisable."""
        source = self._source
        return {
            "model": source.shown,
            "from": "hub" if source.repository is not None else "folder",
            "commit" if source.repository is not None else "content_sha256": source.identity,
            "asked_revision": self._loading.revision,
            "variant": self._loading.variant,
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
                **{n: p.default for n, p in self._parameters.items() if is_settable(n, p) and p.default is not None},
                **self._arguments,
                "negative_prompt": self._negative,
            },
            "dtype": str(self._dtype).removeprefix("torch."),
            "device": str(self._device),
            "device_name": device_name(self._device),
            "offload": self._offload,
            "safety_checker": self._safety,
            "lora": (
                {"name": self._lora.name, "content_sha256": self._lora_digest, "scale": self._loading.lora_scale}
                if self._lora is not None
                else None
            ),
            "noise": "one generator per image on the processor, seeded by the request",
            "batch_size": self.batch_size,
            "batch_size_lowered": list(self._counts.lowered),
            "loading_notes": list(self._loading_notes),
            "versions": versions(),
        }

    def estimate(self, requests: Sequence[Request]) -> Sequence[str]:
        """What a run would do, for ``--dry-run``; loads nothing."""
        batches = math.ceil(len(requests) / self.batch_size)
        steps = self._arguments.get("num_inference_steps", default_of(self._parameters, "num_inference_steps"))
        each = f", {steps} steps each" if steps is not None else ""
        kind = str(self._dtype).removeprefix("torch.")
        return [
            f"{len(requests):,} images from {self._source.shown} ({self._class.__name__}, {kind} on {self._device})",
            f"{batches:,} batches of up to {self.batch_size}{each}; no fee",
        ]

    def summary(self) -> Sequence[str]:
        """What was done, for the end of a run."""
        c = self._counts
        if not c.batches:
            return [f"batch size lowered from {line}" for line in c.lowered]
        pace = c.seconds / c.images
        lines = [f"{c.images:,} images in {c.batches:,} batches on {self._device}, {pace:.2f} s an image"]
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
