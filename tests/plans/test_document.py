"""YAML files whose values know their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from verism.errors import UsageError
from verism.plans.document import read_document_lines


def read(tmp_path: Path, text: str, **variables: object):
    file = tmp_path / "plan.yaml"
    file.write_text(text, encoding="utf-8")
    return read_document_lines(file, "a plan", variables)


def test_values_have_their_types_and_lines(tmp_path):
    document = read(tmp_path, "a: 1\nb:\n  - x\n  - {y: 2.5}\nday: 2024-02-31\nempty:\n")

    assert document.content == {"a": 1, "b": ["x", {"y": 2.5}], "day": "2024-02-31", "empty": None}
    assert document.where(("b", 1, "y")).endswith("plan.yaml, line 4")
    assert document.where(("b", 7)).endswith("plan.yaml, line 2")  # what should hold it


def test_variables_are_filled_in_and_keep_their_type(tmp_path, monkeypatch):
    monkeypatch.setenv("VERISM_TEST_NAME", "from outside")
    monkeypatch.delenv("VERISM_TEST_NONE", raising=False)
    text = """variables: {n: 24, twice: "${n}${n}"}
limit: ${n}
text: "n is ${n}, not $${n}"
both: ${twice}
name: ${env:VERISM_TEST_NAME}
other: ${env:VERISM_TEST_NONE:-default}
here: ${here}/x
"""
    document = read(tmp_path, text)
    assert document.content == {
        "limit": 24,
        "text": "n is 24, not ${n}",
        "both": "2424",
        "name": "from outside",
        "other": "default",
        "here": f"{tmp_path}/x",
    }
    assert read(tmp_path, text, n=96).content["limit"] == 96


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "line 2: 'a' is there twice; first in line 1"),
        ("a: [1\nb: 2\n", "line 2 is not YAML"),
        ("a: ${m}\n", "line 1: no variable 'm'"),
        ("a:\n  b: ${env:VERISM_TEST_NONE}\n", "line 2: the environment has no variable VERISM_TEST_NONE"),
        ("a: &x [1]\nb: *x\n", "anchors and aliases are not read"),
        ("? [1, 2]\n: 3\n", "a key is a name"),
        ("variables: 3\n", "line 1: variables is a mapping"),
        ("variables:\n  here: 3\n", "line 2: 'here' cannot be the name of a variable"),
        ("a: !!python/object:os.system x\n", "is not YAML"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path, monkeypatch, text, message):
    monkeypatch.delenv("VERISM_TEST_NONE", raising=False)
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert message in str(refused.value)


def test_aliases_that_stand_for_billions_of_values_are_refused_at_once(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(UsageError, match="anchors and aliases"):
        read(tmp_path, "\n".join(lines))


def test_variable_that_is_not_in_the_file_cannot_be_set(tmp_path):
    with pytest.raises(UsageError, match=r"has no variable 'm'; its variables are n"):
        read(tmp_path, "variables: {n: 1}\n", m=2)
