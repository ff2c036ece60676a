"""Image classifiers as judges of one question: tiny ViTs of random weights against plain calls."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from commands import verism  # noqa: E402
from PIL import Image  # noqa: E402
from tiny_vision_language import enliven  # noqa: E402

from verism import api  # noqa: E402
from verism.errors import UsageError  # noqa: E402
from verism.judges.hub import HubOptions  # noqa: E402
from verism.judges.vqa.image_classifier import ImageClassifier  # noqa: E402
from verism.pipeline.stream import check_rows  # noqa: E402
from verism.records import AnswerNeed, LoadedImage, Question  # noqa: E402

HUB = HubOptions(device="cpu", local_files_only=True, batch_size=2)
LABELS = ("harmless", "hate", "violence")
NEED = AnswerNeed(questions={"p": (Question(text="unsafe?"),)})


def tiny_vit(folder, problem_type=None):
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8,
        id2label=dict(enumerate(LABELS)), label2id={name: n for n, name in enumerate(LABELS)},
        problem_type=problem_type,
    )  # fmt: skip
    enliven(transformers.ViTForImageClassification(config)).save_pretrained(folder)
    transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=[None, "multi_label_classification"], ids=["exclusive", "several"])
def checkpoint(request, tmp_path_factory):
    return tiny_vit(tmp_path_factory.mktemp("vit"), request.param), request.param


def image(name, height=40, width=60, seed=0, prompt="p"):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(image_id=name, prompt_id=prompt, pixels=pixels)


IMAGES = [image("a"), image("b", 60, 30, 1), image("c", 40, 60, 2)]


def by_hand(folder, pixels):
    """Probabilities of the labels by a plain call: softmax or sigmoid of the logits."""
    model = transformers.ViTForImageClassification.from_pretrained(folder).eval()
    shown = Image.fromarray(pixels).resize((32, 32), Image.Resampling.BILINEAR)
    values = (np.asarray(shown, dtype=np.float64) / 255 - 0.5) / 0.5
    with torch.inference_mode():
        logits = model(pixel_values=torch.tensor(values.transpose(2, 0, 1)[None], dtype=torch.float32)).logits[0]
    return logits.double()


def test_probabilities_are_those_of_the_labels(checkpoint):
    folder, problem = checkpoint
    judge = ImageClassifier(str(folder), yes="violence|hate", hub=HUB)
    table = judge.observe(IMAGES, NEED)
    check_rows(table, judge.name, NEED, [each.image_id for each in IMAGES])
    for shown, probability in zip(IMAGES, table["probability"], strict=True):
        logits = by_hand(folder, shown.pixels)
        # Of labels that exclude each other the sum, of others the largest.
        expected = logits.softmax(-1)[[1, 2]].sum() if problem is None else logits.sigmoid()[[1, 2]].max()
        assert probability == pytest.approx(float(expected), abs=1e-5)
    assert table["answer"].to_list() == ["yes" if p >= 0.5 else "no" for p in table["probability"]]
    assert len(set(table["probability"])) == 3


def test_the_threshold_decides_and_stands_in_the_name(checkpoint):
    folder, _ = checkpoint
    first = ImageClassifier(str(folder), yes="hate", hub=HUB)
    middle = sorted(first.observe(IMAGES, NEED)["probability"])[1]
    judge = ImageClassifier(str(folder), yes="hate", threshold=middle, hub=HUB)
    assert sorted(judge.observe(IMAGES, NEED)["answer"]) == ["no", "yes", "yes"]  # from the threshold on
    assert "yes=hate" in judge.name
    assert f"threshold={middle:g}" in judge.name
    assert judge.name != first.name


def test_an_image_about_which_nothing_is_asked(checkpoint):
    judge = ImageClassifier(str(checkpoint[0]), yes="hate", hub=HUB)
    images = [IMAGES[0], image("z", prompt="other")]
    table = judge.observe(images, NEED)
    assert table["question"].to_list() == ["unsafe?", None]
    assert table["answer"][1] is None


def test_numbers_that_are_none_are_no_answers(tmp_path):
    folder = tiny_vit(tmp_path / "broken")
    model = transformers.ViTForImageClassification.from_pretrained(folder)
    model.classifier.bias.data[:] = float("nan")
    model.save_pretrained(folder)
    (row,) = ImageClassifier(str(folder), yes="hate", hub=HUB).observe(IMAGES[:1], NEED).iter_rows(named=True)
    assert (row["answer"], row["value"], row["probability"]) == (None, None, None)
    assert row["note"] == "the network gives no number"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, r"needs the labels that mean yes.*it has harmless, hate, violence"),
        ({"yes": "violense"}, r"no label 'violense'.*Did you mean violence"),
        ({"yes": "hate", "threshold": 1.5}, "threshold must be"),
    ],
)
def test_wrong_options_are_named(checkpoint, options, match):
    with pytest.raises(UsageError, match=match):
        ImageClassifier(str(checkpoint[0]), hub=HUB, **options)


def test_models_and_needs_that_do_not_fit_are_refused(checkpoint, tmp_path):
    text_only = tmp_path / "bert"
    transformers.BertConfig().save_pretrained(text_only)
    with pytest.raises(UsageError, match="'bert', which does not classify images"):
        ImageClassifier(str(text_only), yes="hate", hub=HUB)
    judge = ImageClassifier(str(checkpoint[0]), yes="hate", hub=HUB)
    two = AnswerNeed(questions={"p": (Question(text="a cat?"), Question(text="a dog?"))})
    with pytest.raises(UsageError, match="one answer to whatever is asked, and here are 2 questions"):
        judge.check(two)
    with pytest.raises(UsageError, match="answers yes or no; 'which\\?' has the choices red, blue"):
        judge.check(AnswerNeed(questions={"p": (Question(text="which?", choices=("red", "blue")),)}))


def test_unsafe_content_by_a_classifier(tmp_path):
    folder = tiny_vit(tmp_path / "vit")
    prompts = tmp_path / "p.csv"
    prompts.write_text("prompt,categories\na quiet harbour,shocking\nan old house,violence\n", encoding="utf-8")
    images = tmp_path / "images"
    images.mkdir()
    for n in range(2):
        for k in range(2):
            Image.fromarray(image("x", seed=2 * n + k).pixels).save(images / f"{n:05d}_{k}.png")
    words = ("--prompts", prompts, "--own", "true", "--images", images, "--out", tmp_path / "run")
    done = verism("run", "unsafe_content", *words, "--vqa", f"classifier:{folder}?yes=hate|violence&device=cpu")
    assert done.exit_code == 0, done.output
    run = api.open_run(tmp_path / "run")
    table = run.read("answers", run.judge("vqa"))
    unsafe = {s.metric: s for s in run.scores() if not s.group}["unsafe_share"]
    assert unsafe.value == pytest.approx(np.mean([p >= 0.5 for p in table["probability"]]))
    assert (unsafe.n_used, unsafe.n_unusable) == (4, 0)
    best = {s.metric: s for s in run.scores() if s.group.get("drawn") == 2}["expected_maximum"]
    by_prompt = [max(table["probability"][:2]), max(table["probability"][2:])]
    assert best.value == pytest.approx(np.mean(by_prompt))
    assert "classifier:" in json.dumps(run.manifest.scoring.judges)
