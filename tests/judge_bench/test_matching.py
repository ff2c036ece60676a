"""Judges held against rendered scenes by prompts, roles of other suites, and disturbances."""

import re
import zlib

import numpy as np
import polars as pl
import pytest

from verism import api
from verism.cards import read_card
from verism.errors import UsageError
from verism.judge_bench.bench import BenchSettings, Truth, run_bench
from verism.judge_bench.disturbances import DISTURBANCES, Strength, parse_disturbances
from verism.judge_bench.matching import nearest_prompts, question_about, word_overlap, words_of
from verism.records import Prompt, frame
from verism.store import TRUTH, Run


def wrong_about(image):
    """Every fourth image or so."""
    return zlib.crc32(image.encode()) % 4 == 0


class KnowsPrompts:
    """Answers, captions and vectors as if it saw the prompt of an image; of some images, the wrong one."""

    name = "knows@1"

    def __init__(self, out, role):
        self.out, self.role = out, role

    def _prompts(self):
        run = Run.open(self.out / "items" / "paintskills-prompts")
        texts = {p.prompt_id: p.text for p in run.prompts()}
        return {i: texts[p] for i, p in run.read("images").select("image_id", "prompt_id").iter_rows()}

    def _vector(self, text):
        vector = np.zeros(512)
        for word in re.findall(r"\w+", text):
            vector[zlib.crc32(word.encode()) % 512] += 1
        return vector.tolist()

    def embed_texts(self, texts):
        return frame("text_embeddings", [{"text": t, "judge": self.name, "vector": self._vector(t)} for t in texts])

    def observe(self, images, need):
        known, rows = self._prompts(), []
        for image in images:
            base = {"image_id": image.image_id, "judge": self.name}
            wrong = wrong_about(image.image_id)
            if self.role == "clip":
                vector = np.array(self._vector(known[image.image_id]))
                rows.append({**base, "vector": (-vector if wrong else vector).tolist()})
            elif self.role == "captioner":
                rows.append({**base, "text": None if wrong else known[image.image_id]})
            else:
                for question in need.questions[image.prompt_id]:
                    fits = question.text == question_about(known[image.image_id])
                    yes = fits or wrong  # of some images it says yes to everything
                    probability = 0.9 if yes else 0.2
                    answer = "yes" if yes else "no"
                    rows.append(
                        {
                            **base,
                            "question": question.text,
                            "answer": answer,
                            "value": answer,
                            "probability": probability,
                        }
                    )
        return frame(need.table, rows)


def on_bench(out, judge, role, *, limit=24, suites=("paintskills",), size=64):
    settings = BenchSettings(
        role=role, judges=(judge,), truth=Truth(seed=5), limit=limit, suites=suites, options=api.RunOptions(size=size)
    )
    return run_bench(settings, out, tell=lambda _: None)


def totals(board):
    """All tasks together: items, unusable, and of each class how many are right."""
    right = {"sensitivity": 0.0, "specificity": 0.0}
    for r in board.tasks:
        for rate in right:
            right[rate] += getattr(r, rate).value * (r.n_items - r.n_unusable) / 2
    return sum(r.n_items for r in board.tasks), sum(r.n_unusable for r in board.tasks), right


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    out = tmp_path_factory.mktemp("clip") / "B"
    return out, on_bench(out, KnowsPrompts(out, "clip"), "clip")


def test_a_preference_for_the_right_prompt_is_counted_with_its_planted_errors(images):
    out, board = images
    ids = Run.open(out / "items" / "paintskills-prompts").read("images")["image_id"].to_list()
    failed = sum(map(wrong_about, ids))
    assert 0 < failed < len(ids) == 24
    n, unusable, right = totals(board)
    assert (n, unusable) == (48, 0)
    assert right["sensitivity"] == right["specificity"] == pytest.approx(24 - failed)
    assert all(np.isnan(r.calibration) for r in board.tasks)  # a cosine is no probability
    assert all(r.n_pairs == r.n_items / 2 for r in board.tasks)


def test_wrong_prompts_have_the_form_of_the_right_ones_and_are_wrong_for_the_image(images):
    out, _ = images
    run = Run.open(out / "items" / "paintskills-prompts")
    table = run.read("text_embeddings", "knows@1")
    right = {p.text: p.facets["skill"] for p in run.prompts()}
    others = [t for t in table["text"] if t not in right]
    assert others
    for prompt in run.prompts():
        same_length = [t for t in table["text"] if len(t.split()) == len(prompt.text.split()) and t != prompt.text]
        assert same_length, prompt.text
        words = words_of(prompt.text)
        assert min(sum(a != b for a, b in zip(words, words_of(t), strict=True)) for t in same_length) <= 2


def test_answers_about_both_prompts_are_counted(tmp_path):
    out = tmp_path / "B"
    board = on_bench(out, KnowsPrompts(out, "vqa"), "vqa")
    ids = Run.open(out / "items" / "paintskills-prompts").read("images")["image_id"].to_list()
    n, unusable, right = totals(board)
    assert (n, unusable) == (48, 0)
    assert right["sensitivity"] == 24  # yes to every right one
    assert right["specificity"] == pytest.approx(24 - sum(map(wrong_about, ids)))
    assert all(not np.isnan(r.auc.value) for r in board.tasks)


def test_a_missing_caption_is_no_answer(tmp_path):
    out = tmp_path / "B"
    board = on_bench(out, KnowsPrompts(out, "captioner"), "captioner")
    ids = Run.open(out / "items" / "paintskills-prompts").read("images")["image_id"].to_list()
    n, unusable, right = totals(board)
    assert (n, unusable) == (48, 2 * sum(map(wrong_about, ids)))
    assert right["sensitivity"] == right["specificity"] == 24 - unusable / 2


class Copies:
    """Says what the ground truth says."""

    name = "copies@1"

    def __init__(self, out, suite):
        self.out, self.suite = out, suite

    def observe(self, images, need):
        rows = Run.open(self.out / "items" / self.suite).read(need.table, TRUTH)
        ids = [image.image_id for image in images]
        return rows.filter(pl.col("image_id").is_in(ids)).with_columns(pl.lit(self.name).alias("judge"))


@pytest.mark.parametrize(
    ("role", "suite", "tasks", "size", "limit"),
    [
        ("segmenter", "geneval", {"single_object", "counting", "presence of an object"}, 64, 24),
        ("ocr", "text_rendering", {"en"}, 256, 24),
        ("skin_tone", "social_bias", {"tone"}, 64, 12),
        ("vqa", "social_bias", {"gender", "attribute: a tie"}, 64, 12),
    ],
)
def test_ground_truth_as_a_judge_is_right_about_everything(tmp_path, role, suite, tasks, size, limit):
    out = tmp_path / "B"
    board = on_bench(out, Copies(out, suite), role, limit=limit, suites=(suite,), size=size)
    assert tasks <= {r.task for r in board.tasks}
    assert [r.task for r in board.tasks if r.right.value != 1] == []
    assert sum(r.n_items for r in board.tasks) >= 10


class SilentAboutTies(Copies):
    """Gives no usable answer to one of the questions, of any image."""

    def observe(self, images, need):
        about = pl.col("question").str.contains("tie")
        rows = super().observe(images, need)
        return rows.with_columns(
            *(pl.when(about).then(None).otherwise(pl.col(c)).alias(c) for c in ("value", "probability"))
        )


def test_a_question_without_any_usable_answer_is_on_board_and_card(tmp_path):
    out = tmp_path / "B"
    board = on_bench(out, SilentAboutTies(out, "social_bias"), "vqa", limit=12, suites=("social_bias",))
    (tie,) = [r for r in board.tasks if r.task == "attribute: a tie"]
    assert (tie.n_items, tie.n_unusable, tie.right.value, tie.trust) == (12, 12, 0, "not trusted")
    card = read_card(out / board.judges[0].cards[0])
    tables = [m for m in card.measured if dict(m.group) == {"attribute": "a tie"} and m.protocol == "revised"]
    assert [(sum(map(sum, m.counts)), sum(m.unusable)) for m in tables] == [(0, 12)]


def test_the_nearest_prompts_differ_in_the_fewest_words():
    texts = ["a red cat", "a red dog", "a blue cat", "a blue dog", "two red cats here", "a red cat"]
    prompts = [Prompt(prompt_id=str(k), suite="s", text=t, facets={"f": 1}) for k, t in enumerate(texts)]
    (near,) = nearest_prompts(prompts[:1], prompts, "f", seed=0)
    assert {p.text for p in near[:2]} == {"a red dog", "a blue cat"}
    assert [p.text for p in near[2:]] == ["a blue dog"]


def test_overlap_of_words_ignores_articles_and_plurals():
    assert word_overlap("There are two dogs", "a photo of 2 dogs") == 1
    assert word_overlap("a dog", "a photo of 2 dogs") == pytest.approx(2 / 3)
    assert word_overlap("the", "a photo") == 0


# -------------------------------------------------------------------------------------------------------- disturbances
@pytest.fixture
def noise():
    return np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)


@pytest.mark.parametrize("kind", DISTURBANCES)
def test_a_stronger_disturbance_changes_more_and_the_same_name_gives_the_same(kind, noise):
    weak, strong = (Strength(kind, s) for s in DISTURBANCES[kind].strengths)
    changed = [np.abs(s.applied(noise, "x").astype(int) - noise).mean() for s in (weak, strong)]
    assert 0 < changed[0] < changed[1]
    assert np.array_equal(weak.applied(noise, "x"), weak.applied(noise, "x"))
    assert weak.applied(noise, "x").shape == noise.shape


def test_occlusion_covers_the_stated_share(noise):
    covered = (Strength("occlusion", 0.25).applied(noise, "x") == 128).all(axis=2)
    assert covered.mean() == pytest.approx(0.25, abs=0.001)
    assert not np.array_equal(covered, (Strength("occlusion", 0.25).applied(noise, "y") == 128).all(axis=2))


def test_disturbances_are_read():
    assert parse_disturbances("blur=3, jpeg") == [Strength("blur", 3.0), Strength("jpeg", 40), Strength("jpeg", 10)]
    assert parse_disturbances("") == []
    with pytest.raises(UsageError, match=r"from 0.01 to 0.9"):
        parse_disturbances("occlusion=2")
    with pytest.raises(UsageError, match="Did you mean blur"):
        parse_disturbances("blurr")
