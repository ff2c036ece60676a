"""Suites that are scored block by block: scores, verdicts and remarks equal to the last bit for blocks of any size."""

import json
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from block_scoring import assert_equal_in_blocks
from fakes import ColourWords, Guesser, noise

from verism import api
from verism.annotation.agreement import agreement_report
from verism.annotation.ratings import Ratings
from verism.files import write_whole
from verism.imaging import encode_png
from verism.pipeline import scoring
from verism.pipeline.scoring import judges_of
from verism.records import frame
from verism.statistics.intervals import ClusterSums, clustered_average
from verism.suites.catalogue import stored_suite
from verism.suites.text_rendering.suite import TextRendering

QUESTIONS = ("tifa", "dsg", "dpg_bench", "oneig_alignment", "unigenbench", "genai_bench", "wise")


@pytest.mark.parametrize("suite", QUESTIONS)
def test_suites_of_questions(suite, tmp_path, monkeypatch):
    # Eleven images a prompt, so that the order of ids is not that of numbers.
    limit, n_images = 3, 11
    run = api.evaluate(suite, model=noise, vqa=Guesser(), limit=limit, n_images=n_images, out=tmp_path / "run")
    every = assert_equal_in_blocks(run, monkeypatch)
    assert b"if_unusable_wrong" in every
    for rules in ({"when_missing": "refused"}, {"average_over": "questions"}, {"images_counted": 3}):
        if {rule.name for rule in stored_suite(run).rules} >= set(rules):
            assert_equal_in_blocks(run, monkeypatch, sizes=(1,), **rules)


def test_people_beside_a_suite_of_questions_need_verdicts_alone(tmp_path, monkeypatch):
    run = api.evaluate("tifa", model=noise, vqa=Guesser(), limit=4, n_images=3, out=tmp_path / "run")
    suite, judges = stored_suite(run, rules=True), judges_of(run)
    every = scoring.observed_of(run, suite, judges), run.verdicts()
    ids = run.read("images")["image_id"].sort().to_list()
    (task,) = suite.rating_tasks()
    told = [
        {"item": i, "task": task.name, "rater": name, "answer": str(1 + (n * by) % 5), "seconds": 2.0,
         "source": "browser"}
        for name, by in (("Ada", 1), ("Bob", 2))
        for n, i in enumerate(ids)
    ]  # fmt: skip
    ratings = Ratings(table=frame("ratings", told), tasks={task.name: task})

    def report(known):
        return repr(agreement_report(run, suite, ratings, known, n_resamples=20))

    expected = report(every)
    assert "'graded': {" in expected
    monkeypatch.setattr(scoring, "observed_of", None)  # all observations are not read
    known = scoring.known_of(run, suite, judges)
    assert known[0].observations["answers"].height == 1
    assert report(known) == expected


WORDS = ("a", "dog", "runs", "two", "cats", "sit", "there", "red")


class Captioner:
    """Words out of a hash of the image, also such as no reference has, or none."""

    role = "captioner"
    name = "captioner-1"

    def check(self, need):
        pass

    def observe(self, images, need):
        rows = []
        for image in images:
            rng = np.random.default_rng([*image.image_id.encode()])
            words = rng.choice([*WORDS, "zebra", "old"], rng.integers(0, 7))
            text = None if rng.random() < 0.2 else " ".join(words)
            rows.append({"image_id": image.image_id, "judge": self.name, "text": text, "note": "no reply"})
        return frame(need.table, rows)


class SumsOfWords:
    """In place of METEOR: sums of numbers of words."""

    begun = 0
    captions: ClassVar[list[int]] = []

    def __enter__(self):
        SumsOfWords.begun += 1
        return self

    def __exit__(self, *_):
        pass

    def statistics(self, candidates, references):
        SumsOfWords.captions.append(len(candidates))
        words = [len(text.split()) + len(several) for text, several in zip(candidates, references, strict=True)]
        return np.ones((len(words), 23)) * np.array(words, dtype=float)[:, None]

    def values(self, statistics):
        return statistics[:, 0]


def numbers_of_words(candidates, references):
    """In place of SPICE."""
    return np.array([len(text.split()) / (9 * len(several)) for text, several in zip(candidates, references)])


@pytest.mark.parametrize("pool", [3, 90])  # the second is more than there are texts
def test_alignment(pool, tmp_path, monkeypatch):
    monkeypatch.setattr("verism.suites.alignment.suite.check_tools", lambda _: None)
    monkeypatch.setattr(SumsOfWords, "begun", 0)
    monkeypatch.setattr(SumsOfWords, "captions", [])
    monkeypatch.setattr("verism.suites.alignment.caption_scores.Meteor", SumsOfWords)
    monkeypatch.setattr("verism.metrics.captions.scores.spice", numbers_of_words)
    rng = np.random.default_rng(3)
    prompts, questions = [], ["item_id,text,proposition_id,dependency,category_broad,tuple,question_natural_language"]
    for place, number in enumerate((7, 30, 1, 12, 2, 9)):  # not in the order of the ids
        text = "two dogs" if place in (1, 3) else f"red thing {number}"
        references = [" ".join(rng.choice(WORDS, 5)) for _ in range(place % 3)]
        prompts.append({"id": f"p{number}", "prompt": text, "references": references, "style": place % 2})
        if place != 4:
            questions.append(f"p{number},{text},1,0,entity,t,Is there a dog of {number}?")
            questions.append(f"p{number},{text},2,1,attribute,t,Is the dog of {number} brown?")
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, prompts)), encoding="utf-8")
    (tmp_path / "questions.csv").write_text("\n".join(questions), encoding="utf-8")
    run = api.evaluate(
        "alignment", model=noise, prompts=tmp_path / "prompts.jsonl", questions=tmp_path / "questions.csv", n_images=11,
        captioner=Captioner(), clip=ColourWords(), vqa=Guesser(), out=tmp_path / "run", rules={"pool": pool},
    )  # fmt: skip
    rules = {"group_by": ["style"], "caption_metrics": ["meteor", "spice"]}
    every = assert_equal_in_blocks(run, monkeypatch, sizes=(25, 5, 1), **rules)
    assert SumsOfWords.begun == 4  # once for each scoring, groups and all
    assert sum(SumsOfWords.captions) / 4 == max(SumsOfWords.captions) == SumsOfWords.captions[0]
    assert len(SumsOfWords.captions) > 4 * 2  # by blocks, not all captions together
    for metric in (
        b"cider",
        b"meteor",
        b"spice",
        b"clipscore_hessel",
        b"r_precision",
        b"question_score_alone",
        b"vqascore",
    ):
        assert metric in every


class Scorer:
    """A score out of a hash of the image, or none; of some images the prompt is cut."""

    role = "scorer"
    name = "scorer-1"

    def check(self, need):
        pass

    def observe(self, images, need):
        rows = []
        for image in images:
            rng = np.random.default_rng([*image.image_id.encode()])
            score = None if rng.random() < 0.2 else rng.normal()
            rows.append(
                {"image_id": image.image_id, "judge": self.name, "score": score, "text_cut": rng.random() < 0.3}
            )
        return frame(need.table, rows)


def test_preference(tmp_path, monkeypatch):
    run = api.evaluate("preference", model=noise, scorer=Scorer(), limit=6, n_images=11, out=tmp_path / "run")
    assert_equal_in_blocks(run, monkeypatch, group_by=["skill"])
    assert any("longer than the scorer reads" in line for line in run.manifest.scoring.remarks)


@pytest.mark.parametrize("labels", [("z-good", "bad (1)"), ("a", "b"), ("a", "a/b")])
def test_preference_of_two_sets(labels, tmp_path, monkeypatch):
    (tmp_path / "prompts.jsonl").write_text(
        "".join(f'{{"prompt_id": "{name}", "prompt": "a cat {name}"}}\n' for name in ("p1", "p10", "b/p", "q2")),
        encoding="utf-8",
    )
    options = {"prompts": tmp_path / "prompts.jsonl", "label_a": labels[0], "label_b": labels[1]}
    for option, count in (("images", 4), ("images_b", 3)):
        rows = [f"{name},{tmp_path / option}-{name.replace('/', '-')}-{k}.png" for name in ("p1", "p10", "b/p", "q2")
                for k in range(count)]  # fmt: skip
        for number, row in enumerate(rows):
            write_whole(Path(row.partition(",")[2]), encode_png(noise("", number)))
        options[option] = tmp_path / f"{option}.csv"
        options[option].write_text("\n".join(["prompt_id,path", *rows]), encoding="utf-8")
    run = api.evaluate("preference", scorer=Scorer(), out=tmp_path / "run", **options)
    suite = stored_suite(run)
    assert suite.scored_in_blocks() == (labels != ("a", "a/b"))
    wins = run.verdicts().filter(pl.col("rule") == "win")
    assert wins["value"].n_unique() > 2  # won, lost, and not to be compared
    assert_equal_in_blocks(run, monkeypatch, when_missing="loses")


class Reader:
    """Reads the text that was asked for, all but some letters, or nothing; some images have no answer."""

    role = "ocr"
    name = "reader-1"

    def __init__(self, texts):
        self.texts = texts

    def check(self, need):
        pass

    def observe(self, images, need):
        rows = []
        for image in images:
            rng = np.random.default_rng([*image.image_id.encode()])
            text = "".join(letter for letter in self.texts[image.prompt_id] if rng.random() < 0.9)
            row = {"image_id": image.image_id, "judge": self.name, "level": "image", "line": -1, "word": -1}
            rows.append(row | {"text": text if rng.random() < 0.8 else None})
        return frame(need.table, rows)


@pytest.mark.parametrize("prompt_set", ["own", "longtext"])
def test_text_rendering(prompt_set, tmp_path, monkeypatch):
    options = {"limit": 4, "n_images": 11}
    if prompt_set == "longtext":
        records = [
            {"prompt": f'a sign "Stay {n} m away"', "text": [f"Stay {n} m away"], "length": 3, "prompt_id": n,
             "category": "label", "id": n}
            for n in range(3)
        ]  # fmt: skip
        (tmp_path / "text_prompts.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        options |= {"prompt_set": prompt_set, "prompts_file": tmp_path / "text_prompts.jsonl", "altered": True}
    suite = TextRendering.make(options)
    texts = {prompt.prompt_id: "\n".join(prompt.spec["texts"]) for prompt in suite.prompts()}
    run = api.evaluate(suite, model=noise, ocr=Reader(texts), out=tmp_path / "run")
    assert b"word_accuracy_if_unusable_wrong" in assert_equal_in_blocks(run, monkeypatch)


@pytest.mark.parametrize("in_block", [3, 1])
def test_sums_of_clusters_are_those_of_all_values(in_block):
    rng = np.random.default_rng(1)
    for values in (rng.random(40), rng.integers(0, 2, 40).astype(float), np.ones(40)):
        clusters = rng.integers(0, 9, 40)
        parts = [
            ClusterSums.of(values[np.isin(clusters, some)], clusters[np.isin(clusters, some)])
            for some in np.array_split(rng.permutation(10), 10 // in_block)
        ]
        assert ClusterSums.joined(parts).average(bounds=(0.0, 1.0)) == clustered_average(
            values, clusters, bounds=(0.0, 1.0)
        )
    with pytest.raises(ValueError, match="share a cluster"):
        ClusterSums.joined([parts[0], parts[0]])


def black_if_asked(prompt, seed):
    return noise(prompt, seed) * (0 if "black" in prompt else 1)


@pytest.mark.parametrize("ids", [("7", "3", "1", "9", "12", "2"), ("1", "2", "3", "4", "5", "6")])
def test_text_rendering_where_black_images_take_the_readings_of_the_prompt_before(ids, tmp_path, monkeypatch):
    # The prompt before is that in the list, whatever its id. The first prompt has none, two black ones have the same.
    about = ("a black sign", "a sign", "a black wall", "a black board", "a board", "a black door")
    prompts = ["category,id,prompt_en,type,prompt_length,class"]
    texts = ["id,text_content"]
    for number, (name, text) in enumerate(zip(ids, about, strict=True)):
        prompts.append(f"Text_Rendering,{name},{text},NP,short,sign")
        texts.append(f"{name},Stay {number} m away")
    (tmp_path / "OneIG-Bench.csv").write_text("\n".join(prompts), encoding="utf-8")
    (tmp_path / "text_content.csv").write_text("\n".join(texts), encoding="utf-8")
    suite = TextRendering.make(
        {"prompt_set": "oneig_text", "prompts_file": tmp_path, "altered": True, "n_images": 3, "grid": 1}
    )
    wanted = {prompt.prompt_id: prompt.spec["texts"][0] for prompt in suite.prompts()}
    run = api.evaluate(suite, model=black_if_asked, ocr=Reader(wanted), out=tmp_path / "run")
    assert b"oneig_score" in assert_equal_in_blocks(run, monkeypatch, sizes=(7, 2, 1))
    released = run.verdicts().filter(pl.col("rule") == "oneig").sort("image_id")
    again = released.filter(pl.col("reason").str.contains("prompt before"))
    assert set(again["prompt_id"]) == {f"{int(ids[number]):03d}" for number in (2, 3, 5)}
