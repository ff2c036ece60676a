"""Options out of typed signatures: what can be written, what it becomes, and what is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest

from verism.errors import UsageError, VerismError
from verism.options import INLINE, Context, Spelling, build, read_signature
from verism.records import Renderer

if TYPE_CHECKING:
    from decimal import Decimal


def given(**values: Any) -> dict[str, Any]:
    return values


def every_type(
    source: Path,
    *,
    text: str = "a",
    number: float = 0.5,
    count: int = 3,
    flag: bool = False,
    kind: Literal["square", "disc"] = "square",
    limit: float | None = 1.0,
    prompt: str | None = None,
    size: int | None = None,
    parts: tuple[Literal["a", "b"], ...] = ("a",),
    names: Sequence[str] = (),
    alias: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    either: str | Path | None = None,
    clock: Callable[[], float] | None = None,
) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if value is not inspect.Parameter.empty}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", "b=c", "b=c"),
        ("text", "none", "none"),
        ("number", "2", 2.0),
        ("count", "-1", -1),
        ("flag", "Yes", True),
        ("flag", "0", False),
        ("kind", "disc", "disc"),
        ("limit", "none", None),
        ("limit", "0.25", 0.25),
        ("prompt", "none", "none"),  # None by default: a text like any other
        ("size", "none", None),
        ("parts", "a+b", ("a", "b")),
        ("parts", "a b", ("a", "b")),  # a plus sign in a query is a space
        ("names", "", ()),
        ("folder", "x/y", Path("x/y")),
        ("either", "x", "x"),
    ],
)
def test_build_option_of_every_type_becomes_its_value(name, text, value):
    made = build(every_type, "here", {name: text})
    assert made[name] == value
    assert type(made[name]) is type(value)
    assert made["source"] == Path("here")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("number", "much", "option number='much': expected a number$"),
        ("number", "nan", "option number='nan': expected a number$"),
        ("count", "1.5", "option count='1.5': expected a whole number$"),
        ("flag", "maybe", "option flag='maybe': expected true or false$"),
        ("kind", "squar", "option kind='squar': expected one of square, disc. Did you mean square"),
        ("limit", "low", "option limit='low': expected a number or none$"),
        ("parts", "a+c", "option parts='a.c': expected one of a, b, several with .$"),
        ("folder", "", "option folder='': expected a path or none$"),
        ("countt", "1", "thing: unknown option 'countt'. Did you mean count.? Its options are text, number"),
        ("clock", "1", "unknown option 'clock'"),
        ("alias.", "1", "unknown option 'alias.'"),
        ("text.x", "1", "unknown option 'text.x'"),
    ],
)
def test_build_option_of_another_type_is_refused_by_name(name, text, message):
    with pytest.raises(UsageError, match=message):
        build(every_type, "here", {name: text}, kind="thing")


def test_build_mapping_collects_its_keys():
    made = build(every_type, "here", {"alias.bike": "bicycle", "alias.a.b": "c", "extra.n": "7.5", "extra.t": "word"})
    assert made["alias"] == {"bike": "bicycle", "a.b": "c"}
    assert made["extra"] == {"n": 7.5, "t": "word"}


def test_build_values_that_are_no_text_are_passed_as_they_are():
    assert build(every_type, Path("here"), {"count": 7, "alias": {"a": "b"}})["count"] == 7


@pytest.mark.parametrize(
    ("target", "argument", "message"),
    [
        (every_type, "", "thing: write thing:SOURCE$"),
        (given, "x", "thing: takes no argument, got 'x'"),
    ],
)
def test_build_argument_missing_or_superfluous_is_refused(target, argument, message):
    with pytest.raises(UsageError, match=message):
        build(target, argument, kind="thing")


def test_build_rest_is_passed_on_as_text():
    assert build(given, options={"steps": "3", "x.y": "z"}) == {"steps": "3", "x.y": "z"}


def test_build_rest_never_reaches_a_parameter_that_is_no_option():
    def target(*, clock: Callable[[], float] | None = None, **rest: str) -> tuple[Any, ...]:
        return clock, rest

    with pytest.raises(UsageError, match="unknown option 'clock'"):
        build(target, options={"clock": "1"})
    assert build(target, options={"pace": "1"}) == (None, {"pace": "1"})


@dataclass(frozen=True, kw_only=True)
class Base:
    """Run.

    Attributes:
        device: where it computes,
            in full.
        batch: at once.
    """

    device: str | None = None
    batch: int = 8


@dataclass(frozen=True, kw_only=True)
class Hub(Base):
    """More.

    Attributes:
        revision: which of them.
    """

    revision: Annotated[str | None, Spelling("rev")] = None


class Finder:
    """Finds.

    Args:
        path: the file of the finder.
        least: smallest that counts.
    """

    def __init__(self, path: str, *, least: int = 2) -> None:
        self.settings = path, least


def composed(
    finder: Annotated[Finder, INLINE],
    *,
    hub: Hub = Hub(batch=4),
    factor: float = 2.0,
) -> tuple[Finder, Hub, float]:
    """Composes.

    Args:
        finder: finds.
        hub: loads.
        factor, other: what it is multiplied by.
    """
    return finder, hub, factor


def test_build_settings_and_inline_objects_take_their_options_from_the_whole():
    finder, hub, factor = build(composed, "f", {"least": "5", "rev": "abc", "device": "cpu"})
    assert (finder.settings, hub, factor) == (("f", 5), Hub(batch=4, revision="abc", device="cpu"), 2.0)


def test_read_signature_tells_names_defaults_and_sentences():
    signature = read_signature(composed)
    assert signature.argument is not None
    assert (signature.argument.name, signature.argument.help) == ("path", "the file of the finder.")
    assert [(o.name, o.expects, o.shown, o.help) for o in signature.options] == [
        ("least", "a whole number", "2", "smallest that counts."),
        ("device", "a text", "none", "where it computes, in full."),
        ("batch", "a whole number", "4", "at once."),
        ("rev", "a text", "none", "which of them."),
        ("factor", "a number", "2", "what it is multiplied by."),
    ]


def test_build_run_supplies_by_name_and_type_what_fits():
    def target(
        renderer: Renderer,
        *,
        prompts: Sequence[str],
        size: str | None = None,
        threads: int | None = None,
        base_url: str = "here",
        context: Context,
        base: Base = Base(batch=1),
    ) -> tuple[Any, ...]:
        return renderer, prompts, size, threads, base_url, context, base

    run: dict[str | type, Callable[[], Any]] = {
        Renderer: lambda: "painter",
        Context: lambda: "context",
        "prompts": lambda: ["p"],
        "size": lambda: 64,
        "threads": lambda: 2,
        "base_url": lambda: None,
        "device": lambda: "cpu",
    }
    made = build(target, options={"batch": "3"}, supplied=run)
    # A size of another type is not meant, and an address that nobody named leaves the default.
    assert made == ("painter", ["p"], None, 2, "here", "context", Base(batch=3, device="cpu"))
    assert build(target, options={"threads": "none"}, supplied=run)[3] is None


def test_build_untyped_parameters_are_as_their_defaults():
    def target(*, steps=3, fast=False, name=None):
        return steps, fast, name

    assert build(target, options={"steps": "4", "fast": "yes", "name": "n"}) == (4, True, "n")


def untold(*, places: Decimal | None = None) -> None: ...


def needing(*, item: int) -> None: ...


def doubled(*, device: str = "a", base: Base = Base()) -> None: ...


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (untold, "the type 'Decimal | None' of its parameter 'places' cannot be read .* not below TYPE_CHECKING"),
        (
            needing,
            "its parameter 'item' has no default, and a run does not supply it; a run supplies prompts, Renderer",
        ),
        (doubled, "several parameters are written device; name one otherwise"),
    ],
)
def test_read_signature_that_cannot_be_used_says_why(target, message):
    with pytest.raises(VerismError, match=message):
        read_signature(target, ("prompts", Renderer))
