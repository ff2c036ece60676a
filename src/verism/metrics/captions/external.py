"""METEOR and SPICE: Java programs that come with, or belong beside, the package pycocoevalcap.

The package's own wrappers are not used: its METEOR fails with an attribute error where Java is missing, its SPICE
downloads half a gigabyte when it is constructed, and writes into the installed package. The programs, their options and
their numbers are the same.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["MissingTool", "ToolFailed", "find_java", "find_toolkit", "meteor", "meteor_value", "spice"]

METEOR_STATISTICS = 23
SPICE_BLOCK = 20_000  # captions for one start of Java, which holds all it is given with the parsed references
SPICE_MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
SPICE_ARCHIVE = "http://nlp.stanford.edu/software/stanford-corenlp-full-2015-12-09.zip"

# English METEOR 1.5, task "rank": alpha, beta, gamma, delta; weights of exact, stem, synonym and paraphrase matches.
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_MODULES = np.array([1.0, 0.6, 0.8, 0.6])


class MissingTool(RuntimeError):
    """Something outside Python that a metric needs is not installed; the message says what, and how to install it."""


class ToolFailed(RuntimeError):
    """A Java program ended without the scores; the message holds what it said."""


def find_java(purpose: str) -> str:
    """Path of ``java``.

    Raises:
        MissingTool: there is none.
    """
    java = shutil.which("java")
    if java is None:
        raise MissingTool(
            f"{purpose} needs Java, and no `java` is on the PATH. Install a runtime, for example with: "
            "apt-get install default-jre-headless. The other caption metrics do without"
        )
    return java


def find_toolkit(purpose: str) -> Path:
    """Folder of the installed package pycocoevalcap, which carries the Java programs.

    Raises:
        MissingTool: it is not installed.
    """
    spec = importlib.util.find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise MissingTool(
            f"{purpose} needs the package pycocoevalcap (104 MB). Install it with: "
            "pip install 'verism[captions]'. The other caption metrics do without"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def meteor(
    candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """METEOR 1.5 for English, with the options of the COCO caption toolkit.

    Args:
        candidates: tokenised captions, words separated by spaces.
        references: for each caption, in the same order, its tokenised references.
    Returns:
        The corpus value, in [0, 1], which is that of the summed statistics and not the mean; the value of each caption,
        shape (N,); the statistics of each, shape (N, 23), for ``meteor_value``.
    Raises:
        MissingTool: Java or the package is missing. ToolFailed: Java stopped without an answer.
    Source: Denkowski & Lavie 2014, WMT; meteor-1.5.jar, options ``-stdio -l en -norm``.
    """
    folder = find_toolkit("METEOR") / "meteor"
    command = [find_java("METEOR"), "-Dfile.encoding=UTF-8", "-Xmx2G", "-jar", "meteor-1.5.jar"]
    command += ["-", "-", "-stdio", "-l", "en", "-norm"]
    if not candidates:
        return math.nan, np.zeros(0), np.zeros((0, METEOR_STATISTICS))
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, encoding="utf-8"
        ) as process,
    ):
        try:
            statistics = [
                _ask(process, " ||| ".join(["SCORE", *map(_one_line, several), _one_line(candidate)]))
                for candidate, several in zip(candidates, references, strict=True)
            ]
            first = _ask(process, " ||| ".join(["EVAL", *statistics]))
            values = [float(line) for line in [first, *(_answer(process) for _ in candidates)]]
            table = np.array([line.split() for line in statistics], dtype=np.float64)
            _close(process)
        except (OSError, ValueError) as err:
            _close(process)  # else leaving the block tries to deliver what is still buffered, and fails again
            process.kill()
            process.wait()
            complaints.seek(0)
            message = complaints.read().decode(errors="replace").strip()[-2000:]
            raise ToolFailed(f"METEOR stopped without an answer ({err}). Java said: {message or 'nothing'}") from err
    return values[-1], np.array(values[:-1]), table


def _one_line(caption: str) -> str:
    """A caption without what would be read as a separator."""
    return caption.replace("|||", "").replace("  ", " ").replace("\n", " ")


def _close(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()


def _ask(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return _answer(process)


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise ValueError("an empty answer")
    return line


def meteor_value(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """METEOR of statistics, or of sums of them: what the Java program computes from them, for resampling.

    Args:
        statistics: shape (..., 23): words of candidate and reference; function words of both; for each of four kinds
            of matches, content words of candidate and reference, function words of both; chunks; words matched in both.
    Returns:
        Shape (...), in [0, 1].
    Source: Denkowski & Lavie 2014, Sec. 2; parameters of meteor-1.5.jar for English.
    """
    words, function = statistics[..., 0:2], statistics[..., 2:4]
    matches = statistics[..., 4:20].reshape(*statistics.shape[:-1], 4, 4)
    content_matched = np.einsum("...mk,m->...k", matches[..., 0:2], _MODULES)
    function_matched = np.einsum("...mk,m->...k", matches[..., 2:4], _MODULES)
    weighted = _DELTA * content_matched + (1 - _DELTA) * function_matched
    possible = _DELTA * (words - function) + (1 - _DELTA) * function
    shares = np.divide(weighted, possible, out=np.zeros_like(weighted), where=possible > 0)
    precision, recall = shares[..., 0], shares[..., 1]
    mean_denominator = _ALPHA * precision + (1 - _ALPHA) * recall
    f_mean = np.divide(precision * recall, mean_denominator, out=np.zeros_like(precision), where=mean_denominator > 0)
    chunks, matched = statistics[..., 20], statistics[..., 21:23]
    average = matched.mean(axis=-1)
    fragmentation = np.divide(chunks, average, out=np.zeros_like(average), where=average > 0)
    complete = (chunks == 1) & np.all(matched == words, axis=-1)
    penalty = np.where(complete, 0.0, _GAMMA * fragmentation**_BETA)
    value: NDArray[np.float64] = f_mean * (1 - penalty)
    return value


def spice(candidates: Sequence[str], references: Sequence[Sequence[str]], *, memory: str = "8G") -> NDArray[np.float64]:
    """SPICE of each caption, shape (N,); the corpus value is their mean. NaN where the program gives none.

    Captions are scored by themselves, so Java gets them in blocks: what it needs does not grow with their number.

    Args:
        candidates: tokenised captions, words separated by spaces.
        references: for each caption, in the same order, its tokenised references.
        memory: heap of the Java machine, as in ``-Xmx``. The toolkit asks for 8 GB.
    Raises:
        MissingTool: Java, the package, or the two files of Stanford CoreNLP 3.6.0 are missing. ToolFailed: Java ended
            with an error.
    Source: Anderson et al. 2016, arXiv:1607.08822; spice-1.0.jar. We run it without the toolkit's cache of parsed
        sentences, which would be written into the installed package; the scores are the same.
    """
    folder = find_toolkit("SPICE") / "spice"
    java = find_java("SPICE")
    if missing := [name for name in SPICE_MODELS if not (folder / "lib" / name).is_file()]:
        raise MissingTool(
            f"SPICE needs {' and '.join(missing)} in {folder / 'lib'}. Download {SPICE_ARCHIVE}, unpack it, and copy "
            "the file(s) there. The other caption metrics do without"
        )
    if len(candidates) != len(references):
        raise ValueError(f"got {len(candidates)} captions and references of {len(references)}")
    scores = np.full(len(candidates), np.nan)
    for start in range(0, len(candidates), SPICE_BLOCK):
        block = range(start, min(start + SPICE_BLOCK, len(candidates)))
        asked = [{"image_id": n, "test": candidates[n], "refs": list(references[n])} for n in block]
        for answer in _answers_of_spice([java, f"-Xmx{memory}", "-jar", "spice-1.0.jar"], folder, asked):
            value = answer["scores"]["All"]["f"]
            scores[int(answer["image_id"])] = math.nan if value is None else float(value)
    return scores


def _answers_of_spice(command: list[str], folder: Path, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="spice-", ignore_cleanup_errors=True) as scratch:
        source, target = Path(scratch, "captions.json"), Path(scratch, "scores.json")
        source.write_text(json.dumps(asked), encoding="utf-8")
        command = [*command, str(source), "-out", str(target), "-subset", "-silent"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode or not target.is_file():
            message = (done.stderr or done.stdout).strip()[-2000:]
            raise ToolFailed(f"SPICE ended with code {done.returncode}. Java said: {message or 'nothing'}")
        return cast(list[dict[str, Any]], json.loads(target.read_text(encoding="utf-8")))
