"""GenEval's prompts: drawn again, checked by hash; files of prompts, right and wrong."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from verism.errors import UsageError
from verism.simulator.catalogue import standard_catalogue
from verism.suites.geneval.prompts import (
    METADATA_SHA256,
    TEXTS_SHA256,
    draw_prompts,
    metadata_lines,
    read_metadata,
    sha256_of,
)
from verism.suites.geneval.scenes import MODELLED, SHAPES, SOLIDS, scene_of
from verism.suites.geneval.suite import GenEval
from verism.suites.geneval.vocabulary import CLASSES, COLORS, TASKS, plural, with_article

HERE = Path(__file__).parent
PUBLISHED = draw_prompts()


def rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_published_prompts_are_drawn_byte_for_byte():
    assert len(PUBLISHED) == len({p["prompt"] for p in PUBLISHED}) == 553
    assert sha256_of(metadata_lines(PUBLISHED)) == METADATA_SHA256
    assert sha256_of("".join(p["prompt"] + "\n" for p in PUBLISHED)) == TEXTS_SHA256


def test_words_are_those_of_the_released_lists():
    table = rows("geneval_classes.csv")
    assert [row["name"] for row in table] == list(CLASSES)
    assert [row["article_form"] for row in table] == [with_article(name) for name in CLASSES]
    assert [row["plural_form"] for row in table] == [plural(name) for name in CLASSES]


def test_facets_are_distributed_as_published():
    found: Counter[tuple[str, str, str]] = Counter()
    for p in GenEval.make({}).prompts():
        task = str(p.facets["task"])
        for name in ("color", "color_b"):
            if p.facets.get(name):
                found[task, "color", str(p.facets[name])] += 1
        for name in ("count", "relation"):
            if p.facets.get(name):
                found[task, name, str(p.facets[name])] += 1
    expected = {(r["task"], r["facet"], r["value"]): int(r["prompts"]) for r in rows("geneval_prompt_distribution.csv")}
    assert dict(found) == expected


def test_tasks_have_their_published_sizes_and_order():
    assert Counter(p["tag"] for p in PUBLISHED) == {
        "single_object": 80, "two_object": 99, "counting": 80, "colors": 94, "position": 100, "color_attr": 100,
    }  # fmt: skip
    assert list(dict.fromkeys(p["tag"] for p in PUBLISHED)) == list(TASKS)


def test_reference_object_comes_first_in_position_prompts():
    for p in PUBLISHED:
        if p["tag"] == "position":
            reference, placed = p["include"]
            relation = placed["position"][0]
            assert placed["position"][1] == 0
            assert p["prompt"] == f"a photo of {with_article(placed['class'])} {relation} " + with_article(
                reference["class"]
            )


def test_person_is_never_painted_and_only_counting_excludes():
    assert all(e["class"] != "person" for p in PUBLISHED for e in p["include"] if "color" in e)
    assert {p["tag"] for p in PUBLISHED if "exclude" in p} == {"counting"}
    assert all(p["exclude"][0]["count"] == p["include"][0]["count"] + 1 for p in PUBLISHED if "exclude" in p)


def test_fresh_draw_has_the_same_make_and_other_prompts():
    fresh = draw_prompts(44)
    assert {p["prompt"] for p in fresh} != {p["prompt"] for p in PUBLISHED}
    assert Counter(p["tag"] for p in fresh)["single_object"] == 80
    suite = GenEval.make({"draw": 2})
    assert [p.text for p in suite.prompts()] == [p["prompt"] for p in fresh]
    # Runs of two draws are never paired image by image: their ids differ.
    assert not {p.prompt_id for p in suite.prompts()} & {p.prompt_id for p in GenEval.make({}).prompts()}


def test_limit_is_dealt_out_evenly_and_grows():
    small, large = (GenEval.make({"limit": n}).prompts() for n in (60, 120))
    assert set(Counter(p.facets["task"] for p in small).values()) == {10}
    assert {p.prompt_id for p in small} <= {p.prompt_id for p in large}
    assert len(GenEval.make({"limit": 10_000}).prompts()) == 553
    assert len(GenEval.make({"limit": 7}).prompts()) == 7


def test_prompts_carry_four_images_and_a_scene():
    prompt = GenEval.make({"tasks": ["counting"]}).prompts()[0]
    assert (prompt.n_images, prompt.scene.skill) == (4, "count")
    assert len(prompt.scene.objects) == prompt.facets["count"]


def test_every_prompt_has_a_scene_that_the_simulator_can_show():
    catalogue = standard_catalogue()
    assert {name for name in CLASSES if name in catalogue.assets} == MODELLED
    assert set(SOLIDS) == set(catalogue.solids)
    for number, prompt in enumerate(PUBLISHED):
        for obj in scene_of(str(number), prompt).objects:
            assert catalogue.stand_in(obj.label, obj.shape)
    assert set(SHAPES) == set(CLASSES)
    position = next(p for p in PUBLISHED if p["tag"] == "position")
    first, second = scene_of("x", position).objects
    assert (first.relation, second.relation is None) == (None, False)


def test_modelled_prompts_are_those_the_simulator_has_models_of():
    suite = GenEval.make({"modelled": True})
    labels = {e["class"] for p in suite.prompts() for e in p.spec["metadata"]["include"]}
    assert labels <= MODELLED
    assert set(suite.labels) == MODELLED
    assert len(suite.prompts()) > 50


# ---------------------------------------------------------------------------------------------------------------- files
def test_metadata_file_reads_back(tmp_path):
    path = tmp_path / "evaluation_metadata.jsonl"
    path.write_text(metadata_lines(PUBLISHED), encoding="utf-8")
    assert read_metadata(path) == PUBLISHED
    suite = GenEval.make({"metadata": path, "tasks": ["colors"]})
    assert suite.prompts()[0].prompt_id == "00259"
    with pytest.raises(UsageError, match="either --draw or --metadata"):
        GenEval.make({"metadata": path, "draw": 2})


GOOD = {"tag": "colors", "include": [{"class": "dog", "count": 1, "color": "red"}], "prompt": "a photo of a red dog"}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{", "no JSON"),
        ([], "it has list"),
        ({"text": "a dog"}, "it has text"),
        ({**GOOD, "tag": "size"}, "tag 'size'"),
        ({**GOOD, "include": []}, "nothing to include"),
        ({**GOOD, "include": "dog"}, "include is no list"),
        ({**GOOD, "include": [{"class": "unicorn", "count": 1}]}, "no class of GenEval"),
        ({**GOOD, "include": [{"class": "dog", "count": 0}]}, "count of dog is 0"),
        ({**GOOD, "include": [{"class": "dog", "count": True}]}, "count of dog is True"),
        ({**GOOD, "include": [{"class": "dog", "count": 1, "color": "gray"}]}, "unknown colour 'gray'"),
        ({**GOOD, "include": [{"class": "dog", "count": 1, "position": ["behind", 0]}]}, "no \\[relation, number\\]"),
        ({**GOOD, "include": [{"class": "dog", "count": 1, "position": ["above", 0]}]}, "names no entry before"),
        ({**GOOD, "prompt": 3}, "the prompt is no text"),
    ],
)
def test_wrong_prompt_is_named_with_what_is_expected(tmp_path, record, message):
    path = tmp_path / "own.jsonl"
    path.write_text(record if isinstance(record, str) else json.dumps(record), encoding="utf-8")
    with pytest.raises(UsageError, match=message) as err:
        read_metadata(path)
    assert "tag, include, exclude" in str(err.value)
    assert "553 lines, SHA-256 5c48e0813e81" in str(err.value)


def test_colors_are_ten_and_in_released_order():
    assert COLORS == ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
