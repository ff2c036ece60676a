"""What a rater sees of a study: all that the page needs, and nothing that gives away what they are not to know.

The page never learns ids of images or prompts, names of runs, which items are checks with a known answer, or which
image of a pair is whose: images have a number on the screen, and a pair's answers are ``left`` and ``right``.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verism.annotation.votes import Rater, ServedItem, VoteStore
from verism.characters import visible
from verism.errors import UsageError
from verism.imaging import ReadImage, encode_png, read_image
from verism.metrics.colour import MONK_RGB
from verism.records import Prompt, RatingTask
from verism.store import Run

__all__ = ["LEFT", "RIGHT", "TIE", "StudyView", "filled", "keys_for"]

LEFT, RIGHT, TIE = "left", "right", "tie"
PAIR_LABELS = {LEFT: "Left", RIGHT: "Right", TIE: "Neither is better"}
COMMAND_KEYS = frozenset("usz")  # undo, skip, zoom: never an answer
IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"})


class StudyView:
    """A study and its runs, as its raters see them."""

    def __init__(self, store: VoteStore, runs: Sequence[Run]) -> None:
        """Find the images of a study.

        Args:
            store: the study.
            runs: those of the study in its order, or some of them; others are opened where the study says they lie.

        Raises:
            UsageError: a run is gone, or none of the study's images is in the runs.
        """
        self.store = store
        self.runs = _runs_of(store, runs)
        self._images: dict[tuple[int, str], dict[str, Any]] = {}  # rows of the images that have a file
        self._prompts: dict[tuple[int, str], Prompt] = {}
        wanted = {image for item in store.study.items for image in item.images}
        for number, run in enumerate(self.runs):
            prompts = {prompt.prompt_id: prompt for prompt in run.prompts()}
            ids = sorted(image for of_run, image in wanted if of_run == number)
            columns = ["image_id", "prompt_id", "path", "sha256"]
            for row in run.read("images", keys=ids, columns=columns).iter_rows(named=True):
                shown = number, row["image_id"]
                self._prompts[shown] = prompts[row["prompt_id"]]
                if row["path"] is not None:
                    self._images[shown] = row
        if not self._images:
            raise UsageError(f"none of the images of {store.path} is in {', '.join(str(r.path) for r in self.runs)}")
        self._names = {task.name: number for number, task in enumerate(store.study.tasks)}
        self._examples = {
            (number, index): file
            for number, task in enumerate(store.study.tasks)
            for index, option in enumerate(task.options)
            if (file := self._example_file(task.examples.get(option, ""))) is not None
        }

    # ------------------------------------------------------------------------------------------------------- images
    def image(self, rater: Rater, position: int, number: int) -> bytes | None:
        """An image of an item as PNG, by its index on this rater's screen; None if there is none.

        The pixels are those that judges are given. Encoding them again leaves out what a file may tell beside them:
        its name, format, and the prompt or model in its metadata.
        """
        if not 0 <= position < len(self.store.study.items):
            return None
        images = self.store.study.items[position].images
        if not 0 <= number < len(images):
            return None
        if self.store.swapped(rater, position):
            number = len(images) - 1 - number
        run, _ = shown = images[number]
        row = self._images.get(shown)
        return None if row is None else _png(self.runs[run].load_image(row))

    def example(self, task: int, option: int) -> bytes | None:
        """The image that a task names as the example of an option, as PNG."""
        file = self._examples.get((task, option))
        return None if file is None else _png(read_image(file))

    def _example_file(self, text: str) -> Path | None:
        if Path(text).suffix.lower() not in IMAGE_SUFFIXES or "\n" in text:
            return None
        candidates = [Path(text), *(run.path / text for run in self.runs)]
        return next((path for path in candidates if path.is_file()), None)

    # ---------------------------------------------------------------------------------------------------- the state
    def state(self, rater: Rater) -> dict[str, Any]:
        """All that the page shows to a rater now, as plain JSON.

        ``phase`` is ``item``; ``waiting`` (others look at what is left); ``done``; or ``barred``, with ``why``.
        """
        shown = self.store.next_item(rater)
        progress = self.store.progress(rater)
        qualification = self.store.qualification(rater)
        if rater.barred:
            phase = "barred"
        elif shown is not None:
            phase = "item"
        else:
            phase = "waiting" if progress.open else "done"
        return {
            "rater": rater.name,
            "phase": phase,
            "why": rater.barred,
            "progress": {
                "answered": progress.answered,
                "open": progress.open,
                "votes": progress.votes,
                "wanted": progress.wanted,
            },
            "qualification": None
            if not qualification.asked
            else {"asked": qualification.asked, "given": qualification.given, "right": qualification.right},
            "item": None if shown is None else self._item(rater, shown),
            "ahead": None if shown is None else self._ahead(rater, shown.position),
        }

    def _item(self, rater: Rater, shown: ServedItem) -> dict[str, Any]:
        item = shown.item
        task = self.store.task(item.task)
        prompt = self._prompts.get(item.images[0])
        previous = shown.previous
        if task.kind == "pair" and previous is not None:
            previous = self._of_pair(task, shown.swapped)[previous]
        return {
            "position": shown.position,
            "ticket": self.ticket(rater, shown.position),
            "qualifying": item.check == "qualification",
            "kind": task.kind,
            "unit": task.unit,
            "question": [(visible(text), given) for text, given in filled(task.question, prompt)],
            "help": task.help,
            "options": self._options(task),
            "pictures": len(item.images),
            "previous": previous,
        }

    def _options(self, task: RatingTask) -> list[dict[str, Any]]:
        pair = task.kind == "pair"
        values = (LEFT, RIGHT, TIE) if pair else task.options
        keys = [""] * len(values) if task.kind == "list" else keys_for(values)
        number = self._names[task.name]
        options = []
        for index, (value, key) in enumerate(zip(values, keys, strict=True)):
            note = "" if pair else task.examples.get(value, "")
            has_image = (number, index) in self._examples and not pair
            options.append(
                {
                    "value": value,
                    "label": PAIR_LABELS[value] if pair else value,
                    "key": key,
                    "note": "" if has_image else note,
                    "example": f"examples/{number}/{index}" if has_image else None,
                    "swatch": _swatch(value) if task.kind == "tone" else None,
                    "apart": value in task.unsure or (index == len(values) - 1 and value.startswith("none")),
                }
            )
        return options

    def _ahead(self, rater: Rater, position: int) -> dict[str, int] | None:
        ahead = self.store.ahead(rater, position)
        return None if ahead is None else {"position": ahead, "pictures": len(self.store.study.items[ahead].images)}

    # ------------------------------------------------------------------------------------------------------- answers
    def ticket(self, rater: Rater, position: int) -> str:
        """What shows that a rater was given an item: without it nobody can answer items of their own choice."""
        return self.store.signature(f"ticket/{rater.id}/{position}")[:32]

    def was_given(self, rater: Rater, position: int, ticket: str) -> bool:
        """Whether a ticket is that of this rater and item."""
        received = ticket.encode("utf-8", "replace")  # JSON may hold half a character
        return hmac.compare_digest(received, self.ticket(rater, position).encode())

    def vote(self, rater: Rater, position: int, answer: str | None, seconds: float | None) -> None:
        """Keep an answer as the page gives it: a pair's ``left`` and ``right`` become ``first`` and ``second``.

        Raises:
            UsageError: no such item or answer, or a rater who may not go on.
        """
        if answer is not None and 0 <= position < len(self.store.study.items):
            task = self.store.task(self.store.study.items[position].task)
            if task.kind == "pair":
                on_screen = self._of_pair(task, self.store.swapped(rater, position))
                back = {screen: entry for entry, screen in on_screen.items()}
                if answer not in back:
                    raise UsageError(f"{answer!r} is no answer to a pair; answers are {', '.join(back)}")
                answer = back[answer]
        self.store.vote(rater, position, answer, seconds=seconds)

    @staticmethod
    def _of_pair(task: RatingTask, swapped: bool) -> Mapping[str, str]:
        """The answers of a pair, and what they are on the screen."""
        sides = (RIGHT, LEFT) if swapped else (LEFT, RIGHT)
        return dict(zip(task.options, (*sides, TIE), strict=True))


# ----------------------------------------------------------------------------------------------------------- functions
def filled(question: str, prompt: Prompt | None) -> list[tuple[str, bool]]:
    """A question in pieces, each with whether it is what ``{prompt}`` or a facet in braces stood for.

    Braces around anything else stay as they are.

    >>> from verism.records import Prompt
    >>> filled("Is {object} there {now}?", Prompt(prompt_id="p", suite="s", text="a cat", facets={"object": "a cat"}))
    [('Is ', False), ('a cat', True), (' there {now}?', False)]
    """
    values = {} if prompt is None else {**prompt.facets, "prompt": prompt.text}
    pieces: list[tuple[str, bool]] = []
    plain = ""
    end = 0
    for match in re.finditer(r"\{([^{}]+)\}", question):
        if match[1] in values:
            plain += question[end : match.start()]
            pieces += [(plain, False)] * bool(plain) + [(str(values[match[1]]), True)]
            plain, end = "", match.end()
    plain += question[end:]
    return pieces + [(plain, False)] * bool(plain)


def keys_for(options: Sequence[str]) -> list[str]:
    """A key for each answer, "" where none is left.

    Answers that are numbers get their own digit (0 is 10 where that is an answer). Where there are none, the first
    nine get 1 to 9. All others get a letter, of their own text if one is free.

    >>> keys_for(["0", "1", "2 or more", "cannot tell"]), keys_for(["yes", "no", "cannot tell"])
    (['0', '1', '2', 'c'], ['1', '2', '3'])
    >>> keys_for([*map(str, range(1, 11)), "unsure"])[-2:]
    ['0', 'n']
    """
    keys = [match[1] if (match := re.match(r"(\d)(?!\d)", option)) else "" for option in options]
    if "0" not in keys:
        keys = ["0" if re.match(r"10(?!\d)", option) else key for option, key in zip(options, keys, strict=True)]
    if not any(keys) or len(set(filter(None, keys))) < len(list(filter(None, keys))):
        keys = [str(number) if number <= 9 else "" for number in range(1, len(options) + 1)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    for index, option in enumerate(options):
        if not keys[index]:
            free = (c for c in (*option.lower(), *letters) if c in letters and c not in COMMAND_KEYS and c not in keys)
            keys[index] = next(free, "")
    return keys


def _swatch(option: str) -> str | None:
    """The colour of a tone as #rrggbb; None for an answer that is no tone."""
    tone = int(option) if option.isascii() and option.isdigit() else 0
    return "#" + "".join(f"{int(c):02x}" for c in MONK_RGB[tone - 1]) if 1 <= tone <= len(MONK_RGB) else None


def _png(read: ReadImage) -> bytes | None:
    return None if read.pixels is None else encode_png(read.pixels)


def _runs_of(store: VoteStore, runs: Sequence[Run]) -> list[Run]:
    """The runs of a study in its order, whatever the order and number of those that were given."""
    by_path = {run.path.resolve(): run for run in runs}
    named = [Path(path) for path in store.study.runs]
    unknown = [run for run in runs if run.path.resolve() not in {path.resolve() for path in named}]
    opened = []
    for path in named:
        run = by_path.get(path.resolve())
        if run is None and (path / "manifest.json").is_file():
            run = Run.open(path)
        elif run is None and unknown:
            run = unknown.pop(0)  # a run that was moved
        if run is None:
            raise UsageError(f"{store.path} shows images of {path}, and there is no run; name where it is now")
        opened.append(run)
    return opened
