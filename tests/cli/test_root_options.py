"""Options of ``verism`` itself: messages, logs, colours, defaults from files and the environment, completion."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from verism import progress
from verism.cli.defaults import find_file
from verism.cli.main import cli
from verism.errors import UsageError
from verism.progress import Progress
from verism.terminal import has_colours, say, show_messages

RUN = ["run", "paintskills", "--model", "oracle", "--limit", "2", "--size", "64", "--processes", "1"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "VERISM_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield
    show_messages(quiet=False, verbose=False)
    logger = logging.getLogger()
    for handler in [handler for handler in logger.handlers if getattr(handler, "of_verism", False)]:
        logger.removeHandler(handler)
        handler.close()


def verism(*words: object) -> object:
    return CliRunner().invoke(cli, [str(word) for word in words])


def plan_of(*words: object) -> dict:
    done = verism("run", "paintskills", *words, "--dry-run", "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


# ------------------------------------------------------------------------------------------------------------ messages
def test_json_is_pure_and_quiet_leaves_remarks_alone(tmp_path):
    done = verism(*RUN, "--out", tmp_path / "R", "--json", "--log-file", tmp_path / "logs/run.log", "-q")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)
    assert "report:" not in done.stderr
    log = (tmp_path / "logs/run.log").read_text(encoding="utf-8")
    assert "verism: report: verism report" in log
    loud = verism(*RUN, "--out", tmp_path / "R", "--json")
    assert json.loads(loud.stdout) == json.loads(done.stdout)
    assert "report: verism report" in loud.stderr


def test_quiet_and_verbose_together_are_refused():
    done = verism("list", "suites", "-q", "-v")
    assert isinstance(done.exception, UsageError)


def test_log_file_by_its_url_is_that_file(tmp_path):
    assert verism("list", "suites", "--log-file", (tmp_path / "run.log").as_uri(), "-v").exit_code == 0
    assert (tmp_path / "run.log").is_file()


def test_log_file_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = verism("list", "suites", "--log-file", tmp_path / "file" / "x.log")
    assert isinstance(done.exception, UsageError)
    assert "cannot be written" in str(done.exception)


@pytest.mark.parametrize(
    ("variables", "terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours_are_for_terminals_and_no_color_ends_them(monkeypatch, capsys, variables, terminal, coloured):
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    assert has_colours(stream) is coloured
    say("note: nothing")
    assert ("\x1b[" in capsys.readouterr().err) is (variables == {"FORCE_COLOR": "1"})


# ------------------------------------------------------------------------------------------------------------ progress
def test_progress_off_a_terminal_is_a_line_now_and_then_with_rate_and_time_left(monkeypatch):
    monkeypatch.setattr(progress, "LINE_S", 0.02)
    stream = io.StringIO()
    with Progress("images", 4, stream=stream) as line:
        time.sleep(0.03)
        line.arrive()
        assert stream.getvalue().startswith("images 1/4  ")
        assert stream.getvalue().endswith(" left\n")
        line.arrive(2)
        line.advance(3)  # the same three
        assert line.line().startswith("images 3/4")
        time.sleep(0.03)
        line.advance()
    lines = stream.getvalue().splitlines()
    assert "\r" not in stream.getvalue()
    assert lines[-1].startswith("images 4/4")


def test_progress_of_quick_work_says_nothing_off_a_terminal():
    stream = io.StringIO()
    with Progress("images", 4, stream=stream) as line:
        line.advance(4)
    assert stream.getvalue() == ""


def test_progress_on_a_terminal_begins_with_the_first_image(monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    with Progress("images", 70, stream=stream) as line:
        line.arrive()
        assert "images 1/70" in stream.getvalue()
    show_messages(quiet=True, verbose=False)
    silent = io.StringIO()
    silent.isatty = lambda: True  # type: ignore[method-assign]
    with Progress("images", 70, stream=silent) as line:
        line.arrive()
    assert silent.getvalue() == ""


# ------------------------------------------------------------------------------------------------------------ defaults
def test_option_goes_before_environment_before_file_before_default(tmp_path, monkeypatch):
    everything = plan_of()["prompts"]
    (tmp_path / "verism.toml").write_text("[run]\nlimit = 9\n", encoding="utf-8")
    assert plan_of()["prompts"] == 9 < everything
    monkeypatch.setenv("VERISM_LIMIT", "12")
    assert plan_of()["prompts"] == 12
    monkeypatch.setenv("VERISM_RUN_PAINTSKILLS_LIMIT", "15")
    assert plan_of()["prompts"] == 15
    assert plan_of("--limit", 3)["prompts"] == 3


def test_closest_table_of_the_file_counts_and_is_named(tmp_path):
    (tmp_path / "verism.toml").write_text(
        "seed = 3\n[run]\nlimit = 9\n[run.paintskills]\nlimit = 6\nn-images = 2\nskill = ['count']\n", encoding="utf-8"
    )
    done = verism("run", "paintskills", "--dry-run", "--json")
    plan = json.loads(done.stdout)
    assert (plan["prompts"], plan["images"], plan["images_by_group"]) == (6, 12, {"count": 12})
    assert f"defaults from {tmp_path / 'verism.toml'}: seed=3, limit=6, n_images=2" in done.stderr
    assert "limit=" not in verism("run", "paintskills", "--limit", 3, "--dry-run", "--json").stderr


def test_nearest_file_upwards_counts_and_pyproject_is_one(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[tool.verism.run]\nlimit = 4\n", encoding="utf-8")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert plan_of()["prompts"] == 4
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")  # says nothing of us
    assert find_file(inner).file == tmp_path / "pyproject.toml"
    (tmp_path / "a" / "verism.toml").write_text("[run]\nlimit = 5\n", encoding="utf-8")
    assert plan_of()["prompts"] == 5
    monkeypatch.setenv("VERISM_CONFIG", "")
    assert find_file(inner).file is None


def test_paths_of_the_file_count_from_its_folder(tmp_path, monkeypatch):
    (tmp_path / "verism.toml").write_text("[report]\nout = 'pages/all.html'\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    verism(*RUN, "--out", tmp_path / "R")
    monkeypatch.chdir(tmp_path / "sub")
    assert verism("report", tmp_path / "R").exit_code == 0
    assert (tmp_path / "pages" / "all.html").is_file()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("devise = 'cuda'\n", "no option 'devise' at the top. Did you mean device"),
        ("[run]\nlimt = 3\n", "no option 'limt' at [run]. Did you mean limit"),
        ("[rnu]\nlimit = 3\n", "[rnu] is no command of verism. Did you mean run"),
        ("[run\n", "cannot be read as TOML"),
    ],
)
def test_misspelt_key_is_an_error_with_a_suggestion(tmp_path, text, words):
    (tmp_path / "verism.toml").write_text(text, encoding="utf-8")
    for command in (("run", "paintskills", "--dry-run"), ("config",)):
        done = verism(*command)
        assert isinstance(done.exception, UsageError)
        assert words in str(done.exception)


def test_config_shows_what_applies_and_from_where(tmp_path, monkeypatch):
    (tmp_path / "verism.toml").write_text("device = 'cpu'\n[run.quality]\nseed = 3\n", encoding="utf-8")
    monkeypatch.setenv("VERISM_DEVCE", "cuda")
    done = verism("config")
    assert "all commands: --device = 'cpu'" in done.stdout
    assert "Did you mean VERISM_DEVICE" in done.stderr
    record = json.loads(verism("config", "--json").stdout)
    assert record["file"] == str(tmp_path / "verism.toml")
    assert record["unknown"] == ["VERISM_DEVCE"]
    assert {"command": "", "option": "--device", "value": "cpu", "from": record["file"]} in record["defaults"]


# ---------------------------------------------------------------------------------------------------------- completion
def completed(*words: str) -> list[str]:
    complete = ShellComplete(cli, {}, "verism", "_VERISM_COMPLETE")
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


def test_suites_models_judges_and_runs_are_completed(tmp_path):
    assert "paintskills" in completed("run", "pai")
    assert "generate" in completed("gen")
    assert completed("run", "paintskills", "--model", "built") == ["builtin"]
    assert "open-vocabulary" in completed("run", "paintskills", "--detector", "o")
    assert "results" in completed("run", "tifa", "--vqa", "")
    verism(*RUN, "--out", tmp_path / "runs" / "one")
    (tmp_path / "runs" / "other").mkdir()
    assert completed("report", "ru") == ["runs/"]
    assert completed("score", "runs/o") == ["runs/one", "runs/other/"]
    assert "--n-images" in completed("run", "paintskills", "--n")


def test_completing_suites_loads_none():
    code = (
        "import sys; from click.shell_completion import ShellComplete; from verism.cli.main import cli\n"
        "c = ShellComplete(cli, {}, 'verism', 'X'); c.get_completions(['run'], '')\n"
        "print([m for m in sys.modules if m.startswith('verism.suites.') and m.endswith('.suite')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_program_for_the_shell(shell):
    done = verism("completion", shell)
    if isinstance(done.exception, (UsageError, click.ClickException)):
        pytest.skip("no such shell here")
    assert "_VERISM_COMPLETE" in done.stdout


def test_python_m_is_the_same_program():
    done = subprocess.run([sys.executable, "-m", "verism", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("verism, version ")
