"""Models that answer questions, on tiny ones with random weights; what replies mean; and answers made elsewhere."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_vision_language as tiny  # noqa: E402
from PIL import Image  # noqa: E402

from verism.errors import MissingExtra, UsageError  # noqa: E402
from verism.judges.hub import HubOptions  # noqa: E402
from verism.judges.vqa.replies import is_yes_no, value_of  # noqa: E402
from verism.judges.vqa.results import AnswerResults  # noqa: E402
from verism.judges.vqa.transformers_vqa import TransformersVqa  # noqa: E402
from verism.options import build  # noqa: E402
from verism.records import AnswerNeed, LoadedImage, Question, schema  # noqa: E402

FAMILIES: dict[str, Callable[[Path], Path]] = {
    "blip": tiny.blip_vqa,
    "blip-2": tiny.blip2,
    "blip-2-t5": lambda folder: tiny.blip2(folder, encoder_decoder=True),
    "instructblip": tiny.instruct_blip,
    "git": tiny.git,
    "llava": tiny.llava,
    "qwen2-vl": tiny.qwen2_vl,
    "qwen2.5-vl": tiny.qwen2_5_vl,
    "qwen3-vl": tiny.qwen3_vl,
}
DOG = Question(text="is there a dog ?")
RED = Question(text="is there red ?")  # one word shorter
COLOR = Question(text="what color", choices=("red", "green dog", "blue"))


def image(name: str, height: int, width: int, seed: int) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    pixels[: height // 2] = (seed * 37 % 256, 200, seed * 91 % 256)
    return LoadedImage(image_id=f"{name}#0", prompt_id=name, pixels=pixels)


IMAGES = [image("a", 40, 60, 1), image("b", 30, 30, 2), image("c", 64, 48, 3), image("d", 40, 60, 4)]
NEED = AnswerNeed(questions={"a": (DOG, COLOR, RED), "b": (DOG,), "d": (COLOR, RED), "elsewhere": (DOG,)})


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Folders of the families' models, each made once."""
    root = tmp_path_factory.mktemp("vqa")

    def folder(family: str) -> str:
        path = root / family
        if not path.exists():
            FAMILIES[family](path)
        return str(path)

    return folder


def vqa(path: str, **options: Any) -> TransformersVqa:
    settings: dict[str, Any] = {"device": "cpu", "max_new_tokens": 4, "local_files_only": True}
    made: TransformersVqa = build(TransformersVqa, path, settings | options)
    return made


@pytest.mark.parametrize("family", FAMILIES)
def test_one_row_per_image_and_question_whatever_the_batch(family: str, models: Callable[[str], str]):
    single = vqa(models(family), batch_size=1, choose="likelihood").observe(IMAGES, NEED)
    batched = vqa(models(family), batch_size=5, choose="likelihood").observe(IMAGES, NEED)
    assert dict(single.schema) == schema("answers")
    assert list(zip(single["image_id"], single["question"], strict=True)) == [
        ("a#0", DOG.text),
        ("a#0", COLOR.text),
        ("a#0", RED.text),
        ("b#0", DOG.text),
        ("c#0", None),  # nothing is asked: the row that says it was looked at
        ("d#0", COLOR.text),
        ("d#0", RED.text),
    ]
    assert single.drop("probability").equals(batched.drop("probability"))
    np.testing.assert_allclose(
        single["probability"].drop_nulls(), batched["probability"].drop_nulls(), rtol=1e-5, atol=1e-9
    )
    of_yes = single.filter(single["question"].is_in([DOG.text, RED.text]))["probability"]
    assert of_yes.null_count() == 0
    assert ((of_yes > 0) & (of_yes < 1)).all()
    # Among three choices the most probable has a third at least.
    chosen = single.filter(single["question"] == COLOR.text)
    assert set(chosen["value"]) <= set(COLOR.choices)
    assert (chosen["probability"] >= 1 / 3).all()


@functools.cache
def loaded(kind: str, path: str) -> Any:
    """A model, processor or tokenizer of a class of transformers, read once."""
    made = getattr(transformers, kind).from_pretrained(path)
    return made.eval() if isinstance(made, torch.nn.Module) else made


def by_hand(family: str, path: str, text: str, pixels: np.ndarray, answer: tuple[int, ...] = ()) -> Any:
    """Logits after the prompt and after each token of an answer, by a single plain call; shape (len(answer) + 1, V)."""
    image = Image.fromarray(pixels)
    if family == "blip":
        model = loaded("BlipForQuestionAnswering", path)
        inputs = loaded("AutoProcessor", path)(images=image, text=text, return_tensors="pt")
        seen = model.vision_model(inputs["pixel_values"])[0]
        read = model.text_encoder(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], encoder_hidden_states=seen
        )[0]
        start = [model.config.text_config.bos_token_id, *answer]
        return model.text_decoder(input_ids=torch.tensor([start]), encoder_hidden_states=read).logits[0]
    model = loaded("AutoModelForImageTextToText", path)
    if family.startswith("qwen"):  # their own processors need torchvision: a place per 2 x 2 patches, by hand
        shown = loaded("Qwen2VLImageProcessorPil", path)(images=image, return_tensors="pt")
        places = int(shown["image_grid_thw"].prod()) // 4
        words = loaded("AutoTokenizer", path)
        ids = words(text.replace("<|image_pad|>", "<|image_pad|>" * places), return_tensors="pt")["input_ids"]
        ids = torch.cat([ids, torch.tensor([answer], dtype=torch.long)], dim=1)
        kinds = (ids == words.convert_tokens_to_ids("<|image_pad|>")).int()
        result = model(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=kinds, **shown)
        return result.logits[0][ids.shape[1] - len(answer) - 1 :]
    processor = loaded("AutoProcessor", path)
    inputs = processor(images=image, text=text, return_tensors="pt")
    if family == "git":
        inputs = {k: v[:, :-1] if k != "pixel_values" else v for k, v in inputs.items()}
    if family in ("blip-2-t5", "instructblip"):
        return model(**inputs, decoder_input_ids=torch.tensor([[1, *answer]])).logits[0]
    n = len(inputs["input_ids"][0])
    inputs["input_ids"] = torch.cat([inputs["input_ids"], torch.tensor([answer], dtype=torch.long)], dim=1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    logits = model(**inputs).logits[0]
    # GIT puts the image in front of the text.
    first = len(logits) - len(answer) - 1 if family == "git" else n - 1
    return logits[first:]


WORDINGS = {
    "blip": "{}",
    "blip-2": "Question: {} Answer:",
    "blip-2-t5": "Question: {} Answer:",
    "instructblip": "Question: {} Short answer:",
    "git": "{}",
    "llava": "USER : <image> {} Answer with yes or no only. ASSISTANT :",
    "qwen2-vl": "USER : <|vision_start|><|image_pad|><|vision_end|> {} Answer with yes or no only. ASSISTANT :",
    "qwen2.5-vl": "USER : <|vision_start|><|image_pad|><|vision_end|> {} Answer with yes or no only. ASSISTANT :",
    "qwen3-vl": "USER : <|vision_start|><|image_pad|><|vision_end|> {} Answer with yes or no only. ASSISTANT :",
}


@pytest.mark.parametrize("family", WORDINGS)
@torch.inference_mode()
def test_probability_of_yes_is_that_of_the_first_token(family: str, models: Callable[[str], str]):
    result = vqa(models(family)).observe(IMAGES[:2], NEED)["probability"].to_list()
    words = transformers.AutoTokenizer.from_pretrained(models(family)).get_vocab()
    for shown, probability in zip(IMAGES[:2], (result[0], result[3]), strict=True):
        logits = by_hand(family, models(family), WORDINGS[family].format(DOG.text), shown.pixels)
        shares = logits[0].double().softmax(-1)
        # Full softmax over the vocabulary, both spellings, nothing normalised over yes and no.
        assert probability == pytest.approx(float(shares[words["yes"]] + shares[words["Yes"]]), rel=1e-5)


@pytest.mark.parametrize("family", ["blip", "blip-2", "blip-2-t5", "llava", "qwen3-vl"])
@torch.inference_mode()
def test_likelihood_is_that_of_the_whole_reply_and_its_end(family: str, models: Callable[[str], str]):
    path = models(family)
    prompt = "{question}" if family == "blip" else "Question: {question} Answer:"
    wording = prompt.replace("{question}", COLOR.text)
    if family in ("llava", "qwen3-vl"):
        wording = WORDINGS[family].replace("{} Answer with yes or no only.", wording)
    judge = vqa(path, choose="likelihood", choice_prompt=prompt)
    row = judge.observe(IMAGES[:1], AnswerNeed(questions={"a": (COLOR,)})).row(0, named=True)
    words = transformers.AutoTokenizer.from_pretrained(path).get_vocab()
    sums = {}
    for choice in COLOR.choices:
        sums[choice] = 0.0
        # As given and with a capital; words the vocabulary lacks are its unknown word, so their spelling counts too.
        for spelling in (choice, choice.capitalize()):
            tokens = tuple(words.get(word, words["[UNK]"]) for word in spelling.split())
            logs = by_hand(family, path, wording, IMAGES[0].pixels, tokens).double().log_softmax(-1)
            value = sum(float(logs[t, token]) for t, token in enumerate((*tokens, 2)))  # 2 ends a reply
            sums[choice] += float(np.exp(value))
    best = max(sums, key=sums.__getitem__)
    assert row["value"] == best
    assert row["probability"] == pytest.approx(sums[best] / sum(sums.values()), rel=1e-4)


@pytest.mark.parametrize("family", WORDINGS)
@torch.inference_mode()
def test_weighed_yes_and_no_share_one_between_them(family: str, models: Callable[[str], str]):
    need = AnswerNeed(questions={"a": (DOG, COLOR)}, weighed=True)
    row, of_choice = vqa(models(family)).observe(IMAGES[:1], need).rows(named=True)
    words = transformers.AutoTokenizer.from_pretrained(models(family)).get_vocab()
    logits = by_hand(family, models(family), WORDINGS[family].format(DOG.text), IMAGES[0].pixels)
    shares = logits[0].double().softmax(-1)
    yes, no = (float(shares[words[word]] + shares[words[word.capitalize()]]) for word in ("yes", "no"))
    assert row["probability"] == pytest.approx(yes / (yes + no), rel=1e-5)
    assert row["value"] == ("yes" if yes > no else "no")
    # As with choose=likelihood, which needs no weighing; and the free reply stays beside it.
    forced = vqa(models(family), choose="likelihood").observe(IMAGES[:1], AnswerNeed(questions={"a": (COLOR,)}))
    assert of_choice["value"] == forced["value"][0]
    assert of_choice["probability"] == pytest.approx(forced["probability"][0], rel=1e-5)
    free = vqa(models(family), choose="reply").observe(IMAGES[:1], need)
    assert free["answer"].to_list() == [row["answer"], of_choice["answer"]]
    assert free["value"].to_list() == [None, None]  # random words, weighed or not
    assert free["probability"][0] == pytest.approx(yes, rel=1e-5)
    assert free["probability"][1] is None


def test_words_that_are_no_tokens_are_weighed_whole(models: Callable[[str], str]):
    judge = vqa(models("blip-2"))
    need = AnswerNeed(questions={"a": (DOG,)}, weighed=True)
    judge._model._words = {"yes": judge._model._words["yes"], "no": []}  # as where "no" is spelled in pieces
    judge._model.says_yes_and_no = False
    row = judge.observe(IMAGES[:1], need).row(0, named=True)
    as_choice = Question(text=DOG.text, choices=("yes", "no", "two"))  # the same likelihoods, shared among three
    three = judge.observe(IMAGES[:1], AnswerNeed(questions={"a": (as_choice,)}, weighed=True))
    replies = judge._model.replies(
        IMAGES[:1], lambda _: [judge._ask(as_choice, AnswerNeed(questions={}, weighed=True))]
    )
    yes, no, _ = replies[0][0].candidates
    assert row["probability"] == pytest.approx(yes / (yes + no), rel=1e-6)
    assert row["value"] == ("yes" if yes > no else "no")
    assert three["value"][0] in as_choice.choices


def test_released_settings_are_those_of_lavis(models: Callable[[str], str]):
    judge = TransformersVqa(
        models("blip-2-t5"), settings="released", hub=HubOptions(device="cpu", local_files_only=True)
    )
    assert judge.name.endswith(
        " prompt='Question: {question} Answer:' choose=auto beams=5 max_new_tokens=30 settings=released"
    )
    model, asked, wording = judge._model._model, [], []
    inner, encode = model.generate, judge._model._encode
    model.generate = lambda **options: asked.append(options) or inner(**options)
    judge._model._encode = lambda pixels, texts: wording.extend(texts) or encode(pixels, texts)
    gender = Question(text="the person looks like a male or a female?", choices=("male", "female"))
    result = judge.observe(IMAGES[:1], AnswerNeed(questions={"a": (gender,)}))
    assert wording == ["Question: the person looks like a male or a female? Answer:"]
    wanted = {"num_beams": 5, "max_new_tokens": 30, "min_length": 1, "length_penalty": 1.0, "repetition_penalty": 1.0,
              "do_sample": False}  # fmt: skip
    assert [{name: options[name] for name in wanted} for options in asked] == [wanted]  # not weighed: the reply alone
    # By hand, in one plain call of the model.
    del model.generate
    processor = transformers.AutoProcessor.from_pretrained(models("blip-2-t5"))
    inputs = processor(images=Image.fromarray(IMAGES[0].pixels), text=wording[0], return_tensors="pt")
    tokens = model.generate(**inputs, **wanted)
    assert result["answer"].to_list() == [processor.decode(tokens[0], skip_special_tokens=True).strip()]


def test_free_replies_are_those_of_the_model_called_by_hand(models: Callable[[str], str]):
    path = models("blip")
    result = vqa(path).observe(IMAGES[:1], AnswerNeed(questions={"a": (DOG, COLOR)}))
    model = transformers.BlipForQuestionAnswering.from_pretrained(path).eval()
    processor = transformers.AutoProcessor.from_pretrained(path)
    for question, answer in zip((DOG, COLOR), result["answer"], strict=True):
        inputs = processor(images=Image.fromarray(IMAGES[0].pixels), text=question.text, return_tensors="pt")
        tokens = model.generate(**inputs, max_new_tokens=4, do_sample=False)
        assert answer == processor.decode(tokens[0], skip_special_tokens=True).strip()
    assert result["value"].to_list() == [None, None]  # random words answer nothing, and are kept
    assert result["probability"].null_count() == 1  # a free reply has none for a choice


# Per family, the part in which images are counted and how many rows one takes there.
COUNTED = {
    "blip": ("vision_model.embeddings", 1),
    "blip-2": ("vision_model.embeddings", 1),
    "blip-2-t5": ("qformer.encoder", 1),
    "instructblip": ("vision_model.embeddings", 1),
    "git": ("git.image_encoder.vision_model.embeddings", 1),
    "llava": ("model.vision_tower.embeddings", 1),
    "qwen2-vl": ("model.visual.patch_embed", None),
    "qwen2.5-vl": ("model.visual.patch_embed", None),
    "qwen3-vl": ("model.visual.patch_embed", None),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_an_image_is_looked_at_once_for_all_its_questions(family: str, models: Callable[[str], str]):
    judge = vqa(models(family), batch_size=2, beams=3)
    need = AnswerNeed(questions=NEED.questions, weighed=True)
    path, rows = COUNTED[family]
    part = judge._model._model.get_submodule(path)
    seen: list[int] = []
    part.register_forward_pre_hook(lambda _, args, options: seen.append(len((*args, *options.values())[0])),
                                   with_kwargs=True)  # fmt: skip
    judge._model.shares_vision = False
    repeated = judge.observe(IMAGES, need)
    without, seen[:] = sum(seen), []
    judge._model.shares_vision = True
    shared = judge.observe(IMAGES, need)
    if rows is None:  # patches of 8 pixels, images in multiples of 16: 40 x 60 twice (32 x 64), 30 x 30 (32 x 32)
        assert sum(seen) == 2 * 4 * 8 + 4 * 4
    else:
        assert sum(seen) == 3  # of four images, one is not asked about
    assert without > 2 * sum(seen)
    assert not [module for module in judge._model._model.modules() if "forward" in vars(module)]  # left as it was
    assert shared.drop("probability").equals(repeated.drop("probability"))
    np.testing.assert_allclose(shared["probability"].drop_nulls(), repeated["probability"].drop_nulls(), rtol=1e-5)


def test_texts_are_fewer_at_once_when_memory_runs_out(models: Callable[[str], str]):
    judge = vqa(models("blip-2"), batch_size=4)
    questions = (DOG, Question(text="is there a cat ?"), Question(text="is there the dog ?"))  # equal lengths
    need = AnswerNeed(questions={p.prompt_id: questions for p in IMAGES})
    expected = judge.observe(IMAGES, need)
    generate, sizes = judge._model._model.generate, []

    def small(**options: Any) -> Any:
        sizes.append(len(options["pixel_values"]))
        if sizes[-1] > 1:
            raise torch.OutOfMemoryError("no room")
        return generate(**options)

    judge._model._model.generate = small
    halved = judge.observe(IMAGES, need)
    assert halved.drop("probability").equals(expected.drop("probability"))
    assert sizes[0] == 4
    assert sizes[-12:] == [1] * 12


def test_the_wording_of_a_question(models: Callable[[str], str]):
    asked = []
    judge = vqa(models("llava"), choice_prompt="{question} choices : {choices} .", prompt="{question} yes or no ?")
    inner = judge._model._processor.apply_chat_template

    def spied(messages: Any, **options: Any) -> Any:
        asked.append(messages[0]["content"][1]["text"])
        return inner(messages, **options)

    judge._model._processor.apply_chat_template = spied
    braces = Question(text="is {choices} or {x} there ?")  # braces of a question are not the template's
    judge.observe(IMAGES[:1], AnswerNeed(questions={"a": (DOG, COLOR, braces)}))
    assert asked == [
        "is there a dog ? yes or no ?",
        "what color choices : red, green dog, blue .",
        "is {choices} or {x} there ? yes or no ?",
    ]


def test_a_chat_model_is_asked_for_yes_or_no_once(models: Callable[[str], str]):
    asked = []
    judge = vqa(models("llava"))
    judge._model._processor.apply_chat_template = lambda messages, **_: asked.append(messages) or "<image> red"
    subset = Question(text='Does this figure show "a dog"? Please answer yes or no.')
    judge.observe(IMAGES[:1], AnswerNeed(questions={"a": (DOG, subset, COLOR)}))
    assert [messages[0]["content"][1]["text"] for messages in asked] == [
        "is there a dog ? Answer with yes or no only.",
        subset.text,
        "what color Answer with one of these, and nothing else: red, green dog, blue.",
    ]


def test_the_chat_template_is_part_of_the_name(tmp_path: Path):
    first = vqa(str(tiny.llava(tmp_path / "one" / "m"))).name
    assert vqa(str(tiny.llava(tmp_path / "two" / "m"))).name == first
    other = tiny.llava(tmp_path / "three" / "m", chat_template=tiny.CHAT.replace("ASSISTANT", "Answer"))
    assert vqa(str(other)).name != first


def test_beams_and_sixteen_bits(models: Callable[[str], str]):
    for family in ("blip", "blip-2", "llava"):
        greedy = vqa(models(family)).observe(IMAGES, NEED)
        beams = vqa(models(family), beams=3).observe(IMAGES, NEED)
        # The first token's probability does not depend on the search.
        np.testing.assert_allclose(
            beams["probability"].drop_nulls(), greedy["probability"].drop_nulls(), rtol=1e-5, atol=1e-9
        )
    half = vqa(models("blip-2"), dtype="bfloat16").observe(IMAGES, NEED)["probability"].drop_nulls()
    assert ((half > 0) & (half < 1)).all()


def test_the_name_tells_what_changes_answers(models: Callable[[str], str]):
    judge = vqa(models("blip-2"), batch_size=3)
    assert judge.name.startswith("transformers:blip-2@")
    assert judge.name.endswith(" prompt='Question: {question} Answer:' choose=auto beams=1 max_new_tokens=4")
    assert vqa(models("blip-2"), batch_size=1).name == judge.name
    for options in ({"choose": "likelihood"}, {"choice_prompt": "{question}"}, {"beams": 5}, {"dtype": "float16"}):
        assert vqa(models("blip-2"), **options).name != judge.name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "is it?"}, r"prompt must contain {question}, where the question goes, but is 'is it\?'"),
        ({"choice_prompt": "{choices}"}, "choice_prompt must contain {question}"),
        ({"choose": "best"}, "option choose='best': expected one of auto, reply, likelihood"),
        ({"beams": -1}, "beams must be at least 1"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"dtype": "float8"}, "option dtype='float8': expected one of float32"),
        ({"settings": "paper"}, "option settings='paper': expected one of released, original-blip or none"),
        ({"settings": "released"}, "settings=released decides max_new_tokens already"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str, models: Callable[[str], str]):
    with pytest.raises(UsageError, match=message):
        vqa(models("blip"), **options)


def test_models_that_read_no_questions_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="writes captions only: name it as --captioner"):
        vqa(str(tiny.blip_captioner(tmp_path / "blip")))
    with pytest.raises(UsageError, match="a captioner that reads no questions"):
        vqa(str(tiny.vision_encoder_decoder(tmp_path / "vit")))


def test_missing_libraries_name_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"answers questions about images .* needs 'torch'.*verism\[models\]"):
        TransformersVqa("any")


# -------------------------------------------------------------------------------------------------------- replies
@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("yes", "yes"),
        ("Yes", "yes"),
        ("YES.", "yes"),
        (" no\n", "no"),
        ("No!", "no"),
        ("'Yes'", "yes"),
        ("**No.**", "no"),
        ("Yes, there is a dog.", "yes"),
        ("No, it is a cat; nothing else.", "no"),
        ("yes .", "yes"),
        ("no\nQuestion: is it red? Answer: yes", "no"),  # the model goes on with another question
        ("\n\nyes", "yes"),
        ("yes and no", None),
        ("yes, no", None),
        ("no, yes", None),
        ("No, there is no dog but yes a cat", None),
        ("yes it is", None),  # strict
        ("no dog", None),
        ("No idea", None),
        ("not sure", None),
        ("nope", None),
        ("yesterday", None),
        ("yeah", None),
        ("there is a dog", None),
        ("the answer is yes", None),
        ("1", None),
        ("true", None),
        ("", None),
        ("  \n ", None),
        ("?", None),
    ],
)
def test_replies_to_a_question_of_yes_or_no(reply: str, value: str | None):
    assert value_of(reply, DOG) == value
    assert value_of(reply, Question(text="?", choices=("yes", "no"))) == value
    assert value_of(reply, Question(text="?", choices=("No", "Yes"))) == value


@pytest.mark.parametrize(
    ("reply", "choices", "value"),
    [
        ("red", ("red", "green"), "red"),
        ("Red.", ("red", "green"), "red"),
        ("the red", ("red", "green"), "red"),
        ("two", ("1", "2", "3"), "2"),
        ("2", ("one", "two"), "two"),
        ("A fire-hydrant", ("fire hydrant", "dog"), "fire hydrant"),
        ("green\nQuestion: and the hat?", ("red", "green"), "green"),
        ("a", ("a", "b"), "a"),
        ("2.5", ("2", "5", "2.5"), "2.5"),
        ("It is red", ("red", "green"), None),  # strict
        ("red and green", ("red", "green"), None),
        ("reddish", ("red", "green"), None),
        ("scarlet", ("red", "green"), None),
        ("", ("red", "green"), None),
        ("...", ("!", "green"), None),
        ("two", ("two", "2"), None),  # which of them is not plain
        ("yes", ("yes", "no", "maybe"), "yes"),
        ("Yes, a dog", ("yes", "no", "maybe"), None),
    ],
)
def test_replies_to_a_question_with_choices(reply: str, choices: tuple[str, ...], value: str | None):
    assert value_of(reply, Question(text="?", choices=choices)) == value


def test_which_questions_are_of_yes_or_no():
    assert is_yes_no(Question(text="?"))
    assert is_yes_no(Question(text="?", choices=("No.", "yes")))
    assert not is_yes_no(Question(text="?", choices=("yes",)))
    assert not is_yes_no(Question(text="?", choices=("yes", "yes")))


# ------------------------------------------------------------------------------------------------- made elsewhere
def answers(path: Path, rows: Any) -> AnswerResults:
    path.write_text(json.dumps(rows), encoding="utf-8")
    return AnswerResults(path)


def test_answers_made_elsewhere(tmp_path: Path):
    rows = [
        {"image_id": "a#0", "question": "Is there a  DOG ?", "answer": "Yes.", "probability": 0.75},
        {"prompt_id": "a", "question": "what color", "answer": "Scarlet"},
        {"image_id": "a#0", "question": RED.text, "answer": False},
        {"image_id": "z", "question": RED.text, "answer": "no"},
    ]
    judge = answers(tmp_path / "r.json", rows[:1] + rows[2:])
    assert judge.summary() == []  # nothing was asked, as in a run that is complete
    table = judge.observe(IMAGES[:3], NEED)
    assert dict(table.schema) == schema("answers")
    assert table.select("image_id", "question", "answer", "value", "probability").rows() == [
        ("a#0", DOG.text, "Yes.", "yes", 0.75),
        ("a#0", COLOR.text, None, None, None),
        ("a#0", RED.text, "no", "no", None),
        ("b#0", DOG.text, None, None, None),
        ("c#0", None, None, None, None),
    ]
    assert judge.name.startswith("results:r.json@")
    assert judge.summary() == [
        "r.json: 1 of 3 answers belong to no image and question seen",
        "r.json: no answer to 2 questions",
    ]
    weighed = AnswerNeed(questions=NEED.questions, weighed=True)  # a file knows what it knows
    assert judge.observe(IMAGES[:3], weighed).equals(table)
    by_prompt = answers(tmp_path / "p.json", rows[1:2]).observe(IMAGES[:1], NEED)
    assert by_prompt["answer"].to_list() == [None, "Scarlet", None]  # kept, though it is none of the choices
    assert by_prompt["value"].to_list() == [None, None, None]


def test_answer_results_nan_of_pandas_is_no_answer_and_no_probability(tmp_path: Path):
    row = {"image_id": IMAGES[0].image_id, "question": "is there a dog?", "answer": math.nan, "probability": math.nan}
    table = answers(tmp_path / "r.json", [row]).observe(IMAGES[:1], NEED)
    assert table["answer"].to_list() == [None] * 3
    assert table["probability"].to_list() == [None] * 3


def test_answers_in_a_csv(tmp_path: Path):
    (tmp_path / "r.csv").write_text(
        "prompt_id,question,answer,probability\na,is there a dog ?,no,0.25\na,what color,Blue,\nd,what color,,\n"
    )
    judge = AnswerResults(tmp_path / "r.csv")
    table = judge.observe([IMAGES[0], IMAGES[3]], NEED)
    assert table["value"].to_list() == ["no", "blue", None, None, None]
    assert table["probability"].to_list() == [0.25, None, None, None, None]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"question": "q", "answer": "yes"},
            "entry 1: expected image_id or prompt_id or item_id, which names the image",
        ),
        ({"image_id": "a", "answer": "yes"}, "expected a question in words, got None"),
        ({"image_id": "a", "question": "q"}, "expected an answer; it has"),
        ({"image_id": "a", "question": "q", "answer": ["yes"]}, "expected an answer in words"),
        ({"image_id": "a", "question": "q", "answer": "yes", "probability": 75}, r"a number in \[0, 1\], got 75"),
        ({"image_id": "a", "question": "q", "answer": "yes", "probability": "high"}, "got 'high'"),
    ],
)
def test_bad_answer_files_are_refused(row: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises(UsageError, match=message):
        answers(tmp_path / "r.json", [row])


def test_a_question_answered_twice_is_refused(tmp_path: Path):
    row = {"image_id": "a", "question": "q", "answer": "yes"}
    with pytest.raises(UsageError, match="entry 2: a second answer to ' Q' for a"):
        answers(tmp_path / "r.json", [row, row | {"question": " Q"}])
    with pytest.raises(UsageError, match="holds no answers"):
        answers(tmp_path / "r.json", [])


# ---------------------------------------------------------------------------------------------- BLIP's original code
def test_blip_as_its_original_code_runs_it(tmp_path):
    folder = tiny.blip_vqa(tmp_path)
    hub = HubOptions(device="cpu", local_files_only=True)
    judge = TransformersVqa(str(folder), settings="original-blip", hub=hub)
    pixels = np.random.default_rng(3).integers(0, 256, (20, 34, 3), dtype=np.uint8)
    shown = LoadedImage(image_id="p#0", prompt_id="p", pixels=pixels)
    questions = (Question(text="a red dog?", strings=("yes", "no"), bare=True), Question(text="cat?", bare=True))
    need = AnswerNeed(questions={"p": questions}, weighed=True)
    tables = judge.observe([shown], need)
    assert "settings=original-blip" in judge.name

    # By hand: image squashed to 480, the first token of the question replaced, the decoder's first step.
    model = transformers.BlipForQuestionAnswering.from_pretrained(folder).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    small = Image.fromarray(pixels).resize((480, 480), Image.Resampling.BICUBIC)
    values = np.asarray(small, dtype=np.float64) / 255
    mean, deviation = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    values = torch.tensor(((values - mean) / deviation).transpose(2, 0, 1), dtype=torch.float32)[None]
    for row, question in enumerate(questions):
        ids = words(question.text, return_tensors="pt")["input_ids"]
        ids[:, 0] = model.config.text_config.vocab_size - 1
        with torch.inference_mode():
            seen = model.vision_model(values, interpolate_pos_encoding=True).last_hidden_state
            mask = torch.ones(ids.shape, dtype=torch.long)
            read = model.text_encoder(ids, attention_mask=mask, encoder_hidden_states=seen, return_dict=False)[0]
            start = torch.tensor([[model.config.text_config.bos_token_id]])
            logits = model.text_decoder(start, encoder_hidden_states=read).logits[0, -1]
        share = logits.double().softmax(-1)
        yes, no = (float(share[words.convert_tokens_to_ids(word)]) for word in ("yes", "no"))
        # BERT's vocabulary has each word once; the tiny one has capital letters as well.
        either = [sum(float(share[i]) for t, i in words.get_vocab().items() if t.lower() == w) for w in ("yes", "no")]
        found = tables["answers"].row(row, named=True)
        assert found["probability"] == pytest.approx(either[0] / sum(either), rel=1e-4)
        if question.strings:
            tokens = dict(tables["token_probabilities"].select("string", "probability").iter_rows())
            assert tokens == {"yes": pytest.approx(yes, rel=1e-4), "no": pytest.approx(no, rel=1e-4)}
    usual = TransformersVqa(str(folder), hub=hub).observe([shown], need)["answers"].row(0, named=True)
    assert usual["probability"] != pytest.approx(tables["answers"].row(0, named=True)["probability"], rel=1e-6)


def test_only_blip_has_an_original_code(tmp_path):
    with pytest.raises(UsageError, match="only BLIP has an original code"):
        TransformersVqa(str(tiny.llava(tmp_path)), settings="original-blip", hub=HubOptions(device="cpu"))


def test_long_questions_are_cut_as_in_the_original_code(tmp_path):
    judge = TransformersVqa(str(tiny.blip_vqa(tmp_path)), settings="original-blip", hub=HubOptions(device="cpu"))
    shown = LoadedImage(image_id="p#0", prompt_id="p", pixels=np.zeros((8, 8, 3), np.uint8))

    def of(length):
        question = Question(text=" ".join(["dog"] * length), bare=True)
        table = judge.observe([shown], AnswerNeed(questions={"p": (question,)}, weighed=True))
        return table["probability"][0]

    assert of(33) == of(60)  # 35 with the tokens around it
    assert of(33) != of(20)
