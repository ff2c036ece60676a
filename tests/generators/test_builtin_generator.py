"""The text-to-image model of the package: what it draws, and that nothing but prompt and seed decides it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from verism.errors import UsageError
from verism.generators.builtin import EDITIONS, FILES, BuiltinGenerator, _draw
from verism.generators.layered import Description
from verism.options import Context
from verism.records import Prompt, Request, Result
from verism.registry import make_generator
from verism.suites.catalogue import make_suite


@pytest.fixture(scope="module")
def model() -> BuiltinGenerator:
    return BuiltinGenerator(size=64, threads=1)


def request(text: str, seed: int = 1, number: int = 0) -> Request:
    prompt = Prompt(prompt_id=f"p{number}", suite="paintskills", text=text)
    return Request(image_id=f"p{number}#0", prompt=prompt, index=0, seed=seed)


def images(model: BuiltinGenerator, *requests: Request) -> list[np.ndarray]:
    results: list[Result] = list(model.generate(requests))
    assert [r.image_id for r in results] == [r.image_id for r in requests]
    assert all(r.state == "ok" and r.pixels is not None for r in results)
    return [np.asarray(r.pixels) for r in results]


def described(model: BuiltinGenerator, text: str, seeds: range) -> list[Description]:
    results: list[Description] = []
    for start in range(seeds.start, seeds.stop, model.batch_size):
        some = range(start, min(start + model.batch_size, seeds.stop))
        results += model.write([model.language.read(text)[0]] * len(some), list(some))
    return results


def test_an_image_depends_on_its_prompt_and_seed_alone(model: BuiltinGenerator) -> None:
    mine = request("a photo of 2 dogs", seed=5)
    others = [
        request(text, seed, k + 1) for k, (text, seed) in enumerate([("bus", 1), ("4 umbrellas", 2), ("red car", 3)])
    ]
    (alone,) = images(model, mine)
    assert (images(model, mine, *others)[0] == alone).all()
    assert (images(model, *others, *others, *others, mine)[-1] == alone).all()
    (other_seed,) = images(model, request("a photo of 2 dogs", seed=6))
    assert (other_seed != alone).any()
    (other_text,) = images(model, request("a photo of 2 boats", seed=5))
    assert (other_text != alone).any()


def test_threads_and_loading_anew_change_nothing(model: BuiltinGenerator) -> None:
    again = BuiltinGenerator(size=64, threads=2)
    assert again.name == model.name
    (one,), (other,) = images(model, request("a bird", 3)), images(again, request("a bird", 3))
    assert abs(one.astype(int) - other).max() <= 1


def test_temperature_zero_leaves_nothing_to_chance() -> None:
    cold = BuiltinGenerator(size=64, temperature=0, structure_temperature=0, threads=1)
    one, other = images(cold, request("a chair", 1), request("a chair", 2))
    assert (one == other).all()


def test_sizes() -> None:
    for size in (65, 200):
        (image,) = images(BuiltinGenerator(size=size, threads=1), request("a dog"))
        assert image.shape == (size, size, 3)


# These hold by a wide margin for the model that is shipped; one that fails them should not be.
@pytest.mark.parametrize(
    ("text", "label", "count"),
    [("3 dogs", "dog", 3), ("a photo of 2 chairs", "chair", 2), ("an umbrella", "umbrella", 1)],
)
def test_it_writes_as_many_objects_as_asked(model: BuiltinGenerator, text: str, label: str, count: int) -> None:
    result = Counter(tuple(sorted(o.label for o in d.objects)) for d in described(model, text, range(8)))
    assert result[(label,) * count] >= 6, result


@pytest.mark.parametrize("relation", ["left to", "right to", "above", "below"])
def test_it_writes_objects_where_asked(model: BuiltinGenerator, relation: str) -> None:
    right = 0
    for description in described(model, f"a photo of car and bird; bird is {relation} car", range(8)):
        at = {o.label: o for o in description.objects}
        if set(at) == {"car", "bird"}:
            dx, dy = at["bird"].x - at["car"].x, at["bird"].y - at["car"].y
            side = {"left to": -dx, "right to": dx, "above": -dy, "below": dy}[relation]
            right += side > abs(dy if relation.endswith("to") else dx)
    assert right >= 6


def test_unknown_words_are_named_in_the_note(model: BuiltinGenerator) -> None:
    known, unknown, empty = model.generate([request("a dog"), request("a purple unicorn, a dog"), request("")])
    assert known.note == ""
    assert unknown.note == "words not understood: unicorn"
    assert empty.state == "ok"


def test_the_name_holds_what_changes_images(model: BuiltinGenerator) -> None:
    assert model.name.startswith("builtin:paintskills-generator@")
    assert model.name.endswith("?size=64")
    warm = BuiltinGenerator(temperature=0.7, top_p=0.5)
    assert warm.name.endswith("?size=256&temperature=0.7&top_p=0.5")
    assert model.describe()["sha256"].startswith(model.name.split("@")[1][:12])


@pytest.mark.parametrize("suite", ["paintskills", "paintskills_v1"])
def test_a_suite_gets_the_edition_that_knows_its_classes_and_words(suite: str) -> None:
    made = make_suite(suite, skills=["object", "count", "spatial", "color"], limit=200, seed=3)
    model = make_generator("builtin", Context(prompts=made.prompts(), classes=made.classes))
    assert isinstance(model, BuiltinGenerator)
    assert model.name.startswith(f"builtin:{suite.replace('_', '-')}-generator@")
    assert set(made.classes) <= set(model.language.labels)
    assert not any(lost for p in made.prompts() for _, lost in [model.language.read(p.text)])


def test_editions_are_named_and_other_classes_get_the_first() -> None:
    first, other = BuiltinGenerator(edition="iccv"), BuiltinGenerator(edition="v1")
    assert first.name == BuiltinGenerator().name == BuiltinGenerator(classes=["unicorn"]).name
    assert other.name == make_generator("builtin:edition=v1", Context(classes={"umbrella": "umbrella"})).name
    assert first.name != other.name
    with pytest.raises(UsageError, match="a folder or an edition, not both"):
        BuiltinGenerator("somewhere", edition="v1")


@pytest.mark.parametrize("text", ["a photo of skateboard", "a photo of 3 bed"])
def test_the_edition_of_v1_renders_its_objects_on_black(text: str) -> None:
    model = BuiltinGenerator(edition="v1", size=64, threads=1)
    (image,) = images(model, request(text))
    border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    assert np.median(border) <= 8
    assert image.max() > 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 8}, "size must be 64 to 1024"),
        ({"temperature": -1}, "must not be negative"),
        ({"structure_temperature": -0.1}, "must not be negative"),
        ({"top_p": 0}, "top_p must lie above 0"),
        ({"threads": 0}, "threads must be at least 1"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        BuiltinGenerator(**options)  # type: ignore[arg-type]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no writer\.onnx.*verism train generator"):
        BuiltinGenerator(tmp_path)
    for file in FILES:
        (tmp_path / file).write_bytes(b"no network")
    with pytest.raises(UsageError, match="cannot be read"):
        BuiltinGenerator(tmp_path)


def test_another_network_is_no_writer(tmp_path: Path) -> None:
    from importlib import resources

    packaged = Path(str(resources.files("verism.generators") / "data" / EDITIONS["iccv"]))
    for file in FILES:
        (tmp_path / file).write_bytes((packaged / "scenery.onnx").read_bytes())
    with pytest.raises(UsageError, match="no writer of ours"):
        BuiltinGenerator(tmp_path)


def test_the_models_are_small() -> None:
    from importlib import resources

    data = Path(str(resources.files("verism.generators") / "data"))
    assert sum((data / folder / f).stat().st_size for folder in EDITIONS.values() for f in FILES) <= 30e6


# -------------------------------------------------------------------------------------------------------------- drawing
def drawn(logits: np.ndarray, temperature: float, top_p: float) -> np.ndarray:
    """Shares of each number over evenly spread chances."""
    chances = (np.arange(2000) + 0.5) / 2000
    results = [_draw(logits, chance, temperature, top_p) for chance in chances]
    return np.bincount(results, minlength=len(logits)) / len(results)


def test_numbers_are_drawn_by_their_probability() -> None:
    logits = np.log(np.array([0.1, 0.6, 0.3]))
    assert np.abs(drawn(logits, 1.0, 1.0) - [0.1, 0.6, 0.3]).max() < 0.002
    # At half the temperature probabilities are squared: 1, 36, 9 of 46.
    assert np.abs(drawn(logits, 0.5, 1.0) - np.array([1, 36, 9]) / 46).max() < 0.002
    assert _draw(logits, 0.99, 0.0, 1.0) == 1


def test_unlikely_numbers_are_left_out() -> None:
    logits = np.log(np.array([0.1, 0.6, 0.3]))
    # 0.6 alone does not make 0.8; with 0.3 it does: 2 / 3 and 1 / 3.
    assert np.abs(drawn(logits, 1.0, 0.8) - [0, 2 / 3, 1 / 3]).max() < 0.002
    assert drawn(logits, 1.0, 0.5).tolist() == [0, 1, 0]
    assert set(np.flatnonzero(drawn(np.zeros(4), 1.0, 1.0))) == {0, 1, 2, 3}
