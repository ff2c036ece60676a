"""The judge that says which choice a free reply is nearest to: tiny BERT of random weights, by hand."""

import numpy as np
import pytest
import torch
from tiny_vision_language import tokenizer
from transformers import BertConfig, BertModel

from verism.errors import UsageError
from verism.judges.hub import HubOptions
from verism.judges.vqa.nearest import NearestChoice, SentenceEmbedder
from verism.options import Context
from verism.records import AnswerNeed, LoadedImage, Question, frame
from verism.registry import ModelPool, make_judge


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """A BERT of random weights with its tokenizer, in a folder."""
    torch.manual_seed(0)
    words = tokenizer("[PAD]", "[CLS]", "[SEP]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]")
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=32, pad_token_id=0,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("sentences")
    BertModel(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


NEED = AnswerNeed(questions={"p": (Question(text="what colour?", choices=("red", "blue")), Question(text="a dog?"))})
IMAGES = [LoadedImage(image_id=f"p#{n}", prompt_id="p", pixels=np.zeros((8, 8, 3), np.uint8)) for n in range(3)]
REPLIES = {"p#0": "red", "p#1": "a blue dog", "p#2": None}


class Replies:
    """Gives the replies above, and remembers that it was closed."""

    name = "replies"
    closed = False

    def observe(self, images, need):
        rows = [
            {"image_id": i.image_id, "judge": self.name, "question": q.text, "answer": REPLIES[i.image_id]}
            for i in images
            for q in need.questions[i.prompt_id]
        ]
        return frame(need.table, rows)

    def close(self):
        self.closed = True


def test_vectors_are_means_over_tokens_of_length_one_whatever_the_batch(sentences):
    texts = ["red", "a blue dog", "two"]
    together = SentenceEmbedder(str(sentences), hub=HubOptions(device="cpu", batch_size=3)).vectors(texts)
    alone = SentenceEmbedder(str(sentences), hub=HubOptions(device="cpu", batch_size=1)).vectors(texts)
    assert np.allclose(np.linalg.norm(together, axis=1), 1)
    assert np.allclose(together, alone, atol=1e-5)  # padding is masked
    # By hand: the mean of the last layer's rows.
    model = BertModel.from_pretrained(sentences).eval()
    from transformers import AutoTokenizer

    batch = AutoTokenizer.from_pretrained(sentences)("a blue dog", return_tensors="pt")
    with torch.inference_mode():
        rows = model(**batch).last_hidden_state[0].double().numpy()
    mean = rows.mean(axis=0)
    assert np.allclose(together[1], mean / np.linalg.norm(mean), atol=1e-5)


def test_only_replies_that_are_no_choice_are_compared_and_values_stay_as_they_are(sentences):
    inner = Replies()
    judge = NearestChoice(str(sentences), lambda _: inner, vqa="replies", hub=HubOptions(device="cpu"))
    tables = judge.observe(IMAGES, NEED)
    answers, compared = tables["answers"], tables["answer_similarities"]
    assert set(answers["judge"]) == {judge.name}
    assert "vqa=replies" in judge.name
    assert answers["answer"].to_list() == ["red", "red", "a blue dog", "a blue dog", None, None]
    assert compared.select("image_id", "question", "choice").rows() == [
        ("p#1", "what colour?", "red"),
        ("p#1", "what colour?", "blue"),
    ]
    vectors = SentenceEmbedder(str(sentences), hub=HubOptions(device="cpu")).vectors(["a blue dog", "red", "blue"])
    assert compared["cosine"].to_list() == pytest.approx([vectors[0] @ vectors[1], vectors[0] @ vectors[2]], abs=1e-5)
    judge.close()
    assert inner.closed


def test_judge_by_name_is_put_around_another(sentences, tmp_path):
    (tmp_path / "answers.csv").write_text("prompt_id,question,answer\np,what colour?,crimson\n", encoding="utf-8")
    name = f"nearest:{sentences}?vqa=results:{tmp_path / 'answers.csv'}"
    judge = make_judge(name, Context(device="cpu"), "vqa")
    assert "results:answers.csv" in judge.name
    with ModelPool() as pool:
        first = pool.judge(name, Context(device="cpu"), "vqa")
        # The judge inside may read any part of the context, so another context gets another one.
        assert pool.judge(name, Context(device="cpu"), "vqa") is first
        assert pool.judge(name, Context(device="cpu", colors=("red",)), "vqa") is not first


def test_without_a_vqa_model_it_says_what_is_missing(sentences):
    with pytest.raises(UsageError, match=r"needs a VQA model whose replies it compares: \?vqa=NAME"):
        make_judge(f"nearest:{sentences}", Context(), "vqa")
