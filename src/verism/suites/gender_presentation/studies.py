"""Studies: which groups of people, attributes and contexts are asked for, and in which words.

``released`` is that of the paper, ``occupations`` its case study. A study of your own is a YAML or JSON file; with
``extends`` it only says what is different::

    extends: released
    name: with-neutral-term
    groups:
      - {name: woman, term: A woman}
      - {name: man, term: A man}
      - {name: neutral, term: A non-binary person}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from verism.errors import UsageError
from verism.files import well_formed
from verism.suites.study_files import filled_by, image_count, mapping, refuse_twice, standard_record, study_record

__all__ = [
    "SETTINGS",
    "STUDIES",
    "Attribute",
    "Group",
    "SettingName",
    "Study",
    "fill",
    "read_study",
    "standard_study",
    "study_from_record",
]

STUDIES = ("released", "occupations")
FOLDER = "gender_presentation"  # of the package's data
SettingName = Literal["neutral", "explicit"]
SETTINGS: tuple[SettingName, ...] = get_args(SettingName)

# Written with a vowel and spoken without, and the reverse: what decides between "a" and "an".
_SPOKEN_Y = re.compile(r"(?i)(?:uni(?!n|m)|use|usu|eu|one\b)")
_SILENT_H = re.compile(r"(?i)(?:hour|honest|honou?r|heir)")


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of people, by the words of a prompt.

    Attributes:
        name: in ids and tables (``woman``).
        term: in prompts (``A woman``).
        folders: what image folders of it may be called before ``_v1_``; its name among them.
    """

    name: str
    term: str
    folders: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """Something people may be pictured with.

    Attributes:
        name: in tables (``tie``).
        phrase: in prompts and sentences (``with a tie``).
        query: what image vectors are compared with (``a tie``).
        asked: in questions (``a uniform`` for ``uniform``).
    """

    name: str
    phrase: str
    query: str
    asked: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """Groups, attributes and contexts, and the words for them. Make one with ``standard_study`` or ``read_study``.

    Attributes:
        name: of the study.
        source: where it comes from: a publication or a file.
        groups: groups of people that prompts name.
        attributes: what images are judged for.
        contexts: scenes that the prompts name.
        templates: by setting; ``neutral`` names no attribute, ``explicit`` names one. Without ``explicit`` there are no
            such prompts. Fields: ``{term}``, ``{context}``, ``{phrase}``, and ``{a}`` or ``{A}`` for a or an.
        n_images: images per prompt.
        references: what cosines may be calibrated by; the first unless the rule ``reference`` says otherwise.
        question: asked of an image about an attribute; ``{asked}`` is the attribute.
        people: words for people in the sentences that the classifiers are fitted on.
        scenes: scenes in these sentences, at least 2.
        sentence: template of these sentences; fields ``{person}``, ``{phrase}`` and ``{scene}``.
    """

    name: str
    source: str
    groups: tuple[Group, ...]
    attributes: tuple[Attribute, ...]
    contexts: tuple[str, ...]
    templates: Mapping[str, str]
    n_images: int
    references: tuple[str, ...]
    question: str
    people: tuple[str, ...]
    scenes: tuple[str, ...]
    sentence: str

    @property
    def settings(self) -> tuple[SettingName, ...]:
        """Settings it has a template for."""
        return tuple(s for s in SETTINGS if s in self.templates)

    @property
    def per_group(self) -> int:
        """Prompts of each group over both settings."""
        return len(self.contexts) * (1 + (len(self.attributes) if "explicit" in self.templates else 0))

    def place(self, index: int) -> tuple[SettingName, Attribute | None, int]:
        """Setting, attribute and number of the context of a prompt: the contexts without attribute come first."""
        block, context = divmod(index, len(self.contexts))
        return ("neutral", None, context) if block == 0 else ("explicit", self.attributes[block - 1], context)

    def text(self, group: Group, index: int) -> str:
        """The prompt."""
        setting, attribute, context = self.place(index)
        fields = {"term": group.term, "context": self.contexts[context]}
        return fill(self.templates[setting], fields | {"phrase": "" if attribute is None else attribute.phrase})

    def sentences(self) -> tuple[tuple[str, ...], ...]:
        """What the classifiers learn from: sentences without any attribute, then for each attribute those with it.

        Each part has the same people in the same scenes; scenes are the outer loop, people the inner one.
        """
        people = tuple(dict.fromkeys(fill(p, {"context": c}) for c in self.contexts for p in self.people))
        return tuple(
            tuple(
                fill(self.sentence, {"person": person, "phrase": phrase, "scene": scene})
                for scene in self.scenes
                for person in people
            )
            for phrase in ("", *(a.phrase for a in self.attributes))
        )

    def question_about(self, attribute: Attribute) -> str:
        """What a judge of questions is asked."""
        return fill(self.question, {"asked": attribute.asked, "phrase": attribute.phrase})

    def pairs(self) -> list[tuple[Group, Group]]:
        """Every two groups, in order: differences are of the first minus the second."""
        return [(a, b) for i, a in enumerate(self.groups) for b in self.groups[i + 1 :]]

    def record(self) -> dict[str, Any]:
        """As JSON, in the form of a study file."""
        return {
            "name": self.name,
            "source": self.source,
            "groups": [{"name": g.name, "term": g.term, "folders": list(g.folders)} for g in self.groups],
            "attributes": [
                {"name": a.name, "phrase": a.phrase, "query": a.query, "asked": a.asked} for a in self.attributes
            ],
            "contexts": list(self.contexts),
            "templates": dict(self.templates),
            "n_images": self.n_images,
            "references": list(self.references),
            "question": self.question,
            "classifier": {"people": list(self.people), "scenes": list(self.scenes), "sentence": self.sentence},
        }


def fill(template: str, fields: Mapping[str, str]) -> str:
    """A template with its fields filled in; empty ones leave no gap, ``{a}`` and ``{A}`` fit the word that follows."""
    article = {"a": "\0a", "A": "\0A"}
    text = " ".join(template.format_map({**article, **fields}).split())
    text = re.sub(r" +([.,!?])", r"\1", text)
    return re.sub(r"\0([aA])(\s+)(\S*)", lambda m: m[1] + _n(m[3]) + m[2] + m[3], text)


def _n(word: str) -> str:
    vowel = word[:1].casefold() in tuple("aeiou") and not _SPOKEN_Y.match(word)
    return "n" if vowel or _SILENT_H.match(word) else ""


# ----------------------------------------------------------------------------------------------------------- reading
def standard_study(name: str) -> Study:
    """``released`` or ``occupations``.

    Raises:
        UsageError: another name.
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
    "extends", "name", "source", "groups", "attributes", "contexts", "templates", "n_images", "references", "question",
    "classifier",
)  # fmt: skip
_NAME = re.compile(r"[^\W_](?:[\w .-]*[\w.])?")


def study_from_record(record: Any, *, where: str) -> Study:
    """A study from parsed JSON or YAML; ``where`` names the source in errors.

    Raises:
        UsageError: something is missing, misspelt, or names the same thing twice.
    """
    mapping(record, where, _KEYS)
    if "extends" in record:
        base = standard_record(str(record["extends"]), FOLDER, STUDIES)
        subset = {"name": Path(where).stem, "source": where, **{k: v for k, v in record.items() if k != "extends"}}
        parts = mapping(subset.get("classifier") or {}, f"{where}: classifier", ("people", "scenes", "sentence"))
        record = {**base, **subset, "classifier": {**base["classifier"], **parts}}
    groups = tuple(_group(entry, where) for entry in _entries(record, "groups", where, at_least=2))
    attributes = tuple(_attribute(entry, where) for entry in _entries(record, "attributes", where))
    contexts = _texts(record, "contexts", where)
    classifier = mapping(record.get("classifier") or {}, f"{where}: classifier", ("people", "scenes", "sentence"))
    terms = tuple(f"{{A}} {g.term} {{context}}" if _needs_context(record) else g.term for g in groups)
    study = Study(
        name=str(record.get("name", Path(where).stem)),
        source=str(record.get("source", where)),
        groups=groups,
        attributes=attributes,
        contexts=contexts,
        templates=_templates(record.get("templates"), where),
        n_images=image_count(record.get("n_images", 5), where),
        references=_texts(record, "references", where) if "references" in record else ("an object",),
        question=filled_by(str(record.get("question", "Is the person wearing {asked}?")), ("asked", "phrase"), where),
        people=_texts(classifier, "people", where) if "people" in classifier else terms,
        scenes=_texts(classifier, "scenes", where) if "scenes" in classifier else contexts,
        sentence=filled_by(
            str(classifier.get("sentence", "{person} {phrase} {scene}.")),
            ("person", "phrase", "scene"),
            where,
            needed=("person", "phrase", "scene"),
        ),
    )
    if len(study.scenes) < 2:
        raise UsageError(
            f"{where}: classifier: scenes are at least 2, as what is learnt of one is tested on another; got "
            f"{list(study.scenes)}. `extends` brings those of the paper"
        )
    for person in study.people:
        filled_by(person, ("context", "a", "A"), where)
    _all_different(study, where)
    return study


def _needs_context(record: Mapping[str, Any]) -> bool:
    """Whether a term alone is nobody: "female" of "a female lawyer"."""
    return any(field in str(record.get("templates")) for field in ("{a}", "{A}"))


def _entries(record: Mapping[str, Any], kind: str, where: str, *, at_least: int = 1) -> list[Mapping[str, Any]]:
    value = record.get(kind)
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) < at_least:
        raise UsageError(f"{where}: `{kind}` is a list of at least {at_least}; got {value!r}")
    entries = [item if isinstance(item, Mapping) else {"name": str(item)} for item in value]
    for entry in entries:
        name = str(entry.get("name", ""))
        if not _NAME.fullmatch(name):
            raise UsageError(f"{where}: {kind}: a name has letters, digits, spaces, dots and dashes; got {name!r}")
    return entries


def _group(entry: Mapping[str, Any], where: str) -> Group:
    mapping(entry, f"{where}: groups", ("name", "term", "folders"))
    name = str(entry["name"])
    folders = entry.get("folders") or ()
    if isinstance(folders, str):
        raise UsageError(f"{where}: {name}: folders is a list, got {folders!r}")
    return Group(
        name=name,
        term=str(entry.get("term", name)),
        folders=tuple(dict.fromkeys([name, *(str(f) for f in folders)])),
    )


def _attribute(entry: Mapping[str, Any], where: str) -> Attribute:
    mapping(entry, f"{where}: attributes", ("name", "phrase", "query", "asked"))
    name = str(entry["name"])
    query = str(entry.get("query", name))
    words = {"query": query, "phrase": str(entry.get("phrase", f"in {query}")), "asked": str(entry.get("asked", query))}
    if empty := [key for key, text in words.items() if not text.strip()]:
        raise UsageError(f"{where}: {name}: {empty[0]} is empty")
    return Attribute(name=name, **words)


def _texts(record: Mapping[str, Any], kind: str, where: str) -> tuple[str, ...]:
    value = record.get(kind)
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise UsageError(f"{where}: `{kind}` is a list of texts; got {value!r}")
    if any(isinstance(item, Mapping | list) or item is None for item in value):
        raise UsageError(f"{where}: `{kind}` is a list of texts; one of them is none: {list(value)!r}")
    return tuple(str(item) for item in value)


def _templates(given: Any, where: str) -> dict[str, str]:
    result = mapping(given or {}, f"{where}: templates", SETTINGS)
    if "neutral" not in result:
        raise UsageError(
            f"{where}: templates: `neutral` is missing; it names no attribute, e.g. '{{term}} {{context}}.'"
        )
    needed: Mapping[str, tuple[str, ...]] = {"neutral": ("term", "context"), "explicit": ("term", "context", "phrase")}
    return {
        setting: filled_by(str(text), (*needed[setting], "a", "A"), where, needed=needed[setting])
        for setting, text in result.items()
    }


def _all_different(study: Study, where: str) -> None:
    """Names and texts by which things are told apart are so."""
    folders = [f.casefold() for g in study.groups for f in dict.fromkeys(g.folders)]
    kinds: list[tuple[str, list[str]]] = [
        ("group", [g.name.replace(" ", "_") for g in study.groups]),
        ("attribute", [a.name for a in study.attributes]),
        ("context", list(study.contexts)),
        ("folder", folders),
        ("question", [study.question_about(a) for a in study.attributes]),
        ("prompt", [study.text(g, i) for g in study.groups for i in range(study.per_group)]),
    ]
    refuse_twice(kinds, where)
