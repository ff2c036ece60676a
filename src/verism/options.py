"""Options of generators and judges, read from the typed signature of the class or function that takes them.

A name on the command line is ``kind:argument?key=value&key=value``. Behind a kind stands a class or a function, and its
signature says everything else, once::

    class ColourBlobs:
        \"\"\"Finds blobs of one colour.

        Args:
            palette: file with the colours, one a line.
            min_area: smaller blobs are not reported; pixels.
            device: ``cuda``, ``cpu`` ...
        \"\"\"

        role = "detector"

        def __init__(self, palette: Path, *, min_area: int = 16, device: str | None = None) -> None: ...

* The first positional parameter is the argument: ``colour_blobs:palette.txt``. It may be left out if it has a default.
* A parameter with a default is an option of its name and type: ``str``, ``int``, ``float``, ``bool``, ``Path``,
  ``Literal``; ``X | None``, for which ``none`` may be written (unless it is a text that is None by default);
  ``tuple[X, ...]``, written ``a+b``; ``Mapping[str, X]``, written ``NAME.KEY=value``, several times; and a frozen
  dataclass, whose fields are options. Other types are for callers in Python and no options.
* What the run knows is supplied by name. Where a parameter has a default, ``Context`` may give another one
  (``SETTINGS``: ``device``, ``threads`` ...); where it has none, or its type cannot be written, its name is a field of
  ``Context`` (``prompts``, ``classes`` ...) or its type is ``Renderer`` or ``Context``.
* ``**parameters`` take every option that is not named otherwise, as text.
* The sentence of an option is its line in the docstring's ``Args`` (``Attributes`` for a dataclass).
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from verism.errors import UsageError, VerismError
from verism.locations import location
from verism.records import Prompt

__all__ = [
    "INLINE",
    "SETTINGS",
    "Context",
    "Inline",
    "Option",
    "Signature",
    "Spelling",
    "build",
    "json_or_text",
    "read_signature",
]

_EMPTY = inspect.Parameter.empty

SETTINGS = ("size", "threads", "device", "base_url", "cache")
"""Fields of ``Context`` that replace the default of a parameter of the same name, if they fit its type."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a generator or judge may need to know of the run it serves.

    Attributes:
        prompts: all prompts of the run, in order.
        classes: of the suite: the name of each class in scene files, by its label.
        colors: names of the suite's colours.
        size: width and height of rendered images in pixels.
        assets: folder of the user's own 3D models, or None.
        processes: processes that render at once, at least 1.
        threads: threads of a judge or generator on the processor; None: its library decides.
        device: where PyTorch computes: ``cuda``, ``cuda:1``, ``mps``, ``cpu``; None: the GPU if there is one.
        base_url: address of an OpenAI-compatible service; None: OpenAI's own.
        cache: folder where judges keep vectors of images by content, shared between runs; None: nothing is kept.
        on_matched: called with lines of text that say which of the user's images belong to which prompt; or None.
    """

    prompts: Sequence[Prompt] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    colors: Sequence[str] = ()
    size: int = 256
    assets: Path | None = None
    processes: int = 1
    threads: int | None = None
    device: str | None = None
    base_url: str | None = None
    cache: Path | None = None
    on_matched: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Spelling:
    """How a parameter is written as an option, where its name and type do not say it; for ``Annotated``.

    Attributes:
        name: the option's name; None: the parameter's.
        parse: makes the value of its text, and raises UsageError or ValueError; None: by the type.
        default: the default as it would be written.
    """

    name: str | None = None
    parse: Callable[[str], Any] | None = None
    default: str | None = None


@dataclass(frozen=True)
class Inline:
    """Marks (in ``Annotated``) a parameter that is an object of a class with options of its own, which become ours."""


INLINE = Inline()


@dataclass(frozen=True)
class Option:
    """One value that can be written.

    Attributes:
        name: as written. One that ends with a dot is followed by a name of the user's: ``alias.bike=bicycle``.
        expects: what a value must be, in words: ``a whole number``.
        default: what it is otherwise; ``inspect.Parameter.empty`` where it must be given.
        shown: the default as it would be written; empty where it must be given, or where there is nothing to write.
        choices: the values allowed; empty: any.
        help: its sentences, on one line.
        parameter: name of the parameter, for ``SETTINGS``.
    """

    name: str
    expects: str
    default: Any
    shown: str
    choices: tuple[str, ...]
    help: str
    parameter: str
    _kind: _Kind

    @property
    def written(self) -> str:
        """Its name with a word for what the user names: ``alias.NAME``."""
        return f"{self.name}NAME" if self.name.endswith(".") else self.name

    def fits(self, value: Any) -> bool:
        """Whether a value has the option's type."""
        return isinstance(value, self._kind.types)

    def parse(self, text: str) -> Any:
        """The value of a text.

        Raises:
            ValueError, UsageError: it is none.
        """
        return self._kind.parse(text)


@dataclass(frozen=True)
class Signature:
    """What can be written behind a kind.

    Attributes:
        argument: the text after the colon; None: there is none. It must be given if its default is empty.
        options: in the order of the parameters.
        passes_on: whether options that are not listed are passed on as text.
    """

    argument: Option | None
    options: tuple[Option, ...]
    passes_on: bool
    _group: _Group


# --------------------------------------------------------------------------------------------------------------------
# Types
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Kind:
    """How values of a type are written: ``parse`` raises ValueError; ``many``: one option for each key of a mapping."""

    parse: Callable[[str], Any]
    expects: str
    types: tuple[type, ...]
    choices: tuple[str, ...] = ()
    many: bool = False


def _int(text: str) -> int:
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_BOOLS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _bool(text: str) -> bool:
    try:
        return _BOOLS[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def _path(text: str) -> Path:
    if not text:
        raise ValueError(text)
    return location(text).expanduser()


def json_or_text(text: str) -> Any:
    """JSON where it is JSON (7.5, true, null, {...}), else text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) and not math.isfinite(value) else value  # NaN is no JSON, but Python's


_SIMPLE: Mapping[Any, _Kind] = {
    str: _Kind(str, "a text", (str,)),
    int: _Kind(_int, "a whole number", (int,)),
    float: _Kind(_float, "a number", (float, int)),
    bool: _Kind(_bool, "true or false", (bool,)),
    Path: _Kind(_path, "a path", (Path,)),
}


def _kind_of(annotation: Any, default: Any) -> _Kind | None:
    """How values of an annotation are written; None if they cannot be."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _kind_of(arguments[0], default)
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    if origin is Literal:
        return _choice(arguments)
    if origin in (typing.Union, types.UnionType):
        # Python callers may be allowed more than can be written (a sequence of names): the first that can be counts.
        kinds = [kind for a in arguments if a is not type(None) and (kind := _kind_of(a, default)) is not None]
        if not kinds:
            return None
        kind = dataclasses.replace(kinds[0], types=tuple(t for k in kinds for t in k.types))
        # A text that is None by default is left out to be None: "none" is a text like any other.
        plain_text = kind.expects == "a text" and default is None
        return kind if type(None) not in arguments or plain_text or kind.many else _or_none(kind)
    if origin in (tuple, Sequence, list) and arguments and (len(arguments) == 1 or arguments[1] is ...):
        owner = _kind_of(arguments[0], _EMPTY)
        return None if owner is None or owner.many else _joined(owner)
    if origin in (Mapping, dict) and len(arguments) == 2 and arguments[0] is str:
        owner = _Kind(json_or_text, "JSON or a text", ()) if arguments[1] is Any else _kind_of(arguments[1], _EMPTY)
        return None if owner is None or owner.many else dataclasses.replace(owner, types=(Mapping,), many=True)
    return None


def _choice(values: tuple[Any, ...]) -> _Kind:
    by_text = {str(value): value for value in values}

    def parse(text: str) -> Any:
        if text not in by_text:
            raise ValueError(text)
        return by_text[text]

    return _Kind(parse, f"one of {', '.join(by_text)}", tuple({type(v) for v in values}), tuple(by_text))


def _or_none(kind: _Kind) -> _Kind:
    def parse(text: str) -> Any:
        return None if text.lower() == "none" else kind.parse(text)

    choices = (*kind.choices, "none") if kind.choices else ()
    return dataclasses.replace(kind, parse=parse, expects=f"{kind.expects} or none", choices=choices)


def _joined(kind: _Kind) -> _Kind:
    """Several values with + between them, which is a space once the text is decoded."""

    def parse(text: str) -> tuple[Any, ...]:
        return tuple(kind.parse(part) for part in re.split(r"[+ ]", text)) if text else ()

    return _Kind(parse, f"{kind.expects}, several with +", (tuple, list), kind.choices)


def _written(value: Any) -> str:
    """A default as it would be written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        return "+".join(map(_written, value))
    if value is None:
        return "none"
    return str(value) if isinstance(value, str | int | PurePath) else ""


# --------------------------------------------------------------------------------------------------------------------
# Signatures
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Supplied:
    """A parameter that the run gives, by its name or its type."""

    key: str | type


@dataclass(frozen=True)
class _Group:
    """A callable and where the value of each of its parameters comes from.

    Attributes:
        members: parameter, and an option, a thing supplied, or (for an object with options of its own) a group.
        base: the object whose fields are used where nothing else is given; empty: the callable is called.
        rest: whether it has ``**parameters``, to which other options are passed on.
        names: of all its parameters.
    """

    target: Callable[..., Any]
    members: tuple[tuple[inspect.Parameter, Option | _Supplied | _Group], ...]
    base: Any = _EMPTY
    rest: bool = False
    names: frozenset[str] = frozenset()


def read_signature(target: Callable[..., Any], supplied: Sequence[str | type] = ()) -> Signature:
    """What can be written for a class or function.

    Args:
        target: its parameters decide, as the module says.
        supplied: names and types that a run can give.

    Raises:
        VerismError: the signature cannot be used: an annotation that does not exist at run time, a parameter without
            default that nobody supplies, or two options of one name.
    """
    results: list[Option] = []
    argument: list[Option] = []
    group = _read(target, supplied, results, argument, first=True)
    names = [option.name for option in results]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise VerismError(f"{_name(target)}: several parameters are written {', '.join(twice)}; name one otherwise")
    return Signature(argument[0] if argument else None, tuple(results), group.rest, group)


def _read(
    target: Callable[..., Any],
    supplied: Sequence[str | type],
    found: list[Option],
    argument: list[Option],
    *,
    first: bool,
    base: Any = _EMPTY,
) -> _Group:
    """The group of a callable; its options are added to ``found``, and its argument to ``argument``.

    Args:
        first: whether its first positional parameter is the argument.
        base: object of a dataclass that holds the defaults, or empty.
    """
    sentences = _sentences(target)
    members: list[tuple[inspect.Parameter, Option | _Supplied | _Group]] = []
    rest, names = False, set[str]()
    for parameter, annotation in _parameters(target):
        names.add(parameter.name)
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = True
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        default = parameter.default if base is _EMPTY else getattr(base, parameter.name)
        marks = annotation.__metadata__ if typing.get_origin(annotation) is Annotated else ()
        plain = annotation.__origin__ if marks else annotation
        positional = parameter.kind is not parameter.KEYWORD_ONLY
        if any(isinstance(mark, Inline) for mark in marks) or (isinstance(plain, type) and _is_settings(plain)):
            settings = _is_settings(plain)
            inner = _read(plain, supplied, found, argument, first=not settings, base=default if settings else _EMPTY)
            members.append((parameter, inner))
        elif default is _EMPTY and isinstance(plain, type) and plain in supplied:
            members.append((parameter, _Supplied(plain)))
        elif default is _EMPTY and parameter.name in supplied and not (positional and first and not argument):
            members.append((parameter, _Supplied(parameter.name)))
        else:
            spelling = next((mark for mark in marks if isinstance(mark, Spelling)), Spelling())
            option = _option(parameter.name, annotation, default, spelling, sentences)
            if positional and first and not argument and option is not None:
                argument.append(option)
                members.append((parameter, option))
            elif option is not None and default is not _EMPTY:
                found.append(option)
                members.append((parameter, option))
            elif option is None and parameter.name in supplied:
                members.append((parameter, _Supplied(parameter.name)))
            elif default is _EMPTY:
                known = ", ".join(k if isinstance(k, str) else k.__name__ for k in supplied)
                raise VerismError(
                    f"{_name(target)}: its parameter {parameter.name!r} has no default, and a run does not supply it; "
                    f"a run supplies {known}"
                )
    return _Group(target, tuple(members), base, rest, frozenset(names))


def _option(
    name: str, annotation: Any, default: Any, spelling: Spelling, sentences: Mapping[str, str]
) -> Option | None:
    if annotation is _EMPTY:  # untyped: as the default is
        annotation = type(default) if isinstance(default, bool | int | float | str | PurePath) else str
    kind = _kind_of(annotation, default)
    if spelling.parse is not None:
        kind = _Kind(spelling.parse, "a text of its form", ())
    if kind is None:
        return None
    shown = spelling.default
    if shown is None:
        shown = "" if default is _EMPTY or kind.many else _written(default)
    written = spelling.name or name
    return Option(
        name=f"{written}." if kind.many else written,
        expects=kind.expects,
        default=default,
        shown=shown,
        choices=kind.choices,
        help=sentences.get(name, ""),
        parameter=name,
        _kind=kind,
    )


def _is_settings(annotation: Any) -> bool:
    """Whether a type is a frozen dataclass, whose fields are options."""
    return (
        isinstance(annotation, type)
        and dataclasses.is_dataclass(annotation)
        and bool(annotation.__dataclass_params__.frozen)  # type: ignore[attr-defined]
        and annotation is not Context
    )


def _parameters(target: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Parameters and their annotations as objects."""
    try:
        signature = inspect.signature(target)
    except (ValueError, TypeError) as err:  # written in C
        raise VerismError(f"{_name(target)} has no signature to read options from: {err}") from None
    if isinstance(target, type) and dataclasses.is_dataclass(target):
        # Inherited fields are named in the words of another module, and defaults may be made by factories.
        hints = typing.get_type_hints(target, include_extras=True)
        for each in dataclasses.fields(target):
            if each.init:
                default = each.default
                if default is dataclasses.MISSING:
                    default = _EMPTY if each.default_factory is dataclasses.MISSING else each.default_factory()
                yield inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default), hints[each.name]
        return
    names = _globals(target)
    for parameter in signature.parameters.values():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, names)
            except Exception as err:
                raise VerismError(
                    f"{_name(target)}: the type {annotation!r} of its parameter {parameter.name!r} cannot be read when "
                    f"it runs ({err}); import it at the top of the module, and not below TYPE_CHECKING"
                ) from None
        yield parameter, annotation


def _globals(target: Callable[..., Any]) -> dict[str, Any]:
    """The names that annotations of a callable are written in."""
    if isinstance(target, type):
        owner = next((cls for cls in target.__mro__ if "__init__" in vars(cls)), target)
        return vars(sys.modules[owner.__module__])
    names: dict[str, Any] = getattr(inspect.unwrap(target), "__globals__", {})
    return names


_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*):\s+(?P<text>.*)")


def _sentences(target: Callable[..., Any]) -> dict[str, str]:
    """What docstrings say of each parameter, those of base classes included."""
    texts: list[str | None] = [target.__doc__]
    if isinstance(target, type):
        texts = [text for cls in reversed(target.__mro__) for text in (cls.__dict__.get("__doc__"), _init_doc(cls))]
    results: dict[str, str] = {}
    for text in filter(None, texts):
        section, names = "", list[str]()
        for line in inspect.cleandoc(text).splitlines():
            indent = len(line) - len(line.lstrip())
            entry = _ENTRY.match(line.strip()) if indent == 4 else None
            if line and indent == 0:
                section, names = line, []
            elif entry is not None and section in ("Args:", "Attributes:"):
                names = [name.lstrip("*") for name in entry["names"].split(", ")]
                results |= dict.fromkeys(names, entry["text"])
            elif line:
                results |= {name: f"{results[name]} {line.strip()}" for name in names}
    return results


def _init_doc(cls: type) -> str | None:
    text: str | None = getattr(cls.__dict__.get("__init__"), "__doc__", None)
    return text


def _name(target: Any) -> str:
    return f"{getattr(target, '__module__', '?')}:{getattr(target, '__qualname__', target)}"


# --------------------------------------------------------------------------------------------------------------------
# Objects
# --------------------------------------------------------------------------------------------------------------------
def build(
    target: Callable[..., Any],
    argument: Any = "",
    options: Mapping[str, Any] = types.MappingProxyType({}),
    *,
    kind: str = "",
    supplied: Mapping[str | type, Callable[[], Any]] = types.MappingProxyType({}),
) -> Any:
    """What a class or function makes of an argument and options.

    Args:
        target: the class or function.
        argument: the text after the colon, or a value of its type; empty: none was given.
        options: by name, as text, or as values of their types.
        kind: its name in messages; empty: the target's own.
        supplied: makes what the run supplies, by name or type.

    Raises:
        UsageError: an option that there is not, a value of another type, or an argument that is missing or too much.
        VerismError: the target cannot be used, see ``read_signature``.
    """
    signature = read_signature(target, tuple(supplied))
    kind = kind or getattr(target, "__name__", str(target))
    by_key: dict[int, Any] = {}
    if signature.argument is None:
        if argument not in ("", None):
            raise UsageError(f"{kind}: takes no argument, got {argument!r}")
    elif argument not in ("", None):
        by_key[id(signature.argument)] = _value(kind, signature.argument, argument, "argument ")
    elif signature.argument.default is _EMPTY:
        name = signature.argument.name
        answer = f" ({signature.argument.help.replace('``', '').rstrip('.')})" if signature.argument.help else ""
        raise UsageError(f"{kind}: write {kind}:{name.upper()}{answer}")
    rest: dict[str, Any] = {}
    by_name = {option.name: option for option in signature.options}
    for key, value in options.items():
        option = by_name.get(key)
        prefix, dot, subset = key.partition(".")
        if option is not None and not key.endswith("."):
            by_key[id(option)] = _value(kind, option, value)
        elif dot and subset and (option := by_name.get(f"{prefix}.")) is not None:
            by_key.setdefault(id(option), {})[subset] = _value(kind, option, value, key=key)
        elif f"{key}." in by_name and isinstance(value, Mapping):
            by_key[id(by_name[f"{key}."])] = value
        elif signature.passes_on and key not in signature._group.names:
            rest[key] = value
        else:
            raise UsageError(f"{kind}: unknown option {key!r}.{_near(key, by_name)} {_takes(signature)}")
    return _made(signature._group, by_key, supplied, rest)


def _value(kind: str, option: Option, value: Any, what: str = "option ", *, key: str = "") -> Any:
    if not isinstance(value, str):
        return value
    written = f"{value!r}" if what == "argument " else f"{key or option.name}={value!r}"
    try:
        return option.parse(value)
    except ValueError:
        hint = _near(value, option.choices)
        raise UsageError(f"{kind}: {what}{written}: expected {option.expects}.{hint}".rstrip(".")) from None


def _near(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(word, [name.rstrip(".") for name in known], n=1)
    return f" Did you mean {near[0]}?" if near else ""


def _takes(signature: Signature) -> str:
    if not signature.options:
        return "It takes no options"
    return f"Its options are {', '.join(option.written for option in signature.options)}"


def _made(
    group: _Group, given: Mapping[int, Any], supplied: Mapping[str | type, Callable[[], Any]], rest: Mapping[str, Any]
) -> Any:
    positional: list[Any] = []
    named: dict[str, Any] = dict(rest)
    for parameter, member in group.members:
        if isinstance(member, _Group):
            value = _made(member, given, supplied, {})
        elif isinstance(member, _Supplied):
            value = supplied[member.key]()
        elif id(member) in given:
            value = given[id(member)]
        elif member.parameter in SETTINGS and member.parameter in supplied:
            value = supplied[member.parameter]()
            if value is None or not member.fits(value):
                continue
        else:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    if group.base is not _EMPTY:
        return dataclasses.replace(group.base, **named)
    return group.target(*positional, **named)
