"""The built-in generator from rendered scenes to ONNX: a few steps of tiny networks, end to end."""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import verism
from float_arithmetic import in_float32

from verism.errors import UsageError, VerismError
from verism.generators.builtin import FILES, BuiltinGenerator
from verism.generators.layered import MOST_OBJECTS, Description, Language, Placed, mirrored_text
from verism.records import Prompt, Request
from verism.suites.paintskills.layout import mask_path
from verism.training._checkpoints import averaged_weights, read_header
from verism.training._replicas import NetworkLearner
from verism.training.generator_autoencoders import (
    AUTOENCODERS,
    KIND,
    describe_images,
    load_autoencoders,
    train_autoencoders,
)
from verism.training.generator_writer import WRITER, train_writer
from verism.training.loop import Hooks, fit
from verism.training.scene_layers import CROP, MARGIN, OTHER, OWN, SCENERY, SIDE_TABLES, Layers, load_layers
from verism.training.settings import AutoencoderConfig, GeneratorConfig, NetworkConfig, SceneChoice, WriterConfig

torch = pytest.importorskip("torch")

from verism.training import generator as training  # noqa: E402
from verism.training import generator_writer as writing  # noqa: E402
from verism.training.generator_network import (  # noqa: E402
    FIGURE_CODES,
    FigureCoder,
    SceneryCoder,
    Writer,
    WriterStep,
    from_codes,
    quantise,
    to_codes,
)

LANGUAGE = Language(
    words=("a", "dog"), labels=("bus", "dog"), backgrounds=("b",), text_length=3, scenery_codes=2, figure_codes=2
)


WRITERS: dict[str, Any] = {"width": 32, "depth": 2, "workers": 1}  # to trace four blocks takes twice as long
CODERS: dict[str, Any] = {"width": 0.25, "batch_size": 4, "workers": 1}


@pytest.fixture(scope="session")
def trained(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A small model after three steps, by the command, with its card: it renders nonsense, but in the right form."""
    out = tmp_path_factory.mktemp("trained")
    words = ("--suite", "paintskills", "--skill", "all", "--scenes", scenes, "--steps", 3, "--batch", 4, "--workers", 1)
    parts = training._parts

    def small(config: GeneratorConfig) -> tuple[AutoencoderConfig, WriterConfig]:
        coders, writer = parts(config)
        return coders, replace(writer, **WRITERS)

    with (
        in_float32(),  # ten times faster where a processor has no instructions for bfloat16
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(training, "_parts", small)
        words += ("--width", CODERS["width"])
        done = verism("train", "generator", "--base", "builtin", *words, "--out", out, "--evaluate", 3)
    assert done.exit_code == 0, done.output
    assert "mean" in done.stdout  # the table of scores, above the card
    return out, json.loads(done.stdout[done.stdout.index("{\n") :])


def request(text: str, seed: int = 1, name: str = "p") -> Request:
    return Request(image_id=f"{name}#0", prompt=Prompt(prompt_id=name, suite="s", text=text), index=0, seed=seed)


# --------------------------------------------------------------------------------------------------------------- layers
def test_scenes_are_taken_apart(layers: Layers) -> None:
    assert len(layers) == 12
    assert layers.scenery.shape == (12, SCENERY, SCENERY, 3)
    assert layers.crops.shape == (len(layers.figures), CROP, CROP, 3)
    assert [len(n) for n in layers.of_image] == [len(s.objects) for s in layers.scenes]
    for number, of_one in enumerate(layers.of_image):
        assert [layers.figures[i].label for i in of_one] == [o.label for o in layers.scenes[number].objects]
        assert all(layers.figures[i].image == number for i in of_one)


def test_a_cut_out_object_fills_its_square_but_for_the_margin(layers: Layers) -> None:
    for number in range(len(layers.figures)):
        ys, xs = np.nonzero(layers.parts[number] == OWN)
        longer = max(np.ptp(xs), np.ptp(ys)) + 1
        assert abs(longer - CROP / MARGIN) < 0.08 * CROP
        assert abs((xs.min() + xs.max() + 1) / 2 - CROP / 2) < 0.05 * CROP
        assert abs((ys.min() + ys.max() + 1) / 2 - CROP / 2) < 0.05 * CROP


def test_the_object_hides_the_scenery_where_it_is(layers: Layers) -> None:
    for figure in layers.figures:
        near = layers.hidden[figure.image]
        ys, xs = np.nonzero(near)
        assert xs.min() / SCENERY <= figure.x <= xs.max() / SCENERY
        assert ys.min() / SCENERY <= figure.y <= ys.max() / SCENERY
    assert 0.02 < layers.hidden.mean() < 0.6


def test_what_lies_beyond_the_frame_is_no_part_of_the_scenery(layers: Layers) -> None:
    for number, figure in enumerate(layers.figures):
        left = figure.x - figure.side * MARGIN / 2
        if left < -0.05:  # the square reaches out of the image
            assert (layers.parts[number][:, 0] != SIDE_TABLES).all()
            return
    pytest.fail("no square of the fixture reaches out of its image")


def test_other_objects_are_told_apart(layers: Layers) -> None:
    assert set(np.unique(layers.parts)) == {SIDE_TABLES, OWN, OTHER}


def test_layers_are_cut_once(scenes: Path, tmp_path: Path) -> None:
    collected: list[str] = []
    first = load_layers([scenes], tmp_path, log=collected.append)
    second = load_layers([scenes], tmp_path, log=collected.append)
    assert len(collected) == 1
    assert (first.crops == second.crops).all()


def test_some_of_the_scenes_can_be_chosen(scenes: Path, layers: Layers, tmp_path: Path) -> None:
    some = load_layers([scenes], tmp_path, choose=lambda scenes: [s for s in scenes if s.skill == "spatial"])
    wanted = [i for i, s in enumerate(layers.scenes) if s.skill == "spatial"]
    assert [s.scene_id for s in some.scenes] == [layers.scenes[i].scene_id for i in wanted]
    assert (some.scenery == layers.scenery[wanted]).all()
    assert (some.crops == layers.crops[[f for i in wanted for f in layers.of_image[i]]]).all()
    assert all(f.image == i for i, entry in enumerate(some.of_image) for f in [some.figures[k] for k in entry])


def test_a_missing_mask_is_named(scenes: Path, layers: Layers, tmp_path: Path) -> None:
    scene = layers.scenes[0]
    path = mask_path(scenes, scene.skill, scene.scene_id)
    hidden = path.rename(path.with_suffix(".away"))
    try:
        with pytest.raises(UsageError, match=r"1 of 24 images and masks are missing.*--masks"):
            load_layers([scenes], tmp_path)
    finally:
        hidden.rename(path)


# ------------------------------------------------------------------------------------------------------------- networks
def test_codes_and_their_numbers_are_one_to_one() -> None:
    codes = torch.arange(64).reshape(16, 4)
    assert (to_codes(from_codes(codes)) == codes).all()
    assert from_codes(torch.tensor([[0, 63]])).tolist() == [[-1.0, -1.0, 1.0, 1.0]]


def test_quantised_numbers_are_whole_steps_and_pass_gradients() -> None:
    z = torch.randn(5, 8, requires_grad=True)
    q = quantise(z)
    assert torch.allclose(q, from_codes(to_codes(q)), atol=1e-6)
    q.square().sum().backward()
    assert z.grad is not None
    assert (z.grad != 0).any()
    # However large, numbers are never all at the ends: they are scaled first.
    assert torch.allclose(quantise(z * 1000), q, atol=1e-6)


def test_one_step_at_a_time_says_the_same_as_all_at_once() -> None:
    torch.manual_seed(0)
    writer = Writer(torch.rand(20, 3), length=7, width=16, layers=2, heads=2).eval()
    tokens = torch.randint(0, 20, (3, 7))
    memory = torch.zeros(2, 2, 3, 2, 7, 8)
    step = WriterStep(writer).eval()
    with torch.inference_mode():
        at_once = writer(tokens)
        for position in range(7):
            logits, memory = step(tokens[:, position], torch.tensor([position]), memory)
            assert torch.allclose(logits, at_once[:, position], atol=1e-5)


def test_tokens_of_near_numbers_are_alike() -> None:
    features = writing.token_features(LANGUAGE)
    low, high = LANGUAGE.span("x")
    of_x = features[low:high]
    apart = np.linalg.norm(of_x - of_x[40], axis=1)
    assert apart[41] < min(apart[50], apart[90])
    # What says a place across says nothing of a place down.
    other = features[slice(*LANGUAGE.span("y"))]
    assert (of_x * other).any() == np.False_
    assert not features[slice(*LANGUAGE.span("label"))].any()
    assert len(np.unique(features[slice(*LANGUAGE.span("look_1"))], axis=0)) == 64


def test_a_neighbour_is_nearly_right_and_another_kind_never() -> None:
    expected = writing._nearly_right(LANGUAGE)
    assert np.allclose(expected.sum(axis=1), 1, atol=1e-6)
    low, high = LANGUAGE.span("y")
    row = expected[low + 30]
    assert row.argmax() == low + 30
    assert row[low + 29] == pytest.approx(row[low + 30] * np.exp(-0.5), rel=1e-4)
    assert row[low:high].sum() == pytest.approx(1)
    label = LANGUAGE.span("label")[0]
    assert expected[label, label] == 1
    # Code 9 has the levels (1, 1): 1, 8, 10 and 17 are one step beside it, 18 is two.
    codes = expected[LANGUAGE.span("scenery")[0] + 9][slice(*LANGUAGE.span("scenery"))]
    assert set(np.argsort(-codes)[1:5]) == {1, 8, 10, 17}
    assert codes[18] < codes[10]


def test_objects_are_moved_together_and_stay_inside() -> None:
    dogs = tuple(Placed(label="dog", x=x, y=0.5, side=0.2, codes=(1, 2)) for x in (0.3, 0.7))
    row = LANGUAGE.read("a dog")[0] + LANGUAGE.write(Description(background="b", codes=(1, 2), objects=dogs))
    row += [0] * (LANGUAGE.length - len(row))
    before = LANGUAGE.understand(row[LANGUAGE.text_length :])
    seen = set()
    for seed in range(60):
        moved = writing._moved(row, LANGUAGE, np.random.default_rng(seed))
        after = LANGUAGE.understand(moved[LANGUAGE.text_length :])
        by = [b.x - a.x for a, b in zip(before.objects, after.objects, strict=True)]
        assert by[0] == pytest.approx(by[1])
        assert all(0.09 <= o.x <= 0.91 for o in after.objects)
        assert [replace(o, x=0) for o in after.objects] == [replace(o, x=0) for o in before.objects]
        seen.add(round(by[0], 3))
    assert min(seen) < -0.1
    assert max(seen) > 0.1
    nothing = LANGUAGE.read("a")[0] + LANGUAGE.write(Description(background="b", codes=(1, 2), objects=()))
    assert writing._moved(nothing, LANGUAGE, np.random.default_rng(0)) == nothing


def test_decoders_give_squares_of_the_right_size() -> None:
    with torch.inference_mode():
        figure = FigureCoder(3)(torch.zeros(2, FIGURE_CODES, dtype=torch.long), torch.tensor([0, 2]), torch.ones(2))
        scenery = SceneryCoder(4)(torch.zeros(2, 32, dtype=torch.long), torch.tensor([0, 3]))
    assert figure.shape == (2, CROP, CROP, 5)
    assert scenery.shape == (2, SCENERY, SCENERY, 3)
    assert 0 <= float(figure.min()) <= float(figure.max()) <= 1


# ------------------------------------------------------------------------------------------------------------- training
LINE = {"batch_size": 4, "lr": 0.05, "lr_warmup_steps": 200, "beta2": 0.98, "max_grad_norm": 1.0, "log_every_s": 0.0}


def line(
    steps: int, checkpoint: Path, *, seed: int = 0, workers: int = 1, validate: Any = None, **options: Any
) -> list[Mapping[str, Any]]:
    """Fit y = 2 x by gradient steps; returns the log."""
    log: list[Mapping[str, Any]] = []
    torch.manual_seed(0)
    network = torch.nn.Linear(1, 1)

    def loss(net: Any, numbers: np.ndarray, rng: np.random.Generator, done: float) -> Mapping[str, torch.Tensor]:
        assert 0 <= done < 1
        x = torch.tensor(numbers / 10, dtype=torch.float32)[:, None] + float(rng.normal()) * 0.01
        return {"square": (net(x) - 2 * x).square().mean()}

    config = NetworkConfig(steps=steps, seed=seed, workers=workers, device="cpu", **(LINE | options))
    hooks = Hooks(log=log.append, validate=validate)
    settings = {"kind": "line", "seed": seed}
    fit(NetworkLearner("line", network, loss, 10, config), config, hooks, checkpoint=checkpoint, settings=settings)
    return log


def test_the_loss_falls(tmp_path: Path) -> None:
    log = [entry for entry in line(100, tmp_path / "c.safetensors") if entry["event"] == "train"]
    assert log[-1]["loss"] < 0.2 * log[0]["loss"]
    assert [entry["step"] for entry in log] == list(range(1, 101))


def test_a_stopped_training_ends_as_if_it_had_not_been_stopped(tmp_path: Path) -> None:
    full, halves = tmp_path / "whole.safetensors", tmp_path / "halves.safetensors"
    line(40, full)
    seen = 0

    def stop() -> Mapping[str, float]:
        nonlocal seen
        seen += 1
        if seen == 17:
            signal.raise_signal(signal.SIGINT)  # as Ctrl-C does
        return {}

    with pytest.raises(KeyboardInterrupt):
        line(40, halves, validate=stop, validate_every_s=0.0)
    assert read_header(halves, "line").step == 17
    line(40, halves)
    for name, value in averaged_weights(full).items():
        assert torch.allclose(value, averaged_weights(halves)[name], atol=1e-6), name


def test_two_workers_learn_what_one_does(tmp_path: Path) -> None:
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    line(200, one)
    line(200, two, workers=2)
    assert torch.allclose(averaged_weights(one)["weight"], averaged_weights(two)["weight"], atol=0.1)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    line(3, tmp_path / "c.safetensors")
    with pytest.raises(UsageError, match="seed was 0, and is 5 now"):
        line(3, tmp_path / "c.safetensors", seed=5)


def test_checkpoint_of_version_0_1_goes_on_as_before(tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    halves = tmp_path / "halves.safetensors"
    line(5, halves, lr_schedule="constant")
    # As it was written: weights under `network.`, the optimizer's tensors by index, no kind, and `seconds`.
    with safe_open(halves, framework="pt") as file:
        header = file.metadata()
    index = {"weight": "0", "bias": "1"}  # weights are decayed, and come first
    old = {}
    for name, value in load_file(halves).items():
        part, _, rest = name.partition(".")
        key, _, parameter = rest.partition(".")
        new = {"weights": f"network.{rest}", "optimizer": f"optimizer.{index.get(parameter)}.{key}"}
        old[new.get(part, name)] = value
    meta = {"settings": header["settings"], "step": header["step"], "seconds": header["elapsed_s"]}
    save_file(old, tmp_path / "old.safetensors", metadata=meta)
    for path in (halves, tmp_path / "old.safetensors"):
        log = line(8, path, lr_schedule="constant")
        assert log[0]["step"] == 5
    new, resumed = load_file(halves), load_file(tmp_path / "old.safetensors")
    assert new.keys() == resumed.keys()
    assert all(torch.equal(new[name], resumed[name]) for name in new)


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    with pytest.raises(UsageError, match="no checkpoint"):
        read_header(tmp_path / "none.safetensors", "line")
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(UsageError, match="not a checkpoint"):
        read_header(tmp_path / "other.safetensors", "line")


def test_a_loss_that_stays_infinite_ends_the_training(tmp_path: Path) -> None:
    network = torch.nn.Linear(1, 1)

    def loss(net: Any, numbers: np.ndarray, *_: Any) -> Mapping[str, torch.Tensor]:
        return {"bad": net(torch.full((len(numbers), 1), float("inf"))).sum()}

    config = NetworkConfig(steps=100, workers=1, **(LINE | {"batch_size": 2}))
    with pytest.raises(VerismError, match="not finite for 20 steps"):
        fit(NetworkLearner("line", network, loss, 4, config), config, Hooks(), checkpoint=tmp_path / "c", settings={})


def test_share_done_is_the_larger_of_steps_and_time() -> None:
    with pytest.raises(UsageError, match="how long"):
        AutoencoderConfig().check_length()
    both = AutoencoderConfig(steps=10, minutes=100 / 60)
    assert both.share_done(5, 20) == 0.5
    assert both.share_done(5, 80) == pytest.approx(0.8)
    assert AutoencoderConfig(steps=10).share_done(12, 0) == 1


# ----------------------------------------------------------------------------------------------------------- end to end
def test_descriptions_tell_the_scene(layers: Layers, trained: tuple[Path, dict[str, Any]]) -> None:
    described = describe_images(layers, trained[0] / AUTOENCODERS, batch_size=5)
    for scene, descriptions in zip(layers.scenes, described, strict=True):
        turnable = all(o.label != "stop sign" for o in scene.objects)
        assert len(descriptions) == 1 + turnable
        for description in descriptions:
            assert description.background == scene.background
            assert [o.label for o in description.objects] == [o.label for o in scene.objects]
        if turnable:
            for was, now in zip(descriptions[0].objects, descriptions[1].objects, strict=True):
                assert now.x == pytest.approx(1 - was.x)
                assert (now.y, now.side) == (was.y, was.side)
    # Batches do not matter.
    again = describe_images(layers, trained[0] / AUTOENCODERS, batch_size=64)
    assert [[d.background for d in one] for one in again] == [[d.background for d in one] for one in described]


def test_left_of_in_the_mirror_is_right_of(layers: Layers, trained: tuple[Path, dict[str, Any]]) -> None:
    described = describe_images(layers, trained[0] / AUTOENCODERS)
    checked = 0
    for scene, descriptions in zip(layers.scenes, described, strict=True):
        relation = next((o.relation for o in scene.objects if o.relation), None)
        if relation in ("left_0", "right_0"):
            for text, description in zip((scene.text, mirrored_text(scene.text)), descriptions, strict=False):
                first, second = description.objects
                assert ("left to" in text) == (second.x < first.x)
                checked += 1
    assert checked >= 2


def test_the_model_is_written_with_its_card(trained: tuple[Path, dict[str, Any]]) -> None:
    out, card = trained
    assert sorted(p.name for p in (out / "model").iterdir()) == sorted(FILES)
    assert card["pictures"] == 12
    assert card["bytes"] == sum((out / "model" / f).stat().st_size for f in FILES) < 80e6
    model = BuiltinGenerator(out / "model")
    assert model.card["autoencoder_steps"] == model.card["writer_steps"] == 3
    assert model.card["pictures_by_skill"] == {"count": 4, "object": 4, "spatial": 4}
    parts = [json.loads(entry)["part"] for entry in (out / training.LOG).read_text().splitlines()]
    assert set(parts) == {"autoencoders", "writer"}


def test_the_model_is_evaluated_and_has_a_name_for_other_runs(
    trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out, card = trained
    assert card["name"] == f"builtin:{out / 'model'}"
    manifest = json.loads((out / "evaluation" / "manifest.json").read_text())
    assert manifest["generator"]["card"]["pictures"] == 12
    done = verism("run", "paintskills", "--model", card["name"], "--limit", 3, "--out", tmp_path / "again")
    assert done.exit_code == 0, done.output


def test_exported_networks_say_what_the_trained_ones_do(trained: tuple[Path, dict[str, Any]]) -> None:
    import onnxruntime as ort

    out, _ = trained
    _, coders = load_autoencoders(out / AUTOENCODERS)
    with torch.no_grad():
        for weight in coders.parameters():  # as the file keeps them
            weight.copy_(weight.half().float() if weight.numel() >= 1_024 else weight)
    codes = torch.randint(0, 64, (3, FIGURE_CODES))
    labels, sides = torch.tensor([0, 1, 2]), torch.tensor([0.2, 0.3, 0.5])
    with torch.inference_mode():
        expected = coders["figures"](codes, labels, sides).numpy()
    session = ort.InferenceSession(str(out / "model" / "figures.onnx"))
    (result,) = session.run(None, {"codes": codes.numpy(), "labels": labels.numpy(), "sides": sides.numpy()})
    assert np.abs(result - expected).max() < 1e-4


def test_a_trained_model_draws_images(layers: Layers, trained: tuple[Path, dict[str, Any]]) -> None:
    model = BuiltinGenerator(trained[0] / "model", size=64)
    known = layers.scenes[0].text
    results = list(model.generate([request(known, 1), request(f"{known} and a unicorn", 2, "q")]))
    assert [r.state for r in results] == ["ok", "ok"]
    assert all(r.pixels is not None and r.pixels.shape == (64, 64, 3) for r in results)
    assert results[0].note == ""
    assert "unicorn" in results[1].note
    assert MOST_OBJECTS == 4


@pytest.mark.usefixtures("float32")
def test_training_goes_on_with_a_larger_budget(
    layers: Layers, trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    shutil.copytree(trained[0], tmp_path, dirs_exist_ok=True)
    before = averaged_weights(tmp_path / AUTOENCODERS)["figures.head.weight"]
    train_autoencoders(layers, AutoencoderConfig(steps=4, **CODERS), out=tmp_path)
    train_writer(layers, WriterConfig(steps=4, **WRITERS), out=tmp_path)
    for name, kind in ((AUTOENCODERS, KIND), (WRITER, "writer")):
        assert read_header(tmp_path / name, kind).step == 4
    assert (averaged_weights(tmp_path / AUTOENCODERS)["figures.head.weight"] != before).any()


def test_a_share_of_the_scenes_is_even_and_nested(layers: Layers) -> None:
    half = training.chosen_scenes(layers.scenes, SceneChoice(fraction=0.5))
    assert Counter(s.skill for s in half) == {"count": 2, "object": 2, "spatial": 2}
    quarter = training.chosen_scenes(layers.scenes, SceneChoice(fraction=0.25))
    assert {s.scene_id for s in quarter} < {s.scene_id for s in half}
    assert {s.skill for s in training.chosen_scenes(layers.scenes, SceneChoice(skills=("count",)))} == {"count"}
    assert len(training.chosen_scenes(layers.scenes, SceneChoice())) == 12


def test_a_budget_must_be_given(scenes: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--steps or --minutes"):
        training.train_and_export([scenes], tmp_path, GeneratorConfig())
