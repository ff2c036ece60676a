"""``verism annotate``: which tasks there are, making a study, how far it is, giving it away and taking answers in."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from fakes import PixelJudge

from verism.annotation.ratings import study_path
from verism.annotation.votes import VoteStore
from verism.manifest import RunSettings
from verism.pipeline.local import make_requests, run_images
from verism.pipeline.scoring import score_run
from verism.store import Run


@pytest.fixture
def run_dir(tmp_path, suite, scripted) -> Path:
    """A judged run of twelve rendered images, three of each skill."""
    return rendered(tmp_path / "mine", suite, scripted(0.5))


def rendered(path: Path, suite, generator) -> Path:
    judge = PixelJudge(name="eye")
    run = Run.start(path, RunSettings(suite=suite.name, suite_settings=suite.settings(), seed=5))
    run.write_prompts(suite.prompts())
    run_images(run, make_requests(run.prompts(), 1), generator, [(judge, need) for need in suite.needs()])
    score_run(run, suite, judges={"detector": judge.name})
    return path


def store_of(run_dir: Path, name: str = "study") -> VoteStore:
    return VoteStore.open(study_path(Run.open(run_dir), name))


def exported(in_process, run_dir: Path, out: Path, *arguments: object) -> list[dict[str, str]]:
    code, _, err = in_process("annotate", run_dir, *arguments, "--export", "table", "--to", out)
    assert code == 0, err
    return list(csv.DictReader(io.StringIO((out / "items.csv").read_text(), newline="")))


# --------------------------------------------------------------------------------------------------------- the study
def test_without_a_task_the_tasks_are_listed_and_nothing_is_made(in_process, run_dir):
    code, out, err = in_process("annotate", run_dir)
    assert code == 0
    for name in ("object", "count", "spatial", "color", "human", "alignment", "preference"):
        assert f"\n{name}\n" in f"\n{out}"
    assert "verism annotate" in err
    code, out, _ = in_process("annotate", run_dir, "--json")
    assert {task["name"] for task in json.loads(out)} >= {"count", "preference"}
    assert not (run_dir / "annotation").exists()


def test_the_first_call_draws_the_items_and_the_next_goes_on(in_process, run_dir):
    settings = ("--task", "alignment", "--per-cell", 2, "--by", "skill", "--overlap", 3, "--seed", 4)
    code, out, err = in_process("annotate", run_dir, *settings, "--draw")
    assert (code, "0 of 24 answers" in out) == (0, True)
    assert "8 items of 1 task, 0 checks" in err
    study = store_of(run_dir).study
    assert {json.loads(item.cell)["skill"] for item in study.items} == {"object", "count", "spatial", "color"}
    assert (study.overlap, study.seed, len(study.items)) == (3, 4, 8)
    assert in_process("annotate", run_dir, *settings, "--draw")[0] == 0
    assert in_process("annotate", run_dir, "--status")[0] == 0
    assert store_of(run_dir).study == study


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--overlap", 2), "made with --overlap 1, not 2"),
        (("--per-cell", 3), "made with --per-cell 2, not 3"),
        (("--seed", 1), "made with --seed 0, not 1"),
        (("--task", "human"), "does not ask 'human'; it asks alignment"),
    ],
)
def test_a_study_is_not_made_into_another(in_process, run_dir, asked, message):
    assert in_process("annotate", run_dir, "--task", "alignment", "--per-cell", 2, "--draw")[0] == 0
    code, _, err = in_process("annotate", run_dir, *asked, "--draw")
    assert code == 2
    assert message in err
    assert "--study" in err
    more = asked if "--task" in asked else ("--task", "alignment", *asked)
    assert in_process("annotate", run_dir, *more, "--study", "second", "--draw")[0] == 0
    assert store_of(run_dir, "second").study != store_of(run_dir).study


def test_tasks_of_ones_own_and_known_answers(in_process, run_dir, tmp_path):
    (tmp_path / "own.json").write_text(json.dumps([{"name": "blur", "question": "Blurred?", "options": ["yes", "no"]}]))
    first = Run.open(run_dir).read("images")["image_id"][0]
    (tmp_path / "gold.csv").write_text(f"item,task,answer\n{first},blur,no\n")
    code, out, err = in_process(
        "annotate", run_dir, "--tasks", tmp_path / "own.json", "--gold", tmp_path / "gold.csv", "--draw", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["wanted"] == 11
    assert [item.item for item in store_of(run_dir).study.items if item.check == "gold"] == [first]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "taste"), "no task 'taste'; there are"),
        (("--task", "preference"), "two runs"),
        (("--task", "count", "--by", "profession"), "no facet 'profession'"),
        (("--task", "count", "--study", "../x"), "no name for a study"),
        (("--task", "count", "--export", "table"), "--to is missing"),
        (("--task", "count", "--export", "mturk", "--to", "x"), "--image-url"),
        (("--task", "count", "--import", "none.csv"), "no such file"),
        (("--plan", "--half-width", 0), "must be positive"),
    ],
)
def test_what_cannot_be_is_refused(in_process, run_dir, arguments, message, monkeypatch):
    monkeypatch.chdir(run_dir.parent)
    code, _, err = in_process("annotate", run_dir, *arguments)
    assert code == 2
    assert message in err
    assert not (run_dir.parent / "x").exists()


def test_a_study_of_two_runs_shows_up_in_both(in_process, run_dir, tmp_path, suite, scripted):
    other = rendered(tmp_path / "other", suite, scripted(0.0))
    code, out, err = in_process("annotate", run_dir, other, "--task", "preference", "--draw")
    assert (code, "0 of 12 answers" in out) == (0, True), err
    rows = exported(in_process, run_dir, tmp_path / "out")
    assert {row["options"] for row in rows} == {"left | right | tie"}
    assert len(list((tmp_path / "out" / "pictures").iterdir())) == 24
    assert list((other / "annotation").glob("*.json"))


# --------------------------------------------------------------------------------------------------- raters, planning
def test_raters_get_links_with_tokens_of_their_own(in_process, run_dir):
    code, _, err = in_process("annotate", run_dir, "--task", "count", "--rater", "Ann", "--rater", "Bob")
    assert code == 0
    tokens = [line.partition("?token=")[2].split()[0] for line in err.splitlines() if "?token=" in line]
    store = store_of(run_dir)
    assert [store.rater_of_token(token).name for token in tokens] == ["Ann", "Bob"]
    assert tokens[0].encode() not in store.path.read_bytes()
    code, _, err = in_process("annotate", run_dir, "--rater", "Ann")
    assert (code, "already" in err) == (2, True)


def test_the_plan_says_how_many_answers_are_needed(in_process, run_dir):
    needed = {}
    for half_width in (0.7, 0.05):
        code, out, err = in_process("annotate", run_dir, "--plan", "--half-width", half_width, "--json")
        assert code == 0, err
        needed[half_width] = {(p["metric"], str(p["group"])): p["alone"] for p in json.loads(out)}
    assert {metric for metric, _ in needed[0.7]} == {"accuracy", "mean_accuracy"}
    # Shares of a half at worst: (1.96 x 0.5 / 0.7)^2 = 1.96 answers are enough, and (1.96 x 0.5 / 0.05)^2 = 384 more
    # than three images.
    assert all(1 <= number <= 3 for (metric, _), number in needed[0.7].items() if metric == "accuracy")
    assert set(needed[0.05].values()) == {None}
    code, out, _ = in_process("annotate", run_dir, "--plan")
    assert (code, out.startswith("answers needed for a 95 % interval of +- 0.05")) == (0, True)
    assert "images; generate more [" in out
    code, out, _ = in_process("annotate", run_dir, "--plan", "--half-width", 0.7)
    assert re.search(r"accuracy \(skill \w+\): \d+ with, \d+ without \[", out)
    assert not (run_dir / "annotation").exists()


# ---------------------------------------------------------------------------------------------------- away and back
def test_a_study_is_given_away_and_its_answers_are_taken_in(in_process, run_dir, tmp_path):
    rows = exported(in_process, run_dir, tmp_path / "out", "--task", "count", "--task", "alignment", "--per-cell", 2)
    with (tmp_path / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "task", "rater", "answer"])
        for row in rows:
            writer.writerow([row["item"], row["task"], "A1B2C3D4", row["options"].split(" | ")[1]])
        writer.writerow(["elsewhere", "count", "A1B2C3D4", "1"])
    code, out, err = in_process("annotate", run_dir, "--import", tmp_path / "answers.csv", "--json")
    assert code == 0, err
    assert f"skipped: answers.csv, row {len(rows) + 1}: the study has no item 'elsewhere'" in err
    assert f"{len(rows)} answers of 1 rater taken in" in err
    assert (json.loads(out)["votes"], json.loads(out)["wanted"]) == (len(rows), len(rows))
    assert "A1B2C3D4" not in out + err
    assert set(store_of(run_dir).ratings()["answer"]) == {"1", "2"}
    code, _, err = in_process("annotate", run_dir, "--import", tmp_path / "answers.csv")
    assert (code, "0 answers of 1 rater taken in" in err) == (0, True)
    code, out, _ = in_process("annotate", run_dir, "--status")
    assert f"{len(rows)} answered" in out


def test_status_imported_answers_beyond_the_overlap_do_not_fill_the_study(in_process, run_dir, tmp_path):
    rows = exported(in_process, run_dir, tmp_path / "out", "--task", "count", "--per-cell", 2, "--overlap", 2)
    with (tmp_path / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "rater", "answer"])
        writer.writerows([rows[0]["item"], rater, "1"] for rater in "ABCDE")
        writer.writerow([rows[1]["item"], "A", "1"])
    assert in_process("annotate", run_dir, "--import", tmp_path / "answers.csv")[0] == 0
    out = in_process("annotate", run_dir, "--status")[1]
    # Two of the first item and one of the second count; three raters more answered the first.
    assert f"3 of {2 * len(rows)} answers, and 3 more to the same items than the study asks for" in out
    progress = json.loads(in_process("annotate", run_dir, "--status", "--json")[1])
    assert (progress["votes"], progress["spare"], progress["wanted"]) == (3, 3, 2 * len(rows))


@pytest.mark.parametrize(
    ("kind", "file"),
    [("bundle", "index.html"), ("mturk", "1-count.html"), ("label-studio", "1-count.xml"), ("table", "items.csv")],
)
def test_every_kind_of_export_is_written(in_process, run_dir, tmp_path, kind, file):
    code, _, err = in_process(
        "annotate", run_dir, "--task", "count", "--export", kind, "--to", tmp_path / "out",
        "--image-url", "https://me.example/{name}",
    )  # fmt: skip
    assert code == 0, err
    assert f"wrote {tmp_path / 'out' / file}" in err
    assert len(list((tmp_path / "out" / "pictures").iterdir())) == 3
    code, _, err = in_process("annotate", run_dir, "--export", kind, "--to", tmp_path / "out", "--image-url", "{name}")
    assert (code, "holds something already" in err) == (2, True)


def test_annotate_status_makes_no_study(in_process, run_dir):
    code, _, err = in_process("annotate", run_dir, "--task", "alignment", "--status")
    assert code == 2
    assert "has no study 'study' yet; make one: verism annotate" in err
    assert not study_path(Run.open(run_dir), "study").exists()
