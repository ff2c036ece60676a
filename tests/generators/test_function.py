# ruff: noqa: ARG001, ARG005 - a function that paints takes a prompt and a seed, needed or not
"""Functions as models: what they may return, what happens when they raise, and how they are found by name."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from fakes import PixelJudge
from PIL import Image as PilImage

import verism
from verism.errors import UsageError, VerismError
from verism.generators.function import FunctionGenerator, Refused, load_generator
from verism.records import Prompt, Request


def asked(*texts: str) -> list[Request]:
    return [
        Request(image_id=f"p_{k}#0", prompt=Prompt(prompt_id=f"p_{k}", suite="s", text=text), index=0, seed=1000 + k)
        for k, text in enumerate(texts)
    ]


def image(prompt: str, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, len(prompt)]).integers(0, 256, (4, 6, 3), dtype=np.uint8)


# --------------------------------------------------------------------------------------------------------------------
# What it returns
# --------------------------------------------------------------------------------------------------------------------
RGB = image("dog", 1)


def through(made) -> tuple[np.ndarray | None, str]:
    (result,) = FunctionGenerator(lambda prompt, seed: made, name="f").generate(asked("dog"))
    assert result.state == ("failed" if result.pixels is None else "ok")
    return result.pixels, result.note


@pytest.mark.parametrize(
    "made",
    [
        RGB,
        RGB.astype(np.float32) / 255,
        RGB.astype(np.float64) / 255,
        PilImage.fromarray(RGB),
        PilImage.fromarray(RGB).convert("RGBA"),
        RGB[:, ::-1][:, ::-1],
    ],
    ids=["uint8", "float32", "float64", "PIL", "opaque", "view"],
)
def test_images_of_every_kind(made):
    pixels, note = through(made)
    np.testing.assert_array_equal(pixels, RGB)
    assert pixels.dtype == np.uint8
    assert note == ""


def test_whatever_becomes_an_array_is_one():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return RGB

    np.testing.assert_array_equal(through(Tensor())[0], RGB)


def test_floats_are_rounded():
    # 0.5 * 255 = 127.5, rounded up; the ends may be missed by a rounding error.
    pixels, _ = through(np.array([[[0.5, -1e-4, 1 + 1e-4]]]))
    assert pixels.tolist() == [[[128, 0, 255]]]


@pytest.mark.parametrize(
    ("made", "rgb", "note"),
    [
        (PilImage.new("RGBA", (1, 1), (0, 0, 0, 0)), (255, 255, 255), "transparency laid over white"),
        (PilImage.new("L", (1, 1), 7), (7, 7, 7), ""),
        (PilImage.new("P", (1, 1), 0), (0, 0, 0), ""),
        (PilImage.new("CMYK", (1, 1), (0, 255, 255, 0)), (255, 0, 0), ""),
    ],
)
def test_images_of_other_modes(made, rgb, note):
    pixels, answer = through(made)
    assert pixels.tolist() == [[list(rgb)]]
    assert answer == note


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "TypeError: expected a PIL image, an array or a path, got NoneType"),
        ([1, 2], "TypeError: expected a PIL image, an array or a path, got list"),
        (RGB[..., 0], r"ValueError: expected an array of shape (H, W, 3), got (4, 6)"),
        (RGB.transpose(2, 0, 1), r"got (3, 4, 6); put the channels last"),
        (RGB[:0], "got (0, 6, 3)"),
        (RGB.astype(np.int64), "expected an array of uint8, or of floats in [0, 1], got int64"),
        (RGB.astype(np.float32), "expected floats in [0, 1], got "),
        (RGB / 127.5 - 1, "expected floats in [0, 1], got -"),
        (np.full((2, 2, 3), np.nan), "expected floats in [0, 1], got nan to nan"),
        (PilImage.new("F", (1, 1)), "a PIL image of mode F has no defined range"),
        (PilImage.new("I;16", (1, 1)), "a PIL image of mode I;16 has no defined range"),
        ("nowhere.png", "ValueError: nowhere.png: no such file"),
    ],
)
def test_what_is_no_image(made, message):
    pixels, note = through(made)
    assert pixels is None
    assert message in note


def test_paths_are_read_at_once_and_left(tmp_path):
    def paint(prompt, seed):
        # The same file each time: whoever reads later reads another image.
        PilImage.fromarray(image(prompt, seed)).save(tmp_path / "out.png")
        return tmp_path / "out.png" if seed % 2 else str(tmp_path / "out.png")

    results = list(FunctionGenerator(paint, name="f").generate(asked("a", "b", "c")))
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result.pixels, image("a", 1000 + k))
        assert result.path is None
    assert (tmp_path / "out.png").exists()


def test_the_function_may_use_its_array_again():
    array = np.zeros((1, 1, 3), np.uint8)

    def paint(prompt, seed):
        array[:] = seed % 256
        return array

    results = list(FunctionGenerator(paint, name="f").generate(asked("a", "b", "c")))
    # 1000 % 256 = 232
    assert [int(r.pixels[0, 0, 0]) for r in results] == [232, 233, 234]


# --------------------------------------------------------------------------------------------------------------------
# How it is called
# --------------------------------------------------------------------------------------------------------------------
def test_one_image_at_a_time_in_order():
    calls = []

    def paint(prompt, seed):
        calls.append((prompt, seed))
        return image(prompt, seed)

    results = FunctionGenerator(paint, name="f").generate(asked("a", "bb", "ccc"))
    first = next(results)
    assert calls == [("a", 1000)]  # the second is painted when it is wanted
    rest = list(results)
    assert [r.image_id for r in (first, *rest)] == ["p_0#0", "p_1#0", "p_2#0"]
    assert calls == [("a", 1000), ("bb", 1001), ("ccc", 1002)]
    assert all(r.seeded for r in (first, *rest))


class Batches:
    batch_size = 4
    seeded = False

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.closed = False

    def __call__(self, prompts: list[str], seeds: list[int]) -> list:
        self.calls.append(prompts)
        assert len(prompts) == len(seeds) <= 4
        if "bad" in prompts:
            raise ValueError("a bad one")
        return [Refused("no") if p == "no" else image(p, s) for p, s in zip(prompts, seeds, strict=True)]

    def close(self) -> None:
        self.closed = True

    def describe(self) -> dict:
        return {"steps": 3}


def test_batches():
    paint = Batches()
    generator = FunctionGenerator(paint, name="f")
    results = list(generator.generate(asked("a", "b", "no", "d", "e", "bad", "g")))
    # One bad image does not take its neighbours with it: they are asked for again one by one.
    assert paint.calls == [["a", "b", "no", "d"], ["e", "bad", "g"], ["e"], ["bad"], ["g"]]
    assert [r.state for r in results] == ["ok", "ok", "refused", "ok", "ok", "failed", "ok"]
    for k in (0, 1, 3, 4, 6):
        np.testing.assert_array_equal(results[k].pixels, image("a", 1000 + k))
        assert not results[k].seeded
    assert generator.describe() == {"steps": 3}
    generator.close()
    assert paint.closed


@pytest.mark.parametrize(
    ("made", "message"),
    [([RGB], "f: returned 1 images for 2 prompts"), (None, "expected a list of images, got None")],
)
def test_batches_of_another_length(made, message):
    def paint(prompts, seeds):
        return made

    paint.batch_size = 2
    with pytest.raises(VerismError, match=message):
        list(FunctionGenerator(paint, name="f").generate(asked("a", "b")))


def test_prints_leave_standard_output_to_results(capsys):
    def paint(prompt, seed):
        print("step 1")
        return RGB

    list(FunctionGenerator(paint, name="f").generate(asked("a")))
    assert capsys.readouterr() == ("", "step 1\n")


@pytest.mark.parametrize(
    ("paint", "name", "message"),
    [
        (RGB, "f", r"expected a function generate\(prompt, seed\), got ndarray"),
        (lambda p, s: RGB, "", "name the model"),
        (type("P", (), {"batch_size": 0, "__call__": print})(), "f", "must be a positive integer, got 0"),
        (type("P", (), {"batch_size": "8", "__call__": print})(), "f", "must be a positive integer, got '8'"),
    ],
)
def test_what_is_no_model(paint, name, message):
    with pytest.raises(UsageError, match=message):
        FunctionGenerator(paint, name=name)


# --------------------------------------------------------------------------------------------------------------------
# What it raises
# --------------------------------------------------------------------------------------------------------------------
def outcome(paint, *texts: str) -> list[tuple[str, str]]:
    return [(r.state, r.note) for r in FunctionGenerator(paint, name="f").generate(asked(*texts))]


def test_exceptions_concern_one_image():
    def paint(prompt, seed):
        if prompt == "bad":
            raise RuntimeError("too\n long")
        if prompt == "no":
            raise Refused("unsafe")
        if prompt == "never":
            raise Refused
        return RGB

    assert outcome(paint, "bad", "no", "never", "good") == [
        ("failed", "RuntimeError: too long"),
        ("refused", "unsafe"),
        ("refused", "the model gave no reason"),
        ("ok", ""),
    ]


def broken(prompt, seed):
    raise RuntimeError(f"no weights for {prompt}")


def test_a_broken_model_is_said_to_be_broken():
    results = FunctionGenerator(broken, name="f").generate(asked(*"abcdefgh"))
    with pytest.raises(VerismError, match=r"first 5 images all failed alike.*RuntimeError: no weights for e") as error:
        next(results)  # none of the five is handed on as failed before
    line = broken.__code__.co_firstlineno + 1
    assert f"({__file__}, line {line}, in broken)" in str(error.value)
    assert isinstance(error.value.__cause__, RuntimeError)


def test_answers_that_are_no_images_are_a_broken_model():
    with pytest.raises(VerismError, match=r"first 5 images all failed alike.*got NoneType$"):
        outcome(lambda prompt, seed: None, *"abcdef")  # no line is named: it would be one of ours


@pytest.mark.parametrize("count", [1, 4])
def test_fewer_failures_are_failures(count):
    assert [state for state, _ in outcome(broken, *"abcde"[:count])] == ["failed"] * count


def test_failures_after_a_success_are_failures():
    def paint(prompt, seed):
        return RGB if seed in (1004, 1012) else broken(prompt, seed)

    states = [state for state, _ in outcome(paint, *"abcdefghijklm")]
    assert states == ["failed"] * 4 + ["ok"] + ["failed"] * 7 + ["ok"]


def test_failures_at_other_lines_are_failures():
    def paint(prompt, seed):
        if seed == 1002:
            raise RuntimeError("here")
        raise RuntimeError("there")

    assert [state for state, _ in outcome(paint, *"abcdefg")] == ["failed"] * 7


def test_an_interrupt_is_no_failure():
    def paint(prompt, seed):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outcome(paint, "a")


# --------------------------------------------------------------------------------------------------------------------
# By name
# --------------------------------------------------------------------------------------------------------------------
MODULE = '''
"""A model of somebody's."""
from __future__ import annotations
from typing import Optional, TYPE_CHECKING
import numpy as np
if TYPE_CHECKING:
    from nowhere import Nothing
print("loading")
def make(steps: int = 50, scale: float = 7.5, fast: bool = False, note: str = "1", size: int | None = 64,
         old: Optional[float] = None, count=3, bare=None):
    seen = (steps, scale, fast, note, size, old, count, bare)
    def paint(prompt, seed):
        return np.full((1, 2, 3), seed % 256, np.uint8)
    paint.seen = seen
    return paint
def anything(**options):
    paint = make()
    paint.seen = options
    return paint
def unresolved(steps: int, what: Nothing = None):
    paint = make()
    paint.seen = (steps, what)
    return paint
class Model:
    def __init__(self, steps: int = 1):
        self.seen = steps
    def __call__(self, prompt, seed):
        return "x.png"
class Whole:
    name = "whole@1"
    def generate(self, requests):
        return iter(())
def paint(prompt: str, seed: int):
    return "x.png"
def breaks():
    return 1 / 0
def number():
    return 5
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes modules into the current directory; afterwards they are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = set(sys.modules)

    def write(text: str = MODULE, name: str = "some_model.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    yield write
    for name in set(sys.modules) - known:
        if name.startswith(("some_", "other_")):
            del sys.modules[name]


def test_a_function_by_name(module, capsys):
    path = module()
    generator = load_generator("some_model:make", steps="30", scale="2")
    assert capsys.readouterr().out == ""
    assert generator.name.startswith("python:some_model:make?scale=2&steps=30@")
    assert len(generator.name.rpartition("@")[2]) == 12
    (result,) = generator.generate(asked("dog"))
    assert result.pixels.tolist() == [[[232] * 3] * 2]  # 1000 % 256
    described = generator.describe()
    assert described["factory"] == "some_model:make"
    assert described["options"] == {"steps": "30", "scale": "2"}
    assert load_generator("some_model:make").name != generator.name
    path.write_text(MODULE + "\n")
    edited = load_generator("some_model:make", scale="2", steps="30").name
    assert edited.partition("@")[0] == generator.name.partition("@")[0]
    assert edited != generator.name


@pytest.mark.parametrize(
    ("factory", "options", "seen"),
    [
        ("make", {}, (50, 7.5, False, "1", 64, None, 3, None)),
        ("make", {"steps": "3", "scale": "1e-1", "fast": "yes"}, (3, 0.1, True, "1", 64, None, 3, None)),
        ("make", {"note": "2", "size": "none", "old": "5"}, (50, 7.5, False, "2", None, 5.0, 3, None)),
        ("make", {"size": "8", "old": "None", "count": "9", "bare": "9"}, (50, 7.5, False, "1", 8, None, 9, "9")),
        ("make", {"fast": "0"}, (50, 7.5, False, "1", 64, None, 3, None)),
        ("anything", {"a": "1", "b": "x"}, {"a": "1", "b": "x"}),
        ("unresolved", {"steps": "4"}, (4, None)),
        ("Model", {"steps": "4"}, 4),
    ],
)
def test_options_as_the_factory_wants_them(module, factory, options, seen):
    module()
    generator = load_generator(f"some_model:{factory}", **options)
    result = generator.function.seen
    assert result == seen
    if isinstance(seen, tuple):
        assert [type(v) for v in result] == [type(v) for v in seen]


def test_a_generator_is_used_as_it_is(module):
    module()
    generator = load_generator("some_model:Whole")
    assert type(generator).__name__ == "Whole"
    assert generator.name == "whole@1"


def test_packages_and_members(module):
    module("", "some_package/__init__.py")
    module(MODULE, "some_package/inner.py")
    assert load_generator("some_package.inner:make").name.startswith("python:some_package.inner:make@")


@pytest.mark.parametrize(
    ("argument", "options", "message"),
    [
        ("some_model", {}, r"expected python:module:factory"),
        ("some_model.py:make", {}, r"named as in `import module` \(a\.b, and not a/b\.py\)"),
        ("./some_model:make", {}, r"expected python:module:factory"),
        (":make", {}, r"expected python:module:factory"),
        ("some_modle:make", {}, r"python:some_modle: no such module in .* is run by command:"),
        ("some_model:mkae", {}, r"some_model has no 'mkae'\. Did you mean make\?"),
        ("some_model:__doc__", {}, r"is str; expected a function that returns the model"),
        ("some_model:number", {}, r"some_model:number returned int; expected a function"),
        ("some_model:make", {"setps": "3"}, r"unexpected keyword argument 'setps'; it is make\(steps: int = 50, "),
        ("some_model:make", {"steps": "3.5"}, r"option steps='3.5': expected an int"),
        ("some_model:make", {"fast": "maybe"}, r"option fast='maybe': expected true or false"),
        ("some_model:unresolved", {}, r"missing a required argument: 'steps'"),
        ("some_model:paint", {}, r"It seems to be generate\(prompt, seed\) itself; name a function that returns it"),
        ("some_model:anything", {"api_key": "abc"}, r"api_key looks like a secret"),
    ],
)
def test_names_that_lead_nowhere(module, argument, options, message):
    module()
    with pytest.raises(UsageError, match=message):
        load_generator(argument, **options)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "import some_missing_library",
            VerismError,
            r"importing it failed: ModuleNotFoundError: No module named 'some_m",
        ),
        ("\n\nx = 1 / 0", VerismError, r"ZeroDivisionError: .*other_model.py, line 3, in <module>\)"),
        ("def make(:", VerismError, r"importing it failed: SyntaxError"),
        (
            "import sys; sys.exit(2)",
            UsageError,
            r'importing it ended the program \(exit 2\); .* if __name__ == "__main__"',
        ),
    ],
)
def test_modules_that_cannot_be_imported(module, text, error, message):
    module(text, "other_model.py")
    with pytest.raises(error, match=message):
        load_generator("other_model:make")


def test_a_factory_that_raises(module):
    module()
    with pytest.raises(
        VerismError, match=r"some_model:breaks\(\) failed: ZeroDivisionError.*some_model.py, line \d+, in b"
    ):
        load_generator("some_model:breaks")
    module("from verism.errors import UsageError\ndef make(): raise UsageError('give steps')", "other_model.py")
    with pytest.raises(UsageError, match=r"^give steps$"):
        load_generator("other_model:make")


# --------------------------------------------------------------------------------------------------------------------
# In a run
# --------------------------------------------------------------------------------------------------------------------
def test_a_function_is_evaluated(tmp_path):
    def paint(prompt: str, seed: int) -> np.ndarray:
        if "dog" in prompt:
            raise Refused("no dogs")
        return np.random.default_rng(seed).integers(0, 100, (16, 16, 3), dtype=np.uint8)

    run = verism.evaluate(
        "paintskills",
        model=FunctionGenerator(paint, name="mine@1"),
        detector=PixelJudge(),
        out=tmp_path / "run",
        skills=["object"],
        limit=15,
    )
    images = run.read("images")
    assert sorted(images["state"].to_list()) == ["ok"] * 14 + ["refused"]
    assert images.filter(images["state"] == "ok")["seed"].null_count() == 0
