"""Replies and their probabilities, worked by hand on a model that is a table; and the parts that look only once.

The architectures of the hub, with random weights, are in test_vqa.py and test_captioner.py.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from verism.errors import UsageError, VerismError  # noqa: E402
from verism.judges.batching import Batches  # noqa: E402
from verism.judges.vision_language import (  # noqa: E402
    Ask,
    Reply,
    VisionLanguageModel,
    _end_tokens,
    _ImageProcessor,
    _joined,
    _loader,
    _part_once,
    _take_rows,
    _tokens_of_word,
    _tower_once,
    _vision_once,
    check_count,
)
from verism.records import LoadedImage  # noqa: E402

VOCABULARY = {"</s>": 0, "yes": 1, "Yes": 2, "no": 3, "red": 4, "car": 5, "<image>": 6, "?": 7}
END = VOCABULARY["</s>"]
# Probabilities of the first, second and every later token of a reply, whatever the image and the question.
STEPS = (
    (0.10, 0.40, 0.10, 0.20, 0.10, 0.10, 0.0, 0.0),
    (0.50, 0.10, 0.10, 0.10, 0.10, 0.10, 0.0, 0.0),
    (0.80, 0.04, 0.04, 0.04, 0.04, 0.04, 0.0, 0.0),
)


class Words:
    """A tokenizer of whole words."""

    eos_token_id = END

    def get_vocab(self) -> dict[str, int]:
        return VOCABULARY

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [VOCABULARY[word] for word in text.split()]}

    def decode(self, tokens: Any, **_: Any) -> str:
        names = {i: word for word, i in VOCABULARY.items()}
        return " ".join(names[int(token)] for token in tokens if int(token) != END)


class Table:
    """A decoder whose probabilities are those of ``STEPS``, raised to a power that is the image's brightness.

    Args:
        repeats_prompt: whether its sequences open with the prompt, as those of decoders without an encoder do.
        most: rows that its memory holds.
    """

    def __init__(self, *, repeats_prompt: bool = True, most: int = 99) -> None:
        self.repeats_prompt, self.most, self.rows = repeats_prompt, most, []
        self.config = SimpleNamespace(model_type="table")
        self.generation_config = SimpleNamespace(eos_token_id=END)

    def generate(
        self, *, pixel_values: Any, input_ids: Any, logits_processor: Any, num_beams: int, max_new_tokens: int, **_: Any
    ) -> Any:
        if len(input_ids) > self.most:
            raise torch.OutOfMemoryError("too many rows")
        self.rows.append(len(input_ids))
        prompt = input_ids if self.repeats_prompt else input_ids[:, :0]
        tokens, logits = prompt, []
        for step in range(max_new_tokens):
            plain = torch.tensor(STEPS[min(step, 2)]).log() * pixel_values.flatten(1).mean(1, keepdim=True)
            logits.append(plain.repeat_interleave(num_beams, dim=0))
            chosen = logits_processor[0](tokens, plain).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, chosen], dim=1)
        return SimpleNamespace(sequences=tokens, logits=logits)


def model(table: Table, *, batch_size: int = 8) -> VisionLanguageModel:
    """The class around a table, without the loading of a checkpoint."""
    made = object.__new__(VisionLanguageModel)
    made.family, made.chat, made.source, made.shares_vision = "table", False, "table", False
    made._device, made._dtype = torch.device("cpu"), torch.float32
    made._batches, made._texts_at_once = Batches(batch_size, made._device), batch_size
    made._model, made._tokenizer, made._image_token = table, Words(), None
    made._words = {word: _tokens_of_word(made._tokenizer, word) for word in ("yes", "no")}
    made._end = _end_tokens(table, made._tokenizer)

    def images(images: Any, **_: Any) -> dict[str, Any]:
        return {"pixel_values": torch.from_numpy(np.stack([np.asarray(p, dtype=np.float32) for p in images]))}

    made._images = _ImageProcessor(images)

    def processor(images: Any, text: str, **_: Any) -> Any:
        seen = made._images(images)
        return {**seen, "input_ids": torch.tensor([Words()(text)["input_ids"]])}

    made._processor = processor
    return made


def image(brightness: int = 1, name: str = "a") -> LoadedImage:
    return LoadedImage(image_id=name, prompt_id="p", pixels=np.full((2, 2, 3), brightness, dtype=np.uint8))


# --------------------------------------------------------------------------------------------------------------------
# Replies
# --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("repeats_prompt", [True, False])
def test_replies_of_a_known_table_have_the_probabilities_worked_by_hand(repeats_prompt: bool) -> None:
    candidates = (("red",), ("red car",), ("yes", "Yes"))
    [[reply]] = model(Table(repeats_prompt=repeats_prompt)).replies(
        [image()], lambda _: [Ask("red ?", candidates)], max_new_tokens=2
    )
    assert reply.text == "yes"  # the most probable tokens, yes and the end, without the prompt
    assert reply.yes == pytest.approx(0.4 + 0.1)  # "yes" and "Yes"
    assert reply.no == pytest.approx(0.2)
    # red, then the end: 0.1 * 0.5. red, car, the end: 0.1 * 0.1 * 0.8. Either spelling of yes: (0.4 + 0.1) * 0.5.
    assert reply.candidates == pytest.approx((0.05, 0.008, 0.25))


def test_replies_with_beams_read_the_first_row_of_each_text() -> None:
    # Brightness 2 squares the probabilities: yes (16 + 1) / (1 + 16 + 1 + 4 + 1 + 1) = 17 / 24.
    replies = model(Table()).replies([image(1), image(2, "b")], lambda _: [Ask("red ?")], beams=3, max_new_tokens=1)
    assert [reply.yes for [reply] in replies] == pytest.approx([0.5, 17 / 24])


def test_replies_of_texts_of_several_lengths_come_in_the_order_asked() -> None:
    # Texts of equal length share a batch: asked are 1, 2, 1, 2 and 1 words by images of brightness 1 and 2.
    table, asks = Table(), {"a": ("?", "red ?", "?"), "b": ("red ?", "?")}
    replies = model(table, batch_size=2).replies(
        [image(1), image(2, "b")], lambda i: [Ask(text) for text in asks[i.image_id]], max_new_tokens=1
    )
    assert [len(result) for result in replies] == [3, 2]
    assert [reply.yes for reply in replies[0]] == pytest.approx([0.5] * 3)
    assert [reply.yes for reply in replies[1]] == pytest.approx([17 / 24] * 2)
    assert sorted(table.rows) == [1, 2, 2]  # three of one word, two of two words, at most two at once


def test_replies_without_a_question_are_none_and_the_image_is_not_looked_at() -> None:
    table = Table()
    result = model(table).replies([image(), image(2, "b")], lambda i: [Ask("?")] if i.image_id == "b" else [])
    assert [len(replies) for replies in result] == [0, 1]
    assert table.rows == [1]


def test_replies_out_of_memory_ask_fewer_texts_at_once_for_good() -> None:
    table = Table(most=1)
    judge = model(table, batch_size=4)
    [replies] = judge.replies([image()], lambda _: [Ask("?")] * 3, max_new_tokens=1)
    assert [reply.yes for reply in replies] == pytest.approx([0.5] * 3)
    assert judge._texts_at_once == 1
    assert table.rows == [1, 1, 1]
    with pytest.raises(VerismError, match="does not hold a single image"):
        model(Table(most=0)).replies([image()], lambda _: [Ask("?")])


def test_replies_of_a_vocabulary_without_yes_have_no_probability_of_it() -> None:
    judge = model(Table())
    judge._words = {"yes": [], "no": [3]}
    [[reply]] = judge.replies([image()], lambda _: [Ask("?")], max_new_tokens=1)
    assert reply == Reply("yes", None, pytest.approx(0.2), ())


def test_a_text_without_the_image_token_is_refused() -> None:
    judge = model(Table())
    judge._image_token = VOCABULARY["<image>"]
    with pytest.raises(UsageError, match="marks the image's place in a text by a token"):
        judge.replies([image()], lambda _: [Ask("red ?")])
    [[reply]] = judge.replies([image()], lambda _: [Ask("<image> red ?")], max_new_tokens=1)
    assert reply.text == "yes"


def test_a_text_for_git_is_not_closed() -> None:
    judge = model(Table())
    judge.family = "git"
    inputs = {"input_ids": torch.tensor([[4, 5, END]])}
    judge._check_text(inputs)
    assert inputs["input_ids"].tolist() == [[4, 5]]


def test_words_are_found_in_any_case_and_behind_any_mark_of_a_space() -> None:
    vocabulary = {"yes": 1, "Yes": 2, "▁yes": 3, "ĠYES": 4, "yesterday": 5, "eyes": 6}
    assert _tokens_of_word(SimpleNamespace(get_vocab=lambda: vocabulary), "yes") == [1, 2, 3, 4]
    assert _tokens_of_word(SimpleNamespace(get_vocab=lambda: vocabulary), "no") == []


def test_end_tokens_are_those_of_the_language_model_then_the_model_then_the_tokenizer() -> None:
    def owner(ends: Any) -> Any:
        return SimpleNamespace(eos_token_id=ends)

    def built(**parts: Any) -> Any:
        return SimpleNamespace(config=SimpleNamespace(model_type="llava"), **parts)

    assert _end_tokens(built(generation_config=owner([7, 8])), owner(9)) == [7, 8]
    assert _end_tokens(
        built(generation_config=owner(7), language_model=built(generation_config=owner(5))), owner(9)
    ) == [5]
    assert _end_tokens(built(generation_config=owner(None)), owner(9)) == [9]
    text = SimpleNamespace(sep_token_id=102)
    blip = SimpleNamespace(config=SimpleNamespace(model_type="blip", text_config=text), generation_config=owner(2))
    assert _end_tokens(blip, owner(9)) == [102]


def test_check_count_zero_is_refused() -> None:
    assert check_count("beams", 1) == 1
    with pytest.raises(UsageError, match="beams must be at least 1, not 0"):
        check_count("beams", 0)


# --------------------------------------------------------------------------------------------------------------------
# An image is looked at once
# --------------------------------------------------------------------------------------------------------------------
def test_an_image_is_prepared_once_until_forgotten() -> None:
    calls: list[Any] = []

    def subset(images: Any, **_: Any) -> dict[str, Any]:
        calls.append(images)
        return {"pixel_values": torch.tensor([float(len(calls))])}

    processor = _ImageProcessor(subset)
    assert processor("a")["pixel_values"] == processor("b")["pixel_values"] == 1
    processor.forget()
    assert processor("c")["pixel_values"] == 2
    assert calls == ["a", "c"]
    assert processor.names == ("pixel_values",)


def counting(calls: list[int]) -> Any:
    def subset(values: Any, **_: Any) -> Any:
        calls.append(len(values))
        return (values.flatten(1).sum(1, keepdim=True), {"kept": values * 10}, "text")

    return subset


def test_tower_is_computed_once_and_hands_out_the_rows_asked_for() -> None:
    pixels = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])  # two images of one tile
    rows: list[Any] = [torch.tensor([1, 0, 1])]
    calls: list[int] = []
    forward = _tower_once(counting(calls), {"pixel_values": pixels}, rows)
    result = forward(pixels[rows[0]].flatten(0, 1))
    assert result[0].flatten().tolist() == [7, 3, 7]
    assert result[1]["kept"].tolist() == [[30, 40], [10, 20], [30, 40]]
    assert result[2] == "text"
    rows[:] = [torch.tensor([0])]
    # A search with two beams repeats the rows of each text.
    assert forward(pixels[[0, 0]].flatten(0, 1))[0].flatten().tolist() == [3, 3]
    assert calls == [2]  # both images, once
    forward(pixels.flatten(0, 1), output_attentions=True)  # asked otherwise: another result
    assert calls == [2, 2]


def test_tower_of_inputs_it_does_not_know_looks_itself() -> None:
    calls: list[int] = []
    pixels = torch.ones(2, 2, 3)  # two tiles of each image
    forward = _tower_once(counting(calls), {"pixel_values": pixels}, [torch.tensor([0])])
    forward(torch.ones(3, 3))  # no multiple of the two rows of one image
    assert calls == [3]


def test_part_is_computed_for_images_not_met_before() -> None:
    calls: list[int] = []
    rows: list[Any] = [torch.tensor([2, 0, 2])]
    forward = _part_once(counting(calls), rows)
    values = torch.tensor([[1.0], [5.0], [9.0]])
    assert forward(values[rows[0]])[0].flatten().tolist() == [9, 1, 9]
    rows[:] = [torch.tensor([1, 0])]
    assert forward(values[rows[0]])[0].flatten().tolist() == [5, 1]
    assert calls == [2, 1]  # images 2 and 0, then image 1 alone


def test_vision_once_gives_the_parts_back_even_after_an_error() -> None:
    tower = torch.nn.Linear(2, 2)
    network = torch.nn.ModuleDict({"tower": tower})

    def failing() -> None:
        with _vision_once(network, ("tower",), {"pixel_values": torch.ones(1, 1, 2)}):
            assert "forward" in vars(tower)
            raise KeyError("generation")

    with pytest.raises(KeyError):
        failing()
    assert "forward" not in vars(tower)
    assert tower(torch.ones(1, 2)).shape == (1, 2)


def test_take_rows_of_images_of_several_rows_keeps_them_together() -> None:
    values = torch.arange(6).reshape(6, 1)  # three images of two rows
    assert _take_rows(values, torch.tensor([2, 0]), images=3).flatten().tolist() == [4, 5, 0, 1]
    assert _take_rows([values[:3]], torch.tensor([1, 1]), images=3)[0].flatten().tolist() == [1, 1]
    assert _take_rows(None, torch.tensor([1])) is None


def test_joined_outputs_follow_row_after_row() -> None:
    a, b = torch.tensor([[1]]), torch.tensor([[2]])
    assert _joined({"x": (a, None)}, {"x": (b, None)})["x"][0].tolist() == [[1], [2]]
    assert _joined("same", "other") == "same"


# --------------------------------------------------------------------------------------------------------------------
# Loading
# --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "architecture", "task", "message"),
    [
        ("blip", "BlipForQuestionAnswering", "captions", "writes answers only: name it as --vqa"),
        ("blip", "BlipForConditionalGeneration", "answers", "writes captions only: name it as --captioner"),
        ("vision-encoder-decoder", "VisionEncoderDecoderModel", "answers", "a captioner that reads no questions"),
        ("bert", "BertModel", "answers", "of type 'bert', which writes no text about images"),
    ],
)
def test_loader_of_a_model_that_cannot_do_the_task_says_so(
    kind: str, architecture: str, task: Any, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        _loader("some/model", SimpleNamespace(model_type=kind, architectures=[architecture]), task)


def test_loader_of_blip_is_the_network_of_the_task() -> None:
    import transformers

    config = SimpleNamespace(model_type="blip", architectures=["BlipForQuestionAnswering"])
    assert _loader("some/model", config, "answers") is transformers.BlipForQuestionAnswering
    config.architectures = ["BlipForConditionalGeneration"]
    assert _loader("some/model", config, "captions") is transformers.BlipForConditionalGeneration
