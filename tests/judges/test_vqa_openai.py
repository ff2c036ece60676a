"""Question answerers and captioners behind a service, against a local stand-in for one."""

from __future__ import annotations

import base64
import io
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx")

from PIL import Image
from service_fakes import FakeClock, Service, chat, grouped

from verism.errors import Unfinished, UsageError
from verism.judges.captions.openai_captioner import OpenAICaptioner
from verism.judges.ocr.instructions import INSTRUCTION
from verism.judges.ocr.openai_ocr import OpenAIOcr
from verism.judges.vision_endpoint import Token, VisionOptions
from verism.judges.vqa.openai_vision import OpenAIVqa, likelihoods
from verism.records import AnswerNeed, CaptionNeed, LoadedImage, OcrNeed, Question, schema
from verism.registry import Context, make_judge
from verism.services import ServiceOptions

VARIABLE = "VERISM_TEST_KEY"
KEY = "sk-test-" + "Wx4" * 9
DOG = Question(text="Is there a dog?")
GENDER = Question(text="male or female?", choices=("male", "female"))


def picture(name: str, seed: int, height: int = 6, width: int = 9) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(image_id=f"{name}#0", prompt_id=name, pixels=pixels)


A, B, C = picture("a", 1), picture("b", 2), picture("c", 3)


def vqa(model: str = "m", clock: Any = None, **options: Any) -> OpenAIVqa:
    """A judge by options that are given flat."""
    judge = OpenAIVqa(model, **grouped({"vision": VisionOptions, "service": ServiceOptions}, options))
    if clock is not None:
        judge._endpoint.client.limiter.clock = clock
    return judge


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.lower().endswith("_proxy") or name.startswith("OPENAI_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv(VARIABLE, KEY)


@pytest.fixture
def make(service: Service) -> Iterator[Callable[..., OpenAIVqa]]:
    made: list[OpenAIVqa] = []

    def build(**options: Any) -> OpenAIVqa:
        usual = {"base_url": service.base, "key_env": VARIABLE, "clock": FakeClock(), "timeout": 5}
        made.append(vqa(**(usual | options)))
        return made[-1]

    yield build
    for judge in made:
        judge.close()


def text_of(body: dict[str, Any]) -> str:
    return body["messages"][-1]["content"][1]["text"]


def sent_image(body: dict[str, Any]) -> tuple[str, np.ndarray]:
    """Media type and pixels of the image in a request."""
    head, data = body["messages"][-1]["content"][0]["image_url"]["url"].split(";base64,")
    return head, np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


# ---------------------------------------------------------------------------------------------------------- asking
def test_one_request_per_question_with_the_image_in_it(service: Service, make: Any):
    replies = {"dog": "Yes.", "female": "A male", "sky": "blue, I think"}
    service.reply = lambda body: chat(next(v for k, v in replies.items() if k in text_of(body)))
    sky = Question(text="color of the sky?", choices=("blue", "grey"))
    judge = make()
    table = judge.observe([A, B, C], AnswerNeed(questions={"a": (DOG, GENDER), "c": (sky,)}))
    assert dict(table.schema) == schema("answers")
    assert table.drop("judge", "note").rows() == [
        ("a#0", DOG.text, "Yes.", "yes", None),
        ("a#0", GENDER.text, "A male", "male", None),
        ("b#0", None, None, None, None),  # nothing is asked: the row that says it was looked at
        ("c#0", sky.text, "blue, I think", None, None),  # none of the choices: kept, and no answer
    ]
    assert set(table["judge"]) == {judge.name}
    assert set(service.keys) == {f"Bearer {KEY}"}
    bodies = {text_of(body): body for body in service.bodies}
    assert set(bodies) == {
        "Is there a dog? Answer with yes or no only.",
        "male or female? Answer with one of these, and nothing else: male, female.",
        "color of the sky? Answer with one of these, and nothing else: blue, grey.",
    }
    for text, body in bodies.items():
        kind, pixels = sent_image(body)
        assert kind == "data:image/png"
        np.testing.assert_array_equal(pixels, (C if "sky" in text else A).pixels)  # PNG loses nothing
        assert {k: v for k, v in body.items() if k != "messages"} == {
            "model": "m", "temperature": 0.0, "seed": 0, "max_tokens": 30, "logprobs": True, "top_logprobs": 20,
        }  # fmt: skip


def test_images_may_be_sent_smaller(service: Service, make: Any):
    large = picture("a", 5, height=40, width=100)
    make(picture="jpeg", max_side=50, detail="low").observe([large], AnswerNeed(questions={"a": (DOG,)}))
    kind, pixels = sent_image(service.bodies[0])
    assert (kind, pixels.shape) == ("data:image/jpeg", (20, 50, 3))
    assert service.bodies[0]["messages"][0]["content"][0]["image_url"]["detail"] == "low"


def test_the_order_is_kept_and_several_are_asked_at_once(service: Service, make: Any):
    barrier = threading.Barrier(3, timeout=5)

    def reply(body: dict[str, Any]) -> Any:
        barrier.wait()  # three at once, or none gets an answer
        time.sleep(0.001 * (hash(text_of(body)) % 5))
        return chat(text_of(body).split()[0])

    service.reply = reply
    questions = tuple(Question(text=f"{i} ?", choices=("0", "1")) for i in range(12))
    table = make(concurrency=3).observe([A], AnswerNeed(questions={"a": questions}))
    assert table["answer"].to_list() == [str(i) for i in range(12)]
    assert service.most_active == 3


def test_crowded_services_are_asked_again(service: Service, make: Any):
    plan = [(429, {"error": {"message": "slow down"}}, {"Retry-After": "7"}), (500, {}, {}), chat("no")]
    service.reply = lambda _: plan.pop(0)
    clock = FakeClock()
    judge = make(concurrency=1, clock=clock)
    assert judge.observe([A], AnswerNeed(questions={"a": (DOG,)}))["value"].to_list() == ["no"]
    assert len(service.bodies) == 3
    assert sum(clock.waits) >= 7
    assert judge.summary()[0].startswith("3 requests (2 retries) in")


def test_no_more_than_so_many_a_minute(make: Any):
    clock = FakeClock()
    questions = tuple(Question(text=f"{i} ?") for i in range(5))
    judge = make(concurrency=1, per_minute=12, clock=clock)
    judge.observe([A], AnswerNeed(questions={"a": questions}))
    # One every 60 / 12 = 5 seconds: the first at once, the last after 4 x 5.
    assert clock.time == pytest.approx(1020)


def test_refusals_and_failures_are_counted_with_their_reasons(service: Service, make: Any):
    described = {
        "0": chat(None, refusal="I can't judge people."),
        "1": chat("", ended="content_filter"),
        "2": (400, {"error": {"message": "flagged", "code": "content_policy_violation"}}),
        "3": chat("", ended="length"),
        "4": (400, {"error": {"message": "bad image"}}),
        "5": chat("I'm sorry, I can't help with that."),
        "6": chat([{"type": "text", "text": "yes"}]),
        "7": chat("<think>a dog? no, yes</think>\nYes"),
        "8": {"choices": []},
    }
    service.reply = lambda body: described[text_of(body)[0]]
    questions = tuple(Question(text=f"{i} ?") for i in range(9))
    judge = make(retries=1, concurrency=1)
    table = judge.observe([A], AnswerNeed(questions={"a": questions}))
    words = "I'm sorry, I can't help with that."  # a refusal in the reply is a reply, and no answer
    assert table["answer"].to_list() == [None] * 5 + [words, "yes", "Yes", None]
    assert table["value"].to_list() == [None] * 6 + ["yes", "yes", None]
    assert table["note"][0] == "refused: I can't judge people."
    assert table["note"].is_null().to_list() == [False] * 5 + [True] * 3 + [False]
    lines = judge.summary()
    assert ": 3 replies, 3 refused, 3 failed" in lines[0]
    assert "no answer, 1 times: refused: I can't judge people." in lines
    assert "no answer, 1 times: refused: finish_reason 'content_filter'" in lines
    assert "no answer, 1 times: refused: HTTP 400: flagged (content_policy_violation)" in lines
    assert "no answer, 1 times: failed: cut off at 30 tokens before any answer; raise max_tokens" in lines
    assert "no answer, 1 times: failed: HTTP 400: bad image" in lines
    assert "and 1 other reasons" in lines  # "the answer holds no reply"


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ((401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}), f"Check the key in {VARIABLE}"),
        ((404, {"error": {"message": "no such model"}}), "Check the name of the model"),
        ((400, {"error": {"message": "not here", "param": "top_logprobs"}}), "It concerns 'top_logprobs', which every"),
        ((422, {"detail": [{"loc": ["body", "seed"], "msg": "extra"}]}), "It concerns 'seed', which every request"),
        ((429, {"error": {"code": "insufficient_quota"}}), "Finished work is kept"),
    ],
)
def test_what_concerns_every_request_ends_the_run(told: Any, says: str, service: Service, make: Any):
    service.reply = lambda _: told
    with pytest.raises(UsageError) as caught:
        make().observe([A, B], AnswerNeed(questions={"a": (DOG,), "b": (DOG,)}))
    assert says in str(caught.value)
    assert KEY not in str(caught.value)


def test_keys_stay_out_of_everything(service: Service, make: Any, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    service.reply = lambda _: (400, {"error": {"message": f"your key {KEY} is odd"}})
    judge = make()
    judge.observe([A], AnswerNeed(questions={"a": (DOG,)}))
    left = [judge.name, *judge.summary(), caplog.text, repr(vars(judge)), repr(vars(judge._endpoint)),
            repr(vars(judge._endpoint.client))]  # fmt: skip
    assert KEY[8:] not in "".join(left)
    assert "[hidden]" in "".join(left)


def test_a_service_that_is_not_there(make: Any):
    with pytest.raises(UsageError, match="cannot be reached"):
        make(base_url="http://127.0.0.1:9/v1", retries=0).observe([A], AnswerNeed(questions={"a": (DOG,)}))


def dies_after(service: Service, count: int) -> None:
    """The service answers so many requests, and then only that it is down."""
    before = len(service.bodies)
    service.reply = lambda _: chat("Yes.") if len(service.bodies) <= before + count else (503, {})


def test_a_service_that_goes_down_leaves_the_rows_of_images_that_were_done(service: Service, make: Any):
    images = [picture(f"p{n}", n) for n in range(8)]
    questions = {image.prompt_id: (DOG, Question(text="Is there a cat?")) for image in images}
    dies_after(service, 7)
    with pytest.raises(Unfinished, match="answered none of 5 requests in a row") as err:
        make(concurrency=1, retries=0).observe(images, AnswerNeed(questions=questions))
    assert err.value.rows["image_id"].to_list() == [f"p{n}#0" for n in (0, 0, 1, 1, 2, 2)]
    assert set(err.value.rows["value"]) == {"yes"}
    service_options = ServiceOptions(base_url=service.base, retries=0, concurrency=1, key_env=VARIABLE)
    for judge, need in (
        (OpenAICaptioner("m", service=service_options), CaptionNeed()),
        (OpenAIOcr("m", service=service_options), OcrNeed()),
    ):
        dies_after(service, 3)
        with pytest.raises(Unfinished) as err:
            judge.observe(images, need)
        assert err.value.rows["image_id"].to_list() == ["p0#0", "p1#0", "p2#0"]
        judge.close()


def test_nothing_asked_needs_no_key(make: Any, monkeypatch: pytest.MonkeyPatch, service: Service):
    monkeypatch.delenv(VARIABLE)
    assert make().observe([A], AnswerNeed(questions={}))["question"].to_list() == [None]
    assert service.bodies == []


# --------------------------------------------------------------------------------------------------- probabilities
def test_weighed_answers_come_from_the_probabilities_of_tokens(service: Service, make: Any):
    dog = [("No", {"No": 0.5, "Yes": 0.25, " yes": 0.125, "Maybe": 0.0625}), (".", {".": 1.0})]
    gender = [
        ("A", {"A": 0.5, "male": 0.25, "fem": 0.125}),
        (" fem", {" fem": 0.75, " male": 0.25}),
        ("ale", {"ale": 1.0}),
    ]
    service.reply = lambda body: chat("No.", tokens=dog) if "dog" in text_of(body) else chat("A female", tokens=gender)
    questions = {"a": (DOG, GENDER)}
    weighed = make().observe([A], AnswerNeed(questions=questions, weighed=True))
    # yes 0.25 + 0.125, no 0.5; male 0.25 + 0.5 * 0.25, female 0.125 + 0.5 * 0.75: shares 3/7 and 4/7
    assert weighed.select("answer", "value").rows() == [("No.", "no"), ("A female", "female")]
    assert weighed["probability"].to_list() == pytest.approx([0.375 / 0.875, 0.5 / 0.875])
    plain = make().observe([A], AnswerNeed(questions=questions))
    assert plain["value"].to_list() == ["no", "female"]
    assert plain["probability"].to_list() == [pytest.approx(0.375), None]  # of yes among all words
    forced = make(choose="reply").observe([A], AnswerNeed(questions=questions, weighed=True))
    assert forced["probability"].to_list() == [pytest.approx(0.375), None]
    likely = make(choose="likelihood").observe([A], AnswerNeed(questions=questions))
    assert likely["probability"].to_list() == pytest.approx([0.375, 0.5 / 0.875])


def test_without_probabilities_the_reply_decides(service: Service, make: Any):
    service.reply = lambda _: chat("yes")
    judge = make(logprobs=0)
    row = judge.observe([A], AnswerNeed(questions={"a": (DOG,)}, weighed=True)).row(0, named=True)
    assert (row["value"], row["probability"]) == ("yes", None)
    assert "logprobs" not in service.bodies[0]
    assert judge.summary()[-1] == "1 answers need probabilities, but the service returned none"


@pytest.mark.parametrize(
    ("answers", "tokens", "expected"),
    [
        (("yes", "no"), [("Yes", {"Yes": 0.6, "no": 0.2, "Not": 0.1, "None": 0.05})], (0.6, 0.2)),
        (("yes", "no"), [("Yes,", {"Yes,": 0.6, "No.": 0.2})], (0.6, 0.2)),
        (("yes", "no"), [("\n", {"\n": 0.5, "no": 0.5}), ("yes", {"yes": 0.8, "no": 0.2})], (0.4, 0.6)),
        (("yes", "no"), [("I", {"I": 0.9, "We": 0.1})], None),
        (("yes", "no"), [], None),
        # One answer begins with the other: it goes on, or it ends there.
        (("red", "red hat"), [("red", {"red": 0.8}), (" hat", {" hat": 0.5, ".": 0.5})], (0.4, 0.4)),
        (("red", "red hat"), [("red", {"red": 0.8})], (0.8, 0.0)),
        (("Asian", "African"), [("A", {"A": 0.9}), ("sian", {"sian": 0.7, "frican": 0.3})], (0.63, 0.27)),
    ],
)
def test_likelihoods_by_hand(answers: Any, tokens: Any, expected: Any):
    result = likelihoods(answers, [Token(text, tuple(top.items())) for text, top in tokens])
    assert result == (None if expected is None else pytest.approx(expected))


# --------------------------------------------------------------------------------------------------- asked together
def test_all_questions_about_an_image_in_one_request(service: Service, make: Any):
    results = {"q1": "yes", "q2": "cannot tell"}
    service.reply = lambda body: chat(json.dumps(results) if "male" in text_of(body) else '```json\n{"q1": false}\n```')
    judge = make(ask="together")
    table = judge.observe([A, B, C], AnswerNeed(questions={"a": (DOG, GENDER, DOG), "c": (DOG,)}))
    assert table.select("answer", "value").rows() == [
        ("yes", "yes"), ("cannot tell", None), (None, None), (None, None), ("no", "no"),
    ]  # fmt: skip
    assert len(service.bodies) == 2
    body = next(body for body in service.bodies if "male" in text_of(body))
    assert "q2: male or female? (male / female)" in text_of(body)
    form = body["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["properties"]["q2"] == {"type": "string", "enum": ["male", "female", "cannot tell"]}
    assert form["schema"]["required"] == ["q1", "q2", "q3"]
    assert "logprobs" not in body
    assert "no answer, 1 times: a question left out" in judge.summary()
    service.reply = lambda _: chat("a dog")
    assert judge.observe([C], AnswerNeed(questions={"c": (DOG,)}))["answer"].to_list() == [None]
    assert "no answer, 1 times: the reply is no JSON object" in judge.summary()


# ------------------------------------------------------------------------------------------- names, costs, settings
def test_the_name_tells_what_changes_answers():
    judge = vqa("gpt-x")
    assert judge.name == (
        "openai:gpt-x picture=png temperature=0.0 seed=0 max_tokens=30 logprobs=20 ask=each choose=auto "
        "prompt='{question} Answer with yes or no only.' "
        "choice_prompt='{question} Answer with one of these, and nothing else: {choices}.'"
    )
    for same in ({"concurrency": 9}, {"retries": 1}, {"per_minute": 5}, {"price_input": 1}, {"key_env": VARIABLE}):
        assert vqa("gpt-x", **same).name == judge.name
    for other in (
        {"base_url": "https://h.example/v1"}, {"max_side": 512}, {"seed": None}, {"temperature": 1},
        {"ask": "together"},
        {"prompt": "{question}"}, {"choose": "reply"}, {"extra": {"top_p": 0.5}}, {"system": "Be brief."},
        {"picture": "jpeg"}, {"detail": "low"}, {"logprobs": 5},
    ):  # fmt: skip
        assert vqa("gpt-x", **other).name != judge.name


def test_the_summary_tells_tokens_and_cost(service: Service, make: Any):
    service.reply = lambda _: chat("yes", usage={"prompt_tokens": 1000, "completion_tokens": 10})
    need = AnswerNeed(questions={"a": (DOG, GENDER)})
    judge = make(price_input=3.0, price_output=12.5)
    judge.observe([A], need)
    # 2 x (1000 x 3 + 10 x 12.5) / 1e6 = 0.00625
    assert judge.summary()[1:] == [
        "answered as m-2026-01-01",
        "2,000 tokens read, 20 written, by the service's count",
        "cost about USD 0.01, at your prices; what counts is the service's bill",
    ]
    service.reply = lambda _: chat("yes", usage={"cost": 0.25})
    stated = make()
    stated.observe([A], need)
    assert "cost about USD 0.50, stated by the service; what counts is its bill" in stated.summary()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"prompt": "is it?"}, "prompt must contain {question}"),
        ({"choose": "best"}, "choose must be one of auto, reply, likelihood, not 'best'"),
        ({"ask": "all"}, "ask must be one of each, together"),
        ({"picture": "gif"}, "picture must be one of png, jpeg"),
        ({"logprobs": 21}, "logprobs must lie between 0 and 20"),
        ({"max_side": 3}, "max_side must lie between 16"),
        ({"temperature": -1}, "temperature must lie between 0"),
        ({"per_minute": 0}, "per_minute must lie between"),
        ({"concurrency": 0}, "concurrency must lie between 1 and 256"),
        ({"extra": {"messages": []}}, "extra.messages would overwrite"),
        ({"extra": {"api_key": "x"}}, "extra.api_key looks like a secret"),
        ({"base_url": "http://elsewhere.example/v1", "key_env": "K"}, "send the key unencrypted"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], says: str):
    with pytest.raises(UsageError, match=says):
        vqa("m", **options)
    with pytest.raises(UsageError, match="name a model"):
        OpenAIVqa("")


def test_captions_and_why_there_is_none(service: Service):
    service.reply = lambda _: chat("A dog\non grass. ") if len(service.bodies) == 1 else chat(None, refusal="No.")
    judge = OpenAICaptioner("m", service=ServiceOptions(base_url=service.base, concurrency=1))
    table = judge.observe([A, B], CaptionNeed())
    assert table.select("image_id", "text", "note").rows() == [
        ("a#0", "A dog on grass.", None), ("b#0", None, "refused: No."),
    ]  # fmt: skip
    assert text_of(service.bodies[0]) == "Describe this picture in one short sentence."
    assert service.keys == [None, None]  # no key was named for this service
    judge.close()


def test_texts_are_read_and_why_there_is_none(service: Service):
    replies = {1: chat("```\n OPEN \n\n till 8\n```"), 2: chat("NO TEXT."), 3: chat(None, refusal="No.")}
    service.reply = lambda _: replies[len(service.bodies)]
    judge = OpenAIOcr("m", service=ServiceOptions(base_url=service.base, concurrency=1))
    table = judge.observe([A, B, C], OcrNeed())
    assert table.select("image_id", "level", "text", "note").rows() == [
        ("a#0", "image", "OPEN\ntill 8", None), ("b#0", "image", "", None), ("c#0", "image", None, "refused: No."),
    ]  # fmt: skip
    assert text_of(service.bodies[0]) == INSTRUCTION
    judge.close()


def test_texts_are_asked_for_as_the_suite_says_unless_the_user_says_otherwise(service: Service):
    service.reply = lambda _: chat("No text recognized")
    options = ServiceOptions(base_url=service.base, concurrency=1)
    need = OcrNeed(instruction="Recognize the text.")
    of_suite = OpenAIOcr("m", service=options).observe([A], need)
    of_user = OpenAIOcr("m", prompt="Read.", service=options)
    of_user.observe([A], need)
    assert [text_of(body) for body in service.bodies] == ["Recognize the text.", "Read."]
    # What the suite's own instruction calls no text is for its rules to know.
    assert of_suite["text"].to_list() == ["No text recognized"]
    assert of_user.name.endswith("prompt='Read.'")


def test_by_their_names(service: Service):
    judge = make_judge("openai:m?ask=together&seed=none&extra.top_p=0.5", Context(base_url=service.base), "vqa")
    judge.observe([A], AnswerNeed(questions={"a": (DOG,)}))
    assert service.bodies[0]["top_p"] == 0.5
    assert "seed" not in service.bodies[0]
    captioner = make_judge(f"openai:m?base_url={service.base}", Context(), "captioner")
    assert captioner.observe([A], CaptionNeed())["text"].to_list() == ["Yes."]
    assert service.bodies[0]["response_format"]["type"] == "json_schema"
    with pytest.raises(UsageError, match=r"openai: unknown option 'sise'. Did you mean"):
        make_judge("openai:m?sise=3", Context(), "vqa")
