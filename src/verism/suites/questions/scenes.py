"""Prompts and questions of our own making about scenes that the simulator renders: to try judges and rules offline.

Every prompt has a scene that shows it, and every question a meaning in terms of scenes, so that a run with the oracle
and the ground truth as judge has a known result, and scripted errors are found question by question.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from verism.records import Scene, SceneFact, SceneObject
from verism.suites.questions.asked import AskedPrompt, AskedQuestion

__all__ = ["COLOURS", "SCENES", "scene_classes", "scene_prompts"]

SCENES = "scenes"  # the source of these prompts, as a facet
MODELLED = ("car", "bench", "bus", "chair", "suitcase", "backpack", "bed", "boat", "bicycle", "umbrella")
COLOURS = ("red", "blue", "green", "yellow")
PLACES = {"meadow": "on a meadow", "beach": "on a beach", "desert": "in a desert", "snowfield": "in the snow"}
SIDES = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}
NUMBERS = ("one", "two", "three", "four")


def scene_prompts(*, choices: bool = False) -> tuple[AskedPrompt, ...]:
    """48 prompts: colours of two objects, relations, and numbers, 16 each; every prompt has its place.

    Args:
        choices: whether some questions are asked with choices (what colour, how many), not with yes and no alone.
    """
    places = list(PLACES)
    made = []
    for number, (first, second) in enumerate(zip(MODELLED * 2, MODELLED[3:] + MODELLED + MODELLED[:3], strict=False)):
        if number == 16:
            break
        place = places[number % len(places)]
        made.append(_colours(number, first, second, place, choices=choices))
    pairs = list(product(range(4), SIDES))
    for number, (shift, side) in enumerate(pairs):
        first, second = MODELLED[number % 10], MODELLED[(number + 3 + shift) % 10]
        made.append(_relation(16 + number, first, side, second, places[(number + shift) % len(places)]))
    for number in range(16):
        n = number % 4 + 1
        label = MODELLED[(3 * number + number // 4) % 10]
        made.append(_count(32 + number, label, n, places[(number // 4) % len(places)], choices=choices))
    return tuple(made)


def scene_classes() -> dict[str, str]:
    """Classes of the objects by label, with their names in scene files where there is no model of them."""
    return {label: _shape(label) for label in MODELLED}


def _colours(number: int, first: str, second: str, place: str, *, choices: bool) -> AskedPrompt:
    a, b = COLOURS[number % 4], COLOURS[(number + 1 + number // 4) % 4]
    a = a if a != b else COLOURS[(number + 2) % 4]
    objects = (_painted(first, a), _painted(second, b))
    asked = [_entity("1", first), _entity("2", second)]
    for name, label, colour, parent in (("3", first, a, "1"), ("4", second, b, "2")):
        text = f"What colour is the {label}?" if choices else f"Is the {label} {colour}?"
        asked.append(
            AskedQuestion(
                name=name,
                text=text,
                expected=colour if choices else "yes",
                choices=COLOURS if choices else (),
                parents=(parent,),
                groups=_groups("attribute", "color"),
                fact=SceneFact(asks="color" if choices else "present", label=label, color="" if choices else colour),
            )
        )
    asked.append(_place("5", place))
    text = f"{_article(a)} {a} {first} and {_article(b)} {b} {second} {PLACES[place]}"
    return _prompt(number, "color", text, place, objects, asked)


def _relation(number: int, first: str, side: str, second: str, place: str) -> AskedPrompt:
    objects = (
        SceneObject(shape=_shape(second), label=second),
        SceneObject(shape=_shape(first), label=first, relation=f"{side}_0"),
    )
    asked = [
        _entity("1", first),
        _entity("2", second),
        AskedQuestion(
            name="3",
            text=f"Is the {first} {SIDES[side]} the {second}?",
            parents=("1", "2"),
            groups=_groups("relation", "spatial"),
            fact=SceneFact(asks="relation", label=first, relation=side, other=second),
        ),
        _place("4", place),
    ]
    text = f"{_article(first)} {first} {SIDES[side]} {_article(second)} {second}, {PLACES[place]}"
    return _prompt(number, "spatial", text, place, objects, asked)


def _count(number: int, label: str, n: int, place: str, *, choices: bool) -> AskedPrompt:
    objects = (SceneObject(shape=_shape(label), label=label),) * n
    plural = label if n == 1 else _plural(label)
    if choices:
        question = AskedQuestion(
            name="2",
            text=f"How many {_plural(label)} are there?",
            expected=str(n),
            choices=("1", "2", "3", "4"),
            parents=("1",),
            groups=_groups("other", "count"),
            fact=SceneFact(asks="count", label=label),
        )
    else:
        question = AskedQuestion(
            name="2",
            text=f"{'Is' if n == 1 else 'Are'} there exactly {NUMBERS[n - 1]} {plural}?",
            parents=("1",),
            groups=_groups("other", "count"),
            fact=SceneFact(asks="count", label=label, count=n),
        )
    asked = [_entity("1", label), question, _place("3", place)]
    return _prompt(number, "count", f"{NUMBERS[n - 1]} {plural} {PLACES[place]}", place, objects, asked)


def _prompt(
    number: int, skill: str, text: str, place: str, objects: tuple[SceneObject, ...], asked: Sequence[AskedQuestion]
) -> AskedPrompt:
    prompt_id = f"scene_{number:03d}"
    scene = Scene(scene_id=prompt_id, skill=skill, split="val", text=text, background=place, objects=objects)
    return AskedPrompt(
        prompt_id=prompt_id, text=text, questions=tuple(asked), facets={"prompt_source": SCENES}, scene=scene
    )


def _entity(name: str, label: str) -> AskedQuestion:
    return AskedQuestion(
        name=name,
        text=f"Is there {_article(label)} {label}?",
        groups=_groups("entity", "whole"),
        fact=SceneFact(asks="present", label=label),
    )


def _place(name: str, place: str) -> AskedQuestion:
    return AskedQuestion(
        name=name,
        text=f"Does the image show a scene {PLACES[place]}?",
        groups=_groups("global", ""),
        fact=SceneFact(asks="background", background=place),
    )


def _groups(broad: str, detailed: str) -> dict[str, str]:
    return {"category": broad, "subcategory": f"{broad} - {detailed}" if detailed else broad}


def _painted(label: str, colour: str) -> SceneObject:
    return SceneObject(shape=_shape(label), label=label, color=colour, texture="pure")


def _shape(label: str) -> str:
    """What stands in where the simulator has no model of its own; it has one of each of these."""
    return f"solid:{('cube', 'ball', 'cylinder', 'cone')[MODELLED.index(label) % 4]}"


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _plural(label: str) -> str:
    return f"{label}es" if label.endswith(("s", "ch")) else f"{label}s"
