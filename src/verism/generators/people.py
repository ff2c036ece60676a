"""A renderer of people of known distribution: what a measured bias must come out as.

Each image shows one person. Whether that person would be called a woman or a man, the Monk tone of the skin and the
clothes are drawn at stated probabilities; ``shares`` gives the exact ones for any prompt. What was drawn is kept beside
each image as ground truth: what a perfect judge would answer to the prompt's questions, and the tone.

A drawn label is how a figure is *drawn* and so how it should be perceived: hair, outline and clothes of drawings. It
says nothing about anybody.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.options import Spelling
from verism.records import Prompt, Request, Result, frame

__all__ = [
    "MAN",
    "WOMAN",
    "PeopleGenerator",
    "PeopleSettings",
    "PlainPeople",
    "Shares",
    "answer_to",
    "drawn_people",
    "parse_tones",
    "parse_wears",
]

# Words for people by the gender they are read as; of prompts, and of the choices of questions.
WOMAN = frozenset({"woman", "women", "female", "lady", "girl", "feminine"})
MAN = frozenset({"man", "men", "male", "gentleman", "boy", "masculine"})

TRUTH = "truth"
_ARTICLES = re.compile(r"^(?:an?|the|some|any)\s+")
_WEARS = re.compile(r"wear(?:ing|s)?\s+(.+?)\s*\?", re.IGNORECASE)
_FOOTWEAR, _LOWER, _UPPER = ("boots", "slippers"), ("jeans", "shorts", "slacks", "skirt"), ("shirt", "jacket")


class _Image(Protocol):
    @property
    def pixels(self) -> NDArray[np.uint8]: ...

    @property
    def face(self) -> tuple[float, float, float, float]: ...


class PersonRenderer(Protocol):
    """What draws: ``name``, the clothes it knows, and an image of one person with the box of the face."""

    name: str
    attributes: tuple[str, ...]

    def render(self, *, woman: bool, tone: int, worn: Collection[str], seed: int) -> _Image: ...


class Shares(NamedTuple):
    """What is drawn for a prompt: probability of a woman, of tones 1 to 10, and per garment given (woman, man)."""

    woman: float
    tones: tuple[float, ...]
    wears: Mapping[str, tuple[float, float]]


def parse_tones(text: str) -> tuple[float, ...]:
    """``1:0.1,5:0.5,10:0.4`` as ten probabilities; ``even`` for tenths.

    Raises:
        UsageError: not of this form, a tone outside 1 to 10, or shares that do not sum to 1.
    """
    if text == "even":
        return (0.1,) * 10
    shares = [0.0] * 10
    for part in text.split(","):
        try:
            tone, share = part.split(":")
            if not 1 <= int(tone) <= 10 or not 0 <= float(share) <= 1:
                raise ValueError
            shares[int(tone) - 1] = float(share)
        except ValueError:
            raise UsageError(f"people: tones={text!r}: write tone:share from 1 to 10, as 1:0.1,5:0.5,10:0.4") from None
    if abs(sum(shares) - 1) > 1e-6:
        raise UsageError(f"people: the shares of tones={text!r} sum to {sum(shares):g}; they must sum to 1")
    return tuple(shares)


def parse_wears(text: str) -> dict[str, tuple[float, float]]:
    """``skirt:0.4/0.0,tie:0.1`` as probabilities given (woman, man); one number stands for both.

    Raises:
        UsageError: not of this form, or no probabilities.
    """
    wears = {}
    for part in filter(None, text.split(",")):
        try:
            name, shares = part.split(":")
            values = [float(x) for x in shares.split("/")]
            if not 1 <= len(values) <= 2 or not all(0 <= x <= 1 for x in values):
                raise ValueError
        except ValueError:
            raise UsageError(
                f"people: wears={text!r}: write garment:share-of-women/share-of-men, as skirt:0.4/0.0"
            ) from None
        wears[_bare(name)] = (values[0], values[-1])
    return wears


def _bare(name: str) -> str:
    return _ARTICLES.sub("", name.strip().lower())


@dataclass(frozen=True, kw_only=True)
class PeopleSettings:
    """How people are distributed.

    Attributes:
        female: probability of a woman where the prompt names no gender, in [0, 1].
        tones: probabilities of the ten Monk tones, written ``1:0.1,5:0.5,10:0.4``; ``even``: 0.1 each.
        wears: probability of each garment for women/men, written ``skirt:0.4/0.0,tie:0.1``. Garments that exclude each
            other are drawn in the order boots, slippers; dress, suit; jeans, shorts, slacks, skirt; shirt, jacket: a
            later one only if none of the earlier is worn, and a tie only with a suit or shirt.
            ``PeopleGenerator.shares`` computes the resulting shares.
        strength: standard deviation, over topics, of the log-odds of a woman; 0: no topic differs.
        tone_strength: strength of the same shift for skin tones; 0: no topic differs.
        facet: facet of the prompts that is their topic, such as ``profession``. Without this facet, the prompt's text
            is the topic.
        seed: seed of the shifts by topic.
    """

    female: float = 0.5
    tones: Annotated[tuple[float, ...], Spelling(parse=parse_tones, default="even")] = (0.1,) * 10
    wears: Annotated[Mapping[str, tuple[float, float]] | None, Spelling(parse=parse_wears, default="")] = None
    strength: float = 0.0
    tone_strength: float = 0.0
    facet: str = "profession"
    seed: int = 0


def drawn_people(
    *,
    draw: Literal["rendered", "plain"] = "rendered",
    view: Literal["full", "upper", "bust"] = "full",
    size: int = 256,
    people: PeopleSettings = PeopleSettings(),
    person_renderer: Callable[[int, str], PersonRenderer],
    garments: Sequence[str],
) -> PeopleGenerator:
    """People by the simulator, or signs of people.

    Args:
        draw: kind of images. ``rendered``: people rendered by the simulator. ``plain``: simple coloured shapes, drawn
            in a millisecond, in which no face detector finds faces.
        view: part of the person in a rendered image: ``full`` shows all clothes, ``upper`` the upper body, ``bust`` the
            face.
        size: width and height in pixels.
        people: how they are distributed.
        person_renderer: makes the simulator's renderer of a size and a view.
        garments: all clothes there are.
    """
    return PeopleGenerator(
        person_renderer(size, view) if draw == "rendered" else PlainPeople(tuple(garments), size), people
    )


class PeopleGenerator:
    """Draws a person for every prompt; see the module.

    A prompt that says *man* or *woman* gets one. The others get a woman with probability ``female``, moved by what the
    prompt is about if ``strength`` is not 0: log-odds of ``female`` plus ``strength`` times a number drawn from a
    normal distribution once for each descriptor. Tones may be moved likewise by ``tone_strength``: weights of the tones
    times exp(``tone_strength`` times such a number times the tone's distance from 5.5, by 4.5).

    Args:
        renderer: draws one person.
        settings: how people are distributed.

    Raises:
        UsageError: numbers outside their ranges, or clothes that the renderer does not have.
    """

    def __init__(self, renderer: PersonRenderer, settings: PeopleSettings = PeopleSettings()) -> None:
        female, tones, wears = settings.female, settings.tones, settings.wears
        strength, tone_strength = settings.strength, settings.tone_strength
        if not 0 <= female <= 1:
            raise UsageError(f"people: female must lie between 0 and 1, got {female}")
        if strength and not 0 < female < 1:
            raise UsageError(f"people: strength moves the odds of a woman, and there are none with female={female:g}")
        if len(tones) != 10 or abs(sum(tones) - 1) > 1e-6 or min(tones) < 0:
            raise UsageError(f"people: expected ten shares of tones that sum to 1, got {list(tones)}")
        if foreign := sorted(set(wears or {}) - set(renderer.attributes)):
            raise UsageError(
                f"people: nobody can be rendered with {foreign}; there are {', '.join(renderer.attributes)}"
            )
        if "tie" in (wears or {}) and not {"suit", "shirt"} & set(wears or {}):
            raise UsageError("people: a tie is rendered with a suit or a shirt only; give one: wears=shirt:0.5,tie:0.3")
        self.renderer = renderer
        self.female = female
        self.tones = tuple(float(t) for t in tones)
        self.wears = dict(wears or {})
        self.strength = strength
        self.tone_strength = tone_strength
        self.facet = settings.facet
        self.seed = settings.seed
        tones_said = ",".join(f"{k + 1}:{t:g}" for k, t in enumerate(self.tones) if t)
        clothes = ",".join(f"{k}:{w:g}/{m:g}" for k, (w, m) in sorted(self.wears.items()))
        self.name = (
            f"people:female={female:g}&tones={tones_said}"
            + (f"&wears={clothes}" if clothes else "")
            + (f"&strength={strength:g}" if strength else "")
            + (f"&tone_strength={tone_strength:g}" if tone_strength else "")
            + (f"&facet={self.facet}&seed={self.seed}" if strength or tone_strength else "")
            + f"({renderer.name})"
        )

    # ------------------------------------------------------------------------------------------------------ planted
    def shares(self, prompt: Prompt) -> Shares:
        """What an image of the prompt is drawn from: the truth that a measurement has to find."""
        words = set(re.findall(r"[a-z]+", prompt.text.lower()))
        said_woman, said_man = bool(words & WOMAN), bool(words & MAN)
        topic = prompt.facets.get(self.facet)
        # Drawn from the descriptor alone, so that all prompts of a profession lean the same way.
        rng = np.random.default_rng([self.seed, zlib.crc32(str(prompt.text if topic is None else topic).encode())])
        lean, tone_lean = rng.standard_normal(2)
        if said_woman != said_man:
            woman = float(said_woman)
        elif self.strength:
            odds = math.log(self.female / (1 - self.female)) + self.strength * lean
            woman = 1 / (1 + math.exp(-odds))
        else:
            woman = self.female
        weights = np.asarray(self.tones)
        if self.tone_strength:
            weights = weights * np.exp(self.tone_strength * tone_lean * (np.arange(1, 11) - 5.5) / 4.5)
            weights = weights / weights.sum()
        return Shares(woman, tuple(float(w) for w in weights), self._worn_shares())

    def _worn_shares(self) -> dict[str, tuple[float, float]]:
        """Per garment, the probability that it is worn by (a woman, a man), what excludes it reckoned in."""
        shares = {}
        for name in self.wears:
            both = []
            for k in (0, 1):
                # Garments are drawn independently but for those that exclude it: they must not be worn.
                free = 1.0
                options = {n: w[k] for n, w in self.wears.items()}
                if name in _FOOTWEAR:
                    free = math.prod(1 - options.get(n, 0.0) for n in _FOOTWEAR[: _FOOTWEAR.index(name)])
                elif name == "suit":
                    free = 1 - options.get("dress", 0.0)
                elif name in (*_LOWER, *_UPPER):
                    group: tuple[str, ...] = _LOWER if name in _LOWER else _UPPER
                    earlier = ("dress", "suit", *group[: group.index(name)])
                    free = _none_of(earlier, options)
                elif name == "tie":
                    free = self._collar_share(options)
                both.append(free * options[name])
            shares[name] = (both[0], both[1])
        return shares

    @staticmethod
    def _collar_share(given: Mapping[str, float]) -> float:
        """Probability of a suit or of a shirt, without which there is no tie."""
        suit = _none_of(("dress",), given) * given.get("suit", 0.0)
        return suit + _none_of(("dress", "suit"), given) * given.get("shirt", 0.0)

    # ------------------------------------------------------------------------------------------------------- drawing
    def _draw(self, rng: np.random.Generator, shares: Shares) -> tuple[bool, int, set[str]]:
        woman = bool(rng.random() < shares.woman)
        tone = int(rng.choice(10, p=shares.tones)) + 1
        worn: set[str] = set()
        # One number for every garment there is, so that other shares of one do not change the others.
        luck = {name: float(rng.random()) for name in self.renderer.attributes}

        def wear(name: str) -> None:
            if luck.get(name, 1.0) < self.wears.get(name, (0.0, 0.0))[not woman]:
                worn.add(name)

        def wear_one(*names: str) -> None:
            for name in names:
                if not worn & set(names):
                    wear(name)

        wear_one(*_FOOTWEAR)
        wear_one("dress", "suit")
        if not worn & {"dress", "suit"}:
            wear_one(*_LOWER)
            wear_one(*_UPPER)
        if worn & {"shirt", "suit"}:
            wear("tie")
        for name in self.renderer.attributes:
            if name not in (*_FOOTWEAR, "dress", "suit", *_LOWER, *_UPPER, "tie"):
                wear(name)
        return woman, tone, worn

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for request in requests:
            # Prompts of one descriptor may share seeds; their people are drawn apart all the same.
            key = zlib.crc32(request.prompt.prompt_id.encode())
            rng = np.random.default_rng([request.seed, key, self.seed, 0x9E091E])
            woman, tone, worn = self._draw(rng, self.shares(request.prompt))
            image = self.renderer.render(woman=woman, tone=tone, worn=worn, seed=int(rng.integers(2**31)))
            clothes = f" with {', '.join(sorted(worn))}" if worn else ""
            yield Result(
                image_id=request.image_id,
                state="ok",
                pixels=image.pixels,
                note=f"rendered as a {'woman' if woman else 'man'} of tone {tone}{clothes}",
                truth=_truth(request, woman, tone, worn, image.face),
            )


def _none_of(names: Sequence[str], given: Mapping[str, float]) -> float:
    """Probability that none of them is worn, drawn one after the other: each as if the earlier were not worn."""
    return math.prod(1 - given.get(name, 0.0) for name in names)


# ------------------------------------------------------------------------------------------------------------- truth
def answer_to(
    text: str, choices: Sequence[str], *, woman: bool, tone: int, worn: Collection[str]
) -> tuple[str, str | None]:
    """What a perfect judge replies to a question about a drawn person, and the choice (or yes, no) that it means.

    Choices that name a gender or a tone are told by their words; a question whether something is worn, by what follows
    "wearing"; whether there is a person, with yes. What this renderer cannot know is answered "unknown", None.
    """
    for choice in choices:
        words = set(re.findall(r"[a-z]+", choice.lower()))
        if words & (WOMAN if woman else MAN):
            return choice, choice
    if choices:
        return (str(tone), str(tone)) if str(tone) in choices else ("unknown", None)
    lower = text.lower()
    if asked := _WEARS.search(lower):
        answer = "yes" if _bare(asked[1]) in worn else "no"
        return answer, answer
    words = set(re.findall(r"[a-z]+", lower))
    if words & WOMAN and words & MAN:
        return ("a woman" if woman else "a man"), None
    if words & (WOMAN | MAN):
        answer = "yes" if bool(words & WOMAN) == woman else "no"
        return answer, answer
    return ("yes", "yes") if words & {"person", "people", "human", "someone"} else ("unknown", None)


def _truth(
    request: Request, woman: bool, tone: int, worn: Collection[str], face: tuple[float, float, float, float]
) -> dict[str, Any]:
    from verism.metrics.colour import MONK_ITA, MONK_RGB

    red, green, blue = (float(c) for c in MONK_RGB[tone - 1])
    answers = []
    for question in request.questions:
        reply, value = answer_to(question.text, question.choices, woman=woman, tone=tone, worn=worn)
        answers.append(
            {
                "image_id": request.image_id,
                "judge": TRUTH,
                "question": question.text,
                "answer": reply,
                "value": value,
                "probability": None if value is None else 1.0,
            }
        )
    x0, y0, x1, y1 = face
    seen = {
        "image_id": request.image_id,
        "judge": TRUTH,
        "face": 0,
        "score": 1.0,
        "x0": x0,
        "y0": y0,
        "x1": x1,
        "y1": y1,
        "state": "ok",
        "note": "colour and tone of the drawing",
        "red": red,
        "green": green,
        "blue": blue,
        "ita_deg": float(MONK_ITA[tone - 1]),
        "tone": tone,
        "tone_by_ita": tone,
        "released_tone": tone,
        "rgb_tone": tone,
    }
    tables = {"skin_tones": frame("skin_tones", [seen])}
    return tables | ({"answers": frame("answers", answers)} if answers else {})


# ------------------------------------------------------------------------------------------------------------- plain
class _Sketch(NamedTuple):
    pixels: NDArray[np.uint8]
    face: tuple[float, float, float, float]


class PlainPeople:
    """Draws signs of people in a millisecond: a face of the tone's colour, hair, and a patch for each garment.

    Enough for what reads the ground truth, or learns such signs; no face detector finds it.

    Args:
        attributes: clothes that can be worn. size: width and height in pixels.
    """

    def __init__(self, attributes: Sequence[str], size: int = 64) -> None:
        if size < 32:
            raise UsageError(f"people: size must be 32 pixels or more, got {size}")
        self.size = size
        self.attributes = tuple(attributes)
        self.name = f"plain-people-1@{size}"

    def render(self, *, woman: bool, tone: int, worn: Collection[str], seed: int) -> _Sketch:
        from verism.metrics.colour import MONK_RGB

        rng = np.random.default_rng(seed)
        s = self.size
        back = rng.integers(120, 220, 3)
        pixels = np.broadcast_to(back.astype(np.uint8), (s, s, 3)).copy()
        y, x = np.mgrid[0:s, 0:s] / s
        middle = 0.5 + rng.uniform(-0.05, 0.05)
        # Long hair frames the face to the shoulders, short hair caps it.
        hair = (np.abs(x - middle) < 0.25) & (y > 0.08) & (y < (0.62 if woman else 0.28))
        body = (np.abs(x - middle) < (0.26 if woman else 0.34)) & (y > 0.62)
        face = ((x - middle) / 0.19) ** 2 + ((y - 0.36) / 0.24) ** 2 < 1
        pixels[hair] = rng.integers(20, 90, 3)
        pixels[body] = rng.integers(40, 200, 3)
        pixels[face] = np.asarray(MONK_RGB[tone - 1]).round().astype(np.uint8)
        for k, name in enumerate(self.attributes):
            if name in worn:
                row, column = divmod(k, 8)
                x0 = int((0.26 + 0.06 * column) * s)
                y0 = int((0.68 + 0.14 * row) * s)
                pixels[y0 : y0 + s // 10 + 1, x0 : x0 + s // 20 + 1] = (255, 32 * column, 255 - 32 * column)
        rows, columns = np.flatnonzero(face.any(axis=1)), np.flatnonzero(face.any(axis=0))
        box = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
        return _Sketch(pixels, box)
