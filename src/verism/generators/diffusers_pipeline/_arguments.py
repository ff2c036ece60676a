"""Options as arguments of a pipeline's call, by the names it has for them."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from verism.errors import UsageError

# Arguments of pipelines that are the generator's own business, or have a name here that all pipelines share.
_RESERVED = re.compile(
    r"self|prompt.*|negative_prompt.*|num_images_per_prompt|generator|.*latents.*|output_type|return_dict|callback.*"
    r"|.*_embeds.*|.*image.*|args|kwargs|timesteps|sigmas"
)
_FOREIGN_TYPES = re.compile(r"Tensor|[Ll]ist|[Dd]ict|Callable|Generator|Image|[Tt]uple|Any|Sequence|Mapping")
_STEPS = ("num_inference_steps", "decoder_num_inference_steps")


def default_of(parameters: Mapping[str, inspect.Parameter], name: str) -> Any:
    return parameters[name].default if name in parameters else None


def is_settable(name: str, parameter: inspect.Parameter) -> bool:
    """Whether an argument of a pipeline's call is a number, a text or a switch that a user may set."""
    if _RESERVED.fullmatch(name) or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return False
    if isinstance(parameter.default, bool | int | float | str):
        return True
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else str(annotation)
    return parameter.default is None and annotation is not parameter.empty and not _FOREIGN_TYPES.search(text)


def ignores_guidance(parameters: Mapping[str, inspect.Parameter], transformer: Mapping[str, Any]) -> bool:
    """Whether ``guidance_scale`` has no effect: FLUX.1 schnell, Qwen-Image and others made without that input."""
    return "true_cfg_scale" in parameters and transformer.get("guidance_embeds") is False


def call_arguments(
    pipeline: str,
    parameters: Mapping[str, inspect.Parameter],
    given: Mapping[str, Any],
    own_values: Mapping[str, Any],
    *,
    transformer: Mapping[str, Any],
    of_all_models: Sequence[str],
) -> tuple[dict[str, Any], str | None]:
    """Arguments of the pipeline's call beside prompt, noise and output; and the negative prompt, or None.

    Args:
        pipeline: name of its class, for messages.
        parameters: of its call.
        given: options by the names all pipelines share.
        own_values: options by the pipeline's own names.
        transformer: the transformer's configuration; empty if it has none.
        of_all_models: names of options that the call does not take, for messages.
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
    settable = [n for n, p in parameters.items() if is_settable(n, p) and n not in ("width", "height")]
    takes = f"Of its own it takes: {', '.join([*shared, *settable])}; and as every model: {', '.join(of_all_models)}"
    for option in (*given, *own_values):
        if option not in shared and option not in settable:
            near = difflib.get_close_matches(option, [*shared, *settable, *of_all_models], n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(f"diffusers: {pipeline} takes no option {option!r}.{hint} {takes}")
    arguments: dict[str, Any] = {shared[o]: v for o, v in given.items() if o != "negative"}
    for name, value in own_values.items():
        target = shared.get(name, name)
        if target in arguments:
            raise UsageError(f"diffusers: {target} of {pipeline} is given twice, once by its short name")
        arguments[target] = _as_type_of(name, value, parameters[target].default)
    negative = given.get("negative")

    if ignores_guidance(parameters, transformer) and arguments.get("guidance_scale"):
        raise UsageError(
            f"diffusers: this {pipeline} ignores guidance_scale, as its transformer has no such input "
            "(guidance_embeds is false); leave guidance out, or set true_cfg_scale, which doubles the time"
        )
    true_cfg = arguments.get("true_cfg_scale", default_of(parameters, "true_cfg_scale"))
    if true_cfg is not None and "negative_prompt" in parameters:
        if true_cfg <= 1 and negative is not None:
            raise UsageError(f"diffusers: negative has no effect on {pipeline} while true_cfg_scale is {true_cfg:g}")
        if true_cfg > 1 and negative is None:
            negative = " "  # without one these pipelines leave guidance out, and say so only in a log
    if negative is not None and shared.get("guidance") == "guidance_scale":
        scale = arguments.get("guidance_scale", default_of(parameters, "guidance_scale"))
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
