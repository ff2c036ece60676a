"""Files that prompts, references and questions come from: every form, and what is said of bad ones."""

import csv
import json
import random

import pytest

from verism.errors import UsageError
from verism.suites.alignment.captions import coco_id, read_annotations, with_references
from verism.suites.alignment.questions import match_questions, read_questions
from verism.suites.prompt_lists import choose, read_prompt_list


def karpathy(tmp_path):
    def image(number, split, *captions):
        return {
            "filepath": "val2014",
            "filename": f"COCO_val2014_{number:012d}.jpg",
            "imgid": number,
            "cocoid": number,
            "split": split,
            "sentids": list(range(len(captions))),
            "sentences": [{"raw": text, "tokens": text.split(), "imgid": number} for text in captions],
        }

    images = [
        image(42, "test", "A dog runs. ", "A brown dog.", "Dog on grass."),
        image(73, "train", "A car."),
        image(74, "restval", "A bus."),
        image(99, "test", "Two cats", "A pair of cats"),
    ]
    path = tmp_path / "dataset_coco.json"
    path.write_text(json.dumps({"images": images, "dataset": "coco"}))
    return path


def coco(tmp_path, name="captions_val2014.json"):
    captions = {42: ["A dog runs.", "A brown dog.", "Dog on grass."], 99: ["Two cats", "A pair of cats"]}
    annotations, number = [], 100
    for image_id, texts in captions.items():
        for text in texts:
            annotations.append({"image_id": image_id, "id": number, "caption": text})
            number += 1
    images = [{"id": i, "file_name": f"COCO_val2014_{i:012d}.jpg"} for i in (42, 99, 7)]  # 7 has no caption
    path = tmp_path / name
    path.write_text(json.dumps({"images": images, "annotations": annotations}))
    return path


def test_karpathy_takes_the_first_caption_and_keeps_all(tmp_path):
    listed = read_annotations(karpathy(tmp_path))
    assert [(p.prompt_id, p.text) for p in listed] == [
        ("COCO_val2014_000000000042", "A dog runs."),
        ("COCO_val2014_000000000099", "Two cats"),
    ]
    assert listed[0].references == ("A dog runs.", "A brown dog.", "Dog on grass.")
    assert [p.text for p in read_annotations(karpathy(tmp_path), split="train+restval")] == ["A car.", "A bus."]


def test_coco_picks_a_caption_by_seed_and_image_alone(tmp_path):
    path = coco(tmp_path)
    texts = {seed: [p.text for p in read_annotations(path, seed=seed)] for seed in range(30)}
    assert {t[0] for t in texts.values()} == {"A dog runs.", "A brown dog.", "Dog on grass."}  # each can be drawn
    data = json.loads(path.read_text())
    random.Random(0).shuffle(data["annotations"])
    data["images"].reverse()
    path.write_text(json.dumps(data))
    again = {p.prompt_id: p for p in read_annotations(path, seed=3)}
    assert [again[f"COCO_val2014_{i:012d}"].text for i in (42, 99)] == texts[3]
    assert again["COCO_val2014_000000000042"].references == ("A dog runs.", "A brown dog.", "Dog on grass.")
    assert [p.text for p in read_annotations(coco(tmp_path), caption="first")] == ["A dog runs.", "Two cats"]


def test_files_of_dalleval(tmp_path):
    path = tmp_path / "karpathy_test_text.json"
    path.write_text(json.dumps([{"img_id": "COCO_val2014_000000000042", "targets": ["A brown dog."]}]))
    (only,) = read_annotations(path)
    assert (only.prompt_id, only.text) == ("COCO_val2014_000000000042", "A brown dog.")
    # One target is the prompt; the five references come from COCO's own file.
    (joined,) = with_references([only], read_annotations(coco(tmp_path)), source=path)
    assert joined.text == "A brown dog."
    assert joined.references == ("A dog runs.", "A brown dog.", "Dog on grass.")

    path = tmp_path / "uid_caption.csv"
    path.write_text('uid,caption\n42_mscoco_1,"A dog, brown."\n99_mscoco_0,Two cats\n')
    listed = read_annotations(path)
    assert [(p.prompt_id, p.text) for p in listed] == [("42_mscoco_1", "A dog, brown."), ("99_mscoco_0", "Two cats")]
    joined = with_references(listed, read_annotations(coco(tmp_path)), source=path)
    assert [len(p.references) for p in joined] == [3, 2]


def test_coco_numbers():
    assert coco_id("COCO_val2014_000000391895") == coco_id("000000391895") == coco_id("391895_mscoco_2") == 391895
    assert coco_id("a dog") is None


def test_a_numbered_line_is_no_coco_image(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("x\n" * 43)
    with pytest.raises(UsageError, match="no captions of the prompts' images: expected ids such as COCO_val2014"):
        with_references(read_prompt_list(path), read_annotations(coco(tmp_path)), source=path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", r"expected Karpathy's dataset_coco\.json .*got a list whose first entry is 1"),
        ('{"a": 1}', r"expected Karpathy's .*got an object with \['a'\]"),
        ("{", r"is not JSON: .*expected Karpathy's"),
        ('{"images": [{"split": "test"}]}', r"images\[0\]: expected `split`, `filename` and `sentences` .*'filename'"),
        (
            '{"images": [{"id": 1}], "annotations": [{"image_id": 1, "id": 2, "bbox": []}]}',
            r"annotations\[0\]: expected `image_id` and `caption`, .*not instances_.*'caption'",
        ),
        ('{"images": [{"id": 1}], "annotations": []}', "no image has a caption"),
        (
            '{"images": [{"split": "val", "filename": "a", "sentences": [{"raw": "x"}]}]}',
            r"no split 'test'; .*\['val'\]",
        ),
        ('[{"targets": ["x"]}]', r"entry 0: expected `img_id` and `targets`"),
        ('[{"img_id": "a", "targets": [3]}]', r"entry 0: `targets`: expected a sentence or a list of sentences"),
        ('[{"img_id": "a", "targets": []}]', "entry 0: the image has no caption"),
        ('[{"img_id": "a", "targets": "x"}, {"img_id": "a", "targets": "x"}]', "the image 'a' is there twice"),
    ],
)
def test_bad_annotations_are_named(tmp_path, content, message):
    path = tmp_path / "annotations.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=message) as raised:
        read_annotations(path)
    assert "annotations.json" in str(raised.value)


def test_splits_and_choices_that_do_not_exist(tmp_path):
    with pytest.raises(UsageError, match="has no splits"):
        read_annotations(coco(tmp_path), split="test")
    with pytest.raises(UsageError, match=r"has no split 'exam'; it has \['restval', 'test', 'train'\]"):
        read_annotations(karpathy(tmp_path), split="exam")
    with pytest.raises(UsageError, match="caption must be one of"):
        read_annotations(karpathy(tmp_path), caption="best")
    with pytest.raises(UsageError, match="no such file"):
        read_annotations(tmp_path / "none.json")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_prompt_list_columns_are_known_in_any_case(tmp_path, ending):
    path = tmp_path / f"prompts.{ending}"
    if ending == "csv":
        path.write_text("Prompt_ID; PROMPT ;Reference;Style\np1;a dog;a brown dog;Photo\n")
    else:
        row = {"Prompt_ID": "p1", " PROMPT ": "a dog", "Reference": "a brown dog", "Style": "Photo"}
        path.write_text(json.dumps(row))
    (only,) = read_prompt_list(path)
    assert (only.prompt_id, only.text, only.references) == ("p1", "a dog", ("a brown dog",))
    assert only.facets == {"Style": "Photo"}  # as the list writes it: it is the user's own column


# ------------------------------------------------------------------------------------------------------ prompt lists
def test_prompt_lists(tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("a dog\n\n  two cats \n")
    assert [(p.prompt_id, p.text) for p in read_prompt_list(path)] == [("00000", "a dog"), ("00001", "two cats")]
    path = tmp_path / "p.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["id", "prompt", "references", "style"], ["x", "a dog", '["A dog.", "Dog"]', ""]])
    (only,) = read_prompt_list(path)
    assert (only.prompt_id, only.text, only.references) == ("x", "a dog", ("A dog.", "Dog"))
    assert only.facets == {"style": None}
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a dog", "level": 3, "references": ["A dog."]}\n')
    (only,) = read_prompt_list(path)
    assert (only.prompt_id, only.references, only.facets) == ("00000", ("A dog.",), {"level": 3})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.txt", "\n", "no prompts in it"),
        ("p.csv", "words\nx\n", r"line 2: no prompt; expected a column `prompt`, got columns \['words'\]"),
        ("p.csv", "prompt\n\n", "no prompts in it"),
        ("p.csv", "id,prompt\na,x\na,y\n", "line 3: the id 'a' is used twice"),
        ("p.csv", 'prompt,references\nx,"[1"\n', "line 2: `references`: expected a JSON list"),
        ("p.xls", "x", "expected a prompt list in a .csv"),
    ],
)
def test_bad_prompt_lists(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        read_prompt_list(path)


def test_a_limit_draws_the_same_whatever_the_order():
    items = [f"p{i}" for i in range(50)]
    ten = choose(items, items, 10, seed=1)
    assert len(ten) == 10
    assert ten == sorted(ten, key=items.index)
    backwards = items[::-1]
    assert set(choose(backwards, backwards, 10, seed=1)) == set(ten)
    assert set(ten) < set(choose(items, items, 20, seed=1))
    assert set(choose(items, items, 10, seed=2)) != set(ten)
    assert choose(items, items, 99, seed=1) == items
    with pytest.raises(UsageError, match="limit must be at least 1"):
        choose(items, items, 0, seed=1)


# --------------------------------------------------------------------------------------------------------- questions
TIFA = [
    {"id": "coco_1", "caption": "a brown dog", "question": "what animal is it?", "choices": ["dog", "cat"],
     "answer": "dog", "element_type": "animal/human"},
    {"id": "coco_1", "caption": "a brown dog", "question": "is the dog brown?", "choices": ["yes", "no"],
     "answer": "yes", "element_type": "color"},
    {"id": "coco_2", "caption": "two cats", "question": "how many cats?", "choices": ["1", "2"], "answer": "2",
     "element_type": "counting"},
]  # fmt: skip


def test_tifa(tmp_path):
    path = tmp_path / "tifa.json"
    path.write_text(json.dumps(TIFA))
    sets = read_questions(path)
    assert [(s.prompt_id, s.text, len(s.questions)) for s in sets] == [
        ("coco_1", "a brown dog", 2),
        ("coco_2", "two cats", 1),
    ]
    first, second = sets[0].questions
    assert (first.choices, first.expected, first.category) == (("dog", "cat"), "dog", "animal/human")
    assert (second.choices, second.expected) == ((), "yes")  # a question of yes or no
    lines = tmp_path / "tifa.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in TIFA))
    assert read_questions(lines) == sets


def test_dsg(tmp_path):
    path = tmp_path / "dsg.csv"
    path.write_text(
        "item_id,text,proposition_id,dependency,category_broad,tuple,question_natural_language\n"
        "d1,a brown dog,1,0,entity,entity - whole (dog),Is there a dog?\n"
        'd1,a brown dog,2,1,attribute,"attribute - color (dog, brown)",Is the dog brown?\n'
        'd1,a brown dog,3,"1,2",relation,r,Is the brown dog alone?\n'
    )
    (only,) = read_questions(path)
    assert [(a.name, a.parents, a.expected, a.category) for a in only.questions] == [
        ("1", (), "yes", "entity"),
        ("2", ("1",), "yes", "attribute"),
        ("3", ("1", "2"), "yes", "relation"),
    ]
    path = tmp_path / "index.json"  # the same as EvalGIM keeps it, once for each image
    row = {
        "prompt": "a brown dog",
        "condition": {"class_id": "d1"},
        "dsg_questions": ["Is there a dog?", "Is the dog brown?", "Is the brown dog alone?"],
        "dsg_children": [1, 2, 3],
        "dsg_parents": ["0", "1", "1,2"],
    }
    path.write_text(json.dumps([row, row]))
    (other,) = read_questions(path)
    assert [(a.text, a.parents) for a in other.questions] == [(a.text, a.parents) for a in only.questions]


def _dsg(**changes):
    row = {"item_id": "d", "text": "t", "proposition_id": 1, "dependency": 0, "question": "q?"}
    return row | changes


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no questions in it; expected rows with"),
        ([{"id": "a", "question": "q"}], "entry 1: no `caption` or `text`"),
        ([{"text": "a", "prompt": "b"}], r"entry 1: no question; expected rows .*got columns \['text', 'prompt'\]"),
        ([_dsg(dependency="7")], "about 't': question '1' depends on .*no question '7'; correct `dependency`"),
        ([_dsg(dependency="1")], "question '1' depends on itself"),
        ([_dsg(), _dsg()], "the id '1' is used twice"),
        ([_dsg(), _dsg(text="u", proposition_id=2)], "entry 2: the id 'd' stands for 't' above and for 'u' here"),
        ([TIFA[0] | {"answer": "wolf"}], r"entry 1: the answer 'wolf' is none of the choices \['dog', 'cat'\]"),
        ([TIFA[0], TIFA[0] | {"choices": ["dog"]}], "asked twice with different choices"),
        ([{"prompt": "t", "dsg_questions": "q"}], "entry 1: expected `prompt` and a list `dsg_questions`"),
        ([{"prompt": "t", "dsg_questions": ["q"], "dsg_children": [2], "dsg_parents": ["0"]}], "numbered 1 to 1"),
        ({"a": 1, "b": 2}, "expected rows with"),
    ],
)
def test_bad_questions_are_named(tmp_path, rows, message):
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(rows))
    with pytest.raises(UsageError, match=message) as raised:
        read_questions(path)
    assert "questions.json" in str(raised.value)


def test_questions_find_their_prompts(tmp_path):
    path = tmp_path / "tifa.json"
    path.write_text(json.dumps(TIFA))
    sets = read_questions(path)
    prompts = tmp_path / "p.txt"
    prompts.write_text("two cats\na house\n")
    matched = match_questions(read_prompt_list(prompts), sets, source=path)
    assert list(matched) == ["00000"]
    prompts.write_text("a house\n")
    with pytest.raises(UsageError, match="no questions about any of the 1 prompts, such as 'a house'"):
        match_questions(read_prompt_list(prompts), sets, source=path)
