"""The annotation server: abuse of every kind, and ``kill -9`` while raters vote."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

from fault_campaigns.commands import called, forked, started
from fault_campaigns.runs import SIZE
from fault_campaigns.trials import Job, Outcome, Setting, Site, Skipped, Trial, traceback_in, worst

NAME = "raters"
HEADERS = {"x-verism": "1", "sec-fetch-site": "same-origin", "content-type": "application/json"}
START_S = 60.0
TIMEOUT_S = 20.0


def jobs(setting: Setting) -> list[Job]:
    """One study that is abused, one that guesses tokens, and several whose server is killed."""
    if setting.quick:
        return [Job(NAME, abuse, (10,), 6)]
    made = [Job(NAME, abuse, (None,), 15), Job(NAME, guess, (), 8)]
    return made + [Job(NAME, vote_through_kills, (number, 8), 40) for number in range(3)]


class _Server:
    """``verism annotate`` on a free port, which can be killed and started again."""

    def __init__(self, site: Site, *words: object) -> None:
        self.site, self.words = site, words
        self.log = site.folder / "server.log"
        self.process: Popen[bytes] | None = None
        self.port = 0

    def start(self) -> None:
        begin = self.log.stat().st_size if self.log.exists() else 0
        words = ["annotate", *self.words, "--port", str(self.port)]
        self.process = started(words, cwd=self.site.folder, err=self.log)
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            said = self.log.read_bytes()[begin:].decode(errors="replace")
            if found := re.search(r"http://[^/\s]*:(\d+)/ asks", said):
                self.port = int(found[1])
                return
            if self.process.poll() is not None:
                raise RuntimeError(f"the server did not start: {said}")
            time.sleep(0.02)
        raise RuntimeError("the server did not start in time")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, str]:
        """Status, content and cookie of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, body, HEADERS if headers is None else headers)
            answer = connection.getresponse()
            cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
            return answer.status, answer.read(), cookie
        finally:
            connection.close()


def _missing() -> Skipped | None:
    import importlib.util

    if all(importlib.util.find_spec(name) for name in ("fastapi", "uvicorn")):
        return None
    return Skipped(NAME, "fastapi or uvicorn is not installed (extra `annotate`)")


def _run(site: Site) -> Path:
    return Path(shutil.copytree(site.templates / "mine", site.folder / "run"))


# --------------------------------------------------------------------------------------------------------------- abuse
def _post(record: Any) -> bytes:
    return json.dumps(record).encode()


def _attacks() -> list[tuple[str, str, str, bytes | None, dict[str, str] | None]]:
    """Name, method, path, body, and the headers that change."""
    plain = {"content-type": "application/json"}
    vote = _post({"position": 0, "ticket": "x", "answer": "1", "seconds": 1})
    made: list[tuple[str, str, str, bytes | None, dict[str, str] | None]] = []
    paths = [
        *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/index.html"),
        *("/study.sqlite", "/pictures/0/../../../etc/passwd", "/pictures/-1/0", "/pictures/0/99999999999999999999"),
        *(f"/pictures/{'9' * 400}/0", "/pictures/0x1/0", "/pictures/1e9/0", "/examples/0/0", f"/{'a' * 60_000}"),
        *("/pictures/%00/0", "/api/state?x=" + "y" * 3000, "/\u00c3\u00a9", "/docs", "/openapi.json"),
    ]
    made += [(f"path {path[:40]!r}", "GET", path, None, None) for path in paths]
    for host in ("evil.example", "127.0.0.1.evil.example", "", "[::1", "127.0.0.1:1:1", "a" * 5000):
        made.append((f"host {host[:30]!r}", "GET", "/api/state", None, {**HEADERS, "host": host}))
    for name, headers in {
        "no header": plain,
        "another site": {**HEADERS, "sec-fetch-site": "cross-site"},
        "another origin": {**HEADERS, "origin": "http://evil.example"},
        "null origin": {**HEADERS, "origin": "null"},
        "a form": {"content-type": "application/x-www-form-urlencoded"},
        "a made-up cookie": {**HEADERS, "cookie": "verism_00000000=1.abcdef"},
        "a long cookie": {**HEADERS, "cookie": "verism=" + "9" * 9000},
    }.items():
        made.append((f"vote with {name}", "POST", "/api/vote", vote, headers))
    bodies: dict[str, bytes] = {
        "16,000 brackets": b"[" * 16_000,
        "16,000 braces": b'{"a":' * 3200,
        "400 digits": b'{"position": ' + b"9" * 400 + b', "ticket": "x", "answer": "1", "seconds": 1}',
        "5,000 digits": b'{"position": ' + b"9" * 5000 + b"}",
        "seconds of 400 digits": b'{"position": 0, "ticket": "x", "answer": "1", "seconds": ' + b"9" * 400 + b"}",
        "NaN": b'{"position": NaN, "seconds": Infinity}',
        "1e999": b'{"position": 0, "ticket": "x", "answer": "1", "seconds": 1e999}',
        "no JSON": b"position=0",
        "nothing": b"",
        "a list": b"[1]",
        "null": b"null",
        "no UTF-8": b'{"position": "\xff\xfe"}',
        "half of a pair": b'{"position": 0, "ticket": "\\ud800", "answer": "\\udfff", "seconds": 1}',
        "a zero byte": b'{"position": 0, "ticket": "\\u0000", "answer": "\\u0000"}',
        "true": b'{"position": true, "ticket": true, "answer": true, "seconds": true}',
        "a long text": _post({"position": 0, "ticket": "x" * 15_000, "answer": "1"}),
        "a megabyte": b" " * (1 << 20),
        "negative": _post({"position": -1, "ticket": "x", "answer": "1", "seconds": -5}),
        "2**63": _post({"position": 2**63, "ticket": "x", "answer": "1", "seconds": 2**63}),
    }
    for path in ("/api/vote", "/api/undo", "/api/join"):
        made += [(f"{path} with {name}", "POST", path, body, None) for name, body in bodies.items()]
    for rater in ("", " ", "x" * 81, "a\nb", "\u202eAnn", 7, None, "\ud800"):
        made.append((f"a rater named {rater!r:.20}", "POST", "/api/join", _post({"name": rater}), None))
    made += [(f"method {method}", method, "/api/vote", b"{}", None) for method in ("PUT", "DELETE", "TRACE", "X" * 50)]
    return made


def abuse(site: Site, at_most: int | None) -> Iterator[Trial | Skipped]:
    """Requests that a rater's browser does not send: refused, never by an error of the server, which stays up."""
    if missing := _missing():
        yield missing
        return
    server = _Server(site, _run(site), "--task", "count", "--per-cell", "2")
    server.start()
    try:
        _, _, cookie = server.ask("POST", "/api/join", _post({"name": "Ann"}))
        attacks = _attacks()
        chosen = attacks if at_most is None else site.rng.sample(attacks, at_most)
        for name, method, path, body, headers in chosen:
            outcome, detail = _abused(server, method, path, body, headers, cookie)
            yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail)
        yield _half_requests(server)
        found: list[tuple[Outcome, str]] = []
        for study in (site.folder / "run").rglob("*.sqlite*"):
            if stat.S_IMODE(study.stat().st_mode) & 0o077:
                found.append(("silent", f"others may read {study.name}: mode {stat.S_IMODE(study.stat().st_mode):o}"))
        outcome, detail = worst(found)
        yield Trial(campaign=NAME, name="who may read the study", outcome=outcome, detail=detail)
        votes = called(_votes, site.folder / "run", cwd=site.folder).result
        kept: Outcome = "survived" if votes == [] else "silent"
        yield Trial(campaign=NAME, name="votes that nobody gave", outcome=kept, detail=f"{votes}"[:200])
        back = traceback_in(server.said)
        yield Trial(campaign=NAME, name="log of the server", outcome="traceback" if back else "survived", detail=back)
    finally:
        server.kill()


def _abused(
    server: _Server, method: str, path: str, body: bytes | None, headers: dict[str, str] | None, cookie: str
) -> tuple[Outcome, str]:
    sent = dict(HEADERS if headers is None else headers)
    if cookie and "cookie" not in sent:
        sent["cookie"] = cookie
    before = len(server.said)
    try:
        status, content, _ = server.ask(method, path, body, sent)
    except (http.client.HTTPException, OSError, ValueError) as err:
        # Some cannot be sent so, and some are not worth an answer: the server must still be there.
        status, content = 400, str(err).encode()
    if back := traceback_in(server.said[before:]):
        return "traceback", back
    if status >= 500:
        return "traceback", f"status {status}: {content[:200]!r}"
    if b"root:" in content or b"SQLite format" in content:
        return "silent", "a file of the machine was given away"
    try:
        alive = server.ask("GET", "/")[0] == 200
    except (http.client.HTTPException, OSError):
        alive = False
    return ("survived", "") if alive else ("lost", "the server does not answer any more")


def _half_requests(server: _Server) -> Trial:
    """Two hundred requests that never end: others are answered beside them."""
    held = []
    try:
        for _ in range(200):
            held.append(socket.create_connection(("127.0.0.1", server.port), timeout=5))
            held[-1].sendall(b"POST /api/vote HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        status = server.ask("GET", "/")[0]
        detail = "" if status == 200 else f"status {status}"
    except OSError as err:
        detail = str(err)
    finally:
        for connection in held:
            connection.close()
    return Trial(campaign=NAME, name="200 half requests", outcome="lost" if detail else "survived", detail=detail)


def guess(site: Site) -> Iterator[Trial | Skipped]:
    """Guesses of tokens: after some, they are held up."""
    if missing := _missing():
        yield missing
        return
    run = _run(site)
    words = ["annotate", run, "--task", "count", "--per-cell", "2", "--host", "0.0.0.0", "--rater", "Ann"]
    added = started(words, cwd=site.folder, err=site.folder / "rater.log")
    added.wait(START_S)
    server = _Server(site, run, "--task", "count", "--per-cell", "2", "--host", "0.0.0.0")
    server.start()
    try:
        statuses = Counter(server.ask("GET", f"/?token={site.rng.randbytes(24).hex()}")[0] for _ in range(100))
        held_up = statuses.get(429, 0)
        outcome: Outcome = "survived" if held_up and not statuses.get(200) and not statuses.get(303) else "silent"
        yield Trial(campaign=NAME, name="100 guesses of a token", outcome=outcome, detail=f"answers: {dict(statuses)}")
        back = traceback_in(server.said)
        yield Trial(campaign=NAME, name="log while guessing", outcome="traceback" if back else "survived", detail=back)
    finally:
        server.kill()


# --------------------------------------------------------------------------------------------------------------- votes
class _Rater(threading.Thread):
    """Somebody who answers what is asked until nothing is left, through restarts of the server.

    Attributes:
        given: votes that the server said it keeps: answer by position.
    """

    def __init__(self, server: _Server, name: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.server, self.rater, self.stop = server, name, stop
        self.given: dict[int, str] = {}
        self.wrong = ""

    def run(self) -> None:
        cookie, state = "", None
        while not self.stop.is_set():
            try:
                if not cookie:
                    status, content, cookie = self.server.ask("POST", "/api/join", _post({"name": self.rater}))
                elif state is None:
                    status, content, _ = self.server.ask("GET", "/api/state", None, {**HEADERS, "cookie": cookie})
                else:
                    item = state["item"]
                    options = item.get("options") or [{"value": "1"}]
                    answer = str(options[item["position"] % len(options)].get("value", "1"))
                    record = {"position": item["position"], "ticket": item["ticket"], "answer": answer, "seconds": 1}
                    headers = {**HEADERS, "cookie": cookie}
                    status, content, _ = self.server.ask("POST", "/api/vote", _post(record), headers)
                    if status == 200:
                        self.given[item["position"]] = answer
                    else:
                        self.wrong = f"status {status}: {content[:200]!r}"
                        state = None
                        time.sleep(0.05)
                        continue
            except (OSError, http.client.HTTPException):
                state = None  # what was sent last may have been kept or not
                time.sleep(0.05)
                continue
            if status != 200:
                self.wrong = f"status {status}: {content[:200]!r}"
                time.sleep(0.05)
                continue
            state = json.loads(content)
            if state.get("phase") != "item":
                if state.get("phase") == "done":
                    return
                state = None
                time.sleep(0.05)


def vote_through_kills(site: Site, number: int, kills: int) -> Iterator[Trial | Skipped]:
    """Six raters vote while the server is killed and started again; every vote that was confirmed is kept, once."""
    if missing := _missing():
        yield missing
        return
    run = site.folder / "run"
    # More images than of the templates, so that votes outlast the kills; their boxes do not matter.
    words = ["run", "paintskills", "--model", "scripted", "--processes", "1", *SIZE, "--limit", "60", "--detector"]
    forked([*words, "truth", "--out", run], cwd=site.folder)
    raters = 6
    server = _Server(site, run, "--task", "alignment", "--overlap", str(raters), "--seed", str(number))
    server.start()
    stop = threading.Event()
    people = [_Rater(server, f"Rater {n}", stop) for n in range(raters)]
    for person in people:
        person.start()
    done = 0
    try:
        while done < kills and any(person.is_alive() for person in people):
            time.sleep(site.rng.uniform(0.05, 0.5))
            server.kill()
            done += 1
            server.start()
        time.sleep(1.0)
    finally:
        stop.set()
        for person in people:
            person.join(TIMEOUT_S)
        server.kill()
    votes = called(_votes, run, cwd=site.folder).result or []
    given = {(p.rater, position): answer for p in people for position, answer in p.given.items()}
    kept = Counter((rater, position) for rater, position, _ in votes)
    found: list[tuple[Outcome, str]] = []
    if lost := [key for key in given if key not in kept]:
        found.append(("lost", f"{len(lost)} of {len(given)} votes, such as {lost[0]}"))
    if doubled := [key for key, times in kept.items() if times > 1]:
        found.append(("lost", f"{len(doubled)} votes are kept twice, such as {doubled[0]}"))
    if other := [vote for vote in votes if given.get((vote[0], vote[1]), vote[2]) != vote[2]]:
        found.append(("silent", f"another answer is kept than was given: {other[0]}"))
    if not given:
        found.append(("lost", f"nobody could vote: {[p.wrong for p in people][:1]}"))
    if back := traceback_in(server.said):
        found.append(("traceback", back))
    outcome, detail = worst(found)
    name = f"study {number}: {raters} raters, {len(given)} votes confirmed"
    yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail, kills=done)


def _votes(run: Path) -> list[tuple[str, int, str | None]]:
    """Rater, position and answer of every vote that counts."""
    from verism.annotation.votes import VoteStore

    found = []
    for path in run.rglob("*.sqlite"):
        store = VoteStore.open(path)
        places = {(item.item, item.task): position for position, item in enumerate(store.study.items)}
        for row in store.ratings().iter_rows(named=True):
            found.append((row["rater"], places[row["item"], row["task"]], row["answer"]))
    return found
