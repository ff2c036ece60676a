"""A model in a program of its own: any language, any environment, a container. It talks by lines of JSON.

The program is started once, with ``VERISM_PROTOCOL=1`` and ``VERISM_OUT``, a temporary directory for its images. It
reads one request per line from standard input, ::

    {"image_id": "...", "prompt_id": "...", "prompt": "...", "index": 0, "seed": 1, "path": "/tmp/.../00001.png"}

writes each image to a file, and answers one line on standard output, in any order::

    {"image_id": "..."}                                               generated, at the suggested path
    {"image_id": "...", "path": "other.webp", "note": "...", "seeded": false}
    {"image_id": "...", "state": "refused", "note": "why"}            or "failed"

Its first line may be ``{"name": "...", ...}``, which is kept for the manifest. Standard input is closed after the last
request. Whatever else it prints is passed on to standard error. ``examples/serve.py`` speaks all this for a program in
Python.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import itertools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from verism.characters import visible
from verism.errors import UsageError, VerismError
from verism.imaging import read_image
from verism.limits import PROGRAM_BYTES
from verism.options import read_signature
from verism.records import Request, Result
from verism.services import as_json
from verism.systems import end_group, own_group, split_command

__all__ = ["CommandGenerator", "refuse_secret", "split_options"]

UNDELIVERED = 4  # times `ahead`: images asked for and not yet handed on; bounds the files that wait for a slow first
HOPELESS = 5  # images given up in a row, without an answer in between: the program is broken, and not the prompts
SILENCE_S = (
    120.0  # without an answer, after which we say what the reason may be; and after which batches are tried again
)
TERMINATE_S = 3.0  # for a program that was told to end, before it is killed
FINISH_S = 10.0  # for a program that has answered everything, to end by itself
TAIL = 20  # lines of standard error kept for messages
MAX_LINE = 1 << 20  # bytes; an answer is far shorter
EVENTS = 1024  # lines read ahead of their use; a program that prints faster waits at its pipe
REPEATS = 1000  # answers in a row that were given before: the program is broken
WHOLE_FILE = 64 << 20  # bytes; of larger files of a command line (weights) size, beginning and end are hashed
# Programs whose own content says nothing of the model: the script they run does.
INTERPRETER = re.compile(r"(python|pypy|bash|dash|sh|zsh|env|perl|ruby|node|julia|Rscript)[\d.]*(\.exe)?")
SECRET = r"[\w-]*(?:api[-_]?key|token|secret|password)"


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """A command and our options behind its last question mark: ``./model --x=1?ahead=8`` is ``./model --x=1``, ahead 8.

    A question mark that is not followed by options of ours belongs to the command.
    """
    names = "|".join(option.name for option in read_signature(CommandGenerator).options)
    match = re.fullmatch(rf"(.*)\?((?:{names})=[^&?]*(?:&(?:{names})=[^&?]*)*)", text, flags=re.DOTALL)
    if match is None:
        return text, {}
    return match[1], dict(part.split("=", 1) for part in match[2].split("&"))


def refuse_secret(words: Sequence[str], where: str) -> None:
    """Refuse keys and passwords where they would be stored with the results.

    Raises:
        UsageError: a word such as ``--api-key=abc`` or ``HF_TOKEN=abc``, or ``--token`` before another word. Numbers
            (``--max-token=77``) are no secrets.
    """
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        match = re.fullmatch(rf"({SECRET})=(.*)", word, flags=re.IGNORECASE | re.DOTALL)
        name, value = (match[1], match[2]) if match else (word, following)
        if match is None and not re.fullmatch(rf"--?{SECRET}", word, flags=re.IGNORECASE):
            continue
        if value and not value.startswith("-") and not value.isdigit():
            raise UsageError(
                f"{where}: {name} looks like a secret, and the model's name is stored with the results. "
                "Let the program read it from the environment or from a file"
            )


# ------------------------------------------------------------------------------------------------------- the program
@dataclass(frozen=True)
class _Said:
    """A JSON object on standard output."""

    answer: Mapping[str, Any]
    at: float  # time.monotonic()


@dataclass(frozen=True)
class _Garbled:
    """A line on standard output that begins like an answer and is not JSON."""

    line: str
    why: str
    at: float  # time.monotonic()


@dataclass(frozen=True)
class _Flood:
    """More on standard output since the last answer than anybody will read; the program was killed."""

    at: float  # time.monotonic()


@dataclass(frozen=True)
class _Ended:
    """The program has ended, and everything it said was read."""


class _Program:
    """One process and the threads at its pipes: none of them can block another, whatever is written where.

    Raises:
        UsageError: the program cannot be started.
    """

    def __init__(self, words: Sequence[str], *, cwd: str | None, environment: Mapping[str, str], label: str) -> None:
        try:
            self.process = subprocess.Popen(
                list(words),
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                **own_group(),  # its children end with it, and Ctrl-C comes from us
            )
        except OSError as err:
            raise UsageError(_why_not(words[0], cwd, err)) from err
        self.label = label
        self.answered = 0
        self.events: queue.Queue[_Said | _Garbled | _Flood | _Ended] = queue.Queue(EVENTS)
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._input_open = True
        self._warned = False
        self._unanswered = 0  # bytes on standard output since the last answer
        self._unheard = threading.Event()  # nobody takes events any more
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"verism-{work.__name__}", daemon=True)
            for work in (self._write, self._listen, self._overhear, self._await)
        ]
        weakref.finalize(self, _kill, self.process)  # also at the interpreter's exit
        for thread in self._threads:
            thread.start()

    def ask(self, request: Mapping[str, Any]) -> None:
        self._lines.put(json.dumps(request).encode() + b"\n")

    def no_more(self) -> None:
        """Close its standard input once everything asked was written."""
        if self._input_open:
            self._input_open = False
            self._lines.put(None)

    def tail(self, lines: int) -> str:
        """The last lines of its standard error, ready to be appended to a message."""
        last = list(self._tail)[-lines:]
        return f"; last on its standard error: {' | '.join(last)}" if last else "; it wrote nothing to standard error"

    def how_it_ended(self) -> str:
        code = self.process.returncode
        number = -code if code < 0 else code - 128  # shells and containers report a signal as 128 + its number
        try:
            name = signal.Signals(number).name if number > 0 else ""
        except ValueError:
            name = ""
        memory = "; out of memory?" if name == "SIGKILL" else ""
        if code < 0:
            return f"killed by {name or f'signal {number}'}{memory}"
        return f"exit status {code}" + (f" ({name}{memory})" if name else "")

    def last_answers(self) -> list[Mapping[str, Any]]:
        """What it has answered in its last moments, after ``end``."""
        events = []
        with contextlib.suppress(queue.Empty):
            while True:
                events.append(self.events.get_nowait())
        return [event.answer for event in events if isinstance(event, _Said)]

    def finish(self) -> None:
        """Let it end by itself after its last answer; then make it."""
        self.no_more()
        self._ended.wait(FINISH_S)
        self.end()

    def end(self) -> None:
        """End the process and its children: ask, then kill. Returns when they are gone."""
        self.no_more()
        self._unheard.set()
        if not self._ended.is_set():
            end_group(self.process, at_once=False)
            if not self._ended.wait(TERMINATE_S):
                _kill(self.process)
                self._ended.wait(TERMINATE_S)

    def _put(self, event: _Said | _Garbled | _Flood | _Ended) -> None:
        """Hand an event over, when there is room for it; dropped once the program was ended."""
        while True:
            try:
                return self.events.put(event, timeout=0.1)
            except queue.Full:
                if self._unheard.is_set():
                    return None

    # Threads
    def _write(self) -> None:
        assert self.process.stdin is not None
        try:
            while (line := self._lines.get()) is not None:
                self.process.stdin.write(line)
                if self._lines.empty():
                    self.process.stdin.flush()
        except (OSError, ValueError):
            pass  # it does not listen any more; whether it still answers, others will see
        finally:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def _listen(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        with stdout:
            while raw := _readline(stdout):
                event = self._understand(raw)
                answered = isinstance(event, _Garbled) or (isinstance(event, _Said) and "image_id" in event.answer)
                self._unanswered = 0 if answered else self._unanswered + len(raw)
                if self._unanswered > PROGRAM_BYTES.value:
                    _kill(self.process)
                    self._put(_Flood(time.monotonic()))
                    break
                if event is not None:
                    self._put(event)
        # Nothing can be answered any more, so whatever it still does is in vain.
        try:
            self.process.wait(TERMINATE_S)
        except subprocess.TimeoutExpired:
            _kill(self.process)

    def _understand(self, raw: bytes) -> _Said | _Garbled | None:
        """An answer, or None for what an old library has printed, which is passed on."""
        line = raw.decode("utf-8", errors="replace").strip()
        if line.startswith("{"):
            try:
                return _Said(json.loads(line), time.monotonic())
            except (ValueError, RecursionError) as err:
                if '"image_id"' in line:
                    return _Garbled(line, str(err), time.monotonic())
        if line:
            if not self._warned:
                self._warned = True
                _say(f"{self.label} prints to standard output, where answers belong; passed on to standard error")
            _pass_on(line + "\n")
        return None

    def _overhear(self) -> None:
        stderr = self.process.stderr
        assert stderr is not None
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        rest = ""
        with stderr:
            # Not by lines: a progress bar rewrites one line for minutes.
            while chunk := os.read(stderr.fileno(), 1 << 16):
                text = decoder.decode(chunk)
                _pass_on(text)
                *lines, rest = re.split(r"[\r\n]+", rest + text)
                self._tail.extend(line.strip()[:500] for line in lines if line.strip())
                rest = rest[-500:]
        if rest.strip():
            self._tail.append(rest.strip())

    def _await(self) -> None:
        self.process.wait()
        end_group(self.process, at_once=True)  # children it has left behind
        for thread in self._threads[1:3]:
            thread.join(TERMINATE_S)  # not for ever: a child that left the group may hold the pipes
        self._put(_Ended())
        self._ended.set()


def _readline(stream: Any) -> bytes:
    try:
        line: bytes = stream.readline(MAX_LINE)
    except (OSError, ValueError):
        return b""
    return line


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        end_group(process, at_once=True)


def _why_not(program: str, cwd: str | None, err: OSError) -> str:
    """Why a program could not be started, and what to do."""
    if cwd is not None and not os.path.isdir(cwd):
        return f"command: cwd={cwd}: no such directory"
    executable = program if os.path.dirname(program) else shutil.which(program)
    path = os.path.join(cwd or "", executable or program)
    if isinstance(err, FileNotFoundError) and os.path.isfile(path):
        with open(path, "rb") as file:
            first = file.readline(200).decode("utf-8", errors="replace").rstrip("\n")
        if first.startswith("#!"):
            ending = " (the line ends as in Windows; save the file with Unix line ends)" if first.endswith("\r") else ""
            return f"command: {program} begins with {first.strip()!r}, and there is no such interpreter{ending}"
        return f"command: {program} exists, but what it needs to be loaded by does not (built for another system?)"
    if isinstance(err, FileNotFoundError):
        where = "no such file" if os.path.dirname(program) else "no such program on the PATH"
        return f"command: {program}: {where}. A program in this directory is written ./{os.path.basename(program)}"
    if isinstance(err, PermissionError):
        return f"command: {program} is not executable. Use chmod +x {program}, or name its interpreter in front of it"
    if err.strerror == "Exec format error":
        return f"command: {program} is no program; a script begins with a line such as #!/usr/bin/env python3"
    return f"command: {program} cannot be started: {err.strerror or err}"


def _pass_on(text: str) -> None:
    try:
        # Not its escape codes: they could rewrite what was printed before, or the title of the window.
        sys.stderr.write(visible(text, keep="\r"))
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass  # no standard error to write to; the program must not be held up by that


def _say(text: str) -> None:
    _pass_on(f"verism: {text}\n")


# ----------------------------------------------------------------------------------------------------- the generator
@dataclass(frozen=True)
class _Asked:
    """A request in the program's hands, and the path suggested for its image."""

    request: Request
    path: Path
    at: float  # time.monotonic()


@dataclass(frozen=True)
class _Image:
    """An answer whose image is read when its turn comes."""

    path: Path
    note: str
    seeded: bool


class CommandGenerator:
    """Images from a program that is started once and asked by lines of JSON.

    Args:
        command: program and its arguments, split as a shell does but run without one: no variables, pipes or wildcards.
            ``{out}`` stands for the image folder, which a container must mount (``docker run -i -v {out}:{out} -e
            VERISM_OUT -e VERISM_PROTOCOL ...``).
        ahead: requests sent before the first is answered, so that the program can generate in batches.
        timeout: longest time without an answer, loading the model included, in seconds; then the program is restarted.
            None: no limit.
        restarts: restarts in a row without any answer before verism gives up.
        cwd: working directory of the program, and base of its relative paths. Default: the current directory.

    The name holds the command, ``cwd``, and a hash of the files that the command names: an edited script is another
    model. It does not hold ``ahead``, ``timeout`` and ``restarts``.

    Raises:
        UsageError: the command cannot be read, its program does not exist, or an option is out of range.
    """

    def __init__(
        self,
        command: str,
        *,
        ahead: int = 32,
        timeout: float | None = None,
        restarts: int = 2,
        cwd: str | Path | None = None,
    ) -> None:
        try:
            self.words = split_command(command)
        except ValueError as err:
            raise UsageError(f"command: {command!r} cannot be split into words: {err}") from None
        if not self.words:
            raise UsageError("command: name a program, for example command:./generate.py")
        if ahead < 1:
            raise UsageError(f"command: ahead must be at least 1, got {ahead}")
        if timeout is not None and not 0 < timeout < float("inf"):
            raise UsageError(f"command: timeout must be a positive number of seconds, got {timeout}")
        if restarts < 0:
            raise UsageError(f"command: restarts must be 0 or more, got {restarts}")
        refuse_secret(self.words, "command")
        self.command, self.ahead, self.timeout, self.restarts = command.strip(), ahead, timeout, restarts
        self.cwd = None if cwd is None else os.fspath(cwd)
        program = self.words[0]
        path = os.path.join(self.cwd or "", program) if os.path.dirname(program) else shutil.which(program)
        if (self.cwd is not None and not os.path.isdir(self.cwd)) or path is None or not os.path.isfile(path):
            raise UsageError(_why_not(program, self.cwd, FileNotFoundError()))
        if not os.access(path, os.X_OK):
            raise UsageError(_why_not(program, self.cwd, PermissionError()))
        self.files = {word: _content_of(path) for word, path in _named_files(self.words, self.cwd)}
        self.name = f"command:{self.command}"
        if self.cwd is not None:
            self.name += f"?cwd={self.cwd}"
        if self.files:
            self.name += f"@{hashlib.sha256(json.dumps(sorted(self.files.items())).encode()).hexdigest()[:12]}"
        self.label = os.path.basename(program)
        if INTERPRETER.fullmatch(self.label):
            self.label = os.path.basename(next(iter(self.files), program))
        self.reported: dict[str, Any] = {}
        self.starts = 0
        self.given_up = 0
        self._serial = itertools.count(1)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._conversation: _Conversation | None = None

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        """Images in the order of the requests, whatever the order of the answers.

        Raises:
            UsageError: the program cannot be started. VerismError: it dies, hangs or speaks such that no image can
                be had from it.
        """
        if self._conversation is not None:  # an earlier call that nobody listens to any more
            self._conversation.end()
        self._conversation = conversation = _Conversation(self, requests)
        try:
            yield from conversation.results()
        finally:
            conversation.end()

    def close(self) -> None:
        """End the program with its children, and remove its temporary images."""
        if self._conversation is not None:
            self._conversation.end()
            self._conversation = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def describe(self) -> Mapping[str, Any]:
        """For the manifest: the files of the command by content, and what the program has said of itself."""
        return {"command": self.command, "files": dict(self.files), "reported": dict(self.reported)}

    def estimate(self, requests: Sequence[Request]) -> Sequence[str]:
        """For a dry run, which does not start the program."""
        return [f"{len(requests):,} images from one program, {self.command}; up to {self.ahead} asked for at once"]

    def summary(self) -> Sequence[str]:
        """For the end of a run: how often the program had to be started again."""
        lines = []
        if self.starts > 1:
            lines.append(f"{self.label} was started {self.starts} times")
        if self.given_up:
            lines.append(f"{self.given_up} images were given up because {self.label} died or hung over them")
        return lines

    @property
    def out(self) -> Path:
        """The directory for images; made on first use, gone with ``close``."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="verism-", ignore_cleanup_errors=True)
        return Path(self._folder.name).resolve()

    def start(self) -> _Program:
        """The program, running."""
        out = str(self.out)
        environment = {**os.environ, "VERISM_PROTOCOL": "1", "VERISM_OUT": out}
        environment.setdefault("PYTHONUNBUFFERED", "1")  # or answers of print() would wait in its buffer
        self.starts += 1
        words = [word.replace("{out}", out) for word in self.words]
        return _Program(words, cwd=self.cwd, environment=environment, label=self.label)

    def suggested_path(self) -> Path:
        """A path nobody was given before: a program that was killed cannot have left half an image there."""
        return self.out / f"{next(self._serial):06d}.png"


class _Conversation:
    """One call of ``generate``: what was asked, what is in the program's hands, what was answered.

    When the program ends or hangs, the images in its hands are asked again *one at a time*: only so is it known over
    which one it does. Given up is an image that was first in its hands at two ends in a row (once is not enough: it
    may have ended before it read the request), or alone there when it hung; and for good only when the program has
    shown that it can still answer another.
    """

    def __init__(self, owner: CommandGenerator, requests: Sequence[Request]) -> None:
        self.owner = owner
        self.requests = requests
        self.unasked = deque(requests)
        self.known = {r.image_id for r in requests}
        if len(self.known) < len(requests):
            raise VerismError("command: two requests with the same image_id")
        self.hands: dict[str, _Asked] = {}  # in the order of asking
        self.settled: dict[str, _Image | Result] = {}  # answered, not yet handed on
        self.delivered: set[str] = set()
        self.program: _Program | None = None
        self.closed = False
        self.began = time.time()
        self.clock = time.monotonic()  # of the last answer, or of the start
        self.hinted = False
        self.ever_answered = False
        self.repeats = 0  # answers in a row for images that were answered for before
        self.barren = 0  # ends in a row of programs that had answered nothing
        self.suspects: set[str] = set()  # in its hands when it last ended, and not settled since
        self.last_first = ""  # first in its hands when it last ended
        self.doubtful: set[str] = set()  # given up since the last answer
        self.claimed: dict[str, str] = {}  # image id by path

    def results(self) -> Iterator[Result]:
        for request in self.requests:
            while request.image_id not in self.settled or (
                request.image_id in self.doubtful and (self.hands or self.unasked)
            ):
                self._step()
            self.delivered.add(request.image_id)
            yield self._result(request.image_id, self.settled.pop(request.image_id))
        if self.program is not None:
            self.program.finish()

    def end(self) -> None:
        self.closed = True
        if self.program is not None:
            self.program.end()
            self.program = None

    # Asking
    def _step(self) -> None:
        """Ask for what may be asked, and take in one event."""
        if self.closed:
            raise VerismError(f"{self.owner.name} was closed while images were waited for")
        if self.program is None:
            self.program = self.owner.start()
            self.clock = time.monotonic()
        window = 1 if self.suspects else self.owner.ahead
        while self.unasked and len(self.hands) < window:
            if self.hands and len(self.hands) + len(self.settled) >= UNDELIVERED * self.owner.ahead:
                break
            self._ask(self.program, self.unasked.popleft())
        if not self.unasked:
            self.program.no_more()
        event = self._next_event(self.program)
        if self.closed:
            raise VerismError(f"{self.owner.name} was closed while images were waited for")
        if isinstance(event, _Said):
            if self._take(self.program, event.answer):
                self.clock = max(self.clock, event.at)
            else:
                self._check_silence(self.program, event.at)
        elif isinstance(event, _Garbled):
            self._take_garbled(event)
            self._check_silence(self.program, event.at)
        elif isinstance(event, _Flood):
            raise VerismError(
                f"{self.owner.label} printed more than {PROGRAM_BYTES.value:,} bytes on standard output without an "
                f"answer, and was ended. Answers are lines of JSON with an image_id; anything else belongs on standard "
                f"error; {PROGRAM_BYTES.hint()}"
            )
        elif isinstance(event, _Ended):
            program, self.program = self.program, None
            if self.hands:
                self._lost(program, f"ended ({program.how_it_ended()})", hung=False)
            elif self.unasked and not program.answered:
                self._lost(program, f"ended ({program.how_it_ended()}) before it was asked", hung=False)

    def _ask(self, program: _Program, request: Request) -> None:
        path = self.owner.suggested_path()
        self.hands[request.image_id] = _Asked(request, path, time.monotonic())
        program.ask(
            {
                "image_id": request.image_id,
                "prompt_id": request.prompt.prompt_id,
                "prompt": request.prompt.text,
                "index": request.index,
                "seed": request.seed,
                "path": str(path),
            }
        )

    def _next_event(self, program: _Program) -> _Said | _Garbled | _Flood | _Ended | None:
        """The next event; None when the time for it is over and something was done about that."""
        # Not from the last answer alone: the program may have been idle after it, while our images were waited upon.
        since = self._silent_since()
        limit = SILENCE_S if (not self.hinted or self.suspects) else None
        if self.owner.timeout is not None:
            limit = min(limit or self.owner.timeout, self.owner.timeout)
        try:
            wait = None if limit is None else max(0.0, since + limit - time.monotonic())
            return program.events.get(timeout=wait)
        except queue.Empty:
            self._check_silence(program, time.monotonic())
            return None

    def _silent_since(self) -> float:
        return max(self.clock, next((asked.at for asked in self.hands.values()), 0.0))

    def _check_silence(self, program: _Program, now: float) -> None:
        """Do something about a program that has answered nothing for too long, whatever else it prints."""
        silent = now - self._silent_since()
        if self.owner.timeout is not None and silent >= self.owner.timeout:
            self.program = None
            program.end()
            for answer in program.last_answers():
                self._take(program, answer)
            if self.hands:
                self._lost(program, f"gave no answer in {self.owner.timeout:g} s and was killed", hung=True)
        elif silent >= SILENCE_S:
            self.suspects.clear()  # it may be waiting for a full batch, which it will never get one at a time
            if not self.hinted:
                self.hinted = True
                _say(
                    f"no answer from {self.owner.label} in {silent:.0f} s. It may be at work. If not, does it "
                    "write one line of JSON per image, and flush its standard output? Does it wait for more than "
                    f"ahead={self.owner.ahead} requests? The option timeout=SECONDS would end it"
                )

    # Answers
    def _take(self, program: _Program, answer: Mapping[str, Any]) -> bool:
        """Keep an answer; whether it was one to a request."""
        if "image_id" not in answer:
            if {"path", "state"} & answer.keys():
                raise VerismError(f"{self.owner.label} answered without image_id: {_short(as_json(answer))}")
            if not program.answered and isinstance(answer.get("name"), str):
                self.owner.reported = dict(answer)
            else:
                _pass_on(as_json(answer) + "\n")
            return False
        image_id = answer["image_id"]
        if not isinstance(image_id, str) or image_id not in self.known:
            some = next(iter(self.hands), next(iter(self.known), ""))
            raise VerismError(
                f"{self.owner.label} answered for image_id {_short(repr(image_id))}, which it was not asked for; "
                f"an answer repeats the image_id of its request, such as {some!r}"
            )
        if image_id not in self.hands:
            if not (image_id in self.settled or image_id in self.delivered):
                raise VerismError(f"{self.owner.label} answered for {image_id!r} before it was asked for it")
            self.repeats += 1
            if self.repeats > REPEATS:
                raise VerismError(
                    f"{self.owner.label} answered {REPEATS:,} times in a row for images it had answered for before, "
                    f"{image_id!r} the last of them"
                )
            if self.repeats <= TAIL:
                _say(f"{self.owner.label} answered twice for {image_id!r}; the first answer counts")
            return False
        program.answered += 1
        self.ever_answered, self.barren, self.repeats = True, 0, 0
        self.doubtful.clear()
        path = self.hands.pop(image_id).path
        self.suspects.discard(image_id)
        self.settled[image_id] = self._settle(image_id, path, answer)
        return True

    def _settle(self, image_id: str, path: Path, answer: Mapping[str, Any]) -> _Image | Result:
        state, note = answer.get("state", "ok"), answer.get("note")
        note = "" if note is None else _short(str(note), 1000)
        if state in ("refused", "failed"):
            return Result(image_id=image_id, state=state, note=note or "the program gave no reason")
        if state not in ("ok", None):
            wrong = f"the program answered with state {_short(repr(state))}; expected ok, refused or failed"
            return Result(image_id=image_id, state="failed", note="; ".join(filter(None, (wrong, note))))
        value = answer.get("path")
        if value is not None:
            if not isinstance(value, str) or not value or "\0" in value:
                return Result(
                    image_id=image_id, state="failed", note=f"the program answered with path {_short(repr(value))}"
                )
            path = Path(os.path.abspath(self.owner.out / value))
        self._claim(image_id, path)
        return _Image(path, note, answer.get("seeded") is not False)

    def _claim(self, image_id: str, path: Path) -> None:
        """Refuse one file for two images, unless it is older than the program (a collection of images).

        A program with several requests in its hands overwrites such a file before it is read. With ``ahead=1`` it
        cannot.
        """
        other = self.claimed.setdefault(str(path), image_id)
        if other == image_id or self.owner.ahead == 1:
            return
        try:
            young = path.stat().st_mtime > self.began - 2  # clocks of file systems are coarse
        except OSError:
            young = True  # gone: it was read for the other image and removed
        if young:
            raise VerismError(
                f"{self.owner.label} answered with one file, {path}, for {other!r} and for {image_id!r}: one image "
                "overwrites the other, and those made so far may be wrong. Write each to the `path` of its request, or "
                "add ?ahead=1, and start a new run"
            )

    def _take_garbled(self, event: _Garbled) -> None:
        match = re.search(r'"image_id"\s*:\s*("(?:[^"\\]|\\.)*")', event.line)
        try:
            image_id = json.loads(match[1]) if match else None
        except ValueError:
            image_id = None
        if image_id in self.hands:
            del self.hands[image_id]
            self.suspects.discard(image_id)
            note = f"the program answered with a line that is no JSON ({event.why}): {_short(event.line)}"
            self.settled[image_id] = Result(image_id=image_id, state="failed", note=note)
        else:
            _say(f"{self.owner.label} answered with a line that is no JSON ({event.why}): {_short(event.line)}")

    # Ends
    def _lost(self, program: _Program, how: str, *, hung: bool) -> None:
        """The program is gone with images in its hands: ask again, give one up, or give up altogether."""
        hands = [asked.request for asked in self.hands.values()]
        self.hands.clear()
        first = hands[0].image_id if hands else ""
        alone = len(hands) == 1
        if not program.answered:
            self.barren += 1
        if self.barren > self.owner.restarts:
            count = "once" if self.barren == 1 else f"{self.barren} times in a row"
            never = "" if self.ever_answered else "; it has never answered anything"
            advice = "; should it take so long, raise the timeout, which includes loading the model" if hung else ""
            raise VerismError(
                f"{self.owner.command}: the program {how}, {count} without an answer{never}{advice}{program.tail(8)}"
            )
        if hands and (alone if hung else first == self.last_first):
            request = hands.pop(0)
            note = _short(f"the program {how} over this image{program.tail(3)}", 1000)
            self.settled[first] = Result(image_id=request.image_id, state="failed", note=note)
            self.doubtful.add(first)
            self.owner.given_up += 1
            if self.ever_answered:
                self.barren = 0
            if len(self.doubtful) >= HOPELESS:
                raise VerismError(
                    f"{self.owner.command}: the program {how}, and {HOPELESS} images in a row could not be had from "
                    f"it{program.tail(8)}"
                )
        self.last_first = first
        self.suspects = {r.image_id for r in hands}
        self.unasked.extendleft(reversed(hands))
        if hands or self.unasked:
            _say(f"{self.owner.label} {how}; starting it again")

    # Images
    def _result(self, image_id: str, settled: _Image | Result) -> Result:
        """What is handed on: pixels, so that the file can go."""
        if isinstance(settled, Result):
            return settled
        path = settled.path
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe would be waited for
            return Result(image_id=image_id, state="failed", note=f"{path}: not a file")
        image = read_image(path)
        # Only what lies in our directory: it may have a link to somebody's collection.
        if Path(os.path.realpath(path.parent)).is_relative_to(self.owner.out):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        note = "; ".join(n for n in (settled.note, image.note) if n)
        if image.pixels is None:
            where = "" if image.state == "failed" else f" ({path})"
            return Result(image_id=image_id, state="failed", note=note + where)
        # One flat colour is an image too: the run files it as blank, as it does for every model.
        note = settled.note if image.state == "blank" else note
        return Result(image_id=image_id, state="ok", pixels=image.pixels, note=note, seeded=settled.seeded)


def _named_files(words: Sequence[str], cwd: str | None) -> Iterator[tuple[str, Path]]:
    """Files that a command line names, as ``FILE`` or ``--option=FILE``: not interpreters, not programs on the PATH."""
    for number, word in enumerate(words):
        if number == 0 and (not os.path.dirname(word) or INTERPRETER.fullmatch(os.path.basename(word))):
            continue
        for part in dict.fromkeys((word, word.partition("=")[2])):
            path = os.path.join(cwd or "", part)
            if part and os.path.isfile(path):
                yield part, Path(path)


def _content_of(path: Path) -> str:
    """Short SHA-256 of a file; of a very large one of its size, its first and its last MiB."""
    size = path.stat().st_size
    file: BinaryIO
    with path.open("rb") as file:
        if size <= WHOLE_FILE:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
        digest = hashlib.sha256(f"{size}/".encode() + file.read(1 << 20))
        file.seek(-(1 << 20), os.SEEK_END)
        digest.update(file.read())
        return digest.hexdigest()[:16]


def _short(text: str, limit: int = 300) -> str:
    text = text.encode("utf-8", errors="replace").decode()  # JSON can hold half a character, tables cannot
    return text if len(text) <= limit else text[: limit - 3] + "..."
