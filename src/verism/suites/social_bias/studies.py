"""Studies: which people are asked for in which words, and what is to be perceived in their images.

``released`` is that of the paper. A study of your own is a YAML or JSON file; with ``extends`` it only says what is
different::

    extends: released
    name: ages
    facet: occupation
    descriptors:
      - nurse
      - {name: heir, article: an, facets: {field: none}}
    axes:
      - {name: age, question: "is the person young, middle-aged or old?", choices: [young, middle-aged, old]}
      - {name: tone}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import well_formed
from verism.records import FacetValue, Question
from verism.suites.study_files import filled_by, image_count, mapping, refuse_twice, standard_record, study_record

__all__ = [
    "STUDIES",
    "TONE",
    "TONES",
    "Axis",
    "Choice",
    "Descriptor",
    "Study",
    "article_of",
    "read_study",
    "standard_study",
    "study_from_record",
]

STUDIES = ("released",)
FOLDER = "social_bias"  # of the package's data
TONE = "tone"  # the axis that is measured in images and not asked about
TONES = tuple(str(tone) for tone in range(1, 11))  # of the Monk scale, lightest first
RESERVED = ("attribute", "person", "prompts", "class", "of", "pair", "axis")  # keys of our own in groups of scores

# Written with a vowel and spoken without, and the reverse: what decides between "a" and "an".
_SPOKEN_CONSONANT = re.compile(r"(?i)(?:uni(?!n|m)|use|usu|eu|one\b|once\b)")
_SILENT_H = re.compile(r"(?i)(?:hour|honest|honou?r|heir)")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A class of an axis.

    Attributes:
        name: in tables, and the choice that is offered to a judge of questions.
        replies: first words of a reply that the released parser takes for it, lower case.
        value: what ``axis_mean`` averages.
    """

    name: str
    replies: tuple[str, ...]
    value: float


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Something perceived in images, in one of several classes.

    Attributes:
        name: of the axis.
        question: asked of every image; empty for ``tone``, which is measured.
        choices: the classes, in order.
        strip: what the released parser deletes from a reply before it looks at its words.
        groups: names of the groups of prompts that the axis' mean and distribution are of.
    """

    name: str
    question: str
    choices: tuple[Choice, ...]
    strip: str
    groups: tuple[str, ...]

    @property
    def measured(self) -> bool:
        """Whether pixels are measured, not a question asked."""
        return not self.question

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of its classes, in order."""
        return tuple(choice.name for choice in self.choices)


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """What people are described as: a profession, or something of your own.

    Attributes:
        name: the descriptor, as prompts and tables have it.
        article: a, an or empty.
        facets: what breakdowns may group by, beside the descriptor itself.
    """

    name: str
    article: str
    facets: Mapping[str, FacetValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Study:
    """Words for people, descriptors, axes and attributes. Make one with ``standard_study`` or ``read_study``.

    Attributes:
        name: of the study.
        source: where it comes from: a publication or a file.
        template: of a prompt; fields ``{group}``, ``{descriptor}``, ``{a}`` (a or an).
        bare: of the prompts without descriptor, one per group; empty: there are none.
        facet: what the descriptor is called in tables (``profession``).
        groups: words for people, by name.
        pairs: pairs of group names; presence differences are of the first minus the second.
        descriptors: what people are described as, in order.
        axes: what is perceived, in order.
        attributes: as they stand in the question (``a tie``).
        attribute_question: question about one attribute; field ``{attribute}``.
        visible_question: question whether a person is visible; empty where it is not asked.
        n_images: images per prompt.
    """

    name: str
    source: str
    template: str
    bare: str
    facet: str
    groups: Mapping[str, str]
    pairs: tuple[tuple[str, str], ...]
    descriptors: tuple[Descriptor, ...]
    axes: tuple[Axis, ...]
    attributes: tuple[str, ...]
    attribute_question: str
    visible_question: str
    n_images: int

    def text(self, group: str, descriptor: Descriptor | None) -> str:
        """The prompt of a group and a descriptor; of the group alone for None."""
        word = self.groups[group]
        if descriptor is None:
            return _filled(self.bare, group=word)
        return _filled(self.template, group=word, descriptor=descriptor.name, a=descriptor.article)

    def axis(self, name: str) -> Axis | None:
        """The axis of this name, if there is one."""
        return next((axis for axis in self.axes if axis.name == name), None)

    def attribute_text(self, attribute: str) -> str:
        """What is asked about an attribute."""
        return self.attribute_question.format(attribute=attribute)

    def questions(self) -> tuple[Question, ...]:
        """All that is asked of each image: the axes' questions, the attributes', and whether a person is there."""
        of_axes = [Question(text=a.question, choices=a.classes) for a in self.axes if not a.measured]
        of_attributes = [Question(text=self.attribute_text(a)) for a in self.attributes]
        visible = [Question(text=self.visible_question)] if self.visible_question else []
        return (*of_axes, *of_attributes, *visible)

    def record(self) -> dict[str, Any]:
        """As JSON, in the form of a study file."""
        return {
            "name": self.name,
            "source": self.source,
            "template": self.template,
            "bare": self.bare,
            "facet": self.facet,
            "groups": [{"name": name, "word": word} for name, word in self.groups.items()],
            "pairs": [list(pair) for pair in self.pairs],
            "descriptors": [{"name": d.name, "article": d.article, "facets": dict(d.facets)} for d in self.descriptors],
            "axes": [_axis_record(axis) for axis in self.axes],
            "attributes": list(self.attributes),
            "attribute_question": self.attribute_question,
            "visible_question": self.visible_question,
            "n_images": self.n_images,
        }


def _axis_record(axis: Axis) -> dict[str, Any]:
    if axis.measured:
        return {"name": axis.name, "groups": list(axis.groups)}
    return {
        "name": axis.name,
        "question": axis.question,
        "choices": [{"name": c.name, "replies": list(c.replies), "value": c.value} for c in axis.choices],
        "strip": axis.strip,
        "groups": list(axis.groups),
    }


def _filled(template: str, **fields: str) -> str:
    return " ".join(template.format_map(fields).split())


def article_of(words: str) -> str:
    """``a`` or ``an``, by how the first word sounds."""
    vowel = words[:1].casefold() in tuple("aeiou") and not _SPOKEN_CONSONANT.match(words)
    return "an" if vowel or _SILENT_H.match(words) else "a"


# ----------------------------------------------------------------------------------------------------------- reading
def standard_study(name: str = "released") -> Study:
    """A study that comes with verism.

    Raises:
        UsageError: no such study.
    """
    return study_from_record(standard_record(name, FOLDER, STUDIES), where=name)


def read_study(source: Path) -> Study:
    """A study of your own from a YAML or JSON file; or, where there is no such file, a study of this name.

    Raises:
        UsageError: no such file, not readable, or something missing or misspelt in it.
    """
    record = study_record(source, FOLDER, STUDIES)
    with well_formed(source):
        return study_from_record(record, where=str(source))


_KEYS = (
    "extends", "name", "source", "template", "bare", "facet", "groups", "pairs", "descriptors", "axes", "attributes",
    "attribute_question", "visible_question", "n_images",
)  # fmt: skip
_NAME = re.compile(r"[^\W_](?:[\w .'-]*[\w.])?")


def study_from_record(record: Any, *, where: str) -> Study:
    """A study from parsed JSON or YAML; ``where`` names the source in errors.

    Raises:
        UsageError: something is missing, misspelt, or names the same thing twice.
    """
    supplied = mapping(record, where, _KEYS)
    if "extends" in supplied:
        base = standard_record(str(supplied["extends"]), FOLDER, STUDIES)
        subset = {"name": Path(where).stem, "source": where, **{k: v for k, v in supplied.items() if k != "extends"}}
        if "groups" in subset:  # those of the base are of its own groups
            base = {key: value for key, value in base.items() if key != "pairs"}
        supplied = {**base, **subset}
    groups = _groups(supplied, where)
    descriptors = tuple(_descriptor(entry, where) for entry in _entries(supplied, "descriptors", where, least=0))
    bare = filled_by(supplied.get("bare") or "", ("group",), where)
    if not descriptors and not bare:
        raise UsageError(f"{where}: no prompts: give `descriptors`, or `bare`, a template without one")
    study = Study(
        name=str(supplied.get("name", Path(where).stem)),
        source=str(supplied.get("source", where)),
        template=filled_by(supplied.get("template") or "", ("group", "descriptor", "a"), where, needed=("descriptor",))
        if descriptors
        else "",
        bare=bare,
        facet=_facet(supplied.get("facet", "descriptor"), where),
        groups=groups,
        pairs=_pairs(supplied.get("pairs"), groups, where),
        descriptors=descriptors,
        axes=tuple(_axis(entry, groups, where) for entry in _entries(supplied, "axes", where, least=0)),
        attributes=tuple(str(entry["name"]) for entry in _entries(supplied, "attributes", where, least=0)),
        attribute_question=filled_by(
            supplied.get("attribute_question", "Is the person wearing {attribute}?"),
            ("attribute",),
            where,
            needed=("attribute",),
        ),
        visible_question=str(supplied.get("visible_question") or ""),
        n_images=image_count(supplied.get("n_images", 9), where),
    )
    if not study.axes and not study.attributes:
        raise UsageError(f"{where}: nothing to perceive: give `axes` or `attributes`")
    _all_different(study, where)
    return study


def _entries(record: Mapping[str, Any], kind: str, where: str, *, least: int = 1) -> list[Mapping[str, Any]]:
    value = record.get(kind) or []
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) < least:
        raise UsageError(f"{where}: `{kind}` is a list of at least {least}; got {value!r}")
    entries = [item if isinstance(item, Mapping) else {"name": item} for item in value]
    # Without quotes, YAML takes these two words for truth values.
    entries = [{**e, "name": "yes" if e["name"] else "no"} if isinstance(e.get("name"), bool) else e for e in entries]
    for entry in entries:
        if not _NAME.fullmatch(str(entry.get("name", ""))):
            raise UsageError(
                f"{where}: {kind}: a name has letters, digits, spaces, dots, apostrophes and dashes; "
                f"got {entry.get('name')!r}"
            )
    return entries


def _groups(record: Mapping[str, Any], where: str) -> dict[str, str]:
    groups: dict[str, str] = {}
    for entry in _entries(record, "groups", where):
        mapping(entry, f"{where}: groups", ("name", "word"))
        name = str(entry["name"])
        if name in groups:
            raise UsageError(f"{where}: group {name!r} is there twice")
        groups[name] = str(entry.get("word", name))
    return groups


def _pairs(value: Any, groups: Mapping[str, str], where: str) -> tuple[tuple[str, str], ...]:
    if value is None:  # every two groups, the later less the earlier
        names = list(groups)
        return tuple((b, a) for i, a in enumerate(names) for b in names[i + 1 :])
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise UsageError(f"{where}: `pairs` is a list of pairs of groups; got {value!r}")
    pairs = []
    for pair in value:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]:
            raise UsageError(f"{where}: a pair is two different groups, e.g. [woman, man]; got {pair!r}")
        if foreign := [str(name) for name in pair if str(name) not in groups]:
            raise UsageError(f"{where}: pairs: no group {foreign[0]!r}; there are {', '.join(groups)}")
        pairs.append((str(pair[0]), str(pair[1])))
    return tuple(dict.fromkeys(pairs))


def _descriptor(entry: Mapping[str, Any], where: str) -> Descriptor:
    mapping(entry, f"{where}: descriptors", ("name", "article", "facets"))
    name = str(entry["name"])
    facets = entry.get("facets") or {}
    if not isinstance(facets, Mapping) or not all(isinstance(v, str | int | float | None) for v in facets.values()):
        raise UsageError(f"{where}: {name}: `facets` is a mapping of names to plain values; got {facets!r}")
    if taken := [str(key) for key in facets if str(key) in RESERVED]:
        raise UsageError(f"{where}: {name}: {taken[0]!r} is a name of the suite's own; call the facet something else")
    return Descriptor(
        name=name,
        article=str(entry.get("article", article_of(name))),
        facets={str(key): value for key, value in facets.items()},
    )


def _axis(entry: Mapping[str, Any], groups: Mapping[str, str], where: str) -> Axis:
    mapping(entry, f"{where}: axes", ("name", "question", "choices", "strip", "groups"))
    name = str(entry["name"])
    if name in RESERVED or " x " in name:
        raise UsageError(f"{where}: axes: {name!r} is a name of the suite's own; call the axis something else")
    wanted = entry.get("groups") or list(groups)
    if isinstance(wanted, str) or not isinstance(wanted, Sequence):
        raise UsageError(f"{where}: {name}: `groups` is a list; got {wanted!r}")
    # An axis of an extended study may be of groups that the own study does not have: then of all that it has.
    owner = tuple(group for group in groups if group in wanted) or tuple(groups)
    question = str(entry.get("question") or "")
    if name == TONE:
        if question or entry.get("choices"):
            raise UsageError(f"{where}: the axis {TONE!r} is measured: it takes no question and no choices")
        choices = tuple(Choice(name=tone, replies=(), value=float(tone)) for tone in TONES)
        return Axis(name=name, question="", choices=choices, strip="", groups=owner)
    if not question:
        raise UsageError(f"{where}: {name}: `question` is missing; only {TONE!r} is measured without one")
    listed = _entries(entry, "choices", f"{where}: {name}", least=2)
    return Axis(
        name=name,
        question=question,
        choices=tuple(_choice(item, index, f"{where}: {name}") for index, item in enumerate(listed)),
        strip=str(entry.get("strip") or ""),
        groups=owner,
    )


def _choice(entry: Mapping[str, Any], place: int, where: str) -> Choice:
    mapping(entry, f"{where}: choices", ("name", "replies", "value"))
    name = str(entry["name"])
    replies = entry.get("replies") or [name]
    value = entry.get("value", place)
    if isinstance(replies, str) or not isinstance(replies, Sequence):
        raise UsageError(f"{where}: {name}: `replies` is a list of words; got {replies!r}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{where}: {name}: `value` is a number; got {value!r}")
    return Choice(name=name, replies=tuple(str(reply).lower() for reply in replies), value=float(value))


def _facet(value: Any, where: str) -> str:
    name = str(value)
    if not _NAME.fullmatch(name) or name in RESERVED:
        raise UsageError(f"{where}: `facet` is what descriptors are called in tables, e.g. profession; got {value!r}")
    return name


def _all_different(study: Study, where: str) -> None:
    """Names and texts by which things are told apart are so."""
    facets = {key for d in study.descriptors for key in d.facets}
    described: list[Descriptor | None] = [*study.descriptors, *([None] if study.bare else [])]
    kinds: list[tuple[str, list[str]]] = [
        ("descriptor", [d.name.replace(" ", "_") for d in study.descriptors]),
        ("axis or facet", [a.name for a in study.axes] + [study.facet, *facets]),
        ("attribute", list(study.attributes)),
        ("question", [question.text for question in study.questions()]),
        ("prompt", [study.text(group, d) for group in study.groups for d in described]),
        *((f"choice of {axis.name}", list(axis.classes)) for axis in study.axes),
        *((f"reply of {axis.name}", [r for c in axis.choices for r in c.replies]) for axis in study.axes),
    ]
    refuse_twice(kinds, where)
