"""T2I-CompBench as a suite: files of the user, phrases, layout, needs, verdicts and scores."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from compbench_data import write_data, write_phrases_of

from verism import api
from verism.errors import UsageError
from verism.metrics.depth_maps import text_of_depth
from verism.records import AnswerNeed, DepthNeed, DetectionNeed, EmbeddingNeed, Observed, frame
from verism.simulator.catalogue import standard_catalogue
from verism.simulator.scene_renderer import MATERIALS, PAINTS
from verism.store import blocks as store_blocks
from verism.suites.catalogue import make_suite
from verism.suites.compbench import suite as suite_module
from verism.suites.compbench.layout import displaced, file_name, read_images
from verism.suites.compbench.own_prompts import COLORS, MODELLED, SHAPES, TEXTURES, THINGS, own_prompts
from verism.suites.compbench.phrases import Parsed, parse_tokens, read_phrases, write_phrases
from verism.suites.compbench.prompts import Asked, read_category, structure_limits, structure_problem
from verism.suites.compbench.suite import PROTOCOLS, CompBench
from verism.suites.compbench.vocabulary import CATEGORIES, has_exact_label


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def phrases(data, tmp_path_factory):
    return write_phrases_of(data, tmp_path_factory.mktemp("phrases") / "phrases.jsonl")


@pytest.fixture(scope="module")
def suite(data, phrases):
    return CompBench.make({"prompts": data, "phrases": phrases})


# --------------------------------------------------------------------------------------------------------- own prompts
def test_own_prompts_ask_for_what_the_simulator_can_show():
    known = standard_catalogue()
    assert set(MODELLED) <= set(known.assets)
    assert not set(THINGS) & set(known.assets)  # or their models would hide the solids
    assert {shape.removeprefix("solid:") for shape in SHAPES.values()} <= set(known.solids)
    assert set(TEXTURES) == set(MATERIALS)
    assert set(COLORS) <= set(PAINTS)
    assert all(has_exact_label(name) for name in MODELLED)


def test_own_prompts_are_the_same_ones_and_all_different():
    made = own_prompts()
    assert made == own_prompts()
    assert len({each.text for each in made}) == len(made) > 450
    assert {each.category for each in made} == set(CATEGORIES)
    assert [each.text for each in own_prompts(("color",), n=3)] == [
        each.text for each in made if each.category == "color"
    ][:3]


def test_own_prompts_say_themselves_what_a_parser_would():
    for each in own_prompts():
        if each.category in ("color", "shape", "texture", "complex"):
            assert len(each.phrases) == len(each.shows) == 2
            assert all(phrase in each.text for phrase in each.phrases)
        if each.category in ("spatial", "3d_spatial", "complex"):
            assert all(name in each.text for name in each.names)
            assert each.relation is not None
        if each.category == "numeracy":
            assert sum(number for _, number in each.numbers) == len(each.scene.objects) <= 4


def test_without_prompts_the_suite_asks_its_own_and_says_so():
    own = make_suite("compbench", limit=16)
    assert {p.facets["category"] for p in own.prompts()} == {f"own {c}" for c in CATEGORIES}
    assert all(p.prompt_id.startswith("own_") and p.n_images == 2 for p in own.prompts())
    images = frame("images", [])
    assert "verism's own" in own.remarks(Observed(prompts={}, images=images, observations={}))[0]


# ---------------------------------------------------------------------------------------------------------- the user's
def test_released_structure_is_accepted(suite):
    prompts = suite.prompts()
    assert len(prompts) == 2400
    assert not suite.own
    assert {p.n_images for p in prompts} == {10}
    assert {p.facets.get("seen") for p in prompts if p.facets["category"] == "color"} == {"seen", "unseen"}
    assert sum(p.facets.get("seen") == "seen" for p in prompts) == 600
    assert len({p.prompt_id for p in prompts}) == 2400
    again = CompBench.reopen(json.loads(json.dumps(suite.settings())), prompts)
    assert again.prompts() == prompts
    assert again.needs() == suite.needs()
    assert suite.parser.startswith("by hand (phrases.jsonl")
    assert len(suite.files["color_val.txt"]) == 64


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("color_val.txt", lambda _: None, r"color_val.txt: no such file.*300 lines, one column.*no hash"),
        ("color_val.txt", lambda lines: lines[:-1], r"has 299 prompts, expected 300 \(this one has SHA-256"),
        ("shape_val.txt", lambda lines: [*lines[:-1], lines[0]], "299 distinct prompts, expected 300"),
        (
            "spatial_val.txt",
            lambda lines: [lines[0].replace("left", "right"), *lines[1:]],
            "'on the left of', expected 51",
        ),
        (
            "3d_spatial_val.txt",
            lambda lines: [*lines[:-1], lines[-1].replace("hidden by", "on")],
            "'hidden', expected 115",
        ),
        ("complex_val_action.txt", lambda lines: lines[1:], r"lists of complex_val.txt hold .*expected"),
        ("complex_val_action.txt", lambda _: None, "complex_val_action.txt: no such file.*212 lines"),
        ("complex_val_spatial.txt", lambda _: ["something else"], "none of the complex prompts"),
        ("numeracy_val.txt", lambda _: [], "no prompts in it"),
    ],
)
def test_missing_and_altered_files_are_named(data, phrases, tmp_path, name, change, message):
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in data.iterdir():
        lines = path.read_text(encoding="utf-8").splitlines()
        lines = change(lines) if path.name == name else lines
        if lines is not None:
            (folder / path.name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        CompBench.make({"prompts": folder, "phrases": phrases})


def test_altered_files_are_taken_where_that_is_meant_and_named_so(tmp_path):
    (tmp_path / "color_val.txt").write_text("a red cup and a blue vase\n", encoding="utf-8")
    rows = tmp_path / "p.csv"
    rows.write_text('prompt,phrases\na red cup and a blue vase,"[""a red cup"", ""a blue vase""]"\n', encoding="utf-8")
    made = CompBench.make({"prompts": tmp_path, "phrases": rows, "categories": ["color"], "own": True})
    [prompt] = made.prompts()
    assert prompt.facets["category"] == "own color"
    assert (
        "1 prompts, expected 300" in made.remarks(Observed(prompts={}, images=frame("images", []), observations={}))[0]
    )
    assert made.classes == {}  # scenes are of our own prompts alone


def test_older_files_of_colours_and_actions_are_known(data, phrases, tmp_path):
    lines = (data / "color_val.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "color_val.txt").write_text("\n".join([*lines[:295], *lines[:5]]) + "\n", encoding="utf-8")
    (tmp_path / "action_val.txt").write_bytes((data / "non_spatial_val.txt").read_bytes())
    older = CompBench.make({"prompts": tmp_path, "phrases": phrases, "categories": ["color", "non_spatial"]})
    assert len(older.prompts()) == 600
    assert set(older.files) == {"color_val.txt", "action_val.txt"}
    assert not older.altered


class Halves:
    name = "halves 1.0"

    def parse(self, text):
        return Parsed(phrases=tuple(text.split(" and ")), parser=self.name)


def test_phrases_lie_beside_the_prompts_or_come_from_the_usual_parser(data, phrases, tmp_path, monkeypatch):
    asked = {"prompts": tmp_path, "categories": ["color"]}
    (tmp_path / "color_val.txt").write_bytes((data / "color_val.txt").read_bytes())
    named = []
    monkeypatch.setattr(suite_module, "make_parser", lambda name: named.append(name) or Halves())
    parsed = CompBench.make(asked)
    assert named == ["spacy:en_core_web_sm"]
    assert parsed.parser == "halves 1.0"
    (tmp_path / "phrases.jsonl").write_bytes(phrases.read_bytes())
    beside = CompBench.make(asked)
    assert beside.parser.startswith("by hand (phrases.jsonl")
    assert [e.phrases for _, e in beside.asked] == [e.phrases for _, e in parsed.asked]
    assert len(named) == 1


def nobody(name):
    raise UsageError(f"no {name}")


def test_phrases_are_asked_for_where_they_are_needed(data, phrases, monkeypatch):
    monkeypatch.setattr(suite_module, "make_parser", nobody)
    with pytest.raises(UsageError, match="no spacy:x"):
        CompBench.make({"prompts": data, "parser": "spacy:x"})
    with pytest.raises(UsageError, match=r"color, shape, texture, complex prompts .* --phrases FILE .* --category"):
        CompBench.make({"prompts": data})
    with pytest.raises(UsageError, match="either --phrases or --parser"):
        CompBench.make({"prompts": data, "phrases": phrases, "parser": "spacy:x"})
    assert len(CompBench.make({"prompts": data, "categories": ["spatial", "non_spatial"]}).prompts()) == 600


def test_limits_are_dealt_out_to_categories(data, phrases):
    made = CompBench.make({"prompts": data, "phrases": phrases, "limit": 20})
    categories = [p.facets["category"] for p in made.prompts()]
    assert len(categories) == 20
    assert {categories.count(c) for c in CATEGORIES} <= {2, 3}


def test_what_can_never_score_is_counted(data):
    read = {category: read_category(data, category, "val") for category in CATEGORIES}
    assert structure_problem(read, "val", data) == ""
    by_name = {(limit.category, limit.what[:22]): limit for limit in structure_limits(read)}
    never = by_name["spatial", "an object's name is no"]
    bad = ("mouse", "sofa", "table", "wallet", "bag", "painting", "cow", "phone", "computer")
    lines = (data / "spatial_val.txt").read_text(encoding="utf-8").splitlines()
    assert never.found == sum(any(f" {word}" in line for word in bad) for line in lines) > 0
    assert never.expected == 100
    assert by_name["complex", "scored by the relation"].found == 88
    one = Asked(category="spatial", text="a man near a girl", index=0, relation="near", names=("man", "girl"))
    assert [limit.found for limit in structure_limits({"spatial": [one]})] == [0, 1]


# ------------------------------------------------------------------------------------------------------------- phrases
class Word:
    def __init__(self, text, pos):
        self.text, self.pos_ = text, pos


def words(text, **pos):
    return text, [Word(word, pos.get(word, "X")) for word in text.split()]


def test_objects_and_adjectives_of_complex_prompts():
    text, tokens = words("the red cup is next to the tall vase", red="ADJ", tall="ADJ", cup="NOUN", vase="NOUN")
    assert parse_tokens(text, tokens) == (("cup", "vase"), "the cup is next to the vase")
    text, tokens = words("a dog by a tree near the lake in Rome", dog="NOUN", tree="NOUN", lake="NOUN", Rome="PROPN")
    assert parse_tokens(text, tokens)[0] == ("tree", "lake")  # the nearest before, the first behind
    text, tokens = words("near the lake", lake="NOUN")
    assert parse_tokens(text, tokens)[0] is None
    text, tokens = words("a cup and a vase", cup="NOUN", vase="NOUN")
    assert parse_tokens(text, tokens)[0] is None
    text, tokens = words("a pearl nearly white", pearl="NOUN")  # near is contained, and no word
    assert parse_tokens(text, tokens)[0] is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "nothing in it"),
        ('{"phrases": []}', "expected prompt, phrases"),
        ('{"prompt": "a", "phrases": "a cup"}', "JSON list"),
        ('{"prompt": "a", "phrases": [3]}', "list of texts"),
        ('{"prompt": "a", "phrases": ["a"], "objects": ["cup"]}', "objects are two"),
        ('{"prompt": "a", "phrases": ["a"]}\n{"prompt": "a", "phrases": ["b"]}', "there twice"),
    ],
)
def test_files_of_phrases_that_do_not_fit_are_refused(tmp_path, line, message):
    path = tmp_path / "phrases.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_phrases(path)


def test_files_of_phrases_come_back(phrases, tmp_path):
    read = read_phrases(phrases)
    write_phrases(tmp_path / "again.jsonl", read)
    assert read_phrases(tmp_path / "again.jsonl") == read


# -------------------------------------------------------------------------------------------------------------- layout
def asked_of(*texts, category="color"):
    return {category: [(f"p{k}", Asked(category=category, text=text, index=k)) for k, text in enumerate(texts)]}


def put(folder, *names):
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"x")


def test_texts_in_file_names_say_the_prompt(tmp_path):
    put(
        tmp_path / "color" / "samples",
        *[file_name(text, k) for k, text in enumerate(["a cup", "a cup", "A vase.", "A vase."])],
    )
    found = read_images(tmp_path, asked_of("a cup", "A vase."))
    assert [(image.prompt_id, image.index) for image in found] == [("p0", 0), ("p0", 1), ("p1", 0), ("p1", 1)]
    assert displaced(tmp_path, "color", [a for _, a in asked_of("a cup", "A vase.")["color"]], 2) == 0


def test_a_missing_image_moves_none_here_and_all_behind_it_in_the_released_scripts(tmp_path):
    names = [file_name(text, k) for k, text in enumerate(["a cup"] * 2 + ["a vase"] * 2 + ["a lamp"] * 2)]
    put(tmp_path / "samples", *[name for k, name in enumerate(names) if k != 0])
    asked = asked_of("a cup", "a vase", "a lamp")
    found = read_images(tmp_path, asked)
    assert [image.prompt_id for image in found] == ["p0", "p1", "p1", "p2", "p2"]
    assert displaced(tmp_path, "color", [a for _, a in asked["color"]], 2) == 2


def test_a_prompt_that_is_there_twice_is_told_apart_by_numbers(tmp_path):
    put(tmp_path / "samples", *[file_name("a cup", k) for k in (0, 1)], *[file_name("a vase", k) for k in (2, 3)],
        *[file_name("a cup", k) for k in (4, 5)])  # fmt: skip
    found = read_images(tmp_path, asked_of("a cup", "a vase", "a cup"))
    assert sorted((image.prompt_id, image.index) for image in found) == [
        ("p0", 0), ("p0", 1), ("p1", 0), ("p1", 1), ("p2", 0), ("p2", 1),
    ]  # fmt: skip


def test_names_without_a_number_and_of_other_prompts(tmp_path):
    put(tmp_path / "color" / "samples", "a cup.png", "something_000001.png")
    assert [image.prompt_id for image in read_images(tmp_path, asked_of("a cup"))] == ["p0"]
    with pytest.raises(UsageError, match="no folder shape/samples"):
        read_images(tmp_path, asked_of("a cup") | asked_of("a cup", category="shape"))


# ------------------------------------------------------------------------------------------------ needs and verdicts
def test_needs_are_those_of_the_categories_asked(suite, data, phrases):
    kinds = [type(need) for need in suite.needs()]
    assert kinds == [AnswerNeed, DetectionNeed, DepthNeed, EmbeddingNeed]
    answers, boxes, _, vectors = suite.needs()
    assert answers.weighed
    assert all(q.strings == ("yes", "no") and q.bare for some in answers.questions.values() for q in some)
    assert boxes.partial
    assert "person" in boxes.classes
    assert "girl" not in boxes.classes
    assert any("number 3 is next to" in text for text in vectors.texts)
    only = CompBench.make({"prompts": data, "categories": ["numeracy"]})
    assert [type(need) for need in only.needs()] == [DetectionNeed]
    chat = CompBench.make({"prompts": data, "phrases": phrases, "levels": "gpt-4v", "limit": 8})
    [need] = chat.needs()
    assert not need.optional
    of_numeracy = next(q for i, q in need.questions.items() if i.startswith("numeracy"))
    assert len(of_numeracy) == 2  # its own, and the spatial one that was asked as released


def observed_of(suite, **tables):
    prompts = {p.prompt_id: p for p in suite.prompts()}
    rows = [
        {"image_id": f"{i}#{k}", "prompt_id": i, "index": k, "state": "ok", "width": 480, "height": 480}
        for i, p in prompts.items()
        for k in range(p.n_images)
    ]
    filled = {name: frame(name, some) for name, some in tables.items()}
    return Observed(prompts=prompts, images=frame("images", rows), observations=filled)


def one_prompt(asked, **more):
    return replace(CompBench(asked=(("p", asked),), n_images=1), **more)


def verdict(suite, observed, protocol, rule):
    rows = suite.verdicts(observed).filter((pl.col("protocol") == protocol) & (pl.col("rule") == rule))
    return rows["value"][0]


def test_phrases_are_kept_and_combined_by_rules():
    asked = Asked(category="color", text="t", index=0, phrases=("a red cup", "the left", "a vase"))
    suite = one_prompt(asked)
    tokens = [("a red cup?", 0.4, 0.1), ("the left?", 0.01, 0.01), ("a vase?", 0.25, 0.25)]
    rows = [
        {"image_id": "p#0", "judge": "j", "question": q, "string": s, "token": k, "probability": p}
        for q, yes, no in tokens
        for k, (s, p) in enumerate((("yes", yes), ("no", no)))
    ]
    answers = [{"image_id": "p#0", "judge": "j", "question": q, "probability": 0.9} for q, _, _ in tokens]
    observed = observed_of(suite, answers=answers, token_probabilities=rows)
    assert verdict(suite, observed, "released", "attribute_binding") == pytest.approx(0.8 * 0.5)
    assert verdict(suite, observed, "paper", "attribute_binding") == pytest.approx(0.4 * 0.25)
    assert verdict(suite, observed, "revised", "attribute_binding") == pytest.approx(math.sqrt(0.4))
    assert verdict(suite.with_rules(np_num=1), observed, "released", "attribute_binding") == pytest.approx(0.8)
    unfiltered = suite.with_rules(phrase_filter=False)
    assert verdict(unfiltered, observed, "released", "attribute_binding") == pytest.approx(0.8 * 0.5 * 0.5)
    assert verdict(suite, observed, "revised", "accuracy") == 0.0  # half is not more probable than not
    kept = suite.verdicts(observed).filter(pl.col("rule") == "phrase")
    assert kept["value"].to_list() == pytest.approx([0.8, 0.5, 0.5])
    bare = observed_of(suite, answers=answers)
    assert verdict(suite, bare, "released", "attribute_binding") == pytest.approx(0.81)
    assert any("no probabilities of single words" in line for line in suite.remarks(bare))


def box(label, x0, y0, x1, y1, score=1.0, query=0, raw=None):
    edges = {"x0": x0, "y0": y0, "x1": x1, "y1": y1}
    return {
        "image_id": "p#0",
        "judge": "d",
        "query": query,
        "label": label,
        "raw_label": raw or label,
        "score": score,
        **edges,
    }


LOOKED = {"image_id": "p#0", "judge": "d", "query": -1}


def test_boxes_count_above_a_threshold_in_pixels_of_the_detector():
    asked = Asked(category="spatial", text="t", index=0, relation="near", names=("dog", "cat"))
    suite = one_prompt(asked)
    rows = [LOOKED, box("dog", 0, 0, 10, 10, 0.9), box("cat", 300, 300, 310, 310, 0.1, 1)]
    observed = observed_of(suite, detections=rows)
    assert verdict(suite, observed, "released", "objects_found") == 0.5  # 0.1 is not above 0.1
    rows[2]["score"] = 0.2
    observed = observed_of(suite, detections=rows)
    assert verdict(suite, observed, "released", "objects_found") == 1.0
    assert verdict(suite, observed, "released", "relation_worth") == pytest.approx(150 / (300 * 479 / 480))
    assert verdict(suite.with_rules(box_threshold=0.5), observed, "released", "objects_found") == 0.5
    assert verdict(suite.with_rules(box_threshold_revised=0.5), observed, "released", "objects_found") == 1.0
    assert verdict(suite.with_rules(least_2d_score=0.0), observed, "released", "spatial_2d") > 0
    assert verdict(suite, observed, "released", "spatial_2d") == pytest.approx(
        0.25 * 1.1 + 0.5 * 150 / (300 * 479 / 480)
    )


def test_names_that_the_detector_may_not_know_are_told():
    asked = Asked(category="spatial", text="t", index=0, relation="near", names=("dog", "wallet"))
    suite = one_prompt(asked)
    rows = [LOOKED, {**box("dog", 0, 0, 10, 10), "class_scores": [0.9, 0.0]}]
    [line] = [line for line in suite.remarks(observed_of(suite, detections=rows)) if "no confidence" in line]
    assert "1 of 2 names in any image (wallet)" in line
    assert "1 prompts cannot score" in line
    known = [LOOKED, {**box("dog", 0, 0, 10, 10), "class_scores": [0.9, 0.01]}]
    assert not [line for line in suite.remarks(observed_of(suite, detections=known)) if "no confidence" in line]


def test_swapped_depth_is_a_rule():
    asked = Asked(category="3d_spatial", text="t", index=0, relation="in front of", names=("dog", "cat"))
    suite = one_prompt(asked)
    steps = np.broadcast_to(np.arange(480) * 255 // 479, (480, 480)).astype(np.uint8)
    depth = {"image_id": "p#0", "judge": "z", "height": 480, "width": 480, "nearness": text_of_depth(steps)}
    rows = [LOOKED, box("dog", 100, 100, 300, 300), box("cat", 150, 50, 350, 250, query=1)]
    observed = observed_of(suite, detections=rows, depths=[depth])
    # The cat is farther right, so nearer; mirrored at the diagonal, the lower dog is.
    assert verdict(suite, observed, "released", "relation_worth") > 0
    assert verdict(suite.with_rules(depth_indexing="right"), observed, "released", "relation_worth") == 0.0
    assert verdict(suite, observed, "paper", "relation_worth") == 0.0
    assert verdict(suite, observed, "revised", "relation_worth") == 0.0
    behind = one_prompt(replace(asked, relation="behind"))
    assert verdict(behind, observed_of(behind, detections=rows, depths=[depth]), "revised", "spatial_3d") == 1.0


def test_complex_prompts_take_the_parts_of_their_list():
    asked = Asked(
        category="complex", text="the red dog near the cat", index=0, relation="near", names=("dog", "cat"),
        phrases=("the red dog", "the cat"), without_adjectives="the dog near the cat", route="both",
    )  # fmt: skip
    answers = [
        {"image_id": "p#0", "judge": "v", "question": q, "answer": "yes", "value": "yes", "probability": 0.5}
        for q in ("the red dog?", "the cat?")
    ]
    boxes = [LOOKED, box("dog", 0, 0, 10, 10), box("cat", 20, 0, 30, 10, query=1)]
    vectors = [{"image_id": "p#0", "judge": "c", "vector": [3.0, 4.0]}]
    texts = [
        {"text": asked.text, "judge": "c", "vector": [0.0, 2.0]},
        {"text": asked.without_adjectives, "judge": "c", "vector": [5.0, 0.0]},
    ]

    def values(**changes):
        suite = one_prompt(replace(asked, **changes))
        tables = {"answers": answers, "detections": boxes, "embeddings": vectors, "text_embeddings": texts}
        observed = observed_of(suite, **tables)
        return [verdict(suite, observed, protocol, "three_in_one") for protocol in PROTOCOLS]

    binding, plain, full = 0.25, 0.6, 0.8
    assert values() == pytest.approx([(0.5 + 1 + full) / 3, (binding + 1 + plain) / 3, (binding + 1 + full) / 3])
    assert values(route="spatial") == pytest.approx([0.75, (binding + 1) / 2, (binding + 1 + full) / 3])
    assert values(route="action") == pytest.approx([0.65, (binding + plain) / 2, (binding + 1 + full) / 3])
    # Without two objects the released score of the relation is 0; revised leaves the part out.
    assert values(route="spatial", names=None) == pytest.approx([0.5, binding / 2, (binding + full) / 3])


def test_scores_never_mix_categories(suite):
    few = CompBench(asked=suite.asked[::300], n_images=2)
    observed = observed_of(few, detections=[{**LOOKED, "image_id": f"{i}#{k}"} for i, _ in few.asked for k in range(2)])
    verdicts = few.verdicts(observed)
    scores = few.scores(observed, verdicts)
    assert scores
    assert all("category" in score.group for score in scores)
    numeracy = next(s for s in scores if s.metric == "numeracy" and s.protocol == "revised")
    assert (numeracy.value, numeracy.n_used) == (0.0, 2)
    binding = next(s for s in scores if s.metric == "attribute_binding" and s.protocol == "released")
    assert math.isnan(binding.value)
    assert (binding.n_used, binding.n_unusable) == (0, 2)
    lines = few.remarks(observed)
    assert any("no judge was named as --vqa, so color, shape, texture, complex lack" in line for line in lines)
    assert any("not by UniDet as published" in line for line in lines)


def test_missing_images_are_counted_and_bounded():
    asked = Asked(category="numeracy", text="two dogs", index=0, numbers=(("dog", 2),))
    suite = replace(one_prompt(asked), n_images=2)
    observed = observed_of(suite, detections=[LOOKED, box("dog", 0, 0, 9, 9), box("dog", 20, 0, 29, 9, query=1)])
    lost = observed.images.with_columns(
        state=pl.when(pl.col("index") == 1).then(pl.lit("missing")).otherwise(pl.col("state"))
    )
    observed = replace(observed, images=lost)
    scores = {s.metric: s for s in suite.scores(observed, suite.verdicts(observed)) if s.protocol == "released"}
    assert (scores["numeracy"].value, scores["numeracy"].n_used, scores["numeracy"].n_unusable) == (1.0, 1, 1)
    assert (scores["score_if_unusable_zero"].value, scores["score_if_unusable_zero"].n_unusable) == (0.5, 1)


def test_levels_of_chat_models_by_protocol():
    asked = Asked(category="numeracy", text="two dogs", index=0, numbers=(("dog", 2),))
    suite = replace(one_prompt(asked), levels="gpt-4v", n_images=3)
    [need] = suite.needs()
    own, spatial = (q.text for q in need.questions["p"])
    assert "number of every kind" in own
    assert "where the objects are" in spatial
    replies = [
        {"image_id": f"p#{k}", "judge": "v", "question": q, "answer": reply}
        for k in range(3)
        for q, reply in ((own, "I count two. 5"), (spatial, "no idea" if k else "3"))
    ]
    observed = observed_of(suite, answers=replies)
    rows = suite.verdicts(observed)

    def values(protocol):
        return rows.filter((pl.col("protocol") == protocol) & (pl.col("rule") == "multimodal"))["value"].to_list()

    assert values("released") == [0.6, 0.0]  # two images of a prompt, and a reply without a level is 0
    assert values("revised") == [1.0, 1.0, 1.0]
    share = replace(suite, levels="share-cot")
    [need] = share.needs()
    [question] = need.questions["p"]
    said = [{"image_id": f"p#{k}", "judge": "v", "question": question.text, "answer": "none"} for k in range(3)]
    observed = observed_of(share, answers=said)
    rows = share.verdicts(observed)
    assert values("released") == [1.0, 1.0, 1.0]
    assert values("revised") == [None, None, None]


class Guess:
    """Boxes, replies and probabilities of tokens out of a hash of the image."""

    def __init__(self, role):
        self.role, self.name = role, f"guess-{role}"

    def check(self, need):
        pass

    def observe(self, images, need):
        tables = {table: [] for table in ((need.table,) if self.role == "detector" else (need.table, need.beside[0]))}
        for image in images:
            rng = np.random.default_rng(list(image.image_id.encode()))
            about = {"image_id": image.image_id, "judge": self.name}
            if self.role == "detector":
                tables[need.table].append(about | {"query": -1})
                for query in range(rng.integers(0, 4)):
                    x0, y0 = rng.uniform(0, 4, 2)
                    number = int(rng.integers(1, len(need.classes)))  # never the first
                    scores = [0.0] * len(need.classes)
                    scores[number] = rng.uniform(0.3, 1)
                    box = {"label": need.classes[number], "score": scores[number], "class_scores": scores}
                    box |= {"x0": x0, "y0": y0, "x1": x0 + 3, "y1": y0 + 3, "color_scores": []}
                    tables[need.table].append(about | box | {"query": query})
                continue
            questions = need.questions.get(image.prompt_id, ())
            tables[need.table] += [] if questions else [about]  # an image needs a row, also where nothing is asked
            for question in questions:
                asked = about | {"question": question.text}
                tables[need.table].append(asked | {"answer": "yes", "value": "yes", "probability": rng.random()})
                for number, string in enumerate(question.strings):
                    tables[need.beside[0]].append(asked | {"string": string, "token": number, "probability": 0.4})
        made = {table: frame(table, rows) for table, rows in tables.items()}
        return made[need.table] if self.role == "detector" else made


def test_scores_in_blocks_of_any_size_are_equal(tmp_path, monkeypatch):
    def noise(prompt, seed):
        del prompt
        return np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)

    run = api.evaluate(
        "compbench", model=noise, limit=16, detector=Guess("detector"), vqa=Guess("vqa"), out=tmp_path / "run"
    )

    def outcome():
        return (run.path / "scores.json").read_bytes(), api.open_run(run.path).manifest.scoring.remarks

    whole = outcome()
    assert any("gave no confidence to" in line for line in whole[1])
    for size in (7, 1):
        monkeypatch.setattr(store_blocks, "BLOCK", size)
        api.score(run)
        assert outcome() == whole
