"""METEOR and SPICE: what is missing is said, Java's answers are read, METEOR's arithmetic is Java's."""

from __future__ import annotations

import importlib.util
import json
import math
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from verism.metrics.captions import MissingTool, ToolFailed, caption_scores, external, meteor, spice
from verism.metrics.captions.external import meteor_value

# Answers of `java -jar meteor-1.5.jar - - -stdio -l en -norm` to three captions: statistics, values, corpus value. The
# program itself takes too long for a test; `python benchmarks/captions.py java` runs it.
CANDIDATES = ["a man is riding horses", "a dog", ""]
REFERENCES = [["a man rides a horse", "the man is riding a brown horse"], ["a cat on the mat"], ["a b"]]
STATISTICS = np.array(
    [
        [5, 7, 2, 3, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 4],
        [2, 5, 1, 3, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1],
        [0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ],
    dtype=np.float64,
)
VALUES = [0.26537203445684754, 0.04848484848484849, 0.0]
CORPUS = 0.15832804461358368


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def toolkit(monkeypatch, tmp_path) -> Path:
    """A folder that stands for the installed package, with SPICE's two large files."""
    lib = tmp_path / "pycocoevalcap" / "spice" / "lib"
    lib.mkdir(parents=True)
    (tmp_path / "pycocoevalcap" / "meteor").mkdir()
    for name in external.SPICE_MODELS:
        (lib / name).touch()
    monkeypatch.setattr(external, "find_toolkit", lambda _: tmp_path / "pycocoevalcap")
    return tmp_path / "pycocoevalcap"


def fake_java(monkeypatch, folder: Path, script: str) -> None:
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setattr(external, "find_java", lambda _: str(program))


def test_statistics_of_meteor_give_its_values():
    np.testing.assert_allclose(meteor_value(STATISTICS), VALUES, rtol=1e-12)
    assert meteor_value(STATISTICS.sum(axis=0)) == pytest.approx(CORPUS, rel=1e-12)


def test_a_perfect_caption_is_not_punished_for_its_one_chunk():
    # 4 words, 2 of them function words, all matched in one chunk.
    full_value = np.array([4, 4, 2, 2, 2, 2, 2, 2, *[0] * 12, 1, 4, 4], dtype=np.float64)
    assert meteor_value(full_value) == 1.0


@pytest.mark.parametrize(("program", "name"), [(meteor, "METEOR"), (spice, "SPICE")])
def test_missing_package(monkeypatch, program, name):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingTool, match=rf"{name} needs the package pycocoevalcap .*pip install .*captions"):
        program(CANDIDATES, REFERENCES)


@pytest.mark.usefixtures("no_java", "toolkit")
@pytest.mark.parametrize(("program", "name"), [(meteor, "METEOR"), (spice, "SPICE")])
def test_missing_java(program, name):
    with pytest.raises(MissingTool, match=rf"{name} needs Java, .*apt-get install default-jre-headless"):
        program(CANDIDATES, REFERENCES)
    with pytest.raises(MissingTool, match=name):
        caption_scores({1: ["a cat"]}, {1: "a cat"}, metrics=[name.lower()])


def test_missing_models(monkeypatch, toolkit):
    fake_java(monkeypatch, toolkit, "exit 1")
    (toolkit / "spice" / "lib" / external.SPICE_MODELS[1]).unlink()
    with pytest.raises(MissingTool, match=r"needs stanford-corenlp-3.6.0-models.jar in .*lib.*Download http.*unpack"):
        spice(CANDIDATES, REFERENCES)


def test_answers_of_spice(monkeypatch, toolkit, tmp_path):
    # Stands for Java: keeps what it was asked, answers in another order, and once without a value.
    answers = [{"image_id": n, "scores": {"All": {"f": f}}} for n, f in ((2, None), (0, 0.25), (1, 1.0))]
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    script = f'echo "$@" > {tmp_path}/asked\ncp "$4" {tmp_path}/captions.json\ncp {tmp_path}/answers.json "$6"'
    fake_java(monkeypatch, tmp_path, script)
    result = spice(CANDIDATES, REFERENCES, memory="2G")
    assert result[:2].tolist() == [0.25, 1.0]
    assert math.isnan(result[2])
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:3] == ["-Xmx2G", "-jar", "spice-1.0.jar"]
    assert asked[4] == "-out"
    assert asked[6:] == ["-subset", "-silent"]
    assert json.loads((tmp_path / "captions.json").read_text())[1] == {
        "image_id": 1,
        "test": "a dog",
        "refs": ["a cat on the mat"],
    }
    assert sorted(path.name for path in (toolkit / "spice").iterdir()) == ["lib"]  # nothing is left in the package


@pytest.mark.usefixtures("toolkit")
def test_spice_of_several_blocks_is_in_the_order_of_captions(monkeypatch, tmp_path):
    # Stands for Java: answers each caption by a number that is in it, the last first.
    program = tmp_path / "spice.py"
    program.write_text(
        "import json, sys\n"
        "asked = json.load(open(sys.argv[4]))\n"
        f"print(len(asked), file=open({str(tmp_path / 'asked')!r}, 'a'))\n"
        "answers = [{'image_id': a['image_id'], 'scores': {'All': {'f': float(a['test'].split()[-1])}}}\n"
        "           for a in reversed(asked) if a['refs'] == ['cat ' + a['test'].split()[-1]]]\n"
        "json.dump(answers, open(sys.argv[6], 'w'))\n"
    )
    fake_java(monkeypatch, tmp_path, f'exec "{sys.executable}" "{program}" "$@"')
    monkeypatch.setattr(external, "SPICE_BLOCK", 3)
    numbers = [0.5, 0.25, 1.0, 0.125, 0.75, 0.0, 0.375]
    scores = spice([f"a cat {n}" for n in numbers], [[f"cat {n}"] for n in numbers])
    assert scores.tolist() == numbers
    assert (tmp_path / "asked").read_text().split() == ["3", "3", "1"]
    with pytest.raises(ValueError, match="2 captions and references of 1"):
        spice(["a", "b"], [["c"]])


@pytest.mark.parametrize(("program", "name"), [(meteor, "METEOR"), (spice, "SPICE")])
def test_java_that_fails_is_quoted(monkeypatch, toolkit, program, name):
    fake_java(monkeypatch, toolkit, "echo out of memory >&2; exit 3")
    with pytest.raises(ToolFailed, match=rf"{name} (stopped|ended).*Java said: out of memory"):
        program(CANDIDATES, REFERENCES)


@pytest.mark.usefixtures("toolkit")
def test_answers_of_meteor(monkeypatch, tmp_path):
    lines = [" ".join(str(number) for number in row) for row in STATISTICS]
    answer = "\n".join(f'read line; echo "$line" >> {tmp_path}/asked; echo "{line}"' for line in lines)
    values = "\n".join(f"echo {value}" for value in [*VALUES, CORPUS])
    fake_java(monkeypatch, tmp_path, f'{answer}\nread line; echo "$line" >> {tmp_path}/asked\n{values}')
    corpus, single, table = meteor(["a |||man", *CANDIDATES[1:]], REFERENCES)
    assert (corpus, single.tolist()) == (CORPUS, VALUES)
    np.testing.assert_array_equal(table, STATISTICS)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == "SCORE ||| a man rides a horse ||| the man is riding a brown horse ||| a man"
    assert asked[3] == " ||| ".join(["EVAL", *lines])


@pytest.mark.parametrize("program", [meteor, spice])
def test_without_captions_java_is_not_started(monkeypatch, toolkit, program):
    fake_java(monkeypatch, toolkit, "exit 3")
    values = program([], [])[1] if program is meteor else program([], [])
    assert values.shape == (0,)
