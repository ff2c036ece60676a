"""Object storage on this machine, which can be told to fail now and then.

``s3`` is moto's server. ``gs`` is ``GoogleFront``, a server of our own in front of moto's: emulators of Google Cloud
Storage speak its JSON API, and the client library its XML API. ``az`` is Azurite (``npm install --global azurite``);
its tests are skipped where it is not installed.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import hmac
import http.client
import itertools
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import formatdate
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from urllib.request import Request, urlopen

import pytest

SERVICES = ("s3", "gs", "az")
BUCKET = "bucket"
KEY, SECRET = "AKIATESTTESTTEST", "a-secret-of-no-account"
CLIENT = "nobody@no-project.iam.gserviceaccount.com"
# The account that Azurite has, with the key its documentation names.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
AZURITE = shutil.which("azurite-blob")
App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass
class Server:
    """The server.

    Attributes:
        root: URL of an empty bucket or container.
        endpoint: its address.
        secrets: what must not be found in any file or message.
        requests: method and path of every request so far.
        fails: whether the request of this number is answered with ``status``; its effect is lost.
        drops: whether the answer to the request of this number is lost after it took effect, for one with 503.
        cuts: whether the connection of the request of this number is closed before it takes effect.
        status: of answers to requests that fail.
        google: what speaks Google's interface, of a server that does.
    """

    root: str = ""
    endpoint: str = ""
    secrets: tuple[str, ...] = ()
    requests: list[tuple[str, str]] = field(default_factory=list)
    fails: Callable[[int], bool] = lambda _: False
    drops: Callable[[int], bool] = lambda _: False
    cuts: Callable[[int], bool] = lambda _: False
    status: str = "503 Slow Down"
    google: GoogleFront | None = None

    def app(self, inner: App) -> App:
        """A WSGI application around another."""
        numbers = itertools.count()

        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            number = next(numbers)
            self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
            if self.fails(number):
                _body(environ)
                start_response(self.status, [("Content-Type", "application/xml")])
                return [b"<Error><Code>SlowDown</Code></Error>"]
            if self.drops(number):
                list(inner(environ, lambda *_: None))
                start_response("503 Internal Error", [("Content-Type", "application/xml")])
                return [b"<Error><Code>InternalError</Code></Error>"]
            if self.cuts(number):
                _body(environ)
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return inner(environ, start_response)

        return answer


class GoogleFront:
    """The XML API of Google Cloud Storage in front of a server of S3, whose API differs in little.

    It does what differs: bearer tokens in place of signatures, a number for each generation of an object, conditions on
    it, names of headers. What Google would not understand it refuses, and conditions of S3 it ignores. Like Google, it
    can let an object be written once a second at most (``once_a_second``).
    """

    def __init__(self, s3: App, *, client: str) -> None:
        """A server in front of another.

        Args:
            s3: the other one.
            client: who may ask, as tokens name it.
        """
        self.s3 = s3
        self.client = client
        self.once_a_second = False
        self._numbers = itertools.count(1_700_000_000_000_000)
        self._generations: dict[str, int] = {}
        self._written: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self._lock:
            refused = self._refusal(environ)
            if refused:
                _body(environ)
                start_response(refused, [("Content-Type", "application/xml")])
                return [f"<Error><Code>{refused.split(' ', 1)[1].replace(' ', '')}</Code></Error>".encode()]
            return self._passed(environ, start_response)

    def _refusal(self, environ: dict[str, Any]) -> str:
        """The status of a request that is refused; empty for others."""
        if self._asking(environ) != self.client:
            return "401 Authentication Required"
        if any(name.startswith("HTTP_X_AMZ") for name in environ):
            return "400 Invalid Argument"
        name, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        wanted = environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH")
        if wanted is not None and int(wanted) != self._generations.get(name, 0):
            return "412 Precondition Failed"
        now = time.monotonic()
        if method == "PUT" and self.once_a_second and now - self._written.get(name, now - 2) < 1:
            return "429 Too Many Requests"
        return ""

    @staticmethod
    def _asking(environ: Mapping[str, Any]) -> str:
        found = re.fullmatch(r"Bearer [\w-]+\.([\w-]+)\.[\w-]+", environ.get("HTTP_AUTHORIZATION", ""))
        return json.loads(base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))["iss"] if found else ""

    def _passed(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        passed = {
            name: value for name, value in environ.items() if not name.startswith(("HTTP_X_GOOG_", "HTTP_IF_NON"))
        }
        passed["HTTP_AUTHORIZATION"] = f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request"
        if source := environ.get("HTTP_X_GOOG_COPY_SOURCE"):
            passed["HTTP_X_AMZ_COPY_SOURCE"] = source
        name, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        query = parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
        answered: list[Any] = []
        body = list(self.s3(passed, lambda *answer: answered.append(answer)))
        status, headers = answered[0][:2]
        written = (method == "PUT" and "partNumber" not in query) or (method == "POST" and "uploadId" in query)
        if status[0] == "2" and written:
            self._generations[name] = next(self._numbers)
            self._written[name] = time.monotonic()
        elif status[0] == "2" and method == "DELETE":
            self._generations.pop(name, None)
        headers = [(header, value) for header, value in headers if not header.lower().startswith("x-amz")]
        if name in self._generations:
            headers.append(("x-goog-generation", str(self._generations[name])))
        start_response(status, headers)
        return body


def _body(environ: Mapping[str, Any]) -> bytes:
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return body


@lru_cache(maxsize=1)
def _moto() -> App:
    """Moto's S3, and what resets it; its own way to them lists the folders of all its services for every request."""
    from moto.moto_server.werkzeug_app import create_backend_app

    s3, control = create_backend_app("s3"), create_backend_app("moto_api")

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        chosen: App = control if environ["PATH_INFO"].startswith("/moto-api") else s3
        return chosen(environ, start_response)

    return answer


def _forwarded(port: int) -> App:
    """An application that hands requests on to a server on this machine."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        names = {name: name[5:].replace("_", "-") for name in environ if name.startswith("HTTP_")}
        names |= {"CONTENT_TYPE": "Content-Type", "CONTENT_LENGTH": "Content-Length"}
        headers = {sent: environ[name] for name, sent in names.items() if environ.get(name)}
        connection.request(environ["REQUEST_METHOD"], environ["RAW_URI"], body=_body(environ), headers=headers)
        got = connection.getresponse()
        hop = ("connection", "keep-alive", "transfer-encoding")
        start_response(f"{got.status} {got.reason}", [(k, v) for k, v in got.getheaders() if k.lower() not in hop])
        data = got.read()
        connection.close()
        return [data]

    return answer


@lru_cache(maxsize=1)
def _azurite() -> int:
    """The port of an Azurite that runs until the tests end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck"]
    process = subprocess.Popen([str(AZURITE), *options, "--silent", "--disableTelemetry"], stdout=subprocess.DEVNULL)
    atexit.register(process.kill)
    for _ in range(600):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return port
        time.sleep(0.05)
    raise RuntimeError("Azurite does not answer")


def _make_container(endpoint: str, name: str) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    lines = [f"{name}:{value}" for name, value in sorted(headers.items())]
    signed = "\n".join(["PUT", *[""] * 11, *lines, f"/{ACCOUNT}/{ACCOUNT}/{name}", "restype:container"])
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    # Without a body, so that no header is added that would have to be signed.
    with urlopen(Request(f"{endpoint}/{name}?restype=container", method="PUT", headers=headers)):
        pass


@lru_cache(maxsize=1)
def _private_key() -> str:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def account_of_google(endpoint: str) -> dict[str, str]:
    """A service account, as its file describes it.

    Args:
        endpoint: where its storage is.
    """
    account = {"client_email": CLIENT, "private_key": _private_key(), "private_key_id": "key-of-nobody"}
    return {"type": "service_account", "gcs_base_url": endpoint, **account}


_numbers = itertools.count()


@contextmanager
def storage_server(service: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Server]:
    """A server with an empty bucket; the environment variables name it until the test ends.

    Args:
        service: one of ``SERVICES``.
        monkeypatch: of the test.
        folder: for a file of credentials.
    """
    pytest.importorskip("obstore")
    if service == "az" and AZURITE is None:
        pytest.skip("needs azurite-blob: npm install --global azurite")
    from moto.server import MotoRequestHandler
    from werkzeug.serving import WSGIRequestHandler, make_server

    server = Server()
    inner = _forwarded(_azurite()) if service == "az" else _moto()
    server.google = GoogleFront(inner, client=CLIENT) if service == "gs" else None
    app = server.app(server.google or inner)
    handler = WSGIRequestHandler if service == "az" else MotoRequestHandler
    listening = make_server("127.0.0.1", 0, app, threaded=True, request_handler=handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    server.endpoint = f"http://127.0.0.1:{listening.server_port}"
    variables: dict[str, str] = {}
    if service == "s3":
        server.root, server.secrets = f"s3://{BUCKET}", (KEY, SECRET)
        variables |= {"AWS_ENDPOINT_URL": server.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        variables |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    elif service == "gs":
        server.root = f"gs://{BUCKET}"
        account = account_of_google(server.endpoint)
        server.secrets = (CLIENT, account["private_key"].splitlines()[1], account["private_key_id"])
        file = folder / "account.json"
        file.write_text(json.dumps(account))
        variables |= {"GOOGLE_SERVICE_ACCOUNT": str(file), "GOOGLE_ALLOW_HTTP": "true"}
    else:
        container = f"container{next(_numbers)}"
        server.root, server.secrets = f"az://{ACCOUNT}/{container}", (ACCOUNT_KEY,)
        variables |= {"AZURE_STORAGE_ENDPOINT": f"{server.endpoint}/{ACCOUNT}", "AZURE_ALLOW_HTTP": "true"}
        variables |= {"AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    from obstore import store

    from verism import locations

    # Clients of earlier tests know other servers.
    monkeypatch.setattr(locations, "_stores", {})
    # The first pause is a hundredth of a second in place of a tenth; the rest as ever.
    retries = {"backoff": {"init_backoff": timedelta(milliseconds=10)}}
    for name in ("from_url", "AzureStore"):
        monkeypatch.setattr(store, name, partial(getattr(store, name), retry_config=retries))
    try:
        if service == "az":
            _make_container(f"{server.endpoint}/{ACCOUNT}", container)
        else:
            # Past what stands in front of it: nobody makes a bucket that way.
            for method, path in (("POST", "/moto-api/reset"), ("PUT", f"/{BUCKET}")):
                _call(inner, method, path)
        server.requests.clear()
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def _call(app: App, method: str, path: str) -> None:
    from werkzeug.test import Client

    response = Client(app).open(path, method=method, base_url="http://127.0.0.1")
    assert response.status_code < 300, (path, response.data)
