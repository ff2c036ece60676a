"""Documents that users write: what is read, and what is said of those that cannot be."""

from __future__ import annotations

import pytest

from verism.errors import UsageError
from verism.manifests import read_document


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "n: 1\nl: [a, b]\n"),
        ("a.YML", "\ufeffn: 1\nl:\n- a\n- b\n"),
        ("a.json", '\ufeff{"n": 1, "l": ["a", "b"]}'),
    ],
)
def test_yaml_and_json_say_the_same(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_document(tmp_path / name, "a world") == {"n": 1, "l": ["a", "b"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"{", "a.json is not JSON"),
        ("a.yaml", b"a: [", "a.yaml is not YAML"),
        ("a.yaml", b"!!python/object/apply:os.getcwd []", "is not YAML"),  # nothing in a file is ever called
        ("a.txt", b"x", "a world is a .yaml, .yml or .json file"),
        ("a.json", b"\xff\xfe\x00", "cannot be read as UTF-8"),
        ("a.json", None, "no such file"),
    ],
)
def test_files_that_are_none_are_named_with_the_reason(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_document(tmp_path / name, "a world")
