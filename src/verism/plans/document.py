"""YAML files that know the line of every value, with variables filled in.

``${NAME}`` is a variable of the file (of its mapping ``variables``, or one that the caller sets); ``${env:NAME}`` is a
variable of the environment, and ``${env:NAME:-text}`` the same with a default; ``$${`` is a literal ``${``. A value
that is nothing but one variable takes its type as well: ``limit: ${n}`` with ``n: 24`` is a number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import read_text
from verism.specs import did_you_mean

__all__ = ["Document", "KeyPath", "read_document_lines"]

KeyPath = tuple[str | int, ...]

VARIABLES = "variables"
HERE = "here"
_REFERENCE = re.compile(r"\$(\$\{)|\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Document:
    """A file's content and where each part of it is.

    Attributes:
        content: mappings, lists, text, numbers, truth values and None.
        source: the file's name, for messages; empty for content that is from no file.
        lines: line of a key or of an entry of a list, from 1, by the path to it.
    """

    content: Any
    source: str = ""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def where(self, path: KeyPath = ()) -> str:
        """The place of a value, for messages: ``plan.yaml, line 7``; without a file, its keys.

        Args:
            path: keys from the top; for one that is not in the file, the place of what should hold it.
        """
        if not self.source:
            return "the plan" + ("" if not path else f", {'.'.join(map(str, path))}")
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return f"{self.source}, line {self.lines[path[:end]]}"
        return self.source

    def refuse(self, path: KeyPath, problem: str) -> UsageError:
        """An error that names the place of a value.

        Args:
            path: keys from the top.
            problem: what is wrong there.
        """
        return UsageError(f"{self.where(path)}: {problem}")


def read_document_lines(path: Path, what: str, variables: Mapping[str, Any] | None = None) -> Document:
    """A YAML (or JSON) file with its lines.

    Args:
        path: the file.
        what: for messages, what such a file holds: "a plan".
        variables: values that replace those of the mapping ``variables`` of the file; each must be in it.

    Raises:
        UsageError: no such file, not YAML, a key twice, or a variable that does not exist; the message names the line.
    """
    import yaml

    text = read_text(path, what)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        reading = _Reading(str(path))
        content = None if root is None else reading.plain(root, ())
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        line = "" if mark is None else f", line {mark.line + 1}"
        raise UsageError(f"{path}{line} is not YAML: {err.problem or err.context}; expected {what}") from err
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        raise UsageError(f"{path} is not YAML: {err}; expected {what}") from err
    document = Document(content, str(path), reading.lines)
    return _with_variables(document, path, dict(variables or {}))


class _Reading:
    """The values of YAML nodes; lines are noted on the way."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[KeyPath, int] = {}
        self._seen: set[int] = set()

    def plain(self, node: Any, path: KeyPath) -> Any:
        """The value of a node at a path of keys."""
        import yaml

        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if not isinstance(node, yaml.ScalarNode):
            # An alias stands for the same node again: a few lines of them can stand for billions of values.
            if id(node) in self._seen:
                raise UsageError(f"{self.source}, line {line}: YAML's anchors and aliases are not read; use variables")
            self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            result: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = self._key(key_node)
                if key in result:
                    first = self.lines[*path, key]
                    raise UsageError(
                        f"{self.source}, line {key_node.start_mark.line + 1}: {key!r} is there twice; first in line "
                        f"{first}"
                    )
                self.lines[*path, key] = key_node.start_mark.line + 1
                result[key] = self.plain(value_node, (*path, key))
            return result
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(each, (*path, n)) for n, each in enumerate(node.value)]
        return _scalar(node)

    def _key(self, node: Any) -> str:
        import yaml

        if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:merge":
            raise UsageError(f"{self.source}, line {node.start_mark.line + 1}: a key is a name, and nothing is merged")
        return str(node.value)


def _scalar(node: Any) -> Any:
    import yaml

    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node)
    except ValueError:  # a date such as 2024-02-31
        value = node.value
    finally:
        loader.dispose()
    # Dates and binary data have no meaning here: what was written is text.
    return value if isinstance(value, str | int | float | bool) or value is None else str(node.value)


def _with_variables(document: Document, path: Path, given: dict[str, Any]) -> Document:
    content = document.content
    declared: dict[str, Any] = {}
    if isinstance(content, dict) and VARIABLES in content:
        if not isinstance(content[VARIABLES], dict):
            raise document.refuse((VARIABLES,), "variables is a mapping of names to values")
        declared = dict(content[VARIABLES])
        content = {k: v for k, v in content.items() if k != VARIABLES}
    for name in declared:
        if not _NAME.fullmatch(name) or name == HERE:
            raise document.refuse((VARIABLES, name), f"{name!r} cannot be the name of a variable")
    if unknown := sorted(set(given) - set(declared)):
        known = ", ".join(declared) or "none"
        raise UsageError(
            f"{path} has no variable {unknown[0]!r}; its variables are {known}.{did_you_mean(unknown[0], declared)}"
        )
    values: dict[str, Any] = {HERE: str(path.parent)}
    for name, value in (declared | given).items():  # a variable may use those before it
        values[name] = _filled(document, value, (VARIABLES, name), values)
    return Document(_filled(document, content, (), values), document.source, document.lines)


def _filled(document: Document, value: Any, path: KeyPath, values: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(document, each, (*path, key), values) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(document, each, (*path, n), values) for n, each in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole and whole[1] is None:
        return _value_of(document, whole[2], path, values)

    def text_of(match: re.Match[str]) -> str:
        return "${" if match[1] else str(_value_of(document, match[2], path, values))

    return _REFERENCE.sub(text_of, value)


def _value_of(document: Document, name: str, path: KeyPath, values: Mapping[str, Any]) -> Any:
    if name.startswith("env:"):
        variable, has_default, default = name.removeprefix("env:").partition(":-")
        if variable in os.environ:
            return os.environ[variable]
        if has_default:
            return default
        raise document.refuse(
            path, f"the environment has no variable {variable}; set it, or write ${{{name}:-DEFAULT}}"
        )
    if name not in values:
        known = ", ".join(values)
        raise document.refuse(path, f"no variable {name!r}; there are {known}.{did_you_mean(name, values)}")
    return values[name]
