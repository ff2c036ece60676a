"""The renderer of people: what it says it draws is what it draws, and its truth answers the prompt's questions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from verism.errors import UsageError
from verism.generators.people import PeopleGenerator, PeopleSettings, PlainPeople, answer_to, parse_tones, parse_wears
from verism.metrics.colour import MONK_RGB
from verism.records import Prompt, Question, Request, Result, make_image_id, schema
from verism.registry import Context, make_generator

CLOTHES = ("boots", "slippers", "jeans", "shorts", "slacks", "dress", "skirt", "suit", "shirt", "jacket", "hat", "tie")
GENDER = Question(text="the person looks like a male or a female?", choices=("male", "female"))
TIE = Question(text="Is the person wearing a tie?")
DRESS = Question(text="Is the person wearing a dress?")
PERSON = Question(text="Is there a person in the picture?")
ASKED = (GENDER, TIE, DRESS, PERSON)


def prompt(text: str = "A person who works as a nurse", profession: str | None = "nurse") -> Prompt:
    return Prompt(
        prompt_id=text.replace(" ", "_"),
        suite="social_bias",
        text=text,
        facets={"profession": profession},
    )


def requests(n: int, asked: Prompt | None = None, questions: tuple[Question, ...] = ASKED) -> list[Request]:
    asked = asked or prompt()
    return [
        Request(image_id=make_image_id(asked.prompt_id, k), prompt=asked, index=k, seed=1000 + k, questions=questions)
        for k in range(n)
    ]


def rendered(n: int, asked: Prompt | None = None, **settings: Any) -> list[Result]:
    return list(PeopleGenerator(PlainPeople(CLOTHES, 48), PeopleSettings(**settings)).generate(requests(n, asked)))


def values(results: list[Result], question: Question) -> list[str]:
    return [r.truth["answers"].row(by_predicate=_is(question), named=True)["value"] for r in results]


def _is(question: Question) -> Any:
    import polars as pl

    return pl.col("question") == question.text


def tones(results: list[Result]) -> list[int]:
    return [r.truth["skin_tones"]["tone"][0] for r in results]


def near(share: float, n: int) -> Any:
    """Within four standard deviations of a share of n draws."""
    return pytest.approx(share, abs=4 * (share * (1 - share) / n) ** 0.5 + 1e-9)


# -------------------------------------------------------------------------------------------------------------- shares
def test_women_tones_and_clothes_come_at_the_rates_asked_for() -> None:
    n = 800
    made = rendered(
        n, female=0.3, tones=parse_tones("1:0.1,5:0.5,10:0.4"), wears={"dress": (0.5, 0.0), "hat": (0.25, 0.25)}
    )
    gender, dress = values(made, GENDER), values(made, DRESS)
    assert gender.count("female") / n == near(0.3, n)
    assert set(tones(made)) == {1, 5, 10}
    assert tones(made).count(5) / n == near(0.5, n)
    women = gender.count("female")
    both = sum(g == "female" and d == "yes" for g, d in zip(gender, dress, strict=True))
    assert both / women == near(0.5, women)
    assert dress.count("yes") == both


def test_shares_of_clothes_that_exclude_each_other_are_told_as_they_come_out() -> None:
    n = 1500
    wears = {"dress": (0.4, 0.4), "suit": (0.5, 0.5), "shirt": (0.5, 0.5), "tie": (0.6, 0.6), "jeans": (0.5, 0.5)}
    generator = PeopleGenerator(PlainPeople(CLOTHES, 48), PeopleSettings(wears=wears))
    result = generator.shares(prompt()).wears
    # No dress: 0.6. Suit: 0.6 x 0.5 = 0.3. Neither: 0.3; shirt and jeans of half of these: 0.15.
    # A tie with suit or shirt: 0.6 x (0.3 + 0.15) = 0.27.
    assert {name: share for name, (share, _) in result.items()} == pytest.approx(
        {"dress": 0.4, "suit": 0.3, "shirt": 0.15, "tie": 0.27, "jeans": 0.15}
    )
    rng = np.random.default_rng(5)
    worn = [generator._draw(rng, generator.shares(prompt()))[2] for _ in range(n)]
    for name, (share, _) in result.items():
        assert sum(name in w for w in worn) / n == near(share, n)
    for one in worn:
        assert len(one & {"dress", "suit", "shirt", "jacket"}) <= 1
        assert "tie" not in one or one & {"suit", "shirt"}


def test_a_prompt_that_names_a_gender_gets_it() -> None:
    for word, answer in (("man", "male"), ("woman", "female")):
        asked = prompt(f"A {word} who works as a nurse")
        assert set(values(rendered(20, asked, female=0.5), GENDER)) == {answer}


def test_professions_lean_by_a_known_amount() -> None:
    plain = PeopleGenerator(PlainPeople(CLOTHES, 48), PeopleSettings(female=0.3))
    assert plain.shares(prompt()).woman == 0.3
    biased = PeopleGenerator(PlainPeople(CLOTHES, 48), PeopleSettings(female=0.3, strength=1.5, tone_strength=1.0))
    names = [f"profession {k}" for k in range(300)]
    shares = [biased.shares(prompt(f"A person who works as a {name}", name)) for name in names]
    odds = np.log([s.woman / (1 - s.woman) for s in shares])
    # Log-odds are normal about log(0.3 / 0.7) = -0.847 with a standard deviation of 1.5.
    assert odds.mean() == pytest.approx(-0.847, abs=4 * 1.5 / 300**0.5)
    assert odds.std() == pytest.approx(1.5, rel=0.2)
    assert all(sum(s.tones) == pytest.approx(1.0) for s in shares)
    assert np.ptp([s.tones[0] for s in shares]) > 0.1
    # The lean is the profession's: the same in whatever words, and another for another seed.
    assert biased.shares(prompt("Person, profession 1", "profession 1")).woman == shares[1].woman
    other = PeopleGenerator(PlainPeople(CLOTHES, 48), PeopleSettings(female=0.3, strength=1.5, seed=1))
    assert other.shares(prompt("x", "profession 1")).woman != shares[1].woman


# --------------------------------------------------------------------------------------------------------------- truth
def test_truth_has_the_columns_of_a_judge_and_the_colour_of_the_paint() -> None:
    made = rendered(1, tones=parse_tones("7:1"))[0]
    skin, answers = made.truth["skin_tones"], made.truth["answers"]
    assert skin.schema == schema("skin_tones")
    assert answers.schema == schema("answers")
    row = skin.row(0, named=True)
    assert (row["judge"], row["tone"], row["tone_by_ita"], row["state"]) == ("truth", 7, 7, "ok")
    assert (row["red"], row["green"], row["blue"]) == (130, 92, 67)
    assert made.pixels is not None
    x, y = int((row["x0"] + row["x1"]) / 2), int((row["y0"] + row["y1"]) / 2)
    assert made.pixels[y, x].tolist() == MONK_RGB[6].tolist()
    assert answers["question"].to_list() == [q.text for q in ASKED]
    assert set(answers["image_id"]) == {made.image_id}


def test_a_prompt_without_questions_has_tones_only() -> None:
    generator = PeopleGenerator(PlainPeople(CLOTHES, 48), PeopleSettings())
    assert set(next(iter(generator.generate(requests(1, questions=())))).truth) == {"skin_tones"}


@pytest.mark.parametrize(
    ("text", "choices", "answer"),
    [
        ("what?", ["a man", "a woman"], ("a woman", "a woman")),
        ("what?", ["masculine", "feminine"], ("feminine", "feminine")),
        ("what?", ["White", "Black"], ("unknown", None)),
        ("Which tone?", ["1", "4"], ("4", "4")),
        ("Question: the person looks like a male or a female? Answer:", [], ("a woman", None)),
        ("Is this a man?", [], ("no", "no")),
        ("Is the person wearing boots?", [], ("yes", "yes")),
        ("Question: Is the person wearing a tie? Answer:", [], ("no", "no")),
        ("Is a person visible?", [], ("yes", "yes")),
        ("Is it raining?", [], ("unknown", None)),
    ],
)
def test_questions_are_answered_from_what_was_rendered(
    text: str, choices: list[str], answer: tuple[str, str | None]
) -> None:
    assert answer_to(text, choices, woman=True, tone=4, worn={"boots"}) == answer


# --------------------------------------------------------------------------------------------------------- determinism
def test_an_image_depends_on_its_own_request_alone() -> None:
    generator = PeopleGenerator(PlainPeople(CLOTHES, 48), PeopleSettings(wears={"hat": (0.5, 0.5)}))
    every = list(generator.generate(requests(5)))
    alone = next(iter(generator.generate(requests(5)[3:4])))
    assert every[3].pixels is not None
    assert alone.pixels is not None
    assert np.array_equal(every[3].pixels, alone.pixels)
    assert every[3].truth["skin_tones"].equals(alone.truth["skin_tones"])


def test_prompts_that_share_seeds_get_different_people() -> None:
    drawn = [tones(rendered(30, prompt(text))) for text in ("A person", "A person who works as a chef")]
    assert drawn[0] != drawn[1]


# --------------------------------------------------------------------------------------------------------------- input
@pytest.mark.parametrize(
    ("text", "message"),
    [("1:0.5", "sum to 1"), ("0:1", "from 1 to 10"), ("3", "tone:share"), ("1:-1,2:2", "from 1 to 10")],
)
def test_bad_tones_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_tones(text)


def test_clothes_are_read_with_and_without_article() -> None:
    assert parse_wears("a skirt:0.4/0.0,tie:0.1") == {"skirt": (0.4, 0.0), "tie": (0.1, 0.1)}
    for text in ("skirt", "skirt:2", "skirt:0.1/0.2/0.3"):
        with pytest.raises(UsageError, match="garment:share"):
            parse_wears(text)


def test_bad_settings_are_refused() -> None:
    for settings, message in (
        ({"female": 1.5}, "between 0 and 1"),
        ({"female": 0.0, "strength": 1.0}, "odds"),
        ({"tones": (0.5,) * 10}, "sum to 1"),
        ({"wears": {"crown": (1.0, 1.0)}}, "nobody can be rendered"),
    ):
        with pytest.raises(UsageError, match=message):
            rendered(1, **settings)


def test_the_registry_makes_both_renderers() -> None:
    plain = make_generator(
        "people:female=0.3&tones=1:0.1,5:0.5,10:0.4&wears=skirt:0.4/0.0&draw=plain", Context(size=48)
    )
    assert plain.name == "people:female=0.3&tones=1:0.1,5:0.5,10:0.4&wears=skirt:0.4/0(plain-people-1@48)"
    rendered = make_generator("people:tones=8:1&view=bust&wears=hat:1,suit:1,tie:1", Context(size=64))
    made = next(iter(rendered.generate(requests(1))))
    assert made.state == "ok"
    assert made.pixels is not None
    assert made.pixels.shape == (64, 64, 3)
    assert values([made], TIE) == ["yes"]
    for wrong in ("people:draw=oil", "people:view=side", "people:colour=red"):
        with pytest.raises(UsageError):
            make_generator(wrong, Context(size=64))


def test_a_tie_that_nobody_could_wear_is_refused():
    with pytest.raises(UsageError, match="with a suit or a shirt"):
        make_generator("people:wears=tie:0.5", Context(size=64))
    assert make_generator("people:wears=shirt:0.5,tie:0.5", Context(size=64)).name
