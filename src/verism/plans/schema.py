"""The JSON schema of plan files, made from what suites declare; editors complete and check with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from verism.plans.plan import RUN_SETTINGS, SECTIONS, SOURCES
from verism.records import roles
from verism.specs import Option, Rule
from verism.suites.base import Suite
from verism.suites.catalogue import suite_class, suite_entries

__all__ = ["plan_schema"]

NAMES = {int: "integer", float: "number", bool: "boolean", str: "string", Path: "string", dict: "object"}
VARIABLE = {"type": "string", "pattern": r"\$\{.+\}"}


def plan_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of plan files, for the suites that are installed."""
    suites = [suite_class(name) for name in suite_entries()]
    every: dict[str, Any] = {}
    for suite in suites:
        every |= _settings_of(suite)
    pair = {"model": {"type": "string"}, "suite": {"type": "string"}}
    row = {
        "oneOf": [
            {"type": "string", "description": SOURCES["model"]},
            {
                "type": "object",
                "properties": {
                    **{name: {"type": "string", "description": text} for name, text in SOURCES.items()},
                    **every,
                },
                "additionalProperties": False,
                "oneOf": [{"required": [name]} for name in SOURCES],
            },
        ]
    }
    listed = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    rows = {"anyOf": [{"type": "object", "additionalProperties": row}, listed]}
    own = {suite.info.name: {"$ref": f"#/$defs/{suite.info.name}"} for suite in suites}
    sections: dict[str, Any] = {
        "title": {"type": "string"},
        "variables": {"type": "object"},
        "defaults": {"type": "object", "properties": every, "additionalProperties": False},
        "models": rows,
        "references": rows,
        "suites": {
            "anyOf": [
                {"type": "object", "properties": own, "additionalProperties": {"$ref": "#/$defs/named_suite"}},
                listed,
            ]
        },
        "include": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {**pair, **every},
                "required": list(pair),
                "additionalProperties": False,
            },
        },
        "exclude": {
            "type": "array",
            "items": {"type": "object", "properties": pair, "minProperties": 1, "additionalProperties": False},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "verism plan",
        "type": "object",
        "properties": {name: {"description": text, **sections[name]} for name, text in SECTIONS.items()},
        "required": ["models", "suites"],
        "additionalProperties": False,
        "$defs": {
            **{suite.info.name: _suite_schema(suite) for suite in suites},
            "named_suite": {
                "oneOf": [
                    {"enum": [suite.info.name for suite in suites]},
                    {
                        "type": "object",
                        "properties": {"suite": {"enum": [suite.info.name for suite in suites]}, **every},
                        "required": ["suite"],
                        "additionalProperties": False,
                    },
                ]
            },
        },
    }


def _suite_schema(suite: type[Suite]) -> dict[str, Any]:
    return {
        "description": f"{suite.info.title}: {suite.info.question}",
        "type": ["object", "null"],
        "properties": {"suite": {"const": suite.info.name}, **_settings_of(suite)},
        "additionalProperties": False,
    }


def _settings_of(suite: type[Suite]) -> dict[str, Any]:
    """Settings of a pair with this suite."""
    serving = suite.judge_roles or roles()
    judges = {role: {"type": "string", "description": f"Judge of the role {role}."} for role in serving}
    rules = {rule.name: _value(rule) for rule in suite.rules}
    return {
        **{option.name: _value(option) for option in (*suite.options, *RUN_SETTINGS)},
        **judges,
        "judges": {"type": "object", "properties": {r: {"type": "string"} for r in roles()}},
        "rules": {"type": "object", "properties": rules},
    }


def _value(spec: Option | Rule) -> dict[str, Any]:
    one: dict[str, Any] = {"type": NAMES[spec.type]}
    if spec.choices:
        one = {"enum": list(spec.choices)}
    for key, bound in (("minimum", spec.low), ("maximum", spec.high)):
        if bound is not None:
            one[key] = bound
    options: Sequence[dict[str, Any]] = [one, VARIABLE] if one.get("type") != "string" or spec.choices else [one]
    if spec.many:
        options = [{"type": "array", "items": one}, {"type": "string"}]
    return {"description": spec.help, **(options[0] if len(options) == 1 else {"anyOf": list(options)})}
