"""Images from services with OpenAI's interface, against a local server that misbehaves in every way it can.

Nothing here waits for long: pauses between tries pass on a clock of the tests' own.
"""

import base64
import io
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import zlib
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image as PilImage
from service_fakes import FakeClock, grouped

from verism.errors import UsageError, VerismError
from verism.generators import openai_images, openai_prices
from verism.generators.openai_images import ImageOptions, OpenAIImages, decode_image
from verism.records import Prompt, Request
from verism.services import HIDDEN, LOOK_AHEAD, OPENAI, ServiceOptions, TransientError, parse_extra
from verism.services.addresses import check_base_url
from verism.services.retry import MAX_WAIT, Clock

VARIABLE = "VERISM_TEST_KEY"


def the_key() -> str:
    """Not a constant: tracebacks with variables are searched for it, and must not find the tests' own."""
    return "sk-proj-" + "Zq7" * 9 + "_end"


# --------------------------------------------------------------------------------------------------------------------
# The service
# --------------------------------------------------------------------------------------------------------------------
def image_file(color=(200, 30, 40), form="PNG", mode="RGB", size=(6, 4), **options) -> bytes:
    image = PilImage.new("RGB", size, color).convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def color_of(prompt: str) -> tuple[int, int, int]:
    return tuple(zlib.crc32(prompt.encode("utf-8", "surrogatepass")).to_bytes(4, "big")[:3])


def as_json(data: bytes, **item) -> dict:
    return {"created": 1, "data": [{"b64_json": base64.b64encode(data).decode(), **item}]}


def reply(content, status=200, headers=None, kind="application/json"):
    """A handler's answer; ``content`` is bytes or goes out as JSON."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()

    def send(handler):
        handler.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return send


def error(status, message="oh", headers=None, **fields):
    return reply({"error": {"message": message, "type": "x_error", **fields}}, status, headers)


def painted(handler):
    reply(as_json(image_file(color_of(handler.body["prompt"]))))(handler)


def close_before_answering(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def cut_body(handler):
    data = json.dumps(as_json(image_file())).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.wfile.flush()
    handler.close_connection = True


def cut_chunks(handler):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b'9\r\n{"created\r\n')
    handler.wfile.flush()
    handler.close_connection = True


def hang(handler):
    handler.server.released.wait(10)
    handler.close_connection = True


def drip(handler):
    """A byte now and then: no single wait is long, but the whole never ends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not handler.server.released.wait(0.04):
        handler.wfile.write(b" ")
        handler.wfile.flush()
    handler.close_connection = True


class Service(ThreadingHTTPServer):
    """Answers each prompt with the next of its planned replies, and with an image when they are used up.

    ``always`` replaces the image. ``log``: what was asked, as (path, headers, body, time by the tests' clock).
    """

    daemon_threads, block_on_close, request_queue_size = True, False, 64

    def __init__(self, clock):
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan, self.always, self.clock = {}, painted, clock
        self.log, self.active, self.most_active = [], 0, 0
        self.lock, self.released = threading.Lock(), threading.Event()
        self.files = {}
        self.root = f"http://127.0.0.1:{self.server_port}"
        self.base = f"{self.root}/v1"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def handle_error(self, request, client_address):  # connections that break are what this is for
        pass

    @property
    def posts(self):
        return [entry for entry in self.log if entry[2] is not None]

    def stop(self):
        self.released.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet per answer: small writes would wait for acknowledgements

    def log_message(self, *_):
        pass

    def do_POST(self):
        server = self.server
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.log.append((self.path, dict(self.headers), self.body, server.clock()))
            server.active += 1
            server.most_active = max(server.most_active, server.active)
            planned = server.plan.get(self.body["prompt"])
            send = planned.pop(0) if planned else server.always
        try:
            send(self)
        finally:
            with server.lock:
                server.active -= 1

    def do_GET(self):
        with self.server.lock:
            self.server.log.append((self.path, dict(self.headers), None, self.server.clock()))
            send = self.server.files.get(self.path, error(404, "no such file"))
            if isinstance(send, list):
                send = send.pop(0) if len(send) > 1 else send[0]
        send(self)


@pytest.fixture
def fake_time():
    return FakeClock()


@pytest.fixture
def service(fake_time):
    server = Service(fake_time.now)
    yield server
    server.stop()


@pytest.fixture
def other(fake_time):
    """A second host: another port is another origin."""
    server = Service(fake_time.now)
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in [*os.environ]:
        if name.lower().endswith("_proxy") or name.startswith("OPENAI_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv(VARIABLE, the_key())


def images(model="m", **options):
    """A generator by options that are given flat."""
    return OpenAIImages(model, **grouped({"image": ImageOptions, "service": ServiceOptions}, options))


@pytest.fixture
def make(service, fake_time):
    """Generators that ask the local service; closed in the end."""
    made = []

    def build(model="painter-1", clock=fake_time, **options):
        made.append(images(model, **{"base_url": service.base, "key_env": VARIABLE, "timeout": 5, **options}))
        made[-1].client.limiter.clock = clock
        return made[-1]

    yield build
    for generator in made:
        generator.close()


def requests_of(*texts, seed=7):
    return [
        Request(image_id=f"p{i}#0", prompt=Prompt(prompt_id=f"p{i}", suite="s", text=text), index=0, seed=seed + i)
        for i, text in enumerate(texts)
    ]


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def pieces(secret, size=8):
    return {secret[i : i + size] for i in range(len(secret) - size + 1)} - {"sk-proj-"}


@pytest.fixture
def ask(caplog):
    """Run a generator and search everything it leaves behind for the key, or for pieces of it."""
    caplog.set_level(logging.DEBUG)

    def run(generator, *texts, seed=7):
        results, caught = [], None
        try:
            results.extend(generator.generate(requests_of(*texts, seed=seed)))
        except VerismError as err:
            caught = err
        left = [repr(generator), generator.name, json.dumps(generator.describe()), *generator.summary(), caplog.text]
        left += [r.note for r in results] + [repr(r) for r in results]
        left += [repr(vars(generator)), repr(vars(generator.client))]
        left += generator.estimate(requests_of(*texts))
        if caught is not None:
            left += traceback.TracebackException.from_exception(caught, capture_locals=True).format()
            left.append(repr(caught))
        text = "\n".join(left)
        assert not [p for p in pieces(the_key()) if p.lower() in text.lower()], "the key leaked"
        if caught is not None:
            caught.before = results
            raise caught
        return results

    return run


# --------------------------------------------------------------------------------------------------------------------
# What works
# --------------------------------------------------------------------------------------------------------------------
ODD_PROMPTS = ['two\nlines\t"quoted" \\ back', "ein Fuß, 猫 und 🐈", "\u2028\x00 null", "a\ud800lone", "x" * 5000]


def test_images_come_in_order_and_prompts_arrive_as_they_are(make, service, ask):
    results = ask(make(size="64x64"), *ODD_PROMPTS)
    assert [r.image_id for r in results] == [f"p{i}#0" for i in range(5)]
    for result, prompt in zip(results, ODD_PROMPTS):
        assert (result.state, result.note, result.seeded) == ("ok", "", False)
        np.testing.assert_array_equal(result.pixels, np.broadcast_to(np.uint8(color_of(prompt)), (4, 6, 3)))
    by_prompt = {body["prompt"]: (path, headers, body) for path, headers, body, _ in service.posts}
    assert set(by_prompt) == set(ODD_PROMPTS)
    for path, headers, body in by_prompt.values():
        assert path == "/v1/images/generations"
        assert body == {"model": "painter-1", "prompt": body["prompt"], "n": 1, "size": "64x64"}
        assert headers["Authorization"] == f"Bearer {the_key()}"


def test_never_more_at_once_than_allowed_and_order_kept(make, service):
    def slow_at_first(handler):
        if len(service.posts) <= 3:
            wait_until(lambda: len(service.posts) >= 3)
            time.sleep(0.25)  # time for a fourth that must not come
        elif handler.body["prompt"][-1] in "369":
            time.sleep(0.003)
        painted(handler)

    service.always = slow_at_first
    texts = [f"image {i}" for i in range(40)]
    results = list(make(concurrency=3).generate(requests_of(*texts)))
    assert [tuple(r.pixels[0, 0]) for r in results] == [color_of(t) for t in texts]
    assert service.most_active == 3


def test_a_taker_that_waits_is_not_flooded(make, service):
    results = make(concurrency=2).generate(requests_of(*map(str, range(100))))
    next(results)
    wait_until(lambda: len(service.posts) >= 2 * LOOK_AHEAD)
    time.sleep(0.1)
    assert len(service.posts) == 2 * LOOK_AHEAD  # the one taken, and what may lie ready; not a hundred
    next(results)
    results.close()


def test_nothing_asked_nothing_done(make, service, monkeypatch):
    monkeypatch.delenv(VARIABLE)  # a finished run needs no key
    assert list(make().generate([])) == []
    assert service.log == []


@pytest.mark.parametrize(
    ("data", "expected", "note"),
    [
        pytest.param(image_file(form="JPEG", quality=95), (200, 30, 40), "", id="jpeg"),
        pytest.param(image_file(form="WEBP", lossless=True), (200, 30, 40), "", id="webp"),
        pytest.param(image_file(form="GIF"), (200, 30, 40), "", id="gif"),
        pytest.param(image_file(mode="P"), None, "", id="palette"),
        pytest.param(image_file((80, 80, 80), mode="L"), (80, 80, 80), "", id="grey"),
        pytest.param(image_file(form="JPEG", mode="CMYK", quality=95), (200, 30, 40), "converted from CMYK", id="cmyk"),
    ],
)
def test_every_usual_format_becomes_rgb(make, service, ask, data, expected, note):
    service.always = reply(as_json(data))
    (result,) = ask(make(), "p")
    assert (result.state, result.note, result.pixels.shape, result.pixels.dtype) == ("ok", note, (4, 6, 3), np.uint8)
    if expected is not None:
        assert np.abs(result.pixels[0, 0].astype(int) - expected).max() <= 6  # JPEG is lossy


def test_transparency_lies_over_white_and_exif_turns(make, service, ask):
    buffer = io.BytesIO()
    PilImage.new("RGBA", (6, 4), (200, 0, 0, 51)).save(buffer, "PNG")
    service.plan["glass"] = [reply(as_json(buffer.getvalue()))]
    exif = PilImage.Exif()
    exif[0x0112] = 6
    service.plan["turned"] = [reply(as_json(image_file(form="JPEG", exif=exif)))]
    glass, turned = ask(make(), "glass", "turned")
    # 51 / 255 = a fifth of red over white: 0.2 * (200, 0, 0) + 0.8 * 255 = (244, 204, 204)
    assert glass.pixels[0, 0].tolist() == [244, 204, 204]
    assert glass.note == "transparency laid over white"
    assert turned.pixels.shape == (6, 4, 3)
    assert turned.note == "turned upright by its EXIF tag"


def test_a_revised_prompt_is_kept_in_the_note(make, service, ask):
    revised = f'A "red"\n\x1b[31mcat\ud800 with key {the_key()}, basic shapes, a torch bearer walking'
    service.always = reply(as_json(image_file(), revised_prompt=revised))
    (result,) = ask(make("dall-e-3"), "a cat")
    assert result.note == f'revised prompt: A "red" [31mcat? with key {HIDDEN}, basic shapes, a torch bearer walking'
    json.dumps(result.note).encode()
    service.always = reply(as_json(image_file(), revised_prompt="a cat"))
    assert ask(make(), "a cat")[0].note == ""  # nothing was revised


def test_seeds_are_sent_where_the_service_takes_them(make, service, ask):
    results = ask(make(seed_field="seed"), "a", "b", seed=41)
    assert sorted((body["prompt"], body["seed"]) for _, _, body, _ in service.posts) == [("a", 41), ("b", 42)]
    assert all(r.seeded for r in results)


@pytest.mark.parametrize(
    ("model", "asked"), [("dall-e-2", "b64_json"), ("dall-e-3", "b64_json"), ("gpt-image-1", None), ("flux", None)]
)
def test_base64_is_asked_for_only_where_the_question_is_understood(make, service, ask, model, asked):
    ask(make(model), "p")
    assert service.posts[0][2].get("response_format") == asked


# --------------------------------------------------------------------------------------------------------------------
# What may pass
# --------------------------------------------------------------------------------------------------------------------
TRUNCATED = image_file((1, 2, 3), size=(64, 64))[:-40]
BROKEN = [
    # reply, what the note says, whether a complete answer came (and another one must be asked for)
    pytest.param(error(500, "no", {"x-request-id": "r_1"}), "HTTP 500: no (x_error; request r_1)", True, id="500"),
    pytest.param(error(502, "bad gateway"), "HTTP 502: bad gateway", False, id="502"),
    pytest.param(
        reply(b"<html><title>Sorry\n!</title>" + b"<p>" * 900, 503, kind="text/html"),
        "HTTP 503: an HTML page titled 'Sorry\\n!'", False, id="503 page",
    ),
    pytest.param(reply(b"<!doctype html>", 504), "HTTP 504: an HTML page", False, id="page without title"),
    pytest.param(reply(b"", 529), "HTTP 529", False, id="empty"),
    pytest.param(reply({"detail": "queue full"}, 408), "HTTP 408: queue full", False, id="408"),
    pytest.param(reply({"message": "locked"}, 409), "HTTP 409: locked", False, id="409"),
    pytest.param(reply({"error": "slow down"}, 429), "HTTP 429: slow down", False, id="429"),
    pytest.param(reply([{"error": {"message": "full", "code": 429}}], 429), "HTTP 429: full (429)", False, id="list"),
    pytest.param(close_before_answering, "the connection broke", False, id="closed before"),
    pytest.param(cut_body, "the connection broke", False, id="cut body"),
    pytest.param(cut_chunks, "the connection broke", False, id="cut chunks"),
    pytest.param(
        reply(b"not gzip", headers={"Content-Encoding": "gzip"}), "the connection broke", False, id="no gzip"
    ),
    pytest.param(reply(b'{"data": ['), "HTTP 200, but the answer is no JSON", True, id="invalid json"),
    pytest.param(reply(b"[" * 100_000), "HTTP 200, but the answer is no JSON", True, id="deep json"),
    pytest.param(reply({"error": {"code": [[1]], "type": {"a": 2}}}, 500), "HTTP 500", True, id="odd codes"),
    pytest.param(reply([1]), "HTTP 200, but the answer is no JSON object", True, id="json list"),
    pytest.param(reply({"created": 1}), "the answer holds no image", True, id="no data"),
    pytest.param(reply({"data": []}), "the answer holds no image", True, id="empty data"),
    pytest.param(reply({"data": None}), "the answer holds no image", True, id="null data"),
    pytest.param(reply({"data": ["x"]}), "the answer holds no image", True, id="odd item"),
    pytest.param(reply({"data": [{"b64_json": None, "url": ""}]}), "holds no image", True, id="empty item"),
    pytest.param(reply({"error": {"message": "odd"}}), "HTTP 200: odd", True, id="error in 200"),
    pytest.param(reply({"data": [{"b64_json": "a-b!"}]}), "no valid base64", True, id="base64"),
    pytest.param(reply({"data": [{"b64_json": "abcde"}]}), "no valid base64", True, id="base64 padding"),
    pytest.param(  # a lenient reader would skip the foreign characters
        reply({"data": [{"b64_json": "iVBO!!!!" + base64.b64encode(image_file()).decode()[4:]}]}),
        "no valid base64", True, id="base64 holes",
    ),
    pytest.param(reply(as_json(b"hello")), "not an image", True, id="no image"),
    pytest.param(reply(as_json(TRUNCATED)), "damaged or cut off", True, id="truncated"),
    pytest.param(reply(as_json(image_file(form="TGA"))), "of a format that is not supported", True, id="format"),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "says", "answered"), BROKEN)
def test_what_may_pass_is_tried_again(make, service, fake_time, ask, broken, says, answered):
    service.plan["a"] = [broken]
    service.plan["b"] = [broken] * 3
    generator = make(retries=2, concurrency=1)
    first, second = ask(generator, "a", "b")
    assert (first.state, first.note) == ("ok", "")
    assert second.state == "failed"
    assert says in second.note
    assert second.note.endswith("; gave up after 3 tries")
    assert len(service.posts) == 2 + 3
    # Three pauses, drawn from 0 to 1, 0 to 1 and 0 to 2 seconds (crowding makes the gate wait up to a quarter longer).
    assert len(fake_time.waits) == 3
    assert all(0 <= s <= 1.25 * top for s, top in zip(fake_time.waits, (1, 1, 2)))
    assert generator.summary()[0].startswith("5 requests (3 retries) in ")
    assert generator.summary()[0].endswith("s: 1 images, 0 refused, 1 failed")
    # A retry is the same request to a service that knows such keys, unless it would give the same useless answer.
    keys = [headers["Idempotency-Key"] for _, headers, body, _ in service.posts if body["prompt"] == "b"]
    assert len(set(keys)) == (3 if answered else 1)


@pytest.mark.parametrize("slow", [hang, drip])
def test_too_slow_an_answer_is_tried_again(make, service, ask, slow):
    service.plan["a"] = [slow]
    service.plan["b"] = [slow, slow]
    first, second = ask(make(timeout=0.5, retries=1), "a", "b")
    assert first.state == "ok"
    assert second.state == "failed"
    assert second.note.endswith("answer within 0.5 s; gave up after 2 tries")


def test_without_retries_one_try_is_all(make, service, ask):
    service.plan["a"] = [error(500)]
    (result,) = ask(make(retries=0), "a")
    assert result.note == "HTTP 500: oh (x_error); gave up after 1 try"


def test_the_service_says_how_long_to_wait(make, service, fake_time, ask):
    service.plan["a"] = [
        error(503, headers={"Retry-After": "17"}),
        error(500, headers={"retry-after-ms": "2500", "Retry-After": "9"}),
        error(500, headers={"Retry-After": "86400"}),
        error(500, headers={"Retry-After": "0"}),
    ]
    assert ask(make(), "a")[0].state == "ok"
    crowd, exact, capped, soon = fake_time.waits
    assert 17 <= crowd <= 17 * 1.25  # shared by all, who then do not start in the same moment
    assert (exact, capped) == (2.5, MAX_WAIT)
    assert 0 < soon < 8  # as if it had not said "at once"


def test_after_a_429_all_workers_wait(make, service, fake_time):
    fake_time.nap_s = 0.6  # long enough for the other worker to ask, if it does not wait too
    both = threading.Barrier(2, timeout=5)
    limited = threading.Event()

    def refuse(handler):
        both.wait()
        error(429, headers={"Retry-After": "7"})(handler)
        limited.set()

    def answer_after_the_refusal(handler):
        both.wait()
        limited.wait(5)
        time.sleep(0.15)  # the refusal has been read by now
        painted(handler)

    service.plan["a"] = [refuse]
    service.plan["b"] = [answer_after_the_refusal]
    # One worker is refused, and what the other asks for next, though it was not refused itself, comes 7 s later too.
    results = list(make(concurrency=2).generate(requests_of("a", "b", "c", "d")))
    assert [r.state for r in results] == ["ok"] * 4
    times = {(body["prompt"], n): at for n, (_, _, body, at) in enumerate(service.posts)}
    assert [at for (_, n), at in times.items() if n < 2] == [1000, 1000]
    assert all(at >= 1007 for (_, n), at in times.items() if n >= 2)
    assert len(times) == 5


def test_the_idempotency_key_is_of_the_image_and_not_of_the_run(make, service, ask):
    def key_of(*, seed=7, position=0, **options):
        service.log.clear()
        ask(make(**options), *["a"] * (position + 1), seed=seed)
        (results,) = {h["Idempotency-Key"] for _, h, _, _ in service.posts[:1]}
        return results

    assert key_of() == key_of(concurrency=1, timeout=9, retries=1)
    assert len({key_of(), key_of(seed=8), key_of(size="1x1"), key_of(model="painter-2")}) == 4
    service.log.clear()
    first, second = requests_of("a", "a")  # two images of one prompt, whatever their seeds
    assert len(list(make().generate([first, replace(second, seed=first.seed)]))) == 2
    assert len({h["Idempotency-Key"] for _, h, _, _ in service.posts}) == 2


# --------------------------------------------------------------------------------------------------------------------
# What does not pass
# --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fatal", "says"),
    [
        (error(401, "Incorrect API key", code="invalid_api_key"), "Check the key in VERISM_TEST_KEY"),
        (error(403, "Your organization must be verified"), "verified"),
        (reply(b"<html>denied", 403), "HTTP 403: an HTML page"),
        (error(404, "The model `painter-1` does not exist", code="model_not_found"), "Check the name of the model"),
        (reply(b"404 page not found", 404), "HTTP 404: 404 page not found. Check the name of the model, and base_url"),
        (error(400, "no such model", code="model_not_found"), "HTTP 400: no such model"),
        (error(402, "pay"), "no credit or quota"),
        (error(429, "You exceeded your current quota", code="insufficient_quota"), "no credit or quota"),
        (error(429, "You exceeded your current quota", type="insufficient_quota"), "no credit or quota"),
        (error(400, "Billing hard limit", code="billing_hard_limit_reached"), "no credit or quota"),
        (reply({"error": {"message": "no quota", "code": "insufficient_quota"}}), "no quota left"),
        (error(400, "Invalid size", param="size"), "It concerns 'size', which every request holds"),
        (reply({"detail": [{"loc": ["body", "size"], "msg": "bad"}]}, 422), "It concerns 'size'"),
    ],
)
def test_what_concerns_every_image_ends_the_run_at_once(make, service, ask, fatal, says):
    # Two are under way when the third brings the bad news: they are paid for, and kept.
    texts = ["first", "second", *["rest"] * 500]
    service.always = lambda handler: (
        wait_until(lambda: {"first", "second"} <= {body["prompt"] for _, _, body, _ in service.posts}),
        (painted if handler.body["prompt"] != "rest" else fatal)(handler),
    )
    with pytest.raises(UsageError) as err:
        ask(make(concurrency=3, size="9x9"), *texts)
    assert says in str(err.value)
    assert [r.image_id for r in err.value.before] == ["p0#0", "p1#0"]
    assert len(service.posts) <= 2 + 3


def test_the_end_of_a_run_wakes_those_that_wait(make, service):
    stuck = threading.Event()
    service.plan["waits"] = [lambda h: (error(500, headers={"Retry-After": "100"})(h), stuck.set())]
    service.plan["ends"] = [lambda h: (stuck.wait(5), error(401)(h))]
    began = time.monotonic()
    with pytest.raises(UsageError, match="HTTP 401"):
        list(make(clock=Clock()).generate(requests_of("waits", "ends")))
    assert time.monotonic() - began < 10


POLICY = "Your request was rejected as a result of our safety system. It's about a \x1b[1mcat"
SHOWN = "Your request was rejected as a result of our safety system. It's about a [1mcat"


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        (error(400, POLICY, code="content_policy_violation"), f"HTTP 400: {SHOWN} (content_policy_violation, x_error)"),
        (error(400, "no", code="moderation_blocked"), "HTTP 400: no (moderation_blocked, x_error)"),
        (error(400, POLICY), f"HTTP 400: {SHOWN} (x_error)"),
        (error(403, "no", code="content_policy_violation"), "HTTP 403: no (content_policy_violation, x_error)"),
        (reply({"message": "flagged by moderation"}, 422), "HTTP 422: flagged by moderation"),
        (
            error(400, "filtered", inner_error={"code": "ResponsibleAIPolicyViolation"}),
            "HTTP 400: filtered (responsibleaipolicyviolation, x_error)",
        ),
        (reply({"error": {"message": "no", "code": "content_filter"}}), "HTTP 200: no (content_filter)"),
        (reply({"data": [], "message": "This violates our content policy"}), "This violates our content policy"),
        (reply({"data": [{"refusal": "I cannot draw that."}]}), "I cannot draw that."),
        (reply({"data": [{"finish_reason": "content_filter"}]}), "no image: finish_reason 'content_filter'"),
        (reply({"data": [{"b64_json": "", "respect_moderation": False}]}), "no image: respect_moderation is false"),
        (
            reply({"data": [{"prompt_filter_results": {"hate": {"filtered": True}}}]}),
            'prompt_filter_results: {"hate": {"filtered": true}}',
        ),
    ],
)
def test_refusals_are_kept_with_the_reason_and_not_asked_again(make, service, ask, refusal, says):
    service.plan["no"] = [refusal]
    generator = make()
    first, second = ask(generator, "no", "yes")
    assert (first.state, first.note, first.pixels) == ("refused", says, None)
    assert second.state == "ok"
    assert len(service.posts) == 2
    assert "1 images, 1 refused, 0 failed" in generator.summary()[0]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (error(400, "The prompt is too long.", param="prompt"), "HTTP 400: The prompt is too long (x_error)"),
        (error(400, "Unknown parameter: 'moderation'."), "HTTP 400: Unknown parameter: 'moderation' (x_error)"),
        (error(413, "x" * 5000), "HTTP 413: " + "x" * 399 + "… (x_error)"),
        (reply({"error": None}, 418), "HTTP 418"),
    ],
)
def test_other_complaints_are_failures_of_that_image(make, service, ask, bad, says):
    service.plan["no"] = [bad]
    first, second = ask(make(), "no", "yes")
    assert (first.state, first.note) == ("failed", says)
    assert second.state == "ok"
    assert len(service.posts) == 2


def png_claiming(width, height):
    """A PNG file whose header promises that many pixels and which holds none of them."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9000, 60_000])  # 81 million pixels; 3.6 thousand million, where Pillow itself stops
def test_decompression_bombs_are_not_decoded(make, service, ask, side):
    service.plan["bomb"] = [reply(as_json(png_claiming(side, side)))]
    (result,) = ask(make(), "bomb")
    assert result.state == "failed"
    assert "the limit is 33,554,432 pixels" in result.note
    assert len(service.posts) == 1


def test_endless_answers_are_cut_off(make, service, ask, monkeypatch):
    monkeypatch.setattr(openai_images, "MAX_ANSWER", 1 << 20)
    squeezed = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = squeezed.compress(b" " * (3 << 20)) + squeezed.flush()  # three MiB in three kB
    service.plan["a"] = [reply(data, headers={"Content-Encoding": "gzip"})]
    (result,) = ask(make(), "a")
    assert (result.state, result.note) == ("failed", "the service sent more than 1 MiB for one image")


def test_other_programs_are_not_started_for_a_image():
    with pytest.raises(TransientError, match="not supported"):
        decode_image(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n")


def test_per_minute_spreads_images_and_their_downloads_are_free(make, service, other, ask):
    other.files["/x.png"] = reply(image_file())
    service.always = at(f"{other.root}/x.png")
    assert [r.state for r in ask(make(per_minute=12, concurrency=1), "a", "b", "c")] == ["ok"] * 3
    assert [moment for *_, moment in service.posts] == [1000, 1005, 1010]  # 60 / 12 = 5 seconds


def test_a_service_that_cannot_be_reached_ends_the_run(make, ask):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        UsageError, match=rf"http://127.0.0.1:{port}/v1 cannot be reached: no connection .*after 3 tries"
    ):
        ask(make(base_url=f"http://127.0.0.1:{port}/v1", retries=2), *["a"] * 50)


def test_a_service_that_goes_away_costs_single_images(make, service, ask):
    generator = make(retries=1)
    assert ask(generator, "a")[0].state == "ok"
    service.stop()
    service.plan["b"] = [close_before_answering]  # over the connection that is still open
    (result,) = ask(generator, "b")
    assert result.state == "failed"
    assert "after 2 tries" in result.note


def test_a_fault_of_ours_is_raised_and_does_not_hang(make, monkeypatch):
    monkeypatch.setattr(openai_images, "decode_image", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        list(make().generate(requests_of("a", "b")))


# --------------------------------------------------------------------------------------------------------------------
# Addresses of images, redirections
# --------------------------------------------------------------------------------------------------------------------
def at(url):
    return reply({"data": [{"url": url}]})


def test_images_are_fetched_without_the_key_from_elsewhere(make, service, other, ask):
    other.files["/x.png?sig=1"] = [error(503), close_before_answering, error(429), reply(image_file((1, 2, 3)))]
    service.files["/own.png"] = reply(image_file((4, 5, 6)))
    service.files["/away.png"] = reply(b"", 302, {"Location": f"{other.root}/x.png?sig=1"})
    service.plan["there"] = [at(f"{other.root}/x.png?sig=1")]
    service.plan["own"] = [at("/own.png")]
    service.plan["away"] = [at(f"{service.root}/away.png")]
    service.plan["inline"] = [at("data:image/png;base64," + base64.b64encode(image_file((7, 8, 9))).decode())]
    results = ask(make(concurrency=1), "there", "own", "away", "inline")
    assert [r.pixels[0, 0].tolist() for r in results] == [[1, 2, 3], [4, 5, 6], [1, 2, 3], [7, 8, 9]]
    assert len(other.log) == 5  # three failures, then twice the image
    for _, headers, _, _ in other.log:
        assert "Authorization" not in headers
        assert the_key() not in str(headers)
    assert {h.get("Authorization") for p, h, _, _ in service.log if p == "/own.png"} == {f"Bearer {the_key()}"}
    assert len(service.posts) == 4  # what was made is not made again


@pytest.mark.parametrize(
    ("url", "says", "gets"),
    [
        ("{other}/gone.png", "fetched: its address at 127.0.0.1 answered HTTP 404", 1),
        ("{other}/down.png", "fetched: its address at 127.0.0.1 answered HTTP 500; gave up after 3 tries", 3),
        ("http://127.0.0.1:9/x.png", "fetched: no connection", 0),
        ("{other}/loop.png", "redirects more than 5 times", 6),
        ("file:///etc/passwd", "is none that can be fetched", 0),
        ("http://[", "is none that can be fetched", 0),
        ("http://x:99999/", "is none that can be fetched", 0),
        ("http://\x7f/", "is none that can be fetched", 0),
    ],
)
def test_dead_addresses_of_images(make, service, other, ask, url, says, gets):
    other.files["/down.png"] = error(500)
    other.files["/loop.png"] = reply(b"", 301, {"Location": "/loop.png"})
    service.plan["a"] = [at(url.format(other=other.root))]
    first, second = ask(make(retries=2), "a", "b")
    assert first.state == "failed"
    assert first.note.startswith("the image was made but ") or "redirects" in first.note
    assert says in first.note
    assert second.state == "ok"
    assert len(other.log) == gets
    assert len(service.posts) == 2


def test_a_page_instead_of_a_image(make, service, other, ask):
    other.files["/x.png"] = [reply(b"<html>login"), reply(image_file())]
    service.plan["a"] = [at(f"{other.root}/x.png")] * 2
    (result,) = ask(make(), "a")
    assert result.state == "ok"
    assert len(service.posts) == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_key_does_not_follow_redirections(make, service, other, ask, status):
    service.always = reply(b"", status, {"Location": f"{other.base}/images/generations?x={the_key()}"})
    with pytest.raises(UsageError, match=rf"redirects to '{other.base}/images/generations'.*give it as base_url"):
        ask(make(), *["a"] * 20)
    assert other.log == []


# --------------------------------------------------------------------------------------------------------------------
# Secrets
# --------------------------------------------------------------------------------------------------------------------
ECHOES = {
    "whole": lambda key: f"Incorrect API key provided: {key}. You can find it",
    "shown with stars": lambda key: f"Incorrect API key provided: {key[:12]}****{key[-4:]}.",
    "first half": lambda key: f"key {key[: len(key) // 2]} is wrong",
    "second half": lambda key: f"key ...{key[len(key) // 2 :]} is wrong",
    "other case": lambda key: f"key {key.upper()} is wrong",
    "in a word": lambda key: f"xx{key}yy",
    "header": lambda key: f"Authorization: Bearer {key}",
    "json": lambda key: json.dumps({"Authorization": f"Bearer {key}", "api_key": key}),
    "far": lambda key: " " * 600 + "x" * 390 + " " + key,
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.parametrize("key", ["sk", "other"])
def test_a_key_that_the_service_sends_back_is_hidden(make, service, ask, monkeypatch, echo, key):
    if key == "other":  # keys of other services look like nothing in particular
        monkeypatch.setenv(VARIABLE, the_key().removeprefix("sk-proj-").replace("_", "A"))
        monkeypatch.setattr(sys.modules[__name__], "the_key", lambda: os.environ[VARIABLE])
    text = echo(the_key())
    service.plan["failed"] = [error(400, text, code=text[:60], param="prompt")]
    service.plan["refused"] = [error(400, text, code="content_policy_violation", type=text)]
    service.plan["later"] = [error(500, text, {"x-request-id": the_key()})] * 2
    service.plan["page"] = [reply(text.encode())] * 2
    service.plan["title"] = [reply(f"<title>{text}".encode() + b"</title>", 503)] * 2
    service.plan["words"] = [reply({"data": [{"refusal": text}]})]
    service.plan["fine"] = [reply({**as_json(image_file(), revised_prompt=text), "quality": text, "model": the_key()})]
    results = ask(make(retries=1), *service.plan)
    assert [r.state for r in results] == ["failed", "refused", "failed", "failed", "failed", "refused", "ok"]
    for fatal in (error(401, text), error(401, code=the_key()), error(401, headers={"x-request-id": the_key()})):
        service.always = fatal
        with pytest.raises(UsageError, match="HTTP 401"):
            ask(make(), "a")


@pytest.mark.parametrize("text", ["x" * 10**6, "moderation " * 10**5, "*" * 10**6, "bearer " * 10**5, "<title" * 10**5])
def test_hostile_texts_take_no_time(make, service, ask, text):
    began = time.process_time()
    service.plan["a"] = [error(400, text, param="prompt")]
    service.plan["b"] = [reply(text.encode())]
    first, second = ask(make(retries=0), "a", "b")
    assert (first.state, second.state) == ("failed", "failed")
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "url",
    [
        "https://me:pw-123456@host/v1",
        "https://tok-123456@host/v1",
        "https://host/v1?key=pw-123456",
        "https://host/v1#pw-123456",
        "https://host?pw-123456",
    ],
)
def test_addresses_with_secrets_are_refused_and_not_repeated(url):
    with pytest.raises(UsageError, match=r"which (would be|may be a key)") as err:
        images("m", base_url=url)
    assert "123456" not in str(err.value)


@pytest.mark.parametrize(
    "url", ["ftp://host/v1", "host/v1", "", "https://", "http://[", "https://a b/v1", "https://h:x/v1"]
)
def test_addresses_that_are_none(url):
    with pytest.raises(UsageError, match=r"base_url: (expected an|not an) address"):
        images("m", base_url=url)


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("http://example.org/v1", False),
        ("http://10.0.0.5:8000/v1", False),
        ("http://localhost.example.org/v1", False),
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.53/v1", True),
        ("http://[::1]:80/v1", True),
        ("https://example.org/v1", True),
    ],
)
def test_keys_travel_encrypted_or_not_at_all(url, fine):
    check_base_url(url, option="base_url", has_key=False, allow_http=False)
    check_base_url(url, option="base_url", has_key=True, allow_http=True)
    if fine:
        check_base_url(url, option="base_url", has_key=True, allow_http=False)
    else:
        with pytest.raises(UsageError, match=r"send the key unencrypted.*allow_http=true"):
            images("m", base_url=url, key_env=VARIABLE)


def test_openais_key_goes_to_openai_alone_unless_told(make, service, ask, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", the_key())
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    ask(make(key_env=None), "a")
    ask(make(key_env="OPENAI_API_KEY", organization_env="OPENAI_ORG_ID"), "a")
    silent, result = (headers for _, headers, _, _ in service.posts)
    assert not {"Authorization", "OpenAI-Organization"} & set(silent)
    assert (result["Authorization"], result["OpenAI-Organization"]) == (f"Bearer {the_key()}", "org-1")
    service.always = error(401)
    with pytest.raises(UsageError, match="No key was sent: name the environment variable"):
        ask(make(key_env=None), "a")


def test_a_missing_key_is_known_before_the_first_image(monkeypatch):
    generator = images("gpt-image-1")
    assert generator.estimate(requests_of("a"))  # a rehearsal needs no key
    with pytest.raises(UsageError, match="Put it into the environment variable OPENAI_API_KEY"):
        generator.generate(requests_of("a"))
    monkeypatch.setenv("OPENAI_API_KEY", "  ")
    with pytest.raises(UsageError, match="no key"):
        generator.generate(requests_of("a"))
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as err:
        images("m", key_env=the_key())
    assert not [p for p in pieces(the_key()) if p in str(err.value)]
    with pytest.raises(UsageError, match="variable named by key_env") as err:
        images("m", key_env="abcdef0123456789").generate(requests_of("a"))
    assert "abcdef" not in str(err.value)


@pytest.mark.parametrize("middle", ["\n", " ", "é", "\x7f"])
def test_a_key_that_is_none_is_not_shown(monkeypatch, make, middle):
    monkeypatch.setenv(VARIABLE, "first-half" + middle + "second-half")
    with pytest.raises(UsageError, match="white space or characters that no key has") as err:
        make().generate(requests_of("a"))
    assert "half" not in str(err.value)
    monkeypatch.setenv(VARIABLE, f" {the_key()}\r\n")  # from a file
    make().generate(requests_of("a"))


def test_keys_are_not_pickled(make):
    import pickle

    generator = make()
    generator.generate(requests_of("a"))
    assert repr(generator.client._auth) == "<key>"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(generator.client._auth)


# --------------------------------------------------------------------------------------------------------------------
# Names, options
# --------------------------------------------------------------------------------------------------------------------
def test_the_name_holds_what_decides_the_images_and_nothing_else():
    assert images("gpt-image-1").name == "openai:gpt-image-1"
    plain = images("m", concurrency=9, retries=1, timeout=5, price=1, key_env=VARIABLE, organization_env="ORG")
    assert plain.name == "openai:m"
    assert images("m", base_url="https://api.openai.com/v1/").name == "openai:m"
    full = images(
        "org/m",
        base_url="https://Host.example:8443/v1/images/generations",
        size="64x64",
        quality="hd",
        style="vivid",
        background="opaque",
        output_format="jpeg",
        seed_field="seed",
        extra={"z": "a b&c", "guidance": 7.5, "on": True, "text7": "7", "deep": {"b": 1, "a": [None]}},
    )
    assert full.name == (
        "openai:org/m@host.example:8443?size=64x64&quality=hd&style=vivid&background=opaque&output_format=jpeg"
        "&extra.deep=%7B%22a%22:%20%5Bnull%5D,%20%22b%22:%201%7D&extra.guidance=7.5&extra.on=true&extra.text7=%227%22"
        "&extra.z=a%20b%26c&seed_field=seed"
    )
    assert images("m", base_url="https://h/api/paint").name == "openai:m@h/api/paint"
    assert images("m", base_url="http://api.openai.com/v1", allow_http=True).name != "openai:m"


def test_what_the_name_says_can_be_given_again():
    from verism.registry import Spec

    extra = {"z": "a b&c+d", "n7": "7", "deep": {"a": [1, "ü"]}, "t": "true", "f": 0.5}
    generator = images("m", size="8x8", extra=extra)
    options = dict(Spec.parse(generator.name).options)
    again = {k.removeprefix("extra."): parse_extra(v) for k, v in options.items() if k.startswith("extra.")}
    assert again == extra
    assert images("m", size=options["size"], extra=again).name == generator.name


def test_extra_fields_are_sent(make, service, ask):
    ask(make(extra={"moderation": "low", "steps": 4}), "a")
    assert {k: v for k, v in service.posts[0][2].items() if k in ("moderation", "steps")} == {
        "moderation": "low",
        "steps": 4,
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": ""}, "name a model"),
        ({"model": "a\nb"}, "name a model"),
        ({"concurrency": 0}, "concurrency must lie between 1 and 256, got 0"),
        ({"concurrency": 1000}, "concurrency"),
        ({"retries": -1}, "retries"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"price": -1}, "price"),
        ({"extra": {"prompt": "x"}}, "extra.prompt would overwrite"),
        ({"extra": {"stream": True}}, "extra.stream would overwrite"),
        ({"extra": {"seed": 1}, "seed_field": "seed"}, "extra.seed would overwrite"),
        ({"seed_field": "prompt"}, "seed_field=prompt would overwrite"),
        ({"extra": {"api_key": "x"}}, "extra.api_key looks like a secret"),
        ({"extra": {"access-token": "x"}}, "looks like a secret"),
        ({"extra": {"x": float("inf")}}, "cannot be sent as JSON"),
        ({"extra": {"x": object()}}, "cannot be sent as JSON"),
        ({"organization_env": "a b"}, "organization_env is the name of an environment variable"),
    ],
)
def test_wrong_settings_are_refused(options, says):
    with pytest.raises(UsageError, match=says):
        images(**{"model": "m", **options})
    assert images("m", extra={"max_tokens": 5}).name == "openai:m?extra.max_tokens=5"  # tokens, and no token


def test_httpx_missing_names_the_extra(monkeypatch, make):
    from verism.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.setattr("importlib.import_module", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name=name)))
    with pytest.raises(MissingExtra, match=r"verism\[api\]"):
        make().generate(requests_of("a"))


# --------------------------------------------------------------------------------------------------------------------
# Costs, records
# --------------------------------------------------------------------------------------------------------------------
def test_the_estimate_is_honest_about_prices(service, make):
    three = requests_of("a", "b", "c")
    count, cost, deadlines = images("gpt-image-1", size="1024x1024", quality="low").estimate(three)
    assert "7 days for the run" in deadlines
    assert count == "3 requests to https://api.openai.com/v1/images/generations, model gpt-image-1"
    # 3 x 0.011 = 0.033
    assert cost.startswith(
        "cost about USD 0.03 for images at USD 0.011, and a little for prompts: the list price of 20"
    )
    assert "may have changed" in cost
    assert "USD 3.00, at your price of USD 1 an image" in images("gpt-image-1", price=1).estimate(three)[1]
    # Where the service chooses: from low squares to high oblongs, 3 x 0.011 and 3 x 0.25
    assert "USD 0.03 to 0.75 for images at USD 0.011 to 0.25" in images("gpt-image-1").estimate(three)[1]
    assert "USD 0.12 for images at USD 0.04" in images("dall-e-3").estimate(three)[1]  # its defaults are known
    for unknown in (
        images("gpt-image-9"),
        images("dall-e-2", size="1x1"),
        make("dall-e-2"),  # another service sets its own prices
    ):
        assert unknown.estimate(three[:1])[1].startswith("cost unknown")
    assert unknown.estimate(three[:1])[0] == f"1 request to {service.base}/images/generations, model dall-e-2"
    assert service.log == []


def test_prices_of_dated_snapshots_and_the_table_itself():
    assert openai_prices.image_cost("gpt-image-1.5-2025-12-16", "1024x1024", "high").low == 0.133
    assert openai_prices.image_cost("gpt-image-1", "1024x1024", "auto") == openai_prices.ImageCost(0.011, 0.167)
    assert openai_prices.image_cost("gpt-image-1-mini", "auto", "low") == openai_prices.ImageCost(0.005, 0.006)
    assert openai_prices.image_cost("nobody", None, None) is None
    assert openai_prices.token_rates("dall-e-3") is None
    assert openai_prices.table_date() >= "2025"
    assert openai_prices.table_source().startswith("https://")
    # Images are charged by their tokens, 1056 and 4160 for medium and high squares: the two columns must agree.
    for model in ("gpt-image-1", "gpt-image-1.5"):
        rate = openai_prices.token_rates(model).image_output
        for quality, tokens in (("low", 272), ("medium", 1056), ("high", 4160)):
            listed = openai_prices.image_cost(model, "1024x1024", quality).low
            assert tokens * rate / 1e6 == pytest.approx(listed, abs=0.001)  # listed prices are rounded up


def test_the_summary_says_what_it_cost_and_how_that_is_known(make, service, ask, monkeypatch):
    usage = {"input_tokens": 100, "output_tokens": 1000, "total_tokens": 1100}
    service.always = reply({**as_json(image_file()), "usage": usage})
    generator = make(price=0.5)
    ask(generator, "a", "b")
    assert generator.summary()[1:] == [
        "200 tokens of prompts, 2,000 of images, by the service's count",
        "cost about USD 1.00, at your price of USD 0.5 an image; what counts is the service's bill",
    ]
    generator = make("gpt-image-1")
    monkeypatch.setattr(generator, "_ours", True)
    ask(generator, "a", "b")
    # 2 x (100 x 5 + 1000 x 40) / 1,000,000 = 0.081
    assert generator.summary()[2].startswith("cost about USD 0.08, from its token counts and the list price of ")
    generator = make("dall-e-3")
    monkeypatch.setattr(generator, "_ours", True)
    service.always = painted
    ask(generator, "a")
    assert generator.summary()[1].startswith("cost about USD 0.04, at the list price of ")
    service.always = reply({**as_json(image_file()), "usage": {"cost": 0.25, "input_tokens": -1, "output_tokens": "x"}})
    generator = make(price=9)
    ask(generator, "a", "b", "c")
    assert generator.summary()[1:] == ["cost about USD 0.75, stated by the service; what counts is the service's bill"]
    service.always = reply({**as_json(image_file()), "usage": {"cost": float("nan")}})
    generator = make()
    ask(generator, "a")
    assert generator.summary()[1:] == [
        "cost unknown: the service states none and no price is known; set it with price=USD"
    ]
    assert make().summary() == []  # nothing was asked


def test_images_that_were_useless_are_charged_all_the_same(make, service, ask):
    service.plan["a"] = [
        reply({**as_json(b"no image"), "usage": {"cost": 1}}),
        reply({"data": [], "usage": {"cost": 1}}),
        reply({"data": []}),  # hardly
    ]
    service.always = reply({**as_json(image_file()), "usage": {"cost": 1}})
    generator = make()
    ask(generator, "a")
    assert generator.summary()[1].startswith("cost about USD 3.00, stated by the service;")


def test_the_description_keeps_what_the_service_reports(make, service, ask):
    service.plan["a"] = [reply({**as_json(image_file()), "quality": "high", "size": "6x4", "model": "m-2026-01-01"})]
    service.plan["b"] = [reply({**as_json(image_file()), "quality": "low", "size": 7})]
    generator = make(quality="auto")
    ask(generator, "a", "b")
    described = generator.describe()
    assert described["reported"] == {"model": {"m-2026-01-01": 1}, "quality": {"high": 1, "low": 1}, "size": {"6x4": 1}}
    assert described["base_url"] == service.base
    assert described["request"] == {"quality": "auto"}
    assert described["seed"] == "not sent: the service takes none"
    assert described["versions"]["httpx"]
    service.always = lambda h: reply({**as_json(image_file()), "model": f"m-{h.body['prompt']}"})(h)
    ask(generator, *map(str, range(60)))
    assert len(generator.describe()["reported"]["model"]) == 20


# --------------------------------------------------------------------------------------------------------------------
# Ending
# --------------------------------------------------------------------------------------------------------------------
def workers():
    return {t for t in threading.enumerate() if t.name.endswith("(worker)")}


def test_closing_ends_everything_at_once(make, service):
    service.always = hang
    for end in ("close generator", "close results"):
        generator = make(clock=Clock(), concurrency=3, timeout=60)
        service.plan["first"] = [painted]
        service.plan["waits"] = [error(500, headers={"Retry-After": "100"})]
        results = generator.generate(requests_of("first", "hangs", "waits", "hangs too"))
        next(results)
        before = workers()
        assert before
        began = time.monotonic()
        if end == "close generator":
            generator.close()
            with pytest.raises(VerismError, match="closed while images were still asked for"):
                next(results)
        else:
            results.close()
            generator.close()
        assert time.monotonic() - began < 5
        service.released.set()
        for thread in before:
            thread.join(20)
            assert not thread.is_alive()
        service.released.clear()


def test_workers_end_with_the_last_image(make):
    assert len(list(make(concurrency=4).generate(requests_of(*"abcdefgh")))) == 8
    wait_until(lambda: not workers())


def test_ctrl_c_ends_a_run_that_waits_for_answers(service):
    service.always = hang
    script = textwrap.dedent(
        f"""
        from verism.generators.openai_images import OpenAIImages
        from verism.records import Prompt, Request
        from verism.services import ServiceOptions
        requests = [Request(image_id=str(i), prompt=Prompt(prompt_id="p", suite="s", text="t"), index=i, seed=i)
                    for i in range(9)]
        service = ServiceOptions(base_url={service.base!r}, key_env={VARIABLE!r}, timeout=600)
        list(OpenAIImages("m", service=service).generate(requests))
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(service.posts) >= 4 or process.poll() is not None)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, answer = process.communicate(timeout=30)
    assert time.monotonic() - began < 10  # and not the ten minutes of its patience
    assert "KeyboardInterrupt" in answer
    assert the_key() not in answer


def test_the_address_of_openai_is_the_default():
    assert images("m").base_url == OPENAI
    assert images("m", base_url="https://eu.api.openai.com/v1").client.options.key_env == "OPENAI_API_KEY"
    assert images("m", base_url="https://api.openai.com.evil.example/v1").client.options.key_env is None
    assert images("m", base_url="https://xapi.openai.com/v1").client.options.key_env is None
