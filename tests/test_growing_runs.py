"""Runs that grow: images stay, more are added, and the numbers are those of a fresh run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from fakes import PixelJudge

import verism
from verism.errors import UsageError
from verism.records import AnswerNeed, DetectionNeed, EmbeddingNeed, Question, frame
from verism.store import Run, SettingsChanged, score_records
from verism.suites.catalogue import make_suite, suite_class, suite_entries

ASKED = {"skills": ["object", "count"]}


def paint(prompt: str, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, len(prompt)]).integers(0, 200, (16, 16, 3), dtype=np.uint8)


class Painter:
    """Counts the images it makes."""

    name = "painter@1"

    def __init__(self) -> None:
        self.made: list[str] = []

    def generate(self, requests):
        from verism.records import Result

        for request in requests:
            self.made.append(request.image_id)
            yield Result(image_id=request.image_id, state="ok", pixels=paint(request.prompt.text, request.seed))


class Decider:
    """A VQA model whose answers depend on image and question alone; it notes which images it was shown."""

    def __init__(self, name: str = "decider@1") -> None:
        self.name = name
        self.seen: list[str] = []

    def observe(self, images, need):
        rows = []
        for image in images:
            self.seen.append(image.image_id)
            questions = need.questions.get(image.prompt_id, ())
            if not questions:
                rows.append({"image_id": image.image_id, "judge": self.name})
            for q in questions:
                digest = hashlib.sha256(f"{image.image_id}{q.text}".encode()).digest()[0]
                answer = (q.choices or ("yes", "no"))[digest % len(q.choices or "yn")]
                given = {"question": q.text, "answer": answer, "value": answer, "probability": None, "note": None}
                rows.append({"image_id": image.image_id, "judge": self.name} | given)
        return frame("answers", rows)


def scores_of(run: Run) -> list[dict[str, object]]:
    return score_records(Run.open(run.path).scores())


# --------------------------------------------------------------------------------------------------------------- draws
def _sources(tmp_path: Path) -> dict[str, dict[str, Path]]:
    prompts = tmp_path / "prompts.csv"
    prompts.write_text("prompt\n" + "".join(f"thing number {k}\n" for k in range(60)), encoding="utf-8")
    return {"quality": {"prompts": prompts}, "alignment": {"prompts": prompts}}


@pytest.mark.parametrize("name", [n for n in suite_entries() if n not in ("geneval2", "unsafe_content")])
def test_larger_limit_asks_all_prompts_of_a_smaller_one_unchanged(name, tmp_path):
    if not any(option.name == "limit" for option in suite_class(name).options):
        pytest.skip("no limit")
    given = _sources(tmp_path).get(name, {})
    drawn = [
        {p.prompt_id: p for p in make_suite(name, limit=limit, seed=3, **given).prompts()}
        for limit in (3, 7, 8, 20, 41)
    ]
    for small, large in zip(drawn, drawn[1:], strict=False):
        assert all(large.get(prompt_id) == prompt for prompt_id, prompt in small.items())
    assert len(drawn[-1]) > len(drawn[0])


# -------------------------------------------------------------------------------------------------------------- growth
def test_run_grows_by_limit_and_scores_as_a_fresh_run(tmp_path):
    painter, judge = Painter(), PixelJudge()
    first = verism.evaluate("paintskills", model=painter, detector=judge, out=tmp_path / "run", limit=6, **ASKED)
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "run/images").glob("*.png")}
    before = set(painter.made)
    grown = verism.evaluate("paintskills", model=painter, detector=judge, out=tmp_path / "run", limit=11, **ASKED)
    assert len(painter.made) == len(set(painter.made)) == 11
    assert len(judge.seen) == len(set(judge.seen)) == 11
    assert len(before) == 6
    assert all(p.stat().st_mtime_ns == t for p, t in files.items())
    fresh = verism.evaluate(
        "paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "fresh", limit=11, **ASKED
    )
    assert scores_of(grown) == scores_of(fresh)
    assert grown.manifest.settings == fresh.manifest.settings
    assert [p.prompt_id for p in grown.prompts()] == [p.prompt_id for p in fresh.prompts()]
    assert verism.verify(tmp_path / "run").is_whole
    assert first.path == grown.path


def test_run_grows_by_skills(tmp_path):
    painter, judge = Painter(), PixelJudge()
    verism.evaluate("paintskills", model=painter, detector=judge, out=tmp_path / "run", limit=2, seed=3)
    grown = verism.evaluate("paintskills", model=painter, detector=judge, out=tmp_path / "run", limit=7, seed=3)
    assert len(painter.made) == len(set(painter.made)) == 7
    fresh = verism.evaluate("paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "b", limit=7, seed=3)
    assert scores_of(grown) == scores_of(fresh)
    assert grown.manifest.settings == fresh.manifest.settings
    with pytest.raises(UsageError, match="grows but does not shrink"):
        verism.evaluate("paintskills", model=painter, detector=judge, out=tmp_path / "run", limit=1, seed=3)


def test_run_grows_by_images_per_prompt(tmp_path):
    options = {"limit": 4, **ASKED}
    painter = Painter()
    verism.evaluate("paintskills", model=painter, detector=PixelJudge(), out=tmp_path / "run", n_images=1, **options)
    grown = verism.evaluate(
        "paintskills", model=painter, detector=PixelJudge(), out=tmp_path / "run", n_images=3, **options
    )
    assert len(painter.made) == len(set(painter.made)) == 12
    fresh = verism.evaluate(
        "paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "fresh", n_images=3, **options
    )
    assert scores_of(grown) == scores_of(fresh)


def test_run_of_questions_grows_and_scores_as_a_fresh_run(tmp_path):
    judge = Decider()
    verism.evaluate("tifa", model=Painter(), vqa=judge, out=tmp_path / "run", limit=3)
    grown = verism.evaluate("tifa", model=Painter(), vqa=judge, out=tmp_path / "run", limit=8)
    fresh = verism.evaluate("tifa", model=Painter(), vqa=Decider(), out=tmp_path / "fresh", limit=8)
    assert len(judge.seen) == len(set(judge.seen)) == 8
    assert scores_of(grown) == scores_of(fresh)


def test_run_shrinks_never_and_says_what_to_do(tmp_path):
    verism.evaluate("paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "run", limit=6, **ASKED)
    with pytest.raises(UsageError, match=r"holds 6 images of 6 prompts, and 5 of 5 are asked for.*another --out"):
        verism.evaluate("paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "run", limit=5, **ASKED)
    assert len(Run.open(tmp_path / "run").prompts()) == 6


def test_run_with_another_seed_is_another_run(tmp_path):
    verism.evaluate("paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "run", limit=6, **ASKED)
    with pytest.raises(SettingsChanged, match="seed: 0 there, 1 now"):
        verism.evaluate(
            "paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "run", limit=9, seed=1, **ASKED
        )


def test_shuffled_run_does_not_grow_and_its_name_says_shuffled(tmp_path):
    options = {"model": Painter(), "detector": PixelJudge(), "out": tmp_path / "run", "shuffle": True, **ASKED}
    run = verism.evaluate("paintskills", limit=6, **options)
    assert run.manifest.settings.generator == "shuffled:seed=0(painter@1)"
    with pytest.raises(UsageError, match="cannot grow: with --shuffle"):
        verism.evaluate("paintskills", limit=8, **options)
    with pytest.raises(SettingsChanged, match="generator: 'shuffled"):
        verism.evaluate("paintskills", limit=6, **(options | {"shuffle": False}))


def test_shuffled_run_of_an_earlier_version_is_resumed(tmp_path):
    from dataclasses import replace

    options = {"model": Painter(), "detector": PixelJudge(), "out": tmp_path / "run", "shuffle": True, **ASKED}
    run = verism.evaluate("paintskills", limit=6, **options)
    run.resettle(replace(run.manifest.settings, generator="painter@1"))  # as it was named then
    scores = scores_of(run)
    assert scores_of(verism.evaluate("paintskills", limit=6, **options)) == scores


def test_growth_stopped_after_the_prompts_goes_on(tmp_path, monkeypatch):
    verism.evaluate("paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "run", limit=6, **ASKED)

    def stopped(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_write_manifest", stopped)
        with pytest.raises(KeyboardInterrupt):
            verism.evaluate(
                "paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "run", limit=9, **ASKED
            )
    assert Run.open(tmp_path / "run").manifest.settings.suite_settings["limit"] == 6
    grown = verism.evaluate(
        "paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "run", limit=9, **ASKED
    )
    fresh = verism.evaluate(
        "paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "fresh", limit=9, **ASKED
    )
    assert scores_of(grown) == scores_of(fresh)
    assert verism.verify(tmp_path / "run").is_whole


def test_judges_that_were_asked_less_observe_all_images_again(tmp_path):
    class Wider(suite_class("paintskills")):  # type: ignore[misc]
        def needs(self):
            need = super().needs()[0]
            return [DetectionNeed(classes=need.classes[: 5 + len(self.prompts())], colors=need.colors)]

    judge = PixelJudge()

    def run(limit: int) -> Run:
        suite = Wider.make({"limit": limit, **ASKED})
        return verism.evaluate(suite, model=Painter(), detector=judge, out=tmp_path / "run")

    from verism.pipeline import continuation

    original = continuation.stored_suite
    try:
        continuation.stored_suite = lambda run: Wider.reopen(run.manifest.settings.suite_settings, run.prompts())
        run(2)
        assert len(judge.seen) == 2
        run(4)
    finally:
        continuation.stored_suite = original
    assert len(judge.seen) == 6
    assert len(set(judge.seen)) == 4


def test_need_covers_an_earlier_one_that_asks_less():
    one, two = {"a": (Question(text="A?"),)}, {"a": (Question(text="A?"),), "b": (Question(text="B?"),)}
    assert AnswerNeed(questions=two).covers(AnswerNeed(questions=one))
    assert not AnswerNeed(questions=one).covers(AnswerNeed(questions=two))
    assert not AnswerNeed(questions=two, weighed=True).covers(AnswerNeed(questions=one))
    assert EmbeddingNeed(texts=("x", "y")).covers(EmbeddingNeed(texts=("y",)))
    assert not DetectionNeed(classes=("dog", "cat")).covers(DetectionNeed(classes=("dog",)))


# ---------------------------------------------------------------------------------------------- generate, then observe
def test_generate_asks_no_judge_and_observe_scores_it_as_evaluate_does(tmp_path):
    made = verism.generate("paintskills", model=Painter(), out=tmp_path / "run", limit=5, **ASKED)
    assert not made.is_scored
    assert made.manifest.settings.judges == {}
    more = verism.generate("paintskills", model=Painter(), out=tmp_path / "run", limit=7, **ASKED)
    assert more.image_summary().states == {"ok": 7}
    verism.observe(tmp_path / "run", PixelJudge())
    fresh = verism.evaluate(
        "paintskills", model=Painter(), detector=PixelJudge(), out=tmp_path / "fresh", limit=7, **ASKED
    )
    assert scores_of(more) == scores_of(fresh)
    # `verism run` on it adds the judge to its settings, and generates nothing.
    painter = Painter()
    again = verism.evaluate("paintskills", model=painter, detector=PixelJudge(), out=tmp_path / "run", limit=7, **ASKED)
    assert painter.made == []
    assert scores_of(again) == scores_of(fresh)
    assert again.manifest.settings.judges == {"detector": "pixel-judge@1"}
    with pytest.raises(UsageError, match="generate asks no judge: leave out --detector"):
        verism.generate("paintskills", model=Painter(), out=tmp_path / "b", detector="builtin", limit=2)


def test_generated_images_that_are_lost_are_made_again(tmp_path):
    made = verism.generate("paintskills", model="scripted:", out=tmp_path / "run", limit=2, size=64, skills=["object"])
    lost = next((tmp_path / "run/images").glob("*.png"))
    lost.unlink()
    found, left = verism.repair(made)
    assert found.is_whole
    assert left == []
    assert len(list((tmp_path / "run/images").glob("*.png"))) == 2


def test_failed_judge_gives_way_to_another(tmp_path):
    class Failing(PixelJudge):
        def observe(self, images, need):  # noqa: ARG002
            raise UsageError("no answer")

    options = {"model": Painter(), "out": tmp_path / "run", "limit": 5, **ASKED}
    with pytest.raises(UsageError, match="no answer"):
        verism.evaluate("paintskills", detector=Failing(name="failing@1"), **options)
    run = verism.evaluate("paintskills", detector=PixelJudge(), **options)
    assert run.is_scored
    assert run.manifest.settings.judges == {"detector": "pixel-judge@1"}
    # Once there are scores, another judge is what `verism observe` is for.
    with pytest.raises(SettingsChanged, match=r"verism observe .*run --detector NAME"):
        verism.evaluate("paintskills", detector=PixelJudge(name="other@1"), **options)


# ----------------------------------------------------------------------------------------------- answers from elsewhere
@pytest.mark.parametrize("form", ["csv", "json"])
def test_questions_of_a_run_come_back_as_results(tmp_path, form):
    import json

    from verism.exports.questions import question_table
    from verism.files import csv_text, read_rows
    from verism.suites.catalogue import stored_suite

    run = verism.generate("tifa", model=Painter(), out=tmp_path / "run", limit=3)
    table = question_table(stored_suite(run), run=run)
    assert table.role == "vqa"
    assert table.n_images == 3
    file = tmp_path / f"questions.{'csv' if form == 'csv' else 'jsonl'}"
    file.write_text(table.csv() if form == "csv" else "\n".join(table.json_lines()), encoding="utf-8")
    rows = [dict(row) for row in read_rows(file, "questions")]
    assert all(Path(row["path"]).is_file() for row in rows)
    decided = Decider()
    need = next(iter(stored_suite(run).needs()))
    by_text = {q.text: q for questions in need.questions.values() for q in questions}
    for row in rows:
        q = by_text[row["question"]]
        digest = hashlib.sha256(f"{row['image_id']}{q.text}".encode()).digest()[0]
        row["answer"] = (q.choices or ("yes", "no"))[digest % len(q.choices or "yn")]
    answers = tmp_path / f"answers.{'csv' if form == 'csv' else 'jsonl'}"
    if form == "csv":
        answers.write_text(csv_text(list(rows[0]), [list(r.values()) for r in rows], raw=True), encoding="utf-8")
    else:
        answers.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    verism.observe(run, vqa=f"results:{answers}")
    fresh = verism.evaluate("tifa", model=Painter(), vqa=decided, out=tmp_path / "fresh", limit=3)
    values = {(s["metric"], str(s["group"])): s["value"] for s in scores_of(run)}
    assert values == {(s["metric"], str(s["group"])): s["value"] for s in scores_of(fresh)}


@pytest.mark.parametrize("name", [n for n in suite_entries() if n not in ("geneval2", "unsafe_content", "quality")])
def test_questions_of_every_suite_that_asks_any_can_be_written(name, tmp_path):
    from verism.exports.questions import answerable_roles, question_table

    given = _sources(tmp_path).get(name, {})
    suite = make_suite(name, limit=2, **given)
    for role in answerable_roles(suite):
        table = question_table(suite, role=role)
        assert table.rows
        assert table.csv().count("\n") >= len(table.rows)
        assert len(list(table.json_lines())) == len(table.rows)
