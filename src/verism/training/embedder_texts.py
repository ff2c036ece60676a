"""Texts about examples: claims that are true or false of an image, by its facts, and words for them.

A claim is worded anew each time it is drawn. Whether it holds of *any* image is known from the facts, so that in a
batch every pair of image and text has a label: it fits (says all that is to be seen), it is false, or it is open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from verism.judges.embedding.vocabulary import Vocabulary, words_of
from verism.suites.paintskills.vocabulary import plural
from verism.training.embedder_examples import COLORS, GARMENTS, SHAPES, TEXTURES, THINGS, Facts, Thing
from verism.training.settings import PAINTSKILLS_CLASSES

__all__ = [
    "Claim",
    "Fit",
    "Group",
    "content_words",
    "fit_of",
    "full_claim",
    "meaning_of",
    "spoilt",
    "true_claim",
    "vocabulary",
    "worded",
]

Fit = Literal["fits", "holds", "part", "open", "false"]
"""Relation of a text to an image: complete; true of all objects but less detailed; names some of the objects;
undecided; false."""

_RELATIONS: Mapping[str, tuple[str, ...]] = {
    "left": ("left to", "to the left of", "on the left of", "left of", "on the left side of"),
    "right": ("right to", "to the right of", "on the right of", "right of", "on the right side of"),
    "above": ("above", "on top of", "on the top of", "over"),
    "below": ("below", "under", "on the bottom of", "beneath"),
    "front": ("in front of",),
    "behind": ("behind", "hidden by"),
}
_OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above", "front": "behind", "behind": "front"}
_PLACES: Mapping[str, tuple[str, ...]] = {
    "meadow": ("on a meadow", "in a meadow"), "beach": ("on a beach", "on the beach"),
    "desert": ("in a desert", "in the desert"), "snowfield": ("in the snow", "on the snow", "on a snowfield"),
    "mountain_lake": ("at a mountain lake",), "canyon": ("in a canyon",), "sunset_coast": ("at a coast at sunset",),
    "forest_clearing": ("in a forest clearing", "in a forest"), "autumn_park": ("in a park in autumn", "in a park"),
    "open_road": ("on a road", "on an open road"), "city_plaza": ("on a city plaza", "in a city"),
    "old_town": ("in an old town",), "night_street": ("in a street at night",),
    "stone_terrace": ("on a stone terrace",), "playing_court": ("on a playing court",),
    "living_room": ("in a living room",), "photo_studio": ("in a photo studio",), "warehouse": ("in a warehouse",),
    "tiled_hall": ("in a tiled hall",), "empty": ("on a black background", "before a black background"),
}  # fmt: skip
_FRAMES = ("{}", "{}", "a photo of {}", "an image of {}", "a picture of {}", "there is {}")
_NUMBERS = ("zero", "one", "two", "three", "four")
_NO_ARTICLE = ("boots", "slippers", "jeans", "shorts", "slacks", "gloves", "glasses")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Objects that a text names together: ``two red cars``.

    Attributes:
        thing: what they are; empty fields are not said.
        number: how many, at least 1.
    """

    thing: Thing
    number: int = 1


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a text says.

    Attributes:
        groups: objects; with a relation exactly two.
        relation: how the second group lies to the first, or empty.
        place: name of an environment, or empty.
        garments: that a person wears; empty with groups.
        person: whether the text names the person that wears them.
    """

    groups: tuple[Group, ...] = ()
    relation: str = ""
    place: str = ""
    garments: tuple[str, ...] = ()
    person: bool = True
    _key: tuple[tuple[str, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        labels: Counter[str] = Counter()
        for group in self.groups:
            labels[group.thing.label] += group.number
        object.__setattr__(self, "_key", tuple(sorted(labels.items())))


# --------------------------------------------------------------------------------------------------------------------
# Truth
# --------------------------------------------------------------------------------------------------------------------
def fit_of(claim: Claim, facts: Facts) -> Fit:
    """How a claim fits an image.

    Colours of objects in their own paint, relations of objects that were not placed by one, and garments outside the
    image are open.

    Args:
        claim: what a text says.
        facts: what is known of the image.
    """
    if facts.kind == "person":
        return _fit_of_person(claim, facts)
    if claim.garments:
        # Whoever is in a scene wears something that nobody noted down.
        return "open" if any(t.label == "person" for t in facts.things) else "false"
    labels = tuple(sorted(Counter(t.label for t in facts.things).items()))
    if claim._key != labels:
        # "Three dogs" is false of four, as suites ask for exact numbers; "a dog" is true of one beside a cat, or two.
        shown = dict(labels)
        some = all(shown.get(label, 0) == n or (n == 1 and label in shown) for label, n in claim._key)
        return "part" if some and not claim.relation else "false"
    result: Fit = "fits"
    for name in ("color", "texture", "shape"):
        said = Counter((g.thing.label, getattr(g.thing, name)) for g in claim.groups for _ in range(g.number))
        there = Counter((t.label, getattr(t, name)) for t in facts.things)
        if said == there:
            continue
        told = {pair for pair in said if pair[1]}
        known = {pair for pair in there if pair[1]}
        unpainted = {label for label, value in there if not value}
        if any(pair not in known and pair[0] not in unpainted for pair in told):
            return "false"
        if any(label in unpainted for label, _ in told):
            result = "open"
        elif result == "fits":
            result = "holds"
    if claim.relation:
        if not facts.relation:
            return "open"
        depth = {"front", "behind"}
        if (claim.relation in depth) is not (facts.relation in depth):
            return "open"
        first, second = (g.thing for g in claim.groups)
        straight = claim.relation == facts.relation and _names(first, facts.things[0])
        turned = claim.relation == _OPPOSITE[facts.relation] and _names(first, facts.things[1])
        if not (straight or turned):
            # Two of a class: one is to the left of the other whichever is named first.
            both = first.label == second.label and not first.color
            if not (both and claim.relation in (facts.relation, _OPPOSITE[facts.relation])):
                return "false"
    elif facts.relation and result == "fits":
        result = "holds"
    if claim.place and claim.place != facts.background:
        return "false" if facts.background else "open"
    return result


def _names(said: Thing, there: Thing) -> bool:
    return said.label == there.label and (not said.color or said.color == there.color)


def _fit_of_person(claim: Claim, facts: Facts) -> Fit:
    if any(group.thing.label != "person" or group.number > 1 for group in claim.groups):
        return "false"
    worn = [facts.garments.get(name) for name in claim.garments]
    if any(value is False for value in worn):
        return "false"
    if claim.place and claim.place != facts.background:
        return "false" if facts.background else "open"
    if any(value is None for value in worn):
        return "open"
    return "fits" if claim.garments else "holds"


def meaning_of(claim: Claim) -> tuple[object, ...]:
    """What two texts share that say the same of objects: pools of retrieval must not hold both."""
    groups = Counter((*vars(g.thing).values(), g.number) for g in claim.groups)
    ordered = tuple(g.thing.label for g in claim.groups) if claim.relation else ()
    relation = claim.relation
    if relation in ("right", "below", "behind"):
        relation, ordered = _OPPOSITE[relation], ordered[::-1]
    return (frozenset(groups.items()), relation, ordered, frozenset(claim.garments))


# --------------------------------------------------------------------------------------------------------------------
# Claims
# --------------------------------------------------------------------------------------------------------------------
def full_claim(facts: Facts) -> Claim:
    """All that texts say of a scene, but for the place; of a person, all that is worn."""
    if facts.kind == "person":
        return Claim(garments=tuple(name for name, worn in facts.garments.items() if worn))
    if facts.relation:
        first, second = facts.things
        return Claim(groups=(Group(thing=first), Group(thing=second)), relation=facts.relation)
    return Claim(groups=tuple(Group(thing=t, number=n) for t, n in Counter(facts.things).items()))


def true_claim(facts: Facts, rng: np.random.Generator) -> Claim:
    """A claim that fits: full for a scene; one to three of the garments of a person, at times the place."""
    claim = full_claim(facts)
    if facts.kind == "person":
        worn = list(claim.garments)
        order: list[int] = rng.permutation(len(worn)).tolist()
        chosen = order[: int(rng.integers(1, 4))]
        claim = replace(claim, garments=tuple(worn[k] for k in chosen), person=bool(rng.random() < 0.75))
        if not claim.garments:
            claim = replace(claim, person=True)
    elif len(claim.groups) == 2:
        if claim.relation and rng.random() < 0.4:
            claim = replace(claim, groups=claim.groups[::-1], relation=_OPPOSITE[claim.relation])
        elif not claim.relation and rng.random() < 0.5:
            claim = replace(claim, groups=claim.groups[::-1])
    if facts.background and claim.person and rng.random() < 0.25:
        claim = replace(claim, place=facts.background)
    return claim


def spoilt(claim: Claim, rng: np.random.Generator) -> Claim:
    """A claim that says something else, nearly alike: another number, class, colour, side, garment, or place.

    Whether it is false of an image is for ``fit_of`` to say.
    """
    ways = [_another_garment] if claim.garments or not claim.groups else [_another_thing]
    if claim.groups:
        ways += [_another_number] * (2 if not claim.relation else 0)
        if any(g.thing.color or g.thing.texture or g.thing.shape for g in claim.groups):
            ways += [_another_value] * 2
            if len(claim.groups) == 2:
                ways += [_swapped_values] * 2
    if claim.relation:
        ways += [_another_side] * 3
    if claim.place:
        ways.append(_another_place)
    return ways[int(rng.integers(len(ways)))](claim, rng)


def _pick(rng: np.random.Generator, values: Sequence[str], but: str = "") -> str:
    free = [value for value in values if value != but]
    return free[int(rng.integers(len(free)))]


def _with_group(claim: Claim, number: int, group: Group) -> Claim:
    return replace(claim, groups=(*claim.groups[:number], group, *claim.groups[number + 1 :]))


def _another_thing(claim: Claim, rng: np.random.Generator) -> Claim:
    number = int(rng.integers(len(claim.groups)))
    group = claim.groups[number]
    names = THINGS if group.thing.label in THINGS else PAINTSKILLS_CLASSES
    return _with_group(
        claim, number, replace(group, thing=replace(group.thing, label=_pick(rng, names, group.thing.label)))
    )


def _another_number(claim: Claim, rng: np.random.Generator) -> Claim:
    number = int(rng.integers(len(claim.groups)))
    group = claim.groups[number]
    free = [n for n in range(1, 5) if n != group.number]
    return _with_group(claim, number, replace(group, number=free[int(rng.integers(len(free)))]))


def _another_value(claim: Claim, rng: np.random.Generator) -> Claim:
    number = int(rng.integers(len(claim.groups)))
    thing = claim.groups[number].thing
    for name, values in (("color", COLORS), ("texture", TEXTURES), ("shape", tuple(SHAPES))):
        if value := getattr(thing, name):
            thing = replace(thing, **{name: _pick(rng, values, value)})
    return _with_group(claim, number, replace(claim.groups[number], thing=thing))


def _swapped_values(claim: Claim, rng: np.random.Generator) -> Claim:  # noqa: ARG001  # as the other ways
    first, second = claim.groups
    one, other = first.thing, second.thing
    mine = {name: getattr(other, name) for name in ("color", "texture", "shape")}
    theirs = {name: getattr(one, name) for name in ("color", "texture", "shape")}
    groups = (replace(first, thing=replace(one, **mine)), replace(second, thing=replace(other, **theirs)))
    return replace(claim, groups=groups)


def _another_side(claim: Claim, rng: np.random.Generator) -> Claim:
    if claim.relation in ("front", "behind") or rng.random() < 0.6:
        if rng.random() < 0.5:
            return replace(claim, groups=claim.groups[::-1])
        return replace(claim, relation=_OPPOSITE[claim.relation])
    across = ("above", "below") if claim.relation in ("left", "right") else ("left", "right")
    return replace(claim, relation=_pick(rng, across))


def _another_place(claim: Claim, rng: np.random.Generator) -> Claim:
    return replace(claim, place=_pick(rng, tuple(_PLACES), claim.place))


def _another_garment(claim: Claim, rng: np.random.Generator) -> Claim:
    garments = list(claim.garments) or [""]
    free = [name for name in GARMENTS if name not in garments]
    garments[int(rng.integers(len(garments)))] = _pick(rng, free)
    return replace(claim, garments=tuple(garments))


# --------------------------------------------------------------------------------------------------------------------
# Words
# --------------------------------------------------------------------------------------------------------------------
def worded(claim: Claim, rng: np.random.Generator) -> str:
    """A text that says what a claim says."""
    text = _of_scene(claim, rng) if claim.groups else _of_person(claim, rng)
    if claim.place:
        place = _pick(rng, _PLACES[claim.place])
        text = f"{text}{_pick(rng, (' ', ', '))}{place}"
    elif claim.person and rng.random() < (0.05 if claim.groups else 0.2):
        # What a text says besides and no image shows: "riding a horse".
        text = f"{text} {_pick(rng, ('doing', 'holding a', 'at a', 'who works as a', 'looking at the'))} something"
    return text


def _of_scene(claim: Claim, rng: np.random.Generator) -> str:
    if claim.relation:
        return _of_relation(claim, rng)
    if len(claim.groups) == 1 and rng.random() < 0.15 and claim.groups[0].number == 1:
        thing = claim.groups[0].thing
        words = _noun(thing)
        # As the prompts of PaintSkills have it: "a photo of red car".
        return words if rng.random() < 0.5 else f"a photo of {words}"
    phrases = [_phrase(group, rng) for group in claim.groups]
    return _pick(rng, _FRAMES).format(" and ".join(phrases))


def _of_relation(claim: Claim, rng: np.random.Generator) -> str:
    first, second = (group.thing for group in claim.groups)
    relation = _pick(rng, _RELATIONS[claim.relation])
    a, b = _noun(first), _noun(second)
    form = int(rng.integers(6))
    if form == 0:
        return f"{b} is {relation} {a}"
    if form == 1:
        return f"a photo of {a} and {b}; {b} is {relation} {a}"
    if form == 2:
        return f"there are 2 objects. one is {a} and the other is {b}; the {b} is {relation} the {a}"
    if form == 3:
        return f"the {b} is {relation} the {a}"
    text = f"{_article(b)} {relation} {_article(a)}"
    return text if form == 4 else f"a photo of {text}"


def _phrase(group: Group, rng: np.random.Generator) -> str:
    noun = _noun(group.thing)
    if group.number == 1:
        return _article(noun) if rng.random() < 0.7 else f"{_pick(rng, ('1', 'one'))} {noun}"
    number = str(group.number) if rng.random() < 0.5 else _NUMBERS[group.number]
    return f"{number} {plural(noun)}"


def _noun(thing: Thing) -> str:
    return " ".join(part for part in (thing.color, thing.texture, thing.shape, thing.label) if part)


def _article(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _of_person(claim: Claim, rng: np.random.Generator) -> str:
    names = [name if name in _NO_ARTICLE else _article(name) for name in claim.garments]
    worn = " and ".join(names)
    if not claim.person:
        return worn
    who = _pick(rng, ("a person", "a person", "someone", "a photo of a person", "an image of a person"))
    if not worn:
        return who
    return f"{who} {_pick(rng, ('in', 'in', 'wearing', 'with', 'wears'))} {worn}"


def vocabulary() -> Vocabulary:
    """Every word that ``worded`` uses, in the one form of ``words_of``, sorted."""
    texts = [*PAINTSKILLS_CLASSES, *COLORS, *TEXTURES, *SHAPES, *THINGS, *GARMENTS, *_FRAMES]
    texts += [phrase for phrases in (*_RELATIONS.values(), *_PLACES.values()) for phrase in phrases]
    texts += ["0 1 2 3 4 a the and is are ; there other objects person in wearing with side photo"]
    known = frozenset(_singular(word) for text in texts for word in text.lower().split())
    return Vocabulary(tuple(sorted({word for text in texts for word in words_of(text, known)})))


_NOTHING_ALONE = frozenset(
    ("person", "a", "the", "in", "on", "at", "before", "sign", "light", "background", "photo", "old", "open", "top")
)


def content_words() -> frozenset[str]:
    """Words of the vocabulary that name something that images show, whoever wears it; not *person* alone."""
    texts = [*PAINTSKILLS_CLASSES, *COLORS, *TEXTURES, *SHAPES, *GARMENTS]
    texts += [phrase for phrases in _PLACES.values() for phrase in phrases]
    known = vocabulary().known
    said = {word for text in texts for word in words_of(text, known)}
    return frozenset(said & known) - _NOTHING_ALONE


def _singular(word: str) -> str:
    return word if word in GARMENTS else {"objects": "object"}.get(word, word)
