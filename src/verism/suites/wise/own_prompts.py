"""Prompts of our own that take knowledge for granted, about things that the simulator renders: to run offline."""

from __future__ import annotations

from verism.records import Scene, SceneFact, SceneObject
from verism.suites.questions.asked import AskedPrompt
from verism.suites.questions.scenes import scene_classes
from verism.suites.wise.benchmark import Wording, asked_prompt

__all__ = ["own_prompts"]

PLACES = (("meadow", "on a meadow"), ("beach", "on a beach"), ("desert", "in a desert"), ("snowfield", "in the snow"))
# What a thing is for, without its name.
THINGS = {
    "umbrella": "what keeps a walker dry in the rain",
    "bicycle": "a vehicle that its rider moves with two pedals",
    "boat": "what a fisher rows out on a lake",
    "bed": "a piece of furniture to sleep in at night",
    "suitcase": "what a traveller checks in before a flight",
    "bus": "the vehicle that picks up many passengers at its stops",
    "chair": "a seat with a back for one person",
    "backpack": "what a pupil carries books in, on the shoulders",
}
# What has a colour by which one knows it.
COLOURS = {
    "yellow": "a ripe banana",
    "red": "a fire engine",
    "green": "fresh grass",
    "blue": "a clear sky at noon",
}


def own_prompts(wording: Wording) -> tuple[AskedPrompt, ...]:
    """24 prompts: eight things by what they are for, sixteen by the colour of something else.

    Args:
        wording: how a judge is asked.
    """
    shapes = scene_classes()
    made = []
    for number, (label, riddle) in enumerate(THINGS.items()):
        place, words = PLACES[number % len(PLACES)]
        thing = SceneObject(shape=shapes[label], label=label)
        made.append(_prompt(number, "use", f"{riddle}, {words}", f"{_a(label)} {words}", thing, place, wording))
    labels = [*THINGS][:4]
    for number, (label, (colour, example)) in enumerate(
        ((label, pair) for label in labels for pair in COLOURS.items()), start=len(made)
    ):
        place, words = PLACES[number % len(PLACES)]
        thing = SceneObject(shape=shapes[label], label=label, color=colour, texture="pure")
        text = f"{_a(label)} in the colour of {example}, {words}"
        made.append(_prompt(number, "colour", text, f"{_a(f'{colour} {label}')} {words}", thing, place, wording))
    return tuple(made)


def _prompt(
    number: int, kind: str, text: str, explanation: str, thing: SceneObject, place: str, wording: Wording
) -> AskedPrompt:
    prompt_id = f"own_{number:02d}"
    scene = Scene(scene_id=prompt_id, skill=kind, split="val", text=text, background=place, objects=(thing,))
    parts = (
        SceneFact(asks="present", label=thing.label, color=thing.color if kind == "colour" else ""),
        SceneFact(asks="background", background=place),
    )
    return asked_prompt(
        prompt_id,
        text,
        explanation,
        "verified",
        wording,
        facets={"knowledge": kind},
        scene=scene,
        fact=SceneFact(asks="all", parts=parts),
    )


def _a(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
