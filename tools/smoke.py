"""Cheap calls of the installed package: what ``release_check.py`` tries in clean environments, from another directory.

Every command of ``verism`` is either called here or stands in ``HELP_ONLY`` with the reason; so does every extra
(``EXTRAS``). ``tests/test_release.py`` compares both lists with the commands and the extras that there are.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CORE", "EXTRAS", "HELP_ONLY", "Call", "Done", "called", "environment", "helps"]


@dataclass(frozen=True)
class Call:
    """A command and what it must say.

    Attributes:
        words: the command line after ``verism``, or a program for ``python -c`` if ``python`` is set.
        says: a part of what it prints, on either stream.
        code: its exit code.
        python: whether ``words`` is Python.
    """

    words: str
    says: str = ""
    code: int = 0
    python: bool = False


@dataclass(frozen=True)
class Done:
    """What became of a call. ``problem`` is empty if it did as it should."""

    call: Call
    problem: str


MAKE_FEATURES = """\
import json
import numpy as np
rng = np.random.default_rng(0)
np.save("real.npy", rng.normal(size=(64, 8)))
np.save("mine.npy", rng.normal(0.5, size=(64, 8)))
json.dump({"annotations": [{"image_id": 1, "caption": "a dog in the snow"}]}, open("refs.json", "w", encoding="utf-8"))
json.dump([{"image_id": 1, "caption": "a dog in snow"}], open("cands.json", "w", encoding="utf-8"))
"""

# In the order in which they are called: later ones use what earlier ones have made.
CORE = (
    Call("--version", says="verism"),
    Call("doctor", says="simulator"),
    Call("list suites", says="paintskills"),
    Call("prompts paintskills --limit 3 --json", says="prompt_id"),
    Call("questions tifa", says="question"),
    Call("generate paintskills --model builtin --limit 4 --out runs/builtin", says="4 ok"),
    Call("questions runs/builtin", says="classes"),
    Call("run paintskills --model builtin --limit 6 --out runs/builtin", says="report:"),
    Call("run paintskills --model oracle --limit 6 --out runs/oracle", says="report:"),
    Call("observe runs/builtin --detector builtin", says="builtin"),
    Call("score runs/builtin --threshold 0.6 --name strict", says="builtin"),
    Call("scorings runs/builtin", says="strict"),
    Call("completion bash", says="_VERISM_COMPLETE"),
    Call("config", says="no verism.toml"),
    Call("verify runs/builtin", says="whole"),
    Call("compact runs/builtin", says="files of images"),
    Call("report runs/builtin", says="index.html"),
    Call("compare runs/builtin runs/oracle --anyway", says="mean"),
    Call("gate runs/builtin runs/builtin --max-drop 90"),
    Call("board runs --out board.html"),
    Call("annotate runs/builtin", says="count"),
    Call("export runs/builtin --to csv tables"),
    Call("judge show detector-builtin", says="detector"),
    Call("scenes sheet --only dog --out dog.png"),
    Call("plan init plan.yaml"),
    Call("plan check plan.yaml"),
    Call("reproduce gep", says="cannot be recomputed"),
    Call("data check geode nowhere", says="no such folder", code=2),
    Call("geneval prompts --out geneval.jsonl"),
    Call(MAKE_FEATURES, python=True),
    Call("metrics fid --real real.npy --generated mine.npy --json", says='"fid": 2.46'),
    # The first call of most people, and what `uvx verism demo` runs.
    Call("demo --limit 12 --out demo_run", says="done in"),
    # Without the extra, a command says how to install it.
    Call("view runs", says="pip install 'verism[annotate]'", code=1),
)

# Commands that are only asked for their help, and why.
HELP_ONLY = {
    "agreement": "needs answers of people",
    "train": "needs the extra train, and minutes",
    "gep": "needs runs of gender_presentation with a judge of the hub, or labels of people",
    "dsg": "needs the released ratings",
    "tifa": "needs the released ratings",
    "genai": "needs the released ratings",
    "unigenbench": "needs the released list of prompts and results",
    "compbench": "needs a copy of the prompts",
    "preference": "needs the released data of preference",
}

IMPORTS = "import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"


def imports(*names: str) -> Call:
    """A call that imports modules."""
    return Call(IMPORTS.format(names=names), python=True)


# What is tried of each extra beside the core's calls. Hubs and services are out of reach of a check without a network.
EXTRAS: Mapping[str, tuple[Call, ...]] = {
    "sim": (
        imports("embreex", "trimesh"),
        Call("run paintskills --model oracle --limit 2 --out runs/sim", says="report:"),
    ),
    "models": (imports("torch", "transformers", "safetensors", "sentencepiece", "sklearn"),),
    "generate": (
        imports("torch", "diffusers", "transformers", "accelerate", "safetensors", "peft"),
        Call("from diffusers import StableDiffusionPipeline", python=True),
    ),
    "api": (
        imports("httpx", "tenacity"),
        Call("run paintskills --model openai:gpt-image-1 --limit 2 --dry-run --out runs/api", says="2"),
    ),
    "captions": (
        imports("pycocoevalcap", "pycocotools"),
        Call(MAKE_FEATURES, python=True),
        Call("metrics captions --references refs.json --candidates cands.json --json", says="CIDEr"),
    ),
    "phrases": (imports("spacy"),),
    "faces": (imports("cv2"),),
    "ocr": (Call("run text_rendering --model oracle --ocr rapidocr --limit 2 --out runs/ocr", says="report:"),),
    "annotate": (imports("fastapi", "uvicorn", "verism.web_server", "verism.viewer.routes"),),
    "docs": (imports("zensical", "mkdocstrings", "mkdocstrings_handlers.python"),),
    "heif": (imports("pillow_heif"),),
    "storage": (imports("obstore"),),
    "ray": (Call("run paintskills --model builtin --limit 2 --executor ray --out runs/ray", says="report:"),),
    "trackers": (
        Call("run paintskills --model builtin --limit 2 --track tensorboard:tb --out runs/tracked", says="report:"),
        imports("mlflow", "sqlalchemy", "alembic", "wandb", "tensorboard"),
    ),
    "train": (
        Call("scenes render paintskills --split train --limit 8 --size 256 --out scenes"),
        Call("train detector --suite paintskills --scenes scenes --steps 1 --batch 2 --width 0.25 --out detector"),
    ),
}


def environment() -> dict[str, str]:
    """Variables of this process without those that would let the checkout be found."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "0"}


def scripts(python: Path) -> Path:
    """The folder of an environment's programs."""
    return python.parent


def called(python: Path, calls: tuple[Call, ...], folder: Path, timeout: float = 900.0) -> Iterator[Done]:
    """Call one after the other.

    Args:
        python: interpreter of the environment that verism is installed in.
        calls: what to call.
        folder: working directory, outside the checkout.
        timeout: seconds for each.
    """
    program = scripts(python) / ("verism.exe" if os.name == "nt" else "verism")
    for call in calls:
        words = [str(python), "-c", call.words] if call.python else [str(program), *shlex.split(call.words)]
        try:
            done = subprocess.run(
                words, cwd=folder, env=environment(), capture_output=True, timeout=timeout, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            yield Done(call, f"no end after {timeout:.0f} s")
            continue
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode != call.code:
            yield Done(call, f"exit code {done.returncode} and not {call.code}: {said[-1500:]}")
        elif call.says not in said:
            yield Done(call, f"does not say {call.says!r}: {said[-1500:]}")
        elif "Traceback (most recent call last)" in said:
            yield Done(call, f"a traceback: {said[-1500:]}")
        else:
            yield Done(call, "")


# Every command is loaded and its help written, in one process: 0.2 s for each to start would be half a minute.
HELPS = """\
import json
import click
from verism.cli.main import cli

def walk(command, path=()):
    if hasattr(command, "loaded"):
        command = command.loaded()
    context = click.Context(command, info_name=" ".join(("verism", *path)))
    assert command.get_help(context), path
    yield " ".join(path)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), (*path, name))

print(json.dumps(list(walk(cli))))
"""


def helps(python: Path, folder: Path) -> list[str]:
    """Commands whose help could be written, as words after ``verism``.

    Args:
        python: interpreter of the environment that verism is installed in.
        folder: working directory, outside the checkout.

    Raises:
        RuntimeError: the help of a command failed.
    """
    done = subprocess.run(
        [str(python), "-c", HELPS], cwd=folder, env=environment(), capture_output=True, text=True, encoding="utf-8",
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"help of a command: {done.stderr[-1500:]}")
    return [str(name) for name in json.loads(done.stdout)]


if __name__ == "__main__":
    for result in called(Path(sys.executable), CORE, Path.cwd()):
        print(f"{'FAILED' if result.problem else 'ok    '} {result.call.words.splitlines()[0]} {result.problem}")
