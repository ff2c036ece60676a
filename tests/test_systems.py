"""Operating systems: what each is asked for, and that no other module asks. Windows is imitated, not run."""

from __future__ import annotations

import ast
import errno
import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import verism as call

import verism
from verism import systems
from verism.files import open_regular, write_new, write_whole
from verism.limits import TEXT_BYTES
from verism.systems import (
    end_group,
    move_into_place,
    move_unless_there,
    own_group,
    physical_memory_bytes,
    process_is_gone,
    quoted,
    split_command,
    write_text_of_any_language,
)

HOUSE = Path(verism.__file__).parent
# Calls and modules that only some systems have, or that mean something else on another.
CALLS = {
    *("os.fork", "os.kill", "os.killpg", "os.setsid", "os.link", "os.symlink", "os.rename", "os.sysconf", "os.getuid"),
    *("os.geteuid", "os.chmod", "os.mkfifo", "os.umask", "os.sep", "os.sched_getaffinity", "signal.SIGKILL"),
    *("signal.SIGHUP", "signal.SIGALRM", "signal.alarm", "shlex.split", "shlex.quote", "os.name", "sys.platform"),
    *("multiprocessing.Process", "multiprocessing.Pool", "tempfile.NamedTemporaryFile", "locale.getpreferredencoding"),
}
CALLED = {call.rpartition(".")[2] for call in CALLS}
METHODS = {"symlink_to", "hardlink_to", "chmod"}
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "pty", "msvcrt", "winreg"}
# Every finding has one of these in its text; parsing all files takes seconds.
SUSPECTS = (*CALLS, *METHODS, "/tmp", "TemporaryDirectory", "ProcessPoolExecutor", "get_context")
IMPORTS = re.compile(rf"^ *(?:import|from) .*\b(?:{'|'.join(MODULES)})\b", re.MULTILINE)


def is_suspect(text: str) -> bool:
    return any(word in text for word in SUSPECTS) or IMPORTS.search(text) is not None


def findings(tree: ast.AST) -> Iterator[str]:
    """What a file does that is not alike on all systems."""
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    for node in nodes:
        where = getattr(node, "lineno", 0)
        if isinstance(node, ast.Attribute) and node.attr in CALLED and ast.unparse(node) in CALLS:
            yield f"{where}: {ast.unparse(node)}"
        elif isinstance(node, ast.Attribute) and node.attr in METHODS:
            yield f"{where}: {node.attr}"
        elif isinstance(node, ast.Import):
            yield from (f"{where}: import {name.name}" for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield f"{where}: import {node.module}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/tmp"):
            yield f"{where}: a folder of Linux"
        elif isinstance(node, ast.Call):
            name, keys = getattr(node.func, "attr", getattr(node.func, "id", "")), {k.arg for k in node.keywords}
            if name == "TemporaryDirectory" and "ignore_cleanup_errors" not in keys:
                yield f"{where}: a temporary folder whose removal fails where a file of it is open"
            if name == "ProcessPoolExecutor" and "mp_context" not in keys and len(node.args) < 2:
                yield f"{where}: processes that are forked on Linux and spawned elsewhere"
            if name == "get_context" and ast.unparse(node.args[0] if node.args else node) != "'spawn'":
                yield f"{where}: processes that are not spawned"
            if name == "get_context" and "end_with_parent" not in names:
                yield f"{where}: processes that do not end with the one that starts them"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os\nos.kill(1, 9)", "2: os.kill"),
        ("from fcntl import flock", "1: import fcntl"),
        ("path.symlink_to(other)", "1: symlink_to"),
        ("tempfile.TemporaryDirectory()", "1: a temporary folder whose removal fails where a file of it is open"),
        ("ProcessPoolExecutor(2)", "1: processes that are forked on Linux and spawned elsewhere"),
        ("get_context('fork'); end_with_parent()", "1: processes that are not spawned"),
        ("get_context('spawn')", "1: processes that do not end with the one that starts them"),
        ("open('/tmp/x')", "1: a folder of Linux"),
    ],
)
def test_findings_tell_what_is_not_alike(code, message):
    assert is_suspect(code)
    assert list(findings(ast.parse(code))) == [message]


def test_only_one_module_asks_which_system_it_is():
    wrong = [
        f"{path.relative_to(HOUSE).as_posix()}:{line}"
        for path in sorted(HOUSE.rglob("*.py"))
        if path.name != "systems.py" and is_suspect(text := path.read_text(encoding="utf-8"))
        for line in findings(ast.parse(text))
    ]
    assert wrong == []


# --------------------------------------------------------------------------------------------------------------- files
def test_a_file_that_a_reader_has_open_is_replaced_when_it_is_closed(tmp_path, monkeypatch):
    source, target = tmp_path / "new", tmp_path / "old"
    source.write_text("new", encoding="utf-8")
    target.write_text("old", encoding="utf-8")
    opened = threading.Event()
    real = Path.replace

    def refuse_while_open(self: Path, other: Path) -> Path:
        if not opened.is_set():
            raise PermissionError(errno.EACCES, "The process cannot access the file", str(self))
        return real(self, other)

    monkeypatch.setattr(Path, "replace", refuse_while_open)
    with pytest.raises(PermissionError):
        move_into_place(source, target, patience=0.0)
    assert target.read_text(encoding="utf-8") == "old"
    threading.Timer(0.1, opened.set).start()
    monkeypatch.setattr(systems, "WINDOWS", True)
    write_whole(target, "newer")  # which waits, as Windows needs it
    assert target.read_text(encoding="utf-8") == "newer"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "old"]


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_never_takes_the_place_of_another(tmp_path, monkeypatch, links):
    if not links:  # exFAT, some network shares

        def no_links(*_: object) -> None:
            raise OSError(errno.EPERM, "no links")

        monkeypatch.setattr(os, "link", no_links)
    assert write_new(tmp_path / "a", b"first")
    assert not write_new(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_new_file_on_windows_is_renamed_which_never_replaces(tmp_path, monkeypatch):
    renamed = []

    def rename(self: Path, target: Path) -> Path:
        renamed.append(target.name)
        if target.exists():
            raise FileExistsError(errno.EEXIST, "there", str(target))
        return self.replace(target)

    monkeypatch.setattr(systems, "WINDOWS", True)
    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.delattr(os, "link")
    assert write_new(tmp_path / "a", b"first")
    assert not write_new(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert renamed == ["a", "a"]
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_disk_error_is_none_of_missing_links(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    (tmp_path / "a").write_bytes(b"x")
    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="full"):
        move_unless_there(tmp_path / "a", tmp_path / "b")


def test_a_folder_is_called_one_where_opening_it_is_not_permitted(tmp_path, monkeypatch):
    def refuse(path: object, *_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(IsADirectoryError), open_regular(tmp_path, TEXT_BYTES):
        pass


# ----------------------------------------------------------------------------------------------------------- processes
def test_a_process_ends_with_its_children():
    child = "import time; print('child', flush=True); time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, **own_group())
    assert process.stdout is not None
    assert process.stdout.readline().strip() == b"child"
    began = time.monotonic()
    end_group(process, at_once=True)
    assert process.stdout.read() == b""
    assert time.monotonic() - began < 30, "the child, which sleeps for a minute, held the pipe"
    process.wait(10)
    process.stdout.close()


def test_windows_kills_the_tree_by_its_own_program(monkeypatch):
    called = []
    monkeypatch.setattr(systems, "WINDOWS", True)
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 512, raising=False)
    assert own_group() == {"creationflags": 512}

    class Process:
        pid = 77

        def kill(self) -> None:
            called.append("kill")

    monkeypatch.setattr(subprocess, "run", lambda words, **_: called.append(" ".join(words)))
    end_group(Process(), at_once=False)  # type: ignore[arg-type]
    assert called == ["taskkill /F /T /PID 77", "kill"]
    assert not process_is_gone(os.getpid())


def test_a_process_that_has_ended_is_gone():
    process = subprocess.Popen([sys.executable, "-c", ""])
    assert not process_is_gone(os.getpid())
    process.wait()
    assert process_is_gone(process.pid)
    assert not process_is_gone(10**12)  # no number of a process


WORKER = """
import sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from verism.systems import end_with_parent

def work(_):
    print("at work", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=end_with_parent) as pool:
        list(pool.map(work, range(2)))
"""


@pytest.mark.parametrize("end", [subprocess.Popen.terminate, subprocess.Popen.kill])
def test_processes_end_with_the_one_that_started_them(tmp_path, end):
    script = tmp_path / "pool.py"
    script.write_text(WORKER, encoding="utf-8")
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"at work\n"
    end(process)
    # Its end comes when every process that has the pipe is gone, the worker in its sleep, too.
    reader = threading.Thread(target=process.stdout.read)
    reader.start()
    reader.join(60)
    assert not reader.is_alive()
    process.wait()


# ------------------------------------------------------------------------------------------------------ words and text
def test_words_of_a_command_line_are_those_of_the_system(monkeypatch):
    text = r"""python "my paint.py" --name 'a b' C:\\models\\x"""
    assert split_command(text) == ["python", "my paint.py", "--name", "a b", r"C:\models\x"]
    assert split_command("./paint #1 --x=a,b;c") == ["./paint", "#1", "--x=a,b;c"]
    assert quoted("my run") == "'my run'"
    monkeypatch.setattr(systems, "WINDOWS", True)
    assert split_command(r'C:\paint\run.exe "D:\my models\x" --who=it\'s') == [
        *(r"C:\paint\run.exe", r"D:\my models\x"),
        r"--who=it\'s",
    ]
    assert quoted("my run") == '"my run"'
    assert quoted("C:\\runs\\a") == "C:\\runs\\a"
    with pytest.raises(ValueError, match="No closing quotation"):
        split_command('"open')


class Stream(io.TextIOWrapper):
    def __init__(self, encoding: str, tty: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="\n")
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    def content(self) -> bytes:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


@pytest.mark.parametrize(
    ("encoding", "tty", "expected"),
    [
        ("cp1252", False, "é 日".encode()),
        ("cp1252", True, b"\xe9 \\u65e5"),
        ("utf-8", True, "é 日".encode()),
    ],
)
def test_every_language_can_be_written(monkeypatch, encoding, tty, expected):
    stream = Stream(encoding, tty)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    write_text_of_any_language()
    print("é 日", end="")
    assert stream.content() == expected


def test_a_chosen_encoding_is_obeyed(monkeypatch):
    stream = Stream("cp1252", tty=False)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    write_text_of_any_language()
    assert stream.encoding == "cp1252"


def test_a_name_of_another_language_reaches_a_file_in_an_old_code_page(tmp_path):
    # As a pipe of Windows: Python's own default there is the code page, which has neither letter.
    prompts = tmp_path / "p.csv"
    prompts.write_text("id,caption\n1,a 日 cat\n", encoding="utf-8")
    code = (
        "import sys\nfrom verism.cli import main\n"
        "sys.stdout.reconfigure(encoding='cp1252')\n"
        "sys.argv = ['verism', 'prompts', 'alignment', '--prompts', 'p.csv']\n"
        "main.main()"
    )
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONIOENCODING"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=kept, capture_output=True, check=False)
    assert "日".encode() in done.stdout, done.stderr


def test_memory_is_that_of_the_machine():
    memory = physical_memory_bytes()
    assert memory is not None
    assert 2**28 < memory < 2**50


def test_commands_in_hints_are_quoted(tmp_path):
    done = call("run", "paintskills", "--model", "builtin", "--limit", 3, "--out", tmp_path / "my run")
    assert f"verism report '{tmp_path / 'my run'}'" in done.stderr
