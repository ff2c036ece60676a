"""Captioners of the hub, on tiny models with random weights, and captions made elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_vision_language as tiny  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from verism.errors import MissingExtra, UsageError  # noqa: E402
from verism.judges.captions.results import CaptionResults  # noqa: E402
from verism.judges.captions.transformers_captioner import TransformersCaptioner  # noqa: E402
from verism.judges.result_files import ImageNames, number_in  # noqa: E402
from verism.options import build  # noqa: E402
from verism.records import CaptionNeed, LoadedImage, schema  # noqa: E402

NEED = CaptionNeed()
FAMILIES: dict[str, Callable[[Path], Path]] = {
    "blip": tiny.blip_captioner,
    "blip-2": tiny.blip2,
    "blip-2-t5": lambda folder: tiny.blip2(folder, encoder_decoder=True),
    "instructblip": tiny.instruct_blip,
    "git": tiny.git,
    "vision-encoder-decoder": tiny.vision_encoder_decoder,
    "llava": tiny.llava,
    "qwen2.5-vl": tiny.qwen2_5_vl,
}
# A beginning to go on with is repeated by these, in front of what they add.
REPEATING = ["blip", "blip-2", "git", "llava", "qwen2.5-vl"]


def image(name: str, height: int, width: int, seed: int = 0) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    pixels[: height // 2] = (seed * 37 % 256, 200, seed * 91 % 256)
    return LoadedImage(image_id=f"{name}#0", prompt_id=name, pixels=pixels)


IMAGES = [image("a", 40, 60, 1), image("b", 30, 30, 2), image("c", 64, 48, 3), image("d", 40, 60, 4)]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Folders of the families' models, each made once."""
    root = tmp_path_factory.mktemp("captioners")

    def folder(family: str) -> str:
        path = root / family
        if not path.exists():
            FAMILIES[family](path)
        return str(path)

    return folder


def captioner(path: str, **options: Any) -> TransformersCaptioner:
    settings: dict[str, Any] = {"device": "cpu", "max_new_tokens": 6, "local_files_only": True}
    made: TransformersCaptioner = build(TransformersCaptioner, path, settings | options)
    return made


@pytest.mark.parametrize("family", FAMILIES)
def test_one_sentence_per_image_whatever_the_batch(family: str, models: Callable[[str], str]):
    single = captioner(models(family), batch_size=1).observe(IMAGES, NEED)
    batched = captioner(models(family), batch_size=3).observe(IMAGES, NEED)
    again = captioner(models(family), batch_size=3).observe(IMAGES[::-1], NEED)
    assert dict(single.schema) == schema("captions")
    assert single["image_id"].to_list() == [p.image_id for p in IMAGES]
    assert single.equals(batched)
    assert again["text"].to_list() == batched["text"].to_list()[::-1]
    assert single["text"].null_count() == 0 or single.filter(single["text"].is_null())["note"].null_count() == 0


@pytest.mark.parametrize("family", ["blip", "git", "vision-encoder-decoder"])
def test_agrees_with_the_model_called_by_hand(family: str, models: Callable[[str], str]):
    """One image, no prompt, beam 5: the plain call of the library's manual."""
    path = models(family)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    loader = {
        "blip": transformers.BlipForConditionalGeneration,
        "git": transformers.GitForCausalLM,
        "vision-encoder-decoder": transformers.VisionEncoderDecoderModel,
    }[family]
    model = loader.from_pretrained(path).eval()
    from PIL import Image

    images = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
    result = captioner(path).observe(IMAGES, NEED)["text"].to_list()
    for shown, text in zip(IMAGES, result, strict=True):
        pixels = images(images=[Image.fromarray(shown.pixels)], return_tensors="pt")["pixel_values"]
        tokens = model.generate(pixel_values=pixels, num_beams=5, max_new_tokens=6, do_sample=False)
        assert text == tokenizer.decode(tokens[0], skip_special_tokens=True).strip()
    assert len(set(result)) > 1  # or the images would not matter


@pytest.mark.parametrize("family", REPEATING)
def test_the_prompt_is_not_part_of_the_caption(family: str, models: Callable[[str], str]):
    judge = captioner(models(family), prompt="a photo of", beams=1)
    written: list[str] = []
    generate = judge._model._model.generate

    def spied(**options: Any) -> Any:
        output = generate(**options)
        written.extend(judge._model._tokenizer.batch_decode(output.sequences, skip_special_tokens=True))
        return output

    judge._model._model.generate = spied
    result = judge.observe(IMAGES[:1], NEED)["text"].to_list()
    # The model's own output has both; ours has what comes behind the prompt.
    assert "a photo of" in written[0]
    after = written[0].split("a photo of", 1)[1].split("ASSISTANT :")[-1].strip()
    assert result == [after]


def test_a_prompt_changes_the_caption_and_the_name(models: Callable[[str], str]):
    plain, asked = captioner(models("blip")), captioner(models("blip"), prompt="a photo of")
    assert plain.observe(IMAGES, NEED)["text"].to_list() != asked.observe(IMAGES, NEED)["text"].to_list()
    assert "prompt='a photo of'" in asked.name
    assert plain.name != asked.name


def test_the_name_tells_weights_and_settings_but_not_speed(models: Callable[[str], str]):
    name = captioner(models("blip"), batch_size=2).name
    assert name.startswith("transformers:blip@")
    assert name.endswith(" beams=5 max_new_tokens=6")
    assert captioner(models("blip"), batch_size=5).name == name
    assert captioner(models("blip"), beams=2).name != name
    assert captioner(models("blip"), dtype="bfloat16").name == f"{name} dtype=bfloat16"


def test_a_silent_captioner_is_noted(models: Callable[[str], str], monkeypatch: pytest.MonkeyPatch):
    judge = captioner(models("blip"))
    monkeypatch.setattr(judge._model._tokenizer, "decode", lambda *_, **__: "  ")
    table = judge.observe(IMAGES[:2], NEED)
    assert table["text"].to_list() == [None, None]
    assert table["note"].to_list() == ["the captioner wrote nothing"] * 2


def test_batches_are_halved_when_memory_runs_out(models: Callable[[str], str]):
    judge = captioner(models("blip"), batch_size=4)
    expected = judge.observe(IMAGES, NEED)
    generate, sizes = judge._model._model.generate, []

    def small(**options: Any) -> Any:
        sizes.append(len(options["pixel_values"]))
        if sizes[-1] > 1:
            raise torch.OutOfMemoryError("no room")
        return generate(**options)

    judge._model._model.generate = small
    assert judge.observe(IMAGES, NEED).equals(expected)
    assert sizes[0] == 4
    assert sizes[-4:] == [1, 1, 1, 1]


def test_a_chat_model_without_template_needs_the_image_in_its_prompt(tmp_path: Path):
    path = str(tiny.llava(tmp_path / "bare", chat_template=None))
    with pytest.raises(UsageError, match="neither a chat template nor"):
        captioner(path, prompt="caption :").observe(IMAGES[:1], NEED)
    assert captioner(path, prompt="<image> caption :").observe(IMAGES[:1], NEED).height == 1


def test_incomplete_weights_are_refused(tmp_path: Path):
    path = tiny.blip_captioner(tmp_path / "blip")
    weights = load_file(path / "model.safetensors")
    lost = next(name for name in weights if "text_decoder" in name and "crossattention" in name)
    save_file({name: value for name, value in weights.items() if name != lost}, path / "model.safetensors")
    with pytest.raises(UsageError, match=r"incomplete: 1 missing.*Use a checkpoint trained as a captioner"):
        captioner(str(path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 0}, "beams must be at least 1, not 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"dtype": "int8"}, "option dtype='int8': expected one of float32, float16, bfloat16"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str, models: Callable[[str], str]):
    with pytest.raises(UsageError, match=message):
        captioner(models("blip"), **options)


def test_models_that_are_no_captioners_are_refused(models: Callable[[str], str], tmp_path: Path):
    with pytest.raises(UsageError, match="a BLIP that writes answers only: name it as --vqa"):
        captioner(str(tiny.blip_vqa(tmp_path / "vqa")))
    with pytest.raises(UsageError, match="reads no text; leave prompt='a photo of' out"):
        captioner(models("vision-encoder-decoder"), prompt="a photo of")
    transformers.BertConfig().save_pretrained(tmp_path / "bert")
    with pytest.raises(UsageError, match="type 'bert', which writes no text about images"):
        captioner(str(tmp_path / "bert"))
    with pytest.raises(UsageError, match="expected a repository of the Hugging Face hub, or a folder"):
        captioner(str(tmp_path / "nowhere"))


def test_missing_libraries_name_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"a captioner .* needs 'transformers'.*verism\[models\]"):
        TransformersCaptioner("any")


# ------------------------------------------------------------------------------------------------- made elsewhere
def results(path: Path, rows: Any) -> CaptionResults:
    path.write_text(json.dumps(rows), encoding="utf-8")
    return CaptionResults(path)


def named(prompt_id: str, index: int = 0) -> LoadedImage:
    return LoadedImage(image_id=f"{prompt_id}#{index}", prompt_id=prompt_id, pixels=np.zeros((2, 2, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("written", "prompt_id"),
    [
        pytest.param("a_7#0", "a_7", id="picture"),
        pytest.param("a_7", "a_7", id="prompt"),
        pytest.param("generated/a_7.png", "a_7", id="file"),
        pytest.param(391895, "COCO_val2014_000000391895", id="coco-number"),
        pytest.param("391895", "COCO_val2014_000000391895", id="number-as-text"),
        pytest.param("COCO_val2014_000000391895.jpg", "391895", id="coco-file"),
        pytest.param(391895, "391895_mscoco_3", id="uid"),
        pytest.param(9, "9_mscoco_123456", id="uid-with-a-short-id"),
    ],
)
def test_results_find_their_images(written: str | int, prompt_id: str, tmp_path: Path):
    judge = results(tmp_path / "r.json", [{"image_id": written, "caption": " a  dog\n"}])
    table = judge.observe([named(prompt_id)], NEED)
    assert dict(table.schema) == schema("captions")
    assert table["text"].to_list() == ["a dog"]
    assert table["note"].to_list() == [None]
    assert table["judge"].to_list() == [judge.name]
    assert judge.name.startswith("results:r.json@")
    assert judge.summary() == []


def test_images_without_a_caption_and_captions_without_an_image_are_counted(tmp_path: Path):
    # Two entries to spare, as the padding of a last batch leaves them; one caption is empty; one image has none.
    rows = [
        {"image_id": 1, "caption": "one"},
        {"image_id": 2, "caption": " "},
        {"image_id": 8, "caption": "x"},
        {"image_id": 9, "caption": "x"},
    ]
    judge = results(tmp_path / "r.json", rows)
    table = judge.observe([named("1"), named("2"), named("3")], NEED)
    assert table["text"].to_list() == ["one", None, None]
    assert table["note"].to_list() == [None, "the caption is empty", "r.json has no caption of this image"]
    assert judge.summary() == [
        "r.json: 2 of 4 captions belong to no image seen",
        "r.json: no caption for 1 images",
    ]


def test_a_prompts_caption_is_not_given_to_its_other_images(tmp_path: Path):
    judge = results(tmp_path / "r.json", [{"image_id": "7", "caption": "first"}, {"image_id": "8#1", "caption": "b"}])
    seen = judge.observe([named("7", 0), named("7", 1), named("8", 0), named("8", 1)], NEED)
    assert seen["text"].to_list() == ["first", None, None, "b"]


def test_a_number_that_fits_two_images_is_refused(tmp_path: Path):
    judge = results(tmp_path / "r.json", [{"image_id": 3, "caption": "x"}])
    with pytest.raises(UsageError, match=r"'3' fits two images of the run, count_00003#0 and object_00003#0"):
        judge.observe([named("count_00003"), named("object_00003")], NEED)


def test_names_that_share_a_number_tell_neither():
    names = ImageNames(["a_1", "b_1", "x/c.png", "y/c.jpg"])
    assert names.find(named("1")) is None
    assert names.find(named("c")) is None
    assert names.find(named("b_1")) == "b_1"


@pytest.mark.parametrize("written", ["de_016#0", "de_016", "out/de_016.png", "val_de_000391895", "391895#1"])
def test_the_id_of_another_image_does_not_fit_by_its_number(written):
    names = ImageNames([written])
    assert names.find(named("fr_016")) is None
    assert names.find(named("val_fr_000391895")) is None


def test_a_name_of_another_kind_fits_by_its_number():
    for written in ("391895#0", "391895_mscoco_3", "out/vl_t5_391895.png"):
        assert ImageNames([written]).find(named("COCO_val2014_000000391895")) == written


def test_the_number_in_a_name():
    assert number_in("COCO_val2014_000000000009") == 9
    assert number_in("sd21") is None  # behind letters: the name of a model
    assert number_in("a_12_34") is None  # two of equal length
    assert number_in("12_3456") == 3456


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"image_id": 1}, "entry 1: expected a caption in words"),
        ([1, 2], "entry 1: expected an object .*, not a number"),
        ([], "holds no captions"),
        ([{"caption": "x"}], "entry 1: expected image_id, which names the image"),
        ([{"image_id": 1.5, "caption": "x"}], "image_id must be a text or a whole number, got 1.5"),
        ([{"image_id": True, "caption": "x"}], "got True"),
        ([{"image_id": 1}], "entry 1: expected a caption in words for image_id 1, got None"),
        ([{"image_id": 1, "caption": "x"}, {"image_id": "1", "caption": "y"}], "entry 2: a second caption"),
    ],
)
def test_bad_results_are_refused(rows: Any, message: str, tmp_path: Path):
    with pytest.raises(UsageError, match=message):
        results(tmp_path / "r.json", rows)


def test_files_of_other_kinds(tmp_path: Path):
    (tmp_path / "r.csv").write_text('image_id,caption\n7,"a dog,\nasleep"\n', encoding="utf-8-sig")
    (tmp_path / "r.jsonl").write_text('{"image_id": 7, "caption": "a dog"}\n\n')
    assert CaptionResults(tmp_path / "r.csv").observe([named("7")], NEED)["text"].to_list() == ["a dog, asleep"]
    assert CaptionResults(tmp_path / "r.jsonl").observe([named("7")], NEED)["text"].to_list() == ["a dog"]


def test_names_of_one_kind_stand_for_their_own_image_alone():
    # A file with answers to half of the prompts: `man/0` has no row, and that of `woman/0` is not its own.
    def image(prompt_id: str) -> LoadedImage:
        return LoadedImage(image_id=f"{prompt_id}#0", prompt_id=prompt_id, pixels=np.zeros((1, 1, 3), np.uint8))

    for written in ("woman/0#0", "woman/0"):
        names = ImageNames([written])
        assert names.find(image("woman/0")) == written
        assert names.find(image("man/0")) is None
    names = ImageNames(["out/woman/0.png", "out/man/0.png"])
    assert [names.find(image(prompt)) for prompt in ("woman/0", "man/0", "boy/0")] == [
        "out/woman/0.png",
        "out/man/0.png",
        None,
    ]
