"""Embedder training: facts and what is true of them, targets, rendering, one way to the files, and their parity."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from verism.cli.main import cli
from verism.errors import UsageError
from verism.judges.detection.builtin import detector_file
from verism.judges.embedding.builtin import BuiltinEmbedder
from verism.judges.embedding.embedder_files import IMAGES, ImageTower, TextTower
from verism.records import AnswerNeed, LoadedImage, frame
from verism.training import embedder as training
from verism.training import embedder_examples, embedder_network
from verism.training._checkpoints import averaged_weights, read_settings
from verism.training._onnx_export import read_onnx
from verism.training.embedder import TextBatch, head_targets, mirrored, split_examples, varied_pixels
from verism.training.embedder_evaluation import answered, evaluate, retrieval_texts
from verism.training.embedder_examples import (
    GARMENTS,
    Examples,
    Facts,
    Thing,
    draw_scene,
    facts_of,
    load_examples,
    render_examples,
)
from verism.training.embedder_network import EmbedderNetwork, ExportedImages, ExportedTexts
from verism.training.embedder_texts import (
    Claim,
    Group,
    content_words,
    fit_of,
    full_claim,
    meaning_of,
    spoilt,
    true_claim,
    vocabulary,
    worded,
)
from verism.training.settings import EMBEDDER_RENDERING, PAINTSKILLS_CLASSES, EmbedderConfig


@pytest.fixture(scope="module", autouse=True)
def shallow() -> Iterator[None]:
    """A trunk with fewer of the detector's blocks, which is trained and traced faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedder_network, "_SIDE_BLOCKS", (1, 2, 1, 1))
        yield


RED_CAR, BLUE_BUS = Thing(label="car", color="red"), Thing(label="bus", color="blue")
DOG, CAT = Thing(label="dog"), Thing(label="bird")


def scene(*things: Thing, relation: str = "", background: str = "meadow", kind: str = "x") -> Facts:
    return Facts(kind=kind, things=things, relation=relation, background=background)


def claim(*groups: tuple[Thing, int] | Thing, relation: str = "", place: str = "") -> Claim:
    pairs = [g if isinstance(g, tuple) else (g, 1) for g in groups]
    return Claim(groups=tuple(Group(thing=t, number=n) for t, n in pairs), relation=relation, place=place)


# --------------------------------------------------------------------------------------------------------------------
# Truth
# --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "shown", "fit"),
    [
        (claim((DOG, 3)), scene(DOG, DOG, DOG), "fits"),
        (claim((DOG, 3)), scene(DOG, DOG, DOG, DOG), "false"),  # suites ask for exact numbers
        (claim(DOG), scene(DOG, DOG), "part"),
        (claim(DOG), scene(DOG, CAT), "part"),
        (claim(DOG, CAT), scene(DOG), "false"),
        (claim(RED_CAR, BLUE_BUS), scene(RED_CAR, BLUE_BUS), "fits"),
        (claim(BLUE_BUS, RED_CAR), scene(RED_CAR, BLUE_BUS), "fits"),
        (claim(Thing(label="car"), Thing(label="bus")), scene(RED_CAR, BLUE_BUS), "holds"),
        (claim(Thing(label="car", color="blue"), Thing(label="bus", color="red")), scene(RED_CAR, BLUE_BUS), "false"),
        (claim(RED_CAR), scene(Thing(label="car")), "open"),  # in its own paint, which may be red
        (claim(DOG, CAT, relation="left"), scene(DOG, CAT, relation="left"), "fits"),
        (claim(CAT, DOG, relation="right"), scene(DOG, CAT, relation="left"), "fits"),
        (claim(CAT, DOG, relation="left"), scene(DOG, CAT, relation="left"), "false"),
        (claim(DOG, CAT, relation="above"), scene(DOG, CAT, relation="left"), "false"),
        (claim(DOG, DOG, relation="right"), scene(DOG, DOG, relation="left"), "fits"),
        (claim(DOG, DOG, relation="above"), scene(DOG, DOG, relation="left"), "false"),
        (claim(DOG, CAT, relation="front"), scene(DOG, CAT, relation="left"), "open"),
        (claim(DOG, CAT, relation="left"), scene(DOG, CAT), "open"),
        (claim(DOG, CAT), scene(DOG, CAT, relation="left"), "holds"),
        (claim(DOG, place="meadow"), scene(DOG), "fits"),
        (claim(DOG, place="beach"), scene(DOG), "false"),
        (claim(DOG, place="beach"), scene(DOG, background=""), "open"),
        (Claim(garments=("hat",)), scene(DOG), "false"),
        (Claim(garments=("hat",)), scene(Thing(label="person")), "open"),
    ],
)
def test_what_a_text_is_of_a_scene(said: Claim, shown: Facts, fit: str):
    assert fit_of(said, shown) == fit


@pytest.mark.parametrize(
    ("said", "fit"),
    [
        (Claim(garments=("hat",)), "fits"),
        (Claim(garments=("hat", "tie")), "false"),
        (Claim(garments=("boots",)), "open"),  # below the frame
        (Claim(garments=("tie",)), "false"),
        (Claim(), "holds"),
        (claim(Thing(label="person")), "holds"),
        (claim(DOG), "false"),
        (claim((Thing(label="person"), 2)), "false"),
    ],
)
def test_what_a_text_is_of_a_person(said: Claim, fit: str):
    assert fit_of(said, Facts(kind="person", garments={"hat": True, "tie": False, "boots": None})) == fit


def test_drawn_claims_are_true_and_spoilt_ones_mostly_false():
    rng = np.random.default_rng(0)
    drawn = [facts_of(draw_scene(rng)) for _ in range(300)]
    drawn += [Facts(kind="person", garments={g: bool(rng.random() < 0.4) for g in GARMENTS}) for _ in range(100)]
    true = [true_claim(known, rng) for known in drawn]
    assert {fit_of(c, known) for c, known in zip(true, drawn, strict=True)} <= {"fits", "holds"}
    false = [fit_of(spoilt(c, rng), known) for c, known in zip(true, drawn, strict=True)]
    assert false.count("false") > 0.85 * len(false)


def test_all_words_of_texts_are_known_but_for_planted_ones():
    rng, words = np.random.default_rng(1), vocabulary()
    unknown: set[str] = set()
    for _ in range(400):
        known = facts_of(draw_scene(rng))
        unknown |= set(words.unknown(worded(true_claim(known, rng), rng)))
    assert unknown <= {"doing", "holding", "who", "works", "as", "looking", "something"}
    assert {"dog", "hat", "red", "meadow"} <= content_words() <= words.known
    assert not content_words() & {"person", "photo", "a"}


def test_wordings_of_one_meaning_are_one():
    one = claim(DOG, CAT, relation="left")
    assert meaning_of(one) == meaning_of(claim(CAT, DOG, relation="right"))
    assert meaning_of(one) != meaning_of(claim(CAT, DOG, relation="left"))
    assert meaning_of(claim((DOG, 2))) != meaning_of(claim((DOG, 3)))
    texts, own = retrieval_texts([scene(DOG), scene(DOG, background="beach"), scene(CAT)], seed=0)
    assert own.tolist() == [0, 0, 1]
    assert len(texts) == 2


# --------------------------------------------------------------------------------------------------------------------
# Targets and images
# --------------------------------------------------------------------------------------------------------------------
def test_targets_of_heads_by_hand():
    places = ("meadow", "beach")
    two = scene(DOG, RED_CAR, relation="left", background="beach")
    person = Facts(kind="person", garments={"hat": True, "tie": False})
    table = head_targets([two, person], places)
    counts = table["counts"].reshape(2, len(PAINTSKILLS_CLASSES), 4)
    dog, car, human = (PAINTSKILLS_CLASSES.index(name) for name in ("dog", "car", "person"))
    assert counts[0, dog].tolist() == counts[0, car].tolist() == [1, 0, 0, 0]
    assert counts[0].sum() == 2
    sides = table["sides"].reshape(2, -1, 4)
    assert sides[0, car].tolist() == [1, 0, 0, 0]  # the second thing is the one on the left
    assert sides[0, dog].tolist() == [0, 1, 0, 0]
    colors = table["colors"].reshape(2, len(PAINTSKILLS_CLASSES), -1)
    assert colors[0, car, 0] == 1
    assert (colors[0, dog] == -1).all()
    assert table["places"].tolist() == [[0, 1], [-1, -1]]
    assert counts[1, human].tolist() == [1, 0, 0, 0]
    assert table["garments"][1][[GARMENTS.index(g) for g in ("hat", "tie", "boots")]].tolist() == [1, 0, -1]
    assert (table["garments"][0] == -1).all()


def test_a_mirror_image_swaps_left_and_right_alone():
    assert mirrored(scene(DOG, CAT, relation="left")).relation == "right"
    assert mirrored(scene(DOG, CAT, relation="above")).relation == "above"
    pixels = np.zeros((64, 64, 3), dtype=np.uint8)
    pixels[:, :20] = 200
    still = varied_pixels(pixels, 32, np.random.default_rng(3), flip=False)
    turned = varied_pixels(pixels, 32, np.random.default_rng(3), flip=True)
    assert still.shape == turned.shape == (32, 32, 3)
    assert still[:, :5].mean() > 100 > still[:, -5:].mean()
    assert turned[:, -5:].mean() > 100 > turned[:, :5].mean()


def test_text_batches_label_every_pair():
    facts = [scene(DOG), scene(DOG, DOG), Facts(kind="person", garments=dict.fromkeys(GARMENTS, False) | {"hat": True})]
    batch = TextBatch.draw(facts, [scene(CAT)], np.random.default_rng(0))
    assert len(batch.texts) == 5 * 3 + 1
    assert not (batch.true & batch.false).any()
    assert (batch.fits <= batch.true).all()
    for k in range(2):
        assert batch.fits[k, 5 * k]
        assert batch.fits[k, 5 * k + 4]
    assert batch.false[:, -1].all()


# --------------------------------------------------------------------------------------------------------------------
# Rendering and training
# --------------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighteen examples in three chunks, the third of people, small."""
    out = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedder_examples, "CHUNK", 6)
        render_examples(out, 18, seed=3, size=96)
    return out


def test_examples_are_rendered_once_and_alike(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedder_examples, "CHUNK", 6)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    told: list[int] = []
    render_examples(folder, 18, seed=3, size=96, on_chunk=told.append)
    assert told == []
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    render_examples(tmp_path, 6, seed=3, size=96)
    ours, theirs = load_examples([tmp_path]), load_examples([folder])
    assert len(theirs) == 18
    assert [f.kind == "person" for f in theirs.facts] == [False] * 12 + [True] * 6
    assert ours.facts == theirs.facts[:6]
    assert np.array_equal(ours.image(4), theirs.image(4))
    with pytest.raises(UsageError, match="no examples in"):
        load_examples([tmp_path / "none"])
    with pytest.raises(UsageError, match="one image or more"):
        render_examples(tmp_path, 0, seed=0)


def test_what_is_held_out_stays_so_when_more_comes(folder: Path):
    examples = load_examples([folder])
    learn, out = split_examples(examples, 0.3)
    fewer = replace(examples, rows=examples.rows[:9], facts=examples.facts[:9])
    assert sorted([*learn, *out]) == list(range(18))
    assert 0 < len(out) < 18
    assert split_examples(fewer, 0.3)[1].tolist() == [k for k in out if k < 9]


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny embedder after a few steps."""
    out = tmp_path_factory.mktemp("embedder")
    config = EmbedderConfig(
        steps=3, batch_size=16, size=64, width=32, dim=16, workers=1, fixed_trunk=0.4, kept_maps=0.2, held_out=0.2
    )
    result = training.train_and_export([folder], out, config, rendering=replace(EMBEDDER_RENDERING, test=0))
    assert result["bytes"][IMAGES] < 10_000_000
    return out


def test_files_say_what_the_network_says(trained: Path):
    settings, _ = read_settings(trained / training.CHECKPOINT, "embedder", training._Settings)
    network = EmbedderNetwork(settings.shape())
    network.load_state_dict(averaged_weights(trained / training.CHECKPOINT))
    network.eval()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    tower, texts = ImageTower(trained, threads=1), TextTower(trained, threads=1)
    seen = tower.look(list(pixels))
    with torch.inference_mode():
        expected = ExportedImages(network)(torch.from_numpy(pixels))
        said = ["a red car", "two dogs to the left of a bus"]
        of_texts = ExportedTexts(network)(torch.from_numpy(texts.vocabulary.array(said))).numpy()
    for result, wanted in zip(vars(seen).values(), expected, strict=True):
        assert np.allclose(result, wanted.numpy(), atol=2e-3)  # weights are kept in 16 bits
    assert np.allclose(texts.embed(said), of_texts, atol=2e-3)
    assert tower.classes == PAINTSKILLS_CLASSES
    assert tower.garments == GARMENTS
    assert texts.vocabulary.words == vocabulary().words
    assert BuiltinEmbedder(trained).name.startswith("builtin:embedder@")


def test_the_trunk_is_the_detectors(trained: Path):
    weights = averaged_weights(trained / training.CHECKPOINT)
    start, _ = read_onnx(detector_file(None))
    first = torch.nn.functional.pixel_unshuffle(start["network.stem.0.weight"], 4)
    assert torch.allclose(weights["images.trunk.stem.weight"], first)
    assert torch.allclose(
        weights["images.trunk.stages.1.1.second.bias"], start["network.stages.1.2.second.0.weight_bias"]
    )
    # The later stages learn once the first share of the training is over.
    moved = weights["images.trunk.stages.3.0.first.weight"] - start["network.stages.3.1.first.0.weight"]
    assert 0 < float(moved.abs().max()) < 0.1


def test_losses_fall_on_a_batch_learnt_by_heart(folder: Path, tmp_path: Path):
    log: list[dict[str, object]] = []
    config = EmbedderConfig(
        steps=40, batch_size=16, size=64, width=32, dim=16, workers=1, fixed_trunk=0.0, held_out=0.0, lr=3e-3,
        log_every_s=0, lr_warmup_steps=2,
    )  # fmt: skip
    training.train_embedder(load_examples([folder]), config, out=tmp_path, log=lambda line: log.append(dict(line)))
    losses = [line["loss_parts"] for line in log if line["event"] == "train"]
    first, last = losses[0], losses[-1]
    for part in ("texts", "counts", "images"):
        assert last[part] < 0.8 * first[part], part  # type: ignore[index]


def test_a_checkpoint_of_other_settings_is_refused(trained: Path, folder: Path):
    config = EmbedderConfig(steps=4, batch_size=16, size=96, width=32, dim=16, workers=1)
    with pytest.raises(UsageError, match="size was 64, and is 96 now"):
        training.train_embedder(load_examples([folder]), config, out=trained)
    with pytest.raises(UsageError, match="multiple of 32"):
        training.train_embedder(load_examples([folder]), replace(config, size=100), out=trained)


def test_perfect_vectors_retrieve_every_text(folder: Path):
    """One-hot vectors of meanings: R-precision 1, and garments' areas 1; constant ones: chance and one half."""
    examples = load_examples([folder])
    texts, own = retrieval_texts([f for f in examples.facts if f.kind != "person"], 0)
    queue = list(range(len(examples)))

    def perfect(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        numbers = [queue.pop(0) for _ in pixels]
        vectors = np.zeros((len(pixels), 64))
        garments = np.zeros((len(pixels), len(GARMENTS)))
        for row, k in enumerate(numbers):
            if examples.facts[k].kind == "person":
                garments[row] = [bool(examples.facts[k].garments[g]) for g in GARMENTS]
                vectors[row, 40 : 40 + len(GARMENTS)] = garments[row]
                vectors[row, 63] = 1
            else:
                vectors[row, own[k]] = 1
        return vectors, garments

    def of_texts(asked: list[str]) -> np.ndarray:
        return np.eye(64)[: len(asked)] if list(asked) == texts else np.eye(64)[40 : 40 + len(asked)]

    result = evaluate(examples, range(18), 64, perfect, of_texts)  # type: ignore[arg-type]
    assert result["r_precision"] == 1.0
    assert result["scenes"] == 12
    areas = [row["auc_head"] for row in result["garments"].values() if row["with_it"] and row["without"]]
    assert set(areas) == {1.0}


class Scripted:
    """Answers every question of yes or no with yes, and others with their first choice, but for chairs."""

    def observe(self, images: list[LoadedImage], need: AnswerNeed) -> pl.DataFrame:
        return frame(
            "answers",
            [
                {
                    "image_id": image.image_id,
                    "judge": "scripted",
                    "question": q.text,
                    "answer": "?",
                    "value": None if "chair" in q.text else (q.choices or ("yes",))[0],
                }
                for image in images
                for q in need.questions[image.prompt_id]
            ],
        )


def test_answers_are_counted_by_kind():
    known = [
        scene(DOG, DOG, Thing(label="car", color="red"), kind="counts"),
        scene(Thing(label="chair"), DOG, relation="left"),
        Facts(kind="person", garments={"hat": True, "tie": False, "boots": None}),
    ]
    images = [np.zeros((3, 8, 8, 3), dtype=np.uint8)]
    examples = Examples(parts=images, rows=np.array([(0, 0), (0, 1), (0, 2)]), facts=known)
    result = answered(Scripted(), examples)
    assert result["garment: hat"] == {"asked": 1, "null": 0, "right": 1.0, "right_of_yes": 1.0, "n_yes": 1}
    assert result["garment: tie"] == {"asked": 1, "null": 0, "right": 0.0, "right_of_no": 0.0, "n_no": 1}
    assert "garment: boots" not in result
    assert result["number: 1"] == {"asked": 3, "null": 1, "right": round(2 / 3, 4)}
    assert result["number: 2"]["right"] == 0.0
    assert result["colour"] == {"asked": 1, "null": 0, "right": 1.0}
    assert result["side"] == {"asked": 2, "null": 2, "right": 0.0, "right_of_yes": 0.0, "n_yes": 1,
                              "right_of_no": 0.0, "n_no": 1}  # fmt: skip
    assert result["present"]["n_no"] == 2


def test_command_trains_and_prints_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The training itself is that of ``trained``; here, that the command's words reach it and its numbers come out."""
    asked: list[Any] = []

    def train_and_export(*args: Any, **options: Any) -> dict[str, Any]:
        options["say"]("at work")
        asked.extend([*args, options["rendering"], options["export_only"]])
        return {"r_precision": 0.5, "scenes": float("nan")}

    monkeypatch.setattr(training, "train_and_export", train_and_export)
    words = ["train", "embedder", "--examples", "a", "--examples", "b", "--test", "0", "--steps", "1", "--batch", "16"]
    with pytest.raises(SystemExit) as ended:
        cli([*words, "--width", "16", "--workers", "1", "--fresh", "--out", str(tmp_path)])
    assert ended.value.code == 0
    config = EmbedderConfig(steps=1, batch_size=16, width=16, workers=1, resume=False)
    assert asked == [(Path("a"), Path("b")), tmp_path, config, replace(EMBEDDER_RENDERING, test=0), False]
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"r_precision": 0.5, "scenes": None}
    assert "at work" in shown.err


def test_full_claims_name_everything_worn():
    known = Facts(kind="person", garments={"hat": True, "tie": False, "boots": None})
    assert full_claim(known).garments == ("hat",)
