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
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["Meteor", "MissingTool", "ToolFailed", "find_java", "find_toolkit", "meteor", "meteor_value", "spice"]

METEOR_STATISTICS = 23
METEOR_BLOCK = 10_000  # captions whose statistics stand in one line
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


class Meteor:
    """METEOR 1.5 for English, with the options of the COCO caption toolkit; a context in which its Java program runs.

    Java gets one caption at a time and keeps none of them, so that what it needs does not grow with their number. It is
    started when it is first asked, once, as it takes seconds to read its tables.

    Source: Denkowski & Lavie 2014, WMT; meteor-1.5.jar, options ``-stdio -l en -norm``.
    """

    def __init__(self) -> None:
        """Find the program.

        Raises:
            MissingTool: Java or the package is missing.
        """
        self._folder = find_toolkit("METEOR") / "meteor"
        self._command = [find_java("METEOR"), "-Dfile.encoding=UTF-8", "-Xmx2G", "-jar", "meteor-1.5.jar"]
        self._command += ["-", "-", "-stdio", "-l", "en", "-norm"]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._complaints = tempfile.TemporaryFile()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._complaints.close()

    def statistics(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """What METEOR is made of, for each caption; counts, which may be summed.

        Args:
            candidates: tokenised captions, words separated by spaces.
            references: for each caption, in the same order, its tokenised references.
        Returns:
            Shape (N, 23), see ``meteor_value``.
        Raises:
            ToolFailed: Java stopped without an answer.
        """
        table = np.zeros((len(candidates), METEOR_STATISTICS))
        for row, candidate, several in zip(table, candidates, references, strict=True):
            texts = [*map(_one_line, several), _one_line(candidate)]
            row[:] = self._ask("SCORE", texts, n_answers=1, width=METEOR_STATISTICS)[0]
        # The program sums no chunk of a caption that matches as a whole, as it takes nothing off for it.
        complete = (table[:, 20] == 1) & np.all(table[:, 21:23] == table[:, 0:2], axis=1)
        table[complete, 20] = 0.0
        return table

    def values(self, statistics: NDArray[np.float64]) -> NDArray[np.float64]:
        """METEOR of captions, or of sets of them, as Java computes it.

        Args:
            statistics: of each caption, or their sums over a set, shape (N, 23).
        Returns:
            Shape (N,), in [0, 1].
        Raises:
            ToolFailed: Java stopped without an answer.
        """
        values = np.zeros(len(statistics))
        for start in range(0, len(statistics), METEOR_BLOCK):
            lines = [" ".join(map(str, row)) for row in statistics[start : start + METEOR_BLOCK].tolist()]
            answers = self._ask("EVAL", lines, n_answers=len(lines) + 1, width=1)  # the last is of all lines together
            values[start : start + len(lines)] = [number for (number,) in answers[:-1]]
        return values

    def _ask(self, what: str, parts: Sequence[str], *, n_answers: int, width: int) -> list[list[float]]:
        try:
            process = self._process = self._process or subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                encoding="utf-8",
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(" ||| ".join([what, *parts]) + "\n")
            process.stdin.flush()
            answers = [process.stdout.readline() for _ in range(n_answers)]
            numbers = [[float(number) for number in answer.split()] for answer in answers]
            if wrong := [answer for answer, found in zip(answers, numbers, strict=True) if len(found) != width]:
                raise ValueError(f"it answered {wrong[0]!r}" if wrong[0].strip() else "an empty answer")
        except (OSError, ValueError) as err:
            self._end()
            self._complaints.seek(0)
            message = self._complaints.read().decode(errors="replace").strip()[-2000:]
            raise ToolFailed(f"METEOR stopped without an answer ({err}). Java said: {message or 'nothing'}") from err
        return numbers

    def _end(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):  # what is still buffered cannot be delivered to a process that stopped
            process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


def meteor(
    candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """METEOR of a set of captions, see ``Meteor``.

    Args:
        candidates: tokenised captions, words separated by spaces.
        references: for each caption, in the same order, its tokenised references.
    Returns:
        The corpus value, in [0, 1], which is that of the summed statistics and not the mean; the value of each caption,
        shape (N,); the statistics of each, shape (N, 23), for ``meteor_value``.
    Raises:
        MissingTool: Java or the package is missing. ToolFailed: Java stopped without an answer.
    """
    with Meteor() as program:
        table = program.statistics(candidates, references)
        single = program.values(table)
        corpus = float(program.values(table.sum(axis=0, keepdims=True))[0]) if len(table) else math.nan
    return corpus, single, table


def _one_line(caption: str) -> str:
    """A caption without what would be read as a separator."""
    return caption.replace("|||", "").replace("  ", " ").replace("\n", " ")


def meteor_value(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """METEOR of statistics, or of sums of them: what the Java program computes from them, for resampling.

    Args:
        statistics: shape (..., 23): words of candidate and reference; function words of both; for each of four kinds
            of matches, content words of candidate and reference, function words of both; chunks, none where all words
            of both are matched in one; words matched in both.
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
    value: NDArray[np.float64] = f_mean * (1 - _GAMMA * fragmentation**_BETA)
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
