"""What people saw in the images: votes of crowd workers, their majority, and arrays of labels.

Files that are read:

* raw batch results of Mechanical Turk, as the paper's authors collected theirs: a row per worker and task, with
  ``Input.attribute`` (the phrase of a prompt), ``Input.image_url{i}``, ``Answer.Yes{i}.1`` and ``Answer.No{i}.0``;
* a table of votes (``.csv``, ``.jsonl``): ``attribute``, ``vote`` (yes or no), and which image: ``image`` (a path or
  URL, or an image's id in a run) or ``prompt_id`` and ``index``; optionally ``worker`` and ``model``;
* a table of labels, as ``write_labels`` makes it: the same with ``label`` in place of ``vote``;
* an array of labels (``.npy``), shape (groups, prompts x images, attributes), prompt by prompt.

Who voted is nobody's business: ids of workers are replaced by keyed hashes while a file is read, the key is drawn anew
for each import and forgotten, and no table that is written has a column for them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from verism.arrays import read_array
from verism.errors import UsageError
from verism.files import Row, read_rows, write_csv
from verism.records import Prompt
from verism.suites.gender_presentation.prompts import prompt_id_of
from verism.suites.gender_presentation.studies import Attribute, Group, Study

if TYPE_CHECKING:
    import numpy as np

    from verism.statistics.agreement import Agreement

__all__ = [
    "LABEL_COLUMNS",
    "VOTES_EACH",
    "Image",
    "Label",
    "LabelSummary",
    "Vote",
    "Votes",
    "explicit_labels",
    "image_of",
    "labels_by_prompt",
    "majority_labels",
    "read_label_array",
    "read_labels",
    "read_votes",
    "vote_agreement",
    "write_labels",
]

VOTES_EACH = 3  # workers per image and attribute in the paper
LABEL_COLUMNS = ("model", "prompt_id", "index", "attribute", "label", "n_yes", "n_votes")
YES, NO = ("yes", "true", "1", "1.0"), ("no", "false", "0", "0.0")
WORKER_COLUMNS = ("WorkerId", "worker", "worker_id")
HASH_BYTES = 6


class Image(NamedTuple):
    """Which image is meant. ``model`` is None where the name of its file does not tell."""

    model: str | None
    prompt_id: str
    number: int


@dataclass(frozen=True, kw_only=True)
class Vote:
    """One person's answer. ``worker`` is a hash that is good for this import only, None where nobody is named."""

    image: Image
    attribute: str
    seen: bool
    worker: str | None = None


@dataclass(frozen=True, kw_only=True)
class Votes:
    """The votes of one import, in the order of the files.

    Attributes:
        votes: in the order of the files.
        n_tasks: number of tasks in raw batches, 0 for tables of votes.
        n_rejected: number of rows left out because the annotator's work was rejected.
    """

    votes: tuple[Vote, ...]
    n_tasks: int = 0
    n_rejected: int = 0


@dataclass(frozen=True, kw_only=True)
class Label:
    """What most of the people saw. ``label`` is None where they are split evenly.

    ``n_votes`` is None where only the label was kept.
    """

    image: Image
    attribute: str
    label: int | None
    n_yes: int | None = None
    n_votes: int | None = None


# -------------------------------------------------------------------------------------------------------------- images
def image_of(text: str, study: Study, where: str) -> Image:
    """The image that a URL, a path or an id speaks of.

    Known are ``.../female_v1_stable_gen/12_3.png`` (any name of the group's folders, any model), ``woman/12_3.png`` and
    ``woman/12#3``.

    Raises:
        UsageError: none of these, or a prompt the study does not have.
    """
    names = {folder.casefold(): group for group in study.groups for folder in (*group.folders, group.name)}
    names |= {group.name.replace(" ", "_").casefold(): group for group in study.groups}
    group = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = rf"(?:.*[/\\])?({group})(?:_v\d+_(.+?)_gen)?[/\\](\d+)(?:_(\d+)\.\w+(?:[?#].*)?|#(\d+))"
    match = re.fullmatch(pattern, text.strip(), re.IGNORECASE)
    if match is None:
        example = study.groups[0].folders[-1]
        raise UsageError(
            f"{where}: cannot tell which image {text!r} is; expected {example}_v1_MODEL_gen/PROMPT_NUMBER.png or an "
            f"id such as {prompt_id_of(study.groups[0], 12)}#3"
        )
    return _image(names[match[1].casefold()], match[2], int(match[3]), int(match[4] or match[5]), study, where)


def _image(group: Group, model: str | None, prompt: int, number: int, study: Study, where: str) -> Image:
    if prompt >= study.per_group:
        raise UsageError(f"{where}: the study {study.name!r} has prompts 0 to {study.per_group - 1}, not {prompt}")
    return Image(model, prompt_id_of(group, prompt), number)


def _named_image(row: Mapping[str, Any], study: Study, where: str) -> Image:
    """The image of a row of a table of votes or labels."""
    model = _text(row, "model") or None
    if prompt_id := _text(row, "prompt_id"):
        index = _text(row, "index")
        if not index.isdecimal():
            raise UsageError(f"{where}: index {index!r} is not the number of an image; the first of a prompt has 0")
        image = image_of(f"{prompt_id}#{index}", study, where)
    else:
        text = next((t for t in (_text(row, c) for c in ("image", "image_id", "image_url", "url")) if t), "")
        if not text:
            raise UsageError(f"{where}: no image named; give a column image, or prompt_id and index")
        image = image_of(text, study, where)
    return image if model is None else image._replace(model=model)


def _attribute(text: str, image: Image | None, study: Study, where: str) -> Attribute:
    """The attribute by its name or any of its words; refused where the image's prompt names another one."""
    plain = text.strip().rstrip(".?").casefold()
    known = [a for a in study.attributes if plain in {w.casefold() for w in (a.name, a.phrase, a.query, a.asked)}]
    if not known:
        listed = ", ".join(a.phrase for a in study.attributes)
        raise UsageError(f"{where}: no attribute {text!r} in the study {study.name!r}; there are {listed}")
    if image is not None:
        subset = study.place(int(image.prompt_id.rpartition("/")[2]))[1]
        if subset is not None and subset.name != known[0].name:
            raise UsageError(
                f"{where}: image {image.number} of {image.prompt_id} was asked for {subset.phrase!r} and is judged "
                f"for that alone, not for {known[0].phrase!r}"
            )
    return known[0]


def _text(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    return "" if value is None else str(value).strip()


# --------------------------------------------------------------------------------------------------------------- votes
def read_votes(paths: Sequence[Path], study: Study, *, votes_each: int | None = None) -> Votes:
    """The votes of raw batches and tables of votes, read as one import.

    Args:
        paths: the files, raw batches or tables of votes.
        study: whose attributes and prompts the votes are about.
        votes_each: how many votes every image and attribute must have; by default three where all files are raw
            batches, any number otherwise.
    Raises:
        UsageError: a file that is neither; an unknown attribute; an image of another attribute's prompt; an item that
            is not either yes or no; a task or image without exactly so many votes; two votes of one person on the
            same image and attribute.
    """
    key = secrets.token_bytes(32)

    def anonymous(worker: str) -> str | None:
        return hashlib.blake2b(worker.encode(), key=key, digest_size=HASH_BYTES).hexdigest() if worker else None

    votes: list[Vote] = []
    n_tasks = n_rejected = 0
    all_raw = True
    for path in paths:
        rows = read_rows(path, "votes")
        if not rows:
            raise UsageError(f"{path}: no rows in it")
        if "Input.attribute" in rows[0]:
            result = _batch(path, rows, study, anonymous, VOTES_EACH if votes_each is None else votes_each)
            n_tasks, n_rejected = n_tasks + result.n_tasks, n_rejected + result.n_rejected
            votes += result.votes
        elif "vote" in rows[0]:
            all_raw = False
            votes += _table(rows, study, anonymous)
        else:
            raise UsageError(
                f"{path}: neither votes (columns image or prompt_id and index, attribute, vote) nor a raw batch "
                f"(Input.attribute, Input.image_url0 ...); its columns are {', '.join(list(rows[0])[:8])}"
            )
    wanted = VOTES_EACH if votes_each is None and all_raw else votes_each
    _check_numbers(votes, wanted)
    return Votes(votes=tuple(votes), n_tasks=n_tasks, n_rejected=n_rejected)


def _batch(path: Path, rows: Sequence[Row], study: Study, anonymous: Callable[[str], str | None], each: int) -> Votes:
    items = sorted(
        int(match[1]) for column in rows[0] if (match := re.fullmatch(r"Input\.image_url(\d+)", str(column)))
    )
    columns = [f"Answer.{side}" for i in items for side in (f"Yes{i}.1", f"No{i}.0")]
    if missing := [c for c in columns if c not in rows[0]]:
        raise UsageError(f"{path}: a raw batch has a column {missing[0]!r} for the image of Input.image_url")
    votes: list[Vote] = []
    rejected = 0
    tasks: Counter[str] = Counter()
    for row in rows:
        where = row.where
        if _text(row, "AssignmentStatus").casefold() == "rejected":
            rejected += 1
            continue
        worker = anonymous(next((t for t in (_text(row, c) for c in WORKER_COLUMNS) if t), ""))
        tasks["\n".join([_text(row, "Input.attribute"), *(_text(row, f"Input.image_url{i}") for i in items)])] += 1
        for i in items:
            yes, no = (_text(row, f"Answer.{side}").casefold() for side in (f"Yes{i}.1", f"No{i}.0"))
            if {yes, no} != {"true", "false"}:
                raise UsageError(
                    f"{where}, item {i}: Yes is {yes or 'empty'!r} and No is {no or 'empty'!r}; one of them is true "
                    "and the other false. Leave the assignment out if it was not answered"
                )
            url = _text(row, f"Input.image_url{i}")
            image = image_of(url, study, f"{where}, item {i}")
            attribute = _attribute(_text(row, "Input.attribute"), image, study, f"{where}, item {i}")
            votes.append(Vote(image=image, attribute=attribute.name, seen=yes == "true", worker=worker))
    if wrong := [n for n in tasks.values() if n != each]:
        raise UsageError(
            f"{path}: {len(wrong)} of {len(tasks)} tasks do not have {each} rows, one for each worker; one has "
            f"{wrong[0]}. Is the file complete? (--votes N for another number of workers)"
        )
    return Votes(votes=tuple(votes), n_tasks=len(tasks), n_rejected=rejected)


def _table(rows: Sequence[Row], study: Study, anonymous: Callable[[str], str | None]) -> list[Vote]:
    votes = []
    for row in rows:
        where = row.where
        image = _named_image(row, study, where)
        attribute = _attribute(_text(row, "attribute"), image, study, where)
        worker = anonymous(next((t for t in (_text(row, c) for c in WORKER_COLUMNS) if t), ""))
        seen = _yes_or_no(_text(row, "vote"), where)
        votes.append(Vote(image=image, attribute=attribute.name, seen=seen, worker=worker))
    return votes


def _yes_or_no(text: str, where: str) -> bool:
    plain = text.casefold()
    if plain not in YES + NO:
        raise UsageError(f"{where}: {text!r} is no vote; write yes or no, and leave out those who gave no answer")
    return plain in YES


def _check_numbers(votes: Iterable[Vote], each: int | None) -> None:
    numbers: Counter[tuple[Image, str]] = Counter()
    of_worker: Counter[tuple[Image, str, str]] = Counter()
    for vote in votes:
        numbers[vote.image, vote.attribute] += 1
        if vote.worker is not None:
            of_worker[vote.image, vote.attribute, vote.worker] += 1
    if twice := next((key for key, n in of_worker.items() if n > 1), None):
        raise UsageError(f"one person voted twice on {_told(*twice[:2])}; is a file given twice, or a row repeated?")
    if each is not None and (wrong := [(key, n) for key, n in numbers.items() if n != each]):
        (image, attribute), n = wrong[0]
        raise UsageError(
            f"{len(wrong)} of {len(numbers)} images and attributes do not have {each} votes; "
            f"{_told(image, attribute)} has {n}"
        )


def _told(image: Image, attribute: str) -> str:
    of_model = "" if image.model is None else f" by {image.model}"
    return f"image {image.number} of {image.prompt_id}{of_model}, attribute {attribute!r}"


def majority_labels(votes: Votes) -> list[Label]:
    """What most voters saw in each image, attribute by attribute, in the order the images first appear."""
    counts: dict[tuple[Image, str], list[int]] = {}
    for vote in votes.votes:
        entry = counts.setdefault((vote.image, vote.attribute), [0, 0])
        entry[0] += vote.seen
        entry[1] += 1
    return [
        Label(
            image=image,
            attribute=attribute,
            label=None if 2 * yes == n else int(2 * yes > n),
            n_yes=yes,
            n_votes=n,
        )
        for (image, attribute), (yes, n) in counts.items()
    ]


def vote_agreement(
    votes: Votes, *, by_attribute: bool = False, n_resamples: int = 2_000, seed: int = 0
) -> dict[str, Agreement]:
    """Krippendorff's alpha of the votes, nominal; prompts are resampled together.

    Args:
        votes: of one import.
        by_attribute: also for each attribute alone. An attribute that is rare has few images to disagree on, and its
            alpha is lower at the same care.
        n_resamples: resamples behind the interval, see ``statistics.agreement.krippendorff_alpha``.
        seed: of the resamples.
    Returns:
        ``{"all": ...}`` and, if asked for, the attributes.
    """
    import numpy as np

    from verism.statistics.agreement import krippendorff_alpha

    units: dict[tuple[Image, str], list[int]] = {}
    for vote in votes.votes:
        units.setdefault((vote.image, vote.attribute), []).append(int(vote.seen))
    parts = {"all": list(units)}
    if by_attribute:
        for image, attribute in units:
            parts.setdefault(attribute, []).append((image, attribute))
    results = {}
    for name, keys in parts.items():
        ratings = np.full((max((len(units[key]) for key in keys), default=0), len(keys)), np.nan)
        for unit, key in enumerate(keys):
            ratings[: len(units[key]), unit] = units[key]
        clusters = [f"{image.model}/{image.prompt_id}" for image, _ in keys]
        results[name] = krippendorff_alpha(ratings, clusters=clusters, n_resamples=n_resamples, seed=seed)
    return results


@dataclass(frozen=True, kw_only=True)
class LabelSummary:
    """An import of votes in numbers.

    Attributes:
        votes: what was read.
        labels: majority labels.
        agreement: Krippendorff's alpha: ``all``, and by attribute.
        attributes: names of the study's attributes, in their order.
    """

    votes: Votes
    labels: Sequence[Label]
    agreement: Mapping[str, Agreement]
    attributes: Sequence[str]

    def record(self) -> dict[str, Any]:
        by_attribute = {name: [label for label in self.labels if label.attribute == name] for name in self.attributes}
        return {
            "n_votes": len(self.votes.votes),
            "n_voters": len({vote.worker for vote in self.votes.votes if vote.worker is not None}),
            "n_tasks": self.votes.n_tasks,
            "n_rejected": self.votes.n_rejected,
            "n_labels": len(self.labels),
            "n_undecided": sum(label.label is None for label in self.labels),
            "models": sorted({label.image.model or "(none)" for label in self.labels}),
            "alpha": {name: dict(alpha._asdict()) for name, alpha in self.agreement.items()},
            "attributes": {
                name: {"labels": len(labels), "seen": sum(label.label == 1 for label in labels)}
                for name, labels in by_attribute.items()
                if labels
            },
        }

    def text(self) -> str:
        from verism.metrics.results import aligned, estimate

        n = self.record()
        voters = f" of {n['n_voters']:,} people" if n["n_voters"] else ""
        lines = [f"{n['n_votes']:,} votes{voters}: {n['n_labels']:,} labels, {n['n_undecided']:,} undecided"]
        if n["n_rejected"]:
            lines.append(f"{n['n_rejected']:,} rows of rejected work left out")
        rows = [["attribute", "labels", "seen", "alpha"]]
        for name, counts in n["attributes"].items():
            rows.append([name, f"{counts['labels']:,}", f"{counts['seen']:,}", estimate(self.agreement[name])])
        return "\n".join([*lines, f"Krippendorff's alpha {estimate(self.agreement['all'])}", aligned(rows)])


# -------------------------------------------------------------------------------------------------------------- labels
def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Labels as a table with ``LABEL_COLUMNS``, whole or not at all. Nothing in it says who voted."""
    rows = ([*label.image, label.attribute, label.label, label.n_yes, label.n_votes] for label in labels)
    write_csv(path, LABEL_COLUMNS, rows)


def read_labels(source: Path, study: Study, *, model: str | None = None) -> list[Label]:
    """Labels from any of the files of this module: a table of labels, votes, a raw batch, or an array.

    Args:
        source: the file.
        study: whose attributes and prompts the labels are about.
        model: whose images count, where a file holds labels of several; for an array, whose they are.
    Raises:
        UsageError: not such a file, or no label of this model in it.
    """
    if source.suffix.lower() == ".npy":
        return read_label_array(source, study, model=model)
    rows = read_rows(source, "labels")
    is_labels = bool(rows) and "label" in rows[0]
    labels = _label_table(rows, study) if is_labels else majority_labels(read_votes([source], study))
    if model is None:
        return labels
    kept = [label for label in labels if label.image.model == model]
    if not kept:
        raise UsageError(f"{source} has no labels of {model!r}; it has those of {', '.join(_models(labels))}")
    return kept


def _label_table(rows: Sequence[Row], study: Study) -> list[Label]:
    labels: dict[tuple[Image, str], Label] = {}
    for row in rows:
        where = row.where
        image = _named_image(row, study, where)
        attribute = _attribute(_text(row, "attribute"), image, study, where).name
        if (image, attribute) in labels:
            raise UsageError(f"{where}: a second label for {_told(image, attribute)}")
        label = int(_yes_or_no(_text(row, "label"), where)) if _text(row, "label") else None
        labels[image, attribute] = Label(
            image=image,
            attribute=attribute,
            label=label,
            n_yes=_number(row, "n_yes", where),
            n_votes=_number(row, "n_votes", where),
        )
    return list(labels.values())


def _number(row: Mapping[str, Any], column: str, where: str) -> int | None:
    text = _text(row, column)
    if text and not text.isdecimal():
        raise UsageError(f"{where}: {column} {text!r} is not a number of votes")
    return int(text) if text else None


def _models(labels: Iterable[Label]) -> list[str]:
    return sorted({label.image.model or "(none)" for label in labels})


def labels_by_prompt(
    source: Path, study: Study, prompts: Sequence[Prompt], *, model: str | None = None
) -> dict[str, dict[str, str]]:
    """The labels of a file by prompt and attribute: ``1``, ``0`` or ``-`` for each image of the prompt, in order.

    Args:
        source: the file of labels.
        study: whose attributes and prompts the labels are about.
        prompts: of the run; labels of other prompts and images are left out.
        model: whose images count, where the file holds labels of several models.
    Raises:
        UsageError: labels of several models, of which none was chosen; no label of these prompts.
    """
    labels = read_labels(source, study, model=model)
    if len(models := _models(labels)) > 1:
        raise UsageError(
            f"{source} has labels of several models: {', '.join(models)}; make a file of one with: "
            "verism gep labels FILE --model NAME --out labels.csv"
        )
    n_images = {prompt.prompt_id: prompt.n_images for prompt in prompts}
    results: dict[str, dict[str, list[str]]] = {}
    for label in labels:
        _, prompt_id, index = label.image
        if label.label is not None and index < n_images.get(prompt_id, 0):
            marks = results.setdefault(prompt_id, {}).setdefault(label.attribute, ["-"] * n_images[prompt_id])
            marks[index] = str(label.label)
    if not results:
        raise UsageError(f"{source}: none of its {len(labels):,} labels is of an image of this run")
    return {prompt: {name: "".join(marks) for name, marks in members.items()} for prompt, members in results.items()}


# -------------------------------------------------------------------------------------------------------------- arrays
def read_label_array(source: Path | np.ndarray, study: Study, *, model: str | None = None) -> list[Label]:
    """Labels from an array as the paper's authors keep theirs.

    Args:
        source: a ``.npy`` file or the array, shape (groups, prompts x images, attributes), 0 or 1; images prompt by
            prompt. What was not labelled is stored as 0 there: of prompts that name an attribute only that one's column
            is read.
        study: whose groups, prompts and attributes the axes of the array stand for.
        model: whose images the labels are of; None where that is not known.
    Raises:
        UsageError: another shape, other values, or a 1 where nothing can have been labelled: the order is another.
    """
    array, where = _array(source)
    n_labels = study.per_group * study.n_images
    shape = (len(study.groups), n_labels, len(study.attributes))
    if array.shape != shape:
        raise UsageError(
            f"{where}: labels of the study {study.name!r} have shape {shape}, (groups, {study.per_group} prompts x "
            f"{study.n_images} images, attributes); got {array.shape}"
        )
    labels = []
    for g, group in enumerate(study.groups):
        for index in range(study.per_group):
            subset = study.place(index)[1]
            block = array[g, index * study.n_images : (index + 1) * study.n_images]
            for a, attribute in enumerate(study.attributes):
                if subset is not None and subset.name != attribute.name:
                    if block[:, a].any():
                        raise UsageError(
                            f"{where}: {prompt_id_of(group, index)} was asked for {subset.phrase!r} but has labels of "
                            f"{attribute.phrase!r}; are images and attributes in the order of the study?"
                        )
                    continue
                for number, value in enumerate(block[:, a].tolist()):
                    image = Image(model, prompt_id_of(group, index), number)
                    labels.append(Label(image=image, attribute=attribute.name, label=int(value)))
    return labels


def explicit_labels(
    source: Path | np.ndarray, study: Study, *, gender: str, prompts_of: str, judged_for: str
) -> np.ndarray:
    """Labels of the images whose prompts name an attribute, shape (contexts x pictures,), from an array of labels.

    Args:
        source: a ``.npy`` file or the array, see ``read_label_array``.
        study: whose groups, prompts and attributes the axes of the array stand for.
        gender: name of the group.
        prompts_of: the attribute that the prompts name.
        judged_for: the attribute that the labels are about.
    Raises:
        UsageError: ``judged_for`` is another attribute: nobody labelled these, and the zeros there mean nothing; no
            such group or attribute.
    """
    groups, names = [g.name for g in study.groups], [a.name for a in study.attributes]
    for name, known in ((gender, groups), (prompts_of, names), (judged_for, names)):
        if name not in known:
            raise UsageError(f"no {name!r} in the study {study.name!r}; there are {', '.join(known)}")
    if prompts_of != judged_for:
        raise UsageError(
            f"images of prompts with {prompts_of!r} were labelled for {prompts_of!r} alone; the zeros under "
            f"{judged_for!r} are not labels"
        )
    array, _ = _array(source)
    size = len(study.contexts) * study.n_images
    start = size * (1 + names.index(prompts_of))
    return array[groups.index(gender), start : start + size, names.index(judged_for)]


def _array(source: Path | np.ndarray) -> tuple[np.ndarray, str]:
    import numpy as np

    if isinstance(source, PurePath):
        array, where = read_array(source, "labels, an array of numbers (.npy)"), str(source)
    else:
        array, where = source, "the array of labels"
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise UsageError(f"{where}: labels are 0 or 1")
    return array, where
