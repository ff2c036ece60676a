"""Shuffling as the released code does it: a draw with replacement within the skill, but seeded."""

import numpy as np
import pytest

from verism.generators.shuffled import ShuffledGenerator
from verism.pipeline.local import make_requests
from verism.records import Prompt, Result

PROMPTS = [
    Prompt(prompt_id=f"{skill}_{n:04d}", suite="s", text="", facets={"skill": skill})
    for skill in ("object", "spatial")
    for n in range(1000)
]


class Echo:
    """Answers with the prompt it was asked for."""

    name = "echo"
    closed = False

    def generate(self, requests):
        for r in requests:
            yield Result(image_id=r.image_id, state="ok", path=r.prompt.prompt_id, note="inner")

    def close(self):
        self.closed = True


def donors(seed: int, prompts=PROMPTS) -> dict[str, str]:
    requests = make_requests(prompts, 0)
    results = list(ShuffledGenerator(Echo(), PROMPTS, seed=seed, by="skill").generate(requests))
    assert [r.image_id for r in results] == [r.image_id for r in requests]
    return {r.prompt.prompt_id: result.path for r, result in zip(requests, results)}


def test_images_come_from_prompts_of_the_same_skill():
    for prompt, donor in donors(3).items():
        assert donor.partition("_")[0] == prompt.partition("_")[0]


def test_it_draws_with_replacement_and_is_no_permutation():
    drawn = [d for d in donors(3).values() if d.startswith("object")]
    # Of 1000 draws with replacement 1000 (1 - 1/e) = 632 differ, standard deviation about 10; a permutation has 1000.
    assert len(set(drawn)) == pytest.approx(632, abs=50)
    subset = [p for p, d in donors(3).items() if p == d]
    assert 0 <= len(subset) <= 12  # each prompt meets itself with 1/1000: 2 of 2000, Poisson
    halves = np.mean([d >= "object_0500" for d in drawn])
    assert halves == pytest.approx(0.5, abs=0.08)  # 5 standard deviations of a fair draw


def test_the_seed_decides_and_the_name_tells_it():
    assert donors(3) == donors(3)
    assert donors(3) != donors(4)
    object_draw = [int(d[-4:]) for p, d in donors(3).items() if p.startswith("object")]
    spatial_draw = [int(d[-4:]) for p, d in donors(3).items() if p.startswith("spatial")]
    assert object_draw != spatial_draw  # groups are drawn apart
    assert ShuffledGenerator(Echo(), PROMPTS, seed=3, by="skill").name == "shuffled:seed=3(echo)"


def test_the_draw_does_not_depend_on_what_is_asked_for_or_in_what_order():
    few = donors(3, PROMPTS[::-7])
    assert few.items() <= donors(3).items()
    again = ShuffledGenerator(Echo(), PROMPTS[:1000][::-1], seed=3, by="skill")._donor
    assert {p: d.prompt_id for p, d in again.items()} == {p: d for p, d in donors(3).items() if p.startswith("object")}


def test_the_note_names_the_donor():
    (result,) = ShuffledGenerator(Echo(), PROMPTS[:1], seed=0, by="skill").generate(make_requests(PROMPTS[:1], 0))
    assert result.note == "image of object_0000; inner"


def test_closing_it_closes_what_it_shuffles():
    inner = Echo()
    ShuffledGenerator(inner, PROMPTS, seed=0, by="skill").close()
    assert inner.closed


def test_shuffled_generator_without_a_facet_draws_from_all_prompts():
    made = ShuffledGenerator(Echo(), PROMPTS, seed=3, by="")
    crossed = sum(entry.partition("_")[0] != donor.prompt_id.partition("_")[0] for entry, donor in made._donor.items())
    assert crossed == pytest.approx(1000, abs=5 * 500**0.5)  # half of 2,000 draws, five standard deviations


def test_shuffled_generator_of_paintskills_draws_within_the_facet_of_its_table():
    from verism.suites.paintskills.suite import PaintSkills

    assert PaintSkills.layout.facet == "skill"
    # These very donors were drawn before the facet was handed in: runs that were shuffled can be resumed.
    drawn = ShuffledGenerator(Echo(), PROMPTS, seed=3, by=PaintSkills.layout.facet)._donor
    assert [drawn[f"object_{n:04d}"].prompt_id for n in range(3)] == ["object_0458", "object_0920", "object_0504"]
