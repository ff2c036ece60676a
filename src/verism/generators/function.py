"""A Python function as a model: ``generate(prompt, seed)`` in the same process as verism."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import inspect
import os
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PilImage

from verism.errors import UsageError, VerismError
from verism.generators.command import refuse_secret
from verism.imaging import read_image
from verism.records import Generator, Request, Result

__all__ = ["FunctionGenerator", "Refused", "load_generator"]

HOPELESS = 5  # first images that all fail at one place: the model is broken, and not the prompts
ROUNDING = 1e-3  # floats may leave [0, 1] by so much


class Refused(Exception):
    """Raised (or returned in a batch) by a function that declines a prompt; the text says why."""


class FunctionGenerator:
    """Images from a function that is called with a prompt and a seed.

    Args:
        function: takes a prompt (str) and a seed (int); returns a PIL image, an array (H, W, 3) of uint8 or of
            floats in [0, 1], or the path of an image, which is read at once and left where it is. What it raises
            concerns this image: ``Refused`` is stored as refused, any other exception as failed. With an attribute
            ``batch_size`` (int >= 1) it is called with up to so many prompts and seeds, as two lists, and returns a
            list of as many images, in which exceptions may take the place of images; if such a call raises, its images
            are asked for one by one. With an attribute ``seeded = False`` the images are stored without a seed.
        name: identifies the model and every setting that changes images; a run is not resumed under another name.

    Optional methods ``close()`` and ``describe()`` of ``function`` are called. What it prints goes to standard error.

    Raises:
        UsageError: not a callable, an empty name, or a ``batch_size`` that is no positive integer.
    """

    text_only = True  # of a request, it reads the prompt's text and the seed

    def __init__(
        self, function: Callable[..., Any], *, name: str, description: Mapping[str, Any] = types.MappingProxyType({})
    ) -> None:
        if not callable(function):
            raise UsageError(f"python: expected a function generate(prompt, seed), got {type(function).__name__}")
        if not name:
            raise UsageError("python: name the model; the name identifies it in results")
        batch_size = getattr(function, "batch_size", None)
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise UsageError(f"python: batch_size of {name} must be a positive integer, got {batch_size!r}")
        self.function = function
        self.name = name
        self.batch_size: int | None = batch_size
        self._description = dict(description)

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        """One result per request, in order.

        Raises:
            VerismError: the first five images fail, all with the same error at the same line.
        """
        held: list[tuple[Result, Exception]] = []  # failures before the first success
        worked = False  # in this call: a model that worked in another run may be broken now
        for request, returned in self._returned(requests):
            result, err = self._result(request, returned)
            if err is None or worked:
                worked = True
                yield from (failure for failure, _ in held)
                held = []
                yield result
                continue
            held.append((result, err))
            if len(held) == HOPELESS:
                if len({_place(err) for _, err in held}) == 1:
                    raise VerismError(
                        f"{self.name}: the first {HOPELESS} images all failed alike, so the model is broken: "
                        f"{_words(err)}{_where(err)}"
                    ) from err
                worked = True  # different errors: of the prompts, then
                yield from (failure for failure, _ in held)
                held = []
        yield from (failure for failure, _ in held)

    def close(self) -> None:
        """Let the function free what it holds."""
        getattr(self.function, "close", lambda: None)()

    def describe(self) -> Mapping[str, Any]:
        """For the manifest: module, file and options, and whatever the function says of itself."""
        return {**self._description, **getattr(self.function, "describe", dict)()}

    def _returned(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Any]]:
        """Each request with what the function made of it: anything, or an exception."""
        if self.batch_size is None:
            for request in requests:
                yield request, _call(self.function, request.prompt.text, request.seed)
            return
        iterator = iter(requests)
        while batch := list(islice(iterator, self.batch_size)):
            yield from zip(batch, self._batch(batch), strict=True)

    def _batch(self, batch: Sequence[Request]) -> list[Any]:
        made = _call(self.function, [r.prompt.text for r in batch], [r.seed for r in batch])
        if isinstance(made, Exception):
            # One by one, so that an image that cannot be made does not take its neighbours with it.
            return [made] if len(batch) == 1 else [self._batch([request])[0] for request in batch]
        try:
            images = list(made)
        except TypeError:
            raise VerismError(f"{self.name}: expected a list of images, got {type(made).__name__}") from None
        if len(images) != len(batch):
            raise VerismError(f"{self.name}: returned {len(images)} images for {len(batch)} prompts")
        return images

    def _result(self, request: Request, returned: Any) -> tuple[Result, Exception | None]:
        """The result, and the exception if it failed."""
        note = ""
        try:
            if isinstance(returned, Exception):
                raise returned
            pixels, note = _pixels(returned)
        except Refused as err:
            why = str(err) or "the model gave no reason"
            return Result(image_id=request.image_id, state="refused", note=why), None
        except Exception as err:
            return Result(image_id=request.image_id, state="failed", note=_words(err)), err
        seeded = getattr(self.function, "seeded", True) is not False
        return Result(image_id=request.image_id, state="ok", pixels=pixels, note=note, seeded=seeded), None


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, or the exception it raises. Standard output is the command line's, for results."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            return function(*arguments)
        except Exception as err:
            return err


def _pixels(returned: Any) -> tuple[NDArray[np.uint8], str]:
    """RGB (H, W, 3) uint8, and a note, of an image, an array or a path.

    Raises:
        ValueError: an array of the wrong shape, type or range, or a file that is no image. TypeError: none of these.
    """
    if isinstance(returned, (str, os.PathLike)):
        image = read_image(Path(returned))
        if image.pixels is None:
            raise ValueError(f"{returned}: {image.note}")
        # One flat colour is an image too: the run files it as blank, as it does for every model.
        return image.pixels, "" if image.state == "blank" else image.note
    if isinstance(returned, PilImage.Image):
        if returned.mode in ("I", "F") or returned.mode.startswith("I;"):
            raise ValueError(f"a PIL image of mode {returned.mode} has no defined range; convert it to RGB")
        note = ""
        if returned.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in returned.info:
            rgba = returned.convert("RGBA")
            if rgba.getchannel("A").getextrema() != (255, 255):
                note = "transparency laid over white"
            returned = PilImage.alpha_composite(PilImage.new("RGBA", rgba.size, (255, 255, 255, 255)), rgba)
        return np.array(returned.convert("RGB"), dtype=np.uint8), note
    if not hasattr(returned, "__array__"):
        raise TypeError(f"expected a PIL image, an array or a path, got {type(returned).__name__}")
    array = np.asarray(returned)
    if array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        advice = "; put the channels last" if array.ndim == 3 and array.shape[0] == 3 else ""
        raise ValueError(f"expected an array of shape (H, W, 3), got {array.shape}{advice}")
    if array.dtype == np.uint8:
        return array.copy(), ""  # the function may write into the same array again
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"expected an array of uint8, or of floats in [0, 1], got {array.dtype}")
    low, high = float(array.min()), float(array.max())
    if not (low >= -ROUNDING and high <= 1 + ROUNDING):  # so that NaN is refused too
        raise ValueError(f"expected floats in [0, 1], got {low:g} to {high:g}")
    return (np.clip(array, 0, 1) * 255 + 0.5).astype(np.uint8), ""


# --------------------------------------------------------------------------------------------------- by name
def load_generator(argument: str, /, **options: str) -> Generator:
    """The generator of ``module:factory`` and its options, as on the command line.

    The module is imported with the current directory in front of the path, as by ``python -m``. The factory is called
    with the options, which are text unless its annotations (or its defaults) say int, float or bool. It returns a
    generator (with ``name`` and ``generate``), used as it is, or a function for ``FunctionGenerator``, whose name then
    holds module, factory, options and a hash of the module's source file.

    Args:
        argument: ``module:factory``: a module, and the function or class in it that makes the generator.
        options: of the factory, as text.

    Raises:
        UsageError: no such module or factory, or options it does not take.
        VerismError: module or factory raised.
    """
    module_name, _, factory_name = argument.partition(":")
    if not module_name or not factory_name or "/" in module_name or module_name.endswith(".py"):
        raise UsageError(
            f"python:{argument}: expected python:module:factory, where the module is named as in `import module` "
            "(a.b, and not a/b.py) and the factory is a function that returns generate(prompt, seed)"
        )
    refuse_secret([f"{key}={value}" for key, value in options.items()], f"python:{argument}")
    factory = _factory(_module(module_name), factory_name, argument)
    made = _run(f"{argument}()", factory, **_typed(argument, factory, options))
    if isinstance(getattr(made, "name", None), str) and callable(getattr(made, "generate", None)):
        generator: Generator = made
        return generator
    if not callable(made):
        raise UsageError(
            f"python:{argument} returned {type(made).__name__}; expected a function generate(prompt, seed) or a "
            "generator"
        )
    query = "&".join(f"{key}={value}" for key, value in sorted(options.items()))
    source = _source_hash(sys.modules[module_name])
    name = f"python:{argument}{'?' if query else ''}{query}{f'@{source}' if source else ''}"
    described = {"factory": argument, "options": dict(options), "source_sha256": source}
    return FunctionGenerator(made, name=name, description=described)


def _module(name: str) -> ModuleType:
    if sys.path[:1] not in ([""], [os.getcwd()]):
        sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except ModuleNotFoundError as err:
        if err.name is not None and (name == err.name or name.startswith(f"{err.name}.")):
            raise UsageError(
                f"python:{name}: no such module in {os.getcwd()} or the Python environment of verism ({sys.prefix}). "
                "A model with an environment of its own is run by command:"
            ) from err
        raise VerismError(f"python:{name}: importing it failed: {_words(err)}{_where(err)}") from err
    except SystemExit as err:
        raise UsageError(
            f"python:{name}: importing it ended the program (exit {err.code}); what a script does belongs below "
            'if __name__ == "__main__"'
        ) from err
    except Exception as err:
        raise VerismError(f"python:{name}: importing it failed: {_words(err)}{_where(err)}") from err


def _factory(module: ModuleType, name: str, argument: str) -> Callable[..., Any]:
    result: Any = module
    for part in name.split("."):
        if not hasattr(result, part):
            there = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
            near = difflib.get_close_matches(name, there, n=2)
            hint = f". Did you mean {' or '.join(near)}?" if near else ""
            raise UsageError(f"python:{argument}: {module.__name__} has no {name!r}{hint}")
        result = getattr(result, part)
    if not callable(result):
        raise UsageError(f"python:{argument} is {type(result).__name__}; expected a function that returns the model")
    function: Callable[..., Any] = result
    return function


def _typed(argument: str, factory: Callable[..., Any], options: Mapping[str, str]) -> dict[str, Any]:
    """Options as the factory wants them; ones it does not take are an error that shows what it takes."""
    try:
        signature = inspect.signature(factory, eval_str=True)
    except Exception:  # annotations may be any text, or name what is imported for type checkers only
        try:
            signature = inspect.signature(factory)
        except (ValueError, TypeError):  # written in C
            return dict(options)
    try:
        signature.bind(**options)
    except TypeError as err:
        message = f"python:{argument}: {err}; it is {argument.rpartition(':')[2]}{signature}"
        if not options and {"prompt", "prompts", "seed", "seeds"} & signature.parameters.keys():
            message += ". It seems to be generate(prompt, seed) itself; name a function that returns it"
        raise UsageError(message) from None
    typed = {}
    for key, value in options.items():
        parameter = signature.parameters.get(key)
        wanted: Any = str
        if parameter is not None and parameter.annotation is not inspect.Parameter.empty:
            wanted = parameter.annotation
        elif parameter is not None and parameter.default is not inspect.Parameter.empty:
            wanted = type(parameter.default)
        typed[key] = _value(f"python:{argument}: option {key}={value!r}", value, wanted)
    return typed


def _value(what: str, text: str, wanted: Any) -> Any:
    """Text as bool, int or float where that is wanted, or as None where that is allowed; else as it is."""
    kinds = [wanted]
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        kinds = list(typing.get_args(wanted))
    elif isinstance(wanted, str):  # an annotation that could not be evaluated
        names: dict[str, Any] = {"bool": bool, "int": int, "float": float, "None": None, "str": str}
        kinds = [names.get(part.strip()) for part in wanted.split("|") if part.strip() in names]
    if text.lower() == "none" and (None in kinds or type(None) in kinds):
        return None
    for kind in (bool, int, float):
        if kind not in kinds:
            continue
        if kind is bool and text.lower() in ("true", "false", "1", "0", "yes", "no"):
            return text.lower() in ("true", "1", "yes")
        if kind is not bool:
            with contextlib.suppress(ValueError):
                return kind(text)
    numbers = [kind for kind in kinds if kind in (bool, int, float)]
    if numbers and str not in kinds:
        words = {bool: "true or false", int: "an int", float: "a float"}
        expected = " or ".join(words[kind] for kind in numbers)
        raise UsageError(f"{what}: expected {expected}")
    return text


def _run(what: str, function: Callable[..., Any], **options: Any) -> Any:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return function(**options)
    except VerismError:
        raise
    except Exception as err:
        raise VerismError(f"python:{what} failed: {_words(err)}{_where(err)}") from err


def _source_hash(module: ModuleType) -> str:
    """Short SHA-256 of a module's source file; empty if it has none."""
    file = getattr(module, "__file__", None)
    if file is None or not os.path.isfile(file):
        return ""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]


def _words(err: BaseException) -> str:
    """Type and message: the last line of a traceback, shortened."""
    text = " ".join(traceback.format_exception_only(type(err), err)[-1].split())
    return text if len(text) <= 1000 else text[:997] + "..."


def _innermost(trace: TracebackType | None) -> traceback.FrameSummary | None:
    """The last frame that is not ours: where the user's code, or a library it calls, went wrong."""
    frames = [f for f in traceback.extract_tb(trace) if f.filename != __file__]
    return frames[-1] if frames else None


def _where(err: BaseException) -> str:
    frame = _innermost(err.__traceback__)
    return "" if frame is None else f" ({frame.filename}, line {frame.lineno}, in {frame.name})"


def _place(err: BaseException) -> tuple[str, str]:
    """What makes two failures alike. Values the function returns and we refuse have no place of theirs: all alike."""
    return type(err).__name__, _where(err)
