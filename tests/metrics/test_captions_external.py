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


@pytest.mark.usefixtures("toolkit")
def test_a_perfect_caption_is_not_punished_for_its_one_chunk(monkeypatch, tmp_path):
    # Answers of the program about "a dog" for "a dog", and "a man is riding horses" for "a man rides a horse"; of both
    # together it sums one chunk, not two, which would give 0.2547571530785736.
    answers = [
        "2.0 2.0 1.0 1.0 1.0 1.0 1.0 1.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 1.0 2.0 2.0",
        "5.0 5.0 2.0 2.0 1.0 1.0 1.0 1.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 1.0 2.0 2.0",
        "1.0; echo 0.1736980589172093; echo 0.2908186826916696",
        "0.2908186826916696; echo 0.2908186826916696",
    ]
    script = "\n".join(f'read line; echo "$line" >> {tmp_path}/asked; echo {answer}' for answer in answers)
    fake_java(monkeypatch, tmp_path, script)
    corpus, single, table = meteor(["a dog", "a man is riding horses"], [["a dog"], ["a man rides a horse"]])
    assert (corpus, single.tolist()) == (0.2908186826916696, [1.0, 0.1736980589172093])
    np.testing.assert_allclose(meteor_value(table), single, rtol=1e-12)
    assert meteor_value(table.sum(axis=0)) == pytest.approx(corpus, rel=1e-12)
    asked = (tmp_path / "asked").read_text().splitlines()[-1].split()
    assert list(map(float, asked[2:])) == [7, 7, 3, 3, 2, 2, 2, 2, *[0] * 12, 1, 4, 4]


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
    sums = " ".join(str(number) for number in STATISTICS.sum(axis=0))
    answer = "\n".join(f'read line; echo "$line" >> {tmp_path}/asked; echo "{line}"' for line in lines)
    values = "\n".join(f"echo {value}" for value in [*VALUES, CORPUS])
    keep = f'read line; echo "$line" >> {tmp_path}/asked'
    fake_java(monkeypatch, tmp_path, f"{answer}\n{keep}\n{values}\n{keep}\necho {CORPUS}\necho {CORPUS}")
    corpus, single, table = meteor(["a |||man", *CANDIDATES[1:]], REFERENCES)
    assert (corpus, single.tolist()) == (CORPUS, VALUES)
    np.testing.assert_array_equal(table, STATISTICS)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == "SCORE ||| a man rides a horse ||| the man is riding a brown horse ||| a man"
    assert asked[3:] == [" ||| ".join(["EVAL", *lines]), f"EVAL ||| {sums}"]


@pytest.fixture
def meteor_in_python(monkeypatch, tmp_path) -> Path:
    """Stands for Java: METEOR's protocol, with words that are the same as its only matches. Returns what it was asked.

    Captions are answered one by one; statistics line by line, and then with the value of their sum.
    """
    program = tmp_path / "meteor.py"
    program.write_text(
        "import sys\n"
        f"sys.path[:0] = {[str(Path(external.__file__).parents[3])]!r}\n"
        "import numpy as np\n"
        "from verism.metrics.captions.external import meteor_value\n"
        f"asked = open({str(tmp_path / 'asked')!r}, 'a')\n"
        "print('START', file=asked)\n"
        "for line in iter(sys.stdin.readline, ''):\n"
        "    what, *parts = line.rstrip('\\n').split(' ||| ')\n"
        "    print(what, len(parts), file=asked, flush=True)\n"
        "    if what == 'SCORE':\n"
        "        words, said = parts[0].split(), parts[-1].split()\n"
        "        same = len(set(words) & set(said))\n"
        "        counts = [len(said), len(words), 0, 0, same, same, *[0] * 14, same, same, same]\n"
        "        print(*map(float, counts), flush=True)\n"
        "    else:\n"
        "        table = np.array([part.split() for part in parts], dtype=float)\n"
        "        for value in meteor_value(np.vstack([table, table.sum(axis=0)])).tolist():\n"
        "            print(value, flush=True)\n"
    )
    fake_java(monkeypatch, tmp_path, f'exec "{sys.executable}" "{program}" "$@"')
    return tmp_path / "asked"


@pytest.mark.usefixtures("toolkit")
def test_meteor_of_several_blocks_is_that_of_one(monkeypatch, meteor_in_python):
    rng = np.random.default_rng(5)
    candidates, references = (
        [" ".join(rng.choice([*"abcdefgh"], rng.integers(1, 9))) for _ in range(7)] for _ in range(2)
    )
    whole = meteor(candidates, [[text] for text in references])
    asked = meteor_in_python.read_text().splitlines()
    assert asked == ["START", *["SCORE 2"] * 7, "EVAL 7", "EVAL 1"]
    meteor_in_python.write_text("")
    monkeypatch.setattr(external, "METEOR_BLOCK", 3)
    again = meteor(candidates, [[text] for text in references])
    assert meteor_in_python.read_text().splitlines() == [
        *["START", *["SCORE 2"] * 7], *["EVAL 3", "EVAL 3", "EVAL 1"], "EVAL 1"
    ]  # fmt: skip
    assert again[0] == whole[0]
    assert 0.0 < again[0] < 1.0
    for before, after in zip(whole[1:], again[1:], strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.usefixtures("toolkit")
@pytest.mark.parametrize(
    ("answer", "told"),
    [("1.0 2.0", "it answered '1.0 2.0"), ("Error: no such mode", "float: 'Error:'"), ("", "an empty answer")],
)
def test_an_answer_that_is_no_statistics_is_quoted(monkeypatch, tmp_path, answer, told):
    fake_java(monkeypatch, tmp_path, f'read line; echo oops >&2; echo "{answer}"; read line')
    with pytest.raises(ToolFailed, match=f"{told}.*Java said: oops"):
        meteor(CANDIDATES, REFERENCES)


@pytest.mark.parametrize("program", [meteor, spice])
def test_without_captions_java_is_not_started(monkeypatch, toolkit, program):
    fake_java(monkeypatch, toolkit, "exit 3")
    values = program([], [])[1] if program is meteor else program([], [])
    assert values.shape == (0,)
